/* moe_ht_reduce.c - the receiving end of combine, intranode and internode: reducers that sum a token's rows once they
 * have come, and the keeper of heads that gives slots back (moe_ht.h).  Knows rings and words by number only, not
 * the ranks that fill them. */
#include "models/moe/moe_ht.h"

#include <assert.h>
#include <stdio.h>

/* The first warp of a group.  The group's warps end where those of the next group begin. */
static uint32_t group_first_warp(uint32_t group, uint32_t groups, uint32_t warps) { return group * warps / groups; }

/* The group's i-th token, in the order in which its warps take them. */
static uint32_t token_at(const struct ht_reducer *d, uint32_t i)
{
    const uint32_t warps = d->worker.warps, turn = i / warps;
    return d->first_token + turn * d->stride + d->first_warp + (i - turn * warps);
}

/* The lowest target whose row of the token has not come; -1 if all rows have come. */
static int token_missing(struct ht_reducer *d, uint32_t token)
{
    const struct ht_layout *l = &d->rank->layout;
    const uint32_t *position = &l->position[(size_t)token * l->targets];
    for (uint32_t left = l->mask[token]; left; left &= left - 1) {
        const uint32_t target = (uint32_t)__builtin_ctz(left);
        if (d->tail[target] > position[target]) continue;
        d->tail[target] = ht_word(d->rank, d->tail_word + target);
        if (d->tail[target] > position[target]) continue;
        d->awaited = (struct ht_awaited){ .word = d->tail_word + target, .value = position[target] + 1 };
        return (int)target;
    }
    return -1;
}

/* Whether all rows of the token had come when the tails were last read. */
static bool token_seen(const struct ht_reducer *d, uint32_t token)
{
    const struct ht_layout *l = &d->rank->layout;
    const uint32_t *position = &l->position[(size_t)token * l->targets];
    for (uint32_t left = l->mask[token]; left; left &= left - 1) {
        const uint32_t target = (uint32_t)__builtin_ctz(left);
        if (d->tail[target] <= position[target]) return false;
    }
    return true;
}

/* If tails are in the host's memory, reads them for the token's rows.  Returns WORKER_DONE once the rows have come.
 * Until then, returns the value that the step must return. */
static enum worker_step token_look(struct ht_reducer *d, uint32_t token)
{
    if (!d->look.host || token_seen(d, token)) return WORKER_DONE;
    if (!ht_look_begin(&d->worker, &d->look, 1)) return WORKER_MORE;
    for (uint32_t i = 0; i < d->rank->layout.targets; i++) d->tail[i] = ht_word(d->rank, d->tail_word + i);
    if (!token_seen(d, token)) return WORKER_WAIT;
    d->look.under_way = false;
    return WORKER_DONE;
}

/* Sums tokens.  The low half of argument is the first token's index in the group's order, the high half the number of
 * tokens. */
static void reducer_run(void *context, uint64_t argument)
{
    const struct ht_reducer *d = context;
    struct ht_rank *h = d->rank;
    const struct ht_layout *l = &h->layout;
    const uint32_t first = (uint32_t)argument, count = (uint32_t)(argument >> 32);
    for (uint32_t i = first; i < first + count; i++) {
        const uint32_t token = token_at(d, i);
        const uint8_t *slot[HT_NODES_MAX];
        uint32_t slot_count = 0;
        for (uint32_t left = l->mask[token]; left; left &= left - 1) {
            const uint32_t target = (uint32_t)__builtin_ctz(left);
            const uint32_t at = l->position[(size_t)token * l->targets + target] % d->slots;
            assert(target < l->targets && slot_count < HT_NODES_MAX);
            slot[slot_count++] =
                h->base.fabric->heap + d->ring_offset + target * d->ring_bytes + (size_t)at * h->combine_slot.stored;
        }
        ht_token_combine(h, token, slot, slot_count);
    }
}

static enum worker_step reducer_step(struct fabric_worker *w)
{
    struct ht_reducer *d = fabric_container_of(w, struct ht_reducer, worker);
    struct ht_rank *h = d->rank;
    assert(d->done <= d->count);
    if (d->done == d->count) return WORKER_DONE;
    if (d->awaited.word && !ht_awaited_come(h, &d->awaited)) return WORKER_WAIT;
    d->awaited.word = 0;
    const enum worker_step looked = token_look(d, token_at(d, d->done));
    if (looked != WORKER_DONE) return looked;
    const uint32_t most = moe_min(w->warps, d->count - d->done);
    uint32_t count = 0, rows = 0;
    for (; count < most; count++) {
        const uint32_t token = token_at(d, d->done + count);
        if (d->look.host ? !token_seen(d, token) : token_missing(d, token) >= 0) break;
        for (uint32_t left = h->layout.mask[token]; left; left &= left - 1) rows++;
    }
    if (count == 0) return WORKER_WAIT;
    const struct ht_slot *slot = &h->combine_slot;
    const uint64_t row = slot->row_bytes + slot->topk * sizeof(float);
    fabric_work(w, &(struct fabric_work){ .kind = FABRIC_WORK_REDUCE,
                                          .site = h->sum_site,
                                          .given = &h->sum_row,
                                          .warps = (uint16_t)(count < w->warps ? count : 0),
                                          .rows = count,
                                          .read_bytes = rows * row +
                                                        (uint64_t)count * h->base.options->num_bias * slot->row_bytes,
                                          .write_bytes = count * row,
                                          .run = reducer_run,
                                          .context = d,
                                          .argument = (uint64_t)count << 32 | d->done });
    d->done += count;
    fabric_signal_add(w, d->done_word, count, SITE_HT_SHARED_ADD);
    if (d->done == d->count) return WORKER_DONE;
    return d->look.host || token_missing(d, token_at(d, d->done)) < 0 ? WORKER_MORE : WORKER_WAIT;
}

