/* test_conformance_fork.c - the conformance suite with a real process for each rank, forked as replays are.  So signals
 * and data really race.
 *
 * Method: every process runs the programs of its own rank through live_world_run().  The exit status of the run says
 * whether any process saw a broken rule. */
#include <stdio.h>
#include <unistd.h>
#include "tests/support_conformance.h"
#include "tests/support_live.h"
#include "tests/unit.h"

TEST("processes")
{
    struct support_process_case c = { .traitor = -1 };
    for (c.seed = 1; c.seed <= 3; c.seed++) {
        live_options_init(&c.options);
        CU_ASSERT_EQUAL(bootstrap_fork_run(4, 60000, support_process_conforms, &c), 0);
        c.options.fabric = "shm";
        c.options.ranks_per_node = 2;
        CU_ASSERT_EQUAL(bootstrap_fork_run(4, 60000, support_process_conforms, &c), 0);
        c.options.nvlink_disabled = true;
        CU_ASSERT_EQUAL(bootstrap_fork_run(3, 60000, support_process_conforms, &c), 0);
    }
}

/* As many ranks as the suite allows, which are more than a small machine has CPUs. */
TEST("crowd")
{
    struct support_process_case c = { .traitor = -1, .seed = 4 };
    c.options = support_options("shm", 4);
    CU_ASSERT_EQUAL(bootstrap_fork_run(CONFORMANCE_RANKS, 60000, support_process_conforms, &c), 0);
}

/* One process that breaks a rule must make the whole run fail.  This shows that the tests above can fail. */
TEST("traitor")
{
    struct support_process_case c = { .traitor = 1, .seed = 5 };
    live_options_init(&c.options);
    c.options.timeout_ms = 2000;
    const int standard_error = dup(STDERR_FILENO);
    CU_ASSERT_PTR_NOT_NULL(freopen("/dev/null", "w", stderr));
    CU_ASSERT_NOT_EQUAL(bootstrap_fork_run(2, 10000, support_process_conforms, &c), 0);
    fflush(stderr);
    dup2(standard_error, STDERR_FILENO);
    close(standard_error);
}
