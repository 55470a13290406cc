/* test_conformance_loop.c - the adversarial fabrics, on which protocols are tested, keep the contract of
 * models/fabric.h.  They are late or out of order only where the contract allows it. */
#include <stdio.h>
#include <string.h>
#include "tests/support_conformance.h"
#include "tests/support_loop.h"
#include "tests/unit.h"

struct loop_world {
    struct loop *loop;
    uint32_t rank_count;
    struct kernel_launch kernel[CONFORMANCE_RANKS];
    bool launched[CONFORMANCE_RANKS];
};

static struct kernel_launch *world_next(void *context, uint32_t rank)
{
    struct loop_world *world = context;
    if (world->launched[rank]) return NULL;
    world->launched[rank] = true;
    return &world->kernel[rank];
}

static bool world_run_all(void *context, struct fabric_worker **worker, uint32_t worker_count, char *why,
                          size_t why_size)
{
    struct loop_world *world = context;
    for (uint32_t r = 0; r < world->rank_count; r++) {
        world->kernel[r] =
            (struct kernel_launch){ .phase = "case", .worker = g_new0(struct fabric_worker *, worker_count) };
        world->launched[r] = false;
    }
    for (uint32_t i = 0; i < worker_count; i++) {
        struct kernel_launch *kernel = &world->kernel[worker[i]->fabric->rank];
        kernel->worker[worker[i]->index] = worker[i];
        kernel->worker_count++;
    }
    const bool ended = loop_run(world->loop, world_next, world, true);
    if (!ended) snprintf(why, why_size, "%s", loop_hang(world->loop));
    for (uint32_t r = 0; r < world->rank_count; r++) g_free(world->kernel[r].worker);
    return ended;
}

static void world_report_deaf(void *context, const char *name, const char *why)
{
    (void)context;
    CU_ASSERT_EQUAL(why[0] != '\0', strcmp(name, "wakes") == 0);
}

static uint32_t run_suite_report(uint16_t rank_count, uint16_t ranks_per_node, bool nvlink_disabled, uint64_t seed,
                                 bool deaf)
{
    const struct loop_options options = {
        .ranks = rank_count,
        .ranks_per_node = ranks_per_node,
        .nvlink_disabled = nvlink_disabled,
        .payload = true,
        .needs = CONFORMANCE_NEEDS,
        .seed = seed,
        .refuse_percent = seed % 2 * 10,
        .deliver_percent = 50 + seed % 3 * 20,
        .spurious = seed % 2,
        .deaf = deaf,
    };
    struct loop_world loop = { .loop = loop_new(&options), .rank_count = rank_count };
    struct fabric *fabric[CONFORMANCE_RANKS];
    for (uint32_t r = 0; r < rank_count; r++) fabric[r] = loop_fabric(loop.loop, r);
    const struct conformance_world world = { .context = &loop,
                                             .rank_count = rank_count,
                                             .fabric = fabric,
                                             .run = world_run_all,
                                             .report = deaf ? world_report_deaf : NULL };
    const uint32_t failed = conformance_run(&world, seed);
    CU_ASSERT_EQUAL(loop_counts(loop.loop)->breaches, 0);
    loop_free(loop.loop);
    return failed;
}

static void run_suite(uint16_t rank_count, uint16_t ranks_per_node, bool nvlink_disabled, uint64_t seed)
{
    CU_ASSERT_EQUAL(run_suite_report(rank_count, ranks_per_node, nvlink_disabled, seed, false), 0);
}

TEST("one node")
{
    run_suite(1, 8, false, 1);
    run_suite(8, 8, false, 2);
}

TEST("nodes")
{
    for (uint64_t seed = 1; seed <= 3; seed++) run_suite(8, 2, false, seed);
    run_suite(3, 1, false, 6);
}

TEST("nvlink disabled") { run_suite(5, 8, true, 1); }

/* The suite must find a fabric on which time wakes no worker: the case about waking fails, and no other. */
TEST("deaf") { CU_ASSERT_EQUAL(run_suite_report(4, 2, false, 2, true), 1); }
