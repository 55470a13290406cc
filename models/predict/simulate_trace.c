/* simulate_trace.c - a prediction for each (step, layer) of a trace, on a pool of threads, and their summary.
 * A job is one (step, layer); jobs share nothing but the cluster, and results are summed in the order of the trace, so
 * that the number of threads changes no byte of the output. */
#include "models/predict/simulate_trace.h"

#include <string.h>
#include "sim/progress.h"
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
    struct progress *progress;
};

static void job_run(gpointer data, gpointer context)
{
    struct job *job = data;
    const struct batch *batch = context;
    struct case_options c;
    case_copy(&c, batch->c);
    c.step = job->step;
    c.layer = job->layer;
    job->record = record_new();
    simulate_case(&c, batch->cluster, job->record, &job->error);
    case_clear(&c);
    progress_advance(batch->progress, 1);
}

/* "A:B", "A" or "all" of 0 .. count-1; NULL is only. */
static bool range_parse(const char *text, const char *name, uint32_t only, uint32_t count, uint32_t *begin,
                        uint32_t *end, GError **error)
{
    *begin = only;
    *end = only + 1;
    bool good = true;
    if (text && !strcmp(text, "all")) {
        *begin = 0;
        *end = count;
    } else if (text) {
        g_auto(GStrv) part = g_strsplit(text, ":", 2);
        guint64 a = 0, b = 0;
        good = part[0] && g_ascii_string_to_unsigned(part[0], 10, 0, G_MAXUINT32 - 1, &a, NULL) &&
               (!part[1] || g_ascii_string_to_unsigned(part[1], 10, 0, G_MAXUINT32, &b, NULL));
        *begin = (uint32_t)a;
        *end = part[0] && part[1] ? (uint32_t)b : (uint32_t)a + 1;
    }
    if (good && *begin < *end && *end <= count) return true;
    g_set_error(error, SIMULATE_ERROR, SIMULATE_ERROR_INPUT,
                "--%s: expected A:B with 0 <= A < B <= %u, or all, found \"%s\"", name, count,
                text ? text : "the case's own");
    return false;
}

static void stat_rows(struct record *record, const char *phase, const GArray *times)
{
    const double *v = (const double *)(const void *)times->data;
    record_add(record, phase, RECORD_ALL, "time_us", stats_mean(v, times->len), "us");
    record_add(record, phase, RECORD_ALL, "time_us_median", stats_median(v, times->len), "us");
    record_add(record, phase, RECORD_ALL, "time_us_p99", stats_percentile(v, times->len, 99), "us");
    record_add(record, phase, RECORD_ALL, "time_us_max", stats_max(v, times->len), "us");
}

/* Times of one phase over the jobs; all of them, or those of one layer. */
static void phase_summarise(struct record *record, const char *phase, const struct job *jobs, uint32_t count,
                            int64_t layer)
{
    GArray *times = g_array_new(FALSE, FALSE, sizeof(double)), *slowest = g_array_new(FALSE, FALSE, sizeof(double));
    for (uint32_t i = 0; i < count; i++) {
        if (layer >= 0 && jobs[i].layer != (uint32_t)layer) continue;
        g_array_append_val(times, record_find(jobs[i].record, phase, RECORD_ALL, "time_us")->value);
        g_array_append_val(slowest, record_find(jobs[i].record, phase, RECORD_ALL, "time_us_max")->value);
    }
    g_autofree char *name = layer < 0 ? g_strdup(phase) : g_strdup_printf("%s_layer%" G_GINT64_FORMAT, phase, layer);
    stat_rows(record, name, times);
    const double mean = stats_mean((const double *)(const void *)times->data, times->len);
    const double worst = stats_mean((const double *)(const void *)slowest->data, slowest->len);
    record_add(record, name, RECORD_ALL, "slowest_rank_over_mean", mean > 0 ? worst / mean : 0, "");
    g_array_free(times, TRUE);
    g_array_free(slowest, TRUE);
}

static void jobs_summarise(struct record *record, const struct job *jobs, uint32_t count, uint32_t layer_begin,
                           uint32_t layer_end)
{
    const char *last = NULL;
    for (uint32_t i = 0; i < record_row_count(jobs[0].record); i++) {
        const char *phase = record_row(jobs[0].record, i)->phase;
        if (last && !strcmp(phase, last)) continue;
        last = phase;
        phase_summarise(record, phase, jobs, count, -1);
        for (uint32_t layer = layer_begin; layer < layer_end; layer++)
            phase_summarise(record, phase, jobs, count, layer);
    }
}

/* What the first job decided of the options that were left to the trace. */
static void header_resolve(struct record *record, const struct record *job)
{
    for (uint32_t i = 0; i < record_key_count(job); i++) {
        const char *key = record_key(job, i);
        if (case_has(key)) record_set(record, key, "%s", record_get(job, key));
    }
}

static bool jobs_run(struct batch *batch, struct job *jobs, uint32_t count, uint32_t threads, GError **error)
{
    batch->progress = progress_new("layers", count);
    GThreadPool *pool = g_thread_pool_new(job_run, batch, (gint)threads, TRUE, NULL);
    for (uint32_t i = 0; i < count; i++) g_thread_pool_push(pool, &jobs[i], NULL);
    g_thread_pool_free(pool, FALSE, TRUE);
    progress_free(batch->progress);
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
    uint32_t step_begin, step_end, layer_begin, layer_end;
    if (!range_parse(o->steps, "steps", c->step, info.steps, &step_begin, &step_end, error) ||
        !range_parse(o->layers, "layers", c->layer, info.layers, &layer_begin, &layer_end, error))
        return false;
    const uint32_t layers = layer_end - layer_begin, count = (step_end - step_begin) * layers;
    struct job *jobs = g_new0(struct job, count);
    for (uint32_t i = 0; i < count; i++)
        jobs[i] = (struct job){ .step = step_begin + i / layers, .layer = layer_begin + i % layers };
    struct batch batch = { .c = c, .cluster = cluster };
    const bool good = jobs_run(&batch, jobs, count, o->jobs ? o->jobs : g_get_num_processors(), error);
    if (good) {
        record_set(record, "steps", "%u:%u", step_begin, step_end);
        record_set(record, "layers", "%u:%u", layer_begin, layer_end);
        header_resolve(record, jobs[0].record);
        jobs_summarise(record, jobs, count, layer_begin, layer_end);
    }
    for (uint32_t i = 0; i < count; i++) {
        record_free(jobs[i].record);
        g_clear_error(&jobs[i].error);
    }
    g_free(jobs);
    return good;
}
