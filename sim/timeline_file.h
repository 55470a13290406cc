/* timeline_file.h - a timeline as a file of a command: whole or not at all, compressed if the name says so, with a word
 * about what it has lost. */
#ifndef SIM_TIMELINE_FILE_H
#define SIM_TIMELINE_FILE_H

#include <glib.h>
#include <stdbool.h>
#include "sim/timeline.h"

/* In --help. */
#define TIMELINE_FILE_HELP "for ui.perfetto.dev (Chrome trace JSON; compressed where FILE ends in .gz or .zst)"

struct timeline_file;

/* NULL and *error as new_file_open(). */
struct timeline_file *timeline_file_open(const char *path, GError **error);
/* The recorder of a file; NULL for NULL. */
struct timeline *timeline_file_timeline(const struct timeline_file *file);
/* Writes the end.  If entries were lost, a line "eptwin COMMAND: --timeline: ..." on standard error says so.  False and
 * *error when this or a write before it failed.  Nothing is left to do of NULL. */
bool timeline_file_end(struct timeline_file *file, const char *command, GError **error);
/* Gives the file its name, where good, or leaves nothing behind, and frees it.  Whether both are good; *error when the
 * file is not. */
bool timeline_file_close(struct timeline_file *file, bool good, GError **error);

#endif
