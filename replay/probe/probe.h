/* probe.h - a description of a host: its GPUs, NICs and ports, their distances, and the features that it is prepared
 * for.
 *
 * One description is filled from any of these: sysfs and /proc (of this host or a captured one), NCCL's topology
 * XML, `nvidia-smi topo -m`, or, only for its NICs, `ibstat`.  A value that a source does not give stays unknown and
 * is never guessed.  ibnetdiscover's output becomes a network instead (probe_ibnet.h). */
#ifndef REPLAY_PROBE_PROBE_H
#define REPLAY_PROBE_PROBE_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include "sim/error.h"

#define PROBE_ERROR (g_quark_from_static_string("eptwin-probe"))
enum probe_error { PROBE_ERROR_INPUT, PROBE_ERROR_RUN = ERROR_RUN };

enum { PROBE_DEVICES_MAX = 256, PROBE_BRIDGES_MAX = 16, PROBE_NUMA_UNKNOWN = -1 };

enum probe_known { PROBE_UNKNOWN, PROBE_NO, PROBE_YES };

/* The path between two devices, in the words of `nvidia-smi topo -m`, nearest first. */
enum probe_near {
    PROBE_NEAR_UNKNOWN,
    PROBE_NEAR_C2C,  /* a chip-to-chip link to the CPU, no PCIe */
    PROBE_NEAR_PIX,  /* at most one PCIe bridge: one PCIe switch */
    PROBE_NEAR_PXB,  /* several PCIe bridges, but not the host's */
    PROBE_NEAR_PHB,  /* the host bridge: one root complex */
    PROBE_NEAR_NODE, /* from one root complex to another of the same NUMA node */
    PROBE_NEAR_SYS,  /* the link between sockets */
};
const char *probe_near_name(enum probe_near near); /* "PIX", ... */

/* A PCIe function and the path to it. */
struct probe_pci {
    char *busid;                     /* "0000:18:00.0"; NULL: not known */
    char *root;                      /* its root complex: "pci0000:16" */
    char *bridge[PROBE_BRIDGES_MAX]; /* from the root port to the bridge right above the device */
    uint32_t bridge_count;
    uint32_t class_code; /* 0x030200, ... */
    uint16_t vendor, device;
    int32_t numa;
    uint32_t width, width_max;                  /* lanes; 0: unknown, as in many virtual machines */
    double gts, gts_max;                        /* GT/s of a lane; 0: unknown */
    enum probe_known relaxed_ordering, atomics; /* whether the device may use them */
    enum probe_known acs_redirect; /* whether a bridge above it sends peers' traffic up to the root complex */
};

struct probe_gpu {
    struct probe_pci pci;
    const struct probe_part *part; /* NULL: a part that eptwin does not know */
    uint32_t nvlinks;              /* links to its domain; 0: none, or unknown if nvlink_known is false */
    bool nvlink_known, c2c;
};

struct probe_nic {
    struct probe_pci pci;
    const struct probe_part *part;
    char *name;        /* "mlx5_0" */
    char *driver;      /* "mlx5_core", "efa", ...; NULL: unknown */
    char *link_layer;  /* "InfiniBand", "Ethernet", "Slingshot"; NULL: unknown */
    char *state;       /* "ACTIVE", ...; NULL: unknown */
    uint64_t rate_bps; /* of a port; 0: unknown */
    uint32_t ports, mtu_bytes;
    uint32_t gids_roce_v1, gids_roce_v2;
    bool gids_known;
    bool bond; /* its ports form a LAG; rate_bps is that of one port */
};

/* What a kind of communication needs of the host, whether the host has it, and otherwise the remedy. */
struct probe_check {
    const char *topic; /* "gpudirect", "ibgda", "cxi", ... */
    const char *name;
    enum probe_known met;
    char *found;
    const char *remedy; /* NULL if met */
};

struct probe_host {
    char *source;          /* "this host", or the file that describes it */
    struct probe_gpu *gpu; /* [gpu_count] */
    struct probe_nic *nic; /* [nic_count] */
    uint32_t gpu_count, nic_count;
    enum probe_near *near; /* [gpu_count][nic_count] */
    uint32_t numa_nodes, cpus;
    char *cpu;                               /* model name; NULL: unknown */
    enum probe_known virtual_machine, iommu; /* iommu: whether it translates DMA */
    GArray *check;                           /* struct probe_check */
};

/* The readers, one per kind of source.  source_name is the source's name in messages and in the description.  Each
 * returns NULL and sets *error (file, line, expected, found) if the text is not of the reader's kind, or is damaged. */
struct probe_source;
struct probe_host *probe_host_read(struct probe_source *source, const char *source_name, GError **error);
struct probe_host *probe_nccl_parse(const char *text, gsize size, const char *source_name, GError **error);
struct probe_host *probe_smi_parse(const char *text, const char *source_name, GError **error);
struct probe_host *probe_ibstat_parse(const char *text, const char *source_name, GError **error);
void probe_host_free(struct probe_host *host);

/* Completes the host's NICs from the NICs of `from`, which was read from `ibstat`, that have the same names.  Returns
 * the number of matches. */
uint32_t probe_nics_complete(struct probe_host *host, const struct probe_host *from);

struct probe_host *probe_host_new(const char *source_name);
void probe_pci_clear(struct probe_pci *pci);
/* Both return a new, zeroed entry with numa unknown, or NULL once there are PROBE_DEVICES_MAX. */
struct probe_gpu *probe_gpu_add(struct probe_host *host);
struct probe_nic *probe_nic_add(struct probe_host *host);
/* Fills host->near from the PCIe paths. */
void probe_near_fill(struct probe_host *host);
enum probe_near probe_host_near(const struct probe_host *host, uint32_t gpu, uint32_t nic);
/* The index of the NIC nearest to a GPU, or UINT32_MAX if there is no NIC.  If several NICs are equally near, takes the
 * one that has the fewest earlier GPUs at this distance. */
uint32_t probe_nearest_nic(const struct probe_host *host, uint32_t gpu);
/* GB/s of a PCIe link in one direction, before overheads; 0 if unknown. */
double probe_pcie_gbs(uint32_t width, double gts);

/* probe_checks.c: fills host->check. */
void probe_checks_run(struct probe_host *host, struct probe_source *source);

/* Known parts, by PCI vendor and device.  Rates are from their data sheets. */
struct probe_part {
    uint16_t vendor, device;
    const char *name;    /* "H100 SXM" */
    const char *cluster; /* the shipped file with this GPU's section: "hopper"; NULL: none */
    double nic_gbs;      /* of a NIC: the rate of all its ports together */
    uint32_t nvlinks;    /* of a GPU: links in its data sheet */
};
const struct probe_part *probe_part_find(uint16_t vendor, uint16_t device);

/* probe_cluster.c: appends a cluster file with what is known of the host: [cluster], [node], [nic] and, unless net
 * is NULL, [network].  An unknown value becomes a comment that names the measurement to make.  include names the
 * cluster file that describes the GPU; NULL: the one that eptwin ships for it. */
struct probe_ibnet;
void probe_cluster_append(const struct probe_host *host, const struct probe_ibnet *net, const char *include,
                          GString *out);

/* Appends the description as text for a terminal. */
void probe_text_append(const struct probe_host *host, GString *out);

#endif
