/* moe_v2_direct.c - V2 dispatch and combine in direct mode (PROTOCOLS.md 1.7).  Any warp takes any token or row, loads
 * it into shared memory and stores it from there to every rank that needs it.  Ranks that NVLink does not reach get the
 * token or row by puts, from a copy in the send area.  There are no channels and no tails. */
#include "models/moe/moe_v2.h"

#include <stdio.h>

static enum worker_step warp_stage(struct v2_warp *p, uint64_t read_bytes)
{
    v2_stage(&p->worker, p->stage_site, p->stage, read_bytes);
    p->staged = true;
    return WORKER_MORE;
}

/* The sizes for the loop that stores a slot.  They depend on where in a line the slot begins at the peer. */
static struct site_given *slot_given(struct v2_rank *r, uint64_t slot, uint32_t slot_bytes)
{
    return &r->store[slot * slot_bytes % 128 / V2_SHARED_ALIGN];
}

/* Whether NVLink does not reach all ranks, so that some get puts. */
static bool beyond_nvlink(const struct v2_rank *r) { return r->ht.g.ranks > r->ht.base.fabric->ranks_per_node; }

/* ---- dispatch ------------------------------------------------------------------------------------------ */

static void token_fill(const void *context, uint8_t *slot)
{
    const struct v2_warp *p = context;
    uint8_t meta[V2_META_MAX];
    v2_meta_make(p->rank, p->item, meta);
    ht_slot_pack(&p->rank->ht, p->item, 0, meta, slot);
}

/* Sends a slot to the warp's target: a store from the warp's shared memory, or a put of the copy at `sent`. */
static bool slot_send(struct v2_warp *p, struct fabric_write *write, uint64_t sent)
{
    const struct fabric *f = p->worker.fabric;
    write->peer = (uint16_t)p->to;
    write->rows = 1;
    if (fabric_path(f, write->peer) == FABRIC_RDMA) {
        write->queue = p->queue;
        write->data = f->heap + sent;
        write->fill = NULL;
        return fabric_put(&p->worker, write, NULL) == 0;
    }
    write->site = SITE_V2_STORE_ALONE;
    write->data = p;
    return fabric_store(&p->worker, write) == 0;
}

/* Copies the slot from shared memory to where puts take it from. */
static void slot_copy(struct v2_warp *p, const struct ht_slot *slot, void (*run)(void *context, uint64_t argument))
{
    fabric_work(&p->worker, &(struct fabric_work){ .kind = FABRIC_WORK_COPY,
                                                   .rows = 1,
                                                   .site = SITE_V2_STORE,
                                                   .write_bytes = slot->bytes,
                                                   .run = run,
                                                   .context = p });
    p->copied = true;
}

static uint64_t token_sent(const struct v2_warp *p)
{
    return p->rank->map.out_send + (uint64_t)p->item * p->rank->up_slot.stored;
}

static void token_run(void *context, uint64_t argument)
{
    const struct v2_warp *p = context;
    (void)argument;
    token_fill(p, p->worker.fabric->heap + token_sent(p));
}

/* The rank that gets the token last: the lane of a rank's last choice stores to it, and the lanes take turns.  DeepEP's
 * tests choose by topk(sorted=False), which leaves a token's choices in ascending order but for the last one.  So the
 * other ranks are taken in ascending order.  Without a choice it is layout.targets. */
static uint32_t target_last(const struct v2_warp *p)
{
    const struct ht_rank *h = &p->rank->ht;
    const int32_t *expert = &h->base.routing->rank[h->g.rank].experts[(size_t)p->item * h->g.topk];
    for (uint32_t k = h->g.topk; k-- > 0;)
        if (expert[k] >= 0) return (uint32_t)expert[k] / h->g.local_experts;
    return h->layout.targets;
}

/* Sends the token to a rank. */
static bool token_send(struct v2_warp *p, uint32_t to)
{
    p->to = to;
    struct v2_rank *r = p->rank;
    const struct ht_slot *slot = &r->up_slot;
    const uint64_t at =
        v2_up_at(r, r->ht.g.self, 0) + r->ht.layout.position[(size_t)p->item * r->ht.layout.targets + to];
    struct fabric_write write = {
        .target_offset = r->map.up + at * slot->stored,
        .charge_bytes = slot->bytes,
        .given = slot_given(r, at, slot->bytes),
        .fill = slot->stored ? token_fill : NULL,
        .size_bytes = slot->stored,
    };
    return slot_send(p, &write, token_sent(p));
}

