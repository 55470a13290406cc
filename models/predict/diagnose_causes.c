/* diagnose_causes.c - the causes that diagnose knows: what each does to a cluster file or a case, how one finds out,
 * and what to change.  They are those that public threads about these kernels ended with (tests/accuracy/threads).
 *
 * Numbers are of parts, with their source in PROTOCOLS.md: a CPU proxy posts 3 million requests a second (5.2), NIC and
 * GPU across sockets move 11 GB/s (5.3), copies through host memory what PCIe moves.  Knows no simulation. */
#include "models/predict/diagnose.h"

#include <stdlib.h>
#include <string.h>

#define LEAF_SPINE "network.topology=leaf-spine", "network.nodes-per-leaf=1", "network.spines=4"

/* The commoner before the rarer: of causes that explain alike, the first stands first. */
static const struct cause causes[] = {
    { "one-nic",
      "all ranks of a node use one NIC",
      "NVSHMEM_DEBUG=INFO: which NIC each PE opens; counters of the other NICs stay still",
      "unset NVSHMEM_ENABLE_NIC_PE_MAPPING, or name a NIC for each PE in NVSHMEM_HCA_LIST; see eptwin probe",
      CAUSE_NETWORK,
      { "node.nics=1" },
      { NULL },
      false },
    { "one-port",
      "traffic uses one of a NIC's ports or planes",
      "ibstat: rate and state of both ports; counters of each port; QPs of a peer",
      "more QPs a peer (num_qps_per_rank), "
      "NVSHMEM_IBGDA_ENABLE_MULTI_PORT=1 on planes, or LAG hashing by QP",
      CAUSE_NETWORK | CAUSE_PORTS,
      { "nic.ports=1" },
      { NULL },
      false },
    { "half-the-nics",
      "two ranks share a NIC, and half of the NICs are idle",
      "NVSHMEM_DEBUG=INFO: which NIC each PE opens; common where two GPUs and two NICs share a PCIe switch",
      "set NVSHMEM_HCA_LIST by rank (DeepEP pull request 466), or NVSHMEM_HCA_PE_MAPPING",
      CAUSE_NETWORK,
      { "node.nics=50%" },
      { NULL },
      false },
    { "across-sockets",
      "GPUs and NICs meet across the socket",
      "nvidia-smi topo -m: SYS between a GPU and its NIC; eptwin probe",
      "bind each rank to the NIC of its own PCIe switch; bind processes to cores of the same NUMA node",
      CAUSE_NETWORK,
      { "node.pcie-rate=11 GB/s" },
      { NULL },
      false },
    { "ecmp",
      "flows collide on uplinks: ECMP without adaptive routing",
      "compare 2 nodes below one leaf with more nodes; counters of the uplinks",
      "adaptive routing on the switches, static "
      "routes for each rail, or more QPs so that more flows are hashed",
      CAUSE_NETWORK,
      { LEAF_SPINE, "network.routing=ecmp", "network.flow-key=address" },
      { NULL },
      false },
    { "no-gdrcopy",
      "the CPU rings for the GPU and reads its memory without GDRCopy",
      "lsmod: gdrdrv; eptwin probe",
      "install and load gdrdrv, or set EnableStreamMemOPs and PeerMappingOverride so that the GPU rings itself",
      CAUSE_NETWORK,
      { "nic.posting=proxy", "nic.proxy=2.7 us", "nic.doorbell=3.7 us", "nic.proxy-threads=1" },
      { NULL },
      false },
    { "cpu-proxy",
      "a CPU thread posts the requests (IBRC or a GIN proxy)",
      "NVSHMEM_IB_ENABLE_IBGDA, NCCL_GIN_TYPE: 2 is the proxy",
      "NVSHMEM_IB_ENABLE_IBGDA=1, or NCCL_GIN_TYPE=3",
      CAUSE_NETWORK,
      { "nic.posting=proxy", "nic.proxy=2.7 us", "nic.doorbell=333 ns", "nic.proxy-threads=1" },
      { NULL },
      false },
    { "late-ranks",
      "waiting counts as transfer: ranks launch up to half a millisecond apart",
      "time a barrier before the kernel; compare the fastest rank with the slowest",
      "measure behind a barrier; look for work "
      "that delays some ranks",
      0,
      { NULL },
      { "arrival=uniform:500us" },
      false },
    { "half-rate",
      "the NIC's port runs at half its rate",
      "ibstat, mlxlink: rate and width of the port; lspci: PCIe width",
      "replace the cable or module, reseat the card",
      CAUSE_NETWORK,
      { "nic.rate=50%" },
      { NULL },
      false },
    { "few-sms",
      "the kernels have half as many SMs as assumed",
      "Buffer.set_num_sms, num_sms of the Config",
      "Buffer.set_num_sms(24) or more",
      CAUSE_SMS,
      { NULL },
      { "num-sms=50%" },
      false },
    { "hot-expert",
      "a few experts get most of the tokens",
      "counts for each expert; eptwin trace info",
      "redundant experts and balanced placement: eptwin trace place",
      CAUSE_DRAWN,
      { NULL },
      { "routing=zipf:1.2" },
      false },
    { "uneven-tokens",
      "one rank has four times the tokens of the others",
      "tokens of each rank in the batch",
      "balance batches over ranks",
      CAUSE_DRAWN,
      { NULL },
      { "tokens-per-rank=4x" },
      false },
    { "no-nvlink",
      "ranks of a node reach each other by NICs, not by NVLink",
      "--disable-nvlink, NVSHMEM_DISABLE_P2P; nvidia-smi "
      "nvlink -s",
      "remove the option; look for Xid errors and the fabric manager's log",
      CAUSE_NVLINK,
      { NULL },
      { "disable-nvlink=true" },
      false },
    { "window",
      "few bytes are in flight: congestion control or a small window holds senders back",
      "counters of ECN marks and CNPs; the NIC's congestion control settings",
      "turn DCQCN off where PFC or credits protect, or "
      "tune it; raise the cap of bytes in flight",
      CAUSE_NETWORK,
      { "nic.window=128 KiB" },
      { NULL },
      false },
    { "oversubscribed-2",
      "uplinks are oversubscribed 2:1",
      "eptwin probe on ibnetdiscover's output; count uplinks of a leaf",
      "place the nodes of a group below one leaf, or add uplinks",
      CAUSE_NETWORK,
      { LEAF_SPINE, "network.routing=adaptive", "network.oversubscription=2" },
      { NULL },
      false },
    { "oversubscribed-4",
      "uplinks are oversubscribed 4:1",
      "eptwin probe on ibnetdiscover's output; count uplinks of a leaf",
      "place the nodes of a group below one leaf, or add uplinks",
      CAUSE_NETWORK,
      { LEAF_SPINE, "network.routing=adaptive", "network.oversubscription=4" },
      { NULL },
      false },
    { "staged",
      "bytes go through host memory: no GPUDirect RDMA",
      "lsmod: nvidia_peermem, or dma-buf support; eptwin probe",
      "load nvidia-peermem, turn ACS and the IOMMU's translation off",
      CAUSE_NETWORK,
      { "node.staging=yes", "node.staging-rate=24 GB/s", "node.staging-latency=10 us" },
      { NULL },
      false },
    { "small-mtu",
      "packets carry 1024 bytes of RoCE",
      "ibv_devinfo: active_mtu",
      "MTU 4200 or more on hosts and switches",
      CAUSE_NETWORK,
      { "nic.mtu=1024 B", "nic.header=82 B" },
      { NULL },
      false },
    { "quarter-rate",
      "the NIC runs at a quarter of its rate",
      "ibstat, mlxlink: rate and width of the port; lspci: PCIe width",
      "replace the cable or module, reseat the card",
      CAUSE_NETWORK,
      { "nic.rate=25%" },
      { NULL },
      false },
    { "half-nvlink",
      "NVLink runs at half its rate",
      "nvidia-smi nvlink -s: links that are down",
      "reset the GPU; service the board",
      CAUSE_NVLINK,
      { "nvlink.egress-rate=50%", "nvlink.ingress-rate=50%" },
      { NULL },
      false },
    { "slow-rank",
      "one GPU takes twice as long",
      "nvidia-smi -q -d CLOCK,PERFORMANCE: throttling; time each rank alone",
      "cool, power or replace the GPU",
      0,
      { NULL },
      { "slow=0:2x" },
      false },
    { "local-left-out",
      "the bandwidth leaves out tokens that stay on the node",
      "how the tool counts: DeepEP counts local tokens",
      "multiply by N / (N - 1) nodes before comparing",
      CAUSE_NETWORK | CAUSE_RATES,
      { NULL },
      { NULL },
      true },
    { NULL, NULL, NULL, NULL, 0, { NULL }, { NULL }, false },
};

