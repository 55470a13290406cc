/* usage.h - how busy each kind of part is over the time of a program: ports are looked at from time to time.  Private
 * to models/hardware; what it finds is in world.h.
 *
 * The looks are events that change nothing and keep no run going; where nodes are parts (parts.h), they come when a
 * window ends.  There are at most WORLD_USAGE_MAX of them: when there is no room for more, every other one is forgotten
 * and they come half as often. */
#ifndef MODELS_HARDWARE_USAGE_H
#define MODELS_HARDWARE_USAGE_H

#include <stdint.h>
#include "sim/sim.h"

struct usage;
struct world;

struct usage *usage_new(struct world *world);
void usage_free(struct usage *usage);

/* A program begins, with its ranks prepared; a program has ended.  usage NULL: nobody wants to know. */
void usage_begin(struct usage *usage);
void usage_end(struct usage *usage);
/* In a world of parts: its clock is at until_ps.  The looks that are due come then. */
void usage_look_until(struct usage *usage, uint64_t until_ps);
/* How many of its events are pending, for which no kernel waits; and how many have run. */
uint32_t usage_idle(const struct usage *usage);
uint64_t usage_events(const struct usage *usage);
/* What they run. */
sim_handler usage_event_run;

#endif
