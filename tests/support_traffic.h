/* support_traffic.h - flows of puts over a simulated network, timed.  Tests compare the times with hand-computed
 * ones. */
#ifndef TESTS_SUPPORT_TRAFFIC_H
#define TESTS_SUPPORT_TRAFFIC_H

#include <stdbool.h>
#include <stdint.h>
#include "models/hardware/world/world.h"

enum { FLOWS_MAX = 80, RANKS_MAX = 64, QUEUES = 16, MB = 1000000 };

/* A worker that puts its messages on one QP and flushes, or a worker that waits for the signal of another flow. */
struct flow {
    struct fabric_worker worker;
    uint16_t from, to, queue;
    uint32_t message_bytes, messages, posted;
    bool signals, waits;    /* set by the test; signals: a signal follows the flow's messages; waits: the flow waits for
                             * a signal to its rank */
    uint64_t start_ps;      /* set by the test: when the flow begins, after the launch */
    double from_us, to_us;  /* set by the test: an interval of time */
    uint32_t posted_within; /* messages posted in that interval */
    double took_us;         /* time from the end of the launch to the end of the flow */
};

struct traffic {
    struct cluster cluster;
    struct world_options options;
    uint32_t count;
    struct flow flow[FLOWS_MAX];
    struct world_result result[RANKS_MAX];
};

/* Makes nodes of one GPU and one NIC each, below one switch.  The cluster is that of support_sim.h, with quanta of 16
 * KiB.  Posting costs nothing, so that flows begin together. */
struct traffic *traffic_new(uint32_t ranks);
void traffic_leaf_spine(struct traffic *t, uint32_t nodes_per_leaf, uint32_t spines, double oversubscription);
struct flow *flow_add(struct traffic *t, uint16_t from, uint16_t to, uint16_t queue, uint32_t message_bytes,
                      uint32_t messages);
/* Adds a worker of rank `at`, which ends when a flow's signal has come. */
struct flow *flow_wait(struct traffic *t, uint16_t at);
/* Runs all flows until they end.  May be called again. */
void traffic_run(struct traffic *t);

/* Whether a flow took the expected time, within `percent`.  The expected time is bytes_us and 4.01 us and 1 us for each
 * of `hops`.  The 4.01 us are the fetch (1 us), the network there (1 us) and back (1 us), delivery (1 us) and a step
 * (0.01 us). */
bool took_about(const struct flow *f, double bytes_us, double percent, uint32_t hops);

#endif
