/* step_command.c - `eptwin step`: from kernels to the time of a step, tokens a second, and what of it is waiting. */
#include <glib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "models/step/step.h"
#include "models/step/step_over.h"
#include "reports/whole_file.h"
#include "sim/command.h"
#include "sim/command_line.h"
#include "sim/new_file.h"
#include "sim/timeline_file.h"
#include "sim/version.h"

static const char about[] =
    "Predicts the time of a whole decode or prefill step of a mixture-of-experts net: tokens a second, TPOT, and what\n"
    "of the step is communication that no compute hides, and why.\n"
    "\n"
    "  eptwin step --net deepseek-v3 --cluster h800-cx7 --num-ranks 64 --batch 128\n"
    "      a decode step, low-latency kernels\n"
    "  eptwin step --net config.json --cluster h100-cx7 --num-ranks 32 --phase prefill --batch 16384 --schedule "
    "two-batch\n"
    "      prefill in two batches, each one's communication beside the other's compute\n"
    "  eptwin step --net deepseek-v3 --cluster h800-cx7 --num-ranks 64 --routing zipf:1.2 --explain\n"
    "      with skewed routing: for whom ranks wait, and why\n"
    "  eptwin step --net deepseek-v3 --cluster h800-cx7 --num-ranks 64 --over batch=16:257:x2 --over "
    "schedule=sequential,stages\n"
    "      from which batch on do two batches pay?  (--over routing=zipf:0.8,uniform: does balancing?)";

static const char details[] =
    "Compute kernels have times from tables (--table first, then those that ship with eptwin), else from a roofline;\n"
    "the table of kernels says which.  Dispatch and combine are simulated as `eptwin simulate` does.\n"
    "A terminal gets a table to read, and so does whoever asks for --format text; a pipe gets the record.";

struct arguments {
    struct step_options step;
    char *output, *format, *timeline;
    char **set, **over;
    int jobs;
    gboolean explain, launches, no_contention;
};

enum { TOPICS_OWN = 2 };

static bool arguments_check(const struct case_options *c, const struct arguments *a, GError **error)
{
    if (!c->cluster)
        g_set_error(error, STEP_ERROR, STEP_ERROR_OPTION,
                    "--cluster: expected a file or a name that eptwin cluster list prints, found none");
    else if (a->format && strcmp(a->format, "csv") && strcmp(a->format, "json") && strcmp(a->format, "text"))
        g_set_error(error, STEP_ERROR, STEP_ERROR_OPTION, "--format: expected csv, json or text, found \"%s\"",
                    a->format);
    else if (a->over && (a->explain || a->timeline || (a->format && strcmp(a->format, "json") == 0)))
        g_set_error(error, STEP_ERROR, STEP_ERROR_OPTION, "--over: expected no --explain, --timeline or --format json");
    else return true;
    return false;
}

