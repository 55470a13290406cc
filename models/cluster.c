/* cluster.c - reads cluster files.  One table names every section and key, its kind of unit and its place in
 * the struct; what the table does not name is an error, so that a misspelt parameter cannot pass for a
 * default.  What values may be stands in cluster_values.c. */
#include "models/cluster.h"
#include <assert.h>
#include <stddef.h>
#include <string.h>
#include "models/cluster_values.h"
#include "models/key_file.h"
#include "sim/nearest.h"
#include "sim/share.h"

struct key {
    const char *section, *name;
    enum cluster_kind kind;
    bool optional;
    size_t offset;
    const char *choices; /* KIND_CHOICE: "a|b|c", by the number of an enum */
};

#define KEY(section, name, kind, optional, field) \
    { \
        section, name, kind, optional, offsetof(struct cluster, field), NULL \
    }
#define CHOICE(section, name, field, choices) \
    { \
        section, name, KIND_CHOICE, true, offsetof(struct cluster, field), choices \
    }
#define WORK(section, name, optional, field) \
    KEY(section, name "-row", KIND_TIME, optional, field.row_ps), \
        KEY(section, name "-warp-rate", KIND_RATE, optional, field.warp_rate_bps), \
        KEY(section, name "-sm-rate", KIND_RATE, optional, field.sm_rate_bps)
#define HOST_WORK(name, field) \
    KEY("host", name "-row", KIND_TIME, false, field.row_ps), \
        KEY("host", name "-rate", KIND_RATE, false, field.warp_rate_bps)

