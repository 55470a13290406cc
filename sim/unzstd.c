/* unzstd.c - decompresses zstd's data piece by piece; see unzstd.h. */
#include "sim/unzstd.h"

#include <zstd.h>
#include "sim/error.h"

struct unzstd {
    struct unzstd_source source;
    ZSTD_DCtx *context;
    ZSTD_inBuffer in;
    uint8_t *input;
    size_t input_size;
    uint64_t offset; /* of the next compressed byte to load */
    bool frame_open; /* whether the last call ended inside a frame */
};

bool unzstd_begins(const void *bytes, size_t size)
{
    const uint8_t *magic = bytes;
    return size >= 4 && (magic[0] | magic[1] << 8 | magic[2] << 16 | (uint32_t)magic[3] << 24) == ZSTD_MAGICNUMBER;
}

struct unzstd *unzstd_new(const struct unzstd_source *source)
{
    struct unzstd *u = g_new0(struct unzstd, 1);
    u->source = *source;
    u->context = ZSTD_createDCtx();
    g_assert(u->context);
    u->input_size = ZSTD_DStreamInSize();
    u->input = g_malloc(u->input_size);
    unzstd_rewind(u);
    return u;
}

void unzstd_free(struct unzstd *u)
{
    if (!u) return;
    ZSTD_freeDCtx(u->context);
    g_free(u->input);
    g_free(u);
}

void unzstd_rewind(struct unzstd *u)
{
    ZSTD_DCtx_reset(u->context, ZSTD_reset_session_only);
    u->in = (ZSTD_inBuffer){ u->input, 0, 0 };
    u->offset = 0;
    u->frame_open = false;
}

static bool refuse(const struct unzstd *u, const char *expected, const char *found, GError **error)
{
    return error_input(error, "%s: compressed offset %" G_GUINT64_FORMAT ": expected %s, found %s", u->source.name,
                       u->offset - u->in.size + u->in.pos, expected, found);
}

/* Loads the next compressed bytes.  Sets *ended if there are none. */
static bool input_load(struct unzstd *u, bool *ended, GError **error)
{
    size_t got;
    if (!u->source.read(u->source.context, u->offset, u->input, u->input_size, &got, error)) return false;
    u->in = (ZSTD_inBuffer){ u->input, got, 0 };
    u->offset += got;
    *ended = got == 0;
    return true;
}

bool unzstd_read(struct unzstd *u, void *buffer, size_t size, size_t *got, GError **error)
{
    ZSTD_outBuffer out = { buffer, size, 0 };
    bool ended = false;
    *got = 0;
    while (out.pos < out.size) {
        if (u->in.pos == u->in.size && !ended && !input_load(u, &ended, error)) return false;
        if (ended && !u->frame_open) break;
        const size_t before_in = u->in.pos, before_out = out.pos;
        const size_t result = ZSTD_decompressStream(u->context, &out, &u->in);
        if (ZSTD_isError(result)) return refuse(u, "zstd data", ZSTD_getErrorName(result), error);
        u->frame_open = result != 0;
        if (u->in.pos == before_in && out.pos == before_out && ended)
            return refuse(u, "more zstd data", "the end of the file", error);
    }
    *got = out.pos;
    return true;
}
