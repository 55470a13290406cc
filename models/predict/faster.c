/* faster.c - predictions in which all parts of one kind are twice as fast; see faster.h. */
#include "models/predict/faster.h"

#include <assert.h>
#include <math.h>
#include <string.h>
#include "models/backends.h"
#include "models/cluster_keys.h"
#include "models/hardware/machine/transport.h"
#include "models/predict/simulate.h"
#include "reports/compare.h"
#include "reports/text_table.h"

/* The kinds of parts that can be twice as fast, each with its sections and keys.  Only times and rates change.
 * Latencies are waits during which no part is busy: launches, words and messages on their way, fences. */
static const struct {
    const char *title, *resources, *keys;
} kinds[FASTERS] = {
    [FASTER_NIC] = { "NICs", "nic_tx nic_rx receiving atomics", "nic: rate message signal atomic network: rate" },
    [FASTER_PEERS] = { "NVLink", "nvlink_egress nvlink_ingress",
                       "nvlink: egress-rate unaligned-rate split-rate ingress-rate bulk-rate bulk-crossing-rate "
                       "sector-rate" },
    [FASTER_MEMORY] = { "memory", "hbm", "gpu: hbm-rate hbm-read-rate hbm-write-rate hbm-rows-rate l2-rate" },
    [FASTER_SM] = { "SMs", "sm",
                    "gpu: step store-row store-warp-rate store-sm-rate bulk-in bulk-in-l2 bulk-turn bulk-out "
                    "bulk-in-rate bulk-out-rate bulk-put-rate bulk-request reduce-sm-rate reduce-made-sm-rate "
                    "touch load load-l1 load-l2 load-again load-shared access cycle stage stretch release "
                    "release-stores sum-far-sm-rate" },
    [FASTER_POSTING] = { "posting", "posting", "nic: post doorbell library" },
    [FASTER_LINKS] = { "links", "link", "node: pcie-rate root-rate socket-rate staging-rate network: uplink-rate" },
    [FASTER_LATENCY] = { "latencies", "latency",
                         "gpu: launch beside setup poll nvlink: latency crossing fence fence-crowd peek nic: fetch "
                         "read deliver proxy node: root-latency socket-latency staging-latency release-system "
                         "host-fence host-look network: latency hop" },
};

enum faster faster_of(const char *bottleneck)
{
    int kind = 0;
    for (; kind < FASTERS; kind++) {
        g_auto(GStrv) resources = g_strsplit(kinds[kind].resources, " ", -1);
        if (g_strv_contains((const char *const *)resources, bottleneck)) break;
    }
    return (enum faster)kind;
}

static void rate_set(GPtrArray *settings, const char *key, uint64_t rate_bps)
{
    if (rate_bps) g_ptr_array_add(settings, g_strdup_printf("%s=%.6f Mbit/s", key, (double)rate_bps / 1e6));
}

static uint64_t value_of(const struct cluster *c, const struct cluster_key *key)
{
    return *(const uint64_t *)(const void *)((const char *)c + key->offset);
}

static const struct cluster_key *key_find(const char *section, const char *name)
{
    const struct cluster_key *key;
    for (size_t i = 0; (key = cluster_key_at(i)); i++)
        if (strcmp(key->section, section) == 0 && strcmp(key->name, name) == 0) return key;
    assert(!"a key of cluster files");
    return NULL;
}

/* The rate that a file or a setting gives for a key; 0: none. */
static uint64_t rate_of(const struct cluster *c, const char *section, const char *name)
{
    return value_of(c, key_find(section, name));
}

/* A nominal rate that is not given follows from another rate.  If that rate is made faster, sets the nominal rate to
 * what it was. */
static void nominal_set(GPtrArray *settings, const struct cluster *c, enum faster kind)
{
    if (kind == FASTER_PEERS && !rate_of(c, "nvlink", "line-rate"))
        rate_set(settings, "nvlink.line-rate", rate_of(c, "nvlink", "egress-rate"));
    if (kind == FASTER_NIC && !rate_of(c, "nic", "line-rate"))
        rate_set(settings, "nic.line-rate", rate_of(c, "nic", "rate"));
}

/* Where the rate of links between switches follows from that of NICs, it changes only if these links are the kind that
 * is made faster.  No setting can say it, because an oversubscription below 1 is refused. */
static void uplinks_set(struct cluster *c, enum faster kind)
{
    double *over = &c->network.oversubscription;
    if (*over <= 0) *over = 1;
    if (kind == FASTER_NIC) *over *= 2;
    if (kind == FASTER_LINKS) *over /= 2;
}

