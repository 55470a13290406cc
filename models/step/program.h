/* program.h - what a schedule needs to know about a job's kernels, and times of compute that a user gives.
 *
 * The simulated step and the live one (`eptwin replay --schedule`) make their schedules here, so that both run one
 * program.  Knows no world. */
#ifndef MODELS_STEP_PROGRAM_H
#define MODELS_STEP_PROGRAM_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include "models/case.h"
#include "models/kernel.h"
#include "models/step/schedule.h"

/* Whether kernels with this name dispatch and combine in the way that a step needs. */
#define PROGRAM_KERNELS "ll, normal, v2, one-sided or ag-rs"
bool program_runs(const char *kernel);

/* Makes the schedule of the job's phases.  backward: the job of the backward pass; NULL: no training.  Returns NULL and
 * sets *error if the kernels cannot overlap in this way. */
struct schedule *program_new(enum step_overlap overlap, const struct schedule_layers *layers,
                             const struct case_options *c, const struct kernel_job *job,
                             const struct kernel_job *backward, GError **error);

bool program_is_receive(const struct kernel_job *job, uint32_t phase);
/* The kernel that must have begun on all ranks before a communication kernel can end.  It is the kernel itself or,
 * for a receive, its send.  SCHEDULE_NONE: the kernel needs no other rank. */
uint32_t program_meeting(const struct schedule *schedule, const struct kernel_job *job, uint32_t kernel);

/* Timed work: the duration of each op, such as "attention=500us,experts=20us".  The experts' duration is for each
 * row that comes to the rank.  Attention may be given in two parts, project and core, which STEP_STAGES needs.
 * Other schedules use the sum of both. */
struct program_work {
    double us[STEP_COMPUTE_OPS]; /* time of each op; 0: the op takes next to no time */
};
#define PROGRAM_WORK_GRAMMAR "OP=TIME,... (attention or project and core, gate, shared, experts per row, head)"
bool program_work_parse(const char *text, struct program_work *work, GError **error);
/* False and *error if the schedule needs parts that the work lacks. */
bool program_work_fits(const struct program_work *work, enum step_overlap overlap, GError **error);
double program_work_us(const struct program_work *work, enum step_op op, double rows);
/* The layers of timed work, all with experts.  They have a shared expert if the work gives its time.  The step has a
 * head if the work gives the head's time. */
struct schedule_layers program_work_layers(const struct program_work *work, uint32_t layers);

/* Returns [routing->ranks] how many rows come to each rank's experts, when each expert's rows are filled up to whole
 * tiles of `tile` rows.  tile 1: without filling. */
double *program_rows(const struct routing *routing, uint32_t tile);
/* Returns [routing->ranks] how many tokens have an expert on each rank. */
double *program_tokens(const struct routing *routing);

#endif
