/* test_trace_generate.c - synthetic routing.
 *
 * Experts drawn without scores must be distributed as if scores had been drawn.  A chi-square test of all ordered
 * outcomes compares them with a generator that does draw scores.  The test must also reject a plausible but wrong
 * shortcut.  Traffic matrices must come out exactly, or be refused. */
#include <math.h>
#include <stdbool.h>
#include <string.h>
#include "sim/rng.h"
#include "traces/generate.h"
#include "traces/urn.h"
#include "tests/unit.h"

enum { EXPERTS = 8, GROUPS = 4, KEPT = 2, TOPK = 3, CELLS = EXPERTS * EXPERTS * EXPERTS, DRAWS = 200000 };

static bool token_distinct(const struct routing *routing, uint32_t rank, uint32_t token)
{
    const int32_t *const e = routing->rank[rank].experts + (size_t)token * routing->topk;
    for (uint32_t i = 0; i < routing->topk; i++) {
        if (e[i] == ROUTING_NONE) continue;
        if (e[i] < 0 || (uint32_t)e[i] >= routing->experts) return false;
        for (uint32_t j = 0; j < i; j++)
            if (e[j] == e[i]) return false;
    }
    return true;
}

static bool routing_distinct(const struct routing *routing)
{
    for (uint32_t r = 0; r < routing->ranks; r++)
        for (uint32_t t = 0; t < routing->rank[r].tokens; t++)
            if (!token_distinct(routing, r, t)) return false;
    return true;
}

TEST("every distribution is sound")
{
    static const char *const names[] = { NULL,
                                         "uniform",
                                         "zipf:1.2",
                                         "zipf-packed:3",
                                         "lognormal:2",
                                         "imbalance:1.5",
                                         "hot-expert:0.3",
                                         "hot-rank:0.5",
                                         "local",
                                         "ring",
                                         "round",
                                         "strided",
                                         "power-law:0",
                                         "power-law:1",
                                         "power-law:1.2",
                                         "power-law:16",
                                         "sampled-power-law:1.9" };
    for (size_t n = 0; n < G_N_ELEMENTS(names); n++) {
        for (uint32_t grouped = 0; grouped < 2; grouped++) {
            const struct routing_options options = { .ranks = 4,
                                                     .tokens = 300,
                                                     .topk = 8,
                                                     .experts = 32,
                                                     .groups = grouped * 4,
                                                     .topk_groups = 2,
                                                     .seed = 5,
                                                     .distribution = names[n] };
            g_auto(routing) first, again;
            GError *error = NULL;
            CU_ASSERT_FATAL(routing_generate(&options, &first, &error));
            CU_ASSERT_FATAL(routing_generate(&options, &again, &error));
            CU_ASSERT(routing_distinct(&first));
            CU_ASSERT(memcmp(first.rank[0].experts, again.rank[0].experts, 4 * 300 * 8 * sizeof(int32_t)) == 0);
        }
    }
}

/* Draws an outcome by definition: group-limited top-k of scores |N(0,1)|+1. */
static uint32_t outcome_by_scores(struct rng *rng)
{
    double score[EXPERTS], best[GROUPS] = { 0 };
    bool kept[GROUPS] = { false };
    uint32_t outcome = 0;
    for (int e = 0; e < EXPERTS; e++) {
        score[e] = fabs(rng_normal(rng)) + 1;
        best[e / (EXPERTS / GROUPS)] = fmax(best[e / (EXPERTS / GROUPS)], score[e]);
    }
    for (int k = 0; k < KEPT; k++) {
        int most = -1;
        for (int g = 0; g < GROUPS; g++)
            if (!kept[g] && (most < 0 || best[g] > best[most])) most = g;
        kept[most] = true;
    }
    for (int k = 0; k < TOPK; k++) {
        int most = -1;
        for (int e = 0; e < EXPERTS; e++)
            if (kept[e / (EXPERTS / GROUPS)] && (most < 0 || score[e] > score[most])) most = e;
        outcome = outcome * EXPERTS + (uint32_t)most;
        score[most] = 0;
    }
    return outcome;
}

