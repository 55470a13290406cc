/* tune_command.c - eptwin tune: how many SMs, which chunks and which rings suit a cluster and a routing, as lines to
 * paste.
 *
 * A trial is one simulation of one setting of dispatch and one of combine, which do not depend on each other.  The
 * search starts on a coarse grid with all SMs allowed and moves to better neighbours until there are none.  Then it
 * removes SMs and ring slots as long as the time stays within the slack.  Knows no hardware and no protocol. */
#include <glib.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "models/predict/on_cores.h"
#include "models/predict/simulate.h"
#include "models/predict/tune.h"
#include "reports/compare.h"
#include "reports/text_table.h"
#include "sim/command.h"
#include "sim/command_line.h"
#include "sim/units.h"

static const char tune_about[] =
    "Finds the best number of SMs, chunk sizes and ring slots of the normal kernels for a cluster and a routing\n"
    "(for V2: the number of SMs), by the slowest rank's times, and prints them as lines to paste.  With --net or\n"
    "--work it finds the options of a whole step with the most tokens per second: the schedule, the SMs, and\n"
    "every option that has several values, as in a sweep.\n"
    "\n"
    "  eptwin tune --cluster h800-cx7 --kernel normal --num-ranks 16 --cached\n"
    "  eptwin tune --cluster h800-cx7 --kernel normal --trace routing.npy.zst --layer 3 --max-sms 20\n"
    "  eptwin tune --net deepseek-v3 --cluster h800-cx7 --num-ranks 64,128 --batch 32:257:x2 --limit 50ms\n"
    "      the ranks, batch and schedule with the most tokens per second and steps of at most 50 ms";

static const char tune_details[] =
    "The recommendation has the fewest SMs, and then the smallest rings, with which dispatch and combine together\n"
    "take at most --slack percent more than the best that was found.  For steps the same slack applies.\n"
    "--num-sms fixes the number of SMs.";

enum { SMS_MAX_DEFAULT = 24, SMS_OPEN = G_MININT, NEIGHBOUR_ROUNDS = 4 };
static const double ring_slack = 0.005;

enum { DISPATCH, COMBINE, PHASES };
enum { NVL_CHUNK, RDMA_CHUNK, NVL_RING, RDMA_RING, VALUES };

/* The settings of one kernel. */
struct setting {
    uint32_t sms, value[VALUES];
};
struct tried {
    struct setting setting;
    double us;
}; /* us NAN: the kernels refuse the setting */

struct tune {
    struct case_options base;
    struct cluster *cluster;
    struct case_load load;
    bool internode, v2;
    uint32_t max_sms; /* 0: not known yet */
    uint32_t jobs;
    double slack;
    GArray *tried[PHASES];           /* struct tried */
    GArray *wanted[PHASES];          /* struct setting: the next trials */
    struct setting standard[PHASES]; /* the library's recommendation */
    double standard_us[PHASES];
    uint32_t trials;
};

static const char *const phase_names[PHASES] = { "dispatch", "combine" };

/* ---- trials ---- */

static const struct tried *tried_find(const struct tune *t, int phase, const struct setting *setting)
{
    for (guint i = 0; i < t->tried[phase]->len; i++) {
        const struct tried *tried = &g_array_index(t->tried[phase], struct tried, i);
        if (memcmp(&tried->setting, setting, sizeof *setting) == 0) return tried;
    }
    return NULL;
}

static void want(struct tune *t, int phase, const struct setting *setting)
{
    for (guint i = 0; i < t->wanted[phase]->len; i++)
        if (memcmp(&g_array_index(t->wanted[phase], struct setting, i), setting, sizeof *setting) == 0) return;
    if (!tried_find(t, phase, setting)) g_array_append_val(t->wanted[phase], *setting);
}

