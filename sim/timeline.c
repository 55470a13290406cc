/* timeline.c - writes spans, arrows and counters as JSON while they are recorded; see timeline.h.
 *
 * Times are written in microseconds, as the format wants, with six decimal places for picoseconds: nothing is rounded.
 * A long run has millions of entries, so numbers are written here and not by printf().  This file does not know its
 * callers. */
#include "sim/timeline.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "sim/memory.h"

enum { BUFFER_BYTES = 1 << 16, PIECE_BYTES_MAX = 128 };

struct change {
    uint64_t time_ps;
    int64_t by;
};

struct counter {
    const char *name;
    uint32_t process, change_count, change_max;
    struct change *change;
};

struct timeline {
    struct timeline_sink sink;
    uint64_t entry_count, arrow_count, lost_count;
    struct counter *counter;
    uint32_t counter_count;
    bool begun, failed; /* an event has been written; a write has failed */
    size_t used;
    char buffer[BUFFER_BYTES];
};

/* ---- text ---- */

static void buffer_flush(struct timeline *t)
{
    t->failed = t->failed || !t->sink.write(t->sink.context, t->buffer, t->used);
    t->used = 0;
}

/* Returns where a piece of size_bytes may be written.  The caller adds the piece's length to `used`. */
static char *piece(struct timeline *t, size_t size_bytes)
{
    assert(size_bytes <= PIECE_BYTES_MAX);
    if (t->used + size_bytes > BUFFER_BYTES) buffer_flush(t);
    return &t->buffer[t->used];
}

/* Writes a string literal. */
#define WORDS(t, words) (memcpy(piece(t, sizeof(words) - 1), words, sizeof(words) - 1), (t)->used += sizeof(words) - 1)

/* Writes the character as JSON has it, at most six bytes, and returns the place behind it. */
static char *character_write(char *at, char c)
{
    static const char hex[] = "0123456789abcdef";
    if (c == '"' || c == '\\') *at++ = '\\';
    else if ((unsigned char)c < 0x20) {
        memcpy(at, "\\u00", 4);
        at[4] = hex[(unsigned char)c >> 4];
        at[5] = hex[(unsigned char)c & 15];
        return at + 6;
    }
    *at++ = c;
    return at;
}

enum { WORD_BYTES = sizeof(uint64_t) };

/* Whether the first eight characters of text, which must exist, need no escapes in JSON. */
static bool word_plain(const char *text)
{
    const uint64_t ones = UINT64_MAX / 255, high = ones * 0x80;
    uint64_t word;
    memcpy(&word, text, sizeof word);
    const uint64_t quote = word ^ ones * '"', backslash = word ^ ones * '\\';
    const uint64_t control = (word - ones * 0x20) & ~word;
    return !((((quote - ones) & ~quote) | ((backslash - ones) & ~backslash) | control) & high);
}

static void string_put(struct timeline *t, const char *text)
{
    size_t left = strlen(text);
    char *begin = piece(t, PIECE_BYTES_MAX), *at = begin;
    *at++ = '"';
    while (left) {
        if (at > begin + PIECE_BYTES_MAX - WORD_BYTES - 1) {
            t->used += (size_t)(at - begin);
            begin = at = piece(t, PIECE_BYTES_MAX);
        }
        if (left >= WORD_BYTES && word_plain(text)) {
            memcpy(at, text, WORD_BYTES);
            at += WORD_BYTES;
            text += WORD_BYTES;
            left -= WORD_BYTES;
        } else {
            at = character_write(at, *text++);
            left--;
        }
    }
    *at++ = '"';
    t->used += (size_t)(at - begin);
}

static const char pairs[] =
    "000102030405060708091011121314151617181920212223242526272829303132333435363738394041424344454647484950515253545556"
    "57585960616263646566676869707172737475767778798081828384858687888990919293949596979899";

/* Writes the number, at most 20 bytes, and returns the place behind it. */
static char *number_write(char *at, uint64_t number)
{
    uint32_t digits = 1;
    for (uint64_t rest = number; rest >= 10; rest /= 10) digits++;
    char *const end = at + digits;
    for (at = end; number >= 100; number /= 100) memcpy(at -= 2, &pairs[number % 100 * 2], 2);
    if (number >= 10) memcpy(at - 2, &pairs[number * 2], 2);
    else at[-1] = (char)('0' + number);
    return end;
}

