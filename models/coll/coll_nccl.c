/* coll_nccl.c - NCCL's rings: all-gather, reduce-scatter, all-reduce.
 *
 * A channel is a block of warps on an SM, with its part of the bytes and a ring of its own.  Chunk after chunk it runs
 * a list of steps ("primitives"), each of which takes what the predecessor has sent, adds the own bytes to it, stores
 * the result, sends it to the successor, or some of these at once (src/device/all_gather.h, reduce_scatter.h,
 * all_reduce.h).  Between two ranks lies a buffer of 8 places in the receiver's memory.  Two words a channel go with
 * it: how many places the predecessor has filled, and how many the successor has emptied.
 *
 *     heap, with payload: | own bytes | result | places by channel | places to send from, where a NIC fetches them |
 *
 * all-gather: the own block lies among those of the result.  Protocols differ in the loop that moves bytes (the sheet
 * nccl), in what the link carries, and in how the receiver learns that bytes have come (src/device/prims_*.h): LL and
 * LL128 have flags among them; Simple has a release, made by a warp that moves nothing.
 *
 * Within a node channel c's ring begins with place c, so that rings leave it by different NICs.  Bytes are added one by
 * one, without carries: what comes out does not hang on the order, so worlds can be compared. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include "models/coll/coll_internal.h"
#include "models/coll/nccl_plan.h"

enum { PIECE_BYTES = 256 << 10 }; /* that a step moves at most */
enum { SLICE_BYTES_LEAST = 32 << 10, PACK_BYTES = 16 };
enum { WORD_FILLED, WORD_EMPTIED, WORDS_A_CHANNEL };
enum { GIVEN_TWO = 1, GIVEN_KEPT = 2, GIVEN_CAME = 4, GIVENS = 8 };

struct primitive {
    bool receive, send, own, keep; /* own: the rank's bytes are read; keep: the result is stored */
    uint64_t from, to, size_bytes; /* heap offsets of the own bytes and of the result */
};

struct channel {
    struct fabric_worker worker;
    struct nccl_rank *rank;
    uint32_t number, primitive, slice;
    bool called;            /* the protocol's function */
    bool announced, told;   /* of the slice: its message's size is sent; the successor knows of it */
    uint64_t begin, sliced; /* of the part: of the chunk or round of chunks; of the primitive: slices that are done */
    uint64_t moved;         /* of the slice */
    uint64_t piece;         /* bytes that the operation under way moves */
    struct primitive now;
    uint64_t sent, received; /* places, in all launches */
};

