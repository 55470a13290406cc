/* timeline.h - a recorder of what happened when: named spans of time on tracks of processes, written as
 * Chrome trace events that Perfetto (ui.perfetto.dev) and chrome://tracing open.
 *
 * A process is a rank, a track is a worker, a port or whatever else is busy with one thing at a time: spans
 * of one track follow each other or nest.  An arrow leads from one track to another, a counter is a number of a process
 * that changes.  All are kept in a ring made at the start; when it is full the oldest go, and the file says how many.
 * A recorder that is off is NULL, and recording into it costs one comparison.  One thread.  Needs libc only. */
#ifndef SIM_TIMELINE_H
#define SIM_TIMELINE_H

#include <stdint.h>
#include <stdio.h>

struct timeline;

struct timeline_span {
    const char *name; /* kept as a pointer: a literal, or alive until timeline_free() */
    uint64_t begin_ps, end_ps;
    uint64_t size_bytes; /* shown when not 0 */
    uint32_t process, track;
    const char *detail; /* shown as what it is about, when not NULL; kept like the name */
};

/* From one moment of a track to a later one of another.  Each should lie in a span of its track. */
struct timeline_arrow {
    const char *name; /* kept as a pointer */
    uint64_t from_ps, to_ps;
    uint32_t from_process, from_track, to_process, to_track;
};

/* span_count_max > 0. */
struct timeline *timeline_new(uint32_t span_count_max);
void timeline_free(struct timeline *timeline);

/* What the viewer calls a process or a track instead of its number; the name is copied.  The last of several
 * names counts. */
void timeline_name_process(struct timeline *timeline, uint32_t process, const char *name);
void timeline_name_track(struct timeline *timeline, uint32_t process, uint32_t track, const char *name);

/* The text itself, kept until timeline_free(): the same pointer for the same text. */
const char *timeline_keep(struct timeline *timeline, const char *text);
/* A counter of a process, at 0; the name is kept as a pointer. */
uint32_t timeline_counter(struct timeline *timeline, uint32_t process, const char *name);

/* timeline not NULL; begin_ps <= end_ps, from_ps <= to_ps.  Changes of a counter may come in any order. */
void timeline_record(struct timeline *timeline, const struct timeline_span *span);
void timeline_arrow(struct timeline *timeline, const struct timeline_arrow *arrow);
void timeline_count(struct timeline *timeline, uint32_t counter, uint64_t time_ps, int64_t change);

/* Records a span with begin_ps <= end_ps, if the recorder is on. */
static inline void timeline_span(struct timeline *timeline, const struct timeline_span *span)
{
    if (timeline) timeline_record(timeline, span);
}

uint64_t timeline_span_count(const struct timeline *timeline);      /* entries in the ring now */
uint64_t timeline_span_count_lost(const struct timeline *timeline); /* pushed out of it, or never come to it */

/* So many entries were lost before they could be recorded here: by another recorder, from which the others come. */
void timeline_lose(struct timeline *timeline, uint64_t count);

/* Writes it all in the order of time and flushes: 0 or negative errno. */
int timeline_write(const struct timeline *timeline, FILE *out) __attribute__((warn_unused_result));

#endif
