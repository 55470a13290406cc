/* simulate_text.c - a prediction in words.  Knows the record's metrics; runs nothing.
 *
 * --explain adds up the slowest rank's time, from the part that is busiest while this rank runs:
 *
 *       even load   the mean number of bytes, at the rate that most parts of this kind have
 *     + uneven      the part's bytes beyond the mean
 *     + its rate    how much longer the part takes because it is slower than most
 *     + beside      the part's work in addition to bytes: requests, messages, rows    (busy time less the above)
 *     + one way     launch, post, fetch, network, delivery, poll of one message     (bound_latency_us)
 *     + late        until the last rank begins                                      (last_begins_us)
 *     + before      until the kernel before it ends                                 (previous_ends_us)
 *     + timeout     until ranks that do not answer are masked                       (mask_timeout_us)
 *     + the rest    the rank's own steps, and waiting: for its turn, and for other ranks' data, credits and signals
 *     = slowest     the slowest rank's time
 *
 * The part's work may hide a message's way from sender to receiver, the time until the last rank begins, and the time
 * until the kernel before ends.  Then only what is left of the slowest rank's time counts as such. */
#include "models/predict/simulate_command.h"

#include <math.h>
#include <string.h>

#include "models/predict/accuracy.h"
#include "reports/compare.h"
#include "reports/text_table.h"

static double all_of(const struct record *record, const char *phase, const char *metric)
{
    return record_value(record, phase, RECORD_ALL, metric);
}

static void number_cell(struct text_table *table, double value)
{
    const int digits = fabs(value) >= 1000 ? 0 : fabs(value) >= 100 ? 1 : 2;
    if (!isfinite(value)) text_table_cell(table, "-");
    else text_table_cell(table, "%.*f", value == 0 ? 0 : digits, value);
}

/* ---- the wire ---- */

struct wire {
    int32_t rank;
    double us;
};

static gint wire_order(gconstpointer a, gconstpointer b)
{
    const struct wire *x = a, *y = b;
    return x->us > y->us ? -1 : x->us < y->us ? 1 : x->rank - y->rank;
}

/* Appends for how long after the kernel's end data are still on their way, by rank, the longest first. This is for
 * kernels that do not wait for their data. */
static void wire_append(const struct record *record, const char *phase, GString *out)
{
    enum { WIRE_RANKS = 4 };
    g_autoptr(GArray) wires = g_array_new(FALSE, FALSE, sizeof(struct wire));
    for (uint32_t i = 0; i < record_row_count(record); i++) {
        const struct record_row *row = record_row(record, i);
        if (row->rank == RECORD_ALL || strcmp(row->phase, phase) != 0 || strcmp(row->metric, "wire_us") != 0) continue;
        g_array_append_val(wires, ((struct wire){ row->rank, row->value }));
    }
    if (!wires->len) return;
    g_array_sort(wires, wire_order);
    g_string_append_printf(
        out,
        "\nwire after %s: %.2f us until all data of the slowest rank have arrived (median %.2f us),\n"
        "which compute can hide; slowest first:",
        phase, all_of(record, phase, "wire_us_max"), all_of(record, phase, "wire_us_median"));
    for (guint i = 0; i < MIN(wires->len, (guint)WIRE_RANKS); i++) {
        const struct wire *wire = &g_array_index(wires, struct wire, i);
        g_string_append_printf(out, "%s rank %d %.2f us", i ? "," : "", wire->rank, wire->us);
    }
    if (wires->len > WIRE_RANKS) g_string_append_printf(out, ", %u more", wires->len - WIRE_RANKS);
    g_string_append_c(out, '\n');
}

/* ---- the table ---- */

/* Adds the cells of a phase's times and bandwidths.  First is the slowest rank's time, which decides; then comes the
 * median rank's.  For several steps and layers the mean takes the median's place. */
