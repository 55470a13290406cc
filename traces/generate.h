/* generate.h - synthetic routing: random top-k like the public test scripts, skewed routing in the shapes that
 * captures show, and routing with an exact traffic matrix.
 *
 * Knows routing only.  The same options give the same routing on every machine. */
#ifndef TRACES_GENERATE_H
#define TRACES_GENERATE_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include "traces/routing.h"

#define GENERATE_ERROR (g_quark_from_static_string("eptwin-generate"))
enum generate_error { GENERATE_ERROR_OPTION };

/* Limits of every routing, generated or read. */
enum { ROUTING_RANKS_MAX = 1 << 20, ROUTING_EXPERTS_MAX = 1 << 20, ROUTING_TOPK_MAX = 256 };

/* Distributions, "NAME" or "NAME:VALUE":
 *   uniform top-k of scores |N(0,1)|+1, as the public tests (also for NULL)
 *   zipf:S          popularity 1/n^S over experts in random order
 *   zipf-packed:S   zipf over experts in the order of their numbers, so the hot experts are together on rank 0
 *   lognormal:S     popularity exp(S * N(0,1))
 *   imbalance:F     log-normal, S searched so that the most loaded rank gets F times the mean
 *   hot-expert:P    a share P of the tokens picks expert 0 first
 *   hot-rank:P      a share P of the tokens has all its experts on rank 0
 *   local           all experts on the token's own rank
 *   ring            all experts on the next rank
 *   round           places go to the ranks in turn, from the token's own on, and on each rank to its experts in turn
 *   strided         the tokens of all ranks, in random order, take the experts in turn, each top-k equally far apart
 *   power-law:A, sampled-power-law:A   power_law.h */
struct routing_options {
    uint32_t ranks, tokens, topk, experts; /* tokens of each rank */
    uint32_t groups, topk_groups;          /* group-limited top-k; plain top-k if either is 0 */
    uint32_t masked_places;                /* this many random places of each rank become ROUTING_NONE */
    bool weights;                          /* also draw gate weights (descending; a token's have the sum 1) */
    uint32_t step, layer;                  /* popularity depends on the layer, draws on step and layer */
    double correlation;                    /* the share of tokens that keep their experts of the previous step */
    uint64_t seed;
    const char *distribution;
};

/* Draws a routing into *out; free with routing_free().  The error names an option that is out of range. */
bool routing_generate(const struct routing_options *options, struct routing *out, GError **error);

/* Like routing_generate(), but a share `correlation` of the tokens keeps its experts of `previous` (of equal shape, or
 * NULL). */
bool routing_generate_after(const struct routing_options *options, const struct routing *previous, struct routing *out,
                            GError **error);

struct traffic_options {
    const char *matrix;             /* tokens from each source (rows, divided by ';') to each destination (columns, by
                                     * '|'); destinations are ranks or, with as many columns as experts, experts */
    uint32_t ranks;                 /* expected size of the matrix; 0: any */
    uint32_t tokens, topk, experts; /* tokens of each rank */
    bool pairs;                     /* whether the matrix counts (token, expert) pairs instead of tokens, each once */
    uint64_t seed;
};

/* Draws a routing with exactly this traffic.  If columns are experts, each expert gets exactly its tokens.  If they
 * are ranks and pairs is false, matrix[s][d] tokens of source s have at least one expert on rank d.  Their other
 * places hold more experts of these ranks, or ROUTING_NONE if the ranks have too few.  False and *error if the text
 * is not such a matrix, or if no routing has this traffic. */
bool routing_from_traffic(const struct traffic_options *options, struct routing *out, GError **error);

#endif
