/* coll_p2p.c - point to point: ranks i and i + ranks / 2 are a pair.  All pairs work at the same time.
 *
 *     put          each put is awaited before the next one is posted
 *     put_signal   a put with a signal goes to the peer, and the peer answers with one; a round has two messages
 *     get          each get is awaited before the next one is posted
 *     put_stream   puts, a window of them in flight; if they are messages of MPI (osu_bw), the peer answers each window
 *     get_stream   gets, a window of them in flight
 *
 * Within a node, stores take the place of puts, and loads take the place of gets.  The second rank of a pair takes part
 * only in put_signal and in answered windows: NICs and memory serve the other phases.
 *
 * If the host issues messages, the phases are put, with one message in each launch, and a barrier (put_sync).  Within
 * the node a copy engine moves the whole message, or each block of NCCL's kernel moves a part of it.
 *
 *     heap, with payload: | own bytes | what a put left | what a get brought | what a put with a signal left | */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include "models/coll/coll_internal.h"

enum { PHASE_PUT, PHASE_PUT_SIGNAL, PHASE_GET, PHASE_PUT_STREAM, PHASE_GET_STREAM };
enum { BLOCK_OWN, BLOCK_PUT, BLOCK_GET, BLOCK_SIGNALLED, BLOCKS };
enum { WORD_ROUND = COLL_WORDS, WORD_WINDOW, WORDS_END };
enum { P2P_WARPS = 32, P2P_POSTS = 16, P2P_PLACE = 0 };

/* NCCL: a thread block, which stores its part of a message. */
struct p2p_part {
    struct fabric_worker worker;
    struct p2p_rank *rank;
    uint64_t stored;
};

struct p2p_rank {
    struct coll_rank base;
    struct fabric_worker worker;
    struct p2p_part *part; /* [num_sms] */
    uint32_t begun, done;  /* how many messages have begun; how many are done.  put_signal: how many are sent; how many
                            * are received */
    uint64_t stored;       /* how many bytes of the current message are stored */
    bool first;            /* this rank is the first one of its pair */
    uint16_t peer;
};

static struct p2p_rank *of(const struct coll_rank *r) { return fabric_container_of(r, struct p2p_rank, base); }

static uint64_t block_offset(const struct coll_options *o, uint32_t block) { return block * coll_align(o->size_bytes); }

static const char *p2p_refuse(const struct coll_options *o, const struct edges *edges, char *text, size_t text_size)
{
    (void)edges;
    if (o->ranks < 2 || o->ranks % 2) KERNEL_REFUSE("num-ranks: expected pairs for p2p, found %u", o->ranks);
    if (o->ranks > o->ranks_per_node && o->issue == COLL_BY_COPY)
        KERNEL_REFUSE("issue: expected host or nccl between nodes, found copy");
    return NULL;
}

static void p2p_needs(const struct coll_job *job, bool payload, struct fabric_needs *needs)
{
    needs->word_count = WORDS_END;
    needs->queue_depth = 2 * job->options.in_flight;
    needs->heap_bytes = payload ? block_offset(&job->options, BLOCKS) : 0;
}

static void p2p_init(struct coll_rank *base)
{
    struct p2p_rank *r = of(base);
    const uint32_t half = base->options->ranks / 2, rank = base->fabric->rank;
    r->first = rank < half;
    r->peer = (uint16_t)(r->first ? rank + half : rank - half);
    r->part = kernel_keep(base, base->options->num_sms, sizeof r->part[0]);
}

static void p2p_fill(struct coll_rank *base)
{
    coll_pattern_fill(base->fabric->heap, base->options->size_bytes, base->fabric->rank, P2P_PLACE, base->iteration);
}

static bool p2p_absent(const struct coll_options *o, uint32_t rank, uint32_t phase)
{
    return rank >= o->ranks / 2 && phase != PHASE_PUT_SIGNAL; /* the barrier put_sync has PHASE_PUT_SIGNAL's number, so
                                                               * every rank takes part in it */
}

/* Whether the peer answers each window of messages, as with MPI. */
static bool is_answered(const struct coll_options *o, uint32_t phase)
{
    return o->process && phase == PHASE_PUT_STREAM;
}

/* ---- one message ---- */

