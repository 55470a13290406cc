/* cluster_draw.c - the parts, links and words of a cluster's drawing; reports/drawing.h lays them out. */
#include "models/cluster_command.h"

#include "sim/units.h"

/* A drawing while it is made.  place[part] is 1 + the part's number in the drawing, or 0 if the part is not drawn. */
struct sketch {
    const struct cluster *cluster;
    const struct graph *graph;
    struct drawing *drawing;
    uint32_t *place;
};

static char *rate_text(uint64_t rate_bps)
{
    return rate_bps ? g_strdup_printf("%.4g GB/s", (double)rate_bps / 8e9) : g_strdup("never the limit");
}

static const char *name_of(const struct graph *g, uint32_t part) { return graph_part(g, part)->name; }

static void place_part(struct sketch *s, uint32_t row, uint32_t part, const char *note, const char *tip,
                       const char *resources)
{
    s->place[part] = 1 + drawing_part_add(s->drawing, row, name_of(s->graph, part), note, tip, resources);
}

static char *link_tip(const struct graph *g, const struct link *link)
{
    g_autofree char *rate = rate_text(link->rate_bps);
    return g_strdup_printf("%s - %s: %s, %.4g us%s", name_of(g, link->from), name_of(g, link->to), rate,
                           units_us(link->latency_ps), link->down ? ", down" : "");
}

/* Draws the links from a part to other drawn parts, one line for each pair of parts. */
static void links_place(struct sketch *s, uint32_t from)
{
    const GArray *out = graph_part(s->graph, from)->out;
    for (guint i = 0; i < out->len; i++) {
        const struct link *link = graph_link(s->graph, g_array_index(out, uint32_t, i));
        if (!s->place[link->to] || link->to < from) continue;
        if (graph_part(s->graph, from)->node != graph_part(s->graph, link->to)->node) continue; /* between nodes */
        g_autofree char *tip = link_tip(s->graph, link);
        g_autofree char *name = g_strconcat(name_of(s->graph, from), "-", name_of(s->graph, link->to), NULL);
        drawing_link_add(s->drawing, s->place[from] - 1, s->place[link->to] - 1, name, tip, NULL);
    }
}

/* ---- network ---- */

/* Describes the links from switches of a tier to switches of this tier or a lower one, in two lines: "32 links, 32
 * GB/s" and "0.45 us each". */
static char *tier_words(const struct graph *g, uint32_t tier)
{
    uint64_t least_bps = UINT64_MAX, most_bps = 0, latency_ps = 0;
    uint32_t links = 0;
    for (uint32_t i = 0; i < g->link->len; i++) {
        const struct link *link = graph_link(g, i);
        const struct part *from = graph_part(g, link->from), *to = graph_part(g, link->to);
        if (from->kind != PART_SWITCH || to->kind != PART_SWITCH || from->tier != tier || to->tier > tier) continue;
        if (to->tier == tier && link->to < link->from) continue;
        links++;
        least_bps = MIN(least_bps, link->rate_bps);
        most_bps = MAX(most_bps, link->rate_bps);
        latency_ps = MAX(latency_ps, link->latency_ps);
    }
    if (!links) return g_strdup("");
    g_autofree char *rate = least_bps == most_bps
                                ? g_strdup_printf("%.4g", (double)most_bps / 8e9)
                                : g_strdup_printf("%.4g to %.4g", (double)least_bps / 8e9, (double)most_bps / 8e9);
    return g_strdup_printf("%u link%s, %s GB/s\n%.4g us each", links, links > 1 ? "s" : "", rate, units_us(latency_ps));
}

static const char *tier_name(const struct graph *g, uint32_t tier)
{
    if (g->cluster->network.topology == CLUSTER_LINKS || g->cluster->network.topology == CLUSTER_SINGLE)
        return "switches";
    return tier == 0 ? "leaves" : tier == 1 ? "spines" : "cores";
}

static void tier_place(struct sketch *s, uint32_t tier)
{
    g_autofree char *words = tier_words(s->graph, tier);
    uint32_t row = UINT32_MAX;
    for (uint32_t i = 0; i < s->graph->part->len; i++) {
        const struct part *p = graph_part(s->graph, i);
        if (p->kind != PART_SWITCH || p->tier != tier) continue;
        if (row == UINT32_MAX) row = drawing_row_add(s->drawing, tier_name(s->graph, tier), words, "switch");
        g_autofree char *tip = g_strdup_printf("switch %s: %u links", p->name, p->out->len);
        place_part(s, row, i, NULL, tip, NULL);
    }
}