const struct cause *diagnose_causes(void) { return causes; }

/* ---- planting ---- */

static bool by_network(const struct validate_row *row, uint32_t a_node)
{
    return row->options.nvlink_disabled || row->options.num_ranks > a_node;
}

static bool applies(const struct cause *cause, const struct cluster *cluster, const struct validate_row *row)
{
    const struct case_options *c = &row->options;
    const uint32_t a_node = c->ranks_per_node ? c->ranks_per_node : cluster->nvlink.gpus;
    if (cause->scope & CAUSE_NETWORK && (!cluster->nic.rate_bps || !by_network(row, a_node))) return false;
    if (cause->scope & CAUSE_PORTS && cluster->nic.ports < 2) return false;
    if (cause->scope & CAUSE_NVLINK && (c->nvlink_disabled || a_node < 2 || cluster->host.cores)) return false;
    if (cause->scope & CAUSE_SMS && (!c->kernel || !strcmp(c->kernel, "ll"))) return false;
    if (cause->scope & CAUSE_RATES && !(row->measured_gbs > 0)) return false;
    if (cause->scope & CAUSE_DRAWN && (c->trace || c->traffic)) return false;
    return true;
}

/* "node.nics=50%" becomes "node.nics=4" where there are 8. */
static char *setting_resolve(const char *setting, const struct cluster *cluster, const struct validate_row *row)
{
    const char *equals = strchr(setting, '=');
    if (!g_str_has_suffix(setting, "%")) return g_strdup(setting);
    const double share = g_ascii_strtod(equals + 1, NULL) / 100;
    g_autofree char *key = g_strndup(setting, (gsize)(equals - setting));
    const uint32_t gpus = cluster->node.gpus ? cluster->node.gpus : cluster->nvlink.gpus;
    const uint32_t a_node = row->options.ranks_per_node ? row->options.ranks_per_node : gpus;
    const uint32_t nics = cluster->node.nics ? cluster->node.nics : MAX(a_node / MAX(cluster->nic.gpus_per_nic, 1), 1);
    const uint64_t rate = !strcmp(key, "nic.rate")             ? cluster->nic.rate_bps
                          : !strcmp(key, "nvlink.egress-rate") ? cluster->nvlink.egress_rate_bps
                                                               : cluster->nvlink.ingress_rate_bps;
    if (!strcmp(key, "node.nics")) return g_strdup_printf("%s=%u", key, MAX((uint32_t)(nics * share), 1u));
    return g_strdup_printf("%s=%.6g GB/s", key, (double)rate / 8e9 * share);
}

