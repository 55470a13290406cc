/* support_moe.h - groups of ranks that dispatch and combine over tests/support_loop.h, on random routings. */
#ifndef TESTS_SUPPORT_MOE_H
#define TESTS_SUPPORT_MOE_H

#include "models/moe/moe.h"
#include "sim/rng.h"
#include "tests/support_loop.h"

/* How experts are drawn. */
enum moe_draw { DRAW_UNIFORM, DRAW_HOT_RANK, DRAW_NEXT_RANK, DRAW_LOCAL, DRAW_SPARSE, DRAW_KINDS };

struct moe_group {
    struct moe_job job;
    struct routing routing;
    struct loop *loop;
    struct kernel_rank **rank;
    uint32_t *launched; /* [rank] kernels so far */
    uint32_t until;     /* kernels to launch on each */
};

/* Options that are legal, small and otherwise plain; tests change what they are about. */
struct moe_options moe_options_small(enum moe_kernel_family family, uint32_t ranks, uint32_t ranks_per_node);
/* Draws what the high-throughput and V2 kernels take alike: rows and their format, a cached handle, weights, a
 * worst-case size (not V2), alignment of experts, biases.  Hidden is drawn already. */
void moe_options_vary(struct moe_options *options, struct rng *rng);
/* Tokens of each rank up to options->tokens_max (some fewer, some none), experts as drawn, weights if asked. */
void moe_routing_draw(struct routing *routing, const struct moe_options *options, enum moe_draw draw, bool uneven,
                      bool weights, struct rng *rng);

/* Copies that dispatch has to make, counted from the choices of all tokens: one for each rank that a token goes to,
 * one for each node, and those of the latter that leave their own node. */
struct moe_copies {
    uint64_t to_ranks, to_nodes, abroad;
};
struct moe_copies moe_routing_copies(const struct routing *routing, const struct moe_options *options);

/* A group on a loop of fabrics; takes the routing over.  loop->needs are filled in here. */
struct moe_group *moe_group_new(const struct moe_options *options, struct routing *routing,
                                const struct loop_options *loop);
void moe_group_free(struct moe_group *group);
/* One without payload that has run one iteration, experts as drawn: to see what went over the wire. */
struct moe_group *moe_group_run_sizes(const struct moe_options *options, enum moe_draw draw);
/* Runs whole iterations; false: it hangs. */
bool moe_group_run(struct moe_group *group, uint32_t iterations, bool quiet);
/* Failed checks of all ranks; the first one's text is printed. */
uint32_t moe_group_check(struct moe_group *group);
/* Asserts (CUnit) that check number is the first to fail on the rank, 0: that none does.  False: it is not so, and what
 * was found is printed. */
bool moe_group_expect(struct moe_group *group, uint32_t rank, int number);
/* check_hash() over all outputs of all ranks, in order. */
uint64_t moe_group_hash(struct moe_group *group);

/* The output called name of a rank, for planting faults; NULL if there is none. */
void *moe_group_output(struct moe_group *group, uint32_t rank, const char *name, uint64_t *size_bytes);

/* Tests that every kernel family passes (CUnit asserts).  The first two over as many groups as seeds: every output
 * right, no hang, no breach of the contract, several iterations in a row; the same steps with and without payload. */
typedef struct moe_options moe_options_draw(struct rng *rng);
void moe_test_random_groups(moe_options_draw *draw, uint64_t seeds);
void moe_test_sizes_only(moe_options_draw *draw, uint64_t seeds);
/* Check 12: outputs of many runs in other orders of events are the same, and one bit of the output named
 * would be seen. */
void moe_test_runs_hash_alike(const struct moe_options *options, const char *output);
/* The options are refused, and what is said of them begins like this. */
void moe_test_refused(const struct moe_options *options, const char *begin);

#endif
