/* zip.c - the entries of a ZIP file; see zip.h. */
#include "traces/formats/zip.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <string.h>
#include "traces/trace.h"

enum { BLOCK_BYTES = 1 << 16, ENTRIES_MAX = 1 << 22 };

struct zip_source {
    struct stream *stream;
    uint8_t block[BLOCK_BYTES];
};

bool zip_magic(const uint8_t *bytes, size_t size) { return size >= 4 && memcmp(bytes, "PK\3\4", 4) == 0; }

static la_ssize_t source_read(struct archive *archive, void *context, const void **block)
{
    struct zip_source *const source = context;
    size_t got;
    g_autoptr(GError) error = NULL;
    *block = source->block;
    if (stream_read(source->stream, source->block, BLOCK_BYTES, &got, &error)) return (la_ssize_t)got;
    archive_set_error(archive, EIO, "%s", error->message);
    return ARCHIVE_FATAL;
}

static la_int64_t source_seek(struct archive *archive, void *context, la_int64_t offset, int whence)
{
    struct zip_source *const source = context;
    const la_int64_t end = (la_int64_t)stream_file_bytes(source->stream);
    const la_int64_t start = whence == SEEK_END   ? end
                             : whence == SEEK_CUR ? (la_int64_t)stream_offset(source->stream)
                                                  : 0;
    if (offset < -start || offset > end - start || !stream_seek(source->stream, (uint64_t)(start + offset), NULL)) {
        archive_set_error(archive, EINVAL, "a place outside the file");
        return ARCHIVE_FATAL;
    }
    return start + offset;
}

static void entry_free(gpointer pointer)
{
    struct zip_entry *const entry = pointer;
    g_byte_array_unref(entry->bytes);
    g_free(entry->name);
    g_free(entry);
}

static bool refuse(const struct stream *stream, const char *where, const char *expected, const char *found,
                   GError **error)
{
    return error_input(error, "%s: %s: expected %s, found %s", stream_path(stream), where, expected, found);
}

static bool entry_read(struct archive *archive, struct zip_source *source, const char *name, uint64_t *total,
                       GByteArray *bytes, GError **error)
{
    g_autofree uint8_t *block = g_malloc(BLOCK_BYTES);
    la_ssize_t got;
    while ((got = archive_read_data(archive, block, BLOCK_BYTES)) > 0) {
        *total += (uint64_t)got;
        if (bytes->len > (guint)G_MAXINT32 - BLOCK_BYTES)
            return refuse(source->stream, name, "less than 2 GiB", "more", error);
        if (!stream_check_growth(source->stream, *total, error)) return false;
        g_byte_array_append(bytes, block, (guint)got);
    }
    if (got == 0) return true;
    const char *const cause = archive_error_string(archive);
    return refuse(source->stream, name, "an entry of a ZIP file", cause ? cause : "damage", error);
}

static bool entries_read(struct archive *archive, struct zip_source *source, GPtrArray *entries, GError **error)
{
    struct archive_entry *header;
    uint64_t total = 0;
    int status;
    while ((status = archive_read_next_header(archive, &header)) == ARCHIVE_OK || status == ARCHIVE_WARN) {
        const char *const name = archive_entry_pathname(header);
        if (!name || archive_entry_filetype(header) != S_IFREG) continue;
        if (entries->len == ENTRIES_MAX)
            return refuse(source->stream, "directory", "at most 2^22 entries", "more", error);
        struct zip_entry *const entry = g_new0(struct zip_entry, 1);
        entry->name = g_utf8_make_valid(name, -1);
        entry->bytes = g_byte_array_new();
        g_ptr_array_add(entries, entry);
        if (!entry_read(archive, source, entry->name, &total, entry->bytes, error)) return false;
    }
    if (status == ARCHIVE_EOF) return true;
    const char *const cause = archive_error_string(archive);
    return refuse(source->stream, "directory", "a whole ZIP file", cause ? cause : "damage", error);
}

GPtrArray *zip_read(struct stream *stream, GError **error)
{
    if (stream_is_compressed(stream)) {
        refuse(stream, "file", "a ZIP file as it is (unzstd it first)", "one that zstd has compressed", error);
        return NULL;
    }
    if (!stream_seek(stream, 0, error)) return NULL;
    g_autofree struct zip_source *source = g_new(struct zip_source, 1);
    source->stream = stream;
    g_autoptr(GPtrArray) entries = g_ptr_array_new_with_free_func(entry_free);
    struct archive *const archive = archive_read_new();
    g_assert(archive);
    archive_read_support_format_zip_seekable(archive);
    archive_read_set_read_callback(archive, source_read);
    archive_read_set_seek_callback(archive, source_seek);
    archive_read_set_callback_data(archive, source);
    bool good = archive_read_open1(archive) == ARCHIVE_OK;
    if (!good) {
        const char *const cause = archive_error_string(archive);
        refuse(stream, "directory", "a whole ZIP file", cause ? cause : "damage", error);
    }
    good = good && entries_read(archive, source, entries, error);
    archive_read_free(archive);
    return good ? g_steal_pointer(&entries) : NULL;
}
