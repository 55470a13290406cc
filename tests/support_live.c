/* support_live.c - the thread bootstrap and the single-threaded loop over many live worlds.
 *
 * One thread steps all ranks, so runs are repeatable: the only order is that of the loop. */
#include "tests/support_live.h"
#include "tests/support_conformance.h"
#include "tests/unit.h"

#include <CUnit/CUnit.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* The state of the exchange that is under way.  The ranks meet, and the last to come resizes the table.  They meet
 * again, put their parts into it, meet, copy the table, and meet. */
struct thread_exchange {
    GMutex lock;
    GCond met;
    uint32_t waiting;
    uint64_t meetings;
    uint8_t *table;
};

struct thread_bootstrap {
    struct bootstrap b;
    struct thread_exchange *exchange;
};

/* Waits for all ranks, and serves links as bootstraps do.  Returns true on the rank that came last. */
static bool thread_meet(struct bootstrap *b, struct thread_exchange *x)
{
    g_mutex_lock(&x->lock);
    const uint64_t meeting = x->meetings;
    const bool last = ++x->waiting == b->rank_count;
    if (last) {
        x->waiting = 0;
        x->meetings++;
        g_cond_broadcast(&x->met);
    }
    while (x->meetings == meeting) {
        if (g_cond_wait_until(&x->met, &x->lock, g_get_monotonic_time() + 1000) || !b->serve) continue;
        g_mutex_unlock(&x->lock);
        b->serve(b->serve_context);
        g_mutex_lock(&x->lock);
    }
    g_mutex_unlock(&x->lock);
    return last;
}

static bool thread_allgather(struct bootstrap *b, const void *in, size_t size_bytes, void *out, GError **error)
{
    (void)error;
    struct thread_exchange *exchange = ((struct thread_bootstrap *)b)->exchange;
    if (thread_meet(b, exchange)) exchange->table = g_realloc(exchange->table, size_bytes * b->rank_count + 1);
    thread_meet(b, exchange);
    if (size_bytes) memcpy(exchange->table + size_bytes * b->rank, in, size_bytes);
    thread_meet(b, exchange);
    if (size_bytes) memcpy(out, exchange->table, size_bytes * b->rank_count);
    thread_meet(b, exchange);
    return true;
}

static void thread_abort(struct bootstrap *b, const char *reason)
{
    fprintf(stderr, "rank %u gave up: %s\n", b->rank, reason);
}

static void thread_free(struct bootstrap *b) { g_free(b); }

static const struct bootstrap_ops thread_ops = {
    .name = "threads",
    .allgather = thread_allgather,
    .abort = thread_abort,
    .free = thread_free,
};

struct bootstrap **support_bootstraps_new(uint32_t rank_count)
{
    struct thread_exchange *exchange = g_new0(struct thread_exchange, 1);
    g_mutex_init(&exchange->lock);
    g_cond_init(&exchange->met);
    struct bootstrap **b = g_new0(struct bootstrap *, rank_count);
    for (uint32_t rank = 0; rank < rank_count; rank++) {
        struct thread_bootstrap *made = g_new0(struct thread_bootstrap, 1);
        made->b = (struct bootstrap){ .ops = &thread_ops, .rank = rank, .rank_count = rank_count, .timeout_ms = 20000 };
        made->exchange = exchange;
        b[rank] = &made->b;
    }
    return b;
}

void support_bootstraps_free(struct bootstrap **b, uint32_t rank_count)
{
    struct thread_exchange *exchange = ((struct thread_bootstrap *)b[0])->exchange;
    g_cond_clear(&exchange->met);
    g_mutex_clear(&exchange->lock);
    g_free(exchange->table);
    g_free(exchange);
    for (uint32_t rank = 0; rank < rank_count; rank++) bootstrap_free(b[rank]);
    g_free(b);
}

struct thread_call {
    struct bootstrap *b;
    bool (*body)(struct bootstrap *b, void *context);
    void *context;
    bool fine;
};

static void *thread_main(void *argument)
{
    struct thread_call *call = argument;
    call->fine = call->body(call->b, call->context);
    return NULL;
}

