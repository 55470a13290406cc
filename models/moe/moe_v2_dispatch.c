/* moe_v2_dispatch.c - V2 dispatch over several nodes (PROTOCOLS.md 1.7).  Each channel has a warp that sends its tokens
 * to the nodes that need them, and a warp that passes arriving tokens on to the ranks of its own node.  No warp waits
 * for a slot. */
#include "models/moe/moe_v2.h"

#include <assert.h>
#include <stdio.h>

/* ---- sender (hybrid) ----------------------------------------------------------------------------------- */

static uint8_t *send_slot(const struct v2_rank *r, uint32_t token)
{
    return r->ht.base.fabric->heap + r->map.out_send + (uint64_t)token * r->ht.dispatch_slot.stored;
}

/* Where the token's copy for this rank's own node goes.  The copy needs no network. */
static uint8_t *home_slot(const struct v2_sender *s, uint32_t token)
{
    const struct v2_rank *r = s->rank;
    const uint32_t node = r->ht.g.node, at = r->ht.layout.position[(size_t)token * r->ht.layout.targets + node];
    return r->ht.base.fabric->heap + r->map.out + v2_out_at(r, node, s->channel, at) * r->ht.dispatch_slot.stored;
}

static bool token_at_home(const struct v2_rank *r, uint32_t token)
{
    return r->ht.layout.mask[token] >> r->ht.g.node & 1;
}

static void sender_run(void *context, uint64_t token)
{
    const struct v2_sender *s = context;
    uint8_t meta[V2_META_MAX];
    v2_meta_make(s->rank, (uint32_t)token, meta);
    ht_slot_pack(&s->rank->ht, (uint32_t)token, 0, meta, send_slot(s->rank, (uint32_t)token));
    if (token_at_home(s->rank, (uint32_t)token))
        ht_slot_pack(&s->rank->ht, (uint32_t)token, 0, meta, home_slot(s, (uint32_t)token));
}

/* Copies the token through shared memory: to the send area if another node needs it, and to the area that this node
 * reads if this node needs it. */
static void token_copy(struct v2_sender *s)
{
    const struct v2_rank *r = s->rank;
    const struct ht_slot *slot = &r->ht.dispatch_slot;
    const uint32_t mask = r->ht.layout.mask[s->token], abroad = mask & ~(1u << r->ht.g.node);
    const uint32_t copies = (abroad != 0) + token_at_home(r, s->token);
    uint8_t meta[V2_META_MAX];
    s->copied = true;
    if (!mask) return;
    v2_meta_make(r, s->token, meta); /* control flow needs the meta */
    memcpy(send_slot(r, s->token) + slot->meta, meta, slot->meta_bytes);
    if (token_at_home(r, s->token)) memcpy(home_slot(s, s->token) + slot->meta, meta, slot->meta_bytes);
    v2_stage(&s->worker, SITE_V2_ROW_STAGE, &s->rank->stage[0][0], slot->row_bytes);
    fabric_work(&s->worker, &(struct fabric_work){ .kind = FABRIC_WORK_COPY,
                                                   .rows = 1,
                                                   .site = SITE_V2_STORE,
                                                   .write_bytes = (uint64_t)copies * slot->bytes,
                                                   .run = sender_run,
                                                   .context = s,
                                                   .argument = s->token });
}

/* Tells a node how many tokens have been sent to it, after every V2_OUT_EVERY tokens and at the end. */
static bool node_tell(struct v2_sender *s, uint32_t node, bool finished)
{
    const struct v2_rank *r = s->rank;
    const uint32_t word = v2_word(r, V2_OUT, s->channel, r->ht.g.node);
    if (!finished && (s->sent[node] % V2_OUT_EVERY || !s->sent[node])) return true;
    return v2_tell(&s->worker, r, ht_rail(&r->ht.g, node), s->channel, word, s->sent[node], finished, &s->told[node]);
}

/* Puts the token to one node.  The doorbell rings when the node is told, after every V2_OUT_EVERY tokens. */
static bool node_put(struct v2_sender *s, uint32_t node)
{
    const struct v2_rank *r = s->rank;
    const struct ht_slot *slot = &r->ht.dispatch_slot;
    assert(node < r->ht.g.nodes && s->token < r->ht.g.tokens && s->copied);
    if (node == r->ht.g.node) return true;
    const uint32_t at = r->ht.layout.position[(size_t)s->token * r->ht.layout.targets + node];
    const struct fabric_write write = {
        .target_offset = r->map.out + v2_out_at(r, r->ht.g.node, s->channel, at) * slot->stored,
        .charge_bytes = slot->bytes,
        .peer = ht_rail(&r->ht.g, node),
        .rows = 1,
        .queue = v2_queue(r, s->channel),
        .defer = true,
        .data = send_slot(r, s->token),
        .size_bytes = slot->stored,
    };
    return fabric_put(&s->worker, &write, NULL) == 0;
}

