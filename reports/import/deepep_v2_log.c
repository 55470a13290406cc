/* deepep_v2_log.c - the console output of DeepEP's V2 ("elastic") test, tests/elastic/test_ep.py.
 *
 * Every rank prints its line.  (SO) counts bytes sent to each node, the rank's own node included unless the test ran
 * with --ignore-local-traffic.  (SU) counts bytes of all rows received.  Both count indices and weights with the
 * rows.  The printed bytes are those of (SU).  Times are kernel durations after a barrier.  "copy" and "reduce" are
 * the epilogues. */
#include "reports/import/import.h"

#include <string.h>

struct v2_state {
    uint32_t nodes, node_ranks, topk, experts, tokens, tokens_most, hidden, sms; /* 0: not stated */
    bool fp8, testing;
    uint32_t bias, alignment;
    char *variant;
};

/* Reads a line of the configuration: "Config:", " > Ranks: 2 x 8", " > Experts: 8/256", " > Tokens: 8192 (max: 8192),
 * hidden: 7168", " > #SM: 24, ...". */
static bool config_take(struct v2_state *s, const char *line)
{
    uint32_t a, b, c;
    if (import_scan(line, " > Ranks: %u x %u", &a, &b)) return s->nodes = a, s->node_ranks = b, true;
    if (import_scan(line, " > Experts: %u/%u", &a, &b)) return s->topk = a, s->experts = b, true;
    if (import_scan(line, " > Tokens: %u (max: %u), hidden: %u", &a, &b, &c))
        return s->tokens = a, s->tokens_most = b, s->hidden = c, true;
    if (import_scan(line, " > #SM: %u", &a)) return s->sms = a, true;
    return strcmp(line, "Config:") == 0 || strcmp(line, "Running all test cases:") == 0;
}

static uint32_t field_of(const char *line, const char *name)
{
    const char *at = strstr(line, name);
    uint32_t value = 0;
    if (at) import_scan(at + strlen(name), "=%u", &value);
    return value;
}

/* Reads " > Testing with do_handle_copy=0, expert_alignment=1, use_fp8_dispatch=0, num_bias=2, ...". */
static bool testing_take(struct v2_state *s, struct import_log *log, const char *line)
{
    const char *at = import_scan(line, " > Testing with ");
    if (!at) return false;
    s->testing = true;
    s->fp8 = field_of(at, "use_fp8_dispatch");
    s->bias = field_of(at, "num_bias");
    s->alignment = field_of(at, "expert_alignment");
    g_autofree char *variant = g_strdup_printf(
        "do_handle_copy=%u with_previous_event=%u async_with_compute_stream=%u allocate_on_comm_stream=%u",
        field_of(at, "do_handle_copy"), field_of(at, "with_previous_event"), field_of(at, "async_with_compute_stream"),
        field_of(at, "allocate_on_comm_stream"));
    s->variant = import_log_keep(log, variant, -1);
    return true;
}

static struct import_row *row_new(struct v2_state *s, struct import_log *log, uint32_t rank, uint32_t ranks,
                                  const char *phase)
{
    struct import_row *row = import_row_add(log, "deepep-v2", "elastic", phase);
    row->rank = (int32_t)MIN(rank, 65534);
    import_row_word(row, IMPORT_KERNEL, "v2");
    import_row_count(row, IMPORT_NUM_RANKS, ranks);
    import_row_count_unless_0(row, IMPORT_RANKS_PER_NODE, s->node_ranks);
    import_row_count_unless_0(row, IMPORT_NUM_TOKENS, s->tokens_most);
    import_row_count_unless_0(row, IMPORT_HIDDEN, s->hidden);
    if (s->topk) import_row_count(row, IMPORT_NUM_TOPK, s->topk);
    else import_row_word(row, IMPORT_NUM_TOPK, "?"); /* the test's default is 6, eptwin's is 8 */
    import_row_count_unless_0(row, IMPORT_NUM_EXPERTS, s->experts);
    import_row_count_unless_0(row, IMPORT_NUM_SMS, s->sms);
    if (s->testing) {
        import_row_word(row, IMPORT_DTYPE, s->fp8 ? "fp8" : "bf16");
        import_row_count(row, IMPORT_NUM_BIAS, MIN(s->bias, 2));
        if (s->alignment > 1) import_row_count(row, IMPORT_EXPERT_ALIGNMENT, s->alignment);
        import_row_word(row, IMPORT_RUN_OPTIONS, s->variant);
    }
    import_row_word(row, IMPORT_TIMED, "kernel");
    return row;
}

