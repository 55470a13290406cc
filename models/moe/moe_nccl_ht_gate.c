/* moe_nccl_ht_gate.c - the barriers of NCCL EP's high-throughput kernels (PROTOCOLS.md 1.19), and the warps that put
 * tokens and sums to other nodes.  Knows no stage. */
#include "models/moe/moe_nccl_ht.h"

#include <stdio.h>

/* ---- the barriers ---- */

enum gate_state { GATE_WORK, GATE_TELL, GATE_LOOK, GATE_CHUNKS };

/* Tells all ranks of the node, this one included.  The library adds to a counter of the node's first rank, and all
 * ranks look there: here each rank has a word for each, and afterwards looks at the first rank once. */
static bool gate_tell(struct nh_gate *k)
{
    const struct ht_rank *h = &k->rank->ht;
    return ht_node_tell(&k->worker, h, &k->next, h->g.self, NULL, SITE_NCCL_HT_TELL);
}

static bool gate_come(struct nh_gate *k)
{
    const struct nh_rank *r = k->rank;
    while (k->come < r->ht.g.local && ht_word_reached(k->worker.fabric, k->come, moe_word_make(r->ht.epoch, 1)))
        k->come++;
    return k->come == r->ht.g.local;
}

/* Whether all other nodes' chunks have come.  Blocks await them even if they need no token of them. */
static bool gate_chunks(struct nh_gate *k)
{
    const struct nh_rank *r = k->rank;
    const uint32_t chunks = nh_chunks(r);
    for (; k->awaited < (r->ht.g.nodes - 1) * chunks; k->awaited++)
        if (!nh_chunk_came(r, k->combine, ht_node_after(&r->ht.g, k->awaited / chunks), k->awaited % chunks))
            return false;
    return true;
}

static bool gate_behind(struct nh_gate *k)
{
    if (k->combine) return true;
    return gate_chunks(k) && fabric_load(k->worker.fabric, nh_word_finished(k->rank)) == k->rank->finished;
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
    case GATE_WORK: /* at dispatch's end the blocks have a barrier of the grid */
        if (!gate_behind(k)) return WORKER_WAIT;
        if (!k->combine) ht_scan_here(w, SITE_NCCL_HT_TAIL_READ, 1, 0);
        break;
    case GATE_TELL:
        if (!gate_tell(k) || !gate_come(k)) return WORKER_WAIT;
        if (r->ht.g.self) ht_scan_here(w, SITE_NCCL_HT_LOOK, 1, 0);
        break;
    case GATE_LOOK: /* after the look, a fence */
        if (fabric_signal(w, &open)) return WORKER_WAIT;
        if (!k->combine) return WORKER_DONE;
        break;
    case GATE_CHUNKS: return gate_chunks(k) ? WORKER_DONE : WORKER_WAIT;
    }
    k->state++;
    return WORKER_MORE;
}

static void gate_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct nh_gate *k = fabric_container_of(w, struct nh_gate, worker);
    const struct nh_rank *r = k->rank;
    const uint32_t chunks = nh_chunks(r);
    if (k->state == GATE_TELL)
        snprintf(text, text_size, "%s's barrier waits for rank %u", r->form->name, ht_neighbour(&r->ht.g, k->come));
    else if (k->awaited < (r->ht.g.nodes - 1) * chunks)
        snprintf(text, text_size, "the end of %s's kernel waits for chunk %u of rank %u", r->form->name,
                 k->awaited % chunks, ht_rail(&r->ht.g, ht_node_after(&r->ht.g, k->awaited / chunks)));
    else snprintf(text, text_size, "the end of %s's dispatch waits for its own blocks", r->form->name);
}

static const struct worker_role gate_role = { .step = gate_step, .describe = gate_describe };

void nh_gate_launch(struct nh_rank *r, bool combine)
{
    r->gate = (struct nh_gate){ .rank = r, .combine = combine };
    ht_kernel_add(&r->ht, &r->gate.worker, &gate_role, 0, 1);
    fabric_watch(&r->gate.worker, 0, r->ht.g.local, 0);
    if (!combine) fabric_watch(&r->gate.worker, nh_word_finished(r), 1, r->finished);
    if (r->ht.g.nodes > 1) fabric_watch(&r->gate.worker, nh_word_chunk(r, combine, 0, 0), r->ht.g.nodes * NH_CHUNKS, 0);
}

