/* moe_mega_tiles.c - MegaMoE: the warps that load and multiply blocks, and those that take the results; see
 * moe_mega.h.  Knows no dispatch. */
#include "models/moe/moe_mega.h"

#include <stdio.h>
#include <string.h>
#include "models/moe/formats.h"

/* ---- the order of blocks (scheduler/mega_moe.cuh) ---- */

static uint32_t columns_of(const struct mega_rank *r, bool second)
{
    return (second ? r->ht.g.hidden : 2 * r->intermediate) / MEGA_COLUMNS;
}

static uint32_t wave_end(const struct mega_rank *r, uint32_t expert)
{
    return moe_min((expert / r->wave + 1) * r->wave, r->ht.g.local_experts);
}

static uint32_t expert_blocks(const struct mega_rank *r, uint32_t expert, bool second)
{
    return (r->block_before[expert + 1] - r->block_before[expert]) * columns_of(r, second);
}

/* Moves to the SM's next block.  False: there is none left. */
static bool block_next(struct mega_sm *s)
{
    const struct mega_rank *r = s->rank;
    struct mega_order *o = &s->order;
    while (o->expert < r->ht.g.local_experts) {
        const uint32_t first = o->expert / r->wave * r->wave, end = wave_end(r, o->expert);
        for (; o->expert < end; o->expert++) {
            const uint32_t blocks = expert_blocks(r, o->expert, o->second), columns = columns_of(r, o->second);
            if (o->number < blocks) {
                s->block = (struct mega_block){
                    .expert = o->expert, .rows = o->number / columns, .column = o->number % columns, .second = o->second
                };
                o->number += r->ht.base.options->num_sms;
                return true;
            }
            o->number -= blocks;
        }
        if (!o->second) o->expert = first;
        o->second = !o->second;
    }
    return false;
}

/* ---- the tensor warps ---- */

/* The bytes of rows x depth values in FP8 (with `half`, in FP4) and of the scales of scaled_rows rows. */
static uint64_t values_bytes(uint64_t rows, uint64_t depth, bool half, uint64_t scaled_rows)
{
    return rows * depth / (half ? 2 : 1) + scaled_rows * depth / MEGA_SCALED;
}

/* How many bytes of rows come from memory and not from the L2.  Each SM of a pair loads as many rows as half a block
 * has.  One starts at the first row, the other in the middle of the block's tokens.  So both also load rows behind the
 * tokens.  Those rows are left from earlier calls, and weights have driven them out of the L2.  The first block of
 * columns brings them back. */
static uint64_t stale_bytes(const struct mega_rank *r, const struct mega_block *b, uint64_t depth)
{
    const uint64_t rows = moe_align(mega_block_rows(r, b), 16), scaled = moe_align(r->block_rows, MEGA_COLUMNS);
    return b->column ? 0 : values_bytes((r->block_rows - rows) / 2, depth, false, scaled - rows);
}

/* Charges for multiplying a block.  A pair of SMs multiplies two blocks of columns by the same rows.  Each SM loads
 * half of the rows and all scales.  One warp loads the weights, another loads the rows, a third multiplies.  The L2 has
 * the weights that another block of rows has used, and the rows, which have just come. */
static void block_multiply(struct mega_sm *s)
{
    struct mega_rank *r = s->rank;
    struct mega_given *given = &r->given[s->block.second];
    const uint64_t depth = s->block.second ? r->intermediate : r->ht.g.hidden;
    const bool again = s->block.rows > 0;
    fabric_work(&s->tensor, &(struct fabric_work){
                                .kind = FABRIC_WORK_COPY,
                                .rows = 1,
                                .warps = 1,
                                .site = again ? SITE_MEGA_WEIGHTS_AGAIN : SITE_MEGA_WEIGHTS,
                                .given = again ? &given->again : NULL,
                                .read_bytes = again ? 0 : values_bytes(MEGA_COLUMNS, depth, true, MEGA_COLUMNS) });
    fabric_work(&s->tensor, &(struct fabric_work){ .kind = FABRIC_WORK_COPY,
                                                   .rows = 1,
                                                   .warps = 1,
                                                   .site = s->waited ? SITE_MEGA_ROWS_AWAITED : SITE_MEGA_ROWS,
                                                   .given = s->waited ? &given->rows_awaited : &given->rows,
                                                   .read_bytes = stale_bytes(r, &s->block, depth) });
    const uint32_t sixteens = (mega_block_rows(r, &s->block) + 15) / 16;
    fabric_work(&s->tensor, &(struct fabric_work){ .kind = FABRIC_WORK_COPY,
                                                   .rows = 1,
                                                   .warps = 1,
                                                   .site = SITE_MEGA_MULTIPLY,
                                                   .given = &given->multiply[sixteens - 1] });
}

