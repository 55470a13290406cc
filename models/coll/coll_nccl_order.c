/* coll_nccl_order.c - which primitives a block of NCCL's collectives runs, and with which peers.
 *
 * ring: within a node of n ranks, channel c's ring begins with rank c % n, so that rings leave the node by different
 * NICs.
 *
 * tree: the ranks of a node form a chain, whose head changes from channel to channel.  Between nodes the heads form a
 * binary tree.  In half of the channels the nodes are in reverse order.  At the root, all warps take sums and send
 * results.  At other ranks some warps send sums up and the others send results down (runTreeSplit).
 *
 * works: broadcasts and reductions of a group, along the ring (src/device/broadcast.h, reduce.h).  NCCL has buffers by
 * protocol.  Here all works of a channel share a link's places. */
#include "models/coll/coll_nccl.h"

enum { CHILDREN = 3, NOBODY = UINT16_MAX };
/* The numbers of the links on which a rank receives in a channel's tree: LINK_UP + i from child i, LINK_DOWN from the
 * parent. */
enum { LINK_UP = 0, LINK_DOWN = CHILDREN };

/* ---- rings ---- */

/* The rank of a node at a place of the channel's order: its number within the node.  Through a switch ranks follow one
 * another.  In a mesh each pair of ranks has a link of its own.  There the order goes c, c + 1, c - 1, c + 2, c - 2 and
 * so on.  So n channels on an even number of ranks use each link once, and some once more to close the rings.  RCCL's
 * orders for eight ranks use links as evenly (rome_models.cc). */
static uint32_t rank_of_place(const struct nccl_rank *r, uint32_t channel, uint32_t place)
{
    const uint32_t n = r->peers;
    const uint32_t step = !r->base.options->nccl.mesh ? place : place % 2 ? (place + 1) / 2 : n - place / 2;
    return (channel + step) % n;
}

/* The place of this rank in the channel's order. */
static uint32_t place_of(const struct nccl_rank *r, uint32_t channel)
{
    const uint32_t n = r->peers, step = (r->base.fabric->rank % n + n - channel % n) % n;
    if (!r->base.options->nccl.mesh || !step) return step;
    return step <= n / 2 ? 2 * step - 1 : 2 * (n - step);
}

/* The rank that comes `places` places after this one in the channel's ring. */
static uint16_t ring_after(const struct block *b, uint32_t places)
{
    const struct nccl_rank *r = b->rank;
    const uint32_t at = r->base.fabric->rank / r->peers * r->peers + place_of(r, b->number);
    const uint32_t then = (at + places) % (r->nodes * r->peers);
    return (uint16_t)(then / r->peers * r->peers + rank_of_place(r, b->number, then % r->peers));
}

uint32_t nccl_primitives(const struct block *b)
{
    const struct coll_options *o = &b->op->options;
    if (nccl_by_tree(b->plan) || b->op->works) return 1;
    return o->kernel == COLL_ALLREDUCE ? 2 * o->ranks - 1 : o->ranks;
}

/* How many bytes of the part one round of primitives moves, from b->begin on: a chunk or, in a ring's all-reduce, a
 * chunk for each rank. */
static uint64_t round_bytes(const struct block *b)
{
    const struct nccl_plan *p = b->plan;
    const struct coll_options *o = &b->op->options;
    const bool each = o->kernel == COLL_ALLREDUCE && !nccl_by_tree(p);
    return coll_min(b->part_bytes - b->begin, each ? p->chunk_bytes * o->ranks : p->chunk_bytes);
}

/* Returns where a rank's chunk begins in a round of an all-reduce.  The rank is the one `after` places after this rank
 * in the ring.  *size_bytes gets the chunk's size. */
