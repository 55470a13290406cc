/* pool.h - memory for items of one size, which are taken and put back one by one.  Private to models/hardware. */
#ifndef MODELS_HARDWARE_POOL_H
#define MODELS_HARDWARE_POOL_H

#include <stdint.h>

struct arena;

/* The items are in an arena, and are freed with it. */
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
