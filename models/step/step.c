/* step.c - what options of `eptwin step` mean: a net, its kernels, its costs, its schedule; see step.h. */
#include "models/step/step.h"

#include <assert.h>
#include <math.h>
#include <string.h>
#include "models/hardware/sm/pressure.h"
#include "models/predict/on_cores.h"
#include "models/step/step_run.h"
#include "sim/share.h"
#include "sim/text.h"
#include "sim/units.h"
#include "traces/trace.h"

enum {
    BATCH_DECODE = 128,
    BATCH_PREFILL = 4096, /* also for training */
    CONTEXT_DEFAULT = 4096,
    LAYERS_DECODE = 12,
    LAYERS_PREFILL = 4, /* also for training */
    LAYERS_WORK = 4,
    LAYERS_MAX = 1000,
    DRAWS_TWO_BATCH = 3
};

static const char *const phase_names[] = {
    [STEP_DECODE] = "decode", [STEP_PREFILL] = "prefill", [STEP_TRAIN] = "train"
};

const char *step_phase_name(enum step_phase phase) { return phase_names[phase]; }

static bool refuse(GError **error, const char *option, const char *expected, const char *found)
{
    return error_input(error, "--%s: expected %s, found %s", option, expected, found);
}

/* Loads the tables of compute times, and the GPU's description. */
static bool sources_load(struct step_plan *p, const struct step_options *o, const struct cluster *cluster,
                         GError **error)
{
    g_autofree char *shipped = share_find(SHARE_TABLES, "compute");
    if (!shipped) return refuse(error, "table", "the shipped compute.csv.zst next to the nets", "none");
    p->gpu = step_gpu_load(o->gpu, cluster->name, error);
    if (!p->gpu) return false;
    p->shipped = compute_table_load(shipped, error);
    if (p->shipped && o->table) p->own = compute_table_load(o->table, error);
    return p->shipped && (!o->table || (p->own && costs_table_check(p->own, o->table, error)));
}

/* Whether every rank holds equally many experts; else *error says how many more are needed.  Placements ensure it
 * themselves. */
static bool experts_divide(const struct case_options *c, uint32_t experts, GError **error)
{
    const uint32_t ranks = c->num_ranks ? c->num_ranks : 1, over = experts % ranks;
    if (!over) return true;
    g_autofree char *expected =
        g_strdup_printf("experts that %u ranks divide, as %u more would make them", ranks, ranks - over);
    g_autofree char *found = g_strdup_printf("%u", experts);
    return refuse(error, "redundant", expected, found);
}

/* Whether --routing says how popular each expert is.  Other routings say what each rank gets. */
static bool experts_unequal(const char *routing)
{
    static const char *const by_expert[] = { "zipf", "lognormal:", "hot-expert:", "power-law:", "sampled-power-law:" };
    for (size_t i = 0; routing && i < G_N_ELEMENTS(by_expert); i++)
        if (g_str_has_prefix(routing, by_expert[i])) return true;
    return false;
}

/* Settles the redundant experts.  If a trace or --routing says which experts are heavy, they are replicas of the
 * heaviest experts, placed as EPLB does it.  Other routings say what each rank gets, so redundant experts only add to
 * the number of experts. */
static bool redundant_settle(struct step_plan *p, const struct step_options *o, GError **error)
{
    if (o->redundant > 0 && p->c.placement)
        return refuse(error, "redundant", "none with --placement, whose eplb:N adds them", "some");
    if (p->c.trace || experts_unequal(p->c.routing)) {
        g_autofree char *eplb = g_strdup_printf("eplb:%d", o->redundant);
        if (o->redundant > 0) p->c.placement = g_intern_string(eplb);
    } else if (!p->c.placement) {
        p->c.num_experts += (uint32_t)o->redundant;
    }
    return true;
}

/* How many numbers a row of the kernels has: the net's `hidden`, rounded up to 256.  Normal kernels move 32 lanes of 16
 * bytes at a time, which is 256 BF16 numbers, and low latency is compiled for multiples of 256.  Engines round up to
 * that (vLLM's maybe_roundup_layer_hidden_size; 2880 of gpt-oss are 3072 in DeepEP's launch.cuh).  A row of ag-rs keeps
 * the net's number, because NCCL sends any number. */
