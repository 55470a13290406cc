/* case_routing.c - what a case means to the protocol: its routing, from a trace, a traffic matrix or the
 * generator, and its options, checked.
 *
 * Knows where routing comes from.  Knows no world and no time. */
#include "models/case_family.h"

#include <assert.h>
#include <string.h>
#include "models/cluster.h"
#include "sim/units.h"
#include "traces/edges_make.h"
#include "traces/generate.h"
#include "traces/placement.h"
#include "traces/trace.h"

bool case_refuse(GError **error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (error) *error = g_error_new_valist(CASE_ERROR, CASE_ERROR_VALUE, format, arguments);
    va_end(arguments);
    return false;
}

static bool case_is(const char *value, const char *word) { return strcmp(value, word) == 0; }

/* "4096|2048": one count a rank, each at least 1. */
static uint32_t *tokens_parse(const struct case_options *c, GError **error)
{
    g_auto(GStrv) part = g_strsplit(c->tokens_per_rank, "|", 0);
    const guint count = g_strv_length(part);
    uint32_t *tokens = g_new(uint32_t, count);
    bool good = count == c->num_ranks;
    if (!good) case_refuse(error, "tokens-per-rank: expected %u numbers divided by '|', found %u", c->num_ranks, count);
    for (guint i = 0; good && i < count; i++) {
        guint64 value = 0;
        good = g_ascii_string_to_unsigned(part[i], 10, 1, 1 << 20, &value, NULL);
        if (!good)
            case_refuse(error, "tokens-per-rank: expected whole numbers from 1 to %u, found '%s'", 1 << 20, part[i]);
        tokens[i] = (uint32_t)value;
    }
    if (good) return tokens;
    g_free(tokens);
    return NULL;
}

/* Forgets the tokens of each rank beyond its count: what a rank draws does not depend on how many follow. */
static void routing_shorten(struct routing *routing, const uint32_t *tokens)
{
    for (uint32_t r = 0; r < routing->ranks; r++) routing->rank[r].tokens = MIN(routing->rank[r].tokens, tokens[r]);
}

static bool routing_of_generator(const struct case_options *c, struct routing *routing, GError **error)
{
    uint32_t *tokens = NULL, most = c->num_tokens;
    if (c->tokens_per_rank) {
        tokens = tokens_parse(c, error);
        if (!tokens) return false;
        most = 0;
        for (uint32_t r = 0; r < c->num_ranks; r++) most = MAX(most, tokens[r]);
    }
    const struct routing_options options = {
        .ranks = c->num_ranks,
        .tokens = most,
        .topk = c->num_topk,
        .experts = c->num_experts,
        .groups = c->num_topk_groups ? MAX(c->num_ranks / c->ranks_per_node, 1) : 0,
        .topk_groups = c->num_topk_groups,
        .masked_places = c->masked_places,
        .weights = c->weights,
        .seed = c->seed,
        .distribution = c->routing,
    };
    const bool good = routing_generate(&options, routing, error);
    if (good && tokens) routing_shorten(routing, tokens);
    g_free(tokens);
    return good;
}

static bool routing_of_traffic(const struct case_options *c, struct routing *routing, GError **error)
{
    if (c->routing) return case_refuse(error, "routing: not together with traffic, which says how many go where");
    if (c->tokens_per_rank) return case_refuse(error, "tokens-per-rank: not together with traffic");
    const struct traffic_options options = {
        .matrix = c->traffic,
        .ranks = c->num_ranks,
        .tokens = c->num_tokens,
        .topk = c->num_topk,
        .experts = c->num_experts,
        .pairs = case_is(c->kernel, "ll"),
        .seed = c->seed,
    };
    return routing_from_traffic(&options, routing, error);
}

static bool routing_of_trace(const struct case_options *c, struct routing *routing, GError **error)
{
    if (c->routing || c->traffic || c->tokens_per_rank)
        return case_refuse(error, "%s: not together with trace",
                           c->routing   ? "routing"
                           : c->traffic ? "traffic"
                                        : "tokens-per-rank");
    const struct trace_options options = { .experts = c->num_experts, .weights_path = c->trace_weights };
    struct trace *trace = trace_open(c->trace, &options, error);
    if (!trace) return false;
    const uint32_t topk = trace_info(trace)->topk;
    bool good = c->num_topk == 0 || c->num_topk == topk;
    if (!good) case_refuse(error, "num-topk: expected the trace's %u or nothing, found %u", topk, c->num_topk);
    good = good && trace_read(trace, c->step, c->layer, c->num_ranks, routing, error);
    trace_close(trace);
    if (good && c->num_tokens)
        for (uint32_t r = 0; r < routing->ranks; r++)
            routing->rank[r].tokens = MIN(routing->rank[r].tokens, c->num_tokens);
    return good;
}

