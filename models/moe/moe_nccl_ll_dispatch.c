/* moe_nccl_ll_dispatch.c - dispatch of NCCL EP's low-latency kernels (PROTOCOLS.md 1.20): every token goes once to each
 * rank that has one of its experts.
 *
 * Workers are those of moe_ll_dispatch.c.  Otherwise than there, a sender's warp writes a row straight to a peer of its
 * node, and casts it on the way.  Groups tell a rank the same count once for each of its experts.  The groups that
 * receive from one source wait for all of these, and then share its tokens, or pairs of a token and a choice. */
#include <assert.h>
#include <string.h>
#include "models/moe/formats.h"
#include "models/moe/moe_nccl_ll.h"

/* ---- messages ---- */

/* A header has the token's number, then a choice each, 2 bytes or, with its weight in front, 8. */
static void header_write(const struct ll_rank *r, uint32_t token, uint8_t *header)
{
    memset(header, 0, r->nccl->header_bytes);
    memcpy(header, &token, sizeof token);
    for (uint32_t j = 0; j < r->g.topk; j++) {
        const uint16_t expert = (uint16_t)r->experts[(uint64_t)token * r->g.topk + j]; /* none: 65535 */
        const float weight = ll_weight(r, token, j);
        uint8_t *at = header + sizeof token + (uint64_t)j * (nccl_ll_expert_major(r) ? 2 : 8);
        if (!nccl_ll_expert_major(r)) {
            memcpy(at, &weight, sizeof weight);
            at += sizeof weight;
        }
        memcpy(at, &expert, sizeof expert);
    }
}

/* Reads a choice out of a header: the local expert, or -1 if it is on another rank. */
static int32_t header_expert(const struct ll_rank *r, const uint8_t *header, uint32_t place, float *weight)
{
    const uint8_t *at = header + sizeof(uint32_t) + (uint64_t)place * (nccl_ll_expert_major(r) ? 2 : 8);
    uint16_t expert;
    *weight = 0;
    if (!nccl_ll_expert_major(r)) {
        memcpy(weight, at, sizeof *weight);
        at += sizeof *weight;
    }
    memcpy(&expert, at, sizeof expert);
    const int32_t local = (int32_t)expert - (int32_t)(r->base.fabric->rank * r->g.local_experts);
    return local >= 0 && local < (int32_t)r->g.local_experts ? local : -1;
}

static uint8_t *staged(const struct ll_rank *r, uint32_t token)
{
    return r->base.fabric->heap + ll_send_offset(r) + (uint64_t)token * r->nccl->kept_bytes;
}

static const uint8_t *received(const struct ll_rank *r, uint32_t source, uint32_t slot)
{
    return r->base.fabric->heap + ll_recv_offset(r) + nccl_ll_slot(r, source, slot) * r->nccl->kept_bytes;
}

/* Writes a token's values and scales behind the header of its message. */
static void row_write(const struct ll_rank *r, uint32_t token, uint8_t *message)
{
    const uint16_t *row = r->input + (uint64_t)token * r->g.hidden;
    uint8_t *out = message + r->nccl->header_bytes;
    if (!r->g.scale_count) {
        memcpy(out, row, r->g.row_bytes);
        return;
    }
    float scale[r->g.scale_count];
    format_row_to_fp8(row, r->g.hidden, r->base.options->round_scale, out, scale);
    memcpy(out + r->g.row_bytes, scale, sizeof scale);
}

static void stage_run(void *context, uint64_t token)
{
    const struct ll_rank *r = context;
    row_write(r, (uint32_t)token, staged(r, (uint32_t)token));
}

/* The header is staged before; the row goes from the input to the peer. */
static void direct_fill(const void *data, uint8_t *target)
{
    const struct ll_sender *s = data;
    const struct ll_rank *r = s->rank;
    memcpy(target, staged(r, s->token), r->nccl->header_bytes);
    row_write(r, s->token, target);
}

static bool message_goes(const struct ll_rank *r, uint32_t token, uint32_t place)
{
    return moe_first_of_rank(&r->experts[(uint64_t)token * r->g.topk], place, r->g.local_experts);
}

