/* sweep_run.c - runs the points of a sweep on all cores of this process.  Each point starts as soon as a core is
 * free, and its rows go to the part file in one write.
 *
 * Threads (on_cores.h) share the clusters.  Each keeps the load of its last point for the next one, because successive
 * points mostly have equal routing.  Knows plan and results; knows no command line. */
#include "models/predict/sweep.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "models/predict/estimate.h"
#include "models/predict/on_cores.h"
#include "models/predict/simulate.h"
#include "reports/compare.h"
#include "sim/new_file.h"

enum { TEMPORARY_CHARACTERS = 6 }; /* characters after the dot in the name of a temporary file */

struct sweep_threads {
    const struct sweep_plan *plan;
    const struct sweep_run_options *options;
    struct cluster **cluster;
    GArray *todo;     /* uint64_t: points */
    uint32_t threads; /* threads of a point: its share of the cores, if there are more cores than points */
    GMutex lock;      /* guards the fields that follow */
    bool failed;      /* error is set */
    int part;         /* the part file's descriptor; -1: there is no part file */
    const char *part_path;
    struct sweep_results *results;
    GError *error;
};

/* ---- one point ---- */

char *sweep_line_text(const struct sweep_plan *plan, uint64_t point, const char *const *cell)
{
    GString *line = g_string_new(NULL);
    g_string_append_printf(line, "%" G_GUINT64_FORMAT, point);
    for (guint i = 0; i < plan->names->len; i++)
        g_string_append_printf(line, ",%s", sweep_plan_value(plan, point, i)); /* has no comma */
    for (const char *const *c = cell; *c; c++) {
        g_autofree char *word = g_strdelimit(g_strdup(*c), ",\"\r\n", ';');
        g_string_append_printf(line, ",%s", word);
    }
    g_string_append_c(line, '\n');
    return g_string_free(line, FALSE);
}

char *sweep_problem_text(const struct sweep_plan *plan, uint64_t point, const char *problem)
{
    g_autoptr(GPtrArray) cells = g_ptr_array_new();
    for (const char *const *c = sweep_metric_columns(sweep_plan_of_steps(plan)); *c; c++)
        g_ptr_array_add(cells, (gpointer)(strcmp(*c, "phases") == 0 ? "1" : strcmp(*c, "problem") == 0 ? problem : ""));
    g_ptr_array_add(cells, NULL);
    return sweep_line_text(plan, point, (const char *const *)cells->pdata);
}

/* A phase's line.  Its slowest_us is the slowest rank's time_us_max. */
static char *phase_text(const struct sweep_plan *plan, uint64_t point, const struct record *record, const char *phase,
                        guint phases)
{
    g_autofree char *count = g_strdup_printf("%u", phases);
    g_autoptr(GPtrArray) cells = g_ptr_array_new();
    for (const char *const *c = sweep_metric_columns(false); *c; c++) {
        const char *metric = strcmp(*c, "slowest_us") == 0 ? "time_us_max" : *c;
        const struct record_row *row = record_find(record, phase, RECORD_ALL, metric);
        g_ptr_array_add(cells, (gpointer)(strcmp(*c, "phase") == 0    ? phase
                                          : strcmp(*c, "phases") == 0 ? count
                                          : row                       ? record_row_text(row)
                                                                      : ""));
    }
    g_ptr_array_add(cells, NULL);
    return sweep_line_text(plan, point, (const char *const *)cells->pdata);
}

/* A layer's line: the cost of dispatch and combine together, and what limits the longest of the kernels. */
static void layer_text(const struct sweep_plan *plan, uint64_t point, const struct record *record,
                       const struct compare_layer *layer, guint phases, GString *text)
{
    struct compare_layer mean;
    compare_layer_find(record, NULL, false, &mean);
    const bool combines = layer->longest_us[COMPARE_COMBINE] > layer->longest_us[COMPARE_DISPATCH];
    struct compare_limit limit;
    g_free(compare_layer_limit(record, layer->longest[combines], &limit));
    g_autoptr(record) sums = record_new();
    record_add(sums, "layer", RECORD_ALL, "time_us", mean.us[COMPARE_DISPATCH] + mean.us[COMPARE_COMBINE], "us");
    record_add(sums, "layer", RECORD_ALL, "time_us_max", layer->us[COMPARE_DISPATCH] + layer->us[COMPARE_COMBINE],
               "us");
    if (limit.resource) record_add_text(sums, "layer", RECORD_ALL, "bottleneck", limit.resource);
    if (limit.resource) record_add(sums, "layer", RECORD_ALL, "bottleneck_busy_pct", limit.busy_pct, "%");
    g_autofree char *line = phase_text(plan, point, sums, "layer", phases);
    g_string_append(text, line);
}

