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

enum { COMPARE_NO_RANK = -2 };

/* One metric of one phase that both records have.  A phase's first row is the slowest rank's time, as "slowest_us".
 * Strings belong to the predicted record. */
struct compare_row {
    const char *phase, *metric, *unit;
    int32_t rank;
    bool whole;   /* the phase's time is not one of ranks: compare_over_ranks() */
    bool of_step; /* a slowest_us that is the longest of such kernels of a step, and no rank's time */
    double predicted, measured, error_pct;
    int32_t worst_rank; /* the rank in both records with the largest error, or COMPARE_NO_RANK */
    double worst_error_pct;
};

/* The names of a phase's bottleneck if a faster part would not shorten the phase.  No part is busy for long enough, or
 * parts of two kinds are busy for about equally long, or stores hardly wait for the busiest one; or none is busy for
 * even a quarter, because steps follow one another, because the slowest rank runs for most of its time before the last
 * one begins, because its kernel was launched before the previous one had ended, and waits for that end, or because it
 * waits for ranks that it then masks. */
#define COMPARE_NO_PART "no single part"
#define COMPARE_STEPS   "steps and latencies"
#define COMPARE_LATE    "ranks that begin late"
#define COMPARE_BEFORE  "the kernel before it"
#define COMPARE_TIMEOUT "the timeout of ranks that do not answer"

