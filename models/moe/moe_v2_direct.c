/* moe_v2_direct.c - V2 dispatch and combine within one node (PROTOCOLS.md 1.7): any warp takes any token or row, brings
 * it into shared memory and stores it from there to every rank that needs it.  No channels, no tails. */
#include "models/moe/moe_v2.h"

#include <stdio.h>

static enum worker_step warp_stage(struct v2_warp *p, uint64_t read_bytes)
{
    v2_stage(&p->worker, p->stage_site, p->stage, read_bytes);
    p->staged = true;
    return WORKER_MORE;
}

/* By the place in a line of a slot of an area at a peer. */
static struct fabric_given *slot_given(struct v2_rank *r, uint64_t slot, uint32_t slot_bytes)
{
    return &r->store[slot * slot_bytes % 128 / V2_SHARED_ALIGN];
}

/* ---- dispatch ------------------------------------------------------------------------------------------ */

static void token_fill(const void *context, uint8_t *slot)
{
    const struct v2_warp *p = context;
    uint8_t meta[V2_META_MAX];
    v2_meta_make(p->rank, p->item, meta);
    ht_slot_pack(&p->rank->ht, p->item, 0, meta, slot);
}

/* Stores the token to its next target, from its place in the warp's shared memory. */
static bool token_store(struct v2_warp *p)
{
    struct v2_rank *r = p->rank;
    const struct ht_slot *slot = &r->up_slot;
    const uint64_t at = v2_up_at(r, r->ht.g.self, 0) + r->position[(size_t)p->item * r->ht.layout.targets + p->target];
    const struct fabric_write write = {
        .target_offset = r->map.up + at * slot->stored,
        .charge_bytes = slot->bytes,
        .peer = (uint16_t)p->target,
        .rows = 1,
        .site = SITE_V2_STORE_ALONE,
        .given = slot_given(r, at, slot->bytes),
        .fill = slot->stored ? token_fill : NULL,
        .context = p,
        .fill_bytes = slot->stored,
    };
    return fabric_store(&p->worker, &write) == 0;
}

static enum worker_step token_step(struct fabric_worker *w)
{
    struct v2_warp *p = fabric_container_of(w, struct v2_warp, worker);
    const struct v2_rank *r = p->rank;
    if (!v2_is_open(r)) return WORKER_WAIT;
    if (p->item >= p->end) return v2_finish(w, r);
    if (!p->staged) return warp_stage(p, r->ht.dispatch_slot.row_bytes);
    for (;; p->target++) {
        p->target = v2_target(r, p->item, p->target);
        if (p->target == r->ht.g.local) break;
        if (!token_store(p)) return WORKER_WAIT;
    }
    p->item += p->stride;
    p->target = 0;
    p->staged = false;
    return WORKER_MORE;
}

/* ---- combine ------------------------------------------------------------------------------------------- */

static void row_fill(const void *context, uint8_t *slot)
{
    const struct v2_warp *p = context;
    const bool all = v2_sends_all(p->rank->ht.base.options);
    if (p->rank->expanded_at) v2_expanded_pack(p->rank, p->item, all ? p->place : UINT32_MAX, slot);
    else ht_slot_pack_combine(&p->rank->ht, p->item, slot);
}

/* If several rows of a token do not all go back, they are summed into shared memory; a single row is copied there. */
static enum worker_step row_stage(struct v2_warp *p)
{
    const struct v2_rank *r = p->rank;
    const uint32_t rows = v2_expanded_count(r, p->item);
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
    const uint32_t row = v2_up_at(r, r->ht.g.self, 0) + p->item - r->ht.recv_before[p->target];
    const uint64_t at = all ? (uint64_t)row * r->ht.g.topk + p->place : row;
    const struct fabric_write write = {
        .target_offset = r->map.combine_up + at * slot->stored,
        .charge_bytes = slot->bytes,
        .peer = (uint16_t)p->target,
        .rows = 1,
        .site = SITE_V2_STORE_ALONE,
        .given = slot_given(p->rank, row, r->combine_buffer_bytes - V2_SHARED_ALIGN),
        .fill = slot->stored ? row_fill : NULL,
        .context = p,
        .fill_bytes = slot->stored,
    };
    if (fabric_store(w, &write)) return WORKER_WAIT;
    p->staged = false;
    if (all && ++p->place < v2_expanded_count(r, p->item)) return WORKER_MORE;
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

/* The offset within a line at which a warp's buffer begins. */
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
            (struct fabric_given){ .size = { i + 1, r->ht.g.topk, r->ht.g.ranks, r->ht.combine_slot.row_bytes } };
    for (uint32_t i = 0; i < sms * warps; i++) {
        struct v2_warp *p = &r->warp[i];
        const uint32_t warp = (i / sms + r->ht.g.self) % warps, first = moe_min((warp * sms + i % sms) * share, rows);
        *p = (struct v2_warp){ .rank = r,
                               .item = first,
                               .end = moe_min(first + share, rows),
                               .stride = 1,
                               .stage_site = SITE_V2_ROW_STAGE,
                               .stage = &r->stage[0][line_of(warp, r->combine_buffer_bytes)] };
        v2_worker_add(r, &p->worker, &row_role, i % sms, 1);
    }
}
