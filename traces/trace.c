/* trace.c - opens a trace of any format, and makes the checks that all formats share.
 *
 * The "FORMAT:" before a path, or the file's first bytes, decide which reader a file gets.  This file knows no format
 * itself. */
#include "traces/trace.h"

#include <string.h>
#include "sim/memory.h"
#include "sim/text.h"
#include "traces/formats/ept.h"
#include "traces/formats/npy.h"
#include "traces/formats/npy_trace.h"
#include "traces/formats/zip.h"
#include "traces/trace_source.h"

enum path_format { PATH_ANY, PATH_NPY, PATH_COUNTS, PATH_VLLM, PATH_LLAMA, PATH_ROUTED, PATH_SPLITS };

static bool format_error(GError **error, const char *path, const char *expected, const char *found)
{
    return error_input(error, "%s: expected %s, found %s", path, expected, found);
}

/* Splits "llama@8:FILE" into format, number and file. */
static enum path_format path_split(const char *path, uint32_t *number, const char **file, GError **error)
{
    static const struct {
        const char *name;
        enum path_format format;
        bool number;
    } names[] = {
        { "npy", PATH_NPY, false },    { "counts", PATH_COUNTS, false }, { "vllm", PATH_VLLM, false },
        { "llama", PATH_LLAMA, true }, { "routed", PATH_ROUTED, true },  { "splits", PATH_SPLITS, true },
    };
    *file = path;
    *number = 0;
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        const size_t length = strlen(names[i].name);
        if (strncmp(path, names[i].name, length) != 0 || (path[length] != ':' && path[length] != '@')) continue;
        const char *const colon = strchr(path, ':');
        if (!colon) continue;
        if (names[i].number != (path[length] == '@')) {
            format_error(error, path, names[i].number ? "FORMAT@NUMBER:FILE" : "FORMAT:FILE", "another form");
            return PATH_ANY;
        }
        g_autofree char *digits =
            names[i].number ? g_strndup(path + length + 1, (size_t)(colon - path) - length - 1) : NULL;
        guint64 value = 0;
        const bool good = !digits || text_whole(digits, 1, UINT32_MAX, &value);
        if (!good) {
            format_error(error, path, "a positive number after @", "something else");
            return PATH_ANY;
        }
        *number = (uint32_t)value;
        *file = colon + 1;
        return names[i].format;
    }
    return PATH_ANY;
}

/* Models have at most EXPERTS_OF_MODELS_MAX experts.  A token of a model chooses at most TOPK_OF_MODELS_MAX of them. */
enum { TOPK_OF_MODELS_MAX = 64, EXPERTS_OF_MODELS_MAX = 2048 };

/* Opens a trace whose format follows from its first bytes. */
static bool trace_detect(struct trace *trace, struct stream *stream, const struct trace_options *options,
                         GError **error)
{
    uint8_t head[256] = { 0 };
    size_t got = 0;
    if (!stream_read(stream, head, sizeof head - 1, &got, error) || !stream_seek(stream, 0, error)) goto refuse;
    if (got == 0) {
        format_error(error, trace->path, "a trace", "an empty file");
        goto refuse;
    }
    const size_t mark = memcmp(head, "\xef\xbb\xbf", 3) == 0 ? 3 : 0; /* a byte-order mark */
    if (mark && !stream_seek(stream, mark, error)) goto refuse;
    const char *const text = (const char *)head + mark;
    const char *const word = text + strspn(text, " \t\r\n");
    if (npy_magic(head, got)) {
        /* int16 in three dimensions may be [ranks, tokens, topk] or [tokens, layers, topk], so it is refused */
        struct npy npy;
        if (!npy_open(&npy, stream, error)) goto refuse;
        if (npy.kind == 'i' && npy.width == 2 && npy.dims == 3) {
            format_error(error, trace->path, "npy:FILE ([ranks, tokens, topk]) or vllm:FILE ([tokens, layers, topk])",
                         "an int16 array of three dimensions that may be either");
            goto refuse;
        }
        const bool counts = npy.kind != 'f' && npy.dims == 3 && npy.shape[2] > TOPK_OF_MODELS_MAX &&
                            npy.shape[2] <= EXPERTS_OF_MODELS_MAX;
        return (counts ? counts_trace_open : npy_trace_open)(trace, stream, options, error);
    }
    if (zip_magic(head, got)) return zip_trace_open(trace, stream, false, options, error);
    if (ept_magic(head, got)) return ept_trace_open(trace, stream, options, error);
    if (*word == '{') return jsonl_trace_open(trace, stream, 0, options, error);
    if (*word == '#' || g_str_has_prefix(word, "step")) return csv_trace_open(trace, stream, options, error);
    if (g_str_has_prefix(word, "layer"))
        format_error(error, trace->path, "llama@K:FILE, K experts a token", "a layer,expert file without K");
    else if (head[0] == 0x80 && got > 1 && head[1] >= 2 && head[1] <= 5)
        format_error(error, trace->path, "the ZIP form of torch.save (PyTorch 1.6 and later)", "a pickle alone");
    else
        format_error(error, trace->path, "a trace (.npy, .csv, .ept or JSON lines, plain or zstd; .npz or .pt)",
                     head[0] == 0x1f && head[1] == 0x8b ? "gzip's data" : "other bytes");
refuse:
    stream_close(stream);
    return false;
}

