/* support_moe.c - groups of ranks over loop fabrics; see support_moe.h.  It knows moe.h, but no kernel family. */
#include "tests/support_moe.h"
#include "tests/unit.h"

#include <stdio.h>
#include <string.h>

struct moe_options moe_options_small(enum moe_kernel_family family, uint32_t ranks, uint32_t ranks_per_node)
{
    struct moe_options o = {
        .family = family,
        .ranks = ranks,
        .ranks_per_node = ranks_per_node,
        .tokens_max = 40,
        .hidden = 128,
        .topk = 4,
        .experts = 4 * ranks,
        .data = MOE_DATA_RANDOM,
        .seed = 1,
        .expert_alignment = 1,
        .num_sms = 4,
    };
    moe_options_recommend(&o);
    return o;
}

void moe_options_vary(struct moe_options *o, struct rng *rng)
{
    o->dtype = rng_below(rng, 2) ? MOE_FP8 : MOE_BF16;
    o->data = (enum moe_data)rng_below(rng, 3);
    o->seed = rng_next(rng);
    o->round_scale = rng_below(rng, 2);
    o->ue8m0 = o->round_scale && o->hidden % 512 == 0;
    o->cached = rng_below(rng, 3) == 0;
    o->weights = !o->cached && rng_below(rng, 2);
    o->worst_tokens = o->family != MOE_V2 && !o->cached && rng_below(rng, 4) == 0;
    o->expert_alignment = 1u << rng_below(rng, 4);
    o->num_bias = (uint32_t)rng_below(rng, 3);
}

struct moe_options moe_options_in_nodes(enum moe_kernel_family family, const uint32_t (*shape)[2], uint32_t shape_count,
                                        struct rng *rng)
{
    const uint32_t *drawn = shape[rng_below(rng, shape_count)];
    struct moe_options o = moe_options_small(family, drawn[0] * drawn[1], drawn[1]);
    o.tokens_max = 1 + (uint32_t)rng_below(rng, rng_below(rng, 3) ? 40 : 150);
    o.hidden = 128 * (1 + (uint32_t)rng_below(rng, 4));
    o.topk = 1 + (uint32_t)rng_below(rng, 4);
    o.experts = o.ranks * (2 + (uint32_t)rng_below(rng, 8));
    moe_options_vary(&o, rng);
    return o;
}

struct moe_options moe_options_in_node(enum moe_kernel_family family, uint32_t ranks_most, uint32_t hidden_long,
                                       struct rng *rng)
{
    static const uint32_t ranks[] = { 2, 3, 4, 8, 9, 20 };
    uint32_t count = 0;
    while (!count || count > ranks_most) count = ranks[rng_below(rng, sizeof ranks / sizeof ranks[0])];
    struct moe_options o = moe_options_small(family, count, count);
    o.tokens_max = 1 + (uint32_t)rng_below(rng, rng_below(rng, 3) ? 40 : 150);
    o.hidden = rng_below(rng, 8) ? 128 * (1 + (uint32_t)rng_below(rng, 4)) : hidden_long;
    o.topk = 1 + (uint32_t)rng_below(rng, 8);
    o.experts = o.ranks * (8 + (uint32_t)rng_below(rng, 8));
    moe_options_vary(&o, rng);
    o.cached = o.weights = o.worst_tokens = false;
    o.num_bias = 0;
    o.num_sms = 1 + (uint32_t)rng_below(rng, 5);
    return o;
}

static int32_t expert_draw(const struct moe_options *o, enum moe_draw draw, uint32_t rank, struct rng *rng)
{
    const uint32_t local = o->experts / o->ranks;
    switch (draw) {
    case DRAW_HOT_RANK: return (int32_t)rng_below(rng, rng_below(rng, 2) ? o->experts : local);
    case DRAW_NEXT_RANK: return (int32_t)((rank + 1) % o->ranks * local + rng_below(rng, local));
    case DRAW_LOCAL: return (int32_t)(rank * local + rng_below(rng, local));
    case DRAW_SPARSE: return rng_below(rng, 4) ? ROUTING_NONE : (int32_t)rng_below(rng, o->experts);
    default: return (int32_t)rng_below(rng, o->experts);
    }
}

