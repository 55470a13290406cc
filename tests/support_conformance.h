/* support_conformance.h - the contract of models/fabric.h as a suite of cases that every fabric must pass.
 *
 * A case is a program for each worker of each rank (write, signal, wait, check, ...).  The world runs the programs,
 * either of all ranks in one process, or of one rank in each process.  The suite knows nothing of a world but
 * models/fabric.h. */
#ifndef TESTS_SUPPORT_CONFORMANCE_H
#define TESTS_SUPPORT_CONFORMANCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "models/fabric.h"

/* What a world under test must offer (see fabric_needs).  A world has at most CONFORMANCE_RANKS ranks. */
enum {
    CONFORMANCE_RANKS = 8,
    CONFORMANCE_WORKERS = 8, /* of a rank, at most */
    CONFORMANCE_WORDS = 2048,
    CONFORMANCE_HEAP_BYTES = 24 << 20,
    CONFORMANCE_QUEUES = 3,
    CONFORMANCE_DEPTH = 8,
};

struct conformance_world {
    void *context;
    uint32_t rank_count;
    struct fabric *const *fabric; /* [rank]; NULL for a rank that another process runs */
    /* Runs the workers of all local ranks as one kernel until all are done.  On failure, returns false and fills
     * `why`. */
    bool (*run)(void *context, struct fabric_worker **worker, uint32_t worker_count, char *why, size_t why_size);
    /* A barrier with the other processes; NULL if all ranks are local. */
    bool (*barrier)(void *context, char *why, size_t why_size);
    /* Called after every case; why is "" if the case passed.  NULL: failed cases are printed. */
    void (*report)(void *context, const char *name, const char *why);
    /* Whether a queue of CONFORMANCE_DEPTH must refuse operations in a step that posts more than it holds. */
    bool refuses;
};

#define CONFORMANCE_NEEDS \
    { \
        CONFORMANCE_HEAP_BYTES, CONFORMANCE_WORDS, CONFORMANCE_QUEUES, CONFORMANCE_DEPTH, 0, false \
    }

/* Runs all cases on a fresh world.  Sizes, orders and data are drawn from the seed, which must be equal on all
 * processes.  Returns the number of failed cases. */
uint32_t conformance_run(const struct conformance_world *world, uint64_t seed);

#endif
