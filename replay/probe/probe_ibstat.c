/* probe_ibstat.c - reads the output of `ibstat` into the NICs of a host: their parts, ports, rates, states, link
 * layers.
 *
 *     CA 'mlx5_0'
 *             CA type: MT4129
 *             Number of ports: 1
 *             Port 1:
 *                     State: Active
 *                     Rate: 400
 *                     Link layer: InfiniBand
 *
 * The number in the type is the PCI device of NVIDIA's NICs.  Of several ports, the first active one gives rate and
 * state. The rate of a bond is that of one port.  There are no PCIe paths, so how near a NIC is to a GPU stays unknown.
 */
#include "replay/probe/probe.h"

#include <string.h>

enum { VENDOR_MELLANOX = 0x15b3, NIC_PORTS_MAX = 16, RATE_GBPS_MAX = 10000 };

struct ibstat {
    const char *source;
    struct probe_host *host;
    struct probe_nic *nic; /* the NIC that was named last */
    uint32_t port;         /* number of the port that was named last, from 1; 0: none yet */
    bool active;           /* whether the current port is the one that gives rate and state */
};

static bool fail(const struct ibstat *s, uint32_t line, const char *expected, const char *found, GError **error)
{
    return error_input(error, "%s:%u: expected %s, found '%.60s'", s->source, line, expected, found);
}

static bool count_parse(const char *text, uint64_t most, uint64_t *count)
{
    return g_ascii_string_to_unsigned(text, 10, 0, most, count, NULL);
}

/* Adds the NIC of a line like "CA 'mlx5_0'". */
static bool nic_read(struct ibstat *s, const char *start, uint32_t line, GError **error)
{
    const char *end = g_str_has_prefix(start, "CA '") ? strchr(start + 4, '\'') : NULL;
    if (!end || end == start + 4) return fail(s, line, "CA 'NAME'", start, error);
    s->nic = probe_nic_add(s->host);
    if (!s->nic) return fail(s, line, "at most 256 NICs", start, error);
    s->nic->name = g_strndup(start + 4, (gsize)(end - start - 4));
    s->nic->bond = strstr(s->nic->name, "bond") != NULL;
    s->port = 0;
    return true;
}

/* The readers of fields return NULL, or what was expected in place of the value. */

/* Reads a CA type like "MT4129".  For NICs of other makers, it is missing or has another form. */
static const char *type_read(struct ibstat *s, const char *value)
{
    uint64_t device;
    if (!g_str_has_prefix(value, "MT") || !count_parse(value + 2, UINT16_MAX, &device)) return NULL;
    s->nic->pci.vendor = VENDOR_MELLANOX;
    s->nic->pci.device = (uint16_t)device;
    s->nic->part = probe_part_find(VENDOR_MELLANOX, (uint16_t)device);
    return NULL;
}

static const char *ports_read(struct ibstat *s, const char *value)
{
    uint64_t ports;
    if (!count_parse(value, NIC_PORTS_MAX, &ports)) return "a number of ports, 0 to 16";
    s->nic->ports = (uint32_t)ports;
    return NULL;
}

static const char *state_read(struct ibstat *s, const char *value)
{
    s->active = !s->nic->state || (strcmp(s->nic->state, "ACTIVE") != 0 && !g_ascii_strcasecmp(value, "active"));
    if (!s->active) return NULL;
    g_free(s->nic->state);
    s->nic->state = g_ascii_strup(value, -1);
    return NULL;
}

static const char *rate_read(struct ibstat *s, const char *value)
{
    uint64_t gbps;
    if (!count_parse(value, RATE_GBPS_MAX, &gbps)) return "a rate in Gbit/s up to 10000";
    if (s->active || !s->nic->rate_bps) s->nic->rate_bps = gbps * 1000000000u;
    return NULL;
}

static const char *layer_read(struct ibstat *s, const char *value)
{
    if (!s->active && s->nic->link_layer) return NULL;
    g_free(s->nic->link_layer);
    s->nic->link_layer = g_strdup(value);
    return NULL;
}

static const struct {
    const char *name;
    bool of_port;
    const char *(*read)(struct ibstat *s, const char *value);
} fields[] = {
    { "CA type:", false, type_read }, { "Number of ports:", false, ports_read }, { "State:", true, state_read },
    { "Rate:", true, rate_read },     { "Link layer:", true, layer_read },
};

static bool line_read(struct ibstat *s, char *text, uint32_t line, GError **error)
{
    char *start = g_strstrip(text);
    if (g_str_has_prefix(start, "CA '") || !strcmp(start, "CA")) return nic_read(s, start, line, error);
    if (!s->nic) return !*start || fail(s, line, "CA 'NAME'", start, error);
    if (g_str_has_prefix(start, "Port ") && strchr(start, ':')) {
        s->port++;
        s->active = s->port == 1;
        return true;
    }
    for (size_t i = 0; i < G_N_ELEMENTS(fields); i++) {
        if (!g_str_has_prefix(start, fields[i].name)) continue;
        if (fields[i].of_port && !s->port) return fail(s, line, "Port N: before it", start, error);
        const char *value = g_strstrip(start + strlen(fields[i].name)), *expected = fields[i].read(s, value);
        return !expected || fail(s, line, expected, value, error);
    }
    return true; /* lines that are not used: GUIDs, firmware, LIDs */
}

struct probe_host *probe_ibstat_parse(const char *text, const char *source_name, GError **error)
{
    struct ibstat s = { .source = source_name, .host = probe_host_new(source_name) };
    g_auto(GStrv) line = g_strsplit(text, "\n", -1);
    bool good = true;
    for (uint32_t i = 0; good && line[i]; i++) good = line_read(&s, line[i], i + 1, error);
    if (good && !s.host->nic_count) good = fail(&s, 1, "CA 'NAME'", "", error);
    if (good) {
        probe_near_fill(s.host);
        return s.host;
    }
    probe_host_free(s.host);
    return NULL;
}

uint32_t probe_nics_complete(struct probe_host *host, const struct probe_host *from)
{
    uint32_t told = 0;
    for (uint32_t i = 0; i < host->nic_count; i++)
        for (uint32_t j = 0; j < from->nic_count; j++) {
            struct probe_nic *to = &host->nic[i];
            const struct probe_nic *nic = &from->nic[j];
            if (g_strcmp0(to->name, nic->name) != 0) continue;
            told++;
            if (!to->part) to->part = nic->part;
            if (!to->rate_bps) to->rate_bps = nic->rate_bps;
            if (!to->ports) to->ports = nic->ports;
            if (!to->state) to->state = g_strdup(nic->state);
            if (!to->link_layer) to->link_layer = g_strdup(nic->link_layer);
            to->bond |= nic->bond;
        }
    return told;
}
