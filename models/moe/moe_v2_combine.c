/* moe_v2_combine.c - V2 combine over several nodes (PROTOCOLS.md 1.7).  Each channel has a warp that takes rows back to
 * the ranks that passed them on.  On those ranks, a warp sums the rows of a token and sends the sum to the token's
 * source. */
#include "models/moe/moe_v2.h"

#include <stdio.h>

/* ---- returner ------------------------------------------------------------------------------------------ */

static void returner_fill(const struct fabric_worker *w, uint32_t sequence, uint8_t *slot)
{
    const struct v2_returner *s = fabric_container_of(w, struct v2_returner, worker);
    const uint32_t row = s->rank->up_row[v2_up_at(s->rank, s->target, s->channel) + sequence];
    if (s->rank->ht.expanded_at) ht_expanded_pack(&s->rank->ht, row, UINT32_MAX, slot);
    else ht_slot_pack_combine(&s->rank->ht, row, slot);
}

static uint32_t returner_total(const struct v2_returner *s, uint32_t target)
{
    return s->rank->up_count[s->channel * s->rank->ht.g.local + target];
}

/* Sends a few rows back to the current target, and tells it how many are written.  Then goes on to the next target. */
static enum worker_step returner_step(struct fabric_worker *w)
{
    struct v2_returner *s = fabric_container_of(w, struct v2_returner, worker);
    struct v2_rank *r = s->rank;
    const uint32_t local = r->ht.g.local, total = returner_total(s, s->target);
    struct ht_ring *area = &s->way[s->target].area;
    if (!v2_is_open(r)) return WORKER_WAIT;
    if (!area->pending && area->published == area->tail) {
        area->pending = moe_min(total - area->tail, V2_UP_EVERY);
        v2_stage_rows(w, SITE_V2_ROW_STAGE, &s->rank->stage[0][0], area->pending,
                      (uint64_t)area->pending * r->ht.combine_slot.row_bytes);
    }
    if (!ht_ring_write(w, area, &r->ht.combine_slot, returner_fill)) return WORKER_WAIT;
    if (!v2_tell(w, r, area->peer, s->channel, v2_word(r, V2_COMBINE_UP, s->channel, r->ht.g.self), area->tail,
                 area->tail == total, &s->way[s->target].told))
        return WORKER_WAIT;
    area->published = area->tail;
    for (uint32_t i = 1; i <= local; i++) {
        const uint32_t target = (s->target + i) % local;
        if (s->way[target].area.tail == returner_total(s, target) && s->way[target].told) continue;
        s->target = target;
        return WORKER_MORE;
    }
    return v2_finish(w, r);
}

static void returner_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct v2_returner *s = fabric_container_of(w, struct v2_returner, worker);
    snprintf(text, text_size, "v2 combine sender of channel %u has no room to rank %u", s->channel,
             ht_neighbour(&s->rank->ht.g, s->target));
}

static const struct worker_role returner_role = { .step = returner_step, .describe = returner_describe };

static void returner_launch(struct v2_rank *r, uint32_t channel)
{
    const struct ht_geometry *g = &r->ht.g;
    struct v2_returner *s = &r->returner[channel];
    *s = (struct v2_returner){
        .rank = r, .channel = channel, .target = (channel + g->self) % g->local, .way = &r->way[channel * g->local]
    };
    for (uint32_t i = 0; i < g->local; i++)
        s->way[i] = (struct v2_way){ .area = { .site = SITE_V2_STORE,
                                               .offset = r->map.combine_up + (uint64_t)v2_up_at(r, g->self, channel) *
                                                                                 r->ht.combine_slot.stored,
                                               .slots = r->map.up_slots,
                                               .peer = ht_neighbour(&r->ht.g, i) } };
    v2_worker_add(r, &s->worker, &returner_role, channel / V2_CHANNELS, 1);
}

/* ---- merger (hybrid) ----------------------------------------------------------------------------------- */

