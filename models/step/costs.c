/* costs.c - times of compute kernels from tables and rooflines, see costs.h.  Knows no schedule. */
#include "models/step/costs.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* The work of one kernel, or of a few kernels in sequence. */
struct work {
    double flops, read_bytes, write_bytes;
    double kernels; /* number of kernels; each costs at least as much as an empty one */
};

static double bytes_of(const struct costs_options *o) { return o->fp8 ? 1 : 2; }

/* The work of a GEMM of `rows` rows with `weights` weights, which are read once.  Each row has `in` numbers before
 * the GEMM and `out` numbers after it. */
static struct work gemm_work(const struct costs_options *o, double rows, double weights, double in, double out)
{
    return (struct work){ .flops = 2 * rows * weights,
                          .read_bytes = weights * bytes_of(o) + rows * in * bytes_of(o),
                          .write_bytes = rows * out * 2,
                          .kernels = 1 };
}

/* The size of a head's query and key (score_size) and of its value (value_size), as the kernel computes with them. */
static double score_size(const struct costs_options *o)
{
    const struct net *n = o->net;
    if (!n->latent) return n->head_size;
    return o->prefill ? n->nope_size + n->rope_size : n->kv_rank + n->rope_size;
}

static double value_size(const struct costs_options *o)
{
    const struct net *n = o->net;
    if (!n->latent) return n->head_size;
    return o->prefill ? n->value_size : n->kv_rank;
}

/* The mean over layers of a value that is `whole` where a token sees its sequence, and `window` where it sees a window.
 */
static double layers_mean(const struct costs_options *o, double whole, double window)
{
    if (!o->net->window_layers) return whole;
    const double share = (double)o->net->window_layers / o->net->layers;
    return (1 - share) * whole + share * window;
}

/* How many tokens of a sequence a layer keeps. */
static double kept_tokens(const struct costs_options *o)
{
    return layers_mean(o, o->context, fmin(o->context, o->net->window));
}

/* How many tokens a token sees.  In prefill, which is causal, it is the mean over the sequence. */
static double seen_tokens(const struct costs_options *o)
{
    const double window = fmin(o->context, o->net->window);
    if (!o->prefill) return kept_tokens(o);
    return layers_mean(o, o->context / 2, window - window * window / 2 / o->context);
}

static double core_flops(const struct costs_options *o, double tokens)
{
    return 2 * tokens * seen_tokens(o) * o->net->heads * (score_size(o) + value_size(o));
}

/* The bytes that a GPU keeps of a token of its group's sequences, in one layer.  A GPU has the keys and values of its
 * own heads, at least of one.  Latent attention has one latent for all heads, so each GPU of the group keeps it. */
static double cached_bytes(const struct costs_options *o)
{
    const struct net *n = o->net;
    const double parts = n->latent ? 1 : MIN(o->attention_tp, n->kv_heads);
    return (double)net_cache_numbers(n) * bytes_of(o) / parts;
}

static struct work attention_work(const struct costs_options *o, double tokens)
{
    const struct net *n = o->net;
    const double tp = o->attention_tp, rows = tokens * tp;
    struct work w = gemm_work(o, rows, (double)net_attention_weights(n) / tp, n->hidden, n->hidden);
    w.flops += core_flops(o, tokens);
    w.read_bytes += (o->prefill ? rows : rows * kept_tokens(o)) * cached_bytes(o);
    w.write_bytes += rows * cached_bytes(o);
    w.kernels = 5;
    return w;
}

static struct work ffn_work(const struct costs_options *o, double rows, double weights, double inter)
{
    struct work w = gemm_work(o, rows, weights, o->net->hidden, o->net->hidden);
    w.read_bytes += 2 * rows * inter * 2;
    w.write_bytes += 3 * rows * inter * 2;
    w.kernels = 3;
    return w;
}

/* The rows of the net's head.  Prefill without training computes the head only for the last token. */
static double head_rows(const struct costs_options *o, double tokens) { return o->prefill && !o->train ? 1 : tokens; }

