/* timeline.c - the ring of spans, arrows and changes of counters behind timeline.h, and its JSON.
 *
 * Times are written in microseconds, as the format wants, with the six decimal places that picoseconds are:
 * nothing is rounded.  Does not know who records. */
#include "sim/timeline.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "sim/memory.h"

struct name {
    struct name *next;
    bool of_track;
    uint32_t process, track;
    char text[];
};

enum entry_kind { ENTRY_SPAN, ENTRY_ARROW, ENTRY_CHANGE };

struct change {
    uint64_t time_ps;
    int64_t by;
    uint32_t counter;
};

struct entry {
    enum entry_kind kind;
    union {
        struct timeline_span span;
        struct timeline_arrow arrow;
        struct change change;
    };
};

struct counter {
    const char *name;
    uint32_t process;
    int64_t base; /* the sum of the changes that the ring has lost */
};

/* A text that is kept, in a hash table of chains. */
struct text {
    struct text *next;
    char text[];
};
enum { TEXT_CHAINS = 1024 };

struct timeline {
    uint64_t span_count; /* ever recorded; the ring's place is its remainder */
    uint64_t lost_before;
    uint32_t span_count_max;
    struct name *names, **names_end;
    struct entry *entries;
    struct counter *counter;
    uint32_t counter_count;
    struct text *texts[TEXT_CHAINS];
};

struct timeline *timeline_new(uint32_t span_count_max)
{
    assert(span_count_max > 0);
    struct timeline *const timeline = memory_grow(NULL, 1, sizeof *timeline);

    *timeline = (struct timeline){ .span_count_max = span_count_max };
    timeline->entries = memory_grow(NULL, span_count_max, sizeof timeline->entries[0]);
    timeline->names_end = &timeline->names;
    return timeline;
}

void timeline_free(struct timeline *timeline)
{
    if (!timeline) return;
    for (struct name *name = timeline->names, *next; name; name = next) {
        next = name->next;
        free(name);
    }
    for (uint32_t i = 0; i < TEXT_CHAINS; i++)
        for (struct text *text = timeline->texts[i], *next; text; text = next) {
            next = text->next;
            free(text);
        }
    free(timeline->counter);
    free(timeline->entries);
    free(timeline);
}

/* track NULL: of the process itself. */
static void name_add(struct timeline *timeline, uint32_t process, const uint32_t *track, const char *text)
{
    const size_t text_size = strlen(text) + 1;
    struct name *const name = memory_grow(NULL, 1, sizeof *name + text_size);

    *name = (struct name){ .of_track = track, .process = process, .track = track ? *track : 0 };
    memcpy(name->text, text, text_size);
    *timeline->names_end = name;
    timeline->names_end = &name->next;
}

void timeline_name_process(struct timeline *timeline, uint32_t process, const char *name)
{
    name_add(timeline, process, NULL, name);
}

void timeline_name_track(struct timeline *timeline, uint32_t process, uint32_t track, const char *name)
{
    name_add(timeline, process, &track, name);
}

const char *timeline_keep(struct timeline *timeline, const char *text)
{
    uint32_t hash = 2166136261; /* FNV-1a */
    for (const char *c = text; *c; c++) hash = (hash ^ (unsigned char)*c) * 16777619;
    struct text **chain = &timeline->texts[hash % TEXT_CHAINS];
    for (struct text *known = *chain; known; known = known->next)
        if (strcmp(known->text, text) == 0) return known->text;
    const size_t text_size = strlen(text) + 1;
    struct text *const kept = memory_grow(NULL, 1, sizeof *kept + text_size);
    memcpy(kept->text, text, text_size);
    kept->next = *chain;
    *chain = kept;
    return kept->text;
}

uint32_t timeline_counter(struct timeline *timeline, uint32_t process, const char *name)
{
    timeline->counter = memory_grow(timeline->counter, timeline->counter_count + 1, sizeof timeline->counter[0]);
    timeline->counter[timeline->counter_count] = (struct counter){ .name = name, .process = process };
    return timeline->counter_count++;
}

