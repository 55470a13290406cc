/* cluster_notes.c - finds settings without effect, and figures that come from other hardware; see cluster_command.h. */
#include "models/cluster_command.h"

#include <string.h>

/* Why a key changes nothing. */
enum idle_reason { IDLE_NICS, IDLE_ONE_SWITCH, IDLE_BACKEND };

static const struct idle_key {
    const char *section, *key; /* key NULL: all keys of the section */
    enum idle_reason reason;
} idle_keys[] = {
    { "nic", NULL, IDLE_NICS },
    { "network", NULL, IDLE_NICS },
    { "dcqcn", NULL, IDLE_NICS },
    { "network", "oversubscription", IDLE_ONE_SWITCH },
    { "network", "uplink-rate", IDLE_ONE_SWITCH },
    { "network", "spines", IDLE_ONE_SWITCH },
    { "network", "cores", IDLE_ONE_SWITCH },
    { "network", "hop", IDLE_ONE_SWITCH },
    { "network", "routing", IDLE_ONE_SWITCH },
    { "network", "flow-key", IDLE_ONE_SWITCH },
    { "nic", "posting", IDLE_BACKEND },
    { "nic", "post", IDLE_BACKEND },
    { "nic", "doorbell", IDLE_BACKEND },
    { "nic", "library", IDLE_BACKEND },
    { "nic", "proxy", IDLE_BACKEND },
    { "nic", "proxy-threads", IDLE_BACKEND },
    { "nic", "queue-depth", IDLE_BACKEND },
    { "nic", "window", IDLE_BACKEND },
};

/* How many switches have links to ports of NICs. */
static uint32_t leaves_count(const struct graph *g)
{
    uint32_t leaves = 0;
    for (uint32_t i = 0; i < g->part->len; i++) {
        const struct part *part = graph_part(g, i);
        bool ports = false;
        for (guint k = 0; part->kind == PART_SWITCH && k < part->out->len && !ports; k++)
            ports = graph_part(g, graph_link(g, g_array_index(part->out, uint32_t, k))->to)->kind == PART_PORT;
        leaves += ports;
    }
    return leaves;
}

struct notes {
    const struct graph *graph;
    const struct transport *backend;
    bool nics_used;
    GPtrArray *text;
};

/* Returns the reason in words if it applies, else NULL.  Free with g_free(). */
static char *reason_text(const struct notes *n, enum idle_reason reason)
{
    if (reason == IDLE_NICS) return n->nics_used ? NULL : g_strdup("all ranks are of one node");
    if (reason == IDLE_BACKEND && n->backend) return g_strdup_printf("--backend %s sets it instead", n->backend->name);
    if (reason != IDLE_ONE_SWITCH || leaves_count(n->graph) != 1) return NULL;
    if (n->graph->cluster->network.topology == CLUSTER_SINGLE)
        return g_strdup("[network] topology is single: one switch has all ports");
    return g_strdup_printf("the %u nodes share one leaf", n->graph->nodes);
}

static void settings_note(const struct notes *n)
{
    for (char **s = n->graph->cluster->settings; s && *s; s++) {
        for (size_t i = 0; i < G_N_ELEMENTS(idle_keys); i++) {
            const struct idle_key *k = &idle_keys[i];
            g_autofree char *head = g_strconcat(k->section, ".", k->key ? k->key : "", k->key ? "=" : NULL, NULL);
            g_autofree char *why = g_str_has_prefix(*s, head) ? reason_text(n, k->reason) : NULL;
            if (!why) continue;
            g_ptr_array_add(n->text, g_strdup_printf("--set %s has no effect: %s", *s, why));
            break;
        }
    }
}

static bool of_nics(const char *section)
{
    return !strcmp(section, "nic") || !strcmp(section, "network") || !strcmp(section, "dcqcn");
}

/* Notes how many values are assumed, and from which files. */
static void assumed_note(const struct notes *n)
{
    const struct cluster *c = n->graph->cluster;
    g_autoptr(GString) files = g_string_new(NULL);
    uint32_t count = 0;
    for (uint32_t i = 0; i < c->assumed_count; i++) {
        const struct cluster_assumed *a = &c->assumed[i];
        if (of_nics(a->section) && !n->nics_used) continue;
        count++;
        if (!strstr(files->str, a->file)) g_string_append_printf(files, "%s%s", files->len ? ", " : "", a->file);
    }
    if (count)
        g_ptr_array_add(n->text,
                        g_strdup_printf("%u value%s nobody has measured on this machine %s other hardware's, "
                                        "from %s (`eptwin cluster show` lists them)",
                                        count, count == 1 ? " that" : "s that", count == 1 ? "is" : "are", files->str));
}

static bool is_set(const struct graph *g, const char *head)
{
    for (char **s = g->cluster->settings; s && *s; s++)
        if (g_str_has_prefix(*s, head)) return true;
    return false;
}

/* Notes that an oversubscription changes nothing if there is only one leaf, and that switches after the first take
 * no time if hop is 0. */
static void network_note(const struct notes *n)
{
    const struct cluster_network *network = &n->graph->cluster->network;
    g_autofree char *why = reason_text(n, IDLE_ONE_SWITCH);
    if (why && network->oversubscription > 1 && !is_set(n->graph, "network.oversubscription="))
        g_ptr_array_add(n->text, g_strdup_printf("[network] oversubscription = %.4g:1 has no effect: %s",
                                                 network->oversubscription, why));
    if (leaves_count(n->graph) > 1 && !network->hop_ps && network->topology != CLUSTER_LINKS)
        g_ptr_array_add(n->text, g_strdup("[network] hop is 0: switches after the first take no time"));
}

static void backend_note(const struct notes *n)
{
    const uint32_t provider = n->graph->cluster->nic.provider;
    if (!n->backend || n->backend->provider == provider) return;
    if (provider == CLUSTER_PROVIDER_UNKNOWN || n->backend->provider == CLUSTER_PROVIDER_UNKNOWN) return;
    g_ptr_array_add(n->text, g_strdup_printf("--backend %s has times of %s, but none of this cluster's NICs, %s",
                                             n->backend->name, cluster_provider_text(n->backend->provider),
                                             cluster_provider_text(provider)));
}

GPtrArray *cluster_notes(const struct graph *graph, const struct transport *backend, bool nics_used)
{
    const struct notes notes = { graph, backend, nics_used, g_ptr_array_new_with_free_func(g_free) };
    if (graph->cluster->host.cores) return notes.text;
    assumed_note(&notes);
    settings_note(&notes);
    if (nics_used) network_note(&notes);
    if (nics_used) backend_note(&notes);
    return notes.text;
}
