/* test_congestion.c - flows that meet must behave as with DCQCN, Slingshot and SRD: they share, spare other flows, and
 * keep their order.
 *
 * Aim: [dcqcn], `queues = flow`, `routing = spray`, unordered transports.  Method: flows of puts (support_traffic.h)
 * through NIC ports of 10 GB/s are compared with shares and times computed by hand.  DCQCN's arithmetic is also tested
 * by itself. */
#include <math.h>
#include <stdio.h>
#include "models/backends.h"
#include "models/hardware/nic/dcqcn.h"
#include "models/hardware/machine/graph.h"
#include "sim/units.h"
#include "tests/support_traffic.h"
#include "tests/support_trace.h"
#include "tests/unit.h"

/* DCQCN's parameters in the parts that ship: those of its authors' paper, and NVIDIA's defaults. */
static struct cluster_dcqcn paper, nvidia;

static void part_load(const char *name, struct cluster_dcqcn *parameters)
{
    GError *error = NULL;
    g_autofree char *text = g_strdup_printf("[cluster]\ninclude = h100-cx7|parts/%s\n", name);
    g_autoptr(cluster) c = cluster_load(temporary_text("c.ini", text), &error);
    if (error) puts(error->message);
    CU_ASSERT_PTR_NOT_NULL_FATAL(c);
    *parameters = c->dcqcn;
}

TEST("parts that ship")
{
    part_load("dcqcn-sigcomm15.ini", &paper);
    part_load("dcqcn-nvidia.ini", &nvidia);
    CU_ASSERT_EQUAL(paper.cnp_ps, 50 * PS_PER_US);
    CU_ASSERT_EQUAL(paper.gain, 1.0 / 256);
    CU_ASSERT_EQUAL(paper.additive_bps, 40000000);
    CU_ASSERT(paper.clamp_target && !nvidia.clamp_target);
    CU_ASSERT_EQUAL(nvidia.alpha_ps, PS_PER_US);
    CU_ASSERT_EQUAL(nvidia.recovery, 1);
}

/* ---- the arithmetic ---- */

#define NEAR(a, b) CU_ASSERT(fabs((a) - (b)) < 1e-9 * fabs((double)(b)))

TEST("which packets are marked")
{
    struct dcqcn d;
    dcqcn_init(&d, &paper, 80000000000, 1);
    uint32_t marked = 0;
    for (int i = 0; i < 20000; i++) {
        CU_ASSERT_FALSE(dcqcn_marks(&d, 5000, 4));
        CU_ASSERT_TRUE(dcqcn_marks(&d, 200001, 1));
        marked += dcqcn_marks(&d, 102500, 4); /* half-way between the thresholds: marks 0.005 of the packets, so 1 -
                                               * 0.995^4 of the quanta of 4 packets */
    }
    CU_ASSERT(fabs(marked / 20000.0 - (1 - pow(0.995, 4))) < 0.004);
}

/* One notification comes to one flow.  It halves the rate at once.  Every 55 us the timer restores half of the
 * difference. */
TEST("a cut and the way back")
{
    struct dcqcn d;
    struct dcqcn_flow f;
    dcqcn_init(&d, &paper, 80000000000, 1);
    dcqcn_flow_init(&f, &d);
    CU_ASSERT_EQUAL(dcqcn_allows_ps(&d, &f, 0), 0);
    dcqcn_sent(&d, &f, 0, 10000); /* 1 us at 10 GB/s; the port itself limits the flow to that */
    CU_ASSERT_EQUAL(dcqcn_allows_ps(&d, &f, 10), 10);
    dcqcn_marked(&d, &f, 5 * PS_PER_US, PS_PER_US);
    dcqcn_marked(&d, &f, 54 * PS_PER_US, PS_PER_US); /* within the receiver's interval, so no second notification is
                                                      * sent */
    CU_ASSERT_EQUAL(dcqcn_allows_ps(&d, &f, 5 * PS_PER_US), 5 * PS_PER_US);
    CU_ASSERT_FALSE(f.slowed);
    (void)dcqcn_allows_ps(&d, &f, 6 * PS_PER_US); /* the notification has arrived */
    CU_ASSERT_TRUE(f.slowed);
    NEAR(f.rate, 0.005);
    NEAR(f.target, 0.01);
    dcqcn_sent(&d, &f, 6 * PS_PER_US, 10000);
    CU_ASSERT_EQUAL(dcqcn_allows_ps(&d, &f, 6 * PS_PER_US), 8 * PS_PER_US);
    (void)dcqcn_allows_ps(&d, &f, 60 * PS_PER_US);
    NEAR(f.rate, 0.005); /* the rate rises only at 61 us */
    (void)dcqcn_allows_ps(&d, &f, 61 * PS_PER_US);
    NEAR(f.rate, 0.0075);
    NEAR(f.alpha, 1); /* updated at 61 us; a notification came since the last update */
    (void)dcqcn_allows_ps(&d, &f, 116 * PS_PER_US);
    NEAR(f.rate, 0.00875);
    NEAR(f.alpha, 255.0 / 256);
    dcqcn_marked(&d, &f, 120 * PS_PER_US, 0);
    (void)dcqcn_allows_ps(&d, &f, 120 * PS_PER_US);
    NEAR(f.target, 0.00875);
    NEAR(f.rate, 0.00875 * (1 - 255.0 / 512));
    (void)dcqcn_allows_ps(&d, &f, 200000 * PS_PER_US); /* without notifications the flow returns to the port's rate, and
                                                        * is then not limited */
    CU_ASSERT_FALSE(f.slowed);
    dcqcn_flow_clear(&f);
}

