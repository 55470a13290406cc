/* support_trace.h - traces in memory and in temporary files, for the tests of traces/. */
#ifndef TESTS_SUPPORT_TRACE_H
#define TESTS_SUPPORT_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include "traces/trace.h"
#include "traces/trace_write.h"

/* A random trace.  ragged: the number of tokens differs from rank to rank.  none: some places hold -1. */
struct sample_options {
    uint32_t steps, layers, ranks, tokens, topk, experts;
    bool ragged, none, weights;
    uint64_t seed;
};

struct sample {
    struct trace_info info;
    struct routing *blocks; /* [steps][layers] */
};

void sample_make(struct sample *sample, const struct sample_options *options);
void sample_clear(struct sample *sample);

/* A producer whose context is a sample. */
trace_producer sample_produce;

bool routings_same(const struct routing *a, const struct routing *b);

/* The path of a file of this name in the test's own folder, which is made when it is first needed.  Valid for three
 * more calls. */
const char *temporary_path(const char *name);
/* Removes the folder and the files in it.  main() of the CUnit programs calls it at the end. */
void temporary_clear(void);

void temporary_write(const char *path, const void *data, size_t size);
/* Writes the text to temporary_path(name), and returns that path. */
const char *temporary_text(const char *name, const char *text);

/* Opens path and reads every (step, layer).  Returns NULL if all is well, else the error, to be freed. */
GError *trace_read_all(const char *path, const struct trace_options *options);

#endif
