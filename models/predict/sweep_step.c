/* sweep_step.c - the row of a point of a sweep that is a whole step.  Knows columns; knows no file. */
#include "models/predict/sweep.h"

#include <string.h>
#include "models/step/step.h"
#include "reports/record.h"

/* The part that takes most of the step. */
static enum step_part part_most(const struct step_answer *a)
{
    enum step_part most = PART_COMPUTE;
    for (int i = 0; i < STEP_PARTS; i++)
        if (a->part_us[i] > a->part_us[most]) most = (enum step_part)i;
    return most;
}

/* The text of a column's cell, from the metric that `eptwin step` records.  slowest_us is the median of the draws. */
static const char *cell_of(const char *column, const struct record *record, const struct step_answer *a)
{
    static const char *const renamed[][2] = { { "slowest_us", "time_us" },
                                              { "least_us", "time_us_min" },
                                              { "most_us", "time_us_max" } };
    if (strcmp(column, "phase") == 0) return "step";
    if (strcmp(column, "phases") == 0) return "1";
    if (strcmp(column, "bottleneck") == 0) return step_part_name(part_most(a));
    for (size_t i = 0; i < G_N_ELEMENTS(renamed); i++)
        if (strcmp(column, renamed[i][0]) == 0) column = renamed[i][1];
    const struct record_row *row = record_find(record, "step", RECORD_ALL, column);
    return row ? record_row_text(row) : "";
}

static char *answer_text(const struct sweep_plan *plan, uint64_t point, const struct step_plan *step,
                         const struct step_answer *a, const double *total_ms)
{
    g_autoptr(record) record = record_new();
    g_autoptr(GPtrArray) cells = g_ptr_array_new();
    step_record(record, step, a, total_ms);
    for (const char *const *c = sweep_metric_columns(true); *c; c++)
        g_ptr_array_add(cells, (gpointer)cell_of(*c, record, a));
    g_ptr_array_add(cells, NULL);
    return sweep_line_text(plan, point, (const char *const *)cells->pdata);
}

void sweep_step_estimate(const struct sweep_plan *plan, uint64_t point, const struct cluster *cluster, uint32_t count,
                         struct estimate_many *many)
{
    struct case_options c;
    struct step_options o;
    struct step_plan step;
    g_autoptr(GError) error = NULL; /* the point's row gets its own copy of the error */
    sweep_plan_case(plan, point, &c);
    sweep_plan_step(plan, point, &o);
    if (step_plan_make(&step, &o, &c, cluster, &error))
        estimate_many_add(many, &step.c, cluster, count * step_plan_rounds(&step, step.draws, 1));
    step_plan_clear(&step);
}

char *sweep_step_text(const struct sweep_plan *plan, uint64_t point, const struct cluster *cluster, uint32_t threads)
{
    struct case_options c;
    struct step_options o;
    struct step_plan step;
    g_autoptr(GError) error = NULL;
    char *text = NULL;
    sweep_plan_case(plan, point, &c);
    sweep_plan_step(plan, point, &o);
    g_autofree double *total_ms = NULL;
    if (step_plan_make(&step, &o, &c, cluster, &error)) {
        total_ms = g_new0(double, step.draws);
        step.run.threads = threads;
        struct step_answer *a = step_plan_answer(&step, NULL, total_ms, &error);
        if (a) text = answer_text(plan, point, &step, a, total_ms);
        step_answer_free(a);
    }
    if (!text) text = sweep_problem_text(plan, point, error->message);
    step_plan_clear(&step);
    return text;
}
