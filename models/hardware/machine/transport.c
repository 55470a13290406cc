/* transport.c - the table of transports; see transport.h.  Sources: "5.2" etc. are sections of the specification in
 * models/moe that says what parts cost.  Derived numbers show their arithmetic.
 *
 * A word takes 1.212 us from a kernel to a thread of the host.  That is half of the round trip on an H200's host
 * (tests/accuracy/measured/h200-thread: host_flag).
 *
 * A thread without GDRCopy has a copy made for each request.  A copy's call takes 1.126 times as long as a launch's,
 * as measured on one host (tests/accuracy/measured/h200-x2-calls: host_copy, launch plain).  A launch takes 2.46 us
 * on bare metal, so a copy takes 2.77 us. */
#include "models/hardware/machine/transport.h"

#include <string.h>
#include "sim/units.h"

#define NS *PS_PER_NS
#define US *PS_PER_US

static const struct transport table[] = {
    { .name = "ibrc",
      .provider = CLUSTER_PROVIDER_MLX5,
      .what = "NVSHMEM over verbs, posted by a thread of the host",
      .source = "5.2: 3 M requests/s on ConnectX-7; measured: 1.212 us to a thread; 5.2: system "
                "fence 0.58; an atomic is a message to the target's thread, which takes it in (62 ns), posts its place "
                "again (81), loads the word through GDRCopy's mapping (860), stores it (89), answers (175) and sees "
                "the answer complete (62); the asking thread takes the answer in (62) and posts its place again "
                "(81).  Steps: ibrc.cpp of NVSHMEM; loads and stores: GDRCopy's README; completions 61.63, posts "
                "175.42, of which 94.25 go to the NIC, which receives do without: Zambre et al., Breaking Band, ICPP "
                "2019",
      .poster = CLUSTER_POST_PROXY,
      .post_ps = 580 NS,
      .doorbell_ps = 333 NS,
      .proxy_ps = 1212 NS,
      .threads = 1,
      .queues = 1,
      .message_ps = 1329 NS,
      .answer_ps = 143 NS,
      .mapped_ps = 2770 NS },
    { .name = "ibgda",
      .provider = CLUSTER_PROVIDER_MLX5,
      .what = "NVSHMEM over verbs, posted by warps",
      .source = "5.2: 3.07 us of an SM, doorbell in it 0.77; NVSHMEM's own code 7.33",
      .poster = CLUSTER_POST_GPU,
      .post_ps = 2300 NS,
      .doorbell_ps = 770 NS,
      .library_ps = 4260 NS,
      .threads = 1 },
    { .name = "ibgda-cpu",
      .provider = CLUSTER_PROVIDER_MLX5,
      .what = "the same, requests written by warps, doorbells rung by a thread of the host",
      .source = "5.2: as ibgda; measured: 1.212 us to a thread; 5.2: a post by a CPU 75 ns",
      .poster = CLUSTER_POST_PROXY,
      .post_ps = 2300 NS,
      .doorbell_ps = 75 NS,
      .library_ps = 4260 NS,
      .proxy_ps = 1212 NS,
      .threads = 1,
      .mapped_ps = 2770 NS },
    { .name = "libfabric",
      .provider = CLUSTER_PROVIDER_CXI,
      .what = "NVSHMEM over libfabric (Slingshot's CXI), posted by a thread of the host",
      .source =
          "5.2 as ibrc; 5.5: unordered; a put with a signal is a put, a wait of the thread until it is "
          "acknowledged, and an atomic (nvshmemt_put_signal with libfabric's fence, NVSHMEM 3.4); NVSHMEM asks for "
          "FI_DELIVERY_COMPLETE, for which CXI sets `flush`; CXI counts completions in the NIC, and "
          "fi_cntr_read asks it: 333 ns, the request's fetch 1.0 us, PCIe 0.70",
      .poster = CLUSTER_POST_PROXY,
      .post_ps = 580 NS,
      .doorbell_ps = 333 NS,
      .proxy_ps = 1212 NS,
      .threads = 1,
      .queues = 1,
      .order = TRANSPORT_FENCE,
      .mapped_ps = 2770 NS,
      .flushed = true,
      .counter_ps = 2033 NS },
    { .name = "gin-proxy",
      .provider = CLUSTER_PROVIDER_MLX5,
      .what = "NCCL GIN type 2, posted by a thread of the host",
      .source = "5.2: one thread 2.3 M writes/s (435 ns); 1.7, 1.8: as many QPs as the kernels ask for; the way to the "
                "thread as ibrc",
      .poster = CLUSTER_POST_PROXY,
      .post_ps = 580 NS,
      .doorbell_ps = 435 NS,
      .proxy_ps = 1212 NS,
      .threads = 1,
      .queue_depth = 1024,
      .mapped_ps = 2770 NS },
    { .name = "gdaki",
      .provider = CLUSTER_PROVIDER_MLX5,
      .what = "NCCL GIN type 3, posted by warps",
      .source = "5.2: round trip 17 us where IBGDA has 24.3: 3.65 less for a put and a signal, so 1.25 for a request",
      .poster = CLUSTER_POST_GPU,
      .post_ps = 480 NS,
      .doorbell_ps = 770 NS,
      .threads = 1,
      .queue_depth = 1024 },
    { .name = "nixl",
      .provider = CLUSTER_PROVIDER_MLX5,
      .what = "NIXL's device API over UCX's rc_gda, posted by warps",
      .source = "as gdaki: both ring, write the record and ring again by DOCA's code (UCX gdaki.cuh "
                "uct_rc_mlx5_gda_db, NCCL doca_gpu_dev_verbs_submit_db)",
      .poster = CLUSTER_POST_GPU,
      .post_ps = 480 NS,
      .doorbell_ps = 770 NS,
      .threads = 1,
      .queue_depth = 1024 },
    { .name = "uccl",
      .provider = CLUSTER_PROVIDER_MLX5,
      .what = "UCCL's threads of the host over verbs, signals added up by software",
      .source = "1.10: 4 threads, FIFO of 2048, at most 32 in flight a channel, no limit of bytes "
                "(UCCL_IB_MAX_INFLIGHT_BYTES; 1.5 MB is set for Thor-2 alone); 5.2: FIFO 3 us; 2.3 M "
                "writes/s of a thread (435 ns), which posts those to a peer as one list",
      .poster = CLUSTER_POST_PROXY,
      .post_ps = 580 NS,
      .doorbell_ps = 435 NS,
      .proxy_ps = 3 US,
      .threads = 4,
      .fifo_depth = 2048,
      .queue_depth = 32,
      .atomic_ps = 75 NS,
      .order = TRANSPORT_RECEIVER,
      .host_words = true },
    { .name = "uccl-efa",
      .provider = CLUSTER_PROVIDER_EFA,
      .what = "the same over EFA, each write with an immediate that a thread of the peer takes in",
      .source = "as uccl; 5.2: 1.5 us a request",
      .poster = CLUSTER_POST_PROXY,
      .post_ps = 580 NS,
      .doorbell_ps = 1500 NS,
      .proxy_ps = 3 US,
      .threads = 4,
      .fifo_depth = 2048,
      .queue_depth = 32,
      .atomic_ps = 75 NS,
      .order = TRANSPORT_RECEIVER,
      .host_words = true },
    { .name = "fabric-lib",
      .provider = CLUSTER_PROVIDER_MLX5,
      .what = "pplx-garden's thread of the host over verbs, which polls the GPU's flags through GDRCopy",
      .source =
          "5.2: 2.3 M writes/s of a thread (435 ns); a look through GDRCopy's mapping takes 860 ns (as ibrc), and "
          "a flag is seen by one that begins half of that later and is half on its way",
      .poster = CLUSTER_POST_PROXY,
      .doorbell_ps = 435 NS,
      .proxy_ps = 860 NS,
      .threads = 1 },
    { .name = "fabric-lib-efa",
      .provider = CLUSTER_PROVIDER_EFA,
      .what = "the same over EFA",
      .source = "as fabric-lib; 5.2: 1.5 us a request",
      .poster = CLUSTER_POST_PROXY,
      .doorbell_ps = 1500 NS,
      .proxy_ps = 860 NS,
      .threads = 1,
      .order = TRANSPORT_RECEIVER },
    { .name = "mpi",
      .provider = CLUSTER_PROVIDER_CXI,
      .what = "MPI's two-sided messages, matched and completed by a CPU",
      .source = "osu_bibw on Olivia (GH200, Slingshot-11), 8 B to 1 KB: a message sent and one received take a process "
                "1.53 us with Open MPI 5 and 1.78 with Cray MPICH, 0.83 each (EESSI's blog, 2026-05)",
      .poster = CLUSTER_POST_PROXY,
      .doorbell_ps = 830 NS,
      .threads = 1,
      .receive_ps = 830 NS },
    { .name = "tcp",
      .what = "MPI's two-sided messages over TCP: the kernel's copies at both ends, no RDMA",
      .source = "osu_bw, MPICH over TCP on two c4.8xlarge: 0.31 MB/s of 1 B, so 3.2 us a message (MPICH issue 2635); "
                "NCCL's kernels hand over to a thread and look at what one has left them, 1.212 us each, measured; "
                "a flow has 42 Gbit/s by one core, the receiver's (Cai et al., Host Network Stack Overheads, SIGCOMM "
                "2021)",
      .poster = CLUSTER_POST_GPU,
      .post_ps = 75 NS,
      .doorbell_ps = 3125 NS,
      .library_ps = 2424 NS,
      .threads = 1,
      .copy_rate_bps = UINT64_C(42000000000),
      .receive_ps = 3200 NS },
    { .name = "verbs",
      .provider = CLUSTER_PROVIDER_MLX5,
      .what = "a CPU that posts its own requests",
      .source = "5.2: ibv_post_send 75 ns, 2.3 M writes/s of a thread",
      .poster = CLUSTER_POST_GPU,
      .post_ps = 75 NS,
      .doorbell_ps = 360 NS,
      .threads = 1 },
};

