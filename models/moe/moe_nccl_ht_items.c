/* moe_nccl_ht_items.c - NCCL EP's high throughput: the places of rows, the order in which pipelines take tokens and
 * rows, and a token as it is sent (PROTOCOLS.md 1.19).  Knows no worker. */
#include "models/moe/moe_nccl_ht.h"

#include <stdlib.h>
#include <string.h>

/* ---- places ---- */

/* Writes to bin[] where the rows of a token go on this node, in order: the ranks or, by experts, the node's experts.
 * Returns their number. */
static uint32_t bins_find(const struct nh_rank *r, const int32_t *expert, uint32_t *bin)
{
    const struct ht_geometry *g = &r->ht.g;
    const bool expand = r->ht.base.options->expand;
    uint32_t count = 0;
    for (uint32_t j = 0; j < g->topk; j++) {
        const uint32_t e = (uint32_t)expert[j] - ht_neighbour(&r->ht.g, 0) * g->local_experts;
        if (expert[j] < 0 || e >= g->local * g->local_experts) continue;
        const uint32_t b = expand ? e : e / g->local_experts;
        uint32_t at = count;
        while (at && bin[at - 1] > b) at--;
        if (!expand && at && bin[at - 1] == b) continue;
        memmove(&bin[at + 1], &bin[at], (count++ - at) * sizeof bin[0]);
        bin[at] = b;
    }
    return count;
}

/* Gives a rank's tokens their places on this node.  next[] has the next row of each bin. */
static void tokens_place(struct nh_rank *r, uint32_t source, uint32_t *next)
{
    const struct ht_geometry *g = &r->ht.g;
    const struct routing_rank *row = &r->ht.base.routing->rank[source];
    const uint32_t of_rank = r->ht.base.options->expand ? g->local_experts : 1;
    for (uint32_t t = 0; t < row->tokens; t++) {
        uint32_t bin[HT_TOPK_MAX];
        const uint32_t count = bins_find(r, &row->experts[(size_t)t * g->topk], bin);
        for (uint32_t i = 0; i < count; i++) {
            const struct nh_place place = { next[bin[i]]++, bin[i] / of_rank };
            if (source % g->local == g->self) nh_places(r, source / g->local, t)[i] = place;
        }
    }
}

/* The library's kernel finds places in a map of all ranks' choices.  The rows of a rank or, by experts, of an expert,
 * are in the order of source and token. */
static void places_make(struct nh_rank *r)
{
    const struct ht_geometry *g = &r->ht.g;
    const bool expand = r->ht.base.options->expand;
    const uint64_t places = (uint64_t)g->nodes * r->ht.base.options->tokens_max * r->width;
    r->place = kernel_keep(r, places, sizeof r->place[0]);
    memset(r->place, 0xff, places * sizeof r->place[0]);
    uint32_t *next = kernel_alloc(g->local * g->local_experts, sizeof next[0]);
    if (expand) ht_experts_begin(&r->ht, ht_neighbour(&r->ht.g, 0), g->local, next);
    for (uint32_t source = 0; source < g->ranks; source++) {
        if (expand || source % g->local == g->self) tokens_place(r, source, next);
        else
            for (uint32_t n = 0; n < g->local; n++)
                next[n] += ht_tokens_between(&r->ht, source, ht_neighbour(&r->ht.g, n), 1);
        r->ht.recv_before[source + 1] =
            expand ? r->ht.recv_before[source] + ht_tokens_between(&r->ht, source, g->rank, 1) : next[g->self];
    }
    const uint32_t alignment = r->ht.base.options->expert_alignment, *end = next + g->self * g->local_experts;
    for (uint32_t e = 0; expand && e < g->local_experts; e++)
        r->gap_rows += (uint32_t)moe_align(end[e], alignment) - end[e];
    free(next);
}

/* ---- lists ---- */

/* A list that is being made, in two passes: first items are counted, then written. */
struct making {
    struct nh_rank *rank;
    struct nh_list *list;
    uint32_t *end; /* [pipelines] where each pipeline's next item goes; NULL in the first pass */
};

static void item_add(const struct making *m, uint32_t pipeline, struct nh_item item)
{
    if (m->end) m->list->item[m->end[pipeline]++] = item;
    else m->list->first[pipeline + 1]++;
}

static void list_make(struct nh_rank *r, struct nh_list *list, uint32_t stages, void (*pass)(const struct making *m))
{
    struct making m = { .rank = r, .list = list };
    list->stages = stages;
    list->first = kernel_keep(r, r->pipelines + 1, sizeof list->first[0]);
    pass(&m);
    for (uint32_t p = 0; p < r->pipelines; p++) list->first[p + 1] += list->first[p];
    list->item = kernel_keep(r, list->first[r->pipelines], sizeof list->item[0]);
    m.end = kernel_alloc(r->pipelines, sizeof m.end[0]);
    for (uint32_t p = 0; p < r->pipelines; p++) m.end[p] = list->first[p];
    pass(&m);
    free(m.end);
}

