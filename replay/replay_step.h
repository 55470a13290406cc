/* replay_step.h - `eptwin replay --schedule`: runs the streams of a step (models/step/schedule.h) on live links,
 * with timed work in place of compute.
 *
 * One thread of each rank stands for its GPU.  Streams take turns on this thread.  While one stream does timed work,
 * the communication of other streams goes on.  Ranks meet only in their communication kernels.  In between,
 * different loads and links let ranks drift apart.  If there are two batches, each has a world of its own, because
 * kernels with payload keep the outputs of only one batch. */
#ifndef REPLAY_REPLAY_STEP_H
#define REPLAY_REPLAY_STEP_H

#include "replay/replay.h"

/* Runs the plan's schedule.  Collective.  Rank 0 also writes the record. */
bool replay_step_main(struct bootstrap *b, const struct replay_plan *plan, GError **error);

/* When a kernel of one iteration began and ended, in us of one clock. */
struct replay_step_span {
    double begin_us, end_us;
};

/* What is computed from the kernels of one iteration. */
struct replay_step_sum {
    double step_us;   /* from the first start to the last end */
    double delay_us;  /* sum over all ranks: how long they waited for CPUs that others used */
    double waited_us; /* mean over ranks: time in communication kernels until all ranks had begun the same kernel
                       * or, for a receive, the send before it */
    double mean_us[STEP_COMPUTE_OPS + UINT8_MAX],
        waiting_us[STEP_COMPUTE_OPS + UINT8_MAX]; /* waiting in each kind of kernel: by op, then by phase */
    uint32_t kernels[STEP_COMPUTE_OPS + UINT8_MAX];
};
/* Computes the sums of one iteration from span[rank][kernel of the schedule]. */
void replay_step_sum_up(const struct schedule *schedule, const struct kernel_job *job,
                        const struct replay_step_span *span, uint32_t ranks, struct replay_step_sum *sum);

#endif
