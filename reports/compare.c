/* compare.c - finds the rows that two records share and how far they are apart. Knows nothing of files and of how
 * the result is shown. */
#include "reports/compare.h"
#include "sim/error.h"
#include "sim/command_line.h"

#include <math.h>
#include <string.h>

bool compare_record_predicted(const struct record *record)
{
    const char *kind = record_get(record, "kind");
    return g_strcmp0(kind, "simulate") == 0 || g_strcmp0(kind, "step") == 0;
}

/* The value of a header key, whose name may be written with dashes or underscores.  An absent key gives "", like an
 * empty option, because both mean that there is no value. */
static const char *compare_header_value(const struct record *record, const char *key)
{
    const char *value = record_get(record, key);
    if (!value) {
        g_autofree char *other = g_strdelimit(g_strdup(key), "-", '_');
        value = record_get(record, other);
    }
    return value ? value : "";
}

/* The value of a case key.  For "step" and "layer" it is the value of "steps" and "layers", if the record has these. */
static const char *compare_key_value(const struct record *record, const char *key)
{
    const char *several = "";
    if (strcmp(key, "step") == 0) several = compare_header_value(record, "steps");
    if (strcmp(key, "layer") == 0) several = compare_header_value(record, "layers");
    return *several ? several : compare_header_value(record, key);
}

/* Whether the record covers several steps or several layers. */
static bool compare_record_several(const struct record *record)
{
    static const char *const keys[] = { "step", "layer" };
    for (int i = 0; i < 2; i++) {
        const char *value = compare_key_value(record, keys[i]);
        g_auto(ranges) one = { 0 };
        if (*value && !ranges_parse(value, UINT32_MAX, 1, &one)) return true;
    }
    return false;
}

bool compare_over_ranks(const struct record *record, const char *phase)
{
    return strcmp(phase, "step") != 0 && g_strcmp0(record_get(record, "kind"), "measure") != 0;
}

double compare_slowest_us(const struct record *record, const char *phase)
{
    if (!compare_over_ranks(record, phase)) return NAN;
    const struct record_row *row = record_find(record, phase, RECORD_ALL, "slowest_us");
    if (!row && !compare_record_several(record)) row = record_find(record, phase, RECORD_ALL, "time_us_max");
    return row ? row->value
               : NAN; /* over layers, time_us_max is the largest mean of a rank, not the mean of slowest ranks' times */
}

char *compare_value_plain(const char *key, const char *value)
{
    static const char *const files[] = { "trace", "trace-weights", "matrix", "placement", "arrival", NULL };
    const char *slash = g_strv_contains(files, key) ? strrchr(value, '/') : NULL;
    if (!slash || !slash[1]) return g_strdup(value);
    const char *colon = g_strrstr_len(value, slash - value, ":");
    return g_strdup_printf("%.*s%s", colon ? (int)(colon + 1 - value) : 0, value, slash + 1);
}

/* The digest of the file that the key names; "" if the record has none. */
static const char *compare_key_digest(const struct record *record, const char *key)
{
    g_autofree char *name = g_strconcat(key, "-digest", NULL);
    return compare_header_value(record, name);
}

/* Whether the key has the same value in both records.  Files are compared by the digests of their contents if both
 * records give them.  A key that is missing counts as the same, unless its record lists the keys of its case. */
static bool compare_key_same(const struct record *a, const struct record *b, const char *key)
{
    const char *x = compare_key_value(a, key), *y = compare_key_value(b, key);
    const char *x_digest = compare_key_digest(a, key), *y_digest = compare_key_digest(b, key);
    if (*x_digest && *y_digest) return strcmp(x_digest, y_digest) == 0;
    if ((!*x && !record_get(a, RECORD_CASE_KEYS)) || (!*y && !record_get(b, RECORD_CASE_KEYS))) return true;
    if (strcmp(key, "step") == 0 || strcmp(key, "layer") == 0) return ranges_same(x, y);
    g_autofree char *x_plain = compare_value_plain(key, x), *y_plain = compare_value_plain(key, y);
    return strcmp(x_plain, y_plain) == 0;
}

/* The keys that make a case, for records that do not list their own keys, such as records written by hand. */
static const char compare_keys_of_all[] = "kernel num-ranks num-tokens hidden num-topk num-experts dtype";

