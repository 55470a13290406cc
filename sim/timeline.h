/* timeline.h - a recorder of events: named spans of time on tracks of processes, written as Chrome trace events that
 * Perfetto (ui.perfetto.dev) and chrome://tracing open.
 *
 * A process is a rank.  A track is a worker, a port or any other thing that does one thing at a time: spans of one
 * track follow each other or nest.  An arrow leads from one track to another.  A counter is a number of a process that
 * changes.  Spans and arrows are written as they are recorded, in any order of time, which the format allows: none is
 * lost, and none is kept.  Changes of counters are kept, 16 bytes each, and written at the end.  A recorder that is off
 * is NULL, and recording into it costs one comparison.  One thread may use it.  It needs only libc. */
#ifndef SIM_TIMELINE_H
#define SIM_TIMELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct timeline;

/* Where the text goes, in pieces.  After write() has returned false, it is not called again. */
struct timeline_sink {
    bool (*write)(void *context, const void *text, size_t size_bytes);
    void *context;
};

struct timeline_span {
    const char *name; /* texts are not needed after the call */
    uint64_t begin_ps, end_ps;
    uint64_t size_bytes; /* shown when not 0 */
    uint32_t process, track;
    const char *detail; /* shown as the span's subject, unless NULL */
};

/* An arrow from a moment on one track to a moment on another that is no earlier.  Each moment should lie in a span of
 * its track. */
struct timeline_arrow {
    const char *name;
    uint64_t from_ps, to_ps;
    uint32_t from_process, from_track, to_process, to_track;
};

struct timeline *timeline_new(const struct timeline_sink *sink);
/* Writes the remaining parts: counters, how many entries were lost, the end.  False: this or an earlier write has
 * failed. */
bool timeline_end(struct timeline *timeline) __attribute__((warn_unused_result));
void timeline_free(struct timeline *timeline);

/* The name that a viewer shows for a process or a track, instead of its number.  Of several names the last counts. */
void timeline_name_process(struct timeline *timeline, uint32_t process, const char *name);
void timeline_name_track(struct timeline *timeline, uint32_t process, uint32_t track, const char *name);
/* Names a track "worker 7" plus `more`, which has at most 20 characters. */
void timeline_name_worker(struct timeline *timeline, uint32_t process, uint32_t track, uint32_t worker,
                          const char *more);

/* Makes a counter of a process, at 0; the name is kept as a pointer. */
uint32_t timeline_counter(struct timeline *timeline, uint32_t process, const char *name);

/* timeline is not NULL; begin_ps <= end_ps, from_ps <= to_ps.  Changes of a counter may come in any order.  Changes
 * at one moment become one. */
void timeline_record(struct timeline *timeline, const struct timeline_span *span);
void timeline_arrow(struct timeline *timeline, const struct timeline_arrow *arrow);
void timeline_count(struct timeline *timeline, uint32_t counter, uint64_t time_ps, int64_t change);

/* Records a span with begin_ps <= end_ps, if the recorder is on. */
static inline void timeline_span(struct timeline *timeline, const struct timeline_span *span)
{
    if (timeline) timeline_record(timeline, span);
}

uint64_t timeline_entry_count(const struct timeline *timeline); /* spans, arrows and changes so far */

/* Adds the number of entries that another recorder lost, if its other entries were recorded in this timeline. */
void timeline_lose(struct timeline *timeline, uint64_t count);
uint64_t timeline_lost_count(const struct timeline *timeline);

#endif
