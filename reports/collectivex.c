/* collectivex.c - a record as CollectiveX's JSON; see record_forms.h. */
#include "reports/record_forms.h"

#include <math.h>
#include <string.h>
#include "reports/compare.h"
#include "sim/error.h"

/* The sum of a metric over the kernels of the call `which` ("dispatch" or "combine"), from the rows for all ranks.
 * NAN: the record has no such call, or a kernel lacks the metric. */
static double call_us(const struct record *record, const char *which, const char *metric)
{
    const enum compare_half wanted = strcmp(which, "combine") == 0 ? COMPARE_COMBINE : COMPARE_DISPATCH;
    g_autoptr(GPtrArray) phases = compare_phases(record);
    double sum = 0;
    bool there = false;
    for (guint i = 0; i < phases->len; i++) {
        const char *phase = g_ptr_array_index(phases, i);
        enum compare_half half;
        if (!compare_layer_has(record, phase, &half) || half != wanted) continue;
        const struct record_row *value = record_find(record, phase, RECORD_ALL, metric);
        sum += value ? value->value : NAN;
        there |= g_str_has_prefix(phase, which);
    }
    return there ? sum : NAN;
}

static void number_append(GString *out, double value)
{
    char text[RECORD_NUMBER_MAX];
    record_number_format(text, value);
    g_string_append(out, isfinite(value) ? text : "null");
}

static void component_append(GString *out, const struct record *record, const char *name, double p50, double p90)
{
    const char *kind = record_get(record, "kind");
    const char *repeat = record_get(record, "repeat");
    const bool predicted = g_strcmp0(kind, "simulate") == 0;
    g_string_append_printf(out, "\"%s\": ", name);
    if (!isfinite(p50)) {
        g_string_append(
            out,
            "{\"availability\": \"unavailable\", \"origin\": null, \"percentiles_us\": null, \"sample_count\": 0}");
        return;
    }
    g_string_append_printf(out, "{\"availability\": \"%s\", \"origin\": \"eptwin-%s\", \"percentiles_us\": {\"p50\": ",
                           predicted ? "derived" : "measured", kind ? kind : "record");
    number_append(out, p50);
    g_string_append(out, ", \"p90\": ");
    number_append(out, p90);
    g_string_append_printf(out, ", \"p99\": null}, \"sample_count\": %s}", predicted ? "0" : repeat ? repeat : "1");
}

static void row_append(GString *out, const struct record *record, double dispatch, double combine)
{
    const bool loop = g_strcmp0(record_get(record, "launch"), "loop") == 0;
    const char *tokens = record_get(record, "num-tokens"), *ranks = record_get(record, "num-ranks");
    const double p90_dispatch = call_us(record, "dispatch", "time_us_p90"),
                 p90_combine = call_us(record, "combine", "time_us_p90");
    g_string_append_printf(
        out, "{\"tokens_per_rank\": %s, \"global_tokens\": %" G_GUINT64_FORMAT ",\n      \"components\": {", tokens,
        g_ascii_strtoull(tokens, NULL, 10) * (ranks ? g_ascii_strtoull(ranks, NULL, 10) : 1));
    component_append(out, record, "dispatch", loop ? NAN : dispatch, p90_dispatch);
    g_string_append(out, ",\n        ");
    component_append(out, record, "combine", loop ? NAN : combine, p90_combine);
    g_string_append(out, ",\n        ");
    component_append(out, record, "isolated_sum", loop ? NAN : dispatch + combine, NAN);
    g_string_append(out, ",\n        ");
    component_append(out, record, "roundtrip", NAN, NAN);
    g_string_append(out, ",\n        ");
    component_append(
        out, record, "pair_period",
        loop ? call_us(record, "dispatch", "time_us_median") + call_us(record, "combine", "time_us_median") : NAN, NAN);
    g_string_append(out, "},\n      \"chain_floor_us\": {");
    component_append(out, record, "dispatch", loop ? call_us(record, "dispatch", "time_us_min") : NAN, NAN);
    g_string_append(out, ",\n        ");
    component_append(out, record, "combine", loop ? call_us(record, "combine", "time_us_min") : NAN, NAN);
    g_string_append(out, "}}");
}

