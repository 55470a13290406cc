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

/* The kinds of parts that can be twice as fast, as a table's title and as the subject of a sentence. */
static const struct {
    const char *title, *subject;
} kinds[CLUSTER_PART_NONE] = {
    [CLUSTER_PART_NICS] = { "NICs", "NICs" },
    [CLUSTER_PART_PEERS] = { "NVLink", "NVLinks" },
    [CLUSTER_PART_MEMORY] = { "memory", "memories" },
    [CLUSTER_PART_SMS] = { "SMs", "SMs" },
    [CLUSTER_PART_POSTING] = { "posting", "posts" },
    [CLUSTER_PART_LINKS] = { "links", "links" },
    [CLUSTER_PART_LATENCIES] = { "latencies", "latencies" },
};

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

/* A nominal rate that is not given follows from another rate.  Sets the nominal rate to its present value, so that it
 * stays when that other rate is made faster. */
static void nominal_set(GPtrArray *settings, const struct cluster *c, enum cluster_part kind)
{
    if (kind == CLUSTER_PART_PEERS && !rate_of(c, "nvlink", "line-rate"))
        rate_set(settings, "nvlink.line-rate", rate_of(c, "nvlink", "egress-rate"));
    if (kind == CLUSTER_PART_NICS && !rate_of(c, "nic", "line-rate"))
        rate_set(settings, "nic.line-rate", rate_of(c, "nic", "rate"));
}

/* The rate of links between switches follows from that of NICs by the oversubscription.  Sets the oversubscription so
 * that these links are faster only if they are the kind that is made faster.  A setting cannot do this, because a
 * file's oversubscription must be at least 1. */
