/* fit_cluster.c - a table that says which measured rows become which key of a cluster file, and the code that applies
 * it.
 *
 * A key is made of a header's count, of one row, or of the rows METRIC_BYTES of one operation: a coefficient of a line
 * through these rows, or a value at each size.  Costs of CPUs are fitted from CPU times.  If a phase was measured on
 * several numbers of ranks at once (PHASE_xN), the rows of the largest N are preferred.  Such a crowd is as busy as the
 * ranks of a replay: they share CPUs in turns, and drive each other's data out of caches.  Rows of data that pass
 * between ranks are preferred even to the rows of a crowd, because data that a peer has just written or read cost more
 * than a rank's own.  The speed of a link shows only in streams that wait for the link.  Other streams show how fast
 * the CPU posts.  Knows the names of keys and rows; knows no simulation and no file. */
#include "reports/fit_cluster.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reports/fit.h"
#include "reports/fit_puts.h"
#include "sim/error.h"
#include "sim/stats.h"

enum fit_kind {
    FIT_COUNT,       /* a header key's whole number */
    FIT_TIME,        /* one row: a time */
    FIT_FIXED,       /* rows by size: the cost of an operation without its bytes */
    FIT_RATE,        /* rows by size: the rate of an operation's bytes */
    FIT_POLL,        /* one row: a signal's time through shared memory, minus the time of the key `step` */
    FIT_LATENCY,     /* one row: a signal's time over the link, minus the CPU times of both ends */
    FIT_INTERRUPT,   /* rows by size: the extra cost of a put that is posted alone */
    FIT_PUT,         /* rows by size: the cost of a put without a doorbell, at each size */
    FIT_LINK_FIXED,  /* rows by size: the time of streams that wait for the link, without the time of their bytes */
    FIT_LINK_RATE,   /* rows by size: bytes over time, between the two longest streams that wait for the link */
    FIT_LINK_SIGNAL, /* one row: the extra cost of a signal on the link */
    FIT_LOOP,        /* rows by bytes touched: the cost of an operation at each size; older records lack these rows */
};

struct fit_key {
    const char *section, *name;
    enum fit_kind kind;
    const char *phase, *metric; /* phase: of one rank or pair; metric: without _BYTES, or FIT_COUNT's header key */
    const char *crowd_phase;    /* the phase of many ranks, without _xN; NULL: only `phase` is measured */
    const char *handed_phase;   /* the preferred phase, whose data pass between ranks; NULL: there is none */
    uint32_t ends;              /* ends whose CPU time is in a crowd's time: 2 for a put, else 1 */
};

/* The keys in the order of the file. [host] is always written, and another section if the record has the rows of its
 * first key.  The record must have the rows of all keys in a section that is written, except those of FIT_LOOP. */
