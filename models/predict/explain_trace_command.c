/* explain_trace_command.c - eptwin explain-trace: reads profiles of ranks and a description of the cluster on which
 * they ran.  Prints the parts into which the time of communication kernels splits.  Knows options, files and cases. */
#include <stdio.h>
#include <string.h>

#include "models/case.h"
#include "models/predict/explain.h"
#include "models/predict/simulate.h"
#include "models/step/step_gpu.h"
#include "reports/report.h"
#include "reports/whole_file.h"
#include "sim/command.h"
#include "sim/command_line.h"
#include "sim/new_file.h"
#include "sim/version.h"
#include "traces/trace.h"

static const char explain_about[] =
    "Shows where the time of communication kernels in a profile went: the wire, waiting for other ranks,\n"
    "contention with concurrent kernels, imbalance, launching.\n"
    "\n"
    "  eptwin explain-trace rank*.json.gz --cluster h800-cx7 --num-tokens 4096\n"
    "  eptwin explain-trace rank0.json.gz --cluster h800-cx7 --num-tokens 4096 --trace routing.ept --page why.html";

static const char explain_details[] =
    "A profile is an export of PyTorch's profiler (.json, .json.gz; one file per rank), or of Nsight Systems as\n"
    "SQLite (`nsys export --type sqlite`).  One rank suffices, but with more ranks less has to be inferred.\n"
    "Ranks, hidden size and SMs are read from the kernels' names and launches where possible; you give the rest\n"
    "of the case (--num-tokens, --num-topk, --num-experts, --dtype).  With --trace, the routing of that run,\n"
    "imbalance is a part of its own: layer l of a phase has the trace's layer l.\n"
    "\n"
    "Wire is the predicted time of the kernel alone if all ranks start together.  Waiting needs a profile of the\n"
    "later rank.  Contention is at most the slowdown that was measured for such kernels.  The rest is unknown.\n"
    "\n"
    "Exit status: 0 success, 1 the case could not be predicted, 2 bad input.";

struct explain_options {
    struct case_options given, c;
    char **paths;
    char *output, *page, *format;
    struct profile_case names; /* what kernels' names say in the first profile that has the predicted kernel */
};

static bool options_parse(struct explain_options *o, int argc, char **argv, GError **error)
{
    GOptionEntry entries[] = {
        COMMAND_LINE_OUTPUT(&o->output,
                            "Write the breakdown by phase, rank and layer as a record ('-': standard output)"),
        { "format", 0, 0, G_OPTION_ARG_STRING, &o->format, "Format of the record: csv (default) or json", "NAME" },
        { "page", 0, 0, G_OPTION_ARG_FILENAME, &o->page, "Write it as a page", "FILE.html" },
        { 0 },
    };
    struct command_topic topics[CASE_TOPICS + 2] = { { "Options", entries, false } };
    const struct command_line line = { .name = "explain-trace",
                                       .arguments = "PROFILE...",
                                       .about = explain_about,
                                       .details = explain_details,
                                       .topics = topics };
    case_topics(&o->given, topics + 1);
    enum record_format format;
    if (!command_line_parse(&line, argc, argv, &o->paths, error)) return false;
    if (!o->paths[0] || !o->given.cluster)
        return error_input(
            error, "expected profiles and --cluster, as in: eptwin explain-trace rank*.json.gz --cluster h800-cx7");
    if (o->format && !record_table_format_parse(o->format, &format, error)) return false;
    if (o->page && o->output && !new_file_apart("--page", o->page, o->output, error)) return false;
    const char *const outputs[] = { o->output, o->page };
    for (int i = 0; i < 2; i++)
        if (outputs[i] && (!new_file_possible(outputs[i], error) ||
                           !new_file_spares(outputs[i], (const char *const *)o->paths, g_strv_length(o->paths), error)))
            return false;
    return true;
}

