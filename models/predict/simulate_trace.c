/* simulate_trace.c - a prediction for each (step, layer) of a trace, on all cores, and their summary. A job is one
 * (step, layer).  Jobs share only the cluster, and results are summed in the order of the trace, so the number of
 * threads changes no byte of the output. */
#include "models/predict/simulate_command.h"

#include <string.h>
#include "models/predict/estimate.h"
#include "models/predict/on_cores.h"
#include "sim/command_line.h"
#include "sim/stats.h"
#include "traces/trace.h"

struct job {
    uint32_t step, layer;
    struct record *record;
    GError *error;
};

struct batch {
    const struct case_options *c;
    const struct cluster *cluster;
    struct job *jobs;
    uint32_t threads; /* threads of a job: its share of the cores, if there are more cores than jobs */
};

static bool job_run(void *context, uint32_t index, void *memory)
{
    const struct batch *batch = context;
    struct job *job = &batch->jobs[index];
    struct case_options c = *batch->c;
    (void)memory;
    c.step = job->step;
    c.layer = job->layer;
    job->record = record_new();
    simulate_case(&c, batch->cluster, batch->threads, job->record, &job->error);
    return true;
}

/* Reads ranges of steps or layers, each below `count`.  text NULL: the number `only`. */
static bool numbers_parse(const char *text, const char *name, uint32_t only, uint32_t count, struct ranges *numbers,
                          GError **error)
{
    if (!text && only < count) {
        ranges_one(only, numbers);
        return true;
    }
    if (text && ranges_parse(text, count, count, numbers)) return true;
    return error_input(error, "--%s: expected " RANGES_GRAMMAR ", each once and below %u, found '%s'", name, count,
                       text ? text : "the case's own");
}

static bool job_counts(const struct job *job, int64_t layer) { return layer < 0 || job->layer == (uint32_t)layer; }

/* Whether the summary averages the metric over jobs.  It does so for times of the mean rank, bandwidths, shares,
 * bounds, times on the wire and the speed of --compute.  A value that a job lacks counts as 0. */
static bool metric_averages(const char *metric)
{
    static const char *const prefixes[] = { "logical_",    "physical_", "busy_",   "bound_",
                                            "efficiency_", "wire_",     "compute_" };
    for (size_t i = 0; i < G_N_ELEMENTS(prefixes); i++)
        if (g_str_has_prefix(metric, prefixes[i])) return strcmp(metric, "bound_tightest") != 0;
    return strcmp(metric, "time_us") == 0;
}

static double metric_mean(const char *phase, const char *metric, const struct job *jobs, uint32_t count, int64_t layer)
{
    double sum = 0;
    uint32_t counted = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!job_counts(&jobs[i], layer)) continue;
        const struct record_row *row = record_find(jobs[i].record, phase, RECORD_ALL, metric);
        sum += row ? row->value : 0;
        counted++;
    }
    return sum / counted;
}

struct word {
    const char *text;
    uint32_t jobs;
    double sum;
};

/* Returns the commonest word of the jobs (the first one, if two are equally common), and the mean of `number` over the
 * jobs that have it.  NULL: no job has a word. */
static const char *word_commonest(const char *phase, const char *metric, const char *number, const struct job *jobs,
                                  uint32_t count, int64_t layer, double *mean)
{
    g_autoptr(GArray) words = g_array_new(FALSE, FALSE, sizeof(struct word)); /* there are at most a dozen resources */
    const struct word *best = NULL;
    for (uint32_t i = 0; i < count; i++) {
        const struct record_row *said = record_find(jobs[i].record, phase, RECORD_ALL, metric);
        const struct record_row *value = record_find(jobs[i].record, phase, RECORD_ALL, number);
        if (!said || !job_counts(&jobs[i], layer)) continue;
        guint w = 0;
        while (w < words->len && strcmp(g_array_index(words, struct word, w).text, record_row_text(said)) != 0) w++;
        if (w == words->len) g_array_append_val(words, ((struct word){ .text = record_row_text(said) }));
        g_array_index(words, struct word, w).jobs++;
        g_array_index(words, struct word, w).sum += value ? value->value : 0;
    }
    for (guint w = 0; w < words->len; w++)
        if (!best || g_array_index(words, struct word, w).jobs > best->jobs)
            best = &g_array_index(words, struct word, w);
    *mean = best ? best->sum / best->jobs : 0;
    return best ? best->text : NULL;
}

