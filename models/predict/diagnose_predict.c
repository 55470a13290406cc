/* diagnose_predict.c - predicts rows with hypotheses planted, in one run on all cores, as cheaply as possible.
 *
 * Three things save work.  First, times of the normal and V2 kernels are linear in tokens once channels are full.  So a
 * large case is predicted from two small numbers of tokens, by a line.  This is done with the cause and without it, and
 * the line's error cancels in the quotient.  Second, a cause affects two similar cases nearly equally, so a few of many
 * cases stand for all.  Third, a few cases with few nodes tell likely causes from unlikely ones, so these cases are
 * predicted first.
 *
 * Knows no ranking. */
#include "models/predict/diagnose.h"

#include <math.h>
#include <stdlib.h>

/* The cost of a run of the normal kernels is ranks squared times tokens: 2^20 takes 0.3 s (16 ranks, 4096 tokens). */
#define WORK_UNIT         (1 << 20)
#define WORK_WHOLE        (1.5 * WORK_UNIT)  /* a case that costs at most this is predicted itself */
#define WORK_SMALL        (0.3 * WORK_UNIT)  /* a larger case is predicted from a case of this cost and one of half */
#define WORK_SCREEN       (0.1 * WORK_UNIT)  /* the largest cost of a case in a first answer */
#define WORK_FIRST_PLAIN  (2.0 * WORK_UNIT)  /* the largest cost of a first answer's predictions without a cause */
#define WORK_FIRST        (20.0 * WORK_UNIT) /* the largest cost of a whole first answer */
#define LOW_LATENCY_LIGHT 0.5                /* the cost of low-latency kernels, relative to normal ones */
#define WORK_ROW_LEAST    (0.02 * WORK_UNIT)

enum { TOKENS_LEAST = 64, NODES_SCREEN = 4, CASES_MAX = 24 };

static uint32_t tokens_of(const struct validate_row *row) { return case_tokens(&row->options); }

static double ranks_square(const struct validate_row *row)
{
    const uint32_t ranks = case_ranks(&row->options);
    return (double)ranks * ranks;
}

/* Whether a case with fewer tokens or ranks can stand for the row's case. */
static bool shrinks(const struct validate_row *row)
{
    const struct case_options *c = &row->options;
    return !c->trace && !c->traffic && !c->tokens_per_rank;
}

/* ---- small cases instead of large ones ---- */

/* The larger of the two numbers of tokens from which the row's case is predicted.  0: it is predicted itself, because
 * it costs at most `whole`, or because fewer tokens cannot stand for it. */
static uint32_t tokens_small(const struct validate_row *row, double whole, double small)
{
    if (!case_kernel_in(&row->options, "normal|v2") || !shrinks(row) || ranks_square(row) * tokens_of(row) <= whole)
        return 0;
    const uint32_t tokens = (uint32_t)(small / ranks_square(row)) / TOKENS_LEAST * TOKENS_LEAST;
    const uint32_t larger = MAX(tokens, 2 * TOKENS_LEAST);
    return larger < tokens_of(row) ? larger : 0;
}

/* Reduces the number of nodes, and keeps the number of experts a rank. */
static void nodes_cut(struct validate_row *row, const struct cluster *cluster)
{
    struct case_options *c = &row->options;
    struct case_options whole = *c;
    if (!case_kernel_in(&row->options, "ll|normal|v2") || !shrinks(row)) return;
    case_cluster_settle(&whole, cluster);
    whole = case_resolved(&whole);
    const uint32_t most = NODES_SCREEN * whole.ranks_per_node, experts = whole.num_experts / whole.num_ranks * most;
    if (whole.num_ranks > most && whole.num_ranks % whole.ranks_per_node == 0 && experts >= whole.num_topk) {
        c->num_ranks = most;
        c->num_experts = experts;
    }
}

/* ln of the row's time, by the line through the predictions with tokens / 2 and tokens. */
static double time_of_small(const struct validate_row *half, const struct validate_row *small, uint32_t tokens,
                            uint32_t all)
{
    if (half->problem || small->problem) return NAN;
    const double a_token = (small->predicted_us - half->predicted_us) / (tokens - tokens / 2);
    return log(small->predicted_us + fmax(a_token, 0) * (all - tokens));
}

double diagnose_residual(const struct validate_row *row)
{
    if (row->problem || row->native) return NAN;
    if (validate_row_waits(row)) return log((100 + row->measured_pct) / (100 + row->predicted_pct));
    if (isfinite(row->measured_us)) return log(row->measured_us / row->predicted_us);
    return log(row->predicted_gbs / row->measured_gbs);
}

