/* fit_gpu.c - a table that says which rows of GPUs become which key of a cluster file, and the code that applies it.
 * Knows the names of keys and rows; knows no GPU and no file. */
#include "reports/fit_cluster.h"

#include <math.h>
#include <string.h>

#include "reports/fit.h"
#include "sim/error.h"
#include "sim/stats.h"

enum gpu_kind {
    GPU_COUNT,      /* a whole number in the header */
    GPU_BYTES,      /* a size in bytes in the header */
    GPU_TIME,       /* a row's time */
    GPU_TIME_LESS,  /* a row's time minus another row's */
    GPU_TIME_AND,   /* a row's time plus another row's, the sum times factor */
    GPU_LAUNCH,     /* a row's time minus twice another row's, which is in ns */
    GPU_EACH_TIME,  /* from a rate of operations: the time of `factor` operations */
    GPU_TURN,       /* from rates by size: how long a warp waits for each round of its loads.  The time of the bytes
                     * and the time of a short row's other work are left out */
    GPU_FURTHER,    /* from rates of rows that a warp loads by eight accesses at a time and by one: the time of each
                     * access of a round after the first */
    GPU_RATE,       /* a row's rate times factor */
    GPU_FASTEST,    /* a row's rate in its fastest pass, times factor: for passes that take 7 to 10 us.  What else
                     * happens then only slows them, by tenths: medians of two H100s are 12 % apart, these 3 */
    GPU_MOST,       /* the largest rate of the rows whose phase matches the pattern, times factor */
    GPU_SHARED,     /* a row's rate times a ratio: the largest rate of flows that run to their end, over the largest
                     * rate of flows that run for a given time */
    GPU_TURNS_RATE, /* the rate of the extra work of a row that takes longer than another: 1 / (1 / rate - 1 / other
                     * rate) */
    GPU_ROW_LESS,   /* a row's time at one warp's rate, minus its time at the largest rate of other rows */
    GPU_SHARE_READ, /* from rows of one warp and of `factor` warps: the rate at which the warps of one SM together
                     * read */
    GPU_SHARE_MADE, /* from the same rows: the rate at which the warps of one SM together write */
};

/* How a key is made of rows.  In a phase, ALL stands for the number of all SMs.  If a key has several entries, the
 * first one whose rows are in the record is used. */
struct gpu_key {
    const char *section, *name;
    enum gpu_kind kind;
    const char *phase, *metric; /* metric: without its size if the kind uses rows by size */
    const char *other;          /* phase of the other rows; if other_metric is NULL, their metric is `metric`, too */
    const char *other_metric;
    double factor; /* 0 stands for 1 */
};

#define BULK_ANY    "bulk sms=1 warps=* at=l2 way=both stages=? ahead=?"
#define BULK_OUT    "bulk sms=1 warps=* at=l2 way=out stages=? ahead=?"
#define BULK_PEER   "bulk sms=* warps=* to=peer"
#define FRESH       "copy_8 sms=ALL warps=12 at=fresh"
#define SUMS_FRESH  "sum_staged sms=1 warps=1 at=fresh 4MiB by=warp rows="
#define SUMS_SHARED "sum_staged sms=12 warps=24 at=fresh 16MiB by=warp rows="
/* Flows between two GPUs, which every record has, from 10 to 99 SMs.  The most of them is a link's: with few SMs, one
 * that ends late counts.  More GPUs have more SMs at work, so that with them a record of four GPUs would give 3 % more
 * than one of two.  The string is split because "??/" would be a trigraph. */
#define WHOLE(what, rows) \
    "all-to-all " what " gpus=2 sms=?" \
    "?/flow warps=*" rows " whole flows"
#define NEAR     "chase_nc at=own kib=8192"
#define TURN_ROW "copy_5 sms=1 warps=1 at=l2"
enum { SUM_WARPS = 24 };

