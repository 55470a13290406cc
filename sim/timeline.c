/* timeline.c - the ring of spans behind timeline.h and its JSON.
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

struct timeline {
    uint64_t span_count; /* ever recorded; the ring's place is its remainder */
    uint32_t span_count_max;
    struct name *names, **names_end;
    struct timeline_span *spans;
};

struct timeline *timeline_new(uint32_t span_count_max)
{
    assert(span_count_max > 0);
    struct timeline *const timeline = memory_grow(NULL, 1, sizeof *timeline);

    *timeline = (struct timeline){ .span_count_max = span_count_max };
    timeline->spans = memory_grow(NULL, span_count_max, sizeof timeline->spans[0]);
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
    free(timeline->spans);
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

void timeline_record(struct timeline *timeline, const struct timeline_span *span)
{
    assert(span->begin_ps <= span->end_ps);
    timeline->spans[timeline->span_count++ % timeline->span_count_max] = *span;
}

uint64_t timeline_span_count_lost(const struct timeline *timeline)
{
    const uint64_t room = timeline->span_count_max;

    return timeline->span_count > room ? timeline->span_count - room : 0;
}

uint64_t timeline_span_count(const struct timeline *timeline)
{
    return timeline->span_count - timeline_span_count_lost(timeline);
}

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
    if (span->size_bytes) fprintf(out, ",\"args\":{\"bytes\":%" PRIu64 "}", span->size_bytes);
    putc('}', out);
}

int timeline_write(const struct timeline *timeline, FILE *out)
{
    const uint64_t lost = timeline_span_count_lost(timeline);
    const char *separator = "\n";

    fprintf(out,
            "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"spans_lost\":\"%" PRIu64 "\"},"
            "\"traceEvents\":[",
            lost);
    for (const struct name *name = timeline->names; name; name = name->next, separator = ",\n") {
        fputs(separator, out);
        write_name(out, name);
    }
    for (uint64_t i = lost; i < timeline->span_count; i++, separator = ",\n") {
        fputs(separator, out);
        write_span(out, &timeline->spans[i % timeline->span_count_max]);
    }
    fputs("\n]}\n", out);
    errno = 0;
    if (fflush(out) == 0 && !ferror(out)) return 0;
    return errno ? -errno : -EIO;
}
