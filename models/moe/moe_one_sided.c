/* moe_one_sided.c - NVLink one-sided kernels of TensorRT-LLM and FlashInfer (PROTOCOLS.md 1.12).
 *
 * A token's slot at a rank is its number among the tokens for that rank.  The library takes the slot from an atomic, in
 * no particular order.  Sums are made in single precision and rounded once.  The library adds pairs of BF16. */
#include "models/moe/moe_one_sided.h"

#include <stdio.h>
#include <string.h>

static const char *const phase_names[OS_PHASES + 1] = { "dispatch_prepare", "dispatch", "dispatch_sanitize",
                                                        "combine_prepare", "combine" };

const char *os_limits_refuse(const struct moe_options *o, const char *name, char *text, size_t text_size)
{
    if (o->ranks > o->ranks_per_node)
        KERNEL_REFUSE("num-ranks: expected at most %u for %s kernels, which stay in one NVLink domain, found %u",
                      o->ranks_per_node, name, o->ranks);
    return ht_refuse(o, text, text_size);
}

static const char *os_refuse(const struct moe_options *o, char *text, size_t text_size)
{
    static const uint32_t topk[] = { 1, 2, 4, 6, 8, 10, 16 };
    bool known = false;
    for (size_t i = 0; i < sizeof topk / sizeof topk[0]; i++) known |= o->topk == topk[i];
    if (o->ranks > OS_RANKS_MAX)
        KERNEL_REFUSE("num-ranks: one-sided takes at most %d, found %u", OS_RANKS_MAX, o->ranks);
    if (!known) KERNEL_REFUSE("num-topk: one-sided takes 1, 2, 4, 6, 8, 10 or 16, found %u", o->topk);
    return os_limits_refuse(o, "one-sided", text, text_size);
}

/* ---- geometry ---- */

static uint32_t blocks_of(const struct moe_options *o)
{
    const uint32_t most = o->num_sms * OS_BLOCKS;
    return o->tokens_max < most ? o->tokens_max : most;
}

void os_map_make(const struct moe_options *o, bool payload, struct os_map *m)
{
    struct ht_slot dispatch, combine;
    ht_slots_plain(o, payload, &dispatch, &combine);
    const uint64_t slots = (uint64_t)o->ranks * o->tokens_max;
    m->in = 0;
    m->out = moe_align(slots * dispatch.stored, 128);
    m->made = o->zero_copy ? m->out : m->out + moe_align(slots * combine.stored, 128);
    m->gathered = m->made + moe_align(slots * combine.stored, 128);
    m->end = m->gathered + (uint64_t)blocks_of(o) * o->topk * combine.stored;
}

static uint32_t word_ready_from(const struct os_rank *r, uint32_t source) { return r->ht.g.ranks + source; }
enum { OS_WORDS_PRIVATE = 2 };

struct fabric_needs os_needs_of(const struct moe_options *o, const struct os_map *map)
{
    return (struct fabric_needs){
        .heap_bytes = map->end, .word_count = 2 * o->ranks + OS_WORDS_PRIVATE, .queue_count = 1, .queue_depth = 1
    };
}

static void os_needs(const struct kernel_job *job, bool payload, struct fabric_needs *needs)
{
    struct os_map map;
    os_map_make(moe_options_of(job), payload, &map);
    *needs = os_needs_of(moe_options_of(job), &map);
}

void os_rank_init(struct os_rank *r, const struct kernel_job *job, struct fabric *f, uint32_t workers)
{
    const struct moe_options *o = moe_options_of(job);
    struct ht_rank *h = &r->ht;
    r->sms = o->num_sms;
    ht_rank_init(h, job, f, false, 1, workers);
    ht_layout_make(h);
    ht_slots_plain(o, f->payload, &h->dispatch_slot, &h->combine_slot);
    os_map_make(o, f->payload, &r->map);
}