static const struct key keys[] = {
    KEY("gpu", "sms", KIND_COUNT, false, gpu.sms),
    KEY("gpu", "cpcs", KIND_CPCS, true, gpu.cpcs),
    KEY("gpu", "launch", KIND_TIME, false, gpu.launch_ps),
    KEY("gpu", "beside", KIND_TIME, true, gpu.beside_ps),
    KEY("gpu", "setup", KIND_TIME, true, gpu.setup_ps),
    KEY("gpu", "host-sync", KIND_TIME, true, gpu.host_sync_ps),
    KEY("gpu", "call", KIND_TIME, true, gpu.call_ps),
    KEY("gpu", "step", KIND_TIME, false, gpu.step_ps),
    KEY("gpu", "poll", KIND_TIME, false, gpu.poll_ps),
    KEY("gpu", "fence", KIND_TIME, false, gpu.fence_ps),
    KEY("gpu", "fence-crowd", KIND_TIME, true, gpu.fence_crowd_ps),
    KEY("gpu", "fence-crowd-half", KIND_COUNT, true, gpu.fence_crowd_half),
    KEY("gpu", "flag", KIND_TIME, false, gpu.flag_ps),
    KEY("gpu", "hbm-rate", KIND_RATE, false, gpu.hbm_rate_bps),
    KEY("gpu", "hbm-rows-rate", KIND_RATE, true, gpu.hbm_rows_rate_bps),
    KEY("gpu", "l2", KIND_SIZE, true, gpu.l2_bytes),
    KEY("gpu", "l2-rate", KIND_RATE, true, gpu.l2_rate_bps),
    WORK("gpu", "store", false, gpu.store),
    KEY("gpu", "store-deep-rate", KIND_RATE, true, gpu.store_deep_rate_bps),
    WORK("gpu", "copy", false, gpu.copy),
    WORK("gpu", "bulk", true, gpu.bulk),
    KEY("gpu", "shared-align", KIND_FRAME, true, gpu.shared_align_bytes),
    KEY("gpu", "bulk-in", KIND_TIME, true, gpu.engine.in_ps),
    KEY("gpu", "bulk-out", KIND_TIME, true, gpu.engine.out_ps),
    KEY("gpu", "bulk-in-rate", KIND_RATE, true, gpu.engine.in_rate_bps),
    KEY("gpu", "bulk-out-rate", KIND_RATE, true, gpu.engine.out_rate_bps),
    KEY("gpu", "bulk-put-rate", KIND_RATE, true, gpu.engine.put_rate_bps),
    KEY("gpu", "bulk-split-rate", KIND_RATE, true, gpu.engine.split_rate_bps),
    KEY("gpu", "bulk-request", KIND_TIME, true, gpu.engine.request_ps),
    KEY("gpu", "bulk-drain", KIND_TIME, true, gpu.engine.drain_ps),
    KEY("gpu", "bulk-skew-rate", KIND_RATE, true, gpu.bulk_skew_rate_bps),
    WORK("gpu", "cast", false, gpu.cast),
    WORK("gpu", "reduce", false, gpu.reduce),
    KEY("gpu", "reduce-made-sm-rate", KIND_RATE, true, gpu.reduce_made_sm_rate_bps),
    KEY("gpu", "reduce-load-rate", KIND_RATE, false, gpu.reduce_load_rate_bps),
    KEY("gpu", "scan-rate", KIND_RATE, false, gpu.scan_rate_bps),
    KEY("gpu", "scan-row", KIND_TIME, false, gpu.scan_row_ps),
    KEY("gpu", "touch", KIND_TIME, true, gpu.touch_ps),
    KEY("gpu", "load", KIND_TIME, true, gpu.load_ps),
    KEY("gpu", "load-l2", KIND_TIME, true, gpu.load_l2_ps),
    KEY("gpu", "load-size", KIND_FRAME, true, gpu.load_bytes),
    KEY("gpu", "load-again", KIND_TIME, true, gpu.load_again_ps),
    KEY("gpu", "load-l1", KIND_TIME, true, gpu.load_l1_ps),
    KEY("gpu", "stage", KIND_TIME, true, gpu.stage_ps),
    KEY("gpu", "reduce-look", KIND_TIME, true, gpu.look_ps),
    KEY("gpu", "stretch", KIND_TIME, true, gpu.stretch_ps),
    KEY("gpu", "stretch-row", KIND_TIME, true, gpu.stretch_row_ps),
    KEY("gpu", "host-fence", KIND_TIME, true, gpu.host_fence_ps),
    KEY("gpu", "host-look", KIND_TIME, true, gpu.host_look_ps),
    KEY("gpu", "host-look-turn", KIND_TIME, true, gpu.host_look_turn_ps),
    KEY("gpu", "row", KIND_TIME, true, gpu.row_ps),
    KEY("gpu", "row-seek", KIND_TIME, true, gpu.seek_ps),
    KEY("gpu", "row-rate", KIND_RATE, true, gpu.row_rate_bps),
    KEY("gpu", "release", KIND_TIME, true, gpu.release_ps),
    KEY("gpu", "release-stores", KIND_TIME, true, gpu.release_stores_ps),
    KEY("gpu", "release-system", KIND_TIME, true, gpu.release_system_ps),
    KEY("gpu", "fresh-rate", KIND_RATE, true, gpu.fresh_rate_bps),
    KEY("gpu", "sum-sm-rate", KIND_RATE, true, gpu.sum_sm_rate_bps),
    KEY("gpu", "logs-warp-rate", KIND_RATE, true, gpu.logs_warp_rate_bps),
    KEY("gpu", "logs-sm-rate", KIND_RATE, true, gpu.logs_sm_rate_bps),
    KEY("gpu", "exps-warp-rate", KIND_RATE, true, gpu.exps_warp_rate_bps),
    KEY("gpu", "exps-sm-rate", KIND_RATE, true, gpu.exps_sm_rate_bps),
    KEY("gpu", "peek", KIND_TIME, false, gpu.peek_ps),
    KEY("nvlink", "gpus", KIND_COUNT, false, nvlink.gpus),
    CHOICE("nvlink", "over", nvlink.over, "nvlink|pcie"),
    KEY("nvlink", "line-rate", KIND_RATE, true, nvlink.line_rate_bps),
    KEY("nvlink", "egress-rate", KIND_RATE, false, nvlink.egress_rate_bps),
    KEY("nvlink", "unaligned-rate", KIND_RATE, true, nvlink.unaligned_rate_bps),
    KEY("nvlink", "split-rate", KIND_RATE, true, nvlink.split_rate_bps),
    KEY("nvlink", "ingress-rate", KIND_RATE, false, nvlink.ingress_rate_bps),
    KEY("nvlink", "bulk-rate", KIND_RATE, true, nvlink.bulk_rate_bps),
    KEY("nvlink", "bulk-crossing-rate", KIND_RATE, true, nvlink.bulk_crossing_rate_bps),
    KEY("nvlink", "sector-rate", KIND_RATE, true, nvlink.sector_rate_bps),
    KEY("nvlink", "latency", KIND_TIME, false, nvlink.latency_ps),
    KEY("nvlink", "crossing", KIND_TIME, true, nvlink.crossing_ps),
    KEY("calls", "wait", KIND_TIME, false, calls.wait_ps),
    KEY("calls", "copy", KIND_TIME, false, calls.copy_ps),
    KEY("calls", "copy-rate", KIND_RATE, false, calls.copy_rate_bps),
    KEY("calls", "word", KIND_TIME, false, calls.word_ps),
    KEY("calls", "await", KIND_TIME, false, calls.await_ps),
    KEY("calls", "handed", KIND_TIME, true, calls.handed_ps),
    KEY("calls", "handed-peer", KIND_TIME, true, calls.handed_peer_ps),
    KEY("calls", "copy-call", KIND_TIME, false, calls.copy_call_ps),
    KEY("calls", "copy-peer-call", KIND_TIME, true, calls.copy_peer_call_ps),
    KEY("calls", "launch-call", KIND_TIME, true, calls.launch_call_ps),
    KEY("calls", "word-call", KIND_TIME, false, calls.word_call_ps),
    KEY("calls", "nccl", KIND_TIME, false, calls.nccl_ps),
    KEY("calls", "nccl-call", KIND_TIME, false, calls.nccl_call_ps),
    KEY("nic", "gpus-per-nic", KIND_COUNT, true, nic.gpus_per_nic),
    KEY("nic", "line-rate", KIND_RATE, true, nic.line_rate_bps),
    KEY("nic", "rate", KIND_RATE, false, nic.rate_bps),
    KEY("nic", "header", KIND_FRAME, true, nic.header_bytes),
    KEY("nic", "mtu", KIND_MTU, true, nic.mtu_bytes),
    KEY("nic", "message", KIND_TIME, true, nic.message_ps),
    KEY("nic", "signal", KIND_TIME, true, nic.signal_ps),
    KEY("nic", "signal-size", KIND_FRAME, true, nic.signal_bytes),
    KEY("nic", "fetch", KIND_TIME, true, nic.fetch_ps),
    KEY("nic", "read", KIND_TIME, true, nic.read_ps),
    KEY("nic", "deliver", KIND_TIME, true, nic.deliver_ps),
    KEY("nic", "posting", KIND_POSTING, true, nic.posting),
    KEY("nic", "post", KIND_TIME, true, nic.post_ps),
    KEY("nic", "doorbell", KIND_TIME, true, nic.doorbell_ps),
    KEY("nic", "library", KIND_TIME, true, nic.library_ps),
    KEY("nic", "proxy", KIND_TIME, true, nic.proxy_ps),
    KEY("nic", "proxy-threads", KIND_COUNT, true, nic.proxy_threads),
    KEY("nic", "queue-depth", KIND_COUNT, true, nic.queue_depth),
    KEY("nic", "window", KIND_SIZE, true, nic.window_bytes),
    KEY("nic", "ask", KIND_SIZE, true, nic.ask_bytes),
    KEY("nic", "ports", KIND_COUNT, true, nic.ports),
    CHOICE("nic", "port-map", nic.port_map, "hash|round-robin|queue"),
    KEY("nic", "ack", KIND_FRAME, true, nic.ack_bytes),
    KEY("nic", "atomic", KIND_TIME, true, nic.atomic_ps),
    KEY("node", "gpus", KIND_COUNT, true, node.gpus),
    KEY("node", "nics", KIND_NICS, true, node.nics),
    KEY("node", "nic-of", KIND_NICS_OF, true, node.nic_of),
    KEY("node", "sockets", KIND_COUNT, true, node.sockets),
    KEY("node", "pcie-switches", KIND_COUNT, true, node.pcie_switches),
    KEY("node", "pcie-rate", KIND_RATE, true, node.pcie_rate_bps),
    KEY("node", "root-rate", KIND_RATE, true, node.root_rate_bps),
    KEY("node", "socket-rate", KIND_RATE, true, node.socket_rate_bps),
    KEY("node", "root-latency", KIND_TIME, true, node.root_latency_ps),
    KEY("node", "socket-latency", KIND_TIME, true, node.socket_latency_ps),
    KEY("node", "host-memory", KIND_FLAG, true, node.host_memory),
    CHOICE("node", "staging", node.staging, "no|yes|in-turn"),
    KEY("node", "staging-rate", KIND_RATE, true, node.staging_rate_bps),
    KEY("node", "staging-latency", KIND_TIME, true, node.staging_latency_ps),
    KEY("network", "latency", KIND_TIME, false, network.latency_ps),
    KEY("network", "rate", KIND_RATE, true, network.rate_bps),
    CHOICE("network", "topology", network.topology, "single|leaf-spine|rail|fat-tree|dragonfly|links"),
    KEY("network", "nodes", KIND_COUNT, true, network.nodes),
    KEY("network", "nodes-per-leaf", KIND_COUNT, true, network.nodes_per_leaf),
    KEY("network", "leaves-per-pod", KIND_COUNT, true, network.leaves_per_pod),
    KEY("network", "spines", KIND_COUNT, true, network.spines),
    KEY("network", "cores", KIND_COUNT, true, network.cores),
    KEY("network", "uplink-rate", KIND_RATE, true, network.uplink_rate_bps),
    KEY("network", "oversubscription", KIND_FACTOR, true, network.oversubscription),
    KEY("network", "hop", KIND_TIME, true, network.hop_ps),
    CHOICE("network", "routing", network.routing, "ecmp|adaptive|static|spray"),
    CHOICE("network", "flow-key", network.flow_key, "qp|address"),
    KEY("network", "buffer", KIND_SIZE, true, network.buffer_bytes),
    CHOICE("network", "queues", network.queues, "port|flow"),
    CHOICE("network", "cross-rail", network.cross_rail, "spine|nvlink"),
    KEY("network", "quantum", KIND_SIZE, true, network.quantum_bytes),
    KEY("dcqcn", "mark-from", KIND_SIZE, false, dcqcn.mark_from_bytes),
    KEY("dcqcn", "mark-all", KIND_SIZE, false, dcqcn.mark_all_bytes),
    KEY("dcqcn", "mark-share", KIND_SHARE, false, dcqcn.mark_share),
    KEY("dcqcn", "cnp-interval", KIND_INTERVAL, false, dcqcn.cnp_ps),
    KEY("dcqcn", "cut-interval", KIND_TIME, false, dcqcn.cut_ps),
    KEY("dcqcn", "alpha-interval", KIND_INTERVAL, false, dcqcn.alpha_ps),
    KEY("dcqcn", "gain", KIND_SHARE, false, dcqcn.gain),
    KEY("dcqcn", "raise-interval", KIND_INTERVAL, false, dcqcn.raise_ps),
    KEY("dcqcn", "raise-bytes", KIND_PIECE, false, dcqcn.raise_bytes),
    KEY("dcqcn", "recovery", KIND_COUNT, false, dcqcn.recovery),
    KEY("dcqcn", "additive", KIND_RATE, false, dcqcn.additive_bps),
    KEY("dcqcn", "hyper", KIND_RATE, false, dcqcn.hyper_bps),
    KEY("dcqcn", "least-rate", KIND_RATE, false, dcqcn.least_bps),
    KEY("dcqcn", "clamp-target", KIND_FLAG, true, dcqcn.clamp_target),
    KEY("host", "cores", KIND_COUNT, false, host.cores),
    KEY("host", "step", KIND_TIME, false, host.step_ps),
    KEY("host", "poll", KIND_TIME, false, host.poll_ps),
    KEY("host", "progress", KIND_TIME, true, host.progress_ps),
    KEY("host", "switch", KIND_TIME, false, host.switch_ps),
    KEY("host", "slice", KIND_TIME, true, host.slice_ps),
    KEY("host", "store", KIND_TIME, false, host.store_ps),
    KEY("host", "store-rate", KIND_RATE, false, host.store_rate_bps),
    KEY("host", "interrupt", KIND_TIME, true, host.interrupt_ps),
    KEY("host", "put", KIND_CURVE, false, host.put),
    KEY("host", "signal", KIND_TIME, false, host.signal_ps),
    HOST_WORK("copy", host.copy),
    HOST_WORK("cast", host.cast),
    HOST_WORK("reduce", host.reduce),
    HOST_WORK("sum", host.sum),
    KEY("host", "scan-rate", KIND_RATE, false, host.scan_rate_bps),
    KEY("host", "loop-cast", KIND_CURVE, true, host.loop.cast),
    KEY("host", "loop-message", KIND_CURVE, true, host.loop.message),
    KEY("host", "loop-copy", KIND_CURVE, true, host.loop.copy),
    KEY("host", "loop-store", KIND_CURVE, true, host.loop.store),
    KEY("host", "loop-reduce", KIND_CURVE, true, host.loop.reduce),
};