static struct work work_of(const struct costs_options *o, enum step_op op, double tokens, double rows, double experts)
{
    const struct net *n = o->net;
    struct work w = { .kernels = 1 };
    switch (op) {
    case STEP_ATTENTION:
    case STEP_PROJECT:
    case STEP_CORE: return attention_work(o, tokens);
    case STEP_GATE: /* norms and residual sums, the router, the choice of experts */
        w = gemm_work(o, tokens, (double)n->hidden * n->experts, n->hidden, n->experts);
        w.read_bytes += 4 * tokens * n->hidden * 2;
        w.write_bytes += 3 * tokens * n->hidden * 2;
        w.kernels = 5;
        return w;
    case STEP_SHARED: return ffn_work(o, tokens, (double)net_shared_weights(n), n->shared_inter);
    case STEP_DENSE: return ffn_work(o, tokens, (double)net_dense_weights(n), n->inter);
    case STEP_EXPERTS: return ffn_work(o, rows, 3.0 * n->hidden * n->expert_inter * experts, n->expert_inter);
    case STEP_UP:
        w = gemm_work(o, rows, 2.0 * n->hidden * n->expert_inter * experts, n->hidden, 2.0 * n->expert_inter);
        w.read_bytes += 4 * rows * n->expert_inter;
        w.write_bytes += 2 * rows * n->expert_inter;
        w.kernels = 2;
        return w;
    case STEP_DOWN:
        return gemm_work(o, rows, (double)n->hidden * n->expert_inter * experts, n->expert_inter, n->hidden);
    case STEP_ORDER: /* `tokens` are those that came; each is written once for each of its experts */
        w.read_bytes = tokens * n->hidden * bytes_of(o);
        w.write_bytes = rows * n->hidden * bytes_of(o);
        w.kernels = 3;
        return w;
    case STEP_RESTORE: /* likewise; the rows of a token are summed */
        w.read_bytes = rows * n->hidden * 2;
        w.write_bytes = tokens * n->hidden * 2;
        return w;
    case STEP_HEAD:
        return gemm_work(o, head_rows(o, tokens), (double)n->hidden * n->vocabulary, n->hidden, n->vocabulary);
    default: break;
    }
    return w;
}

static bool op_is_gemm_of_experts(enum step_op op) { return op == STEP_EXPERTS || op == STEP_UP || op == STEP_DOWN; }

/* The time for the arithmetic of the op's work.  work_of() multiplies all rows of experts' GEMMs by the weights of all
 * experts, but each row meets only one expert, so these FLOPs are divided by the number of experts. */
static double flops_us(const struct costs_options *o, enum step_op op, const struct work *w, double experts)
{
    const double rate = (o->fp8 ? o->gpu->fp8_tflops : o->gpu->bf16_tflops) * o->gpu->gemm_share * 1e6;
    return (op_is_gemm_of_experts(op) && experts > 0 ? w->flops / experts : w->flops) / rate;
}

static double bytes_us(const struct costs_options *o, const struct work *w)
{
    return w->read_bytes / o->read_gbs / 1e3 + w->write_bytes / o->write_gbs / 1e3;
}

/* ---- tables ---- */

static char *op_name(enum step_op op, enum step_pass pass)
{
    return g_strconcat(step_op_name(op), step_pass_suffix(pass), NULL);
}

/* The names of ops, for a message.  It gives the two endings of a backward pass once, and not with every name. */
static char *known_ops(char **all)
{
    g_autoptr(GString) text = g_string_new(NULL);
    for (char **op = all; *op && !g_str_has_suffix(*op, step_pass_suffix(PASS_DGRAD)); op++)
        g_string_append_printf(text, "%s%s", text->len ? ", " : "", *op);
    return g_strdup_printf("%s (of a backward pass with %s or %s)", text->str, step_pass_suffix(PASS_DGRAD),
                           step_pass_suffix(PASS_WGRAD));
}

bool costs_table_check(const struct compute_table *table, const char *source, GError **error)
{
    static const char *const general[] = { "gemm",           "grouped",       "experts_contiguous",
                                           "experts_masked", "shared_expert", "mla_decode",
                                           "mla_prefill",    "gqa_decode",    "gqa_prefill" };
    g_autoptr(GStrvBuilder) ops = g_strv_builder_new();
    for (size_t i = 0; i < G_N_ELEMENTS(general); i++) g_strv_builder_add(ops, general[i]);
    for (int pass = PASS_FORWARD; pass < STEP_PASSES; pass++)
        for (int op = 0; op < STEP_COMPUTE_OPS; op++) {
            g_autofree char *name = op_name((enum step_op)op, (enum step_pass)pass);
            g_strv_builder_add(ops, name);
        }
    g_auto(GStrv) all = g_strv_builder_end(ops);
    g_autofree char *found = compute_table_stranger(table, (const char *const *)all), *known = known_ops(all);
    if (!found) return true;
    return error_input(error, "%s: op: expected one of %s; found \"%.40s\"", source, known, found);
}

/* The time from the first table and GPU that have the op; source gets their names.  NAN: none has it.  *last gets
 * the largest number of tokens that was measured. */
static double table_find(const struct costs_options *o, const char *op, const char *dtype, const char *shape,
                         double tokens, double context, char source[64], double *last)
{
    const struct compute_table *const tables[] = { o->own, o->shipped };
    const char *const gpus[] = { o->gpu->name, o->gpu->tables };
    for (size_t t = 0; t < G_N_ELEMENTS(tables); t++)
        for (size_t g = 0; tables[t] && g < G_N_ELEMENTS(gpus) && gpus[g]; g++) {
            const struct compute_point at = { op, gpus[g], dtype, shape, tokens, context };
            bool beyond;
            const double us = compute_table_us(tables[t], &at, &beyond);
            if (isnan(us)) continue;
            *last = compute_table_last(tables[t], &at);
            snprintf(source, 64, "%s %s of %s%s", t == 0 ? "own table" : "table", op, gpus[g],
                     beyond ? ", beyond its points" : "");
            return us;
        }
    return NAN;
}

