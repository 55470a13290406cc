/* trace_writer.h - the interface between trace_write.c and the writer of one format.  Internal to traces/. */
#ifndef TRACES_TRACE_WRITER_H
#define TRACES_TRACE_WRITER_H

#include "sim/output.h"
#include "traces/trace_write.h"

/* What the first pass over the whole trace finds. */
struct trace_summary {
    bool none;              /* whether some place is -1, or becomes -1 where ragged ranks are filled up */
    bool ragged;            /* whether some rank has fewer tokens than tokens_max */
    bool weights_inexact;   /* whether some weight is not a half-precision number */
    uint32_t *weight_steps; /* [layers] number of steps in which the layer has weights */
    uint32_t weight_layers; /* number of layers that have weights in some step */
};

struct trace_writer {
    const struct trace_write_options *options;
    const struct trace_info *info;
    const char *path;
    const struct trace_summary *summary; /* NULL unless the format has first_pass set */
    struct output *output, *weights_output;
    uint32_t element_bytes; /* bytes of an element, for numpy's formats */
    GByteArray *scratch;
    void *state;
    char *note;
};

struct trace_format {
    const char *name;
    bool first_pass, zstd;
    bool (*begin)(struct trace_writer *writer, GError **error);
    bool (*block)(struct trace_writer *writer, uint32_t step, uint32_t layer, const struct routing *routing,
                  GError **error);
    bool (*end)(struct trace_writer *writer, GError **error);
    void (*clear)(struct trace_writer *writer); /* may be NULL */
};

extern const struct trace_format trace_format_ept, trace_format_csv, trace_format_csv_zst, trace_format_jsonl,
    trace_format_jsonl_zst, trace_format_npy, trace_format_npy_zst, trace_format_vllm, trace_format_llama;

/* Writes what is in the writer's scratch, and empties it. */
bool trace_scratch_flush(struct trace_writer *writer, struct output *output, GError **error);

#endif
