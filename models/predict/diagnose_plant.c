/* diagnose_plant.c - plants a cause in rows, and predicts all hypotheses in one run on all cores.
 *
 * A case of many ranks and tokens takes seconds, and there are forty hypotheses.  Its time is linear in tokens once
 * channels are full, so it is predicted from two small numbers of tokens, once with the cause and once without; what
 * the line misses cancels in the quotient of the two, which is applied to the full prediction.  Knows no ranking. */
#include "models/predict/diagnose.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "models/hardware/graph.h"

/* Ranks squared times tokens: what a run of the normal kernels costs.  2^20 is 0.2 s (16 ranks, 4096 tokens). */
#define WORK_FULL  (1.5 * (1 << 20))
#define WORK_SMALL (0.3 * (1 << 20))

enum { TOKENS_LEAST = 64 };

/* ---- what applies ---- */

static uint32_t ranks_a_node(const struct validate_row *row, const struct cluster *cluster)
{
    const uint32_t given = row->options.ranks_per_node, gpus = cluster->nvlink.gpus ? cluster->nvlink.gpus : 8;
    return MAX(MIN(given ? given : gpus, row->options.num_ranks ? row->options.num_ranks : 8), 1);
}

static bool kernel_is(const struct validate_row *row, const char *names)
{
    return strstr(names, row->options.kernel ? row->options.kernel : "ll") != NULL;
}

static bool applies(const struct cause *cause, const struct cluster *cluster, const struct validate_row *row)
{
    const struct case_options *c = &row->options;
    const uint32_t a_node = ranks_a_node(row, cluster), ranks = c->num_ranks ? c->num_ranks : 8;
    const bool by_network = c->nvlink_disabled || ranks > a_node;
    const unsigned scope = cause->scope;
    if (scope & CAUSE_NETWORK && (!graph_node_nics(cluster, 1) || !by_network)) return false;
    if (scope & CAUSE_SHARED && a_node < 2) return false;
    if (scope & CAUSE_PORTS && cluster->nic.ports < 2) return false;
    if (scope & CAUSE_NVLINK && (c->nvlink_disabled || a_node < 2 || cluster->host.cores)) return false;
    if (scope & CAUSE_SMS && !kernel_is(row, "normal|v2")) return false;
    if (scope & CAUSE_MOE && !kernel_is(row, "ll|normal|v2")) return false;
    if (scope & CAUSE_RATES && !(row->measured_gbs > 0 && kernel_is(row, "normal|v2"))) return false;
    if (scope & CAUSE_DRAWN && (c->trace || c->traffic)) return false;
    return true;
}

/* ---- planting ---- */

/* "node.nics=50%" becomes "node.nics=4" where there are 8. */
static char *setting_resolve(const char *setting, const struct cluster *cluster, const struct validate_row *row)
{
    const char *equals = strchr(setting, '=');
    if (!g_str_has_suffix(setting, "%")) return g_strdup(setting);
    const double share = g_ascii_strtod(equals + 1, NULL) / 100;
    g_autofree char *key = g_strndup(setting, (gsize)(equals - setting));
    const uint32_t a_node = ranks_a_node(row, cluster);
    const uint32_t nics = cluster->node.nics ? cluster->node.nics : MAX(a_node / MAX(cluster->nic.gpus_per_nic, 1), 1);
    const struct graph_made_with with = graph_made_with(cluster);
    const uint64_t rate = !strcmp(key, "nic.rate")             ? with.nic_bps
                          : !strcmp(key, "node.pcie-rate")     ? with.nic_bps * cluster->nic.ports
                          : !strcmp(key, "nvlink.egress-rate") ? with.peers_out_bps
                                                               : with.peers_in_bps;
    if (!strcmp(key, "node.nics")) return g_strdup_printf("%s=%u", key, MAX((uint32_t)(nics * share), 1u));
    return g_strdup_printf("%s=%.6g GB/s", key, (double)rate / 8e9 * share);
}

/* "rank:4": rank 0 has four times the tokens; "node:4": those of its node. */
static char *tokens_list(const char *how, const struct validate_row *row, const struct cluster *cluster)
{
    struct case_options whole;
    case_copy(&whole, &row->options);
    case_cluster_settle(&whole, cluster);
    case_resolve(&whole);
    const uint32_t times = (uint32_t)g_ascii_strtoull(strchr(how, ':') + 1, NULL, 10);
    const uint32_t many = g_str_has_prefix(how, "node") ? ranks_a_node(row, cluster) : 1;
    GString *list = g_string_new(NULL);
    for (uint32_t r = 0; r < whole.num_ranks; r++)
        g_string_append_printf(list, "%s%u", r ? "|" : "", whole.num_tokens * (r < many ? times : 1));
    case_clear(&whole);
    return g_string_free(list, FALSE);
}

/* Where a share of all ranks launches late by up to so much, those that wait do so for half of it; where one is late by
 * so much, all others do for all of it. */
