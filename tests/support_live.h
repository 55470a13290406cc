/* support_live.h - live worlds of several ranks in one process, for tests.  A thread makes each rank, and one thread
 * steps them all.  Also a bootstrap between threads. */
#ifndef TESTS_SUPPORT_LIVE_H
#define TESTS_SUPPORT_LIVE_H

#include <glib.h>
#include "replay/bootstrap/bootstrap.h"
#include "replay/live.h"

/* rank_count connected bootstraps for as many threads of this process.  Free the array with
 * support_bootstraps_free(). */
struct bootstrap **support_bootstraps_new(uint32_t rank_count);
void support_bootstraps_free(struct bootstrap **b, uint32_t rank_count);

/* Returns the default options, except for those given here.  fabric NULL: no network. */
struct live_options support_options(const char *fabric, uint32_t ranks_per_node);

/* Runs body(b[rank], context) in a thread for each rank; returns how many returned false. */
uint32_t support_bootstraps_run(struct bootstrap **b, uint32_t rank_count,
                                bool (*body)(struct bootstrap *b, void *context), void *context);

/* Makes a live world for each rank and sets world[rank].  If a rank fails, sets *error as live_world_new() does.
 * Returns whether all worlds were made. */
bool support_worlds_new(const struct live_options *options, const struct fabric_needs *needs, struct bootstrap **b,
                        uint32_t rank_count, struct live_world **world, GError **error);

/* Asserts (CUnit) that no world of two ranks can be made with these options, and that the error contains `expected`. */
void support_worlds_refused(const struct live_options *options, const struct fabric_needs *needs, const char *expected);

/* Steps the workers of all ranks in one thread until all are done.  If a link fails or nothing moves for 20 seconds,
 * returns false and fills in `why`. */
bool support_worlds_run(struct live_world **world, uint32_t rank_count, struct fabric_worker **worker,
                        uint32_t worker_count, char *why, size_t why_size);

/* Runs the conformance suite over live worlds in one thread, and asserts (CUnit) that all cases pass.  Queues have the
 * given depth.  `refuses` means the same as in struct conformance_world. */
void support_worlds_conform(uint32_t rank_count, const struct live_options *options, uint32_t depth, bool refuses,
                            uint64_t seed);

/* The part of the suite that a rank in its own process runs.  A traitor breaks a rule on purpose. */
struct support_process_case {
    struct live_options options;
    int32_t traitor; /* a rank, or -1 */
    uint64_t seed;
};
/* The body of a child of bootstrap_fork_run(), with a struct support_process_case as context.  Returns 0 if all ranks
 * kept the contract. */
int support_process_conforms(struct bootstrap *b, void *context);

#endif
