/* cluster.h - the description of a cluster: its parts and their parameters, each with a unit and a source.
 *
 * A cluster file is a GLib key file with one section for each part.  Values carry units ("45 GB/s", "870 ns", "4096
 * B").  A comment at each value names its source.  Parameters belong to parts (this GPU, this NIC), never to a case.
 * This module knows no simulation. */
#ifndef MODELS_CLUSTER_H
#define MODELS_CLUSTER_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* How fast a host's core, which runs the warps' work, does one kind of work on rows (copy, cast, reduce).  A row takes
 * row_ps and the time of its bytes at warp_rate. */
struct cluster_work {
    uint64_t row_ps;
    uint64_t warp_rate_bps;
};

/* How many extra times the bulk copy engine must move bytes whose place in a 128-byte line differs from their place
 * in shared memory.  The index is the difference of the two places in units of 16 B. */
enum { CLUSTER_PLACES = 8 };
struct cluster_passes {
    uint8_t in[CLUSTER_PLACES], out[CLUSTER_PLACES];
};

/* The SM's bulk copy engine.  One half moves rows in, the other moves rows out.  Each half moves one row of a warp at a
 * time. */
struct cluster_bulk {
    uint64_t in_ps, out_ps; /* in_ps: until a requested row is in shared memory; out_ps: until a row from shared
                             * memory has been written */
    uint64_t in_rate_bps, out_rate_bps, put_rate_bps; /* rates of all warps together: into shared memory; out to the
                                                       * GPU's memory; out to a peer's memory */
    uint64_t in_l2_ps;                                /* in_ps of a row that is in the L2 */
    uint64_t turn_ps;                                 /* how long a request and the wait for it keep a warp busy */
    uint64_t request_ps;                              /* the shortest time of a request, however small it is */
    uint64_t ahead_bytes;                             /* the most of an SM's stores to peers for which its other
                                                       * loads and words wait */
    struct cluster_passes passes;
};

/* Pairs of SMs (TPCs), in the order in which they get thread blocks, and the CPC of each pair. */
enum { CLUSTER_PAIRS_MAX = 128, CLUSTER_CPCS_MAX = 32, CLUSTER_DIES_MAX = 4 };
struct cluster_cpcs {
    uint8_t pairs, cpcs; /* cpcs: the largest number of a pair's CPC, plus one */
    uint8_t cpc[CLUSTER_PAIRS_MAX];
    uint8_t round[CLUSTER_PAIRS_MAX]; /* the round of each pair: every pair of a round gets a block before any of
                                       * them gets a second one */
    uint8_t gpus;                     /* how many consecutive GPUs of a node are of this kind before the next kind
                                       * follows */
};

/* The kinds of a product's GPUs.  Kinds differ in the SMs that they lack.  kinds 0: not known. */
struct cluster_dies {
    uint8_t kinds;
    struct cluster_cpcs kind[CLUSTER_DIES_MAX];
};

