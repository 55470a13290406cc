/* import_scan.c - lines of logs: cleaned of additions by terminals and launchers, matched, split.
 * Knows no program's format. */
#include "reports/import/import.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

enum { ESCAPE = 0x1b };

/* Skips an ESC sequence: CSI "ESC [ ... letter", OSC "ESC ] ... BEL or ESC \", or two characters. */
static const char *escape_skip(const char *at, const char *end)
{
    if (++at >= end) return end;
    const char kind = *at++;
    if (kind == '[') {
        while (at < end && !g_ascii_isalpha(*at) && *at != '~') at++;
        return at < end ? at + 1 : end;
    }
    if (kind == ']') {
        while (at < end && *at != '\a' && *at != ESCAPE) at++;
        return at < end && *at == ESCAPE ? MIN(at + 2, end) : MIN(at + 1, end);
    }
    return at;
}

/* Skips "[1,3]<stdout>:" (mpirun --tag-output), "3: " (srun --label) and "2025-09-15T16:28:53Z stdout F "
 * (containers). */
static char *launcher_skip(char *line)
{
    uint32_t a, b;
    const char *rest = import_scan(line, "[%u,%u]<std", &a, &b);
    const char *colon = rest ? strstr(rest, ">:") : NULL;
    if (colon) return line + (colon + 2 - line);
    rest = import_scan(line, "%u:", &a);
    if (rest && *rest == ' ') return line + (rest + 1 - line);
    if (import_scan(line, "%u-%u-", &a, &b)) {
        char *mark = strstr(line, " stdout F ");
        if (!mark) mark = strstr(line, " stderr F ");
        if (mark) return mark + 10;
    }
    return line;
}

/* Whether exactly two asterisks stand at `at`.  People emphasise numbers with them when they post a log.  Longer runs
 * are ruled lines. */
static bool stress_at(const char *at, const char *line, const char *end)
{
    if (end - at < 2 || at[0] != '*' || at[1] != '*') return false;
    return (end - at == 2 || at[2] != '*') && (at == line || at[-1] != '*');
}

/* The length of the emphasis that stands at `at`: "**", "_**" or "**_".  0: there is none. */
static size_t stress_length(const char *at, const char *line, const char *end)
{
    if (*at == '_') return at + 1 < end && stress_at(at + 1, line, end) ? 3 : 0;
    if (*at != '*' || !stress_at(at, line, end)) return 0;
    return end - at > 2 && at[2] == '_' ? 3 : 2;
}

/* The character whose double-width form (U+FF01 to U+FF5E) stands here: ")" for "）".  Keyboards of East Asia type such
 * forms. 0: there is none. */
static char wide_sign(const char *at, const char *end)
{
    const unsigned char *byte = (const unsigned char *)at;
    if (end - at < 3 || byte[0] != 0xef || (byte[1] != 0xbc && byte[1] != 0xbd)) return 0;
    const unsigned sign = (byte[1] - 0xbcu) * 0x40 + byte[2] - 0x80u; /* the distance from U+FF00 */
    return byte[2] >= 0x80 && sign > 0 && sign < 0x5f ? (char)(sign + 0x20) : 0;
}

char *import_line_clean(char *line, size_t size_bytes)
{
    char *to = line;
    const char *end = line + size_bytes;
    for (const char *from = line; from < end;) {
        const size_t stress = stress_length(from, line, end);
        const char wide = wide_sign(from, end);
        if (*from == ESCAPE) from = escape_skip(from, end);
        else if (stress) from += stress;
        else if (wide) {
            *to++ = wide;
            from += 3;
        } else if (*from == '\r') {
            if (from + 1 < end) to = line; /* a progress display writes its line anew */
            from++;
        } else {
            *to++ = *from ? *from : '?';
            from++;
        }
    }
    *to = '\0';
    while (to > line && g_ascii_isspace(to[-1])) *--to = '\0';
    return launcher_skip(line);
}