/* The bottleneck of a phase, from the record.  Names are NULL and numbers NAN if it has none. */
struct compare_limit {
    const char *resource; /* the bottleneck: nic_tx, nvlink_egress, ..., or one of the names above */
    const char *part;     /* the part itself, such as "NIC of rank 0, sending" or "leaf0-spine0"; without a bottleneck,
                           * the busiest part */
    const char *rival;    /* a part of another kind that is busy for about as long; NULL: none */
    double rival_busy_pct;
    double busy_pct;        /* share of the slowest rank's time in which the part is busy */
    double bytes, rate_gbs; /* bytes that cross the part in the slowest rank's time, and the part's rate; NAN: its work
                             * is not bytes */
    char bound[64];         /* name of the tightest bound; "" if there is none */
    double bound_us;
    double efficiency_pct; /* bound_us in percent of the slowest rank's time; NAN: not known */
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
/* Whether both records are predictions, or both measurements.  Then the second shows the effect of a change. */
bool compare_what_if(const struct compare *compare);
/* The row of a phase's metric for all ranks; NULL if only one record has it. */
const struct compare_row *compare_row_find(const struct compare *compare, const char *phase, const char *metric);
/* The row that decides a phase: the slowest rank's if both records have it, else the mean over ranks, else NULL. */
const struct compare_row *compare_headline(const struct compare *compare, const char *phase);

/* The header keys in which the cases of two records differ, as "key: x against y; ...", or NULL if the cases are
 * equal.  A record lists the keys that make its case.  If neither record lists them, the keys that every case has are
 * compared where both records give them.  Of two predictions, only the keys of the work are compared.  Their placement,
 * cluster, backend and kernel may differ, because the comparison is about these.  Freed by the caller. */
char *compare_case_difference(const struct record *a, const struct record *b);
/* The header keys in which two predictions differ, in the form of compare_case_difference().  Compares the keys of
 * work, settings, placement and machine.  NULL: no key differs. */
char *compare_settings_difference(const struct record *a, const struct record *b);
/* A key's value.  A file's name is given without its folders, which may differ between machines: "file:a/b" becomes
 * "file:b".  Values that are not files keep their "/".  Freed by the caller. */
char *compare_value_plain(const char *key, const char *value);
bool compare_record_predicted(const struct record *record);

/* Whether the phase's times are those of ranks.  A whole step has one time, and an operation that was measured has
 * those of repetitions. */
bool compare_over_ranks(const struct record *record, const char *phase);

/* The time of a phase on its slowest rank, for which all others wait ("slowest_us").  For several steps and layers
 * it is the mean of their slowest ranks' times.  NAN: the record does not say. */
double compare_slowest_us(const struct record *record, const char *phase);

/* A phase's time: that of the slowest rank if `slowest`, else the mean over ranks.  NAN: the record does not say. */
double compare_phase_us(const struct record *record, const char *phase, bool slowest);

/* The time of a layer's dispatch and combine (compare_layer.c), as sums over kernels.  COMPARE_COMBINE sums the kernels
 * with "combine" in their names, and COMPARE_DISPATCH the others (layout, notify, dispatch).  If kernels overlap, the
 * time of their span is counted instead of their own times. */
enum compare_half { COMPARE_DISPATCH, COMPARE_COMBINE, COMPARE_HALVES };
struct compare_layer {
    double us[COMPARE_HALVES], longest_us[COMPARE_HALVES];
    const char *longest[COMPARE_HALVES]; /* the longest kernel or span of the half; NULL: there is none */
};
/* Adds up the layer's times. other: a second record; only kernels in both records count (NULL: all count). slowest: see
 * compare_phase_us().  False unless the record has a kernel of dispatch and a kernel of combine. */
bool compare_layer_find(const struct record *record, const struct record *other, bool slowest,
                        struct compare_layer *layer);
/* Whether the layer's sums include the phase's time.  Sets *half to the sum that includes it. */
bool compare_layer_has(const struct record *record, const char *phase, enum compare_half *half);
/* Sets *limit to what limits a kernel or a span of kernels, and returns the kernel's name, which the caller frees.  A
 * span has no limit of its own, so the limit of a kernel is taken: of dispatch for dispatch_span. */
char *compare_layer_limit(const struct record *record, const char *phase, struct compare_limit *limit);
/* Adds to `others` the names of the layer's kernels, except dispatch and combine. other: a second record; only kernels
 * in both records are added (NULL: all are).  The names (char *) belong to `record`. */
void compare_layer_others(const struct record *record, const struct record *other, GPtrArray *others);

/* Whether a phase is one layer of another phase, as dispatch_layer3 is of dispatch. */
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

/* Appends the first sentence about one record or two.  For a step it gives the step's time.  Otherwise it gives the
 * slowest rank's time for a layer's dispatch and combine or, if a record lacks one of these, for the longest phase.  Of
 * two records it counts only kernels that both have, unless both are predictions.  Appends nothing if a record lacks
 * the time, or for a single record of measure. */
void compare_verdict_alone_append(const struct record *record, GString *out);
void compare_verdict_append(const struct compare *compare, GString *out);
/* Appends what bounds the longest kernels in the first sentence: "dispatch is bound by NIC of rank 3, sending, 87 %
 * busy (4.021 MB at 46.7 GB/s), combine by ...".  Appends nothing if the record does not say. */
void compare_verdict_bound_append(const struct record *record, GString *out);
/* Whether compare_verdict_bound_append() says what bounds the phase. */
bool compare_verdict_bounds(const struct record *record, const char *phase);
/* Appends the second sentence about two predictions, which says in what they differ. */
void compare_difference_append(const struct compare *compare, GString *out);
/* Appends a line with time and bottleneck for each of the record's first count_max phases, without single layers and
 * phases that have neither bottleneck nor bound. rest: also leaves out phases whose bottleneck the verdict says
 * (compare_verdict_bounds()). */
void compare_alone_append(const struct record *record, bool rest, guint count_max, GString *out);
/* These append the table of a comparison, and the paragraph that names what limits each phase.  page: leaves out
 * bottlenecks that the verdict says (compare_verdict_bounds()).  The table names those of two predictions. */
void compare_table_append(const struct compare *compare, GString *out);
void compare_words_append(const struct compare *compare, bool page, GString *out);
/* Appends what limits a phase, between `before` and `after`.  Appends nothing if the record does not say. */
void compare_limit_append(const struct record *record, const char *phase, GString *out, const char *before,
                          const char *after);
/* Whether the bottleneck is not a part but one of the names above. */
bool compare_limit_waits(const struct compare_limit *limit);
/* The bottleneck in words: "NIC of rank 0, sending, 97 % busy", COMPARE_STEPS, COMPARE_NO_PART, or "-" if there is
 * none. Freed by the caller. */
char *compare_limit_text(const struct compare_limit *limit);
/* "the " where a sentence needs it before these words; otherwise "". */
const char *compare_limit_article(const struct compare_limit *limit);
/* The bottleneck's work, such as "77.4 MB at 46.7 GB/s".  If no part is the bottleneck, it is the busiest part's work.
 * "" if the work is not known.  Freed by the caller. */
char *compare_limit_work(const struct compare_limit *limit);
/* A ratio of times in words: "1.80 times faster" for 1.8, "1.80 times slower" for 1 / 1.8, "the same" for about 1, and
 * "-" if the ratio is not known.  Freed by the caller. */
char *compare_speedup_text(double ratio);
/* The second value of a row relative to the first: "1.80 times faster" for times, "1.20 times" for bandwidths. */
char *compare_change_text(const struct compare_row *row);
/* Whether the metric is of a part that is busy.  Rates of parts explain results, but are not results. */
bool compare_metric_of_part(const char *metric);
/* The metric's name in words without its unit: "time" for "time_us", "logical rdma" for "logical_rdma_gbs".  Freed by
 * the caller. */
char *compare_metric_name(const char *metric);
/* Whether tables show the row.  Of phases of a single layer they show only times, so that they are not too long. */
bool compare_row_shown(const struct compare_row *row);
/* The subject of a row: "slowest rank", "mean over ranks", "time, rank 3", "logical rdma".  Freed by the caller. */
char *compare_row_name(const struct compare_row *row);
/* The value in four digits, or more from 10000 on, and its unit; "-" if the value is not known.  Freed by the
 * caller. */
char *compare_value_text(double value, const char *unit);

#endif
