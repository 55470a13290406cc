/* arena.c - blocks that grow with the arena; see arena.h. */
#include "models/hardware/world/arena.h"
#include "sim/memory.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

/* The first block is small, so that a small world takes little memory; later ones grow, so that a large world takes
 * few.  Huge pages have 2 MB. */
enum { HUGE_BYTES = 2 * 1024 * 1024, FIRST_BYTES = HUGE_BYTES, MOST_BYTES = 8 * HUGE_BYTES };

/* The header at the start of each block's memory. */
struct arena_block {
    struct arena_block *before;
    size_t mapped_bytes;
    size_t used_bytes; /* of a spare block: what its last arena may have written */
};

/* First blocks of arenas that were cleared.  Whoever takes one zeroes what is used of it.  The next arenas begin with
 * them, because the system takes longer to map and clear fresh pages than a small world takes to run. */
enum { SPARES = 16 };
static _Atomic(struct arena_block *) spare[SPARES];

/* Returns the zeroed memory of a first block that an earlier arena has left; NULL: there is none. */
static void *spare_take(void)
{
    struct arena_block *block = NULL;
    for (uint32_t i = 0; !block && i < SPARES; i++) block = atomic_exchange(&spare[i], NULL);
    if (block) memset(block, 0, block->used_bytes);
    return block;
}

/* Leaves a first block of which used_bytes are in use to the next arena.  Returns false if there is no place for it. */
static bool spare_leave(struct arena_block *block, size_t used_bytes)
{
    block->used_bytes = used_bytes;
    for (uint32_t i = 0; i < SPARES; i++) {
        struct arena_block *none = NULL;
        if (atomic_compare_exchange_strong(&spare[i], &none, block)) return true;
    }
    return false;
}

static size_t align_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

/* Makes a block of zeroed memory: a spare one, or one that the system clears as pages are first touched.
 * The block is requested right below the previous one.  If it is too far from the first one, memory has run out. */
static struct arena_block *block_new(struct arena *a, size_t size_bytes)
{
    char *const wanted = a->block ? (char *)a->block - size_bytes : NULL;
    void *mapped = !a->block && size_bytes == FIRST_BYTES ? spare_take() : NULL;
    if (!mapped) mapped = mmap(wanted, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const uintptr_t place = (uintptr_t)mapped;
    if (mapped != MAP_FAILED && !a->block) a->low = place > ARENA_MOST_BYTES / 2 ? place - ARENA_MOST_BYTES / 2 : 0;
    if (mapped != MAP_FAILED && (place <= a->low || place - a->low > ARENA_MOST_BYTES - size_bytes)) {
        munmap(mapped, size_bytes);
        mapped = MAP_FAILED;
    }
    struct arena_block *block = memory_checked(mapped == MAP_FAILED ? NULL : mapped, 1, size_bytes);
    if (a->block) (void)madvise(mapped, size_bytes, MADV_HUGEPAGE); /* without huge pages the world is only slower */
    *block = (struct arena_block){ .before = a->block, .mapped_bytes = size_bytes };
    return block;
}

static void block_add(struct arena *a, size_t least_bytes)
{
    size_t size_bytes = a->block ? 2 * a->block_bytes : FIRST_BYTES;
    if (size_bytes > MOST_BYTES) size_bytes = MOST_BYTES;
    a->block_bytes = size_bytes;
    least_bytes += sizeof(struct arena_block) + ARENA_LINE_BYTES;
    if (size_bytes < least_bytes) size_bytes = align_up(least_bytes, HUGE_BYTES);
    a->block = block_new(a, size_bytes);
    char *const start = (char *)(a->block + 1);
    a->next = start + (align_up((size_t)(uintptr_t)start, ARENA_LINE_BYTES) - (size_t)(uintptr_t)start);
    a->left_bytes = size_bytes - (size_t)(a->next - (char *)a->block);
}

void *arena_take(struct arena *a, size_t size_bytes)
{
    size_bytes = align_up(size_bytes, ARENA_LINE_BYTES);
    if (size_bytes > a->left_bytes) block_add(a, size_bytes);
    void *const piece = a->next;
    a->next += size_bytes;
    a->left_bytes -= size_bytes;
    return piece;
}

void arena_clear(struct arena *a)
{
    for (struct arena_block *block = a->block, *before; block; block = before) {
        const size_t bytes = block->mapped_bytes, used_bytes = block == a->block ? bytes - a->left_bytes : bytes;
        before = block->before;
        if (before || bytes != FIRST_BYTES || !spare_leave(block, used_bytes)) munmap(block, bytes);
    }
    *a = (struct arena){ 0 };
}

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
