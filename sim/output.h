/* output.h - a buffered writer to a new file (new_file.h), with compression if asked for.  It does not interpret the
 * bytes. */
#ifndef SIM_OUTPUT_H
#define SIM_OUTPUT_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum output_packing { OUTPUT_PLAIN, OUTPUT_ZSTD, OUTPUT_GZIP };

/* The compression that a name asks for: zstd for ".zst", gzip for ".gz". */
enum output_packing output_packing_named(const char *path);

struct output;

/* level has the scale of the compression; OUTPUT_PLAIN ignores it.  On failure, returns NULL and sets *error as
 * new_file_open() does. */
struct output *output_open(const char *path, enum output_packing packing, int level, GError **error);
bool output_write(struct output *output, const void *data, size_t size, GError **error);
/* Bytes written so far, before compression. */
uint64_t output_offset(const struct output *output);

/* Writes the remaining bytes; nothing can be written afterwards.  output_commit() does this, too.  A caller that has
 * more to do before the commit learns of a failure earlier by calling this first. */
bool output_end(struct output *output, GError **error);
/* Ends the file and gives it its name.  If that fails, the file disappears.  Frees the output in both cases. */
bool output_commit(struct output *output, GError **error);
/* Does so with two outputs: if either cannot be written, both disappear.  other: may be NULL. */
bool outputs_commit(struct output *output, struct output *other, GError **error);
/* Gives up: leaves nothing behind.  NULL is accepted. */
void output_discard(struct output *output);

#endif
