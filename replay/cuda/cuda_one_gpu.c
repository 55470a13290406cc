/* cuda_one_gpu.c - benchmarks of one GPU alone.  They measure its clock, launches, loads, atomics, fences, flags and
 * barriers.  They also measure copies by loads and stores and by the bulk engine, quantisation, and sums.
 * replay/README.md explains each row of the record. */
#include "replay/cuda/cuda_bench.h"
#include "replay/cuda/cuda_flows.h"
#include "replay/cuda/cuda_waits.h"

enum { ROW_BYTES = 14336, HALF_ROW_BYTES = 7168 }; /* a row of 7168 channels in BF16, and in FP8 */

static const struct {
    const char *name;
    uint64_t footprint;
} places[] = {
    { "l2", CUDA_IN_L2 },
    { "hbm", CUDA_BEYOND_L2 },
};
static const uint32_t warp_counts[] = { 1, 2, 4, 8, 16, 24, 32 };

static struct cuda_flow flow_of(const char *kernel, uint32_t sms, uint32_t warps, uint32_t row_bytes, uint32_t place)
{
    return (struct cuda_flow){
        .kernel = kernel, .blocks = sms, .warps = warps, .row_bytes = row_bytes, .footprint = places[place].footprint
    };
}

/* Runs one flow on GPU 0 and keeps its rate in a row "KERNEL sms=.. warps=.. at=..", to which the text `more` is
 * added. */
static bool flow_keep(struct cuda_bench *b, const struct cuda_flow *flow, const char *at, const char *more,
                      GError **error)
{
    double rate_gbs;
    if (!cuda_flows_run(b, flow, 1, &rate_gbs, error)) return false;
    cuda_bench_keep(b, "rate_gbs", "GB/s", flow->row_bytes, rate_gbs, "%s sms=%u warps=%u at=%s%s", flow->kernel,
                    flow->blocks, flow->warps, at, more);
    return true;
}

/* ---- loads and stores ---- */

static const char *const row_kernels[] = { "copy_1", "copy_2", "copy_5", "copy_8",  "load_1",
                                           "load_2", "load_5", "load_8", "store_1", "store_8" };

static bool rows_by_warps(struct cuda_bench *b, GError **error)
{
    for (EACH(k, row_kernels))
        for (EACH(p, places))
            for (EACH(w, warp_counts)) {
                const struct cuda_flow flow = flow_of(row_kernels[k], 1, warp_counts[w], ROW_BYTES, p);
                if (cuda_quick_skips(b, w, G_N_ELEMENTS(warp_counts))) continue;
                if (!flow_keep(b, &flow, places[p].name, "", error)) return false;
            }
    return true;
}

static bool rows_by_sms(struct cuda_bench *b, GError **error)
{
    static const char *const kernels[] = { "copy_5", "load_5", "store_8" };
    static const uint32_t warps[] = { 8, 32 };
    const uint32_t sms[] = { 2, 4, 8, 16, 24, 32, 48, 64, 96, b->sms };
    for (EACH(k, kernels))
        for (EACH(p, places))
            for (EACH(w, warps))
                for (EACH(s, sms)) {
                    const struct cuda_flow flow = flow_of(kernels[k], sms[s], warps[w], ROW_BYTES, p);
                    if (cuda_quick_skips(b, s, G_N_ELEMENTS(sms))) continue;
                    if (!flow_keep(b, &flow, places[p].name, "", error)) return false;
                }
    return true;
}

static bool rows_by_size(struct cuda_bench *b, GError **error)
{
    static const uint32_t sizes[] = { 16, 64, 128, 512, 1024, 2048, 4096, HALF_ROW_BYTES, 28672 }, warps[] = { 1, 24 };
    const uint32_t sms[] = { 1, b->sms };
    for (EACH(p, places))
        for (EACH(s, sms))
            for (EACH(w, warps))
                for (EACH(i, sizes)) {
                    const struct cuda_flow flow = flow_of("copy_5", sms[s], warps[w], sizes[i], p);
                    if (cuda_quick_skips(b, i, G_N_ELEMENTS(sizes))) continue;
                    if (!flow_keep(b, &flow, places[p].name, "", error)) return false;
                }
    return true;
}

