/* probe_ibnet.c - reads the output of ibnetdiscover or iblinkinfo into switches and cables.
 *
 *     Switch  36 "S-0001"      # "name" base port 0 lid 48 lmc 0
 *     [1]     "H-0002"[1](2)   # "node018 HCA-1" lid 67 4xEDR
 *     [13]    "S-0003"[19]     # "name" lid 21 4xEDR
 *
 *     Switch: 0x0001 name:
 *       48    1[  ] ==( 4X       25.78125 Gbps Active/  LinkUp)==>      67    1[  ] "node018 HCA-1" ( )
 *       48    2[  ] ==(                Down/ Polling)==>             [  ] "" ( )
 *
 * Blocks of channel adapters (Ca, Rt, CA:) repeat the cables from the other end and are skipped.  iblinkinfo does
 * not say whether a cable's end is a switch or an adapter.  A LID that begins a line outside such blocks is a
 * switch's. */
#include "replay/probe/probe_ibnet.h"

#include <string.h>

#include "replay/probe/probe.h"

enum { PORTS_MAX = 4096, CABLES_MAX = 1 << 20 };

/* InfiniBand Architecture Specification, volume 2: signalling rate of a lane, and data rate of a lane, in Mbit/s. */
static const struct {
    const char *name;
    double signal_mbps;
    uint64_t mbps;
} speed[] = {
    { "SDR", 2500, 2000 },       { "DDR", 5000, 4000 },     { "QDR", 10000, 8000 },
    { "FDR10", 10312.5, 10000 }, { "FDR", 14062.5, 13640 }, { "EDR", 25781.25, 25000 },
    { "HDR", 53125, 50000 },     { "NDR", 106250, 100000 }, { "XDR", 212500, 200000 },
};
enum { LANES_MAX = 12 };

uint64_t probe_ib_rate(const char *text)
{
    char *end;
    const uint64_t lanes = g_ascii_strtoull(text, &end, 10);
    if (lanes < 1 || lanes > LANES_MAX || *end != 'x') return 0;
    for (gsize i = 0; i < G_N_ELEMENTS(speed); i++)
        if (!strcmp(end + 1, speed[i].name)) return lanes * speed[i].mbps * 1000000;
    return 0;
}

/* Returns the data rate of a text like "4X 25.78125 Gbps" in bits a second; 0 if the text is not a rate.  The number
 * in the text is the signalling rate of a lane. */
static uint64_t signalled_rate(const char *text)
{
    char *end;
    const uint64_t lanes = g_ascii_strtoull(text, &end, 10);
    if (lanes < 1 || lanes > LANES_MAX || *end != 'X') return 0;
    const double mbps = g_ascii_strtod(end + 1, &end) * 1e3;
    if (strncmp(end, " Gbps", strlen(" Gbps")) != 0) return 0;
    for (gsize i = 0; i < G_N_ELEMENTS(speed); i++)
        if (mbps > speed[i].signal_mbps * 0.999 && mbps < speed[i].signal_mbps * 1.001)
            return lanes * speed[i].mbps * 1000000;
    return 0;
}

/* Returns the text between the next two quotes; NULL if there are no two quotes.  *rest is the text after them. */
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
    return error_input(error, "%s:%u: expected %s, found '%.60s'", source, line, expected, found);
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

/* Returns whether the cable has already been added from its other end, and remembers it. */
static bool cable_known(struct probe_ibnet *net, const struct probe_cable *c)
{
    g_autofree char *other = g_strdup_printf("%s[%u] %s", c->to, c->to_port, c->from);
    g_hash_table_add(net->between, g_strdup_printf("%s[%u] %s", c->from, c->from_port, c->to));
    return g_hash_table_contains(net->between, other);
}

/* Adds a cable of the switch.  A cable between switches is added only once, from the end that appears first.  A
 * host's name ends at its first blank ("node018 HCA-1" names node018). */
