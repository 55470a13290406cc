/* diagnose_rank.c - densities and priors of diagnose, see diagnose_rank.h. */
#include "models/predict/diagnose_rank.h"

#include <math.h>

#define COMMON_SOUND   0.14
#define ROW_SOUND      0.09
#define COMMON_BESIDE  0.12 /* a baseline */
#define ROW_BESIDE     0.06
#define STRENGTH       0.2
#define UNKNOWN_MEAN   0.69 /* twice as long */
#define UNKNOWN_COMMON 1.0
#define UNKNOWN_ROW    0.3
#define FREEDOM        4.0
#define SPOILT_SHARE   0.04
#define SPOILT_ROW     1.0

/* How residuals come about: a common part, one of each row, and one in proportion to effects, around mean. */
struct errors {
    double mean, common, row, strength; /* strength: of the row with the largest effect */
};

/* Sums over the rows that are not spoilt: errors x, effects e. */
struct sums {
    double x, xx, e, ee, xe;
    uint32_t n;
};

/* ln of Student's density in n dimensions.  The matrix row^2 I + common^2 11' + strength^2 ee' has its inverse and
 * determinant in closed form: those of the 2 x 2 matrix I + U'U / row^2, U = (common 1, strength e). */
static double student(const struct sums *s, const struct errors *e)
{
    if (!s->n) return 0;
    const double own = e->row * e->row;
    const double a = 1 + e->common * e->common * s->n / own, b = e->common * e->strength * s->e / own,
                 d = 1 + e->strength * e->strength * s->ee / own, det = a * d - b * b;
    const double u = e->common * s->x, v = e->strength * s->xe;
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

/* Adds a row, or with sign -1 takes it out. */
static void count_row(struct sums *s, double error, double effect, int sign)
{
    s->x += sign * error;
    s->xx += sign * error * error;
    s->e += sign * effect;
    s->ee += sign * effect * effect;
    s->xe += sign * error * effect;
    s->n += (uint32_t)sign;
}

/* The sum over none, one and two rows being spoilt: more are not a measurement. */
static double density(const double *residual, const double *before, uint32_t count, const struct errors *e)
{
    struct sums all = { 0 };
    double most = 1e-9;
    for (uint32_t i = 0; i < count; i++)
        if (!isnan(residual[i])) most = fmax(most, fabs(before[i] - residual[i]));
    for (uint32_t i = 0; i < count; i++)
        if (!isnan(residual[i])) count_row(&all, residual[i] - e->mean, (before[i] - residual[i]) / most, 1);
    const double odds = SPOILT_SHARE / (1 - SPOILT_SHARE);
    double total = exp(student(&all, e));
    for (uint32_t i = 0; i < count; i++) {
        if (isnan(residual[i])) continue;
        struct sums but_one = all;
        const double error = residual[i] - e->mean;
        count_row(&but_one, error, (before[i] - residual[i]) / most, -1);
        total += odds * exp(student(&but_one, e) + spoilt(error));
        for (uint32_t j = 0; j < i; j++) {
            if (isnan(residual[j])) continue;
            struct sums but_two = but_one;
            count_row(&but_two, residual[j] - e->mean, (before[j] - residual[j]) / most, -1);
            total += odds * odds * exp(student(&but_two, e) + spoilt(error) + spoilt(residual[j] - e->mean));
        }
    }
    return log(total) + all.n * log(1 - SPOILT_SHARE);
}

double rank_cause_density(const double *residual, const double *before, uint32_t count, bool baseline)
{
    return density(residual, before, count,
                   &(struct errors){ .common = baseline ? COMMON_BESIDE : COMMON_SOUND,
                                     .row = baseline ? ROW_BESIDE : ROW_SOUND,
                                     .strength = STRENGTH });
}

double rank_unknown_density(const double *residual, uint32_t count)
{
    return density(residual, residual, count,
                   &(struct errors){ .mean = UNKNOWN_MEAN, .common = UNKNOWN_COMMON, .row = UNKNOWN_ROW });
}

double rank_prior(uint32_t threads, uint32_t elsewhere) { return threads + elsewhere / 10.0 + 0.5; }
