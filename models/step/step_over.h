/* step_over.h - steps over values of options: every combination of what --over says, and what each gains. */
#ifndef MODELS_STEP_STEP_OVER_H
#define MODELS_STEP_STEP_OVER_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include "models/case.h"
#include "models/cluster.h"
#include "models/step/step.h"

#define STEP_OVER_ERROR (g_quark_from_static_string("eptwin-step-over"))
enum step_over_error { STEP_OVER_ERROR_OPTION };

struct step_over;

/* over: "NAME=VALUE,VALUE,..." for each option that varies, NULL-terminated; the last one varies fastest.  Names are
 * those of `eptwin step`; numbers may be ranges (sim/ranges.h).  Runs every combination, `jobs` at a time (0: one a
 * core); one that cannot be has its problem in place of an answer.  NULL and *error where over is wrong. */
struct step_over *step_over_run(const char *const *over, const struct step_options *options,
                                const struct case_options *c, const struct cluster *cluster, uint32_t jobs,
                                GError **error);
void step_over_free(struct step_over *over);

/* As CSV; as a table to read, with a sentence for each value of the last option on when it is faster than its first. */
void step_over_csv_append(GString *out, const struct step_over *over);
void step_over_text_append(GString *out, const struct step_over *over);

#endif
