/* fault.h - the faults of --fault: edits of the machine's graph, of its transport, of the ranks' speeds. */
#ifndef MODELS_PREDICT_FAULT_H
#define MODELS_PREDICT_FAULT_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include "models/hardware/machine/graph.h"
#include "models/hardware/machine/transport.h"

struct fault_target {
    struct graph *graph;
    struct transport *transport;
    uint32_t ranks, *slow; /* as in world_options */
};

/* Makes the edits of a text of faults.  They are divided by '|', each "WHAT:WHERE EDIT":
 *     nic:n1.g3 rate=0.5      the NICs that GPU 3 of node 1 uses run at half their rate; nic:n1.nic3 names one NIC
 *     link:leaf0-spine1 down  the link between these two parts is cut in both directions
 *     rank:5 slow=2           the GPU of rank 5 takes twice as long, in addition to other slowdowns
 *     qp: one                 one QP to each peer
 *     nics: all-on=0          all GPUs of a node use its NIC 0
 *     gdrcopy: off            threads of the host read GPU memory without GDRCopy
 * NICs and links both take rate=FACTOR and down.  text NULL: there are no faults.  False and *error for a part that
 * does not exist, or if no path remains. */
bool fault_apply(const char *text, const struct fault_target *target, GError **error);

#endif
