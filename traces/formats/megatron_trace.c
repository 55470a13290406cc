/* megatron_trace.c - Megatron-Core's router trace: JSON lines, each one (step, layer, rank):
 *
 *     {"step": 10, "layer": 3, "rank": 0, "num_tokens": 2, "topk": 2, "top_indices": [[17, 3], [4, 60]]}
 *
 * top_indices may also be flat.  "top_weights", in the same form, is optional.  Megatron writes one file a rank, and
 * the concatenation of these files is a trace.  Lines without top_indices are offered to routed_json.c.  jansson
 * reads the JSON, and the trace is held in memory (table.h). */
#include <math.h>
#include <string.h>
#include "traces/formats/json_lines.h"
#include "sim/text.h"

enum { CHUNK_BYTES = 1 << 18, LINE_BYTES_MAX = 1 << 28 };
/* A line may hold VALUES_FREE values, and VALUES_TIMES_MAX more for each byte of the file.  They are limited because a
 * value takes many times as much memory as its text. */
enum { VALUES_FREE = 1 << 20, VALUES_TIMES_MAX = 4 };

static bool number_get(const struct json_lines *r, const json_t *object, const char *field, uint32_t limit,
                       uint32_t *value, GError **error)
{
    const json_t *const member = json_object_get(object, field);
    char expected[48], found[32];
    g_snprintf(expected, sizeof expected, "a number below %u", limit);
    if (!json_is_integer(member)) return json_lines_error(r, error, field, expected, json_lines_type(member));
    const json_int_t number = json_integer_value(member);
    g_snprintf(found, sizeof found, "%" JSON_INTEGER_FORMAT, number);
    if (number < 0 || number >= limit) return json_lines_error(r, error, field, expected, found);
    *value = (uint32_t)number;
    return true;
}

/* The value at one place of a token.  The array is flat, or a list of tokens. */
static const json_t *place_get(const json_t *array, uint32_t topk, uint32_t token, uint32_t place)
{
    const json_t *const first = json_array_get(array, 0);
    if (!json_is_array(first)) return json_array_get(array, (size_t)token * topk + place);
    const json_t *const row = json_array_get(array, token);
    return json_array_size(row) == topk ? json_array_get(row, place) : NULL;
}

static bool array_check(const struct json_lines *r, const json_t *array, const char *field, uint32_t tokens,
                        uint32_t topk, GError **error)
{
    char expected[64], found[32];
    if (!json_is_array(array)) return json_lines_error(r, error, field, "an array", json_lines_type(array));
    const bool nested = json_is_array(json_array_get(array, 0));
    const size_t size = json_array_size(array), wanted = nested ? tokens : (size_t)tokens * topk;
    g_snprintf(expected, sizeof expected, "num_tokens %u rows of topk %u", tokens, topk);
    g_snprintf(found, sizeof found, "%zu values", size);
    return size == wanted || json_lines_error(r, error, field, expected, found);
}