static uint32_t row_numbers(const struct case_options *c, uint32_t hidden)
{
    enum { LANES_NUMBERS = 256 };
    if (strcmp(c->kernel, "ag-rs") == 0) return hidden;
    return (hidden + LANES_NUMBERS - 1) / LANES_NUMBERS * LANES_NUMBERS;
}

/* Lets routing that is drawn keep to the groups of experts from which the net's gate takes a token's. --num-topk-groups
 * means nodes, and takes precedence.  Replicas may lie in any group, so redundant experts without known loads lift the
 * limit. */
static void groups_settle(struct step_plan *p, const struct step_options *o, const struct case_options *c)
{
    const bool drawn = !p->c.trace && !p->c.traffic && !case_option_given(c, "num-topk-groups");
    const bool known = !o->redundant || experts_unequal(p->c.routing);
    if (!drawn) return;
    p->c.num_groups = known ? p->net->groups : 1;
    p->c.num_topk_groups = known && p->net->topk_groups < p->net->groups ? p->net->topk_groups : 0;
}

/* Sets the kernels' sizes from the net, and refuses options that also give them.  A trace, if there is one, gives the
 * number of experts and how many each token has. */
static bool net_says(struct step_plan *p, const struct step_options *o, const struct case_options *c, GError **error)
{
    static const char *const sizes[] = { "hidden", "num-topk", "num-experts", "num-tokens", "tokens-per-rank" };
    for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++)
        if (case_option_given(c, sizes[i]))
            return refuse(error, sizes[i], i < 3 ? "none: the net says it" : "none: --batch says it", "one");
    p->c.hidden = row_numbers(&p->c, p->net->hidden);
    if (!p->c.trace) p->c.num_topk = p->net->topk;
    if (!p->c.trace) p->c.num_experts = p->net->experts;
    groups_settle(p, o, c);
    const uint32_t experts = p->net->experts + (uint32_t)o->redundant;
    if (!p->c.trace && !p->c.placement && !experts_divide(&p->c, experts, error)) return false;
    return redundant_settle(p, o, error);
}

/* Makes the kernels' options of the backward pass.  Its layout is that of the forward pass, so its dispatch is
 * cached. */
static bool backward_make(struct step_plan *p, GError **error)
{
    if (strcmp(p->c.kernel, "normal") != 0 && strcmp(p->c.kernel, "v2") != 0)
        return refuse(error, "kernel", "normal or v2 in training", p->c.kernel);
    if (p->c.cached) return refuse(error, "cached", "none in training: the backward pass has it", "it");
    p->backward = p->c;
    p->backward.cached = true;
    p->backward.worst_tokens = p->backward.weights = false;
    p->run.backward = &p->backward;
    return true;
}

/* Sets *loads to the number of routings that the layers with experts have: those of the trace, or one drawn for each
 * layer, because each layer has different hot experts.  With --layer, traffic or timed work, all layers share one
 * routing. */
static bool loads_count(const struct step_plan *p, uint32_t *loads, GError **error)
{
    const uint32_t layers = p->run.layers.sparse;
    *loads = p->work_text || p->c.traffic || case_option_given(&p->c, "layer") ? 1 : layers;
    if (!p->c.trace || *loads == 1) return true;
    g_autoptr(trace) trace = trace_open(p->c.trace, &(struct trace_options){ .experts = p->c.num_experts }, error);
    if (!trace) return false;
    *loads = MIN(MAX(trace_info(trace)->layers, 1u), layers);
    return true;
}

/* The mean number of tokens of a rank in a batch. */
static double tokens_mean(const struct routing *routing)
{
    double tokens = 0;
    for (uint32_t r = 0; r < routing->ranks; r++) tokens += routing->rank[r].tokens;
    return tokens / routing->ranks;
}

