/* replay_command.c - `eptwin replay`: reads the options, decides what will run, and starts the ranks.  Wrong input
 * is found here, before any rank starts. */
#include "replay/replay.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "sim/command_line.h"
#include "sim/new_file.h"
#include "sim/timeline_file.h"
#include "sim/units.h"
#include "traces/trace.h"

enum { REPLAY_ITEMS_MAX = 100000, SCHEDULE_LAYERS_MAX = 1000, SCHEDULE_LAYERS_DEFAULT = 4 };

static const char about[] =
    "Runs the same dispatch and combine code as `eptwin simulate` with real bytes on real links, checks the data\n"
    "that arrive, and writes times and bandwidths like `simulate`.\n"
    "\n"
    "Ranks are forked on this host, started by mpirun/srun, or started one by one with --rank, --world-size,\n"
    "--root and --secret-file.  Ranks of one node (--ranks-per-node) use shared memory, others use --fabric.\n"
    "\n"
    "Example: eptwin replay --ranks 4 --trace routing.npy.zst --layers 0:3 --output measured.csv\n"
    "Exit status: 0 done, 1 a run or a check failed, 2 bad input.";

static bool list_parse(const char *name, const char *text, uint32_t limit, struct ranges *list, GError **error)
{
    if (ranges_parse(text, limit, REPLAY_ITEMS_MAX, list)) return true;
    return error_input(error, "--%s: expected " RANGES_GRAMMAR ", each once and below %u, found '%s'", name, limit,
                       text);
}

static uint32_t cpu_count(void)
{
    cpu_set_t cpus;
    return sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? (uint32_t)CPU_COUNT(&cpus) : 1;
}

/* Checks that the timeout of masking is at most half that of barriers.  A rank in a barrier may wait for a rank that
 * still waits for a dead rank.  The rank in the barrier must not give up first. */
static bool patience_check(const struct replay_plan *plan, const struct kernel_job *job, GError **error)
{
    const uint64_t most_ps = (uint64_t)plan->command->timeout_s * PS_PER_S / 2;
    if (job->mask_timeout_ps <= most_ps) return true;
    return error_input(error, "mask-timeout: expected at most half of --timeout %d s, found %s",
                       plan->command->timeout_s, plan->case_options->mask_timeout);
}

static bool item_make(const struct replay_plan *plan, struct replay_item *item, GError **error)
{
    struct case_options c = *plan->case_options;
    c.step = item->step;
    c.layer = item->layer;
    const uint32_t sms = case_host_sms(&c, cpu_count());
    return case_load(&c, &item->load, error) && (item->job = case_job(&c, &item->load, NULL, sms, error)) != NULL &&
           patience_check(plan, item->job, error);
}

/* Makes the items of the plan, sorted by step, then by layer. */
static bool items_make(struct replay_plan *plan, const struct ranges *steps, const struct ranges *layers,
                       GError **error)
{
    const uint64_t count = (uint64_t)steps->count * layers->count;
    if (count > REPLAY_ITEMS_MAX)
        return error_input(error, "--steps, --layers: expected at most %d in all, found %" G_GUINT64_FORMAT,
                           REPLAY_ITEMS_MAX, count);
    plan->item = g_new0(struct replay_item, count);
    for (uint32_t i = 0; i < count; i++) {
        struct replay_item *item = &plan->item[plan->item_count++];
        item->step = steps->number[i / layers->count];
        item->layer = layers->number[i % layers->count];
        if (!item_make(plan, item, error)) return false;
    }
    return true;
}

/* How many steps and layers the case's trace has. */
static bool trace_extent(const struct case_options *c, uint32_t *steps, uint32_t *layers, GError **error)
{
    const struct trace_options options = { .experts = c->num_experts, .weights_path = c->trace_weights };
    g_autoptr(trace) trace = trace_open(c->trace, &options, error);
    if (!trace) return false;
    *steps = trace_info(trace)->steps;
    *layers = trace_info(trace)->layers;
    return true;
}

