/* ept_trace.c - reads .ept files.  The index is read once.  Any (step, layer) then takes one read and one
 * decompression.
 *
 * Whatever the file's size, memory holds only the index (24 bytes for each (step, layer)) and the largest frame
 * read. */
#include <math.h>
#include <string.h>
#include <zstd.h>
#include "traces/formats/ept.h"
#include "sim/memory.h"
#include "traces/formats/npy.h"
#include "traces/trace_source.h"

struct ept_trace {
    struct stream *stream;
    ZSTD_DCtx *context;
    struct ept_header header;
    uint64_t frames_start, frames_end;
    uint8_t *index; /* the decompressed index: copies of header, model and provenance, then entries */
    const uint8_t *entries;
    uint8_t *stored, *raw; /* buffers, as large as the largest frame read so far */
    size_t stored_size, raw_size;
};

static bool ept_error(const struct trace *trace, GError **error, uint64_t offset, const char *field,
                      const char *expected, uint64_t found)
{
    return error_input(error, "%s: offset %" G_GUINT64_FORMAT ": %s: expected %s, found %" G_GUINT64_FORMAT,
                       trace->path, offset, field, expected, found);
}

/* Decompresses one zstd frame of known size, and checks its checksum. */
static bool frame_inflate(struct trace *trace, uint64_t offset, const uint8_t *stored, size_t stored_bytes,
                          uint8_t *raw, size_t raw_bytes, GError **error)
{
    const struct ept_trace *const e = trace->state;
    const size_t size = ZSTD_decompressDCtx(e->context, raw, raw_bytes, stored, stored_bytes);
    if (!ZSTD_isError(size))
        return size == raw_bytes || ept_error(trace, error, offset, "frame", "the size in the index", size);
    return error_input(error,
                       "%s: offset %" G_GUINT64_FORMAT ": frame: expected zstd data with a good checksum, found: %s",
                       trace->path, offset, ZSTD_getErrorName(size));
}

/* Checks that a decompressed part is within the limits STREAM_FREE_BYTES and STREAM_RATIO_MAX. */
static bool growth_check(const struct trace *trace, uint64_t offset, uint64_t stored, uint64_t raw, GError **error)
{
    return raw <= STREAM_FREE_BYTES || raw / STREAM_RATIO_MAX <= stored ||
           ept_error(trace, error, offset, "frame", "at most 1000 times its stored size", raw);
}

static bool header_check(const struct trace *trace, const struct ept_header *h, uint64_t file_bytes, GError **error)
{
    if (!ept_magic(h->magic, sizeof h->magic)) return ept_error(trace, error, 0, "magic", "an .ept file", h->magic[0]);
    if (h->version != EPT_VERSION) return ept_error(trace, error, 8, "version", "1", h->version);
    if (h->flags & ~EPT_FLAG_WEIGHTS) return ept_error(trace, error, 10, "flags", "0 or 1", h->flags);
    if (h->model_bytes > EPT_TEXT_MAX)
        return ept_error(trace, error, 36, "model bytes", "at most 65536", h->model_bytes);
    if (h->provenance_bytes > EPT_TEXT_MAX)
        return ept_error(trace, error, 40, "provenance bytes", "at most 65536", h->provenance_bytes);
    if (h->reserved) return ept_error(trace, error, 44, "reserved", "0", h->reserved);
    const uint64_t least = sizeof *h + h->model_bytes + h->provenance_bytes + sizeof(struct ept_footer);
    return file_bytes >= least || ept_error(trace, error, file_bytes, "file", "a footer (truncated?)", file_bytes);
}

