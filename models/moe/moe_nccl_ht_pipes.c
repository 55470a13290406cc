/* moe_nccl_ht_pipes.c - dispatch and combine of NCCL EP's high-throughput kernels (PROTOCOLS.md 1.19): the items of
 * pipelines, the stages that items go through, and the barriers of all ranks.
 *
 * In the library one warp of a pipeline fills stages and others empty them, both in the order of items.  Here a stage
 * is a worker: it fills itself when the emptying warp has come so far that its ring has room, and is emptied in its
 * turn. */
#include "models/moe/moe_nccl_ht.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the items of pipelines ---- */

/* Chunks go to blocks in rotation, and a block's chunks to its pipelines in rotation. */
static uint32_t dispatch_pipeline(uint32_t token, uint32_t blocks)
{
    const uint32_t chunk = token / NH_CHUNK;
    return chunk % blocks * NH_PIPELINES + chunk / blocks % NH_PIPELINES;
}

/* The groups of each chunk go to blocks in rotation, and a group's tokens to pipelines in rotation. */
static uint32_t combine_pipeline(uint32_t token, uint32_t blocks)
{
    return token % NH_CHUNK / NH_GROUP % blocks * NH_PIPELINES + token % NH_GROUP % NH_PIPELINES;
}

/* How many items a token is: in dispatch, 1 if a rank needs it; in combine, one for each rank that has a row, at least
 * 1. */
static uint32_t token_items(const struct nh_rank *r, uint32_t token, bool combine)
{
    uint32_t ranks = 0;
    for (uint32_t to = nh_target_next(r, token, 0); to < r->ht.g.ranks; to = nh_target_next(r, token, to + 1)) ranks++;
    return combine ? ranks + (ranks == 0) : ranks > 0;
}

static void token_add(const struct nh_rank *r, struct nh_item *item, uint32_t token, bool combine)
{
    uint32_t to = nh_target_next(r, token, 0);
    if (!combine || to == r->ht.g.ranks) *item++ = (struct nh_item){ token, NH_NONE };
    for (; combine && to < r->ht.g.ranks; to = nh_target_next(r, token, to + 1))
        *item++ = (struct nh_item){ token, to };
}

static void list_make(struct nh_rank *r, struct nh_list *list, bool combine)
{
    uint32_t (*const pipeline)(uint32_t token, uint32_t blocks) = combine ? combine_pipeline : dispatch_pipeline;
    const uint32_t blocks = r->pipelines / NH_PIPELINES, tokens = r->ht.g.tokens;
    list->first = kernel_keep(r, r->pipelines + 1, sizeof list->first[0]);
    for (uint32_t t = 0; t < tokens; t++) list->first[pipeline(t, blocks) + 1] += token_items(r, t, combine);
    for (uint32_t p = 0; p < r->pipelines; p++) list->first[p + 1] += list->first[p];
    list->item = kernel_keep(r, list->first[r->pipelines], sizeof list->item[0]);
    uint32_t *at = kernel_alloc(r->pipelines, sizeof at[0]);
    for (uint32_t t = 0; t < tokens; t++) {
        const uint32_t p = pipeline(t, blocks), items = token_items(r, t, combine);
        if (items) token_add(r, list->item + list->first[p] + at[p], t, combine);
        at[p] += items;
    }
    free(at);
}

void nh_lists_make(struct nh_rank *r)
{
    list_make(r, &r->token, false);
    list_make(r, &r->row, true);
}

/* ---- what both kernels share ---- */

static const struct nh_item *item_of(const struct nh_stage *s, const struct nh_list *list)
{
    return list->item + list->first[s->pipeline] + s->number;
}

/* Whether at least so many items of the stage's pipeline have passed.  If not, the stage need not be stepped before. */
static bool passed(struct nh_stage *s, uint32_t items)
{
    const struct nh_rank *r = s->rank;
    const uint32_t word = nh_word_turn(r, s->pipeline);
    const uint64_t least = r->turned[s->pipeline] + items;
    if (fabric_load(s->worker.fabric, word) >= least) return true;
    fabric_watch(&s->worker, word, 1, least);
    return false;
}