static void number_put(struct timeline *t, uint64_t number)
{
    char *const at = piece(t, 20);
    t->used += (size_t)(number_write(at, number) - at);
}

static void us_put(struct timeline *t, uint64_t time_ps)
{
    const uint32_t rest = (uint32_t)(time_ps % 1000000);
    char *const begin = piece(t, 27), *const at = number_write(begin, time_ps / 1000000);
    at[0] = '.';
    memcpy(at + 1, &pairs[rest / 10000 * 2], 2);
    memcpy(at + 3, &pairs[rest / 100 % 100 * 2], 2);
    memcpy(at + 5, &pairs[rest % 100 * 2], 2);
    t->used += (size_t)(at + 7 - begin);
}

/* ---- events ---- */

static void event_begin(struct timeline *t, const char *name)
{
    if (t->begun) WORDS(t, ",\n{\"name\":");
    else WORDS(t, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{\"name\":");
    t->begun = true;
    string_put(t, name);
}

static void track_put(struct timeline *t, uint32_t process, uint32_t track)
{
    WORDS(t, ",\"pid\":");
    number_put(t, process);
    WORDS(t, ",\"tid\":");
    number_put(t, track);
}

static void name_put(struct timeline *t, const char *what, uint32_t process, uint32_t track, const char *name)
{
    event_begin(t, what);
    WORDS(t, ",\"ph\":\"M\"");
    track_put(t, process, track);
    WORDS(t, ",\"args\":{\"name\":");
    string_put(t, name);
    WORDS(t, "}}");
}

void timeline_name_process(struct timeline *t, uint32_t process, const char *name)
{
    name_put(t, "process_name", process, 0, name);
}

void timeline_name_track(struct timeline *t, uint32_t process, uint32_t track, const char *name)
{
    name_put(t, "thread_name", process, track, name);
}

void timeline_name_worker(struct timeline *t, uint32_t process, uint32_t track, uint32_t worker, const char *more)
{
    enum { MORE_MAX = 20 };
    char name[sizeof "worker 4294967295" + MORE_MAX] = "worker ";
    const size_t size_bytes = strlen(more) + 1;
    assert(size_bytes <= MORE_MAX + 1);
    memcpy(number_write(name + strlen(name), worker), more, size_bytes);
    name_put(t, "thread_name", process, track, name);
}

void timeline_record(struct timeline *t, const struct timeline_span *span)
{
    assert(span->begin_ps <= span->end_ps);
    t->entry_count++;
    event_begin(t, span->name);
    WORDS(t, ",\"ph\":\"X\"");
    track_put(t, span->process, span->track);
    WORDS(t, ",\"ts\":");
    us_put(t, span->begin_ps);
    WORDS(t, ",\"dur\":");
    us_put(t, span->end_ps - span->begin_ps);
    if (span->size_bytes) {
        WORDS(t, ",\"args\":{\"bytes\":");
        number_put(t, span->size_bytes);
    }
    if (span->detail) {
        if (span->size_bytes) WORDS(t, ",\"for\":");
        else WORDS(t, ",\"args\":{\"for\":");
        string_put(t, span->detail);
    }
    if (span->size_bytes || span->detail) WORDS(t, "}}");
    else WORDS(t, "}");
}

void timeline_arrow(struct timeline *t, const struct timeline_arrow *arrow)
{
    assert(arrow->from_ps <= arrow->to_ps);
    t->entry_count++;
    for (int end = 0; end < 2; end++) { /* viewers draw an arrow between two events that have the same id */
        event_begin(t, arrow->name);
        if (end) WORDS(t, ",\"cat\":\"arrow\",\"ph\":\"f\",\"bp\":\"e\",\"id\":");
        else WORDS(t, ",\"cat\":\"arrow\",\"ph\":\"s\",\"id\":");
        number_put(t, t->arrow_count);
        track_put(t, end ? arrow->to_process : arrow->from_process, end ? arrow->to_track : arrow->from_track);
        WORDS(t, ",\"ts\":");
        us_put(t, end ? arrow->to_ps : arrow->from_ps);
        WORDS(t, "}");
    }
    t->arrow_count++;
}

/* ---- counters ---- */

uint32_t timeline_counter(struct timeline *t, uint32_t process, const char *name)
{
    t->counter = memory_grow(t->counter, t->counter_count + 1, sizeof t->counter[0]);
    t->counter[t->counter_count] = (struct counter){ .name = name, .process = process };
    return t->counter_count++;
}

void timeline_count(struct timeline *t, uint32_t counter, uint64_t time_ps, int64_t change)
{
    assert(counter < t->counter_count);
    struct counter *const c = &t->counter[counter];
    if (c->change_count == c->change_max) {
        c->change_max = 2 * c->change_max + 16;
        c->change = memory_grow(c->change, c->change_max, sizeof c->change[0]);
    }
    c->change[c->change_count++] = (struct change){ time_ps, change };
    t->entry_count++;
}

/* Sorts changes by time, eleven bits of it in each round.  They are noted nearly, but not quite, in the order of
 * time. */
static void changes_sort(struct change *change, uint32_t count)
{
    enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS, TIME_BITS = 64 };
    struct change *const spare = memory_new(count, sizeof spare[0]), *from = change, *to = spare;
    uint64_t all = 0;
    for (uint32_t i = 0; i < count; i++) all |= change[i].time_ps;
    for (unsigned shift = 0; shift < TIME_BITS && all >> shift; shift += DIGIT_BITS) {
        uint32_t place[DIGITS + 1] = { 0 };
        for (uint32_t i = 0; i < count; i++) place[(from[i].time_ps >> shift) % DIGITS + 1]++;
        for (uint32_t digit = 1; digit < DIGITS; digit++) place[digit] += place[digit - 1];
        for (uint32_t i = 0; i < count; i++) to[place[(from[i].time_ps >> shift) % DIGITS]++] = from[i];
        struct change *const sorted = to;
        to = from;
        from = sorted;
    }
    if (from != change) memcpy(change, from, count * sizeof change[0]);
    free(spare);
}

