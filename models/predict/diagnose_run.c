/* diagnose_run.c - predicts all rows once for each variant of each cause, and ranks causes by how likely they are. */
#include "models/predict/diagnose.h"

#include <math.h>
#include <stdlib.h>
#include "models/predict/diagnose_rank.h"

#define SECOND_WORTH 0.5   /* the least share of the first cause's residual that a second one must explain */
#define SECOND_LEFT  1.12  /* no second cause is sought for a residual below this factor */
#define SECOND_PRIOR 0.1   /* one public thread in ten found a second cause */
#define ALIKE        0.08  /* a row's own error: verdicts whose residuals (ln) differ by no more are alike */
#define UNLIKELY     1e-3  /* a variant of a cause with less than this probability is not examined further */
enum { LIKELY_LEAST = 8 }; /* at least this many variants of causes are examined, however unlikely they are */

/* A verdict about a hypothesis, without its probability. */
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
            /* the smaller of two ln: of the time with h over the measured time, and over the time without h */
            v.over += fmin(before[i] - h->residual[i], -h->residual[i]);
            gives -= fmin(before[i] - h->residual[i], fmax(before[i], 0)); /* a sound row takes as long as expected */
            times++;
        }
        if (fabs(h->residual[i]) > fabs(before[i]) + log(1.1)) {
            if (!v.contradicting) v.first_contradicting = table->row[i].line;
            v.contradicting++;
        }
    }
    v.explains = had > 0 ? 1 - left / had : 0;
    v.left = exp(sqrt(left / MAX(rows, 1u)));
    v.over /= MAX(times, 1u);
    v.gives = exp(gives / MAX(times, 1u));
    return v;
}

static int verdict_compare(const void *a, const void *b)
{
    const struct verdict *one = a, *other = b;
    if (one->probability != other->probability) return one->probability > other->probability ? -1 : 1;
    return one->cause < other->cause ? -1 : one->cause > other->cause;
}

/* The measurements that are compared, and what is known before their numbers are read. */
struct compared {
    struct validate_table *table;
    const struct diagnose_how *how;
    const double *before; /* residuals, [rows] */
    const bool *waits;    /* [rows] whether the row is a share of waiting */
    struct cause_context context;
};

static double prior(const struct compared *c, const struct cause *cause)
{
    if (c->how->flat) return 1;
    return cause ? cause_prior(cause, &c->context) : cause_unknown_prior(&c->context);
}

static void verdict_clear(void *verdict) { g_free(((struct verdict *)verdict)->residual); }

static double cause_density(const struct compared *c, const double *residual)
{
    const struct rank_rows rows = { residual, c->before, c->waits, c->table->row_count };
    return rank_cause_density(&rows, c->how->baseline != NULL);
}

/* ln of the density of the rows under a hypothesis; -INFINITY if it explains nothing.  *form gets its verdict. */
static double hypothesis_density(const struct hypothesis *h, const struct compared *c, const double *before,
                                 struct verdict *form)
{
    *form = verdict_make(h, c->table, before);
    if (h->fails || form->explains < CAUSE_EXPLAINS_LEAST) return -INFINITY;
    return cause_density(c, h->residual) + rank_excess_density(form->over);
}

/* Makes a verdict for each cause from the hypotheses, which are sorted by cause; before[] are the residuals without
 * them.  A verdict's `probability` is the ln of prior times likelihood until probabilities_divide() runs. */
static GArray *verdicts_make(const struct hypothesis *h, uint32_t count, const struct compared *c, const double *before)
{
    const struct validate_table *table = c->table;
    GArray *verdicts = g_array_new(FALSE, TRUE, sizeof(struct verdict));
    g_array_set_clear_func(verdicts, verdict_clear);
    for (uint32_t k = 0; k < count;) {
        const struct cause *cause = h[k].cause;
        double likelihood = -INFINITY, best = -INFINITY;
        const double *residual = NULL;
        uint32_t strengths = 0;
        struct verdict v = { 0 }, form;
        for (; k < count && h[k].cause == cause; k++) {
            strengths += cause_variant_strengths(&cause->variant[h[k].variant]);
            const double density = hypothesis_density(&h[k], c, before, &form);
            likelihood = rank_ln_add(likelihood, density);
            if (density > best) {
                v = form;
                residual = h[k].residual;
            }
            best = fmax(best, density);
        }
        v.prior = prior(c, cause);
        v.probability = log(v.prior / strengths) + likelihood;
        if (!v.cause) continue;
        v.residual = g_memdup2(residual, (table->row_count + 1) * sizeof *residual);
        g_array_append_val(verdicts, v);
    }
    if (verdicts->len) qsort(verdicts->data, verdicts->len, sizeof(struct verdict), verdict_compare);
    return verdicts;
}

