/* waits.c - wraps workers in other workers, which measure how long each waits for which rank.  Knows no world and no
 * protocol.
 *
 * In a live world, measuring slows what is measured, and there are many more steps than waits.  So the clock is read
 * only once in a round of steps, and after operations.  When other workers have done operations, a worker that
 * continues to wait is asked what it waits for only once its wait has become an eighth longer.  So at most an eighth
 * of a wait is attributed to the wrong rank. */
#include "models/waits.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "sim/memory.h"

struct waiter {
    struct fabric_worker worker; /* the worker that the world steps */
    struct fabric_worker *inner; /* the worker that the protocol made */
    struct waits *waits;
    uint64_t since_ps, ask_ps, operations;
    int32_t peer;
    bool waiting;
    char text[WAITS_TEXT_BYTES];
};

struct waits {
    const struct fabric *fabric;
    struct waits_options options;
    struct waiter *waiter;
    struct fabric_worker **pointer;
    uint32_t count, count_max;
    uint64_t now_ps, operations; /* time and operations when the clock was last read */
    uint32_t last;               /* index of the worker that was last stepped */
    uint64_t *sum_ps;            /* [ranks] the sum of all waits for each peer */
    uint32_t *waiters;           /* [ranks] how many workers have waited for the peer */
    uint8_t *met;                /* [count_max][(ranks + 7) / 8] a bit for each peer for which the worker has waited */
};

int32_t waits_peer(const char *text, uint32_t rank_count)
{
    const char *at = strstr(text, "waits");
    if (!at) at = text;
    while ((at = strstr(at, "rank "))) {
        char *end;
        at += strlen("rank ");
        const unsigned long rank = strtoul(at, &end, 10);
        if (end != at && *at != '-' && rank < rank_count) return (int32_t)rank;
    }
    return WAITS_NOBODY;
}

bool waits_anybody(const char *text)
{
    const char *const at = strstr(text, "waits");
    return at && strstr(at, "any rank");
}

struct waits *waits_new(const struct fabric *fabric, const struct waits_options *options)
{
    struct waits *waits = memory_new(1, sizeof *waits);
    waits->fabric = fabric;
    waits->options = *options;
    waits->sum_ps = memory_new(fabric->rank_count, sizeof waits->sum_ps[0]);
    waits->waiters = memory_new(fabric->rank_count, sizeof waits->waiters[0]);
    return waits;
}

void waits_free(struct waits *waits)
{
    if (!waits) return;
    FREE_ALL(waits->waiter, waits->pointer, waits->sum_ps, waits->waiters, waits->met, waits);
}

static uint64_t busy_until(const struct waits *waits)
{
    return waits->options.busy_until_ps ? waits->options.busy_until_ps(waits->fabric) : fabric_now_ps(waits->fabric);
}

static void wait_finish(struct waiter *w, uint64_t end_ps)
{
    struct waits *waits = w->waits;
    if (!w->waiting) return;
    w->waiting = false;
    if (end_ps <= w->since_ps) return;
    if (w->peer >= 0) {
        const uint32_t peer = (uint32_t)w->peer, ranks = waits->fabric->rank_count;
        uint8_t *met = &waits->met[(size_t)w->worker.index * ((ranks + 7) / 8) + peer / 8];
        waits->sum_ps[peer] += end_ps - w->since_ps;
        waits->waiters[peer] += !(*met >> peer % 8 & 1);
        *met |= (uint8_t)(1 << peer % 8);
    }
    if (waits->options.note)
        waits->options.note(
            waits->options.context,
            &(struct waits_note){
                .worker = w->inner, .begin_ps = w->since_ps, .end_ps = end_ps, .peer = w->peer, .text = w->text });
}

/* What the worker says that it waits for, up to a colon.  After the colon come counts, which change often. */
static void worker_say(const struct waiter *w, char text[WAITS_TEXT_BYTES])
{
    text[0] = '\0';
    fabric_worker_describe(w->inner, text, WAITS_TEXT_BYTES);
    text[strcspn(text, ":")] = '\0';
}

static uint64_t operations_done(const struct waits *waits)
{
    return waits->options.operations ? waits->options.operations(waits->fabric) : 0;
}

/* Returns the time at which a worker is stepped.  Where the world counts operations, reads the clock only in a new
 * round or after operations. */
