/* moe_pplx_blocks.c - the GPU's part of pplx-garden's kernels (PROTOCOLS.md 1.18): a block on each SM, in four
 * kernels. */
#include "models/moe/moe_pplx.h"

#include <stdio.h>
#include <string.h>
#include "models/moe/formats.h"

/* ---- the grid's barrier, and what blocks tell ---- */

/* Takes part in the grid's barrier with this number (from 1).  True once all blocks have come; until then, *next is the
 * value that the worker's step must return. */
static bool grid_sync(struct pp_block *b, uint32_t number, enum worker_step *next)
{
    struct pp_rank *r = b->rank;
    if (b->synced < number && !b->arrives) {
        fabric_signal_add(&b->worker, pp_word_arrived(r), 1, SITE_NONE);
        b->arrives = true;
        *next = WORKER_MORE;
        return false;
    }
    if (b->arrives) {
        b->arrives = false;
        b->synced = (uint8_t)number;
        if (++r->arrived == number * r->blocks) fabric_signal_add(&b->worker, pp_word_open(r), 1, SITE_NONE);
    }
    *next = WORKER_WAIT;
    return pp_told(r, pp_word_open(r), r->opened, number);
}

/* Counts a block that has left its rows in send.  The last block tells the host.  False: step again. */
static bool staged_count(struct pp_block *b)
{
    struct pp_rank *r = b->rank;
    b->arrives = !b->arrives;
    if (b->arrives) fabric_signal_add(&b->worker, pp_word_arrived(r), 1, SITE_NONE);
    else if (++r->staged == r->blocks) fabric_signal_add(&b->worker, pp_word_to_host(r), 1, SITE_NONE);
    return !b->arrives;
}

/* The first block tells all ranks of the node, this one included.  False: step again. */
static bool near_tell(struct pp_block *b, enum pp_word word, bool release)
{
    const struct pp_rank *r = b->rank;
    return b->number || ht_node_tell(&b->worker, &r->ht, &b->target, pp_word(r, word, r->ht.g.rank), NULL,
                                     release ? SITE_PPLX_TELL : SITE_NONE);
}

/* Ends the kernel that sends.  The kernel that receives follows in the stream, unless it is launched separately. */
static enum worker_step sending_end(struct pp_block *b)
{
    if (!b->rank->launch.receives) return WORKER_DONE;
    fabric_work(&b->worker, &(struct fabric_work){ .kind = FABRIC_WORK_COPY, .site = SITE_PPLX_LAUNCH });
    b->receives = true;
    b->state = 0;
    b->target = 0;
    return WORKER_MORE;
}

static bool near_come(const struct pp_rank *r)
{
    for (uint32_t i = 0; i < r->ht.g.local; i++)
        if (!pp_come(r, PP_NEAR, pp_rank_first(r) + i)) return false;
    return true;
}

/* Moves rows by the whole block: each warp has a part of each row. */
static void rows_move(struct pp_block *b, uint8_t site, uint64_t read_bytes, uint64_t write_bytes,
                      void (*run)(void *context, uint64_t argument), uint64_t argument)
{
    fabric_work(&b->worker, &(struct fabric_work){ .kind = FABRIC_WORK_COPY,
                                                   .rows = PP_WARPS,
                                                   .read_bytes = read_bytes,
                                                   .write_bytes = write_bytes,
                                                   .site = site,
                                                   .given = site == SITE_PPLX_SUM ? &b->rank->sum : NULL,
                                                   .run = run,
                                                   .context = b,
                                                   .argument = argument });
}

/* ---- dispatch, sending ---- */

enum send_state { SEND_COUNT, SEND_OPEN, SEND_STAGE, SEND_STAGED, SEND_TOGETHER, SEND_NEAR, SEND_END, SEND_TELL };

static uint32_t row_bytes(const struct ht_slot *slot) { return slot->row_bytes + slot->scale_bytes; }

/* Where a choice's row goes, and how. */
struct way {
    uint32_t rank, number; /* number: the row's index among the rows for that rank */
    bool none, stores;     /* none: the choice has no expert; stores: the row goes by NVLink at once */
};
static struct way way_of(const struct pp_rank *r, uint32_t choice)
{
    const struct ht_geometry *g = &r->ht.g;
    const int32_t expert = ht_expert(&r->ht, g->rank, choice);
    if (expert < 0) return (struct way){ .none = true };
    struct way way = { .rank = (uint32_t)expert / g->local_experts };
    way.number = r->position[choice] - r->sent_before[way.rank * g->local_experts];
    way.stores = way.rank != g->rank && pp_is_near(r, way.rank) && way.number < r->first_rows;
    return way;
}