void mega_given_make(struct mega_rank *r)
{
    for (uint32_t second = 0; second < 2; second++) {
        struct mega_given *given = &r->given[second];
        const uint64_t depth = second ? r->intermediate : r->ht.g.hidden,
                       scaled = moe_align(r->block_rows, MEGA_COLUMNS);
        given->again.size[0] = values_bytes(MEGA_COLUMNS, depth, true, MEGA_COLUMNS);
        given->rows.size[0] = values_bytes(r->block_rows / 2, depth, false, scaled);
        given->rows_awaited = given->rows;
        for (uint32_t i = 0; i < MEGA_SIXTEENS; i++) {
            given->multiply[i].size[0] = 16 * (i + 1);
            given->multiply[i].size[1] = depth;
        }
    }
    r->sum_given.size[0] = r->ht.g.topk;
}

/* Whether the block can be multiplied: its rows have come; for linear 2, linear 1 has done all their columns.  If not,
 * the SM joins the list of SMs that wait for the rows. */
static bool block_ready(struct mega_sm *s)
{
    struct mega_rank *r = s->rank;
    const uint32_t block = mega_block_number(r, &s->block);
    const bool ready =
        s->block.second ? r->activated[block] == columns_of(r, false) : r->come[block] == mega_block_rows(r, &s->block);
    if (ready) return true;
    if (!s->registered) {
        s->waiting = r->waiting[block];
        r->waiting[block] = (uint16_t)(s->number + 1);
        s->registered = true;
    }
    s->waited = true;
    return false;
}

static void epilogue_ring(struct mega_sm *s)
{
    if (!s->epilogue_waits) return;
    s->epilogue_waits = false;
    fabric_signal_add(&s->tensor, mega_word_epilogue(s), 1, SITE_MEGA_SHARED_ADD);
}

static enum worker_step tensor_step(struct fabric_worker *w)
{
    struct mega_sm *s = fabric_container_of(w, struct mega_sm, tensor);
    if (!mega_open(s->rank, 1)) return WORKER_WAIT;
    if (s->loaded) { /* the block has been multiplied into an accumulator */
        s->loaded = false;
        s->made[s->multiplied++ % MEGA_ACCUMULATORS] = s->block;
        epilogue_ring(s);
    }
    if (!s->chosen) {
        if (!block_next(s)) {
            s->ended = true;
            epilogue_ring(s);
            return WORKER_DONE;
        }
        s->chosen = true;
    }
    if (!block_ready(s)) return WORKER_WAIT;
    s->tensor_waits = s->multiplied - s->taken == MEGA_ACCUMULATORS;
    if (s->tensor_waits) return WORKER_WAIT;
    block_multiply(s);
    s->chosen = s->waited = false;
    s->loaded = true;
    return WORKER_MORE;
}

static void tensor_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct mega_sm *s = fabric_container_of(w, struct mega_sm, tensor);
    snprintf(text, text_size, "mega-moe block %u of SM %u waits for %s of expert %u", s->multiplied, s->number,
             s->block.second ? "linear 1" : "rows", s->block.expert);
}

static const struct worker_role tensor_role = { .step = tensor_step, .describe = tensor_describe };

void mega_tensor_launch(struct mega_rank *r, struct mega_sm *s)
{
    ht_kernel_add(&r->ht, &s->tensor, &tensor_role, s->number, MEGA_TENSOR_WARPS);
    fabric_watch(&s->tensor, mega_word_open(r), 1, r->opens + 1);
    fabric_watch(&s->tensor, mega_word_tensor(s), 1, 0);
}

/* ---- the epilogue ---- */

static const struct mega_block *block_made(const struct mega_sm *s) { return &s->made[s->taken % MEGA_ACCUMULATORS]; }

