/* moe_ll_dispatch.c - low-latency dispatch (protocols.md 1.4): every token goes once to each of its experts.
 *
 *   sender, one an SM     casts a token, then one warp a top-k place writes its message to the expert's slots
 *   counter, one an SM    once all messages of an expert are written, tells its rank how many there are
 *   receiver, one an      waits for the count, packs the messages of one source behind those that came before
 *   (expert, source)
 *
 * No flow control: each (expert, source) has a slot for every token that the source may have. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "models/moe/formats.h"
#include "models/moe/moe_ll.h"

/* Packs token's message into the send buffer: header, values, scales. */
static void cast_run(void *context, uint64_t token)
{
    struct ll_rank *r = context;
    const struct moe_options *o = r->base.options;
    uint8_t *message = r->base.fabric->heap + ll_send_offset(r) + token * r->g.message_bytes;
    const uint32_t header[4] = { (uint32_t)token };
    memcpy(message, header, sizeof header);
    const uint16_t *row = r->input + token * o->hidden;
    if (o->dtype == MOE_BF16) {
        memcpy(message + LL_HEADER_BYTES, row, r->g.row_bytes);
        return;
    }
    float scale[r->g.scale_count];
    format_row_to_fp8(row, o->hidden, o->round_scale, message + LL_HEADER_BYTES, scale);
    memcpy(message + LL_HEADER_BYTES + r->g.row_bytes, scale, sizeof scale);
}

/* Writes the token's message to one expert; -EAGAIN leaves everything as it was. */
static int message_send(struct ll_sender *s, uint32_t expert)
{
    struct ll_rank *r = s->rank;
    struct fabric *f = s->worker.fabric;
    const uint32_t slot = r->slot_counter[expert];
    const uint32_t local_expert = expert % r->g.local_experts;
    const uint64_t place = ((uint64_t)local_expert * r->g.ranks + f->rank) * r->g.tokens_max + slot;
    struct fabric_write write = {
        .peer = (uint16_t)(expert / r->g.local_experts), .queue = (uint16_t)local_expert,
        .charge_bytes = r->g.message_bytes, .warps = 1,
        .flags = (slot + 1) % LL_DOORBELL_EVERY ? FABRIC_DEFER : 0,
    };
    if (f->payload) {
        write.target_offset = ll_recv_offset(r) + place * r->g.message_bytes;
        write.span_count = 1;
        write.span[0] = (struct fabric_span){ f->heap + ll_send_offset(r) + (uint64_t)s->token * r->g.message_bytes,
                                              r->g.message_bytes };
    }
    const int rc = fabric_path(f, write.peer) == FABRIC_RDMA ? fabric_put(&s->worker, &write)
                                                              : fabric_store(&s->worker, &write);
    if (rc) return rc;
    r->slot_counter[expert]++;
    fabric_signal_add(&s->worker, ll_word_finish(r, expert), 1, FABRIC_DEVICE);
    return 0;
}

static enum worker_step sender_step(struct fabric_worker *w)
{
    struct ll_sender *s = fabric_container_of(w, struct ll_sender, worker);
    struct ll_rank *r = s->rank;
    if (s->token < r->own->tokens) {
        if (!s->cast) {
            fabric_work(w, &(struct fabric_work){ .kind = FABRIC_WORK_CAST, .rows = 1, .read_bytes = 2 * r->g.hidden,
                .write_bytes = r->g.message_bytes, .run = cast_run, .context = r, .argument = s->token });
            s->cast = true;
        }
        const int32_t *experts = &r->experts[(uint64_t)s->token * r->g.topk];
        for (; s->place < r->g.topk; s->place++) {
            if (experts[s->place] == ROUTING_NONE) continue;
            const int rc = message_send(s, (uint32_t)experts[s->place]);
            if (rc == -EAGAIN) return WORKER_WAIT;
            assert(rc == 0);
        }
        s->token += r->g.grid;
        s->place = 0;
        s->cast = false;
        if (s->token < r->own->tokens) return WORKER_MORE;
    }
    fabric_signal_add(w, ll_word_gate(r), 1, FABRIC_DEVICE);
    return WORKER_DONE;
}

