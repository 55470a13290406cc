/* cuda_many_gpus.c - benchmarks between GPUs.  Rows go to one peer or to several, in one direction or both, and
 * between all pairs.  Flags, loads, atomics and barriers are timed alone and during streams of rows.
 * replay/README.md explains each row of the record. */
#include "replay/cuda/cuda_bench.h"
#include "replay/cuda/cuda_flows.h"
#include "replay/cuda/cuda_waits.h"
#include "sim/stats.h"

#include <math.h>
#include <string.h>

enum { ROW_BYTES = 14336, HALF_ROW_BYTES = 7168, LINK_US = 1000 };

/* The address in the memory of GPU `target` to which GPU `source` writes. */
static uint64_t place_at(const struct cuda_bench *b, uint32_t target, uint32_t source)
{
    return b->gpu[target].target + source * CUDA_TARGET_BYTES;
}

static const struct mover {
    const char *name;
    uint32_t flags;
} movers[] = {
    { "copy_5", 0 },
    { "store_8", 0 },
    { "bulk", FLAG_IN | FLAG_OUT },
};
enum { BULK = 2 };
static const struct mover packed_movers[] = {
    { "copy_8", 0 },
    { "bulk", FLAG_IN | FLAG_OUT },
    { "bulk", FLAG_IN | FLAG_OUT | FLAG_WHOLE },
    { "message", 0 },
};

static struct cuda_flow flow_of(const struct mover *m, uint32_t gpu, uint32_t sms, uint32_t warps, uint32_t row_bytes)
{
    return (struct cuda_flow){ .kernel = m->name,
                               .gpu = gpu,
                               .blocks = sms,
                               .warps = warps,
                               .row_bytes = row_bytes,
                               .flags = m->flags,
                               .stages = 1,
                               .fan = 1,
                               .time_us = LINK_US };
}

static void target_add(const struct cuda_bench *b, struct cuda_flow *flow, uint32_t peer)
{
    flow->target[flow->target_count++] = place_at(b, peer, flow->gpu);
}

/* Runs the flows, and keeps the mean of their rates or, if `together`, the sum. */
static bool flows_keep(struct cuda_bench *b, const struct cuda_flow *flows, uint32_t count, bool together,
                       const char *phase, GError **error)
{
    double rate_gbs[CUDA_RUNS_MOST], sum = 0;
    if (!cuda_flows_run(b, flows, count, rate_gbs, error)) return false;
    for (uint32_t i = 0; i < count; i++) sum += rate_gbs[i];
    cuda_bench_keep(b, together ? "total_gbs" : "rate_gbs", "GB/s", flows[0].row_bytes, together ? sum : sum / count,
                    "%s", phase);
    return true;
}

/* ---- from one GPU to one ---- */

static bool pair_keep(struct cuda_bench *b, struct cuda_flow flow, const char *more, GError **error)
{
    char phase[96];
    if (!cuda_flow_fits(b, &flow)) return true;
    if (!flow.target_count) target_add(b, &flow, 1);
    g_snprintf(phase, sizeof phase, "%s sms=%u warps=%u to=peer%s", flow.kernel, flow.blocks, flow.warps, more);
    return flows_keep(b, &flow, 1, false, phase, error);
}

static bool pair_by_sms(struct cuda_bench *b, GError **error)
{
    static const uint32_t warps[] = { 1, 2, 4, 8, 15, 24, 32 };
    const uint32_t sms[] = { 1, 2, 4, 6, 8, 10, 12, 16, 24, 32, 64, b->sms };
    for (EACH(m, movers))
        for (EACH(w, warps))
            for (EACH(s, sms)) {
                const bool half = movers[m].flags && warps[w] > 15;
                const struct cuda_flow flow =
                    flow_of(&movers[m], 0, sms[s], warps[w], half ? HALF_ROW_BYTES : ROW_BYTES);
                if (cuda_quick_skips(b, s, G_N_ELEMENTS(sms)) || cuda_quick_skips(b, w, G_N_ELEMENTS(warps))) continue;
                if (!pair_keep(b, flow, "", error)) return false;
            }
    return true;
}

