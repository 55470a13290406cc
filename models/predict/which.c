/* which.c - finds the backends that suit a case, and predicts them; see which.h.  Knows kernels and transports only
 * by their names. */
#include "models/predict/which.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "models/predict/estimate.h"
#include "models/predict/on_cores.h"
#include "models/predict/simulate.h"
#include "reports/compare.h"

enum {
    MLX5 = 1 << CLUSTER_PROVIDER_MLX5,
    EFA = 1 << CLUSTER_PROVIDER_EFA,
    CXI = 1 << CLUSTER_PROVIDER_CXI,
    BNXT_RE = 1 << CLUSTER_PROVIDER_BNXT_RE,
    IONIC = 1 << CLUSTER_PROVIDER_IONIC,
};

/* How libraries post.  DeepEP's V1 posts by NVSHMEM's IBGDA or by NCCL's GIN (its pull request 521), and V2 by GIN.
 * NCCL EP posts by GIN, UCCL by its own threads, NIXL EP by UCX, and MoRI by the GPU's threads, like IBGDA
 * (PROTOCOLS.md 1.5, 1.7, 1.8, 1.10, 1.13, 1.16).  NCCL's collectives reach any NIC by a thread of the host.  On AMD's
 * GPUs the collectives are RCCL's.  Within a node UCCL's kernels are DeepEP's, so they are listed only for AMD's GPUs.
 */
static const struct which_backend table[] = {
    { "deepep-ll", "ll", WHICH_NVIDIA, NULL, 0 },
    { "deepep-normal", "normal", WHICH_NVIDIA, NULL, 0 },
    { "deepep-v2", "v2", WHICH_NVIDIA, NULL, 0 },
    { "nvlink-one-sided", "one-sided", WHICH_NVIDIA, NULL, 0 },
    { "nvlink-two-sided", "two-sided", WHICH_NVIDIA, NULL, 0 },
    { "nccl-ag-rs", "ag-rs", WHICH_BOTH, NULL, 0 },
    { "deepgemm-mega-moe", "mega-moe", WHICH_NVIDIA, NULL, 0 },
    { "pplx", "pplx", WHICH_NVIDIA, NULL, 0 },
    { "nccl-ep-ht", "nccl-ht", WHICH_NVIDIA, NULL, 0 },
    { "nccl-ep-ll", "nccl-ll", WHICH_NVIDIA, NULL, 0 },
    { "hybrid-ep-2025", "hybrid-ep", WHICH_NVIDIA, NULL, 0 },
    { "mori-normal", "mori", WHICH_AMD, NULL, 0 },
    { "mori-ll", "mori-ll", WHICH_AMD, NULL, 0 },
    { "uccl-ll", "ll", WHICH_AMD, NULL, 0 },
    { "uccl-normal", "normal", WHICH_AMD, NULL, 0 },
    { "deepep-ll", "ll", WHICH_NVIDIA, "ibgda", MLX5 },
    { "deepep-ll", "ll", WHICH_NVIDIA, "gdaki", MLX5 },
    { "deepep-ll", "ll", WHICH_NVIDIA, "gin-proxy", MLX5 },
    { "deepep-normal", "normal", WHICH_NVIDIA, "ibgda", MLX5 },
    { "deepep-normal", "normal", WHICH_NVIDIA, "gdaki", MLX5 },
    { "deepep-normal", "normal", WHICH_NVIDIA, "gin-proxy", MLX5 },
    { "deepep-v2", "v2", WHICH_NVIDIA, "gdaki", MLX5 },
    { "deepep-v2-direct", "v2", WHICH_NVIDIA, "gdaki", MLX5 },
    { "deepep-v2", "v2", WHICH_NVIDIA, "gin-proxy", MLX5 },
    { "nccl-ep-ht", "nccl-ht", WHICH_NVIDIA, "gdaki", MLX5 },
    { "nccl-ep-ht", "nccl-ht", WHICH_NVIDIA, "gin-proxy", MLX5 },
    { "hybrid-ep-2025", "hybrid-ep", WHICH_NVIDIA, "gdaki", MLX5 },
    { "nixl-ep-ll", "ll", WHICH_NVIDIA, "nixl", MLX5 },
    { "nixl-ep-normal", "normal", WHICH_NVIDIA, "nixl", MLX5 },
    { "uccl-ll", "ll", WHICH_BOTH, "uccl", MLX5 | BNXT_RE | IONIC },
    { "uccl-ll", "ll", WHICH_BOTH, "uccl-efa", EFA },
    { "uccl-normal", "normal", WHICH_BOTH, "uccl", MLX5 | BNXT_RE | IONIC },
    { "uccl-normal", "normal", WHICH_BOTH, "uccl-efa", EFA },
    { "pplx", "pplx", WHICH_NVIDIA, "fabric-lib", MLX5 },
    { "pplx", "pplx", WHICH_NVIDIA, "fabric-lib-efa", EFA },
    { "nccl-ep-ll", "nccl-ll", WHICH_NVIDIA, "gdaki", MLX5 },
    { "nccl-ep-ll", "nccl-ll", WHICH_NVIDIA, "gin-proxy", MLX5 },
    { "mori-normal", "mori", WHICH_AMD, "ibgda", MLX5 | BNXT_RE | IONIC },
    { "mori-ll", "mori-ll", WHICH_AMD, "ibgda", MLX5 | BNXT_RE | IONIC },
    { "nccl-ag-rs", "ag-rs", WHICH_BOTH, "nccl", MLX5 | EFA | CXI | BNXT_RE | IONIC },
};

