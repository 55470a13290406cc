/* diagnose_rank.c - densities and priors of diagnose, see diagnose_rank.h. */
#include "models/predict/diagnose_rank.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#define COMMON_SOUND   0.14
#define ROW_SOUND      0.09
#define COMMON_BESIDE  0.12 /* the error of residuals relative to a baseline, as is ROW_BESIDE */
#define ROW_BESIDE     0.06
#define ROW_WAITS      0.05
#define STRENGTH       0.2
#define UNKNOWN_MEAN   0.69 /* ln 2: twice as long */
#define UNKNOWN_COMMON 1.0  /* also the error of an unknown cause's strength */
#define UNKNOWN_ROW    0.3
#define FREEDOM        4.0
#define EXCESS_ALLOWED 1.15
#define PAIRED_MOST    64u
#define SPOILT_SHARE   0.04
#define SPOILT_ROW     1.0

/* The sizes of a residual's errors: one common to all times, one of each row, and one in proportion to the cause's
 * effect. All are ln of a factor.  Residuals lie around `mean`. */
struct errors {
    double mean, common, row, strength; /* strength: in the row with the largest effect */
};

/* Sums of errors x and effects e: tx and te over times, and the products xx, ee and xe over all rows.  Shares of
 * waiting are scaled so that their errors are as large as those of times.  Spoilt rows are left out. */
struct sums {
    double tx, te, xx, ee, xe;
    uint32_t n, times;
};

/* A row's error and effect, scaled as in struct sums. */
struct weighed {
    double error, effect;
    bool time; /* the row is a time, so it has the common error */
};

/* ln of Student's density of n rows.  Its matrix is row^2 I + common^2 tt' + strength^2 ee'.  The vector t is 1 for
 * times and 0 for shares of waiting; e are the effects.  The inverse and the determinant have a closed form: they
 * follow from those of the 2 x 2 matrix I + U'U / row^2 with U = (common t, strength e). */
static double student(const struct sums *s, const struct errors *e)
{
    if (!s->n) return 0;
    const double own = e->row * e->row;
    const double a = 1 + e->common * e->common * s->times / own, b = e->common * e->strength * s->te / own,
                 d = 1 + e->strength * e->strength * s->ee / own, det = a * d - b * b;
    const double u = e->common * s->tx, v = e->strength * s->xe;
    const double distance = (s->xx - (d * u * u - 2 * b * u * v + a * v * v) / (det * own)) / own;
    const double determinant = s->n * log(own) + log(det);
    return lgamma((FREEDOM + s->n) / 2) - lgamma(FREEDOM / 2) - s->n / 2.0 * log(FREEDOM * M_PI) - determinant / 2 -
           (FREEDOM + s->n) / 2 * log1p(distance / FREEDOM);
}

static double spoilt(double error)
{
    const double z = error / SPOILT_ROW;
    return -z * z / 2 - log(SPOILT_ROW * sqrt(2 * M_PI));
}

/* Adds a row to the sums; with sign -1 removes it. */
static void count_row(struct sums *s, const struct weighed *row, int sign)
{
    s->xx += sign * row->error * row->error;
    s->ee += sign * row->effect * row->effect;
    s->xe += sign * row->error * row->effect;
    s->n += (uint32_t)sign;
    if (!row->time) return;
    s->tx += sign * row->error;
    s->te += sign * row->effect;
    s->times += (uint32_t)sign;
}

/* Sets row[] to the rows that count, scaled as in struct sums, and returns their number. */
static uint32_t rows_weigh(const struct rank_rows *r, const struct errors *e, struct weighed *row)
{
    uint32_t count = 0;
    double most = 1e-9;
    for (uint32_t i = 0; i < r->count; i++)
        if (!isnan(r->residual[i])) most = fmax(most, fabs(r->before[i] - r->residual[i]));
    for (uint32_t i = 0; i < r->count; i++) {
        if (isnan(r->residual[i])) continue;
        const bool time = !r->waits || !r->waits[i];
        const double scale = time ? 1 : e->row / ROW_WAITS;
        row[count++] = (struct weighed){ .error = (r->residual[i] - (time ? e->mean : 0)) * scale,
                                         .effect = (r->before[i] - r->residual[i]) / most * scale,
                                         .time = time };
    }
    return count;
}

double rank_ln_add(double a, double b) { return b == -INFINITY ? a : fmax(a, b) + log1p(exp(-fabs(a - b))); }

static int error_fall(const void *a, const void *b)
{
    const double left = fabs(((const struct weighed *)a)->error), right = fabs(((const struct weighed *)b)->error);
    return left > right ? -1 : left < right;
}

/* ln of the density of the rows.  The density is a sum over cases: no row is spoilt, one row is, or two are.  A table
 * with more spoilt rows would not be a measurement.  Of many rows, pairs are summed only of those with the largest
 * errors, because other pairs add nothing. */
static double density(const struct rank_rows *r, const struct errors *e)
{
    struct sums all = { 0 };
    struct weighed *row = malloc((r->count + 1) * sizeof *row);
    assert(row);
    const uint32_t count = rows_weigh(r, e, row);
    for (uint32_t i = 0; i < count; i++) count_row(&all, &row[i], 1);
    const double odds = log(SPOILT_SHARE / (1 - SPOILT_SHARE));
    double total = student(&all, e);
    if (count > PAIRED_MOST) qsort(row, count, sizeof *row, error_fall);
    for (uint32_t i = 0; i < count; i++) {
        struct sums but_one = all;
        count_row(&but_one, &row[i], -1);
        const double one = odds + spoilt(row[i].error);
        total = rank_ln_add(total, one + student(&but_one, e));
        for (uint32_t j = 0; j < i && i < PAIRED_MOST; j++) {
            struct sums but_two = but_one;
            count_row(&but_two, &row[j], -1);
            total = rank_ln_add(total, one + odds + spoilt(row[j].error) + student(&but_two, e));
        }
    }
    free(row);
    return total + all.n * log(1 - SPOILT_SHARE);
}

static struct errors errors_of(bool baseline)
{
    return (struct errors){ .common = baseline ? COMMON_BESIDE : COMMON_SOUND,
                            .row = baseline ? ROW_BESIDE : ROW_SOUND,
                            .strength = STRENGTH };
}

double rank_cause_density(const struct rank_rows *rows, bool baseline)
{
    const struct errors e = errors_of(baseline);
    return density(rows, &e);
}

double rank_near_density(const struct rank_rows *rows, bool baseline, double apart)
{
    struct errors e = errors_of(baseline);
    e.row = hypot(e.row, apart);
    e.strength = UNKNOWN_COMMON;
    return density(rows, &e);
}

double rank_factor_density(const struct rank_rows *rows, bool each)
{
    const struct rank_rows still = { rows->residual, rows->residual, rows->waits, rows->count };
    return density(
        &still,
        &(struct errors){ .mean = UNKNOWN_MEAN, .common = UNKNOWN_COMMON, .row = each ? UNKNOWN_COMMON : UNKNOWN_ROW });
}

double rank_prior(uint32_t threads, uint32_t elsewhere) { return threads + elsewhere / 10.0 + 0.5; }

double rank_excess_density(double over)
{
    const double z = (over - log(EXCESS_ALLOWED)) / COMMON_SOUND;
    return over > M_LN2 / 2 ? -INFINITY : z > 0 ? -z * z / 2 : 0;
}
