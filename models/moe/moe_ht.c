/* moe_ht.c - the common part of the intranode and internode kernels: limits, phases, the layout of a rank's tokens,
 * launches, barriers and rings of slots.  Knows no kernel's workers.  Tensors are in moe_ht_tensor.c. */
#include "models/moe/moe_ht.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const char *chunks_refuse(const char *phase, const struct moe_chunks *c, char *text, size_t text_size)
{
    if (c->nvl_send == 0 || c->nvl_send > UINT8_MAX)
        KERNEL_REFUSE("%s nvl-chunk: expected 1 to %d tokens, found %u", phase, UINT8_MAX, c->nvl_send);
    if (c->nvl_send >= c->nvl_recv)
        KERNEL_REFUSE("%s nvl-buffer: expected more than nvl-chunk %u, found %u", phase, c->nvl_send, c->nvl_recv);
    return NULL;
}

const char *ht_refuse(const struct moe_options *o, char *text, size_t text_size)
{
    if (o->family == MOE_NORMAL && (o->num_sms < 2 || o->num_sms % 2))
        KERNEL_REFUSE("num-sms: expected an even number, at least 2, found %u", o->num_sms);
    if (o->topk > HT_TOPK_MAX) KERNEL_REFUSE("num-topk: expected at most %d, found %u", HT_TOPK_MAX, o->topk);
    if (o->experts / o->ranks > 1024)
        KERNEL_REFUSE("num-experts: expected at most 1024 for each rank, found %u", o->experts / o->ranks);
    if (o->ue8m0 && o->hidden % 512) KERNEL_REFUSE("hidden: ue8m0 needs a multiple of 512, found %u", o->hidden);
    if (o->expert_alignment == 0) KERNEL_REFUSE("expert-alignment: expected at least 1, found 0");
    if (o->cached && o->weights) KERNEL_REFUSE("weights: a cached dispatch carries no top-k weights to combine");
    if (o->cached && o->worst_tokens) KERNEL_REFUSE("worst-tokens: a cached dispatch knows how many tokens come");
    const char *reason = chunks_refuse("dispatch", &o->dispatch, text, text_size);
    return reason ? reason : chunks_refuse("combine", &o->combine, text, text_size);
}

/* Fills in the offsets of a slot's parts, which follow one another, and its bytes.  Internode slots are padded to
 * multiples of 16 bytes. */
static void slot_finish(struct ht_slot *slot, uint32_t meta_bytes, bool payload, uint32_t align)
{
    slot->scale = slot->row_bytes;
    slot->meta_bytes = meta_bytes;
    slot->meta = slot->scale + slot->scale_bytes;
    slot->index = slot->meta + meta_bytes;
    slot->weight = slot->index + slot->topk * slot->index_bytes;
    slot->bytes = (uint32_t)moe_align(slot->weight + slot->topk * sizeof(float), align);
    slot->stored = payload ? slot->bytes : 0;
}

void ht_slot_dispatch(const struct moe_options *o, bool payload, bool internode, struct ht_slot *slot)
{
    const bool fp8 = o->dtype == MOE_FP8;
    *slot = (struct ht_slot){ .row_bytes = fp8 ? o->hidden : 2 * o->hidden,
                              .topk = o->cached ? 0 : o->topk,
                              .scale_bytes = fp8 ? o->hidden / 128 * (o->ue8m0 ? 1 : 4) : 0,
                              .index_bytes = internode ? 4 : 8 };
    slot_finish(slot, internode ? 8 : 4, payload, internode ? 16 : 1);
}

void ht_slot_combine(const struct moe_options *o, bool payload, bool internode, struct ht_slot *slot)
{
    *slot = (struct ht_slot){ .row_bytes = 2 * o->hidden, .topk = o->weights ? o->topk : 0 };
    slot_finish(slot, internode ? 8 : 4, payload, internode ? 16 : 1);
}

