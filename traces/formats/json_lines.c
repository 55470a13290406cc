/* json_lines.c - error messages about a line of JSON. */
#include "traces/formats/json_lines.h"

bool json_lines_error(const struct json_lines *r, GError **error, const char *field, const char *expected,
                      const char *found)
{
    return error_input(error, "%s: line %" G_GUINT64_FORMAT ": %s: expected %s, found %s", r->trace->path, r->line,
                       field, expected, found);
}

const char *json_lines_type(const json_t *value)
{
    static const char *const names[] = { "an object",  "an array", "text",  "a number",
                                         "a fraction", "true",     "false", "null" };
    return value ? names[json_typeof(value)] : "nothing";
}
