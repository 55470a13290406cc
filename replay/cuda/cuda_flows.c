/* cuda_flows.c - measures how fast warps move rows.  It makes a kernel's arguments from the description of a flow,
 * runs the kernel for a given time, and computes the rate. */
#include "replay/cuda/cuda_flows.h"

#include <string.h>

enum { LINE_BYTES = 128, SCALE_SHARE = 64, SUM_STAGES_BYTES = 8 * 512, LOGS_BYTES = 4096, EXPS_BYTES = 1024 };
static const double usual_us = 400, quick_us = 150;

static uint32_t round_up(uint32_t bytes, uint32_t unit) { return (bytes + unit - 1) / unit * unit; }
static uint32_t line_up(uint32_t bytes) { return round_up(bytes, LINE_BYTES); }

/* How many places of `stride` bytes a footprint has, rounded down to a power of 2, minus 1. */
static uint32_t places_mask(uint64_t footprint, uint32_t stride)
{
    uint64_t places = 1;
    while (2 * places * stride <= footprint) places *= 2;
    return (uint32_t)places - 1;
}

static uint32_t shared_bytes(const struct cuda_flow *f)
{
    if (strcmp(f->kernel, "sum_shared") == 0) return f->count * line_up(f->row_bytes);
    if (strcmp(f->kernel, "sum_staged") == 0) return f->warps * SUM_STAGES_BYTES;
    if (strcmp(f->kernel, "logs") == 0) return MAX(f->warps * LOGS_BYTES, f->shared_offset);
    if (strcmp(f->kernel, "exps") == 0) return MAX(f->warps * EXPS_BYTES, f->shared_offset);
    if (strcmp(f->kernel, "bulk") != 0) return 0;
    return CUDA_SHARED_BARS + f->shared_offset + f->warps * f->stages * line_up(f->row_bytes);
}

bool cuda_flow_fits(const struct cuda_bench *b, const struct cuda_flow *flow)
{
    return shared_bytes(flow) + CUDA_SHARED_STATIC <= b->shared_most;
}

struct cuda_run cuda_flow_run(struct cuda_bench *b, const struct cuda_flow *f)
{
    const uint64_t footprint = f->footprint ? f->footprint : CUDA_IN_L2;
    const uint32_t unit = f->packed ? 16 : LINE_BYTES;
    const uint32_t source_stride = round_up(f->row_bytes + f->source_offset, unit);
    const uint32_t scales_bytes = strcmp(f->kernel, "cast") == 0 ? f->row_bytes / SCALE_SHARE : 0;
    const uint32_t target_stride = round_up(f->row_bytes + f->target_offset + scales_bytes, unit);
    const double time_us = f->time_us > 0 ? f->time_us : b->quick ? quick_us : usual_us;
    /* In sum_shared every sum reads the same `count` rows, because shared memory holds no others. */
    const bool shared = strcmp(f->kernel, "sum_shared") == 0;
    struct cuda_run run = {
        .kernel = f->kernel, .gpu = f->gpu, .blocks = f->blocks, .threads = 32 * f->warps,
            .shared_bytes = shared_bytes(f),
        .target_count = f->target_count,
        .args = {
            .source = (f->source ? f->source : b->gpu[f->gpu].source) + f->source_offset,
            .source_stride = source_stride, .source_mask = shared ? f->count - 1 : places_mask(footprint,
                source_stride),
            .target_stride = target_stride, .target_mask = places_mask(MIN(footprint, CUDA_TARGET_BYTES),
                                                                       target_stride),
            .row_bytes = f->row_bytes, .rows = f->rows ? f->rows : UINT32_MAX,
            .cycles = f->rows ? UINT64_MAX : cuda_cycles(b, time_us),
            .by_block = f->by_block, .by_warp = f->by_warp, .fan = f->fan ? f->fan : 1, .stages = f->stages,
            .ahead = f->ahead, .shared_stride = line_up(f->row_bytes), .shared_offset = f->shared_offset,
            .flags = f->flags, .count = f->count, .team = f->team, .own = cuda_words(b, f->gpu),
        },
    };
    memcpy(run.target, f->target, sizeof run.target);
    if (!run.target_count) {
        run.target[0] = b->gpu[f->gpu].target;
        run.target_count = 1;
    }
    for (uint32_t i = 0; i < run.target_count; i++) run.target[i] += f->target_offset;
    return run;
}

