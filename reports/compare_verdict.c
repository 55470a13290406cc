/* compare_verdict.c - the first sentence about one record or two: the time of a layer's dispatch and combine
 * (compare_layer.c).
 *
 * A layer takes as long as its slowest rank.  For several steps and layers the sentence gives the mean of their
 * slowest ranks' times.  If a record does not have the slowest rank's time, the sentence gives the mean over ranks,
 * and says so. */
#include "reports/compare.h"

#include <math.h>
#include <string.h>

/* The times that a sentence gives, for one record or two. */
struct verdict {
    const char *phase; /* NULL: a layer's dispatch and combine */
    struct compare_layer layer[2];
    double total_us[2];
    bool slowest;      /* the times are of the slowest rank; else means over ranks */
    GPtrArray *others; /* char *: kernels of the layer that are neither dispatch nor combine */
};

/* Whether the record is of a whole step, predicted or replayed. */
static bool of_step(const struct record *record)
{
    const bool step = g_strcmp0(record_get(record, "kind"), "step") == 0 || record_get(record, "schedule");
    return step && record_find(record, "step", RECORD_ALL, "time_us");
}

/* The phase with the longest mean time in the first record, out of the phases that all records have.  NULL: there is
 * none. */
static const char *longest_phase(const struct record *const *records, int count)
{
    g_autoptr(GPtrArray) all = compare_phases(records[0]);
    const char *longest = NULL;
    double longest_us = -1;
    for (guint i = 0; i < all->len; i++) {
        const double us = compare_phase_us(records[0], all->pdata[i], false);
        if (!(us > longest_us) || (count == 2 && isnan(compare_phase_us(records[1], all->pdata[i], false)))) continue;
        longest_us = us;
        longest = all->pdata[i];
    }
    return longest;
}

/* Finds the layer's times in all records.  False if a record lacks them. */
static bool verdict_layers(const struct record *const *records, int count, bool together, struct verdict *v)
{
    bool good = true;
    for (int r = 0; r < count; r++) {
        good &= compare_layer_find(records[r], together ? records[1 - r] : NULL, v->slowest, &v->layer[r]);
        v->total_us[r] = v->layer[r].us[COMPARE_DISPATCH] + v->layer[r].us[COMPARE_COMBINE];
    }
    return good;
}

static bool verdict_known(const struct verdict *v, int count)
{
    for (int r = 0; r < count; r++)
        if (!isfinite(v->total_us[r])) return false;
    return true;
}

/* Finds the time of a whole step.  Without a step, finds the time of a layer's dispatch and combine, or else of the
 * longest phase. together: counts only kernels that both records have.  False: a record does not have the time. */
static bool verdict_find(const struct record *const *records, int count, bool together, struct verdict *v)
{
    const bool step = of_step(records[0]);
    *v = (struct verdict){ .slowest = true };
    if (g_strcmp0(record_get(records[0], "kind"), "measure") == 0) return false; /* operations have no total */
    if (step || !verdict_layers(records, count, together, v)) {
        v->phase = step ? "step" : longest_phase(records, count);
        if (!v->phase) return false;
    } else {
        v->others = g_ptr_array_new();
        for (int r = 0; r < count; r++) compare_layer_others(records[r], together ? records[1 - r] : NULL, v->others);
    }
    for (int slowest = 1; slowest >= 0; slowest--) {
        v->slowest = slowest;
        if (!v->phase) verdict_layers(records, count, together, v);
        for (int r = 0; v->phase && r < count; r++) v->total_us[r] = compare_phase_us(records[r], v->phase, slowest);
        if (verdict_known(v, count)) return true;
    }
    return false;
}

static void verdict_clear(struct verdict *v)
{
    if (v->others) g_ptr_array_unref(v->others);
}

void compare_difference_append(const struct compare *compare, GString *out)
{
    if (!compare_what_if(compare)) return;
    g_autofree char *difference = compare_settings_difference(compare->predicted, compare->measured);
    if (difference) g_string_append_printf(out, "They differ in %s.\n", difference);
    else if (compare_record_predicted(compare->predicted)) g_string_append(out, "Their options do not differ.\n");
}

