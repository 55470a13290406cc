/* tune_step.c - finds the options of a step that give the most tokens a second: see tune.h.  Points are those of a
 * sweep's plan.
 *
 * The search begins at each schedule, with the first of the values that the user gives for each other name.  If the
 * user gives no numbers of SMs, it begins with the largest, which is the kernels' default.  It changes one name at a
 * time to its best value, the schedule last, until nothing improves.  Then it takes fewer SMs, as far as the slack
 * allows. */
#include "models/predict/tune.h"

#include <math.h>
#include <string.h>

#include "models/step/step.h"
#include "reports/text_table.h"

enum { ROUNDS_MAX = 8, SMS_LEAST = 4, SMS_STEP = 4 };

struct search {
    const struct sweep_plan *plan;
    const struct tune_step_options *options;
    struct sweep_results *results;
    uint64_t first, best; /* points: where the search begins, what it has found */
};

/* ---- points ---- */

static const struct sweep_name *name_at(const struct search *s, uint32_t name)
{
    return &g_array_index(s->plan->names, struct sweep_name, name);
}

/* The point with another value of one name. */
static uint64_t point_with(const struct search *s, uint64_t point, uint32_t name, uint32_t value)
{
    uint64_t stride = 1;
    for (guint i = s->plan->names->len - 1; i > name; i--) stride *= name_at(s, i)->count;
    const uint64_t own = point / stride % name_at(s, name)->count;
    return point + stride * value - stride * own;
}

/* The point's row of results; NULL if it has not run. */
static char *const *row_of(const struct search *s, uint64_t point)
{
    g_autoptr(GString) key = g_string_new(NULL);
    for (guint i = 0; i < s->plan->names->len; i++)
        g_string_append_printf(key, "%s,", sweep_plan_value(s->plan, point, i));
    const GPtrArray *rows = g_hash_table_lookup(s->results->points_of, key->str);
    return rows ? g_ptr_array_index(rows, 0) : NULL;
}

/* A metric of the point's step; NAN if the step is impossible. */
static double metric_of(const struct search *s, uint64_t point, const char *metric)
{
    char *const *row = row_of(s, point);
    return row ? sweep_cell_number(row, sweep_results_column(s->results, metric)) : NAN;
}

/* The merit of a point: tokens per second and GPU, so more is better.  The merit of a step over the limit is its time
 * in us, negated, so all steps within the limit are better.  Impossible steps rank last. */
static double merit_of(const struct search *s, uint64_t point)
{
    const double us = metric_of(s, point, "slowest_us");
    if (isnan(us)) return -INFINITY;
    if (s->options->limit_us > 0 && us > s->options->limit_us) return -us;
    return metric_of(s, point, "tokens_per_s_gpu");
}

/* ---- the search ---- */

static bool values_run(struct search *s, uint64_t around, uint32_t name, GError **error)
{
    g_autoptr(GArray) points = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    for (uint32_t v = 0; v < name_at(s, name)->count; v++) {
        const uint64_t point = point_with(s, around, name, v);
        g_array_append_val(points, point);
    }
    return sweep_run_points(s->plan, points, s->options->jobs, s->results, error);
}

/* Moves a point until no change of a single name makes it better, for at most ROUNDS_MAX rounds. */
static bool descend(struct search *s, uint64_t *point, int schedule, GError **error)
{
    bool better = true;
    for (int round = 0; better && round < ROUNDS_MAX; round++) {
        better = false;
        for (guint turn = 1; turn <= s->plan->names->len; turn++) {
            const uint32_t n = (uint32_t)(schedule + (int)turn) % s->plan->names->len; /* the schedule last */
            if (!values_run(s, *point, n, error)) return false;
            for (uint32_t v = 0; v < name_at(s, n)->count; v++) {
                const uint64_t other = point_with(s, *point, n, v);
                if (merit_of(s, other) <= merit_of(s, *point)) continue;
                *point = other;
                better = true;
            }
        }
    }
    return true;
}

/* The name's place in the plan, or -1. */
static int name_find(const struct search *s, const char *name)
{
    for (guint i = 0; i < s->plan->names->len; i++)
        if (strcmp(name_at(s, i)->name, name) == 0) return (int)i;
    return -1;
}

/* Of the points that differ from the best one in num-sms alone, chooses the one with the fewest SMs whose merit is
 * within the slack.  Looks at all values of num-sms, because they may be in any order. */
