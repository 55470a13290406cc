/* wait_matrix.h - how long the ranks of a record waited for each other in a phase.  The record's rows "waits_us", a
 * list for each rank, become a matrix.  The matrix's shape is described by shares that do not depend on which rank is
 * late. */
#ifndef REPORTS_WAIT_MATRIX_H
#define REPORTS_WAIT_MATRIX_H

#include <stdbool.h>
#include <stdint.h>
#include "reports/record.h"

/* us[rank][peer]: how long a worker of the rank waited for the peer, as the mean over those workers that waited for
 * it.  If a record has rows for only a few of its ranks, the pointers of the other ranks are NULL. */
struct wait_matrix {
    uint32_t ranks;
    double **us; /* [rank][peer]; NULL: the record says nothing about the rank */
};

/* Reads the waits of a phase.  False, and a matrix without ranks, if the record has none.  Free with
 * wait_matrix_clear(). */
bool wait_matrix_read(const struct record *record, const char *phase, struct wait_matrix *m);
void wait_matrix_clear(struct wait_matrix *m);
double wait_matrix_most_us(const struct wait_matrix *m); /* the longest wait, even of a rank for itself; 0: none */
/* Sets mean_us[peer] to how long other ranks wait for the peer.  It is the mean over the ranks that wait longer than
 * above_us, or NAN if there are none. */
void wait_matrix_awaited(const struct wait_matrix *m, double above_us, double *mean_us);

/* The shares that describe a matrix's shape.  A rank's "awaited" is how long the others wait for it on average, and its
 * "waiting" is how long it waits for the others on average.  Three shares are the largest, median and smallest
 * "awaited" of the ranks, and the next three are these values of "waiting".  The last two are the medians over ranks of
 * each rank's longest and shortest wait.  All are in percent of the phase's time on the median rank.  A rank's wait for
 * itself does not count. */
enum { WAIT_SHARES = 8 };
/* The name of a share, such as "awaited_max_pct". */
const char *wait_share_name(uint32_t share);
/* The share with this name; WAIT_SHARES: there is none. */
uint32_t wait_share_find(const char *name);
/* Finds the shares of a phase.  False if the record lacks the phase's waits or time, or has fewer than two ranks. */
bool wait_shares_find(const struct record *record, const char *phase, double percent[WAIT_SHARES]);

#endif
