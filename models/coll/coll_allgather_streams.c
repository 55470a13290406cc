/* coll_allgather_streams.c - the all-gather by a ring within a node, without a kernel.  A host drives each rank by two
 * streams.  Copy engines make the copies.  Streams write and await words.
 *
 *     first stream                          second stream
 *     write "taken" at the predecessor
 *     await the successor's "taken"
 *     write "begin"                    ---> await "begin"
 *     copy a block to the successor         copy the block to the output
 *     write "come" at the successor         write "end"
 *     await the predecessor's "come"
 *     await "end"                      <---
 *
 * There are (ranks - 1) such steps.  Blocks lie in the heap where the output needs them.  So the copy to the output
 * moves nothing, but its time is charged. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include "models/coll/coll_internal.h"

enum { WORD_TAKEN = COLL_WORDS, WORD_COME, WORD_BEGIN, WORD_END, WORDS_END };
enum { STREAM_WARPS = 1 };

enum first_part { WRITE_TAKEN, AWAIT_TAKEN, WRITE_BEGIN, COPY, WRITE_COME, AWAIT_COME, AWAIT_END, FIRST_PARTS };
enum second_part { AWAIT_BEGIN, COPY_OUT, WRITE_END, SECOND_PARTS };

struct stream {
    struct fabric_worker worker;
    uint32_t done; /* how many parts are done, counted over all steps */
    bool waited;   /* the word that the stream awaits was not there at once */
};

struct streams_rank {
    struct coll_rank base;
    struct stream first, second;
};

static struct streams_rank *of(const struct coll_rank *r) { return fabric_container_of(r, struct streams_rank, base); }

static const char *streams_refuse(const struct coll_options *o, const struct edges *edges, char *text, size_t text_size)
{
    (void)edges;
    if (o->algorithm == COLL_RING && o->ranks <= o->ranks_per_node) return NULL;
    KERNEL_REFUSE("issue: copy: expected algorithm ring within a node, found another");
}

static void streams_needs(const struct coll_job *job, bool payload, struct fabric_needs *needs)
{
    needs->word_count = WORDS_END;
    needs->queue_depth = 1;
    needs->heap_bytes = payload ? coll_gather_offset(&job->options, job->options.ranks) : 0;
}

static uint64_t value_of(const struct coll_rank *base, uint32_t step)
{
    return (uint64_t)(base->turn - 1) * (base->options->ranks - 1) + step + 1;
}

static int word_write(struct stream *s, uint32_t word, uint16_t peer, uint64_t value)
{
    const struct fabric_signal signal = { .value = value, .word = word, .peer = peer, .site = SITE_STREAM_WORD };
    return fabric_signal(&s->worker, &signal);
}

static int word_await(struct stream *s, uint32_t word, uint64_t value)
{
    const struct fabric_work there = { .kind = FABRIC_WORK_COPY, .site = SITE_HOST_AWAIT };
    if (fabric_load(s->worker.fabric, word) < value) {
        s->waited = true;
        return -EAGAIN;
    }
    if (!s->waited) fabric_work(&s->worker, &there);
    s->waited = false;
    return 0;
}

/* Copies a block to the same place at the successor: in step 0 the rank's own block, later the block that came last. */
static int block_copy(struct stream *s, const struct coll_rank *base, uint32_t step, uint16_t next)
{
    const struct fabric *f = base->fabric;
    const uint64_t offset = coll_gather_offset(base->options, (f->rank + f->rank_count - step) % f->rank_count);
    const struct fabric_write write = coll_write(f, offset, next, offset, base->options->size_bytes, SITE_STREAM_COPY);
    return fabric_store(&s->worker, &write);
}