static void phase_cells(const struct case_options *c, const struct record *record, const struct cluster *cluster,
                        const char *phase, struct text_table *table)
{
    static const char *const rates[] = { "logical_rdma_gbs", "logical_nvl_gbs", "physical_nic_gbs",
                                         "physical_nvl_gbs" };
    const double median = all_of(record, phase, "time_us_median");
    struct compare_limit limit;
    compare_limit_find(record, phase, &limit);
    g_autofree char *bound = compare_limit_text(&limit), *work = compare_limit_work(&limit);
    const char *kernel = record_get(record, "kernel"), *poster = accuracy_poster(c, record, cluster);
    struct accuracy accuracy;
    accuracy_find(cluster, kernel, phase, poster, &accuracy);
    /* What was measured begins at one time on all ranks, and no rank fails. */
    const bool measured = g_strcmp0(limit.resource, COMPARE_TIMEOUT) && g_strcmp0(limit.resource, COMPARE_LATE) &&
                          accuracy_tells(c, kernel, poster);
    g_autofree char *off = measured ? accuracy_text(&accuracy) : g_strdup("-");
    text_table_cell(table, "%s", phase);
    number_cell(table, compare_slowest_us(record, phase));
    text_table_cell(table, "%s", off);
    number_cell(table, isfinite(median) ? median : all_of(record, phase, "time_us"));
    for (int i = 0; i < 4; i++) number_cell(table, all_of(record, phase, rates[i]));
    text_table_cell(table, "%s", bound);
    text_table_cell(table, "%s", work);
}

static const struct record_row *metric_numbered(const struct record *record, const char *phase, int number)
{
    g_autofree char *metric = g_strdup_printf("compute_%d_slowdown_pct", number);
    return record_find(record, phase, RECORD_ALL, metric);
}

/* Appends how much longer the load of --compute takes beside the phase, and each of its GEMMs if it has several. */
static void compute_append(const struct record *record, const char *phase, GString *out)
{
    const struct record_row *all = record_find(record, phase, RECORD_ALL, "compute_slowdown_pct");
    if (!all || all->value < 0.5 || compare_phase_of_layer(phase)) return;
    g_string_append_printf(out, "\nBeside %s the load of --compute takes %.2f times as long as alone", phase,
                           1 + all->value / 100);
    const struct record_row *each;
    for (int i = 1; (each = metric_numbered(record, phase, i)) != NULL; i++)
        g_string_append_printf(out, "%s %.2f", i == 1 ? " (its GEMMs" : ",", 1 + each->value / 100);
    g_string_append(out, metric_numbered(record, phase, 1) ? ").\n" : ".\n");
}

/* "s", unless the number is 1. */
static const char *plural(const char *number) { return g_strcmp0(number, "1") == 0 ? "" : "s"; }

/* Appends the title of the run.  Kernels that move blocks or messages of given sizes have no tokens and no experts. */
static void title_append(const struct record *record, GString *out)
{
    const char *size = record_get(record, "size"), *matrix = record_get(record, "matrix");
    const char *ranks = record_get(record, "num-ranks");
    g_string_append_printf(out, "%s: %s kernels, %s rank%s, ", record_get(record, "cluster"),
                           record_get(record, "kernel"), ranks, plural(ranks));
    const bool bytes = !matrix && size && !strchr(size, '|') && g_ascii_isdigit(size[strlen(size) - 1]); /* no unit */
    if (matrix || size) g_string_append_printf(out, "%s%s", matrix ? matrix : size, bytes ? " B" : "");
    else
        g_string_append_printf(out, "%s%s token%s of %s each, %s of %s expert%s",
                               record_get(record, "tokens-per-rank") ? "up to " : "", record_get(record, "num-tokens"),
                               plural(record_get(record, "num-tokens")), record_get(record, "hidden"),
                               record_get(record, "num-topk"), record_get(record, "num-experts"),
                               plural(record_get(record, "num-experts")));
    const char *trace = record_get(record, "trace"), *placement = record_get(record, "placement");
    g_autofree char *base = trace ? g_path_get_basename(trace) : NULL;
    if (trace) g_string_append_printf(out, ", %s", base);
    if (placement) g_string_append_printf(out, ", placement %s", placement);
    g_string_append(out, "\n\n");
}