enum { TOKENS_DEFAULT = 128 };

const char *which_time_name(enum which_time time)
{
    static const char *const names[WHICH_TIMES] = { "layer", "dispatch", "combine" };
    assert(time < WHICH_TIMES);
    return names[time];
}

/* ---- cases ---- */

/* Whether a list or a matrix decides the number of tokens. */
static bool tokens_listed(const struct case_options *c) { return c->tokens_per_rank || c->traffic; }

/* Sets the options that all backends of a point have in common.  ranks or tokens 0: the case's value.  Where the
 * kernels' public tests differ in their defaults, those of the normal kernels are used, except for tokens
 * (TOKENS_DEFAULT). */
static void work_settle(const struct which *w, uint32_t ranks, uint32_t tokens, struct case_options *c)
{
    *c = w->base;
    if (ranks) c->num_ranks = ranks;
    if (tokens && !tokens_listed(c)) c->num_tokens = tokens;
    if (!c->num_tokens && !c->trace && !tokens_listed(c)) c->num_tokens = TOKENS_DEFAULT;
    c->kernel = "normal";
    const struct case_options whole = case_resolved(c);
    c->num_ranks = whole.num_ranks;
    c->num_experts = whole.num_experts;
    c->num_topk_groups = whole.num_topk_groups;
    c->ranks_per_node = whole.ranks_per_node;
}

/* Whether the backend is V2 without hybrid mode. */
static bool backend_direct(const struct which_backend *b) { return g_str_has_suffix(b->name, "-direct"); }

static void backend_settle(const struct which *w, const struct which_backend *backend, struct case_options *c)
{
    c->kernel = backend->kernel;
    if (backend->transport) c->backend = backend->transport;
    case_settings_drop(c);
    c->direct |= backend_direct(backend);
    case_cluster_settle(c, w->cluster);
}

static enum which_gpus gpus_of(const struct cluster *cluster)
{
    return cluster->nvlink.over == CLUSTER_PEERS_BY_XGMI ? WHICH_AMD : WHICH_NVIDIA;
}

/* Whether options and ranks leave a backend as a candidate. */
static bool backend_asked(const struct which *w, const struct which_backend *b, uint32_t ranks)
{
    const struct case_options *c = &w->base;
    const bool one_node = ranks <= c->ranks_per_node && !c->nvlink_disabled;
    if (c->kernel && strcmp(c->kernel, b->kernel) != 0) return false;
    if (b->gpus == WHICH_AMD && gpus_of(w->cluster) != WHICH_AMD) return false;
    if (c->direct && b->transport && strcmp(b->kernel, "v2") == 0 && !backend_direct(b)) return false;
    if (one_node) return !b->transport;
    return b->transport && (!c->backend || strcmp(c->backend, b->transport) == 0);
}

