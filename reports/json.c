/* json.c - walks JSON in memory.  Allocates nothing but the strings that the caller asked for.
 * Knows nothing of records. */
#include "reports/json.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

void json_init(struct json *j, const char *source, const char *text, size_t size_bytes)
{
    assert(text[size_bytes] == '\0');
    memset(j, 0, sizeof *j);
    j->source = source;
    j->begin = j->at = text;
    j->end = text + size_bytes;
}

bool json_finish(struct json *j, GError **error)
{
    if (!j->failure) return true;
    g_propagate_error(error, j->failure);
    j->failure = NULL;
    return false;
}

void json_fail(struct json *j, const char *format, ...)
{
    if (j->failure) return;
    uint32_t line = 1;
    for (const char *c = j->begin; c < j->at && c < j->end; c++)
        line += *c == '\n';
    va_list arguments;
    va_start(arguments, format);
    char *message = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    j->failure = g_error_new(JSON_ERROR, 0, "%s:%u: %s", j->source, line, message);
    g_free(message);
}

/* Names what stands at the cursor, for "found". */
static const char *json_found(const struct json *j, char text[16])
{
    if (j->at >= j->end) return "the end of the file";
    const unsigned char c = (unsigned char)*j->at;
    if (c >= 0x20 && c < 0x7f) g_snprintf(text, 16, "'%c'", c);
    else g_snprintf(text, 16, "byte 0x%02x", c);
    return text;
}

static void json_expected(struct json *j, const char *what)
{
    char found[16];
    json_fail(j, "expected %s, found %s", what, json_found(j, found));
}

static void json_space_skip(struct json *j)
{
    while (j->at < j->end && (*j->at == ' ' || *j->at == '\t' || *j->at == '\n' || *j->at == '\r'))
        j->at++;
}

char json_peek(struct json *j)
{
    json_space_skip(j);
    return j->at < j->end ? *j->at : '\0';
}

/* Takes one expected character; what names it in the message. */
static bool json_take(struct json *j, char c, const char *what)
{
    if (j->failure) return false;
    if (json_peek(j) != c || j->at >= j->end) {
        json_expected(j, what);
        return false;
    }
    j->at++;
    return true;
}

bool json_enter(struct json *j, char open)
{
    assert(open == '{' || open == '[');
    if (!json_take(j, open, open == '{' ? "'{'" : "'['")) return false;
    if (j->depth == JSON_DEPTH_MAX) {
        json_fail(j, "nested deeper than %d", JSON_DEPTH_MAX);
        return false;
    }
    j->close[j->depth++] = open == '{' ? '}' : ']';
    j->fresh = true;
    return true;
}

bool json_next_element(struct json *j)
{
    assert(j->failure || j->depth > 0);
    if (j->failure) return false;
    const char close = j->close[j->depth - 1];
    if (json_peek(j) == close) {
        j->at++;
        j->depth--;
        j->fresh = false;
        return false;
    }
    if (!j->fresh && !json_take(j, ',', close == '}' ? "',' or '}'" : "',' or ']'")) return false;
    j->fresh = false;
    return true;
}

bool json_next_key(struct json *j, GString *key)
{
    return json_next_element(j) && json_string(j, key) && json_take(j, ':', "':'");
}

/* Four hexadecimal digits after \u. */
static bool json_unit_take(struct json *j, uint32_t *unit)
{
    *unit = 0;
    for (int i = 0; i < 4; i++, j->at++) {
        const int digit = j->at < j->end ? g_ascii_xdigit_value(*j->at) : -1;
        if (digit < 0) {
            json_expected(j, "four hexadecimal digits after \\u");
            return false;
        }
        *unit = *unit * 16 + (uint32_t)digit;
    }
    return true;
}

static bool json_unicode_take(struct json *j, GString *out)
{
    uint32_t unit, low;
    if (!json_unit_take(j, &unit)) return false;
    if (unit >= 0xd800 && unit < 0xdc00) {
        if (j->end - j->at < 2 || j->at[0] != '\\' || j->at[1] != 'u') {
            json_expected(j, "the second half of a surrogate pair");
            return false;
        }
        j->at += 2;
        if (!json_unit_take(j, &low)) return false;
        if (low < 0xdc00 || low > 0xdfff) {
            json_fail(j, "expected the second half of a surrogate pair, found \\u%04x", low);
            return false;
        }
        unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
    } else if (unit >= 0xdc00 && unit <= 0xdfff) {
        json_fail(j, "expected a character, found half a surrogate pair");
        return false;
    } else if (unit == 0) {
        json_fail(j, "expected a character, found \\u0000");
        return false;
    }
    g_string_append_unichar(out, unit);
    return true;
}