static const struct fit_key fit_keys[] = {
    { "host", "cores", FIT_COUNT, "", "cpus", NULL, NULL, 1 },
    { "host", "step", FIT_TIME, "step", "time_us", NULL, NULL, 1 },
    { "host", "poll", FIT_POLL, "store_signal", "latency_us", NULL, NULL, 1 },
    { "host", "progress", FIT_TIME, "poll", "time_us", NULL, NULL, 1 },
    { "host", "switch", FIT_TIME, "switch", "time_us", NULL, NULL, 1 },
    { "host", "slice", FIT_TIME, "slice", "time_us", NULL, NULL, 1 },
    { "host", "store", FIT_FIXED, "store", "cpu_us", "store_alltoall", "store_read", 1 },
    { "host", "store-rate", FIT_RATE, "store", "cpu_us", "store_alltoall", "store_read", 1 },
    { "host", "interrupt", FIT_INTERRUPT, "put", "cpu_us", "put_load", NULL, 1 },
    { "host", "put", FIT_PUT, "put", "cpu_us", "put_load", NULL, 2 },
    { "host", "signal", FIT_TIME, "signal", "cpu_us", "signal_load", NULL, 2 },
    { "host", "copy-row", FIT_FIXED, "copy", "cpu_us", "copy", "copy_written", 1 },
    { "host", "copy-rate", FIT_RATE, "copy", "cpu_us", "copy", "copy_written", 1 },
    { "host", "cast-row", FIT_FIXED, "cast", "cpu_us", "cast", NULL, 1 },
    { "host", "cast-rate", FIT_RATE, "cast", "cpu_us", "cast", NULL, 1 },
    { "host", "reduce-row", FIT_FIXED, "reduce", "cpu_us", "reduce", "reduce_written", 1 },
    { "host", "reduce-rate", FIT_RATE, "reduce", "cpu_us", "reduce", "reduce_written", 1 },
    { "host", "sum-row", FIT_FIXED, "sum", "cpu_us", "sum", "sum_written", 1 },
    { "host", "sum-rate", FIT_RATE, "sum", "cpu_us", "sum", "sum_written", 1 },
    { "host", "scan-rate", FIT_RATE, "scan", "cpu_us", "scan", NULL, 1 },
    { "host", "loop-cast", FIT_LOOP, "", "cast_us", "loop", NULL, 1 },
    { "host", "loop-message", FIT_LOOP, "", "message_us", "loop", NULL, 1 },
    { "host", "loop-copy", FIT_LOOP, "", "copy_us", "loop", NULL, 1 },
    { "host", "loop-store", FIT_LOOP, "", "store_us", "loop", NULL, 1 },
    { "host", "loop-reduce", FIT_LOOP, "", "reduce_us", "loop", NULL, 1 },
    { "nic", "rate", FIT_LINK_RATE, "put", "stream_us", NULL, NULL, 1 },
    { "nic", "message", FIT_LINK_FIXED, "put", "stream_us", NULL, NULL, 1 },
    { "nic", "signal", FIT_LINK_SIGNAL, "signal", "stream_us", NULL, NULL, 1 },
    { "network", "latency", FIT_LATENCY, "signal", "latency_us", NULL, NULL, 1 },
};

/* FIT_RATE_GBS_MAX stands for an infinite rate, because a file needs a finite number.  A cost too small to be measured
 * gives such a rate. */
enum { FIT_RATE_GBS_MAX = 100000, FIT_DOUBT_PCT = 25 };
static const double FIT_WAITS = 1.5; /* a stream waits for the link if it takes more than this many times its CPU
                                      * time */

struct fit_work {
    const struct record *record;
    const char *path;
    GKeyFile *file;
    double value[G_N_ELEMENTS(fit_keys)]; /* us, GB/s, or a count */
    struct fit_curve put, loop;           /* of FIT_PUT and FIT_LOOP; put: the CPU time of one end */
    GString *doubts;                      /* the rates (FIT_RATE) whose rows lie far from their line; or NULL */
};

/* Where a key's rows are: the phase's name, and how many ranks ran the phase at once. */
struct fit_place {
    char phase[64];
    const char *metric;
    uint32_t ranks; /* the size of the crowd; 0: the phase is of one rank or a pair */
};

static bool fit_by_size(enum fit_kind kind)
{
    return kind == FIT_FIXED || kind == FIT_RATE || kind == FIT_INTERRUPT || kind == FIT_PUT ||
           kind == FIT_LINK_FIXED || kind == FIT_LINK_RATE || kind == FIT_LOOP;
}

/* Whether the row has this metric.  If by_size, its metric must be METRIC_BYTES, and *size_bytes gets the size. */
static bool fit_metric_matches(const struct record_row *row, const char *metric, bool by_size, double *size_bytes)
{
    guint64 size;
    const size_t length = strlen(metric);
    if (!by_size) return strcmp(row->metric, metric) == 0;
    if (strncmp(row->metric, metric, length) != 0 || row->metric[length] != '_') return false;
    if (!g_ascii_string_to_unsigned(row->metric + length + 1, 10, 1, G_MAXINT32, &size, NULL)) return false;
    *size_bytes = (double)size;
    return true;
}

static bool fit_row_of(const struct record_row *row, const struct fit_key *key, const struct fit_place *place,
                       double *size_bytes)
{
    return row->rank == RECORD_ALL && strcmp(row->phase, place->phase) == 0 &&
           fit_metric_matches(row, place->metric, fit_by_size(key->kind), size_bytes);
}

