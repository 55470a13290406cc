/* trace_write.h - writes a trace in any format that can hold it.
 *
 * The writer asks the producer for each (step, layer) in order.  The header of numpy's formats comes first and depends
 * on the whole trace, so for these formats it asks for each (step, layer) twice.  A producer must give equal values
 * both times. */
#ifndef TRACES_TRACE_WRITE_H
#define TRACES_TRACE_WRITE_H

#include "traces/trace.h"

/* Makes the routing of one (step, layer); the writer frees it. */
typedef bool trace_producer(void *context, uint32_t step, uint32_t layer, struct routing *out, GError **error);

struct trace_write_options {
    const char *format;       /* "npy", "npy.zst", "csv", "csv.zst", "ept", "jsonl", "jsonl.zst", "vllm", "llama"; NULL:
                               * by the ending of the name */
    const char *dtype;        /* numpy's elements, "u1" to "i8"; NULL: the narrowest that holds the experts */
    const char *weights_path; /* numpy: the file for the weights; NULL: weights are left out */
    int level;                /* zstd's level; 0: a fast level */
    bool pad;                 /* numpy: fill up ranks that have fewer tokens with tokens that go nowhere */
};

/* Writes a trace of info's shape.  Path "-" is standard output.  On success, if note is not NULL, *note gets NULL, or a
 * sentence about what the format cannot hold.  The caller frees this sentence.  On failure no file is left at path. */
bool trace_write(const char *path, const struct trace_write_options *options, const struct trace_info *info,
                 trace_producer *produce, void *context, char **note, GError **error);

#endif