static struct kernel_rank *os_create(const struct kernel_job *job, struct fabric *f)
{
    const struct moe_options *o = moe_options_of(job);
    struct os_rank *r = kernel_alloc(1, sizeof *r);
    r->blocks = blocks_of(o);
    os_rank_init(r, job, f, r->blocks + o->num_sms + 1);
    r->block = kernel_keep(r, r->blocks, sizeof r->block[0]);
    r->local = kernel_keep(r, r->sms, sizeof r->local[0]);
    return &r->ht.base.kernel;
}

/* ---- blocks ---- */

static enum worker_step block_finish(struct os_block *b)
{
    fabric_signal_add(&b->worker, os_word_finished(b->rank), 1, SITE_NONE);
    return WORKER_DONE;
}

static void block_next(struct os_block *b)
{
    b->token += b->rank->blocks;
    b->target = 0;
    b->pass = 0;
    b->chosen = false;
}

static void token_fill(const void *context, uint8_t *slot)
{
    const struct os_block *b = context;
    ht_slot_pack(&b->rank->ht, b->token, 0, slot, slot); /* slots have no meta, so the pointer does not matter */
}

struct fabric_write os_token_write(const struct os_block *b, uint8_t warps, uint8_t site)
{
    const struct os_rank *r = b->rank;
    const struct ht_geometry *g = &r->ht.g;
    const struct ht_slot *slot = &r->ht.dispatch_slot;
    const uint64_t at = (uint64_t)g->rank * r->ht.base.options->tokens_max + ht_number_at(&r->ht, b->token, b->target);
    return (struct fabric_write){
        .target_offset = r->map.in + at * slot->stored,
        .charge_bytes = slot->bytes,
        .peer = (uint16_t)b->target,
        .rows = warps,
        .warps = warps,
        .site = site,
        .fill = slot->stored ? token_fill : NULL,
        .data = b,
        .size_bytes = slot->stored,
    };
}

/* Stores the token to its next target.  The row is loaded once for all its stores. */
static bool token_store(struct os_block *b, bool first)
{
    const struct fabric_write write =
        os_token_write(b, OS_WARPS, first ? SITE_ONE_SIDED_ROW : SITE_ONE_SIDED_ROW_AGAIN);
    return fabric_store(&b->worker, &write) == 0;
}

static enum worker_step push_step(struct fabric_worker *w)
{
    struct os_block *b = fabric_container_of(w, struct os_block, worker);
    const struct os_rank *r = b->rank;
    if (b->token >= r->ht.g.tokens) return block_finish(b);
    if (!b->chosen) { /* takes a slot at each of the token's ranks, one after another */
        ht_scan_here(w, SITE_ONE_SIDED_PLACES_TAKE, ht_targets_before(&r->ht, b->token, r->ht.g.ranks),
                     4 * r->ht.g.topk);
        b->chosen = true;
        return WORKER_MORE;
    }
    const uint32_t first = ht_target_next(&r->ht, b->token, 0);
    for (;; b->target++) {
        b->target = ht_target_next(&r->ht, b->token, b->target);
        if (b->target == r->ht.g.ranks) break;
        if (!token_store(b, b->target == first)) return WORKER_WAIT;
    }
    block_next(b);
    return WORKER_MORE;
}

/* Where a rank's row for the token lies, once it has come. */
static uint8_t *gathered_at(const struct os_rank *r, const struct os_block *b, uint32_t target, uint32_t number)
{
    const struct fabric *f = r->ht.base.fabric;
    const uint64_t stored = r->ht.combine_slot.stored, most = r->ht.base.options->tokens_max;
    if (target == r->ht.g.rank)
        return f->heap + r->map.out + (target * most + ht_number_at(&r->ht, b->token, target)) * stored;
    return f->heap + r->map.gathered + ((uint64_t)b->number * r->ht.g.topk + number) * stored;
}