static enum worker_step sender_step(struct fabric_worker *w)
{
    struct v2_sender *s = fabric_container_of(w, struct v2_sender, worker);
    const struct v2_rank *r = s->rank;
    const uint32_t nodes = r->ht.g.nodes;
    const bool finished = s->token >= r->ht.g.tokens;
    if (!v2_is_open(r)) return WORKER_WAIT;
    for (uint32_t n = 0; n < nodes; n++)
        if (!node_tell(s, n, finished)) return WORKER_WAIT;
    if (finished) return v2_finish(w, r);
    if (!s->copied) token_copy(s);
    for (; s->node < nodes; s->node++) {
        if (!(r->ht.layout.mask[s->token] >> s->node & 1)) continue;
        if (!node_put(s, s->node)) return WORKER_WAIT;
        s->sent[s->node]++;
    }
    s->token += r->channels;
    s->node = 0;
    s->copied = false;
    return WORKER_MORE;
}

static void sender_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct v2_sender *s = fabric_container_of(w, struct v2_sender, worker);
    snprintf(text, text_size, "v2 sender of channel %u has no room on a queue: token %u, next rank %u", s->channel,
             s->token, ht_rail(&s->rank->ht.g, moe_min(s->node, s->rank->ht.g.nodes - 1)));
}

static const struct worker_role sender_role = { .step = sender_step, .describe = sender_describe };

static void sender_launch(struct v2_rank *r, uint32_t channel)
{
    struct v2_sender *s = &r->sender[channel];
    *s = (struct v2_sender){ .rank = r, .channel = channel, .token = channel };
    v2_worker_add(r, &s->worker, &sender_role, channel / V2_CHANNELS, 1);
}

/* ---- forwarder ----------------------------------------------------------------------------------------- */

/* How many tokens of the channel have come from the node.  *all says whether no more will come. */
static uint32_t came_from(const struct v2_forwarder *d, uint32_t node, bool *all)
{
    const struct v2_rank *r = d->rank;
    const uint32_t tail = ht_word(&r->ht, v2_word(r, V2_OUT, d->channel, node));
    *all = tail & 1;
    return tail >> 1;
}

/* The next node in rotation with tokens to pass on; -1 if there is none.  *ended says whether none will come any
 * more. */
static int forwarder_next(const struct v2_forwarder *d, bool *ended)
{
    const uint32_t nodes = d->rank->ht.g.nodes;
    *ended = true;
    for (uint32_t i = 1; i <= nodes; i++) {
        const uint32_t node = (d->node + i) % nodes;
        bool all;
        const uint32_t count = came_from(d, node, &all);
        assert(d->read[node] <= count);
        if (count > d->read[node]) {
            *ended = false;
            return (int)node;
        }
        *ended &= all;
    }
    return -1;
}

static const uint8_t *came_slot(const struct v2_forwarder *d, uint32_t sequence)
{
    const struct v2_rank *r = d->rank;
    const uint64_t slot = v2_out_at(r, d->node, d->channel, sequence);
    return r->ht.base.fabric->heap + r->map.out + slot * r->ht.dispatch_slot.stored;
}

/* The ranks of this node that need the token: bit i stands for rank i. */
static uint64_t token_bits(const struct v2_forwarder *d, uint32_t sequence)
{
    const struct ht_rank *h = &d->rank->ht;
    const uint8_t *bits = came_slot(d, sequence) + h->dispatch_slot.meta + sizeof(uint32_t) + h->g.node * h->g.groups;
    uint64_t all = 0;
    for (uint32_t i = 0; i < h->g.groups; i++) all |= (uint64_t)bits[i] << 8 * i;
    return all;
}

