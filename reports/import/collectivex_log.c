/* collectivex_log.c - case attempts of CollectiveX (SemiAnalysisAI/InferenceX): the JSON of one case with several
 * numbers of tokens.
 *
 * A component is a call of dispatch or of combine that begins when all earlier work is done, timed on the slowest
 * rank.  The pair period is the time of one round of a loop of both calls.  A floor is the time of a call's kernels on
 * the rank that came last.  The median of each is read. */
#include "reports/import/import.h"

#include <string.h>

/* eptwin's name of the kernels that a backend runs, or NULL. */
static const char *kernel_of(const json_t *factors)
{
    static const struct {
        const char *backend, *kernel;
    } known[] = { { "deepep-v2", "v2" }, { "ll", "ll" }, { "normal", "normal" }, { "v2", "v2" } };
    const char *backend = json_string_value(json_object_get(factors, "backend"));
    const char *mode = json_string_value(json_object_get(factors, "mode"));
    if (g_strcmp0(backend, "deepep") == 0) return g_strcmp0(mode, "low-latency") == 0 ? "ll" : "normal";
    for (size_t i = 0; backend && i < G_N_ELEMENTS(known); i++)
        if (strcmp(backend, known[i].backend) == 0) return known[i].kernel;
    return NULL;
}

static void component_take(struct import_log *log, const json_t *root, const json_t *point, const json_t *component,
                           const char *phase, const char *timed)
{
    const json_t *factors = json_object_get(json_object_get(json_object_get(root, "identity"), "case_factors"), "case");
    const json_t *p50 = json_object_get(json_object_get(component, "percentiles_us"), "p50");
    const char *origin = json_string_value(json_object_get(component, "origin"));
    if (!json_is_number(p50) || !(json_number_value(p50) > 0)) return;
    const char *backend = json_string_value(json_object_get(factors, "backend"));
    struct import_row *row = import_row_add(log, "collectivex", backend ? backend : "ep", phase);
    const json_t *topology = json_object_get(root, "topology"), *measurement = json_object_get(root, "measurement");
    const char *dtype = json_string_value(json_object_get(measurement, "dispatch_dtype"));
    const char *kernel = kernel_of(factors), *sku = json_string_value(json_object_get(topology, "device_product"));
    import_row_word(row, IMPORT_KERNEL, kernel);
    import_json_word(row, IMPORT_NUM_RANKS, topology, "world_size");
    import_json_word(row, IMPORT_RANKS_PER_NODE, topology, "gpus_per_node");
    import_json_word(row, IMPORT_NUM_TOKENS, point, "tokens_per_rank");
    import_json_word(row, IMPORT_HIDDEN, factors, "hidden");
    import_json_word(row, IMPORT_NUM_TOPK, factors, "topk");
    import_json_word(row, IMPORT_NUM_EXPERTS, factors, "experts");
    if (dtype) import_row_word(row, IMPORT_DTYPE, g_str_has_prefix(dtype, "fp8") ? "fp8" : dtype);
    import_row_word(row, IMPORT_DEVICE, sku);
    import_row_number(row, IMPORT_US, json_number_value(p50));
    import_row_word(row, IMPORT_TIMED, timed);
    import_row_word(row, IMPORT_RUN_OPTIONS, origin);
    if (!kernel || strcmp(phase, "pair") == 0) import_row_word(row, IMPORT_METRIC, "native_us");
}

static bool collectivex_json(struct import_log *log, const json_t *root)
{
    if (g_strcmp0(json_string_value(json_object_get(root, "record_type")), "case-attempt") != 0) return false;
    const json_t *rows = json_object_get(json_object_get(root, "measurement"), "rows");
    const char *status = json_string_value(json_object_get(json_object_get(root, "outcome"), "status"));
    if (g_strcmp0(status, "success") != 0) return import_log_skip(log, "CollectiveX case whose outcome is not success");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *point = json_array_get(rows, i), *parts = json_object_get(point, "components");
        const json_t *floors = json_object_get(point, "chain_floor_us");
        component_take(log, root, point, json_object_get(parts, "dispatch"), "dispatch",
                       "call, drained, the slowest rank");
        component_take(log, root, point, json_object_get(parts, "combine"), "combine",
                       "call, drained, the slowest rank");
        component_take(log, root, point, json_object_get(parts, "pair_period"), "pair",
                       "a turn of a loop of both calls");
        component_take(log, root, point, json_object_get(floors, "dispatch"), "dispatch",
                       "kernel, the rank that came last");
        component_take(log, root, point, json_object_get(floors, "combine"), "combine",
                       "kernel, the rank that came last");
    }
    return true;
}

const struct import_reader import_collectivex = { .name = "collectivex", .json = collectivex_json };