/* The rows of a point that is a case, as text.  problem: why the point is impossible; NULL: it is simulated.  Of wishes
 * only phases and threads count. */
static char *point_text(const struct sweep_plan *plan, uint64_t point, const struct cluster *cluster,
                        const struct case_options *c, const struct case_load *load, const GError *problem,
                        const struct simulate_wishes *wishes)
{
    GError *error = NULL;
    struct record *record = record_new();
    GString *text = g_string_new(NULL);
    if (!problem) simulate_load(c, cluster, load, wishes, record, &error);
    if (problem || error) {
        g_string_free(text, TRUE);
        char *line = sweep_problem_text(plan, point, problem ? problem->message : error->message);
        record_free(record);
        g_clear_error(&error);
        return line;
    }
    g_autoptr(GPtrArray) names = compare_phases(record);
    struct compare_layer layer;
    const guint phases = names->len + compare_layer_find(record, NULL, true, &layer);
    for (guint i = 0; i < names->len; i++) {
        g_autofree char *line = phase_text(plan, point, record, g_ptr_array_index(names, i), phases);
        g_string_append(text, line);
    }
    if (phases > names->len) layer_text(plan, point, record, &layer, phases, text);
    record_free(record);
    return g_string_free(text, FALSE);
}

/* ---- points, each on a thread ---- */

/* A thread's load of its previous point. */
struct load_memory {
    bool filled;
    struct case_options of;
    struct case_load load;
};

static void load_forget(void *data)
{
    struct load_memory *memory = data;
    if (memory->filled) case_load_free(&memory->load);
}

static bool load_recall(struct load_memory *memory, const struct case_options *c, GError **error)
{
    if (memory->filled && case_load_same(&memory->of, c)) return true;
    load_forget(memory);
    memory->filled = case_load(c, &memory->load, error);
    if (memory->filled) memory->of = *c;
    return memory->filled;
}

/* Writes all of the text; else *error says why not. */
static bool part_write(int part, const char *path, const char *text, size_t size_bytes, GError **error)
{
    for (size_t written = 0; written < size_bytes;) {
        const ssize_t n = write(part, text + written, size_bytes - written);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0)
            return error_run(error, "%s: cannot write: %s; the next run goes on from what it has", path,
                             g_strerror(n ? errno : EIO));
        written += (size_t)n;
    }
    return true;
}

/* Adds a point's rows to the results.  If there is a part file, first writes them there.  False if this write or an
 * earlier one failed. */
static bool point_keep(struct sweep_threads *t, const char *text)
{
    g_mutex_lock(&t->lock);
    const size_t size_bytes = strlen(text);
    assert(size_bytes > 0 && text[size_bytes - 1] == '\n'); /* lines must be complete, so that a cut line can be
                                                             * recognised */
    if (!t->failed && t->part >= 0) t->failed = !part_write(t->part, t->part_path, text, size_bytes, &t->error);
    const bool good = !t->failed;
    if (good) sweep_results_add_text(t->results, text);
    g_mutex_unlock(&t->lock);
    return good;
}

/* The rows of a point that is a case. */
static char *case_text(struct sweep_threads *t, struct load_memory *memory, uint64_t point,
                       const struct cluster *cluster)
{
    struct case_options c;
    g_autoptr(GError) problem = NULL;
    sweep_plan_case(t->plan, point, &c);
    case_cluster_settle(&c, cluster);
    load_recall(memory, &c, &problem);
    assert(memory->filled == !problem);
    const struct simulate_wishes wishes = { .phases = t->options->phases, .threads = t->threads };
    return point_text(t->plan, point, cluster, &c, &memory->load, problem, &wishes);
}

