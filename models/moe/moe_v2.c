/* moe_v2.c - the V2 ("elastic") kernel family (protocols.md 1.7): limits, memory map, phases, what ends a kernel, and
 * the epilogues that copy what has come and sum what came back.  Dispatch and combine stand in moe_v2_dispatch.c and
 * moe_v2_combine.c.
 *
 * Slots are in the order of tokens and rows are sorted by source, as in the deterministic variant. */
#include "models/moe/moe_v2.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REFUSE(...) return snprintf(text, text_size, __VA_ARGS__), text

static const char *v2_refuse(const struct moe_options *o, char *text, size_t text_size)
{
    const uint32_t local = o->ranks < o->ranks_per_node ? o->ranks : o->ranks_per_node;
    if (local > HT_LOCAL_MAX) REFUSE("ranks-per-node: v2 takes at most %d, found %u", HT_LOCAL_MAX, local);
    if (o->ranks / local > HT_NODES_MAX)
        REFUSE("num-ranks: v2 takes at most %d nodes, found %u", HT_NODES_MAX, o->ranks / local);
    if (o->ranks % local) REFUSE("num-ranks: expected a multiple of ranks-per-node %u, found %u", local, o->ranks);
    if (o->worst_tokens) REFUSE("worst-tokens: v2 always counts what has come");
    return ht_refuse(o, text, text_size);
}

/* meta: the source rank and token in one number, and for each node a byte of the ranks that need it.  It lies where
 * the kernels keep that number and a linked list of the top-k places. */
static void dispatch_slot(const struct moe_options *o, bool payload, struct ht_slot *s)
{
    const uint32_t nodes = o->ranks > o->ranks_per_node ? o->ranks / o->ranks_per_node : 1;
    ht_slot_dispatch(o, payload, true, s);
    s->meta_bytes = 4 + (uint32_t)moe_align(nodes, 4);
    s->scale = (uint32_t)moe_align(s->row_bytes, 16);
    s->index = s->scale + (uint32_t)moe_align(s->scale_bytes, 16);
    s->weight = s->index + 4 * s->topk;
    s->meta = s->weight + 4 * s->topk;
    const uint32_t list_bytes = 4 * (1 + s->topk);
    s->bytes = (uint32_t)moe_align(s->meta + (list_bytes > s->meta_bytes ? list_bytes : s->meta_bytes), 16);
    s->stored = payload ? s->bytes : s->meta_bytes;
    if (!payload) s->meta = 0;
}

static void combine_slot(const struct moe_options *o, bool payload, struct ht_slot *s)
{
    ht_slot_combine(o, payload, true, s);
    s->meta_bytes = 0;
    s->meta = s->index = s->weight = (uint32_t)moe_align(s->row_bytes, 16);
    s->bytes = s->weight + (uint32_t)moe_align(8 * s->topk, 16);
    s->stored = payload ? s->bytes : 0;
}

static uint32_t channels_of(const struct moe_options *o) { return o->num_sms * V2_WARPS; }

static uint64_t area_add(uint64_t *end, uint64_t slots, uint64_t stored)
{
    const uint64_t start = *end;
    *end = moe_align(start + slots * stored, 128);
    return start;
}

static void map_make(const struct moe_options *o, bool payload, struct v2_map *m)
{
    const uint32_t local = o->ranks < o->ranks_per_node ? o->ranks : o->ranks_per_node, nodes = o->ranks / local;
    const uint32_t channels = channels_of(o);
    struct ht_slot dispatch, combine;
    dispatch_slot(o, payload, &dispatch);
    combine_slot(o, payload, &combine);
    m->out_slots = (o->tokens_max + channels - 1) / channels;
    m->up_slots = nodes * m->out_slots;
    const uint64_t up = (uint64_t)local * channels * m->up_slots, out = (uint64_t)nodes * channels * m->out_slots;
    m->end = 0;
    m->up = area_add(&m->end, up, payload ? dispatch.stored : 0);
    m->combine_up = area_add(&m->end, up, combine.stored);
    if (nodes == 1) return;
    m->out_send = area_add(&m->end, o->tokens_max, dispatch.stored);
    m->out = area_add(&m->end, out, dispatch.stored);
    m->combine_out_send = area_add(&m->end, out, combine.stored);
    m->combine_out = area_add(&m->end, out, combine.stored);
}

