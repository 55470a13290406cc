/* json_lines.h - the common part of the readers of traces in JSON lines: the current line and its errors.  Internal to
 * traces/formats. */
#ifndef TRACES_JSON_LINES_H
#define TRACES_JSON_LINES_H

#include <jansson.h>
#include "traces/table.h"

struct json_lines {
    struct trace *trace;
    struct stream *stream;
    struct table *table; /* made when the first line is read */
    uint64_t line;
    uint32_t topk; /* the number that the user gave, for lines that do not state topk; 0: none */
};

/* Sets *error to "path: line N: field: expected ..., found ...".  Returns false. */
bool json_lines_error(const struct json_lines *r, GError **error, const char *field, const char *expected,
                      const char *found);
/* The value's type in words, such as "an object"; "nothing" for NULL. */
const char *json_lines_type(const json_t *value);

/* Adds the routed experts of a request, which are in base64 (routed_json.c).  If the object has none, returns false
 * without *error.  If they are wrong, returns false with *error. */
bool routed_json_add(struct json_lines *r, const json_t *object, GError **error);

#endif
