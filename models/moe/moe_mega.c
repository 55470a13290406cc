/* moe_mega.c - MegaMoE, DeepGEMM's kernel of dispatch, two linear layers and combine (PROTOCOLS.md 1.17): the
 * family, its memory, its dispatch and its barriers.
 *
 * Nothing is multiplied here: an expert gives each row back, times its weight.  But the bytes that the multiplication
 * loads are charged, in the library's order.  Places in lists are in the order of tokens.  The library takes them from
 * atomics. */
#include "models/moe/moe_mega.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "models/moe/checks.h"
#include "models/moe/formats.h"
#include "models/moe/moe_one_sided.h"

enum mega_phase { MEGA_PREPARE, MEGA_KERNEL };
static const char *const phase_names[] = { "mega_moe_cast", "mega_moe", NULL };

/* ---- geometry ---- */

static uint32_t intermediate_of(const struct moe_options *o)
{
    return o->intermediate ? o->intermediate : MEGA_INTERMEDIATE;
}

/* Makes the slot of a row: the row, its scales, and the weights of all its token's choices. */
static void slot_make(const struct moe_options *o, bool payload, struct ht_slot *slot)
{
    ht_slot_dispatch(o, payload, false, slot);
    slot->weight = slot->scale + slot->scale_bytes;
    slot->bytes = (uint32_t)moe_align(slot->weight + 4 * o->topk, 16);
    slot->stored = payload ? slot->bytes : 0;
}

static void map_make(const struct moe_options *o, bool payload, struct mega_map *m)
{
    struct ht_slot slot;
    slot_make(o, payload, &slot);
    m->in = 0;
    m->pool = m->in + moe_align((uint64_t)o->tokens_max * slot.stored, 128);
    m->back = m->pool + moe_align(moe_rows_most(o) * o->ranks * slot.stored, 128);
    m->back_rows = (uint64_t)o->tokens_max * o->topk;
    m->list = m->back + (payload ? moe_align(m->back_rows * 2 * o->hidden, 128) : 0);
    m->list_bytes = moe_align(4 * (1 + o->experts / o->ranks + (payload ? moe_rows_most(o) : 0)), 16);
    m->end = m->list + o->ranks * m->list_bytes;
}

/* The number of rows of a block.  It depends on how many tokens an expert gets on average
 * (get_block_config_for_mega_moe). */
static uint32_t block_rows_of(const struct moe_options *o, uint32_t tokens)
{
    static const struct {
        float tokens;
        uint32_t rows;
    } step[] = { { 8.5f, 16 }, { 16.5f, 32 }, { 32.5f, 64 }, { 64.5f, 96 }, { 96.5f, 128 } };
    const float expected = (float)tokens * (float)o->ranks * (float)o->topk / (float)o->experts;
    for (size_t i = 0; !o->mega_first && i < sizeof step / sizeof step[0]; i++)
        if (expected <= step[i].tokens) return step[i].rows;
    return 192;
}

/* How many experts a wave has in the first version.  There linear 1 counts half as many blocks of columns.  All waves
 * of a rank must have the same number of experts. */
static uint32_t first_wave_of(const struct moe_options *o, uint32_t tokens, uint32_t block_rows)
{
    enum { WAVE_MOST = 32 };
    const uint32_t local = o->experts / o->ranks;
    const uint32_t blocks = moe_ceiling(tokens * o->topk / local + 1, block_rows) * (intermediate_of(o) / MEGA_COLUMNS);
    uint32_t most = moe_min(WAVE_MOST, local);
    while (local % most) most--;
    uint32_t wave = moe_min(moe_ceiling(2 * o->num_sms, blocks), most);
    while (wave < most && local % wave) wave++;
    return wave;
}

/* How many experts a wave has (get_num_experts_per_wave_for_mega_moe).  The least number gives each SM two blocks.  Up
 * to twice that number, the one is taken by which the last wave is fullest.  If an expert alone gives each SM a block,
 * the least number is taken.  With few tokens or few experts, all experts are one wave. */
