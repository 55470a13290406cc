/* progress.h - a progress bar on standard error: how much is done, how fast, and how long it will still take.
 *
 * Only a terminal shows it, so redirected output does not depend on time.  A bar that is off is NULL, and every
 * function accepts NULL.  Any thread may advance it.  It needs only libc. */
#ifndef SIM_PROGRESS_H
#define SIM_PROGRESS_H

#include <stddef.h>
#include <stdint.h>

struct progress;

/* Starts a bar of `total` units with a label (kept as a pointer).  Returns NULL if standard error is not a terminal, or
 * is a terminal that cannot erase a line (TERM=dumb or unset).  That is no error. */
struct progress *progress_new(const char *what, uint64_t total);

/* Counts finished units; draws at most ten times a second. */
void progress_advance(struct progress *progress, uint64_t count);

/* Takes the bar off the screen and frees it. */
void progress_free(struct progress *progress);

/* The line that a bar shows, as text: "cases [#####.....]  50 %  120/240  8.0/s  15 s left". */
struct progress_state {
    const char *what;
    uint64_t done, total;
    double elapsed_s;
};

void progress_format(char *text, size_t text_size, const struct progress_state *state);

#endif