static void setting_apply(struct case_options *c, int phase, const struct setting *s)
{
    uint32_t *const place[PHASES][VALUES] = {
        { &c->nvl_chunk, &c->rdma_chunk, &c->nvl_buffer, &c->rdma_buffer },
        { &c->combine_nvl_chunk, &c->combine_rdma_chunk, &c->combine_nvl_buffer, &c->combine_rdma_buffer },
    };
    for (int i = 0; i < VALUES; i++) *place[phase][i] = s->value[i];
}

/* Sets us[] to what dispatch and combine cost a layer (compare_layer.c): each with the kernels that prepare or end it.
 * NAN if the kernels refuse the settings. */
static void trial_run(const struct tune *t, const struct setting setting[PHASES], double us[PHASES])
{
    struct case_options c = t->base;
    g_autoptr(record) record = record_new();
    c.num_sms = setting[DISPATCH].sms;
    for (int p = 0; p < PHASES; p++) setting_apply(&c, p, &setting[p]);
    struct compare_layer layer;
    const bool good =
        simulate_phases(&c, t->cluster, &t->load, NULL, record, NULL) && compare_layer_find(record, NULL, true, &layer);
    for (int p = 0; p < PHASES; p++) us[p] = good ? layer.us[p == COMBINE ? COMPARE_COMBINE : COMPARE_DISPATCH] : NAN;
}

struct trial {
    struct setting setting[PHASES];
    double us[PHASES];
};
struct trials {
    struct tune *tune;
    GArray *list;
};

static bool trials_job(void *context, uint32_t job, void *memory)
{
    const struct trials *trials = context;
    struct trial *trial = &g_array_index(trials->list, struct trial, job);
    (void)memory;
    trial_run(trials->tune, trial->setting, trial->us);
    return true;
}

/* Makes trials of the wanted settings: each pairs a setting of dispatch with one of combine that has equal SMs.  A
 * setting without a partner is paired with the standard one. */
static GArray *trials_pair(struct tune *t)
{
    GArray *list = g_array_new(FALSE, TRUE, sizeof(struct trial));
    for (int p = 0; p < PHASES; p++)
        for (guint i = 0; i < t->wanted[p]->len; i++) {
            const struct setting *setting = &g_array_index(t->wanted[p], struct setting, i);
            struct trial *free_one = NULL;
            for (guint k = 0; p == COMBINE && k < list->len && !free_one; k++) {
                struct trial *trial = &g_array_index(list, struct trial, k);
                if (!trial->setting[COMBINE].sms && trial->setting[DISPATCH].sms == setting->sms) free_one = trial;
            }
            if (free_one) {
                free_one->setting[COMBINE] = *setting;
                continue;
            }
            struct trial trial = { 0 };
            trial.setting[p] = *setting;
            g_array_append_val(list, trial);
        }
    return list;
}

/* Simulates the wanted trials.  If a trial is refused because of one of its settings, each setting is tried alone to
 * find out which. */
static void trials_run(struct tune *t)
{
    g_autoptr(GArray) list = trials_pair(t);
    for (guint i = 0; i < list->len; i++) {
        struct trial *trial = &g_array_index(list, struct trial, i);
        for (int p = 0; p < PHASES; p++)
            if (!trial->setting[p].sms) {
                trial->setting[p] = t->standard[p];
                trial->setting[p].sms = trial->setting[1 - p].sms;
            }
    }
    struct trials trials = { t, list };
    on_cores_run(&(struct on_cores){ "trials", list->len, t->jobs, trials_job, .context = &trials });
    for (guint i = 0; i < list->len; i++) {
        struct trial *trial = &g_array_index(list, struct trial, i);
        for (int p = 0; p < PHASES; p++) {
            if (isnan(trial->us[p])) {
                struct trial alone = *trial;
                alone.setting[1 - p] = t->standard[1 - p];
                alone.setting[1 - p].sms = alone.setting[p].sms;
                trial_run(t, alone.setting, alone.us);
                trial->us[p] = alone.us[p];
            }
            const struct tried tried = { trial->setting[p], trial->us[p] };
            if (!tried_find(t, p, &tried.setting)) g_array_append_val(t->tried[p], tried);
        }
    }
    t->trials += list->len;
    for (int p = 0; p < PHASES; p++) g_array_set_size(t->wanted[p], 0);
}

