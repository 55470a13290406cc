/* report_titles.c - the title of each of a report's results, and the title of the report.
 *
 * A single result is named by the options by which people name a case.  If there are several results, options that are
 * equal in all of them stand once at the top of the page.  Each result is named by the options or keys in which it
 * differs.  Results without differences get the name of their file, and a number if that name is equal, too. */
#include "reports/report.h"

#include <string.h>

enum { TITLE_KEYS_MAX = 8 };

/* The options by which people name a case, in this order, and how people write their values.  "$" is the value. */
static const struct {
    const char *key, *words;
    bool alone; /* the option is also in the title of a single result */
} spoken[] = {
    { "net", "$", true },
    { "phase", "$ step", true },
    { "kernel", "$ kernels", true },
    { "num-ranks", "$ ranks", true },
    { "batch", "batch $", true },
    { "schedule", "$", true },
    { "num-tokens", "$ tokens", true },
    { "trace", "$", true },
    { "steps", "steps $", true },
    { "step", "step $", true },
    { "layers", "layers $", true },
    { "layer", "layer $", true },
    { "placement", "placement $", true },
    { "routing", "routing $", false },
    { "cluster", "$", true },
    { "backend", "$", true },
    { "fabric", "fabric $", false },
    { "hidden", "hidden $", true },
    { "num-topk", "top-$", true },
    { "num-experts", "$ experts", true },
    { "dtype", "$", true },
    { "num-sms", "$ SMs", false },
};

/* Whether the key can name a case.  Keys that say where a record comes from or what else ran on its host cannot. */
static bool key_names(const char *key)
{
    static const char *const others[] = {
        "version",
        "kind",
        "events",
        RECORD_CASE_KEYS,
        RECORD_WORK_KEYS,
        "checks",
        "machine",
        "cpus",
        "bootstrap",
        "bound",
        "set",
        "warmup",
        "repeat",
        "nvlink-carrier",
        "network-carrier",
        "log",
        "busy",
        "cpu-others-pct",
        "cpu-steal-pct",
        "cpu-pressure-pct",
        "run-queue",
        "cpu-mhz",
        "disturbed",
        "iterations-repeated",
        "passes-disturbed",
        "passes-repeated",
        NULL,
    };
    return !g_strv_contains(others, key);
}

static const char *case_value(const struct report_case *c, const char *key)
{
    for (int s = 0; s < c->series_count; s++) {
        const char *value = record_get(c->series[s].record, key);
        if (value && *value) return value;
    }
    return "";
}

/* The value of a key in a title; "" if the title may not have it.  The tokens of a step's kernels are a part of its
 * batch, which the title says.  Without a trace, "step" and "layer" mean nothing.
 * In a record of several steps or layers, they are only the first step and layer.  A key in which two predictions
 * differ cannot be in the title of both. */
static const char *case_value_said(const struct report_case *c, const char *key)
{
    if (report_explaining(c) == 2 &&
        g_strcmp0(record_get(c->series[0].record, key), record_get(c->series[1].record, key)) != 0)
        return "";
    if (strcmp(key, "num-tokens") == 0 && *case_value(c, "batch")) return "";
    if (strcmp(key, "num-sms") == 0 && strcmp(case_value(c, key), "0") == 0) return ""; /* left to the kernels */
    const bool traced = *case_value(c, "trace") != '\0';
    if (strcmp(key, "step") == 0 && (!traced || *case_value(c, "steps"))) return "";
    if (strcmp(key, "layer") == 0 && (!traced || *case_value(c, "layers"))) return "";
    return case_value(c, key);
}

/* Adds a value in words to the title, after a comma.  Adds nothing if the value is empty or "false". */
static void title_add(GString *title, const char *key, const char *value)
{
    if (!*value || strcmp(value, "false") == 0) return;
    g_autofree char *plain = compare_value_plain(key, value);
    if (title->len) g_string_append(title, ", ");
    for (size_t i = 0; i < G_N_ELEMENTS(spoken); i++) {
        if (strcmp(spoken[i].key, key) != 0) continue;
        const char *at = strchr(spoken[i].words, '$');
        g_string_append_printf(title, "%.*s%s%s", (int)(at - spoken[i].words), spoken[i].words, plain, at + 1);
        if (strcmp(plain, "1") == 0 && g_str_has_prefix(at, "$ ")) g_string_truncate(title, title->len - 1);
        return;
    }
    if (strcmp(value, "true") == 0) g_string_append(title, key);
    else g_string_append_printf(title, "%s %s", key, plain);
}