/* The N of a phase named base_xN; 0 for other names. */
static uint32_t fit_crowd_ranks(const char *phase, const char *base)
{
    guint64 ranks;
    if (!base || !g_str_has_prefix(phase, base) || !g_str_has_prefix(phase + strlen(base), "_x")) return 0;
    return g_ascii_string_to_unsigned(phase + strlen(base) + 2, 10, 2, 65535, &ranks, NULL) ? (uint32_t)ranks : 0;
}

/* Finds where the key's metric was measured: of the phases `crowd`_xN, in which N ranks ran at once, the one with the
 * largest N.  If none of them has the metric, the phase `alone`, which one rank or one pair ran. */
static bool fit_place_named(const struct record *record, const struct fit_key *key, const char *crowd,
                            const char *alone, struct fit_place *place)
{
    bool found = false;
    *place = (struct fit_place){ .ranks = 0 };
    for (uint32_t i = 0; i < record_row_count(record); i++) {
        const struct record_row *row = record_row(record, i);
        const uint32_t ranks = fit_crowd_ranks(row->phase, crowd);
        double size_bytes;
        if (row->rank != RECORD_ALL || (ranks == 0 && g_strcmp0(row->phase, alone) != 0)) continue;
        if (found && ranks <= place->ranks) continue;
        if (!fit_metric_matches(row, key->metric, fit_by_size(key->kind), &size_bytes)) continue;
        found = true;
        place->ranks = ranks;
        place->metric = key->metric;
        g_strlcpy(place->phase, row->phase, sizeof place->phase);
    }
    return found;
}

/* Finds where a key's rows are.  Prefers rows of data that pass between ranks, as a kernel's data do. */
static bool fit_place_find(const struct record *record, const struct fit_key *key, struct fit_place *place)
{
    if (key->handed_phase && fit_place_named(record, key, key->handed_phase, NULL, place)) return true;
    return fit_place_named(record, key, key->crowd_phase, key->phase, place);
}

static bool fit_key_present(const struct record *record, const struct fit_key *key)
{
    struct fit_place place;
    return key->kind == FIT_COUNT ? record_get(record, key->metric) != NULL : fit_place_find(record, key, &place);
}

/* The row's value in us. */
static bool fit_row_value(const struct fit_work *work, const struct record_row *row, double *value, GError **error)
{
    static const struct {
        const char *unit;
        double factor;
    } units[] = { { "us", 1 }, { "ns", 1e-3 }, { "ms", 1e3 } };
    for (size_t i = 0; i < G_N_ELEMENTS(units); i++) {
        if (strcmp(row->unit, units[i].unit) != 0) continue;
        *value = row->value * units[i].factor;
        if (*value >= 0) return true; /* NAN is refused, too */
        return error_input(error, "%s: %s,all,%s: expected a value of at least 0, found %s", work->path, row->phase,
                           row->metric, record_row_text(row));
    }
    return error_input(error, "%s: %s,all,%s: expected the unit us, ns or ms, found '%s'", work->path, row->phase,
                       row->metric, row->unit);
}

static bool fit_header_count(const struct fit_work *work, const char *name, uint32_t least, double *value,
                             GError **error)
{
    const char *text = record_get(work->record, name);
    guint64 count;
    if (text && g_ascii_string_to_unsigned(text, 10, least, G_MAXUINT32, &count, NULL)) {
        *value = (double)count;
        return true;
    }
    return error_input(error, "%s: header %s: expected a whole number of at least %u, found '%.40s'", work->path, name,
                       least, text ? text : "");
}

/* The factor from a row's time to the CPU time of one end.  A row of many ranks (phase `crowd`_xN) has the time of all
 * its ends together.  For other rows the factor is 1. */
static double fit_share(const struct fit_key *key, const struct fit_place *place)
{
    return place->ranks ? 1.0 / key->ends : 1;
}

static bool fit_points_gather(const struct fit_work *work, const struct fit_key *key, const struct fit_place *place,
                              struct fit_point *points, uint32_t *count, GError **error)
{
    *count = 0;
    for (uint32_t i = 0; i < record_row_count(work->record) && *count < FIT_POINTS_MAX; i++) {
        const struct record_row *row = record_row(work->record, i);
        struct fit_point *point = &points[*count];
        if (!fit_row_of(row, key, place, &point->n)) continue;
        if (!fit_row_value(work, row, &point->t, error)) return false;
        point->t *= fit_share(key, place);
        ++*count;
    }
    return true;
}

