/* power_law.c - routing by a power law, see power_law.h.  PyTorch's generator on a CPU is MT19937, as GLib's is. */
#include "traces/power_law.h"

#include <glib.h>
#include <math.h>
#include <stdbool.h>

/* PyTorch makes floats of 24 bits of a number. */
static float uniform_draw(GRand *rand) { return (float)(g_rand_int(rand) & 0xffffff) * 0x1p-24f; }

/* Shares of experts, by the inverse of the distribution function, in floats as there. */
static void shares_draw(const struct power_law *law, float *share)
{
    const double tokens = (double)law->ranks * law->tokens;
    const bool many = tokens * law->topk > law->experts;
    const double least = many ? 1 : 0.01, most = many ? tokens * 0.8 : 2, power = 1 - law->alpha;
    const float from = (float)pow(least, power), range = (float)(pow(most, power) - pow(least, power));
    GRand *rand = g_rand_new_with_seed(law->seed);
    for (uint32_t e = 0; e < law->experts; e++) {
        const float u = uniform_draw(rand);
        share[e] =
            fabs(power) < 1e-9 ? (float)(least * pow(most / least, u)) : powf(range * u + from, (float)(1 / power));
    }
    g_rand_free(rand);
}

/* Adds step to one expert of each rank in turn, `left` times: to its least loaded if step is 1, else to its most loaded
 * one, as long as they are within bounds. */
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

static void rank_make_first(const struct power_law *law, int64_t *count)
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
    for (uint32_t e = 0; e < local; e++) {
        const int64_t kept = count[e];
        count[e] = count[(size_t)first * local + e];
        count[(size_t)first * local + e] = kept;
    }
}

/* Tokens of each expert, [experts]; together the places of all tokens. */
static int64_t *counts_make(const struct power_law *law)
{
    const int64_t all = (int64_t)law->ranks * law->tokens, places = all * law->topk;
    g_autofree float *share = g_new(float, law->experts);
    int64_t *count = g_new(int64_t, law->experts), overflow = 0, sum = 0;
    double shares = 0;
    shares_draw(law, share);
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

/* PyTorch's randperm: which token comes to each place. */
static uint32_t *tokens_shuffle(uint32_t count, uint32_t seed)
{
    uint32_t *order = g_new(uint32_t, count);
    GRand *rand = g_rand_new_with_seed(seed);
    for (uint32_t i = 0; i < count; i++) order[i] = i;
    for (uint32_t i = 0; i + 1 < count; i++) {
        const uint32_t other = i + g_rand_int(rand) % (count - i), kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
    g_rand_free(rand);
    return order;
}

int32_t *power_law_deal(const struct power_law *law)
{
    const uint32_t all = law->ranks * law->tokens;
    g_autofree int64_t *count = counts_make(law);
    g_autofree uint32_t *expert = g_new(uint32_t, law->experts), *place_of = g_new(uint32_t, all),
                        *order = tokens_shuffle(all, law->order_seed);
    int32_t *out = g_new(int32_t, (gsize)all * law->topk);
    for (uint32_t e = 0; e < law->experts; e++) expert[e] = e;
    g_qsort_with_data(expert, (gint)law->experts, sizeof expert[0], by_count, count);
    for (uint32_t i = 0; i < all; i++) place_of[order[i]] = i;
    /* The experts, each as often as it is chosen, fill the first places of all tokens, then the second ones. */
    uint64_t at = 0;
    for (uint32_t i = 0; i < law->experts; i++)
        for (int64_t n = 0; n < count[expert[i]]; n++, at++)
            out[(size_t)place_of[at % all] * law->topk + at / all] = (int32_t)expert[i];
    g_assert(at == (uint64_t)all * law->topk);
    return out;
}
