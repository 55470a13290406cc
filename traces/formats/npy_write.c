/* npy_write.c - writes traces as numpy arrays [steps, layers, ranks, tokens, topk], with weights in a separate file.
 * Also writes vLLM's int16 arrays [tokens, layers, topk].
 *
 * An array has equally many tokens for each rank.  So all ranks must have the same number of tokens, or be padded with
 * tokens that go nowhere. */
#include <string.h>
#include "traces/formats/npy.h"
#include "traces/trace_writer.h"

static const struct dtype {
    const char *name, *descr;
    uint32_t bytes;
    bool negative;
    int64_t most;
} dtypes[] = {
    { "u1", "|u1", 1, false, UINT8_MAX }, { "u2", "<u2", 2, false, UINT16_MAX }, { "u4", "<u4", 4, false, UINT32_MAX },
    { "i2", "<i2", 2, true, INT16_MAX },  { "i4", "<i4", 4, true, INT32_MAX },   { "i8", "<i8", 8, true, INT64_MAX },
};

/* The type that the user names, else the narrowest type that holds all experts (and -1). */
static const struct dtype *dtype_choose(const struct trace_writer *w, GError **error)
{
    const char *const asked = w->options->dtype;
    for (size_t i = 0; i < G_N_ELEMENTS(dtypes); i++) {
        const struct dtype *const d = &dtypes[i];
        const bool fits = (int64_t)w->info->experts - 1 <= d->most && (d->negative || !w->summary->none);
        if (!asked && fits) return d;
        if (!asked || strcmp(asked, d->name) != 0) continue;
        if (fits) return d;
        return error_null(error, "%s: dtype: expected one that holds experts %s to %u, found %s", w->path,
                          w->summary->none ? "-1" : "0", w->info->experts - 1, asked);
    }
    return error_null(error, "%s: dtype: expected u1, u2, u4, i2, i4 or i8, found %s", w->path, asked);
}

static bool header_write(struct output *output, const char *descr, const uint64_t *shape, uint32_t dims, GError **error)
{
    g_autoptr(GByteArray) header = npy_header(descr, shape, dims);
    return output_write(output, header->data, header->len, error);
}

/* The layers that have weights, as text like "0,4,7". */
static char *weight_layers_list(const struct trace_writer *w)
{
    GString *const list = g_string_new(NULL);
    for (uint32_t l = 0; l < w->info->layers; l++)
        if (w->summary->weight_steps[l]) g_string_append_printf(list, "%s%u", list->len ? "," : "", l);
    return g_string_free(list, FALSE);
}

static bool weights_begin(struct trace_writer *w, GError **error)
{
    const struct trace_info *const info = w->info;
    const char *const path = w->options->weights_path;
    const bool zstd = g_str_has_suffix(path, ".zst");
    for (uint32_t l = 0; l < info->layers; l++) {
        if (w->summary->weight_steps[l] == 0 || w->summary->weight_steps[l] == info->steps) continue;
        return error_input(error, "%s: layer %u: expected weights in all %u steps or in none, found them in %u", path,
                           l, info->steps, w->summary->weight_steps[l]);
    }
    const uint64_t shape[5] = { info->steps, w->summary->weight_layers, info->ranks, info->tokens_max, info->topk };
    w->weights_output =
        output_open(path, zstd ? OUTPUT_ZSTD : OUTPUT_PLAIN, w->options->level ? w->options->level : 3, error);
    if (w->summary->weight_layers < info->layers) {
        g_autofree char *list = weight_layers_list(w);
        w->note = g_strdup_printf("not all layers have weights: read them as %s@%s", path, list);
    }
    return w->weights_output &&
           header_write(w->weights_output, w->summary->weights_inexact ? "<f4" : "<f2", shape, 5, error);
}

static bool ragged_refuse(const struct trace_writer *w, GError **error)
{
    return error_input(error,
                       "%s: tokens: expected the same number on every rank for a numpy array, found fewer on some "
                       "(--pad fills up with -1)",
                       w->path);
}

static bool npy_begin(struct trace_writer *w, GError **error)
{
    const struct trace_info *const info = w->info;
    const uint64_t shape[5] = { info->steps, info->layers, info->ranks, info->tokens_max, info->topk };
    if (w->summary->ragged && !w->options->pad) return ragged_refuse(w, error);
    if (w->options->weights_path && !w->summary->weight_layers)
        return error_input(error, "%s: weights-output: expected a trace with weights, found none", w->path);
    const struct dtype *const dtype = dtype_choose(w, error);
    if (!dtype) return false;
    w->element_bytes = dtype->bytes;
    if (w->summary->weight_layers && !w->options->weights_path)
        w->note = g_strdup("the weights are left out: --weights-output FILE keeps them");
    return header_write(w->output, dtype->descr, shape, 5, error) &&
           (!w->options->weights_path || weights_begin(w, error));
}