/* The best setting of a phase with `sms` SMs. */
static const struct tried *best_find(const struct tune *t, int phase, uint32_t sms)
{
    const struct tried *best = NULL;
    for (guint i = 0; i < t->tried[phase]->len; i++) {
        const struct tried *tried = &g_array_index(t->tried[phase], struct tried, i);
        if (isnan(tried->us) || tried->setting.sms != sms) continue;
        if (!best || tried->us < best->us) best = tried;
    }
    return best;
}

/* ---- the search ---- */

struct range {
    uint32_t least, most, step;
};

/* The range of a value that the library's public tests try. */
static struct range range_of(const struct tune *t, int phase, int value)
{
    static const struct range intra[PHASES] = { { 4, 32, 2 }, { 1, 16, 1 } };
    static const struct range inter[PHASES][2] = { { { 4, 44, 4 }, { 4, 32, 4 } }, { { 1, 7, 1 }, { 8, 32, 4 } } };
    if (t->internode) return inter[phase][value];
    return value == NVL_CHUNK ? intra[phase] : (struct range){ 0, 0, 1 };
}

/* Spreads `parts` values over a range, and returns value number `part`.  Both ends are among them, because the best
 * value is often at an end. */
static uint32_t coarse(const struct range *range, uint32_t part, uint32_t parts)
{
    const uint32_t steps = (range->most - range->least) / range->step;
    return range->least + (parts > 1 ? part * steps / (parts - 1) : 0) * range->step;
}

static void grid_want(struct tune *t, uint32_t sms)
{
    const uint32_t nvl_parts = t->internode ? 4 : 6, rdma_parts = t->internode ? 3 : 1;
    for (int p = 0; p < PHASES; p++)
        for (uint32_t i = 0; i < nvl_parts; i++)
            for (uint32_t k = 0; k < rdma_parts; k++) {
                struct setting setting = t->standard[p];
                const struct range nvl = range_of(t, p, NVL_CHUNK), rdma = range_of(t, p, RDMA_CHUNK);
                setting.sms = sms;
                setting.value[NVL_CHUNK] = coarse(&nvl, i, nvl_parts);
                if (t->internode) setting.value[RDMA_CHUNK] = coarse(&rdma, k, rdma_parts);
                want(t, p, &setting);
            }
}

/* Asks for the neighbours of a setting: those with one chunk that is one step larger or smaller. */
static void neighbours_want(struct tune *t, int phase, const struct setting *around)
{
    for (int v = NVL_CHUNK; v <= (t->internode ? RDMA_CHUNK : NVL_CHUNK); v++) {
        const struct range range = range_of(t, phase, v);
        struct setting setting = *around;
        if (around->value[v] >= range.least + range.step) {
            setting.value[v] = around->value[v] - range.step;
            want(t, phase, &setting);
        }
        if (around->value[v] + range.step <= range.most) {
            setting.value[v] = around->value[v] + range.step;
            want(t, phase, &setting);
        }
    }
}

/* Tries the neighbours of the best settings with `sms` SMs, until there are no untried ones, at most `rounds` times. */
static void chunks_refine(struct tune *t, uint32_t sms, int rounds)
{
    for (int round = 0; round < rounds; round++) {
        for (int p = 0; p < PHASES; p++) {
            const struct tried *best = best_find(t, p, sms);
            if (best) neighbours_want(t, p, &best->setting);
        }
        if (!t->wanted[DISPATCH]->len && !t->wanted[COMBINE]->len) return;
        trials_run(t);
    }
}

static double both_us(const struct tune *t, uint32_t sms)
{
    const struct tried *dispatch = best_find(t, DISPATCH, sms), *combine = best_find(t, COMBINE, sms);
    return dispatch && combine ? dispatch->us + combine->us : NAN;
}

