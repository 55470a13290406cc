/* test_network.c - do flows share links, queue, collide and hold each other back as networks do?
 *
 * Aim: links, routes, networks and NIC ports of the simulated world.  Method: flows of puts between GPUs of the cluster
 * of support_sim.h, over networks made here.  A NIC port moves 10 GB/s, so 1 MB takes 100 us.  The times are compared
 * with hand-computed ones.  A flow is one worker that puts its messages on one QP and flushes. */
#include <math.h>
#include "models/hardware/machine/route.h"
#include "sim/units.h"
#include "tests/support_sim.h"
#include "tests/support_traffic.h"
#include "tests/unit.h"

static void traffic_renew(struct traffic **t, uint32_t ranks)
{
    g_free(*t);
    *t = traffic_new(ranks);
}

/* One flow is a message of 10 MB, the other is many small messages.  Both get half of the port. */
TEST("two flows")
{
    g_autofree struct traffic *t = traffic_new(3);
    struct flow *a = flow_add(t, 1, 0, 0, 10 * MB, 1), *b = flow_add(t, 2, 0, 0, 50000, 200);
    traffic_run(t);
    CU_ASSERT(took_about(a, 2000, 1, 0));
    CU_ASSERT(took_about(b, 2000, 1, 0));
    t->count = 1; /* alone, the first flow gets all of the port */
    traffic_run(t);
    CU_ASSERT(took_about(a, 1000, 0.01, 0));
    traffic_renew(&t, 3); /* two QPs of one NIC take turns by packets */
    a = flow_add(t, 0, 1, 0, 10 * MB, 1), b = flow_add(t, 0, 2, 0, 32768, 305);
    traffic_run(t);
    CU_ASSERT(took_about(a, 2000, 1, 0));
    CU_ASSERT(took_about(b, 2000, 1, 0));
}

TEST("incast")
{
    g_autofree struct traffic *t = traffic_new(9);
    for (uint16_t r = 1; r <= 8; r++) flow_add(t, r, 0, 0, MB, 2);
    traffic_run(t);
    for (uint32_t i = 0; i < 8; i++) CU_ASSERT(took_about(&t->flow[i], 1600, 1, 0));
}

/* Four nodes of leaf 0 send to one node of leaf 1.  A fifth node of leaf 0 sends to leaf 2.  The fifth node shares with
 * the others only leaf 0 and its uplink, which could carry all five flows. */
TEST("victim")
{
    double victim_us[3];
    for (int i = 0; i < 3; i++) {
        g_autofree struct traffic *t = traffic_new(15);
        traffic_leaf_spine(t, 5, 1, 1);
        t->cluster.network.buffer_bytes = i ? 100000 : 0;
        t->cluster.network.queues = i == 1 ? CLUSTER_QUEUE_PORT : CLUSTER_QUEUE_FLOW;
        for (uint16_t r = 0; r < 4; r++) flow_add(t, r, 5, 0, MB, 4);
        const struct flow *victim = flow_add(t, 4, 10, 0, MB, 4);
        traffic_run(t);
        victim_us[i] = victim->took_us;
        for (uint32_t f = 0; f < 4; f++) CU_ASSERT(took_about(&t->flow[f], 1600, 2, 2));
    }
    CU_ASSERT(victim_us[0] < 410);  /* with unlimited buffers, 400 us as if alone, and latencies of 6 us */
    CU_ASSERT(victim_us[1] > 1200); /* the uplink of its leaf is blocked for most of the 1600 us */
    CU_ASSERT(victim_us[2] < 410);  /* only the flows that exceed the port wait */
}

