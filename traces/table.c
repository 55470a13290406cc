/* table.c - a trace in memory.
 *
 *     blocks, by (step, layer)  ->  rows[], by rank  ->  experts, weights, token after token
 *
 * Knows no file format. */
#include "traces/table.h"

#include <assert.h>
#include <string.h>

enum { TABLE_ROWS_MAX = 1 << 22 }; /* the most rows of all blocks, and the most (step, layer)s */

struct block {
    uint32_t step, layer;
    uint32_t ranks; /* number of rows[], which are made when they are needed */
    struct table_rows *rows;
    bool weights;
};

struct table {
    uint32_t topk, ranks;
    uint32_t rows_made;
    int32_t highest;
    bool weights;
    GHashTable *by_number; /* (step << 32 | layer) -> block */
    GPtrArray *blocks;     /* owns the blocks */
    struct block *last;    /* the block of the last call, which the next call probably asks for, too */
    /* The two fields below are set by table_serve(). */
    uint32_t layers;
    struct block **at; /* [steps][layers]; NULL: nothing was read for it */
};

static void block_free(gpointer pointer)
{
    struct block *const block = pointer;
    for (uint32_t r = 0; r < block->ranks; r++) {
        g_free(block->rows[r].experts);
        g_free(block->rows[r].weights);
    }
    g_free(block->rows);
    g_free(block);
}

struct table *table_new(uint32_t topk)
{
    struct table *const table = g_new0(struct table, 1);
    table->topk = topk;
    table->highest = -1;
    table->by_number = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, NULL);
    table->blocks = g_ptr_array_new_with_free_func(block_free);
    return table;
}

void table_free(struct table *table)
{
    if (!table) return;
    g_free(table->at);
    g_ptr_array_unref(table->blocks);
    g_hash_table_unref(table->by_number);
    g_free(table);
}

uint32_t table_topk(const struct table *table) { return table->topk; }

static struct block *table_block(struct table *table, uint32_t step, uint32_t layer)
{
    if (table->last && table->last->step == step && table->last->layer == layer) return table->last;
    const gint64 number = (gint64)((uint64_t)step << 32 | layer);
    table->last = g_hash_table_lookup(table->by_number, &number);
    if (!table->last) {
        table->last = g_new0(struct block, 1);
        table->last->step = step;
        table->last->layer = layer;
        gint64 *const key = g_new(gint64, 1);
        *key = number;
        g_hash_table_insert(table->by_number, key, table->last);
        g_ptr_array_add(table->blocks, table->last);
    }
    return table->last;
}

struct table_rows *table_rows(struct table *table, uint32_t step, uint32_t layer, uint32_t rank)
{
    assert(rank < ROUTING_RANKS_MAX);
    struct block *const block = table_block(table, step, layer);
    if (rank >= block->ranks) {
        if (rank + 1 - block->ranks > TABLE_ROWS_MAX - table->rows_made) return NULL;
        table->rows_made += rank + 1 - block->ranks;
        block->rows = g_renew(struct table_rows, block->rows, rank + 1);
        memset(block->rows + block->ranks, 0, (rank + 1 - block->ranks) * sizeof *block->rows);
        block->ranks = rank + 1;
        table->ranks = MAX(table->ranks, block->ranks);
    }
    return &block->rows[rank];
}

int32_t *table_row_add(struct table *table, struct table_rows *rows, float **weights)
{
    const uint32_t topk = table->topk;
    if (rows->tokens == rows->capacity) {
        rows->capacity = MAX(64, rows->capacity * 2);
        rows->experts = g_renew(int32_t, rows->experts, (size_t)rows->capacity * topk);
        if (rows->weights) rows->weights = g_renew(float, rows->weights, (size_t)rows->capacity *topk);
    }
    if (weights && !rows->weights) {
        rows->weights = g_new0(float, (size_t)rows->capacity *topk);
        table->weights = true;
        table->last->weights = true;
    }
    int32_t *const experts = rows->experts + (size_t)rows->tokens * topk;
    memset(experts, 0xff, topk * sizeof *experts);
    if (rows->weights) {
        float *const row_weights = rows->weights + (size_t)rows->tokens * topk;
        memset(row_weights, 0, topk * sizeof *row_weights);
        if (weights) *weights = row_weights;
    }
    rows->tokens++;
    return experts;
}

static bool table_read(struct trace *trace, uint32_t step, uint32_t layer, uint32_t rank_count, struct routing *out,
                       GError **error)
{
    (void)error;
    const struct table *const table = trace->state;
    const struct block *const block = table->at[(size_t)step * table->layers + layer];
    const uint32_t present = block ? MIN(block->ranks, rank_count) : 0;
    g_autofree uint32_t *tokens = g_new0(uint32_t, rank_count);
    for (uint32_t r = 0; r < present; r++) tokens[r] = block->rows[r].tokens;
    routing_alloc(out, rank_count, table->topk, trace->info.experts, tokens, block && block->weights);
    for (uint32_t r = 0; r < present; r++) {
        const struct table_rows *const rows = &block->rows[r];
        const size_t places = (size_t)rows->tokens * table->topk;
        if (places) memcpy(out->rank[r].experts, rows->experts, places * sizeof *rows->experts);
        if (places && rows->weights) memcpy(out->rank[r].weights, rows->weights, places * sizeof *rows->weights);
    }
    return true;
}