static void reducer_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    struct ht_reducer d = *fabric_container_of(w, const struct ht_reducer, worker);
    if (d.done == d.count) {
        snprintf(text, text_size, "reducer %u of channel %u has nothing left", d.group, d.channel);
        return;
    }
    const uint32_t token = token_at(&d, d.done);
    /* between nodes, the row comes from the rank with the same place in its node */
    const struct ht_geometry *g = &d.rank->g;
    const int missing = token_missing(&d, token);
    const int peer = g->nodes > 1 ? missing * (int)g->local + d.rank->base.fabric->rank % (int)g->local : missing;
    snprintf(text, text_size, "reducer %u of channel %u waits for the row of token %u from rank %d", d.group, d.channel,
             token, peer);
}

static void reducer_ahead(const struct fabric_worker *w)
{
    const struct ht_reducer *d = fabric_container_of(w, const struct ht_reducer, worker);
    const struct ht_layout *l = &d->rank->layout;
    ht_lines_ahead(d, offsetof(struct ht_reducer, tail[l->targets]));
    __builtin_prefetch(w->fabric->words + d->tail_word);
    if (d->done == d->count) return;
    const uint32_t token = token_at(d, d->done);
    __builtin_prefetch(&l->mask[token]);
    __builtin_prefetch(&l->position[(size_t)token * l->targets]);
}

static const struct worker_role reducer_role = { .step = reducer_step,
                                                 .describe = reducer_describe,
                                                 .ahead = reducer_ahead };

uint32_t ht_reducer_groups(const struct ht_rank *h, uint32_t warps)
{
    enum { FEW_ROUNDS = 4, FEW_GROUPS = 4 };
    return h->g.tokens <= FEW_ROUNDS * warps * h->g.channels ? warps : moe_min(FEW_GROUPS, warps);
}

void ht_reducer_launch(struct ht_rank *h, struct ht_reducer *d, uint32_t groups, uint32_t warps, uint32_t sm)
{
    uint32_t end;
    d->stride = warps;
    d->first_warp = group_first_warp(d->group, groups, warps);
    ht_kernel_add(h, &d->worker, &reducer_role, sm, group_first_warp(d->group + 1, groups, warps) - d->first_warp);
    moe_channel_range(h->g.tokens, h->g.channels, d->channel, &d->first_token, &end);
    const uint32_t tokens = end - d->first_token, left = tokens % warps;
    d->count = tokens / warps * d->worker.warps;
    if (left > d->first_warp) d->count += moe_min(left - d->first_warp, d->worker.warps);
    d->done_base = fabric_load(h->base.fabric, d->done_word);
    fabric_watch(&d->worker, d->tail_word, h->layout.targets, 0);
}

/* ---- heads --------------------------------------------------------------------------------------------- */

/* Computes how many slots of each ring the slowest warp has read.  False: all warps have finished. */
static bool heads_min(const struct ht_head_keeper *k, uint32_t *head)
{
    const struct ht_layout *l = &k->rank->layout;
    bool busy = false;
    for (uint32_t i = 0; i < l->targets; i++) head[i] = UINT32_MAX;
    for (uint32_t g = 0; g < k->group_count; g++) {
        const struct ht_reducer *d = &k->reducer[g];
        const uint32_t done = (uint32_t)(fabric_load(k->worker.fabric, d->done_word) - d->done_base);
        assert(done <= d->count);
        if (done == d->count) continue;
        busy = true;
        if (done < d->worker.warps) { /* some warp has read nothing yet */
            for (uint32_t i = 0; i < l->targets; i++) head[i] = 0;
            continue;
        }
        const uint32_t token = token_at(d, done - d->worker.warps), mask = l->mask[token];
        const uint32_t *position = &l->position[(size_t)token * l->targets];
        for (uint32_t i = 0; i < l->targets; i++) head[i] = moe_min(head[i], position[i] + (mask >> i & 1));
    }
    return busy;
}

static enum worker_step keeper_step(struct fabric_worker *w)
{
    struct ht_head_keeper *k = fabric_container_of(w, struct ht_head_keeper, worker);
    uint32_t head[HT_NODES_MAX];
    if (!heads_min(k, head)) return WORKER_DONE;
    for (uint32_t i = 0; i < k->rank->layout.targets; i++) {
        if (head[i] < k->published[i] + k->least) continue;
        const uint32_t peer = k->peer_first + i * k->peer_stride;
        if (!ht_word_send(w, k->rank, peer, k->queue, k->head_word, head[i])) return WORKER_WAIT;
        assert(k->published[i] < head[i] || k->least == 0);
        k->published[i] = head[i];
    }
    return WORKER_WAIT;
}

static void keeper_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct ht_head_keeper *k = fabric_container_of(w, struct ht_head_keeper, worker);
    snprintf(text, text_size, "head keeper of channel %u waits for its reducers", k->channel);
}

static const struct worker_role keeper_role = { .step = keeper_step, .describe = keeper_describe };

void ht_head_keeper_launch(struct ht_rank *h, struct ht_head_keeper *k, uint32_t sm)
{
    ht_kernel_add(h, &k->worker, &keeper_role, sm, 1);
    fabric_watch(&k->worker, k->reducer[0].done_word, k->group_count, 0);
}