/* The place of the next entry.  What stood there is lost; of a change its counter keeps the sum. */
static struct entry *entry_next(struct timeline *timeline)
{
    struct entry *const entry = &timeline->entries[timeline->span_count % timeline->span_count_max];

    if (timeline->span_count >= timeline->span_count_max && entry->kind == ENTRY_CHANGE)
        timeline->counter[entry->change.counter].base += entry->change.by;
    timeline->span_count++;
    return entry;
}

void timeline_record(struct timeline *timeline, const struct timeline_span *span)
{
    assert(span->begin_ps <= span->end_ps);
    *entry_next(timeline) = (struct entry){ .kind = ENTRY_SPAN, .span = *span };
}

void timeline_arrow(struct timeline *timeline, const struct timeline_arrow *arrow)
{
    assert(arrow->from_ps <= arrow->to_ps);
    *entry_next(timeline) = (struct entry){ .kind = ENTRY_ARROW, .arrow = *arrow };
}

void timeline_count(struct timeline *timeline, uint32_t counter, uint64_t time_ps, int64_t change)
{
    assert(counter < timeline->counter_count);
    *entry_next(timeline) = (struct entry){ .kind = ENTRY_CHANGE, .change = { time_ps, change, counter } };
}

/* The number of the oldest entry in the ring. */
static uint64_t entry_first(const struct timeline *timeline)
{
    const uint64_t room = timeline->span_count_max;

    return timeline->span_count > room ? timeline->span_count - room : 0;
}

uint64_t timeline_span_count_lost(const struct timeline *timeline)
{
    return timeline->lost_before + entry_first(timeline);
}

uint64_t timeline_span_count(const struct timeline *timeline) { return timeline->span_count - entry_first(timeline); }

void timeline_lose(struct timeline *timeline, uint64_t count) { timeline->lost_before += count; }

/* ---- JSON ---- */

static void write_string(FILE *out, const char *text)
{
    putc('"', out);
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;

        if (c == '"' || c == '\\') fprintf(out, "\\%c", c);
        else if (c < 0x20) fprintf(out, "\\u%04x", c);
        else putc(c, out);
    }
    putc('"', out);
}

static void write_us(FILE *out, uint64_t time_ps)
{
    fprintf(out, "%" PRIu64 ".%06" PRIu64, time_ps / 1000000, time_ps % 1000000);
}

static void write_name(FILE *out, const struct name *name)
{
    fprintf(out, "{\"name\":\"%s\",\"ph\":\"M\",\"pid\":%" PRIu32 ",\"tid\":%" PRIu32 ",\"args\":{\"name\":",
            name->of_track ? "thread_name" : "process_name", name->process, name->track);
    write_string(out, name->text);
    fputs("}}", out);
}

static void write_span(FILE *out, const struct timeline_span *span)
{
    fputs("{\"name\":", out);
    write_string(out, span->name);
    fprintf(out, ",\"ph\":\"X\",\"pid\":%" PRIu32 ",\"tid\":%" PRIu32 ",\"ts\":", span->process, span->track);
    write_us(out, span->begin_ps);
    fputs(",\"dur\":", out);
    write_us(out, span->end_ps - span->begin_ps);
    if (span->size_bytes || span->detail) fputs(",\"args\":{", out);
    if (span->size_bytes) fprintf(out, "\"bytes\":%" PRIu64, span->size_bytes);
    if (span->size_bytes && span->detail) putc(',', out);
    if (span->detail) {
        fputs("\"for\":", out);
        write_string(out, span->detail);
    }
    if (span->size_bytes || span->detail) putc('}', out);
    putc('}', out);
}

