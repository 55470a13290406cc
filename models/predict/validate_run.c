/* validate_run.c - simulates the cases of a table on all cores.
 *
 * Workers are forked processes that take the next job from memory shared with the parent.  So they need no locks,
 * and a simulation that ends its process spoils only its own rows.  Knows rows, jobs and records; knows no file. */
#include "models/predict/validate.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "models/predict/accuracy.h"
#include "models/predict/simulate.h"
#include "reports/wait_matrix.h"
#include "sim/memory.h"
#include "sim/progress.h"

enum { TEXT_BYTES = 400, POLL_US = 5000 };

/* What a worker reports to the parent about a row. */
struct shared_row {
    double time_us, rate_gbs, share_pct;
    double kilobytes[2]; /* of dispatch, of combine */
    char posted_by[32], bottleneck[48];
    char problem[TEXT_BYTES];
};
struct shared_job {
    pid_t worker;
    bool done;
}; /* worker 0: no worker has taken the job */
struct shared {
    atomic_uint next, done;
    struct shared_row *row;
    struct shared_job *job;
};

struct run {
    struct validate_table *table;
    struct shared *shared;
    size_t shared_bytes;
    GHashTable *cluster; /* path and settings, one a line -> struct cluster */
    uint32_t *row_of;    /* indices of rows, grouped by job */
    uint32_t *row_start; /* [job_count + 1] where the rows of each job begin in row_of */
    uint32_t *order;     /* jobs, the heaviest first; of equally heavy ones, those with the same load follow one
                          * another */
    uint32_t *load;      /* [job_count] the first job with the same load */
    uint32_t threads;    /* threads of a job: its share of the workers, if there are more workers than jobs */
};

/* The key of a row's cluster in the table of clusters; freed by the caller. */
static char *cluster_key(const struct validate_row *row)
{
    g_autofree char *settings = row->settings ? g_strjoinv("\n", row->settings) : g_strdup("");
    return g_strdup_printf("%s\n%s", row->options.cluster, settings);
}

/* ---- one job, in a worker ---- */

static void phases_list(const struct record *record, char *text, size_t text_size)
{
    const char *last = "";
    for (uint32_t i = 0; i < record_row_count(record); i++) {
        const char *phase = record_row(record, i)->phase;
        if (strcmp(phase, last) == 0) continue;
        g_strlcat(text, *last ? ", " : "", text_size);
        g_strlcat(text, phase, text_size);
        last = phase;
    }
}

/* Adds one phase of a row to `out`.  Times add up, and so do the bytes of dispatch and combine.  Kernels that share the
 * bytes of either (dispatch_send and dispatch_recv) each have all of them, so the last kernel's with bytes count.  The
 * bottleneck is that of the last phase that takes longer than all phases before it together. */
static bool phase_predict(const struct validate_row *row, const char *phase, const char *rate_metric,
                          const struct record *record, struct shared_row *out)
{
    const char *time_metric = row->metric && !strstr(row->metric, "_gbs") ? row->metric : "time_us_median";
    const struct record_row *time = record_find(record, phase, RECORD_ALL, time_metric);
    const struct record_row *rate = record_find(record, phase, RECORD_ALL, rate_metric);
    const struct record_row *bottleneck = record_find(record, phase, RECORD_ALL, "bottleneck");
    if (!record_find(record, phase, RECORD_ALL, "time_us")) {
        char list[TEXT_BYTES / 2] = "";
        phases_list(record, list, sizeof list);
        g_snprintf(out->problem, TEXT_BYTES, "phase: expected one of %s, found '%.60s'", list, phase);
        return false;
    }
    if (!time || !rate) {
        g_snprintf(out->problem, TEXT_BYTES, "metric: expected one that the record has, found '%.60s'", row->metric);
        return false;
    }
    const double before_us = out->time_us;
    out->time_us += time->value;
    double *const kilobytes = &out->kilobytes[g_str_has_prefix(phase, "combine")];
    if (rate->value > 0) *kilobytes = rate->value * time->value;
    out->rate_gbs = out->time_us > 0 ? (out->kilobytes[0] + out->kilobytes[1]) / out->time_us : 0;
    if (time->value > before_us - row->outside_us)
        g_strlcpy(out->bottleneck, bottleneck ? record_row_text(bottleneck) : "", sizeof out->bottleneck);
    return true;
}

