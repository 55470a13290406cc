/* coll_allreduce.c - the sum of all ranks' bytes to every rank, by trees, as NCCL's tree algorithm does it.
 *
 * Each channel (an SM) has its part of the bytes and its own tree.  Within a node that is a chain of the ranks, with
 * another rank at its head in the next channel.  Between nodes it is a binary tree of the heads, which half of the
 * channels use with the nodes in reverse order.  Chunk after chunk goes up: a rank adds what its children have sent to
 * what it has, and sends it to its parent.  The root's chunks are whole; they go down the same tree.  Two workers a
 * channel do that at once, one up, one down.
 *
 *     heap, with payload: | own bytes | the sum | what child 0 sent | child 1 | child 2 |
 *
 * A chunk is sent up before its sum can come down, so that partial sums lie where the sum will.  Bytes are added one by
 * one, without carries: what comes out does not hang on the order, so worlds can be compared. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include "models/coll/coll_internal.h"

enum { CHILDREN_MAX = 3 }; /* the next of the chain; at its head two other nodes' heads */
enum { REDUCE_WARPS = 8 };
enum { CHUNK_BYTES = 128 << 10, STRETCH_BYTES = 512 }; /* 16 B a lane: a warp adds a stretch */
/* NCCL gives a channel at least 32 KiB of traffic (enqueue.cc).  A byte goes up and down; LL counts it four times. */
enum { PART_BYTES_LEAST = 16 << 10, LINES_PART_BYTES_LEAST = 4 << 10 };
enum { NOBODY = UINT16_MAX };
/* NCCL's protocol LL: words of 4 B of data and 4 B of flags, so there is no release and no signal.  Up to where its
 * tuner has it for two nodes of 4 with 100 GB/s: 6.8 + 2 (3 x 0.6 + 5) us beside 2 (3 x 4 + 14) us, the bytes at a
 * quarter of the rate, corrected for trees (x 0.4 at 256 KiB).  It would end elsewhere with other nodes and rates; the
 * tuner takes the rates of the channels that its search finds, which a cluster file does not say. */
enum { LINES_BYTES_MOST = 256 << 10 };
enum { WORDS_A_CHANNEL = CHILDREN_MAX + 1, WORD_DOWN = CHILDREN_MAX };
enum { BLOCK_OWN, BLOCK_SUM, BLOCK_CHILD };

struct tree {
    uint16_t parent, child[CHILDREN_MAX]; /* ranks, or NOBODY */
    uint32_t number;                      /* which child of its parent's it is */
};

struct reducer {
    struct fabric_worker worker;
    struct allreduce_rank *rank;
    struct tree tree;
    uint32_t channel;
    bool down;
    bool announced;  /* the next message's size is sent */
    bool added;      /* the next chunk, with what its children have sent */
    uint32_t chunks; /* done */
    uint32_t sent;   /* of the next one: targets that have it */
    uint64_t stored; /* of it, at the next target */
};

struct allreduce_rank {
    struct coll_rank base;
    struct reducer *reducer; /* [2 * num_sms]: up and down, channel by channel */
    uint32_t peers, nodes;
};

static struct allreduce_rank *of(const struct coll_rank *r)
{
    return fabric_container_of(r, struct allreduce_rank, base);
}

static uint64_t block_offset(const struct coll_options *o, uint32_t block) { return block * coll_align(o->size_bytes); }

/* ---- parts and chunks ---- */

static bool in_lines(const struct coll_options *o) { return o->size_bytes <= LINES_BYTES_MOST; }

static uint32_t channels_of(const struct coll_options *o)
{
    const uint64_t most = o->size_bytes / (in_lines(o) ? LINES_PART_BYTES_LEAST : PART_BYTES_LEAST);
    return most ? (uint32_t)coll_min(most, o->num_sms) : 1;
}

static uint64_t part_begin(const struct coll_options *o, uint32_t channel)
{
    return coll_min(coll_align(o->size_bytes) / 64 * channel / channels_of(o) * 64, o->size_bytes);
}

static uint32_t chunks_of(const struct coll_options *o, uint32_t channel)
{
    return (uint32_t)((part_begin(o, channel + 1) - part_begin(o, channel) + CHUNK_BYTES - 1) / CHUNK_BYTES);
}

static uint64_t chunk_begin(const struct reducer *w)
{
    return part_begin(w->rank->base.options, w->channel) + (uint64_t)w->chunks * CHUNK_BYTES;
}

static uint64_t chunk_bytes(const struct reducer *w)
{
    return coll_min(part_begin(w->rank->base.options, w->channel + 1) - chunk_begin(w), CHUNK_BYTES);
}

/* ---- trees ---- */

