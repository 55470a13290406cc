/* estimate.h - how long predictions will take on this machine, and how much memory, before they run.
 *
 * A table (estimate.c), fitted to runs of this program, says for each kernel how many events and bytes each token, rank
 * and pair of ranks adds.  A pilot corrects the table: it is the same case with fewer ranks and tokens.  The pilot
 * takes a fraction of a second, and shows how far the number of events is off and how long an event takes on this
 * machine. Only work of more than a few seconds gets a pilot. */
#ifndef MODELS_PREDICT_ESTIMATE_H
#define MODELS_PREDICT_ESTIMATE_H

#include <stdbool.h>
#include "models/case.h"
#include "models/cluster.h"

/* The cost of one prediction, or the sum over many. */
struct estimate {
    double events;  /* events that the engine will run */
    double bytes;   /* bytes of memory; the largest number of any of the predictions */
    double seconds; /* time of one core */
    uint64_t predictions;
    bool tried; /* a pilot has measured the seconds */
};

/* The cost of one prediction by the table, without a pilot.  load NULL: ranks and tokens follow from the options.
 * Options do not tell the ranks and tokens of a trace, so a case with a trace needs its load. */
struct estimate estimate_case(const struct case_options *c, const struct case_load *load);

/* Whether the work is long enough to use all cores: it needs 2.5 s by its number of events, or 250 MB. */
bool estimate_long(const struct estimate *work);
/* Whether the work is worth a pilot.  It is if it needs half of the shortest time that is printed, by its number of
 * events, because a pilot may correct this number.  It also is if it needs 500 MB, the least memory that is printed;
 * this limit is not halved, because a pilot does not correct the memory. */
bool estimate_worth(const struct estimate *work);
/* Runs a pilot of case c, which must be the largest of the work, and corrects the estimate by it.  Returns false, and
 * leaves the estimate unchanged, if a matrix, a list by rank or a trace on standard input gives the tokens, or if the
 * pilot cannot be simulated.  load: see estimate_case(). */
bool estimate_pilot(struct estimate *work, const struct case_options *c, const struct case_load *load,
                    const struct cluster *cluster);

/* The sum over many predictions.  The largest of them becomes the pilot.  Begins as { 0 }. */
struct estimate_many {
    struct estimate sum, most;
    struct case_options largest, last; /* last: the last case of a trace, so that the trace's shape is read once */
    struct estimate of_last;
    const struct cluster *cluster; /* the cluster of the largest prediction, not owned */
};
/* Adds count predictions of a case on a cluster. */
void estimate_many_add(struct estimate_many *many, const struct case_options *c, const struct cluster *cluster,
                       uint32_t count);
/* Prints the sum with estimate_print(), after a pilot if the work is worth one.  Then `many` is empty again. */
void estimate_many_print(struct estimate_many *many, const char *command, uint32_t threads);

/* Prints "eptwin COMMAND: about 25 s and 1.2 GB of memory" to standard error if the work is long enough, and returns
 * whether it did.  `threads` threads share the work.  On a terminal, the work is long enough if all threads together
 * need half a gigabyte or 5 s.  In a log, it is long enough if one prediction needs half a gigabyte, or if all need a
 * minute of one core.  These limits compare the seconds that a common core needs for the events, so what a log says
 * depends neither on the number of cores nor on how busy they are. */
bool estimate_print(const char *command, const struct estimate *work, uint32_t threads);

#endif
