/* words.c - the signal words of ranks: which workers watch them, how values come to them, and which workers a change
 * wakes; see words.h.
 *
 * A worker reads words only while it steps.  So in a world of one NVLink domain a value under way needs no event.  It
 * is a letter to each worker that watches the word, and the letter carries its time of arrival.  A step begins by
 * reading the letters that have arrived.  A letter is no event, but the step that it causes is one.  Each worker sees
 * each value at the time at which it would see it with events.  Only the order of steps at one picosecond differs:
 * they run in the order in which letters were sent, not in which they arrived.  Nothing promises an order of such
 * steps.  Words that NICs write, and words on hosts, change by events. */
#include "models/hardware/world/words.h"
#include "models/hardware/world/world_internal.h"

#include <assert.h>
#include <malloc.h>
#include <stdlib.h>

void world_rest_begin(struct world_worker *ww)
{
    struct world_rank *rank = worker_rank(ww);
    if (!rank->rest) rank->rest = arena_take(&rank->world->arena, rank->worker_max * sizeof rank->rest[0]);
    rank->rest[ww->worker->index] = (struct rest){ 0 };
    ww->rested = true;
}

void world_mail_read(struct world_worker *ww, uint64_t now_ps)
{
    if (!ww->rested) return;
    struct world_rank *rank = worker_rank(ww);
    struct rest *rest = worker_rest(ww);
    struct letter *l = rest->mail;
    if (!l) return;
    while (l && l->time_ps <= now_ps) {
        struct letter *const next = l->next;
        uint64_t *place = &rank->fabric.words[l->word];
        if (l->add) *place += l->value;
        else if (l->value > *place) *place = l->value; /* otherwise an earlier letter brought a newer value */
        pool_put(&rank->world->letters, l);
        l = next;
    }
    rest->mail = l;
    if (l) l->previous = NULL;
    else rest->mail_last = NULL;
}

/* Adds a letter to a worker's mail, in order of arrival.  Searches from the end, because most letters arrive in the
 * order in which they are sent. */
static void mail_add(struct world_worker *ww, struct letter *letter)
{
    struct rest *rest = worker_rest(ww);
    struct letter *before = rest->mail_last;
    while (before && before->time_ps > letter->time_ps) before = before->previous;
    letter->previous = before;
    letter->next = before ? before->next : rest->mail;
    if (before) before->next = letter;
    else rest->mail = letter;
    if (letter->next) letter->next->previous = letter;
    else rest->mail_last = letter;
}

/* The watches of a word, the newest first.  The watch of a lone worker is made in *lone. */
static const struct watch *watches_of(const struct world_rank *rank, uint32_t word, struct watch *lone)
{
    const uint32_t head = rank->watch_head[word];
    if (!(head & (WATCH_LONE | WATCH_COUNTER))) return head ? &rank->watch[head - 1] : NULL;
    *lone = (struct watch){ .worker = head & WATCH_NUMBER, .count = 1 };
    if (head & WATCH_LONE) return lone;
    const struct counter *counter = &rank->counter[head & WATCH_NUMBER];
    lone->worker = counter->worker;
    lone->least = counter->least;
    return lone;
}

static const struct watch *watch_next(const struct world_rank *rank, const struct watch *watch)
{
    return watch->next ? &rank->watch[watch->next - 1] : NULL;
}

/* When a waiting worker sees a change that happens at time_ps. */
static uint64_t seen_ps(const struct world *w, struct world_worker *ww, uint64_t time_ps)
{
    if (!ww->looks) return time_ps + w->poll_ps;
    return time_ps + looks_seen_ps(worker_rank(ww)->looks, &w->cluster->node, ww->worker->index);
}

/* Consecutive workers are woken by one event if there are at least this many; fewer get an event each. */
enum { ROW_LEAST = 4 };

static void row_done(struct sim *sim, struct sim_row *row)
{
    struct world *w = sim_owner(sim);
    pool_put(&w->rows, row);
}

