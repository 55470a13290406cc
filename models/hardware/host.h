/* host.h - a core of a host, on which ranks that are processes take turns.  Private to models/hardware. */
#ifndef MODELS_HARDWARE_HOST_H
#define MODELS_HARDWARE_HOST_H

#include <stdint.h>
#include "models/hardware/link.h"
#include "sim/sim.h"

struct world_rank;

/* A core of a host, and whose turn there is. */
struct core {
    struct port port;
    struct sim_event event;         /* the step that has it is done: it is free, or somebody's next */
    struct world_rank *rank;        /* whose turn it is, or was last */
    uint64_t slice_end_ps;          /* when others come first */
    uint64_t received_ps;           /* when it is done with what came in last */
};

#endif