static bool parse(struct case_options *c, struct arguments *a, int argc, char **argv, GError **error)
{
    struct step_options *o = &a->step;
    GOptionEntry step[] = {
        { "net", 0, 0, G_OPTION_ARG_FILENAME, &o->net, "A config.json, or a net that ships with eptwin (deepseek-v3)",
          "NET" },
        { "work", 0, 0, G_OPTION_ARG_STRING, &o->work,
          "Instead of a net: what compute takes, as eptwin replay --schedule runs it: " PROGRAM_WORK_GRAMMAR, "TIMES" },
        { "phase", 0, 0, G_OPTION_ARG_STRING, &o->phase, "decode (the default) or prefill", "NAME" },
        { "batch", 0, 0, G_OPTION_ARG_INT, &o->batch,
          "Tokens of each GPU in a step: sequences of decode (default 128), tokens of prefill (4096)", "N" },
        { "context", 0, 0, G_OPTION_ARG_INT, &o->context, "Tokens of a sequence (default 4096)", "N" },
        { "schedule", 0, 0, G_OPTION_ARG_STRING, &o->schedule,
          "What runs beside what: sequential (the default), shared (the shared expert beside dispatch, in low latency "
          "between its send and receive), two-batch "
          "(normal "
          "kernels), stages (low latency with hooks, two batches)",
          "NAME" },
        { "attention-tp", 0, 0, G_OPTION_ARG_INT, &o->attention_tp,
          "GPUs that share the heads of attention (default 1)", "N" },
        { "leave-sms", 0, 0, G_OPTION_ARG_INT, &o->leave_sms,
          "SMs that the GEMMs of experts leave to others (default: two-batch, those of the kernels; else 0)", "N" },
        { "redundant", 0, 0, G_OPTION_ARG_INT, &o->redundant, "Redundant experts beside the net's (default 0)", "N" },
        { "gpu", 0, 0, G_OPTION_ARG_STRING, &o->gpu, "Whose compute times count (default: the cluster's GPU)", "NAME" },
        { "table", 0, 0, G_OPTION_ARG_FILENAME, &o->table,
          "Measured times of compute kernels, CSV: op,gpu,dtype,shape,tokens,context,us", "FILE" },
        { "clock", 0, 0, G_OPTION_ARG_DOUBLE, &o->clock_ghz,
          "Clock of arithmetic, GHz (default: the GPU's under sustained load)", "GHZ" },
        { "layers", 0, 0, G_OPTION_ARG_STRING, &o->layers,
          "Layers with experts to simulate; further ones count as the last of them do (default: decode 12, prefill 4; "
          "all)",
          "N" },
        { "launches", 0, 0, G_OPTION_ARG_NONE, &a->launches, "The host launches each kernel (default: CUDA graphs)",
          NULL },
        { "no-contention", 0, 0, G_OPTION_ARG_NONE, &a->no_contention,
          "Kernels on one GPU share its SMs, but take nothing of each other's memory", NULL },
        { "spread", 0, 0, G_OPTION_ARG_DOUBLE, &o->spread_pct, "Deviation of the clocks of GPUs, percent (default 0)",
          "PCT" },
        { "jitter", 0, 0, G_OPTION_ARG_DOUBLE, &o->jitter_pct,
          "Deviation of the times of compute kernels, percent (default 0)", "PCT" },
        { "draws", 0, 0, G_OPTION_ARG_INT, &o->draws, "Draws of both: the answer is their median and range (default 1)",
          "N" },
        { 0 },
    };
    GOptionEntry own[] = {
        COMMAND_LINE_OUTPUT(&a->output,
                            "Write the record here; - is standard output (default, where that is no terminal)"),
        COMMAND_LINE_FORMAT(&a->format, "Of the record: csv (default) or json; text: a table instead"),
        { "explain", 0, 0, G_OPTION_ARG_NONE, &a->explain, "Say where the step's time goes", NULL },
        { "set", 0, 0, G_OPTION_ARG_STRING_ARRAY, &a->set,
          "Another value for a key of the cluster file, as in --set nic.rate=50GB/s (may be repeated)",
          "SECTION.KEY=VALUE" },
        { "over", 0, 0, G_OPTION_ARG_STRING_ARRAY, &a->over,
          "Steps for each of these values of an option (may be repeated: every combination): a table, or CSV",
          "NAME=VALUE,..." },
        COMMAND_LINE_JOBS(&a->jobs, "With --over: threads (default: one a core)"),
        { "timeline", 0, 0, G_OPTION_ARG_FILENAME, &a->timeline,
          "Write the kernels of every rank here, " TIMELINE_FILE_HELP, "FILE" },
        { 0 },
    };
    struct command_topic topics[CASE_TOPICS + TOPICS_OWN + 1] = { { "Step", step, false }, { "Options", own, false } };
    const struct command_line line = { .name = "step", .about = about, .details = details, .topics = topics };
    case_topics(c, topics + TOPICS_OWN);
    if (!command_line_parse(&line, argc, argv, NULL, error)) return false;
    o->graph = !a->launches;
    o->no_contention = a->no_contention;
    return arguments_check(c, a, error);
}

/* Runs every draw; the answer is that of the first. */
static bool draws_run(struct step_plan *plan, struct timeline_file *timeline, struct step_answer **answer,
                      double *total_ms, uint32_t draws, GError **error)
{
    for (uint32_t i = 0; i < draws; i++) {
        struct step_run *run = step_plan_run(plan, i, error);
        if (!run) return false;
        struct step_answer *one = step_answer_new(run, plan->layers);
        total_ms[i] = one->total_us / 1e3;
        if (i == 0 && timeline) step_timeline(timeline_file_timeline(timeline), run);
        step_run_free(run);
        if (i == 0) *answer = one;
        else step_answer_free(one);
    }
    return timeline_file_end(timeline, "step", error);
}

