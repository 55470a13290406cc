/* support_conformance.c - the cases, and the interpreter of their programs.
 *
 * Every rank has a few workers in every case.  Each worker runs a list of operations to the end.  Data is a pattern
 * that follows from a number and a position.  So a receiver knows every byte that it must see, and bytes from the wrong
 * place, time or sender are noticed.  This file knows no world: the caller provides them. */
#include "tests/support_conformance.h"

#include <assert.h>
#include <errno.h>
#include <glib.h>
#include <stdio.h>
#include <string.h>
#include "sim/rng.h"
#include "sim/units.h"

enum { OPS_PER_STEP = 24 }; /* more than CONFORMANCE_DEPTH, so that a step can fill a queue */

enum op_kind {
    OP_FILL,         /* fills own heap [source, size) with pattern number value */
    OP_WRITE,        /* writes own [source, size) to the peer's [target, size), by the path to that peer */
    OP_SIGNAL,       /* the peer's word becomes value, or value is added to it */
    OP_WRITE_SIGNAL, /* as OP_WRITE, then the peer's word becomes raise, or raise is added to it; over RDMA, one
                      * operation does both */
    OP_GET,          /* reads the peer's [source, size) into own [target, size) */
    OP_WAIT,         /* waits until the worker's word is at least value; the word must never fall */
    OP_CHECK,        /* own [target, size) must have pattern number value, or zeros if value is 0 */
    OP_ADD,          /* adds value to the worker's word */
    OP_FLUSH,        /* waits until all requests on (peer, queue) are complete */
    OP_WORK,         /* does a piece of local work, which counts how often it is done */
    OP_CLOCK,        /* time must not run backwards */
    OP_SLEEP,        /* waits until value picoseconds have passed; nothing else steps the worker */
    OP_ALARM,        /* from here on, each wait asks for a step within value picoseconds */
};

struct op {
    enum op_kind kind;
    uint16_t peer, queue;
    bool defer;
    bool add;
    uint32_t word, size;
    uint64_t source, target, value, raise;
};

struct program {
    struct fabric_worker worker;
    GArray *ops;
    uint32_t at;
    uint64_t last_word, last_ps;
    uint64_t alarm_ps, slept_ps; /* alarm_ps 0: none; slept_ps: when the worker's sleep is over */
    uint64_t works, refusals;
    bool asleep;
    char why[160];
};

/* One run of one case. */
struct suite {
    const struct conformance_world *world;
    struct rng rng; /* equal on every process, because each draws the programs of all ranks */
    uint32_t next_word;
    uint64_t next_heap;
    uint64_t next_pattern;
    uint32_t worker_count;                      /* programs that each rank has in this case */
    struct program *program[CONFORMANCE_RANKS]; /* [rank][worker_count]; NULL for ranks of other processes */
    bool ran;                                   /* the programs */
    char why[200];
};

/* ---- the interpreter --- */

static uint8_t pattern_byte(uint64_t pattern, uint64_t i)
{
    const uint64_t mixed = (pattern * 0x9e3779b97f4a7c15u) ^ (i * 0xbf58476d1ce4e5b9u);
    return (uint8_t)(mixed >> 40 | 1); /* never 0, so that bytes that were not written are noticed */
}

static void program_fail(struct program *p, const struct op *op, const char *what, uint64_t expected, uint64_t found)
{
    if (p->why[0]) return;
    snprintf(p->why, sizeof p->why, "rank %u worker %u op %u (peer %u queue %u): %s: expected %llu, found %llu",
             p->worker.fabric->rank, p->worker.index, p->at, op->peer, op->queue, what, (unsigned long long)expected,
             (unsigned long long)found);
}

static void program_fill(const void *context, uint8_t *target)
{
    const struct fabric_write *source = context;
    memcpy(target, source->data, source->size_bytes);
}

/* Writes the bytes.  If there is a signal and the path is RDMA, one operation writes the bytes and raises the
 * signal. */
static int program_write(struct program *p, const struct op *op, const struct fabric_signal *signal)
{
    const struct fabric *f = p->worker.fabric;
    struct fabric_write write = {
        .target_offset = op->target,
        .charge_bytes = op->size,
        .peer = op->peer,
        .queue = op->queue,
        .defer = op->defer,
        .site = SITE_PPLX_STORE_ROW,
        .data = f->heap + op->source,
        .size_bytes = op->size,
    };
    if (op->size == 0 && op->value) write.data = NULL;
    if (fabric_path(f, op->peer) == FABRIC_RDMA) return fabric_put(&p->worker, &write, signal);
    const struct fabric_write source = write;
    if (op->size % 2) { /* for odd sizes, the fabric calls program_fill() to make the bytes in place */
        write.fill = program_fill;
        write.data = &source;
    }
    return fabric_store(&p->worker, &write);
}