/* Whether some rank of the trace has as many tokens as a batch.  True without a trace. */
static bool trace_fills(const struct step_plan *p, GError **error)
{
    uint32_t most = 0;
    for (uint32_t l = 0; l < p->run.loads; l++)
        for (uint32_t r = 0; r < p->load[l].routing.ranks; r++) most = MAX(most, p->load[l].routing.rank[r].tokens);
    if (!p->c.trace || most >= p->c.num_tokens) return true;
    g_autofree char *found = g_strdup_printf("%u", p->batch);
    g_autofree char *expected = g_strdup_printf("at most %u, for ranks of the trace have up to %u tokens%s",
                                                most * p->batches, most, p->batches > 1 ? " for each batch" : "");
    return refuse(error, "batch", expected, found);
}

static bool loads_make(struct step_plan *p, GError **error)
{
    uint32_t loads;
    if (!loads_count(p, &loads, error)) return false;
    p->load = g_new0(struct case_load, loads);
    for (p->run.loads = 0; p->run.loads < loads; p->run.loads++) {
        struct case_options layer = p->c;
        layer.layer += p->run.loads;
        if (!case_load(&layer, &p->load[p->run.loads], error)) return false;
    }
    return p->work_text || trace_fills(p, error);
}

/* Sets the kernels' options that follow from the net and the deployment. */
static bool case_make(struct step_plan *p, const struct step_options *o, const struct case_options *c,
                      const struct cluster *cluster, GError **error)
{
    const struct {
        const char *option;
        bool given;
    } others[] = { { "arrival", c->arrival }, { "launch", c->launch },   { "mask-timeout", c->mask_timeout },
                   { "fail", c->fail },       { "compute", c->compute }, { "compute-sms", c->compute_sms } };
    for (size_t i = 0; i < G_N_ELEMENTS(others); i++)
        if (others[i].given) return refuse(error, others[i].option, "none with a step", "one");
    p->c = *c;
    if (!p->c.kernel) p->c.kernel = p->phase == STEP_DECODE ? "ll" : "normal";
    if (!program_runs(p->c.kernel)) return refuse(error, "kernel", PROGRAM_KERNELS, p->c.kernel);
    if (c->nvlink_disabled && strcmp(p->c.kernel, "normal") == 0)
        return refuse(error, "disable-nvlink", "other kernels than normal in a step", "it");
    if (!o->work && !net_says(p, o, c, error)) return false;
    if (p->run.overlap == STEP_STAGES || p->run.overlap == STEP_SHARED_ASIDE)
        p->c.hook |= strcmp(p->c.kernel, "ll") == 0;
    p->c.num_tokens = (p->batch + p->batches - 1) / p->batches;
    case_cluster_settle(&p->c, cluster);
    return p->phase != STEP_TRAIN || backward_make(p, error);
}

static bool memory_check(struct step_plan *p, uint32_t ranks, uint32_t experts, GError **error)
{
    if (p->work_text || p->phase == STEP_TRAIN) return true;
    p->weight_bytes = costs_weight_bytes(&p->costs, ranks, experts);
    p->cache_bytes = costs_cache_bytes(&p->costs, p->batch);
    const double left = p->gpu->memory_gb * 1e9 - p->weight_bytes, fits = floor(left * p->batch / p->cache_bytes);
    if (p->cache_bytes <= left) return true;
    g_autofree char *most =
        fits < 1 ? g_strdup("--num-ranks: expected more, so that a rank's weights and a token's cache fit")
                 : g_strdup_printf("--batch: expected at most %.0f, whose cache fits beside weights", fits);
    return error_input(
        error,
        "%s in the %g GB of %s, found %.1f GB of weights and %.1f GB of cache (%u token%s, context %g, %u "
        "rank%s)",
        most, p->gpu->memory_gb, p->gpu->name, p->weight_bytes / 1e9, p->cache_bytes / 1e9, p->batch,
        p->batch == 1 ? "" : "s", p->costs.context, ranks, ranks == 1 ? "" : "s");
}

