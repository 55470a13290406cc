/* probe_ibnet.h - the network that `ibnetdiscover` or `iblinkinfo` prints: switches, ports of hosts, cables and
 * rates. */
#ifndef REPLAY_PROBE_PROBE_IBNET_H
#define REPLAY_PROBE_PROBE_IBNET_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

struct probe_switch {
    char *id;   /* "S-ec0d9a0300ec8240" or "lid 48" */
    char *name; /* the switch's description, or "" */
    uint32_t ports;
    uint32_t host_ports;
    uint64_t down_bps, up_bps; /* total rate of cables to hosts, and of cables to other switches */
};

struct probe_cable {
    char *from, *to; /* IDs of the two ends; `from` is a switch */
    uint32_t from_port, to_port;
    uint64_t rate_bps;
    bool host;  /* whether `to` is a host's port */
    char *node; /* name of the host if `to` is one of its ports, else NULL */
    bool slow;  /* whether the rate is lower than that of most cables of this kind */
};

struct probe_ibnet {
    char *source;
    GArray *sw;     /* struct probe_switch */
    GArray *cable;  /* struct probe_cable; cables between switches appear once, from the end that appears first */
    uint32_t hosts; /* number of ports of hosts */
    uint64_t host_bps, switch_bps; /* rate of most cables to hosts, and of most cables between switches; 0: no cable */
    GHashTable *between;           /* for the reader: "FROM[PORT] TO" of each end of a cable between switches */
    GHashTable *by_lid;            /* for the reader: LID -> index in sw, if switches are named by LID */
};

/* Reads the text; source_name is its name in messages.  On failure returns NULL, and *error names the file, the
 * line, what was expected and what was found. */
struct probe_ibnet *probe_ibnet_parse(const char *text, const char *source_name, GError **error);
void probe_ibnet_free(struct probe_ibnet *net);
/* Returns the data rate of a text like "4xEDR", in bits a second over all lanes; 0 if the text names no rate. */
uint64_t probe_ib_rate(const char *text);
/* Returns the total rate of all cables to hosts divided by that of the leaves' cables to other switches; 1 for a
 * single switch. */
double probe_ibnet_oversubscription(const struct probe_ibnet *net);
void probe_ibnet_text(const struct probe_ibnet *net, GString *out);

#endif