static GPtrArray *profiles_read(const struct explain_options *o, GError **error)
{
    g_autoptr(GPtrArray) all = g_ptr_array_new_with_free_func((GDestroyNotify)profile_free);
    for (char **path = o->paths; *path; path++) {
        g_autoptr(GPtrArray) some = profile_read(*path, error);
        if (!some) return NULL;
        /* devices of one process are ranks in the order of the devices */
        for (guint i = 0; i < some->len && some->len > 1; i++)
            ((struct profile *)g_ptr_array_index(some, i))->rank = -1;
        g_ptr_array_set_free_func(some, NULL);
        for (guint i = 0; i < some->len; i++) g_ptr_array_add(all, g_ptr_array_index(some, i));
    }
    return g_steal_pointer(&all);
}

/* Warns of the first profile of another GPU than the cluster's. */
static void gpu_check(const GPtrArray *profiles, const struct cluster *cluster)
{
    for (guint i = 0; i < profiles->len; i++) {
        const struct profile *p = g_ptr_array_index(profiles, i);
        if (!p->gpu || !step_gpu_differs(p->gpu, cluster->name)) continue;
        fprintf(stderr, "eptwin explain-trace: warning: %s: expected the cluster's GPU (%s), found '%s'\n", p->source,
                cluster->name, p->gpu);
        return;
    }
}

/* ---- the case ---- */

static bool count_set(struct case_options *c, const char *name, uint32_t count, GError **error)
{
    char text[16];
    g_snprintf(text, sizeof text, "%u", count);
    return !count || case_set(c, name, text, error);
}

/* eptwin's kernels that those of the profiles are or may be, in the order of their calls: "ll, normal". */
static char *kernels_text(const struct explain *e)
{
    g_autoptr(GPtrArray) kernels = g_ptr_array_new();
    for (guint r = 0; r < e->ranks->len; r++) {
        const GArray *calls = g_array_index(e->ranks, struct explain_rank, r).calls;
        for (guint i = 0; i < calls->len; i++) {
            const struct profile_phase *is = &g_array_index(calls, struct profile_call, i).is;
            const char *kernel = is->kernel ? is->kernel : is->may;
            if (kernel && !g_ptr_array_find_with_equal_func(kernels, kernel, g_str_equal, NULL))
                g_ptr_array_add(kernels, (gpointer)kernel);
        }
    }
    g_ptr_array_add(kernels, NULL);
    return g_strjoinv(", ", (char **)kernels->pdata);
}

/* Finds the kernel that is predicted: the user's, which must be in the profiles, or that with the most calls. */
static bool kernel_choose(struct explain_options *o, struct explain *e, GError **error)
{
    const char *asked = case_option_given(&o->given, "kernel") ? o->given.kernel : NULL;
    g_autofree char *there = kernels_text(e);
    g_auto(GStrv) known = g_strsplit(there, ", ", 0);
    if (asked && !g_strv_contains((const char *const *)known, asked))
        return error_input(error, "--kernel: expected %s%s, found %s",
                           *there ? "a kernel of the profiles: " : "none, as eptwin predicts no kernel of the profiles",
                           there, asked);
    for (guint r = 0; r < e->ranks->len && !o->names.kernel; r++) {
        const struct explain_rank *rank = &g_array_index(e->ranks, struct explain_rank, r);
        const struct profile_case names = profile_case_of(rank->profile, rank->calls, asked);
        if (names.calls) o->names = names;
    }
    e->kernel = o->names.kernel;
    return true;
}

/* Fills in, from the profiles, the values of the case that the user did not give. */
static bool case_complete(struct explain_options *o, struct explain *e, const struct cluster *cluster, GError **error)
{
    struct case_options initial;
    case_init(&initial);
    o->c = o->given;
    if (!kernel_choose(o, e, error)) return false;
    const struct profile_case *n = &o->names;
    struct case_options *c = &o->c;
    bool good = !n->kernel || case_set(c, "kernel", n->kernel, error);
    good =
        good && (c->num_ranks ? explain_ranks_set(e, c->num_ranks, error) : count_set(c, "num-ranks", e->world, error));
    if (good && n->hidden && c->hidden == initial.hidden) good = count_set(c, "hidden", n->hidden, error);
    if (good && !c->num_sms) good = count_set(c, "num-sms", n->sms, error);
    if (good && n->hook) good = case_set(c, "hook", "true", error);
    if (good && n->nodes && !c->ranks_per_node) c->ranks_per_node = n->ranks / n->nodes;
    case_node_settle(c, cluster->nvlink.gpus);
    return good;
}

