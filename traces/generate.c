/* generate.c - random routing, uniform and skewed.
 *
 * Decides how popular experts are and which ones a token prefers.  urn.c draws distinct experts.  The popularity of
 * a layer depends only on (seed, layer), so that a hot expert stays hot from step to step. */
#include "traces/generate.h"

#include <math.h>
#include <string.h>
#include "sim/error.h"
#include "sim/rng.h"
#include "sim/text.h"
#include "traces/power_law.h"
#include "traces/urn.h"

enum shape {
    SHAPE_UNIFORM,
    SHAPE_ZIPF,
    SHAPE_ZIPF_PACKED,
    SHAPE_LOGNORMAL,
    SHAPE_IMBALANCE,
    SHAPE_HOT_EXPERT,
    SHAPE_HOT_RANK,
    SHAPE_LOCAL,
    SHAPE_RING,
    SHAPE_ROUND,
    SHAPE_STRIDED,
    SHAPE_POWER_LAW,
    SHAPE_SAMPLED_POWER_LAW
};

static const struct shape_name {
    const char *name;
    enum shape shape;
    bool value; /* whether the distribution has a number: "NAME:VALUE" */
    double low, high;
} shape_names[] = {
    { "uniform", SHAPE_UNIFORM, false, 0, 0 },
    { "zipf", SHAPE_ZIPF, true, 0, 16 },
    { "zipf-packed", SHAPE_ZIPF_PACKED, true, 0, 16 },
    { "lognormal", SHAPE_LOGNORMAL, true, 0, 16 },
    { "imbalance", SHAPE_IMBALANCE, true, 1, 1e6 },
    { "hot-expert", SHAPE_HOT_EXPERT, true, 0, 1 },
    { "hot-rank", SHAPE_HOT_RANK, true, 0, 1 },
    { "local", SHAPE_LOCAL, false, 0, 0 },
    { "ring", SHAPE_RING, false, 0, 0 },
    { "round", SHAPE_ROUND, false, 0, 0 },
    { "strided", SHAPE_STRIDED, false, 0, 0 },
    { "power-law", SHAPE_POWER_LAW, true, 0, 16 },
    { "sampled-power-law", SHAPE_SAMPLED_POWER_LAW, true, 0, 16 },
};

struct generator {
    const struct routing_options *options;
    enum shape shape;
    double value, rank_weight;
    uint32_t local_experts;
    double *popularity; /* [experts] or NULL */
    struct urn urn;
    uint64_t places_taken; /* places ("round") or tokens ("strided", power laws) that the rank has used so far */
    int32_t *dealt;        /* for power laws: the experts of all tokens, rank by rank */
    uint32_t *order;       /* for "strided": the tokens of all ranks, rank by rank */
};

static bool is_dealt(enum shape shape) { return shape == SHAPE_POWER_LAW || shape == SHAPE_SAMPLED_POWER_LAW; }

/* The seed of an independent stream of random numbers for each (step, layer, purpose).  Odd constants keep these seeds
 * apart, and splitmix64 mixes them. */
static uint64_t stream_seed(const struct routing_options *o, uint64_t purpose, uint64_t step)
{
    return o->seed + step * UINT64_C(0xc2b2ae3d27d4eb4f) + o->layer * UINT64_C(0xd1b54a32d192ed03) +
           purpose * UINT64_C(0xaef17502108ef2d9);
}

static bool shape_parse(struct generator *g, GError **error)
{
    const char *const text = g->options->distribution ? g->options->distribution : "uniform";
    const char *const colon = strchr(text, ':');
    const size_t length = colon ? (size_t)(colon - text) : strlen(text);
    for (size_t i = 0; i < G_N_ELEMENTS(shape_names); i++) {
        const struct shape_name *const s = &shape_names[i];
        if (strlen(s->name) != length || strncmp(s->name, text, length) != 0) continue;
        g->shape = s->shape;
        if (!s->value && !colon) return true;
        const char *const end = colon ? text_decimal(colon + 1, &g->value) : NULL;
        if (s->value && end && *end == 0 && g->value >= s->low && g->value <= s->high) return true;
        if (!s->value) return error_input(error, "routing: expected plain '%s', found '%s'", s->name, text);
        return error_input(error, "routing: expected %s:VALUE with VALUE from %g to %g, found '%s'", s->name, s->low,
                           s->high, text);
    }
    return error_input(error,
                       "routing: expected uniform, zipf:S, zipf-packed:S, lognormal:S, imbalance:F, hot-expert:P, "
                       "hot-rank:P, local, ring, round, strided, power-law:A or sampled-power-law:A, found '%s'",
                       text);
}

