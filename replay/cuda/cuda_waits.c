/* cuda_waits.c - measures how long kernels wait on one GPU or between two: for launches, loads, atomics, fences,
 * flags and barriers. */
#include "replay/cuda/cuda_waits.h"

#include <math.h>
#include "replay/cuda/cuda_flows.h"

static double per_row_ns(const struct cuda_bench *b, const struct cuda_outcome *o)
{
    return o->warps ? o->cycles / b->cycles_per_ns * o->warps / o->rows : NAN;
}

bool cuda_clock_pass(struct cuda_bench *b, GError **error)
{
    struct cuda_run run = { .kernel = "spin", .blocks = 1, .threads = 32, .args = { .cycles = 4000000 } };
    struct cuda_outcome o;
    if (!cuda_bench_run(b, &run, 1, &o, error)) return false;
    cuda_bench_keep(b, "rate_ghz", "GHz", 0, (double)run.args.cycles / (double)(o.to_ns - o.from_ns), "clock");
    return true;
}

/* ---- launches ---- */

static const struct launch_kind {
    const char *name;
    bool cooperative;
    uint32_t cluster, shared_kb;
} launch_kinds[] = {
    { "plain", false, 0, 0 },
    { "cooperative", true, 0, 0 },
    { "cooperative+cluster2+200KB", true, 2, 200 },
};

static struct cuda_run launch_run(const struct launch_kind *kind, const char *kernel, uint32_t blocks)
{
    return (struct cuda_run){ .kernel = kernel,
                              .blocks = blocks,
                              .threads = 768,
                              .cooperative = kind->cooperative,
                              .cluster = kind->cluster,
                              .shared_bytes = kind->shared_kb << 10 };
}

/* Measures empty kernels.  time_us is the mean time of a kernel when many run in sequence, by events.  call_us is the
 * time of the launching call on the host.  wait_us is that time and the wait for the kernel's end. */
static bool launches_time(struct cuda_bench *b, const struct launch_kind *kind, uint32_t blocks, GError **error)
{
    enum { MANY = 64, FEW = 16, CALL_US = 20 };
    const struct cuda_run run = launch_run(kind, "empty", blocks);
    struct cuda_gpu *g = &b->gpu[0];
    double call_us = 0, whole_us = 0, time_us;
    if (!CALL(context_set, g->context) || !cuda_bench_launch(b, &run, error) || !CALL(stream_wait, g->stream[0]) ||
        !cuda_bench_time_begin(b, MANY * CALL_US, error))
        return false;
    for (uint32_t i = 0; i < MANY; i++)
        if (!cuda_bench_launch(b, &run, error)) return false;
    if (!cuda_bench_time_end(b, &time_us, error)) return false;
    for (uint32_t i = 0; i < FEW; i++) {
        const double start_us = cuda_now_us();
        if (!cuda_bench_launch(b, &run, error)) return false;
        call_us += (cuda_now_us() - start_us) / FEW;
        if (!CALL(stream_wait, g->stream[0])) return false;
        whole_us += (cuda_now_us() - start_us) / FEW;
    }
    cuda_bench_keep(b, "time_us", "us", 0, time_us / MANY, "launch %s blocks=%u", kind->name, blocks);
    cuda_bench_keep(b, "call_us", "us", 0, call_us, "launch %s blocks=%u", kind->name, blocks);
    cuda_bench_keep(b, "wait_us", "us", 0, whole_us, "launch %s blocks=%u", kind->name, blocks);
    return true;
}

/* Measures a kernel that reads an address from memory and then the word at this address: the mean time when many run
 * in sequence. */
static bool launches_lookup(struct cuda_bench *b, const struct launch_kind *kind, uint32_t blocks, GError **error)
{
    enum { MANY = 64, CALL_US = 20 };
    struct cuda_gpu *g = &b->gpu[0];
    struct cuda_run run = launch_run(kind, "lookup", blocks);
    double time_us;
    run.args.own = g->table;
    if (!CALL(context_set, g->context) || !CALL(upload, g->table, &g->target, sizeof g->target) ||
        !cuda_bench_launch(b, &run, error) || !CALL(stream_wait, g->stream[0]) ||
        !cuda_bench_time_begin(b, MANY * CALL_US, error))
        return false;
    for (uint32_t i = 0; i < MANY; i++)
        if (!cuda_bench_launch(b, &run, error)) return false;
    if (!cuda_bench_time_end(b, &time_us, error)) return false;
    cuda_bench_keep(b, "lookup_us", "us", 0, time_us / MANY, "launch %s blocks=%u", kind->name, blocks);
    return true;
}

