/* digest.h - tells apart two inputs of one name, by a digest of their contents and not of their place or date.
 *
 * A digest is the first DIGEST_CHARS hexadecimal digits of a SHA-256: enough against chance, not against forgers. */
#ifndef TRACES_DIGEST_H
#define TRACES_DIGEST_H

#include <stddef.h>

enum { DIGEST_CHARS = 16 };

/* Of a text in memory.  Free with g_free(). */
char *digest_text(const char *text, size_t size_bytes);

/* Of a file's bytes, decompressed where they are zstd's, so that a compressed copy has the digest of the file that it
 * is a copy of; of an .ept, of the checksums in it, so that its size does not matter.  words say how the file is read
 * ("llama@8:"), and count as well.  path may name a shipped sample.  NULL for a file that is not regular (a pipe can
 * be read only once) or cannot be read.  Free with g_free(). */
char *digest_file(const char *words, const char *path);

#endif