static bool parse_value(const struct key *k, const struct key_file *file, const char *text, struct cluster *c,
                        GError **error)
{
    assert(k->offset < sizeof *c && !k->choices == (k->kind != KIND_CHOICE));
    if (cluster_value_parse(k->kind, k->choices, text, (char *)c + k->offset)) return true;
    g_auto(GStrv) choices = g_strsplit(k->choices ? k->choices : "", "|", 0);
    g_autofree char *list = g_strjoinv(", ", choices), *one_of = g_strconcat("one of ", list, NULL);
    g_autofree char *place = key_file_place(file, k->section, k->name);
    g_set_error(error, CLUSTER_ERROR, CLUSTER_ERROR_VALUE, "%s: [%s] %s: expected %s, found \"%s\"", place, k->section,
                k->name, k->choices ? one_of : cluster_value_expected(k->kind), text);
    return false;
}

/* All keys that a section lacks, in its own words.  Where the section stands in included files alone, the file that
 * includes them is the one that lacks them. */
static bool refuse_lack(const struct key_file *file, const char *section, GError **error)
{
    g_autoptr(GString) names = g_string_new(NULL);
    uint32_t count = 0;
    for (size_t i = 0; i < G_N_ELEMENTS(keys); i++) {
        if (strcmp(keys[i].section, section) != 0 || keys[i].optional) continue;
        if (key_file_line(file, section, keys[i].name)) continue;
        g_string_append_printf(names, "%s%s", count++ ? ", " : "", keys[i].name);
    }
    g_autofree char *place = key_file_place(file, section, NULL), *own = g_strconcat(file->path, ":", NULL);
    const bool included = !g_str_has_prefix(place, own);
    g_set_error(error, CLUSTER_ERROR, CLUSTER_ERROR_LACKS, "%s: [%s] lacks the key%s %s%s",
                included ? file->path : place, section, count > 1 ? "s" : "", names->str,
                included ? ", and so do the files that it includes" : "");
    return false;
}

