/* diagnose_plant.c - rules out causes that contradict facts of a row, and plants the others in the row.  Knows no
 * prediction and no ranking. */
#include "models/predict/diagnose.h"

#include <string.h>
#include "models/hardware/machine/graph.h"

/* ---- what applies ---- */

static uint32_t ranks_a_node(const struct validate_row *row, const struct cluster *cluster)
{
    const uint32_t a_node = case_node_ranks(&row->options, cluster->nvlink.gpus), ranks = case_ranks(&row->options);
    return a_node && a_node < ranks ? a_node : ranks;
}

static bool applies(const struct cause *cause, const struct cluster *cluster, const struct validate_row *row)
{
    const struct case_options *c = &row->options;
    const uint32_t a_node = ranks_a_node(row, cluster), ranks = case_ranks(c);
    const bool by_network = c->nvlink_disabled || ranks > a_node;
    const unsigned scope = cause->scope;
    if (scope & CAUSE_NETWORK && (!graph_node_nics(cluster, 1) || !by_network)) return false;
    if (scope & CAUSE_SHARED && a_node < 2) return false;
    if (scope & CAUSE_PORTS && cluster->nic.ports < 2) return false;
    if (scope & CAUSE_NVLINK && (c->nvlink_disabled || a_node < 2 || cluster->host.cores)) return false;
    if (scope & CAUSE_SMS && !case_kernel_in(&row->options, "normal|v2")) return false;
    if (scope & CAUSE_MOE && !case_kernel_in(&row->options, "ll|normal|v2")) return false;
    if (scope & CAUSE_RATES && !(row->measured_gbs > 0 && case_kernel_in(&row->options, "normal|v2"))) return false;
    if (scope & CAUSE_DRAWN && (c->trace || c->traffic)) return false;
    if (scope & CAUSE_GPU_PATH && row->known & KNOWN_HOST_MEMORY) return false;
    if (scope & CAUSE_GPU_POSTS && row->known & (KNOWN_BACKEND | KNOWN_CPU_POSTS | KNOWN_HOST_MEMORY)) return false;
    if (scope & CAUSE_COUNTED && row->known & KNOWN_COUNTED) return false;
    return true;
}

/* Whether this backend could have sent a row's requests in place of the row's own.  It could not if another library
 * sent them.  If the row states its version of DeepEP, that decides about "ibrc". */
static bool backend_possible(const struct validate_row *row, const char *backend)
{
    const bool v2 = case_kernel_in(&row->options, "v2"), nccl = !strcmp(backend, "gin-proxy");
    if (nccl) return !(row->known & KNOWN_NVSHMEM);
    if (row->known & KNOWN_NCCL || v2) return false;
    return !row->options.deepep || strcmp(backend, "ibrc") != 0;
}

/* ---- planting ---- */

/* The setting with its percentage turned into a value: "node.nics=50%" becomes "node.nics=4" where there are 8. */
static char *setting_resolve(const char *setting, const struct cluster *cluster, const struct validate_row *row)
{
    const char *equals = strchr(setting, '=');
    if (!g_str_has_suffix(setting, "%")) return g_strdup(setting);
    const double share = g_ascii_strtod(equals + 1, NULL) / 100;
    g_autofree char *key = g_strndup(setting, (gsize)(equals - setting));
    const uint32_t a_node = ranks_a_node(row, cluster);
    const uint32_t nics = cluster->node.nics ? cluster->node.nics : MAX(a_node / MAX(cluster->nic.gpus_per_nic, 1), 1);
    const struct graph_made_with with = graph_made_with(cluster);
    const uint64_t rate = !strcmp(key, "nic.rate")             ? with.nic_bps
                          : !strcmp(key, "node.pcie-rate")     ? with.nic_bps * cluster->nic.ports
                          : !strcmp(key, "nvlink.egress-rate") ? with.peers_out_bps
                                                               : with.peers_in_bps;
    if (!strcmp(key, "node.nics")) return g_strdup_printf("%s=%u", key, MAX((uint32_t)(nics * share), 1u));
    return g_strdup_printf("%s=%.6g GB/s", key, (double)rate / 8e9 * share);
}

/* The tokens of each rank, as --tokens-per-rank takes them.  "rank:4": rank 0 has four times the tokens; "node:4": all
 * ranks of its node do. */
