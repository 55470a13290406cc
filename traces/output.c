/* output.c - buffers and compresses what goes to a new file; see output.h. */
#include "traces/output.h"

#include <string.h>
#include <zstd.h>
#include "sim/new_file.h"
#include "traces/trace.h"

enum { BUFFER_BYTES = 1 << 18 };

struct output {
    char *path;
    struct new_file *file;
    uint64_t offset;
    ZSTD_CCtx *context;
    uint8_t *buffer; /* bytes on their way to the file */
    size_t used;
};

struct output *output_open(const char *path, int zstd_level, GError **error)
{
    struct new_file *const file = new_file_open(path, error);
    if (!file) return NULL;
    struct output *const o = g_new0(struct output, 1);
    o->path = g_strdup(path);
    o->file = file;
    o->buffer = g_malloc(BUFFER_BYTES);
    if (zstd_level) {
        o->context = ZSTD_createCCtx();
        ZSTD_CCtx_setParameter(o->context, ZSTD_c_compressionLevel, zstd_level);
        ZSTD_CCtx_setParameter(o->context, ZSTD_c_checksumFlag, 1);
    }
    return o;
}

static bool buffer_flush(struct output *o, GError **error)
{
    const size_t used = o->used;
    o->used = 0;
    return new_file_write(o->file, o->buffer, used, error);
}

/* Compresses data, or ends the zstd frame. */
static bool deflate_some(struct output *o, const void *data, size_t size, ZSTD_EndDirective end, GError **error)
{
    ZSTD_inBuffer in = { data, size, 0 };
    for (;;) {
        ZSTD_outBuffer out = { o->buffer, BUFFER_BYTES, o->used };
        const size_t left = ZSTD_compressStream2(o->context, &out, &in, end);
        if (ZSTD_isError(left)) {
            g_set_error(error, TRACE_ERROR, TRACE_ERROR_RUN, "%s: cannot compress: %s", o->path,
                        ZSTD_getErrorName(left));
            return false;
        }
        o->used = out.pos;
        if (end == ZSTD_e_end ? left == 0 : in.pos == in.size) return true;
        if (!buffer_flush(o, error)) return false;
    }
}

bool output_write(struct output *o, const void *data, size_t size, GError **error)
{
    o->offset += size;
    if (o->context) return deflate_some(o, data, size, ZSTD_e_continue, error);
    const uint8_t *at = data;
    while (size) {
        const size_t now = MIN(size, BUFFER_BYTES - o->used);
        memcpy(o->buffer + o->used, at, now);
        o->used += now;
        at += now;
        size -= now;
        if (o->used == BUFFER_BYTES && !buffer_flush(o, error)) return false;
    }
    return true;
}

uint64_t output_offset(const struct output *o) { return o->offset; }

bool output_commit(struct output *o, GError **error)
{
    bool good = (!o->context || deflate_some(o, NULL, 0, ZSTD_e_end, error)) && buffer_flush(o, error);
    if (good) good = new_file_commit(g_steal_pointer(&o->file), error);
    output_discard(o);
    return good;
}

void output_discard(struct output *o)
{
    if (!o) return;
    new_file_discard(o->file);
    ZSTD_freeCCtx(o->context);
    g_free(o->buffer);
    g_free(o->path);
    g_free(o);
}