static int double_fall(const void *a, const void *b)
{
    const double left = *(const double *)a, right = *(const double *)b;
    return left > right ? -1 : left < right;
}

/* Sets `skip` of hypotheses that are unlikely by the residuals that the first answer expects of them. */
static void unlikely_skip(struct hypothesis *h, uint32_t count, const struct compared *c, const double *before)
{
    g_autofree double *weight = g_new(double, count + 1), *order = g_new(double, count + 1);
    double sum = log(prior(c, NULL)) +
                 rank_factor_density(&(struct rank_rows){ before, before, c->waits, c->table->row_count }, false);
    for (uint32_t k = 0; k < count; k++) {
        struct verdict form;
        weight[k] = order[k] = log(prior(c, h[k].cause)) + hypothesis_density(&h[k], c, before, &form);
        sum = rank_ln_add(sum, weight[k]);
    }
    qsort(order, count, sizeof *order, double_fall);
    const double least = fmin(log(UNLIKELY) + sum, order[MIN(count, LIKELY_LEAST) - 1]);
    for (uint32_t k = 0; k < count; k++) h[k].skip = !(weight[k] > -INFINITY && weight[k] >= least);
}

bool diagnose_alike(const struct verdict *a, const struct verdict *b, uint32_t rows)
{
    for (uint32_t i = 0; i < rows; i++)
        if (fabs(a->residual[i] - b->residual[i]) > ALIKE) return false;
    return true;
}

/* Turns logarithms of prior times likelihood into probabilities: those of the verdicts, of no known cause, and of a
 * sound machine. */
static void probabilities_divide(struct diagnosis *d, double none, double fine)
{
    double sum = rank_ln_add(none, fine);
    for (uint32_t i = 0; i < d->verdict_count; i++) sum = rank_ln_add(sum, d->verdict[i].probability);
    for (uint32_t i = 0; i < d->verdict_count; i++) d->verdict[i].probability = exp(d->verdict[i].probability - sum);
    d->none = exp(none - sum);
    d->fine = exp(fine - sum);
}

static void first_find(struct diagnosis *d, const struct compared *c, const struct hypothesis *h, uint32_t count)
{
    GArray *verdicts = verdicts_make(h, count, c, c->before);
    const struct rank_rows rows = { c->before, c->before, c->waits, c->table->row_count };
    d->verdict_count = verdicts->len;
    d->verdict = (struct verdict *)(void *)g_array_free(verdicts, FALSE);
    d->none_prior = prior(c, NULL);
    d->fine_prior = c->how->flat ? 1 : rank_prior(RANK_THREADS_SOUND, 0);
    probabilities_divide(
        d, log(d->none_prior) + diagnose_unknown_density(c->table, &rows, h, count, c->how->baseline != NULL),
        log(d->fine_prior) + cause_density(c, c->before));
}

static const struct hypothesis *hypothesis_find(const struct hypothesis *h, uint32_t count, const struct cause *cause,
                                                uint32_t variant)
{
    for (uint32_t k = 0; k < count; k++)
        if (h[k].cause == cause && h[k].variant == variant) return &h[k];
    return NULL;
}

/* Finds a second cause, in addition to the first.  known: the hypotheses, each with the effect that it has alone.  By
 * these effects the unlikely hypotheses are skipped, and the others are predicted in addition to the first cause. */
static bool second_find(struct diagnosis *d, const struct compared *c, const struct hypothesis *known,
                        uint32_t known_count, GError **error)
{
    uint32_t count;
    const struct hypothesis *first = hypothesis_find(known, known_count, d->verdict->cause, d->verdict->variant);
    struct hypothesis *h = hypotheses_new(first->cause, c->table->row_count, &count);
    for (uint32_t k = 0; k < count; k++) {
        const struct hypothesis *alone = hypothesis_find(known, known_count, h[k].cause, h[k].variant);
        for (uint32_t i = 0; i < c->table->row_count; i++) {
            h[k].applied[i] = alone->applied[i];
            h[k].residual[i] = first->residual[i] + alone->residual[i] - c->before[i];
        }
    }
    unlikely_skip(h, count, c, first->residual);
    const bool good = hypotheses_predict(c->table, first, h, count, DIAGNOSE_WHOLE, c->how->workers, error);
    if (good) {
        g_autoptr(GArray) verdicts = verdicts_make(h, count, c, first->residual);
        double priors = 0; /* sum over all causes that could be the second */
        for (guint i = 0; i < verdicts->len; i++) priors += prior(c, g_array_index(verdicts, struct verdict, i).cause);
        const double alone = cause_density(c, first->residual);
        const struct verdict *best = verdicts->len ? &g_array_index(verdicts, struct verdict, 0) : NULL;
        if (best && best->explains >= SECOND_WORTH && log(SECOND_PRIOR / priors) + best->probability > alone)
            d->second = *best;
        d->second.residual = NULL; /* the array owns it */
    }
    hypotheses_free(h, count);
    return good;
}

