/* probe_ibnet.h - the network that `ibnetdiscover` or `iblinkinfo` prints: switches, host ports, cables, rates. */
#ifndef REPLAY_PROBE_PROBE_IBNET_H
#define REPLAY_PROBE_PROBE_IBNET_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

struct probe_switch {
    char *id;   /* "S-ec0d9a0300ec8240", "lid 48" */
    char *name; /* its description, or "" */
    uint32_t ports;
    uint32_t host_ports, switch_ports;
    uint64_t down_bps, up_bps; /* total rate of its cables to hosts, and of its cables to other switches */
};

struct probe_cable {
    char *from, *to; /* the ids of the ends; `from` is a switch */
    uint32_t from_port, to_port;
    uint64_t rate_bps;
    bool host;  /* whether `to` is a host's port */
    char *node; /* the name of the host if `to` is its port, else NULL */
    bool slow;  /* whether the rate is below that of most cables of its kind */
};

struct probe_ibnet {
    char *source;
    GArray *sw;     /* struct probe_switch */
    GArray *cable;  /* struct probe_cable; cables between switches appear once, from the end that appears first */
    uint32_t hosts; /* host ports */
    uint64_t host_bps, switch_bps; /* the rate of most cables to hosts, and of most between switches; 0: no cable */
    GHashTable *between;           /* for the reader: "FROM[PORT] TO" of cables between switches, from both ends */
    GHashTable *by_lid;            /* for the reader: LID to index in sw, if the text names switches by LID */
};

/* Reads the text; source_name is for messages.  NULL and *error (file, line, expected, found) on failure. */
struct probe_ibnet *probe_ibnet_parse(const char *text, const char *source_name, GError **error);
void probe_ibnet_free(struct probe_ibnet *net);
/* The data rate that a text like "4xEDR" names, in bits a second over all lanes; 0 if the text names no rate. */
uint64_t probe_ib_rate(const char *text);
/* The total rate of the hosts' cables over that of the leaves' cables to other switches; 1 for a single switch. */
double probe_ibnet_oversubscription(const struct probe_ibnet *net);
void probe_ibnet_text(const struct probe_ibnet *net, GString *out);

#endif