static const struct gpu_key gpu_keys[] = {
    { "gpu", "sms", GPU_COUNT, "", "sms", NULL, NULL, 0 },
    { "gpu", "launch", GPU_LAUNCH, "launch cooperative+cluster2+200KB blocks=ALL", "lookup_us", NEAR, "time_ns", 0 },
    { "gpu", "begin", GPU_TIME, "launch early blocks=ALL", "begin_us", NULL, NULL, 0 },
    { "gpu", "setup", GPU_TIME, "launch early blocks=ALL", "gap_us", NULL, NULL, 0 },
    { "gpu", "step", GPU_TIME_AND, "block_barrier warps=24", "time_ns", "alone_ld_shared at=sm", "time_ns", 2 },
    { "gpu", "poll", GPU_TIME, "alone_ld_acquire_sys at=own", "time_ns", NULL, NULL, 0 },
    { "gpu", "hbm-rate", GPU_MOST, "copy_5 sms=* warps=* at=hbm", "rate_gbs_14336", NULL, NULL, 2 },
    { "gpu", "l2", GPU_BYTES, "", "l2-bytes", NULL, NULL, 0 },
    { "gpu", "hbm-rows-rate", GPU_RATE, FRESH " 64MiB packed", "rate_gbs_7408", NULL, NULL, 2 },
    { "gpu", "l2-rate", GPU_FASTEST, FRESH " 16MiB packed", "rate_gbs_14352", NULL, NULL, 2 },
    { "gpu", "store-sm-rate", GPU_MOST, "copy_5 sms=1 warps=* to=peer", "rate_gbs_14336", NULL, NULL, 0 },
    { "gpu", "store-sm-rate", GPU_MOST, "copy_5 sms=1 warps=* at=hbm", "rate_gbs_14336", NULL, NULL, 0 },
    { "gpu", "bulk-in", GPU_ROW_LESS, "bulk sms=1 warps=1 at=hbm way=in stages=1 ahead=0", "rate_gbs_14336",
      "bulk sms=1 warps=* at=l2 way=in stages=? ahead=?", NULL, 0 },
    { "gpu", "bulk-in-l2", GPU_ROW_LESS, "bulk sms=1 warps=1 at=l2 way=in stages=1 ahead=0", "rate_gbs_14336",
      "bulk sms=1 warps=* at=l2 way=in stages=? ahead=?", NULL, 0 },
    { "gpu", "bulk-turn", GPU_EACH_TIME, "bulk sms=1 warps=1 at=l2 way=out stages=1 ahead=0", "rate_gbs_512", NULL,
      NULL, 512 },
    { "gpu", "bulk-out", GPU_ROW_LESS, "bulk sms=1 warps=1 at=hbm way=out stages=1 ahead=0 packed whole",
      "rate_gbs_14464", BULK_OUT, "rate_gbs_14336", 0 },
    { "gpu", "bulk-in-rate", GPU_TURNS_RATE, BULK_ANY, "rate_gbs_7168", BULK_OUT, NULL, 0 },
    { "gpu", "bulk-out-rate", GPU_MOST, BULK_OUT, "rate_gbs_14336", NULL, NULL, 0 },
    { "gpu", "bulk-put-rate", GPU_MOST, "bulk sms=1 warps=* to=peer", "rate_gbs_14336", NULL, NULL, 0 },
    { "gpu", "reduce-sm-rate", GPU_SHARE_READ, SUMS_SHARED, "rate_gbs_14336", SUMS_FRESH, NULL, 12 * SUM_WARPS },
    { "gpu", "reduce-made-sm-rate", GPU_SHARE_MADE, SUMS_SHARED, "rate_gbs_14336", SUMS_FRESH, NULL, 12 * SUM_WARPS },
    { "gpu", "stage", GPU_TIME, "after_fence_cta sms=ALL warps=24 by=warp at=own", "time_ns_14336", NULL, NULL, 0 },
    { "gpu", "load", GPU_TURN, "copy_5 sms=1 warps=1 at=hbm", "rate_gbs", TURN_ROW, "rate_gbs_128", 0 },
    { "gpu", "load-l2", GPU_TIME, "chase_nc at=fresh", "time_ns", NULL, NULL, 0 },
    { "gpu", "load-again", GPU_TIME, "chase_sys at=own kib=8192", "time_ns", NULL, NULL, 0 },
    { "gpu", "load-l1", GPU_TIME, "alone_ld_weak at=own", "time_ns", NULL, NULL, 0 },
    { "gpu", "load-shared", GPU_TIME, "alone_ld_shared at=sm", "time_ns", NULL, NULL, 0 },
    { "gpu", "access", GPU_FURTHER, "load_8 sms=1 warps=1 at=l2", "rate_gbs_14336", "load_1 sms=1 warps=1 at=l2", NULL,
      0 },
    { "gpu", "cycle", GPU_EACH_TIME, "clock", "rate_ghz", NULL, NULL, 0 },
    { "gpu", "release", GPU_EACH_TIME, "atom_release_gpu to=words sms=1 warps=1 at=own", "rate_gops", NULL, NULL, 32 },
    { "gpu", "release-stores", GPU_TIME, "after_atom_release_gpu sms=1 warps=8 by=warp at=peer", "time_ns_14336", NULL,
      NULL, 0 },
    { "gpu", "release-stores", GPU_TIME, "after_atom_release_gpu sms=1 warps=8 by=warp at=own", "time_ns_14336", NULL,
      NULL, 0 },
    { "gpu", "grid-barrier", GPU_TIME_AND, "grid_barrier sms=ALL warps=32", "time_ns", "alone_atom_gpu at=own",
      "time_ns", 0 },
    { "nvlink", "egress-rate", GPU_MOST, WHOLE("copy_5", ""), "whole_gbs_14336", NULL, NULL, 0 },
    { "nvlink", "unaligned-rate", GPU_MOST, WHOLE("copy_8", " packed"), "whole_gbs_14352", NULL, NULL, 0 },
    { "nvlink", "split-rate", GPU_SHARED, "bulk sms=ALL warps=8 to=peer shared=16", "rate_gbs_14336", WHOLE("bulk", ""),
      "whole_gbs_14336", 0 },
    { "nvlink", "bulk-rate", GPU_MOST, "all-to-all bulk gpus=* sms=*/flow warps=15", "rate_gbs_7168", NULL, NULL, 0 },
    { "nvlink", "sector-rate", GPU_MOST, "bulk sms=ALL warps=* to=peer shared=32", "rate_gbs_14336", NULL, NULL, 0 },
    { "nvlink", "ingress-rate", GPU_MOST, "incast store_8 *", "total_gbs_14336", NULL, NULL, 0 },
    { "nvlink", "latency", GPU_TIME_LESS, "flag_relaxed_sys pairs=1 warps=1 at=peer", "time_ns",
      "alone_ld_acquire_sys at=own", "time_ns", 0 },
    { "nvlink", "fence", GPU_TIME, "after_st_release_sys sms=1 warps=24 by=block at=peer", "time_ns_14336", NULL, NULL,
      0 },
    { "nvlink", "peek", GPU_TIME, "alone_ld_relaxed_sys at=peer", "time_ns", NULL, NULL, 0 },
    { "node", "release-system", GPU_TIME, "alone_st_release_sys at=own", "time_ns", NULL, NULL, 0 },
    { "node", "host-fence", GPU_TIME, "alone_store_fence_sys at=host", "time_ns", NULL, NULL, 0 },
};