static uint32_t outcome_by_urn(struct urn *urn)
{
    uint32_t outcome = 0;
    urn_token_next(urn);
    for (int k = 0; k < TOPK; k++) outcome = outcome * EXPERTS + urn_draw(urn);
    return outcome;
}

/* Draws an outcome by a shortcut that looks right: it chooses groups, then any of their experts.  It ignores that a
 * group is kept because its best expert is good. */
static uint32_t outcome_by_shortcut(struct rng *rng)
{
    const uint32_t first = (uint32_t)rng_below(rng, GROUPS);
    const uint32_t second = (first + 1 + (uint32_t)rng_below(rng, GROUPS - 1)) % GROUPS;
    uint32_t experts[4] = { first * 2, first * 2 + 1, second * 2, second * 2 + 1 }, outcome = 0;
    for (uint32_t k = 0; k < TOPK; k++) {
        const uint32_t other = k + (uint32_t)rng_below(rng, 4 - k), drawn = experts[other];
        experts[other] = experts[k];
        experts[k] = drawn;
        outcome = outcome * EXPERTS + drawn;
    }
    return outcome;
}

/* Returns how many standard deviations the chi-square of two samples is from its mean. */
static double chi_square_sigmas(const uint32_t *a, const uint32_t *b)
{
    double chi = 0, freedom = -1;
    for (int c = 0; c < CELLS; c++) {
        const double sum = (double)a[c] + b[c], difference = (double)a[c] - b[c];
        if (sum == 0) continue;
        chi += difference * difference / sum;
        freedom++;
    }
    return (chi - freedom) / sqrt(2 * freedom);
}

TEST("groups are distributed as scores")
{
    static uint32_t scores[CELLS], drawn[CELLS], shortcut[CELLS];
    struct rng rng = rng_seeded(1);
    struct urn urn;
    urn_init(&urn, EXPERTS, GROUPS, KEPT, NULL);
    urn_seed(&urn, 2);
    for (int i = 0; i < DRAWS; i++) {
        scores[outcome_by_scores(&rng)]++;
        drawn[outcome_by_urn(&urn)]++;
        shortcut[outcome_by_shortcut(&rng)]++;
    }
    urn_clear(&urn);
    CU_ASSERT(fabs(chi_square_sigmas(scores, drawn)) < 4);
    CU_ASSERT(chi_square_sigmas(scores, shortcut) > 100);
}

TEST("popularity is drawn without replacement")
{
    static const double popularity[4] = { 8, 4, 2, 1 };
    uint32_t count[4][4] = { { 0 } };
    struct urn urn;
    urn_init(&urn, 4, 0, 0, popularity);
    urn_seed(&urn, 3);
    for (int i = 0; i < DRAWS; i++) {
        urn_token_next(&urn);
        const uint32_t first = urn_draw(&urn);
        count[first][urn_draw(&urn)]++;
    }
    urn_clear(&urn);
    double chi = 0;
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 4; j++) {
            const double expected = DRAWS * popularity[i] / 15 * popularity[j] / (15 - popularity[i]);
            if (i == j) CU_ASSERT_EQUAL(count[i][j], 0)
            else chi += (count[i][j] - expected) * (count[i][j] - expected) / expected;
        }
    }
    CU_ASSERT(chi < 11 + 4 * sqrt(22));
}

/* Such popularity exceeds the retries of the draw.  Then the remaining experts are weighed one by one. */
TEST("extreme popularity ends")
{
    static const double popularity[4] = { 1e12, 1, 1, 2 };
    uint32_t last[4] = { 0 };
    struct urn urn;
    urn_init(&urn, 4, 0, 0, popularity);
    urn_seed(&urn, 4);
    for (int i = 0; i < 20000; i++) {
        urn_token_next(&urn);
        CU_ASSERT(urn_draw(&urn) == 0);
        last[urn_draw(&urn)]++;
    }
    urn_clear(&urn);
    CU_ASSERT(last[0] == 0 && abs((int)last[3] - 10000) < 400 && abs((int)last[1] - 5000) < 400);
}

/* Returns the (token, expert) pairs that a rank receives, divided by the mean over ranks.  *all_on_first gets the
 * number of tokens whose experts are all on rank 0. */