void simulate_table_append(const struct case_options *c, const struct record *record, const struct cluster *cluster,
                           GString *out)
{
    const bool several = record_get(record, "layers") != NULL;
    const char *const titles[] = { "phase",        "slowest us",  "off by", several ? "mean us" : "median us",
                                   "logical RDMA", "logical NVL", "NIC",    "NVLink",
                                   "bound by",     "with" };
    struct text_table *table = text_table_new("lrrrrrrrll", titles);
    g_autoptr(GPtrArray) phases = compare_phases(record);
    for (guint i = 0; i < phases->len; i++) phase_cells(c, record, cluster, g_ptr_array_index(phases, i), table);
    title_append(record, out);
    compare_verdict_alone_append(record, out);
    g_string_append_c(out, '\n');
    text_table_append(table, out);
    text_table_free(table);
    for (guint i = 0; i < phases->len; i++) wire_append(record, g_ptr_array_index(phases, i), out);
    for (guint i = 0; i < phases->len; i++) compute_append(record, g_ptr_array_index(phases, i), out);
    if (several)
        g_string_append(out, "\n"
                             "Slowest: the slowest rank's time of each step and layer, as the mean over them.\n");
    else g_string_append(out, "\nSlowest and median: over ranks.\n");
    g_string_append(out, accuracy_note);
    g_string_append(
        out, "Bandwidths: means over ranks in GB/s.  Logical: as the kernels' own tests count.  NIC, NVLink:\n"
             "bytes on the link, headers included.\n"
             "Bound by: the part of any rank that is busy for three quarters of the slowest rank's time, or\n"
             "  no single part          if none is, if parts of another kind are busy for three quarters as\n"
             "                          long, if stores wait for the busiest part (NVLink) for less than a\n"
             "                          tenth of their time, or if the latency of one message, launch\n"
             "                          included, is longer\n"
             "  steps and latencies     if none is busy for a quarter, or none for half and the latency of one\n"
             "                          message is longer: steps of warps, launches and latencies in sequence\n"
             "  ranks that begin late   if the slowest rank runs for half of its time before the last one begins\n"
             "  the kernel before it    if the slowest rank's kernel waits for it for half of its time\n");
    if (record_get(record, "mask-timeout"))
        g_string_append(
            out, "Bound by the timeout of ranks that do not answer, if it is half of the slowest rank's time.\n");
    const char *notes = record_get(record, "notes");
    if (notes) g_string_append_printf(out, "Note: %s.\n", notes);
}

/* ---- the explanation ---- */

enum { WORTH_NAMING = 10 }; /* a part is named if it is busy for more than 1 / WORTH_NAMING of the time */

struct part_facts {
    const char *name;
    double us, bytes, rate_gbs; /* NAN: not known */
};

struct phase_facts {
    const char *phase;
    double median_us, slowest_us, latency_us;
    double late_us;    /* for how long the slowest rank runs before the last one begins */
    double awaits_us;  /* for how long its kernel waits for the end of the one before */
    double timeout_us; /* for how long it waits for ranks that it then masks */
    bool sends;
    int32_t slowest_rank;      /* RECORD_ALL: not known */
    struct part_facts busiest; /* name NULL: none */
    double usual_gbs;          /* the rate that most of its kind have; NAN: it is not higher than the part's own */
    double over_mean;          /* the part's load over the mean load; 1: at most the mean */
    GArray *parts;             /* struct part_facts: the busiest part of each kind, the busiest of all first */
};

static gint part_order(gconstpointer a, gconstpointer b)
{
    const struct part_facts *x = a, *y = b;
    return x->us > y->us ? -1 : x->us < y->us ? 1 : strcmp(x->name, y->name);
}

static double part_number(const struct record *record, const char *phase, const char *named, const char *what)
{
    g_autofree char *metric = g_strdup_printf("%s_%s", named, what);
    return all_of(record, phase, metric);
}

static struct part_facts part_find(const struct record *record, const char *phase, const char *named, const char *name)
{
    return (struct part_facts){ .name = name,
                                .us = part_number(record, phase, named, "us"),
                                .bytes = part_number(record, phase, named, "bytes"),
                                .rate_gbs = part_number(record, phase, named, "rate_gbs") };
}