static uint32_t wave_of(const struct moe_options *o, uint32_t tokens, uint32_t block_rows)
{
    const uint32_t local = o->experts / o->ranks;
    const float expected = (float)tokens * (float)o->topk / (float)local;
    const uint32_t whole = (uint32_t)expected + ((float)(uint32_t)expected < expected);
    const uint32_t blocks = moe_ceiling(whole ? whole : 1, block_rows) * (2 * intermediate_of(o) / MEGA_COLUMNS);
    const uint32_t least = moe_ceiling(2 * o->num_sms, blocks);
    uint32_t best = least, most = moe_min(local, 2 * least);
    float best_ratio = -1;
    if (o->mega_first) return first_wave_of(o, tokens, block_rows);
    if (expected < 1 || least >= local) return local;
    if (blocks >= o->num_sms) return least;
    for (uint32_t wave = least; wave <= most; wave++) {
        const float ratio = local % wave ? (float)(local % wave) / (float)wave : 1;
        if (ratio > best_ratio) best = wave, best_ratio = ratio;
    }
    return best;
}

static const char *mega_refuse(const struct moe_options *o, char *text, size_t text_size)
{
    const uint32_t intermediate = intermediate_of(o);
    if (o->ranks > MEGA_RANKS_MAX)
        KERNEL_REFUSE("num-ranks: mega-moe takes at most %d, found %u", MEGA_RANKS_MAX, o->ranks);
    if (o->dtype != MOE_FP8) KERNEL_REFUSE("dtype: mega-moe takes fp8, found bf16");
    if (o->hidden % (2 * MEGA_COLUMNS))
        KERNEL_REFUSE("hidden: mega-moe needs a multiple of %d, found %u", 2 * MEGA_COLUMNS, o->hidden);
    if (intermediate % MEGA_COLUMNS)
        KERNEL_REFUSE("intermediate: expected a multiple of %d, found %u", MEGA_COLUMNS, intermediate);
    if (o->num_sms % 2) KERNEL_REFUSE("num-sms: mega-moe takes SMs in pairs, found %u", o->num_sms);
    return os_limits_refuse(o, "mega-moe", text, text_size);
}

static void mega_needs(const struct kernel_job *job, bool payload, struct fabric_needs *needs)
{
    const struct moe_options *o = moe_options_of(job);
    struct mega_map map;
    map_make(o, payload, &map);
    *needs = (struct fabric_needs){
        .heap_bytes = map.end, .word_count = o->ranks + 2 + 2 * o->num_sms, .queue_count = 1, .queue_depth = 1
    };
}

/* ---- a rank ---- */

static struct kernel_rank *mega_create(const struct kernel_job *job, struct fabric *f)
{
    const struct moe_options *o = moe_options_of(job);
    struct mega_rank *r = kernel_alloc(1, sizeof *r);
    struct ht_rank *h = &r->ht;
    ht_rank_init(h, job, f, false, 1, 3 * o->num_sms + 1);
    slot_make(o, f->payload, &h->dispatch_slot);
    map_make(o, f->payload, &r->map);
    r->intermediate = intermediate_of(o);
    r->block_rows = block_rows_of(o, h->g.tokens);
    r->wave = wave_of(o, h->g.tokens, r->block_rows);
    r->sent_before = kernel_keep(r, h->g.experts + 1, sizeof r->sent_before[0]);
    r->sent = kernel_keep(r, (uint64_t)h->g.tokens * h->g.topk, sizeof r->sent[0]);
    r->place = kernel_keep(r, (uint64_t)h->g.tokens * h->g.topk, sizeof r->place[0]);
    mega_given_make(r);
    r->row_before = kernel_keep(r, h->g.local_experts + 1, sizeof r->row_before[0]);
    r->block_before = kernel_keep(r, h->g.local_experts + 1, sizeof r->block_before[0]);
    r->sm = kernel_keep(r, o->num_sms, sizeof r->sm[0]);
    r->combined = kernel_keep(r, f->payload ? (uint64_t)h->g.tokens * h->g.hidden : 0, sizeof r->combined[0]);
    ht_choices_sort(h, r->sent_before, r->place);
    for (uint32_t i = 0; i < h->g.tokens * h->g.topk; i++)
        if (r->place[i] != UINT32_MAX) r->sent[r->place[i]] = i;
    return &h->base.kernel;
}