/* Draws one line for all ports of a node on one switch.  The line is labelled with the ports' names. */
static void node_join(struct sketch *s, uint32_t drawn, uint32_t node)
{
    const struct graph *g = s->graph;
    g_autoptr(GHashTable) seen = g_hash_table_new(NULL, NULL);
    for (uint32_t p = 0; p < g->nics * g->ports; p++) {
        const uint32_t port = graph_port(g, node, p), above = graph_port_switch(g, port);
        if (above == UINT32_MAX || !g_hash_table_add(seen, GUINT_TO_POINTER(above + 1))) continue;
        uint32_t ports = 0;
        uint64_t rate_bps = 0;
        g_autoptr(GString) names = g_string_new("nic_tx nic_rx");
        for (uint32_t other = p; other < g->nics * g->ports; other++) {
            if (graph_port_switch(g, graph_port(g, node, other)) != above) continue;
            const uint32_t out = graph_link_between(g, graph_port(g, node, other), above);
            const char *const end = name_of(g, graph_port(g, node, other));
            g_string_append_printf(names, " %s-%s %s-%s", end, name_of(g, above), name_of(g, above), end);
            ports++;
            rate_bps += graph_link(g, out)->rate_bps;
        }
        g_autofree char *rate = rate_text(rate_bps);
        g_autofree char *name = ports > 1 ? g_strdup_printf("n%u-%s", node, name_of(g, above))
                                          : g_strdup_printf("%s-%s", name_of(g, port), name_of(g, above));
        g_autofree char *tip = g_strdup_printf("n%u - %s: %u port%s, together %s", node, name_of(g, above), ports,
                                               ports > 1 ? "s" : "", rate);
        drawing_link_add(s->drawing, drawn, s->place[above] - 1, name, tip, names->str);
    }
}

static void nodes_place(struct sketch *s)
{
    const struct graph *g = s->graph;
    g_autofree char *rate = rate_text(graph_port_out_bps(s->graph, 0, 0));
    g_autofree char *words = g_strdup_printf("each %u port%s of %s\nnic_tx, nic_rx", g->nics * g->ports,
                                             g->nics * g->ports > 1 ? "s" : "", rate);
    const uint32_t row = drawing_row_add(s->drawing, "nodes", words, "node");
    for (uint32_t node = 0; node < g->nodes; node++) {
        g_autofree char *name = g_strdup_printf("n%u", node);
        g_autofree char *tip = g_strdup_printf("node n%u: %u GPUs, %u NICs", node, g->gpus, g->nics);
        node_join(s, drawing_part_add(s->drawing, row, name, NULL, tip, NULL), node);
    }
    if (g->nodes > 1)
        drawing_cut_add(s->drawing, row, g->nodes / 2 - 1, "bisection",
                        "bisection: what goes from one half of the ranks to the other, over the NICs of a half");
}

static void network_place(struct sketch *s)
{
    static const char *const topology[] = { "single switch", "leaf-spine", "rail", "fat-tree", "dragonfly", "links" };
    static const char *const routing[] = { "ECMP", "adaptive", "static", "spraying" };
    const struct cluster_network *n = &s->cluster->network;
    const struct graph *g = s->graph;
    uint32_t tiers = 0;
    g_autofree char *heading = g_strdup_printf("Network: %s of %u node%s, %s routing", topology[n->topology], g->nodes,
                                               g->nodes == 1 ? "" : "s", routing[n->routing]);
    for (uint32_t i = 0; i < g->part->len; i++)
        if (graph_part(g, i)->kind == PART_SWITCH) tiers = MAX(tiers, graph_part(g, i)->tier + 1);
    drawing_heading_add(s->drawing, heading);
    for (uint32_t tier = tiers; tier-- > 0;) tier_place(s, tier);
    for (uint32_t i = 0; i < g->part->len; i++)
        if (graph_part(g, i)->kind == PART_SWITCH) links_place(s, i);
    nodes_place(s);
}

/* ---- node ---- */

