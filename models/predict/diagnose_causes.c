/* diagnose_causes.c - the causes that diagnose knows: each cause's effect on a cluster file or a case, its check, and
 * its remedy.  They are the causes that people found in public threads about these kernels (tests/accuracy/threads).
 *
 * Sources of numbers are in PROTOCOLS.md.  A CPU proxy without GDRCopy takes 3.7 us a request to read GPU memory (5.2).
 * NCCL plans with 6, 10 or 22 GB/s between sockets, depending on the CPUs' generation (5.3).  Across sockets a NIC was
 * measured to read 11 GB/s (5.3).  Copies through host memory run at the rate of PCIe, before and after the network:
 * 65 Gb/s where 85 Gb/s go directly (openucx/ucx issue 11121).  Knows no simulation. */
#include "models/predict/diagnose.h"

#include <string.h>
#include "models/predict/diagnose_rank.h"

#define LEAF_SPINE "network.topology=leaf-spine", "network.nodes-per-leaf=1"
#define ECMP       LEAF_SPINE, "network.routing=ecmp"
#define CROWDED    LEAF_SPINE, "network.spines=4", "network.routing=adaptive"

/* clang-format off */
static const struct cause causes[] = {
    { "one-nic", "all ranks of a node use one NIC",
      "NVSHMEM_DEBUG=INFO: which NIC each PE opens; counters of the other NICs stay still",
      "unset NVSHMEM_ENABLE_NIC_PE_MAPPING, or name a NIC for each PE in NVSHMEM_HCA_LIST; see eptwin probe",
      CAUSE_NETWORK | CAUSE_SHARED, { 5, 0 },
      { { NULL, { "node.nics=1" }, { NULL }, 0 },
        { "which most of them reach through the root complex", { "node.nics=1", "nic.rate=50%" }, { NULL }, 0 } } },
    { "one-port", "traffic uses one of a NIC's ports or planes",
      "ibstat: rate and state of both ports; counters of each port; QPs of a peer",
      "more QPs a peer (num_qps_per_rank, NCCL_IB_QPS_PER_CONNECTION=4), NVSHMEM_IBGDA_ENABLE_MULTI_PORT=1 on planes, "
      "or LAG hashing by QP",
      CAUSE_NETWORK | CAUSE_PORTS, { 5, 4 },
      { { NULL, { "nic.ports=1", "nic.rate=100%" }, { NULL }, 0 },
        { "which two ranks share", { "nic.ports=1", "nic.rate=100%", "node.nics=50%" }, { NULL }, 0 },
        { "by peer: one QP each", { NULL }, { "fault=qp: one" }, 0 } } },
    { "half-the-nics", "two ranks share a NIC, and half of the NICs are idle",
      "NVSHMEM_DEBUG=INFO: which NIC each PE opens; common where two GPUs and two NICs share a PCIe switch",
      "set NVSHMEM_HCA_LIST by rank (DeepEP pull request 466), or NVSHMEM_HCA_PE_MAPPING",
      CAUSE_NETWORK | CAUSE_SHARED, { 1, 1 },
      { { NULL, { "node.nics=50%" }, { NULL }, 0 } } },
    { "across-sockets", "GPUs and NICs meet across the socket",
      "nvidia-smi topo -m: SYS between a GPU and its NIC; eptwin probe",
      "bind each rank to the NIC of its own PCIe switch; bind processes to cores of the same NUMA node",
      CAUSE_NETWORK | CAUSE_GPU_PATH, { 1, 4 },
      { { "at 11 GB/s", { "node.pcie-rate=11 GB/s" }, { NULL }, 0 },
        { "at 22 GB/s", { "node.pcie-rate=22 GB/s" }, { NULL }, 0 },
        { "at 6 GB/s", { "node.pcie-rate=6 GB/s" }, { NULL }, 0 } } },
    { "no-peer-path", "bytes between GPU and NIC go through the root complex or the host's memory, not directly",
      "lspci -vvv: ACSCtl with SrcValid+; lsmod: nvidia_peermem, or dma-buf support; eptwin probe",
      "turn ACS and the IOMMU's translation off; load nvidia-peermem",
      CAUSE_NETWORK | CAUSE_GPU_PATH, { 0, 9 },
      { { "redirected by ACS", { "node.pcie-rate=50%" }, { NULL }, 0 },
        { "staged: copied, then sent by one port", { "node.staging=in-turn", "nic.rate=100%" }, { NULL }, 0 } } },
    { "pcie-ordering", "PCIe writes of the NIC are kept in order",
      "ib_write_bw: 'PCIe relax order'; lspci: MaxReadReq and RlxdOrd; the CPU's generation",
      "relaxed ordering on (UCX_IB_PCI_RELAXED_ORDERING=y, NCCL_IB_PCI_RELAXED_ORDERING=1, PCI_WR_ORDERING of the NIC)",
      CAUSE_NETWORK, { 0, 2 },
      { { NULL, { "node.pcie-rate=16 GB/s" }, { NULL }, 0 } } },
    { "ecmp", "flows collide on uplinks: ECMP without adaptive routing",
      "compare 2 nodes below one leaf with more nodes; counters of the uplinks",
      "adaptive routing on the switches, static routes for each rail, or more QPs so that more flows are hashed",
      CAUSE_NETWORK | CAUSE_ETHERNET, { 2, 2 },
      { { "hashed by address, uplinks as fast as NICs",
          { ECMP, "network.spines=8", "network.flow-key=address" }, { NULL }, 0 },
        { "hashed by address, uplinks twice as fast",
            { ECMP, "network.spines=4", "network.flow-key=address" }, { NULL }, 0 },
        { "hashed by QP, uplinks as fast as NICs",
            { ECMP, "network.spines=8", "network.flow-key=qp" }, { NULL }, 0 } } },
    { "no-gdrcopy", "the CPU rings doorbells for the GPU and reads its memory without GDRCopy",
      "lsmod: gdrdrv; eptwin probe",
      "install and load gdrdrv, or set EnableStreamMemOPs and PeerMappingOverride so that the GPU rings itself",
      CAUSE_NETWORK | CAUSE_GPU_PATH | CAUSE_GPU_POSTS, { 1, 0 },
      { { NULL,
          { "nic.posting=proxy", "nic.proxy=2.7 us", "nic.doorbell=3.7 us", "nic.proxy-threads=1" }, { NULL }, 0 } } },
    { "cpu-proxy", "a CPU thread posts the requests (IBRC or a GIN proxy)",
      "NVSHMEM_IB_ENABLE_IBGDA, NCCL_GIN_TYPE: 2 is the proxy; git log -1 of DeepEP",
      "NVSHMEM_IB_ENABLE_IBGDA=1, or NCCL_GIN_TYPE=3; a newer DeepEP (--deepep says which one it is)",
      CAUSE_NETWORK | CAUSE_GPU_POSTS, { 1, 0 },
      { { "IBRC", { NULL }, { "backend=ibrc" }, 0 },
        { "doorbells of IBGDA", { NULL }, { "backend=ibgda-cpu" }, 0 },
        { "GIN proxy", { NULL }, { "backend=gin-proxy" }, 0 },
        { "IBRC, as DeepEP had it before 2025-04-22", { NULL }, { "deepep=before-ibgda" }, 0 } } },
    { "late-ranks", "waiting is counted as transfer: ranks launch at different times",
      "time a barrier before the kernel; compare the fastest rank with the slowest",
      "measure behind a barrier; look for work that delays some ranks",
      CAUSE_MOE | CAUSE_WORK, { 4, 0 },
      { { "all, at random", { NULL }, { "arrival=uniform:EXCESS" }, 0 },
        { "one of them", { NULL }, { "arrival=one:EXCESS" }, 0 },
        { "by milliseconds, before dispatch, which combine follows at once", { NULL },
          { "arrival=uniform:EXCESS", "launch=stream" }, 0 } } },
    { "half-rate", "the NIC's ports run at half the rate assumed",
      "ibstat, mlxlink: rate and width of the port; lspci: PCIe width",
      "replace the cable or module, reseat the card; or the cluster file names a faster NIC than there is",
      CAUSE_NETWORK, { 1, 1 },
      { { NULL, { "nic.rate=50%" }, { NULL }, 0 } } },
    { "quarter-rate", "the NIC's ports run at a quarter of the rate assumed",
      "ibstat, mlxlink: rate and width of the port; lspci: PCIe width",
      "replace the cable or module, reseat the card; or the cluster file names a faster NIC than there is",
      CAUSE_NETWORK, { 0, 0 },
      { { NULL, { "nic.rate=25%" }, { NULL }, 0 } } },
    { "one-bad-nic", "one NIC of many is slow",
      "counters of errors and the rate of each NIC; time each pair of nodes alone",
      "replace the cable or module of the slow one",
      CAUSE_NETWORK | CAUSE_SHARED, { 0, 0 },
      { { "half its rate", { NULL }, { "fault=nic:n0.g0 rate=0.5" }, 0 },
        { "a quarter of its rate", { NULL }, { "fault=nic:n0.g0 rate=0.25" }, 0 } } },
    { "few-sms", "the kernels have fewer SMs than assumed",
      "Buffer.set_num_sms, num_sms of the Config",
      "Buffer.set_num_sms(24) or more",
      CAUSE_SMS, { 2, 0 },
      { { "half of them", { NULL }, { "num-sms=50%" }, 0 },
        { "a quarter of them", { NULL }, { "num-sms=25%" }, 0 } } },
    { "small-chunks", "chunks are smaller than recommended",
      "the arguments of deep_ep.Config; eptwin tune",
      "Buffer.get_dispatch_config and get_combine_config, or the line that eptwin tune prints",
      CAUSE_SMS, { 0, 0 },
      { { "by NVLink: one token", { NULL }, { "nvl-chunk=1", "combine-nvl-chunk=1" }, 0 } } },
    { "hot-expert", "a few experts get most of the tokens",
      "counts for each expert; eptwin trace info",
      "redundant experts and balanced placement: eptwin trace remap --placement eplb:N",
      CAUSE_DRAWN | CAUSE_MOE, { 1, 0 },
      { { "Zipf with exponent 1.2", { NULL }, { "routing=zipf:1.2" }, 0 },
        { "Zipf with exponent 0.8", { NULL }, { "routing=zipf:0.8" }, 0 },
        { "half of all tokens to one rank", { NULL }, { "routing=hot-rank:0.5" }, 0 } } },
    { "uneven-tokens", "some ranks have more tokens than the others",
      "tokens of each rank in the batch",
      "balance batches over ranks",
      CAUSE_DRAWN | CAUSE_MOE, { 1, 0 },
      { { "one rank, four times as many", { NULL }, { "tokens-per-rank=rank:4" }, 0 },
        { "one rank, twice as many", { NULL }, { "tokens-per-rank=rank:2" }, 0 },
        { "one node, four times as many", { NULL }, { "tokens-per-rank=node:4" }, 0 },
        { "one node, eight times as many", { NULL }, { "tokens-per-rank=node:8" }, 0 } } },
    { "no-nvlink", "ranks of a node reach each other by NICs, not by NVLink",
      "--disable-nvlink, NVSHMEM_DISABLE_P2P; nvidia-smi nvlink -s",
      "remove the option; look for Xid errors and the fabric manager's log",
      CAUSE_NVLINK | CAUSE_MOE, { 2, 0 },
      { { NULL, { NULL }, { "disable-nvlink=true" }, 0 } } },
    { "local-tokens", "measurement and prediction count tokens that stay on the node differently",
      "how the tool counts: DeepEP counts local tokens, counters of NICs do not",
      "compare logical with logical: times N / (N - 1) of N nodes, or name the metric (physical_nic_gbs)",
      CAUSE_NETWORK | CAUSE_RATES | CAUSE_MOE | CAUSE_COUNTED, { 3, 0 },
      { { "leaves them out", { NULL }, { NULL }, 1 },
        { "counts them in", { NULL }, { NULL }, -1 } } },
    { "window", "few bytes are in flight: congestion control, read limits or a small window hold senders back",
      "counters of ECN marks and CNPs; the NIC's congestion control settings; MAX_ACC_OUT_READ",
      "turn DCQCN off where PFC or credits protect, or tune it; raise the cap of bytes in flight",
      CAUSE_NETWORK, { 1, 1 },
      { { "128 KiB", { "nic.window=128 KiB" }, { NULL }, 0 },
        { "48 KiB", { "nic.window=48 KiB" }, { NULL }, 0 } } },
    { "oversubscribed", "uplinks are oversubscribed",
      "eptwin probe on ibnetdiscover's output; count uplinks of a leaf",
      "place the nodes of a group below one leaf, or add uplinks",
      CAUSE_NETWORK, { 0, 0 },
      { { "2:1",
          { CROWDED, "network.oversubscription=2" }, { NULL }, 0 },
        { "4:1",
            { CROWDED, "network.oversubscription=4" }, { NULL }, 0 } } },
    { "small-mtu", "packets carry 1024 bytes of RoCE",
      "ibv_devinfo: active_mtu",
      "MTU 4200 or more on hosts and switches",
      CAUSE_NETWORK | CAUSE_ETHERNET, { 0, 1 },
      { { NULL, { "nic.mtu=1024 B", "nic.header=82 B" }, { NULL }, 0 } } },
    { "half-nvlink", "NVLink runs at half its rate",
      "nvidia-smi nvlink -s: links that are down",
      "reset the GPU; service the board",
      CAUSE_NVLINK, { 1, 0 },
      { { NULL, { "nvlink.egress-rate=50%", "nvlink.ingress-rate=50%" }, { NULL }, 0 } } },
    { "slow-rank", "one rank's GPU or core is slow",
      "nvidia-smi -q -d CLOCK,PERFORMANCE: throttling; other work on its cores; time each rank alone",
      "cool, power or replace the GPU; leave the rank's cores to it",
      0, { 0, 1 },
      { { "twice as slow", { NULL }, { "slow=0:2x" }, 0 },
        { "four times as slow", { NULL }, { "slow=0:4x" }, 0 },
        { "eight times as slow", { NULL }, { "slow=0:8x" }, 0 },
        { "sixteen times as slow", { NULL }, { "slow=0:16x" }, 0 } } },
    { NULL, NULL, NULL, NULL, 0, { 0, 0 }, { { NULL, { NULL }, { NULL }, 0 } } },
};
/* clang-format on */

