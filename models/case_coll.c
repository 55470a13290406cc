/* case_coll.c - a case of models/coll: the messages of an all-to-allv, and the options of the kernels. */
#include "models/case_family.h"

#include <assert.h>
#include <string.h>
#include "models/backends.h"
#include "models/cluster.h"
#include "models/coll/coll.h"
#include "models/hardware/machine/graph.h"
#include "sim/command_line.h"
#include "sim/text.h"
#include "sim/units.h"
#include "traces/edges_make.h"

static bool is_alltoallv(const struct case_options *c) { return strcmp(c->kernel, "alltoallv") == 0; }
static bool is_ag_rs(const struct case_options *c) { return strcmp(c->kernel, "ag-rs") == 0; }

bool case_by_nccl(const struct case_options *c)
{
    return case_kernel_in(c, "reducescatter|allreduce|ag-rs") ||
           (case_kernel_in(c, "allgather") && g_strcmp0(c->algorithm, "ring") == 0 && g_strcmp0(c->issue, "copy") != 0);
}

/* The bytes of a token's row in dispatch, without its scales. */
static uint32_t row_bytes(const struct case_options *c)
{
    return strcmp(c->dtype, "bf16") == 0 ? 2 * c->hidden : c->hidden;
}

/* Makes the messages: those of the matrix.  If the case has no matrix, each pair of ranks has one message, which
 * carries everything that dispatch sends between them by the routing. */
static bool edges_load(const struct case_options *c, struct edges *edges, GError **error)
{
    if (c->matrix) return edges_make(c->matrix, c->num_ranks, row_bytes(c), c->seed, edges, error);
    struct routing routing = { 0 };
    if (!case_routing(c, &routing, error)) return false;
    const bool good = edges_of_routing(&routing, row_bytes(c), edges, error);
    routing_free(&routing);
    return good;
}

/* Keeps the numbers as rows of the ranks' blocks, if they differ. */
static void rows_keep(const uint32_t *number, uint32_t ranks, struct case_load *load)
{
    bool same = true;
    for (uint32_t r = 1; r < ranks; r++) same &= number[r] == number[0];
    if (!same) load->rows = g_memdup2(number, ranks * sizeof *number);
}

static bool tokens_load(const struct case_options *c, struct case_load *load, GError **error)
{
    if (!case_routing(c, &load->routing, error)) return false;
    const struct routing *routing = &load->routing;
    g_autofree uint32_t *tokens = g_new(uint32_t, routing->ranks);
    for (uint32_t r = 0; r < routing->ranks; r++) tokens[r] = routing->rank[r].tokens;
    rows_keep(tokens, routing->ranks, load);
    return true;
}

static bool size_parse(const char *text, uint64_t least, uint64_t *size_bytes, GError **error)
{
    static const uint64_t most = 1 << 30;
    if (text_bytes(text, size_bytes) && *size_bytes >= least && *size_bytes <= most) return true;
    return error_input(error, "size: expected a size from 1 B to 1 GiB, such as 64KiB or 65536, found '%s'", text);
}

static bool is_by_rank(const struct case_options *c) { return c->size && strchr(c->size, '|'); }

/* Reads the sizes of all ranks' blocks. */
static bool sizes_load(const struct case_options *c, struct case_load *load, GError **error)
{
    g_auto(GStrv) part = g_strsplit(c->size, "|", 0);
    const uint32_t count = g_strv_length(part);
    g_autofree uint32_t *bytes = g_new(uint32_t, count);
    if (count != c->num_ranks)
        return error_input(error, "size: expected %u sizes divided by '|', found %u", c->num_ranks, count);
    uint64_t size_bytes, all = 0;
    for (uint32_t i = 0; i < count; i++, all += size_bytes) {
        if (!size_parse(part[i], 0, &size_bytes, error)) return false;
        bytes[i] = (uint32_t)size_bytes;
    }
    if (all == 0 || all > UINT32_MAX)
        return error_input(error, "size: expected 1 B to 4 GiB of all ranks, found %" G_GUINT64_FORMAT, all);
    rows_keep(bytes, count, load);
    return true;
}

static bool coll_load(const struct case_options *c, struct case_load *load, GError **error)
{
    const struct case_options resolved = case_resolved(c);
    return is_ag_rs(c)       ? tokens_load(&resolved, load, error)
           : is_alltoallv(c) ? edges_load(&resolved, &load->edges, error)
           : is_by_rank(c)   ? sizes_load(&resolved, load, error)
                             : true;
}

