/* stream.h - the bytes of a trace file.  If zstd has compressed them, they are decompressed as they are read.
 *
 * A stream reads from any offset.  To go back in a compressed file, it reads the file again from the start.  A file
 * that is not regular (standard input, a pipe) is first copied to an unnamed temporary file.  Knows no trace format. */
#ifndef TRACES_STREAM_H
#define TRACES_STREAM_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Limits of decompressed data, so that a few bytes do not become many gigabytes.  STREAM_FREE_BYTES are always
 * allowed.  More are allowed up to STREAM_RATIO_MAX times the compressed size.  Captured routing compresses 1 to 20
 * times. */
enum { STREAM_FREE_BYTES = 64 << 20, STREAM_RATIO_MAX = 1000 };

struct stream;

/* Opens path: a file, or "-" for standard input.  If there is no such file, path may be the name of a shipped sample
 * (sim/share.h).  NULL and *error on failure. */
struct stream *stream_open(const char *path, GError **error);
/* Opens a copy of bytes in memory.  Messages call it by path. */
struct stream *stream_of_bytes(const char *path, const void *bytes, size_t size, GError **error);
void stream_close(struct stream *stream);

const char *stream_path(const struct stream *stream);
bool stream_is_compressed(const struct stream *stream);
/* The size of the stored file. */
uint64_t stream_file_bytes(const struct stream *stream);
/* Where the next read begins, in decompressed bytes. */
uint64_t stream_offset(const struct stream *stream);

/* Moves to an offset in decompressed bytes.  An offset beyond the end is an error in a compressed stream.  In a plain
 * file, the next read then finds nothing. */
bool stream_seek(struct stream *stream, uint64_t offset, GError **error);

/* Reads up to size bytes; *got is less than size only at the end. */
bool stream_read(struct stream *stream, void *buffer, size_t size, size_t *got, GError **error);
/* Reads exactly size bytes.  If the data end earlier, the error says that `what` is incomplete. */
bool stream_read_exactly(struct stream *stream, void *buffer, size_t size, const char *what, GError **error);

/* Whether a compressed file of this stream's size may hold this many decompressed bytes, by the limits above.  If not,
 * returns false and sets *error.  Reading checks this, too. */
bool stream_check_growth(const struct stream *stream, uint64_t bytes, GError **error);

/* Reads stored bytes without decompression, and without moving the stream. */
bool stream_read_raw(struct stream *stream, uint64_t offset, void *buffer, size_t size, const char *what,
                     GError **error);

#endif
