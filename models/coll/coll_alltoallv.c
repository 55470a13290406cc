/* coll_alltoallv.c - all-to-allv of a list of messages.
 *
 * Worker 0 sends the messages that go by RDMA: a put with a signal for each message, in the order of the list.  The
 * signal adds 1 to the target's counter.  Worker 0's messages in flight lie between two places of the list, done and
 * next.  Once it has as many in flight as it may, it waits until half of them have arrived.  The other workers store
 * the messages that stay in the node.  Each stores a part of a message and then adds 1 to the target's second counter.
 * There are two counters because atomics of NICs and of GPUs do not see each other.  Worker 0 is done when all its
 * messages have arrived and both counters say that all messages for this rank have come.
 *
 *     heap, with payload: | what the rank sends, in the order of its list | what it receives, by source | */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include "models/coll/coll_internal.h"

enum { WORD_RDMA = COLL_WORDS, WORD_STORED, WORDS_END };
enum { STREAM_POSTS = 16, STORE_WARPS = 16 }; /* the most messages that one step posts; warps of a storing worker */
enum { PART_BYTES_LEAST = 16 << 10 };

struct stream {
    struct fabric_worker worker;
    uint32_t next, end;       /* places in the list: the next message to send; the end */
    uint32_t done;            /* place in the list of the first message that may still be in flight */
    uint32_t posted, arrived; /* messages sent; how many of them are known to have arrived */
    uint32_t mark[2];         /* where in the list the last two groups of messages begin (stream_room()) */
    uint64_t offset;          /* where message `next` begins among the bytes that the rank sends */
};

struct storer {
    struct fabric_worker worker;
    struct alltoallv_rank *rank;
    uint32_t number; /* the worker's index among the storing workers */
    uint32_t next;   /* place in the list of the next message */
    uint64_t stored; /* bytes of the worker's part of that message that are stored */
    uint64_t offset; /* where message `next` begins among the bytes that the rank sends */
};

struct alltoallv_rank {
    struct coll_rank base;
    const struct edges *edges;
    struct stream stream;
    struct storer *storer; /* [num_sms] */
    uint64_t expected[2];  /* in a launch: how many messages come by RDMA; how many parts of messages come within the
                            * node */
    uint64_t bytes[2];     /* bytes that the rank sends by RDMA; bytes that it sends within the node */
};

static struct alltoallv_rank *of(const struct coll_rank *r)
{
    return fabric_container_of(r, struct alltoallv_rank, base);
}

static bool is_rdma(const struct fabric *f, uint16_t peer) { return fabric_path(f, peer) == FABRIC_RDMA; }

/* Where a target's messages begin in its heap. */
static uint64_t received_offset(const struct edges *e, uint16_t target) { return coll_align(e->sent_bytes[target]); }

/* ---- by RDMA ---- */

static int stream_post(struct stream *s, const struct edges *e)
{
    const struct fabric *f = s->worker.fabric;
    const uint16_t target = e->target[s->next];
    const uint64_t to = received_offset(e, target) + e->target_offset[s->next];
    const struct fabric_write write = coll_write(f, s->offset, target, to, e->size_bytes[s->next], SITE_NONE);
    const struct fabric_signal signal = { .value = 1, .word = WORD_RDMA, .peer = target, .add = true };
    return fabric_put(&s->worker, &write, &signal);
}

/* Whether all messages before place `end` of the list have arrived.  Checks the last message first.  It usually arrives
 * last, so if it has not come, the others need no check. */
static bool stream_arrived(struct stream *s, const struct edges *e, uint32_t end)
{
    const struct fabric *f = s->worker.fabric;
    const uint16_t last = end > s->done ? e->target[end - 1] : f->rank;
    if (is_rdma(f, last) && fabric_flush(&s->worker, last, 0)) return false;
    for (; s->done < end; s->done++) {
        if (!is_rdma(f, e->target[s->done])) continue;
        const int rc = fabric_flush(&s->worker, e->target[s->done], 0);
        if (rc == -EAGAIN) return false;
        assert(rc == 0);
        s->arrived++;
    }
    return true;
}

