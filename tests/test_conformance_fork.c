/* test_conformance_fork.c - the conformance suite with a real process for each rank, forked as replays are: the
 * only test in which signals and data really race.
 *
 * Method: every process runs the programs of its own rank through live_world_run(); the exit status of the run
 * says whether any of them saw a rule broken. */
#include <stdio.h>
#include <unistd.h>
#include "tests/support_conformance.h"
#include "tests/support_live.h"
#include "tests/unit.h"

struct process_world {
    struct live_world *world;
    struct bootstrap *bootstrap;
};

static bool fail_with(GError *error, char *why, size_t why_size)
{
    snprintf(why, why_size, "%s", error->message);
    g_error_free(error);
    return false;
}

static bool process_run(void *context, struct fabric_worker **worker, uint32_t count, char *why, size_t why_size)
{
    struct process_world *process = context;
    GError *error = NULL;
    return live_world_run(process->world, worker, count, &error) || fail_with(error, why, why_size);
}

static bool process_barrier(void *context, char *why, size_t why_size)
{
    struct process_world *process = context;
    GError *error = NULL;
    return bootstrap_barrier(process->bootstrap, &error) || fail_with(error, why, why_size);
}

static void process_report(void *context, const char *name, const char *why)
{
    const struct process_world *process = context;
    if (why[0]) fprintf(stderr, "\n      rank %u: %s: %s\n", process->bootstrap->rank, name, why);
}

/* A run's options, and the rank that breaks a rule on purpose (-1: none). */
struct process_case {
    struct live_options options;
    int32_t traitor;
    uint64_t seed;
};

/* A write that reports success and moves nothing.  A smaller fault would do nothing: an early signal is noticed only if
 * the peer happens to look in between. */
static int lose(struct fabric *f, struct fabric_worker *w, const struct fabric_write *write)
{
    (void)f, (void)w, (void)write;
    return 0;
}

static int process_main(struct bootstrap *b, void *context)
{
    const struct process_case *c = context;
    const struct fabric_needs needs = { CONFORMANCE_HEAP_BYTES, CONFORMANCE_WORDS, CONFORMANCE_QUEUES,
                                        CONFORMANCE_DEPTH, 0 };
    struct process_world process = { live_world_new(&c->options, &needs, b, NULL), b };
    if (!process.world) return 3;
    struct fabric *fabric[CONFORMANCE_RANKS] = { NULL };
    fabric[b->rank] = live_world_fabric(process.world);
    struct fabric_ops ops = *fabric[b->rank]->ops;
    ops.store = ops.put = lose;
    if ((int32_t)b->rank == c->traitor) fabric[b->rank]->ops = &ops;
    const struct conformance_world world = {
        .context = &process,
        .rank_count = b->rank_count,
        .fabric = fabric,
        .run = process_run,
        .barrier = process_barrier,
        .report = process_report,
    };
    const uint32_t failed = conformance_run(&world, c->seed);
    const bool met = bootstrap_barrier(b, NULL);
    live_world_free(process.world);
    return failed || !met ? 4 : 0;
}

TEST("processes")
{
    struct process_case c = { .traitor = -1 };
    for (c.seed = 1; c.seed <= 3; c.seed++) {
        live_options_init(&c.options);
        CU_ASSERT_EQUAL(bootstrap_fork_run(4, 60000, process_main, &c), 0);
        c.options.fabric = "shm";
        c.options.ranks_per_node = 2;
        CU_ASSERT_EQUAL(bootstrap_fork_run(4, 60000, process_main, &c), 0);
        c.options.nvlink_disabled = true;
        CU_ASSERT_EQUAL(bootstrap_fork_run(3, 60000, process_main, &c), 0);
    }
}

/* More ranks than CPUs, whatever machine this is. */
TEST("crowd")
{
    struct process_case c = { .traitor = -1, .seed = 4 };
    live_options_init(&c.options);
    c.options.fabric = "shm";
    c.options.ranks_per_node = 4;
    CU_ASSERT_EQUAL(bootstrap_fork_run(CONFORMANCE_RANKS, 60000, process_main, &c), 0);
}

/* One process that breaks a rule makes the whole run fail, so that the above can fail. */
TEST("traitor")
{
    struct process_case c = { .traitor = 1, .seed = 5 };
    live_options_init(&c.options);
    c.options.timeout_ms = 2000;
    const int standard_error = dup(STDERR_FILENO);
    CU_ASSERT_PTR_NOT_NULL(freopen("/dev/null", "w", stderr));
    CU_ASSERT_NOT_EQUAL(bootstrap_fork_run(2, 10000, process_main, &c), 0);
    fflush(stderr);
    dup2(standard_error, STDERR_FILENO);
    close(standard_error);
}
