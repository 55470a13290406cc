/* step_options.h - one table of the options of a step, for the command lines of step, sweep and tune.
 *
 * They are used together with those of a case (models/case.h), which say how dispatch and combine run; no name is in
 * both. Knows names, types and ranges; knows no net. */
#ifndef MODELS_STEP_STEP_OPTIONS_H
#define MODELS_STEP_STEP_OPTIONS_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#define STEP_ERROR (g_quark_from_static_string("eptwin-step"))
enum step_error { STEP_ERROR_OPTION, STEP_ERROR_MEMORY };

struct step_options {
    char *net, *work, *gpu, *table, *phase, *schedule, *layers, *clock; /* as given; NULL: the default */
    int batch, context, attention_tp, redundant, draws;                 /* 0: the default */
    int leave_sms;                                                      /* -1: the default */
    double spread_pct, jitter_pct;
    bool launches, no_contention;
};

/* Sets all defaults; step_option_set() then sets each option given.  Clear with step_options_clear(). */
void step_options_init(struct step_options *o);
void step_options_clear(struct step_options *o);
/* Makes a copy; clear it as well. */
void step_options_copy(struct step_options *to, const struct step_options *from);
/* Whether a step is asked for: a net or timed work is given. */
bool step_options_asked(const struct step_options *o);

/* Sets the option called name, which the table has, from text.  Error: a bad value, or one out of range. */
bool step_option_set(struct step_options *o, const char *name, const char *text, GError **error);
/* The table's name of an option, in which '_' may stand for '-'; NULL: there is none. */
const char *step_option_find(const char *name);
/* The table's names in order, NULL after the last. */
const char *step_option_name(uint32_t index);
/* The value, as step_option_set() takes it; NULL: not set.  Free with g_free(). */
char *step_option_text(const struct step_options *o, uint32_t index);
/* The digest (traces/digest.h) of the file that the value names; NULL where it names none.  Free with g_free(). */
char *step_option_digest(uint32_t index, const char *value);
/* Whether the option of that name says what there is to do, and not how it is done. */
bool step_option_is_work(const char *name);

/* The table as entries of a topic of command_line_parse(), which write into *o.  Valid as long as o, until the next
 * call. */
GOptionEntry *step_options_entries(struct step_options *o);

#endif
