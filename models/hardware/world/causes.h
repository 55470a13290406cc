/* causes.h - for a timeline: which worker posted each request that arrives, what ended each wait, and the chain of
 * causes that decides when a kernel ends.  Private to models/hardware.  The files of the timeline (recording.c,
 * world_timeline.c) call it.  The NIC only tells it of posts and of answers to gets. */
#ifndef MODELS_HARDWARE_CAUSES_H
#define MODELS_HARDWARE_CAUSES_H

#include <stdint.h>
#include "models/hardware/nic/nic.h"
#include "models/hardware/world/arena.h"

struct causes;
struct timeline;

/* The place where something was done.  If it has a track, a span of that track begins at time_ps or contains it. */
#define CAUSES_NO_TRACK UINT32_MAX
struct causes_place {
    uint32_t rank, worker, track;
    uint64_t time_ps;
};

/* Makes an object for `ranks` ranks with `words` words each.  Each part has part_ranks ranks (the last perhaps fewer)
 * and an arena for their requests.  The new object owns arena[parts] and frees it. */
struct causes *causes_new(struct timeline *timeline, uint32_t ranks, uint32_t words, const struct arena **arena,
                          uint32_t parts, uint32_t part_ranks);
void causes_free(struct causes *causes);

/* A rank launches a kernel, so its waits begin anew.  Watches that were declared before the launch belong to this
 * kernel.  They are dropped when the first watch is declared for the next kernel. */
void causes_launch(struct causes *causes, uint32_t rank, uint32_t worker_count);
void causes_watch(struct causes *causes, uint32_t rank, uint32_t worker, uint32_t word, uint32_t word_count);

/* A request is posted; the next causes_posted() says where. */
void causes_post(struct causes *causes, const struct request *r);
void causes_posted(struct causes *causes, const struct causes_place *place);
/* The request leaves its port (causes_sent) and comes in (causes_received).  An arrow leads from the post to where the
 * request comes in.  The request may change a word of its target. */
void causes_sent(struct causes *causes, const struct request *r, uint64_t begin_ps);
void causes_received(struct causes *causes, const struct request *r, uint32_t track, uint64_t begin_ps,
                     uint64_t end_ps);
/* A get has come in, and this request is its answer. */
void causes_answered(struct causes *causes, const struct request *get, const struct request *answer);
/* A word of a rank was raised from the place `from`, without a request. */
void causes_raised(struct causes *causes, uint32_t rank, uint32_t word, const struct causes_place *from);

/* A worker has waited; `place` is the wait's track and begin.  The timeline gets an arrow from the event that ended the
 * wait to the wait. */
void causes_waited(struct causes *causes, const struct causes_place *place, uint64_t end_ps, const char *text);
/* Records the critical path of a kernel whose last worker ended on this rank. */
void causes_path(struct causes *causes, const char *kernel, uint32_t rank, uint32_t worker, uint64_t begin_ps,
                 uint64_t end_ps);

#endif
