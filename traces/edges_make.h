/* edges_make.h - where lists of messages come from: files, specifications, routings.
 *
 * A file is text, compressed with zstd or not: its first line says how many endpoints and how many messages there
 * are, then a line a message, "source destination bytes"; blank lines and what follows a # are skipped.  Messages of a
 * source stay in the order of the file; sources may be mixed.  Knows no kernel. */
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

/* The load that --matrix names: a file, or "uniform:BYTES" (from every rank to every other rank), or
 * "lognormal:BYTES[:S]" (rows of row_bytes, in the mean that many bytes a pair, more for popular targets: popularity is
 * exp(S * N(0,1)), S 0.7 where it is not given).  What is drawn is for so many ranks, each source beginning with its
 * successor; a file must have as many, unless ranks is 0. */
bool edges_make(const char *spec, uint32_t ranks, uint32_t row_bytes, uint64_t seed, struct edges *edges,
                GError **error);
/* Whether the specification is drawn for a number of ranks, not read from a file that says it. */
bool edges_spec_drawn(const char *spec);

/* Of a routing: a row of row_bytes for each token and each rank that it goes to, all rows of a pair one message. */
void edges_of_routing(const struct routing *routing, uint32_t row_bytes, struct edges *edges);

#endif