static bool json_escape_take(struct json *j, GString *out)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    const char c = j->at < j->end ? *j->at : '\0';
    const char *name = c ? strchr(names, c) : NULL;
    if (name) {
        g_string_append_c(out, values[name - names]);
        j->at++;
        return true;
    }
    if (c != 'u') {
        json_expected(j, "an escape");
        return false;
    }
    j->at++;
    return json_unicode_take(j, out);
}

bool json_string(struct json *j, GString *out)
{
    g_string_truncate(out, 0);
    if (!json_take(j, '"', "a string")) return false;
    while (j->at < j->end && *j->at != '"') {
        if (out->len > JSON_STRING_MAX) {
            json_fail(j, "string longer than %d bytes", JSON_STRING_MAX);
            return false;
        }
        if ((unsigned char)*j->at < 0x20) {
            json_expected(j, "an escaped control character");
            return false;
        }
        if (*j->at == '\\') {
            j->at++;
            if (!json_escape_take(j, out)) return false;
        } else {
            g_string_append_c(out, *j->at++);
        }
    }
    if (j->at >= j->end) {
        json_expected(j, "'\"' at the end of a string");
        return false;
    }
    j->at++;
    if (!g_utf8_validate(out->str, (gssize)out->len, NULL)) {
        json_fail(j, "expected UTF-8, found other bytes");
        return false;
    }
    return true;
}

/* The end of the JSON number that starts at c, or NULL. */
static const char *json_number_end(const char *c)
{
    if (*c == '-') c++;
    if (*c == '0') c++;
    else if (*c >= '1' && *c <= '9') while (g_ascii_isdigit(*c)) c++;
    else return NULL;
    if (*c == '.') {
        if (!g_ascii_isdigit(*++c)) return NULL;
        while (g_ascii_isdigit(*c)) c++;
    }
    if (*c == 'e' || *c == 'E') {
        c++;
        if (*c == '+' || *c == '-') c++;
        if (!g_ascii_isdigit(*c)) return NULL;
        while (g_ascii_isdigit(*c)) c++;
    }
    return c;
}

bool json_number_parse(const char *text, double *value)
{
    const char *end = json_number_end(text);
    if (!end || *end != '\0') return false;
    *value = g_ascii_strtod(text, NULL);
    return isfinite(*value);
}

bool json_number(struct json *j, GString *text, double *value)
{
    g_string_truncate(text, 0);
    if (j->failure) return false;
    json_space_skip(j);
    const char *end = json_number_end(j->at);       /* the NUL at the end stops it */
    if (!end) {
        json_expected(j, "a number");
        return false;
    }
    g_string_append_len(text, j->at, end - j->at);
    if (!json_number_parse(text->str, value)) {
        json_fail(j, "expected a finite number, found %.40s", text->str);
        return false;
    }
    j->at = end;
    return true;
}

static bool json_word(struct json *j, const char *word)
{
    if (j->failure) return false;
    json_space_skip(j);
    const size_t length = strlen(word);
    if ((size_t)(j->end - j->at) < length || memcmp(j->at, word, length) != 0) {
        json_expected(j, word);
        return false;
    }
    j->at += length;
    return true;
}

bool json_null(struct json *j) { return json_word(j, "null"); }

bool json_skip(struct json *j)
{
    GString *scratch = g_string_new(NULL);
    const uint32_t depth = j->depth;
    double value;
    bool member = false;            /* a value is due: the first, or one that follows a key or comma */
    do {
        const char c = json_peek(j);
        if (c == '{' || c == '[') json_enter(j, c);
        else if (c == '"') json_string(j, scratch);
        else if (c == 't') json_word(j, "true");
        else if (c == 'f') json_word(j, "false");
        else if (c == 'n') json_null(j);
        else json_number(j, scratch, &value);
        for (member = false; !member && !j->failure && j->depth > depth; )
            member = j->close[j->depth - 1] == '}' ? json_next_key(j, scratch) : json_next_element(j);
    } while (member && !j->failure);
    g_string_free(scratch, TRUE);
    return !j->failure;
}

bool json_at_end(struct json *j)
{
    if (j->failure) return false;
    json_space_skip(j);
    if (j->at < j->end) json_expected(j, "the end of the file");
    return !j->failure;
}

void json_string_append(GString *out, const char *text)
{
    g_string_append_c(out, '"');
    for (const char *c = text; *c; c++) {
        if (*c == '"' || *c == '\\') g_string_append_printf(out, "\\%c", *c);
        else if ((unsigned char)*c < 0x20 || *c == 0x7f) g_string_append_printf(out, "\\u%04x", (unsigned)*c);
        else g_string_append_c(out, *c);
    }
    g_string_append_c(out, '"');
}