static bool compare_of_case(const struct record *record)
{
    return g_strcmp0(record_get(record, "kind"), "measure") != 0;
}

/* The keys that make a prediction in addition to the keys of its case: the machine, its faults, and how kernels
 * start. */
static const char compare_keys_of_machine[] = "cluster set backend fault launch arrival slow";

/* The words of several lists, each word once; freed with g_strfreev(). */
static char **compare_keys_join(const char *const *lists, size_t count)
{
    g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);
    GPtrArray *keys = g_ptr_array_new();
    for (size_t i = 0; i < count; i++) {
        g_auto(GStrv) all = g_strsplit(lists[i] ? lists[i] : "", " ", -1);
        for (char **key = all; *key; key++) {
            if (!**key || g_hash_table_contains(seen, *key)) continue;
            g_ptr_array_add(keys, g_strdup(*key));
            g_hash_table_add(seen, g_ptr_array_index(keys, keys->len - 1));
        }
    }
    g_ptr_array_add(keys, NULL);
    return (char **)g_ptr_array_free(keys, FALSE);
}

/* The key's value, such as "routing.npy", or "none".  If the other record has the same value, the digest of the file
 * follows. */
static char *compare_key_text(const struct record *record, const struct record *other, const char *key)
{
    const char *value = compare_key_value(record, key), *digest = compare_key_digest(record, key);
    const bool digests = *digest && strcmp(value, compare_key_value(other, key)) == 0;
    return g_strdup_printf("%.60s%s%s%s", *value ? value : "none", digests ? " (digest " : "", digests ? digest : "",
                           digests ? ")" : "");
}

/* Whether both records are predictions that list the keys of their work.  The settings of such predictions may
 * differ. */
static bool compare_settings_free(const struct record *a, const struct record *b)
{
    return compare_record_predicted(a) && compare_record_predicted(b) && record_get(a, RECORD_WORK_KEYS) &&
           record_get(b, RECORD_WORK_KEYS);
}

/* The keys that make the case of either record, in order.  For two predictions that list the keys of their work, the
 * result is only these keys. */
static char **compare_case_keys(const struct record *a, const struct record *b)
{
    const char *which = compare_settings_free(a, b) ? RECORD_WORK_KEYS : RECORD_CASE_KEYS;
    const char *lists[] = { record_get(a, which), record_get(b, which) };
    if (!lists[0] && !lists[1] && compare_of_case(a) && compare_of_case(b)) lists[0] = compare_keys_of_all;
    return compare_keys_join(lists, G_N_ELEMENTS(lists));
}

/* The number of experts without the copies that a placement such as "eplb:16" adds; NAN if a file places the
 * experts. */
static double compare_experts(const struct record *record)
{
    const char *placement = compare_key_value(record, "placement");
    if (g_str_has_prefix(placement, "file:")) return NAN;
    const double added = g_str_has_prefix(placement, "eplb:") ? g_ascii_strtod(placement + 5, NULL) : 0;
    return g_ascii_strtod(compare_key_value(record, "num-experts"), NULL) - added;
}

/* Whether a difference in this key follows from a setting, so that it is no difference in the work.  Settings change
 * the cluster's digest, the number of nodes that a token's experts may lie on, and the number of experts with
 * copies. */
static bool compare_key_follows(const struct record *a, const struct record *b, const char *key)
{
    if (!compare_settings_free(a, b)) return false;
    if (strcmp(key, "cluster") == 0) /* the cluster's digest includes the settings */
        return strcmp(compare_key_value(a, key), compare_key_value(b, key)) == 0 && !compare_key_same(a, b, "set");
    if (strcmp(key, "num-topk-groups") == 0) return !compare_key_same(a, b, "ranks-per-node");
    if (strcmp(key, "num-experts") != 0) return false;
    const double x = compare_experts(a), y = compare_experts(b);
    return isnan(x) || isnan(y) || x == y;
}

/* The keys in which a and b differ, as "key: x against y; ...", without keys that follow from other keys.  NULL: no key
 * differs. */