static bool point_run(void *context, uint32_t job, void *memory)
{
    struct sweep_threads *t = context;
    const uint64_t point = g_array_index(t->todo, uint64_t, job);
    assert(point < sweep_plan_points(t->plan));
    const struct cluster *cluster = t->cluster[sweep_plan_cluster_index(t->plan, point)];
    g_autofree char *text = sweep_plan_of_steps(t->plan) ? sweep_step_text(t->plan, point, cluster, t->threads)
                                                         : case_text(t, memory, point, cluster);
    return point_keep(t, text);
}

static void point_estimate(const struct sweep_threads *t, uint64_t point, uint32_t count, struct estimate_many *many)
{
    const struct cluster *cluster = t->cluster[sweep_plan_cluster_index(t->plan, point)];
    struct case_options c;
    sweep_plan_case(t->plan, point, &c);
    case_node_settle(&c, cluster->nvlink.gpus);
    if (sweep_plan_of_steps(t->plan)) sweep_step_estimate(t->plan, point, cluster, count, many);
    else estimate_many_add(many, &c, cluster, count);
}

/* Prints how long the points will take.  Estimates many points from some of them, because making a step's schedule
 * takes time. */
static void estimate_say(const struct sweep_threads *t, uint32_t jobs)
{
    enum { POINTS_SEEN = 4096, STEPS_SEEN = 16 };
    struct estimate_many many = { 0 };
    const guint seen = sweep_plan_of_steps(t->plan) ? STEPS_SEEN : POINTS_SEEN;
    const guint step = (t->todo->len + seen - 1) / seen;
    for (guint i = 0; i < t->todo->len; i += step)
        point_estimate(t, g_array_index(t->todo, uint64_t, i), MIN(step, t->todo->len - i), &many);
    estimate_many_print(&many, "sweep", jobs);
}

static void threads_run(struct sweep_threads *t)
{
    const uint32_t points = MAX(t->todo->len, 1), cores = MAX(t->options->jobs, 1), jobs = MIN(cores, points);
    t->threads = cores / points;
    if (!t->options->quiet) estimate_say(t, jobs);
    on_cores_run(&(struct on_cores){ .label = t->options->quiet ? NULL : "points",
                                     .jobs = t->todo->len,
                                     .cores = cores,
                                     .run = point_run,
                                     .context = t,
                                     .memory_bytes = sizeof(struct load_memory),
                                     .clear = load_forget });
}

/* ---- files ---- */

/* Whether a sweep may write and read this file.  A special file belongs to somebody else, and so does a link unless
 * `links` is set. */
static bool own_file(const char *path, bool links, GError **error)
{
    struct stat status;
    if ((links ? stat : lstat)(path, &status) != 0 || S_ISREG(status.st_mode)) return true;
    return error_input(error, "%s: expected a file or nothing, found %s", path,
                       S_ISLNK(status.st_mode)   ? "a symbolic link"
                       : S_ISDIR(status.st_mode) ? "a folder"
                                                 : "a pipe or a device");
}

/* Removes copies that killed sweeps left behind.  Their contents are in the file with the copy's name, or in the
 * part file. */
static void copies_remove(const char *copy)
{
    g_autofree char *folder = g_path_get_dirname(copy), *base = g_path_get_basename(copy);
    g_autofree char *begin = g_strconcat(base, ".", NULL);
    g_autoptr(GDir) all = g_dir_open(folder, 0, NULL);
    for (const char *name; all && (name = g_dir_read_name(all));) {
        g_autofree char *path = g_build_filename(folder, name, NULL);
        if (g_str_has_prefix(name, begin) && strlen(name) == strlen(begin) + TEMPORARY_CHARACTERS) g_unlink(path);
    }
}

static bool copy_write(const char *copy, const GString *text, GError **error)
{
    struct new_file *file = new_file_open(copy, error);
    if (!file) return false;
    if (new_file_write(file, text->str, text->len, error)) return new_file_commit(file, error);
    new_file_discard(file);
    return false;
}

/* Opens the part file for this process alone, and adds its points to the results.  Then rewrites the file with this
 * run's header and all known rows, so that it has no cut line. */