static bool read_keys(const struct key_file *file, struct cluster *c, GError **error)
{
    for (size_t i = 0; i < G_N_ELEMENTS(keys); i++) {
        const uint32_t section_line = key_file_line(file, keys[i].section, NULL);
        g_autofree char *text = key_file_text(file, keys[i].section, keys[i].name);
        if (!section_line || (!text && keys[i].optional)) continue;
        if (!text) return refuse_lack(file, keys[i].section, error);
        if (!parse_value(&keys[i], file, text, c, error)) return false;
    }
    return true;
}

/* Section, or in it name, is none that a cluster file may have; the nearest that it may have is said with it. */
static bool refuse_name(const struct key_file *file, const char *section, const char *name, const char *nearest,
                        GError **error)
{
    g_autofree char *place = key_file_place(file, section, name);
    g_set_error(error, CLUSTER_ERROR, CLUSTER_ERROR_NAME, "%s: [%s]%s%s: unknown %s%s%s%s", place, section,
                name ? " " : "", name ? name : "", name ? "key" : "section", nearest ? "; did you mean " : "",
                nearest ? nearest : "", nearest ? "?" : "");
    return false;
}

/* The names of a section's keys, to be freed by g_free alone. */
static const char **key_names(const char *section)
{
    GPtrArray *names = g_ptr_array_new();
    if (!strcmp(section, "cluster")) {
        g_ptr_array_add(names, (gpointer) "name");
        g_ptr_array_add(names, (gpointer) "include");
    }
    for (size_t i = 0; i < G_N_ELEMENTS(keys); i++)
        if (!strcmp(section, keys[i].section)) g_ptr_array_add(names, (gpointer)keys[i].name);
    g_ptr_array_add(names, NULL);
    return (const char **)g_ptr_array_free(names, FALSE);
}

