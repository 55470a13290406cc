/* ept_write.c - writes .ept files; see ept.h for the layout. */
#include <string.h>
#include <zstd.h>
#include "traces/formats/ept.h"
#include "traces/formats/npy.h"
#include "traces/trace_writer.h"

/* Levels of zstd.  Routing compresses because some experts are chosen more often, not because of repeats, so level 1
 * gets nearly all of the gain.  If all experts are chosen equally often (random routing), the gain is less than
 * GAIN_LEAST_PERCENT.  LEVEL_FLAT, which does not compress literals, then loses a few percent, but decodes
 * several times faster. */
enum { LEVEL_DEFAULT = 1, LEVEL_FLAT = -5, GAIN_LEAST_PERCENT = 8 };

struct ept_writer {
    ZSTD_CCtx *context;
    GByteArray *index; /* header, model and provenance, then entries */
    GByteArray *raw, *stored;
};

static bool ept_begin(struct trace_writer *w, GError **error)
{
    struct ept_writer *const e = g_new0(struct ept_writer, 1);
    const struct trace_info *const info = w->info;
    const char *const model = info->model ? info->model : "";
    const char *const provenance = info->provenance ? info->provenance : "";
    struct ept_header header = { .version = EPT_VERSION,
                                 .flags = info->weights ? EPT_FLAG_WEIGHTS : 0,
                                 .experts = info->experts,
                                 .topk = info->topk,
                                 .steps = info->steps,
                                 .layers = info->layers,
                                 .ranks = info->ranks,
                                 .tokens_max = info->tokens_max,
                                 .model_bytes = (uint32_t)MIN(strlen(model), (size_t)EPT_TEXT_MAX),
                                 .provenance_bytes = (uint32_t)MIN(strlen(provenance), (size_t)EPT_TEXT_MAX) };
    memcpy(header.magic, ept_magic_bytes, sizeof header.magic);
    w->state = e;
    e->context = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(e->context, ZSTD_c_checksumFlag, 1);
    e->index = g_byte_array_new();
    e->raw = g_byte_array_new();
    e->stored = g_byte_array_new();
    g_byte_array_append(e->index, (const uint8_t *)&header, sizeof header);
    g_byte_array_append(e->index, (const uint8_t *)model, header.model_bytes);
    g_byte_array_append(e->index, (const uint8_t *)provenance, header.provenance_bytes);
    return output_write(w->output, e->index->data, e->index->len, error);
}

/* Compresses bytes into e->stored. */
static bool frame_deflate_at(struct trace_writer *w, const GByteArray *bytes, int level, GError **error)
{
    struct ept_writer *const e = w->state;
    g_byte_array_set_size(e->stored, (guint)ZSTD_compressBound(bytes->len));
    ZSTD_CCtx_setParameter(e->context, ZSTD_c_compressionLevel, level);
    const size_t size = ZSTD_compress2(e->context, e->stored->data, e->stored->len, bytes->data, bytes->len);
    if (!ZSTD_isError(size)) {
        g_byte_array_set_size(e->stored, (guint)size);
        return true;
    }
    return error_run(error, "%s: cannot compress: %s", w->path, ZSTD_getErrorName(size));
}

static bool frame_deflate(struct trace_writer *w, const GByteArray *bytes, GError **error)
{
    const struct ept_writer *const e = w->state;
    if (w->options->level) return frame_deflate_at(w, bytes, w->options->level, error);
    if (!frame_deflate_at(w, bytes, LEVEL_DEFAULT, error)) return false;
    const uint64_t worth = (uint64_t)bytes->len * (100 - GAIN_LEAST_PERCENT) / 100;
    return e->stored->len <= worth || frame_deflate_at(w, bytes, LEVEL_FLAT, error);
}

static uint8_t index_type(const struct routing *routing, const struct routing_rank *rank, size_t places, uint8_t type)
{
    bool none = type & EPT_TYPE_NONE;
    for (size_t i = 0; i < places && !none; i++) none = rank->experts[i] < 0;
    /* -1 is stored with all bits set, so if any place is -1, no expert may have this value */
    const uint32_t above = routing->experts + none;
    return (uint8_t)((above <= 256 ? 1 : above <= 65536 ? 2 : 4) | (none ? EPT_TYPE_NONE : 0));
}

static bool weights_half(const struct routing_rank *rank, size_t places)
{
    uint16_t half;
    for (size_t i = 0; i < places; i++)
        if (!half_from_float(rank->weights[i], &half)) return false;
    return true;
}

static bool ept_block(struct trace_writer *w, uint32_t step, uint32_t layer, const struct routing *routing,
                      GError **error)
{
    struct ept_writer *const e = w->state;
    struct ept_entry entry = { .offset = output_offset(w->output) };
    const bool weights = routing->rank[0].weights != NULL;
    bool half = true;
    (void)step;
    (void)layer;
    g_byte_array_set_size(e->raw, 0);
    for (uint32_t r = 0; r < routing->ranks; r++) {
        const size_t places = (size_t)routing->rank[r].tokens * routing->topk;
        entry.tokens += routing->rank[r].tokens;
        entry.index_type = index_type(routing, &routing->rank[r], places, entry.index_type);
        half = half && weights && weights_half(&routing->rank[r], places);
        g_byte_array_append(e->raw, (const uint8_t *)&routing->rank[r].tokens, sizeof(uint32_t));
    }
    if (entry.tokens) {
        entry.weight_type = weights ? (half ? 2 : 4) : 0;
        for (uint32_t r = 0; r < routing->ranks; r++)
            integers_append(e->raw, routing->rank[r].experts, (size_t)routing->rank[r].tokens * routing->topk,
                            entry.index_type & ~EPT_TYPE_NONE);
        for (uint32_t r = 0; weights && r < routing->ranks; r++)
            floats_append(e->raw, routing->rank[r].weights, (size_t)routing->rank[r].tokens * routing->topk,
                          entry.weight_type == 2);
        if (!frame_deflate(w, e->raw, error) || !output_write(w->output, e->stored->data, e->stored->len, error))
            return false;
        entry.raw_bytes = e->raw->len;
        entry.stored_bytes = e->stored->len;
    } else {
        entry = (struct ept_entry){ 0 };
    }
    g_byte_array_append(e->index, (const uint8_t *)&entry, sizeof entry);
    return true;
}

static bool ept_end(struct trace_writer *w, GError **error)
{
    struct ept_writer *const e = w->state;
    struct ept_footer footer = { .index_offset = output_offset(w->output), .index_raw_bytes = e->index->len };
    memcpy(footer.magic, ept_magic_bytes, sizeof footer.magic);
    if (!frame_deflate(w, e->index, error) || !output_write(w->output, e->stored->data, e->stored->len, error))
        return false;
    footer.index_stored_bytes = e->stored->len;
    return output_write(w->output, &footer, sizeof footer, error);
}

static void ept_clear(struct trace_writer *w)
{
    struct ept_writer *const e = w->state;
    if (!e) return;
    ZSTD_freeCCtx(e->context);
    g_byte_array_unref(e->stored);
    g_byte_array_unref(e->raw);
    g_byte_array_unref(e->index);
    g_free(e);
}

const struct trace_format trace_format_ept = { "ept", false, false, ept_begin, ept_block, ept_end, ept_clear };