static void sender_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct ll_sender *s = fabric_container_of(w, struct ll_sender, worker);
    const struct ll_rank *r = s->rank;
    const int32_t expert = s->token < r->own->tokens && s->place < r->g.topk
                               ? r->experts[(uint64_t)s->token * r->g.topk + s->place] : ROUTING_NONE;
    snprintf(text, text_size, "dispatch sender %u has no room on the queue to rank %d", s->worker.sm,
             expert == ROUTING_NONE ? -1 : expert / (int32_t)r->g.local_experts);
}

static enum worker_step counter_step(struct fabric_worker *w)
{
    struct ll_counter *c = fabric_container_of(w, struct ll_counter, worker);
    struct ll_rank *r = c->rank;
    if (!c->scanned) {
        const uint64_t index_bytes = (uint64_t)r->own->tokens * r->g.topk * sizeof(int64_t);
        fabric_work(w, &(struct fabric_work){ .kind = FABRIC_WORK_SCAN, .rows = 0, .read_bytes = index_bytes });
        c->scanned = true;
        return WORKER_MORE;
    }
    for (; c->expert < c->expert_end; c->expert++) {
        const uint32_t e = c->expert;
        if (ll_masks(r, e / r->g.local_experts)) continue;
        if (fabric_load(w->fabric, ll_word_finish(r, e)) < r->finish_target[e]) return WORKER_WAIT;
        const struct fabric_signal signal = {
            .peer = (uint16_t)(e / r->g.local_experts), .queue = (uint16_t)(e % r->g.local_experts),
            .word = ll_word_count_at(r, e % r->g.local_experts, w->fabric->rank),
            .value = moe_word_make(r->call, r->slot_counter[e] + 1),
        };
        const int rc = fabric_signal(w, &signal);
        if (rc == -EAGAIN) return WORKER_WAIT;
        assert(rc == 0);
    }
    fabric_signal_add(w, ll_word_gate(r), 1, FABRIC_DEVICE);
    return WORKER_DONE;
}

static void counter_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct ll_counter *c = fabric_container_of(w, struct ll_counter, worker);
    snprintf(text, text_size, "dispatch counter waits to tell rank %u the count of expert %u",
             c->expert / c->rank->g.local_experts, c->expert);
}

/* Unpacks one source's messages of one expert behind those packed before. */
static void receive_run(void *context, uint64_t argument)
{
    (void)argument;
    const struct ll_receiver *v = context;
    struct ll_rank *r = v->rank;
    const struct ll_range range = r->range[v->local_expert * r->g.ranks + v->source];
    const uint8_t *message = r->base.fabric->heap + ll_recv_offset(r)
        + ((uint64_t)v->local_expert * r->g.ranks + v->source) * r->g.tokens_max * r->g.message_bytes;
    for (uint32_t i = 0; i < range.count; i++, message += r->g.message_bytes) {
        const uint64_t row = (uint64_t)v->local_expert * r->g.ranks * r->g.tokens_max + range.begin + i;
        memcpy(&r->recv_source_token[row], message, sizeof(uint32_t));
        memcpy(r->recv_x + row * r->g.row_bytes, message + LL_HEADER_BYTES, r->g.row_bytes);
        if (r->g.scale_count)
            memcpy(r->recv_scale + row * r->g.scale_count, message + LL_HEADER_BYTES + r->g.row_bytes,
                   4 * (uint64_t)r->g.scale_count);
    }
}

static enum worker_step receiver_step(struct fabric_worker *w)
{
    struct ll_receiver *v = fabric_container_of(w, struct ll_receiver, worker);
    struct ll_rank *r = v->rank;
    if (fabric_load(w->fabric, ll_word_open(r)) < r->open_target) return WORKER_WAIT;
    const uint32_t value = moe_word_value(
        fabric_load(w->fabric, ll_word_count_at(r, v->local_expert, v->source)), r->call);
    if (!value) return WORKER_WAIT;
    struct ll_range *range = &r->range[v->local_expert * r->g.ranks + v->source];
    *range = (struct ll_range){ .begin = r->packed_count[v->local_expert], .count = value - 1 };
    assert(range->count <= r->g.tokens_max);
    r->packed_count[v->local_expert] += range->count;
    if (range->count) {
        const uint64_t bytes = (uint64_t)range->count * r->g.message_bytes;
        fabric_work(w, &(struct fabric_work){ .kind = FABRIC_WORK_COPY, .rows = range->count, .read_bytes = bytes,
                                              .write_bytes = bytes, .run = receive_run, .context = v });
    }
    return WORKER_DONE;
}

