/* output.h - the bytes of a trace on their way to a new file (sim/new_file.h), compressed by zstd when asked to.
 *
 * Knows no trace format. */
#ifndef TRACES_OUTPUT_H
#define TRACES_OUTPUT_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct output;

/* zstd_level 0: not compressed. */
struct output *output_open(const char *path, int zstd_level, GError **error);
bool output_write(struct output *output, const void *data, size_t size, GError **error);
/* Bytes written so far, before compression. */
uint64_t output_offset(const struct output *output);

/* Ends the file: under its name now, when good; gone otherwise.  Frees the output either way. */
bool output_commit(struct output *output, GError **error);
/* Gives up: leaves nothing behind.  NULL is accepted. */
void output_discard(struct output *output);

#endif
