/* text_read.c - lines and fields of comma-separated traces; see text_read.h. */
#include "traces/formats/text_read.h"

#include <csv.h>
#include <string.h>

enum { CHUNK_BYTES = 1 << 18, KEY_COUNT = 6 };

void text_error(struct text_reader *r, const char *field, const char *expected, const char *found, size_t length)
{
    if (!r->error)
        error_input(&r->error, "%s: line %" G_GUINT64_FORMAT ": %s: expected %s, found '%.*s'", r->trace->path, r->line,
                    field, expected, (int)MIN(length, (size_t)40), found ? found : "");
}

bool text_digits(const char *text, size_t length, uint32_t *value)
{
    uint64_t sum = 0;
    if (length == 0 || length > 10) return false;
    for (size_t i = 0; i < length; i++) {
        const unsigned digit = (unsigned char)text[i] - '0';
        if (digit > 9) return false;
        sum = sum * 10 + digit;
    }
    *value = (uint32_t)sum;
    return sum <= UINT32_MAX;
}

int32_t text_expert(struct text_reader *r, const char *field, const char *text, size_t length)
{
    uint32_t value;
    if (length == 2 && text[0] == '-' && text[1] == '1') return ROUTING_NONE;
    if (text_digits(text, length, &value) && value < ROUTING_EXPERTS_MAX) return (int32_t)value;
    text_error(r, field, "an expert below 1048576 or -1", text, length);
    return ROUTING_NONE;
}

static void field_take(void *text, size_t length, void *context)
{
    struct text_reader *const r = context;
    if (r->error) return;
    if (r->header_seen) r->format->field(r, text, length);
    else r->format->header_field(r, text, length);
    r->column++;
}

static void line_take(int end, void *context)
{
    struct text_reader *const r = context;
    (void)end;
    if (!r->error && !r->header_seen) {
        r->header_seen = true;
        r->format->header_end(r);
    } else if (!r->error) {
        r->format->line(r);
    }
    r->column = 0;
    r->line++;
}

/* Reads a line "# key: value" before the header. */
static void comment_parse(struct text_reader *r, const char *text)
{
    const struct {
        const char *key;
        uint32_t *number;
        char **string;
    } keys[KEY_COUNT] = {
        { "steps", &r->claims.steps, NULL }, { "layers", &r->claims.layers, NULL },
        { "ranks", &r->claims.ranks, NULL }, { "experts", &r->claims.experts, NULL },
        { "model", NULL, &r->trace->model }, { "provenance", NULL, &r->trace->provenance },
    };
    const char *const key = text + 1 + strspn(text + 1, " ");
    for (size_t k = 0; k < KEY_COUNT; k++) {
        const size_t length = strlen(keys[k].key);
        if (strncmp(key, keys[k].key, length) != 0 || key[length] != ':') continue;
        const char *const value = key + length + 1 + strspn(key + length + 1, " ");
        if (keys[k].string) {
            g_free(*keys[k].string);
            *keys[k].string = g_utf8_make_valid(value, -1);
        } else if (!text_digits(value, strlen(value), keys[k].number) || *keys[k].number == 0) {
            text_error(r, keys[k].key, "a positive number", value, strlen(value));
        }
        return;
    }
}

/* Reads the comment lines at the beginning of the first chunk; returns where the header starts. */
static size_t comments_take(struct text_reader *r, const char *chunk, size_t size)
{
    size_t at = 0;
    while (at < size && (chunk[at] == '#' || chunk[at] == '\n')) {
        const char *const end = memchr(chunk + at, '\n', size - at);
        const size_t length = end ? (size_t)(end - chunk) - at : size - at;
        g_autofree char *line = g_strndup(chunk + at, length);
        if (*line == '#') comment_parse(r, g_strchomp(line));
        at += MIN(length + 1, size - at);
        r->line++;
    }
    return at;
}

static bool chunk_parse(struct text_reader *r, struct csv_parser *parser, const char *text, size_t size)
{
    const uint64_t line_before = r->line;
    const uint32_t column_before = r->column;
    if (csv_parse(parser, text, size, field_take, line_take, r) != size)
        text_error(r, "line", "comma-separated fields", csv_strerror(csv_error(parser)), 80);
    else if (size == CHUNK_BYTES && r->line == line_before && r->column == column_before)
        text_error(r, "field", "at most 262144 bytes", text, 20);
    return !r->error;
}

static bool stream_parse(struct text_reader *r, GError **error)
{
    struct csv_parser parser;
    csv_init(&parser, CSV_STRICT | CSV_STRICT_FINI);
    csv_set_blk_size(&parser, 4096);
    g_autofree char *chunk = g_malloc(CHUNK_BYTES);
    bool good = true, first = true;
    size_t got = 0;
    r->line = 1;
    do {
        good = stream_read(r->stream, chunk, CHUNK_BYTES, &got, error);
        const size_t skip = good && first ? comments_take(r, chunk, got) : 0;
        first = false;
        if (good && got > skip && !chunk_parse(r, &parser, chunk + skip, got - skip)) break;
    } while (good && got == CHUNK_BYTES && !r->error);
    if (good && !r->error && csv_fini(&parser, field_take, line_take, r) != 0)
        text_error(r, "line", "a closing quote", "the end of the file", 19);
    if (good && !r->error && !r->header_seen) text_error(r, "header", r->format->header, "nothing", 7);
    if (good && !r->error && r->format->end) r->format->end(r);
    csv_free(&parser);
    if (r->error) g_propagate_error(error, r->error);
    return good && !r->error;
}

bool text_read(struct text_reader *r, const struct trace_options *options, GError **error)
{
    const bool good = stream_parse(r, error);
    stream_close(r->stream);
    if (!good) {
        table_free(r->table);
        return false;
    }
    if (options->experts) r->claims.experts = options->experts;
    return table_serve(r->table, &r->claims, r->trace, error);
}