struct transport transport_of(const struct cluster_nic *nic)
{
    return (struct transport){
        .name = "as the file says",
        .provider = nic->provider,
        .poster = nic->posting,
        .post_ps = nic->post_ps,
        .doorbell_ps = nic->doorbell_ps,
        .library_ps = nic->library_ps,
        .proxy_ps = nic->proxy_ps,
        .threads = nic->proxy_threads ? nic->proxy_threads : 1,
        .queue_depth = nic->queue_depth,
        .window_bytes = nic->window_bytes,
    };
}

uint64_t transport_notice_ps(const struct transport *t)
{
    return t->counter_ps * TRANSPORT_COUNTERS / 2 + t->counter_ps / 2;
}

/* NVSHMEM's thread asks once for each peer.  The answer also tells it that the counter has come as far as it should. */
uint64_t transport_quiet_ps(const struct transport *t, uint32_t peers)
{
    return t->counter_ps ? transport_notice_ps(t) + (peers - 1) * t->counter_ps : 0;
}

const struct transport *transport_at(uint32_t index)
{
    return index < sizeof table / sizeof table[0] ? &table[index] : NULL;
}

const struct transport *transport_find(const char *name)
{
    for (uint32_t i = 0; transport_at(i); i++)
        if (!strcmp(table[i].name, name)) return &table[i];
    return NULL;
}
