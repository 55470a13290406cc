/* moe_v2.c - the V2 ("elastic") kernel family (PROTOCOLS.md 1.7): limits, memory map, warps, phases, number of SMs.
 * Dispatch and combine in direct mode are in moe_v2_direct.c, in hybrid mode in moe_v2_dispatch.c and moe_v2_combine.c.
 * What begins and ends them is in moe_v2_gate.c, and the kernels after them are in moe_v2_epilogue.c.
 *
 * Slots are in the order of tokens, and rows are sorted by source, as in the deterministic variant. */
#include "models/moe/moe_v2.h"

#include <string.h>

/* How many ranks the kernels count as one node.  In direct mode these are all ranks, whichever links connect them. */
static uint32_t local_of(const struct moe_options *o) { return o->direct ? o->ranks : moe_local(o); }
static bool hybrid(const struct moe_options *o) { return o->ranks > local_of(o); }
/* Whether the mode is direct and NVLink does not reach all ranks. */
static bool direct_far(const struct moe_options *o) { return o->direct && o->ranks > o->ranks_per_node; }

static const char *v2_refuse(const struct moe_options *o, char *text, size_t text_size)
{
    const uint32_t local = local_of(o);
    if (hybrid(o) && local > V2_LOCAL_MAX)
        KERNEL_REFUSE("ranks-per-node: v2's hybrid kernels take at most %d (--direct: as many as there are), found %u",
                      V2_LOCAL_MAX, local);
    if (local > HT_RANKS_MAX) KERNEL_REFUSE("num-ranks: v2 takes at most %d, found %u", HT_RANKS_MAX, local);
    if (o->ranks / local > HT_NODES_MAX)
        KERNEL_REFUSE("num-ranks: v2 takes at most %d nodes, found %u", HT_NODES_MAX, o->ranks / local);
    if (o->ranks % local)
        KERNEL_REFUSE("num-ranks: expected a multiple of ranks-per-node %u, found %u", local, o->ranks);
    if (hybrid(o) && o->num_sms < 2)
        KERNEL_REFUSE("num-sms: v2 takes at least 2 over several nodes, found %u", o->num_sms);
    if (hybrid(o) && o->single_reduction) KERNEL_REFUSE("single-reduction: v2 has it within one node only here");
    if (o->expand && o->single_reduction && o->weights)
        KERNEL_REFUSE("weights: v2 carries none back where it sends the rows of all experts");
    return ht_refuse(o, text, text_size);
}

static uint32_t aligned(uint32_t size_bytes) { return (uint32_t)moe_align(size_bytes, V2_SHARED_ALIGN); }

/* Makes dispatch's slot.  It has the row, the scales, the top-k indices and weights, and meta.  Meta is the source rank
 * and token in one number, and for each node the ranks that need the token, a bit each.  In place of these bits the
 * real kernels keep a linked list of top-k places.  A cached dispatch has the meta, too. */
static void dispatch_slot(const struct moe_options *o, bool payload, struct ht_slot *s)
{
    const uint32_t local = local_of(o);
    ht_slot_dispatch(o, payload, true, s);
    s->meta_bytes = 4 + (uint32_t)moe_align(o->ranks / local * ((local + 7) / 8), 4);
    s->scale = aligned(s->row_bytes);
    s->index = s->scale + aligned(s->scale_bytes);
    s->weight = s->index + 4 * s->topk;
    s->meta = s->weight + 4 * s->topk;
    const uint32_t list_bytes = 4 * (1 + o->topk), rest_bytes = 8 * o->topk;
    s->bytes = s->index + aligned(rest_bytes + (list_bytes > s->meta_bytes ? list_bytes : s->meta_bytes));
    s->stored = payload ? s->bytes : s->meta_bytes;
    if (!payload) s->meta = 0;
}

static void combine_slot(const struct moe_options *o, bool payload, struct ht_slot *s)
{
    ht_slot_combine(o, payload, true, s);
    s->meta_bytes = 0;
    s->meta = s->index = s->weight = aligned(s->row_bytes);
    /* Hybrid kernels and puts send the whole slot.  Other kernels send the row from shared memory, and weights by
     * stores. */
    s->bytes = s->weight + (hybrid(o) || direct_far(o) ? aligned(8 * o->topk) : 4u * s->topk);
    s->stored = payload ? s->bytes : 0;
}

static uint32_t channels_of(const struct moe_options *o) { return hybrid(o) ? o->num_sms * V2_CHANNELS : 1; }