static bool in_node(const struct graph *g, uint32_t part, enum part_kind kind)
{
    return graph_part(g, part)->node == 0 && graph_part(g, part)->kind == kind;
}

/* A note with the rate of the part's first PCIe link that has a rate; NULL if none has. */
static char *first_rate(const struct graph *g, uint32_t part)
{
    const GArray *out = graph_part(g, part)->out;
    for (guint i = 0; i < out->len; i++) {
        const struct link *link = graph_link(g, g_array_index(out, uint32_t, i));
        const enum part_kind to = graph_part(g, link->to)->kind;
        if (link->rate_bps && (to == PART_ROOT || to == PART_PCIE_SWITCH || to == PART_MEMORY))
            return g_strdup_printf("PCIe %.4g GB/s", (double)link->rate_bps / 8e9);
    }
    return NULL;
}

static void ports_place(struct sketch *s)
{
    const struct graph *g = s->graph;
    if (g->ports < 2) return;
    g_autofree char *rate = rate_text(graph_port_out_bps(s->graph, 0, 0));
    g_autofree char *words = g_strdup_printf("%s each\nnic_tx, nic_rx", rate);
    const uint32_t row = drawing_row_add(s->drawing, "ports", words, "nic");
    for (uint32_t p = 0; p < g->nics * g->ports; p++) {
        const uint32_t port = graph_port(g, 0, p), above = graph_port_switch(g, port);
        g_autofree char *note = above == UINT32_MAX ? g_strdup("down") : g_strdup_printf("to %s", name_of(g, above));
        g_autofree char *tip = g_strdup_printf("port %s, %s", name_of(g, port), note);
        place_part(s, row, port, note, tip, "nic_tx nic_rx receiving atomics");
    }
}

static void nics_place(struct sketch *s)
{
    const struct graph *g = s->graph;
    if (!g->nics) return;
    g_autofree char *rate = rate_text(graph_port_out_bps(s->graph, 0, 0));
    g_autofree char *words =
        g_strdup_printf("%u port%s of %s\nnic_tx, nic_rx", g->ports, g->ports > 1 ? "s" : "", rate);
    const uint32_t row = drawing_row_add(s->drawing, "NICs", words, "nic");
    for (uint32_t i = 0; i < g->nics; i++) {
        const uint32_t nic = graph_nic(g, 0, i);
        g_autofree char *note = first_rate(g, nic);
        g_autofree char *tip = g_strdup_printf("NIC %s", name_of(g, nic));
        place_part(s, row, nic, note, tip, "nic_tx nic_rx receiving atomics");
    }
}

/* Draws root complexes, PCIe switches and memories.  The root complex of a socket is drawn among the socket's PCIe
 * switches. */
static void pcie_place(struct sketch *s)
{
    const struct graph *g = s->graph;
    static const enum part_kind kinds[] = { PART_ROOT, PART_PCIE_SWITCH, PART_MEMORY };
    static const char *const tips[] = { "root complex", "PCIe switch", "host memory" };
    const uint32_t sockets = MAX(s->cluster->node.sockets, 1), switches = s->cluster->node.pcie_switches;
    const uint32_t row =
        drawing_row_add(s->drawing, "PCIe", s->cluster->node.staging ? "staged in host memory" : "", "pcie");
    for (uint32_t socket = 0, at = 0; socket < sockets; socket++) {
        uint32_t first = at, end = at;
        while (end < switches && end * sockets / switches == socket) end++;
        for (; at <= end; at++) {
            g_autofree char *name = at == (first + end) / 2 ? g_strdup_printf("n0.root%u", socket) : NULL;
            const uint32_t root = name ? graph_find(g, name) : UINT32_MAX;
            if (root != UINT32_MAX) place_part(s, row, root, NULL, "root complex", NULL);
            g_autofree char *below = at < end ? g_strdup_printf("n0.pcie%u", at) : NULL;
            if (below && graph_find(g, below) != UINT32_MAX)
                place_part(s, row, graph_find(g, below), NULL, "PCIe switch", NULL);
        }
        at = end;
    }
    for (uint32_t i = 0; i < g->part->len; i++)
        for (size_t k = 0; k < G_N_ELEMENTS(kinds); k++)
            if (in_node(g, i, kinds[k]) && !s->place[i]) place_part(s, row, i, NULL, tips[k], NULL);
}

