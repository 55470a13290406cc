/* probe_ibnet.c - reads ibnetdiscover's output into switches and cables.
 *
 *     Switch  36 "S-0001"      # "name" base port 0 lid 48 lmc 0
 *     [1]     "H-0002"[1](2)   # "node018 HCA-1" lid 67 4xEDR
 *     [13]    "S-0003"[19]     # "name" lid 21 4xEDR
 *
 * Blocks of channel adapters (Ca, Rt) repeat the same cables from the other end and are skipped. */
#include "replay/probe/probe_ibnet.h"

#include <string.h>

#include "replay/probe/probe.h"

enum { PORTS_MAX = 4096, CABLES_MAX = 1 << 20 };

uint64_t probe_ib_rate(const char *text)
{
    /* InfiniBand Architecture Specification, volume 2: data rate of a lane in Mbit/s. */
    static const struct {
        const char *name;
        uint64_t mbps;
    } speed[] = {
        { "SDR", 2000 },  { "DDR", 4000 },  { "QDR", 8000 },   { "FDR10", 10000 }, { "FDR", 13640 },
        { "EDR", 25000 }, { "HDR", 50000 }, { "NDR", 100000 }, { "XDR", 200000 },
    };
    char *end;
    const uint64_t lanes = g_ascii_strtoull(text, &end, 10);
    if (lanes < 1 || lanes > 12 || *end != 'x') return 0;
    for (gsize i = 0; i < G_N_ELEMENTS(speed); i++)
        if (!strcmp(end + 1, speed[i].name)) return lanes * speed[i].mbps * 1000000;
    return 0;
}

/* The text between the next two quotes, and what follows; NULL: none. */
static char *quoted(const char *text, const char **rest)
{
    const char *from = strchr(text, '"'), *to = from ? strchr(from + 1, '"') : NULL;
    if (!to) return NULL;
    *rest = to + 1;
    return g_strndup(from + 1, (gsize)(to - from - 1));
}

static uint32_t port_parse(const char *text) /* "[13]..." */
{
    const uint64_t port = *text == '[' ? g_ascii_strtoull(text + 1, NULL, 10) : 0;
    return port <= PORTS_MAX ? (uint32_t)port : 0;
}

static uint64_t line_rate(const char *line)
{
    g_auto(GStrv) word = g_strsplit_set(line, " \t\r", -1);
    uint64_t rate = 0;
    for (char **w = word; *w; w++)
        if (probe_ib_rate(*w)) rate = probe_ib_rate(*w);
    return rate;
}

static bool fail(GError **error, const char *source, uint32_t line, const char *expected, const char *found)
{
    g_set_error(error, PROBE_ERROR, PROBE_ERROR_INPUT, "%s:%u: expected %s, found '%.60s'", source, line, expected,
                found);
    return false;
}

static bool switch_read(struct probe_ibnet *net, const char *line, uint32_t number, GError **error)
{
    const char *rest = line;
    char *id = quoted(line, &rest);
    if (!id) return fail(error, net->source, number, "Switch PORTS \"ID\"", line);
    const char *hash = strchr(rest, '#'), *ignored;
    char *name = hash ? quoted(hash, &ignored) : NULL;
    const struct probe_switch sw = {
        .id = id,
        .name = name ? name : g_strdup(""),
        .ports = (uint32_t)MIN(g_ascii_strtoull(line + strlen("Switch"), NULL, 10), PORTS_MAX),
    };
    g_array_append_val(net->sw, sw);
    return true;
}

static bool cable_known(const struct probe_ibnet *net, const char *from, uint32_t from_port, const char *to)
{
    for (guint i = 0; i < net->cable->len; i++) {
        const struct probe_cable *c = &g_array_index(net->cable, struct probe_cable, i);
        if (!c->host && c->to_port == from_port && !strcmp(c->to, from) && !strcmp(c->from, to)) return true;
    }
    return false;
}

static bool cable_read(struct probe_ibnet *net, const char *line, uint32_t number, GError **error)
{
    struct probe_switch *sw = &g_array_index(net->sw, struct probe_switch, net->sw->len - 1);
    const char *rest = line;
    const uint32_t port = port_parse(line);
    g_autofree char *to = quoted(line, &rest);
    const uint64_t rate_bps = line_rate(rest);
    if (!port || !to || !rate_bps || (to[0] != 'H' && to[0] != 'S' && to[0] != 'R'))
        return fail(error, net->source, number, "[PORT] \"H-... or S-...\"[PORT] # ... 4xRATE", line);
    const bool host = to[0] == 'H';
    sw->host_ports += host;
    sw->switch_ports += !host;
    *(host ? &sw->down_bps : &sw->up_bps) += rate_bps;
    net->hosts += host;
    if (!host && cable_known(net, sw->id, port, to)) return true;
    if (net->cable->len == CABLES_MAX) return fail(error, net->source, number, "at most 1048576 cables", line);
    const char *hash = strchr(rest, '#'), *ignored;
    g_autofree char *name = hash ? quoted(hash, &ignored) : NULL;
    if (name) name[strcspn(name, " ")] = 0; /* "node018 HCA-1" */
    char *node = !host ? NULL : name && *name ? g_steal_pointer(&name) : g_strdup(to);
    const struct probe_cable cable = { .from = g_strdup(sw->id),
                                       .to = g_steal_pointer(&to),
                                       .from_port = port,
                                       .to_port = port_parse(rest),
                                       .rate_bps = rate_bps,
                                       .host = host,
                                       .node = node };
    g_array_append_val(net->cable, cable);
    return true;
}

