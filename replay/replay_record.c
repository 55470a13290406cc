/* replay_record.c - makes the rows of a record (reports/record.h) from the times of all ranks.
 *
 * Rows of one rank: time_us is the median over the repetitions.  time_us_p90 and time_us_min are the 90th percentile
 * and the minimum of all times.  arrival_us is how long after the first rank this rank began, again the median.  If
 * there are several steps or layers, time_us and arrival_us are means over them.
 *
 * Rows of all ranks: time_us is the mean of the ranks' time_us.  Rows with _median, _max, _min and _p90 give other
 * statistics of these.  With --steps or --layers, slowest_us is the mean, over steps and layers, of the slowest rank's
 * time.  Bandwidths are the bytes that the public tests count, divided by time_us. */
#include "replay/replay.h"

#include <math.h>
#include <string.h>
#include "sim/command_line.h"
#include "sim/stats.h"

struct rank_summary {
    double time_us, rdma_bytes, nvl_bytes, messages;
};

static double gbs(double bytes, double time_us) { return time_us > 0 ? bytes / time_us / 1e3 : 0; }

static void rows_of_rank(struct record *record, const char *phase, int32_t rank, const struct rank_summary *sum)
{
    const double time_us = sum->time_us;
    record_add(record, phase, rank, "time_us", time_us, "us");
    record_add(record, phase, rank, "logical_rdma_gbs", gbs(sum->rdma_bytes, time_us), "GB/s");
    record_add(record, phase, rank, "logical_nvl_gbs", gbs(sum->nvl_bytes, time_us), "GB/s");
    if (sum->messages > 0) record_add(record, phase, rank, "message_us", time_us / sum->messages, "us");
}

/* How long after the first rank this rank began the phase: the median over the repetitions, in us. */
static double arrival_us(const struct replay_result *result, uint32_t rank, uint32_t phase)
{
    const double *mine = &result->start_us[replay_result_place(result, rank, phase)];
    g_autofree double *late = g_new(double, result->repeat);
    for (uint32_t i = 0; i < result->repeat; i++) {
        double first = mine[i];
        for (uint32_t other = 0; other < result->ranks; other++)
            first = MIN(first, result->start_us[replay_result_place(result, other, phase) + i]);
        late[i] = mine[i] - first;
    }
    return stats_median(late, result->repeat);
}

/* Adds the rows of one rank and one phase, over the items whose indices are in pick. */
static struct rank_summary rows_of_items(struct record *record, const char *name, int32_t rank,
                                         const struct replay_result *result, const GArray *pick, uint32_t phase)
{
    struct rank_summary sum = { 0 };
    double late_us = 0;
    const uint32_t repeat = result[0].repeat, count = pick->len;
    g_autofree double *times = g_new(double, (gsize)count *repeat);
    for (uint32_t i = 0; i < count; i++) {
        const struct replay_result *item = &result[g_array_index(pick, uint32_t, i)];
        const struct kernel_traffic *traffic = &item->traffic[(uint32_t)rank * item->phases + phase];
        const double *measured = replay_result_times(item, (uint32_t)rank, phase);
        memcpy(times + (size_t)i * repeat, measured, sizeof *times * repeat);
        sum.time_us += stats_median(measured, repeat) / count;
        if (item->start_us) late_us += arrival_us(item, (uint32_t)rank, phase) / count;
        sum.rdma_bytes += (double)traffic->logical_rdma_bytes / count;
        sum.nvl_bytes += (double)traffic->logical_nvl_bytes / count;
        sum.messages += (double)traffic->messages / count;
    }
    rows_of_rank(record, name, rank, &sum);
    record_add(record, name, rank, "time_us_p90", stats_percentile(times, (size_t)count * repeat, 90), "us");
    record_add(record, name, rank, "time_us_min", stats_min(times, (size_t)count * repeat), "us");
    if (result[0].start_us) record_add(record, name, rank, "arrival_us", late_us, "us");
    return sum;
}

/* The time of a phase of an item: the median over the repetitions, on the rank where it is largest. */
static double slowest_us(const struct replay_plan *plan, const struct replay_result *item, uint32_t phase)
{
    const uint32_t last = plan->warmup + plan->repeat - 1;
    double slowest = 0;
    for (uint32_t rank = 0; rank < item->ranks; rank++)
        if (!kernel_absent(plan->item[0].job, rank, phase, last))
            slowest = fmax(slowest, stats_median(replay_result_times(item, rank, phase), item->repeat));
    return slowest;
}