static enum worker_step token_step(struct fabric_worker *w)
{
    struct v2_warp *p = fabric_container_of(w, struct v2_warp, worker);
    const struct v2_rank *r = p->rank;
    if (!v2_is_open(r)) return WORKER_WAIT;
    if (p->item >= p->end) return v2_finish(w, r);
    if (!p->staged) return warp_stage(p, r->ht.dispatch_slot.row_bytes);
    if (!p->copied && beyond_nvlink(r)) slot_copy(p, &r->up_slot, token_run);
    const uint32_t last = target_last(p), all = r->ht.g.local;
    for (; p->target <= all; p->target++) {
        if (p->target < all) p->target = v2_target(r, p->item, p->target);
        const uint32_t to = p->target < all ? p->target : last;
        if (p->target != last && to < all && !token_send(p, to)) return WORKER_WAIT;
    }
    p->item += p->stride;
    p->target = 0;
    p->staged = p->copied = false;
    return WORKER_MORE;
}

/* ---- combine ------------------------------------------------------------------------------------------- */

static void row_fill(const void *context, uint8_t *slot)
{
    const struct v2_warp *p = context;
    const bool all = v2_sends_all(p->rank->ht.base.options);
    if (p->rank->ht.expanded_at) ht_expanded_pack(&p->rank->ht, p->item, all ? p->place : UINT32_MAX, slot);
    else ht_slot_pack_combine(&p->rank->ht, p->item, slot);
}

/* The place of the row among the rows for its source.  If all expanded rows go back, this is the place of the row's
 * next expanded row.  The place is the same at the source and in the send area. */
static uint64_t row_at(const struct v2_warp *p)
{
    const struct v2_rank *r = p->rank;
    const uint64_t places = v2_sends_all(r->ht.base.options) ? r->ht.g.topk : 1;
    return (uint64_t)(p->item - r->ht.recv_before[p->target]) * places + p->place;
}

static uint64_t row_sent(const struct v2_warp *p)
{
    const struct v2_rank *r = p->rank;
    const uint64_t places = v2_sends_all(r->ht.base.options) ? r->ht.g.topk : 1;
    return r->map.combine_out_send + (v2_up_at(r, p->target, 0) * places + row_at(p)) * r->ht.combine_slot.stored;
}

static void row_run(void *context, uint64_t argument)
{
    const struct v2_warp *p = context;
    (void)argument;
    row_fill(p, p->worker.fabric->heap + row_sent(p));
}

/* Loads the row into shared memory.  If the token has several rows here and they do not all go back, makes their sum
 * there. */
static enum worker_step row_stage(struct v2_warp *p)
{
    const struct v2_rank *r = p->rank;
    const uint32_t rows = ht_expanded_count(&r->ht, p->item);
    const uint64_t row_bytes = r->ht.combine_slot.row_bytes;
    if (rows == 1 || v2_sends_all(r->ht.base.options)) return warp_stage(p, row_bytes);
    fabric_work(&p->worker, &(struct fabric_work){ .kind = FABRIC_WORK_REDUCE,
                                                   .rows = 1,
                                                   .read_bytes = rows * row_bytes,
                                                   .site = SITE_V2_GATHER_ROW,
                                                   .given = &p->rank->gather[rows - 1] });
    p->staged = true;
    return WORKER_MORE;
}

static enum worker_step row_step(struct fabric_worker *w)
{
    struct v2_warp *p = fabric_container_of(w, struct v2_warp, worker);
    const struct v2_rank *r = p->rank;
    const struct ht_slot *slot = &r->ht.combine_slot;
    const bool all = v2_sends_all(r->ht.base.options);
    if (!v2_is_open(r)) return WORKER_WAIT;
    if (p->item >= p->end) return v2_finish(w, r);
    if (!p->staged) return row_stage(p);
    while (p->item >= r->ht.recv_before[p->target + 1]) p->target++;
    if (!p->copied && fabric_path(w->fabric, (uint16_t)p->target) == FABRIC_RDMA) slot_copy(p, slot, row_run);
    const uint64_t first = (uint64_t)v2_up_at(r, r->ht.g.self, 0) * (all ? r->ht.g.topk : 1);
    const uint32_t row = v2_up_at(r, r->ht.g.self, 0) + p->item - r->ht.recv_before[p->target];
    struct fabric_write write = {
        .target_offset = r->map.combine_up + (first + row_at(p)) * slot->stored,
        .charge_bytes = slot->bytes,
        .given = slot_given(p->rank, row, r->combine_buffer_bytes - V2_SHARED_ALIGN),
        .fill = slot->stored ? row_fill : NULL,
        .size_bytes = slot->stored,
    };
    p->to = p->target;
    if (!slot_send(p, &write, row_sent(p))) return WORKER_WAIT;
    p->staged = p->copied = false;
    if (all && ++p->place < ht_expanded_count(&r->ht, p->item)) return WORKER_MORE;
    p->place = 0;
    p->item++;
    return WORKER_MORE;
}