static void uplinks_set(struct cluster *c, enum cluster_part kind)
{
    double *over = &c->network.oversubscription;
    if (*over <= 0) *over = 1;
    if (kind == CLUSTER_PART_NICS) *over *= 2;
    if (kind == CLUSTER_PART_LINKS) *over /= 2;
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

static struct cluster *faster_cluster(const struct cluster *cluster, enum cluster_part kind, GError **error)
{
    g_autoptr(GPtrArray) settings = g_ptr_array_new_with_free_func(g_free);
    const struct cluster_key *key;
    for (char **s = cluster->settings; s && *s; s++) g_ptr_array_add(settings, g_strdup(*s));
    nominal_set(settings, cluster, kind);
    for (size_t i = 0; (key = cluster_key_at(i)); i++)
        if (key->part == kind) faster_set(settings, cluster, key);
    g_ptr_array_add(settings, NULL);
    struct cluster *faster = cluster_load_set(cluster->path, (const char *const *)settings->pdata, error);
    if (faster) uplinks_set(faster, kind);
    return faster;
}

/* Makes a backend's transport faster.  Its times are in models/backends.ini, not in the cluster file. */
static void faster_transport(struct transport *t, enum cluster_part kind)
{
    uint64_t *const posting[] = { &t->post_ps,   &t->doorbell_ps, &t->library_ps, &t->message_ps,
                                  &t->answer_ps, &t->atomic_ps,   &t->receive_ps, &t->mapped_ps };
    for (size_t i = 0; i < G_N_ELEMENTS(posting) && kind == CLUSTER_PART_POSTING; i++) *posting[i] /= 2;
    if (kind == CLUSTER_PART_LATENCIES) t->proxy_ps /= 2;
}

bool faster_predict(const struct case_options *c, const struct cluster *cluster, const struct case_load *load,
                    enum cluster_part kind, struct record *record, GError **error)
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

enum cluster_part faster_kind(const char *bottleneck)
{
    static const char *const resources[CLUSTER_PART_NONE][5] = {
        [CLUSTER_PART_NICS] = { "nic_tx", "nic_rx", "receiving", "atomics" },
        [CLUSTER_PART_PEERS] = { "nvlink_egress", "nvlink_ingress" },
        [CLUSTER_PART_MEMORY] = { "hbm" },
        [CLUSTER_PART_SMS] = { "sm" },
        [CLUSTER_PART_POSTING] = { "posting" },
        [CLUSTER_PART_LINKS] = { "link" },
        [CLUSTER_PART_LATENCIES] = { COMPARE_STEPS },
    };
    int kind = 0;
    while (kind < CLUSTER_PART_NONE && !g_strv_contains(resources[kind], bottleneck)) kind++;
    return (enum cluster_part)kind;
}

/* A part that is busy for most of the time may have its work hidden by what other workers do meanwhile.  Then it is
 * named as the bottleneck, but the phase gains more from faster parts of another kind, or nothing from it. */
static void denial_append(const struct record *record, struct record *const after[CLUSTER_PART_NONE], const char *phase,
                          GString *out)
{
    const struct record_row *bound = record_find(record, phase, RECORD_ALL, "bottleneck");
    const enum cluster_part named = bound ? faster_kind(record_row_text(bound)) : CLUSTER_PART_NONE;
    if (named == CLUSTER_PART_NONE || named == CLUSTER_PART_LATENCIES) return;
    const double own_pct = faster_gain_pct(record, after[named], phase);
    double most_pct = -INFINITY;
    int most = 0;
    for (int kind = 0; kind < CLUSTER_PART_NONE; kind++) {
        const double pct = faster_gain_pct(record, after[kind], phase);
        if (kind != (int)named && pct > most_pct) most_pct = pct, most = kind;
    }
    if (own_pct >= 1 && own_pct >= most_pct - 0.5) return;
    g_string_append_printf(out,
                           "Busy as they are, %s do not bound %s alone: twice as fast, they would save %.0f %%, and %s "
                           "%.0f %%.\n",
                           kinds[named].subject, phase, fmax(own_pct, 0), kinds[most].subject, fmax(most_pct, 0));
}

static void table_append(const struct record *record, struct record *const after[CLUSTER_PART_NONE], GString *out)
{
    const char *titles[1 + CLUSTER_PART_NONE] = { "twice as fast:" };
    for (int kind = 0; kind < CLUSTER_PART_NONE; kind++) titles[1 + kind] = kinds[kind].title;
    g_autoptr(text_table) table = text_table_new("lrrrrrrr", titles);
    g_autoptr(GPtrArray) phases = compare_phases(record);
    for (guint i = 0; i < phases->len; i++) {
        const char *phase = g_ptr_array_index(phases, i);
        text_table_cell(table, "%s", phase);
        for (int kind = 0; kind < CLUSTER_PART_NONE; kind++) {
            const double gain_pct = after[kind] ? faster_gain_pct(record, after[kind], phase) : NAN;
            if (fabs(gain_pct) >= 0.5) text_table_cell(table, "%+.0f %%", -gain_pct);
            else text_table_cell(table, "-");
        }
    }
    g_string_append_c(out, '\n');
    text_table_append(table, out);
    g_string_append(out, "How the slowest rank's time changes, predicted with all parts of one kind twice as fast.\n"
                         "Latencies: launches, ways of words and messages, fences.\n");
    for (guint i = 0; i < phases->len; i++) denial_append(record, after, g_ptr_array_index(phases, i), out);
}

bool faster_append(const struct case_options *c, const struct cluster *cluster, const struct case_load *load,
                   const struct record *record, GString *out, GError **error)
{
    struct record *after[CLUSTER_PART_NONE] = { NULL };
    bool good = true;
    for (int kind = 0; good && kind < CLUSTER_PART_NONE && !cluster->host.cores; kind++) {
        after[kind] = record_new();
        good = faster_predict(c, cluster, load, (enum cluster_part)kind, after[kind], error);
    }
    if (good && !cluster->host.cores) table_append(record, after, out);
    for (int kind = 0; kind < CLUSTER_PART_NONE; kind++) record_free(after[kind]);
    return good;
}
