/* collectivex_log.c - case attempts of CollectiveX (SemiAnalysisAI/InferenceX): the JSON of one case with several
 * numbers of tokens.
 *
 * A component is a call of dispatch or of combine that begins when all earlier work is done, timed on the slowest
 * rank.  The pair period is the time of one round of a loop of both calls.  A floor is the time of a call's kernels on
 * the rank that came last.  The median of each is read. */
#include "reports/import/import.h"

#include <string.h>

/* The calls of a backend: eptwin's kernel, and its phases that add up to each call. */
struct calls {
    const char *kernel, *dispatch, *combine;
};

static const struct calls known[] = {
    { "v2", "dispatch_span", "combine_span" },
    { "one-sided", "dispatch_span", "combine_span" },
    { "normal", "layout+notify+dispatch", "cached_notify_combine+combine" },
    { "nccl-ht", "layout+dispatch", "combine" },
    { "hybrid-ep", "layout+dispatch", "combine" },
    { "ll", "dispatch", "combine" },
    { "nccl-ll", "dispatch", "combine" },
    { "pplx", "dispatch", "combine" },
    { "ag-rs", "dispatch", "combine" },
};

/* NULL: the backend's kernels are not eptwin's.  What eptwin has written names the kernel as the backend. */
static const struct calls *calls_of(const json_t *factors, const char *origin)
{
    const char *backend = json_string_value(json_object_get(factors, "backend")), *kernel = NULL;
    const char *mode = json_string_value(json_object_get(factors, "mode"));
    if (g_strcmp0(backend, "deepep-v2") == 0) kernel = "v2";
    else if (g_strcmp0(backend, "deepep") == 0) kernel = g_strcmp0(mode, "low-latency") == 0 ? "ll" : "normal";
    else if (origin && g_str_has_prefix(origin, "eptwin-")) kernel = backend;
    for (size_t i = 0; i < G_N_ELEMENTS(known); i++)
        if (g_strcmp0(known[i].kernel, kernel) == 0) return &known[i];
    return NULL;
}

/* Which rank's time a component is: the slowest one's, or that of the rank that came last and waited for none. */
static const char *const slowest = "time_us_max", *const last = "time_us_min";

static void component_take(struct import_log *log, const json_t *root, const json_t *point, const json_t *component,
                           const char *phase, const char *metric, const char *timed)
{
    const json_t *factors = json_object_get(json_object_get(json_object_get(root, "identity"), "case_factors"), "case");
    const json_t *p50 = json_object_get(json_object_get(component, "percentiles_us"), "p50");
    const char *origin = json_string_value(json_object_get(component, "origin"));
    if (!json_is_number(p50) || !(json_number_value(p50) > 0)) return;
    const char *backend = json_string_value(json_object_get(factors, "backend"));
    const struct calls *calls = calls_of(factors, origin);
    const bool predicted = calls && strcmp(phase, "pair") != 0;
    if (predicted) phase = strcmp(phase, "dispatch") == 0 ? calls->dispatch : calls->combine;
    struct import_row *row = import_row_add(log, "collectivex", backend ? backend : "ep", phase);
    const json_t *topology = json_object_get(root, "topology"), *measurement = json_object_get(root, "measurement");
    const char *dtype = json_string_value(json_object_get(measurement, "dispatch_dtype"));
    const char *sku = json_string_value(json_object_get(topology, "device_product"));
    import_row_word(row, IMPORT_KERNEL, calls ? calls->kernel : NULL);
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
    import_row_word(row, IMPORT_METRIC, predicted ? metric : "native_us");
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
        component_take(log, root, point, json_object_get(parts, "dispatch"), "dispatch", slowest,
                       "call, drained, the slowest rank");
        component_take(log, root, point, json_object_get(parts, "combine"), "combine", slowest,
                       "call, drained, the slowest rank");
        component_take(log, root, point, json_object_get(parts, "pair_period"), "pair", NULL,
                       "a turn of a loop of both calls");
        component_take(log, root, point, json_object_get(floors, "dispatch"), "dispatch", last,
                       "kernel, the rank that came last");
        component_take(log, root, point, json_object_get(floors, "combine"), "combine", last,
                       "kernel, the rank that came last");
    }
    return true;
}

const struct import_reader import_collectivex = { .name = "collectivex", .json = collectivex_json };
