/* simulate_command.c - `eptwin simulate`: one case on one cluster, or every (step, layer) of a trace. */
#include <glib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "models/predict/beside.h"
#include "models/predict/estimate.h"
#include "models/predict/faster.h"
#include "models/predict/simulate_command.h"
#include "reports/whole_file.h"
#include "sim/command.h"
#include "sim/command_line.h"
#include "sim/new_file.h"
#include "sim/progress.h"
#include "sim/timeline_file.h"
#include "sim/version.h"

static const char about[] =
    "Predicts how long dispatch and combine, or other kernels, take on a cluster, and which part limits them.\n"
    "\n"
    "  eptwin simulate --cluster h800-cx7 --num-ranks 64\n"
    "      the public low-latency test on 64 H800 GPUs\n"
    "  eptwin simulate --kernel normal --cluster h800-cx7 --num-ranks 16 --cached\n"
    "      the public normal test, as its tuning loop runs it\n"
    "  eptwin simulate --cluster h800-cx7 --trace routing.npy.zst --step 0 --layer 2 --output predicted.csv\n"
    "      captured routing, with a record for `eptwin compare`\n"
    "  eptwin simulate --cluster h800-cx7 --trace routing.ept --steps 0:8 --layers all\n"
    "      every (step, layer), and a table by layer\n"
    "  eptwin simulate --cluster h800-cx7 --num-ranks 16 --explain\n"
    "      the time at full rates, and where the rest goes\n"
    "  eptwin simulate --cluster h800-cx7 --kernel alltoallv --matrix uniform:65536 --num-ranks 256\n"
    "      other kernels: all-to-allv (of a file, drawn, or of the routing), allgather,\n"
    "      allreduce, p2p";

static const char details[] =
    "On a terminal, or with --format text, the output is a table; in a pipe it is the record.";

struct arguments {
    char *output, *format, *steps, *layers, *timeline;
    int jobs;
    char **set;
    gboolean per_rank, explain, waits, usage;
};

static bool is_text(const struct arguments *a) { return a->format && !strcmp(a->format, "text"); }

/* Whether words are wanted: on a terminal, with --format text, and with --explain.  They go to standard output, unless
 * the record is asked for there. */
static bool wants_words(const struct arguments *a)
{
    const bool to_stdout = !a->output;
    return a->explain || is_text(a) ||
           (isatty(STDOUT_FILENO) && (!a->format || !to_stdout) && (to_stdout || strcmp(a->output, "-") != 0));
}

static bool wants_record(const struct arguments *a) { return !is_text(a) && (a->output || !wants_words(a)); }

/* Whether there is a record for what only a record has. */
static bool record_check(const struct arguments *a, GError **error)
{
    const char *const of_record = a->usage ? "usage" : a->waits ? "waits" : a->per_rank ? "per-rank" : NULL;
    const char *const idle = of_record ? of_record : a->format && !is_text(a) ? "format" : NULL;
    if (!idle || wants_record(a)) return true;
    return error_input(error, "--%s: expected a record (--output FILE, --format csv or json), found words alone", idle);
}

static bool parse(struct case_options *c, struct arguments *a, int argc, char **argv, GError **error)
{
    GOptionEntry own[] = {
        COMMAND_LINE_OUTPUT(&a->output,
                            "Write the record here; - is standard output (the default if that is not a terminal)"),
        COMMAND_LINE_FORMAT(&a->format,
                            "Format of the record: csv (default), json or collectivex; text: a table instead"),
        { "explain", 0, 0, G_OPTION_ARG_NONE, &a->explain,
          "Break down each phase's time, from full rates to the slowest rank, and say what faster parts would save",
          NULL },
        { "per-rank", 0, 0, G_OPTION_ARG_NONE, &a->per_rank, "Add rows for each rank", NULL },
        { "waits", 0, 0, G_OPTION_ARG_NONE, &a->waits,
          "Add rows for each rank: how long it waits for each other rank, which eptwin report draws as a map", NULL },
        { "usage", 0, 0, G_OPTION_ARG_NONE, &a->usage,
          "Add rows of how busy each kind of part was over time, which eptwin report draws", NULL },
        { "set", 0, 0, G_OPTION_ARG_STRING_ARRAY, &a->set,
          "Override a key of the cluster file, as in --set nic.rate=50GB/s (may be repeated)", "SECTION.KEY=VALUE" },
        { "steps", 0, 0, G_OPTION_ARG_STRING, &a->steps, "Steps of the trace: " RANGES_GRAMMAR, "STEPS" },
        { "layers", 0, 0, G_OPTION_ARG_STRING, &a->layers, "Layers of the trace, likewise", "LAYERS" },
        COMMAND_LINE_JOBS(&a->jobs,
                          "Threads; results do not depend on the number (default: one per core for long runs)"),
        { "timeline", 0, 0, G_OPTION_ARG_FILENAME, &a->timeline,
          "Write what every worker and port did, waited for and sent, " TIMELINE_FILE_HELP, "FILE" },
        { 0 },
    };
    struct command_topic topics[CASE_TOPICS + 2] = { { "Options", own, false } };
    const struct command_line line = { .name = "simulate", .about = about, .details = details, .topics = topics };
    case_topics(c, topics + 1);
    enum record_format format;
    if (!command_line_parse(&line, argc, argv, NULL, error)) return false;
    if (a->waits) a->per_rank = TRUE;
    if (!c->cluster)
        error_input(error, "--cluster: expected a file or a name that eptwin cluster list prints, found none");
    else if (a->format && strcmp(a->format, "text") && !record_format_parse(a->format, &format, NULL))
        error_input(error, "--format: expected csv, json, collectivex or text, found \"%s\"", a->format);
    else if (a->explain && (a->steps || a->layers))
        error_input(error, "--explain: expected one --step and one --layer, found several");
    else if (a->explain && a->output && !strcmp(a->output, "-"))
        error_input(error, "--explain: expected --output FILE or none: standard output has the text");
    else if ((a->steps || a->layers) && !c->trace) error_input(error, "--steps, --layers: need --trace");
    else if (a->timeline && (a->steps || a->layers))
        error_input(error, "--timeline: expected one --step and one --layer, found several");
    else if (a->waits && (a->steps || a->layers))
        error_input(error, "--waits: expected one --step and one --layer, found several");
    else if (a->usage && (a->steps || a->layers))
        error_input(error, "--usage: expected one --step and one --layer, found several");
    else return record_check(a, error) && (!a->timeline || new_file_apart("--timeline", a->timeline, a->output, error));
    return false;
}

