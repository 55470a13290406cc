/* probe_parts.c - the GPUs and NICs that probe knows by name, and how near two devices of a host are.  PCI
 * identifiers are public (the PCI ID repository, sources of drivers). */
#include <string.h>

#include "replay/probe/probe.h"
#include "sim/memory.h"

const struct probe_part *probe_part_find(uint16_t vendor, uint16_t device)
{
    static const struct probe_part parts[] = {
        { 0x10de, 0x20b0, "A100 SXM 40 GB", NULL },
        { 0x10de, 0x20b2, "A100 SXM 80 GB", NULL },
        { 0x10de, 0x2330, "H100 SXM", "h100-cx7" },
        { 0x10de, 0x2331, "H100 PCIe", NULL },
        { 0x10de, 0x2324, "H800 SXM", "h800-cx7" },
        { 0x10de, 0x2335, "H200 SXM", "h200" },
        { 0x10de, 0x2329, "H20", "h20" },
        { 0x10de, 0x2342, "GH200", "gh200" },
        { 0x10de, 0x2901, "B200", "b200" },
        { 0x10de, 0x2941, "GB200", "gb200" },
        { 0x10de, 0x3182, "B300", "b300" },
        { 0x10de, 0x31c2, "GB300", "gb300" },
        { 0x10de, 0x27b8, "L4", NULL },
        { 0x10de, 0x26b5, "L40", NULL },
        { 0x10de, 0x26b9, "L40S", NULL },
        { 0x1002, 0x74a1, "MI300X", "mi300x" },
        { 0x15b3, 0x1017, "ConnectX-5", NULL },
        { 0x15b3, 0x1019, "ConnectX-5 Ex", NULL },
        { 0x15b3, 0x101b, "ConnectX-6", NULL },
        { 0x15b3, 0x101d, "ConnectX-6 Dx", NULL },
        { 0x15b3, 0x1021, "ConnectX-7", NULL },
        { 0x15b3, 0x1023, "ConnectX-8", NULL },
        { 0x15b3, 0xa2dc, "BlueField-3", NULL },
        { 0x15b3, 0x101e, "ConnectX virtual function", NULL },
        { 0x1d0f, 0xefa0, "EFA (first generation)", NULL },
        { 0x1d0f, 0xefa1, "EFA (second generation)", NULL },
        { 0x1d0f, 0xefa2, "EFA (third generation)", NULL },
        { 0x17db, 0x0501, "Cassini (Slingshot-11)", NULL },
        { 0x14e4, 0x1760, "Thor 2 (BCM57608)", NULL },
    };
    for (gsize i = 0; i < G_N_ELEMENTS(parts); i++)
        if (parts[i].vendor == vendor && parts[i].device == device) return &parts[i];
    return NULL;
}

const char *probe_near_name(enum probe_near near)
{
    static const char *const name[] = { "?", "C2C", "PIX", "PXB", "PHB", "NODE", "SYS" };
    return name[near];
}

double probe_pcie_gbs(uint32_t width, double gts)
{
    const double coding = gts > 6 ? 128.0 / 130.0 : 0.8; /* generations 1 and 2 send 10 bits for each 8 bits of data */
    return width * gts * coding / 8;
}

/* ---- the host's lists ---- */

struct probe_host *probe_host_new(const char *source_name)
{
    struct probe_host *host = g_new0(struct probe_host, 1);
    host->source = g_strdup(source_name);
    host->gpu = g_new0(struct probe_gpu, PROBE_DEVICES_MAX);
    host->nic = g_new0(struct probe_nic, PROBE_DEVICES_MAX);
    host->check = g_array_new(FALSE, TRUE, sizeof(struct probe_check));
    return host;
}

struct probe_gpu *probe_gpu_add(struct probe_host *host)
{
    if (host->gpu_count == PROBE_DEVICES_MAX) return NULL;
    struct probe_gpu *gpu = &host->gpu[host->gpu_count++];
    gpu->pci.numa = PROBE_NUMA_UNKNOWN;
    return gpu;
}

