/* progress.c - the bar of progress.h.
 *
 * The count is atomic.  A tenth of a second after the last drawing, the first thread that advances the bar draws, and
 * the others go on.  The rate is that of the whole run.  It is steady, and wrong only if the remaining work differs
 * from the work done. */
#include "sim/progress.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "sim/memory.h"

enum { BAR_WIDTH = 30, TEXT_SIZE = 200 };

struct progress {
    const char *what;
    uint64_t total;
    _Atomic uint64_t done;
    _Atomic double drawn_s; /* when the bar was last drawn */
    pthread_mutex_t drawing;
    double start_s;
};

static double clock_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void format_left(char *text, size_t text_size, const struct progress_state *state, double rate)
{
    const double left_s = rate > 0 ? (double)(state->total - state->done) / rate : -1;
    if (left_s < 0 || left_s > 1e8) snprintf(text, text_size, "? left");
    else if (left_s < 100) snprintf(text, text_size, "%.0f s left", left_s);
    else if (left_s < 6000) snprintf(text, text_size, "%.0f min left", left_s / 60);
    else snprintf(text, text_size, "%.1f h left", left_s / 3600);
}

void progress_format(char *text, size_t text_size, const struct progress_state *given)
{
    struct progress_state state = *given;
    if (state.done > state.total) /* if the total was too small, the bar ends full */
        state.total = state.done;
    const double share = state.total ? (double)state.done / (double)state.total : 1;
    const double rate = state.elapsed_s > 0 ? (double)state.done / state.elapsed_s : 0;
    const int filled = (int)(share * BAR_WIDTH);
    char bar[BAR_WIDTH + 1], left[40];
    for (int i = 0; i < BAR_WIDTH; i++) bar[i] = i < filled ? '#' : '.';
    bar[BAR_WIDTH] = '\0';
    format_left(left, sizeof left, &state, rate);
    snprintf(text, text_size, "%s [%s] %3d %%  %" PRIu64 "/%" PRIu64 "  %.*f/s  %s", state.what, bar,
             (int)(share * 100), state.done, state.total, rate < 100 ? 1 : 0, rate, left);
}

struct progress *progress_new(const char *what, uint64_t total)
{
    /* a dumb terminal cannot erase a line */
    const char *const terminal = getenv("TERM");
    if (!isatty(STDERR_FILENO) || !terminal || strcmp(terminal, "dumb") == 0) return NULL;
    struct progress *const progress = memory_new(1, sizeof *progress);
    progress->what = what;
    progress->total = total;
    progress->start_s = clock_s();
    pthread_mutex_init(&progress->drawing, NULL);
    return progress;
}

static void draw(struct progress *progress, double now_s)
{
    char text[TEXT_SIZE];
    const struct progress_state state = { progress->what, progress->done, progress->total, now_s - progress->start_s };
    progress_format(text, sizeof text, &state);
    fprintf(stderr, "\r%s\033[K", text);
    fflush(stderr);
}

void progress_advance(struct progress *progress, uint64_t count)
{
    if (!progress) return;
    progress->done += count;
    const double now_s = clock_s();
    if (now_s - progress->drawn_s < 0.1 || pthread_mutex_trylock(&progress->drawing) != 0) return;
    progress->drawn_s = now_s;
    draw(progress, now_s);
    pthread_mutex_unlock(&progress->drawing);
}

void progress_free(struct progress *progress)
{
    if (!progress) return;
    if (progress->drawn_s > 0) fputs("\r\033[K", stderr);
    pthread_mutex_destroy(&progress->drawing);
    free(progress);
}
