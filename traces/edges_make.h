/* edges_make.h - makes lists of messages from files, specifications or routings.
 *
 * A file is text, and may be compressed with zstd.  Its first line has the number of endpoints and the number of
 * messages.  Each later line is a message: "source destination bytes".  Blank lines and everything after a # are
 * skipped.  Sources may come in any order.  The messages of one source stay in the order of the file.  Knows no
 * kernel. */
#ifndef TRACES_EDGES_MAKE_H
#define TRACES_EDGES_MAKE_H

#include <glib.h>
#include <stdbool.h>
#include "traces/edges.h"
#include "traces/routing.h"

/* Reads a file.  False and *error (file, line, field, what was expected and found) on failure. */
bool edges_read(const char *path, struct edges *edges, GError **error);

/* Makes the load that --matrix names: a file, sizes, "uniform:SIZE", or "lognormal:SIZE[:S]".  Sizes are those from
 * each rank to each rank, "0|4KiB;1MiB|0" for two ranks; 0 is no message.  A uniform load is SIZE from every rank to
 * every other rank.  A lognormal load is made of rows of row_bytes.  On average a pair has SIZE, and more if its target
 * is popular: popularity is exp(S * N(0,1)), and S is 0.7 by default.  Both are for `ranks` ranks. Each source sends
 * first to the rank after it, but in a file.  Sizes have `ranks` rows, and a file `ranks` endpoints, unless ranks is 0.
 */
bool edges_make(const char *spec, uint32_t ranks, uint32_t row_bytes, uint64_t seed, struct edges *edges,
                GError **error);
/* Whether the specification can be drawn for any number of ranks.  A file states its own number. */
bool edges_spec_drawn(const char *spec);

/* The load of a routing: a row of row_bytes for each token and each rank that it goes to.  All rows of a pair are
 * one message.  False and *error if one is larger than messages may be. */
bool edges_of_routing(const struct routing *routing, uint32_t row_bytes, struct edges *edges, GError **error);

#endif
