/* probe_cluster.c - writes what probe found as a cluster file: the node, its NICs, and a network if one is known.
 *
 * Rates come from the negotiated PCIe link and from the port, and a comment names the source of each.  Values that
 * only a measurement can give (latencies, the work of a GPU's SMs) come from the included file.  This file knows the
 * keys of cluster files, but not the model. */
#include "replay/probe/probe.h"

#include <string.h>

#include "replay/probe/probe_ibnet.h"

/* The share of PCIe's bytes that is payload.  A TLP with 256 bytes of payload has 24 to 28 bytes more (PROTOCOLS.md
 * 5.3). */
#define PCIE_PAYLOAD_SHARE 0.90
/* The share of its data rate that a port reaches, which is 46.4 to 48.4 of 50 GB/s (PROTOCOLS.md 5.4). */
#define PORT_SHARE         0.934

/* Returns how many different values value() has over the devices.  NULL does not count as a value. */
static uint32_t count_distinct(const struct probe_host *host, const char *(*value)(const struct probe_pci *))
{
    g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);
    for (uint32_t i = 0; i < host->gpu_count; i++)
        if (value(&host->gpu[i].pci)) g_hash_table_add(seen, (void *)value(&host->gpu[i].pci));
    return g_hash_table_size(seen);
}

static const char *root_of(const struct probe_pci *pci) { return pci->root; }
/* Returns the PCIe switch above the device: its upstream port, which is the bridge below the root port.  NULL if
 * there is no switch above the device. */
static const char *switch_of(const struct probe_pci *pci) { return pci->bridge_count > 2 ? pci->bridge[1] : NULL; }

static double pcie_gbs_least(const struct probe_host *host)
{
    double least = 0;
    for (uint32_t i = 0; i < host->gpu_count; i++) {
        const double gbs = probe_pcie_gbs(host->gpu[i].pci.width, host->gpu[i].pci.gts);
        if (gbs > 0 && (least == 0 || gbs < least)) least = gbs;
    }
    return least;
}

static void node_append(const struct probe_host *host, GString *out)
{
    const uint32_t sockets = host->numa_nodes ? host->numa_nodes : 1, roots = count_distinct(host, root_of),
                   switches = count_distinct(host, switch_of);
    const double gbs = pcie_gbs_least(host);
    g_string_append(out, "\n[node]\n");
    if (host->gpu_count) g_string_append_printf(out, "gpus = %u\n", host->gpu_count);
    if (host->nic_count) g_string_append_printf(out, "nics = %u\n", host->nic_count);
    else g_string_append(out, "# nics: none here\n");
    g_string_append_printf(out, "sockets = %u                  # NUMA nodes with CPUs; root complexes with GPUs: %u\n",
                           sockets, roots);
    if (switches >= 1) g_string_append_printf(out, "pcie-switches = %u\n", switches);
    if (gbs > 0)
        g_string_append_printf(out, "pcie-rate = %.1f GB/s        # %.1f raw, as negotiated, times %.2f for headers\n",
                               gbs * PCIE_PAYLOAD_SHARE, gbs, PCIE_PAYLOAD_SHARE);
    else g_string_append(out, "# pcie-rate: width and speed are hidden here; measure a copy between host and GPU\n");
    for (uint32_t g = 0; g < host->gpu_count; g++) {
        const uint32_t nic = probe_nearest_nic(host, g);
        if (nic == UINT32_MAX) continue;
        g_string_append_printf(out, "# GPU %u: nearest NIC %s (%s)\n", g, host->nic[nic].name,
                               probe_near_name(probe_host_near(host, g, nic)));
    }
}

static void nic_append(const struct probe_host *host, GString *out)
{
    if (!host->nic_count) return;
    const struct probe_nic *nic = &host->nic[0];
    const bool ethernet = !g_strcmp0(nic->link_layer, "Ethernet");
    const double gbs = (double)nic->rate_bps / 8e9;
    g_string_append_printf(out, "\n[nic]\n# %s, %s\n", nic->name, nic->part ? nic->part->name : "not known");
    if (gbs > 0)
        g_string_append_printf(
            out, "rate = %.2f GB/s            # %.0f Gbit/s a port, times %.3f as ports of this kind reach\n",
            gbs * PORT_SHARE, gbs * 8, PORT_SHARE);
    else g_string_append(out, "# rate: not told here; the included file's is taken\n");
    if (nic->bond)
        g_string_append(out, "ports = 2                    # a LAG; the rate shown is one port's\nport-map = hash\n");
    else if (nic->ports > 1) g_string_append_printf(out, "ports = %u\n", nic->ports);
    if (ethernet) g_string_append(out, "header = 82 B                # RoCE v2\n");
    if (ethernet && nic->mtu_bytes)
        g_string_append_printf(out, "mtu = %u B                 # of an interface MTU of %u\n",
                               nic->mtu_bytes >= 4200 ? 4096u : 1024u, nic->mtu_bytes);
}

