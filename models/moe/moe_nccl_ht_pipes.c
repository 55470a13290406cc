/* moe_nccl_ht_pipes.c - dispatch and combine of NCCL EP's high-throughput kernels (PROTOCOLS.md 1.19): the stages that
 * tokens and rows go through.
 *
 * In the library one warp of a pipeline fills stages and others empty them, both in the order of items.  Here a stage
 * is a worker: it fills itself when the emptying warp has come so far that its ring has room, and is emptied in its
 * turn. */
#include "models/moe/moe_nccl_ht.h"

#include <stdio.h>
#include <string.h>

/* ---- what both kernels share ---- */

static const struct nh_item *item_of(const struct nh_stage *s, const struct nh_list *list)
{
    return list->item + list->first[s->pipeline] + s->number;
}

/* Whether a word of the stage's pipeline has counted so many items.  If not, the stage need not be stepped before. */
static bool counted(struct nh_stage *s, uint32_t word, uint32_t items)
{
    const struct nh_rank *r = s->rank;
    const uint64_t least = r->turned[word - nh_word_turn(r, 0)] + items;
    if (fabric_load(s->worker.fabric, word) >= least) return true;
    fabric_watch(&s->worker, word, 1, least);
    return false;
}

static bool passed(struct nh_stage *s, uint32_t items) { return counted(s, nh_word_turn(s->rank, s->pipeline), items); }

static void pass(struct nh_stage *s)
{
    fabric_signal_add(&s->worker, nh_word_turn(s->rank, s->pipeline), 1, SITE_NCCL_HT_SHARED_ADD);
    s->passed = true;
}

/* Takes the stage's next item.  If there is none, the stage is finished. */
static enum worker_step stage_next(struct nh_stage *s, const struct nh_list *list)
{
    s->number += list->stages;
    s->target = 0;
    s->state = 0;
    s->passed = false;
    if (list->first[s->pipeline] + s->number < list->first[s->pipeline + 1]) return WORKER_MORE;
    fabric_signal_add(&s->worker, nh_word_finished(s->rank), 1, SITE_NCCL_HT_SHARED_ADD);
    return WORKER_DONE;
}

/* Charges the stage's first item for what the block does before its first item. */
static void block_start(struct nh_stage *s, const struct nh_list *list)
{
    if (s->number < list->stages) ht_scan_here(&s->worker, SITE_NCCL_HT_START, 1, 0);
}

static void row_fetch(struct nh_stage *s, uint8_t site, uint64_t read_bytes)
{
    fabric_work(&s->worker,
                &(struct fabric_work){
                    .kind = FABRIC_WORK_COPY, .rows = 1, .warps = 1, .read_bytes = read_bytes, .site = site });
}

/* Charges what the thread does for the stage's token before it asks for stores or loads. */
static void ranks_walk(struct nh_stage *s, uint8_t site, struct site_given *given)
{
    fabric_work(&s->worker, &(struct fabric_work){ .kind = FABRIC_WORK_SCAN, .rows = 1, .site = site, .given = given });
}

/* Whether the puts of a chunk have come from a node.  If not, the stage need not be stepped before. */
static bool chunk_came(struct nh_stage *s, bool combine, uint32_t node, uint32_t chunk)
{
    if (nh_chunk_came(s->rank, combine, node, chunk)) return true;
    fabric_watch(&s->worker, nh_word_chunk(s->rank, combine, node, chunk), 1, moe_word_make(s->rank->ht.epoch, 1));
    return false;
}

/* Lets a stage watch the words of the chunks that its pipeline takes. */
static void chunks_watch(struct nh_stage *s, const struct nh_list *list, bool combine)
{
    const struct nh_rank *r = s->rank;
    for (uint32_t i = list->first[s->pipeline], last = UINT32_MAX; i < list->first[s->pipeline + 1]; i++) {
        const struct nh_item *item = &list->item[i];
        const uint32_t chunk = item->token / r->form->chunk;
        if (chunk == last || (combine && item->node != r->ht.g.node)) continue;
        for (uint32_t n = 1; n < r->ht.g.nodes; n++)
            fabric_watch(&s->worker, nh_word_chunk(r, combine, nh_node_before(r, n), chunk), 1, 0);
        last = chunk;
    }
}

