/* wait_matrix.h - how long the ranks of a record waited for each other in a phase: its rows "waits_us", a list for
 * each rank, as a matrix; and the shape of that matrix, which does not depend on which rank is late. */
#ifndef REPORTS_WAIT_MATRIX_H
#define REPORTS_WAIT_MATRIX_H

#include <stdbool.h>
#include <stdint.h>
#include "reports/record.h"

/* us[rank][peer]: the mean time that a worker of the rank waited for the peer, over the workers that waited for it.
 * A record of many ranks may have rows for only a few of them; the others are NULL. */
struct wait_matrix {
    uint32_t ranks;
    double **us; /* [rank][peer]; NULL: the record says nothing about the rank */
};

/* Reads the waits of a phase.  False, and a matrix without ranks, if the record has none.  Free with
 * wait_matrix_clear(). */
bool wait_matrix_read(const struct record *record, const char *phase, struct wait_matrix *m);
void wait_matrix_clear(struct wait_matrix *m);
double wait_matrix_most_us(const struct wait_matrix *m); /* the longest wait; 0: there is none */
/* Sets mean_us[peer] to how long other ranks wait for the peer: the mean over the ranks that wait longer than above_us,
 * or NAN if there are none. */
void wait_matrix_awaited(const struct wait_matrix *m, double above_us, double *mean_us);

/* The shares that describe a matrix's shape.  Three are of "awaited", how long the others wait for a rank on average:
 * its largest, median and smallest value over ranks.  The next three are these values of "waiting", how long a rank
 * waits for the others on average.  The last two are the medians over ranks of each rank's longest and shortest wait.
 * All are in percent of the phase's time on the median rank.  A rank's wait for itself does not count. */
enum { WAIT_SHARES = 8 };
/* "awaited_max_pct" and so on. */
const char *wait_share_name(uint32_t share);
/* The share with this name; WAIT_SHARES: there is none. */
uint32_t wait_share_find(const char *name);
/* Finds the shares of a phase.  False if the record lacks its waits or time, or has fewer than two ranks. */
bool wait_shares_find(const struct record *record, const char *phase, double percent[WAIT_SHARES]);

#endif