static bool coll_load_same(const struct case_options *a, const struct case_options *b)
{
    return a->hidden == b->hidden && g_strcmp0(a->dtype, b->dtype) == 0 && g_strcmp0(a->size, b->size) == 0 &&
           case_routing_same(a, b);
}

static void coll_load_digest(const struct case_load *load, GChecksum *checksum)
{
    const struct edges *e = &load->edges;
    for (uint32_t r = 0; r < load->routing.ranks; r++)
        g_checksum_update(checksum, (const guchar *)&load->routing.rank[r].tokens, sizeof(uint32_t));
    if (!e->first) return;
    g_checksum_update(checksum, (const guchar *)e->first, (gssize)(sizeof *e->first * (e->ranks + 1)));
    g_checksum_update(checksum, (const guchar *)e->target, (gssize)(sizeof *e->target * edges_count(e)));
    g_checksum_update(checksum, (const guchar *)e->size_bytes, (gssize)(sizeof *e->size_bytes * edges_count(e)));
}

static void edges_record(const struct edges *e, struct record *record)
{
    uint64_t bytes = 0;
    for (uint32_t r = 0; r < e->ranks; r++) bytes += e->sent_bytes[r];
    record_set(record, "num-ranks", "%u", e->ranks);
    record_set(record, "matrix-messages", "%u", edges_count(e));
    record_set(record, "matrix-bytes", "%" G_GUINT64_FORMAT, bytes);
}

/* ---- options ---- */

/* Sets the sizes of ag-rs as in vLLM's allgather_reducescatter.  Dispatch gathers tokens, their scales (FP8: one for
 * 128 values), and the weight and the number of each choice (4 B each), by one group of calls.  Combine scatters sums
 * in BF16.  All tokens go to all ranks, so only the numbers of tokens and choices matter in the routing. */
static bool tokens_set(const struct case_options *c, const struct case_load *load, struct coll_options *o,
                       GError **error)
{
    enum { SCALED = 128, WORD = 4 };
    const struct routing *routing = &load->routing;
    const uint64_t scales = strcmp(c->dtype, "bf16") == 0 ? 0 : (c->hidden + SCALED - 1) / SCALED * WORD;
    const uint64_t tokens = load->rows ? 1 : routing->rank[0].tokens; /* of a row */
    uint64_t all = 0;
    for (uint32_t r = 0; r < routing->ranks; r++) all += routing->rank[r].tokens;
    const uint64_t dispatch = row_bytes(c) + scales + UINT64_C(2) * WORD * routing->topk, combine = 2 * c->hidden;
    o->rows = load->rows;
    o->size_bytes = tokens * dispatch;
    o->combine_bytes = tokens * combine;
    if (all * MAX(dispatch, combine) <= UINT32_MAX) return true;
    return error_input(
        error, "num-tokens: expected at most 4 GiB of tokens of all ranks, found %" G_GUINT64_FORMAT " tokens", all);
}

static bool size_set(const struct case_options *c, const struct case_load *load, struct coll_options *o, GError **error)
{
    o->size_bytes = o->kernel == COLL_P2P ? 64 << 10 : 1 << 20;
    if (o->kernel == COLL_AG_RS) return tokens_set(c, load, o, error);
    if (!c->size) return true;
    /* Without rows, all ranks have the same size, also if the case gives one for each. */
    const char *last = is_by_rank(c) ? strrchr(c->size, '|') + 1 : c->size;
    if (!load->rows) return size_parse(last, 1, &o->size_bytes, error);
    o->rows = load->rows;
    o->size_bytes = 1;
    return true;
}

/* Parses "A:B": SMs A to B - 1 of the device. */
static bool compute_sms_parse(const char *text, uint32_t device_sms, struct coll_options *o, GError **error)
{
    g_auto(ranges) sms = { 0 };
    if (!ranges_parse(text, device_sms, device_sms, &sms) || sms.number[sms.count - 1] != sms.number[0] + sms.count - 1)
        return error_input(error, "compute-sms: expected A:B (B excluded) within 0:%u, found '%s'", device_sms, text);
    assert(sms.count > 0 && sms.number[0] + sms.count <= device_sms);
    o->compute_sm_first = sms.number[0];
    o->compute_sms = sms.count;
    return true;
}

