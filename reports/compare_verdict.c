/* compare_verdict.c - the first sentence about one record or two: the time of a layer's dispatch and combine.
 *
 * A layer takes as long as its slowest rank.  Of several steps and layers the sentence gives the mean of their slowest
 * ranks' times.  Where a record does not tell the slowest rank's time, it gives the mean over ranks, and says so. */
#include "reports/compare.h"

#include <math.h>
#include <string.h>

/* The phases that are added, and their times in each of two records. */
struct verdict {
    const char *phase[2];
    double us[2][2], total_us[2]; /* [record][phase] */
    int phases;
    bool slowest;
};

static bool of_step(const struct record *record)
{
    return g_strcmp0(record_get(record, "kind"), "step") == 0 && record_find(record, "step", RECORD_ALL, "time_us");
}

/* The time of a whole step; else dispatch and combine, if a record has both; else its longest phase. */
static void verdict_phases(const struct record *record, struct verdict *v)
{
    static const char *const both[] = { "dispatch", "combine" };
    if (of_step(record)) {
        v->phase[v->phases++] = "step";
        return;
    }
    for (int i = 0; i < 2; i++)
        if (record_find(record, both[i], RECORD_ALL, "time_us")) v->phase[v->phases++] = both[i];
    if (v->phases == 2) return;
    g_autoptr(GPtrArray) all = compare_phases(record);
    v->phases = 0;
    double longest_us = -1;
    for (guint i = 0; i < all->len; i++) {
        const struct record_row *time = record_find(record, g_ptr_array_index(all, i), RECORD_ALL, "time_us");
        if (!time || !(time->value > longest_us)) continue;
        longest_us = time->value;
        v->phase[0] = g_ptr_array_index(all, i);
        v->phases = 1;
    }
}

static void verdict_times(const struct record *const *records, int count, struct verdict *v)
{
    v->slowest = true;
    for (int r = 0; r < count; r++)
        for (int p = 0; p < v->phases; p++) v->slowest &= isfinite(compare_slowest_us(records[r], v->phase[p]));
    for (int r = 0; r < count; r++)
        for (int p = 0; p < v->phases; p++) {
            const struct record_row *mean = record_find(records[r], v->phase[p], RECORD_ALL, "time_us");
            v->us[r][p] = v->slowest ? compare_slowest_us(records[r], v->phase[p]) : mean ? mean->value : NAN;
            v->total_us[r] += v->us[r][p];
        }
}

void compare_difference_append(const struct compare *compare, GString *out)
{
    if (!compare_what_if(compare)) return;
    g_autofree char *difference = compare_settings_difference(compare->predicted, compare->measured);
    if (difference) g_string_append_printf(out, "They differ in %s.\n", difference);
    else g_string_append(out, "Nothing that was said of them differs.\n");
}

/* Which ranks, steps and layers the time is of: " (slowest rank, mean over steps 0:2 and layers 0:3)". */
static void verdict_whose_append(const struct record *record, const struct verdict *v, GString *out)
{
    const char *steps = record_get(record, "steps"), *layers = record_get(record, "layers");
    g_string_append(out, v->slowest ? " (slowest rank" : " (mean over ranks");
    if (steps && layers)
        g_string_append_printf(out, "%s steps %s and layers %s", v->slowest ? ", mean over" : ",", steps, layers);
    g_string_append_c(out, ')');
}

static char *verdict_names(const struct verdict *v)
{
    return v->phases == 2 ? g_strdup_printf("%s and %s take", v->phase[0], v->phase[1])
                          : g_strdup_printf("%s takes", v->phase[0]);
}

/* " All layers together take 5421 us.", where the record has them. */
static void verdict_layers_append(const struct record *record, const struct verdict *v, GString *out)
{
    double us = 0;
    for (int p = 0; p < v->phases; p++) {
        const struct record_row *row = record_find(record, v->phase[p], RECORD_ALL, "layers_us");
        us += row ? row->value : NAN;
    }
    if (!isfinite(us) || !(us > v->total_us[0])) return;
    g_autofree char *text = compare_value_text(us, "us");
    g_string_append_printf(out, "  All layers together take %s.", text);
}

/* "The step takes 36.3 ms, 882 tokens a second and GPU: compute 92.4 %, wire 6.4 %." */
static void verdict_step_append(const struct record *record, GString *out)
{
    static const char *const parts[] = { "compute", "wire", "waiting", "contention", "sms", "host" };
    const char *before = ": ";
    const struct record_row *tokens = record_find(record, "step", RECORD_ALL, "tokens_per_s_gpu");
    g_string_append_printf(out, "The step takes %.1f ms",
                           record_find(record, "step", RECORD_ALL, "time_us")->value / 1e3);
    if (tokens) g_string_append_printf(out, ", %.0f tokens a second and GPU", tokens->value);
    for (size_t i = 0; i < G_N_ELEMENTS(parts); i++) {
        g_autofree char *metric = g_strdup_printf("%s_pct", parts[i]);
        const struct record_row *row = record_find(record, "step", RECORD_ALL, metric);
        if (!row || !(row->value >= 0.05)) continue;
        g_string_append_printf(out, "%s%s %.1f %%", before, parts[i], row->value);
        before = ", ";
    }
    g_string_append(out, ".\n");
}

