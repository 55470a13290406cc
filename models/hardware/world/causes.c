/* causes.c - which worker posted each request that arrives, what ended each wait, and the critical path.
 *
 * The path is found backwards.  It begins at the worker that ended last and goes to its last wait.  From there it goes
 * to the post that ended this wait, on the worker that posted it, and so on to the kernel's begin.  Of the words that a
 * worker watches, the one that changed last before the end of a wait ended it.  Where the cause of a wait is unknown,
 * the path stays on the worker.  Knows no costs and no protocol. */
#include "models/hardware/world/causes.h"

#include <glib.h>
#include <stdio.h>
#include <stdlib.h>
#include "sim/memory.h"
#include "sim/timeline.h"

enum { PAGE_FLIGHTS = 4096, PENDING_MAX = 4, WAITS_MAX = 4000000, PATH_STEPS_MAX = 100000 };

/* A request under way. */
struct flight {
    struct causes_place from;
    bool open;
};

/* A flight's place in the pages of its part follows from its request's name.  Names of two requests differ by at
 * least the size of a request, so no two flights share a place. */
enum { REQUEST_UNITS = sizeof(struct request) / ARENA_UNIT_BYTES };
#define PAGES_MAX (UINT32_MAX / REQUEST_UNITS / PAGE_FLIGHTS + 1)

/* The last change of a word: who made it, and where it was last seen. */
struct cause {
    struct causes_place by, seen;
    bool known;
};

struct watched {
    uint32_t word, word_count;
    uint32_t previous; /* 1 + the place of the same worker's watch before it; 0: none */
};

struct wait {
    uint64_t begin_ps, end_ps;
    uint32_t previous; /* 1 + the place of the same worker's wait before it; 0: none */
    struct cause cause;
    const char *text;
};

struct rank_causes {
    struct cause *word; /* [word_count] */
    struct watched *watched;
    uint32_t *last;    /* [worker_max] 1 + the place of the worker's last wait in `wait`; 0: none */
    uint32_t *watches; /* [watcher_max] 1 + the place of the worker's last watch in `watched` */
    uint32_t watched_count, watched_max, worker_max, watcher_max;
    uint32_t queue, bytes; /* counters of the timeline */
    bool launched;         /* the rank has launched a kernel since its last watch */
};

struct causes {
    struct timeline *timeline;
    uint32_t ranks, path;
    struct rank_causes *rank;
    const struct arena **arena;
    uint32_t parts, part_ranks;
    struct flight ***page; /* [parts][PAGES_MAX], NULL until it is used */
    const struct request *pending[PENDING_MAX];
    uint32_t pending_count;
    struct wait *wait;
    uint32_t wait_count, wait_max;
    GStringChunk *texts; /* of waits, each once */
};

struct causes *causes_new(struct timeline *timeline, uint32_t ranks, uint32_t words, const struct arena **arena,
                          uint32_t parts, uint32_t part_ranks)
{
    struct causes *c = memory_new(1, sizeof *c);
    *c = (struct causes){
        .timeline = timeline, .ranks = ranks, .arena = arena, .parts = parts, .part_ranks = part_ranks
    };
    c->rank = memory_new(ranks, sizeof c->rank[0]);
    c->page = memory_new(parts, sizeof c->page[0]);
    for (uint32_t p = 0; p < parts; p++) c->page[p] = memory_new(PAGES_MAX, sizeof c->page[p][0]);
    c->texts = g_string_chunk_new(4096);
    for (uint32_t r = 0; r < c->ranks; r++) {
        c->rank[r].word = memory_new((uint64_t)words + 1, sizeof c->rank[r].word[0]);
        c->rank[r].queue = timeline_counter(c->timeline, r, "NIC queue (requests)");
        c->rank[r].bytes = timeline_counter(c->timeline, r, "on the way (bytes)");
    }
    timeline_name_process(c->timeline, c->ranks, "critical path");
    timeline_name_track(c->timeline, c->ranks, 0, "what the end waited for");
    return c;
}

void causes_free(struct causes *c)
{
    if (!c) return;
    for (uint32_t r = 0; r < c->ranks; r++) {
        free(c->rank[r].word);
        free(c->rank[r].watched);
        free(c->rank[r].last);
        free(c->rank[r].watches);
    }
    for (uint32_t p = 0; p < c->parts; p++) {
        for (uint32_t i = 0; i < PAGES_MAX; i++) free(c->page[p][i]);
        free(c->page[p]);
    }
    free(c->page);
    free(c->arena);
    g_string_chunk_free(c->texts);
    free(c->rank);
    free(c->wait);
    free(c);
}