/* ---- which cases stand for all ---- */

/* How much a cause's effects on two rows may differ.  Different kernels count most, then phases, then numbers of
 * ranks. */
static double row_distance(const struct validate_row *one, const struct validate_row *other)
{
    const struct case_options *a = &one->options, *b = &other->options;
    const bool phase = !g_strv_equal((const char *const *)one->phase, (const char *const *)other->phase);
    double distance = 64 * (g_strcmp0(a->kernel, b->kernel) != 0) + 16 * phase;
    distance += 16 * (g_strcmp0(one->metric, other->metric) != 0) + (g_strcmp0(a->dtype, b->dtype) != 0);
    distance += 4 * fabs(log((a->num_ranks + 1.0) / (b->num_ranks + 1.0)));
    distance += fabs(log((a->num_tokens + 1.0) / (b->num_tokens + 1.0)));
    distance += 2 * fabs(log((a->num_sms + 1.0) / (b->num_sms + 1.0)));
    return distance;
}

/* The cost of predicting one hypothesis for the case that begins with row. */
static double case_work(const struct validate_row *row, enum diagnose_effort effort)
{
    double square = ranks_square(row), tokens = tokens_of(row);
    const bool screen = effort == DIAGNOSE_SCREEN;
    if (screen && shrinks(row)) square = fmin(square, 1024);
    if (!case_kernel_in(&row->options, "ll|normal|v2")) return WORK_ROW_LEAST;
    if (case_kernel_in(&row->options, "ll")) return fmax(LOW_LATENCY_LIGHT * square * tokens, WORK_ROW_LEAST);
    const double small = screen ? WORK_SCREEN : WORK_SMALL, pair = fmax(1.5 * small, 1.5 * square * 2 * TOKENS_LEAST);
    return !shrinks(row) || square * tokens <= pair ? square * tokens : pair;
}

bool diagnose_works_at_once(const struct validate_table *table, uint32_t hypotheses)
{
    double work = 0;
    uint32_t seen = 0;
    for (uint32_t i = 0; i < table->row_count; i++) {
        if (validate_row_idle(&table->row[i]) || table->row[i].job < seen) continue;
        seen = table->row[i].job + 1; /* the numbers of jobs rise from row to row, so each job counts once */
        work += case_work(&table->row[i], DIAGNOSE_WHOLE);
    }
    return work * hypotheses <= WORK_FIRST;
}

/* Picks the cases that stand for others: first the case with the most rows, then repeatedly the one least similar to
 * those picked.  Stops at `most` cases, or before the cases cost more than `work`, but picks at least one. */
static void cases_pick(const struct validate_table *table, enum diagnose_effort effort, double work, uint32_t most,
                       bool *picked)
{
    const uint32_t jobs = table->job_count;
    g_autofree uint32_t *rows = g_new0(uint32_t, jobs + 1), *first = g_new0(uint32_t, jobs + 1);
    g_autofree double *far = g_new(double, jobs + 1);
    for (uint32_t i = table->row_count; i-- > 0;) {
        if (validate_row_idle(&table->row[i])) continue;
        rows[table->row[i].job]++;
        first[table->row[i].job] = i;
    }
    for (uint32_t j = 0; j < jobs; j++) far[j] = rows[j] ? 1e6 * rows[j] : -1;
    for (uint32_t n = 0; n < most; n++) {
        uint32_t best = jobs;
        for (uint32_t j = 0; j < jobs; j++)
            if (far[j] > 0 && (best == jobs || far[j] > far[best])) best = j;
        if (best == jobs) return;
        const struct validate_row *row = &table->row[first[best]];
        work -= case_work(row, effort);
        if (n && work < 0) return;
        picked[best] = true;
        for (uint32_t j = 0; j < jobs; j++)
            if (rows[j]) far[j] = fmin(n ? far[j] : INFINITY, row_distance(row, &table->row[first[j]]));
    }
}

/* ---- all hypotheses at once ---- */

/* How a row of the table is predicted. */
struct stand {
    uint32_t row;    /* the row that is predicted in place of this row: this row itself, or the most similar one */
    uint32_t tokens; /* tokens_small()'s number; 0: the row has its own number of tokens */
    bool fewer;      /* the row is predicted with fewer nodes */
};

struct plan {
    const struct validate_table *table;
    enum diagnose_effort effort;
    struct validate_table many; /* two rows for each hypothesis and row of the table; the second has half of the first's
                                 * tokens, or is unused */
    struct cluster **cluster;   /* [rows of table], NULL: none */
    GHashTable *clusters;
    struct stand *stand; /* [rows of table] */
    double excess_us;
};