static const struct v2_pass *merger_pass(const struct v2_merger *m)
{
    return &m->rank->pass[(size_t)m->channel * m->rank->pass_max + m->done];
}

/* The lowest rank of the node whose row of the token has not come; -1 if all rows have come. */
static int merger_missing(const struct v2_merger *m)
{
    const struct v2_rank *r = m->rank;
    for (uint64_t left = merger_pass(m)->bits; left; left &= left - 1) {
        const uint32_t i = (uint32_t)__builtin_ctzll(left);
        struct v2_returned *from = &m->from[i];
        if (from->come > from->summed) continue;
        from->come = ht_word(&r->ht, v2_word(r, V2_COMBINE_UP, m->channel, i)) >> 1;
        if (from->come <= from->summed) return (int)i;
    }
    return -1;
}

/* Whether a rank's row is missing.  If so, the worker awaits it. */
static bool merger_awaits(struct v2_merger *m)
{
    const struct v2_rank *r = m->rank;
    const int i = merger_missing(m);
    if (i < 0) return false;
    fabric_watch(&m->worker, v2_word(r, V2_COMBINE_UP, m->channel, (uint32_t)i), 1,
                 moe_word_make(r->ht.epoch, (m->from[i].summed + 1) << 1));
    return true;
}

static uint64_t merger_slot(const struct v2_merger *m)
{
    const struct v2_rank *r = m->rank;
    const struct v2_pass *pass = merger_pass(m);
    const uint64_t area = pass->node == r->ht.g.node ? r->map.combine_out : r->map.combine_out_send;
    return area + v2_out_at(r, pass->node, m->channel, pass->sequence) * r->ht.combine_slot.stored;
}

static void merger_run(void *context, uint64_t argument)
{
    const struct v2_merger *m = context;
    const struct v2_rank *r = m->rank;
    uint8_t *heap = r->ht.base.fabric->heap;
    const uint8_t *slot[HT_TOPK_MAX];
    uint32_t count = 0;
    (void)argument;
    for (uint64_t left = merger_pass(m)->bits; left; left &= left - 1) {
        const uint32_t i = (uint32_t)__builtin_ctzll(left);
        slot[count++] = heap + r->map.combine_up +
                        (uint64_t)(v2_up_at(r, i, m->channel) + m->from[i].summed) * r->ht.combine_slot.stored;
    }
    ht_slots_reduce(&r->ht, slot, count, heap + merger_slot(m));
}

static bool merger_put(struct v2_merger *m)
{
    const struct v2_rank *r = m->rank;
    const struct v2_pass *pass = merger_pass(m);
    const struct ht_slot *slot = &r->ht.combine_slot;
    if (pass->node == r->ht.g.node) return true;
    const struct fabric_write write = {
        .target_offset = r->map.combine_out + v2_out_at(r, r->ht.g.node, m->channel, pass->sequence) * slot->stored,
        .charge_bytes = slot->bytes,
        .peer = ht_rail(&r->ht.g, pass->node),
        .queue = v2_queue(r, m->channel),
        .rows = 1,
        .defer = (m->sent[pass->node] + 1) % V2_OUT_EVERY,
        .data = r->ht.base.fabric->heap + merger_slot(m),
        .size_bytes = slot->stored,
    };
    return fabric_put(&m->worker, &write, NULL) == 0;
}

/* Waits for the puts on the channel's QP, then tells each node by one word that all its sums have been sent. */
static bool merger_end(struct v2_merger *m)
{
    const struct v2_rank *r = m->rank;
    const uint32_t word = v2_word(r, V2_COMBINE_OUT, m->channel, r->ht.g.node);
    for (; m->flushed < r->ht.g.nodes; m->flushed++)
        if (m->sent[m->flushed] && m->flushed != r->ht.g.node &&
            fabric_flush(&m->worker, ht_rail(&r->ht.g, m->flushed), v2_queue(r, m->channel)))
            return false;
    for (uint32_t n = 0; n < r->ht.g.nodes; n++)
        if (!v2_tell(&m->worker, r, ht_rail(&r->ht.g, n), m->channel, word, m->sent[n], true, &m->told[n]))
            return false;
    return true;
}