static uint64_t area_add(uint64_t *end, uint64_t slots, uint64_t stored)
{
    const uint64_t start = *end;
    *end = moe_align(start + slots * stored, 128);
    return start;
}

static void map_make(const struct moe_options *o, bool payload, struct v2_map *m)
{
    const uint32_t local = local_of(o), nodes = o->ranks / local, channels = channels_of(o);
    struct ht_slot dispatch, combine;
    dispatch_slot(o, payload, &dispatch);
    combine_slot(o, payload, &combine);
    m->out_slots = (o->tokens_max + channels - 1) / channels;
    m->up_slots = nodes * m->out_slots;
    const uint64_t up = (uint64_t)local * channels * m->up_slots, out = (uint64_t)nodes * channels * m->out_slots;
    m->end = 0;
    m->up = area_add(&m->end, up, payload ? dispatch.stored : 0);
    const uint64_t combine_up = up * (v2_sends_all(o) ? o->topk : 1);
    m->combine_up = area_add(&m->end, combine_up, combine.stored);
    if (hybrid(o) || direct_far(o)) m->out_send = area_add(&m->end, o->tokens_max, dispatch.stored);
    if (direct_far(o)) m->combine_out_send = area_add(&m->end, combine_up, combine.stored);
    if (!hybrid(o)) return;
    m->out = area_add(&m->end, out, dispatch.stored);
    m->combine_out_send = area_add(&m->end, out, combine.stored);
    m->combine_out = area_add(&m->end, out, combine.stored);
}

static void v2_needs(const struct kernel_job *job, bool payload, struct fabric_needs *needs)
{
    const struct moe_options *o = moe_options_of(job);
    const uint32_t local = local_of(o), nodes = o->ranks / local, channels = channels_of(o);
    struct v2_map map = { 0 };
    map_make(o, payload, &map);
    *needs = (struct fabric_needs){
        .heap_bytes = map.end,
        .word_count = 2 * (local + nodes) + 2 * channels * (local + nodes) + V2_PRIVATE_WORDS,
        .queue_count = (uint16_t)(direct_far(o) ? moe_min(o->num_sms, V2_DIRECT_QUEUES)
                                  : nodes == 1  ? 1
                                                : moe_min(channels + 1, V2_QUEUES_MAX)),
        .queue_depth = 1024,
    };
}

/* Numbers the tokens of each channel for each target.  Targets are nodes; with one node, ranks. */
static void position_make(struct v2_rank *r)
{
    const uint32_t targets = r->ht.layout.targets;
    memset(r->ht.layout.position, 0, (size_t)moe_min(r->channels, r->ht.g.tokens) * targets * sizeof(uint32_t));
    for (uint32_t t = r->channels; t < r->ht.g.tokens; t++) {
        uint32_t *position = &r->ht.layout.position[(size_t)t * targets];
        memcpy(position, position - (size_t)r->channels * targets, targets * sizeof *position);
        for (uint32_t i = v2_target(r, t - r->channels, 0); i < targets; i = v2_target(r, t - r->channels, i + 1))
            position[i]++;
    }
}

/* How many warps can each have a token in shared memory.  Other warps take other_bytes of that memory, and are
 * other_warps of the V2_WARPS_MAX warps. */
static uint32_t warps_of(uint32_t token_bytes, uint32_t other_bytes, uint32_t other_warps)
{
    return moe_min((MOE_SHARED_BYTES - other_bytes) / token_bytes, V2_WARPS_MAX - other_warps);
}

static void warps_make(struct v2_rank *r)
{
    const struct moe_options *o = r->ht.base.options;
    const uint32_t dispatch = r->ht.dispatch_slot.bytes + V2_SHARED_ALIGN;
    const uint32_t notify_threads = 32 * V2_NOTIFY_WARPS;
    const uint32_t counts_bytes = 4 * (uint32_t)moe_align(o->ranks + o->experts, notify_threads);
    r->dispatch_warps = o->cached ? warps_of(dispatch, 0, 0) : warps_of(dispatch, counts_bytes, V2_NOTIFY_WARPS);
    r->combine_buffer_bytes = aligned(r->ht.combine_slot.row_bytes) + aligned(8 * o->topk) + V2_SHARED_ALIGN;
    r->combine_warps = warps_of(r->combine_buffer_bytes, 0, 0);
    r->copy_warps = warps_of(dispatch, 0, 0);
    r->reduce_warps = warps_of(aligned(r->ht.combine_slot.row_bytes), 0, 0);
    for (uint32_t i = 0; i < sizeof r->stage[0] / sizeof r->stage[0][0]; i++)
        r->stage[0][i] = r->stage[1][i] = r->store[i] = (struct site_given){ .size = { i * V2_SHARED_ALIGN } };
}