/* Keys that no row of a record of GPUs gives, and why. */
static const struct {
    const char *section, *name, *why;
} gpu_untold[] = {
    { "gpu", "beside", "how the profiler counts" },
    { "gpu", "stretch", "of the kernels' own sums" },
    { "gpu", "bulk-request", "of the kernels' own sums" },
    { "gpu", "bulk-passes", "a pattern of many rows, of source= and shared=" },
    { "gpu", "cpcs", "which SMs share with which" },
    { "gpu", "touch", "pages looked at for the first time in a kernel took no longer than others" },
    { "nvlink", "gpus", "a domain may have more than were measured" },
    { "nvlink", "line-rate", "a data sheet's" },
    { "nvlink", "load-rate", "no row has GPUs that load from each other" },
    { "nvlink", "bulk-crossing-rate", "flows of 3 and 4 GPUs end no later than those of 2" },
    { "nvlink", "fence-crowd", "no row has releases beside stores by other SMs" },
    { "nvlink", "fence-crowd-half", "no row has releases beside stores by other SMs" },
    { "node", "host-look", "no row has many warps that poll one line" },
};

enum { GPU_DOUBT_PCT = 25, GPU_SUMS_MOST = 16 };

/* Keys whose samples lie far apart even on idle machines. pct is added to GPU_DOUBT_PCT.  It is the largest distance
 * between smallest and largest sample, in percent of the value, among seven records of idle machines. */
