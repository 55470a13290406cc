/* step_again.h - what a step would gain without a cause of waiting or contention: second predictions.
 *
 * Causes that act together have no shares that add up: without either of two, a rank may wait as long.  So each cause
 * is taken away alone, and the whole step is predicted again. */
#ifndef MODELS_STEP_STEP_AGAIN_H
#define MODELS_STEP_STEP_AGAIN_H

#include "models/step/step.h"

enum step_without {
    WITHOUT_SKEW,
    WITHOUT_SLOW_GPUS,
    WITHOUT_FAULTS,
    STEP_WITHOUTS_ALONE, /* the causes before it may change how phases run alone */
    WITHOUT_JITTER = STEP_WITHOUTS_ALONE,
    WITHOUT_CONTENTION,
    WITHOUT_LAUNCHES,
    STEP_WITHOUTS
};

struct step_again {
    double total_us[STEP_WITHOUTS];  /* the whole step without the cause; NAN: the step does not have this cause, or its
                                      * options do not allow to take it away */
    double waited_us[STEP_WITHOUTS]; /* how long ranks wait then, including time that compute hides; their mean */
};

/* Predicts the step of these options once more for each cause that the answer has.  Both must be of the plan's first
 * draw, to which these predictions compare.  False and *error if a step can not end. */
bool step_again(const struct step_options *o, const struct case_options *c, const struct step_plan *plan,
                const struct step_answer *answer, struct step_again *again, GError **error);

/* Appends the table of gains to the text, as gains over the first of the step's draws. */
void step_again_append(GString *out, const struct step_answer *answer, const struct step_again *again, uint32_t draws);

#endif
