/* coll_nccl_messages.c - all-to-allv by NCCL's grouped sends and receives, within a node (src/device/sendrecv.h;
 * addP2pToPlan() of src/enqueue.cc).
 *
 * A work is one message that the rank sends and one that it receives.  It sends to the rank some places after it, and
 * receives from the rank as many places before it.  Works have different channels if there are enough.  A work
 * may have several channels, each with a part of both messages.  Some warps of the channel's block send, the others
 * receive.  The protocol is LL up to 16 KiB for each channel, else Simple.  For each part of a message there is a
 * buffer of 8 places in the receiver's memory.  One word counts the filled places, another the emptied ones.
 *
 *     heap, with payload: as in coll_alltoallv.c, then | places by source and part | */
#include <stdio.h>
#include "models/coll/coll_internal.h"
#include "models/coll/nccl_plan.h"

/* LL, in bytes: a part has at least LL_LEAST, a place has LL_STEP, and a channel gets at most LL_MOST. */
enum { LL_LEAST = 8 << 10, LL_STEP = 32 << 10, LL_MOST = 16 << 10 };
enum { SIMPLE_STEP = 512 << 10, SIMPLE_LEAST = SIMPLE_STEP / 8, SIMPLE_MOST = SIMPLE_STEP * 32 };
enum { PART_ALIGN = 4 << 10, PIECE_BYTES = 64 << 10, BLOCK_WARPS = 20 };
enum { WORD_FILLED, WORD_EMPTIED, WORDS_A_LINK };

enum way { SENDS, RECEIVES, COPIES };

/* A block's warps for one part of a message, or for the bytes that a rank sends to itself. */
struct half {
    struct fabric_worker worker;
    struct messages_rank *rank;
    uint8_t way;   /* enum way */
    bool flagged;  /* the protocol is LL */
    uint8_t begun; /* how many of kernel_begin()'s parts are done */
    uint16_t peer, sm, warps;
    uint32_t part;
    uint64_t offset, size_bytes; /* where the part lies in the heap, and its size */
    uint64_t steps;              /* how many places were filled or emptied, in all launches */
    uint64_t done, moved;        /* bytes of the chunks that are done; bytes of the current chunk */
};

struct messages_rank {
    struct coll_rank base;
    struct half *half;
    uint32_t halves;
    uint64_t places, place_bytes; /* the heap offset of the first place; the bytes of a place */
    uint32_t parts_most;
    struct site_given given[2][2];                 /* [Simple, LL][own bytes, bytes that have come] */
    struct site_given given_start, given_share[2]; /* of the latter [1]: Simple, [0]: LL */
};

static struct messages_rank *of(const struct coll_rank *r)
{
    return fabric_container_of(r, struct messages_rank, base);
}

/* ---- NCCL's choices ---- */

static uint32_t channels_of(const struct coll_options *o)
{
    uint32_t channels = 1;
    while (channels < o->nccl.channels) channels *= 2;
    return channels;
}

static uint32_t parts_of(const struct coll_options *o, uint64_t size_bytes, uint64_t least, uint64_t most)
{
    const uint32_t all = channels_of(o);
    uint32_t parts = all;
    while (parts * o->ranks > all && parts > 1) parts /= 2;
    parts = (uint32_t)coll_min(parts, (size_bytes + least - 1) / least);
    while ((size_bytes + parts - 1) / parts > most && parts <= all / 2) parts *= 2;
    return parts;
}

/* Returns into how many parts a message is divided, one for each channel.  *ll says whether the protocol is LL.  It is
 * LL if each channel that Simple would use gets at most LL_MOST bytes.  Before 2.29.2, all channels count for this
 * limit, and LL has its own number of parts. */
static uint32_t message_parts(const struct coll_options *o, uint64_t size_bytes, bool *ll)
{
    const uint32_t simple = parts_of(o, size_bytes, SIMPLE_LEAST, SIMPLE_MOST);
    const uint32_t channels = o->nccl.before_229 ? channels_of(o) : simple;
    *ll = size_bytes <= (uint64_t)channels * LL_MOST;
    return *ll && o->nccl.before_229 ? parts_of(o, size_bytes, LL_LEAST, UINT64_MAX) : simple;
}

static uint64_t part_begin(uint64_t size_bytes, uint32_t parts, uint32_t part)
{
    const uint64_t even = (size_bytes + parts - 1) / parts, each = (even + PART_ALIGN - 1) / PART_ALIGN * PART_ALIGN;
    return coll_min(each * part, size_bytes);
}

/* The channel of a part, in the work that sends to the rank `after` places after this one.  The first part's channel is
 * the number `after` with its bits reversed. */