static int program_write_signal(struct program *p, const struct op *op)
{
    const struct fabric_signal signal = {
        .value = op->raise, .word = op->word, .peer = op->peer, .queue = op->queue, .add = op->add
    };
    const int rc = program_write(p, op, &signal);
    if (rc || fabric_path(p->worker.fabric, op->peer) == FABRIC_RDMA) return rc;
    return fabric_signal(&p->worker, &signal); /* if the signal is refused, the retry stores the bytes once more */
}

static int program_get(struct program *p, const struct op *op)
{
    struct fabric *f = p->worker.fabric;
    const struct fabric_read read = { .source_offset = op->source,
                                      .target = f->heap + op->target,
                                      .charge_bytes = op->size,
                                      .size_bytes = op->size,
                                      .peer = op->peer,
                                      .queue = op->queue,
                                      .site = SITE_PPLX_PULL_ROW };
    return fabric_get(&p->worker, &read);
}

static void program_check(struct program *p, const struct op *op)
{
    const uint8_t *data = p->worker.fabric->heap + op->target;
    for (uint32_t i = 0; i < op->size; i++) {
        const uint8_t expected = op->value ? pattern_byte(op->value, i) : 0;
        if (data[i] == expected) continue;
        char what[64];
        snprintf(what, sizeof what, "byte %u of %u", i, op->size);
        program_fail(p, op, what, expected, data[i]);
        return;
    }
}

static void program_work(void *context, uint64_t argument)
{
    struct program *p = context;
    p->works += argument;
}

static int program_wait(struct program *p, const struct op *op)
{
    const uint64_t now = fabric_load(p->worker.fabric, op->word);
    if (now < p->last_word) program_fail(p, op, "the word fell", p->last_word, now);
    p->last_word = now;
    if (now < op->value) return -EAGAIN;
    p->last_word = 0;
    return 0;
}

static int program_sleep(struct program *p, const struct op *op, uint64_t now_ps)
{
    if (!p->asleep) p->slept_ps = now_ps + op->value;
    p->asleep = now_ps < p->slept_ps;
    if (p->asleep) fabric_wake_at(&p->worker, p->slept_ps);
    return p->asleep ? -EAGAIN : 0;
}

/* Returns 0, or -EAGAIN if the operation must be tried again. */
static int program_op(struct program *p, const struct op *op)
{
    struct fabric *f = p->worker.fabric;
    const uint64_t now_ps = fabric_now_ps(f);
    const struct fabric_signal signal = {
        .value = op->value, .word = op->word, .peer = op->peer, .queue = op->queue, .add = op->add
    };
    const struct fabric_work work = {
        .kind = FABRIC_WORK_COPY,
        .rows = 1,
        .read_bytes = 64,
        .write_bytes = 64,
        .site = SITE_PPLX_TAKE_ROW,
        .run = program_work,
        .context = p,
        .argument = op->value,
    };
    switch (op->kind) {
    case OP_FILL:
        for (uint32_t i = 0; i < op->size; i++) f->heap[op->source + i] = pattern_byte(op->value, i);
        return 0;
    case OP_WRITE: return program_write(p, op, NULL);
    case OP_WRITE_SIGNAL: return program_write_signal(p, op);
    case OP_GET: return program_get(p, op);
    case OP_SIGNAL: return fabric_signal(&p->worker, &signal);
    case OP_WAIT: return program_wait(p, op);
    case OP_CHECK: program_check(p, op); return 0;
    case OP_ADD: fabric_signal_add(&p->worker, op->word, op->value, SITE_NONE); return 0;
    case OP_FLUSH: return fabric_flush(&p->worker, op->peer, op->queue);
    case OP_WORK: fabric_work(&p->worker, &work); return 0;
    case OP_CLOCK:
        if (now_ps < p->last_ps) program_fail(p, op, "time ran backwards", p->last_ps, now_ps);
        p->last_ps = now_ps;
        return 0;
    case OP_SLEEP: return program_sleep(p, op, now_ps);
    case OP_ALARM: p->alarm_ps = now_ps + op->value; return 0;
    }
    return -EINVAL;
}

static enum worker_step program_step(struct fabric_worker *w)
{
    struct program *p = fabric_container_of(w, struct program, worker);
    for (uint32_t i = 0; i < OPS_PER_STEP && p->at < p->ops->len; i++) {
        const struct op *op = &g_array_index(p->ops, struct op, p->at);
        const int rc = program_op(p, op);
        if (rc == -EAGAIN) {
            p->refusals += op->kind == OP_WRITE || op->kind == OP_SIGNAL || op->kind == OP_WRITE_SIGNAL;
            if (p->alarm_ps) fabric_wake_at(w, p->alarm_ps);
            return WORKER_WAIT;
        }
        if (rc < 0) {
            program_fail(p, op, "errno", 0, (uint64_t)-rc);
            return WORKER_DONE;
        }
        p->at++;
    }
    return p->at < p->ops->len ? WORKER_MORE : WORKER_DONE;
}

static void program_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct program *p = fabric_container_of(w, struct program, worker);
    const struct op *op = &g_array_index(p->ops, struct op, p->at);
    snprintf(text, text_size, "op %u of kind %d, peer %u, word %u", p->at, (int)op->kind, op->peer, op->word);
}