/* Records the part that is most often the busiest one, and means over the jobs in which it is.  Also records the number
 * of these jobs, unless they are all. */
static void part_summarise(struct record *record, const char *name, const char *phase, const struct job *jobs,
                           uint32_t count, int64_t layer)
{
    static const struct {
        const char *metric, *unit;
    } numbers[] = { { "bottleneck_us", "us" },         { "bottleneck_bytes", "B" },
                    { "bottleneck_rate_gbs", "GB/s" }, { "bottleneck_usual_gbs", "GB/s" },
                    { "bottleneck_over_mean", "" },    { "bottleneck_held_pct", "%" } };
    double mean = 0;
    uint32_t all = 0, these = 0;
    const char *part = word_commonest(phase, "bottleneck_part", "bottleneck_us", jobs, count, layer, &mean);
    if (!part) return;
    for (uint32_t i = 0; i < count; i++) {
        const struct record_row *said = record_find(jobs[i].record, phase, RECORD_ALL, "bottleneck_part");
        all += job_counts(&jobs[i], layer);
        these += job_counts(&jobs[i], layer) && said && strcmp(record_row_text(said), part) == 0;
    }
    g_autofree char *text = these == all ? g_strdup(part) : g_strdup_printf("%s (in %u of %u)", part, these, all);
    record_add_text(record, name, RECORD_ALL, "bottleneck_part", text);
    for (size_t k = 0; k < G_N_ELEMENTS(numbers); k++) {
        (void)word_commonest(phase, "bottleneck_part", numbers[k].metric, jobs, count, layer, &mean);
        if (mean > 0) record_add(record, name, RECORD_ALL, numbers[k].metric, mean, numbers[k].unit);
    }
}

static void limits_summarise(struct record *record, const char *name, const char *phase, const struct job *jobs,
                             uint32_t count, int64_t layer)
{
    const struct record *first = NULL;
    for (uint32_t i = 0; !first && i < count; i++)
        if (job_counts(&jobs[i], layer)) first = jobs[i].record;
    for (uint32_t i = 0; i < record_row_count(first); i++) {
        const struct record_row *row = record_row(first, i);
        if (row->rank != RECORD_ALL || strcmp(row->phase, phase) != 0 || !metric_averages(row->metric)) continue;
        record_add(record, name, RECORD_ALL, row->metric, metric_mean(phase, row->metric, jobs, count, layer),
                   row->unit);
    }
    double mean = 0;
    const char *word = word_commonest(phase, "bottleneck", "bottleneck_busy_pct", jobs, count, layer, &mean);
    if (word) {
        record_add_text(record, name, RECORD_ALL, "bottleneck", word);
        record_add(record, name, RECORD_ALL, "bottleneck_busy_pct", mean, "%");
        part_summarise(record, name, phase, jobs, count, layer);
    }
    word = word_commonest(phase, "bound_tightest", "efficiency_pct", jobs, count, layer, &mean);
    if (word) record_add_text(record, name, RECORD_ALL, "bound_tightest", word);
}

/* Records times of one phase over all jobs, or over those of one layer.  A job takes as long as its slowest rank. */
static void phase_summarise(struct record *record, const char *phase, const struct job *jobs, uint32_t count,
                            const struct ranges *layers, int64_t layer)
{
    g_autofree double *slowest = g_new(double, count);
    uint32_t counted = 0;
    for (uint32_t i = 0; i < count; i++)
        if (job_counts(&jobs[i], layer))
            slowest[counted++] = record_find(jobs[i].record, phase, RECORD_ALL, "time_us_max")->value;
    g_autofree char *name = layer < 0 ? g_strdup(phase) : g_strdup_printf("%s_layer%" G_GINT64_FORMAT, phase, layer);
    const double mean = stats_mean(slowest, counted);
    record_add(record, name, RECORD_ALL, "slowest_us", mean, "us");
    record_add(record, name, RECORD_ALL, "slowest_us_median", stats_median(slowest, counted), "us");
    record_add(record, name, RECORD_ALL, "slowest_us_p99", stats_percentile(slowest, counted, 99), "us");
    record_add(record, name, RECORD_ALL, "slowest_us_max", stats_max(slowest, counted), "us");
    if (layer < 0) record_add(record, name, RECORD_ALL, "layers_us", mean * layers->count, "us");
    limits_summarise(record, name, phase, jobs, count, layer);
}

