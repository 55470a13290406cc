/* moe_ht_intra.h - private to the intranode kernels (PROTOCOLS.md 1.2): memory map and state of a rank.
 *
 * Heap:    | counts [source][ranks + local experts] u32 | ring [channel][producer][slots] |
 *
 * A ring lies in the memory of its consumer.  Dispatch and combine use the same rings, one after the other.
 *
 * Signal words: barrier[ranks]; start, end and tail [channel][peer], which the producer raises; head [channel][peer],
 * which the consumer raises at the producer.  Private words: done[channel][group] of combine's reducers. */
#ifndef MODELS_MOE_MOE_HT_INTRA_H
#define MODELS_MOE_MOE_HT_INTRA_H

#include "models/moe/moe_ht.h"

enum {
    INTRA_WARPS = 24,                      /* warps of an SM */
    INTRA_REDUCER_WARPS = INTRA_WARPS - 1, /* warp 0 publishes the heads */
    INTRA_GROUPS = INTRA_REDUCER_WARPS,    /* the most workers that step the reducers of a channel */
    INTRA_NOTIFY_WARPS = 4,
};
enum intra_word { INTRA_START, INTRA_END, INTRA_TAIL, INTRA_HEAD, INTRA_WORDS };

struct intra_rank;

struct intra_notify {
    struct fabric_worker worker;
    struct intra_rank *rank;
    const uint8_t *program; /* the stages that remain */
    struct ht_barrier barrier;
    uint32_t peer; /* the next peer that gets the counts */
    enum ht_phase phase;
};

/* The producer of a ring.  In dispatch it sends a channel's tokens to a rank.  In combine it sends a channel's rows
 * back to the rank that they came from. */
struct intra_sender {
    struct fabric_worker worker;
    struct intra_rank *rank;
    uint32_t channel;
    struct ht_ring ring;
    uint32_t count, chunk, first; /* slots to send; slots of a chunk; place of the first token (dispatch), or the first
                                   * row (combine) */
    uint32_t announced;           /* dispatch: how many of the words start and end have been sent */
    uint32_t scanned, scan_end;   /* dispatch: the next token to be scanned, and the end of the scan */
};

struct intra_receiver {
    struct fabric_worker worker;
    struct intra_rank *rank;
    uint32_t channel, source;
    bool known; /* start and end have come */
    uint32_t head, published, count;
};

struct intra_rank {
    struct ht_rank ht;
    uint64_t ring_offset, ring_bytes;           /* offset of the first ring; bytes of a ring */
    uint32_t *channel_row, *channel_count;      /* [source][channel] where in recv_x the rows begin, and how many
                                                 * there are */
    struct site_given send_row[2], receive_row; /* dispatch's sizes; send_row[1] is for rows that another sender has
                                                 * already read */
    struct site_given return_row;               /* combine's sizes */
    struct intra_notify notify;
    struct intra_sender *sender;     /* [channel][rank] */
    struct intra_receiver *receiver; /* [channel][rank] */
    struct ht_reducer *reducer;      /* [channel][group] */
    struct ht_head_keeper *keeper;   /* [channel] */
};

static inline uint32_t intra_pair(const struct intra_rank *r, uint32_t channel, uint32_t peer)
{
    return channel * r->ht.g.ranks + peer;
}
static inline uint32_t intra_word(const struct intra_rank *r, enum intra_word kind, uint32_t channel, uint32_t peer)
{
    return r->ht.g.ranks + (uint32_t)kind * r->ht.g.channels * r->ht.g.ranks + intra_pair(r, channel, peer);
}
static inline uint32_t intra_word_done(const struct intra_rank *r, uint32_t channel, uint32_t group)
{
    return intra_word(r, INTRA_WORDS, 0, 0) + channel * INTRA_GROUPS + group;
}
static inline uint64_t intra_ring_offset(const struct intra_rank *r, uint32_t channel, uint32_t producer)
{
    return r->ring_offset + intra_pair(r, channel, producer) * r->ring_bytes;
}

void intra_dispatch_launch(struct intra_rank *r);
void intra_combine_launch(struct intra_rank *r);
/* moe_ht_intra_sender.c: prepares the producer for a channel and a peer.  `chunks` also has the number of the ring's
 * slots. */
void intra_sender_init(struct intra_rank *r, struct intra_sender *s, uint32_t channel, uint32_t peer,
                       const struct moe_chunks *chunks);
/* Charges the worker for a read of the ring's head.  Must be called once for each chunk. */
void intra_sender_peek(struct intra_sender *s);

#endif
