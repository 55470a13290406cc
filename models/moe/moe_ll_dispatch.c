/* moe_ll_dispatch.c - low-latency dispatch (PROTOCOLS.md 1.4): every token goes once to each of its experts.
 *
 *     sender, one an SM     its warps cast a token together; then one warp for each top-k place writes its message
 *     counter, one an SM    one warp: counts how often the SM's experts are chosen; the counter of SM 0 also clears the
 *                           next call's counts and raises every expert's finish counter
 *     group, one an expert  once its SM's sender and counter are done and all messages of the expert are written, it
 *                           tells the expert's rank their number; after the grid barrier it waits for the count that
 *                           one source sends to one expert here, and packs those messages behind earlier ones
 *
 * There is no flow control, because each pair of an expert and a source has a slot for every token of the source. */
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

/* Sends the token's message to one expert.  -EAGAIN: nothing has changed. */
static int message_send(struct ll_sender *s, uint32_t expert)
{
    struct ll_rank *r = s->rank;
    struct fabric *f = s->worker.fabric;
    const uint32_t slot = r->slot_counter[expert];
    assert(expert < r->g.experts && slot < r->g.tokens_max); /* a token has an expert only once */
    const uint32_t local_expert = expert % r->g.local_experts;
    const uint64_t place = ((uint64_t)local_expert * r->g.ranks + f->rank) * r->g.tokens_max + slot;
    struct fabric_write write = {
        .peer = (uint16_t)(expert / r->g.local_experts),
        .queue = (uint16_t)local_expert,
        .charge_bytes = r->g.message_bytes,
        .warps = 1,
        .site = SITE_LL_MESSAGE_ROW,
        .defer = (slot + 1) % LL_DOORBELL_EVERY,
    };
    if (f->payload) {
        write.target_offset = ll_recv_offset(r) + place * r->g.message_bytes;
        write.data = f->heap + ll_send_offset(r) + (uint64_t)s->token * r->g.message_bytes;
        write.size_bytes = r->g.message_bytes;
    }
    return fabric_path(f, write.peer) == FABRIC_RDMA ? fabric_put(&s->worker, &write, NULL)
                                                     : fabric_store(&s->worker, &write);
}

/* Every choice has a message of its own. */
static bool choice_goes(const struct ll_rank *r, uint32_t token, uint32_t place)
{
    return r->experts[(uint64_t)token * r->g.topk + place] != ROUTING_NONE;
}

static uint32_t expert_chosen(const struct ll_sender *s, uint32_t place)
{
    return (uint32_t)s->rank->experts[(uint64_t)s->token * s->rank->g.topk + place];
}

/* Sends the message of this choice.  -EAGAIN: nothing has changed. */
static int place_send(struct ll_sender *s, uint32_t place)
{
    struct ll_rank *r = s->rank;
    const uint32_t expert = expert_chosen(s, place);
    const int rc = r->dispatch->message_send(s, expert);
    if (rc) return rc;
    r->slot_counter[ll_finish_number(r, expert)]++;
    if (fabric_path(s->worker.fabric, (uint16_t)(expert / r->g.local_experts)) == FABRIC_RDMA)
        fabric_signal_add(&s->worker, ll_word_finish_of(r, expert), 1, SITE_NONE);
    else s->stored = true;
    return 0;
}

/* Each warp that has stored a message adds 1 to its finish counter, after the SM's stores. */
static void stored_add(struct ll_sender *s)
{
    struct ll_rank *r = s->rank;
    enum site site = SITE_NONE;
    for (uint32_t j = 0; j < r->g.topk; j++) {
        if (!r->dispatch->message_goes(r, s->token, j)) continue;
        const uint32_t expert = expert_chosen(s, j);
        if (fabric_path(s->worker.fabric, (uint16_t)(expert / r->g.local_experts)) == FABRIC_RDMA) continue;
        fabric_signal_add(&s->worker, ll_word_finish_of(r, expert), 1, site);
        site = (enum site)r->dispatch->finish_lane;
    }
    s->stored = false;
}