static bool option_plant(struct case_options *c, const char *option, const struct cluster *cluster)
{
    const char *equals = strchr(option, '=');
    g_autofree char *name = g_strndup(option, (gsize)(equals - option));
    g_autofree char *value = g_strdup(equals + 1);
    if (!strcmp(name, "num-sms")) {
        const uint32_t sms = (c->num_sms ? c->num_sms : 24) / 4 * 2; /* half, and even */
        g_free(value);
        value = g_strdup_printf("%u", MAX(sms, 2u));
    } else if (!strcmp(name, "tokens-per-rank")) {
        struct case_options whole;
        case_copy(&whole, c);
        case_node_settle(&whole, cluster->nvlink.gpus);
        case_resolve(&whole);
        g_autoptr(GString) list = g_string_new(NULL);
        for (uint32_t r = 0; r < whole.num_ranks; r++)
            g_string_append_printf(list, "%s%u", r ? "|" : "", whole.num_tokens * (r ? 1 : 4));
        case_clear(&whole);
        g_free(value);
        value = g_string_free(g_steal_pointer(&list), FALSE);
    }
    return case_set(c, name, value, NULL);
}

bool cause_plant(const struct cause *cause, const struct cluster *cluster, struct validate_row *row)
{
    if (!applies(cause, cluster, row)) return false;
    g_autoptr(GPtrArray) settings = g_ptr_array_new();
    for (char **s = row->settings; s && *s; s++) g_ptr_array_add(settings, g_strdup(*s));
    for (uint32_t i = 0; i < CAUSE_SETTINGS_MAX && cause->setting[i]; i++)
        g_ptr_array_add(settings, setting_resolve(cause->setting[i], cluster, row));
    g_ptr_array_add(settings, NULL);
    g_strfreev(row->settings);
    row->settings = (char **)g_ptr_array_free(g_steal_pointer(&settings), FALSE);
    for (uint32_t i = 0; i < CAUSE_OPTIONS_MAX && cause->option[i]; i++)
        if (!option_plant(&row->options, cause->option[i], cluster)) return false;
    if (cause->leaves_local_out) {
        const uint32_t a_node = row->options.ranks_per_node ? row->options.ranks_per_node : cluster->nvlink.gpus;
        const double nodes = (double)row->options.num_ranks / MAX(a_node, 1u);
        if (nodes < 2) return false;
        row->measured_gbs *= nodes / (nodes - 1);
    }
    return true;
}