uint32_t support_bootstraps_run(struct bootstrap **b, uint32_t rank_count,
                                bool (*body)(struct bootstrap *b, void *context), void *context)
{
    pthread_t *thread = g_new(pthread_t, rank_count);
    g_autofree struct thread_call *call = g_new(struct thread_call, rank_count);
    uint32_t failed = 0;
    for (uint32_t rank = 0; rank < rank_count; rank++) {
        call[rank] = (struct thread_call){ b[rank], body, context, false };
        if (pthread_create(&thread[rank], NULL, thread_main, &call[rank]) != 0) g_error("no thread");
    }
    for (uint32_t rank = 0; rank < rank_count; rank++) {
        pthread_join(thread[rank], NULL);
        failed += !call[rank].fine;
    }
    g_free(thread);
    return failed;
}

struct live_options support_options(const char *fabric, uint32_t ranks_per_node)
{
    struct live_options options;
    live_options_init(&options);
    options.fabric = fabric;
    options.ranks_per_node = ranks_per_node;
    return options;
}

struct worlds_call {
    const struct live_options *options;
    const struct fabric_needs *needs;
    struct live_world **world;
    GError **error; /* [rank] */
};

static bool worlds_make(struct bootstrap *b, void *context)
{
    struct worlds_call *call = context;
    call->world[b->rank] = live_world_new(call->options, call->needs, b, &call->error[b->rank]);
    return call->world[b->rank] != NULL;
}

bool support_worlds_new(const struct live_options *options, const struct fabric_needs *needs, struct bootstrap **b,
                        uint32_t rank_count, struct live_world **world, GError **error)
{
    GError **errors = g_new0(GError *, rank_count);
    struct worlds_call call = { options, needs, world, errors };
    const uint32_t failed = support_bootstraps_run(b, rank_count, worlds_make, &call);
    for (uint32_t rank = 0; rank < rank_count; rank++) {
        if (!errors[rank]) continue;
        if (error && !*error) g_propagate_error(error, errors[rank]);
        else g_error_free(errors[rank]);
    }
    g_free(errors);
    return failed == 0;
}

void support_worlds_refused(const struct live_options *options, const struct fabric_needs *needs, const char *expected)
{
    struct bootstrap **b = support_bootstraps_new(2);
    struct live_world *world[2] = { NULL };
    GError *error = NULL;
    CU_ASSERT_FALSE(support_worlds_new(options, needs, b, 2, world, &error));
    CU_ASSERT(!world[0] && !world[1]);
    CU_ASSERT(error_holds(&error, expected));
    support_bootstraps_free(b, 2);
}

/* Steps once every worker that is not done, and polls every link.  Returns -1 if a link broke, else whether anything
 * moved. */
static int worlds_round(struct live_world **world, uint32_t rank_count, struct fabric_worker **worker,
                        uint32_t *worker_count, char *why, size_t why_size)
{
    bool moved = false;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < *worker_count; i++) {
        struct fabric_worker *w = worker[i];
        const enum worker_step step = fabric_worker_step(w);
        moved |= step != WORKER_WAIT;
        if (step != WORKER_DONE) worker[kept++] = w;
    }
    *worker_count = kept;
    for (uint32_t rank = 0; rank < rank_count; rank++) {
        const int rc = world[rank] ? live_world_progress(world[rank]) : 0;
        moved |= rc > 0;
        if (rc >= 0) continue;
        snprintf(why, why_size, "rank %u: %s", rank, live_world_failure(world[rank]));
        return -1;
    }
    return moved;
}

bool support_worlds_run(struct live_world **world, uint32_t rank_count, struct fabric_worker **worker,
                        uint32_t worker_count, char *why, size_t why_size)
{
    g_autofree struct fabric_worker **active = g_memdup2(worker, sizeof *worker * worker_count);
    gint64 moved_us = g_get_monotonic_time();
    bool fine = true;
    while (fine && worker_count) {
        const int rc = worlds_round(world, rank_count, active, &worker_count, why, why_size);
        if (rc > 0) moved_us = g_get_monotonic_time();
        fine = rc >= 0;
        if (rc == 0 && worker_count && g_get_monotonic_time() - moved_us > 20 * G_USEC_PER_SEC) {
            char text[128] = "";
            fabric_worker_describe(active[0], text, sizeof text);
            snprintf(why, why_size, "nothing moves: rank %u: %s", active[0]->fabric->rank, text);
            fine = false;
        }
    }
    return fine;
}

/* ---- the conformance suite ---- */

