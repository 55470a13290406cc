/* coll_allgather.c - the hybrid all-gather, and what all-gathers share.
 *
 *     heap, with payload: | block of rank 0 | of rank 1 | ... |     the rank's own block is there from the start
 *
 * hybrid: worker 0 puts the rank's own block, one piece with a signal at a time, to the rank at its own place on each
 * other node.  For each node one word counts the pieces that have come from it.  Every block is divided among the other
 * workers.  Each stores its part of the rank's own block, and of the blocks that come, to the peers of the node.  For
 * each peer and worker one word counts the blocks that the peer's worker has stored. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include "models/coll/coll_internal.h"

enum { GATHER_WARPS = 16 };
enum { PIECE_BYTES = 512 << 10 }; /* the most bytes of a put */

struct putter { /* hybrid: worker 0 */
    struct fabric_worker worker;
    uint32_t posted, arrived; /* how many puts are posted, and how many have arrived.  A piece goes to every node before
                               * the next piece goes to any */
};

struct copier { /* hybrid: another worker */
    struct fabric_worker worker;
    struct gather_rank *rank;
    uint32_t block, peer; /* how many blocks are stored, beginning with the rank's own; how many peers have the next
                           * block */
    uint64_t stored;      /* bytes of the worker's part of the next block that the next peer has */
};

struct gather_rank {
    struct coll_rank base;
    struct copier *copier;
    struct putter putter;
    uint32_t nodes, node, place, peers; /* nodes of the run; own node; place within it; ranks of a node, this one
                                         * included */
};

static struct gather_rank *of(const struct coll_rank *r) { return fabric_container_of(r, struct gather_rank, base); }

static uint32_t pieces_of(const struct coll_options *o)
{
    return (uint32_t)((o->size_bytes + PIECE_BYTES - 1) / PIECE_BYTES);
}

uint64_t coll_gather_offset(const struct coll_options *o, uint32_t rank) { return rank * coll_block_bytes(o); }

/* Where a worker's part of a block begins.  Parts begin at whole lines. */
static uint64_t part_begin(const struct coll_options *o, uint32_t part)
{
    return coll_min(coll_align(o->size_bytes) / 64 * part / o->num_sms * 64, o->size_bytes);
}

static uint32_t word_node(uint32_t node) { return COLL_WORDS + node; }
static uint32_t word_peer(const struct gather_rank *r, uint32_t peer, uint32_t worker)
{
    return COLL_WORDS + r->nodes + peer * r->base.options->num_sms + worker;
}

static void gather_needs(const struct coll_job *job, bool payload, struct fabric_needs *needs)
{
    const struct coll_options *o = &job->options;
    const uint32_t nodes = (o->ranks + o->ranks_per_node - 1) / o->ranks_per_node;
    const uint32_t peers = o->ranks < o->ranks_per_node ? o->ranks : o->ranks_per_node;
    needs->word_count = COLL_WORDS + nodes + peers * o->num_sms;
    needs->queue_depth = 2 * o->in_flight;
    needs->queue_count = 1;
    needs->heap_bytes = payload ? coll_gather_offset(o, o->ranks) : 0;
}

static void gather_init(struct coll_rank *base)
{
    struct gather_rank *r = of(base);
    const struct fabric *f = base->fabric;
    r->peers = coll_peers(f);
    r->nodes = f->rank_count / r->peers;
    r->node = f->rank / r->peers;
    r->place = f->rank % r->peers;
    r->copier = kernel_keep(base, base->options->num_sms, sizeof r->copier[0]);
}

void coll_gather_fill(struct coll_rank *base)
{
    const struct fabric *f = base->fabric;
    coll_pattern_fill(f->heap + coll_gather_offset(base->options, f->rank), coll_size_of(base->options, f->rank),
                      f->rank, 0, base->iteration);
}

/* Stores the bytes [begin, end) of a block to a peer.  A block has the same offset on every rank. */
static int block_store(struct coll_rank *base, struct fabric_worker *w, uint16_t peer, uint32_t block, uint64_t begin,
                       uint64_t end, uint64_t *stored)
{
    const uint64_t offset = coll_gather_offset(base->options, block) + begin;
    const int rc = coll_store_some(w, offset, peer, offset, end - begin, stored);
    return rc == 0 && *stored < end - begin ? -EINPROGRESS : rc;
}

/* ---- hybrid: between nodes ---- */

/* Whether `pieces` pieces of the block from a node have come in this launch.  The block of the rank's own node is its
 * own block, which is always there. */
static bool node_has(const struct gather_rank *r, uint32_t node, uint64_t pieces)
{
    const uint64_t before = (uint64_t)(r->base.turn - 1) * pieces_of(r->base.options);
    return node == r->node || fabric_load(r->base.fabric, word_node(node)) >= before + pieces;
}

/* The target of the put with this number.  *piece gets the piece of the block that the put carries.  The first target
 * is on the next node. */
