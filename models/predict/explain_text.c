/* explain_text.c - an explanation in words and as rows of a record.  The sentences explain shares of the table. */
#include <string.h>
#include "models/predict/explain.h"
#include "reports/text_table.h"
#include "sim/stats.h"

enum { LAYERS_SHOWN = 40, LAYER_ROWS_MAX = 4096 };

/* the least share that is worth a sentence */
#define SAID_LEAST   0.05
/* the least excess of the predicted wire that is worth one: predictions are off by less in the middle */
#define BEYOND_LEAST 0.1

#define ANOTHER_CASE "another case (tokens, hidden, top-k, dtype, routing)"

static uint32_t layers_count(const struct explain *e)
{
    uint32_t layers = 0;
    for (guint r = 0; r < e->ranks->len; r++) {
        const GArray *calls = g_array_index(e->ranks, struct explain_rank, r).calls;
        for (guint i = 0; i < calls->len; i++)
            layers = MAX(layers, g_array_index(calls, struct profile_call, i).layer + 1);
    }
    return layers;
}

static uint32_t calls_count(const struct explain *e, const char *phase)
{
    uint32_t count = 0;
    for (guint i = 0; i < e->calls->len; i++) {
        const struct explain_call *c = &g_array_index(e->calls, struct explain_call, i);
        const GArray *calls = g_array_index(e->ranks, struct explain_rank, c->rank).calls;
        count += !phase || strcmp(g_array_index(calls, struct profile_call, c->call).phase, phase) == 0;
    }
    return count;
}

static const char *const title[] = { "",           "calls",     "time",   "wire",   "waiting",
                                     "contention", "imbalance", "launch", "unknown" };

static void row_append(struct text_table *table, const char *name, uint32_t calls, double all,
                       const double us[EXPLAIN_PARTS])
{
    text_table_cell(table, "%s", name);
    text_table_cell(table, "%u", calls);
    text_table_cell(table, "%.2f ms", all / 1e3);
    for (int p = 0; p < EXPLAIN_PARTS; p++) text_table_cell(table, "%.0f %%", all > 0 ? us[p] / all * 100 : 0);
}

static void tables_append(const struct explain *e, GString *out)
{
    double us[EXPLAIN_PARTS];
    g_autoptr(GPtrArray) phases = explain_phases(e);
    struct text_table *table = text_table_new("lrrrrrrrr", title);
    for (guint p = 0; p < phases->len; p++) {
        const char *phase = g_ptr_array_index(phases, p);
        const double all = explain_sum(e, phase, -1, -1, us);
        row_append(table, phase, calls_count(e, phase), all, us);
    }
    const uint32_t layers = layers_count(e);
    for (uint32_t l = 0; l < MIN(layers, LAYERS_SHOWN) && layers > 1; l++) {
        g_autofree char *name = g_strdup_printf("layer %u", l);
        const double all = explain_sum(e, NULL, l, -1, us);
        uint32_t count = 0;
        for (guint i = 0; i < e->calls->len; i++) {
            const struct explain_call *c = &g_array_index(e->calls, struct explain_call, i);
            const GArray *calls = g_array_index(e->ranks, struct explain_rank, c->rank).calls;
            count += g_array_index(calls, struct profile_call, c->call).layer == l;
        }
        row_append(table, name, count, all, us);
    }
    for (guint r = 0; r < e->ranks->len && e->ranks->len > 1; r++) {
        const struct explain_rank *rank = &g_array_index(e->ranks, struct explain_rank, r);
        g_autofree char *name = g_strdup_printf("rank %d", rank->rank);
        const double all = explain_sum(e, NULL, -1, rank->rank, us);
        row_append(table, name, rank->calls->len, all, us);
    }
    const double all = explain_sum(e, NULL, -1, -1, us);
    row_append(table, "all", e->calls->len, all, us);
    text_table_append(table, out);
    text_table_free(table);
    if (layers > LAYERS_SHOWN)
        g_string_append_printf(out, "(of %u layers, the first %d; --output has up to %d rows of layers)\n", layers,
                               LAYERS_SHOWN, LAYER_ROWS_MAX);
}

/* ---- sentences ---- */

