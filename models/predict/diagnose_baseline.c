/* diagnose_baseline.c - compares a measurement with an earlier one of the same machine, made when the machine was
 * sound.  The prediction's errors are in both and cancel.  Knows no causes. */
#include "models/predict/diagnose.h"

#include <math.h>

static bool strings_equal(char **a, char **b) { return g_strv_equal((const char *const *)a, (const char *const *)b); }

/* How different the cases of two rows are; INFINITY if the rows do not measure the same quantity. */
static double row_distance(const struct validate_row *row, const struct validate_row *sound)
{
    const struct case_options *a = &row->options, *b = &sound->options;
    if (g_strcmp0(a->kernel, b->kernel) != 0 || a->num_ranks != b->num_ranks ||
        !strings_equal(row->phase, sound->phase))
        return INFINITY;
    if (g_strcmp0(row->metric, sound->metric) != 0 || isnan(diagnose_residual(sound))) return INFINITY;
    const double tokens = fabs(log((a->num_tokens + 1.0) / (b->num_tokens + 1.0)));
    return tokens + (g_strcmp0(a->dtype, b->dtype) != 0) + (a->num_sms != b->num_sms);
}

bool diagnose_baseline(const struct validate_table *table, struct validate_table *baseline, uint32_t workers,
                       double *sound, GError **error)
{
    if (!validate_table_run(baseline, workers, error)) return false;
    for (uint32_t i = 0; i < table->row_count; i++) {
        double nearest = INFINITY;
        sound[i] = NAN;
        for (uint32_t k = 0; k < baseline->row_count; k++) {
            const double distance = row_distance(&table->row[i], &baseline->row[k]);
            if (!(distance < nearest)) continue;
            nearest = distance;
            sound[i] = diagnose_residual(&baseline->row[k]);
        }
    }
    return true;
}
