/* pt_trace.c - routing that torch.save wrote: a ZIP file with a pickle (data.pkl) and tensors' bytes (data/N).
 *
 *     {"records": [{"forward_pass_id", "topk_ids_of_layer": [layers, tokens, places], ...}, ...],
 *      "last_physical_to_logical_map": [layers, slots]}      SGLang's recorder, mode per_token: a rank's passes
 *     {"logical_count": [steps, layers, experts], ...}       SGLang's recorder, mode stat: counts of each expert
 *     [[tokens, topk], ...]                                  Megatron-Core's router replay: a tensor a layer
 *     {"routed_experts": tensor}, or a tensor alone          [tokens, layers, topk] (vLLM), or
 *                                                            [sequences, tokens, layers, topk] (verl)
 *
 * SGLang's recorder keeps slots ("physical experts"), which its map turns into logical experts.  The file has only the
 * last map of the recording.  Counts name neither tokens nor sources.  Each count is read as that many tokens of rank 0
 * with only that expert. */
#include "traces/formats/pickle.h"

#include <string.h>
#include "traces/formats/zip.h"
#include "traces/table.h"

struct pt {
    struct trace *trace;
    struct stream *stream;
    GPtrArray *entries;
    GHashTable *by_name; /* name -> bytes of an entry */
    struct pickle *pickle;
    char *folder; /* the folder in the file that has data.pkl */
    struct table *table;
};

static bool refuse(const struct pt *pt, GError **error, const char *where, const char *expected, const char *found)
{
    return error_input(error, "%s: %s: expected %s, found %s", pt->trace->path, where, expected, found);
}

/* ---- tensors ---- */

struct view {
    const struct pickle_tensor *tensor;
    const uint8_t *bytes;
};

static bool view_open(const struct pt *pt, const struct pickle_value *value, const char *where, uint32_t dims,
                      struct view *view, GError **error)
{
    char expected[48], found[48];
    g_snprintf(expected, sizeof expected, "a tensor of %u dimensions", dims);
    if (!value || value->type != PICKLE_TENSOR) return refuse(pt, error, where, expected, pickle_type_name(value));
    const struct pickle_tensor *const t = view->tensor = value->tensor;
    g_snprintf(found, sizeof found, "%u", t->dims);
    if (t->dims != dims) return refuse(pt, error, where, expected, found);
    if (t->kind != 'i' && t->kind != 'u')
        return refuse(pt, error, where, "a tensor of whole numbers",
                      t->kind == 'f' ? "of fractions" : "of truth values");
    g_autofree char *name = g_strdup_printf("%sdata/%s", pt->folder, t->storage);
    const GByteArray *const storage = g_hash_table_lookup(pt->by_name, name);
    if (!storage) return refuse(pt, error, where, name, "no such entry");
    if (storage->len / t->width < t->storage_count)
        return refuse(pt, error, name, "as many bytes as its tensor has", "fewer (truncated?)");
    view->bytes = storage->data;
    uint64_t count = 1;
    for (uint32_t d = 0; d < dims; d++) {
        if (t->shape[d] && count > TRACE_PLACES_MAX * 64 / t->shape[d])
            return refuse(pt, error, where, "at most 2^34 elements", "more");
        count *= t->shape[d];
    }
    return stream_check_growth(pt->stream, count * sizeof(int32_t), error);
}

static int64_t view_at(const struct view *v, uint64_t element)
{
    uint64_t bits = 0;
    memcpy(&bits, v->bytes + element * v->tensor->width, v->tensor->width);
    const unsigned shift = 64 - 8 * v->tensor->width;
    if (v->tensor->kind == 'u') return (int64_t)bits;
    return (int64_t)(bits << shift) >> shift;
}

/* The element's index in the storage: element (a, b, 0, ...) of the tensor. */
static uint64_t view_place(const struct view *v, uint64_t a, uint64_t b)
{
    const struct pickle_tensor *const t = v->tensor;
    return t->offset + a * t->stride[0] + (t->dims > 1 ? b * t->stride[1] : 0);
}

/* Adds a token with its experts.  The first expert is at `element`, and each later one is `stride` elements further. */
static bool token_add(struct pt *pt, const struct view *v, const char *where, uint32_t layer, uint32_t step,
                      uint64_t element, uint64_t stride, GError **error)
{
    struct table_rows *const rows = table_rows(pt->table, step, layer, 0);
    char found[32];
    if (!rows) return refuse(pt, error, where, TABLE_FULL, "one more");
    int32_t *const experts = table_row_add(pt->table, rows, NULL);
    for (uint32_t k = 0; k < table_topk(pt->table); k++) {
        const int64_t expert = view_at(v, element + k * stride);
        g_snprintf(found, sizeof found, "%" G_GINT64_FORMAT, expert);
        if (expert < ROUTING_NONE || expert >= ROUTING_EXPERTS_MAX)
            return refuse(pt, error, where, "experts below 1048576 or -1", found);
        experts[k] = (int32_t)expert;
    }
    return true;
}

