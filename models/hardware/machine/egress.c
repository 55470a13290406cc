/* egress.c - even shares of the links out of a GPU; see egress.h. */
#include "models/hardware/machine/egress.h"

#include <assert.h>

static uint64_t left_ps(const struct egress *e, uint32_t cpc) { return e->cpc[cpc].asked_ps - e->cpc[cpc].sent_ps; }

/* The least remaining link time of any CPC that has bytes to send, except `but`.  UINT64_MAX: there is no such CPC. */
static uint64_t least_left_ps(const struct egress *e, uint32_t but)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < e->cpcs; i++)
        if (i != but && left_ps(e, i) && left_ps(e, i) < least) least = left_ps(e, i);
    return least;
}

/* Lets each active CPC send for each_ps. */
static void send_each(struct egress *e, uint64_t each_ps)
{
    uint32_t active = 0;
    for (uint32_t i = 0; i < e->cpcs; i++) {
        if (!left_ps(e, i)) continue;
        e->cpc[i].sent_ps += each_ps;
        active += left_ps(e, i) > 0;
    }
    e->done_ps += each_ps * e->active;
    e->active = active;
}

static void advance(struct egress *e, uint64_t now_ps)
{
    while (e->active && e->done_ps < now_ps) {
        const uint64_t each_ps = (now_ps - e->done_ps) / e->active, least_ps = least_left_ps(e, UINT32_MAX);
        if (!each_ps) return; /* less than a picosecond for each CPC; the next call counts it */
        send_each(e, each_ps < least_ps ? each_ps : least_ps);
    }
    if (!e->active) e->done_ps = now_ps;
}

uint64_t egress_ask(struct egress *e, uint32_t cpc, uint64_t now_ps, uint64_t link_ps)
{
    assert(cpc < e->cpcs);
    advance(e, now_ps);
    if (link_ps && !left_ps(e, cpc)) e->active++;
    return e->cpc[cpc].asked_ps += link_ps;
}

enum { LOOKS = 8 }; /* a waiting store asks again after at least 1/LOOKS of its remaining time */

uint64_t egress_look(struct egress *e, uint32_t cpc, uint64_t mark, uint64_t now_ps)
{
    assert(cpc < e->cpcs && mark <= e->cpc[cpc].asked_ps);
    advance(e, now_ps);
    if (e->cpc[cpc].sent_ps >= mark) return 0;
    const uint64_t own_ps = mark - e->cpc[cpc].sent_ps, least_ps = least_left_ps(e, cpc);
    const uint64_t until_ps = least_ps < own_ps / LOOKS ? own_ps / LOOKS : least_ps;
    return now_ps + 1 + (own_ps < until_ps ? own_ps : until_ps) * e->active;
}

/* Clusters of two blocks take the pairs of SMs in order.  Without clusters, each pair of a round takes one block, and
 * then each takes a second one. */
void egress_place(const struct cluster_cpcs *cpcs, uint32_t sms, bool paired, uint8_t *sm_cpc)
{
    assert(cpcs->pairs > 0);
    for (uint32_t sm = 0, first = 0; sm < sms;) {
        uint32_t end = first + 1;
        while (!paired && end < cpcs->pairs && cpcs->round[end] == cpcs->round[first]) end++;
        for (uint32_t block = 0; block < 2; block++)
            for (uint32_t pair = first; pair < end && sm < sms; pair++) sm_cpc[sm++] = cpcs->cpc[pair];
        first = end % cpcs->pairs; /* blocks beyond the number of SMs start again at the first pair */
    }
}
