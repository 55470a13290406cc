/* npz_trace.c - reads ZIP files: numpy's .npz, of which one array is then read like an .npy, and files of
 * torch.save. */
#include <string.h>
#include "traces/formats/zip.h"
#include "traces/trace_source.h"

/* Names of the array of routing, as engines write them into files of several arrays. */
static const char *const known[] = { "routed_experts.npy", "topk_idx.npy", "topk_ids.npy", "topk_indices.npy" };

/* The array of routing: the one with a known name, or the only array. */
static const struct zip_entry *array_choose(const GPtrArray *entries, const char *path, GError **error)
{
    const struct zip_entry *only = NULL;
    g_autoptr(GString) names = g_string_new(NULL);
    uint32_t arrays = 0;
    for (guint i = 0; i < entries->len; i++) {
        const struct zip_entry *const entry = g_ptr_array_index(entries, i);
        for (size_t k = 0; k < G_N_ELEMENTS(known); k++)
            if (strcmp(entry->name, known[k]) == 0) return entry;
        if (!g_str_has_suffix(entry->name, ".npy")) continue;
        only = entry;
        g_string_append_printf(names, "%s%s", arrays++ ? ", " : "", entry->name);
    }
    if (arrays == 1) return only;
    return error_null(error,
                      "%s: expected one array, or one named routed_experts, topk_idx, topk_ids or topk_indices, found "
                      "%u: %.200s",
                      path, arrays, names->str);
}

static bool has_array(const GPtrArray *entries)
{
    for (guint i = 0; i < entries->len; i++)
        if (g_str_has_suffix(((struct zip_entry *)g_ptr_array_index(entries, i))->name, ".npy")) return true;
    return false;
}

bool zip_trace_open(struct trace *trace, struct stream *stream, bool token_major, const struct trace_options *options,
                    GError **error)
{
    g_autoptr(GPtrArray) entries = zip_read(stream, error);
    if (!entries) {
        stream_close(stream);
        return false;
    }
    if (!has_array(entries)) return pt_trace_open(trace, stream, g_steal_pointer(&entries), options, error);
    const struct zip_entry *const array = array_choose(entries, trace->path, error);
    struct stream *const inner =
        array ? stream_of_bytes(trace->path, array->bytes->data, array->bytes->len, error) : NULL;
    const bool routed = array && strcmp(array->name, known[0]) == 0;
    stream_close(stream);
    if (!inner) return false;
    if (token_major || routed) return vllm_trace_open(trace, inner, options, error);
    return npy_trace_open(trace, inner, options, error);
}