static double table_us(const struct costs_options *o, const char *op, const char *dtype, const char *shape,
                       double tokens, double context, char source[64])
{
    double last;
    return table_find(o, op, dtype, shape, tokens, context, source, &last);
}

static double gemm_us(const struct costs_options *o, double rows, uint32_t k, uint32_t n, char source[64])
{
    g_autofree char *shape = g_strdup_printf("%ux%u", k, n);
    return table_us(o, "gemm", o->fp8 ? "fp8" : "bf16", shape, rows, 1, source);
}

/* The time of a feed-forward: its two GEMMs, and the gate between them. */
static double gemms_us(const struct costs_options *o, double tokens, uint32_t inter, char source[64])
{
    const struct work gated = { .read_bytes = 4 * tokens * inter, .write_bytes = 2 * tokens * inter };
    return gemm_us(o, tokens, o->net->hidden, 2 * inter, source) + gemm_us(o, tokens, inter, o->net->hidden, source) +
           bytes_us(o, &gated) + o->gpu->small_us;
}

static double attention_us(const struct costs_options *o, double tokens, char source[64])
{
    const struct net *n = o->net;
    const double rows = tokens * o->attention_tp;
    const double context = o->prefill ? fmin(o->context, rows) : o->context; /* a batch may be part of a sequence */
    const double sequences = o->prefill ? rows / context : rows;
    g_autofree char *shape = n->latent ? g_strdup_printf("%u", n->heads / o->attention_tp)
                                       : g_strdup_printf("%u/%u/%u", n->heads / o->attention_tp,
                                                         MAX(n->kv_heads / o->attention_tp, 1u), n->head_size);
    const char *op = n->latent    ? (o->prefill ? "mla_prefill" : "mla_decode")
                     : o->prefill ? "gqa_prefill"
                                  : "gqa_decode";
    return table_us(o, op, o->fp8 ? "fp8" : "bf16", shape, sequences, context, source);
}

/* The time of both GEMMs of an inference engine's layer.  *ordering: whether the time includes the ordering of rows.
 * If the kernels' rows are contiguous, experts_contiguous of the user's own table comes first.  The shipped
 * experts_contiguous was measured with the ordering, and launched by a host: it takes 0.4 to 0.8 ms for few rows, with
 * one expert as with 32.  Decode runs as a graph, which a host does not slow, so it takes experts_masked, which has
 * only the GEMMs.  Beyond the largest number of rows of experts_masked, the time is looked up with this largest number
 * and with fewer experts in proportion, so that each expert keeps its number of rows.  This time is scaled up by the
 * rows.  It is at least the time of the largest number of rows with all experts. */
static double layer_us(const struct costs_options *o, const char *shape, double rows, double experts, char source[64],
                       bool *ordering)
{
    static const char ordered[] = "experts_contiguous", masked[] = "experts_masked";
    const char *dtype = o->fp8 ? "fp8" : "bf16";
    struct costs_options own = *o;
    double last;
    char part[64];
    own.shipped = NULL;
    *ordering = o->contiguous;
    double us = o->contiguous ? table_us(&own, ordered, dtype, shape, rows, experts, source) : NAN;
    if (!isnan(us)) return us;
    if (o->contiguous && o->prefill) return table_us(o, ordered, dtype, shape, rows, experts, source);
    *ordering = false;
    us = table_find(o, masked, dtype, shape, rows, experts, source, &last);
    if (isnan(us) || rows <= last) return us;
    us = table_us(o, masked, dtype, shape, last, experts, part);
    return fmax(us, table_us(o, masked, dtype, shape, last, experts * last / rows, part) * rows / last);
}