static bool rows_by_footprint(struct cuda_bench *b, GError **error)
{
    static const uint32_t footprints_mb[] = { 1, 2, 4, 8, 12, 16, 24, 32, 64, 128, 256 };
    static const char *const kernels[] = { "copy_5", "load_5", "store_8" };
    for (EACH(k, kernels))
        for (EACH(i, footprints_mb)) {
            char at[16];
            const struct cuda_flow flow = { .kernel = kernels[k],
                                            .blocks = b->sms,
                                            .warps = 32,
                                            .row_bytes = 16384 - 128,
                                            .footprint = (uint64_t)footprints_mb[i] << 20,
                                            .time_us = 300 };
            if (cuda_quick_skips(b, i, G_N_ELEMENTS(footprints_mb))) continue;
            g_snprintf(at, sizeof at, "%uMiB", footprints_mb[i]);
            if (!flow_keep(b, &flow, at, "", error)) return false;
        }
    return true;
}

/* Measures rows that begin at different places within a 128-byte line. */
static bool rows_by_offset(struct cuda_bench *b, GError **error)
{
    for (uint32_t side = 0; side < 2; side++)
        for (uint32_t offset = 16; offset < 128; offset += 16) {
            char more[24];
            const struct cuda_flow flow = { .kernel = "copy_5",
                                            .blocks = 1,
                                            .warps = 24,
                                            .row_bytes = ROW_BYTES,
                                            .source_offset = side ? 0 : offset,
                                            .target_offset = side ? offset : 0 };
            if (cuda_quick_skips(b, offset / 16, 8)) continue;
            g_snprintf(more, sizeof more, " %s=%u", side ? "target" : "source", offset);
            if (!flow_keep(b, &flow, "l2", more, error)) return false;
        }
    return true;
}

static bool words_by_warps(struct cuda_bench *b, GError **error)
{
    static const char *const kernels[] = { "load_words_1", "load_words_8" };
    static const uint32_t warps[] = { 1, 8, 32 };
    const uint32_t sms[] = { 1, b->sms };
    for (EACH(k, kernels))
        for (EACH(p, places))
            for (EACH(s, sms))
                for (EACH(w, warps)) {
                    const struct cuda_flow flow = flow_of(kernels[k], sms[s], warps[w], ROW_BYTES, p);
                    double rate_gbs;
                    if (!cuda_flows_run(b, &flow, 1, &rate_gbs, error)) return false;
                    /* a lane reads only 4 of every 16 bytes */
                    cuda_bench_keep(b, "rate_gbs", "GB/s", ROW_BYTES / 4, rate_gbs / 4, "%s sms=%u warps=%u at=%s",
                                    kernels[k], sms[s], warps[w], places[p].name);
                }
    return true;
}

/* Measures messages of the low-latency kernels, first rows alone, then rows in L2 with their atomics. */
static bool messages(struct cuda_bench *b, GError **error)
{
    static const char *const kernels[] = { "copy_8", "message" };
    static const uint32_t sizes[] = { 2064, 7408, 14352 };
    const struct {
        uint32_t sms, warps;
    } crowds[] = { { 1, 1 },  { 1, 4 },  { 1, 8 },      { 1, 16 },     { 1, 30 },
                   { 16, 8 }, { 64, 8 }, { b->sms, 8 }, { b->sms, 30 } };
    for (EACH(k, kernels))
        for (EACH(p, places))
            for (EACH(i, sizes))
                for (EACH(c, crowds)) {
                    struct cuda_flow flow = flow_of(kernels[k], crowds[c].sms, crowds[c].warps, sizes[i], p);
                    flow.packed = true;
                    if (cuda_quick_skips(b, c, G_N_ELEMENTS(crowds)) || (k && p)) continue;
                    if (!flow_keep(b, &flow, places[p].name, " packed", error)) return false;
                }
    return true;
}

/* ---- bulk copies ---- */

static const struct {
    const char *name;
    uint32_t flags;
} ways[] = {
    { "in", FLAG_IN },
    { "out", FLAG_OUT },
    { "both", FLAG_IN | FLAG_OUT },
};
/* How many stages a warp has in shared memory, and how many rows ahead of the stored row it loads. */
static const struct {
    uint32_t stages, ahead;
} rings[] = { { 1, 0 }, { 2, 1 }, { 3, 1 }, { 4, 3 } };

