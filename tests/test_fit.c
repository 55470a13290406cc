/* test_fit.c - lines through measured times, and the cluster file made of them.
 *
 * Aim: planted costs are found again: exactly without noise, closely with noise, and in spite of outliers.  A bend is
 * found at its place, and only if there is one.  No cost is negative.  Method: random planted lines over the sizes that
 * a measurement uses.  A fine search around the result must not find a better line.  A planted record of a measurement
 * must come out as the planted costs. */
#include <math.h>
#include <string.h>

#include "models/cluster.h"
#include "reports/fit.h"
#include "reports/fit_cluster.h"
#include "reports/fit_puts.h"
#include "reports/record.h"
#include "sim/rng.h"
#include "tests/unit.h"

enum { SIZES = 20 };
_Static_assert((int)FIT_CURVE_MAX <= (int)CLUSTER_CURVE_MAX, "a fitted curve fits into a cluster file");

/* Fills points[] with times along a line, for sizes from 8 B to 4 MB.  noise is the largest relative error. */
static void points_plant(struct fit_point *points, double fixed, double slope, double noise, struct rng *rng)
{
    for (int i = 0; i < SIZES; i++) {
        points[i].n = 8.0 * (double)(1u << i);
        points[i].t = (fixed + slope * points[i].n) * (1 + noise * (2 * rng_uniform(rng) - 1));
    }
}

static bool close_to(double value, double expected, double percent)
{
    return fabs(value - expected) <= fabs(expected) * percent / 100;
}

TEST("planted lines")
{
    struct rng rng = rng_seeded(5);
    for (int run = 0; run < 100; run++) {
        struct fit_point points[SIZES];
        struct fit_line line;
        const double fixed = pow(10, 2 * rng_uniform(&rng) - 1), slope = pow(10, -3 - 3 * rng_uniform(&rng));
        points_plant(points, fixed, slope, 0, &rng);
        CU_ASSERT_TRUE_FATAL(fit_line_find(points, SIZES, &line));
        CU_ASSERT_TRUE(close_to(line.fixed, fixed, 1e-6));
        CU_ASSERT_TRUE(close_to(line.slope, slope, 1e-6));
        CU_ASSERT_TRUE(line.error_pct_worst < 1e-6);
    }
}

/* A fifth of the points are off by factors of 2 to 10.  The other points must still decide. */
TEST("noise and outliers")
{
    struct rng rng = rng_seeded(6);
    for (int run = 0; run < 100; run++) {
        struct fit_point points[SIZES];
        struct fit_line line;
        points_plant(points, 3, 1e-4, 0.02, &rng);
        for (int k = 0; k < SIZES / 5; k++) points[rng_below(&rng, SIZES)].t *= 2 + 8 * rng_uniform(&rng);
        CU_ASSERT_TRUE_FATAL(fit_line_find(points, SIZES, &line));
        CU_ASSERT_TRUE(close_to(line.fixed, 3, 4));
        CU_ASSERT_TRUE(close_to(line.slope, 1e-4, 4));
        CU_ASSERT_TRUE(line.error_pct_median < 4);
    }
}

static double cost_of(const struct fit_point *points, int count, double fixed, double slope)
{
    double cost = 0;
    for (int i = 0; i < count; i++) cost += fabs(log((fixed + slope * points[i].n) / points[i].t));
    return cost;
}

/* No line close to the result is much better, even if the points do not resemble a line.  In that case the best line
 * may pass between them. */
TEST("no better line")
{
    struct rng rng = rng_seeded(7);
    for (int run = 0; run < 50; run++) {
        struct fit_point points[12];
        struct fit_line line;
        for (int i = 0; i < 12; i++)
            points[i] = (struct fit_point){ rng_uniform(&rng) * 100, 1 + 50 * rng_uniform(&rng) };
        CU_ASSERT_TRUE_FATAL(fit_line_find(points, 12, &line));
        CU_ASSERT_TRUE(line.fixed >= 0 && line.slope >= 0);
        const double best = cost_of(points, 12, line.fixed, line.slope);
        for (int a = -20; a <= 20; a++)
            for (int b = -20; b <= 20; b++) {
                const double fixed = line.fixed + a * 0.5, slope = line.slope + b * 0.01;
                if (fixed >= 0 && slope >= 0) CU_ASSERT_TRUE(cost_of(points, 12, fixed, slope) >= best * 0.98);
            }
    }
}

