/* counts_trace.c - numpy arrays that count how often each expert was chosen: [steps, layers, experts] or [layers,
 * experts].
 *
 * SGLang's expert distribution recorder and load balancers write such arrays.  Counts name neither tokens nor sources.
 * Each count is read as that many tokens of rank 0 with only that expert. */
#include "traces/formats/npy.h"
#include "traces/trace_source.h"

struct counts {
    struct stream *stream;
    struct npy npy;
    int32_t *count; /* [experts] the counts of the block read last */
};

static bool count_refuse(const struct trace *trace, uint64_t block, const char *expected, const char *found,
                         GError **error)
{
    return error_input(error, "%s: step %" G_GUINT64_FORMAT " layer %" G_GUINT64_FORMAT ": expected %s, found %s",
                       trace->path, block / trace->info.layers, block % trace->info.layers, expected, found);
}

/* Reads the counts of a (step, layer), and sets *sum to their sum. */
static bool block_read(struct trace *trace, uint64_t block, uint64_t *sum, GError **error)
{
    struct counts *const c = trace->state;
    const uint64_t experts = c->npy.shape[c->npy.dims - 1];
    if (!npy_read_integers(&c->npy, block * experts, experts, c->count, error)) return false;
    *sum = 0;
    for (uint64_t e = 0; e < experts; e++) {
        if (c->count[e] < 0) return count_refuse(trace, block, "counts", "a negative number", error);
        *sum += (uint64_t)c->count[e];
    }
    return *sum <= TRACE_PLACES_MAX || count_refuse(trace, block, "at most 2^28 choices", "more", error);
}

static bool counts_read(struct trace *trace, uint32_t step, uint32_t layer, uint32_t rank_count, struct routing *out,
                        GError **error)
{
    const struct counts *const c = trace->state;
    uint64_t sum;
    if (!block_read(trace, (uint64_t)step * trace->info.layers + layer, &sum, error)) return false;
    const uint32_t tokens = (uint32_t)sum;
    routing_alloc(out, rank_count, 1, trace->info.experts, &tokens, false);
    int32_t *at = out->rank[0].experts;
    for (uint64_t e = 0; e < c->npy.shape[c->npy.dims - 1]; e++)
        for (int32_t n = 0; n < c->count[e]; n++) *at++ = (int32_t)e;
    return true;
}

static void counts_close(struct trace *trace)
{
    struct counts *const c = trace->state;
    stream_close(c->stream);
    g_free(c->count);
    g_free(c);
}

static const struct trace_source_ops counts_ops = { counts_read, counts_close };

static bool shape_take(struct trace *trace, const struct npy *npy, const struct trace_options *options, GError **error)
{
    const uint64_t *const shape = npy->shape;
    if (npy->kind == 'f' || npy->dims < 2 || npy->dims > 3)
        return error_input(
            error,
            "%s: header: expected integers [steps, layers, experts] or [layers, experts], found %s of %u dimensions",
            trace->path, npy->kind == 'f' ? "floats" : "integers", npy->dims);
    const uint64_t experts = shape[npy->dims - 1];
    trace->info.steps = npy->dims == 3 ? (uint32_t)shape[0] : 1;
    trace->info.layers = (uint32_t)shape[npy->dims - 2];
    trace->info.ranks = trace->info.topk = 1;
    trace->info.experts = options->experts ? options->experts : (uint32_t)experts;
    if (!trace_info_check(trace, error)) return false;
    if (experts && experts <= trace->info.experts) return true;
    return error_input(error, "%s: experts: expected 1 to %u, found %" G_GUINT64_FORMAT, trace->path,
                       trace->info.experts, experts);
}

bool counts_trace_open(struct trace *trace, struct stream *stream, const struct trace_options *options, GError **error)
{
    struct counts *const c = g_new0(struct counts, 1);
    c->stream = stream;
    trace->state = c;
    trace->ops = &counts_ops;
    trace->info.format = stream_is_compressed(stream) ? "counts, npy.zst" : "counts, npy";
    trace->info.counts = true;
    if (!npy_open(&c->npy, stream, error) || !shape_take(trace, &c->npy, options, error)) return false;
    c->count = g_new(int32_t, c->npy.shape[c->npy.dims - 1]);
    for (uint64_t block = 0; block < (uint64_t)trace->info.steps * trace->info.layers; block++) {
        uint64_t sum;
        if (!block_read(trace, block, &sum, error)) return false;
        trace->info.tokens_max = MAX(trace->info.tokens_max, (uint32_t)sum);
    }
    return npy_check_end(&c->npy, error);
}
