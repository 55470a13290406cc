/* generate.h - synthetic routing: random top-k as in the public test scripts, skewed routing as captures show it, and
 * routing with an exact traffic matrix.
 *
 * Knows routing only.  The same options give the same routing on every machine. */
#ifndef TRACES_GENERATE_H
#define TRACES_GENERATE_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include "traces/routing.h"

/* Distributions, "NAME" or "NAME:VALUE":
 *   uniform         top-k of scores |N(0,1)|+1, as in the public tests; NULL means this, too
 *   zipf:S          popularity 1/n^S over experts in random order
 *   zipf-packed:S   zipf over experts in the order of their numbers, so the hot experts are together on rank 0
 *   lognormal:S     popularity exp(S * N(0,1))
 *   imbalance:F     log-normal, with an S for which the most loaded rank gets F times the mean load
 *   hot-expert:P    a share P of the tokens picks expert 0 first
 *   hot-rank:P      a share P of the tokens has all its experts on rank 0
 *   local           all experts are on the token's own rank
 *   ring            all experts are on the next rank
 *   round           places go to the ranks in rotation, beginning with the token's own, and on each rank to its experts
 *                   in rotation
 *   strided         experts are used in rotation over the tokens of all ranks, and each token's are equally far apart
 *   power-law:A, sampled-power-law:A   see power_law.h */
struct routing_options {
    uint32_t ranks, tokens, topk, experts; /* tokens: of each rank */
    uint32_t groups, topk_groups;          /* group-limited top-k; plain top-k if either is 0 */
    uint32_t masked_places;                /* this many random places of each rank become ROUTING_NONE; a place may be
                                            * drawn twice */
    bool weights;         /* whether to draw gate weights, which descend and have the sum 1 for a token */
    uint32_t step, layer; /* popularity depends on the layer; draws depend on step and layer */
    double correlation;   /* the share of tokens that keep their experts of the previous step */
    uint64_t seed;
    const char *distribution;
};

/* Draws a routing into *out; free with routing_free().  The error names an option that is out of range. */
bool routing_generate(const struct routing_options *options, struct routing *out, GError **error);

/* Like routing_generate(), but a share `correlation` of the tokens keeps the experts that they have in `previous`.
 * That routing must have an equal shape, or be NULL. */
bool routing_generate_after(const struct routing_options *options, const struct routing *previous, struct routing *out,
                            GError **error);

struct traffic_options {
    const char *matrix;             /* tokens from each source (rows, divided by ';') to each destination (columns,
                                     * divided by '|').  Destinations are experts if there are as many columns as
                                     * experts, else ranks */
    uint32_t ranks;                 /* expected number of rows; 0: any */
    uint32_t tokens, topk, experts; /* tokens: of each rank */
    bool pairs;                     /* whether the matrix counts (token, expert) pairs, and not tokens */
    uint64_t seed;
};

/* Draws a routing with exactly this traffic.  If columns are experts, each expert gets exactly its tokens.  If columns
 * are ranks and pairs is false, matrix[s][d] tokens of source s have at least one expert on rank d.  A token's other
 * places get more experts of its ranks, or ROUTING_NONE if these ranks have too few.  False and *error if the text is
 * not such a matrix, or if no routing has this traffic. */
bool routing_from_traffic(const struct traffic_options *options, struct routing *out, GError **error);

#endif
