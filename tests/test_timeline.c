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
    timeline_span(timeline, &(struct timeline_span){ "put", 1, 2000003, 4096, 3, 1 });
    timeline_span(timeline, &(struct timeline_span){ "wait", 7, 7, 0, 3, 2 });
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
    timeline_span(NULL, &(struct timeline_span){ "off", 2, 1, 0, 0, 0 }); /* not even looked at */
}

static void test_full_ring_loses_the_oldest(void)
{
    struct timeline *const timeline = timeline_new(2);

    for (uint64_t i = 0; i < 5; i++)
        timeline_span(timeline, &(struct timeline_span){ "s", i, UINT64_MAX - 1 + (i == 4), 0, 0, 0 });
    CU_ASSERT_EQUAL(timeline_span_count(timeline), 2);
    CU_ASSERT_EQUAL(timeline_span_count_lost(timeline), 3);
    assert_saved_text(
        timeline, "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"spans_lost\":\"3\"},\"traceEvents\":[\n"
                  "{\"name\":\"s\",\"ph\":\"X\",\"pid\":0,\"tid\":0,\"ts\":0.000003,\"dur\":18446744073709.551611},\n"
                  "{\"name\":\"s\",\"ph\":\"X\",\"pid\":0,\"tid\":0,\"ts\":0.000004,\"dur\":18446744073709.551611}\n"
                  "]}\n");
    timeline_free(timeline);
}

static void test_full_disk(void)
{
    struct timeline *const timeline = timeline_new(100);
    FILE *const full = fopen("/dev/full", "w");

    for (uint64_t i = 0; i < 100; i++) timeline_span(timeline, &(struct timeline_span){ "s", i, i + 1, 0, 0, 0 });
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
    CU_add_test(suite, "full disk", test_full_disk);
}