/* Lets all warps but the last make the token's message. */
static void message_make(struct ll_sender *s)
{
    struct ll_rank *r = s->rank;
    struct fabric_worker *w = &s->worker;
    const bool bf16 = r->base.options->dtype == MOE_BF16;
    fabric_work(w, &(struct fabric_work){ .kind = FABRIC_WORK_CAST,
                                          .rows = w->warps,
                                          .site = bf16 ? SITE_LL_PACK_ROW : SITE_LL_CAST_ROW,
                                          .read_bytes = 2 * r->g.hidden,
                                          .write_bytes = r->g.message_bytes,
                                          .run = cast_run,
                                          .context = r,
                                          .argument = s->token });
    if (s->token == w->sm) /* in its first round the SM finds out where the peers' memory is */
        fabric_work(w, &(struct fabric_work){ .kind = FABRIC_WORK_SCAN, .site = SITE_LL_PEERS_READ, .rows = 1 });
}

static enum worker_step sender_step(struct fabric_worker *w)
{
    struct ll_sender *s = fabric_container_of(w, struct ll_sender, worker);
    struct ll_rank *r = s->rank;
    assert(s->place <= r->g.topk && (s->cast || s->place == 0));
    if (s->token < r->own->tokens) {
        if (!s->cast) {
            r->dispatch->message_make(s);
            s->cast = true;
            return WORKER_MORE;
        }
        for (; s->place < r->g.topk; s->place++) {
            if (!r->dispatch->message_goes(r, s->token, s->place)) continue;
            const int rc = place_send(s, s->place);
            if (rc == -EAGAIN) return WORKER_WAIT;
            assert(rc == 0);
        }
        if (s->stored && !s->adding) {
            s->adding = true;
            return WORKER_MORE;
        }
        if (s->stored) stored_add(s);
        s->adding = false;
        s->token += r->g.grid;
        s->place = 0;
        s->cast = false;
        if (s->token < r->own->tokens) return WORKER_MORE;
    }
    fabric_signal_add(w, ll_word_block(r, w->sm), 1, (enum site)r->dispatch->block_add);
    return WORKER_DONE;
}

static void sender_ahead(const struct fabric_worker *w)
{
    const struct ll_sender *s = fabric_container_of(w, const struct ll_sender, worker);
    const struct ll_rank *r = s->rank;
    const struct fabric *f = r->base.fabric;
    for (uint32_t j = 0; s->cast && s->token < r->own->tokens && j < r->g.topk; j++) {
        const int32_t choice = r->experts[(uint64_t)s->token * r->g.topk + j];
        const uint32_t expert = choice == ROUTING_NONE ? 0 : (uint32_t)choice;
        __builtin_prefetch(&r->slot_counter[ll_finish_number(r, expert)], 1);
        fabric_ahead(f, ll_word_finish_of(r, expert), (uint16_t)(expert / r->g.local_experts),
                     (uint16_t)(expert % r->g.queues));
    }
}

static void sender_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct ll_sender *s = fabric_container_of(w, struct ll_sender, worker);
    const struct ll_rank *r = s->rank;
    const int32_t expert = s->token < r->own->tokens && s->place < r->g.topk
                               ? r->experts[(uint64_t)s->token * r->g.topk + s->place]
                               : ROUTING_NONE;
    snprintf(text, text_size, "dispatch sender %u has no room on the queue to rank %d", s->worker.sm,
             expert == ROUTING_NONE ? -1 : expert / (int32_t)r->g.local_experts);
}

static const struct worker_role sender_role = { .step = sender_step,
                                                .describe = sender_describe,
                                                .ahead = sender_ahead };

