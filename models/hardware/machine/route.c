/* route.c - finds all shortest ways by counting hops back from the end; see route.h. */
#include "models/hardware/machine/route.h"

struct search {
    const struct graph *graph;
    uint8_t *far; /* 1 + the hops to the end; 0: the end is not reached */
    struct route *route;
    uint32_t max, found, to;
    struct route way;
};

static bool leads_on(const struct graph *g, uint32_t part)
{
    const enum part_kind kind = graph_part(g, part)->kind;
    return kind != PART_GPU && kind != PART_PORT && kind != PART_NVLINK;
}

/* Counts the hops to `to`, part by part, until `from` is reached.  The search goes backwards, but it may follow the
 * links that begin at a part, because links exist in both directions or not at all. */
static void count_back(const struct search *s, uint32_t from, uint32_t to)
{
    g_autoptr(GArray) queue = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    g_array_append_val(queue, to);
    s->far[to] = 1;
    for (guint at = 0; at < queue->len; at++) {
        const uint32_t part = g_array_index(queue, uint32_t, at);
        const GArray *out = graph_part(s->graph, part)->out;
        if (s->far[part] > ROUTE_LINKS_MAX || (part != to && !leads_on(s->graph, part))) continue;
        for (guint i = 0; i < out->len; i++) {
            const struct link *link = graph_link(s->graph, g_array_index(out, uint32_t, i));
            if (link->down || s->far[link->to]) continue;
            s->far[link->to] = (uint8_t)(s->far[part] + 1);
            if (link->to == from) return;
            g_array_append_val(queue, link->to);
        }
    }
}

static void walk(struct search *s, uint32_t part)
{
    if (s->found == s->max) return;
    if (part == s->to) {
        s->route[s->found++] = s->way;
        return;
    }
    const GArray *out = graph_part(s->graph, part)->out;
    for (guint i = 0; i < out->len; i++) {
        const uint32_t number = g_array_index(out, uint32_t, i);
        const struct link *link = graph_link(s->graph, number);
        if (link->down || s->far[link->to] + 1 != s->far[part]) continue;
        if (link->to != s->to && !leads_on(s->graph, link->to)) continue;
        s->way.link[s->way.count++] = number;
        walk(s, link->to);
        s->way.count--;
    }
}

uint32_t route_find(const struct graph *g, uint32_t from, uint32_t to, struct route *route, uint32_t max)
{
    struct search s = { .graph = g, .far = g_new0(uint8_t, g->part->len), .route = route, .max = max, .to = to };
    count_back(&s, from, to);
    if (from == to || s.far[from]) walk(&s, from);
    g_free(s.far);
    return s.found;
}

uint64_t route_latency_ps(const struct graph *g, const struct route *route)
{
    uint64_t latency_ps = 0;
    for (uint32_t i = 0; i < route->count; i++) latency_ps += graph_link(g, route->link[i])->latency_ps;
    return latency_ps;
}

uint64_t route_rate_bps(const struct graph *g, const struct route *route)
{
    uint64_t rate_bps = 0;
    for (uint32_t i = 0; i < route->count; i++) {
        const uint64_t link_bps = graph_link(g, route->link[i])->rate_bps;
        if (link_bps && (!rate_bps || link_bps < rate_bps)) rate_bps = link_bps;
    }
    return rate_bps;
}
