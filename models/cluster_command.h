/* cluster_command.h - the parts of `eptwin cluster`, each in a file of its own. */
#ifndef MODELS_CLUSTER_COMMAND_H
#define MODELS_CLUSTER_COMMAND_H

#include <glib.h>
#include <stdbool.h>
#include <stdio.h>
#include "models/cluster.h"
#include "models/hardware/machine/graph.h"
#include "models/hardware/machine/route.h"
#include "models/hardware/machine/transport.h"
#include "reports/drawing.h"

/* Prints one node, the switches, and each kind of path between two GPUs, with the rate and latency of every link of
 * the path.  Last come the keys whose values are assumed. */
void cluster_show(const struct cluster *cluster, const struct graph *graph, FILE *out);

/* How many nodes a drawing needs to show every kind of path in the cluster. */
uint32_t cluster_show_nodes(const struct cluster *cluster);

/* Finds the path from the first GPU of the first node to a GPU of another node, through the first port of each node.
 * Sections of the path may have equally short alternatives: *ways is the largest number of them in one section.  False
 * if there is no path. */
bool cluster_show_way(const struct graph *graph, uint32_t node, uint32_t gpu, struct route *way, uint32_t *ways);

/* Draws a cluster whose graph has at least one node.  The drawing shows every resource that a record may name (as a
 * bound, a busy share or a busiest link) under that name.  Free with drawing_free(). */
struct drawing *cluster_draw(const struct cluster *cluster, const struct graph *graph);

/* What a user must know before trusting a machine's file.  Returns sentences about the graph's cluster, in an array
 * that frees them.  The graph has as many nodes as the run.  backend is the transport that --backend names; NULL: the
 * file's own.  nics_used: ranks reach each other by NICs.  One sentence says how many values are assumed.  Others name
 * keys without effect: every such key that the user set (settings of struct cluster), and of the file's own keys only
 * those that promise a slower network. */
GPtrArray *cluster_notes(const struct graph *graph, const struct transport *backend, bool nics_used);

/* Appends an explanation of the keys of a section ("nic"), the keys of one name ("rate", "nic.rate"), all keys
 * ("all"), or the most important keys (NULL).  For any other name returns False and sets *error, which has the
 * nearest name. */
bool cluster_teach(const char *what, GString *out, GError **error);

/* Appends eptwin-cluster(5): the file's form and all keys, for man(1). */
void cluster_teach_man(GString *out);

/* `eptwin cluster new [OPTION]...`; argv[0] is "new": writes a commented cluster file of a machine that the command
 * line describes.  The file includes shipped parts and gives the values that differ from them.  Returns the exit
 * status. */
int cluster_new_run(int argc, char **argv);

#endif
