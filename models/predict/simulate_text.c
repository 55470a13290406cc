/* simulate_text.c - a prediction in words.  Knows the record's metrics and a cluster's full rates; runs nothing.
 *
 * The sum of --explain, for a phase whose bottleneck is a port:
 *
 *     full rate   mean bytes of a rank over the port's rate
 *   + beside      what the port does beside bytes: requests, messages, rows       (mean busy time less the above)
 *   + uneven      the busiest rank's busy time over the mean                      (bound_..._us less the mean)
 *   + one way     launch, post, fetch, network, delivery, poll of one message     (bound_latency_us)
 *   + waiting     the rest: for credits, turns, doorbells and other ranks
 *   = slowest     the slowest rank's time
 *
 * Of a link that all ranks use the first three are one: what it needs for all bytes through it.
 * The way of one message may hide behind the port's work: then only what is left of the time counts as such. */
#include "models/predict/simulate_text.h"

#include <math.h>
#include <string.h>

#include "models/hardware/graph.h"
#include "models/predict/fault.h"
#include "reports/compare.h"
#include "reports/text_table.h"

static double value_of(const struct record *record, const char *phase, int32_t rank, const char *metric)
{
    const struct record_row *row = record_find(record, phase, rank, metric);
    return row ? row->value : NAN;
}

static double all_of(const struct record *record, const char *phase, const char *metric)
{
    return value_of(record, phase, RECORD_ALL, metric);
}

static const char *word_of(const struct record *record, const char *phase, const char *metric)
{
    const struct record_row *row = record_find(record, phase, RECORD_ALL, metric);
    return row ? row->text : NULL;
}

static void number_cell(struct text_table *table, double value)
{
    const int digits = fabs(value) >= 1000 ? 0 : fabs(value) >= 100 ? 1 : 2;
    if (!isfinite(value)) text_table_cell(table, "-");
    else text_table_cell(table, "%.*f", value == 0 ? 0 : digits, value);
}

/* ---- the table ---- */

static void phase_cells(const struct record *record, const char *phase, struct text_table *table)
{
    static const char *const rates[] = { "logical_rdma_gbs", "logical_nvl_gbs", "physical_nic_gbs",
                                         "physical_nvl_gbs" };
    const double median = all_of(record, phase, "time_us_median");
    struct compare_limit limit;
    compare_limit_find(record, phase, &limit);
    text_table_cell(table, "%s", phase);
    number_cell(table, isfinite(median) ? median : all_of(record, phase, "time_us"));
    number_cell(table, all_of(record, phase, "time_us_max"));
    for (int i = 0; i < 4; i++) number_cell(table, all_of(record, phase, rates[i]));
    if (!limit.resource) text_table_cell(table, "-");
    else if (isfinite(limit.busy_pct) && strcmp(limit.resource, "latency") != 0)
        text_table_cell(table, "%s, %.0f %% busy", limit.part, limit.busy_pct);
    else text_table_cell(table, "%s", limit.part);
    if (isfinite(limit.efficiency_pct)) text_table_cell(table, "%.0f %% of %s", limit.efficiency_pct, limit.bound);
    else text_table_cell(table, "-");
}

/* What ran.  Kernels that move blocks or messages of a given size know no tokens and no experts. */
static void title_append(const struct record *record, GString *out)
{
    const char *size = record_get(record, "size"), *matrix = record_get(record, "matrix");
    g_string_append_printf(out, "%s: %s kernels, %s ranks, ", record_get(record, "cluster"),
                           record_get(record, "kernel"), record_get(record, "num-ranks"));
    if (matrix || size) g_string_append_printf(out, "%s", matrix ? matrix : size);
    else
        g_string_append_printf(out, "%s tokens of %s each, %s of %s experts", record_get(record, "num-tokens"),
                               record_get(record, "hidden"), record_get(record, "num-topk"),
                               record_get(record, "num-experts"));
    g_string_append(out, "\n\n");
}