static uint16_t putter_target(const struct gather_rank *r, uint32_t number, uint32_t *piece)
{
    const uint32_t others = r->nodes - 1;
    assert(others > 0 && number < others * pieces_of(r->base.options));
    *piece = number / others;
    return (uint16_t)((r->node + 1 + number % others) % r->nodes * r->peers + r->place);
}

static int putter_post(struct gather_rank *r)
{
    const struct coll_options *o = r->base.options;
    const struct fabric *f = r->base.fabric;
    uint32_t piece;
    const uint16_t target = putter_target(r, r->putter.posted, &piece);
    const uint64_t begin = (uint64_t)piece * PIECE_BYTES, end = coll_min(begin + PIECE_BYTES, o->size_bytes);
    const uint64_t offset = coll_gather_offset(o, f->rank) + begin;
    const struct fabric_write write = coll_write(f, offset, target, offset, end - begin, SITE_NONE);
    const struct fabric_signal signal = {
        .value = (uint64_t)(r->base.turn - 1) * pieces_of(o) + piece + 1,
        .word = word_node(r->node),
        .peer = target,
    };
    return fabric_put(&r->putter.worker, &write, &signal);
}

/* Whether all puts so far have arrived.  A flush ends only when the whole queue is complete. */
static int putter_flush(struct gather_rank *r)
{
    uint32_t piece;
    for (uint32_t i = 0; i + 1 < r->nodes; i++) {
        const int rc = fabric_flush(&r->putter.worker, putter_target(r, i, &piece), 0);
        if (rc) return rc;
    }
    r->putter.arrived = r->putter.posted;
    return 0;
}

/* Puts go in bursts of as many as may be in flight.  A burst begins when the one before it has arrived. */
static enum worker_step putter_step(struct fabric_worker *w)
{
    struct gather_rank *r = fabric_container_of(w, struct gather_rank, putter.worker);
    const struct coll_options *o = r->base.options;
    const uint32_t all = (r->nodes - 1) * pieces_of(o);
    while (r->putter.arrived < all) {
        assert(r->putter.arrived <= r->putter.posted && r->putter.posted <= all);
        assert(r->putter.posted - r->putter.arrived <= o->in_flight);
        const bool posts = r->putter.posted < all && r->putter.posted - r->putter.arrived < o->in_flight;
        const int rc = posts ? putter_post(r) : putter_flush(r);
        if (rc) return coll_step_of(rc);
        r->putter.posted += posts;
    }
    for (uint32_t node = 0; node < r->nodes; node++)
        if (!node_has(r, node, pieces_of(o))) return WORKER_WAIT;
    return WORKER_DONE;
}

static void putter_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct gather_rank *r = fabric_container_of(w, const struct gather_rank, putter.worker);
    const uint32_t all = (r->nodes - 1) * pieces_of(r->base.options);
    uint32_t piece, node = 0;
    while (node < r->nodes - 1 && node_has(r, node, pieces_of(r->base.options))) node++;
    const uint32_t peer =
        r->putter.arrived < all ? putter_target(r, r->putter.arrived, &piece) : node * r->peers + r->place;
    snprintf(text, text_size, "allgather waits for rank %u: %u pieces of %u put, %u there", peer, r->putter.posted, all,
             r->putter.arrived);
}

static const struct worker_role putter_role = { .step = putter_step, .describe = putter_describe };

/* ---- hybrid: within the node ---- */

/* The node whose block the worker stores next. */
static uint32_t copier_node(const struct copier *c)
{
    return (c->rank->node + c->rank->nodes - c->block) % c->rank->nodes;
}

/* The place within the node of the peer that gets the block next.  Each worker begins with another peer, so that all
 * links of a mesh are used at the same time. */
static uint32_t copier_peer(const struct copier *c)
{
    const struct gather_rank *r = c->rank;
    const uint32_t others = r->peers > 1 ? r->peers - 1 : 1, turn = (uint32_t)(c - r->copier) + c->peer;
    return (r->place + 1 + turn % others) % r->peers;
}

/* Whether the next block has come as far as byte `end`, where the worker's part of it ends. */
static bool copier_has(const struct copier *c, uint64_t end)
{
    return node_has(c->rank, copier_node(c), (end + PIECE_BYTES - 1) / PIECE_BYTES);
}

/* Whether worker `number` of a peer has stored all its blocks to this rank. */
static bool copier_heard(const struct copier *c, uint32_t number, uint32_t peer)
{
    const struct gather_rank *r = c->rank;
    const uint64_t blocks = (uint64_t)r->base.turn * r->nodes;
    return peer == r->place || fabric_load(r->base.fabric, word_peer(r, peer, number)) >= blocks;
}

