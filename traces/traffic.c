/* traffic.c - routing with an exact traffic matrix.
 *
 * Knows numbers of tokens from ranks to ranks, or to experts, not their reasons.  The tokens of each source are drawn
 * separately.  The source's row of the matrix becomes a list of destinations, in which each destination occurs as often
 * as the matrix says, and equal ones are next to each other.  The list is dealt to the source's tokens in rotation:
 *
 *     destinations  2 2 2 2 0 0 0 1 1 1        tokens 5
 *     token         0 1 2 3 4 0 1 2 3 4        so token 0 goes to ranks 2 and 0
 *
 * A destination that occurs at most as often as there are tokens never gets one token twice.  The tokens' numbers of
 * destinations differ by at most one.  So every possible matrix can be dealt in this way. */
#include "traces/generate.h"

#include <assert.h>
#include <string.h>
#include "sim/error.h"
#include "sim/memory.h"
#include "sim/text.h"
#include "traces/urn.h"

struct row {
    const struct traffic_options *options;
    uint32_t columns, source, experts_each; /* experts_each: experts of a destination; 1 if it is an expert */
    bool pairs;                             /* whether the matrix counts (token, expert) pairs, and not tokens */
    const uint32_t *count;                  /* [columns] this source's row of the matrix */
    uint32_t *token_at;                     /* [tokens] random order of the tokens */
    uint32_t *column_at;                    /* [columns] random order of the destinations */
    uint32_t *given;                        /* [tokens] number of destinations dealt to the token so far */
    uint32_t *destination;                  /* [tokens][topk] the destinations dealt to the token */
    struct urn urn;
};

static bool matrix_error(GError **error, uint32_t row, uint32_t column, const char *expected, const char *found)
{
    return error_input(error, "traffic: row %u column %u: expected %s, found '%s'", row, column, expected, found);
}

/* Reads one row of `columns` cells. */
static bool row_parse(const char *text, uint32_t row, uint32_t ranks, uint32_t columns, uint32_t *counts,
                      GError **error)
{
    g_auto(GStrv) cells = g_strsplit(text, "|", -1);
    const uint32_t found = g_strv_length(cells);
    bool good = found == columns;
    if (!good)
        error_input(error, "traffic: row %u: expected %u columns separated by '|', as many as %s, found %u", row,
                    columns, columns == ranks ? "rows" : "experts", found);
    for (uint32_t c = 0; good && c < columns; c++) {
        const char *const cell = g_strstrip(cells[c]);
        guint64 value = 0;
        good = text_whole(cell, 0, UINT32_MAX, &value);
        counts[c] = (uint32_t)value;
        if (!good) matrix_error(error, row, c, "a number of tokens", cell);
    }
    return good;
}

/* Reads the matrix.  If the first row has as many cells as there are experts, columns are experts, else ranks. */
static uint32_t *matrix_parse(const struct traffic_options *o, uint32_t *ranks, uint32_t *columns, GError **error)
{
    g_auto(GStrv) rows = g_strsplit(o->matrix ? o->matrix : "", ";", -1);
    *ranks = g_strv_length(rows);
    if (*ranks < 1 || *ranks > 65536 || (o->ranks && *ranks != o->ranks))
        return error_null(error, "traffic: expected %u rows separated by ';', found %u", o->ranks ? o->ranks : 1,
                          *ranks);
    uint32_t cells = 1;
    for (const char *c = rows[0]; *c; c++) cells += *c == '|';
    *columns = cells == o->experts && o->experts <= ROUTING_EXPERTS_MAX ? cells : *ranks;
    uint32_t *matrix = g_new0(uint32_t, (size_t)*ranks * *columns);
    for (uint32_t r = 0; matrix && r < *ranks; r++)
        if (!row_parse(rows[r], r, *ranks, *columns, matrix + (size_t)r * *columns, error))
            g_clear_pointer(&matrix, g_free);
    return matrix;
}

/* Whether a routing with this row exists. */
static bool row_check(const struct row *row, GError **error)
{
    const struct traffic_options *const o = row->options;
    const uint64_t each_max = row->pairs ? (uint64_t)o->tokens * MIN(o->topk, row->experts_each) : o->tokens;
    const uint64_t sum_max = (uint64_t)o->tokens * (row->pairs ? o->topk : MIN(o->topk, row->columns));
    uint64_t sum = 0;
    char expected[96], found[32];
    for (uint32_t d = 0; d < row->columns; d++) {
        sum += row->count[d];
        if (row->count[d] <= each_max) continue;
        g_snprintf(expected, sizeof expected, "at most %" G_GUINT64_FORMAT " (tokens %u, topk %u)", each_max, o->tokens,
                   o->topk);
        g_snprintf(found, sizeof found, "%u", row->count[d]);
        return matrix_error(error, row->source, d, expected, found);
    }
    if (sum <= sum_max) return true;
    return error_input(error,
                       "traffic: row %u: expected a sum of at most %" G_GUINT64_FORMAT
                       " (tokens %u, topk %u), found %" G_GUINT64_FORMAT,
                       row->source, sum_max, o->tokens, o->topk, sum);
}

