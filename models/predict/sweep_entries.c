/* sweep_entries.c - the options of cases and of steps on a command line, each with several values. */
#include "models/predict/sweep.h"

#include <string.h>

/* The array that entry_keep() fills.  It is global because GLib passes no data of the caller to callbacks of main
 * entries. */
static GPtrArray *entries_of;

static gboolean entry_keep(const gchar *option, const gchar *value, gpointer unused, GError **error)
{
    (void)unused;
    (void)error;
    g_ptr_array_add(entries_of, g_strdup(option + strspn(option, "-")));
    g_ptr_array_add(entries_of, g_strdup(value ? value : "true"));
    return TRUE;
}

void sweep_entries_topics(struct sweep_plan *plan, GPtrArray *given, struct command_topic topic[SWEEP_TOPICS])
{
    union {
        GOptionArgFunc call;
        gpointer data;
    } callback = { .call = entry_keep };
    entries_of = given;
    topic[0] = (struct command_topic){ "Whole steps, with --net or --work", step_options_entries(&plan->step), true };
    case_topics(&plan->base, topic + 1);
    for (int t = 0; t < SWEEP_TOPICS; t++)
        for (GOptionEntry *e = topic[t].entries; e->long_name; e++) {
            e->arg_data = callback.data;
            if (e->flags & G_OPTION_FLAG_NO_ARG) e->flags = G_OPTION_FLAG_OPTIONAL_ARG;
        }
}

bool sweep_entries_add(struct sweep_plan *plan, const GPtrArray *given, GError **error)
{
    for (guint i = 0; i < given->len; i += 2)
        if (!sweep_plan_add(plan, given->pdata[i], false, given->pdata[i + 1], error)) {
            g_prefix_error(error, "--");
            return false;
        }
    return true;
}