static void sum_run(void *context, uint64_t argument)
{
    const struct os_block *b = context;
    struct os_rank *r = b->rank;
    const uint8_t *row[HT_TOPK_MAX];
    uint32_t count = 0;
    (void)argument;
    for (uint32_t to = ht_target_next(&r->ht, b->token, 0); to < r->ht.g.ranks;
         to = ht_target_next(&r->ht, b->token, to + 1), count++)
        row[count] = gathered_at(r, b, to, count);
    ht_token_combine(&r->ht, b->token, row, count);
}

/* In a pass each lane of the block loads 16 B of a row.  passes_of() returns how many passes a row takes, and
 * pass_bytes() how many bytes the pass with this number has. */
enum { PASS_BYTES = OS_WARPS * 32 * 16 };
static uint32_t passes_of(uint64_t row_bytes) { return (uint32_t)((row_bytes + PASS_BYTES - 1) / PASS_BYTES); }
static uint64_t pass_bytes(uint64_t row_bytes, uint32_t pass)
{
    const uint64_t left = row_bytes - (uint64_t)pass * PASS_BYTES;
    return left < PASS_BYTES ? left : PASS_BYTES;
}

/* How many warps load the row with this number in a pass, if the token has `rows` rows.  The compiled loop asks for
 * seven rows, awaits them, and then asks for the eighth (PROTOCOLS.md 1.12).  The block's warps are divided among the
 * rows that are asked for together. */
enum { ROWS_TOGETHER = 7 };
static uint8_t row_warps(uint32_t number, uint32_t rows)
{
    return number < ROWS_TOGETHER ? (uint8_t)(OS_WARPS / (rows < ROWS_TOGETHER ? rows : ROWS_TOGETHER)) : OS_WARPS;
}

static bool rows_pull(struct os_block *b)
{
    const struct os_rank *r = b->rank;
    const struct ht_slot *slot = &r->ht.combine_slot;
    const uint64_t from = (uint64_t)b->pass * PASS_BYTES, size = pass_bytes(slot->bytes, b->pass);
    const uint32_t rows = ht_targets_before(&r->ht, b->token, r->ht.g.ranks);
    uint32_t count = 0;
    for (uint32_t to = ht_target_next(&r->ht, b->token, 0); to < r->ht.g.ranks;
         to = ht_target_next(&r->ht, b->token, to + 1), count++) {
        const uint64_t at =
            (uint64_t)r->ht.g.rank * r->ht.base.options->tokens_max + ht_number_at(&r->ht, b->token, to);
        const struct fabric_read read = { .source_offset = r->map.out + at * slot->stored + (slot->stored ? from : 0),
                                          .target = gathered_at(r, b, to, count) + (slot->stored ? from : 0),
                                          .charge_bytes = size,
                                          .size_bytes = slot->stored ? (uint32_t)size : 0,
                                          .peer = (uint16_t)to,
                                          .warps = row_warps(count, rows),
                                          .site = SITE_ONE_SIDED_PULL };
        if (to != r->ht.g.rank && fabric_get(&b->worker, &read)) return false;
    }
    return true;
}

static enum worker_step pull_step(struct fabric_worker *w)
{
    struct os_block *b = fabric_container_of(w, struct os_block, worker);
    const struct os_rank *r = b->rank;
    const uint64_t row_bytes = r->ht.combine_slot.bytes;
    if (fabric_load(w->fabric, os_word_open(r)) < r->opened) return WORKER_WAIT;
    if (b->token >= r->ht.g.tokens) return WORKER_DONE;
    if (!b->chosen) {
        ht_scan_here(w, b->pass ? SITE_ONE_SIDED_PLACES_AGAIN : SITE_ONE_SIDED_PLACES_READ,
                     ht_targets_before(&r->ht, b->token, r->ht.g.ranks), 8 * r->ht.g.topk);
        b->chosen = true;
        return WORKER_MORE;
    }
    if (!rows_pull(b)) return WORKER_WAIT;
    const uint64_t size = pass_bytes(row_bytes, b->pass);
    const bool last = ++b->pass == passes_of(row_bytes);
    fabric_work(w, &(struct fabric_work){ .kind = FABRIC_WORK_COPY,
                                          .rows = OS_WARPS,
                                          .read_bytes = size,
                                          .write_bytes = size,
                                          .site = SITE_ONE_SIDED_SUM,
                                          .run = last ? sum_run : NULL,
                                          .context = b });
    b->chosen = false;
    if (last) block_next(b);
    return WORKER_MORE;
}