static void waiting_say(const struct explain *e, double all, double waiting, GString *out)
{
    double why[LATES];
    g_autofree double *us = explain_waited_for(e, why);
    uint32_t worst = 0;
    double seen = 0;
    for (uint32_t r = 0; r < e->numbers; r++) {
        seen += us[r];
        if (us[r] > us[worst]) worst = r;
    }
    g_string_append_printf(out, "Waiting, %.0f %%: ", waiting / all * 100);
    if (seen < waiting / 2) {
        g_string_append_printf(out,
                               "kernels waited for ranks that are not recorded here (%u of %u are).  Profiles of all "
                               "ranks would show which.\n",
                               e->ranks->len, e->world);
        return;
    }
    g_string_append_printf(out, "for rank %u %.0f %% of it.", worst, us[worst] / waiting * 100);
    if (us[worst] < 2.0 * seen / e->ranks->len && e->ranks->len > 2)
        g_string_append(out, " Different ranks are late in different calls: their work differs from call to call.");
    else if (why[LATE_IDLE] > why[LATE_WORK] && why[LATE_IDLE] > why[LATE_UNSEEN])
        g_string_append(out, " It is late because its host launches late: its GPU is idle before.");
    else if (why[LATE_WORK] > why[LATE_UNSEEN])
        g_string_append(out, " It is late because its earlier kernels take longer than the others'.");
    g_string_append_c(out, '\n');
}

static void contention_say(const struct explain *e, double all, double contention, GString *out)
{
    double us[BESIDES] = { 0 };
    int most = 0;
    for (guint i = 0; i < e->calls->len; i++) {
        const struct explain_call *c = &g_array_index(e->calls, struct explain_call, i);
        us[c->beside] += c->us[EXPLAIN_CONTENTION];
    }
    for (int b = 1; b < BESIDES; b++)
        if (us[b] > us[most]) most = b;
    g_string_append_printf(out, "Contention, %.0f %%: most beside %s.\n", contention / all * 100,
                           explain_beside_name((enum explain_beside)most));
}

/* Returns the rank whose share of a part is furthest above the median of its node's ranks; *worst gets its share, and
 * *middle the median.  Only the rank's own node is compared: there a rank with a slow NIC stands out, while ranks of
 * other nodes all see its delay equally. */
static uint32_t part_worst(const struct explain *e, enum explain_part part, double *worst, double *middle)
{
    g_autofree double *share = g_new0(double, e->ranks->len), *node = g_new(double, e->ranks->len);
    const uint32_t on_node = e->ranks_per_node ? e->ranks_per_node : UINT32_MAX;
    uint32_t most = 0;
    for (guint r = 0; r < e->ranks->len; r++) {
        double us[EXPLAIN_PARTS];
        const double all = explain_sum(e, NULL, -1, g_array_index(e->ranks, struct explain_rank, r).rank, us);
        share[r] = all > 0 ? us[part] / all : 0;
    }
    *worst = *middle = 0;
    for (guint r = 0; r < e->ranks->len; r++) {
        const uint32_t rank = (uint32_t)g_array_index(e->ranks, struct explain_rank, r).rank;
        uint32_t count = 0;
        for (guint o = 0; o < e->ranks->len; o++)
            if ((uint32_t)g_array_index(e->ranks, struct explain_rank, o).rank / on_node == rank / on_node)
                node[count++] = share[o];
        const double median = stats_median(node, count);
        if (r && share[r] - median <= *worst - *middle) continue;
        *worst = share[r];
        *middle = median;
        most = r;
    }
    return most;
}

/* Ends a sentence by the rank on which the part takes longest, if it stands out. */
static void rank_say(const struct explain *e, enum explain_part part, GString *out)
{
    double worst, middle;
    const uint32_t r = part_worst(e, part, &worst, &middle);
    if (e->ranks->len > 1 && worst > 2 * middle)
        g_string_append_printf(out, " Most on rank %d.", g_array_index(e->ranks, struct explain_rank, r).rank);
    g_string_append_c(out, '\n');
}

/* Kernels of one name for the reader whose wire is not predicted, and their time. */
struct unpredicted {
    char name[64];         /* "NCCL's kernels", "DeepEP's normal kernels" */
    const char *predicted; /* the --kernel that predicts them; NULL: none */
    double us;
};

static gint longest_first(gconstpointer a, gconstpointer b)
{
    const struct unpredicted *x = a, *y = b;
    return (x->us < y->us) - (x->us > y->us);
}