/* Warps read their choices and write the header.  All cast the row if it goes to other nodes.  Then each warp looks for
 * an earlier choice on its rank, and takes a slot. */
static void message_make(struct ll_sender *s)
{
    struct ll_rank *r = s->rank;
    struct fabric_worker *w = &s->worker;
    const bool bf16 = r->base.options->dtype == MOE_BF16;
    header_write(r, s->token, staged(r, s->token));
    fabric_work(w, &(struct fabric_work){ .kind = FABRIC_WORK_SCAN, .site = SITE_NCCL_EP_LL_HEADER, .rows = 1 });
    if (!r->nccl->near)
        fabric_work(w, &(struct fabric_work){ .kind = FABRIC_WORK_CAST,
                                              .rows = w->warps,
                                              .site = bf16 ? SITE_NCCL_EP_LL_STAGE_ROW : SITE_NCCL_EP_LL_CAST_ROW,
                                              .read_bytes = 2 * r->g.hidden,
                                              .write_bytes = r->g.message_bytes - r->nccl->header_bytes,
                                              .run = stage_run,
                                              .context = r,
                                              .argument = s->token });
    fabric_work(w, &(struct fabric_work){ .kind = FABRIC_WORK_SCAN, .site = SITE_NCCL_EP_LL_SLOT_TAKE, .rows = 1 });
    if (s->token == w->sm) /* in its first round the SM finds out where the peers' memory is */
        fabric_work(w, &(struct fabric_work){ .kind = FABRIC_WORK_SCAN, .site = SITE_NCCL_EP_LL_PEERS, .rows = 1 });
}

static int message_send(struct ll_sender *s, uint32_t expert)
{
    struct ll_rank *r = s->rank;
    struct fabric *f = s->worker.fabric;
    const uint32_t peer = expert / r->g.local_experts, slot = r->slot_counter[peer];
    assert(expert < r->g.experts && slot < r->g.tokens_max); /* a token goes to a rank only once */
    struct fabric_write write = {
        .peer = (uint16_t)peer,
        .queue = (uint16_t)(slot % r->g.local_experts % r->g.queues),
        .charge_bytes = r->g.message_bytes,
        .warps = 1,
        .site = r->g.scale_count ? SITE_NCCL_EP_LL_CAST_SEND : SITE_NCCL_EP_LL_SEND,
        .given = &r->nccl->sent_row,
        .target_offset = ll_recv_offset(r) + nccl_ll_slot(r, f->rank, slot) * r->nccl->kept_bytes,
        .data = staged(r, s->token),
        .size_bytes = r->nccl->kept_bytes,
    };
    if (fabric_path(f, write.peer) == FABRIC_RDMA) return fabric_put(&s->worker, &write, NULL);
    if (f->payload) {
        write.data = s;
        write.fill = direct_fill;
    }
    return fabric_store(&s->worker, &write);
}

static void choices_count(struct ll_counter *c)
{
    if (!c->rank->own->tokens) return;
    fabric_work(&c->worker,
                &(struct fabric_work){ .kind = FABRIC_WORK_SCAN, .site = SITE_NCCL_EP_LL_CHOICES_READ, .rows = 1 });
    fabric_work(&c->worker, &(struct fabric_work){ .kind = FABRIC_WORK_SCAN,
                                                   .site = SITE_NCCL_EP_LL_CHOICES_COUNT,
                                                   .given = &c->rank->nccl->choices,
                                                   .rows = 1 });
}

/* ---- receiving ---- */

/* The items that fall to a warp of the group in a turn follow those of its other warps, and those of other groups. */
static uint32_t item_at(const struct ll_rank *r, const struct ll_receiver *v, uint32_t turn, uint32_t warp)
{
    return (turn * r->g.local_experts + v->local_expert) * r->g.warps_per_group + warp;
}

