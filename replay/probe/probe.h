/* probe.h - a description of a host: its GPUs, NICs and ports, how near they are to each other, and which kinds of
 * communication the host is prepared for.
 *
 * A description is made from one of these: sysfs and /proc (of this host or of a captured one), NCCL's topology XML,
 * `nvidia-smi topo -m`, or `ibstat`, which describes only NICs.  A value that a source does not give stays unknown
 * and is never guessed.  The output of ibnetdiscover becomes a network instead (probe_ibnet.h). */
#ifndef REPLAY_PROBE_PROBE_H
#define REPLAY_PROBE_PROBE_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include "sim/error.h"

enum { PROBE_DEVICES_MAX = 256, PROBE_BRIDGES_MAX = 16, PROBE_NUMA_UNKNOWN = -1 };

enum probe_known { PROBE_UNKNOWN, PROBE_NO, PROBE_YES };

/* The path between two devices, in the words of `nvidia-smi topo -m`, nearest first. */
enum probe_near {
    PROBE_NEAR_UNKNOWN,
    PROBE_NEAR_C2C,  /* a chip-to-chip link to the CPU, without PCIe */
    PROBE_NEAR_PIX,  /* at most one PCIe bridge, that of one PCIe switch */
    PROBE_NEAR_PXB,  /* several PCIe bridges, but not the host's */
    PROBE_NEAR_PHB,  /* the host bridge: one root complex */
    PROBE_NEAR_NODE, /* through two root complexes of one NUMA node */
    PROBE_NEAR_SYS,  /* through the link between sockets */
};
const char *probe_near_name(enum probe_near near); /* "PIX", ... */

/* A PCIe function and the path to it. */
struct probe_pci {
    char *busid;                     /* "0000:18:00.0"; NULL: not known */
    char *root;                      /* its root complex: "pci0000:16" */
    char *bridge[PROBE_BRIDGES_MAX]; /* bridges from the root port down to the bridge right above the device */
    uint32_t bridge_count;
    uint32_t class_code; /* 0x030200, ... */
    uint16_t vendor, device;
    int32_t numa;
    uint32_t width, width_max;                  /* number of lanes; 0: unknown, as in many virtual machines */
    double gts, gts_max;                        /* GT/s of a lane; 0: unknown */
    enum probe_known relaxed_ordering, atomics; /* whether the device is allowed to use them */
    enum probe_known acs_redirect; /* whether a bridge above the device sends traffic between peers up to the root
                                    * complex */
};

struct probe_gpu {
    struct probe_pci pci;
    const struct probe_part *part; /* NULL: a part that eptwin does not know */
    uint32_t nvlinks;              /* number of links to its NVLink domain; 0: none, or unknown if nvlink_known is
                                    * false */
    bool nvlink_known, c2c;
};

struct probe_nic {
    struct probe_pci pci;
    const struct probe_part *part;
    char *name;        /* "mlx5_0" */
    char *driver;      /* "mlx5_core", "efa", ...; NULL: unknown */
    char *link_layer;  /* "InfiniBand", "Ethernet", "Slingshot"; NULL: unknown */
    char *state;       /* "ACTIVE", ...; NULL: unknown */
    uint64_t rate_bps; /* rate of one port; 0: unknown */
    uint32_t ports, mtu_bytes;
    uint32_t gids_roce_v2;
    bool gids_known;
    bool bond; /* whether its ports form a LAG; rate_bps is still that of one port */
};

/* A requirement of one kind of communication: whether the host meets it, and otherwise what to do. */
struct probe_check {
    const char *topic; /* "gpudirect", "ibgda", "cxi", ... */
    const char *name;
    enum probe_known met;
    char *found;
    const char *remedy; /* NULL if the host meets the requirement */
};

struct probe_host {
    char *source;          /* "this host", or the file that describes it */
    struct probe_gpu *gpu; /* [gpu_count] */
    struct probe_nic *nic; /* [nic_count] */
    uint32_t gpu_count, nic_count;
    enum probe_near *near; /* [gpu_count][nic_count] */
    uint32_t numa_nodes, cpus;
    char *cpu;                               /* model name; NULL: unknown */
    enum probe_known virtual_machine, iommu; /* iommu: whether an IOMMU translates DMA */
    GArray *check;                           /* struct probe_check */
};

/* The readers, one for each kind of source.  source_name names the source in messages and in the description.  If
 * the text is damaged or not of the reader's kind, a reader returns NULL.  Then *error names the file, the line,
 * what was expected and what was found. */
struct probe_source;
struct probe_host *probe_host_read(struct probe_source *source, const char *source_name, GError **error);
struct probe_host *probe_nccl_parse(const char *text, gsize size, const char *source_name, GError **error);
struct probe_host *probe_smi_parse(const char *text, const char *source_name, GError **error);
struct probe_host *probe_ibstat_parse(const char *text, const char *source_name, GError **error);
void probe_host_free(struct probe_host *host);

/* Completes NICs of `host` from those of `from` with the same names.  `from` was read from `ibstat`.  Returns how many
 * NICs have been completed. */
uint32_t probe_nics_complete(struct probe_host *host, const struct probe_host *from);

struct probe_host *probe_host_new(const char *source_name);
void probe_pci_clear(struct probe_pci *pci);
/* Both functions return a new entry, all zero but for an unknown NUMA node, or NULL if there are PROBE_DEVICES_MAX. */
struct probe_gpu *probe_gpu_add(struct probe_host *host);
struct probe_nic *probe_nic_add(struct probe_host *host);
/* Computes host->near from the PCIe paths. */
void probe_near_fill(struct probe_host *host);
enum probe_near probe_host_near(const struct probe_host *host, uint32_t gpu, uint32_t nic);
/* Returns the index of the NIC nearest to a GPU, or UINT32_MAX if there is none.  If several NICs are
 * equally near, takes the one that is equally near to the fewest earlier GPUs. */
uint32_t probe_nearest_nic(const struct probe_host *host, uint32_t gpu);
/* Returns the bandwidth of a PCIe link in one direction, in GB/s before overheads; 0 if unknown. */
double probe_pcie_gbs(uint32_t width, double gts);

/* probe_checks.c: fills host->check. */
void probe_checks_run(struct probe_host *host, struct probe_source *source);

/* A part that probe knows by its PCI vendor and device. */
struct probe_part {
    uint16_t vendor, device;
    const char *name;    /* "H100 SXM" */
    const char *cluster; /* name of the shipped cluster file that describes this GPU, as in "hopper"; NULL: none */
};
const struct probe_part *probe_part_find(uint16_t vendor, uint16_t device);

/* probe_cluster.c: appends a cluster file with what is known of the host: [cluster], [node] and [nic].  If net is
 * not NULL, it also has a [network].  For an unknown value, a comment says how to measure it.  include names the
 * cluster file that describes the GPU; NULL: the file that eptwin ships for this GPU. */
struct probe_ibnet;
void probe_cluster_append(const struct probe_host *host, const struct probe_ibnet *net, const char *include,
                          GString *out);

/* Appends the description as text, for a terminal. */
void probe_text_append(const struct probe_host *host, GString *out);

#endif
