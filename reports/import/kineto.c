/* kineto.c - the JSON of PyTorch's profiler: {"distributedInfo": ..., "deviceProperties": ..., "traceEvents": [...]} or
 * the events alone.  It reads the events of a device's kernels and copies, and of launches of kernels:
 *
 *     {"ph": "X", "cat": "kernel", "name": "void deep_ep::...", "ts": us, "dur": us,
 *      "args": {"device": 0, "stream": 27, "correlation": 44493, "grid": [20, 1, 1], ...}}
 *
 * Times are microseconds, with three decimals since 2024.  A baseTimeNanoseconds
 * that comes before the events is added to these times. */
#include <jansson.h>
#include <math.h>
#include <string.h>
#include "reports/import/json_stream.h"
#include "reports/import/profile.h"

struct kineto {
    struct json_stream *stream;
    struct profile_builder *builder;
    int64_t base_ns;
};

static bool contains(const char *text, size_t size, const char *word) { return memmem(text, size, word, strlen(word)); }

/* Converts a value in microseconds to *ns.  False: the value is not a time. */
static bool time_take(const json_t *value, int64_t *ns)
{
    if (!json_is_number(value)) return false;
    const double us = json_number_value(value);
    if (!(fabs(us) < 4e15)) return false;
    *ns = json_is_integer(value) ? (int64_t)json_integer_value(value) * 1000 : (int64_t)llround(us * 1000);
    return true;
}

static uint32_t count_take(const json_t *args, const char *key)
{
    const json_int_t value = json_integer_value(json_object_get(args, key));
    return value > 0 && value <= UINT32_MAX ? (uint32_t)value : 0;
}

static uint32_t blocks_take(const json_t *grid)
{
    double blocks = 1;
    for (size_t d = 0; d < json_array_size(grid); d++) blocks *= json_number_value(json_array_get(grid, d));
    return blocks >= 1 && blocks <= UINT32_MAX ? (uint32_t)blocks : 0;
}

static bool kernel_take(struct kineto *k, const json_t *event, bool copy, GError **error)
{
    const json_t *args = json_object_get(event, "args");
    const char *name = json_string_value(json_object_get(event, "name"));
    int64_t begin_ns, duration_ns;
    if (!name || !time_take(json_object_get(event, "ts"), &begin_ns) ||
        !time_take(json_object_get(event, "dur"), &duration_ns) || duration_ns < 0)
        return json_stream_refuse(k->stream, "a kernel's name, ts and dur", "an event without one of them", error);
    const struct profile_kernel kernel = {
        .begin_ns = k->base_ns + begin_ns,
        .end_ns = k->base_ns + begin_ns + duration_ns,
        .launch_ns = PROFILE_NO_LAUNCH,
        .name = profile_builder_name(k->builder, name),
        .stream = count_take(args, "stream"),
        .blocks = blocks_take(json_object_get(args, "grid")),
        .correlation = count_take(args, "correlation"),
        .device = (uint16_t)count_take(args, "device"),
        .kind = copy ? PROFILE_COPY : PROFILE_KERNEL,
    };
    return profile_builder_kernel(k->builder, &kernel) ||
           json_stream_refuse(k->stream, "at most 2^26 kernels", "more", error);
}

static bool event_take(struct kineto *k, const char *text, size_t size, GError **error)
{
    json_error_t failure;
    /* most events are operators of the host, which need not be parsed */
    const bool device = contains(text, size, "\"kernel\"") || contains(text, size, "\"gpu_mem");
    if (!device && !contains(text, size, "Launch")) return true;
    json_auto_t *event = json_loadb(text, size, 0, &failure);
    if (!event) return json_stream_refuse(k->stream, "an event in JSON before it", failure.text, error);
    const char *cat = json_string_value(json_object_get(event, "cat"));
    const char *name = json_string_value(json_object_get(event, "name"));
    const bool complete = g_strcmp0(json_string_value(json_object_get(event, "ph")), "X") == 0;
    int64_t begin_ns;
    bool good = true;
    if (complete && cat && (g_ascii_strcasecmp(cat, "kernel") == 0 || g_str_has_prefix(cat, "gpu_mem"))) {
        good = kernel_take(k, event, *cat == 'g', error);
    } else if (complete && cat && name && strstr(name, "Launch") &&
               (strcmp(cat, "cuda_runtime") == 0 || strcmp(cat, "cuda_driver") == 0) &&
               time_take(json_object_get(event, "ts"), &begin_ns)) {
        good = profile_builder_launch(k->builder, count_take(json_object_get(event, "args"), "correlation"),
                                      k->base_ns + begin_ns) ||
               json_stream_refuse(k->stream, "at most 2^26 launches", "more", error);
    }
    return good;
}