/* Makes one line of a message.  It may quote parts of a file, which can be any bytes. */
static void error_clean(GError **error)
{
    if (!error || !*error) return;
    char *const message = g_utf8_make_valid((*error)->message, -1);
    for (char *at = message; *at; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f) *at = '?';
    g_free((*error)->message);
    (*error)->message = message;
}

/* Opens an .npy or .npz with vLLM's order of dimensions. */
static bool vllm_path_open(struct trace *trace, struct stream *stream, const struct trace_options *options,
                           GError **error)
{
    uint8_t head[4];
    size_t got = 0;
    if (!stream_read(stream, head, sizeof head, &got, error) || !stream_seek(stream, 0, error)) {
        stream_close(stream);
        return false;
    }
    if (zip_magic(head, got)) return zip_trace_open(trace, stream, true, options, error);
    return vllm_trace_open(trace, stream, options, error);
}

static bool trace_open_format(struct trace *trace, const char *path, const struct trace_options *options,
                              GError **error)
{
    GError *inner = NULL;
    uint32_t number;
    const char *file;
    const enum path_format format = path_split(path, &number, &file, &inner);
    if (inner) {
        g_propagate_error(error, inner);
        return false;
    }
    struct stream *const stream = stream_open(file, error);
    if (!stream) return false;
    trace->path = g_strdup(stream_path(stream));
    switch (format) {
    case PATH_NPY: return npy_trace_open(trace, stream, options, error);
    case PATH_COUNTS: return counts_trace_open(trace, stream, options, error);
    case PATH_VLLM: return vllm_path_open(trace, stream, options, error);
    case PATH_LLAMA: return llama_trace_open(trace, stream, number, options, error);
    case PATH_ROUTED: return jsonl_trace_open(trace, stream, number, options, error);
    case PATH_SPLITS: return splits_trace_open(trace, stream, number, options, error);
    case PATH_ANY: break;
    }
    return trace_detect(trace, stream, options, error);
}

struct trace *trace_open(const char *path, const struct trace_options *options, GError **error)
{
    static const struct trace_options none;
    const struct trace_options *const o = options ? options : &none;
    struct trace *const trace = g_new0(struct trace, 1);
    bool good = trace_open_format(trace, path, o, error) && trace_info_check(trace, error);
    if (good && o->weights_path) {
        trace->weights = trace_weights_open(o->weights_path, &trace->info, error);
        trace->info.weights = good = trace->weights != NULL;
    }
    if (good) {
        trace->info.model = trace->model ? trace->model : "";
        trace->info.provenance = trace->provenance ? trace->provenance : "";
        return trace;
    }
    trace_close(trace);
    error_clean(error);
    return NULL;
}

void trace_close(struct trace *trace)
{
    if (!trace) return;
    trace_weights_close(trace->weights);
    if (trace->ops) trace->ops->close(trace);
    FREE_ALL(trace->provenance, trace->model, trace->path, trace);
}

const struct trace_info *trace_info(const struct trace *trace) { return &trace->info; }

/* If an expert is out of range, returns false, and the error names the first such expert. */
static bool experts_refuse(const struct trace *trace, uint32_t step, uint32_t layer, const struct routing *routing,
                           GError **error)
{
    for (uint32_t r = 0; r < routing->ranks; r++) {
        const size_t places = (size_t)routing->rank[r].tokens * routing->topk;
        for (size_t i = 0; i < places; i++) {
            const int32_t expert = routing->rank[r].experts[i];
            if (expert >= ROUTING_NONE && expert < (int64_t)routing->experts) continue;
            return error_input(
                error, "%s: step %u layer %u rank %u token %zu place %zu: expected an expert 0 to %u or -1, found %d",
                trace->path, step, layer, r, i / routing->topk, i % routing->topk, routing->experts - 1, expert);
        }
    }
    return true;
}