/* The time from `from_ns` to `to_ns`, which may be earlier. */
static double later_us(uint64_t from_ns, uint64_t to_ns) { return (double)(int64_t)(to_ns - from_ns) / 1e3; }

/* Measures how long after the first block the last block starts, how long the whole kernel takes, and how long the gap
 * between two kernels is. */
static bool launches_look(struct cuda_bench *b, const struct launch_kind *kind, uint32_t blocks, GError **error)
{
    struct cuda_run run = launch_run(kind, "stamp", blocks);
    struct cuda_outcome o, pair[2];
    if (!cuda_bench_run(b, &run, 1, &o, error) || !cuda_bench_pair(b, &run, &run, pair, error)) return false;
    cuda_bench_keep(b, "ramp_us", "us", 0, later_us(o.from_ns, o.last_from_ns), "launch %s blocks=%u", kind->name,
                    blocks);
    cuda_bench_keep(b, "span_us", "us", 0, later_us(o.from_ns, o.to_ns), "launch %s blocks=%u", kind->name, blocks);
    cuda_bench_keep(b, "gap_us", "us", 0, later_us(pair[0].to_ns, pair[1].from_ns), "launch %s blocks=%u", kind->name,
                    blocks);
    return true;
}

/* Measures a kernel that is launched while the one before it runs, and waits for its end: how long after the launch is
 * allowed the kernel begins, and how long after that end it goes on. */
static bool launches_early(struct cuda_bench *b, uint32_t blocks, GError **error)
{
    const struct cuda_run before = {
        .kernel = "early", .blocks = blocks, .threads = 512, .args = { .cycles = cuda_cycles(b, 20) }
    };
    const struct cuda_run soon = { .kernel = "soon", .blocks = blocks, .threads = 512, .early = true };
    const struct cuda_run late = { .kernel = "late", .blocks = blocks, .threads = 512, .early = true };
    struct cuda_outcome let[2], ended[2];
    if (!cuda_bench_pair(b, &before, &soon, let, error) || !cuda_bench_pair(b, &before, &late, ended, error))
        return false;
    cuda_bench_keep(b, "begin_us", "us", 0, later_us(let[0].last_from_ns, let[1].from_ns), "launch early blocks=%u",
                    blocks);
    cuda_bench_keep(b, "gap_us", "us", 0, later_us(ended[0].to_ns, ended[1].from_ns), "launch early blocks=%u", blocks);
    return true;
}

bool cuda_launch_pass(struct cuda_bench *b, GError **error)
{
    const uint32_t blocks[] = { 2, 24, b->sms };
    double time_us;
    for (EACH(k, launch_kinds))
        for (EACH(i, blocks))
            if (!launches_time(b, &launch_kinds[k], blocks[i], error) ||
                !launches_lookup(b, &launch_kinds[k], blocks[i], error) ||
                !launches_look(b, &launch_kinds[k], blocks[i], error))
                return false;
    for (EACH(i, blocks))
        if (!launches_early(b, blocks[i], error)) return false;
    if (!cuda_bench_time_begin(b, 200, error) || !cuda_bench_time_end(b, &time_us, error)) return false;
    cuda_bench_keep(b, "time_us", "us", 0, time_us, "events");
    return true;
}

/* ---- one thread ---- */

static const char *const alone_kernels[] = {
    "alone_ld_relaxed_gpu",   "alone_ld_relaxed_sys",   "alone_ld_acquire_gpu",
    "alone_ld_acquire_sys",   "alone_ld_volatile",      "alone_ld_nc",
    "alone_ld_weak",          "alone_atom_gpu",         "alone_atom_sys",
    "alone_atom_release_gpu", "alone_atom_release_sys", "alone_red_gpu",
    "alone_red_sys",          "alone_st_relaxed_sys",   "alone_st_release_gpu",
    "alone_st_release_sys",   "alone_store_fence_cta",  "alone_store_fence_gpu",
    "alone_store_fence_sys",
};

/* The name, in the rows' phases, of the memory of a GPU that GPU 0 waits for. */
static const char *place_of(uint32_t peer) { return peer ? "peer" : "own"; }

static bool alone_keep(struct cuda_bench *b, const char *kernel, uint64_t word, const char *place, GError **error)
{
    struct cuda_run run = {
        .kernel = kernel, .blocks = 1, .threads = 1, .args = { .own = word, .rows = b->quick ? 128 : 512 }
    };
    struct cuda_outcome o;
    if (!cuda_bench_words_clear(b, error)) return false;
    if (!cuda_bench_run(b, &run, 1, &o, error) || !cuda_bench_run(b, &run, 1, &o, error)) return false;
    cuda_bench_keep(b, "time_ns", "ns", 0, per_row_ns(b, &o), "%s at=%s", kernel, place);
    return true;
}

