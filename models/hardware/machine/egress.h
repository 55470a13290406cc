/* egress.h - a GPU's NVLink egress, which its CPCs share evenly.
 *
 * The SMs of a GPU send through CPCs of up to three pairs of SMs.  While the SMs ask for more than the links carry,
 * each CPC with bytes to send gets an equal share, however many of its SMs send.  (Bulk copies on H200s: 15 GB/s for
 * a CPC of three pairs, and 15 GB/s for a CPC of two.)  So a kernel whose CPCs have different numbers of busy SMs
 * ends late: the crowded CPCs finish last, and they alone do not fill the links.
 *
 * Bytes are modelled as a fluid and counted as the time that they take at the links' whole rate.  A CPC sends its bytes
 * in the order of its requests.  Later requests of other CPCs can delay them, so a store that waits asks again
 * (egress_look). */
#ifndef MODELS_HARDWARE_EGRESS_H
#define MODELS_HARDWARE_EGRESS_H

#include <stdint.h>
#include "models/cluster.h"

struct egress {
    struct {
        uint64_t asked_ps, sent_ps;
    } cpc[CLUSTER_CPCS_MAX];
    uint32_t cpcs, active; /* all CPCs; the CPCs with bytes to send */
    uint64_t done_ps;      /* the time up to which sent_ps is computed */
};

/* Asks for link_ps of the links' time for a CPC.  Returns a mark for egress_look(). */
uint64_t egress_ask(struct egress *e, uint32_t cpc, uint64_t now_ps, uint64_t link_ps);

/* Returns 0 if everything up to the mark has been sent.  Otherwise returns a later time at which to ask again.  That is
 * when the mark will be sent if nobody asks for more.  It is earlier if another CPC may run out of bytes first. */
uint64_t egress_look(struct egress *e, uint32_t cpc, uint64_t mark, uint64_t now_ps);

/* Fills sm_cpc[sms] with the CPC of each thread block of a kernel on `sms` SMs.  paired: two blocks make a cluster. */
void egress_place(const struct cluster_cpcs *cpcs, uint32_t sms, bool paired, uint8_t *sm_cpc);

#endif
