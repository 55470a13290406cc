/* power_law.c - routing by a power law, see power_law.h.  PyTorch's generator on a CPU is MT19937, like GLib's. */
#include "traces/power_law.h"

#include <glib.h>
#include <math.h>
#include <string.h>

enum { SAMPLED_SHARE_MOST = 1024 };

/* A uniform float.  PyTorch makes it from 24 bits of a random number. */
static float uniform_draw(GRand *rand) { return (float)(g_rand_int(rand) & 0xffffff) * 0x1p-24f; }

/* An exponential double.  PyTorch makes it from a uniform double, and that from 53 bits of two random numbers. */
static double exponential_draw(GRand *rand)
{
    const uint64_t high = g_rand_int(rand), bits = high << 32 | g_rand_int(rand);
    return -log(1 - (double)(bits & ((UINT64_C(1) << 53) - 1)) * 0x1p-53);
}

/* Draws the experts' shares by the inverse of their distribution function, in floats as PyTorch does. */
static void shares_draw(const struct power_law *law, GRand *rand, float *share)
{
    const double tokens = (double)law->ranks * law->tokens;
    const bool many = law->sampled || tokens * law->topk > law->experts;
    const double least = many ? 1 : 0.01, most = law->sampled ? SAMPLED_SHARE_MOST : many ? tokens * 0.8 : 2;
    const double power = 1 - law->alpha;
    const float from = (float)pow(least, power), range = (float)(pow(most, power) - pow(least, power));
    for (uint32_t e = 0; e < law->experts; e++) {
        const float u = uniform_draw(rand);
        share[e] =
            fabs(power) < 1e-9 ? (float)(least * pow(most / least, u)) : powf(range * u + from, (float)(1 / power));
    }
}

/* Adds `step` (1 or -1) to single counts, `left` times in all.  The ranks take turns.  A rank's turn changes its least
 * loaded expert if step is 1, else its most loaded one.  A count stays between 0 and the number of tokens. */
static void counts_adjust(const struct power_law *law, int64_t *count, int64_t left, int step)
{
    const int64_t all = (int64_t)law->ranks * law->tokens;
    const uint32_t local = law->experts / law->ranks;
    for (bool moved = true; moved && left > 0;) {
        moved = false;
        for (uint32_t r = 0; r < law->ranks && left > 0; r++) {
            int64_t *const own = count + (size_t)r * local, *chosen = NULL;
            for (uint32_t e = 0; e < local; e++) {
                if (step > 0 ? own[e] >= all : own[e] <= 0) continue;
                if (!chosen || step * own[e] < step * *chosen) chosen = &own[e];
            }
            if (!chosen) continue;
            *chosen += step;
            left--;
            moved = true;
        }
    }
}

static uint32_t rank_most_loaded(const struct power_law *law, const int64_t *count)
{
    const uint32_t local = law->experts / law->ranks;
    int64_t most = -1;
    uint32_t first = 0;
    for (uint32_t r = 0; r < law->ranks; r++) {
        int64_t sum = 0;
        for (uint32_t e = 0; e < local; e++) sum += count[(size_t)r * local + e];
        if (sum <= most) continue;
        most = sum;
        first = r;
    }
    return first;
}

static void rank_make_first(const struct power_law *law, int64_t *count)
{
    const uint32_t local = law->experts / law->ranks, first = rank_most_loaded(law, count);
    for (uint32_t e = 0; e < local; e++) {
        const int64_t kept = count[e];
        count[e] = count[(size_t)first * local + e];
        count[(size_t)first * local + e] = kept;
    }
}

/* The number of tokens of each expert, [experts].  Their sum is the number of places of all tokens. */
static int64_t *counts_make(const struct power_law *law)
{
    const int64_t all = (int64_t)law->ranks * law->tokens, places = all * law->topk;
    g_autofree float *share = g_new(float, law->experts);
    int64_t *count = g_new(int64_t, law->experts), overflow = 0, sum = 0;
    double shares = 0;
    GRand *rand = g_rand_new_with_seed(law->seed);
    shares_draw(law, rand, share);
    g_rand_free(rand);
    for (uint32_t e = 0; e < law->experts; e++) shares += share[e];
    for (uint32_t e = 0; e < law->experts; e++) {
        const int64_t wanted = (int64_t)rintf(share[e] / (float)shares * (float)places);
        count[e] = MIN(wanted, all);
        overflow += wanted - count[e];
    }
    counts_adjust(law, count, overflow, 1);
    for (uint32_t e = 0; e < law->experts; e++) sum += count[e];
    counts_adjust(law, count, sum < places ? places - sum : sum - places, sum < places ? 1 : -1);
    rank_make_first(law, count);
    return count;
}