/* Charges the worker for reading choices.  Each lane reads one entry. */
static void choices_read(struct ll_counter *c)
{
    struct fabric_worker *w = &c->worker;
    const struct ll_rank *r = c->rank;
    const uint32_t rows = (r->own->tokens * r->g.topk + LL_LANES - 1) / LL_LANES;
    if (!rows) return;
    fabric_work(w, &(struct fabric_work){ .kind = FABRIC_WORK_SCAN, .site = SITE_LL_CHOICES_READ, .rows = rows });
    fabric_work(w, &(struct fabric_work){ .kind = FABRIC_WORK_SCAN, .site = SITE_LL_CHOICES_REST, .rows = rows });
}

/* 32 lanes add at the same time, and wait for the stores that the SM has made before.  So a step makes only two such
 * rounds. */
enum { RAISED_A_STEP = 2 * LL_LANES };

static enum worker_step counter_step(struct fabric_worker *w)
{
    struct ll_counter *c = fabric_container_of(w, struct ll_counter, worker);
    struct ll_rank *r = c->rank;
    assert(c->raised <= r->g.finish_words && c->word_end <= r->g.finish_words);
    if (w->sm == 0 && !c->raised) /* clears the next call's counts; the first release waits for that */
        fabric_work(w, &(struct fabric_work){ .kind = FABRIC_WORK_SCAN, .site = r->dispatch->counts_zero, .rows = 1 });
    if (w->sm == 0 && c->raised < r->g.finish_words) { /* 32 words at a time, one for each lane */
        const uint32_t end = moe_min(c->raised + RAISED_A_STEP, r->g.finish_words);
        for (; c->raised < end; c->raised++)
            fabric_signal_add(w, ll_word_finish(r, c->raised), 1,
                              c->raised % LL_LANES ? (enum site)r->dispatch->finish_lane : SITE_NONE);
        return WORKER_MORE;
    }
    r->dispatch->choices_read(c);
    for (uint32_t i = c->word; i < c->word_end; i++) fabric_signal_add(w, ll_word_finish(r, i), 1, SITE_NONE);
    fabric_signal_add(w, ll_word_block(r, w->sm), 1, (enum site)r->dispatch->block_add);
    return WORKER_DONE;
}

static void counter_ahead(const struct fabric_worker *w)
{
    const struct ll_counter *c = fabric_container_of(w, const struct ll_counter, worker);
    const uint32_t word = ll_word_finish(c->rank, c->worker.sm ? c->word : c->raised);
    fabric_ahead(w->fabric, word, w->fabric->rank, 0);
}

static const struct worker_role counter_role = { .step = counter_step, .ahead = counter_ahead };

static uint32_t range_number(const struct ll_receiver *v)
{
    return v->local_expert * ll_receiver_rank(v)->g.ranks + v->source;
}

/* Unpacks the messages of one source for one expert, behind the messages that were unpacked earlier. */
static void receive_run(void *context, uint64_t argument)
{
    (void)argument;
    const struct ll_receiver *v = context;
    struct ll_rank *r = ll_receiver_rank(v);
    const struct ll_range range = ll_range_at(r, range_number(v));
    const uint8_t *message =
        r->base.fabric->heap + ll_recv_offset(r) +
        ((uint64_t)v->local_expert * r->g.ranks + v->source) * r->g.tokens_max * r->g.message_bytes;
    for (uint32_t i = 0; i < range.count; i++, message += r->g.message_bytes) {
        const uint64_t row = (uint64_t)v->local_expert * r->g.ranks * r->g.tokens_max + range.begin + i;
        memcpy(&r->recv_source_token[row], message, sizeof(uint32_t));
        memcpy(r->recv_x + row * r->g.row_bytes, message + LL_HEADER_BYTES, r->g.row_bytes);
        if (r->g.scale_count)
            memcpy(r->recv_scale + row * r->g.scale_count, message + LL_HEADER_BYTES + r->g.row_bytes,
                   4 * (uint64_t)r->g.scale_count);
    }
}

/* Whether all messages that the expert's finish counter counts are written.  Comparing the low halves of the counters
 * suffices, because counters only grow. */
static bool finished(const struct ll_rank *r, uint32_t expert)
{
    const uint32_t word = (uint32_t)fabric_load(r->base.fabric, ll_word_finish_of(r, expert));
    return word - r->finish_target[ll_finish_number(r, expert)] <= INT32_MAX;
}