static void share_predict(const struct validate_row *row, const struct record *record, struct shared_row *out)
{
    double percent[WAIT_SHARES];
    const uint32_t share = wait_share_find(row->metric);
    const struct record_row *found = record_find(record, row->phase[0], RECORD_ALL, row->metric);
    if (found) out->share_pct = found->value;
    else if (share < WAIT_SHARES && wait_shares_find(record, row->phase[0], percent)) out->share_pct = percent[share];
    else
        g_snprintf(out->problem, TEXT_BYTES, "phase: expected one that has %s, found '%.60s'", row->metric,
                   row->phase[0]);
}

static void row_predict(const struct validate_row *row, const struct record *record, struct shared_row *out)
{
    if (validate_row_waits(row)) {
        share_predict(row, record, out);
        return;
    }
    const bool rate_named = row->metric && strstr(row->metric, "_gbs");
    const char *rate_metric = rate_named ? row->metric : case_rate_metric(&row->options);
    out->time_us = row->outside_us;
    for (char **phase = row->phase; *phase; phase++)
        if (!phase_predict(row, *phase, rate_metric, record, out)) return;
}

/* The load of the previous job, because successive cases of a sweep of SMs or chunks share it. */
struct load_memory {
    const struct case_options *of;
    struct case_load load;
};

static bool load_recall(struct load_memory *memory, const struct case_options *c, GError **error)
{
    if (memory->of && case_load_same(memory->of, c)) return true;
    case_load_free(&memory->load);
    memory->of = NULL;
    if (!case_load(c, &memory->load, error)) return false;
    memory->of = c;
    return true;
}

/* Adds one draw's prediction to the row's mean over draws. */
static void row_add(const struct validate_row *row, const struct cluster *cluster, const struct record *record,
                    struct shared_row *out)
{
    struct shared_row one = { 0 };
    row_predict(row, record, &one);
    out->time_us += one.time_us / row->seeds;
    out->rate_gbs += one.rate_gbs / row->seeds;
    out->share_pct += one.share_pct / row->seeds;
    g_strlcpy(out->posted_by, accuracy_poster(&row->options, record, cluster), sizeof out->posted_by);
    g_strlcpy(out->bottleneck, one.bottleneck, sizeof out->bottleneck);
    g_strlcpy(out->problem, one.problem, TEXT_BYTES);
}

/* Simulates one draw of the job.  False: it cannot be simulated, and the job's rows have got the reason. */
static bool draw_run(const struct run *run, uint32_t job, const struct case_options *c,
                     const struct simulate_wishes *wishes, struct load_memory *memory)
{
    const uint32_t start = run->row_start[job], end = run->row_start[job + 1];
    g_autoptr(record) record = record_new();
    g_autoptr(GError) error = NULL;
    g_autofree char *key = cluster_key(&run->table->row[run->row_of[start]]);
    const struct cluster *cluster = g_hash_table_lookup(run->cluster, key);
    const bool good =
        load_recall(memory, c, &error) && simulate_load(c, cluster, &memory->load, wishes, record, &error);
    for (uint32_t i = start; i < end; i++) {
        struct shared_row *out = &run->shared->row[run->row_of[i]];
        if (good) row_add(&run->table->row[run->row_of[i]], cluster, record, out);
        else g_strlcpy(out->problem, error->message, TEXT_BYTES);
    }
    return good;
}

/* Runs the draws after the first.  Each has a copy of the case with another seed, and so a load of its own. */
static void draws_run(const struct run *run, uint32_t job, const struct validate_row *row,
                      const struct simulate_wishes *wishes)
{
    bool good = true;
    for (uint32_t draw = 1; good && draw < row->seeds; draw++) {
        struct case_options c = row->options;
        struct load_memory memory = { 0 };
        c.seed += draw;
        good = draw_run(run, job, &c, wishes, &memory);
        case_load_free(&memory.load);
    }
}

static void job_run(const struct run *run, uint32_t job, struct load_memory *memory)
{
    const uint32_t start = run->row_start[job], end = run->row_start[job + 1];
    if (start == end) return; /* nothing is simulated for its rows */
    const struct validate_row *first = &run->table->row[run->row_of[start]];
    g_autoptr(GPtrArray) phases = g_ptr_array_new();
    bool waits = false;
    for (uint32_t i = start; i < end; i++) waits |= validate_row_waits(&run->table->row[run->row_of[i]]);
    for (uint32_t i = start; i < end; i++)
        for (char **phase = run->table->row[run->row_of[i]].phase; *phase; phase++) g_ptr_array_add(phases, *phase);
    g_ptr_array_add(phases, NULL);
    const struct simulate_wishes wishes = { .phases = (const char *const *)phases->pdata,
                                            .waits = waits,
                                            .threads = run->threads };
    if (draw_run(run, job, &first->options, &wishes, memory)) draws_run(run, job, first, &wishes);
}