/* Sets a key to double its rate or half its time. */
static void faster_set(GPtrArray *settings, const struct cluster *c, const struct cluster_key *key)
{
    const uint64_t value = value_of(c, key);
    g_autofree char *name = g_strdup_printf("%s.%s", key->section, key->name);
    assert(key->kind == KIND_TIME || key->kind == KIND_RATE);
    if (key->kind == KIND_RATE) rate_set(settings, name, 2 * value);
    else if (value) g_ptr_array_add(settings, g_strdup_printf("%s=%" G_GUINT64_FORMAT " ps", name, value / 2));
}

static struct cluster *faster_cluster(const struct cluster *cluster, enum faster kind, GError **error)
{
    g_autoptr(GPtrArray) settings = g_ptr_array_new_with_free_func(g_free);
    g_auto(GStrv) words = g_strsplit(kinds[kind].keys, " ", -1);
    const char *section = NULL;
    for (char **s = cluster->settings; s && *s; s++) g_ptr_array_add(settings, g_strdup(*s));
    nominal_set(settings, cluster, kind);
    for (char **w = words; *w; w++) {
        char *colon = strchr(*w, ':');
        if (!colon) faster_set(settings, cluster, key_find(section, *w));
        else {
            *colon = '\0';
            section = *w;
        }
    }
    g_ptr_array_add(settings, NULL);
    struct cluster *faster = cluster_load_set(cluster->path, (const char *const *)settings->pdata, error);
    if (faster) uplinks_set(faster, kind);
    return faster;
}

/* Makes a transport of models/backends.ini faster.  Its times are not in the cluster file. */
static void faster_transport(struct transport *t, enum faster kind)
{
    uint64_t *const posting[] = { &t->post_ps,   &t->doorbell_ps, &t->library_ps, &t->message_ps,
                                  &t->answer_ps, &t->atomic_ps,   &t->receive_ps, &t->mapped_ps };
    for (size_t i = 0; i < G_N_ELEMENTS(posting) && kind == FASTER_POSTING; i++) *posting[i] /= 2;
    if (kind == FASTER_LATENCY) t->proxy_ps /= 2;
}

bool faster_predict(const struct case_options *c, const struct cluster *cluster, const struct case_load *load,
                    enum faster kind, struct record *record, GError **error)
{
    const struct transport *backend = c->backend ? backends_find(c->backend) : NULL;
    struct transport transport = backend ? *backend : (struct transport){ 0 };
    struct cluster *faster = faster_cluster(cluster, kind, error);
    if (!faster) return false;
    faster_transport(&transport, kind);
    const struct simulate_wishes wishes = { .transport = backend ? &transport : NULL };
    const bool good = simulate_load(c, faster, load, &wishes, record, error);
    cluster_free(faster);
    return good;
}

double faster_gain_pct(const struct record *before, const struct record *after, const char *phase)
{
    return 100 * (1 - compare_slowest_us(after, phase) / compare_slowest_us(before, phase));
}

static void table_append(const struct record *record, struct record *const after[FASTERS], GString *out)
{
    const char *titles[1 + FASTERS] = { "twice as fast:" };
    for (int kind = 0; kind < FASTERS; kind++) titles[1 + kind] = kinds[kind].title;
    g_autoptr(text_table) table = text_table_new("lrrrrrrr", titles);
    g_autoptr(GPtrArray) phases = compare_phases(record);
    for (guint i = 0; i < phases->len; i++) {
        const char *phase = g_ptr_array_index(phases, i);
        text_table_cell(table, "%s", phase);
        for (int kind = 0; kind < FASTERS; kind++) {
            const double gain_pct = after[kind] ? faster_gain_pct(record, after[kind], phase) : NAN;
            if (fabs(gain_pct) >= 0.5) text_table_cell(table, "%+.0f %%", -gain_pct);
            else text_table_cell(table, "-");
        }
    }
    g_string_append_c(out, '\n');
    text_table_append(table, out);
    g_string_append(out, "How the slowest rank's time changes, predicted with all parts of one kind twice as fast.\n"
                         "Latencies: launches, ways of words and messages, fences.\n");
}

bool faster_append(const struct case_options *c, const struct cluster *cluster, const struct case_load *load,
                   const struct record *record, GString *out, GError **error)
{
    struct record *after[FASTERS] = { NULL };
    bool good = true;
    for (int kind = 0; good && kind < FASTERS && !cluster->host.cores; kind++) {
        after[kind] = record_new();
        good = faster_predict(c, cluster, load, (enum faster)kind, after[kind], error);
    }
    if (good && !cluster->host.cores) table_append(record, after, out);
    for (int kind = 0; kind < FASTERS; kind++) record_free(after[kind]);
    return good;
}