/* ---- what the lists say ---- */

static uint32_t count_from(const struct mega_rank *r, uint32_t source, uint32_t expert)
{
    return mega_list_from(r, source)[1 + expert];
}

static void rows_make_room(struct mega_rank *r, uint32_t rows, uint32_t blocks)
{
    if (r->source && rows <= r->rows_room && blocks <= r->blocks_room) return;
    void *old[] = { r->source, r->choice, r->come, r->activated, r->waiting };
    for (size_t i = 0; i < sizeof old / sizeof old[0]; i++) kernel_drop(r, old[i]);
    r->rows_room = rows;
    r->blocks_room = blocks;
    r->source = kernel_keep(r, rows, sizeof r->source[0]);
    r->choice = kernel_keep(r, rows, sizeof r->choice[0]);
    r->come = kernel_keep(r, blocks, sizeof r->come[0]);
    r->activated = kernel_keep(r, blocks, sizeof r->activated[0]);
    r->waiting = kernel_keep(r, blocks, sizeof r->waiting[0]);
}

/* Orders each expert's rows: one from each rank in rotation, as long as the rank has more. */
static void rows_order(struct mega_rank *r)
{
    const struct ht_geometry *g = &r->ht.g;
    uint32_t next[MEGA_RANKS_MAX];
    for (uint32_t s = 0; s < g->ranks; s++) next[s] = mega_list_from(r, s)[0];
    for (uint32_t e = 0, row = 0; e < g->local_experts; e++) {
        for (uint32_t turn = 0; row < r->row_before[e + 1]; turn++)
            for (uint32_t s = 0; s < g->ranks; s++) {
                if (turn >= count_from(r, s, e)) continue;
                r->source[row] = (uint16_t)s;
                r->choice[row++] = next[s]++;
            }
    }
}

static void lists_read(struct mega_rank *r)
{
    const struct ht_geometry *g = &r->ht.g;
    for (uint32_t e = 0; e < g->local_experts; e++) {
        uint32_t rows = 0;
        for (uint32_t s = 0; s < g->ranks; s++) rows += count_from(r, s, e);
        r->ht.expert_counts[e] = rows;
        r->row_before[e + 1] = r->row_before[e] + rows;
        r->block_before[e + 1] = r->block_before[e] + moe_ceiling(rows, r->block_rows);
    }
    const uint32_t blocks = r->block_before[g->local_experts];
    rows_make_room(r, r->row_before[g->local_experts], blocks);
    memset(r->come, 0, blocks * sizeof r->come[0]);
    memset(r->activated, 0, blocks * sizeof r->activated[0]);
    memset(r->waiting, 0, blocks * sizeof r->waiting[0]);
    rows_order(r);
}

/* ---- dispatch ---- */

/* The part of sent_before that begins with the experts of the rank that gets the next list. */
static const uint32_t *sent_to(const struct mega_sm *s)
{
    return s->rank->sent_before + s->target * s->rank->ht.g.local_experts;
}

static void list_fill(const void *context, uint8_t *target)
{
    const struct mega_sm *s = context;
    const struct mega_rank *r = s->rank;
    const uint32_t local = r->ht.g.local_experts, *before = sent_to(s);
    uint32_t *list = (uint32_t *)(void *)target;
    *list++ = before[0];
    for (uint32_t e = 0; e < local; e++) *list++ = before[e + 1] - before[e];
    if (r->ht.base.fabric->payload) memcpy(list, r->sent + before[0], (before[local] - before[0]) * sizeof list[0]);
}

