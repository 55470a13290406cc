/* csv_trace.c - traces as text, one token a line:
 *
 *     # experts: 64
 *     step,layer,rank,token,expert0,expert1,weight0,weight1
 *     0,0,0,0,17,3,0.61,0.39
 *
 * and llama.cpp's "layer,expert" lines, one selection each.  Quoting and lines are libcsv's; numbers are read
 * here.  The whole trace is held in memory (table.h): for long ones there is .ept. */
#include <csv.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "traces/generate.h"
#include "traces/table.h"

enum { CHUNK_BYTES = 1 << 18, COLUMNS_FIXED = 4, KEY_COUNT = 6 };

struct reader {
    struct trace *trace;
    struct stream *stream;
    struct table *table;
    struct table_claims claims;
    uint64_t line;                  /* from 1, comments included */
    uint32_t column;
    bool header_seen;
    uint32_t topk;
    bool weights;                   /* the header has weight columns */
    uint32_t number[COLUMNS_FIXED]; /* step, layer, rank, token of this line */
    int32_t experts[ROUTING_TOPK_MAX];
    float weight[ROUTING_TOPK_MAX];
    uint32_t weight_count;          /* weights of this line that are not empty */
    /* llama only */
    bool llama;
    uint32_t step, layer_last, places;
    struct table_rows *rows;
    int32_t *token;                 /* experts of the token that is being filled */
    GError *error;                  /* the first; everything after it is skipped */
};

static const char *const fixed_names[COLUMNS_FIXED] = { "step", "layer", "rank", "token" };

static void column_name(const struct reader *r, char name[24])
{
    if (r->column < COLUMNS_FIXED)
        g_strlcpy(name, fixed_names[r->column], 24);
    else if (r->column < COLUMNS_FIXED + r->topk)
        g_snprintf(name, 24, "expert%u", r->column - COLUMNS_FIXED);
    else
        g_snprintf(name, 24, "weight%u", r->column - COLUMNS_FIXED - r->topk);
}

static void line_error(struct reader *r, const char *field, const char *expected, const char *found,
                       size_t length)
{
    if (!r->error)
        g_set_error(&r->error, TRACE_ERROR, TRACE_ERROR_FORMAT,
                    "%s: line %" G_GUINT64_FORMAT ": %s: expected %s, found '%.*s'", r->trace->path, r->line,
                    field, expected, (int)MIN(length, (size_t)40), found ? found : "");
}

/* Decimal digits, the usual case, without strtoul's locale and sign. */
static bool digits_parse(const char *text, size_t length, uint32_t *value)
{
    uint64_t sum = 0;
    if (length == 0 || length > 10)
        return false;
    for (size_t i = 0; i < length; i++) {
        const unsigned digit = (unsigned char)text[i] - '0';
        if (digit > 9)
            return false;
        sum = sum * 10 + digit;
    }
    *value = (uint32_t)sum;
    return sum <= UINT32_MAX;
}

static bool weight_parse(const char *text, size_t length, float *value)
{
    char copy[64], *end;
    if (length == 0 || length >= sizeof copy)
        return false;
    memcpy(copy, text, length);
    copy[length] = 0;
    const double wide = g_ascii_strtod(copy, &end);
    *value = (float)wide;
    return *end == 0 && isfinite(*value);
}

/* A name in the header line. */
static void header_field(struct reader *r, const char *text, size_t length)
{
    char expected[32];
    if (r->llama) {
        g_strlcpy(expected, r->column == 0 ? "layer" : "expert", sizeof expected);
    } else if (r->column < COLUMNS_FIXED) {
        g_strlcpy(expected, fixed_names[r->column], sizeof expected);
    } else if (!r->weights && length > 6 && strncmp(text, "expert", 6) == 0 && r->topk < ROUTING_TOPK_MAX) {
        g_snprintf(expected, sizeof expected, "expert%u", r->topk++);
    } else {
        r->weights = true;
        g_snprintf(expected, sizeof expected, "weight%u", r->column - COLUMNS_FIXED - r->topk);
    }
    if (strlen(expected) != length || strncmp(expected, text, length) != 0 || (r->llama && r->column > 1))
        line_error(r, "header", expected, text, length);
}

static void number_field(struct reader *r, const char *text, size_t length)
{
    uint32_t *const value = &r->number[r->column];
    if (digits_parse(text, length, value) && (r->column != 2 || *value < ROUTING_RANKS_MAX))
        return;
    line_error(r, fixed_names[r->column], r->column == 2 ? "a rank below 1048576" : "a number", text, length);
}

static int32_t expert_field(struct reader *r, const char *field, const char *text, size_t length)
{
    uint32_t value;
    if (length == 2 && text[0] == '-' && text[1] == '1')
        return ROUTING_NONE;
    if (digits_parse(text, length, &value) && value < ROUTING_EXPERTS_MAX)
        return (int32_t)value;
    line_error(r, field, "an expert below 1048576 or -1", text, length);
    return ROUTING_NONE;
}

