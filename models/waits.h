/* waits.h - finds out which ranks the workers of a rank wait for, and for how long, in any world.
 *
 * Each worker of a launch is wrapped in another worker, which steps it and reads what it returns.  A wait begins
 * when a step returns WORKER_WAIT.  It ends with the next step that returns something else, does operations, or
 * waits for something else.  What a worker waits for is what describe() says.  A rank that is not watched pays
 * nothing. */
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
    int32_t peer;              /* the awaited rank; WAITS_NOBODY if the worker's words name no rank */
    const char *text;          /* what the worker waited for, without counts; valid during the call of note() */
};

struct waits_options {
    /* When all operations of the stepped worker will be done.  NULL: use the fabric's clock. */
    uint64_t (*busy_until_ps)(const struct fabric *f);
    /* How many operations the rank has done.  If it has done none since the last call, a worker that polls still waits
     * for the same event.  NULL: only the worker's words tell whether it still waits for the same event. */
    uint64_t (*operations)(const struct fabric *f);
    void (*note)(void *context, const struct waits_note *note); /* NULL: only sums are wanted */
    void *context;
};

struct waits;

/* The fabric must outlive the result. */
struct waits *waits_new(const struct fabric *fabric, const struct waits_options *options);
void waits_free(struct waits *waits);

/* Wraps the workers of a launch, and sets all sums to 0.  Run the returned workers instead.  They are valid until the
 * next call, which must come after the launch's end. */
struct fabric_worker **waits_wrap(struct waits *waits, struct fabric_worker *const *worker, uint32_t count);

/* waits_end() ends all open waits; call it when the launch is over.  After that, waits_us() returns the mean wait in
 * microseconds of the workers that waited for the peer. */
void waits_end(struct waits *waits);
double waits_us(const struct waits *waits, uint32_t peer);

/* The rank for which a worker waits according to describe(): the first "rank N" after the word "waits" or, without
 * that word, the first "rank N".  WAITS_NOBODY if that N is not below rank_count. */
int32_t waits_peer(const char *text, uint32_t rank_count);
/* Whether the text says that the worker waits for "any rank". */
bool waits_anybody(const char *text);

#endif
