/* support_traffic.h - flows of puts over a simulated network, timed: for hand-computed tests of networks. */
#ifndef TESTS_SUPPORT_TRAFFIC_H
#define TESTS_SUPPORT_TRAFFIC_H

#include <stdbool.h>
#include <stdint.h>
#include "models/hardware/world/world.h"

enum { FLOWS_MAX = 80, RANKS_MAX = 64, QUEUES = 16, MB = 1000000 };

/* A worker that puts its messages on one QP and flushes, or one that waits for another's signal. */
struct flow {
    struct fabric_worker worker;
    uint16_t from, to, queue;
    uint32_t message_bytes, messages, posted;
    bool signals, waits;    /* set by the test: it signals after its messages; it waits for a signal to its rank */
    uint64_t start_ps;      /* after the launch; set by the test */
    double from_us, to_us;  /* an interval, set by the test */
    uint32_t posted_within; /* messages in it */
    double took_us;         /* since the launch; without the launch's own time */
};

struct traffic {
    struct cluster cluster;
    struct world_options options;
    uint32_t count;
    struct flow flow[FLOWS_MAX];
    struct world_result result[RANKS_MAX];
};

/* Nodes of one GPU and one NIC each, below one switch: the cluster of support_sim.h, in quanta of 16 KiB.  Posting
 * costs nothing, so that flows begin together. */
struct traffic *traffic_new(uint32_t ranks);
void traffic_leaf_spine(struct traffic *t, uint32_t nodes_per_leaf, uint32_t spines, double oversubscription);
struct flow *flow_add(struct traffic *t, uint16_t from, uint16_t to, uint16_t queue, uint32_t message_bytes,
                      uint32_t messages);
/* A worker of rank `at` that ends when a flow's signal has come. */
struct flow *flow_wait(struct traffic *t, uint16_t at);
/* Runs all flows until they end.  May be called again. */
void traffic_run(struct traffic *t);

/* Whether a flow took, within `percent`, the sum of bytes_us and the time of everything else: fetch 1 us, network 1
 * there and 1 back, delivery 1, a step 0.01, hops. */
bool took_about(const struct flow *f, double bytes_us, double percent, uint32_t hops);

#endif