const struct cause *diagnose_causes(void) { return causes; }

uint32_t cause_variants(const struct cause *cause)
{
    uint32_t n = 0;
    while (n < CAUSE_VARIANTS_MAX &&
           (cause->variant[n].setting[0] || cause->variant[n].option[0] || cause->variant[n].local))
        n++;
    return n;
}

uint32_t cause_variant_strengths(const struct cause_variant *variant)
{
    return variant->option[0] && strstr(variant->option[0], "EXCESS") ? 8 : 1;
}

/* Of the threads that the table counts, one in THREADS_ON_PORTS was about NICs with several ports (8 of 38, 4 of 26),
 * and one in THREADS_ON_ETHERNET about RoCE.  So a cause that needs such a machine is that many times as likely on
 * one. */
#define THREADS_ON_PORTS    5
#define THREADS_ON_ETHERNET 2

double cause_prior(const struct cause *cause, const struct cause_context *c)
{
    const unsigned unlikely = (c->public_test ? CAUSE_DRAWN | CAUSE_WORK : 0) | (c->sms_stated ? CAUSE_SMS : 0);
    if (cause->scope & unlikely) return rank_prior(0, 0);
    if (cause->scope & CAUSE_ETHERNET && !c->ethernet)
        return rank_prior(0, cause->threads[CAUSE_OF_KERNELS] + cause->threads[CAUSE_OF_MESSAGES]);
    const uint32_t times =
        (cause->scope & CAUSE_PORTS ? THREADS_ON_PORTS : 1) * (cause->scope & CAUSE_ETHERNET ? THREADS_ON_ETHERNET : 1);
    return times * rank_prior(cause->threads[c->topic], cause->threads[!c->topic]);
}

double cause_unknown_prior(const struct cause_context *c)
{
    uint32_t alone = 0; /* causes that only one thread ended with */
    for (const struct cause *cause = causes; cause->id; cause++) alone += cause->threads[c->topic] == 1;
    return rank_prior(RANK_THREADS_UNSOLVED + alone, 0);
}
