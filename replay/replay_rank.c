/* replay_rank.c - what one rank of a replay does: for every item a fresh world (words and heap start at zero),
 * then warm-ups and timed repetitions of all phases, each after a barrier.
 *
 * The kernels come from the case's family; the world steps them.  Knows no trace file and no record format. */
#include "replay/replay.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "replay/live.h"
#include "sim/progress.h"
#include "sim/units.h"

struct replay_rank {
    const struct replay_plan *plan;
    const struct replay_item *item;
    struct bootstrap *bootstrap;
    struct live_world *world;
    struct kernel_rank *rank;
    struct progress *progress;
    double *time_us, *start_us; /* [phase][repeat] of this rank */
};

/* Collective.  False: why the world could not be made. */
static bool rank_open(struct replay_rank *r, GError **error)
{
    struct fabric_needs needs;
    kernel_job_needs(r->item->job, true, &needs);
    needs.queue_count = MAX(needs.queue_count, 1);
    needs.queue_depth = MAX(needs.queue_depth, 1);
    struct live_options options = r->plan->command->live;
    options.ranks_per_node = r->item->job->ranks_per_node;
    options.nvlink_disabled = r->plan->case_options->nvlink_disabled;
    r->world = live_world_new(&options, &needs, r->bootstrap, error);
    if (!r->world) return false;
    live_command_note(r->plan->command, r->world);
    r->rank = kernel_rank_new(r->item->job, live_world_fabric(r->world));
    return true;
}

static void rank_close(struct replay_rank *r)
{
    kernel_rank_free(r->rank);
    live_world_free(r->world);
}

/* One kernel between two looks at the clock; all ranks start it together, as far as a barrier lets them. */
static bool rank_phase_run(struct replay_rank *r, uint32_t phase, double *start_us, double *time_us, GError **error)
{
    const struct kernel_launch *kernel = kernel_rank_launch(r->rank, phase);
    if (!live_world_barrier(r->world, error)) return false;
    const struct fabric *f = live_world_fabric(r->world);
    const uint64_t start_ps = fabric_now_ps(f);
    if (!live_world_run(r->world, kernel->worker, kernel->worker_count, error)) {
        g_prefix_error(error, "%s: ", kernel->phase);
        return false;
    }
    *start_us = units_us(start_ps);
    *time_us = units_us(fabric_now_ps(f) - start_ps);
    return true;
}

static bool rank_check(struct replay_rank *r, uint32_t iteration, GError **error)
{
    char text[256] = "";
    const uint32_t failed = kernel_rank_check(r->rank, text, sizeof text);
    if (!failed) return true;
    g_set_error(error, LIVE_ERROR, LIVE_FAILED, "rank %u: step %u layer %u iteration %u: %u checks failed: %s",
                r->bootstrap->rank, r->item->step, r->item->layer, iteration, failed, text);
    return false;
}

/* Outputs are checked where mistakes would show: after the first iteration, and after the last, when every
 * buffer has been used again and again. */
static bool rank_iterate(struct replay_rank *r, GError **error)
{
    const struct replay_plan *plan = r->plan;
    const uint32_t phases = kernel_phase_count(r->item->job), total = plan->warmup + plan->repeat;
    for (uint32_t i = 0; i < total; i++) {
        for (uint32_t phase = 0; phase < phases; phase++) {
            double start_us = 0, time_us = 0;
            if (!rank_phase_run(r, phase, &start_us, &time_us, error)) return false;
            if (i < plan->warmup) continue;
            r->start_us[(size_t)phase * plan->repeat + i - plan->warmup] = start_us;
            r->time_us[(size_t)phase * plan->repeat + i - plan->warmup] = time_us;
        }
        if (plan->check && (i == 0 || i + 1 == total) && !rank_check(r, i, error)) return false;
        progress_advance(r->progress, 1);
    }
    return true;
}

