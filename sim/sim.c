/* sim.c - the clock and the event queue behind sim.h.
 *
 * The queue is a radix trie over the 64 bits of time, six bits a level except for two, above a small sorted front:
 *
 *     level  9 |.|.|.|.| ...                          slot: the highest digit in which time differs from base
 *       ...                                           selects it; a list of chunks, first in first out
 *     level  2 |.|#|.|#|.|#|.|.| ... 1024 slots, 17 us
 *     level  1 |.|#|.|#| ... 256 slots, 16 ns
 *     level  0 |.|#|#|.| ... 64 slots,   64 ps
 *                 v  when the front is empty: a slot of few events is sorted into it,
 *                 v  a slot of many is dealt out to the levels below
 *     run <== [ sooner, later, ... ] front            everything sooner than front_end_ps
 *
 * An event moves down at most once a level, in practice once or twice.  Events move many at a time, in the order of
 * memory.  No constant must be adapted to how times are distributed.  Events of one instant run in the order of
 * scheduling, without sequence numbers: they differ from base in the same digit, so they share a slot.  Every move
 * keeps the order within a slot, and the sort is stable.  The queue moves records (time, pointer) instead of events.
 * So the memory of an event is untouched until the event reaches the front, where it is prefetched tens of events
 * ahead.
 *
 * This file does not know what an event does.  README.md has measurements of this and other queues. */
#include "sim/sim.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "sim/memory.h"

enum {
    WORD_BITS = 64,  /* bits in a word of a slot mask */
    DIGIT_BITS = 6,  /* bits of a level's digit, except on levels 1 and 2 */
    MIDDLE_BITS = 8, /* of level 1; a slot of level 2 is then so long that it mostly has several events */
    WIDE_BITS = 10,  /* of level 2; most events lie within its reach when they are scheduled, so they move once */
    WIDE_WORDS = (1 << WIDE_BITS) / WORD_BITS,
    LEVEL_COUNT = 10,
    SLOT_COUNT = ((LEVEL_COUNT - 2) << DIGIT_BITS) + (1 << MIDDLE_BITS) + (1 << WIDE_BITS),
    CHUNK_BYTES = 512, /* eight cache lines; a power of two, because a chunk lies at a multiple of its size */
    CHUNK_ENTRIES = 31,
    FRONT_FILL_MAX = 32, /* the most entries taken from slots at once, because the sort is quadratic */
    FRONT_SPARE = 16,    /* places before and behind these entries, for events that are scheduled into the front
                          * afterwards */
    FRONT_FILL_END = FRONT_SPARE + FRONT_FILL_MAX,
    FRONT_SIZE = FRONT_FILL_END + FRONT_SPARE,
    LINE_BYTES = 64,
    KIND_ROW = SIM_KINDS, /* the kind of the engine's own events, which stand for rows */
    FAR = 6,              /* an event is prefetched this many places before it runs, and again NEAR places before */
    NEAR = 3,
    ROW_FETCH = 12, /* the engine itself prefetches an event of a struct sim_row this many places before it runs */
};

#define DUE_MASK (SIM_TIME_MAX_PS + 1)

_Static_assert(CHUNK_ENTRIES <= FRONT_FILL_MAX, "the front takes whole chunks");

/* A level: where its digit begins in the bits of time, the digit's greatest value, and the level's first slot. */
struct level {
    uint16_t shift, digit_max, slot;
};
enum { DIGIT_COUNT = 1 << DIGIT_BITS, MIDDLE_COUNT = 1 << MIDDLE_BITS, WIDE_COUNT = 1 << WIDE_BITS };
#define LEVEL_ABOVE(level) \
    { \
        ((level)-2) * DIGIT_BITS + MIDDLE_BITS + WIDE_BITS, DIGIT_COUNT - 1, \
            ((level)-2) * DIGIT_COUNT + MIDDLE_COUNT + WIDE_COUNT \
    }
static const struct level levels[LEVEL_COUNT] = {
    { 0, DIGIT_COUNT - 1, 0 },
    { DIGIT_BITS, MIDDLE_COUNT - 1, DIGIT_COUNT },
    { DIGIT_BITS + MIDDLE_BITS, WIDE_COUNT - 1, DIGIT_COUNT + MIDDLE_COUNT },
    LEVEL_ABOVE(3),
    LEVEL_ABOVE(4),
    LEVEL_ABOVE(5),
    LEVEL_ABOVE(6),
    LEVEL_ABOVE(7),
    LEVEL_ABOVE(8),
    LEVEL_ABOVE(9),
};
_Static_assert((LEVEL_COUNT - 3) * DIGIT_BITS + MIDDLE_BITS + WIDE_BITS + DIGIT_BITS >= 64, "all of time");