/* Finds the busiest parts of the phase.  In the record "busiest_nic_tx" is a part's name, and "busiest_nic_tx_us" and
 * so on are its numbers. */
static void parts_find(const struct record *record, struct phase_facts *f)
{
    const struct record_row *busiest = record_find(record, f->phase, RECORD_ALL, "bottleneck_part");
    f->parts = g_array_new(FALSE, FALSE, sizeof(struct part_facts));
    if (busiest) f->busiest = part_find(record, f->phase, "bottleneck", record_row_text(busiest));
    f->usual_gbs = all_of(record, f->phase, "bottleneck_usual_gbs");
    f->over_mean = all_of(record, f->phase, "bottleneck_over_mean");
    if (!(f->over_mean > 1.005)) f->over_mean = 1;
    for (uint32_t i = 0; i < record_row_count(record); i++) {
        const struct record_row *row = record_row(record, i);
        if (row->rank != RECORD_ALL || strcmp(row->phase, f->phase) != 0) continue;
        if (!g_str_has_prefix(row->metric, "busiest_") || !isnan(row->value)) continue;
        const struct part_facts part = part_find(record, f->phase, row->metric, record_row_text(row));
        g_array_append_val(f->parts, part);
    }
    g_array_sort(f->parts, part_order);
}

static void facts_find(const struct record *record, const char *phase, struct phase_facts *f)
{
    *f = (struct phase_facts){ .phase = phase, .slowest_rank = RECORD_ALL };
    f->median_us = all_of(record, phase, "time_us_median");
    f->slowest_us = all_of(record, phase, "time_us_max");
    f->latency_us = all_of(record, phase, "bound_latency_us");
    f->late_us = all_of(record, phase, "last_begins_us");
    f->awaits_us = all_of(record, phase, "previous_ends_us");
    f->timeout_us = all_of(record, phase, "mask_timeout_us");
    f->sends = all_of(record, phase, "physical_nic_gbs") > 0 || all_of(record, phase, "physical_nvl_gbs") > 0;
    double slowest = -1;
    for (uint32_t i = 0; i < record_row_count(record); i++) {
        const struct record_row *row = record_row(record, i);
        if (row->rank == RECORD_ALL || strcmp(row->phase, phase) != 0 || strcmp(row->metric, "time_us") != 0) continue;
        if (row->value > slowest) slowest = row->value, f->slowest_rank = row->rank;
    }
    parts_find(record, f);
}

static void us_line(GString *out, const char *what, double us, double of_us)
{
    if (us >= 0.005) g_string_append_printf(out, "    %-62s %9.2f us %4.0f %%\n", what, us, 100 * us / of_us);
}

static char *part_text(const struct part_facts *part)
{
    const struct compare_limit limit = {
        .resource = part->name, .part = part->name, .bytes = part->bytes, .rate_gbs = part->rate_gbs
    };
    g_autofree char *work = compare_limit_work(&limit);
    return *work ? g_strdup_printf("%s: %s", part->name, work) : g_strdup(part->name);
}

/* Splits the busiest part's time: first the time of an even load at the rate that most parts of its kind have, then the
 * excess over this. */
static void part_append(const struct phase_facts *f, GString *out)
{
    const struct part_facts *part = &f->busiest;
    const bool rated = part->bytes > 0 && part->rate_gbs > 0;
    const double full = rated ? fmin(part->bytes / part->rate_gbs / 1e3, part->us) : part->us;
    const double usual = rated && f->usual_gbs > part->rate_gbs ? full * part->rate_gbs / f->usual_gbs : full;
    const double even = usual / f->over_mean;
    g_autofree char *first = g_strdup_printf("its %s%s", rated ? "bytes at full rate" : "work",
                                             f->over_mean > 1 ? ", if the load were even" : "");
    g_autofree char *uneven = g_strdup_printf("uneven load: it has %.2f times the mean", f->over_mean);
    g_autofree char *slow =
        g_strdup_printf("its rate: %.4g GB/s where most have %.4g GB/s", part->rate_gbs, f->usual_gbs);
    us_line(out, first, even, f->slowest_us);
    us_line(out, uneven, usual - even, f->slowest_us);
    us_line(out, slow, full - usual, f->slowest_us);
    us_line(out, "its other work: requests, messages, rows", part->us - full, f->slowest_us);
}