static bool events_read(struct kineto *k, GError **error)
{
    const char *text;
    size_t size;
    struct profile *facts = profile_builder_facts(k->builder);
    if (!json_stream_take(k->stream, '[', error)) return false;
    while (json_stream_peek(k->stream, error) != ']') {
        if (facts->events && !json_stream_take(k->stream, ',', error)) return false;
        if (!json_stream_value(k->stream, true, &text, &size, error) || !event_take(k, text, size, error)) return false;
        facts->events++;
    }
    return json_stream_take(k->stream, ']', error);
}

/* Reads facts about the recording from a member other than the events. */
static bool member_take(struct kineto *k, const char *key, const char *text, size_t size, GError **error)
{
    json_error_t failure;
    struct profile *facts = profile_builder_facts(k->builder);
    json_auto_t *value = json_loadb(text, size, JSON_DECODE_ANY, &failure);
    if (!value) return json_stream_refuse(k->stream, key, failure.text, error);
    if (strcmp(key, "distributedInfo") == 0) {
        const json_t *rank = json_object_get(value, "rank");
        if (json_is_integer(rank) && json_integer_value(rank) >= 0 && json_integer_value(rank) < 1 << 20)
            facts->rank = (int32_t)json_integer_value(rank);
        facts->world_size = count_take(value, "world_size");
    } else if (strcmp(key, "deviceProperties") == 0) {
        const json_t *first = json_array_get(value, 0);
        if (!facts->gpu) facts->gpu = g_strdup(json_string_value(json_object_get(first, "name")));
    } else if (json_is_integer(value) && json_integer_value(value) > 0) {
        k->base_ns = MIN((int64_t)json_integer_value(value), INT64_MAX / 4);
    }
    return true;
}

static bool members_read(struct kineto *k, GError **error)
{
    static const char *const kept[] = { "\"distributedInfo\"", "\"deviceProperties\"", "\"baseTimeNanoseconds\"" };
    const char *text;
    size_t size;
    bool first = true, events = false;
    if (!json_stream_take(k->stream, '{', error)) return false;
    for (; json_stream_peek(k->stream, error) != '}'; first = false) {
        if (!first && !json_stream_take(k->stream, ',', error)) return false;
        if (!json_stream_value(k->stream, true, &text, &size, error)) return false;
        const char *key = NULL;
        for (size_t i = 0; i < G_N_ELEMENTS(kept); i++)
            if (strlen(kept[i]) == size && memcmp(text, kept[i], size) == 0) key = kept[i];
        const bool is_events = size == strlen("\"traceEvents\"") && memcmp(text, "\"traceEvents\"", size) == 0;
        if (!json_stream_take(k->stream, ':', error)) return false;
        events = events || is_events;
        if (is_events ? !events_read(k, error) : !json_stream_value(k->stream, key != NULL, &text, &size, error))
            return false;
        g_autofree char *plain = key ? g_strndup(key + 1, strlen(key) - 2) : NULL;
        if (key && !member_take(k, plain, text, size, error)) return false;
    }
    if (!events) return json_stream_refuse(k->stream, "traceEvents", "none", error);
    return json_stream_take(k->stream, '}', error);
}

GPtrArray *kineto_read(const char *path, GError **error)
{
    struct kineto k = { .stream = json_stream_open(path, error) };
    if (!k.stream) return NULL;
    k.builder = profile_builder_new(path, "kineto");
    const bool good = json_stream_peek(k.stream, error) == '[' ? events_read(&k, error) : members_read(&k, error);
    json_stream_close(k.stream);
    if (good) return profile_builder_end(k.builder);
    profile_builder_free(k.builder);
    return NULL;
}