/* The time of the experts' op: from a table's line for both GEMMs, or from a line for each. */
static double experts_us(const struct costs_options *o, enum step_op op, struct costs_rows all, double experts,
                         char source[64])
{
    const struct net *n = o->net;
    const double rows = fmax(all.all, 1);
    const char *dtype = o->fp8 ? "fp8" : "bf16";
    g_autofree char *both = g_strdup_printf("%ux%u", n->hidden, n->expert_inter);
    g_autofree char *up = g_strdup_printf("%ux%u", n->hidden, 2 * n->expert_inter);
    g_autofree char *down = g_strdup_printf("%ux%u", n->expert_inter, n->hidden);
    bool ordering = false;
    double us = o->train ? NAN : layer_us(o, both, rows, experts, source, &ordering); /* training: each GEMM alone */
    if (op == STEP_EXPERTS && !isnan(us)) return us;
    if (!isnan(us) && ordering) {
        const struct work order = work_of(o, STEP_ORDER, all.tokens, rows, experts),
                          restore = work_of(o, STEP_RESTORE, all.tokens, rows, experts);
        us = fmax(us - bytes_us(o, &order) - bytes_us(o, &restore), us / 2);
    }
    if (!isnan(us)) return op == STEP_UP ? us * 2 / 3 : us / 3; /* up has two thirds of the weights */
    const struct work gated = { .read_bytes = 4 * rows * n->expert_inter, .write_bytes = 2 * rows * n->expert_inter };
    const double up_us = op == STEP_DOWN ? 0 : table_us(o, "grouped", dtype, up, rows, experts, source);
    const double down_us = op == STEP_UP ? 0 : table_us(o, "grouped", dtype, down, rows, experts, source);
    return up_us + down_us + (op == STEP_DOWN ? 0 : bytes_us(o, &gated) + o->gpu->small_us);
}

/* The time under the op's own name in the user's table.  It takes precedence over times under general names ("gemm",
 * ...). NAN: the table does not have it. */
static double named_us(const struct costs_options *o, enum step_op op, enum step_pass pass, double tokens, double rows,
                       double experts, char source[64])
{
    g_autofree char *name = op_name(op, pass);
    const bool of_experts = op_is_gemm_of_experts(op) || op == STEP_ORDER || op == STEP_RESTORE;
    g_autofree char *shape = g_strdup_printf("%u", o->net->hidden);
    if (!o->own) return NAN;
    return table_us(o, name, o->fp8 ? "fp8" : "bf16", shape, of_experts ? fmax(rows, 1) : tokens,
                    of_experts ? experts : 1, source);
}

static double op_table_us(const struct costs_options *o, enum step_op op, double tokens, struct costs_rows rows,
                          double experts, char source[64])
{
    const struct net *n = o->net;
    switch (op) {
    case STEP_ATTENTION:
    case STEP_PROJECT:
    case STEP_CORE: return attention_us(o, tokens, source);
    case STEP_EXPERTS:
    case STEP_UP:
    case STEP_DOWN: return experts_us(o, op, rows, experts, source);
    case STEP_SHARED: {
        g_autofree char *shape = g_strdup_printf("%ux%u", n->hidden, n->shared_inter);
        const double us = table_us(o, "shared_expert", o->fp8 ? "fp8" : "bf16", shape, tokens, 1, source);
        return isnan(us) ? gemms_us(o, tokens, n->shared_inter, source) : us;
    }
    case STEP_DENSE: return gemms_us(o, tokens, n->inter, source);
    case STEP_HEAD: return gemm_us(o, head_rows(o, tokens), n->hidden, n->vocabulary, source);
    default: return NAN;
    }
}

/* ---- the cost of an op ---- */

static enum step_occupancy occupancy_of(enum step_op op)
{
    /* DeepGEMM's and CUTLASS's grouped GEMMs give each block an equal share.  cuBLAS and attention deal out tiles. */
    if (op_is_gemm_of_experts(op)) return OCCUPANCY_SHARES;
    return op == STEP_GATE || op == STEP_ORDER || op == STEP_RESTORE ? OCCUPANCY_SHORT : OCCUPANCY_TILES;
}

/* The share of attention's time that its projections before the core take, by rooflines. */
static double project_share(const struct costs_options *o, double tokens, const struct work *all)
{
    const struct net *n = o->net;
    const double out = (double)n->heads * (n->latent ? n->value_size : n->head_size) * n->hidden;
    const double weights = ((double)net_attention_weights(n) - out) / o->attention_tp;
    const struct work before = gemm_work(o, tokens * o->attention_tp, weights, n->hidden, n->hidden);
    const double before_us = fmax(flops_us(o, STEP_PROJECT, &before, 0), bytes_us(o, &before));
    return fmin(before_us / fmax(flops_us(o, STEP_PROJECT, all, 0), bytes_us(o, all)), 1);
}

/* The share of a kernel's time that depends on the clock: near 1 if arithmetic takes longer than memory, near 0 if
 * memory does.  Between the two it changes smoothly, as for GEMMs with neither few nor many rows. */
static double bound_share(double arithmetic_us, double memory_us)
{
    const double a = pow(arithmetic_us, 4), m = pow(memory_us, 4);
    return a + m > 0 ? a / (a + m) : 0;
}

/* Whether the op leaves SMs to communication.  In inference engines only the experts' GEMMs do.  In training all GEMMs
 * and attention do (DeepSeek's profile: grids of 112 blocks while communication has 20 SMs). */
static bool leaves_sms(const struct costs_options *o, enum step_op op)
{
    return o->train ? occupancy_of(op) != OCCUPANCY_SHORT : op_is_gemm_of_experts(op);
}