static uint64_t clock_read(struct waits *waits, uint32_t worker, uint64_t operations)
{
    if (!waits->options.operations || operations != waits->operations || worker <= waits->last)
        waits->now_ps = fabric_now_ps(waits->fabric);
    waits->operations = operations;
    waits->last = worker;
    return waits->now_ps;
}

/* Whether a worker that continues to wait counts as waiting for the same event as before, without being asked.  It
 * does if the rank has done no operations since the worker was last asked, or if it is too early to ask again
 * (ask_ps). */
static bool waits_on(const struct waiter *w, uint64_t now_ps, uint64_t operations)
{
    return w->waiting && w->waits->options.operations && (operations == w->operations || now_ps < w->ask_ps);
}

static enum worker_step waiter_step(struct fabric_worker *worker)
{
    struct waiter *w = fabric_container_of(worker, struct waiter, worker);
    struct waits *waits = w->waits;
    assert(w >= waits->waiter && w < waits->waiter + waits->count);
    const uint64_t before = operations_done(waits), now_ps = clock_read(waits, worker->index, before);
    const enum worker_step result = fabric_worker_step(w->inner);
    if (result != WORKER_WAIT) {
        wait_finish(w, now_ps);
        return result;
    }
    const uint64_t operations = operations_done(waits);
    if (operations == before && waits_on(w, now_ps, operations)) return result;
    char text[WAITS_TEXT_BYTES];
    worker_say(w, text);
    if (w->waiting && operations == before && strcmp(text, w->text) == 0) {
        w->operations = operations;
        w->ask_ps = now_ps + (now_ps - w->since_ps) / 8;
        return result;
    }
    wait_finish(w, now_ps);
    memcpy(w->text, text, sizeof text);
    w->peer = waits_peer(text, waits->fabric->rank_count);
    w->since_ps = w->ask_ps = busy_until(waits);
    w->operations = operations;
    w->waiting = true;
    return result;
}

static void waiter_describe(const struct fabric_worker *worker, char *text, size_t text_size)
{
    const struct waiter *w = fabric_container_of(worker, struct waiter, worker);
    fabric_worker_describe(w->inner, text, text_size);
}

static const struct worker_role waiter_role = { .step = waiter_step, .describe = waiter_describe };

static void room_make(struct waits *waits, uint32_t count)
{
    if (count <= waits->count_max) return;
    FREE_ALL(waits->waiter, waits->pointer, waits->met);
    waits->waiter = memory_new(count, sizeof waits->waiter[0]);
    waits->pointer = memory_new(count, sizeof waits->pointer[0]);
    waits->met = memory_new(count, (waits->fabric->rank_count + 7) / 8);
    waits->count_max = count;
}

struct fabric_worker **waits_wrap(struct waits *waits, struct fabric_worker *const *worker, uint32_t count)
{
    static struct fabric_worker *none[1];
    const uint32_t ranks = waits->fabric->rank_count;
    room_make(waits, count);
    waits->last = UINT32_MAX; /* the clock is read at the first step */
    memset(waits->sum_ps, 0, ranks * sizeof waits->sum_ps[0]);
    memset(waits->waiters, 0, ranks * sizeof waits->waiters[0]);
    if (count) memset(waits->met, 0, (size_t)count * ((ranks + 7) / 8));
    waits->count = count;
    assert(count <= waits->count_max);
    for (uint32_t i = 0; i < count; i++) {
        struct waiter *w = &waits->waiter[i];
        *w = (struct waiter){ .worker = *worker[i], .inner = worker[i], .waits = waits };
        w->worker.role = worker_role_number(&w->worker.fabric->roles, &waiter_role);
        waits->pointer[i] = &w->worker;
    }
    return count ? waits->pointer : none;
}

void waits_end(struct waits *waits)
{
    const uint64_t now_ps = fabric_now_ps(waits->fabric);
    for (uint32_t i = 0; i < waits->count; i++) wait_finish(&waits->waiter[i], now_ps);
}

double waits_us(const struct waits *waits, uint32_t peer)
{
    assert(peer < waits->fabric->rank_count);
    return waits->waiters[peer] ? (double)waits->sum_ps[peer] / waits->waiters[peer] / 1e6 : 0;
}