static enum worker_step merger_step(struct fabric_worker *w)
{
    struct v2_merger *m = fabric_container_of(w, struct v2_merger, worker);
    const struct v2_rank *r = m->rank;
    if (!v2_is_open(r)) return WORKER_WAIT;
    if (m->done == r->pass_count[m->channel]) return merger_end(m) ? v2_finish(w, r) : WORKER_WAIT;
    const struct v2_pass *pass = merger_pass(m);
    if (!m->reduced) {
        if (merger_awaits(m)) return WORKER_WAIT;
        const uint64_t bytes = r->ht.combine_slot.row_bytes;
        fabric_work(w, &(struct fabric_work){ .kind = FABRIC_WORK_REDUCE,
                                              .rows = 1,
                                              .site = SITE_V2_MERGE_ROW,
                                              .given = &m->rank->merge,
                                              .write_bytes = bytes,
                                              .read_bytes = (uint64_t)__builtin_popcountll(pass->bits) * bytes,
                                              .run = merger_run,
                                              .context = m });
        m->reduced = true;
    }
    if (!merger_put(m)) return WORKER_WAIT;
    for (uint64_t left = pass->bits; left; left &= left - 1) m->from[__builtin_ctzll(left)].summed++;
    m->sent[pass->node]++;
    m->done++;
    m->reduced = false;
    if (m->done < r->pass_count[m->channel]) (void)merger_awaits(m);
    return WORKER_MORE;
}

static void merger_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct v2_merger *m = fabric_container_of(w, struct v2_merger, worker);
    const int missing = m->done < m->rank->pass_count[m->channel] ? merger_missing(m) : -1;
    if (missing >= 0)
        snprintf(text, text_size, "v2 merger of channel %u waits for a row of rank %u", m->channel,
                 ht_neighbour(&m->rank->ht.g, (uint32_t)missing));
    else snprintf(text, text_size, "v2 merger of channel %u has no room on a queue", m->channel);
}

static void merger_ahead(const struct fabric_worker *w)
{
    const struct v2_merger *m = fabric_container_of(w, const struct v2_merger, worker);
    ht_lines_ahead(m, sizeof *m);
    __builtin_prefetch(merger_pass(m));
    __builtin_prefetch(m->from, 1);
    __builtin_prefetch(w->fabric->words + v2_word(m->rank, V2_COMBINE_UP, m->channel, 0));
}

static const struct worker_role merger_role = { .step = merger_step,
                                                .describe = merger_describe,
                                                .ahead = merger_ahead };

static void merger_launch(struct v2_rank *r, uint32_t channel)
{
    struct v2_merger *m = &r->merger[channel];
    *m = (struct v2_merger){ .rank = r, .channel = channel, .from = &r->returned[channel * r->ht.g.local] };
    memset(m->from, 0, r->ht.g.local * sizeof m->from[0]);
    v2_worker_add(r, &m->worker, &merger_role, channel / V2_CHANNELS, 1);
    fabric_watch(&m->worker, v2_word(r, V2_COMBINE_UP, channel, 0), r->ht.g.local, 0);
}

void v2_combine_launch(struct v2_rank *r)
{
    if (r->ht.base.fabric->payload) ht_tensors_combine(&r->ht);
    r->merge = (struct site_given){ .size = { ht_recv_rows(&r->ht) * (uint64_t)r->ht.combine_slot.bytes } };
    v2_gate_launch(r, V2_COMBINE_OUT, r->ht.g.nodes);
    for (uint32_t c = 0; c < r->channels; c++) {
        returner_launch(r, c);
        merger_launch(r, c);
    }
}
