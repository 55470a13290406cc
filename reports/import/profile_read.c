/* profile_read.c - chooses the reader of a profile: nsys.c or kineto.c. */
#include "reports/import/profile.h"

#include <stdio.h>
#include <string.h>
#include "reports/import/json_stream.h"
#include "sim/error.h"

static bool database_is(const char *path)
{
    uint8_t head[16] = { 0 };
    FILE *file = strcmp(path, "-") ? fopen(path, "r") : NULL;
    const size_t got = file ? fread(head, 1, sizeof head, file) : 0;
    if (file) fclose(file);
    return nsys_begins(head, got);
}

bool profile_begins(const char *path)
{
    /* Members that may come before a trace's events, as PyTorch and others write them. */
    static const char *const members[] = { "\"traceEvents\"",     "\"schemaVersion\"",   "\"deviceProperties\"",
                                           "\"distributedInfo\"", "\"displayTimeUnit\"", "\"trace_id\"" };
    if (strcmp(path, "-") == 0) return false; /* standard input cannot be read twice */
    if (database_is(path)) return true;
    struct json_stream *stream = json_stream_open(path, NULL);
    const char *text;
    size_t size;
    bool begins = stream && json_stream_peek(stream, NULL) == '{' && json_stream_take(stream, '{', NULL) &&
                  json_stream_peek(stream, NULL) == '"' && json_stream_value(stream, true, &text, &size, NULL);
    bool known = false;
    for (size_t i = 0; begins && i < G_N_ELEMENTS(members); i++)
        known = known || (strlen(members[i]) == size && memcmp(text, members[i], size) == 0);
    json_stream_close(stream);
    return known;
}

GPtrArray *profile_read(const char *path, GError **error)
{
    g_autoptr(GPtrArray) profiles = database_is(path) ? nsys_read(path, error) : kineto_read(path, error);
    if (!profiles || profiles->len) return g_steal_pointer(&profiles);
    return error_null(error, "%s: expected kernels of a GPU (activities=[..., CUDA]), found none", path);
}