void ht_slots_plain(const struct moe_options *o, bool payload, struct ht_slot *dispatch, struct ht_slot *combine)
{
    ht_slot_dispatch(o, payload, true, dispatch);
    slot_finish(dispatch, 0, payload, 1);
    ht_slot_combine(o, payload, true, combine);
    combine->meta_bytes = 0;
    combine->bytes = combine->row_bytes;
    combine->stored = payload ? combine->bytes : 0;
}

/* ---- phases -------------------------------------------------------------------------------------------- */

static const enum ht_phase ht_phases[2][5] = {
    { HT_LAYOUT, HT_NOTIFY, HT_DISPATCH, HT_CACHED_NOTIFY_COMBINE, HT_COMBINE },
    { HT_CACHED_NOTIFY, HT_DISPATCH, HT_CACHED_NOTIFY_COMBINE, HT_COMBINE },
};
static const char *const ht_phase_names[2][5] = {
    { "layout", "notify", "dispatch", "cached_notify_combine", "combine" },
    { "cached_notify_dispatch", "dispatch", "cached_notify_combine", "combine" },
};

uint32_t ht_phase_count(const struct kernel_job *job) { return moe_options_of(job)->cached ? 4 : 5; }

const char *ht_phase_name(const struct kernel_job *job, uint32_t phase)
{
    assert(phase < ht_phase_count(job));
    return ht_phase_names[moe_options_of(job)->cached][phase];
}

bool ht_begins_loop(const struct kernel_job *job, uint32_t phase)
{
    return ht_phase_of(moe_options_of(job), phase) == HT_CACHED_NOTIFY_COMBINE;
}

bool ht_behind_barrier(const struct kernel_job *job, uint32_t phase)
{
    const enum ht_phase kind = ht_phase_of(moe_options_of(job), phase);
    return kind == HT_DISPATCH || kind == HT_COMBINE; /* the preceding notify kernel ends with a barrier */
}

enum ht_phase ht_phase_of(const struct moe_options *o, uint32_t phase)
{
    assert(phase < (o->cached ? 4 : 5));
    return ht_phases[o->cached][phase];
}

/* ---- a rank -------------------------------------------------------------------------------------------- */

static void layout_alloc(struct ht_rank *h)
{
    const struct ht_geometry *g = &h->g;
    struct ht_layout *l = &h->layout;
    l->targets = g->nodes == 1 ? g->ranks : g->nodes;
    l->tokens_per_rank = kernel_keep(h, g->ranks, sizeof(uint32_t));
    l->tokens_per_node = kernel_keep(h, g->nodes, sizeof(uint32_t));
    l->tokens_per_expert = kernel_keep(h, g->experts, sizeof(uint32_t));
    l->bits = kernel_keep(h, (uint64_t)g->tokens * g->nodes * g->groups, 1);
    l->rank_prefix = kernel_keep(h, (uint64_t)g->ranks * (g->channels + 1), sizeof(uint32_t));
    l->node_prefix = kernel_keep(h, (uint64_t)g->nodes * (g->channels + 1), sizeof(uint32_t));
    l->mask = kernel_keep(h, g->tokens, sizeof(uint32_t));
    l->position = kernel_keep(h, (uint64_t)g->tokens * l->targets, sizeof(uint32_t));
    if (g->nodes == 1 && g->groups == 1) l->list = kernel_keep(h, (uint64_t)g->tokens * g->ranks, sizeof(uint32_t));
}