static int double_compare(const void *a, const void *b)
{
    const double left = *(const double *)a, right = *(const double *)b;
    return left < right ? -1 : left > right;
}

/* How many us longer than predicted the median row of a phase takes, in the phase where this is most; at least 1. */
static double excess(const struct validate_table *table)
{
    double most = 1;
    g_autoptr(GHashTable) phases =
        g_hash_table_new_full(g_str_hash, g_str_equal, g_free, (GDestroyNotify)g_array_unref);
    for (uint32_t i = 0; i < table->row_count; i++) {
        const struct validate_row *row = &table->row[i];
        const double r = diagnose_residual(row);
        if (isnan(r) || validate_row_waits(row)) continue;
        char *phase = g_strjoinv("+", row->phase);
        GArray *us = g_hash_table_lookup(phases, phase);
        if (!us) g_hash_table_insert(phases, g_strdup(phase), us = g_array_new(FALSE, FALSE, sizeof(double)));
        g_free(phase);
        const double longer_us = row->predicted_us * expm1(r);
        g_array_append_val(us, longer_us);
    }
    GHashTableIter at;
    gpointer value;
    for (g_hash_table_iter_init(&at, phases); g_hash_table_iter_next(&at, NULL, &value);) {
        GArray *us = value;
        qsort(us->data, us->len, sizeof(double), double_compare);
        most = fmax(most, g_array_index(us, double, us->len / 2));
    }
    return most;
}

/* A copy of row i as it is predicted: with the causes of first and h, if any, with fewer nodes if its stand says so,
 * and with `tokens` tokens (0: its own number). */
static struct validate_row planted_row(const struct plan *p, uint32_t i, uint32_t tokens,
                                       const struct hypothesis *first, struct hypothesis *h)
{
    struct validate_row row = validate_row_copy(&p->table->row[i]);
    if (!p->cluster[i] || validate_row_idle(&row)) return row;
    if (tokens) row.options.num_tokens = tokens;
    if (p->stand[i].fewer) nodes_cut(&row, p->cluster[i]);
    if (first && first->cause) cause_plant(first->cause, first->variant, p->cluster[i], p->excess_us, &row);
    if (h && h->cause) h->applied[i] = cause_plant(h->cause, h->variant, p->cluster[i], p->excess_us, &row);
    return row;
}

static void plan_add(struct plan *p, const struct hypothesis *first, struct hypothesis *h, uint32_t i)
{
    struct validate_row *copy = &p->many.row[p->many.row_count++], *half = &p->many.row[p->many.row_count++];
    const struct stand *stand = &p->stand[i];
    const bool bare = !first && !h, other = stand->row == i && !(h && h->skip);
    if (other) *copy = planted_row(p, i, stand->tokens, first, h);
    if (other && stand->tokens) *half = planted_row(p, i, stand->tokens / 2, first, h);
    /* a row is not predicted if another row stands for it, h is skipped, or the table has the prediction */
    if (!other || (bare && !stand->tokens && !stand->fewer)) copy->native = true;
    if (!other || !stand->tokens) half->native = true;
}

static void clusters_find(struct plan *p)
{
    p->cluster = g_new0(struct cluster *, p->table->row_count + 1);
    p->clusters = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, (GDestroyNotify)cluster_free);
    for (uint32_t i = 0; i < p->table->row_count; i++) {
        const char *path = p->table->row[i].options.cluster;
        if (!path) continue;
        p->cluster[i] = g_hash_table_lookup(p->clusters, path);
        if (!p->cluster[i] && (p->cluster[i] = cluster_load(path, NULL)))
            g_hash_table_insert(p->clusters, (void *)path, p->cluster[i]);
    }
}

/* Whether row i has a distance above 0 from each listed row. */
static bool row_new(const struct validate_table *table, const GArray *rows, uint32_t i)
{
    for (guint k = 0; k < rows->len; k++)
        if (row_distance(&table->row[i], &table->row[g_array_index(rows, uint32_t, k)]) == 0) return false;
    return true;
}

