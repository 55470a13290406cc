/* timeline_file.h - a timeline as a file of a command: whole or not at all, with a word about what it has lost. */
#ifndef SIM_TIMELINE_FILE_H
#define SIM_TIMELINE_FILE_H

#include <glib.h>
#include <stdbool.h>
#include "sim/error.h"
#include "sim/new_file.h"
#include "sim/timeline.h"

#define TIMELINE_FILE_ERROR (g_quark_from_static_string("eptwin-timeline-file"))
enum timeline_file_error {
    TIMELINE_FILE_ERROR_INPUT,          /* the number of entries */
    TIMELINE_FILE_ERROR_IO = ERROR_RUN, /* it cannot be written */
};

/* What --timeline-spans may say, and says if it is not given. */
enum { TIMELINE_SPANS_MAX = 100000000, TIMELINE_SPANS_DEFAULT = 1000000 };
bool timeline_spans_check(int spans, GError **error);

/* Writes the timeline to file, which is path's.  If entries were lost, a line "eptwin COMMAND: --timeline: ..." on
 * standard error says so.  False and *error when it cannot be written.  The file stays the caller's, to commit or to
 * discard. */
bool timeline_file_write(const struct timeline *timeline, struct new_file *file, const char *path, const char *command,
                         GError **error);

#endif
