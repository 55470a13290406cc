/* test_text.c - is text from outside harmless when it is printed, and are its JSON values counted?
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
