/* replay.h - private to `eptwin replay`: the plan of a run, one rank's part of it, and the record of its times. */
#ifndef REPLAY_REPLAY_H
#define REPLAY_REPLAY_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include "models/case.h"
#include "models/kernel.h"
#include "models/step/program.h"
#include "replay/bootstrap/bootstrap.h"
#include "replay/contention.h"
#include "replay/live_command.h"
#include "reports/record.h"

/* One (step, layer) and the kernels' arguments for it. */
struct replay_item {
    uint32_t step, layer;
    struct case_load load;
    struct kernel_job *job;
};

struct replay_plan {
    struct live_command *command;
    struct case_options *case_options;
    struct replay_item *item;
    uint32_t item_count;
    char *steps, *layers; /* as given; NULL: the case's step or layer only */
    uint32_t warmup, repeat;
    bool check, waits;
    char *timeline;             /* the timeline's file; NULL: not wanted */
    uint32_t timeline_spans;    /* of all ranks together */
    char *metrics;              /* the file for OpenMetrics text; NULL: not wanted */
    char *predicted;            /* a prediction of this run, or NULL */
    char *schedule, *work_text; /* as given; if not NULL, a whole step runs instead of single phases (replay_step.h) */
    enum step_overlap overlap;
    struct program_work work;
    uint32_t schedule_layers;
    struct schedule *program; /* the kernels that the schedule, the work and the layers make */
};

/* The times of one item, of all ranks. */
struct replay_result {
    uint32_t ranks, phases, repeat;
    double *time_us;  /* [rank][phase][repeat] */
    double *start_us; /* [rank][phase][repeat] when the kernel began, by one clock; NULL if ranks have several clocks */
    struct kernel_traffic *traffic; /* [rank][phase] */
    double *waits_us;               /* [rank][phase][rank] how long the first rank waited for the second, as the mean
                                     * of iterations; NULL if not wanted */
    uint8_t *masked;                /* [rank][rank] whether the first masked the second; NULL without masking */
    bool *disturbed;                /* [phase][repeat] whether other processes used CPUs of the ranks */
    uint32_t repeated;              /* number of iterations that were repeated */
};

/* The index in time_us and start_us at which the numbers of a rank's phase begin. */
static inline size_t replay_result_place(const struct replay_result *r, uint32_t rank, uint32_t phase)
{
    return ((size_t)rank * r->phases + phase) * r->repeat;
}

static inline double *replay_result_times(const struct replay_result *r, uint32_t rank, uint32_t phase)
{
    return &r->time_us[replay_result_place(r, rank, phase)];
}

/* Agrees with the other ranks on the plan, runs every item, and on rank 0 writes the record.  It is a rank's main
 * function, and context is the plan. */
bool replay_rank_main(struct bootstrap *b, void *context, GError **error);

/* Checks that all ranks have one program, one set of options and one load.  Otherwise returns false, and *error
 * names the rank and the difference. */
bool replay_agree(const struct replay_plan *plan, struct bootstrap *b, GError **error);

/* Adds only the header of the run. */
void replay_record_header(const struct replay_plan *plan, const struct bootstrap *b, struct record *record);
/* Adds the header of the run and the rows of result[item]; with several items also the rows over all of them. */
void replay_record_fill(const struct replay_plan *plan, const struct bootstrap *b, const struct replay_result *result,
                        const struct contention *contention, struct record *record);

#endif
