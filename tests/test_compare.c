/* test_compare.c - two records side by side.
 *
 * Aim: errors have the right sign, size and place.  Records of different cases are refused, and the message names the
 * difference.  The limit of a phase is found.  Method: small records made here, with results worked out by hand. */
#include <math.h>
#include <string.h>

#include "reports/compare.h"
#include "reports/record.h"
#include "tests/unit.h"

static struct record *record_of(const char *kind, double scale)
{
    struct record *record = record_new();
    record_set(record, "kind", "%s", kind);
    record_set(record, "kernel", "ll");
    record_set(record, "num-tokens", "128");
    record_set(record, "trace", "/%s/some/t.npy", kind);
    record_set(record, "cluster", "%s", kind);
    record_set(record, RECORD_CASE_KEYS, "kernel num-tokens num-topk trace step layer");
    for (int rank = 0; rank < 4; rank++) record_add(record, "dispatch", rank, "time_us", (100 + rank) * scale, "us");
    record_add(record, "dispatch", RECORD_ALL, "time_us", 101.5 * scale, "us");
    record_add(record, "dispatch", RECORD_ALL, "logical_rdma_gbs", 40 / scale, "GB/s");
    record_add(record, "combine", RECORD_ALL, "time_us", 200, "us");
    return record;
}

static const struct compare_row *row_of(const struct compare *compare, const char *phase, int32_t rank,
                                        const char *metric)
{
    for (guint i = 0; i < compare->rows->len; i++) {
        const struct compare_row *row = &g_array_index(compare->rows, struct compare_row, i);
        if (row->rank == rank && !strcmp(row->phase, phase) && !strcmp(row->metric, metric)) return row;
    }
    return NULL;
}

static struct compare *compared(const struct record *a, const struct record *b, bool by_rank)
{
    const struct compare_options options = { .by_rank = by_rank };
    GError *error = NULL;
    struct compare *compare = compare_new(a, b, &options, &error);
    if (!compare) fprintf(stderr, "unexpected: %s\n", error->message);
    CU_ASSERT_PTR_NOT_NULL_FATAL(compare);
    return compare;
}

/* Asserts that the difference has the expected text, and frees it. */
static void assert_difference(char *difference, const char *expected)
{
    CU_ASSERT_STRING_EQUAL(difference, expected);
    g_free(difference);
}