static bool pair_by_size(struct cuda_bench *b, GError **error)
{
    static const uint32_t sizes[] = { 16, 64, 128, 512, 1024, 2048, 4096, HALF_ROW_BYTES };
    const struct {
        uint32_t sms, warps;
    } crowds[] = { { 1, 1 }, { 1, 24 }, { 24, 24 }, { b->sms, 24 } };
    for (EACH(m, movers))
        for (EACH(c, crowds))
            for (EACH(i, sizes)) {
                if (cuda_quick_skips(b, i, G_N_ELEMENTS(sizes))) continue;
                if (!pair_keep(b, flow_of(&movers[m], 0, crowds[c].sms, crowds[c].warps, sizes[i]), "", error))
                    return false;
            }
    return true;
}

/* Measures rows whose source and target are both outside L2.  Then measures rows that begin within a 128-byte line of
 * the target. */
static bool pair_by_place(struct cuda_bench *b, GError **error)
{
    const uint32_t sms[] = { 1, 8, 24, b->sms };
    for (EACH(m, movers))
        for (EACH(s, sms)) {
            struct cuda_flow flow = flow_of(&movers[m], 0, sms[s], 15, ROW_BYTES);
            flow.footprint = CUDA_BEYOND_L2;
            if (!pair_keep(b, flow, " at=hbm", error)) return false;
        }
    for (EACH(m, movers))
        for (uint32_t offset = 16; offset < 128; offset += 16) {
            char more[24];
            struct cuda_flow flow = flow_of(&movers[m], 0, 1, 15, ROW_BYTES);
            if (cuda_quick_skips(b, offset / 16, 8)) continue;
            flow.target_offset = offset;
            g_snprintf(more, sizeof more, " target=%u", offset);
            if (!pair_keep(b, flow, more, error)) return false;
        }
    return true;
}

/* Measures how much bandwidth a link loses if rows are packed, and so begin within a 128-byte line.  Then measures
 * the loss if the stages of a bulk copy begin within a line of shared memory. */
static bool pair_unaligned(struct cuda_bench *b, GError **error)
{
    static const uint32_t sizes[] = { 2064, 7408, 14352, 14464 };
    const struct {
        uint32_t sms, warps;
    } crowds[] = { { 1, 1 },  { 1, 4 },   { 1, 8 },  { 1, 15 },     { 8, 15 },
                   { 16, 8 }, { 24, 15 }, { 64, 8 }, { b->sms, 8 }, { b->sms, 15 } };
    for (EACH(m, packed_movers))
        for (EACH(i, sizes))
            for (EACH(c, crowds)) {
                const struct mover *mover = &packed_movers[m];
                struct cuda_flow flow = flow_of(mover, 0, crowds[c].sms, crowds[c].warps, sizes[i]);
                if (cuda_quick_skips(b, c, G_N_ELEMENTS(crowds))) continue;
                flow.packed = true;
                if (!pair_keep(b, flow, mover->flags & FLAG_WHOLE ? " packed whole" : " packed", error)) return false;
            }
    static const uint32_t offsets[] = { 16, 32, 64 };
    for (EACH(c, crowds))
        for (EACH(i, offsets)) {
            char more[24];
            struct cuda_flow flow = flow_of(&movers[BULK], 0, crowds[c].sms, crowds[c].warps, ROW_BYTES);
            flow.shared_offset = offsets[i];
            g_snprintf(more, sizeof more, " shared=%u", offsets[i]);
            if (!pair_keep(b, flow, more, error)) return false;
        }
    return true;
}

/* The targets are the GPU itself and its peers.  By "fan", each row is loaded once and stored to all targets, at most
 * four.  By "blocks" or "warps", successive blocks or warps take the targets in rotation. */
static const struct mix {
    const char *name;
    uint32_t warps, row_bytes;
    bool token;
} mixes[] = {
    { "fan", 15, ROW_BYTES, false },
    { "fan", 28, HALF_ROW_BYTES, false },
    { "blocks", 15, ROW_BYTES, false },
    { "warps", 15, ROW_BYTES, false },
    /* Like V2 dispatch: packed tokens from memory, each stored completely before its stage is reused. */
    { "fan", 15, 14464, true },
    { "fan", 28, 7520, true },
    { "warps", 15, 14464, true },
};