/* The same with masking: from a rank that is given up it takes nothing, nor what comes too late. */
static enum worker_step receiver_masking_step(struct fabric_worker *w)
{
    struct ll_receiver *v = fabric_container_of(w, struct ll_receiver, worker);
    struct ll_rank *r = v->rank;
    if (fabric_load(w->fabric, ll_word_open(r)) < r->open_target) return WORKER_WAIT;
    const uint64_t word = fabric_load(w->fabric, ll_word_count_at(r, v->local_expert, v->source));
    if (moe_word_value(word, r->call) && !ll_masks(r, v->source)) return receiver_step(w);
    if (!ll_given_up(r, w, v->source)) return WORKER_WAIT;
    r->range[v->local_expert * r->g.ranks + v->source] = (struct ll_range){ 0 };
    return WORKER_DONE;
}

static void receiver_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct ll_receiver *v = fabric_container_of(w, struct ll_receiver, worker);
    snprintf(text, text_size, "dispatch receiver of local expert %u waits for the count of rank %u", v->local_expert,
             v->source);
}

static void send_side_prepare(struct ll_rank *r)
{
    memset(r->slot_counter, 0, r->g.experts * sizeof r->slot_counter[0]);
    for (uint64_t i = 0; i < (uint64_t)r->own->tokens * r->g.topk; i++)
        if (r->experts[i] != ROUTING_NONE) r->finish_target[r->experts[i]]++;
    for (uint32_t i = 0; i < r->g.grid; i++) {
        r->sender[i] = (struct ll_sender){ .worker = { .step = sender_step, .describe = sender_describe },
                                           .rank = r, .token = i };
        ll_worker_add(r, &r->sender[i].worker, i, r->g.groups * r->g.warps_per_group - 1);
        const uint32_t first = i * r->g.groups;
        r->counter[i] = (struct ll_counter){ .worker = { .step = counter_step, .describe = counter_describe },
            .rank = r, .expert = first, .expert_end = moe_min(first + r->g.groups, r->g.experts) };
        ll_worker_add(r, &r->counter[i].worker, i, 1);
        fabric_watch(&r->counter[i].worker, ll_word_finish(r, first), r->counter[i].expert_end - first);
    }
    r->gate_target += 2 * r->g.grid;
}

struct kernel_launch *ll_dispatch_launch(struct ll_rank *r, bool send, bool receive)
{
    if (send) send_side_prepare(r);
    if (!receive) return &r->kernel;
    if (send) {     /* both in one launch: the grid synchronises in between */
        r->gate = (struct ll_gate){ .worker = { .step = ll_gate_step, .describe = ll_gate_describe }, .rank = r,
                                    .flag = r->g.experts };
        ll_worker_add(r, &r->gate.worker, 0, 1);
        fabric_watch(&r->gate.worker, ll_word_gate(r), 1);
        r->open_target++;
    }
    memset(r->packed_count, 0, r->g.local_experts * sizeof r->packed_count[0]);
    for (uint32_t i = 0; i < r->g.experts; i++) {
        struct ll_receiver *v = &r->receiver[i];
        if (ll_masks(r, i % r->g.ranks)) {
            r->range[i] = (struct ll_range){ 0 };
            continue;
        }
        *v = (struct ll_receiver){ .worker = { .step = r->base.mask ? receiver_masking_step : receiver_step,
                                               .describe = receiver_describe }, .rank = r,
                                   .local_expert = i / r->g.ranks, .source = i % r->g.ranks };
        ll_worker_add(r, &v->worker, i / r->g.groups, r->g.warps_per_group);
        fabric_watch(&v->worker, ll_word_count_at(r, v->local_expert, v->source), 1);
        if (send) fabric_watch(&v->worker, ll_word_open(r), 1);
    }
    return &r->kernel;
}
