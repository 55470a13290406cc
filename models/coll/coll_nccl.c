/* coll_nccl.c - all-gather, reduce-scatter and all-reduce by NCCL's rings and trees.  ag-rs runs the first two in turn.
 *
 * A channel is a block of warps on an SM, with its part of the bytes and its own ring or tree.  For each chunk it
 * runs a list of steps ("primitives").  A primitive may take what others have sent, add the rank's own bytes, keep the
 * result and send it on (src/device/all_gather.h, reduce_scatter.h, all_reduce.h).  From one rank to another there is
 * a link: a buffer of 8 places in the receiver's memory and two words.  One word counts the places that the sender has
 * filled, the other those that the receiver has emptied.
 *
 * Between nodes a thread of the host sends (src/proxy.cc, src/transport/net.cc).  The block makes a slice in places of
 * its own memory, and a third word tells the thread how many are made.  The thread puts a slice when the receiver's
 * places for it are empty.  NCCL sends from 8 places.  Each is free again when its bytes have arrived.  A fabric can
 * only tell when all puts of a QP have arrived.  So here there are 16 places to send from, and each is free again when
 * the receiver has emptied the place that the bytes went to.
 *
 *     heap, with payload: | own bytes | result | places by channel and link | places to send from, for NICs |
 *
 * all-gather: the rank's own block lies at its place in the result.
 *
 * Protocols differ in the loop that moves bytes (the sheet nccl), in what the link carries, and in how the receiver
 * learns that bytes have come (src/device/prims_*.h).  LL and LL128 have flags among the bytes.  Simple has a release,
 * made by a warp that moves no bytes.
 *
 * ring: within a node of n ranks, channel c's ring begins with place c % n, so that rings leave the node by different
 * NICs.
 *
 * tree: the ranks of a node form a chain, whose head changes from channel to channel.  Between nodes the heads form a
 * binary tree.  In half of the channels the nodes are in reverse order.  At the root, all warps take sums and send
 * results.  At other ranks some warps send sums up and the others send results down (runTreeSplit).
 *
 * Each byte is added by itself, without carries.  So the sum does not depend on the order of additions, and
 * the results of different worlds can be compared. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include "models/coll/coll_internal.h"
#include "models/coll/nccl_plan.h"

/* The most bytes that one call of block_step() moves.  This is one pass of NCCL's loop: 8 accesses of 16 B by each lane
 * of 16 warps; with LL128, 1920 B by each of 20 warps. */
enum { PIECE_BYTES = 64 << 10, LL128_PIECE_BYTES = 38400 };
enum { SLICE_BYTES_LEAST = 32 << 10, PACK_BYTES = 16 };
enum { WORD_FILLED, WORD_EMPTIED, WORD_MADE, WORDS_A_LINK }; /* MADE: at the sender, for its thread */
enum { MADE_PLACES = 2 * NCCL_STEPS };
enum { GIVEN_TWO = 1, GIVEN_KEPT = 2, GIVEN_CAME = 4, GIVENS = 8 };
enum { LINKS_MOST = 3, CHILDREN = 3 };
/* The numbers of the links on which a rank receives in a channel's tree: LINK_UP + i from child i, LINK_DOWN from the
 * parent. */
enum { LINK_UP = 0, LINK_DOWN = CHILDREN, TREE_LINKS };
enum { BLOCKS_A_CHANNEL = 2 };
enum { NOBODY = UINT16_MAX };

/* One end of a link.  `here` and `there` are the link's numbers at this rank and at the peer.  The number at a rank
 * tells which of the rank's words and places belong to the link. */
struct link {
    uint64_t steps; /* how many places this side has filled or emptied, in all launches */
    uint16_t peer, here, there;
};

struct primitive {
    bool receive, send, own, keep; /* own: it adds the rank's own bytes; keep: it stores the result */
    uint64_t from, to, size_bytes; /* heap offsets of the rank's own bytes and of the result; bytes of the chunk */
};

/* The part of the host's thread that sends on one link of a block. */
struct sender {
    struct fabric_worker worker;
    const struct block *block;
    struct link link;                 /* link.steps: how many places the thread has put, in all launches */
    uint64_t last_steps;              /* what link.steps will be at the end of the launch */
    uint64_t size_bytes[MADE_PLACES]; /* of the slice in each place */
    bool announced;                   /* the next message's size has already been sent */
};

struct block {
    struct fabric_worker worker;
    struct sender sender[LINKS_MOST]; /* by outgoing link; unused if no NIC takes the link's bytes */
    struct nccl_rank *rank;
    struct operation *op;
    struct link in[LINKS_MOST], out[LINKS_MOST];
    uint32_t number, ins, outs; /* number: the channel's number */
    uint32_t primitive, slice;
    bool down;              /* tree: it hands results down */
    uint8_t begun;          /* how often code was read before the first byte, at most twice (kernel_begin()) */
    bool made;              /* the piece has been made in the rank's own memory */
    uint32_t stored, told;  /* to how many targets the piece is stored; how many peers have been told of the slice */
    uint64_t begin, sliced; /* where in the channel's part the chunk, or the round of chunks, begins; bytes of the
                             * primitive's slices that are done */
    uint64_t moved, piece;  /* bytes of the slice that are done; bytes of the current piece */
    struct primitive now;
};

