/* test_ranges.c - the grammar of numbers on command lines: every form, its ends, and what is refused. */
#include "sim/ranges.h"
#include "tests/unit.h"

#include <stdio.h>
#include <string.h>

/* Returns the numbers of a text, such as "0 2 4", or "no" if the text is refused. */
static const char *read_as(const char *text, uint32_t limit)
{
    static char out[256];
    struct ranges r;
    size_t at = 0;
    out[0] = '\0';
    if (!ranges_parse(text, limit, 12, &r)) {
        CU_ASSERT(r.number == NULL && r.count == 0);
        return "no";
    }
    for (uint32_t i = 0; i < r.count; i++)
        at += (size_t)snprintf(out + at, sizeof out - at, "%s%u", i ? " " : "", r.number[i]);
    ranges_free(&r);
    return out;
}

TEST("every form")
{
    CU_ASSERT_STRING_EQUAL(read_as("3", 4), "3");
    CU_ASSERT_STRING_EQUAL(read_as("2,0", 4), "2 0");
    CU_ASSERT_STRING_EQUAL(read_as(" 2 , 0 ", 4), "2 0");
    CU_ASSERT_STRING_EQUAL(read_as("1:3", 4), "1 2");
    CU_ASSERT_STRING_EQUAL(read_as("1:", 4), "1 2 3");
    CU_ASSERT_STRING_EQUAL(read_as(":2", 4), "0 1");
    CU_ASSERT_STRING_EQUAL(read_as(":", 4), "0 1 2 3");
    CU_ASSERT_STRING_EQUAL(read_as("all", 4), "0 1 2 3");
    CU_ASSERT_STRING_EQUAL(read_as("0:8:2", 8), "0 2 4 6");
    CU_ASSERT_STRING_EQUAL(read_as("0:7:2", 8), "0 2 4 6");
    CU_ASSERT_STRING_EQUAL(read_as("::3", 8), "0 3 6");
    CU_ASSERT_STRING_EQUAL(read_as("4:64:x2", 65), "4 8 16 32");
    CU_ASSERT_STRING_EQUAL(read_as("0,4:6,7", 8), "0 4 5 7");
}

TEST("what is refused")
{
    static const char *const texts[] = {
        "",      ",",     "1,",    ",1",     "x",      "-1",   "4",          "0:5",
        "3:3",   "3:2",   "1:2:0", "0:4:x2", "1:4:x1", "0:2:", "0:4:1:1",    "0,0",
        "0:3,2", "all,0", "all:2", "0x1",    "1 2",    "1.5",  "4294967296", "1844674407370955161600",
        "0:3:x", "+1",    "01",    "0:03",   "0:4:02",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        CU_ASSERT_STRING_EQUAL(read_as(texts[i], 4), "no");
        if (strcmp(read_as(texts[i], 4), "no") != 0) printf("taken: '%s'\n", texts[i]);
    }
    CU_ASSERT_STRING_EQUAL(read_as("0:13", 20), "no"); /* more numbers than the caller allows */
    CU_ASSERT_STRING_EQUAL(read_as("4294967294", UINT32_MAX), "4294967294");
}

static const char *written_as(const char *text)
{
    static char out[256];
    struct ranges r;
    CU_ASSERT_FATAL(ranges_parse(text, 4000000000u, 12, &r));
    g_autofree char *written = ranges_text(&r);
    snprintf(out, sizeof out, "%s", written);
    ranges_free(&r);
    return out;
}

TEST("the text of records")
{
    CU_ASSERT_STRING_EQUAL(written_as("2,3,4"), "2:5");
    CU_ASSERT_STRING_EQUAL(written_as("7"), "7:8");
    CU_ASSERT_STRING_EQUAL(written_as("0:8:2"), "0,2,4,6");
    CU_ASSERT_STRING_EQUAL(written_as("3999999999,3999999997"), "3999999999,3999999997");
}

TEST("two texts")
{
    CU_ASSERT(ranges_same("0,1,2", "0:3"));
    CU_ASSERT(ranges_same("1", "1:2"));
    CU_ASSERT(ranges_same("all", "all"));
    CU_ASSERT(!ranges_same("all", "0:3"));
    CU_ASSERT(!ranges_same("0:3", "0:4"));
    CU_ASSERT(!ranges_same("0,1", "1,0"));
}