static void jobs_summarise(struct record *record, const struct job *jobs, uint32_t count, const struct ranges *layers)
{
    const char *last = NULL;
    for (uint32_t i = 0; i < record_row_count(jobs[0].record); i++) {
        const char *phase = record_row(jobs[0].record, i)->phase;
        if (last && !strcmp(phase, last)) continue;
        last = phase;
        phase_summarise(record, phase, jobs, count, layers, -1);
        for (uint32_t l = 0; l < layers->count; l++)
            phase_summarise(record, phase, jobs, count, layers, layers->number[l]);
    }
}

/* Copies from the first job's header the values that the trace decides. */
static void header_resolve(struct record *record, const struct record *job)
{
    for (uint32_t i = 0; i < record_key_count(job); i++) {
        const char *key = record_key(job, i);
        if (case_has(key)) record_set(record, key, "%s", record_get(job, key));
    }
}

static void numbers_record(struct record *record, const char *key, const struct ranges *numbers)
{
    g_autofree char *text = ranges_text(numbers);
    record_set(record, key, "%s", text);
}

/* Prints how long the jobs will take, as if each took as long as the first. */
static void estimate_say(const struct batch *batch, const struct job *first, uint32_t count, uint32_t threads)
{
    struct estimate_many many = { 0 };
    struct case_options c = *batch->c;
    c.step = first->step;
    c.layer = first->layer;
    estimate_many_add(&many, &c, batch->cluster, count);
    estimate_many_print(&many, "simulate", threads);
}

static bool jobs_run(struct batch *batch, struct job *jobs, uint32_t count, uint32_t threads, GError **error)
{
    estimate_say(batch, jobs, count, threads);
    batch->threads = threads / count;
    batch->jobs = jobs;
    on_cores_run(&(struct on_cores){ "layers", count, threads, job_run, .context = batch });
    for (uint32_t i = 0; i < count; i++) {
        if (!jobs[i].error) continue;
        g_propagate_prefixed_error(error, g_steal_pointer(&jobs[i].error), "step %u, layer %u: ", jobs[i].step,
                                   jobs[i].layer);
        return false;
    }
    return true;
}

bool simulate_trace(const struct case_options *c, const struct cluster *cluster, const struct simulate_trace_options *o,
                    struct record *record, GError **error)
{
    struct trace *trace = trace_open(c->trace, &(struct trace_options){ .experts = c->num_experts }, error);
    if (!trace) return false;
    const struct trace_info info = *trace_info(trace);
    trace_close(trace);
    g_auto(ranges) steps = { 0 }, layers = { 0 };
    bool good = numbers_parse(o->steps, "steps", c->step, info.steps, &steps, error) &&
                numbers_parse(o->layers, "layers", c->layer, info.layers, &layers, error);
    const uint32_t count = steps.count * layers.count;
    g_autofree struct job *jobs = g_new0(struct job, count);
    for (uint32_t i = 0; i < count; i++)
        jobs[i] = (struct job){ .step = steps.number[i / layers.count], .layer = layers.number[i % layers.count] };
    struct batch batch = { .c = c, .cluster = cluster };
    good = good && jobs_run(&batch, jobs, count, o->jobs ? o->jobs : g_get_num_processors(), error);
    if (good) {
        numbers_record(record, "steps", &steps);
        numbers_record(record, "layers", &layers);
        header_resolve(record, jobs[0].record);
        jobs_summarise(record, jobs, count, &layers);
    }
    for (uint32_t i = 0; i < count; i++) {
        record_free(jobs[i].record);
        g_clear_error(&jobs[i].error);
    }
    return good;
}