/* The key's comment in the file: " PHASE,all,METRIC_BYTES: N sizes".  If only a share of the time counts, it says
 * which. */
static GString *fit_comment_new(const struct fit_key *key, const struct fit_place *place, uint32_t count)
{
    GString *text = g_string_new(NULL);
    g_string_printf(text, " %s,all,%s_BYTES: %u sizes", place->phase, place->metric, count);
    const double share = fit_share(key, place);
    if (share != 1) g_string_append_printf(text, ", %.4g of the time", share);
    return text;
}

/* The value of the first key with this name.  That key must come earlier in the table than the key that uses its
 * value. */
static double fit_value_named(const struct fit_work *work, const char *name)
{
    for (size_t i = 0; i < G_N_ELEMENTS(fit_keys); i++)
        if (strcmp(fit_keys[i].name, name) == 0) return work->value[i];
    assert(!"a key of the table");
    return NAN;
}

/* Fits a line to the points.  The result is the cost without bytes, or the rate of the bytes. */
static bool fit_coefficient(const struct fit_work *work, const struct fit_key *key, const struct fit_point *points,
                            uint32_t count, double *value, GString *comment)
{
    struct fit_line line;
    if (!fit_line_find(points, count, &line)) return false;
    const bool rate = key->kind == FIT_RATE;
    *value = rate ? fmin(1e-3 / line.slope, FIT_RATE_GBS_MAX) : line.fixed;
    g_string_append_printf(comment, "; off by %.1f %% (median), %.1f %% (worst)", line.error_pct_median,
                           line.error_pct_worst);
    if (work->doubts && rate && line.error_pct_median > FIT_DOUBT_PCT)
        g_string_append_printf(work->doubts, "%s%s", work->doubts->len ? ", " : "", key->name);
    struct fit_bent bent;
    if (fit_bent_find(points, count, &bent) && bent.low.slope > 0)
        g_string_append_printf(comment, "\n up to %.0f bytes %.4g ns and %.4g GB/s would fit better", bent.knee,
                               bent.low.fixed * 1e3, 1e-3 / bent.low.slope);
    return true;
}

/* Gathers the CPU times of puts and, to show the link's speed, the streams of a pair.  If both ends share CPUs, the CPU
 * times are of both ends together. */
static bool fit_puts_gather(const struct fit_work *work, const struct fit_key *key, const struct fit_place *place,
                            struct fit_puts *puts, GError **error)
{
    struct fit_key whole = *key;
    struct fit_place chained = *place, alone = *place, stream = { .metric = "stream_us" };
    whole.ends = 1;
    chained.metric = "chained_us";
    alone.metric = "alone_us";
    g_strlcpy(stream.phase, key->phase, sizeof stream.phase);
    puts->busy = fmax(place->ranks / fit_value_named(work, "cores"), 1);
    if (!fit_points_gather(work, &whole, place, puts->burst, &puts->burst_count, error) ||
        !fit_points_gather(work, &whole, &chained, puts->chained, &puts->chained_count, error) ||
        !fit_points_gather(work, &whole, &alone, puts->alone, &puts->alone_count, error) ||
        !fit_points_gather(work, &whole, &stream, puts->stream, &puts->stream_count, error))
        return false;
    qsort(puts->stream, puts->stream_count, sizeof puts->stream[0], fit_point_order);
    return !puts->chained_count || fit_header_count(work, "put-chain", 2, &puts->chain, error);
}

static bool fit_interrupt(const struct fit_work *work, const struct fit_key *key, const struct fit_place *place,
                          double *value, GString *comment, GError **error)
{
    struct fit_puts puts;
    uint32_t count;
    if (!fit_puts_gather(work, key, place, &puts, error)) return false;
    *value = fit_puts_interrupt(&puts, fit_puts_doorbell(&puts), &count);
    if (count)
        g_string_append_printf(comment,
                               ": the median of what %u of alone_us are more than puts without a doorbell take", count);
    else g_string_append(comment, ", none of them alone");
    return true;
}