/* Decides which rows are predicted, and from which cases. */
static void stands_find(struct plan *p)
{
    const struct validate_table *table = p->table;
    const bool screen = p->effort == DIAGNOSE_SCREEN;
    g_autofree bool *picked = g_new0(bool, table->job_count + 1);
    cases_pick(table, p->effort, INFINITY, screen ? table->job_count : CASES_MAX, picked);
    g_autoptr(GArray) rows = g_array_new(FALSE, FALSE, sizeof(uint32_t)); /* different rows of the cases picked */
    for (uint32_t i = 0; i < table->row_count; i++)
        if (!validate_row_idle(&table->row[i]) && picked[table->row[i].job] && row_new(table, rows, i))
            g_array_append_val(rows, i);
    p->stand = g_new0(struct stand, table->row_count + 1);
    for (uint32_t i = 0; i < table->row_count; i++) {
        const struct validate_row *row = &table->row[i];
        struct stand *stand = &p->stand[i];
        double nearest = INFINITY;
        stand->row = i;
        if (validate_row_idle(row)) continue;
        for (guint k = 0; k < rows->len && !picked[row->job]; k++) {
            const uint32_t other = g_array_index(rows, uint32_t, k);
            const double distance = row_distance(row, &table->row[other]);
            if (distance < nearest) stand->row = other;
            nearest = fmin(nearest, distance);
        }
        struct validate_row fewer = validate_row_copy(row);
        if (screen && p->cluster[i]) nodes_cut(&fewer, p->cluster[i]);
        stand->fewer = fewer.options.num_ranks != row->options.num_ranks;
        stand->tokens = tokens_small(&fewer, screen ? WORK_SCREEN : WORK_WHOLE, screen ? WORK_SCREEN : WORK_SMALL);
        validate_row_clear(&fewer);
    }
}

static void plan_make(struct plan *p, const struct validate_table *table, enum diagnose_effort effort,
                      uint32_t hypotheses)
{
    *p = (struct plan){ .table = table, .effort = effort, .excess_us = excess(table) };
    p->many.path = table->path;
    p->many.row = g_new0(struct validate_row, (gsize)table->row_count * hypotheses * 2 + 1);
    clusters_find(p);
    stands_find(p);
}

static void plan_clear(struct plan *p)
{
    for (uint32_t i = 0; i < p->many.row_count; i++) validate_row_clear(&p->many.row[i]);
    g_free(p->many.row);
    g_free(p->cluster);
    g_free(p->stand);
    g_hash_table_destroy(p->clusters);
}

/* The residual of row i under one hypothesis.  `bare` has the predictions without a cause. */
static double residual_read(const struct plan *p, uint32_t i, const struct validate_row *planted,
                            const struct validate_row *bare)
{
    const struct validate_row *row = &p->table->row[i];
    const uint32_t tokens = p->stand[i].tokens, all = tokens_of(row);
    const double before = diagnose_residual(row);
    if (!tokens && !p->stand[i].fewer) return diagnose_residual(planted);
    if (validate_row_waits(row)) return before - log((100 + planted->predicted_pct) / (100 + bare->predicted_pct));
    /* the cause may change which bytes the measured bandwidth counts, which does not change the time */
    const double counted = isfinite(row->measured_gbs) ? log(planted->measured_gbs / row->measured_gbs) : 0;
    if (planted->problem || bare->problem) return NAN;
    if (!tokens) return before - log(planted->predicted_us / bare->predicted_us) - counted;
    return before - time_of_small(planted + 1, planted, tokens, all) + time_of_small(bare + 1, bare, tokens, all) -
           counted;
}

/* Reads the effect of one hypothesis on its rows.  nothing[] has the rows without a cause. */
static void hypothesis_read(const struct plan *p, const struct validate_row *rows, const struct validate_row *nothing,
                            bool first, struct hypothesis *h)
{
    const uint32_t count = p->table->row_count;
    for (uint32_t i = 0; i < count; i++) {
        if (p->stand[i].row != i) continue;
        h->residual[i] = diagnose_residual(&p->table->row[i]);
        if (isnan(h->residual[i]) || (!h->applied[i] && !first)) continue;
        if (rows[2 * i].problem) h->fails = true;
        h->residual[i] = residual_read(p, i, &rows[2 * i], &nothing[2 * i]);
    }
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t other = p->stand[i].row;
        if (other == i) continue;
        const double effect = diagnose_residual(&p->table->row[other]) - h->residual[other];
        h->applied[i] = h->applied[other];
        h->residual[i] = diagnose_residual(&p->table->row[i]) - (isnan(effect) ? 0 : effect);
    }
}