/* If all footprints fit into L2, the flows run twice, because the first run brings the rows into L2.  If one does not,
 * all flows run once, and those beyond L2 begin at another row each time. */
bool cuda_flows_outcome(struct cuda_bench *b, const struct cuda_flow *flows, uint32_t count,
                        struct cuda_outcome *outcome, GError **error)
{
    struct cuda_run run[CUDA_RUNS_MOST];
    bool far = false;
    g_assert(count <= CUDA_RUNS_MOST);
    for (uint32_t i = 0; i < count; i++) {
        run[i] = cuda_flow_run(b, &flows[i]);
        if (flows[i].footprint < CUDA_BEYOND_L2) continue;
        run[i].args.index = (uint32_t)(rng_next(&b->rng) >> 33);
        far = true;
    }
    return (far || cuda_bench_run(b, run, count, outcome, error)) && cuda_bench_run(b, run, count, outcome, error);
}

bool cuda_flows_run(struct cuda_bench *b, const struct cuda_flow *flows, uint32_t count, double *rate_gbs,
                    GError **error)
{
    struct cuda_outcome outcome[CUDA_RUNS_MOST];
    if (!cuda_flows_outcome(b, flows, count, outcome, error)) return false;
    for (uint32_t i = 0; i < count; i++)
        rate_gbs[i] = outcome[i].rows * flows[i].row_bytes / (double)(outcome[i].to_ns - outcome[i].from_ns);
    return true;
}

bool cuda_fresh_write(struct cuda_bench *b, uint32_t writer, uint32_t gpu, uint32_t row_bytes, bool packed,
                      uint64_t footprint, uint64_t *place, GError **error)
{
    enum { WARPS = 8 };
    struct cuda_flow store = { .kernel = "store_8",
                               .gpu = writer,
                               .blocks = b->sms,
                               .warps = WARPS,
                               .row_bytes = row_bytes,
                               .footprint = footprint,
                               .packed = packed,
                               .target_count = 1 };
    struct cuda_outcome outcome;
    *place = b->gpu[gpu].target + CUDA_TARGET_BYTES / 2;
    store.target[0] = *place;
    struct cuda_run run = cuda_flow_run(b, &store);
    run.args.rows = (run.args.target_mask + 1) / (b->sms * WARPS) + 1;
    run.args.cycles = UINT64_MAX;
    return cuda_bench_run(b, &run, 1, &outcome, error);
}

bool cuda_flow_fresh(struct cuda_bench *b, const struct cuda_flow *flow, uint32_t writer, double *rate_gbs,
                     GError **error)
{
    const uint64_t footprint = flow->footprint ? flow->footprint : CUDA_IN_L2;
    struct cuda_flow f = *flow;
    struct cuda_outcome outcome;
    if (!cuda_fresh_write(b, writer, f.gpu, f.row_bytes, f.packed, footprint, &f.source, error)) return false;
    struct cuda_run run = cuda_flow_run(b, &f);
    run.args.rows = MAX((run.args.source_mask + 1) / (f.blocks * f.warps * MAX(f.count, 1)), 1);
    run.args.cycles = UINT64_MAX;
    if (!cuda_bench_run(b, &run, 1, &outcome, error)) return false;
    *rate_gbs = outcome.rows * f.row_bytes / (double)(outcome.to_ns - outcome.from_ns);
    return true;
}

bool cuda_quick_skips(const struct cuda_bench *b, uint32_t index, uint32_t count)
{
    return b->quick && index % 3 != 0 && index + 1 != count;
}