static bool option_refuse(GError **error, const char *field, const char *expected, uint64_t found)
{
    return error_input(error, "%s: expected %s, found %" G_GUINT64_FORMAT, field, expected, found);
}

static bool options_check(const struct generator *g, GError **error)
{
    const struct routing_options *const o = g->options;
    if (o->ranks < 1 || o->ranks > ROUTING_RANKS_MAX)
        return option_refuse(error, "num-ranks", "1 to 1048576", o->ranks);
    if (o->experts < 1 || o->experts > ROUTING_EXPERTS_MAX || o->experts % o->ranks)
        return option_refuse(error, "num-experts", "a multiple of the ranks, at most 1048576", o->experts);
    if (o->topk < 1 || o->topk > ROUTING_TOPK_MAX || o->topk > o->experts)
        return option_refuse(error, "num-topk", "1 to 256, and no more than experts", o->topk);
    if (o->groups && o->topk_groups && o->experts % o->groups)
        return error_input(error, "num-experts: expected a multiple of the %u groups, found %u", o->groups, o->experts);
    if (o->groups && o->topk_groups > o->groups)
        return option_refuse(error, "num-topk-groups", "no more than groups", o->topk_groups);
    if (o->groups && o->topk_groups && (uint64_t)o->experts / o->groups * o->topk_groups < o->topk)
        return option_refuse(error, "num-topk-groups", "groups that hold num-topk experts together", o->topk_groups);
    if (!(o->correlation >= 0 && o->correlation <= 1))
        return error_input(error, "correlation: expected 0 to 1, found %g", o->correlation);
    if ((is_dealt(g->shape) || g->shape == SHAPE_STRIDED) && (uint64_t)o->ranks * o->tokens > POWER_LAW_TOKENS_MAX)
        return option_refuse(error, "num-tokens", "at most 2147483647 of all ranks with this routing", o->tokens);
    const bool one_rank = g->shape == SHAPE_HOT_RANK || g->shape == SHAPE_LOCAL || g->shape == SHAPE_RING;
    if (one_rank && g->local_experts < o->topk)
        return option_refuse(error, "num-topk", "no more than the experts of one rank with this routing", o->topk);
    return true;
}

/* Fills in the popularity of a distribution with one number, which is Zipf's exponent or the deviation of the
 * logarithm.  To reach a wanted imbalance, all experts of a rank may also share a random factor, weighted by
 * rank_weight. */
static void popularity_fill(struct generator *g, double value)
{
    const uint32_t n = g->options->experts;
    struct rng rng = rng_seeded(stream_seed(g->options, 1, 0));
    if (g->shape == SHAPE_LOGNORMAL || g->shape == SHAPE_IMBALANCE) {
        for (uint32_t e = 0; e < n; e++) g->popularity[e] = value * rng_normal(&rng);
        for (uint32_t r = 0; g->rank_weight > 0 && r < g->options->ranks; r++) {
            const double shared = value * g->rank_weight * rng_normal(&rng);
            for (uint32_t e = r * g->local_experts; e < (r + 1) * g->local_experts; e++) g->popularity[e] += shared;
        }
        for (uint32_t e = 0; e < n; e++) g->popularity[e] = exp(g->popularity[e]);
        return;
    }
    g_autofree uint32_t *order = g_new(uint32_t, n);
    for (uint32_t e = 0; e < n; e++) order[e] = e;
    for (uint32_t e = n; e > 1 && g->shape == SHAPE_ZIPF; e--) {
        const uint32_t other = (uint32_t)rng_below(&rng, e), kept = order[e - 1];
        order[e - 1] = order[other];
        order[other] = kept;
    }
    for (uint32_t e = 0; e < n; e++) g->popularity[order[e]] = pow(e + 1, -value);
}

/* The largest load of a rank over the mean load, in (token, expert) pairs of a sample with the current popularity. */
static double imbalance_sample(struct generator *g)
{
    enum { SAMPLE_TOKENS = 16384 };
    const struct routing_options *const o = g->options;
    struct urn urn;
    urn_init(&urn, o->experts, o->groups, o->topk_groups, g->popularity);
    urn_seed(&urn, stream_seed(o, 2, 0));
    g_autofree uint32_t *load = g_new0(uint32_t, o->ranks);
    for (uint32_t t = 0; t < SAMPLE_TOKENS; t++) {
        urn_token_next(&urn);
        for (uint32_t k = 0; k < o->topk; k++) load[urn_draw(&urn) / g->local_experts]++;
    }
    uint32_t most = 0;
    for (uint32_t r = 0; r < o->ranks; r++) most = MAX(most, load[r]);
    urn_clear(&urn);
    return (double)most * o->ranks / ((double)SAMPLE_TOKENS * o->topk);
}

