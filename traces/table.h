/* table.h - a trace held in memory, to which tokens are added one by one.  Readers of text formats fill one when they
 * open a file.
 *
 * Steps and layers may come in any order, with any numbers.  At the end, the sorted numbers become 0, 1, 2, ..., unless
 * the file states how many steps or layers there are.
 *
 * Internal to traces/. */
#ifndef TRACES_TABLE_H
#define TRACES_TABLE_H

#include "traces/trace_source.h"

struct table;

struct table_rows { /* the tokens of one rank in one (step, layer) */
    uint32_t tokens, capacity;
    int32_t *experts; /* [capacity][topk] */
    float *weights;   /* [capacity][topk], or NULL */
};

struct table *table_new(uint32_t topk);
void table_free(struct table *table);
uint32_t table_topk(const struct table *table);

#define TABLE_FULL "at most 4194304 (step, layer, rank)s in a text trace"
/* The rows of a rank in a (step, layer), which are made if they do not exist. rank must be below ROUTING_RANKS_MAX.
 * The result is valid until the next call.  NULL if the table has reached its limit (TABLE_FULL).  There is a limit
 * because a few large numbers in a small file must not become gigabytes. */
struct table_rows *table_rows(struct table *table, uint32_t step, uint32_t layer, uint32_t rank);

/* Adds one token.  Returns its experts, which are ROUTING_NONE.  If weights is not NULL, *weights gets the token's
 * weights, which are 0. */
int32_t *table_row_add(struct table *table, struct table_rows *rows, float **weights);

/* If all experts of a token are equal, sets them to ROUTING_NONE.  In a batch of sequences padded with zeros, such a
 * token is padding, which goes nowhere. */
static inline void table_row_unpad(int32_t *experts, uint32_t topk)
{
    for (uint32_t k = 1; k < topk; k++)
        if (experts[k] != experts[0]) return;
    for (uint32_t k = 0; k < topk && topk > 1; k++) experts[k] = ROUTING_NONE;
}

/* Sizes that a file may state; 0: it does not state the size. */
struct table_claims {
    uint32_t steps, layers, ranks, experts;
};

/* Makes the table the source of the trace, and fills in the trace's info except format.  Takes the table over, even on
 * failure.  False and *error if the contents contradict a claim. */
bool table_serve(struct table *table, const struct table_claims *claims, struct trace *trace, GError **error);

#endif
