/* whole_file.c - whole files, read with a limit, decompressed where zstd has compressed them, and written by
 * new_file.c.  Knows nothing of what they hold. */
#include "reports/whole_file.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <zstd.h>
#include "sim/new_file.h"

bool whole_file_write(const char *path, const char *text, size_t size_bytes, GError **error)
{
    assert(path && (text || size_bytes == 0));
    struct new_file *file = new_file_open(path, error);
    if (!file) return false;
    if (new_file_write(file, text, size_bytes, error)) return new_file_commit(file, error);
    new_file_discard(file);
    return false;
}

static bool size_refuse(const char *name, size_t size_max, GError **error)
{
    g_set_error(error, WHOLE_FILE_ERROR, WHOLE_FILE_ERROR_SIZE, "%s: longer than the limit of %zu bytes", name,
                size_max);
    return false;
}

/* ---- zstd ---- */

static bool is_compressed(const GByteArray *bytes)
{
    static const guint8 magic[] = { 0x28, 0xb5, 0x2f, 0xfd };
    return bytes->len >= sizeof magic && memcmp(bytes->data, magic, sizeof magic) == 0;
}

/* Takes frames one after another until all are read.  False and *error where they are damaged or too much. */
static bool frames_append(const char *name, const GByteArray *from, size_t size_max, GByteArray *to, GError **error)
{
    ZSTD_DCtx *context = ZSTD_createDCtx();
    ZSTD_inBuffer in = { from->data, from->len, 0 };
    g_autofree guint8 *part = g_malloc(ZSTD_DStreamOutSize());
    size_t left = 1;
    assert(context);
    for (bool full = true; (in.pos < in.size || full) && !ZSTD_isError(left) && to->len <= size_max;) {
        ZSTD_outBuffer out = { part, ZSTD_DStreamOutSize(), 0 };
        left = ZSTD_decompressStream(context, &out, &in);
        g_byte_array_append(to, part, (guint)out.pos);
        full = out.pos == out.size;
    }
    ZSTD_freeDCtx(context);
    if (to->len > size_max) return size_refuse(name, size_max, error);
    if (left == 0) return true;
    g_set_error(error, WHOLE_FILE_ERROR, WHOLE_FILE_ERROR_IO, "%s: expected zstd data, found %s", name,
                ZSTD_isError(left) ? ZSTD_getErrorName(left) : "their end too soon");
    return false;
}

/* Takes bytes, and returns what they stand for; NULL and *error where that cannot be had. */
static GByteArray *decompress(const char *name, GByteArray *bytes, size_t size_max, GError **error)
{
    if (!is_compressed(bytes)) return bytes;
    GByteArray *plain = g_byte_array_new();
    const bool good = frames_append(name, bytes, size_max, plain, error);
    g_byte_array_unref(bytes);
    if (good) return plain;
    g_byte_array_unref(plain);
    return NULL;
}

/* ---- reading ---- */

char *whole_file_read(const char *path, size_t size_max, size_t *size_bytes, GError **error)
{
    assert(path && size_bytes);
    const bool standard = strcmp(path, "-") == 0;
    const char *name = standard ? "standard input" : path;
    FILE *stream = standard ? stdin : fopen(path, "r");
    if (!stream) {
        g_set_error(error, WHOLE_FILE_ERROR, WHOLE_FILE_ERROR_IO, "%s: cannot open: %s", name, g_strerror(errno));
        return NULL;
    }
    GByteArray *all = g_byte_array_new();
    guint8 part[16384];
    size_t count;
    while (all->len <= size_max && (count = fread(part, 1, sizeof part, stream)) > 0)
        g_byte_array_append(all, part, (guint)count);
    const int failed = ferror(stream) ? (errno ? errno : EIO) : 0;
    if (!standard) fclose(stream);
    if (failed)
        g_set_error(error, WHOLE_FILE_ERROR, WHOLE_FILE_ERROR_IO, "%s: cannot read: %s", name, g_strerror(failed));
    if (failed || (all->len > size_max && !size_refuse(name, size_max, error))) {
        g_byte_array_free(all, TRUE);
        return NULL;
    }
    all = decompress(name, all, size_max, error);
    if (!all) return NULL;
    *size_bytes = all->len;
    g_byte_array_append(all, (const guint8 *)"", 1);
    return (char *)g_byte_array_free(all, FALSE);
}
