/* whole_file.c - whole files: read with a limit, decompressed if zstd has compressed them, and written by
 * new_file.c.  Does not know their contents. */
#include "reports/whole_file.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "sim/new_file.h"
#include "sim/text.h"
#include "sim/unzstd.h"

enum { PART_BYTES = 16384, PLAIN_BYTES_FREE = 4 << 20, PLAIN_TIMES_MAX = 100 };
/* While compressed bytes are left, this many decompressed bytes are allowed at any ratio, because the beginning of a
 * file may compress better than the whole. */
enum { PLAIN_BYTES_BEGIN = 64 << 20 };
/* A decompressed file may hold VALUES_FREE values of JSON, and VALUES_TIMES_MAX more for each compressed byte. */
enum { VALUES_FREE = 1 << 20, VALUES_TIMES_MAX = 4 };

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
    return error_input(error, "%s: longer than the limit of %zu bytes", name, size_max);
}

/* ---- zstd ---- */

struct compressed {
    const GByteArray *bytes;
    size_t read; /* how many of these bytes the decompressor has taken */
};

static bool bytes_read(void *context, uint64_t offset, void *buffer, size_t size, size_t *got, GError **error)
{
    struct compressed *from = context;
    (void)error;
    *got = offset < from->bytes->len ? MIN(size, from->bytes->len - (size_t)offset) : 0;
    memcpy(buffer, from->bytes->data + offset, *got);
    from->read = (size_t)offset + *got;
    return true;
}

/* The most bytes that may be decompressed from the compressed bytes taken so far. */
static size_t plain_max(const struct compressed *from)
{
    const bool all = from->read == from->bytes->len;
    return MAX((size_t)(all ? PLAIN_BYTES_FREE : PLAIN_BYTES_BEGIN), from->read * PLAIN_TIMES_MAX);
}

static bool bomb_refuse(const char *name, const struct compressed *from, size_t plain_bytes, GError **error)
{
    return error_input(error,
                       "%s: expected at most %d times as many decompressed bytes as compressed ones, found %zu of %zu",
                       name, PLAIN_TIMES_MAX, plain_bytes, from->read);
}

/* Appends decompressed bytes.  False and *error if the data are damaged or too large. */
static bool plain_append(const char *name, const GByteArray *bytes, size_t size_max, GByteArray *to, GError **error)
{
    struct compressed from = { .bytes = bytes };
    const struct unzstd_source source = { .read = bytes_read, .context = &from, .name = name };
    struct unzstd *unzstd = unzstd_new(&source);
    guint8 part[PART_BYTES];
    size_t got = 1;
    bool good = true;
    while (good && got && to->len <= size_max && to->len <= plain_max(&from)) {
        good = unzstd_read(unzstd, part, sizeof part, &got, error);
        g_byte_array_append(to, part, (guint)got);
    }
    unzstd_free(unzstd);
    if (!good) return false;
    return to->len > plain_max(&from) ? bomb_refuse(name, &from, to->len, error)
           : to->len > size_max       ? size_refuse(name, size_max, error)
                                      : true;
}

/* Whether the decompressed text has few enough values of JSON.  They are limited because a value takes many times as
 * much memory as its text. */
static bool values_check(const char *name, const GByteArray *from, const GByteArray *plain, GError **error)
{
    const uint64_t values = text_json_values((const char *)plain->data, plain->len);
    const uint64_t most = VALUES_FREE + (uint64_t)VALUES_TIMES_MAX * from->len;
    if (values <= most) return true;
    return error_input(error,
                       "%s: expected at most %" G_GUINT64_FORMAT
                       " values of JSON in %u compressed bytes, found %" G_GUINT64_FORMAT,
                       name, most, from->len, values);
}

/* Takes the bytes and returns them decompressed.  NULL and *error if that fails. */
static GByteArray *decompress(const char *name, GByteArray *bytes, size_t size_max, GError **error)
{
    if (!unzstd_begins(bytes->data, bytes->len)) return bytes;
    g_autoptr(GByteArray) plain = g_byte_array_new();
    const bool good = plain_append(name, bytes, size_max, plain, error) && values_check(name, bytes, plain, error);
    g_byte_array_unref(bytes);
    return good ? g_steal_pointer(&plain) : NULL;
}

/* ---- reading ---- */

/* False and *error if another program than zstd has compressed the bytes. */
static bool packed_refuse(const char *name, const GByteArray *bytes, GError **error)
{
    static const struct {
        const char *begin, *format;
    } known[] = { { "\x1f\x8b", "gzip" }, { "\xfd\x37\x7aXZ", "xz" }, { "BZh", "bzip2" }, { "PK\x03\x04", "ZIP" } };
    for (size_t i = 0; i < G_N_ELEMENTS(known); i++) {
        const size_t length = strlen(known[i].begin);
        if (bytes->len >= length && memcmp(bytes->data, known[i].begin, length) == 0)
            return error_input(error, "%s: expected text, plain or compressed by zstd, found %s's data", name,
                               known[i].format);
    }
    return true;
}

/* Takes a byte-order mark from the beginning of the bytes. */
static void mark_drop(GByteArray *bytes)
{
    if (bytes->len >= 3 && memcmp(bytes->data, "\xef\xbb\xbf", 3) == 0) g_byte_array_remove_range(bytes, 0, 3);
}

char *whole_file_read(const char *path, size_t size_max, size_t *size_bytes, GError **error)
{
    assert(path && size_bytes);
    const bool standard = strcmp(path, "-") == 0;
    const char *name = standard ? "standard input" : path;
    FILE *stream = standard ? stdin : fopen(path, "r");
    if (!stream) return error_null(error, "%s: cannot open: %s", name, g_strerror(errno));
    GByteArray *all = g_byte_array_new();
    guint8 part[PART_BYTES];
    size_t count;
    while (all->len <= size_max && (count = fread(part, 1, sizeof part, stream)) > 0)
        g_byte_array_append(all, part, (guint)count);
    const int failed = ferror(stream) ? (errno ? errno : EIO) : 0;
    if (!standard) fclose(stream);
    if (failed) error_input(error, "%s: cannot read: %s", name, g_strerror(failed));
    if (failed || (all->len > size_max && !size_refuse(name, size_max, error)) || !packed_refuse(name, all, error)) {
        g_byte_array_free(all, TRUE);
        return NULL;
    }
    all = decompress(name, all, size_max, error);
    if (!all) return NULL;
    mark_drop(all);
    *size_bytes = all->len;
    g_byte_array_append(all, (const guint8 *)"", 1);
    return (char *)g_byte_array_free(all, FALSE);
}
