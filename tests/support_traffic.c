/* support_traffic.c - see support_traffic.h. */
#include "tests/support_traffic.h"

#include <CUnit/CUnit.h>
#include <stdio.h>
#include "sim/units.h"
#include "tests/support_sim.h"
#include "tests/unit.h"

static enum worker_step flow_step(struct fabric_worker *w)
{
    struct flow *f = fabric_container_of(w, struct flow, worker);
    if (fabric_now_ps(w->fabric) < f->start_ps) {
        fabric_wake_at(w, f->start_ps);
        return WORKER_WAIT;
    }
    for (; f->posted < f->messages; f->posted++) {
        const struct fabric_write write = { .charge_bytes = f->message_bytes, .peer = f->to, .queue = f->queue };
        if (fabric_put(w, &write, NULL)) return WORKER_WAIT;
        const double now_us = units_us(fabric_now_ps(w->fabric));
        f->posted_within += now_us >= f->from_us && now_us < f->to_us;
    }
    if (f->waits && fabric_load(w->fabric, 0) < 1) return WORKER_WAIT;
    const struct fabric_signal signal = { .value = 1, .word = 0, .peer = f->to, .queue = f->queue };
    if (f->signals && f->posted == f->messages) {
        if (fabric_signal(w, &signal)) return WORKER_WAIT;
        f->posted++;
    }
    if (!f->waits && fabric_flush(w, f->to, f->queue)) return WORKER_WAIT;
    f->took_us = units_us(fabric_now_ps(w->fabric));
    return WORKER_DONE;
}

static void flow_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    snprintf(text, text_size, "flow %u", w->index);
}

static const struct worker_role flow_role = { .step = flow_step, .describe = flow_describe };

struct traffic *traffic_new(uint32_t ranks)
{
    struct traffic *t = g_new0(struct traffic, 1);
    t->cluster = support_cluster(1);
    t->cluster.nic.post_ps = t->cluster.nic.doorbell_ps = 0;
    t->cluster.network.quantum_bytes = 16384;
    t->cluster.network.hop_ps = 500 * PS_PER_NS;
    t->options = (struct world_options){ .ranks = ranks,
                                         .ranks_per_node = 1,
                                         .needs = { .word_count = 1, .queue_count = QUEUES } };
    return t;
}

void traffic_leaf_spine(struct traffic *t, uint32_t nodes_per_leaf, uint32_t spines, double oversubscription)
{
    t->cluster.network.topology = CLUSTER_LEAF_SPINE;
    t->cluster.network.nodes_per_leaf = nodes_per_leaf;
    t->cluster.network.spines = spines;
    t->cluster.network.oversubscription = oversubscription;
}

struct flow *flow_add(struct traffic *t, uint16_t from, uint16_t to, uint16_t queue, uint32_t message_bytes,
                      uint32_t messages)
{
    CU_ASSERT_FATAL(t->count < FLOWS_MAX);
    struct flow *f = &t->flow[t->count++];
    *f = (struct flow){ .from = from, .to = to, .queue = queue, .message_bytes = message_bytes, .messages = messages };
    return f;
}

struct flow *flow_wait(struct traffic *t, uint16_t at)
{
    struct flow *f = flow_add(t, at, at, 0, 0, 0);
    f->waits = true;
    return f;
}

void traffic_run(struct traffic *t)
{
    struct fabric_worker *worker[RANKS_MAX][FLOWS_MAX], **by_rank[RANKS_MAX];
    uint32_t count[RANKS_MAX] = { 0 };
    char text[200];
    g_autoptr(world) w = MADE(world_new(&t->cluster, &t->options));
    for (uint32_t r = 0; r < t->options.ranks; r++) by_rank[r] = worker[r];
    for (uint32_t i = 0; i < t->count; i++) {
        struct flow *f = &t->flow[i];
        f->posted = f->posted_within = 0;
        f->worker = fabric_worker_of(world_fabric(w, f->from), &flow_role);
        f->worker.index = count[f->from];
        worker[f->from][count[f->from]++] = &f->worker;
        if (f->waits) fabric_watch(&f->worker, 0, 1, 0);
    }
    CU_ASSERT_TRUE_FATAL(world_run(w, by_rank, count, t->result, text, sizeof text));
}

bool took_about(const struct flow *f, double bytes_us, double percent, uint32_t hops)
{
    const double expected_us = bytes_us + 4.01 + hops;
    const bool good = f->took_us > expected_us * (1 - percent / 100) && f->took_us < expected_us * (1 + percent / 100);
    if (!good) printf("\n      flow %u to %u took %.3f us, expected %.3f\n", f->from, f->to, f->took_us, expected_us);
    return good;
}