static bool results_write(const struct arguments *a, const struct step_plan *plan, const struct step_answer *answer,
                          const double *total_ms, uint32_t draws, struct record *record, GError **error)
{
    const bool text = a->format && strcmp(a->format, "text") == 0;
    const bool words = text || a->explain || (isatty(STDOUT_FILENO) && !a->format && !a->output);
    const enum record_format format = a->format && strcmp(a->format, "json") == 0 ? RECORD_JSON : RECORD_CSV;
    step_record(record, plan, answer, total_ms, draws);
    if (!text && (a->output || !words) && !record_write(record, a->output ? a->output : "-", format, error))
        return false;
    if (!words) return true;
    g_autoptr(GString) out = g_string_new(NULL);
    step_text_append(out, plan, answer, total_ms, draws, a->explain);
    return whole_file_write(text && a->output ? a->output : "-", out->str, out->len, error);
}

static bool over_run(const struct case_options *c, const struct arguments *a, const struct cluster *cluster,
                     GError **error)
{
    const bool text = a->format ? strcmp(a->format, "text") == 0 : !a->output && isatty(STDOUT_FILENO);
    const char *output = a->output ? a->output : "-";
    if (!new_file_possible(output, error)) return false;
    struct step_over *over =
        step_over_run((const char *const *)a->over, &a->step, c, cluster, (uint32_t)MAX(a->jobs, 0), error);
    if (!over) return false;
    g_autoptr(GString) out = g_string_new(NULL);
    if (text) step_over_text_append(out, over);
    else step_over_csv_append(out, over);
    step_over_free(over);
    return whole_file_write(output, out->str, out->len, error);
}

/* The record first and last the timeline's name: a record that cannot be written leaves no timeline. */
static bool run(const struct case_options *c, const struct arguments *a, const struct cluster *cluster,
                struct record *record, GError **error)
{
    const uint32_t draws = a->step.draws > 0 ? (uint32_t)a->step.draws : 1;
    if (!new_file_possible(a->output ? a->output : "-", error)) return false;
    struct timeline_file *timeline = a->timeline ? timeline_file_open(a->timeline, error) : NULL;
    if (a->timeline && !timeline) return false;
    struct step_plan plan;
    struct step_answer *answer = NULL;
    g_autofree double *total_ms = NULL;
    bool good = step_plan_make(&plan, &a->step, c, cluster, error);
    if (good) {
        total_ms = g_new0(double, draws);
        good = draws_run(&plan, timeline, &answer, total_ms, draws, error);
    }
    if (good) {
        record_set(record, "kind", "step");
        record_set(record, "version", "%s", eptwin_version());
        case_record(&plan.c, record);
        record_set(record, "cluster", "%s", cluster->name);
        good = results_write(a, &plan, answer, total_ms, draws, record, error);
    }
    step_answer_free(answer);
    step_plan_clear(&plan);
    return timeline_file_close(timeline, good, error);
}

int command_step(int argc, char **argv)
{
    struct case_options c;
    struct arguments a = { .step.leave_sms = -1 };
    GError *error = NULL;
    struct cluster *cluster = NULL;
    struct record *record = record_new();
    case_init(&c);
    const bool good = parse(&c, &a, argc, argv, &error) &&
                      (cluster = cluster_load_set(c.cluster, (const char *const *)a.set, &error)) != NULL &&
                      (a.over ? over_run(&c, &a, cluster, &error) : run(&c, &a, cluster, record, &error));
    const int status = good ? EXIT_OK : command_line_fail("step", error);
    char **const owned[] = { &a.step.net,      &a.step.work,   &a.step.gpu, &a.step.table, &a.step.phase,
                             &a.step.schedule, &a.step.layers, &a.output,   &a.format,     &a.timeline };
    for (size_t i = 0; i < G_N_ELEMENTS(owned); i++) g_free(*owned[i]);
    g_strfreev(a.set);
    g_strfreev(a.over);
    record_free(record);
    cluster_free(cluster);
    case_clear(&c);
    return status;
}