static void fewer_sms(struct search *s)
{
    const int sms = name_find(s, "num-sms");
    const double enough = merit_of(s, s->best) * (1 - s->options->slack);
    uint64_t fewest = s->best;
    if (sms < 0 || merit_of(s, s->best) <= 0) return;
    for (uint32_t v = 0; v < name_at(s, (uint32_t)sms)->count; v++) {
        const uint64_t other = point_with(s, s->best, (uint32_t)sms, v);
        const double count = g_ascii_strtod(sweep_plan_value(s->plan, other, (uint32_t)sms), NULL);
        const double own = g_ascii_strtod(sweep_plan_value(s->plan, fewest, (uint32_t)sms), NULL);
        if (merit_of(s, other) >= enough && count < own) fewest = other;
    }
    s->best = fewest;
}

static bool search_run(struct search *s, GError **error)
{
    const int schedule = name_find(s, "schedule");
    const uint32_t starts = schedule >= 0 ? name_at(s, (uint32_t)schedule)->count : 1;
    for (uint32_t i = 0; i < starts; i++) {
        uint64_t point = schedule >= 0 ? point_with(s, s->first, (uint32_t)schedule, i) : s->first;
        if (!descend(s, &point, schedule, error)) return false;
        if (i == 0 || merit_of(s, point) > merit_of(s, s->best)) s->best = point;
    }
    if (merit_of(s, s->best) > 0) {
        fewer_sms(s);
        return true;
    }
    if (isinf(merit_of(s, s->best))) /* all points were refused, and the first one's row says why */
        error_input(error, "expected a possible step, found none: %s",
                    row_of(s, s->best)[sweep_results_column(s->results, "problem")]);
    else
        error_input(error, "--limit: expected a time that a step keeps, found %g ms; %g ms is the shortest found",
                    s->options->limit_us / 1e3, metric_of(s, s->best, "slowest_us") / 1e3);
    return false;
}

/* ---- words ---- */

static void point_cells(const struct search *s, uint64_t point, struct text_table *table)
{
    const double us = metric_of(s, point, "slowest_us"), tokens = metric_of(s, point, "tokens_per_s_gpu");
    const double first = metric_of(s, s->first, "tokens_per_s_gpu");
    if (isnan(us)) {
        for (int i = 0; i < 3; i++) text_table_cell(table, "-");
        return;
    }
    text_table_cell(table, "%.2f", us / 1e3);
    text_table_cell(table, "%.0f", tokens);
    if (isnan(first)) text_table_cell(table, "-");
    else text_table_cell(table, "%+.1f", 100 * (tokens / first - 1));
}

static void names_append(const struct search *s, GString *out)
{
    static const char *const rest[] = { "step ms", "tokens/s, GPU", "gain %" };
    g_autoptr(GPtrArray) titles = g_ptr_array_new();
    g_autoptr(GString) format = g_string_new("l");
    g_ptr_array_add(titles, (gpointer) "");
    for (guint n = 0; n < s->plan->names->len; n++) {
        g_ptr_array_add(titles, name_at(s, n)->name);
        g_string_append_c(format, 'r');
    }
    for (size_t i = 0; i < G_N_ELEMENTS(rest); i++) g_ptr_array_add(titles, (gpointer)rest[i]);
    g_string_append(format, "rrr");
    g_autoptr(text_table) table = text_table_new(format->str, (const char *const *)titles->pdata);
    for (int tuned = 0; tuned < 2; tuned++) {
        const uint64_t point = tuned ? s->best : s->first;
        text_table_cell(table, "%s", tuned ? "tuned" : "initial");
        for (guint n = 0; n < s->plan->names->len; n++)
            text_table_cell(table, "%s", sweep_plan_value(s->plan, point, n));
        point_cells(s, point, table);
    }
    text_table_append(table, out);
}

/* Appends the result of each value of a name, with the best values of the other names. */
static void name_append(const struct search *s, uint32_t name, GString *out)
{
    const char *const titles[] = { name_at(s, name)->name, "step ms", "tokens/s, GPU", "gain %", "" };
    g_autoptr(text_table) table = text_table_new("rrrrl", titles);
    for (uint32_t v = 0; v < name_at(s, name)->count; v++) {
        const uint64_t point = point_with(s, s->best, name, v);
        const bool late = s->options->limit_us > 0 && metric_of(s, point, "slowest_us") > s->options->limit_us;
        text_table_cell(table, "%s", name_at(s, name)->value[v]);
        point_cells(s, point, table);
        const bool refused = isnan(metric_of(s, point, "slowest_us"));
        const char *why = refused ? row_of(s, point)[sweep_results_column(s->results, "problem")] : "";
        text_table_cell(table, "%s", point == s->best ? "recommended" : late ? "too long" : why);
    }
    g_string_append_c(out, '\n');
    text_table_append(table, out);
}

