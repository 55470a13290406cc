/* arena.h - memory that is taken in pieces and freed all at once.  Private to models/hardware.
 *
 * Large worlds touch hundreds of megabytes in no order, so most accesses miss the caches and the TLB.  Pieces are
 * placed one after another in large blocks, which use huge pages where possible.  A name is 32 bits that say where
 * something is in an arena: structs with many references are half as large with names as with pointers. */
#ifndef MODELS_HARDWARE_ARENA_H
#define MODELS_HARDWARE_ARENA_H

#include <stddef.h>
#include <stdint.h>

struct arena_block;

/* Zeroed memory is an empty arena. */
struct arena {
    struct arena_block *block; /* the newest */
    char *next;                /* where that block's free memory begins */
    size_t left_bytes, block_bytes;
    uintptr_t low; /* all blocks are within ARENA_MOST_BYTES from here */
};

enum { ARENA_LINE_BYTES = 64, ARENA_UNIT_BYTES = 8 };
#define ARENA_MOST_BYTES ((uint64_t)ARENA_UNIT_BYTES << 32)

/* Returns zeroed memory at the beginning of a cache line.  It stays in place until arena_clear().  If memory runs out,
 * the program ends (sim/memory.h). */
void *arena_take(struct arena *arena, size_t size_bytes);
void arena_clear(struct arena *arena);

/* The distance of a thing from the arena's low end, in units of ARENA_UNIT_BYTES.  The name 0 stands for nothing. */
typedef uint32_t arena_name;

/* Anything in the arena at a multiple of ARENA_UNIT_BYTES has a name. */
static inline arena_name arena_name_of(const struct arena *arena, const void *thing)
{
    return thing ? (arena_name)(((uintptr_t)thing - arena->low) / ARENA_UNIT_BYTES) : 0;
}
static inline void *arena_at(const struct arena *arena, arena_name name)
{
    return name ? (void *)(arena->low + (uint64_t)name * ARENA_UNIT_BYTES) : NULL;
}
/* Prefetches the size_bytes that have this name, which lie in at most two cache lines.  Any name is allowed, even 0.
 * The function is always inlined: a compiler deletes calls of functions that only prefetch. */
static inline __attribute__((always_inline)) void arena_look_ahead(const struct arena *arena, arena_name name,
                                                                   size_t size_bytes)
{
    const char *const place = (const char *)(arena->low + (uint64_t)name * ARENA_UNIT_BYTES);
    __builtin_prefetch(place, 1);
    __builtin_prefetch(place + size_bytes - 1, 1);
}

/* Memory for items of one size, which are taken and put back one by one.  The items are freed with their arena. */
struct pool {
    struct arena *arena;
    void *free; /* free items, linked by their first bytes */
    uint32_t item_bytes;
};

/* Takes memory for more items. */
void pool_grow(struct pool *pool);
static inline void *pool_get(struct pool *pool)
{
    if (!pool->free) pool_grow(pool);
    void **item = pool->free;
    pool->free = *item;
    __builtin_prefetch(pool->free, 1); /* the next item to be taken */
    return item;
}
/* Puts back a list of items.  The first bytes of each item are a pointer to the next. */
static inline void pool_put_list(struct pool *pool, void *first, void *last)
{
    *(void **)last = pool->free;
    pool->free = first;
}
static inline void pool_put(struct pool *pool, void *item)
{
    *(void **)item = pool->free;
    pool->free = item;
}

#endif