/* One collective, which is a phase of the run. */
struct operation {
    struct coll_options options; /* the run's options, with the operation's own kernel and size */
    struct nccl_plan plan;
    uint64_t heap_begin, place_bytes;
    uint32_t word_begin;
    struct site_given given[GIVENS], given_put;
    struct site_given given_begin[2]; /* [0]: the kernel's start; [1]: of a function that it calls */
};

enum { OPERATIONS = 2 };

struct nccl_rank {
    struct coll_rank base;
    struct operation op[OPERATIONS];
    struct block *block[OPERATIONS]; /* [BLOCKS_A_CHANNEL * channels] */
    uint32_t peers, nodes;
};

static struct nccl_rank *of(const struct coll_rank *r) { return fabric_container_of(r, struct nccl_rank, base); }

/* ---- memory ---- */

static uint64_t own_bytes(const struct coll_options *o)
{
    return coll_align(o->size_bytes) * (o->kernel == COLL_ALLREDUCE ? 1 : o->ranks);
}

static uint64_t result_offset(const struct coll_options *o) { return o->kernel == COLL_ALLGATHER ? 0 : own_bytes(o); }

static uint64_t places_offset(const struct coll_options *o)
{
    return result_offset(o) + (o->kernel == COLL_ALLGATHER ? own_bytes(o) : coll_align(o->size_bytes));
}

static uint32_t slice_steps(const struct nccl_plan *p) { return p->chunk_steps / p->slices; }

/* The bytes of memory for a place: never more than the channels' parts can fill. */
static uint64_t place_bytes(const struct nccl_plan *p)
{
    const uint64_t hi = nccl_part_bytes(p, p->channels - 1), part = p->lo_bytes > hi ? p->lo_bytes : hi;
    return coll_align(coll_min(p->step_bytes, (part + slice_steps(p) - 1) / slice_steps(p)));
}

static bool by_tree(const struct nccl_plan *p) { return p->algorithm == COLL_TREE; }

static uint32_t links_of(const struct nccl_plan *p) { return by_tree(p) ? TREE_LINKS : 1; }

static uint64_t place_offset(const struct block *b, uint32_t link, uint64_t step)
{
    const struct operation *op = b->op;
    const uint64_t row = b->number * (uint64_t)links_of(&op->plan) + link;
    return op->heap_begin + places_offset(&op->options) + (row * NCCL_STEPS + step % NCCL_STEPS) * op->place_bytes;
}

/* The heap offset where the slice for a step is made before the thread sends it. */
static uint64_t made_offset(const struct block *b, uint64_t step)
{
    const struct operation *op = b->op;
    const uint64_t links = links_of(&op->plan), places = op->plan.channels * links * NCCL_STEPS;
    const uint64_t row = b->number * links + b->out[0].here;
    return op->heap_begin + places_offset(&op->options) +
           (places + row * MADE_PLACES + step % MADE_PLACES) * op->place_bytes;
}

/* ---- rings ---- */

/* The rank that comes `places` places after this one in the channel's ring. */
static uint16_t ring_after(const struct block *b, uint32_t places)
{
    const struct nccl_rank *r = b->rank;
    const uint32_t rank = r->base.fabric->rank, shift = b->number % r->peers;
    const uint32_t at = rank / r->peers * r->peers + (rank % r->peers + r->peers - shift) % r->peers;
    const uint32_t then = (at + places) % (r->nodes * r->peers);
    return (uint16_t)(then / r->peers * r->peers + (then % r->peers + shift) % r->peers);
}

static uint32_t primitives_of(const struct block *b)
{
    const struct coll_options *o = &b->op->options;
    if (by_tree(&b->op->plan)) return 1;
    return o->kernel == COLL_ALLREDUCE ? 2 * o->ranks - 1 : o->ranks;
}

/* How many bytes of the part one round of primitives moves, from b->begin on: a chunk or, in a ring's all-reduce, a
 * chunk for each rank. */
static uint64_t round_bytes(const struct block *b)
{
    const struct nccl_plan *p = &b->op->plan;
    const uint64_t left = nccl_part_bytes(p, b->number) - b->begin;
    const struct coll_options *o = &b->op->options;
    const bool each = o->kernel == COLL_ALLREDUCE && !by_tree(p);
    return coll_min(left, each ? p->chunk_bytes * o->ranks : p->chunk_bytes);
}

/* Returns where a rank's chunk begins in a round of an all-reduce.  The rank is the one `after` places after this rank
 * in the ring.  *size_bytes gets the chunk's size. */