static void gpus_place(struct sketch *s)
{
    const struct graph *g = s->graph;
    const bool peers = s->cluster->nvlink.over == CLUSTER_PEERS_BY_PCIE && s->cluster->nvlink.gpus > 1;
    const struct graph_peer_rates rates = graph_gpu_peer_rates(g, 0, 0);
    g_autofree char *out = rate_text(rates.out_bps), *in = rate_text(rates.in_bps);
    g_autofree char *over =
        peers ? g_strdup_printf("\nnvlink_egress: %s by PCIe\nnvlink_ingress: %s by PCIe", out, in) : g_strdup("");
    g_autofree char *words = g_strdup_printf("sm: %u a GPU\nhbm: %.4g GB/s\nposting: requests to NICs%s",
                                             s->cluster->gpu.sms, (double)s->cluster->gpu.hbm_rate_bps / 8e9, over);
    const uint32_t row = drawing_row_add(s->drawing, "GPUs", words, "gpu");
    for (uint32_t i = 0; i < g->gpus; i++) {
        const uint32_t gpu = graph_gpu(g, 0, i);
        g_autofree char *note = first_rate(g, gpu);
        g_autofree char *tip = g_strdup_printf("GPU %s: %u SMs", name_of(g, gpu), s->cluster->gpu.sms);
        place_part(s, row, gpu, note, tip, peers ? "sm hbm posting nvlink_egress nvlink_ingress" : "sm hbm posting");
    }
    if (!g->nics && g->gpus > 1)
        drawing_cut_add(s->drawing, row, g->gpus / 2 - 1, "bisection",
                        "bisection: what goes from one half of the ranks to the other, over their NVLink");
}

static void nvlink_place(struct sketch *s)
{
    const struct cluster_nvlink *c = &s->cluster->nvlink;
    const struct graph *g = s->graph;
    const struct graph_peer_rates rates = graph_gpu_peer_rates(g, 0, 0);
    g_autofree char *out = rate_text(rates.out_bps), *in = rate_text(rates.in_bps);
    g_autofree char *words =
        g_strdup_printf("%u GPUs a domain\nnvlink_egress: %s\nnvlink_ingress: %s", c->gpus, out, in);
    uint32_t row = UINT32_MAX;
    for (uint32_t i = 0; i < g->part->len; i++) {
        if (!in_node(g, i, PART_NVLINK)) continue;
        if (row == UINT32_MAX) row = drawing_row_add(s->drawing, "NVLink", words, "nvlink");
        g_autofree char *tip = g_strdup_printf("%s: %s out of and %s into each GPU, %.4g us", name_of(g, i), out, in,
                                               units_us(c->latency_ps));
        place_part(s, row, i, NULL, tip, "nvlink_egress nvlink_ingress");
    }
}

static void node_place(struct sketch *s)
{
    const struct graph *g = s->graph;
    g_autofree char *heading =
        g_strdup_printf("Node n0: %u GPU%s, %u NIC%s%s", g->gpus, g->gpus > 1 ? "s" : "", g->nics,
                        g->nics == 1 ? "" : "s", g->nics && g->nodes > 1 ? "; the others are like it" : "");
    drawing_heading_add(s->drawing, heading);
    drawing_alike_set(s->drawing, "n", 0);
    ports_place(s);
    nics_place(s);
    if (g->nics || s->cluster->nvlink.over == CLUSTER_PEERS_BY_PCIE) pcie_place(s);
    gpus_place(s);
    nvlink_place(s);
    for (uint32_t i = 0; i < g->part->len; i++)
        if (graph_part(g, i)->node == 0 && s->place[i]) links_place(s, i);
}

/* ---- words ---- */

/* Describes paths from the first GPU to GPUs of other nodes, with rates and latencies: one path for each number of
 * links. Parts have the names that results use for bounds. */