TEST("no negative cost")
{
    static const struct fit_point falling[] = { { 1, 9 }, { 2, 8 }, { 3, 7 }, { 4, 6 } };
    static const struct fit_point steep[] = { { 10, 1 }, { 20, 5 }, { 30, 9 }, { 40, 13 } };
    struct fit_line line;
    CU_ASSERT_TRUE(fit_line_find(falling, 4, &line));
    CU_ASSERT_EQUAL(line.slope, 0);
    CU_ASSERT_TRUE(line.fixed >= 6 && line.fixed <= 9);
    CU_ASSERT_TRUE(fit_line_find(steep, 4, &line));
    CU_ASSERT_EQUAL(line.fixed, 0);
    CU_ASSERT_TRUE(line.slope > 0);
}

TEST("refusals")
{
    static const struct fit_point one[] = { { 1, 1 } }, same[] = { { 1, 1 }, { 1, 2 } };
    static const struct fit_point zero[] = { { 1, 0 }, { 2, 1 } };
    const struct fit_point unknown[] = { { 1, NAN }, { 2, 1 } }, negative[] = { { -1, 1 }, { 2, 1 } };
    struct fit_line line;
    CU_ASSERT_FALSE(fit_line_find(one, 1, &line));
    CU_ASSERT_FALSE(fit_line_find(same, 2, &line));
    CU_ASSERT_FALSE(fit_line_find(zero, 2, &line));
    CU_ASSERT_FALSE(fit_line_find(unknown, 2, &line));
    CU_ASSERT_FALSE(fit_line_find(negative, 2, &line));
}

TEST("bends")
{
    struct rng rng = rng_seeded(8);
    for (int run = 0; run < 50; run++) {
        struct fit_point points[SIZES];
        struct fit_bent bent;
        points_plant(points, 2, 1e-4, 0.02, &rng);
        CU_ASSERT_FALSE(fit_bent_find(points, SIZES, &bent)); /* the points lie on a straight line with noise */
        const double knee = points[11].n;
        for (int i = 12; i < SIZES; i++) points[i].t = (40 + 5e-5 * points[i].n) * (1 + 0.02 * rng_uniform(&rng));
        CU_ASSERT_TRUE_FATAL(fit_bent_find(points, SIZES, &bent));
        CU_ASSERT_EQUAL(bent.knee, knee);
        CU_ASSERT_TRUE(close_to(bent.low.fixed, 2, 4));
        CU_ASSERT_TRUE(close_to(bent.high.slope, 5e-5, 5));
        CU_ASSERT_FALSE(fit_bent_find(points, 5, &bent));
    }
}

/* ---- the cluster file ---- */

static void rows_plant(struct record *record, const char *phase, const char *metric, double fixed, double slope)
{
    static const int sizes[] = { 1024, 7408, 14336, 65536 };
    for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++) {
        char name[64];
        g_snprintf(name, sizeof name, "%s_%d", metric, sizes[i]);
        record_add(record, phase, RECORD_ALL, name, fixed + slope * sizes[i], "us");
        g_snprintf(name, sizeof name, "%s_min_%d", metric, sizes[i]); /* the least time, which must not be used */
        record_add(record, phase, RECORD_ALL, name, 0.001, "us");
    }
}

static struct record *record_begin(void)
{
    struct record *record = record_new();
    record_set(record, "kind", "measure");
    record_set(record, "cpus", "2");
    record_set(record, "put-chain", "4");
    return record;
}

