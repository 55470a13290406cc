/* route.h - ways through a graph.  Knows parts and links; what travels there and how fast stands in link.h. */
#ifndef MODELS_HARDWARE_ROUTE_H
#define MODELS_HARDWARE_ROUTE_H

#include <stdint.h>
#include "models/hardware/graph.h"

enum { ROUTE_LINKS_MAX = 12, ROUTES_MAX = 64 };

struct route {
    uint32_t count;
    uint32_t link[ROUTE_LINKS_MAX];
};

/* All shortest ways from one part to another, in the order of the links, at most max of them; their number.  A way
 * leads through switches, roots, host memory and NICs, never through a GPU, a port or NVLink.  0: there is none. */
uint32_t route_find(const struct graph *graph, uint32_t from, uint32_t to, struct route *route, uint32_t max);

/* What all links of it add, and the rate of the slowest (0: none is a limit). */
uint64_t route_latency_ps(const struct graph *graph, const struct route *route);
uint64_t route_rate_bps(const struct graph *graph, const struct route *route);

#endif
