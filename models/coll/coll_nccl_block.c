/* coll_nccl_block.c - how a block of NCCL's collectives runs a primitive, and how the host's thread sends.
 *
 * Between nodes a thread of the host sends (src/proxy.cc, src/transport/net.cc).  The block makes a slice in places of
 * its own memory, and a third word tells the thread how many are made.  The thread puts a slice when the receiver's
 * places for it are empty.  NCCL sends from 8 places.  Each is free again when its bytes have arrived.  A fabric can
 * only tell when all puts of a QP have arrived.  So here there are 16 places to send from, and each is free again when
 * the receiver has emptied the place that the bytes went to.
 *
 * Protocols differ in the loop that moves bytes (the sheet nccl), in what the link carries, and in how the receiver
 * learns that bytes have come (src/device/prims_*.h).  LL and LL128 have flags among the bytes.  Simple has a release,
 * made by a warp that moves no bytes.
 *
 * Flags come with each line.  So within a node a receiver may take lines of a slice that its sender has not finished.
 * This counts in a pipeline, where ranks wait for bytes that come from far along the ring.  In the other collectives
 * each rank first sends bytes of its own, and the next slice has come by then.  So only works tell of lines here, once
 * for each pass of the block's warps. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include "models/coll/coll_nccl.h"

/* The most bytes that one call of block_step() moves.  This is one pass of NCCL's loop: 8 accesses of 16 B by each lane
 * of 16 warps; with LL128, 1920 B by each of 20 warps. */
enum { PIECE_BYTES = 64 << 10, LL128_PIECE_BYTES = 38400 };
enum { SLICE_BYTES_LEAST = 32 << 10 };

static uint64_t place_offset(const struct block *b, uint32_t link, uint64_t step)
{
    const struct operation *op = b->op;
    const uint64_t row = b->number * (uint64_t)nccl_links(op->plan) + link;
    return op->places_begin + (row * NCCL_STEPS + step % NCCL_STEPS) * op->place_bytes;
}

/* The heap offset where the slice for a step is made before the thread sends it. */
static uint64_t made_offset(const struct block *b, uint64_t step)
{
    const struct operation *op = b->op;
    const uint64_t links = nccl_links(op->plan), places = op->plan->channels * links * NCCL_STEPS;
    const uint64_t row = b->number * links + b->out[0].here;
    return op->places_begin + (places + row * MADE_PLACES + step % MADE_PLACES) * op->place_bytes;
}

/* ---- bytes ---- */

static uint64_t slice_bytes(const struct block *b)
{
    const struct nccl_plan *p = b->plan;
    const uint64_t left = b->now.size_bytes - b->sliced, parts = (uint64_t)PACK_BYTES * p->slices;
    const uint64_t even = (b->now.size_bytes + parts - 1) / parts * PACK_BYTES;
    if (p->slices == 1) return left;
    return coll_min(left, even > SLICE_BYTES_LEAST ? even : SLICE_BYTES_LEAST);
}

/* Sums the bytes of the current piece.  Writes them to the result if they are kept, and to target if it is not NULL. */
static void piece_make(const struct block *b, uint8_t *target)
{
    uint8_t *heap = b->worker.fabric->heap, *kept = heap + b->now.to;
    const uint64_t at = b->sliced + b->moved;
    const uint8_t *own = heap + b->now.from + at, *came[LINKS_MOST] = { NULL };
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
    return &b->op->given[b->plan->protocol]
                        [(two ? GIVEN_TWO : 0) | (kept ? GIVEN_KEPT : 0) | (b->now.own ? 0 : GIVEN_CAME)];
}

bool nccl_by_nic(const struct block *b, uint16_t peer)
{
    return fabric_path(b->rank->base.fabric, peer) == FABRIC_RDMA;
}

/* Whether the piece is made in the rank's own memory.  This is so if it is sent to no rank, or if a NIC fetches it. */
static bool is_staged(const struct block *b)
{
    if (!b->now.send) return true;
    for (uint32_t l = 0; l < b->outs; l++)
        if (nccl_by_nic(b, b->out[l].peer)) return true;
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
                                        .site = site_of(b->plan),
                                        .given = given_of(b) };
    return fabric_store(&b->worker, &write);
}