static const struct worker_role program_role = { .step = program_step, .describe = program_describe };

/* ---- writing programs --- */

static uint32_t suite_words(struct suite *s, uint32_t count)
{
    const uint32_t word = s->next_word;
    s->next_word += count;
    assert(s->next_word <= CONFORMANCE_WORDS);
    return word;
}

static uint64_t suite_heap(struct suite *s, uint64_t size)
{
    const uint64_t offset = s->next_heap;
    s->next_heap += (size + 63) / 64 * 64;
    assert(s->next_heap <= CONFORMANCE_HEAP_BYTES);
    return offset;
}

/* Adds an operation to a worker's program.  Does nothing if another process runs the rank. */
static void suite_op(struct suite *s, uint32_t rank, uint32_t worker, struct op op)
{
    if (s->program[rank]) g_array_append_val(s->program[rank][worker].ops, op);
}

static void suite_signal(struct suite *s, uint32_t rank, uint32_t worker, uint32_t peer, uint16_t queue, uint32_t word,
                         uint64_t value)
{
    suite_op(s, rank, worker, (struct op){ OP_SIGNAL, (uint16_t)peer, queue, .word = word, .value = value });
}

static void suite_wait(struct suite *s, uint32_t rank, uint32_t worker, uint32_t word, uint64_t value)
{
    suite_op(s, rank, worker, (struct op){ .kind = OP_WAIT, .word = word, .value = value });
}

static void suite_check(struct suite *s, uint32_t rank, uint32_t worker, uint64_t target, uint32_t size,
                        uint64_t pattern)
{
    suite_op(s, rank, worker, (struct op){ .kind = OP_CHECK, .size = size, .target = target, .value = pattern });
}

/* Makes a write of `size` bytes of a new pattern to the peer.  Both its source and its target are new places. */
static struct op suite_block(struct suite *s, uint32_t peer, uint16_t queue, uint32_t size)
{
    struct op op = { .peer = (uint16_t)peer, .queue = queue, .size = size, .value = ++s->next_pattern };
    op.source = suite_heap(s, size);
    op.target = suite_heap(s, size);
    return op;
}

static void suite_flush(struct suite *s, uint32_t rank, uint32_t worker, uint32_t peer, uint16_t queue)
{
    suite_op(s, rank, worker, (struct op){ .kind = OP_FLUSH, .peer = (uint16_t)peer, .queue = queue });
}

/* Fills the source of a write, then writes it by an operation of this kind. */
static void suite_write(struct suite *s, uint32_t rank, uint32_t worker, struct op op, enum op_kind kind)
{
    op.kind = OP_FILL;
    suite_op(s, rank, worker, op);
    op.kind = kind;
    suite_op(s, rank, worker, op);
}

static void suite_begin(struct suite *s, uint32_t worker_count)
{
    assert(worker_count <= CONFORMANCE_WORKERS);
    s->worker_count = worker_count;
    s->ran = false;
    s->why[0] = '\0';
    for (uint32_t rank = 0; rank < s->world->rank_count; rank++) {
        struct fabric *f = s->world->fabric[rank];
        s->program[rank] = NULL;
        if (!f) continue;
        s->program[rank] = g_new0(struct program, worker_count);
        for (uint32_t i = 0; i < worker_count; i++) {
            struct program *p = &s->program[rank][i];
            p->ops = g_array_new(FALSE, FALSE, sizeof(struct op));
            p->worker = (struct fabric_worker){
                .fabric = f,
                .role = worker_role_number(&f->roles, &program_role),
                .index = i,
                .sm = (uint16_t)i,
                .warps = 1,
            };
        }
    }
}

static void suite_watch(struct program *p)
{
    for (uint32_t i = 0; i < p->ops->len; i++) {
        const struct op *op = &g_array_index(p->ops, struct op, i);
        if (op->kind != OP_WAIT) continue;
        if (op->add) fabric_watch(&p->worker, op->word, 1, op->value);
        else fabric_watch(&p->worker, op->word, 1, 0);
    }
}

/* Runs the programs to the end.  No process returns before the others have finished.  Results stay in the programs. */
static void suite_run(struct suite *s)
{
    struct fabric_worker *worker[CONFORMANCE_RANKS * CONFORMANCE_WORKERS];
    uint32_t count = 0;
    s->ran = true;
    for (uint32_t rank = 0; rank < s->world->rank_count; rank++) {
        for (uint32_t i = 0; s->program[rank] && i < s->worker_count; i++) {
            suite_watch(&s->program[rank][i]);
            worker[count++] = &s->program[rank][i].worker;
        }
    }
    if (!s->world->run(s->world->context, worker, count, s->why, sizeof s->why)) return;
    for (uint32_t rank = 0; rank < s->world->rank_count; rank++)
        for (uint32_t i = 0; s->program[rank] && i < s->worker_count && !s->why[0]; i++)
            g_strlcpy(s->why, s->program[rank][i].why, sizeof s->why);
}

