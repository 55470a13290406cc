/* moe_ht_intra_sender.c - the producer of a ring, for dispatch and combine within a node. */
#include "models/moe/moe_ht_intra.h"

void intra_sender_init(struct intra_rank *r, struct intra_sender *s, uint32_t channel, uint32_t peer,
                       const struct moe_chunks *chunks)
{
    const struct ht_geometry *g = &r->ht.g;
    *s = (struct intra_sender){ .rank = r, .channel = channel, .chunk = chunks->nvl_send };
    s->ring = (struct ht_ring){
        .offset = intra_ring_offset(r, channel, g->rank),
        .slots = chunks->nvl_recv,
        .peer = (uint16_t)peer,
        .tail_word = intra_word(r, INTRA_TAIL, channel, g->rank),
        .head_word = intra_word(r, INTRA_HEAD, channel, peer),
    };
}

/* On GPUs the head lies with the ring in the peer's memory, so the sender reads it across NVLink.  For the rank's own
 * ring this is a local load. */
void intra_sender_peek(struct intra_sender *s)
{
    const bool own = s->ring.peer == s->rank->ht.g.rank;
    ht_scan_here(&s->worker, own ? SITE_INTRA_HEAD_READ : SITE_INTRA_HEAD_PEEK, 1, 0);
}