static uint16_t rank_at(uint32_t nodes, uint32_t peers, uint32_t channel, uint32_t position, uint32_t link)
{
    const bool mirrored = channel / peers % 2;
    const uint32_t node = mirrored ? nodes - 1 - position : position;
    return (uint16_t)(node * peers + (channel + link) % peers);
}

/* Position 0 is the root's among the nodes, link 0 the head of the chain. */
static struct tree tree_of(uint32_t nodes, uint32_t peers, uint32_t channel, uint16_t rank)
{
    const bool mirrored = channel / peers % 2;
    const uint32_t node = rank / peers, position = mirrored ? nodes - 1 - node : node;
    const uint32_t link = (rank % peers + peers - channel % peers) % peers;
    struct tree t = { .parent = NOBODY, .child = { NOBODY, NOBODY, NOBODY } };
    if (link) {
        t.parent = rank_at(nodes, peers, channel, position, link - 1);
    } else if (position) {
        t.parent = rank_at(nodes, peers, channel, (position - 1) / 2, 0);
        t.number = 2 - position % 2;
    }
    if (link + 1 < peers) t.child[0] = rank_at(nodes, peers, channel, position, link + 1);
    for (uint32_t i = 1; i < CHILDREN_MAX && !link; i++)
        if (2 * position + i < nodes) t.child[i] = rank_at(nodes, peers, channel, 2 * position + i, 0);
    return t;
}

static uint32_t word_of(uint32_t channel, uint32_t what) { return COLL_WORDS + channel * WORDS_A_CHANNEL + what; }

/* ---- a chunk to one rank ---- */

/* NCCL's sockets send each message's size in front of it. */
static int size_send(struct reducer *w, uint16_t peer, uint16_t queue)
{
    const struct fabric_write write = { .charge_bytes = sizeof(uint32_t), .peer = peer, .queue = queue };
    const int rc = fabric_put(&w->worker, &write);
    w->announced = rc == 0;
    return rc;
}

static int chunk_send(struct reducer *w, uint16_t peer, uint32_t from, uint32_t to, uint32_t word)
{
    const struct coll_options *o = w->rank->base.options;
    const struct fabric *f = w->worker.fabric;
    const uint64_t begin = chunk_begin(w), size = chunk_bytes(w);
    const bool lines = in_lines(o);
    const uint8_t *source = f->payload ? f->heap + block_offset(o, from) + begin : NULL;
    const uint64_t target = f->payload ? block_offset(o, to) + begin : 0;
    const uint64_t before = (uint64_t)(w->rank->base.turn - 1) * chunks_of(o, w->channel);
    const uint16_t queue = (uint16_t)(w->channel % f->queue_count);
    const struct fabric_signal signal = {
        .value = before + w->chunks + 1, .word = word, .peer = peer, .queue = queue, .polled = lines
    };
    if (fabric_path(f, peer) == FABRIC_RDMA) {
        const int size_rc = o->sockets && !w->announced ? size_send(w, peer, queue) : 0;
        if (size_rc) return size_rc;
        const struct fabric_write write = { .target_offset = target,
                                            .charge_bytes = size,
                                            .peer = peer,
                                            .queue = queue,
                                            .flags = (uint8_t)(FABRIC_MESSAGE |
                                                               (lines ? FABRIC_POLLED | FABRIC_FLAGGED : 0) |
                                                               (o->sockets ? FABRIC_LIBRARY : 0)),
                                            .sge_count = f->payload,
                                            .sge = { { source, (uint32_t)size } } };
        const int rc = fabric_put_signal(&w->worker, &write, &signal);
        if (!rc) w->announced = false;
        return rc;
    }
    const uint8_t site = lines ? SITE_NCCL_LINES_STORE : SITE_NCCL_STORE;
    const int rc = coll_store_by(&w->worker, site, peer, source, target, size, &w->stored);
    if (rc || w->stored < size) return rc ? rc : -EINPROGRESS;
    return fabric_signal(&w->worker, &signal);
}

/* To all children: the sum. */
static int chunk_spread(struct reducer *w)
{
    for (; w->sent < CHILDREN_MAX; w->sent++) {
        const uint16_t child = w->tree.child[w->sent];
        const int rc = child == NOBODY ? 0 : chunk_send(w, child, BLOCK_SUM, BLOCK_SUM, word_of(w->channel, WORD_DOWN));
        if (rc) return rc;
        w->stored = 0;
    }
    return 0;
}

static bool chunk_came(const struct reducer *w, uint32_t what)
{
    const uint64_t before = (uint64_t)(w->rank->base.turn - 1) * chunks_of(w->rank->base.options, w->channel);
    return fabric_load(w->worker.fabric, word_of(w->channel, what)) > before + w->chunks;
}