/* A GPU's parameters.  cluster_load() derives scan_row_ps from other keys. */
struct cluster_gpu {
    uint32_t sms;
    uint64_t launch_ps; /* the part of a kernel's duration in which its workers do not run */
    uint64_t beside_ps; /* launch_ps of kernels whose sheets describe all that their warps do; 0: equal to launch_ps */
    uint64_t begin_ps;  /* a kernel that may begin before the previous one ends begins so long after it may */
    uint64_t setup_ps;  /* launch_ps of such a kernel, which counts from its begin or from the previous one's end,
                         * whichever is later; 0: equal to launch_ps */
    uint64_t step_ps;   /* one pass of a warp's loop: index arithmetic, shared memory, branches */
    uint64_t poll_ps;   /* from the change of a word until the warp that polls it acts; a word also takes this time
                         * from one block of the GPU to another */
    uint64_t hbm_rate_bps;                          /* rate of bytes read plus bytes written */
    uint64_t hbm_read_rate_bps, hbm_write_rate_bps; /* the rate of reads alone; of writes alone; 0: equal to
                                                     * hbm_rate */
    uint64_t hbm_queue_ps, hbm_write_burst_ps;      /* how long loads wait in a busy memory (pressure.h); how much
                                                     * longer writes make that wait; 0: not known */
    uint64_t hbm_rows_rate_bps;            /* the rate of rows that lie apart and are read and written alternately; 0:
                                            * equal to hbm_rate */
    uint64_t l2_sms_rate_bps, l2_queue_ps; /* the rate of the L2 for all SMs together; how long loads wait in a busy L2
                                            * (pressure.h); 0: not known */
    uint64_t l2_bytes, l2_rate_bps;        /* how many bytes of recently written rows the L2 still holds; the L2's rate
                                            * for them; 0: none */
    uint64_t store_sm_rate_bps;            /* the rate at which all warps of an SM store to peers, or load from them */
    struct cluster_bulk engine;            /* the SM's bulk copy engine, in and out of shared memory */
    uint64_t reduce_sm_rate_bps;           /* the rate at which all warps of an SM read rows that they sum */
    uint64_t reduce_made_sm_rate_bps;      /* the SM's rate of writing the sums; 0: writing takes no time */
    uint64_t scan_row_ps;                  /* a warp's read of one token's entry, in a loop that waits for it */
    uint64_t touch_ps;            /* extra time of a worker's first wait for an array that has not just been written,
                                   * because its pages must be looked up */
    uint64_t load_ps, load_l2_ps; /* a wait for a load of a row that misses the L2; of one that hits it */
    uint64_t load_bytes;          /* bytes that a load which misses the L2 brings into it; 0: the bytes asked for */
    uint64_t load_again_ps;       /* a wait for a load from a line of the L2 that the SM has just read; 0: equal to
                                   * load_l2_ps */
    uint64_t load_l1_ps;          /* a wait for a load that hits the SM's L1; 0: equal to load_again_ps */
    uint64_t stage_ps;            /* the SM's fence before the bulk engine stores what a warp has made */
    uint64_t stretch_ps;          /* sums of rows that the bulk engine loads and stores: the time of a stretch of
                                   * 512 B, without its rows */
    uint64_t release_ps;          /* an atomic on own memory that releases: the time until the warp continues */
    uint64_t release_stores_ps;   /* release_ps if warps of the SM have just stored rows; 0: equal to release_ps */
    uint64_t grid_barrier_ps;     /* from the last block's coming to a grid's barrier until all have passed it; 0:
                                   * release_ps and a look */
    uint64_t sum_far_sm_rate_bps; /* how fast sums on one SM read rows that come from memory and not from the L2; 0:
                                   * no limit */
    /* Costs of programs (models/kernels/loops.h). */
    uint64_t cycle_ps, access_ps; /* a scheduler's time for one instruction; from one access of a warp to its next
                                   * one */
    uint64_t load_shared_ps;      /* a wait for shared memory */
    bool load_behind_stores;      /* a warp that waits for a load waits for its earlier stores, too */
    struct cluster_dies cpcs;     /* each CPC has an equal share of the links */
};

struct cluster_nvlink {
    uint32_t gpus;               /* the GPUs of one NVLink domain; as many ranks are of one node by default */
    uint32_t over;               /* enum cluster_peers.  PCIE: GPUs without NVLink store over PCIe.  XGMI: AMD's
                                  * links */
    uint64_t line_rate_bps;      /* nominal rate of a GPU's links, one direction; 0: egress_rate */
    uint64_t unaligned_rate_bps; /* rate of egress for rows that do not begin at a 128-byte line; 0: equal to that
                                  * of other rows */
    uint64_t split_rate_bps;     /* rate of egress for bulk copies whose buffers in shared memory do not begin at a
                                  * 128-byte line; 0: egress_rate */
    uint64_t load_rate_bps; /* rate of egress for rows that peers load while the GPU loads from them; 0: egress_rate */
    uint64_t egress_rate_bps, ingress_rate_bps; /* rates of payload out of one GPU and into one GPU */
    uint64_t bulk_rate_bps;                     /* egress rate of bulk copies; 0: equal to egress_rate */
    uint64_t bulk_crossing_rate_bps;            /* the extra time of bytes of bulk copies where flows cross, given
                                                 * as a rate; 0: no extra time */
    /* rate of egress for bulk copies whose buffers begin at a 32-byte sector but not at a line; 0: bulk_rate */
    uint64_t sector_rate_bps;
    uint64_t latency_ps;       /* from a store until it is visible at the peer */
    uint64_t fence_ps;         /* st.release.sys after a worker's own stores: the time until these stores are
                                * performed */
    uint64_t fence_crowd_ps;   /* while other warp groups of the GPU store to peers: by how much longer than the way
                                * to a peer and back (two latencies) a fence takes at most */
    uint32_t fence_crowd_half; /* how many such groups add half of fence_crowd_ps; 0: one group */
    uint64_t peek_ps;          /* a load from a peer's memory: time there and back */
};