static void v2_needs(const struct moe_options *o, bool payload, struct kernel_needs *needs)
{
    const uint32_t local = o->ranks < o->ranks_per_node ? o->ranks : o->ranks_per_node, nodes = o->ranks / local;
    const uint32_t channels = channels_of(o);
    struct v2_map map = { 0 };
    map_make(o, payload, &map);
    *needs = (struct kernel_needs){
        .heap_bytes = map.end,
        .word_count = local + nodes + 2 * channels * (local + nodes) + 1,
        .queue_count = (uint16_t)(nodes == 1 ? 1 : moe_min(channels + 1, V2_QUEUES_MAX)),
        .queue_depth = 1024,
    };
}

/* The order of each token within its channel, for each node (or rank of the only one). */
static void position_make(struct v2_rank *r)
{
    const struct ht_layout *l = &r->ht.layout;
    for (uint32_t t = 0; t < r->ht.g.tokens; t++)
        for (uint32_t i = 0; i < l->targets; i++)
            r->position[(size_t)t * l->targets + i]
                = t < r->channels ? 0 : r->position[(size_t)(t - r->channels) * l->targets + i]
                                        + (l->mask[t - r->channels] >> i & 1);
}

static struct moe_rank *v2_create(const struct moe_options *o, struct fabric *f, const struct routing *routing)
{
    struct v2_rank *r = ht_alloc(1, sizeof *r);
    r->channels = channels_of(o);
    ht_rank_init(&r->ht, o, f, routing, o->ranks > o->ranks_per_node, 1, 2 * r->channels + 2);
    ht_layout_make(&r->ht);
    dispatch_slot(o, f->payload, &r->ht.dispatch_slot);
    combine_slot(o, f->payload, &r->ht.combine_slot);
    r->up_slot = r->ht.dispatch_slot;
    if (!f->payload) r->up_slot.stored = 0;
    map_make(o, f->payload, &r->map);
    const struct ht_geometry *g = &r->ht.g;
    const uint64_t up = (uint64_t)g->local * r->channels * r->map.up_slots;
    r->position = ht_alloc((uint64_t)g->tokens * r->ht.layout.targets, sizeof r->position[0]);
    position_make(r);
    r->pass_max = r->map.up_slots;
    r->pass = ht_alloc((uint64_t)r->channels * r->pass_max, sizeof r->pass[0]);
    r->pass_count = ht_alloc(r->channels, sizeof r->pass_count[0]);
    r->up_count = ht_alloc((uint64_t)r->channels * g->local, sizeof r->up_count[0]);
    r->up_row = ht_alloc(f->payload ? up : 0, sizeof r->up_row[0]);
    r->row_slot = ht_alloc(f->payload ? up : 0, sizeof r->row_slot[0]);
    r->sender = ht_alloc(r->channels, sizeof r->sender[0]);
    r->forwarder = ht_alloc(r->channels, sizeof r->forwarder[0]);
    r->returner = ht_alloc(r->channels, sizeof r->returner[0]);
    r->merger = ht_alloc(r->channels, sizeof r->merger[0]);
    r->epilogue = ht_alloc(o->num_sms, sizeof r->epilogue[0]);
    return &r->ht.base;
}

static void v2_destroy(struct moe_rank *rank)
{
    struct v2_rank *r = (struct v2_rank *)rank;
    void *owned[] = { r->position, r->pass, r->pass_count, r->up_count, r->up_row, r->row_slot, r->sender,
                      r->forwarder, r->returner, r->merger, r->epilogue };
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) free(owned[i]);
    ht_rank_clear(&r->ht);
    free(r);
}

/* ---- what workers share -------------------------------------------------------------------------------- */

void v2_worker_add(struct v2_rank *r, struct fabric_worker *w, uint32_t channel)
{
    r->finished++;
    ht_kernel_add(&r->ht, w, channel / V2_WARPS, 1);
}