static bool mixed_keep(struct cuda_bench *b, const struct mover *m, uint32_t x, uint32_t gpus, uint32_t sms,
                       GError **error)
{
    char phase[96];
    struct cuda_flow flow[CUDA_GPUS_MOST];
    const bool fan = strcmp(mixes[x].name, "fan") == 0;
    if ((fan || mixes[x].token) && !m->flags) return true;
    for (uint32_t g = 0; g < gpus; g++) {
        flow[g] = flow_of(m, g, sms, mixes[x].warps, mixes[x].row_bytes);
        flow[g].fan = fan ? MIN(gpus, 4) : 1;
        flow[g].by_block = strcmp(mixes[x].name, "blocks") == 0;
        flow[g].by_warp = strcmp(mixes[x].name, "warps") == 0;
        for (uint32_t i = 0; i < gpus; i++) target_add(b, &flow[g], (g + i) % gpus);
        if (!mixes[x].token) continue;
        flow[g].packed = true;
        flow[g].footprint = CUDA_BEYOND_L2;
        flow[g].flags |= FLAG_WHOLE;
    }
    g_snprintf(phase, sizeof phase, "%s sms=%u warps=%u to=own+peers by=%s gpus=%u%s", m->name, sms, mixes[x].warps,
               mixes[x].name, gpus, mixes[x].token ? " at=hbm packed whole" : "");
    return flows_keep(b, flow, gpus, false, phase, error);
}

static bool mixed(struct cuda_bench *b, GError **error)
{
    const uint32_t sms[] = { 1, 2, 4, 8, 12, 16, 17, 18, 20, 22, 24, 28, 32, 48, 64, 96, b->sms };
    for (uint32_t gpus = 2; gpus <= b->gpu_count; gpus += MAX(b->gpu_count - 2, 1))
        for (EACH(x, mixes))
            for (EACH(m, movers))
                for (EACH(s, sms)) {
                    if (cuda_quick_skips(b, s, G_N_ELEMENTS(sms))) continue;
                    if (!mixed_keep(b, &movers[m], x, gpus, sms[s], error)) return false;
                }
    return true;
}

/* Measures reads from a peer's memory by loads. */
static bool loads(struct cuda_bench *b, GError **error)
{
    static const char *const kernels[] = { "load_1", "load_5", "load_8" };
    static const uint32_t warps[] = { 1, 8, 24 };
    const uint32_t sms[] = { 1, 4, 8, 16, 32, b->sms };
    for (EACH(k, kernels))
        for (EACH(w, warps))
            for (EACH(s, sms)) {
                const struct mover m = { kernels[k], 0 };
                struct cuda_flow flow = flow_of(&m, 0, sms[s], warps[w], ROW_BYTES);
                if (cuda_quick_skips(b, s, G_N_ELEMENTS(sms))) continue;
                flow.source = b->gpu[1].source;
                if (!pair_keep(b, flow, "", error)) return false;
            }
    return true;
}

/* Measures bulk loads straight from a peer's memory. */
static bool bulk_loads(struct cuda_bench *b, GError **error)
{
    static const struct mover m = { "bulk", FLAG_IN };
    const uint32_t sms[] = { 1, 4, 8, 16, 32, b->sms };
    for (EACH(s, sms)) {
        struct cuda_flow flow = flow_of(&m, 0, sms[s], 15, ROW_BYTES);
        flow.source = b->gpu[1].source;
        if (!pair_keep(b, flow, " way=in", error)) return false;
    }
    return true;
}

/* ---- patterns ---- */

enum pattern { ONE_WAY, BOTH_WAYS, RING, INCAST, OUTCAST, ALL_TO_ALL, PATTERNS };
static const char *const pattern_names[] = { "one-way", "both-ways", "ring", "incast", "outcast", "all-to-all" };

/* Whether the GPU sends to the peer when `gpus` GPUs take part. */
static bool sends(enum pattern pattern, uint32_t gpu, uint32_t peer, uint32_t gpus)
{
    if (gpu == peer) return false;
    switch (pattern) {
    case ONE_WAY: return gpu % 2 == 0 && peer == gpu + 1;
    case BOTH_WAYS: return (gpu ^ 1) == peer;
    case RING: return (gpu + 1) % gpus == peer;
    case INCAST: return peer == 0;
    case OUTCAST: return gpu == 0;
    default: return true;
    }
}

static uint32_t pattern_flows(const struct cuda_bench *b, enum pattern pattern, const struct mover *m, uint32_t gpus,
                              uint32_t sms, uint32_t warps, struct cuda_flow *flow)
{
    uint32_t count = 0;
    for (uint32_t g = 0; g < gpus; g++) {
        struct cuda_flow f = flow_of(m, g, sms, warps, ROW_BYTES);
        f.by_block = 1;
        for (uint32_t i = 1; i < gpus; i++) /* each GPU begins with a different peer */
            if (sends(pattern, g, (g + i) % gpus, gpus)) target_add(b, &f, (g + i) % gpus);
        if (!f.target_count) continue;
        f.blocks = MIN(sms * f.target_count, b->sms); /* `sms` SMs for each target, if the GPU has so many */
        flow[count++] = f;
    }
    return count;
}