static uint64_t chunk_begin(const struct block *b, uint32_t after, uint64_t *size_bytes)
{
    const struct nccl_plan *p = b->plan;
    const uint32_t ranks = b->op->options.ranks;
    const uint64_t round = round_bytes(b), whole = p->chunk_bytes;
    const uint64_t even = ((round + ranks - 1) / ranks + PACK_BYTES - 1) / PACK_BYTES * PACK_BYTES;
    const uint64_t chunk = round < whole * ranks ? even : whole;
    const uint64_t begin = coll_min(ring_after(b, after) * chunk, round);
    *size_bytes = coll_min(chunk, round - begin);
    return nccl_part_begin(p, b->number) + b->begin + begin;
}

/* The channel's part of a rank's block, and where it begins in the block. */
static uint64_t part_of(const struct block *b, uint32_t rank, uint64_t *begin)
{
    const struct operation *op = b->op;
    if (op->options.rows) return nccl_block_part(op->plan, coll_size_of(&op->options, rank), b->number, begin);
    *begin = nccl_part_begin(op->plan, b->number);
    return nccl_part_bytes(op->plan, b->number);
}

/* A chunk of a rank's block in an all-gather.  Blocks that are shorter than the longest have no bytes in the last
 * rounds. */
static void gather_chunk(const struct block *b, uint32_t rank, struct primitive *p)
{
    uint64_t begin;
    const uint64_t part = part_of(b, rank, &begin), done = coll_min(b->begin, part);
    p->size_bytes = coll_min(part - done, b->plan->chunk_bytes);
    p->from = p->to = b->op->heap_begin + b->op->block_bytes * rank + begin + done;
}

/* The ring's current primitive.  In the first primitive the rank sends its own bytes.  In the next ones it passes on
 * what has come.  An all-gather keeps all that comes.  A reduction adds the rank's own bytes, and keeps only results.
 * An all-reduce goes round twice, first with sums, then with results. */
static struct primitive ring_primitive(const struct block *b)
{
    const struct coll_options *o = &b->op->options;
    const uint32_t n = o->ranks, i = b->primitive, last = nccl_primitives(b) - 1;
    const bool gather = o->kernel == COLL_ALLGATHER, scatter = o->kernel == COLL_REDUCESCATTER;
    struct primitive p = { .receive = i > 0, .send = i < last };
    p.own = (!gather && i < n) || i == 0;
    p.keep = gather ? i > 0 : i >= n - 1;
    if (gather) {
        gather_chunk(b, ring_after(b, n - i % n), &p);
        return p;
    }
    uint64_t at = nccl_part_begin(b->plan, b->number) + b->begin;
    p.size_bytes = round_bytes(b);
    if (scatter) {
        p.from = b->op->heap_begin + b->op->block_bytes * ring_after(b, 2 * n - 1 - i) + at;
        p.to = b->op->result_begin + at;
        return p;
    }
    at = chunk_begin(b, (i < n ? 2 * n - 1 - i : 3 * n - 1 - i) % n, &p.size_bytes);
    p.from = b->op->heap_begin + at;
    p.to = b->op->result_begin + at;
    return p;
}

/* ---- trees ---- */

struct tree {
    uint16_t parent, child[CHILDREN]; /* ranks, or NOBODY */
    uint16_t number;                  /* the rank's index among its parent's children */
};

static uint16_t rank_at(const struct nccl_rank *r, uint32_t channel, uint32_t position, uint32_t link)
{
    const bool mirrored = channel / r->peers % 2;
    const uint32_t node = mirrored ? r->nodes - 1 - position : position;
    return (uint16_t)(node * r->peers + rank_of_place(r, channel, link));
}

/* This rank's place in the channel's tree.  Nodes form the tree: position 0 is the root's.  The ranks of a node form a
 * chain, whose head is link 0. */
