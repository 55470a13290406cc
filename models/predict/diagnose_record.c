/* diagnose_record.c - measurements to diagnose: a table, or the record of a replay.
 *
 * A record becomes a table with a row for each phase's slowest, median and fastest rank.  It has only the slowest if
 * ranks took turns on the CPUs.  If it says which ranks waited for which, each share of wait_matrix.h becomes a row,
 * too.  Knows no causes. */
#include "models/predict/diagnose.h"

#include <string.h>
#include "models/case.h"
#include "models/hardware/machine/graph.h"
#include "models/step/step_gpu.h"
#include "reports/compare.h"
#include "reports/record.h"
#include "reports/wait_matrix.h"
#include "sim/text.h"

/* Appends the names, or else the values, of the case's options to which the record gives a value, except cluster and
 * backend. */
static void options_append(const struct record *record, bool names, GString *out)
{
    for (uint32_t i = 0; case_option_name(i); i++) {
        const char *name = case_option_name(i), *value = record_get(record, name);
        if (!value || !*value || !strcmp(name, "cluster") || !strcmp(name, "backend")) continue;
        if (!strcmp(value, "0")) continue; /* 0 is the default, whose meaning depends on the case */
        if (names) g_string_append(out, name);
        else record_csv_field_append(out, value);
        g_string_append_c(out, ',');
    }
}

/* Whether the ranks shared one host's CPUs in turns, and had no network to wait for.  Then chance decides which rank
 * finishes first, and only the last rank's time is meaningful. */
static bool ranks_took_turns(const struct record *record)
{
    const char *cpus = record_get(record, "cpus"), *ranks = record_get(record, "num-ranks");
    if (g_strcmp0(record_get(record, "bootstrap"), "fork") != 0 || !cpus || !ranks) return false;
    if (g_strcmp0(record_get(record, "network-carrier"), "none") != 0) return false;
    return g_ascii_strtoull(cpus, NULL, 10) < g_ascii_strtoull(ranks, NULL, 10);
}

static void shares_append(const struct record *record, const char *phase, GString *out)
{
    double percent[WAIT_SHARES];
    if (!wait_shares_find(record, phase, percent)) return;
    for (uint32_t i = 0; i < WAIT_SHARES; i++) {
        options_append(record, false, out);
        g_string_append_printf(out, "%s,%s,,%.4f\n", phase, wait_share_name(i), percent[i]);
    }
}

static void rows_append(const struct record *record, GString *out)
{
    static const char *const metrics[] = { "time_us_max", "time_us_median", "time_us_min" };
    const size_t count = ranks_took_turns(record) ? 1 : G_N_ELEMENTS(metrics);
    for (uint32_t i = 0; i < record_row_count(record); i++) {
        const struct record_row *row = record_row(record, i);
        if (row->rank != RECORD_ALL || compare_phase_of_layer(row->phase) || !(row->value > 0)) continue;
        for (size_t m = 0; m < count; m++) {
            if (strcmp(row->metric, metrics[m]) != 0) continue;
            options_append(record, false, out);
            g_string_append_printf(out, "%s,%s,%s,\n", row->phase, row->metric, record_row_text(row));
        }
        if (strcmp(row->metric, "time_us") == 0) shares_append(record, row->phase, out);
    }
}

/* A warning if the machine was busy with other work during the measurement, or NULL. */
static char *busy_warning(const struct record *record, const char *path)
{
    const char *others = record_get(record, "cpu-others-pct");
    if (g_strcmp0(record_get(record, "busy"), "yes") != 0) return NULL;
    return g_strdup_printf("eptwin diagnose: %s: the machine was busy while this was measured (others used %s %% of "
                           "its CPUs): that may be the cause\n",
                           path, others ? others : "some");
}

/* The record as the text of a table.  NULL: the file is no record of a measured case, and is read as a table. */
static char *table_text(const char *path, char **warning)
{
    g_autoptr(record) record = record_read(path, NULL);
    if (!record) return NULL;
    GString *text = NULL;
    if (record_get(record, RECORD_CASE_KEYS) && !compare_record_predicted(record)) {
        text = g_string_new(NULL);
        options_append(record, true, text);
        g_string_append(text, "phase,metric,measured_us,measured_pct\n");
        rows_append(record, text);
        *warning = busy_warning(record, path);
    }
    return text ? g_string_free(text, FALSE) : NULL;
}

/* If the row is of p2p, gives its NIC one port with the rate of all the NIC's ports.  p2p's stream of puts has one QP,
 * which uses only one port, but the measured program uses all. */
