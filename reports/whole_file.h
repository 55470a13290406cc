/* whole_file.h - files that reports/ reads whole, with a limit, and writes whole or not at all. */
#ifndef REPORTS_WHOLE_FILE_H
#define REPORTS_WHOLE_FILE_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>

/* Writes text to path, whole or not at all (sim/new_file.h); "-" is standard output. */
bool whole_file_write(const char *path, const char *text, size_t size_bytes, GError **error);

/* Reads the whole text at path ("-": standard input), at most size_max bytes, without a byte-order mark.  Data
 * compressed by zstd are decompressed, and both sizes must be within the limit.  Data compressed by gzip, xz or bzip2,
 * and ZIP archives, are refused.  Decompressed data of more than 4 MiB may have at most 100 times their compressed
 * size.  They may hold at most 2^20 JSON values and 4 more for each compressed byte.  The result ends in a NUL that is
 * not counted; g_free() frees it.  NULL and *error on failure. */
char *whole_file_read(const char *path, size_t size_max, size_t *size_bytes, GError **error);

#endif
