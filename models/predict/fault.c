/* fault.c - reads --fault and makes its edits, see fault.h. */
#include "models/predict/fault.h"

#include <math.h>
#include <string.h>
#include "models/hardware/world/world.h"
#include "sim/error.h"
#include "sim/text.h"

#define FACTOR_MAX 1000.0

static bool refuse(const char *fault, const char *expected, GError **error)
{
    return error_input(error, "fault: expected %s, found \"%s\"", expected, fault);
}

/* Reads the factor of an edit such as "rate=0.5": from a thousandth to `most`. */
static bool factor_parse(const char *edit, const char *name, double most, double *factor)
{
    if (!g_str_has_prefix(edit, name)) return false;
    const char *end = text_decimal(edit + strlen(name), factor);
    return end && !*end && *factor >= 1e-3 && *factor <= most;
}

/* Reduces a link's rate in both directions, or removes the link. */
static bool link_edit(struct graph *g, uint32_t a, uint32_t b, const char *edit)
{
    double factor;
    if (!strcmp(edit, "down")) graph_cut(g, a, b);
    else if (factor_parse(edit, "rate=", 1, &factor)) graph_scale(g, a, b, factor);
    else return false;
    return true;
}

/* Whether the link has a rate.  Some links of a node have none, because they are never the limit. */
static bool link_limits(const struct graph *g, uint32_t a, uint32_t b)
{
    return graph_link(g, graph_link_between(g, a, b))->rate_bps > 0;
}

static bool port_edit(struct graph *g, uint32_t node, uint32_t port, const char *edit)
{
    const uint32_t part = graph_port(g, node, port), above = graph_port_switch(g, part);
    return above == UINT32_MAX || link_edit(g, part, above, edit);
}

static bool nic_fault(const struct fault_target *t, const char *where, const char *edit, const char *fault,
                      GError **error)
{
    struct graph *g = t->graph;
    const uint32_t number = graph_find(g, where);
    const struct part *part = number == UINT32_MAX ? NULL : graph_part(g, number);
    if (!part || !g->nics || (part->kind != PART_GPU && part->kind != PART_NIC))
        return error_input(
            error,
            "fault: nic: expected a GPU as n0.g0 or a NIC as n0.nic0 (nodes: %u, GPUs of each: %u, NICs of "
            "each: %u), found \"%s\"",
            g->nodes, g->gpus, g->nics, fault);
    const uint32_t node = part->node;
    uint32_t count = g->ports, first = (number - graph_nic(g, node, 0)) * g->ports;
    if (part->kind == PART_GPU) first = graph_gpu_ports(g, number - graph_gpu(g, node, 0), &count);
    for (uint32_t p = first; p < first + count; p++)
        if (!port_edit(g, node, p, edit)) return refuse(fault, "nic:NAME rate=FACTOR (0.001 to 1) or down", error);
    return true;
}

static bool link_fault(const struct fault_target *t, const char *where, const char *edit, const char *fault,
                       GError **error)
{
    g_auto(GStrv) end = g_strsplit(where, "-", 2);
    const uint32_t a = end[0] ? graph_find(t->graph, end[0]) : UINT32_MAX;
    const uint32_t b = end[0] && end[1] ? graph_find(t->graph, end[1]) : UINT32_MAX;
    if (a == UINT32_MAX || b == UINT32_MAX || graph_link_between(t->graph, a, b) == UINT32_MAX)
        return refuse(fault, "two parts that a link joins, as `eptwin cluster show` draws them", error);
    if (!link_limits(t->graph, a, b) && g_str_has_prefix(edit, "rate="))
        return refuse(fault, "a link with a rate, as [node] pcie-rate gives those of PCIe, or down", error);
    return link_edit(t->graph, a, b, edit) || refuse(fault, "link:A-B rate=FACTOR (0.001 to 1) or down", error);
}

static bool rank_fault(const struct fault_target *t, const char *where, const char *edit, const char *fault,
                       GError **error)
{
    guint64 rank;
    double factor;
    if (!text_whole(where, 0, t->ranks - 1, &rank) || !factor_parse(edit, "slow=", FACTOR_MAX, &factor) || factor < 1)
        return refuse(fault, "rank:NUMBER slow=FACTOR, a rank that there is, a factor from 1 to 1000", error);
    const double before = t->slow[rank] ? t->slow[rank] : WORLD_SLOW_ONE; /* set by --slow, or by another fault */
    if (before * factor > FACTOR_MAX * WORLD_SLOW_ONE)
        return refuse(fault, "a rank at most 1000 times as slow in all", error);
    t->slow[rank] = (uint32_t)lround(before * factor);
    return true;
}

/* Makes a fault that has no place, such as "qp: one". */
static bool table_fault(const struct fault_target *t, const char *what, const char *edit, const char *fault,
                        GError **error)
{
    guint64 nic;
    if (!strcmp(what, "qp") && !strcmp(edit, "one")) {
        t->transport->queues = 1;
    } else if (!strcmp(what, "gdrcopy") && !strcmp(edit, "off")) {
        if (t->transport->poster != CLUSTER_POST_PROXY || !t->transport->mapped_ps)
            return refuse(fault, "gdrcopy: off with a --backend whose threads read GPU memory (ibrc, gin-proxy, ...)",
                          error);
        t->transport->doorbell_ps += t->transport->mapped_ps;
        t->transport->message_ps = t->transport->answer_ps = 0; /* without GDRCopy a thread leaves atomics to the NIC */
    } else if (!strcmp(what, "nics") && g_str_has_prefix(edit, "all-on=") && t->graph->nics &&
               text_whole(edit + strlen("all-on="), 0, t->graph->nics - 1, &nic)) {
        t->graph->only_nic = (uint32_t)nic + 1;
    } else {
        return refuse(fault,
                      "nic:NAME, link:A-B or rank:N and an edit, \"qp: one\", \"nics: all-on=N\" of a NIC that there "
                      "is, or \"gdrcopy: off\"",
                      error);
    }
    return true;
}

static bool fault_one(char *fault, const struct fault_target *t, GError **error)
{
    static const struct {
        const char *what;
        bool (*apply)(const struct fault_target *t, const char *where, const char *edit, const char *fault,
                      GError **error);
    } placed[] = { { "nic", nic_fault }, { "link", link_fault }, { "rank", rank_fault } };
    g_auto(GStrv) half = g_strsplit(g_strstrip(fault), ":", 2);
    g_auto(GStrv) word = g_strsplit_set(g_strstrip(half[0] && half[1] ? half[1] : fault), " ", 2);
    for (size_t i = 0; half[0] && half[1] && i < G_N_ELEMENTS(placed); i++) {
        if (strcmp(half[0], placed[i].what) != 0) continue;
        if (!word[0] || !word[1]) return refuse(fault, "WHAT:WHERE and an edit", error);
        return placed[i].apply(t, word[0], g_strstrip(word[1]), fault, error);
    }
    return table_fault(t, half[0] ? half[0] : "", half[0] && half[1] ? half[1] : "", fault, error);
}

bool fault_apply(const char *text, const struct fault_target *t, GError **error)
{
    if (!text) return true;
    g_auto(GStrv) fault = g_strsplit(text, "|", -1);
    for (char **f = fault; *f; f++)
        if (!fault_one(*f, t, error)) return false;
    return !t->graph->nics || graph_reaches(t->graph, error);
}
