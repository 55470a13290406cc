/* test_timeline.c - the entries that the recorder keeps, and the exact JSON that it writes.  Also names that JSON must
 * escape, text longer than any buffer, times at the end of the clock, and a sink that fails. */
#include "sim/timeline.h"
#include "tests/unit.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_BYTES_MAX = 1 << 20 };

/* A sink that keeps what is written, as far as there is room. */
struct text {
    size_t size_bytes, room_bytes;
    uint32_t failures;
    char bytes[TEXT_BYTES_MAX];
};

static bool text_take(void *context, const void *text, size_t size_bytes)
{
    struct text *const t = context;
    if (t->size_bytes + size_bytes > t->room_bytes) return t->failures++, false;
    memcpy(t->bytes + t->size_bytes, text, size_bytes);
    t->size_bytes += size_bytes;
    return true;
}

static struct text *text_new(size_t room_bytes)
{
    struct text *const text = MADE(calloc(1, sizeof *text));
    text->room_bytes = room_bytes;
    return text;
}

static struct timeline *timeline_into(struct text *text)
{
    return timeline_new(&(struct timeline_sink){ text_take, text });
}

static void assert_text(struct timeline *timeline, struct text *text, const char *expected)
{
    CU_ASSERT_TRUE(timeline_end(timeline));
    CU_ASSERT_STRING_EQUAL(text->bytes, expected);
    timeline_free(timeline);
    free(text);
}

TEST("json exactly")
{
    struct text *const text = text_new(TEXT_BYTES_MAX - 1);
    struct timeline *const timeline = timeline_into(text);
    timeline_name_process(timeline, 3, "rank 3");
    timeline_name_track(timeline, 3, 1, "a \"port\"\\\n");
    timeline_span(timeline, &(struct timeline_span){ "put", 1, 2000003, 4096, 3, 1, NULL });
    timeline_span(timeline, &(struct timeline_span){ "wait", 7, 7, 0, 3, 2, NULL });
    assert_text(timeline, text,
                "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n"
                "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":3,\"tid\":0,\"args\":{\"name\":\"rank 3\"}},\n"
                "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":3,\"tid\":1,\"args\":{\"name\":\"a "
                "\\\"port\\\"\\\\\\u000a\"}},\n"
                "{\"name\":\"put\",\"ph\":\"X\",\"pid\":3,\"tid\":1,\"ts\":0.000001,\"dur\":2.000002,\"args\":{"
                "\"bytes\":4096}},\n"
                "{\"name\":\"wait\",\"ph\":\"X\",\"pid\":3,\"tid\":2,\"ts\":0.000007,\"dur\":0.000000}\n],"
                "\"otherData\":{\"spans_lost\":\"0\"}}\n");
}

/* The recorder checks eight characters at once.  So each special character is tried at each place, also in names that
 * are longer than a piece of the buffer. */
TEST("special characters at every place")
{
    static const struct {
        char character;
        const char *written;
    } special[] = { { '"', "\\\"" }, { '\\', "\\\\" }, { '\x1f', "\\u001f" }, { ' ', " " }, { '\xc3', "\xc3" } };
    enum { NAME_BYTES = 150 };
    for (size_t i = 0; i < sizeof special / sizeof special[0]; i++)
        for (uint32_t place = 0; place < NAME_BYTES; place++) {
            char name[NAME_BYTES + 1], expected[2 * NAME_BYTES];
            memset(name, 'a', NAME_BYTES);
            name[NAME_BYTES] = '\0';
            snprintf(expected, sizeof expected, "\"%.*s%s%s\"", (int)place, name, special[i].written, &name[place + 1]);
            name[place] = special[i].character;
            g_autofree struct text *text = text_new(TEXT_BYTES_MAX - 1);
            g_autoptr(timeline) timeline = timeline_into(text);
            timeline_name_process(timeline, 0, name);
            CU_ASSERT_TRUE(timeline_end(timeline));
            CU_ASSERT_PTR_NOT_NULL(strstr(text->bytes, expected));
        }
}

