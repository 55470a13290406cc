/* measure_command.c - `eptwin measure`: runs the micro-benchmarks of links and of this host on 2, 4, ... ranks, and
 * writes one record.  `eptwin fit` makes a cluster file from it. */
#include "replay/measure/measure.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include "replay/cuda/cuda_measure.h"
#include "sim/command.h"
#include "sim/command_line.h"
#include "sim/progress.h"
#include "sim/stats.h"

static const char about[] =
    "Measures what the simulator needs to predict a replay on this machine and link: writes, signals and atomics\n"
    "by size, work on rows, and all of that with 2, 4, ... ranks at once.  replay/README.md explains the rows of\n"
    "the record.\n"
    "\n"
    "With --fabric cuda it measures the NVIDIA GPUs of this machine (all, or --ranks of them) and their links\n"
    "instead. This takes about a minute and needs only the driver.\n"
    "\n"
    "Example: eptwin measure --fabric shm --ranks 8 --output here.csv\n"
    "         eptwin measure --fabric cuda --output gpus.csv\n"
    "Exit status: 0 done, 1 a run failed, 2 bad input.";

static struct live_world *world_open(const struct measure *m, bool link, enum live_signalling signalling,
                                     GError **error)
{
    const uint32_t ranks = m->bootstrap->rank_count;
    const uint64_t loop_bytes = !link && m->most ? measure_loop_heap_bytes(ranks) : 0;
    const struct fabric_needs needs = { .heap_bytes = 2 * (uint64_t)MEASURE_AREA_BYTES + loop_bytes,
                                        .word_count = MEASURE_WORDS,
                                        .queue_count = MEASURE_QUEUES,
                                        .queue_depth = MEASURE_QUEUE_DEPTH };
    struct live_options options = m->command->live;
    options.ranks_per_node = link ? 1 : ranks;
    options.signalling = signalling;
    return live_world_new(&options, &needs, m->bootstrap, error);
}

/* Opens the worlds.  The link's world is necessary.  The store world is missing if the ranks are on several hosts.
 * The atomic world needs 2 ranks, a store world, a link other than shm, and a device that has atomics. */
static bool worlds_open(struct measure *m, GError **error)
{
    m->link_world = world_open(m, true, m->command->live.signalling, error);
    if (!m->link_world) return false;
    m->store_world = world_open(m, false, LIVE_SIGNAL_WRITE, NULL);
    const bool shared = strcmp(m->command->live.fabric, "shm") == 0;
    if (m->store_world && !shared && m->bootstrap->rank_count == 2)
        m->atomic_world = world_open(m, true, LIVE_SIGNAL_ATOMIC, NULL);
    /* The errors would only say which features are missing.  If an exchange failed, this barrier reports it. */
    return bootstrap_barrier(m->bootstrap, error);
}

/* Keeps the names of the carriers of this run's bytes.  A later run, which is larger, replaces them. */
static void carriers_keep(const struct measure *m)
{
    g_strlcpy(m->rows->network_carrier, live_world_network_carrier(m->link_world), sizeof m->rows->network_carrier);
    g_strlcpy(m->rows->nvlink_carrier, m->store_world ? live_world_nvlink_carrier(m->store_world) : "none",
              sizeof m->rows->nvlink_carrier);
}

/* Takes one sample of each benchmark that runs on this number of ranks. */
static bool pass_run(struct measure *m, GError **error)
{
    char suffix[16];
    g_snprintf(suffix, sizeof suffix, "_x%u", m->bootstrap->rank_count);
    bool fine = true;
    if (m->bootstrap->rank_count == 2 || m->command->bootstrap)
        fine = measure_local_run(m, error) && measure_pair_run(m, error);
    if (m->memory) fine = fine && measure_memory_run(m, error);
    if (m->most) fine = fine && measure_load_run(m, suffix, error);
    if (m->most && m->store_world) fine = fine && measure_loop_run(m, suffix, error);
    return fine && measure_local_crowd_run(m, suffix, error) && measure_crowd_run(m, suffix, error);
}

