/* probe_pci.c - reads the GPUs and NICs of a host from sysfs: their PCIe paths, widths and speeds, access control,
 * and ports.
 *
 * A device's folder in /sys/devices names the bridges from the root complex to the device.  PCIe capabilities are
 * read from the configuration space (PCI Express Base Specification 5.0, sections 7.5.3 and 7.7.8).  Only root can
 * read all of it. */
#include <stdio.h>
#include <string.h>

#include "replay/probe/probe.h"
#include "replay/probe/probe_source.h"

enum {
    CLASS_DISPLAY = 0x03,
    CLASS_3D = 0x0302,
    CLASS_ACCELERATOR = 0x1200,
    CLASS_ETHERNET = 0x0200,
    CLASS_INFINIBAND = 0x0207,
    VENDOR_NVIDIA = 0x10de,
    VENDOR_AMD = 0x1002,
    CAPABILITY_LIST = 0x34,
    CAPABILITY_EXPRESS = 0x10,
    CAPABILITIES_MAX = 48,
    EXTENDED_FIRST = 0x100,
    EXTENDED_ACS = 0x000d,
    ACS_REDIRECT = 1 << 2 | 1 << 3, /* ACS redirects peer-to-peer requests, and completions */
    CONTROL = 0x08,
    CONTROL_RELAXED = 1 << 4,
    CONTROL_2 = 0x28,
    CONTROL_2_ATOMICS = 1 << 6,
};

static uint64_t number_read(struct probe_source *source, const char *folder, const char *name, int base)
{
    g_autofree char *path = g_strdup_printf("%s/%s", folder, name);
    g_autofree char *text = probe_source_line(source, path);
    return text ? g_ascii_strtoull(text, NULL, base) : 0;
}

static double speed_read(struct probe_source *source, const char *folder, const char *name)
{
    g_autofree char *path = g_strdup_printf("%s/%s", folder, name);
    g_autofree char *text = probe_source_line(source, path);
    return text && g_ascii_isdigit(*text) ? g_ascii_strtod(text, NULL) : 0;
}

/* ---- configuration space ---- */

static uint32_t word_at(const char *config, gsize size, uint32_t offset, uint32_t bytes)
{
    uint32_t value = 0;
    for (uint32_t i = 0; i < bytes && offset + i < size; i++) value |= (uint32_t)(uint8_t)config[offset + i] << (8 * i);
    return value;
}

/* Returns the offset of the PCI Express capability; 0 if it cannot be read. */
static uint32_t express_find(const char *config, gsize size)
{
    uint32_t at = word_at(config, size, CAPABILITY_LIST, 1) & 0xfc;
    for (int i = 0; at && i < CAPABILITIES_MAX && at + CONTROL_2 + 2 <= size; i++) {
        if (word_at(config, size, at, 1) == CAPABILITY_EXPRESS) return at;
        at = word_at(config, size, at + 1, 1) & 0xfc;
    }
    return 0;
}

static uint32_t extended_find(const char *config, gsize size, uint32_t id)
{
    uint32_t at = EXTENDED_FIRST;
    for (int i = 0; at >= EXTENDED_FIRST && at + 8 <= size && i < CAPABILITIES_MAX; i++) {
        const uint32_t head = word_at(config, size, at, 4);
        if (head == 0 || head == UINT32_MAX) return 0;
        if ((head & 0xffff) == id) return at;
        at = head >> 20;
    }
    return 0;
}

/* Whether a bridge redirects traffic between its children up to the root complex. */
static enum probe_known acs_read(struct probe_source *source, const char *folder)
{
    g_autofree char *path = g_strdup_printf("%s/config", folder);
    gsize size = 0;
    g_autofree char *config = probe_source_read(source, path, &size);
    if (!config || size <= EXTENDED_FIRST) return PROBE_UNKNOWN;
    const uint32_t at = extended_find(config, size, EXTENDED_ACS);
    return at && word_at(config, size, at + 6, 2) & ACS_REDIRECT ? PROBE_YES : PROBE_NO;
}

