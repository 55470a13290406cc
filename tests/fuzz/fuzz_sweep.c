/* fuzz_sweep.c - libFuzzer target of a sweep's result files and lists of values.  Results must be read, shown and
 * written back unchanged.  Lists of values must make plans.  Simulates nothing. */
#include "models/predict/sweep.h"
#include "tests/fuzz/fuzz_trace.h"

static void results_read(const uint8_t *data, size_t size_bytes)
{
    const char *path = fuzz_path(0, data, size_bytes);
    g_autoptr(GError) error = NULL;
    struct sweep_results *results = sweep_results_read(path, &error);
    if (!results != (error != NULL)) abort(); /* either results or an error */
    if (results) {
        struct sweep_goal goal;
        GString *text = g_string_new(NULL);
        const uint64_t points = sweep_results_points(results);
        if (!sweep_goal_parse("layer.slowest_us", &goal, NULL)) abort();
        sweep_text_append(results, &goal, 3, text, NULL);
        for (uint32_t i = 0; i < results->names; i++)
            sweep_compare_append(results, &goal, results->column[1 + i], 3, text, NULL);
        g_string_free(text, TRUE);
        sweep_goal_clear(&goal);
        path = fuzz_path(0, NULL, 0); /* empties the file first, because the writer does not truncate a file at such a
                                       * path */
        if (!sweep_results_write(results, NULL, path, NULL)) abort();
        struct sweep_results *again = sweep_results_read(path, NULL);
        if (!again || sweep_results_points(again) != points) abort();
        sweep_results_free(again);
    }
    sweep_results_free(results);
}

/* Makes a plan from lines, each of which lists the values of one option. */
static void plan_make(const uint8_t *data, size_t size_bytes)
{
    static const char *const names[] = { "num-sms",  "dtype", "num-ranks", "routing",
                                         "nic.rate", "batch", "schedule",  "work" };
    g_autofree char *text = g_strndup((const char *)data, size_bytes);
    g_auto(GStrv) line = g_strsplit(text, "\n", G_N_ELEMENTS(names));
    struct sweep_plan plan;
    sweep_plan_init(&plan);
    bool good = true;
    for (size_t i = 0; good && line[i] && i < G_N_ELEMENTS(names); i++)
        good = sweep_plan_add(&plan, names[i], i == 4, line[i], NULL);
    if (good && sweep_plan_settle(&plan, NULL)) {
        struct case_options c;
        const uint64_t points = sweep_plan_points(&plan);
        sweep_plan_case(&plan, points - 1, &c);
        struct step_options o;
        sweep_plan_step(&plan, points - 1, &o);
        if (sweep_plan_cluster_index(&plan, points - 1) != sweep_plan_clusters(&plan) - 1) abort();
        g_free(sweep_plan_baseline(&plan));
    }
    sweep_plan_clear(&plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    results_read(data, size_bytes);
    plan_make(data, size_bytes);
    return 0;
}