static void stages_launch(struct nh_rank *r, const struct nh_list *list, const struct worker_role *role, uint32_t warps,
                          bool combine)
{
    r->finished = fabric_load(r->ht.base.fabric, nh_word_finished(r));
    for (uint32_t p = 0; p < r->pipelines; p++) {
        r->turned[2 * p] = fabric_load(r->ht.base.fabric, nh_word_turn(r, p));
        r->turned[2 * p + 1] = fabric_load(r->ht.base.fabric, nh_word_back(r, p));
        const uint32_t stages = moe_min(list->first[p + 1] - list->first[p], list->stages);
        for (uint32_t i = 0; i < stages; i++) {
            struct nh_stage *s = &r->stage[p * r->form->stages + i];
            *s = (struct nh_stage){ .rank = r, .pipeline = p, .number = i };
            ht_kernel_add(&r->ht, &s->worker, role, p / NH_PIPELINES, warps);
            fabric_watch(&s->worker, nh_word_turn(r, p), combine ? 2 : 1, 0);
            if (combine) fabric_watch(&s->worker, nh_word_open(r), 1, moe_word_make(r->ht.epoch, 1));
            if (r->ht.g.nodes > 1) chunks_watch(s, list, combine);
        }
        r->finished += stages;
    }
}

/* ---- dispatch ---- */

enum send_state { SEND_LOOK, SEND_LOAD, SEND_ASK, SEND_STORE, SEND_STORED };

/* Where a token that another node has put lies. */
static const uint8_t *far_at(const struct nh_rank *r, const struct nh_item *item)
{
    const uint64_t row = nh_row_of(r, item->node, item->token / r->form->chunk * r->form->chunk + item->from);
    return r->ht.base.fabric->heap + r->map.far + row * r->ht.dispatch_slot.stored;
}

static void token_fill(const void *context, uint8_t *slot)
{
    const struct nh_stage *s = context;
    const struct ht_rank *h = &s->rank->ht;
    const struct nh_item *item = item_of(s, &s->rank->token);
    if (item->kind == NH_FAR) memcpy(slot, far_at(s->rank, item), h->dispatch_slot.bytes);
    else nh_token_pack(s->rank, item->token, h->g.node, 1, slot);
}

