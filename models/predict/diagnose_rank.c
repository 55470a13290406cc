/* diagnose_rank.c - densities and priors of diagnose, see diagnose_rank.h. */
#include "models/predict/diagnose_rank.h"

#include <math.h>

#define COMMON_SOUND   0.14
#define ROW_SOUND      0.09
#define STRENGTH       0.2
#define UNKNOWN_MEAN   0.69 /* twice as long */
#define UNKNOWN_COMMON 1.0
#define UNKNOWN_ROW    0.3
#define FREEDOM        4.0
#define SPOILT_SHARE   0.04
#define SPOILT_ROW     1.0

/* How residuals come about: a common part and one of each row around mean. */
struct errors {
    double mean, common, row;
};

/* Sums over the rows that are not spoilt. */
struct sums {
    double sum, squares;
    uint32_t n;
};

/* ln of Student's density in n dimensions.  The matrix row^2 I + common^2 11' has its inverse and determinant in closed
 * form. */
static double student(const struct sums *s, const struct errors *e)
{
    if (!s->n) return 0;
    const double own = e->row * e->row, all = own + s->n * e->common * e->common;
    const double distance = (s->squares - e->common * e->common / all * s->sum * s->sum) / own;
    const double determinant = (s->n - 1) * log(own) + log(all);
    return lgamma((FREEDOM + s->n) / 2) - lgamma(FREEDOM / 2) - s->n / 2.0 * log(FREEDOM * M_PI) - determinant / 2 -
           (FREEDOM + s->n) / 2 * log1p(distance / FREEDOM);
}

static double spoilt(double error)
{
    const double z = error / SPOILT_ROW;
    return -z * z / 2 - log(SPOILT_ROW * sqrt(2 * M_PI));
}

static void take_out(struct sums *s, double error)
{
    s->sum -= error;
    s->squares -= error * error;
    s->n--;
}

/* The sum over none, one and two rows being spoilt: more are not a measurement. */
static double density(const double *residual, uint32_t count, const struct errors *e)
{
    struct sums all = { 0 };
    for (uint32_t i = 0; i < count; i++) {
        if (isnan(residual[i])) continue;
        const double error = residual[i] - e->mean;
        all.sum += error;
        all.squares += error * error;
        all.n++;
    }
    const double odds = SPOILT_SHARE / (1 - SPOILT_SHARE);
    double total = exp(student(&all, e));
    for (uint32_t i = 0; i < count; i++) {
        if (isnan(residual[i])) continue;
        struct sums but_one = all;
        const double error = residual[i] - e->mean;
        take_out(&but_one, error);
        total += odds * exp(student(&but_one, e) + spoilt(error));
        for (uint32_t j = 0; j < i; j++) {
            if (isnan(residual[j])) continue;
            struct sums but_two = but_one;
            take_out(&but_two, residual[j] - e->mean);
            total += odds * odds * exp(student(&but_two, e) + spoilt(error) + spoilt(residual[j] - e->mean));
        }
    }
    return log(total) + all.n * log(1 - SPOILT_SHARE);
}

double rank_cause_density(const double *residual, uint32_t count)
{
    return density(residual, count, &(struct errors){ .common = hypot(COMMON_SOUND, STRENGTH), .row = ROW_SOUND });
}

double rank_unknown_density(const double *residual, uint32_t count)
{
    return density(residual, count,
                   &(struct errors){ .mean = UNKNOWN_MEAN, .common = UNKNOWN_COMMON, .row = UNKNOWN_ROW });
}

double rank_prior(uint32_t threads, uint32_t elsewhere) { return threads + elsewhere / 4.0 + 0.5; }
