/* link.h - servers: ports with one clock, and links of a graph while a world runs.
 *
 * A port serves first come, first served.  One time describes it: when it will be free.  A link is a port with a rate
 * and a latency, and bytes queue before it.  Bytes cut through: the first byte goes on as soon as the link takes it. */
#ifndef MODELS_HARDWARE_LINK_H
#define MODELS_HARDWARE_LINK_H

#include <stdbool.h>
#include <stdint.h>
#include "sim/units.h"

static inline uint64_t later(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* A server that takes work first come, first served. */
struct port {
    uint64_t free_ps;        /* when all work asked of it so far will be done */
    uint64_t busy_ps, bytes; /* time busy and bytes served so far; SMs count since the launch, links since the program
                              * began */
};

/* Asks at now_ps for service_ps of the server's time.  Returns when that work is done. */
static inline uint64_t port_reserve(struct port *p, uint64_t now_ps, uint64_t service_ps, uint64_t size_bytes)
{
    p->free_ps = later(p->free_ps, now_ps) + service_ps;
    p->busy_ps += service_ps;
    p->bytes += size_bytes;
    return p->free_ps;
}

/* A rate in picoseconds a byte, with 20 binary places, so that operations need no division. */
typedef uint64_t rate_q20;
static inline rate_q20 rate_make(uint64_t rate_bps)
{
    return rate_bps ? (rate_q20)(((unsigned __int128)8 * PS_PER_S << 20) / rate_bps) : 0;
}
static inline uint64_t rate_time(rate_q20 rate, uint64_t size_bytes)
{
    return (uint64_t)(((unsigned __int128)rate * size_bytes + ((1u << 20) - 1)) >> 20);
}

/* The times before free_ps at which a link will be idle, soonest first.  A link is idle between bytes that are
 * planned but have not arrived.  Other bytes that arrive sooner may still use these times. */
struct idle {
    uint64_t from_ps, to_ps;
};
struct idles {
    struct idle *idle; /* ring buffer */
    uint32_t first, count, max;
};

struct link_state {
    struct port port;
    rate_q20 rate; /* 0: never the limit */
    uint64_t latency_ps;
    uint64_t wait_max_ps; /* its buffer's size, as time at its rate; UINT64_MAX: unlimited */
    struct idles *idles;  /* NULL: bytes come in the order in which they are planned */
};

/* When the first and the last of some bytes reach the next link of their route. */
struct crossing {
    uint64_t head_ps, tail_ps;
};

/* Sends bytes over one link, as a passage of that link alone would.  The link has no idle times and an unlimited
 * buffer.  Sets c to when the bytes reach the link behind it. */
static inline void link_cross(struct link_state *s, uint64_t size_bytes, struct crossing *c)
{
    const uint64_t start_ps = later(c->head_ps, s->port.free_ps);
    const uint64_t end_ps = port_reserve(&s->port, c->head_ps, rate_time(s->rate, size_bytes), size_bytes);
    c->head_ps = start_ps + s->latency_ps;
    c->tail_ps = later(c->tail_ps, end_ps) + s->latency_ps;
}

/* The passage of some bytes over several links, one after another.  The times at all links are planned at once. */
enum { PASSAGE_LINKS_MAX = 24 };
struct passage {
    uint32_t count;
    uint32_t link[PASSAGE_LINKS_MAX];
    uint64_t start_ps[PASSAGE_LINKS_MAX]; /* when each link takes the first byte */
    uint64_t ready_ps[PASSAGE_LINKS_MAX]; /* when each link could take it if there were always room after the link */
    uint64_t now_ps;                      /* when it is planned */
    bool hold_alone;                      /* bytes that find no room wait at the sender, where they block no link for
                                           * others */
    uint64_t push_ps;                     /* how long the sender before the first link must hold the bytes back */
    uint64_t wait_ps;                     /* the longest time that bytes wait before one of the links */
};

/* Plans the passage of size_bytes.  The first byte reaches the first link at head_ps.  If a link's buffer is full, the
 * link before it holds the bytes.  If the buffer of that link fills, too, the link before that one holds them, and so
 * on back to the sender. */
void passage_plan(const struct link_state *state, struct passage *p, uint64_t size_bytes, uint64_t head_ps);
/* How many bytes wait before the link at `place` of a planned passage when its first byte arrives there; 0 if the link
 * has no rate. */
uint64_t passage_queue_bytes(const struct link_state *state, const struct passage *p, uint32_t place, uint64_t head_ps);
/* Sends size_bytes over the planned links.  The last byte reaches the first link at tail_ps.  Returns when the last
 * byte has passed the last link. */
uint64_t passage_take(struct link_state *state, const struct passage *p, uint64_t size_bytes, uint64_t tail_ps);

void idles_free(struct idles *idles);

#endif
