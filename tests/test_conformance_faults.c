/* test_conformance_faults.c - the conformance suite catches breaches of the contract.
 *
 * Method: live worlds over the stand-in network, in which one operation is replaced by one that breaks one rule of the
 * contract.  The suite must fail in the case that tests this rule.  Without a fault it must pass. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "sim/units.h"
#include "tests/support_conformance.h"
#include "tests/support_live.h"
#include "tests/unit.h"

enum { RANKS = 4 };

static struct live_world *worlds[RANKS];
static struct fabric *fabrics[RANKS];
static const struct fabric_ops *honest;
static char failed_cases[400];

static bool faults_run(void *context, struct fabric_worker **worker, uint32_t count, char *why, size_t why_size)
{
    (void)context;
    return support_worlds_run(worlds, RANKS, worker, count, why, why_size);
}

static void faults_report(void *context, const char *name, const char *why)
{
    (void)context;
    if (!why[0]) return;
    g_strlcat(failed_cases, name, sizeof failed_cases);
    g_strlcat(failed_cases, ";", sizeof failed_cases);
}

/* Runs the suite on ranks that use ops (NULL: the real ones).  failed_cases gets the names of failed cases. */
static uint32_t run_with(const struct fabric_ops *ops)
{
    struct live_options options = support_options("shm", 2);
    const struct fabric_needs needs = CONFORMANCE_NEEDS;
    struct bootstrap **b = support_bootstraps_new(RANKS);
    CU_ASSERT_TRUE_FATAL(support_worlds_new(&options, &needs, b, RANKS, worlds, NULL));
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        fabrics[rank] = live_world_fabric(worlds[rank]);
        honest = fabrics[rank]->ops;
    }
    for (uint32_t rank = 0; ops && rank < RANKS; rank++) fabrics[rank]->ops = ops;
    failed_cases[0] = '\0';
    const struct conformance_world world = {
        .rank_count = RANKS,
        .fabric = fabrics,
        .run = faults_run,
        .report = faults_report,
        .refuses = true,
    };
    const uint32_t failed = conformance_run(&world, 7);
    for (uint32_t rank = 0; rank < RANKS; rank++) live_world_free(worlds[rank]);
    support_bootstraps_free(b, RANKS);
    return failed;
}

static int signal_overtaking(struct fabric *f, struct fabric_worker *w, const struct fabric_signal *signal)
{
    (void)f, (void)w;
    fabrics[signal->peer]->words[signal->word] = signal->value;
    return 0;
}

static int signal_falling(struct fabric *f, struct fabric_worker *w, const struct fabric_signal *signal)
{
    struct fabric_signal wrong = *signal;
    if (wrong.value >> 32 && wrong.value % 3 == 2) wrong.value /= 2;
    return honest->signal(f, w, &wrong);
}

static int flush_at_once(struct fabric *f, struct fabric_worker *w, uint16_t peer, uint16_t queue)
{
    (void)honest->flush(f, w, peer, queue);
    return 0;
}

static int store_short(struct fabric *f, struct fabric_worker *w, const struct fabric_write *write)
{
    struct fabric_write wrong = *write;
    if (!wrong.fill && wrong.size_bytes) wrong.size_bytes--;
    return honest->store(f, w, &wrong);
}

static int store_unfilled(struct fabric *f, struct fabric_worker *w, const struct fabric_write *write)
{
    struct fabric_write wrong = *write;
    if (wrong.fill) wrong.size_bytes = 0;
    wrong.fill = NULL;
    return honest->store(f, w, &wrong);
}

static int put_never_full(struct fabric *f, struct fabric_worker *w, const struct fabric_write *write,
                          const struct fabric_signal *signal)
{
    const int rc = honest->put(f, w, write, signal);
    return rc == -EAGAIN ? 0 : rc;
}

static int store_when_empty(struct fabric *f, struct fabric_worker *w, const struct fabric_write *write)
{
    if (!write->size_bytes) fabrics[write->peer]->heap[write->target_offset] = 99;
    return honest->store(f, w, write);
}

static void add_lossy(struct fabric *f, struct fabric_worker *w, uint32_t word, uint64_t addend, enum site site)
{
    if (addend != 5) honest->signal_add(f, w, word, addend, site);
    else honest->signal_add(f, w, word, 50, site);
}

static int put_signal_overtaking(struct fabric *f, struct fabric_worker *w, const struct fabric_write *write,
                                 const struct fabric_signal *signal)
{
    if (signal && !signal->add) fabrics[signal->peer]->words[signal->word] = signal->value;
    return honest->put(f, w, write, signal);
}

/* A put with a signal that sets a counter instead of adding to it. */
static int put_signal_set(struct fabric *f, struct fabric_worker *w, const struct fabric_write *write,
                          const struct fabric_signal *signal)
{
    if (!signal) return honest->put(f, w, write, NULL);
    struct fabric_signal wrong = *signal;
    wrong.add = false;
    if (signal->add) wrong.value += 7;
    return honest->put(f, w, write, &wrong);
}

static int get_elsewhere(struct fabric *f, struct fabric_worker *w, const struct fabric_read *read)
{
    struct fabric_read wrong = *read;
    wrong.source_offset++;
    return honest->get(f, w, &wrong);
}

static int get_never_full(struct fabric *f, struct fabric_worker *w, const struct fabric_read *read)
{
    const int rc = honest->get(f, w, read);
    return rc == -EAGAIN ? 0 : rc;
}

static void work_twice(struct fabric *f, struct fabric_worker *w, const struct fabric_work *work)
{
    honest->work(f, w, work);
    honest->work(f, w, work);
}

static uint64_t clock_backwards(const struct fabric *f)
{
    static uint64_t calls;
    return honest->now_ps(f) - calls++ % 2 * PS_PER_US; /* every other time is 1 us too early */
}

static void expect(const struct fabric_ops *ops, const char *name)
{
    CU_ASSERT(run_with(ops) > 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(failed_cases, name));
    if (!strstr(failed_cases, name)) printf("\n      expected '%s' to fail, found '%s'\n", name, failed_cases);
}

#define FAULT(member, function, name) \
    do { \
        struct fabric_ops ops = *honest; \
        ops.member = function; \
        expect(&ops, name); \
    } while (0)

TEST("nothing planted") { CU_ASSERT_EQUAL(run_with(NULL), 0); }

TEST("order")
{
    FAULT(signal, signal_overtaking, "signal after data");
    FAULT(signal, signal_falling, "signals in order");
    FAULT(flush, flush_at_once, "flush is complete");
    FAULT(flush, flush_at_once, "ownership");
}

TEST("data")
{
    FAULT(store, store_short, "all to all");
    FAULT(store, store_unfilled, "signal after data");
    FAULT(store, store_when_empty, "zero size");
    FAULT(put, put_never_full, "back-pressure");
}

TEST("puts with signals, gets")
{
    FAULT(put, put_signal_overtaking, "put with a signal");
    FAULT(put, put_signal_set, "counters");
    FAULT(get, get_elsewhere, "get");
    FAULT(get, get_never_full, "get");
    FAULT(flush, flush_at_once, "get");
}

TEST("local work")
{
    FAULT(work, work_twice, "local work and adds");
    FAULT(now_ps, clock_backwards, "local work and adds");
}

/* Additions that make a word too large satisfy a wait for "at least", so the suite must check the sum itself. */
TEST("adds") { FAULT(signal_add, add_lossy, "local work and adds"); }
