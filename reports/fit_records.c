/* fit_records.c - one measurement of a machine from several: the median of each row. */
#include "reports/fit_cluster.h"

#include <math.h>
#include <string.h>

#include "sim/error.h"
#include "sim/stats.h"

/* Whether the key tells how long the measurement was or what else the machine did, so that it may differ between
 * records. */
static bool fit_key_may_differ(const char *key)
{
    static const char *const keys[] = { "repeat",           "sample-ms",        "busy",      "cpu-others-pct",
                                        "cpu-steal-pct",    "cpu-pressure-pct", "run-queue", "cpu-mhz",
                                        "passes-disturbed", "passes-repeated",  NULL };
    return g_strv_contains(keys, key);
}

static bool fit_headers_match(const struct record *first, const char *first_path, const struct record *other,
                              const char *path, GError **error)
{
    for (uint32_t i = 0; i < record_key_count(first); i++) {
        const char *key = record_key(first, i), *expected = record_get(first, key), *found = record_get(other, key);
        if (fit_key_may_differ(key) || g_strcmp0(expected, found) == 0) continue;
        return error_input(error, "%s: header %s: expected '%.40s' as in %s, found '%.40s'", path, key, expected,
                           first_path, found ? found : "");
    }
    return true;
}

static bool fit_rows_match(const struct record *first, const char *first_path, const struct record *other,
                           const char *path, GError **error)
{
    const uint32_t count = record_row_count(first), others = record_row_count(other);
    for (uint32_t i = 0; i < MIN(count, others); i++) {
        const struct record_row *a = record_row(first, i), *b = record_row(other, i);
        if (strcmp(a->phase, b->phase) == 0 && a->rank == b->rank && strcmp(a->metric, b->metric) == 0 &&
            strcmp(a->unit, b->unit) == 0)
            continue;
        return error_input(error, "%s: row %u: expected %s,%s (%s) as in %s, found %s,%s (%s)", path, i + 1, a->phase,
                           a->metric, a->unit, first_path, b->phase, b->metric, b->unit);
    }
    if (count == others) return true;
    return error_input(error, "%s: expected %u rows as in %s, found %u", path, count, first_path, others);
}

/* Adds the median of the records' i-th rows.  If one of these rows is not a number, adds its text instead. */
static void fit_row_add(struct record *all, struct record *const *records, uint32_t count, uint32_t i, double *values)
{
    for (uint32_t r = 0; r < count; r++) {
        const struct record_row *row = record_row(records[r], i);
        values[r] = row->value;
        if (!isnan(row->value)) continue;
        record_add_text(all, row->phase, row->rank, row->metric, record_row_text(row));
        return;
    }
    const struct record_row *row = record_row(records[0], i);
    record_add(all, row->phase, row->rank, row->metric, stats_median(values, count), row->unit);
}

struct record *fit_records_median(struct record *const *records, char *const *path, uint32_t count, GError **error)
{
    const struct record *first = records[0];
    for (uint32_t r = 1; r < count; r++)
        if (!fit_headers_match(first, path[0], records[r], path[r], error) ||
            !fit_rows_match(first, path[0], records[r], path[r], error))
            return NULL;
    struct record *all = record_new();
    for (uint32_t i = 0; i < record_key_count(first); i++)
        record_set(all, record_key(first, i), "%s", record_get(first, record_key(first, i)));
    g_autofree double *values = g_new(double, count);
    for (uint32_t i = 0; i < record_row_count(first); i++) fit_row_add(all, records, count, i, values);
    return all;
}
