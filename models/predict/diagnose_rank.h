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
 *
 * Shares of waiting have no part in the common error: that is of times.  What is wrong with each is 0.05: of a sound
 * machine 0.02 to 0.08 by kind of share, and as much beside it with causes of known strength (tests/vm/causes: one link
 * at a quarter and all at half of their rate, a shared device, a hot expert, uneven tokens; 96 shares).
 * "None of these" expects times longer by any factor around 2, and rows that differ by 30 %.  Knows no cluster. */
#ifndef MODELS_PREDICT_DIAGNOSE_RANK_H
#define MODELS_PREDICT_DIAGNOSE_RANK_H

#include <stdbool.h>
#include <stdint.h>

/* Residuals, NAN: not a row.  before[]: the same without the cause, so that the difference is what it does.  waits[]:
 * rows that are shares of waiting; NULL: all are of times. */
struct rank_rows {
    const double *residual, *before;
    const bool *waits;
    uint32_t count;
};

/* ln of the density where a cause is planted that is at work.  baseline: residuals are relative to a sound run of the
 * machine. */
double rank_cause_density(const struct rank_rows *rows, bool baseline);
/* The density if an unknown cause is at work: residual is that without any cause, before is not read. */
double rank_unknown_density(const struct rank_rows *rows);

/* The prior of a cause that so many public threads on a topic ended with, and so many on the other, whose machines are
 * the same but not what is done with them: they count a tenth.  Of such weights those from 0.05 to 0.1 make the counts
 * of either topic likeliest given the other's (tests/accuracy/threads/README.md).  One half is what Krichevsky and
 * Trofimov add, for what has not been seen yet. */
double rank_prior(uint32_t threads, uint32_t elsewhere);
/* The prior of an unknown cause, in these units: as many threads with numbers ended without a cause. */
#define RANK_THREADS_UNKNOWN 6
/* The prior of a sound machine whose prediction is as far off as predictions are: of those who ask, as many. */
#define RANK_THREADS_SOUND   6

/* ln of what is left of a cause's density where it makes times longer, by over (ln of a factor, in the mean), than they
 * were measured.  Errors of predictions allow 15 %.  Beyond that the machine would have to be faster than a sound one
 * is predicted, which is as unlikely as the common error is.  Beyond a factor of the square root of 2, half a step
 * of the strengths, what is at work is something weaker. */
double rank_excess_density(double over);

#endif