void moe_routing_draw(struct routing *routing, const struct moe_options *o, enum moe_draw draw, bool uneven,
                      bool weights, struct rng *rng)
{
    uint32_t tokens[o->ranks];
    for (uint32_t r = 0; r < o->ranks; r++)
        tokens[r] = !uneven ? o->tokens_max : rng_below(rng, 8) ? (uint32_t)rng_below(rng, o->tokens_max + 1) : 0;
    routing_alloc(routing, o->ranks, o->topk, o->experts, tokens, weights);
    for (uint32_t r = 0; r < o->ranks; r++)
        for (uint32_t t = 0; t < tokens[r]; t++) {
            int32_t *expert = &routing->rank[r].experts[(size_t)t * o->topk];
            for (uint32_t j = 0; j < o->topk; j++) {
                expert[j] = expert_draw(o, draw, r, rng);
                for (uint32_t i = 0; i < j; i++) /* a token chooses an expert only once */
                    if (expert[i] == expert[j]) expert[j] = ROUTING_NONE;
                if (weights) routing->rank[r].weights[(size_t)t * o->topk + j] = (float)rng_uniform(rng);
            }
        }
}

struct routing moe_routing_drawn(const struct moe_options *o, enum moe_draw draw)
{
    struct rng rng = rng_seeded(11);
    struct routing routing;
    moe_routing_draw(&routing, o, draw, false, true, &rng);
    return routing;
}

struct moe_copies moe_routing_copies(const struct routing *routing, const struct moe_options *o)
{
    struct moe_copies copies = { 0 };
    for (uint32_t r = 0; r < o->ranks; r++)
        for (uint32_t t = 0; t < routing->rank[r].tokens; t++) {
            bool rank[o->ranks], node[o->ranks];
            memset(rank, 0, sizeof rank);
            memset(node, 0, sizeof node);
            for (uint32_t j = 0; j < o->topk; j++) {
                const int32_t expert = routing->rank[r].experts[(size_t)t * o->topk + j];
                if (expert < 0) continue;
                const uint32_t to = (uint32_t)expert / (o->experts / o->ranks);
                rank[to] = node[to / o->ranks_per_node] = true;
            }
            for (uint32_t i = 0; i < o->ranks; i++) {
                copies.to_ranks += rank[i];
                copies.to_nodes += node[i];
                copies.abroad += node[i] && i != r / o->ranks_per_node;
            }
        }
    return copies;
}

struct moe_group *moe_group_new(const struct moe_options *options, struct routing *routing,
                                const struct loop_options *loop)
{
    struct moe_group *group = g_new0(struct moe_group, 1);
    char text[256];
    group->routing = *routing;
    moe_job_init(&group->job, options, &group->routing);
    if (moe_options_refuse(options, text, sizeof text)) g_error("options refused: %s", text);
    struct loop_options with_needs = *loop;
    with_needs.ranks = (uint16_t)options->ranks;
    with_needs.ranks_per_node = (uint16_t)options->ranks_per_node;
    kernel_job_needs(&group->job.job, loop->payload, &with_needs.needs);
    group->loop = loop_new(&with_needs);
    group->rank = g_new0(struct kernel_rank *, options->ranks);
    group->launched = g_new0(uint32_t, options->ranks);
    for (uint32_t r = 0; r < options->ranks; r++) {
        group->rank[r] = kernel_rank_new(&group->job.job, loop_fabric(group->loop, r));
        if (!group->rank[r]) abort();
    }
    return group;
}

void moe_group_free(struct moe_group *group)
{
    for (uint32_t r = 0; r < group->job.options.ranks; r++) kernel_rank_free(group->rank[r]);
    loop_free(group->loop);
    routing_free(&group->routing);
    g_free(group->rank);
    g_free(group->launched);
    g_free(group);
}

static struct kernel_launch *group_next(void *context, uint32_t rank)
{
    struct moe_group *group = context;
    if (group->launched[rank] == group->until) return NULL;
    const uint32_t phase = group->launched[rank]++ % kernel_phase_count(&group->job.job);
    return kernel_rank_launch(group->rank[rank], phase);
}

bool moe_group_run(struct moe_group *group, uint32_t iterations, bool quiet)
{
    group->until += iterations * kernel_phase_count(&group->job.job);
    return loop_run(group->loop, group_next, group, quiet);
}