/* The kernels whose wire is not predicted (struct unpredicted), those of most time first.  *all_us gets the time of
 * all. */
static GArray *unpredicted_of(const struct explain *e, double *all_us)
{
    GArray *all = g_array_new(FALSE, TRUE, sizeof(struct unpredicted));
    *all_us = 0;
    for (guint i = 0; i < e->calls->len; i++) {
        const struct explain_call *c = &g_array_index(e->calls, struct explain_call, i);
        const GArray *calls = g_array_index(e->ranks, struct explain_rank, c->rank).calls;
        const struct profile_phase *is = &g_array_index(calls, struct profile_call, c->call).is;
        if (profile_phase_is(is, e->kernel)) continue;
        struct unpredicted own = { .predicted = is->kernel ? is->kernel : is->may };
        g_snprintf(own.name, sizeof own.name, "%s's %s%skernels", is->library, is->kernel ? is->kernel : "",
                   is->kernel ? " " : "");
        guint at = 0;
        while (at < all->len && strcmp(g_array_index(all, struct unpredicted, at).name, own.name)) at++;
        if (at == all->len) g_array_append_val(all, own);
        double us = 0;
        for (int p = 0; p < EXPLAIN_PARTS; p++) us += c->us[p];
        g_array_index(all, struct unpredicted, at).us += us;
        *all_us += us;
    }
    g_array_sort(all, longest_first);
    return all;
}

static void unpredicted_say(const GArray *kernels, double all, GString *out)
{
    for (guint i = 0; i < kernels->len; i++) {
        const struct unpredicted *u = &g_array_index(kernels, struct unpredicted, i);
        if (u->us <= SAID_LEAST * all) continue;
        g_string_append_printf(out, "%s are %.0f %% of the time: their wire time is not predicted", u->name,
                               u->us / all * 100);
        if (u->predicted) g_string_append_printf(out, " (--kernel %s predicts it)", u->predicted);
        g_string_append(out, "; the shortest of a kernel's calls, if there are at least four, is used instead.\n");
    }
}

static void wire_say(const struct explain *e, double all, double wire, GString *out)
{
    double beyond = 0;
    for (guint i = 0; i < e->calls->len; i++) beyond += g_array_index(e->calls, struct explain_call, i).beyond_us;
    g_string_append_printf(out,
                           "\n"
                           "Wire, %.0f %%: the time of the kernels alone, if all ranks start together.\n",
                           wire / all * 100);
    if (beyond > BEYOND_LEAST * wire)
        g_string_append_printf(out,
                               "But their wire was predicted %.1f times as long as they took: " ANOTHER_CASE
                               ", or links faster than the cluster file says.\n",
                               1 + beyond / wire);
}

static void sentences_append(const struct explain *e, const double us[EXPLAIN_PARTS], double all, GString *out)
{
    const double least = SAID_LEAST * all;
    double unpredicted_us;
    g_autoptr(GArray) unpredicted = unpredicted_of(e, &unpredicted_us);
    wire_say(e, all, us[EXPLAIN_WIRE], out);
    unpredicted_say(unpredicted, all, out);
    if (us[EXPLAIN_WAITING] > least) waiting_say(e, all, us[EXPLAIN_WAITING], out);
    if (us[EXPLAIN_CONTENTION] > least) contention_say(e, all, us[EXPLAIN_CONTENTION], out);
    if (us[EXPLAIN_IMBALANCE] > least) {
        g_string_append_printf(out, "Imbalance, %.0f %%: the routing gives some ranks more than others.",
                               us[EXPLAIN_IMBALANCE] / all * 100);
        rank_say(e, EXPLAIN_IMBALANCE, out);
    }
    if (us[EXPLAIN_LAUNCH] > least) {
        g_string_append_printf(out, "Launch, %.0f %%: the GPU was idle before kernels that the host launched late.",
                               us[EXPLAIN_LAUNCH] / all * 100);
        rank_say(e, EXPLAIN_LAUNCH, out);
    }
    if (us[EXPLAIN_UNKNOWN] <= least) return;
    double worst, middle;
    const uint32_t r = part_worst(e, EXPLAIN_UNKNOWN, &worst, &middle);
    g_string_append_printf(out, "Unknown, %.0f %%: ", us[EXPLAIN_UNKNOWN] / all * 100);
    if (unpredicted_us > all / 2)
        g_string_append_printf(out, "calls of %s that move more than the shortest, or reasons that no profile shows.\n",
                               g_array_index(unpredicted, struct unpredicted, 0).name);
    else if (e->ranks->len > 1 && worst > 1.5 * middle)
        g_string_append_printf(out, "most on rank %d, whose own transfers take longer: look at its NIC and links.\n",
                               g_array_index(e->ranks, struct explain_rank, r).rank);
    else
        g_string_append(out,
                        "kernels take longer than predicted even without others beside them: links slower than in the "
                        "cluster file, or " ANOTHER_CASE ".  `eptwin import` and `eptwin diagnose` show which.\n");
}

