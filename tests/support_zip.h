/* support_zip.h - ZIP files as torch.save writes them, with stored entries.  Tests make them, so they may hold
 * anything. */
#ifndef TESTS_SUPPORT_ZIP_H
#define TESTS_SUPPORT_ZIP_H

#include <archive.h>
#include <archive_entry.h>
#include <stdlib.h>

struct zip_part {
    const char *name;
    const void *bytes;
    size_t size;
};

/* Writes the parts into a new file at path. */
static inline void zip_write(const char *path, const struct zip_part *parts, size_t count)
{
    struct archive *const archive = archive_write_new();
    if (archive_write_set_format_zip(archive) != ARCHIVE_OK ||
        archive_write_zip_set_compression_store(archive) != ARCHIVE_OK ||
        archive_write_open_filename(archive, path) != ARCHIVE_OK)
        abort();
    for (size_t i = 0; i < count; i++) {
        struct archive_entry *const entry = archive_entry_new();
        archive_entry_set_pathname(entry, parts[i].name);
        archive_entry_set_filetype(entry, AE_IFREG);
        archive_entry_set_perm(entry, 0600);
        archive_entry_set_size(entry, (la_int64_t)parts[i].size);
        if (archive_write_header(archive, entry) != ARCHIVE_OK ||
            archive_write_data(archive, parts[i].bytes, parts[i].size) != (la_ssize_t)parts[i].size)
            abort();
        archive_entry_free(entry);
    }
    if (archive_write_close(archive) != ARCHIVE_OK) abort();
    archive_write_free(archive);
}

#endif
