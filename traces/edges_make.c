/* edges_make.c - lists of messages that are drawn or listed, follow from a routing, or come from a file. */
#include "traces/edges_make.h"

#include <math.h>
#include <string.h>
#include "sim/error.h"
#include "sim/rng.h"
#include "sim/text.h"

enum { LISTED_RANKS_MAX = 4096 };

/* ---- loads that are drawn ---- */

static bool draw_refuse(const char *spec, GError **error)
{
    return error_input(
        error, "matrix: expected a file, uniform:SIZE or lognormal:SIZE[:S] (1 B to 1 GiB, S 0 to 5), found '%s'",
        spec);
}

bool edges_spec_drawn(const char *spec)
{
    return g_str_has_prefix(spec, "uniform:") || g_str_has_prefix(spec, "lognormal:");
}

/* Draws each target's popularity: the bytes that it gets, relative to the mean over targets. */
static double *popularity_draw(uint32_t ranks, double deviation, struct rng *rng)
{
    double *popularity = g_new(double, ranks), sum = 0;
    for (uint32_t r = 0; r < ranks; r++) sum += popularity[r] = exp(deviation * rng_normal(rng));
    for (uint32_t r = 0; r < ranks; r++) popularity[r] *= ranks / sum;
    return popularity;
}

/* Rounds a number of rows up or down by chance, so that the mean of many results is that number. */
static uint32_t rows_draw(double rows, struct rng *rng)
{
    return (uint32_t)fmin(floor(rows + rng_uniform(rng)), UINT32_MAX);
}

/* Returns the bytes of the largest message, which may be too large. */
static uint64_t edges_draw(struct edges *e, uint32_t ranks, uint32_t bytes, const double *popularity,
                           uint32_t row_bytes, struct rng *rng)
{
    edges_alloc(e, ranks, ranks * (ranks - 1));
    uint32_t count = 0;
    uint64_t most_bytes = 0;
    for (uint32_t source = 0; source < ranks; source++) {
        for (uint32_t i = 1; i < ranks; i++) {
            const uint32_t target = (source + i) % ranks;
            uint64_t size_bytes = bytes;
            if (popularity) size_bytes = (uint64_t)rows_draw(popularity[target] * bytes / row_bytes, rng) * row_bytes;
            if (!size_bytes) continue;
            e->target[count] = (uint16_t)target;
            e->size_bytes[count++] = (uint32_t)MIN(size_bytes, EDGE_BYTES_MAX);
            most_bytes = MAX(most_bytes, size_bytes);
        }
        e->first[source + 1] = count;
    }
    edges_finish(e);
    return most_bytes;
}

static bool edges_drawn(const char *spec, uint32_t ranks, uint32_t row_bytes, uint64_t seed, struct edges *e,
                        GError **error)
{
    g_auto(GStrv) part = g_strsplit(spec, ":", 0);
    const bool popular = strcmp(part[0], "lognormal") == 0;
    const guint parts = g_strv_length(part);
    guint64 bytes = 0;
    double deviation = 0.7;
    if (parts < 2 || parts > (popular ? 3u : 2u) || !text_bytes(part[1], &bytes) || bytes < 1 || bytes > EDGE_BYTES_MAX)
        return draw_refuse(spec, error);
    const char *const end = parts == 3 ? text_decimal(part[2], &deviation) : "";
    if (!end || *end || !(deviation >= 0 && deviation <= 5)) return draw_refuse(spec, error);
    if ((uint64_t)ranks * (ranks - 1) > EDGES_MAX)
        return error_input(error, "matrix: expected at most %d messages, found %" G_GUINT64_FORMAT, EDGES_MAX,
                           (uint64_t)ranks * (ranks - 1));
    struct rng rng = rng_seeded(seed);
    g_autofree double *popularity = popular ? popularity_draw(ranks, deviation, &rng) : NULL;
    const uint64_t most_bytes = edges_draw(e, ranks, (uint32_t)bytes, popularity, row_bytes, &rng);
    if (most_bytes <= EDGE_BYTES_MAX) return true;
    edges_free(e);
    return error_input(error, "matrix: expected messages of at most 1 GiB, found one of %" G_GUINT64_FORMAT " B by %s",
                       most_bytes, spec);
}

/* ---- loads that are listed ---- */