static void suite_end(struct suite *s)
{
    for (uint32_t rank = 0; rank < s->world->rank_count; rank++) {
        for (uint32_t i = 0; s->program[rank] && i < s->worker_count; i++) g_array_free(s->program[rank][i].ops, TRUE);
        g_clear_pointer(&s->program[rank], g_free);
    }
}

#define EACH_RANK(s, rank) for (uint32_t rank = 0; rank < (s)->world->rank_count; rank++)

/* Draws a queue. */
static uint16_t suite_queue(struct suite *s) { return (uint16_t)rng_below(&s->rng, CONFORMANCE_QUEUES); }

/* ---- the cases --- */

static void case_zero_at_start(struct suite *s)
{
    EACH_RANK(s, rank)
    suite_check(s, rank, 0, 0, CONFORMANCE_HEAP_BYTES, 0);
    suite_run(s);
    EACH_RANK(s, rank)
    {
        const struct fabric *f = s->world->fabric[rank];
        for (uint32_t word = 0; f && word < CONFORMANCE_WORDS; word++)
            if (fabric_load(f, word)) snprintf(s->why, sizeof s->why, "rank %u: word %u is not zero", rank, word);
    }
}

/* Every rank sends blocks of many sizes to every rank, itself included.  A signal follows each block, and a rank that
 * sees the signal must see the block. */
static void case_signal_after_data(struct suite *s)
{
    static const uint32_t sizes[] = { 1, 2, 7, 8, 64, 100, 4096, 7408, 20001 };
    enum { BLOCKS = sizeof sizes / sizeof sizes[0] };
    const uint32_t words = suite_words(s, s->world->rank_count);
    EACH_RANK(s, from) EACH_RANK(s, to)
    {
        const uint16_t queue = suite_queue(s);
        for (uint32_t i = 0; i < BLOCKS; i++) {
            const struct op op = suite_block(s, to, queue, sizes[i]);
            suite_write(s, from, 0, op, OP_WRITE);
            suite_signal(s, from, 0, to, queue, words + from, i + 1);
            suite_wait(s, to, 1, words + from, i + 1);
            suite_check(s, to, 1, op.target, op.size, op.value);
        }
    }
}

/* Many signals go to one word.  The reader must see the word only rise, until the last value. */
static void case_signals_in_order(struct suite *s)
{
    enum { SIGNALS = 200 };
    const uint32_t words = suite_words(s, s->world->rank_count);
    EACH_RANK(s, from) EACH_RANK(s, to)
    {
        const uint16_t queue = suite_queue(s);
        for (uint32_t i = 1; i <= SIGNALS; i++)
            suite_signal(s, from, 0, to, queue, words + from, i * UINT64_C(0x100000001));
        suite_wait(s, to, 1, words + from, SIGNALS * UINT64_C(0x100000001));
    }
}

/* A worker posts far more puts than a queue holds, without a flush.  A refused put must do nothing, and succeed when it
 * is retried. */
static void case_back_pressure(struct suite *s)
{
    enum { PUTS = 20 * CONFORMANCE_DEPTH, SIZE = 160 };
    const uint32_t words = suite_words(s, s->world->rank_count);
    bool remote = false;
    EACH_RANK(s, from)
    {
        const uint32_t to = (from + 1) % s->world->rank_count;
        const uint64_t source = suite_heap(s, PUTS * SIZE), target = suite_heap(s, PUTS * SIZE);
        const uint64_t pattern = s->next_pattern;
        struct op op = { .peer = (uint16_t)to, .size = SIZE };
        for (op.kind = OP_FILL; op.kind <= OP_WRITE; op.kind++)
            for (uint32_t i = 0; i < PUTS; i++) {
                op.source = source + i * SIZE;
                op.target = target + i * SIZE;
                op.value = pattern + i + 1;
                suite_op(s, from, 0, op);
            }
        s->next_pattern += PUTS;
        suite_signal(s, from, 0, to, 0, words, 1);
        suite_wait(s, to, 0, words, 1);
        for (uint32_t i = 0; i < PUTS; i++) suite_check(s, to, 0, target + i * SIZE, SIZE, pattern + i + 1);
        const struct fabric *f = s->world->fabric[from];
        remote |= f && fabric_path(f, (uint16_t)to) == FABRIC_RDMA;
    }
    suite_run(s);
    uint64_t refusals = 0;
    EACH_RANK(s, rank) refusals += s->program[rank] ? s->program[rank][0].refusals : 0;
    if (!s->why[0] && s->world->refuses && remote && refusals == 0)
        g_strlcpy(s->why, "no put was refused, though more than a queue holds were posted", sizeof s->why);
}