/* Sends the next rank its list.  In the library, each SM tells all ranks the choices of its own tokens instead. */
static bool list_send(struct mega_sm *s)
{
    const struct mega_rank *r = s->rank;
    const struct ht_geometry *g = &r->ht.g;
    const uint32_t *before = sent_to(s), head = 4 * (1 + g->local_experts),
                   choices = before[g->local_experts] - before[0];
    const struct fabric_write write = { .target_offset = r->map.list + g->rank * r->map.list_bytes,
                                        .charge_bytes = head + 4ull * choices,
                                        .peer = (uint16_t)s->target,
                                        .rows = MEGA_DISPATCH_WARPS,
                                        .site = SITE_MEGA_LIST,
                                        .fill = list_fill,
                                        .data = s,
                                        .size_bytes = head + (r->ht.base.fabric->payload ? 4 * choices : 0) };
    return fabric_store(&s->dispatch, &write) == 0;
}

static uint64_t pool_at(const struct mega_rank *r, uint32_t row)
{
    return r->map.pool + (uint64_t)row * r->ht.dispatch_slot.stored;
}

static uint64_t in_at(const struct mega_rank *r, uint32_t row)
{
    if (!r->ht.base.fabric->payload) return 0;
    return r->map.in + (uint64_t)(mega_choice_of(r, row) / r->ht.g.topk) * r->ht.dispatch_slot.stored;
}

static uint32_t rows_here(const struct mega_sm *s)
{
    const uint32_t all = s->rank->row_before[s->rank->ht.g.local_experts];
    return s->row < all ? moe_min(all - s->row, MEGA_DISPATCH_WARPS) : 0;
}

/* Whether the part that is pulled is a row's last one.  Rows are pulled in two halves.  In the first version they are
 * pulled whole. */
static bool is_last_part(const struct mega_sm *s) { return s->rank->ht.base.options->mega_first || s->pulled; }

static uint32_t part_bytes(const struct mega_sm *s)
{
    const struct ht_slot *slot = &s->rank->ht.dispatch_slot;
    const uint32_t half = slot->row_bytes / 2;
    return is_last_part(s) ? slot->bytes - s->pulled * half : half;
}

/* Pulls a part of a row from a peer.  A row from this rank needs no pull. */
static bool part_pull(struct mega_sm *s, uint32_t row)
{
    const struct mega_rank *r = s->rank;
    const struct ht_slot *slot = &r->ht.dispatch_slot;
    const uint32_t from = s->pulled * (slot->row_bytes / 2), bytes = part_bytes(s);
    if (r->source[row] == r->ht.g.rank) return true;
    const struct fabric_read read = { .source_offset = in_at(r, row) + (slot->stored ? from : 0),
                                      .target = r->ht.base.fabric->heap + pool_at(r, row) + (slot->stored ? from : 0),
                                      .charge_bytes = bytes,
                                      .size_bytes = slot->stored ? bytes : 0,
                                      .peer = r->source[row],
                                      .warps = 1,
                                      .site = SITE_MEGA_PEER_PART };
    return fabric_get(&s->dispatch, &read) == 0;
}

static void own_run(void *context, uint64_t argument)
{
    const struct mega_sm *s = context;
    const struct mega_rank *r = s->rank;
    uint8_t *heap = r->ht.base.fabric->heap;
    const uint32_t last = s->row + (uint32_t)argument;
    for (uint32_t row = s->row; row < last; row++)
        if (r->source[row] == r->ht.g.rank)
            memcpy(heap + pool_at(r, row), heap + in_at(r, row), r->ht.dispatch_slot.stored);
}