/* The predicted case.  NULL and *error if that fails. */
static struct record *case_predict(const struct case_options *c, const struct cluster *cluster,
                                   const struct simulate_wishes *wishes, GError **error)
{
    g_autoptr(record) record = record_new();
    struct case_load load;
    if (!case_load(c, &load, error)) return NULL;
    const bool good = simulate_load(c, cluster, &load, wishes, record, error);
    case_load_free(&load);
    return good ? g_steal_pointer(&record) : NULL;
}

/* ---- predictions ---- */

struct predictions {
    struct record *plain, *cached, **loaded;
    uint32_t layers;
};

static void predictions_free(struct predictions *p)
{
    record_free(p->plain);
    record_free(p->cached);
    for (uint32_t l = 0; l < p->layers; l++) record_free(p->loaded[l]);
    g_free(p->loaded);
}

static bool any_cached(const struct explain *e)
{
    for (guint r = 0; r < e->ranks->len; r++) {
        const GArray *calls = g_array_index(e->ranks, struct explain_rank, r).calls;
        for (guint i = 0; i < calls->len; i++)
            if (g_array_index(calls, struct profile_call, i).is.cached) return true;
    }
    return false;
}

/* Predicts each rank's times with the routing of each layer. */
static bool loads_predict(const struct explain_options *o, const struct cluster *cluster, struct predictions *p,
                          GError **error)
{
    enum { LAYERS_MAX = 256 };
    struct trace *trace = trace_open(o->c.trace, &(struct trace_options){ .experts = o->c.num_experts }, error);
    if (!trace) return false;
    const uint32_t layers = MIN(trace_info(trace)->layers, LAYERS_MAX);
    trace_close(trace);
    p->loaded = g_new0(struct record *, layers);
    for (p->layers = 0; p->layers < layers; p->layers++) {
        struct case_options c = o->c;
        c.layer = p->layers;
        p->loaded[p->layers] = case_predict(&c, cluster, &(struct simulate_wishes){ .per_rank = true }, error);
        if (!p->loaded[p->layers]) return false;
    }
    return true;
}

static bool predict(const struct explain_options *o, const struct explain *e, const struct cluster *cluster,
                    struct predictions *p, GError **error)
{
    static const char *const until_dispatch[] = { "dispatch", NULL };
    const struct simulate_wishes all = { 0 }, dispatch = { .phases = until_dispatch };
    struct case_options c = o->c;
    if (!o->names.kernel) return true; /* no kernel that can be predicted: waiting and launching are still reported */
    if (o->c.trace && !loads_predict(o, cluster, p, error)) return false;
    if (c.trace) { /* a drawn routing of equal size takes the trace's place */
        c.trace = c.trace_weights = c.placement = NULL;
        c.layer = c.step = 0;
        const struct record *first = p->loaded[0];
        static const char *const sizes[] = { "num-tokens", "num-topk", "num-experts" };
        for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++)
            if (record_get(first, sizes[i]) && !case_set(&c, sizes[i], record_get(first, sizes[i]), NULL)) break;
    }
    p->plain = case_predict(&c, cluster, &all, error);
    if (p->plain && any_cached(e) && !c.cached && strcmp(o->names.kernel, "normal") == 0) {
        c.cached = true;
        p->cached = case_predict(&c, cluster, &dispatch, error);
    }
    return p->plain && !(error && *error);
}

static bool nic_bound(const struct record *record, const char *phase)
{
    const struct record_row *row = record_find(record, phase, RECORD_ALL, "bottleneck");
    return row && g_str_has_prefix(record_row_text(row), "nic");
}

/* A hint that the kernels have few SMs: with the default number, dispatch and combine would take at least 15 % less
 * time.  NULL: they would not, or NICs bound both, or the kernels are low latency, or a trace gives the routing. */