void ht_rank_init(struct ht_rank *h, const struct kernel_job *job, struct fabric *f, bool internode, uint32_t scan_max,
                  uint32_t worker_max)
{
    const struct moe_options *o = moe_options_of(job);
    const uint32_t local = internode ? o->ranks_per_node : o->ranks;
    assert((local <= HT_LOCAL_MAX || o->family != MOE_NORMAL) && o->ranks / local <= HT_NODES_MAX);
    assert(o->ranks <= HT_RANKS_MAX && f->rank < o->ranks);
    h->base = moe_rank_of(job, f);
    h->g = (struct ht_geometry){
        .ranks = o->ranks,
        .nodes = o->ranks / local,
        .local = local,
        .groups = (local + 7) / 8,
        .rank = f->rank,
        .node = f->rank / local,
        .self = f->rank % local,
        .channels = (o->num_sms + 1) / 2,
        .tokens = h->base.routing->rank[f->rank].tokens,
        .hidden = o->hidden,
        .topk = o->topk,
        .experts = o->experts,
        .local_experts = o->experts / o->ranks,
    };
    assert(h->g.tokens <= o->tokens_max);
    h->g.channel_tokens = moe_ceiling(h->g.tokens, h->g.channels);
    layout_alloc(h);
    ht_slot_dispatch(o, f->payload, internode, &h->dispatch_slot);
    ht_slot_combine(o, f->payload, internode, &h->combine_slot);
    h->expert_counts = kernel_keep(h, h->g.local_experts, sizeof(uint32_t));
    const uint32_t layout_sms = (o->experts + 3) / 4 + (o->ranks + 7) / 8;
    h->scan_max = scan_max > layout_sms ? scan_max : layout_sms;
    h->scan = kernel_keep(h, h->scan_max, sizeof h->scan[0]);
    h->worker_max = worker_max > h->scan_max + 1 ? worker_max : h->scan_max + 1;
    h->kernel.worker = kernel_keep(h, h->worker_max, sizeof h->kernel.worker[0]);
    if (!o->cached) return;
    ht_layout_make(h);
    for (uint32_t source = 0; source < o->ranks; source++)
        h->recv_before[source + 1] =
            h->recv_before[source] +
            (source == f->rank ? h->layout.tokens_per_rank[source] : ht_tokens_between(h, source, f->rank, 1));
}

void ht_choices_sort(const struct ht_rank *h, uint32_t *before, uint32_t *place)
{
    const struct ht_geometry *g = &h->g;
    const uint32_t choices = g->tokens * g->topk;
    memset(before, 0, (g->experts + 1) * sizeof before[0]);
    for (uint32_t i = 0; i < choices; i++)
        if (ht_expert(h, g->rank, i) >= 0) before[ht_expert(h, g->rank, i) + 1]++;
    for (uint32_t e = 0; e < g->experts; e++) before[e + 1] += before[e];
    uint32_t *at = kernel_alloc(g->experts, sizeof at[0]);
    memcpy(at, before, g->experts * sizeof at[0]);
    for (uint32_t i = 0; i < choices; i++) {
        const int32_t expert = ht_expert(h, g->rank, i);
        place[i] = expert < 0 ? UINT32_MAX : at[expert]++;
    }
    free(at);
}

/* Vectors of four choices, which are compared at once. */
typedef uint32_t choices __attribute__((vector_size(4 * sizeof(uint32_t))));
typedef int32_t choices_signed __attribute__((vector_size(4 * sizeof(int32_t))));
typedef uint64_t choices_halves __attribute__((vector_size(2 * sizeof(uint64_t))));

static inline choices choices_read(const int32_t *expert)
{
    choices c;
    memcpy(&c, expert, sizeof c);
    return c;
}

/* tokens_count() for topk 8.  Vector units compare signed numbers only, so all numbers are shifted until `first` is the
 * smallest signed number. */
static uint32_t tokens_count_8(const struct routing_rank *row, uint32_t first, uint32_t count)
{
    const uint32_t from = (uint32_t)INT32_MIN - first;
    const int32_t to = (int32_t)(count + (uint32_t)INT32_MIN);
    const int32_t *expert = row->experts;
    uint32_t tokens = 0;
    for (uint32_t t = 0; t < row->tokens; t++, expert += 8) {
        const choices_signed low = (choices_signed)(choices_read(expert) + from);
        const choices_signed high = (choices_signed)(choices_read(expert + 4) + from);
        const choices_halves hit = (choices_halves)((low < to) | (high < to));
        tokens += (hit[0] | hit[1]) != 0;
    }
    return tokens;
}

/* How many tokens have one of the `count` experts from `first` on.  It is inlined for each common topk, so that the
 * number of choices is a constant. */
