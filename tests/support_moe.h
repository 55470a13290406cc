/* support_moe.h - groups of ranks that dispatch and combine over tests/support_loop.h, on random routings.
 *
 * The programs test_moe_*.c show of each kernel family that every output is right (its checks, bit for bit), that
 * nothing hangs or breaches the seam's contract, that steps are the same with and without payload, that each check can
 * fail, and that each limit gives its error.  They draw groups, routings and sizes over the adversarial fabrics, run
 * several iterations in a row, and plant faults into right outputs. */
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
    uint32_t *launched; /* [rank] kernels launched so far */
    uint32_t until;     /* kernels that each rank is to launch */
};

/* Legal, small options without anything special; a test changes those that it is about. */
struct moe_options moe_options_small(enum moe_kernel_family family, uint32_t ranks, uint32_t ranks_per_node);
/* Draws the options that high-throughput and V2 kernels both have: format of rows, a cached handle, weights, a
 * worst-case size (not V2), alignment of experts, biases.  Hidden has been drawn before. */
void moe_options_vary(struct moe_options *options, struct rng *rng);
/* Draws options of kernels within a node of at most ranks_most ranks, without the features that these kernels lack: a
 * cached handle, weights that come back, a worst-case size, biases.  One in eight has rows of hidden_long values, the
 * others have short rows. */
struct moe_options moe_options_in_node(enum moe_kernel_family family, uint32_t ranks_most, uint32_t hidden_long,
                                       struct rng *rng);
/* Draws up to options->tokens_max tokens for each rank (some ranks have fewer, some none). draw chooses their experts.
 * They have weights if asked for. */
void moe_routing_draw(struct routing *routing, const struct moe_options *options, enum moe_draw draw, bool uneven,
                      bool weights, struct rng *rng);

/* How many copies dispatch must make, counted from the choices of all tokens: one for each rank that a token goes to,
 * one for each node, and how many of the latter leave their node. */
struct moe_copies {
    uint64_t to_ranks, to_nodes, abroad;
};
struct moe_copies moe_routing_copies(const struct routing *routing, const struct moe_options *options);

/* The routing of moe_group_drawn(). */
struct routing moe_routing_drawn(const struct moe_options *options, enum moe_draw draw);
/* A group on a loop of fabrics; takes routing.  Fills loop->needs. */
struct moe_group *moe_group_new(const struct moe_options *options, struct routing *routing,
                                const struct loop_options *loop);
void moe_group_free(struct moe_group *group);
/* A group with payload and weights, whose tokens' experts are drawn alike for equal options. */
struct moe_group *moe_group_drawn(const struct moe_options *options, enum moe_draw draw, uint64_t seed,
                                  uint32_t deliver_percent);
/* A group without payload that has run one iteration, with experts as drawn: to see what crossed the wire. */
struct moe_group *moe_group_run_sizes(const struct moe_options *options, enum moe_draw draw);
/* Runs whole iterations; false: it hangs. */
bool moe_group_run(struct moe_group *group, uint32_t iterations, bool quiet);
/* Failed checks of all ranks; the first one's text is printed. */
uint32_t moe_group_check(struct moe_group *group);
/* Asserts (CUnit) that check number is the first to fail on the rank; 0: that none fails.  If that is not so, returns
 * false and prints what was found. */
bool moe_group_expect(struct moe_group *group, uint32_t rank, int number);
/* check_hash() over all outputs of all ranks, in order. */
uint64_t moe_group_hash(struct moe_group *group);

/* A rank's output of that name, so that a fault can be planted; NULL if there is none. */
void *moe_group_output(struct moe_group *group, uint32_t rank, const char *name, uint64_t *size_bytes);

/* Tests that every kernel family passes (CUnit asserts).  The first two make a group for each seed.  The first: every
 * output is right, in several iterations, without a hang or a breach of the contract.  The second: the steps with and
 * without payload are equal. */
typedef struct moe_options moe_options_draw(struct rng *rng);
void moe_test_random_groups(moe_options_draw *draw, uint64_t seeds);
void moe_test_sizes_only(moe_options_draw *draw, uint64_t seeds);
/* Tests several iterations on one fabric with two routings in turns: either a rank gets another routing, or there are
 * two rank states, of which one dispatches twice before either combines, the second one with a cached handle if the
 * family has them. */
void moe_test_routings_in_turns(moe_options_draw *draw, uint64_t seeds);
/* Check 12: outputs of many runs with other orders of events are equal, and one changed bit of the named output would
 * be noticed. */
void moe_test_runs_hash_alike(struct moe_options options, const char *output);
/* Tests that, within a node, one iteration of 64 tokens of 7168 values stores bytes_a_copy bytes for each rank that a
 * token goes to, and puts none. */
void moe_test_stored_bytes(const struct moe_options *options, uint64_t bytes_a_copy);
/* The options are refused with a reason that begins like this; or, with NULL, are not refused. */
void moe_test_refused(const struct moe_options *options, const char *begin);
/* Each of these is refused: "weights: WHOSE have none". */
void moe_test_in_node_lack(const struct moe_options *fine, const char *whose);

#endif