static const struct {
    const char *name;
    uint32_t pct;
} gpu_wide[] = { { "access", 79 }, { "latency", 31 }, { "release", 49 } };

struct gpu_work {
    const struct record *record;
    const char *path;
    uint32_t repeat;
};

/* A value with its smallest and largest sample. */
struct gpu_value {
    double value, low, high;
};

/* ---- rows ---- */

/* The phase with ALL replaced by the number of SMs; the caller frees it. */
static char *gpu_phase(const struct gpu_work *work, const char *phase)
{
    const char *sms = record_get(work->record, "sms");
    g_auto(GStrv) parts = g_strsplit(phase, "ALL", 2);
    return g_strjoinv(sms ? sms : "", parts);
}

/* Reads metric, metric_min and metric_max of the phase.  A size comes last in their names: rate_gbs_min_14336. */
static bool gpu_row(const struct gpu_work *work, const char *phase, const char *metric, struct gpu_value *value)
{
    static const char *const spread[] = { "", "_min", "_max" };
    double *const into[] = { &value->value, &value->low, &value->high };
    const size_t stem = strcspn(metric, "0123456789"); /* "rate_gbs_" of "rate_gbs_14336" */
    const bool sized = metric[stem] != '\0';
    for (uint32_t i = 0; i < G_N_ELEMENTS(spread); i++) {
        g_autofree char *name = sized ? g_strdup_printf("%.*s%s_%s", (int)stem - 1, metric, spread[i], metric + stem)
                                      : g_strdup_printf("%s%s", metric, spread[i]);
        const struct record_row *row = record_find(work->record, phase, RECORD_ALL, name);
        if (!row || !(row->value > 0)) return false;
        *into[i] = row->value;
    }
    return true;
}

/* Reads the row with the largest value among those whose phase fits the pattern. */
static bool gpu_most(const struct gpu_work *work, const char *pattern, const char *metric, struct gpu_value *most)
{
    bool found = false;
    for (uint32_t i = 0; i < record_row_count(work->record); i++) {
        const struct record_row *row = record_row(work->record, i);
        struct gpu_value value;
        if (strcmp(row->metric, metric) != 0 || !g_pattern_match_simple(pattern, row->phase)) continue;
        if (!gpu_row(work, row->phase, metric, &value) || (found && value.value <= most->value)) continue;
        *most = value;
        found = true;
    }
    return found;
}

static bool gpu_fastest(const struct gpu_work *work, const char *phase, const char *metric, struct gpu_value *value)
{
    if (!gpu_row(work, phase, metric, value)) return false;
    value->value = value->high;
    return true;
}

/* The time in ns of a row of `bytes` bytes at a rate.  The smallest rate gives the longest time. */
static struct gpu_value gpu_time_of(double bytes, const struct gpu_value *rate_gbs)
{
    return (struct gpu_value){ bytes / rate_gbs->value, bytes / rate_gbs->high, bytes / rate_gbs->low };
}

/* ---- kinds ---- */

static void gpu_widen(struct gpu_value *value)
{
    const double ends[] = { value->value, value->low, value->high };
    value->low = stats_min(ends, G_N_ELEMENTS(ends));
    value->high = stats_max(ends, G_N_ELEMENTS(ends));
}

static struct gpu_value gpu_less(const struct gpu_value *a, const struct gpu_value *b)
{
    return (struct gpu_value){ fmax(a->value - b->value, 0), fmax(a->low - b->high, 0), fmax(a->high - b->low, 0) };
}

/* Fits three lines: through the median, the shortest and the longest times. */
static bool gpu_lines(struct fit_point points[3][FIT_POINTS_MAX], uint32_t count, struct fit_line line[3])
{
    for (uint32_t i = 0; i < 3; i++)
        if (!fit_line_find(points[i], count, &line[i])) return false;
    return true;
}

static void gpu_point_add(struct fit_point points[3][FIT_POINTS_MAX], uint32_t *count, double n,
                          const struct gpu_value *time)
{
    points[0][*count] = (struct fit_point){ .n = n, .t = time->value };
    points[1][*count] = (struct fit_point){ .n = n, .t = time->low };
    points[2][*count] = (struct fit_point){ .n = n, .t = time->high };
    ++*count;
}

