/* zip.h - the entries of a ZIP file in memory, as torch.save and numpy.savez write them.
 *
 * Reads ZIP by libarchive (stored and deflated entries, ZIP64).  Does not know the entries' contents. */
#ifndef TRACES_ZIP_H
#define TRACES_ZIP_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include "traces/stream.h"

struct zip_entry {
    char *name;
    GByteArray *bytes;
};

/* Whether these first bytes of a file are those of a ZIP file. */
bool zip_magic(const uint8_t *bytes, size_t size);

/* Reads the regular entries (struct zip_entry) of a file, in the order of its directory.  Together they may be as
 * large as a stream may become (stream.h), and each must be smaller than 2 GiB.  NULL and *error if they are larger,
 * or if the file is damaged, encrypted, or itself compressed by zstd.  Free with g_ptr_array_unref(). */
GPtrArray *zip_read(struct stream *stream, GError **error);

#endif