static void pass(struct nh_stage *s)
{
    fabric_signal_add(&s->worker, nh_word_turn(s->rank, s->pipeline), 1, SITE_NCCL_HT_SHARED_ADD);
    s->passed = true;
}

/* Takes the stage's next item.  If there is none, the stage is finished. */
static enum worker_step stage_next(struct nh_stage *s, const struct nh_list *list)
{
    s->number += NH_STAGES;
    s->target = 0;
    s->state = 0;
    s->passed = false;
    if (list->first[s->pipeline] + s->number < list->first[s->pipeline + 1]) return WORKER_MORE;
    fabric_signal_add(&s->worker, nh_word_finished(s->rank), 1, SITE_NCCL_HT_SHARED_ADD);
    return WORKER_DONE;
}

/* Charges the stage's first item for what the block does before its first item. */
static void block_start(struct nh_stage *s)
{
    if (s->number < NH_STAGES) ht_scan_here(&s->worker, SITE_NCCL_HT_START, 1, 0);
}

static void row_fetch(struct nh_stage *s, uint8_t site, uint64_t read_bytes)
{
    fabric_work(&s->worker,
                &(struct fabric_work){
                    .kind = FABRIC_WORK_COPY, .rows = 1, .warps = 1, .read_bytes = read_bytes, .site = site });
}

static void stages_launch(struct nh_rank *r, const struct nh_list *list, const struct worker_role *role, uint32_t warps,
                          bool waits)
{
    r->finished = fabric_load(r->ht.base.fabric, nh_word_finished(r));
    for (uint32_t p = 0; p < r->pipelines; p++) {
        r->turned[p] = fabric_load(r->ht.base.fabric, nh_word_turn(r, p));
        const uint32_t stages = moe_min(list->first[p + 1] - list->first[p], NH_STAGES);
        for (uint32_t i = 0; i < stages; i++) {
            struct nh_stage *s = &r->stage[p * NH_STAGES + i];
            *s = (struct nh_stage){ .rank = r, .pipeline = p, .number = i };
            ht_kernel_add(&r->ht, &s->worker, role, p / NH_PIPELINES, warps);
            fabric_watch(&s->worker, nh_word_turn(r, p), 1, 0);
            if (waits) fabric_watch(&s->worker, nh_word_open(r), 1, moe_word_make(r->ht.epoch, 1));
        }
        r->finished += stages;
    }
}

/* ---- dispatch ---- */

enum send_state { SEND_LOOK, SEND_LOAD, SEND_STORE, SEND_STORED };

static void token_fill(const void *context, uint8_t *slot)
{
    const struct nh_stage *s = context;
    const struct ht_rank *h = &s->rank->ht;
    const struct ht_slot *form = &h->dispatch_slot;
    const uint32_t token = item_of(s, &s->rank->token)->token;
    memset(slot, 0, form->bytes);
    memcpy(slot, h->t.x + (size_t)token * form->row_bytes, form->row_bytes);
    memcpy(slot + form->scale, h->t.scales + (size_t)token * form->scale_bytes, form->scale_bytes);
    for (uint32_t j = 0; j < h->g.topk; j++) {
        const int32_t expert = ht_expert(h, h->g.rank, token * h->g.topk + j);
        const float *weight = &h->t.weights[(size_t)token * h->g.topk + j];
        if (expert >= 0) memcpy(slot + form->weight + (size_t)expert * sizeof *weight, weight, sizeof *weight);
    }
}

