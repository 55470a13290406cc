/* sweep_command.c - eptwin sweep: predictions over all combinations of values, in parts, resumed, merged, shown.
 *
 * Knows options, files and the processes that share the work.  sweep_*.c do the work. */
#include <glib.h>
#include <glib/gstdio.h>
#include <stdio.h>
#include <string.h>

#include "models/predict/sweep.h"
#include "reports/report.h"
#include "reports/whole_file.h"
#include "sim/command.h"
#include "sim/command_line.h"
#include "sim/new_file.h"
#include "sim/text.h"
#include "sim/version.h"

static const char sweep_about[] =
    "Predicts every combination of the given values of options and of cluster file keys.  Any option of simulate,\n"
    "and --set, takes a list (8,16,32) or a range that excludes its end (4:33:4, or 8:65:x2 by factors).  With\n"
    "--net or --work each point is a whole step, and any option of step takes several values, too.\n"
    "\n"
    "  eptwin sweep --cluster h800-cx7 --kernel normal --cached --num-ranks 8,16 --num-sms 4:33:4 --output sweep.csv\n"
    "      dispatch and combine by SMs, for two sizes; the best points and the Pareto front of SMs and time\n"
    "  eptwin sweep --cluster h800-cx7,h100-cx7 --set nic.rate=25GB/s,50GB/s --dtype fp8,bf16 --output sweep.csv \\\n"
    "               --baseline cluster=h800-cx7,nic.rate=50GB/s --best dispatch.slowest_us\n"
    "  eptwin sweep --cluster h800-cx7 --trace routing.ept --layer 0:3 --placement identity,greedy --compare "
    "placement\n"
    "      both placements side by side, for each layer\n"
    "  eptwin sweep --net deepseek-v3 --cluster h800-cx7 --num-ranks 32 --batch 32:257:x2 --schedule sequential,stages "
    "\\\n"
    "               --compare schedule --output pays.csv\n"
    "      from which batch size on two-batch overlap makes the step shorter\n"
    "  eptwin sweep show sweep.csv --best combine.logical_rdma_gbs --top 5";

static const char sweep_details[] =
    "Each finished point is saved (in FILE.part) and not run again: repeat the command after an interruption to\n"
    "continue.  Several machines can share the work, either with one shard each (a batch array) and `sweep\n"
    "merge`, or with MPI and a shared file system.  The result has the same bytes:\n"
    "\n"
    "  eptwin sweep ... --shard 3/16 --output part3.csv    then    eptwin sweep merge part*.csv --output sweep.csv\n"
    "  mpirun -n 16 eptwin sweep ... --output sweep.csv";

struct sweep_arguments {
    struct sweep_plan plan;
    GPtrArray *values; /* char *: option, values, option, values, ... as given */
    char **set, *baseline, *output, *best, *compare, *shard, *html;
    char **words;
    int jobs, top;
};

static bool sweep_parse(struct sweep_arguments *a, int argc, char **argv, GError **error)
{
    GOptionEntry own[] = {
        { "set", 0, 0, G_OPTION_ARG_STRING_ARRAY, &a->set, "Values for a key of the cluster file (may be repeated)",
          "SECTION.KEY=V,V,..." },
        { "baseline", 0, 0, G_OPTION_ARG_STRING, &a->baseline,
          "Baseline of the speedups (default: the first value of each setting)", "NAME=V,NAME=V" },
        { "best", 0, 0, G_OPTION_ARG_STRING, &a->best,
          "Metric that sorts the table (default layer.slowest_us: all kernels of dispatch and combine, by their "
          "slowest ranks; steps: step.slowest_us; collectives: of the longest phase)",
          "PHASE.METRIC" },
        { "compare", 0, 0, G_OPTION_ARG_STRING, &a->compare,
          "Show the values of this swept name side by side, for each combination of the others", "NAME" },
        { "top", 0, 0, G_OPTION_ARG_INT, &a->top, "Rows of the table (default 15)", "N" },
        COMMAND_LINE_OUTPUT(&a->output, "The file of results (default sweep.csv)"),
        { "html", 0, 0, G_OPTION_ARG_FILENAME, &a->html,
          "Write a page with curves and the Pareto front of SMs and time", "FILE" },
        COMMAND_LINE_JOBS(&a->jobs, "Threads (default: one per core; under MPI one)"),
        { "shard", 0, 0, G_OPTION_ARG_STRING, &a->shard, "Only every Nth point, from the Kth", "K/N" },
        { 0 },
    };
    struct command_topic topics[SWEEP_TOPICS + 2] = { { "Options", own, false } };
    const struct command_line line = { .name = "sweep",
                                       .arguments = "[show FILE | merge FILE...]",
                                       .about = sweep_about,
                                       .details = sweep_details,
                                       .topics = topics };
    sweep_entries_topics(&a->plan, a->values, topics + 1);
    if (!command_line_parse(&line, argc, argv, &a->words, error)) return false;
    if (a->top < 1) return error_input(error, "--top: expected a whole number from 1, found %d", a->top);
    struct sweep_goal goal = { 0 };
    const bool good = !a->best || sweep_goal_parse(a->best, &goal, error);
    sweep_goal_clear(&goal);
    return good;
}