/* The level whose digit holds that bit of time. */
static const uint8_t level_of[64] = {
    0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 4, 4,
    4, 4, 4, 4, 5, 5, 5, 5, 5, 5, 6, 6, 6, 6, 6, 6, 7, 7, 7, 7, 7, 7, 8, 8, 8, 8, 8, 8, 9, 9, 9, 9,
};

struct entry {
    uint64_t time_ps;
    struct sim_event *event;
};

struct chunk {
    struct entry entry[CHUNK_ENTRIES];
    struct chunk *next;
    void *none;
};
_Static_assert(sizeof(struct chunk) == CHUNK_BYTES, "chunk_of() finds it");

/* Memory that holds chunks.  Chunks never move.  Chunks that become free form a list and are used again. */
struct block {
    struct block *before; /* the block made before it */
    uint32_t chunk_count; /* chunks that lie behind its first CHUNK_BYTES */
};

/* A list of chunks, of which all but the last are full.  In an empty slot the least time is UINT64_MAX and `end` is
 * END_EMPTY.  chunk_full() is true for END_EMPTY, as for the end of a full chunk. */
struct slot {
    uint64_t time_ps_min;
    struct entry *end;   /* behind the last entry */
    struct chunk *first; /* not valid when count is 0 */
    uint32_t count;      /* of entries */
};
enum { END_EMPTY = CHUNK_ENTRIES * sizeof(struct entry) };

struct sim {
    struct sim_clock clock;
    sim_look *far, *near; /* called before an event runs; both NULL: not called */
    void *owner;
    sim_handler *handler[SIM_KINDS + 1];
    uint32_t pending_count;

    /* Every time in the front is < front_end_ps, and no time in the trie is.  There is one exception: the front may
     * hold a part of a slot whose events share one instant.  Then that instant is front_end_ps, in the front as in the
     * trie. */
    uint64_t front_end_ps;
    uint32_t front_head, front_tail; /* the front is front[front_head] ... front[front_tail - 1] */
    struct entry front[FRONT_SIZE];

    uint64_t base_ps;    /* never later than a time in the trie, nor than now while an event runs */
    uint32_t level_mask; /* levels that have a slot in use */
    struct chunk *chunk_free;
    struct block *block; /* the newest, whose chunks from chunk_used on were never used */
    uint32_t chunk_used;
    uint32_t chunk_count;            /* of all blocks */
    uint32_t word_mask[LEVEL_COUNT]; /* which words of the slot mask are not 0 */
    uint64_t slot_mask[LEVEL_COUNT][WIDE_WORDS];
    struct slot slots[SLOT_COUNT]; /* the slots of all levels */
};

_Static_assert(offsetof(struct sim, clock) == 0, "sim_clock() finds it there");

static void slot_clear(struct slot *slot)
{
    *slot = (struct slot){ .time_ps_min = UINT64_MAX, .end = (struct entry *)(uintptr_t)END_EMPTY };
}

static void block_add(struct sim *sim, uint32_t chunk_count)
{
    assert(sim->chunk_count < UINT32_MAX / 2);
    const size_t size_bytes = ((size_t)chunk_count + 1) * CHUNK_BYTES;
    struct block *const block = memory_checked(aligned_alloc(CHUNK_BYTES, size_bytes), 1, size_bytes);
    *block = (struct block){ sim->block, chunk_count };
    sim->block = block;
    sim->chunk_used = 0;
    sim->chunk_count += chunk_count;
}

static sim_handler row_run;

struct sim *sim_new(uint32_t event_count)
{
    const size_t partial = event_count < SLOT_COUNT ? event_count : SLOT_COUNT;
    const size_t chunk_count = event_count / CHUNK_ENTRIES + partial + 2; /* 2: for the slot that is dealt out */
    struct sim *const sim = memory_new(1, sizeof *sim);
    block_add(sim, (uint32_t)chunk_count);
    sim->handler[KIND_ROW] = row_run;
    sim->front_head = sim->front_tail = FRONT_SIZE;
    sim->front_end_ps = UINT64_MAX;
    for (int i = 0; i < SLOT_COUNT; i++) slot_clear(&sim->slots[i]);
    return sim;
}

