/* mori_log.c - results of ROCm/mori's EP kernels.  Tuning rules (python/mori/ops/tuning_configs/) give the best launch
 * of each shape and its result.  The summary of mori's profiler, "Kernel start end dur", is in microseconds from the
 * start of a dispatch.  These are not eptwin's kernels, so the rows are not predicted. */
#include "reports/import/import.h"

#include <string.h>

static void rule_take(struct import_log *log, const json_t *root, const json_t *rule)
{
    const char *phase = json_string_value(json_object_get(root, "phase"));
    const double us = json_number_value(json_object_get(rule, "avg_latency_us"));
    const double gbs = json_number_value(json_object_get(rule, "bandwidth_gbps"));
    if (!phase || !(us > 0)) {
        import_log_skip(log, "MORI rule without phase or avg_latency_us");
        return;
    }
    const char *kernel = json_string_value(json_object_get(root, "kernel_type"));
    struct import_row *row = import_row_add(log, "mori", kernel, phase);
    import_json_word(row, IMPORT_NUM_RANKS, root, "ep_size");
    import_json_word(row, IMPORT_DEVICE, root, "gpu_model");
    import_json_word(row, IMPORT_NUM_TOKENS, rule, "num_tokens");
    import_json_word(row, IMPORT_HIDDEN, rule, "hidden_dim");
    import_json_word(row, IMPORT_VALUE_TYPE, rule, "dtype");
    g_autofree char *launch = g_strdup_printf("block_num=%d rdma_block_num=%d warp_per_block=%d",
                                              (int)json_integer_value(json_object_get(rule, "block_num")),
                                              (int)json_integer_value(json_object_get(rule, "rdma_block_num")),
                                              (int)json_integer_value(json_object_get(rule, "warp_per_block")));
    import_row_word(row, IMPORT_RUN_OPTIONS, launch);
    import_row_number(row, IMPORT_US, us);
    import_row_number(row, IMPORT_NATIVE_GBS, gbs);
    import_row_word(row, IMPORT_METRIC, "native_us");
    import_row_word(row, IMPORT_COUNTED, "bandwidth_gbps as MORI counts");
}

static bool mori_json(struct import_log *log, const json_t *root)
{
    const json_t *rules = json_object_get(root, "rules");
    if (!json_object_get(root, "kernel_type") || !json_object_get(root, "ep_size") || !json_is_array(rules))
        return false;
    for (size_t i = 0; i < json_array_size(rules); i++) rule_take(log, root, json_array_get(rules, i));
    return true;
}

struct mori_state {
    bool inside; /* whether the lines of a summary follow */
};

/* Reads "dispatch_intra    0.00   180.00   180.00".  The name is that of a kernel, or of what some of its blocks do. */
static bool mori_line(void *state, struct import_log *log, const char *line)
{
    struct mori_state *s = state;
    const char *start = line + strspn(line, " ");
    const char *titles = import_scan(start, "Kernel start end dur");
    if (titles && !*titles) return s->inside = true;
    if (!s->inside || !*start) return s->inside = false;
    double begin_us, end_us, us;
    g_auto(GStrv) word = import_words(start, 1);
    if (g_strv_length(word) != 4 || !import_number_read(word[1], &begin_us) || !import_number_read(word[2], &end_us) ||
        !import_number_read(word[3], &us))
        return s->inside = false;
    if (!(us > 0)) return import_log_skip(log, "MORI part that takes no time");
    struct import_row *row = import_row_add(log, "mori", "profile", word[0]);
    import_row_number(row, IMPORT_US, us);
    import_row_word(row, IMPORT_METRIC, "native_us");
    import_row_word(row, IMPORT_TIMED, "first block's start to last one's end");
    return true;
}

const struct import_reader import_mori = {
    .name = "mori", .state_bytes = sizeof(struct mori_state), .line = mori_line, .json = mori_json
};
