/* npy_trace.c - routing in numpy arrays [steps, layers, ranks, tokens, topk], with its weights.
 *
 * Missing leading dimensions count as 1, so one rank's topk_idx [tokens, topk] is a trace, too.  Nothing is kept in
 * memory.  Of a plain file, only the (step, layer) that is asked for is read.  A compressed file is read forwards, and
 * again from its start if an earlier part is asked for. */
#include "traces/formats/npy_trace.h"

#include <string.h>
#include "sim/text.h"
#include "traces/formats/npy.h"
#include "traces/trace_source.h"

struct npy_trace {
    struct stream *stream;
    struct npy npy;
};

/* Sets shape[5] to the array's shape, with 1 for missing leading dimensions. */
static bool shape_spread(const struct npy *npy, uint64_t shape[5], GError **error)
{
    if (npy->dims < 2 || npy->dims > 5)
        return error_input(error,
                           "%s: header: shape: expected [steps, layers, ranks, tokens, topk] or its last 2 to 4 "
                           "dimensions, found %u dimensions",
                           stream_path(npy->stream), npy->dims);
    const uint32_t missing = 5 - npy->dims;
    for (uint32_t d = 0; d < 5; d++) shape[d] = d < missing ? 1 : npy->shape[d - missing];
    return true;
}

static bool npy_trace_read(struct trace *trace, uint32_t step, uint32_t layer, uint32_t rank_count, struct routing *out,
                           GError **error)
{
    struct npy_trace *const n = trace->state;
    const struct trace_info *const info = &trace->info;
    g_autofree uint32_t *tokens = g_new(uint32_t, rank_count);
    for (uint32_t r = 0; r < rank_count; r++) tokens[r] = info->tokens_max;
    struct routing routing;
    routing_alloc(&routing, rank_count, info->topk, info->experts, tokens, false);
    const uint64_t rank_places = (uint64_t)info->tokens_max * info->topk;
    const uint64_t block = (uint64_t)step * info->layers + layer;
    /* The experts of all ranks follow one another, in the file as in the routing. */
    const bool good = npy_read_integers(&n->npy, block * info->ranks * rank_places, rank_count * rank_places,
                                        routing.rank[0].experts, error);
    if (good) *out = routing;
    else routing_free(&routing);
    return good;
}

static void npy_trace_close(struct trace *trace)
{
    g_autofree struct npy_trace *n = trace->state;
    stream_close(n->stream);
}

static const struct trace_source_ops npy_trace_ops = { npy_trace_read, npy_trace_close };

/* The highest expert of the whole array.  The array is read once, from start to end. */
static bool npy_trace_highest(struct npy *npy, int32_t *highest, GError **error)
{
    enum { CHUNK = 1 << 16 };
    g_autofree int32_t *chunk = g_new(int32_t, CHUNK);
    bool good = true;
    *highest = -1;
    for (uint64_t done = 0; good && done < npy->count; done += CHUNK) {
        const size_t now = (size_t)MIN(npy->count - done, (uint64_t)CHUNK);
        good = npy_read_integers(npy, done, now, chunk, error);
        for (size_t i = 0; good && i < now; i++) *highest = MAX(*highest, chunk[i]);
    }
    return good && npy_check_end(npy, error);
}

bool npy_trace_open(struct trace *trace, struct stream *stream, const struct trace_options *options, GError **error)
{
    struct npy_trace *const n = g_new0(struct npy_trace, 1);
    struct trace_info *const info = &trace->info;
    uint64_t shape[5];
    n->stream = stream;
    trace->state = n;
    trace->ops = &npy_trace_ops;
    trace->array = true;
    info->format = stream_is_compressed(stream) ? "npy.zst" : "npy";
    if (!npy_open(&n->npy, stream, error) || !shape_spread(&n->npy, shape, error)) return false;
    if (n->npy.kind == 'f')
        return error_input(
            error, "%s: header: descr: expected an integer type (experts), found a float type (weights?)", trace->path);
    info->steps = (uint32_t)shape[0];
    info->layers = (uint32_t)shape[1];
    info->ranks = (uint32_t)shape[2];
    info->tokens_max = (uint32_t)shape[3];
    info->topk = (uint32_t)shape[4];
    info->experts = options->experts;
    if (!trace_info_check(trace, error)) return false;
    int32_t highest = -1;
    if (!info->experts) {
        if (!npy_trace_highest(&n->npy, &highest, error)) return false;
        info->experts = trace_experts_guess(info->ranks, highest);
    }
    return true;
}