/* Runs one pass.  Sets *contention to how busy the hosts were with other work meanwhile. */
static bool pass_watch(struct measure *m, uint32_t row_first, struct contention *contention, GError **error)
{
    struct contention_watch watch;
    m->row = row_first;
    return contention_begin(m->bootstrap, &watch, error) && pass_run(m, error) &&
           contention_end(m->bootstrap, &watch, contention, error);
}

/* Runs the passes.  A pass during which the machine was busy is repeated once.  If it was busy during the
 * repetition, too, no further pass is repeated, because other work that does not end would disturb each repetition.
 * All ranks decide alike.  Rank 0 counts disturbed and repeated passes, for the record. */
static bool passes_run(struct measure *m, uint32_t row_first, struct progress *progress, GError **error)
{
    bool hope = true;
    for (m->pass = 0; m->pass < m->repeat; m->pass++) {
        struct contention c;
        if (!pass_watch(m, row_first, &c, error)) return false;
        const bool again = hope && contention_busy(&c);
        if (again && !pass_watch(m, row_first, &c, error)) return false;
        hope = hope && !contention_busy(&c);
        progress_advance(progress, 1);
        if (m->bootstrap->rank != 0) continue;
        struct contention *worst = &m->rows->contention;
        if (!worst->running || c.others + c.steal > worst->others + worst->steal) *worst = c;
        m->rows->passes_disturbed += contention_busy(&c);
        m->rows->passes_repeated += again;
    }
    return true;
}

static bool measure_agree(const struct measure *m, struct bootstrap *b, GError **error)
{
    g_autoptr(GString) text = g_string_new(NULL);
    agree_add_command(text, m->command);
    agree_add_number(text, "repeat", m->repeat);
    agree_add_number(text, "sample-ms", m->sample_ms);
    return agree_run(b, text, error);
}

static bool measure_rank_main(struct bootstrap *b, void *context, GError **error)
{
    if (!measure_agree(context, b, error)) return false;
    struct measure m = *(const struct measure *)context;
    const uint32_t row_first = m.row;
    m.bootstrap = b;
    m.operations = g_new0(uint32_t, MEASURE_ROWS_MAX);
    bool fine = worlds_open(&m, error) && measure_pages_touch(&m, error);
    if (fine && b->rank == 0) carriers_keep(&m);
    /* Launchers bind each process to some CPUs of the host, so the number of CPUs is that of all processes together. */
    if (fine && m.command->bootstrap) m.command->cpus = live_world_cpus(m.link_world);
    g_autofree char *what = g_strdup_printf("passes of %u ranks", b->rank_count);
    struct progress *progress = b->rank == 0 ? progress_new(what, m.repeat) : NULL;
    fine = fine && passes_run(&m, row_first, progress, error);
    progress_free(progress);
    fine = fine && bootstrap_barrier(b, error);
    g_free(m.operations);
    g_free(m.sums);
    measure_loop_free(m.loop);
    live_world_free(m.atomic_world);
    live_world_free(m.store_world);
    live_world_free(m.link_world);
    return fine;
}

/* Runs 2, 4, 8, ... ranks, and last all of them.  Ranks that have joined others run only once, all together. */
static int ranks_run(struct measure *m, uint32_t ranks)
{
    m->memory = m->most = true;
    if (m->command->bootstrap) return live_command_run(m->command, ranks, measure_rank_main, m);
    cpu_set_t set;
    const uint32_t cpus = sched_getaffinity(0, sizeof set, &set) == 0 ? (uint32_t)CPU_COUNT(&set) : 1;
    int status = EXIT_OK;
    for (uint32_t n = 2; n < 2 * ranks && status == EXIT_OK; n *= 2) {
        const bool last = n >= ranks, first = n == 2;
        m->most = last;
        m->row = m->rows->count;
        m->memory = (n >= cpus && (first || n / 2 < cpus)) || (last && n < cpus);
        status = live_command_run(m->command, MIN(n, ranks), measure_rank_main, m);
    }
    return status;
}

