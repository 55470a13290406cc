/* placement.h - which rank holds which expert, and the routing after experts are moved or replicated.
 *
 * In a routing, expert e is on rank e / (experts / ranks).  A placement renames logical experts to slots ("physical
 * experts"), which are numbered in the same way: slot s is on rank s / (slots / ranks).  The routing that results has
 * slots instead of experts, and can be used wherever the original can.
 *
 * Knows routing and loads, no time. */
#ifndef TRACES_PLACEMENT_H
#define TRACES_PLACEMENT_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include "traces/routing.h"

/* Placements, by their text:
 *   identity        experts stay in order
 *   greedy          the heaviest expert first, each to the least loaded rank with room
 *   eplb:N          N redundant slots go to the heaviest experts; then all slots go to ranks as with greedy
 *   eplb:N:G        like eplb:N, but the G groups of experts are packed to nodes first.  Replicas and ranks are then
 *                   chosen within each node.  If the nodes cannot have equally many groups, it is eplb:N
 *   file:PATH       a line for each rank: the logical experts of its slots, separated by blanks; '#' begins a comment.
 *                   Or the JSON that SGLang, vLLM and vLLM Ascend read, with all layers (placement_json.h) */
struct placement {
    uint32_t experts, ranks, slots;
    uint32_t *expert_of;      /* [slots] the logical expert in a slot; rank = slot / (slots / ranks) */
    uint32_t *replicas_start; /* [experts + 1] index in replicas where an expert's slots begin */
    uint32_t *replicas;       /* [slots] slots sorted by expert */
};

struct placement_input {
    uint32_t experts, ranks, ranks_per_node;
    const uint64_t *load; /* [experts] how many earlier tokens chose each expert; the placement is made from this */
    uint32_t layer;       /* the layer that is read from a file of several layers */
};

/* Makes the placement that spec names.  Clear it with placement_clear().  On failure *out is unchanged. */
bool placement_make(const char *spec, const struct placement_input *input, struct placement *out, GError **error);
void placement_clear(struct placement *placement);

/* Sets *out to the routing `in` with slots instead of experts.  The tokens of a source use the replicas of an expert in
 * rotation.  `in` must have the placement's experts and ranks (asserted).  Free *out with routing_free(). */
void placement_apply(const struct placement *placement, const struct routing *in, struct routing *out);

/* Adds the routing's choices to load[experts]. */
void placement_load_add(const struct routing *routing, uint64_t *load);

struct routing_place_options {
    const char *spec;
    uint32_t ranks_per_node, layer;
};
/* Makes a placement from the load of a single routing, and applies it to this routing. */
bool routing_place(const struct routing *in, const struct routing_place_options *options, struct routing *out,
                   GError **error);

/* The placement as text that "file:" reads.  Free with g_free(). */
char *placement_text(const struct placement *placement);

#endif