/* The title of a single result. */
static char *title_alone(const struct report_case *c)
{
    GString *title = g_string_new(NULL);
    if (!*case_value(c, "kernel")) {
        g_string_append(title, case_value(c, "kind"));
        title_add(title, "fabric", case_value(c, "fabric"));
    }
    for (size_t i = 0; i < G_N_ELEMENTS(spoken); i++) {
        if (!spoken[i].alone) continue;
        const char *key = spoken[i].key, *value = case_value_said(c, key);
        if (strcmp(value, "0") != 0) title_add(title, key, value);
    }
    if (!title->len) g_string_append(title, "a record");
    return g_string_free(title, FALSE);
}

static void keys_add(GPtrArray *keys, GHashTable *seen, const char *key)
{
    if (key_names(key) && g_hash_table_add(seen, (gpointer)key)) g_ptr_array_add(keys, (gpointer)key);
}

/* All keys that can name a case: first those for which `spoken` has words, then the others in their order. */
static GPtrArray *keys_gather(const GPtrArray *cases)
{
    GPtrArray *keys = g_ptr_array_new();
    g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);
    for (size_t i = 0; i < G_N_ELEMENTS(spoken); i++) keys_add(keys, seen, spoken[i].key);
    for (guint i = 0; i < cases->len; i++) {
        const struct report_case *c = g_ptr_array_index(cases, i);
        for (int s = 0; s < c->series_count; s++)
            for (uint32_t k = 0; k < record_key_count(c->series[s].record); k++)
                keys_add(keys, seen, record_key(c->series[s].record, k));
    }
    return keys;
}

static bool key_differs(const GPtrArray *cases, const char *key)
{
    for (guint i = 1; i < cases->len; i++)
        if (strcmp(case_value_said(g_ptr_array_index(cases, i), key),
                   case_value_said(g_ptr_array_index(cases, 0), key)) != 0)
            return true;
    return false;
}

char *report_common(const GPtrArray *cases)
{
    GString *common = g_string_new(NULL);
    for (size_t i = 0; cases->len > 1 && i < G_N_ELEMENTS(spoken); i++)
        if (!key_differs(cases, spoken[i].key))
            title_add(common, spoken[i].key, case_value_said(g_ptr_array_index(cases, 0), spoken[i].key));
    return g_string_free(common, FALSE);
}

/* If another case has the title, adds the name of the file.  If that title is taken, too, adds a number. */
static void title_settle(struct report_case *c, GHashTable *taken)
{
    if (g_hash_table_contains(taken, c->title)) {
        g_autofree char *base = g_path_get_basename(c->series[c->series_count - 1].path);
        g_autofree char *old = c->title;
        c->title = g_strdup_printf("%s (%s)", old, base);
    }
    for (guint number = 2; g_hash_table_contains(taken, c->title); number++) {
        char *end = g_strrstr(c->title, " #");
        g_autofree char *old = c->title;
        c->title = g_strdup_printf("%.*s #%u", (int)(number > 2 && end ? end - old : (gssize)strlen(old)), old, number);
    }
    g_hash_table_add(taken, c->title);
}

/* Names a pair of predictions among several results by their difference. */
static void title_difference(struct report_case *c)
{
    g_autofree char *difference = c->compare && compare_what_if(c->compare)
                                      ? compare_settings_difference(c->compare->predicted, c->compare->measured)
                                      : NULL;
    if (!difference) return;
    g_autofree char *old = c->title;
    c->title = g_strconcat(old, ", ", difference, NULL);
    c->title_differs = true;
}

void report_titles_set(GPtrArray *cases)
{
    g_autoptr(GPtrArray) keys = keys_gather(cases), differing = g_ptr_array_new();
    for (guint k = 0; k < keys->len && differing->len < TITLE_KEYS_MAX; k++)
        if (key_differs(cases, g_ptr_array_index(keys, k))) g_ptr_array_add(differing, g_ptr_array_index(keys, k));
    g_autoptr(GHashTable) taken = g_hash_table_new(g_str_hash, g_str_equal);
    for (guint i = 0; i < cases->len; i++) {
        struct report_case *c = g_ptr_array_index(cases, i);
        GString *title = g_string_new(NULL);
        if (differing->len && !*case_value(c, "kernel")) g_string_append(title, case_value(c, "kind"));
        for (guint k = 0; k < differing->len; k++) {
            const char *key = g_ptr_array_index(differing, k);
            title_add(title, key, case_value_said(c, key));
        }
        if (title->len) c->title = g_string_free(title, FALSE);
        else {
            g_string_free(title, TRUE);
            c->title = title_alone(c);
        }
        if (cases->len > 1) title_difference(c);
        title_settle(c, taken);
    }
}
