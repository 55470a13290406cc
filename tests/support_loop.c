/* support_loop.c - the adversarial fabric of support_loop.h.  It knows the contract but no kernel. */
#include "tests/support_loop.h"

#include <errno.h>
#include <glib.h>
#include <stdio.h>
#include <string.h>
#include "sim/memory.h"
#include "sim/rng.h"

enum { PENDING_MAX = 4096 };

enum op_kind { OP_STORE, OP_PUT, OP_SIGNAL, OP_GET };

struct op {
    enum op_kind kind;
    uint16_t rank, peer, queue;
    bool rdma;
    bool released; /* for a store: its worker has made a signal_add since */
    const struct fabric_worker *worker;
    uint64_t offset, size_bytes;
    uint8_t *copy;         /* store: the bytes to write; put: the bytes of its source when the put was posted */
    const uint8_t *source; /* of a put */
    uint8_t *target;       /* of a get */
    uint32_t word;
    uint64_t value;
    bool add;
};

struct watch {
    struct watch *next;
    uint32_t worker;
    uint64_t least;
};

struct slot { /* a worker of the kernel that its rank runs */
    struct fabric_worker *worker;
    uint64_t stepped_ps;
    uint64_t wake_ps; /* the soonest time that the worker's last step named; UINT64_MAX: none */
    bool runnable, done, refused;
    uint32_t place; /* its index in the list of workers that may run */
};

struct loop_rank {
    struct fabric fabric;
    struct loop *loop;
    struct slot *slot;
    uint32_t slot_count, left;
    struct watch **watch; /* [word] */
    int32_t *writer;      /* [word]: the rank that writes it; -1 none, -2 private, -3 a counter */
    bool finished;
};

struct runnable {
    uint32_t rank, worker;
};

struct loop {
    struct loop_options options;
    struct loop_counts counts;
    struct rng rng;
    struct loop_rank *rank;
    struct op pending[PENDING_MAX];
    uint32_t pending_count;
    struct runnable *runnable;
    uint32_t runnable_count, runnable_max;
    struct slot *current;
    uint64_t wake_ps;   /* the soonest time at which a worker wants to be woken */
    uint64_t jumped_ps; /* time that passed while no worker could be stepped */
    char hang[65536];
};

static void breach(struct loop *loop, const char *what, uint32_t rank, uint64_t number)
{
    if (loop->counts.breaches++ < 10)
        fprintf(stderr, "breach of contract by rank %u: %s (%llu)\n", rank, what, (unsigned long long)number);
}

