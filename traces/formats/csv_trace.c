/* csv_trace.c - traces as text, one token a line:
 *
 *     # experts: 64
 *     step,layer,rank,token,expert0,expert1,weight0,weight1
 *     0,0,0,0,17,3,0.61,0.39
 *
 * The whole trace is held in memory (table.h).  Long traces should be .ept files. */
#include <math.h>
#include <string.h>
#include "traces/formats/text_read.h"

enum { COLUMNS_FIXED = 4 };

struct csv_reader {
    struct text_reader text;
    uint32_t topk;
    bool weights;                   /* whether the header has weight columns */
    uint32_t number[COLUMNS_FIXED]; /* the line's step, layer, rank and token */
    int32_t experts[ROUTING_TOPK_MAX];
    float weight[ROUTING_TOPK_MAX];
    uint32_t weight_count; /* how many weights of the line are not empty */
};

static const char *const fixed_names[COLUMNS_FIXED] = { "step", "layer", "rank", "token" };

static struct csv_reader *csv_of(struct text_reader *text) { return (struct csv_reader *)(void *)text; }

static void column_name(const struct csv_reader *r, char name[24])
{
    if (r->text.column < COLUMNS_FIXED) g_strlcpy(name, fixed_names[r->text.column], 24);
    else if (r->text.column < COLUMNS_FIXED + r->topk) g_snprintf(name, 24, "expert%u", r->text.column - COLUMNS_FIXED);
    else g_snprintf(name, 24, "weight%u", r->text.column - COLUMNS_FIXED - r->topk);
}

static bool weight_parse(const char *text, size_t length, float *value)
{
    char copy[64], *end;
    if (length == 0 || length >= sizeof copy) return false;
    memcpy(copy, text, length);
    copy[length] = 0;
    const double wide = g_ascii_strtod(copy, &end);
    *value = (float)wide;
    return *end == 0 && isfinite(*value);
}

static void csv_header_field(struct text_reader *text_reader, const char *text, size_t length)
{
    struct csv_reader *const r = csv_of(text_reader);
    const uint32_t column = r->text.column;
    char expected[32];
    if (column < COLUMNS_FIXED) {
        g_strlcpy(expected, fixed_names[column], sizeof expected);
    } else if (!r->weights && length > 6 && strncmp(text, "expert", 6) == 0 && r->topk < ROUTING_TOPK_MAX) {
        g_snprintf(expected, sizeof expected, "expert%u", r->topk++);
    } else {
        r->weights = true;
        g_snprintf(expected, sizeof expected, "weight%u", column - COLUMNS_FIXED - r->topk);
    }
    if (strlen(expected) != length || strncmp(expected, text, length) != 0)
        text_error(&r->text, "header", expected, text, length);
}

static uint32_t columns_of(const struct csv_reader *r) { return COLUMNS_FIXED + r->topk * (r->weights ? 2 : 1); }

static void csv_header_end(struct text_reader *text_reader)
{
    struct csv_reader *const r = csv_of(text_reader);
    if (r->topk == 0 || r->text.column != columns_of(r))
        text_error(&r->text, "header", "step,layer,rank,token,expert0,... and as many weights or none", "other columns",
                   13);
    else r->text.table = table_new(r->topk);
}

static void number_field(struct csv_reader *r, const char *text, size_t length)
{
    const uint32_t column = r->text.column;
    uint32_t *const value = &r->number[column];
    if (text_digits(text, length, value) && (column != 2 || *value < ROUTING_RANKS_MAX)) return;
    text_error(&r->text, fixed_names[column], column == 2 ? "a rank below 1048576" : "a number", text, length);
}

static void csv_field(struct text_reader *text_reader, const char *text, size_t length)
{
    struct csv_reader *const r = csv_of(text_reader);
    const uint32_t column = r->text.column;
    char name[24];
    if (column < COLUMNS_FIXED) {
        number_field(r, text, length);
    } else if (column < COLUMNS_FIXED + r->topk) {
        uint32_t value;
        if (text_digits(text, length, &value) && value < ROUTING_EXPERTS_MAX) {
            r->experts[column - COLUMNS_FIXED] = (int32_t)value;
        } else {
            column_name(r, name);
            r->experts[column - COLUMNS_FIXED] = text_expert(&r->text, name, text, length);
        }
    } else if (r->weights && column < COLUMNS_FIXED + 2 * r->topk) {
        if (length && !weight_parse(text, length, &r->weight[r->weight_count])) {
            column_name(r, name);
            text_error(&r->text, name, "a finite weight or nothing", text, length);
        }
        r->weight_count += length > 0;
    }
}

static void csv_token_add(struct csv_reader *r)
{
    struct table_rows *const rows = table_rows(r->text.table, r->number[0], r->number[1], r->number[2]);
    char expected[32], found[32];
    if (!rows) {
        text_error(&r->text, "rank", TABLE_FULL, "one more", 8);
        return;
    }
    if (r->number[3] != rows->tokens) {
        g_snprintf(expected, sizeof expected, "%u (tokens in order)", rows->tokens);
        g_snprintf(found, sizeof found, "%u", r->number[3]);
        text_error(&r->text, "token", expected, found, strlen(found));
        return;
    }
    float *weights = NULL;
    int32_t *const experts = table_row_add(r->text.table, rows, r->weight_count ? &weights : NULL);
    memcpy(experts, r->experts, r->topk * sizeof *experts);
    if (weights) memcpy(weights, r->weight, r->topk * sizeof *weights);
}

static void csv_line(struct text_reader *text_reader)
{
    struct csv_reader *const r = csv_of(text_reader);
    const uint32_t columns = columns_of(r);
    if (r->text.column != columns || (r->weight_count && r->weight_count != r->topk)) {
        char expected[64], found[32];
        g_snprintf(expected, sizeof expected, "%u columns%s", columns, r->weights ? ", all weights or none" : "");
        g_snprintf(found, sizeof found, "%u", r->text.column);
        text_error(&r->text, "line", expected, found, strlen(found));
    } else {
        csv_token_add(r);
    }
    r->weight_count = 0;
}

bool csv_trace_open(struct trace *trace, struct stream *stream, const struct trace_options *options, GError **error)
{
    static const struct text_format format = {
        .header = "step,layer,rank,token,expert0,...",
        .header_field = csv_header_field,
        .header_end = csv_header_end,
        .field = csv_field,
        .line = csv_line,
    };
    struct csv_reader reader = { .text = { .format = &format, .trace = trace, .stream = stream } };
    trace->info.format = stream_is_compressed(stream) ? "csv.zst" : "csv";
    return text_read(&reader.text, options, error);
}