/* Stores the token to all ranks that need it.  False: step again. */
static bool token_store(struct nh_stage *s)
{
    const struct nh_rank *r = s->rank;
    const struct ht_slot *form = &r->ht.dispatch_slot;
    const uint32_t token = item_of(s, &r->token)->token;
    for (s->target = nh_target_next(r, token, s->target); s->target < r->ht.g.ranks;
         s->target = nh_target_next(r, token, s->target + 1)) {
        const struct fabric_write write = { .target_offset = r->map.in + nh_place(r, token, s->target) * form->stored,
                                            .charge_bytes = form->bytes,
                                            .peer = (uint16_t)s->target,
                                            .warps = 1,
                                            .site = SITE_NCCL_HT_STORE,
                                            .fill = form->stored ? token_fill : NULL,
                                            .data = s,
                                            .size_bytes = form->stored };
        if (fabric_store(&s->worker, &write)) return false;
    }
    return true;
}

/* A token's stage is free once the stores of the token that was there are read.  The library finds that out when it has
 * asked for the stores of the NH_IN_FLIGHT tokens behind it. */
static bool stage_free(struct nh_stage *s)
{
    return s->number < NH_STAGES || passed(s, s->number - NH_STAGES + NH_IN_FLIGHT + 1);
}

static enum worker_step send_step(struct fabric_worker *w)
{
    struct nh_stage *s = fabric_container_of(w, struct nh_stage, worker);
    const struct nh_rank *r = s->rank;
    const uint32_t token = item_of(s, &r->token)->token;
    if (s->state == SEND_LOOK) {
        if (!stage_free(s)) return WORKER_WAIT;
        s->state = SEND_LOAD;
        block_start(s);
        if (token % NH_MAP_LOAD == 0 || s->number == 0) ht_scan_here(w, SITE_NCCL_HT_MAP_READ, 1, NH_MAP_LOAD);
        return WORKER_MORE;
    }
    if (s->state == SEND_LOAD) {
        s->state = SEND_STORE;
        row_fetch(s, SITE_NCCL_HT_LOAD, r->ht.dispatch_slot.bytes);
        return WORKER_MORE;
    }
    if (s->state == SEND_STORE) {
        if (!passed(s, s->number)) return WORKER_WAIT;
        if (!s->passed) pass(s);
        if (!token_store(s)) return WORKER_WAIT;
        s->state = SEND_STORED;
        return WORKER_MORE;
    }
    return stage_next(s, &r->token);
}

/* ---- combine ---- */

enum sum_state { SUM_OPEN, SUM_FETCH, SUM_ADD, SUM_STORE, SUM_STORED };

/* Where a row of combine lies on this rank: its own rows among the experts' output, others in the pipeline's buffers.
 */
static uint8_t *row_here(const struct nh_stage *s, uint32_t number)
{
    const struct nh_rank *r = s->rank;
    const struct nh_item *item = r->row.item + r->row.first[s->pipeline] + number;
    const uint64_t stored = r->ht.combine_slot.stored;
    uint8_t *heap = r->ht.base.fabric->heap;
    if (item->rank == r->ht.g.rank) return heap + r->map.out + nh_place(r, item->token, item->rank) * stored;
    return heap + r->map.came + ((uint64_t)s->pipeline * r->buffers + number % r->buffers) * stored;
}

static bool first_of(const struct nh_stage *s)
{
    const struct nh_item *item = item_of(s, &s->rank->row);
    return s->number == 0 || item[-1].token != item->token;
}

static bool last_of(const struct nh_stage *s)
{
    const struct nh_list *list = &s->rank->row;
    const struct nh_item *item = item_of(s, list);
    return item + 1 == list->item + list->first[s->pipeline + 1] || item[1].token != item->token;
}

static void sum_run(void *context, uint64_t argument)
{
    const struct nh_stage *s = context;
    const struct nh_item *item = item_of(s, &s->rank->row);
    const uint8_t *row[HT_TOPK_MAX];
    uint32_t count = 0;
    (void)argument;
    for (uint32_t n = s->number + 1; n-- > 0 && (item - (s->number - n))->token == item->token;) count++;
    if (item->rank == NH_NONE) count = 0;
    for (uint32_t i = 0; i < count; i++) row[i] = row_here(s, s->number + 1 - count + i);
    ht_token_combine(&s->rank->ht, item->token, row, count);
}

