/* busy.h - how long each part is busy while the slowest rank's kernel runs, and with how many bytes.  Private to
 * models/hardware; what it finds is world_busiest() in world.h.
 *
 * The slowest rank is the one whose kernel takes longest from its first step to its last.  Every part counts, also
 * those that serve bytes of ranks whose own kernels have ended.  The parts are looked at when a program begins, when
 * ranks begin a later kernel of it (at BUSY_BEGINS_MAX times at most), and when the slowest rank so far ends.  The
 * looks change nothing. */
#ifndef MODELS_HARDWARE_BUSY_H
#define MODELS_HARDWARE_BUSY_H

#include <stdbool.h>
#include <stdint.h>
#include "sim/sim.h"

/* A rank's begin or end of a kernel, at which busy parts are looked at. */
struct busy_note {
    const struct world_rank *rank;
    uint64_t start_ps, begin_ps, end_ps; /* of the rank */
    uint32_t kernel;
    bool ended;
};

struct busy;
struct world;
struct world_rank;
struct world_result;

struct busy *busy_new(struct world *world);
void busy_free(struct busy *busy);
/* What an EVENT_END runs.  No prediction depends on it. */
sim_handler busy_event_run;

/* A program of so many kernels begins at begin_ps; nothing else is under way. */
void busy_program_begin(struct busy *busy, uint32_t kernels, uint64_t begin_ps);
/* The rank begins a kernel now that is not the program's first; its last worker is done. */
void busy_rank_begin(const struct world_rank *rank);
void busy_rank_end(struct world_rank *rank);
/* In a world of parts: a window has ended, and with it what was noted in it can be looked at.  Ports are looked at as
 * they are now: what is asked of them is known up to the window's end, and what is later than a look is not done. */
void busy_notes_take(struct world *whole);
/* The rank's kernel has ended, and its result is known. */
void busy_rank_result(const struct world_rank *rank, const struct world_result *result);

#endif