/* Notifications without end cut the rate as often as allowed, down to the least rate. */
TEST("cuts down to the least rate")
{
    struct cluster_dcqcn p = paper;
    struct dcqcn d;
    struct dcqcn_flow f;
    p.raise_ps = 10 * PS_PER_S;
    p.least_bps = 8000000000; /* 1 GB/s */
    dcqcn_init(&d, &p, 80000000000, 1);
    dcqcn_flow_init(&f, &d);
    for (uint64_t us = 10; us < 1000; us++) {
        dcqcn_marked(&d, &f, us * PS_PER_US, 0);
        (void)dcqcn_allows_ps(&d, &f, us * PS_PER_US);
        CU_ASSERT(f.rate >= 0.001);
    }
    NEAR(f.rate, 0.001);
    dcqcn_flow_clear(&f);
    p.cut_ps = 100 * PS_PER_US; /* cuts must be at least cut_ps apart, however many notifications come */
    p.cnp_ps = PS_PER_US;
    p.least_bps = 8000000;
    dcqcn_flow_init(&f, &d);
    for (uint64_t us = 10; us < 110; us++) {
        dcqcn_marked(&d, &f, us * PS_PER_US, 0);
        (void)dcqcn_allows_ps(&d, &f, us * PS_PER_US);
        NEAR(f.rate, 0.005);
    }
    dcqcn_marked(&d, &f, 111 * PS_PER_US, 0);
    (void)dcqcn_allows_ps(&d, &f, 111 * PS_PER_US);
    CU_ASSERT(f.rate < 0.003);
    dcqcn_flow_clear(&f);
}

/* Tests raises by bytes, and the two later stages.  Raises by time and raises by bytes are counted apart.  Raises are
 * additive once one of the two counts exceeds `recovery`, and hyper once both do. */
TEST("stages")
{
    struct cluster_dcqcn p = paper;
    struct dcqcn d;
    struct dcqcn_flow f;
    p.raise_ps = 10 * PS_PER_S;
    p.recovery = 1;
    p.clamp_target = false;
    dcqcn_init(&d, &p, 80000000000, 1);
    dcqcn_flow_init(&f, &d);
    for (uint64_t cnp = 1; cnp <= 2; cnp++) { /* the second cut comes before any raise, so the target stays */
        dcqcn_marked(&d, &f, cnp * 60 * PS_PER_US, 0);
        (void)dcqcn_allows_ps(&d, &f, cnp * 60 * PS_PER_US);
    }
    NEAR(f.target, 0.01);
    NEAR(f.rate, 0.0025);
    f.target = 0.005;
    dcqcn_sent(&d, &f, 130 * PS_PER_US, 10 * MB);
    NEAR(f.rate, 0.00375); /* recovery: half-way from 0.0025 to the target, 0.005 */
    dcqcn_sent(&d, &f, 130 * PS_PER_US, 10 * MB);
    NEAR(f.target, 0.005005); /* 40 Mbit/s more */
    NEAR(f.rate, (0.00375 + 0.005005) / 2);
    f.raises_time = 2;
    const double before = f.rate;
    dcqcn_sent(&d, &f, 130 * PS_PER_US, 10 * MB);
    NEAR(f.target, 0.005055); /* 400 Mbit/s more */
    NEAR(f.rate, (before + 0.005055) / 2);
    dcqcn_flow_clear(&f);
}

/* ---- flows ---- */

static double gbs(const struct flow *f)
{
    return f->posted_within * (double)f->message_bytes / (f->to_us - f->from_us) / 1e3;
}

