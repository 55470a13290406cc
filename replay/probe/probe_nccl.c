/* probe_nccl.c - reads NCCL's topology XML, which NCCL_TOPO_DUMP_FILE writes and NCCL_TOPO_FILE takes.
 *
 * GLib's markup parser can read everything that these files contain.  The files that NCCL ships name only PCI
 * functions.  So a function without a <gpu> or <net> inside it is a GPU or NIC if its PCI class says so.  In virtual
 * machines, a width of 0 and a bridge of 2.5 GT/s mean "not known".  <net speed> is in Mbit/s, for the port of this
 * function. */
#include <stdlib.h>
#include <string.h>

#include "replay/probe/probe.h"

enum { DEPTH_MAX = 64, CLASS_NVIDIA_GPU = 0x0302, CLASS_NET = 0x02, CLASS_GPU_AMD = 0x1200 };

struct level {
    char name[16];
    char busid[32];
    struct probe_pci pci; /* of a <pci>, as read; its strings are not used */
    bool named;           /* whether the function is known to be a GPU, a NIC or a bridge */
};

struct reader {
    struct probe_host *host;
    struct level level[DEPTH_MAX];
    uint32_t depth;
    int32_t numa;
    bool system;
};

static const char *attribute(const char **names, const char **values, const char *name)
{
    for (; *names; names++, values++)
        if (!strcmp(*names, name)) return *values;
    return NULL;
}

static uint64_t number(const char **names, const char **values, const char *name, int base)
{
    const char *text = attribute(names, values, name);
    return text ? g_ascii_strtoull(text, NULL, base) : 0;
}

/* Sets the path of the function that is being read, which gets a name.  Each <pci> around it is a bridge above it. */
static void pci_place(struct probe_pci *pci, struct reader *r)
{
    struct level *own = NULL;
    for (uint32_t i = 0; i < r->depth; i++) {
        if (strcmp(r->level[i].name, "pci") != 0) continue;
        if (own && pci->bridge_count < PROBE_BRIDGES_MAX) pci->bridge[pci->bridge_count++] = g_strdup(own->busid);
        own = &r->level[i];
    }
    if (!own) return;
    own->named = true;
    char *const *bridge = pci->bridge;
    const uint32_t bridges = pci->bridge_count;
    pci->busid = g_strdup(own->busid);
    /* The uppermost bridge stands for the root complex, because NCCL puts all devices of a root complex below one
     * bridge. */
    pci->root = g_strdup(bridges ? bridge[0] : own->busid);
    pci->class_code = own->pci.class_code;
    pci->vendor = own->pci.vendor;
    pci->device = own->pci.device;
    pci->width = own->pci.width;
    pci->gts = own->pci.gts;
    pci->numa = r->numa;
}

static struct probe_gpu *gpu_here(struct reader *r)
{
    struct probe_gpu *gpu = probe_gpu_add(r->host);
    if (!gpu) return NULL;
    pci_place(&gpu->pci, r);
    gpu->part = probe_part_find(gpu->pci.vendor, gpu->pci.device);
    return gpu;
}

static struct probe_nic *nic_here(struct reader *r)
{
    struct probe_nic *nic = probe_nic_add(r->host);
    if (!nic) return NULL;
    pci_place(&nic->pci, r);
    nic->part = probe_part_find(nic->pci.vendor, nic->pci.device);
    nic->ports = 1;
    return nic;
}

static void net_read(struct reader *r, const char **names, const char **values)
{
    struct probe_nic *nic = nic_here(r);
    if (!nic) return;
    const char *name = attribute(names, values, "name");
    nic->name = g_strdup(name ? name : "net");
    nic->bond = strstr(nic->name, "bond") != NULL;
    const uint64_t speed = number(names, values, "speed", 10);
    nic->rate_bps = speed < 100000000 ? speed * 1000000 : 0;
}

static bool pci_read(struct level *level, const char **names, const char **values, GError **error)
{
    const char *busid = attribute(names, values, "busid"), *speed = attribute(names, values, "link_speed");
    if (!busid) return error_input(error, "pci: expected an attribute busid, found none");
    g_strlcpy(level->busid, busid, sizeof level->busid);
    level->pci.class_code = (uint32_t)number(names, values, "class", 16);
    level->pci.vendor = (uint16_t)number(names, values, "vendor", 16);
    level->pci.device = (uint16_t)number(names, values, "device", 16);
    level->pci.width = (uint32_t)MIN(number(names, values, "link_width", 10), 32);
    level->pci.gts = speed && level->pci.width ? g_ascii_strtod(speed, NULL) : 0;
    if (!(level->pci.gts >= 0 && level->pci.gts < 1000)) level->pci.gts = 0;
    return true;
}