static bool fit_put(const struct fit_work *work, const struct fit_key *key, const struct fit_place *place,
                    struct fit_curve *curve, GString *comment, GError **error)
{
    struct fit_puts puts;
    uint32_t waited;
    if (!fit_puts_gather(work, key, place, &puts, error)) return false;
    const double doorbell = fit_puts_doorbell(&puts), interrupt = fit_value_named(work, "interrupt");
    if (!fit_puts_curve(&puts, doorbell, interrupt, fit_share(key, place), curve, &waited)) return false;
    if (puts.chained_count) g_string_append_printf(comment, ", less %.3g us that chained_us saves", doorbell);
    if (waited) g_string_append_printf(comment, ", less interrupt of the %u slower than the CPUs", waited);
    return true;
}

/* Sorts the points by size, and raises each time to at least the one before: a loop that touches more bytes is never
 * faster.  False if there are too many points, or none, or a time is not positive. */
static bool fit_loop(const struct fit_point *points, uint32_t count, struct fit_curve *curve)
{
    struct fit_point point[FIT_POINTS_MAX];
    if (count > FIT_CURVE_MAX) return false;
    *curve = (struct fit_curve){ .count = count };
    memcpy(point, points, count * sizeof *points);
    qsort(point, count, sizeof *point, fit_point_order);
    for (uint32_t i = 0; i < count; i++) {
        curve->size_bytes[i] = point[i].n;
        curve->us[i] = i ? fmax(point[i].t, curve->us[i - 1]) : point[i].t;
        if (!(point[i].t > 0)) return false;
    }
    return count > 0;
}

/* The CPU time in us of a put of size_bytes, both ends together. */
static double fit_put_us(const struct fit_work *work, double size_bytes)
{
    const struct fit_curve *put = &work->put;
    return fit_value_named(work, "interrupt") + 2 * stats_interpolate(put->size_bytes, put->us, put->count, size_bytes);
}

static bool fit_waits(const struct fit_work *work, const struct fit_point *point)
{
    return point->t > FIT_WAITS * fit_put_us(work, point->n);
}

/* The time of a byte, in us, at the link's lasting rate.  It is the slope between the two longest streams, because a
 * link that lets bursts pass carries short streams faster. 0: there are fewer than two streams. */
static double fit_link_slope(const struct fit_point *points, uint32_t count)
{
    const struct fit_point *last = NULL, *before = NULL;
    for (uint32_t i = 0; i < count; i++)
        if (!last || points[i].n > last->n) last = &points[i];
    for (uint32_t i = 0; i < count; i++)
        if (points[i].n < last->n && (!before || points[i].n > before->n)) before = &points[i];
    return before ? (last->t - before->t) / (last->n - before->n) : 0;
}

/* The median over streams of the time without the time of the bytes.  For a link that lets bursts pass this would be
 * less than 0, and the result is 0. */
static double fit_link_fixed(const struct fit_point *points, uint32_t count, double slope)
{
    double fixed[FIT_POINTS_MAX];
    for (uint32_t i = 0; i < count; i++) fixed[i] = points[i].t - slope * points[i].n;
    return fmax(stats_median(fixed, count), 0);
}

/* Fits the link to the streams that wait for it.  A stream waits for the link if it takes longer than FIT_WAITS times
 * the CPU times of both its ends together.  Other streams give an upper bound of the link's cost without bytes.  If
 * fewer than two streams wait, this cost is 0, and the rate is that of the fastest stream, a lower bound. */
static bool fit_link(const struct fit_work *work, const struct fit_key *key, const struct fit_point *points,
                     uint32_t count, double *value, GString *comment)
{
    struct fit_point kept[FIT_POINTS_MAX];
    uint32_t kept_count = 0;
    double best = 0;
    for (uint32_t i = 0; i < count; i++) {
        best = fmax(best, points[i].n / points[i].t / 1e3);
        if (fit_waits(work, &points[i])) kept[kept_count++] = points[i];
    }
    const double slope = fit_link_slope(kept, kept_count);
    if (!(slope > 0)) {
        g_string_append(comment, ", none slower than the CPUs: the best of them");
        *value = key->kind == FIT_LINK_RATE ? best : 0;
        return count > 0;
    }
    g_string_append_printf(comment, ", %u of them slower than the CPUs", kept_count);
    if (key->kind == FIT_LINK_RATE) {
        g_string_append(comment, ": the slope of the longest");
        *value = fmin(1e-3 / slope, FIT_RATE_GBS_MAX);
        return true;
    }
    *value = fit_link_fixed(kept, kept_count, slope);
    for (uint32_t i = 0; i < count; i++)
        if (!fit_waits(work, &points[i])) *value = fmin(*value, fmax(points[i].t - slope * points[i].n, 0));
    return true;
}