static uint64_t chunk_begin(const struct block *b, uint32_t after, uint64_t *size_bytes)
{
    const struct nccl_plan *p = &b->op->plan;
    const uint32_t ranks = b->op->options.ranks;
    const uint64_t round = round_bytes(b), whole = p->chunk_bytes;
    const uint64_t even = ((round + ranks - 1) / ranks + PACK_BYTES - 1) / PACK_BYTES * PACK_BYTES;
    const uint64_t chunk = round < whole * ranks ? even : whole;
    const uint64_t begin = coll_min(ring_after(b, after) * chunk, round);
    *size_bytes = coll_min(chunk, round - begin);
    return nccl_part_begin(p, b->number) + b->begin + begin;
}

/* The ring's current primitive.  In the first primitive the rank sends its own bytes.  In the next ones it passes on
 * what has come.  An all-gather keeps all that comes.  A reduction adds the rank's own bytes, and keeps only results.
 * An all-reduce goes round twice, first with sums, then with results. */
static struct primitive ring_primitive(const struct block *b)
{
    const struct coll_options *o = &b->op->options;
    const uint32_t n = o->ranks, i = b->primitive, last = primitives_of(b) - 1;
    const bool gather = o->kernel == COLL_ALLGATHER, scatter = o->kernel == COLL_REDUCESCATTER;
    struct primitive p = { .receive = i > 0, .send = i < last };
    p.own = (!gather && i < n) || i == 0;
    p.keep = gather ? i > 0 : i >= n - 1;
    uint64_t at = nccl_part_begin(&b->op->plan, b->number) + b->begin;
    p.size_bytes = round_bytes(b);
    if (gather) {
        p.from = p.to = coll_align(o->size_bytes) * ring_after(b, n - i % n) + at;
        return p;
    }
    if (scatter) {
        p.from = coll_align(o->size_bytes) * ring_after(b, 2 * n - 1 - i) + at;
        p.to = result_offset(o) + at;
        return p;
    }
    at = chunk_begin(b, (i < n ? 2 * n - 1 - i : 3 * n - 1 - i) % n, &p.size_bytes);
    p.from = at;
    p.to = result_offset(o) + at;
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
    return (uint16_t)(node * r->peers + (channel + link) % r->peers);
}

/* This rank's place in the channel's tree.  Nodes form the tree: position 0 is the root's.  The ranks of a node form a
 * chain, whose head is link 0. */