static void worker_main(const struct run *run)
{
    const pid_t parent = getppid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    struct load_memory memory = { 0 };
    for (;;) {
        const uint32_t turn = atomic_fetch_add(&run->shared->next, 1);
        if (turn >= run->table->job_count) _exit(0);
        struct shared_job *job = &run->shared->job[run->order[turn]];
        job->worker = getpid();
        job_run(run, run->order[turn], &memory);
        job->done = true;
        atomic_fetch_add(&run->shared->done, 1);
    }
}

/* ---- the parent ---- */

/* Loads the clusters of all rows before workers are forked, so that the workers share the clusters. */
static void clusters_load(struct run *run)
{
    for (uint32_t i = 0; i < run->table->row_count; i++) {
        struct validate_row *row = &run->table->row[i];
        const char *path = row->options.cluster;
        if (validate_row_idle(row)) continue;
        GError *error = NULL;
        g_autofree char *key = cluster_key(row);
        struct cluster *cluster = path ? g_hash_table_lookup(run->cluster, key) : NULL;
        if (!cluster && path) {
            cluster = cluster_load_set(path, (const char *const *)row->settings, &error);
            if (cluster) g_hash_table_insert(run->cluster, g_steal_pointer(&key), cluster);
        }
        if (cluster) {
            case_cluster_settle(&row->options, cluster);
        } else {
            row->problem = g_strdup(error ? error->message : "cluster: expected a cluster file, found nothing");
            g_clear_error(&error);
        }
    }
}

static void rows_group(struct run *run)
{
    const struct validate_table *table = run->table;
    run->row_start = g_new0(uint32_t, table->job_count + 2);
    run->row_of = g_new(uint32_t, table->row_count);
    uint32_t *fill = run->row_start + 1; /* moves to the end of each job's rows, where the next job's rows begin */
    for (uint32_t i = 0; i < table->row_count; i++)
        if (!validate_row_idle(&table->row[i])) fill[table->row[i].job + 1]++;
    for (uint32_t j = 1; j <= table->job_count; j++) fill[j] += fill[j - 1];
    for (uint32_t i = 0; i < table->row_count; i++)
        if (!validate_row_idle(&table->row[i])) run->row_of[fill[table->row[i].job]++] = i;
}

/* The first row of the job.  NULL: nothing is simulated for the job's rows. */
static const struct validate_row *job_row(const struct run *run, uint32_t job)
{
    if (run->row_start[job] == run->row_start[job + 1]) return NULL;
    return &run->table->row[run->row_of[run->row_start[job]]];
}

static double job_weight(const struct run *run, uint32_t job)
{
    const struct validate_row *row = job_row(run, job);
    return row ? (double)(row->options.num_ranks + 1) * (row->options.num_tokens + 1) * row->seeds : 0;
}

static gint order_compare(gconstpointer a, gconstpointer b, gpointer context)
{
    const struct run *run = context;
    const uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;
    const double left = job_weight(run, one), right = job_weight(run, other);
    if (left != right) return left > right ? -1 : 1;
    if (run->load[one] != run->load[other]) return run->load[one] < run->load[other] ? -1 : 1;
    return one < other ? -1 : one > other;
}

/* Finds jobs that have the same load.  A large table may have thousands of loads, so each job is compared with a few
 * recent ones. */
static void loads_find(struct run *run)
{
    enum { RECENT = 64 };
    g_autofree uint32_t *first = g_new(uint32_t, run->table->job_count + 1); /* the first job of each load */
    uint32_t loads = 0;
    for (uint32_t j = 0; j < run->table->job_count; j++) {
        const struct validate_row *row = job_row(run, j);
        uint32_t i = loads > RECENT ? loads - RECENT : 0;
        run->load[j] = j;
        if (!row) continue;
        while (i < loads && !case_load_same(&job_row(run, first[i])->options, &row->options)) i++;
        if (i == loads) first[loads++] = j;
        run->load[j] = first[i];
    }
}

