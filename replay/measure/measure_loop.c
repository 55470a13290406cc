/* measure_loop.c - the cost of work on rows in a loop of low-latency dispatch and combine, by the number of bytes
 * that the loop touches.
 *
 * A row that is touched again is still in L2, in the shared cache, or only in memory.  Other virtual machines also
 * use the shared cache.  Their effect shows only in rows that stay there as long as a kernel's rows do.  So
 * ranks pass rows on as these kernels do.  A rank casts its rows and stores them to all ranks.  The receivers copy the
 * rows, turn them into the output of experts, and store this output back.  Then the rank sums what has come back.  The
 * loop has only this order in common with the protocol.  It has no words, workers or routing. */
#include "replay/measure/measure.h"

#include <string.h>
#include "models/cluster.h"
#include "models/moe/formats.h"
#include "sim/memory.h"

enum {
    HIDDEN = CLUSTER_REDUCE_ROW_BYTES / 2,
    SCALES = HIDDEN / FORMATS_BLOCK,
    TOPK = CLUSTER_LOOP_TOPK,
    MESSAGE_BYTES = CLUSTER_LOOP_MESSAGE_BYTES,
    HEADER_BYTES = MESSAGE_BYTES - HIDDEN - 4 * SCALES,
    ROW_BYTES = CLUSTER_REDUCE_ROW_BYTES,
    SLOT_BYTES = ROW_BYTES + 4 * SCALES, /* size of the slot of a row that is returned */
    GROUP_TOKENS = 2, /* tokens that are cast and then stored at once, so that stores read them from the core's L1 */
    TOKEN_BYTES = 2 * ROW_BYTES + MESSAGE_BYTES + TOPK * (MESSAGE_BYTES + HIDDEN + 2 * ROW_BYTES),
    TOKENS_MAX = 256,
};

/* The rows in a rank's own memory. */
struct measure_loop {
    uint16_t *input, *expert, *sum; /* [tokens], [received], [tokens] rows */
    uint8_t *received;              /* [received] rows of FP8 */
    float *scales;
};

struct round {
    struct fabric *fabric;
    struct fabric_worker worker;
    struct measure_loop *loop;
    uint32_t tokens, ranks, each;                             /* each: the most messages from one rank to another */
    double cast_us, message_us, copy_us, store_us, reduce_us; /* CPU time of all rounds so far */
};

/* ---- places in the heap, behind the areas of the other benchmarks ---- */

static uint32_t places(uint32_t tokens, uint32_t ranks) { return (tokens * TOPK + ranks - 1) / ranks * ranks; }

static uint64_t stage_at(uint32_t token) { return 2 * (uint64_t)MEASURE_AREA_BYTES + (uint64_t)token * MESSAGE_BYTES; }

static uint64_t message_at(uint32_t place) { return stage_at(TOKENS_MAX) + (uint64_t)place * MESSAGE_BYTES; }

static uint64_t slot_at(uint32_t ranks, uint32_t place)
{
    return message_at(places(TOKENS_MAX, ranks)) + (uint64_t)place * SLOT_BYTES;
}

uint64_t measure_loop_heap_bytes(uint32_t ranks)
{
    return slot_at(ranks, places(TOKENS_MAX, ranks)) - 2 * (uint64_t)MEASURE_AREA_BYTES;
}

static struct measure_loop *loop_new(uint32_t ranks)
{
    const size_t received = places(TOKENS_MAX, ranks);
    struct measure_loop *l = g_new(struct measure_loop, 1);
    *l = (struct measure_loop){
        .input = g_new(uint16_t, (size_t)TOKENS_MAX * HIDDEN),
        .expert = g_new(uint16_t, received * HIDDEN),
        .sum = g_new(uint16_t, (size_t)TOKENS_MAX * HIDDEN),
        .received = g_new(uint8_t, received * HIDDEN),
        .scales = g_new(float, received *SCALES),
    };
    for (size_t i = 0; i < (size_t)TOKENS_MAX * HIDDEN; i++)
        l->input[i] = format_bf16_from_f32((float)(i % 251) / 64.0f - 1.5f);
    return l;
}

