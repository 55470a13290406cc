/* moe_mori.c - AMD's MoRI within a node (PROTOCOLS.md 1.14).
 *
 * Memory, words and barriers are those of the one-sided kernels (moe_one_sided.h).  The library's kernels differ in
 * which warps do what.  A row's slot at a rank is its number among this rank's rows for that rank.  In the library, the
 * slot comes from a counter at the target, so slots have no particular order. */
#include <stdio.h>
#include <string.h>
#include "models/moe/formats.h"
#include "models/moe/moe_mori.h"
#include "models/moe/moe_one_sided.h"

enum mori_phase { MORI_DISPATCH, MORI_COMBINE, MORI_PHASES };
static const char *const phase_names[MORI_PHASES + 1] = { "dispatch", "combine" };

enum {
    WARPS_MAX = 16,  /* the most warps of a block: 1024 threads */
    WARPS_APART = 2, /* low latency: the warps of a block that move no rows */
};

/* A warp of a kernel.  In low-latency dispatch it stands for all warps of a block. */
struct mori_warp {
    struct fabric_worker worker;
    struct os_rank *rank;
    uint32_t number, item, target, pass;
    bool begun, pushed; /* begun: the row's slot has been taken; pushed: in combine, all rows are returned */
};

struct mori_rank {
    struct os_rank os;
    struct mori_warp *warp;
    uint32_t warps; /* warps of the grid */
    struct site_given sum, row;
};

static struct mori_rank *mori_of(const struct mori_warp *v)
{
    return fabric_container_of(v->rank, struct mori_rank, os);
}

static uint32_t block_warps(const struct moe_options *o) { return o->num_warps ? o->num_warps : WARPS_MAX / 2; }
static bool low_latency(const struct moe_options *o) { return o->family == MOE_MORI_LL; }

static const char *mori_refuse(const struct moe_options *o, char *text, size_t text_size)
{
    const uint32_t least = low_latency(o) ? WARPS_APART + 1 : 1;
    if (o->ranks > HT_LOCAL_MAX)
        KERNEL_REFUSE("num-ranks: MoRI's kernels here reach the ranks of one node, at most %d; found %u of %u a node",
                      HT_LOCAL_MAX, o->ranks, o->ranks_per_node);
    if (o->rdma_sms) KERNEL_REFUSE("rdma-sms: MoRI's kernels within a node have none");
    if (block_warps(o) < least || block_warps(o) > WARPS_MAX)
        KERNEL_REFUSE("num-warps: expected %u to %d, found %u", least, WARPS_MAX, block_warps(o));
    return ht_refuse(o, text, text_size);
}

/* Makes the map.  Combine pushes rows, and there is room for each rank and slot.  With zero-copy it pulls rows, and
 * each warp has room for the rows of the token that it sums. */
static void map_make(const struct moe_options *o, bool payload, struct os_map *m)
{
    os_map_make(o, payload, m);
    struct ht_slot dispatch, combine;
    ht_slots_plain(o, payload, &dispatch, &combine);
    const uint64_t rows = o->zero_copy ? (uint64_t)o->num_sms * block_warps(o) : o->tokens_max;
    m->end = m->gathered + rows * o->ranks * combine.stored;
}

static void mori_needs(const struct kernel_job *job, bool payload, struct fabric_needs *needs)
{
    struct os_map map;
    map_make(moe_options_of(job), payload, &map);
    *needs = os_needs_of(moe_options_of(job), &map);
}

static struct kernel_rank *mori_create(const struct kernel_job *job, struct fabric *f)
{
    const struct moe_options *o = moe_options_of(job);
    struct mori_rank *r = kernel_alloc(1, sizeof *r);
    r->warps = o->num_sms * block_warps(o);
    os_rank_init(&r->os, job, f, r->warps + 1);
    map_make(o, f->payload, &r->os.map);
    r->warp = kernel_keep(r, r->warps, sizeof r->warp[0]);
    r->sum.size[0] = moe_min(o->topk, o->ranks);
    return &r->os.ht.base.kernel;
}

