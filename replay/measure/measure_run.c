/* measure_run.c - takes a sample of a micro-benchmark on all ranks and keeps its values.  In the first pass, a short
 * sample warms up caches and links, and shows how many operations fill sample_ms.  All ranks get the same mean, so
 * they choose the same number. */
#include "replay/measure/measure.h"

#include <math.h>
#include <string.h>
#include <time.h>

enum { COUNT_FIRST = 8, COUNT_MOST = 200000 };

double measure_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

double measure_turns(const struct measure *m)
{
    const double ranks = live_world_local_ranks(m->link_world), cpus = live_world_cpus(m->link_world);
    return m->alone || ranks <= cpus ? 1 : ranks / cpus;
}

/* Takes one sample.  All ranks run the benchmark, and all get the mean over the ranks that took part. */
static bool sample_take(struct measure *m, const struct measure_test *test, uint32_t size, uint32_t count, double *mean,
                        GError **error)
{
    struct bootstrap *b = m->bootstrap;
    double value[MEASURE_VALUES];
    for (uint32_t i = 0; i < MEASURE_VALUES; i++) value[i] = NAN;
    if (!bootstrap_barrier(b, error) || !test->run(m, size, count, value, error)) return false;
    double(*all)[MEASURE_VALUES] = g_malloc(sizeof value * b->rank_count);
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

/* Writes the sample of a metric into the next row.  In the first pass, this makes the row. */
static void row_sample(struct measure *m, const struct measure_test *test, const char *phase, uint32_t which,
                       uint32_t size, double value)
{
    struct measure_rows *rows = m->rows;
    struct measure_row *row = &rows->row[m->row];
    if (m->pass == 0) {
        row->size_bytes = size;
        g_strlcpy(row->phase, phase, sizeof row->phase);
        g_strlcpy(row->metric, test->metric[which], sizeof row->metric);
        g_strlcpy(row->unit, test->unit[which], sizeof row->unit);
        rows->count = m->row + 1;
    }
    g_assert(strcmp(row->phase, phase) == 0 && row->size_bytes == size);
    rows->sample[(size_t)m->row * m->repeat + m->pass] = value;
}

static bool size_run(struct measure *m, const struct measure_test *test, const char *phase, uint32_t size,
                     GError **error)
{
    double mean[MEASURE_VALUES];
    g_assert(m->row + MEASURE_VALUES <= MEASURE_ROWS_MAX);
    if (m->pass == 0) {
        if (!sample_take(m, test, size, COUNT_FIRST, mean, error)) return false;
        const double fill = mean[0] > 0 ? m->sample_ms * 1e3 / mean[0] : COUNT_MOST;
        m->operations[m->row] = (uint32_t)CLAMP(fill, COUNT_FIRST, COUNT_MOST);
    }
    if (!sample_take(m, test, size, m->operations[m->row], mean, error)) return false;
    for (uint32_t k = 0; k < MEASURE_VALUES && test->metric[k]; k++, m->row++)
        if (m->bootstrap->rank == 0) row_sample(m, test, phase, k, size, mean[k]);
    return true;
}

bool measure_test_run(struct measure *m, const struct measure_test *test, const char *suffix, GError **error)
{
    char phase[32];
    m->test = test;
    g_snprintf(phase, sizeof phase, "%s%s", test->phase, suffix);
    if (!test->sizes) return size_run(m, test, phase, 0, error);
    for (const uint32_t *size = test->sizes; *size; size++)
        if (!size_run(m, test, phase, *size, error)) return false;
    return true;
}

bool measure_tests_run(struct measure *m, const struct measure_test *test, uint32_t count, const char *suffix,
                       GError **error)
{
    for (uint32_t i = 0; i < count; i++)
        if (measure_world(m, test[i].over) && !measure_test_run(m, &test[i], suffix, error)) return false;
    return true;
}
