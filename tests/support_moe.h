/* support_moe.h - groups of ranks that dispatch and combine over tests/support_loop.h, on random routings.
 *
 * The programs test_moe_*.c test each kernel family.  By the family's checks, every output must be right, bit for bit.
 * No group may hang or break the contract of models/fabric.h.  Steps must be the same with and without payload.  Each
 * check must be able to fail, and each limit must give its error.  The programs draw groups, routings and sizes over
 * the adversarial fabrics, run several iterations in a row, and plant faults into right outputs. */
#ifndef TESTS_SUPPORT_MOE_H
#define TESTS_SUPPORT_MOE_H

#include "models/moe/moe.h"
#include "sim/rng.h"
#include "tests/support_loop.h"

/* Ways to draw experts. */
enum moe_draw { DRAW_UNIFORM, DRAW_HOT_RANK, DRAW_NEXT_RANK, DRAW_LOCAL, DRAW_SPARSE, DRAW_KINDS };

struct moe_group {
    struct moe_job job;
    struct routing routing;
    struct loop *loop;
    struct kernel_rank **rank;
    uint32_t *launched; /* [rank] kernels launched so far */
    uint32_t until;     /* kernels that each rank is to launch */
};

/* Small valid options without special features.  A test changes the options that it is about. */
struct moe_options moe_options_small(enum moe_kernel_family family, uint32_t ranks, uint32_t ranks_per_node);
/* Draws the options that high-throughput and V2 kernels both have: format of rows, a cached handle, weights, a
 * worst-case size (not V2), alignment of experts, biases.  options->hidden must be set before. */
void moe_options_vary(struct moe_options *options, struct rng *rng);
/* Draws options of kernels that work between nodes: one of the shapes { nodes, ranks of a node }, sizes, and what
 * moe_options_vary() draws. */
struct moe_options moe_options_in_nodes(enum moe_kernel_family family, const uint32_t (*shape)[2], uint32_t shape_count,
                                        struct rng *rng);
/* Draws options of kernels that work within one node, with at most ranks_most ranks.  Leaves out the features that
 * these kernels lack: a cached handle, weights that come back, a worst-case size, biases.  One draw in eight has rows
 * of hidden_long values; the others have short rows. */
struct moe_options moe_options_in_node(enum moe_kernel_family family, uint32_t ranks_most, uint32_t hidden_long,
                                       struct rng *rng);
/* Draws up to options->tokens_max tokens for each rank; with `uneven`, some ranks have fewer, some none.  `draw` is the
 * way to choose their experts.  `weights` says whether they have weights. */
void moe_routing_draw(struct routing *routing, const struct moe_options *options, enum moe_draw draw, bool uneven,
                      bool weights, struct rng *rng);

/* The number of copies that dispatch must make, counted from the choices of all tokens: one for each rank that a token
 * goes to, and one for each node.  `abroad` counts the copies to nodes that leave their own node. */
struct moe_copies {
    uint64_t to_ranks, to_nodes, abroad;
};
struct moe_copies moe_routing_copies(const struct routing *routing, const struct moe_options *options);

/* The routing that moe_group_drawn() uses. */
struct routing moe_routing_drawn(const struct moe_options *options, enum moe_draw draw);
/* Makes a group on a loop of fabrics and takes over the routing.  Fills loop->needs. */
struct moe_group *moe_group_new(const struct moe_options *options, struct routing *routing,
                                const struct loop_options *loop);
void moe_group_free(struct moe_group *group);
/* Makes a group with payload and weights.  Equal options and `draw` give equal routings. */
struct moe_group *moe_group_drawn(const struct moe_options *options, enum moe_draw draw, uint64_t seed,
                                  uint32_t deliver_percent);
/* Makes a group without payload and runs one iteration, so that a test can see how many bytes crossed the wire. */
struct moe_group *moe_group_run_sizes(const struct moe_options *options, enum moe_draw draw);
/* Runs whole iterations.  Returns false if the group hangs. */
bool moe_group_run(struct moe_group *group, uint32_t iterations, bool quiet);
/* Returns the number of failed checks of all ranks, and prints the text of the first. */
uint32_t moe_group_check(struct moe_group *group);
/* Asserts (CUnit) that `number` is the first check that fails on the rank; 0: that none fails.  Otherwise returns false
 * and prints what was found. */
bool moe_group_expect(struct moe_group *group, uint32_t rank, int number);
/* Returns a hash of all outputs of all ranks, in order.  The order of a tensor's rows does not count. */
uint64_t moe_group_hash(struct moe_group *group);

/* Returns a rank's output of that name, so that a test can plant a fault in it.  NULL if there is no such output. */
void *moe_group_output(struct moe_group *group, uint32_t rank, const char *name, uint64_t *size_bytes);

/* Tests that every kernel family passes, by CUnit's asserts.  moe_test_random_groups() and moe_test_sizes_only() make a
 * group for each seed.  The first asserts that in several iterations every output is right, without a hang or a breach
 * of the contract.  The second asserts that the steps with and without payload are equal. */
typedef struct moe_options moe_options_draw(struct rng *rng);
void moe_test_random_groups(moe_options_draw *draw, uint64_t seeds);
void moe_test_sizes_only(moe_options_draw *draw, uint64_t seeds);
/* Tests two routings in turns on one fabric, over several iterations.  If the family has route(), all ranks change to
 * the other routing after each iteration.  Otherwise each rank has two states, one for each routing.  Then both states
 * dispatch before either combines, and the second one uses a cached handle where the options permit it. */
void moe_test_routings_in_turns(moe_options_draw *draw, uint64_t seeds);
/* Tests check 12: many runs with different orders of events must give equal outputs, and a changed bit of the named
 * output must be noticed. */
void moe_test_runs_hash_alike(struct moe_options options, const char *output);
/* Tests that a byte of rank 2's output `name` that is too large by one fails this check, for each fault. */
struct moe_fault {
    const char *name;
    int check;
};
void moe_test_faults(const struct moe_options *options, const struct moe_fault *fault, size_t faults);
/* Tests that one iteration of 64 tokens of 7168 values within a node stores bytes_a_copy bytes for each rank that a
 * token goes to, and puts none. */
void moe_test_stored_bytes(const struct moe_options *options, uint64_t bytes_a_copy);
/* Tests that the options are refused with a reason that begins with `begin`.  NULL: that they are not refused. */
void moe_test_refused(const struct moe_options *options, const char *begin);
/* As moe_test_refused(), of the options `fine` after changes, which name them `o`: MOE_REFUSED("num-topk: ", o.topk =
 * 3) */
#define MOE_REFUSED(begin, ...) \
    do { \
        struct moe_options o = fine; \
        __VA_ARGS__; \
        moe_test_refused(&o, begin); \
    } while (0)

#endif