/* Activates a block of linear 1: each pair of values, gate and up, becomes one value in FP8. */
static void activate(struct mega_sm *s)
{
    const struct mega_block *b = block_made(s);
    const uint32_t rows = mega_block_rows(s->rank, b);
    fabric_work(&s->epilogue,
                &(struct fabric_work){ .kind = FABRIC_WORK_COPY,
                                       .rows = moe_min(rows, MEGA_EPILOGUE_WARPS),
                                       .site = SITE_MEGA_ACTIVATE,
                                       .write_bytes = values_bytes(rows, MEGA_COLUMNS / 2, false, rows) });
}

/* The rows of a block that go back to one peer.  Their choices have consecutive numbers at the peer, because an
 * expert's rows from one rank are in the order of choices. */
struct mega_rows {
    const struct mega_rank *rank;
    const struct mega_block *block;
    uint32_t count, choice; /* how many rows go to the peer; the number, at the peer, of the first row's choice */
    uint16_t peer;
};

static uint32_t block_first(const struct mega_rank *r, const struct mega_block *b)
{
    return r->row_before[b->expert] + b->rows * r->block_rows;
}

static struct mega_rows rows_of(const struct mega_rank *r, const struct mega_block *b, uint16_t peer)
{
    const uint32_t first = block_first(r, b), end = first + mega_block_rows(r, b);
    struct mega_rows rows = { .rank = r, .block = b, .peer = peer };
    for (uint32_t row = first; row < end; row++) {
        if (r->source[row] != peer) continue;
        if (!rows.count++) rows.choice = r->choice[row];
    }
    return rows;
}

/* Makes the expert's result for one row in one block of columns: the row's values times its weight. */
static void part_make(const struct mega_rank *r, uint32_t row, uint32_t column, uint16_t *out)
{
    const struct moe_options *o = r->ht.base.options;
    const struct ht_slot *slot = &r->ht.dispatch_slot;
    const uint8_t *from = r->ht.base.fabric->heap + r->map.pool + (uint64_t)row * slot->stored;
    float scale, weight;
    if (o->ue8m0) scale = format_f32_from_ue8m0(from[slot->scale + column]);
    else memcpy(&scale, from + slot->scale + column * sizeof scale, sizeof scale);
    memcpy(&weight, from + slot->weight + mega_choice_of(r, row) % r->ht.g.topk * sizeof weight, sizeof weight);
    format_row_from_fp8(from + column * MEGA_COLUMNS, &scale, MEGA_COLUMNS, out);
    for (uint32_t i = 0; i < MEGA_COLUMNS; i++) out[i] = format_bf16_from_f32(format_f32_from_bf16(out[i]) * weight);
}

static void rows_fill(const void *context, uint8_t *target)
{
    const struct mega_rows *rows = context;
    const struct mega_rank *r = rows->rank;
    const uint32_t first = block_first(r, rows->block), end = first + mega_block_rows(r, rows->block);
    for (uint32_t row = first; row < end; row++) {
        if (r->source[row] != rows->peer) continue;
        part_make(r, row, rows->block->column, (uint16_t *)(void *)target);
        target += 2 * MEGA_COLUMNS;
    }
}

/* Sends the block's rows back, rank after rank.  A warp sends two rows at a time.  False: step again later. */
static bool rows_return(struct mega_sm *s)
{
    const struct mega_rank *r = s->rank;
    const struct mega_block *b = block_made(s);
    const bool payload = r->ht.base.fabric->payload;
    for (; s->peer < r->ht.g.ranks; s->peer++) {
        const struct mega_rows rows = rows_of(r, b, (uint16_t)s->peer);
        const uint32_t pairs = (rows.count + 1) / 2, bytes = 2 * MEGA_COLUMNS * rows.count;
        const uint64_t at = b->column * r->map.back_rows + rows.choice;
        const struct fabric_write write = { .target_offset = payload ? r->map.back + at * 2 * MEGA_COLUMNS : 0,
                                            .charge_bytes = bytes,
                                            .peer = (uint16_t)s->peer,
                                            .warps = (uint8_t)moe_min(pairs, MEGA_EPILOGUE_WARPS),
                                            .rows = (uint8_t)pairs,
                                            .site = SITE_MEGA_RETURN,
                                            .fill = payload ? rows_fill : NULL,
                                            .data = &rows,
                                            .size_bytes = payload ? bytes : 0 };
        if (rows.count && fabric_store(&s->epilogue, &write)) return false;
    }
    s->peer = 0;
    return true;
}

