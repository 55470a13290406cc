/* cluster_notes.h - what a user must know before trusting a machine's file: settings that change nothing in this run,
 * and figures that come from another machine.  Runs nothing. */
#ifndef MODELS_CLUSTER_NOTES_H
#define MODELS_CLUSTER_NOTES_H

#include <glib.h>
#include "models/hardware/machine/graph.h"
#include "models/hardware/machine/transport.h"

/* Returns sentences about the graph's cluster, in an array that frees them.  The graph has as many nodes as the run.
 * backend is the transport that --backend names; NULL: the file's own.  nics_used: ranks reach each other by NICs.  The
 * sentences say how many values are assumed.  They name every key without effect that a setting gave (settings of
 * struct cluster).  Of the file's own keys, they name only those that promise a slower network. */
GPtrArray *cluster_notes(const struct graph *graph, const struct transport *backend, bool nics_used);

#endif
