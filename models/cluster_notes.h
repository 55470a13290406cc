/* cluster_notes.h - what a user must know before trusting a machine's file: settings that change nothing in this run,
 * and figures that come from another machine.  Runs nothing. */
#ifndef MODELS_CLUSTER_NOTES_H
#define MODELS_CLUSTER_NOTES_H

#include <glib.h>
#include "models/hardware/machine/graph.h"
#include "models/hardware/machine/transport.h"

/* Returns sentences about the graph's cluster, in an array that frees them.  The graph has as many nodes as the run.
 * backend is the transport that --backend names; NULL: the file's own.  nics_used: ranks reach each other by NICs.
 * One sentence says how many values are assumed.  Others name keys without effect: every such key that the user set
 * (settings of struct cluster), and of the file's own keys only those that promise a slower network. */
GPtrArray *cluster_notes(const struct graph *graph, const struct transport *backend, bool nics_used);

#endif