void causes_launch(struct causes *c, uint32_t rank, uint32_t worker_count)
{
    struct rank_causes *rc = &c->rank[rank];
    if (worker_count > rc->worker_max) {
        rc->last = memory_grow(rc->last, worker_count, sizeof rc->last[0]);
        rc->worker_max = worker_count;
    }
    for (uint32_t i = 0; i < rc->worker_max; i++) rc->last[i] = 0;
    rc->launched = true;
}

void causes_watch(struct causes *c, uint32_t rank, uint32_t worker, uint32_t word, uint32_t word_count)
{
    struct rank_causes *rc = &c->rank[rank];
    if (rc->launched) { /* this is the first watch of the next launch: watches are declared before it */
        rc->watched_count = 0;
        for (uint32_t i = 0; i < rc->watcher_max; i++) rc->watches[i] = 0;
    }
    rc->launched = false;
    if (worker >= rc->watcher_max) {
        rc->watches = memory_grow(rc->watches, 2 * (uint64_t)worker + 1, sizeof rc->watches[0]);
        while (rc->watcher_max < 2 * worker + 1) rc->watches[rc->watcher_max++] = 0;
    }
    if (rc->watched_count == rc->watched_max) {
        rc->watched_max = 2 * rc->watched_max + 16;
        rc->watched = memory_grow(rc->watched, rc->watched_max, sizeof rc->watched[0]);
    }
    rc->watched[rc->watched_count++] = (struct watched){ word, word_count, rc->watches[worker] };
    rc->watches[worker] = rc->watched_count;
}

/* ---- requests ---- */

static struct flight *flight_of(struct causes *c, const struct request *r)
{
    const uint32_t part = c->parts > 1 ? r->source / c->part_ranks : 0;
    const uint32_t number = arena_name_of(c->arena[part], r) / REQUEST_UNITS;
    struct flight **const page = &c->page[part][number / PAGE_FLIGHTS];
    if (!*page) *page = memory_new(PAGE_FLIGHTS, sizeof **page);
    return &(*page)[number % PAGE_FLIGHTS];
}

void causes_post(struct causes *c, const struct request *r)
{
    if (c->pending_count < PENDING_MAX) c->pending[c->pending_count++] = r;
}

void causes_posted(struct causes *c, const struct causes_place *place)
{
    for (uint32_t i = 0; i < c->pending_count; i++) {
        *flight_of(c, c->pending[i]) = (struct flight){ *place, true };
        timeline_count(c->timeline, c->rank[place->rank].queue, place->time_ps, 1);
    }
    c->pending_count = 0;
}

void causes_sent(struct causes *c, const struct request *r, uint64_t begin_ps)
{
    if (r->answer || !flight_of(c, r)->open) return;
    timeline_count(c->timeline, c->rank[r->source].queue, begin_ps, -1);
    timeline_count(c->timeline, c->rank[r->source].bytes, begin_ps, r->wire_bytes);
}

void causes_received(struct causes *c, const struct request *r, uint32_t track, uint64_t begin_ps, uint64_t end_ps)
{
    struct flight *const f = flight_of(c, r);
    if (!f->open) return;
    if (!r->answer) timeline_count(c->timeline, c->rank[r->source].bytes, end_ps, -(int64_t)r->wire_bytes);
    if (f->from.time_ps <= begin_ps)
        timeline_arrow(c->timeline, &(struct timeline_arrow){ .name = r->put      ? "put"
                                                                      : r->signal ? "signal"
                                                                                  : "get",
                                                              .from_process = f->from.rank,
                                                              .from_track = f->from.track,
                                                              .from_ps = f->from.time_ps,
                                                              .to_process = r->target,
                                                              .to_track = track,
                                                              .to_ps = begin_ps });
    if (r->signal)
        c->rank[r->target].word[r->word] =
            (struct cause){ f->from, { r->target, f->from.worker, track, begin_ps }, true };
    if (!r->get) f->open = false; /* a get's flight stays open for its answer */
}

void causes_answered(struct causes *c, const struct request *get, const struct request *answer)
{
    *flight_of(c, answer) = *flight_of(c, get);
}

void causes_raised(struct causes *c, uint32_t rank, uint32_t word, const struct causes_place *from)
{
    c->rank[rank].word[word] = (struct cause){ *from, *from, true };
}

