/* test_agenda.c - kernels that an agenda launches: ranks that launch at different times, ranks that meet, and hangs. */
#include "models/hardware/world/agenda.h"
#include "models/hardware/world/world.h"
#include "tests/support_sim.h"
#include "tests/unit.h"

#include <stdio.h>

enum { RANKS = 2, KERNELS = 2, LATE_US = 50 };
#define US UINT64_C(1000000)

/* Signals the other rank, and waits for the other rank's signal. */
struct meeting {
    struct fabric_worker worker;
    uint32_t kernel;
    bool told;
};

static enum worker_step meeting_step(struct fabric_worker *w)
{
    struct meeting *m = fabric_container_of(w, struct meeting, worker);
    const struct fabric_signal signal = { .value = m->kernel + 1, .word = 0, .peer = (uint16_t)(1 - w->fabric->rank) };
    if (!m->told && fabric_signal(w, &signal) == 0) m->told = true;
    return m->told && fabric_load(w->fabric, 0) > m->kernel ? WORKER_DONE : WORKER_WAIT;
}

static void meeting_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    snprintf(text, text_size, "waits for rank %d", 1 - w->fabric->rank);
}

static const struct worker_role meeting_role = { .step = meeting_step, .describe = meeting_describe };

struct bench {
    struct world *world;
    struct meeting meeting[RANKS];
    struct fabric_worker *worker[RANKS];
    uint32_t begun[RANKS], ended[RANKS], most[RANKS]; /* kernels begun; kernels ended; kernels that a rank launches in
                                                       * all */
    uint64_t end_ps[RANKS][KERNELS], start_ps;
    struct world_result result[RANKS][KERNELS];
};

static void kernel_begin(struct bench *b, uint32_t rank)
{
    struct meeting *m = &b->meeting[rank];
    *m = (struct meeting){ .worker = { .fabric = world_fabric(b->world, rank), .warps = 1 },
                           .kernel = b->begun[rank]++ };
    m->worker.role = worker_role_number(&m->worker.fabric->roles, &meeting_role);
    b->worker[rank] = &m->worker;
    fabric_watch(&m->worker, 0, 1, 0);
    world_kernel_begin(b->world, rank, &b->worker[rank], 1);
}

/* Rank 0 begins at once, rank 1 late. */
static void begin(void *context)
{
    struct bench *b = context;
    b->start_ps = world_clock_ps(b->world, 0);
    world_timer_set(b->world, 1, b->start_ps + 2 * LATE_US * US);
    world_timer_set(b->world, 1, b->start_ps + LATE_US * US); /* moves the timer that was set before */
    kernel_begin(b, 0);
}

static void timer(void *context, uint32_t rank) { kernel_begin(context, rank); }

static void ended(void *context, uint32_t rank, const struct world_result *result)
{
    struct bench *b = context;
    const uint32_t kernel = b->ended[rank]++;
    b->end_ps[rank][kernel] = world_clock_ps(b->world, rank) - b->start_ps;
    b->result[rank][kernel] = *result;
    if (b->begun[rank] < b->most[rank]) kernel_begin(b, rank);
}

static bool bench_run(struct bench *b, char *text, size_t text_size)
{
    const struct cluster cluster = support_cluster(RANKS);
    const struct world_options options = {
        .ranks = RANKS, .ranks_per_node = RANKS, .needs = { .word_count = 1 }, .agenda = true
    };
    const struct world_agenda agenda = { .begin = begin, .timer = timer, .ended = ended, .context = b };
    b->world = world_new(&cluster, &options);
    CU_ASSERT_FATAL(b->world != NULL);
    const bool good = world_run_agenda(b->world, &agenda, text, text_size);
    world_free(b->world);
    return good;
}

TEST("ranks launch at their own times and meet")
{
    struct bench b = { .most = { KERNELS, KERNELS } };
    char text[128] = "";
    CU_ASSERT_TRUE(bench_run(&b, text, sizeof text));
    for (uint32_t r = 0; r < RANKS; r++) CU_ASSERT_EQUAL(b.ended[r], KERNELS);
    /* Rank 0's first kernel waits until rank 1 begins.  In the second kernels no rank waits for long. */
    CU_ASSERT_TRUE(b.result[0][0].time_ps >= LATE_US * US && b.result[0][0].time_ps < (LATE_US + 10) * US);
    CU_ASSERT_TRUE(b.result[1][0].time_ps < 10 * US);
    CU_ASSERT_TRUE(b.end_ps[1][0] >= LATE_US * US && b.end_ps[1][0] < (LATE_US + 10) * US);
    for (uint32_t r = 0; r < RANKS; r++) CU_ASSERT_TRUE(b.result[r][1].time_ps < 10 * US);
}

TEST("a kernel that hangs is named")
{
    struct bench b = { .most = { KERNELS, 1 } }; /* rank 0's second kernel waits for a kernel of rank 1 that never
                                                  * begins */
    char text[128] = "";
    CU_ASSERT_FALSE(bench_run(&b, text, sizeof text));
    CU_ASSERT_STRING_EQUAL(text, "rank 0: waits for rank 1");
    CU_ASSERT_EQUAL(b.ended[0], 1);
}
