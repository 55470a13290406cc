/* probe_checks.c - whether a host meets the requirements of GPUDirect RDMA, IBGDA, GDRCopy, libfabric/CXI and large
 * registrations.
 *
 * Each check reads one file or variable and reports its value.  If it cannot be read, the check is unknown, never
 * met.  The requirements are those of DeepEP's guide to NVSHMEM, of NVIDIA's GPUDirect RDMA documentation, and of
 * the Alps guide to NVSHMEM over libfabric. */
#include <string.h>

#include "replay/probe/probe.h"
#include "replay/probe/probe_source.h"

struct list {
    struct probe_host *host;
    struct probe_source *source;
};

G_GNUC_PRINTF(6, 7)
static void add(const struct list *l, const char *topic, const char *name, enum probe_known met, const char *remedy,
                const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const struct probe_check check = { .topic = topic,
                                       .name = name,
                                       .met = met,
                                       .found = g_strdup_vprintf(format, arguments),
                                       .remedy = met == PROBE_YES ? NULL : remedy };
    va_end(arguments);
    g_array_append_val(l->host->check, check);
}

/* Whether the kernel has the module.  /proc/modules lists loaded modules.  Built-in ones are only in /sys/module. */
static bool module_loaded(const struct list *l, const char *name)
{
    g_autofree char *folder = g_strdup_printf("/sys/module/%s", name), *line = g_strdup_printf("%s ", name);
    if (probe_source_has(l->source, folder)) return true;
    gsize size = 0;
    g_autofree char *modules = probe_source_read(l->source, "/proc/modules", &size);
    if (!modules) return false;
    if (g_str_has_prefix(modules, line)) return true;
    g_autofree char *inside = g_strdup_printf("\n%s", line);
    return strstr(modules, inside) != NULL;
}

/* Saves only the variables that concern communication, because others may hold secrets. */
static void environment_keep(struct probe_source *source)
{
    static const char *const prefix[] = { "NVSHMEM_", "NCCL_", "FI_", "UCX_", "CUDA_VISIBLE_DEVICES" };
    g_auto(GStrv) name = g_listenv();
    g_autoptr(GString) text = g_string_new(NULL);
    for (char **n = name; *n; n++)
        for (gsize i = 0; i < G_N_ELEMENTS(prefix); i++)
            if (g_str_has_prefix(*n, prefix[i])) {
                g_string_append_printf(text, "%s=%s", *n, g_getenv(*n));
                g_string_append_c(text, 0);
                break;
            }
    probe_source_keep(source, "/proc/self/environ", text->str, text->len);
}

/* Returns the value of an environment variable of this process or, for a captured host, of the process that captured
 * it.  NULL if the variable is not set or not known. */
static char *variable(const struct list *l, const char *name)
{
    if (probe_source_live(l->source)) return g_strdup(g_getenv(name));
    gsize size = 0;
    g_autofree char *all = probe_source_read(l->source, "/proc/self/environ", &size);
    g_autofree char *key = g_strdup_printf("%s=", name);
    for (gsize at = 0; all && at < size; at += strlen(all + at) + 1)
        if (g_str_has_prefix(all + at, key)) return g_strdup(all + at + strlen(key));
    return NULL;
}

static bool nvidia_gpus(const struct probe_host *host)
{
    for (uint32_t i = 0; i < host->gpu_count; i++)
        if (host->gpu[i].pci.vendor == 0x10de) return true;
    return false;
}

static bool nic_with(const struct probe_host *host, const char *driver)
{
    for (uint32_t i = 0; i < host->nic_count; i++)
        if (!g_strcmp0(host->nic[i].driver, driver)) return true;
    return false;
}