/* Whether the rank knows how many of its tokens it tells the expert's rank.  A masked rank is told nothing. */
static bool receiver_counted(struct ll_receiver *v)
{
    const struct ll_rank *r = ll_receiver_rank(v);
    return fabric_load(v->worker.fabric, ll_word_block(r, v->worker.sm)) >= r->block_target &&
           (ll_masks(r, v->source) || finished(r, v->expert));
}

/* Tells the expert's rank how many of this rank's tokens come.  True once this is done. */
static bool receiver_tell(struct ll_receiver *v)
{
    struct fabric_worker *w = &v->worker;
    struct ll_rank *r = ll_receiver_rank(v);
    const uint16_t *sent = &r->slot_counter[ll_finish_number(r, v->expert)];
    if (!v->tell) return true;
    assert(*sent <= r->g.tokens_max);
    if (!receiver_counted(v)) return false;
    const bool masked = ll_masks(r, v->source);
    const struct fabric_signal signal = {
        .peer = v->source,
        .queue = (uint16_t)(v->local_expert % r->g.queues),
        .site = r->dispatch->count_tell,
        .word = ll_word_count_at(r, v->local_expert, w->fabric->rank),
        .value = moe_word_make(r->call, *sent + 1),
    };
    const bool near = fabric_path(w->fabric, signal.peer) != FABRIC_RDMA;
    if (near) /* finds out where the peer's memory lies */
        fabric_work(w, &(struct fabric_work){ .kind = FABRIC_WORK_SCAN, .site = r->dispatch->peers_again, .rows = 1 });
    const int rc = masked ? 0 : fabric_signal(w, &signal);
    if (rc == -EAGAIN) return false;
    assert(rc == 0);
    v->tell = false;
    if (v->receive) fabric_signal_add(w, ll_word_gate(r), 1, (enum site)r->dispatch->grid_come);
    return true;
}

/* Whether this rank's grid barrier between sending and receiving is open. */
static bool grid_open(const struct ll_rank *r)
{
    return fabric_load(r->base.fabric, ll_word_open(r)) >= r->open_target;
}

bool ll_receiver_open(struct ll_receiver *v)
{
    return receiver_tell(v) && v->receive && grid_open(ll_receiver_rank(v));
}

static enum worker_step receiver_step(struct fabric_worker *w)
{
    struct ll_receiver *v = fabric_container_of(w, struct ll_receiver, worker);
    struct ll_rank *r = ll_receiver_rank(v);
    if (!ll_receiver_open(v)) return v->tell || v->receive ? WORKER_WAIT : WORKER_DONE;
    const uint32_t value =
        moe_word_value(fabric_load(w->fabric, ll_word_count_at(r, v->local_expert, v->source)), r->call);
    if (!v->looked && ll_host_look(w, r, v->source, range_number(v), value)) {
        v->looked = true;
        return WORKER_MORE;
    }
    if (!value) return WORKER_WAIT;
    const uint32_t count = value - 1;
    assert(count <= r->g.tokens_max);
    r->range_count[range_number(v)] = (uint16_t)count;
    if (r->range_begin) r->range_begin[range_number(v)] = r->packed_count[v->local_expert];
    r->packed_count[v->local_expert] += count;
    assert(r->packed_count[v->local_expert] <= r->g.ranks * r->g.tokens_max);
    const uint8_t look = v->alone ? SITE_LL_WORD_FIRST : SITE_LL_COUNT_LOOK;
    fabric_work(w, &(struct fabric_work){ .kind = FABRIC_WORK_SCAN, .site = look, .rows = 1 });
    fabric_work(w, &(struct fabric_work){ .kind = FABRIC_WORK_SCAN, .site = SITE_LL_PLACE_TAKE, .rows = 1 });
    if (count) {
        const uint64_t bytes = (uint64_t)count * r->g.message_bytes;
        fabric_work(w, &(struct fabric_work){ .kind = FABRIC_WORK_COPY,
                                              .site = SITE_LL_RECEIVE_ROW,
                                              .given = &r->receive_row,
                                              .rows = count,
                                              .read_bytes = bytes,
                                              .write_bytes = bytes,
                                              .run = receive_run,
                                              .context = v });
    }
    return WORKER_DONE;
}