static inline uint32_t tokens_count(const struct routing_rank *row, uint32_t topk, uint32_t first, uint32_t count)
{
    const int32_t *expert = row->experts;
    uint32_t tokens = 0;
    for (uint32_t t = 0; t < row->tokens; t++, expert += topk) {
        uint32_t hit = 0;
        for (uint32_t j = 0; j < topk; j++) hit |= (uint32_t)expert[j] - first < count;
        tokens += hit;
    }
    return tokens;
}

uint32_t ht_tokens_between(const struct ht_rank *h, uint32_t source, uint32_t target, uint32_t targets)
{
    const struct routing_rank *row = &h->base.routing->rank[source];
    const uint32_t count = h->g.local_experts * targets, first = target * h->g.local_experts;
    switch (h->g.topk) {
    case 8: return tokens_count_8(row, first, count);
    case 4: return tokens_count(row, 4, first, count);
    default: return tokens_count(row, h->g.topk, first, count);
    }
}

/* ---- layout -------------------------------------------------------------------------------------------- */

/* With one node, finds which of its ranks need each token.  counts and bit_of have an extra first place, for expert -1,
 * which means no expert. */
static inline void bits_make(uint8_t *bits, const int32_t *expert, uint32_t tokens, uint32_t topk, uint32_t *counts,
                             const uint8_t *bit_of)
{
    _Static_assert(ROUTING_NONE == -1, "the place before expert 0");
    for (uint32_t t = 0; t < tokens; t++, expert += topk) {
        uint32_t wanted = 0;
        for (uint32_t j = 0; j < topk; j++) {
            counts[expert[j] + 1]++;
            wanted |= bit_of[expert[j] + 1];
        }
        bits[t] = (uint8_t)wanted;
    }
}

static void bits_make_node(struct ht_layout *l, const struct ht_geometry *g, const int32_t *expert)
{
    uint32_t counts[g->experts + 1];
    uint8_t bit_of[g->experts + 1];
    memset(counts, 0, sizeof counts);
    bit_of[0] = 0;
    for (uint32_t e = 0; e < g->experts; e++) bit_of[e + 1] = (uint8_t)(1u << e / g->local_experts);
    if (g->topk == 8) bits_make(l->bits, expert, g->tokens, 8, counts, bit_of);
    else bits_make(l->bits, expert, g->tokens, g->topk, counts, bit_of);
    memcpy(l->tokens_per_expert, counts + 1, g->experts * sizeof(uint32_t));
}

static void bits_make_nodes(struct ht_layout *l, const struct ht_geometry *g, const int32_t *expert)
{
    uint16_t byte_of[g->experts];
    uint8_t bit_of[g->experts], *bits = l->bits;
    for (uint32_t e = 0; e < g->experts; e++) {
        const uint32_t rank = e / g->local_experts;
        byte_of[e] = (uint16_t)(rank / g->local * g->groups + rank % g->local / 8);
        bit_of[e] = (uint8_t)(1u << rank % g->local % 8);
    }
    const uint32_t bytes = g->nodes * g->groups;
    memset(bits, 0, (size_t)g->tokens * bytes);
    memset(l->tokens_per_expert, 0, g->experts * sizeof l->tokens_per_expert[0]);
    for (uint32_t t = 0; t < g->tokens; t++, expert += g->topk, bits += bytes) {
        for (uint32_t j = 0; j < g->topk; j++) {
            const int32_t e = expert[j];
            if (e < 0) continue;
            l->tokens_per_expert[e]++;
            bits[byte_of[e]] |= bit_of[e];
        }
    }
}

/* Adds the tokens [token, end) of a channel to the rings of their targets.  To avoid branches, every token is written
 * at the end of each target's list; if it is not for that target, the next token overwrites it.  It is inlined for each
 * number of targets. */