static enum worker_step copier_step(struct fabric_worker *w)
{
    struct copier *c = fabric_container_of(w, struct copier, worker);
    struct gather_rank *r = c->rank;
    const struct coll_options *o = r->base.options;
    const uint32_t number = (uint32_t)(c - r->copier);
    const uint64_t begin = part_begin(o, number), end = part_begin(o, number + 1);
    assert(number < o->num_sms && begin <= end && c->stored <= end - begin);
    for (; c->block < r->nodes; c->block++, c->peer = 0) {
        const uint32_t node = copier_node(c);
        if (!copier_has(c, end)) return WORKER_WAIT;
        for (; c->peer < r->peers - 1; c->peer++, c->stored = 0) {
            const uint16_t target = (uint16_t)(r->node * r->peers + copier_peer(c));
            const int rc = block_store(&r->base, w, target, node * r->peers + r->place, begin, end, &c->stored);
            if (rc) return coll_step_of(rc);
            const struct fabric_signal signal = { .value = (uint64_t)(r->base.turn - 1) * r->nodes + c->block + 1,
                                                  .word = word_peer(r, r->place, number),
                                                  .peer = target };
            const int signalled = fabric_signal(w, &signal);
            if (signalled) return coll_step_of(signalled);
        }
    }
    for (uint32_t peer = 0; peer < r->peers; peer++)
        if (!copier_heard(c, number, peer)) return WORKER_WAIT;
    return WORKER_DONE;
}

static void copier_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct copier *c = fabric_container_of(w, const struct copier, worker);
    const struct gather_rank *r = c->rank;
    const uint32_t number = (uint32_t)(c - r->copier);
    uint32_t peer = r->node * r->peers;
    if (c->block == r->nodes)
        for (uint32_t place = 0; place < r->peers - 1 && copier_heard(c, number, place); place++) peer++;
    else if (copier_has(c, part_begin(r->base.options, number + 1))) peer += copier_peer(c);
    else peer = copier_node(c) * r->peers + r->place;
    snprintf(text, text_size, "allgather copies %u waits for rank %u: %u blocks of %u stored to %u peers", number, peer,
             c->block, r->nodes, r->peers - 1);
}

static const struct worker_role copier_role = { .step = copier_step, .describe = copier_describe };

/* ---- a rank ---- */

static void gather_launch(struct coll_rank *base)
{
    struct gather_rank *r = of(base);
    const uint64_t blocks = (uint64_t)r->base.turn * r->nodes;
    const uint64_t pieces = (uint64_t)r->base.turn * pieces_of(r->base.options);
    r->putter = (struct putter){ 0 };
    if (r->nodes > 1) coll_worker_add(&r->base, &r->putter.worker, &putter_role, 0, 1);
    for (uint32_t node = 0; node < r->nodes && r->nodes > 1; node++)
        fabric_watch(&r->putter.worker, word_node(node), 1, pieces);
    for (uint32_t i = 0; i < r->base.options->num_sms && r->peers > 1; i++) {
        r->copier[i] = (struct copier){ .rank = r };
        coll_worker_add(&r->base, &r->copier[i].worker, &copier_role, i, GATHER_WARPS);
        fabric_watch(&r->copier[i].worker, word_node(0), r->nodes, 0);
        for (uint32_t peer = 0; peer < r->peers; peer++)
            fabric_watch(&r->copier[i].worker, word_peer(r, peer, i), 1, blocks);
    }
}

/* Counts the bytes that leave the rank. */
static void gather_traffic(const struct coll_rank *base, uint32_t phase, struct kernel_traffic *traffic)
{
    const struct gather_rank *r = of(base);
    const uint64_t size = base->options->size_bytes;
    (void)phase;
    traffic->logical_rdma_bytes = (r->nodes - 1) * size;
    traffic->logical_nvl_bytes = (uint64_t)r->nodes * (r->peers - 1) * size;
}

uint32_t coll_gather_outputs(struct coll_rank *base, struct kernel_tensor *tensor, uint32_t max)
{
    assert(max >= 1);
    tensor[0] = (struct kernel_tensor){ "gathered", base->fabric->heap,
                                        coll_gather_offset(base->options, base->options->ranks) };
    return 1;
}

uint32_t coll_gather_check(const struct coll_rank *base, char *text, size_t text_size)
{
    uint32_t failed = 0;
    for (uint32_t rank = 0; rank < base->options->ranks; rank++) {
        uint64_t at = 0;
        const uint8_t *block = base->fabric->heap + coll_gather_offset(base->options, rank);
        if (!coll_pattern_check(block, coll_size_of(base->options, rank), rank, 0, base->iteration, &at)) continue;
        if (!failed++)
            snprintf(text, text_size, "gathered: expected the block of rank %u, found other bytes from %llu on", rank,
                     (unsigned long long)at);
    }
    return failed;
}

const struct coll_kernel_ops coll_allgather = {
    .phase = (const char *const[]){ "allgather", NULL },
    .overlap = (const char *const[]){ "allgather_overlap" },
    .rank_bytes = sizeof(struct gather_rank),
    .needs = gather_needs,
    .init = gather_init,
    .fill = coll_gather_fill,
    .launch = gather_launch,
    .traffic = gather_traffic,
    .outputs = coll_gather_outputs,
    .check = coll_gather_check,
};