static bool patterns_keep(struct cuda_bench *b, const struct mover *m, enum pattern pattern, uint32_t gpus,
                          GError **error)
{
    static const uint32_t sms[] = { 1, 2, 3, 4, 6, 8, 10, 12, 16, 24, 32, 44, 64 };
    for (EACH(s, sms)) {
        char phase[96];
        struct cuda_flow flow[CUDA_GPUS_MOST];
        if (cuda_quick_skips(b, s, G_N_ELEMENTS(sms))) continue;
        const uint32_t count = pattern_flows(b, pattern, m, gpus, sms[s], m->flags ? 15 : 32, flow);
        g_snprintf(phase, sizeof phase, "%s %s gpus=%u sms=%u/flow warps=%u", pattern_names[pattern], m->name, gpus,
                   sms[s], flow[0].warps);
        if (!flows_keep(b, flow, count, pattern == INCAST, phase, error)) return false;
    }
    return true;
}

static bool patterns(struct cuda_bench *b, GError **error)
{
    for (EACH(m, movers))
        for (uint32_t gpus = 2; gpus <= b->gpu_count; gpus++)
            for (uint32_t p = 0; p < PATTERNS; p++) {
                const bool pairs = p == ONE_WAY || p == BOTH_WAYS, two_only = gpus == 2 && p != BOTH_WAYS;
                /* With two GPUs, each pattern is both-ways, or one-way, which pair_by_sms() measures. */
                if ((pairs && gpus % 2) || two_only) continue;
                if (!patterns_keep(b, &movers[m], p, gpus, error)) return false;
            }
    return true;
}

/* Measures flows of equal sizes until the last one has ended.  Unlike rates over a fixed time, this shows how unevenly
 * links are shared.  The rate of a single flow is taken over the time until that flow ends. */
static bool whole_flows_keep(struct cuda_bench *b, const struct mover *m, uint32_t gpus, uint32_t sms,
                             uint32_t row_bytes, bool packed, GError **error)
{
    enum { FLOW_BYTES = 32 << 20 };
    struct cuda_flow flow[CUDA_GPUS_MOST];
    struct cuda_outcome o[CUDA_RUNS_MOST];
    double whole[CUDA_GPUS_MOST], each[CUDA_GPUS_MOST * CUDA_GPUS_MOST];
    char phase[96];
    uint32_t flows = 0;
    const uint32_t warps = m->flags || packed ? 15 : 32;
    const uint32_t count = pattern_flows(b, ALL_TO_ALL, m, gpus, sms, warps, flow);
    for (uint32_t i = 0; i < count; i++) {
        flow[i].row_bytes = row_bytes;
        flow[i].packed = packed;
        flow[i].rows = MAX(FLOW_BYTES / (sms * warps * row_bytes), 1);
    }
    if (!cuda_flows_outcome(b, flow, count, o, error)) return false;
    for (uint32_t i = 0; i < count; i++) {
        const double bytes = o[i].rows * row_bytes;
        whole[i] = bytes / (double)(o[i].to_ns - o[i].from_ns);
        for (uint32_t k = 0; k < flow[i].target_count; k++)
            each[flows++] = bytes / flow[i].target_count / (double)(o[i].target_to_ns[k] - o[i].from_ns);
    }
    g_snprintf(phase, sizeof phase, "all-to-all %s gpus=%u sms=%u/flow warps=%u%s whole flows", m->name, gpus, sms,
               warps, packed ? " packed" : "");
    cuda_bench_keep(b, "whole_gbs", "GB/s", row_bytes, stats_min(whole, count), "%s", phase);
    cuda_bench_keep(b, "flow_slow_gbs", "GB/s", row_bytes, stats_min(each, flows), "%s", phase);
    cuda_bench_keep(b, "flow_gbs", "GB/s", row_bytes, stats_median(each, flows), "%s", phase);
    cuda_bench_keep(b, "flow_fast_gbs", "GB/s", row_bytes, stats_max(each, flows), "%s", phase);
    return true;
}