struct operation {
    const char *text, *phase, *epilogue;
    bool cached, expand;
};

static const struct operation operations[] = {
    { "dispatch: ", "dispatch", "dispatch_copy", false, false },
    { "combine: ", "combine", "combine_reduce", false, false },
    { "expanded dispatch: ", "dispatch", "dispatch_copy", false, true },
    { "cached dispatch: ", "dispatch", "dispatch_copy", true, false },
    { "reduced combine: ", "combine", "combine_reduce", false, true },
};

static void mode_set(struct import_row *row, const struct operation *operation)
{
    if (operation->cached) import_row_word(row, IMPORT_CACHED, "true");
    if (operation->expand) import_row_word(row, IMPORT_EXPAND, "true");
}

/* Reads "EP:   4/16 | combine: 115 GB/s (SO), 376 GB/s (SU), 1064.000 us, 400593024 bytes | reduce: 4791 GB/s, 187.879
 * us". */
static bool result_take(struct v2_state *s, struct import_log *log, const char *line)
{
    uint32_t rank, ranks;
    const char *at = strstr(line, "EP:");
    if (!at || !(at = import_scan(at, "EP: %u/%u | ", &rank, &ranks))) return false;
    const struct operation *operation = NULL;
    const char *rest = NULL;
    for (size_t i = 0; i < G_N_ELEMENTS(operations) && !rest; i++)
        if ((rest = import_scan(at, operations[i].text))) operation = &operations[i];
    double so, su, us, bytes, epilogue_gbs, epilogue_us;
    rest = rest ? import_scan(rest, "%f GB/s (SO), %f GB/s (SU), %f us, %f bytes", &so, &su, &us, &bytes) : NULL;
    if (!rest || rank >= ranks || ranks > 65535) return false;
    struct import_row *row = row_new(s, log, rank, ranks, operation->phase);
    import_row_number(row, IMPORT_US, us);
    import_row_number(row, IMPORT_LOGICAL_RDMA_GBS, so);
    import_row_number(row, IMPORT_LOGICAL_NVL_GBS, su);
    import_row_number(row, IMPORT_COUNTED_BYTES, bytes);
    import_row_word(row, IMPORT_COUNTED, "logical (SU): all rows received with indices and weights");
    mode_set(row, operation);
    const char *epilogue = import_scan(rest, " | copy: ");
    if (!epilogue) epilogue = import_scan(rest, " | reduce: ");
    if (!epilogue || !import_scan(epilogue, "%f GB/s, %f us", &epilogue_gbs, &epilogue_us)) return true;
    row = row_new(s, log, rank, ranks, operation->epilogue);
    import_row_number(row, IMPORT_US, epilogue_us);
    import_row_number(row, IMPORT_NATIVE_GBS, epilogue_gbs);
    import_row_word(row, IMPORT_COUNTED, "bytes read and written in HBM");
    mode_set(row, operation);
    return true;
}

static bool v2_line(void *state, struct import_log *log, const char *line)
{
    struct v2_state *s = state;
    if (strstr(line, "test_ep.py")) {
        *s = (struct v2_state){ 0 };
        return true;
    }
    return result_take(s, log, line) || testing_take(s, log, line) || config_take(s, line);
}

const struct import_reader import_deepep_v2 = {
    .name = "deepep-v2",
    .state_bytes = sizeof(struct v2_state),
    .line = v2_line,
};