/* Stores the pulled parts by the bulk engine.  Only then does a warp ask for the next part. */
static void part_store(struct mega_sm *s, uint32_t rows)
{
    const uint32_t bytes = part_bytes(s);
    fabric_work(&s->dispatch, &(struct fabric_work){ .kind = FABRIC_WORK_COPY,
                                                     .rows = rows,
                                                     .site = SITE_MEGA_PULL,
                                                     .read_bytes = (uint64_t)rows * bytes,
                                                     .write_bytes = (uint64_t)rows * bytes,
                                                     .run = is_last_part(s) ? own_run : NULL,
                                                     .context = s,
                                                     .argument = rows });
}

/* Counts rows that have come into the pool.  When a block's last row has come, the block may be multiplied. */
static void rows_come(struct mega_sm *s, uint32_t rows)
{
    struct mega_rank *r = s->rank;
    for (uint32_t row = s->row; row < s->row + rows; row++) {
        while (row >= r->row_before[s->expert + 1]) s->expert++;
        const struct mega_block b = { .expert = s->expert, .rows = (row - r->row_before[s->expert]) / r->block_rows };
        const uint32_t block = mega_block_number(r, &b);
        if (++r->come[block] == mega_block_rows(r, &b)) mega_waiting_wake(r, &s->dispatch, block);
    }
}

static enum worker_step pull_step(struct mega_sm *s)
{
    struct mega_rank *r = s->rank;
    const uint32_t rows = rows_here(s);
    if (!rows) return WORKER_DONE;
    if (s->come) {
        rows_come(s, rows);
        s->row += MEGA_DISPATCH_WARPS * r->ht.base.options->num_sms;
        s->pulled = 0;
        s->come = false;
        s->target = 0;
        return WORKER_MORE;
    }
    for (; s->target < rows; s->target++)
        if (!part_pull(s, s->row + s->target)) return WORKER_WAIT;
    part_store(s, rows);
    s->come = is_last_part(s);
    s->pulled++;
    s->target = 0;
    return WORKER_MORE;
}

static enum worker_step dispatch_step(struct fabric_worker *w)
{
    struct mega_sm *s = fabric_container_of(w, struct mega_sm, dispatch);
    struct mega_rank *r = s->rank;
    const struct ht_geometry *g = &r->ht.g;
    if (!s->counted) {
        const uint32_t warps = MEGA_DISPATCH_WARPS * r->ht.base.options->num_sms;
        const uint32_t turns = moe_ceiling(g->tokens, warps * (32 / g->topk));
        ht_scan_here(w, SITE_MEGA_COUNT, turns, 0);
        ht_scan_here(w, SITE_MEGA_PLACES, moe_ceiling(g->experts, 32 * MEGA_DISPATCH_WARPS), 0);
        s->counted = true;
        return WORKER_MORE;
    }
    if (!s->listed) {
        for (; s->target < g->ranks; s->target += r->ht.base.options->num_sms)
            if (!list_send(s)) return WORKER_WAIT;
        s->listed = true;
        s->target = 0;
        fabric_signal_add(w, mega_word_gate(r), 1, SITE_NONE);
    }
    return mega_open(r, 1) ? pull_step(s) : WORKER_WAIT;
}

static void dispatch_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct mega_sm *s = fabric_container_of(w, struct mega_sm, dispatch);
    snprintf(text, text_size, "mega-moe dispatch on SM %u waits for the barrier, row %u", s->number, s->row);
}

/* ---- the barriers ---- */

static enum worker_step gate_step(struct fabric_worker *w)
{
    struct mega_gate *k = fabric_container_of(w, struct mega_gate, worker);
    struct mega_rank *r = k->rank;
    const uint32_t sms = r->ht.base.options->num_sms;
    const uint32_t rings = moe_min(k->opened + 1, 2);
    if (fabric_load(w->fabric, mega_word_gate(r)) < r->rings + (uint64_t)rings * sms) return WORKER_WAIT;
    if (k->barrier.round == k->opened) {
        ht_barrier_begin(&k->barrier);
        k->told = false;
    }
    if (k->opened == 0 && !k->counts_told) { /* reads the counters and adds them to those of the experts' ranks */
        ht_scan_here(w, SITE_MEGA_TOLD, 2 * moe_ceiling(r->ht.g.experts, 32 * MEGA_DISPATCH_WARPS), 0);
        k->counts_told = true;
    }
    k->told = k->told || ht_word_send(w, &r->ht, r->ht.g.rank, 0, r->ht.g.rank, k->barrier.round); /* tells this
                                                                                                    * rank, too */
    if (!k->told || !ht_barrier_step(w, &k->barrier, r->ht.epoch)) return WORKER_WAIT;
    if (ht_word(&r->ht, r->ht.g.rank) < k->barrier.round) return WORKER_WAIT;
    if (++k->opened == 3) return WORKER_DONE;
    if (k->opened == 1) lists_read(r);
    fabric_signal_add(w, mega_word_open(r), 1, SITE_NONE);
    return WORKER_MORE;
}