static void row_make(const struct pp_rank *r, uint32_t token, uint8_t *target)
{
    const struct ht_slot *s = &r->ht.dispatch_slot;
    const struct ht_tensors *t = &r->ht.t;
    memcpy(target, t->x + (size_t)token * s->row_bytes, s->row_bytes);
    memcpy(target + s->scale, t->scales + (size_t)token * s->scale_bytes, s->scale_bytes);
}

static void stage_run(void *context, uint64_t argument)
{
    const struct pp_block *b = context;
    const struct pp_rank *r = b->rank;
    (void)argument;
    for (uint32_t j = 0; j < r->ht.g.topk; j++) {
        const uint32_t choice = b->item * r->ht.g.topk + j;
        const struct way way = way_of(r, choice);
        if (!way.none && !way.stores)
            row_make(r, b->item, r->ht.base.fabric->heap + pp_dispatched(r, r->map.send, r->position[choice]));
    }
}

static void row_fill(const void *context, uint8_t *target)
{
    const struct pp_block *b = context;
    row_make(b->rank, b->item, target);
}

/* Loads a token, and leaves a row in send for each of its choices that is not stored by NVLink. */
static void token_stage(struct pp_block *b)
{
    const struct pp_rank *r = b->rank;
    const uint32_t topk = r->ht.g.topk, bytes = row_bytes(&r->ht.dispatch_slot);
    uint32_t copies = 0;
    for (uint32_t j = 0; j < topk; j++) {
        const struct way way = way_of(r, b->item * topk + j);
        copies += !way.none && !way.stores;
    }
    ht_scan_here(&b->worker, SITE_PPLX_PLACES_READ, 1, 0);
    rows_move(b, SITE_PPLX_STAGE_ROW, bytes, (uint64_t)copies * bytes, stage_run, 0);
}

/* Stores a token's rows by NVLink.  False: step again. */
static bool token_store(struct pp_block *b)
{
    const struct pp_rank *r = b->rank;
    const struct ht_slot *s = &r->ht.dispatch_slot;
    if (!b->loaded && !pp_quick(r)) {
        ht_scan_here(&b->worker, SITE_PPLX_PLACES_READ, 1, 0);
        rows_move(b, SITE_PPLX_LOAD_ROW, row_bytes(s), 0, NULL, 0);
    }
    b->loaded = true;
    for (; b->target < r->ht.g.topk; b->target++) {
        const struct way way = way_of(r, b->item * r->ht.g.topk + b->target);
        if (way.none || !way.stores) continue;
        const uint64_t to = (uint64_t)r->ht.g.rank * r->first_rows + way.number;
        const struct fabric_write write = { .target_offset = pp_dispatched(r, r->map.recv, to),
                                            .charge_bytes = row_bytes(s),
                                            .peer = (uint16_t)way.rank,
                                            .rows = PP_WARPS,
                                            .site = SITE_PPLX_STORE_ROW,
                                            .fill = s->stored ? row_fill : NULL,
                                            .data = b,
                                            .size_bytes = s->stored ? row_bytes(s) : 0 };
        if (fabric_store(&b->worker, &write)) return false;
    }
    b->target = 0;
    b->loaded = false;
    return true;
}

/* The first block counts all choices, tells the host, and adds the counts up. */
static void choices_count(struct pp_block *b)
{
    enum { THREADS = 32 * PP_WARPS };
    const struct pp_rank *r = b->rank;
    const uint32_t choices = r->ht.g.tokens * r->ht.g.topk;
    ht_scan_here(&b->worker, SITE_PPLX_CHOICES_COUNT, (choices + THREADS - 1) / THREADS, 4 * (uint64_t)choices);
    fabric_signal_add(&b->worker, pp_word_to_host(r), 1, SITE_NONE);
    ht_scan_here(&b->worker, SITE_PPLX_CHOICES_SUM, 1, 0);
}

static bool block_next(struct pp_block *b)
{
    b->item += b->rank->blocks;
    return b->item < b->rank->ht.g.tokens;
}

static void state_set(struct pp_block *b, uint8_t state)
{
    b->state = state;
    b->item = b->number;
    b->target = 0;
}

