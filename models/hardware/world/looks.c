/* looks.c - the lines in which reads of words in the host's memory wait; see looks.h. */
#include "models/hardware/world/looks.h"
#include "models/hardware/world/world_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_WORDS = 64 / 8 }; /* words of 8 B in a 64-byte line of memory, whose reads wait for one another */

/* What a worker reads. */
struct look {
    uint64_t end_ps; /* when its last read is done */
    uint32_t line, words;
};

struct looks {
    uint32_t *crowd; /* [lines] warps that wait there */
    uint32_t lines, worker_max;
    struct look look[]; /* [worker_max] */
};

static struct looks *looks_new(const struct world_rank *rank)
{
    struct looks *looks = memory_new(1, sizeof *looks + rank->worker_max * sizeof looks->look[0]);
    looks->worker_max = rank->worker_max;
    return looks;
}

/* The rank's lines, with room for its workers and for this one. */
static struct looks *looks_of(struct world_rank *rank, uint32_t line)
{
    if (rank->looks && rank->looks->worker_max < rank->worker_max) { /* a new launch: no worker reads yet */
        looks_free(rank->looks);
        rank->looks = NULL;
    }
    if (!rank->looks) rank->looks = looks_new(rank);
    struct looks *looks = rank->looks;
    if (line >= looks->lines) {
        looks->crowd = memory_grow(looks->crowd, line + 1, sizeof looks->crowd[0]);
        memset(looks->crowd + looks->lines, 0, (line + 1 - looks->lines) * sizeof looks->crowd[0]);
        looks->lines = line + 1;
    }
    return looks;
}

static uint64_t line_ps(const struct world_rank *rank, uint32_t warps, uint64_t words)
{
    const struct cluster_gpu *gpu = &rank->world->cluster->gpu;
    return later(gpu->host_look_ps, words * warps * gpu->host_look_turn_ps);
}

uint64_t looks_take(struct world_worker *ww, const struct fabric_work *work, uint64_t start_ps)
{
    struct world_rank *rank = worker_rank(ww);
    const uint32_t line = work->place / LINE_WORDS, warps = ww->worker->warps;
    struct looks *looks = looks_of(rank, line);
    struct look *look = &looks->look[ww - rank->worker];
    assert(!ww->looks || look->line == line); /* one at a time */
    if (!work->polls) return start_ps + line_ps(rank, looks->crowd[line] + 1, work->rows);
    if (!ww->looks) looks->crowd[line] += warps;
    ww->looks = true;
    *look = (struct look){ .line = line, .words = work->rows };
    look->end_ps = start_ps + line_ps(rank, looks->crowd[line], work->rows);
    return look->end_ps;
}

void looks_step_end(struct world_worker *ww, bool waits, uint64_t begin_ps)
{
    struct world_rank *rank = worker_rank(ww);
    const struct look *look = &rank->looks->look[ww - rank->worker];
    if (ww->cursor_ps == (waits ? begin_ps : look->end_ps)) return;
    assert(rank->looks->crowd[look->line] >= ww->worker->warps);
    rank->looks->crowd[look->line] -= ww->worker->warps;
    ww->looks = false;
}

uint64_t looks_seen_ps(struct world_worker *ww)
{
    const struct world_rank *rank = worker_rank(ww);
    const struct look *look = &rank->looks->look[ww - rank->worker];
    const struct cluster_gpu *gpu = &rank->world->cluster->gpu;
    const uint64_t round_ps = look->words * (uint64_t)rank->looks->crowd[look->line] * gpu->host_look_turn_ps;
    return later(gpu->host_look_ps, round_ps / 2);
}

void looks_free(struct looks *looks)
{
    if (!looks) return;
    free(looks->crowd);
    free(looks);
}