static void gate_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct mega_gate *k = fabric_container_of(w, struct mega_gate, worker);
    const struct mega_rank *r = k->rank;
    const int missing = k->barrier.round > k->opened ? ht_barrier_missing(w->fabric, &k->barrier, r->ht.epoch) : -1;
    if (missing >= 0) snprintf(text, text_size, "mega-moe barrier %u waits for rank %d", k->opened + 1, missing);
    else snprintf(text, text_size, "mega-moe barrier %u waits for the SMs", k->opened + 1);
}

static const struct worker_role dispatch_role = { .step = dispatch_step, .describe = dispatch_describe };
static const struct worker_role gate_role = { .step = gate_step, .describe = gate_describe };

static void kernel_launch(struct mega_rank *r)
{
    const struct ht_geometry *g = &r->ht.g;
    const uint32_t sms = r->ht.base.options->num_sms;
    uint64_t *grown = ht_grown(&r->ht);
    r->opens = grown[0];
    r->rings = grown[1];
    grown[0] += 2;
    grown[1] += 2ull * sms;
    r->gate = (struct mega_gate){ .rank = r, .barrier = ht_barrier_node(g) };
    ht_kernel_add(&r->ht, &r->gate.worker, &gate_role, 0, MEGA_DISPATCH_WARPS);
    fabric_watch(&r->gate.worker, 0, g->ranks, 0);
    fabric_watch(&r->gate.worker, mega_word_gate(r), 1, 0);
    for (uint32_t i = 0; i < sms; i++) {
        struct mega_sm *s = &r->sm[i];
        *s = (struct mega_sm){ .rank = r, .number = i, .row = MEGA_DISPATCH_WARPS * i, .target = i };
        s->token = MEGA_EPILOGUE_WARPS * i;
        s->order.number = i;
        ht_kernel_add(&r->ht, &s->dispatch, &dispatch_role, i, MEGA_DISPATCH_WARPS);
        fabric_watch(&s->dispatch, mega_word_open(r), 1, r->opens + 1);
    }
    for (uint32_t i = 0; i < sms; i++) mega_tensor_launch(r, &r->sm[i]);
    for (uint32_t i = 0; i < sms; i++) mega_epilogue_launch(r, &r->sm[i]);
}

/* ---- the engine's kernel before MegaMoE, which casts the tokens ---- */

static void prepare_run(void *context, uint64_t argument)
{
    const struct mega_sm *s = context;
    struct mega_rank *r = s->rank;
    const struct ht_slot *slot = &r->ht.dispatch_slot;
    (void)argument;
    for (uint32_t t = s->number; t < r->ht.g.tokens; t += r->ht.base.options->num_sms) {
        uint8_t *row = r->ht.base.fabric->heap + r->map.in + (uint64_t)t * slot->stored;
        memcpy(row, r->ht.t.x + (size_t)t * slot->row_bytes, slot->row_bytes);
        memcpy(row + slot->scale, r->ht.t.scales + (size_t)t * slot->scale_bytes, slot->scale_bytes);
        memcpy(row + slot->weight, r->ht.t.weights + (size_t)t * r->ht.g.topk, r->ht.g.topk * sizeof(float));
    }
}