/* The rows of a tile.  DeepGEMM aligns each expert's rows to 128 (get_m_alignment_for_contiguous_layout).  PyTorch's
 * grouped GEMM of BF16 works by clusters of two tiles of 128 rows (GroupMM.cu). */
uint32_t costs_tile_rows(const struct costs_options *o) { return o->fp8 ? 128 : 256; }

/* By what factor rows as drawn are slower than equal rows, which fill their tiles.  Only the share of time that
 * arithmetic bounds grows, because rows that only fill tiles are not read. */
static double tiles_factor(const struct costs_options *o, struct costs_rows rows, double experts, double clock_share)
{
    const double equal = fmax(rows.all, experts * costs_tile_rows(o));
    return 1 + clock_share * fmax(rows.tiled / equal - 1, 0);
}

/* The power that a kernel draws, as a share of what tiles of random numbers draw on all SMs.  Rows that only fill tiles
 * are zeros. */
static double power_of(const struct step_gpu *gpu, struct costs_rows rows, bool of_experts, double clock_share)
{
    const double real = of_experts && rows.tiled > 0 ? rows.all / rows.tiled : 1;
    return clock_share * (real + (1 - real) * gpu->zeros_power) + (1 - clock_share) * gpu->copies_power;
}

double costs_clock_lift(const struct costs_options *o)
{
    return o->clock_ghz > 0 ? fmax(o->gpu->clock_ghz / o->clock_ghz, 1) : 1;
}

double costs_sm_clock(const struct costs_options *o, double clock, double tensor)
{
    const struct step_gpu *gpu = o->gpu;
    if (!(o->clock_ghz > 0)) return clock;
    const double set = gpu->clock_ghz, ghz = fmin(clock * o->clock_ghz, set);
    const double lower = set > gpu->sustained_clock_ghz
                             ? (gpu->sustained_clock_ghz - gpu->pause_clock_ghz) / (set - gpu->sustained_clock_ghz)
                             : 0;
    const double busy = ghz * gpu->tensor_clock_ghz / set, pause = fmax(ghz - lower * (set - ghz), busy);
    return (pause - fmin(tensor, 1) * (pause - busy)) / set;
}

/* The share of the tensor cores' rate that a kernel uses, at the clock that is set for tables. */
static double tensor_share(double arithmetic_us, double us) { return us > 0 ? fmin(arithmetic_us / us, 1) : 0; }

/* Returns the op's cost in the pass if the user's table has it, and otherwise its cost in a forward pass. */
static struct step_cost cost_forward(const struct costs_options *o, enum step_op op, enum step_pass pass, double tokens,
                                     struct costs_rows rows, double experts)
{
    struct step_cost cost = { .occupancy = occupancy_of(op), .sms = o->sms };
    assert(op < STEP_COMPUTE_OPS && tokens >= 0 && rows.all >= 0);
    if (o->work)
        return (struct step_cost){ .us = program_work_us(o->work, op, rows.all), .sms = 1, .source = "--work" };
    tokens = fmax(tokens, 1); /* a rank without tokens launches its kernels, too */
    const bool orders = op == STEP_ORDER || op == STEP_RESTORE;
    const struct work w = work_of(o, op, orders ? rows.tokens : tokens, rows.all, experts);
    const double arithmetic_us = flops_us(o, op, &w, experts), memory_us = bytes_us(o, &w);
    cost.read_bytes = w.read_bytes;
    cost.write_bytes = w.write_bytes;
    cost.kernels = (uint32_t)w.kernels;
    cost.us = named_us(o, op, pass, tokens, rows.all, experts, cost.source);
    if (isnan(cost.us) && pass != PASS_FORWARD)
        cost.us = named_us(o, op, PASS_FORWARD, tokens, rows.all, experts, cost.source);
    const bool named = !isnan(cost.us);
    if (!named) cost.us = op_table_us(o, op, tokens, rows, experts, cost.source);
    const bool other_gpu = !isnan(cost.us) && o->gpu->tables && !strstr(cost.source, o->gpu->name);
    if (isnan(cost.us)) {
        cost.us = fmax(arithmetic_us, memory_us) + w.kernels * o->gpu->small_us;
        snprintf(cost.source, sizeof cost.source, "roofline");
    }
    if ((op == STEP_PROJECT || op == STEP_CORE) &&
        !strstr(cost.source, step_op_name(op))) { /* the time is attention's, of which this op is a part */
        const double before = project_share(o, tokens, &w), share = op == STEP_PROJECT ? before : 1 - before;
        cost.us *= share;
        cost.read_bytes *= share;
        cost.write_bytes *= share;
    }
    cost.clock_share = bound_share(arithmetic_us, memory_us);
    if (op_is_gemm_of_experts(op) && !named) cost.us *= tiles_factor(o, rows, experts, cost.clock_share);
    if (other_gpu) /* the share that memory bounds scales with the memories' rates */
        cost.us *= cost.clock_share + (1 - cost.clock_share) * o->gpu->tables_memory_gbs / o->gpu->memory_gbs;
    cost.tensor = tensor_share(arithmetic_us, cost.us);
    if (o->clock_ghz > 0) cost.us *= 1 + cost.clock_share * (o->gpu->clock_ghz / o->clock_ghz - 1);
    if (leaves_sms(o, op) && o->leave_sms && o->leave_sms < o->sms) {
        const double share = (double)(o->sms - o->leave_sms) / o->sms;
        const double longer = cost.clock_share / share + (1 - cost.clock_share) / fmin(1, share / DEVICE_BYTES_SHARE);
        cost.us *= longer;
        cost.tensor /= longer;
        cost.sms = o->sms - o->leave_sms;
    }
    return cost;
}