/* Takes note of a token's choice, or of the token.  Returns whether it has a row here. */
static bool item_take(struct ll_rank *r, uint32_t source, uint32_t item)
{
    struct nccl_ll *n = r->nccl;
    const uint32_t slot = item / nccl_ll_items_a_token(r);
    const uint8_t *header = received(r, source, slot);
    const uint64_t at = nccl_ll_slot(r, source, slot);
    int32_t *row = &n->row[at * r->g.topk];
    float weight;
    memcpy(&n->token[at], header, sizeof n->token[at]);
    if (nccl_ll_expert_major(r)) {
        const uint32_t place = item % r->g.topk;
        const int32_t local = header_expert(r, header, place, &weight);
        row[place] = -1;
        if (local < 0) return false;
        row[place] = (int32_t)((uint32_t)local * r->g.ranks * r->g.tokens_max + r->packed_count[local]++);
        r->range_count[(uint32_t)local * r->g.ranks + source]++;
        return true;
    }
    bool found = false;
    for (uint32_t j = 0; j < r->g.topk; j++) {
        const int32_t local = header_expert(r, header, j, &weight);
        row[j] = local >= 0 && !found ? (int32_t)at : -1;
        found |= local >= 0;
        if (!n->recv_expert) continue;
        n->recv_expert[at * r->g.topk + j] = local;
        n->recv_weight[at * r->g.topk + j] = weight;
    }
    r->range_count[source]++;
    return found;
}

static void item_copy(struct ll_rank *r, uint32_t source, uint32_t item)
{
    const struct nccl_ll *n = r->nccl;
    const uint32_t slot = item / nccl_ll_items_a_token(r);
    const uint64_t at = nccl_ll_slot(r, source, slot);
    const int32_t place = nccl_ll_expert_major(r) ? n->row[at * r->g.topk + item % r->g.topk] : (int32_t)at;
    const uint8_t *values = received(r, source, slot) + n->header_bytes;
    if (place < 0) return;
    const uint64_t row = (uint64_t)place;
    r->recv_source_token[row] = n->token[at];
    memcpy(r->recv_x + row * r->g.row_bytes, values, r->g.row_bytes);
    if (r->g.scale_count)
        memcpy(r->recv_scale + row * r->g.scale_count, values + r->g.row_bytes, 4 * (uint64_t)r->g.scale_count);
}

static void receive_run(void *context, uint64_t argument)
{
    (void)argument;
    const struct ll_receiver *v = context;
    struct ll_rank *r = ll_receiver_rank(v);
    const uint32_t items = r->nccl->came[v->source] * nccl_ll_items_a_token(r);
    for (uint32_t turn = 0; item_at(r, v, turn, 0) < items; turn++)
        for (uint32_t i = 0; i < r->g.warps_per_group && item_at(r, v, turn, i) < items; i++)
            item_copy(r, v->source, item_at(r, v, turn, i));
}

/* Receives the source's rows that fall to the group: as many warps take them as if each had as many as the busiest. */
static void items_receive(struct ll_receiver *v)
{
    struct ll_rank *r = ll_receiver_rank(v);
    const uint32_t items = r->nccl->came[v->source] * nccl_ll_items_a_token(r);
    struct nccl_ll_share share = { 0 };
    for (uint32_t turn = 0; item_at(r, v, turn, 0) < items; turn++) {
        for (uint32_t i = 0; i < r->g.warps_per_group && item_at(r, v, turn, i) < items; i++) {
            share.items[i]++;
            share.rows[i] += item_take(r, v->source, item_at(r, v, turn, i));
        }
    }
    const struct nccl_ll_work work = nccl_ll_work_of(&share);
    if (work.others)
        fabric_work(&v->worker, &(struct fabric_work){
                                    .kind = FABRIC_WORK_SCAN, .site = SITE_NCCL_EP_LL_SKIP, .rows = work.others });
    if (!work.rows) return;
    const bool pairs = nccl_ll_expert_major(r);
    const uint64_t bytes = (uint64_t)work.rows * (r->g.message_bytes - r->nccl->header_bytes);
    fabric_work(&v->worker,
                &(struct fabric_work){ .kind = FABRIC_WORK_COPY,
                                       .site = pairs ? SITE_NCCL_EP_LL_RECEIVE_PAIR : SITE_NCCL_EP_LL_RECEIVE_TOKEN,
                                       .given = &r->receive_row,
                                       .rows = work.rows,
                                       .warps = (uint16_t)work.warps,
                                       .read_bytes = bytes,
                                       .write_bytes = bytes,
                                       .run = receive_run,
                                       .context = v });
}