/* One end of an arrow: the two are found together by their number. */
static void write_arrow(FILE *out, const struct timeline_arrow *arrow, uint64_t number, bool begins)
{
    fputs("{\"name\":", out);
    write_string(out, arrow->name);
    fprintf(out, ",\"cat\":\"arrow\",\"ph\":\"%s\",\"id\":%" PRIu64 ",\"pid\":%" PRIu32 ",\"tid\":%" PRIu32 ",\"ts\":",
            begins ? "s" : "f\",\"bp\":\"e", number, begins ? arrow->from_process : arrow->to_process,
            begins ? arrow->from_track : arrow->to_track);
    write_us(out, begins ? arrow->from_ps : arrow->to_ps);
    putc('}', out);
}

static void write_change(FILE *out, const struct counter *counter, uint64_t time_ps, int64_t value)
{
    fputs("{\"name\":", out);
    write_string(out, counter->name);
    fprintf(out, ",\"ph\":\"C\",\"pid\":%" PRIu32 ",\"ts\":", counter->process);
    write_us(out, time_ps);
    fprintf(out, ",\"args\":{\"value\":%" PRId64 "}}", value);
}

/* What becomes an event of the file: an entry, or one end of it. */
struct event {
    uint64_t time_ps, number; /* of the entry */
    bool second;              /* the end of an arrow */
};

static int event_order(const void *a, const void *b)
{
    const struct event *const x = a, *const y = b;

    if (x->time_ps != y->time_ps) return x->time_ps < y->time_ps ? -1 : 1;
    if (x->number != y->number) return x->number < y->number ? -1 : 1;
    return (int)x->second - (int)y->second;
}

static struct entry *entry_of(const struct timeline *timeline, uint64_t number)
{
    return &timeline->entries[number % timeline->span_count_max];
}

/* All events by time; *count of them, to be freed. */
static struct event *events_sorted(const struct timeline *timeline, uint64_t *count)
{
    struct event *const event = memory_grow(NULL, 2 * timeline_span_count(timeline) + 1, sizeof *event);

    *count = 0;
    for (uint64_t i = entry_first(timeline); i < timeline->span_count; i++) {
        const struct entry *const entry = entry_of(timeline, i);
        const uint64_t time_ps = entry->kind == ENTRY_SPAN    ? entry->span.begin_ps
                                 : entry->kind == ENTRY_ARROW ? entry->arrow.from_ps
                                                              : entry->change.time_ps;
        event[(*count)++] = (struct event){ time_ps, i, false };
        if (entry->kind == ENTRY_ARROW) event[(*count)++] = (struct event){ entry->arrow.to_ps, i, true };
    }
    qsort(event, *count, sizeof *event, event_order);
    return event;
}

static void write_event(const struct timeline *timeline, const struct event *event, int64_t *value, FILE *out)
{
    const struct entry *const entry = entry_of(timeline, event->number);

    if (entry->kind == ENTRY_SPAN) write_span(out, &entry->span);
    else if (entry->kind == ENTRY_ARROW) write_arrow(out, &entry->arrow, event->number, !event->second);
    else {
        const struct change *const change = &entry->change;
        value[change->counter] += change->by;
        write_change(out, &timeline->counter[change->counter], change->time_ps, value[change->counter]);
    }
}

int timeline_write(const struct timeline *timeline, FILE *out)
{
    const char *separator = "\n";
    uint64_t count;
    struct event *const event = events_sorted(timeline, &count);
    int64_t *const value = memory_new(timeline->counter_count + 1, sizeof *value);

    for (uint32_t i = 0; i < timeline->counter_count; i++) value[i] = timeline->counter[i].base;
    fprintf(out,
            "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"spans_lost\":\"%" PRIu64 "\"},"
            "\"traceEvents\":[",
            timeline_span_count_lost(timeline));
    for (const struct name *name = timeline->names; name; name = name->next, separator = ",\n") {
        fputs(separator, out);
        write_name(out, name);
    }
    for (uint64_t i = 0; i < count; i++, separator = ",\n") {
        fputs(separator, out);
        write_event(timeline, &event[i], value, out);
    }
    fputs("\n]}\n", out);
    free(event);
    free(value);
    errno = 0;
    if (fflush(out) == 0 && !ferror(out)) return 0;
    return errno ? -errno : -EIO;
}
