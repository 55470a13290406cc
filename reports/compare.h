/* compare.h - compares two records of one case.  The result depends on nothing else.
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
enum compare_error { COMPARE_ERROR_OPTION, COMPARE_ERROR_CASE, COMPARE_ERROR_NOTHING }; /* NOTHING: to compare */

enum { COMPARE_NO_RANK = -2 };

/* One metric of one phase that both records have.  The slowest rank's time is the first of its phase, as "slowest_us".
 * Strings belong to the predicted record. */
struct compare_row {
    const char *phase, *metric, *unit;
    int32_t rank;
    double predicted, measured, error_pct;
    int32_t worst_rank; /* the rank with the largest error, of those that both have; COMPARE_NO_RANK: there is none */
    double worst_error_pct;
};

/* The bottleneck of a phase, from the record.  Names are NULL and numbers NAN if it has none. */
struct compare_limit {
    const char *resource;   /* the bottleneck: nic_tx, nvlink_egress, ... or "latency" */
    const char *part;       /* the part itself: "NIC of rank 0, sending", "leaf0-spine0"; for "latency" the busiest
                           * part */
    double busy_pct;        /* share of the slowest rank's time in which it is busy */
    double bytes, rate_gbs; /* the bytes that cross it in that time, and its rate; NAN: its work is not bytes */
    char bound[64];         /* name of the tightest bound; "" if there is none */
    double bound_us;
    double efficiency_pct; /* the bound over the slowest rank's time; NAN: not known */
};

struct compare {
    const struct record *predicted, *measured;  /* borrowed: must outlive this */
    const char *predicted_name, *measured_name; /* "predicted" and "measured", or "first" and "second" */
    bool swapped;                               /* the second of the given records is the prediction */
    GArray *rows;                               /* struct compare_row; a phase's rows are together */
    GPtrArray *lonely;                          /* phases (char *) that only one of the two has */
};

struct compare_options {
    bool by_rank; /* with the rows of every rank */
    bool force;   /* compare, even if the cases differ */
};

/* NULL and *error if the cases differ (the message lists the keys) or nothing can be compared. */
struct compare *compare_new(const struct record *a, const struct record *b, const struct compare_options *options,
                            GError **error);
void compare_free(struct compare *compare);
/* Whether both are predictions.  Then the second shows the effect of a change. */
bool compare_what_if(const struct compare *compare);
/* The row of a phase's metric for all ranks; NULL if only one record has it. */
const struct compare_row *compare_row_find(const struct compare *compare, const char *phase, const char *metric);
/* The row that decides a phase: the slowest rank's if both records have it, else the mean over ranks, else NULL. */
const struct compare_row *compare_headline(const struct compare *compare, const char *phase);

/* The header keys in which the cases of two records differ, as "key: x against y; ...", or NULL if the cases are
 * equal. A record lists the keys that make its case.  If neither does, the keys that every case has are compared, if
 * both give them.  Two predictions are compared only by their work: placement, cluster, backend or kernel may
 * differ, because these are what is compared.  Freed by the caller. */
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

/* What a layer costs: compare_layer.c.  Times are sums over kernels.  DISPATCH has the kernels up to dispatch
 * (layout, notify), COMBINE the others.  Of kernels that overlap, only their span counts. */
enum compare_half { COMPARE_DISPATCH, COMPARE_COMBINE, COMPARE_HALVES };
struct compare_layer {
    double us[COMPARE_HALVES], longest_us[COMPARE_HALVES];
    const char *longest[COMPARE_HALVES]; /* the longest of these kernels or spans; NULL: there is none */
};
/* other: counts only kernels that this record also has; NULL: counts all.  slowest: see compare_phase_us().  False
 * unless the record has kernels that dispatch and kernels that combine. */
bool compare_layer_find(const struct record *record, const struct record *other, bool slowest,
                        struct compare_layer *layer);
/* What limits such a kernel or span.  A span has no limit of its own, so its first kernel's is taken.  The caller
 * frees the kernel's name. */
char *compare_layer_limit(const struct record *record, const char *phase, struct compare_limit *limit);
/* Adds those kernels of a layer (char *, of the record), without dispatch and combine, that `other` lacks. */
void compare_layer_others(const struct record *record, const struct record *other, GPtrArray *others);

/* Whether a phase is one layer of another phase: dispatch_layer3 of dispatch. */
bool compare_phase_of_layer(const char *phase);

/* Phases of a record in order of first appearance (strings belong to the record; free the array). */
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

/* The first sentence: the time of a layer's dispatch and combine, or else of the longest phase, on the slowest rank,
 * in one record or in two.  For two it counts the kernels that both have, unless both are predictions.  Appends
 * nothing if a record lacks the time. */
void compare_verdict_alone_append(const struct record *record, GString *out);
void compare_verdict_append(const struct compare *compare, GString *out);
/* What bounds the longest kernels of that sentence: "dispatch is bound by NIC of rank 3, sending, 87 % busy, combine
 * by ...". Appends nothing if the record does not say. */
void compare_verdict_bound_append(const struct record *record, GString *out);
/* The second sentence about two predictions: their differences. */
void compare_difference_append(const struct compare *compare, GString *out);
/* For one record: a line for each phase with its time and bottleneck, at most count_max lines. */
void compare_alone_append(const struct record *record, guint count_max, GString *out);
/* The table of a comparison, and the paragraph that names what limits each phase. */
void compare_table_append(const struct compare *compare, GString *out);
void compare_words_append(const struct compare *compare, GString *out);
/* A sentence that says what limits a phase, between `before` and `after`.  Appends nothing if the record does not
 * say. */
void compare_limit_append(const struct record *record, const char *phase, GString *out, const char *before,
                          const char *after);
/* "NIC of rank 0, sending, 97 % busy", "latency", or "-" if the record has none.  The second function gives the reason:
 * "77.4 MB at 46.7 GB/s".  Freed by the caller. */
char *compare_limit_text(const struct compare_limit *limit);
char *compare_limit_work(const struct compare_limit *limit);
/* "1.80 times faster", if the other time is ratio times as long; "the same" for equal times; "-" without a ratio.
 * Freed by the caller. */
char *compare_speedup_text(double ratio);
/* The second value of a row relative to the first: "1.80 times faster" for times, "1.20 times" for bandwidths. */
char *compare_change_text(const struct compare_row *row);
/* "time" and "logical rdma" for "time_us" and "logical_rdma_gbs", because the unit is shown elsewhere.  Freed by the
 * caller. */
char *compare_metric_name(const char *metric);
/* Whether tables show a row.  For a layer they show only times, because the table would otherwise be too long to
 * read. */
bool compare_row_shown(const struct compare_row *row);
/* The subject of a row: "slowest rank", "mean over ranks", "time, rank 3", "logical rdma".  Freed by the caller. */
char *compare_row_name(const struct compare_row *row);
/* Four significant digits and the unit.  Freed by the caller. */
char *compare_value_text(double value, const char *unit);

#endif