/* Adds the median and spread of a row's samples, if any rank took part. */
static void record_row_add(const struct measure *m, uint32_t index, struct record *record)
{
    static const char *const spread[] = { "", "_min", "_max" };
    const struct measure_row *row = &m->rows->row[index];
    const double *sample = &m->rows->sample[(size_t)index * m->repeat];
    if (isnan(sample[0])) return;
    const double value[] = { stats_median(sample, m->repeat), stats_min(sample, m->repeat),
                             stats_max(sample, m->repeat) };
    for (uint32_t i = 0; i < G_N_ELEMENTS(spread); i++) {
        char metric[40];
        if (row->size_bytes) g_snprintf(metric, sizeof metric, "%s%s_%u", row->metric, spread[i], row->size_bytes);
        else g_snprintf(metric, sizeof metric, "%s%s", row->metric, spread[i]);
        record_add(record, row->phase, RECORD_ALL, metric, value[i], row->unit);
    }
}

static bool record_make(const struct measure *m, uint32_t ranks, GError **error)
{
    g_autoptr(record) record = record_new();
    static const struct bootstrap_ops forked = { .name = "fork" };
    const struct bootstrap b = { .ops = &forked };
    g_strlcpy(m->command->nvlink_carrier, m->rows->nvlink_carrier, sizeof m->command->nvlink_carrier);
    g_strlcpy(m->command->network_carrier, m->rows->network_carrier, sizeof m->command->network_carrier);
    live_command_record(m->command, m->command->bootstrap ? m->command->bootstrap : &b, record);
    record_set(record, "num-ranks", "%u", ranks);
    record_set(record, "repeat", "%u", m->repeat);
    record_set(record, "sample-ms", "%u", m->sample_ms);
    record_set(record, "put-chain", "%d", MEASURE_PUT_CHAIN);
    contention_record(&m->rows->contention, record);
    record_set(record, "passes-disturbed", "%u", m->rows->passes_disturbed);
    record_set(record, "passes-repeated", "%u", m->rows->passes_repeated);
    for (uint32_t i = 0; i < m->rows->count; i++) record_row_add(m, i, record);
    const char *output = m->command->output ? m->command->output : "-";
    return record_write(record, output, m->command->record_format, error);
}

/* Options that only --fabric cuda has. */
struct measure_choice {
    gboolean quick;
    char *only;
};

static bool cuda_asked(const struct measure *m) { return g_strcmp0(m->command->fabric, "cuda") == 0; }

/* Checks that the options fit the fabric.  With cuda, the options of other fabrics are refused.  With other fabrics,
 * those of cuda are refused. */
static bool fabric_check(struct measure *m, const struct measure_choice *choice, GError **error)
{
    struct live_command *c = m->command;
    if (!cuda_asked(m) && (choice->quick || choice->only))
        error_input(error, "--%s: expected --fabric cuda, found %s", choice->quick ? "quick" : "only",
                    c->fabric ? c->fabric : "shm");
    else if (!cuda_asked(m) && c->ranks == 1) error_input(error, "--ranks: expected at least 2, found 1");
    else if (cuda_asked(m)) return live_command_output_check(c, error);
    else return live_command_check(c, error);
    return false;
}