/* Two flows go from leaf to leaf over two spines.  Uplinks are as fast as a NIC. */
TEST("ECMP")
{
    bool apart = false, together = false;
    for (uint16_t queue = 0; queue < QUEUES; queue++) {
        g_autofree struct traffic *t = traffic_new(4);
        traffic_leaf_spine(t, 2, 2, 1);
        struct flow *a = flow_add(t, 0, 2, 0, MB, 4), *b = flow_add(t, 1, 3, queue, MB, 4);
        traffic_run(t);
        const bool collide = a->took_us > 600;
        (collide ? (void)(together = true) : (void)(apart = true));
        CU_ASSERT(took_about(a, collide ? 800 : 400, 2, 2) && took_about(b, collide ? 800 : 400, 2, 2));
        t->cluster.network.routing = CLUSTER_ADAPTIVE;
        traffic_run(t);
        CU_ASSERT(took_about(a, 400, 2, 2) && took_about(b, 400, 2, 2));
        t->cluster.network.routing = CLUSTER_STATIC; /* both flows take the first path */
        traffic_run(t);
        CU_ASSERT(took_about(a, 800, 2, 2) && took_about(b, 800, 2, 2));
        t->cluster.network.routing = CLUSTER_ECMP; /* with a hash of addresses alone, the QP makes no difference */
        t->cluster.network.flow_key = CLUSTER_KEY_ADDRESS;
        traffic_run(t);
        const double first_us = a->took_us;
        t->flow[1].queue = 0;
        traffic_run(t);
        CU_ASSERT_EQUAL(a->took_us, first_us);
    }
    CU_ASSERT(apart && together);
}

static double traffic_last_us(const struct traffic *t)
{
    double last_us = 0;
    for (uint32_t i = 0; i < t->count; i++) last_us = fmax(last_us, t->flow[i].took_us);
    return last_us;
}

/* All nodes of leaf 0 send to all nodes of leaf 1, and back.  Adaptive routing spreads the flows evenly over the
 * uplinks. */
TEST("oversubscription")
{
    for (int over = 1; over <= 2; over++) {
        g_autofree struct traffic *t = traffic_new(8);
        traffic_leaf_spine(t, 4, 4, over);
        t->cluster.network.routing = CLUSTER_ADAPTIVE;
        for (uint16_t from = 0; from < 8; from++)
            for (uint16_t to = 0; to < 4; to++) flow_add(t, from, (uint16_t)(from < 4 ? 4 + to : to), 0, 100000, 10);
        traffic_run(t);
        const double last_us = traffic_last_us(t);
        CU_ASSERT(last_us > 400 * over && last_us < 400 * over * 1.05 + 6);
    }
}

/* A bond has two ports.  One QP uses one port, and many QPs use both. */
TEST("ports")
{
    static const enum cluster_port_map map[] = { CLUSTER_PORT_HASH, CLUSTER_PORT_ROUND_ROBIN, CLUSTER_PORT_QUEUE };
    for (int m = 0; m < 3; m++) {
        g_autofree struct traffic *t = traffic_new(2);
        t->cluster.nic.ports = 2;
        t->cluster.nic.port_map = map[m];
        struct flow *only = flow_add(t, 0, 1, 3, 2 * MB, 2);
        traffic_run(t);
        CU_ASSERT(took_about(only, 400, 0.1, 0));
        t->count = 0;
        for (uint16_t queue = 0; queue < QUEUES; queue++) flow_add(t, 0, 1, queue, MB / 4, 1);
        traffic_run(t);
        const double last_us = traffic_last_us(t);
        if (map[m] == CLUSTER_PORT_HASH) CU_ASSERT(last_us < 350); /* 4 MB; the hash is not quite even */
        if (map[m] != CLUSTER_PORT_HASH) CU_ASSERT(last_us < 206);
    }
}

