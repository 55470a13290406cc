/* graph.h - a cluster as parts and links: the parts of nodes, the parts of the network, and the links between them.
 *
 *   n0.g0 - n0.pcie0 - n0.nic0 - n0.nic0.p0 - leaf0 - spine0 - leaf1 - n1.nic0.p0 - ...
 *      |        |
 *   n0.nvlink  n0.root0 - n0.root1
 *
 * A link has one direction; one line of a cluster file makes two links.  A rate of 0 says that the link is never the
 * limit.  A graph is built once, before anything runs.  Faults edit it.  This module knows no time and no
 * protocol. */
#ifndef MODELS_HARDWARE_GRAPH_H
#define MODELS_HARDWARE_GRAPH_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include "models/cluster.h"

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
    uint32_t node; /* GRAPH_NO_NODE: it belongs to the network */
    uint32_t tier; /* of a switch; nodes are below the switches of tier 0 */
    GArray *out;   /* uint32_t: the links that begin at this part */
};

struct link {
    uint32_t from, to; /* parts */
    uint64_t rate_bps, latency_ps;
    uint64_t buffer_bytes; /* size of the buffer at `from` in which bytes wait for the link; 0: unlimited */
    bool down;
    uint64_t built_bps; /* its rate before any fault */
};

struct graph {
    const struct cluster *cluster;
    uint32_t nodes, gpus, nics, ports; /* nodes in all; GPUs of a node; NICs of a node; ports of a NIC */
    uint32_t only_nic;                 /* a fault: 1 + the NIC that all GPUs of a node use; 0: each GPU uses its own
                                        * NIC */
    GArray *part, *link;               /* struct part, struct link */
    GHashTable *names;                 /* name -> part + 1 */
};

/* How fast a GPU's stores to its peers leave it, and how fast its peers' stores come in, in bits/s. */
struct graph_peer_rates {
    uint64_t out_bps, in_bps;             /* 0: never the limit */
    uint64_t built_out_bps, built_in_bps; /* before any fault */
};

/* The rates, in bits/s, that the cluster gives to a NIC's port and to a GPU's stores to and from its peers.
 * 0: the cluster has no such links.  A fault or a line of [links] may later change the rate of a link.  A library
 * chooses the sizes of its kernels by the nominal rates (nic_line_bps, nvlink_line_bps). */
struct graph_made_with {
    uint64_t nic_bps, peers_out_bps, peers_in_bps, nic_line_bps, nvlink_line_bps;
};
struct graph_made_with graph_made_with(const struct cluster *cluster);
/* Copies a cluster and lets its GPUs reach the peers of their node by PCIe instead of NVLink.  Returns false if the
 * cluster gives no rate for PCIe. */
bool graph_peers_by_pcie(const struct cluster *from, struct cluster *to);

/* How many GPUs a node uses if it has ranks_per_node ranks (0 or 1: all of them), and how many NICs a node has. */
uint32_t graph_node_gpus(const struct cluster *cluster, uint32_t ranks_per_node);
uint32_t graph_node_nics(const struct cluster *cluster, uint32_t gpus);

/* Makes the graph of a cluster with `nodes` nodes, each of `gpus` GPUs (0: as the cluster says).  The cluster must
 * outlive the graph.  Returns NULL and sets *error if a link has no end or is given twice, or if a NIC has no switch or
 * cannot reach another NIC.  *error names the file, and the line if it is known. */
struct graph *graph_new(const struct cluster *cluster, uint32_t nodes, uint32_t gpus, GError **error);
void graph_free(struct graph *graph);

/* Whether every port has had a link, every node has a port that is up, and all ports that are up reach each other.
 * Also checks the inside of each node in which a link is down. *error names the node or the port that fails. */
bool graph_reaches(const struct graph *graph, GError **error);

/* Whether each GPU of a node reaches its ports and, over PCIe, its peers, by at most ROUTE_INSIDE_MAX links. */
bool graph_node_reaches(const struct graph *graph, uint32_t node, GError **error);

struct part *graph_part(const struct graph *graph, uint32_t part);
struct link *graph_link(const struct graph *graph, uint32_t link);
/* The part called `name`, or UINT32_MAX. */
uint32_t graph_find(const struct graph *graph, const char *name);
/* The link from one part to another.  UINT32_MAX: there is none, or it is down. */
uint32_t graph_link_between(const struct graph *graph, uint32_t from, uint32_t to);

/* The part number of a node's GPU, of its NIC, and of its port.  Ports are counted over all NICs of the node. */
uint32_t graph_gpu(const struct graph *graph, uint32_t node, uint32_t gpu);
uint32_t graph_nic(const struct graph *graph, uint32_t node, uint32_t nic);
uint32_t graph_port(const struct graph *graph, uint32_t node, uint32_t port);
/* Returns the first port of its node that a GPU uses.  The GPU uses *count ports from that one on. */
uint32_t graph_gpu_ports(const struct graph *graph, uint32_t gpu, uint32_t *count);
/* The first GPU that uses a port of its node.  If no GPU uses the port, GPU 0. */
uint32_t graph_port_gpu(const struct graph *graph, uint32_t port);
/* The port of a node that connects to to_switch, for cross-rail traffic that goes by NVLink.  UINT32_MAX: the traffic
 * leaves by the GPU's own port `own`, for one of three reasons.  Cross-rail traffic does not go by NVLink, or `own`
 * connects to to_switch, or no port of the node connects to it. */
uint32_t graph_relay_port(const struct graph *graph, uint32_t node, uint32_t own, uint32_t to_switch);
/* The rates of a GPU's NVLinks.  If the GPU has no NVLinks, these are the rates that the cluster's [nvlink] gives for
 * stores over PCIe. */
struct graph_peer_rates graph_gpu_peer_rates(const struct graph *graph, uint32_t node, uint32_t gpu);
/* The rate at which a port sends, with faults, in bits/s; 0 if it is down. */
uint64_t graph_port_out_bps(const struct graph *graph, uint32_t node, uint32_t port);
/* The rate of the fastest port, in bits/s; 0: there is no port. */
uint64_t graph_line_bps(const struct graph *graph);
/* The least rates after faults, in bits/s.  *peers_bps is that of peers' stores into a GPU.  *port_bps is that of a
 * port in its slower direction.  0: there is no such limit. */
void graph_least_in(const struct graph *graph, uint64_t *peers_bps, uint64_t *port_bps);
/* The rate of copies between a GPU's memory and the host's, where NICs do not reach GPU memory.  0: these copies are
 * never the limit. */
uint64_t graph_staging_bps(const struct graph *graph, uint32_t node, uint32_t gpu);
/* The switch that a port is connected to; UINT32_MAX if its link is down. */
uint32_t graph_port_switch(const struct graph *graph, uint32_t port_part);

/* These put a fault on the link between a and b, in both directions. graph_scale() multiplies its rate by factor;
 * graph_cut() takes it down. */
void graph_scale(struct graph *graph, uint32_t a, uint32_t b, double factor);
void graph_cut(struct graph *graph, uint32_t a, uint32_t b);

#endif