/* The section of which name is a key; NULL: none. */
static const char *section_of_key(const char *name)
{
    for (size_t i = 0; i < G_N_ELEMENTS(keys); i++)
        if (!strcmp(name, keys[i].name)) return keys[i].section;
    return NULL;
}

static bool refuse_section(const struct key_file *file, const char *section, GError **error)
{
    const char *names[G_N_ELEMENTS(keys) + 3] = { "cluster", "links" };
    for (size_t i = 0; i < G_N_ELEMENTS(keys); i++) names[i + 2] = keys[i].section;
    const char *nearest = nearest_find(section, names);
    g_autofree char *bracketed = nearest ? g_strconcat("[", nearest, "]", NULL) : NULL;
    return refuse_name(file, section, NULL, bracketed, error);
}

static bool refuse_key(const struct key_file *file, const char *section, const char *name, GError **error)
{
    g_autofree const char **names = key_names(section);
    const char *nearest = nearest_find(name, names), *elsewhere = section_of_key(name);
    g_autofree char *there = elsewhere ? g_strdup_printf("[%s] %s", elsewhere, name) : NULL;
    return refuse_name(file, section, name, there ? there : nearest, error);
}

static bool section_known(const char *section)
{
    bool known = !strcmp(section, "cluster") || !strcmp(section, "links");
    for (size_t i = 0; i < G_N_ELEMENTS(keys); i++) known |= !strcmp(section, keys[i].section);
    return known;
}

static bool key_known(const char *section, const char *name)
{
    if (!strcmp(section, "links")) return true;
    g_autofree const char **names = key_names(section);
    return g_strv_contains(names, name);
}

static bool refuse_unknown(const struct key_file *file, GError **error)
{
    g_auto(GStrv) sections = g_key_file_get_groups(file->keys, NULL);
    for (char **s = sections; *s; s++) {
        if (!section_known(*s)) return refuse_section(file, *s, error);
        g_auto(GStrv) names = g_key_file_get_keys(file->keys, *s, NULL, NULL);
        for (char **n = names; n && *n; n++)
            if (!key_known(*s, *n)) return refuse_key(file, *s, *n, error);
    }
    return true;
}

static void links_free(struct cluster *c)
{
    for (uint32_t i = 0; i < c->link_count; i++) {
        g_free(c->link[i].from);
        g_free(c->link[i].to);
        g_free(c->link[i].place);
    }
    g_clear_pointer(&c->link, g_free);
    c->link_count = 0;
}

static bool check_dcqcn(const struct key_file *file, const struct cluster *c, GError **error)
{
    if (!c->dcqcn.cnp_ps) return true;
    g_autofree char *place = key_file_place(file, "dcqcn", "mark-all");
    if (!key_file_line(file, "network", NULL)) {
        g_set_error(error, CLUSTER_ERROR, CLUSTER_ERROR_LACKS, "%s: [dcqcn]: needs a [network], whose switches mark",
                    place);
        return false;
    }
    if (c->dcqcn.mark_all_bytes > c->dcqcn.mark_from_bytes) return true;
    g_set_error(error, CLUSTER_ERROR, CLUSTER_ERROR_VALUE,
                "%s: [dcqcn] mark-all: expected more than mark-from, found less", place);
    return false;
}