static char *arrival(const char *how, const struct validate_row *row, double excess_us)
{
    if (g_str_has_prefix(how, "uniform:")) return g_strdup_printf("uniform:%.0fus", 2 * excess_us);
    GString *list = g_string_new(NULL);
    g_string_append_printf(list, "%.0fus", excess_us);
    for (uint32_t r = 1; r < (row->options.num_ranks ? row->options.num_ranks : 8); r++) g_string_append(list, "|0us");
    return g_string_free(list, FALSE);
}

/* "50%" of the SMs, an even number. */
static char *sms_share(const char *share, const struct case_options *c)
{
    const uint32_t percent = (uint32_t)g_ascii_strtoull(share, NULL, 10), sms = c->num_sms ? c->num_sms : 24;
    return g_strdup_printf("%u", MAX(sms * percent / 200 * 2, 2u));
}

static bool option_plant(const char *option, const struct cluster *cluster, double excess_us, struct validate_row *row)
{
    struct case_options *c = &row->options;
    const char *equals = strchr(option, '='), *value = equals + 1;
    g_autofree char *name = g_strndup(option, (gsize)(equals - option));
    g_autofree char *made = NULL;
    if (!strcmp(name, "num-sms")) made = sms_share(value, c);
    else if (!strcmp(name, "tokens-per-rank")) made = tokens_list(value, row, cluster);
    else if (!strcmp(name, "arrival")) made = arrival(value, row, excess_us);
    if (!strcmp(name, "arrival") && !(excess_us > 1 && !c->arrival)) return false;
    if (!strcmp(name, "fault") && c->fault) return false;
    return case_set(c, name, made ? made : value, NULL);
}

bool cause_plant(const struct cause *cause, uint32_t variant, const struct cluster *cluster, double excess_us,
                 struct validate_row *row)
{
    const struct cause_variant *v = &cause->variant[variant];
    if (!applies(cause, cluster, row)) return false;
    const double nodes = (double)row->options.num_ranks / ranks_a_node(row, cluster);
    const bool physical = row->metric && g_str_has_prefix(row->metric, "physical");
    if (v->local && (nodes < 2 || physical != (v->local < 0))) return false;
    for (uint32_t i = 0; i < CAUSE_OPTIONS_MAX && v->option[i]; i++)
        if (!option_plant(v->option[i], cluster, excess_us, row)) return false;
    g_autoptr(GPtrArray) settings = g_ptr_array_new();
    for (char **s = row->settings; s && *s; s++) g_ptr_array_add(settings, g_strdup(*s));
    for (uint32_t i = 0; i < CAUSE_SETTINGS_MAX && v->setting[i]; i++) {
        g_ptr_array_add(settings, setting_resolve(v->setting[i], cluster, row));
        /* A host's ranks stand for GPUs, of which its file does not say how many share the NICs. */
        if (g_str_has_prefix(v->setting[i], "node.nics") && cluster->host.cores && !cluster->node.gpus)
            g_ptr_array_add(settings, g_strdup_printf("node.gpus=%u", ranks_a_node(row, cluster)));
    }
    g_ptr_array_add(settings, NULL);
    g_strfreev(row->settings);
    row->settings = (char **)g_ptr_array_free(g_steal_pointer(&settings), FALSE);
    if (v->local) row->measured_gbs *= v->local > 0 ? nodes / (nodes - 1) : (nodes - 1) / nodes;
    return true;
}

/* ---- small cases instead of large ones ---- */

static uint32_t tokens_of(const struct validate_row *row)
{
    return row->options.num_tokens ? row->options.num_tokens : kernel_is(row, "ll") ? 128 : 4096;
}

/* The larger of the two numbers of tokens that stand for a row's; 0: it is small enough. */
static uint32_t tokens_small(const struct validate_row *row)
{
    const struct case_options *c = &row->options;
    const double square = (double)c->num_ranks * c->num_ranks;
    if (!kernel_is(row, "normal|v2") || c->trace || c->traffic || c->tokens_per_rank) return 0;
    if (square * tokens_of(row) <= WORK_FULL) return 0;
    const uint32_t tokens = (uint32_t)(WORK_SMALL / square) / TOKENS_LEAST * TOKENS_LEAST;
    return MAX(tokens, 2 * TOKENS_LEAST);
}

/* ln of the time that two predictions with tokens / 2 and tokens stand for. */
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

/* ---- all hypotheses at once ---- */

struct plan {
    const struct validate_table *table;
    struct validate_table many; /* two rows for each hypothesis and row of table; the second may be idle */
    struct cluster **cluster;   /* [rows of table], NULL: none */
    GHashTable *clusters;
    double excess_us;
};

static int double_compare(const void *a, const void *b)
{
    const double left = *(const double *)a, right = *(const double *)b;
    return left < right ? -1 : left > right;
}