bool hypotheses_predict(const struct validate_table *table, const struct hypothesis *first, struct hypothesis *h,
                        uint32_t count, enum diagnose_effort effort, uint32_t workers, GError **error)
{
    struct plan p;
    plan_make(&p, table, effort, count + 1);
    for (uint32_t i = 0; i < table->row_count; i++) plan_add(&p, NULL, NULL, i);
    for (uint32_t k = 0; k < count; k++)
        for (uint32_t i = 0; i < table->row_count; i++) plan_add(&p, first, &h[k], i);
    validate_jobs_number(&p.many);
    const bool good = validate_table_run(&p.many, workers, error);
    for (uint32_t k = 0; good && k < count; k++)
        if (!h[k].skip)
            hypothesis_read(&p, p.many.row + 2 * (gsize)table->row_count * (k + 1), p.many.row, first != NULL, &h[k]);
    plan_clear(&p);
    return good;
}

/* ---- a few rows first ---- */

uint32_t diagnose_few(const struct validate_table *table, uint32_t hypotheses, uint32_t *row_of)
{
    g_autofree bool *picked = g_new0(bool, table->job_count + 1);
    uint32_t count = 0;
    cases_pick(table, DIAGNOSE_SCREEN, WORK_FIRST / hypotheses, table->job_count, picked);
    for (uint32_t i = 0; i < table->row_count; i++)
        if (!validate_row_idle(&table->row[i]) && picked[table->row[i].job]) row_of[count++] = i;
    return count;
}

bool diagnose_predict_few(struct validate_table *few, uint32_t workers, GError **error)
{
    struct validate_table many = { .path = few->path };
    many.row = g_new0(struct validate_row, (gsize)2 * few->row_count + 1);
    for (uint32_t i = 0; i < few->row_count; i++) {
        const uint32_t tokens = tokens_small(&few->row[i], WORK_FIRST_PLAIN, WORK_FIRST_PLAIN);
        for (uint32_t k = 0; k < 2; k++) {
            struct validate_row *row = &many.row[many.row_count++];
            *row = validate_row_copy(&few->row[i]);
            if (tokens) row->options.num_tokens = tokens / (k + 1);
            row->native |= k && !tokens;
        }
    }
    validate_jobs_number(&many);
    const bool good = validate_table_run(&many, workers, error);
    for (uint32_t i = 0; i < few->row_count; i++) {
        struct validate_row *row = &few->row[i], *small = &many.row[2 * i];
        const uint32_t tokens = small->options.num_tokens, all = tokens_of(row);
        row->problem = g_strdup(small->problem);
        row->predicted_us = small->predicted_us;
        row->predicted_gbs = small->predicted_gbs;
        row->predicted_pct = small->predicted_pct;
        if (many.row[2 * i + 1].native || small->problem) continue;
        row->predicted_us = exp(time_of_small(&many.row[2 * i + 1], small, tokens, all));
        row->predicted_gbs *= small->predicted_us / tokens * all / row->predicted_us;
    }
    for (uint32_t i = 0; i < many.row_count; i++) validate_row_clear(&many.row[i]);
    g_free(many.row);
    return good;
}

void diagnose_effects_spread(const struct validate_table *table, const uint32_t *row_of, uint32_t few,
                             const double *before, const struct hypothesis *h, struct hypothesis *all,
                             uint32_t hypotheses)
{
    for (uint32_t i = 0; i < table->row_count; i++) {
        uint32_t best = 0;
        double nearest = INFINITY;
        for (uint32_t k = 0; k < few && nearest > 0; k++) {
            const double distance = row_distance(&table->row[i], &table->row[row_of[k]]);
            if (distance < nearest) best = k;
            nearest = fmin(nearest, distance);
        }
        for (uint32_t k = 0; k < hypotheses; k++) {
            const double effect = before[best] - h[k].residual[best];
            all[k].applied[i] = h[k].applied[best];
            all[k].residual[i] = isnan(effect) ? 0 : -effect;
        }
    }
}

struct hypothesis *hypotheses_new(const struct cause *but, uint32_t rows, uint32_t *count)
{
    GArray *list = g_array_new(FALSE, TRUE, sizeof(struct hypothesis));
    for (const struct cause *c = diagnose_causes(); c->id; c++)
        for (uint32_t v = 0; c != but && v < cause_variants(c); v++) {
            const struct hypothesis h = {
                .cause = c, .variant = v, .applied = g_new0(bool, rows + 1), .residual = g_new0(double, rows + 1)
            };
            g_array_append_val(list, h);
        }
    *count = list->len;
    return (struct hypothesis *)(void *)g_array_free(list, FALSE);
}

void hypotheses_free(struct hypothesis *h, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        g_free(h[i].applied);
        g_free(h[i].residual);
    }
    g_free(h);
}