struct probe_nic *probe_nic_add(struct probe_host *host)
{
    if (host->nic_count == PROBE_DEVICES_MAX) return NULL;
    struct probe_nic *nic = &host->nic[host->nic_count++];
    nic->pci.numa = PROBE_NUMA_UNKNOWN;
    return nic;
}

void probe_pci_clear(struct probe_pci *pci)
{
    g_free(pci->busid);
    g_free(pci->root);
    for (uint32_t i = 0; i < pci->bridge_count; i++) g_free(pci->bridge[i]);
}

void probe_host_free(struct probe_host *host)
{
    if (!host) return;
    for (uint32_t i = 0; i < host->gpu_count; i++) probe_pci_clear(&host->gpu[i].pci);
    for (uint32_t i = 0; i < host->nic_count; i++) {
        struct probe_nic *nic = &host->nic[i];
        probe_pci_clear(&nic->pci);
        FREE_ALL(nic->name, nic->driver, nic->link_layer, nic->state);
    }
    for (guint i = 0; i < host->check->len; i++) g_free(g_array_index(host->check, struct probe_check, i).found);
    g_array_unref(host->check);
    FREE_ALL(host->gpu, host->nic, host->near, host->cpu, host->source, host);
}

/* ---- common ancestors of devices ---- */

static enum probe_near near_of(const struct probe_pci *a, const struct probe_pci *b)
{
    if (!a->root || !b->root) return PROBE_NEAR_UNKNOWN;
    const bool numa_known = a->numa >= 0 && b->numa >= 0;
    if (strcmp(a->root, b->root) != 0)
        return !numa_known ? PROBE_NEAR_UNKNOWN : a->numa == b->numa ? PROBE_NEAR_NODE : PROBE_NEAR_SYS;
    uint32_t same = 0;
    while (same < a->bridge_count && same < b->bridge_count && !strcmp(a->bridge[same], b->bridge[same])) same++;
    if (!same) return PROBE_NEAR_PHB;
    /* Counts the bridges from the last common one down to the devices, and takes the larger count.  If it is at most
     * one, both devices are on one PCIe switch. */
    const uint32_t down = MAX(a->bridge_count, b->bridge_count) - same;
    return down <= 1 ? PROBE_NEAR_PIX : PROBE_NEAR_PXB;
}

void probe_near_fill(struct probe_host *host)
{
    host->near = g_new0(enum probe_near, (gsize)host->gpu_count * host->nic_count + 1);
    for (uint32_t g = 0; g < host->gpu_count; g++)
        for (uint32_t n = 0; n < host->nic_count; n++)
            host->near[g * host->nic_count + n] =
                host->gpu[g].c2c ? PROBE_NEAR_C2C : near_of(&host->gpu[g].pci, &host->nic[n].pci);
}

enum probe_near probe_host_near(const struct probe_host *host, uint32_t gpu, uint32_t nic)
{
    return host->near ? host->near[gpu * host->nic_count + nic] : PROBE_NEAR_UNKNOWN;
}

uint32_t probe_nearest_nic(const struct probe_host *host, uint32_t gpu)
{
    uint32_t best = UINT32_MAX, best_users = UINT32_MAX;
    enum probe_near best_near = PROBE_NEAR_SYS;
    for (uint32_t n = 0; n < host->nic_count; n++) {
        const enum probe_near near = probe_host_near(host, gpu, n);
        if (near == PROBE_NEAR_UNKNOWN || near > best_near) continue;
        uint32_t users = 0; /* how many earlier GPUs are as near to this NIC as this GPU */
        for (uint32_t g = 0; g < gpu; g++) users += probe_host_near(host, g, n) == near;
        if (near == best_near && users >= best_users) continue;
        best = n;
        best_near = near;
        best_users = users;
    }
    return best;
}
