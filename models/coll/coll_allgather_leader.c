/* coll_allgather_leader.c - the all-gather with a leader for each node (NVSHMEM-Tutorial's csrc/internode.cu).  On each
 * rank a host drives one stream.  Copy engines make the copies within a node.  Kernels do the barriers and get the
 * blocks of other nodes.
 *
 *     every rank                        the leader alone
 *     copy its own block to the leader
 *     barrier of the node
 *                                       copy the node's blocks to where other leaders get them, host waits
 *                                       barrier of the leaders, host waits
 *                                       get the blocks of each other node from its leader
 *     host waits
 *     copy all blocks to the output, host waits
 *                                       copy all blocks to every other rank of the node, one by one
 *     barrier of the node
 *     copy all blocks to the output, host waits (the others alone)
 *
 * Blocks lie in the heap where the output needs them.  So copies within a rank's own memory move nothing, but their
 * time is charged. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include "models/coll/coll_internal.h"

enum { WORD_GIVEN = COLL_WORDS, WORD_SPREAD, WORD_LEADERS, WORDS_END };
enum { STREAM_WARPS = 1 };

enum part { GIVE, GIVEN, KEEP, MEET, FETCH, FETCHED, SHOW, SPREAD, LET, TAKE, PARTS };

struct leader_rank {
    struct coll_rank base;
    struct fabric_worker worker;
    enum part part;
    uint32_t done;  /* how many operations of the part are done */
    bool in_kernel; /* a kernel of the current part has been launched */
    uint32_t nodes, node, peers;
    uint16_t leader; /* the first rank of its node */
};

static struct leader_rank *of(const struct coll_rank *r) { return fabric_container_of(r, struct leader_rank, base); }

/* Bytes from the start of a node's first block to the end of its last block. */
static uint64_t span_bytes(const struct coll_options *o, uint32_t peers)
{
    return coll_gather_offset(o, peers - 1) + o->size_bytes;
}

static const char *leader_refuse(const struct coll_options *o, const struct edges *edges, char *text, size_t text_size)
{
    (void)edges;
    const uint32_t peers = (uint32_t)coll_min(o->ranks, o->ranks_per_node);
    if (o->issue != COLL_BY_COPY) KERNEL_REFUSE("issue: expected copy with algorithm leader");
    if (span_bytes(o, peers) > UINT32_MAX)
        KERNEL_REFUSE("size: expected less than 4 GiB of all blocks of a node, found %llu B",
                      (unsigned long long)span_bytes(o, peers));
    return NULL;
}

static void leader_needs(const struct coll_job *job, bool payload, struct fabric_needs *needs)
{
    needs->word_count = WORDS_END;
    needs->queue_depth = 2;
    needs->heap_bytes = payload ? coll_gather_offset(&job->options, job->options.ranks) : 0;
}

static void leader_init(struct coll_rank *base)
{
    struct leader_rank *r = of(base);
    const struct fabric *f = base->fabric;
    r->peers = coll_peers(f);
    r->nodes = f->rank_count / r->peers;
    r->node = f->rank / r->peers;
    r->leader = (uint16_t)(r->node * r->peers);
}

static bool leads(const struct leader_rank *r) { return r->base.fabric->rank == r->leader; }

/* ---- what the stream does ---- */

static void launch(struct leader_rank *r)
{
    const struct fabric_work work = { .kind = FABRIC_WORK_COPY, .site = SITE_HOST_LAUNCH };
    if (r->in_kernel) return;
    fabric_work(&r->worker, &work);
    r->in_kernel = true;
}

static void host_wait(struct leader_rank *r)
{
    const struct fabric_work work = { .kind = FABRIC_WORK_COPY, .site = SITE_HOST_WAIT };
    r->in_kernel = false;
    fabric_work(&r->worker, &work);
}

static void own_copy(struct leader_rank *r, uint64_t size_bytes)
{
    const struct fabric_work work = { .kind = FABRIC_WORK_COPY,
                                      .rows = 1,
                                      .read_bytes = size_bytes,
                                      .write_bytes = size_bytes,
                                      .site = SITE_STREAM_COPY };
    fabric_work(&r->worker, &work);
}

static int block_copy(struct leader_rank *r, uint32_t block, uint16_t peer)
{
    const struct coll_options *o = r->base.options;
    const uint64_t offset = coll_gather_offset(o, block);
    const struct fabric_write write = coll_write(r->base.fabric, offset, peer, offset, o->size_bytes, SITE_STREAM_COPY);
    return fabric_store(&r->worker, &write);
}

/* A barrier of `count` ranks: `first` and every step-th rank after it.  A kernel adds 1 to a word of each other rank
 * and waits until each of them has added 1 to its own word. */
static int barrier(struct leader_rank *r, uint32_t word, uint32_t count, uint16_t first, uint32_t step)
{
    const struct fabric *f = r->base.fabric;
    launch(r);
    while (r->done < count) {
        const uint16_t peer = (uint16_t)(first + r->done * step);
        const struct fabric_signal signal = {
            .value = 1,
            .word = word,
            .peer = peer,
            .add = true,
            .site = word == WORD_LEADERS ? SITE_NVSHMEM_BARRIER : SITE_NONE,
        };
        const int rc = peer == f->rank ? 0 : fabric_signal(&r->worker, &signal);
        if (rc) return rc;
        r->done++;
    }
    return fabric_load(f, word) < (uint64_t)r->base.turn * (count - 1) ? -EAGAIN : 0;
}

/* Gets the blocks of the other nodes, with one kernel for each of these nodes.  In done every node counts as two
 * operations: the start of its get, and the get's end. */
