/* routing_even.c - evens out the load of experts, see routing_even.h. */
#include "traces/routing_even.h"

#include <assert.h>
#include <glib.h>
#include <stdbool.h>
#include "sim/rng.h"

/* A token's experts as they are, or moved.  Of several moves the one is taken that meets the least load.  As with the
 * fuller of two random bins, a few choices leave next to no difference between loads. */
enum { MOVES = 16 };

struct evener {
    uint32_t nodes, node_ranks, rank_experts, topk;
    uint64_t *load;      /* [experts] tokens so far */
    uint64_t *rank_load; /* [ranks] tokens so far, each counted once */
    struct rng rng;
};

/* Where an expert is, or how far it moves in each of the rotations. */
struct seat {
    uint32_t node, rank, place; /* a rank of the node, a place of the rank */
    bool first;                 /* of the token's experts on this rank */
};

static struct seat seat_of(const struct evener *e, uint32_t expert)
{
    const uint32_t rank = expert / e->rank_experts;
    return (struct seat){ rank / e->node_ranks, rank % e->node_ranks, expert % e->rank_experts, true };
}

static uint32_t turned(uint32_t at, uint32_t by, uint32_t all) { return at + by < all ? at + by : at + by - all; }

static uint32_t expert_moved(const struct evener *e, struct seat seat, struct seat by)
{
    const uint32_t node = turned(seat.node, by.node, e->nodes), rank = turned(seat.rank, by.rank, e->node_ranks);
    return (node * e->node_ranks + rank) * e->rank_experts + turned(seat.place, by.place, e->rank_experts);
}

static uint64_t load_after(const struct evener *e, const struct seat *seat, uint32_t seats, struct seat by)
{
    uint64_t load = 0;
    for (uint32_t i = 0; i < seats; i++) {
        const uint32_t expert = expert_moved(e, seat[i], by);
        load += e->load[expert] + (seat[i].first ? e->rank_load[expert / e->rank_experts] : 0);
    }
    return load;
}

/* Reads the token's experts.  Returns how many it has. */
static uint32_t seats_of(const struct evener *e, const int32_t *experts, struct seat *seat)
{
    uint32_t seats = 0;
    for (uint32_t k = 0; k < e->topk; k++) {
        if (experts[k] == ROUTING_NONE) continue;
        seat[seats] = seat_of(e, (uint32_t)experts[k]);
        for (uint32_t i = 0; i < seats; i++)
            if (seat[i].node == seat[seats].node && seat[i].rank == seat[seats].rank) seat[seats].first = false;
        seats++;
    }
    return seats;
}

static void token_even(struct evener *e, int32_t *experts)
{
    struct seat seat[ROUTING_TOPK_MAX], best = { 0 };
    const uint32_t seats = seats_of(e, experts, seat);
    uint32_t moved = 0;
    uint64_t least = load_after(e, seat, seats, best);
    for (uint32_t i = 1; i < MOVES; i++) {
        const struct seat by = { (uint32_t)rng_below(&e->rng, e->nodes), (uint32_t)rng_below(&e->rng, e->node_ranks),
                                 (uint32_t)rng_below(&e->rng, e->rank_experts), false };
        const uint64_t load = load_after(e, seat, seats, by);
        if (load < least) best = by;
        least = MIN(load, least);
    }
    for (uint32_t k = 0; k < e->topk; k++) {
        if (experts[k] == ROUTING_NONE) continue;
        const uint32_t expert = expert_moved(e, seat[moved], best);
        e->load[expert]++;
        e->rank_load[expert / e->rank_experts] += seat[moved++].first;
        experts[k] = (int32_t)expert;
    }
}

void routing_even(struct routing *routing, uint32_t ranks_per_node)
{
    const uint32_t node_ranks = ranks_per_node ? ranks_per_node : routing->ranks;
    struct evener e = { .nodes = routing->ranks / node_ranks,
                        .node_ranks = node_ranks,
                        .rank_experts = routing->experts / routing->ranks,
                        .topk = routing->topk,
                        .load = g_new0(uint64_t, routing->experts),
                        .rank_load = g_new0(uint64_t, routing->ranks),
                        .rng = rng_seeded(0) };
    uint32_t most = 0;
    assert(routing->experts % routing->ranks == 0 && routing->ranks % node_ranks == 0);
    for (uint32_t r = 0; r < routing->ranks; r++) most = MAX(most, routing->rank[r].tokens);
    for (uint32_t t = 0; t < most; t++)
        for (uint32_t r = 0; r < routing->ranks; r++)
            if (t < routing->rank[r].tokens) token_even(&e, routing->rank[r].experts + (size_t)t * e.topk);
    g_free(e.load);
    g_free(e.rank_load);
}