/* Wakes consecutive workers of a watch by one event, from number `last` downwards and at most `most`.  Stops at a
 * worker that has a step to come, is busy, polls the host's memory, or awaits a value.  Returns how many workers it
 * wakes.  If there are fewer than ROW_LEAST, it wakes none. */
static uint32_t row_wake(struct world_rank *rank, uint32_t last, uint32_t most)
{
    struct world *w = rank->world;
    const uint64_t now = sim_now_ps(w->sim), step_ps = now + w->poll_ps;
    uint32_t count = 0;
    for (; count < most; count++) {
        const struct world_worker *const ww = &rank->worker[last - count];
        if (ww->settled_ps <= now || sim_event_pending(&ww->event) || ww->cursor_ps > step_ps || ww->looks ||
            ww->awaits)
            break;
    }
    if (count < ROW_LEAST) return 0;
    for (uint32_t i = 0; i < count; i++) rank->worker[last - i].settled_ps = now;
    struct sim_row *row = pool_get(&w->rows);
    *row = (struct sim_row){ .first = &rank->worker[last].event,
                             .stride_bytes = -(int32_t)sizeof rank->worker[0],
                             .count = count,
                             .done = row_done };
    sim_schedule_row(w->sim, row, step_ps);
    return count;
}

/* Handles the change of a word that a worker watches while its next step is left out.  Returns true if the change wakes
 * the worker as usual.  Returns false if a step would still find nothing.  Also returns false if the step that was left
 * out is not due yet, and then schedules that step. */
static bool await_ends(struct world_worker *ww, uint64_t seen_ps)
{
    struct world_rank *rank = worker_rank(ww);
    struct sim *sim = rank->world->sim;
    struct rest *rest = worker_rest(ww);
    const bool skipped = rest->skipped_ps >= sim_now_ps(sim);
    if (rest->skipped_ps && !skipped) ww->cursor_ps = rank->world->machine->step_begin(rank, rest->skipped_ps);
    if (rank->fabric.words[rest->awaited] < rest->least) {
        if (!skipped) rest->skipped_ps = later(seen_ps, ww->cursor_ps);
        return false;
    }
    ww->awaits = false;
    if (!skipped || sim_event_pending(&ww->event)) return true;
    ww->settled_ps = sim_now_ps(sim);
    sim_schedule_at(sim, &ww->event, rest->skipped_ps);
    return false;
}

static void watcher_wake(const struct world *w, struct world_worker *ww)
{
    const uint64_t now = sim_now_ps(w->sim), at_ps = seen_ps(w, ww, now);
    if (!ww->awaits || await_ends(ww, at_ps)) world_worker_wake(w->sim, ww, now, at_ps);
}

static void watchers_wake(struct world_rank *rank, const struct watch *watch)
{
    for (uint32_t left = watch->count; left;) {
        const uint32_t last = watch->worker + left - 1, woken = row_wake(rank, last, left);
        if (!woken) watcher_wake(rank->world, &rank->worker[last]);
        left -= woken ? woken : 1;
    }
}

void world_word_deliver(struct world_rank *rank, uint32_t word, uint64_t value, bool add)
{
    uint64_t *place = &rank->fabric.words[word];
    struct watch lone;
    assert(add || value >= *place);
    *place = add ? *place + value : value;
    const uint32_t head = rank->watch_head[word];
    if (head & WATCH_LONE) {
        watcher_wake(rank->world, &rank->worker[head & WATCH_NUMBER]);
        return;
    }
    for (const struct watch *watch = watches_of(rank, word, &lone); watch; watch = watch_next(rank, watch))
        if (*place >= watch->least) watchers_wake(rank, watch);
}

