/* timeline.h - a recorder of what happened when: named spans of time on tracks of processes, written as
 * Chrome trace events that Perfetto (ui.perfetto.dev) and chrome://tracing open.
 *
 * A process is a rank, a track is a worker, a port or whatever else is busy with one thing at a time: spans
 * of one track follow each other or nest.  Spans are kept in a ring made at the start; when it is full the
 * oldest go, and the file says how many.  A recorder that is off is NULL, and recording into it costs one
 * comparison.  One thread.  Needs libc only. */
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
};

/* span_count_max > 0. */
struct timeline *timeline_new(uint32_t span_count_max);
void timeline_free(struct timeline *timeline);

/* What the viewer calls a process or a track instead of its number; the name is copied.  The last of several
 * names counts. */
void timeline_name_process(struct timeline *timeline, uint32_t process, const char *name);
void timeline_name_track(struct timeline *timeline, uint32_t process, uint32_t track, const char *name);

void timeline_record(struct timeline *timeline, const struct timeline_span *span); /* timeline not NULL */

/* Records a span with begin_ps <= end_ps, if the recorder is on. */
static inline void timeline_span(struct timeline *timeline, const struct timeline_span *span)
{
    if (timeline) timeline_record(timeline, span);
}

uint64_t timeline_span_count(const struct timeline *timeline);      /* in the ring now */
uint64_t timeline_span_count_lost(const struct timeline *timeline); /* pushed out of it */

/* Writes it all and flushes: 0 or negative errno. */
int timeline_write(const struct timeline *timeline, FILE *out) __attribute__((warn_unused_result));

#endif