static double rank_load(const struct routing *routing, uint32_t rank, uint32_t *all_on_first)
{
    const uint32_t local = routing->experts / routing->ranks;
    double pairs = 0, on_rank = 0;
    *all_on_first = 0;
    for (uint32_t r = 0; r < routing->ranks; r++) {
        for (uint32_t t = 0; t < routing->rank[r].tokens; t++) {
            uint32_t on_first = 0;
            for (uint32_t k = 0; k < routing->topk; k++) {
                const uint32_t e = (uint32_t)routing->rank[r].experts[t * routing->topk + k];
                on_rank += e / local == rank;
                on_first += e / local == 0;
                pairs++;
            }
            *all_on_first += on_first == routing->topk;
        }
    }
    return on_rank * routing->ranks / pairs;
}

TEST("skew is what was asked")
{
    struct routing_options options = { .ranks = 8, .tokens = 4096, .topk = 8, .experts = 256, .seed = 7 };
    struct routing routing;
    uint32_t all_on_first;
    static const double factors[] = { 1.25, 2, 4 };
    char text[32];
    for (size_t f = 0; f < G_N_ELEMENTS(factors); f++) {
        double most = 0;
        g_snprintf(text, sizeof text, "imbalance:%g", factors[f]);
        options.distribution = text;
        CU_ASSERT_FATAL(routing_generate(&options, &routing, NULL));
        for (uint32_t r = 0; r < 8; r++) most = fmax(most, rank_load(&routing, r, &all_on_first));
        CU_ASSERT_DOUBLE_EQUAL(most, factors[f], 0.05 * factors[f]);
        routing_free(&routing);
    }
    options.distribution = "hot-rank:0.4";
    CU_ASSERT_FATAL(routing_generate(&options, &routing, NULL));
    CU_ASSERT_DOUBLE_EQUAL(rank_load(&routing, 0, &all_on_first), 0.4 * 8 + 0.6, 0.05);
    CU_ASSERT_DOUBLE_EQUAL(all_on_first, 0.4 * 8 * 4096, 400);
    routing_free(&routing);
    options.distribution = "ring";
    CU_ASSERT_FATAL(routing_generate(&options, &routing, NULL));
    for (uint32_t i = 0; i < 4096 * 8; i++)
        CU_ASSERT_FATAL(routing.rank[7].experts[i] / 32 == 0 && routing.rank[2].experts[i] / 32 == 3);
    routing_free(&routing);
    options.distribution = "round";
    CU_ASSERT_FATAL(routing_generate(&options, &routing, NULL));
    for (uint32_t i = 0; i < 4096 * 8; i++) {
        const uint32_t turn = i + 3;
        CU_ASSERT_FATAL(routing.rank[3].experts[i] == (int32_t)(turn % 8 * 32 + turn / 8 % 32));
    }
    routing_free(&routing);
}

/* The expected experts are results of aiconfigurator's functions with seed 0.  They are those of rank 0's tokens; 4
 * ranks have 8 tokens each, and there are 8 experts.  In the case with 7 choices of 8 experts, the most popular experts
 * would need more tokens than there are. */
TEST("a power law as published")
{
    static const struct {
        const char *distribution;
        uint32_t topk;
        int32_t expert[8 * 7];
    } cases[] = {
        { "power-law:1.2", 2, { 1, 5, 7, 3, 7, 4, 7, 2, 1, 6, 7, 2, 1, 5, 1, 5 } },
        { "power-law:4", 2, { 1, 4, 0, 3, 5, 2, 5, 3, 7, 6, 5, 3, 1, 4, 1, 4 } },
        { "power-law:0", 2, { 7, 0, 5, 2, 1, 4, 5, 3, 1, 6, 5, 3, 7, 0, 7, 0 } },
        { "power-law:3", 7, { 1, 7, 0, 6, 5, 4, 3, 1, 7, 6, 5, 4, 2, 3, 1, 7, 0, 6, 5, 2, 3, 1, 7, 0, 6, 4, 2, 3,
                              1, 7, 0, 6, 5, 4, 3, 1, 7, 0, 5, 4, 2, 3, 1, 7, 0, 6, 5, 4, 2, 1, 7, 0, 6, 5, 4, 2 } },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        const struct routing_options options = {
            .ranks = 4, .tokens = 8, .topk = cases[i].topk, .experts = 8, .distribution = cases[i].distribution
        };
        g_auto(routing) routing;
        CU_ASSERT_FATAL(routing_generate(&options, &routing, NULL));
        for (uint32_t k = 0; k < 8 * cases[i].topk; k++)
            CU_ASSERT_EQUAL(routing.rank[0].experts[k], cases[i].expert[k]);
    }
}