/* Appends a JSON member with the value of the header's key, as a number or as text.  The value is null if the header
 * lacks the key, or if a number is wanted and the key's value is none. */
static void header_append(GString *out, const struct record *record, const char *name, const char *key, bool number)
{
    const char *value = record_get(record, key);
    double ignored;
    g_string_append_printf(out, "\"%s\": ", name);
    if (!value || !*value || (number && !record_number_parse(value, &ignored))) g_string_append(out, "null");
    else if (number) g_string_append(out, value);
    else record_json_string_append(out, value);
}

static void case_append(GString *out, const struct record *record)
{
    static const struct {
        const char *name, *key;
        bool number;
    } members[] = { { "backend", "kernel", false },     { "ep", "num-ranks", true },
                    { "experts", "num-experts", true }, { "hidden", "hidden", true },
                    { "topk", "num-topk", true },       { "gpus_per_node", "ranks-per-node", true },
                    { "precision", "dtype", false },    { "routing", "routing", false },
                    { "transport", "backend", false } };
    g_string_append(out, "\"case\": {");
    for (size_t i = 0; i < G_N_ELEMENTS(members); i++) {
        if (i) g_string_append(out, ", ");
        header_append(out, record, members[i].name, members[i].key, members[i].number);
    }
    g_string_append(out, "}, ");
    const char *machine = record_get(record, "cluster") ? "cluster" : "machine";
    header_append(out, record, "sku", machine, false);
}

static const char *text_or(const struct record *record, const char *key, const char *otherwise)
{
    const char *value = record_get(record, key);
    return value ? value : otherwise;
}

GString *collectivex_text(const struct record *record, GError **error)
{
    const double dispatch = call_us(record, "dispatch", "time_us_max"),
                 combine = call_us(record, "combine", "time_us_max");
    const char *tokens = record_get(record, "num-tokens");
    if ((!isfinite(dispatch) && !isfinite(combine)) || !tokens || !g_ascii_isdigit(*tokens))
        return error_null(error, "--format collectivex: expected a record with the slowest rank's time of dispatch or "
                                 "combine and one number of "
                                 "tokens, found none");
    GString *out =
        g_string_new("{\"version\": 1, \"record_type\": \"case-attempt\", \"generated_at\": null,\n  \"identity\": {");
    g_string_append_printf(out, "\"case_id\": \"eptwin-%s-%s-ep%s-t%s\", \"attempt_ordinal\": 1,\n    ",
                           text_or(record, "kind", "record"), text_or(record, "kernel", "kernels"),
                           text_or(record, "num-ranks", "0"), tokens);
    g_string_append(out, "\"allocation_factors\": {\"run_attempt\": null, \"run_id\": null, \"source_sha\": null},\n"
                         "    \"case_factors\": {");
    case_append(out, record);
    g_string_append(out, "}},\n  \"workload\": {\"cross_rank_consistent\": null},\n  \"measurement\": {");
    header_append(out, record, "dispatch_dtype", "dtype", false);
    g_string_append(out, ", \"combine_dtype\": \"bf16\", \"payload_unit\": \"token-rank\",\n    \"rows\": [");
    row_append(out, record, dispatch, combine);
    g_string_append(out, "]},\n  \"implementation\": {\"name\": \"eptwin\", ");
    header_append(out, record, "kernel_generation", "kernel", false);
    g_string_append(out, ", ");
    header_append(out, record, "library_version", "version", false);
    g_string_append(out, "},\n  \"topology\": {");
    header_append(out, record, "world_size", "num-ranks", true);
    g_string_append(out, ", ");
    header_append(out, record, "gpus_per_node", "ranks-per-node", true);
    const double ranks = g_ascii_strtod(text_or(record, "num-ranks", "0"), NULL);
    const double on_node = g_ascii_strtod(text_or(record, "ranks-per-node", "0"), NULL);
    g_string_append_printf(out, ", \"nodes\": %.0f},\n  \"outcome\": {\"status\": \"success\", \"reasons\": []}}\n",
                           on_node > 0 ? ceil(ranks / on_node) : 1);
    return out;
}