static double imbalance_at(struct generator *g, double deviation)
{
    popularity_fill(g, deviation);
    return imbalance_sample(g);
}

/* Finds about the smallest deviation that gives the wanted imbalance.  It raises the deviation until the imbalance is
 * reached, then bisects.  A larger deviation does not always give more imbalance: in the end all tokens choose the same
 * topk experts, which may be on different ranks.  If independent experts never reach the imbalance, the experts of a
 * rank share a random factor. */
static bool imbalance_search(struct generator *g, GError **error)
{
    static const double rank_weights[] = { 0, 1, 3, 10 };
    const double step = 0.25, deviation_max = 3;
    double most = 0;
    for (size_t w = 0; w < G_N_ELEMENTS(rank_weights); w++) {
        g->rank_weight = rank_weights[w];
        for (double high = step; high <= deviation_max; high += step) {
            const double reached = imbalance_at(g, high);
            most = MAX(most, reached);
            if (reached < g->value) continue;
            double low = high - step;
            for (int i = 0; i < 8; i++) {
                const double middle = (low + high) / 2;
                if (imbalance_at(g, middle) < g->value) low = middle;
                else high = middle;
            }
            popularity_fill(g, high);
            return true;
        }
    }
    return error_input(
        error, "routing: expected imbalance of at most %.3g (what these ranks, experts and topk allow), found %g", most,
        g->value);
}

static bool generator_init(struct generator *g, const struct routing_options *options, GError **error)
{
    *g = (struct generator){ .options = options };
    if (!shape_parse(g, error)) return false;
    g->local_experts = options->ranks ? options->experts / options->ranks : 0;
    if (!options_check(g, error)) return false;
    if (g->shape == SHAPE_ZIPF || g->shape == SHAPE_ZIPF_PACKED || g->shape == SHAPE_LOGNORMAL ||
        g->shape == SHAPE_IMBALANCE) {
        g->popularity = g_new(double, options->experts);
        if (g->shape == SHAPE_IMBALANCE && !imbalance_search(g, error)) {
            g_free(g->popularity);
            return false;
        }
        if (g->shape != SHAPE_IMBALANCE) popularity_fill(g, g->value);
    }
    if (is_dealt(g->shape)) {
        const struct power_law law = { .ranks = options->ranks,
                                       .tokens = options->tokens,
                                       .topk = options->topk,
                                       .experts = options->experts,
                                       .alpha = g->value,
                                       .sampled = g->shape == SHAPE_SAMPLED_POWER_LAW,
                                       .seed = (uint32_t)options->seed + options->layer,
                                       .order_seed = (uint32_t)options->seed + options->layer + options->step };
        g->dealt = power_law_deal(&law);
    }
    if (g->shape == SHAPE_STRIDED)
        g->order =
            power_law_order(options->ranks * options->tokens, (uint32_t)options->seed + options->layer + options->step);
    urn_init(&g->urn, options->experts, options->groups, options->topk_groups, g->popularity);
    return true;
}

static void generator_clear(struct generator *g)
{
    urn_clear(&g->urn);
    g_free(g->popularity);
    g_free(g->dealt);
    g_free(g->order);
}

/* Gives a token its experts for "round".  The places of a rank's tokens go to all ranks in rotation, and on each rank
 * to its experts in rotation.  TensorRT-LLM's benchmarks call this a perfect router. */
static void token_round(struct generator *g, uint32_t rank, int32_t *experts)
{
    const struct routing_options *const o = g->options;
    for (uint32_t k = 0; k < o->topk; k++) {
        const uint64_t place = g->places_taken++ + rank, round = place / o->ranks;
        experts[k] = (int32_t)(place % o->ranks * g->local_experts + round % g->local_experts);
    }
}

/* Gives a token its experts for "strided", as aiconfigurator's balanced_logits and build_routing_plan do.  The experts
 * of a token are as far apart as possible: `stride` experts.  The first expert of token number n is n, modulo the
 * number of experts.  If there are fewer than `stride` tokens, their first experts are spread over one stride.  Ranks
 * get the tokens in random order. */
static void token_strided(struct generator *g, uint32_t rank, int32_t *experts)
{
    const struct routing_options *const o = g->options;
    const uint64_t stride = o->experts / o->topk, tokens = (uint64_t)o->tokens * o->ranks;
    const uint64_t token = g->order[(uint64_t)rank * o->tokens + g->places_taken++],
                   at = tokens < stride ? token * stride / tokens : token;
    for (uint32_t k = 0; k < o->topk; k++) experts[k] = (int32_t)((at + k * stride) % o->experts);
}

