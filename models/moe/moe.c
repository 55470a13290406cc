/* moe.c - chooses the kernel family of a job, and has what all families share: limits, recommended chunk sizes and
 * input data.  Knows no family's buffers or workers. */
#include "models/moe/formats.h"
#include "models/moe/moe_deepep.h"
#include "models/moe/moe_internal.h"

static const struct moe_family *family_of(const struct moe_options *o)
{
    switch (o->family) {
    case MOE_LOW_LATENCY: return &moe_family_ll;
    case MOE_V2: return &moe_family_v2;
    case MOE_ONE_SIDED: return &moe_family_one_sided;
    case MOE_TWO_SIDED: return &moe_family_two_sided;
    case MOE_MORI:
    case MOE_MORI_LL: return o->ranks <= o->ranks_per_node ? &moe_family_mori : &moe_family_mori_inter;
    case MOE_MEGA: return &moe_family_mega;
    case MOE_PPLX: return &moe_family_pplx;
    case MOE_NCCL_HT:
    case MOE_HYBRID_EP: return &moe_family_nccl_ht;
    case MOE_NCCL_LL: return &moe_family_nccl_ll;
    case MOE_NORMAL: break;
    }
    return o->ranks <= o->ranks_per_node ? &moe_family_intranode : &moe_family_internode;
}

const char *moe_options_refuse(const struct moe_options *o, char *text, size_t text_size)
{
    if (o->ranks == 0 || o->ranks > UINT16_MAX) KERNEL_REFUSE("num-ranks: expected 1 to 65535, found %u", o->ranks);
    if (o->ranks_per_node == 0) KERNEL_REFUSE("ranks-per-node: expected at least 1, found 0");
    if (o->ranks > o->ranks_per_node && o->ranks % o->ranks_per_node)
        KERNEL_REFUSE("num-ranks: expected a multiple of ranks-per-node %u, found %u", o->ranks_per_node, o->ranks);
    if (o->experts == 0 || o->experts % o->ranks)
        KERNEL_REFUSE("num-experts: expected a positive multiple of num-ranks %u, found %u", o->ranks, o->experts);
    if (o->topk == 0 || o->topk > o->experts)
        KERNEL_REFUSE("num-topk: expected 1 to num-experts %u, found %u", o->experts, o->topk);
    if (o->hidden == 0 || o->hidden % FORMATS_BLOCK)
        KERNEL_REFUSE("hidden: expected a positive multiple of %d, found %u", FORMATS_BLOCK, o->hidden);
    if (o->tokens_max == 0) KERNEL_REFUSE("num-tokens: expected at least 1, found 0");
    if (o->num_sms == 0) KERNEL_REFUSE("num-sms: expected at least 1, found 0");
    if (o->num_bias > 2) KERNEL_REFUSE("num-bias: expected 0 to 2, found %u", o->num_bias);
    if (o->ue8m0 && !o->round_scale) KERNEL_REFUSE("ue8m0: needs round-scale");
    const enum moe_deepep_change since = o->family == MOE_V2 ? MOE_DEEPEP_V2
                                         : o->logfmt         ? MOE_DEEPEP_LOGFMT
                                         : o->zero_copy      ? MOE_DEEPEP_ZERO_COPY
                                                             : MOE_DEEPEP_FIRST;
    if (moe_deepep_before(o->deepep, since))
        KERNEL_REFUSE("deepep: expected %s (%u) or later: since then %s; found a version of %u",
                      moe_deepep_at(since)->commit, moe_deepep_at(since)->date, moe_deepep_at(since)->what, o->deepep);
    if (o->logfmt && o->zero_copy) KERNEL_REFUSE("logfmt: rows that are turned on their way cannot be zero-copy");
    return family_of(o)->refuse(o, text, text_size);
}

/* Recommended ring and chunk sizes (PROTOCOLS.md 2).  An entry holds from the version `since` on (moe_deepep.h).  Of
 * the entries with enough ranks, the one with the fewest is taken; of several such entries, the newest.  Entries for
 * several nodes assume nodes of eight ranks.  These commits changed the sizes: 1553fc4, c8dceba, e6d61fc, 06f417d,
 * bdd119f, c939644, e02e4d2. */