static double gpu_metric_bytes(const char *metric)
{
    return g_ascii_strtod(metric + strcspn(metric, "0123456789"), NULL);
}

/* Finds the time of a round of loads, from rows whose warps have five loads of 512 bytes in flight.  The bytes' time at
 * the largest rate of an SM is subtracted, and so is the time that a short row takes in addition to its wait. */
static bool gpu_turn(const struct gpu_work *work, const struct gpu_key *key, struct gpu_value *value, GString *comment)
{
    enum { TURN_BYTES = 5 * 512 };
    static const uint32_t sizes[] = { 512, 1024, 2048, 4096, 7168, 14336, 28672 };
    double times[3][G_N_ELEMENTS(sizes)];
    uint32_t count = 0;
    struct gpu_value most, brief, near;
    if (!gpu_most(work, "copy_5 sms=1 warps=* at=hbm", "rate_gbs_14336", &most) ||
        !gpu_row(work, key->other, key->other_metric, &brief) || !gpu_row(work, NEAR, "time_ns", &near))
        return false;
    const struct gpu_value short_time = gpu_time_of(gpu_metric_bytes(key->other_metric), &brief);
    const double beside = fmax(short_time.value - near.value, 0);
    for (uint32_t i = 0; i < G_N_ELEMENTS(sizes); i++) {
        g_autofree char *metric = g_strdup_printf("%s_%u", key->metric, sizes[i]);
        struct gpu_value rate;
        if (!gpu_row(work, key->phase, metric, &rate)) continue;
        const struct gpu_value time = gpu_time_of(sizes[i], &rate);
        const double turns = ceil(sizes[i] / (double)TURN_BYTES), less = beside + sizes[i] / most.value;
        times[0][count] = (time.value - less) / turns;
        times[1][count] = (time.low - less) / turns;
        times[2][count++] = (time.high - less) / turns;
    }
    if (!count) return false;
    *value = (struct gpu_value){ stats_median(times[0], count), stats_median(times[1], count),
                                 stats_median(times[2], count) };
    g_string_append_printf(comment, ", what a turn takes, median of %u sizes", count);
    return true;
}

/* How long all warps together keep their SM busy, in ns.  One warp takes alone_ns if it runs alone, and all_ns if all
 * run.  This is the inverse of contended_ps in models/hardware/sm/gpu.c. */
static double gpu_share_ns(double alone_ns, double all_ns)
{
    const double more_ns = fmax(all_ns - alone_ns, 0);
    return (more_ns + sqrt(more_ns * more_ns + 4 * more_ns * alone_ns)) / 2;
}

static bool gpu_shares(const struct gpu_work *work, const char *phase, const struct gpu_key *key,
                       struct gpu_value *value, GString *comment)
{
    struct fit_point points[3][FIT_POINTS_MAX];
    struct fit_line line[3];
    uint32_t count = 0;
    const double bytes = gpu_metric_bytes(key->metric);
    for (uint32_t rows = 1; rows <= GPU_SUMS_MOST; rows++) {
        g_autofree char *all_name = g_strdup_printf("%s%u", phase, rows),
                        *one_name = g_strdup_printf("%s%u", key->other, rows);
        struct gpu_value all, one;
        if (!gpu_row(work, all_name, key->metric, &all) || !gpu_row(work, one_name, key->metric, &one)) continue;
        const struct gpu_value a = gpu_time_of(bytes * key->factor, &all), o = gpu_time_of(bytes, &one);
        const struct gpu_value share = { gpu_share_ns(o.value, a.value) / SUM_WARPS,
                                         gpu_share_ns(o.high, a.low) / SUM_WARPS,
                                         gpu_share_ns(o.low, a.high) / SUM_WARPS };
        gpu_point_add(points, &count, rows, &share);
    }
    if (!gpu_lines(points, count, line)) return false;
    double *const into[] = { &value->value, &value->low, &value->high };
    for (uint32_t i = 0; i < 3; i++)
        *into[i] = bytes / fmax(key->kind == GPU_SHARE_READ ? line[i].slope : line[i].fixed, 1e-6);
    gpu_widen(value);
    g_string_append_printf(comment, " beside one warp alone, off by %.1f %% (median)", line[0].error_pct_median);
    return true;
}