/* Whether the block and the peer, one of which sends to the other, need not wait for whole slices. */
static bool by_lines(const struct block *b, uint16_t peer)
{
    return b->op->works && b->plan->protocol != COLL_SIMPLE && !nccl_by_nic(b, peer);
}

/* Bytes of the slice's next piece. */
static uint64_t piece_next(const struct block *b)
{
    const struct nccl_plan *p = b->plan;
    uint64_t most = p->protocol == COLL_LL128 ? LL128_PIECE_BYTES : PIECE_BYTES;
    if (b->op->works && p->protocol != COLL_SIMPLE) most = p->warps * warp_bytes(p);
    return coll_min(slice_bytes(b) - b->moved, most);
}

/* Moves the next piece to the places of other ranks, or within the rank's own memory. */
static int piece_move(struct block *b)
{
    const struct nccl_plan *p = b->plan;
    b->piece = piece_next(b);
    const uint64_t warps = coll_min(b->worker.warps, p->warps);
    const uint8_t rows = (uint8_t)coll_min(warps, (b->piece + warp_bytes(p) - 1) / warp_bytes(p));
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
        const int rc = nccl_by_nic(b, b->out[b->stored].peer) ? 0 : piece_store(b, &b->out[b->stored], rows);
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
    return b->op->word_begin + (b->number * nccl_links(b->op->plan) + link) * WORDS_A_LINK + what;
}

/* The QP of a channel.  Channels that leave a node by one NIC use its QPs in rotation, and so all its ports. */
static uint16_t queue_of(const struct block *b)
{
    return (uint16_t)(b->number / b->rank->peers % b->worker.fabric->queue_count);
}

static int filled_tell(struct block *b, uint32_t out)
{
    const struct link *link = &b->out[out];
    const bool nic = nccl_by_nic(b, link->peer), flags = b->plan->protocol != COLL_SIMPLE;
    const uint64_t steps = link->steps + nccl_slice_steps(b->plan);
    const struct fabric_signal filled = { .value = steps << PLACE_BITS,
                                          .word = word_of(b, link->there, WORD_FILLED),
                                          .peer = link->peer,
                                          .site = flags ? SITE_NCCL_FLAGS : SITE_NCCL_TELL };
    const struct fabric_signal made = { .value = steps,
                                        .word = word_of(b, link->here, WORD_MADE),
                                        .peer = b->worker.fabric->rank,
                                        .site = b->plan->protocol == COLL_LL ? SITE_NCCL_HAND_LL : SITE_NCCL_HAND };
    if (nic) {
        b->sender[out].size_bytes[link->steps % MADE_PLACES] = b->moved;
        b->sender[out].protocol[link->steps % MADE_PLACES] = (uint8_t)b->plan->protocol;
    }
    return fabric_signal(&b->worker, nic ? &made : &filled);
}

/* Tells the next rank of lines that it may take before the slice is complete. */
static int lines_tell(struct block *b)
{
    const struct link *link = &b->out[0];
    if (!b->now.send || b->shown == b->moved || b->moved == slice_bytes(b) || !by_lines(b, link->peer)) return 0;
    const struct fabric_signal filled = { .value = (link->steps << PLACE_BITS) + b->moved,
                                          .word = word_of(b, link->there, WORD_FILLED),
                                          .peer = link->peer,
                                          .site = SITE_NCCL_FLAGS };
    const int rc = fabric_signal(&b->worker, &filled);
    if (!rc) b->shown = b->moved;
    return rc;
}

/* Tells the sender that places are empty.  No release is needed, because the receiver has only read. */
static int emptied_tell(struct block *b, const struct link *link)
{
    const struct fabric_signal signal = { .value = link->steps + nccl_slice_steps(b->plan),
                                          .word = word_of(b, link->there, WORD_EMPTIED),
                                          .peer = link->peer,
                                          .queue = queue_of(b),
                                          .site = SITE_NCCL_FLAGS };
    return fabric_signal(&b->worker, &signal);
}

/* The most places that the block may have filled while the receiver has not emptied them. */
static uint32_t places_of(const struct block *b, const struct link *out)
{
    return nccl_by_nic(b, out->peer) ? MADE_PLACES : NCCL_STEPS;
}