void sim_free(struct sim *sim)
{
    if (!sim) return;
    for (struct block *block = sim->block, *before; block; block = before) {
        before = block->before;
        free(block);
    }
    free(sim);
}

void sim_look_ahead(struct sim *sim, sim_look *far, sim_look *near)
{
    sim->far = far;
    sim->near = near;
}

void sim_handler_set(struct sim *sim, uint32_t kind, sim_handler *handler)
{
    assert(kind < SIM_KINDS);
    sim->handler[kind] = handler;
}

void sim_owner_set(struct sim *sim, void *owner) { sim->owner = owner; }

void *sim_owner(const struct sim *sim) { return sim->owner; }

/* ---- slots: lists of chunks ---- */

/* The chunk that holds an entry.  Also takes the place behind the last entry of a chunk, as in slot->end. */
static struct chunk *chunk_of(const struct entry *entry)
{
    return (struct chunk *)((uintptr_t)entry & ~(uintptr_t)(CHUNK_BYTES - 1));
}

static bool chunk_full(const struct entry *end) { return (uintptr_t)end % CHUNK_BYTES == END_EMPTY; }

static struct chunk *chunk_take(struct sim *sim)
{
    struct chunk *const chunk = sim->chunk_free;
    if (!chunk) {
        if (sim->chunk_used == sim->block->chunk_count) block_add(sim, sim->chunk_count / 2 + 1);
        return (struct chunk *)(void *)sim->block + ++sim->chunk_used;
    }
    sim->chunk_free = chunk->next;
    return chunk;
}

static void chunk_give(struct sim *sim, struct chunk *chunk)
{
    chunk->next = sim->chunk_free;
    sim->chunk_free = chunk;
}

/* How many entries the first chunk of a slot in use has. */
static uint32_t slot_first_fill(const struct slot *slot)
{
    return chunk_of(slot->end) == slot->first ? (uint32_t)(slot->end - slot->first->entry) : CHUNK_ENTRIES;
}

/* Drops the first chunk, whose entries the caller has copied. */
static void slot_drop_first(struct sim *sim, struct slot *slot)
{
    struct chunk *const chunk = slot->first;
    slot->count -= slot_first_fill(slot);
    slot->first = chunk->next; /* not valid after the last */
    chunk_give(sim, chunk);
    if (slot->count == 0) slot_clear(slot);
}

/* ---- the trie ---- */

static inline void slot_put(struct slot *slot, struct entry entry)
{
    if (entry.time_ps < slot->time_ps_min) slot->time_ps_min = entry.time_ps;
    *slot->end++ = entry;
    slot->count++;
}

/* Puts an entry into a slot that is empty or whose last chunk is full, with a chunk more. */
static __attribute__((noinline)) void slot_extend(struct sim *sim, struct slot *slot, unsigned level,
                                                  struct entry entry)
{
    struct chunk *const chunk = chunk_take(sim);
    if (slot->count == 0) {
        const unsigned digit = (unsigned)(slot - sim->slots) - levels[level].slot, word = digit / WORD_BITS;
        slot->first = chunk;
        sim->level_mask |= 1u << level;
        sim->word_mask[level] |= 1u << word;
        sim->slot_mask[level][word] |= UINT64_C(1) << digit % WORD_BITS;
    } else {
        chunk_of(slot->end)->next = chunk;
    }
    slot->end = chunk->entry;
    slot_put(slot, entry);
}

/* Here and in event_enqueue() rare calls come last, because then the common way saves no registers. */
static inline void trie_insert(struct sim *sim, struct entry entry)
{
    const uint64_t differing = entry.time_ps ^ sim->base_ps;
    const unsigned level = level_of[63 - __builtin_clzll(differing | 1)];
    const struct level *const l = &levels[level];
    struct slot *const slot = &sim->slots[l->slot + (entry.time_ps >> l->shift & l->digit_max)];
    if (chunk_full(slot->end)) slot_extend(sim, slot, level, entry);
    else slot_put(slot, entry);
}

static void trie_mark_empty(struct sim *sim, unsigned level, unsigned digit)
{
    const unsigned word = digit / WORD_BITS;
    sim->slot_mask[level][word] &= ~(UINT64_C(1) << digit % WORD_BITS);
    if (sim->slot_mask[level][word] == 0) sim->word_mask[level] &= ~(1u << word);
    if (sim->word_mask[level] == 0) sim->level_mask &= ~(1u << level);
}