static bool lists_make(const struct replay_plan *plan, struct ranges *steps, struct ranges *layers, GError **error)
{
    const struct case_options *c = plan->case_options;
    uint32_t steps_all, layers_all;
    if (!plan->steps) ranges_one(c->step, steps);
    if (!plan->layers) ranges_one(c->layer, layers);
    if (!plan->steps && !plan->layers) return true;
    if (!c->trace) return error_input(error, "--%s: needs --trace", plan->steps ? "steps" : "layers");
    return trace_extent(c, &steps_all, &layers_all, error) &&
           (!plan->steps || list_parse("steps", plan->steps, steps_all, steps, error)) &&
           (!plan->layers || list_parse("layers", plan->layers, layers_all, layers, error));
}

static bool plan_make(struct replay_plan *plan, GError **error)
{
    g_auto(ranges) steps = { 0 }, layers = { 0 };
    return lists_make(plan, &steps, &layers, error) && items_make(plan, &steps, &layers, error);
}

static void plan_clear(struct replay_plan *plan)
{
    for (uint32_t i = 0; i < plan->item_count; i++) {
        g_free(plan->item[i].job);
        case_load_free(&plan->item[i].load);
    }
    g_free(plan->item);
    schedule_free(plan->program);
}

/* Refuses options of a described machine and of simulated ranks: a replay runs on this host as it is, and its record
 * must not say otherwise. */
static bool machine_check(const struct replay_plan *plan, GError **error)
{
    static const char *const simulated[] = { "cluster", "loops", "fault", "launch", "arrival", "slow" };
    for (size_t i = 0; i < G_N_ELEMENTS(simulated); i++)
        if (case_option_given(plan->case_options, simulated[i]))
            return error_input(error, "--%s: expected none, as a replay runs on this host, found one", simulated[i]);
    return true;
}

/* The limit and the default of --timeline-spans. */
enum { TIMELINE_SPANS_MAX = 100000000, TIMELINE_SPANS_DEFAULT = 1000000 };

/* Checks the options of the timeline, which shows one iteration of one layer. */
static bool timeline_check(const struct replay_plan *plan, int spans, GError **error)
{
    const char *output = plan->command->output;
    if (spans < 1 || spans > TIMELINE_SPANS_MAX)
        return error_input(error, "--timeline-spans: expected a whole number from 1 to %d, found %d",
                           TIMELINE_SPANS_MAX, spans);
    if (!plan->timeline)
        return spans == TIMELINE_SPANS_DEFAULT ||
               error_input(error, "--timeline-spans: expected --timeline too, found none");
    if (plan->steps || plan->layers)
        error_input(error, "--timeline: expected one --step and one --layer, found several");
    else
        return new_file_apart("--timeline", plan->timeline, output, error) &&
               (plan->command->rank > 0 || new_file_possible(plan->timeline, error));
    return false;
}

static bool schedule_refuse(GError **error, const char *option, const char *expected, const char *found)
{
    return error_input(error, "--%s: expected %s, found %s", option, expected, found);
}

/* Applies the schedule to the case, in the same way as `eptwin step --work`. */
static bool schedule_check(struct replay_plan *plan, int layers, GError **error)
{
    struct case_options *c = plan->case_options;
    const char *kernel = case_kernel(c);
    if (!plan->schedule != !plan->work_text)
        return schedule_refuse(error, plan->schedule ? "work" : "schedule", "one with the other", "none");
    if (!plan->schedule) return layers == 0 || schedule_refuse(error, "schedule-layers", "--schedule too", "none");
    if (!step_overlap_parse(plan->schedule, &plan->overlap))
        return schedule_refuse(error, "schedule", "sequential, shared, two-batch or stages", plan->schedule);
    if (!program_work_parse(plan->work_text, &plan->work, error)) return false;
    if (!program_work_fits(&plan->work, plan->overlap, error)) return false;
    if (layers < 0 || layers > SCHEDULE_LAYERS_MAX)
        return schedule_refuse(error, "schedule-layers", "a whole number from 1 to 1000", "another");
    plan->schedule_layers = layers ? (uint32_t)layers : SCHEDULE_LAYERS_DEFAULT;
    if (!program_runs(kernel)) return schedule_refuse(error, "kernel", PROGRAM_KERNELS " in a schedule", kernel);
    if (plan->steps || plan->layers || plan->timeline || plan->waits || plan->metrics)
        return schedule_refuse(error, "schedule", "no --steps, --layers, --timeline, --waits or --metrics", "one");
    if (c->mask_timeout || c->fail) return schedule_refuse(error, "schedule", "no --mask-timeout or --fail", "one");
    if (plan->overlap == STEP_STAGES || plan->overlap == STEP_SHARED_ASIDE) c->hook |= strcmp(kernel, "ll") == 0;
    return true;
}

