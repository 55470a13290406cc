/* looks.c - the queues in which reads of words in the host's memory wait; see looks.h. */
#include "models/hardware/world/looks.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "models/hardware/machine/link.h"
#include "sim/memory.h"

enum { LINE_WORDS = 64 / 8 }; /* words of 8 B in a 64-byte line of memory; their reads wait for one another */

/* What a worker reads. */
struct look {
    uint64_t end_ps; /* when its last read is done */
    uint32_t line, words;
    uint32_t warps; /* its warps that wait in the line's queue; 0: the worker waits in no queue */
};

struct looks {
    uint32_t *crowd; /* [lines] warps that wait in each line */
    uint32_t lines, workers;
    struct look look[]; /* [workers] */
};

/* Returns the rank's struct looks, with room for its workers and for `line`. */
static struct looks *looks_of(struct looks **of_rank, uint32_t workers, uint32_t line)
{
    if (*of_rank && (*of_rank)->workers < workers) { /* a new launch: no worker reads yet */
        looks_free(*of_rank);
        *of_rank = NULL;
    }
    if (!*of_rank) {
        *of_rank = memory_new(1, sizeof **of_rank + workers * sizeof(*of_rank)->look[0]);
        (*of_rank)->workers = workers;
    }
    struct looks *looks = *of_rank;
    if (line >= looks->lines) {
        looks->crowd = memory_grow(looks->crowd, line + 1, sizeof looks->crowd[0]);
        memset(looks->crowd + looks->lines, 0, (line + 1 - looks->lines) * sizeof looks->crowd[0]);
        looks->lines = line + 1;
    }
    return looks;
}

uint64_t looks_take(struct looks **of_rank, uint32_t workers, const struct cluster_node *node,
                    const struct fabric_worker *worker, const struct fabric_work *work, const struct loop *p,
                    uint64_t start_ps)
{
    const uint32_t line = (uint32_t)(work->argument / LINE_WORDS);
    const uint64_t words_ps = work->rows * node->host_look_ps;
    const uint32_t warps = work->warps ? work->warps : worker->warps;
    struct looks *looks = looks_of(of_rank, workers, line);
    struct look *look = &looks->look[worker->index];
    assert(!look->warps || look->line == line); /* a worker polls one line at a time */
    if (p->host != LOOP_HOST_POLLED) return start_ps + (looks->crowd[line] + 1) * words_ps;
    if (!look->warps) looks->crowd[line] += warps;
    *look = (struct look){ .line = line, .words = work->rows, .warps = warps };
    look->end_ps = start_ps + looks->crowd[line] * words_ps;
    return look->end_ps;
}

bool looks_goes_on(struct looks *looks, uint32_t worker, enum worker_step step, uint64_t begin_ps, uint64_t end_ps)
{
    struct look *look = &looks->look[worker];
    if (step != WORKER_DONE && end_ps == (step == WORKER_WAIT ? begin_ps : look->end_ps)) return true;
    assert(looks->crowd[look->line] >= look->warps);
    looks->crowd[look->line] -= look->warps;
    look->warps = 0;
    return false;
}

uint64_t looks_seen_ps(const struct looks *looks, const struct cluster_node *node, uint32_t worker)
{
    const struct look *look = &looks->look[worker];
    return later(node->host_look_ps, look->words * (uint64_t)looks->crowd[look->line] * node->host_look_ps / 2);
}

void looks_free(struct looks *looks)
{
    if (!looks) return;
    free(looks->crowd);
    free(looks);
}