static enum worker_step dispatch_send_step(struct fabric_worker *w)
{
    struct pp_block *b = fabric_container_of(w, struct pp_block, worker);
    const struct pp_rank *r = b->rank;
    const uint32_t last = pp_barriers_sending(r);
    enum worker_step next;
    if (b->state == SEND_COUNT) {
        b->state = SEND_OPEN;
        if (b->number == 0) return choices_count(b), WORKER_MORE;
    }
    if (b->state == SEND_OPEN) {
        if (!grid_sync(b, 1, &next)) return next;
        state_set(b, b->number < r->ht.g.tokens ? SEND_STAGE : SEND_STAGED);
    }
    if (b->state == SEND_STAGE) {
        token_stage(b);
        if (!block_next(b)) state_set(b, SEND_STAGED);
        return WORKER_MORE;
    }
    if (b->state == SEND_STAGED) {
        if (!staged_count(b)) return WORKER_MORE;
        b->state = SEND_TOGETHER;
    }
    if (b->state == SEND_TOGETHER) {
        if (last == 3 && !grid_sync(b, 2, &next)) return next;
        state_set(b, b->number < r->ht.g.tokens ? SEND_NEAR : SEND_END);
    }
    if (b->state == SEND_NEAR) {
        if (!token_store(b)) return WORKER_WAIT;
        if (!block_next(b)) state_set(b, SEND_END);
        return WORKER_MORE;
    }
    if (b->state == SEND_END) {
        if (!grid_sync(b, last, &next)) return next;
        b->state = SEND_TELL;
    }
    return near_tell(b, PP_NEAR, true) ? sending_end(b) : WORKER_WAIT;
}

/* ---- dispatch, receiving ---- */

enum recv_state { RECV_KNOWN, RECV_NEAR, RECV_SYNC, RECV_TELL, RECV_FAR };

/* Where a row that has come lies.  *read says whether it lies in another rank's send and must be read from there. */
static uint64_t row_at(const struct pp_rank *r, const struct pp_row *x, bool *read)
{
    const uint32_t source = x->source;
    const bool own = source == r->ht.g.rank, first = x->number < r->first_rows;
    *read = !own && !first && pp_is_near(r, source);
    if (own || *read) return pp_dispatched(r, r->map.send, (uint64_t)r->before_here[source] + x->number);
    if (first) return pp_dispatched(r, r->map.recv, (uint64_t)source * r->first_rows + x->number);
    return pp_dispatched(r, r->map.recv, pp_rest_begin(r) + r->come_before[source] + x->number - r->first_rows);
}

static void take_run(void *context, uint64_t argument)
{
    const struct pp_block *b = context;
    const struct pp_rank *r = b->rank;
    const struct pp_row *x = &r->row[argument];
    uint8_t *heap = r->ht.base.fabric->heap;
    bool read;
    const uint64_t from = row_at(r, x, &read);
    memcpy(heap + pp_dispatched(r, r->map.out, x->place), heap + from, row_bytes(&r->ht.dispatch_slot));
}

/* Copies a row to its place among the rows of its expert.  False: step again. */
static bool row_take(struct pp_block *b)
{
    const struct pp_rank *r = b->rank;
    const struct pp_row *x = &r->row[b->item];
    const struct ht_slot *s = &r->ht.dispatch_slot;
    bool read;
    const uint64_t from = row_at(r, x, &read);
    const struct fabric_read get = { .source_offset = from,
                                     .target = r->ht.base.fabric->heap + pp_dispatched(r, r->map.out, x->place),
                                     .charge_bytes = row_bytes(s),
                                     .size_bytes = s->stored ? row_bytes(s) : 0,
                                     .peer = (uint16_t)x->source,
                                     .site = SITE_PPLX_PULL_ROW };
    const bool near = b->item >= r->far_rows;
    if (near && !b->loaded) ht_scan_here(&b->worker, SITE_PPLX_ROW_READ, 1, 12);
    b->loaded = true;
    if (read && fabric_get(&b->worker, &get)) return false;
    rows_move(b, read ? SITE_PPLX_KEEP_ROW : SITE_PPLX_TAKE_ROW, row_bytes(s), row_bytes(s), read ? NULL : take_run,
              b->item);
    b->item += r->blocks;
    b->loaded = false;
    return true;
}

static enum worker_step dispatch_recv_step(struct fabric_worker *w)
{
    struct pp_block *b = fabric_container_of(w, struct pp_block, worker);
    const struct pp_rank *r = b->rank;
    enum worker_step next;
    if (b->state == RECV_KNOWN) {
        if (!pp_told(r, pp_word_to_gpu(r), r->to_gpu, 1) || !near_come(r)) return WORKER_WAIT;
        b->item = r->far_rows + b->number;
        b->state = RECV_NEAR;
    }
    if (b->state == RECV_NEAR) {
        if (b->item < r->rows) return row_take(b) ? WORKER_MORE : WORKER_WAIT;
        b->state = RECV_SYNC;
    }
    if (b->state == RECV_SYNC) {
        if (!grid_sync(b, pp_barriers_sending(r) + 1, &next)) return next;
        b->state = RECV_TELL;
    }
    if (b->state == RECV_TELL) {
        if (!near_tell(b, PP_READ, false)) return WORKER_WAIT;
        state_set(b, RECV_FAR);
    }
    if (!pp_told(r, pp_word_to_gpu(r), r->to_gpu, 2)) return WORKER_WAIT;
    if (b->item >= r->far_rows) return WORKER_DONE;
    return row_take(b) ? WORKER_MORE : WORKER_WAIT;
}