static inline void layout_add(const struct ht_layout *l, uint32_t tokens, uint32_t token, uint32_t end,
                              uint32_t targets)
{
    uint32_t count[HT_LOCAL_MAX], start[HT_LOCAL_MAX], in_use = 0;
    for (uint32_t rank = 0; rank < targets; rank++) count[rank] = start[rank] = l->tokens_per_rank[rank];
    uint32_t *const list = l->list, *const mask = l->mask;
    uint32_t *position = &l->position[(size_t)token * targets];
    for (; token < end; token++, position += targets) {
        const uint32_t bits = l->bits[token];
        mask[token] = bits;
        in_use += bits != 0;
        for (uint32_t rank = 0; rank < targets; rank++) {
            position[rank] = count[rank] - start[rank];
            list[(size_t)rank * tokens + count[rank]] = token;
            count[rank] += bits >> rank & 1;
        }
    }
    for (uint32_t rank = 0; rank < targets; rank++) l->tokens_per_rank[rank] = count[rank];
    l->tokens_per_node[0] += in_use;
}

static void layout_add_ranks(const struct ht_layout *l, uint32_t tokens, uint32_t token, uint32_t end)
{
    switch (l->targets) {
    case 4: layout_add(l, tokens, token, end, 4); break;
    case 8: layout_add(l, tokens, token, end, 8); break;
    default: layout_add(l, tokens, token, end, l->targets);
    }
}

/* Adds a token to the rings of its target nodes.  start[] has, for each node, how many tokens its ring had when the
 * channel began. */
static void layout_token_add_nodes(const struct ht_layout *l, const struct ht_geometry *g, uint32_t token,
                                   const uint32_t *start)
{
    const uint8_t *bits = &l->bits[(size_t)token * g->nodes * g->groups];
    uint32_t *position = &l->position[(size_t)token * g->nodes];
    uint32_t mask = 0;
    for (uint32_t n = 0; n < g->nodes; n++, bits += g->groups) {
        uint32_t ranks = 0;
        position[n] = l->tokens_per_node[n] - start[n];
        for (uint32_t i = 0; i < g->groups; i++)
            for (uint32_t left = bits[i]; left; left &= left - 1, ranks++)
                l->tokens_per_rank[n * g->local + 8 * i + (uint32_t)__builtin_ctz(left)]++;
        if (!ranks) continue;
        mask |= 1u << n;
        l->tokens_per_node[n]++;
    }
    l->mask[token] = mask;
}

/* Adds a token of a channel to the rings of the ranks that need it, on one node of more than eight ranks. */
static void layout_token_add_wide(const struct ht_layout *l, const struct ht_geometry *g, uint32_t token,
                                  uint32_t channel)
{
    uint32_t ranks = 0;
    for (uint32_t i = 0; i < g->groups; i++)
        for (uint32_t left = l->bits[(size_t)token * g->groups + i]; left; left &= left - 1, ranks++) {
            const uint32_t rank = 8 * i + (uint32_t)__builtin_ctz(left);
            l->position[(size_t)token * g->ranks + rank] =
                l->tokens_per_rank[rank]++ - l->rank_prefix[(size_t)rank * (g->channels + 1) + channel];
        }
    l->tokens_per_node[0] += ranks > 0;
}

void ht_layout_make(struct ht_rank *h)
{
    const struct ht_geometry *g = &h->g;
    struct ht_layout *l = &h->layout;
    if (g->nodes == 1 && g->groups == 1) bits_make_node(l, g, h->base.routing->rank[g->rank].experts);
    else bits_make_nodes(l, g, h->base.routing->rank[g->rank].experts);
    memset(l->tokens_per_rank, 0, g->ranks * sizeof(uint32_t));
    memset(l->tokens_per_node, 0, g->nodes * sizeof(uint32_t));
    for (uint32_t c = 0; c < g->channels; c++) {
        uint32_t start, end, first[HT_NODES_MAX];
        moe_channel_range(g->tokens, g->channels, c, &start, &end);
        memcpy(first, l->tokens_per_node, g->nodes * sizeof(uint32_t));
        if (g->nodes == 1 && g->groups == 1) layout_add_ranks(l, g->tokens, start, end);
        else if (g->nodes == 1)
            for (uint32_t t = start; t < end; t++) layout_token_add_wide(l, g, t, c);
        else
            for (uint32_t t = start; t < end; t++) layout_token_add_nodes(l, g, t, first);
        for (uint32_t r = 0; r < g->ranks; r++)
            l->rank_prefix[(size_t)r * (g->channels + 1) + c + 1] = l->tokens_per_rank[r];
        for (uint32_t n = 0; n < g->nodes; n++)
            l->node_prefix[(size_t)n * (g->channels + 1) + c + 1] = l->tokens_per_node[n];
    }
}

