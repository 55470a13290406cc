/* route.h - ways through a graph.  This file knows parts and links; link.h knows the traffic on them. */
#ifndef MODELS_HARDWARE_ROUTE_H
#define MODELS_HARDWARE_ROUTE_H

#include <stdint.h>
#include "models/hardware/machine/graph.h"

enum {
    ROUTE_LINKS_MAX = 12,
    ROUTES_MAX = 64,
    ROUTE_INSIDE_MAX = 6 /* the most links of a way within a node */
};

struct route {
    uint32_t count;
    uint32_t link[ROUTE_LINKS_MAX];
};

/* Finds all shortest ways from one part to another, at most max, in the order of the links.  Returns their number; 0 if
 * there is none.  A way leads through switches, roots, host memory and NICs, never through a GPU, a port or NVLink. */
uint32_t route_find(const struct graph *graph, uint32_t from, uint32_t to, struct route *route, uint32_t max);

/* The sum of the latencies of a way's links, and the rate of its slowest link (0: no link is a limit). */
uint64_t route_latency_ps(const struct graph *graph, const struct route *route);
uint64_t route_rate_bps(const struct graph *graph, const struct route *route);

#endif