/* The starts, if one clock counts them. */
static bool rank_gather_starts(struct replay_rank *r, struct replay_result *result, GError **error)
{
    if (!live_world_one_clock(r->world)) return true;
    result->start_us = g_new0(double, (gsize)result->ranks * result->phases * result->repeat);
    const size_t bytes = sizeof *r->start_us * result->phases * result->repeat;
    return bootstrap_allgather(r->bootstrap, r->start_us, bytes, result->start_us, error);
}

/* Everyone gets everyone's times, traffic and mask. */
static bool rank_gather(struct replay_rank *r, struct replay_result *result, GError **error)
{
    struct bootstrap *b = r->bootstrap;
    const size_t times_bytes = sizeof *r->time_us * result->phases * result->repeat;
    if (!bootstrap_allgather(b, r->time_us, times_bytes, result->time_us, error)) return false;
    if (!rank_gather_starts(r, result, error)) return false;
    struct kernel_traffic *mine = g_new0(struct kernel_traffic, result->phases);
    for (uint32_t phase = 0; phase < result->phases; phase++) kernel_rank_traffic(r->rank, phase, &mine[phase]);
    const bool fine = bootstrap_allgather(b, mine, sizeof *mine * result->phases, result->traffic, error);
    g_free(mine);
    if (!fine || !r->item->job->mask_timeout_ps) return fine;
    uint8_t *mask = g_new0(uint8_t, result->ranks);
    for (uint32_t peer = 0; peer < result->ranks; peer++) mask[peer] = kernel_rank_masks(r->rank, peer);
    result->masked = g_new0(uint8_t, (gsize)result->ranks * result->ranks);
    const bool told = bootstrap_allgather(b, mask, result->ranks, result->masked, error);
    g_free(mask);
    return told;
}

/* r says what to run and with whom; the rest of it lasts for this item. */
static bool rank_item_run(struct replay_rank r, struct replay_result *result, GError **error)
{
    *result = (struct replay_result){
        .ranks = r.bootstrap->rank_count,
        .phases = kernel_phase_count(r.item->job),
        .repeat = r.plan->repeat,
    };
    result->time_us = g_new0(double, (gsize)result->ranks * result->phases * result->repeat);
    result->traffic = g_new0(struct kernel_traffic, (gsize)result->ranks * result->phases);
    r.time_us = g_new0(double, (gsize)result->phases * result->repeat);
    r.start_us = g_new0(double, (gsize)result->phases * result->repeat);
    /* The gathering also keeps every rank's memory alive until nobody writes to it any more. */
    const bool fine = rank_open(&r, error) && rank_iterate(&r, error) && rank_gather(&r, result, error);
    rank_close(&r);
    g_free(r.time_us);
    g_free(r.start_us);
    return fine;
}

bool replay_rank_main(struct bootstrap *b, void *context, GError **error)
{
    const struct replay_plan *plan = context;
    if (!replay_agree(plan, b, error)) return false;
    struct replay_result *result = g_new0(struct replay_result, plan->item_count);
    struct replay_rank r = { .plan = plan, .bootstrap = b };
    if (b->rank == 0)
        r.progress = progress_new("iterations", (uint64_t)plan->item_count * (plan->warmup + plan->repeat));
    bool fine = true;
    for (uint32_t i = 0; fine && i < plan->item_count; i++) {
        r.item = &plan->item[i];
        fine = rank_item_run(r, &result[i], error);
    }
    progress_free(r.progress);
    if (fine && b->rank == 0) {
        struct record *record = record_new();
        replay_record_fill(plan, b, result, record);
        const char *output = plan->command->output ? plan->command->output : "-";
        fine = record_write(record, output, plan->command->record_format, error);
        record_free(record);
    }
    for (uint32_t i = 0; i < plan->item_count; i++) {
        g_free(result[i].time_us);
        g_free(result[i].start_us);
        g_free(result[i].traffic);
        g_free(result[i].masked);
    }
    g_free(result);
    return fine;
}
