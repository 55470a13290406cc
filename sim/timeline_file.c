/* timeline_file.c - writes a timeline to a new file.  timeline.c makes the text. */
#include "sim/timeline_file.h"

#include <stdio.h>
#include "sim/output.h"

enum { LEVEL = 1 }; /* for both packings: a higher level may take longer than the run */

struct timeline_file {
    struct output *output;
    struct timeline *timeline;
    GError *error; /* the error of the first write that failed */
};

static bool text_take(void *context, const void *text, size_t size_bytes)
{
    struct timeline_file *f = context;
    return output_write(f->output, text, size_bytes, &f->error);
}

struct timeline_file *timeline_file_open(const char *path, GError **error)
{
    struct output *output = output_open(path, output_packing_named(path), LEVEL, error);
    if (!output) return NULL;
    struct timeline_file *f = g_new0(struct timeline_file, 1);
    f->output = output;
    f->timeline = timeline_new(&(struct timeline_sink){ text_take, f });
    return f;
}

struct timeline *timeline_file_timeline(const struct timeline_file *f) { return f ? f->timeline : NULL; }

bool timeline_file_end(struct timeline_file *f, const char *command, GError **error)
{
    if (!f) return true;
    const uint64_t lost = timeline_lost_count(f->timeline);
    if (lost)
        fprintf(stderr,
                "eptwin %s: --timeline: the first %" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT
                " entries are left out: --timeline-spans keeps more\n",
                command, lost, lost + timeline_entry_count(f->timeline));
    if (timeline_end(f->timeline)) return output_end(f->output, error);
    g_propagate_error(error, g_steal_pointer(&f->error));
    return false;
}

bool timeline_file_close(struct timeline_file *f, bool good, GError **error)
{
    if (!f) return good;
    if (good) good = output_commit(f->output, error);
    else output_discard(f->output);
    g_clear_error(&f->error);
    timeline_free(f->timeline);
    g_free(f);
    return good;
}