enum { PCIE_PEERS_MAX = 64 };

static bool check_peers(const struct key_file *file, const struct cluster *c, GError **error)
{
    if (c->nvlink.over == CLUSTER_PEERS_BY_NVLINK || MAX(c->nvlink.gpus, c->node.gpus) <= PCIE_PEERS_MAX) return true;
    g_autofree char *place = key_file_place(file, "nvlink", "over");
    g_set_error(error, CLUSTER_ERROR, CLUSTER_ERROR_VALUE,
                "%s: [nvlink] over: expected at most %d GPUs of a node for pcie, found %u", place, PCIE_PEERS_MAX,
                MAX(c->nvlink.gpus, c->node.gpus));
    return false;
}

static bool check_cross_rail(const struct key_file *file, const struct cluster *c, GError **error)
{
    const struct cluster_network *n = &c->network;
    const bool rails = n->topology == CLUSTER_RAIL || n->topology == CLUSTER_LINKS;
    if (n->cross_rail == CLUSTER_CROSS_BY_SPINE ||
        (rails && c->nvlink.gpus > 1 && c->nvlink.over == CLUSTER_PEERS_BY_NVLINK))
        return true;
    g_autofree char *place = key_file_place(file, "network", "cross-rail");
    g_set_error(error, CLUSTER_ERROR, CLUSTER_ERROR_VALUE,
                "%s: [network] cross-rail: expected nvlink with topology = rail or links and GPUs joined by NVLink, "
                "found %s",
                place, rails ? "no NVLink" : "other leaves");
    return false;
}

/* Without NICs, nothing is said of a network, which nobody would use. */
static bool check_no_nics(const struct key_file *file, const struct cluster *c, GError **error)
{
    static const char *const sections[] = { "network", "links", "dcqcn" };
    for (size_t i = 0; i < G_N_ELEMENTS(sections); i++) {
        if (!key_file_line(file, sections[i], NULL) || (!strcmp(sections[i], "links") && cluster_node_written(c)))
            continue;
        g_autofree char *place = key_file_place(file, sections[i], NULL);
        g_set_error(error, CLUSTER_ERROR, CLUSTER_ERROR_LACKS, "%s: [%s]: needs a [nic], whose ports it connects",
                    place, sections[i]);
        return false;
    }
    return true;
}

/* A node's PCIe is what links say, or what keys of this file say.  Keys of included files give way to links. */
static bool check_node_written(const struct key_file *file, const struct cluster *c, GError **error)
{
    static const char *const keys[] = { "sockets",      "pcie-switches", "pcie-rate",      "root-rate",
                                        "root-latency", "socket-rate",   "socket-latency", "staging" };
    g_autofree char *own = g_strconcat(file->path, ":", NULL);
    for (size_t i = 0; cluster_node_written(c) && i < G_N_ELEMENTS(keys); i++) {
        g_autofree char *place = key_file_place(file, "node", keys[i]);
        const uint32_t line = key_file_line(file, "node", keys[i]);
        if (!line || (line != KEY_FILE_SETTING && !g_str_has_prefix(place, own))) continue;
        g_set_error(error, CLUSTER_ERROR, CLUSTER_ERROR_VALUE,
                    "%s: [node] %s: expected no such key where [links] describe a node's PCIe", place, keys[i]);
        return false;
    }
    return true;
}

/* "nics = 0" takes away those that an included file has. */
static void nics_take_away(struct cluster *c)
{
    if (c->node.nics != CLUSTER_NO_NICS) return;
    links_free(c);
    c->node.nics = 0;
    c->nic = (struct cluster_nic){ 0 };
    c->network = (struct cluster_network){ 0 };
    c->dcqcn = (struct cluster_dcqcn){ 0 };
}

/* The parts must make a whole: GPUs with NVLink, or a host; RDMA parts come together. */
static bool check_parts(const struct key_file *file, struct cluster *c, GError **error)
{
    const uint32_t gpu = key_file_line(file, "gpu", NULL), host = key_file_line(file, "host", NULL);
    const char *missing = NULL;
    if (gpu && host) {
        g_set_error(error, CLUSTER_ERROR, CLUSTER_ERROR_VALUE,
                    "%s:%u: has both [gpu] and [host]: ranks run on one of them", c->path, MAX(gpu, host));
        return false;
    }
    if (!gpu && !host) missing = "[gpu] or [host]";
    else if (gpu && !key_file_line(file, "nvlink", NULL)) missing = "[nvlink]";
    else if (gpu && key_file_line(file, "nic", NULL) && !key_file_line(file, "network", NULL)) missing = "[network]";
    if (missing) {
        g_set_error(error, CLUSTER_ERROR, CLUSTER_ERROR_LACKS, "%s: lacks the section %s", c->path, missing);
        return false;
    }
    if (gpu && !key_file_line(file, "nic", NULL) && !check_no_nics(file, c, error)) return false;
    if (!check_node_written(file, c, error)) return false;
    if (!check_dcqcn(file, c, error) || !check_cross_rail(file, c, error) || !check_peers(file, c, error)) return false;
    nics_take_away(c);
    if (2u * c->gpu.cpcs.pairs != c->gpu.sms) c->gpu.cpcs = (struct cluster_cpcs){ 0 }; /* of another product */
    if (!c->nic.gpus_per_nic) c->nic.gpus_per_nic = 1;
    if (!c->nic.mtu_bytes) c->nic.mtu_bytes = 4096;
    if (!c->nic.proxy_threads) c->nic.proxy_threads = 1;
    if (!c->nic.ports) c->nic.ports = 1;
    c->name = key_file_text(file, "cluster", "name");
    if (!c->name) c->name = g_path_get_basename(c->path);
    return true;
}

