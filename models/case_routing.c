/* case_routing.c - the routing of a case: from a trace, a traffic matrix or the generator.
 *
 * Knows where routing comes from.  Knows no protocol, no world and no time. */
#include "models/case_family.h"

#include <assert.h>
#include <string.h>
#include "sim/text.h"
#include "traces/edges_make.h"
#include "traces/generate.h"
#include "traces/placement.h"
#include "traces/routing_even.h"
#include "traces/trace.h"

static bool case_is(const char *value, const char *word) { return strcmp(value, word) == 0; }

/* Reads the numbers of tokens: "4096|0", one for each rank, of which not all are 0. */
static uint32_t *tokens_parse(const struct case_options *c, GError **error)
{
    g_auto(GStrv) part = g_strsplit(c->tokens_per_rank, "|", 0);
    const guint count = g_strv_length(part);
    g_autofree uint32_t *tokens = g_new(uint32_t, count);
    bool good = count == c->num_ranks, any = false;
    if (!good) error_input(error, "tokens-per-rank: expected %u numbers divided by '|', found %u", c->num_ranks, count);
    for (guint i = 0; good && i < count; i++) {
        guint64 value = 0;
        good = text_whole(part[i], 0, 1 << 20, &value);
        if (!good)
            error_input(error, "tokens-per-rank: expected whole numbers from 0 to %u, found '%s'", 1 << 20, part[i]);
        tokens[i] = (uint32_t)value;
        any |= value > 0;
    }
    if (good && !any) good = error_input(error, "tokens-per-rank: expected a rank with tokens, found none");
    return good ? g_steal_pointer(&tokens) : NULL;
}

/* Drops each rank's tokens beyond its number.  Drawing more tokens does not change the first ones. */
static void routing_shorten(struct routing *routing, const uint32_t *tokens)
{
    for (uint32_t r = 0; r < routing->ranks; r++) routing->rank[r].tokens = MIN(routing->rank[r].tokens, tokens[r]);
}

/* The number of groups of experts that num_topk_groups counts. */
static uint32_t case_groups(const struct case_options *c)
{
    return c->num_groups ? c->num_groups : MAX(c->num_ranks / c->ranks_per_node, 1);
}

static bool routing_of_generator(const struct case_options *c, struct routing *routing, GError **error)
{
    g_autofree uint32_t *tokens = NULL;
    uint32_t most = c->num_tokens;
    if (c->num_topk_groups > case_groups(c))
        return error_input(error, "num-topk-groups: expected at most as many as there are nodes (%u), found %u",
                           case_groups(c), c->num_topk_groups);
    if (c->tokens_per_rank) {
        tokens = tokens_parse(c, error);
        if (!tokens) return false;
        most = 0;
        for (uint32_t r = 0; r < c->num_ranks; r++) most = MAX(most, tokens[r]);
    }
    const struct routing_options options = {
        .ranks = c->num_ranks,
        .tokens = most,
        .topk = c->num_topk,
        .experts = c->num_experts,
        .groups = c->num_topk_groups ? case_groups(c) : 0,
        .topk_groups = c->num_topk_groups,
        .masked_places = c->masked_places,
        .weights = c->weights,
        .seed = c->seed,
        .step = c->step,
        .layer = c->layer,
        .distribution = c->routing,
    };
    const bool good = routing_generate(&options, routing, error);
    if (good && tokens) routing_shorten(routing, tokens);
    return good;
}

static bool routing_of_traffic(const struct case_options *c, struct routing *routing, GError **error)
{
    if (c->routing) return error_input(error, "routing: not together with traffic, which says how many go where");
    if (c->tokens_per_rank) return error_input(error, "tokens-per-rank: not together with traffic");
    const struct traffic_options options = {
        .matrix = c->traffic,
        .ranks = c->num_ranks,
        .tokens = c->num_tokens,
        .topk = c->num_topk,
        .experts = c->num_experts,
        .pairs = case_is(c->kernel, "ll"),
        .seed = c->seed,
    };
    return routing_from_traffic(&options, routing, error);
}