static struct flow *flow_timed(struct traffic *t, uint16_t from, uint16_t to, uint32_t messages, double from_us,
                               double to_us)
{
    struct flow *f = flow_add(t, from, to, 0, 50000, messages);
    f->from_us = from_us;
    f->to_us = to_us;
    return f;
}

/* All flows go into one port.  They begin at the port's rate, 2 ms apart. */
static struct traffic *shared_port(const struct cluster_dcqcn *parameters, uint32_t flows)
{
    struct traffic *t = traffic_new(9);
    t->cluster.dcqcn = *parameters;
    t->options.needs.queue_depth = 32; /* a flow can post 1.6 MB at once, so that queues can reach NVIDIA's
                                        * thresholds */
    for (uint16_t i = 0; i < flows; i++) {
        struct flow *f = flow_timed(t, (uint16_t)(i + 1), 0, 20000, 60000, 100000);
        f->start_ps = i * 2000 * PS_PER_US;
    }
    traffic_run(t);
    return t;
}

/* With the authors' parameters, each flow gets its share within 15 %, as a mean over 40 ms after all flows have begun.
 * NVIDIA's parameters raise a rate by 5 Mbit/s in 300 us, so shares become equal only after seconds.  For them, the
 * test asks only that no flow starves and that the port is used. */
TEST("DCQCN shares")
{
    struct cluster_dcqcn scaled = nvidia; /* thresholds scaled from ports of 400 Gb/s to ports of 80 Gb/s */
    scaled.mark_from_bytes /= 5;
    scaled.mark_all_bytes /= 5;
    for (int i = 0; i < 2; i++) {
        for (uint32_t flows = 2; flows <= 8; flows *= 2) {
            g_autofree struct traffic *t = shared_port(i ? &scaled : &paper, flows);
            const double share = 10.0 / flows, least = i ? 0.35 : 0.85, most = i ? 2.5 : 1.15;
            double sum = 0;
            for (uint32_t k = 0; k < flows; k++) {
                sum += gbs(&t->flow[k]);
                CU_ASSERT(gbs(&t->flow[k]) > least * share && gbs(&t->flow[k]) < most * share);
            }
            CU_ASSERT(sum > (i ? 9.0 : 9.8) && sum < 10.05);
        }
    }
}

/* Two runs are equal bit for bit, although marks are drawn at random. */
TEST("DCQCN repeats")
{
    g_autofree struct traffic *a = shared_port(&paper, 4), *b = shared_port(&paper, 4);
    for (int i = 0; i < 4; i++) CU_ASSERT_EQUAL(a->flow[i].took_us, b->flow[i].took_us);
}

/* Four nodes of a leaf send into one port of another leaf.  A fifth node of the first leaf, the victim, sends to `to`.
 * The victim shares with the others only a link between switches, which could carry all five flows (as in
 * test_network.c).  Returns the victim's rate in GB/s.  *sum gets the sum of the other four rates. */
static double victim_gbs(struct traffic *t, uint16_t to, double *sum)
{
    t->options.needs.queue_depth = 32;
    for (uint16_t r = 0; r < 4; r++) flow_timed(t, r, 5, 4000, 20000, 60000);
    flow_timed(t, 4, to, 14000, 20000, 60000);
    traffic_run(t);
    *sum = 0;
    for (int f = 0; f < 4; f++) *sum += gbs(&t->flow[f]);
    return gbs(&t->flow[4]);
}

/* A full buffer holds back everything that comes over its link, so the victim gets only as much as each of the four
 * flows.  With DCQCN the buffers do not fill. */
TEST("DCQCN spares victims")
{
    for (int i = 0; i < 2; i++) {
        g_autofree struct traffic *t = traffic_new(15);
        traffic_leaf_spine(t, 5, 1, 1);
        t->cluster.network.buffer_bytes = 500000;
        t->cluster.network.queues = CLUSTER_QUEUE_PORT;
        if (i) t->cluster.dcqcn = paper;
        double sum;
        const double victim = victim_gbs(t, 10, &sum);
        CU_ASSERT(sum > 9.8 && sum < 10.05);
        if (i) CU_ASSERT(victim > 9);
        if (!i) CU_ASSERT(victim > 2.4 && victim < 2.6);
    }
}