static int fetch(struct leader_rank *r)
{
    const struct fabric *f = r->base.fabric;
    const uint64_t span = span_bytes(r->base.options, r->peers);
    while (r->done < 2 * r->nodes) {
        const uint32_t node = r->done / 2;
        const uint16_t peer = (uint16_t)(node * r->peers);
        const uint64_t offset = f->payload ? coll_gather_offset(r->base.options, peer) : 0;
        const struct fabric_read read = { .source_offset = offset,
                                          .target = f->heap + offset,
                                          .charge_bytes = span,
                                          .size_bytes = f->payload ? (uint32_t)span : 0,
                                          .peer = peer };
        if (node != r->node) {
            launch(r);
            const int rc = r->done % 2 ? fabric_flush(&r->worker, peer, 0) : fabric_get(&r->worker, &read);
            if (rc) return rc;
        }
        if (r->done++ % 2) r->in_kernel = false;
    }
    return 0;
}

static int spread(struct leader_rank *r)
{
    const uint32_t ranks = r->base.fabric->rank_count;
    const uint16_t peer = (uint16_t)(r->leader + 1 + r->done / ranks);
    const int rc = block_copy(r, r->done % ranks, peer);
    if (rc) return rc;
    r->done++;
    return r->done < (r->peers - 1) * ranks ? -EINPROGRESS : 0;
}

static int output_copy(struct leader_rank *r)
{
    own_copy(r, r->base.options->size_bytes);
    if (++r->done < r->base.fabric->rank_count) return -EINPROGRESS;
    host_wait(r);
    return 0;
}

/* Runs a part.  Returns 0 when the part is over, -EINPROGRESS if the next step can go on, -EAGAIN if it must wait. */
static int part_run(struct leader_rank *r)
{
    const struct fabric *f = r->base.fabric;
    int rc;
    switch (r->part) {
    case GIVE:
        if (!leads(r)) return block_copy(r, f->rank, r->leader);
        own_copy(r, r->base.options->size_bytes);
        return 0;
    case GIVEN: return barrier(r, WORD_GIVEN, r->peers, r->leader, 1);
    case KEEP:
        if (!leads(r)) return 0;
        own_copy(r, span_bytes(r->base.options, r->peers));
        host_wait(r);
        return 0;
    case MEET:
        rc = leads(r) ? barrier(r, WORD_LEADERS, r->nodes, 0, r->peers) : 0;
        if (rc == 0 && leads(r)) host_wait(r);
        return rc;
    case FETCH: return leads(r) ? fetch(r) : 0;
    case FETCHED: host_wait(r); return 0;
    case SHOW: return output_copy(r);
    case SPREAD: return leads(r) && r->peers > 1 ? spread(r) : 0;
    case LET: return barrier(r, WORD_SPREAD, r->peers, r->leader, 1);
    case TAKE: return leads(r) ? 0 : output_copy(r);
    case PARTS: break;
    }
    assert(false);
    return 0;
}

static enum worker_step leader_step(struct fabric_worker *w)
{
    struct leader_rank *r = fabric_container_of(w, struct leader_rank, worker);
    if (r->part == PARTS) return WORKER_DONE;
    const int rc = part_run(r);
    assert(rc == 0 || rc == -EAGAIN || rc == -EINPROGRESS);
    if (rc == -EAGAIN) return WORKER_WAIT;
    if (rc == -EINPROGRESS) return WORKER_MORE;
    r->part++;
    r->done = 0;
    r->in_kernel = false;
    return WORKER_MORE;
}

static void leader_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct leader_rank *r = fabric_container_of(w, const struct leader_rank, worker);
    const struct fabric *f = w->fabric;
    if (!leads(r)) snprintf(text, text_size, "allgather by leaders waits for rank %u", r->leader);
    else if (r->part == MEET || r->part == FETCH)
        snprintf(text, text_size, "allgather by leaders waits for rank %u", (r->leader + r->peers) % f->rank_count);
    else snprintf(text, text_size, "allgather by leaders waits for rank %u", r->leader + (r->peers > 1));
}

static const struct worker_role leader_role = { .step = leader_step, .describe = leader_describe };

static void leader_launch(struct coll_rank *base)
{
    struct leader_rank *r = of(base);
    r->part = GIVE;
    r->done = 0;
    r->in_kernel = false;
    coll_worker_add(base, &r->worker, &leader_role, 0, STREAM_WARPS);
    fabric_watch(&r->worker, WORD_GIVEN, WORDS_END - WORD_GIVEN, 0);
}

static void leader_traffic(const struct coll_rank *base, uint32_t phase, struct kernel_traffic *traffic)
{
    const struct leader_rank *r = of(base);
    const uint64_t size = base->options->size_bytes;
    (void)phase;
    if (leads(r)) {
        traffic->logical_rdma_bytes = (r->nodes - 1) * r->peers * size;
        traffic->logical_nvl_bytes = (uint64_t)(r->peers - 1) * base->fabric->rank_count * size;
    } else {
        traffic->logical_nvl_bytes = size;
    }
}

const struct coll_kernel_ops coll_allgather_leader = {
    .phase = (const char *const[]){ "allgather", NULL },
    .overlap = (const char *const[]){ "allgather_overlap" },
    .rank_bytes = sizeof(struct leader_rank),
    .refuse = leader_refuse,
    .needs = leader_needs,
    .init = leader_init,
    .fill = coll_gather_fill,
    .launch = leader_launch,
    .traffic = leader_traffic,
    .outputs = coll_gather_outputs,
    .check = coll_gather_check,
};