static void counter_put(struct timeline *t, const struct counter *c)
{
    int64_t value = 0;
    if (c->change_count == 0) return;
    changes_sort(c->change, c->change_count);
    for (uint32_t i = 0; i < c->change_count; i++) {
        value += c->change[i].by;
        if (i + 1 < c->change_count && c->change[i + 1].time_ps == c->change[i].time_ps) continue;
        event_begin(t, c->name);
        WORDS(t, ",\"ph\":\"C\",\"pid\":");
        number_put(t, c->process);
        WORDS(t, ",\"ts\":");
        us_put(t, c->change[i].time_ps);
        WORDS(t, ",\"args\":{\"value\":");
        if (value < 0) WORDS(t, "-");
        number_put(t, value < 0 ? -(uint64_t)value : (uint64_t)value);
        WORDS(t, "}}");
    }
}

/* ---- from beginning to end ---- */

struct timeline *timeline_new(const struct timeline_sink *sink)
{
    struct timeline *const t = memory_new(1, sizeof *t);
    t->sink = *sink;
    return t;
}

bool timeline_end(struct timeline *t)
{
    for (uint32_t i = 0; i < t->counter_count; i++) counter_put(t, &t->counter[i]);
    if (!t->begun) WORDS(t, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
    WORDS(t, "\n],\"otherData\":{\"spans_lost\":\"");
    number_put(t, t->lost_count);
    WORDS(t, "\"}}\n");
    buffer_flush(t);
    return !t->failed;
}

void timeline_free(struct timeline *t)
{
    if (!t) return;
    for (uint32_t i = 0; i < t->counter_count; i++) free(t->counter[i].change);
    free(t->counter);
    free(t);
}

uint64_t timeline_entry_count(const struct timeline *t) { return t->entry_count; }

void timeline_lose(struct timeline *t, uint64_t count) { t->lost_count += count; }

uint64_t timeline_lost_count(const struct timeline *t) { return t->lost_count; }
