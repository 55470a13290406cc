/* diagnose.h - which single change of the cluster or of the run explains measurements that differ from their
 * prediction?
 *
 *   rows (validate.h) ──► predicted as they are ──► residual of each row: ln(measured time / predicted time)
 *   each cause: the same rows with the cause planted, predicted again ──► how much of the residuals it takes away
 *
 * A cause explains 1 - sum of squares left / sum of squares before, over all rows.  Rows whose residual grows
 * contradict it.  Causes whose shares differ by less than a twentieth explain alike; the commoner stands first.  Where
 * the best cause leaves something, a second round looks for one more beside it.  Private to diagnose. */
#ifndef MODELS_PREDICT_DIAGNOSE_H
#define MODELS_PREDICT_DIAGNOSE_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include "models/cluster.h"
#include "models/predict/validate.h"

#define DIAGNOSE_ERROR (g_quark_from_static_string("eptwin-diagnose"))
enum diagnose_error { DIAGNOSE_ERROR_INPUT, DIAGNOSE_ERROR_RUN };

enum { CAUSE_SETTINGS_MAX = 6, CAUSE_OPTIONS_MAX = 3 };

enum cause_scope {
    CAUSE_NETWORK = 1, /* needs ranks that reach each other by NICs */
    CAUSE_NVLINK = 2,  /* needs ranks that share an NVLink domain */
    CAUSE_SMS = 4,     /* kernels whose number of SMs one chooses */
    CAUSE_RATES = 8,   /* rows that give a bandwidth */
    CAUSE_PORTS = 32,  /* needs NICs of several ports */
    CAUSE_DRAWN = 16,  /* rows whose routing is drawn, not given by a trace or a matrix */
};

struct cause {
    const char *id;     /* "one-nic" */
    const char *text;   /* "all ranks of a node use one NIC" */
    const char *check;  /* how one finds out */
    const char *change; /* what to change where it is so */
    unsigned scope;     /* enum cause_scope, together */
    /* What it does to the cluster file and the options; "N%" of a rate or count is that share of what is there. */
    const char *setting[CAUSE_SETTINGS_MAX], *option[CAUSE_OPTIONS_MAX];
    bool leaves_local_out; /* the measured bandwidth counts no tokens that stay on the node */
};

/* The table, ended by one without an id. */
const struct cause *diagnose_causes(void);
/* Plants a cause in a row.  False where it does not apply to the row, which is then as it was. */
bool cause_plant(const struct cause *cause, const struct cluster *cluster, struct validate_row *row);

struct verdict {
    const struct cause *cause;
    double explains;              /* share of the squares, up to 1; below 0: it makes matters worse */
    double left;                  /* root mean square of what is left, as a factor: 1.1 is 10 % */
    uint32_t contradicting;       /* rows whose residual it makes larger by more than a tenth */
    uint32_t applied;             /* rows to which it applies */
    uint32_t first_contradicting; /* the line of the first of these */
};

struct diagnosis {
    uint32_t rows;           /* that were compared */
    double before;           /* root mean square of the residuals as a factor */
    struct verdict *verdict; /* [verdict_count], the best first */
    uint32_t verdict_count;
    struct verdict second; /* beside the first; cause NULL: none helps */
};

/* Compares table's rows (predicted or not) with every cause, on so many worker processes.  table keeps the predictions
 * as they are.  NULL and *error where no row can be compared or no worker starts. */
struct diagnosis *diagnose_run(struct validate_table *table, uint32_t workers, GError **error);
void diagnosis_free(struct diagnosis *diagnosis);

/* As text for a terminal: verdicts, what to check, what to change; most says how many verdicts are shown. */
void diagnosis_text(const struct diagnosis *diagnosis, const struct validate_table *table, uint32_t most, GString *out);

#endif
