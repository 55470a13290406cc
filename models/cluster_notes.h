/* cluster_notes.h - what a reader must know before trusting a machine: settings that change nothing here, and figures
 * that are another machine's.  Runs nothing. */
#ifndef MODELS_CLUSTER_NOTES_H
#define MODELS_CLUSTER_NOTES_H

#include <glib.h>
#include "models/hardware/machine/graph.h"
#include "models/hardware/machine/transport.h"

/* Sentences about the cluster of a graph that has as many nodes as the run, in an array that frees them.  backend: the
 * row that --backend names; NULL: the file's own.  nics_used: ranks reach each other by NICs.  Of the keys that
 * settings give (struct cluster), every key without effect is named; of the file's own keys only those that promise a
 * slower network. */
GPtrArray *cluster_notes(const struct graph *graph, const struct transport *backend, bool nics_used);

#endif