/* The source of a store may be reused at once.  The source of a put may be reused after the flush. */
static void case_ownership(struct suite *s)
{
    enum { SIZE = 5000, TURNS = 12 };
    const uint32_t words = suite_words(s, s->world->rank_count);
    EACH_RANK(s, from)
    {
        const uint32_t to = (from + 1) % s->world->rank_count;
        const uint16_t queue = suite_queue(s);
        const uint64_t source = suite_heap(s, SIZE), target = suite_heap(s, TURNS * SIZE);
        struct op op = { .peer = (uint16_t)to, .queue = queue, .size = SIZE, .source = source };
        for (uint32_t i = 0; i < TURNS; i++) {
            op.target = target + i * SIZE;
            op.value = ++s->next_pattern;
            suite_write(s, from, 0, op, OP_WRITE);
            suite_flush(s, from, 0, to, queue); /* a flush returns 0 at once if the path is a store */
        }
        suite_op(s, from, 0, (struct op){ .kind = OP_FILL, .source = source, .size = SIZE, .value = UINT32_MAX });
        suite_signal(s, from, 0, to, queue, words, 1);
        suite_wait(s, to, 0, words, 1);
        for (uint32_t i = 0; i < TURNS; i++)
            suite_check(s, to, 0, target + i * SIZE, SIZE, s->next_pattern - TURNS + i + 1);
    }
}

/* Empty writes deliver no bytes, with or without a scatter/gather entry, and whether or not they are deferred.  An
 * empty write that is not deferred still rings the doorbell for the deferred writes before it. */
static void case_zero_size(struct suite *s)
{
    enum { GUARD = 64 };
    const uint32_t words = suite_words(s, s->world->rank_count);
    EACH_RANK(s, from) EACH_RANK(s, to)
    {
        const uint64_t source = suite_heap(s, GUARD);
        const uint64_t guard = suite_heap(s, GUARD), target = suite_heap(s, GUARD);
        struct op op = { OP_FILL, .peer = (uint16_t)to, .source = source, .target = target, .size = GUARD };
        struct op empty = { OP_WRITE, .peer = (uint16_t)to, .source = source, .target = guard };
        op.value = ++s->next_pattern;
        suite_op(s, from, 0, op);
        for (uint32_t i = 0; i < 4; i++) {
            empty.value = i & 1;
            empty.defer = i & 2;
            suite_op(s, from, 0, empty);
        }
        op.kind = OP_WRITE;
        op.defer = true;
        suite_op(s, from, 0, op);
        empty.value = 0;
        empty.defer = false;
        suite_op(s, from, 0, empty);
        suite_signal(s, from, 0, to, 0, words + from, 1);
    }
    EACH_RANK(s, to) EACH_RANK(s, from)
    {
        const uint32_t pair = from * s->world->rank_count + to;
        const uint32_t pairs = s->world->rank_count * s->world->rank_count;
        const uint64_t guard = s->next_heap - (uint64_t)(pairs - pair) * 3 * GUARD + GUARD;
        suite_wait(s, to, 0, words + from, 1);
        suite_check(s, to, 0, guard, GUARD, 0);
        suite_check(s, to, 0, guard + GUARD, GUARD, s->next_pattern - pairs + pair + 1);
    }
}

/* A flush must mean that data are complete at the peer.  A later signal on another queue, which keeps no order with the
 * data, proves that. */
static void case_flush_is_complete(struct suite *s)
{
    enum { SIZE = 30000, PUTS = 6 };
    const uint32_t words = suite_words(s, s->world->rank_count);
    EACH_RANK(s, from)
    {
        const uint32_t to = (from + s->world->rank_count - 1) % s->world->rank_count;
        for (uint32_t i = 0; i < PUTS; i++) {
            struct op op = suite_block(s, to, 0, SIZE);
            op.defer = i % 2;
            suite_write(s, from, 0, op, OP_WRITE);
        }
        suite_flush(s, from, 0, to, 0);
        suite_signal(s, from, 0, to, 1, words, 1);
        suite_wait(s, to, 0, words, 1);
        for (uint32_t i = 0; i < PUTS; i++) {
            const uint64_t block = (SIZE + 63) / 64 * 64;
            suite_check(s, to, 0, s->next_heap - (PUTS - i) * 2 * block + block, SIZE, s->next_pattern - PUTS + i + 1);
        }
    }
}

/* More deferred puts than a queue holds are all delivered, although none of them asks for the doorbell. */
static void case_defer(struct suite *s)
{
    enum { PUTS = 3 * CONFORMANCE_DEPTH, SIZE = 96 };
    const uint32_t words = suite_words(s, s->world->rank_count);
    EACH_RANK(s, from) EACH_RANK(s, to)
    {
        const uint64_t source = suite_heap(s, SIZE), target = suite_heap(s, (PUTS + 1) * SIZE);
        const uint16_t queue = suite_queue(s);
        struct op op = { .kind = OP_FILL,
                         .peer = (uint16_t)to,
                         .queue = queue,
                         .size = SIZE,
                         .source = source,
                         .value = ++s->next_pattern,
                         .defer = true };
        suite_op(s, from, 0, op);
        op.kind = OP_WRITE;
        for (uint32_t i = 0; i < PUTS; i++) {
            op.target = target + i * SIZE;
            suite_op(s, from, 0, op);
        }
        suite_signal(s, from, 0, to, queue, words + from, 1);
        suite_wait(s, to, 0, words + from, 1);
        for (uint32_t i = 0; i < PUTS; i++) suite_check(s, to, 0, target + i * SIZE, SIZE, s->next_pattern);
        suite_check(s, to, 0, target + PUTS * SIZE, SIZE, 0);
    }
}