/* Stores the token to its places on the node.  False: step again. */
static bool token_store(struct nh_stage *s)
{
    const struct nh_rank *r = s->rank;
    const struct ht_slot *form = &r->ht.dispatch_slot;
    const struct nh_item *item = item_of(s, &r->token);
    for (; s->target < nh_copies(r, item->node, item->token); s->target++) {
        const struct nh_place *place = &nh_places(r, item->node, item->token)[s->target];
        const struct fabric_write write = { .target_offset = r->map.in + (uint64_t)place->row * form->stored,
                                            .charge_bytes = form->bytes,
                                            .peer = ht_neighbour(&r->ht.g, place->rank),
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
 * asked for the stores of the form->in_flight tokens behind it. */
static bool stage_free(struct nh_stage *s)
{
    const struct nh_form *form = s->rank->form;
    return s->number < form->stages || passed(s, s->number - form->stages + form->in_flight + 1);
}

static enum worker_step send_step(struct fabric_worker *w)
{
    struct nh_stage *s = fabric_container_of(w, struct nh_stage, worker);
    const struct nh_rank *r = s->rank;
    const struct nh_item *item = item_of(s, &r->token);
    switch ((enum send_state)s->state) {
    case SEND_LOOK:
        if (!stage_free(s)) return WORKER_WAIT;
        if (item->kind == NH_FAR && !chunk_came(s, false, item->node, item->token / r->form->chunk)) return WORKER_WAIT;
        block_start(s, &r->token);
        if (item->token % NH_MAP_LOAD == 0 || s->number == 0) ht_scan_here(w, SITE_NCCL_HT_MAP_READ, 1, NH_MAP_LOAD);
        break;
    case SEND_LOAD: row_fetch(s, SITE_NCCL_HT_LOAD, r->ht.dispatch_slot.bytes); break;
    case SEND_ASK:
        if (!passed(s, s->number)) return WORKER_WAIT;
        ranks_walk(s, r->form->ask, &s->rank->ask[nh_copies(r, item->node, item->token)]);
        break;
    case SEND_STORE:
        if (!s->passed) pass(s);
        if (!token_store(s)) return WORKER_WAIT;
        break;
    case SEND_STORED: return stage_next(s, &r->token);
    }
    s->state++;
    return WORKER_MORE;
}

/* ---- combine ---- */

enum sum_state { SUM_OPEN, SUM_FETCH, SUM_ADD, SUM_STORE, SUM_STORED };

static const struct nh_place *place_of(const struct nh_rank *r, const struct nh_item *item)
{
    return &nh_places(r, item->node, item->token)[item->from];
}

/* Where a row of combine lies on this rank: its own rows among the experts' output, other nodes' where they were put,
 * others in the pipeline's buffers. */
static uint8_t *row_here(const struct nh_stage *s, uint32_t number)
{
    const struct nh_rank *r = s->rank;
    const struct nh_item *item = r->row.item + r->row.first[s->pipeline] + number;
    const uint64_t stored = r->ht.combine_slot.stored;
    uint8_t *heap = r->ht.base.fabric->heap;
    if (item->kind == NH_FAR) return heap + r->map.back + nh_row_of(r, item->from, item->token) * stored;
    if (place_of(r, item)->rank == r->ht.g.self) return heap + r->map.out + place_of(r, item)->row * stored;
    return heap + r->map.came + ((uint64_t)s->pipeline * r->buffers + number % r->buffers) * stored;
}

static bool same_token(const struct nh_item *a, const struct nh_item *b)
{
    return a->token == b->token && a->node == b->node;
}

/* Whether the rows are of one token, and both of this node or both of others. */
static bool like(const struct nh_item *a, const struct nh_item *b) { return same_token(a, b) && a->kind == b->kind; }

static bool first_of(const struct nh_stage *s)
{
    const struct nh_item *item = item_of(s, &s->rank->row);
    return s->number == 0 || !same_token(item - 1, item);
}

static bool last_of(const struct nh_stage *s)
{
    const struct nh_list *list = &s->rank->row;
    const struct nh_item *item = item_of(s, list);
    return item + 1 == list->item + list->first[s->pipeline + 1] || !same_token(item + 1, item);
}

static void sum_run(void *context, uint64_t argument)
{
    const struct nh_stage *s = context;
    struct nh_rank *r = s->rank;
    const struct nh_item *item = item_of(s, &r->row);
    const uint8_t *row[HT_TOPK_MAX + HT_NODES_MAX];
    uint32_t count = 0;
    (void)argument;
    while (count <= s->number && same_token(item - count, item)) count++;
    if (item->kind == NH_NONE) count = 0;
    for (uint32_t i = 0; i < count; i++) row[i] = row_here(s, s->number + 1 - count + i);
    if (item->node == r->ht.g.node) {
        ht_token_combine(&r->ht, item->token, row, count);
        return;
    }
    const uint64_t at = nh_row_of(r, item->node, item->token) * r->ht.combine_slot.stored;
    ht_slots_reduce(&r->ht, row, count, r->ht.base.fabric->heap + r->map.red + at);
}

static void sum_work(struct nh_stage *s, uint8_t site, struct site_given *given, bool last)
{
    fabric_work(&s->worker, &(struct fabric_work){ .kind = FABRIC_WORK_SCAN,
                                                   .rows = 1,
                                                   .site = site,
                                                   .given = given,
                                                   .run = last ? sum_run : NULL,
                                                   .context = s });
}

/* Adds the row to its token's sum in registers, and gives the stage back; after the last row, rounds the sum into
 * shared memory.  Before the first row, the adding warps look for themselves whether the node has rows of the token. */
static void row_add(struct nh_stage *s, bool last)
{
    if (first_of(s)) ht_scan_here(&s->worker, SITE_NCCL_HT_NODE_LOOK, 1, 0);
    sum_work(s, s->rank->form->add, &s->rank->add, false);
    fabric_signal_add(&s->worker, nh_word_back(s->rank, s->pipeline), 1, SITE_NCCL_HT_SHARED_ADD);
    if (last) sum_work(s, s->rank->form->round, &s->rank->round, true);
    pass(s);
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
    if (item->kind == NH_NONE) return true;
    if (item->kind == NH_FAR || place_of(r, item)->rank == r->ht.g.self)
        return row_fetch(s, SITE_NCCL_HT_FETCH, form->bytes), true;
    const struct fabric_read read = { .source_offset = r->map.out + (uint64_t)place_of(r, item)->row * form->stored,
                                      .target = row_here(s, s->number),
                                      .charge_bytes = form->bytes,
                                      .size_bytes = form->stored,
                                      .peer = ht_neighbour(&r->ht.g, place_of(r, item)->rank),
                                      .warps = 1,
                                      .site = SITE_NCCL_HT_PULL };
    return fabric_get(&s->worker, &read) == 0;
}

/* A filling warp of NCCL EP has a lane for each row of a token on this node, and then for each sum of other nodes: as
 * many at a time as there are stages.  Its lanes go on together, once all their stages are free, and ask one by one. */
static bool lanes_free(struct nh_stage *s, uint32_t *lane)
{
    const struct nh_list *list = &s->rank->row;
    const struct nh_item *item = item_of(s, list), *end = list->item + list->first[s->pipeline + 1];
    const bool lanes = s->rank->form->lanes;
    uint32_t before = 0, behind = 1;
    while (lanes && before < s->number && like(item - before - 1, item)) before++;
    *lane = before % list->stages;
    while (lanes && item + behind < end && *lane + behind < list->stages && like(item + behind, item)) behind++;
    return s->number + behind <= list->stages ||
           counted(s, nh_word_back(s->rank, s->pipeline), s->number + behind - list->stages);
}

/* Whether the stage's row may be loaded.  A pipeline awaits the puts of all nodes before it begins with a chunk of own
 * tokens. */
static bool row_ready(struct nh_stage *s)
{
    const struct nh_rank *r = s->rank;
    const struct nh_item *item = item_of(s, &r->row);
    if (!nh_is_open(r)) return false;
    if (item->node != r->ht.g.node) return true;
    for (; s->target + 1 < r->ht.g.nodes; s->target++)
        if (!chunk_came(s, true, nh_node_before(r, s->target + 1), item->token / r->form->chunk)) return false;
    return true;
}

static enum worker_step sum_step(struct fabric_worker *w)
{
    struct nh_stage *s = fabric_container_of(w, struct nh_stage, worker);
    const struct nh_rank *r = s->rank;
    const bool last = last_of(s);
    uint32_t lane;
    switch ((enum sum_state)s->state) {
    case SUM_OPEN:
        if (!row_ready(s)) return WORKER_WAIT;
        block_start(s, &r->row);
        if (first_of(s)) ranks_walk(s, r->form->places, &s->rank->find);
        break;
    case SUM_FETCH:
        if (!lanes_free(s, &lane)) return WORKER_WAIT;
        if (lane) ht_scan_here(w, SITE_NCCL_HT_ASK_ROW, lane, 0);
        if (!row_load(s)) return WORKER_WAIT;
        break;
    case SUM_ADD:
        if (!passed(s, s->number)) return WORKER_WAIT;
        row_add(s, last);
        if (!last) s->state = SUM_STORE;
        break;
    case SUM_STORE: sum_store(s); break;
    case SUM_STORED:
        if (last && item_of(s, &r->row)->node != r->ht.g.node)
            fabric_signal_add(w, nh_word_made(r, s->pipeline / NH_PIPELINES), 1, SITE_NCCL_HT_SHARED_ADD);
        return stage_next(s, &r->row);
    }
    s->state++;
    return WORKER_MORE;
}

/* ---- launch ---- */

static void stage_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct nh_stage *s = fabric_container_of(w, struct nh_stage, worker);
    const struct nh_rank *r = s->rank;
    const bool combine = r->gate.combine;
    const struct nh_item *item = item_of(s, combine ? &r->row : &r->token);
    const bool waits = combine ? item->node == r->ht.g.node && s->target + 1 < r->ht.g.nodes : item->kind == NH_FAR;
    const uint32_t node = combine ? nh_node_before(r, s->target + 1) : item->node, chunk = item->token / r->form->chunk;
    if (combine && !nh_is_open(r))
        snprintf(text, text_size, "%s's block %u waits for the kernel to open", r->form->name,
                 s->pipeline / NH_PIPELINES);
    else if (s->state == 0 && waits && !nh_chunk_came(r, combine, node, chunk))
        snprintf(text, text_size, "%s's pipeline %u waits for chunk %u of rank %u", r->form->name, s->pipeline, chunk,
                 ht_rail(&r->ht.g, node));
    else snprintf(text, text_size, "%s's pipeline %u waits for its turn", r->form->name, s->pipeline);
}

static const struct worker_role send_role = { .step = send_step, .describe = stage_describe };
static const struct worker_role sum_role = { .step = sum_step, .describe = stage_describe };

/* Lets one more warp of each block of dispatch store rows of zeros between experts. */
static void gaps_launch(struct nh_rank *r)
{
    const uint32_t blocks = nh_blocks(r);
    ht_local_launch(&r->ht, r->gaps, blocks, 1,
                    (struct fabric_work){ .kind = FABRIC_WORK_COPY,
                                          .rows = moe_ceiling(r->gap_rows, blocks),
                                          .warps = 1,
                                          .write_bytes = (uint64_t)r->gap_rows * r->ht.dispatch_slot.row_bytes,
                                          .site = SITE_NCCL_HT_GAP });
}

void nh_dispatch_launch(struct nh_rank *r)
{
    if (r->gap_rows) gaps_launch(r);
    stages_launch(r, &r->token, &send_role, 1, false);
    if (r->ht.g.nodes > 1) nh_putters_launch(r, false);
    nh_gate_launch(r, false);
}

void nh_combine_launch(struct nh_rank *r)
{
    stages_launch(r, &r->row, &sum_role, r->sum_warps, true);
    if (r->ht.g.nodes > 1) nh_putters_launch(r, true);
    nh_gate_launch(r, true);
}