static void csv_field(void *text, size_t length, void *context)
{
    struct reader *const r = context;
    char name[24];
    if (r->error)
        return;
    if (!r->header_seen) {
        header_field(r, text, length);
    } else if (r->column < COLUMNS_FIXED) {
        number_field(r, text, length);
    } else if (r->column < COLUMNS_FIXED + r->topk) {
        uint32_t value;
        if (digits_parse(text, length, &value) && value < ROUTING_EXPERTS_MAX) {
            r->experts[r->column - COLUMNS_FIXED] = (int32_t)value;
        } else {
            column_name(r, name);
            r->experts[r->column - COLUMNS_FIXED] = expert_field(r, name, text, length);
        }
    } else if (r->weights && r->column < COLUMNS_FIXED + 2 * r->topk) {
        if (length && !weight_parse(text, length, &r->weight[r->weight_count])) {
            column_name(r, name);
            line_error(r, name, "a finite weight or nothing", text, length);
        }
        r->weight_count += length > 0;
    }
    r->column++;
}

static void csv_token_add(struct reader *r)
{
    struct table_rows *const rows = table_rows(r->table, r->number[0], r->number[1], r->number[2]);
    char expected[32], found[32];
    if (!rows) {
        line_error(r, "rank", TABLE_FULL, "one more", 8);
        return;
    }
    if (r->number[3] != rows->tokens) {
        g_snprintf(expected, sizeof expected, "%u (tokens in order)", rows->tokens);
        g_snprintf(found, sizeof found, "%u", r->number[3]);
        line_error(r, "token", expected, found, strlen(found));
        return;
    }
    float *weights = NULL;
    int32_t *const experts = table_row_add(r->table, rows, r->weight_count ? &weights : NULL);
    memcpy(experts, r->experts, r->topk * sizeof *experts);
    if (weights)
        memcpy(weights, r->weight, r->topk * sizeof *weights);
}

static void header_end(struct reader *r)
{
    r->header_seen = true;
    const uint32_t columns = r->column;
    if (!r->llama && (r->topk == 0 || columns != COLUMNS_FIXED + r->topk * (r->weights ? 2 : 1)))
        line_error(r, "header", "step,layer,rank,token,expert0,... and as many weights or none",
                   "other columns", 13);
    else if (r->llama && columns != 2)
        line_error(r, "header", "layer,expert", "other columns", 13);
    else
        r->table = table_new(r->topk);
}

static void csv_line(int end, void *context)
{
    struct reader *const r = context;
    (void)end;
    if (!r->error && !r->header_seen) {
        header_end(r);
    } else if (!r->error) {
        const uint32_t columns = COLUMNS_FIXED + r->topk * (r->weights ? 2 : 1);
        if (r->column != columns || (r->weight_count && r->weight_count != r->topk)) {
            char expected[64], found[32];
            g_snprintf(expected, sizeof expected, "%u columns%s", columns,
                       r->weights ? ", all weights or none" : "");
            g_snprintf(found, sizeof found, "%u", r->column);
            line_error(r, "line", expected, found, strlen(found));
        } else {
            csv_token_add(r);
        }
    }
    r->column = r->weight_count = 0;
    r->line++;
}

static void llama_field(void *text, size_t length, void *context)
{
    struct reader *const r = context;
    if (r->error)
        return;
    if (!r->header_seen)
        header_field(r, text, length);
    else if (r->column == 0 && (!digits_parse(text, length, &r->number[0]) || r->number[0] > UINT16_MAX))
        line_error(r, "layer", "a layer below 65536", text, length);
    else if (r->column == 1)
        r->experts[0] = expert_field(r, "expert", text, length);
    r->column++;
}

/* A layer lower than the last one begins another step; K lines of a layer are a token. */
static void llama_line(int end, void *context)
{
    struct reader *const r = context;
    (void)end;
    if (!r->error && !r->header_seen) {
        header_end(r);
    } else if (!r->error && r->column != 2) {
        line_error(r, "line", "layer,expert", "other columns", 13);
    } else if (!r->error) {
        const uint32_t layer = r->number[0];
        if (!r->rows || layer != r->layer_last) {
            if (r->places % r->topk)
                line_error(r, "layer", "K lines a token before the layer changes", "another layer", 13);
            r->step += r->rows && layer < r->layer_last;
            r->rows = table_rows(r->table, r->step, layer, 0);
            r->layer_last = layer;
            r->places = 0;
        }
        if (!r->rows) {
            line_error(r, "layer", TABLE_FULL, "one more", 8);
            return;
        }
        if (r->places % r->topk == 0)
            r->token = table_row_add(r->table, r->rows, NULL);
        r->token[r->places % r->topk] = r->experts[0];
        r->places++;
    }
    r->column = 0;
    r->line++;
}