static bool compute_parse(const struct case_options *c, uint32_t device_sms, struct coll_options *o, GError **error)
{
    static const uint64_t most_ps = PS_PER_S;
    if (!c->compute) return !c->compute_sms || error_input(error, "compute-sms: needs compute");
    if (!cluster_parse_time(c->compute, &o->compute_ps) || o->compute_ps == 0 || o->compute_ps > most_ps)
        return error_input(error, "compute: expected a time from 1 ps to 1 s, such as 100us, found '%s'", c->compute);
    if (c->compute_sms) return compute_sms_parse(c->compute_sms, device_sms, o, error);
    const bool left = device_sms > o->num_sms;
    o->compute_sm_first = left ? o->num_sms : 0;
    o->compute_sms = left ? device_sms - o->num_sms : device_sms;
    return true;
}

static bool calls_known(const struct cluster *cluster, const char *issue, GError **error)
{
    if (!cluster || cluster->host.cores || cluster->calls.wait_ps) return true;
    return error_input(error, "issue: %s: expected a cluster file with [calls], found none", issue);
}

/* Sets whether the kernel, the host, a copy engine or NCCL issues messages.  If the kernel does not issue them, p2p has
 * one message a phase, because a call of the host issues one message. */
static bool issue_parse(const struct case_options *c, const struct cluster *cluster, struct coll_options *o,
                        GError **error)
{
    static const char *const names[] = { "kernel", "host", "copy", "nccl" };
    enum { MESSAGES_DEFAULT = 100 };
    for (uint32_t i = 0; c->issue && i < G_N_ELEMENTS(names); i++)
        if (strcmp(names[i], c->issue) == 0) o->issue = (enum coll_issue)i;
    if (o->issue == COLL_BY_KERNEL) return true;
    if (o->issue == COLL_BY_COPY && c->nvlink_disabled)
        return error_input(error, "disable-nvlink: a copy engine's messages are within a node here");
    if (o->kernel == COLL_ALLGATHER && o->issue == COLL_BY_COPY) return calls_known(cluster, c->issue, error);
    if (o->kernel == COLL_ALLTOALLV && o->issue == COLL_BY_NCCL)
        return !c->nvlink_disabled || error_input(error, "disable-nvlink: NCCL's messages are within a node here");
    if (o->kernel != COLL_P2P)
        return error_input(error, "issue: expected kernel p2p, copy of allgather or nccl of alltoallv, found %s of %s",
                           c->issue, c->kernel);
    if (c->messages != 1 && c->messages != MESSAGES_DEFAULT)
        return error_input(error, "messages: expected 1 with issue %s, found %u", c->issue, c->messages);
    o->messages = 1;
    return calls_known(cluster, c->issue, error);
}

/* Sets three flags.  process: messages are MPI's, so a process issues them.  sockets: NCCL's allreduce uses sockets.
 * own_part: a rank also sends its own part to itself, as in MPI_Alltoall.  With own_part, all messages of the matrix
 * have one size, and NCCL or a process with a GPU sends them. */
static void process_find(const struct case_options *c, const struct cluster *cluster, struct coll_options *o)
{
    const struct transport *backend = c->backend ? backends_find(c->backend) : NULL;
    const bool two_sided = backend && backend->receive_ps, sockets = backend && backend->copy_rate_bps;
    const bool gpu = cluster && !cluster->host.cores && cluster->calls.wait_ps && !cluster->node.host_memory;
    o->process = two_sided && (o->kernel == COLL_ALLTOALLV || (o->kernel == COLL_P2P && o->issue == COLL_BY_KERNEL));
    o->sockets = sockets && o->kernel == COLL_ALLREDUCE;
    const bool copies = o->kernel == COLL_ALLTOALLV && o->issue == COLL_BY_NCCL;
    o->own_part = (copies || (o->process && gpu)) && c->matrix && g_str_has_prefix(c->matrix, "uniform:");
}

static const char *const kernels[] = { "alltoallv", "allgather", "reducescatter", "allreduce", "ag-rs", "p2p", NULL };
static const char *const algorithms[] = { "", "hybrid", "ring", "tree", "leader", NULL };
static const char *const protocols[] = { "", "ll", "ll128", "simple", NULL };

/* The index of the word in the list; 0 if word is NULL. */
static uint32_t word_of(const char *word, const char *const *words)
{
    uint32_t i = 0;
    while (word && words[i] && strcmp(words[i], word) != 0) i++;
    assert(!word || words[i]);
    return i;
}

static const uint64_t GBS = UINT64_C(8000000000);