struct moe_group *moe_group_drawn(const struct moe_options *options, enum moe_draw draw, uint64_t seed,
                                  uint32_t deliver_percent)
{
    struct routing routing = moe_routing_drawn(options, draw);
    const struct loop_options loop = { .payload = true, .seed = seed, .deliver_percent = deliver_percent };
    return moe_group_new(options, &routing, &loop);
}

struct moe_group *moe_group_run_sizes(const struct moe_options *options, enum moe_draw draw)
{
    struct rng rng = rng_seeded(11);
    struct routing routing;
    moe_routing_draw(&routing, options, draw, false, false, &rng);
    const struct loop_options loop = { .seed = 3, .deliver_percent = 50 };
    struct moe_group *group = moe_group_new(options, &routing, &loop);
    CU_ASSERT_TRUE(moe_group_run(group, 1, false));
    return group;
}

uint32_t moe_group_check(struct moe_group *group)
{
    uint32_t failed = 0;
    for (uint32_t r = 0; r < group->job.options.ranks; r++) {
        char text[256] = "";
        const uint32_t here = kernel_rank_check(group->rank[r], text, sizeof text);
        if (here && !failed) fprintf(stderr, "rank %u: %s\n", r, text);
        failed += here;
    }
    return failed;
}

bool moe_group_expect(struct moe_group *group, uint32_t rank, int number)
{
    char text[256] = "";
    int found = 0;
    const bool failed = kernel_rank_check(group->rank[rank], text, sizeof text) > 0;
    if (failed) sscanf(text, "check %d:", &found);
    CU_ASSERT_EQUAL(failed, number != 0);
    CU_ASSERT_EQUAL(found, number);
    if (found != number) fprintf(stderr, "rank %u: expected check %d to fail, found '%s'\n", rank, number, text);
    return found == number && failed == (number != 0);
}

enum { OUTPUTS_MAX = 32 };

uint64_t moe_group_hash(struct moe_group *group)
{
    uint64_t hash = 0;
    for (uint32_t r = 0; r < group->job.options.ranks; r++) {
        struct kernel_tensor tensor[OUTPUTS_MAX];
        const uint32_t count = kernel_rank_outputs(group->rank[r], tensor, OUTPUTS_MAX);
        for (uint32_t i = 0; i < count; i++) {
            const uint8_t *bytes = tensor[i].data;
            hash = hash * 31 + tensor[i].size_bytes;
            for (uint64_t at = 0; at < tensor[i].size_bytes; at++) hash += (uint64_t)bytes[at] << at % 4 * 8;
        }
    }
    return hash;
}

void *moe_group_output(struct moe_group *group, uint32_t rank, const char *name, uint64_t *size_bytes)
{
    struct kernel_tensor tensor[OUTPUTS_MAX];
    const uint32_t count = kernel_rank_outputs(group->rank[rank], tensor, OUTPUTS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(tensor[i].name, name)) continue;
        if (size_bytes) *size_bytes = tensor[i].size_bytes;
        return (void *)(uintptr_t)tensor[i].data;
    }
    return NULL;
}

/* ---- tests that every kernel family passes, over groups that draw() draws ---- */

/* Low latency can do without NVLink on every fabric. */
static bool nvlink_needed(const struct moe_options *o)
{
    return o->family != MOE_LOW_LATENCY && o->family != MOE_NCCL_LL;
}

static struct loop_options loop_draw(struct rng *rng, bool payload, bool needed)
{
    static const uint32_t deliver[] = { 2, 10, 50, 90 };
    return (struct loop_options){ .payload = payload,
                                  .nvlink_disabled = !needed && rng_below(rng, 3) == 0,
                                  .seed = rng_next(rng),
                                  .refuse_percent = (uint32_t)rng_below(rng, 2) * 10,
                                  .deliver_percent = deliver[rng_below(rng, 4)],
                                  .spurious = rng_below(rng, 2) };
}