static void gpudirect_checks(const struct list *l)
{
    const bool legacy = module_loaded(l, "nv_peer_mem"), peermem = module_loaded(l, "nvidia_peermem");
    gsize size = 0;
    g_autofree char *version = probe_source_read(l->source, "/proc/driver/nvidia/version", &size);
    const bool open = version && strstr(version, "Open Kernel Module");
    const enum probe_known met = peermem || legacy || open ? PROBE_YES : version ? PROBE_NO : PROBE_UNKNOWN;
    add(l, "gpudirect", "peer memory", met, "modprobe nvidia-peermem, or use the open kernel modules (dma-buf)", "%s",
        peermem   ? "nvidia_peermem is loaded"
        : legacy  ? "nv_peer_mem is loaded"
        : open    ? "open kernel modules: dma-buf"
        : version ? "neither nvidia_peermem nor dma-buf"
                  : "no NVIDIA driver to be seen");
    uint32_t far = 0, unknown = 0;
    for (uint32_t g = 0; g < l->host->gpu_count; g++) {
        const uint32_t nic = probe_nearest_nic(l->host, g);
        const enum probe_near near = nic == UINT32_MAX ? PROBE_NEAR_UNKNOWN : probe_host_near(l->host, g, nic);
        unknown += near == PROBE_NEAR_UNKNOWN;
        far += near >= PROBE_NEAR_NODE;
    }
    if (l->host->gpu_count && l->host->nic_count)
        add(l, "gpudirect", "a NIC at each GPU's root complex",
            unknown ? PROBE_UNKNOWN
            : far   ? PROBE_NO
                    : PROBE_YES,
            "give each GPU a NIC of its own PCIe switch or root complex; across sockets GPUDirect loses half and more",
            "%u of %u GPUs lack one%s", far, l->host->gpu_count, unknown ? ", for others it cannot be told" : "");
    enum probe_known acs = PROBE_NO;
    for (uint32_t g = 0; g < l->host->gpu_count && acs != PROBE_YES; g++) {
        const enum probe_known here = l->host->gpu[g].pci.acs_redirect;
        if (here == PROBE_YES || (here == PROBE_UNKNOWN && l->host->gpu[g].pci.bridge_count > 1)) acs = here;
    }
    if (l->host->gpu_count)
        add(l, "gpudirect", "ACS does not redirect",
            acs == PROBE_UNKNOWN ? PROBE_UNKNOWN
            : acs == PROBE_YES   ? PROBE_NO
                                 : PROBE_YES,
            acs == PROBE_UNKNOWN
                ? "run as root: only it sees the capability"
                : "turn ACS off on the switches above the GPUs (setpci ... ECAP_ACS+6.w=0, or in the BIOS)",
            "%s",
            acs == PROBE_YES  ? "a bridge above a GPU sends peer traffic to the root complex"
            : acs == PROBE_NO ? "no bridge above a GPU redirects"
                              : "the configuration space cannot be read");
    add(l, "gpudirect", "IOMMU does not translate", l->host->iommu == PROBE_YES ? PROBE_NO : PROBE_YES,
        "boot with iommu=pt, or turn the IOMMU off where no virtual machine needs it", "%s",
        l->host->iommu == PROBE_YES ? "DMA is translated" : "off, or passing through");
}

/* How many different NICs a list names.  What follows a name, as in "mlx5_0:1" or "mlx5_0:1:8", does not matter. */
static uint32_t hca_list_count(const char *list)
{
    g_auto(GStrv) item = g_strsplit(list, ",", -1);
    g_autoptr(GHashTable) names = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    for (char **i = item; *i; i++)
        if (**i) g_hash_table_add(names, g_strndup(*i, strcspn(*i, ":")));
    return g_hash_table_size(names);
}

static void nvshmem_checks(const struct list *l)
{
    g_autofree char *mapping = variable(l, "NVSHMEM_HCA_PE_MAPPING"), *hcas = variable(l, "NVSHMEM_HCA_LIST");
    const char *set = mapping ? mapping : hcas;
    if (!set) {
        add(l, "nvshmem", "NICs for each rank", PROBE_YES, NULL, "NVSHMEM chooses: no list is set");
        return;
    }
    const uint32_t named = hca_list_count(set);
    const bool crowded = named < 2 && l->host->nic_count > 1 && l->host->gpu_count > 1;
    add(l, "nvshmem", "NICs for each rank", crowded ? PROBE_NO : PROBE_YES,
        "name all NICs in NVSHMEM_HCA_PE_MAPPING (mlx5_0:1:1,mlx5_1:1:1,...): with one, all ranks share its bandwidth",
        "%s=%.80s names %u of %u NICs", mapping ? "NVSHMEM_HCA_PE_MAPPING" : "NVSHMEM_HCA_LIST", set, named,
        l->host->nic_count);
}