/* The nominal rate of a GPU's links.  Without a cluster, ranks are processes of this host and stand for Hopper GPUs. */
static uint64_t links_bps(const struct cluster *cluster)
{
    static const uint64_t hopper_gbs = 478;
    const uint64_t line_bps = cluster ? graph_made_with(cluster).nvlink_line_bps : 0;
    return line_bps ? line_bps : hopper_gbs * GBS;
}

/* Blackwell's links are the only ones so fast. */
bool case_blackwell(const struct cluster *cluster) { return links_bps(cluster) > 700 * GBS; }

/* The rate in GB/s that NCCL's search gives a ring between nodes: the highest rate in its list that the NIC reaches
 * (search.cc). */
static double ring_gbs(double nic_gbs, bool blackwell)
{
    static const double speeds_gbs[] = {
        96, 86, 80, 48, 45, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, 0.24
    };
    enum { HOPPER_FIRST = 3 };
    uint32_t i = blackwell ? 0 : HOPPER_FIRST;
    while (i + 1 < G_N_ELEMENTS(speeds_gbs) && speeds_gbs[i] > nic_gbs) i++;
    return speeds_gbs[i];
}

/* Finds the rings between nodes.  There is one for each NIC of a node.  A ring of 25 GB/s or more becomes two of half
 * its rate, if there are at most 4 rings or if it has 50 GB/s or more (ncclTopoDupChannels).  Each ring has two
 * channels.  If rings are faster than 45 GB/s and have fewer than 16 channels in all, each has four (connect.cc). */
static void nccl_find_between(const struct case_options *c, const struct cluster *cluster, struct coll_nccl *nccl)
{
    const uint32_t sharers = MAX(cluster->nic.gpus_per_nic, 1u), nics = (c->ranks_per_node + sharers - 1) / sharers;
    const uint64_t nic_bps = graph_made_with(cluster).nic_line_bps * cluster->nic.ports;
    const double gbs = ring_gbs((double)nic_bps / (double)GBS, nccl->blackwell);
    const bool parted = gbs >= 25 && (gbs >= 50 || nics <= 4);
    nccl->bus_bps = MIN(nccl->bus_bps, (uint64_t)(gbs * nics) * GBS);
    nccl->found = parted ? 2 * nics : nics;
    nccl->channels = 2 * nccl->found;
    if (gbs / (parted ? 2 : 1) > 45 && nccl->channels < 16) nccl->channels *= 2;
    nccl->split_lines = cluster->nic.provider == CLUSTER_PROVIDER_CXI || g_strcmp0(c->backend, "tcp") == 0;
}

/* Fills in what NCCL's search finds (src/graph/search.cc, topo.h, connect.cc).  The search counts a Hopper link as 20.6
 * GB/s, not 26.6, and a Blackwell link as 40.1 GB/s, not 53.1.  So it finds 6 rings of 60 GB/s on Hopper and 8 of 90
 * GB/s on Blackwell, and doubles their number twice.  LL128 is off between nodes where a GPU reaches its NIC through
 * the CPU, as it does Slingshot's NICs in Alps (ncclTopoTuneModel; issue 2053 says why).  NICs behind sockets count as
 * reached through the CPU. */
static void nccl_find(const struct case_options *c, const struct cluster *cluster, struct coll_options *o)
{
    struct coll_nccl *nccl = &o->nccl;
    nccl->bus_bps = links_bps(cluster) / 4 * 3;
    nccl->blackwell = case_blackwell(cluster);
    nccl->before_229 = g_strcmp0(c->nccl, "2.28") == 0;
    nccl->mesh = cluster && cluster->nvlink.over == CLUSTER_PEERS_BY_XGMI;
    nccl->found = nccl->blackwell ? 16 : 12;
    nccl->channels = 2 * nccl->found;
    if (cluster && o->ranks > c->ranks_per_node) nccl_find_between(c, cluster, nccl);
    nccl->channels = c->num_sms ? o->num_sms : MIN(o->num_sms, nccl->channels);
    if (case_by_nccl(c)) o->num_sms = nccl->channels;
}

enum { SMS_FAST = 32 }; /* NCCL's channels on fast links */

static uint32_t sms_default(const struct case_options *c, const struct cluster *cluster)
{
    const bool messages = is_alltoallv(c) && g_strcmp0(c->issue, "nccl") == 0; /* NCCL's messages take a power of
                                                                                * two of channels */
    return messages || (case_by_nccl(c) && case_blackwell(cluster)) ? SMS_FAST : CASE_SMS_DEFAULT;
}

