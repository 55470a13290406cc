/* replay_rank.c - what one rank of a replay does.  For every item it makes a new world, in which words and heap are
 * zero.  Then it runs warm-ups and timed repetitions of all phases.  Each phase begins after a barrier.
 *
 * The kernels come from the case's family, and the world steps them.  This file knows no trace file and no record
 * format. */
#include "replay/replay.h"

#include <string.h>
#include "models/waits.h"
#include "replay/agree.h"
#include "replay/live.h"
#include "replay/replay_step.h"
#include "replay/replay_timeline.h"
#include "reports/record_forms.h"
#include "reports/whole_file.h"
#include "sim/memory.h"
#include "sim/progress.h"
#include "sim/timeline_file.h"
#include "sim/units.h"

struct replay_rank {
    const struct replay_plan *plan;
    const struct replay_item *item;
    struct bootstrap *bootstrap;
    struct live_world *world;
    struct kernel_rank *rank;
    struct progress *progress;
    double *time_us, *start_us;       /* [phase][repeat] of this rank */
    struct contention_effort *effort; /* [phase][repeat] of this rank */
    bool watched; /* whether ranks communicate only by shared memory; CPU time that they lack was then used by others */
    struct waits *waits;
    struct replay_timeline *timeline; /* NULL if not wanted */
    double *waits_us;     /* [phase][rank] sum over counted iterations and repetitions; NULL if not wanted */
    uint32_t waits_count; /* number of iterations in these sums */
};

/* Makes the rank's world and kernels for its item.  Collective.  False and *error on failure. */
static bool rank_open(struct replay_rank *r, GError **error)
{
    struct fabric_needs needs;
    kernel_job_needs(r->item->job, true, &needs);
    needs.queue_count = MAX(needs.queue_count, 1);
    needs.queue_depth = MAX(needs.queue_depth, 1);
    struct live_options options = r->plan->command->live;
    options.ranks_per_node = r->item->job->ranks_per_node;
    options.nvlink_disabled = case_peers_by_rdma(r->plan->case_options);
    r->world = live_world_new(&options, &needs, r->bootstrap, error);
    if (!r->world) return false;
    live_command_note(r->plan->command, r->world);
    struct fabric *fabric = live_world_fabric(r->world);
    struct waits_options waits = { .operations = live_world_operations };
    if (r->plan->timeline) {
        r->timeline = replay_timeline_new(fabric, MAX(r->plan->timeline_spans / r->bootstrap->rank_count, 1));
        waits.note = replay_timeline_wait;
        waits.context = r->timeline;
    }
    r->rank = kernel_rank_new(r->item->job, r->timeline ? replay_timeline_fabric(r->timeline) : fabric);
    if (r->plan->waits || r->timeline) r->waits = waits_new(fabric, &waits);
    return true;
}

static void rank_close(struct replay_rank *r)
{
    kernel_rank_free(r->rank);
    waits_free(r->waits);
    replay_timeline_free(r->timeline);
    live_world_free(r->world);
}

/* When a rank ran a phase, and for how long. */
struct rank_time {
    double start_us, time_us;
    struct contention_effort effort;
};

static void rank_phase_show(struct replay_rank *r, const char *phase, uint64_t start_ps)
{
    replay_timeline_phase(r->timeline, phase, start_ps, fabric_now_ps(live_world_fabric(r->world)));
    waits_end(r->waits);
}

/* Runs one kernel, and reads the clock before and after it.  A barrier makes all ranks start as closely together as
 * it can.  Watched ranks then wait until all are done, so that CPU use is counted over an equal time on all ranks. */
static bool rank_phase_run(struct replay_rank *r, uint32_t phase, struct rank_time *t, GError **error)
{
    const struct kernel_launch *kernel = kernel_rank_launch(r->rank, phase);
    if (!live_world_barrier(r->world, error)) return false;
    const struct fabric *f = live_world_fabric(r->world);
    const uint64_t sleeps = contention_thread_sleeps();
    const double cpu_us = contention_thread_us();
    const bool shown = replay_timeline_is_on(r->timeline);
    struct fabric_worker **worker =
        r->plan->waits || shown ? waits_wrap(r->waits, kernel->worker, kernel->worker_count) : kernel->worker;
    const uint64_t start_ps = fabric_now_ps(f);
    if (!live_world_run(r->world, worker, kernel->worker_count, error)) {
        g_prefix_error(error, "%s: ", kernel->phase);
        return false;
    }
    if (shown) rank_phase_show(r, kernel->phase, start_ps);
    t->start_us = units_us(start_ps);
    t->time_us = units_us(fabric_now_ps(f) - start_ps);
    if (!r->watched) return true;
    if (!live_world_barrier(r->world, error)) return false;
    t->effort = (struct contention_effort){ .wall_us = units_us(fabric_now_ps(f) - start_ps),
                                            .cpu_us = contention_thread_us() - cpu_us,
                                            .slept = contention_thread_sleeps() > sleeps };
    return true;
}