/* RoCE's headers are three times as long as InfiniBand's, because Ethernet, IP and UDP are added. */
enum { ETHERNET_HEADER_BYTES = 60 };

static bool cluster_same(const struct validate_row *one, const struct validate_row *other)
{
    if (g_strcmp0(one->options.cluster, other->options.cluster) != 0) return false;
    if (!one->settings || !other->settings) return one->settings == other->settings;
    return g_strv_equal((const char *const *)one->settings, (const char *const *)other->settings);
}

static void context_find(struct compared *c)
{
    const struct validate_row *last = NULL; /* the last row whose cluster was read */
    c->context = (struct cause_context){ .topic = CAUSE_OF_MESSAGES, .public_test = true, .sms_stated = true };
    for (uint32_t i = 0; i < c->table->row_count; i++) {
        const struct validate_row *row = &c->table->row[i];
        if (isnan(c->before[i])) continue;
        if (case_kernel_in(&row->options, "ll|normal|v2")) c->context.topic = CAUSE_OF_KERNELS;
        c->context.public_test &= row->options.cached;
        c->context.sms_stated &= row->options.num_sms > 0 || !case_kernel_in(&row->options, "normal|v2");
        if (c->context.ethernet || (last && cluster_same(row, last))) continue;
        last = row;
        g_autoptr(cluster) cluster = cluster_load_set(row->options.cluster, (const char *const *)row->settings, NULL);
        c->context.ethernet = cluster && cluster->nic.header_bytes >= ETHERNET_HEADER_BYTES;
    }
}

/* The rows, corrected by the error of the sound machine's prediction.  These copies share the table's pointers. */
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

/* Sets before[] to the residuals of the predicted rows, and waits[] to whether each is a share of waiting.  False: no
 * row can be compared. */
static bool rows_compare(struct diagnosis *d, const struct validate_table *table, double *before, bool *waits)
{
    double squares[2] = { 0 }; /* of times, of waits */
    for (uint32_t i = 0; i < table->row_count; i++) {
        before[i] = diagnose_residual(&table->row[i]);
        waits[i] = validate_row_waits(&table->row[i]);
        if (isnan(before[i])) continue;
        d->rows += !waits[i];
        d->waits += waits[i];
        squares[waits[i]] += before[i] * before[i];
    }
    d->before = exp(sqrt(squares[0] / MAX(d->rows, 1u)));
    d->before_waits = exp(sqrt(squares[1] / MAX(d->waits, 1u)));
    return d->rows + d->waits > 0;
}

#define AGREES        1.15 /* within 15 % nothing needs an explanation */
#define AGREES_BESIDE 1.1  /* the limit with a baseline */

bool diagnose_agrees(const struct diagnosis *d)
{
    return fmax(d->before, d->before_waits) <= (d->sound ? AGREES_BESIDE : AGREES);
}

/* ---- a few rows first ---- */

/* Compares a few rows of a large table with all causes, and calls how->first with the answer.  Returns all hypotheses
 * with their effects on all rows (diagnose_effects_spread()), or NULL if there is no first answer. */
