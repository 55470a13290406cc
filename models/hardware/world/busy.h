/* busy.h - how long each part is busy while the slowest rank's kernel runs, and with how many bytes.  Private to
 * models/hardware; world.h gives the results as world_busiest().
 *
 * The slowest rank is the one whose kernel takes longest from its first step to its last.  Every part counts, even
 * if it serves bytes of ranks whose own kernels have ended.  The parts are looked at when a program begins, when
 * ranks begin it late or begin a later kernel of it (BUSY_BEGINS_MAX times at most), and when the slowest rank so far
 * ends.  The looks change nothing. */
#ifndef MODELS_HARDWARE_BUSY_H
#define MODELS_HARDWARE_BUSY_H

#include <stdbool.h>
#include <stdint.h>
#include "sim/sim.h"

/* The begin or the end of a rank's kernel, at which busy parts are looked at. */
struct busy_note {
    const struct world_rank *rank;
    uint64_t start_ps, begin_ps, end_ps; /* as in struct world_rank */
    uint32_t kernel;
    bool ended;
};

struct busy;
struct world;
struct world_rank;
struct world_result;

struct busy *busy_new(struct world *world);
void busy_free(struct busy *busy);
/* Runs an EVENT_END.  No prediction depends on it. */
sim_handler busy_event_run;

/* Called when a program of `kernels` kernels begins, at begin_ps. */
void busy_program_begin(struct busy *busy, uint32_t kernels, uint64_t begin_ps);
/* Called when a rank will begin the program's first kernel only at its start_ps, to look at the parts then. */
void busy_rank_late(struct world_rank *rank);
/* Called when the rank begins a kernel that is not the program's first. */
void busy_rank_begin(const struct world_rank *rank);
/* Called when the last worker of the rank's kernel is done. */
void busy_rank_end(struct world_rank *rank);
/* Called in a world of parts when a window has ended.  Makes the looks that were noted in it, at ports as they are
 * now.  All requests to a port until the window's end are known.  Work after the time of a look counts as not done. */
void busy_notes_take(struct world *whole);
/* Called when the rank's kernel has ended and its result is known. */
void busy_rank_result(const struct world_rank *rank, const struct world_result *result);

#endif