/* ---- dispatch ---- */

static bool row_store(struct mori_warp *v, uint32_t token, uint32_t target, uint8_t warps, enum site site)
{
    struct os_block row = { .rank = v->rank, .token = token, .target = target };
    struct fabric_write write = os_token_write(&row, warps, (uint8_t)site);
    if (site == SITE_MORI_SEND_ROW) write.given = &mori_of(v)->row;
    return fabric_store(&v->worker, &write) == 0;
}

static enum worker_step finish(struct mori_warp *v)
{
    fabric_signal_add(&v->worker, os_word_finished(v->rank), 1, SITE_NONE);
    return WORKER_DONE;
}

/* The rank that a pair of a token and a choice sends the token to.  Returns the number of ranks if the choice has no
 * expert, or if an earlier choice of the token has the same rank. */
static uint32_t pair_rank(const struct os_rank *r, uint32_t pair)
{
    const struct ht_geometry *g = &r->ht.g;
    const int32_t *choice = r->ht.base.routing->rank[g->rank].experts + pair / g->topk * g->topk;
    const uint32_t place = pair % g->topk;
    return moe_first_of_rank(choice, place, g->local_experts) ? (uint32_t)choice[place] / g->local_experts : g->ranks;
}

/* Serves the warp's pairs of a token and a choice, one after another.  For each it takes a slot by an atomic at the
 * target, and then sends the row. */
static enum worker_step pairs_step(struct fabric_worker *w)
{
    struct mori_warp *v = fabric_container_of(w, struct mori_warp, worker);
    const struct ht_geometry *g = &v->rank->ht.g;
    const uint32_t pairs = g->tokens * g->topk, stride = mori_of(v)->warps;
    uint32_t reads = 0;
    for (; v->item < pairs; v->item += stride) {
        const uint32_t target = pair_rank(v->rank, v->item);
        reads += !v->begun;
        if (target == g->ranks) continue;
        if (!v->begun) {
            ht_scan_here(w, SITE_MORI_CHOICES_READ, reads, 4 * (uint64_t)g->topk * reads);
            ht_scan_here(w, SITE_MORI_SLOTS_TAKE, 1, 0);
            v->begun = true;
            return WORKER_MORE;
        }
        if (!row_store(v, v->item / g->topk, target, 1, SITE_MORI_SEND_ROW)) return WORKER_WAIT;
        v->begun = false;
        v->item += stride;
        return WORKER_MORE;
    }
    if (reads) ht_scan_here(w, SITE_MORI_CHOICES_READ, reads, 4 * (uint64_t)g->topk * reads);
    return finish(v);
}

/* Sends a block's next token.  While the warps store its row to one rank after another, the first warp takes the slots
 * for the following token. */
static enum worker_step block_step(struct fabric_worker *w)
{
    struct mori_warp *v = fabric_container_of(w, struct mori_warp, worker);
    const struct ht_geometry *g = &v->rank->ht.g;
    const uint32_t blocks = v->rank->ht.base.options->num_sms;
    const struct fabric_work places = { .kind = FABRIC_WORK_SCAN, .site = SITE_MORI_SLOTS_TAKE, .rows = 1, .warps = 1 };
    const bool more = v->item + (v->begun ? blocks : 0) < g->tokens;
    if (v->target == 0 && more) {
        ht_scan_here(w, SITE_MORI_CHOICES_READ, 1, 4 * g->topk);
        fabric_work(w, &places);
    }
    if (!v->begun) {
        v->begun = true;
        return WORKER_MORE;
    }
    if (v->item >= g->tokens) return finish(v);
    const uint32_t first = ht_target_next(&v->rank->ht, v->item, 0);
    for (;; v->target++) {
        v->target = ht_target_next(&v->rank->ht, v->item, v->target);
        if (v->target == g->ranks) break;
        if (!row_store(v, v->item, v->target, (uint8_t)(w->warps - WARPS_APART),
                       v->target == first ? SITE_MORI_LL_ROW : SITE_MORI_LL_ROW_AGAIN))
            return WORKER_WAIT;
    }
    v->item += blocks;
    v->target = 0;
    return WORKER_MORE;
}