TEST("errors of phases")
{
    g_autoptr(record) p = record_of("simulate", 0.8);
    g_autoptr(record) m = record_of("replay", 1);
    g_autoptr(compare) compare = compared(p, m, false);
    const struct compare_row *row = MADE(row_of(compare, "dispatch", RECORD_ALL, "time_us"));
    CU_ASSERT_DOUBLE_EQUAL(row->error_pct, -20, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(row->predicted, 81.2, 1e-9);
    CU_ASSERT_EQUAL(row->measured, 101.5);
    row = row_of(compare, "dispatch", RECORD_ALL, "logical_rdma_gbs");
    CU_ASSERT_DOUBLE_EQUAL(row->error_pct, 25, 1e-9);
    CU_ASSERT_EQUAL(row->worst_rank, COMPARE_NO_RANK);
    CU_ASSERT_EQUAL(row_of(compare, "combine", RECORD_ALL, "time_us")->error_pct, 0);
    CU_ASSERT_PTR_NULL(row_of(compare, "dispatch", 0, "time_us"));
    CU_ASSERT_EQUAL(compare->lonely->len, 0);
    CU_ASSERT_STRING_EQUAL(compare->predicted_name, "predicted");
}

/* The order of the arguments does not matter: the records say which is the prediction. */
TEST("which is the prediction")
{
    g_autoptr(record) p = record_of("simulate", 0.8);
    g_autoptr(record) m = record_of("replay", 1);
    struct compare *compare = compared(m, p, false);
    CU_ASSERT_TRUE(compare->swapped);
    CU_ASSERT_PTR_EQUAL(compare->predicted, p);
    CU_ASSERT_DOUBLE_EQUAL(row_of(compare, "dispatch", RECORD_ALL, "time_us")->error_pct, -20, 1e-9);
    compare_free(compare);
    g_autoptr(record) other = record_of("replay", 0.5);
    compare = compared(m, other, false);
    CU_ASSERT_FALSE(compare->swapped);
    CU_ASSERT_STRING_EQUAL(compare->predicted_name, "first");
    CU_ASSERT_STRING_EQUAL(compare->measured_name, "second");
    CU_ASSERT_DOUBLE_EQUAL(row_of(compare, "dispatch", RECORD_ALL, "time_us")->error_pct, 100, 1e-9);
    record_set(other, "busy", "yes");
    g_autoptr(GString) words = g_string_new(NULL);
    compare_verdict_append(compare, words);
    compare_words_append(compare, false, words);
    CU_ASSERT_PTR_NOT_NULL(
        strstr(words->str, "The second is 1.20 times faster: dispatch and combine take 301.5 us in the first and"));
    CU_ASSERT_PTR_NOT_NULL(strstr(words->str, "The machine was busy while the second was measured."));
    CU_ASSERT_PTR_NULL(strstr(words->str, "too high"));
    compare_free(compare);
}

TEST("the worst rank")
{
    g_autoptr(record) p = record_of("simulate", 1);
    g_autoptr(record) m = record_new();
    record_set(m, "kind", "replay");
    record_set(m, "kernel", "ll");
    record_set(m, "num-tokens", "128");
    record_set(m, "trace", "t.npy");
    static const double times[] = { 100, 101, 51, 206 }; /* predictions of 100, 101, 102 and 103 are off by 0, 0, +100
                                                          * and -50 % */
    for (int rank = 0; rank < 4; rank++) record_add(m, "dispatch", rank, "time_us", times[rank], "us");
    record_add(m, "dispatch", RECORD_ALL, "time_us", 101.5, "us");
    g_autoptr(compare) compare = compared(p, m, true);
    const struct compare_row *row = row_of(compare, "dispatch", RECORD_ALL, "time_us");
    CU_ASSERT_EQUAL(row->worst_rank, 2);
    CU_ASSERT_DOUBLE_EQUAL(row->worst_error_pct, 100, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(row_of(compare, "dispatch", 3, "time_us")->error_pct, -50, 1e-9);
    CU_ASSERT_EQUAL(compare->lonely->len, 1);
    CU_ASSERT_STRING_EQUAL(g_ptr_array_index(compare->lonely, 0), "combine");
}

TEST("different cases are refused")
{
    g_autoptr(record) p = record_of("simulate", 1);
    g_autoptr(record) m = record_of("replay", 1);
    CU_ASSERT_PTR_NULL(compare_case_difference(p, m)); /* the folder of the trace does not count */
    record_set(m, "num-tokens", "64");
    record_set(m, "num-topk", "8");
    struct compare_options options = { 0 };
    g_autoptr(GError) error = NULL;
    CU_ASSERT_PTR_NULL(compare_new(p, m, &options, &error));
    CU_ASSERT(error_is(&error, "the records are of different cases (num-tokens: 128 against 64; num-topk: "
                               "none against 8); --force compares them nevertheless"));
    options.force = true;
    struct compare *compare = compare_new(p, m, &options, &error);
    CU_ASSERT_PTR_NOT_NULL(compare);
    compare_free(compare);
    g_autoptr(record) empty = record_new();
    CU_ASSERT_PTR_NULL(compare_new(p, empty, &options, &error));
    CU_ASSERT(error_is(&error, "nothing to compare: no phase has a time or bandwidth in both records"));
}

/* A record may list the keys that make its case.  If neither of two records does, only the keys count that every case
 * has. */
TEST("keys that count only sometimes")
{
    g_autoptr(record) p = record_of("simulate", 1);
    g_autoptr(record) m = record_of("replay", 1);
    record_set(p, "seed", "1");
    record_set(m, "seed", "2");
    CU_ASSERT_PTR_NULL(compare_case_difference(p, m));
    record_set(m, RECORD_CASE_KEYS, "kernel  seed trace"); /* a list in one of the two records suffices */
    for (int turn = 0; turn < 2; turn++) {
        g_autofree char *difference = turn ? compare_case_difference(m, p) : compare_case_difference(p, m);
        CU_ASSERT_STRING_EQUAL(difference, turn ? "seed: 2 against 1" : "seed: 1 against 2");
    }
    g_autoptr(record) plain = record_new();
    CU_ASSERT_PTR_NULL(compare_case_difference(p, plain));
    CU_ASSERT_PTR_NULL(compare_case_difference(plain, p));
    CU_ASSERT_PTR_NULL(compare_case_difference(plain, plain));
    record_set(plain, "kernel", "normal");
    record_set(plain, "kind", "measure"); /* a measurement has no case */
    CU_ASSERT_PTR_NULL(compare_case_difference(plain, plain));
    g_autoptr(record) other = record_new(); /* neither record lists its keys, so only the keys that every case has
                                             * count */
    record_set(other, "kernel", "ll");
    record_set(other, "hidden", "7168"); /* does not count, because only one record has it */
    record_set(other, "seed", "9");
    CU_ASSERT_PTR_NULL(compare_case_difference(plain, other));
    record_set(plain, "kind", "simulate");
    record_set(plain, "seed", "8");
    assert_difference(compare_case_difference(plain, other), "kernel: normal against ll");
    assert_difference(compare_case_difference(p, plain), "kernel: ll against normal");
}

/* Two predictions may differ in settings, but not in work.  Redundant experts are a setting. */
TEST("two predictions")
{
    g_autoptr(record) a = record_of("simulate", 2);
    g_autoptr(record) b = record_of("simulate", 1);
    record_set(a, "trace", "t.npy");
    record_set(b, "trace", "t.npy");
    record_set(b, "placement", "eplb:64");
    record_set(a, "num-experts", "64");
    record_set(b, "num-experts", "128");
    struct record *const both[] = { a, b };
    for (int i = 0; i < 2; i++)
        record_set(both[i], RECORD_CASE_KEYS, "kernel num-tokens num-experts trace placement dtype");
    assert_difference(compare_case_difference(a, b), "num-experts: 64 against 128; placement: none against eplb:64");
    for (int i = 0; i < 2; i++) record_set(both[i], RECORD_WORK_KEYS, "num-tokens num-experts trace");
    CU_ASSERT_PTR_NULL(compare_case_difference(a, b));
    assert_difference(compare_settings_difference(a, b), "placement: none against eplb:64");
    for (int i = 0; i < 2; i++) {
        record_add(both[i], "dispatch", RECORD_ALL, "time_us_max", i ? 100 : 300, "us");
        record_add(both[i], "combine", RECORD_ALL, "time_us_max", 200, "us");
        record_add_text(both[i], "dispatch", RECORD_ALL, "bottleneck", i ? "hbm" : "nic_rx");
        record_add_text(both[i], "combine", RECORD_ALL, "bottleneck", "sm");
    }
    struct compare *compare = compared(a, b, false);
    g_autoptr(GString) words = g_string_new(NULL);
    CU_ASSERT_TRUE(compare_what_if(compare));
    compare_verdict_append(compare, words);
    compare_difference_append(compare, words);
    CU_ASSERT_STRING_EQUAL(words->str, "The second is 1.67 times faster: dispatch and combine take 500.0 us in the "
                                       "first and 300.0 us in the second (slowest rank).\n"
                                       "They differ in placement: none against eplb:64.\n");
    g_string_truncate(words, 0);
    compare_words_append(compare, false, words);
    CU_ASSERT_PTR_NOT_NULL(strstr(words->str, "  The bound has moved.\n"));
    CU_ASSERT_PTR_NOT_NULL(strstr(words->str, "combine: first 200.0 us, second 200.0 us (slowest rank): the same.\n"
                                              "  The bound has not moved.\n"));
    g_string_truncate(words, 0);
    compare_words_append(compare, true, words); /* here the verdict names hbm and sm, and no table nic_rx */
    CU_ASSERT_PTR_NOT_NULL(strstr(words->str, "  The first is bound by nic_rx: the bound has moved.\n"));
    CU_ASSERT_PTR_NOT_NULL(strstr(words->str, "  The bound has not moved.\n"));
    g_string_truncate(words, 0);
    record_add_text(a, "sum", RECORD_ALL, "bottleneck", "nic_tx");
    record_add_text(a, "sum", RECORD_ALL, "bottleneck_part", "NIC of rank 0, sending");
    record_add_text(b, "sum", RECORD_ALL, "bottleneck", "nic_rx");
    record_add_text(b, "sum", RECORD_ALL, "bottleneck_part", "NIC of rank 1, receiving");
    for (int i = 0; i < 2; i++) record_add(both[i], "sum", RECORD_ALL, "time_us", 1, "us");
    compare_free(compare);
    compare = compared(a, b, false);
    compare_words_append(compare, false, words);
    CU_ASSERT_PTR_NOT_NULL(strstr(words->str, "  The bound has moved to another part of that kind.\n"));
    g_string_truncate(words, 0);
    compare_words_append(compare, true, words); /* the verdict does not name the bounds of "sum" */
    CU_ASSERT_PTR_NOT_NULL(
        strstr(words->str, "  The first is bound by the NIC of rank 0, sending; the second by the NIC of rank 1, "
                           "receiving: the bound has moved to another part of that kind.\n"));
    compare_free(compare);
    record_set(b, "num-experts", "192"); /* 128 experts, and a second copy of 64 of them */
    assert_difference(compare_case_difference(a, b), "num-experts: 64 against 192");
    record_set(b, "kind", "replay"); /* a replay is a measurement, so its case must be equal in all keys */
    record_set(b, "num-experts", "128");
    assert_difference(compare_case_difference(a, b), "num-experts: 64 against 128; placement: none against eplb:64");
}

/* On another machine, files may be in other folders.  Only the folders of a path are ignored; the text before and after
 * the path must be equal. */
TEST("files elsewhere")
{
    static const struct {
        const char *x, *y;
        bool same;
    } values[] = {
        { "a/t.npy", "/b/c/t.npy", true },
        { "t.npy", "./t.npy", true },
        { "a/t.npy", "a/u.npy", false },
        { "file:a/p.txt", "file:p.txt", true },
        { "file:p.txt", "p.txt", false },
        { "vllm:/a/t.npy", "t.npy", false },
        { "a/w.npy@0,4", "b/w.npy@0,4", true },
        { "a/w.npy@0,4", "b/w.npy@0,5", false },
        { "", "t.npy", false },
    };
    g_autoptr(record) p = record_of("simulate", 1);
    g_autoptr(record) m = record_of("replay", 1);
    for (size_t i = 0; i < G_N_ELEMENTS(values); i++) {
        record_set(p, "trace", "%s", values[i].x);
        record_set(m, "trace", "%s", values[i].y);
        g_autofree char *difference = compare_case_difference(p, m);
        CU_ASSERT_EQUAL(!difference, values[i].same);
    }
}

/* The layers of a record may be in its key layer or in its key layers, as a number or as a range.  Only metrics that
 * mean the same are compared.  A metric that ends in _max is the maximum over ranks in one record and over layers in
 * the other.  The slowest rank of each layer is "slowest_us" in both records, unless the measurement has only means. */
TEST("several layers")
{
    g_autoptr(record) p = record_of("simulate", 1);
    g_autoptr(record) m = record_of("replay", 1);
    record_set(p, "layer", "0");
    record_set(p, "layers", "0:3");
    record_set(p, "step", "0");
    record_set(p, "steps", "2:3");
    record_set(m, "layer", "0:3");
    record_set(m, "step", "2");
    record_add(p, "dispatch", RECORD_ALL, "time_us_max", 120, "us");
    record_add(m, "dispatch", RECORD_ALL, "time_us_max", 140, "us");
    CU_ASSERT_PTR_NULL(compare_case_difference(p, m));
    struct compare *compare = compared(p, m, false);
    CU_ASSERT_PTR_NOT_NULL(row_of(compare, "dispatch", RECORD_ALL, "time_us"));
    CU_ASSERT_PTR_NULL(row_of(compare, "dispatch", RECORD_ALL, "time_us_max"));
    CU_ASSERT_STRING_EQUAL(compare_headline(compare, "dispatch")->metric, "time_us");
    compare_free(compare);
    record_add(p, "dispatch", RECORD_ALL, "slowest_us", 300, "us");
    compare = compared(p, m, false);
    CU_ASSERT_STRING_EQUAL(compare_headline(compare, "dispatch")->metric, "time_us"); /* the measurement has no
                                                                                       * slowest_us, and only equal
                                                                                       * metrics are compared */
    compare_free(compare);
    record_add(m, "dispatch", RECORD_ALL, "slowest_us", 400, "us");
    compare = compared(p, m, false);
    CU_ASSERT_EQUAL(compare_headline(compare, "dispatch")->error_pct, -25);
    compare_free(compare);
    CU_ASSERT_TRUE(compare_phase_of_layer("dispatch_layer12"));
    CU_ASSERT_FALSE(compare_phase_of_layer("dispatch_layer"));
    CU_ASSERT_FALSE(compare_phase_of_layer("layer_1"));
    record_set(p, "layers", "1:2");
    record_set(m, "layer", "1");
    compare = compared(p, m, false);
    CU_ASSERT_EQUAL(row_of(compare, "dispatch", RECORD_ALL, "slowest_us")->predicted, 300);
    compare_free(compare);
    static const char *const others[] = { "0", "1:3", "all", "" };
    for (size_t i = 0; i < G_N_ELEMENTS(others); i++) {
        record_set(m, "layer", "%s", others[i]);
        g_autofree char *difference = compare_case_difference(p, m);
        CU_ASSERT_PTR_NOT_NULL(difference);
    }
}

/* For one step and layer, the slowest rank's time is the largest of the ranks' times.  For several, only "slowest_us"
 * gives it. */
TEST("the slowest rank")
{
    g_autoptr(record) p = record_of("simulate", 1);
    g_autoptr(record) m = record_of("replay", 1);
    CU_ASSERT_TRUE(isnan(compare_slowest_us(p, "dispatch")));
    record_add(p, "dispatch", RECORD_ALL, "time_us_max", 120, "us");
    record_add(m, "dispatch", RECORD_ALL, "time_us_max", 150, "us");
    CU_ASSERT_EQUAL(compare_slowest_us(p, "dispatch"), 120);
    g_autoptr(compare) compare = compared(p, m, false);
    const struct compare_row *row = compare_headline(compare, "dispatch");
    CU_ASSERT_STRING_EQUAL(row->metric, "slowest_us");
    CU_ASSERT_DOUBLE_EQUAL(row->error_pct, -20, 1e-9);
    CU_ASSERT_PTR_EQUAL(row, &g_array_index(compare->rows, struct compare_row, 0)); /* the first of all rows */
    CU_ASSERT_STRING_EQUAL(compare_headline(compare, "combine")->metric, "time_us");
    CU_ASSERT_PTR_NULL(compare_headline(compare, "layout"));
    g_autoptr(GString) words = g_string_new(NULL);
    compare_words_append(compare, false, words);
    CU_ASSERT_PTR_NOT_NULL(
        strstr(words->str, "dispatch: predicted 120.0 us, measured 150.0 us (slowest rank), 20.0 % too low.\ncombine: "
                           "predicted 200.0 us, measured 200.0 us (mean over ranks).\n"));
    record_set(p, "layers", "0:3");
    CU_ASSERT_TRUE(isnan(compare_slowest_us(p, "dispatch")));
    record_add(p, "dispatch", RECORD_ALL, "slowest_us", 300, "us");
    CU_ASSERT_EQUAL(compare_slowest_us(p, "dispatch"), 300);
}

/* A value that is not known has no error.  Nor has a measured zero. */
/* The most of a step's kernels is over all layers: the longest, and no rank's time. */
TEST("the longest kernel of a step")
{
    struct record *of[2];
    for (int r = 0; r < 2; r++) {
        of[r] = record_new();
        record_set(of[r], "kind", "step");
        record_add(of[r], "gate", RECORD_ALL, "time_us", 10, "us");
        record_add(of[r], "gate", RECORD_ALL, "time_us_max", r ? 30 : 20, "us");
    }
    g_autoptr(compare) compare = compared(of[0], of[1], false);
    g_autofree char *name = compare_row_name(MADE(row_of(compare, "gate", RECORD_ALL, "slowest_us")));
    CU_ASSERT_STRING_EQUAL(name, "longest");
    for (int r = 0; r < 2; r++) record_free(of[r]);
}

/* The most of a step's draws or of a measurement's repetitions is no rank's time. */
TEST("times that are not of ranks")
{
    static const struct {
        const char *kind, *phase, *sentence;
    } cases[] = {
        { "step", "step",
          "The second is 2.00 times faster: a step takes 200.0 us in the first and 100.0 us in the second.\n" },
        { "measure", "launch", "" },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct record *of[2];
        for (int r = 0; r < 2; r++) {
            of[r] = record_new();
            record_set(of[r], "kind", "%s", cases[i].kind);
            record_add(of[r], cases[i].phase, RECORD_ALL, "time_us", r ? 100 : 200, "us");
            record_add(of[r], cases[i].phase, RECORD_ALL, "time_us_min", 90, "us");
            record_add(of[r], cases[i].phase, RECORD_ALL, "time_us_max", r ? 900 : 201, "us");
        }
        g_autoptr(compare) compare = compared(of[0], of[1], false);
        g_autoptr(GString) text = g_string_new(NULL);
        compare_verdict_append(compare, text);
        CU_ASSERT_STRING_EQUAL(text->str, cases[i].sentence);
        CU_ASSERT_PTR_NULL(row_of(compare, cases[i].phase, RECORD_ALL, "slowest_us"));
        g_autofree char *name = compare_row_name(MADE(row_of(compare, cases[i].phase, RECORD_ALL, "time_us")));
        CU_ASSERT_STRING_EQUAL(name, "time");
        for (int r = 0; r < 2; r++) record_free(of[r]);
    }
}

/* A step's range over draws is given where one decimal of its milliseconds shows it. */
TEST("the draws of a step")
{
    static const double most_us[] = { 7700, 7704, 7760 };
    static const char *const text[] = { "The step takes 7.7 ms.\n", "The step takes 7.7 ms.\n",
                                        "The step takes 7.7 ms (7.7 to 7.8 by draws of GPUs).\n" };
    for (int i = 0; i < 3; i++) {
        g_autoptr(record) step = record_new();
        g_autoptr(GString) out = g_string_new(NULL);
        record_set(step, "kind", "step");
        record_add(step, "step", RECORD_ALL, "time_us", 7700, "us");
        record_add(step, "step", RECORD_ALL, "time_us_min", 7700, "us");
        record_add(step, "step", RECORD_ALL, "time_us_max", most_us[i], "us");
        compare_verdict_alone_append(step, out);
        CU_ASSERT_STRING_EQUAL(out->str, text[i]);
    }
}

/* Micro-benchmarks have a phase "step", too: the time of a worker's step. */
TEST("micro-benchmarks are no case")
{
    struct record *of[] = { record_new(), record_new() };
    for (int i = 0; i < 2; i++) {
        record_set(of[i], "kind", i ? "measure" : "step");
        record_add(of[i], "step", RECORD_ALL, "time_us", 10, "us");
    }
    g_autofree char *difference = compare_case_difference(of[0], of[1]);
    CU_ASSERT_STRING_EQUAL(difference, "kind: step against measure");
    CU_ASSERT_PTR_NULL(compare_case_difference(of[1], of[1]));
    for (int i = 0; i < 2; i++) record_free(of[i]);
}

/* Dispatch and combine of a replayed step are parts of it, and not kernels beside its compute. */
TEST("a step that was replayed")
{
    g_autoptr(record) step = record_new();
    g_autoptr(GString) out = g_string_new(NULL);
    record_set(step, "kind", "replay");
    record_set(step, "schedule", "sequential");
    record_add(step, "step", RECORD_ALL, "time_us", 800, "us");
    record_add(step, "step", RECORD_ALL, "time_us_min", 700, "us");
    record_add(step, "step", RECORD_ALL, "time_us_max", 900, "us");
    record_add(step, "dispatch", RECORD_ALL, "time_us", 200, "us");
    record_add(step, "combine", RECORD_ALL, "time_us", 300, "us");
    compare_verdict_alone_append(step, out);
    CU_ASSERT_STRING_EQUAL(out->str, "The step takes 800.0 us (700.0 to 900.0 over iterations).\n");
}

TEST("unknown values")
{
    g_autoptr(record) p = record_new();
    g_autoptr(record) m = record_new();
    record_add(p, "a", RECORD_ALL, "time_us", NAN, "us");
    record_add(m, "a", RECORD_ALL, "time_us", 1, "us");
    record_add(p, "b", RECORD_ALL, "time_us", 1, "us");
    record_add(m, "b", RECORD_ALL, "time_us", 0, "us");
    g_autoptr(compare) compare = compared(p, m, false);
    CU_ASSERT_PTR_NULL(row_of(compare, "a", RECORD_ALL, "time_us"));
    CU_ASSERT_TRUE(isnan(row_of(compare, "b", RECORD_ALL, "time_us")->error_pct));
}

TEST("what limits a phase")
{
    g_autoptr(record) p = record_of("simulate", 1);
    struct compare_limit limit;
    compare_limit_find(p, "dispatch", &limit);
    CU_ASSERT_PTR_NULL(limit.resource);
    CU_ASSERT_STRING_EQUAL(limit.bound, "");
    record_add_text(p, "dispatch", RECORD_ALL, "bottleneck", "nic_tx");
    record_add(p, "dispatch", RECORD_ALL, "bottleneck_busy_pct", 91, "%");
    record_add(p, "dispatch", RECORD_ALL, "busy_sm_pct", 95, "%");
    record_add(p, "dispatch", RECORD_ALL, "bound_send_us", 80, "us");
    record_add(p, "dispatch", RECORD_ALL, "bound_latency_us", 10, "us");
    record_add(p, "dispatch", RECORD_ALL, "time_us_max", 160, "us");
    record_add(p, "combine", RECORD_ALL, "bound_send_us", 999, "us");
    compare_limit_find(p, "dispatch", &limit);
    CU_ASSERT_STRING_EQUAL(limit.resource, "nic_tx");
    CU_ASSERT_EQUAL(limit.busy_pct, 91);
    CU_ASSERT_STRING_EQUAL(limit.bound, "send");
    CU_ASSERT_EQUAL(limit.bound_us, 80);
    CU_ASSERT_EQUAL(limit.efficiency_pct, 50);
    compare_limit_find(p, "combine", &limit); /* a mean over ranks does not tell how slow the slowest rank is */
    CU_ASSERT_TRUE(isnan(limit.efficiency_pct));
    g_autoptr(GString) words = g_string_new(NULL);
    compare_limit_append(p, "dispatch", words, "[", "]");
    CU_ASSERT_STRING_EQUAL(words->str, "[The bottleneck is nic_tx, busy 91 % of the time; the tightest bound is send "
                                       "(80.00 us), 50 % of the slowest rank's time.]");
    g_string_truncate(words, 0);
    compare_limit_append(p, "layout", words, "[", "]");
    CU_ASSERT_STRING_EQUAL(words->str, "");
    record_add_text(p, "notify", RECORD_ALL, "bottleneck", "sm");
    record_add_text(p, "notify", RECORD_ALL, "bottleneck_part", "busiest SM of rank 1");
    record_add_text(p, "copy", RECORD_ALL, "bottleneck", COMPARE_BEFORE);
    compare_limit_append(p, "notify", words, "", "");
    compare_limit_append(p, "copy", words, "", "");
    CU_ASSERT_STRING_EQUAL(words->str,
                           "The bottleneck is the busiest SM of rank 1.The bottleneck is the kernel before it.");
    g_string_truncate(words, 0);
    /* A measurement that beats the bound contradicts the cluster file. */
    g_autoptr(record) m = record_of("replay", 0.5);
    g_autoptr(compare) compare = compared(p, m, false);
    compare_words_append(compare, false, words);
    CU_ASSERT_PTR_NOT_NULL(strstr(words->str, "faster than the bound send allows"));
}

TEST("the spread of errors")
{
    static const double errors[] = { -1, 2, -3, 4, -30 };
    struct compare_spread spread;
    compare_spread_find(errors, 5, &spread);
    CU_ASSERT_EQUAL(spread.count, 5);
    CU_ASSERT_EQUAL(spread.median_pct, 3);
    CU_ASSERT_EQUAL(spread.worst_pct, 30);
    CU_ASSERT_EQUAL(spread.worst_index, 4);
    CU_ASSERT_DOUBLE_EQUAL(spread.bias_pct, -5.6, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(spread.p90_pct, 4 + 0.6 * 26, 1e-9);
    compare_spread_find(errors, 0, &spread);
    CU_ASSERT_EQUAL(spread.count, 0);
}