static char *compare_difference_text(const struct record *a, const struct record *b, char *const *keys)
{
    GString *text = NULL;
    for (; *keys; keys++) {
        if (compare_key_same(a, b, *keys) || compare_key_follows(a, b, *keys)) continue;
        if (!text) text = g_string_new(NULL);
        g_autofree char *x = compare_key_text(a, b, *keys), *y = compare_key_text(b, a, *keys);
        g_string_append_printf(text, "%s%s: %s against %s", text->len ? "; " : "", *keys, x, y);
    }
    return text ? g_string_free(text, FALSE) : NULL;
}

char *compare_case_difference(const struct record *a, const struct record *b)
{
    const char *x = record_get(a, "kind"), *y = record_get(b, "kind");
    if (x && y && compare_of_case(a) != compare_of_case(b)) /* micro-benchmarks have phases of the same names */
        return g_strdup_printf("kind: %s against %s", x, y);
    g_auto(GStrv) keys = compare_case_keys(a, b);
    return compare_difference_text(a, b, keys);
}

char *compare_settings_difference(const struct record *a, const struct record *b)
{
    const char *const lists[] = { compare_keys_of_machine, record_get(a, RECORD_CASE_KEYS),
                                  record_get(b, RECORD_CASE_KEYS) };
    g_auto(GStrv) keys = compare_keys_join(lists, G_N_ELEMENTS(lists));
    return compare_difference_text(a, b, keys);
}

bool compare_phase_of_layer(const char *phase)
{
    const char *layer = strstr(phase, "_layer");
    if (!layer || !layer[6]) return false;
    return strspn(layer + 6, "0123456789") == strlen(layer + 6);
}

GPtrArray *compare_phases(const struct record *record)
{
    GPtrArray *phases = g_ptr_array_new();
    g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);
    for (uint32_t i = 0; i < record_row_count(record); i++) {
        char *phase = record_row(record, i)->phase;
        if (g_hash_table_add(seen, phase)) g_ptr_array_add(phases, phase);
    }
    return phases;
}

bool compare_metric_of_part(const char *metric)
{
    return g_str_has_prefix(metric, "bottleneck_") || g_str_has_prefix(metric, "busiest_");
}

/* Whether the metric is compared in addition to the slowest rank's time.  Times and bandwidths are, but not the shares
 * and bounds that explain them.  If a record covers several steps or layers, time_us_median and the like are not
 * compared, because one record may have them over ranks and the other over layers. */
static bool compare_metric_comparable(const char *metric, bool several)
{
    if (compare_metric_of_part(metric)) return false;
    if (g_str_has_suffix(metric, "_gbs") || strcmp(metric, "time_us") == 0 || strcmp(metric, "layers_us") == 0)
        return true;
    return !several && g_str_has_prefix(metric, "time_us_") && strcmp(metric, "time_us_max") != 0;
}

static double compare_error_pct(double predicted, double measured)
{
    return measured != 0 ? (predicted - measured) / fabs(measured) * 100.0 : NAN;
}

/* Sets the row's worst_rank: the rank with the largest error in the row's metric. */
static void compare_worst_find(const struct record *measured, const GPtrArray *rank_rows, struct compare_row *row)
{
    for (guint i = 0; i < rank_rows->len; i++) {
        const struct record_row *a = g_ptr_array_index(rank_rows, i);
        if (strcmp(a->metric, row->metric) != 0) continue;
        const struct record_row *b = record_find(measured, row->phase, a->rank, row->metric);
        const double error_pct = b ? compare_error_pct(a->value, b->value) : NAN;
        if (!isfinite(error_pct)) continue;
        if (row->worst_rank == COMPARE_NO_RANK || fabs(error_pct) > fabs(row->worst_error_pct)) {
            row->worst_rank = a->rank;
            row->worst_error_pct = error_pct;
        }
    }
}

/* Adds a row with the slowest rank's time, which decides what the phase costs. */
static void compare_slowest_add(struct compare *compare, const char *phase)
{
    const double predicted = compare_slowest_us(compare->predicted, phase);
    const double measured = compare_slowest_us(compare->measured, phase);
    const struct compare_row row = { .phase = phase,
                                     .metric = "slowest_us",
                                     .unit = "us",
                                     .rank = RECORD_ALL,
                                     .of_step = g_strcmp0(record_get(compare->predicted, "kind"), "step") == 0,
                                     .predicted = predicted,
                                     .measured = measured,
                                     .error_pct = compare_error_pct(predicted, measured),
                                     .worst_rank = COMPARE_NO_RANK,
                                     .worst_error_pct = NAN };
    if (isfinite(predicted) && isfinite(measured)) g_array_append_val(compare->rows, row);
}

