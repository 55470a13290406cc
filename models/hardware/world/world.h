/* world.h - the simulated world: GPUs, NVLink, NICs and switches of a cluster in virtual time.
 *
 * A world is one struct fabric (models/fabric.h) for each rank, over shared parts.  A part is a port: a server that
 * takes requests first come, first served.  One clock describes it: the time at which it will be free.
 *
 *    worker ──store──► SM port ─► NVLink egress ─► NVLink ingress ─► peer's memory, word
 *       │                                                  (the worker is busy until the slowest let go)
 *       └──put/signal──► QP ─► NIC transmit ─► network ─► NIC receive ─► peer's memory, word
 *                               (the worker is busy for the posting; a NIC event sends the next request)
 *
 * A store costs no event, a put one (its sending), a signal by RDMA two, and a step of a worker one.  A signal by
 * NVLink costs one event where there are NICs, else none; what a step signals at one time is one event.
 *
 * The world knows the cluster's parameters and models/fabric.h; it knows no protocol. */
#ifndef MODELS_HARDWARE_WORLD_H
#define MODELS_HARDWARE_WORLD_H

#include <stdbool.h>
#include <stdint.h>
#include "models/cluster.h"
#include "models/fabric.h"

struct world;
struct graph;
struct transport;
struct timeline;
struct loops;
struct progress;

struct world_options {
    uint32_t ranks;
    uint32_t ranks_per_node;
    bool nvlink_disabled;
    bool payload; /* store and move all bytes */
    struct fabric_needs needs;
    const uint32_t *slow;      /* [ranks] time of a GPU's own work in 1024ths of the normal; 0: normal; or NULL */
    const struct graph *graph; /* of the cluster, with as many nodes; must outlive the world.  NULL: built here */
    const struct transport *transport; /* NULL: as the cluster's [nic] says */
    const struct loops *loops;         /* must outlive the world; NULL: loops_shipped() */
    struct timeline *timeline;         /* where to record operations (sim/timeline.h), or NULL */
    bool usage;                        /* keep how busy parts are over time: world_usage() */
    struct progress *progress;         /* that events advance (sim/progress.h), or NULL */
    bool agenda;                       /* world_run_agenda() will be called (agenda.h) */
    uint32_t threads;                  /* that run it, at most; 0: one.  Results are the same for any number */
};

/* What a part did during one launch. */
enum world_resource {
    WORLD_SM,
    WORLD_HBM,
    WORLD_NVLINK_EGRESS,
    WORLD_NVLINK_INGRESS,
    WORLD_NIC_TX,
    WORLD_NIC_RX,
    WORLD_POSTING,
    WORLD_RECEIVING,
    WORLD_CORE,
    WORLD_ATOMICS, /* of a NIC; this and links are known by world_busiest() alone */
    WORLD_LINK,    /* between switches, or of a node's PCIe */
    WORLD_RESOURCE_COUNT
};
const char *world_resource_name(enum world_resource resource); /* "nvlink_egress", ... */

struct world_use {
    uint64_t busy_ps; /* of the port; SMs: of the busiest one; cores: the mean over the node's */
    uint64_t bytes;   /* bytes that crossed it, headers included */
    uint64_t late_ps; /* for how long after the kernel's end it is busy for it at most: what was sent goes on by
                       * itself */
};

enum { WORLD_SLOW_ONE = 1024 };

struct world_result {          /* of one rank and kernel */
    uint64_t time_ps;          /* kernel duration */
    uint64_t let_ps;           /* from its begin until the next kernel may be launched; at most time_ps */
    uint64_t counts_ps;        /* from its begin until the host knows how many rows come; 0: as let_ps */
    uint64_t wait_ps;          /* before it, for the first turn on a core of a host */
    uint64_t begin_ps, end_ps; /* on the world's clock: of the launch, of its last worker */
    uint64_t arrived_ps;       /* on that clock: when data or a change of a word came to the rank last */
    struct world_use use[WORLD_RESOURCE_COUNT];
};

/* How many nodes hold the ranks, and how many GPUs of each are used. */
uint32_t world_nodes(const struct cluster *cluster, uint32_t ranks, uint32_t ranks_per_node, uint32_t *gpus);

/* NULL when no graph can be made of the cluster.  The cluster must outlive the world. */
struct world *world_new(const struct cluster *cluster, const struct world_options *options);
void world_free(struct world *world);

struct fabric *world_fabric(struct world *world, uint32_t rank);

