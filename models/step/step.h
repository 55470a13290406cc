/* step.h - a whole step of a network on a cluster: what `eptwin step` asks for and gets. */
#ifndef MODELS_STEP_STEP_H
#define MODELS_STEP_STEP_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include "models/case.h"
#include "models/cluster.h"
#include "models/step/step_answer.h"
#include "models/step/step_options.h"
#include "reports/record.h"
#include "sim/timeline.h"

enum step_phase { STEP_DECODE, STEP_PREFILL, STEP_TRAIN };
const char *step_phase_name(enum step_phase phase);

/* What step_plan_make() makes of the options. */
struct step_plan {
    enum step_phase phase;
    struct net *net;
    struct step_gpu *gpu;
    struct compute_table *own, *shipped;
    struct costs_options costs;
    struct program_work work; /* what costs.work points to, if timed work is given in place of a net */
    char *work_text;          /* timed work as the user gave it; NULL: none */
    struct step_run_options run;
    struct step_alone *alone; /* what run.alone points to, if the plan has its own; NULL until it has an answer */
    struct case_options c, backward;  /* the kernels of one batch; in training, those of its backward pass */
    struct case_load *load;           /* [run.loads] the routings of layers with experts */
    uint32_t batch, batches;          /* how many tokens a rank has in a step; into how many batches these are
                                       * divided */
    uint32_t layers;                  /* how many layers with experts the net has */
    uint32_t draws;                   /* how often GPUs and kernels are drawn; 1: once, or all are equal */
    double *speed;                    /* [ranks] the clock of a rank's GPU over the mean clock; NULL: all are equal */
    double weight_bytes, cache_bytes; /* bytes on a GPU; 0: not known (training, timed work) */
};

/* Makes the plan.  c: the kernels' options that the user gave.  False and *error if options do not fit each other or
 * the cluster.  Clear the plan in both cases. */
bool step_plan_make(struct step_plan *plan, const struct step_options *o, const struct case_options *c,
                    const struct cluster *cluster, GError **error);
void step_plan_clear(struct step_plan *plan);

/* Runs all draws, on plan->run.threads cores, and returns the first draw's answer.  Unless plan->run.alone has them,
 * runs each phase alone before.  total_ms[plan->draws] gets the times of all draws.  timeline gets the kernels of the
 * first draw; it may be NULL.  NULL and *error on failure. */
struct step_answer *step_plan_answer(struct step_plan *plan, struct timeline *timeline, double *total_ms,
                                     GError **error);

/* How often dispatch and combine run in so many steps, if all phases run alone so many times.  The running time grows
 * with this number. */
uint32_t step_plan_rounds(const struct step_plan *plan, uint32_t steps, uint32_t alones);

/* Adds rows and header lines of the step.  total_ms[plan->draws] has the times of all draws. */
void step_record(struct record *record, const struct step_plan *plan, const struct step_answer *answer,
                 const double *total_ms);
/* Appends a table and, with explain, sentences about where the time goes. */
void step_text_append(GString *out, const struct step_plan *plan, const struct step_answer *answer,
                      const double *total_ms, bool explain);
/* Tokens a second over all GPUs.  For decode these are tokens that it makes, for prefill and training those that
 * they take in. */
double step_tokens_per_s(const struct step_plan *plan, double step_us);
/* TFLOP/s a GPU in training, of the arithmetic that the net needs (costs_train_flops()). */
double step_train_tflops(const struct step_plan *plan, double step_us);
static inline const struct routing *step_routing(const struct step_plan *plan) { return &plan->load[0].routing; }

#endif
