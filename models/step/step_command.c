/* step_command.c - `eptwin step`: from kernels to the time of a step, tokens a second, and the share of waiting. */
#include <glib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "models/predict/estimate.h"
#include "models/step/step_again.h"
#include "reports/whole_file.h"
#include "sim/command.h"
#include "sim/command_line.h"
#include "sim/new_file.h"
#include "sim/timeline_file.h"
#include "sim/version.h"

static const char about[] =
    "Predicts the time of a whole decode, prefill or training step of a mixture-of-experts model: tokens per\n"
    "second, TPOT, how much communication is exposed (not hidden by compute), and why.\n"
    "\n"
    "  eptwin step --net deepseek-v3 --cluster h800-cx7 --num-ranks 64 --batch 128\n"
    "      a decode step, low-latency kernels\n"
    "  eptwin step --net config.json --cluster h100-cx7 --num-ranks 32 --phase prefill --batch 16384 --schedule "
    "two-batch\n"
    "      prefill in two batches, each with its communication during the other's compute\n"
    "  eptwin step --net deepseek-v3 --cluster h800-cx7 --num-ranks 64 --phase train --schedule two-batch\n"
    "      training: the forward pass of one batch beside the backward pass of another\n"
    "  eptwin step --net deepseek-v3 --cluster h800-cx7 --num-ranks 64 --routing zipf:1.2 --explain\n"
    "      skewed routing: for whom ranks wait, and why\n"
    "  eptwin sweep --net deepseek-v3 --cluster h800-cx7 --num-ranks 64 --batch 32:513:x2 --schedule sequential,stages "
    "\\\n"
    "               --compare schedule\n"
    "      from which batch size on does overlap pay off?  (sweep and tune accept the options of step)";

static const char details[] =
    "Times of compute kernels come from tables (--table first, then those that ship with eptwin) or else from a\n"
    "roofline; the table of kernels says which.  Dispatch and combine are simulated as in `eptwin simulate`.\n"
    "On a terminal, or with --format text, the output is a table; in a pipe it is the record.";

struct arguments {
    struct step_options step;
    char *output, *format, *timeline;
    char **set;
    gboolean explain;
    int jobs;
};

enum { TOPICS_OWN = 2 };

static bool arguments_check(const struct case_options *c, const struct arguments *a, GError **error)
{
    if (!c->cluster)
        error_input(error, "--cluster: expected a file or a name that eptwin cluster list prints, found none");
    else if (a->format && strcmp(a->format, "csv") && strcmp(a->format, "json") && strcmp(a->format, "text"))
        error_input(error, "--format: expected csv, json or text, found \"%s\"", a->format);
    else if (a->explain && a->output && !strcmp(a->output, "-"))
        error_input(error, "--explain: expected --output FILE or none: standard output has the text");
    else if (a->explain && !a->output && a->format && strcmp(a->format, "text") != 0)
        error_input(error, "--format: expected a record (--output FILE), found words alone");
    else return !a->timeline || new_file_apart("--timeline", a->timeline, a->output, error);
    return false;
}

static bool parse(struct case_options *c, struct arguments *a, int argc, char **argv, GError **error)
{
    GOptionEntry own[] = {
        COMMAND_LINE_OUTPUT(&a->output,
                            "Write the record here; - is standard output (the default if that is not a terminal)"),
        COMMAND_LINE_FORMAT(&a->format, "Format of the record: csv (default) or json; text: a table instead"),
        COMMAND_LINE_JOBS(&a->jobs,
                          "Threads; results do not depend on the number (default: one per core for long runs)"),
        { "explain", 0, 0, G_OPTION_ARG_NONE, &a->explain,
          "Break down the step's time, and predict it again without each cause of waiting or contention", NULL },
        { "set", 0, 0, G_OPTION_ARG_STRING_ARRAY, &a->set,
          "Override a key of the cluster file, as in --set nic.rate=50GB/s (may be repeated)", "SECTION.KEY=VALUE" },
        { "timeline", 0, 0, G_OPTION_ARG_FILENAME, &a->timeline, "Write the kernels of every rank " TIMELINE_FILE_HELP,
          "FILE" },
        { 0 },
    };
    struct command_topic topics[CASE_TOPICS + TOPICS_OWN + 1] = { { "Step", step_options_entries(&a->step), false },
                                                                  { "Options", own, false } };
    const struct command_line line = { .name = "step", .about = about, .details = details, .topics = topics };
    case_topics(c, topics + TOPICS_OWN);
    if (!command_line_parse(&line, argc, argv, NULL, error)) return false;
    return arguments_check(c, a, error);
}