static const char *latency_text(const struct phase_facts *f)
{
    return f->sends ? "latency of one message" : "its launch";
}

static void sum_append(const struct phase_facts *f, GString *out)
{
    g_string_append(out, "  breakdown of the slowest rank's time");
    double left = f->slowest_us;
    const bool busy = f->busiest.name && f->busiest.us * WORTH_NAMING > f->slowest_us;
    if (busy) g_string_append_printf(out, ", starting with %s", f->busiest.name);
    g_string_append(out, ":\n");
    if (busy) {
        part_append(f, out);
        left -= f->busiest.us;
    }
    const double way = MIN(MAX(left, 0), f->latency_us);
    g_autofree char *shown = g_strconcat(latency_text(f), way < f->latency_us ? ", not hidden" : "", NULL);
    us_line(out, shown, way, f->slowest_us);
    const double late = f->late_us > 0 ? MIN(left - way, f->late_us) : 0;
    us_line(out, "until the last rank begins, beyond the above", late, f->slowest_us);
    const double awaits = f->awaits_us > 0 ? MIN(left - way - late, f->awaits_us) : 0;
    us_line(out, "until the kernel before it ends, beyond the above", awaits, f->slowest_us);
    const double timeout = f->timeout_us > 0 ? MIN(left - way - late - awaits, f->timeout_us) : 0;
    us_line(out, "until ranks that do not answer are masked, beyond the above", timeout, f->slowest_us);
    us_line(out, "the rest: its own steps, waiting for turns and other ranks", left - way - late - awaits - timeout,
            f->slowest_us);
    g_string_append_printf(out, "    %-62s %9.2f us\n", "the slowest rank", f->slowest_us);
}

static void parts_append(const struct phase_facts *f, GString *out)
{
    g_string_append(out, "  busy time of the busiest part of each kind:\n");
    for (guint i = 0; i < f->parts->len; i++) {
        const struct part_facts *part = &g_array_index(f->parts, struct part_facts, i);
        g_autofree char *text = part_text(part);
        us_line(out, text, part->us, f->slowest_us);
    }
    us_line(out, f->sends ? "latency of one message, launch included" : latency_text(f), f->latency_us, f->slowest_us);
}

void simulate_explain_append(const struct record *record, GString *out)
{
    g_autoptr(GPtrArray) phases = compare_phases(record);
    const char *slowed = record_get(record, "slowed-ranks");
    for (guint i = 0; i < phases->len; i++) {
        struct phase_facts f;
        facts_find(record, g_ptr_array_index(phases, i), &f);
        if (f.slowest_us > 0 && isfinite(f.latency_us)) { /* false for a span, and for several layers together */
            g_string_append_printf(out, "\n%s: %.2f us in the median, %.2f us for the slowest rank\n", f.phase,
                                   f.median_us, f.slowest_us);
            parts_append(&f, out);
            sum_append(&f, out);
            if (f.slowest_rank != RECORD_ALL && f.slowest_us > 1.0005 * f.median_us && f.median_us > 0)
                g_string_append_printf(out, "  rank %d takes longest, %.1f %% more than the median\n", f.slowest_rank,
                                       100 * (f.slowest_us / f.median_us - 1));
            if (slowed)
                g_string_append_printf(out, "  slow ranks (%s) take that many times as long for their own work%s\n",
                                       slowed, f.sends ? ": others wait for what they send" : "");
        }
        g_array_free(f.parts, TRUE);
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
        if (row->word && strcmp(row->word, "nan") != 0)
            record_add_text(all, row->phase, row->rank, row->metric, row->word);
        else record_add(all, row->phase, row->rank, row->metric, row->value, row->unit);
    }
    return all;
}
