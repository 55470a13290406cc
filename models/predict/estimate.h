/* estimate.h - how long predictions will take on this machine, and how much memory, before they run.
 *
 * How many events and bytes a case's tokens, ranks and pairs come to is known by kernel, from runs of this program (the
 * table in estimate.c).  By how much the events are off, and how long one takes here, a pilot says: the same case with
 * fewer ranks and tokens, simulated in a fraction of a second.  Only work of more than a few seconds gets one. */
#ifndef MODELS_PREDICT_ESTIMATE_H
#define MODELS_PREDICT_ESTIMATE_H

#include <stdbool.h>
#include "models/case.h"
#include "models/cluster.h"

/* Of one prediction, or summed over many. */
struct estimate {
    double events;  /* that the engine runs */
    double bytes;   /* of memory: of sums, the most of one */
    double seconds; /* of one core */
    uint64_t predictions;
    bool tried; /* seconds are a pilot's */
};

/* One prediction's, by the table alone; load NULL: as the options say, which know no trace's shape. */
struct estimate estimate_case(const struct case_options *c, const struct case_load *load);

/* Whether the work is worth a pilot: the table estimates half of the time that would be printed, or more. */
bool estimate_worth(const struct estimate *work);
/* Puts what a pilot of this case, the work's largest, says in place of the table's constants.  False where no pilot can
 * be, because the numbers of ranks and tokens are a file's, and the work is left as it was.  load as above. */
bool estimate_pilot(struct estimate *work, const struct case_options *c, const struct case_load *load,
                    const struct cluster *cluster);

/* Work of many predictions, of which the largest is the pilot's.  Begins as { 0 }. */
struct estimate_many {
    struct estimate sum, most;
    struct case_options largest, last; /* last: of a trace, whose shape is read once */
    struct estimate of_last;
    const struct cluster *cluster; /* the largest's, borrowed */
};
/* Adds count predictions of a case on a cluster. */
void estimate_many_add(struct estimate_many *many, const struct case_options *c, const struct cluster *cluster,
                       uint32_t count);
/* estimate_print() of all, after a pilot where that is worth it; then the sum is empty again. */
void estimate_many_print(struct estimate_many *many, const char *command, uint32_t threads);

/* Prints "eptwin COMMAND: about 25 s and 1.2 GB of memory" to standard error where that is long or much, and returns
 * whether it is.  threads share the work. */
bool estimate_print(const char *command, const struct estimate *work, uint32_t threads);

#endif