static void block_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct os_block *b = fabric_container_of(w, struct os_block, worker);
    if (b->rank->launched == OS_COMBINE && fabric_load(w->fabric, os_word_open(b->rank)) < b->rank->opened)
        snprintf(text, text_size, "one-sided block %u waits for the kernel to open", b->number);
    else snprintf(text, text_size, "one-sided block %u has no room to rank %u", b->number, b->target);
}

static const struct worker_role push_role = { .step = push_step, .describe = block_describe };
static const struct worker_role pull_role = { .step = pull_step, .describe = block_describe };

static void blocks_launch(struct os_rank *r, const struct worker_role *role)
{
    for (uint32_t i = 0; i < r->blocks; i++) {
        struct os_block *b = &r->block[i];
        *b = (struct os_block){ .rank = r, .number = i, .token = i };
        ht_kernel_add(&r->ht, &b->worker, role, i % r->sms, OS_WARPS);
        if (role == &pull_role) fabric_watch(&b->worker, os_word_open(r), 1, r->opened);
    }
}

/* ---- the barriers ---- */

/* Tells all ranks, this one included.  Each lane of a warp tells one rank.  At dispatch's end, after a release, a rank
 * is told how many rows have been sent to it.  At combine's start it is told that this rank's output can be read. */
static bool gate_tell(struct os_gate *k)
{
    const struct os_rank *r = k->rank;
    const uint32_t word = k->combine ? word_ready_from(r, r->ht.g.rank) : r->ht.g.rank;
    return ht_node_tell(&k->worker, &r->ht, &k->next, word, k->combine ? NULL : r->ht.layout.tokens_per_rank,
                        k->behind ? SITE_ONE_SIDED_TELL : SITE_NONE);
}

static bool gate_come(struct os_gate *k)
{
    const struct os_rank *r = k->rank;
    for (; k->come < r->ht.g.ranks; k->come++) {
        const uint32_t word = k->combine ? word_ready_from(r, k->come) : k->come;
        if (!ht_word(&r->ht, word)) return false;
    }
    return true;
}

static enum worker_step gate_step(struct fabric_worker *w)
{
    struct os_gate *k = fabric_container_of(w, struct os_gate, worker);
    const struct os_rank *r = k->rank;
    if (k->behind && fabric_load(w->fabric, os_word_finished(r)) != r->finished) return WORKER_WAIT;
    if (!gate_tell(k) || !gate_come(k)) return WORKER_WAIT;
    if (k->combine) fabric_signal_add(w, os_word_open(r), 1, SITE_NONE);
    return WORKER_DONE;
}

static void gate_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct os_gate *k = fabric_container_of(w, struct os_gate, worker);
    if (k->behind && fabric_load(w->fabric, os_word_finished(k->rank)) != k->rank->finished)
        snprintf(text, text_size, "the one-sided barrier waits for the other blocks");
    else snprintf(text, text_size, "one-sided barrier waits for rank %u", k->come);
}

static const struct worker_role gate_role = { .step = gate_step, .describe = gate_describe };

void os_gate_launch(struct os_rank *r, bool combine, bool behind)
{
    r->gate = (struct os_gate){ .rank = r, .combine = combine, .behind = behind };
    ht_kernel_add(&r->ht, &r->gate.worker, &gate_role, 0, 1);
    fabric_watch(&r->gate.worker, combine ? word_ready_from(r, 0) : 0, r->ht.g.ranks, 0);
    if (behind) fabric_watch(&r->gate.worker, os_word_finished(r), 1, r->finished);
}

