/* agenda.h - a world whose kernels its caller launches (models/step).  Each rank launches kernels at its own times.
 * Between them it may do other work, which takes time but uses none of the world's parts.
 *
 * A rank runs one kernel of the world at a time.  The agenda's functions run at a time of the world's clock, and never
 * while a worker steps.  They may launch kernels and set timers. */
#ifndef MODELS_HARDWARE_AGENDA_H
#define MODELS_HARDWARE_AGENDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "models/fabric.h"
#include "models/hardware/world/world.h"

struct world_agenda {
    void (*begin)(void *context);                /* called once, at the beginning */
    void (*timer)(void *context, uint32_t rank); /* called at the time given to world_timer_set() */
    void (*ended)(void *context, uint32_t rank, const struct world_result *result); /* called when the rank's kernel has
                                                                                     * ended */
    void *context;
};

/* Runs until no event is left.  Where the world has several threads, the functions may be called for ranks of several
 * nodes at one time.  Returns false if a kernel hangs: workers still wait, but no event is left.  Then text says which
 * rank's worker waits, and for what. */
bool world_run_agenda(struct world *world, const struct world_agenda *agenda, char *text, size_t text_size);

/* While a function of the agenda runs for a rank, it may use that rank's clock, timer and kernel by these functions.  A
 * rank has one timer, so setting the timer again moves it. */
uint64_t world_clock_ps(const struct world *world, uint32_t rank);
void world_timer_set(struct world *world, uint32_t rank, uint64_t time_ps);
/* Launches a kernel on a rank that runs none.  Its watches must have been declared after the rank's last kernel
 * ended. The caller keeps the workers until the kernel has ended. */
void world_kernel_begin(struct world *world, uint32_t rank, struct fabric_worker **worker, uint32_t worker_count);

#endif