static bool layers_settle(struct step_plan *p, const struct step_options *o, GError **error)
{
    p->layers = p->net->layers - p->net->dense_layers;
    uint32_t simulated = MIN(p->layers, p->phase == STEP_DECODE ? LAYERS_DECODE : LAYERS_PREFILL);
    if (o->layers && strcmp(o->layers, "all") == 0) {
        simulated = p->layers;
    } else if (o->layers) {
        guint64 n;
        if (!text_whole(o->layers, 1, p->layers, &n)) {
            g_autofree char *expected = g_strdup_printf("all, or a whole number from 1 to %u", p->layers);
            return refuse(error, "layers", expected, o->layers);
        }
        simulated = (uint32_t)n;
    }
    p->run.layers = (struct schedule_layers){
        .dense = p->net->dense_layers, .sparse = simulated, .shared = p->net->shared_inter > 0, .head = true
    };
    return true;
}

static uint32_t value_or(int value, int otherwise) { return (uint32_t)(value ? value : otherwise); }

static bool words_settle(struct step_plan *p, const struct step_options *o, GError **error)
{
    size_t phase = STEP_DECODE;
    while (o->phase && phase < G_N_ELEMENTS(phase_names) && strcmp(phase_names[phase], o->phase) != 0) phase++;
    if (phase == G_N_ELEMENTS(phase_names)) return refuse(error, "phase", "decode, prefill or train", o->phase);
    p->phase = (enum step_phase)phase;
    if (o->schedule && !step_overlap_parse(o->schedule, &p->run.overlap))
        return refuse(error, "schedule", "sequential, shared, two-batch or stages", o->schedule);
    return true;
}

static double gbs(uint64_t rate_bps) { return (double)rate_bps / 8e9; }

/* How many times as fast the GPU of --gpu reads its memory as the cluster's.  1 if either is not known. */
static double memory_ratio(const struct step_plan *p, const struct step_options *o, const struct cluster *cluster)
{
    struct step_gpu *const own = o->gpu ? step_gpu_load(NULL, cluster->name, NULL) : NULL;
    const double ratio = own ? p->gpu->memory_gbs / own->memory_gbs : 1;
    step_gpu_free(own);
    return ratio;
}

static void costs_settle(struct step_plan *p, const struct step_options *o, const struct case_options *c,
                         const struct cluster *cluster)
{
    const struct cluster_gpu *const gpu = &cluster->gpu;
    const bool normal = strcmp(p->c.kernel, "ll") != 0;
    const double ratio = memory_ratio(p, o, cluster);
    const uint64_t read_bps = gpu->hbm_read_rate_bps ? gpu->hbm_read_rate_bps : gpu->hbm_rate_bps;
    const uint64_t write_bps = gpu->hbm_write_rate_bps ? gpu->hbm_write_rate_bps : gpu->hbm_rate_bps;
    p->costs = (struct costs_options){ .net = p->net,
                                       .gpu = p->gpu,
                                       .own = p->own,
                                       .shipped = p->shipped,
                                       .prefill = p->phase != STEP_DECODE,
                                       .train = p->phase == STEP_TRAIN,
                                       .fp8 = !c->dtype || strcmp(c->dtype, "fp8") == 0,
                                       .contiguous = normal,
                                       .attention_tp = value_or(o->attention_tp, 1),
                                       .context = value_or(o->context, CONTEXT_DEFAULT),
                                       .read_gbs = ratio * gbs(read_bps),
                                       .write_gbs = ratio * gbs(write_bps),
                                       .clock_ghz = p->gpu->sustained_clock_ghz };
}

/* Reads one clock for all GPUs, or one for each.  The costs use the mean clock.  A GPU's speed is its clock divided by
 * the mean. */
static bool clocks_settle(struct step_plan *p, const char *text, GError **error)
{
    if (!text) return true;
    g_auto(GStrv) each = g_strsplit(text, "|", -1);
    const uint32_t count = g_strv_length(each), ranks = step_routing(p)->ranks;
    g_autofree double *ghz = g_new(double, count);
    g_autofree char *expected =
        g_strdup_printf("a clock in GHz, above 0 and at most 10, or one for each of %u ranks (1.69|1.79|...)", ranks);
    double sum_ghz = 0;
    if (count != 1 && count != ranks) return refuse(error, "clock", expected, text);
    for (uint32_t i = 0; i < count; i++) {
        const char *end = text_decimal(each[i], &ghz[i]);
        if (!end || *end || !(ghz[i] > 0 && ghz[i] <= 10)) return refuse(error, "clock", expected, text);
        sum_ghz += ghz[i];
    }
    p->costs.clock_ghz = sum_ghz / count;
    for (uint32_t i = 0; i < count; i++) ghz[i] /= p->costs.clock_ghz;
    if (count > 1) p->run.speed = p->speed = g_steal_pointer(&ghz);
    return true;
}