static struct tree tree_of(const struct nccl_rank *r, uint32_t channel)
{
    const uint32_t nodes = r->nodes, peers = r->peers, rank = r->base.fabric->rank;
    const bool mirrored = channel / peers % 2;
    const uint32_t node = rank / peers, position = mirrored ? nodes - 1 - node : node;
    const uint32_t link = (rank % peers + peers - channel % peers) % peers;
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

static bool is_root(const struct nccl_rank *r, uint32_t channel) { return tree_of(r, channel).parent == NOBODY; }

/* The tree's current primitive.  On the way up, sums are sent to the parent.  At the root and on the way down, results
 * are kept and sent to the children. */
static struct primitive tree_primitive(const struct block *b)
{
    const uint64_t at = nccl_part_begin(&b->op->plan, b->number) + b->begin;
    return (struct primitive){ .receive = b->ins > 0,
                               .send = b->outs > 0,
                               .own = !b->down,
                               .keep = b->down || is_root(b->rank, b->number),
                               .from = at,
                               .to = result_offset(&b->op->options) + at,
                               .size_bytes = round_bytes(b) };
}

static struct primitive primitive_of(const struct block *b)
{
    return by_tree(&b->op->plan) ? tree_primitive(b) : ring_primitive(b);
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

/* ---- bytes ---- */

static uint64_t slice_bytes(const struct block *b)
{
    const struct nccl_plan *p = &b->op->plan;
    const uint64_t left = b->now.size_bytes - b->sliced, parts = (uint64_t)PACK_BYTES * p->slices;
    const uint64_t even = (b->now.size_bytes + parts - 1) / parts * PACK_BYTES;
    if (p->slices == 1) return left;
    return coll_min(left, even > SLICE_BYTES_LEAST ? even : SLICE_BYTES_LEAST);
}

/* Sums the bytes of the current piece.  Writes them to the result if they are kept, and to target if it is not NULL. */
static void piece_make(const struct block *b, uint8_t *target)
{
    uint8_t *heap = b->worker.fabric->heap, *kept = heap + b->op->heap_begin + b->now.to;
    const uint64_t at = b->sliced + b->moved;
    const uint8_t *own = heap + b->op->heap_begin + b->now.from + at, *came[LINKS_MOST] = { NULL };
    const uint32_t ins = b->now.receive ? b->ins : 0;
    for (uint32_t l = 0; l < ins; l++) came[l] = heap + place_offset(b, b->in[l].here, b->in[l].steps) + b->moved;
    for (uint64_t i = 0; i < b->piece; i++) {
        uint8_t sum = b->now.own ? own[i] : 0;
        for (uint32_t l = 0; l < ins; l++) sum = (uint8_t)(sum + came[l][i]);
        if (target) target[i] = sum;
        if (b->now.keep) kept[at + i] = sum;
    }
}

static void piece_fill(const void *context, uint8_t *target) { piece_make(context, target); }

static void piece_run(void *context, uint64_t argument)
{
    struct block *b = context;
    (void)argument;
    piece_make(b, b->now.send ? b->worker.fabric->heap + made_offset(b, b->out[0].steps) + b->moved : NULL);
}

static uint8_t site_of(const struct nccl_plan *p)
{
    return p->protocol == COLL_LL ? SITE_NCCL_LL : p->protocol == COLL_LL128 ? SITE_NCCL_LL128 : SITE_NCCL_SIMPLE;
}

/* Bytes that a warp moves in one pass of the loop. */
static uint64_t warp_bytes(const struct nccl_plan *p)
{
    return p->protocol == COLL_LL ? 256 : p->protocol == COLL_LL128 ? 1920 : 512;
}

static struct site_given *given_of(struct block *b)
{
    const bool two = b->now.receive && b->now.own + b->ins > 1, kept = b->now.keep && b->now.send;
    return &b->op->given[(two ? GIVEN_TWO : 0) | (kept ? GIVEN_KEPT : 0) | (b->now.own ? 0 : GIVEN_CAME)];
}

static bool by_nic(const struct block *b, uint16_t peer)
{
    return fabric_path(b->rank->base.fabric, peer) == FABRIC_RDMA;
}

/* Whether the piece is made in the rank's own memory.  This is so if it is sent to no rank, or if a NIC fetches it. */
static bool is_staged(const struct block *b)
{
    if (!b->now.send) return true;
    for (uint32_t l = 0; l < b->outs; l++)
        if (by_nic(b, b->out[l].peer)) return true;
    return false;
}

static int piece_store(struct block *b, const struct link *link, uint8_t rows)
{
    const bool payload = b->worker.fabric->payload;
    const uint64_t target = payload ? place_offset(b, link->there, link->steps) + b->moved : 0;
    const struct fabric_write write = { .target_offset = target,
                                        .charge_bytes = b->piece,
                                        .peer = link->peer,
                                        .rows = rows,
                                        .fill = payload ? piece_fill : NULL,
                                        .data = b,
                                        .size_bytes = payload ? (uint32_t)b->piece : 0,
                                        .site = site_of(&b->op->plan),
                                        .given = given_of(b) };
    return fabric_store(&b->worker, &write);
}

/* Moves the next piece to the places of other ranks, or within the rank's own memory. */
static int piece_move(struct block *b)
{
    const struct nccl_plan *p = &b->op->plan;
    b->piece = coll_min(slice_bytes(b) - b->moved, p->protocol == COLL_LL128 ? LL128_PIECE_BYTES : PIECE_BYTES);
    const uint8_t rows = (uint8_t)coll_min(b->worker.warps, (b->piece + warp_bytes(p) - 1) / warp_bytes(p));
    if (!b->made && is_staged(b)) {
        const struct fabric_work work = { .kind = FABRIC_WORK_COPY,
                                          .rows = rows,
                                          .site = site_of(p),
                                          .given = given_of(b),
                                          .read_bytes = b->piece,
                                          .write_bytes = b->piece,
                                          .run = piece_run,
                                          .context = b };
        fabric_work(&b->worker, &work);
    }
    b->made = true;
    for (; b->now.send && b->stored < b->outs; b->stored++) {
        const int rc = by_nic(b, b->out[b->stored].peer) ? 0 : piece_store(b, &b->out[b->stored], rows);
        if (rc) return rc;
    }
    b->made = false;
    b->stored = 0;
    b->moved += b->piece;
    return 0;
}

/* ---- words ---- */

static uint32_t word_of(const struct block *b, uint32_t link, uint32_t what)
{
    return b->op->word_begin + (b->number * links_of(&b->op->plan) + link) * WORDS_A_LINK + what;
}

/* The QP of a channel.  Channels that leave a node by one NIC use its QPs in rotation, and so all its ports. */
static uint16_t queue_of(const struct block *b)
{
    return (uint16_t)(b->number / b->rank->peers % b->worker.fabric->queue_count);
}

static int filled_tell(struct block *b, uint32_t out)
{
    const struct link *link = &b->out[out];
    const bool nic = by_nic(b, link->peer), flags = b->op->plan.protocol != COLL_SIMPLE;
    const struct fabric_signal filled = { .value = link->steps + slice_steps(&b->op->plan),
                                          .word = word_of(b, link->there, WORD_FILLED),
                                          .peer = link->peer,
                                          .site = flags ? SITE_NCCL_FLAGS : SITE_NCCL_TELL };
    const struct fabric_signal made = { .value = filled.value,
                                        .word = word_of(b, link->here, WORD_MADE),
                                        .peer = b->worker.fabric->rank,
                                        .site = b->op->plan.protocol == COLL_LL ? SITE_NCCL_HAND_LL : SITE_NCCL_HAND };
    if (nic) b->sender[out].size_bytes[link->steps % MADE_PLACES] = b->moved;
    return fabric_signal(&b->worker, nic ? &made : &filled);
}

/* Tells the sender that places are empty.  No release is needed, because the receiver has only read. */
static int emptied_tell(struct block *b, const struct link *link)
{
    const struct fabric_signal signal = { .value = link->steps + slice_steps(&b->op->plan),
                                          .word = word_of(b, link->there, WORD_EMPTIED),
                                          .peer = link->peer,
                                          .queue = queue_of(b),
                                          .site = SITE_NCCL_FLAGS };
    return fabric_signal(&b->worker, &signal);
}

/* The most places that the block may have filled while the receiver has not emptied them. */
static uint32_t places_of(const struct block *b, const struct link *out)
{
    return by_nic(b, out->peer) ? MADE_PLACES : NCCL_STEPS;
}

/* The link that the next slice waits for; NULL if it waits for none. */
static const struct link *awaited(const struct block *b)
{
    const struct fabric *f = b->worker.fabric;
    const uint64_t steps = slice_steps(&b->op->plan);
    for (uint32_t l = 0; b->now.receive && l < b->ins; l++)
        if (fabric_load(f, word_of(b, b->in[l].here, WORD_FILLED)) < b->in[l].steps + steps) return &b->in[l];
    for (uint32_t l = 0; b->now.send && l < b->outs; l++)
        if (fabric_load(f, word_of(b, b->out[l].here, WORD_EMPTIED)) + places_of(b, &b->out[l]) <
            b->out[l].steps + steps)
            return &b->out[l];
    return NULL;
}

/* ---- a block ---- */

/* Goes on to the next slice, which may be in the next primitive or round. */
static void slice_next(struct block *b)
{
    const struct nccl_plan *p = &b->op->plan;
    b->sliced += b->moved;
    b->moved = 0;
    b->told = 0;
    for (uint32_t l = 0; b->now.send && l < b->outs; l++) b->out[l].steps += slice_steps(p);
    for (uint32_t l = 0; b->now.receive && l < b->ins; l++) b->in[l].steps += slice_steps(p);
    if (++b->slice < p->slices) return;
    b->slice = 0;
    b->sliced = 0;
    if (++b->primitive == primitives_of(b)) {
        b->begin += round_bytes(b);
        b->primitive = 0;
    }
    if (b->begin < nccl_part_bytes(p, b->number)) b->now = primitive_of(b);
}

/* Charges a read of code, before the first byte is moved.  Returns false if all code has been read.  LL's code is in
 * the kernel itself.  For another protocol the kernel calls a function, whose code is a second read
 * (src/device/common.h). */
static bool kernel_begin(struct block *b)
{
    if (b->begun > (b->op->plan.protocol != COLL_LL)) return false;
    const uint32_t next = b->begun++;
    const struct fabric_work work = { .kind = FABRIC_WORK_SCAN,
                                      .site = next ? SITE_NCCL_FUNCTION : SITE_NCCL_START,
                                      .given = &b->op->given_begin[next],
                                      .rows = 1 };
    fabric_work(&b->worker, &work);
    return true;
}

static int slice_tell(struct block *b)
{
    const uint32_t outs = b->now.send ? b->outs : 0, ins = b->now.receive ? b->ins : 0;
    for (; b->told < outs + ins; b->told++) {
        const int rc = b->told < outs ? filled_tell(b, b->told) : emptied_tell(b, &b->in[b->told - outs]);
        if (rc) return rc;
    }
    return 0;
}

static enum worker_step block_step(struct fabric_worker *worker)
{
    struct block *b = fabric_container_of(worker, struct block, worker);
    if (b->begin == nccl_part_bytes(&b->op->plan, b->number)) return WORKER_DONE;
    if (kernel_begin(b)) return WORKER_MORE;
    if (!b->moved && !b->made && !b->told && awaited(b)) return WORKER_WAIT;
    const uint64_t size = slice_bytes(b);
    if (b->moved < size) {
        const int rc = piece_move(b);
        assert(rc == 0 || rc == -EAGAIN);
        if (rc) return WORKER_WAIT;
        if (b->moved < size) return WORKER_MORE;
    }
    const int rc = slice_tell(b);
    assert(rc == 0 || rc == -EAGAIN);
    if (rc) return WORKER_WAIT;
    slice_next(b);
    return WORKER_MORE;
}

static void block_describe(const struct fabric_worker *worker, char *text, size_t text_size)
{
    const struct block *b = fabric_container_of(worker, const struct block, worker);
    const struct link *link = awaited(b);
    const uint32_t rank = link ? link->peer : b->outs ? b->out[0].peer : b->rank->base.fabric->rank;
    snprintf(text, text_size, "%s, channel %u%s: primitive %u of %u waits for rank %u", b->rank->base.ops->phase[0],
             b->number, b->down ? " down" : "", b->primitive, primitives_of(b), rank);
}

static const struct worker_role block_role = { .step = block_step, .describe = block_describe };

/* ---- the host's thread ---- */

/* Sends a message's size before the message, as NCCL's sockets do. */
static int size_send(struct sender *s)
{
    const struct fabric_write write = {
        .charge_bytes = sizeof(uint32_t), .peer = s->link.peer, .queue = queue_of(s->block), .site = SITE_NCCL_SIZE_PUT
    };
    const int rc = fabric_put(&s->worker, &write, NULL);
    s->announced = rc == 0;
    return rc;
}

static int slice_put(struct sender *s)
{
    const struct block *b = s->block;
    const struct fabric *f = s->worker.fabric;
    const uint64_t size = s->size_bytes[s->link.steps % MADE_PLACES];
    const int size_rc = b->op->options.sockets && !s->announced ? size_send(s) : 0;
    if (size_rc) return size_rc;
    const uint64_t from = f->payload ? made_offset(b, s->link.steps) : 0;
    const struct fabric_write write = { .target_offset = f->payload ? place_offset(b, s->link.there, s->link.steps) : 0,
                                        .charge_bytes = size,
                                        .peer = s->link.peer,
                                        .queue = queue_of(b),
                                        .site = SITE_NCCL_PUT,
                                        .given = &b->op->given_put,
                                        .data = f->heap + from,
                                        .size_bytes = f->payload ? (uint32_t)size : 0 };
    const struct fabric_signal filled = { .value = s->link.steps + slice_steps(&b->op->plan),
                                          .word = word_of(b, s->link.there, WORD_FILLED),
                                          .peer = s->link.peer,
                                          .queue = queue_of(b) };
    const int rc = fabric_put(&s->worker, &write, &filled);
    if (!rc) s->announced = false;
    return rc;
}

static enum worker_step sender_step(struct fabric_worker *worker)
{
    struct sender *s = fabric_container_of(worker, struct sender, worker);
    const struct fabric *f = worker->fabric;
    if (s->link.steps == s->last_steps) return WORKER_DONE;
    const uint64_t then = s->link.steps + slice_steps(&s->block->op->plan);
    if (fabric_load(f, word_of(s->block, s->link.here, WORD_MADE)) < then ||
        fabric_load(f, word_of(s->block, s->link.here, WORD_EMPTIED)) + NCCL_STEPS < then)
        return WORKER_WAIT;
    const int rc = slice_put(s);
    assert(rc == 0 || rc == -EAGAIN);
    if (rc) return WORKER_WAIT;
    s->link.steps = then;
    return WORKER_MORE;
}

static void sender_describe(const struct fabric_worker *worker, char *text, size_t text_size)
{
    const struct sender *s = fabric_container_of(worker, const struct sender, worker);
    snprintf(text, text_size, "%s, channel %u: the host's thread waits for rank %u", s->block->rank->base.ops->phase[0],
             s->block->number, s->link.peer);
}

static const struct worker_role sender_role = { .step = sender_step, .describe = sender_describe };

/* How many places the block fills in a launch, for each peer that it sends to. */
static uint64_t steps_of(const struct block *b)
{
    const struct nccl_plan *p = &b->op->plan;
    const struct coll_options *o = &b->op->options;
    const bool tree = by_tree(p);
    const uint64_t round = p->chunk_bytes * (o->kernel == COLL_ALLREDUCE && !tree ? o->ranks : 1);
    const uint64_t rounds = (nccl_part_bytes(p, b->number) + round - 1) / round;
    return rounds * (tree ? 1 : primitives_of(b) - 1) * p->chunk_steps;
}

static void senders_launch(struct block *b)
{
    for (uint32_t l = 0; l < b->outs; l++) {
        struct sender *s = &b->sender[l];
        if (!by_nic(b, b->out[l].peer)) continue;
        *s = (struct sender){ .block = b, .link = b->out[l], .last_steps = b->out[l].steps + steps_of(b) };
        coll_worker_add(&b->rank->base, &s->worker, &sender_role, b->number, 1);
        fabric_watch(&s->worker, word_of(b, s->link.here, WORD_EMPTIED), WORD_MADE - WORD_EMPTIED + 1, 0);
    }
}

/* ---- a rank ---- */

static const char *nccl_refuse(const struct coll_options *o, const struct edges *edges, char *text, size_t text_size)
{
    (void)edges;
    if (!o->size_bytes || (o->kernel == COLL_AG_RS && !o->combine_bytes))
        KERNEL_REFUSE("size: expected at least 1 byte, found 0");
    return NULL;
}

static uint32_t operations_of(const struct coll_options *o) { return o->kernel == COLL_AG_RS ? OPERATIONS : 1; }

/* Makes the run's operations, and gives each its part of the heap and of the words.  *heap_end and *word_end get the
 * ends. */
static void operations_make(const struct coll_options *o, struct operation op[OPERATIONS], uint64_t *heap_end,
                            uint32_t *word_end)
{
    *heap_end = 0;
    *word_end = COLL_WORDS;
    for (uint32_t i = 0; i < operations_of(o); i++) {
        op[i] = (struct operation){ .options = *o, .heap_begin = *heap_end, .word_begin = *word_end };
        struct coll_options *own = &op[i].options;
        if (o->kernel == COLL_AG_RS) own->kernel = i ? COLL_REDUCESCATTER : COLL_ALLGATHER;
        if (i) own->size_bytes = o->combine_bytes;
        nccl_plan_make(own, &op[i].plan);
        op[i].place_bytes = place_bytes(&op[i].plan);
        for (uint32_t g = 0; g < GIVENS; g++)
            op[i].given[g] = (struct site_given){ .size = { g & GIVEN_TWO ? 2 : 1, (g & GIVEN_KEPT) > 0,
                                                            (g & GIVEN_CAME) > 0, places_offset(own) } };
        const enum coll_protocol protocol = op[i].plan.protocol;
        op[i].given_put = (struct site_given){ .size = { protocol == COLL_LL, protocol != COLL_SIMPLE, own->sockets } };
        const bool simple = protocol == COLL_SIMPLE; /* it has one more warp */
        op[i].given_begin[0] = op[i].given_begin[1] =
            (struct site_given){ .size = { op[i].plan.warps + simple, simple } };
        const uint64_t rows = (uint64_t)op[i].plan.channels * links_of(&op[i].plan);
        *heap_end += places_offset(own) + rows * (NCCL_STEPS + MADE_PLACES) * op[i].place_bytes;
        *word_end += op[i].plan.channels * links_of(&op[i].plan) * WORDS_A_LINK;
    }
}

/* A rank needs a QP for each channel that leaves the node by this rank, but at most eight to a peer (queue_of()). */
static void nccl_needs(const struct coll_job *job, bool payload, struct fabric_needs *needs)
{
    const struct coll_options *o = &job->options;
    const uint64_t peers = coll_min(o->ranks, o->ranks_per_node);
    struct operation op[OPERATIONS];
    uint64_t heap_end, queues = 0;
    operations_make(o, op, &heap_end, &needs->word_count);
    for (uint32_t i = 0; i < operations_of(o); i++)
        if (queues < (op[i].plan.channels + peers - 1) / peers) queues = (op[i].plan.channels + peers - 1) / peers;
    needs->queue_depth = 2 * o->in_flight + 4;
    needs->queue_count = (uint16_t)coll_min(queues, 8);
    needs->heap_bytes = payload ? heap_end : 0;
}

/* Fills in the rank.  If NVLink is disabled, every rank is a node of its own. */
static void nccl_init(struct coll_rank *base)
{
    struct nccl_rank *r = of(base);
    const struct fabric *f = base->fabric;
    uint64_t heap_end;
    uint32_t word_end;
    operations_make(base->options, r->op, &heap_end, &word_end);
    r->peers = f->nvlink_disabled ? 1 : (uint32_t)coll_min(f->ranks_per_node, f->rank_count);
    r->nodes = f->rank_count / r->peers;
    for (uint32_t i = 0; i < operations_of(base->options); i++)
        r->block[i] = kernel_keep(base, r->op[i].plan.channels, BLOCKS_A_CHANNEL * sizeof r->block[i][0]);
}

static void nccl_fill(struct coll_rank *base)
{
    const struct nccl_rank *r = of(base);
    for (uint32_t n = 0; n < operations_of(base->options); n++) {
        const struct operation *op = &r->op[n];
        const uint64_t block = coll_align(op->options.size_bytes);
        if (op->options.kernel == COLL_ALLGATHER) {
            coll_gather_fill(base);
            continue;
        }
        for (uint32_t i = 0; i < own_bytes(&op->options) / block; i++)
            coll_pattern_fill(base->fabric->heap + op->heap_begin + i * block, op->options.size_bytes,
                              base->fabric->rank, i, base->iteration);
    }
}

/* How many of a block's warps move bytes.  In a tree, below the root, `down` asks for the warps that send down, else
 * for those that send up.  With LL and LL128 seven of ten warps send up.  With Simple half of the warps plus two send
 * up.  In a tree with Simple, one warp only signals: one in each direction, and one at the root. */
static uint32_t warps_of(const struct nccl_rank *r, const struct nccl_plan *p, uint32_t channel, bool down)
{
    const bool simple = p->protocol == COLL_SIMPLE;
    if (!by_tree(p)) return p->warps;
    if (is_root(r, channel)) return p->warps - simple;
    const uint32_t up = simple ? p->warps / 2 + 2 : p->warps * 7 / 10;
    return (down ? p->warps - up : up) - simple;
}

static void block_launch(struct nccl_rank *r, uint32_t phase, uint32_t channel, bool down)
{
    struct block *b = &r->block[phase][BLOCKS_A_CHANNEL * channel + down];
    struct block fresh = { .rank = r, .op = &r->op[phase], .number = channel, .down = down };
    memcpy(fresh.in, b->in, sizeof fresh.in);
    memcpy(fresh.out, b->out, sizeof fresh.out);
    *b = fresh;
    if (by_tree(&b->op->plan)) tree_links(b);
    else ring_links(b);
    b->now = primitive_of(b);
    coll_worker_add(&r->base, &b->worker, &block_role, channel, warps_of(r, &b->op->plan, channel, down));
    for (uint32_t l = 0; l < b->ins; l++) fabric_watch(&b->worker, word_of(b, b->in[l].here, WORD_FILLED), 1, 0);
    for (uint32_t l = 0; l < b->outs; l++) fabric_watch(&b->worker, word_of(b, b->out[l].here, WORD_EMPTIED), 1, 0);
    senders_launch(b);
}

static void nccl_launch(struct coll_rank *base, uint32_t phase)
{
    struct nccl_rank *r = of(base);
    const struct nccl_plan *p = &r->op[phase].plan;
    base->launch.site = SITE_NCCL_KERNEL;
    for (uint32_t c = 0; c < p->channels; c++) {
        block_launch(r, phase, c, false);
        if (by_tree(p) && !is_root(r, c)) block_launch(r, phase, c, true);
    }
}

/* Bytes of a channel's part that the rank sends on each of its outgoing links. */
static uint64_t sent_bytes(const struct operation *op, uint32_t channel)
{
    const uint64_t ranks = op->options.ranks, part = nccl_part_bytes(&op->plan, channel);
    if (by_tree(&op->plan)) return part;
    return op->options.kernel == COLL_ALLREDUCE ? 2 * (ranks - 1) * part / ranks : (ranks - 1) * part;
}

static void nccl_traffic(const struct coll_rank *base, uint32_t phase, struct kernel_traffic *traffic)
{
    const struct nccl_rank *r = of(base);
    for (uint32_t i = 0; i < BLOCKS_A_CHANNEL * r->op[phase].plan.channels; i++) {
        const struct block *b = &r->block[phase][i];
        for (uint32_t l = 0; l < b->outs; l++) {
            const uint64_t bytes = sent_bytes(b->op, b->number);
            if (by_nic(b, b->out[l].peer)) traffic->logical_rdma_bytes += bytes;
            else traffic->logical_nvl_bytes += bytes;
        }
    }
}

static uint32_t nccl_outputs(struct coll_rank *base, struct kernel_tensor *tensor, uint32_t max)
{
    const struct nccl_rank *r = of(base);
    uint32_t count = 0;
    for (uint32_t i = 0; i < operations_of(base->options); i++) {
        const struct operation *op = &r->op[i];
        assert(count < max);
        if (op->options.kernel == COLL_ALLGATHER) count += coll_gather_outputs(base, tensor + count, max - count);
        else
            tensor[count++] =
                (struct kernel_tensor){ "sum", base->fabric->heap + op->heap_begin + result_offset(&op->options),
                                        op->options.size_bytes };
    }
    return count;
}

/* Checks that the rank has the sum of what all ranks had for it. */
static uint32_t sum_check(const struct coll_rank *base, const struct operation *op, char *text, size_t text_size)
{
    const struct coll_options *o = &op->options;
    const uint32_t place = o->kernel == COLL_REDUCESCATTER ? base->fabric->rank : 0;
    const uint8_t *found = base->fabric->heap + op->heap_begin + result_offset(o);
    const uint64_t at = coll_sum_check(base, found, o->size_bytes, place);
    if (at == o->size_bytes) return 0;
    snprintf(text, text_size, "sum: expected that of all ranks, found other bytes from %llu on",
             (unsigned long long)at);
    return 1;
}

static uint32_t nccl_check(const struct coll_rank *base, char *text, size_t text_size)
{
    const struct nccl_rank *r = of(base);
    uint32_t failed = 0;
    for (uint32_t i = 0; i < operations_of(base->options) && !failed; i++)
        failed = r->op[i].options.kernel == COLL_ALLGATHER ? coll_gather_check(base, text, text_size)
                                                           : sum_check(base, &r->op[i], text, text_size);
    return failed;
}

#define NCCL_OPS \
    .rank_bytes = sizeof(struct nccl_rank), .refuse = nccl_refuse, .needs = nccl_needs, .init = nccl_init, \
    .fill = nccl_fill, .launch = nccl_launch, .traffic = nccl_traffic, .outputs = nccl_outputs, .check = nccl_check
#define NAMES(...) \
    (const char *const[]) { __VA_ARGS__, NULL }

const struct coll_kernel_ops coll_ring_gather = { NCCL_OPS, .phase = NAMES("allgather"),
                                                  .overlap = NAMES("allgather_overlap") };
const struct coll_kernel_ops coll_reducescatter = { NCCL_OPS, .phase = NAMES("reducescatter"),
                                                    .overlap = NAMES("reducescatter_overlap") };
const struct coll_kernel_ops coll_allreduce = { NCCL_OPS, .phase = NAMES("allreduce"),
                                                .overlap = NAMES("allreduce_overlap") };
const struct coll_kernel_ops coll_ag_rs = { NCCL_OPS, .phase = NAMES("dispatch", "combine"),
                                            .overlap = NAMES("dispatch_overlap", "combine_overlap") };
