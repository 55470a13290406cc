/* case_moe.c - the options of the MoE protocol in a case, checked.  Knows the defaults of each kernel family.  Knows no
 * world and no time. */
#include "models/case_family.h"

#include <assert.h>
#include <string.h>
#include "models/backends.h"
#include "sim/text.h"
#include "sim/units.h"

static bool case_is(const char *value, const char *word) { return strcmp(value, word) == 0; }

static void chunks_override(struct moe_chunks *chunks, uint32_t nvl_send, uint32_t rdma_send, uint32_t nvl_recv,
                            uint32_t rdma_recv)
{
    if (nvl_send) chunks->nvl_send = nvl_send;
    if (rdma_send) chunks->rdma_send = rdma_send;
    if (nvl_recv) chunks->nvl_recv = nvl_recv;
    if (rdma_recv) chunks->rdma_recv = rdma_recv;
    assert(chunks->nvl_send && chunks->rdma_send);                 /* moe_options_recommend() has set both */
    const uint32_t excess = chunks->rdma_recv % chunks->rdma_send; /* no chunk may wrap around the ring's end */
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
    return case_is(c->kernel, "ll")          ? MOE_LOW_LATENCY
           : case_is(c->kernel, "v2")        ? MOE_V2
           : case_is(c->kernel, "one-sided") ? MOE_ONE_SIDED
           : case_is(c->kernel, "two-sided") ? MOE_TWO_SIDED
           : case_is(c->kernel, "mori")      ? MOE_MORI
           : case_is(c->kernel, "mori-ll")   ? MOE_MORI_LL
           : case_is(c->kernel, "mega-moe")  ? MOE_MEGA
           : case_is(c->kernel, "pplx")      ? MOE_PPLX
           : case_is(c->kernel, "nccl-ht")   ? MOE_NCCL_HT
           : case_is(c->kernel, "nccl-ll")   ? MOE_NCCL_LL
           : case_is(c->kernel, "hybrid-ep") ? MOE_HYBRID_EP
                                             : MOE_NORMAL;
}

static uint32_t tokens_most(const struct routing *routing)
{
    uint32_t most = 1; /* a kernel's buffers hold at least one token */
    for (uint32_t r = 0; r < routing->ranks; r++) most = MAX(most, routing->rank[r].tokens);
    return most;
}

uint32_t case_host_sms(const struct case_options *c, uint32_t cpus) { return MAX(MAX(cpus / 2 * 2, 2), c->num_sms); }

/* The SMs that the kernels of a library use by default, on a GPU of `device_sms` (0: not known). */
static uint32_t sms_default(const struct case_options *c, uint32_t ranks, uint32_t device_sms)
{
    if (device_sms && (case_kernel_in(c, "ll|mega-moe|pplx|nccl-ll") || g_str_has_suffix(c->kernel, "-sided")))
        return device_sms;
    const bool hybrid_near = case_is(c->kernel, "hybrid-ep") && ranks <= c->ranks_per_node;
    const uint32_t usual = g_str_has_prefix(c->kernel, "mori")      ? CASE_SMS_MORI
                           : hybrid_near                            ? CASE_SMS_HYBRID_EP
                           : case_kernel_in(c, "nccl-ht|hybrid-ep") ? CASE_SMS_NCCL_HT
                                                                    : CASE_SMS_DEFAULT;
    return device_sms ? MIN(usual, device_sms) : usual;
}