/* Finds the value of a key that is made of two rows' values. */
static bool gpu_pair(const struct gpu_work *work, const char *phase, const struct gpu_key *key, struct gpu_value *value,
                     GString *comment)
{
    g_autofree char *other = gpu_phase(work, key->other);
    const char *other_metric = key->other_metric ? key->other_metric : key->metric;
    struct gpu_value a, b;
    const bool most = key->kind == GPU_TURNS_RATE || key->kind == GPU_ROW_LESS;
    if (!(most ? gpu_most : gpu_row)(work, phase, key->metric, &a)) return false;
    if (!(most ? gpu_most : gpu_row)(work, other, other_metric, &b)) return false;
    if (key->kind == GPU_TURNS_RATE) {
        const struct gpu_value one = gpu_time_of(1, &a), two = gpu_time_of(1, &b), turn = gpu_less(&one, &two);
        if (!(turn.low > 0)) return false;
        *value = gpu_time_of(1, &turn);
        g_string_append_printf(comment, ", what it takes longer than %s", other);
    } else if (key->kind == GPU_ROW_LESS) {
        const double bytes = gpu_metric_bytes(key->metric);
        const struct gpu_value row = gpu_time_of(bytes, &a), flow = gpu_time_of(bytes, &b);
        *value = gpu_less(&row, &flow);
        g_string_append_printf(comment, ", less its bytes at the most of %s", other);
    } else {
        const struct gpu_value twice = { b.value / 500, b.low / 500, b.high / 500 }; /* in us */
        if (key->kind == GPU_LAUNCH) *value = gpu_less(&a, &twice);
        else if (key->kind == GPU_TIME_AND)
            *value = (struct gpu_value){ a.value + b.value, a.low + b.low, a.high + b.high };
        else *value = gpu_less(&a, &b);
        g_string_append_printf(comment, ", %s %s%s,all,%s", key->kind == GPU_TIME_AND ? "and" : "less",
                               key->kind == GPU_LAUNCH ? "twice " : "", other, other_metric);
    }
    return true;
}

/* Corrects a rate that was measured over a given time, so that it holds for flows that run until the last one has
 * ended.  Other rows give the ratio of these two kinds of rates. */
static bool gpu_shared(const struct gpu_work *work, const char *phase, const struct gpu_key *key,
                       struct gpu_value *value, GString *comment)
{
    struct gpu_value rate, whole, most;
    if (!gpu_row(work, phase, key->metric, &rate) || !gpu_most(work, key->other, key->other_metric, &whole) ||
        !gpu_most(work, BULK_PEER, "rate_gbs_14336", &most))
        return false;
    const double share = whole.value / most.value;
    *value = (struct gpu_value){ rate.value * share, rate.low * share, rate.high * share };
    g_string_append_printf(comment, ", by %.3f: the most of %s by the most of " BULK_PEER, share, key->other);
    return true;
}

static bool gpu_further(const struct gpu_work *work, const struct gpu_key *key, struct gpu_value *value,
                        GString *comment)
{
    enum { ACCESS_BYTES = 512, TURN = 8 };
    struct gpu_value eight, one;
    if (!gpu_row(work, key->phase, key->metric, &eight) || !gpu_row(work, key->other, key->metric, &one)) return false;
    const double bytes = gpu_metric_bytes(key->metric), all = bytes / ACCESS_BYTES, turns = ceil(all / TURN);
    const struct gpu_value row = gpu_time_of(bytes, &eight), waits = gpu_time_of(bytes * turns / all, &one);
    const struct gpu_value more = gpu_less(&row, &waits);
    *value = (struct gpu_value){ more.value / (all - turns), more.low / (all - turns), more.high / (all - turns) };
    g_string_append_printf(comment, ", less as many waits of %s,all,%s, a further access", key->other, key->metric);
    return true;
}

static bool gpu_each(const struct gpu_work *work, const char *phase, const struct gpu_key *key, struct gpu_value *value)
{
    struct gpu_value rate;
    if (!gpu_row(work, phase, key->metric, &rate)) return false;
    *value = gpu_time_of(1, &rate);
    return true;
}

/* ---- keys ---- */

