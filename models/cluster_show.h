/* cluster_show.h - draws a cluster's node and network as text.  Private to the cluster command. */
#ifndef MODELS_CLUSTER_SHOW_H
#define MODELS_CLUSTER_SHOW_H

#include <stdio.h>
#include "models/cluster.h"
#include "models/hardware/graph.h"

/* One node, the switches, and each kind of way between two GPUs with the rate and latency of every link on it. */
void cluster_show(const struct cluster *cluster, const struct graph *graph, FILE *out);

/* How many nodes a drawing of the cluster needs to have every kind of way in it. */
uint32_t cluster_show_nodes(const struct cluster *cluster);

#endif