enum { LOCAL_WORKERS = 4 };

/* Several workers add to one private word, and no addition is lost.  Work is done exactly once.  Time never falls. */
static void case_local(struct suite *s)
{
    enum { WORKERS = LOCAL_WORKERS, TURNS = 50 };
    const uint64_t sum = WORKERS * TURNS * (TURNS + 1) / 2 + TURNS * WORKERS * (WORKERS - 1) / 2;
    const uint32_t word = suite_words(s, 1);
    EACH_RANK(s, rank) for (uint32_t i = 0; i < WORKERS; i++)
    {
        for (uint32_t turn = 1; turn <= TURNS; turn++) {
            suite_op(s, rank, i, (struct op){ .kind = OP_WORK, .value = turn });
            suite_op(s, rank, i, (struct op){ .kind = OP_ADD, .word = word, .value = i + turn });
            suite_op(s, rank, i, (struct op){ .kind = OP_CLOCK });
        }
        suite_wait(s, rank, i, word, sum);
    }
    suite_run(s);
    EACH_RANK(s, rank)
    for (uint32_t i = 0; s->program[rank] && i < WORKERS; i++)
        if (s->program[rank][i].works != TURNS * (TURNS + 1) / 2 && !s->why[0])
            snprintf(s->why, sizeof s->why, "rank %u worker %u: work was not done exactly once", rank, i);
    EACH_RANK(s, rank)
    {
        const struct fabric *f = s->world->fabric[rank];
        if (f && fabric_load(f, word) != sum && !s->why[0])
            snprintf(s->why, sizeof s->why, "rank %u: the sum of all adds is wrong", rank);
    }
}

/* As case_signal_after_data, but block and signal are one operation.  There are far more such operations than a queue
 * holds. */
static void case_put_signal(struct suite *s)
{
    static const uint32_t sizes[] = { 0, 1, 8, 300, 2500 };
    enum { BLOCKS = 4 * (sizeof sizes / sizeof sizes[0]) };
    const uint32_t words = suite_words(s, s->world->rank_count);
    EACH_RANK(s, from) EACH_RANK(s, to)
    {
        const uint16_t queue = suite_queue(s);
        for (uint32_t i = 0; i < BLOCKS; i++) {
            const uint32_t size = sizes[i % (sizeof sizes / sizeof sizes[0])];
            struct op op = suite_block(s, to, queue, size);
            op.word = words + from;
            op.raise = i + 1;
            suite_write(s, from, 0, op, OP_WRITE_SIGNAL);
            suite_wait(s, to, 1, words + from, i + 1);
            suite_check(s, to, 1, op.target, op.size, op.value);
        }
    }
}

/* Every rank adds to two counters of every rank, one for additions by RDMA and one for other additions.  Some additions
 * follow data.  No addition is lost, and a rank that has seen all additions sees all data. */
static void case_counters(struct suite *s)
{
    enum { TURNS = 12, SIZE = 200 };
    const uint32_t words = suite_words(s, 2), ready = suite_words(s, 1);
    EACH_RANK(s, to)
    {
        uint64_t sum[2] = { 0 };
        const uint64_t target = suite_heap(s, (uint64_t)s->world->rank_count * TURNS * SIZE);
        const uint64_t pattern = s->next_pattern;
        const struct fabric *own = s->world->fabric[to];
        EACH_RANK(s, from) for (uint32_t i = 0; i < TURNS; i++)
        {
            const struct fabric *f = s->world->fabric[from];
            const struct fabric *any = f ? f : own;
            const bool rdma = any && fabric_path(any, (uint16_t)(f ? to : from)) == FABRIC_RDMA;
            const uint64_t addend = 1 + i % 3;
            struct op op = { .kind = OP_FILL,
                             .peer = (uint16_t)to,
                             .queue = suite_queue(s),
                             .size = SIZE,
                             .source = suite_heap(s, SIZE),
                             .value = ++s->next_pattern,
                             .add = true,
                             .target = target + ((uint64_t)from * TURNS + i) * SIZE,
                             .word = words + !rdma,
                             .raise = addend };
            sum[!rdma] += addend;
            suite_write(s, from, 0, op, i % 4 ? OP_WRITE_SIGNAL : OP_WRITE);
            op.kind = OP_SIGNAL;
            op.value = addend;
            if (i % 4 == 0) suite_op(s, from, 0, op);
        }
        for (uint32_t kind = 0; kind < 2; kind++)
            suite_op(s, to, 1, (struct op){ .kind = OP_WAIT, .word = words + kind, .value = sum[kind], .add = true });
        for (uint32_t i = 0; i < s->world->rank_count * TURNS; i++)
            suite_check(s, to, 1, target + i * SIZE, SIZE, pattern + i + 1);
        suite_signal(s, to, 1, to, 0, ready, 1);
        suite_wait(s, to, 2, ready, 1); /* this signal is the only event that steps the worker */
        for (uint32_t kind = 0; kind < 2; kind++) suite_wait(s, to, 2, words + kind, sum[kind]);
    }
    suite_run(s);
    EACH_RANK(s, rank)
    {
        const struct fabric *f = s->world->fabric[rank];
        uint64_t sum = f ? fabric_load(f, words) + fabric_load(f, words + 1) : 0;
        if (f && sum != (uint64_t)s->world->rank_count * 2 * TURNS && !s->why[0])
            snprintf(s->why, sizeof s->why, "rank %u: expected counters of %u, found %llu", rank,
                     s->world->rank_count * 2 * TURNS, (unsigned long long)sum);
    }
}