TEST("tracks of workers")
{
    g_autofree struct text *text = text_new(TEXT_BYTES_MAX - 1);
    g_autoptr(timeline) timeline = timeline_into(text);
    timeline_name_worker(timeline, 3, 1, UINT32_MAX, ", twenty characters.");
    CU_ASSERT_TRUE(timeline_end(timeline));
    CU_ASSERT_PTR_NOT_NULL(strstr(text->bytes, "{\"name\":\"worker 4294967295, twenty characters.\"}"));
}

TEST("nothing recorded")
{
    struct text *const text = text_new(TEXT_BYTES_MAX - 1);
    struct timeline *const timeline = timeline_into(text);
    timeline_span(NULL, &(struct timeline_span){ "off", 2, 1, 0, 0, 0, NULL }); /* a recorder that is off ignores the
                                                                                 * span */
    timeline_lose(timeline, 3);
    CU_ASSERT_EQUAL(timeline_lost_count(timeline), 3);
    assert_text(timeline, text,
                "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n],\"otherData\":{\"spans_lost\":\"3\"}}\n");
    timeline_free(NULL);
}

/* Numbers of every length, as printf() writes them. */
TEST("numbers")
{
    uint64_t power = 1;
    for (int i = 0; i <= 39; i++) { /* 0, 1, 9, 10, 99, ... */
        const uint64_t n = i % 2 ? power : power - 1;
        g_autofree struct text *text = text_new(TEXT_BYTES_MAX - 1);
        struct timeline *const timeline = timeline_into(text);
        char expected[512];
        timeline_span(timeline, &(struct timeline_span){ "s", n, UINT64_MAX, n, 7, (uint32_t)n, NULL });
        snprintf(
            expected, sizeof expected,
            "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{\"name\":\"s\",\"ph\":\"X\",\"pid\":7,\"tid\":%" PRIu32
            ",\"ts\":%" PRIu64 ".%06" PRIu64 ",\"dur\":%" PRIu64 ".%06" PRIu64 "%s",
            (uint32_t)n, n / 1000000, n % 1000000, (UINT64_MAX - n) / 1000000, (UINT64_MAX - n) % 1000000,
            n ? ",\"args\":{\"bytes\":" : "}\n");
        CU_ASSERT_TRUE(timeline_end(timeline));
        CU_ASSERT_EQUAL(strncmp(text->bytes, expected, strlen(expected)), 0);
        snprintf(expected, sizeof expected, "\"bytes\":%" PRIu64 "}}", n);
        CU_ASSERT(!n || strstr(text->bytes, expected));
        timeline_free(timeline);
        if (i % 2) power *= 10;
    }
}

/* More text than the buffer holds, in one name and in many entries, must arrive whole. */
TEST("long")
{
    enum { NAME_BYTES = 200000, SPANS = 4000 };
    g_autofree struct text *text = text_new(TEXT_BYTES_MAX - 1);
    g_autoptr(timeline) timeline = timeline_into(text);
    g_autofree char *name = malloc(NAME_BYTES + 1);
    uint32_t count = 0;
    memset(name, 'n', NAME_BYTES);
    name[NAME_BYTES] = '\0';
    timeline_name_process(timeline, 0, name);
    for (uint32_t i = 0; i < SPANS; i++)
        timeline_span(timeline, &(struct timeline_span){ "s", i, i + 1, 4096, 1, i, "d" });
    CU_ASSERT_TRUE(timeline_end(timeline));
    CU_ASSERT_PTR_NOT_NULL(strstr(text->bytes, name));
    for (const char *at = text->bytes; (at = strstr(at, "{\"name\":\"s\",\"ph\":\"X\",\"pid\":1,\"tid\":")); count++) {
        char rest[96];
        at += strlen("{\"name\":\"s\",\"ph\":\"X\",\"pid\":1,\"tid\":");
        snprintf(rest, sizeof rest, "%u,\"ts\":0.%06u,\"dur\":0.000001,\"args\":{\"bytes\":4096,\"for\":\"d\"}}", count,
                 count);
        if (strncmp(at, rest, strlen(rest)) != 0) break;
    }
    CU_ASSERT_EQUAL(count, SPANS);
    CU_ASSERT_EQUAL(timeline_entry_count(timeline), SPANS);
}