/* The experts of the token that was added last. */
static int32_t *row_last(struct pt *pt, uint32_t step, uint32_t layer)
{
    const struct table_rows *const rows = table_rows(pt->table, step, layer, 0);
    return rows->experts + (size_t)(rows->tokens - 1) * table_topk(pt->table);
}

/* For the first tensor, makes the table.  For a later tensor, checks that its top-k is that of the table. */
static bool table_fit(struct pt *pt, const char *where, uint64_t layers, uint64_t topk, GError **error)
{
    char found[64];
    g_snprintf(found, sizeof found, "%" G_GUINT64_FORMAT " and %" G_GUINT64_FORMAT, layers, topk);
    if (layers < 1 || layers > 1 << 16 || topk < 1 || topk > ROUTING_TOPK_MAX)
        return refuse(pt, error, where, "1 to 65536 layers and topk 1 to 256", found);
    if (!pt->table) pt->table = table_new((uint32_t)topk);
    g_snprintf(found, sizeof found, "%" G_GUINT64_FORMAT, topk);
    return topk == table_topk(pt->table) || refuse(pt, error, where, "the topk of the first tensor", found);
}

/* ---- SGLang's recorder ---- */

/* Renames a layer's slots to logical experts. */
static bool slots_rename(const struct pt *pt, const struct view *map, uint32_t layer, int32_t *experts, GError **error)
{
    const struct pickle_tensor *const t = map->tensor;
    for (uint32_t k = 0; k < table_topk(pt->table); k++) {
        if (experts[k] == ROUTING_NONE) continue;
        const uint64_t slot = (uint64_t)experts[k];
        char found[32];
        g_snprintf(found, sizeof found, "%d", experts[k]);
        if (layer >= t->shape[0] || slot >= t->shape[1])
            return refuse(pt, error, "topk_ids_of_layer", "slots that last_physical_to_logical_map has", found);
        const int64_t expert = view_at(map, view_place(map, layer, slot));
        g_snprintf(found, sizeof found, "%" G_GINT64_FORMAT, expert);
        if (expert < 0 || expert >= ROUTING_EXPERTS_MAX)
            return refuse(pt, error, "last_physical_to_logical_map", "experts below 1048576", found);
        experts[k] = (int32_t)expert;
    }
    return true;
}

/* The number of places that tokens of the tensor use.  The recorder's buffer may have more places than the model's
 * top-k. */
static uint32_t places_used(const struct view *v)
{
    const struct pickle_tensor *const t = v->tensor;
    for (uint64_t k = t->shape[2]; k > 0; k--)
        for (uint64_t l = 0; l < t->shape[0]; l++)
            for (uint64_t i = 0; i < t->shape[1]; i++)
                if (view_at(v, view_place(v, l, i) + (k - 1) * t->stride[2]) != ROUTING_NONE) return (uint32_t)k;
    return 0;
}

static bool record_open(const struct pt *pt, const struct pickle_value *record, struct view *view, uint32_t *step,
                        GError **error)
{
    const struct pickle_value *const pass = pickle_member(record, "forward_pass_id");
    const struct pickle_value *const ids = pickle_member(record, "topk_ids_of_layer");
    if (!ids && pickle_member(record, "global_physical_count"))
        return refuse(pt, error, "records: topk_ids_of_layer", "the mode per_token of SGLang's recorder",
                      "a record of its mode per_pass");
    if (!pass || pass->type != PICKLE_INTEGER || pass->integer < 0 || pass->integer > UINT32_MAX)
        return refuse(pt, error, "records: forward_pass_id", "a whole number below 2^32", pickle_type_name(pass));
    *step = (uint32_t)pass->integer;
    return view_open(pt, ids, "records: topk_ids_of_layer", 3, view, error);
}

static bool record_add(struct pt *pt, const struct view *v, const struct view *map, uint32_t step, GError **error)
{
    const struct pickle_tensor *const t = v->tensor;
    for (uint64_t l = 0; l < t->shape[0]; l++) {
        for (uint64_t i = 0; i < t->shape[1]; i++) {
            if (!token_add(pt, v, "records: topk_ids_of_layer", (uint32_t)l, step, view_place(v, l, i), t->stride[2],
                           error))
                return false;
            if (!slots_rename(pt, map, (uint32_t)l, row_last(pt, step, (uint32_t)l), error)) return false;
        }
    }
    return true;
}

