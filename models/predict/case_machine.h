/* case_machine.h - the machine that a case runs on: a cluster with the case's backend, slow ranks, faults and loops. */
#ifndef MODELS_PREDICT_CASE_MACHINE_H
#define MODELS_PREDICT_CASE_MACHINE_H

#include "models/case.h"
#include "models/hardware/machine/graph.h"
#include "models/hardware/machine/transport.h"
#include "models/kernels/loops.h"

struct case_machine {
    struct transport transport;
    struct graph *graph;
    struct loops *loops; /* NULL: the shipped loops */
    uint32_t *slow;      /* [ranks] as in world_options */
};

/* Fills a zeroed machine for a job on the cluster.  `transport` takes the backend's place, if it is not NULL.  False
 * and *error if the cluster cannot carry the job, or has not what the case names. */
bool case_machine_make(struct case_machine *m, const struct case_options *c, const struct cluster *cluster,
                       const struct kernel_job *job, const struct transport *transport, GError **error);
void case_machine_clear(struct case_machine *m);

#endif