static uint32_t channel_of(const struct coll_options *o, uint32_t after, uint32_t part)
{
    const uint32_t all = channels_of(o);
    uint32_t base = 0;
    for (uint32_t bit = 1; bit < all; bit *= 2) base = 2 * base + (after & bit ? 1 : 0);
    return (base + part) & (all - 1);
}

/* How many bytes source sends to target in a launch; 0: it sends none. */
static uint64_t size_to(const struct coll_rank *r, uint32_t source, uint32_t target)
{
    const struct edges *e = r->job->edges;
    if (source == target)
        return r->options->own_part && e->first[source + 1] > e->first[source] ? e->size_bytes[e->first[source]] : 0;
    for (uint32_t i = e->first[source]; i < e->first[source + 1]; i++)
        if (e->target[i] == target) return e->size_bytes[i];
    return 0;
}

/* ---- a half ---- */

static uint64_t step_bytes(const struct half *h) { return h->flagged ? LL_STEP : SIMPLE_STEP; }
static uint64_t chunk_bytes(const struct half *h) { return coll_min(h->size_bytes - h->done, step_bytes(h)); }

static uint32_t word_of(const struct half *h, uint32_t rank, uint32_t what)
{
    return COLL_WORDS + (rank * h->rank->parts_most + h->part) * WORDS_A_LINK + what;
}

static uint64_t place_of(const struct half *h, uint32_t source)
{
    const uint64_t row = (uint64_t)source * h->rank->parts_most + h->part;
    return h->rank->places + (row * NCCL_STEPS + h->steps % NCCL_STEPS) * h->rank->place_bytes;
}

static void piece_run(void *context, uint64_t size_bytes)
{
    const struct half *h = context;
    uint8_t *heap = h->worker.fabric->heap;
    if (h->way == RECEIVES)
        memcpy(heap + h->offset + h->done + h->moved, heap + place_of(h, h->peer) + h->moved, size_bytes);
}

static int piece_move(struct half *h, uint64_t size_bytes)
{
    const struct fabric *f = h->worker.fabric;
    const uint64_t a_warp = h->flagged ? 256 : 512, rows = (size_bytes + a_warp - 1) / a_warp;
    const uint8_t site = h->flagged ? SITE_NCCL_LL : SITE_NCCL_SIMPLE, turns = (uint8_t)coll_min(h->worker.warps, rows);
    struct site_given *given = &h->rank->given[h->flagged][h->way == RECEIVES];
    if (h->way != SENDS) {
        fabric_work(&h->worker, &(struct fabric_work){ .kind = FABRIC_WORK_COPY,
                                                       .rows = turns,
                                                       .site = site,
                                                       .given = given,
                                                       .read_bytes = size_bytes,
                                                       .write_bytes = size_bytes,
                                                       .run = piece_run,
                                                       .context = h,
                                                       .argument = size_bytes });
        return 0;
    }
    const struct fabric_write write = { .target_offset = f->payload ? place_of(h, f->rank) + h->moved : 0,
                                        .charge_bytes = size_bytes,
                                        .peer = h->peer,
                                        .rows = turns,
                                        .site = site,
                                        .given = given,
                                        .data = f->heap + h->offset + h->done + h->moved,
                                        .size_bytes = f->payload ? (uint32_t)size_bytes : 0 };
    return fabric_store(&h->worker, &write);
}

/* Tells the peer that a place is filled, or emptied. */
static int chunk_tell(struct half *h)
{
    const bool sends = h->way == SENDS;
    const struct fabric_signal signal = { .value = h->steps + 1,
                                          .word =
                                              word_of(h, h->worker.fabric->rank, sends ? WORD_FILLED : WORD_EMPTIED),
                                          .peer = h->peer,
                                          .site = sends && !h->flagged ? SITE_NCCL_TELL : SITE_NCCL_FLAGS };
    return h->way == COPIES ? 0 : fabric_signal(&h->worker, &signal);
}

static bool may_begin(const struct half *h)
{
    const struct fabric *f = h->worker.fabric;
    if (h->way == SENDS) return fabric_load(f, word_of(h, h->peer, WORD_EMPTIED)) + NCCL_STEPS > h->steps;
    return h->way == COPIES || fabric_load(f, word_of(h, h->peer, WORD_FILLED)) > h->steps;
}

/* Charges what a half that sends or receives does before its first byte: the kernel's beginning, as in collectives
 * (coll_nccl.c), and the sharing out of messages.  False: both are done. */