/* Adds the row to its token's sum in registers; after the last row, rounds the sum into shared memory. */
static void row_add(struct nh_stage *s, bool last)
{
    fabric_work(&s->worker, &(struct fabric_work){ .kind = FABRIC_WORK_SCAN,
                                                   .rows = 1,
                                                   .site = last ? SITE_NCCL_HT_ADD_LAST : SITE_NCCL_HT_ADD,
                                                   .given = &s->rank->add[last],
                                                   .run = last ? sum_run : NULL,
                                                   .context = s });
}

static void sum_store(struct nh_stage *s)
{
    fabric_work(&s->worker, &(struct fabric_work){ .kind = FABRIC_WORK_COPY,
                                                   .rows = 1,
                                                   .warps = 1,
                                                   .write_bytes = s->rank->ht.combine_slot.bytes,
                                                   .site = SITE_NCCL_HT_SUM_STORE });
}

/* Loads the row into the stage.  False: step again. */
static bool row_load(struct nh_stage *s)
{
    const struct nh_rank *r = s->rank;
    const struct nh_item *item = item_of(s, &r->row);
    const struct ht_slot *form = &r->ht.combine_slot;
    struct fabric_read read = { .source_offset = r->map.out,
                                .target = row_here(s, s->number),
                                .charge_bytes = form->bytes,
                                .size_bytes = form->stored,
                                .peer = (uint16_t)item->rank,
                                .warps = 1,
                                .site = SITE_NCCL_HT_PULL };
    if (item->rank == NH_NONE) return true;
    if (item->rank == r->ht.g.rank) return row_fetch(s, SITE_NCCL_HT_FETCH, form->bytes), true;
    read.source_offset += nh_place(r, item->token, item->rank) * form->stored;
    return fabric_get(&s->worker, &read) == 0;
}

static enum worker_step sum_step(struct fabric_worker *w)
{
    struct nh_stage *s = fabric_container_of(w, struct nh_stage, worker);
    const struct nh_rank *r = s->rank;
    if (s->state == SUM_OPEN) {
        if (!nh_is_open(r)) return WORKER_WAIT;
        s->state = SUM_FETCH;
        block_start(s);
        if (first_of(s)) ht_scan_here(w, SITE_NCCL_HT_PLACES_READ, 1, 0);
        return WORKER_MORE;
    }
    if (s->state == SUM_FETCH) {
        if (!row_load(s)) return WORKER_WAIT;
        s->state = SUM_ADD;
        return WORKER_MORE;
    }
    const bool last = last_of(s);
    if (s->state == SUM_ADD) {
        if (!passed(s, s->number)) return WORKER_WAIT;
        row_add(s, last);
        pass(s);
        s->state = last ? SUM_STORE : SUM_STORED;
        return WORKER_MORE;
    }
    if (s->state == SUM_STORE) {
        sum_store(s);
        s->state = SUM_STORED;
        return WORKER_MORE;
    }
    return stage_next(s, &r->row);
}

/* ---- the barriers ---- */

enum gate_state { GATE_WORK, GATE_TELL, GATE_LOOK };

/* Tells all ranks, this one included.  The library adds to a counter of the node's first rank, and all ranks look
 * there: here each rank has a word for each, and afterwards looks at the first rank once. */
static bool gate_tell(struct nh_gate *k)
{
    const struct nh_rank *r = k->rank;
    for (; k->next < r->ht.g.ranks; k->next++) {
        const struct fabric_signal signal = { .value = moe_word_make(r->ht.epoch, 1),
                                              .word = r->ht.g.rank,
                                              .peer = (uint16_t)k->next,
                                              .site = k->next == 0 ? SITE_NCCL_HT_TELL : SITE_NONE };
        if (fabric_signal(&k->worker, &signal)) return false;
    }
    return true;
}