/* The arithmetic that a backward pass does again: latent attention's up-projections, whose outputs are not kept
 * (DeepSeek-V3 report, section 3.2.3; Megatron's recomputation of mla_up_proj). */
static double again_flops(const struct costs_options *o, double tokens)
{
    const struct net *n = o->net;
    if (!n->latent) return 0;
    return 2 * tokens * n->heads *
           ((double)n->q_rank * (n->nope_size + n->rope_size) + (double)n->kv_rank * (n->nope_size + n->value_size));
}

/* How long the op takes in the pass, relative to forward.  wgrad has no core of attention, and a scale for 128 numbers
 * of both operands of FP8.  Attention's core, which is in BF16, has five products in dgrad instead of two (the scores
 * again, and the gradients of scores, queries, keys and values), at a lower rate. */
static double pass_factor(const struct costs_options *o, enum step_op op, enum step_pass pass, double tokens)
{
    const bool fp8 = o->fp8 && op != STEP_GATE && op != STEP_HEAD;
    const double wgrad = pass == PASS_WGRAD && fp8 ? o->gpu->fp8_wgrad : 1;
    if (pass == PASS_FORWARD || op != STEP_ATTENTION) return wgrad;
    const double score = score_size(o), value = value_size(o), core = core_flops(o, tokens);
    const double gemms = attention_work(o, tokens).flops - core;
    const double rate = o->fp8 ? o->gpu->fp8_tflops : o->gpu->bf16_tflops;
    const double core_us = core / o->gpu->bf16_tflops, all_us = core_us + gemms / rate;
    const double share = core_us / all_us, again = again_flops(o, tokens) / rate / all_us;
    if (pass == PASS_WGRAD) return (1 - share) * wgrad;
    return 1 - share + again + share * (3 * score + 2 * value) / (score + value) / o->gpu->core_backward;
}

/* How many numbers the op's GEMMs read as input, not counting weights.  *out gets how many numbers they write. */
static double gemm_numbers(const struct costs_options *o, enum step_op op, double tokens, double rows, double *out)
{
    const struct net *n = o->net;
    const double heads = n->heads, size = n->head_size;
    double in = 0;
    *out = 0;
    switch (op) {
    case STEP_ATTENTION:
        if (n->latent) {
            in = tokens * (n->hidden + n->q_rank + n->kv_rank + heads * n->value_size);
            *out = tokens * (n->q_rank + n->kv_rank + n->rope_size + heads * (2.0 * n->nope_size + n->rope_size) +
                             heads * n->value_size + n->hidden);
        } else {
            in = tokens * (n->hidden + heads * size);
            *out = tokens * ((heads + 2 * n->kv_heads) * size + n->hidden);
        }
        break;
    case STEP_SHARED:
        in = tokens * (n->hidden + n->shared_inter);
        *out = tokens * (2.0 * n->shared_inter + n->hidden);
        break;
    case STEP_DENSE:
        in = tokens * (n->hidden + n->inter);
        *out = tokens * (2.0 * n->inter + n->hidden);
        break;
    case STEP_UP:
        in = rows * n->hidden;
        *out = rows * 2 * n->expert_inter;
        break;
    case STEP_DOWN:
        in = rows * n->expert_inter;
        *out = rows * n->hidden;
        break;
    default: break;
    }
    return in;
}

/* How many BF16 numbers a forward pass casts for the op's GEMMs.  Rows come to experts in FP8, and the kernel of a
 * feed-forward's gate writes FP8. */
static double cast_numbers(const struct costs_options *o, enum step_op op, double tokens)
{
    double out;
    if (op == STEP_ATTENTION) return gemm_numbers(o, op, tokens, 0, &out);
    return op == STEP_SHARED || op == STEP_DENSE ? tokens * o->net->hidden : 0;
}

/* The bytes that casts move.  A forward GEMM of FP8 needs its input cast (DeepSeek-V3 report, section 3.3.2: online). A
 * backward GEMM needs its operands cast along columns.  dgrad has one such operand, the gradients of the GEMM's output
 * (BF16).  wgrad has two: these gradients and the GEMM's input (kept in FP8). */