/* ---- local kernels ---- */

/* Copies the SM's share of the rows.  With n SMs, this is every n-th slot. */
static void stage_run(void *context, uint64_t argument)
{
    const struct ht_local *l = context;
    const struct os_rank *r = fabric_container_of(l->rank, const struct os_rank, ht);
    const uint64_t stored = r->ht.combine_slot.stored, most = r->ht.base.options->tokens_max;
    uint8_t *heap = r->ht.base.fabric->heap;
    (void)argument;
    for (uint64_t slot = l->worker.sm; slot < r->ht.g.ranks * most; slot += r->sms)
        memcpy(heap + r->map.out + slot * stored, heap + r->map.made + slot * stored, stored);
}

static void local_launch(struct os_rank *r, uint32_t sms, uint8_t site, uint64_t size_bytes, uint32_t warps)
{
    const struct fabric_work work = {
        .kind = FABRIC_WORK_COPY, .rows = warps, .read_bytes = size_bytes, .write_bytes = size_bytes, .site = site
    };
    ht_local_launch(&r->ht, r->local, sms, warps, work);
}

/* Launches the kernel that copies the experts' rows.  It has a block for each slot, and blocks without a row have
 * nothing to do.  Each warp of a block takes a part of its row. */
static void stage_launch(struct os_rank *r)
{
    const uint64_t row_bytes = r->ht.combine_slot.bytes;
    const uint32_t rows = r->ht.recv_before[r->ht.g.ranks], each = rows / r->sms, more = rows % r->sms;
    const struct fabric_work work = { .kind = FABRIC_WORK_COPY, .site = SITE_ONE_SIDED_STAGE, .run = stage_run };
    const uint32_t most = rows ? each + (more > 0) : 1;
    ht_local_launch(&r->ht, r->local, r->sms, moe_min(most, OS_BLOCKS) * OS_WARPS, work);
    for (uint32_t sm = 0; sm < r->sms; sm++) {
        struct fabric_work *own = &r->local[sm].work;
        own->rows = (each + (sm < more)) * OS_WARPS;
        own->read_bytes = own->write_bytes = own->rows / OS_WARPS * row_bytes;
    }
}

/* ---- phases ---- */

/* How many rows came from a rank in the preceding dispatch.  No other kernel may have been launched since. */
static uint32_t count_from(const struct os_rank *r, uint32_t source) { return ht_word(&r->ht, source) - 1; }

/* Reads the counts of rows.  Must be called before the next launch, which changes the epoch of the words. */
void os_counts_read(struct os_rank *r)
{
    for (uint32_t source = 0; source < r->ht.g.ranks; source++)
        r->ht.recv_before[source + 1] = r->ht.recv_before[source] + count_from(r, source);
}

/* Gives the experts the rows that have come: unpacks each row's slot, and counts the rows of each expert. */
void os_rows_view(struct os_rank *r)
{
    struct ht_rank *h = &r->ht;
    const struct ht_geometry *g = &h->g;
    ht_tensors_recv(h);
    for (uint32_t source = 0; source < g->ranks; source++)
        for (uint32_t row = h->recv_before[source]; row < h->recv_before[source + 1]; row++) {
            const uint64_t at = (uint64_t)source * h->base.options->tokens_max + row - h->recv_before[source];
            ht_slot_unpack(h, h->base.fabric->heap + r->map.in + at * h->dispatch_slot.stored,
                           g->rank * g->local_experts, row);
        }
    ht_experts_count(h);
}