static bool words_append(struct search *s, GString *out, GError **error)
{
    for (guint n = 0; n < s->plan->names->len; n++)
        if (!values_run(s, s->best, n, error)) return false;
    g_string_append_printf(
        out, "highest tokens/s per GPU: %" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT " combinations tried\n\n",
        sweep_results_points(s->results), sweep_plan_points(s->plan));
    names_append(s, out);
    for (guint n = 0; n < s->plan->names->len; n++) name_append(s, n, out);
    g_string_append(out, "\n"
                         "gain: over the initial values\n"
                         "\n"
                         "to paste after the other options:\n"
                         " ");
    for (guint n = 0; n < s->plan->names->len; n++)
        g_string_append_printf(out, " --%s %s", name_at(s, n)->name, sweep_plan_value(s->plan, s->best, n));
    g_string_append_c(out, '\n');
    return true;
}

/* ---- names that the user left open ---- */

/* Whether the swept names can be chosen.  Of names that change a step's work, only the batch and the number of ranks
 * can: they divide the whole work into other steps, or over other GPUs. */
static bool choices_check(const struct sweep_plan *plan, GError **error)
{
    for (guint i = 0; i < plan->names->len; i++) {
        const char *name = g_array_index(plan->names, struct sweep_name, i).name;
        if (!sweep_name_is_work(name) || strcmp(name, "batch") == 0 || strcmp(name, "num-ranks") == 0) continue;
        return error_input(error, "--%s: expected one value, for it is no choice, found %u", name,
                           g_array_index(plan->names, struct sweep_name, i).count);
    }
    return true;
}

/* Adds the names to choose among that the user leaves open.  *sms_open: num-sms is one of them. */
static bool open_add(struct sweep_plan *plan, const struct tune_step_options *options, bool *sms_open, GError **error)
{
    const char *phase = plan->step.phase ? plan->step.phase : step_phase_name(STEP_DECODE);
    const bool decode = strcmp(phase, step_phase_name(STEP_DECODE)) == 0;
    const char *kernel = plan->base.kernel ? plan->base.kernel : decode ? "ll" : "normal";
    const bool ll = strcmp(kernel, "ll") == 0, train = strcmp(phase, step_phase_name(STEP_TRAIN)) == 0;
    /* The timed work of "stages" has other ops than that of other schedules, so only the user can say that both take
     * equally long. */
    const char *schedules = plan->step.work ? "sequential,shared"
                            : train         ? "sequential,two-batch"
                            : ll            ? "sequential,shared,stages"
                                            : "sequential,shared,two-batch";
    if (!plan->step.schedule && !sweep_plan_find(plan, "schedule") && !sweep_plan_find(plan, "kernel") &&
        !sweep_plan_add(plan, "schedule", false, schedules, error))
        return false;
    if (ll || plan->base.num_sms || sweep_plan_find(plan, "num-sms") || sweep_plan_find(plan, "kernel")) return true;
    g_autofree char *sms = g_strdup_printf("%d:%u:%d", SMS_LEAST, options->max_sms + 1, SMS_STEP);
    *sms_open = true;
    return sweep_plan_add(plan, "num-sms", false, sms, error);
}

bool tune_step(struct sweep_plan *plan, const struct tune_step_options *options, GString *out, GError **error)
{
    bool sms_open = false;
    if (!open_add(plan, options, &sms_open, error) || !sweep_plan_settle(plan, error) || !choices_check(plan, error))
        return false;
    if (plan->names->len == 0)
        return error_input(error, "expected an option with several values to choose among, found none");
    g_autoptr(sweep_results) results = sweep_results_new(plan);
    struct search s = { .plan = plan, .options = options, .results = results };
    if (sms_open) {
        const uint32_t sms = (uint32_t)name_find(&s, "num-sms");
        s.first = point_with(&s, 0, sms, name_at(&s, sms)->count - 1);
    }
    return search_run(&s, error) && words_append(&s, out, error);
}
