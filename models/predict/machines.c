/* machines.c - finds cluster files by the names of their clusters. */
#include "models/predict/machines.h"

#include <string.h>
#include "models/cluster_command.h"
#include "models/hardware/world/world.h"
#include "sim/share.h"

struct machines {
    GHashTable *path; /* [name of a cluster] the path of its file */
    bool shipped;     /* the clusters that ship with eptwin are in `path` */
};

static bool machines_add(struct machines *m, const char *path, GError **error)
{
    g_autoptr(cluster) cluster = cluster_load(path, error);
    if (!cluster) return false;
    if (!g_hash_table_contains(m->path, cluster->name))
        g_hash_table_insert(m->path, g_strdup(cluster->name), g_strdup(cluster->path));
    return true;
}

/* Adds the shipped clusters.  Skips a broken file, so that it does not spoil the answer about other clusters; `eptwin
 * cluster check` reports it. */
static void machines_add_shipped(struct machines *m)
{
    g_auto(GStrv) names = m->shipped ? NULL : share_names(SHARE_CLUSTERS);
    for (char **name = names; name && *name; name++) {
        g_autofree char *path = share_find(SHARE_CLUSTERS, *name);
        if (path) machines_add(m, path, NULL);
    }
    m->shipped = true;
}

static uint32_t header_number(const struct record *record, const char *key)
{
    guint64 number;
    const char *text = record_get(record, key);
    return text && g_ascii_string_to_unsigned(text, 10, 1, UINT16_MAX, &number, NULL) ? (uint32_t)number : 0;
}

/* The record's values of --set, each "SECTION.KEY=VALUE".  A value may contain a blank. */
static char **header_set(const struct record *record)
{
    g_autoptr(GStrvBuilder) builder = g_strv_builder_new();
    g_auto(GStrv) word = g_strsplit(record_get(record, "set") ? record_get(record, "set") : "", " ", -1);
    g_autofree char *setting = NULL;
    for (char **w = word; *w; w++) {
        const bool begins = strchr(*w, '=') != NULL;
        char *longer = setting && !begins ? g_strconcat(setting, " ", *w, NULL) : g_strdup(*w);
        if (setting && begins) g_strv_builder_add(builder, setting);
        g_free(setting);
        setting = longer;
    }
    if (setting && strchr(setting, '=')) g_strv_builder_add(builder, setting);
    return g_strv_builder_end(builder);
}

const char *machines_path(struct machines *m, const struct record *record)
{
    const char *name = record_get(record, "cluster");
    if (!name || g_strcmp0(record_get(record, "kind"), "simulate") != 0) return NULL;
    if (!g_hash_table_contains(m->path, name)) machines_add_shipped(m);
    return g_hash_table_lookup(m->path, name);
}

struct drawing *machines_draw(struct machines *m, const struct record *record)
{
    const uint32_t ranks = header_number(record, "num-ranks"), per_node = header_number(record, "ranks-per-node");
    const char *path = ranks && per_node ? machines_path(m, record) : NULL;
    g_auto(GStrv) set = header_set(record);
    g_autoptr(cluster) cluster = path ? cluster_load_set(path, (const char *const *)set, NULL) : NULL;
    if (!cluster) return NULL;
    uint32_t gpus;
    const uint32_t nodes = world_nodes(cluster, ranks, per_node, &gpus);
    struct graph *graph = graph_new(cluster, nodes, gpus, NULL);
    struct drawing *drawing = graph ? cluster_draw(cluster, graph) : NULL;
    graph_free(graph);
    return drawing;
}

struct machines *machines_new(char *const *paths, GError **error)
{
    struct machines *m = g_new0(struct machines, 1);
    m->path = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    for (char *const *path = paths; path && *path; path++)
        if (!machines_add(m, *path, error)) {
            machines_free(m);
            return NULL;
        }
    return m;
}

void machines_free(struct machines *m)
{
    if (!m) return;
    g_hash_table_destroy(m->path);
    g_free(m);
}
