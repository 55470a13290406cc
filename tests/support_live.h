/* support_live.h - live worlds of several ranks in one process, for tests: each rank is made by a thread,
 * then all are stepped by one.  Also a bootstrap between threads. */
#ifndef TESTS_SUPPORT_LIVE_H
#define TESTS_SUPPORT_LIVE_H

#include <glib.h>
#include "replay/bootstrap/bootstrap.h"
#include "replay/live.h"

/* rank_count connected bootstraps for as many threads of this process.  Free the array with
 * support_bootstraps_free(). */
struct bootstrap **support_bootstraps_new(uint32_t rank_count);
void support_bootstraps_free(struct bootstrap **b, uint32_t rank_count);

/* The default options, except for those given here.  fabric NULL: no network. */
struct live_options support_options(const char *fabric, uint32_t ranks_per_node);

/* Runs body(b[rank], context) in a thread for each rank; returns how many returned false. */
uint32_t support_bootstraps_run(struct bootstrap **b, uint32_t rank_count,
                                bool (*body)(struct bootstrap *b, void *context), void *context);

/* Makes a live world for each rank; sets world[rank] and, from a rank that failed, *error as live_world_new() does.
 * Returns whether all were made. */
bool support_worlds_new(const struct live_options *options, const struct fabric_needs *needs, struct bootstrap **b,
                        uint32_t rank_count, struct live_world **world, GError **error);

/* Asserts (CUnit) that no world of two ranks can be made with these options, for a reason that holds `expected`. */
void support_worlds_refused(const struct live_options *options, const struct fabric_needs *needs, const char *expected);

/* Steps the workers of all ranks in one thread until all are done. If a link fails or nothing moves for 20 seconds,
 * returns false and fills in `why`. */
bool support_worlds_run(struct live_world **world, uint32_t rank_count, struct fabric_worker **worker,
                        uint32_t worker_count, char *why, size_t why_size);

/* Runs the conformance suite over live worlds in one thread, and asserts (CUnit) that it holds. depth is the depth of
 * queues. refuses has the meaning that it has in struct conformance_world. */
void support_worlds_conform(uint32_t rank_count, const struct live_options *options, uint32_t depth, bool refuses,
                            uint64_t seed);

/* What a rank in its own process runs of the suite.  A traitor breaks a rule on purpose. */
struct support_process_case {
    struct live_options options;
    int32_t traitor; /* a rank, or -1 */
    uint64_t seed;
};
/* A child of bootstrap_fork_run(), with a struct support_process_case; returns 0 if all ranks held the contract. */
int support_process_conforms(struct bootstrap *b, void *context);

#endif