static bool header_read(struct trace *trace, GError **error)
{
    struct ept_trace *const e = trace->state;
    struct trace_info *const info = &trace->info;
    struct ept_header *const h = &e->header;
    if (!stream_read_raw(e->stream, 0, h, sizeof *h, "header", error) ||
        !header_check(trace, h, stream_file_bytes(e->stream), error))
        return false;
    e->frames_start = sizeof *h + h->model_bytes + h->provenance_bytes;
    g_autofree char *text = g_malloc0((size_t)h->model_bytes + h->provenance_bytes + 1);
    const bool good = stream_read_raw(e->stream, sizeof *h, text, (size_t)h->model_bytes + h->provenance_bytes,
                                      "model and provenance", error);
    trace->provenance = g_utf8_make_valid(text + h->model_bytes, h->provenance_bytes);
    trace->model = g_utf8_make_valid(text, h->model_bytes);
    *info = (struct trace_info){ .steps = h->steps,
                                 .layers = h->layers,
                                 .ranks = h->ranks,
                                 .topk = h->topk,
                                 .experts = h->experts,
                                 .tokens_max = h->tokens_max,
                                 .format = "ept",
                                 .weights = h->flags & EPT_FLAG_WEIGHTS };
    return good && trace_info_check(trace, error) &&
           (info->experts > 0 || ept_error(trace, error, 12, "experts", "1 or more", 0));
}

static struct ept_entry entry_get(const struct ept_trace *e, uint64_t block)
{
    struct ept_entry entry;
    memcpy(&entry, e->entries + block * sizeof entry, sizeof entry);
    return entry;
}

static bool entry_check(const struct trace *trace, const struct ept_entry *entry, GError **error)
{
    const struct ept_trace *const e = trace->state;
    const unsigned width = entry->index_type & ~EPT_TYPE_NONE;
    const uint64_t places = (uint64_t)entry->tokens * e->header.topk;
    const uint64_t raw = e->header.ranks * sizeof(uint32_t) + places * (width + entry->weight_type);
    if (entry->reserved) return ept_error(trace, error, entry->offset, "index: reserved", "0", entry->reserved);
    if (entry->stored_bytes == 0)
        return entry->tokens == 0 ||
               ept_error(trace, error, entry->offset, "index: tokens", "0 without a frame", entry->tokens);
    if (entry->offset < e->frames_start || entry->offset > e->frames_end ||
        entry->stored_bytes > e->frames_end - entry->offset)
        return ept_error(trace, error, entry->offset, "index: frame", "a frame before the index", entry->offset);
    if (width != 1 && width != 2 && width != 4)
        return ept_error(trace, error, entry->offset, "index: index type", "1, 2 or 4 bytes", entry->index_type);
    if (entry->weight_type != 0 && entry->weight_type != 2 && entry->weight_type != 4)
        return ept_error(trace, error, entry->offset, "index: weight type", "0, 2 or 4 bytes", entry->weight_type);
    if (places > TRACE_PLACES_MAX || entry->raw_bytes != raw)
        return ept_error(trace, error, entry->offset, "index: raw bytes", "what tokens and types make",
                         entry->raw_bytes);
    return growth_check(trace, entry->offset, entry->stored_bytes, entry->raw_bytes, error);
}

