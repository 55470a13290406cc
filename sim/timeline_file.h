/* timeline_file.h - a timeline in a command's output file.  The file appears whole or not at all, and is compressed if
 * its name says so.  A message says how many entries were lost. */
#ifndef SIM_TIMELINE_FILE_H
#define SIM_TIMELINE_FILE_H

#include <glib.h>
#include <stdbool.h>
#include "sim/timeline.h"

/* In --help. */
#define TIMELINE_FILE_HELP "for ui.perfetto.dev (Chrome trace JSON; compressed if FILE ends in .gz or .zst)"

struct timeline_file;

/* Returns NULL and sets *error as new_file_open() does. */
struct timeline_file *timeline_file_open(const char *path, GError **error);
/* The recorder of a file; NULL if file is NULL. */
struct timeline *timeline_file_timeline(const struct timeline_file *file);
/* Writes the end of the timeline.  If entries were lost, a line "eptwin COMMAND: --timeline: ..." on standard error
 * says so. Returns false and sets *error if this or an earlier write failed.  NULL is accepted. */
bool timeline_file_end(struct timeline_file *file, const char *command, GError **error);
/* Gives the file its name if `good`, otherwise removes it.  Frees it.  Returns true if `good` is true and nothing
 * fails.  Sets *error if the file fails. */
bool timeline_file_close(struct timeline_file *file, bool good, GError **error);

#endif