/* Puts a message into one of the peer's blocks.  Then sends the signal, unless it is NULL. */
static int message_put(struct p2p_rank *r, uint32_t block, const struct fabric_signal *signal)
{
    const struct coll_options *o = r->base.options;
    const struct fabric *f = r->base.fabric;
    const uint64_t to = block_offset(o, block);
    if (fabric_path(f, r->peer) == FABRIC_RDMA) {
        const enum site site = o->issue == COLL_BY_HOST ? SITE_HOST_PUT : SITE_NONE;
        const struct fabric_write write = coll_write(f, 0, r->peer, to, o->size_bytes, site);
        return fabric_put(&r->worker, &write, signal);
    }
    const int rc = coll_store_some(&r->worker, 0, r->peer, to, o->size_bytes, &r->stored);
    if (rc || r->stored < o->size_bytes) return rc ? rc : -EINPROGRESS;
    const int signalled = signal ? fabric_signal(&r->worker, signal) : 0;
    if (signalled == 0) r->stored = 0;
    return signalled;
}

static int message_get(struct p2p_rank *r)
{
    const struct coll_options *o = r->base.options;
    const struct fabric *f = r->base.fabric;
    const struct fabric_read read = { .target = f->heap + (f->payload ? block_offset(o, BLOCK_GET) : 0),
                                      .charge_bytes = o->size_bytes,
                                      .peer = r->peer,
                                      .site = SITE_NVSHMEM_GET,
                                      .size_bytes = f->payload ? (uint32_t)o->size_bytes : 0 };
    return fabric_get(&r->worker, &read);
}

/* ---- a message that a call of the host issues, within the node ---- */

static enum worker_step copy_step(struct fabric_worker *w)
{
    struct p2p_rank *r = fabric_container_of(w, struct p2p_rank, worker);
    const struct coll_options *o = r->base.options;
    const struct fabric_write write =
        coll_write(w->fabric, 0, r->peer, block_offset(o, BLOCK_PUT), o->size_bytes, SITE_COPY_ENGINE);
    if (r->done) return WORKER_DONE;
    const int rc = fabric_store(w, &write);
    if (rc == 0) r->begun = r->done = 1;
    return coll_step_of(rc);
}

static enum worker_step part_step(struct fabric_worker *w)
{
    struct p2p_part *p = fabric_container_of(w, struct p2p_part, worker);
    const struct coll_options *o = p->rank->base.options;
    const uint64_t begin = o->size_bytes * w->index / o->num_sms, end = o->size_bytes * (w->index + 1) / o->num_sms;
    assert(w->index < o->num_sms && p->stored <= end - begin);
    if (p->stored == end - begin) return WORKER_DONE;
    const uint64_t to = block_offset(o, BLOCK_PUT) + begin;
    return coll_step_of(coll_store_some(w, begin, p->rank->peer, to, end - begin, &p->stored));
}

static void part_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct p2p_part *p = fabric_container_of(w, const struct p2p_part, worker);
    snprintf(text, text_size, "put, part %u to rank %u", w->index, p->rank->peer);
}

static const struct worker_role part_role = { .step = part_step, .describe = part_describe };

/* ---- workers ---- */

static enum worker_step round_step(struct p2p_rank *r)
{
    const uint32_t messages = r->base.options->messages;
    const uint64_t before = (uint64_t)(r->base.turn - 1) * messages;
    for (;;) {
        assert(r->begun <= messages && r->done <= messages);
        if (r->begun == messages && r->done == messages) break;
        const bool turn = r->first ? r->done == r->begun : r->done > r->begun;
        if (turn) {
            const struct fabric_signal signal = { .value = before + r->begun + 1, .word = WORD_ROUND, .peer = r->peer };
            const int rc = message_put(r, BLOCK_SIGNALLED, &signal);
            if (rc) return coll_step_of(rc);
            r->begun++;
        } else {
            if (fabric_load(r->base.fabric, WORD_ROUND) < before + r->done + 1) return WORKER_WAIT;
            r->done++;
        }
    }
    const int rc = fabric_flush(&r->worker, r->peer, 0);
    return rc ? coll_step_of(rc) : WORKER_DONE;
}

/* Puts the next message of a window.  The window's last message carries a signal, which tells the peer that the window
 * is complete. */