static void trace(struct loop *loop, uint64_t value)
{
    loop->counts.trace = (loop->counts.trace ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    loop->counts.trace ^= loop->counts.trace >> 29;
}

static bool chance(struct loop *loop, uint32_t percent) { return rng_below(&loop->rng, 100) < percent; }

static struct loop_rank *rank_of(const struct fabric *f) { return (struct loop_rank *)(void *)(uintptr_t)f; }

/* ---- who may run --------------------------------------------------------------------------------------- */

static void slot_wake(struct loop *loop, uint32_t rank, uint32_t worker)
{
    struct slot *slot = &loop->rank[rank].slot[worker];
    if (slot->done || slot->runnable) return;
    slot->runnable = true;
    if (loop->runnable_count == loop->runnable_max) {
        loop->runnable_max = loop->runnable_max * 2 + 64;
        loop->runnable = g_renew(struct runnable, loop->runnable, loop->runnable_max);
    }
    slot->place = loop->runnable_count;
    loop->runnable[loop->runnable_count++] = (struct runnable){ rank, worker };
}

static void slot_sleep(struct loop *loop, struct slot *slot)
{
    if (!slot->runnable) return;
    slot->runnable = false;
    const struct runnable last = loop->runnable[--loop->runnable_count];
    if (slot->place == loop->runnable_count) return;
    loop->runnable[slot->place] = last;
    loop->rank[last.rank].slot[last.worker].place = slot->place;
}

static void word_changed(struct loop *loop, uint32_t rank, uint32_t word)
{
    for (const struct watch *watch = loop->rank[rank].watch[word]; watch; watch = watch->next)
        if (loop->rank[rank].fabric.words[word] >= watch->least) slot_wake(loop, rank, watch->worker);
}

/* ---- delivery ------------------------------------------------------------------------------------------ */

static void op_deliver(struct loop *loop, uint32_t index)
{
    const struct op op = loop->pending[index];
    memmove(&loop->pending[index], &loop->pending[index + 1], (--loop->pending_count - index) * sizeof op);
    struct fabric *peer = &loop->rank[op.peer].fabric;
    if (op.kind == OP_GET) {
        memcpy(op.target, peer->heap + op.offset, op.size_bytes);
        return;
    }
    if (op.kind == OP_SIGNAL && op.add) {
        peer->words[op.word] += op.value;
        word_changed(loop, op.peer, op.word);
        return;
    }
    if (op.kind == OP_SIGNAL) {
        if (peer->words[op.word] > op.value) breach(loop, "a signal lowers a word", op.rank, op.word);
        __atomic_store_n(&peer->words[op.word], op.value, __ATOMIC_RELEASE);
        word_changed(loop, op.peer, op.word);
        return;
    }
    if (op.kind == OP_PUT && op.size_bytes && memcmp(op.source, op.copy, op.size_bytes) != 0)
        breach(loop, "a put whose source changed before it arrived", op.rank, op.offset);
    if (op.size_bytes) memcpy(peer->heap + op.offset, op.kind == OP_STORE ? op.copy : op.source, op.size_bytes);
    g_free(op.copy);
}

/* Whether `op` must arrive after `before`, by rule 2 of the contract. */
static bool op_follows(const struct op *op, const struct op *before)
{
    if (op->kind != OP_SIGNAL || op->rank != before->rank) return false;
    if (before->kind == OP_STORE) return before->released || before->worker == op->worker;
    if (before->kind == OP_PUT) return op->rdma && before->peer == op->peer && before->queue == op->queue;
    return before->peer == op->peer && before->word == op->word;
}

/* Delivers an operation chosen at random or, if that one may not arrive yet, the one that must arrive before it. */
static void something_deliver(struct loop *loop)
{
    uint32_t index = (uint32_t)rng_below(&loop->rng, loop->pending_count);
    for (uint32_t before = 0; before < index; before++)
        if (op_follows(&loop->pending[index], &loop->pending[before])) {
            index = before;
            before = UINT32_MAX; /* searches for the operation that must arrive before that one */
        }
    op_deliver(loop, index);
}

/* ---- the operations ------------------------------------------------------------------------------------ */

static uint64_t clock_ps(const struct loop *loop) { return loop->counts.steps + loop->jumped_ps; }

static uint64_t loop_now_ps(const struct fabric *f) { return clock_ps(rank_of(f)->loop); }

/* Whether the operation is refused.  A refusal has no effect, and the worker may try again at any time. */
static bool refuse(struct loop *loop)
{
    if (loop->pending_count < PENDING_MAX && !chance(loop, loop->options.refuse_percent)) return false;
    loop->counts.refusals++;
    loop->current->refused = true;
    return true;
}

static void write_check(struct loop *loop, const struct fabric *f, const struct fabric_write *write, bool put)
{
    const uint64_t size = write->size_bytes;
    if (write->fill && put) breach(loop, "a put of bytes that are made", f->rank, size);
    if (put != (fabric_path(f, write->peer) == FABRIC_RDMA)) breach(loop, "the wrong path", f->rank, write->peer);
    if (write->target_offset + size > f->heap_bytes) breach(loop, "a write past the heap", f->rank, size);
    if (f->payload ? size != write->charge_bytes : size > write->charge_bytes)
        breach(loop, "the charge is not what is written", f->rank, write->charge_bytes);
    if (put && write->queue >= f->queue_count) breach(loop, "no such queue", f->rank, write->queue);
    const uint8_t *source = write->data;
    if (put && size && (source < f->heap || source + size > f->heap + f->heap_bytes))
        breach(loop, "a put from foreign memory", f->rank, size);
}

static int loop_store(struct fabric *f, struct fabric_worker *w, const struct fabric_write *write)
{
    struct loop *loop = rank_of(f)->loop;
    write_check(loop, f, write, false);
    if (refuse(loop)) return -EAGAIN;
    struct op op = {
        .kind = OP_STORE, .rank = f->rank, .peer = write->peer, .worker = w, .offset = write->target_offset
    };
    op.size_bytes = write->size_bytes;
    op.copy = g_malloc(op.size_bytes + 1);
    fabric_write_copy(write, op.copy);
    loop->pending[loop->pending_count++] = op;
    loop->counts.stores++;
    loop->counts.store_bytes += write->charge_bytes;
    trace(loop, write->charge_bytes << 16 | write->peer);
    return 0;
}

static int put_alone(struct fabric *f, struct fabric_worker *w, const struct fabric_write *write)
{
    struct loop *loop = rank_of(f)->loop;
    write_check(loop, f, write, true);
    if (refuse(loop)) return -EAGAIN;
    struct op op = { .kind = OP_PUT,
                     .rank = f->rank,
                     .peer = write->peer,
                     .queue = write->queue,
                     .worker = w,
                     .rdma = true,
                     .offset = write->target_offset };
    if (write->size_bytes) {
        op.source = write->data;
        op.size_bytes = write->size_bytes;
        op.copy = g_memdup2(op.source, op.size_bytes);
    }
    loop->pending[loop->pending_count++] = op;
    loop->counts.puts++;
    loop->counts.put_bytes += write->charge_bytes;
    trace(loop, write->charge_bytes << 24 | (uint64_t)write->peer << 8 | write->queue);
    return 0;
}

static void signal_post(struct loop *loop, const struct fabric *f, struct fabric_worker *w,
                        const struct fabric_signal *signal)
{
    loop->pending[loop->pending_count++] = (struct op){ .kind = OP_SIGNAL,
                                                        .rank = f->rank,
                                                        .peer = signal->peer,
                                                        .queue = signal->queue,
                                                        .worker = w,
                                                        .rdma = fabric_path(f, signal->peer) == FABRIC_RDMA,
                                                        .word = signal->word,
                                                        .value = signal->value,
                                                        .add = signal->add };
    loop->counts.signals++;
    trace(loop, (uint64_t)signal->word << 32 ^ signal->value ^ signal->peer);
}

static int loop_signal(struct fabric *f, struct fabric_worker *w, const struct fabric_signal *signal)
{
    struct loop *loop = rank_of(f)->loop;
    const bool rdma = fabric_path(f, signal->peer) == FABRIC_RDMA;
    if (signal->word >= f->word_count) {
        breach(loop, "no such word", f->rank, signal->word);
        return -EINVAL;
    }
    if (rdma && signal->queue >= f->queue_count) breach(loop, "no such queue", f->rank, signal->queue);
    int32_t *writer = &loop->rank[signal->peer].writer[signal->word];
    const int32_t own = signal->add ? -3 : (int32_t)f->rank;
    if (*writer != -1 && *writer != own) breach(loop, "a word with two writers", f->rank, signal->word);
    *writer = own;
    if (refuse(loop)) return -EAGAIN;
    signal_post(loop, f, w, signal);
    return 0;
}

static int loop_put(struct fabric *f, struct fabric_worker *w, const struct fabric_write *write,
                    const struct fabric_signal *signal)
{
    struct loop *loop = rank_of(f)->loop;
    if (!signal) return put_alone(f, w, write);
    if (write->peer != signal->peer || write->queue != signal->queue)
        breach(loop, "a put with a signal of another queue", f->rank, signal->queue);
    if (loop->pending_count + 2 > PENDING_MAX) {
        loop->current->refused = true;
        return -EAGAIN;
    }
    const int rc = put_alone(f, w, write);
    if (rc) return rc;
    const uint32_t percent = loop->options.refuse_percent;
    loop->options.refuse_percent = 0; /* the put was not refused, so the signal must not be */
    const int signalled = loop_signal(f, w, signal);
    loop->options.refuse_percent = percent;
    return signalled;
}

static int loop_get(struct fabric *f, struct fabric_worker *w, const struct fabric_read *read)
{
    struct loop *loop = rank_of(f)->loop;
    const uint8_t *target = read->target;
    const uint64_t size = read->size_bytes;
    if (read->peer == f->rank) breach(loop, "a get from itself", f->rank, read->peer);
    if (read->source_offset + size > f->heap_bytes) breach(loop, "a get past the heap", f->rank, size);
    if (size && (target < f->heap || target + size > f->heap + f->heap_bytes))
        breach(loop, "a get to foreign memory", f->rank, size);
    if (f->payload ? size != read->charge_bytes : size > read->charge_bytes)
        breach(loop, "the charge is not what is read", f->rank, read->charge_bytes);
    if (refuse(loop)) return -EAGAIN;
    loop->counts.gets++;
    loop->counts.get_bytes += read->charge_bytes;
    trace(loop, read->charge_bytes << 24 | (uint64_t)read->peer << 8 | 3);
    if (fabric_path(f, read->peer) != FABRIC_RDMA) {
        if (size) memcpy(read->target, loop->rank[read->peer].fabric.heap + read->source_offset, size);
        return 0;
    }
    loop->pending[loop->pending_count++] = (struct op){ .kind = OP_GET,
                                                        .rank = f->rank,
                                                        .peer = read->peer,
                                                        .queue = read->queue,
                                                        .worker = w,
                                                        .rdma = true,
                                                        .offset = read->source_offset,
                                                        .size_bytes = size,
                                                        .target = read->target };
    return 0;
}

static void loop_signal_add(struct fabric *f, struct fabric_worker *w, uint32_t word, uint64_t addend, enum site site)
{
    (void)site;
    struct loop_rank *r = rank_of(f);
    for (uint32_t i = 0; i < r->loop->pending_count; i++)
        r->loop->pending[i].released |= r->loop->pending[i].worker == w;
    if (r->writer[word] != -1 && r->writer[word] != -2)
        breach(r->loop, "a private word written from afar", f->rank, word);
    r->writer[word] = -2;
    f->words[word] += addend;
    r->loop->counts.adds++;
    trace(r->loop, (uint64_t)word << 32 ^ addend);
    word_changed(r->loop, f->rank, word);
}

static int loop_flush(struct fabric *f, struct fabric_worker *w, uint16_t peer, uint16_t queue)
{
    struct loop *loop = rank_of(f)->loop;
    (void)w;
    for (uint32_t i = 0; i < loop->pending_count; i++) {
        const struct op *op = &loop->pending[i];
        if (op->rank != f->rank || !op->rdma || op->peer != peer || op->queue != queue) continue;
        loop->current->refused = true;
        return -EAGAIN;
    }
    return 0;
}

static void loop_work(struct fabric *f, struct fabric_worker *w, const struct fabric_work *work)
{
    struct loop *loop = rank_of(f)->loop;
    if (work->warps > w->warps) breach(loop, "more warps than the worker has", f->rank, work->warps);
    if (f->payload && work->run) work->run(work->context, work->argument);
    loop->counts.works++;
    loop->counts.work_rows += work->rows;
    loop->counts.work_read_bytes += work->read_bytes;
    loop->counts.work_write_bytes += work->write_bytes;
    trace(loop, work->read_bytes << 20 ^ work->write_bytes ^ (uint64_t)work->kind << 60);
}

static void loop_watch(struct fabric *f, struct fabric_worker *w, uint32_t word, uint32_t word_count, uint64_t least)
{
    struct loop_rank *r = rank_of(f);
    if (r->loop->current) return; /* watches that a step sets are not needed: this world leaves out no step */
    for (uint32_t i = word; i < word + word_count; i++) {
        if (i >= f->word_count) {
            breach(r->loop, "a watch of no word", f->rank, i);
            return;
        }
        struct watch *watch = g_new(struct watch, 1);
        *watch = (struct watch){ r->watch[i], w->index, least };
        r->watch[i] = watch;
    }
}

static void loop_wake_at(struct fabric *f, struct fabric_worker *w, uint64_t time_ps)
{
    struct slot *slot = rank_of(f)->loop->current;
    (void)w;
    if (time_ps > slot->stepped_ps && time_ps < slot->wake_ps) slot->wake_ps = time_ps;
}

static const struct fabric_ops loop_ops = {
    .now_ps = loop_now_ps,
    .store = loop_store,
    .put = loop_put,
    .signal = loop_signal,
    .get = loop_get,
    .signal_add = loop_signal_add,
    .flush = loop_flush,
    .work = loop_work,
    .watch = loop_watch,
    .wake_at = loop_wake_at,
};

/* ---- construction -------------------------------------------------------------------------------------- */

struct loop *loop_new(const struct loop_options *options)
{
    struct loop *loop = g_new0(struct loop, 1);
    loop->options = *options;
    rng_seed(&loop->rng, options->seed);
    loop->rank = g_new0(struct loop_rank, options->ranks);
    for (uint16_t i = 0; i < options->ranks; i++) {
        struct loop_rank *r = &loop->rank[i];
        const uint32_t words = options->needs.word_count;
        r->loop = loop;
        r->fabric = (struct fabric){
            .ops = &loop_ops,
            .heap_bytes = options->needs.heap_bytes,
            .word_count = words,
            .rank = i,
            .rank_count = options->ranks,
            .ranks_per_node = options->ranks_per_node,
            .node_first = (uint16_t)(i - i % options->ranks_per_node),
            .queue_count = options->needs.queue_count,
            .nvlink_disabled = options->nvlink_disabled,
            .payload = options->payload,
            .words = g_new0(uint64_t, words),
            .heap = g_malloc0(options->needs.heap_bytes + 1),
        };
        r->watch = g_new0(struct watch *, words);
        r->writer = g_new(int32_t, words);
        for (uint32_t word = 0; word < words; word++) r->writer[word] = -1;
    }
    return loop;
}

static void watches_clear(struct loop_rank *r)
{
    for (uint32_t word = 0; word < r->fabric.word_count; word++)
        while (r->watch[word]) {
            struct watch *next = r->watch[word]->next;
            g_free(r->watch[word]);
            r->watch[word] = next;
        }
}

void loop_free(struct loop *loop)
{
    for (uint16_t i = 0; i < loop->options.ranks; i++) {
        struct loop_rank *r = &loop->rank[i];
        watches_clear(r);
        FREE_ALL(r->watch, r->writer, r->slot, r->fabric.words, r->fabric.heap);
    }
    for (uint32_t i = 0; i < loop->pending_count; i++) g_free(loop->pending[i].copy);
    FREE_ALL(loop->rank, loop->runnable, loop);
}

struct fabric *loop_fabric(struct loop *loop, uint32_t rank) { return &loop->rank[rank].fabric; }
const struct loop_counts *loop_counts(const struct loop *loop) { return &loop->counts; }
const char *loop_hang(const struct loop *loop) { return loop->hang; }

/* ---- running ------------------------------------------------------------------------------------------- */

static void kernel_start(struct loop *loop, uint32_t rank, const struct kernel_launch *kernel)
{
    struct loop_rank *r = &loop->rank[rank];
    g_free(r->slot);
    r->slot = g_new0(struct slot, kernel->worker_count);
    r->slot_count = r->left = kernel->worker_count;
    for (uint32_t i = 0; i < kernel->worker_count; i++) {
        r->slot[i].worker = kernel->worker[i];
        if (kernel->worker[i]->index != i) breach(loop, "workers are not numbered from 0", rank, i);
        slot_wake(loop, rank, i);
    }
}

/* Moves a rank on to its next kernel that has workers. */
static void rank_advance(struct loop *loop, uint32_t rank, loop_next *next, void *context)
{
    struct loop_rank *r = &loop->rank[rank];
    while (!r->finished && r->left == 0) {
        if (r->slot_count) watches_clear(r); /* watches made before the first kernel belong to that kernel */
        const struct kernel_launch *kernel = next(context, rank);
        if (kernel) kernel_start(loop, rank, kernel);
        else r->finished = true;
    }
}

/* Whether the worker asked for a time that has not come yet. */
static bool slot_waits(const struct slot *slot) { return !slot->done && slot->wake_ps != UINT64_MAX; }

/* Asks a worker what it waits for, as worlds do when they write a timeline or give up on a run.  waits: it has just
 * found that it must wait, so it can say for what.  Before a step, what it waited for may have come. */
static void worker_ask(struct loop *loop, uint32_t rank, uint32_t worker, bool waits)
{
    char text[256] = "something";
    fabric_worker_describe(loop->rank[rank].slot[worker].worker, text, sizeof text);
    if (waits && (!text[0] || strstr(text, "-1") || strstr(text, "4294967295")))
        breach(loop, "a worker that waits does not say for what", rank, worker);
}

static void worker_step(struct loop *loop, uint32_t rank, uint32_t worker)
{
    struct loop_rank *r = &loop->rank[rank];
    struct slot *slot = &r->slot[worker];
    slot_sleep(loop, slot);
    slot->refused = false;
    loop->current = slot;
    loop->counts.steps++;
    trace(loop, (uint64_t)rank << 32 | worker);
    slot->stepped_ps = clock_ps(loop);
    slot->wake_ps = UINT64_MAX;
    worker_ask(loop, rank, worker, false);
    const enum worker_step step = fabric_worker_step(slot->worker);
    loop->current = NULL;
    if (step == WORKER_DONE) {
        slot_sleep(loop, slot);
        slot->done = true;
        r->left--;
    } else if (step == WORKER_MORE || slot->refused) {
        slot_wake(loop, rank, worker);
    } else {
        worker_ask(loop, rank, worker, true);
    }
    if (slot_waits(slot) && slot->wake_ps < loop->wake_ps) loop->wake_ps = slot->wake_ps;
}

/* Writes the descriptions of all workers that have not ended into loop->hang. */
static void hang_note(struct loop *loop)
{
    size_t used = 0;
    for (uint16_t rank = 0; rank < loop->options.ranks; rank++)
        for (uint32_t i = 0; i < loop->rank[rank].slot_count; i++) {
            const struct slot *slot = &loop->rank[rank].slot[i];
            char text[256] = "";
            if (slot->done || used >= sizeof loop->hang) continue;
            fabric_worker_describe(slot->worker, text, sizeof text);
            const int more =
                snprintf(loop->hang + used, sizeof loop->hang - used, "rank %u worker %u: %s\n", rank, i, text);
            used += more > 0 ? (size_t)more : 0;
        }
}

/* Steps a worker that was not woken. */
static void spurious_step(struct loop *loop, loop_next *next, void *context)
{
    const uint32_t rank = (uint32_t)rng_below(&loop->rng, loop->options.ranks);
    struct loop_rank *r = &loop->rank[rank];
    if (r->left == 0) return;
    const uint32_t worker = (uint32_t)rng_below(&loop->rng, r->slot_count);
    if (r->slot[worker].done) return;
    worker_step(loop, rank, worker);
    rank_advance(loop, rank, next, context);
}

/* Wakes the workers whose time has come, and finds the time of the next worker. */
static void time_tell(struct loop *loop)
{
    loop->wake_ps = UINT64_MAX;
    for (uint16_t rank = 0; rank < loop->options.ranks && !loop->options.deaf; rank++)
        for (uint32_t i = 0; i < loop->rank[rank].slot_count; i++) {
            const struct slot *slot = &loop->rank[rank].slot[i];
            if (!slot_waits(slot)) continue;
            if (slot->wake_ps <= clock_ps(loop)) slot_wake(loop, rank, i);
            else if (slot->wake_ps < loop->wake_ps) loop->wake_ps = slot->wake_ps;
        }
}

/* Lets time pass until the next time that a worker waits for, because no worker can be stepped.  Returns false if no
 * worker waits for a time. */
static bool time_pass(struct loop *loop)
{
    time_tell(loop);
    if (loop->runnable_count) return true;
    if (loop->wake_ps == UINT64_MAX) return false;
    loop->jumped_ps += loop->wake_ps - clock_ps(loop);
    time_tell(loop);
    return true;
}

bool loop_run(struct loop *loop, loop_next *next, void *context, bool quiet)
{
    loop->wake_ps = UINT64_MAX;
    for (uint16_t rank = 0; rank < loop->options.ranks; rank++) {
        loop->rank[rank].finished = false;
        loop->rank[rank].left = loop->rank[rank].slot_count = 0;
        rank_advance(loop, rank, next, context);
    }
    while (loop->runnable_count || loop->pending_count || time_pass(loop)) {
        if (loop->wake_ps <= clock_ps(loop)) time_tell(loop);
        if (loop->options.spurious && chance(loop, 5)) spurious_step(loop, next, context);
        if (loop->pending_count && (!loop->runnable_count || chance(loop, loop->options.deliver_percent))) {
            something_deliver(loop);
            continue;
        }
        if (!loop->runnable_count) continue;
        const struct runnable chosen = loop->runnable[rng_below(&loop->rng, loop->runnable_count)];
        worker_step(loop, chosen.rank, chosen.worker);
        rank_advance(loop, chosen.rank, next, context);
    }
    bool all = true;
    for (uint16_t rank = 0; rank < loop->options.ranks; rank++) all &= loop->rank[rank].finished;
    loop->hang[0] = '\0';
    if (!all) hang_note(loop);
    if (!quiet) fputs(loop->hang, stderr);
    return all;
}