void measure_loop_free(struct measure_loop *l)
{
    if (!l) return;
    FREE_ALL(l->input, l->expert, l->sum, l->received, l->scales, l);
}

/* ---- the parts of a round ---- */

static void row_store(struct round *r, uint32_t peer, uint64_t target_offset, const void *data, uint32_t size_bytes)
{
    const struct fabric_write write = {
        .target_offset = target_offset,
        .charge_bytes = size_bytes,
        .peer = (uint16_t)peer,
        .data = data,
        .size_bytes = size_bytes,
    };
    const int rc = fabric_store(&r->worker, &write);
    g_assert(rc == 0); /* stores to memory never wait */
}

/* These functions give the rank to which a rank's choice i goes, and the place of this choice at that rank. */
static uint32_t choice_peer(const struct round *r, uint32_t rank, uint32_t i) { return (rank + i) % r->ranks; }

static uint32_t choice_place(const struct round *r, uint32_t rank, uint32_t i) { return rank * r->each + i / r->ranks; }

static void tokens_cast(struct round *r, uint32_t first, uint32_t last)
{
    const double start_us = contention_thread_us();
    for (uint32_t t = first; t < last; t++) {
        uint8_t *message = r->fabric->heap + stage_at(t);
        float *scales = (float *)(void *)(message + HEADER_BYTES + HIDDEN);
        format_row_to_fp8(r->loop->input + (size_t)t * HIDDEN, HIDDEN, false, message + HEADER_BYTES, scales);
    }
    r->cast_us += contention_thread_us() - start_us;
}

static void messages_store(struct round *r, uint32_t first, uint32_t last)
{
    const uint32_t rank = r->fabric->rank;
    const double start_us = contention_thread_us();
    for (uint32_t i = first * TOPK; i < last * TOPK; i++)
        row_store(r, choice_peer(r, rank, i), message_at(choice_place(r, rank, i)),
                  r->fabric->heap + stage_at(i / TOPK), MESSAGE_BYTES);
    r->message_us += contention_thread_us() - start_us;
}

/* Returns whether a message comes to this place.  If so, *source is the rank that sends it, and the message belongs to
 * that rank's choice number *choice. */
static bool place_taken(const struct round *r, uint32_t place, uint32_t *source, uint32_t *choice)
{
    *source = place / r->each;
    const uint32_t offset = (r->fabric->rank + r->ranks - *source) % r->ranks;
    *choice = place % r->each * r->ranks + offset;
    return *choice < r->tokens * TOPK;
}

static uint32_t messages_copy(struct round *r)
{
    uint32_t count = 0, source, choice;
    const double start_us = contention_thread_us();
    for (uint32_t place = 0; place < r->each * r->ranks; place++) {
        const uint8_t *message = r->fabric->heap + message_at(place);
        if (!place_taken(r, place, &source, &choice)) continue;
        memcpy(r->loop->received + (size_t)place * HIDDEN, message + HEADER_BYTES, HIDDEN);
        memcpy(r->loop->scales + (size_t)place * SCALES, message + HEADER_BYTES + HIDDEN, 4 * SCALES);
        count++;
    }
    r->copy_us += contention_thread_us() - start_us;
    return count;
}

/* Stands for the experts' work.  Its time is not counted. */
static void experts_run(struct round *r)
{
    for (uint32_t place = 0; place < r->each * r->ranks; place++)
        format_row_from_fp8(r->loop->received + (size_t)place * HIDDEN, r->loop->scales + (size_t)place * SCALES,
                            HIDDEN, r->loop->expert + (size_t)place * HIDDEN);
}

/* The slot of a choice.  The choices with one number, of all tokens, have adjacent slots, as the tokens of one expert
 * have in a kernel.  So the rows that are summed for one token are far apart. */
static uint32_t choice_slot(const struct round *r, uint32_t choice)
{
    return choice % TOPK * r->tokens + choice / TOPK;
}

