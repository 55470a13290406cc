/* moe_kernel.c - dispatch and combine as a kernel family (models/kernel.h): forwards to moe.h's entry points. */
#include <string.h>
#include "models/moe/moe_internal.h"

static const struct moe_job *job_of(const struct kernel_job *job)
{
    return fabric_container_of(job, const struct moe_job, job);
}

static struct moe_rank *rank_of(const struct kernel_rank *rank)
{
    return fabric_container_of(rank, struct moe_rank, kernel);
}

static void job_needs(const struct kernel_job *job, bool payload, struct fabric_needs *needs)
{
    moe_options_needs(&job_of(job)->options, payload, needs);
}

static uint32_t job_phase_count(const struct kernel_job *job) { return moe_phase_count(&job_of(job)->options); }

static const char *job_phase_name(const struct kernel_job *job, uint32_t phase)
{
    return moe_phase_name(&job_of(job)->options, phase);
}

/* Phases that move rows in the normal kernels are measured by the call. */
static enum kernel_call job_called(const struct kernel_job *job, uint32_t phase)
{
    const char *name = job_phase_name(job, phase);
    const bool moves = strcmp(name, "dispatch") == 0 || strcmp(name, "combine") == 0;
    return moves && job_of(job)->options.family == MOE_NORMAL ? KERNEL_CALLED : KERNEL_BARE;
}

/* The normal kernels' tests call dispatch over and over, then combine. */
static bool job_begins_loop(const struct kernel_job *job, uint32_t phase)
{
    return job_of(job)->options.family == MOE_NORMAL &&
           strcmp(job_phase_name(job, phase), "cached_notify_combine") == 0;
}

static bool job_absent(const struct kernel_job *job, uint32_t rank, uint32_t phase, uint32_t iteration)
{
    return moe_options_failed(&job_of(job)->options, rank, phase, iteration);
}

static struct kernel_rank *rank_new(const struct kernel_job *job, struct fabric *fabric)
{
    return &moe_rank_new(&job_of(job)->options, fabric, job_of(job)->routing)->kernel;
}

static void rank_free(struct kernel_rank *rank) { moe_rank_free(rank_of(rank)); }

static struct kernel_launch *rank_launch(struct kernel_rank *rank, uint32_t phase)
{
    return moe_rank_launch(rank_of(rank), phase);
}

static void rank_traffic(const struct kernel_rank *rank, uint32_t phase, struct kernel_traffic *traffic)
{
    moe_rank_traffic(rank_of(rank), phase, traffic);
}

static void rank_steps(const struct kernel_rank *rank, uint32_t phase, struct kernel_steps *steps)
{
    const struct moe_rank *r = rank_of(rank);
    if (r->options->hybrid_ep) moe_hybrid_ep_steps(r, phase, steps);
}

static uint32_t rank_outputs(struct kernel_rank *rank, struct kernel_tensor *tensor, uint32_t max)
{
    return moe_rank_outputs(rank_of(rank), tensor, max);
}

static uint32_t rank_check(const struct kernel_rank *rank, char *text, size_t text_size)
{
    return moe_rank_check(rank_of(rank), text, text_size);
}

static bool rank_masks(const struct kernel_rank *rank, uint32_t peer) { return moe_rank_masks(rank_of(rank), peer); }

static const struct kernel_family moe_family = {
    .needs = job_needs,
    .phase_count = job_phase_count,
    .phase_name = job_phase_name,
    .rank_new = rank_new,
    .rank_free = rank_free,
    .launch = rank_launch,
    .traffic = rank_traffic,
    .steps = rank_steps,
    .outputs = rank_outputs,
    .check = rank_check,
    .called = job_called,
    .begins_loop = job_begins_loop,
    .absent = job_absent,
    .masks = rank_masks,
};

void moe_job_init(struct moe_job *job, const struct moe_options *options, const struct routing *routing)
{
    *job = (struct moe_job){
        .job = { .family = &moe_family,
                 .ranks = options->ranks,
                 .ranks_per_node = options->ranks_per_node,
                 .num_sms = options->num_sms,
                 .mask_timeout_ps = options->mask_timeout_ps },
        .options = *options,
        .routing = routing,
    };
}