static bool rank_check(struct replay_rank *r, uint32_t iteration, GError **error)
{
    char text[256] = "";
    const uint32_t failed = kernel_rank_check(r->rank, text, sizeof text);
    if (!failed) return true;
    return error_run(error, "rank %u: step %u layer %u iteration %u: %u checks failed: %s", r->bootstrap->rank,
                     r->item->step, r->item->layer, iteration, failed, text);
}

/* Adds to waits_us how long this rank waited for each other rank in the phase that has just ended. */
static void rank_waits_add(struct replay_rank *r, uint32_t phase)
{
    const uint32_t ranks = r->bootstrap->rank_count;
    if (!r->plan->waits) return;
    waits_end(r->waits);
    for (uint32_t peer = 0; peer < ranks; peer++) r->waits_us[(size_t)phase * ranks + peer] += waits_us(r->waits, peer);
}

/* Runs all phases once.  If `place` is below the number of counted iterations, keeps the times as those of this
 * iteration.  Otherwise drops them. */
static bool rank_iterate_once(struct replay_rank *r, uint32_t place, GError **error)
{
    const uint32_t phases = kernel_phase_count(r->item->job);
    for (uint32_t phase = 0; phase < phases; phase++) {
        struct rank_time t = { 0 };
        if (!rank_phase_run(r, phase, &t, error)) return false;
        if (place >= r->plan->repeat) continue;
        const size_t at = (size_t)phase * r->plan->repeat + place;
        r->start_us[at] = t.start_us;
        r->time_us[at] = t.time_us;
        r->effort[at] = t.effort;
        rank_waits_add(r, phase);
    }
    if (place < r->plan->repeat) r->waits_count++;
    progress_advance(r->progress, 1);
    return true;
}

/* Runs all iterations.  Checks the outputs after the first iteration and after the last one, when every buffer has
 * been reused many times. */
static bool rank_iterate(struct replay_rank *r, GError **error)
{
    const struct replay_plan *plan = r->plan;
    const uint32_t total = plan->warmup + plan->repeat;
    for (uint32_t i = 0; i < total; i++) {
        if (!rank_iterate_once(r, i < plan->warmup ? UINT32_MAX : i - plan->warmup, error)) return false;
        if (plan->check && (i == 0 || i + 1 == total) && !rank_check(r, i, error)) return false;
    }
    return true;
}

/* If all ranks have one clock, exchanges the times at which kernels began. */
static bool rank_gather_starts(struct replay_rank *r, struct replay_result *result, GError **error)
{
    if (!live_world_one_clock(r->world)) return true;
    result->start_us = g_new0(double, (gsize)result->ranks * result->phases * result->repeat);
    const size_t bytes = sizeof *r->start_us * result->phases * result->repeat;
    return bootstrap_allgather(r->bootstrap, r->start_us, bytes, result->start_us, error);
}

/* Marks the times that other processes disturbed.  All ranks mark the same times. */
static bool rank_disturbed(struct replay_rank *r, struct replay_result *result, GError **error)
{
    const uint32_t times = result->phases * result->repeat, ranks = result->ranks;
    const struct live_command *command = r->plan->command;
    if (!r->watched) return true;
    g_autofree struct contention_effort *all = g_new(struct contention_effort, (gsize)ranks * times);
    g_autofree struct contention_effort *one = g_new(struct contention_effort, ranks);
    if (!bootstrap_allgather(r->bootstrap, r->effort, sizeof *r->effort * times, all, error)) return false;
    for (uint32_t t = 0; t < times; t++) {
        for (uint32_t rank = 0; rank < ranks; rank++) one[rank] = all[(size_t)rank * times + t];
        result->disturbed[t] =
            contention_disturbed(one, ranks, command->cpus, !command->bootstrap && !command->unbound);
    }
    return true;
}