bool world_counter_hold(struct world_rank *rank, uint32_t word, uint64_t value, uint64_t *time_ps)
{
    uint64_t *place = &rank->fabric.words[word];
    __builtin_prefetch(place, 1);
    const uint32_t head = rank->watch_head[word];
    if (!(head & WATCH_COUNTER)) return false;
    struct counter *counter = &rank->counter[head & WATCH_NUMBER];
    if (*place >= counter->least) return false;
    counter->held_ps = *time_ps = later(counter->held_ps, *time_ps);
    if (*place + value >= counter->least) return false;
    *place += value; /* the word changes too early, but its only reader waits for a larger value */
    return true;
}

/* Whether an addition at time_ps that makes the sum reach the awaited value needs no event.  Only an addition by a
 * worker of the rank itself can do without one.  The worker that waits then makes the sum when it reads the word at
 * time_ps or later.  Nobody else reads such a word. */
static bool counter_reach(struct world_rank *rank, uint32_t word, uint64_t value, uint64_t time_ps)
{
    const struct world *w = rank->world;
    const uint32_t head = rank->watch_head[word], place = head & WATCH_NUMBER;
    if (!(head & WATCH_COUNTER) || !rank->now.worker || w->machine->receive || value > UINT32_MAX) return false;
    struct counter *counter = &rank->counter[place];
    struct world_worker *ww = &rank->worker[counter->worker];
    if (counter->due || rank->fabric.words[word] >= counter->least || ww->counter != place + 1 || ww->done)
        return false;
    counter->due = (uint32_t)value;
    ww->due = true;
    if (ww != rank->now.worker) world_worker_wake(w->sim, ww, time_ps, seen_ps(w, ww, time_ps));
    return true;
}

/* Frees the rank's counters.  Once much memory has been freed in the whole world, it goes back to the system, because
 * other arrays may need it. */
static void counters_free(struct world_rank *rank)
{
    enum { MUCH_BYTES = 16 * 1024 * 1024 };
    struct world *whole = rank->world->whole;
    const uint64_t freed_bytes = (uint64_t)rank->counter_max * sizeof rank->counter[0];
    free(rank->counter);
    rank->counter = NULL;
    rank->counter_count = rank->counter_max = rank->counters_low = 0;
    if (atomic_fetch_add(&whole->freed_bytes, freed_bytes) + freed_bytes < MUCH_BYTES) return;
    atomic_store(&whole->freed_bytes, 0);
    (void)malloc_trim(0);
}

/* Ends a counter that has reached its worker's value.  From now on a lone worker watches its word, for any value. */
static void counter_end(struct world_rank *rank, struct world_worker *ww)
{
    rank->watch_head[rank->counter[ww->counter - 1].word] = WATCH_LONE + ww->worker->index;
    ww->counter = 0;
    assert(rank->counters_low > 0);
    if (--rank->counters_low == 0) counters_free(rank);
}

static void counter_read(struct world_worker *ww, uint64_t now_ps)
{
    struct world_rank *rank = worker_rank(ww);
    struct counter *counter = &rank->counter[ww->counter - 1];
    if (counter->held_ps > now_ps) return;
    rank->fabric.words[counter->word] += counter->due;
    counter->due = 0;
    ww->due = false;
    counter_end(rank, ww);
}

void world_counters_launch(struct world_rank *rank)
{
    for (uint32_t i = 0; i < rank->counter_count; i++) {
        const struct counter *counter = &rank->counter[i];
        if (rank->watch_head[counter->word] != WATCH_COUNTER + i) continue;
        rank->worker[counter->worker].counter = i + 1;
        rank->counters_low++;
    }
}

void words_change_run(struct sim *sim, struct sim_event *event)
{
    struct world *w = sim_owner(sim);
    struct change *first = fabric_container_of(event, struct change, event), *last = NULL;
    for (struct change *c = first; c; c = c->next) {
        world_word_deliver(&w->rank[c->target], c->word, c->value, c->add);
        last = c;
    }
    pool_put_list(&w->changes, first, last);
}