static bool records_read(struct pt *pt, const struct pickle_value *records, const struct pickle_value *map_value,
                         GError **error)
{
    struct view map, v;
    uint32_t step, topk = 1;
    uint64_t layers = 1;
    if (!view_open(pt, map_value, "last_physical_to_logical_map", 2, &map, error)) return false;
    for (uint32_t i = 0; i < pickle_count(records); i++) {
        if (!record_open(pt, pickle_item(records, i), &v, &step, error)) return false;
        topk = MAX(topk, places_used(&v));
        layers = MAX(layers, v.tensor->shape[0]);
    }
    if (!table_fit(pt, "records: topk_ids_of_layer", layers, topk, error)) return false;
    for (uint32_t i = 0; i < pickle_count(records); i++) {
        if (!record_open(pt, pickle_item(records, i), &v, &step, error)) return false;
        if (v.tensor->shape[2] < topk)
            return refuse(pt, error, "records: topk_ids_of_layer", "as many places in every record", "fewer");
        if (!record_add(pt, &v, &map, step, error)) return false;
    }
    return true;
}

/* ---- counts, which are read when they are asked for ---- */

static uint64_t counts_sum(const struct view *v, uint32_t step, uint32_t layer)
{
    uint64_t sum = 0;
    for (uint64_t e = 0; e < v->tensor->shape[2]; e++)
        sum += (uint64_t)view_at(v, view_place(v, step, layer) + e * v->tensor->stride[2]);
    return sum;
}

struct counts {
    struct pt pt;
    struct view view;
};

static bool counts_read(struct trace *trace, uint32_t step, uint32_t layer, uint32_t rank_count, struct routing *out,
                        GError **error)
{
    const struct view *const v = &((struct counts *)trace->state)->view;
    const uint32_t tokens = (uint32_t)counts_sum(v, step, layer);
    (void)error;
    routing_alloc(out, rank_count, 1, trace->info.experts, &tokens, false);
    int32_t *at = out->rank[0].experts;
    for (uint64_t e = 0; e < v->tensor->shape[2]; e++)
        for (int64_t n = view_at(v, view_place(v, step, layer) + e * v->tensor->stride[2]); n > 0; n--)
            *at++ = (int32_t)e;
    return true;
}

static void pt_clear(struct pt *pt)
{
    pickle_free(pt->pickle);
    if (pt->by_name) g_hash_table_unref(pt->by_name);
    if (pt->entries) g_ptr_array_unref(pt->entries);
    stream_close(pt->stream);
    g_free(pt->folder);
}

static void counts_close(struct trace *trace)
{
    struct counts *const counts = trace->state;
    pt_clear(&counts->pt);
    g_free(counts);
}

static const struct trace_source_ops counts_ops = { counts_read, counts_close };

/* Makes the counts the trace's source.  The trace takes over what *pt owns. */
static bool counts_serve(struct pt *pt, const struct view *v, const struct trace_options *options, GError **error)
{
    struct trace *const trace = pt->trace;
    const struct pickle_tensor *const t = v->tensor;
    for (uint32_t d = 0; d < 3; d++)
        if (t->shape[d] == 0 || t->shape[d] > UINT32_MAX)
            return refuse(pt, error, "logical_count", "steps, layers and experts", "none");
    for (uint64_t s = 0; s < t->shape[0]; s++)
        for (uint64_t l = 0; l < t->shape[1]; l++) {
            for (uint64_t e = 0; e < t->shape[2]; e++)
                if (view_at(v, view_place(v, s, l) + e * t->stride[2]) < 0)
                    return refuse(pt, error, "logical_count", "counts", "a negative number");
            const uint64_t sum = counts_sum(v, (uint32_t)s, (uint32_t)l);
            if (sum > TRACE_PLACES_MAX)
                return refuse(pt, error, "logical_count", "at most 2^28 choices in a step and layer", "more");
            trace->info.tokens_max = MAX(trace->info.tokens_max, (uint32_t)sum);
        }
    trace->info.steps = (uint32_t)t->shape[0];
    trace->info.layers = (uint32_t)t->shape[1];
    trace->info.ranks = trace->info.topk = 1;
    trace->info.experts = options->experts ? options->experts : (uint32_t)t->shape[2];
    trace->info.format = "sglang-counts";
    trace->info.counts = true;
    struct counts *const counts = g_new(struct counts, 1);
    *counts = (struct counts){ .pt = *pt, .view = *v };
    trace->state = counts;
    trace->ops = &counts_ops;
    *pt = (struct pt){ .trace = trace };
    return true;
}

/* ---- replays ---- */