/* ---- combine ---- */

static uint64_t came_at(const struct os_rank *r, uint32_t from, uint32_t slot)
{
    return r->map.gathered + ((uint64_t)from * r->ht.base.options->tokens_max + slot) * r->ht.combine_slot.stored;
}

struct returned {
    const struct os_rank *rank;
    uint32_t source, slot;
};

static void returned_fill(const void *context, uint8_t *target)
{
    const struct returned *x = context;
    const struct os_rank *r = x->rank;
    const uint64_t stored = r->ht.combine_slot.stored;
    const uint64_t at = (uint64_t)x->source * r->ht.base.options->tokens_max + x->slot;
    memcpy(target, r->ht.base.fabric->heap + r->map.made + at * stored, stored);
}

/* Stores the warp's next row back to its source.  A warp takes one row of each source in turn, and neighbouring warps
 * begin with different sources.  False: there is no room, so step again.  *more says whether it has stored a row. */
static bool rows_return(struct mori_warp *v, bool *more)
{
    const struct os_rank *r = v->rank;
    const struct ht_rank *h = &r->ht;
    const uint32_t ranks = h->g.ranks, stride = mori_of(v)->warps;
    uint32_t most = 0;
    for (uint32_t s = 0; s < ranks; s++) {
        const uint32_t rows = h->recv_before[s + 1] - h->recv_before[s];
        most = rows > most ? rows : most;
    }
    for (*more = true; v->item < most * ranks; v->item += stride) {
        const uint32_t slot = v->item / ranks, source = (v->item + slot * ranks / stride) % ranks;
        if (slot >= h->recv_before[source + 1] - h->recv_before[source]) continue;
        const struct returned row = { r, source, slot };
        const struct fabric_write write = { .target_offset = came_at(r, h->g.rank, slot),
                                            .charge_bytes = h->combine_slot.bytes,
                                            .peer = (uint16_t)source,
                                            .site = SITE_MORI_SEND_ROW,
                                            .given = &mori_of(v)->row,
                                            .fill = h->combine_slot.stored ? returned_fill : NULL,
                                            .data = &row,
                                            .size_bytes = h->combine_slot.stored };
        if (fabric_store(&v->worker, &write)) return false;
        v->item += stride;
        return true;
    }
    *more = false;
    return true;
}

/* Where in this rank's memory a rank's row for the token lies, once it has come. */
static uint64_t gathered_at(const struct mori_warp *v, uint32_t token, uint32_t target)
{
    const struct os_rank *r = v->rank;
    const uint64_t slot = ht_number_at(&r->ht, token, target), stored = r->ht.combine_slot.stored;
    if (!r->ht.base.options->zero_copy) return came_at(r, target, (uint32_t)slot);
    if (target == r->ht.g.rank) return r->map.out + (target * r->ht.base.options->tokens_max + slot) * stored;
    return r->map.gathered + ((uint64_t)v->number * r->ht.g.ranks + target) * stored;
}

/* Returns the warp's next pass.  *token gets the token whose part it sums.  If there are more warps than tokens,
 * several warps share a token. */
static struct mori_part part_of(const struct mori_warp *v, uint32_t *token)
{
    const struct ht_geometry *g = &v->rank->ht.g;
    const uint32_t shares = (mori_of(v)->warps + g->tokens - 1) / g->tokens;
    *token = v->item / shares;
    return mori_part_of(g->hidden, shares, v->item % shares, v->pass);
}

static uint32_t items_of(const struct mori_warp *v)
{
    const uint32_t tokens = v->rank->ht.g.tokens;
    return tokens ? (mori_of(v)->warps + tokens - 1) / tokens * tokens : 0;
}