static bool iteration_disturbed(const struct replay_result *result, uint32_t iteration)
{
    for (uint32_t phase = 0; phase < result->phases; phase++)
        if (result->disturbed[phase * result->repeat + iteration]) return true;
    return false;
}

/* Repeats each disturbed iteration once.  If more than half are disturbed, the machine is busy, and repeating would
 * not help.  With masking nothing is repeated, because which ranks are masked depends on the iterations before. */
static bool rank_repeat(struct replay_rank *r, struct replay_result *result, GError **error)
{
    uint32_t count = 0;
    if (!rank_disturbed(r, result, error)) return false;
    for (uint32_t i = 0; i < result->repeat; i++) count += iteration_disturbed(result, i);
    if (!count || count > result->repeat / 2 || r->item->job->mask_timeout_ps) return true;
    for (uint32_t i = 0; i < result->repeat; i++)
        if (iteration_disturbed(result, i) && !rank_iterate_once(r, i, error)) return false;
    result->repeated = count;
    return rank_disturbed(r, result, error) && (!r->plan->check || rank_check(r, r->plan->warmup, error));
}

/* Runs one more iteration, for the timeline only.  Rank 0 writes the file. */
static bool rank_show(struct replay_rank *r, GError **error)
{
    if (!r->timeline) return true;
    replay_timeline_on(r->timeline, true);
    bool good = rank_iterate_once(r, UINT32_MAX, error);
    replay_timeline_on(r->timeline, false);
    if (!good) return false;
    g_autoptr(GError) unwritten = NULL; /* if rank 0 cannot open the file, it must still join all exchanges */
    struct timeline_file *file = r->bootstrap->rank == 0 ? timeline_file_open(r->plan->timeline, &unwritten) : NULL;
    good = replay_timeline_gather(r->timeline, r->bootstrap, live_world_one_clock(r->world),
                                  timeline_file_timeline(file), error) &&
           timeline_file_end(file, r->plan->command->name, error);
    if (good && unwritten) g_propagate_error(error, g_steal_pointer(&unwritten));
    good = good && (file || r->bootstrap->rank > 0);
    return timeline_file_close(file, good, error);
}

/* Gives every rank the times, traffic, waits and masks of all ranks. */
static bool rank_gather(struct replay_rank *r, struct replay_result *result, GError **error)
{
    struct bootstrap *b = r->bootstrap;
    const size_t times_bytes = sizeof *r->time_us * result->phases * result->repeat;
    if (!bootstrap_allgather(b, r->time_us, times_bytes, result->time_us, error)) return false;
    if (!rank_gather_starts(r, result, error)) return false;
    g_autofree struct kernel_traffic *mine = g_new0(struct kernel_traffic, result->phases);
    for (uint32_t phase = 0; phase < result->phases; phase++) kernel_rank_traffic(r->rank, phase, &mine[phase]);
    for (uint32_t i = 0; r->waits_us && i < result->phases * result->ranks; i++) r->waits_us[i] /= r->waits_count;
    const size_t waits_bytes = sizeof *r->waits_us * result->phases * result->ranks;
    const bool fine = bootstrap_allgather(b, mine, sizeof *mine * result->phases, result->traffic, error) &&
                      (!r->waits_us || bootstrap_allgather(b, r->waits_us, waits_bytes, result->waits_us, error));
    if (!fine || !r->item->job->mask_timeout_ps) return fine;
    g_autofree uint8_t *mask = g_new0(uint8_t, result->ranks);
    for (uint32_t peer = 0; peer < result->ranks; peer++) mask[peer] = kernel_rank_masks(r->rank, peer);
    result->masked = g_new0(uint8_t, (gsize)result->ranks * result->ranks);
    return bootstrap_allgather(b, mask, result->ranks, result->masked, error);
}

/* Runs an item.  r says which item, and with which ranks.  This function sets the other members of r, for this item
 * only. */
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
    r.effort = g_new0(struct contention_effort, (gsize)result->phases * result->repeat);
    result->disturbed = g_new0(bool, (gsize)result->phases * result->repeat);
    if (r.plan->waits) {
        r.waits_us = g_new0(double, (gsize)result->phases * result->ranks);
        result->waits_us = g_new0(double, (gsize)result->ranks * result->phases * result->ranks);
    }
    /* The last exchange, in rank_gather(), also ensures that a rank frees its memory only when no rank writes to it
     * any more. */
    const bool fine = rank_open(&r, error) && rank_iterate(&r, error) && rank_repeat(&r, result, error) &&
                      rank_show(&r, error) && rank_gather(&r, result, error);
    rank_close(&r);
    FREE_ALL(r.time_us, r.start_us, r.effort, r.waits_us);
    return fine;
}