/* How long a host takes to drive a GPU.  wait_ps 0: these times are not known. */
struct cluster_calls {
    uint64_t wait_ps; /* for a call that waits for its kernel or copy: the time until that runs, plus the time from
                       * its end until the host sees the end */
    uint64_t copy_ps, copy_rate_bps;     /* the copy engine: the time until bytes flow; its rate to a peer */
    uint64_t nccl_ps;                    /* an empty message of NCCL's send or receive, including the launch of its
                                          * kernel */
    uint64_t word_ps, await_ps;          /* a stream's write of a word; a stream's wait for a word that is already
                                          * written */
    uint64_t handed_ps, handed_peer_ps;  /* from a stream's write of a word until the stream that waits for it
                                          * continues: on the same GPU; on a peer */
    uint64_t copy_call_ps, word_call_ps; /* CPU time of a call for a copy; of a call for a write or wait of a word */
    uint64_t copy_peer_call_ps;          /* copy_call_ps for a copy to a peer; 0: equal to copy_call_ps */
    uint64_t launch_call_ps;             /* CPU time of a launch */
    uint64_t nccl_call_ps;               /* CPU time of a call of NCCL through PyTorch */
    uint64_t host_sync_ps; /* from the arrival of a count in the host's memory to the start of the kernel that it
                            * triggers */
};

/* Who posts work requests (PROTOCOLS.md 1.5 and 5.2). */
enum cluster_posting { CLUSTER_POST_GPU, CLUSTER_POST_PROXY };

struct cluster_nic {
    uint32_t gpus_per_nic;  /* GPUs that share one NIC */
    uint32_t provider;      /* enum cluster_provider */
    uint64_t line_rate_bps; /* nominal rate of a port; 0: equal to rate */
    uint64_t rate_bps;      /* rate of payload and headers together, in one direction */
    uint64_t header_bytes, mtu_bytes;
    uint64_t message_ps;   /* the NIC's work on one request, without its bytes */
    uint64_t signal_ps;    /* the NIC's work on a signal (an atomic or an inline write) */
    uint64_t signal_bytes; /* bytes of a signal on the wire, including headers */
    uint64_t fetch_ps;     /* from the doorbell until the first byte leaves: request and payload are fetched over
                            * PCIe */
    uint64_t read_ps;      /* the part of fetch_ps in which the NIC reads the payload from a GPU's memory; a signal
                            * has no payload and no such part */
    uint64_t deliver_ps;   /* from the last byte's arrival until it is visible in the peer's memory */
    enum cluster_posting posting;
    uint64_t post_ps;       /* the poster's time for one request */
    uint64_t doorbell_ps;   /* the poster's time to ring the doorbell */
    uint64_t library_ps;    /* the poster's extra time if the library's code posts in place of the kernel's */
    uint64_t proxy_ps;      /* PROXY: from the GPU's request until the proxy thread works on it */
    uint32_t proxy_threads; /* PROXY: threads of one GPU */
    uint32_t queue_depth;   /* the most requests in flight on one QP; 0: as many as the kernels ask for */
    uint64_t window_bytes;  /* the most bytes in flight on one port; 0: no limit */
    uint64_t ask_bytes;     /* the receiver fetches messages that are larger than this (rendezvous); 0: it fetches
                             * none */
    uint32_t ports;         /* ports of one NIC, each with this rate */
    uint32_t port_map;      /* enum cluster_port_map: the port that a QP uses */
    uint64_t ack_bytes;     /* bytes of an acknowledgement on the wire; 0: acknowledgements take no time there */
    uint64_t atomic_ps;     /* how long a signal takes in the receiving NIC's only unit for atomics; 0: there is no
                             * such unit */
};