/* Sets the number of draws, and how much GPUs and kernels differ.  The user's values count first.  By default there are
 * several draws where two whole batches overlap, because small leads tip such a step into another order of kernels.  In
 * several draws kernels differ by 1 %, and GPUs by 2 % unless their clocks or timed work are given.  Sources: two H100s
 * ran one GEMM 2.6 % apart at full clock (1.8 % deviation), two H200s 5.6 % (tests/accuracy/measured, h100-x2-rows;
 * tests/accuracy/steps).  There, kernels differ by 1 % from layer to layer. */
static bool differ_settle(struct step_plan *p, const struct step_options *o, GError **error)
{
    const bool tips = p->run.overlap == STEP_TWO_BATCH && !o->work;
    p->draws = o->draws > 0 ? (uint32_t)o->draws : tips ? DRAWS_TWO_BATCH : 1;
    const double spread_pct = p->draws > 1 && !p->speed && !o->work ? 2 : 0, jitter_pct = p->draws > 1 ? 1 : 0;
    p->run.spread = (o->spread_pct >= 0 ? o->spread_pct : spread_pct) / 100;
    p->run.jitter = (o->jitter_pct >= 0 ? o->jitter_pct : jitter_pct) / 100;
    if (p->run.spread > 0 || p->run.jitter > 0) return true;
    p->draws = 1;
    return o->draws <= 1 ||
           refuse(error, "draws", "GPUs or kernels that differ (--spread, --jitter), or all draws are equal",
                  "neither");
}

static bool tp_fits(const struct step_plan *p, uint32_t ranks)
{
    return p->costs.attention_tp <= p->net->heads && ranks % p->costs.attention_tp == 0;
}

static bool tp_refuse(const struct step_plan *p, GError **error)
{
    g_autofree char *found = g_strdup_printf("%u", p->costs.attention_tp);
    g_autofree char *expected =
        g_strdup_printf("a divisor of %u ranks up to %u heads", step_routing(p)->ranks, p->net->heads);
    return refuse(error, "attention-tp", expected, found);
}

static bool leave_refuse(int sms, uint32_t all, GError **error)
{
    g_autofree char *found = g_strdup_printf("%d", sms), *expected = g_strdup_printf("less than the GPU's %u SMs", all);
    return refuse(error, "leave-sms", expected, found);
}

/* Sets up timed work, which needs neither a net nor a GPU's tables.  The user gives the number of layers. */
static bool work_settle(struct step_plan *p, const struct step_options *o, const struct case_options *c, GError **error)
{
    const struct {
        const char *option;
        bool given;
    } others[] = {
        { "net", o->net != NULL },         { "gpu", o->gpu != NULL },         { "table", o->table != NULL },
        { "phase", o->phase != NULL },     { "clock", o->clock != NULL },     { "batch", o->batch > 0 },
        { "context", o->context > 0 },     { "redundant", o->redundant > 0 }, { "attention-tp", o->attention_tp > 0 },
        { "leave-sms", o->leave_sms >= 0 }
    };
    for (size_t i = 0; i < G_N_ELEMENTS(others); i++)
        if (others[i].given) return refuse(error, others[i].option, "none with --work", "one");
    guint64 layers = LAYERS_WORK;
    if (o->layers && !text_whole(o->layers, 1, LAYERS_MAX, &layers))
        return refuse(error, "layers", "a whole number from 1 to 1000", o->layers);
    if (!program_work_parse(o->work, &p->work, error) || !program_work_fits(&p->work, p->run.overlap, error))
        return false;
    p->work_text = g_strdup(o->work);
    p->net = g_new0(struct net, 1);
    *p->net = (struct net){ .name = g_strdup("timed work"),
                            .layers = (uint32_t)layers,
                            .hidden = c->hidden,
                            .experts = c->num_experts,
                            .topk = c->num_topk,
                            .heads = 1 };
    p->gpu = g_new0(struct step_gpu, 1);
    p->gpu->name = g_strdup("none");
    p->layers = (uint32_t)layers;
    p->run.layers = program_work_layers(&p->work, p->layers);
    return true;
}

