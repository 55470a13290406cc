/* egress.h - a GPU's NVLink egress, which its CPCs share evenly.
 *
 * The SMs of a GPU send through CPCs of up to three pairs of SMs.  While more is asked for than the links carry, each
 * CPC that has something to send gets an equal share, however many of its SMs are at work (bulk copies on H200s: 15
 * GB/s for a CPC of three pairs as for one of two).  So a kernel whose CPCs have different numbers of SMs at work ends
 * late: the crowded CPCs are left over, and they alone do not fill the links.
 *
 * A share is a fluid, counted in picoseconds of the links' whole rate.  What is asked of a CPC goes out in the order of
 * asking.  When it is out depends on what others will ask for, so a store that waits looks again (egress_look). */
#ifndef MODELS_HARDWARE_EGRESS_H
#define MODELS_HARDWARE_EGRESS_H

#include <stdint.h>
#include "models/cluster.h"

struct egress {
    struct {
        uint64_t asked_ps, sent_ps;
    } cpc[CLUSTER_CPCS_MAX];
    uint32_t cpcs, active; /* how many there are; how many have something to send */
    uint64_t done_ps;      /* until when sent_ps is counted */
};

/* Asks a CPC for so much time of the links.  Returns a mark for egress_look(). */
uint64_t egress_ask(struct egress *e, uint32_t cpc, uint64_t now_ps, uint64_t link_ps);

/* 0: all up to the mark is out.  Else when to look again, later than now: when it will be out if nobody asks for more,
 * or before, when another CPC may have run empty. */
uint64_t egress_look(struct egress *e, uint32_t cpc, uint64_t mark, uint64_t now_ps);

/* The CPC of each SM [sms] of a kernel on so many SMs, by number of thread block; paired: two blocks a cluster. */
void egress_place(const struct cluster_cpcs *cpcs, uint32_t sms, bool paired, uint8_t *sm_cpc);

#endif