/* Whether one more message may be in flight; `most` is the limit.  Messages go in groups of half the limit.  A group
 * that would pass the limit waits until the last group but one has arrived.  With limit 1 it waits for the last one. */
static bool stream_room(struct stream *s, const struct edges *e, uint32_t most)
{
    const uint32_t half = most > 1 ? most / 2 : 1, number = s->posted / half;
    if (s->posted % half) return true;
    const bool full = s->posted - s->arrived + half > most;
    if (full && !stream_arrived(s, e, most > 1 ? s->mark[(number + 1) % 2] : s->next)) return false;
    s->mark[number % 2] = s->next;
    return true;
}

static enum worker_step stream_step(struct fabric_worker *w)
{
    struct alltoallv_rank *r = fabric_container_of(w, struct alltoallv_rank, stream.worker);
    struct stream *s = &r->stream;
    const struct fabric *f = w->fabric;
    const struct edges *e = r->edges;
    assert(s->arrived <= s->posted && s->done <= s->next && s->next <= s->end);
    for (uint32_t posts = 0; s->next < s->end; s->next++) {
        if (is_rdma(f, e->target[s->next])) {
            if (!stream_room(s, e, r->base.options->in_flight)) return WORKER_WAIT;
            if (posts++ == STREAM_POSTS) return WORKER_MORE;
            const int rc = stream_post(s, e);
            if (rc == -EAGAIN) return WORKER_WAIT;
            assert(rc == 0);
            s->posted++;
            assert(s->posted - s->arrived <= r->base.options->in_flight);
        }
        s->offset += e->size_bytes[s->next];
    }
    if (!stream_arrived(s, e, s->end)) return WORKER_WAIT;
    for (uint32_t kind = 0; kind < 2; kind++)
        if (fabric_load(f, WORD_RDMA + kind) < r->base.turn * r->expected[kind]) return WORKER_WAIT;
    return WORKER_DONE;
}

/* The first message of the list that goes by RDMA and may still be in flight. */
static uint32_t stream_first_away(const struct stream *s, const struct edges *e)
{
    uint32_t first = s->done;
    assert(first < s->end);
    while (first + 1 < s->end && !is_rdma(s->worker.fabric, e->target[first])) first++;
    return first;
}

static void stream_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct alltoallv_rank *r = fabric_container_of(w, const struct alltoallv_rank, stream.worker);
    const struct stream *s = &r->stream;
    if (s->next < s->end || s->arrived < s->posted)
        snprintf(text, text_size,
                 "alltoallv waits for rank %u: %u messages of %u to be sent, %u of those sent not there yet",
                 r->edges->target[stream_first_away(s, r->edges)], s->end - s->next,
                 s->end - r->edges->first[w->fabric->rank], s->posted - s->arrived);
    else
        snprintf(
            text, text_size,
            "alltoallv waits for messages of any rank: %llu by RDMA and %llu others have come, expected %llu and %llu",
            (unsigned long long)fabric_load(w->fabric, WORD_RDMA),
            (unsigned long long)fabric_load(w->fabric, WORD_STORED),
            (unsigned long long)(r->base.turn * r->expected[0]), (unsigned long long)(r->base.turn * r->expected[1]));
}

static const struct worker_role stream_role = { .step = stream_step, .describe = stream_describe };

/* ---- within the node: each part of a message is stored by one worker, which then adds 1 to a counter ---- */

static uint32_t parts_of(const struct coll_options *o, uint32_t size_bytes)
{
    const uint64_t parts = coll_min(size_bytes / PART_BYTES_LEAST, o->num_sms);
    return parts ? (uint32_t)parts : 1;
}

/* The part of message `next` that this worker stores; parts_of() if it stores none.  From message to message the parts
 * move on by one worker, so that all workers have some even if every message is small. */