/* Whether the net has the shared expert that the schedule runs during communication. */
static bool schedule_fits(const struct step_plan *p, GError **error)
{
    if (p->run.overlap != STEP_SHARED_ASIDE || p->net->shared_inter) return true;
    g_autofree char *expected = g_strdup_printf("another schedule, for %s has no shared expert", p->net->name);
    return refuse(error, "schedule", expected, "shared");
}

static bool net_settle(struct step_plan *p, const struct step_options *o, const struct cluster *cluster, GError **error)
{
    p->net = net_load(o->net, error);
    return p->net && schedule_fits(p, error) && sources_load(p, o, cluster, error) && layers_settle(p, o, error);
}

bool step_plan_make(struct step_plan *p, const struct step_options *o, const struct case_options *c,
                    const struct cluster *cluster, GError **error)
{
    *p = (struct step_plan){ 0 };
    case_init(&p->c);
    case_init(&p->backward);
    if (!o->net && !o->work) return refuse(error, "net", "a config.json or the name of a shipped net", "none");
    if (!words_settle(p, o, error)) return false;
    if (o->work ? !work_settle(p, o, c, error) : !net_settle(p, o, cluster, error)) return false;
    p->batches = p->phase == STEP_TRAIN ? 1 : step_overlap_batches(p->run.overlap); /* training: whole batches */
    p->batch = o->work ? p->batches * c->num_tokens
                       : value_or(o->batch, p->phase == STEP_DECODE ? BATCH_DECODE : BATCH_PREFILL);
    if (o->work && !c->num_tokens) return refuse(error, "num-tokens", "the tokens of a rank with --work", "none");
    if (p->batch < p->batches) return refuse(error, "batch", "at least a token for each of two batches", "1");
    if (!case_make(p, o, c, cluster, error)) return false;
    costs_settle(p, o, c, cluster);
    const bool known = !p->c.trace && !p->c.placement && tp_fits(p, case_ranks(&p->c));
    /* Before routing is drawn, which takes long for a large batch. */
    if (known && !memory_check(p, case_ranks(&p->c), p->c.num_experts, error)) return false;
    if (!loads_make(p, error)) return false;
    if (!clocks_settle(p, o->clock, error)) return false;
    if (o->work) p->costs.work = &p->work;
    p->run.layers.ordered = p->costs.contiguous && !o->work;
    if (!tp_fits(p, step_routing(p)->ranks)) return tp_refuse(p, error);
    p->costs.sms = cluster->gpu.sms;
    if (o->leave_sms >= (int)p->costs.sms) return leave_refuse(o->leave_sms, p->costs.sms, error);
    if (o->leave_sms >= 0) p->costs.leave_sms = (uint32_t)o->leave_sms;
    else if (p->run.overlap == STEP_TWO_BATCH) p->costs.leave_sms = p->c.num_sms ? p->c.num_sms : 24;
    p->run.c = &p->c;
    p->run.cluster = cluster;
    p->run.load = p->load;
    p->run.costs = &p->costs;
    if (!differ_settle(p, o, error)) return false;
    p->run.launch_ps = o->launches ? cluster->calls.launch_call_ps : 0;
    p->run.sync_ps = cluster->calls.host_sync_ps;
    p->run.gap_ps = (uint64_t)(p->gpu->gap_us * (double)PS_PER_US);
    p->run.contention = pressure_known(&cluster->gpu) && !o->no_contention;
    return memory_check(p, step_routing(p)->ranks, step_routing(p)->experts, error) && step_run_fits(&p->run, error);
}

uint32_t step_plan_rounds(const struct step_plan *p, uint32_t steps, uint32_t alones)
{
    const uint32_t passes = p->phase == STEP_TRAIN ? 2 : 1;
    return passes * (p->run.layers.sparse * p->batches * steps + p->run.loads * alones);
}

