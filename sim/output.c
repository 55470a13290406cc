/* output.c - buffers and compresses what goes to a new file; see output.h. */
#include "sim/output.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <string.h>
#include <zstd.h>
#include "sim/new_file.h"

enum { BUFFER_BYTES = 1 << 18, MUCH_BYTES = 1 << 15 }; /* writes of MUCH_BYTES or more skip the buffer */

struct output {
    char *path;
    struct new_file *file;
    uint64_t offset;
    ZSTD_CCtx *context;   /* for OUTPUT_ZSTD, otherwise NULL */
    struct archive *gzip; /* for OUTPUT_GZIP, otherwise NULL */
    GError *gzip_error;   /* why the file refused what libarchive wrote */
    uint8_t *buffer;      /* bytes that have not been written to the file yet */
    size_t used;
    bool ended;
};

enum output_packing output_packing_named(const char *path)
{
    return g_str_has_suffix(path, ".zst") ? OUTPUT_ZSTD : g_str_has_suffix(path, ".gz") ? OUTPUT_GZIP : OUTPUT_PLAIN;
}

static bool refuse(const struct output *o, const char *reason, GError **error)
{
    return error_run(error, "%s: cannot compress: %s", o->path, reason);
}

static bool buffer_flush(struct output *o, GError **error)
{
    const size_t used = o->used;
    o->used = 0;
    return new_file_write(o->file, o->buffer, used, error);
}

static bool buffer_add(struct output *o, const void *data, size_t size, GError **error)
{
    if (size >= MUCH_BYTES) return buffer_flush(o, error) && new_file_write(o->file, data, size, error);
    for (const uint8_t *at = data; size;) {
        const size_t now = MIN(size, BUFFER_BYTES - o->used);
        memcpy(o->buffer + o->used, at, now);
        o->used += now;
        at += now;
        size -= now;
        if (o->used == BUFFER_BYTES && !buffer_flush(o, error)) return false;
    }
    return true;
}

/* ---- zstd ---- */

static void zstd_open(struct output *o, int level)
{
    o->context = ZSTD_createCCtx();
    g_assert(o->context);
    ZSTD_CCtx_setParameter(o->context, ZSTD_c_compressionLevel, level);
    ZSTD_CCtx_setParameter(o->context, ZSTD_c_checksumFlag, 1);
}

/* Compresses data, or ends the zstd frame. */
static bool zstd_add(struct output *o, const void *data, size_t size, ZSTD_EndDirective end, GError **error)
{
    ZSTD_inBuffer in = { data, size, 0 };
    for (;;) {
        ZSTD_outBuffer out = { o->buffer, BUFFER_BYTES, o->used };
        const size_t left = ZSTD_compressStream2(o->context, &out, &in, end);
        if (ZSTD_isError(left)) return refuse(o, ZSTD_getErrorName(left), error);
        o->used = out.pos;
        if (end == ZSTD_e_end ? left == 0 : in.pos == in.size) return true;
        if (!buffer_flush(o, error)) return false;
    }
}

/* ---- gzip: libarchive's filter around one entry without a format ---- */

static la_ssize_t gzip_taken(struct archive *a, void *context, const void *data, size_t size)
{
    struct output *const o = context;
    if (buffer_add(o, data, size, o->gzip_error ? NULL : &o->gzip_error)) return (la_ssize_t)size;
    archive_set_error(a, EIO, "the file does not take it");
    return -1;
}

/* Reports libarchive's result or, if the file itself failed, the file's error. */
static bool gzip_good(struct output *o, bool good, GError **error)
{
    if (good) return true;
    if (!o->gzip_error) return refuse(o, archive_error_string(o->gzip), error);
    g_propagate_error(error, g_steal_pointer(&o->gzip_error));
    return false;
}

static bool gzip_open(struct output *o, int level, GError **error)
{
    char text[16];
    g_snprintf(text, sizeof text, "%d", level);
    o->gzip = archive_write_new();
    g_assert(o->gzip);
    struct archive_entry *const entry = archive_entry_new();
    archive_entry_set_filetype(entry, AE_IFREG);
    const bool good = archive_write_set_format_raw(o->gzip) == ARCHIVE_OK &&
                      archive_write_add_filter_gzip(o->gzip) == ARCHIVE_OK &&
                      archive_write_set_filter_option(o->gzip, "gzip", "compression-level", text) == ARCHIVE_OK &&
                      archive_write_set_filter_option(o->gzip, "gzip", "timestamp", NULL) == ARCHIVE_OK &&
                      archive_write_set_bytes_in_last_block(o->gzip, 1) == ARCHIVE_OK &&
                      archive_write_open(o->gzip, o, NULL, gzip_taken, NULL) == ARCHIVE_OK &&
                      archive_write_header(o->gzip, entry) == ARCHIVE_OK;
    archive_entry_free(entry);
    return gzip_good(o, good, error);
}

static bool gzip_add(struct output *o, const void *data, size_t size, GError **error)
{
    return gzip_good(o, archive_write_data(o->gzip, data, size) == (la_ssize_t)size, error);
}

/* ---- a file ---- */

struct output *output_open(const char *path, enum output_packing packing, int level, GError **error)
{
    struct new_file *const file = new_file_open(path, error);
    if (!file) return NULL;
    struct output *const o = g_new0(struct output, 1);
    o->path = g_strdup(path);
    o->file = file;
    o->buffer = g_malloc(BUFFER_BYTES);
    if (packing == OUTPUT_ZSTD) zstd_open(o, level);
    if (packing != OUTPUT_GZIP || gzip_open(o, level, error)) return o;
    output_discard(o);
    return NULL;
}

bool output_write(struct output *o, const void *data, size_t size, GError **error)
{
    o->offset += size;
    if (o->context) return zstd_add(o, data, size, ZSTD_e_continue, error);
    if (o->gzip) return gzip_add(o, data, size, error);
    return buffer_add(o, data, size, error);
}

uint64_t output_offset(const struct output *o) { return o->offset; }

bool output_end(struct output *o, GError **error)
{
    o->ended = true;
    return (!o->context || zstd_add(o, NULL, 0, ZSTD_e_end, error)) &&
           (!o->gzip || gzip_good(o, archive_write_close(o->gzip) == ARCHIVE_OK, error)) && buffer_flush(o, error);
}

bool outputs_commit(struct output *o, struct output *other, GError **error)
{
    bool good = (o->ended || output_end(o, error)) && (!other || other->ended || output_end(other, error));
    struct new_file *const files[] = { o->file, other ? other->file : NULL };
    if (good) {
        o->file = NULL;
        if (other) other->file = NULL;
        good = new_files_commit(files, other ? 2 : 1, error);
    }
    output_discard(o);
    output_discard(other);
    return good;
}

bool output_commit(struct output *o, GError **error) { return outputs_commit(o, NULL, error); }

void output_discard(struct output *o)
{
    if (!o) return;
    if (o->gzip) {
        archive_write_fail(o->gzip); /* makes libarchive write nothing more */
        archive_write_free(o->gzip);
    }
    g_clear_error(&o->gzip_error);
    new_file_discard(o->file);
    ZSTD_freeCCtx(o->context);
    g_free(o->buffer);
    g_free(o->path);
    g_free(o);
}