/* One of the group's warps waits behind what all warps of the grid look at. */
static void looks_wait(struct ll_receiver *v, enum site site, struct site_given *given)
{
    fabric_work(&v->worker,
                &(struct fabric_work){ .kind = FABRIC_WORK_SCAN, .site = site, .given = given, .rows = 1, .warps = 1 });
}

/* Waits for the group's own count, then (`looked`) until all groups of its source have theirs. */
static enum worker_step receiver_step(struct fabric_worker *w)
{
    struct ll_receiver *v = fabric_container_of(w, struct ll_receiver, worker);
    struct ll_rank *r = ll_receiver_rank(v);
    struct nccl_ll *n = r->nccl;
    if (!ll_receiver_open(v)) return v->tell || v->receive ? WORKER_WAIT : WORKER_DONE;
    if (!v->looked) {
        const uint64_t word = fabric_load(w->fabric, ll_word_count_at(r, v->local_expert, v->source));
        const uint32_t value = moe_word_value(word, r->call);
        if (!value) return WORKER_WAIT;
        assert(value - 1 <= r->g.tokens_max);
        n->came[v->source] = (uint16_t)(value - 1);
        fabric_work(w,
                    &(struct fabric_work){ .kind = FABRIC_WORK_SCAN, .site = SITE_NCCL_EP_LL_COUNT_LOOK, .rows = 1 });
        looks_wait(v, SITE_NCCL_EP_LL_ARRIVE, &n->arrive);
        fabric_signal_add(w, nccl_ll_word_arrived(r, v->source), 1, SITE_NONE);
        v->looked = true;
        return WORKER_MORE;
    }
    if (fabric_load(w->fabric, nccl_ll_word_arrived(r, v->source)) < n->arrived_target) return WORKER_WAIT;
    if (!v->arrived) {
        looks_wait(v, SITE_NCCL_EP_LL_ARRIVED, &n->arrived);
        v->arrived = true;
        return WORKER_MORE;
    }
    items_receive(v);
    return WORKER_DONE;
}

static const struct worker_role receiver_role = { .step = receiver_step,
                                                  .describe = ll_receiver_describe,
                                                  .ahead = ll_receiver_ahead };

static void receive_prepare(struct ll_rank *r)
{
    memset(r->range_count, 0, r->g.experts * sizeof r->range_count[0]);
    /* Of a token at most one message comes, however often it is read; as for moe_ll.c, as many as are sent. */
    r->receive_row.size[2] = (uint64_t)r->g.tokens_max * moe_min(r->g.topk, r->g.ranks) * r->g.message_bytes;
    r->nccl->arrived_target += r->g.local_experts;
}

static void receiver_watch(struct ll_receiver *v)
{
    const struct ll_rank *r = ll_receiver_rank(v);
    fabric_watch(&v->worker, nccl_ll_word_arrived(r, v->source), 1, r->nccl->arrived_target);
}

const struct ll_dispatch_kind nccl_ll_dispatch = {
    .kernel = SITE_NCCL_EP_LL_KERNEL,
    .grid_come = SITE_NCCL_EP_LL_GRID_COME,
    .grid_open = SITE_NCCL_EP_LL_GRID_OPEN,
    .counts_zero = SITE_NCCL_EP_LL_COUNTS_ZERO,
    .finish_lane = SITE_NCCL_EP_LL_DONE_LANE,
    .block_add = SITE_NCCL_EP_LL_BLOCK_ADD,
    .peers_again = SITE_NCCL_EP_LL_PEERS_AGAIN,
    .count_tell = SITE_NCCL_EP_LL_COUNT_TELL,
    .receiver = &receiver_role,
    .message_goes = message_goes,
    .message_make = message_make,
    .message_send = message_send,
    .choices_read = choices_count,
    .receive_prepare = receive_prepare,
    .receiver_watch = receiver_watch,
};