struct thread_worlds {
    struct live_world *world[CONFORMANCE_RANKS];
    uint32_t rank_count;
};

static bool thread_worlds_run(void *context, struct fabric_worker **worker, uint32_t worker_count, char *why,
                              size_t why_size)
{
    struct thread_worlds *w = context;
    return support_worlds_run(w->world, w->rank_count, worker, worker_count, why, why_size);
}

void support_worlds_conform(uint32_t rank_count, const struct live_options *options, uint32_t depth, bool refuses,
                            uint64_t seed)
{
    struct bootstrap **b = support_bootstraps_new(rank_count);
    struct thread_worlds w = { .rank_count = rank_count };
    struct fabric_needs needs = CONFORMANCE_NEEDS;
    struct fabric *fabric[CONFORMANCE_RANKS];
    GError *error = NULL;
    needs.queue_depth = depth;
    const bool made = support_worlds_new(options, &needs, b, rank_count, w.world, &error);
    if (error) printf("\n      %s\n", error->message);
    CU_ASSERT_TRUE_FATAL(made);
    for (uint32_t rank = 0; rank < rank_count; rank++) fabric[rank] = live_world_fabric(w.world[rank]);
    const struct conformance_world world = {
        .context = &w, .rank_count = rank_count, .fabric = fabric, .run = thread_worlds_run, .refuses = refuses
    };
    CU_ASSERT_EQUAL(conformance_run(&world, seed), 0);
    for (uint32_t rank = 0; rank < rank_count; rank++) live_world_free(w.world[rank]);
    support_bootstraps_free(b, rank_count);
}

struct process_world {
    struct live_world *world;
    struct bootstrap *bootstrap;
};

static bool fail_with(GError *error, char *why, size_t why_size)
{
    snprintf(why, why_size, "%s", error->message);
    g_error_free(error);
    return false;
}

static bool process_run(void *context, struct fabric_worker **worker, uint32_t count, char *why, size_t why_size)
{
    struct process_world *process = context;
    GError *error = NULL;
    return live_world_run(process->world, worker, count, &error) || fail_with(error, why, why_size);
}

static bool process_barrier(void *context, char *why, size_t why_size)
{
    struct process_world *process = context;
    GError *error = NULL;
    return bootstrap_barrier(process->bootstrap, &error) || fail_with(error, why, why_size);
}

static void process_report(void *context, const char *name, const char *why)
{
    const struct process_world *process = context;
    if (why[0]) fprintf(stderr, "\n      rank %u: %s: %s\n", process->bootstrap->rank, name, why);
}

/* A write that reports success and moves nothing.  A smaller fault would not be found reliably: a signal that comes too
 * early is noticed only if the peer reads it in between. */
static int lose_store(struct fabric *f, struct fabric_worker *w, const struct fabric_write *write)
{
    (void)f, (void)w, (void)write;
    return 0;
}

static int lose_put(struct fabric *f, struct fabric_worker *w, const struct fabric_write *write,
                    const struct fabric_signal *signal)
{
    (void)signal;
    return lose_store(f, w, write);
}

int support_process_conforms(struct bootstrap *b, void *context)
{
    const struct support_process_case *c = context;
    const struct fabric_needs needs = CONFORMANCE_NEEDS;
    struct process_world process = { .bootstrap = b };
    GError *error = NULL;
    char why[200];
    process.world = live_world_new(&c->options, &needs, b, &error);
    if (!process.world) {
        fail_with(error, why, sizeof why);
        process_report(&process, "no world", why);
        return 3;
    }
    struct fabric *fabric[CONFORMANCE_RANKS] = { NULL };
    fabric[b->rank] = live_world_fabric(process.world);
    struct fabric_ops ops = *fabric[b->rank]->ops;
    ops.store = lose_store;
    ops.put = lose_put;
    if ((int32_t)b->rank == c->traitor) fabric[b->rank]->ops = &ops;
    const struct conformance_world world = {
        .context = &process,
        .rank_count = b->rank_count,
        .fabric = fabric,
        .run = process_run,
        .barrier = process_barrier,
        .report = process_report,
    };
    const uint32_t failed = conformance_run(&world, c->seed);
    const bool met = bootstrap_barrier(b, NULL);
    live_world_free(process.world);
    return failed || !met ? 4 : 0;
}