static struct tree tree_of(const struct nccl_rank *r, uint32_t channel)
{
    const uint32_t nodes = r->nodes, peers = r->peers, rank = r->base.fabric->rank;
    const bool mirrored = channel / peers % 2;
    const uint32_t node = rank / peers, position = mirrored ? nodes - 1 - node : node;
    const uint32_t link = place_of(r, channel);
    struct tree t = { .parent = NOBODY, .child = { NOBODY, NOBODY, NOBODY } };
    if (link) {
        t.parent = rank_at(r, channel, position, link - 1);
    } else if (position) {
        t.parent = rank_at(r, channel, (position - 1) / 2, 0);
        t.number = (uint16_t)(2 - position % 2);
    }
    if (link + 1 < peers) t.child[0] = rank_at(r, channel, position, link + 1);
    for (uint32_t i = 1; i < CHILDREN && !link; i++)
        if (2 * position + i < nodes) t.child[i] = rank_at(r, channel, 2 * position + i, 0);
    return t;
}

bool nccl_is_root(const struct nccl_rank *r, uint32_t channel) { return tree_of(r, channel).parent == NOBODY; }

/* The tree's current primitive.  On the way up, sums are sent to the parent.  At the root and on the way down, results
 * are kept and sent to the children. */
static struct primitive tree_primitive(const struct block *b)
{
    const uint64_t at = nccl_part_begin(b->plan, b->number) + b->begin;
    return (struct primitive){ .receive = b->ins > 0,
                               .send = b->outs > 0,
                               .own = !b->down,
                               .keep = b->down || nccl_is_root(b->rank, b->number),
                               .from = b->op->heap_begin + at,
                               .to = b->op->result_begin + at,
                               .size_bytes = round_bytes(b) };
}

/* ---- works ---- */

/* The current primitive of a work, which is a pipeline along the ring.  A broadcast begins at the root, and all others
 * keep what comes.  A reduction ends at the root, and all add their own bytes. */
static struct primitive work_primitive(const struct block *b)
{
    const struct operation *op = b->op;
    const struct nccl_work *work = &op->work[b->work];
    const bool gather = op->options.kernel == COLL_ALLGATHER, root = b->rank->base.fabric->rank == work->root;
    const uint32_t next = gather ? 1 : op->options.ranks - 1; /* the ring's neighbour on the side away from the root */
    const bool far = ring_after(b, next) == work->root, first = gather ? root : far, last = gather ? far : root;
    const uint64_t at = work->begin + b->begin;
    const uint64_t from = op->heap_begin + op->block_bytes * work->root + at;
    return (struct primitive){ .receive = !first,
                               .send = !last,
                               .own = first || !gather,
                               .keep = gather ? !first : last,
                               .from = from,
                               .to = gather ? from : op->result_begin + at,
                               .size_bytes = round_bytes(b) };
}

/* Makes the channel's next work, from that number on, the current one.  Returns false if there is none. */
static bool work_find(struct block *b, uint32_t from)
{
    const struct operation *op = b->op;
    for (b->work = from; b->work < op->works && op->work[b->work].channel != b->number;) b->work++;
    if (b->work >= op->works) return false;
    b->plan = &op->plan[op->work[b->work].plan];
    b->part_bytes = op->work[b->work].size_bytes;
    b->begin = 0;
    return true;
}

/* ---- the order ---- */

static struct primitive primitive_of(const struct block *b)
{
    if (b->op->works) return work_primitive(b);
    return nccl_by_tree(b->plan) ? tree_primitive(b) : ring_primitive(b);
}

/* Adds a link to the block's list, with its peer and numbers.  Leaves the link's count of steps as it is. */
static void link_set(struct link *link, uint32_t *count, uint16_t peer, uint32_t here, uint32_t there)
{
    assert(*count < LINKS_MOST);
    link[*count].peer = peer;
    link[*count].here = (uint16_t)here;
    link[(*count)++].there = (uint16_t)there;
}

static void tree_links(struct block *b)
{
    const struct tree t = tree_of(b->rank, b->number);
    const bool root = t.parent == NOBODY;
    for (uint32_t i = 0; i < CHILDREN; i++) {
        if (t.child[i] == NOBODY) continue;
        if (!b->down) link_set(b->in, &b->ins, t.child[i], LINK_UP + i, LINK_UP);
        if (b->down || root) link_set(b->out, &b->outs, t.child[i], LINK_UP + 1 + i, LINK_DOWN);
    }
    if (root) return;
    if (b->down) link_set(b->in, &b->ins, t.parent, LINK_DOWN, LINK_UP + 1u + t.number);
    else link_set(b->out, &b->outs, t.parent, LINK_UP, LINK_UP + t.number);
}

