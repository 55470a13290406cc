/* usage.h - how busy each kind of part is over the time of a program: ports are looked at from time to time.
 * Private to models/hardware; world.h gives the results.
 *
 * The looks are events that change nothing and keep no run going.  Where nodes are parts (parts.h), looks come when
 * a window ends.  There are at most WORLD_USAGE_MAX of them.  When there is no room for more, every other one is
 * forgotten, and later ones come half as often. */
#ifndef MODELS_HARDWARE_USAGE_H
#define MODELS_HARDWARE_USAGE_H

#include <stdint.h>
#include "models/hardware/world/world.h"
#include "sim/sim.h"

struct port;
struct usage;

/* Makes a recorder whose events are of this kind.  usage_event_run() runs them. */
struct usage *usage_new(uint8_t kind);
void usage_free(struct usage *usage);
sim_handler usage_event_run;

/* Begins to record a program whose ranks are prepared.  usage_watch() then names the ports to look at. sim NULL: there
 * are no events, as in a world of parts. */
void usage_begin(struct usage *usage, uint64_t now_ps, struct sim *sim);
void usage_watch(struct usage *usage, const struct port *port, enum world_usage_kind kind);
/* Makes the last look, when the program has ended.  In this function and those below, except usage_shares(), usage may
 * be NULL; then nothing happens. */
void usage_end(struct usage *usage, uint64_t now_ps);
/* In a world of parts whose clock is at until_ps, makes the looks that are due. */
void usage_look_until(struct usage *usage, uint64_t until_ps);
/* How many of its events are pending (no kernel waits for these), and how many have run. */
uint32_t usage_idle(const struct usage *usage);
uint64_t usage_events(const struct usage *usage);
/* Does the work of world_usage(). */
uint32_t usage_shares(const struct usage *usage, enum world_usage_kind kind, double share[WORLD_USAGE_MAX + 1],
                      uint64_t *interval_ps);

#endif