static bool results_write(const struct arguments *a, const struct step_plan *plan, const struct step_answer *answer,
                          const struct step_again *again, const double *total_ms, struct record *record, GError **error)
{
    const bool text = a->format && strcmp(a->format, "text") == 0;
    const bool words = text || a->explain || (isatty(STDOUT_FILENO) && !a->format && !a->output);
    const enum record_format format = a->format && strcmp(a->format, "json") == 0 ? RECORD_JSON : RECORD_CSV;
    step_record(record, plan, answer, total_ms);
    if (!text && (a->output || !words) && !record_write(record, a->output ? a->output : "-", format, error))
        return false;
    if (!words) return true;
    g_autoptr(GString) out = g_string_new(NULL);
    step_text_append(out, plan, answer, total_ms, a->explain);
    if (a->explain) step_again_append(out, answer, again, plan->draws);
    return whole_file_write(text && a->output ? a->output : "-", out->str, out->len, error);
}

/* Runs the step and writes its results.  The timeline's file gets its name only after the record is written, so no
 * timeline appears if the record cannot be written. */
static bool run(const struct case_options *c, const struct arguments *a, const struct cluster *cluster,
                struct record *record, GError **error)
{
    if (!new_file_possible(a->output ? a->output : "-", error)) return false;
    struct timeline_file *timeline = a->timeline ? timeline_file_open(a->timeline, error) : NULL;
    if (a->timeline && !timeline) return false;
    struct step_plan plan;
    struct step_answer *answer = NULL;
    g_autofree double *total_ms = NULL;
    const char *one_thread = NULL;
    struct step_again again;
    bool good = step_plan_make(&plan, &a->step, c, cluster, error);
    if (good) {
        struct estimate_many many = { 0 };
        const uint32_t withouts = a->explain ? STEP_WITHOUTS : 0, alones = a->explain ? STEP_WITHOUTS_ALONE : 0;
        estimate_many_add(&many, &plan.c, cluster, step_plan_rounds(&plan, plan.draws + withouts, 1 + alones));
        const uint32_t cores = estimate_long(&many.sum) ? g_get_num_processors() : 1;
        plan.run.threads = a->jobs > 0 ? (uint32_t)a->jobs : cores;
        plan.run.one_thread = &one_thread;
        estimate_many_print(&many, "step", 1);
        total_ms = g_new0(double, plan.draws);
        answer = step_plan_answer(&plan, timeline ? timeline_file_timeline(timeline) : NULL, total_ms, error);
        good = answer && timeline_file_end(timeline, "step", error) &&
               (!a->explain || step_again(&a->step, c, &plan, answer, &again, error));
    }
    if (good) {
        record_set(record, "kind", "step");
        record_set(record, "version", "%s", eptwin_version());
        case_record(&plan.c, record);
        record_set(record, "cluster", "%s", cluster->name);
        good = results_write(a, &plan, answer, &again, total_ms, record, error);
    }
    if (good && a->jobs > 1 && one_thread && plan.draws == 1 && !a->explain)
        fprintf(stderr, "eptwin step: note: -j has no effect: %s\n", one_thread);
    step_answer_free(answer);
    step_plan_clear(&plan);
    return timeline_file_close(timeline, good, error);
}

int command_step(int argc, char **argv)
{
    struct case_options c;
    struct arguments a = { 0 };
    GError *error = NULL;
    g_autoptr(cluster) cluster = NULL;
    g_autoptr(record) record = record_new();
    case_init(&c);
    step_options_init(&a.step);
    const bool good = parse(&c, &a, argc, argv, &error) &&
                      (cluster = cluster_load_set(c.cluster, (const char *const *)a.set, &error)) != NULL &&
                      run(&c, &a, cluster, record, &error);
    return good ? EXIT_OK : command_line_fail("step", error);
}