/* The most workers of a kernel. */
static uint32_t worker_most(const struct moe_options *o)
{
    const uint32_t rows = hybrid(o) ? 2 * channels_of(o) : o->num_sms * V2_WARPS_MAX;
    const uint32_t most = 1 + o->num_sms + rows;
    return o->device_sms > most ? o->device_sms : most;
}

static void roles_alloc(struct v2_rank *r)
{
    const uint32_t channels = v2_hybrid(r) ? r->channels : 0, sms = r->ht.base.options->num_sms;
    ht_expand_alloc(&r->ht);
    r->way = kernel_keep(r, (uint64_t)channels * r->ht.g.local, sizeof r->way[0]);
    r->returned = kernel_keep(r, (uint64_t)channels * r->ht.g.local, sizeof r->returned[0]);
    r->sender = kernel_keep(r, channels, sizeof r->sender[0]);
    r->forwarder = kernel_keep(r, channels, sizeof r->forwarder[0]);
    r->returner = kernel_keep(r, channels, sizeof r->returner[0]);
    r->merger = kernel_keep(r, channels, sizeof r->merger[0]);
    r->warp = kernel_keep(r, v2_hybrid(r) ? 0 : (uint64_t)sms * V2_WARPS_MAX, sizeof r->warp[0]);
    r->notify = kernel_keep(r, sms, sizeof r->notify[0]);
    r->epilogue = kernel_keep(r, r->epilogue_sms, sizeof r->epilogue[0]);
}

static struct kernel_rank *v2_create(const struct kernel_job *job, struct fabric *f)
{
    const struct moe_options *o = moe_options_of(job);
    struct v2_rank *r = kernel_alloc(1, sizeof *r);
    r->channels = channels_of(o);
    ht_rank_init(&r->ht, job, f, hybrid(o), 1, worker_most(o));
    ht_layout_make(&r->ht);
    r->epilogue_sms = o->device_sms ? o->device_sms : o->num_sms;
    dispatch_slot(o, f->payload, &r->ht.dispatch_slot);
    combine_slot(o, f->payload, &r->ht.combine_slot);
    r->up_slot = r->ht.dispatch_slot;
    if (!f->payload) r->up_slot.stored = 0;
    map_make(o, f->payload, &r->map);
    warps_make(r);
    const struct ht_geometry *g = &r->ht.g;
    const uint64_t up = (uint64_t)g->local * r->channels * r->map.up_slots;
    position_make(r);
    r->pass_max = r->map.up_slots;
    r->pass = kernel_keep(r, (uint64_t)r->channels * r->pass_max, sizeof r->pass[0]);
    r->pass_count = kernel_keep(r, r->channels, sizeof r->pass_count[0]);
    r->up_count = kernel_keep(r, (uint64_t)r->channels * g->local, sizeof r->up_count[0]);
    r->up_row = kernel_keep(r, f->payload ? up : 0, sizeof r->up_row[0]);
    r->row_slot = kernel_keep(r, f->payload ? up : 0, sizeof r->row_slot[0]);
    roles_alloc(r);
    return &r->ht.base.kernel;
}

/* ---- phases -------------------------------------------------------------------------------------------- */

static const char *const phase_names[] = { "dispatch", "dispatch_copy", "combine", "combine_reduce", NULL };

/* How many slots of a channel came from a rank of the node in the preceding dispatch.  No other kernel may have been
 * launched since. */
static uint32_t up_count(const struct v2_rank *r, uint32_t channel, uint32_t from)
{
    const struct ht_rank *h = &r->ht;
    if (v2_hybrid(r)) return ht_word(h, v2_word(r, V2_UP, channel, from)) >> 1;
    if (h->base.options->cached) return h->recv_before[from + 1] - h->recv_before[from];
    return ht_word(h, v2_word_counts(r, false) + from) - 1;
}

/* Reads the counts of slots.  Must be called before the next launch, which changes the epoch of the words. */
static void up_counts_read(struct v2_rank *r)
{
    const uint32_t local = r->ht.g.local;
    for (uint32_t from = 0; from < local; from++)
        for (uint32_t c = 0; c < r->channels; c++) r->up_count[c * local + from] = up_count(r, c, from);
}