/* Whether both records have the same phases with the same times. */
static bool same_times(const struct record *a, const struct record *b)
{
    for (uint32_t i = 0; i < record_row_count(a); i++) {
        const struct record_row *row = record_row(a, i);
        if (row->rank != RECORD_ALL || !g_str_has_prefix(row->metric, "time_us")) continue;
        const struct record_row *other = record_find(b, row->phase, RECORD_ALL, row->metric);
        if (!other || other->value != row->value) return false;
    }
    return true;
}

/* Adds a note for each --set that changes no time, unless a note already says why.  A setting without which the others
 * are refused gets no note. */
static void idle_settings_note(const struct case_options *c, const struct arguments *a, const struct case_load *load,
                               struct record *record)
{
    const char *said = record_get(record, "notes");
    g_autoptr(GString) notes = g_string_new(said);
    for (char **set = a->set; set && *set; set++) {
        g_autofree char *why = g_strdup_printf("--set %s changes nothing: ", *set);
        g_autofree char *note = g_strdup_printf("--set %s changes no time here", *set);
        g_autoptr(GPtrArray) others = g_ptr_array_new();
        if (strstr(notes->str, why) || strstr(notes->str, note)) continue;
        for (char **other = a->set; *other; other++)
            if (strcmp(*other, *set) != 0) g_ptr_array_add(others, *other); /* without its repetitions */
        g_ptr_array_add(others, NULL);
        g_autoptr(cluster) without = cluster_load_set(c->cluster, (const char *const *)others->pdata, NULL);
        g_autoptr(record) before = record_new();
        if (!without || !simulate_load(c, without, load, &(struct simulate_wishes){ 0 }, before, NULL)) continue;
        if (same_times(record, before)) g_string_append_printf(notes, "%s%s", notes->len ? "; " : "", note);
    }
    if (notes->len) record_set(record, "notes", "%s", notes->str);
}

/* Runs the case.  proof gets what --explain says of parts that are twice as fast, unless the case takes long. */
static bool run(const struct case_options *c, const struct arguments *a, const struct cluster *cluster,
                struct timeline_file *timeline, struct record *record, GString *proof, GError **error)
{
    if (a->steps || a->layers) {
        const struct simulate_trace_options o = { .steps = a->steps,
                                                  .layers = a->layers,
                                                  .jobs = (uint32_t)MAX(a->jobs, 0) };
        return simulate_trace(c, cluster, &o, record, error);
    }
    struct case_load load;
    if (!case_load(c, &load, error)) return false;
    if (!simulate_takes(c, cluster, &load, error)) {
        case_load_free(&load);
        return false;
    }
    struct estimate work = estimate_case(c, &load);
    if (estimate_worth(&work)) estimate_pilot(&work, c, &load, cluster);
    const bool long_run = estimate_print("simulate", &work, 1);
    const uint32_t cores = estimate_long(&work) ? g_get_num_processors() : 1;
    const char *one_thread = NULL;
    const struct simulate_wishes wishes = { .per_rank = a->per_rank || a->explain,
                                            .waits = a->waits,
                                            .usage = a->usage,
                                            .threads = a->jobs > 0 ? (uint32_t)a->jobs : cores,
                                            .one_thread = &one_thread,
                                            .progress = long_run ? progress_new("events", (uint64_t)work.events) : NULL,
                                            .timeline = timeline_file_timeline(timeline) };
    bool good =
        simulate_load(c, cluster, &load, &wishes, record, error) && timeline_file_end(timeline, "simulate", error);
    if (good && !estimate_long(&work)) idle_settings_note(c, a, &load, record);
    if (good && a->explain && !estimate_long(&work)) good = faster_append(c, cluster, &load, record, proof, error);
    progress_free(wishes.progress);
    case_load_free(&load);
    if (good && a->jobs > 1 && one_thread) fprintf(stderr, "eptwin simulate: note: -j has no effect: %s\n", one_thread);
    return good;
}

