/* cuda_host.c - times work that the host gives to a GPU: copies by the copy engines, and words that a stream writes
 * or awaits.  The host's clock times the call and the wait for its end.  The GPU's clock times many calls in
 * sequence.  This file also times words that a kernel and a thread of the host send each other. */
#include "replay/cuda/cuda_waits.h"

#include <stdatomic.h>
#include "replay/cuda/cuda_flows.h"

enum { MANY = 32, FEW = 16, CALL_US = 20, LINE_BYTES = 128 };

/* Times many copies of one size in sequence.  A kernel before them keeps the GPU busy while the host launches them. */
static bool copies_time(struct cuda_bench *b, uint64_t target, uint64_t source, size_t size, double *time_us,
                        GError **error)
{
    struct cuda_gpu *g = &b->gpu[0];
    if (!cuda_bench_time_begin(b, MANY * CALL_US, error)) return false;
    for (uint32_t i = 0; i < MANY; i++)
        if (!CALL(copy_stream, target, source, size, g->stream[0])) return false;
    if (!cuda_bench_time_end(b, time_us, error)) return false;
    *time_us /= MANY;
    return true;
}

/* Times copies one by one on the host.  *call_us gets the time of the call alone, and *wait_us that of the call and
 * the wait for the copy's end. */
static bool copies_wait(struct cuda_bench *b, uint64_t target, uint64_t source, size_t size, double *call_us,
                        double *wait_us, GError **error)
{
    struct cuda_gpu *g = &b->gpu[0];
    *call_us = *wait_us = 0;
    const double begin_us = cuda_now_us();
    for (uint32_t i = 0; i < FEW; i++) {
        const double start_us = cuda_now_us();
        if (!CALL(copy_stream, target, source, size, g->stream[0])) return false;
        *call_us += (cuda_now_us() - start_us) / FEW;
        if (!CALL(stream_wait, g->stream[0])) return false;
    }
    *wait_us = (cuda_now_us() - begin_us) / FEW;
    return true;
}

/* How far source and target are from the start of a line: not at all, equally far, and unequally far. */
static const struct {
    uint32_t source, target;
} shifts[] = { { 0, 0 }, { 16, 16 }, { 16, 0 } };

static bool copies_keep(struct cuda_bench *b, uint64_t target, const char *at, GError **error)
{
    static const uint32_t sizes_kb[] = { 1, 16, 64, 256, 1024, 4096, 16384, 65536 };
    for (EACH(s, shifts))
        for (EACH(i, sizes_kb)) {
            const uint64_t source = b->gpu[0].source + shifts[s].source, to = target + shifts[s].target;
            const size_t size = (size_t)sizes_kb[i] << 10;
            double time_us, call_us, wait_us;
            if (cuda_quick_skips(b, i, G_N_ELEMENTS(sizes_kb))) continue;
            if (!copies_time(b, to, source, size, &time_us, error) ||
                !copies_wait(b, to, source, size, &call_us, &wait_us, error))
                return false;
            char phase[64];
            g_snprintf(phase, sizeof phase, "host_copy at=%s kib=%u source=%u target=%u", at, sizes_kb[i],
                       shifts[s].source, shifts[s].target);
            cuda_bench_keep(b, "time_us", "us", 0, time_us, "%s", phase);
            cuda_bench_keep(b, "call_us", "us", 0, call_us, "%s", phase);
            cuda_bench_keep(b, "wait_us", "us", 0, wait_us, "%s", phase);
        }
    return true;
}

/* ---- words that streams write and await ---- */

/* Times a flag that goes to and fro between a stream of GPU 0 and a stream of GPU `to`.  The first stream writes a
 * word and awaits the answer.  The second stream awaits that word and writes the answer.  Each word is in the memory
 * of the GPU that awaits it.  The streams begin after a delay, when all calls have been made. */
static bool handing(struct cuda_bench *b, uint32_t to, uint32_t *value, double *time_us, GError **error)
{
    const struct cuda_gpu *g = &b->gpu[0], *other = &b->gpu[to];
    void *const stream[] = { g->stream[0], other->stream[to ? 0 : 1] };
    const uint64_t there = cuda_words(b, to), back = cuda_words(b, 0) + LINE_BYTES;
    if (!cuda_bench_time_begin(b, 4 * MANY * CALL_US, error)) return false;
    for (uint32_t i = 0; i < MANY; i++) {
        ++*value;
        if (!CALL(context_set, g->context) || !CALL(stream_write, stream[0], there, *value, 0) ||
            !CALL(context_set, other->context) || !CALL(stream_await, stream[1], there, *value, 0) ||
            !CALL(stream_write, stream[1], back, *value, 0) || !CALL(context_set, g->context) ||
            !CALL(stream_await, stream[0], back, *value, 0))
            return false;
    }
    if (!cuda_bench_time_end(b, time_us, error)) return false;
    *time_us /= 2 * MANY;
    return true;
}

