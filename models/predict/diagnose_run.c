/* diagnose_run.c - predicts all rows once for each cause, in one run on all cores, and ranks what explains most. */
#include "models/predict/diagnose.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_WORTH 0.5 /* of what the first cause left, a second one must explain */

#define ALIKE        0.05 /* shares of the squares that differ by less say nothing */

/* ln of measured over predicted time; NAN where the row cannot be compared. */
static double residual(const struct validate_row *row)
{
    if (row->problem || row->native) return NAN;
    if (isfinite(row->measured_us)) return log(row->measured_us / row->predicted_us);
    return log(row->predicted_gbs / row->measured_gbs);
}

static struct validate_table *table_with_room(const struct validate_table *table, uint32_t copies)
{
    struct validate_table *many = g_new0(struct validate_table, 1);
    many->path = g_strdup(table->path);
    many->row = g_new0(struct validate_row, (gsize)table->row_count * copies);
    return many;
}

/* Rows of table with causes planted, cause after cause; those to which one does not apply are left as they are and
 * noted in applied[]. */
static struct validate_table *causes_predict(const struct validate_table *table, const struct cause *first,
                                             GArray *causes, bool *applied, uint32_t workers, GError **error)
{
    struct validate_table *many = table_with_room(table, causes->len);
    g_autoptr(GHashTable) clusters = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, (GDestroyNotify)cluster_free);
    for (guint c = 0; c < causes->len; c++)
        for (uint32_t i = 0; i < table->row_count; i++) {
            const struct validate_row *row = &table->row[i];
            const char *path = row->options.cluster;
            struct cluster *cluster = path ? g_hash_table_lookup(clusters, path) : NULL;
            if (!cluster && path && (cluster = cluster_load(path, NULL)))
                g_hash_table_insert(clusters, (void *)path, cluster);
            struct validate_row *copy = &many->row[many->row_count++];
            *copy = validate_row_copy(row);
            if (!cluster || validate_row_idle(copy)) continue;
            if (first) cause_plant(first, cluster, copy);
            applied[c * table->row_count + i] =
                cause_plant(g_array_index(causes, const struct cause *, c), cluster, copy);
        }
    validate_jobs_number(many);
    if (validate_table_run(many, workers, error)) return many;
    validate_table_free(many);
    return NULL;
}

/* before: residuals that the cause is measured by, [row_count]. */
static struct verdict verdict_make(const struct cause *cause, const struct validate_table *table, const double *before,
                                   const struct validate_row *planted, const bool *applied)
{
    struct verdict v = { .cause = cause };
    double had = 0, left = 0;
    uint32_t rows = 0;
    for (uint32_t i = 0; i < table->row_count; i++) {
        if (isnan(before[i])) continue;
        const double after = applied[i] ? residual(&planted[i]) : before[i];
        if (isnan(after)) return (struct verdict){ 0 }; /* what cannot run here explains nothing */
        rows++;
        v.applied += applied[i];
        had += before[i] * before[i];
        left += after * after;
        if (fabs(after) > fabs(before[i]) + log(1.1)) {
            if (!v.contradicting) v.first_contradicting = table->row[i].line;
            v.contradicting++;
        }
    }
    v.explains = had > 0 ? 1 - left / had : 0;
    v.left = exp(sqrt(left / MAX(rows, 1u)));
    return v.applied ? v : (struct verdict){ 0 };
}

static int verdict_compare(const void *a, const void *b)
{
    const struct verdict *one = a, *other = b;
    const double left = round(one->explains / ALIKE), right = round(other->explains / ALIKE);
    if (left != right) return left > right ? -1 : 1;
    return one->cause < other->cause ? -1 : one->cause > other->cause;
}

static GArray *causes_list(const struct cause *but)
{
    GArray *list = g_array_new(FALSE, FALSE, sizeof(const struct cause *));
    for (const struct cause *c = diagnose_causes(); c->id; c++)
        if (c != but) g_array_append_val(list, c);
    return list;
}