/* The NIC's driver, by its name in RDMA's libraries. */
enum cluster_provider {
    CLUSTER_PROVIDER_UNKNOWN,
    CLUSTER_PROVIDER_MLX5,
    CLUSTER_PROVIDER_EFA,
    CLUSTER_PROVIDER_CXI,
    CLUSTER_PROVIDER_BNXT_RE,
    CLUSTER_PROVIDER_IONIC
};
/* The provider in words, such as "AWS's EFA". */
const char *cluster_provider_text(uint32_t provider);

enum cluster_port_map { CLUSTER_PORT_HASH, CLUSTER_PORT_ROUND_ROBIN, CLUSTER_PORT_QUEUE };

enum cluster_topology {
    CLUSTER_SINGLE,
    CLUSTER_LEAF_SPINE,
    CLUSTER_RAIL,
    CLUSTER_FAT_TREE,
    CLUSTER_DRAGONFLY,
    CLUSTER_LINKS
};
enum cluster_routing { CLUSTER_ECMP, CLUSTER_ADAPTIVE, CLUSTER_STATIC, CLUSTER_SPRAY };
enum cluster_flow_key { CLUSTER_KEY_QP, CLUSTER_KEY_ADDRESS };
enum cluster_queues { CLUSTER_QUEUE_PORT, CLUSTER_QUEUE_FLOW };
enum cluster_peers { CLUSTER_PEERS_BY_NVLINK, CLUSTER_PEERS_BY_PCIE, CLUSTER_PEERS_BY_XGMI };
enum cluster_cross_rail { CLUSTER_CROSS_BY_SPINE, CLUSTER_CROSS_BY_NVLINK };

/* The network, from which models/hardware/machine/graph.c makes parts and links. */
struct cluster_network {
    uint64_t latency_ps;                          /* from NIC to NIC through one switch */
    uint64_t rate_bps;                            /* rate of a switch's output port; 0: the NIC's */
    uint32_t topology, routing, flow_key, queues; /* each of the enum above with this name */
    uint32_t cross_rail;                          /* how a GPU's traffic reaches a port on another rail, that is, on the
                                                   * leaf of another GPU of its node */
    uint32_t nodes;           /* how many nodes `eptwin cluster show` draws; 0: one more than a leaf, a pod or a
                               * group has, or two where there is none of these */
    uint32_t nodes_per_leaf;  /* nodes whose NICs are on one leaf; 0: 16 */
    uint32_t leaves_per_pod;  /* fat tree: leaves below one set of spines; dragonfly: switches of a group; 0: 4 */
    uint32_t spines, cores;   /* switches above a pod's leaves; 0: 4; switches above the pods; 0: as many as spines */
    uint64_t uplink_rate_bps; /* rate of a link between switches; 0: it follows from the oversubscription */
    double oversubscription;  /* rate of all nodes below a leaf, divided by the rate of its uplinks; 0: 1 */
    uint64_t hop_ps;          /* extra time for each switch after the first */
    uint64_t buffer_bytes;    /* bytes that can wait before a switch's output.  If more come, they wait in the part
                               * before the switch, so none are lost.  0: unlimited */
    uint64_t quantum_bytes;   /* bytes of one message that a NIC sends before it turns to another QP; 0: the whole
                               * message */
};

/* DCQCN: how switches mark, receivers notify and senders set the rate of a QP (models/hardware/nic/dcqcn.h). */
struct cluster_dcqcn {
    uint64_t mark_from_bytes, mark_all_bytes; /* sizes of a switch's queue: no packet is marked up to mark_from;
                                               * every packet is marked above mark_all */
    double mark_share;                /* share of packets that are marked at mark_all; from mark_from on it grows in
                                       * proportion to the queue */
    uint64_t cnp_ps;                  /* the shortest time between two notifications of a receiver for one QP; 0:
                                       * there is no DCQCN */
    uint64_t cut_ps;                  /* the shortest time between two cuts of a QP's rate */
    uint64_t alpha_ps;                /* the time between two updates of alpha; a cut reduces the rate by half of
                                       * alpha */
    double gain;                      /* the share of its distance to the new value by which an update moves alpha */
    uint64_t raise_ps, raise_bytes;   /* the rate is raised after each interval of this time, and after each
                                       * interval of this many bytes */
    uint32_t recovery;                /* after a cut, this many raises by time, and this many by bytes, only go back
                                       * towards the rate before the cut */
    uint64_t additive_bps, hyper_bps; /* later raises also add additive_bps to that rate; once time and bytes have
                                       * each raised more than `recovery` times, they add hyper_bps */
    uint64_t least_bps;               /* the lowest rate to which a cut can go */
    /* true: after each cut, raises go back to the rate before that cut.  false: they do so only after the first cut and
     * after cuts that follow a raise by time */
    bool clamp_target;
};