void simulate_table_append(const struct record *record, GString *out)
{
    static const char *const titles[] = { "phase", "median us", "slowest us", "logical RDMA", "logical NVL",
                                          "NIC",   "NVLink",    "bound by",   "efficiency" };
    struct text_table *table = text_table_new("lrrrrrrll", titles);
    g_autoptr(GPtrArray) phases = compare_phases(record);
    for (guint i = 0; i < phases->len; i++) phase_cells(record, g_ptr_array_index(phases, i), table);
    title_append(record, out);
    text_table_append(table, out);
    text_table_free(table);
    g_string_append(out, "\nBandwidths in GB/s, means over ranks.  Logical: as DeepEP counts, local tokens too.\n"
                         "NIC and NVLink: what crossed them, headers included.  Efficiency: the tightest bound over\n"
                         "the slowest rank's time.\n");
    const char *notes = record_get(record, "notes");
    if (notes) g_string_append_printf(out, "Note: %s.\n", notes);
}

/* ---- the explanation ---- */

struct phase_facts {
    const char *phase, *resource, *part, *bound;
    double mean_us, median_us, slowest_us;
    double nic_bytes, nvl_bytes;         /* that leave by a rank's ports, and that it sends by NVLink; means */
    uint64_t nic_bps;                    /* of a rank's ports together; 0: none */
    uint32_t sharers;                    /* ranks that send through them */
    double nic_full_us, nvl_full_us;     /* these at full rate; 0 without a rate */
    double bound_us, latency_us;         /* of the bottleneck's busiest rank; of one message */
    int32_t slowest_rank, heaviest_rank; /* RECORD_ALL: not known */
    double heaviest_share;               /* bytes of the latter over the mean */
    const char *heaviest_link;
};

/* The bound that belongs to a resource: what its busiest rank needs. */
static const char *bound_of(const char *resource)
{
    static const struct {
        const char *resource, *bound;
    } known[] = {
        { "nic_tx", "bound_send_us" },
        { "nvlink_egress", "bound_send_us" },
        { "nic_rx", "bound_receive_us" },
        { "nvlink_ingress", "bound_receive_us" },
        { "sm", "bound_sm_us" },
        { "core", "bound_core_us" },
        { "receiving", "bound_receive_us" },
        { "hbm", "bound_hbm_us" },
        { "link", "bound_link_us" },
    };
    for (size_t i = 0; resource && i < G_N_ELEMENTS(known); i++)
        if (strcmp(resource, known[i].resource) == 0) return known[i].bound;
    return NULL;
}

static void ranks_find(const struct record *record, struct phase_facts *f)
{
    f->slowest_rank = f->heaviest_rank = RECORD_ALL;
    const bool nic = f->nic_full_us >= f->nvl_full_us;
    const double mean = nic ? f->nic_bytes : f->nvl_bytes;
    double slowest = -1, most = -1;
    for (uint32_t i = 0; i < record_row_count(record); i++) {
        const struct record_row *row = record_row(record, i);
        if (row->rank == RECORD_ALL || strcmp(row->phase, f->phase) != 0) continue;
        if (strcmp(row->metric, "time_us") != 0) continue;
        const char *metric = nic ? "physical_nic_gbs" : "physical_nvl_gbs";
        const double bytes = value_of(record, f->phase, row->rank, metric) * row->value * 1e3;
        if (row->value > slowest) slowest = row->value, f->slowest_rank = row->rank;
        if (bytes > most) most = bytes, f->heaviest_rank = row->rank;
    }
    f->heaviest_share = mean > 0 ? most / mean : NAN;
    f->heaviest_link = nic ? "the NIC" : "NVLink";
}

static double full_us(double bytes, uint64_t rate_bps) { return rate_bps ? bytes * 8e6 / (double)rate_bps : 0; }

/* The ports that a rank sends through: what they carry together, and how many ranks send through them. */
static void ports_find(const struct record *record, const struct cluster *cluster, struct phase_facts *f)
{
    const char *per_node = record_get(record, "ranks-per-node");
    const uint32_t gpus = graph_node_gpus(cluster, per_node ? (uint32_t)strtoul(per_node, NULL, 10) : 0);
    const uint32_t nics = fault_shares_nic(record_get(record, "fault")) ? 1 : graph_node_nics(cluster, gpus);
    const struct cluster_nics_of *of = &cluster->node.nic_of;
    f->sharers = nics ? MAX(gpus / nics, 1) : 1;
    if (of->count && nics > 1) f->sharers = 0;
    for (uint32_t i = 0; i < of->count && nics > 1; i++) f->sharers += of->nic[i] == of->nic[0];
    f->nic_bps = cluster->nic.rate_bps * MAX(cluster->nic.ports, 1) * MAX(nics / gpus, 1);
}