static bool round_run(const struct validate_table *table, const struct cause *first, const double *before,
                      GArray *verdicts, uint32_t workers, GError **error)
{
    g_autoptr(GArray) causes = causes_list(first);
    g_autofree bool *applied = g_new0(bool, (gsize)causes->len * table->row_count);
    struct validate_table *many = causes_predict(table, first, causes, applied, workers, error);
    if (!many) return false;
    for (guint c = 0; c < causes->len; c++) {
        const struct verdict v =
            verdict_make(g_array_index(causes, const struct cause *, c), table, before,
                         many->row + (gsize)c * table->row_count, applied + (gsize)c * table->row_count);
        if (v.cause) g_array_append_val(verdicts, v);
    }
    validate_table_free(many);
    qsort(verdicts->data, verdicts->len, sizeof(struct verdict), verdict_compare);
    return true;
}

/* Residuals with the first cause in place. */
static bool residuals_after(const struct validate_table *table, const struct cause *cause, double *after,
                            uint32_t workers, GError **error)
{
    g_autoptr(GArray) causes = g_array_new(FALSE, FALSE, sizeof cause);
    g_array_append_val(causes, cause);
    g_autofree bool *applied = g_new0(bool, table->row_count);
    struct validate_table *one = causes_predict(table, NULL, causes, applied, workers, error);
    if (!one) return false;
    for (uint32_t i = 0; i < table->row_count; i++)
        after[i] = applied[i] ? residual(&one->row[i]) : residual(&table->row[i]);
    validate_table_free(one);
    return true;
}

static bool second_find(struct diagnosis *d, const struct validate_table *table, uint32_t workers, GError **error)
{
    g_autofree double *after = g_new(double, table->row_count);
    g_autoptr(GArray) verdicts = g_array_new(FALSE, TRUE, sizeof(struct verdict));
    if (!residuals_after(table, d->verdict[0].cause, after, workers, error) ||
        !round_run(table, d->verdict[0].cause, after, verdicts, workers, error))
        return false;
    if (verdicts->len && g_array_index(verdicts, struct verdict, 0).explains >= SECOND_WORTH)
        d->second = g_array_index(verdicts, struct verdict, 0);
    return true;
}

struct diagnosis *diagnose_run(struct validate_table *table, uint32_t workers, GError **error)
{
    struct diagnosis *d = g_new0(struct diagnosis, 1);
    if (!validate_table_run(table, workers, error)) {
        diagnosis_free(d);
        return NULL;
    }
    g_autofree double *before = g_new(double, table->row_count + 1);
    double squares = 0;
    for (uint32_t i = 0; i < table->row_count; i++) {
        before[i] = residual(&table->row[i]);
        if (isnan(before[i])) continue;
        d->rows++;
        squares += before[i] * before[i];
    }
    if (!d->rows) {
        g_set_error(error, DIAGNOSE_ERROR, DIAGNOSE_ERROR_INPUT,
                    "%s: expected rows with measured_us or measured_gbs that can be "
                    "predicted, found none",
                    table->path);
        diagnosis_free(d);
        return NULL;
    }
    d->before = exp(sqrt(squares / d->rows));
    GArray *verdicts = g_array_new(FALSE, TRUE, sizeof(struct verdict));
    const bool good = round_run(table, NULL, before, verdicts, workers, error);
    d->verdict_count = verdicts->len;
    d->verdict = (struct verdict *)(void *)g_array_free(verdicts, FALSE);
    const bool more =
        good && d->verdict_count && d->verdict[0].explains > 0.3 && d->verdict[0].left > 1.12 && d->rows > 1;
    if (good && (!more || second_find(d, table, workers, error))) return d;
    diagnosis_free(d);
    return NULL;
}

void diagnosis_free(struct diagnosis *d)
{
    if (!d) return;
    g_free(d->verdict);
    g_free(d);
}
