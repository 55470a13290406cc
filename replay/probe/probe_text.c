/* probe_text.c - writes a host's description for a terminal: its devices, which of them are near each other, and
 * which requirements the host meets. */
#include "replay/probe/probe.h"

#include "reports/text_table.h"

/* Adds a cell, "?" if its value is not known. */
#define KNOWN_CELL(table, known, ...) \
    do { \
        if (known) text_table_cell(table, __VA_ARGS__); \
        else text_table_cell(table, "?"); \
    } while (0)

/* Appends the table without columns of which nothing is known. */
static void known_append(struct text_table *table, GString *out)
{
    if (text_table_known_keep(table) < 2) return;
    text_table_append(table, out);
    g_string_append_c(out, '\n');
}

static void gpus_append(const struct probe_host *host, GString *out)
{
    static const char *const titles[] = { "GPU", "bus", "model", "NUMA", "PCIe", "NVLinks", "nearest NIC", "how near" };
    if (!host->gpu_count) return;
    g_autoptr(text_table) table = text_table_new("rlllllll", titles);
    for (uint32_t i = 0; i < host->gpu_count; i++) {
        const struct probe_gpu *gpu = &host->gpu[i];
        const uint32_t nic = probe_nearest_nic(host, i);
        text_table_cell(table, "%u", i);
        text_table_cell(table, "%s", gpu->pci.busid ? gpu->pci.busid : "?");
        if (gpu->part) text_table_cell(table, "%s", gpu->part->name);
        else KNOWN_CELL(table, gpu->pci.vendor, "%04x:%04x", gpu->pci.vendor, gpu->pci.device);
        KNOWN_CELL(table, gpu->pci.numa >= 0, "%d", gpu->pci.numa);
        KNOWN_CELL(table, gpu->pci.width && gpu->pci.gts > 0, "x%u at %g GT/s, %.1f GB/s", gpu->pci.width, gpu->pci.gts,
                   probe_pcie_gbs(gpu->pci.width, gpu->pci.gts));
        KNOWN_CELL(table, gpu->nvlink_known, "%u", gpu->nvlinks);
        text_table_cell(table, "%s", nic == UINT32_MAX ? "-" : host->nic[nic].name);
        text_table_cell(table, "%s", nic == UINT32_MAX ? "-" : probe_near_name(probe_host_near(host, i, nic)));
    }
    known_append(table, out);
}

static void nics_append(const struct probe_host *host, GString *out)
{
    static const char *const titles[] = { "NIC",   "bus",  "model", "NUMA", "PCIe",
                                          "ports", "rate", "link",  "MTU",  "RoCE v2" };
    if (!host->nic_count) return;
    g_autoptr(text_table) table = text_table_new("lllllrllrr", titles);
    for (uint32_t i = 0; i < host->nic_count; i++) {
        const struct probe_nic *nic = &host->nic[i];
        text_table_cell(table, "%s", nic->name);
        text_table_cell(table, "%s", nic->pci.busid ? nic->pci.busid : "?");
        text_table_cell(table, "%s", nic->part ? nic->part->name : "?");
        KNOWN_CELL(table, nic->pci.numa >= 0, "%d", nic->pci.numa);
        KNOWN_CELL(table, nic->pci.width && nic->pci.gts > 0, "x%u at %g GT/s, %.1f GB/s", nic->pci.width, nic->pci.gts,
                   probe_pcie_gbs(nic->pci.width, nic->pci.gts));
        KNOWN_CELL(table, nic->ports, "%u", nic->ports);
        KNOWN_CELL(table, nic->rate_bps, "%.0f Gbit/s%s", (double)nic->rate_bps / 1e9,
                   nic->bond ? " a port (LAG)" : "");
        text_table_cell(table, "%s", nic->link_layer ? nic->link_layer : "?");
        KNOWN_CELL(table, nic->mtu_bytes, "%u", nic->mtu_bytes);
        KNOWN_CELL(table, nic->gids_known, "%u", nic->gids_roce_v2);
    }
    known_append(table, out);
}

static void checks_append(const struct probe_host *host, GString *out)
{
    static const char *const met[] = { [PROBE_UNKNOWN] = "unknown", [PROBE_NO] = "FAIL", [PROBE_YES] = "pass" };
    for (guint i = 0; i < host->check->len; i++) {
        const struct probe_check *c = &g_array_index(host->check, struct probe_check, i);
        g_string_append_printf(out, "%-8s %-10s %s: %s\n", met[c->met], c->topic, c->name, c->found);
        if (c->remedy) g_string_append_printf(out, "%19s do: %s\n", "", c->remedy);
    }
}

/* Appends how many NVLinks each GPU has, and which GPUs differ.  GPUs of a domain should have equally many.  A GPU
 * without any is faulty or partitioned off. */
static void nvlink_append(const struct probe_host *host, GString *out)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < host->gpu_count; i++) most = MAX(most, host->gpu[i].nvlinks);
    for (uint32_t i = 0; i < host->gpu_count; i++)
        if (most && host->gpu[i].nvlink_known && host->gpu[i].nvlinks < most)
            g_string_append_printf(out,
                                   "FAIL     nvlink     GPU %u has %u NVLinks, others have %u\n%19s do: look for Xid "
                                   "errors and the fabric manager's log; nvidia-smi nvlink -s\n",
                                   i, host->gpu[i].nvlinks, most, "");
}

static const char *ending(uint32_t count) { return count == 1 ? "" : "s"; }

void probe_text_append(const struct probe_host *host, GString *out)
{
    g_string_append_printf(out, "host       %s\n", host->source);
    if (host->cpu) g_string_append_printf(out, "CPU        %s, %u CPU%s\n", host->cpu, host->cpus, ending(host->cpus));
    if (host->numa_nodes)
        g_string_append_printf(out, "NUMA       %u node%s\n", host->numa_nodes, ending(host->numa_nodes));
    if (host->virtual_machine == PROBE_YES)
        g_string_append(out, "VM         yes: PCIe widths and speeds may be hidden, and then show as ?\n");
    g_string_append_printf(out, "devices    %u GPU%s, %u NIC%s\n\n", host->gpu_count, ending(host->gpu_count),
                           host->nic_count, ending(host->nic_count));
    gpus_append(host, out);
    nics_append(host, out);
    nvlink_append(host, out);
    checks_append(host, out);
}
