/* cuda_measure.h - `eptwin measure --fabric cuda`: benchmarks of GPUs and of the links between them, in one record. */
#ifndef REPLAY_CUDA_MEASURE_H
#define REPLAY_CUDA_MEASURE_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include "reports/record.h"

struct cuda_measure_options {
    uint32_t gpus;    /* number of GPUs; 0: all of this machine */
    uint32_t repeat;  /* passes over all benchmarks; each gives one sample of each value */
    bool quick;       /* fewer rows, shorter samples */
    const char *only; /* name of the only group of benchmarks that runs; NULL: all groups */
};

/* Measures, and adds header and rows to the record.  False and *error if there is nothing to
 * measure, or if a call fails during the run. */
bool cuda_measure_run(const struct cuda_measure_options *options, struct record *record, GError **error);

#endif
