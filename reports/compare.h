/* compare.h - compares two records of one case.  The result depends only on the two records.
 *
 * One of the records is the prediction (kind: simulate), and the other is the measurement (any other kind).  Two
 * records of one kind are compared in the given order, with the second as the reference.  error_pct is (predicted -
 * measured) / measured, so it is negative if the prediction is too low. */
#ifndef REPORTS_COMPARE_H
#define REPORTS_COMPARE_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include "reports/record.h"

#define COMPARE_ERROR (g_quark_from_static_string("eptwin-compare"))
enum compare_error { COMPARE_ERROR_CASE, COMPARE_ERROR_NOTHING }; /* NOTHING: to compare */

enum { COMPARE_NO_RANK = -2 };

/* One metric of one phase that both records have.  A phase's first row is the slowest rank's time, as "slowest_us".
 * Strings belong to the predicted record. */
struct compare_row {
    const char *phase, *metric, *unit;
    int32_t rank;
    double predicted, measured, error_pct;
    int32_t worst_rank; /* of the ranks that both records have, the one with the largest error, or COMPARE_NO_RANK */
    double worst_error_pct;
};

/* The bottleneck of a phase in which no part is busy for long enough, or two kinds of parts are busy for about equally
 * long: a faster part of one kind leaves the time to the others. */
#define COMPARE_NO_PART "no part alone"

/* The bottleneck of a phase, from the record.  Names are NULL and numbers NAN if it has none. */
struct compare_limit {
    const char *resource; /* the bottleneck: nic_tx, nvlink_egress, ..., "latency" or COMPARE_NO_PART */
    const char *part;     /* the part itself: "NIC of rank 0, sending", "leaf0-spine0"; if none is the bottleneck, the
                           * busiest part */
    const char *rival;    /* a part of another kind that is busy for about as long; NULL: none */
    double rival_busy_pct;
    double busy_pct;        /* share of the slowest rank's time in which the part is busy */
    double bytes, rate_gbs; /* the bytes that cross the part in that time, and its rate; NAN: its work is not bytes */
    char bound[64];         /* name of the tightest bound; "" if there is none */
    double bound_us;
    double efficiency_pct; /* bound_us over the slowest rank's time; NAN: not known */
};

struct compare {
    const struct record *predicted, *measured;  /* borrowed: they must outlive this struct */
    const char *predicted_name, *measured_name; /* "predicted" and "measured", or "first" and "second" */
    bool swapped;                               /* the second of the given records is the prediction */
    GArray *rows;                               /* struct compare_row; a phase's rows are together */
    GPtrArray *lonely;                          /* phases (char *) that only one of the records has */
};

struct compare_options {
    bool by_rank; /* compare the rows of every rank, too */
    bool force;   /* compare, even if the cases differ */
};

/* Compares two records.  NULL and *error if their cases differ (the message lists the keys) or they share no row. */
struct compare *compare_new(const struct record *a, const struct record *b, const struct compare_options *options,
                            GError **error);
void compare_free(struct compare *compare);
/* Whether both records are predictions.  Then the second shows the effect of a change. */
bool compare_what_if(const struct compare *compare);
/* The row of a phase's metric for all ranks; NULL if only one record has it. */
const struct compare_row *compare_row_find(const struct compare *compare, const char *phase, const char *metric);
/* The row that decides a phase: the slowest rank's if both records have it, else the mean over ranks, else NULL. */
const struct compare_row *compare_headline(const struct compare *compare, const char *phase);

/* The header keys in which the cases of two records differ, as "key: x against y; ...", or NULL if the cases are equal.
 * A record lists the keys that make its case.  If neither record does, the keys that every case has are compared if
 * both records give them.  Of two predictions only the keys of the work are compared: they may differ in placement,
 * cluster, backend or kernel, because these are what the comparison is about.  Freed by the caller. */
char *compare_case_difference(const struct record *a, const struct record *b);
/* The differences in everything that makes a prediction: settings, placement, machine.  NULL: nothing differs. */
char *compare_settings_difference(const struct record *a, const struct record *b);
/* A key's value.  A file's name is given without its folders, which may differ between machines: "file:a/b" becomes
 * "file:b". Other names keep their "/".  Freed by the caller. */
char *compare_value_plain(const char *key, const char *value);
bool compare_record_predicted(const struct record *record);

/* The time of a phase on its slowest rank, for which all others wait ("slowest_us").  For several steps and layers
 * it is the mean of their slowest ranks' times.  NAN: the record does not say. */
double compare_slowest_us(const struct record *record, const char *phase);

/* A phase's time on all ranks: the slowest rank's, or the mean.  NAN: the record does not say. */
double compare_phase_us(const struct record *record, const char *phase, bool slowest);

/* The time of a layer's dispatch and combine (compare_layer.c), as sums over kernels.  DISPATCH has the kernels up to
 * dispatch (layout, notify), COMBINE the others.  Of kernels that overlap, only their span counts. */
