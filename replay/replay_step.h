/* replay_step.h - `eptwin replay --schedule`: the streams of a step (models/step/schedule.h) on live links, with timed
 * work in place of compute.
 *
 * One thread of each rank is its GPU: streams take turns there, and timed work passes time while the communication of
 * other streams goes on.  Ranks meet only in their communication kernels, so they drift apart as rows and links make
 * them.  Each of two batches has a world of its own, because kernels with payload keep the outputs of one. */
#ifndef REPLAY_REPLAY_STEP_H
#define REPLAY_REPLAY_STEP_H

#include "replay/replay.h"

/* Runs the plan's schedule; as rank 0 writes the record.  Collective. */
bool replay_step_main(struct bootstrap *b, const struct replay_plan *plan, GError **error);

/* Where kernels of one iteration began and ended, all in us of one clock, begun as soon as they could. */
struct replay_step_span {
    double begin_us, end_us;
};

/* What one iteration comes to: [rank][kernel] of the schedule. */
struct replay_step_sum {
    double step_us;   /* first begin to last end */
    double delay_us;  /* of all ranks: others had the CPU that they wanted */
    double waited_us; /* of a rank, mean: in all communication, until the last rank began it */
    double mean_us[STEP_COMPUTE_OPS + UINT8_MAX],
        waiting_us[STEP_COMPUTE_OPS + UINT8_MAX]; /* by op, by phase: a kernel */
    uint32_t kernels[STEP_COMPUTE_OPS + UINT8_MAX];
};
void replay_step_sum_up(const struct schedule *schedule, const struct kernel_job *job,
                        const struct replay_step_span *span, uint32_t ranks, struct replay_step_sum *sum);

#endif