static void ibgda_checks(const struct list *l)
{
    gsize size = 0;
    g_autofree char *params = probe_source_read(l->source, "/proc/driver/nvidia/params", &size);
    const bool mem_ops = params && strstr(params, "EnableStreamMemOPs: 1");
    const bool mapping = params && strstr(params, "PeerMappingOverride=1");
    const char *modprobe =
        "options nvidia NVreg_EnableStreamMemOPs=1 NVreg_RegistryDwords=\"PeerMappingOverride=1;\" in "
        "/etc/modprobe.d/nvidia.conf, update-initramfs -u, reboot; or let the CPU ring (NVSHMEM_IBGDA_NIC_HANDLER=cpu)";
    const enum probe_known none = params ? PROBE_NO : PROBE_UNKNOWN;
    add(l, "ibgda", "EnableStreamMemOPs", mem_ops ? PROBE_YES : none, modprobe, "%s",
        mem_ops  ? "1"
        : params ? "not set"
                 : "no NVIDIA driver to be seen");
    add(l, "ibgda", "PeerMappingOverride", mapping ? PROBE_YES : none, modprobe, "%s",
        mapping  ? "1"
        : params ? "not set"
                 : "no NVIDIA driver to be seen");
    const bool gdrdrv = module_loaded(l, "gdrdrv"), device = probe_source_has(l->source, "/dev/gdrdrv");
    add(l, "ibgda", "GDRCopy", gdrdrv ? PROBE_YES : PROBE_NO,
        "install gdrdrv-dkms and load gdrdrv; without it the proxy reads flags by cudaMemcpy, which costs up to a "
        "hundred times",
        "%s",
        gdrdrv ? device ? "gdrdrv is loaded" : "gdrdrv is loaded, but /dev/gdrdrv is missing here"
               : "gdrdrv is not loaded");
    for (uint32_t i = 0; i < l->host->nic_count; i++) {
        const struct probe_nic *nic = &l->host->nic[i];
        if (g_strcmp0(nic->driver, "mlx5_core") != 0 || nic->pci.relaxed_ordering == PROBE_UNKNOWN) continue;
        add(l, "ibgda", "relaxed ordering", nic->pci.relaxed_ordering, "mlxconfig -d DEVICE set PCI_WR_ORDERING=1",
            "%s: %s", nic->name, nic->pci.relaxed_ordering == PROBE_YES ? "on" : "off");
        break;
    }
    if (nic_with(l->host, "mlx5_core"))
        add(l, "ibgda", "PCI_ATOMIC_MODE", PROBE_UNKNOWN, "mlxconfig -d DEVICE query PCI_ATOMIC_MODE: V2 wants 4",
            "only the firmware tells");
}

static void cxi_checks(const struct list *l)
{
    static const struct {
        const char *name, *value;
    } wanted[] = {
        { "NVSHMEM_REMOTE_TRANSPORT", "libfabric" },
        { "NVSHMEM_LIBFABRIC_PROVIDER", "cxi" },
        { "NVSHMEM_DISABLE_CUDA_VMM", "1" },
    };
    static const char *const remedy[] = {
        "export NVSHMEM_REMOTE_TRANSPORT=libfabric", "export NVSHMEM_LIBFABRIC_PROVIDER=cxi",
        "export NVSHMEM_DISABLE_CUDA_VMM=1: the libfabric transport cannot register such memory"
    };
    for (gsize i = 0; i < G_N_ELEMENTS(wanted); i++) {
        g_autofree char *value = variable(l, wanted[i].name);
        add(l, "cxi", wanted[i].name, value && !strcmp(value, wanted[i].value) ? PROBE_YES : PROBE_NO, remedy[i],
            "%.60s", value ? value : "not set");
    }
}

