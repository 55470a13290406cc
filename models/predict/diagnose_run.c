/* diagnose_run.c - predicts all rows once for each form of each cause, and ranks causes by how likely they are. */
#include "models/predict/diagnose.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "models/predict/diagnose_rank.h"

#define SECOND_WORTH 0.5  /* of what the first cause left, a second one must explain */
#define SECOND_LEFT  1.12 /* a factor that one does not look behind */
#define SECOND_PRIOR 0.1  /* of the threads, one in ten found a second cause behind the first */
#define ALIKE        0.08 /* ln of a factor: what a row is off by in a prediction (diagnose_rank.c) */

/* What a hypothesis leaves, but not how likely it is. */
static struct verdict verdict_make(const struct hypothesis *h, const struct validate_table *table, const double *before)
{
    struct verdict v = { .cause = h->cause, .variant = h->variant };
    double had = 0, left = 0, gives = 0;
    uint32_t rows = 0, times = 0;
    for (uint32_t i = 0; i < table->row_count; i++) {
        if (isnan(before[i])) continue;
        rows++;
        v.applied += h->applied[i];
        had += before[i] * before[i];
        left += h->residual[i] * h->residual[i];
        if (!validate_row_waits(&table->row[i])) {
            gives += h->residual[i] - before[i];
            times++;
        }
        if (fabs(h->residual[i]) > fabs(before[i]) + log(1.1)) {
            if (!v.contradicting) v.first_contradicting = table->row[i].line;
            v.contradicting++;
        }
    }
    v.explains = had > 0 ? 1 - left / had : 0;
    v.left = exp(sqrt(left / MAX(rows, 1u)));
    v.gives = exp(gives / MAX(times, 1u));
    return v;
}

static int verdict_compare(const void *a, const void *b)
{
    const struct verdict *one = a, *other = b;
    if (one->probability != other->probability) return one->probability > other->probability ? -1 : 1;
    return one->cause < other->cause ? -1 : one->cause > other->cause;
}

/* A measurement, and what is known before one looks at its numbers. */
struct compared {
    struct validate_table *table;
    const struct diagnose_how *how;
    const double *before; /* residuals, [rows] */
    const bool *waits;    /* [rows] of how long ranks waited */
    struct cause_context context;
};

static double prior(const struct compared *c, const struct cause *cause)
{
    if (c->how->flat) return 1;
    return cause ? cause_prior(cause, &c->context) : rank_prior(RANK_THREADS_UNKNOWN, 0);
}

static void verdict_clear(void *verdict) { g_free(((struct verdict *)verdict)->residual); }

static double cause_density(const struct compared *c, const double *residual)
{
    const struct rank_rows rows = { residual, c->before, c->waits, c->table->row_count };
    return rank_cause_density(&rows, c->how->baseline != NULL);
}

/* Verdicts of all causes from the hypotheses, which stand cause by cause, against what is left before them.  The
 * probabilities are not yet divided by their sum. */
static GArray *verdicts_make(const struct hypothesis *h, uint32_t count, const struct compared *c, const double *before)
{
    const struct validate_table *table = c->table;
    GArray *verdicts = g_array_new(FALSE, TRUE, sizeof(struct verdict));
    g_array_set_clear_func(verdicts, verdict_clear);
    for (uint32_t k = 0; k < count;) {
        const struct cause *cause = h[k].cause;
        double likelihood = 0, best = -INFINITY;
        const double *residual = NULL;
        uint32_t strengths = 0;
        struct verdict v = { 0 };
        for (; k < count && h[k].cause == cause; k++) {
            strengths += cause_variant_strengths(&cause->variant[h[k].variant]);
            const struct verdict form = verdict_make(&h[k], table, before);
            if (h[k].fails || form.explains < CAUSE_EXPLAINS_LEAST) continue;
            const double density = cause_density(c, h[k].residual);
            likelihood += exp(density);
            if (density > best) {
                v = form;
                residual = h[k].residual;
            }
            best = fmax(best, density);
        }
        v.prior = prior(c, cause);
        v.probability = v.prior * likelihood / strengths;
        if (!v.cause) continue;
        v.residual = g_memdup2(residual, (table->row_count + 1) * sizeof *residual);
        g_array_append_val(verdicts, v);
    }
    if (verdicts->len) qsort(verdicts->data, verdicts->len, sizeof(struct verdict), verdict_compare);
    return verdicts;
}

bool diagnose_alike(const struct verdict *a, const struct verdict *b, uint32_t rows)
{
    for (uint32_t i = 0; i < rows; i++)
        if (fabs(a->residual[i] - b->residual[i]) > ALIKE) return false;
    return true;
}

static void probabilities_divide(struct diagnosis *d, double none)
{
    double sum = none;
    for (uint32_t i = 0; i < d->verdict_count; i++) sum += d->verdict[i].probability;
    for (uint32_t i = 0; i < d->verdict_count; i++) d->verdict[i].probability /= sum;
    d->none = none / sum;
}

static bool first_find(struct diagnosis *d, const struct compared *c, struct hypothesis *first, GError **error)
{
    uint32_t count;
    struct hypothesis *h = hypotheses_new(NULL, c->table->row_count, &count);
    const bool good = hypotheses_predict(c->table, NULL, h, count, c->how->workers, error);
    if (good) {
        GArray *verdicts = verdicts_make(h, count, c, c->before);
        d->verdict_count = verdicts->len;
        d->verdict = (struct verdict *)(void *)g_array_free(verdicts, FALSE);
        d->none_prior = prior(c, NULL);
        const struct rank_rows unknown = { c->before, c->before, c->waits, c->table->row_count };
        probabilities_divide(d, d->none_prior * exp(rank_unknown_density(&unknown)));
    }
    for (uint32_t k = 0; good && d->verdict_count && k < count; k++)
        if (h[k].cause == d->verdict->cause && h[k].variant == d->verdict->variant) {
            *first = h[k]; /* keeps its arrays */
            h[k].applied = NULL;
            h[k].residual = NULL;
        }
    hypotheses_free(h, count);
    return good;
}