void ll_receiver_ahead(const struct fabric_worker *w)
{
    const struct ll_receiver *v = fabric_container_of(w, const struct ll_receiver, worker);
    const struct ll_rank *r = ll_receiver_rank(v);
    const struct fabric *f = r->base.fabric;
    __builtin_prefetch(&f->words[ll_word_count_at(r, v->local_expert, v->source)]);
    fabric_ahead(f, ll_word_gate(r), v->tell ? v->source : f->rank, (uint16_t)(v->local_expert % r->g.queues));
    if (!v->tell) {
        __builtin_prefetch(&r->range_count[range_number(v)], 1);
        return;
    }
    __builtin_prefetch(&f->words[ll_word_finish_of(r, v->expert)]);
    __builtin_prefetch(&r->finish_target[ll_finish_number(r, v->expert)]);
    __builtin_prefetch(&r->slot_counter[ll_finish_number(r, v->expert)]);
}

/* receiver_step() with masking: takes nothing from a masked rank, even if its tokens come later. */
static enum worker_step receiver_masking_step(struct fabric_worker *w)
{
    struct ll_receiver *v = fabric_container_of(w, struct ll_receiver, worker);
    struct ll_rank *r = ll_receiver_rank(v);
    if (!ll_receiver_open(v)) return v->tell || v->receive ? WORKER_WAIT : WORKER_DONE;
    const uint64_t word = fabric_load(w->fabric, ll_word_count_at(r, v->local_expert, v->source));
    if (moe_word_value(word, r->call) && !ll_masks(r, v->source)) return receiver_step(w);
    if (!ll_given_up(r, w, v->source)) return WORKER_WAIT;
    r->range_count[range_number(v)] = 0;
    return WORKER_DONE;
}

void ll_receiver_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    struct ll_receiver *v = fabric_container_of(w, struct ll_receiver, worker);
    if (v->tell && !receiver_counted(v))
        snprintf(text, text_size, "dispatch group waits for this rank's rows of expert %u", v->expert);
    else if (v->tell) snprintf(text, text_size, "dispatch group has no room on the queue to rank %u", v->source);
    else if (v->receive && !grid_open(ll_receiver_rank(v)))
        snprintf(text, text_size, "dispatch receiver of local expert %u waits for this rank's grid barrier",
                 v->local_expert);
    else
        snprintf(text, text_size, "dispatch receiver of local expert %u waits for the count of rank %u",
                 v->local_expert, v->source);
}

static const struct worker_role receiver_role = { .step = receiver_step,
                                                  .describe = ll_receiver_describe,
                                                  .ahead = ll_receiver_ahead };
static const struct worker_role receiver_masking_role = { .step = receiver_masking_step,
                                                          .describe = ll_receiver_describe };

static void send_side_prepare(struct ll_rank *r)
{
    memset(r->slot_counter, 0, r->g.experts * sizeof r->slot_counter[0]);
    for (uint64_t i = 0; i < (uint64_t)r->own->tokens * r->g.topk; i++)
        if (r->dispatch->message_goes(r, (uint32_t)(i / r->g.topk), (uint32_t)(i % r->g.topk)))
            r->finish_target[ll_finish_number(r, (uint32_t)r->experts[i])]++;
    for (uint32_t i = 0; i < r->g.finish_words; i++) r->finish_target[i] += 2; /* SM 0's counter and its SM's: 1 each */
    r->block_target += 2;
    for (uint32_t i = 0; i < r->g.grid; i++) {
        r->sender[i] = (struct ll_sender){ .rank = r, .token = i };
        ll_worker_add(r, &r->sender[i].worker, &sender_role, i, r->g.groups * r->g.warps_per_group - 1);
        const uint32_t first = i * r->g.groups, end = moe_min(first + r->g.groups, r->g.experts);
        r->counter[i] = (struct ll_counter){ .rank = r,
                                             .word = moe_ceiling(first, r->g.finish_experts),
                                             .word_end = moe_ceiling(end, r->g.finish_experts) };
        ll_worker_add(r, &r->counter[i].worker, &counter_role, i, 1);
    }
}

