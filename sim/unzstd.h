/* unzstd.h - decompresses zstd's data piece by piece.
 *
 * The compressed bytes come from a source, which is read in order from its beginning.  The contents of frames that
 * follow one another are joined.  Only one compressed and one decompressed piece are kept in memory, so any limit on
 * the size is the caller's.  It knows no files and no formats. */
#ifndef SIM_UNZSTD_H
#define SIM_UNZSTD_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The source of compressed bytes.  name, and what context points to, must outlive the reader. */
struct unzstd_source {
    /* Reads up to size bytes at an offset; *got is less only at the end.  False and *error on failure. */
    bool (*read)(void *context, uint64_t offset, void *buffer, size_t size, size_t *got, GError **error);
    void *context;
    const char *name; /* in messages */
};

/* Whether bytes begin as zstd's data do. */
bool unzstd_begins(const void *bytes, size_t size);

struct unzstd;
/* Makes a reader at the beginning of the source. */
struct unzstd *unzstd_new(const struct unzstd_source *source);
void unzstd_free(struct unzstd *unzstd);

/* Decompresses up to size bytes.  *got is less than size only at the end.  False and *error if the source cannot be
 * read or its bytes are damaged: "NAME: compressed offset N: expected ..., found ...". */
bool unzstd_read(struct unzstd *unzstd, void *buffer, size_t size, size_t *got, GError **error);
/* Goes back to the beginning. */
void unzstd_rewind(struct unzstd *unzstd);

#endif
