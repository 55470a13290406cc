/* arena.h - memory that is taken in pieces and freed all at once.  Private to models/hardware.
 *
 * Large worlds touch hundreds of megabytes in no order, so most accesses miss the caches and the TLB.  Pieces lie one
 * behind another in large blocks, for which huge pages are asked. */
#ifndef MODELS_HARDWARE_ARENA_H
#define MODELS_HARDWARE_ARENA_H

#include <stddef.h>
#include <stdint.h>

struct arena_block;

/* Zeroed memory is an empty arena. */
struct arena {
    struct arena_block *block; /* the newest */
    char *next;                /* free from here on, in that block */
    size_t left_bytes, block_bytes;
};

enum { ARENA_LINE_BYTES = 64 };

/* Returns zeroed memory that begins a cache line.  It stays in place until arena_clear().  If memory is out, the
 * program ends (sim/memory.h). */
void *arena_take(struct arena *arena, size_t size_bytes);
void arena_clear(struct arena *arena);

#endif