static enum worker_step prepare_step(struct fabric_worker *w)
{
    struct mega_sm *s = fabric_container_of(w, struct mega_sm, dispatch);
    const struct mega_rank *r = s->rank;
    const uint32_t sms = r->ht.base.options->num_sms;
    const uint32_t rows = s->number < r->ht.g.tokens ? moe_ceiling(r->ht.g.tokens - s->number, sms) : 0;
    fabric_work(w, &(struct fabric_work){ .kind = FABRIC_WORK_CAST,
                                          .rows = rows,
                                          .site = SITE_MEGA_CAST,
                                          .read_bytes = 2ull * rows * r->ht.g.hidden,
                                          .write_bytes = (uint64_t)rows * r->ht.dispatch_slot.bytes,
                                          .run = prepare_run,
                                          .context = s });
    return WORKER_DONE;
}

static const struct worker_role prepare_role = { .step = prepare_step };

static void prepare_launch(struct mega_rank *r)
{
    const uint32_t sms = r->ht.base.options->num_sms;
    if (r->ht.base.fabric->payload) ht_inputs_make(&r->ht);
    for (uint32_t i = 0; i < sms; i++) {
        r->sm[i] = (struct mega_sm){ .rank = r, .number = i };
        const uint32_t blocks = moe_min(moe_ceiling(r->ht.g.tokens, sms), OS_BLOCKS);
        ht_kernel_add(&r->ht, &r->sm[i].dispatch, &prepare_role, i, (blocks ? blocks : 1) * OS_WARPS);
    }
}

/* ---- phases ---- */

static struct kernel_launch *mega_launch(struct kernel_rank *rank, uint32_t phase)
{
    struct mega_rank *r = (struct mega_rank *)rank;
    struct ht_rank *h = &r->ht;
    ht_kernel_begin(h, phase_names[phase]);
    h->kernel.follows = phase == MEGA_KERNEL;
    h->kernel.span = phase == MEGA_KERNEL ? "mega_moe_span" : NULL;
    if (phase == MEGA_PREPARE) prepare_launch(r);
    else kernel_launch(r);
    return &h->kernel;
}

static void mega_traffic(const struct kernel_rank *rank, uint32_t phase, struct kernel_traffic *traffic)
{
    const struct mega_rank *r = (const struct mega_rank *)rank;
    const struct ht_geometry *g = &r->ht.g;
    if (phase != MEGA_KERNEL) return;
    traffic->tokens_sent = r->sent_before[g->experts];
    traffic->tokens_received = r->row_before[g->local_experts];
    traffic->logical_nvl_bytes =
        traffic->tokens_received * (r->ht.dispatch_slot.row_bytes + r->ht.dispatch_slot.scale_bytes + 2ull * g->hidden);
}

static uint32_t mega_outputs(struct kernel_rank *rank, struct kernel_tensor *tensor, uint32_t max)
{
    const struct mega_rank *r = (const struct mega_rank *)rank;
    const struct ht_rank *h = &r->ht;
    const uint64_t rows = r->row_before[h->g.local_experts];
    const struct kernel_tensor all[] = {
        { "expert_counts", h->expert_counts, h->g.local_experts * sizeof h->expert_counts[0] },
        { "recv_source", r->source, rows * sizeof r->source[0] },
        { "recv_choice", r->choice, rows * sizeof r->choice[0] },
        { "recv_x", h->base.fabric->heap + r->map.pool, rows * h->dispatch_slot.stored },
        { "combined_x", r->combined, (uint64_t)h->g.tokens * h->g.hidden * sizeof r->combined[0] },
    };
    return kernel_tensors_give(all, sizeof all / sizeof all[0], tensor, max);
}

/* ---- checks ---- */

