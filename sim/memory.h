/* memory.h - allocation that ends the process when memory runs out.
 *
 * This is eptwin's one policy: without memory the process ends, with one line and exit status 1.  So callers need not
 * check for NULL or free half-made objects.  Output files have no name before they are whole (new_file.h), so no
 * half-written file stays.  Processes that wait for this one (other ranks, the parent of workers) notice its end.
 * Kernels include nothing of sim/, so models/kernel.h implements the policy for them.  main.c implements it for GLib.
 *
 * The policy also holds for sizes that users choose.  A shortage of other resources (shared memory, memory that a
 * device must pin) is an error of the world and reported as such. */
#ifndef SIM_MEMORY_H
#define SIM_MEMORY_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Returns `memory`, the result of allocating count x size_bytes.  Ends the process if the allocation failed. */
static inline void *memory_checked(void *memory, uint64_t count, uint64_t size_bytes)
{
    if (memory || !count || !size_bytes) return memory;
    fprintf(stderr, "eptwin: out of memory (%llu x %llu bytes)\n", (unsigned long long)count,
            (unsigned long long)size_bytes);
    _Exit(EXIT_FAILURE);
}

/* Zeroed memory for count things of size_bytes.  To be freed. */
static inline void *memory_new(uint64_t count, uint64_t size_bytes)
{
    return memory_checked(calloc(count, size_bytes), count, size_bytes);
}

/* Frees each of the pointers; NULL and memory of GLib, too. */
#define FREE_ALL(...) \
    do { \
        void *const all[] = { __VA_ARGS__ }; \
        for (size_t each = 0; each < sizeof all / sizeof *all; each++) free(all[each]); \
    } while (0)

/* Grows an array to count elements; new elements are not set.  old NULL: there was no array. */
static inline void *memory_grow(void *old, uint64_t count, uint64_t size_bytes)
{
    const uint64_t all_bytes = count * size_bytes, sound = !size_bytes || all_bytes / size_bytes == count;
    return memory_checked(sound ? realloc(old, all_bytes) : NULL, count, size_bytes);
}

#endif
