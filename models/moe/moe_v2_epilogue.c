/* moe_v2_epilogue.c - the second kernels of V2 dispatch and combine (PROTOCOLS.md 1.7), on all SMs of the GPU.  They
 * copy what has come into the output, or sum what came back.  Each waits only for the kernel before it. */
#include "models/moe/moe_v2.h"

#include <stdlib.h>
#include <string.h>

struct arrival {
    uint32_t source_token, up;
    uint64_t offset;
};

static int arrival_compare(const void *a, const void *b)
{
    const uint32_t x = ((const struct arrival *)a)->source_token, y = ((const struct arrival *)b)->source_token;
    return (x > y) - (x < y);
}

/* Computes which row of the output each slot becomes.  Rows are sorted by source rank and token. */
static void rows_sort(struct v2_rank *r)
{
    struct ht_rank *h = &r->ht;
    const struct ht_geometry *g = &h->g;
    const struct ht_slot *s = &r->up_slot;
    struct arrival *arrival = kernel_alloc(ht_recv_rows(h), sizeof *arrival);
    uint32_t count = 0;
    for (uint32_t from = 0; from < g->local; from++)
        for (uint32_t c = 0; c < r->channels; c++)
            for (uint32_t i = 0; i < r->up_count[c * g->local + from]; i++) {
                struct arrival *a = &arrival[count++];
                a->up = v2_up_at(r, from, c) + i;
                a->offset = r->map.up + (uint64_t)a->up * s->stored;
                memcpy(&a->source_token, h->base.fabric->heap + a->offset + s->meta, sizeof a->source_token);
            }
    qsort(arrival, count, sizeof *arrival, arrival_compare);
    memset(h->recv_before, 0, sizeof h->recv_before);
    for (uint32_t row = 0; row < count; row++) {
        r->up_row[arrival[row].up] = row;
        r->row_slot[row] = arrival[row].offset;
        h->recv_before[arrival[row].source_token / h->base.options->tokens_max + 1]++;
    }
    for (uint32_t source = 0; source < g->ranks; source++) h->recv_before[source + 1] += h->recv_before[source];
    free(arrival);
}

/* Counts the rows that each expert got, from the choices in the rows. */
static void experts_count(struct v2_rank *r)
{
    struct ht_rank *h = &r->ht;
    const uint32_t align = h->base.options->expert_alignment;
    memset(h->expert_counts, 0, h->g.local_experts * sizeof h->expert_counts[0]);
    for (uint32_t row = 0; row < ht_recv_rows(h); row++)
        for (uint32_t j = 0; j < h->dispatch_slot.topk; j++) {
            int32_t expert;
            memcpy(&expert, h->base.fabric->heap + r->row_slot[row] + h->dispatch_slot.index + 4 * j, sizeof expert);
            const uint32_t local = (uint32_t)expert - h->g.rank * h->g.local_experts;
            if (expert >= 0 && local < h->g.local_experts) h->expert_counts[local]++;
        }
    for (uint32_t e = 0; e < h->g.local_experts; e++)
        h->expert_counts[e] = (uint32_t)moe_align(h->expert_counts[e], align);
}

static void copy_run(void *context, uint64_t argument)
{
    const struct v2_epilogue *p = context;
    struct v2_rank *r = p->rank;
    (void)argument;
    for (uint32_t row = p->first; row < p->end; row++) {
        ht_slot_unpack(&r->ht, r->ht.base.fabric->heap + r->row_slot[row], r->ht.g.rank * r->ht.g.local_experts, row);
        if (r->ht.expanded_at) ht_expand_row(&r->ht, row);
    }
}

/* Where the token's sum from a target lies; in direct mode, where the target's row lies.  If the target returns several
 * rows, `place` tells which one. */
static const uint8_t *back_slot(const struct v2_rank *r, uint32_t token, uint32_t target, uint32_t place)
{
    const uint32_t at = r->ht.layout.position[(size_t)token * r->ht.layout.targets + target],
                   channel = token % r->channels;
    const uint32_t places = v2_sends_all(r->ht.base.options) ? r->ht.g.topk : 1;
    const uint64_t slot = v2_hybrid(r) ? v2_out_at(r, target, channel, at) : v2_up_at(r, target, channel) + at;
    const uint64_t area = v2_hybrid(r) ? r->map.combine_out : r->map.combine_up;
    return r->ht.base.fabric->heap + area + (slot * places + place) * r->ht.combine_slot.stored;
}

/* How many rows the target returned for one of the rank's own tokens. */
static uint32_t back_count(const struct v2_rank *r, uint32_t token, uint32_t target)
{
    const struct ht_rank *h = &r->ht;
    const int32_t *expert = &h->base.routing->rank[h->g.rank].experts[(size_t)token * h->g.topk];
    uint32_t count = 0;
    if (!v2_sends_all(h->base.options)) return 1;
    for (uint32_t j = 0; j < h->g.topk; j++)
        count += expert[j] >= 0 && (uint32_t)expert[j] / h->g.local_experts == target;
    return count;
}