enum worker_step v2_finish(struct fabric_worker *w, const struct v2_rank *r)
{
    fabric_signal_add(w, v2_word_finished(r), 1, FABRIC_DEVICE);
    return WORKER_DONE;
}

bool v2_tell(struct fabric_worker *w, const struct v2_rank *r, uint32_t peer, uint32_t channel, uint32_t word,
             uint32_t count, bool finished, uint32_t *told)
{
    const uint32_t value = count << 1 | finished;
    if (*told == value) return true;
    if (!ht_word_send(w, &r->ht, peer, v2_queue(r, channel), word, value)) return false;
    *told = value;
    return true;
}

/* ---- gate ---------------------------------------------------------------------------------------------- */

enum { GATE_WORKERS, GATE_ARRIVED, GATE_QUIET, GATE_BARRIER, GATE_END };

static bool gate_arrived(struct v2_gate *k)
{
    const struct v2_rank *r = k->rank;
    for (; k->next < r->channels * k->from_count; k->next++) {
        const uint32_t channel = k->next / k->from_count, from = k->next % k->from_count;
        if (!(ht_word(&r->ht, v2_word(r, (enum v2_word)k->kind, channel, from)) & 1)) return false;
    }
    return true;
}

static bool gate_quiet(struct v2_gate *k)
{
    const struct v2_rank *r = k->rank;
    const uint32_t queues = r->ht.base.fabric->queue_count;
    for (; k->next < r->ht.g.nodes * queues; k->next++) {
        const uint32_t node = k->next / queues;
        if (node == r->ht.g.node) continue;
        if (fabric_flush(&k->worker, (uint16_t)v2_rail(r, node), (uint16_t)(k->next % queues))) return false;
    }
    return true;
}

static bool gate_barrier(struct v2_gate *k)
{
    const bool nvl = ht_barrier_step(&k->worker, &k->nvl, k->rank->ht.epoch);
    return ht_barrier_step(&k->worker, &k->rdma, k->rank->ht.epoch) && nvl;
}

static enum worker_step gate_step(struct fabric_worker *w)
{
    struct v2_gate *k = fabric_container_of(w, struct v2_gate, worker);
    for (; k->stage != GATE_END; k->stage++, k->next = 0) {
        bool passed = false;
        switch (k->stage) {
        case GATE_WORKERS: passed = fabric_load(w->fabric, v2_word_finished(k->rank)) == k->rank->finished; break;
        case GATE_ARRIVED: passed = gate_arrived(k); break;
        case GATE_QUIET:   passed = gate_quiet(k); break;
        default:           passed = gate_barrier(k); break;
        }
        if (!passed) return WORKER_WAIT;
    }
    return WORKER_DONE;
}

static void gate_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct v2_gate *k = fabric_container_of(w, struct v2_gate, worker);
    const struct v2_rank *r = k->rank;
    const int nvl = ht_barrier_missing(w->fabric, &k->nvl, r->ht.epoch);
    const int rdma = ht_barrier_missing(w->fabric, &k->rdma, r->ht.epoch);
    const uint32_t from = k->stage == GATE_ARRIVED ? k->next % k->from_count : 0;
    switch (k->stage) {
    case GATE_WORKERS: snprintf(text, text_size, "the end of the kernel waits for its own workers"); break;
    case GATE_ARRIVED:
        snprintf(text, text_size, "the end of the kernel waits for channel %u of rank %u", k->next / k->from_count,
                 k->kind < V2_OUT ? v2_neighbour(r, from) : v2_rail(r, from));
        break;
    case GATE_QUIET: snprintf(text, text_size, "the end of the kernel waits for its QPs to be quiet"); break;
    default: snprintf(text, text_size, "the end of the kernel waits for rank %d in a barrier", nvl >= 0 ? nvl : rdma);
    }
}