static bool place_error(const struct json_lines *r, GError **error, const char *field, uint32_t token, uint32_t place,
                        const char *expected, const json_t *value)
{
    char name[64], found[48];
    g_snprintf(name, sizeof name, "%s[%u][%u]", field, token, place);
    if (json_is_integer(value)) g_snprintf(found, sizeof found, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else g_strlcpy(found, json_lines_type(value), sizeof found);
    return json_lines_error(r, error, name, expected, found);
}

static bool tokens_add(struct json_lines *r, struct table_rows *rows, const json_t *indices, const json_t *weights,
                       uint32_t tokens, GError **error)
{
    const uint32_t topk = table_topk(r->table);
    for (uint32_t t = 0; t < tokens; t++) {
        float *row_weights = NULL;
        int32_t *const experts = table_row_add(r->table, rows, weights ? &row_weights : NULL);
        for (uint32_t k = 0; k < topk; k++) {
            const json_t *const index = place_get(indices, topk, t, k);
            const json_int_t expert = json_is_integer(index) ? json_integer_value(index) : -2;
            if (expert < ROUTING_NONE || expert >= ROUTING_EXPERTS_MAX)
                return place_error(r, error, "top_indices", t, k, "an expert below 1048576 or -1", index);
            experts[k] = (int32_t)expert;
            if (!weights) continue;
            const json_t *const weight = place_get(weights, topk, t, k);
            row_weights[k] = (float)json_number_value(weight);
            if (!json_is_number(weight) || !isfinite(row_weights[k]))
                return place_error(r, error, "top_weights", t, k, "a weight", weight);
        }
    }
    return true;
}

static bool record_add(struct json_lines *r, const json_t *object, GError **error)
{
    uint32_t step, layer, rank, tokens, topk;
    GError *inner = NULL;
    if (!json_is_object(object)) return json_lines_error(r, error, "record", "an object", json_lines_type(object));
    if (!json_object_get(object, "top_indices")) {
        if (routed_json_add(r, object, &inner)) return true;
        if (inner) {
            g_propagate_error(error, inner);
            return false;
        }
    }
    if (!number_get(r, object, "step", UINT32_MAX, &step, error) ||
        !number_get(r, object, "layer", 1 << 16, &layer, error) ||
        !number_get(r, object, "rank", ROUTING_RANKS_MAX, &rank, error) ||
        !number_get(r, object, "num_tokens", 1 << 28, &tokens, error) ||
        !number_get(r, object, "topk", ROUTING_TOPK_MAX + 1, &topk, error))
        return false;
    const json_t *const indices = json_object_get(object, "top_indices");
    const json_t *const weights = json_object_get(object, "top_weights");
    if (topk == 0) return json_lines_error(r, error, "topk", "1 or more", "0");
    if (!array_check(r, indices, "top_indices", tokens, topk, error) ||
        (weights && !array_check(r, weights, "top_weights", tokens, topk, error)))
        return false;
    if (!r->table) r->table = table_new(topk);
    if (topk != table_topk(r->table))
        return json_lines_error(r, error, "topk", "the topk of the first line", "another");
    struct table_rows *const rows = table_rows(r->table, step, layer, rank);
    if (!rows) return json_lines_error(r, error, "rank", TABLE_FULL, "one more");
    return tokens_add(r, rows, indices, weights, tokens, error);
}

static bool line_parse(struct json_lines *r, const char *text, size_t size, GError **error)
{
    json_error_t problem;
    r->line++;
    if (strspn(text, " \t\r\n") >= size) return true;
    if (text_json_values(text, size) > VALUES_FREE + VALUES_TIMES_MAX * stream_file_bytes(r->stream))
        return json_lines_error(r, error, "line", "fewer values of JSON in so few compressed bytes", "more");
    json_auto_t *object = json_loadb(text, size, JSON_REJECT_DUPLICATES, &problem);
    if (!object)
        return error_input(error, "%s: line %" G_GUINT64_FORMAT " column %d: expected JSON, found: %s", r->trace->path,
                           r->line, problem.column, problem.text);
    return record_add(r, object, error);
}

/* Reads all lines.  A chunk may end within a line, so a line is kept until its end has been read. */
static bool lines_read(struct json_lines *r, GError **error)
{
    g_autoptr(GString) kept = g_string_new(NULL);
    g_autofree char *chunk = g_malloc(CHUNK_BYTES);
    size_t got = 0;
    bool good;
    do {
        good = stream_read(r->stream, chunk, CHUNK_BYTES, &got, error);
        const char *at = chunk;
        for (const char *end; good && (end = memchr(at, '\n', got - (size_t)(at - chunk))) != NULL; at = end + 1) {
            g_string_append_len(kept, at, end - at);
            good = line_parse(r, kept->str, kept->len, error);
            g_string_truncate(kept, 0);
        }
        if (good && kept->len > LINE_BYTES_MAX)
            good = json_lines_error(r, error, "line", "at most 268435456 bytes", "more");
        if (good) g_string_append_len(kept, at, (gssize)(got - (size_t)(at - chunk)));
    } while (good && got == CHUNK_BYTES);
    if (good && kept->len) good = line_parse(r, kept->str, kept->len, error);
    return good;
}

bool jsonl_trace_open(struct trace *trace, struct stream *stream, uint32_t topk, const struct trace_options *options,
                      GError **error)
{
    struct json_lines reader = { .trace = trace, .stream = stream, .topk = topk };
    trace->info.format = stream_is_compressed(stream) ? "jsonl.zst" : "jsonl";
    const bool good = lines_read(&reader, error);
    stream_close(stream);
    if (!good) {
        table_free(reader.table);
        return false;
    }
    const struct table_claims claims = { .experts = options->experts };
    return table_serve(reader.table ? reader.table : table_new(1), &claims, trace, error);
}
