/* world.h - the simulated world: GPUs, NVLink, NICs and switches of a cluster in virtual time.
 *
 * A world is one struct fabric (models/fabric.h) for each rank, over shared parts.  A part is a port: a server that
 * takes requests first come, first served.  One clock describes it: the time at which it will be free.
 *
 *     worker ──store──► SM port ─► NVLink egress ─► NVLink ingress ─► peer's memory, word
 *        │                                                  (the worker is busy until the slowest is done)
 *        └──put/signal──► QP ─► NIC transmit ─► network ─► NIC receive ─► peer's memory, word
 *                                (the worker is busy while it posts; a NIC event sends the next request)
 *
 * A store costs no event.  A put costs one (its sending), a signal by RDMA two, and a step of a worker one.  A signal
 * by NVLink costs one event in a world of several NVLink domains, and none in a world of one.  All signals that a step
 * sends at one time are one event.
 *
 * The world knows the cluster's parameters and models/fabric.h.  It knows no protocol. */
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
    const uint32_t *slow;      /* [ranks] the time of a GPU's own work in 1024ths of the normal time; 0: normal.
                                * NULL: all are normal */
    const struct graph *graph; /* the cluster's graph with this number of nodes; must outlive the world.  NULL: the
                                * world builds it */
    const struct transport *transport; /* NULL: as the cluster's [nic] says */
    const struct loops *loops;         /* must outlive the world; NULL: loops_shipped() */
    struct timeline *timeline;         /* where to record operations (sim/timeline.h), or NULL */
    bool usage;                        /* record how busy parts are over time: world_usage() */
    struct progress *progress;         /* counts events as they run (sim/progress.h), or NULL */
    bool agenda;                       /* world_run_agenda() will be called (agenda.h) */
    uint32_t threads;                  /* the most threads that run it; 0: one.  The number does not change results */
};

/* Kinds of parts. */
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
    WORLD_ATOMICS, /* a NIC's atomics; only world_busiest() reports atomics and links */
    WORLD_LINK,    /* between switches, or of a node's PCIe */
    WORLD_RESOURCE_COUNT
};
const char *world_resource_name(enum world_resource resource); /* "nvlink_egress", ... */

/* What a part did during one launch. */
struct world_use {
    uint64_t busy_ps; /* busy time of the port; of SMs: of the busiest one; of cores: the mean over the node's */
    uint64_t bytes;   /* bytes that crossed it, headers included */
    uint64_t late_ps; /* how long, at most, the port is still busy with the kernel's bytes after the kernel's end */
};

enum { WORLD_SLOW_ONE = 1024 };

struct world_result {          /* of one rank and kernel */
    uint64_t time_ps;          /* kernel duration */
    uint64_t launch_ps;        /* the part of it that is not its workers' time */
    uint64_t let_ps;           /* from the kernel's begin until the next kernel may be launched; at most time_ps */
    uint64_t counts_ps;        /* from the kernel's begin until the host knows how many rows come; 0: equal to let_ps */
    uint64_t wait_ps;          /* how long the rank waits, before the kernel, for its first turn on a core of a host */
    uint64_t begin_ps, end_ps; /* the launch, and the end of its last worker, on the world's clock */
    uint64_t arrived_ps;       /* when data or a change of a word last came to the rank, on the world's clock */
    struct world_use use[WORLD_RESOURCE_COUNT];
};

/* How many nodes hold the ranks, and how many GPUs of each are used. */
uint32_t world_nodes(const struct cluster *cluster, uint32_t ranks, uint32_t ranks_per_node, uint32_t *gpus);

/* Returns NULL if the cluster has no valid graph.  The cluster must outlive the world. */
struct world *world_new(const struct cluster *cluster, const struct world_options *options);
void world_free(struct world *world);

struct fabric *world_fabric(struct world *world, uint32_t rank);

/* From now on the rank's GPU takes slow / WORLD_SLOW_ONE times as long for its work as a GPU that is not slowed.
 * world_options.slow gives the first value.  While the world runs, only the rank's own agenda may call this. */
void world_slow_set(struct world *world, uint32_t rank, uint32_t slow);

/* Why only one thread runs the world, however many threads it may use.  NULL: each node can have a thread of its
 * own. */
const char *world_why_one_thread(const struct world *world);

/* Kernels that every rank runs one after another.  A rank launches its next kernel as soon as its own last one has
 * ended, and does not wait for other ranks. */
struct world_program {
    uint32_t kernels;
    /* Prepares a rank's kernel and declares its watches.  Called when the rank's previous kernel has ended.  The
     * world's threads may call it for several ranks at a time. */
    void (*launch)(void *context, uint32_t rank, uint32_t kernel, struct fabric_worker ***worker,
                   uint32_t *worker_count);
    /* Called when the world has read the list of workers that launch() gave, which may then be freed.  NULL: nothing is
     * called. */
    void (*launched)(void *context, uint32_t rank);
    void *context;
    const uint64_t *arrival_ps;  /* [ranks] how long after the start each rank launches its first kernel; NULL: all
                                  * at once */
    struct world_result *result; /* [kernels][ranks] */
};
/* Runs all kernels of a program to the end.  Returns false if one hangs: workers wait, but no event is left.  Then
 * *kernel is that kernel, and text says which rank's worker waits, and for what.  The program must stay until the next
 * run. */
bool world_run_program(struct world *world, const struct world_program *program, uint32_t *kernel, char *text,
                       size_t text_size);

/* Records a kernel with result[ranks] in the world's timeline, if it has one. `name` is kept as a pointer. */
void world_timeline_note(const struct world *world, const char *name, const struct world_result *result);
/* Records in the world's timeline, which must exist, that a rank's worker has waited for what the text says, and
 * what ended the wait.  If no other kernel has run since, world_timeline_note() then also records the kernel's
 * critical path. */
void world_timeline_wait(const struct world *world, uint32_t rank, uint32_t worker, uint64_t begin_ps, uint64_t end_ps,
                         const char *text);

/* What a part did while the slowest rank ran a kernel of the last program.  The slowest rank is the one whose kernel
 * takes longest from its first step to its last.  Bytes of ranks whose own kernels have ended count, too.  SMs and
 * warps that post count while their own ranks run. */
struct world_part {
    char name[128];     /* "NIC of rank 0, sending", "leaf0-spine1" */
    uint64_t busy_ps;   /* never more than the slowest rank's kernel takes */
    uint64_t bytes;     /* bytes that crossed it meanwhile, headers included; 0: it moves none */
    uint64_t rate_bps;  /* the rate at which its bytes crossed it, faults included; 0: its work has no single rate */
    uint64_t usual_bps; /* the rate at which they would cross most parts of its kind; 0: for a link */
    double over_mean;   /* its bytes (or its time, if it moves none) over the mean of all parts of its kind; 0: a
                         * link */
    double held;        /* the share of its operations' time that they wait for it alone; below 0: not known, as for all
                         * but NVLink */
};

/* The busiest part of a kind.  False: no part of the kind was busy. */
bool world_busiest(const struct world *world, uint32_t kernel, enum world_resource kind, struct world_part *part);

/* How busy a kind of part was during the last program, in a world that records it.  Fills share[] with shares (0 to 1),
 * one for each of equal intervals from the program's begin on; the last interval may be shorter.  A share is the mean
 * over the parts that did anything.  Returns the number of intervals, or 0 if no part of that kind did anything. */
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
/* When all operations so far of the stepped worker are done; between steps: now. */
uint64_t world_busy_until_ps(const struct fabric *f);

#endif