static bool fit_by_size_of(struct fit_work *work, const struct fit_key *key, double *value, char **comment,
                           GError **error)
{
    struct fit_point points[FIT_POINTS_MAX];
    struct fit_place place;
    uint32_t count;
    GError *cause = NULL;
    const bool present = fit_place_find(work->record, key, &place);
    assert(present);
    if (!fit_points_gather(work, key, &place, points, &count, error)) return false;
    GString *text = fit_comment_new(key, &place, count);
    bool done;
    if (key->kind == FIT_INTERRUPT) done = fit_interrupt(work, key, &place, value, text, &cause);
    else if (key->kind == FIT_PUT) done = fit_put(work, key, &place, &work->put, text, &cause);
    else if (key->kind == FIT_LOOP) done = fit_loop(points, count, &work->loop);
    else if (key->kind == FIT_LINK_FIXED || key->kind == FIT_LINK_RATE)
        done = fit_link(work, key, points, count, value, text);
    else done = fit_coefficient(work, key, points, count, value, text);
    *comment = g_string_free(text, !done);
    if (cause) g_propagate_error(error, cause);
    else if (!done)
        error_input(error, "%s: %s,all,%s_BYTES: expected times above 0 of at least two sizes, found %u rows",
                    work->path, place.phase, place.metric, count);
    return done;
}

/* The single row of a key. */
static const struct record_row *fit_row_find(const struct fit_work *work, const struct fit_key *key,
                                             struct fit_place *place)
{
    /* of a wait the smallest sample is taken, because longer ones include the work of other processes */
    char least[64];
    g_snprintf(least, sizeof least, "%s_min", key->metric);
    const bool wait = key->kind == FIT_POLL || key->kind == FIT_LATENCY;
    const bool present = fit_place_find(work->record, key, place);
    assert(present);
    const struct record_row *row = wait ? record_find(work->record, key->phase, RECORD_ALL, least) : NULL;
    return row ? row : record_find(work->record, place->phase, RECORD_ALL, place->metric);
}

/* Sets *less to the times in a single row's value that other keys stand for, and returns words that name those keys. */
static const char *fit_single_less(const struct fit_work *work, const struct fit_key *key, double *less)
{
    const double step = fit_value_named(work, "step");
    *less = 0;
    if (key->kind == FIT_POLL) {
        *less = step;
        return ", less a step";
    }
    if (key->kind == FIT_LATENCY) {
        *less = 2 * fit_value_named(work, "signal") + fit_value_named(work, "interrupt") +
                fit_value_named(work, "poll") + step;
        return ", less signal twice, interrupt, poll and step";
    }
    return "";
}

static bool fit_single_of(struct fit_work *work, const struct fit_key *key, double *value, char **comment,
                          GError **error)
{
    struct fit_place place;
    const struct record_row *row = fit_row_find(work, key, &place);
    assert(row);
    if (!fit_row_value(work, row, value, error)) return false;
    double less;
    const char *words = fit_single_less(work, key, &less);
    *value = fmax(*value - less, 0) * fit_share(key, &place);
    if (key->kind == FIT_LINK_SIGNAL && *value <= FIT_WAITS * 2 * fit_value_named(work, "signal")) {
        *value = fit_value_named(work, "message");
        words = ", not slower than the CPUs: as message";
    }
    *comment = g_strdup_printf(" %s,all,%s: %.4g %s%s", row->phase, row->metric, row->value, row->unit, words);
    return true;
}

static bool fit_count_take(struct fit_work *work, const struct fit_key *key, double *value, GError **error)
{
    const char *text = record_get(work->record, key->metric);
    if (!fit_header_count(work, key->metric, 1, value, error)) return false;
    g_autofree char *comment = g_strdup_printf(" header %s", key->metric);
    g_key_file_set_string(work->file, key->section, key->name, text);
    g_key_file_set_comment(work->file, key->section, key->name, comment, NULL);
    return true;
}

