/* vllm_trace.c - vLLM's array of routed experts, integers [tokens, layers, topk], as one step of one rank. verl's array
 * is a batch, [sequences, tokens, layers, topk].  Its sequences are read one after another, without their padding. */
#include <string.h>
#include "traces/formats/npy.h"
#include "traces/table.h"

static bool vllm_check(struct npy *npy, const char *path, GError **error)
{
    if (npy->kind == 'f' || (npy->dims != 3 && npy->dims != 4))
        return error_input(error,
                           "%s: header: expected integers [tokens, layers, topk] or [sequences, tokens, layers, topk], "
                           "found %s, %u dimensions",
                           path, npy->kind == 'f' ? "floats" : "integers", npy->dims);
    if (npy->dims == 4) {
        npy->shape[0] *= npy->shape[1];
        memmove(npy->shape + 1, npy->shape + 2, 2 * sizeof *npy->shape);
        npy->dims = 3;
    }
    if (npy->shape[1] >= 1 && npy->shape[1] <= 1 << 16 && npy->shape[2] >= 1 && npy->shape[2] <= ROUTING_TOPK_MAX)
        return true;
    return error_input(error,
                       "%s: header: shape: expected 1 to 65536 layers and topk 1 to 256, found %" G_GUINT64_FORMAT
                       " and %" G_GUINT64_FORMAT,
                       path, npy->shape[1], npy->shape[2]);
}

bool vllm_trace_open(struct trace *trace, struct stream *stream, const struct trace_options *options, GError **error)
{
    struct npy npy;
    trace->info.format = "vllm";
    if (!npy_open(&npy, stream, error)) {
        stream_close(stream);
        return false;
    }
    const bool batch = npy.dims == 4;
    trace->array = !batch; /* padding in a batch repeats an expert */
    if (!vllm_check(&npy, trace->path, error)) {
        stream_close(stream);
        return false;
    }
    const uint32_t layers = (uint32_t)npy.shape[1], topk = (uint32_t)npy.shape[2];
    struct table *const table = table_new(topk);
    g_autofree int32_t *token = g_new(int32_t, (size_t)layers * topk);
    bool good = true;
    for (uint64_t t = 0; good && t < npy.shape[0]; t++) {
        good = npy_read_integers(&npy, t * layers * topk, (uint64_t)layers * topk, token, error);
        for (uint32_t l = 0; good && l < layers; l++) {
            if (batch) table_row_unpad(token + (size_t)l * topk, topk);
            memcpy(table_row_add(table, table_rows(table, 0, l, 0), NULL), token + (size_t)l * topk,
                   topk * sizeof *token);
        }
    }
    good = good && npy_check_end(&npy, error);
    stream_close(stream);
    const struct table_claims claims = { .experts = options->experts };
    if (good) return table_serve(table, &claims, trace, error);
    table_free(table);
    return false;
}