static void sum_run(void *context, uint64_t argument)
{
    const struct mori_warp *v = context;
    const struct ht_rank *h = &v->rank->ht;
    uint32_t count = 0, token;
    const struct mori_part p = part_of(v, &token);
    const uint16_t *row[HT_LOCAL_MAX];
    (void)argument;
    for (uint32_t to = 0; to < h->g.ranks; to++)
        if (ht_goes_to(&v->rank->ht, token, to))
            row[count++] = (const uint16_t *)(const void *)(h->base.fabric->heap + gathered_at(v, token, to)) + p.from;
    format_rows_reduce(row, NULL, count, p.values, h->t.combined_x + (size_t)token * h->g.hidden + p.from);
}

static bool row_pull(struct mori_warp *v, const struct mori_part *p, uint32_t token)
{
    const struct os_rank *r = v->rank;
    const struct ht_slot *slot = &r->ht.combine_slot;
    const uint64_t at =
        (uint64_t)r->ht.g.rank * r->ht.base.options->tokens_max + ht_number_at(&r->ht, token, v->target);
    const uint64_t in_row = slot->stored ? 2 * (uint64_t)p->from + p->at : 0;
    const struct fabric_read read = { .source_offset = r->map.out + at * slot->stored + in_row,
                                      .target = r->ht.base.fabric->heap + gathered_at(v, token, v->target) + in_row,
                                      .charge_bytes = p->bytes,
                                      .size_bytes = slot->stored ? p->bytes : 0,
                                      .peer = (uint16_t)v->target,
                                      .warps = 1,
                                      .site = SITE_MORI_PULL };
    return fabric_get(&v->worker, &read) == 0;
}

/* Asks for the rows of a pass, all at once or one in each step. */
static enum worker_step rows_pull(struct mori_warp *v, const struct mori_part *p, uint32_t token, bool at_once)
{
    while (v->target < v->rank->ht.g.ranks) {
        const bool reads = v->target != v->rank->ht.g.rank && ht_goes_to(&v->rank->ht, token, v->target);
        if (reads && !row_pull(v, p, token)) return WORKER_WAIT;
        v->target++;
        if (reads && !at_once) return WORKER_MORE;
    }
    return WORKER_DONE;
}

/* Does one pass.  The last pass of a part writes the part's values.  The number of rows decides which loop runs.  With
 * up to four ranks in all, it is the number of the token's targets.  With more ranks, it is the number of its
 * choices. */
static enum worker_step sum_step(struct mori_warp *v)
{
    const struct ht_geometry *g = &v->rank->ht.g;
    const bool pulls = v->rank->ht.base.options->zero_copy;
    uint32_t token;
    const struct mori_part p = part_of(v, &token);
    const uint32_t targets = ht_targets_before(&v->rank->ht, token, v->rank->ht.g.ranks);
    const bool at_once = mori_rows_at_once(&p, g->ranks <= 4 ? targets : g->topk);
    const enum worker_step pulled = pulls && p.bytes ? rows_pull(v, &p, token, at_once) : WORKER_DONE;
    if (pulled != WORKER_DONE) return pulled;
    const uint64_t rows = pulls ? 1 : targets;
    mori_of(v)->sum.size[1] = at_once ? 1 : rows;
    fabric_work(&v->worker, &(struct fabric_work){ .kind = FABRIC_WORK_COPY,
                                                   .rows = 1,
                                                   .warps = 1,
                                                   .read_bytes = rows * p.bytes,
                                                   .write_bytes = p.bytes,
                                                   .site = pulls ? SITE_MORI_PULLED_SUM : SITE_MORI_CAME_SUM,
                                                   .given = &mori_of(v)->sum,
                                                   .run = p.last && p.values ? sum_run : NULL,
                                                   .context = v });
    v->target = 0;
    v->pass++;
    if (p.last) {
        v->item += mori_of(v)->warps;
        v->pass = 0;
    }
    return WORKER_MORE;
}

static enum worker_step combine_step(struct fabric_worker *w)
{
    struct mori_warp *v = fabric_container_of(w, struct mori_warp, worker);
    if (!v->pushed) {
        bool more = false;
        if (!v->rank->ht.base.options->zero_copy && !rows_return(v, &more)) return WORKER_WAIT;
        if (more) return WORKER_MORE;
        (void)finish(v);
        v->pushed = true;
        v->item = v->number;
    }
    if (fabric_load(w->fabric, os_word_open(v->rank)) < v->rank->opened) return WORKER_WAIT;
    if (v->item >= items_of(v)) return WORKER_DONE;
    return sum_step(v);
}

