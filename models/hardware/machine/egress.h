/* egress.h - a GPU's NVLink egress, which its CPCs share evenly.
 *
 * The SMs of a GPU send through CPCs of up to three pairs of SMs.  While more is asked for than the links carry, each
 * CPC with bytes to send gets an equal share, however many of its SMs send (bulk copies on H200s: 15 GB/s for a CPC of
 * three pairs, and for one of two).  So a kernel whose CPCs have different numbers of SMs at work ends late: the
 * crowded CPCs are left over, and they alone do not fill the links.
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
    uint32_t cpcs, active; /* CPCs; those that have bytes to send */
    uint64_t done_ps;      /* the time up to which sent_ps is computed */
};

/* Asks for so much time of the links for a CPC.  Returns a mark for egress_look(). */
uint64_t egress_ask(struct egress *e, uint32_t cpc, uint64_t now_ps, uint64_t link_ps);

/* 0: everything up to the mark has been sent.  Else when to look again, later than now: when it will have been sent if
 * no more is asked for, or earlier, when another CPC may have nothing left. */
uint64_t egress_look(struct egress *e, uint32_t cpc, uint64_t mark, uint64_t now_ps);

/* The CPC of each thread block [sms], in a kernel on so many SMs; paired: two blocks in a cluster. */
void egress_place(const struct cluster_cpcs *cpcs, uint32_t sms, bool paired, uint8_t *sm_cpc);

#endif