static uint32_t chunk_end(const struct nh_rank *r, uint32_t node, uint32_t chunk)
{
    return moe_min((chunk + 1) * r->form->chunk, nh_tokens(r, node));
}

/* Chunks go to blocks in rotation, and a block's chunks to its pipelines in rotation.  A pipeline takes the chunk of
 * its own node, then those of the same number of the nodes before it. */
static void dispatch_pass(const struct making *m)
{
    const struct nh_rank *r = m->rank;
    const uint32_t blocks = nh_blocks(r);
    for (uint32_t c = 0; c < nh_chunks(r); c++)
        for (uint32_t n = 0; n < r->ht.g.nodes; n++) {
            const uint32_t node = nh_node_before(r, n),
                           pipeline = c % blocks * NH_PIPELINES + c / blocks % r->form->pipelines;
            uint16_t number = 0;
            for (uint32_t t = c * r->form->chunk; t < chunk_end(r, node, c); t++)
                if (nh_needed(r, node, t))
                    item_add(m, pipeline, (struct nh_item){ t, (uint8_t)node, n ? NH_FAR : NH_NEAR, number++ });
        }
}

/* Adds the rows that this node has of a token.  Returns their number. */
static uint32_t near_add(const struct making *m, uint32_t pipeline, uint32_t node, uint32_t token)
{
    const struct nh_rank *r = m->rank;
    const uint32_t rows = nh_copies(r, node, token);
    for (uint32_t i = 0; i < rows; i++)
        item_add(m, pipeline, (struct nh_item){ token, (uint8_t)node, NH_NEAR, (uint16_t)i });
    return rows;
}

static void own_add(const struct making *m, uint32_t pipeline, uint32_t token)
{
    const struct nh_rank *r = m->rank;
    uint32_t rows = near_add(m, pipeline, r->ht.g.node, token);
    for (uint32_t n = 1; n < r->ht.g.nodes; n++) {
        const uint32_t node = nh_node_before(r, n);
        if (!nh_goes_to_node(r, token, node)) continue;
        item_add(m, pipeline, (struct nh_item){ token, (uint8_t)r->ht.g.node, NH_FAR, (uint16_t)node });
        rows++;
    }
    if (!rows) item_add(m, pipeline, (struct nh_item){ token, (uint8_t)r->ht.g.node, NH_NONE, 0 });
}

/* The groups of each chunk of own tokens go to blocks in rotation.  Within a node a group's tokens go to pipelines in
 * rotation.  Between nodes the first pipeline has them all, and the second sums the rows of other nodes' tokens, whose
 * chunks go to blocks in rotation. */
static void combine_pass(const struct making *m)
{
    const struct nh_rank *r = m->rank;
    const uint32_t blocks = nh_blocks(r), others = r->ht.g.nodes - 1;
    for (uint32_t t = 0; t < r->ht.g.tokens; t++) {
        const uint32_t block = t % r->form->chunk / NH_GROUP % blocks;
        own_add(m, block * NH_PIPELINES + (others ? 0 : t % NH_GROUP % r->form->pipelines), t);
    }
    for (uint32_t i = 0; i < others * nh_chunks(r); i++) {
        const uint32_t node = ht_node_after(&r->ht.g, i % others), c = i / others;
        for (uint32_t t = c * r->form->chunk; t < chunk_end(r, node, c); t++)
            near_add(m, i % blocks * NH_PIPELINES + 1, node, t);
    }
}

void nh_lists_make(struct nh_rank *r)
{
    places_make(r);
    list_make(r, &r->token, r->form->stages, dispatch_pass);
    list_make(r, &r->row, r->ht.g.nodes > 1 ? r->form->stages_far : r->form->stages, combine_pass);
}

/* ---- tokens ---- */

void nh_token_pack(const struct nh_rank *r, uint32_t token, uint32_t node, uint32_t nodes, uint8_t *slot)
{
    const struct ht_rank *h = &r->ht;
    const struct ht_slot *form = &h->dispatch_slot;
    const uint32_t experts = h->g.local * h->g.local_experts;
    memset(slot, 0, form->weight + (size_t)4 * nodes * experts);
    memcpy(slot, h->t.x + (size_t)token * form->row_bytes, form->row_bytes);
    memcpy(slot + form->scale, h->t.scales + (size_t)token * form->scale_bytes, form->scale_bytes);
    for (uint32_t j = 0; j < h->g.topk; j++) {
        const int32_t expert = ht_expert(h, h->g.rank, token * h->g.topk + j);
        const uint32_t place = (uint32_t)expert - node * experts;
        const float *weight = &h->t.weights[(size_t)token * h->g.topk + j];
        if (expert >= 0 && place < nodes * experts)
            memcpy(slot + form->weight + (size_t)place * sizeof *weight, weight, sizeof *weight);
    }
}