/* The value as text: a rate as "45 GB/s", a time as "870 ns" or "12.5 us". */
static char *fit_value_text(double value, bool rate)
{
    const bool small = value < 10;
    char number[G_ASCII_DTOSTR_BUF_SIZE];
    g_ascii_formatd(number, sizeof number, "%.4g", rate || !small ? value : value * 1e3);
    return g_strdup_printf("%s %s", number, rate ? "GB/s" : small ? "ns" : "us");
}

static char *fit_curve_text(const struct fit_curve *curve)
{
    GString *text = g_string_new(NULL);
    for (uint32_t i = 0; i < curve->count; i++) {
        g_autofree char *time = fit_value_text(curve->us[i], false);
        g_string_append_printf(text, "%s%s at %.0f B", i ? ", " : "", time, curve->size_bytes[i]);
    }
    return g_string_free(text, FALSE);
}

static bool fit_key_take(struct fit_work *work, size_t index, GError **error)
{
    const struct fit_key *key = &fit_keys[index];
    double *value = &work->value[index];
    if (key->kind == FIT_COUNT) return fit_count_take(work, key, value, error);
    g_autofree char *comment = NULL;
    if (!(fit_by_size(key->kind) ? fit_by_size_of : fit_single_of)(work, key, value, &comment, error)) return false;
    const bool rate = key->kind == FIT_RATE || key->kind == FIT_LINK_RATE;
    g_autofree char *text = key->kind == FIT_PUT    ? fit_curve_text(&work->put)
                            : key->kind == FIT_LOOP ? fit_curve_text(&work->loop)
                                                    : fit_value_text(*value, rate);
    g_key_file_set_string(work->file, key->section, key->name, text);
    g_key_file_set_comment(work->file, key->section, key->name, comment, NULL);
    return true;
}

/* Whether the section of fit_keys[index] is written. [host] always is, and others are if the record has the rows of
 * their first key. */
static bool fit_section_wanted(const struct record *record, size_t index)
{
    while (index > 0 && strcmp(fit_keys[index - 1].section, fit_keys[index].section) == 0) index--;
    return strcmp(fit_keys[index].section, "host") == 0 || fit_key_present(record, &fit_keys[index]);
}

static bool fit_keys_take(struct fit_work *work, GError **error)
{
    for (size_t i = 0; i < G_N_ELEMENTS(fit_keys); i++) {
        const struct fit_key *key = &fit_keys[i];
        if (!fit_section_wanted(work->record, i)) continue;
        if (key->kind == FIT_LOOP && !fit_key_present(work->record, key)) continue;
        if (!fit_key_present(work->record, key))
            return error_input(error, "%s: lacks %s %s%s%s, which [%s] %s is made of", work->path,
                               key->kind == FIT_COUNT ? "the header" : "rows", key->kind == FIT_COUNT ? "" : key->phase,
                               key->kind == FIT_COUNT ? "" : ",all,", key->metric, key->section, key->name);
        if (!fit_key_take(work, i, error)) return false;
    }
    return true;
}

char *fit_cluster_text(const struct record *record, const char *path, const char *name, GString *doubts, GError **error)
{
    const char *kind = record_get(record, "kind"), *machine = record_get(record, "machine");
    const char *version = record_get(record, "version");
    if (!kind || strcmp(kind, "measure") != 0)
        return error_null(error, "%s: header kind: expected measure, found '%.40s'", path, kind ? kind : "");
    struct fit_work work = { .record = record, .path = path, .file = g_key_file_new(), .doubts = doubts };
    g_key_file_set_string(work.file, "cluster", "name", name ? name : machine ? machine : "measured");
    char *text = NULL;
    if (fit_keys_take(&work, error)) {
        g_autofree char *comment = g_strdup_printf(" Made by eptwin fit from %s (version %s, machine %s).\n Every "
                                                   "number is measured: measure again rather than edit.",
                                                   path, version ? version : "unknown", machine ? machine : "unknown");
        g_key_file_set_comment(work.file, NULL, NULL, comment, NULL);
        text = g_key_file_to_data(work.file, NULL, NULL);
    }
    g_key_file_free(work.file);
    return text;
}
