/* diagnose_rank.h - how likely residuals are where a cause is at work, and where nobody knows what is.
 *
 * Residuals of the rows of one machine are a common error and one of each row.  Predictions of sound machines (`make
 * accuracy`: 19 files, by file and number of ranks) have a common error of 0.14 and 0.09 of each row, but one row in
 * twenty-five is further off than these allow: spoilt, by any factor around 2.7.  Beside a baseline of the same machine
 * only what is wrong with a fault's effect is left: 0.12 and 0.06 (tests/accuracy/faults, rows with a sound figure).
 *
 * With a fault, how strong it is adds 0.2 to the error of the row that it changes most: the variants of a cause stand
 * for strengths a factor of two apart, whose middle is that far from both.  Of other rows it adds as much less as the
 * cause changes them less, and nothing to those that it leaves as they are.  Tails are Student's, with 4 degrees of
 * freedom.
 * "None of these" expects times longer by any factor around 2, and rows that differ by 30 %.  Knows no cluster. */
#ifndef MODELS_PREDICT_DIAGNOSE_RANK_H
#define MODELS_PREDICT_DIAGNOSE_RANK_H

#include <stdbool.h>
#include <stdint.h>

/* ln of the density of residual[] (NAN: not a row) where a cause is planted that is at work.  before[]: the same
 * without it, so that the difference is what it does.  baseline: both are relative to a sound run of the machine. */
double rank_cause_density(const double *residual, const double *before, uint32_t count, bool baseline);
/* The same where something unknown is at work; residual as predicted without any cause. */
double rank_unknown_density(const double *residual, uint32_t count);

/* The prior of a cause that so many public threads on a topic ended with, and so many on the other, whose machines are
 * the same but not what is done with them: they count a tenth.  Of such weights those from 0.05 to 0.1 make the counts
 * of either topic likeliest given the other's (tests/accuracy/threads/README.md).  One half is what Krichevsky and
 * Trofimov add, for what has not been seen yet. */
double rank_prior(uint32_t threads, uint32_t elsewhere);
/* The prior of something unknown, in the same units: as many threads with numbers ended without a cause. */
#define RANK_THREADS_UNKNOWN 6

#endif
