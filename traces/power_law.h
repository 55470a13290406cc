/* power_law.h - routing whose experts' loads follow a power law, as in aiconfigurator's benchmarks of MoE kernels
 * (collector/helper.py, power_law_logits_v3; collector/sglang/dsv4_megamoe_workload.py).
 *
 * Each expert's share is drawn from a density x^-alpha: between 1 and 0.8 times the number of tokens, or between 0.01
 * and 2 if there are no more places than experts.  No expert gets more tokens than there are.  The most loaded rank
 * becomes rank 0.  The tokens are then dealt to the ranks in random order.
 *
 * If sampled (sampled_power_law_logits), shares are from 1 to 1024.  By these shares each token draws its experts
 * one after another, as PyTorch's multinomial() does on a CPU without MKL.  Again the most loaded rank becomes rank
 * 0, and the order is random. */
#ifndef TRACES_POWER_LAW_H
#define TRACES_POWER_LAW_H

#include <stdbool.h>
#include <stdint.h>

struct power_law {
    uint32_t ranks, tokens, topk, experts; /* tokens of each rank */
    double alpha;                          /* at least 0 */
    bool sampled;                          /* whether tokens draw their experts; else counts of tokens are dealt out */
    uint32_t seed, order_seed;             /* seeds of PyTorch's generator on a CPU, for the loads and for the order of
                                            * tokens; aiconfigurator's tables have 0 in both */
};

enum { POWER_LAW_TOKENS_MAX = INT32_MAX }; /* of all ranks */
/* A random order: which token comes to each place, [tokens], according to PyTorch's randperm().  Free with g_free(). */
uint32_t *power_law_order(uint32_t tokens, uint32_t seed);
/* The experts of each token, [ranks * tokens * topk], rank by rank.  Free with g_free(). */
int32_t *power_law_deal(const struct power_law *law);

#endif