/* ---- launches ------------------------------------------------------------------------------------------ */

void ht_kernel_begin(struct ht_rank *h, const char *phase)
{
    h->epoch = (uint32_t)++kernel_counts(h->base.fabric)[KERNEL_LAUNCHES];
    h->scan_count = 0;
    h->kernel = (struct kernel_launch){ .phase = phase, .worker = h->kernel.worker };
}

void ht_kernel_add(struct ht_rank *h, struct fabric_worker *w, const struct worker_role *role, uint32_t sm,
                   uint32_t warps)
{
    assert(h->kernel.worker_count < h->worker_max);
    h->kernel.site = h->base.options->num_sms % 2 ? SITE_NONE : SITE_HT_PAIRS;
    kernel_launch_add(&h->kernel, h->base.fabric, w, role, sm, warps);
}

static enum worker_step scan_step(struct fabric_worker *w)
{
    struct ht_scan *s = fabric_container_of(w, struct ht_scan, worker);
    if (s->layout) ht_layout_make(s->rank);
    for (struct ht_scan_part *p = s->part; p < s->part + HT_SCAN_PARTS && p->site; p++)
        fabric_work(w, &(struct fabric_work){ .kind = FABRIC_WORK_SCAN,
                                              .site = p->site,
                                              .given = &p->given,
                                              .rows = p->rows,
                                              .read_bytes = p->read_bytes });
    return WORKER_DONE;
}

static const struct worker_role scan_role = { .step = scan_step };

struct ht_scan *ht_scan_add(struct ht_rank *h, uint32_t sm, uint32_t warps, struct ht_scan_part first)
{
    assert(h->scan_count < h->scan_max);
    struct ht_scan *s = &h->scan[h->scan_count++];
    *s = (struct ht_scan){ .rank = h, .part[0] = first };
    ht_kernel_add(h, &s->worker, &scan_role, sm, warps);
    return s;
}

static enum worker_step local_step(struct fabric_worker *w)
{
    fabric_work(w, &fabric_container_of(w, struct ht_local, worker)->work);
    return WORKER_DONE;
}

static const struct worker_role local_role = { .step = local_step };

void ht_local_launch(struct ht_rank *h, struct ht_local *local, uint32_t sms, uint32_t warps, struct fabric_work work)
{
    work.read_bytes = (work.read_bytes + sms - 1) / sms;
    work.write_bytes = (work.write_bytes + sms - 1) / sms;
    for (uint32_t sm = 0; sm < sms; sm++) {
        local[sm] = (struct ht_local){ .rank = h, .work = work };
        local[sm].work.context = &local[sm];
        ht_kernel_add(h, &local[sm].worker, &local_role, sm, warps);
    }
}

/* Each SM counts the tokens of 4 experts or of 8 ranks.  A thread reads all choices of a token. */
void ht_layout_launch(struct ht_rank *h)
{
    enum { WARPS = 8, THREADS = 32 * WARPS };
    const struct ht_geometry *g = &h->g;
    const uint32_t sms = (g->experts + 3) / 4 + (g->ranks + 7) / 8;
    const struct ht_scan_part tokens = { .site = SITE_HT_LAYOUT,
                                         .rows = (g->tokens + THREADS - 1) / THREADS,
                                         .given.size = { g->topk } };
    for (uint32_t sm = 0; sm < sms; sm++) ht_scan_add(h, sm, WARPS, tokens);
    h->scan[0].layout = true;
}

/* ---- words, barriers, rings ---------------------------------------------------------------------------- */

bool ht_word_send(struct fabric_worker *w, const struct ht_rank *h, uint32_t peer, uint32_t queue, uint32_t word,
                  uint32_t value)
{
    return fabric_signal(w, &(struct fabric_signal){ .value = moe_word_make(h->epoch, value),
                                                     .word = word,
                                                     .peer = (uint16_t)peer,
                                                     .queue = (uint16_t)queue,
                                                     .warps = 1 }) == 0;
}