static void control_read(struct probe_pci *pci, struct probe_source *source, const char *folder)
{
    g_autofree char *path = g_strdup_printf("%s/config", folder);
    gsize size = 0;
    g_autofree char *config = probe_source_read(source, path, &size);
    const uint32_t at = config ? express_find(config, size) : 0;
    if (!at) return;
    pci->relaxed_ordering = word_at(config, size, at + CONTROL, 2) & CONTROL_RELAXED ? PROBE_YES : PROBE_NO;
    pci->atomics = word_at(config, size, at + CONTROL_2, 2) & CONTROL_2_ATOMICS ? PROBE_YES : PROBE_NO;
}

/* ---- paths ---- */

static bool busid_is(const char *text)
{
    unsigned domain, bus, device, function;
    char rest;
    return sscanf(text, "%x:%x:%x.%x%c", &domain, &bus, &device, &function, &rest) == 4;
}

/* Reads the path to a device from its folder's name, like
 * "/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:18:00.0". */
static void path_read(struct probe_pci *pci, struct probe_source *source, const char *folder)
{
    g_auto(GStrv) part = g_strsplit(folder, "/", -1);
    g_autoptr(GString) at = g_string_new(NULL);
    for (char **p = part; *p; p++) {
        if (!**p) continue;
        g_string_append_printf(at, "/%s", *p);
        if (g_str_has_prefix(*p, "pci") && !pci->root) pci->root = g_strdup(*p);
        if (!busid_is(*p) || !p[1] || pci->bridge_count == PROBE_BRIDGES_MAX) continue;
        pci->bridge[pci->bridge_count++] = g_strdup(*p);
        const enum probe_known acs = acs_read(source, at->str);
        /* The root port is skipped, because its redirection does not concern traffic below it. */
        if (pci->bridge_count == 1) continue;
        if (acs == PROBE_YES || pci->acs_redirect == PROBE_UNKNOWN) pci->acs_redirect = acs;
    }
}

static void pci_read(struct probe_pci *pci, struct probe_source *source, const char *folder)
{
    pci->busid = g_path_get_basename(folder);
    pci->class_code = (uint32_t)number_read(source, folder, "class", 16);
    pci->vendor = (uint16_t)number_read(source, folder, "vendor", 16);
    pci->device = (uint16_t)number_read(source, folder, "device", 16);
    g_autofree char *numa_path = g_strdup_printf("%s/numa_node", folder);
    g_autofree char *numa = probe_source_line(source, numa_path);
    pci->numa = numa ? (int32_t)g_ascii_strtoll(numa, NULL, 10) : PROBE_NUMA_UNKNOWN;
    pci->width = (uint32_t)number_read(source, folder, "current_link_width", 10);
    pci->width_max = (uint32_t)number_read(source, folder, "max_link_width", 10);
    pci->gts = speed_read(source, folder, "current_link_speed");
    pci->gts_max = speed_read(source, folder, "max_link_speed");
    if (pci->width > 32) pci->width = 0; /* sysfs shows 63 or 255 if the width is unknown */
    if (pci->width_max > 32) pci->width_max = 0;
    control_read(pci, source, folder);
    path_read(pci, source, folder);
}

/* ---- ports ---- */

static uint64_t rate_of(const char *text) /* "400 Gb/sec (4X NDR)" */
{
    const double rate = text ? g_ascii_strtod(text, NULL) : 0;
    return rate > 0 && rate < 1e5 ? (uint64_t)(rate * 1e9) : 0;
}

static void gids_count(struct probe_nic *nic, struct probe_source *source, const char *port)
{
    nic->gids_known = true;
    g_autofree char *types = g_strdup_printf("%s/gid_attrs/types", port);
    g_auto(GStrv) index = probe_source_list(source, types);
    for (char **i = index; *i; i++) {
        g_autofree char *path = g_strdup_printf("%s/%s", types, *i);
        g_autofree char *type = probe_source_line(source, path);
        if (!type) continue;
        nic->gids_roce_v2 += strstr(type, "RoCE v2") != NULL;
    }
}

static char *text_after(const char *text, const char *mark) /* "4: ACTIVE" -> "ACTIVE" */
{
    const char *found = text ? strstr(text, mark) : NULL;
    return found ? g_strstrip(g_strdup(found + strlen(mark))) : text ? g_strdup(text) : NULL;
}