/* ---- both ---------------------------------------------------------------------------------------------- */

static void warp_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct v2_warp *p = fabric_container_of(w, struct v2_warp, worker);
    if (!v2_is_open(p->rank)) snprintf(text, text_size, "v2 warp on SM %u waits for the kernel to open", w->sm);
    else snprintf(text, text_size, "v2 warp on SM %u has no room to rank %u", w->sm, p->target);
}

static const struct worker_role row_role = { .step = row_step, .describe = warp_describe };

static const struct worker_role token_role = { .step = token_step, .describe = warp_describe };

/* The QP of a warp.  The first `first` QPs belong to the notify warps.  If there are enough other QPs, each SM has its
 * own.  Else warps take them in rotation. */
static uint16_t queue_of(const struct v2_rank *r, uint32_t sm, uint32_t warp, uint32_t warps, uint32_t first)
{
    const uint32_t queues = r->ht.base.fabric->queue_count;
    if (queues <= first) return 0;
    const uint32_t number = r->ht.base.options->num_sms <= queues - first ? sm : sm * warps + warp;
    return (uint16_t)(first + number % (queues - first));
}

/* The offset within a line at which a warp's buffer begins, in units of V2_SHARED_ALIGN. */
static uint32_t line_of(uint32_t warp, uint32_t buffer_bytes) { return warp * buffer_bytes % 128 / V2_SHARED_ALIGN; }

void v2_direct_dispatch_launch(struct v2_rank *r)
{
    const uint32_t sms = r->ht.base.options->num_sms, warps = r->dispatch_warps;
    const uint32_t buffer_bytes = r->ht.dispatch_slot.bytes + V2_SHARED_ALIGN;
    const uint8_t stage = r->ht.base.options->cached ? SITE_V2_TOKEN_STAGE_CACHED : SITE_V2_TOKEN_STAGE;
    if (r->ht.base.fabric->payload) ht_inputs_make(&r->ht);
    v2_gate_launch(r, V2_UP, 0);
    r->gate.worker.moment = WORKER_CLOSES;
    if (!r->ht.base.options->cached) v2_notify_launch(r);
    for (uint32_t i = 0; i < sms * warps; i++) {
        struct v2_warp *p = &r->warp[i];
        *p = (struct v2_warp){ .rank = r,
                               .item = i,
                               .end = r->ht.g.tokens,
                               .stride = sms * warps,
                               .queue = queue_of(r, i % sms, i / sms, warps, !r->ht.base.options->cached),
                               .stage_site = stage,
                               .stage = &r->stage[1][line_of(i / sms, buffer_bytes)] };
        v2_worker_add(r, &p->worker, &token_role, i % sms, 1);
    }
}

void v2_direct_combine_launch(struct v2_rank *r)
{
    const uint32_t sms = r->ht.base.options->num_sms, warps = r->combine_warps, rows = ht_recv_rows(&r->ht);
    const uint32_t share = (rows + sms * warps - 1) / (sms * warps);
    if (r->ht.base.fabric->payload) ht_tensors_combine(&r->ht);
    v2_gate_launch(r, V2_UP, 0);
    for (uint32_t i = 0; i < r->ht.g.topk; i++)
        r->gather[i] =
            (struct site_given){ .size = { i + 1, r->ht.g.topk, r->ht.g.ranks, r->ht.combine_slot.row_bytes } };
    for (uint32_t i = 0; i < sms * warps; i++) {
        struct v2_warp *p = &r->warp[i];
        const uint32_t warp = (i / sms + r->ht.g.self) % warps, first = moe_min((warp * sms + i % sms) * share, rows);
        *p = (struct v2_warp){ .rank = r,
                               .item = first,
                               .end = moe_min(first + share, rows),
                               .stride = 1,
                               .queue = queue_of(r, i % sms, warp, warps, 0),
                               .stage_site = SITE_V2_ROW_STAGE_ALONE,
                               .stage = &r->stage[0][line_of(warp, r->combine_buffer_bytes)] };
        v2_worker_add(r, &p->worker, &row_role, i % sms, 1);
    }
}