bool ht_node_tell(struct fabric_worker *w, const struct ht_rank *h, uint32_t *next, uint32_t word,
                  const uint32_t *counts, enum site first)
{
    for (; *next < h->g.local; ++*next) {
        const struct fabric_signal signal = { .value = moe_word_make(h->epoch, counts ? counts[*next] + 1 : 1),
                                              .word = word,
                                              .peer = ht_neighbour(&h->g, *next),
                                              .warps = 1,
                                              .site = *next ? SITE_NONE : first };
        if (fabric_signal(w, &signal)) return false;
    }
    return true;
}

static void look_charge(struct fabric_worker *w, const struct ht_look *look, uint32_t words, bool polls)
{
    fabric_work(w, &(struct fabric_work){ .kind = FABRIC_WORK_SCAN,
                                          .site = polls ? SITE_HOST_WORD_POLL : SITE_HOST_WORD_LOOK,
                                          .argument = look->place,
                                          .rows = words });
}

bool ht_look_begin(struct fabric_worker *w, struct ht_look *look, uint32_t words)
{
    if (!look->host || look->under_way) return true;
    look_charge(w, look, words, true);
    look->under_way = true;
    return false;
}

void ht_look_once(struct fabric_worker *w, const struct ht_look *look)
{
    if (look->host) look_charge(w, look, 1, false);
}

struct ht_barrier ht_barrier_node(const struct ht_geometry *g)
{
    return (struct ht_barrier){
        .first = (uint16_t)(g->node * g->local), .stride = 1, .count = (uint16_t)g->local, .number = (uint16_t)g->self
    };
}

struct ht_barrier ht_barrier_rail(const struct ht_geometry *g, uint32_t word)
{
    return (struct ht_barrier){ .word = word,
                                .first = (uint16_t)g->self,
                                .stride = (uint16_t)g->local,
                                .count = (uint16_t)g->nodes,
                                .number = (uint16_t)g->node };
}

void ht_barrier_begin(struct ht_barrier *b)
{
    assert(b->count > 0 && b->number < b->count && b->round < UINT32_MAX);
    b->round++;
    b->sent = 0;
    b->shift = 1;
    b->entered = false;
}

int ht_barrier_missing(const struct fabric *f, const struct ht_barrier *b, uint32_t epoch)
{
    for (uint16_t i = 0; i < b->count; i++)
        if (i != b->number && !ht_word_reached(f, b->word + i, moe_word_make(epoch, b->round)))
            return b->first + i * b->stride;
    return -1;
}

void ht_barrier_describe(char *text, size_t text_size, const char *who, int missing, const char *barrier)
{
    if (missing < 0) snprintf(text, text_size, "%s has met all ranks in %s", who, barrier);
    else snprintf(text, text_size, "%s waits for rank %d in %s", who, missing, barrier);
}

bool ht_barrier_step(struct fabric_worker *w, struct ht_barrier *b, uint32_t epoch)
{
    const bool first = b->round == 1;
    if (!b->sent && !b->entered) /* finds out where the words are, then raises this rank's own word by an atomic */
        fabric_work(w, &(struct fabric_work){ .kind = FABRIC_WORK_SCAN,
                                              .site = first ? SITE_HT_BARRIER_FIRST : SITE_HT_BARRIER_NEXT,
                                              .rows = 1 });
    b->entered = true;
    for (; b->sent < b->count; b->sent++) {
        if (b->sent == b->number) continue;
        const bool releases = !first && b->sent == (b->number == 0); /* each peer has a thread; one release is charged
                                                                      * for all */
        const struct fabric_signal signal = { .value = moe_word_make(epoch, b->round),
                                              .word = b->word + b->number,
                                              .peer = (uint16_t)(b->first + b->sent * b->stride),
                                              .warps = 1,
                                              .site = !releases    ? SITE_NONE
                                                      : b->to_host ? SITE_INTRA_COUNTS_SHOW
                                                                   : SITE_HT_BARRIER_RELEASE };
        if (fabric_signal(w, &signal)) return false;
    }
    return ht_barrier_missing(w->fabric, b, epoch) < 0;
}

