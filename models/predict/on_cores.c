/* on_cores.c - threads that take the next job until none is left; see on_cores.h. */
#include "models/predict/on_cores.h"

#include <glib.h>
#include <stdatomic.h>
#include "sim/progress.h"

struct crew {
    const struct on_cores *work;
    struct progress *progress;
    atomic_uint next;
    atomic_bool ended;
};

static gpointer crew_work(gpointer data)
{
    struct crew *crew = data;
    const struct on_cores *work = crew->work;
    g_autofree void *memory = g_malloc0(work->memory_bytes);
    for (uint32_t job; !crew->ended && (job = atomic_fetch_add(&crew->next, 1)) < work->jobs;) {
        if (!work->run(work->context, job, memory)) crew->ended = true;
        progress_advance(crew->progress, 1);
    }
    if (work->clear) work->clear(memory);
    return NULL;
}

void on_cores_run(const struct on_cores *work)
{
    struct crew crew = { .work = work, .progress = work->label ? progress_new(work->label, work->jobs) : NULL };
    g_autoptr(GPtrArray) threads = g_ptr_array_new();
    for (uint32_t i = 1; i < MIN(work->cores, work->jobs); i++)
        g_ptr_array_add(threads, g_thread_new("core", crew_work, &crew));
    crew_work(&crew);
    for (guint i = 0; i < threads->len; i++) g_thread_join(g_ptr_array_index(threads, i));
    progress_free(crew.progress);
}