static const struct {
    uint32_t ranks, since;
    struct moe_chunks dispatch, combine;
} recommended[] = {
    { 2, 0, { 6, 256, 6, 128 }, { 6, 256, 6, 128 } },
    { 2, 20250304, { 16, 256, 6, 128 }, { 6, 256, 6, 128 } },
    { 2, 20250606, { 24, 256, 6, 128 }, { 10, 256, 6, 128 } },
    { 4, 0, { 6, 256, 6, 128 }, { 6, 256, 6, 128 } },
    { 4, 20250304, { 16, 256, 6, 128 }, { 6, 256, 6, 128 } },
    { 4, 20250606, { 6, 256, 6, 128 }, { 9, 256, 6, 128 } },
    { 8, 0, { 6, 256, 6, 128 }, { 6, 256, 6, 128 } },
    { 8, 20250606, { 6, 256, 6, 128 }, { 4, 256, 6, 128 } },
    { 16, 0, { 16, 288, 20, 128 }, { 2, 288, 28, 128 } },
    { 16, 20250704, { 36, 288, 20, 128 }, { 2, 288, 28, 128 } },
    { 16, 20250710, { 36, 288, 20, 128 }, { 4, 288, 16, 128 } },
    { 16, 20250722, { 36, 288, 20, 128 }, { 4, 288, 12, 128 } },
    { 24, 0, { 8, 288, 32, 128 }, { 1, 288, 20, 128 } },
    { 24, 20250710, { 8, 288, 32, 128 }, { 1, 288, 8, 128 } },
    { 24, 20250926, { 32, 288, 8, 128 }, { 1, 288, 8, 128 } },
    { 32, 0, { 8, 288, 32, 128 }, { 1, 288, 20, 128 } },
    { 32, 20250704, { 32, 288, 32, 128 }, { 1, 288, 20, 128 } },
    { 32, 20250710, { 32, 288, 32, 128 }, { 1, 288, 8, 128 } },
    { 32, 20250922, { 32, 288, 8, 128 }, { 1, 288, 8, 128 } },
    { 64, 0, { 20, 288, 28, 128 }, { 1, 288, 20, 128 } },
    { 64, 20250922, { 32, 288, 8, 128 }, { 1, 288, 8, 128 } },
    { 96, 20250922, { 20, 480, 12, 128 }, { 1, 480, 8, 128 } },
    { 128, 0, { 20, 560, 32, 128 }, { 1, 560, 12, 128 } },
    { 128, 20250922, { 20, 560, 12, 128 }, { 1, 560, 8, 128 } },
    { 144, 0, { 32, 720, 12, 128 }, { 2, 720, 8, 128 } },
    { 160, 0, { 28, 720, 12, 128 }, { 2, 720, 8, 128 } },
};

void moe_options_recommend(struct moe_options *o)
{
    enum { ROWS = sizeof recommended / sizeof recommended[0] };
    const uint32_t ranks = o->ranks > o->ranks_per_node ? o->ranks / o->ranks_per_node * 8 : o->ranks;
    uint32_t found = ROWS - 1; /* the last entry also serves more ranks than it has */
    for (uint32_t i = ROWS; i-- > 0;) {
        if (recommended[i].ranks < ranks || (o->deepep && recommended[i].since > o->deepep)) continue;
        if (recommended[i].ranks < recommended[found].ranks) found = i;
    }
    o->dispatch = recommended[found].dispatch;
    o->combine = recommended[found].combine;
    o->dispatch.rdma_recv = (uint32_t)moe_align(o->dispatch.rdma_recv, o->dispatch.rdma_send);
    o->combine.rdma_recv = (uint32_t)moe_align(o->combine.rdma_recv, o->combine.rdma_send);
}

void moe_job_init(struct moe_job *job, const struct moe_options *options, const struct routing *routing)
{
    *job = (struct moe_job){
        .job = { .family = &family_of(options)->kernels,
                 .ranks = options->ranks,
                 .ranks_per_node = options->ranks_per_node,
                 .num_sms = options->num_sms,
                 .mask_timeout_ps = options->mask_timeout_ps },
        .options = *options,
        .routing = routing,
    };
}

/* Returns a nearly normal deviate with mean 0 and standard deviation 0.1, made from the sum of four uniform ones. */
static float input_random(uint64_t hash)
{
    const float sum =
        (float)(hash & 0xffff) + (float)(hash >> 16 & 0xffff) + (float)(hash >> 32 & 0xffff) + (float)(hash >> 48);
    return (sum / 65535.0f - 2.0f) * 0.17320508f;
}

void moe_input_row(const struct moe_options *o, uint32_t rank, uint32_t token, uint16_t *row)
{
    if (o->data == MOE_DATA_RANDOM) {
        const uint64_t base = moe_hash(o->seed ^ (uint64_t)rank << 40) + ((uint64_t)token << 20);
        for (uint32_t i = 0; i < o->hidden; i++) row[i] = format_bf16_from_f32(input_random(moe_hash(base + i)));
        return;
    }
    const float value = o->data == MOE_DATA_PATTERN ? (float)rank - 128.0f : (float)rank;
    const uint16_t bits = format_bf16_from_f32(value);
    for (uint32_t i = 0; i < o->hidden; i++) row[i] = bits;
    if (o->data != MOE_DATA_PATTERN) return;
    /* BF16 holds whole numbers exactly only up to 256.  So columns alternate between the low and the high digit
     * of the token's index in base 256.  In the public test indices are below 256. */
    for (uint32_t i = 0; i < FORMATS_BLOCK; i++) {
        const uint32_t digit = i % 2 ? token >> 8 : token & 0xff;
        row[o->hidden - FORMATS_BLOCK + i] = format_bf16_from_f32((float)digit);
    }
}