static char *sms_hint(const struct explain_options *o, const struct cluster *cluster, const struct predictions *p)
{
    struct case_options c = o->c;
    if (!p->plain || !o->c.num_sms || o->c.trace || g_strcmp0(o->names.kernel, "ll") == 0) return NULL;
    if (nic_bound(p->plain, "dispatch") && nic_bound(p->plain, "combine")) return NULL;
    c.num_sms = 0;
    g_autoptr(record) best = case_predict(&c, cluster, &(struct simulate_wishes){ 0 }, NULL);
    double now_us = 0, best_us = 0;
    static const char *const phases[] = { "dispatch", "combine" };
    for (size_t i = 0; best && i < G_N_ELEMENTS(phases); i++) {
        const struct record_row *now = record_find(p->plain, phases[i], RECORD_ALL, "time_us");
        const struct record_row *then = record_find(best, phases[i], RECORD_ALL, "time_us");
        now_us += now ? now->value : 0;
        best_us += then ? then->value : 0;
    }
    g_autofree char *sms =
        best && record_get(best, "num-sms") ? g_strdup(record_get(best, "num-sms")) : g_strdup("more");
    if (!(best_us > 0) || best_us > 0.85 * now_us) return NULL;
    return g_strdup_printf(
        "Few SMs: dispatch and combine would take %.0f us alone with %s SMs, %.0f with the %u here.\n", best_us, sms,
        now_us, o->c.num_sms);
}

/* ---- output ---- */

static struct record *record_make(const struct explain_options *o, const struct explain *e)
{
    struct record *record = record_new();
    g_autofree char *files = g_strjoinv(" ", o->paths);
    record_set(record, "kind", "import");
    record_set(record, "version", "%s", eptwin_version());
    record_set(record, "profiles", "%s", files);
    record_set(record, "ranks-recorded", "%u", e->ranks->len);
    if (o->names.kernel) case_record(&o->c, record);
    explain_record(e, record);
    return record;
}

static bool page_write(const struct explain_options *o, const struct record *record, GError **error)
{
    const char *const path = "split";
    g_autoptr(GPtrArray) cases = report_cases_new(&record, &path, 1);
    g_autoptr(GString) page = report_html(cases, NULL, NULL, eptwin_version());
    return whole_file_write(o->page, page->str, page->len, error);
}

static bool outputs_write(const struct explain_options *o, const struct explain *e, const char *hint, GError **error)
{
    g_autoptr(record) record = record_make(o, e);
    enum record_format format = RECORD_CSV;
    bool good = !o->format || record_format_parse(o->format, &format, error);
    if (good && o->output) good = record_write(record, o->output, format, error);
    if (good && o->page) good = page_write(o, record, error);
    if (!good || (o->output && strcmp(o->output, "-") == 0)) return good;
    g_autoptr(GString) text = g_string_new(NULL);
    explain_text(e, hint, text);
    fputs(text->str, stdout);
    return true;
}

static bool explain(struct explain_options *o, GError **error)
{
    g_autoptr(cluster) cluster = cluster_load(o->given.cluster, error);
    g_autoptr(GPtrArray) profiles = cluster ? profiles_read(o, error) : NULL;
    if (profiles) gpu_check(profiles, cluster);
    struct explain *e = profiles ? explain_new(profiles, error) : NULL;
    struct predictions p = { 0 };
    bool good = e && case_complete(o, e, cluster, error) && predict(o, e, cluster, &p, error);
    if (good) {
        const struct explain_wire wire = { p.plain, p.cached, p.loaded, p.layers };
        e->ranks_per_node = o->c.ranks_per_node;
        explain_split(e, &wire);
        g_autofree char *hint = sms_hint(o, cluster, &p);
        good = outputs_write(o, e, hint, error);
    }
    predictions_free(&p);
    explain_free(e);
    return good;
}

int command_explain_trace(int argc, char **argv)
{
    GError *error = NULL;
    struct explain_options o = { 0 };
    case_init(&o.given);
    case_init(&o.c);
    const bool good = options_parse(&o, argc, argv, &error) && explain(&o, &error);
    return good ? EXIT_OK : command_line_fail("explain-trace", error);
}
