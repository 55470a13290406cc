/* pool.c - more items for a pool; see pool.h. */
#include "models/hardware/world/pool.h"
#include "models/hardware/world/arena.h"

#include <stddef.h>

enum { ITEMS_A_BLOCK = 512 };

void pool_grow(struct pool *pool)
{
    char *const block = arena_take(pool->arena, (size_t)ITEMS_A_BLOCK * pool->item_bytes);
    for (uint32_t i = ITEMS_A_BLOCK; i-- > 0;) {
        void **item = (void **)(void *)(block + (size_t)i * pool->item_bytes);
        *item = pool->free;
        pool->free = item;
    }
}