/* Reads a list of tensors, one for each layer: [tokens, topk]. */
static bool layers_read(struct pt *pt, const struct pickle_value *list, GError **error)
{
    for (uint32_t l = 0; l < pickle_count(list); l++) {
        struct view v;
        g_autofree char *where = g_strdup_printf("layer %u", l);
        if (!view_open(pt, pickle_item(list, l), where, 2, &v, error) ||
            !table_fit(pt, where, pickle_count(list), v.tensor->shape[1], error))
            return false;
        for (uint64_t i = 0; i < v.tensor->shape[0]; i++)
            if (!token_add(pt, &v, where, l, 0, view_place(&v, i, 0), v.tensor->stride[1], error)) return false;
    }
    return true;
}

/* Reads a tensor [tokens, layers, topk], or [sequences, tokens, layers, topk], whose sequences follow one another. */
static bool routed_read(struct pt *pt, const struct pickle_value *value, GError **error)
{
    static const char where[] = "routed_experts";
    struct view v;
    const uint32_t dims = value->tensor->dims == 4 ? 4 : 3;
    if (!view_open(pt, value, where, dims, &v, error)) return false;
    const uint64_t *const shape = v.tensor->shape + dims - 3, *const stride = v.tensor->stride + dims - 3;
    const uint64_t sequences = dims == 4 ? v.tensor->shape[0] : 1, apart = dims == 4 ? v.tensor->stride[0] : 0;
    if (!table_fit(pt, where, shape[1], shape[2], error)) return false;
    for (uint64_t s = 0; s < sequences; s++)
        for (uint64_t i = 0; i < shape[0]; i++)
            for (uint64_t l = 0; l < shape[1]; l++) {
                if (!token_add(pt, &v, where, (uint32_t)l, 0,
                               v.tensor->offset + s * apart + i * stride[0] + l * stride[1], stride[2], error))
                    return false;
                if (dims == 4) table_row_unpad(row_last(pt, 0, (uint32_t)l), table_topk(pt->table));
            }
    return true;
}

/* ---- the whole file ---- */

static bool pickle_open(struct pt *pt, GError **error)
{
    pt->by_name = g_hash_table_new(g_str_hash, g_str_equal);
    for (guint i = 0; i < pt->entries->len; i++) {
        const struct zip_entry *const entry = g_ptr_array_index(pt->entries, i);
        g_hash_table_insert(pt->by_name, entry->name, entry->bytes);
        const char *const name = strrchr(entry->name, '/');
        if (pt->folder || strcmp(name ? name + 1 : entry->name, "data.pkl") != 0) continue;
        pt->folder = g_strndup(entry->name, strlen(entry->name) - strlen("data.pkl"));
        pt->pickle = pickle_read(pt->trace->path, entry->bytes->data, entry->bytes->len, error);
    }
    if (!pt->folder) return refuse(pt, error, "directory", "data.pkl, or arrays of numpy (*.npy)", "neither");
    g_autofree char *order = g_strconcat(pt->folder, "byteorder", NULL);
    const GByteArray *const told = g_hash_table_lookup(pt->by_name, order);
    if (pt->pickle && told && (told->len != 6 || memcmp(told->data, "little", 6) != 0))
        return refuse(pt, error, "byteorder", "little", "another");
    return pt->pickle != NULL;
}

static bool root_read(struct pt *pt, const struct trace_options *options, GError **error)
{
    const struct pickle_value *const root = pickle_root(pt->pickle);
    const struct pickle_value *const records = pickle_member(root, "records");
    const struct pickle_value *const counts = pickle_member(root, "logical_count");
    const struct pickle_value *const named = pickle_member(root, "routed_experts");
    const struct pickle_value *const routed = named ? named : root;
    if (records) {
        pt->trace->info.format = "sglang";
        return records_read(pt, records, pickle_member(root, "last_physical_to_logical_map"), error);
    }
    if (counts) {
        struct view v;
        return view_open(pt, counts, "logical_count", 3, &v, error) && counts_serve(pt, &v, options, error);
    }
    pt->trace->info.format = "pt";
    if (pickle_count(root)) return layers_read(pt, root, error);
    if (routed->type == PICKLE_TENSOR) return routed_read(pt, routed, error);
    return refuse(pt, error, "data.pkl", "SGLang's records or logical_count, routed_experts, or tensors of experts",
                  pickle_type_name(root));
}

bool pt_trace_open(struct trace *trace, struct stream *stream, GPtrArray *entries, const struct trace_options *options,
                   GError **error)
{
    struct pt pt = { .trace = trace, .stream = stream, .entries = entries };
    const bool good = pickle_open(&pt, error) && root_read(&pt, options, error);
    const bool served = trace->ops != NULL;
    pt_clear(&pt);
    if (served) return good;
    const struct table_claims claims = { .experts = options->experts };
    if (good) return table_serve(pt.table ? pt.table : table_new(1), &claims, trace, error);
    table_free(pt.table);
    return false;
}
