/* trace_source.h - the interface between trace.c and the reader of one format.  Internal to traces/.
 *
 * An opener gets the stream, which it then owns, even if it fails.  It fills in trace->info, ->ops and ->state.  The
 * reader only converts: trace.c checks what was read (experts in range, weights finite). */
#ifndef TRACES_TRACE_SOURCE_H
#define TRACES_TRACE_SOURCE_H

#include "traces/stream.h"
#include "traces/trace.h"

struct trace_weights;

struct trace_source_ops {
    /* Allocates *out, and fills it with the first rank_count ranks of a (step, layer).  All three numbers
     * are within those of info. */
    bool (*read)(struct trace *trace, uint32_t step, uint32_t layer, uint32_t rank_count, struct routing *out,
                 GError **error);
    void (*close)(struct trace *trace);
};

struct trace {
    struct trace_info info;
    char *path, *model, *provenance;
    const struct trace_source_ops *ops;
    void *state;
    struct trace_weights *weights;
    bool array; /* whether only the array's shape tells that it is routing; a token that names an expert twice then
                 * shows that it is not */
};

bool npy_trace_open(struct trace *trace, struct stream *stream, const struct trace_options *options, GError **error);
bool vllm_trace_open(struct trace *trace, struct stream *stream, const struct trace_options *options, GError **error);
bool counts_trace_open(struct trace *trace, struct stream *stream, const struct trace_options *options, GError **error);
bool csv_trace_open(struct trace *trace, struct stream *stream, const struct trace_options *options, GError **error);
bool llama_trace_open(struct trace *trace, struct stream *stream, uint32_t topk, const struct trace_options *options,
                      GError **error);
/* Opens JSON lines. topk is for SGLang's lines, which do not state it; 0: the user did not give it. */
bool jsonl_trace_open(struct trace *trace, struct stream *stream, uint32_t topk, const struct trace_options *options,
                      GError **error);
/* Opens a ZIP file.  If token_major, an array of three dimensions is [tokens, layers, topk], whatever its name. */
bool zip_trace_open(struct trace *trace, struct stream *stream, bool token_major, const struct trace_options *options,
                    GError **error);
/* Opens a file of torch.save.  Takes over entries (zip.h), as it takes over the stream. */
bool pt_trace_open(struct trace *trace, struct stream *stream, GPtrArray *entries, const struct trace_options *options,
                   GError **error);
bool splits_trace_open(struct trace *trace, struct stream *stream, uint32_t token_bytes,
                       const struct trace_options *options, GError **error);
bool ept_trace_open(struct trace *trace, struct stream *stream, const struct trace_options *options, GError **error);

/* Adds to checksum an .ept file's header and, for each frame, its size, its number of tokens, its type of index and
 * zstd's checksum.  Decompresses no frame, so the level of compression does not matter.  False if a checksum cannot be
 * read. */
bool ept_trace_digest(struct trace *trace, GChecksum *checksum);

/* Checks the trace's dimensions against the limits of traces and routing.  *error names the dimension that exceeds its
 * limit. */
bool trace_info_check(const struct trace *trace, GError **error);

/* The number of experts of a trace that does not state it: the smallest multiple of ranks above the highest expert
 * found. */
uint32_t trace_experts_guess(uint32_t ranks, int64_t highest);

#endif