static void warp_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct mori_warp *v = fabric_container_of(w, struct mori_warp, worker);
    if (v->pushed && fabric_load(w->fabric, os_word_open(v->rank)) < v->rank->opened)
        snprintf(text, text_size, "MoRI's warp %u waits for combine's barrier", v->number);
    else snprintf(text, text_size, "MoRI's warp %u has no room to rank %u", v->number, v->target);
}

static const struct worker_role pairs_role = { .step = pairs_step, .describe = warp_describe };
static const struct worker_role block_role = { .step = block_step, .describe = warp_describe };
static const struct worker_role combine_role = { .step = combine_step, .describe = warp_describe };

/* ---- phases ---- */

/* Sets the sizes for the loop that moves a row: bytes of the row, of its scales, and of a value. */
static void row_given(struct mori_rank *r, const struct ht_slot *slot)
{
    r->row.size[0] = slot->row_bytes;
    r->row.size[1] = slot->scale_bytes;
    r->row.size[2] = slot->row_bytes / r->os.ht.g.hidden;
}

/* Launches `count` workers of `warps` warps each.  The workers of a block have consecutive numbers. */
static void warps_launch(struct mori_rank *r, const struct worker_role *role, uint32_t count, uint32_t warps)
{
    const uint32_t sms = r->os.ht.base.options->num_sms;
    for (uint32_t i = 0; i < count; i++) {
        struct mori_warp *v = &r->warp[i];
        *v = (struct mori_warp){ .rank = &r->os, .number = i, .item = i };
        ht_kernel_add(&r->os.ht, &v->worker, role, i / (count / sms), warps);
        if (role == &combine_role) fabric_watch(&v->worker, os_word_open(&r->os), 1, r->os.opened);
    }
}

static struct kernel_launch *mori_launch(struct kernel_rank *rank, uint32_t phase)
{
    struct mori_rank *r = (struct mori_rank *)rank;
    struct ht_rank *h = &r->os.ht;
    const struct moe_options *o = h->base.options;
    const bool blocks = phase == MORI_DISPATCH && low_latency(o);
    const uint32_t count = blocks ? o->num_sms : r->warps;
    if (phase == MORI_COMBINE) os_counts_read(&r->os);
    r->os.launched = phase == MORI_DISPATCH ? OS_DISPATCH : OS_COMBINE;
    ht_kernel_begin(h, phase_names[phase]);
    r->os.finished += count;
    if (phase == MORI_DISPATCH) {
        if (h->base.fabric->payload) ht_inputs_make(h);
        row_given(r, &h->dispatch_slot);
        warps_launch(r, blocks ? &block_role : &pairs_role, count, blocks ? block_warps(o) : 1);
    } else {
        if (h->base.fabric->payload) os_rows_view(&r->os);
        if (h->base.fabric->payload) os_rows_give(&r->os);
        r->os.opened++;
        row_given(r, &h->combine_slot);
        warps_launch(r, &combine_role, count, o->zero_copy ? o->ranks : 1);
    }
    os_gate_launch(&r->os, phase == MORI_COMBINE, true);
    return &h->kernel;
}

static void mori_traffic(const struct kernel_rank *rank, uint32_t phase, struct kernel_traffic *traffic)
{
    os_traffic_of((const struct os_rank *)rank, phase == MORI_DISPATCH ? OS_DISPATCH : OS_COMBINE, traffic);
}

const struct moe_family moe_family_mori = {
    .kernels = { .needs = mori_needs,
                 .phases = phase_names,
                 .rank_new = mori_create,
                 .launch = mori_launch,
                 .traffic = mori_traffic,
                 .outputs = ht_outputs,
                 .check = ht_check },
    .refuse = mori_refuse,
};
