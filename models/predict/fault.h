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
 *     nic:n1.g3 rate=0.5      half the rate for the NICs that GPU 3 of node 1 uses; or nic:n1.nic3, one NIC; or down
 *     link:leaf0-spine1 down  no link between these two parts; or rate=0.5, in both directions
 *     rank:5 slow=2           the GPU of rank 5 takes twice as long, in addition to other slowdowns
 *     qp: one                 one QP to each peer
 *     nics: all-on=0          all GPUs of a node use its NIC 0
 *     gdrcopy: off            threads of the host read GPU memory without GDRCopy
 * text NULL: there are no faults.  False and *error for a part that does not exist, or if no path remains. */
bool fault_apply(const char *text, const struct fault_target *target, GError **error);

#endif