/* ---- combine, sending ---- */

enum back_state { BACK_BEGIN, BACK_STAGE, BACK_STAGED, BACK_OPEN, BACK_NEAR, BACK_END, BACK_TELL };

/* How many of the block's next rows, all before `end`, are moved together. */
static uint32_t rows_together(const struct pp_block *b, uint32_t end)
{
    return moe_min((end - b->item + b->rank->blocks - 1) / b->rank->blocks, PP_STAGES);
}

static uint64_t made_at(const struct pp_rank *r, const struct pp_row *x)
{
    return pp_returned(r, r->map.made, x->place);
}

static void return_run(void *context, uint64_t argument)
{
    const struct pp_block *b = context;
    const struct pp_rank *r = b->rank;
    uint8_t *heap = r->ht.base.fabric->heap;
    for (uint64_t i = 0; i < argument; i++) {
        const struct pp_row *x = &r->row[b->item + i * r->blocks];
        const uint64_t to = pp_returned(r, r->map.send, (uint64_t)r->come_before[x->source] + x->number);
        memcpy(heap + to, heap + made_at(r, x), r->ht.combine_slot.stored);
    }
}

/* Loads `rows` rows together and returns them by NVLink.  False: step again. */
static bool rows_return(struct pp_block *b, uint32_t rows)
{
    const struct pp_rank *r = b->rank;
    const struct ht_slot *s = &r->ht.combine_slot;
    if (!b->loaded) rows_move(b, SITE_PPLX_LOAD_ROW, (uint64_t)rows * s->bytes, 0, NULL, 0);
    b->loaded = true;
    for (; b->target < rows; b->target++) {
        const struct pp_row *x = &r->row[b->item + b->target * r->blocks];
        const struct fabric_write write = {
            .target_offset = pp_returned(r, r->map.recv, (uint64_t)r->before_here[x->source] + x->number),
            .charge_bytes = s->bytes,
            .peer = (uint16_t)x->source,
            .rows = PP_WARPS,
            .site = SITE_PPLX_STORE_ROW,
            .data = r->ht.base.fabric->heap + made_at(r, x),
            .size_bytes = s->stored,
        };
        if (fabric_store(&b->worker, &write)) return false;
    }
    b->target = 0;
    b->loaded = false;
    b->item += rows * r->blocks;
    return true;
}

static enum worker_step combine_send_step(struct fabric_worker *w)
{
    struct pp_block *b = fabric_container_of(w, struct pp_block, worker);
    const struct pp_rank *r = b->rank;
    enum worker_step next;
    if (b->state == BACK_BEGIN) { /* checks that each peer of the node has read this rank's rows */
        if (r->ht.g.local > 1) ht_scan_here(w, SITE_PPLX_PEERS_PEEK, 1, 0);
        ht_scan_here(w, SITE_PPLX_ROW_READ, 1, 12);
        state_set(b, BACK_STAGE);
        return WORKER_MORE;
    }
    if (b->state == BACK_STAGE) {
        if (b->item < r->far_rows) {
            const uint32_t rows = rows_together(b, r->far_rows);
            const uint64_t bytes = (uint64_t)rows * r->ht.combine_slot.bytes;
            rows_move(b, SITE_PPLX_RETURN_ROWS, bytes, bytes, return_run, rows);
            b->item += rows * r->blocks;
            return WORKER_MORE;
        }
        b->state = BACK_STAGED;
    }
    if (b->state == BACK_STAGED) {
        if (!staged_count(b)) return WORKER_MORE;
        b->state = BACK_OPEN;
    }
    if (b->state == BACK_OPEN) {
        if (!grid_sync(b, 1, &next)) return next;
        b->state = BACK_NEAR;
    }
    if (b->state == BACK_NEAR) {
        if (b->item < r->rows) return rows_return(b, rows_together(b, r->rows)) ? WORKER_MORE : WORKER_WAIT;
        b->state = BACK_END;
    }
    if (b->state == BACK_END) {
        if (!grid_sync(b, 2, &next)) return next;
        state_set(b, BACK_TELL);
    }
    return near_tell(b, PP_NEAR, true) ? sending_end(b) : WORKER_WAIT;
}