static void table_close(struct trace *trace) { table_free(trace->state); }

static const struct trace_source_ops table_ops = { table_read, table_close };

static int number_compare(const void *a, const void *b)
{
    const uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return left < right ? -1 : left > right;
}

/* The different numbers of steps, or of layers, in rising order.  *count gets how many they are. */
static uint32_t *numbers_sort(const struct table *table, bool of_steps, uint32_t *count)
{
    uint32_t *const numbers = g_new(uint32_t, table->blocks->len + 1);
    for (uint32_t i = 0; i < table->blocks->len; i++) {
        const struct block *const block = g_ptr_array_index(table->blocks, i);
        numbers[i] = of_steps ? block->step : block->layer;
    }
    qsort(numbers, table->blocks->len, sizeof *numbers, number_compare);
    *count = 0;
    for (uint32_t i = 0; i < table->blocks->len; i++)
        if (*count == 0 || numbers[*count - 1] != numbers[i]) numbers[(*count)++] = numbers[i];
    return numbers;
}

static bool claim_check(const struct trace *trace, const char *field, uint32_t claimed, uint32_t found, GError **error)
{
    if (found <= claimed) return true;
    return error_input(error, "%s: %s: expected at most %u (the file says so), found %u", trace->path, field, claimed,
                       found);
}

/* Puts every block at its place in [steps][layers]. */
static bool blocks_place(struct table *table, const struct table_claims *claims, struct trace *trace, GError **error)
{
    struct trace_info *const info = &trace->info;
    uint32_t step_count, layer_count;
    g_autofree uint32_t *steps = numbers_sort(table, true, &step_count);
    g_autofree uint32_t *layers = numbers_sort(table, false, &layer_count);
    bool good = true;
    if (claims->steps && step_count) good = claim_check(trace, "step", claims->steps - 1, steps[step_count - 1], error);
    if (good && claims->layers && layer_count)
        good = claim_check(trace, "layer", claims->layers - 1, layers[layer_count - 1], error);
    info->steps = claims->steps ? claims->steps : step_count;
    info->layers = claims->layers ? claims->layers : layer_count;
    table->layers = info->layers;
    good = good && trace_info_check(trace, error);
    if (good && (uint64_t)info->steps * info->layers > TABLE_ROWS_MAX) {
        error_input(error, "%s: expected " TABLE_FULL ", found %u steps and %u layers", trace->path, info->steps,
                    info->layers);
        good = false;
    }
    if (good) table->at = g_new0(struct block *, (size_t)info->steps * info->layers);
    for (uint32_t i = 0; good && i < table->blocks->len; i++) {
        struct block *const block = g_ptr_array_index(table->blocks, i);
        const uint32_t *const step = bsearch(&block->step, steps, step_count, sizeof *steps, number_compare);
        const uint32_t *const layer = bsearch(&block->layer, layers, layer_count, sizeof *layers, number_compare);
        const size_t s = claims->steps ? block->step : (size_t)(step - steps);
        const size_t l = claims->layers ? block->layer : (size_t)(layer - layers);
        table->at[s * info->layers + l] = block;
    }
    return good;
}

bool table_serve(struct table *table, const struct table_claims *claims, struct trace *trace, GError **error)
{
    struct trace_info *const info = &trace->info;
    trace->state = table;
    trace->ops = &table_ops;
    if (table->blocks->len == 0 && !(claims->steps && claims->layers && claims->ranks))
        return error_input(error, "%s: expected tokens, found none", trace->path);
    for (uint32_t i = 0; i < table->blocks->len; i++) {
        const struct block *const block = g_ptr_array_index(table->blocks, i);
        for (uint32_t r = 0; r < block->ranks; r++) {
            const struct table_rows *const rows = &block->rows[r];
            info->tokens_max = MAX(info->tokens_max, rows->tokens);
            for (size_t p = 0; p < (size_t)rows->tokens * table->topk; p++)
                table->highest = MAX(table->highest, rows->experts[p]);
        }
    }
    if (claims->ranks && !claim_check(trace, "ranks", claims->ranks, table->ranks, error)) return false;
    info->ranks = claims->ranks ? claims->ranks : table->ranks;
    info->topk = table->topk;
    info->weights = table->weights;
    info->experts = claims->experts ? claims->experts : trace_experts_guess(info->ranks, table->highest);
    return blocks_place(table, claims, trace, error);
}