/* How a message's bytes go through the host's memory.  NO: they do not.  YES: bytes are copied while the NIC sends
 * earlier ones.  IN_TURN: all bytes are copied, and then sent. */
enum cluster_staging { CLUSTER_STAGING_NO, CLUSTER_STAGING_YES, CLUSTER_STAGING_IN_TURN };

/* The parts of a node and the links between them. */
enum { CLUSTER_NICS_OF_MAX = 128 };
struct cluster_nics_of {
    uint32_t count;
    uint16_t nic[CLUSTER_NICS_OF_MAX];
};

#define CLUSTER_NO_NICS UINT32_MAX /* the number of NICs while a file with "nics = 0" is read */
struct cluster_node {
    uint32_t gpus;            /* GPUs of a node; 0: as many as an NVLink domain has */
    uint32_t nics;            /* NICs of a node; 0: the number that follows from gpus-per-nic */
    uint32_t sockets;         /* sockets of a node; 0: one */
    uint32_t pcie_switches;   /* GPUs and NICs are dealt out over these switches in order; 0: all are at root
                               * complexes */
    uint64_t pcie_rate_bps;   /* rate of the PCIe link of a GPU or NIC in one direction; 0: never the limit */
    uint64_t root_rate_bps;   /* rate from a GPU to a NIC through a root complex; 0: equal to pcie_rate */
    uint64_t socket_rate_bps; /* rate between sockets, for all GPUs and NICs together; 0: equal to root_rate */
    uint64_t root_latency_ps, socket_latency_ps; /* extra latency in each direction, through a root complex; between
                                                  * sockets */
    bool host_memory;                            /* messages are in the host's memory, not in a GPU's */
    uint32_t staging;          /* enum cluster_staging: NICs do not reach GPU memory, so bytes go through the host's */
    uint64_t staging_rate_bps; /* rate of copies from a GPU to the host, and of copies back; 0: equal to pcie_rate */
    uint64_t staging_latency_ps;
    struct cluster_nics_of nic_of; /* the NIC of each GPU; count 0: NICs are dealt out in order */
    /* The host, as its GPUs see it. */
    uint64_t release_system_ps; /* a release to the system when nothing was stored */
    uint64_t host_fence_ps;     /* a release to the system after stores to the host's memory; 0: as long as after
                                 * other stores */
    uint64_t host_look_ps; /* a read of a word in the host's memory; reads of one 64-byte line wait for each other */
};

/* A link of an irregular network, or of an irregular node's PCIe, in both directions, between named parts. */
struct cluster_link {
    char *from, *to, *place; /* place: the file and line of the link */
    uint64_t rate_bps, latency_ps;
    bool inside; /* the link is in every node.  Its ends are named without the node: "g0", "nic1", "pcie2" or
                  * "root0" */
};

/* A time as a function of size, measured at some sizes.  It is linear between them and constant below the first.
 * Beyond the last it continues the line through the last two. */
enum { CLUSTER_CURVE_MAX = 32 };
struct cluster_curve {
    uint32_t count;
    double size_bytes[CLUSTER_CURVE_MAX], time_ps[CLUSTER_CURVE_MAX];
};
uint64_t cluster_curve_ps(const struct cluster_curve *curve, uint64_t size_bytes);

/* Bytes of an output row in the sums that `measure` times as [host] reduce-row and sum-row: 7168 values of BF16. */
enum { CLUSTER_REDUCE_ROW_BYTES = 14336 };

/* The loop that `measure` times for different numbers of touched bytes: how many ranks a token goes to, and the bytes
 * of a row's FP8 message. */
enum { CLUSTER_LOOP_TOPK = 8, CLUSTER_LOOP_MESSAGE_BYTES = 7408 };

/* A host for live ranks (replay/).  Ranks are processes on the cores of one host, whichever NVLink domains they
 * stand for. They run the protocol without a GPU. */
