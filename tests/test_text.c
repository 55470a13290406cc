/* test_text.c - is text from outside harmless when it is printed, are its JSON values counted, and its numbers decimal?
 *
 * Aim: sim/text.h.  Method: tables of texts with known answers. */
#include "sim/text.h"
#include "tests/unit.h"

#include <string.h>

TEST("what is printed")
{
    static const struct {
        const char *text, *expected;
    } cases[] = {
        { "plain", "plain" },
        { "\033[31mred", "?[31mred" },
        { "a\tb\nc\r", "a?b?c?" },
        { "\x7f", "?" },
        { "\xc2\x9b"
          "5m",
          "?5m" },
        { "Grüße, 世界", "Grüße, 世界" },
        { "w\xff\xe9", "w\xff\xe9" },
        { "\x9b", "?" },
        { "", "" },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *shown = text_printable(cases[i].text, strlen(cases[i].text));
        CU_ASSERT_STRING_EQUAL(shown, cases[i].expected);
    }
    g_autofree char *cut = text_printable("abc\0def", 7), *part = text_printable("abcdef", 4);
    CU_ASSERT_STRING_EQUAL(cut, "abc");
    CU_ASSERT_STRING_EQUAL(part, "abcd");
}

TEST("decimal numbers")
{
    static const char *const good[] = { "0", "-0", "7", "0.5", ".5", "-2.5e3", "1e400", "16x", "12 us" };
    static const char *const bad[] = { "", "-", ".", "08", "-01.5", "0x10", " 1", "+1", "inf", "nan", "us" };
    for (size_t i = 0; i < G_N_ELEMENTS(good); i++) {
        double value;
        const char *end = text_decimal(good[i], &value);
        CU_ASSERT_PTR_NOT_NULL_FATAL(end);
        CU_ASSERT_EQUAL(value, g_ascii_strtod(good[i], NULL));
        CU_ASSERT_EQUAL(*end != '\0', strchr(good[i], 'x') || strchr(good[i], ' '));
    }
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        double value;
        CU_ASSERT_PTR_NULL(text_decimal(bad[i], &value));
    }
    CU_ASSERT(text_is_whole("0") && text_is_whole("-7") && text_is_whole("4294967297"));
    CU_ASSERT(!text_is_whole("") && !text_is_whole("-") && !text_is_whole("016") && !text_is_whole("1.0"));
    uint64_t value = 7;
    CU_ASSERT(text_whole("12", 1, 12, &value) && value == 12);
    CU_ASSERT(!text_whole("012", 1, 12, &value) && !text_whole("13", 1, 12, &value) && !text_whole("0", 1, 12, &value));
    CU_ASSERT(!text_is_whole("0x1") && !text_is_whole("1e3") && !text_is_whole("8,016") && !text_is_whole(" 8"));
}

TEST("words joined by +")
{
    g_auto(GStrv) one = text_added("layer"), two = text_added("dispatch+combine");
    CU_ASSERT(one && strcmp(one[0], "layer") == 0 && !one[1]);
    CU_ASSERT(two && strcmp(two[0], "dispatch") == 0 && strcmp(two[1], "combine") == 0 && !two[2]);
    static const char *const bad[] = { "", "+", "dispatch+", "+combine", "a+a", "a+b+a" };
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) CU_ASSERT_PTR_NULL(text_added(bad[i]));
}

TEST("values of JSON")
{
    static const struct {
        const char *text;
        uint64_t values;
    } cases[] = {
        { "", 0 },           { "1,2,3", 0 },          { "[]", 1 }, { "[1,2,3]", 3 }, { "{\"a\":1,\"b\":2}", 2 },
        { "[{},{},{}]", 6 }, /* the text has four values, but the function counts an upper bound */
        { "]]]],,,", 0 },    { "x,y\n[1,2],3,4", 2 },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++)
        CU_ASSERT_EQUAL(text_json_values(cases[i].text, strlen(cases[i].text)), cases[i].values);
}
