/* memory.h - allocation that ends the process when memory runs out.
 *
 * The one policy of eptwin: memory that is out ends the process, with one line and exit status 1.  So no caller checks,
 * and no half-made object has to be taken apart on a path that never runs.  Output files have no name before they are
 * whole (new_file.h), so nothing half-written stays; whoever waits for the process (other ranks, the parent of workers)
 * sees it end.  models/kernel.h does the same for kernels, which include nothing of sim/, and main.c has GLib do it.
 * Sizes that users choose are no exception.  Resources of other kinds (shared memory, memory that a device must pin)
 * are errors of the world, reported as such. */
#ifndef SIM_MEMORY_H
#define SIM_MEMORY_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Returns memory, or does not return where it is NULL though count x size_bytes were asked for. */
static inline void *memory_checked(void *memory, uint64_t count, uint64_t size_bytes)
{
    if (memory || !count || !size_bytes) return memory;
    fprintf(stderr, "eptwin: out of memory (%llu x %llu bytes)\n", (unsigned long long)count,
            (unsigned long long)size_bytes);
    _Exit(EXIT_FAILURE);
}

/* Room for count things of size_bytes, all zero.  To be freed. */
static inline void *memory_new(uint64_t count, uint64_t size_bytes)
{
    return memory_checked(calloc(count, size_bytes), count, size_bytes);
}

/* Grows an array to count elements; the new ones are not set.  old NULL: there was none. */
static inline void *memory_grow(void *old, uint64_t count, uint64_t size_bytes)
{
    const uint64_t all_bytes = count * size_bytes, sound = !size_bytes || all_bytes / size_bytes == count;
    return memory_checked(sound ? realloc(old, all_bytes) : NULL, count, size_bytes);
}

#endif