/* Packs the experts' results into `made`.  With zero-copy this is where combine reads them. */
void os_rows_give(struct os_rank *r)
{
    struct ht_rank *h = &r->ht;
    ht_tensors_combine(h);
    for (uint32_t source = 0; source < h->g.ranks; source++)
        for (uint32_t row = h->recv_before[source]; row < h->recv_before[source + 1]; row++) {
            const uint64_t at = (uint64_t)source * h->base.options->tokens_max + row - h->recv_before[source];
            ht_slot_pack_combine(h, row, h->base.fabric->heap + r->map.made + at * h->combine_slot.stored);
        }
}

static struct kernel_launch *os_launch(struct kernel_rank *rank, uint32_t phase)
{
    struct os_rank *r = (struct os_rank *)rank;
    struct ht_rank *h = &r->ht;
    const struct moe_options *o = h->base.options;
    if (phase == OS_DISPATCH_SANITIZE) os_counts_read(r);
    r->launched = phase;
    ht_kernel_begin(h, phase_names[phase]);
    h->kernel.follows = phase != OS_DISPATCH_PREPARE && phase != OS_COMBINE_PREPARE;
    h->kernel.span = phase == OS_DISPATCH_SANITIZE ? "dispatch_span" : phase == OS_COMBINE ? "combine_span" : NULL;
    switch ((enum os_phase)phase) {
    case OS_DISPATCH_PREPARE: local_launch(r, 1, SITE_ONE_SIDED_ZERO, 4 * h->g.ranks, (h->g.ranks + 31) / 32); break;
    case OS_DISPATCH:
        if (h->base.fabric->payload) ht_inputs_make(h);
        r->finished = fabric_load(h->base.fabric, os_word_finished(r)) + r->blocks;
        blocks_launch(r, &push_role);
        os_gate_launch(r, false, true);
        break;
    case OS_DISPATCH_SANITIZE:
        if (h->base.fabric->payload) os_rows_view(r);
        local_launch(r, r->sms, SITE_ONE_SIDED_SANITIZE,
                     ((uint64_t)o->tokens_max * h->g.ranks - ht_recv_rows(h)) * 4 * h->g.topk, OS_WARPS);
        break;
    case OS_COMBINE_PREPARE:
        if (h->base.fabric->payload) os_rows_give(r);
        if (o->zero_copy) local_launch(r, 1, SITE_ONE_SIDED_ZERO, 4, 1);
        else stage_launch(r);
        break;
    case OS_COMBINE:
        r->opened = fabric_load(h->base.fabric, os_word_open(r)) + 1;
        blocks_launch(r, &pull_role);
        os_gate_launch(r, true, false);
        break;
    case OS_PHASES: break;
    }
    return &h->kernel;
}

void os_traffic_of(const struct os_rank *r, enum os_phase phase, struct kernel_traffic *traffic)
{
    const struct ht_rank *h = &r->ht;
    if (phase != OS_DISPATCH && phase != OS_COMBINE) return;
    const struct ht_slot *s = phase == OS_DISPATCH ? &h->dispatch_slot : &h->combine_slot;
    uint64_t rows = r->launched == OS_DISPATCH ? 0 : ht_recv_rows(h);
    for (uint32_t i = 0; r->launched == OS_DISPATCH && i < h->g.ranks; i++) rows += count_from(r, i);
    traffic->logical_nvl_bytes =
        ht_traffic_tokens(h, phase == OS_DISPATCH, rows, traffic) * (s->row_bytes + s->scale_bytes);
}

static void os_traffic(const struct kernel_rank *rank, uint32_t phase, struct kernel_traffic *traffic)
{
    os_traffic_of((const struct os_rank *)rank, (enum os_phase)phase, traffic);
}

const struct moe_family moe_family_one_sided = {
    .kernels = { .needs = os_needs,
                 .phases = phase_names,
                 .rank_new = os_create,
                 .launch = os_launch,
                 .traffic = os_traffic,
                 .outputs = ht_outputs,
                 .check = ht_check },
    .refuse = os_refuse,
};