/* From now on the rank's GPU takes `slow` for work that takes other GPUs WORLD_SLOW_ONE, as world_options.slow says at
 * first.  Called by the rank's own agenda while the world runs. */
void world_slow_set(struct world *world, uint32_t rank, uint32_t slow);

/* Why one thread runs the world, however many there are; NULL: each node can have its own. */
const char *world_why_one_thread(const struct world *world);

/* Runs one kernel on every rank to the end, all launched at the same time; result[ranks].  Returns false if the kernel
 * hangs: workers still wait, but no event is left.  Then text says which rank's worker waits for what. */
bool world_run(struct world *world, struct fabric_worker **const *worker, const uint32_t *worker_count,
               struct world_result *result, char *text, size_t text_size);

/* Kernels that every rank runs one after another.  A rank launches its next kernel as soon as its own last one has
 * ended, and does not wait for other ranks. */
struct world_program {
    uint32_t kernels;
    /* Prepares a rank's kernel and declares its watches.  Called when the rank's previous kernel has ended, by any of
     * the world's threads, but by one at a time. */
    void (*launch)(void *context, uint32_t rank, uint32_t kernel, struct fabric_worker ***worker,
                   uint32_t *worker_count);
    void *context;
    const uint64_t *arrival_ps;  /* [ranks] how long after the start each launches its first kernel; NULL: all 0 */
    struct world_result *result; /* [kernels][ranks] */
};
/* As world_run().  On failure *kernel is the kernel that cannot end.  The program must stay until the next run. */
bool world_run_program(struct world *world, const struct world_program *program, uint32_t *kernel, char *text,
                       size_t text_size);

/* Records a kernel, called name (kept as a pointer), in the world's timeline, if it has one; result[ranks]. */
void world_timeline_note(const struct world *world, const char *name, const struct world_result *result);
/* Records in the world's timeline, which it must have, that a rank's worker has waited for what the text says, and what
 * ended that.  Then world_timeline_note() records the critical path of the kernel, too, if no other has run since. */
void world_timeline_wait(const struct world *world, uint32_t rank, uint32_t worker, uint64_t begin_ps, uint64_t end_ps,
                         const char *text);

/* A part while the slowest rank ran a kernel of the last program: the one whose kernel took longest from its first step
 * to its last.  Bytes of ranks whose own kernels have ended count, too; SMs count while their own ranks run. */
struct world_part {
    char name[128];     /* "NIC of rank 0, sending", "leaf0-spine1" */
    uint64_t busy_ps;   /* never more than the slowest rank's kernel takes */
    uint64_t bytes;     /* that crossed it meanwhile, headers included; 0: it moves none */
    uint64_t rate_bps;  /* that they could cross it at, faults included; 0: its work has no one rate */
    uint64_t usual_bps; /* that of most parts of its kind; 0: says nothing here */
    double over_mean;   /* its bytes (its time if it moves none) over the mean of all parts of its kind; 0: a link */
};

/* The busiest part of a kind.  False where none was busy. */
bool world_busiest(const struct world *world, uint32_t kernel, enum world_resource kind, struct world_part *part);

/* How busy a kind of part was over the time of the last program, in a world that keeps it: shares (0 to 1) of equal
 * intervals one after another from its begin on, the last one perhaps shorter; the mean over the parts that did
 * anything.  Returns how many, 0 where none of that kind did. */
enum world_usage_kind {
    WORLD_USAGE_SM,
    WORLD_USAGE_HBM,
    WORLD_USAGE_NVLINK_EGRESS,
    WORLD_USAGE_NVLINK_INGRESS,
    WORLD_USAGE_NIC_TX,
    WORLD_USAGE_NIC_RX,
    WORLD_USAGE_LINK, /* between switches, or of a node's PCIe */
    WORLD_USAGE_CORE, /* of a host */
    WORLD_USAGE_KINDS
};
enum { WORLD_USAGE_MAX = 64 };
uint32_t world_usage(const struct world *world, enum world_usage_kind kind, double share[WORLD_USAGE_MAX + 1],
                     uint64_t *interval_ps);
const char *world_usage_name(enum world_usage_kind kind); /* "nvlink_egress", ... */

/* Events of the run; the looks of world_usage() are not counted. */
uint64_t world_event_count(const struct world *world);
/* When all operations so far of the worker that is being stepped are done; between steps: now. */
uint64_t world_busy_until_ps(const struct fabric *f);

#endif
