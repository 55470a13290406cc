/* wait_matrix.c - reads rows of waits; see wait_matrix.h.  Knows no simulation and no drawing. */
#include "reports/wait_matrix.h"

#include <glib.h>
#include <math.h>
#include <string.h>
#include "sim/stats.h"

enum { RANKS_MAX = 65536 };

/* ---- the matrix ---- */

bool wait_matrix_read(const struct record *record, const char *phase, struct wait_matrix *m)
{
    *m = (struct wait_matrix){ 0 };
    for (uint32_t i = 0; i < record_row_count(record); i++) {
        const struct record_row *row = record_row(record, i);
        if (row->rank < 0 || strcmp(row->metric, "waits_us") != 0 || strcmp(row->phase, phase) != 0) continue;
        uint32_t count;
        g_autofree double *list = record_row_list(row, &count);
        if (!list || count < 2 || count > RANKS_MAX || (m->ranks && count != m->ranks) || (uint32_t)row->rank >= count)
            continue;
        if (!m->ranks) *m = (struct wait_matrix){ count, g_new0(double *, count) };
        g_free(m->us[row->rank]); /* the last of several rows counts */
        m->us[row->rank] = g_steal_pointer(&list);
    }
    return m->ranks > 0;
}

void wait_matrix_clear(struct wait_matrix *m)
{
    for (uint32_t rank = 0; rank < m->ranks; rank++) g_free(m->us[rank]);
    g_free(m->us);
    *m = (struct wait_matrix){ 0 };
}

double wait_matrix_most_us(const struct wait_matrix *m)
{
    double most = 0;
    for (uint32_t rank = 0; rank < m->ranks; rank++)
        for (uint32_t peer = 0; m->us[rank] && peer < m->ranks; peer++) most = fmax(most, m->us[rank][peer]);
    return most;
}

void wait_matrix_awaited(const struct wait_matrix *m, double above_us, double *mean_us)
{
    g_autofree double *sum = g_new0(double, m->ranks);
    g_autofree uint32_t *count = g_new0(uint32_t, m->ranks);
    for (uint32_t rank = 0; rank < m->ranks; rank++)
        for (uint32_t peer = 0; m->us[rank] && peer < m->ranks; peer++) {
            if (peer == rank || !(m->us[rank][peer] > above_us)) continue;
            sum[peer] += m->us[rank][peer];
            count[peer]++;
        }
    for (uint32_t peer = 0; peer < m->ranks; peer++) mean_us[peer] = count[peer] ? sum[peer] / count[peer] : NAN;
}

/* ---- shares ---- */

static const char *const share_names[WAIT_SHARES] = { "awaited_max_pct", "awaited_median_pct", "awaited_min_pct",
                                                      "waiting_max_pct", "waiting_median_pct", "waiting_min_pct",
                                                      "longest_pct",     "shortest_pct" };

const char *wait_share_name(uint32_t share)
{
    g_assert(share < WAIT_SHARES);
    return share_names[share];
}

uint32_t wait_share_find(const char *name)
{
    uint32_t share = 0;
    while (share < WAIT_SHARES && strcmp(name, share_names[share]) != 0) share++;
    return share;
}

/* Sets mean_us[rank] to the mean time that the rank waits for another rank; NAN if it has no waits. */
static void waiting_means(const struct wait_matrix *m, double *mean_us)
{
    for (uint32_t rank = 0; rank < m->ranks; rank++) {
        double sum = 0;
        uint32_t count = 0;
        for (uint32_t peer = 0; m->us[rank] && peer < m->ranks; peer++) {
            if (peer == rank || isnan(m->us[rank][peer])) continue;
            sum += m->us[rank][peer];
            count++;
        }
        mean_us[rank] = count ? sum / count : NAN;
    }
}

/* Sets us[] to the largest, the median and the smallest value over ranks.  If `awaited`, a rank's value is how long
 * others wait for the rank, else how long the rank waits.  False if no rank has a value. */
static bool means_sum_up(const struct wait_matrix *m, bool awaited, double us[3])
{
    g_autofree double *mean = g_new(double, m->ranks);
    uint32_t count = 0;
    if (awaited) wait_matrix_awaited(m, -INFINITY, mean);
    else waiting_means(m, mean);
    for (uint32_t rank = 0; rank < m->ranks; rank++)
        if (!isnan(mean[rank])) mean[count++] = mean[rank];
    us[0] = stats_max(mean, count);
    us[1] = stats_median(mean, count);
    us[2] = stats_min(mean, count);
    return count > 0;
}

/* Sets us[0] to the median over ranks of each rank's longest wait, and us[1] to that of each rank's shortest wait. */
static void extremes_sum_up(const struct wait_matrix *m, double us[2])
{
    g_autofree double *most = g_new(double, m->ranks), *least = g_new(double, m->ranks);
    uint32_t count = 0;
    for (uint32_t rank = 0; rank < m->ranks; rank++) {
        most[count] = least[count] = NAN;
        for (uint32_t peer = 0; m->us[rank] && peer < m->ranks; peer++) {
            if (peer == rank) continue;
            most[count] = fmax(most[count], m->us[rank][peer]); /* fmax() and fmin() ignore NAN */
            least[count] = fmin(least[count], m->us[rank][peer]);
        }
        count += !isnan(most[count]);
    }
    us[0] = stats_median(most, count);
    us[1] = stats_median(least, count);
}

bool wait_shares_find(const struct record *record, const char *phase, double percent[WAIT_SHARES])
{
    struct wait_matrix m;
    const struct record_row *time = record_find(record, phase, RECORD_ALL, "time_us_median");
    bool good = wait_matrix_read(record, phase, &m) && time && time->value > 0;
    good = good && means_sum_up(&m, true, percent) && means_sum_up(&m, false, percent + 3);
    if (good) extremes_sum_up(&m, percent + 6);
    for (uint32_t i = 0; good && i < WAIT_SHARES; i++) percent[i] *= 100 / time->value;
    wait_matrix_clear(&m);
    return good;
}
