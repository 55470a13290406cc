/* test_estimate.c - numbers of events that the table and a pilot estimate for predictions.  The pilot's number must be
 * within a factor of 2 of the events that run.  So must the table's, for cases to which it was fitted; for other cases
 * the factor is 4.  Times are measured by bench_estimates and not here, because the machine may have other work. */
#include "models/predict/estimate.h"

#include "models/predict/simulate.h"
#include "tests/unit.h"

static struct cluster *cluster_of(const char *name)
{
    GError *error = NULL;
    g_autofree char *path = g_strdup_printf("models/clusters/%s.ini", name);
    struct cluster *cluster = MADE(cluster_load(path, &error));
    return cluster;
}

static void options_set(struct case_options *c, const char *const *options)
{
    case_init(c);
    for (; *options; options += 2) CU_ASSERT(case_set(c, options[0], options[1], NULL));
}

static bool within(double estimated, double found, double factor)
{
    return estimated <= factor * found && estimated >= found / factor;
}

static void events_check(const char *cluster_name, const char *const *options, double table_factor)
{
    g_autoptr(cluster) cluster = cluster_of(cluster_name);
    struct case_options c;
    struct case_load load;
    g_autoptr(record) record = record_new();
    options_set(&c, options);
    case_node_settle(&c, cluster->nvlink.gpus);
    CU_ASSERT_FATAL(case_load(&c, &load, NULL));
    const struct estimate table = estimate_case(&c, &load), drawn = estimate_case(&c, NULL);
    struct estimate pilot = table;
    CU_ASSERT(estimate_pilot(&pilot, &c, &load, cluster));
    CU_ASSERT_FATAL(simulate_load(&c, cluster, &load, &(struct simulate_wishes){ 0 }, record, NULL));
    const double events = g_ascii_strtod(record_get(record, "events"), NULL);
    CU_ASSERT(within(table.events, events, table_factor));
    CU_ASSERT(within(pilot.events, events, 2));
    CU_ASSERT(c.trace || within(drawn.events, table.events, 1.01));
    CU_ASSERT(pilot.seconds > 0 && pilot.seconds < 1e-4 * events);
    CU_ASSERT(pilot.bytes > 8e6);
    case_load_free(&load);
}

TEST("events of kernels")
{
    static const char *const cases[][13] = {
        { "num-ranks", "128", "num-tokens", "64" },
        { "num-ranks", "64", "num-experts", "512", "hook", "true" },
        { "kernel", "normal", "num-ranks", "32", "num-tokens", "512" },
        { "kernel", "normal", "num-ranks", "16", "num-tokens", "2048", "routing", "zipf:1.2" },
        { "kernel", "v2", "num-ranks", "32", "num-tokens", "512" },
        { "kernel", "alltoallv", "num-ranks", "256", "matrix", "uniform:65536" },
        { "kernel", "allgather", "num-ranks", "128" },
        { "kernel", "allreduce", "num-ranks", "256" },
        { "kernel", "p2p", "num-ranks", "64" },
        { "trace", "traces/samples/decode_ep64.ept", "layer", "1" },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) events_check("h100-cx7", cases[i], 2);
}

/* The table was not fitted to these cases, so a pilot corrects the estimates. */
TEST("events elsewhere")
{
    static const char *const cases[][13] = {
        { "kernel", "normal", "num-ranks", "8", "num-tokens", "16384" },
        { "kernel", "normal", "num-ranks", "32", "num-tokens", "512", "backend", "ibrc", "launch", "loop" },
        { "num-ranks", "64", "fault", "nic:n7.g7 rate=0.5" },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) events_check("h800-cx7", cases[i], 4);
}

/* If a case lists the tokens of each rank, a pilot cannot run with fewer ranks. */
TEST("without a pilot")
{
    g_autoptr(cluster) cluster = cluster_of("h100-cx7");
    struct case_options c;
    options_set(&c, (const char *const[]){ "tokens-per-rank", "8|16", "num-experts", "16", NULL });
    case_node_settle(&c, cluster->nvlink.gpus);
    struct estimate work = estimate_case(&c, NULL);
    const double events = work.events;
    CU_ASSERT(!estimate_pilot(&work, &c, NULL, cluster));
    CU_ASSERT(work.events == events && !estimate_long(&work));
}

TEST("many")
{
    g_autoptr(cluster) cluster = cluster_of("h100-cx7");
    struct case_options c;
    struct estimate_many m = { 0 };
    options_set(&c, (const char *const[]){ "trace", "traces/samples/decode_ep64.ept", NULL });
    case_node_settle(&c, cluster->nvlink.gpus);
    estimate_many_add(&m, &c, cluster, 3);
    const double events = m.sum.events, bytes = m.sum.bytes;
    c.layer = 1; /* the trace is the same, so its case is not read again */
    estimate_many_add(&m, &c, cluster, 1);
    CU_ASSERT(events > 0 && m.sum.events == events / 3 * 4 && m.sum.bytes == bytes && m.sum.predictions == 4);
    estimate_many_print(&m, "test", 2); /* too small to be printed */
    CU_ASSERT(m.sum.events == 0 && !m.largest.trace && !m.last.trace);
}