static bool bulk_keep(struct cuda_bench *b, struct cuda_flow flow, uint32_t way, uint32_t ring, uint32_t place,
                      const char *more, GError **error)
{
    char words[64];
    flow.kernel = "bulk";
    flow.flags |= ways[way].flags;
    flow.stages = rings[ring].stages;
    flow.ahead = rings[ring].ahead;
    flow.footprint = places[place].footprint;
    if (!cuda_flow_fits(b, &flow)) return true;
    g_snprintf(words, sizeof words, " way=%s stages=%u ahead=%u%s", ways[way].name, flow.stages, flow.ahead, more);
    return flow_keep(b, &flow, places[place].name, words, error);
}

static bool bulk_by_warps(struct cuda_bench *b, GError **error)
{
    static const uint32_t sizes[] = { HALF_ROW_BYTES, ROW_BYTES };
    for (EACH(y, ways))
        for (EACH(r, rings))
            for (EACH(p, places))
                for (EACH(i, sizes))
                    for (EACH(w, warp_counts)) {
                        const struct cuda_flow flow = { .blocks = 1, .warps = warp_counts[w], .row_bytes = sizes[i] };
                        if (cuda_quick_skips(b, w, G_N_ELEMENTS(warp_counts)) || (i && r > 1)) continue;
                        if (!bulk_keep(b, flow, y, r, p, "", error)) return false;
                    }
    return true;
}

static bool bulk_by_sms(struct cuda_bench *b, GError **error)
{
    const uint32_t sms[] = { 2, 4, 8, 16, 24, 32, 48, 64, 96, b->sms };
    for (EACH(y, ways))
        for (EACH(p, places))
            for (EACH(s, sms)) {
                const struct cuda_flow flow = { .blocks = sms[s], .warps = 15, .row_bytes = ROW_BYTES };
                if (cuda_quick_skips(b, s, G_N_ELEMENTS(sms))) continue;
                if (!bulk_keep(b, flow, y, 0, p, "", error)) return false;
            }
    return true;
}

static bool bulk_by_size(struct cuda_bench *b, GError **error)
{
    static const uint32_t sizes[] = { 16, 128, 512, 1024, 2048, 4096 }, warps[] = { 1, 24 };
    for (EACH(y, ways))
        for (EACH(w, warps))
            for (EACH(i, sizes)) {
                const struct cuda_flow flow = { .blocks = 1, .warps = warps[w], .row_bytes = sizes[i] };
                if (cuda_quick_skips(b, i, G_N_ELEMENTS(sizes))) continue;
                if (!bulk_keep(b, flow, y, 0, 0, "", error)) return false;
            }
    return true;
}

/* Measures rows in pieces of 4 KiB, three in flight, as low-latency combine moves them.  Then measures whole tokens
 * with scales and indices, as the V2 kernels move them: a stage is reused only after its token has been stored
 * completely. */
static bool bulk_tokens(struct cuda_bench *b, GError **error)
{
    static const struct {
        uint32_t row_bytes, warps, ring;
        bool whole;
    } kinds[] = {
        { 4096, 1, 2, false },  { 4096, 8, 2, false }, { 4096, 16, 2, false },
        { 2048, 15, 0, true },  { 14464, 1, 0, true }, { 14464, 4, 0, true },
        { 14464, 15, 0, true }, { 7520, 1, 0, true },  { 7520, 28, 0, true },
    };
    const uint32_t sms[] = { 1, 8, 16, b->sms };
    for (EACH(k, kinds))
        for (EACH(p, places))
            for (EACH(y, ways))
                for (EACH(s, sms)) {
                    struct cuda_flow flow = {
                        .blocks = sms[s], .warps = kinds[k].warps, .row_bytes = kinds[k].row_bytes, .packed = true
                    };
                    if (cuda_quick_skips(b, s, G_N_ELEMENTS(sms)) || (y == 0 && kinds[k].whole)) continue;
                    flow.flags = kinds[k].whole ? FLAG_WHOLE : 0;
                    if (!bulk_keep(b, flow, y, kinds[k].ring, p, kinds[k].whole ? " packed whole" : " packed", error))
                        return false;
                }
    return true;
}

/* Measures bulk copies of rows that begin at different places within a 128-byte line, in memory and in the stages of
 * shared memory. */
