/* wait_matrix.h - how long the ranks of a record waited for each other in a phase: its rows "waits_us", a list a
 * rank, as a matrix, and the shape of the matrix, whichever rank stands out in it. */
#ifndef REPORTS_WAIT_MATRIX_H
#define REPORTS_WAIT_MATRIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "reports/record.h"

/* The mean time that a worker of rank which waited for peer waited.  A record may tell it of few of many ranks, so the
 * others have no row. */
struct wait_matrix {
    uint32_t ranks;
    double **us; /* [rank][peer]; a rank's row is NULL where the record tells nothing of it */
};

/* False, and a matrix without ranks, where the record has no waits of the phase.  Free with wait_matrix_clear(). */
bool wait_matrix_read(const struct record *record, const char *phase, struct wait_matrix *m);
void wait_matrix_clear(struct wait_matrix *m);
double wait_matrix_most_us(const struct wait_matrix *m); /* 0 of nothing */
/* mean[peer]: the mean over the other ranks that wait for the peer longer than above_us; NAN where none does. */
void wait_matrix_awaited(const struct wait_matrix *m, double above_us, double *mean_us);

/* The shape of a matrix, whichever rank stands out: how long the others wait for a rank ("awaited"), how long a rank
 * waits for the others ("waiting"), the means over these, of the rank of which that is the longest, the median, and
 * the shortest; and of the longest and the shortest wait of each rank the median over ranks.  In percent of the phase's
 * time on the median rank.  A wait of a rank for itself does not count. */
enum { WAIT_SHARES = 8 };
/* "awaited_max_pct" and so on. */
const char *wait_share_name(uint32_t share);
/* Its number; WAIT_SHARES: no share is called so. */
uint32_t wait_share_find(const char *name);
/* False where the record has no waits or no time of the phase, or fewer than two ranks. */
bool wait_shares_find(const struct record *record, const char *phase, double percent[WAIT_SHARES]);

#endif