/* The rate that most cables of a kind have: the higher one where as many have another. */
static uint64_t usual_rate(const struct probe_ibnet *net, bool host)
{
    g_autoptr(GHashTable) count = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, NULL);
    uint64_t usual = 0;
    guint most = 0;
    for (guint i = 0; i < net->cable->len; i++) {
        const struct probe_cable *c = &g_array_index(net->cable, struct probe_cable, i);
        if (c->host != host) continue;
        const guint n = GPOINTER_TO_UINT(g_hash_table_lookup(count, &c->rate_bps)) + 1;
        g_hash_table_replace(count, g_memdup2(&c->rate_bps, sizeof c->rate_bps), GUINT_TO_POINTER(n));
        if (n > most || (n == most && c->rate_bps > usual)) usual = c->rate_bps;
        most = MAX(most, n);
    }
    return usual;
}

struct probe_ibnet *probe_ibnet_parse(const char *text, const char *source_name, GError **error)
{
    struct probe_ibnet *net = g_new0(struct probe_ibnet, 1);
    net->source = g_strdup(source_name);
    net->sw = g_array_new(FALSE, TRUE, sizeof(struct probe_switch));
    net->cable = g_array_new(FALSE, TRUE, sizeof(struct probe_cable));
    g_auto(GStrv) line = g_strsplit(text, "\n", -1);
    bool inside = false, good = true;
    for (uint32_t i = 0; good && line[i]; i++) {
        const char *start = line[i] + strspn(line[i], " \t");
        if (g_str_has_prefix(start, "Switch")) {
            good = switch_read(net, start, i + 1, error);
            inside = true;
        } else if (g_str_has_prefix(start, "Ca") || g_str_has_prefix(start, "Rt")) {
            inside = false;
        } else if (inside && *start == '[') {
            good = cable_read(net, start, i + 1, error);
        }
    }
    if (good && !net->sw->len) good = fail(error, source_name, 1, "blocks that begin with Switch", "none");
    if (!good) {
        probe_ibnet_free(net);
        return NULL;
    }
    net->host_bps = usual_rate(net, true);
    net->switch_bps = usual_rate(net, false);
    for (guint i = 0; i < net->cable->len; i++) {
        struct probe_cable *c = &g_array_index(net->cable, struct probe_cable, i);
        c->slow = c->rate_bps < (c->host ? net->host_bps : net->switch_bps);
    }
    return net;
}

void probe_ibnet_free(struct probe_ibnet *net)
{
    for (guint i = 0; i < net->sw->len; i++) {
        g_free(g_array_index(net->sw, struct probe_switch, i).id);
        g_free(g_array_index(net->sw, struct probe_switch, i).name);
    }
    for (guint i = 0; i < net->cable->len; i++) {
        g_free(g_array_index(net->cable, struct probe_cable, i).from);
        g_free(g_array_index(net->cable, struct probe_cable, i).to);
        g_free(g_array_index(net->cable, struct probe_cable, i).node);
    }
    g_array_unref(net->sw);
    g_array_unref(net->cable);
    g_free(net->source);
    g_free(net);
}

double probe_ibnet_oversubscription(const struct probe_ibnet *net)
{
    uint64_t down = 0, up = 0;
    for (guint i = 0; i < net->sw->len; i++) {
        const struct probe_switch *sw = &g_array_index(net->sw, struct probe_switch, i);
        if (!sw->host_ports) continue;
        down += sw->down_bps;
        up += sw->up_bps;
    }
    return up ? (double)down / (double)up : 1;
}

void probe_ibnet_text(const struct probe_ibnet *net, GString *out)
{
    uint32_t leaves = 0, between = 0, slow = 0;
    for (guint i = 0; i < net->sw->len; i++) leaves += g_array_index(net->sw, struct probe_switch, i).host_ports > 0;
    for (guint i = 0; i < net->cable->len; i++) between += !g_array_index(net->cable, struct probe_cable, i).host;
    g_string_append_printf(out, "network    %s\n", net->source);
    g_string_append_printf(out, "switches   %u: %u with hosts (leaves), %u without (spines)\n", net->sw->len, leaves,
                           net->sw->len - leaves);
    g_string_append_printf(out, "hosts      %u ports, most at %.0f Gbit/s\n", net->hosts, (double)net->host_bps / 1e9);
    if (between)
        g_string_append_printf(
            out, "cables     %u between switches, most at %.0f Gbit/s; leaves are oversubscribed %.2f : 1\n", between,
            (double)net->switch_bps / 1e9, probe_ibnet_oversubscription(net));
    for (guint i = 0; i < net->cable->len; i++) {
        const struct probe_cable *c = &g_array_index(net->cable, struct probe_cable, i);
        if (!c->slow) continue;
        slow++;
        g_string_append_printf(
            out,
            "slow       %s[%u] to %s[%u] runs at %.0f Gbit/s; cables of its kind run at %.0f. Reseat or "
            "replace it.\n",
            c->from, c->from_port, c->to, c->to_port, (double)c->rate_bps / 1e9,
            (double)(c->host ? net->host_bps : net->switch_bps) / 1e9);
    }
    if (!slow) g_string_append(out, "slow       no cable runs below the others of its kind\n");
}