static bool options_parse(int argc, char **argv, struct measure *m, struct measure_choice *choice, GError **error)
{
    gint repeat = 5, sample_ms = 20;
    GOptionEntry own[] = {
        { "repeat", 0, 0, G_OPTION_ARG_INT, &repeat, "Passes, each with one sample of every value (default 5)", "N" },
        { "sample-ms", 0, 0, G_OPTION_ARG_INT, &sample_ms, "Duration of a sample in milliseconds (default 20)", "MS" },
        { "quick", 0, 0, G_OPTION_ARG_NONE, &choice->quick, "cuda: a third of the rows, shorter samples", NULL },
        { "only", 0, 0, G_OPTION_ARG_STRING, &choice->only,
          "cuda: run one part of the benchmarks (an unknown name lists them)", "PART" },
        { 0 },
    };
    g_autofree GOptionEntry *live = live_command_entries(m->command);
    const struct command_topic topics[] = { { "Options", own, false }, { "Links and processes", live, false }, { 0 } };
    const struct command_line line = { .name = "measure", .about = about, .topics = topics };
    const bool fine = command_line_parse(&line, argc, argv, NULL, error);
    m->repeat = (uint32_t)repeat;
    m->sample_ms = (uint32_t)sample_ms;
    if (!fine) return false;
    if (repeat < 1 || repeat > 1000)
        error_input(error, "--repeat: expected a whole number from 1 to 1000, found %d", repeat);
    else if (sample_ms < 1 || sample_ms > 60000)
        error_input(error, "--sample-ms: expected 1 to 60000, found %d", sample_ms);
    else return fabric_check(m, choice, error);
    return false;
}

static int cuda_run(const struct measure *m, const struct measure_choice *choice)
{
    const struct live_command *c = m->command;
    const struct cuda_measure_options options = {
        .gpus = c->ranks > 0 ? (uint32_t)c->ranks : 0, .repeat = m->repeat, .quick = choice->quick, .only = choice->only
    };
    cpu_set_t set;
    m->command->cpus = sched_getaffinity(0, sizeof set, &set) == 0 ? (uint32_t)CPU_COUNT(&set) : 1;
    g_autoptr(record) record = record_new();
    GError *error = NULL;
    live_command_record_machine(c, record);
    record_set(record, "fabric", "cuda");
    record_set(record, "repeat", "%u", m->repeat);
    record_set(record, "quick", "%s", choice->quick ? "true" : "false");
    int status = EXIT_OK;
    if (!cuda_measure_run(&options, record, &error)) status = live_command_fail(c, error);
    else if (!record_write(record, c->output ? c->output : "-", c->record_format, &error))
        status = live_command_fail(c, error);
    return status;
}

static int measure_run(struct measure *m)
{
    GError *error = NULL;
    if (!live_command_join(m->command, &error)) return live_command_fail(m->command, error);
    const struct bootstrap *b = m->command->bootstrap;
    const uint32_t ranks = b ? b->rank_count : m->command->ranks > 0 ? (uint32_t)m->command->ranks : 8;
    if (ranks < 2 || ranks > MEASURE_WORDS - 1) {
        error_input(&error, "ranks: expected 2 to %d, found %u", MEASURE_WORDS - 1, ranks);
        return live_command_fail(m->command, error);
    }
    const size_t rows_bytes = sizeof *m->rows + MEASURE_ROWS_MAX * m->repeat * sizeof m->rows->sample[0];
    m->rows = mmap(NULL, rows_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (m->rows == MAP_FAILED) {
        error_run(&error, "memory for samples: %s", g_strerror(errno));
        return live_command_fail(m->command, error);
    }
    int status = ranks_run(m, ranks);
    if (status == EXIT_OK && (!b || b->rank == 0) && !record_make(m, ranks, &error))
        status = live_command_fail(m->command, error);
    munmap(m->rows, rows_bytes);
    return status;
}

int command_measure(int argc, char **argv)
{
    struct live_command command = { .name = "measure" };
    struct measure m = { .command = &command };
    struct measure_choice choice = { 0 };
    GError *error = NULL;
    int status;
    if (!options_parse(argc, argv, &m, &choice, &error)) status = live_command_fail(&command, error);
    else status = cuda_asked(&m) ? cuda_run(&m, &choice) : measure_run(&m);
    bootstrap_free(command.bootstrap);
    return status;
}