/* ---- combine, receiving ---- */

enum sum_state { SUM_BEGIN, SUM_AWAIT, SUM_TOKENS };

static void sum_run(void *context, uint64_t argument)
{
    const struct pp_block *b = context;
    const struct pp_rank *r = b->rank;
    const struct ht_geometry *g = &r->ht.g;
    const uint16_t *row[HT_TOPK_MAX];
    float weight[HT_TOPK_MAX];
    uint32_t count = 0;
    (void)argument;
    for (uint32_t j = 0; j < g->topk; j++) {
        const uint32_t at = r->position[b->item * g->topk + j];
        if (at == UINT32_MAX) continue;
        row[count] = (const uint16_t *)(const void *)(r->ht.base.fabric->heap + pp_returned(r, r->map.recv, at));
        weight[count++] = ht_weight(&r->ht, g->rank, b->item, j);
    }
    format_rows_reduce(row, weight, count, g->hidden, r->ht.t.combined_x + (size_t)b->item * g->hidden);
}

static enum worker_step combine_recv_step(struct fabric_worker *w)
{
    struct pp_block *b = fabric_container_of(w, struct pp_block, worker);
    const struct pp_rank *r = b->rank;
    const uint64_t bytes = r->ht.combine_slot.bytes;
    enum worker_step next;
    if (b->state == SUM_BEGIN) {
        ht_scan_here(w, SITE_PPLX_PLACES_READ, 1, 0);
        state_set(b, SUM_AWAIT);
        return WORKER_MORE;
    }
    if (b->state == SUM_AWAIT) {
        if (!pp_told(r, pp_word_to_gpu(r), r->to_gpu, 1) || !near_come(r)) return WORKER_WAIT;
        b->state = SUM_TOKENS;
    }
    if (b->item < r->ht.g.tokens) {
        rows_move(b, SITE_PPLX_SUM, r->ht.g.topk * bytes, bytes, sum_run, 0);
        b->item += r->blocks;
        return WORKER_MORE;
    }
    return grid_sync(b, pp_barriers_sending(r) + 1, &next) ? WORKER_DONE : next;
}

/* ---- launch ---- */

static enum worker_step dispatch_step(struct fabric_worker *w)
{
    const struct pp_block *b = fabric_container_of(w, struct pp_block, worker);
    return b->receives ? dispatch_recv_step(w) : dispatch_send_step(w);
}

static enum worker_step combine_step(struct fabric_worker *w)
{
    const struct pp_block *b = fabric_container_of(w, struct pp_block, worker);
    return b->receives ? combine_recv_step(w) : combine_send_step(w);
}

static void block_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct pp_block *b = fabric_container_of(w, struct pp_block, worker);
    const struct pp_rank *r = b->rank;
    const bool awaits = b->receives && b->state == (r->launch.combine ? (uint8_t)SUM_AWAIT : (uint8_t)RECV_KNOWN);
    uint32_t missing = 0;
    while (missing < r->ht.g.local && pp_come(r, PP_NEAR, pp_rank_first(r) + missing)) missing++;
    if (awaits && missing < r->ht.g.local)
        snprintf(text, text_size, "pplx block %u waits for rank %u", b->number, pp_rank_first(r) + missing);
    else snprintf(text, text_size, "pplx block %u waits for other blocks, the host, or room", b->number);
}

static const struct worker_role dispatch_role = { .step = dispatch_step, .describe = block_describe };
static const struct worker_role combine_role = { .step = combine_step, .describe = block_describe };

void pp_blocks_launch(struct pp_rank *r)
{
    const bool works = r->launch.sends || r->launch.receives;
    r->arrived = r->staged = 0;
    for (uint32_t i = 0; works && i < r->blocks; i++) {
        struct pp_block *b = &r->block[i];
        *b = (struct pp_block){ .rank = r, .number = i, .receives = !r->launch.sends };
        ht_kernel_add(&r->ht, &b->worker, r->launch.combine ? &combine_role : &dispatch_role, i, PP_WARPS);
        fabric_watch(&b->worker, pp_word_open(r), 1, 0);
        if (!r->launch.receives) continue;
        fabric_watch(&b->worker, pp_word_to_gpu(r), 1, 0);
        fabric_watch(&b->worker, pp_word(r, PP_NEAR, pp_rank_first(r)), r->ht.g.local, 0);
    }
}
