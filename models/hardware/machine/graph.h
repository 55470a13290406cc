/* graph.h - a cluster as parts and links: the parts of nodes, the parts of the network, and the links between them.
 *
 *   n0.g0 - n0.pcie0 - n0.nic0 - n0.nic0.p0 - leaf0 - spine0 - leaf1 - n1.nic0.p0 - ...
 *      |        |
 *   n0.nvlink  n0.root0 - n0.root1
 *
 * A link has one direction; one line of a cluster file makes two links.  A rate of 0 says that the link is never the
 * limit.  A graph is built once, before anything runs.  Faults edit it.  It knows no time and no protocol. */
#ifndef MODELS_HARDWARE_GRAPH_H
#define MODELS_HARDWARE_GRAPH_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include "models/cluster.h"

#define GRAPH_ERROR (g_quark_from_static_string("eptwin-graph"))
enum graph_error { GRAPH_ERROR_LINK, GRAPH_ERROR_REACH, GRAPH_ERROR_SIZE };

enum part_kind {
    PART_GPU,
    PART_NVLINK,
    PART_PCIE_SWITCH,
    PART_ROOT,
    PART_MEMORY,
    PART_NIC,
    PART_PORT,
    PART_SWITCH,
    PART_KINDS
};

enum { PART_NAME_BYTES = 32, GRAPH_NO_NODE = UINT32_MAX };

struct part {
    char name[PART_NAME_BYTES];
    enum part_kind kind;
    uint32_t node; /* GRAPH_NO_NODE: of the network */
    uint32_t tier; /* of a switch: 0 has nodes below it */
    GArray *out;   /* uint32_t: links that begin here */
};

struct link {
    uint32_t from, to; /* parts */
    uint64_t rate_bps, latency_ps;
    uint64_t buffer_bytes; /* before it, at from; 0: as much as there is */
    bool down;
    uint64_t built_bps; /* its rate before any fault */
};

struct graph {
    const struct cluster *cluster;
    uint32_t nodes, gpus, nics, ports; /* gpus and nics of a node, ports of a NIC */
    uint32_t only_nic;                 /* a fault: NIC + 1 that all GPUs of a node use; 0: each its own */
    GArray *part, *link;               /* struct part, struct link */
    GHashTable *names;                 /* name -> part + 1 */
};

/* How fast a GPU's stores to its peers leave it, and how fast those of its peers come in. */
struct graph_peer_rates {
    uint64_t out_bps, in_bps;             /* 0: never the limit */
    uint64_t built_out_bps, built_in_bps; /* before any fault */
};

/* What links are made with before a fault or a line of [links] says otherwise, in bits/s, 0 where the cluster has none:
 * of a NIC's port, of PCIe, and of a GPU's stores to peers; and the first and the last by the name of their kind, as a
 * library that sizes its kernels knows them. */
struct graph_made_with {
    uint64_t nic_bps, pcie_bps, peers_out_bps, peers_in_bps, nic_line_bps, nvlink_line_bps;
};
struct graph_made_with graph_made_with(const struct cluster *cluster);
/* Copies a cluster, but its GPUs reach the peers of their node by PCIe in place of NVLink.  False: it says no rate of
 * PCIe. */
bool graph_peers_by_pcie(const struct cluster *from, struct cluster *to);

/* The number of GPUs of a node when ranks_per_node of them are used, and the number of its NICs. */
uint32_t graph_node_gpus(const struct cluster *cluster, uint32_t ranks_per_node);
uint32_t graph_node_nics(const struct cluster *cluster, uint32_t gpus);

/* The graph of a cluster with so many nodes of `gpus` GPUs each (0: as the cluster says).  The cluster must outlive it.
 * Returns NULL and sets *error if links dangle or stand twice, or if a NIC has no switch or no way to another NIC.  The
 * error names file and line if there are any. */
struct graph *graph_new(const struct cluster *cluster, uint32_t nodes, uint32_t gpus, GError **error);
void graph_free(struct graph *graph);

/* Whether every node has a port that is up and each of these ports reaches all others.  *error names one that fails. */
bool graph_reaches(const struct graph *graph, GError **error);

/* Whether each GPU of a node reaches the ports that it uses and, over PCIe, its peers, by at most ROUTE_INSIDE_MAX
 * links. */
bool graph_node_reaches(const struct graph *graph, uint32_t node, GError **error);

struct part *graph_part(const struct graph *graph, uint32_t part);
struct link *graph_link(const struct graph *graph, uint32_t link);
/* The part of that name, or UINT32_MAX. */
uint32_t graph_find(const struct graph *graph, const char *name);
/* The link from one part to another that is not down, or UINT32_MAX. */
uint32_t graph_link_between(const struct graph *graph, uint32_t from, uint32_t to);

/* Parts by number: a GPU of a node, a port (of all NICs of a node, NIC by NIC), a NIC. */
uint32_t graph_gpu(const struct graph *graph, uint32_t node, uint32_t gpu);
uint32_t graph_nic(const struct graph *graph, uint32_t node, uint32_t nic);
uint32_t graph_port(const struct graph *graph, uint32_t node, uint32_t port);
/* Which ports of its node a GPU uses: *count of them from the one returned on. */
uint32_t graph_gpu_ports(const struct graph *graph, uint32_t gpu, uint32_t *count);
/* The first GPU that uses a port of its node. */
uint32_t graph_port_gpu(const struct graph *graph, uint32_t port);
/* Where cross-rail traffic goes by NVLink: the port of a node through which it reaches a switch that another of its
 * ports, `own`, does not hang on.  UINT32_MAX: through its own. */
uint32_t graph_relay_port(const struct graph *graph, uint32_t node, uint32_t own, uint32_t to_switch);
/* The rates of a GPU's links of NVLink; where it has none, what the cluster's [nvlink] says of stores over PCIe. */
struct graph_peer_rates graph_gpu_peer_rates(const struct graph *graph, uint32_t node, uint32_t gpu);
/* What a port sends and takes in at, faults included, in bits/s; 0 where it is down. */
uint64_t graph_port_out_bps(const struct graph *graph, uint32_t node, uint32_t port);
uint64_t graph_port_in_bps(const struct graph *graph, uint32_t node, uint32_t port);
/* That of the fastest port; 0: there is none.  And the slowest ways into GPUs, faults included: by stores of peers, and
 * by one port of a NIC. */
uint64_t graph_line_bps(const struct graph *graph);
void graph_least_in(const struct graph *graph, uint64_t *peers_bps, uint64_t *port_bps);
/* The rate of copies between a GPU and the host's memory where NICs do not reach its own; 0: never the limit. */
uint64_t graph_staging_bps(const struct graph *graph, uint32_t node, uint32_t gpu);
/* The switch that a port hangs on, or UINT32_MAX where its link is down. */
uint32_t graph_port_switch(const struct graph *graph, uint32_t port_part);

/* Faults of the link between a and b, in both directions: its rate is multiplied by factor, or it goes down. */
void graph_scale(struct graph *graph, uint32_t a, uint32_t b, double factor);
void graph_cut(struct graph *graph, uint32_t a, uint32_t b);

#endif
