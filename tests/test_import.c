/* test_import.c - logs of other programs as rows: what all readers share, and the traps of each format.
 * tests/cli/import_*.sh test whole logs and their tables.  Here are tests of numbers, of units, and of lines that must
 * not be read. */
#include <math.h>
#include <string.h>

#include "reports/import/import_table.h"
#include "tests/unit.h"

static struct import_log *log_of(const char *text)
{
    g_autofree char *copy = g_strdup(text);
    GError *error = NULL;
    struct import_log *log = import_log_parse("log", copy, strlen(copy), &error);
    CU_ASSERT_PTR_NULL_FATAL(error);
    return log;
}

static const struct import_row *row_of(const struct import_log *log, guint index)
{
    CU_ASSERT_FATAL(index < log->rows->len);
    return g_ptr_array_index(log->rows, index);
}

TEST("scanning")
{
    uint32_t whole;
    double number;
    CU_ASSERT_STRING_EQUAL(import_scan("SMs 24, x", "SMs %u,", &whole), " x");
    CU_ASSERT_EQUAL(whole, 24);
    CU_ASSERT_STRING_EQUAL(import_scan("t:   1.50 us", "t: %f us", &number), "");
    CU_ASSERT_EQUAL(number, 1.5);
    CU_ASSERT_PTR_NULL(import_scan("-1.5", "%f", &number));
    CU_ASSERT_PTR_NULL(import_scan("nan", "%f", &number));
    CU_ASSERT_PTR_NULL(import_scan("0x10", "%f", &number));
    CU_ASSERT_PTR_NULL(import_scan("4294967296", "%u", &whole));
    CU_ASSERT_PTR_NULL(import_scan("99999999999", "%u", &whole));
    CU_ASSERT_PTR_NULL(import_scan("1e999", "%f", &number));
    CU_ASSERT_TRUE(import_number_read("1.5e3", &number));
    CU_ASSERT_FALSE(import_number_read("12x", &number));
    g_auto(GStrv) words = import_words("# Size      Bandwidth (MB/s)\tA b", 2);
    CU_ASSERT_EQUAL(g_strv_length(words), 3);
    CU_ASSERT_STRING_EQUAL(words[1], "Bandwidth (MB/s)");
}

TEST("cleaning")
{
    static const struct {
        const char *raw, *clean;
    } lines[] = {
        { "\x1b[1;32mtext\x1b[0m\r", "text" },
        { "\x1b]0;title\a[tuning]", "[tuning]" },
        { " 10 %\r 50 %\rdone", "done" },
        { "[1,3]<stdout>:word", "word" },
        { "12: word", "word" },
        { "12:30 word", "12:30 word" },
        { "2025-09-15T16:28:53Z stdout F word", "word" },
        { "cut \x1b[", "cut" },
        { "SMs 24: _**29.92 GB/s**_ (RDMA), **60 GB/s**", "SMs 24: 29.92 GB/s (RDMA), 60 GB/s" },
        { "**_13.59 GB/s_**", "13.59 GB/s" },
        { "****** a_b * c", "****** a_b * c" },
        { "**", "" },
        { "(NVL\xef\xbc\x89", "(NVL)" },
        { "\xef\xbc\x80\xef\xbc", "\xef\xbc\x80\xef\xbc" },
        { "_", "_" },
        { "cut \x1b", "cut" },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(lines); i++) {
        g_autofree char *copy = g_strdup(lines[i].raw);
        CU_ASSERT_STRING_EQUAL(import_line_clean(copy, strlen(copy)), lines[i].clean);
    }
    char with_nul[] = { 'a', '\0', 'b', '\0' };
    CU_ASSERT_STRING_EQUAL(import_line_clean(with_nul, 3), "a?b");
}

/* OSU's MB is 1e6 bytes, both in the table of one pair and in that of several pairs. */
TEST("bandwidths of one pair and of several")
{
    static const char *const logs[] = {
        "# OSU MPI Bandwidth Test v7.5\n# Size      Bandwidth (MB/s)\n65536  24310.50\n",
        "# OSU MPI Multiple Bandwidth / Message Rate Test v7.5\n"
        "# Size                  MB/s        Messages/s\n65536  24310.50  370949.0\n"
    };
    for (size_t i = 0; i < G_N_ELEMENTS(logs); i++) {
        g_autoptr(import_log) log = log_of(logs[i]);
        CU_ASSERT_EQUAL_FATAL(log->rows->len, 1);
        CU_ASSERT_DOUBLE_EQUAL(row_of(log, 0)->number[IMPORT_NATIVE_GBS], 24.3105, 1e-9);
    }
}

/* The quotient of two printed bandwidths is (n - 1) / n for n ranks.  So n is known, unless too few digits are printed.
 */
