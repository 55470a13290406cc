/* trace.h - opens a captured routing trace of any format, and reads one (step, layer) at a time.
 *
 * Knows files and formats, not protocols, hardware or time.  All functions that take a GError report file, line or
 * offset, field, what was expected and what was found. */
#ifndef TRACES_TRACE_H
#define TRACES_TRACE_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include "sim/error.h"
#include "traces/routing.h"

struct trace;

struct trace_info {
    uint32_t steps, layers, ranks, topk;
    uint32_t experts;    /* the number that the user gives, else the one in the file, else the smallest multiple of
                          * ranks above the highest expert */
    uint32_t tokens_max; /* the most tokens that a rank has in a (step, layer) */
    bool weights;        /* whether some (step, layer) has gate weights */
    /* Whether the file tells only how often each expert was chosen, not by which tokens.  Each count is read as that
     * many tokens of rank 0 with only that expert.  So loads are true, but sources and destinations are not. */
    bool counts;
    const char *format;             /* "npy", "npy.zst", "csv", "ept", ... */
    const char *model, *provenance; /* the file's own description of its contents and source; "" if there is none */
};

/* How a path names a file.  "FORMAT:FILE" says how to read FILE if its bytes do not tell:
 *   npy:FILE        [steps, layers, ranks, tokens, topk]; leading dimensions of 1 may be missing (int16 with 3
 *                   dimensions needs "npy:" or "vllm:")
 *   vllm:FILE       int16 [tokens, layers, topk], as vLLM returns routed experts: one step, one rank
 *   llama@K:FILE    lines "layer,expert", K of them a token
 *   counts:FILE     [steps, layers, experts] or [layers, experts]: how often each expert was chosen; an array of three
 *                   dimensions with 65 to 2048 experts needs no "counts:" unless it is int16
 *   routed@K:FILE   JSON lines of SGLang's routed experts, K of them a token
 *   splits@B:FILE   a matrix of all-to-all split sizes, where a token has B bytes (B 1: sizes are in tokens)
 * The bytes of other files tell their format: .npy, .csv, JSON lines of Megatron-Core and of routed experts (each plain
 * or compressed by zstd), .ept, .npz, and .pt of torch.save.  Weights may cover fewer layers than the trace.
 * "FILE@0,4,-" says that the file's first layer belongs to the trace's layer 0, its second to layer 4, and that its
 * third is not in the trace. */

struct trace_options {
    uint32_t experts;         /* 0: the number in the file */
    const char *weights_path; /* an .npy[.zst] with the weights of all layers, or of some (see above); or NULL */
};

/* Opens path ("-" is standard input).  NULL and *error on failure.  Close with trace_close().  Only one thread at a
 * time may use a struct trace, but several threads may open one path. */
struct trace *trace_open(const char *path, const struct trace_options *options, GError **error);
void trace_close(struct trace *trace);
typedef struct trace trace;
G_DEFINE_AUTOPTR_CLEANUP_FUNC(trace, trace_close)
const struct trace_info *trace_info(const struct trace *trace);
typedef struct routing routing;
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(routing, routing_free)

/* Reads one (step, layer) into *out, which the caller frees with routing_free().  If rank_count is 0, reads all ranks
 * of the trace.  Otherwise it reads the first rank_count ranks, and the experts are divided over these.  On failure
 * *out is unchanged. */
bool trace_read(struct trace *trace, uint32_t step, uint32_t layer, uint32_t rank_count, struct routing *out,
                GError **error);
/* Checks that the experts of each token are different, as kernels need them, so that a case is refused if not.  False
 * and *error name the first token of which two are equal. */
bool trace_places_check(const struct trace *trace, uint32_t step, uint32_t layer, const struct routing *routing,
                        GError **error);

/* Limits of a trace that is read: the top-k places of a (step, layer), whose experts then take 1 GiB, and the number of
 * (step, layer)s of a trace. */
#define TRACE_PLACES_MAX (UINT64_C(1) << 28)
#define TRACE_BLOCKS_MAX (UINT64_C(1) << 28)

#endif
