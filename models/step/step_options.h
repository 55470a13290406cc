/* step_options.h - one table of the options of a step, for the command lines of step, sweep and tune.
 *
 * They are used together with the options of a case (models/case.h), which say how dispatch and combine run.  No name
 * is in both tables.  Knows names, types and ranges; knows no net. */
#ifndef MODELS_STEP_STEP_OPTIONS_H
#define MODELS_STEP_STEP_OPTIONS_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

struct step_options {
    const char *net, *work, *gpu, *table, *phase, *schedule, *layers, *clock; /* interned; NULL: the default */
    int batch, context, attention_tp, redundant, draws;                       /* 0: the default */
    int leave_sms;                                                            /* -1: the default */
    double spread_pct, jitter_pct;
    bool launches, no_contention;
};

/* Sets all defaults.  Then step_option_set() sets each option that is given. */
void step_options_init(struct step_options *o);
/* Whether a step is asked for: a net or timed work is given. */
bool step_options_asked(const struct step_options *o);

/* Sets an option of the table by name, from text.  Error: the value is bad or out of range. */
bool step_option_set(struct step_options *o, const char *name, const char *text, GError **error);
/* The option's name as the table has it; `name` may have '_' for '-'.  NULL: there is no such option. */
const char *step_option_find(const char *name);
/* The name at the index in the table; NULL after the last. */
const char *step_option_name(uint32_t index);
/* The option's value as text that step_option_set() takes; NULL: not set.  Free with g_free(). */
char *step_option_text(const struct step_options *o, uint32_t index);
/* The digest (traces/digest.h) of the file that the value names.  NULL: it names no file.  Free with g_free(). */
char *step_option_digest(uint32_t index, const char *value);
/* Whether the named option says what work there is, and not how it is done. */
bool step_option_is_work(const char *name);

/* The table as entries of a topic of command_line_parse(), which writes into *o.  They are valid as long as o and until
 * the next call. */
GOptionEntry *step_options_entries(struct step_options *o);

#endif