static bool kernel_begin(struct half *h)
{
    if (h->begun == 2 || h->way == COPIES) return false;
    struct messages_rank *r = h->rank;
    const bool first = !h->begun++;
    fabric_work(&h->worker, &(struct fabric_work){ .kind = FABRIC_WORK_SCAN,
                                                   .site = first ? SITE_NCCL_START : SITE_NCCL_SHARE,
                                                   .given = first ? &r->given_start : &r->given_share[!h->flagged],
                                                   .rows = 1 });
    return true;
}

static enum worker_step half_step(struct fabric_worker *w)
{
    struct half *h = fabric_container_of(w, struct half, worker);
    if (h->done == h->size_bytes) return WORKER_DONE;
    if (kernel_begin(h)) return WORKER_MORE;
    if (!h->moved && !may_begin(h)) return WORKER_WAIT;
    const uint64_t chunk = chunk_bytes(h);
    if (h->moved < chunk) {
        const uint64_t size = coll_min(chunk - h->moved, PIECE_BYTES);
        if (piece_move(h, size)) return WORKER_WAIT;
        h->moved += size;
        if (h->moved < chunk) return WORKER_MORE;
    }
    if (chunk_tell(h)) return WORKER_WAIT;
    h->done += chunk;
    h->moved = 0;
    h->steps++;
    return WORKER_MORE;
}

static void half_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct half *h = fabric_container_of(w, const struct half, worker);
    snprintf(text, text_size, "part %u that it %s waits for rank %u", h->part, h->way == SENDS ? "sends" : "receives",
             h->peer);
}

static const struct worker_role half_role = { .step = half_step, .describe = half_describe };

/* ---- a rank ---- */

static const char *messages_refuse(const struct coll_options *o, const struct edges *e, char *text, size_t text_size)
{
    if (o->ranks > o->ranks_per_node)
        KERNEL_REFUSE("issue: expected nccl within a node, found %u nodes", o->ranks / o->ranks_per_node);
    for (uint32_t s = 0; s < e->ranks; s++)
        for (uint32_t i = e->first[s]; i < e->first[s + 1]; i++)
            for (uint32_t k = e->first[s]; k < i; k++)
                if (e->target[k] == e->target[i])
                    KERNEL_REFUSE("issue: nccl: expected one message for a pair of ranks, found two of %u for %u", s,
                                  e->target[i]);
    return NULL;
}

/* Computes what all ranks agree on: where places begin, their size, and the most parts of a message. */
static void map_make(const struct coll_job *job, bool payload, struct messages_rank *r)
{
    const struct edges *e = job->edges;
    uint64_t most = 0;
    for (uint32_t s = 0; s < e->ranks; s++) {
        const uint64_t end = coll_align(e->sent_bytes[s]) + e->received_bytes[s];
        if (payload && coll_align(end) > r->places) r->places = coll_align(end);
    }
    r->parts_most = 1;
    for (uint32_t i = 0; i < edges_count(e); i++) {
        bool ll = false;
        const uint32_t parts = e->size_bytes[i] ? message_parts(&job->options, e->size_bytes[i], &ll) : 1;
        const uint64_t part = part_begin(e->size_bytes[i], parts, 1);
        if (parts > r->parts_most) r->parts_most = parts;
        if (coll_min(part, ll ? LL_STEP : SIMPLE_STEP) > most) most = coll_min(part, ll ? LL_STEP : SIMPLE_STEP);
    }
    r->place_bytes = coll_align(most);
}

static void messages_needs(const struct coll_job *job, bool payload, struct fabric_needs *needs)
{
    struct messages_rank map = { 0 };
    map_make(job, payload, &map);
    needs->word_count = COLL_WORDS + job->options.ranks * map.parts_most * WORDS_A_LINK;
    needs->queue_depth = 2;
    if (payload) needs->heap_bytes = map.places + job->options.ranks * map.parts_most * NCCL_STEPS * map.place_bytes;
}

static void halves_add(struct messages_rank *r, enum way way, uint32_t peer, uint64_t offset)
{
    const struct coll_options *o = r->base.options;
    const uint32_t rank = r->base.fabric->rank;
    const uint64_t size = way == RECEIVES ? size_to(&r->base, peer, rank) : size_to(&r->base, rank, peer);
    bool ll = false;
    const uint32_t parts = !size           ? 0
                           : way == COPIES ? parts_of(o, size, SIMPLE_LEAST, SIMPLE_MOST)
                                           : message_parts(o, size, &ll);
    const uint32_t after = way == RECEIVES ? (rank + o->ranks - peer) % o->ranks : (peer + o->ranks - rank) % o->ranks;
    for (uint32_t part = 0; part < parts; part++) {
        const uint64_t begin = part_begin(size, parts, part), end = part_begin(size, parts, part + 1);
        if (begin == end) break;
        r->half[r->halves++] = (struct half){ .rank = r,
                                              .way = (uint8_t)way,
                                              .flagged = ll,
                                              .peer = (uint16_t)peer,
                                              .sm = (uint16_t)channel_of(o, after, part),
                                              .part = part,
                                              .offset = offset + begin,
                                              .size_bytes = end - begin };
    }
}