/* What the word of an incoming link must be before the next piece can be moved. */
static uint64_t filled_wanted(const struct block *b, const struct link *in)
{
    const uint64_t lines = b->moved + piece_next(b);
    if (by_lines(b, in->peer) && lines < slice_bytes(b)) return (in->steps << PLACE_BITS) + lines;
    return (in->steps + nccl_slice_steps(b->plan)) << PLACE_BITS;
}

/* The link that the next piece waits for; NULL if it waits for none. */
static const struct link *awaited(const struct block *b)
{
    const struct fabric *f = b->worker.fabric;
    const uint64_t steps = nccl_slice_steps(b->plan);
    for (uint32_t l = 0; b->now.receive && l < b->ins; l++)
        if (fabric_load(f, word_of(b, b->in[l].here, WORD_FILLED)) < filled_wanted(b, &b->in[l])) return &b->in[l];
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
    const struct nccl_plan *p = b->plan;
    b->sliced += b->moved;
    b->moved = b->shown = 0;
    b->told = 0;
    for (uint32_t l = 0; b->now.send && l < b->outs; l++) b->out[l].steps += nccl_slice_steps(p);
    for (uint32_t l = 0; b->now.receive && l < b->ins; l++) b->in[l].steps += nccl_slice_steps(p);
    if (++b->slice < p->slices) return;
    b->slice = 0;
    b->sliced = 0;
    nccl_order_next(b);
}

/* Charges a read of code, before the first byte is moved.  Returns false if all code has been read.  LL's code is in
 * the kernel itself.  For another protocol the kernel calls a function, whose code is a second read
 * (src/device/common.h). */
static bool kernel_begin(struct block *b)
{
    const uint32_t protocol = b->begun ? b->plan->protocol : COLL_LL;
    if (b->begun >> protocol & 1) return false;
    b->begun |= (uint8_t)(1u << protocol);
    const bool function = protocol != COLL_LL;
    const struct fabric_work work = { .kind = FABRIC_WORK_SCAN,
                                      .site = function ? SITE_NCCL_FUNCTION : SITE_NCCL_START,
                                      .given = function ? &b->op->given_function[protocol] : &b->op->given_start,
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
    if (b->done) return WORKER_DONE;
    if (kernel_begin(b)) return WORKER_MORE;
    if (lines_tell(b)) return WORKER_WAIT;
    const uint64_t size = slice_bytes(b);
    const bool begins = !b->moved || (b->moved < size && b->op->works);
    if (begins && !b->made && !b->told && awaited(b)) return WORKER_WAIT;
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
             b->number, b->down ? " down" : "", b->primitive, nccl_primitives(b), rank);
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
                                        .given = &b->op->given_put[s->protocol[s->link.steps % MADE_PLACES]],
                                        .data = f->heap + from,
                                        .size_bytes = f->payload ? (uint32_t)size : 0 };
    const struct fabric_signal filled = { .value = (s->link.steps + nccl_slice_steps(b->op->plan)) << PLACE_BITS,
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
    const uint64_t then = s->link.steps + nccl_slice_steps(s->block->op->plan);
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

void nccl_block_add(struct block *b, uint32_t warps)
{
    uint64_t places;
    nccl_sent(b, &places);
    coll_worker_add(&b->rank->base, &b->worker, &block_role, b->number, warps);
    for (uint32_t l = 0; l < b->ins; l++) fabric_watch(&b->worker, word_of(b, b->in[l].here, WORD_FILLED), 1, 0);
    for (uint32_t l = 0; l < b->outs; l++) fabric_watch(&b->worker, word_of(b, b->out[l].here, WORD_EMPTIED), 1, 0);
    for (uint32_t l = 0; l < b->outs; l++) {
        struct sender *s = &b->sender[l];
        if (!nccl_by_nic(b, b->out[l].peer)) continue;
        *s = (struct sender){ .block = b, .link = b->out[l], .last_steps = b->out[l].steps + places };
        coll_worker_add(&b->rank->base, &s->worker, &sender_role, b->number, 1);
        fabric_watch(&s->worker, word_of(b, s->link.here, WORD_EMPTIED), WORD_MADE - WORD_EMPTIED + 1, 0);
    }
}
