/* text.c - text from files, arguments and other processes; see text.h. */
#include "sim/text.h"

#include <glib.h>
#include <string.h>

char *text_printable(const char *text, size_t size_bytes)
{
    g_autofree char *valid = g_utf8_make_valid(text, (gssize)strnlen(text, size_bytes));
    GString *const clean = g_string_new(NULL);

    for (const char *at = valid; *at; at = g_utf8_next_char(at)) {
        const gunichar c = g_utf8_get_char(at);

        g_string_append_unichar(clean, g_unichar_iscntrl(c) ? '?' : c);
    }
    return g_string_free(clean, FALSE);
}

/* Each value begins an array or an object, or follows a comma or a colon within one; words in strings count too. */
uint64_t text_json_values(const char *text, size_t size_bytes)
{
    uint64_t values = 0, depth = 0;

    for (size_t i = 0; i < size_bytes; i++) {
        const char c = text[i];

        if (c == '[' || c == '{') depth++;
        values += c == '[' || c == '{' || (depth && c == ',');
        if ((c == ']' || c == '}') && depth) depth--;
    }
    return values;
}