/* Experts where the placement puts them, judged by this routing's own load. */
static bool routing_replace_placed(const struct case_options *c, struct routing *routing, GError **error)
{
    struct routing placed;
    const bool good = routing_place(
        routing,
        &(struct routing_place_options){ .spec = c->placement, .ranks_per_node = c->ranks_per_node, .layer = c->layer },
        &placed, error);
    routing_free(routing);
    if (good) *routing = placed;
    else if (error && !g_str_has_prefix((*error)->message, "placement: ")) g_prefix_error(error, "placement: ");
    return good;
}

bool case_routing(const struct case_options *c, struct routing *routing, GError **error)
{
    struct case_options resolved;
    case_copy(&resolved, c);
    case_resolve(&resolved);
    bool good = resolved.num_ranks && resolved.num_experts % resolved.num_ranks
                    ? case_refuse(error, "num-experts: expected a multiple of num-ranks %u, found %u",
                                  resolved.num_ranks, resolved.num_experts)
                : resolved.trace   ? routing_of_trace(&resolved, routing, error)
                : resolved.traffic ? routing_of_traffic(&resolved, routing, error)
                                   : routing_of_generator(&resolved, routing, error);
    if (good && resolved.placement) good = routing_replace_placed(&resolved, routing, error);
    assert(!good || (routing->ranks && routing->topk && (!resolved.num_ranks || routing->ranks == resolved.num_ranks)));
    case_clear(&resolved);
    return good;
}

/* Of the case, or of its trace when the case takes all; 0 where the trace is none, or can be read only once. */
static uint32_t ranks_of(const struct case_options *c)
{
    struct case_options resolved;
    case_copy(&resolved, c);
    case_resolve(&resolved);
    uint32_t ranks = resolved.num_ranks;
    struct edges edges;
    if (ranks == 0 && c->matrix && edges_read(c->matrix, &edges, NULL)) {
        ranks = edges.ranks;
        edges_free(&edges);
    }
    const struct trace_options options = { .experts = c->num_experts };
    const bool traced = ranks == 0 && c->trace && !case_is(c->trace, "-");
    struct trace *trace = traced ? trace_open(c->trace, &options, NULL) : NULL;
    if (trace) {
        ranks = trace_info(trace)->ranks;
        trace_close(trace);
    }
    case_clear(&resolved);
    return ranks;
}

void case_node_settle(struct case_options *c, uint32_t gpus)
{
    if (c->ranks_per_node == 0) c->ranks_per_node = gpus ? gpus : ranks_of(c);
}

static void chunks_override(struct moe_chunks *chunks, uint32_t nvl_send, uint32_t rdma_send, uint32_t nvl_recv,
                            uint32_t rdma_recv)
{
    if (nvl_send) chunks->nvl_send = nvl_send;
    if (rdma_send) chunks->rdma_send = rdma_send;
    if (nvl_recv) chunks->nvl_recv = nvl_recv;
    if (rdma_recv) chunks->rdma_recv = rdma_recv;
    assert(chunks->nvl_send && chunks->rdma_send);                 /* moe_options_recommend() has set them */
    const uint32_t excess = chunks->rdma_recv % chunks->rdma_send; /* chunks must never wrap around */
    if (excess) chunks->rdma_recv += chunks->rdma_send - excess;
}

void case_chunks_settle(const struct case_options *c, struct moe_options *o)
{
    moe_options_recommend(o);
    chunks_override(&o->dispatch, c->nvl_chunk, c->rdma_chunk, c->nvl_buffer, c->rdma_buffer);
    chunks_override(&o->combine, c->combine_nvl_chunk, c->combine_rdma_chunk, c->combine_nvl_buffer,
                    c->combine_rdma_buffer);
}

static enum moe_kernel_family family_of(const struct case_options *c)
{
    return case_is(c->kernel, "ll") ? MOE_LOW_LATENCY : case_is(c->kernel, "v2") ? MOE_V2 : MOE_NORMAL;
}

static uint32_t tokens_most(const struct routing *routing)
{
    uint32_t most = 1; /* a kernel's buffers hold a token at least */
    for (uint32_t r = 0; r < routing->ranks; r++) most = MAX(most, routing->rank[r].tokens);
    return most;
}

enum { SMS_DEFAULT = 24 }; /* of the public tests of the normal kernels */

uint32_t case_host_sms(const struct case_options *c, uint32_t cpus) { return MAX(MAX(cpus / 2 * 2, 2), c->num_sms); }