/* Two GPUs share one NIC.  Two NICs of one GPU are no faster than the GPU's own PCIe link. */
TEST("node")
{
    g_autofree struct traffic *t = traffic_new(4);
    t->cluster.node = (struct cluster_node){ .gpus = 2, .nics = 1 };
    struct flow *a = flow_add(t, 0, 2, 0, MB, 4), *b = flow_add(t, 1, 3, 0, MB, 4);
    traffic_run(t);
    CU_ASSERT(took_about(a, 800, 1, 0) && took_about(b, 800, 1, 0));
    traffic_renew(&t, 4); /* One GPU sends to the other by PCIe alone.  What leaves the node takes 10 of PCIe's 40 GB/s
                           * and has the NIC to itself. */
    t->cluster.node = (struct cluster_node){ .gpus = 2, .nics = 1, .pcie_rate_bps = 40 * 8000000000ull };
    a = flow_add(t, 0, 1, 0, MB, 4), b = flow_add(t, 1, 2, 0, MB, 4);
    traffic_run(t);
    CU_ASSERT(took_about(a, 400 / 3.0, 3, 0) && took_about(b, 400, 2, 0));
    traffic_renew(&t, 2);
    t->cluster.node = (struct cluster_node){ .gpus = 1, .nics = 2 };
    t->cluster.nic.port_map = CLUSTER_PORT_QUEUE;
    a = flow_add(t, 0, 1, 0, MB, 4), b = flow_add(t, 0, 1, 1, MB, 4);
    traffic_run(t);
    CU_ASSERT(took_about(a, 400, 1, 0) && took_about(b, 400, 1, 0));
    t->cluster.node.pcie_rate_bps = 12 * 8000000000ull; /* 8 MB at 12 GB/s */
    traffic_run(t);
    CU_ASSERT(took_about(a, 8e6 / 12e3, 2, 0) && took_about(b, 8e6 / 12e3, 2, 0));
    traffic_renew(&t, 2); /* a NIC on the other socket: 5 GB/s, and 2 us more in each direction */
    t->cluster.node = (struct cluster_node){ .gpus = 1,
                                             .nics = 1,
                                             .staging = CLUSTER_STAGING_YES,
                                             .staging_rate_bps = 40000000000,
                                             .staging_latency_ps = 2 * PS_PER_US };
    a = flow_add(t, 0, 1, 0, MB, 4);
    traffic_run(t);
    CU_ASSERT(took_about(a, 800 + 4, 1, 0));
    t->cluster.node.staging = CLUSTER_STAGING_IN_TURN; /* bytes are staged first, and then sent by the NIC at 10 GB/s */
    traffic_run(t);
    CU_ASSERT(took_about(a, 800 + 400 + 4, 1, 0));
}

/* With a window of W bytes and a round trip of T, a flow never exceeds W / T, whatever the network does. */
TEST("window")
{
    g_autofree struct traffic *t = traffic_new(9);
    t->cluster.nic.window_bytes = 100000;
    struct flow *a = flow_add(t, 0, 1, 0, 10000, 400);
    traffic_run(t);
    CU_ASSERT(a->took_us > 4e6 / 100000 * 4.0); /* 40 windows, each of which takes the round trip of at least 4 us */
    CU_ASSERT(a->took_us < 4e6 / 100000 * 11);
    for (uint16_t r = 2; r < 9; r++) flow_add(t, r, 1, 0, 10000, 400);
    traffic_run(t);
    for (uint32_t i = 0; i < 8; i++) CU_ASSERT(took_about(&t->flow[i], 3200, 2, 0));
}

/* Messages larger than the window are sent in pieces.  They also get at most W / T, and not much less. */
TEST("messages larger than the window")
{
    enum { BYTES = 4 * MB, ROUND_TRIP_US = 4 };
    static const uint32_t window[] = { 3000, 10000, 20000, 40000 }, size[] = { 1000, 10000, 100000, BYTES };
    for (size_t w = 0; w < sizeof window / sizeof window[0]; w++) {
        for (size_t i = 0; i < sizeof size / sizeof size[0]; i++) {
            g_autofree struct traffic *t = traffic_new(2);
            t->cluster.nic.window_bytes = window[w];
            const struct flow *a = flow_add(t, 0, 1, 0, size[i], BYTES / size[i]);
            traffic_run(t);
            const double least_us = (double)BYTES / window[w] * ROUND_TRIP_US;
            CU_ASSERT(a->took_us >= least_us);
            CU_ASSERT(a->took_us < 1.4 * least_us); /* only whole packets fit, so up to one packet of the window stays
                                                     * unused */
        }
    }
}

TEST("acknowledgements take bandwidth")
{
    g_autofree struct traffic *t = traffic_new(2);
    t->cluster.nic.ack_bytes = 1000;
    struct flow *a = flow_add(t, 0, 1, 0, 10000, 100), *b = flow_add(t, 1, 0, 0, 10000, 100);
    traffic_run(t);
    CU_ASSERT(took_about(a, 110, 2, 0) && took_about(b, 110, 2, 0)); /* 10 % longer because of the acknowledgements */
}