/* Every rank reads blocks of every other rank, more than a queue holds, and posts its own puts in between. */
static void case_get(struct suite *s)
{
    static const uint32_t sizes[] = { 1, 8, 100, 2500, 9001 };
    enum { BLOCKS = 3 * (sizeof sizes / sizeof sizes[0]), BLOCK_BYTES = 9001 };
    const uint32_t words = suite_words(s, s->world->rank_count), ends = suite_words(s, s->world->rank_count);
    uint64_t source[BLOCKS];
    for (uint32_t i = 0; i < BLOCKS; i++) source[i] = suite_heap(s, BLOCK_BYTES);
    EACH_RANK(s, rank) for (uint32_t i = 0; i < BLOCKS; i++)
    {
        const uint64_t pattern = 1000 * (rank + 1) + i;
        suite_op(s, rank, 0, (struct op){ OP_FILL, .source = source[i], .size = BLOCK_BYTES, .value = pattern });
    }
    EACH_RANK(s, rank)
    EACH_RANK(s, to)
    suite_signal(s, rank, 0, to, 0, words + rank, 1);
    EACH_RANK(s, rank) EACH_RANK(s, from)
    {
        if (from == rank) continue;
        const uint16_t queue = suite_queue(s);
        uint64_t target[BLOCKS];
        suite_wait(s, rank, 0, words + from, 1);
        for (uint32_t i = 0; i < BLOCKS; i++) {
            struct op op = { OP_GET, .peer = (uint16_t)from, .queue = queue, .source = source[i] };
            op.size = sizes[i % (sizeof sizes / sizeof sizes[0])];
            op.target = target[i] = suite_heap(s, op.size);
            suite_op(s, rank, 0, op);
        }
        suite_flush(s, rank, 0, from, queue);
        for (uint32_t i = 0; i < BLOCKS; i++)
            suite_check(s, rank, 0, target[i], sizes[i % (sizeof sizes / sizeof sizes[0])], 1000 * (from + 1) + i);
        suite_signal(s, rank, 0, from, queue, ends + rank, 1);
    }
    EACH_RANK(s, rank)
    EACH_RANK(s, from)
    if (from != rank) suite_wait(s, rank, 0, ends + from, 1);
}

/* Workers that nothing else would step wake in time.  A worker whose word changes does not sleep on until its alarm.
 * If one step names two times, the sooner one counts, in either order.  At the end, no rank waits for an alarm that no
 * worker needs any more. */
static void case_wakes(struct suite *s)
{
    enum { NAPS = 3, UNITS = NAPS * (NAPS + 1) / 2 + 1 }; /* worker 0's naps and worker 1's last, in units of nap_ps */
    static const uint64_t nap_ps = 300 * PS_PER_US, hour_ps = 3600 * PS_PER_S;
    const uint32_t word = suite_words(s, 2);
    uint64_t start_ps[CONFORMANCE_RANKS] = { 0 };
    EACH_RANK(s, rank)
    {
        const struct fabric *f = s->world->fabric[rank];
        if (f) start_ps[rank] = fabric_now_ps(f);
        suite_signal(s, rank, 0, rank, 0, word + 1, 1);
        for (uint32_t i = NAPS; i > 0; i--) suite_op(s, rank, 0, (struct op){ .kind = OP_SLEEP, .value = i * nap_ps });
        suite_signal(s, rank, 0, rank, 0, word, 1);
        suite_op(s, rank, 1, (struct op){ .kind = OP_ALARM, .value = hour_ps });
        suite_wait(s, rank, 1, word, 1);
        suite_op(s, rank, 1, (struct op){ .kind = OP_SLEEP, .value = nap_ps });
        suite_op(s, rank, 2, (struct op){ .kind = OP_ALARM, .value = nap_ps });
        suite_wait(s, rank, 2, word + 1, 1);
        suite_op(s, rank, 2, (struct op){ .kind = OP_SLEEP, .value = 2 * nap_ps });
    }
    suite_run(s);
    EACH_RANK(s, rank)
    {
        const struct fabric *f = s->world->fabric[rank];
        const uint64_t took_ps = f ? fabric_now_ps(f) - start_ps[rank] : 0;
        if (f && !s->why[0] && (took_ps < UNITS * nap_ps || took_ps >= hour_ps))
            snprintf(s->why, sizeof s->why, "rank %u: expected naps of %llu us in all, found %llu", rank,
                     (unsigned long long)(UNITS * nap_ps / PS_PER_US), (unsigned long long)(took_ps / PS_PER_US));
    }
}