static struct hypothesis *first_answer(struct validate_table *table, const struct diagnose_how *how,
                                       uint32_t *count_all, GError **error)
{
    uint32_t count;
    struct hypothesis *all = hypotheses_new(NULL, table->row_count, &count), *h = NULL;
    g_autofree uint32_t *row_of = g_new0(uint32_t, table->row_count + 1);
    struct validate_table few = { .path = table->path, .column = table->column, .column_count = table->column_count };
    const bool wanted = !diagnose_works_at_once(table, count);
    if (wanted) few.row_count = diagnose_few(table, count, row_of);
    g_autofree struct validate_row *rows = few.row = g_new0(struct validate_row, few.row_count + 1);
    for (uint32_t i = 0; i < few.row_count; i++) rows[i] = table->row[row_of[i]];
    g_autofree double *before = g_new0(double, few.row_count + 1);
    g_autofree bool *waits = g_new0(bool, few.row_count + 1);
    struct diagnosis *d = g_new0(struct diagnosis, 1);
    bool good = few.row_count > 0;
    validate_jobs_number(&few);
    if (good && !how->baseline) good = diagnose_predict_few(&few, how->workers, error);
    good = good && rows_compare(d, &few, before, waits);
    if (good) h = hypotheses_new(NULL, few.row_count, &count);
    good = good && hypotheses_predict(&few, NULL, h, count, DIAGNOSE_SCREEN, how->workers, error);
    if (good) {
        struct compared c = { .table = &few, .how = how, .before = before, .waits = waits };
        context_find(&c);
        first_find(d, &c, h, count);
        if (how->first) how->first(d, &few, how->context);
        diagnose_effects_spread(table, row_of, few.row_count, before, h, all, count);
    }
    for (uint32_t i = 0; i < few.row_count && !how->baseline; i++) g_free(rows[i].problem);
    diagnosis_free(d);
    if (h) hypotheses_free(h, count);
    *count_all = count;
    if (good) return all;
    hypotheses_free(all, count);
    return NULL;
}

/* ---- all rows ---- */

/* Compares all rows with all causes, except those that are unlikely by the guess.  guess: first_answer()'s hypotheses,
 * or NULL. */
static bool causes_find(struct diagnosis *d, struct compared *c, const struct hypothesis *guess, GError **error)
{
    uint32_t count;
    struct hypothesis *h = hypotheses_new(NULL, c->table->row_count, &count);
    context_find(c);
    for (uint32_t k = 0; k < count && guess; k++)
        for (uint32_t i = 0; i < c->table->row_count; i++) {
            h[k].applied[i] = guess[k].applied[i];
            h[k].residual[i] = c->before[i] + guess[k].residual[i];
        }
    if (guess) unlikely_skip(h, count, c, c->before);
    if (diagnose_agrees(d)) { /* no cause is looked for */
        first_find(d, c, NULL, 0);
        hypotheses_free(h, count);
        return true;
    }
    bool good = hypotheses_predict(c->table, NULL, h, count, DIAGNOSE_WHOLE, c->how->workers, error);
    if (good) first_find(d, c, h, count);
    const struct verdict *first = good && d->verdict_count ? d->verdict : NULL;
    if (first && d->rows + d->waits > 1 && first->explains > 0.3 && first->left > SECOND_LEFT)
        good = second_find(d, c, h, count, error);
    hypotheses_free(h, count);
    return good;
}

struct diagnosis *diagnose_run(struct validate_table *table, const struct diagnose_how *how, GError **error)
{
    struct diagnosis *d = g_new0(struct diagnosis, 1);
    GError *cause = NULL;
    uint32_t guesses = 0;
    struct hypothesis *guess = how->baseline ? NULL : first_answer(table, how, &guesses, &cause);
    bool good = !cause && !(guess && how->first_only) && validate_table_run(table, how->workers, &cause);
    struct validate_table relative = *table;
    g_autofree struct validate_row *rows = NULL;
    if (good && how->baseline) {
        d->sound = g_new(double, table->row_count + 1);
        good = diagnose_baseline(table, how->baseline, how->workers, d->sound, &cause);
        if (good) relative.row = rows = rows_relative(table, d->sound);
        if (good) guess = first_answer(&relative, how, &guesses, &cause);
        good = good && !cause && !(guess && how->first_only);
    }
    table = &relative;
    g_autofree double *before = g_new(double, table->row_count + 1);
    g_autofree bool *waits = g_new0(bool, table->row_count + 1);
    if (good && !rows_compare(d, table, before, waits))
        error_input(&cause, "%s: expected rows with measured_us or measured_gbs that can be predicted%s, found none",
                    table->path, how->baseline ? " and that the baseline has" : "");
    struct compared compared = { .table = table, .how = how, .before = before, .waits = waits };
    if (good && !cause && causes_find(d, &compared, guess, &cause)) {
        hypotheses_free(guess, guess ? guesses : 0);
        return d;
    }
    hypotheses_free(guess, guess ? guesses : 0);
    diagnosis_free(d);
    if (cause) g_propagate_error(error, cause);
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
