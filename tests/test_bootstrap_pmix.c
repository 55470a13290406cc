/* test_bootstrap_pmix.c - exchanges between ranks that mpirun started.
 *
 * Method: for each case, the program runs itself under mpirun, and compares the exit status and what all ranks wrote.
 * Where there is no mpirun, or no PMIx in this build, it checks that the refusal says so. */
#include "replay/bootstrap/bootstrap.h"
#include "tests/support_bootstrap.h"
#include "tests/support_catch.h"
#include "tests/unit.h"

#include <glib.h>
#include <stdlib.h>
#include <unistd.h>

/* The PMIx library never frees some of its memory. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) { return "leak:libpmix\nleak:libevent\nleak:PMIx_Init\n"; }

static const char *self_path;

/* --- as a rank --- */

static int report(const struct bootstrap *b, GError *error)
{
    fprintf(stderr, "[%u: %s]\n", b ? b->rank : 0, error->message);
    g_error_free(error);
    return 3;
}

static int run_exchanges(struct bootstrap *b)
{
    GError *error = NULL;
    if (!exchanges_run(b, 300001, &error)) return error ? report(b, error) : 9;
    fprintf(stderr, "[%u of %u: exchanged]\n", b->rank, b->rank_count);
    return 0;
}

static int run_sizes_differ(struct bootstrap *b)
{
    uint8_t in[16] = { 0 }, out[64];
    GError *error = NULL;
    return bootstrap_allgather(b, in, b->rank == 1 ? 16 : 8, out, &error) ? 0 : report(b, error);
}

static int run_timeout(struct bootstrap *b)
{
    GError *error = NULL;
    if (b->rank == 1) {
        pause();
        return 0;
    }
    return bootstrap_barrier(b, &error) ? 0 : report(b, error);
}

static int run_gives_up(struct bootstrap *b)
{
    GError *error = NULL;
    if (b->rank == 1) {
        bootstrap_abort(b, "no trace");
        return 2;
    }
    return bootstrap_barrier(b, &error) ? 0 : report(b, error);
}

static int rank_main(const char *name)
{
    static const struct {
        const char *name;
        int (*run)(struct bootstrap *b);
        uint32_t timeout_ms;
    } cases[] = {
        { "exchanges", run_exchanges, 60000 },
        { "sizes", run_sizes_differ, 60000 },
        { "timeout", run_timeout, 1000 },
        { "gives-up", run_gives_up, 60000 },
    };
    GError *error = NULL;
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        if (strcmp(cases[i].name, name) != 0) continue;
        struct bootstrap *const b = bootstrap_pmix_new(cases[i].timeout_ms, &error);
        if (!b) return report(NULL, error);
        const int status = cases[i].run(b);
        bootstrap_free(b);
        return status;
    }
    return 8;
}

/* --- as the test --- */

static bool can_run(void)
{
#ifdef HAVE_PMIX
    g_autofree char *mpirun = g_find_program_in_path("mpirun");
    const bool can = mpirun != NULL;
    return can;
#else
    return false;
#endif
}

static char *mpirun(const char *name, int *status)
{
    const char *const arguments[] = { "mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "3", self_path, name,
                                      NULL };
    GError *error = NULL;
    catch_start();
    const gboolean ran =
        g_spawn_sync(NULL, (gchar **)arguments, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, NULL, NULL, status, &error);
    char *const text = catch_end();
    g_assert_no_error(error);
    CU_ASSERT_FATAL(ran);
    CU_ASSERT(WIFEXITED(*status));
    *status = WEXITSTATUS(*status);
    return text;
}

TEST("under mpirun")
{
    static const struct {
        const char *name, *message;
        bool ok;
    } cases[] = {
        { "exchanges", "[2 of 3: exchanged]", true },
        { "sizes", "exchange 1: rank 1 brought 16 bytes, rank ", false },
        { "timeout", ": rank 1 did not come to exchange 1 within 1000 ms]", false },
        { "gives-up", ": rank 1 gave up: no trace]", false },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases) && can_run(); i++) {
        int status;
        g_autofree char *text = mpirun(cases[i].name, &status);
        CU_ASSERT_EQUAL(status == 0, cases[i].ok);
        ASSERT_CONTAINS(text, cases[i].message);
    }
    if (!can_run()) fprintf(stderr, "no mpirun or no PMIx in this build: exchanges not tested\n");
}

TEST("refusal elsewhere")
{
    g_autoptr(GError) error = NULL;
    g_unsetenv("PMIX_RANK");
    CU_ASSERT_PTR_NULL(bootstrap_pmix_new(1000, &error));
    CU_ASSERT_EQUAL(error_status(error), EXIT_BAD_INPUT);
    ASSERT_CONTAINS(error->message, "PMIx");
    ASSERT_CONTAINS(error->message, "started by mpirun");
}

TEST("detection")
{
    static const char *const names[] = { "PMIX_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_STEP_NUM_TASKS" };
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) g_unsetenv(names[i]);
    CU_ASSERT_FALSE(bootstrap_pmix_detected());
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        g_setenv(names[i], "2", TRUE);
        CU_ASSERT_TRUE(bootstrap_pmix_detected());
        g_unsetenv(names[i]);
    }
    g_setenv("SLURM_STEP_NUM_TASKS", "1", TRUE);
    CU_ASSERT_FALSE(bootstrap_pmix_detected());
    g_unsetenv("SLURM_STEP_NUM_TASKS");
}

/* mpirun starts this program again.  Its argument names what a rank is to do. */
bool unit_begin(char **argv)
{
    alarm(300);
    if (argv[1]) exit(rank_main(argv[1]));
    self_path = argv[0];
    return true;
}
