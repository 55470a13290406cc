/* case_kernel.c - the kernel family of a case, and its load (a routing) and job for dispatch and combine.
 *
 * Only this file maps words of --kernel to families; worlds and commands run the resulting job. */
#include "models/case_family.h"

#include <assert.h>
#include <string.h>
#include "models/hardware/machine/graph.h"

/* ---- dispatch and combine ---- */

static bool moe_load(const struct case_options *c, struct case_load *load, GError **error)
{
    return case_routing(c, &load->routing, error);
}

static void moe_load_digest(const struct case_load *load, GChecksum *checksum)
{
    const struct routing *routing = &load->routing;
    const uint32_t shape[] = { routing->ranks, routing->topk, routing->experts };
    g_checksum_update(checksum, (const guchar *)shape, sizeof shape);
    for (uint32_t r = 0; r < routing->ranks; r++) {
        const struct routing_rank *rank = &routing->rank[r];
        const size_t places = (size_t)rank->tokens * routing->topk;
        g_checksum_update(checksum, (const guchar *)&rank->tokens, sizeof rank->tokens);
        if (!places) continue;
        g_checksum_update(checksum, (const guchar *)rank->experts, (gssize)(sizeof *rank->experts * places));
        if (rank->weights)
            g_checksum_update(checksum, (const guchar *)rank->weights, (gssize)(sizeof *rank->weights * places));
    }
}

/* Sets num_sms as the V2 library chooses it: the SMs that the links need by their nominal rates, but at most all SMs.
 * Unless other kernels need SMs at the same time (overlap), it is at least 64. */
static void v2_sms_choose(struct moe_options *o, const struct cluster *cluster, bool overlap)
{
    const struct graph_made_with with = graph_made_with(cluster);
    const double rdma_gbs = (double)with.nic_line_bps / 8e9, nvl_gbs = 0.9 * (double)with.nvlink_line_bps / 8e9;
    o->num_sms = MIN(MAX(moe_v2_sms(o, rdma_gbs, nvl_gbs), overlap ? 0 : 64), cluster->gpu.sms);
}

static struct kernel_job *moe_job(const struct case_options *c, const struct case_load *load,
                                  const struct cluster *cluster, uint32_t device_sms, GError **error)
{
    struct moe_options options;
    if (!cluster && (c->compute || c->compute_sms))
        return error_null(error,
                          "compute: expected a simulation, or kernel alltoallv, allgather, reducescatter, allreduce or "
                          "p2p, found %s here",
                          case_kernel(c));
    if (!case_moe_options(c, &load->routing, device_sms, &options, error)) return NULL;
    if (options.family == MOE_V2 && !c->num_sms && cluster && cluster->gpu.sms)
        v2_sms_choose(&options, cluster, c->overlap);
    struct moe_job *job = g_new(struct moe_job, 1);
    moe_job_init(job, &options, &load->routing);
    return &job->job;
}

static void moe_job_record(const struct kernel_job *job, struct record *record)
{
    const struct moe_options *o = &fabric_container_of(job, const struct moe_job, job)->options;
    record_set(record, "num-ranks", "%u", o->ranks);
    record_set(record, "num-tokens", "%u", o->tokens_max);
    record_set(record, "num-topk", "%u", o->topk);
    record_set(record, "num-experts", "%u", o->experts);
    record_set(record, "num-sms", "%u", o->num_sms);
    if (o->num_warps) record_set(record, "num-warps", "%u", o->num_warps);
    if (o->rdma_sms) record_set(record, "rdma-sms", "%u", o->rdma_sms);
    if (o->family == MOE_NORMAL) case_chunks_record(o, record);
}

static const char *moe_rate_metric(const struct case_options *c)
{
    const bool intranode = strcmp(c->kernel, "ll") != 0 && c->num_ranks <= c->ranks_per_node;
    return intranode ? "logical_nvl_gbs" : "logical_rdma_gbs";
}

static const struct case_family case_family_moe = {
    .load = moe_load,
    .load_same = case_routing_same,
    .load_digest = moe_load_digest,
    .job = moe_job,
    .job_record = moe_job_record,
    .rate_metric = moe_rate_metric,
};

/* ---- kernels of any family ---- */

static const struct case_family *family_of(const struct case_options *c)
{
    static const char *const coll[] = { "alltoallv", "allgather", "reducescatter", "allreduce", "ag-rs", "p2p", NULL };
    return c->kernel && g_strv_contains(coll, c->kernel) ? &case_family_coll : &case_family_moe;
}

bool case_load(const struct case_options *c, struct case_load *load, GError **error)
{
    assert(!error || !*error);
    *load = (struct case_load){ 0 };
    return family_of(c)->load(c, load, error);
}

void case_load_free(struct case_load *load)
{
    routing_free(&load->routing);
    edges_free(&load->edges);
    g_clear_pointer(&load->rows, g_free);
}

bool case_load_same(const struct case_options *a, const struct case_options *b)
{
    return family_of(a) == family_of(b) && family_of(a)->load_same(a, b);
}

struct kernel_job *case_job(const struct case_options *c, const struct case_load *load, const struct cluster *cluster,
                            uint32_t device_sms, GError **error)
{
    return case_kernel_takes(c, error) ? family_of(c)->job(c, load, cluster, device_sms, error) : NULL;
}

void case_job_record(const struct case_options *c, const struct kernel_job *job, struct record *record)
{
    family_of(c)->job_record(job, record);
}

char *case_load_digest(const struct case_options *c, const struct case_load *load)
{
    GChecksum *checksum = g_checksum_new(G_CHECKSUM_SHA256);
    family_of(c)->load_digest(load, checksum);
    char *text = g_strdup(g_checksum_get_string(checksum));
    g_checksum_free(checksum);
    return text;
}

const char *case_rate_metric(const struct case_options *c)
{
    const struct case_options resolved = case_resolved(c);
    return family_of(&resolved)->rate_metric(&resolved);
}