/* "# key: value" before the header. */
static void comment_parse(struct reader *r, const char *text)
{
    const struct { const char *key; uint32_t *number; char **string; } keys[KEY_COUNT] = {
        { "steps", &r->claims.steps, NULL },   { "layers", &r->claims.layers, NULL },
        { "ranks", &r->claims.ranks, NULL },   { "experts", &r->claims.experts, NULL },
        { "model", NULL, &r->trace->model },   { "provenance", NULL, &r->trace->provenance },
    };
    const char *const key = text + 1 + strspn(text + 1, " ");
    for (size_t k = 0; k < KEY_COUNT; k++) {
        const size_t length = strlen(keys[k].key);
        if (strncmp(key, keys[k].key, length) != 0 || key[length] != ':')
            continue;
        const char *const value = key + length + 1 + strspn(key + length + 1, " ");
        if (keys[k].string) {
            g_free(*keys[k].string);
            *keys[k].string = g_utf8_make_valid(value, -1);
        } else if (!digits_parse(value, strlen(value), keys[k].number) || *keys[k].number == 0) {
            line_error(r, keys[k].key, "a positive number", value, strlen(value));
        }
        return;
    }
}

/* Takes the comment lines off the front of the first chunk; returns where the header starts. */
static size_t comments_take(struct reader *r, const char *chunk, size_t size)
{
    size_t at = 0;
    while (at < size && (chunk[at] == '#' || chunk[at] == '\n')) {
        const char *const end = memchr(chunk + at, '\n', size - at);
        const size_t length = end ? (size_t)(end - chunk) - at : size - at;
        char *const line = g_strndup(chunk + at, length);
        if (*line == '#')
            comment_parse(r, g_strchomp(line));
        g_free(line);
        at += MIN(length + 1, size - at);
        r->line++;
    }
    return at;
}

static bool chunk_parse(struct reader *r, struct csv_parser *parser, const char *text, size_t size)
{
    const uint64_t line_before = r->line;
    const uint32_t column_before = r->column;
    const size_t parsed = csv_parse(parser, text, size, r->llama ? llama_field : csv_field,
                                    r->llama ? llama_line : csv_line, r);
    if (parsed != size)
        line_error(r, "line", "comma-separated fields", csv_strerror(csv_error(parser)), 80);
    else if (size == CHUNK_BYTES && r->line == line_before && r->column == column_before)
        line_error(r, "field", "at most 262144 bytes", text, 20);
    return !r->error;
}

static bool reader_run(struct reader *r, GError **error)
{
    struct csv_parser parser;
    csv_init(&parser, CSV_STRICT | CSV_STRICT_FINI);
    csv_set_blk_size(&parser, 4096);
    char *const chunk = g_malloc(CHUNK_BYTES);
    bool good = true, first = true;
    size_t got = 0;
    r->line = 1;
    do {
        good = stream_read(r->stream, chunk, CHUNK_BYTES, &got, error);
        const size_t skip = good && first ? comments_take(r, chunk, got) : 0;
        first = false;
        if (good && got > skip && !chunk_parse(r, &parser, chunk + skip, got - skip))
            break;
    } while (good && got == CHUNK_BYTES && !r->error);
    if (good && !r->error && csv_fini(&parser, r->llama ? llama_field : csv_field,
                                      r->llama ? llama_line : csv_line, r) != 0)
        line_error(r, "line", "a closing quote", "the end of the file", 19);
    if (good && !r->error && !r->header_seen)
        line_error(r, "header", r->llama ? "layer,expert" : "step,layer,rank,token,expert0,...", "nothing",
                   7);
    if (good && !r->error && r->llama && r->places % r->topk)
        line_error(r, "layer", "K lines a token", "the end of the file", 19);
    g_free(chunk);
    csv_free(&parser);
    if (r->error)
        g_propagate_error(error, r->error);
    return good && !r->error;
}

static bool reader_finish(struct reader *r, const struct trace_options *options, GError **error)
{
    const bool good = reader_run(r, error);
    stream_close(r->stream);
    if (!good) {
        table_free(r->table);
        return false;
    }
    if (options->experts)
        r->claims.experts = options->experts;
    return table_serve(r->table, &r->claims, r->trace, error);
}

bool csv_trace_open(struct trace *trace, struct stream *stream, const struct trace_options *options,
                    GError **error)
{
    struct reader reader = { .trace = trace, .stream = stream };
    trace->info.format = stream_is_compressed(stream) ? "csv.zst" : "csv";
    return reader_finish(&reader, options, error);
}

bool llama_trace_open(struct trace *trace, struct stream *stream, uint32_t topk,
                      const struct trace_options *options, GError **error)
{
    struct reader reader = { .trace = trace, .stream = stream, .llama = true, .topk = topk };
    trace->info.format = "llama";
    if (topk > ROUTING_TOPK_MAX) {
        g_set_error(error, TRACE_ERROR, TRACE_ERROR_RANGE, "%s: K: expected at most %d, found %u",
                    trace->path, ROUTING_TOPK_MAX, topk);
        stream_close(stream);
        return false;
    }
    return reader_finish(&reader, options, error);
}