static void ways_describe(struct sketch *s)
{
    const struct graph *g = s->graph;
    bool seen[ROUTE_LINKS_MAX + 1] = { false };
    for (uint32_t i = 0; g->nics && i < (g->nodes - 1) * g->gpus; i++) {
        struct route way;
        uint32_t ways;
        const uint32_t node = 1 + i / g->gpus, gpu = i % g->gpus;
        if (!cluster_show_way(g, node, gpu, &way, &ways) || seen[way.count]) continue;
        seen[way.count] = true;
        g_autoptr(GString) text = g_string_new(name_of(g, graph_link(g, way.link[0])->from));
        for (uint32_t k = 0; k < way.count; k++)
            g_string_append_printf(text, " - %s", name_of(g, graph_link(g, way.link[k])->to));
        const uint64_t rate_bps = route_rate_bps(g, &way);
        g_string_append_printf(text, ": %.4g us", units_us(route_latency_ps(g, &way)));
        if (rate_bps) g_string_append_printf(text, ", %.4g GB/s", (double)rate_bps / 8e9);
        if (ways > 1) g_string_append_printf(text, ", and %u way%s like it", ways - 1, ways > 2 ? "s" : "");
        drawing_words_add(s->drawing, "latency", text->str);
    }
    if (s->cluster->nvlink.gpus > 1) {
        g_autofree char *text =
            g_strdup_printf("by %s: %.4g us", s->cluster->nvlink.over == CLUSTER_PEERS_BY_PCIE ? "PCIe" : "NVLink",
                            units_us(s->cluster->nvlink.latency_ps));
        drawing_words_add(s->drawing, "latency", text);
    }
}

/* Explains the names of bounds in results that are not names of parts. */
static void bounds_describe(struct sketch *s)
{
    const bool nics = s->graph->nics, nvlink = s->cluster->nvlink.gpus > 1;
    const char *out = nics && nvlink ? "the busiest nic_tx or nvlink_egress"
                      : nics         ? "the busiest nic_tx"
                                     : "the busiest nvlink_egress";
    const char *in = nics && nvlink ? "the busiest nic_rx or nvlink_ingress"
                     : nics         ? "the busiest nic_rx"
                                    : "the busiest nvlink_ingress";
    drawing_words_add(s->drawing, "send", out);
    drawing_words_add(s->drawing, "receive", in);
    drawing_words_add(s->drawing, "link", "the busiest link between switches or of a node's PCIe, which results name");
}

static void host_draw(struct sketch *s)
{
    const uint32_t cores = s->cluster->host.cores;
    g_autofree char *note = g_strdup_printf("%u core%s", cores, cores > 1 ? "s" : "");
    drawing_heading_add(s->drawing, "Host: ranks are processes on its cores");
    const uint32_t row = drawing_row_add(s->drawing, "host", "core", "node");
    drawing_part_add(s->drawing, row, "host", note, "the host that all ranks run on", "core");
    drawing_words_add(s->drawing, "latency", "from a change to the step that sees it");
    if (!s->graph->nics) return;
    g_autofree char *rate = rate_text(graph_port_out_bps(s->graph, 0, 0));
    g_autofree char *out = g_strdup_printf("nic_tx: %s out of each rank's link", rate);
    g_autofree char *in = g_strdup_printf("nic_rx: %s into each rank's link", rate);
    drawing_words_add(s->drawing, "nic_tx", rate);
    drawing_words_add(s->drawing, "nic_rx", rate);
    drawing_words_add(s->drawing, "receiving", "one thread takes in what comes, where a transport has one");
    drawing_words_add(s->drawing, "send", out);
    drawing_words_add(s->drawing, "receive", in);
    drawing_words_add(s->drawing, "bisection", "the links of one half of the ranks to the other");
}

struct drawing *cluster_draw(const struct cluster *c, const struct graph *g)
{
    g_autofree char *nodes = g->nics ? g_strdup_printf(", %u nodes joined by a network", g->nodes) : g_strdup("");
    g_autofree char *description =
        c->host.cores
            ? g_strdup_printf("A host of %u cores.", c->host.cores)
            : g_strdup_printf(
                  "Nodes of %u GPUs and %u NICs%s.  Above: the switches of the network and the nodes below them.  Then "
                  "one node: its NICs, PCIe, GPUs and NVLink.  Below: ways, with latency and rate.",
                  g->gpus, g->nics, nodes);
    struct sketch s = { .cluster = c,
                        .graph = g,
                        .drawing = drawing_new(c->name, description),
                        .place = g_new0(uint32_t, g->part->len + 1) };
    if (c->host.cores) {
        host_draw(&s);
    } else {
        if (g->nics) network_place(&s);
        node_place(&s);
        bounds_describe(&s);
        ways_describe(&s);
    }
    g_free(s.place);
    return s.drawing;
}