void v2_gate_launch(struct v2_rank *r, enum v2_word kind, uint32_t from_count)
{
    const struct ht_geometry *g = &r->ht.g;
    r->gate = (struct v2_gate){
        .worker = { .step = gate_step, .describe = gate_describe }, .rank = r, .kind = kind, .from_count = from_count,
        .nvl = { .word = 0, .first = (uint16_t)(g->node * g->local), .stride = 1, .count = (uint16_t)g->local,
                 .number = (uint16_t)g->self },
        .rdma = { .word = g->local, .first = (uint16_t)g->self, .stride = (uint16_t)g->local,
                  .count = (uint16_t)g->nodes, .number = (uint16_t)g->node },
    };
    ht_barrier_begin(&r->gate.nvl);
    ht_barrier_begin(&r->gate.rdma);
    ht_kernel_add(&r->ht, &r->gate.worker, 0, 1);
    fabric_watch(&r->gate.worker, 0, g->local + g->nodes);
    fabric_watch(&r->gate.worker, v2_word_finished(r), 1);
    fabric_watch(&r->gate.worker, v2_word(r, kind, 0, 0), r->channels * from_count);
}

/* ---- epilogues ----------------------------------------------------------------------------------------- */

struct arrival { uint32_t source_token, up; uint64_t offset; };

static int arrival_compare(const void *a, const void *b)
{
    const uint32_t x = ((const struct arrival *)a)->source_token, y = ((const struct arrival *)b)->source_token;
    return (x > y) - (x < y);
}

/* Where each slot's row goes: sorted by source rank and token. */
static void rows_sort(struct v2_rank *r)
{
    struct ht_rank *h = &r->ht;
    const struct ht_geometry *g = &h->g;
    const struct ht_slot *s = &r->up_slot;
    struct arrival *arrival = ht_alloc(ht_recv_rows(h), sizeof *arrival);
    uint32_t count = 0;
    for (uint32_t from = 0; from < g->local; from++)
        for (uint32_t c = 0; c < r->channels; c++)
            for (uint32_t i = 0; i < r->up_count[c * g->local + from]; i++) {
                struct arrival *a = &arrival[count++];
                a->up = v2_up_at(r, from, c) + i;
                a->offset = r->map.up + (uint64_t)a->up * s->stored;
                memcpy(&a->source_token, h->base.fabric->heap + a->offset + s->meta, sizeof a->source_token);
            }
    qsort(arrival, count, sizeof *arrival, arrival_compare);
    memset(h->recv_before, 0, sizeof h->recv_before);
    for (uint32_t row = 0; row < count; row++) {
        r->up_row[arrival[row].up] = row;
        r->row_slot[row] = arrival[row].offset;
        h->recv_before[arrival[row].source_token / h->base.options->tokens_max + 1]++;
    }
    for (uint32_t source = 0; source < g->ranks; source++) h->recv_before[source + 1] += h->recv_before[source];
    free(arrival);
}

/* After the rows: how many each expert got.  Taken from the rows themselves. */
static void experts_count(struct v2_rank *r)
{
    struct ht_rank *h = &r->ht;
    const uint32_t align = h->base.options->expert_alignment;
    memset(h->expert_counts, 0, h->g.local_experts * sizeof h->expert_counts[0]);
    for (uint32_t row = 0; row < ht_recv_rows(h); row++)
        for (uint32_t j = 0; j < h->dispatch_slot.topk; j++) {
            int32_t expert;
            memcpy(&expert, h->base.fabric->heap + r->row_slot[row] + h->dispatch_slot.index + 4 * j, sizeof expert);
            const uint32_t local = (uint32_t)expert - h->g.rank * h->g.local_experts;
            if (expert >= 0 && local < h->g.local_experts) h->expert_counts[local]++;
        }
    for (uint32_t e = 0; e < h->g.local_experts; e++)
        h->expert_counts[e] = (uint32_t)moe_align(h->expert_counts[e], align);
}

static void copy_run(void *context, uint64_t argument)
{
    const struct v2_epilogue *p = context;
    struct v2_rank *r = p->rank;
    (void)argument;
    for (uint32_t row = p->first; row < p->end; row++)
        ht_slot_unpack(&r->ht, r->ht.base.fabric->heap + r->row_slot[row], r->ht.g.rank * r->ht.g.local_experts, row);
}

