/* power_law.h - routing whose experts' loads follow a power law, as in aiconfigurator's benchmarks of MoE kernels
 * (collector/helper.py, power_law_logits_v3; collector/sglang/dsv4_megamoe_workload.py).
 *
 * Each expert's share x is drawn from a density x^-alpha.  x is between 1 and 0.8 times the number of tokens, or
 * between 0.01 and 2 if there are no more places than experts.  No expert gets more tokens than there are.  The most
 * loaded rank becomes rank 0.  The tokens are then dealt to the ranks in random order.
 *
 * If sampled (sampled_power_law_logits), x is between 1 and 1024.  By these shares each token draws its experts one
 * after another, as PyTorch's multinomial() does on a CPU without MKL.  Here, too, the most loaded rank becomes rank 0,
 * and the tokens come in random order. */
#ifndef TRACES_POWER_LAW_H
#define TRACES_POWER_LAW_H

#include <stdbool.h>
#include <stdint.h>

struct power_law {
    uint32_t ranks, tokens, topk, experts; /* tokens: of each rank */
    double alpha;                          /* at least 0 */
    bool sampled;              /* whether tokens draw their experts; else experts get exact counts of tokens */
    uint32_t seed, order_seed; /* seeds of PyTorch's generator on a CPU, for the loads and for the order of
                                * tokens; aiconfigurator's tables have 0 in both */
};

enum { POWER_LAW_TOKENS_MAX = INT32_MAX }; /* the most tokens of all ranks together */
/* A random order [tokens], according to PyTorch's randperm(): which token comes to each place.  Free with g_free(). */
uint32_t *power_law_order(uint32_t tokens, uint32_t seed);
/* The experts of each token, [ranks][tokens][topk].  Free with g_free(). */
int32_t *power_law_deal(const struct power_law *law);

#endif
