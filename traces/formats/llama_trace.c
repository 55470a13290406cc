/* llama_trace.c - llama.cpp's expert log.  Each line is one choice, "layer,expert".  Each K lines of a layer are a
 * token.
 *
 * The log has no steps, so a line whose layer is lower than the previous line's begins a new step.  There is one
 * rank. */
#include <string.h>
#include "traces/formats/text_read.h"

struct llama_reader {
    struct text_reader text;
    uint32_t topk;
    uint32_t layer; /* the line's layer */
    int32_t expert;
    uint32_t step, layer_last, places;
    struct table_rows *rows;
    int32_t *token; /* experts of the token that is being filled */
};

static struct llama_reader *llama_of(struct text_reader *text) { return (struct llama_reader *)(void *)text; }

static void llama_header_field(struct text_reader *r, const char *text, size_t length)
{
    const char *const expected = r->column == 0 ? "layer" : "expert";
    if (strlen(expected) != length || strncmp(expected, text, length) != 0 || r->column > 1)
        text_error(r, "header", expected, text, length);
}

static void llama_header_end(struct text_reader *r)
{
    if (r->column != 2) text_error(r, "header", "layer,expert", "other columns", 13);
    else r->table = table_new(llama_of(r)->topk);
}

static void llama_field(struct text_reader *text_reader, const char *text, size_t length)
{
    struct llama_reader *const r = llama_of(text_reader);
    if (r->text.column == 0 && (!text_digits(text, length, &r->layer) || r->layer > UINT16_MAX))
        text_error(&r->text, "layer", "a layer below 65536", text, length);
    else if (r->text.column == 1) r->expert = text_expert(&r->text, "expert", text, length);
}

static void layer_begin(struct llama_reader *r)
{
    if (r->places % r->topk)
        text_error(&r->text, "layer", "K lines a token before the layer changes", "another layer", 13);
    r->step += r->rows && r->layer < r->layer_last;
    r->rows = table_rows(r->text.table, r->step, r->layer, 0);
    r->layer_last = r->layer;
    r->places = 0;
}

static void llama_line(struct text_reader *text_reader)
{
    struct llama_reader *const r = llama_of(text_reader);
    if (r->text.column != 2) {
        text_error(&r->text, "line", "layer,expert", "other columns", 13);
        return;
    }
    if (!r->rows || r->layer != r->layer_last) layer_begin(r);
    if (!r->rows) {
        text_error(&r->text, "layer", TABLE_FULL, "one more", 8);
        return;
    }
    if (r->places % r->topk == 0) r->token = table_row_add(r->text.table, r->rows, NULL);
    r->token[r->places % r->topk] = r->expert;
    r->places++;
}

static void llama_end(struct text_reader *text_reader)
{
    const struct llama_reader *const r = llama_of(text_reader);
    if (r->places % r->topk) text_error(text_reader, "layer", "K lines a token", "the end of the file", 19);
}

bool llama_trace_open(struct trace *trace, struct stream *stream, uint32_t topk, const struct trace_options *options,
                      GError **error)
{
    static const struct text_format format = {
        .header = "layer,expert",
        .header_field = llama_header_field,
        .header_end = llama_header_end,
        .field = llama_field,
        .line = llama_line,
        .end = llama_end,
    };
    struct llama_reader reader = { .text = { .format = &format, .trace = trace, .stream = stream }, .topk = topk };
    trace->info.format = "llama";
    if (topk > ROUTING_TOPK_MAX) {
        error_input(error, "%s: K: expected at most %d, found %u", trace->path, ROUTING_TOPK_MAX, topk);
        stream_close(stream);
        return false;
    }
    return text_read(&reader.text, options, error);
}
