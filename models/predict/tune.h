/* tune.h - tuning of a case that is a whole step. */
#ifndef MODELS_PREDICT_TUNE_H
#define MODELS_PREDICT_TUNE_H

#include "models/predict/sweep.h"

struct tune_step_options {
    uint32_t jobs, max_sms;
    double slack;    /* the share of tokens a second that may be given up for fewer SMs */
    double limit_us; /* the longest time of a step that is allowed; 0: any */
};

/* Completes a plan of steps that is not settled yet: adds the names that the user left open, which are the schedule
 * and, for kernels that have a choice, the SMs.  Then searches the values of all names for those that give the most
 * tokens per second and GPU in steps within the limit, and appends the result in words.  False and *error if a name
 * cannot be chosen, or if no step is possible within the limit. */
bool tune_step(struct sweep_plan *plan, const struct tune_step_options *options, GString *out, GError **error);

#endif
