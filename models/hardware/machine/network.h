/* network.h - a graph while a world runs: the state of its links, and the ways between NIC ports.  The ways between two
 * switches that have ports are found when they are first used, and kept. */
#ifndef MODELS_HARDWARE_NETWORK_H
#define MODELS_HARDWARE_NETWORK_H

#include <stdbool.h>
#include <stdint.h>
#include "models/hardware/machine/graph.h"
#include "models/hardware/machine/link.h"
#include "models/hardware/machine/route.h"

struct network_port {
    uint32_t out, in; /* its links: from the NIC to the network, and back */
    uint32_t leaf;    /* index of its switch in the network's leaf[] */
};

/* The links of a way within a node, from a GPU to a port or a peer and back.  Links without a rate are left out,
 * because they are never the limit. */
struct network_local {
    uint8_t out_count, in_count;
    uint32_t out[ROUTE_INSIDE_MAX], in[ROUTE_INSIDE_MAX];
    uint64_t latency_ps; /* of each direction */
};

struct network_ways {
    struct route *way; /* [count] shortest ways between two switches, at most ROUTES_MAX */
    uint32_t count;    /* 0: not searched for yet */
};

struct network {
    const struct graph *graph;
    struct link_state *link;   /* [links of the graph] the state of each link */
    struct network_port *port; /* [nodes * ports of a node] */
    uint32_t ports_per_node;
    uint32_t *leaf; /* [leaf_count] the switches that NICs' ports connect to */
    uint32_t leaf_count;
    struct network_ways *ways; /* [leaf_count * leaf_count] */
};

/* The graph must outlive the network. */
struct network *network_new(const struct graph *graph);
void network_free(struct network *network);

/* Fills in the ways from a GPU of a node to one of the node's ports, and back. */
void network_local(const struct network *network, uint32_t node, uint32_t gpu, uint32_t port,
                   struct network_local *local);

/* Fills in the way from one GPU of a node to another. local->latency_ps is its latency, and local->out has those of its
 * links that can be the limit. */
void network_peers(const struct network *network, uint32_t node, uint32_t from_gpu, uint32_t to_gpu,
                   struct network_local *local);

/* Finds the links from one port to another for a flow, without the first port's own link.  Adaptive routing uses the
 * queues as they are now.  All bytes of a flow have one flow_key.  Where flows are sprayed, the key instead grows by
 * one with each quantum of bytes.  Fills passage->link and passage->count. */
void network_way(struct network *network, uint32_t from, uint32_t to, uint64_t flow_key, struct passage *passage);
/* The latency of the way back, from port `to` to port `from`. */
uint64_t network_back_ps(struct network *network, uint32_t from, uint32_t to);

/* Whether the buffer of some link can be full. */
bool network_buffers_finite(const struct network *network);
/* Clears the busy times and byte counts of links.  Bytes in flight still occupy their links. */
void network_uses_clear(struct network *network);
/* Whether a link is between switches or inside a node: no end of it is a NIC's port. */
bool network_link_inner(const struct network *network, uint32_t link);

#endif
