/* timeline_file.c - a timeline into a new file.  Knows no format: timeline.c does. */
#include "sim/timeline_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

bool timeline_spans_check(int spans, GError **error)
{
    if (spans >= 1 && spans <= TIMELINE_SPANS_MAX) return true;
    g_set_error(error, TIMELINE_FILE_ERROR, TIMELINE_FILE_ERROR_INPUT,
                "--timeline-spans: expected a whole number from 1 to %d, found %d", TIMELINE_SPANS_MAX, spans);
    return false;
}

bool timeline_file_write(const struct timeline *timeline, struct new_file *file, const char *path, const char *command,
                         GError **error)
{
    const uint64_t lost = timeline_span_count_lost(timeline);
    if (lost)
        fprintf(stderr,
                "eptwin %s: --timeline: the first %" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT
                " entries are left out: --timeline-spans keeps more\n",
                command, lost, lost + timeline_span_count(timeline));
    const int descriptor = fcntl(new_file_descriptor(file), F_DUPFD_CLOEXEC, 0);
    FILE *out = descriptor < 0 ? NULL : fdopen(descriptor, "w");
    const int result = out ? timeline_write(timeline, out) : -errno;
    if (out) fclose(out);
    else if (descriptor >= 0) close(descriptor);
    if (result)
        g_set_error(error, TIMELINE_FILE_ERROR, TIMELINE_FILE_ERROR_IO, "%s: cannot write: %s", path,
                    g_strerror(-result));
    return !result;
}