TEST("ranks from bandwidths")
{
    CU_ASSERT_EQUAL(import_bus_ranks(477.87, 358.40), 4);
    CU_ASSERT_EQUAL(import_bus_ranks(40.00, 35.00), 8);
    CU_ASSERT_EQUAL(import_bus_ranks(1.00, 0.99), 0);
    CU_ASSERT_EQUAL(import_bus_ranks(39.20, 73.51), 0);
    CU_ASSERT_EQUAL(import_bus_ranks(0, 0), 0);
}

/* All formats in which versions of DeepEP's normal tests print. */
TEST("tuning dialects")
{
    static const struct {
        const char *line;
        double us, notify_us, rdma, nvl;
        uint32_t rows;
    } lines[] = {
        { "[tuning] Best dispatch (FP8): SMs 24, NVL chunk 30, 352.43 GB/s (NVL), t: 453.49 us", 453.49, NAN, NAN,
          352.43, 1 },
        { "[tuning] Best combine: SMs 24, NVL chunk 15: 399.63 GB/s (NVL), t: 775.61 us", 775.61, NAN, NAN, 399.63, 1 },
        { "[tuning] Best dispatch (FP8): SMs 24, NVL chunk 8, 326.56 GB/s (NVL)", NAN, NAN, NAN, 326.56, 1 },
        { "[tuning] Best dispatch (BF16): SMs 20, NVL chunk 8, 300.00 GB/s (NVL) t=0.5ms", 500, NAN, NAN, 300, 1 },
        { "[tuning] Best dispatch (FP8): SMs 24, NVL chunk 24, RDMA chunk 8: 437 + 2412 us, 50.08 GB/s (RDMA), 99.93 "
          "GB/s (NVL)",
          2412, 437, 50.08, 99.93, 2 },
        { "[tuning] Best combine: SMs 24, NVL chunk 2, RDMA chunk 8, 570.70 + 4566.00 us, 51.31 GB/s (RDMA), 102.37 "
          "GB/s (NVL)",
          4566, 570.7, 51.31, 102.37, 2 },
        { "[tuning] Best combine: SMs 24, NVL chunk 2, RDMA chunk 20: 44.37 GB/s (RDMA), 145.16 GB/s (NVL)", NAN, NAN,
          44.37, 145.16, 1 },
        { "[tuning] Best dispatch (FP8): SMs 24, NVL chunk 2, RDMA chunk 8, transmit: 1403.00 us, notify: 44.00 us, "
          "BW: 43.20 GB/s (RDMA), 141.00 GB/s (NVL)",
          1403, 44, 43.2, 141, 2 },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(lines); i++) {
        g_autoptr(import_log) log = log_of(lines[i].line);
        CU_ASSERT_EQUAL_FATAL(log->rows->len, lines[i].rows);
        /* The kernel's row comes first, wherever in the line notify is named. */
        const struct import_row *row = row_of(log, 0);
        CU_ASSERT_PTR_NULL(strstr(row->cell[IMPORT_PHASE], "notify"));
        CU_ASSERT(isnan(lines[i].us) ? isnan(row->number[IMPORT_US]) : row->number[IMPORT_US] == lines[i].us);
        CU_ASSERT(isnan(lines[i].rdma) ? isnan(row->number[IMPORT_LOGICAL_RDMA_GBS])
                                       : row->number[IMPORT_LOGICAL_RDMA_GBS] == lines[i].rdma);
        CU_ASSERT_EQUAL(row->number[IMPORT_LOGICAL_NVL_GBS], lines[i].nvl);
        if (lines[i].rows == 2) CU_ASSERT_EQUAL(row_of(log, 1)->number[IMPORT_US], lines[i].notify_us);
    }
}

TEST("tuning refused")
{
    static const char *const lines[] = {
        "[tuning] Best dispatch (FP8): SMs 24, NVL chunk 30, 352.43 Gb/s (NVL), t: 453.49 us",
        "[tuning] Best dispatch (FP8): SMs 24, NVL chunk 30",
        "[tuning] Best dispatch (FP8): SMs , NVL chunk 30, 352.43 GB/s (NVL)",
        "[tuning] Best dispatch (FP8): SMs 24, NVL chunk 30, 352.43 GB/s (NVL), t: 453.49 ms",
        "[rank 0] Dispatch bandwidth: 28.92 MB/s, avg_t=259.77 us | Combine bandwidth: 54.70 GB/s, avg_t=265.75 us",
        "EP: 5/4 | dispatch: 0 GB/s (SO), 860 GB/s (SU), 293.515 us, 252328160 bytes",
    };
    for (size_t i = 0; i < G_N_ELEMENTS(lines); i++) {
        g_autoptr(import_log) log = log_of(lines[i]);
        CU_ASSERT_EQUAL(log->rows->len, 0);
        CU_ASSERT_EQUAL(log->unknown_count, 1);
    }
}

