/* bootstrap_join.h - how ranks come together at rank 0's TCP address, until every one has a channel. */
#ifndef REPLAY_BOOTSTRAP_JOIN_H
#define REPLAY_BOOTSTRAP_JOIN_H

#include "replay/bootstrap/bootstrap.h"
#include "replay/bootstrap/bootstrap_wire.h"

/* On rank 0: listens until all ranks have joined.  channels[1 .. rank_count-1] are opened as ranks come; those of
 * other ranks have socket -1.  On failure they stay open, so that ranks that have joined can be told the cause. */
bool bootstrap_join_root(const struct bootstrap_tcp_options *o, struct wire_channel *channels, GError **error);
/* Another rank: connects as soon as rank 0 listens. */
bool bootstrap_join_member(const struct bootstrap_tcp_options *o, struct wire_channel *channel, GError **error);

#endif