static void compare_row_add(struct compare *compare, const struct record_row *a, const struct record_row *b,
                            const GPtrArray *rank_rows)
{
    struct compare_row row = { .phase = a->phase,
                               .metric = a->metric,
                               .unit = a->unit,
                               .rank = a->rank,
                               .whole = !compare_over_ranks(compare->predicted, a->phase),
                               .predicted = a->value,
                               .measured = b->value,
                               .error_pct = compare_error_pct(a->value, b->value),
                               .worst_rank = COMPARE_NO_RANK,
                               .worst_error_pct = NAN };
    if (a->rank == RECORD_ALL) compare_worst_find(compare->measured, rank_rows, &row);
    g_array_append_val(compare->rows, row);
}

/* Adds the rows of a phase that both records have: the slowest rank's time, the rows for all ranks and, if by_rank, the
 * rows of each rank.  If there are none, notes the phase as one that only one record has. */
static void compare_phase_add(struct compare *compare, const char *phase, const GPtrArray *all_rows,
                              const GPtrArray *rank_rows, bool by_rank)
{
    const guint before = compare->rows->len;
    compare_slowest_add(compare, phase);
    const GPtrArray *const parts[] = { all_rows, by_rank ? rank_rows : NULL };
    for (int part = 0; part < 2; part++) {
        for (guint i = 0; parts[part] && i < parts[part]->len; i++) {
            const struct record_row *a = g_ptr_array_index(parts[part], i);
            const struct record_row *b = record_find(compare->measured, phase, a->rank, a->metric);
            if (b && isfinite(a->value) && isfinite(b->value)) compare_row_add(compare, a, b, rank_rows);
        }
    }
    if (compare->rows->len == before) g_ptr_array_add(compare->lonely, (gpointer)phase);
}

static void compare_phases_match(struct compare *compare, bool by_rank)
{
    g_autoptr(GPtrArray) phases = compare_phases(compare->predicted);
    const bool several = compare_record_several(compare->predicted) || compare_record_several(compare->measured);
    g_autoptr(GHashTable) place = g_hash_table_new(g_str_hash, g_str_equal);
    g_autofree GPtrArray **all_rows = g_new0(GPtrArray *, phases->len + 1);
    g_autofree GPtrArray **rank_rows = g_new0(GPtrArray *, phases->len + 1);
    for (guint p = 0; p < phases->len; p++) {
        all_rows[p] = g_ptr_array_new();
        rank_rows[p] = g_ptr_array_new();
        g_hash_table_insert(place, g_ptr_array_index(phases, p), GUINT_TO_POINTER(p));
    }
    for (uint32_t i = 0; i < record_row_count(compare->predicted); i++) {
        const struct record_row *row = record_row(compare->predicted, i);
        if (!compare_metric_comparable(row->metric, several)) continue;
        const guint p = GPOINTER_TO_UINT(g_hash_table_lookup(place, row->phase));
        g_ptr_array_add(row->rank == RECORD_ALL ? all_rows[p] : rank_rows[p], (gpointer)row);
    }
    for (guint p = 0; p < phases->len; p++) {
        if (all_rows[p]->len + rank_rows[p]->len > 0)
            compare_phase_add(compare, g_ptr_array_index(phases, p), all_rows[p], rank_rows[p], by_rank);
        g_ptr_array_free(all_rows[p], TRUE);
        g_ptr_array_free(rank_rows[p], TRUE);
    }
    g_autoptr(GPtrArray) others = compare_phases(compare->measured);
    for (guint i = 0; i < others->len; i++)
        if (!g_hash_table_contains(place, g_ptr_array_index(others, i)))
            g_ptr_array_add(compare->lonely, g_ptr_array_index(others, i));
}