static bool metrics_check(const struct replay_plan *plan, GError **error)
{
    if (plan->predicted && !plan->metrics)
        return error_input(error, "--predicted: expected --metrics FILE too, found none");
    if (!plan->metrics || plan->command->rank > 0) return true;
    if (!new_file_apart("--metrics", plan->metrics, plan->command->output, error)) return false;
    g_autoptr(record) predicted = plan->predicted ? record_read(plan->predicted, error) : NULL;
    return (predicted || !plan->predicted) && new_file_possible(plan->metrics, error);
}

/* Sets the plan, the command and the case from the command line. */
static bool options_parse(int argc, char **argv, struct replay_plan *plan, GError **error)
{
    gint warmup = 3, repeat = 10, schedule_layers = 0, timeline_spans = TIMELINE_SPANS_DEFAULT;
    gboolean no_check = FALSE, check = FALSE, waits = FALSE;
    GOptionEntry own[] = {
        { "steps", 0, 0, G_OPTION_ARG_STRING, &plan->steps, "Steps of the trace: " RANGES_GRAMMAR, "STEPS" },
        { "layers", 0, 0, G_OPTION_ARG_STRING, &plan->layers, "Layers of the trace, likewise", "LAYERS" },
        { "warmup", 0, 0, G_OPTION_ARG_INT, &warmup, "Warm-up iterations, which are not counted (default 3)", "N" },
        { "repeat", 0, 0, G_OPTION_ARG_INT, &repeat, "Measured iterations (default 10)", "N" },
        { "waits", 0, 0, G_OPTION_ARG_NONE, &waits,
          "Also record how long each rank waits for each other rank, which eptwin report draws as a map", NULL },
        { "timeline", 0, 0, G_OPTION_ARG_FILENAME, &plan->timeline,
          "Write what every worker did and waited for in one extra iteration, which is not "
          "counted, " TIMELINE_FILE_HELP,
          "FILE" },
        { "timeline-spans", 0, 0, G_OPTION_ARG_INT, &timeline_spans,
          "With --timeline: keep the last N entries of all ranks together (default 1000000)", "N" },
        { "metrics", 0, 0, G_OPTION_ARG_FILENAME, &plan->metrics,
          "Write times and waits as OpenMetrics text, for monitoring", "FILE" },
        { "predicted", 0, 0, G_OPTION_ARG_FILENAME, &plan->predicted,
          "With --metrics: the record of a prediction; its errors are written, too", "RECORD" },
        { "schedule", 0, 0, G_OPTION_ARG_STRING, &plan->schedule,
          "Run a step's layers on streams, with --work instead of compute: sequential, shared, two-batch or stages, as "
          "in eptwin step",
          "NAME" },
        { "work", 0, 0, G_OPTION_ARG_STRING, &plan->work_text, "With --schedule: " PROGRAM_WORK_GRAMMAR, "TIMES" },
        { "schedule-layers", 0, 0, G_OPTION_ARG_INT, &schedule_layers, "With --schedule: layers (default 4)", "N" },
        { "check", 0, 0, G_OPTION_ARG_NONE, &check, "Check the data that arrive (the default)", NULL },
        { "no-check", 0, 0, G_OPTION_ARG_NONE, &no_check, "Do not check the data that arrive", NULL },
        { 0 },
    };
    g_autofree GOptionEntry *live = live_command_entries(plan->command);
    struct command_topic topics[CASE_TOPICS + 3] = { { "Options", own, false },
                                                     { "Links and processes", live, false } };
    const struct command_line line = { .name = "replay", .about = about, .topics = topics };
    case_topics(plan->case_options, topics + 2);
    bool fine = command_line_parse(&line, argc, argv, NULL, error);
    if (fine && (warmup < 0 || warmup > 1000000 || repeat < 1 || repeat > 1000000)) {
        const bool first = warmup < 0 || warmup > 1000000;
        error_input(error, "--%s: expected a whole number from %d to 1000000, found %d", first ? "warmup" : "repeat",
                    first ? 0 : 1, first ? warmup : repeat);
        fine = false;
    }
    plan->waits = waits;
    fine = fine && timeline_check(plan, timeline_spans, error);
    fine = fine && schedule_check(plan, schedule_layers, error);
    fine = fine && metrics_check(plan, error);
    plan->timeline_spans = (uint32_t)timeline_spans;
    plan->warmup = (uint32_t)warmup;
    plan->repeat = (uint32_t)repeat;
    plan->check = !no_check;
    return fine && machine_check(plan, error) && live_command_check(plan->command, error);
}