static bool second_find(struct diagnosis *d, const struct compared *c, const struct hypothesis *first, GError **error)
{
    uint32_t count;
    struct hypothesis *h = hypotheses_new(first->cause, c->table->row_count, &count);
    const bool good = hypotheses_predict(c->table, first, h, count, c->how->workers, error);
    if (good) {
        g_autoptr(GArray) verdicts = verdicts_make(h, count, c, first->residual);
        double priors = 0; /* of all that could be the second */
        for (guint i = 0; i < verdicts->len; i++) priors += prior(c, g_array_index(verdicts, struct verdict, i).cause);
        const double alone = exp(cause_density(c, first->residual));
        const struct verdict *best = verdicts->len ? &g_array_index(verdicts, struct verdict, 0) : NULL;
        if (best && best->explains >= SECOND_WORTH && SECOND_PRIOR * best->probability / priors > alone)
            d->second = *best;
        d->second.residual = NULL; /* the array's */
    }
    hypotheses_free(h, count);
    return good;
}

/* RoCE's headers are three times as long as InfiniBand's: Ethernet, IP and UDP beside them. */
enum { ETHERNET_HEADER_BYTES = 60 };

static void context_find(struct compared *c)
{
    c->context = (struct cause_context){ .topic = CAUSE_OF_MESSAGES, .public_test = true, .sms_stated = true };
    for (uint32_t i = 0; i < c->table->row_count; i++) {
        const struct validate_row *row = &c->table->row[i];
        if (isnan(c->before[i])) continue;
        const char *kernel = row->options.kernel ? row->options.kernel : "ll";
        if (!strcmp(kernel, "ll") || !strcmp(kernel, "normal") || !strcmp(kernel, "v2"))
            c->context.topic = CAUSE_OF_KERNELS;
        c->context.public_test &= row->options.cached;
        c->context.sms_stated &= row->options.num_sms > 0;
        struct cluster *cluster = cluster_load_set(row->options.cluster, (const char *const *)row->settings, NULL);
        c->context.ethernet |= cluster && cluster->nic.header_bytes >= ETHERNET_HEADER_BYTES;
        cluster_free(cluster);
    }
}

static bool causes_find(struct diagnosis *d, struct compared *c, GError **error)
{
    struct hypothesis first = { 0 };
    context_find(c);
    bool good = first_find(d, c, &first, error);
    if (good && first.cause && d->rows > 1 && d->verdict->explains > 0.3 && d->verdict->left > SECOND_LEFT)
        good = second_find(d, c, &first, error);
    g_free(first.applied);
    g_free(first.residual);
    return good;
}

/* The rows as they would have been measured if the prediction were right of the sound machine.  What they point to
 * stays table's. */
static struct validate_row *rows_relative(const struct validate_table *table, const double *sound)
{
    struct validate_row *rows = g_memdup2(table->row, table->row_count * sizeof *rows);
    for (uint32_t i = 0; i < table->row_count; i++) {
        rows[i].native |= isnan(sound[i]); /* not compared */
        rows[i].measured_us /= exp(sound[i]);
        rows[i].measured_gbs *= exp(sound[i]);
        rows[i].measured_pct = (100 + rows[i].measured_pct) / exp(sound[i]) - 100;
    }
    return rows;
}

struct diagnosis *diagnose_run(struct validate_table *table, const struct diagnose_how *how, GError **error)
{
    struct diagnosis *d = g_new0(struct diagnosis, 1);
    bool good = validate_table_run(table, how->workers, error);
    struct validate_table relative = *table;
    g_autofree struct validate_row *rows = NULL;
    if (good && how->baseline) {
        d->sound = g_new(double, table->row_count + 1);
        good = diagnose_baseline(table, how->baseline, how->workers, d->sound, error);
        if (good) relative.row = rows = rows_relative(table, d->sound);
    }
    table = &relative;
    g_autofree double *before = g_new(double, table->row_count + 1);
    g_autofree bool *waits = g_new0(bool, table->row_count + 1);
    double squares[2] = { 0 }; /* of times, of waits */
    uint32_t counts[2] = { 0 };
    for (uint32_t i = 0; good && i < table->row_count; i++) {
        before[i] = diagnose_residual(&table->row[i]);
        waits[i] = validate_row_waits(&table->row[i]);
        if (isnan(before[i])) continue;
        d->rows++;
        counts[waits[i]]++;
        squares[waits[i]] += before[i] * before[i];
    }
    if (good && !d->rows)
        g_set_error(error, DIAGNOSE_ERROR, DIAGNOSE_ERROR_INPUT,
                    "%s: expected rows with measured_us or measured_gbs that can be predicted%s, found none",
                    table->path, how->baseline ? " and that the baseline has" : "");
    good = good && d->rows;
    d->before = exp(sqrt(squares[0] / MAX(counts[0], 1u)));
    d->before_waits = exp(sqrt(squares[1] / MAX(counts[1], 1u)));
    struct compared compared = { .table = table, .how = how, .before = before, .waits = waits };
    if (good && causes_find(d, &compared, error)) return d;
    diagnosis_free(d);
    return NULL;
}

void diagnosis_free(struct diagnosis *d)
{
    if (!d) return;
    for (uint32_t i = 0; i < d->verdict_count; i++) verdict_clear(&d->verdict[i]);
    g_free(d->sound);
    g_free(d->verdict);
    g_free(d);
}