static struct work cast_work(const struct costs_options *o, enum step_op op, enum step_pass pass, double tokens,
                             double rows)
{
    double out;
    const double in = gemm_numbers(o, op, tokens, rows, &out);
    const double cast = cast_numbers(o, op, tokens);
    if (!o->fp8) return (struct work){ 0 };
    if (pass == PASS_FORWARD) return (struct work){ .read_bytes = 2 * cast, .write_bytes = cast };
    if (pass == PASS_DGRAD) return (struct work){ .read_bytes = 2 * out, .write_bytes = out };
    return (struct work){ .read_bytes = 2 * out + in, .write_bytes = out + in };
}

static double weights_of(const struct costs_options *o, enum step_op op, double experts)
{
    const struct net *n = o->net;
    switch (op) {
    case STEP_ATTENTION: return (double)net_attention_weights(n) / o->attention_tp;
    case STEP_SHARED: return (double)net_shared_weights(n);
    case STEP_DENSE: return (double)net_dense_weights(n);
    case STEP_UP: return 2.0 * n->hidden * n->expert_inter * experts;
    case STEP_DOWN: return (double)n->hidden * n->expert_inter * experts;
    case STEP_HEAD: return (double)n->hidden * n->vocabulary;
    default: return 0;
    }
}

/* How many numbers come out of the op's gate, which multiplies the two halves of what its first GEMM gives. */
static double gated_numbers(const struct costs_options *o, enum step_op op, double tokens, double rows)
{
    const struct net *n = o->net;
    return op == STEP_UP       ? rows * n->expert_inter
           : op == STEP_SHARED ? tokens * n->shared_inter
           : op == STEP_DENSE  ? tokens * n->inter
                               : 0;
}

/* How many numbers a pass of latent attention moves between its GEMMs and its core.  Forward rotates queries, puts keys
 * together, and takes values from between the keys, beside which a GEMM gives them.  dgrad does that again, and
 * likewise with the gradients. */
static double latent_parts(const struct costs_options *o, enum step_op op, enum step_pass pass, double tokens)
{
    const struct net *n = o->net;
    if (op != STEP_ATTENTION || !n->latent || pass == PASS_WGRAD) return 0;
    const double parts = tokens * n->heads * (2.0 * n->rope_size + n->nope_size + n->value_size);
    return pass == PASS_DGRAD ? 2 * parts : parts;
}

/* What FP8 training keeps for the backward pass (DeepSeek-V3 report, section 3.3.3): the output of attention's core
 * with 12 bits a number (E5M6), because its backward pass needs it more exactly, and what the gate of a feed-forward
 * reads, in FP8.  These are the bytes of writing it so, and of reading it back. */
static struct work kept_work(const struct costs_options *o, enum step_op op, enum step_pass pass, double tokens,
                             double rows)
{
    const double twelve_bits = op == STEP_ATTENTION && o->fp8 ? tokens * o->net->heads * value_size(o) : 0;
    const double fp8 = o->fp8 ? 2 * gated_numbers(o, op, tokens, rows) : 0;
    const double wide = 2 * (twelve_bits + fp8), narrow = 1.5 * twelve_bits + fp8;
    if (pass == PASS_FORWARD) return (struct work){ .read_bytes = wide, .write_bytes = narrow };
    if (pass == PASS_DGRAD) return (struct work){ .read_bytes = narrow, .write_bytes = wide };
    return (struct work){ 0 };
}

/* The weights that dgrad transposes.  Hopper's tensor cores read FP8 along the products' sums only (PTX, wgmma: only
 * 16-bit types can be transposed), which are a weight's columns forward and its rows in dgrad. */
static double turned_weights(const struct costs_options *o, enum step_op op, enum step_pass pass, double experts)
{
    return o->fp8 && pass == PASS_DGRAD && op != STEP_HEAD ? weights_of(o, op, experts) : 0;
}

/* The bytes that a pass of training moves besides what inference does.  wgrad adds to gradients in FP32, which it reads
 * and writes (DeepSeek-V3 report, section 3.3.3; Megatron's gradient accumulation fusion).  Attention's dgrad has two
 * small kernels around the main one (FlashAttention, hopper/flash_bwd_launch_template.h): one reads the output and its
 * gradient and clears the queries' gradient in FP32, in which the main one sums; the other makes BF16 of that. Backward
 * of a feed-forward's gate also reads the gradient, writes two, and gives its output again; norms give theirs again
 * (DeepSeek-V3 report, sections 3.2.3 and 3.3.3). */