/* ---- sums ---- */

static void chunk_sum(void *context, uint64_t size_bytes)
{
    const struct reducer *w = context;
    const struct coll_options *o = w->rank->base.options;
    uint8_t *heap = w->worker.fabric->heap + chunk_begin(w), *sum = heap + block_offset(o, BLOCK_SUM);
    for (uint64_t i = 0; i < size_bytes; i++) sum[i] = heap[i];
    for (uint32_t c = 0; c < CHILDREN_MAX; c++) {
        const uint8_t *child = heap + block_offset(o, BLOCK_CHILD + c);
        for (uint64_t i = 0; i < size_bytes && w->tree.child[c] != NOBODY; i++) sum[i] = (uint8_t)(sum[i] + child[i]);
    }
}

static void chunk_add(struct reducer *w)
{
    uint32_t summands = 1;
    for (uint32_t c = 0; c < CHILDREN_MAX; c++) summands += w->tree.child[c] != NOBODY;
    const uint64_t size = chunk_bytes(w);
    const bool lines = in_lines(w->rank->base.options); /* added in registers on the way */
    const struct fabric_work work = { .kind = lines ? FABRIC_WORK_COMPUTE : FABRIC_WORK_REDUCE,
                                      .rows = (uint32_t)((size + STRETCH_BYTES - 1) / STRETCH_BYTES),
                                      .site = SITE_NCCL_STORE,
                                      .read_bytes = summands * size,
                                      .write_bytes = size,
                                      .run = chunk_sum,
                                      .context = w,
                                      .argument = size };
    fabric_work(&w->worker, &work);
}

/* ---- workers ---- */

/* 0: the chunk is where it must go. */
static int up_chunk(struct reducer *w)
{
    for (uint32_t c = 0; c < CHILDREN_MAX; c++)
        if (w->tree.child[c] != NOBODY && !chunk_came(w, c)) return -EAGAIN;
    if (!w->added) {
        chunk_add(w);
        w->added = true;
        return -EINPROGRESS;
    }
    if (w->tree.parent == NOBODY) return chunk_spread(w);
    return chunk_send(w, w->tree.parent, BLOCK_SUM, BLOCK_CHILD + w->tree.number, word_of(w->channel, w->tree.number));
}

static int down_chunk(struct reducer *w) { return chunk_came(w, WORD_DOWN) ? chunk_spread(w) : -EAGAIN; }

/* Whether what the worker has put is there. */
static bool all_arrived(struct reducer *w)
{
    const struct fabric *f = w->worker.fabric;
    const uint16_t peer[] = { w->tree.parent, w->tree.child[0], w->tree.child[1], w->tree.child[2] };
    for (uint32_t i = 0; i < sizeof peer / sizeof peer[0]; i++) {
        if (peer[i] == NOBODY || fabric_path(f, peer[i]) != FABRIC_RDMA) continue;
        const int rc = fabric_flush(&w->worker, peer[i], (uint16_t)(w->channel % f->queue_count));
        if (rc == -EAGAIN) return false;
        assert(rc == 0);
    }
    return true;
}

static enum worker_step reducer_step(struct fabric_worker *worker)
{
    struct reducer *w = fabric_container_of(worker, struct reducer, worker);
    if (w->chunks == chunks_of(w->rank->base.options, w->channel)) return all_arrived(w) ? WORKER_DONE : WORKER_WAIT;
    const int rc = w->down ? down_chunk(w) : up_chunk(w);
    assert(rc == 0 || rc == -EAGAIN || rc == -EINPROGRESS);
    if (rc == -EAGAIN) return WORKER_WAIT;
    if (rc == 0) {
        w->chunks++;
        w->sent = 0;
        w->stored = 0;
        w->added = false;
    }
    return WORKER_MORE;
}

static void reducer_describe(const struct fabric_worker *worker, char *text, size_t text_size)
{
    const struct reducer *w = fabric_container_of(worker, const struct reducer, worker);
    uint32_t from = w->tree.parent;
    for (uint32_t c = 0; c < CHILDREN_MAX && !w->down; c++)
        if (w->tree.child[c] != NOBODY && !chunk_came(w, c)) from = w->tree.child[c];
    snprintf(text, text_size, "allreduce, channel %u %s: chunk %u of %u waits for rank %u", w->channel,
             w->down ? "down" : "up", w->chunks, chunks_of(w->rank->base.options, w->channel), from);
}

static const struct worker_role reducer_role = { .step = reducer_step, .describe = reducer_describe };

/* ---- a rank ---- */