/* Checks that --num-ranks is the number of ranks that --ranks, --world-size or mpirun gives. */
static bool ranks_settle(struct replay_plan *plan, GError **error)
{
    const struct live_command *command = plan->command;
    struct case_options *c = plan->case_options;
    const uint32_t given = command->bootstrap ? command->bootstrap->rank_count : (uint32_t)MAX(command->ranks, 0);
    if (given && c->num_ranks && c->num_ranks != given)
        return error_input(error, "--num-ranks: expected the run's %u ranks, found %u", given, c->num_ranks);
    if (given) c->num_ranks = given;
    return true;
}

/* Sets *count to the number of ranks on the host of rank 0.  Collective.  Ranks of a host must have consecutive
 * numbers. */
static bool ranks_local_count(struct bootstrap *b, uint32_t *count, GError **error)
{
    char name[HOST_NAME_MAX + 1] = "";
    (void)gethostname(name, HOST_NAME_MAX);
    char(*all)[sizeof name] = g_malloc0_n(b->rank_count, sizeof name);
    const bool fine = bootstrap_allgather(b, name, sizeof name, all, error);
    for (*count = 0; fine && *count < b->rank_count && strcmp(all[*count], all[0]) == 0; (*count)++) continue;
    g_free(all);
    return fine;
}

/* Makes the ranks of a host one node, unless the user gave another number. */
static bool node_settle(struct replay_plan *plan, GError **error)
{
    uint32_t local = 0;
    if (plan->command->bootstrap && !ranks_local_count(plan->command->bootstrap, &local, error)) return false;
    case_node_settle(plan->case_options, local);
    return true;
}

/* Refuses a network if no rank would use it, because the record would name a network that carried nothing. */
static bool network_check(const struct replay_plan *plan, GError **error)
{
    const struct kernel_job *job = plan->item[0].job;
    if (strcmp(plan->command->live.fabric, "shm") == 0 || case_peers_by_rdma(plan->case_options) ||
        job->ranks > job->ranks_per_node)
        return true;
    return error_input(error,
                       "--fabric %s: expected ranks of different nodes, that it connects, found %u of one node: add "
                       "--ranks-per-node%s",
                       plan->command->live.fabric, job->ranks,
                       case_kernel_in(plan->case_options, "normal") ? "" : " or --disable-nvlink");
}

static bool program_make(struct replay_plan *plan, GError **error)
{
    if (!plan->schedule) return true;
    const struct schedule_layers layers = program_work_layers(&plan->work, plan->schedule_layers);
    plan->program = program_new(plan->overlap, &layers, plan->case_options, plan->item[0].job, NULL, error);
    return plan->program != NULL;
}

static int replay_run(struct replay_plan *plan)
{
    GError *error = NULL;
    if (!live_command_join(plan->command, &error)) return live_command_fail(plan->command, error);
    if (!ranks_settle(plan, &error) || !node_settle(plan, &error) || !plan_make(plan, &error) ||
        !network_check(plan, &error) || !program_make(plan, &error)) {
        if (plan->command->bootstrap) bootstrap_abort(plan->command->bootstrap, error->message);
        return live_command_fail(plan->command, error);
    }
    g_autofree char *note = case_note(plan->case_options);
    if (note && (!plan->command->bootstrap || plan->command->bootstrap->rank == 0))
        fprintf(stderr, "eptwin replay: note: %s\n", note);
    return live_command_run(plan->command, plan->item[0].job->ranks, replay_rank_main, plan);
}

int command_replay(int argc, char **argv)
{
    struct case_options c;
    case_init(&c);
    struct live_command command = { .name = "replay" };
    struct replay_plan plan = { .command = &command, .case_options = &c };
    GError *error = NULL;
    const int status =
        options_parse(argc, argv, &plan, &error) ? replay_run(&plan) : live_command_fail(&command, error);
    plan_clear(&plan);
    bootstrap_free(command.bootstrap);
    return status;
}
