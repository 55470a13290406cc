/* test_timeline.c - what the recorder keeps and the exact JSON that it writes; names that JSON must escape,
 * the ring when it is full, times at the end of the clock, a disk that is full. */
#include "sim/timeline.h"
#include "tests/unit.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void assert_saved_text(const struct timeline *timeline, const char *expected)
{
    char *text = NULL;
    size_t size = 0;
    FILE *const out = open_memstream(&text, &size);

    CU_ASSERT_EQUAL(timeline_write(timeline, out), 0);
    fclose(out);
    CU_ASSERT_STRING_EQUAL(text, expected);
    free(text);
}

static void test_json_exactly(void)
{
    struct timeline *const timeline = timeline_new(4);

    timeline_name_process(timeline, 3, "rank 3");
    timeline_name_track(timeline, 3, 1, "a \"port\"\\\n");
    timeline_span(timeline, &(struct timeline_span){ "put", 1, 2000003, 4096, 3, 1, NULL });
    timeline_span(timeline, &(struct timeline_span){ "wait", 7, 7, 0, 3, 2, NULL });
    assert_saved_text(timeline,
                      "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"spans_lost\":\"0\"},\"traceEvents\":[\n"
                      "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":3,\"tid\":0,\"args\":{\"name\":\"rank 3\"}},\n"
                      "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":3,\"tid\":1,"
                      "\"args\":{\"name\":\"a \\\"port\\\"\\\\\\u000a\"}},\n"
                      "{\"name\":\"put\",\"ph\":\"X\",\"pid\":3,\"tid\":1,\"ts\":0.000001,\"dur\":2.000002,"
                      "\"args\":{\"bytes\":4096}},\n"
                      "{\"name\":\"wait\",\"ph\":\"X\",\"pid\":3,\"tid\":2,\"ts\":0.000007,\"dur\":0.000000}\n]}\n");
    timeline_free(timeline);
}

static void test_nothing_recorded(void)
{
    struct timeline *const timeline = timeline_new(1);

    assert_saved_text(timeline, "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"spans_lost\":\"0\"},"
                                "\"traceEvents\":[\n]}\n");
    timeline_free(timeline);
    timeline_free(NULL);
    timeline_span(NULL, &(struct timeline_span){ "off", 2, 1, 0, 0, 0, NULL }); /* not even looked at */
}

static void test_full_ring_loses_the_oldest(void)
{
    struct timeline *const timeline = timeline_new(2);

    for (uint64_t i = 0; i < 5; i++)
        timeline_span(timeline, &(struct timeline_span){ "s", i, UINT64_MAX - 1 + (i == 4), 0, 0, 0, NULL });
    CU_ASSERT_EQUAL(timeline_span_count(timeline), 2);
    CU_ASSERT_EQUAL(timeline_span_count_lost(timeline), 3);
    assert_saved_text(
        timeline, "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"spans_lost\":\"3\"},\"traceEvents\":[\n"
                  "{\"name\":\"s\",\"ph\":\"X\",\"pid\":0,\"tid\":0,\"ts\":0.000003,\"dur\":18446744073709.551611},\n"
                  "{\"name\":\"s\",\"ph\":\"X\",\"pid\":0,\"tid\":0,\"ts\":0.000004,\"dur\":18446744073709.551611}\n"
                  "]}\n");
    timeline_free(timeline);
}

/* Events come by time, in whatever order they were recorded; arrows have two ends of one number, counters sums. */
static void test_arrows_and_counters(void)
{
    struct timeline *const timeline = timeline_new(8);
    const uint32_t queue = timeline_counter(timeline, 1, "queue"), other = timeline_counter(timeline, 2, "queue");
    char words[] = "waits for rank 3";
    const char *const kept = timeline_keep(timeline, words);

    CU_ASSERT_PTR_EQUAL(timeline_keep(timeline, "waits for rank 3"), kept);
    CU_ASSERT_PTR_NOT_EQUAL(kept, words);
    timeline_count(timeline, queue, 9000000, -1);
    timeline_count(timeline, queue, 2000000, 1);
    timeline_count(timeline, other, 3000000, 4096);
    timeline_arrow(timeline, &(struct timeline_arrow){ "put", 1000000, 5000000, 1, 7, 2, 8 });
    timeline_span(timeline, &(struct timeline_span){ "wait", 4000000, 6000000, 8, 2, 8, kept });
    assert_saved_text(
        timeline, "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"spans_lost\":\"0\"},\"traceEvents\":[\n"
                  "{\"name\":\"put\",\"cat\":\"arrow\",\"ph\":\"s\",\"id\":3,\"pid\":1,\"tid\":7,\"ts\":1.000000},\n"
                  "{\"name\":\"queue\",\"ph\":\"C\",\"pid\":1,\"ts\":2.000000,\"args\":{\"value\":1}},\n"
                  "{\"name\":\"queue\",\"ph\":\"C\",\"pid\":2,\"ts\":3.000000,\"args\":{\"value\":4096}},\n"
                  "{\"name\":\"wait\",\"ph\":\"X\",\"pid\":2,\"tid\":8,\"ts\":4.000000,\"dur\":2.000000,"
                  "\"args\":{\"bytes\":8,\"for\":\"waits for rank 3\"}},\n"
                  "{\"name\":\"put\",\"cat\":\"arrow\",\"ph\":\"f\",\"bp\":\"e\",\"id\":3,\"pid\":2,\"tid\":8,"
                  "\"ts\":5.000000},\n"
                  "{\"name\":\"queue\",\"ph\":\"C\",\"pid\":1,\"ts\":9.000000,\"args\":{\"value\":0}}\n]}\n");
    timeline_free(timeline);
}

/* A counter goes on from the changes that the ring has lost, and an arrow goes with both its ends. */
static void test_lost_changes(void)
{
    struct timeline *const timeline = timeline_new(2);
    const uint32_t queue = timeline_counter(timeline, 0, "q");

    timeline_arrow(timeline, &(struct timeline_arrow){ "put", 1, 9000000, 0, 0, 0, 0 });
    for (uint64_t i = 1; i <= 5; i++) timeline_count(timeline, queue, i * 1000000, 1);
    assert_saved_text(timeline, "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"spans_lost\":\"4\"},\"traceEvents\":[\n"
                                "{\"name\":\"q\",\"ph\":\"C\",\"pid\":0,\"ts\":4.000000,\"args\":{\"value\":4}},\n"
                                "{\"name\":\"q\",\"ph\":\"C\",\"pid\":0,\"ts\":5.000000,\"args\":{\"value\":5}}\n]}\n");
    timeline_free(timeline);
}

static void test_full_disk(void)
{
    struct timeline *const timeline = timeline_new(100);
    FILE *const full = fopen("/dev/full", "w");

    for (uint64_t i = 0; i < 100; i++) timeline_span(timeline, &(struct timeline_span){ "s", i, i + 1, 0, 0, 0, NULL });
    CU_ASSERT_EQUAL(timeline_write(timeline, full), -ENOSPC);
    fclose(full);
    timeline_free(timeline);
}

const char unit_suite[] = "timeline";

void unit_tests(CU_pSuite suite)
{
    CU_add_test(suite, "json exactly", test_json_exactly);
    CU_add_test(suite, "nothing recorded", test_nothing_recorded);
    CU_add_test(suite, "full ring loses the oldest", test_full_ring_loses_the_oldest);
    CU_add_test(suite, "arrows and counters", test_arrows_and_counters);
    CU_add_test(suite, "lost changes", test_lost_changes);
    CU_add_test(suite, "full disk", test_full_disk);
}