void moe_test_random_groups(moe_options_draw *draw, uint64_t seeds)
{
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        struct rng rng = rng_seeded(seed);
        const struct moe_options o = draw(&rng);
        struct routing routing;
        moe_routing_draw(&routing, &o, (enum moe_draw)rng_below(&rng, DRAW_KINDS), rng_below(&rng, 2),
                         rng_below(&rng, 2), &rng);
        const struct loop_options loop = loop_draw(&rng, true, nvlink_needed(&o));
        g_autoptr(moe_group) group = moe_group_new(&o, &routing, &loop);
        const bool ended = moe_group_run(group, 1 + (uint32_t)rng_below(&rng, 4), false);
        CU_ASSERT_TRUE(ended);
        const uint32_t failed = ended ? moe_group_check(group) : 0;
        CU_ASSERT_EQUAL(failed, 0);
        CU_ASSERT_EQUAL(loop_counts(group->loop)->breaches, 0);
        if (!ended || failed) fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
    }
}

/* The order of events is drawn from the loop's seed, so equal operations give equal traces. */
void moe_test_sizes_only(moe_options_draw *draw, uint64_t seeds)
{
    for (uint64_t seed = 1000; seed < 1000 + seeds; seed++) {
        struct loop_counts counts[2];
        for (int payload = 0; payload < 2; payload++) {
            struct rng rng = rng_seeded(seed);
            const struct moe_options o = draw(&rng);
            struct routing routing;
            moe_routing_draw(&routing, &o, DRAW_UNIFORM, true, false, &rng);
            const struct loop_options loop = loop_draw(&rng, payload, nvlink_needed(&o));
            g_autoptr(moe_group) group = moe_group_new(&o, &routing, &loop);
            CU_ASSERT_TRUE(moe_group_run(group, 2, false));
            counts[payload] = *loop_counts(group->loop);
        }
        CU_ASSERT_EQUAL(memcmp(&counts[0], &counts[1], sizeof counts[0]), 0);
        CU_ASSERT_TRUE(counts[0].signals > 0);
    }
}

/* ---- two routings ---- */

/* Runs the kernels of two groups in turns, both on the loop of the first group. */
struct turns {
    struct moe_group *group[2];
    struct turn {
        uint32_t group, phase;
    } turn[2 * 16];
    uint32_t turns, until;
    uint32_t *launched; /* [ranks] */
};

static struct kernel_launch *turns_next(void *context, uint32_t rank)
{
    struct turns *t = context;
    if (t->launched[rank] == t->until) return NULL;
    const struct turn turn = t->turn[t->launched[rank]++ % t->turns];
    return kernel_rank_launch(t->group[turn.group]->rank[rank], turn.phase);
}

/* Lists the turns: the phases of dispatch of both groups, then those of combine. */
static void turns_make(struct turns *t)
{
    for (int combines = 0; combines < 2; combines++)
        for (uint32_t g = 0; g < 2; g++) {
            const struct kernel_job *job = &t->group[g]->job.job;
            for (uint32_t p = 0; p < kernel_phase_count(job); p++)
                if ((strstr(kernel_phase_name(job, p), "combine") != NULL) == combines)
                    t->turn[t->turns++] = (struct turn){ g, p };
        }
}

static void ranks_in_turns(struct moe_group *first, struct moe_group *second)
{
    struct turns t = { .group = { first, second } };
    turns_make(&t);
    t.launched = g_new0(uint32_t, first->job.options.ranks);
    for (int i = 0; i < 3; i++) {
        t.until += t.turns;
        CU_ASSERT_TRUE(loop_run(first->loop, turns_next, &t, false));
        CU_ASSERT_EQUAL(moe_group_check(first) + moe_group_check(second), 0);
    }
    g_free(t.launched);
}

static void ranks_routed(struct moe_group *group, const struct routing *other)
{
    for (int i = 0; i < 4; i++) {
        for (uint32_t r = 0; r < group->job.options.ranks; r++)
            group->job.job.family->route(group->rank[r], i % 2 ? other : &group->routing);
        CU_ASSERT_TRUE(moe_group_run(group, 1, false));
        CU_ASSERT_EQUAL(moe_group_check(group), 0);
    }
}