static int window_put(struct p2p_rank *r, uint32_t in_flight)
{
    const uint32_t messages = r->base.options->messages, next = r->begun + 1;
    if (next < messages && next - r->done < in_flight) return message_put(r, BLOCK_PUT, NULL);
    const uint64_t before = (uint64_t)(r->base.turn - 1) * messages;
    const struct fabric_signal signal = { .value = before + next, .word = WORD_WINDOW, .peer = r->peer };
    return message_put(r, BLOCK_PUT, &signal);
}

/* The peer's part in put_stream: waits for each window and answers it. */
static enum worker_step answer_step(struct fabric_worker *w)
{
    struct p2p_rank *r = fabric_container_of(w, struct p2p_rank, worker);
    const uint32_t messages = r->base.options->messages;
    const uint64_t before = (uint64_t)(r->base.turn - 1) * messages;
    while (r->done < messages) {
        const uint64_t come = fabric_load(r->base.fabric, WORD_WINDOW);
        if (come <= before + r->done) return WORKER_WAIT;
        const struct fabric_signal signal = { .value = come, .word = WORD_WINDOW, .peer = r->peer };
        const int rc = fabric_signal(w, &signal);
        if (rc) return coll_step_of(rc);
        r->done = r->begun = (uint32_t)(come - before);
    }
    return WORKER_DONE;
}

/* Posts messages, with at most in_flight of them in flight.  A flush ends only when the whole queue is complete.  So
 * messages go in bursts, and a burst begins when the one before it is complete. */
static enum worker_step stream_step(struct p2p_rank *r, bool get, uint32_t in_flight)
{
    const uint32_t messages = r->base.options->messages;
    const uint64_t before = (uint64_t)(r->base.turn - 1) * messages;
    for (uint32_t posts = 0; r->done < messages;) {
        const bool answered = is_answered(r->base.options, r->base.phase);
        if (r->begun == messages || r->begun - r->done == in_flight) {
            if (answered && fabric_load(r->base.fabric, WORD_WINDOW) < before + r->begun) return WORKER_WAIT;
            const int rc = fabric_flush(&r->worker, r->peer, 0);
            if (rc) return coll_step_of(rc);
            r->done = r->begun;
            continue;
        }
        if (posts++ == P2P_POSTS) return WORKER_MORE;
        const int rc = get ? message_get(r) : answered ? window_put(r, in_flight) : message_put(r, BLOCK_PUT, NULL);
        if (rc) return coll_step_of(rc);
        r->begun++;
    }
    return WORKER_DONE;
}

static enum worker_step p2p_step(struct fabric_worker *w)
{
    struct p2p_rank *r = fabric_container_of(w, struct p2p_rank, worker);
    const uint32_t in_flight = r->base.options->in_flight;
    switch (r->base.phase) {
    case PHASE_PUT: return stream_step(r, false, 1);
    case PHASE_PUT_SIGNAL: return round_step(r);
    case PHASE_GET: return stream_step(r, true, 1);
    case PHASE_PUT_STREAM: return stream_step(r, false, in_flight);
    default: return stream_step(r, true, in_flight);
    }
}

static const char *const phase_name[] = { "put", "put_signal", "get", "put_stream", "get_stream", NULL };
static const char *const overlap_name[] = { "put_overlap", "put_signal_overlap", "get_overlap", "put_stream_overlap",
                                            "get_stream_overlap" };

static void p2p_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct p2p_rank *r = fabric_container_of(w, const struct p2p_rank, worker);
    snprintf(text, text_size, "%s with rank %u: message %u begun, %u done, of %u", phase_name[r->base.phase], r->peer,
             r->begun, r->done, r->base.options->messages);
}

static const struct worker_role p2p_role = { .step = p2p_step, .describe = p2p_describe };

static const struct worker_role copy_role = { .step = copy_step, .describe = p2p_describe };

static const struct worker_role answer_role = { .step = answer_step, .describe = p2p_describe };