static const char *allreduce_refuse(const struct coll_options *o, const struct edges *edges, char *text,
                                    size_t text_size)
{
    (void)edges;
    if (o->size_bytes) return NULL;
    snprintf(text, text_size, "size: expected at least 1 byte, found 0");
    return text;
}

static void allreduce_needs(const struct coll_job *job, bool payload, struct fabric_needs *needs)
{
    const struct coll_options *o = &job->options;
    needs->word_count = COLL_WORDS + channels_of(o) * WORDS_A_CHANNEL;
    needs->queue_depth = 2 * o->in_flight;
    needs->queue_count = (uint16_t)coll_min(channels_of(o), 8);
    needs->heap_bytes = payload ? block_offset(o, BLOCK_CHILD + CHILDREN_MAX) : 0;
}

/* With NVLink disabled every rank is a node of its own. */
static void allreduce_init(struct coll_rank *base)
{
    struct allreduce_rank *r = of(base);
    const struct fabric *f = base->fabric;
    r->peers = f->nvlink_disabled ? 1 : (uint32_t)coll_min(f->ranks_per_node, f->rank_count);
    r->nodes = f->rank_count / r->peers;
    r->reducer = kernel_alloc(2 * channels_of(base->options), sizeof r->reducer[0]);
}

static void allreduce_clear(struct coll_rank *base) { free(of(base)->reducer); }

static void allreduce_fill(struct coll_rank *base)
{
    coll_pattern_fill(base->fabric->heap, base->options->size_bytes, base->fabric->rank, 0, base->iteration);
}

static void allreduce_launch(struct coll_rank *base, uint32_t phase)
{
    struct allreduce_rank *r = of(base);
    (void)phase;
    for (uint32_t i = 0; i < 2 * channels_of(base->options); i++) {
        struct reducer *w = &r->reducer[i];
        const uint32_t channel = i / 2;
        *w = (struct reducer){ .rank = r,
                               .tree = tree_of(r->nodes, r->peers, channel, base->fabric->rank),
                               .channel = channel,
                               .down = i % 2 };
        if (w->down && w->tree.parent == NOBODY) continue;
        coll_worker_add(base, &w->worker, &reducer_role, channel, REDUCE_WARPS);
        fabric_watch(&w->worker, word_of(channel, w->down ? WORD_DOWN : 0), w->down ? 1 : CHILDREN_MAX);
    }
}

static void allreduce_traffic(const struct coll_rank *base, uint32_t phase, struct kernel_traffic *traffic)
{
    const struct allreduce_rank *r = of(base);
    const struct coll_options *o = base->options;
    const struct fabric *f = base->fabric;
    (void)phase;
    for (uint32_t channel = 0; channel < channels_of(o); channel++) {
        const struct tree t = tree_of(r->nodes, r->peers, channel, f->rank);
        const uint16_t peer[] = { t.parent, t.child[0], t.child[1], t.child[2] };
        const uint64_t bytes = part_begin(o, channel + 1) - part_begin(o, channel);
        for (uint32_t i = 0; i < sizeof peer / sizeof peer[0]; i++) {
            if (peer[i] == NOBODY) continue;
            if (fabric_path(f, peer[i]) == FABRIC_RDMA) traffic->logical_rdma_bytes += bytes;
            else traffic->logical_nvl_bytes += bytes;
        }
    }
}

static uint32_t allreduce_outputs(struct coll_rank *base, struct kernel_tensor *tensor, uint32_t max)
{
    const struct coll_options *o = base->options;
    assert(max >= 1);
    tensor[0] = (struct kernel_tensor){ "sum", base->fabric->heap + block_offset(o, BLOCK_SUM), o->size_bytes };
    return 1;
}

static uint32_t allreduce_check(const struct coll_rank *base, char *text, size_t text_size)
{
    const struct coll_options *o = base->options;
    const uint8_t *found = base->fabric->heap + block_offset(o, BLOCK_SUM);
    const uint64_t at = coll_sum_check(base, found, 0);
    if (at == o->size_bytes) return 0;
    snprintf(text, text_size, "sum: expected that of all ranks, found other bytes from %llu on",
             (unsigned long long)at);
    return 1;
}

const struct coll_kernel_ops coll_allreduce = {
    .phase = (const char *const[]){ "allreduce", NULL },
    .overlap = (const char *const[]){ "allreduce_overlap" },
    .rank_bytes = sizeof(struct allreduce_rank),
    .refuse = allreduce_refuse,
    .needs = allreduce_needs,
    .init = allreduce_init,
    .clear = allreduce_clear,
    .fill = allreduce_fill,
    .launch = allreduce_launch,
    .traffic = allreduce_traffic,
    .outputs = allreduce_outputs,
    .check = allreduce_check,
};