/* Reads footer and index, and checks everything in them. */
static bool index_read(struct trace *trace, GError **error)
{
    struct ept_trace *const e = trace->state;
    const uint64_t file_bytes = stream_file_bytes(e->stream), footer_at = file_bytes - sizeof(struct ept_footer);
    const uint64_t blocks = (uint64_t)trace->info.steps * trace->info.layers;
    struct ept_footer footer;
    if (!stream_read_raw(e->stream, footer_at, &footer, sizeof footer, "footer", error)) return false;
    if (!ept_magic(footer.magic, sizeof footer.magic))
        return ept_error(trace, error, footer_at + 24, "footer", "the end of an .ept file (truncated?)",
                         footer.magic[0]);
    if (footer.index_offset < e->frames_start || footer.index_offset > footer_at ||
        footer.index_stored_bytes != footer_at - footer.index_offset)
        return ept_error(trace, error, footer_at, "footer: index", "an index that ends at the footer",
                         footer.index_offset);
    if (footer.index_raw_bytes != e->frames_start + blocks * sizeof(struct ept_entry))
        return ept_error(trace, error, footer_at + 16, "footer: index bytes", "one entry a (step, layer)",
                         footer.index_raw_bytes);
    if (!growth_check(trace, footer_at, footer.index_stored_bytes, footer.index_raw_bytes, error)) return false;
    g_autofree uint8_t *stored = g_malloc(footer.index_stored_bytes + 1);
    e->index = g_malloc(footer.index_raw_bytes + e->frames_start + 1);
    uint8_t *const head = e->index + footer.index_raw_bytes; /* what the copies in the index must equal */
    bool good = stream_read_raw(e->stream, footer.index_offset, stored, footer.index_stored_bytes, "index", error) &&
                frame_inflate(trace, footer.index_offset, stored, footer.index_stored_bytes, e->index,
                              footer.index_raw_bytes, error) &&
                stream_read_raw(e->stream, 0, head, e->frames_start, "header", error);
    if (good && memcmp(head, e->index, e->frames_start) != 0)
        good = ept_error(trace, error, 0, "header", "the copy in the index", head[0]);
    e->entries = e->index + e->frames_start;
    e->frames_end = footer.index_offset;
    for (uint64_t b = 0; good && b < blocks; b++) {
        const struct ept_entry entry = entry_get(e, b);
        good = entry_check(trace, &entry, error);
    }
    return good;
}

/* Widens `count` indices to int32_t.  If a call's count is constant, compilers make vector instructions of it at any
 * optimisation level. */
static inline void indices_widen_some(const uint8_t *bytes, unsigned type, size_t count, int32_t *out)
{
    uint16_t pair;
    switch (type) {
    case 1:
        for (size_t i = 0; i < count; i++) out[i] = bytes[i];
        break;
    case 1 | EPT_TYPE_NONE:
        for (size_t i = 0; i < count; i++) out[i] = bytes[i] == 0xff ? -1 : bytes[i];
        break;
    case 2:
        for (size_t i = 0; i < count; i++) {
            memcpy(&pair, bytes + 2 * i, 2);
            out[i] = pair;
        }
        break;
    case 2 | EPT_TYPE_NONE:
        for (size_t i = 0; i < count; i++) {
            memcpy(&pair, bytes + 2 * i, 2);
            out[i] = pair == 0xffff ? -1 : pair;
        }
        break;
    default: memcpy(out, bytes, count * sizeof *out);
    }
}

static void indices_widen(const uint8_t *bytes, unsigned type, size_t count, int32_t *out)
{
    enum { BLOCK = 128 };
    const unsigned width = type & ~EPT_TYPE_NONE;
    size_t i = 0;
    for (; i + BLOCK <= count; i += BLOCK) indices_widen_some(bytes + i * width, type, BLOCK, out + i);
    indices_widen_some(bytes + i * width, type, count - i, out + i);
}

static bool weights_widen(const struct trace *trace, uint64_t offset, const uint8_t *bytes, unsigned type, size_t count,
                          float *out, GError **error)
{
    for (size_t i = 0; i < count; i++) {
        uint16_t half;
        if (type == 2) {
            memcpy(&half, bytes + 2 * i, 2);
            out[i] = half_to_float(half);
        } else {
            memcpy(&out[i], bytes + 4 * i, 4);
        }
        if (!isfinite(out[i])) return ept_error(trace, error, offset, "weights", "finite weights, all but", i);
    }
    return true;
}

