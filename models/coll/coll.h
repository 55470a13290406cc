/* coll.h - kernels other than dispatch and combine: all-to-allv, all-gather, reduce-scatter, all-reduce and
 * point-to-point, as a family of models/kernel.h.
 *
 *     alltoallv   every message of a list goes from its source to its target (traces/edges.h).  On each rank one worker
 *                sends by RDMA, in order, with a limited number of messages in flight.  One counter on each rank
 *                counts the messages that have come by RDMA.  As many workers as the kernel has SMs store the
 *                messages that go by NVLink.  Within a node NCCL's sends and receives may do all of this instead.
 *    allgather   every rank gets every rank's block.  hybrid: each rank puts its block to the rank at its own place
 *                on each other node.  It stores its own block, and those that it gets, to the peers of its node.
 *                ring: NCCL's ring; or a ring within a node, where each rank's streams copy blocks to the next rank.
 *                leader: one rank of each node gets the blocks of the other nodes and copies all blocks to its peers,
 *                by streams.
 *    reducescatter  every rank gets the sum of what all ranks have for it, by NCCL's rings.
 *    allreduce   every rank gets the sum of all ranks' bytes, by NCCL's rings or trees, in chunks.
 *                NCCL's all-gather and reduce-scatter also take blocks of different sizes.
 *    ag_rs       what engines without a kernel for dispatch and combine run instead: an all-gather of every rank's
 *                tokens, and a reduce-scatter of the experts' results.
 *    p2p         messages between ranks i and i + ranks / 2.  A kernel issues puts, gets and puts with a signal, one
 *                after another or as streams.  Or the host issues one put: by a call, by a copy engine, or by NCCL.
 *
 * The first phase is "sync", a barrier.  Without it a rank could write where another still reads.  ag_rs needs no
 * barrier: its bytes go through buffers that say which places are free.  Then come the kernel's own phases.
 *
 * If compute_ps is not 0, more phases follow.  "compute" does arithmetic for compute_ps on SMs of its own.
 * "overlap_sync" is a barrier.  Then the kernel's phases run once more ("..._overlap"), while the arithmetic runs again
 * on its SMs.  Needs libc and the seam, nothing else. */
#ifndef MODELS_COLL_COLL_H
#define MODELS_COLL_COLL_H

#include "models/kernel.h"
#include "traces/edges.h"

enum coll_kernel { COLL_ALLTOALLV, COLL_ALLGATHER, COLL_REDUCESCATTER, COLL_ALLREDUCE, COLL_AG_RS, COLL_P2P };
enum coll_algorithm { COLL_CHOSEN, COLL_HYBRID, COLL_RING, COLL_TREE, COLL_LEADER }; /* CHOSEN: NCCL's tuner decides */
enum coll_protocol { COLL_ANY, COLL_LL, COLL_LL128, COLL_SIMPLE };                   /* ANY: NCCL's tuner decides */
enum coll_issue { COLL_BY_KERNEL, COLL_BY_HOST, COLL_BY_COPY, COLL_BY_NCCL };

/* What NCCL's search finds about a machine, and what its tuner knows of it. */
struct coll_nccl {
    uint32_t found;    /* rings that the search finds */
    uint32_t channels; /* the most channels of a kernel; each has an SM */
    uint64_t bus_bps;  /* bits per second of all rings together */
    bool before_229;   /* NCCL is older than 2.29.2 */
    bool mesh;         /* each pair of a node's ranks has a link of its own, and the library is RCCL */
    bool blackwell;    /* the GPUs are Blackwell's, for which NCCL's tuner has other numbers */
    bool split_lines;  /* NICs are behind the CPU, which may split the write of a line in two; NCCL then does not choose
                        * LL128 between nodes */
};

struct coll_options {
    enum coll_kernel kernel;
    uint32_t ranks, ranks_per_node;
    uint32_t num_sms;              /* SMs that the kernel uses, from SM 0 on */
    uint32_t in_flight;            /* the most messages that a worker has in flight by RDMA */
    enum coll_algorithm algorithm; /* of allgather and allreduce */
    enum coll_protocol protocol;   /* of NCCL's rings and trees */
    struct coll_nccl nccl;
    uint64_t size_bytes;    /* bytes of a rank's block; allreduce: of all that a rank has; p2p: of one message */
    uint64_t combine_bytes; /* ag_rs: bytes of a rank's result */
    const uint32_t *rows;   /* [ranks] NCCL's allgather, reducescatter, ag_rs: rows of each rank's block, if blocks have
                             * different sizes; size_bytes and combine_bytes are of a row then.  They must outlive the
                             * job.  NULL: a block is one row */
    uint32_t messages;      /* p2p: messages of each phase; 1 if a host issues them */
    enum coll_issue issue;  /* who issues p2p's messages.  COLL_BY_COPY also makes allgather use streams.  COLL_BY_NCCL
                             * also makes alltoallv use NCCL's sends and receives */
    bool process;           /* alltoallv, p2p: a process of the host calls MPI; no kernel runs */
    bool own_part;          /* alltoallv with messages of one size: a rank also copies what it has for itself.  MPI
                             * makes this copy first if the messages are in GPU memory */
    bool sockets;           /* allreduce: NCCL sends by sockets between nodes */
    uint64_t compute_ps;    /* how long the arithmetic takes on each of its SMs; 0: there is none */
    uint32_t compute_sm_first, compute_sms;
};

/* Returns NULL if the kernels can run these options.  Else writes to text the option's name, what was expected
 * and what was found, and returns text. */
const char *coll_options_refuse(const struct coll_options *options, const struct edges *edges, char *text,
                                size_t text_size);

struct coll_job {
    struct kernel_job job;
    struct coll_options options;
    const struct edges *edges;     /* the messages of alltoallv; else NULL */
    const struct routing *routing; /* ag_rs: the tokens, which only records tell; else NULL */
};
/* Copies options.  edges must outlive the job. */
void coll_job_init(struct coll_job *job, const struct coll_options *options, const struct edges *edges);

#endif
