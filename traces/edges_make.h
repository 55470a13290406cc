/* edges_make.h - where lists of messages come from: files, specifications, routings.
 *
 * A file is text, compressed with zstd or not.  Its first line has the number of endpoints and the number of
 * messages.  Then there is a line for each message: "source destination bytes".  Blank lines and everything after a
 * # are skipped.  Messages of a source stay in the order of the file, and sources may be mixed.  Knows no kernel. */
#ifndef TRACES_EDGES_MAKE_H
#define TRACES_EDGES_MAKE_H

#include <glib.h>
#include <stdbool.h>
#include "traces/edges.h"
#include "traces/routing.h"

#define EDGES_ERROR (g_quark_from_static_string("eptwin-edges"))
enum edges_error { EDGES_ERROR_INPUT };

/* Reads a file.  False and *error: file, line, field, what was expected and found. */
bool edges_read(const char *path, struct edges *edges, GError **error);

/* The load that --matrix names: a file; or "uniform:BYTES" (from every rank to every other rank); or
 * "lognormal:BYTES[:S]".  The last gives rows of row_bytes.  A pair has BYTES on average, and more if its target is
 * popular: popularity is exp(S * N(0,1)), and S is 0.7 by default.  A drawn load is for `ranks` ranks, and each
 * source begins with the rank after it.  A file must have that many endpoints, unless ranks is 0. */
bool edges_make(const char *spec, uint32_t ranks, uint32_t row_bytes, uint64_t seed, struct edges *edges,
                GError **error);
/* Whether the specification can be drawn for any number of ranks.  A file states its own number. */
bool edges_spec_drawn(const char *spec);

/* The load of a routing: a row of row_bytes for each token and each rank that it goes to.  All rows of a pair are
 * one message. */
void edges_of_routing(const struct routing *routing, uint32_t row_bytes, struct edges *edges);

#endif