static uint32_t storer_part(const struct storer *s, const struct edges *e)
{
    const struct coll_options *o = s->rank->base.options;
    const uint32_t part = (s->number + s->next) % o->num_sms, parts = parts_of(o, e->size_bytes[s->next]);
    return part < parts ? part : parts;
}

static int storer_message(struct storer *s, const struct edges *e)
{
    const uint16_t target = e->target[s->next];
    const uint64_t size_bytes = e->size_bytes[s->next];
    const uint32_t parts = parts_of(s->rank->base.options, (uint32_t)size_bytes), part = storer_part(s, e);
    if (part == parts) return 0;
    assert(part < parts && parts <= s->rank->base.options->num_sms);
    const uint64_t begin = size_bytes * part / parts, end = size_bytes * (part + 1) / parts;
    const uint64_t to = received_offset(e, target) + e->target_offset[s->next] + begin;
    const int rc = coll_store_some(&s->worker, s->offset + begin, target, to, end - begin, &s->stored);
    if (rc || s->stored < end - begin) return rc ? rc : -EINPROGRESS;
    const struct fabric_signal signal = { .value = 1, .word = WORD_STORED, .peer = target, .add = true };
    return fabric_signal(&s->worker, &signal);
}

/* Stores a chunk, or moves on to the next message of which this worker stores a part. */
static enum worker_step storer_step(struct fabric_worker *w)
{
    struct storer *s = fabric_container_of(w, struct storer, worker);
    const struct edges *e = s->rank->edges;
    for (; s->next < e->first[w->fabric->rank + 1]; s->next++) {
        const bool own = !is_rdma(w->fabric, e->target[s->next]) &&
                         storer_part(s, e) < parts_of(s->rank->base.options, e->size_bytes[s->next]);
        const int rc = own ? storer_message(s, e) : 0;
        if (rc == -EINPROGRESS) return WORKER_MORE;
        if (rc == -EAGAIN) return WORKER_WAIT;
        assert(rc == 0);
        s->offset += e->size_bytes[s->next];
        s->stored = 0;
        if (!own) continue;
        s->next++;
        return WORKER_MORE;
    }
    return WORKER_DONE;
}

static void storer_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct storer *s = fabric_container_of(w, const struct storer, worker);
    snprintf(text, text_size, "alltoallv stores to rank %u", s->rank->edges->target[s->next]);
}

static const struct worker_role storer_role = { .step = storer_step, .describe = storer_describe };

/* ---- a rank ---- */

static void alltoallv_needs(const struct coll_job *job, bool payload, struct fabric_needs *needs)
{
    const struct edges *e = job->edges;
    needs->word_count = WORDS_END;
    needs->queue_depth = 2 * job->options.in_flight;
    for (uint32_t r = 0; payload && r < e->ranks; r++) {
        const uint64_t bytes = coll_align(e->sent_bytes[r]) + e->received_bytes[r];
        if (bytes > needs->heap_bytes) needs->heap_bytes = bytes;
    }
}

static void alltoallv_init(struct coll_rank *base)
{
    struct alltoallv_rank *r = of(base);
    const struct fabric *f = base->fabric;
    const struct edges *e = base->job->edges;
    const uint32_t node = f->rank / f->ranks_per_node * f->ranks_per_node;
    r->edges = e;
    r->storer = kernel_keep(base, base->options->num_sms, sizeof r->storer[0]);
    for (uint32_t i = e->first[f->rank]; i < e->first[f->rank + 1]; i++)
        r->bytes[!is_rdma(f, e->target[i])] += e->size_bytes[i];
    r->expected[0] = e->received[f->rank];
    for (uint32_t s = node; s < e->ranks && s < node + f->ranks_per_node; s++)
        for (uint32_t i = e->first[s]; i < e->first[s + 1] && !is_rdma(f, (uint16_t)s); i++) {
            if (e->target[i] != f->rank) continue;
            assert(r->expected[0] > 0); /* e->received[] counts the messages of the node, too */
            r->expected[0]--;
            r->expected[1] += parts_of(base->options, e->size_bytes[i]);
        }
}