static bool cable_add(struct probe_ibnet *net, struct probe_switch *sw, const struct probe_cable *c, const char *name)
{
    const char *blank = name ? strchrnul(name, ' ') : NULL;
    sw->host_ports += c->host;
    *(c->host ? &sw->down_bps : &sw->up_bps) += c->rate_bps;
    net->hosts += c->host;
    if (!c->host && cable_known(net, c)) return true;
    if (net->cable->len == CABLES_MAX) return false;
    struct probe_cable cable = *c;
    cable.from = g_strdup(c->from);
    cable.to = g_strdup(c->to);
    cable.node = !c->host ? NULL : blank && blank > name ? g_strndup(name, (gsize)(blank - name)) : g_strdup(c->to);
    g_array_append_val(net->cable, cable);
    return true;
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
    const char *hash = strchr(rest, '#'), *ignored;
    g_autofree char *name = hash ? quoted(hash, &ignored) : NULL;
    const struct probe_cable cable = { .from = sw->id,
                                       .to = to,
                                       .from_port = port,
                                       .to_port = port_parse(rest),
                                       .rate_bps = rate_bps,
                                       .host = to[0] == 'H' };
    if (!cable_add(net, sw, &cable, name)) return fail(error, net->source, number, "at most 1048576 cables", line);
    return true;
}

static bool netdiscover_read(struct probe_ibnet *net, char **line, GError **error)
{
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
    return good;
}

/* ---- iblinkinfo ---- */

/* Reads two whole numbers before brackets, as in "48    1[  ]". */
static bool end_read(const char *text, uint32_t *lid, uint32_t *port, const char **rest)
{
    enum { LID_MAX = 1 << 20 }; /* a subnet has about 49,000 unicast LIDs; extended LIDs allow more */
    char *end;
    const uint64_t first = g_ascii_strtoull(text, &end, 10), second = g_ascii_strtoull(end, &end, 10);
    if (first < 1 || first > LID_MAX || second < 1 || second > PORTS_MAX || *end != '[') return false;
    *lid = (uint32_t)first;
    *port = (uint32_t)second;
    *rest = end;
    return true;
}

struct linkinfo_line {
    uint32_t lid, port, peer_lid, peer_port;
    uint64_t rate_bps; /* 0 if the port is down */
    char *peer;
};

/* Reads the line of a port.  False and *error if it is not such a line. */
static bool linkinfo_line_read(const char *line, const char *source, uint32_t number, struct linkinfo_line *out,
                               GError **error)
{
    static const char form[] = "LID PORT[ ] ==( 4X 25.78125 Gbps Active/ LinkUp)==> LID PORT[ ] \"NAME\"";
    const char *start = line + strspn(line, " \t"), *rest;
    if (g_str_has_prefix(start, "0x")) start += strcspn(start, " \t"); /* skips the GUID of an adapter's port */
    const char *state = strstr(line, "==("), *arrow = state ? strstr(state, ")==>") : NULL;
    if (!arrow || !end_read(start, &out->lid, &out->port, &rest)) return fail(error, source, number, form, start);
    state += strlen("==(");
    const char *up = strstr(state, "LinkUp");
    out->rate_bps = 0;
    if (!up || up > arrow) return true;
    out->rate_bps = signalled_rate(state + strspn(state, " "));
    const bool far = end_read(arrow + strlen(")==>"), &out->peer_lid, &out->peer_port, &rest);
    if (!out->rate_bps || !far) return fail(error, source, number, form, start);
    out->peer = quoted(rest, &rest);
    return true;
}

/* The switch with this LID, or NULL. */
static struct probe_switch *switch_by_lid(const struct probe_ibnet *net, uint32_t lid)
{
    gpointer index;
    const bool known = g_hash_table_lookup_extended(net->by_lid, GUINT_TO_POINTER(lid), NULL, &index);
    return known ? &g_array_index(net->sw, struct probe_switch, GPOINTER_TO_UINT(index)) : NULL;
}

