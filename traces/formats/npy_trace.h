/* npy_trace.h - gate weights in a numpy array that accompanies a trace of any format.  Internal to traces/. */
#ifndef TRACES_NPY_TRACE_H
#define TRACES_NPY_TRACE_H

#include "traces/trace.h"

struct trace_weights;

/* Opens "FILE" or "FILE@0,4,-" (trace.h) for a trace of this shape.  NULL and *error on failure. */
struct trace_weights *trace_weights_open(const char *path, const struct trace_info *info, GError **error);
void trace_weights_close(struct trace_weights *weights);

/* Whether the file has weights for the layer. */
bool trace_weights_cover(const struct trace_weights *weights, uint32_t layer);

/* Reads the weights of the first rank_count ranks, [ranks][tokens][topk], of a layer that the file covers. */
bool trace_weights_read(struct trace_weights *weights, uint32_t step, uint32_t layer, uint32_t rank_count, float *out,
                        GError **error);

#endif
