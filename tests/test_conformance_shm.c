/* test_conformance_shm.c - the contract of the seam, held by live worlds over shared memory: as one NVLink
 * domain, as groups with the stand-in network between them, and with NVLink disabled.
 *
 * Method: the ranks of a world are made by threads and stepped by one, with several seeds. */
#include <stdio.h>
#include "tests/support_conformance.h"
#include "tests/support_live.h"
#include "tests/unit.h"

struct shm_world {
    struct live_world *world[CONFORMANCE_RANKS];
    uint32_t rank_count;
    uint32_t reported;
};

static bool shm_world_run(void *context, struct fabric_worker **worker, uint32_t worker_count, char *why,
                          size_t why_size)
{
    struct shm_world *shm = context;
    return support_worlds_run(shm->world, shm->rank_count, worker, worker_count, why, why_size);
}

static void shm_world_report(void *context, const char *name, const char *why)
{
    struct shm_world *shm = context;
    shm->reported++;
    if (why[0]) printf("\n      %s: %s\n", name, why);
    CU_ASSERT_EQUAL(why[0], '\0');
}

static void run_suite(uint32_t rank_count, const struct live_options *options, bool refuses, uint64_t seed)
{
    struct bootstrap **b = support_bootstraps_new(rank_count);
    struct shm_world shm = { .rank_count = rank_count };
    const struct fabric_needs needs = { CONFORMANCE_HEAP_BYTES, CONFORMANCE_WORDS, CONFORMANCE_QUEUES,
                                        CONFORMANCE_DEPTH, 0 };
    GError *error = NULL;
    CU_ASSERT_TRUE_FATAL(support_worlds_new(options, &needs, b, rank_count, shm.world, &error));
    struct fabric *fabric[CONFORMANCE_RANKS];
    for (uint32_t rank = 0; rank < rank_count; rank++) fabric[rank] = live_world_fabric(shm.world[rank]);
    const struct conformance_world world = {
        .context = &shm,
        .rank_count = rank_count,
        .fabric = fabric,
        .run = shm_world_run,
        .report = shm_world_report,
        .refuses = refuses,
    };
    CU_ASSERT_EQUAL(conformance_run(&world, seed), 0);
    CU_ASSERT(shm.reported >= 10);
    for (uint32_t rank = 0; rank < rank_count; rank++) live_world_free(shm.world[rank]);
    support_bootstraps_free(b, rank_count);
}

TEST("one NVLink domain")
{
    struct live_options options;
    live_options_init(&options);
    run_suite(1, &options, false, 1);
    run_suite(8, &options, false, 2);
}

TEST("nodes with a network")
{
    struct live_options options;
    live_options_init(&options);
    options.fabric = "shm";
    options.ranks_per_node = 2;
    for (uint64_t seed = 1; seed <= 5; seed++) run_suite(8, &options, true, seed);
    options.ranks_per_node = 1;
    run_suite(3, &options, true, 6);
}

TEST("NVLink disabled")
{
    struct live_options options;
    live_options_init(&options);
    options.fabric = "shm";
    options.nvlink_disabled = true;
    for (uint64_t seed = 1; seed <= 5; seed++) run_suite(5, &options, true, seed);
}

/* Without a link, puts are stores: the data path of a world of one host, without a network. */
TEST("no network at all")
{
    struct live_options options;
    live_options_init(&options);
    options.ranks_per_node = 2;
    run_suite(4, &options, false, 3);
}