/* Slingshot is a dragonfly with adaptive routing.  Its switches hold back only the flows that fill a port. */
TEST("Slingshot spares victims")
{
    static const enum cluster_queues queues[] = { CLUSTER_QUEUE_PORT, CLUSTER_QUEUE_FLOW };
    for (int i = 0; i < 2; i++) {
        g_autofree struct traffic *t = traffic_new(15);
        t->cluster.network.topology = CLUSTER_DRAGONFLY;
        t->cluster.network.routing = CLUSTER_ADAPTIVE;
        t->cluster.network.nodes_per_leaf = 5;
        t->cluster.network.leaves_per_pod = 3;
        t->cluster.network.uplink_rate_bps = 400000000000; /* 50 GB/s, which could carry all flows */
        t->cluster.network.buffer_bytes = 500000;
        t->cluster.network.queues = queues[i];
        double sum;
        const double victim = victim_gbs(t, 6, &sum);
        CU_ASSERT(sum > 9.8 && sum < 10.05);
        if (queues[i] == CLUSTER_QUEUE_FLOW) CU_ASSERT(victim > 9.9);
        if (queues[i] == CLUSTER_QUEUE_PORT) CU_ASSERT(victim < 3);
    }
}

/* ---- SRD ---- */

/* Two flows go from leaf to leaf over two spines, with uplinks as fast as a NIC.  Sprayed flows never collide for long,
 * whatever their QPs are.  With ECMP some flows do (test_network.c). */
TEST("spraying")
{
    for (uint16_t queue = 0; queue < QUEUES; queue++) {
        g_autofree struct traffic *t = traffic_new(4);
        traffic_leaf_spine(t, 2, 2, 1);
        t->cluster.network.routing = CLUSTER_SPRAY;
        const struct flow *a = flow_add(t, 0, 2, 0, MB, 4), *b = flow_add(t, 1, 3, queue, MB, 4);
        traffic_run(t);
        CU_ASSERT(took_about(a, 400, 2, 2) && took_about(b, 400, 2, 2));
    }
}

/* Makes two spines, of which one carries 0.1 GB/s.  There a quantum of 16 KiB takes 164 us. */
static struct traffic *uneven_ways(const struct transport *transport, struct graph **graph)
{
    struct traffic *t = traffic_new(4);
    traffic_leaf_spine(t, 2, 2, 1);
    t->cluster.network.routing = CLUSTER_SPRAY;
    *graph = graph_new(&t->cluster, 4, 1, NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(*graph);
    graph_scale(*graph, graph_find(*graph, "leaf0"), graph_find(*graph, "spine0"), 0.01);
    t->options.graph = *graph;
    t->options.transport = transport;
    return t;
}

/* A QP has two requests in flight, and the first may go over the slow spine.  If the transport keeps no order, the
 * second completes at once, and a third can be posted.  Otherwise both complete after 164 us. */
TEST("out of order")
{
    uint32_t posted[2][2] = { { 0 } }; /* for each transport: in how many runs two requests, and three, were posted
                                        * within 100 us */
    for (int i = 0; i < 2; i++) {
        for (uint16_t queue = 0; queue < QUEUES; queue++) {
            g_autoptr(graph) g = NULL;
            struct transport transport = *backends_find("verbs");
            transport.post_ps = transport.doorbell_ps = 0;
            transport.queue_depth = 2;
            transport.order = i ? TRANSPORT_RECEIVER : TRANSPORT_WIRE;
            g_autofree struct traffic *t = uneven_ways(&transport, &g);
            struct flow *f = flow_add(t, 0, 2, queue, 16384, 3);
            f->to_us = 100;
            traffic_run(t);
            CU_ASSERT(f->took_us > 164);
            posted[i][f->posted_within - 2]++;
        }
    }
    CU_ASSERT(posted[0][0] > 0 && posted[0][1] > 0); /* the first request goes over either spine by chance */
    CU_ASSERT_EQUAL(posted[1][0], 0);
}

/* A signal must be seen only after the data before it have arrived, whatever paths they took.  This must hold whether
 * the NIC, a fence or the receiver's software ensures it. */
TEST("a signal waits")
{
    static const enum transport_order order[] = { TRANSPORT_WIRE, TRANSPORT_FENCE, TRANSPORT_RECEIVER };
    for (size_t i = 0; i < G_N_ELEMENTS(order); i++) {
        for (uint16_t queue = 0; queue < QUEUES; queue++) {
            g_autoptr(graph) g = NULL;
            struct transport transport = *backends_find("verbs");
            transport.post_ps = transport.doorbell_ps = 0;
            transport.order = order[i];
            g_autofree struct traffic *t = uneven_ways(&transport, &g);
            struct flow *f = flow_add(t, 0, 2, queue, 32768, 1); /* two quanta, one over each spine */
            f->signals = true;
            const struct flow *seen = flow_wait(t, 2);
            traffic_run(t);
            CU_ASSERT(seen->took_us > 164 + 4 && seen->took_us < 164 + 4 + (order[i] == TRANSPORT_FENCE ? 10 : 4));
        }
    }
}