/* Checks that the kernel has the algorithm and the protocol that the case asks for.  Each algorithm belongs to one
 * or two kernels.  Protocols belong to NCCL's rings and trees. */
static bool nccl_asked(const struct case_options *c, const struct coll_options *o, GError **error)
{
    const bool gather = o->kernel == COLL_ALLGATHER, reduce = o->kernel == COLL_ALLREDUCE;
    if (c->algorithm && !(o->algorithm == COLL_TREE ? reduce : gather || (reduce && o->algorithm == COLL_RING)))
        return error_input(error, "algorithm: expected %s, found %s of %s",
                           reduce ? "ring or tree" : "hybrid, ring or leader", c->algorithm, c->kernel);
    if (c->protocol && !case_by_nccl(c))
        return error_input(error,
                           "protocol: expected reducescatter, allreduce, ag-rs or allgather by ring, found %s of %s",
                           c->protocol, c->kernel);
    return true;
}

static bool options_fill(const struct case_options *c, const struct case_load *load, const struct cluster *cluster,
                         uint32_t device_sms, struct coll_options *o, GError **error)
{
    *o = (struct coll_options){
        .kernel = (enum coll_kernel)word_of(c->kernel, kernels),
        .ranks = is_alltoallv(c) ? load->edges.ranks
                 : is_ag_rs(c)   ? load->routing.ranks
                                 : c->num_ranks,
        .ranks_per_node = c->ranks_per_node,
        .num_sms = c->num_sms ? c->num_sms : MIN(sms_default(c, cluster), device_sms),
        .in_flight = c->in_flight,
        .algorithm = (enum coll_algorithm)word_of(c->algorithm, algorithms),
        .protocol = (enum coll_protocol)word_of(c->protocol, protocols),
        .messages = c->messages,
    };
    if (c->num_sms > device_sms)
        return error_input(error, "num-sms: expected at most the GPU's %u, found %u", device_sms, c->num_sms);
    if (!nccl_asked(c, o, error)) return false;
    if (!size_set(c, load, o, error) || !issue_parse(c, cluster, o, error)) return false;
    nccl_find(c, cluster, o);
    process_find(c, cluster, o);
    return compute_parse(c, device_sms, o, error);
}

static struct kernel_job *coll_job(const struct case_options *c, const struct case_load *load,
                                   const struct cluster *cluster, uint32_t device_sms, GError **error)
{
    const struct case_options resolved = case_resolved(c);
    struct coll_options options;
    const struct edges *edges = is_alltoallv(c) ? &load->edges : NULL;
    bool good = options_fill(&resolved, load, cluster, device_sms ? device_sms : UINT16_MAX, &options, error);
    char text[256];
    const char *refusal = good ? coll_options_refuse(&options, edges, text, sizeof text) : NULL;
    if (refusal) good = error_input(error, "%s", refusal);
    if (!good) return NULL;
    struct coll_job *job = g_new(struct coll_job, 1);
    coll_job_init(job, &options, edges);
    if (is_ag_rs(c)) job->routing = &load->routing;
    return &job->job;
}

static void tokens_record(const struct routing *routing, struct record *record)
{
    uint32_t most = 0;
    for (uint32_t r = 0; r < routing->ranks; r++) most = MAX(most, routing->rank[r].tokens);
    record_set(record, "num-tokens", "%u", most);
    record_set(record, "num-topk", "%u", routing->topk);
    record_set(record, "num-experts", "%u", routing->experts);
}

static void coll_job_record(const struct kernel_job *job, struct record *record)
{
    const struct coll_job *coll = fabric_container_of(job, const struct coll_job, job);
    if (coll->edges) edges_record(coll->edges, record);
    else record_set(record, "num-ranks", "%u", coll->options.ranks);
    record_set(record, "num-sms", "%u", coll->options.num_sms);
    if (coll->routing) tokens_record(coll->routing, record);
}

static const char *coll_rate_metric(const struct case_options *c)
{
    return c->num_ranks && c->num_ranks <= c->ranks_per_node ? "logical_nvl_gbs" : "logical_rdma_gbs";
}

const struct case_family case_family_coll = {
    .load = coll_load,
    .load_same = coll_load_same,
    .load_digest = coll_load_digest,
    .job = coll_job,
    .job_record = coll_job_record,
    .rate_metric = coll_rate_metric,
};