/* 32 tokens with 2 choices each go through 16 experts, and the two choices are 8 experts apart.  So each expert gets 4
 * tokens.  A rank's tokens are not every fourth of the 32. */
TEST("a strided routing is balanced")
{
    const struct routing_options options = {
        .ranks = 4, .tokens = 8, .topk = 2, .experts = 16, .distribution = "strided"
    };
    g_auto(routing) routing;
    uint32_t count[16] = { 0 }, alike = 0;
    CU_ASSERT_FATAL(routing_generate(&options, &routing, NULL));
    for (uint32_t r = 0; r < 4; r++)
        for (uint32_t k = 0; k < 8 * 2; k++) {
            count[routing.rank[r].experts[k]]++;
            alike += (uint32_t)routing.rank[r].experts[k] % 4 == r;
        }
    for (uint32_t e = 0; e < 16; e++) CU_ASSERT_EQUAL(count[e], 4);
    CU_ASSERT(alike < 4 * 8 * 2);
}

/* Each token samples its experts.  4 ranks have 8 tokens each, and rank 3 has the most load.  The expected experts come
 * from a separate program, which follows PyTorch's source (MT19937, doubles of 53 bits, exponentials, permutation). */
TEST("a sampled power law as published")
{
    static const struct {
        uint32_t seed;
        int32_t expert[8 * 2];
    } cases[] = { { 0, { 6, 1, 5, 0, 0, 1, 6, 2, 7, 1, 7, 1, 7, 1, 7, 5 } },
                  { 3, { 7, 0, 7, 4, 2, 3, 7, 1, 0, 1, 0, 1, 3, 0, 2, 0 } } };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        const struct routing_options options = { .ranks = 4,
                                                 .tokens = 8,
                                                 .topk = 2,
                                                 .experts = 8,
                                                 .seed = cases[i].seed,
                                                 .distribution = "sampled-power-law:1.9" };
        g_auto(routing) routing;
        CU_ASSERT_FATAL(routing_generate(&options, &routing, NULL));
        for (uint32_t k = 0; k < 8 * 2; k++) CU_ASSERT_EQUAL(routing.rank[0].experts[k], cases[i].expert[k]);
    }
}

TEST("steps are correlated")
{
    struct routing_options options = { .ranks = 2,
                                       .tokens = 5000,
                                       .topk = 4,
                                       .experts = 64,
                                       .seed = 7,
                                       .correlation = 0.7,
                                       .masked_places = 3,
                                       .weights = true };
    g_auto(routing) first, second;
    uint32_t same = 0, none = 0;
    CU_ASSERT_FATAL(routing_generate(&options, &first, NULL));
    options.step = 1;
    CU_ASSERT_FATAL(routing_generate_after(&options, &first, &second, NULL));
    for (uint32_t t = 0; t < 5000; t++)
        same += memcmp(first.rank[1].experts + t * 4, second.rank[1].experts + t * 4, 4 * sizeof(int32_t)) == 0;
    for (uint32_t i = 0; i < 5000 * 4; i++) none += first.rank[0].experts[i] == ROUTING_NONE;
    CU_ASSERT(none >= 1 && none <= 3);
    CU_ASSERT_DOUBLE_EQUAL(same, 3500, 150);
    for (uint32_t t = 0; t < 5000; t++) {
        const float *const w = first.rank[1].weights + t * 4;
        const int32_t *const e = first.rank[1].experts + t * 4;
        if (MIN(MIN(e[0], e[1]), MIN(e[2], e[3])) == ROUTING_NONE) continue; /* masked places weigh nothing */
        CU_ASSERT_DOUBLE_EQUAL(w[0] + w[1] + w[2] + w[3], 1, 1e-5);
        CU_ASSERT(w[0] >= w[1] && w[1] >= w[2] && w[2] >= w[3] && w[3] > 0);
    }
}