static void sms_scan(struct tune *t)
{
    const uint32_t wide = t->max_sms > 32 ? 4 : 2; /* the step from 16 SMs on */
    for (uint32_t next = 2, sms = 0; sms < t->max_sms; next = sms + (sms < 16 ? 2 : wide)) {
        sms = MIN(next, t->max_sms);
        for (int p = 0; p < PHASES; p++) {
            const struct tried *best = best_find(t, p, t->max_sms);
            struct setting setting = best ? best->setting : t->standard[p];
            setting.sms = sms;
            want(t, p, &setting);
        }
    }
    trials_run(t);
}

/* The smallest number of SMs with which dispatch and combine together take longer than the best by at most the slack, a
 * share. */
static uint32_t sms_choose(const struct tune *t)
{
    double best = INFINITY;
    for (uint32_t sms = 2; sms <= t->max_sms; sms++) best = fmin(best, both_us(t, sms));
    for (uint32_t sms = 2; sms <= t->max_sms; sms++)
        if (both_us(t, sms) <= best * (1 + t->slack)) return sms;
    return t->max_sms;
}

/* Chooses the smallest ring with which the phase takes at most ring_slack longer than with the best ring. */
static void ring_choose(struct tune *t, int phase, int ring, struct setting *chosen)
{
    static const uint32_t slots[] = { 16, 32, 64, 128, 192, 256, 384, 512, 768 };
    for (size_t i = 0; i < G_N_ELEMENTS(slots); i++) {
        struct setting setting = *chosen;
        setting.value[ring] = slots[i];
        if (slots[i] > chosen->value[ring - NVL_RING]) want(t, phase, &setting);
    }
    trials_run(t);
    double best = tried_find(t, phase, chosen)->us;
    const double own = best;
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < G_N_ELEMENTS(slots); i++) {
            struct setting setting = *chosen;
            setting.value[ring] = slots[i];
            const struct tried *tried = tried_find(t, phase, &setting);
            if (!tried || isnan(tried->us)) continue;
            if (pass == 0) best = fmin(best, tried->us);
            else if (tried->us <= MIN(best * (1 + ring_slack), own * (1 + ring_slack))) {
                *chosen = setting;
                return;
            }
        }
}

/* The options with the library's defaults; for V2 also its choice of SMs. */
static bool options_find(const struct tune *t, struct moe_options *o, GError **error)
{
    struct case_options c = t->base;
    g_autofree struct kernel_job *job = NULL;
    if (!c.num_sms && !t->v2) c.num_sms = MIN(SMS_MAX_DEFAULT, MAX(t->cluster->gpu.sms, 2));
    if (!case_moe_options(&c, &t->load.routing, t->cluster->gpu.sms, o, error)) return false;
    if (!t->v2) return true;
    if (!(job = case_job(&c, &t->load, t->cluster, t->cluster->gpu.sms, error))) return false;
    o->num_sms = job->num_sms;
    return true;
}

/* Finds and tries the library's defaults for both phases, with the library's number of SMs. */
static bool standard_find(struct tune *t, GError **error)
{
    struct moe_options o;
    if (!options_find(t, &o, error)) return false;
    if (!t->max_sms) t->max_sms = t->v2 ? MAX(o.num_sms / 2 * 2, 2) : SMS_MAX_DEFAULT;
    if (t->cluster->gpu.sms) t->max_sms = MIN(t->max_sms, t->cluster->gpu.sms / 2 * 2);
    const struct moe_chunks *chunks[PHASES] = { &o.dispatch, &o.combine };
    for (int p = 0; p < PHASES; p++) {
        t->standard[p] = (struct setting){
            o.num_sms, { chunks[p]->nvl_send, chunks[p]->rdma_send, chunks[p]->nvl_recv, chunks[p]->rdma_recv }
        };
        if (t->v2) t->standard[p] = (struct setting){ .sms = o.num_sms };
        want(t, p, &t->standard[p]);
    }
    t->internode = o.ranks > o.ranks_per_node;
    trials_run(t);
    for (int p = 0; p < PHASES; p++) t->standard_us[p] = tried_find(t, p, &t->standard[p])->us;
    if (isfinite(t->standard_us[DISPATCH]) && isfinite(t->standard_us[COMBINE])) return true;
    static const char *const both[] = { "dispatch", "combine", NULL };
    g_autoptr(record) record = record_new();
    return simulate_phases(&t->base, t->cluster, &t->load, both, record, error); /* says why it fails */
}