static void block_taken(struct mega_sm *s)
{
    struct mega_rank *r = s->rank;
    const struct mega_block *b = block_made(s);
    const uint32_t block = mega_block_number(r, b);
    if (!b->second && ++r->activated[block] == columns_of(r, false)) mega_waiting_wake(r, &s->epilogue, block);
    s->taken++;
    s->moved = false;
    if (!s->tensor_waits) return;
    s->tensor_waits = false;
    fabric_signal_add(&s->epilogue, mega_word_tensor(s), 1, SITE_MEGA_SHARED_ADD);
}

/* ---- the sum ---- */

static void sum_run(void *context, uint64_t argument)
{
    const struct mega_sm *s = context;
    const struct mega_rank *r = s->rank;
    const struct ht_geometry *g = &r->ht.g;
    const uint32_t end = moe_min(s->token + (uint32_t)argument, g->tokens);
    for (uint32_t t = s->token; t < end; t++)
        for (uint32_t c = 0; c < g->hidden / MEGA_COLUMNS; c++) {
            const uint16_t *row[HT_TOPK_MAX];
            uint32_t count = 0;
            for (uint32_t j = 0; j < g->topk; j++) {
                const uint32_t choice = r->place[t * g->topk + j];
                const uint64_t at = r->map.back + (c * r->map.back_rows + choice) * 2 * MEGA_COLUMNS;
                if (choice != UINT32_MAX) row[count++] = (const uint16_t *)(const void *)(r->ht.base.fabric->heap + at);
            }
            format_rows_reduce(row, NULL, count, MEGA_COLUMNS,
                               r->combined + (uint64_t)t * g->hidden + (uint64_t)c * MEGA_COLUMNS);
        }
}

static enum worker_step sum_step(struct mega_sm *s)
{
    struct mega_rank *r = s->rank;
    const struct ht_geometry *g = &r->ht.g;
    if (s->summed) s->token += MEGA_EPILOGUE_WARPS * r->ht.base.options->num_sms;
    s->summed = true;
    if (s->token >= g->tokens) return WORKER_DONE;
    const uint32_t rows = moe_min(g->tokens - s->token, MEGA_EPILOGUE_WARPS);
    uint32_t choices = 0;
    for (uint32_t i = s->token * g->topk; i < (s->token + rows) * g->topk; i++) choices += r->place[i] != UINT32_MAX;
    fabric_work(&s->epilogue, &(struct fabric_work){ .kind = FABRIC_WORK_COPY,
                                                     .rows = rows,
                                                     .site = SITE_MEGA_SUM,
                                                     .given = &r->sum_given,
                                                     .read_bytes = 2ull * choices * g->hidden,
                                                     .write_bytes = 2ull * rows * g->hidden,
                                                     .run = sum_run,
                                                     .context = s,
                                                     .argument = rows });
    return WORKER_MORE;
}

static enum worker_step epilogue_step(struct fabric_worker *w)
{
    struct mega_sm *s = fabric_container_of(w, struct mega_sm, epilogue);
    if (s->rung) return mega_open(s->rank, 2) ? sum_step(s) : WORKER_WAIT;
    if (s->moved) block_taken(s);
    if (s->taken == s->multiplied && s->ended) {
        fabric_signal_add(w, mega_word_gate(s->rank), 1, SITE_NONE);
        s->rung = true;
        return WORKER_WAIT;
    }
    s->epilogue_waits = s->taken == s->multiplied;
    if (s->epilogue_waits) return WORKER_WAIT;
    if (!block_made(s)->second) activate(s);
    else if (!rows_return(s)) return WORKER_WAIT;
    s->moved = true;
    return WORKER_MORE;
}

static void epilogue_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct mega_sm *s = fabric_container_of(w, struct mega_sm, epilogue);
    if (s->rung) snprintf(text, text_size, "mega-moe epilogue on SM %u waits for the barrier", s->number);
    else snprintf(text, text_size, "mega-moe epilogue on SM %u waits for block %u", s->number, s->taken);
}

static const struct worker_role epilogue_role = { .step = epilogue_step, .describe = epilogue_describe };

void mega_epilogue_launch(struct mega_rank *r, struct mega_sm *s)
{
    ht_kernel_add(&r->ht, &s->epilogue, &epilogue_role, s->number, MEGA_EPILOGUE_WARPS);
    fabric_watch(&s->epilogue, mega_word_open(r), 1, 0);
    fabric_watch(&s->epilogue, mega_word_epilogue(s), 1, 0);
}
