/* step_run.h - a step in the simulated world: compute kernels on the SMs of each rank's GPU (device.h), together
 * with the dispatch and combine kernels that `eptwin simulate` runs.  A rank launches its kernels one after another,
 * and has its own clock.
 *
 * Before steps each phase runs once on all ranks with no other kernel.  Waiting and contention of a step are measured
 * against the time of this run. */
#ifndef MODELS_STEP_STEP_RUN_H
#define MODELS_STEP_STEP_RUN_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include "models/case.h"
#include "models/cluster.h"
#include "models/step/costs.h"
#include "models/step/device.h"
#include "models/step/schedule.h"

struct step_alone;
struct step_run_options {
    const struct step_alone *alone; /* the phases with no other kernel (step_alone_new()) */
    const struct case_options *c;   /* the communication kernels, with the tokens of one batch */
    const struct cluster *cluster;
    const struct case_options *backward; /* the communication kernels of a backward pass; NULL: no training */
    const struct case_load *load;        /* [loads] layer n of those with experts takes routing n modulo loads */
    uint32_t loads;
    const struct costs_options *costs;
    struct schedule_layers layers;
    enum step_overlap overlap;
    const double *speed; /* [ranks] the clock of a rank's GPU over the mean clock; NULL: all are 1 */
    double spread;       /* standard deviation of the GPUs' clocks, as a share of the mean; 0: none */
    double jitter;       /* standard deviation of the logarithm of each compute kernel's time */
    uint64_t seed;
    uint32_t threads;        /* the most threads that run the step; 0: one.  The number does not change the result */
    const char **one_thread; /* gets the reason if only one thread can run the step, else NULL; may itself be NULL */
    uint64_t launch_ps, sync_ps, gap_ps; /* as in struct device_options */
    bool contention;                     /* kernels on one GPU also share its memory */
};

/* A kernel of the schedule on one rank, in us of the step. */
struct step_span {
    double ready_us, begin_us, end_us;
};

/* Runs each phase of each routing with no other kernel.  The result serves every step with the same c, cluster,
 * backward and loads, whatever its layers, its schedule and its GPUs' clocks.  NULL and *error as step_run_new(). */
struct step_alone *step_alone_new(const struct step_run_options *options, GError **error);
void step_alone_free(struct step_alone *alone);

struct step_run;
/* Whether step_run_new() would take the cluster, the kernels and their schedule.  Runs nothing. */
bool step_run_fits(const struct step_run_options *options, GError **error);
/* Runs the step.  NULL and *error if the case does not fit the cluster, the kernels refuse it, or a kernel hangs. */
struct step_run *step_run_new(const struct step_run_options *options, GError **error);
void step_run_free(struct step_run *run);

uint32_t step_run_ranks(const struct step_run *run);
uint32_t step_run_loads(const struct step_run *run); /* the number of routings that layers take in rotation */
const struct schedule *step_run_schedule(const struct step_run *run);
/* The kinds of kernels are numbered from 0 to below step_run_whats(): compute kernels by op and pass, then the phases
 * of communication, forward and then backward.  step_run_what() returns the kind of a kernel, and step_run_what_name()
 * its name, such as "up_dgrad" or "dispatch_backward", which is never freed. */
uint32_t step_run_whats(const struct step_run *run);
uint32_t step_run_what(const struct step_run *run, uint32_t kernel);
const char *step_run_what_name(const struct step_run *run, uint32_t what);
struct step_span step_run_span(const struct step_run *run, uint32_t rank, uint32_t kernel);
/* The kernel that must have begun on all ranks before a communication kernel can end.  It is the kernel itself or,
 * for a receive, its send.  SCHEDULE_NONE: the kernel needs no other rank. */
uint32_t step_run_meeting(const struct step_run *run, uint32_t kernel);
/* The time of the kernel alone.  For a compute kernel it is the time at the GPU's nominal clock.  For a phase it is the
 * time while no other kernel runs; a receive ran right after its send. */
double step_run_alone_us(const struct step_run *run, uint32_t rank, uint32_t kernel);
/* The time of a compute kernel alone on the rank's own GPU, without jitter (device_clocked_us()) and with it
 * (device_alone_us()). */
double step_run_clocked_us(const struct step_run *run, uint32_t rank, uint32_t kernel);
double step_run_own_us(const struct step_run *run, uint32_t rank, uint32_t kernel);
/* How many rows a communication kernel's routing brings to the rank's experts. */
double step_run_rows(const struct step_run *run, uint32_t rank, uint32_t kernel);
const struct step_cost *step_run_cost(const struct step_run *run, uint32_t rank, uint32_t kernel);

#endif