static bool routing_of_trace(const struct case_options *c, struct routing *routing, GError **error)
{
    if (c->routing || c->traffic || c->tokens_per_rank)
        return error_input(error, "%s: not together with trace",
                           c->routing   ? "routing"
                           : c->traffic ? "traffic"
                                        : "tokens-per-rank");
    const struct trace_options options = { .experts = c->num_experts, .weights_path = c->trace_weights };
    g_autoptr(trace) trace = trace_open(c->trace, &options, error);
    if (!trace) return false;
    const uint32_t topk = trace_info(trace)->topk;
    bool good = !trace_info(trace)->counts ||
                error_input(error,
                            "trace: %s: expected the choices of each token, found counts of experts, which `eptwin "
                            "trace info` shows and `eptwin trace remap --placement` places",
                            c->trace);
    if (good) good = c->num_topk == 0 || c->num_topk == topk;
    if (!good && error && !*error)
        error_input(error, "num-topk: expected the trace's %u or nothing, found %u", topk, c->num_topk);
    good = good && trace_read(trace, c->step, c->layer, c->num_ranks, routing, error);
    if (good && !trace_places_check(trace, c->step, c->layer, routing, error)) {
        routing_free(routing);
        return false;
    }
    if (good && c->num_tokens)
        for (uint32_t r = 0; r < routing->ranks; r++)
            routing->rank[r].tokens = MIN(routing->rank[r].tokens, c->num_tokens);
    return good;
}

/* Replaces the routing by one in which experts have the places that the placement gives them.  The placement may depend
 * on the load of this routing. */
static bool routing_replace_placed(const struct case_options *c, struct routing *routing, GError **error)
{
    struct routing placed;
    const bool good = routing_place(
        routing,
        &(struct routing_place_options){ .spec = c->placement, .ranks_per_node = c->ranks_per_node, .layer = c->layer },
        &placed, error);
    routing_free(routing);
    if (good) *routing = placed;
    else if (error && !g_str_has_prefix((*error)->message, "placement: ")) g_prefix_error(error, "placement: ");
    return good;
}

bool case_routing(const struct case_options *c, struct routing *routing, GError **error)
{
    const struct case_options resolved = case_resolved(c);
    if (c->trace_weights && !c->trace) return error_input(error, "trace-weights: needs trace");
    bool good = resolved.num_ranks && resolved.num_experts % resolved.num_ranks
                    ? error_input(error, "num-experts: expected a multiple of num-ranks %u, found %u",
                                  resolved.num_ranks, resolved.num_experts)
                : resolved.trace   ? routing_of_trace(&resolved, routing, error)
                : resolved.traffic ? routing_of_traffic(&resolved, routing, error)
                                   : routing_of_generator(&resolved, routing, error);
    if (good && resolved.placement) good = routing_replace_placed(&resolved, routing, error);
    if (good && resolved.even)
        routing_even(routing, routing->ranks % MAX(resolved.ranks_per_node, 1) ? 0 : resolved.ranks_per_node);
    assert(!good || (routing->ranks && routing->topk && (!resolved.num_ranks || routing->ranks == resolved.num_ranks)));
    return good;
}

/* The case's number of ranks or, if the case leaves it open, that of its matrix or its trace.  0 if there is none,
 * or if the trace can be read only once. */
static uint32_t ranks_of(const struct case_options *c)
{
    const struct case_options resolved = case_resolved(c);
    uint32_t ranks = resolved.num_ranks;
    struct edges edges;
    if (ranks == 0 && c->matrix && edges_make(c->matrix, 0, 1, 0, &edges, NULL)) {
        ranks = edges.ranks;
        edges_free(&edges);
    }
    const struct trace_options options = { .experts = c->num_experts };
    const bool traced = ranks == 0 && c->trace && !case_is(c->trace, "-");
    struct trace *trace = traced ? trace_open(c->trace, &options, NULL) : NULL;
    if (trace) {
        ranks = trace_info(trace)->ranks;
        trace_close(trace);
    }
    return ranks;
}

uint32_t case_node_ranks(const struct case_options *c, uint32_t gpus)
{
    return c->ranks_per_node ? c->ranks_per_node : gpus ? gpus : ranks_of(c);
}

void case_node_settle(struct case_options *c, uint32_t gpus) { c->ranks_per_node = case_node_ranks(c, gpus); }
