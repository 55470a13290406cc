/* accuracy.h - how far predictions were off rows that were measured, by machine, kernels, backend and phase.
 *
 * The numbers are models/predict/accuracy.ini, which `make accuracy` writes.  An answer prints them beside its
 * times, so that nobody takes a difference for true that is smaller than the errors. */
#ifndef MODELS_PREDICT_ACCURACY_H
#define MODELS_PREDICT_ACCURACY_H

#include <stdbool.h>
#include <stdint.h>
#include "models/cluster.h"

struct accuracy {
    uint32_t rows;              /* how many rows were measured */
    double median_pct, p90_pct; /* of their absolute errors */
    bool elsewhere;             /* fewer than 5 were measured on this machine, so these are the rows of all machines */
};

/* Finds the errors of a phase.  kernel: as --kernel names it.  backend: as --backend names it, if ranks are on several
 * nodes; "": the one whose times the cluster file has; NULL: all ranks are on one node.  False, and rows 0, if fewer
 * than 5 rows were measured on all machines. */
bool accuracy_find(const struct cluster *cluster, const char *kernel, const char *phase, const char *backend,
                   struct accuracy *accuracy);

/* What nine of ten rows were within, as a cell of a table: "9 %", "9 % *" if elsewhere, "-" if there are none.  Free
 * with g_free(). */
char *accuracy_text(const struct accuracy *accuracy);
/* What these cells mean, as lines that end in a newline. */
extern const char accuracy_note[];

#endif