struct cluster_host {
    uint32_t cores;                              /* cores of the host; 0: the cluster has GPUs in place of a host */
    uint64_t step_ps, poll_ps;                   /* one step of a worker; from a word's change until the step that
                                                  * sees it */
    uint64_t progress_ps;                        /* time of one poll of the links */
    uint64_t switch_ps;                          /* time until another process runs on a core */
    uint64_t slice_ps;                           /* how long a process keeps a core while others wait for it */
    uint64_t store_ps, store_rate_bps;           /* a store to a peer's mapping: time of each store; rate of its
                                                  * bytes */
    uint64_t interrupt_ps;                       /* extra CPU time of an arrival, unless the core is still busy with
                                                  * an earlier arrival */
    struct cluster_curve put;                    /* CPU time of a put, at each end, by its size */
    uint64_t signal_ps;                          /* CPU time of a signal, at each end */
    struct cluster_work copy, cast, reduce, sum; /* sum is reduce without weights */
    uint64_t scan_rate_bps;
    /* The times of work in a loop, by how many bytes a rank touches before it touches the same ones again.  The loop
     * casts a row of CLUSTER_REDUCE_ROW_BYTES to a message, stores the message, copies it out, stores the row, and
     * sums eight such rows.  If the curves have no points, the times above hold for any number of bytes. */
    struct {
        struct cluster_curve cast, message, copy, store, reduce;
    } loop;
};

/* A key whose value was not measured on this machine but on other hardware. */
struct cluster_assumed {
    const char *section, *key;
    char *file; /* name of the file that gives the value, without its folder: "hopper.ini" */
};

struct cluster {
    char *name, *path;
    char *digest; /* digest of the file, with included files and settings but without the name (key_file_digest()) */
    struct cluster_gpu gpu;
    struct cluster_nvlink nvlink;
    struct cluster_calls calls;
    struct cluster_nic nic;
    struct cluster_network network;
    struct cluster_dcqcn dcqcn;
    struct cluster_node node;
    struct cluster_host host;
    struct cluster_link *link; /* [link_count] */
    uint32_t link_count;
    struct cluster_assumed *assumed; /* [assumed_count] the values from files that "assume" names, in the order of
                                      * sections */
    uint32_t assumed_count;
    char **settings; /* settings such as "nic.rate=50 GB/s", as cluster_load_set() got them, NULL-terminated; NULL:
                      * none */
};

/* Reads a cluster file.  path is a file, or the name of a shipped one (sim/share.h), with or without ".ini". Returns
 * NULL and sets *error (file, section, key, expected, found) on failure. */
struct cluster *cluster_load(const char *path, GError **error);
/* Reads the text of a file that is to lie at path. */
struct cluster *cluster_parse(const char *path, const char *text, GError **error);
/* Reads a cluster with settings such as "nic.rate=50 GB/s" (NULL-terminated), which replace or add to the file's
 * values. */
struct cluster *cluster_load_set(const char *path, const char *const *settings, GError **error);
void cluster_free(struct cluster *cluster);
typedef struct cluster cluster;
G_DEFINE_AUTOPTR_CLEANUP_FUNC(cluster, cluster_free)

/* Whether [links] describe the PCIe of every node. */
bool cluster_node_written(const struct cluster *cluster);
/* The prefix that gives the kind of a part that every node has: "g", "nic", "pcie" or "root".  NULL if the name is
 * not one of such a part. */
const char *cluster_inside_kind(const char *name);

/* Parses "27 us at 1024 B, 130 us at 14336 B".  Sizes must rise and times must not fall, in at most CLUSTER_CURVE_MAX
 * points. */
bool cluster_parse_curve(const char *text, struct cluster_curve *curve);
/* Parses numbers of CPCs and ranges of them, one for each pair of SMs in order.  "|" divides rounds, and "/" divides
 * kinds of GPUs, all of which have equally many pairs. */
bool cluster_parse_cpcs(const char *text, struct cluster_dies *dies);
/* The CPCs of a node's GPU with this number; NULL if not known. */
const struct cluster_cpcs *cluster_cpcs_of(const struct cluster_dies *dies, uint32_t gpu);
/* Parse "45 GB/s" or "400 Gbit/s" as bits per second, "1.46 us" as picoseconds. */
bool cluster_parse_rate(const char *text, uint64_t *rate_bps);
bool cluster_parse_time(const char *text, uint64_t *time_ps);

#endif