static char *tokens_list(const char *how, const struct validate_row *row, const struct cluster *cluster)
{
    struct case_options whole = row->options;
    case_cluster_settle(&whole, cluster);
    whole = case_resolved(&whole);
    const uint32_t times = (uint32_t)g_ascii_strtoull(strchr(how, ':') + 1, NULL, 10);
    const uint32_t many = g_str_has_prefix(how, "node") ? ranks_a_node(row, cluster) : 1;
    GString *list = g_string_new(NULL);
    for (uint32_t r = 0; r < whole.num_ranks; r++)
        g_string_append_printf(list, "%s%u", r ? "|" : "", whole.num_tokens * (r < many ? times : 1));
    return g_string_free(list, FALSE);
}

/* The text for --arrival that makes ranks wait for excess_us.  "uniform:": ranks launch late by up to twice this time,
 * and wait for half of that.  Else rank 0 is late by this time, and all others wait for all of it. */
static char *arrival(const char *how, const struct validate_row *row, double excess_us)
{
    if (g_str_has_prefix(how, "uniform:")) return g_strdup_printf("uniform:%.0fus", 2 * excess_us);
    GString *list = g_string_new(NULL);
    g_string_append_printf(list, "%.0fus", excess_us);
    for (uint32_t r = 1; r < case_ranks(&row->options); r++) g_string_append(list, "|0us");
    return g_string_free(list, FALSE);
}

/* "50%" of the case's SMs as a number, rounded down to an even one. */
static char *sms_share(const char *share, const struct case_options *c)
{
    const uint32_t percent = (uint32_t)g_ascii_strtoull(share, NULL, 10),
                   sms = c->num_sms ? c->num_sms : CASE_SMS_DEFAULT;
    return g_strdup_printf("%u", MAX(sms * percent / 200 * 2, 2u));
}

/* Work between combine and dispatch counts as a cause from this delay in us.  Shorter delays look like other
 * lateness. */
#define LATE_US 1000

static bool option_plant(const char *option, const struct cluster *cluster, double excess_us, struct validate_row *row)
{
    struct case_options *c = &row->options;
    const char *equals = strchr(option, '='), *value = equals + 1;
    g_autofree char *name = g_strndup(option, (gsize)(equals - option));
    g_autofree char *made = NULL;
    if (!strcmp(name, "num-sms")) made = sms_share(value, c);
    else if (!strcmp(name, "tokens-per-rank")) made = tokens_list(value, row, cluster);
    else if (!strcmp(name, "arrival")) made = arrival(value, row, excess_us);
    if (!strcmp(name, "arrival") && !(excess_us > 1 && !c->arrival)) return false;
    if (!strcmp(name, "fault") && c->fault) return false;
    if (!strcmp(name, "launch") && (row->known & KNOWN_LAUNCHED || excess_us < LATE_US)) return false;
    if (!strcmp(name, "nvl-chunk") && (c->nvl_chunk || c->combine_nvl_chunk)) return false;
    if (!strcmp(name, "backend") && !backend_possible(row, value)) return false;
    if (!strcmp(name, "deepep") && (c->deepep || row->known & KNOWN_NCCL || !case_kernel_in(&row->options, "normal")))
        return false;
    return case_set(c, name, made ? made : value, NULL);
}

bool cause_plant(const struct cause *cause, uint32_t variant, const struct cluster *cluster, double excess_us,
                 struct validate_row *row)
{
    const struct cause_variant *v = &cause->variant[variant];
    if (!applies(cause, cluster, row)) return false;
    const double nodes = (double)case_ranks(&row->options) / ranks_a_node(row, cluster);
    const bool physical = row->metric && g_str_has_prefix(row->metric, "physical");
    if (v->local && (nodes < 2 || physical != (v->local < 0))) return false;
    for (uint32_t i = 0; i < CAUSE_OPTIONS_MAX && v->option[i]; i++)
        if (!option_plant(v->option[i], cluster, excess_us, row)) return false;
    g_autoptr(GPtrArray) settings = g_ptr_array_new();
    for (char **s = row->settings; s && *s; s++) g_ptr_array_add(settings, g_strdup(*s));
    for (uint32_t i = 0; i < CAUSE_SETTINGS_MAX && v->setting[i]; i++) {
        g_ptr_array_add(settings, setting_resolve(v->setting[i], cluster, row));
        /* a host's file does not say how many ranks share the NICs; its ranks stand for GPUs */
        if (g_str_has_prefix(v->setting[i], "node.nics") && cluster->host.cores && !cluster->node.gpus)
            g_ptr_array_add(settings, g_strdup_printf("node.gpus=%u", ranks_a_node(row, cluster)));
    }
    g_ptr_array_add(settings, NULL);
    g_strfreev(row->settings);
    row->settings = (char **)g_ptr_array_free(g_steal_pointer(&settings), FALSE);
    if (v->local) row->measured_gbs *= v->local > 0 ? nodes / (nodes - 1) : (nodes - 1) / nodes;
    return true;
}
