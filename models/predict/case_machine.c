/* case_machine.c - makes the machine of a case, and refuses what the cluster cannot carry. */
#include "models/predict/case_machine.h"

#include "models/backends.h"
#include "models/hardware/world/world.h"
#include "models/predict/fault.h"
#include "models/predict/launches.h"

/* Whether the cluster joins the job's ranks: those of a node, and by NICs the others. */
static bool ranks_joined(const struct case_options *c, const struct cluster *cluster, const struct kernel_job *job,
                         GError **error)
{
    const bool by_nic = case_peers_by_rdma(c);
    const bool rdma = by_nic ? job->ranks > 1 : job->ranks > job->ranks_per_node;
    if (rdma && !graph_node_nics(cluster, 1))
        return error_input(error, "%s: ranks of several nodes, or without NVLink, need a [nic] and a [network] section",
                           cluster->path);
    const uint32_t together = MIN(job->ranks, job->ranks_per_node), joined = MAX(cluster->nvlink.gpus, 1);
    if (cluster->host.cores || by_nic || together <= joined) return true;
    return error_input(error,
                       "ranks-per-node: expected at most the %u GPU%s that %s joins by NVLink or PCIe ([nvlink] "
                       "gpus), found %u (leave it out: other ranks of a node go by the NIC)",
                       joined, joined > 1 ? "s" : "", cluster->path, together);
}

bool case_machine_make(struct case_machine *m, const struct case_options *c, const struct cluster *cluster,
                       const struct kernel_job *job, const struct transport *transport, GError **error)
{
    const struct transport *backend = c->backend ? backends_find(c->backend) : NULL;
    uint32_t gpus;
    if (!ranks_joined(c, cluster, job, error)) return false;
    m->slow = g_new0(uint32_t, job->ranks);
    if (!launches_slow(c->slow, job->ranks, m->slow, error)) return false;
    if (c->backend && !backend)
        return error_input(error, "backend: expected one that `eptwin cluster backends` lists, found \"%s\"",
                           c->backend);
    if (backend && cluster->host.cores)
        return error_input(
            error,
            "backend: expected none, as %s describes a host, whose links were measured with their own, found \"%s\"",
            cluster->path, c->backend);
    m->transport = transport ? *transport : backend ? *backend : transport_of(&cluster->nic);
    const uint32_t nodes = world_nodes(cluster, job->ranks, job->ranks_per_node, &gpus);
    m->graph = graph_new(cluster, nodes, gpus, error);
    const struct fault_target target = { m->graph, &m->transport, job->ranks, m->slow };
    if (!m->graph || !fault_apply(c->fault, &target, error)) return false;
    return !c->loops || (m->loops = loops_load(c->loops, error)) != NULL;
}

void case_machine_clear(struct case_machine *m)
{
    graph_free(m->graph);
    loops_free(m->loops);
    g_free(m->slow);
}