TEST("options out of range are named")
{
    const struct routing_options good = { .ranks = 4, .tokens = 1, .topk = 4, .experts = 16 };
    struct {
        struct routing_options o;
        const char *field;
    } cases[10];
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) cases[i].o = good;
    cases[0].o.ranks = 0, cases[0].field = "num-ranks: ";
    cases[1].o.experts = 18, cases[1].field = "num-experts: ";
    cases[2].o.topk = 17, cases[2].field = "num-topk: ";
    cases[3].o.groups = 3, cases[3].o.topk_groups = 1,
    cases[3].field = "num-experts: expected a multiple of the 3 groups";
    cases[4].o.groups = 8, cases[4].o.topk_groups = 1, cases[4].field = "num-topk-groups: ";
    cases[5].o.correlation = NAN, cases[5].field = "correlation";
    cases[6].o.distribution = "zipf", cases[6].field = "routing: expected zipf:VALUE";
    cases[7].o.distribution = "zipf:x", cases[7].field = "zipf:x";
    cases[8].o.distribution = "imbalance:90", cases[8].field = "imbalance of at most";
    cases[9].o.distribution = "ring", cases[9].o.topk = 5, cases[9].field = "num-topk: ";
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct routing routing = { 0 };
        g_autoptr(GError) error = NULL;
        CU_ASSERT_FALSE(routing_generate(&cases[i].o, &routing, &error));
        CU_ASSERT(error_holds(&error, cases[i].field));
        CU_ASSERT(routing.rank == NULL);
    }
}

/* Returns the traffic matrix of a routing as text. */
static char *traffic_text(const struct routing *routing, bool pairs)
{
    GString *const text = g_string_new(NULL);
    const uint32_t local = routing->experts / routing->ranks;
    for (uint32_t s = 0; s < routing->ranks; s++) {
        for (uint32_t d = 0; d < routing->ranks; d++) {
            uint32_t count = 0;
            for (uint32_t t = 0; t < routing->rank[s].tokens; t++) {
                uint32_t here = 0;
                for (uint32_t k = 0; k < routing->topk; k++) {
                    const int32_t e = routing->rank[s].experts[t * routing->topk + k];
                    here += e >= 0 && (uint32_t)e / local == d;
                }
                count += pairs ? here : here > 0;
            }
            g_string_append_printf(text, "%s%u", d ? "|" : s ? ";" : "", count);
        }
    }
    return g_string_free(text, FALSE);
}

TEST("traffic comes out exactly")
{
    static const char *const names[] = { "uniform", "zipf:1.5", "hot-rank:0.9", "ring" };
    for (size_t n = 0; n < G_N_ELEMENTS(names); n++) {
        for (int pairs = 0; pairs < 2; pairs++) {
            const struct routing_options options = { .ranks = 8,
                                                     .tokens = 200,
                                                     .topk = 6,
                                                     .experts = 64,
                                                     .masked_places = pairs ? 40 : 0,
                                                     .seed = 11 + n,
                                                     .distribution = names[n] };
            g_auto(routing) first, second;
            CU_ASSERT_FATAL(routing_generate(&options, &first, NULL));
            g_autofree char *wanted = traffic_text(&first, pairs);
            const struct traffic_options traffic = {
                .matrix = wanted, .ranks = 8, .tokens = 200, .topk = 6, .experts = 64, .pairs = pairs, .seed = 1
            };
            CU_ASSERT_FATAL(routing_from_traffic(&traffic, &second, NULL));
            g_autofree char *found = traffic_text(&second, pairs);
            CU_ASSERT_STRING_EQUAL(wanted, found);
            CU_ASSERT(routing_distinct(&second));
        }
    }
}