/* Spans and arrows are written as they are recorded.  Counters are written at the end, sorted by time.  The two ends of
 * an arrow have the same id.  Counters have sums, and changes at one moment become one. */
TEST("arrows and counters")
{
    struct text *const text = text_new(TEXT_BYTES_MAX - 1);
    struct timeline *const timeline = timeline_into(text);
    const uint32_t queue = timeline_counter(timeline, 1, "queue"), other = timeline_counter(timeline, 2, "queue");
    timeline_count(timeline, queue, 9000000, -2);
    timeline_count(timeline, queue, 2000000, 1);
    timeline_count(timeline, other, 3000000, 4096);
    timeline_count(timeline, queue, 2000000, -3);
    timeline_arrow(timeline, &(struct timeline_arrow){ "put", 1000000, 5000000, 1, 7, 2, 8 });
    timeline_arrow(timeline, &(struct timeline_arrow){ "put", 4000000, 4000000, 2, 8, 1, 7 });
    timeline_span(timeline, &(struct timeline_span){ "wait", 4000000, 6000000, 8, 2, 8, "waits for rank 3" });
    CU_ASSERT_EQUAL(timeline_entry_count(timeline), 7);
    assert_text(
        timeline, text,
        "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n"
        "{\"name\":\"put\",\"cat\":\"arrow\",\"ph\":\"s\",\"id\":0,\"pid\":1,\"tid\":7,\"ts\":1.000000},\n"
        "{\"name\":\"put\",\"cat\":\"arrow\",\"ph\":\"f\",\"bp\":\"e\",\"id\":0,\"pid\":2,\"tid\":8,\"ts\":5.000000},\n"
        "{\"name\":\"put\",\"cat\":\"arrow\",\"ph\":\"s\",\"id\":1,\"pid\":2,\"tid\":8,\"ts\":4.000000},\n"
        "{\"name\":\"put\",\"cat\":\"arrow\",\"ph\":\"f\",\"bp\":\"e\",\"id\":1,\"pid\":1,\"tid\":7,\"ts\":4.000000},\n"
        "{\"name\":\"wait\",\"ph\":\"X\",\"pid\":2,\"tid\":8,\"ts\":4.000000,\"dur\":2.000000,\"args\":{\"bytes\":8,"
        "\"for\":\"waits for rank 3\"}},\n"
        "{\"name\":\"queue\",\"ph\":\"C\",\"pid\":1,\"ts\":2.000000,\"args\":{\"value\":-2}},\n"
        "{\"name\":\"queue\",\"ph\":\"C\",\"pid\":1,\"ts\":9.000000,\"args\":{\"value\":-4}},\n"
        "{\"name\":\"queue\",\"ph\":\"C\",\"pid\":2,\"ts\":3.000000,\"args\":{\"value\":4096}}\n"
        "],\"otherData\":{\"spans_lost\":\"0\"}}\n");
}

/* After one write has failed, no other write is tried. */
TEST("failed sink")
{
    g_autofree struct text *text = text_new(100000);
    g_autoptr(timeline) timeline = timeline_into(text);
    for (uint64_t i = 0; i < 10000; i++)
        timeline_span(timeline, &(struct timeline_span){ "s", i, i + 1, 0, 0, 0, NULL });
    CU_ASSERT_FALSE(timeline_end(timeline));
    CU_ASSERT_EQUAL(text->failures, 1);
}
