/* text.c - text from files, arguments and other processes; see text.h. */
#include "sim/text.h"

#include <glib.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>
#include "sim/nearest.h"

enum { FIRST_NO_CONTROL = 0xa0 }; /* in single-byte encodings, bytes from 0x80 to 0x9f are control characters */

char *text_printable(const char *text, size_t size_bytes)
{
    const char *const end = text + strnlen(text, size_bytes);
    GString *const clean = g_string_new(NULL);
    for (const char *at = text; at < end;) {
        const gunichar c = g_utf8_get_char_validated(at, end - at);
        const bool valid = c < (gunichar)-2;
        const bool control = valid ? g_unichar_iscntrl(c) : (guchar)*at < FIRST_NO_CONTROL;
        const char *const next = valid ? g_utf8_next_char(at) : at + 1;
        if (control) g_string_append_c(clean, '?');
        else g_string_append_len(clean, at, next - at);
        at = next;
    }
    return g_string_free(clean, FALSE);
}

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

const char *text_decimal(const char *text, double *value)
{
    const char *const digits = text + (*text == '-');
    const char second = digits[0] ? g_ascii_tolower(digits[1]) : '\0';
    char *end;
    if (!g_ascii_isdigit(digits[*digits == '.'])) return NULL;
    if (digits[0] == '0' && (g_ascii_isdigit(second) || second == 'x')) return NULL;
    *value = g_ascii_strtod(text, &end);
    return end;
}

bool text_is_whole(const char *text)
{
    const char *const digits = text + (*text == '-');
    const bool padded = digits[0] == '0' && digits[1];
    return *digits && !padded && !digits[strspn(digits, "0123456789")];
}

bool text_whole(const char *text, uint64_t least, uint64_t most, uint64_t *value)
{
    return text_is_whole(text) && g_ascii_string_to_unsigned(text, 10, least, most, value, NULL);
}

bool text_with_unit(const char *text, const struct text_unit *units, uint64_t *value)
{
    double number;
    const char *end = text_decimal(text, &number);
    if (!end || !isfinite(number) || number < 0) return false;
    while (*end == ' ') end++;
    for (const struct text_unit *u = units; u->name; u++) {
        if (strcmp(end, u->name)) continue;
        const double scaled = number * u->factor + 0.5;
        if (scaled >= 9.2e18) return false;
        *value = (uint64_t)scaled;
        return true;
    }
    return false;
}

bool text_size(const char *text, uint64_t *size_bytes)
{
    static const struct text_unit units[] = { { "B", 1 },         { "KB", 1e3 }, { "KiB", 1024 },       { "MB", 1e6 },
                                              { "MiB", 1048576 }, { "GB", 1e9 }, { "GiB", 1073741824 }, { NULL, 0 } };
    return text_with_unit(text, units, size_bytes);
}

bool text_bytes(const char *text, uint64_t *size_bytes)
{
    return text_whole(text, 0, INT64_MAX, size_bytes) || text_size(text, size_bytes);
}

char **text_added(const char *text)
{
    g_auto(GStrv) word = g_strsplit(text, "+", -1);
    for (char **w = word; *w; w++)
        if (!**w || g_strv_contains((const char *const *)w + 1, *w)) return NULL;
    return *word ? g_steal_pointer(&word) : NULL;
}

char *text_meant(const char *word, const char *const *words)
{
    const char *nearest = nearest_find(word, words);
    return nearest ? g_strdup_printf("; did you mean %s?", nearest) : g_strdup("");
}
