/* test_wait_matrix.c - which ranks wait for which: matrices read from records, and shares worked out by hand. */
#include <math.h>
#include <string.h>

#include "reports/wait_matrix.h"
#include "tests/unit.h"

/* Makes a record of three ranks.  A phase takes 200 us on the median rank.  Waits of a rank for itself do not count. */
static struct record *record_of_three(void)
{
    static const double us[3][3] = { { 90, 100, 20 }, { 10, 0, 30 }, { 40, 140, 5 } };
    struct record *record = record_new();
    record_add(record, "dispatch", RECORD_ALL, "time_us", 210, "us");
    record_add(record, "dispatch", RECORD_ALL, "time_us_median", 200, "us");
    for (int32_t rank = 0; rank < 3; rank++) record_add_list(record, "dispatch", rank, "waits_us", us[rank], 3);
    return record;
}

static double share(const double *percent, const char *name)
{
    const uint32_t number = wait_share_find(name);
    CU_ASSERT_FATAL(number < WAIT_SHARES);
    CU_ASSERT_STRING_EQUAL(wait_share_name(number), name);
    return percent[number];
}

TEST("shares by hand")
{
    g_autoptr(record) record = record_of_three();
    double percent[WAIT_SHARES];
    CU_ASSERT_TRUE_FATAL(wait_shares_find(record, "dispatch", percent));
    /* Means in us, without the rank's own cell.  Columns: (10 + 40) / 2, (100 + 140) / 2, (20 + 30) / 2.  Rows: 60, 20,
     * 90.  Shares are percentages of 200 us. */
    CU_ASSERT_DOUBLE_EQUAL(share(percent, "awaited_max_pct"), 60, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(share(percent, "awaited_median_pct"), 12.5, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(share(percent, "awaited_min_pct"), 12.5, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(share(percent, "waiting_max_pct"), 45, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(share(percent, "waiting_median_pct"), 30, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(share(percent, "waiting_min_pct"), 10, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(share(percent, "longest_pct"), 50, 1e-9);  /* the longest waits are 100, 30 and 140 us, with
                                                                       * a median of 100 */
    CU_ASSERT_DOUBLE_EQUAL(share(percent, "shortest_pct"), 10, 1e-9); /* the shortest waits are 20, 10 and 40 us, with a
                                                                       * median of 20 */
    CU_ASSERT_EQUAL(wait_share_find("time_us_max"), WAIT_SHARES);
}

TEST("a matrix read")
{
    g_autoptr(record) record = record_of_three();
    struct wait_matrix m;
    CU_ASSERT_TRUE_FATAL(wait_matrix_read(record, "dispatch", &m));
    CU_ASSERT_EQUAL(m.ranks, 3);
    CU_ASSERT_EQUAL(m.us[2][1], 140);
    CU_ASSERT_EQUAL(wait_matrix_most_us(&m), 140);
    wait_matrix_clear(&m);
    CU_ASSERT_FALSE(wait_matrix_read(record, "combine", &m));
    CU_ASSERT_EQUAL(wait_matrix_most_us(&m), 0);
    wait_matrix_clear(&m);
}

/* If only a few of many ranks have rows, the matrix takes memory for those ranks only.  For all ranks it would take 34
 * GB. */
TEST("many ranks")
{
    enum { RANKS = 65536, BYTES = 2 * RANKS };
    g_autoptr(record) record = record_new();
    struct wait_matrix m;
    g_autofree double *awaited = g_new(double, RANKS);
    g_autofree char *text = g_malloc(BYTES);
    for (uint32_t i = 0; i < RANKS; i++) memcpy(text + 2 * i, i == 9 ? "7 " : "0 ", 2);
    text[BYTES - 1] = '\0';
    record_add_text(record, "combine", 3, "waits_us", text);
    record_add_text(record, "combine", 4, "waits_us", text);
    CU_ASSERT_TRUE_FATAL(wait_matrix_read(record, "combine", &m));
    CU_ASSERT_EQUAL(m.ranks, RANKS);
    CU_ASSERT_EQUAL(wait_matrix_most_us(&m), 7);
    wait_matrix_awaited(&m, 0, awaited);
    CU_ASSERT_EQUAL(awaited[9], 7);
    CU_ASSERT_TRUE(isnan(awaited[8]));
    wait_matrix_awaited(&m, -INFINITY, awaited);
    CU_ASSERT_EQUAL(awaited[8], 0);
    wait_matrix_clear(&m);
}

/* Rank 2 has no row, as if it were masked.  Rank 1's list has the wrong length, so it is ignored.  As long as the phase
 * has no time, there are no shares. */
TEST("rows that are missing")
{
    const double us[3] = { 0, 30, 50 }, two[2] = { 1, 2 };
    double percent[WAIT_SHARES];
    g_autoptr(record) record = record_new();
    record_add_list(record, "combine", 0, "waits_us", us, 3);
    record_add_list(record, "combine", 1, "waits_us", two, 2);
    CU_ASSERT_FALSE(wait_shares_find(record, "combine", percent));
    record_add(record, "combine", RECORD_ALL, "time_us_median", 100, "us");
    CU_ASSERT_TRUE_FATAL(wait_shares_find(record, "combine", percent));
    CU_ASSERT_DOUBLE_EQUAL(share(percent, "waiting_max_pct"), 40, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(share(percent, "awaited_max_pct"), 50, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(share(percent, "awaited_min_pct"), 30, 1e-9);
    struct wait_matrix m;
    CU_ASSERT_TRUE_FATAL(wait_matrix_read(record, "combine", &m));
    CU_ASSERT_PTR_NULL(m.us[1]);
    wait_matrix_clear(&m);
}