/* Decides which tokens of the next chunk go to which rank. */
static void forwarder_pick(struct v2_forwarder *d)
{
    struct v2_rank *r = d->rank;
    bool all;
    const uint32_t first = d->read[d->node], count = came_from(d, d->node, &all) - first;
    d->picked = moe_min(count, V2_OUT_EVERY);
    for (uint32_t i = 0; i < r->ht.g.local; i++) d->way[i].pick_tail = d->way[i].area.tail;
    for (uint32_t i = 0; i < d->picked; i++) {
        const uint64_t bits = token_bits(d, first + i);
        assert(r->pass_count[d->channel] < r->pass_max);
        assert(r->ht.g.local == V2_LOCAL_MAX || bits >> r->ht.g.local == 0);
        r->pass[(size_t)d->channel * r->pass_max + r->pass_count[d->channel]++] =
            (struct v2_pass){ .node = (uint16_t)d->node, .bits = bits, .sequence = first + i };
        for (uint64_t left = bits; left; left &= left - 1) {
            struct v2_way *way = &d->way[__builtin_ctzll(left)];
            assert(way->area.pending < V2_OUT_EVERY);
            way->pick[way->area.pending++] = first + i;
        }
    }
    v2_stage_rows(&d->worker, SITE_V2_ROW_STAGE, &d->rank->stage[0][0], d->picked,
                  (uint64_t)d->picked * r->ht.dispatch_slot.bytes);
}

static void forwarder_fill(const struct fabric_worker *w, uint32_t sequence, uint8_t *slot)
{
    const struct v2_forwarder *d = fabric_container_of(w, struct v2_forwarder, worker);
    const struct v2_rank *r = d->rank;
    const uint32_t at = d->way[d->target].pick[sequence - d->way[d->target].pick_tail];
    memcpy(slot, came_slot(d, at), r->up_slot.stored);
}

static enum worker_step forwarder_step(struct fabric_worker *w)
{
    struct v2_forwarder *d = fabric_container_of(w, struct v2_forwarder, worker);
    struct v2_rank *r = d->rank;
    const uint32_t local = r->ht.g.local, word = v2_word(r, V2_UP, d->channel, r->ht.g.self);
    bool ended = false;
    if (!v2_is_open(r)) return WORKER_WAIT;
    if (!d->picked) {
        const int node = forwarder_next(d, &ended);
        if (node >= 0) {
            d->node = (uint32_t)node;
            forwarder_pick(d);
        } else if (!ended) {
            return WORKER_WAIT;
        }
    }
    for (d->target = 0; d->target < local; d->target++)
        if (!ht_ring_write(w, &d->way[d->target].area, &r->up_slot, forwarder_fill)) return WORKER_WAIT;
    d->read[d->node] += d->picked;
    d->picked = 0;
    for (uint32_t i = 0; i < local && ended; i++)
        if (!v2_tell(w, r, ht_neighbour(&r->ht.g, i), d->channel, word, d->way[i].area.tail, true, &d->way[i].told))
            return WORKER_WAIT;
    return ended ? v2_finish(w, r) : WORKER_MORE;
}

static void forwarder_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct v2_forwarder *d = fabric_container_of(w, struct v2_forwarder, worker);
    for (uint32_t node = 0; node < d->rank->ht.g.nodes; node++) {
        bool all;
        const uint32_t count = came_from(d, node, &all);
        if (all) continue;
        snprintf(text, text_size, "v2 forwarder of channel %u waits for tokens of rank %u after %u", d->channel,
                 ht_rail(&d->rank->ht.g, node), count);
        return;
    }
    snprintf(text, text_size, "v2 forwarder of channel %u has everything", d->channel);
}

static const struct worker_role forwarder_role = { .step = forwarder_step, .describe = forwarder_describe };

static void forwarder_launch(struct v2_rank *r, uint32_t channel)
{
    const struct ht_geometry *g = &r->ht.g;
    struct v2_forwarder *d = &r->forwarder[channel];
    *d = (struct v2_forwarder){
        .rank = r, .channel = channel, .node = channel % g->nodes, .way = &r->way[channel * g->local]
    };
    for (uint32_t i = 0; i < g->local; i++)
        d->way[i] = (struct v2_way){ .area = { .site = SITE_V2_STORE,
                                               .offset = r->map.up +
                                                         (uint64_t)v2_up_at(r, g->self, channel) * r->up_slot.stored,
                                               .slots = r->map.up_slots,
                                               .peer = ht_neighbour(&r->ht.g, i) } };
    r->pass_count[channel] = 0;
    v2_worker_add(r, &d->worker, &forwarder_role, channel / V2_CHANNELS, 1);
    fabric_watch(&d->worker, v2_word(r, V2_OUT, channel, 0), g->nodes, 0);
}

void v2_dispatch_launch(struct v2_rank *r)
{
    if (r->ht.base.fabric->payload) ht_inputs_make(&r->ht);
    v2_gate_launch(r, V2_UP, r->ht.g.local);
    r->gate.worker.moment = WORKER_CLOSES;
    if (!r->ht.base.options->cached) v2_notify_launch(r);
    for (uint32_t c = 0; c < r->channels; c++) {
        sender_launch(r, c);
        forwarder_launch(r, c);
    }
}