/* Rows are merged as the median over ranks of each rank's median, so a rank that printed often counts once. */
TEST("merging")
{
    g_autoptr(import_log) log = log_of(
        "[rank 0] Dispatch bandwidth: 1.00 GB/s, avg_t=10.00 us | Combine bandwidth: 1.00 GB/s, avg_t=1.00 us\n"
        "[rank 1] Dispatch bandwidth: 1.00 GB/s, avg_t=20.00 us | Combine bandwidth: 1.00 GB/s, avg_t=1.00 us\n"
        "[rank 2] Dispatch bandwidth: 1.00 GB/s, avg_t=30.00 us | Combine bandwidth: 1.00 GB/s, avg_t=1.00 us\n"
        "[rank 2] Dispatch bandwidth: 1.00 GB/s, avg_t=30.00 us | Combine bandwidth: 1.00 GB/s, avg_t=1.00 us\n"
        "[rank 2] Dispatch bandwidth: 1.00 GB/s, avg_t=30.00 us | Combine bandwidth: 1.00 GB/s, avg_t=1.00 us\n");
    g_autoptr(GPtrArray) merged = import_rows_merge(log->rows);
    CU_ASSERT_EQUAL_FATAL(merged->len, 2);
    const struct import_row *row = g_ptr_array_index(merged, 0);
    CU_ASSERT_EQUAL(row->number[IMPORT_US], 20);
    CU_ASSERT_EQUAL(row->ranks, 3);
    CU_ASSERT_EQUAL(row->lines, 5);
    CU_ASSERT_EQUAL(row->rank, IMPORT_NO_RANK);
    CU_ASSERT_STRING_EQUAL(row->cell[IMPORT_NUM_RANKS], "3");
}

/* Options that are given fill in what the log leaves open.  With a message, they also replace what the log states, but
 * never the kernel. */
TEST("filling")
{
    struct import_log *log =
        log_of("[config] num_tokens=4096, hidden=7168, num_topk_groups=4, num_topk=8\n"
               "[tuning] Best combine: SMs 24, NVL chunk 2, RDMA chunk 20: 44.37 GB/s (RDMA), 145.16 GB/s (NVL)\n");
    const struct import_given given[] = {
        { "kernel", "ll" }, { "num-ranks", "32" }, { "hidden", "1024" }, { "num-experts", "64" }
    };
    g_autoptr(GString) said = g_string_new(NULL);
    const struct import_row *row = row_of(log, 0);
    CU_ASSERT_STRING_EQUAL(row->cell[IMPORT_NUM_RANKS], "?");
    import_rows_fill(log->rows, given, 4, said);
    CU_ASSERT_STRING_EQUAL(row->cell[IMPORT_KERNEL], "normal");
    CU_ASSERT_STRING_EQUAL(row->cell[IMPORT_NUM_RANKS], "32");
    CU_ASSERT_STRING_EQUAL(row->cell[IMPORT_HIDDEN], "1024");
    CU_ASSERT_STRING_EQUAL(said->str, "--kernel ll: without effect on 1 row of tests of normal\n"
                                      "--hidden 1024: instead of the log's 7168, in 1 row\n");
    CU_ASSERT_STRING_EQUAL(row->cell[IMPORT_NUM_EXPERTS], "64");
    import_log_free(log);
}

/* The unit of the bandwidths in perftest's JSON follows from the message rate. */
TEST("perftest units")
{
    static const struct {
        const char *rate;
        double average, gbs;
    } cases[] = {
        { "0.349045", 183.00, 22.875 },        /* Gb/s */
        { "0.176395", 11024.71, 11.56024630 }, /* MiB/s */
        { "0.100000", 11024.71, NAN },         /* fits neither unit */
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *text =
            g_strdup_printf("{\"test_info\": {\"test\": \"RDMA_Write_BW_Test\"}, \"results\": {\"MsgSize\": "
                            "65536, \"BW_peak\": 0.00, \"BW_average\": %.2f, \"MsgRate\": %s}}",
                            cases[i].average, cases[i].rate);
        g_autoptr(import_log) log = log_of(text);
        CU_ASSERT_EQUAL(log->rows->len, isnan(cases[i].gbs) ? 0 : 1);
        if (log->rows->len) {
            CU_ASSERT_DOUBLE_EQUAL(row_of(log, 0)->number[IMPORT_NATIVE_GBS], cases[i].gbs, 1e-6);
            CU_ASSERT(isnan(row_of(log, 0)->number[IMPORT_NATIVE_PEAK_GBS])); /* 0.00 means "not measured" */
        }
    }
}

/* With a single PE, busbw is 0 in the whole table, because no collective was timed. */
TEST("nvshmem alone")
{
    struct import_log *log =
        log_of("#alltoall_device\n"
               "size(B)     count     type      scope     latency(us)       algbw(GB/s)   busbw(GB/s)\n"
               "1024        256       32-bit    thread    8.120000          0.119         0.000\n"
               "131072      32768     32-bit    thread    19.460000         6.760         0.000\n");
    CU_ASSERT_EQUAL(log->rows->len, 2);
    CU_ASSERT_EQUAL_FATAL(log->notes->len, 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(g_ptr_array_index(log->notes, 0), "one PE"));
    import_log_free(log);
}