static bool bulk_by_offset(struct cuda_bench *b, GError **error)
{
    static const char *const sides[] = { "source", "target", "shared" };
    for (EACH(y, ways))
        for (EACH(side, sides))
            for (uint32_t offset = 16; offset < 128; offset += 16) {
                char more[24];
                const struct cuda_flow flow = {
                    .blocks = 1,
                    .warps = 24,
                    .row_bytes = HALF_ROW_BYTES,
                    .source_offset = side == 0 ? offset : 0,
                    .target_offset = side == 1 ? offset : 0,
                    .shared_offset = side == 2 ? offset : 0,
                };
                if (cuda_quick_skips(b, offset / 16, 8) || (y == 0 && side == 1) || (y == 1 && side == 0)) continue;
                g_snprintf(more, sizeof more, " %s=%u", sides[side], offset);
                if (!bulk_keep(b, flow, y, 0, 0, more, error)) return false;
            }
    return true;
}

/* ---- rows that have just been written ---- */

static const struct {
    struct cuda_flow flow;
    const char *more;
} fresh_flows[] = {
    { { .kernel = "copy_5", .row_bytes = ROW_BYTES }, "" },
    { { .kernel = "load_5", .row_bytes = ROW_BYTES }, "" },
    { { .kernel = "copy_8", .row_bytes = 7408, .packed = true }, " packed" },
    { { .kernel = "copy_8", .row_bytes = 14352, .packed = true }, " packed" },
    { { .kernel = "bulk", .row_bytes = HALF_ROW_BYTES, .flags = FLAG_IN | FLAG_OUT, .stages = 1 },
      " way=both stages=1 ahead=0" },
    { { .kernel = "bulk", .row_bytes = ROW_BYTES, .flags = FLAG_IN, .stages = 1 }, " way=in stages=1 ahead=0" },
    { { .kernel = "bulk", .row_bytes = 2048, .flags = FLAG_IN | FLAG_OUT, .stages = 3, .ahead = 1 },
      " way=both stages=3 ahead=1" },
};

/* Measures sums of rows that have just been written, like those that a receiver of combine sums.  Each row is read
 * once. */
static bool sums_fresh(struct cuda_bench *b, uint32_t writer, const char *place, GError **error)
{
    static const uint32_t counts[] = { 1, 2, 4, 8 };
    const struct {
        uint32_t sms, warps, footprint_mb;
    } crowds[] = { { 1, 1, 4 }, { 1, 8, 16 }, { 1, 24, 16 }, { 12, 24, 16 }, { 12, 24, 64 }, { 12, 24, 128 } };
    for (EACH(c, crowds))
        for (EACH(i, counts)) {
            const struct cuda_flow flow = { .kernel = "sum_staged",
                                            .blocks = crowds[c].sms,
                                            .warps = crowds[c].warps,
                                            .row_bytes = ROW_BYTES,
                                            .footprint = (uint64_t)crowds[c].footprint_mb << 20,
                                            .count = counts[i] };
            double rate_gbs;
            if (!cuda_flow_fresh(b, &flow, writer, &rate_gbs, error)) return false;
            cuda_bench_keep(b, "rate_gbs", "GB/s", flow.row_bytes, rate_gbs,
                            "sum_staged sms=%u warps=%u at=%s %uMiB by=warp rows=%u", flow.blocks, flow.warps, place,
                            crowds[c].footprint_mb, counts[i]);
        }
    return true;
}

bool cuda_fresh_from(struct cuda_bench *b, uint32_t writer, const char *place, GError **error)
{
    const struct {
        uint32_t sms, warps, footprint_mb;
    } crowds[] = { { 1, 1, 8 },        { 1, 4, 8 },        { 1, 12, 8 },       { 24, 12, 16 },
                   { b->sms, 12, 16 }, { b->sms, 12, 64 }, { b->sms, 12, 256 } };
    for (EACH(i, fresh_flows))
        for (EACH(c, crowds)) {
            struct cuda_flow flow = fresh_flows[i].flow;
            double rate_gbs;
            flow.blocks = crowds[c].sms;
            flow.warps = crowds[c].warps;
            flow.footprint = (uint64_t)crowds[c].footprint_mb << 20;
            if (!cuda_flow_fits(b, &flow)) continue;
            if (!cuda_flow_fresh(b, &flow, writer, &rate_gbs, error)) return false;
            cuda_bench_keep(b, "rate_gbs", "GB/s", flow.row_bytes, rate_gbs, "%s sms=%u warps=%u at=%s %uMiB%s",
                            flow.kernel, flow.blocks, flow.warps, place, crowds[c].footprint_mb, fresh_flows[i].more);
        }
    return sums_fresh(b, writer, place, error) && cuda_chase_fresh(b, writer, place, error);
}