enum compare_half { COMPARE_DISPATCH, COMPARE_COMBINE, COMPARE_HALVES };
struct compare_layer {
    double us[COMPARE_HALVES], longest_us[COMPARE_HALVES];
    const char *longest[COMPARE_HALVES]; /* the longest kernel or span of the half; NULL: there is none */
};
/* Adds up the layer.  other: only kernels that this record also has count; NULL: all count.  slowest: see
 * compare_phase_us().  False unless the record has kernels that dispatch and kernels that combine. */
bool compare_layer_find(const struct record *record, const struct record *other, bool slowest,
                        struct compare_layer *layer);
/* Whether a phase's time is one of those that the sums consist of; *half gets in which. */
bool compare_layer_has(const struct record *record, const char *phase, enum compare_half *half);
/* Sets *limit to what limits a kernel or span of a layer, and returns the kernel's name, which the caller frees.  A
 * span has no limit of its own, so its first kernel's is taken. */
char *compare_layer_limit(const struct record *record, const char *phase, struct compare_limit *limit);
/* Adds to `others` the names of the layer's kernels, except dispatch and combine.  other: only kernels that this record
 * also has; NULL: all.  The names (char *) belong to `record`. */
void compare_layer_others(const struct record *record, const struct record *other, GPtrArray *others);

/* Whether a phase is one layer of another phase: dispatch_layer3 of dispatch. */
bool compare_phase_of_layer(const char *phase);

/* The phases of a record in order of first appearance (strings belong to the record; free the array). */
GPtrArray *compare_phases(const struct record *record);
void compare_limit_find(const struct record *record, const char *phase, struct compare_limit *limit);

/* A summary of a set of errors. */
struct compare_spread {
    uint32_t count;
    double median_pct, p90_pct, worst_pct; /* of absolute errors */
    double bias_pct;                       /* mean of the signed errors */
    uint32_t worst_index;
};
void compare_spread_find(const double *error_pct, uint32_t count, struct compare_spread *spread);

/* Appends the first sentence, about one record or two: the time on the slowest rank of a layer's dispatch and combine,
 * or else of the longest phase.  Of two records it counts the kernels that both have, unless both are predictions.
 * Appends nothing if a record lacks the time. */
void compare_verdict_alone_append(const struct record *record, GString *out);
void compare_verdict_append(const struct compare *compare, GString *out);
/* Appends the bottlenecks of the longest kernels of the first sentence: "dispatch is bound by NIC of rank 3, sending,
 * 87 % busy, combine by ...".  Appends nothing if the record does not say. */
void compare_verdict_bound_append(const struct record *record, GString *out);
/* Appends the second sentence about two predictions: in what they differ. */
void compare_difference_append(const struct compare *compare, GString *out);
/* Appends, for one record, a line for each phase with its time and bottleneck, at most count_max lines. */
void compare_alone_append(const struct record *record, guint count_max, GString *out);
/* These append the table of a comparison, and the paragraph that names what limits each phase. */
void compare_table_append(const struct compare *compare, GString *out);
void compare_words_append(const struct compare *compare, GString *out);
/* Appends what limits a phase, between `before` and `after`.  Appends nothing if the record does not say. */
void compare_limit_append(const struct record *record, const char *phase, GString *out, const char *before,
                          const char *after);
/* Whether no part is the bottleneck, but latency or COMPARE_NO_PART. */
bool compare_limit_waits(const struct compare_limit *limit);
/* The bottleneck in words: "NIC of rank 0, sending, 97 % busy", "latency", COMPARE_NO_PART, or "-" if there is none.
 * Freed by the caller. */
char *compare_limit_text(const struct compare_limit *limit);
/* The bottleneck's work: "77.4 MB at 46.7 GB/s"; if no part is the bottleneck, the work of the busiest part; "" if
 * neither is known. Freed by the caller. */
char *compare_limit_work(const struct compare_limit *limit);
/* "1.80 times faster", if the other time is 1.80 times as long (ratio 1.8); "the same" for equal times; "-" if ratio is
 * not known.  Freed by the caller. */
char *compare_speedup_text(double ratio);
/* The second value of a row relative to the first: "1.80 times faster" for times, "1.20 times" for bandwidths. */
char *compare_change_text(const struct compare_row *row);
/* The metric's name in words without its unit: "time" for "time_us", "logical rdma" for "logical_rdma_gbs".  Freed by
 * the caller. */
char *compare_metric_name(const char *metric);
/* Whether tables show the row.  Of phases of a single layer they show only times, so that they are not too long. */
bool compare_row_shown(const struct compare_row *row);
/* The subject of a row: "slowest rank", "mean over ranks", "time, rank 3", "logical rdma".  Freed by the caller. */
char *compare_row_name(const struct compare_row *row);
/* Four significant digits and the unit.  Freed by the caller. */
char *compare_value_text(double value, const char *unit);

#endif