static void rows_return(struct round *r)
{
    uint32_t source, choice;
    const double start_us = contention_thread_us();
    for (uint32_t place = 0; place < r->each * r->ranks; place++)
        if (place_taken(r, place, &source, &choice))
            row_store(r, source, slot_at(r->ranks, choice_slot(r, choice)), r->loop->expert + (size_t)place * HIDDEN,
                      ROW_BYTES);
    r->store_us += contention_thread_us() - start_us;
}

static void rows_reduce(struct round *r)
{
    static const float weight[TOPK] = { 0.25f, 0.125f, 0.125f, 0.125f, 0.125f, 0.125f, 0.0625f, 0.0625f };
    const double start_us = contention_thread_us();
    for (uint32_t t = 0; t < r->tokens; t++) {
        const uint16_t *row[TOPK];
        for (uint32_t j = 0; j < TOPK; j++)
            row[j] =
                (const uint16_t *)(const void *)(r->fabric->heap + slot_at(r->ranks, choice_slot(r, t * TOPK + j)));
        format_rows_reduce(row, weight, TOPK, HIDDEN, r->loop->sum + (size_t)t * HIDDEN);
    }
    r->reduce_us += contention_thread_us() - start_us;
}

static bool round_run(struct measure *m, struct round *r, GError **error)
{
    for (uint32_t t = 0; t < r->tokens; t += GROUP_TOKENS) {
        tokens_cast(r, t, MIN(t + GROUP_TOKENS, r->tokens));
        messages_store(r, t, MIN(t + GROUP_TOKENS, r->tokens));
    }
    if (!live_world_barrier(m->store_world, error)) return false;
    messages_copy(r);
    experts_run(r);
    if (!live_world_barrier(m->store_world, error)) return false;
    rows_return(r);
    if (!live_world_barrier(m->store_world, error)) return false;
    rows_reduce(r);
    return live_world_barrier(m->store_world, error);
}

/* Measures whole rounds, for at least `count` tokens.  A round before them, which is not counted, brings the rows
 * into the caches. */
static bool test_loop(struct measure *m, uint32_t touched_bytes, uint32_t count, double *value, GError **error)
{
    struct fabric *f = live_world_fabric(m->store_world);
    if (!m->loop) m->loop = loop_new(f->rank_count);
    struct round r = { .fabric = f, .loop = m->loop, .ranks = f->rank_count, .tokens = touched_bytes / TOKEN_BYTES };
    r.worker = fabric_worker_of(f, &measure_no_role);
    r.each = places(r.tokens, r.ranks) / r.ranks;
    if (!round_run(m, &r, error)) return false;
    r.cast_us = r.message_us = r.copy_us = r.store_us = r.reduce_us = 0;
    const double start_us = measure_now_us();
    const uint32_t rounds = (count + r.tokens - 1) / r.tokens;
    for (uint32_t i = 0; i < rounds; i++)
        if (!round_run(m, &r, error)) return false;
    const double tokens = (double)rounds * r.tokens, rows = tokens * TOPK;
    value[0] = (measure_now_us() - start_us) / tokens;
    value[1] = r.cast_us / tokens;
    value[2] = r.message_us / rows;
    value[3] = r.copy_us / rows;
    value[4] = r.store_us / rows;
    value[5] = r.reduce_us / tokens;
    return true;
}

bool measure_loop_run(struct measure *m, const char *suffix, GError **error)
{
    static const uint32_t sizes[] = { 16 * TOKEN_BYTES,  32 * TOKEN_BYTES,  64 * TOKEN_BYTES,
                                      128 * TOKEN_BYTES, 256 * TOKEN_BYTES, 0 };
    static const struct measure_test test = {
        "loop",
        { "token_us", "cast_us", "message_us", "copy_us", "store_us", "reduce_us" },
        { "us", "us", "us", "us", "us", "us" },
        .run = test_loop,
        .sizes = sizes,
    };
    return measure_test_run(m, &test, suffix, error);
}