static uint32_t back_rows(const struct v2_rank *r, uint32_t token)
{
    uint32_t rows = 0;
    for (uint32_t i = v2_target(r, token, 0); i < r->ht.layout.targets; i = v2_target(r, token, i + 1))
        rows += back_count(r, token, i);
    return rows;
}

static void reduce_run(void *context, uint64_t argument)
{
    const struct v2_epilogue *p = context;
    struct v2_rank *r = p->rank;
    struct ht_rank *h = &r->ht;
    (void)argument;
    for (uint32_t t = p->first; t < p->end; t++) {
        const uint8_t *slot[HT_TOPK_MAX];
        uint32_t count = 0;
        for (uint32_t i = v2_target(r, t, 0); i < h->layout.targets; i = v2_target(r, t, i + 1))
            for (uint32_t k = 0; k < back_count(r, t, i); k++) slot[count++] = back_slot(r, t, i, k);
        ht_token_combine(h, t, slot, count);
    }
}

static enum worker_step epilogue_step(struct fabric_worker *w)
{
    struct v2_epilogue *p = fabric_container_of(w, struct v2_epilogue, worker);
    if (!p->counted) { /* the counts, before the first row */
        p->counted = true;
        ht_scan_here(w, SITE_V2_COPY_COUNTS, 1, 8);
        return WORKER_MORE;
    }
    const struct v2_rank *r = p->rank;
    const struct ht_rank *h = &r->ht;
    const struct ht_slot *slot = p->combine ? &h->combine_slot : &h->dispatch_slot;
    const uint32_t rows = p->end - p->first;
    uint64_t read = p->combine ? (uint64_t)rows * h->base.options->num_bias : rows, written = p->combine ? rows : 0;
    for (uint32_t i = p->first; i < p->end; i++) {
        if (p->combine) read += back_rows(r, i);
        else written += ht_expanded_count(&r->ht, i);
    }
    if (rows)
        fabric_work(w, &(struct fabric_work){ .kind = p->combine ? FABRIC_WORK_REDUCE : FABRIC_WORK_COPY,
                                              .rows = rows,
                                              .read_bytes = read * (p->combine ? slot->row_bytes : slot->bytes),
                                              .write_bytes = written * (slot->row_bytes + slot->scale_bytes),
                                              .site = p->combine ? SITE_V2_REDUCE_ROW : SITE_V2_COPY_ROW,
                                              .given = p->combine ? &p->rank->reduce : &p->rank->copy,
                                              .run = p->combine ? reduce_run : copy_run,
                                              .context = p });
    return WORKER_DONE;
}

static const struct worker_role epilogue_role = { .step = epilogue_step };

/* Launches an epilogue.  The shares of two SMs differ by one item at most.  A warp takes one item at a time. */
static void epilogue_launch(struct v2_rank *r, bool combine, uint32_t items, uint32_t warps)
{
    const uint32_t sms = r->epilogue_sms, share = items / sms, more = items % sms;
    for (uint32_t sm = 0; sm < sms; sm++) {
        struct v2_epilogue *p = &r->epilogue[sm];
        *p = (struct v2_epilogue){
            .rank = r, .combine = combine, .counted = combine, .first = sm * share + moe_min(sm, more)
        };
        p->end = p->first + share + (sm < more);
        ht_kernel_add(&r->ht, &p->worker, &epilogue_role, sm, warps);
    }
}

/* Launches dispatch's epilogue.  up_count says how many slots came. */
void v2_copy_launch(struct v2_rank *r)
{
    struct ht_rank *h = &r->ht;
    uint32_t rows = 0;
    for (uint32_t from = 0; from < h->g.local; from++)
        for (uint32_t c = 0; c < r->channels; c++) rows += r->up_count[c * h->g.local + from];
    h->recv_before[h->g.ranks] = rows;
    for (uint32_t from = 0; !v2_hybrid(r) && from < h->g.local; from++)
        h->recv_before[from + 1] = h->recv_before[from] + r->up_count[from];
    ht_expand_make(&r->ht);
    if (h->base.fabric->payload) {
        rows_sort(r);
        ht_tensors_recv(h);
        experts_count(r);
    }
    r->copy = (struct site_given){ .size = { (uint64_t)rows * h->dispatch_slot.bytes } };
    epilogue_launch(r, false, rows, r->copy_warps);
}

void v2_reduce_launch(struct v2_rank *r)
{
    const struct ht_rank *h = &r->ht;
    const uint32_t biases = h->base.options->num_bias, tokens = h->g.tokens ? h->g.tokens : 1;
    uint64_t rows = 0;
    bool several = biases > 0; /* without a bias, a sum of one or two rows needs no conversion */
    for (uint32_t t = 0; t < h->g.tokens; t++) {
        const uint32_t back = back_rows(r, t);
        rows += back;
        several |= back > 2;
    }
    const uint64_t row_bytes = h->combine_slot.row_bytes, each = (rows + tokens - 1) / tokens;
    r->reduce =
        (struct site_given){ .size = { each, biases, rows * row_bytes, several ? (each + biases) * row_bytes : 0 } };
    epilogue_launch(r, true, h->g.tokens, r->reduce_warps);
}