static void element_start(GMarkupParseContext *context, const char *element, const char **names, const char **values,
                          void *data, GError **error)
{
    (void)context;
    struct reader *r = data;
    if (r->depth == DEPTH_MAX) {
        error_input(error, "expected at most %d nested elements", DEPTH_MAX);
        return;
    }
    if (!r->depth && strcmp(element, "system") != 0) {
        error_input(error, "expected <system>, found <%s>", element);
        return;
    }
    struct level *level = &r->level[r->depth++];
    memset(level, 0, sizeof *level);
    g_strlcpy(level->name, element, sizeof level->name);
    r->system = true;
    if (!strcmp(element, "cpu")) {
        const char *numa = attribute(names, values, "numaid");
        r->numa = numa ? (int32_t)g_ascii_strtoll(numa, NULL, 10) : PROBE_NUMA_UNKNOWN;
        r->host->numa_nodes++;
    } else if (!strcmp(element, "pci")) {
        pci_read(level, names, values, error);
    } else if (!strcmp(element, "gpu")) {
        struct probe_gpu *gpu = gpu_here(r);
        if (gpu) gpu->nvlink_known = true;
    } else if (!strcmp(element, "nvlink") || !strcmp(element, "xgmi")) {
        if (r->host->gpu_count)
            r->host->gpu[r->host->gpu_count - 1].nvlinks += (uint32_t)MIN(number(names, values, "count", 10), 64);
    } else if (!strcmp(element, "c2c")) {
        if (r->host->gpu_count) {
            struct probe_gpu *gpu = &r->host->gpu[r->host->gpu_count - 1];
            gpu->c2c = true;
            gpu->pci.gts = 0; /* the PCIe port of a GPU with C2C carries no traffic */
        }
    } else if (!strcmp(element, "net")) {
        net_read(r, names, values);
    }
}

/* Ends a function.  If no element inside it said what it is, its class says whether it is a GPU or a NIC. */
static void pci_end(struct reader *r, const struct level *level)
{
    const uint32_t class = level->pci.class_code >> 8;
    if (level->named) return;
    if (class == CLASS_NVIDIA_GPU || class == CLASS_GPU_AMD) {
        gpu_here(r);
    } else if (class >> 8 == CLASS_NET) {
        struct probe_nic *nic = nic_here(r);
        if (nic) nic->name = g_strdup(level->busid);
    }
}

static void element_end(GMarkupParseContext *context, const char *element, void *data, GError **error)
{
    (void)context;
    (void)error;
    struct reader *r = data;
    if (!strcmp(element, "pci")) {
        const struct level level = r->level[r->depth - 1];
        pci_end(r, &level);
    }
    r->depth--;
    /* A <pci> with a <pci> inside is a bridge, so it must not be taken for a device. */
    if (r->depth && !strcmp(element, "pci") && !strcmp(r->level[r->depth - 1].name, "pci"))
        r->level[r->depth - 1].named = true;
}

struct probe_host *probe_nccl_parse(const char *text, gsize size, const char *source_name, GError **error)
{
    static const GMarkupParser parser = { .start_element = element_start, .end_element = element_end };
    g_autofree struct reader *r = g_new0(struct reader, 1);
    r->host = probe_host_new(source_name);
    r->numa = PROBE_NUMA_UNKNOWN;
    GError *cause = NULL;
    g_autoptr(GMarkupParseContext) context = g_markup_parse_context_new(&parser, 0, r, NULL);
    const bool good = g_markup_parse_context_parse(context, text, (gssize)size, &cause) &&
                      g_markup_parse_context_end_parse(context, &cause);
    if (!good) {
        int line = 0;
        g_markup_parse_context_get_position(context, &line, NULL);
        error_input(error, "%s:%d: %s", source_name, line, cause->message);
        g_error_free(cause);
    }
    struct probe_host *host = r->host;
    if (!good) {
        probe_host_free(host);
        return NULL;
    }
    probe_near_fill(host);
    return host;
}
