/* digest.h - digests of inputs, which tell apart two inputs of one name.  A digest depends on the contents, not on a
 * file's place or age.
 *
 * A digest is the first DIGEST_CHARS hexadecimal digits of a SHA-256.  They are enough against chance, but not against
 * forgers. */
#ifndef TRACES_DIGEST_H
#define TRACES_DIGEST_H

#include <stddef.h>

enum { DIGEST_CHARS = 16 };

/* The digest of a text in memory.  Free with g_free(). */
char *digest_text(const char *text, size_t size_bytes);

/* The digest of a file's bytes.  Bytes compressed by zstd are decompressed first, so that a file and its compressed
 * copy have one digest.  Of an .ept only header, index and checksums are read, so a large file takes little
 * longer than a small one.  `words` say how the file is read ("llama@8:"), and are part of the digest. path may name a
 * shipped sample.  Returns NULL for a file that cannot be read, or that is not regular (a pipe can be read only once).
 * Free with g_free(). */
char *digest_file(const char *words, const char *path);

#endif