static void options_fill(const struct case_options *c, const struct routing *routing, uint32_t device_sms,
                         struct moe_options *o)
{
    const uint32_t sms_normal = device_sms ? MIN(SMS_DEFAULT, device_sms) : SMS_DEFAULT;
    const uint32_t sms_default = case_is(c->kernel, "ll") && device_sms ? device_sms : sms_normal;
    *o = (struct moe_options){
        .family = family_of(c),
        .ranks = routing->ranks,
        .ranks_per_node = c->ranks_per_node,
        .tokens_max = tokens_most(routing),
        .hidden = c->hidden,
        .topk = routing->topk,
        .experts = routing->experts,
        .dtype = case_is(c->dtype, "fp8") ? MOE_FP8 : MOE_BF16,
        .data = case_is(c->data, "random")    ? MOE_DATA_RANDOM
                : case_is(c->data, "pattern") ? MOE_DATA_PATTERN
                                              : MOE_DATA_CONSTANT,
        .seed = c->seed,
        .round_scale = c->round_scale,
        .ue8m0 = c->ue8m0,
        .hook = c->hook,
        .logfmt = c->logfmt,
        .zero_copy = c->zero_copy,
        .expand = c->expand,
        .single_reduction = c->single_reduction,
        .hybrid_ep = c->api != NULL,
        .cached = c->cached,
        .weights = c->weights,
        .expert_alignment = c->expert_alignment,
        .worst_tokens = c->worst_tokens,
        .num_bias = c->num_bias,
        .num_sms = c->num_sms ? c->num_sms : sms_default,
        .device_sms = device_sms,
    };
    case_chunks_settle(c, o);
}

/* "1@dispatch|3@combine|5@clean", or with commas. */
static bool failures_parse(const char *text, struct moe_options *o, GError **error)
{
    static const char *const call[] = { "dispatch", "combine", "clean" };
    g_auto(GStrv) part = g_strsplit_set(text, "|,", 0);
    if (g_strv_length(part) > MOE_FAILURES_MAX)
        return case_refuse(error, "fail: expected at most %d ranks, found %u", MOE_FAILURES_MAX, g_strv_length(part));
    for (uint32_t i = 0; part[i]; i++) {
        g_auto(GStrv) side = g_strsplit(part[i], "@", 2);
        guint64 rank = 0;
        uint32_t which = 0;
        bool good = g_strv_length(side) == 2 && g_ascii_string_to_unsigned(side[0], 10, 0, UINT16_MAX, &rank, NULL);
        while (good && which < G_N_ELEMENTS(call) && !case_is(side[1], call[which])) which++;
        if (!good || which == G_N_ELEMENTS(call))
            return case_refuse(error, "fail: expected RANK@dispatch, RANK@combine or RANK@clean, found '%s'", part[i]);
        assert(o->failure_count < MOE_FAILURES_MAX);
        o->failure[o->failure_count++] = (struct moe_failure){ .rank = (uint32_t)rank, .call = (enum moe_call)which };
    }
    return true;
}

static bool masking_fill(const struct case_options *c, struct moe_options *o, GError **error)
{
    static const uint64_t most_ps = 3600 * PS_PER_S;
    uint64_t timeout_ps = 0;
    if (c->mask_timeout) {
        if (!cluster_parse_time(c->mask_timeout, &timeout_ps) || timeout_ps == 0 || timeout_ps > most_ps)
            return case_refuse(error, "mask-timeout: expected a time from 1 ps to an hour, such as 100us, found '%s'",
                               c->mask_timeout);
        o->mask_timeout_ps = timeout_ps;
    }
    return !c->fail || failures_parse(c->fail, o, error);
}

bool case_moe_options(const struct case_options *c, const struct routing *routing, uint32_t device_sms,
                      struct moe_options *options, GError **error)
{
    struct case_options resolved;
    case_copy(&resolved, c);
    case_resolve(&resolved);
    options_fill(&resolved, routing, device_sms, options);
    case_clear(&resolved);
    assert(options->tokens_max > 0 && options->num_sms > 0);
    if (!masking_fill(c, options, error)) return false;
    if (device_sms && options->num_sms > device_sms)
        return case_refuse(error, "num-sms: expected at most the GPU's %u, found %u", device_sms, options->num_sms);
    if (c->nvlink_disabled && options->family != MOE_LOW_LATENCY && !device_sms)
        return case_refuse(error, "disable-nvlink: here only the low-latency kernels go by the NIC alone");
    if (c->nvlink_disabled && options->family == MOE_V2) options->ranks_per_node = 1;
    char text[256];
    const char *refusal = moe_options_refuse(options, text, sizeof text);
    return refusal ? case_refuse(error, "%s", refusal) : true;
}