/* One message of the all-to-all: a write by `worker`, then a signal.  The signal counts the messages that `from` has
 * sent to `to`. */
static void suite_message(struct suite *s, uint32_t words, uint32_t worker, uint32_t from, uint32_t to, uint64_t n)
{
    const uint32_t size = 1 + (uint32_t)rng_below(&s->rng, 3000);
    const uint16_t queue = (uint16_t)worker;
    struct op op = suite_block(s, to, queue, size);
    op.defer = rng_below(&s->rng, 2);
    const uint32_t word = words + from * 2 + worker;
    suite_write(s, from, worker, op, OP_WRITE);
    suite_signal(s, from, worker, to, queue, word, n);
    suite_wait(s, to, 2 + worker, word, n);
    suite_check(s, to, 2 + worker, op.target, op.size, op.value);
}

/* Every rank sends to every rank, with two sending and two receiving workers.  Sizes and order are drawn from the
 * seed. */
static void case_all_to_all(struct suite *s)
{
    enum { ROUNDS = 5 };
    const uint32_t ranks = s->world->rank_count;
    const uint32_t words = suite_words(s, ranks * 2);
    for (uint32_t n = 1; n <= ROUNDS; n++)
        for (uint32_t worker = 0; worker < 2; worker++) EACH_RANK(s, from)
            {
                const uint32_t first = (uint32_t)rng_below(&s->rng, ranks);
                EACH_RANK(s, i) suite_message(s, words, worker, from, (first + i) % ranks, n);
            }
}

/* Hashes the bytes [from, to) of the heaps of all local ranks into one number. */
static uint64_t suite_digest(const struct suite *s, uint64_t from, uint64_t to)
{
    uint64_t digest = 0;
    EACH_RANK(s, rank)
    {
        const struct fabric *f = s->world->fabric[rank];
        for (uint64_t i = from; f && i < to; i++) digest = (digest ^ f->heap[i]) * UINT64_C(0x100000001b3);
    }
    return digest;
}

/* The same traffic, run twice, leaves the same bytes. */
static void case_reproducible(struct suite *s)
{
    uint64_t digest[2], start = 0;
    const struct rng rng = s->rng;
    const uint64_t pattern = s->next_pattern;
    for (uint32_t i = 0; i < 2; i++) {
        s->rng = rng;
        s->next_pattern = pattern;
        start = s->next_heap;
        if (i > 0) suite_begin(s, s->worker_count);
        case_all_to_all(s);
        suite_run(s);
        if (s->why[0]) return;
        digest[i] = suite_digest(s, start, s->next_heap);
        if (i == 0) suite_end(s);
    }
    if (digest[0] != digest[1]) g_strlcpy(s->why, "the second run left other bytes", sizeof s->why);
}

static const struct {
    const char *name;
    uint32_t workers;             /* programs of each rank */
    void (*run)(struct suite *s); /* writes the programs; may also run them and check what has come of them */
} cases[] = {
    { "zero at the start", 1, case_zero_at_start },
    { "signal after data", 2, case_signal_after_data },
    { "signals in order", 2, case_signals_in_order },
    { "back-pressure", 1, case_back_pressure },
    { "ownership", 1, case_ownership },
    { "zero size", 1, case_zero_size },
    { "flush is complete", 1, case_flush_is_complete },
    { "defer", 1, case_defer },
    { "local work and adds", LOCAL_WORKERS, case_local },
    { "put with a signal", 2, case_put_signal },
    { "counters", 3, case_counters },
    { "get", 1, case_get },
    { "wakes", 3, case_wakes },
    { "all to all", 4, case_all_to_all },
    { "reproducible", 4, case_reproducible },
};

static void suite_report(const struct suite *s, const char *name)
{
    if (s->world->report) s->world->report(s->world->context, name, s->why);
    else if (s->why[0]) printf("\n      %s: %s\n", name, s->why);
}

uint32_t conformance_run(const struct conformance_world *world, uint64_t seed)
{
    assert(world->rank_count <= CONFORMANCE_RANKS);
    struct suite s = { .world = world };
    rng_seed(&s.rng, seed);
    uint32_t failed = 0;
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (world->barrier && !world->barrier(world->context, s.why, sizeof s.why)) {
            suite_report(&s, cases[i].name);
            return failed + 1;
        }
        suite_begin(&s, cases[i].workers);
        cases[i].run(&s);
        if (!s.ran) suite_run(&s);
        suite_end(&s);
        suite_report(&s, cases[i].name);
        failed += s.why[0] != '\0';
    }
    return failed;
}