static int first_part(struct streams_rank *r, uint32_t step)
{
    struct stream *s = &r->first;
    const struct coll_rank *base = &r->base;
    const uint16_t ranks = base->fabric->rank_count, rank = base->fabric->rank;
    const uint16_t next = (uint16_t)((rank + 1) % ranks), previous = (uint16_t)((rank + ranks - 1) % ranks);
    const uint64_t value = value_of(base, step);
    switch ((enum first_part)(s->done % FIRST_PARTS)) {
    case WRITE_TAKEN: return word_write(s, WORD_TAKEN, previous, value);
    case AWAIT_TAKEN: return word_await(s, WORD_TAKEN, value);
    case WRITE_BEGIN: return word_write(s, WORD_BEGIN, rank, value);
    case COPY: return block_copy(s, base, step, next);
    case WRITE_COME: return word_write(s, WORD_COME, next, value);
    case AWAIT_COME: return word_await(s, WORD_COME, value);
    case AWAIT_END: return word_await(s, WORD_END, value);
    case FIRST_PARTS: break;
    }
    return 0;
}

static int second_part(struct streams_rank *r, uint32_t step)
{
    struct stream *s = &r->second;
    const uint64_t size = r->base.options->size_bytes, value = value_of(&r->base, step);
    const struct fabric_work out = {
        .kind = FABRIC_WORK_COPY, .rows = 1, .read_bytes = size, .write_bytes = size, .site = SITE_STREAM_COPY
    };
    switch ((enum second_part)(s->done % SECOND_PARTS)) {
    case AWAIT_BEGIN: return word_await(s, WORD_BEGIN, value);
    case COPY_OUT: fabric_work(&s->worker, &out); return 0;
    case WRITE_END: return word_write(s, WORD_END, r->base.fabric->rank, value);
    case SECOND_PARTS: break;
    }
    return 0;
}

static enum worker_step step_of(struct stream *s, int rc)
{
    assert(rc == 0 || rc == -EAGAIN);
    if (rc) return WORKER_WAIT;
    s->done++;
    return WORKER_MORE;
}

static enum worker_step first_step(struct fabric_worker *w)
{
    struct streams_rank *r = fabric_container_of(w, struct streams_rank, first.worker);
    const uint32_t step = r->first.done / FIRST_PARTS;
    return step + 1 == w->fabric->rank_count ? WORKER_DONE : step_of(&r->first, first_part(r, step));
}

static enum worker_step second_step(struct fabric_worker *w)
{
    struct streams_rank *r = fabric_container_of(w, struct streams_rank, second.worker);
    const uint32_t step = r->second.done / SECOND_PARTS;
    return step + 1 == w->fabric->rank_count ? WORKER_DONE : step_of(&r->second, second_part(r, step));
}

static void streams_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const uint16_t ranks = w->fabric->rank_count;
    snprintf(text, text_size, "allgather by streams waits for rank %u", (w->fabric->rank + ranks - 1u) % ranks);
}

static const struct worker_role second_role = { .step = second_step, .describe = streams_describe };

static const struct worker_role first_role = { .step = first_step, .describe = streams_describe };

static void streams_launch(struct coll_rank *base)
{
    struct streams_rank *r = of(base);
    r->first = r->second = (struct stream){ 0 };
    coll_worker_add(base, &r->first.worker, &first_role, 0, STREAM_WARPS);
    coll_worker_add(base, &r->second.worker, &second_role, 1, STREAM_WARPS);
    fabric_watch(&r->first.worker, WORD_TAKEN, 2, 0);
    fabric_watch(&r->first.worker, WORD_END, 1, 0);
    fabric_watch(&r->second.worker, WORD_BEGIN, 1, 0);
}

static void streams_traffic(const struct coll_rank *base, uint32_t phase, struct kernel_traffic *traffic)
{
    (void)phase;
    traffic->logical_nvl_bytes = (base->options->ranks - 1) * base->options->size_bytes;
}

const struct coll_kernel_ops coll_allgather_streams = {
    .phase = (const char *const[]){ "allgather", NULL },
    .overlap = (const char *const[]){ "allgather_overlap" },
    .rank_bytes = sizeof(struct streams_rank),
    .refuse = streams_refuse,
    .needs = streams_needs,
    .fill = coll_gather_fill,
    .launch = streams_launch,
    .traffic = streams_traffic,
    .outputs = coll_gather_outputs,
    .check = coll_gather_check,
};
