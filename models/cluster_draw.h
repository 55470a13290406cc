/* cluster_draw.h - a cluster as a picture: its network, one of its nodes, and the names that results use for parts. */
#ifndef MODELS_CLUSTER_DRAW_H
#define MODELS_CLUSTER_DRAW_H

#include "models/cluster.h"
#include "models/hardware/machine/graph.h"
#include "reports/drawing.h"

/* Draws a cluster whose graph has at least one node.  The drawing shows every resource that a record may name (as a
 * bound, a busy share or a busiest link) under that name.  Free with drawing_free(). */
struct drawing *cluster_draw(const struct cluster *cluster, const struct graph *graph);

#endif