/* How much longer than predicted the median row takes; at least 1. */
static double excess(const struct validate_table *table)
{
    g_autofree double *us = g_new(double, table->row_count + 1);
    uint32_t count = 0;
    for (uint32_t i = 0; i < table->row_count; i++) {
        const double r = diagnose_residual(&table->row[i]);
        if (!isnan(r) && !validate_row_waits(&table->row[i])) us[count++] = table->row[i].predicted_us * expm1(r);
    }
    if (!count) return 1;
    qsort(us, count, sizeof *us, double_compare);
    return fmax(us[count / 2], 1);
}

static void plan_add(struct plan *p, const struct hypothesis *first, struct hypothesis *h, uint32_t i)
{
    const struct validate_row *row = &p->table->row[i];
    struct validate_row *copy = &p->many.row[p->many.row_count++], *half = &p->many.row[p->many.row_count++];
    const uint32_t tokens = tokens_small(row);
    *copy = validate_row_copy(row);
    if (p->cluster[i] && !validate_row_idle(copy)) {
        if (tokens) copy->options.num_tokens = tokens;
        if (first && first->cause) cause_plant(first->cause, first->variant, p->cluster[i], p->excess_us, copy);
        h->applied[i] = h->cause && cause_plant(h->cause, h->variant, p->cluster[i], p->excess_us, copy);
    }
    *half = validate_row_copy(copy);
    half->native = true;                                     /* idle */
    if (!first && !h->cause && !tokens) copy->native = true; /* the table has it */
    if (!tokens || validate_row_idle(copy)) return;
    validate_row_clear(half);
    *half = validate_row_copy(row);
    half->options.num_tokens = tokens / 2;
    if (first && first->cause) cause_plant(first->cause, first->variant, p->cluster[i], p->excess_us, half);
    if (h->cause) cause_plant(h->cause, h->variant, p->cluster[i], p->excess_us, half);
}

static void plan_make(struct plan *p, const struct validate_table *table, uint32_t hypotheses)
{
    *p = (struct plan){ .table = table, .excess_us = excess(table) };
    p->many.path = table->path;
    p->many.row = g_new0(struct validate_row, (gsize)table->row_count * hypotheses * 2 + 1);
    p->cluster = g_new0(struct cluster *, table->row_count + 1);
    p->clusters = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, (GDestroyNotify)cluster_free);
    for (uint32_t i = 0; i < table->row_count; i++) {
        const char *path = table->row[i].options.cluster;
        if (!path) continue;
        p->cluster[i] = g_hash_table_lookup(p->clusters, path);
        if (!p->cluster[i] && (p->cluster[i] = cluster_load(path, NULL)))
            g_hash_table_insert(p->clusters, (void *)path, p->cluster[i]);
    }
}

static void plan_clear(struct plan *p)
{
    for (uint32_t i = 0; i < p->many.row_count; i++) validate_row_clear(&p->many.row[i]);
    g_free(p->many.row);
    g_free(p->cluster);
    g_hash_table_destroy(p->clusters);
}

/* What the rows of one hypothesis say, where nothing[] are those without any. */
static void hypothesis_read(const struct plan *p, const struct validate_row *rows, const struct validate_row *nothing,
                            bool first, struct hypothesis *h)
{
    for (uint32_t i = 0; i < p->table->row_count; i++) {
        const struct validate_row *row = &p->table->row[i], *planted = &rows[2 * i], *bare = &nothing[2 * i];
        const uint32_t tokens = tokens_small(row), all = tokens_of(row);
        const double before = diagnose_residual(row);
        h->residual[i] = before;
        if (isnan(before) || (!h->applied[i] && !first)) continue;
        if (planted->problem) h->fails = true;
        if (!tokens) {
            h->residual[i] = diagnose_residual(planted);
            continue;
        }
        if (validate_row_waits(row)) {
            h->residual[i] = before - log((100 + planted->predicted_pct) / (100 + bare->predicted_pct));
            continue;
        }
        /* Of the same bytes, so that longer means slower; what is measured may be counted otherwise. */
        h->residual[i] =
            before - time_of_small(planted + 1, planted, tokens, all) + time_of_small(bare + 1, bare, tokens, all);
        if (isfinite(row->measured_gbs)) h->residual[i] -= log(planted->measured_gbs / row->measured_gbs);
    }
}

bool hypotheses_predict(const struct validate_table *table, const struct hypothesis *first, struct hypothesis *h,
                        uint32_t count, uint32_t workers, GError **error)
{
    struct plan p;
    plan_make(&p, table, count + 1);
    g_autofree bool *unused = g_new0(bool, table->row_count + 1);
    struct hypothesis nothing = { .applied = unused };
    for (uint32_t i = 0; i < table->row_count; i++) plan_add(&p, NULL, &nothing, i);
    for (uint32_t k = 0; k < count; k++)
        for (uint32_t i = 0; i < table->row_count; i++) plan_add(&p, first, &h[k], i);
    validate_jobs_number(&p.many);
    const bool good = validate_table_run(&p.many, workers, error);
    for (uint32_t k = 0; good && k < count; k++)
        hypothesis_read(&p, p.many.row + 2 * (gsize)table->row_count * (k + 1), p.many.row, first != NULL, &h[k]);
    plan_clear(&p);
    return good;
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