static bool run_init(struct run *run, struct validate_table *table, GError **error)
{
    *run = (struct run){ .table = table };
    run->cluster = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, (GDestroyNotify)cluster_free);
    clusters_load(run);
    rows_group(run);
    run->order = g_new(uint32_t, table->job_count + 1);
    run->load = g_new(uint32_t, table->job_count + 1);
    loads_find(run);
    for (uint32_t j = 0; j < table->job_count; j++) run->order[j] = j;
    g_qsort_with_data(run->order, (gint)table->job_count, sizeof *run->order, order_compare, run);
    const size_t row_bytes = table->row_count * sizeof(struct shared_row);
    run->shared_bytes = sizeof *run->shared + row_bytes + table->job_count * sizeof(struct shared_job);
    void *memory = mmap(NULL, run->shared_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return error_run(error, "%zu bytes shared with workers: %s", run->shared_bytes, g_strerror(errno));
    run->shared = memory;
    run->shared->row = (struct shared_row *)(run->shared + 1);
    run->shared->job = (struct shared_job *)(void *)((char *)run->shared->row + row_bytes);
    return true;
}

static void run_clear(struct run *run)
{
    if (run->shared) munmap(run->shared, run->shared_bytes);
    FREE_ALL(run->order, run->load, run->row_of, run->row_start);
    g_hash_table_destroy(run->cluster);
}

/* Gives up the job of a worker that ended too early.  The job's rows get the reason, and the job counts as done. */
static void job_abandon(struct run *run, pid_t worker, int status)
{
    for (uint32_t j = 0; j < run->table->job_count; j++) {
        struct shared_job *job = &run->shared->job[j];
        if (job->worker != worker || job->done) continue;
        for (uint32_t i = run->row_start[j]; i < run->row_start[j + 1]; i++)
            g_snprintf(run->shared->row[run->row_of[i]].problem, TEXT_BYTES, "the simulation ended its process: %s",
                       WIFSIGNALED(status) ? g_strsignal(WTERMSIG(status)) : "by an exit");
        job->done = true;
        atomic_fetch_add(&run->shared->done, 1);
    }
}

static pid_t worker_start(const struct run *run)
{
    const pid_t pid = fork();
    if (pid == 0) worker_main(run);
    return pid;
}

/* Keeps workers running until every job is done.  A worker that dies in a job is replaced while jobs remain. */
static bool workers_run(struct run *run, uint32_t workers, GError **error)
{
    const uint32_t jobs = run->table->job_count;
    struct progress *progress = progress_new("cases", jobs);
    uint32_t alive = 0, shown = 0;
    bool good = true;
    while (good && alive < MIN(workers, jobs)) {
        good = worker_start(run) > 0;
        alive += good;
    }
    if (!good) error_run(error, "cannot start a worker: %s", g_strerror(errno));
    while (alive > 0) {
        int status;
        const pid_t ended = waitpid(-1, &status, good ? WNOHANG : 0);
        if (ended == 0) g_usleep(POLL_US);
        const uint32_t done = atomic_load(&run->shared->done);
        progress_advance(progress, done - shown);
        shown = done;
        if (ended <= 0) continue;
        alive--;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
        job_abandon(run, ended, status);
        if (good && atomic_load(&run->shared->next) < jobs) alive += worker_start(run) > 0;
    }
    progress_free(progress);
    return good;
}

static void row_finish(struct validate_row *row, const struct shared_row *out)
{
    if (validate_row_idle(row)) return;
    g_clear_pointer(&row->problem, g_free); /* an earlier run may have set these strings */
    g_clear_pointer(&row->bottleneck, g_free);
    g_clear_pointer(&row->posted_by, g_free);
    if (*out->problem) {
        row->problem = g_strdup(out->problem);
        return;
    }
    row->posted_by = g_strdup(out->posted_by);
    if (validate_row_waits(row)) {
        row->predicted_pct = out->share_pct;
        row->error_pct = 100.0 * (100 + row->predicted_pct) / (100 + row->measured_pct) - 100;
        return;
    }
    row->predicted_us = out->time_us;
    row->predicted_gbs = out->rate_gbs;
    row->bottleneck = g_strdup(out->bottleneck);
    const double measured = isnan(row->measured_us) ? row->measured_gbs : row->measured_us;
    const double predicted = isnan(row->measured_us) ? row->predicted_gbs : row->predicted_us;
    row->error_pct = 100.0 * (predicted - measured) / measured;
}

bool validate_table_run(struct validate_table *table, uint32_t workers, GError **error)
{
    struct run run;
    bool good = run_init(&run, table, error);
    run.threads = workers / MAX(table->job_count, 1);
    good = good && workers_run(&run, workers, error);
    for (uint32_t i = 0; good && i < table->row_count; i++) row_finish(&table->row[i], &run.shared->row[i]);
    run_clear(&run);
    return good;
}