/* Draws one token of a rank.  The experts that the distribution prescribes come first, and the urn draws the others. */
static void token_draw(struct generator *g, uint32_t rank, int32_t *experts)
{
    const struct routing_options *const o = g->options;
    struct urn *const urn = &g->urn;
    uint32_t k = 0, home = UINT32_MAX;
    if (g->shape == SHAPE_ROUND) {
        token_round(g, rank, experts);
        return;
    }
    if (g->shape == SHAPE_STRIDED) {
        token_strided(g, rank, experts);
        return;
    }
    if (is_dealt(g->shape)) {
        const size_t token = (size_t)rank * o->tokens + g->places_taken++;
        memcpy(experts, g->dealt + token * o->topk, o->topk * sizeof *experts);
        return;
    }
    urn_token_next(urn);
    if (g->shape == SHAPE_LOCAL) home = rank;
    else if (g->shape == SHAPE_RING) home = (rank + 1) % o->ranks;
    else if (g->shape == SHAPE_HOT_RANK && urn_uniform(urn) < g->value) home = 0;
    else if (g->shape == SHAPE_HOT_EXPERT && urn_uniform(urn) < g->value) {
        urn_take(urn, 0);
        experts[k++] = 0;
    }
    if (home == UINT32_MAX) urn_draw_many(urn, o->topk - k, experts + k);
    else
        for (; k < o->topk; k++) experts[k] = (int32_t)urn_draw_within(urn, home * g->local_experts, g->local_experts);
}

/* Draws gate weights like those of a softmax: positive, descending, with the sum 1. */
static void token_weigh(struct rng *rng, uint32_t topk, float *weights)
{
    double value[ROUTING_TOPK_MAX], sum = 0;
    for (uint32_t k = 0; k < topk; k++) {
        const double drawn = 0.05 + rng_uniform(rng);
        uint32_t at = k;
        for (; at > 0 && value[at - 1] < drawn; at--) value[at] = value[at - 1];
        value[at] = drawn;
        sum += drawn;
    }
    for (uint32_t k = 0; k < topk; k++) weights[k] = (float)(value[k] / sum);
}

/* Whether no place of a token is masked.  Tokens with masked places are drawn anew in the next step, because masked
 * places would become more with each step. */
static bool is_whole(const int32_t *experts, uint32_t topk)
{
    uint32_t k = 0;
    while (k < topk && experts[k] != ROUTING_NONE) k++;
    return k == topk;
}

static void rank_draw(struct generator *g, uint32_t rank, const struct routing_rank *previous, struct routing_rank *out)
{
    const struct routing_options *const o = g->options;
    urn_seed(&g->urn, stream_seed(o, 0, o->step) + rank);
    g->places_taken = 0;
    if (previous) {
        for (uint32_t t = 0; t < o->tokens; t++) {
            int32_t *const experts = out->experts + (size_t)t * o->topk;
            const int32_t *const before = previous->experts + (size_t)t * o->topk;
            const bool kept = urn_uniform(&g->urn) < o->correlation;
            if (kept && is_whole(before, o->topk)) memcpy(experts, before, o->topk * sizeof *experts);
            else token_draw(g, rank, experts);
        }
    } else {
        for (uint32_t t = 0; t < o->tokens; t++) token_draw(g, rank, out->experts + (size_t)t * o->topk);
    }
    struct rng rng;
    if (out->weights) {
        rng_seed(&rng, stream_seed(o, 3, o->step) + rank);
        for (uint32_t t = 0; t < o->tokens; t++) token_weigh(&rng, o->topk, out->weights + (size_t)t * o->topk);
    }
    if (o->masked_places && o->tokens) {
        rng_seed(&rng, stream_seed(o, 4, o->step) + rank);
        for (uint32_t i = 0; i < o->masked_places; i++) {
            const uint64_t place = rng_below(&rng, (uint64_t)o->tokens * o->topk);
            out->experts[place] = ROUTING_NONE;
            if (out->weights) out->weights[place] = 0;
        }
    }
}

bool routing_generate_after(const struct routing_options *options, const struct routing *previous, struct routing *out,
                            GError **error)
{
    struct generator g;
    if (!generator_init(&g, options, error)) return false;
    g_autofree uint32_t *tokens = g_new(uint32_t, options->ranks);
    for (uint32_t r = 0; r < options->ranks; r++) tokens[r] = options->tokens;
    routing_alloc(out, options->ranks, options->topk, options->experts, tokens, options->weights);
    for (uint32_t r = 0; r < options->ranks; r++)
        rank_draw(&g, r, previous && options->correlation > 0 ? &previous->rank[r] : NULL, &out->rank[r]);
    generator_clear(&g);
    return true;
}

bool routing_generate(const struct routing_options *options, struct routing *out, GError **error)
{
    return routing_generate_after(options, NULL, out, error);
}