/* Appends "; layout, notify and cached_notify_combine included", if there are such kernels. */
static void verdict_others_append(const struct record *record, const struct verdict *v, GString *out)
{
    const guint count = v->others ? v->others->len : 0;
    bool hidden = false;
    for (guint i = 0; i < count; i++) {
        const char *name = v->others->pdata[i];
        g_string_append_printf(out, "%s%s", i == 0 ? "; " : i + 1 < count ? ", " : " and ", name);
        hidden |= record_find(record, name, RECORD_ALL, "wire_us_max") != NULL;
    }
    if (count) g_string_append(out, " included");
    if (hidden) g_string_append(out, ", not what is on its way between them");
}

/* Appends which ranks, steps and layers the time covers: " (slowest rank, mean over steps 0:2 and layers 0:3)". */
static void verdict_whose_append(const struct record *record, const struct verdict *v, GString *out)
{
    const char *steps = record_get(record, "steps"), *layers = record_get(record, "layers");
    if (v->phase && !compare_over_ranks(record, v->phase)) return;
    const char *ranks = record_get(record, "num-ranks"), *phase = v->phase ? v->phase : v->layer[0].longest[0];
    const struct record_row *some = record_find(record, phase, RECORD_ALL, "ranks_measured");
    if (v->slowest) g_string_append(out, " (slowest rank");
    else if (some && ranks) g_string_append_printf(out, " (mean over %g of %s ranks", some->value, ranks);
    else g_string_append(out, " (mean over ranks");
    if (steps && layers)
        g_string_append_printf(out, "%s steps %s and layers %s", v->slowest ? ", mean over" : ",", steps, layers);
    verdict_others_append(record, v, out);
    g_string_append_c(out, ')');
}

static char *verdict_names(const struct verdict *v)
{
    if (!v->phase) return g_strdup("dispatch and combine take");
    return g_strdup_printf("%s%s takes", strcmp(v->phase, "step") == 0 ? "a " : "", v->phase);
}

/* Appends " All layers together take 5421 us.", if the record has this time. */
static void verdict_layers_append(const struct record *record, const struct verdict *v, GString *out)
{
    const char *phase = v->phase ? v->phase : v->layer[0].longest[COMPARE_COMBINE];
    const struct record_row *row = record_find(record, phase, RECORD_ALL, "layers_us");
    const double us = row ? v->total_us[0] * row->value / compare_phase_us(record, phase, v->slowest) : NAN;
    if (!isfinite(us) || !(us > v->total_us[0])) return;
    g_autofree char *text = compare_value_text(us, "us");
    g_string_append_printf(out, "  All layers together take %s.", text);
}

/* Appends " (36.2 to 36.9 by draws of GPUs)", the range of the step's times, if it shows one.  unit_us: the unit of the
 * numbers. */
static void verdict_range_append(const struct record *record, double unit_us, GString *out)
{
    const struct record_row *least = record_find(record, "step", RECORD_ALL, "time_us_min");
    const struct record_row *most = record_find(record, "step", RECORD_ALL, "time_us_max");
    g_autofree char *from = least ? g_strdup_printf("%.1f", least->value / unit_us) : NULL;
    g_autofree char *to = most ? g_strdup_printf("%.1f", most->value / unit_us) : NULL;
    const char *over = compare_record_predicted(record) ? "by draws of GPUs" : "over iterations";
    if (from && to && strcmp(from, to) != 0) g_string_append_printf(out, " (%s to %s %s)", from, to, over);
}

/* Appends "The step takes 36.3 ms, 882 tokens/s per GPU: compute 92.4 %, wire 6.4 %." */
static void verdict_step_append(const struct record *record, GString *out)
{
    static const char *const parts[] = { "compute", "wire", "waiting", "contention", "sms", "host" };
    const char *before = ": ";
    const struct record_row *tokens = record_find(record, "step", RECORD_ALL, "tokens_per_s_gpu");
    const double us = record_find(record, "step", RECORD_ALL, "time_us")->value, unit_us = us < 1e3 ? 1 : 1e3;
    g_string_append_printf(out, "The step takes %.1f %s", us / unit_us, us < 1e3 ? "us" : "ms");
    verdict_range_append(record, unit_us, out);
    if (tokens) g_string_append_printf(out, ", %.0f tokens/s per GPU", tokens->value);
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
    struct verdict v;
    if (of_step(record)) {
        verdict_step_append(record, out);
        return;
    }
    if (verdict_find(&record, 1, false, &v)) {
        g_autofree char *names = verdict_names(&v), *total = compare_value_text(v.total_us[0], "us");
        names[0] = g_ascii_toupper(names[0]);
        g_string_append_printf(out, "%s %s", names, total);
        if (!v.phase) {
            g_autofree char *first = compare_value_text(v.layer[0].us[COMPARE_DISPATCH], "us");
            g_autofree char *second = compare_value_text(v.layer[0].us[COMPARE_COMBINE], "us");
            g_string_append_printf(out, " together, %s and %s", first, second);
        }
        verdict_whose_append(record, &v, out);
        g_string_append_c(out, '.');
        verdict_layers_append(record, &v, out);
        g_string_append_c(out, '\n');
    }
    verdict_clear(&v);
}