/* Where the sum (or in direct mode the row) that target gave for the token has come. */
static const uint8_t *back_slot(const struct v2_rank *r, uint32_t token, uint32_t target)
{
    const uint32_t at = r->position[(size_t)token * r->ht.layout.targets + target], channel = token % r->channels;
    const uint64_t slot = v2_hybrid(r) ? v2_out_at(r, target, channel, at) : v2_up_at(r, target, channel) + at;
    const uint64_t area = v2_hybrid(r) ? r->map.combine_out : r->map.combine_up;
    return r->ht.base.fabric->heap + area + slot * r->ht.combine_slot.stored;
}

static void reduce_run(void *context, uint64_t argument)
{
    const struct v2_epilogue *p = context;
    struct ht_rank *h = &p->rank->ht;
    (void)argument;
    for (uint32_t t = p->first; t < p->end; t++) {
        const uint8_t *slot[HT_NODES_MAX];
        uint32_t count = 0;
        for (uint32_t left = h->layout.mask[t]; left; left &= left - 1)
            slot[count++] = back_slot(p->rank, t, (uint32_t)__builtin_ctz(left));
        ht_token_combine(h, t, slot, count);
    }
}

static enum worker_step epilogue_step(struct fabric_worker *w)
{
    struct v2_epilogue *p = fabric_container_of(w, struct v2_epilogue, worker);
    const struct ht_rank *h = &p->rank->ht;
    const struct ht_slot *slot = p->combine ? &h->combine_slot : &h->dispatch_slot;
    const uint32_t rows = p->end - p->first;
    uint64_t read = rows;
    if (p->combine) {
        read = (uint64_t)rows * h->base.options->bias_count;
        for (uint32_t t = p->first; t < p->end; t++) read += (uint32_t)__builtin_popcount(h->layout.mask[t]);
    }
    if (rows)
        fabric_work(w, &(struct fabric_work){
            .kind = p->combine ? FABRIC_WORK_REDUCE : FABRIC_WORK_COPY, .rows = rows, .read_bytes = read * slot->bytes,
            .write_bytes = (uint64_t)rows * slot->bytes, .run = p->combine ? reduce_run : copy_run, .context = p });
    return WORKER_DONE;
}

static void epilogue_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    snprintf(text, text_size, "epilogue on SM %u waits for nothing", w->sm);
}

static void epilogue_launch(struct v2_rank *r, bool combine)
{
    struct ht_rank *h = &r->ht;
    const uint32_t sms = h->base.options->num_sms, items = combine ? h->g.tokens : ht_recv_rows(h);
    for (uint32_t sm = 0; sm < sms; sm++) {
        struct v2_epilogue *p = &r->epilogue[sm];
        *p = (struct v2_epilogue){ .worker = { .step = epilogue_step, .describe = epilogue_describe }, .rank = r,
                                   .combine = combine };
        moe_channel_range(items, sms, sm, &p->first, &p->end);
        ht_kernel_add(h, &p->worker, sm, V2_EPILOGUE_WARPS);
    }
}

/* How many slots came is in the words that said so. */
static void copy_launch(struct v2_rank *r)
{
    struct ht_rank *h = &r->ht;
    uint32_t rows = 0;
    for (uint32_t i = 0; i < r->channels * h->g.local; i++) rows += r->up_count[i];
    h->recv_before[h->g.ranks] = rows;
    if (h->base.fabric->payload) {
        rows_sort(r);
        ht_tensors_recv(h);
        experts_count(r);
    }
    epilogue_launch(r, false);
}

/* ---- phases -------------------------------------------------------------------------------------------- */

static const char *const phase_names[] = { "dispatch", "dispatch_copy", "combine", "combine_reduce" };

static uint32_t v2_phase_count(const struct moe_options *o)
{
    (void)o;
    return sizeof phase_names / sizeof phase_names[0];
}

static const char *v2_phase_name(const struct moe_options *o, uint32_t phase)
{
    (void)o;
    return phase_names[phase];
}

