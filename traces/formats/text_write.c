/* text_write.c - writes traces as text: .csv, Megatron-Core's JSON lines, and llama.cpp's lines "layer,expert". */
#include <string.h>
#include "traces/trace_writer.h"

static void text_append(GByteArray *text, const char *words)
{
    g_byte_array_append(text, (const uint8_t *)words, (guint)strlen(words));
}

static void integer_append(GByteArray *text, int64_t value, char after)
{
    char digits[24];
    int at = sizeof digits;
    uint64_t left = value < 0 ? (uint64_t)-value : (uint64_t)value;
    digits[--at] = after;
    do {
        digits[--at] = (char)('0' + left % 10);
    } while (left /= 10);
    if (value < 0) digits[--at] = '-';
    g_byte_array_append(text, (const uint8_t *)digits + at, (guint)(sizeof digits - (size_t)at));
}

/* Appends the weight as the shortest decimal that reads back as an equal float, and then the character `after`. */
static void weight_append(GByteArray *text, float weight, char after)
{
    char digits[G_ASCII_DTOSTR_BUF_SIZE], format[8];
    for (int precision = 3; precision <= 9; precision++) {
        g_snprintf(format, sizeof format, "%%.%dg", precision);
        g_ascii_formatd(digits, sizeof digits, format, (double)weight);
        if ((float)g_ascii_strtod(digits, NULL) == weight) break;
    }
    text_append(text, digits);
    if (after) g_byte_array_append(text, (const uint8_t *)&after, 1);
}

static bool text_end(struct trace_writer *w, GError **error) { return trace_scratch_flush(w, w->output, error); }

static void comment_append(GByteArray *text, const char *key, const char *value)
{
    if (!value || !*value) return;
    g_autofree char *line = g_strdelimit(g_strdup_printf("# %s: %s", key, value), "\r\n", ' ');
    text_append(text, line);
    text_append(text, "\n");
}

static bool csv_begin(struct trace_writer *w, GError **error)
{
    const struct trace_info *const info = w->info;
    const struct {
        const char *key;
        uint32_t value;
    } numbers[] = { { "# steps: ", info->steps },
                    { "# layers: ", info->layers },
                    { "# ranks: ", info->ranks },
                    { "# experts: ", info->experts } };
    for (size_t i = 0; i < G_N_ELEMENTS(numbers); i++) {
        text_append(w->scratch, numbers[i].key);
        integer_append(w->scratch, numbers[i].value, '\n');
    }
    comment_append(w->scratch, "model", info->model);
    comment_append(w->scratch, "provenance", info->provenance);
    text_append(w->scratch, "step,layer,rank,token");
    for (uint32_t k = 0; k < info->topk; k++) {
        text_append(w->scratch, ",expert");
        integer_append(w->scratch, k, 0);
        g_byte_array_set_size(w->scratch, w->scratch->len - 1);
    }
    for (uint32_t k = 0; info->weights && k < info->topk; k++) {
        text_append(w->scratch, ",weight");
        integer_append(w->scratch, k, 0);
        g_byte_array_set_size(w->scratch, w->scratch->len - 1);
    }
    text_append(w->scratch, "\n");
    return text_end(w, error);
}

static bool csv_block(struct trace_writer *w, uint32_t step, uint32_t layer, const struct routing *routing,
                      GError **error)
{
    const uint32_t topk = routing->topk;
    for (uint32_t r = 0; r < routing->ranks; r++) {
        const struct routing_rank *const rank = &routing->rank[r];
        for (uint32_t t = 0; t < rank->tokens; t++) {
            integer_append(w->scratch, step, ',');
            integer_append(w->scratch, layer, ',');
            integer_append(w->scratch, r, ',');
            integer_append(w->scratch, t, ',');
            for (uint32_t k = 0; k < topk; k++)
                integer_append(w->scratch, rank->experts[(size_t)t * topk + k],
                               k + 1 < topk || w->info->weights ? ',' : '\n');
            for (uint32_t k = 0; w->info->weights && k < topk; k++) {
                const char after = k + 1 < topk ? ',' : '\n';
                if (rank->weights) weight_append(w->scratch, rank->weights[(size_t)t * topk + k], after);
                else g_byte_array_append(w->scratch, (const uint8_t *)&after, 1);
            }
        }
        if (!text_end(w, error)) return false;
    }
    return true;
}