struct nccl_rank {
    struct coll_rank base;
    struct nccl_plan plan;
    struct channel *channel;
    struct fabric_given given[GIVENS];
    uint64_t place_bytes;
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

/* As much of a place as the plan's parts can fill. */
static uint64_t place_bytes(const struct nccl_plan *p)
{
    const uint64_t hi = nccl_part_bytes(p, p->channels - 1), part = p->lo_bytes > hi ? p->lo_bytes : hi;
    return coll_align(coll_min(p->step_bytes, (part + slice_steps(p) - 1) / slice_steps(p)));
}

static uint64_t place_offset(const struct channel *c, uint64_t step, bool staged)
{
    const struct nccl_rank *r = c->rank;
    const uint64_t row = c->number + (staged ? r->plan.channels : 0);
    return places_offset(r->base.options) + (row * NCCL_STEPS + step % NCCL_STEPS) * r->place_bytes;
}

/* ---- rings ---- */

/* The rank that comes so many after this one in the channel's ring. */
static uint16_t ring_after(const struct channel *c, uint32_t places)
{
    const struct nccl_rank *r = c->rank;
    const uint32_t rank = r->base.fabric->rank, shift = c->number % r->peers;
    const uint32_t at = rank / r->peers * r->peers + (rank % r->peers + r->peers - shift) % r->peers;
    const uint32_t then = (at + places) % (r->nodes * r->peers);
    return (uint16_t)(then / r->peers * r->peers + (then % r->peers + shift) % r->peers);
}

static uint16_t ring_next(const struct channel *c) { return ring_after(c, 1); }
static uint16_t ring_previous(const struct channel *c) { return ring_after(c, c->rank->base.fabric->rank_count - 1u); }

static bool by_nic(const struct channel *c, uint16_t peer)
{
    return fabric_path(c->rank->base.fabric, peer) == FABRIC_RDMA;
}

static uint32_t primitives_of(const struct coll_options *o)
{
    return o->kernel == COLL_ALLREDUCE ? 2 * o->ranks - 1 : o->ranks;
}

/* Bytes of the part that a round of primitives deals with, from c->begin on: a chunk, or one for each rank. */
static uint64_t round_bytes(const struct channel *c)
{
    const struct nccl_plan *p = &c->rank->plan;
    const uint64_t chunk = p->chunk_steps * p->step_bytes, left = nccl_part_bytes(p, c->number) - c->begin;
    const struct coll_options *o = c->rank->base.options;
    return coll_min(left, o->kernel == COLL_ALLREDUCE ? chunk * o->ranks : chunk);
}

/* Of an all-reduce's round, the chunk of the rank that comes so many after this one. */
static uint64_t chunk_begin(const struct channel *c, uint32_t after, uint64_t *size_bytes)
{
    const struct nccl_plan *p = &c->rank->plan;
    const uint32_t ranks = c->rank->base.options->ranks;
    const uint64_t round = round_bytes(c), whole = p->chunk_steps * p->step_bytes;
    const uint64_t even = ((round + ranks - 1) / ranks + PACK_BYTES - 1) / PACK_BYTES * PACK_BYTES;
    const uint64_t chunk = round < whole * ranks ? even : whole;
    const uint64_t begin = coll_min(ring_after(c, after) * chunk, round);
    *size_bytes = coll_min(chunk, round - begin);
    return nccl_part_begin(p, c->number) + c->begin + begin;
}

/* Primitive i: first the own bytes go out, then what has come goes on, last it stays.  An all-reduce does so twice,
 * with sums and then with what is summed. */
static struct primitive primitive_of(const struct channel *c, uint32_t i)
{
    const struct coll_options *o = c->rank->base.options;
    const uint32_t n = o->ranks, last = primitives_of(o) - 1;
    const bool gather = o->kernel == COLL_ALLGATHER, scatter = o->kernel == COLL_REDUCESCATTER;
    const bool summed = !gather && i < n;
    struct primitive p = { .receive = i > 0, .send = i < last };
    p.own = summed || i == 0;
    p.keep = gather ? i > 0 : i >= n - 1;
    uint64_t at = nccl_part_begin(&c->rank->plan, c->number) + c->begin;
    p.size_bytes = round_bytes(c);
    if (gather) {
        p.from = p.to = coll_align(o->size_bytes) * ring_after(c, n - i % n) + at;
        return p;
    }
    if (scatter) {
        p.from = coll_align(o->size_bytes) * ring_after(c, 2 * n - 1 - i) + at;
        p.to = result_offset(o) + at;
        return p;
    }
    at = chunk_begin(c, (i < n ? 2 * n - 1 - i : 3 * n - 1 - i) % n, &p.size_bytes);
    p.from = at;
    p.to = result_offset(o) + at;
    return p;
}

/* ---- bytes ---- */

static uint64_t slice_bytes(const struct channel *c)
{
    const struct nccl_plan *p = &c->rank->plan;
    const uint64_t left = c->now.size_bytes - c->sliced, parts = (uint64_t)PACK_BYTES * p->slices;
    const uint64_t even = (c->now.size_bytes + parts - 1) / parts * PACK_BYTES;
    if (p->slices == 1) return left;
    return coll_min(left, even > SLICE_BYTES_LEAST ? even : SLICE_BYTES_LEAST);
}

/* What the operation under way makes: into the result, and to target if there is one. */
static void piece_make(const struct channel *c, uint8_t *target)
{
    uint8_t *heap = c->worker.fabric->heap;
    const uint64_t at = c->sliced + c->moved;
    const uint8_t *own = heap + c->now.from + at, *came = heap + place_offset(c, c->received, false) + c->moved;
    uint8_t *kept = heap + c->now.to + at;
    for (uint64_t i = 0; i < c->piece; i++) {
        const uint8_t sum = (uint8_t)((c->now.own ? own[i] : 0) + (c->now.receive ? came[i] : 0));
        if (target) target[i] = sum;
        if (c->now.keep) kept[i] = sum;
    }
}

static void piece_fill(const void *context, uint8_t *target) { piece_make(context, target); }

static void piece_run(void *context, uint64_t argument)
{
    struct channel *c = context;
    uint8_t *staged = c->worker.fabric->heap + place_offset(c, c->sent, true) + c->moved;
    (void)argument;
    piece_make(c, c->now.send ? staged : NULL);
}

static uint8_t site_of(const struct nccl_plan *p)
{
    return p->protocol == COLL_LL ? SITE_NCCL_LL : p->protocol == COLL_LL128 ? SITE_NCCL_LL128 : SITE_NCCL_SIMPLE;
}

/* What a warp takes at once. */
static uint64_t warp_bytes(const struct nccl_plan *p)
{
    return p->protocol == COLL_LL ? 256 : p->protocol == COLL_LL128 ? 1920 : 512;
}

static struct fabric_given *given_of(struct channel *c)
{
    const bool two = c->now.own && c->now.receive, kept = c->now.keep && c->now.send;
    return &c->rank->given[(two ? GIVEN_TWO : 0) | (kept ? GIVEN_KEPT : 0) | (c->now.own ? 0 : GIVEN_CAME)];
}

/* Moves the next piece: to the successor's place, or within the own memory. */
static int piece_move(struct channel *c)
{
    const struct nccl_plan *p = &c->rank->plan;
    const bool payload = c->worker.fabric->payload, stores = c->now.send && !by_nic(c, ring_next(c));
    c->piece = coll_min(slice_bytes(c) - c->moved, PIECE_BYTES);
    const uint8_t rows = (uint8_t)coll_min(p->warps, (c->piece + warp_bytes(p) - 1) / warp_bytes(p));
    if (!stores) {
        const struct fabric_work work = { .kind = FABRIC_WORK_COPY,
                                          .rows = rows,
                                          .site = site_of(p),
                                          .given = given_of(c),
                                          .read_bytes = c->piece,
                                          .write_bytes = c->piece,
                                          .run = piece_run,
                                          .context = c };
        fabric_work(&c->worker, &work);
    } else {
        const struct fabric_write write = { .target_offset = payload ? place_offset(c, c->sent, false) + c->moved : 0,
                                            .charge_bytes = c->piece,
                                            .peer = ring_next(c),
                                            .rows = rows,
                                            .fill = payload ? piece_fill : NULL,
                                            .context = c,
                                            .fill_bytes = (uint32_t)c->piece,
                                            .site = site_of(p),
                                            .given = given_of(c) };
        const int rc = fabric_store(&c->worker, &write);
        if (rc) return rc;
    }
    c->moved += c->piece;
    return 0;
}

/* ---- words ---- */

static uint32_t word_of(const struct channel *c, uint32_t what)
{
    return COLL_WORDS + c->number * WORDS_A_CHANNEL + what;
}

static uint16_t queue_of(const struct channel *c) { return (uint16_t)(c->number % c->worker.fabric->queue_count); }

/* NCCL's sockets send each message's size in front of it. */
static int size_send(struct channel *c, uint16_t peer)
{
    const struct fabric_write write = { .charge_bytes = sizeof(uint32_t), .peer = peer, .queue = queue_of(c) };
    const int rc = fabric_put(&c->worker, &write);
    c->announced = rc == 0;
    return rc;
}

static int filled_tell(struct channel *c)
{
    const struct nccl_plan *p = &c->rank->plan;
    const struct fabric *f = c->worker.fabric;
    const uint16_t next = ring_next(c);
    const bool flags = p->protocol != COLL_SIMPLE;
    const struct fabric_signal signal = { .value = c->sent + slice_steps(p),
                                          .word = word_of(c, WORD_FILLED),
                                          .peer = next,
                                          .queue = queue_of(c),
                                          .apart = !flags,
                                          .polled = flags };
    if (!by_nic(c, next)) return fabric_signal(&c->worker, &signal);
    const int size_rc = c->rank->base.options->sockets && !c->announced ? size_send(c, next) : 0;
    if (size_rc) return size_rc;
    const uint64_t from = f->payload ? place_offset(c, c->sent, true) : 0;
    const uint8_t library = c->rank->base.options->sockets ? FABRIC_LIBRARY : 0;
    const uint8_t ll = p->protocol == COLL_LL ? FABRIC_FLAGGED : 0;
    const struct fabric_write write = { .target_offset = f->payload ? place_offset(c, c->sent, false) : 0,
                                        .charge_bytes = c->moved,
                                        .peer = next,
                                        .queue = queue_of(c),
                                        .flags = (uint8_t)(FABRIC_MESSAGE | (flags ? FABRIC_POLLED : 0) | ll | library),
                                        .sge_count = f->payload,
                                        .sge = { { f->heap + from, (uint32_t)c->moved } } };
    const int rc = fabric_put_signal(&c->worker, &write, &signal);
    if (!rc) c->announced = false;
    return rc;
}

/* Nothing is released with it: the receiver has only read. */
static int emptied_tell(struct channel *c)
{
    const struct fabric_signal signal = { .value = c->received + slice_steps(&c->rank->plan),
                                          .word = word_of(c, WORD_EMPTIED),
                                          .peer = ring_previous(c),
                                          .queue = queue_of(c),
                                          .polled = true };
    return fabric_signal(&c->worker, &signal);
}

static bool may_begin(const struct channel *c)
{
    const struct fabric *f = c->worker.fabric;
    const uint64_t steps = slice_steps(&c->rank->plan);
    if (c->now.receive && fabric_load(f, word_of(c, WORD_FILLED)) < c->received + steps) return false;
    return !c->now.send || fabric_load(f, word_of(c, WORD_EMPTIED)) + NCCL_STEPS >= c->sent + steps;
}

/* ---- a channel ---- */

/* Behind a slice: the next one, the next primitive, the next round. */
static void slice_next(struct channel *c)
{
    const struct nccl_plan *p = &c->rank->plan;
    const uint32_t steps = slice_steps(p);
    c->sliced += c->moved;
    c->moved = 0;
    c->told = false;
    if (c->now.send) c->sent += steps;
    if (c->now.receive) c->received += steps;
    if (++c->slice < p->slices) return;
    c->slice = 0;
    c->sliced = 0;
    if (++c->primitive == primitives_of(c->rank->base.options)) {
        c->begin += round_bytes(c);
        c->primitive = 0;
    }
    if (c->begin < nccl_part_bytes(p, c->number)) c->now = primitive_of(c, c->primitive);
}

/* Whether all that NICs have is there. */
static bool all_arrived(struct channel *c)
{
    const uint16_t peer[] = { ring_next(c), ring_previous(c) };
    for (uint32_t i = 0; i < 2; i++) {
        if (!by_nic(c, peer[i])) continue;
        const int rc = fabric_flush(&c->worker, peer[i], queue_of(c));
        if (rc == -EAGAIN) return false;
        assert(rc == 0);
    }
    return true;
}

/* The kernel is made for LL; other protocols are functions that it calls (src/device/common.h). */
static bool function_call(struct channel *c)
{
    if (c->called || c->rank->plan.protocol == COLL_LL) return false;
    const struct fabric_work work = { .kind = FABRIC_WORK_SCAN, .site = SITE_NCCL_FUNCTION, .rows = 1 };
    fabric_work(&c->worker, &work);
    return c->called = true;
}

static int slice_tell(struct channel *c)
{
    const int rc = c->now.send && !c->told ? filled_tell(c) : 0;
    if (rc) return rc;
    c->told = true;
    return c->now.receive ? emptied_tell(c) : 0;
}

static enum worker_step channel_step(struct fabric_worker *worker)
{
    struct channel *c = fabric_container_of(worker, struct channel, worker);
    if (c->begin == nccl_part_bytes(&c->rank->plan, c->number)) return all_arrived(c) ? WORKER_DONE : WORKER_WAIT;
    if (function_call(c)) return WORKER_MORE;
    if (!c->moved && !may_begin(c)) return WORKER_WAIT;
    const uint64_t size = slice_bytes(c);
    if (c->moved < size) {
        const int rc = piece_move(c);
        assert(rc == 0 || rc == -EAGAIN);
        if (rc) return WORKER_WAIT;
        if (c->moved < size) return WORKER_MORE;
    }
    const int rc = slice_tell(c);
    assert(rc == 0 || rc == -EAGAIN);
    if (rc) return WORKER_WAIT;
    slice_next(c);
    return WORKER_MORE;
}

static void channel_describe(const struct fabric_worker *worker, char *text, size_t text_size)
{
    const struct channel *c = fabric_container_of(worker, const struct channel, worker);
    const uint64_t filled = fabric_load(worker->fabric, word_of(c, WORD_FILLED));
    const bool hungry = c->now.receive && filled < c->received + slice_steps(&c->rank->plan);
    snprintf(text, text_size, "%s, channel %u: primitive %u of %u waits for rank %u", c->rank->base.ops->phase[0],
             c->number, c->primitive, primitives_of(c->rank->base.options), hungry ? ring_previous(c) : ring_next(c));
}

static const struct worker_role channel_role = { .step = channel_step, .describe = channel_describe };

/* ---- a rank ---- */

static const char *nccl_refuse(const struct coll_options *o, const struct edges *edges, char *text, size_t text_size)
{
    (void)edges;
    if (!o->size_bytes) KERNEL_REFUSE("size: expected at least 1 byte, found 0");
    return NULL;
}

static void nccl_needs(const struct coll_job *job, bool payload, struct fabric_needs *needs)
{
    const struct coll_options *o = &job->options;
    struct nccl_plan plan;
    nccl_plan_make(o, &plan);
    needs->word_count = COLL_WORDS + plan.channels * WORDS_A_CHANNEL;
    needs->queue_depth = 2 * o->in_flight + 4;
    needs->queue_count = (uint16_t)coll_min(plan.channels, 8);
    needs->heap_bytes = payload ? places_offset(o) + 2 * (uint64_t)plan.channels * NCCL_STEPS * place_bytes(&plan) : 0;
}

/* With NVLink disabled every rank is a node of its own. */
static void nccl_init(struct coll_rank *base)
{
    struct nccl_rank *r = of(base);
    const struct fabric *f = base->fabric;
    nccl_plan_make(base->options, &r->plan);
    r->peers = f->nvlink_disabled ? 1 : (uint32_t)coll_min(f->ranks_per_node, f->rank_count);
    r->nodes = f->rank_count / r->peers;
    r->place_bytes = place_bytes(&r->plan);
    r->channel = kernel_alloc(r->plan.channels, sizeof r->channel[0]);
    for (uint32_t i = 0; i < GIVENS; i++) {
        r->given[i].size[0] = i & GIVEN_TWO ? 2 : 1;
        r->given[i].size[1] = i & GIVEN_KEPT ? 1 : 0;
        r->given[i].size[2] = i & GIVEN_CAME ? 1 : 0;
    }
}

static void nccl_clear(struct coll_rank *base) { free(of(base)->channel); }

static void nccl_fill(struct coll_rank *base)
{
    const struct coll_options *o = base->options;
    const uint64_t block = coll_align(o->size_bytes);
    for (uint32_t i = 0; i < own_bytes(o) / block; i++)
        coll_pattern_fill(base->fabric->heap + i * block, o->size_bytes, base->fabric->rank, i, base->iteration);
}

static void nccl_launch(struct coll_rank *base, uint32_t phase)
{
    struct nccl_rank *r = of(base);
    (void)phase;
    for (uint32_t i = 0; i < r->plan.channels; i++) {
        struct channel *c = &r->channel[i];
        *c = (struct channel){ .rank = r, .number = i, .sent = c->sent, .received = c->received };
        c->now = primitive_of(c, 0);
        coll_worker_add(base, &c->worker, &channel_role, i, r->plan.warps);
        fabric_watch(&c->worker, word_of(c, 0), WORDS_A_CHANNEL);
    }
}

static void nccl_traffic(const struct coll_rank *base, uint32_t phase, struct kernel_traffic *traffic)
{
    const struct nccl_rank *r = of(base);
    const uint64_t ranks = base->options->ranks;
    (void)phase;
    for (uint32_t i = 0; i < r->plan.channels && ranks > 1; i++) {
        const struct channel c = { .rank = of(base), .number = i };
        const uint64_t part = nccl_part_bytes(&r->plan, i);
        const uint64_t bytes =
            base->options->kernel == COLL_ALLREDUCE ? 2 * (ranks - 1) * part / ranks : (ranks - 1) * part;
        if (by_nic(&c, ring_next(&c))) traffic->logical_rdma_bytes += bytes;
        else traffic->logical_nvl_bytes += bytes;
    }
}

static uint32_t nccl_outputs(struct coll_rank *base, struct kernel_tensor *tensor, uint32_t max)
{
    const struct coll_options *o = base->options;
    assert(max >= 1);
    tensor[0] = (struct kernel_tensor){ "sum", base->fabric->heap + result_offset(o), o->size_bytes };
    return 1;
}

/* Sums of what all ranks had for this one. */
static uint32_t nccl_check(const struct coll_rank *base, char *text, size_t text_size)
{
    const struct coll_options *o = base->options;
    const uint32_t place = o->kernel == COLL_REDUCESCATTER ? base->fabric->rank : 0;
    const uint64_t at = coll_sum_check(base, base->fabric->heap + result_offset(o), place);
    if (at == o->size_bytes) return 0;
    snprintf(text, text_size, "sum: expected that of all ranks, found other bytes from %llu on",
             (unsigned long long)at);
    return 1;
}

#define NCCL_OPS(name, out, right, filled) \
    .phase = (const char *const[]){ name, NULL }, .overlap = (const char *const[]){ name "_overlap" }, \
    .rank_bytes = sizeof(struct nccl_rank), .refuse = nccl_refuse, .needs = nccl_needs, .init = nccl_init, \
    .clear = nccl_clear, .fill = filled, .launch = nccl_launch, .traffic = nccl_traffic, .outputs = out, \
    .check = right

const struct coll_kernel_ops coll_ring_gather = { NCCL_OPS("allgather", coll_gather_outputs, coll_gather_check,
                                                           coll_gather_fill) };
const struct coll_kernel_ops coll_reducescatter = { NCCL_OPS("reducescatter", nccl_outputs, nccl_check, nccl_fill) };
const struct coll_kernel_ops coll_ring_reduce = { NCCL_OPS("allreduce", nccl_outputs, nccl_check, nccl_fill) };
