/* launches.h - when ranks launch their kernels, and how fast each rank is, from --arrival and --slow.
 *
 * Knows texts, records and random numbers; knows no world. */
#ifndef MODELS_PREDICT_LAUNCHES_H
#define MODELS_PREDICT_LAUNCHES_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* A kernel that ranks launch. */
struct launches_kernel {
    uint32_t ranks;
    uint64_t seed;
    uint32_t draw;     /* the number of the phase; it and the seed decide the drawn times */
    const char *phase; /* the phase's name */
};
/* Sets time_ps[ranks] to when each rank launches the kernel, from the common start.  text is one of:
 *     uniform:20us   each time is drawn from 0 to 20 us
 *     exp:5us        each time is drawn from an exponential distribution with this mean
 *     file:PATH      a file with one time a line, one for each rank; '#' begins a comment
 *     record:PATH    a replay's record, which says when its ranks began this phase
 *     0us|3us|...    one time for each rank
 *     NULL           all times are 0 */
bool launches_arrival(const char *text, const struct launches_kernel *kernel, uint64_t *time_ps, GError **error);

/* Sets slow[ranks], in 1024ths, from a text such as "3:2x|5:1.5x": work of rank 3's GPU takes twice as long. Text NULL:
 * no rank is slow. */
bool launches_slow(const char *text, uint32_t ranks, uint32_t *slow, GError **error);

#endif