/* ---- the plan ---- */

static bool plan_fill(struct sweep_arguments *a, GError **error)
{
    bool good = sweep_entries_add(&a->plan, a->values, error);
    for (char **set = a->set; good && set && *set; set++) {
        const char *equals = strchr(*set, '=');
        g_autofree char *name = equals ? g_strndup(*set, (gsize)(equals - *set)) : NULL;
        if (!name || !strchr(name, '.'))
            return error_input(error, "--set: expected SECTION.KEY=VALUES, found '%s'", *set);
        good = sweep_plan_add(&a->plan, name, true, equals + 1, error);
        if (!good) g_prefix_error(error, "--set: ");
    }
    a->plan.baseline = g_strdup(a->baseline);
    return good && sweep_plan_settle(&a->plan, error);
}

/* How many processes share the work, and this one's number. */
struct share {
    uint32_t index, count;
    bool mpi;
};

static bool number_of(const char *name, uint32_t *value)
{
    const char *text = g_getenv(name);
    guint64 number;
    if (!text || !g_ascii_string_to_unsigned(text, 10, 0, 1000000, &number, NULL)) return false;
    *value = (uint32_t)number;
    return true;
}

/* Open MPI, MPICH and Slurm tell each process its number in these variables. */
static struct share mpi_share(void)
{
    static const char *const names[][2] = {
        { "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE" },
        { "PMI_RANK", "PMI_SIZE" },
        { "SLURM_PROCID", "SLURM_STEP_NUM_TASKS" },
    };
    struct share share = { 0, 1, false };
    for (size_t i = 0; i < G_N_ELEMENTS(names) && share.count < 2; i++)
        if (!number_of(names[i][0], &share.index) || !number_of(names[i][1], &share.count) ||
            share.index >= share.count)
            share = (struct share){ 0, 1, false };
    share.mpi = share.count > 1;
    return share;
}

static bool share_find(const struct sweep_arguments *a, struct share *share, GError **error)
{
    *share = mpi_share();
    if (!a->shard) return true;
    g_auto(GStrv) part = g_strsplit(a->shard, "/", 0);
    guint64 index, count;
    if (g_strv_length(part) == 2 && text_whole(part[0], 1, 1000000, &index) &&
        text_whole(part[1], 1, 1000000, &count) && index <= count) {
        if (share->mpi) return error_input(error, "--shard: expected no MPI with it, found both");
        *share = (struct share){ (uint32_t)index - 1, (uint32_t)count, false };
        return true;
    }
    return error_input(error, "--shard: expected K/N with K from 1 to N, found '%s'", a->shard);
}

/* ---- running ---- */

static bool show(const struct sweep_arguments *a, const struct sweep_results *results, GError **error)
{
    struct sweep_goal goal;
    const char *phase = sweep_results_ranked_by(results);
    g_autofree char *usual = g_strconcat(phase ? phase : "layer", ".slowest_us", NULL);
    if (!sweep_goal_parse(a->best ? a->best : usual, &goal, error)) return false;
    g_autoptr(GString) text = g_string_new(NULL);
    const bool good = a->compare ? sweep_compare_append(results, &goal, a->compare, (uint32_t)a->top, text, error)
                                 : sweep_text_append(results, &goal, (uint32_t)a->top, text, error);
    if (good) fputs(text->str, stdout);
    sweep_goal_clear(&goal);
    return good;
}