static void shuffle(struct urn *urn, uint32_t *values, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) values[i] = i;
    for (uint32_t i = count; i > 1; i--) {
        const uint32_t other = urn_below(urn, i), kept = values[i - 1];
        values[i - 1] = values[other];
        values[other] = kept;
    }
}

/* Deals the row's destinations to the tokens in rotation. */
static void row_deal(struct row *row)
{
    const struct traffic_options *const o = row->options;
    memset(row->given, 0, o->tokens * sizeof *row->given);
    shuffle(&row->urn, row->token_at, o->tokens);
    shuffle(&row->urn, row->column_at, row->columns);
    uint32_t turn = 0;
    for (uint32_t i = 0; i < row->columns; i++) {
        const uint32_t destination = row->column_at[i];
        for (uint32_t n = 0; n < row->count[destination]; n++) {
            const uint32_t token = row->token_at[turn];
            assert(row->given[token] < o->topk);
            row->destination[(size_t)token * o->topk + row->given[token]++] = destination;
            turn = turn + 1 == o->tokens ? 0 : turn + 1;
        }
    }
}

/* Draws the experts of one token: one for each destination that was dealt to it.  If the matrix does not count pairs,
 * the token's other places get more experts of its destinations.  These share the places as evenly as their numbers of
 * experts allow. */
static void token_draw(struct row *row, uint32_t token, int32_t *experts)
{
    const struct traffic_options *const o = row->options;
    const uint32_t *const destination = row->destination + (size_t)token * o->topk;
    const uint32_t given = row->given[token], each = row->experts_each;
    urn_token_next(&row->urn);
    if (given == 0) return;
    const uint64_t places = row->pairs ? given : MIN((uint64_t)o->topk, (uint64_t)given * each);
    const uint32_t turn = urn_below(&row->urn, given);
    for (uint32_t k = 0; k < places; k++)
        experts[k] = (int32_t)urn_draw_within(&row->urn, destination[(turn + k) % given] * each, each);
    for (uint32_t k = o->topk; k > 1; k--) {
        const uint32_t other = urn_below(&row->urn, k);
        const int32_t kept = experts[k - 1];
        experts[k - 1] = experts[other];
        experts[other] = kept;
    }
}

static bool traffic_check(const struct traffic_options *o, uint32_t ranks, GError **error)
{
    const char *field = NULL, *expected = NULL;
    uint32_t found = 0;
    if (o->experts < 1 || o->experts > ROUTING_EXPERTS_MAX || o->experts % ranks) {
        field = "num-experts", expected = "a multiple of the ranks", found = o->experts;
    } else if (o->topk < 1 || o->topk > ROUTING_TOPK_MAX || o->topk > o->experts) {
        field = "num-topk", expected = "1 to 256, and no more than experts", found = o->topk;
    }
    if (field) error_input(error, "%s: expected %s, found %u", field, expected, found);
    return !field;
}

bool routing_from_traffic(const struct traffic_options *options, struct routing *out, GError **error)
{
    uint32_t ranks = 0, columns = 0;
    g_autofree uint32_t *matrix = matrix_parse(options, &ranks, &columns, error);
    bool good = matrix && traffic_check(options, ranks, error);
    if (!good) return false;
    struct row row = { .options = options,
                       .columns = columns,
                       .experts_each = options->experts / columns,
                       .pairs = options->pairs || columns != ranks };
    for (row.source = 0; good && row.source < ranks; row.source++) {
        row.count = matrix + (size_t)row.source * columns;
        good = row_check(&row, error);
    }
    g_autofree uint32_t *tokens = g_new(uint32_t, ranks);
    for (uint32_t r = 0; r < ranks; r++) tokens[r] = options->tokens;
    row.token_at = g_new(uint32_t, options->tokens);
    row.given = g_new(uint32_t, options->tokens + 1); /* at least one element, so that it is no null pointer */
    row.destination = g_new(uint32_t, (size_t)options->tokens * options->topk);
    row.column_at = g_new(uint32_t, columns);
    urn_init(&row.urn, options->experts, 0, 0, NULL);
    if (good) routing_alloc(out, ranks, options->topk, options->experts, tokens, false);
    for (row.source = 0; good && row.source < ranks; row.source++) {
        urn_seed(&row.urn, options->seed + row.source);
        row.count = matrix + (size_t)row.source * columns;
        row_deal(&row);
        for (uint32_t t = 0; t < options->tokens; t++)
            token_draw(&row, t, out->rank[row.source].experts + (size_t)t * options->topk);
    }
    urn_clear(&row.urn);
    FREE_ALL(row.column_at, row.destination, row.given, row.token_at);
    return good;
}