/* V2's kernels send by bulk copies, which links carry faster. */
static uint64_t nvlink_rate_bps(const struct record *record, const struct cluster *cluster)
{
    const bool bulk = cluster->nvlink.bulk_rate_bps && g_strcmp0(record_get(record, "kernel"), "v2") == 0;
    return bulk ? cluster->nvlink.bulk_rate_bps : cluster->nvlink.egress_rate_bps;
}

static void facts_find(const struct record *record, const struct cluster *cluster, const char *phase,
                       struct phase_facts *f)
{
    struct compare_limit limit;
    compare_limit_find(record, phase, &limit);
    *f = (struct phase_facts){ .phase = phase, .resource = limit.resource, .part = limit.part };
    f->mean_us = all_of(record, phase, "time_us");
    f->median_us = all_of(record, phase, "time_us_median");
    f->slowest_us = all_of(record, phase, "time_us_max");
    f->nic_bytes = all_of(record, phase, "physical_nic_gbs") * f->mean_us * 1e3;
    f->nvl_bytes = all_of(record, phase, "physical_nvl_gbs") * f->mean_us * 1e3;
    ports_find(record, cluster, f);
    f->nic_full_us = full_us(f->nic_bytes, f->nic_bps);
    f->nvl_full_us = full_us(f->nvl_bytes, nvlink_rate_bps(record, cluster));
    f->latency_us = all_of(record, phase, "bound_latency_us");
    f->bound = bound_of(f->resource);
    if (!f->bound) { /* nothing is busy for long: what is tightest stands for it */
        f->resource = word_of(record, phase, "bound_tightest");
        f->bound_us = limit.bound_us;
    } else {
        f->bound_us = all_of(record, phase, f->bound);
    }
    ranks_find(record, f);
}

static void us_line(GString *out, const char *what, double us, double of_us)
{
    if (us >= 0.005) g_string_append_printf(out, "    %-62s %9.2f us %4.0f %%\n", what, us, 100 * us / of_us);
}

/* The bottleneck at full rate and even load, and what more it does: to the busiest rank's busy time. */
static void port_append(const struct record *record, const struct phase_facts *f, GString *out)
{
    if (strcmp(f->resource, "link") == 0) {
        g_autofree char *link = g_strdup_printf("bytes of all ranks through %s at its full rate", f->part);
        us_line(out, link, f->bound_us, f->slowest_us);
        return;
    }
    const bool nic = g_str_has_prefix(f->resource, "nic_"), nvl = g_str_has_prefix(f->resource, "nvlink_");
    g_autofree char *metric = g_strdup_printf("busy_%s_pct", f->resource);
    const double busy_pct = all_of(record, f->phase, metric);
    const double busy_us = isfinite(busy_pct) ? MIN(busy_pct / 100 * f->mean_us, f->bound_us) : f->bound_us;
    const double full = MIN(nic ? f->nic_full_us : nvl ? f->nvl_full_us : busy_us, busy_us);
    g_autofree char *first = g_strdup_printf(
        nic || nvl ? "bytes of a rank through %s at full rate, even load" : "work of %s, even load", f->resource);
    us_line(out, first, full, f->slowest_us);
    us_line(out, "what it does beside bytes: headers, requests, rows", busy_us - full, f->slowest_us);
    us_line(out, "uneven load: its busiest rank over the mean", f->bound_us - busy_us, f->slowest_us);
}

static void sum_append(const struct record *record, const struct phase_facts *f, GString *out)
{
    g_string_append(out, "  where the slowest rank's time goes:\n");
    const bool latency = f->resource && strcmp(f->resource, "latency") == 0;
    double left = f->slowest_us;
    if (!latency && f->resource && f->bound_us > 0) {
        if (f->bound) port_append(record, f, out);
        else us_line(out, "the tightest bound alone, though nothing is busy for long", f->bound_us, f->slowest_us);
        left -= f->bound_us;
    }
    const double way = MIN(MAX(left, 0), f->latency_us);
    us_line(out, way < f->latency_us ? "one message's way, as far as it is not hidden" : "one message's way", way,
            f->slowest_us);
    us_line(out, "waiting: for credits, turns, doorbells and other ranks", left - way, f->slowest_us);
    g_string_append_printf(out, "    %-62s %9.2f us\n", "the slowest rank", f->slowest_us);
}