static void ring_links(struct block *b)
{
    const uint32_t ranks = b->op->options.ranks;
    if (ranks == 1) return;
    link_set(b->in, &b->ins, ring_after(b, ranks - 1), 0, 0);
    link_set(b->out, &b->outs, ring_after(b, 1), 0, 0);
}

/* Whether the block is to pass the current primitive over: it has no bytes, as blocks differ in size. */
static bool is_void(const struct block *b) { return !b->done && b->op->options.rows && b->now.size_bytes == 0; }

/* The longest part that the channel has of any block. */
static uint64_t part_longest(const struct block *b)
{
    const struct coll_options *o = &b->op->options;
    uint64_t most = 0, begin;
    for (uint32_t r = 0; r < (o->rows ? o->ranks : 1); r++)
        if (part_of(b, r, &begin) > most) most = part_of(b, r, &begin);
    return most;
}

void nccl_order_begin(struct block *b)
{
    b->plan = b->op->plan;
    if (nccl_by_tree(b->plan)) tree_links(b);
    else ring_links(b);
    if (b->op->works) b->done = !work_find(b, 0);
    else b->done = (b->part_bytes = part_longest(b)) == 0;
    if (!b->done) b->now = primitive_of(b);
    if (is_void(b)) nccl_order_next(b);
}

void nccl_order_next(struct block *b)
{
    do {
        if (++b->primitive == nccl_primitives(b)) {
            b->begin += round_bytes(b);
            b->primitive = 0;
            if (b->begin == b->part_bytes) b->done = !b->op->works || !work_find(b, b->work + 1);
        }
        if (!b->done) b->now = primitive_of(b);
    } while (is_void(b));
}

/* Adds what the block sends of a part. */
static void sent_add(const struct nccl_plan *p, uint64_t part_bytes, uint64_t *bytes, uint64_t *places)
{
    *bytes += part_bytes;
    *places += (part_bytes + p->chunk_bytes - 1) / p->chunk_bytes * p->chunk_steps;
}

/* What the block sends of blocks of different sizes: all but those that end at this rank. */
static uint64_t sent_of_blocks(const struct block *b, uint64_t *places)
{
    const struct operation *op = b->op;
    const bool gather = op->options.kernel == COLL_ALLGATHER;
    const uint32_t end = gather ? ring_after(b, 1) : b->rank->base.fabric->rank;
    uint64_t bytes = 0, begin;
    *places = 0;
    for (uint32_t i = 0; i < op->works; i++)
        if (op->work[i].channel == b->number && op->work[i].root != end)
            sent_add(&op->plan[op->work[i].plan], op->work[i].size_bytes, &bytes, places);
    for (uint32_t r = 0; r < op->options.ranks && !op->works; r++)
        if (r != end) sent_add(op->plan, part_of(b, r, &begin), &bytes, places);
    return bytes;
}

uint64_t nccl_sent(const struct block *b, uint64_t *places)
{
    const struct nccl_plan *p = b->op->plan;
    const struct coll_options *o = &b->op->options;
    if (o->rows) return sent_of_blocks(b, places);
    const uint64_t ranks = o->ranks, part = nccl_part_bytes(p, b->number);
    const bool tree = nccl_by_tree(p), each = o->kernel == COLL_ALLREDUCE && !tree;
    const uint64_t round = p->chunk_bytes * (each ? ranks : 1), rounds = (part + round - 1) / round;
    *places = rounds * (tree ? 1 : nccl_primitives(b) - 1) * p->chunk_steps;
    return tree ? part : each ? 2 * (ranks - 1) * part / ranks : (ranks - 1) * part;
}
