/* cluster_show.h - prints a cluster's node and network as text; cluster_draw.h draws them as a picture. */
#ifndef MODELS_CLUSTER_SHOW_H
#define MODELS_CLUSTER_SHOW_H

#include <stdio.h>
#include "models/cluster.h"
#include "models/hardware/machine/graph.h"
#include "models/hardware/machine/route.h"

/* Prints one node, the switches, and each kind of path between two GPUs, with the rate and latency of every link of
 * the path.  Last come the keys whose values are assumed. */
void cluster_show(const struct cluster *cluster, const struct graph *graph, FILE *out);

/* How many nodes a drawing needs to show every kind of path in the cluster. */
uint32_t cluster_show_nodes(const struct cluster *cluster);

/* Finds the path from the first GPU of the first node to a GPU of another node, through the first port of each node.
 * Sections of the path may have equally short alternatives: *ways is the largest number of them in one section.  False
 * if there is no path. */
bool cluster_show_way(const struct graph *graph, uint32_t node, uint32_t gpu, struct route *way, uint32_t *ways);

#endif
