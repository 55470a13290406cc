/* fuzz_cases.c - libFuzzer target of tables of cases: their readers (CSV, values of every option, traffic texts) and
 * their writer.  Simulates nothing. */
#include "models/predict/validate.h"
#include "tests/fuzz/fuzz_trace.h"

/* Whether a case is small.  Large cases are left out, because their long runs are no fault but would hide other
 * faults. */
static bool case_is_small(const struct case_options *c)
{
    return !c->trace && !c->placement && c->num_ranks <= 16 && c->num_tokens <= 64 && c->num_topk <= 16 &&
           c->num_experts <= 256 && !c->tokens_per_rank;
}

static void rows_draw(const struct validate_table *table)
{
    for (uint32_t i = 0; i < table->row_count && i < 4; i++) {
        const struct validate_row *row = &table->row[i];
        struct routing routing = { 0 };
        if (row->problem || !case_is_small(&row->options)) continue;
        if (!case_routing(&row->options, &routing, NULL)) continue;
        struct moe_options options;
        if (case_moe_options(&row->options, &routing, 132, &options, NULL) && options.ranks != routing.ranks) abort();
        routing_free(&routing);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    const char *path = fuzz_path(0, data, size_bytes);
    struct case_options base;
    case_init(&base);
    if (!case_set(&base, "num-tokens", "8", NULL) || !case_set(&base, "num-ranks", "2", NULL)) abort();
    GError *error = NULL;
    struct validate_table *table = validate_table_read(path, &base, &error);
    if (!table != (error != NULL)) abort(); /* either a table or an error */
    if (table) {
        rows_draw(table);
        g_autoptr(GString) text = g_string_new(NULL);
        validate_table_append(table, text);
        validate_summary_append(table, NULL, text);
    }
    validate_table_free(table);
    g_clear_error(&error);
    return 0;
}