/* Two nodes have two GPUs each, and a NIC and a rail for each GPU.  Spines carry 2 GB/s.  Bytes for the other rail go
 * through a spine, or first by NVLink (100 GB/s, 1 us) to the neighbour GPU.  Then the two GPUs share the neighbour's
 * port. */
static struct traffic *rails_new(enum cluster_cross_rail cross, double spine_gbs)
{
    struct traffic *t = traffic_new(4);
    t->cluster.nvlink.gpus = 2;
    t->options.ranks_per_node = 2;
    t->cluster.network.topology = CLUSTER_RAIL;
    t->cluster.network.nodes_per_leaf = 2;
    t->cluster.network.spines = 1;
    t->cluster.network.cross_rail = cross;
    t->cluster.network.uplink_rate_bps = (uint64_t)(spine_gbs * 8e9);
    return t;
}

TEST("cross-rail")
{
    for (int i = 0; i < 2; i++) {
        g_autofree struct traffic *t = rails_new(i ? CLUSTER_CROSS_BY_NVLINK : CLUSTER_CROSS_BY_SPINE, 2);
        struct flow *a = flow_add(t, 0, 3, 0, MB, 2);
        traffic_run(t);
        /* 2 MB: over the spine at 2 GB/s with two more switches; by NVLink at the NIC's 10 GB/s with 1 us of NVLink. */
        CU_ASSERT(took_about(a, i ? 200 + 1 : 1000, 0.9, i ? 0 : 2));
        CU_ASSERT_EQUAL(t->result[0].use[WORLD_NVLINK_EGRESS].bytes, i ? 2 * MB : 0);
        CU_ASSERT_EQUAL(t->result[1].use[WORLD_NVLINK_INGRESS].bytes, i ? 2 * MB : 0);
        CU_ASSERT_EQUAL(t->result[1].use[WORLD_NIC_TX].bytes, i ? 2 * MB : 0);
        CU_ASSERT_EQUAL(t->result[0].use[WORLD_NIC_TX].bytes, i ? 0 : 2 * MB);
        struct flow *b = flow_add(t, 1, 3, 0, MB, 2); /* a flow within its rail */
        traffic_run(t);
        if (i) CU_ASSERT(took_about(a, 400 + 1, 1, 0) && took_about(b, 400, 1, 0)); /* both flows share one port */
        if (!i) CU_ASSERT(took_about(b, 250, 2, 0)); /* 2 MB, while the other flow comes in at 2 GB/s */
        g_autofree struct traffic *without = rails_new(i ? CLUSTER_CROSS_BY_NVLINK : CLUSTER_CROSS_BY_SPINE, 100);
        a = flow_add(without, 0, 3, 0, MB, 2);
        without->options.nvlink_disabled = true; /* without NVLink, bytes cannot go to the neighbour */
        traffic_run(without);
        CU_ASSERT(took_about(a, 200, 0.9, 2));
    }
}

TEST("routes")
{
    struct cluster c = support_cluster(1);
    struct route way[ROUTES_MAX];
    static const struct {
        enum cluster_topology topology;
        uint32_t far, ways, links;
    } expected[] = {
        { CLUSTER_SINGLE, 15, 1, 2 },  { CLUSTER_LEAF_SPINE, 15, 3, 4 }, { CLUSTER_FAT_TREE, 15, 6, 6 },
        { CLUSTER_FAT_TREE, 3, 3, 4 }, { CLUSTER_DRAGONFLY, 15, 1, 4 },  { CLUSTER_RAIL, 15, 3, 4 },
    };
    c.network.nodes_per_leaf = 2;
    c.network.leaves_per_pod = 4;
    c.network.spines = 3;
    c.network.cores = 6;
    c.network.hop_ps = 500 * PS_PER_NS;
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        c.network.topology = expected[i].topology;
        g_autoptr(graph) g = MADE(graph_new(&c, 16, 1, NULL));
        const uint32_t ways = route_find(g, graph_port(g, 0, 0), graph_port(g, expected[i].far, 0), way, ROUTES_MAX);
        CU_ASSERT_EQUAL(ways, expected[i].ways);
        CU_ASSERT_EQUAL(way[0].count, expected[i].links);
        CU_ASSERT_EQUAL(route_latency_ps(g, &way[0]), PS_PER_US + (way[0].count - 2) * 500 * PS_PER_NS);
    }
}
