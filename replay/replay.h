/* replay.h - private to `eptwin replay`: the plan of a run, how one rank carries it out, and the record of its
 * times. */
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

/* A step and a layer that are replayed, and the kernels' arguments for them. */
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
    char *steps, *layers; /* text of the options; NULL: only the step or layer of the case */
    uint32_t warmup, repeat;
    bool check, waits;
    char *timeline;             /* name of the timeline's file; NULL: no timeline */
    uint32_t timeline_spans;    /* most spans of the timeline, of all ranks together */
    char *metrics;              /* name of the file for OpenMetrics text; NULL: no such file */
    char *predicted;            /* name of the file with a prediction of this run; NULL: none */
    char *schedule, *work_text; /* text of the options; if not NULL, a whole step runs instead of single phases
                                 * (replay_step.h) */
    enum step_overlap overlap;
    struct program_work work;
    uint32_t schedule_layers;
    struct schedule *program; /* the kernels of the schedule, for the given work and layers */
};

/* The times of one item on all ranks. */
struct replay_result {
    uint32_t ranks, phases, repeat;
    double *time_us;  /* [rank][phase][repeat] */
    double *start_us; /* [rank][phase][repeat] when the kernel began, by one clock; NULL if the ranks have several
                       * clocks */
    struct kernel_traffic *traffic; /* [rank][phase] */
    double *waits_us;               /* [rank][phase][peer] how long the rank waited for the peer: the mean over the
                                     * iterations; NULL if not wanted */
    uint8_t *masked;                /* [rank][peer] whether the rank masked the peer; NULL without masking */
    bool *disturbed;                /* [phase][repeat] whether other processes used the ranks' CPUs */
    uint32_t repeated;              /* number of iterations that were repeated */
};

/* The index in time_us and start_us of the first value of a rank's phase. */
static inline size_t replay_result_place(const struct replay_result *r, uint32_t rank, uint32_t phase)
{
    return ((size_t)rank * r->phases + phase) * r->repeat;
}

static inline double *replay_result_times(const struct replay_result *r, uint32_t rank, uint32_t phase)
{
    return &r->time_us[replay_result_place(r, rank, phase)];
}

/* A rank's main function; context is the plan.  It agrees with the other ranks on the plan and runs every item.  On
 * rank 0 it also writes the record. */
bool replay_rank_main(struct bootstrap *b, void *context, GError **error);

/* Checks that all ranks have the same program, options and load.  Otherwise returns false, and *error names the rank
 * and the difference. */
bool replay_agree(const struct replay_plan *plan, struct bootstrap *b, GError **error);

/* Adds the header of the run, without rows. */
void replay_record_header(const struct replay_plan *plan, const struct bootstrap *b, struct record *record);
/* Adds the header of the run, and the rows of each result[item].  If there are several items, also adds rows over
 * all of them. */
void replay_record_fill(const struct replay_plan *plan, const struct bootstrap *b, const struct replay_result *result,
                        const struct contention *contention, struct record *record);

#endif