static bool fresh(struct cuda_bench *b, GError **error) { return cuda_fresh_from(b, 0, "fresh", error); }

/* ---- code ---- */

/* Keeps the time of code that an SM runs for the first time in its kernel or, in the pass "again", for the second
 * time.  Before the passes "after-code" and "after-code+data", other code fills the SM's caches, so that they do not
 * hold this code.  Before "after-code+data", the SMs also read so much data that L2 does not hold the code either. */
static bool code_keep(struct cuda_bench *b, const char *kernel, uint32_t sms, uint32_t pass, GError **error)
{
    static const char *const passes[] = { "again", "first", "after-code", "after-code+data" };
    const struct cuda_flow data = {
        .kernel = "load_5", .blocks = b->sms, .warps = 32, .row_bytes = ROW_BYTES, .footprint = CUDA_BEYOND_L2
    };
    struct cuda_run other = {
        .kernel = "code_other", .blocks = b->sms, .threads = 32, .args = { .own = cuda_words(b, 0), .rows = 1 }
    };
    struct cuda_run run = other;
    struct cuda_outcome o[2];
    double rate_gbs;
    run.kernel = kernel;
    run.blocks = sms;
    if (!cuda_bench_run(b, &run, 1, &o[0], error)) return false;
    if (pass > 1 && !cuda_bench_run(b, &other, 1, &o[0], error)) return false;
    if (pass > 2 && !cuda_flows_run(b, &data, 1, &rate_gbs, error)) return false;
    if (!cuda_bench_run(b, &run, 1, &o[0], error)) return false;
    run.args.rows = 2;
    if (!cuda_bench_run(b, &run, 1, &o[1], error)) return false;
    const double cycles = pass == 0 ? o[1].cycles - o[0].cycles : o[0].cycles;
    cuda_bench_keep(b, "time_ns", "ns", 0, cycles / b->cycles_per_ns, "%s sms=%u pass=%s", kernel, sms, passes[pass]);
    return true;
}

static bool codes(struct cuda_bench *b, GError **error)
{
    static const char *const kernels[] = { "code", "code_jumps" };
    const uint32_t sms[] = { 1, b->sms };
    for (EACH(k, kernels))
        for (EACH(s, sms))
            for (uint32_t pass = 0; pass < 4; pass++)
                if (!code_keep(b, kernels[k], sms[s], pass, error)) return false;
    return true;
}

/* ---- work on rows ---- */

static bool casts(struct cuda_bench *b, GError **error)
{
    static const uint32_t sizes[] = { 4096, ROW_BYTES }, warps[] = { 4, 8, 16, 28, 31, 32 };
    const uint32_t sms[] = { 1, 8, b->sms };
    for (EACH(p, places))
        for (EACH(s, sms))
            for (EACH(w, warps))
                for (EACH(i, sizes)) {
                    const struct cuda_flow flow = flow_of("cast", sms[s], warps[w], sizes[i], p);
                    if (cuda_quick_skips(b, w, G_N_ELEMENTS(warps))) continue;
                    if (!flow_keep(b, &flow, places[p].name, "", error)) return false;
                }
    return true;
}

/* Measures sums.  Rates count the bytes of the sums that are written, and each sum reads `count` rows.  The record has
 * a row for each number of warps.  With `teams`, it has one more row, in which all warps of the largest block make
 * each sum together. */