/* Of the last dispatch: read before the next kernel's words replace them. */
static void up_counts_read(struct v2_rank *r)
{
    for (uint32_t c = 0; c < r->channels; c++)
        for (uint32_t from = 0; from < r->ht.g.local; from++)
            r->up_count[c * r->ht.g.local + from] = ht_word(&r->ht, v2_word(r, V2_UP, c, from)) >> 1;
}

static struct kernel_launch *v2_launch(struct moe_rank *rank, uint32_t phase)
{
    struct v2_rank *r = (struct v2_rank *)rank;
    struct ht_rank *h = &r->ht;
    if (phase == 1) up_counts_read(r);
    h->epoch++;
    h->kernel.phase = phase_names[phase];
    h->kernel.worker_count = 0;
    h->kernel.follows = phase % 2;
    h->kernel.span = phase == 1 ? "dispatch_span" : phase == 3 ? "combine_span" : NULL;
    if (phase == 0) v2_dispatch_launch(r);
    else if (phase == 1) copy_launch(r);
    else if (phase == 2) v2_combine_launch(r);
    else epilogue_launch(r, true);
    return &h->kernel;
}

static void v2_traffic(const struct moe_rank *rank, uint32_t phase, struct kernel_traffic *traffic)
{
    const struct ht_rank *h = (const struct ht_rank *)rank;
    if (phase != 0 && phase != 2) return;
    const struct ht_slot *s = phase == 0 ? &h->dispatch_slot : &h->combine_slot;
    const uint64_t row = s->row_bytes + s->scale_bytes + (uint64_t)s->topk * (phase == 0 ? 12 : 4);
    uint64_t sent = 0;
    for (uint32_t i = 0; i < h->layout.targets; i++)
        sent += h->g.nodes > 1 ? h->layout.tokens_per_node[i] : h->layout.tokens_per_rank[i];
    traffic->tokens_sent = phase == 0 ? sent : ht_recv_rows(h);
    traffic->tokens_received = phase == 0 ? ht_recv_rows(h) : sent;
    traffic->logical_rdma_bytes = h->g.nodes > 1 ? sent * row : 0;
    traffic->logical_nvl_bytes = ht_recv_rows(h) * row;
}

static double larger(double a, double b) { return a > b ? a : b; }

/* Distinct groups of groups that k of the experts fall into: G (1 - C(E - E/G, k) / C(E, k)). */
static double groups_expected(double experts, double groups, uint32_t k)
{
    double none = 1;
    for (uint32_t i = 0; i < k; i++) none *= larger(experts - experts / groups - i, 0) / (experts - i);
    return groups * (1 - none);
}

uint32_t moe_v2_sms(const struct moe_options *o, double rdma_gbs, double nvl_gbs)
{
    static const double sm_read_gbs = 200, sm_write_gbs = 50, slack = 1.25;
    const double local = moe_min(o->ranks, o->ranks_per_node), nodes = o->ranks / local;
    const double to_nodes = groups_expected(o->experts, nodes, o->topk);
    const double to_ranks = groups_expected(o->experts, o->ranks, o->topk);
    const double rdma = to_nodes * (nodes - 1) / nodes, nvl = to_ranks * (local - 1) / local;
    const double read = nodes > 1 ? 1 + to_nodes : 1, write = nodes > 1 ? 1 + to_ranks : to_ranks;
    const bool by_rdma = nodes > 1 && rdma / rdma_gbs > nvl / nvl_gbs;
    const double tokens_gbs = by_rdma ? rdma_gbs / rdma : nvl_gbs / nvl;
    const double sms = slack * larger(tokens_gbs * read / sm_read_gbs, tokens_gbs * write / sm_write_gbs);
    const uint32_t pairs = (uint32_t)(sms / 2), even = 2 * (pairs + (sms > 2 * pairs));
    return even < 4 ? 4 : even;
}

const struct moe_family moe_family_v2 = {
    .refuse = v2_refuse,
    .needs = v2_needs,
    .phase_count = v2_phase_count,
    .phase_name = v2_phase_name,
    .create = v2_create,
    .destroy = v2_destroy,
    .launch = v2_launch,
    .traffic = v2_traffic,
    .outputs = ht_outputs,
    .check = ht_check,
};