/* If the matrix has a column for each expert, each expert must get its tokens, and no token may get one twice. */
TEST("traffic by experts")
{
    static const uint32_t wanted[2][4] = { { 5, 0, 1, 4 }, { 2, 5, 0, 1 } };
    const struct traffic_options traffic = {
        .matrix = "5|0|1|4;2|5|0|1", .ranks = 2, .tokens = 5, .topk = 2, .experts = 4, .seed = 3
    };
    struct routing routing;
    CU_ASSERT_FATAL(routing_from_traffic(&traffic, &routing, NULL));
    CU_ASSERT(routing_distinct(&routing));
    for (uint32_t s = 0; s < 2; s++) {
        uint32_t found[4] = { 0 };
        for (uint32_t i = 0; i < 5 * 2; i++)
            if (routing.rank[s].experts[i] != ROUTING_NONE) found[routing.rank[s].experts[i]]++;
        for (uint32_t e = 0; e < 4; e++) CU_ASSERT_EQUAL(found[e], wanted[s][e]);
    }
    routing_free(&routing);
    struct traffic_options bad = traffic;
    bad.matrix = "6|0|1|3;2|5|0|1";
    g_autoptr(GError) error = NULL;
    CU_ASSERT(!routing_from_traffic(&bad, &routing, &error));
    CU_ASSERT(error_is(&error, "traffic: row 0 column 0: expected at most 5 (tokens 5, topk 2), found '6'"));
    bad.matrix = "5|0|1|4;2|5|0";
    CU_ASSERT(!routing_from_traffic(&bad, &routing, &error));
    CU_ASSERT(error_is(&error, "traffic: row 1: expected 4 columns separated by '|', as many as experts, found 3"));
}

/* If the chosen ranks have fewer experts than a token has places, the remaining places are -1. */
TEST("traffic with few experts")
{
    const struct traffic_options traffic = { .matrix = "3|0;0|3", .tokens = 3, .topk = 3, .experts = 4 };
    g_auto(routing) routing;
    CU_ASSERT_FATAL(routing_from_traffic(&traffic, &routing, NULL));
    for (uint32_t t = 0; t < 3; t++) {
        uint32_t none = 0;
        for (uint32_t k = 0; k < 3; k++) none += routing.rank[1].experts[t * 3 + k] == ROUTING_NONE;
        CU_ASSERT_EQUAL(none, 1);
    }
}

TEST("impossible traffic is refused")
{
    static const struct {
        const char *matrix;
        bool pairs;
        const char *found;
    } cases[] = {
        { "1|2;3", false, "row 1: expected 2 columns" },
        { "", false, "expected 1 rows" },
        { "1|x;0|0", false, "row 0 column 1: expected a number of tokens, found 'x'" },
        { "1|-1;0|0", false, "row 0 column 1" },
        { "0|0;0|5", false, "row 1 column 1: expected at most 4" },
        { "0|9;0|0", true, "row 0 column 1: expected at most 8" },
        { "8|1;0|0", true, "row 0: expected a sum of at most 8" },
        { "1|0|0;0|0|0;0|0|0", false, "num-experts: expected a multiple" },
        { "4294967296|0;0|0", false, "row 0 column 0" },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        const struct traffic_options traffic = {
            .matrix = cases[i].matrix, .tokens = 4, .topk = 2, .experts = 4, .pairs = cases[i].pairs
        };
        struct routing routing = { 0 };
        g_autoptr(GError) error = NULL;
        const bool good = routing_from_traffic(&traffic, &routing, &error);
        CU_ASSERT_FALSE(good);
        CU_ASSERT(error_holds(&error, cases[i].found));
    }
}

/* In each of many steps of tokens that keep their experts, at most so many places are masked, and these weigh nothing.
 */
TEST("masked places")
{
    struct routing_options options = {
        .ranks = 2, .tokens = 16, .topk = 4, .experts = 8, .masked_places = 3, .correlation = 1, .weights = true
    };
    g_auto(routing) before = { 0 };
    for (; options.step < 20; options.step++) {
        struct routing now = { 0 };
        CU_ASSERT_TRUE_FATAL(routing_generate_after(&options, options.step ? &before : NULL, &now, NULL));
        for (uint32_t r = 0; r < options.ranks; r++) {
            uint32_t masked = 0;
            for (uint32_t p = 0; p < options.tokens * options.topk; p++) {
                const bool none = now.rank[r].experts[p] == ROUTING_NONE;
                masked += none;
                CU_ASSERT_EQUAL(now.rank[r].weights[p] == 0, none);
            }
            CU_ASSERT(masked > 0 && masked <= options.masked_places);
        }
        routing_free(&before);
        before = now;
    }
}