bool cuda_alone_to(struct cuda_bench *b, uint32_t peer, GError **error)
{
    for (EACH(k, alone_kernels))
        if (!alone_keep(b, alone_kernels[k], cuda_words(b, peer), place_of(peer), error)) return false;
    return true;
}

/* Measures the GPU's reads and writes of a word in the host's memory. */
static bool alone_at_host(struct cuda_bench *b, GError **error)
{
    static const char *const kernels[] = { "alone_ld_acquire_sys", "alone_st_relaxed_sys", "alone_st_release_sys",
                                           "alone_store_fence_sys" };
    for (EACH(k, kernels))
        if (!alone_keep(b, kernels[k], b->gpu[0].host_words, "host", error)) return false;
    return true;
}

bool cuda_alone_pass(struct cuda_bench *b, GError **error)
{
    static const char *const within[] = {
        "alone_nothing",   "alone_ld_shared", "alone_atom_shared", "alone_fence_cta",
        "alone_fence_gpu", "alone_fence_sys", "alone_clock",       "alone_globaltimer"
    };
    for (EACH(k, within))
        if (!alone_keep(b, within[k], cuda_words(b, 0), "sm", error)) return false;
    return cuda_alone_to(b, 0, error) && alone_at_host(b, error);
}

/* Measures dependent loads among 2^bits places, which are 128 bytes apart. */
static bool chase_keep(struct cuda_bench *b, const char *kernel, uint32_t peer, uint32_t bits, GError **error)
{
    struct cuda_run run = { .kernel = kernel,
                            .blocks = 1,
                            .threads = 1,
                            .args = { .source = b->gpu[peer].zeros,
                                      .rows = b->quick ? 256 : 1024,
                                      .team = 32 - bits,
                                      .source_stride = 128,
                                      .index = bits > 20 ? (uint32_t)rng_next(&b->rng) : 1 } };
    struct cuda_outcome o;
    /* If all places fit into L2, a first run brings them into L2.  Otherwise each run reads other places. */
    const bool again = bits <= 20;
    if ((again && !cuda_bench_run(b, &run, 1, &o, error)) || !cuda_bench_run(b, &run, 1, &o, error)) return false;
    cuda_bench_keep(b, "time_ns", "ns", 0, per_row_ns(b, &o), "%s at=%s kib=%u", kernel, place_of(peer),
                    1u << (bits - 3));
    return true;
}

/* Measures loads of places that are 2 MiB apart, each in another page.  A kernel reads 16 of them, most for the first
 * time.  So the time is that of the load and of the search for the page. */
static bool pages_keep(struct cuda_bench *b, uint32_t peer, GError **error)
{
    struct cuda_run run = { .kernel = "chase_sys",
                            .blocks = 1,
                            .threads = 1,
                            .args = { .source = b->gpu[peer].zeros,
                                      .rows = 16,
                                      .team = 32 - 9,
                                      .source_stride = 2 << 20,
                                      .index = (uint32_t)rng_next(&b->rng) } };
    struct cuda_outcome o;
    run.args.source += rng_next(&b->rng) % (1 << 20) / 128 * 128;
    if (!cuda_bench_run(b, &run, 1, &o, error)) return false;
    cuda_bench_keep(b, "time_ns", "ns", 0, per_row_ns(b, &o), "chase_sys at=%s pages", place_of(peer));
    return true;
}

bool cuda_chase_to(struct cuda_bench *b, uint32_t peer, GError **error)
{
    static const uint32_t bits[] = { 13, 16, 18, 20, 21, 22, 23, 24 };
    static const char *const kernels[] = { "chase_sys", "chase_gpu", "chase_nc" };
    for (EACH(k, kernels))
        for (EACH(i, bits))
            if (!chase_keep(b, kernels[k], peer, bits[i], error)) return false;
    return pages_keep(b, peer, error);
}

/* Measures dependent loads of lines that GPU `writer` has just written.  Most of the lines are loaded only once. */
bool cuda_chase_fresh(struct cuda_bench *b, uint32_t writer, const char *place, GError **error)
{
    struct cuda_run run = { .kernel = "chase_nc",
                            .blocks = 1,
                            .threads = 1,
                            .args = { .rows = 512, .team = 32 - 16, .source_stride = 128, .index = 1 } };
    struct cuda_outcome o;
    if (!cuda_fresh_write(b, writer, 0, 8192, false, CUDA_IN_L2, &run.args.source, error) ||
        !cuda_bench_run(b, &run, 1, &o, error))
        return false;
    cuda_bench_keep(b, "time_ns", "ns", 0, per_row_ns(b, &o), "chase_nc at=%s", place);
    return true;
}