void compare_verdict_bound_append(const struct record *record, GString *out)
{
    struct verdict v;
    const gsize before = out->len;
    const bool good = verdict_find(&record, 1, false, &v);
    for (int half = 0; good && half < (v.phase ? 1 : COMPARE_HALVES); half++) {
        struct compare_limit limit;
        g_autofree char *kernel = compare_layer_limit(record, v.phase ? v.phase : v.layer[0].longest[half], &limit);
        if (!limit.resource) continue;
        g_autofree char *text = compare_limit_text(&limit), *work = compare_limit_work(&limit);
        g_string_append_printf(out, out->len > before ? ", %s by %s%s" : "%s is bound by %s%s", kernel,
                               compare_limit_article(&limit), text);
        if (*work) g_string_append_printf(out, " (%s)", work);
    }
    if (out->len > before) g_string_append(out, ".\n");
    verdict_clear(&v);
}

bool compare_verdict_bounds(const struct record *record, const char *phase)
{
    struct compare_limit limit;
    struct verdict v;
    compare_limit_find(record, phase, &limit);
    const bool found = verdict_find(&record, 1, false, &v);
    const char *const *longest = v.layer[0].longest;
    const bool named =
        v.phase ? strcmp(v.phase, phase) == 0
                : !g_strcmp0(longest[COMPARE_DISPATCH], phase) || !g_strcmp0(longest[COMPARE_COMBINE], phase);
    verdict_clear(&v);
    return limit.resource && found && named;
}

static void verdict_pair_append(const struct compare *compare, const struct verdict *v, GString *out)
{
    const double ratio = v->total_us[0] / v->total_us[1];
    g_autofree char *names = verdict_names(v);
    g_autofree char *first = compare_value_text(v->total_us[0], "us");
    g_autofree char *second = compare_value_text(v->total_us[1], "us");
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
    verdict_whose_append(compare->predicted, v, out);
    g_string_append(out, ".\n");
}

void compare_verdict_append(const struct compare *compare, GString *out)
{
    const struct record *const records[] = { compare->predicted, compare->measured };
    struct verdict v;
    if (verdict_find(records, 2, !compare_what_if(compare), &v) && v.total_us[0] / v.total_us[1] > 0)
        verdict_pair_append(compare, &v, out);
    verdict_clear(&v);
}

void compare_alone_append(const struct record *record, bool rest, guint count_max, GString *out)
{
    g_autoptr(GPtrArray) phases = compare_phases(record);
    for (guint i = 0; i < MIN(phases->len, count_max); i++) {
        const char *phase = g_ptr_array_index(phases, i);
        const struct record_row *mean = record_find(record, phase, RECORD_ALL, "time_us");
        if (compare_phase_of_layer(phase) || !mean || (rest && compare_verdict_bounds(record, phase))) continue;
        g_autofree char *slowest = compare_value_text(compare_slowest_us(record, phase), "us");
        g_autofree char *text = compare_value_text(mean->value, "us");
        const gsize before = out->len;
        if (strcmp(slowest, text) == 0) g_string_append_printf(out, "%s: %s on all ranks.  ", phase, text);
        else if (strcmp(slowest, "-") == 0) g_string_append_printf(out, "%s: %s (mean over ranks).  ", phase, text);
        else g_string_append_printf(out, "%s: %s (slowest rank), %s (mean over ranks).  ", phase, slowest, text);
        const gsize told = out->len;
        compare_limit_append(record, phase, out, "", "\n");
        /* without a limit, the line would only repeat the table */
        if (out->len == told) g_string_truncate(out, before);
    }
}