static void search(struct tune *t, struct setting chosen[PHASES])
{
    uint32_t sms = t->base.num_sms;
    if (!t->v2) {
        grid_want(t, sms ? sms : t->max_sms);
        trials_run(t);
        chunks_refine(t, sms ? sms : t->max_sms, NEIGHBOUR_ROUNDS);
    }
    if (!sms) {
        sms_scan(t);
        sms = sms_choose(t);
        if (!t->v2) chunks_refine(t, sms, 1);
    }
    for (int p = 0; p < PHASES; p++) {
        chosen[p] = best_find(t, p, sms)->setting;
        if (t->v2) continue;
        ring_choose(t, p, NVL_RING, &chosen[p]);
        if (t->internode) ring_choose(t, p, RDMA_RING, &chosen[p]);
    }
}

/* ---- words ---- */

static void setting_cells(struct text_table *table, const struct tune *t, int phase, const struct setting *s, double us,
                          const char *who)
{
    g_autofree char *speedup = compare_speedup_text(t->standard_us[phase] / us);
    text_table_cell(table, "%s", phase_names[phase]);
    text_table_cell(table, "%s", who);
    text_table_cell(table, "%u", s->sms);
    for (int i = 0; i < VALUES; i++) {
        const bool used = !t->v2 && (t->internode || i == NVL_CHUNK || i == NVL_RING);
        if (used) text_table_cell(table, "%u", s->value[i]);
        else text_table_cell(table, "-");
    }
    text_table_cell(table, "%.1f", us);
    text_table_cell(table, "%s", speedup);
}

static void table_print(const struct tune *t, const struct setting chosen[PHASES], GString *out)
{
    static const char *const titles[] = { "phase",    "",          "SMs",        "NVL chunk",      "RDMA chunk",
                                          "NVL ring", "RDMA ring", "slowest us", "against default" };
    g_autoptr(text_table) table = text_table_new("llrrrrrrr", titles);
    for (int p = 0; p < PHASES; p++) {
        setting_cells(table, t, p, &t->standard[p], t->standard_us[p], "default");
        setting_cells(table, t, p, &chosen[p], tried_find(t, p, &chosen[p])->us, "tuned");
    }
    text_table_append(table, out);
}

static void sms_print(const struct tune *t, uint32_t chosen, GString *out)
{
    static const char *const titles[] = { "SMs", "dispatch us", "combine us", "together us", "" };
    g_autoptr(text_table) table = text_table_new("rrrrl", titles);
    for (uint32_t sms = 2; sms <= t->max_sms; sms++) {
        if (isnan(both_us(t, sms))) continue;
        text_table_cell(table, "%u", sms);
        for (int p = 0; p < PHASES; p++) text_table_cell(table, "%.1f", best_find(t, p, sms)->us);
        text_table_cell(table, "%.1f", both_us(t, sms));
        text_table_cell(table, "%s", sms == chosen ? "recommended" : "");
    }
    g_string_append(out, "\n");
    text_table_append(table, out);
    g_string_append(out, "Times are sums over a layer's kernels, each by its slowest rank: dispatch and combine with "
                         "their preparation and epilogues.\n");
    g_string_append_printf(out, "%s: the fewest SMs with at most %g %% more than the least time together.\n",
                           t->v2 ? "Recommended"
                                 : "For each number of SMs: the fastest chunks and rings that were tried.\n"
                                   "Recommended",
                           t->slack * 100);
}