static bool gpu_is_rate(enum gpu_kind kind)
{
    return kind == GPU_RATE || kind == GPU_FASTEST || kind == GPU_MOST || kind == GPU_TURNS_RATE ||
           kind == GPU_SHARE_READ || kind == GPU_SHARE_MADE || kind == GPU_SHARED;
}

static bool gpu_value_of(const struct gpu_work *work, const struct gpu_key *key, struct gpu_value *value,
                         GString *comment)
{
    g_autofree char *phase = gpu_phase(work, key->phase);
    g_string_printf(comment, " %s%s,all,%s",
                    key->kind == GPU_MOST      ? "the most of "
                    : key->kind == GPU_FASTEST ? "the fastest pass of "
                                               : "",
                    phase, key->metric);
    switch (key->kind) {
    case GPU_SHARE_READ:
    case GPU_SHARE_MADE: return gpu_shares(work, phase, key, value, comment);
    case GPU_MOST: return gpu_most(work, phase, key->metric, value);
    case GPU_FASTEST: return gpu_fastest(work, phase, key->metric, value);
    case GPU_SHARED: return gpu_shared(work, phase, key, value, comment);
    case GPU_EACH_TIME: return gpu_each(work, phase, key, value);
    case GPU_FURTHER: return gpu_further(work, key, value, comment);
    case GPU_TURN: return gpu_turn(work, key, value, comment);
    case GPU_TIME_AND:
    case GPU_LAUNCH:
    case GPU_TURNS_RATE:
    case GPU_ROW_LESS:
    case GPU_TIME_LESS: return gpu_pair(work, phase, key, value, comment);
    default: return gpu_row(work, phase, key->metric, value);
    }
}

/* The factor from a row's time to the key's value in ns.  Times of rows are in ns unless their metric ends in _us. */
static double gpu_scale(const struct gpu_key *key)
{
    const bool warps = key->kind == GPU_SHARE_READ || key->kind == GPU_SHARE_MADE;
    const double factor = key->factor > 0 && !warps ? key->factor : 1;
    return g_str_has_suffix(key->metric, "_us") ? factor * 1e3 : factor;
}

static char *gpu_number(double value)
{
    char text[G_ASCII_DTOSTR_BUF_SIZE];
    return g_strdup(g_ascii_formatd(text, sizeof text, "%.4g", value));
}

static void gpu_text_add(GString *text, const struct gpu_key *key, const char *value, const char *comment)
{
    g_string_append_printf(text, "#%s\n%s = %s\n", comment, key->name, value);
}

/* Whether the value's smallest and largest samples lie further apart than GPU_DOUBT_PCT of the value, or than the
 * larger limit that gpu_wide gives this key. */
static bool gpu_is_doubtful(const char *name, const struct gpu_value *v)
{
    double pct = GPU_DOUBT_PCT;
    for (size_t i = 0; i < G_N_ELEMENTS(gpu_wide); i++)
        if (strcmp(gpu_wide[i].name, name) == 0) pct += gpu_wide[i].pct;
    return (v->high - v->low) * 100 > pct * v->value;
}

/* Writes the key's value from the rows that this entry names.  False if they are not in the record. */
static bool gpu_key_add(const struct gpu_work *work, const struct gpu_key *key, GString *text, GString *doubts)
{
    struct gpu_value v;
    g_autoptr(GString) comment = g_string_new(NULL);
    if (key->kind == GPU_COUNT || key->kind == GPU_BYTES) {
        const char *found = record_get(work->record, key->metric);
        guint64 number;
        if (!found || !g_ascii_string_to_unsigned(found, 10, 1, G_MAXUINT32, &number, NULL)) return false;
        g_autofree char *value = g_strdup_printf("%s%s", found, key->kind == GPU_BYTES ? " B" : "");
        g_autofree char *header = g_strdup_printf(" header %s", key->metric);
        gpu_text_add(text, key, value, header);
        return true;
    }
    if (!gpu_value_of(work, key, &v, comment)) return false;
    const char *unit = gpu_is_rate(key->kind) ? "GB/s" : "ns";
    const double scale = gpu_scale(key);
    g_autofree char *value = gpu_number(v.value * scale), *low = gpu_number(v.low * scale),
                    *high = gpu_number(v.high * scale), *all = g_strdup_printf("%s %s", value, unit);
    if (key->factor > 0 && key->kind != GPU_SHARE_READ && key->kind != GPU_SHARE_MADE)
        g_string_append_printf(comment, ", times %.4g", key->factor);
    g_string_append_printf(comment, ": %s to %s with %.1f %%", low, high, 100 * (1 - pow(2, 1 - (double)work->repeat)));
    gpu_text_add(text, key, all, comment->str);
    if (doubts && gpu_is_doubtful(key->name, &v))
        g_string_append_printf(doubts, "%s%s", doubts->len ? ", " : "", key->name);
    return true;
}

