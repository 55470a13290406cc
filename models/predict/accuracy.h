/* accuracy.h - the errors of predictions against measured rows, by machine, kernels, backend and phase.
 *
 * The numbers are models/predict/accuracy.ini, which `make accuracy` writes.  Answers print these errors beside their
 * times, so that readers do not trust differences that are smaller than the errors. */
#ifndef MODELS_PREDICT_ACCURACY_H
#define MODELS_PREDICT_ACCURACY_H

#include <stdbool.h>
#include <stdint.h>
#include "models/case.h"
#include "models/cluster.h"
#include "reports/record.h"

struct accuracy {
    uint32_t rows;              /* how many rows were measured */
    double median_pct, p90_pct; /* median and 90th percentile of the rows' absolute errors */
    bool elsewhere; /* fewer than 5 were measured on this machine, or --set changed it, so these are the rows of all
                     * machines, or of this one if its 90th percentile is larger */
};

/* Who posts to NICs in a case (case_cluster_settle()) that was simulated into the record: a name of --backend, "?" for
 * times that are no backend's, "node" where all ranks are on one node, "pcie" where peers of a node are reached by
 * PCIe, or "beside" where a load runs (--compute). */
const char *accuracy_poster(const struct case_options *c, const struct record *record, const struct cluster *cluster);

/* Finds the errors of a phase.  kernel is a name of --kernel, and poster is as accuracy_poster() names it.  Errors of
 * whole steps are those of kernel "step" and poster "any".  Returns
 * false, with rows 0, if fewer than 5 rows were measured on all machines together. */
bool accuracy_find(const struct cluster *cluster, const char *kernel, const char *phase, const char *poster,
                   struct accuracy *accuracy);

/* Whether the errors say something of this case of the kernel.  The machines that were measured were sound, and
 * between nodes all ranks' blocks of a collective had one size. */
bool accuracy_tells(const struct case_options *c, const char *kernel, const char *poster);

/* The 90th percentile of the absolute errors, as a cell of a table: "9 %", "9 % *" if elsewhere, "-" without rows. Free
 * with g_free(). */
char *accuracy_text(const struct accuracy *accuracy);
/* What these cells mean, as lines that end in a newline. */
extern const char accuracy_note[];

#endif