static gint by_count(gconstpointer a, gconstpointer b, gpointer counts)
{
    const int64_t *const count = counts;
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    if (count[x] != count[y]) return count[x] > count[y] ? -1 : 1;
    return x < y ? -1 : x > y;
}

uint32_t *power_law_order(uint32_t tokens, uint32_t seed)
{
    uint32_t *order = g_new(uint32_t, tokens);
    GRand *rand = g_rand_new_with_seed(seed);
    for (uint32_t i = 0; i < tokens; i++) order[i] = i;
    for (uint32_t i = 0; i + 1 < tokens; i++) {
        const uint32_t other = i + g_rand_int(rand) % (tokens - i), kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
    g_rand_free(rand);
    return order;
}

/* Draws the experts of one token, in rising order.  Each expert's share is divided by an exponential draw, and the
 * experts with the topk largest quotients are taken. */
static void token_draw(const struct power_law *law, const float *share, GRand *rand, double *best, int32_t *expert)
{
    uint32_t found = 0;
    for (uint32_t e = 0; e < law->experts; e++) {
        const double value = share[e] / exponential_draw(rand);
        if (found == law->topk && value <= best[found - 1]) continue;
        uint32_t at = found < law->topk ? found++ : found - 1;
        for (; at > 0 && best[at - 1] < value; at--) {
            best[at] = best[at - 1];
            expert[at] = expert[at - 1];
        }
        best[at] = value;
        expert[at] = (int32_t)e;
    }
    for (uint32_t i = 1; i < found; i++)
        for (uint32_t j = i; j > 0 && expert[j - 1] > expert[j]; j--) {
            const int32_t kept = expert[j];
            expert[j] = expert[j - 1];
            expert[j - 1] = kept;
        }
}

static int32_t *tokens_sample(const struct power_law *law)
{
    const uint32_t all = law->ranks * law->tokens, local = law->experts / law->ranks;
    const size_t places = (size_t)all * law->topk;
    g_autofree uint32_t *order = power_law_order(all, law->order_seed);
    g_autofree float *share = g_new(float, law->experts);
    g_autofree double *best = g_new(double, law->topk);
    g_autofree int32_t *drawn = g_new(int32_t, places);
    g_autofree int64_t *count = g_new0(int64_t, law->experts);
    int32_t *out = g_new(int32_t, places);
    GRand *rand = g_rand_new_with_seed(law->seed);
    shares_draw(law, rand, share);
    for (uint32_t t = 0; t < all; t++) token_draw(law, share, rand, best, drawn + (size_t)t * law->topk);
    g_rand_free(rand);
    for (size_t i = 0; i < places; i++) count[drawn[i]]++;
    const int32_t begin = (int32_t)(rank_most_loaded(law, count) * local);
    for (size_t i = 0; i < places && begin; i++) {
        if (drawn[i] < (int32_t)local) drawn[i] += begin;
        else if (drawn[i] >= begin && drawn[i] < begin + (int32_t)local) drawn[i] -= begin;
    }
    for (uint32_t i = 0; i < all; i++)
        memcpy(out + (size_t)i * law->topk, drawn + (size_t)order[i] * law->topk, law->topk * sizeof *out);
    return out;
}

static int32_t *counts_deal(const struct power_law *law)
{
    const uint32_t all = law->ranks * law->tokens;
    g_autofree int64_t *count = counts_make(law);
    g_autofree uint32_t *expert = g_new(uint32_t, law->experts), *place_of = g_new(uint32_t, all),
                        *order = power_law_order(all, law->order_seed);
    int32_t *out = g_new(int32_t, (gsize)all * law->topk);
    for (uint32_t e = 0; e < law->experts; e++) expert[e] = e;
    g_qsort_with_data(expert, (gint)law->experts, sizeof expert[0], by_count, count);
    for (uint32_t i = 0; i < all; i++) place_of[order[i]] = i;
    /* Imagine a list that has each expert as often as it is chosen.  It fills the first places of all tokens, then all
     * second places, and so on. */
    uint64_t at = 0;
    for (uint32_t i = 0; i < law->experts; i++)
        for (int64_t n = 0; n < count[expert[i]]; n++, at++)
            out[(size_t)place_of[at % all] * law->topk + at / all] = (int32_t)expert[i];
    g_assert(at == (uint64_t)all * law->topk);
    return out;
}

int32_t *power_law_deal(const struct power_law *law) { return law->sampled ? tokens_sample(law) : counts_deal(law); }