/* Launches an expert's group.  With n experts on each rank, the group of expert e receives for local expert e modulo n,
 * from rank e / n. */
static void receiver_launch(struct ll_rank *r, uint32_t expert, bool tell, bool receive)
{
    struct ll_receiver *v = &r->pair[expert].receiver;
    assert(expert < r->g.experts && (tell || receive));
    *v = (struct ll_receiver){ .expert = expert & LL_EXPERTS_MAX,
                               .local_expert = (uint16_t)(expert % r->g.local_experts),
                               .source = (uint16_t)(expert / r->g.local_experts),
                               .tell = tell,
                               .alone = !tell,
                               .receive = receive };
    const struct worker_role *role = r->mask ? &receiver_masking_role : r->dispatch->receiver;
    ll_worker_add(r, &v->worker, role, expert / r->g.groups, r->g.warps_per_group);
    if (tell) {
        fabric_watch(&v->worker, ll_word_block(r, v->worker.sm), 1, r->block_target);
        const uint64_t word = fabric_load(r->base.fabric, ll_word_finish_of(r, expert));
        const uint32_t target = r->finish_target[ll_finish_number(r, expert)];
        fabric_watch(&v->worker, ll_word_finish_of(r, expert), 1, word + (target - (uint32_t)word));
    }
    if (receive) fabric_watch(&v->worker, ll_word_count_at(r, v->local_expert, v->source), 1, 0);
    if (receive && r->dispatch->receiver_watch) r->dispatch->receiver_watch(v);
    if (!tell || !receive) return;
    fabric_watch(&v->worker, ll_word_open(r), 1, 0);
    r->gate_target++;
}

struct kernel_launch *ll_dispatch_launch(struct ll_rank *r, bool send, bool receive)
{
    if (send) send_side_prepare(r);
    if (send && receive) ll_gate_add(r); /* one kernel sends and receives, with a grid barrier between the two */
    /* The bytes that come are an estimate: on average a rank receives as much as it sends. */
    r->receive_row =
        (struct site_given){ .size = { r->g.scale_count, r->g.scale_count / (r->base.options->ue8m0 ? 4 : 1),
                                       ll_choices(r) * r->g.message_bytes } };
    if (receive) memset(r->packed_count, 0, r->g.local_experts * sizeof r->packed_count[0]);
    if (receive && r->dispatch->receive_prepare) r->dispatch->receive_prepare(r);
    for (uint32_t e = 0; e < r->g.experts; e++) {
        const uint32_t rank = e / r->g.local_experts;
        if (!ll_masks(r, rank)) receiver_launch(r, e, send, receive);
        else if (receive) r->range_count[e % r->g.local_experts * r->g.ranks + rank] = 0;
    }
    if (send && receive) ll_gate_watch(r);
    return &r->kernel;
}

const struct ll_dispatch_kind ll_dispatch_deepep = {
    .kernel = SITE_LL_KERNEL,
    .grid_come = SITE_LL_GRID_COME,
    .grid_open = SITE_LL_GRID_OPEN,
    .counts_zero = SITE_LL_COUNTS_ZERO,
    .finish_lane = SITE_LL_FINISH_LANE,
    .block_add = SITE_LL_BLOCK_ADD,
    .peers_again = SITE_LL_PEERS_AGAIN,
    .count_tell = SITE_LL_COUNT_TELL,
    .receiver = &receiver_role,
    .message_goes = choice_goes,
    .message_make = message_make,
    .message_send = message_send,
    .choices_read = choices_read,
};
