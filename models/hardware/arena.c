/* arena.c - blocks that grow with the arena; see arena.h. */
#include "models/hardware/arena.h"
#include "sim/memory.h"

#include <stdlib.h>
#include <sys/mman.h>

/* A small world takes little, a large one few blocks.  Huge pages are of 2 MB. */
enum { FIRST_BYTES = 64 * 1024, HUGE_BYTES = 2 * 1024 * 1024, MOST_BYTES = 8 * HUGE_BYTES };

/* Lies at the start of its memory. */
struct arena_block {
    struct arena_block *before;
    size_t mapped_bytes; /* 0: it came from memory_new() */
};

static size_t align_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

/* Large blocks come from the system itself, which clears each page when it is first touched. */
static struct arena_block *block_new(size_t size_bytes)
{
    if (size_bytes < HUGE_BYTES) return memory_new(1, size_bytes);
    void *mapped = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct arena_block *block = memory_checked(mapped == MAP_FAILED ? NULL : mapped, 1, size_bytes);
    (void)madvise(mapped, size_bytes, MADV_HUGEPAGE); /* without huge pages it is only slower */
    block->mapped_bytes = size_bytes;
    return block;
}

static void block_add(struct arena *a, size_t least_bytes)
{
    size_t size_bytes = a->block_bytes ? 2 * a->block_bytes : FIRST_BYTES;
    if (size_bytes > MOST_BYTES) size_bytes = MOST_BYTES;
    a->block_bytes = size_bytes;
    least_bytes += sizeof(struct arena_block) + ARENA_LINE_BYTES;
    if (size_bytes < least_bytes) size_bytes = align_up(least_bytes, HUGE_BYTES);
    struct arena_block *block = block_new(size_bytes);
    block->before = a->block;
    a->block = block;
    char *const start = (char *)(block + 1);
    a->next = start + (align_up((size_t)(uintptr_t)start, ARENA_LINE_BYTES) - (size_t)(uintptr_t)start);
    a->left_bytes = size_bytes - (size_t)(a->next - (char *)block);
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
        before = block->before;
        if (block->mapped_bytes) munmap(block, block->mapped_bytes);
        else free(block);
    }
    *a = (struct arena){ 0 };
}