static void paste_print(const struct tune *t, const struct setting chosen[PHASES], GString *out)
{
    const struct setting *d = &chosen[DISPATCH], *c = &chosen[COMBINE];
    g_string_append(out, "\nto paste\n");
    if (t->v2) {
        g_string_append_printf(out, "  DeepEP   num_sms=%u\n  eptwin   --num-sms %u\n", d->sms, d->sms);
        return;
    }
    g_string_append_printf(out, "  DeepEP   Buffer.set_num_sms(%u)\n", d->sms);
    for (int p = 0; p < PHASES; p++)
        g_string_append_printf(out, "           %s_config = Config(%u, %u, %u, %u, %u)\n", phase_names[p],
                               chosen[p].sms, chosen[p].value[NVL_CHUNK], chosen[p].value[NVL_RING],
                               chosen[p].value[RDMA_CHUNK], chosen[p].value[RDMA_RING]);
    g_string_append_printf(
        out, "  eptwin   --num-sms %u --nvl-chunk %u --nvl-buffer %u --combine-nvl-chunk %u --combine-nvl-buffer %u",
        d->sms, d->value[NVL_CHUNK], d->value[NVL_RING], c->value[NVL_CHUNK], c->value[NVL_RING]);
    if (t->internode)
        g_string_append_printf(out,
                               " --rdma-chunk %u --rdma-buffer %u --combine-rdma-chunk %u --combine-rdma-buffer %u",
                               d->value[RDMA_CHUNK], d->value[RDMA_RING], c->value[RDMA_CHUNK], c->value[RDMA_RING]);
    g_string_append(out, "\n");
}

/* ---- the command ---- */

struct arguments {
    struct sweep_plan plan;
    GPtrArray *given; /* what the user entered, for sweep_entries_add() */
    int max_sms, jobs;
    double slack;
    char *limit;
};

static bool refuse(GError **error, const char *option, const char *expected, double found)
{
    return error_input(error, "--%s: expected %s, found %g", option, expected, found);
}

static bool tune_parse(struct arguments *a, int argc, char **argv, GError **error)
{
    GOptionEntry own[] = {
        { "max-sms", 0, 0, G_OPTION_ARG_INT, &a->max_sms,
          "Most SMs to use (default 24; for V2 calls: the library's own number)", "N" },
        { "slack", 0, 0, G_OPTION_ARG_DOUBLE, &a->slack,
          "How much longer dispatch and combine may take with fewer SMs (default 1)", "PERCENT" },
        { "limit", 0, 0, G_OPTION_ARG_STRING, &a->limit, "Longest time of a step (default: no limit)", "TIME" },
        COMMAND_LINE_JOBS(&a->jobs, "Threads (default: one per core)"),
        { 0 },
    };
    struct command_topic topics[SWEEP_TOPICS + 2] = { { "Options", own, false } };
    const struct command_line line = { .name = "tune", .about = tune_about, .details = tune_details, .topics = topics };
    sweep_entries_topics(&a->plan, a->given, topics + 1);
    if (!command_line_parse(&line, argc, argv, NULL, error) || !sweep_entries_add(&a->plan, a->given, error))
        return false;
    if (a->max_sms != SMS_OPEN && (a->max_sms < 2 || a->max_sms > 4096))
        return refuse(error, "max-sms", "2 to 4096", a->max_sms);
    if (!(a->slack >= 0 && a->slack <= 100)) return refuse(error, "slack", "0 to 100", a->slack);
    return true;
}

