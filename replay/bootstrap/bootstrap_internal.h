/* bootstrap_internal.h - what all kinds of bootstrap share: the clock of their timeouts, names of ranks, joining. */
#ifndef REPLAY_BOOTSTRAP_INTERNAL_H
#define REPLAY_BOOTSTRAP_INTERNAL_H

#include "replay/bootstrap/bootstrap.h"

/* The limits of all shares of one exchange together, and of the text that says why a rank gives up. */
enum { BOOTSTRAP_EXCHANGE_BYTES_MAX = 1 << 28, BOOTSTRAP_REASON_BYTES_MAX = 4096 };

static inline bool bootstrap_size_allowed(uint64_t size_bytes, uint32_t rank_count)
{
    return size_bytes <= BOOTSTRAP_EXCHANGE_BYTES_MAX / rank_count;
}

uint64_t bootstrap_now_ms(void);
/* The time left until deadline_ms, as a timeout for poll(); 0 when it has passed. */
int bootstrap_remaining_ms(uint64_t deadline_ms);
/* Serves this rank's links.  Returns how many ms the caller may sleep before it must call this function again, at
 * most until deadline_ms. */
int bootstrap_serve_ms(const struct bootstrap *b, uint64_t deadline_ms);
/* How long ranks may take to say what they wait for.  An idle rank checks for the question every 100 ms. */
enum { BOOTSTRAP_ASK_MS = 400 };
/* What this rank waits for, in the form that is sent to other ranks. */
struct bootstrap_wait bootstrap_wait_of(const struct bootstrap *b);
/* How a rank answered when it was asked what it waits for.  A silent rank may be stopped or busy.  A stopped rank may
 * also hold a lock in libfabric's shared memory, on which the silent rank spins. */
enum hang_answer { HANG_STOPPED, HANG_SILENT, HANG_ANSWERED };
/* Returns a text that names the rank at fault for a hang, or all ranks that may be: those that do not answer, if none
 * is known to be stopped.  wait[] is valid for ranks with HANG_ANSWERED, and the rank `first`, which reported the hang,
 * is one of them.  Peers in wait[] may be invalid, so they are checked.  Free with g_free(). */
char *bootstrap_hang_text(const struct bootstrap_wait *wait, const enum hang_answer *answer, uint32_t rank_count,
                          uint32_t first);
/* Returns the ranks with listed[rank] set as text: "rank 2", "ranks 2 and 3", "ranks 1, 2, 3 and 61 more".  Free
 * with g_free(). */
char *bootstrap_ranks_text(const bool *listed, uint32_t rank_count);

/* How ranks come together at rank 0's TCP address, until every one has a channel. */
struct wire_channel;
/* Listens, on rank 0, until all ranks have joined.  Opens channels[1 .. rank_count-1] as ranks come.  The channel of
 * a rank that has not come has socket -1.  On failure the channels stay open, so that ranks that have joined can be
 * told the cause. */
bool bootstrap_join_root(const struct bootstrap_tcp_options *o, struct wire_channel *channels, GError **error);
/* Connects, on any other rank, as soon as rank 0 listens. */
bool bootstrap_join_member(const struct bootstrap_tcp_options *o, struct wire_channel *channel, GError **error);

#endif