static bool whole_flows(struct cuda_bench *b, GError **error)
{
    static const uint32_t sms[] = { 1, 2, 3, 4, 6, 8, 10, 12, 16, 24, 32, 44 };
    for (uint32_t gpus = 2; gpus <= b->gpu_count; gpus++)
        for (EACH(s, sms)) {
            if (cuda_quick_skips(b, s, G_N_ELEMENTS(sms)) || sms[s] * (gpus - 1) > b->sms) continue;
            for (EACH(m, movers))
                if (!whole_flows_keep(b, &movers[m], gpus, sms[s], ROW_BYTES, false, error)) return false;
            if (!whole_flows_keep(b, &packed_movers[0], gpus, sms[s], ROW_BYTES + 16, true, error)) return false;
            if (!whole_flows_keep(b, &packed_movers[3], gpus, sms[s], HALF_ROW_BYTES + 240, true, error)) return false;
        }
    return true;
}

/* Measures small rows from all GPUs to all.  They show how much time each row takes, apart from the time of its
 * bytes. */
static bool small_rows(struct cuda_bench *b, GError **error)
{
    static const uint32_t sizes[] = { 16, 128, 512, 2048, 4096, HALF_ROW_BYTES };
    for (EACH(m, movers))
        for (EACH(i, sizes)) {
            char phase[96];
            struct cuda_flow flow[CUDA_GPUS_MOST];
            const uint32_t each = b->sms / (b->gpu_count - 1);
            const uint32_t count = pattern_flows(b, ALL_TO_ALL, &movers[m], b->gpu_count, each, 15, flow);
            for (uint32_t k = 0; k < count; k++) flow[k].row_bytes = sizes[i];
            g_snprintf(phase, sizeof phase, "all-to-all %s gpus=%u sms=%u/flow warps=15", movers[m].name, b->gpu_count,
                       each);
            if (!flows_keep(b, flow, count, false, phase, error)) return false;
        }
    return true;
}

/* ---- waits ---- */

static double turn_ns(const struct cuda_bench *b, const struct cuda_run *run, const struct cuda_outcome *o)
{
    return o->warps ? o->cycles / b->cycles_per_ns / (2.0 * run->args.rows) : NAN;
}

static bool flag_keep(struct cuda_bench *b, const char *kernel, uint32_t blocks, uint32_t threads, uint32_t bytes,
                      GError **error)
{
    struct cuda_run run[2];
    struct cuda_outcome o[2];
    cuda_flag_runs(b, kernel, blocks, threads, bytes, b->quick ? 32 : 128, run);
    if (!cuda_bench_words_clear(b, error) || !cuda_bench_run(b, run, 2, o, error)) return false;
    cuda_bench_keep(b, "time_ns", "ns", bytes, turn_ns(b, &run[0], &o[0]), "%s pairs=%u warps=%u at=peer", kernel,
                    blocks, (threads + 31) / 32);
    return true;
}

static bool flags(struct cuda_bench *b, GError **error)
{
    static const char *const kernels[] = { "flag_relaxed_sys", "flag_release_sys", "flag_add_sys" };
    static const uint32_t blocks[] = { 1, 8, 66 }, bytes[] = { 16, 512, 2048, 8192, 14336, 131072 };
    static const uint32_t threads[] = { 32, 256, 1024 };
    for (EACH(k, kernels))
        for (EACH(i, blocks))
            if (!flag_keep(b, kernels[k], blocks[i], 1, 0, error)) return false;
    for (EACH(t, threads))
        for (EACH(i, bytes))
            if (!flag_keep(b, "flag_release_sys", 1, threads[t], bytes[i], error)) return false;
    return true;
}

static bool peer_waits(struct cuda_bench *b, GError **error)
{
    return cuda_alone_to(b, 1, error) && cuda_chase_to(b, 1, error);
}

static bool peer_ends(struct cuda_bench *b, GError **error) { return cuda_after_to(b, 1, error); }
static bool peer_additions(struct cuda_bench *b, GError **error) { return cuda_adding_to(b, 1, error); }

static bool fresh_from_peer(struct cuda_bench *b, GError **error)
{
    return cuda_fresh_from(b, 1, "fresh-from-peer", error);
}

