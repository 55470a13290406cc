/* json_stream.h - reads a JSON document of any length value by value, in bounded memory.
 *
 * Knows brackets and strings, so that it finds the end of a value.  jansson checks the values that are kept.  The
 * bytes come through libarchive, which undoes gzip and zstd. */
#ifndef REPORTS_IMPORT_JSON_STREAM_H
#define REPORTS_IMPORT_JSON_STREAM_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>

/* Limits.  VALUE_MAX: the bytes of the largest value that may be kept.  A decompressed document may have RATIO_MAX
 * times the file's bytes, or FREE bytes if that is more. */
enum { JSON_STREAM_VALUE_MAX = 8 << 20, JSON_STREAM_RATIO_MAX = 1000, JSON_STREAM_FREE = 64 << 20 };

struct json_stream;

/* Opens path ("-": standard input).  NULL and *error on failure. */
struct json_stream *json_stream_open(const char *path, GError **error);
void json_stream_close(struct json_stream *stream);

/* The next byte that is not a blank, without taking it.  -1 at the end, or with *error if it cannot be read. */
int json_stream_peek(struct json_stream *stream, GError **error);
/* Takes the next byte if it is this one. */
bool json_stream_take(struct json_stream *stream, char byte, GError **error);
/* Scans one value.  With keep, *text and *size get its bytes, which are valid until the next call. */
bool json_stream_value(struct json_stream *stream, bool keep, const char **text, size_t *size, GError **error);
/* Sets *error to "path: offset N: expected ..., found ...", and returns false. */
bool json_stream_refuse(const struct json_stream *stream, const char *expected, const char *found, GError **error);

#endif
