/* replay_step.h - `eptwin replay --schedule`: runs the streams of a step (models/step/schedule.h) on live links, with
 * timed work in place of compute.
 *
 * One thread of each rank stands for its GPU.  Streams take turns on this thread, and timed work takes time while the
 * communication of other streams goes on.  Ranks meet only in their communication kernels, so rows and links let them
 * drift apart.  Each of two batches has its own world, because kernels with payload keep the outputs of one batch. */
#ifndef REPLAY_REPLAY_STEP_H
#define REPLAY_REPLAY_STEP_H

#include "replay/replay.h"

/* Runs the plan's schedule.  Collective.  Rank 0 also writes the record. */
bool replay_step_main(struct bootstrap *b, const struct replay_plan *plan, GError **error);

/* When a kernel of one iteration began and ended, in us of one clock. */
struct replay_step_span {
    double begin_us, end_us;
};

/* Sums over the kernels of one iteration. */
struct replay_step_sum {
    double step_us;   /* from the first start to the last end */
    double delay_us;  /* over all ranks: how long others used the CPUs that the ranks wanted */
    double waited_us; /* mean over ranks: the time in all communication kernels until the last rank had begun them */
    double mean_us[STEP_COMPUTE_OPS + UINT8_MAX],
        waiting_us[STEP_COMPUTE_OPS + UINT8_MAX]; /* waiting in each kernel: by op, then by phase */
    uint32_t kernels[STEP_COMPUTE_OPS + UINT8_MAX];
};
/* Makes the sums of span[rank][kernel of the schedule]. */
void replay_step_sum_up(const struct schedule *schedule, const struct kernel_job *job,
                        const struct replay_step_span *span, uint32_t ranks, struct replay_step_sum *sum);

#endif