/* Adds the messages of a rank, whose sizes to each rank `row` lists.  The first goes to the rank after it. */
static bool row_add(struct edges *e, uint32_t source, const char *row, GError **error)
{
    g_auto(GStrv) cell = g_strsplit(row, "|", 0);
    uint32_t count = e->first[source];
    if (g_strv_length(cell) != e->ranks)
        return error_input(error, "matrix: row %u: expected %u sizes with '|' between them, as many as rows, found %u",
                           source + 1, e->ranks, g_strv_length(cell));
    for (uint32_t i = 1; i <= e->ranks; i++) {
        const uint32_t target = (source + i) % e->ranks;
        guint64 bytes;
        if (!text_bytes(cell[target], &bytes) || bytes > EDGE_BYTES_MAX)
            return error_input(error, "matrix: row %u, column %u: expected a size from 0 B to 1 GiB, found '%s'",
                               source + 1, target + 1, cell[target]);
        if (!bytes) continue;
        e->target[count] = (uint16_t)target;
        e->size_bytes[count++] = (uint32_t)bytes;
    }
    e->first[source + 1] = count;
    return true;
}

static bool edges_listed(const char *spec, uint32_t ranks, struct edges *e, GError **error)
{
    g_auto(GStrv) row = g_strsplit(spec, ";", 0);
    const guint rows = g_strv_length(row);
    if ((ranks && rows != ranks) || rows > LISTED_RANKS_MAX)
        return error_input(error, "matrix: expected %s%u rows with ';' between them, found %u", ranks ? "" : "at most ",
                           ranks ? ranks : LISTED_RANKS_MAX, rows);
    edges_alloc(e, rows, rows * rows);
    for (uint32_t source = 0; source < rows; source++) {
        if (row_add(e, source, row[source], error)) continue;
        edges_free(e);
        return false;
    }
    edges_finish(e);
    return true;
}

bool edges_make(const char *spec, uint32_t ranks, uint32_t row_bytes, uint64_t seed, struct edges *e, GError **error)
{
    *e = (struct edges){ 0 };
    if (edges_spec_drawn(spec)) return edges_drawn(spec, ranks, row_bytes, seed, e, error);
    if (strchr(spec, '|')) return edges_listed(spec, ranks, e, error);
    if (!edges_read(spec, e, error)) return false;
    if (!ranks || ranks == e->ranks) return true;
    error_input(error, "%s:1: endpoints: expected num-ranks %u, found %u", spec, ranks, e->ranks);
    edges_free(e);
    return false;
}

/* ---- the load of a routing ---- */

/* Sets rows[target] to the number of the source's tokens that go to each target. */
static void rows_count(const struct routing *routing, uint32_t source, uint32_t *rows, uint32_t *seen, uint32_t *token)
{
    const struct routing_rank *rank = &routing->rank[source];
    const uint32_t experts_a_rank = routing->experts / routing->ranks;
    for (uint32_t t = 0; t < rank->tokens; t++) {
        ++*token;
        for (uint32_t k = 0; k < routing->topk; k++) {
            const int32_t expert = rank->experts[(size_t)t * routing->topk + k];
            if (expert == ROUTING_NONE) continue;
            const uint32_t target = (uint32_t)expert / experts_a_rank;
            rows[target] += seen[target] != *token;
            seen[target] = *token;
        }
    }
}

bool edges_of_routing(const struct routing *routing, uint32_t row_bytes, struct edges *e, GError **error)
{
    const uint32_t ranks = routing->ranks;
    g_autofree uint32_t *rows = g_new(uint32_t, ranks), *seen = g_new0(uint32_t, ranks);
    uint32_t count = 0, token = 0;
    edges_alloc(e, ranks, ranks * ranks);
    for (uint32_t source = 0; source < ranks; source++) {
        memset(rows, 0, ranks * sizeof *rows);
        rows_count(routing, source, rows, seen, &token);
        for (uint32_t i = 1; i <= ranks; i++) {
            const uint32_t target = (source + i) % ranks;
            const uint64_t size_bytes = (uint64_t)rows[target] * row_bytes;
            if (!size_bytes) continue;
            if (size_bytes > EDGE_BYTES_MAX) {
                edges_free(e);
                return error_input(error,
                                   "num-tokens: expected at most 1 GiB from a rank to another, found %" G_GUINT64_FORMAT
                                   " B from rank %u to rank %u",
                                   size_bytes, source, target);
            }
            e->target[count] = (uint16_t)target;
            e->size_bytes[count++] = (uint32_t)size_bytes;
        }
        e->first[source + 1] = count;
    }
    edges_finish(e);
    return true;
}