/* Returns the digit of the first slot in use.  The level must have one. */
static unsigned trie_first(const struct sim *sim, unsigned level)
{
    const unsigned word = (unsigned)__builtin_ctz(sim->word_mask[level]);
    return word * WORD_BITS + (unsigned)__builtin_ctzll(sim->slot_mask[level][word]);
}

/* Deals a slot out to the levels below.  The slot's smallest time becomes the base, because this sends as many
 * events as possible as far down as possible: ties go directly to level 0. */
static void trie_deal_out(struct sim *sim, unsigned level, unsigned digit)
{
    struct slot *const dealt = &sim->slots[levels[level].slot + digit];
    struct slot slot = *dealt;
    slot_clear(dealt);
    trie_mark_empty(sim, level, digit);
    sim->base_ps = slot.time_ps_min;
    while (slot.count > 0) {
        const uint32_t fill = slot_first_fill(&slot);
        if (fill < slot.count) __builtin_prefetch(slot.first->next);
        for (uint32_t i = 0; i < fill; i++) trie_insert(sim, slot.first->entry[i]);
        slot_drop_first(sim, &slot);
    }
}

/* ---- the front ---- */

/* Returns the place in the front for a new event: behind events of the same time, which were scheduled earlier. */
static uint32_t front_place(const struct sim *sim, uint64_t time_ps)
{
    const struct entry *first = &sim->front[sim->front_head];
    for (uint32_t left = sim->front_tail - sim->front_head; left > 0;) {
        const uint32_t half = (left + 1) / 2;
        first += first[half - 1].time_ps <= time_ps ? half : 0;
        left -= half;
    }
    return (uint32_t)(first - sim->front);
}

/* Inserts an event.  To make room, moves the events between its place and one end of the front: the nearer end, unless
 * that end has no free place. */
static void front_insert(struct sim *sim, struct entry entry)
{
    struct entry *const front = sim->front;
    const uint32_t head = sim->front_head, tail = sim->front_tail;
    uint32_t place = front_place(sim, entry.time_ps);
    if (tail < FRONT_SIZE && (head == 0 || 2 * place > head + tail)) {
        memmove(&front[place + 1], &front[place], (tail - place) * sizeof entry);
        sim->front_tail++;
    } else {
        memmove(&front[head - 1], &front[head], (place - head) * sizeof entry);
        sim->front_head--;
        place--;
    }
    front[place] = entry;
}

/* Inserts an event that comes from the trie, and moves later events to make room.  The place before the front has the
 * time 0, so the search ends there. */
static void front_append(struct sim *sim, struct entry entry)
{
    struct entry *const front = sim->front;
    uint32_t place = sim->front_tail++;
    while (front[place - 1].time_ps > entry.time_ps) {
        front[place] = front[place - 1];
        place--;
    }
    front[place] = entry;
}

/* Moves the events of a full front to the trie.  First now becomes the base, so that they go to fine levels.  The base
 * never goes back, so it stays if it is already later than now.  That happens when entries of moved events were
 * skipped. */
static __attribute__((noinline)) void front_spill(struct sim *sim)
{
    if (sim->base_ps < sim->clock.now_ps) sim->base_ps = sim->clock.now_ps;
    sim->front_end_ps = sim->base_ps;
    for (uint32_t i = sim->front_head; i < sim->front_tail; i++) trie_insert(sim, sim->front[i]);
    sim->front_head = sim->front_tail = FRONT_SIZE;
}

/* Inserts an event that is sooner than the front's end.  It goes to the trie if the front is full. */
static __attribute__((noinline)) void front_enter(struct sim *sim, struct entry entry)
{
    if (sim->front_head == 0 && sim->front_tail == FRONT_SIZE) front_spill(sim);
    if (entry.time_ps < sim->front_end_ps) front_insert(sim, entry);
    else trie_insert(sim, entry);
}

static inline void entry_look_ahead(const struct entry *entry)
{
    const uintptr_t event = (uintptr_t)entry->event;
    __builtin_prefetch((void *)event, 1);
    __builtin_prefetch((void *)(event + LINE_BYTES), 1); /* the next line, which belongs to the event's owner */
}

static void front_take_chunk(struct sim *sim, struct slot *slot)
{
    const struct entry *const entries = slot->first->entry;
    const uint32_t fill = slot_first_fill(slot);
    for (uint32_t i = 0; i < fill; i++) {
        entry_look_ahead(&entries[i]);
        front_append(sim, entries[i]);
    }
    slot_drop_first(sim, slot);
}