bool ht_sync_step(struct fabric_worker *w, struct ht_barrier *b, uint32_t epoch)
{
    for (; b->shift < b->count; b->shift = (uint16_t)(2 * b->shift), b->sent = 0) {
        const uint32_t to = (b->number + b->shift) % b->count, from = (b->number + b->count - b->shift) % b->count;
        const struct fabric_signal signal = { .value = moe_word_make(epoch, b->round),
                                              .word = b->word + b->number,
                                              .peer = (uint16_t)(b->first + to * b->stride),
                                              .warps = 1,
                                              .site = SITE_NVSHMEM_BARRIER };
        if (!b->sent && fabric_signal(w, &signal)) return false;
        b->sent = 1;
        if (!ht_word_reached(w->fabric, b->word + from, signal.value)) return false;
    }
    return true;
}

int ht_sync_missing(const struct ht_barrier *b)
{
    if (b->shift >= b->count) return -1;
    return b->first + (b->number + b->count - b->shift) % b->count * b->stride;
}

uint32_t ht_ring_space(const struct ht_rank *h, const struct ht_ring *ring)
{
    const uint32_t head = ht_word(h, ring->head_word);
    assert(head <= ring->published); /* the peer reads no slot that is not published */
    assert(ring->published <= ring->tail && ring->tail - head <= ring->slots);
    return ring->slots - (ring->tail - head);
}

/* A run of slots that is being written to a ring. */
struct ring_run {
    const struct fabric_worker *worker;
    ht_fill *fill;
    uint32_t first, count, stored;
};

static void ring_run_fill(const void *context, uint8_t *target)
{
    const struct ring_run *run = context;
    for (uint32_t i = 0; i < run->count; i++) run->fill(run->worker, run->first + i, target + (size_t)i * run->stored);
}

bool ht_ring_write_some(struct fabric_worker *w, struct ht_ring *ring, const struct ht_slot *slot, ht_fill *fill,
                        uint32_t most)
{
    const uint32_t at = ring->tail % ring->slots, run = moe_min(most, ring->slots - at);
    struct fabric_write write = {
        .target_offset = ring->offset + (uint64_t)at * slot->stored,
        .peer = ring->peer,
        .rows = (uint8_t)run,
        .charge_bytes = (uint64_t)run * slot->bytes,
        .warps = (uint8_t)(run < w->warps ? run : 0),
        .first = (uint8_t)(ring->by_number ? (ring->tail + 1) % w->warps : 0),
        .site = ring->site,
        .given = ring->given,
    };
    const struct ring_run filled = { w, fill, ring->tail, run, slot->stored };
    if (slot->stored) {
        write.fill = ring_run_fill;
        write.data = &filled;
        write.size_bytes = run * slot->stored;
    }
    assert(run > 0 && run <= UINT8_MAX && at + run <= ring->slots && run <= ring->pending);
    if (fabric_store(w, &write)) return false;
    ring->tail += run;
    ring->pending -= run;
    return true;
}

bool ht_ring_write(struct fabric_worker *w, struct ht_ring *ring, const struct ht_slot *slot, ht_fill *fill)
{
    while (ring->pending)
        if (!ht_ring_write_some(w, ring, slot, fill, ring->pending)) return false;
    return true;
}

bool ht_ring_publish(struct fabric_worker *w, const struct ht_rank *h, struct ht_ring *ring)
{
    assert(ring->published <= ring->tail && ring->pending == 0);
    if (ring->published == ring->tail) return true;
    const struct fabric_signal tail = { .value = moe_word_make(h->epoch, ring->tail),
                                        .word = ring->tail_word,
                                        .peer = ring->peer,
                                        .site = ring->by_number ? SITE_INTRA_TELL : SITE_NONE };
    if (fabric_signal(w, &tail)) return false;
    ring->published = ring->tail;
    return true;
}