void coll_messages_fill(struct coll_rank *base)
{
    const struct fabric *f = base->fabric;
    const struct edges *e = base->job->edges;
    uint64_t offset = 0;
    for (uint32_t i = e->first[f->rank]; i < e->first[f->rank + 1]; i++) {
        coll_pattern_fill(f->heap + offset, e->size_bytes[i], f->rank, i, base->iteration);
        offset += e->size_bytes[i];
    }
}

static bool stores_any(const struct alltoallv_rank *r)
{
    const struct fabric *f = r->base.fabric;
    for (uint32_t i = r->edges->first[f->rank]; i < r->edges->first[f->rank + 1]; i++)
        if (!is_rdma(f, r->edges->target[i])) return true;
    return false;
}

static void alltoallv_launch(struct coll_rank *base)
{
    struct alltoallv_rank *r = of(base);
    const uint32_t first = r->edges->first[base->fabric->rank];
    r->stream = (struct stream){ .next = first, .end = r->edges->first[base->fabric->rank + 1], .done = first };
    coll_worker_add(base, &r->stream.worker, &stream_role, 0, 1);
    for (uint32_t kind = 0; kind < 2; kind++)
        fabric_watch(&r->stream.worker, WORD_RDMA + kind, 1, base->turn * r->expected[kind]);
    for (uint32_t i = 0; stores_any(r) && i < base->options->num_sms; i++) {
        r->storer[i] = (struct storer){ .rank = r, .number = i, .next = first };
        coll_worker_add(base, &r->storer[i].worker, &storer_role, i, STORE_WARPS);
    }
}

static void alltoallv_traffic(const struct coll_rank *base, uint32_t phase, struct kernel_traffic *traffic)
{
    (void)phase;
    traffic->logical_rdma_bytes = of(base)->bytes[0];
    traffic->logical_nvl_bytes = of(base)->bytes[1];
}

uint32_t coll_messages_outputs(struct coll_rank *base, struct kernel_tensor *tensor, uint32_t max)
{
    const struct edges *e = base->job->edges;
    const uint16_t rank = base->fabric->rank;
    assert(max >= 1);
    tensor[0] =
        (struct kernel_tensor){ "received", base->fabric->heap + received_offset(e, rank), e->received_bytes[rank] };
    return 1;
}

uint32_t coll_messages_check(const struct coll_rank *base, char *text, size_t text_size)
{
    const struct edges *e = base->job->edges;
    const uint16_t rank = base->fabric->rank;
    const uint8_t *received = base->fabric->heap + received_offset(e, rank);
    uint32_t failed = 0;
    for (uint32_t s = 0; s < e->ranks; s++)
        for (uint32_t i = e->first[s]; i < e->first[s + 1]; i++) {
            uint64_t at = 0;
            if (e->target[i] != rank ||
                !coll_pattern_check(received + e->target_offset[i], e->size_bytes[i], s, i, base->iteration, &at))
                continue;
            if (!failed++)
                snprintf(text, text_size, "received: message %u of rank %u: expected its bytes, others from %llu on",
                         i - e->first[s], s, (unsigned long long)at);
        }
    return failed;
}

const struct coll_kernel_ops coll_alltoallv = {
    .phase = (const char *const[]){ "alltoallv", NULL },
    .overlap = (const char *const[]){ "alltoallv_overlap" },
    .rank_bytes = sizeof(struct alltoallv_rank),
    .needs = alltoallv_needs,
    .init = alltoallv_init,
    .fill = coll_messages_fill,
    .launch = alltoallv_launch,
    .traffic = alltoallv_traffic,
    .outputs = coll_messages_outputs,
    .check = coll_messages_check,
};