/* Makes the expert's result for a choice: the token's row times the choice's weight. */
static void row_expected(const struct mega_rank *r, uint32_t rank, uint32_t choice, uint16_t *out)
{
    const struct moe_options *o = r->ht.base.options;
    const uint32_t topk = r->ht.g.topk;
    uint8_t row[o->hidden], scales[r->ht.dispatch_slot.scale_bytes];
    const float weight = ht_weight(&r->ht, rank, choice / topk, choice % topk);
    ht_row_make(o, rank, choice / topk, row, scales);
    ht_row_widen(o, row, scales, out);
    for (uint32_t i = 0; i < o->hidden; i++) out[i] = format_bf16_from_f32(format_f32_from_bf16(out[i]) * weight);
}

static void combined_check(const struct mega_rank *r, struct check_report *report)
{
    const struct ht_geometry *g = &r->ht.g;
    uint16_t *rows = kernel_alloc((uint64_t)(g->topk + 1) * g->hidden, sizeof rows[0]);
    for (uint32_t t = 0; t < g->tokens; t++) {
        const uint16_t *row[HT_TOPK_MAX];
        uint32_t count = 0;
        for (uint32_t j = 0; j < g->topk; j++) {
            if (ht_expert(&r->ht, g->rank, t * g->topk + j) < 0) continue;
            row_expected(r, g->rank, t * g->topk + j, rows + (size_t)count * g->hidden);
            row[count] = rows + (size_t)count * g->hidden, count++;
        }
        uint16_t *sum = rows + (size_t)g->topk * g->hidden;
        format_rows_reduce(row, NULL, count, g->hidden, sum);
        if (memcmp(sum, r->combined + (size_t)t * g->hidden, g->hidden * sizeof sum[0]) != 0)
            check_fail(report, CHECK_COMBINE, "token %u is not the sum of its experts' rows", t);
    }
    free(rows);
}

/* Checks an expert's rows that came from a rank: they must be that rank's tokens that chose the expert, in order. */
static void rows_check(const struct mega_rank *r, uint32_t expert, uint32_t source, struct check_report *report)
{
    const struct ht_geometry *g = &r->ht.g;
    const struct ht_slot *slot = &r->ht.dispatch_slot;
    const uint32_t tokens = r->ht.base.routing->rank[source].tokens;
    uint8_t expected[slot->row_bytes + slot->scale_bytes];
    uint32_t row = r->row_before[expert], count = 0;
    for (uint32_t i = 0; i < tokens * g->topk; i++) {
        if (ht_expert(&r->ht, source, i) != (int32_t)(g->rank * g->local_experts + expert)) continue;
        while (row < r->row_before[expert + 1] && r->source[row] != source) row++;
        if (row == r->row_before[expert + 1]) break;
        ht_row_make(r->ht.base.options, source, i / g->topk, expected, expected + slot->scale);
        if (memcmp(expected, r->ht.base.fabric->heap + pool_at(r, row++), sizeof expected) != 0)
            check_fail(report, CHECK_RECV_ROWS, "expert %u: row %u is not rank %u's token %u", expert, row - 1, source,
                       i / g->topk);
        count++;
    }
    if (count != count_from(r, source, expert))
        check_fail(report, CHECK_EXPERT_COUNTS, "expert %u: expected %u rows of rank %u, found %u", expert, count,
                   source, count_from(r, source, expert));
}

static uint32_t mega_check(const struct kernel_rank *rank, char *text, size_t text_size)
{
    const struct mega_rank *r = (const struct mega_rank *)rank;
    struct check_report report = { .text = text, .text_size = text_size };
    for (uint32_t e = 0; e < r->ht.g.local_experts; e++)
        for (uint32_t s = 0; s < r->ht.g.ranks; s++) rows_check(r, e, s, &report);
    combined_check(r, &report);
    return check_failures(&report);
}

const struct moe_family moe_family_mega = {
    .kernels = { .needs = mega_needs,
                 .phases = phase_names,
                 .rank_new = mega_create,
                 .launch = mega_launch,
                 .traffic = mega_traffic,
                 .outputs = mega_outputs,
                 .check = mega_check },
    .refuse = mega_refuse,
};