/* "did you mean h100-cx6 or h100-cx7": the shipped names that begin with word, else the one that is nearly it; "". */
static char *names_meant(const char *word, char **names)
{
    g_autoptr(GPtrArray) meant = g_ptr_array_new();
    for (char **n = names; *n && *word; n++)
        if (!g_ascii_strncasecmp(*n, word, strlen(word))) g_ptr_array_add(meant, *n);
    const char *nearest = nearest_find(word, (const char *const *)names);
    if (!meant->len && nearest) g_ptr_array_add(meant, (gpointer)nearest);
    GString *text = g_string_new(NULL);
    for (guint i = 0; i < meant->len; i++)
        g_string_append_printf(text, "%s%s",
                               !i                   ? "did you mean "
                               : i + 1 < meant->len ? ", "
                                                    : " or ",
                               (char *)meant->pdata[i]);
    return g_string_free(text, FALSE);
}

/* The file itself, or a shipped one of that name; NULL and *error, with places and names, when it is neither. */
static char *find_file(const char *path, GError **error)
{
    if (g_file_test(path, G_FILE_TEST_EXISTS) || strchr(path, '/')) return g_strdup(path);
    char *shipped = share_find(SHARE_CLUSTERS, path);
    if (shipped) return shipped;
    g_auto(GStrv) folders = share_folders(SHARE_CLUSTERS), names = share_names(SHARE_CLUSTERS);
    g_autofree char *places = g_strjoinv(", ", folders), *known = g_strjoinv(", ", names);
    g_autofree char *meant = names_meant(path, names);
    g_set_error(error, CLUSTER_ERROR, CLUSTER_ERROR_FILE,
                "%s: %s%sexpected a cluster file%s%s, found none of that name here or in %s", path, meant,
                *meant ? "? " : "", *known ? " or one of " : "", known, places);
    return NULL;
}

const char *cluster_inside_kind(const char *name)
{
    static const char *const kinds[] = { "g", "nic", "pcie", "root" };
    for (size_t i = 0; i < G_N_ELEMENTS(kinds); i++) {
        const size_t length = strlen(kinds[i]);
        if (strncmp(name, kinds[i], length) != 0 || !name[length]) continue;
        if (!name[length + strspn(name + length, "0123456789")]) return kinds[i];
    }
    return NULL;
}

bool cluster_node_written(const struct cluster *c)
{
    for (uint32_t i = 0; i < c->link_count; i++)
        if (c->link[i].inside) return true;
    return false;
}

/* "n1.nic0 - leaf3 = 400 Gbit/s, 300 ns": as the graph wants it, both ways. */
static bool read_link(const struct key_file *file, struct cluster *c, const char *name, GError **error)
{
    g_autofree char *text = key_file_text(file, "links", name), *place = key_file_place(file, "links", name);
    g_auto(GStrv) end = g_strsplit(name, " - ", 2), value = g_strsplit(text, ",", 2);
    struct cluster_link link = { .place = place };
    const bool ends = end[0] && end[1] && *g_strstrip(end[0]) && *g_strstrip(end[1]);
    if (!ends || !value[0] || !cluster_value_parse(KIND_RATE, NULL, g_strstrip(value[0]), &link.rate_bps) ||
        (value[1] && !cluster_value_parse(KIND_TIME, NULL, g_strstrip(value[1]), &link.latency_ps))) {
        g_set_error(error, CLUSTER_ERROR, CLUSTER_ERROR_VALUE,
                    "%s: [links]: expected \"PART - PART = RATE\" or \"... = RATE, TIME\", "
                    "found \"%s = %s\"",
                    place, name, text);
        return false;
    }
    if (!cluster_inside_kind(end[0]) != !cluster_inside_kind(end[1])) {
        g_set_error(error, CLUSTER_ERROR, CLUSTER_ERROR_VALUE,
                    "%s: [links]: expected two parts of a node (g0, nic0, pcie0, root0), or two of the network, "
                    "found \"%s\"",
                    place, name);
        return false;
    }
    assert(link.rate_bps > 0);
    link.from = g_strdup(end[0]);
    link.to = g_strdup(end[1]);
    link.inside = cluster_inside_kind(end[0]);
    link.place = g_steal_pointer(&place);
    c->link = g_renew(struct cluster_link, c->link, c->link_count + 1);
    c->link[c->link_count++] = link;
    return true;
}

