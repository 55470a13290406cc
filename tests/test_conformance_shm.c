/* test_conformance_shm.c - live worlds over shared memory keep the contract of models/fabric.h: as one NVLink domain,
 * as groups with the stand-in network between them, and with NVLink disabled.
 *
 * Method: threads make the ranks of a world, and one thread steps them, with several seeds. */
#include "tests/support_conformance.h"
#include "tests/support_live.h"
#include "tests/unit.h"

static void run_suite(uint32_t rank_count, const struct live_options *options, bool refuses, uint64_t seed)
{
    support_worlds_conform(rank_count, options, CONFORMANCE_DEPTH, refuses, seed);
}

TEST("one NVLink domain")
{
    const struct live_options options = support_options(NULL, 8);
    run_suite(1, &options, false, 1);
    run_suite(8, &options, false, 2);
}

TEST("nodes with a network")
{
    struct live_options options = support_options("shm", 2);
    for (uint64_t seed = 1; seed <= 5; seed++) run_suite(8, &options, true, seed);
    options.ranks_per_node = 1;
    run_suite(3, &options, true, 6);
}

TEST("NVLink disabled")
{
    struct live_options options = support_options("shm", 8);
    options.nvlink_disabled = true;
    for (uint64_t seed = 1; seed <= 5; seed++) run_suite(5, &options, true, seed);
}

/* Without a link, puts are stores.  This is the data path of a world of one host without a network. */
TEST("no network at all")
{
    struct live_options options = support_options(NULL, 2);
    run_suite(4, &options, false, 3);
}
