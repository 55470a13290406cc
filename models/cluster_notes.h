/* cluster_notes.h - what a reader must know before trusting a machine: settings that change nothing here, and
 * figures that come from another machine.  Runs nothing. */
#ifndef MODELS_CLUSTER_NOTES_H
#define MODELS_CLUSTER_NOTES_H

#include <glib.h>
#include "models/hardware/machine/graph.h"
#include "models/hardware/machine/transport.h"

/* Sentences about the cluster of a graph with as many nodes as the run, in an array that frees them.  backend is the
 * transport that --backend names; NULL: the file's own.  nics_used: ranks reach each other by NICs.  Every key
 * without effect is named if a setting gave it (struct cluster).  Of the file's own keys, only those that promise a
 * slower network are named. */
GPtrArray *cluster_notes(const struct graph *graph, const struct transport *backend, bool nics_used);

#endif