bool cuda_chase_pass(struct cuda_bench *b, GError **error) { return cuda_chase_to(b, 0, error); }

/* ---- ends of stores ---- */

static bool after_keep(struct cuda_bench *b, const char *kernel, uint32_t peer, uint32_t sms, uint32_t warps,
                       bool every, uint32_t bytes, GError **error)
{
    const uint64_t peer_words = cuda_words(b, peer);
    struct cuda_run run = {
        .kernel = kernel,
        .blocks = sms,
        .threads = 32 * warps,
        .target_count = 1,
        .target = { b->gpu[peer].target + CUDA_TARGET_BYTES / 2 },
        .args = { .peer = peer_words,
                  .rows = b->quick ? 32 : 64,
                  .row_bytes = bytes,
                  .target_stride = 14336,
                  .target_mask = 255,
                  .flags = every ? FLAG_EVERY_WARP : 0 },
    };
    struct cuda_outcome o;
    if (!cuda_bench_words_clear(b, error)) return false;
    if (!cuda_bench_run(b, &run, 1, &o, error) || !cuda_bench_run(b, &run, 1, &o, error)) return false;
    /* o.cycles is a mean over o.warps warps.  If the operation is timed by block, only one warp of each block has
     * cycles. */
    const double ns = o.cycles * o.warps / b->cycles_per_ns / run.args.rows / (every ? o.warps : sms);
    cuda_bench_keep(b, "time_ns", "ns", bytes, ns, "%s sms=%u warps=%u by=%s at=%s", kernel, sms, warps,
                    every ? "warp" : "block", place_of(peer));
    return true;
}

bool cuda_after_to(struct cuda_bench *b, uint32_t peer, GError **error)
{
    static const char *const kernels[] = { "after_nothing",          "after_fence_cta",       "after_fence_gpu",
                                           "after_fence_sys",        "after_st_release_gpu",  "after_st_release_sys",
                                           "after_atom_release_gpu", "after_red_release_gpu", "after_red_release_sys" };
    static const uint32_t bytes[] = { 16, 1024, 14336 }, warps[] = { 1, 8, 24 };
    const uint32_t sms[] = { 1, b->sms };
    for (EACH(k, kernels))
        for (EACH(s, sms))
            for (EACH(w, warps))
                for (EACH(i, bytes))
                    for (uint32_t every = 0; every < 2; every++) {
                        if (cuda_quick_skips(b, i, G_N_ELEMENTS(bytes)) || (every && warps[w] == 1)) continue;
                        if (sms[s] > 1 && (warps[w] == 8 || i == 1 || (!every && warps[w] > 1))) continue;
                        if (!after_keep(b, kernels[k], peer, sms[s], warps[w], every, bytes[i], error)) return false;
                    }
    return true;
}

bool cuda_after_pass(struct cuda_bench *b, GError **error) { return cuda_after_to(b, 0, error); }

/* ---- flags ---- */

void cuda_flag_runs(struct cuda_bench *b, const char *kernel, uint32_t blocks, uint32_t threads, uint32_t bytes,
                    uint32_t rounds, struct cuda_run run[2])
{
    for (uint32_t i = 0; i < 2; i++)
        run[i] = (struct cuda_run){
            .kernel = kernel,
            .gpu = i,
            .blocks = blocks,
            .threads = threads,
            .target_count = 1,
            .target = { b->gpu[!i].target + CUDA_TARGET_BYTES / 2 },
            .args = { .own = cuda_words(b, i),
                      .peer = cuda_words(b, !i),
                      .rows = rounds,
                      .row_bytes = bytes,
                      .index = i },
        };
}

static bool flag_keep(struct cuda_bench *b, const char *kernel, uint32_t pairs, uint32_t threads, uint32_t bytes,
                      GError **error)
{
    struct cuda_run run = {
        .kernel = kernel,
        .blocks = 2 * pairs,
        .threads = threads,
        .cooperative = true,
        .args = { .own = cuda_words(b, 0),
                  .peer = cuda_words(b, 0),
                  .rows = b->quick ? 32 : 128,
                  .row_bytes = bytes,
                  .flags = FLAG_PAIRS },
    };
    struct cuda_outcome o;
    if (!cuda_bench_words_clear(b, error) || !cuda_bench_run(b, &run, 1, &o, error)) return false;
    const double turns = 2.0 * run.args.rows;
    cuda_bench_keep(b, "time_ns", "ns", bytes, o.warps ? o.cycles / b->cycles_per_ns / turns : NAN,
                    "%s pairs=%u warps=%u at=own", kernel, pairs, (threads + 31) / 32);
    return true;
}

