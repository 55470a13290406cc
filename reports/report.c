/* report.c - decides which records make a case, and finds the data of its plots and tables.  Knows nothing of HTML
 * and terminals. */
#include "reports/report.h"

#include <math.h>
#include <string.h>

static void report_case_free(gpointer pointer)
{
    struct report_case *c = pointer;
    compare_free(c->compare);
    g_free(c->title);
    g_free(c);
}

static struct report_series report_series_make(const struct record *record, const char *path, const char *name)
{
    const char *kind = record_get(record, "kind");
    const bool predicted = compare_record_predicted(record);
    return (struct report_series){ name ? name : kind ? kind : "record", path, record, predicted, !predicted };
}

static struct report_case *report_case_single(const struct record *record, const char *path)
{
    struct report_case *c = g_new0(struct report_case, 1);
    c->series[0] = report_series_make(record, path, NULL);
    c->series_count = 1;
    return c;
}

/* A case of two records, or NULL if they cannot be compared. */
static struct report_case *report_case_pair(const struct record *predicted, const char *predicted_path,
                                            const struct record *measured, const char *measured_path)
{
    const struct compare_options options = { 0 };
    struct compare *compare = compare_new(predicted, measured, &options, NULL);
    if (!compare) return NULL;
    struct report_case *c = g_new0(struct report_case, 1);
    c->series[0] = report_series_make(predicted, predicted_path, compare->predicted_name);
    c->series[1] = report_series_make(measured, measured_path, compare->measured_name);
    c->series[1].second = true;
    c->series_count = 2;
    c->compare = compare;
    return c;
}

/* Makes cases of predictions that have no measurement.  Each is paired with the first such prediction of equal work. */
static void report_cases_what_if(GPtrArray *cases, const struct record *const *records, const char *const *paths,
                                 bool *used, guint count)
{
    g_autofree bool *first = g_new0(bool, count + 1);
    for (guint b = 1; b < count; b++) {
        struct report_case *pair = NULL;
        for (guint a = 0; a < b && !pair && !used[b]; a++) {
            if ((used[a] && !first[a]) || !record_get(records[a], RECORD_WORK_KEYS)) continue;
            if (!record_get(records[b], RECORD_WORK_KEYS) || !compare_record_predicted(records[a]) ||
                !compare_record_predicted(records[b]))
                continue;
            pair = report_case_pair(records[a], paths[a], records[b], paths[b]);
            if (pair) used[a] = used[b] = first[a] = true;
        }
        if (pair) g_ptr_array_add(cases, pair);
    }
}

GPtrArray *report_cases_new(const struct record *const *records, const char *const *paths, guint count)
{
    GPtrArray *cases = g_ptr_array_new_with_free_func(report_case_free);
    g_autofree bool *used = g_new0(bool, count + 1);
    for (guint m = 0; m < count; m++) {
        if (compare_record_predicted(records[m])) continue;
        struct report_case *pair = NULL;
        for (guint p = 0; p < count && !pair; p++) {
            if (!compare_record_predicted(records[p])) continue;
            pair = report_case_pair(records[p], paths[p], records[m], paths[m]);
            if (pair) used[p] = used[m] = true;
        }
        if (pair) g_ptr_array_add(cases, pair);
    }
    report_cases_what_if(cases, records, paths, used, count);
    for (guint i = 0; i < count; i++)
        if (!used[i]) g_ptr_array_add(cases, report_case_single(records[i], paths[i]));
    report_titles_set(cases);
    return cases;
}

static bool report_metric_matches(const char *metric, const char *wanted)
{
    return g_str_has_suffix(wanted, "_") ? g_str_has_prefix(metric, wanted) : strcmp(metric, wanted) == 0;
}

GPtrArray *report_case_phases(const struct report_case *c, const char *metric, guint count_max)
{
    GPtrArray *phases = g_ptr_array_new();
    g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);
    for (int s = 0; s < c->series_count; s++) {
        const struct record *record = c->series[s].record;
        for (uint32_t i = 0; i < record_row_count(record) && phases->len < count_max; i++) {
            const struct record_row *row = record_row(record, i);
            if (row->rank == RECORD_ALL && isfinite(row->value) && report_metric_matches(row->metric, metric) &&
                g_hash_table_add(seen, row->phase))
                g_ptr_array_add(phases, row->phase);
        }
    }
    return phases;
}

static gint report_sample_order(gconstpointer a, gconstpointer b)
{
    const struct report_sample *x = a, *y = b;
    if (x->value != y->value) return x->value < y->value ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

GArray *report_samples(const struct record *record, const char *phase, const char *metric)
{
    GArray *samples = g_array_new(FALSE, FALSE, sizeof(struct report_sample));
    for (uint32_t i = 0; i < record_row_count(record); i++) {
        const struct record_row *row = record_row(record, i);
        if (row->rank == RECORD_ALL || !isfinite(row->value)) continue;
        if (strcmp(row->metric, metric) != 0 || strcmp(row->phase, phase) != 0) continue;
        const struct report_sample sample = { row->value, row->rank };
        g_array_append_val(samples, sample);
    }
    g_array_sort(samples, report_sample_order);
    return samples;
}

double report_samples_median(const GArray *samples)
{
    const struct report_sample *sample = (const struct report_sample *)(void *)samples->data;
    return (sample[(samples->len - 1) / 2].value + sample[samples->len / 2].value) / 2;
}

int report_explaining(const struct report_case *c) { return c->compare && compare_what_if(c->compare) ? 2 : 1; }

double report_slowest_us(const struct record *record, const char *phase)
{
    const double slowest_us = compare_slowest_us(record, phase);
    return isfinite(slowest_us) ? slowest_us : record_value(record, phase, RECORD_ALL, "time_us");
}
