/* coll.c - the family's table of functions.  It decides which kernel runs and what the phases are, and it runs the
 * arithmetic.  Knows no kernel's memory or workers. */
#include <stdio.h>
#include "models/coll/coll_internal.h"

static const struct coll_kernel_ops *gather_of(const struct coll_options *o)
{
    if (o->algorithm == COLL_LEADER) return &coll_allgather_leader;
    if (o->issue == COLL_BY_COPY) return &coll_allgather_streams;
    return o->algorithm == COLL_HYBRID ? &coll_allgather : &coll_ring_gather;
}

static const struct coll_kernel_ops *ops_of(const struct coll_options *o)
{
    switch (o->kernel) {
    case COLL_ALLTOALLV: return o->issue == COLL_BY_NCCL ? &coll_nccl_messages : &coll_alltoallv;
    case COLL_ALLGATHER: return gather_of(o);
    case COLL_REDUCESCATTER: return &coll_reducescatter;
    case COLL_ALLREDUCE: return &coll_allreduce;
    case COLL_AG_RS: return &coll_ag_rs;
    case COLL_P2P: break;
    }
    return o->issue == COLL_BY_KERNEL ? &coll_p2p : &coll_p2p_issued;
}

static const struct coll_job *job_of(const struct kernel_job *job)
{
    return fabric_container_of(job, const struct coll_job, job);
}

static struct coll_rank *rank_of(const struct kernel_rank *rank)
{
    return fabric_container_of(rank, struct coll_rank, kernel);
}

const char *coll_options_refuse(const struct coll_options *o, const struct edges *edges, char *text, size_t text_size)
{
    if (o->ranks == 0 || o->ranks > UINT16_MAX) KERNEL_REFUSE("num-ranks: expected 1 to 65535, found %u", o->ranks);
    if (o->ranks_per_node == 0) KERNEL_REFUSE("ranks-per-node: expected at least 1, found 0");
    if (o->ranks > o->ranks_per_node && o->ranks % o->ranks_per_node)
        KERNEL_REFUSE("num-ranks: expected a multiple of ranks-per-node %u, found %u", o->ranks_per_node, o->ranks);
    if (o->num_sms == 0) KERNEL_REFUSE("num-sms: expected at least 1, found 0");
    if (o->nccl.channels == 0) KERNEL_REFUSE("num-sms: expected at least 1, found 0");
    if (o->in_flight == 0) KERNEL_REFUSE("in-flight: expected at least 1, found 0");
    if (o->compute_ps && o->compute_sms == 0) KERNEL_REFUSE("compute-sms: expected at least one SM, found none");
    if (o->compute_ps && !ops_of(o)->overlap)
        KERNEL_REFUSE("compute: expected a kernel that issues its puts, found a host's calls");
    const struct coll_kernel_ops *ops = ops_of(o);
    if (o->rows && ops != &coll_ring_gather && ops != &coll_reducescatter && ops != &coll_ag_rs)
        KERNEL_REFUSE("size: expected sizes by rank only of reducescatter and allgather by ring");
    if (o->kernel == COLL_ALLTOALLV && edges->ranks != o->ranks)
        KERNEL_REFUSE("matrix: expected num-ranks %u endpoints, found %u", o->ranks, edges->ranks);
    if (o->kernel == COLL_ALLGATHER && ops != &coll_ring_gather && !o->size_bytes)
        KERNEL_REFUSE("size: expected a block of at least 1 byte, found 0");
    return ops->refuse ? ops->refuse(o, edges, text, text_size) : NULL;
}

/* ---- phases ---- */

enum part { PART_SYNC, PART_KERNEL, PART_COMPUTE, PART_OVERLAP_SYNC, PART_OVERLAP };

static uint32_t own_phases(const struct coll_options *o)
{
    uint32_t count = 0;
    while (ops_of(o)->phase[count]) count++;
    return count;
}

/* Whether an iteration begins with a barrier.  ag_rs needs no barrier: all its bytes go through NCCL's links, and the
 * words of a link say which of its places are free. */