static void routings_in_turns(const struct moe_options *o, const struct loop_options *loop, struct rng *rng)
{
    struct routing routing;
    struct moe_group second = { 0 };
    moe_routing_draw(&routing, o, DRAW_UNIFORM, false, o->weights, rng);
    moe_routing_draw(&second.routing, o, DRAW_HOT_RANK, false, o->weights, rng);
    g_autoptr(moe_group) first = moe_group_new(o, &routing, loop);
    if (first->job.job.family->route) {
        ranks_routed(first, &second.routing);
    } else {
        struct moe_options other = *o;
        other.cached = !o->weights && !o->worst_tokens;
        moe_job_init(&second.job, &other, &second.routing);
        second.rank = g_new0(struct kernel_rank *, o->ranks);
        for (uint32_t r = 0; r < o->ranks; r++)
            second.rank[r] = kernel_rank_new(&second.job.job, loop_fabric(first->loop, r));
        ranks_in_turns(first, &second);
        for (uint32_t r = 0; r < o->ranks; r++) kernel_rank_free(second.rank[r]);
        g_free(second.rank);
    }
    CU_ASSERT_EQUAL(loop_counts(first->loop)->breaches, 0);
    routing_free(&second.routing);
}

void moe_test_routings_in_turns(moe_options_draw *draw, uint64_t seeds)
{
    for (uint64_t seed = 0; seed < seeds; seed++) {
        struct rng rng = rng_seeded(seed);
        struct moe_options o = draw(&rng);
        o.cached = false;
        const struct loop_options loop = loop_draw(&rng, true, nvlink_needed(&o));
        routings_in_turns(&o, &loop, &rng);
    }
}

void moe_test_runs_hash_alike(struct moe_options o, const char *output)
{
    uint64_t hash = 0;
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct rng rng = rng_seeded(5);
        struct routing routing;
        moe_routing_draw(&routing, &o, DRAW_UNIFORM, true, true, &rng);
        const struct loop_options loop = { .payload = true, .seed = seed, .deliver_percent = 30, .refuse_percent = 5 };
        g_autoptr(moe_group) group = moe_group_new(&o, &routing, &loop);
        CU_ASSERT_TRUE(moe_group_run(group, 2, false));
        if (seed == 0) hash = moe_group_hash(group);
        CU_ASSERT_EQUAL(moe_group_hash(group), hash);
        uint64_t size = 0;
        uint8_t *data = moe_group_output(group, 2, output, &size);
        CU_ASSERT_TRUE_FATAL(data && size > 1);
        data[1] ^= 1;
        CU_ASSERT_NOT_EQUAL(moe_group_hash(group), hash);
    }
}

void moe_test_faults(const struct moe_options *options, const struct moe_fault *fault, size_t faults)
{
    g_autoptr(moe_group) group = moe_group_drawn(options, DRAW_UNIFORM, 3, 50);
    CU_ASSERT_TRUE_FATAL(moe_group_run(group, 1, false));
    moe_group_expect(group, 2, 0);
    for (size_t i = 0; i < faults; i++) {
        uint8_t *byte = moe_group_output(group, 2, fault[i].name, NULL);
        CU_ASSERT_PTR_NOT_NULL_FATAL(byte);
        *byte += 1;
        moe_group_expect(group, 2, fault[i].check);
        *byte -= 1;
    }
}

void moe_test_refused(const struct moe_options *o, const char *begin)
{
    char text[256] = "";
    const bool refused = moe_options_refuse(o, text, sizeof text) != NULL;
    const bool expected = refused == (begin != NULL) && (!begin || g_str_has_prefix(text, begin));
    CU_ASSERT_TRUE(expected);
    if (!expected) fprintf(stderr, "expected '%s...', found '%s'\n", begin ? begin : "", text);
}

void moe_test_stored_bytes(const struct moe_options *options, uint64_t bytes_a_copy)
{
    struct moe_options o = *options;
    o.hidden = 7168;
    o.topk = 8;
    o.experts = 256;
    o.tokens_max = 64;
    g_autoptr(moe_group) group = moe_group_run_sizes(&o, DRAW_UNIFORM);
    const struct moe_copies copies = moe_routing_copies(&group->routing, &o);
    CU_ASSERT_EQUAL(loop_counts(group->loop)->store_bytes, copies.to_ranks * bytes_a_copy);
    CU_ASSERT_EQUAL(loop_counts(group->loop)->put_bytes, 0);
}