static void port_read(struct probe_nic *nic, struct probe_source *source, const char *port)
{
    g_autofree char *rate_path = g_strdup_printf("%s/rate", port), *state_path = g_strdup_printf("%s/state", port),
                    *layer_path = g_strdup_printf("%s/link_layer", port);
    g_autofree char *rate = probe_source_line(source, rate_path), *state = probe_source_line(source, state_path);
    nic->ports++;
    gids_count(nic, source, port);
    if (nic->ports > 1) return;
    nic->rate_bps = rate_of(rate);
    nic->state = text_after(state, ": ");
    nic->link_layer = probe_source_line(source, layer_path);
}

static uint32_t mtu_read(struct probe_source *source, const char *device)
{
    g_autofree char *net = g_strdup_printf("%s/net", device);
    g_auto(GStrv) name = probe_source_list(source, net);
    if (!name[0]) return 0;
    g_autofree char *folder = g_strdup_printf("%s/%s", net, name[0]);
    return (uint32_t)number_read(source, folder, "mtu", 10);
}

/* Adds a NIC of a class in sysfs ("infiniband", "cxi").  Sets *folder to the NIC's folder, and *device to the folder
 * of its PCI function.  NULL if there are too many NICs. */
static struct probe_nic *class_nic_add(struct probe_host *host, struct probe_source *source, const char *class_name,
                                       const char *name, char **folder, char **device)
{
    g_autofree char *link = g_strdup_printf("/sys/class/%s/%s", class_name, name);
    *folder = probe_source_real(source, link);
    g_autofree char *device_link = g_strdup_printf("%s/device", *folder);
    *device = probe_source_real(source, device_link);
    struct probe_nic *nic = probe_nic_add(host);
    if (!nic) return NULL;
    nic->name = g_strdup(name);
    pci_read(&nic->pci, source, *device);
    nic->part = probe_part_find(nic->pci.vendor, nic->pci.device);
    return nic;
}

static void rdma_read(struct probe_host *host, struct probe_source *source, const char *name)
{
    g_autofree char *folder = NULL, *device = NULL;
    struct probe_nic *nic = class_nic_add(host, source, "infiniband", name, &folder, &device);
    if (!nic) return;
    nic->bond = strstr(name, "bond") != NULL;
    g_autofree char *driver_link = g_strdup_printf("%s/driver", device);
    g_autofree char *driver = probe_source_link(source, driver_link);
    nic->driver = driver ? g_path_get_basename(driver) : NULL;
    g_autofree char *ports = g_strdup_printf("%s/ports", folder);
    g_auto(GStrv) port = probe_source_list(source, ports);
    for (char **p = port; *p; p++) {
        g_autofree char *path = g_strdup_printf("%s/%s", ports, *p);
        port_read(nic, source, path);
    }
    nic->mtu_bytes = mtu_read(source, device);
}

/* Reads a Cassini NIC.  It is in the class "cxi". */
static void cxi_read(struct probe_host *host, struct probe_source *source, const char *name)
{
    g_autofree char *folder = NULL, *device = NULL;
    struct probe_nic *nic = class_nic_add(host, source, "cxi", name, &folder, &device);
    if (!nic) return;
    nic->driver = g_strdup("cxi");
    nic->link_layer = g_strdup("Slingshot");
    nic->ports = 1;
}

static bool gpu_is(uint16_t vendor, uint32_t class_code)
{
    const uint32_t class = class_code >> 8;
    if (vendor == VENDOR_NVIDIA) return class >> 8 == CLASS_DISPLAY;
    return vendor == VENDOR_AMD && (class == CLASS_ACCELERATOR || class == CLASS_3D || class >> 8 == CLASS_DISPLAY);
}

/* Whether the PCI function is a known NIC that has no RDMA driver, so that it has not been added yet. */
static bool nic_is(const struct probe_host *host, const struct probe_pci *pci)
{
    const uint32_t class = pci->class_code >> 8;
    if (class != CLASS_ETHERNET && class != CLASS_INFINIBAND) return false;
    for (uint32_t i = 0; i < host->nic_count; i++)
        if (!g_strcmp0(host->nic[i].pci.busid, pci->busid)) return false;
    return probe_part_find(pci->vendor, pci->device) != NULL;
}