static void letter_send(struct world_rank *target, struct world_worker *ww, uint32_t word, uint64_t value, bool add,
                        uint64_t time_ps)
{
    struct world *w = target->world;
    struct letter *l = pool_get(&w->letters);
    *l = (struct letter){ .time_ps = time_ps, .value = value, .word = word, .add = add };
    mail_add(ww, l);
    if (ww != target->now.worker) world_worker_wake(w->sim, ww, time_ps, seen_ps(w, ww, time_ps));
    w->mail_ps = later(w->mail_ps, time_ps);
}

/* Sends a letter to each running worker that watches the word.  Returns false if there is no such worker.  Also returns
 * false for an addition to a word that several workers watch, because its sum must be made once. */
static bool letters_send(struct world_rank *target, uint32_t word, uint64_t value, bool add, uint64_t time_ps)
{
    const uint32_t head = target->watch_head[word];
    if (head & WATCH_LONE) {
        struct world_worker *ww = &target->worker[head & WATCH_NUMBER];
        if (!ww->done) letter_send(target, ww, word, value, add, time_ps);
        return !ww->done;
    }
    struct watch lone;
    const struct watch *watch = watches_of(target, word, &lone);
    bool sent = false;
    if (add && watch && (watch->next || watch->count > 1)) return false;
    for (; watch; watch = watch_next(target, watch)) {
        for (uint32_t i = watch->count; i-- > 0;) {
            struct world_worker *ww = &target->worker[watch->worker + i];
            if (ww->done) continue;
            letter_send(target, ww, word, value, add, time_ps);
            sent = true;
        }
    }
    return sent;
}

void world_word_event(struct world_rank *target, uint32_t word, uint64_t value, bool add, uint64_t time_ps)
{
    struct world *w = target->world;
    struct change *c = pool_get(&w->changes);
    *c = (struct change){
        .event.kind = EVENT_CHANGE, .value = value, .word = word, .target = target->fabric.rank, .add = add
    };
    struct change_train *train = &w->train;
    const uint64_t event = sim_event_count(w->sim);
    if (train->last && train->event == event && train->time_ps == time_ps && train->mark == sim_scheduled(w->sim)) {
        train->last = train->last->next = c;
        return;
    }
    sim_schedule_at(w->sim, &c->event, time_ps);
    *train = (struct change_train){ .last = c, .time_ps = time_ps, .event = event, .mark = sim_scheduled(w->sim) };
}

void world_word_schedule(struct world_rank *target, uint32_t word, uint64_t value, bool add, uint64_t time_ps)
{
    world_arrival_note(target, time_ps);
    if (add && !value) return; /* the word does not change: no worker that watches it needs a step */
    if (add && (world_counter_hold(target, word, value, &time_ps) || counter_reach(target, word, value, time_ps)))
        return;
    if (target->world->letters_used && letters_send(target, word, value, add, time_ps)) return;
    world_word_event(target, word, value, add, time_ps);
}

/* ---- watches ---- */

/* Adds a watch to the rank's list; returns its place + 1. */
static uint32_t watch_add(struct world_rank *rank, uint32_t worker, uint64_t least, uint32_t next)
{
    rank->watch = entries_grow(rank->watch, rank->watch_count, &rank->watch_max, sizeof rank->watch[0]);
    rank->watch[rank->watch_count++] = (struct watch){ .worker = worker, .count = 1, .next = next, .least = least };
    return rank->watch_count;
}

static uint32_t counter_add(struct world_rank *rank, uint32_t worker, uint32_t word, uint32_t least)
{
    rank->counter = entries_grow(rank->counter, rank->counter_count, &rank->counter_max, sizeof rank->counter[0]);
    rank->counter[rank->counter_count] = (struct counter){ .word = word, .worker = worker, .least = least };
    return rank->counter_count++;
}