/* ---- waits ---- */

/* The cause of the last change before end_ps of a word that the worker watches. */
static struct cause cause_find(const struct rank_causes *rc, uint32_t worker, uint64_t end_ps)
{
    const struct cause *last = NULL;
    for (uint32_t i = worker < rc->watcher_max ? rc->watches[worker] : 0; i; i = rc->watched[i - 1].previous) {
        const struct watched *watched = &rc->watched[i - 1];
        for (uint32_t word = watched->word_count; word-- > 0;) { /* of changes at one time, that of the first
                                                                  * declared word counts */
            const struct cause *cause = &rc->word[watched->word + word];
            if (!cause->known || cause->seen.time_ps >= end_ps) continue;
            if (!last || cause->seen.time_ps >= last->seen.time_ps) last = cause;
        }
    }
    return last ? *last : (struct cause){ .known = false };
}

void causes_waited(struct causes *c, const struct causes_place *place, uint64_t end_ps, const char *text)
{
    struct rank_causes *rc = &c->rank[place->rank];
    const struct cause cause = cause_find(rc, place->worker, end_ps);
    if (cause.known && cause.seen.track != CAUSES_NO_TRACK)
        timeline_arrow(c->timeline, &(struct timeline_arrow){ .name = "wakes",
                                                              .from_process = cause.seen.rank,
                                                              .from_track = cause.seen.track,
                                                              .from_ps = cause.seen.time_ps,
                                                              .to_process = place->rank,
                                                              .to_track = place->track,
                                                              .to_ps = end_ps - 1 });
    if (place->worker >= rc->worker_max || c->wait_count == WAITS_MAX) return;
    if (c->wait_count == c->wait_max) {
        c->wait_max = 2 * c->wait_max + 1024;
        c->wait = memory_grow(c->wait, c->wait_max, sizeof c->wait[0]);
    }
    text = g_string_chunk_insert_const(c->texts, text);
    c->wait[c->wait_count++] = (struct wait){ place->time_ps, end_ps, rc->last[place->worker], cause, text };
    rc->last[place->worker] = c->wait_count;
}

/* The worker's last wait that ended by time_ps, or NULL. */
static const struct wait *wait_before(const struct causes *c, uint32_t rank, uint32_t worker, uint64_t time_ps)
{
    const struct rank_causes *rc = &c->rank[rank];
    uint32_t at = worker < rc->worker_max ? rc->last[worker] : 0;
    while (at && c->wait[at - 1].end_ps > time_ps) at = c->wait[at - 1].previous;
    return at ? &c->wait[at - 1] : NULL;
}

static void path_span(struct causes *c, const char *name, const char *detail, uint64_t begin_ps, uint64_t end_ps)
{
    if (begin_ps >= end_ps) return;
    timeline_span(
        c->timeline,
        &(struct timeline_span){
            .name = name, .begin_ps = begin_ps, .end_ps = end_ps, .process = c->ranks, .track = 0, .detail = detail });
}

void causes_path(struct causes *c, const char *kernel, uint32_t rank, uint32_t worker, uint64_t begin_ps,
                 uint64_t end_ps)
{
    char name[96];
    for (uint32_t step = 0; step < PATH_STEPS_MAX && end_ps > begin_ps; step++) {
        const struct wait *wait = wait_before(c, rank, worker, end_ps);
        const uint64_t from_ps = wait && wait->end_ps > begin_ps ? wait->end_ps : begin_ps;
        snprintf(name, sizeof name, "rank %u, worker %u works", rank, worker);
        path_span(c, name, kernel, from_ps, end_ps);
        if (from_ps == begin_ps) return;
        const struct cause *cause = &wait->cause;
        const bool sound = cause->known && cause->by.time_ps < wait->end_ps && cause->by.time_ps >= begin_ps;
        const uint64_t cause_ps = sound ? cause->by.time_ps : wait->begin_ps;
        if (!sound) snprintf(name, sizeof name, "rank %u, worker %u waits", rank, worker);
        else if (cause->by.rank == rank) snprintf(name, sizeof name, "rank %u, within", rank);
        else snprintf(name, sizeof name, "rank %u to rank %u", cause->by.rank, rank);
        path_span(c, name, wait->text, cause_ps > begin_ps ? cause_ps : begin_ps, wait->end_ps);
        if (sound) {
            rank = cause->by.rank;
            worker = cause->by.worker;
        }
        end_ps = cause_ps;
    }
}