static bool part_open(struct sweep_threads *t, const char *part, GError **error)
{
    t->part = open(part, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    struct stat status;
    const bool locked = t->part >= 0 && flock(t->part, LOCK_EX | LOCK_NB) == 0;
    if ((!locked && t->part >= 0 && errno == EWOULDBLOCK) ||
        (locked && fstat(t->part, &status) == 0 && !status.st_nlink)) { /* the other sweep has just ended */
        g_set_error(error, SWEEP_ERROR, SWEEP_ERROR_BUSY, "%s: another sweep is writing it", part);
        return false;
    }
    if (!locked) return error_run(error, "%s: %s", part, g_strerror(errno));
    if (!sweep_results_add_file(t->results, part, error)) return false;
    g_autoptr(GString) text = g_string_new(NULL);
    g_autofree char *begin = sweep_results_begin(t->results);
    g_string_append(text, begin);
    for (guint i = 0; i < t->results->row->len; i++) {
        g_autofree char *line = g_strjoinv(",", g_ptr_array_index(t->results->row, i));
        g_string_append_printf(text, "%s\n", line);
    }
    /* Writes the file anew without the line that was cut.  A copy remains until that is done, so that a killed
     * process loses no rows. */
    g_autofree char *copy = g_strconcat(part, ".copy", NULL);
    copies_remove(copy);
    const bool good = copy_write(copy, text, error) && ftruncate(t->part, 0) == 0 &&
                      part_write(t->part, part, text->str, text->len, error);
    if (good) g_unlink(copy);
    return good;
}

static bool clusters_load(struct sweep_threads *t, GError **error)
{
    const uint32_t count = sweep_plan_clusters(t->plan);
    t->cluster = g_new0(struct cluster *, count + 1);
    for (uint32_t i = 0; i < count; i++)
        if (!(t->cluster[i] = sweep_plan_cluster(t->plan, i, error))) return false;
    return true;
}

static void todo_list(struct sweep_threads *t)
{
    const uint64_t points = sweep_plan_points(t->plan);
    t->todo = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    for (uint64_t i = t->options->shard; i < points; i += t->options->shards)
        if (!sweep_results_have(t->results, t->plan, i)) g_array_append_val(t->todo, i);
}

static void threads_clear(struct sweep_threads *t)
{
    for (uint32_t i = 0; t->cluster && t->cluster[i]; i++) cluster_free(t->cluster[i]);
    g_free(t->cluster);
    if (t->todo) g_array_unref(t->todo);
    if (t->part >= 0) close(t->part);
}

bool sweep_run(const struct sweep_plan *plan, const struct sweep_run_options *options, struct sweep_results *results,
               GError **error)
{
    g_autofree char *part = g_strconcat(options->path, ".part", NULL);
    g_autofree char *copy = g_strconcat(part, ".copy", NULL);
    struct sweep_threads t = { .plan = plan, .options = options, .results = results, .part = -1, .part_path = part };
    bool good = own_file(options->path, true, error) && own_file(part, false, error) && own_file(copy, false, error);
    good = good && clusters_load(&t, error) && sweep_results_add_file(results, options->path, error) &&
           sweep_results_add_file(results, copy, error) && part_open(&t, part, error);
    if (good) {
        todo_list(&t);
        threads_run(&t);
        good = t.error == NULL;
        if (!good) g_propagate_error(error, t.error);
    }
    good = good && sweep_results_write(results, plan, options->path, error);
    if (good) g_unlink(part);
    threads_clear(&t);
    return good;
}

bool sweep_run_points(const struct sweep_plan *plan, const GArray *points, uint32_t jobs, struct sweep_results *results,
                      GError **error)
{
    const struct sweep_run_options options = { .jobs = jobs };
    struct sweep_threads t = { .plan = plan, .options = &options, .results = results, .part = -1 };
    t.todo = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    for (guint i = 0; i < points->len; i++) {
        const uint64_t point = g_array_index(points, uint64_t, i);
        if (!sweep_results_have(results, plan, point)) g_array_append_val(t.todo, point);
    }
    const bool good = clusters_load(&t, error);
    if (good && t.todo->len) threads_run(&t);
    threads_clear(&t);
    return good;
}