static void word_watch(struct world_rank *rank, uint32_t worker, uint32_t word, uint64_t least)
{
    uint32_t *head = &rank->watch_head[word];
    if (!*head && least <= UINT32_MAX) {
        *head = least ? WATCH_COUNTER + counter_add(rank, worker, word, (uint32_t)least) : WATCH_LONE + worker;
        return;
    }
    if (*head & (WATCH_LONE | WATCH_COUNTER)) {
        struct watch lone;
        (void)watches_of(rank, word, &lone);
        *head = watch_add(rank, lone.worker, lone.least, 0);
    }
    struct watch *newest = *head ? &rank->watch[*head - 1] : NULL;
    if (newest && newest->worker + newest->count == worker && newest->least == least) newest->count++;
    else *head = watch_add(rank, worker, least, *head);
}

static __attribute__((noinline)) void words_watch(struct world_rank *rank, uint32_t worker, uint32_t word,
                                                  uint32_t word_count, uint64_t least)
{
    assert(word + word_count <= rank->fabric.word_count && worker < WATCH_NUMBER);
    if (word < rank->watch_first) rank->watch_first = word;
    if (word + word_count > rank->watch_end) rank->watch_end = word + word_count;
    for (uint32_t i = 0; i < word_count; i++) word_watch(rank, worker, word + i, least);
}

void world_watch(struct fabric *f, struct fabric_worker *w, uint32_t word, uint32_t word_count, uint64_t least)
{
    struct world_rank *rank = rank_of(f);
    if (rank->now.worker) { /* in a step */
        rank->now.awaited = word;
        rank->now.least = least;
    } else {
        words_watch(rank, w->index, word, word_count, least);
    }
}

void world_watches_clear(struct world_rank *rank)
{
    for (uint32_t i = rank->watch_first; i < rank->watch_end; i++) rank->watch_head[i] = 0;
    for (uint32_t i = 0; i < rank->counter_count; i++)
        rank->fabric.words[rank->counter[i].word] += rank->counter[i].due;
    counters_free(rank);
    rank->watch_first = UINT32_MAX;
    rank->watch_end = rank->watch_count = 0;
}

void words_read(struct world_worker *ww, uint64_t now_ps)
{
    world_mail_read(ww, now_ps);
    if (ww->due) counter_read(ww, now_ps);
}

void words_wait(struct world_worker *ww)
{
    const struct world_rank *rank = worker_rank(ww);
    const struct world *w = rank->world;
    if (ww->rested && worker_rest(ww)->mail) {
        const uint64_t mail_ps = worker_rest(ww)->mail->time_ps;
        world_worker_wake(w->sim, ww, mail_ps, seen_ps(w, ww, mail_ps));
    }
    if (!ww->due) return;
    const uint64_t due_ps = rank->counter[ww->counter - 1].held_ps;
    world_worker_wake(w->sim, ww, due_ps, seen_ps(w, ww, due_ps));
}

void world_word_look_far(const struct world_rank *rank, uint32_t word)
{
    __builtin_prefetch(&rank->fabric.words[word], 1);
    __builtin_prefetch(&rank->watch_head[word]);
}

void world_word_look_near(const struct world_rank *rank, uint32_t word)
{
    const uint32_t head = rank->watch_head[word];
    if (head & WATCH_LONE) { /* a worker may lie in two cache lines */
        __builtin_prefetch(&rank->worker[head & WATCH_NUMBER], 1);
        __builtin_prefetch(&rank->worker[head & WATCH_NUMBER].sm, 1);
    } else if (head & WATCH_COUNTER) __builtin_prefetch(&rank->counter[head & WATCH_NUMBER], 1);
}

/* Calls `look` for each change of a train, to prefetch what the change will read. */
static void changes_look(const struct sim *sim, const struct sim_event *event,
                         void (*look)(const struct world_rank *rank, uint32_t word))
{
    if (event->kind != EVENT_CHANGE) return;
    const struct world *w = sim_owner(sim);
    for (const struct change *c = fabric_container_of(event, const struct change, event); c; c = c->next)
        look(&w->rank[c->target], c->word);
}

void words_look_far(const struct sim *sim, const struct sim_event *event)
{
    changes_look(sim, event, world_word_look_far);
}

void words_look_near(const struct sim *sim, const struct sim_event *event)
{
    changes_look(sim, event, world_word_look_near);
}
