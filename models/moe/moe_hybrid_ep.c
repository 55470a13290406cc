/* moe_hybrid_ep.c - the steps of Hybrid-EP's calls around their kernels (PROTOCOLS.md 1.9).
 *
 * Hybrid-EP's kernels use registered buffers, so its calls copy tensors: dispatch's output, combine's input, and
 * between nodes dispatch's input.  Dispatch, which has no handle here, first gathers the routing maps of all ranks,
 * with one byte for each token and expert.  It counts in them how many rows will come.  The host waits for that count,
 * which gives the output's size.  Each row comes with a probability for each expert of the node and, in FP8, its
 * scales. */
#include "models/moe/moe_internal.h"

#include <string.h>

enum { SCALE_BYTES = 4, PROBABILITY_BYTES = 4, VALUES_A_SCALE = 128 };

void moe_hybrid_ep_steps(const struct kernel_rank *rank, uint32_t phase, struct kernel_steps *steps)
{
    const struct moe_rank *r = fabric_container_of(rank, const struct moe_rank, kernel);
    const struct moe_options *o = r->options;
    const char *name = kernel_phase_name(rank->job, phase);
    const bool dispatch = strcmp(name, "dispatch") == 0, combine = strcmp(name, "combine") == 0;
    if (!o->hybrid_ep || (!dispatch && !combine)) return;
    const bool scaled = dispatch && o->dtype == MOE_FP8;
    const uint64_t token_bytes =
        scaled ? o->hidden + SCALE_BYTES * (uint64_t)(o->hidden / VALUES_A_SCALE) : 2 * (uint64_t)o->hidden;
    const uint32_t local = moe_local(o), tensors = scaled ? 3 : 2;
    const uint64_t tokens = r->routing->rank[r->fabric->rank].tokens;
    struct kernel_traffic traffic;
    kernel_rank_traffic(rank, phase, &traffic);
    const uint64_t rows = dispatch ? traffic.tokens_received : traffic.tokens_sent;
    steps->call = dispatch ? "dispatch_call" : "combine_call";
    steps->copied_bytes = rows * (token_bytes + PROBABILITY_BYTES * (uint64_t)(o->experts / o->ranks) * local);
    steps->copies = tensors;
    if (!dispatch) return;
    steps->gathered_bytes = tokens * o->experts;
    steps->host_waits = true;
    if (o->ranks == local) return;
    steps->copied_bytes += tokens * (token_bytes + PROBABILITY_BYTES * (uint64_t)o->experts);
    steps->copies += tensors;
}