static void device_read(struct probe_host *host, struct probe_source *source, const char *name)
{
    g_autofree char *link = g_strdup_printf("/sys/bus/pci/devices/%s", name);
    g_autofree char *folder = probe_source_real(source, link);
    struct probe_pci pci = { .numa = PROBE_NUMA_UNKNOWN };
    const uint32_t class_code = (uint32_t)number_read(source, folder, "class", 16);
    const uint16_t vendor = (uint16_t)number_read(source, folder, "vendor", 16);
    const bool gpu = gpu_is(vendor, class_code);
    if (!gpu && class_code >> 16 != CLASS_ETHERNET >> 8) return;
    pci_read(&pci, source, folder);
    struct probe_gpu *new_gpu = gpu ? probe_gpu_add(host) : NULL;
    struct probe_nic *new_nic = !gpu && nic_is(host, &pci) ? probe_nic_add(host) : NULL;
    if (new_gpu) {
        new_gpu->pci = pci;
        new_gpu->part = probe_part_find(pci.vendor, pci.device);
    } else if (new_nic) {
        new_nic->pci = pci;
        new_nic->part = probe_part_find(pci.vendor, pci.device);
        new_nic->name = g_strdup(pci.busid);
    } else {
        probe_pci_clear(&pci);
    }
}

static void cpu_read(struct probe_host *host, struct probe_source *source)
{
    gsize size = 0;
    g_autofree char *text = probe_source_read(source, "/proc/cpuinfo", &size);
    g_auto(GStrv) line = g_strsplit(text ? text : "", "\n", -1);
    for (char **l = line; *l; l++) {
        host->cpus += g_str_has_prefix(*l, "processor");
        const char *colon = strchr(*l, ':');
        if (!host->cpu && colon && g_str_has_prefix(*l, "model name")) host->cpu = g_strstrip(g_strdup(colon + 1));
        if (host->virtual_machine == PROBE_UNKNOWN && colon && g_str_has_prefix(*l, "flags"))
            host->virtual_machine = strstr(*l, " hypervisor") ? PROBE_YES : PROBE_NO;
    }
    g_auto(GStrv) node = probe_source_list(source, "/sys/devices/system/node");
    for (char **n = node; *n; n++) {
        if (!g_str_has_prefix(*n, "node") || !g_ascii_isdigit((*n)[4])) continue;
        g_autofree char *path = g_strdup_printf("/sys/devices/system/node/%s/cpulist", *n);
        g_autofree char *cpus = probe_source_line(source, path);
        host->numa_nodes += cpus && *cpus; /* nodes without CPUs, such as the HBM of a GH200, do not count */
    }
}

/* Finds whether an IOMMU translates DMA.  Groups exist only with an IOMMU.  For groups of type "identity", the
 * IOMMU does not translate. */
static void iommu_read(struct probe_host *host, struct probe_source *source)
{
    g_auto(GStrv) group = probe_source_list(source, "/sys/kernel/iommu_groups");
    host->iommu = PROBE_NO;
    for (char **g = group; *g; g++) {
        g_autofree char *path = g_strdup_printf("/sys/kernel/iommu_groups/%s/type", *g);
        g_autofree char *type = probe_source_line(source, path);
        if (type && strcmp(type, "identity") != 0) host->iommu = PROBE_YES;
    }
}

struct probe_host *probe_host_read(struct probe_source *source, const char *source_name, GError **error)
{
    if (!probe_source_has(source, "/sys/bus/pci") && !probe_source_has(source, "/proc/cpuinfo"))
        return error_null(error, "%s: expected a host's /sys and /proc, found neither", source_name);
    struct probe_host *host = probe_host_new(source_name);
    cpu_read(host, source);
    iommu_read(host, source);
    g_auto(GStrv) rdma = probe_source_list(source, "/sys/class/infiniband");
    for (char **name = rdma; *name; name++) rdma_read(host, source, *name);
    g_auto(GStrv) cxi = probe_source_list(source, "/sys/class/cxi");
    for (char **name = cxi; *name; name++) cxi_read(host, source, *name);
    g_auto(GStrv) pci = probe_source_list(source, "/sys/bus/pci/devices");
    for (char **name = pci; *name; name++) device_read(host, source, *name);
    probe_near_fill(host);
    return host;
}