/* The index after the last entry of the key whose first entry has index `first`. */
static size_t gpu_key_end(size_t first)
{
    size_t end = first;
    while (end < G_N_ELEMENTS(gpu_keys) && strcmp(gpu_keys[end].name, gpu_keys[first].name) == 0) end++;
    return end;
}

/* Writes a section's keys, and names the keys that the record does not give. */
static void gpu_section_add(const struct gpu_work *work, const char *section, GString *text, GString *doubts)
{
    g_string_append_printf(text, "\n[%s]\n", section);
    g_autoptr(GString) untold = g_string_new(NULL);
    for (size_t i = 0, end; i < G_N_ELEMENTS(gpu_keys); i = end) {
        const struct gpu_key *last = &gpu_keys[(end = gpu_key_end(i)) - 1];
        bool told = strcmp(last->section, section) != 0;
        for (size_t k = i; k < end && !told; k++) told = gpu_key_add(work, &gpu_keys[k], text, doubts);
        if (!told)
            g_string_append_printf(untold, "#   %s: the record lacks %s%s%s\n", last->name, last->phase,
                                   *last->phase ? ",all," : "header ", last->metric);
    }
    for (size_t i = 0; i < G_N_ELEMENTS(gpu_untold); i++)
        if (strcmp(gpu_untold[i].section, section) == 0)
            g_string_append_printf(untold, "#   %s: %s\n", gpu_untold[i].name, gpu_untold[i].why);
    g_string_append_printf(text, "# These rows do not tell:\n%s", untold->str);
}

/* A whole number of the header, or 0. */
static uint32_t gpu_header(const struct record *record, const char *key)
{
    const char *text = record_get(record, key);
    guint64 number;
    return text && g_ascii_string_to_unsigned(text, 10, 1, G_MAXUINT32, &number, NULL) ? (uint32_t)number : 0;
}

bool fit_gpu_record(const struct record *record) { return g_strcmp0(record_get(record, "fabric"), "cuda") == 0; }

char *fit_gpu_text(const struct record *record, const char *path, const char *name, const char *include,
                   GString *doubts, GError **error)
{
    static const char *const needed[] = { "sms", "gpus", "repeat" };
    const char *kind = record_get(record, "kind"), *gpu = record_get(record, "gpu");
    if (g_strcmp0(kind, "measure") != 0)
        return error_null(error, "%s: header kind: expected measure, found '%.40s'", path, kind ? kind : "");
    for (size_t i = 0; i < G_N_ELEMENTS(needed); i++) {
        const char *found = record_get(record, needed[i]);
        if (gpu_header(record, needed[i]) > 0) continue;
        return error_null(error, "%s: header %s: expected a whole number of at least 1, found '%.40s'", path, needed[i],
                          found ? found : "");
    }
    const struct gpu_work work = { .record = record, .path = path, .repeat = gpu_header(record, "repeat") };
    const char *version = record_get(record, "version");
    GString *text = g_string_new(NULL);
    g_string_printf(
        text,
        "# Made by eptwin fit from %s (version %s).  Numbers are medians where no fastest pass is named; beside\n"
        "# each stands what rows it is of, and between which values the median of all such passes lies with so many "
        "%%.\n\n"
        "[cluster]\nname = %s\n",
        path, version ? version : "unknown",
        name  ? name
        : gpu ? gpu
              : "measured");
    if (include)
        g_string_append_printf(text, "# What these rows do not tell comes from there.\ninclude = %s\n", include);
    gpu_section_add(&work, "gpu", text, doubts);
    if (gpu_header(record, "gpus") > 1) gpu_section_add(&work, "nvlink", text, doubts);
    gpu_section_add(&work, "node", text, doubts);
    return g_string_free(text, FALSE);
}