static void ports_join(struct validate_row *row)
{
    g_autoptr(cluster) cluster =
        g_strcmp0(row->options.kernel, "p2p") ? NULL : cluster_load(row->options.cluster, NULL);
    if (cluster && cluster->nic.ports > 1) {
        g_autoptr(GPtrArray) settings = g_ptr_array_new();
        for (char **s = row->settings; s && *s; s++) g_ptr_array_add(settings, *s);
        g_ptr_array_add(settings, g_strdup(DIAGNOSE_PORTS_JOINED));
        g_ptr_array_add(settings, g_strdup_printf("nic.rate=%.6g GB/s",
                                                  (double)graph_made_with(cluster).nic_bps / 8e9 * cluster->nic.ports));
        g_ptr_array_add(settings, NULL);
        g_free(row->settings); /* the new list owns its strings now */
        row->settings = (char **)g_ptr_array_free(g_steal_pointer(&settings), FALSE);
    }
}

/* ---- what rows say ---- */

static const char *label_find(const struct validate_table *table, const struct validate_row *row, const char *name)
{
    const int column = validate_column_find(table, name);
    const bool complete = row->cell && g_strv_length(row->cell) == table->column_count;
    return column >= 0 && complete && *row->cell[column] ? row->cell[column] : NULL;
}

static bool word_in(const char *text, const char *const *words)
{
    g_autofree char *lower = text ? g_ascii_strdown(text, -1) : NULL;
    bool found = false;
    for (; lower && *words && !found; words++) found = strstr(lower, *words) != NULL;
    return found;
}

static unsigned library_known(const struct validate_table *table, const struct validate_row *row)
{
    static const char *const nccl[] = { "nccl", "deepep-v2", NULL }, *const nvshmem[] = { "nvshmem", "deepep", NULL },
                             *const posted[] = { "perftest", "ib_write", "ib_read", "ib_send", "verbs",
                                                 "ucx",      "mpi",      "osu",     NULL };
    static const char *const columns[] = { "library", "tool" };
    for (size_t i = 0; i < G_N_ELEMENTS(columns); i++) {
        const char *library = label_find(table, row, columns[i]);
        if (!library) continue;
        return word_in(library, nccl)      ? KNOWN_NCCL
               : word_in(library, nvshmem) ? KNOWN_NVSHMEM
               : word_in(library, posted)  ? KNOWN_CPU_POSTS
                                           : 0;
    }
    return 0;
}

/* Sets row->known.  Labels say which bytes the bandwidth counts, in which memory the bytes are, and which library in
 * which version sent them.  Options say the backend and when ranks launch. */
static void row_known(const struct validate_table *table, struct validate_row *row)
{
    static const char *const gpu[] = { "gpu", "cuda", "rocm", "device", "vram", "hbm", NULL }, *const host[] = {
        "host", "cpu", "system", "dram", NULL
    };
    const char *memory = label_find(table, row, "memory"), *version = label_find(table, row, "version");
    if (label_find(table, row, "counted")) row->known |= KNOWN_COUNTED;
    if (word_in(memory, host) && !word_in(memory, gpu)) row->known |= KNOWN_HOST_MEMORY;
    row->known |= library_known(table, row);
    if (row->options.backend) row->known |= KNOWN_BACKEND;
    if (row->options.launch) row->known |= KNOWN_LAUNCHED;
    if (version && !row->options.deepep && row->known & KNOWN_NVSHMEM && case_deepep_version(version))
        case_set(&row->options, "deepep", version, NULL);
}

/* A warning of the first row whose column `device` names another GPU than its cluster has, or NULL. */
static char *gpu_warning(const struct validate_table *table)
{
    const char *told = NULL, *at = NULL; /* what the row before said */
    for (uint32_t i = 0; i < table->row_count; i++) {
        const struct validate_row *row = &table->row[i];
        const char *device = label_find(table, row, "device"), *path = row->options.cluster;
        if (!device || !path || (g_strcmp0(device, told) == 0 && g_strcmp0(path, at) == 0)) continue;
        told = device;
        at = path;
        g_autoptr(cluster) cluster = cluster_load(path, NULL);
        if (!cluster || !step_gpu_differs(device, cluster->name)) continue;
        g_autofree char *shown = text_printable(device, strlen(device));
        return g_strdup_printf("%s:%u: warning: device: expected the cluster's GPU (%s), found '%s'\n", table->path,
                               row->line, cluster->name, shown);
    }
    return NULL;
}

struct validate_table *diagnose_table_read(const char *path, const struct case_options *base, GError **error)
{
    g_autofree char *warning = NULL;
    g_autofree char *text = strcmp(path, "-") != 0 ? table_text(path, &warning) : NULL;
    struct validate_table *table =
        text ? validate_table_parse(path, text, strlen(text), base, error) : validate_table_read(path, base, error);
    for (uint32_t i = 0; table && i < table->row_count; i++) {
        row_known(table, &table->row[i]);
        if (!text) ports_join(&table->row[i]);
    }
    if (!text && table) validate_jobs_number(table);
    if (table && !table->warning) table->warning = warning ? g_steal_pointer(&warning) : gpu_warning(table);
    return table;
}
