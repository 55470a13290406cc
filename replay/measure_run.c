/* measure_run.c - repeats a micro-benchmark on all ranks and turns what they found into rows.
 *
 * A first short sample warms everything up and tells how many operations fill sample_ms; then come the samples
 * that count.  Rank 0's number decides, so that all ranks do the same. */
#include "replay/measure.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "sim/stats.h"

enum { COUNT_FIRST = 8, COUNT_MOST = 200000 };

double measure_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

double measure_cpu_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

double measure_turns(const struct measure *m)
{
    const double ranks = live_world_local_ranks(m->link_world), cpus = live_world_cpus(m->link_world);
    return m->alone || ranks <= cpus ? 1 : ranks / cpus;
}

static void row_add(struct measure *m, const char *phase, const char *metric, const char *unit, double value)
{
    struct measure_rows *rows = m->rows;
    g_assert(rows->count < MEASURE_ROWS_MAX);
    struct measure_row *row = &rows->row[rows->count++];
    g_strlcpy(row->phase, phase, sizeof row->phase);
    g_strlcpy(row->metric, metric, sizeof row->metric);
    g_strlcpy(row->unit, unit, sizeof row->unit);
    row->value = value;
}

/* One sample: all ranks run, all get the mean over those that took part. */
static bool sample_take(struct measure *m, const struct measure_test *test, uint32_t size, uint32_t count,
                        double *mean, GError **error)
{
    struct bootstrap *b = m->bootstrap;
    double value[MEASURE_VALUES];
    for (uint32_t i = 0; i < MEASURE_VALUES; i++) value[i] = NAN;
    if (!bootstrap_barrier(b, error) || !test->run(m, size, count, value, error)) return false;
    double (*all)[MEASURE_VALUES] = g_malloc(sizeof value * b->rank_count);
    const bool fine = bootstrap_allgather(b, value, sizeof value, all, error);
    for (uint32_t i = 0; fine && i < MEASURE_VALUES; i++) {
        double sum = 0;
        uint32_t took_part = 0;
        for (uint32_t rank = 0; rank < b->rank_count; rank++) {
            if (isnan(all[rank][i])) continue;
            sum += all[rank][i];
            took_part++;
        }
        mean[i] = took_part ? sum / took_part : NAN;
    }
    g_free(all);
    return fine;
}

static void rows_of_metric(struct measure *m, const struct measure_test *test, const char *phase, uint32_t which,
                           uint32_t size, const double *samples)
{
    static const char *const spread[] = { "", "_min", "_max" };
    const double value[] = { stats_median(samples, m->repeat), stats_min(samples, m->repeat),
                             stats_max(samples, m->repeat) };
    for (uint32_t i = 0; i < G_N_ELEMENTS(spread); i++) {
        char metric[40];
        if (test->sizes) g_snprintf(metric, sizeof metric, "%s%s_%u", test->metric[which], spread[i], size);
        else g_snprintf(metric, sizeof metric, "%s%s", test->metric[which], spread[i]);
        row_add(m, phase, metric, test->unit[which], value[i]);
    }
}

static bool size_run(struct measure *m, const struct measure_test *test, const char *phase, uint32_t size,
                     GError **error)
{
    double mean[MEASURE_VALUES];
    if (!sample_take(m, test, size, COUNT_FIRST, mean, error)) return false;
    const double fill = mean[0] > 0 ? m->sample_ms * 1e3 / mean[0] : COUNT_MOST;
    const uint32_t count = (uint32_t)CLAMP(fill, COUNT_FIRST, COUNT_MOST);
    double *samples = g_new(double, (gsize)MEASURE_VALUES * m->repeat);
    bool fine = true;
    for (uint32_t i = 0; fine && i < m->repeat; i++) {
        fine = sample_take(m, test, size, count, mean, error);
        for (uint32_t k = 0; fine && k < MEASURE_VALUES; k++) samples[k * m->repeat + i] = mean[k];
    }
    for (uint32_t k = 0; fine && m->bootstrap->rank == 0 && k < MEASURE_VALUES && test->metric[k]; k++)
        if (!isnan(samples[k * m->repeat])) rows_of_metric(m, test, phase, k, size, samples + k * m->repeat);
    g_free(samples);
    return fine;
}

bool measure_test_run(struct measure *m, const struct measure_test *test, const char *suffix, GError **error)
{
    char phase[32];
    g_snprintf(phase, sizeof phase, "%s%s", test->phase, suffix);
    if (!test->sizes) return size_run(m, test, phase, 0, error);
    for (const uint32_t *size = test->sizes; *size; size++)
        if (!size_run(m, test, phase, *size, error)) return false;
    return true;
}