/* Adds the rows of several items together: the mean of their times, and the sum over all layers. */
static void rows_of_slowest(struct record *record, const struct replay_plan *plan, const char *name,
                            const struct replay_result *result, const GArray *pick, uint32_t phase)
{
    double sum = 0;
    uint32_t layers = 0;
    for (uint32_t i = 0; i < pick->len; i++) {
        const uint32_t item = g_array_index(pick, uint32_t, i);
        sum += slowest_us(plan, &result[item], phase);
        layers += plan->item[item].step == plan->item[g_array_index(pick, uint32_t, 0)].step;
    }
    record_add(record, name, RECORD_ALL, "slowest_us", sum / pick->len, "us");
    if (strcmp(name, kernel_phase_name(plan->item[0].job, phase)) == 0)
        record_add(record, name, RECORD_ALL, "layers_us", sum / pick->len * layers, "us");
}

/* Adds rows of each rank that is not absent in the last iteration, and rows over all these ranks. */
static void rows_of_phase(struct record *record, const struct replay_plan *plan, const char *name,
                          const struct replay_result *result, const GArray *pick, uint32_t phase)
{
    const uint32_t last = plan->warmup + plan->repeat - 1;
    uint32_t ranks = 0;
    g_autofree double *time_us = g_new(double, result[0].ranks);
    struct rank_summary all = { 0 };
    for (uint32_t rank = 0; rank < result[0].ranks; rank++) {
        if (kernel_absent(plan->item[0].job, rank, phase, last)) continue;
        const struct rank_summary sum = rows_of_items(record, name, (int32_t)rank, result, pick, phase);
        time_us[ranks++] = sum.time_us;
        all.rdma_bytes += sum.rdma_bytes;
        all.nvl_bytes += sum.nvl_bytes;
        all.messages += sum.messages;
    }
    all.time_us = stats_mean(time_us, ranks);
    all.rdma_bytes /= ranks;
    all.nvl_bytes /= ranks;
    all.messages /= ranks;
    rows_of_rank(record, name, RECORD_ALL, &all);
    record_add(record, name, RECORD_ALL, "time_us_median", stats_median(time_us, ranks), "us");
    record_add(record, name, RECORD_ALL, "time_us_max", stats_max(time_us, ranks), "us");
    record_add(record, name, RECORD_ALL, "time_us_min", stats_min(time_us, ranks), "us");
    record_add(record, name, RECORD_ALL, "time_us_p90", stats_percentile(time_us, ranks, 90), "us");
    if (plan->steps || plan->layers) rows_of_slowest(record, plan, name, result, pick, phase);
}

/* Adds how long each rank waited for each other rank: the mean over the items. */
static void rows_of_waits(struct record *record, const struct replay_plan *plan, const struct replay_result *result,
                          uint32_t phase)
{
    const uint32_t ranks = result[0].ranks;
    g_autofree double *us = g_new(double, ranks);
    for (uint32_t rank = 0; result[0].waits_us && rank < ranks; rank++) {
        for (uint32_t peer = 0; peer < ranks; peer++) us[peer] = 0;
        for (uint32_t i = 0; i < plan->item_count; i++)
            for (uint32_t peer = 0; peer < ranks; peer++)
                us[peer] +=
                    result[i].waits_us[((size_t)rank * result[i].phases + phase) * ranks + peer] / plan->item_count;
        record_add_list(record, kernel_phase_name(plan->item[0].job, phase), (int32_t)rank, "waits_us", us, ranks);
    }
}

/* Adds the rows of each layer, named as in predictions. */
static void rows_of_layers(const struct replay_plan *plan, const char *name, const struct replay_result *result,
                           uint32_t phase, struct record *record)
{
    g_autoptr(GArray) pick = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    for (uint32_t first = 0; first < plan->item_count && plan->item[first].step == plan->item[0].step; first++) {
        g_array_set_size(pick, 0);
        for (uint32_t i = first; i < plan->item_count; i++)
            if (plan->item[i].layer == plan->item[first].layer) g_array_append_val(pick, i);
        g_autofree char *of_layer = g_strdup_printf("%s_layer%u", name, plan->item[first].layer);
        rows_of_phase(record, plan, of_layer, result, pick, phase);
    }
}

