/* json.h - a small strict JSON reader (RFC 8259) that walks a text in memory without building a tree, and the
 * two helpers that writers need.
 *
 * The caller says what it expects; the first thing that differs ends the walk with one message (source,
 * line, expected, found), and every later call fails quietly.  Nesting is limited; strings must be valid
 * UTF-8 without NUL; numbers must be finite.
 *
 *     json_enter(&j, '{');
 *     while (json_next_key(&j, key))  ... json_string() / json_number() / json_enter() / json_skip() ...
 */
#ifndef REPORTS_JSON_H
#define REPORTS_JSON_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JSON_ERROR (g_quark_from_static_string("eptwin-json"))

enum { JSON_DEPTH_MAX = 16, JSON_STRING_MAX = 65536 };

struct json {
    const char *source;             /* file name for messages */
    const char *at, *end;
    const char *begin;
    uint32_t    depth;
    char        close[JSON_DEPTH_MAX];   /* what ends each open container */
    bool        fresh;              /* nothing was read yet in the innermost container */
    GError     *failure;            /* the first error, owned */
};

/* text ends at text + size_bytes, where a NUL must stand. */
void json_init(struct json *j, const char *source, const char *text, size_t size_bytes);
/* Clears; false and *error when something failed. */
bool json_finish(struct json *j, GError **error);

/* Enters an object '{' or an array '['. */
bool json_enter(struct json *j, char open);
/* In an object: reads the next key into key; false at its end (which is consumed) or on failure. */
bool json_next_key(struct json *j, GString *key);
/* In an array: true when another element follows; false at its end (which is consumed) or on failure. */
bool json_next_element(struct json *j);

char json_peek(struct json *j);     /* first character of the next value; 0 at the end */
bool json_string(struct json *j, GString *out);
/* The number as written, and its value. */
bool json_number(struct json *j, GString *text, double *value);
bool json_null(struct json *j);
bool json_skip(struct json *j);     /* any value */
bool json_at_end(struct json *j);   /* only white space follows; fails otherwise */
/* Ends the walk with a message of the caller's own. */
void json_fail(struct json *j, const char *format, ...) G_GNUC_PRINTF(2, 3);

/* Appends text as a JSON string with its quotes. */
void json_string_append(GString *out, const char *text);
/* Whether text is a JSON number with a finite value; *value gets it. */
bool json_number_parse(const char *text, double *value);

#endif
