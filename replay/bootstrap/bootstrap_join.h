/* bootstrap_join.h - how ranks come together at rank 0's TCP address, until every one has a channel. */
#ifndef REPLAY_BOOTSTRAP_JOIN_H
#define REPLAY_BOOTSTRAP_JOIN_H

#include "replay/bootstrap/bootstrap.h"
#include "replay/bootstrap/bootstrap_wire.h"

/* Listens, on rank 0, until all ranks have joined.  Opens channels[1 .. rank_count-1] as ranks come.  The channel of
 * a rank that has not come has socket -1.  On failure the channels stay open, so that ranks that have joined can be
 * told the cause. */
bool bootstrap_join_root(const struct bootstrap_tcp_options *o, struct wire_channel *channels, GError **error);
/* Connects, on any other rank, as soon as rank 0 listens. */
bool bootstrap_join_member(const struct bootstrap_tcp_options *o, struct wire_channel *channel, GError **error);

#endif