/* The page must not have the name of the results, because it would replace them. */
static bool html_spares(const struct sweep_arguments *a, const char *path, GError **error)
{
    if (!a->html || new_file_spares(a->html, &path, 1, error)) return true;
    g_prefix_error(error, "--html: ");
    return false;
}

static void table_unref(gpointer table) { sweep_table_free(table); }

/* Ranks the page's points as --best says, if this is the time of one phase, which is all that a page shows. */
static void table_rank(const struct sweep_arguments *a, struct sweep_table *table)
{
    struct sweep_goal goal;
    if (!a->best || !sweep_goal_parse(a->best, &goal, NULL)) return;
    const int phase = goal.phase[1] ? -1 : sweep_table_phase(table, goal.phase[0]);
    if (phase >= 0 && strcmp(goal.metric, "slowest_us") == 0) table->goal = phase;
    sweep_goal_clear(&goal);
}

/* Writes the page of the results, if it is wanted. */
static bool html_write(const struct sweep_arguments *a, const char *path, GError **error)
{
    size_t size_bytes;
    if (!a->html) return true;
    g_autofree char *text = whole_file_read(path, SWEEP_FILE_BYTES_MAX, &size_bytes, error);
    struct sweep_table *table = text ? sweep_table_parse(path, text, error) : NULL;
    if (!table) return false;
    table_rank(a, table);
    const char *compared = a->compare ? case_option_find(a->compare) : NULL;
    if (a->compare) table->compare = sweep_table_name(table, compared ? compared : a->compare);
    g_autoptr(GPtrArray) cases = g_ptr_array_new(), sweeps = g_ptr_array_new_with_free_func(table_unref);
    g_ptr_array_add(sweeps, table);
    g_autoptr(GString) page = report_html(cases, sweeps, NULL, eptwin_version());
    return whole_file_write(a->html, page->str, page->len, error);
}

static char *share_path(const char *output, uint32_t index, const struct share *share)
{
    return g_strdup_printf("%s.%uof%u", output, index + 1, share->count);
}

/* Runs the points of a rank's share that are neither in the share's own file nor in the common file.  If another
 * process is running the share, does nothing. */
static bool share_run(const struct sweep_arguments *a, const struct sweep_run_options *common, uint32_t index,
                      const struct share *share, GError **error)
{
    g_autofree char *path = share_path(common->path, index, share);
    struct sweep_run_options options = *common;
    GError *problem = NULL;
    bool done = true;
    options.path = path;
    options.shard = index;
    options.quiet |= index != share->index;
    g_autoptr(sweep_results) results = sweep_results_new(&a->plan);
    bool good = sweep_results_add_file(results, common->path, error) && sweep_results_add_file(results, path, error);
    for (uint64_t i = index; good && done && i < sweep_plan_points(&a->plan); i += share->count)
        done = sweep_results_have(results, &a->plan, i);
    if (good && !done && !sweep_run(&a->plan, &options, results, &problem)) {
        good = g_error_matches(problem, SWEEP_ERROR, SWEEP_ERROR_BUSY);
        if (good) g_error_free(problem);
        else g_propagate_error(error, problem);
    }
    return good;
}

/* Runs this rank's share first, then shares that no process is running: those of ranks that have died or not begun. */
static bool shares_run(const struct sweep_arguments *a, const struct sweep_run_options *common,
                       const struct share *share, GError **error)
{
    for (uint32_t i = 0; i < share->count; i++)
        if (!share_run(a, common, (share->index + i) % share->count, share, error)) return false;
    return true;
}

/* On rank 0, goes on until the files of all ranks together have every point, and merges them. */
static bool ranks_gather(const struct sweep_arguments *a, const struct sweep_run_options *common,
                         const struct share *share, struct sweep_results *results, GError **error)
{
    const char *output = common->path;
    const uint64_t points = sweep_plan_points(&a->plan);
    for (;;) {
        bool all = true;
        if (!shares_run(a, common, share, error)) return false;
        for (uint32_t r = 0; r < share->count; r++) {
            g_autofree char *path = share_path(output, r, share);
            if (!sweep_results_add_file(results, path, error)) return false;
        }
        for (uint64_t i = 0; all && i < points; i++) all = sweep_results_have(results, &a->plan, i);
        if (all) break;
        g_usleep(100000);
    }
    if (!sweep_results_write(results, &a->plan, output, error)) return false;
    for (uint32_t r = 0; r < share->count; r++) {
        g_autofree char *path = share_path(output, r, share);
        g_unlink(path);
    }
    return true;
}