static bool gate_come(struct nh_gate *k)
{
    const struct nh_rank *r = k->rank;
    while (k->come < r->ht.g.ranks && ht_word_reached(k->worker.fabric, k->come, moe_word_make(r->ht.epoch, 1)))
        k->come++;
    return k->come == r->ht.g.ranks;
}

static bool gate_behind(const struct nh_gate *k)
{
    return k->combine || fabric_load(k->worker.fabric, nh_word_finished(k->rank)) == k->rank->finished;
}

static enum worker_step gate_step(struct fabric_worker *w)
{
    struct nh_gate *k = fabric_container_of(w, struct nh_gate, worker);
    const struct nh_rank *r = k->rank;
    const struct fabric_signal open = { .value = moe_word_make(r->ht.epoch, 1),
                                        .word = nh_word_open(r),
                                        .peer = (uint16_t)r->ht.g.rank,
                                        .site = SITE_NCCL_HT_TELL };
    switch ((enum gate_state)k->state) {
    case GATE_WORK: /* reads which value to await; at dispatch's end the blocks have a barrier of the grid */
        if (!gate_behind(k)) return WORKER_WAIT;
        ht_scan_here(w, k->combine ? SITE_NCCL_HT_HEAD_READ : SITE_NCCL_HT_TAIL_READ, 1, 0);
        k->state = GATE_TELL;
        return WORKER_MORE;
    case GATE_TELL:
        if (!gate_tell(k) || !gate_come(k)) return WORKER_WAIT;
        k->state = GATE_LOOK;
        if (r->ht.g.rank) ht_scan_here(w, SITE_NCCL_HT_LOOK, 1, 0);
        return WORKER_MORE;
    case GATE_LOOK: /* after the look, a fence */ return fabric_signal(w, &open) ? WORKER_WAIT : WORKER_DONE;
    }
    return WORKER_DONE;
}

static void gate_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct nh_gate *k = fabric_container_of(w, struct nh_gate, worker);
    if (k->state == GATE_WORK) snprintf(text, text_size, "the end of nccl-ht's dispatch waits for its own blocks");
    else snprintf(text, text_size, "nccl-ht's barrier waits for rank %u", k->come);
}

static const struct worker_role gate_role = { .step = gate_step, .describe = gate_describe };

static void gate_launch(struct nh_rank *r, bool combine)
{
    r->gate = (struct nh_gate){ .rank = r, .combine = combine };
    ht_kernel_add(&r->ht, &r->gate.worker, &gate_role, 0, 1);
    fabric_watch(&r->gate.worker, 0, r->ht.g.ranks, 0);
    if (!combine) fabric_watch(&r->gate.worker, nh_word_finished(r), 1, r->finished);
}

/* ---- launch ---- */

static void stage_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct nh_stage *s = fabric_container_of(w, struct nh_stage, worker);
    if (s->rank->gate.combine && !nh_is_open(s->rank))
        snprintf(text, text_size, "nccl-ht's block %u waits for the kernel to open", s->pipeline / NH_PIPELINES);
    else
        snprintf(text, text_size, "nccl-ht's pipeline %u waits for its turn or for room to rank %u", s->pipeline,
                 s->target);
}

static const struct worker_role send_role = { .step = send_step, .describe = stage_describe };
static const struct worker_role sum_role = { .step = sum_step, .describe = stage_describe };

void nh_dispatch_launch(struct nh_rank *r)
{
    stages_launch(r, &r->token, &send_role, 1, false);
    gate_launch(r, false);
}

void nh_combine_launch(struct nh_rank *r)
{
    stages_launch(r, &r->row, &sum_role, NH_SUM_WARPS, true);
    gate_launch(r, true);
}