static struct work pass_work(const struct costs_options *o, enum step_op op, enum step_pass pass, double tokens,
                             double rows, double experts)
{
    struct work w = cast_work(o, op, pass, tokens, rows);
    const struct work kept = kept_work(o, op, pass, tokens, rows);
    const double turned = turned_weights(o, op, pass, experts), parts = latent_parts(o, op, pass, tokens);
    w.read_bytes += kept.read_bytes + turned + 2 * parts;
    w.write_bytes += kept.write_bytes + turned + 2 * parts;
    if (pass == PASS_FORWARD) return w;
    if (pass == PASS_WGRAD) {
        w.read_bytes += 4 * weights_of(o, op, experts);
        w.write_bytes += 4 * weights_of(o, op, experts);
        return w;
    }
    const double gated = gated_numbers(o, op, tokens, rows), heads = op == STEP_ATTENTION ? tokens * o->net->heads : 0;
    const double norms = op == STEP_GATE ? 2 * tokens * o->net->hidden : 0;
    w.read_bytes += 2 * gated + 2 * norms + heads * (2 * 2 * value_size(o) + 4 * score_size(o));
    w.write_bytes += 4 * gated + 2 * norms + heads * (4 + 2) * score_size(o);
    return w;
}

struct step_cost costs_of(const struct costs_options *o, enum step_op op, enum step_pass pass, double tokens,
                          struct costs_rows rows, double experts)
{
    struct step_cost cost = cost_forward(o, op, pass, tokens, rows, experts);
    if (o->work) return cost;
    cost.power = power_of(o->gpu, rows, op_is_gemm_of_experts(op), cost.clock_share);
    if (pass == PASS_FORWARD && !o->train) return cost;
    g_autofree char *name = op_name(op, pass);
    const bool named = g_str_has_prefix(cost.source, "own table") && strstr(cost.source, name);
    const double factor = pass_factor(o, op, pass, fmax(tokens, 1)), us = named ? cost.us : cost.us * factor;
    const struct work more = pass_work(o, op, pass, tokens, rows.all, experts);
    cost.us = named ? us : us + bytes_us(o, &more);
    cost.clock_share *= us / cost.us;
    cost.power = power_of(o->gpu, rows, op_is_gemm_of_experts(op), cost.clock_share);
    cost.read_bytes = cost.read_bytes * factor + more.read_bytes;
    cost.write_bytes = cost.write_bytes * factor + more.write_bytes;
    return cost;
}

double costs_train_flops(const struct costs_options *o, double tokens)
{
    const struct net *n = o->net;
    const double sparse = n->layers - n->dense_layers, chosen = (double)net_experts_weights(n) / n->experts * n->topk;
    const double weights = (double)n->layers * (double)net_attention_weights(n) +
                           (double)n->dense_layers * (double)net_dense_weights(n) +
                           sparse * (chosen + (double)net_shared_weights(n) + (double)n->hidden * n->experts) +
                           (double)n->hidden * n->vocabulary;
    return 3 * (2 * tokens * weights + n->layers * core_flops(o, tokens));
}

struct step_cost costs_of_gemm(const struct costs_options *o, uint32_t experts, uint32_t rows, uint32_t k, uint32_t n)
{
    const double all_rows = (double)rows * MAX(experts, 1u);
    struct step_cost cost = { .occupancy = experts ? OCCUPANCY_SHARES : OCCUPANCY_TILES, .sms = o->sms };
    struct work w = gemm_work(o, all_rows, (double)k * n, k, n);
    w.read_bytes += ((double)MAX(experts, 1u) - 1) * k * n * bytes_of(o);
    const double arithmetic_us = flops_us(o, STEP_HEAD, &w, 0), memory_us = bytes_us(o, &w);
    g_autofree char *shape = g_strdup_printf("%ux%u", k, n);
    cost.us = table_us(o, experts ? "grouped" : "gemm", o->fp8 ? "fp8" : "bf16", shape, all_rows, MAX(experts, 1u),
                       cost.source);
    if (isnan(cost.us)) {
        cost.us = fmax(arithmetic_us, memory_us) + o->gpu->small_us;
        snprintf(cost.source, sizeof cost.source, "roofline");
    }
    cost.read_bytes = w.read_bytes;
    cost.write_bytes = w.write_bytes;
    cost.clock_share = bound_share(arithmetic_us, memory_us);
    cost.tensor = tensor_share(arithmetic_us, cost.us);
    return cost;
}

double costs_weight_bytes(const struct costs_options *o, uint32_t ranks, uint32_t experts)
{
    const struct net *n = o->net;
    const double sparse = n->layers - n->dense_layers, expert = (double)net_experts_weights(n) / n->experts;
    const double all = (double)n->layers * (double)net_attention_weights(n) / o->attention_tp +
                       (double)n->dense_layers * (double)net_dense_weights(n) +
                       sparse * ((double)net_shared_weights(n) + expert * experts / ranks);
    return all * bytes_of(o) + (double)net_head_weights(n) * 2;
}

double costs_cache_bytes(const struct costs_options *o, double tokens)
{
    const double sequences = (o->prefill ? tokens / o->context : tokens) * o->attention_tp;
    return sequences * kept_tokens(o) * o->net->layers * cached_bytes(o);
}