bool which_begin(struct which *w, GError **error)
{
    struct case_load load = { 0 };
    struct case_options c;
    w->backend = table;
    w->backends = G_N_ELEMENTS(table);
    w->points = g_ptr_array_new();
    case_node_settle(&w->base, w->cluster->nvlink.gpus);
    work_settle(w, 0, 0, &c);
    const bool good = case_load(&c, &load, error);
    w->base.ranks_per_node = c.ranks_per_node;
    w->ranks = load.routing.ranks;
    w->topk = load.routing.topk;
    w->experts = load.routing.experts;
    w->topk_nodes = c.num_topk_groups < w->ranks / c.ranks_per_node ? c.num_topk_groups : 0;
    for (uint32_t r = 0; r < w->ranks; r++) w->tokens = MAX(w->tokens, load.routing.rank[r].tokens);
    case_load_free(&load);
    const char *kernel[G_N_ELEMENTS(table) + 1] = { NULL };
    uint32_t asked = 0;
    for (uint32_t i = 0; good && i < w->backends; i++)
        if (backend_asked(w, &w->backend[i], w->ranks) && !g_strv_contains(kernel, w->backend[i].kernel))
            kernel[asked++] = w->backend[i].kernel;
    if (asked) return case_kernels_take(&w->base, kernel, error);
    if (good)
        error_input(error,
                    "expected --kernel ll, normal, v2, ag-rs, mori, mori-ll, pplx, nccl-ll, nccl-ht, hybrid-ep or "
                    "(within a node) "
                    "one-sided "
                    "or two-sided and a --backend that posts for it (ibgda, gdaki, gin-proxy, nixl, uccl, uccl-efa, "
                    "fabric-lib, fabric-lib-efa or, for ag-rs, nccl), found %s and %s",
                    w->base.kernel ? w->base.kernel : "none", w->base.backend ? w->base.backend : "none");
    return false;
}

static void point_free(struct which_point *point, uint32_t backends)
{
    for (uint32_t i = 0; i < backends; i++) {
        struct which_answer *a = &point->answer[i];
        for (int t = 0; t < WHICH_TIMES; t++) {
            g_free(a->phase[t]);
            g_free(a->bound[t]);
        }
        g_free(a->problem);
    }
    g_free(point->answer);
    g_free(point->order);
    g_free(point);
}

void which_clear(struct which *w)
{
    for (guint i = 0; w->points && i < w->points->len; i++) point_free(w->points->pdata[i], w->backends);
    if (w->points) g_ptr_array_free(w->points, TRUE);
}

/* ---- answers ---- */

static void longest_keep(struct which_answer *a, enum which_time time, const char *phase, const struct record *record)
{
    struct compare_limit limit;
    a->phase[time] = compare_layer_limit(record, phase, &limit);
    g_autofree char *text = compare_limit_text(&limit), *work = compare_limit_work(&limit);
    a->bound[time] = compare_limit_waits(&limit) && *work ? g_strdup_printf("%s (%s)", text, work) : g_strdup(text);
}

static void answer_take(struct which_answer *a, const struct record *record)
{
    struct compare_layer layer;
    const char *sms = record_get(record, "num-sms");
    a->sms = sms ? (uint32_t)strtoul(sms, NULL, 10) : 0;
    if (!compare_layer_find(record, NULL, true, &layer)) {
        a->problem = g_strdup("its kernels neither dispatch nor combine");
        return;
    }
    const enum compare_half longer =
        layer.longest_us[COMPARE_COMBINE] > layer.longest_us[COMPARE_DISPATCH] ? COMPARE_COMBINE : COMPARE_DISPATCH;
    a->us[WHICH_LAYER] = layer.us[COMPARE_DISPATCH] + layer.us[COMPARE_COMBINE];
    a->us[WHICH_DISPATCH] = layer.us[COMPARE_DISPATCH];
    a->us[WHICH_COMBINE] = layer.us[COMPARE_COMBINE];
    longest_keep(a, WHICH_LAYER, layer.longest[longer], record);
    longest_keep(a, WHICH_DISPATCH, layer.longest[COMPARE_DISPATCH], record);
    longest_keep(a, WHICH_COMBINE, layer.longest[COMPARE_COMBINE], record);
}

/* The first line of a message. */
static char *line_of(const char *message) { return g_strndup(message, strcspn(message, "\n")); }

struct task {
    const struct which *which;
    const struct case_options *work;
    const struct case_load *load;
};