static void full_rates_append(const struct record *record, const struct cluster *cluster, const struct phase_facts *f,
                              GString *out)
{
    g_string_append(out, "  what each part alone would take:\n");
    if (f->nic_bytes > 0 && f->nic_bps) {
        g_autofree char *whose = f->sharers > 1 ? g_strdup_printf("of %u ranks", f->sharers) : g_strdup("a rank");
        g_autofree char *what =
            g_strdup_printf("%.2f MB %s by NIC at %.4g GB/s", f->nic_bytes / 1e6, whose, (double)f->nic_bps / 8e9);
        us_line(out, what, f->nic_full_us, f->slowest_us);
    }
    const uint64_t nvl_rate_bps = nvlink_rate_bps(record, cluster);
    if (f->nvl_bytes > 0 && nvl_rate_bps) {
        const char *over = cluster->nvlink.over == CLUSTER_PEERS_BY_PCIE ? "PCIe" : "NVLink";
        g_autofree char *what =
            g_strdup_printf("%.2f MB a rank by %s at %.4g GB/s", f->nvl_bytes / 1e6, over, (double)nvl_rate_bps / 8e9);
        us_line(out, what, f->nvl_full_us, f->slowest_us);
    }
    const char *link = word_of(record, f->phase, "busiest_link");
    if (link) {
        g_autofree char *what = g_strdup_printf("bytes of all ranks through the busiest link, %s", link);
        us_line(out, what, all_of(record, f->phase, "bound_link_us"), f->slowest_us);
    }
    us_line(out, cluster->host.cores ? "work of the busiest core" : "work of the busiest SM",
            all_of(record, f->phase, cluster->host.cores ? "bound_core_us" : "bound_sm_us"), f->slowest_us);
    us_line(out, "the GPU's memory, of the rank that moves most", all_of(record, f->phase, "bound_hbm_us"),
            f->slowest_us);
    us_line(out, "one message's way, launch included", f->latency_us, f->slowest_us);
}

static void waits_append(const struct phase_facts *f, GString *out)
{
    if (f->slowest_rank != RECORD_ALL && f->median_us > 0)
        g_string_append_printf(out,
                               "  rank %d ends last, %.1f %% after the median: whoever needs its rows waits for "
                               "it\n",
                               f->slowest_rank, 100 * (f->slowest_us / f->median_us - 1));
    if (f->heaviest_rank != RECORD_ALL && f->heaviest_share > 1.005)
        g_string_append_printf(out, "  rank %d sends most over %s, %.2f times the mean\n", f->heaviest_rank,
                               f->heaviest_link, f->heaviest_share);
}

void simulate_explain_append(const struct record *record, const struct cluster *cluster, GString *out)
{
    g_autoptr(GPtrArray) phases = compare_phases(record);
    for (guint i = 0; i < phases->len; i++) {
        struct phase_facts f;
        facts_find(record, cluster, g_ptr_array_index(phases, i), &f);
        if (!(f.slowest_us > 0) || !isfinite(f.latency_us)) continue; /* a span, or many layers together */
        g_string_append_printf(out, "\n%s: %.2f us in the median, %.2f us for the slowest rank\n", f.phase, f.median_us,
                               f.slowest_us);
        full_rates_append(record, cluster, &f, out);
        sum_append(record, &f, out);
        waits_append(&f, out);
    }
}

struct record *simulate_record_of_all(const struct record *record)
{
    struct record *all = record_new();
    for (uint32_t i = 0; i < record_key_count(record); i++) {
        const char *key = record_key(record, i);
        record_set(all, key, "%s", record_get(record, key));
    }
    for (uint32_t i = 0; i < record_row_count(record); i++) {
        const struct record_row *row = record_row(record, i);
        if (row->rank != RECORD_ALL) continue;
        if (isnan(row->value) && strcmp(row->text, "nan") != 0)
            record_add_text(all, row->phase, row->rank, row->metric, row->text);
        else record_add(all, row->phase, row->rank, row->metric, row->value, row->unit);
    }
    return all;
}