/* ---- what crosses nodes ---- */

static uint32_t others_of(const struct nh_rank *r) { return r->ht.g.nodes - 1; }

static uint32_t chunks_told(const struct nh_rank *r) { return r->form->tells_all ? NH_CHUNKS : nh_chunks(r); }

/* Tells the node that the puts of a chunk are done. */
static bool chunk_tell(struct nh_putter *p, bool combine, uint32_t node, uint32_t chunk, uint32_t queue)
{
    const struct nh_rank *r = p->rank;
    return ht_word_send(&p->worker, &r->ht, ht_rail(&r->ht.g, node), queue,
                        nh_word_chunk(r, combine, r->ht.g.node, chunk), 1);
}

/* Puts the two parts of a token, its values with scales and its probabilities for the node.  False: step again. */
static bool token_put(struct nh_putter *p, uint32_t node, uint32_t place)
{
    const struct nh_rank *r = p->rank;
    const struct ht_slot *form = &r->ht.dispatch_slot;
    const uint64_t sent = r->map.send + p->token * r->send_bytes, to = r->map.far + place * (uint64_t)form->stored;
    for (; p->part < 2; p->part++) {
        const uint32_t from = p->part ? form->weight : 0, size = p->part ? form->bytes - from : form->weight;
        const uint64_t slice = p->part ? (uint64_t)node * size : 0;
        const struct fabric_write write = { .target_offset = to + (form->stored ? from : 0),
                                            .charge_bytes = size,
                                            .peer = ht_rail(&r->ht.g, node),
                                            .rows = 1,
                                            .queue = (uint16_t)p->number,
                                            .defer = true,
                                            .data = r->ht.base.fabric->heap + sent + (form->stored ? from + slice : 0),
                                            .size_bytes = form->stored ? size : 0 };
        if (fabric_put(&p->worker, &write, NULL)) return false;
    }
    p->part = 0;
    return true;
}

/* Dispatch: a warp puts every n-th chunk to all other nodes, those from its own number on first. */
static enum worker_step token_step(struct fabric_worker *w)
{
    struct nh_putter *p = fabric_container_of(w, struct nh_putter, worker);
    const struct nh_rank *r = p->rank;
    const uint32_t others = others_of(r), c = p->chunk / others, i = (p->chunk + r->ht.g.node) % others;
    const uint32_t node = i + (i >= r->ht.g.node), first = c * r->form->chunk;
    if (c >= chunks_told(r)) {
        for (; p->flushed < others; p->flushed++)
            if (fabric_flush(w, ht_rail(&r->ht.g, ht_node_after(&r->ht.g, p->flushed)), (uint16_t)p->number))
                return WORKER_WAIT;
        return WORKER_DONE;
    }
    if (!p->looked && first < r->ht.g.tokens) {
        ht_scan_here(w, SITE_NCCL_HT_MAP_READ, 2, r->form->chunk);
        p->looked = true;
        p->token = first;
        return WORKER_MORE;
    }
    for (; p->looked && p->token < moe_min(first + r->form->chunk, r->ht.g.tokens); p->token++) {
        if (!nh_goes_to_node(r, p->token, node)) continue;
        if (!token_put(p, node, (uint32_t)nh_row_of(r, r->ht.g.node, first + p->sent))) return WORKER_WAIT;
        p->sent++;
    }
    if (!chunk_tell(p, false, node, c, p->number)) return WORKER_WAIT;
    p->chunk += (p->chunk + 1) % others ? 1 : 1 + others * (nh_blocks(r) * r->form->pipelines - 1);
    p->sent = 0;
    p->looked = false;
    return WORKER_MORE;
}

/* ---- combine ---- */

/* How many of a node's tokens from `token` on, at most `most`, stand together and are all needed by this node; how many
 * there are in the chunk altogether. */
static uint32_t needed_together(const struct nh_rank *r, uint32_t node, uint32_t token, uint32_t end, uint32_t most)
{
    uint32_t count = 0;
    while (token + count < end && count < most && nh_needed(r, node, token + count)) count++;
    return count;
}
static uint32_t needed_in(const struct nh_rank *r, uint32_t node, uint32_t token, uint32_t end)
{
    uint32_t count = 0;
    for (; token < end; token++) count += nh_needed(r, node, token);
    return count;
}