static void results_free(struct replay_result *result, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        FREE_ALL(result[i].time_us, result[i].start_us, result[i].traffic, result[i].waits_us, result[i].masked,
                 result[i].disturbed);
    }
    g_free(result);
}

static bool items_run(struct replay_rank *r, struct replay_result *result, struct contention *contention,
                      GError **error)
{
    const struct replay_plan *plan = r->plan;
    struct contention_watch watch;
    if (!contention_begin(r->bootstrap, &watch, error)) return false;
    for (uint32_t i = 0; i < plan->item_count; i++) {
        r->item = &plan->item[i];
        if (!rank_item_run(*r, &result[i], error)) return false;
    }
    return contention_end(r->bootstrap, &watch, contention, error);
}

/* Whether the option may differ between hosts, because it is only the name of a file. */
static bool option_is_path(const char *name)
{
    static const char *const paths[] = { "cluster", "trace", "trace-weights", NULL };
    return g_strv_contains(paths, name);
}

bool replay_agree(const struct replay_plan *plan, struct bootstrap *b, GError **error)
{
    g_autoptr(GString) text = g_string_new(NULL);
    agree_add_command(text, plan->command);
    for (uint32_t i = 0; case_option_name(i); i++) {
        if (option_is_path(case_option_name(i))) continue;
        g_autofree char *value = case_option_text(plan->case_options, i);
        agree_add(text, case_option_name(i), value);
    }
    agree_add_number(text, "warmup", plan->warmup);
    agree_add_number(text, "repeat", plan->repeat);
    agree_add(text, "check", plan->check ? "true" : "false");
    agree_add(text, "waits", plan->waits ? "true" : "false");
    agree_add(text, "timeline", plan->timeline ? "wanted" : "none");
    agree_add_number(text, "timeline-spans", plan->timeline_spans);
    agree_add(text, "schedule", plan->schedule);
    agree_add(text, "work", plan->work_text);
    agree_add_number(text, "schedule-layers", plan->schedule_layers);
    agree_add_number(text, "items", plan->item_count);
    agree_add_number(text, "sms", plan->item[0].job->num_sms);
    g_autoptr(GChecksum) checksum = g_checksum_new(G_CHECKSUM_SHA256);
    for (uint32_t i = 0; i < plan->item_count; i++) {
        g_autofree char *digest = case_load_digest(plan->case_options, &plan->item[i].load);
        g_checksum_update(checksum, (const guchar *)digest, -1);
    }
    agree_add(text, "routing", g_checksum_get_string(checksum));
    return agree_run(b, text, error);
}

/* Writes the whole text to a new file, which then replaces the old one, so that a monitor never reads half of it. */
static bool metrics_write(const struct replay_plan *plan, const struct record *record, GError **error)
{
    if (!plan->metrics) return true;
    g_autoptr(record) predicted = plan->predicted ? record_read(plan->predicted, error) : NULL;
    if (plan->predicted && !predicted) return false;
    g_autoptr(GString) text = open_metrics_text(record, predicted);
    return whole_file_write(plan->metrics, text->str, text->len, error);
}

bool replay_rank_main(struct bootstrap *b, void *context, GError **error)
{
    const struct replay_plan *plan = context;
    if (!replay_agree(plan, b, error)) return false;
    if (plan->schedule) return replay_step_main(b, plan, error);
    struct replay_result *result = g_new0(struct replay_result, plan->item_count);
    struct replay_rank r = { .plan = plan, .bootstrap = b };
    struct contention contention = { 0 };
    r.watched = strcmp(plan->command->live.fabric, "shm") == 0;
    if (b->rank == 0)
        r.progress = progress_new("iterations", (uint64_t)plan->item_count * (plan->warmup + plan->repeat) +
                                                    (plan->timeline != NULL));
    bool fine = items_run(&r, result, &contention, error);
    progress_free(r.progress);
    if (fine && b->rank == 0) {
        g_autoptr(record) record = record_new();
        replay_record_fill(plan, b, result, &contention, record);
        const char *output = plan->command->output ? plan->command->output : "-";
        fine = record_write(record, output, plan->command->record_format, error) && metrics_write(plan, record, error);
    }
    results_free(result, plan->item_count);
    return fine;
}
