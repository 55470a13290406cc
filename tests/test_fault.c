/* test_fault.c - does a fault change the part that it names, and no other?
 *
 * Aim: models/predict/fault.h.  Method: faults of every NIC and GPU of a small cluster in turn.  After each, the rates
 * of all links are compared. */
#include "models/backends.h"
#include "models/predict/fault.h"
#include "tests/unit.h"

#include <glib.h>
#include <stdio.h>
#include <string.h>

enum { NODES = 2, GPUS = 8 };

static struct cluster *machine;
static struct transport transport;
static uint32_t slow[NODES * GPUS];

static struct graph *graph_with(const char *fault)
{
    g_autoptr(GError) error = NULL;
    struct graph *graph = MADE(graph_new(machine, NODES, GPUS, &error));
    memset(slow, 0, sizeof slow);
    const struct fault_target target = { .graph = graph, .transport = &transport, .ranks = NODES * GPUS, .slow = slow };
    CU_ASSERT_TRUE(fault_apply(fault, &target, &error));
    if (error) puts(error->message);
    return graph;
}

/* Returns the rate between a port and its switch, which is checked to be equal in both directions.  0: the port is
 * down. */
static uint64_t port_rate(const struct graph *g, uint32_t node, uint32_t port)
{
    const uint32_t part = graph_port(g, node, port), above = graph_port_switch(g, part);
    if (above == UINT32_MAX) return 0;
    const uint64_t up = graph_link(g, graph_link_between(g, part, above))->rate_bps;
    CU_ASSERT_EQUAL(graph_link(g, graph_link_between(g, above, part))->rate_bps, up);
    return up;
}

/* Asserts that the fault multiplies the rates of ports first to first + count - 1 of the node by `factor`, and leaves
 * all other ports alone. */
static void expect_ports(const char *fault, uint32_t node, uint32_t first, uint32_t count, double factor)
{
    g_autoptr(graph) g = graph_with(fault);
    g_autoptr(graph) sound = graph_with(NULL);
    for (uint32_t n = 0; n < NODES; n++)
        for (uint32_t p = 0; p < g->nics * g->ports; p++) {
            const bool hit = n == node && p >= first && p < first + count;
            CU_ASSERT_EQUAL(port_rate(g, n, p), (uint64_t)((double)port_rate(sound, n, p) * (hit ? factor : 1)));
        }
}

TEST("ports of a NIC, of a GPU")
{
    g_autoptr(graph) g = graph_with(NULL);
    CU_ASSERT_FATAL(g->nics == GPUS && g->ports >= 1);
    for (uint32_t node = 0; node < NODES; node++)
        for (uint32_t nic = 0; nic < g->nics; nic++) {
            g_autofree char *by_nic = g_strdup_printf("nic:n%u.nic%u rate=0.5", node, nic);
            g_autofree char *by_gpu = g_strdup_printf("nic:n%u.g%u rate=0.25", node, nic);
            g_autofree char *down = g_strdup_printf("nic:n%u.nic%u down", node, nic);
            uint32_t count;
            const uint32_t first = graph_gpu_ports(g, nic, &count);
            expect_ports(by_nic, node, nic * g->ports, g->ports, 0.5);
            expect_ports(by_gpu, node, first, count, 0.25);
            expect_ports(down, node, nic * g->ports, g->ports, 0);
        }
}

TEST("slow ranks")
{
    graph_free(graph_with("rank:5 slow=2|rank:7 slow=3"));
    for (uint32_t r = 0; r < NODES * GPUS; r++)
        CU_ASSERT_EQUAL(slow[r], r == 5 ? 2 * slow[7] / 3 : r == 7 ? slow[7] : 0);
    CU_ASSERT(slow[7] > 0);
}

bool unit_begin(char **argv)
{
    (void)argv;
    machine = cluster_load("h100-cx7", NULL);
    transport = *backends_find("ibgda");
    return machine != NULL;
}

void unit_end(void) { cluster_free(machine); }