static bool begins_with_sync(const struct coll_options *o) { return o->kernel != COLL_AG_RS; }

/* The part of an iteration that a phase belongs to.  *own gets the phase's index among the kernel's own phases. */
static enum part part_of(const struct coll_options *o, uint32_t phase, uint32_t *own)
{
    const uint32_t count = own_phases(o);
    *own = 0;
    if (!begins_with_sync(o)) return *own = phase, PART_KERNEL;
    if (phase == 0) return PART_SYNC;
    if (phase <= count) return *own = phase - 1, PART_KERNEL;
    if (phase == count + 1) return PART_COMPUTE;
    if (phase == count + 2) return PART_OVERLAP_SYNC;
    return *own = phase - count - 3, PART_OVERLAP;
}

static uint32_t job_phase_count(const struct kernel_job *job)
{
    const struct coll_options *o = &job_of(job)->options;
    return begins_with_sync(o) + own_phases(o) + (o->compute_ps ? 2 + own_phases(o) : 0);
}

static const char *job_phase_name(const struct kernel_job *job, uint32_t phase)
{
    const struct coll_options *o = &job_of(job)->options;
    uint32_t own;
    switch (part_of(o, phase, &own)) {
    case PART_SYNC: return "sync";
    case PART_COMPUTE: return "compute";
    case PART_OVERLAP_SYNC: return "overlap_sync";
    case PART_OVERLAP: return ops_of(o)->overlap[own];
    case PART_KERNEL: break;
    }
    return ops_of(o)->phase[own];
}

static void job_needs(const struct kernel_job *job, bool payload, struct fabric_needs *needs)
{
    *needs = (struct fabric_needs){ .word_count = COLL_WORDS, .queue_count = 1 };
    ops_of(&job_of(job)->options)->needs(job_of(job), payload, needs);
}

static enum kernel_call job_called(const struct kernel_job *job, uint32_t phase)
{
    static const enum kernel_call call[] = { [COLL_BY_KERNEL] = KERNEL_BARE,
                                             [COLL_BY_HOST] = KERNEL_WAITED,
                                             [COLL_BY_COPY] = KERNEL_COPIED,
                                             [COLL_BY_NCCL] = KERNEL_NCCL };
    const bool streams = job_of(job)->options.issue == COLL_BY_COPY;
    const enum kernel_call gather = streams ? KERNEL_STREAMED : KERNEL_BARE;
    const enum coll_kernel kernel = job_of(job)->options.kernel;
    if (kernel == COLL_ALLREDUCE || kernel == COLL_REDUCESCATTER || kernel == COLL_AG_RS) return KERNEL_BARE;
    if (kernel == COLL_ALLTOALLV && job_of(job)->options.issue == COLL_BY_NCCL) return KERNEL_BARE;
    if (phase && job_of(job)->options.process)
        return job_of(job)->options.own_part ? KERNEL_PROCESS_COPIED : KERNEL_PROCESS;
    if (job_of(job)->options.kernel == COLL_ALLGATHER) return phase == 1 ? gather : KERNEL_BARE;
    return phase == 1 ? call[job_of(job)->options.issue] : KERNEL_BARE;
}

static bool job_absent(const struct kernel_job *job, uint32_t rank, uint32_t phase, uint32_t iteration)
{
    (void)iteration;
    const struct coll_options *o = &job_of(job)->options;
    uint32_t own;
    const enum part part = part_of(o, phase, &own);
    return (part == PART_KERNEL || part == PART_OVERLAP) && ops_of(o)->absent && ops_of(o)->absent(o, rank, own);
}

/* ---- arithmetic on some SMs ---- */

enum { COMPUTE_WARPS = 8 };

static enum worker_step compute_step(struct fabric_worker *w)
{
    const struct coll_compute *c = fabric_container_of(w, struct coll_compute, worker);
    fabric_work(w, &(struct fabric_work){ .kind = FABRIC_WORK_COPY, .site = SITE_ARITHMETIC, .given = c->length });
    return WORKER_DONE;
}