static struct record *record_plant(void)
{
    struct record *record = record_begin();
    record_add(record, "step", RECORD_ALL, "time_us", 0.02, "us");
    record_add(record, "store_signal", RECORD_ALL, "latency_us", 900, "ns");
    record_add(record, "store_signal", RECORD_ALL, "latency_us_min", 300, "ns"); /* the least time must be used here */
    record_add(record, "poll", RECORD_ALL, "time_us", 0.15, "us");
    record_add(record, "switch", RECORD_ALL, "time_us", 1.5, "us");
    record_add(record, "slice", RECORD_ALL, "time_us", 4, "ms");
    record_add(record, "signal", RECORD_ALL, "cpu_us", 0.1, "us");
    record_add(record, "signal_load_x2", RECORD_ALL, "cpu_us", 7, "us");
    record_add(record, "signal_load_x8", RECORD_ALL, "cpu_us", 0.2, "us"); /* 200 ns, of which each end pays 100 ns */
    record_add(record, "signal", RECORD_ALL, "stream_us", 0.4, "us");
    record_add(record, "signal", RECORD_ALL, "latency_us", 5, "us");
    rows_plant(record, "store", "cpu_us", 0.05, 1e-4);
    rows_plant(record, "put", "cpu_us", 0.3, 5e-5);
    rows_plant(record, "put", "stream_us", 0.6, 16e-5);
    rows_plant(record, "put_load_x2", "cpu_us", 9, 1);
    rows_plant(record, "put_load_x8", "cpu_us", 0.4, 8e-5);      /* used, because it is the largest crowd */
    rows_plant(record, "put_load_x8", "chained_us", 0.31, 8e-5); /* saves 3 of 4 doorbells of 120 ns */
    rows_plant(record, "put_load_x8", "alone_us", 0.7, 8e-5);
    rows_plant(record, "copy", "cpu_us", 0.03, 1e-4);
    rows_plant(record, "copy_x16", "cpu_us", 0.04, 2e-4); /* used, because it is the largest crowd, although it is not
                                                           * the last row */
    rows_plant(record, "copy_x8", "cpu_us", 9, 1);
    rows_plant(record, "cast_x8", "cpu_us", 0.06, 4e-4);
    rows_plant(record, "cast", "cpu_us", 9, 1);
    rows_plant(record, "reduce", "cpu_us", 0, 1e-3);
    rows_plant(record, "sum", "cpu_us", 0.1, 0.5e-3);
    rows_plant(record, "scan", "cpu_us", 0.01, 2e-4);
    return record;
}

/* Three measurements, of which the last was disturbed. */
TEST("several measurements")
{
    static const double step_us[] = { 4, 3, 90 }, poll_us[] = { 1, 2, 2.5 };
    char *path[] = { "a.csv", "b.csv", "c.csv" };
    struct record *record[3];
    for (int i = 0; i < 3; i++) {
        record[i] = record_new();
        record_set(record[i], "repeat", "%d", i);
        record_set(record[i], "cpus", "2");
        record_add(record[i], "step", RECORD_ALL, "time_us", step_us[i], "us");
        record_add(record[i], "poll", 3, "time_us", poll_us[i], "us");
        record_add_text(record[i], "link", RECORD_ALL, "name", "r0");
        record_add(record[i], "clock", RECORD_ALL, "time_us", i == 1 ? NAN : 1, "us");
    }
    GError *error = NULL;
    g_autoptr(record) all = MADE(fit_records_median(record, path, 3, &error));
    CU_ASSERT_EQUAL(record_row_count(all), 4);
    CU_ASSERT_STRING_EQUAL(record_row_text(record_row(all, 2)), "r0");
    CU_ASSERT_STRING_EQUAL(record_row_text(record_row(all, 3)), "nan");
    CU_ASSERT_EQUAL(record_find(all, "step", RECORD_ALL, "time_us")->value, 4);
    CU_ASSERT_EQUAL(record_find(all, "poll", 3, "time_us")->value, 2);
    CU_ASSERT_STRING_EQUAL(record_row(all, 1)->unit, "us");
    CU_ASSERT_STRING_EQUAL(record_get(all, "cpus"), "2");
    record_add(record[2], "more", RECORD_ALL, "time_us", 1, "us");
    CU_ASSERT_PTR_NULL(fit_records_median(record, path, 3, &error));
    CU_ASSERT(error_is(&error, "c.csv: expected 4 rows as in a.csv, found 5"));
    record_set(record[1], "cpus", "4");
    CU_ASSERT_PTR_NULL(fit_records_median(record, path, 3, &error));
    CU_ASSERT(error_is(&error, "b.csv: header cpus: expected '2' as in a.csv, found '4'"));
    record_add(record[0], "other", RECORD_ALL, "time_us", 1, "us");
    struct record *const others[] = { record[2], record[0] };
    CU_ASSERT_PTR_NULL(fit_records_median(others, path, 2, &error));
    CU_ASSERT(error_is(&error, "b.csv: row 5: expected more,time_us (us) as in a.csv, found other,time_us (us)"));
    for (int i = 0; i < 3; i++) record_free(record[i]);
}