/* Whether the block has made so many sums since the launch.  They are counted when NH_BATCH of a chunk are made, and at
 * the chunk's end. */
static bool sums_made(struct nh_putter *p, uint32_t sums)
{
    const struct nh_rank *r = p->rank;
    const uint32_t word = nh_word_made(r, p->number);
    const uint64_t least = r->made_before[p->number] + sums;
    if (fabric_load(p->worker.fabric, word) >= least) return true;
    fabric_watch(&p->worker, word, 1, least);
    return false;
}

static bool sums_put(struct nh_putter *p, uint32_t node, uint32_t rows, uint32_t queue)
{
    const struct nh_rank *r = p->rank;
    const struct ht_slot *form = &r->ht.combine_slot;
    const uint64_t from = r->map.red + nh_row_of(r, node, p->token) * form->stored;
    const struct fabric_write write = { .target_offset =
                                            r->map.back + nh_row_of(r, r->ht.g.node, p->token) * form->stored,
                                        .charge_bytes = (uint64_t)rows * form->bytes,
                                        .peer = ht_rail(&r->ht.g, node),
                                        .rows = (uint8_t)rows,
                                        .queue = (uint16_t)queue,
                                        .data = r->ht.base.fabric->heap + from,
                                        .size_bytes = rows * form->stored };
    return fabric_put(&p->worker, &write, NULL) == 0;
}

/* Combine: a block's warp puts the sums of the chunks that the block makes for other nodes, up to NH_BATCH that stand
 * together. */
static enum worker_step sums_step(struct fabric_worker *w)
{
    struct nh_putter *p = fabric_container_of(w, struct nh_putter, worker);
    const struct nh_rank *r = p->rank;
    const uint32_t others = others_of(r), c = p->chunk / others, node = ht_node_after(&r->ht.g, p->chunk % others);
    const uint32_t first = c * r->form->chunk, queue = c % r->ht.base.fabric->queue_count;
    if (c >= chunks_told(r)) return WORKER_DONE;
    const uint32_t end = moe_min(first + r->form->chunk, nh_tokens(r, node));
    if (!p->looked && first < end) {
        ht_scan_here(w, SITE_NCCL_HT_SUMS_LOOK, 1, r->form->chunk);
        p->looked = true;
        p->token = first;
        return WORKER_MORE;
    }
    const uint32_t all = first < end ? needed_in(r, node, first, end) : 0;
    while (p->looked && p->token < end && !nh_needed(r, node, p->token)) p->token++;
    if (p->looked && p->token < end) {
        const uint32_t rows = needed_together(r, node, p->token, end, NH_BATCH);
        const uint32_t made = (uint32_t)moe_align(p->sent + rows, NH_BATCH);
        if (!sums_made(p, p->before + moe_min(made, all)) || !sums_put(p, node, rows, queue)) return WORKER_WAIT;
        p->token += rows;
        p->sent += rows;
        return WORKER_MORE;
    }
    if (!chunk_tell(p, true, node, c, queue)) return WORKER_WAIT;
    p->chunk += nh_blocks(r);
    p->before += all;
    p->sent = 0;
    p->looked = false;
    return WORKER_MORE;
}

static void putter_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct nh_putter *p = fabric_container_of(w, struct nh_putter, worker);
    snprintf(text, text_size, "%s's warp %u waits for sums, or for room on its way to other nodes", p->rank->form->name,
             p->number);
}

static const struct worker_role token_role = { .step = token_step, .describe = putter_describe };
static const struct worker_role sums_role = { .step = sums_step, .describe = putter_describe };

void nh_putters_launch(struct nh_rank *r, bool combine)
{
    const uint32_t warps = nh_blocks(r) * (combine ? 1 : r->form->pipelines);
    for (uint32_t i = 0; i < warps; i++) {
        struct nh_putter *p = &r->putter[i];
        *p = (struct nh_putter){ .rank = r, .number = i, .chunk = combine ? i : i * others_of(r) };
        ht_kernel_add(&r->ht, &p->worker, combine ? &sums_role : &token_role, combine ? i : i / r->form->pipelines, 1);
        if (!combine) continue;
        r->made_before[i] = fabric_load(r->ht.base.fabric, nh_word_made(r, i));
        fabric_watch(&p->worker, nh_word_made(r, i), 1, 0);
    }
}