static bool sums_of(struct cuda_bench *b, const char *kernel, bool teams, GError **error)
{
    static const uint32_t counts[] = { 1, 2, 3, 4, 6, 8 }, warps[] = { 1, 8, 24 }, sizes[] = { 4096, ROW_BYTES };
    const uint32_t sms[] = { 1, 24, b->sms };
    for (EACH(p, places))
        for (EACH(s, sms))
            for (EACH(i, sizes))
                for (EACH(c, counts))
                    for (uint32_t w = 0; w < G_N_ELEMENTS(warps) + teams; w++) {
                        const bool team = w == G_N_ELEMENTS(warps);
                        const bool lined = !teams && s == 0 && w == 0; /* `eptwin fit` needs these rows for every
                                                                        * count */
                        struct cuda_flow flow = flow_of(kernel, sms[s], warps[team ? w - 1 : w], sizes[i], p);
                        char more[32];
                        if (!lined && cuda_quick_skips(b, c, G_N_ELEMENTS(counts))) continue;
                        flow.count = counts[c];
                        flow.team = team;
                        g_snprintf(more, sizeof more, " by=%s rows=%u", team ? "block" : "warp", counts[c]);
                        if (!flow_keep(b, &flow, places[p].name, more, error)) return false;
                    }
    return true;
}

static bool sums(struct cuda_bench *b, GError **error) { return sums_of(b, "sum", true, error); }
static bool sums_staged(struct cuda_bench *b, GError **error) { return sums_of(b, "sum_staged", false, error); }

/* Measures sums of rows that are already in the block's shared memory. */
static bool sums_shared(struct cuda_bench *b, GError **error)
{
    static const uint32_t counts[] = { 1, 2, 4, 8 }, warps[] = { 1, 8, 24 };
    for (EACH(c, counts))
        for (EACH(w, warps)) {
            char more[32];
            const struct cuda_flow flow = {
                .kernel = "sum_shared", .blocks = 1, .warps = warps[w], .row_bytes = ROW_BYTES, .count = counts[c]
            };
            g_snprintf(more, sizeof more, " by=warp rows=%u", counts[c]);
            if (!flow_keep(b, &flow, "sm", more, error)) return false;
        }
    return true;
}

/* Measures LogFMT.  Rates count the bytes of BF16 that are turned into logarithms, or back.  Shared memory and L1 are
 * parts of one memory, so a block that asks for less shared memory leaves more L1 for the local memory of its loops.
 * The low-latency kernels ask for most of that memory, as the rows "shared=208KiB" do. */
static bool logarithms(struct cuda_bench *b, GError **error)
{
    static const char *const kernels[] = { "logs", "exps" };
    static const uint32_t warps[] = { 1, 2, 4, 8, 10, 14, 16, 28, 32 }, shared_kib[] = { 0, 208 };
    for (EACH(k, kernels))
        for (EACH(s, shared_kib))
            for (EACH(w, warps)) {
                const struct cuda_flow flow = { .kernel = kernels[k],
                                                .blocks = 1,
                                                .warps = warps[w],
                                                .row_bytes = ROW_BYTES,
                                                .shared_offset = shared_kib[s] << 10 };
                if (cuda_quick_skips(b, w, G_N_ELEMENTS(warps)) || !cuda_flow_fits(b, &flow)) continue;
                if (!flow_keep(b, &flow, "sm", s ? " shared=208KiB" : "", error)) return false;
            }
    return true;
}

const struct cuda_part cuda_one_gpu_parts[] = {
    { "clock", cuda_clock_pass },
    { "launch", cuda_launch_pass },
    { "host", cuda_host_pass },
    { "alone", cuda_alone_pass },
    { "chase", cuda_chase_pass },
    { "after", cuda_after_pass },
    { "flag", cuda_flag_pass },
    { "adding", cuda_adding_pass },
    { "barrier", cuda_barrier_pass },
    { "rows-warps", rows_by_warps },
    { "rows-sms", rows_by_sms },
    { "rows-size", rows_by_size },
    { "rows-footprint", rows_by_footprint },
    { "rows-offset", rows_by_offset },
    { "words", words_by_warps },
    { "messages", messages },
    { "bulk-warps", bulk_by_warps },
    { "bulk-sms", bulk_by_sms },
    { "bulk-size", bulk_by_size },
    { "bulk-tokens", bulk_tokens },
    { "bulk-offset", bulk_by_offset },
    { "fresh", fresh },
    { "code", codes },
    { "cast", casts },
    { "sum", sums },
    { "sum-staged", sums_staged },
    { "sum-shared", sums_shared },
    { "logs", logarithms },
    { "gemm", cuda_gemm_pass },
    { NULL, NULL },
};
