/* mori_log.c - tuning rules of ROCm/mori's EP kernels (python/mori/ops/tuning_configs/): the best launch of each shape
 * with what it reached.  Its kernels are not eptwin's: the figures stay native. */
#include "reports/import/import.h"

#include <string.h>

static void word_copy(struct import_row *row, enum import_column column, const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (json_is_string(value)) import_row_word(row, column, json_string_value(value));
    else if (json_is_integer(value) && json_integer_value(value) >= 0)
        import_row_count(row, column, (uint64_t)json_integer_value(value));
}

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
    word_copy(row, IMPORT_NUM_RANKS, root, "ep_size");
    word_copy(row, IMPORT_DEVICE, root, "gpu_model");
    word_copy(row, IMPORT_NUM_TOKENS, rule, "num_tokens");
    word_copy(row, IMPORT_HIDDEN, rule, "hidden_dim");
    word_copy(row, IMPORT_VALUE_TYPE, rule, "dtype");
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

const struct import_reader import_mori = { .name = "mori", .json = mori_json };