static void head_append(const struct explain *e, double all, GString *out)
{
    const struct explain_rank *first = &g_array_index(e->ranks, struct explain_rank, 0);
    const struct profile *p = first->profile;
    const int64_t begin = g_array_index(p->kernels, struct profile_kernel, 0).begin_ns;
    const int64_t end = first->reach_ns[p->kernels->len - 1];
    g_string_append_printf(out, "%u of %u ranks", e->ranks->len, e->world);
    if (p->gpu) g_string_append_printf(out, ", %s", p->gpu);
    g_string_append_printf(out, ": %u call%s of communication kernels, %.2f ms; rank %d was recorded for %.2f ms.\n",
                           e->calls->len, e->calls->len == 1 ? "" : "s", all / 1e3, first->rank,
                           (double)(end - begin) / 1e6);
    if (e->aligned)
        g_string_append(out, "The ranks' clocks differ and were aligned by the ends of kernels.  Delays shorter than a "
                             "kernel may be hidden.\n");
    if (e->ranks->len < e->world)
        g_string_append(out, "Some ranks are not recorded.  The time of a barrier beyond its wire time counts as "
                             "waiting for them, and so does the rest of low-latency kernels.\n");
    g_string_append_c(out, '\n');
}

void explain_text(const struct explain *e, const char *hint, GString *out)
{
    double us[EXPLAIN_PARTS];
    const double all = explain_sum(e, NULL, -1, -1, us);
    head_append(e, all, out);
    tables_append(e, out);
    if (all <= 0) return;
    sentences_append(e, us, all, out);
    if (hint) g_string_append(out, hint);
    g_string_append_printf(out, "Assigned: %.0f %%.\n", (1 - us[EXPLAIN_UNKNOWN] / all) * 100);
}

/* ---- rows ---- */

static void rows_add(const struct explain *e, const char *phase, int64_t layer, int64_t rank, struct record *record)
{
    double us[EXPLAIN_PARTS];
    g_autofree char *name = layer < 0 ? g_strdup(phase ? phase : "communication")
                                      : g_strdup_printf("%s_layer%" G_GINT64_FORMAT, phase, layer);
    const double all = explain_sum(e, phase, layer, rank, us);
    if (all <= 0) return;
    record_add(record, name, rank < 0 ? RECORD_ALL : (int32_t)rank, "split_us", all, "us");
    for (int p = 0; p < EXPLAIN_PARTS; p++) {
        g_autofree char *metric = g_strdup_printf("split_%s_us", explain_part_name((enum explain_part)p));
        record_add(record, name, rank < 0 ? RECORD_ALL : (int32_t)rank, metric, us[p], "us");
    }
}

void explain_record(const struct explain *e, struct record *record)
{
    g_autoptr(GPtrArray) phases = explain_phases(e);
    const uint32_t layers = layers_count(e);
    for (guint p = 0; p < phases->len; p++) {
        const char *phase = g_ptr_array_index(phases, p);
        rows_add(e, phase, -1, -1, record);
        for (guint r = 0; r < e->ranks->len && e->ranks->len > 1; r++)
            rows_add(e, phase, -1, g_array_index(e->ranks, struct explain_rank, r).rank, record);
        for (uint32_t l = 0; l < MIN(layers, LAYER_ROWS_MAX / phases->len) && layers > 1; l++)
            rows_add(e, phase, l, -1, record);
    }
    double why[LATES];
    g_autofree double *us = explain_waited_for(e, why);
    rows_add(e, NULL, -1, -1, record);
    for (uint32_t r = 0; r < e->numbers; r++)
        if (us[r] > 0) record_add(record, "communication", (int32_t)r, "waited_for_us", us[r], "us");
}