static struct kernel_launch *v2_launch(struct kernel_rank *rank, uint32_t phase)
{
    static void (*const launch[2][4])(struct v2_rank * r) = {
        { v2_direct_dispatch_launch, v2_copy_launch, v2_direct_combine_launch, v2_reduce_launch },
        { v2_dispatch_launch, v2_copy_launch, v2_combine_launch, v2_reduce_launch },
    };
    struct v2_rank *r = (struct v2_rank *)rank;
    struct ht_rank *h = &r->ht;
    if (phase == 1) up_counts_read(r);
    r->launched = phase;
    ht_kernel_begin(h, phase_names[phase]);
    h->kernel.follows = phase % 2;
    h->kernel.span = phase == 1 ? "dispatch_span" : phase == 3 ? "combine_span" : NULL;
    launch[v2_hybrid(r)][phase](r);
    return &h->kernel;
}

static void v2_traffic(const struct kernel_rank *rank, uint32_t phase, struct kernel_traffic *traffic)
{
    const struct v2_rank *r = (const struct v2_rank *)rank;
    const struct ht_rank *h = &r->ht;
    if (phase != 0 && phase != 2) return;
    const struct ht_slot *s = phase == 0 ? &h->dispatch_slot : &h->combine_slot;
    const uint64_t row = s->row_bytes + s->scale_bytes + (uint64_t)s->topk * (phase == 0 ? 12 : 4);
    const bool told = r->launched == 0; /* before the copy kernel, only the words tell how many rows came */
    uint64_t rows = told ? 0 : ht_recv_rows(h);
    for (uint32_t from = 0; told && from < h->g.local; from++)
        for (uint32_t c = 0; c < r->channels; c++) rows += up_count(r, c, from);
    const uint64_t sent = ht_traffic_tokens(h, phase == 0, rows, traffic);
    uint64_t far = 0;
    for (uint32_t i = 0; !v2_hybrid(r) && i < h->g.ranks; i++)
        if (fabric_path(h->base.fabric, (uint16_t)i) == FABRIC_RDMA) far += h->layout.tokens_per_rank[i];
    traffic->logical_rdma_bytes = (v2_hybrid(r) ? sent : far) * row;
    traffic->logical_nvl_bytes = (far ? sent - far : rows) * row;
}

static double larger(double a, double b) { return a > b ? a : b; }

/* The expected number of groups that have at least one of k experts.  With E experts in G equal groups, and C for the
 * binomial coefficient, it is G (1 - C(E - E/G, k) / C(E, k)). */
static double groups_expected(double experts, double groups, uint32_t k)
{
    double none = 1;
    for (uint32_t i = 0; i < k; i++) none *= larger(experts - experts / groups - i, 0) / (experts - i);
    return groups * (1 - none);
}

uint32_t moe_v2_sms(const struct moe_options *o, double rdma_gbs, double nvl_gbs)
{
    static const double sm_read_gbs = 200, sm_write_gbs = 50, slack = 1.25;
    const double local = moe_local(o), nodes = o->ranks / (double)local_of(o);
    const double to_nodes = groups_expected(o->experts, nodes, o->topk);
    const double to_ranks = groups_expected(o->experts, o->ranks, o->topk);
    const double rdma = to_nodes * (nodes - 1) / nodes;
    const double near = direct_far(o) ? to_ranks * local / o->ranks : to_ranks, nvl = near * (local - 1) / local;
    const double read = nodes > 1 ? 1 + to_nodes : 1;
    /* how often a token is written: to the send buffer, to the area of the rank's own node, and to ranks */
    const double write = (hybrid(o) || direct_far(o)) + (nodes > 1 ? to_nodes / nodes : 0) + near;
    const bool by_rdma = nodes > 1 && rdma / rdma_gbs > nvl / nvl_gbs;
    const double tokens_gbs = by_rdma ? rdma_gbs / rdma : nvl_gbs / nvl;
    const double sms = slack * larger(tokens_gbs * read / sm_read_gbs, tokens_gbs * write / sm_write_gbs);
    const uint32_t pairs = (uint32_t)(sms / 2), even = 2 * (pairs + (sms > 2 * pairs));
    return even < 4 ? 4 : even;
}

const struct moe_family moe_family_v2 = {
    .kernels = { .needs = v2_needs,
                 .phases = phase_names,
                 .rank_new = v2_create,
                 .launch = v2_launch,
                 .traffic = v2_traffic,
                 .outputs = ht_outputs,
                 .check = ht_check },
    .refuse = v2_refuse,
};