static bool experts_check(const struct trace *trace, uint32_t step, uint32_t layer, const struct routing *routing,
                          GError **error)
{
    /* compilers make vector instructions of loops of a fixed length, at any optimisation level */
    enum { LANES = 16 };
    uint32_t most[LANES] = { 0 }; /* experts + 1, so that -1 becomes 0 */
    for (uint32_t r = 0; r < routing->ranks; r++) {
        const int32_t *const experts = routing->rank[r].experts;
        const size_t places = (size_t)routing->rank[r].tokens * routing->topk;
        size_t i = 0;
        for (; i + LANES <= places; i += LANES)
            for (size_t lane = 0; lane < LANES; lane++) most[lane] = MAX(most[lane], (uint32_t)experts[i + lane] + 1);
        for (; i < places; i++) most[0] = MAX(most[0], (uint32_t)experts[i] + 1);
    }
    for (size_t lane = 1; lane < LANES; lane++) most[0] = MAX(most[0], most[lane]);
    return most[0] <= routing->experts || experts_refuse(trace, step, layer, routing, error);
}

bool trace_places_check(const struct trace *trace, uint32_t step, uint32_t layer, const struct routing *routing,
                        GError **error)
{
    g_autofree uint64_t *seen = g_new0(uint64_t, routing->experts); /* [experts] 1 + the last token with the expert */
    uint64_t token = 0;
    for (uint32_t r = 0; r < routing->ranks; r++) {
        const int32_t *at = routing->rank[r].experts;
        for (uint32_t t = 0; t < routing->rank[r].tokens; t++) {
            token++;
            for (uint32_t k = 0; k < routing->topk; k++, at++) {
                if (*at == ROUTING_NONE) continue;
                if (seen[*at] != token) {
                    seen[*at] = token;
                    continue;
                }
                return error_input(error,
                                   "%s: step %u layer %u rank %u token %u: expected %u different experts, found %d "
                                   "twice%s",
                                   trace->path, step, layer, r, t, routing->topk, *at,
                                   trace->array ? " (counts [steps, layers, experts] are counts:FILE)" : "");
            }
        }
    }
    return true;
}

static bool request_refuse(const struct trace *trace, const char *field, uint32_t limit, uint32_t found, GError **error)
{
    return error_input(error, "%s: %s: expected 0 to %u, found %u", trace->path, field, limit, found);
}

static bool weights_overlay(struct trace *trace, uint32_t step, uint32_t layer, struct routing *routing, GError **error)
{
    size_t places = 0;
    for (uint32_t r = 0; r < routing->ranks; r++) places += (size_t)routing->rank[r].tokens * routing->topk;
    if (places != (size_t)routing->ranks * trace->info.tokens_max * trace->info.topk)
        return error_input(
            error, "%s: step %u layer %u: expected %u tokens on every rank for an array of weights, found fewer",
            trace->path, step, layer, trace->info.tokens_max);
    float *const weights = g_new(float, places + 1);
    if (!trace_weights_read(trace->weights, step, layer, routing->ranks, weights, error)) {
        g_free(weights);
        return false;
    }
    g_free(routing->rank[0].weights);
    for (uint32_t r = 0; r < routing->ranks; r++)
        routing->rank[r].weights = weights + (size_t)r * trace->info.tokens_max * trace->info.topk;
    return true;
}

bool trace_read(struct trace *trace, uint32_t step, uint32_t layer, uint32_t rank_count, struct routing *out,
                GError **error)
{
    const struct trace_info *const info = &trace->info;
    const uint32_t ranks = rank_count ? rank_count : info->ranks;
    if (step >= info->steps) return request_refuse(trace, "step", info->steps - 1, step, error);
    if (layer >= info->layers) return request_refuse(trace, "layer", info->layers - 1, layer, error);
    if (ranks > info->ranks) return request_refuse(trace, "ranks", info->ranks, ranks, error);
    if (info->experts % ranks)
        return error_input(error, "%s: experts: expected a multiple of %u ranks, found %u", trace->path, ranks,
                           info->experts);
    struct routing routing;
    if (!trace->ops->read(trace, step, layer, ranks, &routing, error)) {
        error_clean(error);
        return false;
    }
    bool good = experts_check(trace, step, layer, &routing, error) &&
                (!trace->array || trace_places_check(trace, step, layer, &routing, error));
    if (good && trace->weights && trace_weights_cover(trace->weights, layer))
        good = weights_overlay(trace, step, layer, &routing, error);
    if (good) *out = routing;
    else routing_free(&routing);
    return good;
}