void integers_append(GByteArray *out, const int32_t *values, size_t count, uint32_t bytes)
{
    const guint start = out->len;
    g_byte_array_set_size(out, (guint)(start + count * bytes));
    for (size_t i = 0; i < count; i++) {
        const int64_t wide = values[i];
        memcpy(out->data + start + i * bytes, &wide, bytes);
    }
}

void floats_append(GByteArray *out, const float *values, size_t count, bool half)
{
    const guint start = out->len, bytes = half ? 2 : 4;
    g_byte_array_set_size(out, (guint)(start + count * bytes));
    for (size_t i = 0; i < count; i++) {
        uint16_t bits = 0;
        if (half) {
            (void)half_from_float(values[i], &bits);
            memcpy(out->data + start + 2 * i, &bits, 2);
        } else {
            memcpy(out->data + start + 4 * i, &values[i], 4);
        }
    }
}

static bool npy_block(struct trace_writer *w, uint32_t step, uint32_t layer, const struct routing *routing,
                      GError **error)
{
    const bool weights = w->weights_output && w->summary->weight_steps[layer];
    (void)step;
    for (uint32_t r = 0; r < routing->ranks; r++) {
        const struct routing_rank *const rank = &routing->rank[r];
        const size_t missing = (size_t)(w->info->tokens_max - rank->tokens) * routing->topk;
        integers_append(w->scratch, rank->experts, (size_t)rank->tokens * routing->topk, w->element_bytes);
        const guint used = w->scratch->len;
        g_byte_array_set_size(w->scratch, (guint)(used + missing * w->element_bytes));
        memset(w->scratch->data + used, 0xff, missing * w->element_bytes);
        if (!trace_scratch_flush(w, w->output, error)) return false;
        if (!weights) continue;
        floats_append(w->scratch, rank->weights, (size_t)rank->tokens * routing->topk, !w->summary->weights_inexact);
        const guint filled = w->scratch->len, bytes = w->summary->weights_inexact ? 4 : 2;
        g_byte_array_set_size(w->scratch, (guint)(filled + missing * bytes));
        memset(w->scratch->data + filled, 0, missing * bytes);
        if (!trace_scratch_flush(w, w->weights_output, error)) return false;
    }
    return true;
}

static bool npy_end(struct trace_writer *w, GError **error)
{
    (void)w;
    (void)error;
    return true;
}

/* Begins vLLM's array.  It has one step and one rank, and all layers of a token are next to each other.  Because layers
 * are given one after another, the array is kept in memory until all are there. */
static bool vllm_begin(struct trace_writer *w, GError **error)
{
    const struct trace_info *const info = w->info;
    if (w->summary->ragged) return ragged_refuse(w, error);
    if (info->ranks != 1 || info->steps != 1 || info->experts > INT16_MAX + 1)
        return error_input(error,
                           "%s: expected 1 rank, 1 step and experts that fit int16 for vLLM's array, found %u, %u and "
                           "%u (eptwin trace remap --ranks 1)",
                           w->path, info->ranks, info->steps, info->experts);
    if (info->weights) w->note = g_strdup("vLLM's array has no weights: they are left out");
    w->state = g_new(int16_t, (size_t)info->tokens_max * info->layers * info->topk + 1);
    return true;
}

static bool vllm_block(struct trace_writer *w, uint32_t step, uint32_t layer, const struct routing *routing,
                       GError **error)
{
    int16_t *const all = w->state;
    (void)step;
    (void)error;
    for (uint32_t t = 0; t < w->info->tokens_max; t++)
        for (uint32_t k = 0; k < routing->topk; k++)
            all[((size_t)t * w->info->layers + layer) * routing->topk + k] =
                (int16_t)routing->rank[0].experts[(size_t)t * routing->topk + k];
    return true;
}

static bool vllm_end(struct trace_writer *w, GError **error)
{
    const struct trace_info *const info = w->info;
    const uint64_t shape[3] = { info->tokens_max, info->layers, info->topk };
    return header_write(w->output, "<i2", shape, 3, error) &&
           output_write(w->output, w->state, sizeof(int16_t) * info->tokens_max * info->layers * info->topk, error);
}

static void vllm_clear(struct trace_writer *w) { g_free(w->state); }

const struct trace_format trace_format_npy = { "npy", true, false, npy_begin, npy_block, npy_end, NULL };
const struct trace_format trace_format_npy_zst = { "npy.zst", true, true, npy_begin, npy_block, npy_end, NULL };
const struct trace_format trace_format_vllm = { "vllm", true, false, vllm_begin, vllm_block, vllm_end, vllm_clear };