static void options_fill(const struct case_options *c, const struct routing *routing, uint32_t device_sms,
                         struct moe_options *o)
{
    const struct transport *backend = c->backend ? backends_find(c->backend) : NULL;
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
        .flushed = g_strcmp0(c->flush, "cold") == 0,
        .expand = c->expand,
        .single_reduction = c->single_reduction,
        .direct = c->direct,
        .hybrid_ep = c->api != NULL,
        .uccl = backend && backend->uccl,
        .host_words = backend && backend->host_words,
        .cached = c->cached,
        .weights = c->weights,
        .expert_alignment = c->expert_alignment,
        .worst_tokens = c->worst_tokens,
        .num_bias = c->num_bias,
        .num_sms = c->num_sms ? c->num_sms : sms_default(c, routing->ranks, device_sms),
        .num_warps = c->num_warps,
        .rdma_sms = c->rdma_sms,
        .intermediate = c->intermediate,
        .mega_first = g_strcmp0(c->deepgemm, "2026-04") == 0,
        .device_sms = device_sms,
        .deepep = c->deepep ? case_deepep_version(c->deepep) : 0,
    };
    case_chunks_settle(c, o);
}

/* Reads planned failures of ranks, divided by '|' or ',': "1@dispatch|3@combine|5@clean". */
static bool failures_parse(const char *text, struct moe_options *o, GError **error)
{
    static const char *const call[] = { "dispatch", "combine", "clean" };
    g_auto(GStrv) part = g_strsplit_set(text, "|,", 0);
    if (g_strv_length(part) > MOE_FAILURES_MAX)
        return error_input(error, "fail: expected at most %d ranks, found %u", MOE_FAILURES_MAX, g_strv_length(part));
    for (uint32_t i = 0; part[i]; i++) {
        g_auto(GStrv) side = g_strsplit(part[i], "@", 2);
        guint64 rank = 0;
        uint32_t which = 0;
        bool good = g_strv_length(side) == 2 && text_whole(side[0], 0, UINT16_MAX, &rank);
        while (good && which < G_N_ELEMENTS(call) && !case_is(side[1], call[which])) which++;
        if (!good || which == G_N_ELEMENTS(call))
            return error_input(error, "fail: expected RANK@dispatch, RANK@combine or RANK@clean, found '%s'", part[i]);
        assert(o->failure_count < MOE_FAILURES_MAX);
        o->failure[o->failure_count++] = (struct moe_failure){ .rank = (uint32_t)rank, .call = (enum moe_call)which };
    }
    return true;
}

bool case_masking_fill(const struct case_options *c, struct moe_options *o, GError **error)
{
    static const uint64_t most_ps = 3600 * PS_PER_S;
    uint64_t timeout_ps = 0;
    if (c->mask_timeout) {
        if (!cluster_parse_time(c->mask_timeout, &timeout_ps) || timeout_ps == 0 || timeout_ps > most_ps)
            return error_input(error, "mask-timeout: expected a time from 1 ps to an hour, such as 100us, found '%s'",
                               c->mask_timeout);
        o->mask_timeout_ps = timeout_ps;
    }
    return !c->fail || failures_parse(c->fail, o, error);
}

bool case_moe_options(const struct case_options *c, const struct routing *routing, uint32_t device_sms,
                      struct moe_options *options, GError **error)
{
    const struct case_options resolved = case_resolved(c);
    options_fill(&resolved, routing, device_sms, options);
    assert(options->tokens_max > 0 && options->num_sms > 0);
    if (!case_masking_fill(c, options, error)) return false;
    if (device_sms && options->num_sms > device_sms)
        return error_input(error, "num-sms: expected at most the GPU's %u, found %u", device_sms, options->num_sms);
    const bool low_latency = options->family == MOE_LOW_LATENCY || options->family == MOE_NCCL_LL;
    if (c->nvlink_disabled && !low_latency && !device_sms)
        return error_input(error, "disable-nvlink: here only the low-latency kernels go by the NIC alone");
    if (c->nvlink_disabled && !low_latency && options->family >= MOE_ONE_SIDED && options->family != MOE_PPLX)
        return error_input(error, "disable-nvlink: %s kernels reach peers by NVLink alone here", resolved.kernel);
    if (c->nvlink_disabled && (options->family == MOE_V2 || options->family == MOE_PPLX)) options->ranks_per_node = 1;
    char text[256];
    const char *refusal = moe_options_refuse(options, text, sizeof text);
    return refusal ? error_input(error, "%s", refusal) : true;
}