bool cuda_flag_pass(struct cuda_bench *b, GError **error)
{
    static const char *const kernels[] = { "flag_relaxed_sys", "flag_release_gpu", "flag_release_sys", "flag_add_sys" };
    static const uint32_t pairs[] = { 1, 8, 66 }, bytes[] = { 16, 2048, 14336 }, threads[] = { 32, 256, 1024 };
    for (EACH(k, kernels))
        for (EACH(i, pairs))
            if (2 * pairs[i] <= b->sms && !flag_keep(b, kernels[k], pairs[i], 1, 0, error)) return false;
    for (uint32_t k = 1; k < 3; k++)
        for (EACH(t, threads))
            for (EACH(i, bytes))
                if (!flag_keep(b, kernels[k], 1, threads[t], bytes[i], error)) return false;
    return true;
}

/* ---- additions and stores of words ---- */

static const struct {
    const char *name;
    uint32_t stride, mask;
} spreads[] = {
    { "one", 0, 0 },
    { "words", 4, 0xffff },
    { "lines", 128, 0xfff },
};

static bool adding_keep(struct cuda_bench *b, const char *kernel, uint32_t peer, uint32_t sms, uint32_t warps,
                        uint32_t spread, GError **error)
{
    struct cuda_run run = {
        .kernel = kernel,
        .blocks = sms,
        .threads = 32 * warps,
        .args = { .own = cuda_words(b, peer),
                  .source_stride = spreads[spread].stride,
                  .source_mask = spreads[spread].mask,
                  .rows = 1024,
                  .cycles = cuda_cycles(b, 100) },
    };
    struct cuda_outcome o;
    if (!cuda_bench_run(b, &run, 1, &o, error)) return false;
    cuda_bench_keep(b, "rate_gops", "Gop/s", 0, 32 * o.rows_per_ns, "%s to=%s sms=%u warps=%u at=%s", kernel,
                    spreads[spread].name, sms, warps, place_of(peer));
    return true;
}

bool cuda_adding_to(struct cuda_bench *b, uint32_t peer, GError **error)
{
    static const char *const kernels[] = { "red_gpu",          "red_sys",          "atom_gpu",   "atom_sys",
                                           "atom_release_gpu", "atom_release_sys", "store_words" };
    const struct {
        uint32_t sms, warps;
    } crowds[] = { { 1, 1 }, { 1, 32 }, { 24, 32 }, { b->sms, 32 } };
    for (EACH(k, kernels))
        for (EACH(s, spreads))
            for (EACH(c, crowds)) {
                if (cuda_quick_skips(b, c, G_N_ELEMENTS(crowds))) continue;
                if (!adding_keep(b, kernels[k], peer, crowds[c].sms, crowds[c].warps, s, error)) return false;
            }
    return true;
}

bool cuda_adding_pass(struct cuda_bench *b, GError **error) { return cuda_adding_to(b, 0, error); }

/* ---- barriers ---- */

bool cuda_barrier_pass(struct cuda_bench *b, GError **error)
{
    static const uint32_t warps[] = { 1, 4, 8, 16, 24, 32 };
    static const uint32_t threads[] = { 32, 512, 1024 };
    const uint32_t sms[] = { 1, 2, 8, 16, 22, 64, b->sms };
    struct cuda_outcome o;
    for (EACH(w, warps)) {
        struct cuda_run run = {
            .kernel = "block_barrier", .blocks = 1, .threads = 32 * warps[w], .args = { .rows = 512 }
        };
        if (!cuda_bench_run(b, &run, 1, &o, error)) return false;
        cuda_bench_keep(b, "time_ns", "ns", 0, per_row_ns(b, &o), "block_barrier warps=%u", warps[w]);
    }
    for (EACH(s, sms))
        for (EACH(t, threads)) {
            struct cuda_run run = { .kernel = "grid_barrier",
                                    .blocks = sms[s],
                                    .threads = threads[t],
                                    .cooperative = true,
                                    .args = { .own = cuda_words(b, 0), .rows = b->quick ? 32 : 128 } };
            if (!cuda_bench_words_clear(b, error) || !cuda_bench_run(b, &run, 1, &o, error)) return false;
            cuda_bench_keep(b, "time_ns", "ns", 0, per_row_ns(b, &o), "grid_barrier sms=%u warps=%u", sms[s],
                            threads[t] / 32);
        }
    return true;
}
