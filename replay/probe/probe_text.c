/* probe_text.c - writes a host's description for a terminal: its devices, which of them are near each other, and
 * which requirements the host meets. */
#include "replay/probe/probe.h"

#include <string.h>

#include "reports/text_table.h"

enum { COLUMNS_MAX = 16 };

/* A table in the making, with its cells row by row.  "?" stands for an unknown value. */
struct sheet {
    const char *const *titles;
    const char *format;
    GPtrArray *cell;
};

G_GNUC_PRINTF(2, 3) static void sheet_cell(struct sheet *sheet, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    g_ptr_array_add(sheet->cell, g_strdup_vprintf(format, arguments));
    va_end(arguments);
}

/* Adds a cell, "?" if its value is not known. */
#define SHEET_KNOWN(sheet, known, ...) \
    do { \
        if (known) sheet_cell(sheet, __VA_ARGS__); \
        else sheet_cell(sheet, "?"); \
    } while (0)

/* Appends the table.  Columns without a known value are left out. */
static void sheet_append(struct sheet *sheet, GString *out)
{
    const guint columns = (guint)strlen(sheet->format), rows = sheet->cell->len / columns;
    const char *titles[COLUMNS_MAX] = { NULL };
    char format[COLUMNS_MAX + 1] = "";
    bool shown[COLUMNS_MAX] = { false };
    guint count = 0;
    for (guint c = 0; c < columns; c++) {
        for (guint r = 0; r < rows; r++) shown[c] |= strcmp(sheet->cell->pdata[r * columns + c], "?") != 0;
        if (!shown[c]) continue;
        titles[count] = sheet->titles[c];
        format[count++] = sheet->format[c];
    }
    if (count > 1) {
        struct text_table *table = text_table_new(format, titles);
        for (guint i = 0; i < rows * columns; i++)
            if (shown[i % columns]) text_table_cell(table, "%s", (char *)sheet->cell->pdata[i]);
        text_table_append(table, out);
        text_table_free(table);
        g_string_append_c(out, '\n');
    }
    g_ptr_array_unref(sheet->cell);
}

static void gpus_append(const struct probe_host *host, GString *out)
{
    static const char *const titles[] = { "GPU", "bus", "model", "NUMA", "PCIe", "NVLinks", "nearest NIC", "how near" };
    if (!host->gpu_count) return;
    struct sheet sheet = { titles, "rlllllll", g_ptr_array_new_with_free_func(g_free) }, *table = &sheet;
    for (uint32_t i = 0; i < host->gpu_count; i++) {
        const struct probe_gpu *gpu = &host->gpu[i];
        const uint32_t nic = probe_nearest_nic(host, i);
        sheet_cell(table, "%u", i);
        sheet_cell(table, "%s", gpu->pci.busid ? gpu->pci.busid : "?");
        if (gpu->part) sheet_cell(table, "%s", gpu->part->name);
        else SHEET_KNOWN(table, gpu->pci.vendor, "%04x:%04x", gpu->pci.vendor, gpu->pci.device);
        SHEET_KNOWN(table, gpu->pci.numa >= 0, "%d", gpu->pci.numa);
        SHEET_KNOWN(table, gpu->pci.width && gpu->pci.gts > 0, "x%u at %g GT/s, %.1f GB/s", gpu->pci.width,
                    gpu->pci.gts, probe_pcie_gbs(gpu->pci.width, gpu->pci.gts));
        SHEET_KNOWN(table, gpu->nvlink_known, "%u", gpu->nvlinks);
        sheet_cell(table, "%s", nic == UINT32_MAX ? "-" : host->nic[nic].name);
        sheet_cell(table, "%s", nic == UINT32_MAX ? "-" : probe_near_name(probe_host_near(host, i, nic)));
    }
    sheet_append(table, out);
}

static void nics_append(const struct probe_host *host, GString *out)
{
    static const char *const titles[] = { "NIC",   "bus",  "model", "NUMA", "PCIe",
                                          "ports", "rate", "link",  "MTU",  "RoCE v2" };
    if (!host->nic_count) return;
    struct sheet sheet = { titles, "lllllrllrr", g_ptr_array_new_with_free_func(g_free) }, *table = &sheet;
    for (uint32_t i = 0; i < host->nic_count; i++) {
        const struct probe_nic *nic = &host->nic[i];
        sheet_cell(table, "%s", nic->name);
        sheet_cell(table, "%s", nic->pci.busid ? nic->pci.busid : "?");
        sheet_cell(table, "%s", nic->part ? nic->part->name : "?");
        SHEET_KNOWN(table, nic->pci.numa >= 0, "%d", nic->pci.numa);
        SHEET_KNOWN(table, nic->pci.width && nic->pci.gts > 0, "x%u at %g GT/s, %.1f GB/s", nic->pci.width,
                    nic->pci.gts, probe_pcie_gbs(nic->pci.width, nic->pci.gts));
        SHEET_KNOWN(table, nic->ports, "%u", nic->ports);
        SHEET_KNOWN(table, nic->rate_bps, "%.0f Gbit/s%s", (double)nic->rate_bps / 1e9,
                    nic->bond ? " a port (LAG)" : "");
        sheet_cell(table, "%s", nic->link_layer ? nic->link_layer : "?");
        SHEET_KNOWN(table, nic->mtu_bytes, "%u", nic->mtu_bytes);
        SHEET_KNOWN(table, nic->gids_known, "%u", nic->gids_roce_v2);
    }
    sheet_append(table, out);
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