/* Adds to the header which steps and layers ran, in the form that predictions of several steps or layers use.  Items
 * are sorted by step, then by layer. */
static void items_record(const struct replay_plan *plan, struct record *record)
{
    g_auto(ranges) steps = { 0 }, layers = { 0 };
    steps.number = g_new(uint32_t, plan->item_count);
    layers.number = g_new(uint32_t, plan->item_count);
    for (uint32_t i = 0; i < plan->item_count; i++) {
        if (plan->item[i].layer == plan->item[0].layer) steps.number[steps.count++] = plan->item[i].step;
        if (plan->item[i].step == plan->item[0].step) layers.number[layers.count++] = plan->item[i].layer;
    }
    g_autofree char *step_text = ranges_text(&steps), *layer_text = ranges_text(&layers);
    record_set(record, "steps", "%s", step_text);
    record_set(record, "layers", "%s", layer_text);
}

void replay_record_header(const struct replay_plan *plan, const struct bootstrap *b, struct record *record)
{
    live_command_record(plan->command, b, record);
    case_record(plan->case_options, record);
    case_job_record(plan->case_options, plan->item[0].job, record);
    if (plan->steps || plan->layers) items_record(plan, record);
    record_set(record, "warmup", "%u", plan->warmup);
    record_set(record, "repeat", "%u", plan->repeat);
    record_set(record, "checks", "%s", plan->check ? "passed" : "not run");
}

/* Adds to the header the ranks that some living rank has masked by the end of some item. */
static void masked_fill(const struct replay_plan *plan, const struct replay_result *result, struct record *record)
{
    const uint32_t ranks = result[0].ranks;
    g_autofree uint8_t *set = g_new0(uint8_t, ranks);
    for (uint32_t i = 0; i < plan->item_count * ranks; i++) {
        const uint8_t *masked = result[i / ranks].masked;
        const uint32_t rank = i % ranks, last = plan->warmup + plan->repeat - 1;
        if (!masked || kernel_absent(plan->item[i / ranks].job, rank, result[0].phases - 1, last)) continue;
        for (uint32_t peer = 0; peer < ranks; peer++) set[peer] |= masked[rank * ranks + peer];
    }
    g_autofree char *text = case_ranks_text(set, ranks);
    if (result[0].masked) record_set(record, "ranks-masked", "%s", text);
}

/* Adds to the header, for each phase, how many of its times were taken while other processes used the ranks' CPUs.
 * An example is "dispatch 3/10|combine 1/10". */
static void disturbed_fill(const struct replay_plan *plan, const struct replay_result *result, struct record *record)
{
    const uint32_t phases = result[0].phases, repeat = result[0].repeat;
    g_autoptr(GString) text = g_string_new(NULL);
    uint32_t repeated = 0;
    for (uint32_t phase = 0; phase < phases; phase++) {
        uint32_t count = 0;
        for (uint32_t i = 0; i < plan->item_count * repeat; i++)
            count += result[i / repeat].disturbed[phase * repeat + i % repeat];
        if (count)
            g_string_append_printf(text, "%s%s %u/%u", text->len ? "|" : "",
                                   kernel_phase_name(plan->item[0].job, phase), count, plan->item_count * repeat);
    }
    for (uint32_t i = 0; i < plan->item_count; i++) repeated += result[i].repeated;
    record_set(record, "disturbed", "%s", text->len ? text->str : "none");
    record_set(record, "iterations-repeated", "%u", repeated);
}

void replay_record_fill(const struct replay_plan *plan, const struct bootstrap *b, const struct replay_result *result,
                        const struct contention *contention, struct record *record)
{
    replay_record_header(plan, b, record);
    contention_record(contention, record);
    disturbed_fill(plan, result, record);
    masked_fill(plan, result, record);
    g_autoptr(GArray) every = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    for (uint32_t i = 0; i < plan->item_count; i++) g_array_append_val(every, i);
    for (uint32_t phase = 0; phase < result[0].phases; phase++) {
        const char *name = kernel_phase_name(plan->item[0].job, phase);
        rows_of_phase(record, plan, name, result, every, phase);
        rows_of_waits(record, plan, result, phase);
        if (plan->item_count > 1) rows_of_layers(plan, name, result, phase, record);
    }
}
