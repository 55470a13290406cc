/* explain.h - splits the time of communication kernels in a profile into parts.
 *
 *     launch      time before the kernel in which the GPU was idle, because the host had not launched the kernel
 *     wire        the predicted time of the kernel alone, when all ranks start it together; for a kernel that is not
 *                 predicted (NCCL's, or another than the case's), its shortest call in these profiles, if they have at
 *                 least four
 *     waiting     time until a later rank came; it is seen if that rank's profile is there, else inferred
 *     imbalance   time that the routing adds to the wire's time on this rank, as predicted (needs the routing)
 *     contention  time that kernels beside this one add, at most as much as was measured for such kernels
 *     unknown     the remaining time
 *
 * The parts of a call are never negative and add up to its time and the gap before it.  Private to explain-trace. */
#ifndef MODELS_PREDICT_EXPLAIN_H
#define MODELS_PREDICT_EXPLAIN_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include "reports/import/profile.h"
#include "reports/record.h"

enum explain_part {
    EXPLAIN_WIRE,
    EXPLAIN_WAITING,
    EXPLAIN_CONTENTION,
    EXPLAIN_IMBALANCE,
    EXPLAIN_LAUNCH,
    EXPLAIN_UNKNOWN,
    EXPLAIN_PARTS
};
const char *explain_part_name(enum explain_part part);

/* What kind of kernel runs at the same time as a communication kernel, judged by its name. */
enum explain_beside { BESIDE_COPY, BESIDE_GROUPED_GEMM, BESIDE_GEMM, BESIDE_OTHER, BESIDES };
const char *explain_beside_name(enum explain_beside beside);

/* Why a rank was late: between the previous call and this one it had more work or more idle time than others.
 * LATE_UNSEEN: the profiles do not show why. */
enum explain_late { LATE_UNSEEN, LATE_WORK, LATE_IDLE, LATES };

struct explain_rank {
    struct profile *profile; /* owned */
    GArray *calls;           /* struct profile_call */
    int64_t *reach_ns;       /* [kernels] the latest end of all kernels up to this one */
    int32_t rank;
    int64_t offset_ns; /* added to this rank's clock, it gives the first rank's */
};

struct explain_call {
    uint32_t rank, call; /* an index of explain->ranks, and an index of that rank's calls */
    double us[EXPLAIN_PARTS];
    double beyond_us;  /* by how much the predicted wire is longer than the kernel; 0: it is not */
    int32_t late_rank; /* the last rank to come, for which the call waited; -1: none, or not known */
    enum explain_late why;
    enum explain_beside beside; /* the kind of kernel that ran longest at the same time */
    double beside_us;
};

/* Predicted times of the case, as rows "time_us" of phases. */
struct explain_wire {
    const struct record *plain, *cached; /* cached: for dispatches with a handle; may be NULL */
    struct record *const *loaded;        /* [layers] times of each rank with the layer's routing; NULL: no routing */
    uint32_t layers;
};

struct explain {
    GArray *ranks;           /* struct explain_rank */
    GArray *calls;           /* struct explain_call, once explain_split() has run */
    uint32_t world;          /* ranks of the case; if there are more than ranks->len, some were not recorded */
    uint32_t numbers;        /* the largest number of a recorded rank, plus 1 */
    const char *kernel;      /* eptwin's kernel whose wire is predicted; NULL: none */
    uint32_t ranks_per_node; /* 0: not known, taken as one node */
    bool aligned;            /* the ranks' clocks differed and were aligned by the ends of kernels */
};

/* Takes profiles (struct profile, one for each rank).  NULL and *error if two are of one rank, or if none has
 * communication kernels. */
struct explain *explain_new(GPtrArray *profiles, GError **error);
void explain_free(struct explain *e);
/* Says how many ranks the case has, in place of what the profiles say.  False and *error if more are recorded. */
bool explain_ranks_set(struct explain *e, uint32_t ranks, GError **error);
/* Splits all calls. */
void explain_split(struct explain *e, const struct explain_wire *wire);

/* Sums the parts over the calls of a phase, layer and rank.  NULL or -1 stands for all phases, layers or ranks.
 * Returns the sum of all parts. */
double explain_sum(const struct explain *e, const char *phase, int64_t layer, int64_t rank, double us[EXPLAIN_PARTS]);
/* The phases in the order of their first calls.  Free the array, not the names. */
GPtrArray *explain_phases(const struct explain *e);
/* Returns an array [numbers]: how long calls waited for each rank.  Free it.  why_us gets how long ranks were late, for
 * each reason. */
double *explain_waited_for(const struct explain *e, double why_us[LATES]);
/* Adds rows of the split by phase, layer and rank. */
void explain_record(const struct explain *e, struct record *record);
/* Appends the split in words.  hint: a sentence to add, or NULL. */
void explain_text(const struct explain *e, const char *hint, GString *out);

#endif