/* Times a stream's writes of a word or, if `await`, its waits for a word that is already set.  *time_us gets the time
 * of one operation on the GPU, and *call_us the time of one call on the host. */
static bool words_alone(struct cuda_bench *b, uint32_t *value, bool await, double *time_us, double *call_us,
                        GError **error)
{
    struct cuda_gpu *g = &b->gpu[0];
    const uint64_t word = cuda_words(b, 0);
    if (!cuda_bench_time_begin(b, 2 * MANY * CALL_US, error)) return false;
    const double start_us = cuda_now_us();
    for (uint32_t i = 0; i < MANY; i++)
        if (!(await ? CALL(stream_await, g->stream[0], word, *value, 0)
                    : CALL(stream_write, g->stream[0], word, ++*value, 0)))
            return false;
    *call_us = (cuda_now_us() - start_us) / MANY;
    if (!cuda_bench_time_end(b, time_us, error)) return false;
    *time_us /= MANY;
    return true;
}

/* ---- words between a kernel and a thread of the host ---- */

/* Words in the host's memory that the GPU can reach, one in each line. */
struct answerer {
    _Atomic uint32_t *asked, *answer;
    uint32_t rounds;
    atomic_bool ended; /* the kernel has ended, or it failed */
};

/* Waits for each number from the kernel in a busy loop, and answers with the same number. */
static void *answer_all(void *argument)
{
    struct answerer *a = argument;
    for (uint32_t i = 1; i <= a->rounds; i++) {
        while (atomic_load_explicit(a->asked, memory_order_acquire) < i)
            if (atomic_load_explicit(&a->ended, memory_order_relaxed)) return NULL;
        atomic_store_explicit(a->answer, i, memory_order_release);
    }
    return NULL;
}

/* Measures how long a word takes between a kernel and a thread of the host: half the mean time of a round trip. */
static bool flags_host(struct cuda_bench *b, double *time_us, GError **error)
{
    const struct cuda_gpu *g = &b->gpu[0];
    const uint32_t rounds = b->quick ? 256 : 2048;
    struct answerer a = { .asked = g->host,
                          .answer = (_Atomic uint32_t *)((char *)g->host + LINE_BYTES),
                          .rounds = rounds };
    struct cuda_run run = { .kernel = "flag_relaxed_sys",
                            .blocks = 1,
                            .threads = 1,
                            .args = { .own = g->host_words + LINE_BYTES, .peer = g->host_words, .rows = rounds } };
    struct cuda_outcome o;
    atomic_store(a.asked, 0);
    atomic_store(a.answer, 0);
    GThread *thread = g_thread_new("answers", answer_all, &a);
    const bool ran = cuda_bench_run(b, &run, 1, &o, error);
    atomic_store(&a.ended, true);
    g_thread_join(thread);
    if (ran) *time_us = o.cycles / b->cycles_per_ns / 1e3 / (2.0 * rounds);
    return ran;
}

bool cuda_host_pass(struct cuda_bench *b, GError **error)
{
    uint32_t value = 0;
    double time_us, call_us;
    if (!cuda_bench_words_clear(b, error) || !CALL(context_set, b->gpu[0].context)) return false;
    if (!copies_keep(b, b->gpu[0].target, "own", error)) return false;
    if (!words_alone(b, &value, false, &time_us, &call_us, error)) return false;
    cuda_bench_keep(b, "time_us", "us", 0, time_us, "host_word write");
    cuda_bench_keep(b, "call_us", "us", 0, call_us, "host_word write");
    if (!words_alone(b, &value, true, &time_us, &call_us, error)) return false;
    cuda_bench_keep(b, "time_us", "us", 0, time_us, "host_word await");
    cuda_bench_keep(b, "call_us", "us", 0, call_us, "host_word await");
    if (!handing(b, 0, &value, &time_us, error)) return false;
    cuda_bench_keep(b, "time_us", "us", 0, time_us, "host_word handed");
    if (!flags_host(b, &time_us, error)) return false;
    cuda_bench_keep(b, "time_us", "us", 0, time_us, "host_flag");
    return true;
}

bool cuda_host_to_pass(struct cuda_bench *b, GError **error)
{
    uint32_t value = 0;
    double time_us;
    if (!cuda_bench_words_clear(b, error) || !CALL(context_set, b->gpu[0].context) ||
        !copies_keep(b, b->gpu[1].target, "peer", error) || !handing(b, 1, &value, &time_us, error))
        return false;
    cuda_bench_keep(b, "time_us", "us", 0, time_us, "host_word handed at=peer");
    return true;
}