/* Runs the sweep.  Under MPI each share of the points has a file of its own, and points that the common file has are
 * not run again. */
static bool run(struct sweep_arguments *a, GError **error)
{
    const char *output = a->output ? a->output : "sweep.csv";
    struct share share;
    if (!plan_fill(a, error) || !share_find(a, &share, error) || !html_spares(a, output, error)) return false;
    if (strcmp(output, "-") == 0)
        return error_input(error, "--output: expected a file, because a sweep goes on from what it has");
    const struct sweep_run_options options = {
        .path = output,
        .shard = share.index,
        .shards = share.count,
        .quiet = share.index > 0,
        .jobs = a->jobs     ? (uint32_t)a->jobs
                : share.mpi ? 1
                            : g_get_num_processors(),
    };
    g_autoptr(sweep_results) results = sweep_results_new(&a->plan);
    bool good = !a->compare || sweep_compare_column(results, a->compare, error) > 0;
    if (good && !share.mpi) good = sweep_run(&a->plan, &options, results, error);
    else if (good && share.index > 0) good = shares_run(a, &options, &share, error);
    else if (good)
        good = sweep_results_add_file(results, output, error) && ranks_gather(a, &options, &share, results, error);
    if (good && (!share.mpi || share.index == 0)) good = show(a, results, error) && html_write(a, output, error);
    return good;
}

/* ---- merge and show ---- */

static bool merge(const struct sweep_arguments *a, GError **error)
{
    if (!a->words[1] || !a->output) return error_input(error, "merge: expected files and --output FILE");
    if (!html_spares(a, a->output, error)) return false;
    g_autoptr(sweep_results) all = sweep_results_read(a->words[1], error);
    bool good = all != NULL;
    for (char **path = a->words + 2; good && *path; path++) {
        good = g_file_test(*path, G_FILE_TEST_EXISTS) && sweep_results_add_file(all, *path, error);
        if (!good && error && !*error) error_input(error, "%s: cannot open: no such file", *path);
    }
    if (good && sweep_results_points(all) < all->points)
        good = error_input(error,
                           "merge: expected %" G_GUINT64_FORMAT " points, found %" G_GUINT64_FORMAT
                           ": a shard is missing or not done",
                           all->points, sweep_results_points(all));
    return good && sweep_results_write(all, NULL, a->output, error) && show(a, all, error) &&
           html_write(a, a->output, error);
}

static bool show_file(const struct sweep_arguments *a, GError **error)
{
    if (!a->words[1] || a->words[2]) return error_input(error, "show: expected one file");
    if (!html_spares(a, a->words[1], error)) return false;
    g_autoptr(sweep_results) results = sweep_results_read(a->words[1], error);
    return results && show(a, results, error) && html_write(a, a->words[1], error);
}

/* Refuses options of a run, which files of results are beyond. */
static bool shown_check(const struct sweep_arguments *a, GError **error)
{
    const char *const option = a->values->len                                  ? a->values->pdata[0]
                               : a->set                                        ? "set"
                               : a->baseline                                   ? "baseline"
                               : a->shard                                      ? "shard"
                               : a->jobs                                       ? "jobs"
                               : a->output && strcmp(a->words[0], "show") == 0 ? "output"
                                                                               : NULL;
    return !option || error_input(error, "%s: expected no option of a run with it, found --%s", a->words[0], option);
}

static bool dispatch_words(struct sweep_arguments *a, GError **error)
{
    if (!a->words[0]) return run(a, error);
    const bool merges = strcmp(a->words[0], "merge") == 0;
    if (!merges && strcmp(a->words[0], "show") != 0)
        return error_input(error, "expected options, show FILE or merge FILE..., found '%s'", a->words[0]);
    return shown_check(a, error) && (merges ? merge(a, error) : show_file(a, error));
}

int command_sweep(int argc, char **argv)
{
    GError *error = NULL;
    struct sweep_arguments a = { .top = 15, .values = g_ptr_array_new_with_free_func(g_free) };
    sweep_plan_init(&a.plan);
    const bool good = sweep_parse(&a, argc, argv, &error) && dispatch_words(&a, &error);
    sweep_plan_clear(&a.plan);
    g_ptr_array_unref(a.values);
    return good ? EXIT_OK : command_line_fail("sweep", error);
}