static bool barriers(struct cuda_bench *b, GError **error)
{
    for (uint32_t gpus = 2; gpus <= b->gpu_count; gpus++) {
        struct cuda_run run[CUDA_GPUS_MOST];
        struct cuda_outcome o[CUDA_GPUS_MOST];
        for (uint32_t g = 0; g < gpus; g++) {
            run[g] = (struct cuda_run){ .kernel = "gpu_barrier",
                                        .gpu = g,
                                        .blocks = 1,
                                        .threads = 32,
                                        .target_count = gpus,
                                        .args = { .own = cuda_words(b, g), .rows = b->quick ? 32 : 128, .index = g } };
            for (uint32_t k = 0; k < gpus; k++) run[g].target[k] = cuda_words(b, k);
        }
        if (!cuda_bench_words_clear(b, error) || !cuda_bench_run(b, run, gpus, o, error)) return false;
        cuda_bench_keep(b, "time_ns", "ns", 0, o[0].cycles / b->cycles_per_ns / run[0].args.rows, "gpu_barrier gpus=%u",
                        gpus);
    }
    return true;
}

/* Keeps the time of a wait during all-to-all streams; NAN if the wait outlasted them. */
static bool loaded_keep(struct cuda_bench *b, struct cuda_run *wait, uint32_t waits, double per, const char *what,
                        uint32_t sms, const struct mover *m, GError **error)
{
    struct cuda_flow flow[CUDA_GPUS_MOST];
    struct cuda_run run[CUDA_RUNS_MOST];
    struct cuda_outcome o[CUDA_RUNS_MOST];
    const uint32_t count = pattern_flows(b, ALL_TO_ALL, m, b->gpu_count, sms, m->flags ? 15 : 32, flow);
    for (uint32_t i = 0; i < count; i++) run[i] = cuda_flow_run(b, &flow[i]);
    for (uint32_t i = 0; i < waits; i++) {
        run[count + i] = wait[i];
        run[count + i].beside = true;
    }
    /* The first run brings the words of a chase into L2. */
    if (!cuda_bench_run(b, wait, waits, o, error) || !cuda_bench_words_clear(b, error) ||
        !cuda_bench_run(b, run, count + waits, o, error))
        return false;
    /* Whether the wait ran while the streams did.  o[0] and o[count] are both of GPU 0, so one timer measured both. */
    const bool within = o[count].from_ns + 1000 >= o[0].from_ns && o[count].to_ns <= o[0].to_ns;
    cuda_bench_keep(b, "time_ns", "ns", 0, within && o[count].warps ? o[count].cycles / b->cycles_per_ns / per : NAN,
                    "%s beside all-to-all %s gpus=%u sms=%u/flow", what, m->name, b->gpu_count, sms);
    return true;
}

static bool loaded(struct cuda_bench *b, GError **error)
{
    enum { ROUNDS = 64, TURNS = 24 };
    static const uint32_t sms[] = { 1, 2, 4, 8, 16, 32 };
    for (EACH(m, movers))
        for (EACH(s, sms)) {
            struct cuda_run flag[2], chase = {
                .kernel = "chase_sys", .blocks = 1, .threads = 32,
                .args = { .source = b->gpu[1].zeros, .rows = ROUNDS, .team = 16, .source_stride = 128, .index = 1 },
            }, own = chase;
            if (cuda_quick_skips(b, s, G_N_ELEMENTS(sms)) || sms[s] * (b->gpu_count - 1) > b->sms - 2) continue;
            own.args.source = b->gpu[0].zeros;
            cuda_flag_runs(b, "flag_release_sys", 1, 32, 0, TURNS, flag);
            if (!loaded_keep(b, flag, 2, 2 * TURNS, "flag_release_sys at=peer", sms[s], &movers[m], error) ||
                !loaded_keep(b, &chase, 1, ROUNDS, "chase_sys at=peer", sms[s], &movers[m], error) ||
                !loaded_keep(b, &own, 1, ROUNDS, "chase_sys at=own", sms[s], &movers[m], error))
                return false;
        }
    return true;
}

const struct cuda_part cuda_many_gpus_parts[] = {
    { "peer-waits", peer_waits },
    { "peer-after", peer_ends },
    { "peer-adding", peer_additions },
    { "peer-flag", flags },
    { "peer-barrier", barriers },
    { "peer-host", cuda_host_to_pass },
    { "peer-fresh", fresh_from_peer },
    { "peer-sms", pair_by_sms },
    { "peer-size", pair_by_size },
    { "peer-place", pair_by_place },
    { "mixed", mixed },
    { "peer-loads", loads },
    { "peer-bulk-loads", bulk_loads },
    { "patterns", patterns },
    { "whole-flows", whole_flows },
    { "peer-unaligned", pair_unaligned },
    { "small-rows", small_rows },
    { "loaded", loaded },
    { NULL, NULL },
};