static void p2p_launch(struct coll_rank *base)
{
    struct p2p_rank *r = of(base);
    const uint32_t phase = base->phase;
    r->begun = r->done = 0;
    r->stored = 0;
    if (phase && base->options->issue != COLL_BY_KERNEL) {
        coll_sync_launch(base);
        return;
    }
    const bool absent = p2p_absent(base->options, base->fabric->rank, phase);
    if (absent && !is_answered(base->options, phase)) return;
    const enum coll_issue issue = base->options->issue;
    const bool near = fabric_path(base->fabric, r->peer) != FABRIC_RDMA;
    for (uint32_t i = 0; issue == COLL_BY_NCCL && near && i < base->options->num_sms; i++) {
        r->part[i] = (struct p2p_part){ .rank = r };
        coll_worker_add(base, &r->part[i].worker, &part_role, i, P2P_WARPS);
    }
    if (issue == COLL_BY_NCCL && near) return;
    const struct worker_role *role = issue == COLL_BY_COPY ? &copy_role : absent ? &answer_role : &p2p_role;
    coll_worker_add(base, &r->worker, role, 0, P2P_WARPS);
    if (phase == PHASE_PUT_SIGNAL) fabric_watch(&r->worker, WORD_ROUND, 1, 0);
    if (is_answered(base->options, phase)) fabric_watch(&r->worker, WORD_WINDOW, 1, 0);
}

static void p2p_traffic(const struct coll_rank *base, uint32_t phase, struct kernel_traffic *traffic)
{
    const struct coll_options *o = base->options;
    const uint64_t bytes = o->size_bytes * o->messages;
    if (p2p_absent(o, base->fabric->rank, phase) || (phase && o->issue != COLL_BY_KERNEL)) return;
    if (fabric_path(base->fabric, of(base)->peer) == FABRIC_RDMA) traffic->logical_rdma_bytes = bytes;
    else traffic->logical_nvl_bytes = bytes;
    traffic->messages = phase == PHASE_PUT_SIGNAL ? 2 * o->messages : o->messages;
    traffic->gets = phase == PHASE_GET || phase == PHASE_GET_STREAM;
}

/* ---- results ---- */

/* How many of the heap's blocks the phases use.  If a host issues the messages, there are only puts, so fewer. */
static uint32_t blocks_end(const struct coll_options *o) { return o->issue == COLL_BY_KERNEL ? BLOCKS : BLOCK_PUT + 1; }

static uint32_t p2p_outputs(struct coll_rank *base, struct kernel_tensor *tensor, uint32_t max)
{
    static const char *const name[BLOCKS] = {
        [BLOCK_PUT] = "put",
        [BLOCK_GET] = "got",
        [BLOCK_SIGNALLED] = "signalled",
    };
    uint32_t count = 0;
    assert(max >= BLOCKS);
    for (uint32_t block = BLOCK_PUT; block < blocks_end(base->options); block++)
        tensor[count++] = (struct kernel_tensor){ name[block], base->fabric->heap + block_offset(base->options, block),
                                                  base->options->size_bytes };
    return count;
}

static uint32_t p2p_check(const struct coll_rank *base, char *text, size_t text_size)
{
    static const char *const what[BLOCKS] = {
        [BLOCK_PUT] = "put",
        [BLOCK_GET] = "get",
        [BLOCK_SIGNALLED] = "put_signal",
    };
    const struct p2p_rank *r = of(base);
    uint32_t failed = 0;
    for (uint32_t block = BLOCK_PUT; block < blocks_end(base->options); block++) {
        const bool mine = block == BLOCK_SIGNALLED || r->first == (block == BLOCK_GET);
        uint64_t at = 0;
        if (!mine || !coll_pattern_check(base->fabric->heap + block_offset(base->options, block),
                                         base->options->size_bytes, r->peer, P2P_PLACE, base->iteration, &at))
            continue;
        if (!failed++)
            snprintf(text, text_size, "%s: expected the bytes of rank %u, found others from byte %llu on", what[block],
                     r->peer, (unsigned long long)at);
    }
    return failed;
}

#define P2P_OPS(...) \
    { \
        __VA_ARGS__, .rank_bytes = sizeof(struct p2p_rank), .refuse = p2p_refuse, .needs = p2p_needs, \
                     .init = p2p_init, .fill = p2p_fill, .launch = p2p_launch, .traffic = p2p_traffic, \
                     .outputs = p2p_outputs, .check = p2p_check, .absent = p2p_absent \
    }

const struct coll_kernel_ops coll_p2p = P2P_OPS(.phase = phase_name, .overlap = overlap_name);
const struct coll_kernel_ops coll_p2p_issued = P2P_OPS(.phase = (const char *const[]){ "put", "put_sync", NULL });
