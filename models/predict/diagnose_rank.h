/* diagnose_rank.h - how likely residuals are if a given cause, or an unknown one, is the reason.
 *
 * A residual is the sum of an error that all rows of a machine share and an error of its row.  For predictions of sound
 * machines (`make accuracy`: 19 files, by file and number of ranks) the common error is 0.14 and each row's is 0.09.
 * One row in twenty-five is further off than these errors allow.  Such a spoilt row is off by any factor around 2.7.
 * Residuals relative to a baseline of the machine have only the errors of a fault's effect: 0.12 and 0.06
 * (tests/accuracy/faults, rows with a sound figure).
 *
 * A fault's strength is not known exactly: the variants of a cause have strengths that are a factor of two apart, and
 * the true strength lies between them.  This adds 0.2 to the error of the row that the cause changes most.  To other
 * rows it adds less, in proportion to the cause's effect on them.  Tails are Student's, with 4 degrees of freedom.
 *
 * Shares of waiting do not have the common error, which is an error of times.  Each share has an error of 0.05.  On a
 * sound machine this error is 0.02 to 0.08, by kind of share.  Causes of known strength add as much (96 shares in
 * tests/vm/causes: slow links, a shared device, a hot expert, uneven tokens).
 *
 * "None of these" has four forms (diagnose_unknown.c).  Two of them expect longer times, by any factor around 2.  In
 * one, rows differ by 30 %; in the other, each row has a factor of its own around 2.  Knows no cluster. */
#ifndef MODELS_PREDICT_DIAGNOSE_RANK_H
#define MODELS_PREDICT_DIAGNOSE_RANK_H

#include <stdbool.h>
#include <stdint.h>

/* residual[]: what the cause leaves; NAN: the row does not count.  before[]: the residuals without the cause; the
 * difference is the cause's effect.  waits[] marks rows that are shares of waiting; NULL: all rows are times. */
struct rank_rows {
    const double *residual, *before;
    const bool *waits;
    uint32_t count;
};

/* ln of the density if the planted cause is the reason.  baseline: residuals are relative to a sound run of the
 * machine. */
double rank_cause_density(const struct rank_rows *rows, bool baseline);
/* ln of the density if the reason is an unknown cause that resembles the planted one.  On each row the two causes'
 * effects differ by about `apart` (ln of a factor).  The unknown cause may have any strength. */
double rank_near_density(const struct rank_rows *rows, bool baseline, double apart);
/* ln of the density if the reason makes all times longer by one factor.  With `each`, every time has a factor of its
 * own. residual[] is without any cause; before[] is not read. */
double rank_factor_density(const struct rank_rows *rows, bool each);

/* The prior of a cause, as a number of threads.  threads: how many public threads on the topic ended with the cause.
 * elsewhere: how many threads on the other topic did.  The other topic has the same machines but other programs, so its
 * threads count a tenth.  Of all weights, those from 0.05 to 0.1 make the counts of one topic most likely, given the
 * other's (tests/accuracy/threads/README.md).  One half is added, as Krichevsky and Trofimov do for what has not been
 * seen yet. */
double rank_prior(uint32_t threads, uint32_t elsewhere);
/* How many of the public threads that state measurements ended without a cause. */
#define RANK_THREADS_UNSOLVED 6
/* A sound machine, whose prediction has only its usual error, counts like a cause with this many threads. */
#define RANK_THREADS_SOUND    6

/* ln of a factor on the density of a cause that makes times longer than measured; `over` is struct verdict's.  Up to
 * 15 % count as errors of predictions.  Above that, the machine would have to be faster than predicted, which is as
 * unlikely as a large common error.  Strengths are a factor of two apart, so beyond sqrt(2) a weaker cause is the
 * reason. */
double rank_excess_density(double over);

/* ln of e^a + e^b.  Densities of some hundred rows are too small for doubles, so only their ln is kept. */
double rank_ln_add(double a, double b);

#endif