/* Checks the limit in a line like "Max locked memory         unlimited            unlimited            bytes". */
static void memory_checks(const struct list *l)
{
    gsize size = 0;
    g_autofree char *limits = probe_source_read(l->source, "/proc/self/limits", &size);
    const char *line = limits ? strstr(limits, "Max locked memory") : NULL;
    const char *soft =
        line ? line + strlen("Max locked memory") + strspn(line + strlen("Max locked memory"), " ") : NULL;
    const bool unlimited = soft && g_str_has_prefix(soft, "unlimited");
    const uint64_t bytes = soft ? g_ascii_strtoull(soft, NULL, 10) : 0;
    const bool enough = unlimited || bytes >= (uint64_t)8 << 30;
    g_autofree char *found = unlimited ? g_strdup("unlimited")
                             : soft    ? g_format_size(bytes)
                                       : g_strdup("cannot be read");
    add(l, "memory", "locked memory",
        enough ? PROBE_YES
        : soft ? PROBE_NO
               : PROBE_UNKNOWN,
        "ulimit -l unlimited (limits.conf: memlock), or LimitMEMLOCK=infinity for a service", "%s", found);
    g_autofree char *info = probe_source_read(l->source, "/proc/meminfo", &size);
    const char *huge = info ? strstr(info, "HugePages_Total:") : NULL;
    const uint64_t pages = huge ? g_ascii_strtoull(huge + strlen("HugePages_Total:"), NULL, 10) : 0;
    if (nic_with(l->host, "efa"))
        add(l, "memory", "huge pages",
            pages  ? PROBE_YES
            : huge ? PROBE_NO
                   : PROBE_UNKNOWN,
            "sysctl vm.nr_hugepages=5128: EFA's provider keeps its buffers there", "%" G_GUINT64_FORMAT, pages);
}

static void port_checks(const struct list *l)
{
    for (uint32_t i = 0; i < l->host->nic_count; i++) {
        const struct probe_nic *nic = &l->host->nic[i];
        const bool ethernet = !g_strcmp0(nic->link_layer, "Ethernet");
        if (nic->state && strcmp(nic->state, "ACTIVE") != 0)
            add(l, "ports", nic->name, PROBE_NO, "check the cable, the switch port and the driver's log", "state %s",
                nic->state);
        if (ethernet && !nic->gids_roce_v2 && g_strcmp0(nic->driver, "efa") != 0)
            add(l, "ports", nic->name, PROBE_NO, "give the interface an IP address, so that it has a RoCE v2 GID",
                "no RoCE v2 GID");
        if (ethernet && nic->mtu_bytes && nic->mtu_bytes < 4200)
            add(l, "ports", nic->name, PROBE_NO, "ip link set dev IFACE mtu 9000, so that packets carry 4096 bytes",
                "MTU %u", nic->mtu_bytes);
        if (nic->pci.width && nic->pci.width < nic->pci.width_max)
            add(l, "ports", nic->name, PROBE_NO, "reseat the card; some slots have fewer lanes", "PCIe x%u of x%u",
                nic->pci.width, nic->pci.width_max);
        if (nic->pci.gts > 0 && nic->pci.gts < nic->pci.gts_max)
            add(l, "ports", nic->name, PROBE_NO, "look for the slot's generation in the BIOS", "PCIe %.1f of %.1f GT/s",
                nic->pci.gts, nic->pci.gts_max);
    }
}

void probe_checks_run(struct probe_host *host, struct probe_source *source)
{
    const struct list l = { host, source };
    if (probe_source_live(source)) environment_keep(source);
    if (nvidia_gpus(host) || probe_source_has(source, "/proc/driver/nvidia")) {
        gpudirect_checks(&l);
        ibgda_checks(&l);
        nvshmem_checks(&l);
    }
    if (nic_with(host, "cxi")) cxi_checks(&l);
    memory_checks(&l);
    port_checks(&l);
}