static const char *decimal_scan(const char *text, double *value)
{
    if (!g_ascii_isdigit(*text)) return NULL;
    char *end;
    *value = g_ascii_strtod(text, &end);
    return isfinite(*value) && !memchr(text, 'x', (size_t)(end - text)) ? end : NULL; /* hexadecimal is refused */
}

static const char *whole_scan(const char *text, uint32_t *value)
{
    uint64_t sum = 0;
    const char *at = text;
    for (; g_ascii_isdigit(*at) && at < text + 10; at++) sum = sum * 10 + (uint64_t)(*at - '0');
    if (at == text || g_ascii_isdigit(*at) || sum > UINT32_MAX) return NULL;
    *value = (uint32_t)sum;
    return at;
}

const char *import_scan(const char *text, const char *format, ...)
{
    va_list targets;
    va_start(targets, format);
    for (; text && *format; format++) {
        if (*format == ' ') {
            while (*text == ' ' || *text == '\t') text++;
        } else if (*format == '%') {
            format++;
            text = *format == 'u' ? whole_scan(text, va_arg(targets, uint32_t *))
                                  : decimal_scan(text, va_arg(targets, double *));
        } else {
            text = *text == *format ? text + 1 : NULL;
        }
    }
    va_end(targets);
    return text;
}

char **import_words(const char *line, uint32_t blanks_least)
{
    GPtrArray *words = g_ptr_array_new();
    while (*line == ' ' || *line == '\t') line++;
    while (*line && words->len < IMPORT_FIELDS_MAX) {
        const char *end = line, *next;
        for (;;) {
            while (*end && *end != ' ' && *end != '\t') end++;
            uint32_t blanks = 0;
            for (next = end; *next == ' ' || *next == '\t'; next++) blanks += *next == '\t' ? blanks_least : 1;
            if (!*end || blanks >= blanks_least) break;
            end = next;
        }
        g_ptr_array_add(words, g_strndup(line, (size_t)(end - line)));
        line = next;
    }
    g_ptr_array_add(words, NULL);
    return (char **)g_ptr_array_free(words, FALSE);
}

bool import_number_read(const char *text, double *value)
{
    const char *end = decimal_scan(text, value);
    return end && *end == '\0';
}

/* Whether one of the known texts, which are divided by '|', is the text or, unless `whole`, the text's beginning. */
static bool known_find(const char *text, const char *known, bool whole)
{
    for (size_t length; *known; known += length + (known[length] == '|')) {
        length = strcspn(known, "|");
        if (strncmp(text, known, length) == 0 && !(whole && text[length])) return true;
    }
    return false;
}

bool import_begins(const char *line, const char *known) { return known_find(line, known, false); }
bool import_listed(const char *line, const char *known) { return known_find(line, known, true); }

const char *import_part_find(const struct import_part *known, const char *text)
{
    for (; text && known->part; known++)
        if (strstr(text, known->part)) return known->word;
    return NULL;
}

void import_titles_set(struct import_titles *titles, struct import_log *log, char **words)
{
    for (titles->count = 0; words[titles->count]; titles->count++)
        titles->title[titles->count] = import_log_keep(log, words[titles->count], -1);
}

const struct import_meaning *import_meaning_find(const struct import_meaning *known, const char *title)
{
    for (; known->title; known++)
        if (known->unit ? g_str_has_prefix(title, known->title) && strstr(title, known->unit)
                        : strcmp(title, known->title) == 0)
            return known;
    return NULL;
}

double import_json_number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    double number;
    if (json_is_number(value)) return json_number_value(value);
    return json_is_string(value) && import_number_read(json_string_value(value), &number) ? number : NAN;
}

void import_json_word(struct import_row *row, enum import_column column, const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (json_is_string(value)) import_row_word(row, column, json_string_value(value));
    else if (json_is_integer(value) && json_integer_value(value) >= 0)
        import_row_count(row, column, (uint64_t)json_integer_value(value));
}
