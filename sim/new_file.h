/* new_file.h - a file that appears whole or not at all.  Every file that eptwin writes is one.
 *
 * The bytes go to a file without a name (or, if the file system has no such files, with a temporary name).  It gets its
 * name at the end.  So neither a failure nor a killed process leaves half a file, and a former file stays until the new
 * one is whole.  "-" is standard output.  /dev/stdout, /dev/fd/N and similar names mean the open file.  Other devices
 * and pipes are written directly.  A symbolic link stays, and the file to which it leads is replaced.  A replaced file
 * keeps its permissions.  A file that may not be written is refused.  This module knows no format. */
#ifndef SIM_NEW_FILE_H
#define SIM_NEW_FILE_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include "sim/error.h"

struct new_file;

/* Returns NULL and sets *error to "path: cannot ...: reason" on failure. */
struct new_file *new_file_open(const char *path, GError **error);
/* The descriptor to write to.  The file keeps it. */
int new_file_descriptor(const struct new_file *file);
/* Writes all of data.  False and *error if it cannot. */
bool new_file_write(struct new_file *file, const void *data, size_t size_bytes, GError **error);
/* Gives the file its name.  If that fails, returns false with *error and leaves nothing behind.  Frees the file in both
 * cases. */
bool new_file_commit(struct new_file *file, GError **error);
/* Gives count files their names once all of their bytes are written, so that a full disk leaves none of them behind. */
bool new_files_commit(struct new_file *const *files, size_t count, GError **error);
/* Gives up: leaves nothing behind.  NULL is accepted. */
void new_file_discard(struct new_file *file);

/* Whether path can be written.  Commands ask before long work, so that the work is not lost at its end. */
bool new_file_possible(const char *path, GError **error);
/* Whether path leads to a file that is none of the inputs, even under another name.  If not, sets *error.  "-" is never
 * an input. */
bool new_file_spares(const char *path, const char *const *inputs, size_t count, GError **error);
/* Whether the file of an option is another one than that of --output (NULL: standard output).  If not, sets *error.
 * /dev/null may be both. */
bool new_file_apart(const char *option, const char *path, const char *output, GError **error);

#endif