static void linkinfo_take(struct probe_ibnet *net, const struct linkinfo_line *l, const char *name)
{
    if (!switch_by_lid(net, l->lid)) {
        g_hash_table_insert(net->by_lid, GUINT_TO_POINTER(l->lid), GUINT_TO_POINTER(net->sw->len));
        const struct probe_switch sw = { .id = g_strdup_printf("lid %u", l->lid), .name = g_strdup(name) };
        g_array_append_val(net->sw, sw);
    }
    struct probe_switch *sw = switch_by_lid(net, l->lid);
    sw->ports = MAX(sw->ports, l->port);
}

/* The text between the GUID and the colon of "Switch: 0x0001 name:". */
static char *header_name(const char *line)
{
    const char *guid = strstr(line, "0x"), *name = guid ? strchr(guid, ' ') : NULL;
    if (!name) return g_strdup("");
    const gsize size = strcspn(name + 1, "\r");
    return g_strndup(name + 1, size && name[size] == ':' ? size - 1 : size);
}

/* Reads the lines outside blocks of adapters twice.  The first time finds which LIDs are switches, and the second
 * time reads the cables. */
static bool linkinfo_read(struct probe_ibnet *net, char **line, GError **error)
{
    bool good = true;
    for (int pass = 0; good && pass < 2; pass++) {
        g_autofree char *name = g_strdup("");
        bool adapter = false;
        for (uint32_t i = 0; good && line[i]; i++) {
            const char *start = line[i] + strspn(line[i], " \t");
            if (g_str_has_prefix(start, "CA:") || g_str_has_prefix(start, "Switch")) {
                adapter = *start == 'C';
                g_free(name);
                name = header_name(start);
            }
            if (adapter || !strstr(start, "==(")) continue;
            struct linkinfo_line l = { 0 };
            good = linkinfo_line_read(start, net->source, i + 1, &l, error);
            g_autofree char *peer = l.peer;
            if (good && pass == 0) linkinfo_take(net, &l, name);
            if (!good || pass == 0 || !l.rate_bps) continue;
            struct probe_switch *sw = switch_by_lid(net, l.lid);
            g_autofree char *to = g_strdup_printf("lid %u", l.peer_lid);
            const struct probe_cable cable = { .from = sw->id,
                                               .to = to,
                                               .from_port = l.port,
                                               .to_port = l.peer_port,
                                               .rate_bps = l.rate_bps,
                                               .host = !switch_by_lid(net, l.peer_lid) };
            if (!cable_add(net, sw, &cable, peer))
                good = fail(error, net->source, i + 1, "at most 1048576 cables", start);
        }
    }
    return good;
}

/* Returns the rate that most cables of a kind have.  Of two equally frequent rates, it is the higher one. */
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
    net->between = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    net->by_lid = g_hash_table_new(g_direct_hash, g_direct_equal);
    g_auto(GStrv) line = g_strsplit(text, "\n", -1);
    bool good = strstr(text, "==(") ? linkinfo_read(net, line, error) : netdiscover_read(net, line, error);
    if (good && !net->sw->len) good = fail(error, source_name, 1, "lines of switches", "none");
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
    g_hash_table_unref(net->between);
    g_hash_table_unref(net->by_lid);
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
    g_string_append_printf(out, "hosts      %u port%s, most at %.0f Gbit/s\n", net->hosts, net->hosts == 1 ? "" : "s",
                           (double)net->host_bps / 1e9);
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
            "slow       %s[%u] to %s[%u] runs at %.0f Gbit/s; cables of its kind run at %.0f. Reseat or replace it.\n",
            c->from, c->from_port, c->to, c->to_port, (double)c->rate_bps / 1e9,
            (double)(c->host ? net->host_bps : net->switch_bps) / 1e9);
    }
    if (!slow) g_string_append(out, "slow       no cable runs below the others of its kind\n");
}