/* Prefetches the events in the first chunk of the slot that is taken next. */
static void slot_look_ahead(const struct slot *slot)
{
    const struct entry *const entries = slot->first->entry;
    const uint32_t fill = slot_first_fill(slot);
    for (uint32_t i = 0; i < fill; i++) entry_look_ahead(&entries[i]);
}

/* Prefetches the first events of a front that was just filled.  event_run() prefetches only events that are further
 * behind. */
static void front_look_ahead(const struct sim *sim)
{
    const struct entry *const first = &sim->front[sim->front_head];
    const uint32_t left = sim->front_tail - sim->front_head;
    for (uint32_t i = 0; sim->far && i < left && i <= FAR; i++) sim->far(sim, first[i].event);
    for (uint32_t i = 0; sim->far && i < left && i <= NEAR; i++) sim->near(sim, first[i].event);
}

/* Takes slots of a level into the empty front, from `digit` on, as many as fit. */
static void front_take_slots(struct sim *sim, unsigned level, unsigned digit)
{
    const struct level *const l = &levels[level];
    struct slot *const slots = &sim->slots[l->slot];
    sim->base_ps = slots[digit].time_ps_min;
    for (;;) {
        while (slots[digit].count > 0) front_take_chunk(sim, &slots[digit]);
        sim->front_end_ps = ((sim->base_ps >> l->shift & ~(uint64_t)l->digit_max) | digit) + 1;
        trie_mark_empty(sim, level, digit);
        if (sim->word_mask[level] == 0) break;
        digit = trie_first(sim, level);
        if (sim->front_tail + slots[digit].count > FRONT_FILL_END) {
            slot_look_ahead(&slots[digit]);
            break;
        }
    }
    /* If the trie is empty, the front has no end.  The trie is always empty when the shift would lose the top bit, so
     * nothing is shifted then. */
    sim->front_end_ps = sim->level_mask == 0 ? UINT64_MAX : sim->front_end_ps << l->shift;
}

/* Fills the empty front from the trie, which is not empty. */
static __attribute__((noinline)) void front_fill(struct sim *sim)
{
    sim->front_head = sim->front_tail = FRONT_SPARE;
    sim->front[FRONT_SPARE - 1].time_ps = 0;
    for (;;) {
        const unsigned level = (unsigned)__builtin_ctz(sim->level_mask);
        const unsigned digit = trie_first(sim, level);
        struct slot *const slot = &sim->slots[levels[level].slot + digit];
        if (slot->count <= FRONT_FILL_MAX) {
            front_take_slots(sim, level, digit);
            front_look_ahead(sim);
            return;
        }
        if (level == 0) { /* takes a part of the slot's one instant; the slot keeps the rest */
            sim->base_ps = sim->front_end_ps = slot->time_ps_min;
            front_take_chunk(sim, slot);
            return;
        }
        trie_deal_out(sim, level, digit);
    }
}

/* ---- the engine ---- */

static struct sim_event *row_event(const struct sim_row *row, uint32_t place)
{
    return (struct sim_event *)(void *)((char *)row->first + (ptrdiff_t)place * row->stride_bytes);
}

static inline void event_enqueue(struct sim *sim, struct sim_event *event, uint64_t time_ps)
{
    assert(time_ps >= sim->clock.now_ps);
    assert(time_ps <= SIM_TIME_MAX_PS);
    assert(sim->handler[event->kind]);
    const struct entry entry = { time_ps, event };
    event->due_ps = (time_ps + 1) & DUE_MASK;
    sim->clock.entry_count++;
    if (time_ps < sim->front_end_ps) front_enter(sim, entry);
    else trie_insert(sim, entry);
}

void sim_schedule_at(struct sim *sim, struct sim_event *event, uint64_t time_ps)
{
    assert(!sim_event_pending(event));
    sim->pending_count++;
    event_enqueue(sim, event, time_ps);
}

void sim_reschedule_at(struct sim *sim, struct sim_event *event, uint64_t time_ps)
{
    assert(sim_event_pending(event));
    event_enqueue(sim, event, time_ps);
}

/* ---- rows ---- */

/* Takes the row's next pending event, from index *next on.  Returns NULL if there is none. */
static struct sim_event *row_take(struct sim *sim, const struct sim_row *row, uint32_t *next, uint64_t time_ps)
{
    while (*next < row->count) {
        struct sim_event *const event = row_event(row, (*next)++);
        if (event->due_ps != time_ps + 1) continue; /* it was moved */
        sim->pending_count--;
        return event;
    }
    return NULL;
}