/* Returns the total rate of all cables between the two switches that cable `first` connects, and sets *cables to
 * their number.  Returns 0 if `first` is not the first of these cables, because they have then been counted. */
static uint64_t bundle(const struct probe_ibnet *net, guint first, guint *cables)
{
    const struct probe_cable *c = &g_array_index(net->cable, struct probe_cable, first);
    uint64_t rate_bps = 0;
    *cables = 0;
    for (guint i = 0; i < net->cable->len; i++) {
        const struct probe_cable *other = &g_array_index(net->cable, struct probe_cable, i);
        const bool same = !strcmp(c->from, other->from) && !strcmp(c->to, other->to);
        const bool turned = !strcmp(c->from, other->to) && !strcmp(c->to, other->from);
        if (other->host || (!same && !turned)) continue;
        if (i < first) return 0;
        rate_bps += other->rate_bps;
        ++*cables;
    }
    return rate_bps;
}

static void uplinks_append(const struct probe_ibnet *net, GString *out)
{
    for (guint i = 0; i < net->cable->len; i++) {
        const struct probe_cable *c = &g_array_index(net->cable, struct probe_cable, i);
        guint cables;
        const uint64_t rate_bps = c->host ? 0 : bundle(net, i, &cables);
        if (!rate_bps) continue;
        g_string_append_printf(out, "%s - %s = %.2f GB/s   # %u cable%s\n", c->from, c->to, (double)rate_bps / 8e9,
                               cables, cables > 1 ? "s" : "");
    }
}

/* Appends a line for each cable to a host.  Hosts are numbered in the order in which their names first appear.  Each
 * port of a host counts as one of its NICs.  Returns the number of hosts, and sets *nics_most to the largest number
 * of NICs of one host. */
static guint hosts_append(const struct probe_ibnet *net, guint *nics_most, GString *out)
{
    g_autoptr(GHashTable) nics = g_hash_table_new(g_str_hash, g_str_equal);
    g_autoptr(GHashTable) nodes = g_hash_table_new(g_str_hash, g_str_equal);
    *nics_most = 0;
    for (guint i = 0; i < net->cable->len; i++) {
        const struct probe_cable *c = &g_array_index(net->cable, struct probe_cable, i);
        if (!c->host) continue;
        if (!g_hash_table_contains(nodes, c->node))
            g_hash_table_insert(nodes, c->node, GUINT_TO_POINTER(g_hash_table_size(nodes)));
        const guint node = GPOINTER_TO_UINT(g_hash_table_lookup(nodes, c->node));
        const guint nic = GPOINTER_TO_UINT(g_hash_table_lookup(nics, c->node));
        g_hash_table_replace(nics, c->node, GUINT_TO_POINTER(nic + 1));
        *nics_most = MAX(*nics_most, nic + 1);
        g_string_append_printf(out, "n%u.nic%u - %s = %.2f GB/s   # %s%s\n", node, nic, c->from,
                               (double)c->rate_bps / 8e9, c->node, c->slow ? ", slow" : "");
    }
    return g_hash_table_size(nodes);
}

#define LATENCY_LINE "latency = 900 ns             # not told; 2.8 us end to end less PCIe (PROTOCOLS.md 5.1)\n"

static void network_append(const struct probe_ibnet *net, bool node_told, GString *out)
{
    if (!net) {
        g_string_append(out, "\n[network]\n" LATENCY_LINE);
        return;
    }
    g_autoptr(GString) links = g_string_new(NULL);
    guint nics;
    const guint nodes = hosts_append(net, &nics, links);
    uplinks_append(net, links);
    if (!node_told) g_string_append_printf(out, "\n[node]\nnics = %u                     # ports of one host\n", nics);
    g_string_append_printf(
        out,
        "\n[network]\ntopology = links\nnodes = %u\n" LATENCY_LINE
        "hop = 450 ns                 # not told; 0.9 us more through two more switches (PROTOCOLS.md 5.1)\n"
        "\n[links]\n%s",
        nodes, links->str);
}

void probe_cluster_append(const struct probe_host *host, const struct probe_ibnet *net, const char *include,
                          GString *out)
{
    const struct probe_part *part = host && host->gpu_count ? host->gpu[0].part : NULL;
    const char *from = include ? include : part ? part->cluster : NULL;
    g_string_append_printf(
        out, "# What eptwin probe found%s%s.  Rates are data sheets' and negotiated ones, not measured.\n",
        host ? " of " : "", host ? host->source : "");
    g_string_append_printf(out, "\n[cluster]\nname = %s\n", part ? part->name : "probed");
    if (from)
        g_string_append_printf(out, "include = %s%*s# what a %s does\n", from, (int)MAX(1, 19 - (int)strlen(from)), "",
                               part ? part->name : "GPU");
    else
        g_string_append(out,
                        "# include = FILE: [gpu], [nvlink] and latencies; eptwin measure --fabric cuda, then fit\n");
    if (host) node_append(host, out);
    if (host) nic_append(host, out);
    if (net || host->nic_count) network_append(net, host != NULL, out);
}