static bool words_write(const struct case_options *c, const struct arguments *a, const struct cluster *cluster,
                        const struct record *record, const GString *proof, GError **error)
{
    g_autoptr(GString) text = g_string_new(NULL);
    simulate_table_append(c, record, cluster, text);
    if (a->explain) simulate_explain_append(record, text);
    g_string_append_len(text, proof->str, (gssize)proof->len);
    return whole_file_write(is_text(a) && a->output ? a->output : "-", text->str, text->len, error);
}

/* Writes the record if one is asked for, then the words. */
static bool results_write(const struct case_options *c, const struct arguments *a, const struct cluster *cluster,
                          const struct record *record, const GString *proof, GError **error)
{
    enum record_format format = RECORD_CSV;
    if (a->format && !is_text(a) && !record_format_parse(a->format, &format, error)) return false;
    bool good = true;
    if (wants_record(a)) {
        g_autoptr(record) all = a->per_rank ? NULL : simulate_record_of_all(record);
        good = record_write(all ? all : record, a->output ? a->output : "-", format, error);
    }
    return good && (!wants_words(a) || words_write(c, a, cluster, record, proof, error));
}

/* Runs the case and writes its results.  The timeline's file gets its name only after the record is written, so no
 * timeline appears if the record cannot be written. */
static bool run_and_write(const struct case_options *c, const struct arguments *a, const struct cluster *cluster,
                          struct record *record, GError **error)
{
    const char *output = a->output ? a->output : "-";
    if (!new_file_possible(output, error)) return false;
    struct timeline_file *timeline = a->timeline ? timeline_file_open(a->timeline, error) : NULL;
    if (a->timeline && !timeline) return false;
    g_autoptr(GString) proof = g_string_new(NULL);
    const bool good =
        run(c, a, cluster, timeline, record, proof, error) && results_write(c, a, cluster, record, proof, error);
    return timeline_file_close(timeline, good, error);
}

/* Prints a note about loads of --compute for which predictions are known to be off: writes to HBM alone, from half of
 * the rate of writes on (52 and 84 % were measured), and writes to the L2 (copies were measured).  Both were measured
 * on two H100s (tests/accuracy, h100_loads). */
static void writes_note(const struct case_options *c, const struct cluster_gpu *gpu)
{
    struct pressure_load load = { 0 };
    if (!c->compute || !beside_rate_parse(c->compute, &load) || load.write_bps <= 0) return;
    if (load.l2)
        fprintf(stderr, "eptwin simulate: note: beside copies in the L2, kernels take 0.9 to 1.35 times as long as "
                        "predicted here\n");
    else if (load.read_bps <= 0 && load.write_bps >= (double)gpu->hbm_write_rate_bps / 16)
        fprintf(stderr,
                "eptwin simulate: note: beside writes alone, from half of the memory's rate on, kernels take 0.9 to "
                "1.8 times as long as predicted here\n");
}

/* Prints a note about experts that run on other tensor cores than those of the kernel's sheet (MEGA_MULTIPLY). */
static void tensors_note(const struct case_options *c, const struct cluster *cluster)
{
    if (case_kernel_in(c, "mega-moe") && !case_blackwell(cluster))
        fprintf(stderr,
                "eptwin simulate: note: mega-moe is for Blackwell: its experts count as on a B200's tensor cores, "
                "2438 TFLOPS\n");
}

int command_simulate(int argc, char **argv)
{
    struct case_options c;
    struct arguments a = { 0 };
    GError *error = NULL;
    g_autoptr(cluster) cluster = NULL;
    g_autoptr(record) record = record_new();
    case_init(&c);
    bool good = parse(&c, &a, argc, argv, &error) &&
                (cluster = cluster_load_set(c.cluster, (const char *const *)a.set, &error)) != NULL;
    if (good) {
        case_cluster_settle(&c, cluster);
        record_set(record, "kind", "simulate");
        record_set(record, "version", "%s", eptwin_version());
        case_record(&c, record);
        record_set(record, "cluster", "%s", cluster->name);
        record_set(record, "cluster-digest", "%s", cluster->digest);
        g_autofree char *set = a.set ? g_strjoinv(" ", a.set) : NULL;
        if (set) record_set(record, "set", "%s", set);
        good = run_and_write(&c, &a, cluster, record, &error);
    }
    if (good) { /* a refused case gets one line, so notes come last */
        g_autofree char *note = case_note(&c);
        if (note) fprintf(stderr, "eptwin simulate: note: %s\n", note);
        writes_note(&c, &cluster->gpu);
        tensors_note(&c, cluster);
    }
    return good ? EXIT_OK : command_line_fail("simulate", error);
}