/* Prepares a search for dispatch and combine alone, without a step.  Here no option may have several values. */
static bool kernels_check(struct arguments *a, struct tune *t, GError **error)
{
    const char *kernel = a->plan.base.kernel;
    t->max_sms = a->max_sms != SMS_OPEN ? (uint32_t)a->max_sms / 2 * 2 : 0;
    t->jobs = a->jobs > 0 ? (uint32_t)a->jobs : g_get_num_processors();
    t->slack = a->slack / 100;
    t->v2 = kernel && strcmp(kernel, "v2") == 0;
    t->base = a->plan.base;
    if (a->plan.names->len)
        error_input(error, "--%s: expected one value without --net or --work, found several",
                    g_array_index(a->plan.names, struct sweep_name, 0).name);
    else if (a->limit) error_input(error, "--limit: expected --net or --work with it, found neither");
    else if (!t->base.cluster) error_input(error, "--cluster: expected a cluster file, found none");
    else if (!kernel || (!t->v2 && strcmp(kernel, "normal") != 0))
        error_input(error, "--kernel: expected normal or v2, found %s", kernel ? kernel : "none, which is ll");
    else return sweep_plan_settle(&a->plan, error);
    return false;
}

static bool tune_run(struct tune *t, GError **error)
{
    t->cluster = cluster_load(t->base.cluster, error);
    if (!t->cluster) return false;
    case_cluster_settle(&t->base, t->cluster);
    if (!case_load(&t->base, &t->load, error)) return false;
    bool good = standard_find(t, error);
    if (good) {
        struct setting chosen[PHASES];
        g_autoptr(GString) text = g_string_new(NULL);
        search(t, chosen);
        g_string_append_printf(text,
                               "%s, %u ranks: the best of %u simulation%s\n"
                               "\n",
                               t->cluster->name, t->load.routing.ranks, t->trials, t->trials == 1 ? "" : "s");
        table_print(t, chosen, text);
        if (!t->base.num_sms) sms_print(t, chosen[DISPATCH].sms, text);
        paste_print(t, chosen, text);
        fputs(text->str, stdout);
    }
    case_load_free(&t->load);
    return good;
}

static bool kernels_tune(struct arguments *a, GError **error)
{
    struct tune t = { 0 };
    for (int p = 0; p < PHASES; p++) {
        t.tried[p] = g_array_new(FALSE, FALSE, sizeof(struct tried));
        t.wanted[p] = g_array_new(FALSE, FALSE, sizeof(struct setting));
    }
    const bool good = kernels_check(a, &t, error) && tune_run(&t, error);
    for (int p = 0; p < PHASES; p++) {
        g_array_unref(t.tried[p]);
        g_array_unref(t.wanted[p]);
    }
    cluster_free(t.cluster);
    return good;
}

static bool steps_tune(struct arguments *a, GError **error)
{
    uint64_t limit_ps = 0;
    g_autoptr(GString) text = g_string_new(NULL);
    if (a->limit && (!cluster_parse_time(a->limit, &limit_ps) || !limit_ps)) {
        return error_input(error, "--limit: expected a time as 50ms, found '%s'", a->limit);
    }
    const struct tune_step_options options = { .jobs = a->jobs > 0 ? (uint32_t)a->jobs : g_get_num_processors(),
                                               .max_sms =
                                                   a->max_sms != SMS_OPEN ? (uint32_t)a->max_sms : SMS_MAX_DEFAULT,
                                               .slack = a->slack / 100,
                                               .limit_us = (double)limit_ps / (double)PS_PER_US };
    const bool good = tune_step(&a->plan, &options, text, error);
    if (good) fputs(text->str, stdout);
    return good;
}

int command_tune(int argc, char **argv)
{
    GError *error = NULL;
    struct arguments a = { .max_sms = SMS_OPEN, .slack = 1, .given = g_ptr_array_new_with_free_func(g_free) };
    sweep_plan_init(&a.plan);
    const bool good = tune_parse(&a, argc, argv, &error) &&
                      (sweep_plan_of_steps(&a.plan) ? steps_tune(&a, &error) : kernels_tune(&a, &error));
    sweep_plan_clear(&a.plan);
    g_ptr_array_unref(a.given);
    return good ? EXIT_OK : command_line_fail("tune", error);
}