static bool answer_run(void *context, uint32_t index, void *memory)
{
    const struct task *task = context;
    const struct which *w = task->which;
    const struct which_backend *b = &w->backend[index];
    struct which_answer *a = &((struct which_point *)w->points->pdata[w->points->len - 1])->answer[index];
    const uint32_t provider = w->cluster->nic.provider;
    (void)memory;
    if (a->absent) return true;
    if (!(b->gpus & gpus_of(w->cluster))) {
        a->problem = g_strdup("its kernels are for NVIDIA's GPUs");
        return true;
    }
    if (strcmp(b->kernel, "mega-moe") == 0) {
        a->problem = g_strdup("its one kernel has the experts' layers in it, too");
        return true;
    }
    if (b->transport && provider != CLUSTER_PROVIDER_UNKNOWN && !(b->providers >> provider & 1)) {
        a->problem = g_strdup_printf("it does not post to %s", cluster_provider_text(provider));
        return true;
    }
    g_autoptr(GError) error = NULL;
    struct case_options c = *task->work;
    g_autoptr(record) record = record_new();
    backend_settle(w, b, &c);
    if (simulate_load(&c, w->cluster, task->load, &(struct simulate_wishes){ 0 }, record, &error))
        answer_take(a, record);
    else a->problem = line_of(error->message);
    return true;
}

struct sorting {
    const struct which *which;
    const struct which_point *point;
};

static gint answer_order(gconstpointer one, gconstpointer other, gpointer data)
{
    const struct sorting *s = data;
    const uint32_t i = *(const uint32_t *)one, k = *(const uint32_t *)other;
    const struct which_answer *a = &s->point->answer[i], *b = &s->point->answer[k];
    if (a->absent != b->absent) return a->absent ? 1 : -1;
    if (!a->problem != !b->problem) return a->problem ? 1 : -1;
    const double x = a->us[s->which->by], y = b->us[s->which->by];
    if (!a->problem && x != y) return x < y ? -1 : 1;
    return i < k ? -1 : i > k;
}

static struct which_point *point_new(struct which *w, uint32_t ranks, uint32_t tokens)
{
    struct which_point *point = g_new0(struct which_point, 1);
    point->ranks = ranks;
    point->tokens = tokens;
    point->answer = g_new0(struct which_answer, w->backends);
    point->order = g_new0(uint32_t, w->backends);
    for (uint32_t i = 0; i < w->backends; i++) {
        point->order[i] = i;
        point->answer[i].absent = !backend_asked(w, &w->backend[i], ranks);
        point->asked += !point->answer[i].absent;
    }
    g_ptr_array_add(w->points, point);
    return point;
}

bool which_point_add(struct which *w, uint32_t ranks, uint32_t tokens, GError **error)
{
    struct case_options c;
    struct case_load load;
    work_settle(w, ranks, tokens, &c);
    const bool good = case_load(&c, &load, error);
    if (good) {
        struct which_point *point = point_new(w, ranks, tokens);
        struct task task = { w, &c, &load };
        on_cores_run(&(struct on_cores){ "backends", w->backends, w->jobs, answer_run, .context = &task });
        for (uint32_t i = 0; i < w->backends; i++) point->good += !point->answer[i].absent && !point->answer[i].problem;
        struct sorting sorting = { w, point };
        g_qsort_with_data(point->order, (gint)w->backends, sizeof *point->order, answer_order, &sorting);
    }
    case_load_free(&load);
    return good;
}

void which_estimate(const struct which *w, const uint32_t *ranks, const uint32_t *tokens, uint32_t count)
{
    struct estimate_many many = { 0 };
    for (uint32_t i = 0; i < count * w->backends; i++) {
        const struct which_backend *b = &w->backend[i % w->backends];
        struct case_options c;
        if (!backend_asked(w, b, ranks[i / w->backends])) continue;
        work_settle(w, ranks[i / w->backends], tokens[i / w->backends], &c);
        backend_settle(w, b, &c);
        estimate_many_add(&many, &c, w->cluster, 1);
    }
    estimate_many_print(&many, "which", w->jobs);
}

const struct which_backend *which_first(const struct which *w, const struct which_point *point)
{
    return point->good ? &w->backend[point->order[0]] : NULL;
}