static void row_look_ahead(const struct sim *sim, const struct sim_row *row, uint32_t next)
{
    if (next + ROW_FETCH < row->count) {
        const uintptr_t event = (uintptr_t)row_event(row, next + ROW_FETCH);
        __builtin_prefetch((void *)event, 1);
        __builtin_prefetch((void *)(event + LINE_BYTES), 1);
    }
    if (!sim->far) return;
    if (next + FAR < row->count) sim->far(sim, row_event(row, next + FAR));
    if (next + NEAR < row->count) sim->near(sim, row_event(row, next + NEAR));
}

static void row_run(struct sim *sim, struct sim_event *event)
{
    struct sim_row *const row = (struct sim_row *)(void *)((char *)event - offsetof(struct sim_row, event));
    const uint64_t time_ps = sim->clock.now_ps;
    uint32_t next = 0;
    sim->pending_count++; /* takes back what event_take() and event_run() counted for the row's own event */
    sim->clock.event_count--;
    for (struct sim_event *member; (member = row_take(sim, row, &next, time_ps));) {
        row_look_ahead(sim, row, next);
        sim->clock.event_count++;
        member->due_ps = 0;
        sim->handler[member->kind](sim, member);
    }
    row->done(sim, row);
}

void sim_schedule_row(struct sim *sim, struct sim_row *row, uint64_t time_ps)
{
    assert(row->count > 0);
    row->event = (struct sim_event){ .kind = KIND_ROW };
    event_enqueue(sim, &row->event, time_ps);
    for (uint32_t i = 0; i < row->count; i++) {
        assert(!sim_event_pending(row_event(row, i)));
        row_event(row, i)->due_ps = (time_ps + 1) & DUE_MASK;
    }
    sim->pending_count += row->count;
}

/* The time of the first entry, whether or not its event has moved.  UINT64_MAX: there is no entry. */
static uint64_t first_ps(const struct sim *sim)
{
    if (sim->front_head != sim->front_tail) return sim->front[sim->front_head].time_ps;
    if (sim->level_mask == 0) return UINT64_MAX;
    const unsigned level = (unsigned)__builtin_ctz(sim->level_mask);
    return sim->slots[levels[level].slot + trie_first(sim, level)].time_ps_min;
}

/* Takes the next pending event out of the queue.  Returns NULL if no event is due before end_ps.  Later events stay in
 * the trie, because others may be scheduled before them.  An entry whose event has moved to another time is skipped.
 * If an event has moved back to the time of an old entry, the old entry counts, and the newer one is skipped. */
static inline struct sim_event *event_take(struct sim *sim, uint64_t end_ps)
{
    for (;;) {
        if (sim->front_head == sim->front_tail) {
            if (first_ps(sim) >= end_ps) return NULL;
            front_fill(sim);
        }
        const struct entry entry = sim->front[sim->front_head];
        if (entry.time_ps >= end_ps) return NULL;
        sim->front_head++;
        if (entry.event->due_ps != entry.time_ps + 1) continue;
        sim->pending_count--;
        return entry.event;
    }
}

/* Runs the next event that is due before end_ps.  Returns false if there is none. */
static inline bool event_run(struct sim *sim, uint64_t end_ps)
{
    struct sim_event *const event = event_take(sim, end_ps);
    if (!event) return false;
    if (sim->far) {
        const struct entry *const next = &sim->front[sim->front_head];
        const uint32_t left = sim->front_tail - sim->front_head;
        if (left > FAR) sim->far(sim, next[FAR].event);
        if (left > NEAR) sim->near(sim, next[NEAR].event);
    }
    sim->clock.event_count++;
    sim->clock.now_ps = sim_event_time_ps(event);
    event->due_ps = 0;
    sim->handler[event->kind](sim, event);
    return true;
}

bool sim_run_down(struct sim *sim, const uint32_t *idle, uint64_t event_count)
{
    const uint64_t now = sim->clock.event_count,
                   until = event_count < UINT64_MAX - now ? now + event_count : UINT64_MAX;
    while (sim->pending_count > *idle && sim->clock.event_count < until) (void)event_run(sim, UINT64_MAX);
    return sim->pending_count > *idle;
}

void sim_run_before(struct sim *sim, uint64_t end_ps, const uint32_t *idle)
{
    while (sim->pending_count > *idle && event_run(sim, end_ps))
        ;
}

uint64_t sim_next_ps(const struct sim *sim, const uint32_t *idle)
{
    return sim->pending_count > *idle ? first_ps(sim) : UINT64_MAX;
}