/* Turns a decompressed frame into the routing of its first rank_count ranks. */
static bool frame_decode(const struct trace *trace, const struct ept_entry *entry, uint32_t rank_count,
                         struct routing *out, GError **error)
{
    const struct ept_trace *const e = trace->state;
    const uint32_t ranks = e->header.ranks, topk = e->header.topk;
    uint32_t *const tokens = g_new(uint32_t, ranks);
    memcpy(tokens, e->raw, ranks * sizeof *tokens);
    uint64_t sum = 0, used = 0;
    bool good = true;
    for (uint32_t r = 0; r < ranks; r++) {
        sum += tokens[r];
        used += r < rank_count ? tokens[r] : 0;
        good = good && tokens[r] <= e->header.tokens_max;
    }
    if (!good || sum != entry->tokens) {
        g_free(tokens);
        return ept_error(trace, error, entry->offset, "frame: tokens", "the sum in the index, none above the maximum",
                         sum);
    }
    routing_alloc(out, rank_count, topk, trace->info.experts, tokens, entry->weight_type != 0);
    g_free(tokens);
    const unsigned width = entry->index_type & ~EPT_TYPE_NONE;
    const uint8_t *const indices = e->raw + ranks * sizeof *tokens;
    indices_widen(indices, entry->index_type, used * topk, out->rank[0].experts);
    if (!entry->weight_type || weights_widen(trace, entry->offset, indices + sum * topk * width, entry->weight_type,
                                             used * topk, out->rank[0].weights, error))
        return true;
    routing_free(out);
    return false;
}

static bool ept_trace_read(struct trace *trace, uint32_t step, uint32_t layer, uint32_t rank_count, struct routing *out,
                           GError **error)
{
    struct ept_trace *const e = trace->state;
    const struct ept_entry entry = entry_get(e, (uint64_t)step * trace->info.layers + layer);
    if (entry.stored_bytes == 0) {
        g_autofree uint32_t *tokens = g_new0(uint32_t, rank_count);
        routing_alloc(out, rank_count, trace->info.topk, trace->info.experts, tokens, false);
        return true;
    }
    if (entry.stored_bytes > e->stored_size) {
        e->stored_size = entry.stored_bytes;
        e->stored = g_realloc(e->stored, e->stored_size);
    }
    if (entry.raw_bytes > e->raw_size) {
        e->raw_size = entry.raw_bytes;
        e->raw = g_realloc(e->raw, e->raw_size);
    }
    return stream_read_raw(e->stream, entry.offset, e->stored, entry.stored_bytes, "frame", error) &&
           frame_inflate(trace, entry.offset, e->stored, entry.stored_bytes, e->raw, entry.raw_bytes, error) &&
           frame_decode(trace, &entry, rank_count, out, error);
}

static void ept_trace_close(struct trace *trace)
{
    struct ept_trace *const e = trace->state;
    ZSTD_freeDCtx(e->context);
    stream_close(e->stream);
    FREE_ALL(e->raw, e->stored, e->index, e);
}

static const struct trace_source_ops ept_trace_ops = { ept_trace_read, ept_trace_close };

bool ept_trace_open(struct trace *trace, struct stream *stream, const struct trace_options *options, GError **error)
{
    struct ept_trace *const e = g_new0(struct ept_trace, 1);
    e->stream = stream;
    e->context = ZSTD_createDCtx();
    trace->state = e;
    trace->ops = &ept_trace_ops;
    if (stream_is_compressed(stream))
        return error_input(error,
                           "%s: expected an .ept file as it is (it is compressed inside), found one compressed by zstd",
                           trace->path);
    if (!header_read(trace, error) || !index_read(trace, error)) return false;
    if (options->experts) trace->info.experts = options->experts;
    return true;
}

bool ept_trace_digest(struct trace *trace, GChecksum *checksum)
{
    const struct ept_trace *const e = trace->state;
    g_checksum_update(checksum, (const guchar *)&e->header, sizeof e->header);
    for (uint64_t block = 0; block < (uint64_t)trace->info.steps * trace->info.layers; block++) {
        const struct ept_entry entry = entry_get(e, block);
        uint32_t said[4] = { entry.raw_bytes, entry.tokens, entry.index_type, 0 };
        const uint64_t end = entry.offset + entry.stored_bytes; /* the frame's last 4 bytes are zstd's checksum */
        if (entry.stored_bytes >= 4 && !stream_read_raw(e->stream, end - 4, &said[3], 4, "checksum", NULL))
            return false;
        g_checksum_update(checksum, (const guchar *)said, sizeof said);
    }
    return true;
}