void step_plan_clear(struct step_plan *p)
{
    net_free(p->net);
    step_gpu_free(p->gpu);
    compute_table_free(p->own);
    compute_table_free(p->shipped);
    step_alone_free(p->alone);
    for (uint32_t i = 0; i < p->run.loads; i++) case_load_free(&p->load[i]);
    g_free(p->load);
    g_free(p->speed);
    g_free(p->work_text);
}

double step_tokens_per_s(const struct step_plan *p, double step_us)
{
    assert(step_us > 0);
    const double full = tokens_mean(step_routing(p)) / p->c.num_tokens; /* below 1 if a trace has fewer tokens */
    return 1e6 * p->batch * full * step_routing(p)->ranks / step_us;
}

double step_train_tflops(const struct step_plan *p, double step_us)
{
    assert(step_us > 0);
    return costs_train_flops(&p->costs, p->batch) / step_us / 1e6;
}

static void timeline_fill(struct timeline *timeline, const struct step_run *run)
{
    static const char *const streams[SCHEDULE_STREAMS_MAX] = { "compute stream", "communication stream",
                                                               "side stream" };
    const struct schedule *s = step_run_schedule(run);
    for (uint32_t r = 0; r < step_run_ranks(run); r++) {
        g_autofree char *name = g_strdup_printf("rank %u", r);
        timeline_name_process(timeline, r, name);
        for (uint32_t i = 0; i < SCHEDULE_STREAMS_MAX; i++) timeline_name_track(timeline, r, i, streams[i]);
        for (uint32_t k = 0; k < s->kernels->len; k++) {
            const struct schedule_kernel *kernel = schedule_kernel(s, k);
            const struct step_span span = step_run_span(run, r, k);
            const char *what = step_run_what_name(run, step_run_what(run, k));
            g_autofree char *detail = g_strdup_printf("layer %u, batch %u, %s", kernel->layer, kernel->batch,
                                                      step_run_cost(run, r, k)->source);
            timeline_record(timeline, &(struct timeline_span){ .name = what,
                                                               .begin_ps = (uint64_t)(span.begin_us * 1e6),
                                                               .end_ps = (uint64_t)(span.end_us * 1e6),
                                                               .process = r,
                                                               .track = kernel->stream,
                                                               .detail = detail });
        }
    }
}

struct draws {
    const struct step_plan *plan;
    struct timeline *timeline;
    double *total_ms;          /* [draws] */
    GError **error;            /* [draws] */
    struct step_answer *first; /* the first draw's answer */
};

static bool draw_run(void *context, uint32_t draw, void *memory)
{
    struct draws *d = context;
    struct step_run_options o = d->plan->run;
    (void)memory;
    o.seed = d->plan->c.seed + draw;
    o.threads = MAX(o.threads / d->plan->draws, 1);
    if (draw) o.one_thread = NULL;
    struct step_run *run = step_run_new(&o, &d->error[draw]);
    if (!run) return false;
    struct step_answer *one = step_answer_new(run, d->plan->layers);
    d->total_ms[draw] = one->total_us / 1e3;
    if (draw == 0 && d->timeline) timeline_fill(d->timeline, run);
    step_run_free(run);
    if (draw == 0) d->first = one;
    else step_answer_free(one);
    return true;
}

struct step_answer *step_plan_answer(struct step_plan *plan, struct timeline *timeline, double *total_ms,
                                     GError **error)
{
    assert(plan->draws > 0);
    if (!plan->run.alone) plan->run.alone = plan->alone = step_alone_new(&plan->run, error);
    if (!plan->run.alone) return NULL;
    g_autofree GError **errors = g_new0(GError *, plan->draws);
    struct draws draws = { plan, timeline, total_ms, errors, NULL };
    on_cores_run(&(struct on_cores){
        .jobs = plan->draws, .cores = MAX(plan->run.threads, 1), .run = draw_run, .context = &draws });
    if (!error_first(errors, plan->draws, error)) return draws.first;
    step_answer_free(draws.first);
    return NULL;
}