struct trace_weights {
    struct stream *stream;
    struct npy npy;
    uint32_t *layer_at; /* [layers of the trace] the layer's index in the file; UINT32_MAX: it has no weights */
    uint64_t shape[5];
};

void trace_weights_close(struct trace_weights *weights)
{
    if (!weights) return;
    stream_close(weights->stream);
    g_free(weights->layer_at);
    g_free(weights);
}

/* Reads a list such as "0,4,-".  Its n-th word is the trace's layer to which the file's n-th layer belongs, or "-" if
 * there is none. */
static bool weights_layers_parse(struct trace_weights *w, const struct trace_info *info, const char *list,
                                 GError **error)
{
    g_auto(GStrv) words = g_strsplit(list, ",", -1);
    const uint32_t count = g_strv_length(words);
    bool good = count == w->shape[1];
    if (!good)
        error_input(error,
                    "%s: expected a layer (or -) after @ for each of the file's %" G_GUINT64_FORMAT
                    " layers, found '%s'",
                    stream_path(w->stream), w->shape[1], list);
    for (uint32_t i = 0; good && i < count; i++) {
        guint64 layer = 0;
        if (strcmp(words[i], "-") == 0) continue;
        good = text_whole(words[i], 0, info->layers - 1, &layer) && w->layer_at[layer] == UINT32_MAX;
        if (good) w->layer_at[layer] = i;
        else
            error_input(error, "%s: expected different layers of the trace, 0 to %u, or - after @, found '%s'",
                        stream_path(w->stream), info->layers - 1, words[i]);
    }
    return good;
}

static bool weights_shape_check(const struct trace_weights *w, const struct trace_info *info, bool mapped,
                                GError **error)
{
    const uint64_t expected[5] = { info->steps, info->layers, info->ranks, info->tokens_max, info->topk };
    static const char *const names[5] = { "steps", "layers", "ranks", "tokens", "topk" };
    for (uint32_t d = 0; d < 5; d++) {
        if (w->shape[d] == expected[d] || (d == 1 && mapped)) continue;
        return error_input(
            error, "%s: header: shape: expected %" G_GUINT64_FORMAT " %s as in the trace%s, found %" G_GUINT64_FORMAT,
            stream_path(w->stream), expected[d], names[d],
            d == 1 ? " (or FILE@0,4,... to say which layers these are)" : "", w->shape[d]);
    }
    return true;
}

struct trace_weights *trace_weights_open(const char *path, const struct trace_info *info, GError **error)
{
    const char *const at = strrchr(path, '@');
    g_autofree char *file = at ? g_strndup(path, (size_t)(at - path)) : g_strdup(path);
    struct stream *const stream = stream_open(file, error);
    if (!stream) return NULL;
    struct trace_weights *const w = g_new0(struct trace_weights, 1);
    w->stream = stream;
    w->layer_at = g_new(uint32_t, info->layers);
    for (uint32_t l = 0; l < info->layers; l++) w->layer_at[l] = at ? UINT32_MAX : l;
    bool good = npy_open(&w->npy, stream, error) && shape_spread(&w->npy, w->shape, error);
    if (good && w->npy.kind != 'f') {
        error_input(error, "%s: header: descr: expected a float type (weights), found an integer type",
                    stream_path(stream));
        good = false;
    }
    good = good && weights_shape_check(w, info, at != NULL, error) &&
           (!at || weights_layers_parse(w, info, at + 1, error));
    if (good) return w;
    trace_weights_close(w);
    return NULL;
}

bool trace_weights_cover(const struct trace_weights *w, uint32_t layer) { return w->layer_at[layer] != UINT32_MAX; }

bool trace_weights_read(struct trace_weights *w, uint32_t step, uint32_t layer, uint32_t rank_count, float *out,
                        GError **error)
{
    const uint64_t rank_places = w->shape[3] * w->shape[4];
    const uint64_t block = step * w->shape[1] + w->layer_at[layer];
    return npy_read_floats(&w->npy, block * w->shape[2] * rank_places, rank_count * rank_places, out, error);
}