static uint32_t after_of(const struct half *h)
{
    const uint32_t rank = h->rank->base.fabric->rank, n = h->rank->base.options->ranks;
    return h->way == RECEIVES ? (rank + n - h->peer) % n : (h->peer + n - rank) % n;
}

/* Divides a block's warps among its works.  In a work with two halves, the sending half has as many warps as the
 * receiving half, or one more.  In a half that sends by Simple and has more than two warps, one warp only signals. */
static void warps_share(struct messages_rank *r)
{
    for (uint32_t i = 0; i < r->halves; i++) {
        struct half *h = &r->half[i];
        bool both = false;
        uint32_t works = 0;
        for (uint32_t k = 0; k < r->halves; k++) {
            const struct half *other = &r->half[k];
            if (other->sm != h->sm) continue;
            bool first = true;
            for (uint32_t j = 0; j < k; j++)
                first &= r->half[j].sm != h->sm || after_of(&r->half[j]) != after_of(other);
            works += first;
            both |= k != i && after_of(other) == after_of(h);
        }
        const uint32_t all = works > BLOCK_WARPS / 2 ? 2 : BLOCK_WARPS / works;
        const uint32_t receive = all <= 4 ? all / 2 : (all - 1) / 2, send = all <= 4 ? receive : receive + 1;
        const uint32_t own = h->way == COPIES || !both ? receive + send : h->way == SENDS ? send : receive;
        h->warps = (uint16_t)(h->way == SENDS && !h->flagged && own > 2 ? own - 1 : own);
    }
}

static void messages_init(struct coll_rank *base)
{
    struct messages_rank *r = of(base);
    const struct edges *e = base->job->edges;
    const uint32_t rank = base->fabric->rank, ranks = base->options->ranks;
    uint64_t offset = 0;
    map_make(base->job, base->fabric->payload, r);
    r->half = kernel_keep(base, (2ull * ranks + 1) * channels_of(base->options), sizeof r->half[0]);
    for (uint32_t i = e->first[rank]; i < e->first[rank + 1]; i++) {
        halves_add(r, SENDS, e->target[i], offset);
        offset += e->size_bytes[i];
    }
    for (uint32_t s = 0; s < ranks; s++)
        for (uint32_t i = e->first[s]; i < e->first[s + 1]; i++)
            if (e->target[i] == rank) halves_add(r, RECEIVES, s, coll_align(e->sent_bytes[rank]) + e->target_offset[i]);
    halves_add(r, COPIES, rank, 0);
    warps_share(r);
    r->given_start.size[0] = BLOCK_WARPS;
    r->given_share[1].size[0] = 1;
    for (uint32_t i = 0; i < 4; i++) r->given[i / 2][i % 2] = (struct site_given){ .size = { 1, 0, i % 2, r->places } };
}

static void messages_launch(struct coll_rank *base)
{
    struct messages_rank *r = of(base);
    base->launch.site = SITE_NCCL_KERNEL;
    for (uint32_t i = 0; i < r->halves; i++) {
        struct half *h = &r->half[i];
        h->done = h->moved = 0;
        h->begun = 0;
        coll_worker_add(base, &h->worker, &half_role, h->sm, h->warps);
        if (h->way == SENDS) fabric_watch(&h->worker, word_of(h, h->peer, WORD_EMPTIED), 1, 0);
        if (h->way == RECEIVES) fabric_watch(&h->worker, word_of(h, h->peer, WORD_FILLED), 1, 0);
    }
}

static void messages_traffic(const struct coll_rank *base, uint32_t phase, struct kernel_traffic *traffic)
{
    (void)phase;
    traffic->logical_nvl_bytes = base->job->edges->sent_bytes[base->fabric->rank];
}

const struct coll_kernel_ops coll_nccl_messages = {
    .phase = (const char *const[]){ "alltoallv", NULL },
    .overlap = (const char *const[]){ "alltoallv_overlap" },
    .rank_bytes = sizeof(struct messages_rank),
    .refuse = messages_refuse,
    .needs = messages_needs,
    .init = messages_init,
    .fill = coll_messages_fill,
    .launch = messages_launch,
    .traffic = messages_traffic,
    .outputs = coll_messages_outputs,
    .check = coll_messages_check,
};
