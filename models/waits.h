/* waits.h - whom the workers of a rank wait for, and how long: workers around workers, in any world.
 *
 * Each worker of a launch gets another one around it, which steps it and looks at what it returns.  A wait begins when
 * a step returns WORKER_WAIT and ends with the next step that returns something else, does operations, or waits for
 * something else.  What it waits for is what describe() says.  A rank that is not watched pays nothing. */
#ifndef MODELS_WAITS_H
#define MODELS_WAITS_H

#include <stdbool.h>
#include <stdint.h>
#include "models/fabric.h"

enum { WAITS_NOBODY = -1, WAITS_TEXT_BYTES = 96 };

/* A wait that has ended. */
struct waits_note {
    const struct fabric_worker *worker;
    uint64_t begin_ps, end_ps; /* begin < end */
    int32_t peer;              /* the rank, or WAITS_NOBODY where the words name none */
    const char *text;          /* what for, without counts: valid during the call */
};

struct waits_options {
    /* When all operations of the worker that is being stepped are done; NULL: the fabric's clock. */
    uint64_t (*busy_until_ps)(const struct fabric *f);
    /* How many operations the rank has done: a worker that polls has waited on if that has not moved.  NULL: its words
     * tell whether it still waits for the same. */
    uint64_t (*operations)(const struct fabric *f);
    void (*note)(void *context, const struct waits_note *note); /* NULL: only sums are wanted */
    void *context;
};

struct waits;

/* The fabric must outlive it. */
struct waits *waits_new(const struct fabric *fabric, const struct waits_options *options);
void waits_free(struct waits *waits);

/* The workers of a launch, wrapped: run these instead.  Valid until the next call, which must follow the launch's end.
 * Sums start anew. */
struct fabric_worker **waits_wrap(struct waits *waits, struct fabric_worker *const *worker, uint32_t count);

/* Ends waits that are still open: the launch is over.  Then the mean time that a worker which waited for the peer
 * waited for it, in microseconds. */
void waits_end(struct waits *waits);
double waits_us(const struct waits *waits, uint32_t peer);

/* Whom describe()'s words say that a worker waits for, by its contract: the first "rank N" behind "waits", or the first
 * of all without that word; WAITS_NOBODY for none below rank_count. */
int32_t waits_peer(const char *text, uint32_t rank_count);
/* Whether they say that it waits for "any rank". */
bool waits_anybody(const char *text);

#endif