static void assert_key(GKeyFile *file, const char *section, const char *name, const char *expected)
{
    g_autofree char *value = g_key_file_get_string(file, section, name, NULL);
    g_autofree char *comment = g_key_file_get_comment(file, section, name, NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(value);
    if (strcmp(value, expected) != 0) fprintf(stderr, "[%s] %s: %s\n", section, name, value);
    CU_ASSERT_STRING_EQUAL(value, expected);
    CU_ASSERT_TRUE(comment && strlen(comment) > 5);
}

/* Returns the cluster file that fit makes of the record.  *doubts gets the keys that fit doubts, unless it is NULL. */
static GKeyFile *fitted(struct record *record, GString *doubts)
{
    GError *error = NULL;
    g_autofree char *text = fit_cluster_text(record, "m.csv", "here", doubts, &error);
    if (error) fprintf(stderr, "%s\n", error->message);
    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    GKeyFile *file = g_key_file_new();
    CU_ASSERT_TRUE_FATAL(g_key_file_load_from_data(file, text, strlen(text), G_KEY_FILE_KEEP_COMMENTS, NULL));
    return file;
}

TEST("a planted measurement's cluster file")
{
    static const char *const expected[][3] = {
        { "host", "cores", "2" },
        { "host", "step", "20 ns" },
        { "host", "progress", "150 ns" },
        { "host", "poll", "280 ns" },
        { "host", "switch", "1500 ns" },
        { "host", "slice", "4000 us" },
        { "host", "store", "50 ns" },
        { "host", "store-rate", "10 GB/s" },
        { "host", "interrupt", "420 ns" },
        { "host", "put", "181 ns at 1024 B, 436.3 ns at 7408 B, 713.4 ns at 14336 B, 2761 ns at 65536 B" },
        { "host", "signal", "100 ns" },
        { "host", "copy-row", "40 ns" },
        { "host", "copy-rate", "5 GB/s" },
        { "host", "cast-row", "60 ns" },
        { "host", "cast-rate", "2.5 GB/s" },
        { "host", "reduce-row", "0 ns" },
        { "host", "reduce-rate", "1 GB/s" },
        { "host", "sum-row", "100 ns" },
        { "host", "sum-rate", "2 GB/s" },
        { "host", "scan-rate", "5 GB/s" },
        { "nic", "rate", "6.25 GB/s" },
        { "nic", "message", "600 ns" },
        { "nic", "signal", "400 ns" },
        { "network", "latency", "4080 ns" },
    };
    g_autoptr(record) record = record_plant();
    g_autoptr(GString) doubts = g_string_new(NULL);
    g_autoptr(GKeyFile) file = fitted(record, doubts);
    for (size_t i = 0; i < G_N_ELEMENTS(expected); i++)
        assert_key(file, expected[i][0], expected[i][1], expected[i][2]);
    CU_ASSERT_STRING_EQUAL(doubts->str, "");
    /* Times of a crowd that do not follow any line must be doubted. */
    static const double times[] = { 9, 1, 30, 2 };
    for (int i = 0; i < 4; i++) {
        char metric[32];
        g_snprintf(metric, sizeof metric, "cpu_us_%d", 1000 << i);
        record_add(record, "cast_x16", RECORD_ALL, metric, times[i], "us");
    }
    g_free(fit_cluster_text(record, "m.csv", "here", doubts, NULL));
    CU_ASSERT_STRING_EQUAL(doubts->str, "cast-rate");
}

/* Rows that pass between ranks are preferred to rows of larger crowds that do not, but only for the keys that come from
 * such rows. */
TEST("rows that pass between ranks")
{
    static const char *const expected[][2] = {
        { "store", "70 ns" },        { "store-rate", "4 GB/s" }, { "copy-row", "90 ns" },
        { "copy-rate", "2.5 GB/s" }, { "reduce-row", "200 ns" }, { "reduce-rate", "2 GB/s" },
        { "sum-row", "100 ns" },     { "sum-rate", "2 GB/s" },   { "cast-row", "60 ns" },
    };
    g_autoptr(record) record = record_plant();
    rows_plant(record, "store_alltoall_x16", "cpu_us", 0.01, 1e-5);
    rows_plant(record, "store_read_x2", "cpu_us", 9, 1);
    rows_plant(record, "store_read_x4", "cpu_us", 0.07, 2.5e-4);
    rows_plant(record, "copy_written_x4", "cpu_us", 0.09, 4e-4);
    rows_plant(record, "copy_written", "cpu_us", 9, 1); /* not used: with one rank, no other rank could have written the
                                                         * rows */
    rows_plant(record, "reduce_written_x4", "cpu_us", 0.2, 5e-4);
    g_autoptr(GKeyFile) file = fitted(record, NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(expected); i++) assert_key(file, "host", expected[i][0], expected[i][1]);
}

/* The times of a loop by bytes touched come from the largest crowd, are sorted by bytes, and never fall. */
TEST("cluster file: a loop by bytes touched")
{
    static const char *const metrics[] = { "cast_us", "message_us", "copy_us", "store_us", "reduce_us" };
    g_autoptr(record) record = record_plant();
    for (size_t i = 0; i < G_N_ELEMENTS(metrics); i++) {
        static const struct {
            const char *phase;
            uint32_t bytes;
            double us;
        } rows[] = {
            { "loop_x4", 2000, 0.3 }, { "loop_x4", 1000, 0.4 }, { "loop_x4", 4000, 2 }, { "loop_x2", 1000, 9 }
        };
        for (size_t k = 0; k < G_N_ELEMENTS(rows); k++) {
            g_autofree char *metric = g_strdup_printf("%s_%u", metrics[i], rows[k].bytes);
            record_add(record, rows[k].phase, RECORD_ALL, metric, rows[k].us, "us");
        }
    }
    g_autoptr(GKeyFile) file = fitted(record, NULL);
    static const char *const keys[] = { "loop-cast", "loop-message", "loop-copy", "loop-store", "loop-reduce" };
    for (size_t i = 0; i < G_N_ELEMENTS(keys); i++)
        assert_key(file, "host", keys[i], "400 ns at 1000 B, 400 ns at 2000 B, 2000 ns at 4000 B");
    record_add(record, "loop_x4", RECORD_ALL, "copy_us_8000", 0, "us");
    g_autoptr(GError) error = NULL;
    CU_ASSERT_PTR_NULL(fit_cluster_text(record, "m.csv", "here", NULL, &error));
    CU_ASSERT(error_holds(&error, "loop_x4,all,copy_us_BYTES: expected times above 0"));
}

/* Returns the planted record without the rows of puts. */
static struct record *record_plant_but_put(void)
{
    g_autoptr(record) all = record_plant();
    struct record *record = record_begin();
    for (uint32_t k = 0; k < record_row_count(all); k++) {
        const struct record_row *row = record_row(all, k);
        if (strcmp(row->phase, "put") != 0)
            record_add(record, row->phase, row->rank, row->metric, row->value, row->unit);
    }
    return record;
}

/* Checks the [host] keys that come from the puts of a crowd.  A row has the size in bytes, then times in us: cpu_us,
 * chained_us and alone_us of the crowd, and stream_us of a pair. */
static void assert_puts(const double (*rows)[5], uint32_t count, const char *interrupt, const char *put)
{
    static const char *const metric[] = { NULL, "cpu_us", "chained_us", "alone_us", "stream_us" };
    g_autoptr(record) record = record_plant_but_put();
    for (uint32_t i = 0; i < count; i++)
        for (int k = 1; k < 5; k++) {
            g_autofree char *name = g_strdup_printf("%s_%.0f", metric[k], rows[i][0]);
            record_add(record, k == 4 ? "put" : "put_load_x16", RECORD_ALL, name, rows[i][k], "us");
        }
    g_autoptr(GKeyFile) file = fitted(record, NULL);
    assert_key(file, "host", "interrupt", interrupt);
    assert_key(file, "host", "put", put);
    struct cluster_curve curve;
    CU_ASSERT_TRUE(cluster_parse_curve(put, &curve)); /* simulate must be able to read what fit writes */
}

/* 16 ranks share 2 CPUs.  If a burst takes more than 6 times its CPU time, it waited for the link.  Then its puts came
 * one by one, and each took its own time and an interrupt.  A doorbell takes the same time in every way of posting.  If
 * costs fall as the size grows, they are made equal. */
TEST("puts by size")
{
    static const double waiting[][5] = {
        { 100, 40, 40, 90, 239 }, { 200, 60, 60, 112, 359 }, { 900, 300, 300, 310, 4000 }, { 500, 200, 200, 200, 1201 }
    };
    assert_puts(waiting, 4, "50 us", "20 us at 100 B, 30 us at 200 B, 75 us at 500 B, 125 us at 900 B");
    static const double all_waiting[][5] = { { 100, 40, 40, 60, 401 }, { 200, 80, 80, 100, 801 } };
    assert_puts(all_waiting, 2, "20 us", "10 us at 100 B, 30 us at 200 B");
    static const double falling[][5] = { { 100, 40, 40, 60, 0 },
                                         { 200, 30, 30, 50, 0 },
                                         { 300, 26, 26, 46, 0 },
                                         { 400, 90, 90, 110, 0 },
                                         { 500, 80, 80, 100, 0 } };
    assert_puts(falling, 5, "20 us",
                "16 us at 100 B, 16 us at 200 B, 16 us at 300 B, 42.5 us at 400 B, 42.5 us at 500 B");
    static const double chained[][5] = {
        { 100, 40, 34, 60, 0 }, { 200, 60, 54, 80, 0 }, { 400, 99, 30, 119, 0 }, { 600, 140, 150, 160, 0 }
    }; /* doorbells of 8, 8, 92 and -13 us */
    assert_puts(chained, 4, "28 us", "16 us at 100 B, 26 us at 200 B, 45.5 us at 400 B, 66 us at 600 B");
    static const double free[][5] = { { 100, 40, 40, 30, 0 } }; /* a put alone costs less than in the crowd, but an
                                                                 * interrupt cannot cost less than 0 */
    assert_puts(free, 1, "0 ns", "20 us at 100 B");
}

/* Each rank has a CPU of its own.  A link is slow if a put takes longer than the CPU's time explains.  That also holds
 * for sizes for which the record has no stream. */
TEST("puts that wait for the link")
{
    struct fit_puts puts = {
        .burst = { { 100, 40 }, { 200, 40 }, { 400, 40 } },
        .burst_count = 3,
        .busy = 1,
        .stream = { { 50, 40 }, { 150, 58 }, { 250, 46 } },
        .stream_count = 3,
    };
    struct fit_curve curve;
    uint32_t waited;
    CU_ASSERT_TRUE(fit_puts_curve(&puts, 0, 10, 1, &curve, &waited));
    CU_ASSERT_EQUAL(waited, 1); /* the streams give 49, 52 and 28 us for the three sizes, and the limit is 50 us */
    puts.stream_count = 0;
    CU_ASSERT_TRUE(fit_puts_curve(&puts, 0, 10, 1, &curve, &waited));
    CU_ASSERT_EQUAL(waited, 0);
}

/* If the CPUs explain the time of streams, the streams show only a least rate of the link.  Short streams then bound
 * the link's cost of a put. */
TEST("links behind CPUs")
{
    static const struct {
        double fixed, slope, short_us;
        const char *rate, *message;
    } cases[] = {
        { 0.4, 8e-5, 0.4, "11.61 GB/s", "0 ns" },    /* the rate is 65536 bytes in 5.643 us */
        { 0.9, 16e-5, 0.45, "6.25 GB/s", "450 ns" }, /* the message is what 512 bytes cost beyond their time at that
                                                      * rate */
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(record) record = record_plant_but_put();
        rows_plant(record, "put", "stream_us", cases[i].fixed, cases[i].slope);
        record_add(record, "put", RECORD_ALL, "stream_us_512", cases[i].short_us + 512 * cases[i].slope, "us");
        g_autoptr(GKeyFile) file = fitted(record, NULL);
        assert_key(file, "nic", "rate", cases[i].rate);
        assert_key(file, "nic", "message", cases[i].message);
    }
}

/* A link is limited to 12.3 MB/s, but lets 64 kB pass at once.  So the shorter a stream is, the larger is the part of
 * it that passes unlimited. */
TEST("links that let bursts pass")
{
    static const struct {
        double size, stream;
    } points[] = {
        { 4096, 250e3 }, { 14336, 250e3 }, { 65536, 500e3 }, { 262144, 2097152 }, { 1048576, 8388608 },
    };
    enum { BURST = 64000 };
    g_autoptr(record) record = record_plant_but_put();
    for (size_t i = 0; i < G_N_ELEMENTS(points); i++) {
        g_autofree char *metric = g_strdup_printf("stream_us_%.0f", points[i].size);
        record_add(record, "put", RECORD_ALL, metric, points[i].size / 12.3 * (1 - BURST / points[i].stream), "us");
    }
    g_autoptr(GKeyFile) file = fitted(record, NULL);
    assert_key(file, "nic", "rate", "0.0123 GB/s");
    assert_key(file, "nic", "message", "0 ns");
}

static void assert_refused(struct record *record, const char *message)
{
    g_autoptr(GError) error = NULL;
    CU_ASSERT_PTR_NULL(fit_cluster_text(record, "m.csv", NULL, NULL, &error));
    CU_ASSERT(error_is(&error, message));
    record_free(record);
}

TEST("measurements that do not suffice")
{
    struct record *record = record_plant();
    record_set(record, "kind", "replay");
    assert_refused(record, "m.csv: header kind: expected measure, found 'replay'");
    record = record_plant();
    record_set(record, "cpus", "none");
    assert_refused(record, "m.csv: header cpus: expected a whole number of at least 1, found 'none'");
    record = record_plant();
    record_set(record, "put-chain", "1");
    assert_refused(record, "m.csv: header put-chain: expected a whole number of at least 2, found '1'");
    record = record_new();
    record_set(record, "kind", "measure");
    assert_refused(record, "m.csv: lacks the header cpus, which [host] cores is made of");
    record = record_begin();
    record_add(record, "step", 0, "time_us", 1, "us"); /* the row of one rank, and not of all ranks */
    assert_refused(record, "m.csv: lacks rows step,all,time_us, which [host] step is made of");
    record = record_begin();
    record_add(record, "step", RECORD_ALL, "time_us", 1, "h");
    assert_refused(record, "m.csv: step,all,time_us: expected the unit us, ns or ms, found 'h'");
    record = record_plant();
    record_add(record, "copy_x99", RECORD_ALL, "cpu_us_4096", 1, "us");
    assert_refused(record,
                   "m.csv: copy_x99,all,cpu_us_BYTES: expected times above 0 of at least two sizes, found 1 rows");
    record = record_plant();
    record_add(record, "scan_x9", RECORD_ALL, "cpu_us_4096", NAN, "us");
    assert_refused(record, "m.csv: scan_x9,all,cpu_us_4096: expected a value of at least 0, found nan");
}