void compare_verdict_alone_append(const struct record *record, GString *out)
{
    struct verdict v = { 0 };
    if (g_strcmp0(record_get(record, "kind"), "measure") == 0) return; /* it has operations, and none of them decides */
    if (of_step(record)) {
        verdict_step_append(record, out);
        return;
    }
    verdict_phases(record, &v);
    verdict_times(&record, 1, &v);
    if (!v.phases || !isfinite(v.total_us[0])) return;
    g_autofree char *names = verdict_names(&v), *total = compare_value_text(v.total_us[0], "us");
    g_autofree char *first = compare_value_text(v.us[0][0], "us"), *second = compare_value_text(v.us[0][1], "us");
    names[0] = g_ascii_toupper(names[0]);
    g_string_append_printf(out, "%s %s", names, total);
    if (v.phases == 2) g_string_append_printf(out, " together, %s and %s", first, second);
    verdict_whose_append(record, &v, out);
    g_string_append_c(out, '.');
    verdict_layers_append(record, &v, out);
    g_string_append_c(out, '\n');
}

void compare_verdict_bound_append(const struct record *record, GString *out)
{
    struct verdict v = { 0 };
    verdict_phases(record, &v);
    const gsize before = out->len;
    for (int p = 0; p < v.phases; p++) {
        struct compare_limit limit;
        compare_limit_find(record, v.phase[p], &limit);
        g_autofree char *text = compare_limit_text(&limit);
        if (limit.resource && out->len > before) g_string_append_printf(out, ", %s by %s", v.phase[p], text);
        else if (limit.resource) g_string_append_printf(out, "%s is bound by %s", v.phase[p], text);
    }
    if (out->len > before) g_string_append(out, ".\n");
}

void compare_verdict_append(const struct compare *compare, GString *out)
{
    const struct record *const records[] = { compare->predicted, compare->measured };
    struct verdict v = { 0 };
    verdict_phases(compare->predicted, &v);
    verdict_times(records, 2, &v);
    const double ratio = v.total_us[0] / v.total_us[1];
    if (!v.phases || !isfinite(ratio) || ratio <= 0) return;
    g_autofree char *names = verdict_names(&v);
    g_autofree char *first = compare_value_text(v.total_us[0], "us"), *second = compare_value_text(v.total_us[1], "us");
    if (compare_what_if(compare)) {
        g_autofree char *change = compare_speedup_text(ratio);
        g_string_append_printf(out, "The second is %s: %s %s in the first and %s in the second", change, names, first,
                               second);
    } else {
        const double error_pct = 100 * (ratio - 1);
        names[0] = g_ascii_toupper(names[0]);
        g_string_append_printf(out, "%s %s as %s and %s as %s", names, first, compare->predicted_name, second,
                               compare->measured_name);
        if (fabs(error_pct) >= 0.05)
            g_string_append_printf(out, ", %.1f %% too %s", fabs(error_pct), error_pct < 0 ? "low" : "high");
    }
    verdict_whose_append(compare->predicted, &v, out);
    g_string_append(out, ".\n");
}

void compare_alone_append(const struct record *record, guint count_max, GString *out)
{
    g_autoptr(GPtrArray) phases = compare_phases(record);
    for (guint i = 0; i < MIN(phases->len, count_max); i++) {
        const char *phase = g_ptr_array_index(phases, i);
        const struct record_row *mean = record_find(record, phase, RECORD_ALL, "time_us");
        if (compare_phase_of_layer(phase) || !mean) continue;
        g_autofree char *slowest = compare_value_text(compare_slowest_us(record, phase), "us");
        g_autofree char *text = compare_value_text(mean->value, "us");
        const gsize before = out->len;
        if (strcmp(slowest, text) == 0) g_string_append_printf(out, "%s: %s on all ranks.  ", phase, text);
        else if (strcmp(slowest, "-") == 0) g_string_append_printf(out, "%s: %s (mean over ranks).  ", phase, text);
        else g_string_append_printf(out, "%s: %s (slowest rank), %s (mean over ranks).  ", phase, slowest, text);
        const gsize told = out->len;
        compare_limit_append(record, phase, out, "", "\n");
        if (out->len == told) g_string_truncate(out, before); /* the table shows a single time anyway */
    }
}