static bool read_links(const struct key_file *file, struct cluster *c, GError **error)
{
    g_auto(GStrv) names = g_key_file_get_keys(file->keys, "links", NULL, NULL);
    for (char **n = names; n && *n; n++)
        if (!read_link(file, c, *n, error)) return false;
    return true;
}

enum { INCLUDES_DEEP = 8 };

/* A shipped part, as "parts/hopper.ini"; NULL: there is none. */
static char *part_path(const char *name)
{
    g_auto(GStrv) folders = share_folders(SHARE_CLUSTERS);
    if (!g_str_has_prefix(name, "parts/")) return NULL;
    for (char **f = folders; *f; f++) {
        char *path = g_build_filename(*f, name, NULL);
        if (g_file_test(path, G_FILE_TEST_IS_REGULAR)) return path;
        g_free(path);
    }
    return NULL;
}

/* Paths count from the folder of the file that includes; a bare name and a part that are not there are shipped ones. */
static char *include_path(const char *folder, const char *name)
{
    if (g_path_is_absolute(name)) return g_strdup(name);
    char *beside = g_build_filename(folder, name, NULL);
    if (g_file_test(beside, G_FILE_TEST_EXISTS)) return beside;
    char *shipped = share_find(SHARE_CLUSTERS, name);
    if (!shipped) shipped = part_path(name);
    if (!shipped) return beside;
    g_free(beside);
    return shipped;
}

/* Each file that it includes, and those that they do, say what it does not. */
static bool include_files(struct key_file *file, const struct key_file *from, uint32_t depth, GError **error)
{
    assert(depth <= INCLUDES_DEEP);
    g_autofree char *text = key_file_text(from, "cluster", "include");
    g_autofree char *folder = g_path_get_dirname(from->path);
    g_auto(GStrv) names = g_strsplit(text ? text : "", "|", 0);
    for (char **n = names; *n; n++) {
        g_autofree char *place = key_file_place(from, "cluster", "include");
        const char *name = g_strstrip(*n);
        if (!*name || depth == INCLUDES_DEEP) {
            g_set_error(error, CLUSTER_ERROR, CLUSTER_ERROR_FILE,
                        "%s: [cluster] include: expected files of at most %d levels, found "
                        "\"%s\"",
                        place, INCLUDES_DEEP, text);
            return false;
        }
        g_autofree char *path = include_path(folder, name);
        g_autoptr(key_file) part = key_file_load(path, error);
        if (!part) {
            g_prefix_error(error, "%s: [cluster] include: ", place);
            return false;
        }
        key_file_complete(file, part, "cluster");
        if (!include_files(file, part, depth + 1, error)) return false;
    }
    return true;
}

static bool settings_put(struct key_file *file, const char *const *settings, GError **error)
{
    for (; settings && *settings; settings++) {
        const char *equals = strchr(*settings, '=');
        const char *dot = equals ? g_strrstr_len(*settings, equals - *settings, ".") : NULL;
        if (!dot || dot == *settings || dot + 1 == equals || !equals[1]) {
            g_set_error(error, CLUSTER_ERROR, CLUSTER_ERROR_OPTION,
                        "expected section.key=value, as in nic.rate=50GB/s, found '%s'", *settings);
            return false;
        }
        g_autofree char *section = g_strndup(*settings, (gsize)(dot - *settings));
        g_autofree char *key = g_strndup(dot + 1, (gsize)(equals - dot - 1));
        g_autofree char *place = g_strconcat("--set ", *settings, NULL);
        key_file_set(file, section, key, equals + 1, place);
    }
    return true;
}

struct cluster *cluster_load(const char *path, GError **error) { return cluster_load_set(path, NULL, error); }

struct cluster *cluster_load_set(const char *path, const char *const *settings, GError **error)
{
    assert(path && (!error || !*error));
    g_autofree char *found = find_file(path, error);
    g_autoptr(key_file) file = found ? key_file_load(found, error) : NULL;
    if (!file || !include_files(file, file, 0, error) || !settings_put(file, settings, error)) return NULL;
    struct cluster *c = g_new0(struct cluster, 1);
    c->path = g_steal_pointer(&found);
    if (refuse_unknown(file, error) && read_keys(file, c, error) && read_links(file, c, error) &&
        check_parts(file, c, error))
        return c;
    cluster_free(c);
    return NULL;
}

void cluster_free(struct cluster *cluster)
{
    if (!cluster) return;
    links_free(cluster);
    g_free(cluster->name);
    g_free(cluster->path);
    g_free(cluster);
}