static const struct worker_role compute_role = { .step = compute_step };

static void compute_launch(struct coll_rank *r)
{
    for (uint32_t i = 0; i < r->options->compute_sms; i++) {
        struct coll_compute *c = &r->compute[i];
        c->length = &r->compute_length;
        coll_worker_add(r, &c->worker, &compute_role, r->options->compute_sm_first + i, COMPUTE_WARPS);
    }
}

/* ---- a rank ---- */

static struct kernel_rank *rank_new(const struct kernel_job *job, struct fabric *fabric)
{
    const struct coll_options *o = &job_of(job)->options;
    struct coll_rank *r = kernel_alloc(1, ops_of(o)->rank_bytes);
    r->ops = ops_of(o);
    r->options = o;
    r->job = job_of(job);
    r->fabric = fabric;
    r->compute_length.size[0] = o->compute_ps;
    r->compute = kernel_keep(r, o->compute_sms, sizeof r->compute[0]);
    if (r->ops->init) r->ops->init(r);
    return &r->kernel;
}

/* Prepares a phase.  If an iteration has a barrier, the inputs are made after it, because other ranks may read the old
 * inputs until then. */
static struct kernel_launch *rank_launch(struct kernel_rank *rank, uint32_t phase)
{
    struct coll_rank *r = rank_of(rank);
    const enum part part = part_of(r->options, phase, &r->phase);
    r->launch.phase = job_phase_name(rank->job, phase);
    r->launch.worker_count = 0;
    r->launch.site = SITE_NONE;
    if (phase == 0) r->iteration++;
    if (part == PART_KERNEL && r->phase == 0 && r->fabric->payload) r->ops->fill(r);
    if ((part == PART_KERNEL || part == PART_OVERLAP) && r->phase == 0) r->turn++;
    switch (part) {
    case PART_SYNC:
    case PART_OVERLAP_SYNC: coll_sync_launch(r); break;
    case PART_COMPUTE: compute_launch(r); break;
    case PART_KERNEL: r->ops->launch(r); break;
    case PART_OVERLAP:
        r->ops->launch(r);
        compute_launch(r);
        break;
    }
    return &r->launch;
}

static void rank_traffic(const struct kernel_rank *rank, uint32_t phase, struct kernel_traffic *traffic)
{
    const struct coll_rank *r = rank_of(rank);
    uint32_t own;
    const enum part part = part_of(r->options, phase, &own);
    if (part == PART_KERNEL || part == PART_OVERLAP) r->ops->traffic(r, own, traffic);
}

static uint32_t rank_outputs(struct kernel_rank *rank, struct kernel_tensor *tensor, uint32_t max)
{
    return rank_of(rank)->ops->outputs(rank_of(rank), tensor, max);
}

static uint32_t rank_check(const struct kernel_rank *rank, char *text, size_t text_size)
{
    return rank_of(rank)->ops->check(rank_of(rank), text, text_size);
}

/* Does nothing, because these kernels take no routing.  Messages that were made from a routing belong to the job. */
static void rank_route(struct kernel_rank *rank, const struct routing *routing)
{
    (void)rank;
    (void)routing;
}

static const struct kernel_family coll_family = {
    .needs = job_needs,
    .phase_count = job_phase_count,
    .phase_name = job_phase_name,
    .rank_new = rank_new,
    .launch = rank_launch,
    .traffic = rank_traffic,
    .outputs = rank_outputs,
    .check = rank_check,
    .called = job_called,
    .absent = job_absent,
    .route = rank_route,
};

void coll_job_init(struct coll_job *job, const struct coll_options *options, const struct edges *edges)
{
    *job = (struct coll_job){
        .job = { .family = &coll_family,
                 .ranks = options->ranks,
                 .ranks_per_node = options->ranks_per_node,
                 .num_sms = options->num_sms },
        .options = *options,
        .edges = edges,
    };
}