/* Appends a rank's experts or weights as "name": [[1, 2], [3, 4]]. */
static void rows_append(GByteArray *text, const char *name, const struct routing_rank *rank, uint32_t topk,
                        bool of_weights)
{
    text_append(text, name);
    for (uint32_t t = 0; t < rank->tokens; t++) {
        text_append(text, t ? ", [" : "[");
        for (uint32_t k = 0; k < topk; k++) {
            if (of_weights) weight_append(text, rank->weights[(size_t)t * topk + k], 0);
            else {
                integer_append(text, rank->experts[(size_t)t * topk + k], 0);
                g_byte_array_set_size(text, text->len - 1);
            }
            text_append(text, k + 1 < topk ? ", " : "]");
        }
    }
    text_append(text, "]");
}

static bool jsonl_begin(struct trace_writer *w, GError **error)
{
    (void)w;
    (void)error;
    return true;
}

static bool jsonl_block(struct trace_writer *w, uint32_t step, uint32_t layer, const struct routing *routing,
                        GError **error)
{
    for (uint32_t r = 0; r < routing->ranks; r++) {
        const struct routing_rank *const rank = &routing->rank[r];
        char head[160];
        g_snprintf(head, sizeof head, "{\"step\": %u, \"layer\": %u, \"rank\": %u, \"num_tokens\": %u, \"topk\": %u, ",
                   step, layer, r, rank->tokens, routing->topk);
        text_append(w->scratch, head);
        rows_append(w->scratch, "\"top_indices\": [", rank, routing->topk, false);
        if (rank->weights) rows_append(w->scratch, ", \"top_weights\": [", rank, routing->topk, true);
        text_append(w->scratch, "}\n");
        if (!text_end(w, error)) return false;
    }
    return true;
}

static bool llama_begin(struct trace_writer *w, GError **error)
{
    if (w->info->ranks != 1)
        return error_input(error,
                           "%s: ranks: expected 1 for layer,expert lines, found %u (eptwin trace remap --ranks 1)",
                           w->path, w->info->ranks);
    text_append(w->scratch, "layer,expert\n");
    if (w->info->weights) w->note = g_strdup("layer,expert lines have no weights: they are left out");
    return text_end(w, error);
}

static bool llama_block(struct trace_writer *w, uint32_t step, uint32_t layer, const struct routing *routing,
                        GError **error)
{
    const struct routing_rank *const rank = &routing->rank[0];
    if (rank->tokens == 0 || (w->info->layers == 1 && step > 0))
        return error_input(
            error, "%s: step %u layer %u: expected %s for layer,expert lines, whose steps show by falling layers",
            w->path, step, layer, rank->tokens ? "one step of one layer" : "tokens");
    for (size_t i = 0; i < (size_t)rank->tokens * routing->topk; i++) {
        integer_append(w->scratch, layer, ',');
        integer_append(w->scratch, rank->experts[i], '\n');
    }
    return text_end(w, error);
}

const struct trace_format trace_format_csv = { "csv", false, false, csv_begin, csv_block, text_end, NULL };
const struct trace_format trace_format_csv_zst = { "csv.zst", false, true, csv_begin, csv_block, text_end, NULL };
const struct trace_format trace_format_jsonl = { "jsonl", false, false, jsonl_begin, jsonl_block, text_end, NULL };
const struct trace_format trace_format_jsonl_zst = {
    "jsonl.zst", false, true, jsonl_begin, jsonl_block, text_end, NULL
};
const struct trace_format trace_format_llama = { "llama", false, false, llama_begin, llama_block, text_end, NULL };