struct compare *compare_new(const struct record *a, const struct record *b, const struct compare_options *options,
                            GError **error)
{
    char *difference = options->force ? NULL : compare_case_difference(a, b);
    if (difference) {
        error_input(error, "the records are of different %s (%s); --force compares them nevertheless",
                    compare_settings_free(a, b) ? "work" : "cases", difference);
        g_free(difference);
        return NULL;
    }
    struct compare *compare = g_new0(struct compare, 1);
    compare->swapped = !compare_record_predicted(a) && compare_record_predicted(b);
    compare->predicted = compare->swapped ? b : a;
    compare->measured = compare->swapped ? a : b;
    const bool kinds = compare_record_predicted(a) != compare_record_predicted(b);
    compare->predicted_name = kinds ? "predicted" : "first";
    compare->measured_name = kinds ? "measured" : "second";
    compare->rows = g_array_new(FALSE, FALSE, sizeof(struct compare_row));
    compare->lonely = g_ptr_array_new();
    compare_phases_match(compare, options->by_rank);
    if (compare->rows->len > 0) return compare;
    compare_free(compare);
    return error_null(error, "nothing to compare: no phase has a time or bandwidth in both records");
}

void compare_free(struct compare *compare)
{
    if (!compare) return;
    g_array_free(compare->rows, TRUE);
    g_ptr_array_free(compare->lonely, TRUE);
    g_free(compare);
}

bool compare_what_if(const struct compare *compare)
{
    return compare_record_predicted(compare->predicted) == compare_record_predicted(compare->measured);
}

const struct compare_row *compare_row_find(const struct compare *compare, const char *phase, const char *metric)
{
    for (guint i = 0; i < compare->rows->len; i++) {
        const struct compare_row *row = &g_array_index(compare->rows, struct compare_row, i);
        if (row->rank == RECORD_ALL && !strcmp(row->metric, metric) && !strcmp(row->phase, phase)) return row;
    }
    return NULL;
}

const struct compare_row *compare_headline(const struct compare *compare, const char *phase)
{
    const struct compare_row *slowest = compare_row_find(compare, phase, "slowest_us");
    return slowest ? slowest : compare_row_find(compare, phase, "time_us");
}

/* The part of a metric's name between prefix and suffix; NULL if the name lacks either. */
static char *compare_metric_middle(const char *metric, const char *prefix, const char *suffix)
{
    const size_t length = strlen(metric), edges = strlen(prefix) + strlen(suffix);
    if (length <= edges || !g_str_has_prefix(metric, prefix) || !g_str_has_suffix(metric, suffix)) return NULL;
    return g_strndup(metric + strlen(prefix), length - edges);
}

void compare_limit_find(const struct record *record, const char *phase, struct compare_limit *limit)
{
    const struct record_row *named = record_find(record, phase, RECORD_ALL, "bottleneck");
    const struct record_row *part = record_find(record, phase, RECORD_ALL, "bottleneck_part");
    *limit = (struct compare_limit){ .bound_us = NAN, .efficiency_pct = NAN };
    limit->busy_pct = record_value(record, phase, RECORD_ALL, "bottleneck_busy_pct");
    limit->bytes = record_value(record, phase, RECORD_ALL, "bottleneck_bytes");
    limit->rate_gbs = record_value(record, phase, RECORD_ALL, "bottleneck_rate_gbs");
    if (named) limit->resource = limit->part = record_row_text(named);
    if (named && part) limit->part = record_row_text(part);
    const struct record_row *rival = record_find(record, phase, RECORD_ALL, "bottleneck_rival");
    if (rival) limit->rival = record_row_text(rival);
    limit->rival_busy_pct = record_value(record, phase, RECORD_ALL, "bottleneck_rival_busy_pct");
    for (uint32_t i = 0; i < record_row_count(record); i++) {
        const struct record_row *row = record_row(record, i);
        if (row->rank != RECORD_ALL || strcmp(row->phase, phase) != 0) continue;
        g_autofree char *name = compare_metric_middle(row->metric, "bound_", "_us");
        if (name && isfinite(row->value) && !(row->value <= limit->bound_us)) {
            g_strlcpy(limit->bound, name, sizeof limit->bound);
            limit->bound_us = row->value;
        }
    }
    const struct record_row *efficiency = record_find(record, phase, RECORD_ALL, "efficiency_pct");
    limit->efficiency_pct = efficiency ? efficiency->value : 100 * limit->bound_us / compare_slowest_us(record, phase);
}
