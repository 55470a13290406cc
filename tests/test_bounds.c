/* test_bounds.c - are the limits that a prediction names real (models/predict/simulate.h, simulate_text.c)?
 *
 * Method: seeded random cases, with drawn kernels, machines, networks, backends, faults, and ranks that come late or
 * are slow.  The tests assert for every phase that no bound exceeds the time, and no busy share 100 %.  The part that
 * is named must be busy for three quarters of the time, and its busy share may be at most 5 points below the phase's
 * efficiency.  The part must not move more bytes than its rate allows while it is busy.  The lines of --explain must
 * add up to the time.  If a slowed part makes the time more than one and a half times as long, the prediction must name
 * that part and its rate. */
#include <glib.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "models/predict/simulate.h"
#include "models/predict/simulate_command.h"
#include "reports/compare.h"
#include "sim/rng.h"
#include "tests/unit.h"

enum { CASES = 320, PLANTED = 90 };

static const char *pick(struct rng *rng, const char *const *from, size_t count) { return from[rng_below(rng, count)]; }
#define PICK(rng, ...) \
    pick(rng, (const char *const[]){ __VA_ARGS__ }, sizeof(const char *const[]){ __VA_ARGS__ } / sizeof(const char *))

static struct record *predicted(const char *text)
{
    g_auto(GStrv) word = g_strsplit(text, " ", -1);
    g_autoptr(GPtrArray) settings = g_ptr_array_new();
    struct case_options c;
    g_autoptr(GError) error = NULL;
    bool good = true;
    case_init(&c);
    for (char **w = word; good && *w; w++) {
        g_auto(GStrv) half = g_strsplit(*w, "=", 2);
        g_strdelimit(half[1] ? half[1] : half[0], "_", ' '); /* the words of a fault are separated by '_' in these
                                                              * texts, by ' ' in the option */
        if (g_str_has_prefix(*w, "set:")) g_ptr_array_add(settings, *w + strlen("set:"));
        else if (**w) good = case_set(&c, half[0], half[1], &error);
    }
    g_ptr_array_add(settings, NULL);
    g_autoptr(cluster) cluster =
        good ? cluster_load_set(c.cluster, (const char *const *)settings->pdata, &error) : NULL;
    struct record *record = record_new();
    struct case_load load = { 0 };
    if (cluster) case_node_settle(&c, cluster->nvlink.gpus);
    good = cluster && case_load(&c, &load, &error) &&
           simulate_load(&c, cluster, &load, &(struct simulate_wishes){ .per_rank = true }, record, &error);
    if (!good && error->code == ERROR_RUN) fprintf(stderr, "%s: %s\n", text, error->message);
    CU_ASSERT_TRUE(good || error->code != ERROR_RUN);
    if (!good) g_clear_pointer(&record, record_free);
    case_load_free(&load);
    return record;
}

static double number(const struct record *record, const char *phase, const char *metric)
{
    return record_value(record, phase, RECORD_ALL, metric);
}

static const char *word(const struct record *record, const char *phase, const char *metric)
{
    const struct record_row *row = record_find(record, phase, RECORD_ALL, metric);
    return row ? record_row_text(row) : "";
}

static void held(bool holds, const char *text, const char *phase, const char *what)
{
    if (!holds) fprintf(stderr, "%s: %s: %s\n", text, phase, what);
    CU_ASSERT_TRUE(holds);
}

static void rows_hold(const struct record *record, const char *text)
{
    for (uint32_t i = 0; i < record_row_count(record); i++) {
        const struct record_row *row = record_row(record, i);
        if (row->rank != RECORD_ALL || isnan(row->value)) continue;
        const double time_us = number(record, row->phase, "time_us_max") * (1 + 1e-9);
        const bool us = g_str_has_suffix(row->metric, "_us") && !g_str_has_prefix(row->metric, "wire_");
        if (us) held(row->value <= time_us, text, row->phase, row->metric);
        if (g_str_has_suffix(row->metric, "_pct")) held(row->value <= 100 + 1e-6, text, row->phase, row->metric);
    }
}

static void part_holds(const struct record *record, const char *phase, const char *text)
{
    const double busy_pct = number(record, phase, "bottleneck_busy_pct"), us = number(record, phase, "bottleneck_us");
    const double bytes = number(record, phase, "bottleneck_bytes"), gbs = number(record, phase, "bottleneck_rate_gbs");
    const char *limit = word(record, phase, "bottleneck");
    const bool tightest = strcmp(word(record, phase, "bound_tightest"), "latency") == 0;
    if (!*limit) return; /* no limit is named if the phase is several kernels together */
    if (strcmp(limit, COMPARE_TIMEOUT) == 0) {
        held(busy_pct <= 50, text, phase, "a part is busy for longer than ranks are awaited that do not answer");
    } else if (strcmp(limit, COMPARE_BEFORE) == 0) {
        held(busy_pct <= 50, text, phase, "a part is busy for longer than the kernel before is awaited");
    } else if (strcmp(limit, COMPARE_LATE) == 0) {
        held(!(busy_pct >= 50), text, phase, "a part is busy for longer than the last rank is awaited");
    } else if (strcmp(limit, COMPARE_STEPS) == 0) {
        held(!(busy_pct >= (tightest ? 50 : 25)), text, phase, "a part is busy for long, but steps are named");
    } else if (strcmp(limit, COMPARE_NO_PART) == 0) {
        const double rival_pct = number(record, phase, "bottleneck_rival_busy_pct");
        held(busy_pct >= 25, text, phase, "no part is busy for a quarter of the time, but one is named");
        const bool waited = !(number(record, phase, "bottleneck_held_pct") < 10);
        held(busy_pct < 75 || tightest || !waited || (rival_pct >= 0.74 * busy_pct && rival_pct <= busy_pct), text,
             phase, "a part is busy for three quarters of the time and has no rival, but is not named");
    } else {
        held(!tightest, text, phase, "a part is named, but latency takes longer");
        held(busy_pct >= 75, text, phase, "a part that is busy for less than three quarters is named");
        held(!(number(record, phase, "bottleneck_held_pct") < 10), text, phase, "stores do not wait for what is named");
        held(busy_pct >= number(record, phase, "efficiency_pct") - 5, text, phase, "busy less than the efficiency");
        held(*word(record, phase, "bottleneck_part"), text, phase, "no part is named");
    }
    if (isfinite(bytes) && isfinite(gbs)) held(bytes / gbs / 1e3 <= us * 1.001 + 0.01, text, phase, "too many bytes");
}

/* Returns the number before " us" in a line such as "    NIC of rank 0, sending: ...   12.34 us   5 %". */
static double line_us(const char *line)
{
    const char *end = strstr(line, " us"), *begin = end;
    while (begin && begin > line && strchr("0123456789.", begin[-1])) begin--;
    return begin ? g_ascii_strtod(begin, NULL) : 0;
}

static void explanation_holds(const struct record *record, const char *text)
{
    g_autoptr(GString) words = g_string_new(NULL);
    simulate_explain_append(record, words);
    g_auto(GStrv) line = g_strsplit(words->str, "\n", -1);
    double sum = 0;
    uint32_t sums = 0, lines = 0;
    bool inside = false;
    for (char **l = line; *l; l++) {
        if (g_str_has_prefix(*l, "  breakdown")) {
            inside = true;
            sum = lines = 0;
        } else if (inside && g_str_has_prefix(*l, "    the slowest rank ")) {
            held(fabs(sum - line_us(*l)) < 0.011 * lines + 0.005, text, *l, "the sum is another");
            inside = false;
            sums++;
        } else if (inside) {
            held(line_us(*l) > 0, text, *l, "nothing");
            sum += line_us(*l);
            lines++;
        }
    }
    CU_ASSERT_TRUE(sums > 0);
}

static bool holds(const char *text)
{
    g_autoptr(record) record = predicted(text);
    if (!record) return false;
    rows_hold(record, text);
    g_autoptr(GPtrArray) phases = compare_phases(record);
    for (guint i = 0; i < phases->len; i++) part_holds(record, g_ptr_array_index(phases, i), text);
    explanation_holds(record, text);
    return true;
}

static void kernel_draw(struct rng *rng, GString *text)
{
    static const char *const kernels[] = {
        "kernel=ll",
        "kernel=ll hook=true",
        "kernel=ll dtype=bf16",
        "kernel=ll disable-nvlink=true",
        "kernel=normal",
        "kernel=normal cached=true",
        "kernel=v2",
        "kernel=alltoallv matrix=uniform:65536",
        "kernel=allgather size=1MiB",
        "kernel=allreduce size=256KiB",
        "kernel=p2p size=64KiB",
    };
    const char *kernel = pick(rng, kernels, G_N_ELEMENTS(kernels));
    const bool moe = !strstr(kernel, "size=") && !strstr(kernel, "matrix=");
    g_string_append_printf(text, " %s num-ranks=%s", kernel, PICK(rng, "8", "16", "16", "32"));
    if (moe)
        g_string_append_printf(text, " num-tokens=%s num-experts=64 hidden=2048 num-topk=%s routing=%s",
                               PICK(rng, "4", "16", "64"), PICK(rng, "2", "8"),
                               PICK(rng, "uniform", "hot-rank:0.3", "zipf:1.2", "hot-expert:0.5", "local"));
}

static void machine_draw(struct rng *rng, GString *text)
{
    g_string_append_printf(text, "cluster=%s",
                           PICK(rng, "h100-cx7", "h800-cx7", "h100-cx7-bond", "p5en", "gh200-alps", "h20-cx7", "b200",
                                "gh200-alps-host", "mi300x-cx7"));
    if (rng_below(rng, 3) == 0)
        g_string_append_printf(text,
                               " set:network.topology=leaf-spine set:network.nodes-per-leaf=1 set:network.routing=%s "
                               "set:network.oversubscription=%s",
                               PICK(rng, "ecmp", "adaptive", "static"), PICK(rng, "1:1", "2:1", "4:1"));
    if (rng_below(rng, 4) == 0) g_string_append(text, " set:node.pcie-rate=20GB/s");
    if (rng_below(rng, 4) == 0) g_string_append(text, " set:nic.gpus-per-nic=2");
    if (rng_below(rng, 3) == 0)
        g_string_append_printf(text, " backend=%s", PICK(rng, "ibrc", "ibgda", "gin-proxy", "uccl", "libfabric"));
}

/* Draws a fault, or ranks that are late or slow.  Writes '_' between the words of a fault. */
static void trouble_draw(struct rng *rng, GString *text)
{
    if (rng_below(rng, 2) == 0)
        g_string_append_printf(text, " fault=%s",
                               PICK(rng, "nic:n0.g0_rate=0.25", "nic:n0.g3_rate=0.5", "rank:5_slow=4", "qp:_one",
                                    "nics:_all-on=0", "link:n0.g1-n0.nvlink_rate=0.2"));
    if (rng_below(rng, 3) == 0) g_string_append_printf(text, " arrival=%s", PICK(rng, "uniform:20us", "exp:100us"));
    if (rng_below(rng, 3) == 0) g_string_append_printf(text, " launch=%s", PICK(rng, "stream", "loop"));
    if (rng_below(rng, 4) == 0) g_string_append_printf(text, " slow=%s", PICK(rng, "3:2x", "0:8x"));
}

TEST("bounds, shares and sums of random cases")
{
    struct rng rng = rng_seeded(26);
    uint32_t ran = 0;
    for (uint32_t i = 0; i < CASES; i++) {
        g_autoptr(GString) text = g_string_new(NULL);
        machine_draw(&rng, text);
        kernel_draw(&rng, text);
        trouble_draw(&rng, text);
        g_string_append_printf(text, " seed=%u", i);
        ran += holds(text->str);
    }
    if (ran < CASES / 2) fprintf(stderr, "%u of %u cases ran\n", ran, CASES);
    CU_ASSERT_TRUE(ran >= CASES / 2);
}

/* How often a cause is named, and how often it is not. */
struct naming {
    uint32_t named, others;
};

/* Predicts a case with and without a cause.  Where the cause is named, a phase without it must take less than `most` of
 * its time; where it is not, more than `least`. */
static void named_holds(struct naming *count, const char *with, const char *without, const char *cause, double most,
                        double least)
{
    g_autoptr(record) whole = predicted(with);
    g_autoptr(record) less = predicted(without);
    g_autoptr(GPtrArray) phases = compare_phases(whole);
    for (guint p = 0; p < phases->len; p++) {
        const char *phase = g_ptr_array_index(phases, p), *bottleneck = word(whole, phase, "bottleneck");
        const double ratio = number(less, phase, "time_us_max") / number(whole, phase, "time_us_max");
        const bool named = strcmp(bottleneck, cause) == 0;
        if (!*bottleneck) continue;
        held(named ? ratio < most : ratio > least, with, phase, named ? "not the cause" : "the cause is not named");
        count->named += named;
        count->others += !named;
    }
}

/* If ranks that begin late are named, the phase must take about half as long or less where all begin at once.  If they
 * are not, it must take more. */
TEST("ranks that begin late")
{
    static const char *const cases[] = { "cluster=h100-cx7 num-ranks=16 num-tokens=64",
                                         "cluster=h200 num-ranks=8 num-tokens=16",
                                         "cluster=h200 kernel=one-sided num-ranks=8 num-tokens=64",
                                         "cluster=h100-cx7 kernel=normal cached=true num-ranks=16 num-tokens=64" };
    static const char *const arrivals[] = { "exp:100us", "uniform:400us", "uniform:10us" };
    struct naming late = { 0 };
    for (size_t i = 0; i < G_N_ELEMENTS(cases) * G_N_ELEMENTS(arrivals); i++) {
        const char *text = cases[i / G_N_ELEMENTS(arrivals)], *arrival = arrivals[i % G_N_ELEMENTS(arrivals)];
        g_autofree char *delayed = g_strdup_printf("%s arrival=%s", text, arrival);
        named_holds(&late, delayed, text, COMPARE_LATE, 0.6, 0.4);
    }
    CU_ASSERT(late.named >= 8 && late.others >= 8);
}

/* A kernel that meets no other rank is as long, and bound by the same part, whenever its rank begins. */
TEST("what is local has its bound at any begin")
{
    g_autoptr(record) together = predicted("cluster=h200 kernel=v2 num-ranks=8 num-tokens=1024");
    g_autoptr(record) apart = predicted("cluster=h200 kernel=v2 num-ranks=8 num-tokens=1024 arrival=uniform:200us");
    CU_ASSERT_STRING_EQUAL(word(together, "combine_reduce", "bottleneck"), "hbm");
    CU_ASSERT_STRING_EQUAL(word(apart, "combine_reduce", "bottleneck"), "hbm");
    CU_ASSERT_DOUBLE_EQUAL(number(apart, "combine_reduce", "bound_hbm_us"),
                           number(together, "combine_reduce", "bound_hbm_us"), 0.1);
}

/* A kernel that is launched early waits for the end of the kernel before it.  If that is named, the ranks that wait
 * least must take less than half as long; if it is not, more than that. */
TEST("the kernel before")
{
    uint32_t before = 0, others = 0;
    for (uint32_t sms = 8; sms <= 64; sms *= 2) {
        g_autofree char *text = g_strdup_printf("cluster=h200 kernel=v2 num-ranks=8 num-tokens=512 num-sms=%u", sms);
        g_autoptr(record) record = predicted(text);
        const double least = number(record, "dispatch_copy", "time_us_min"),
                     most = number(record, "dispatch_copy", "time_us_max");
        const bool named = strcmp(word(record, "dispatch_copy", "bottleneck"), COMPARE_BEFORE) == 0;
        held(named ? least < 0.5 * most : least > 0.4 * most, text, "dispatch_copy",
             named ? "all ranks wait alike" : "the kernel before is not named");
        before += named;
        others += !named;
    }
    CU_ASSERT(before > 0 && others > 0);
}

/* If the timeout of ranks that do not answer is named, half the timeout must shorten the phase by a quarter or more.
 * If it is not, by less. */
TEST("the timeout of ranks that do not answer")
{
    static const char *const cases[] = { "cluster=h800-cx7 num-ranks=16 num-tokens=64 fail=1@dispatch|3@combine",
                                         "cluster=h200 num-ranks=8 num-tokens=16 fail=1@dispatch hook=true",
                                         "cluster=h200 num-ranks=8 num-tokens=128 fail=2@combine launch=stream",
                                         "cluster=h200 num-ranks=8 num-tokens=128 fail=2@combine launch=loop" };
    static const unsigned timeouts_us[] = { 1000, 400, 200 }; /* half of less masks ranks that live */
    struct naming timeout = { 0 };
    for (size_t i = 0; i < G_N_ELEMENTS(cases) * G_N_ELEMENTS(timeouts_us); i++) {
        const char *at = cases[i / G_N_ELEMENTS(timeouts_us)];
        const unsigned us = timeouts_us[i % G_N_ELEMENTS(timeouts_us)];
        g_autofree char *text = g_strdup_printf("%s mask-timeout=%uus", at, us);
        g_autofree char *less = g_strdup_printf("%s mask-timeout=%uus", at, us / 2);
        named_holds(&timeout, text, less, COMPARE_TIMEOUT, 0.76, 0.7);
    }
    CU_ASSERT(timeout.named >= 8 && timeout.others >= 8);
}

/* Whether `part` is the planted one, under any of the names that results give it. */
static bool names(const char *part, const char *planted)
{
    g_auto(GStrv) name = g_strsplit(planted, "|", -1);
    for (char **n = name; *n; n++)
        if (strstr(part, *n)) return true;
    return false;
}

/* Returns the kind of a phase's busiest part, such as "nic_tx". */
static const char *kind_of(const struct record *record, const char *phase, const char *part)
{
    for (uint32_t i = 0; i < record_row_count(record); i++) {
        const struct record_row *row = record_row(record, i);
        if (strcmp(row->phase, phase) != 0 || !g_str_has_prefix(row->metric, "busiest_") || !isnan(row->value))
            continue;
        if (strcmp(record_row_text(row), part) == 0) return row->metric + strlen("busiest_");
    }
    return "";
}

/* If the fault makes a phase take more than one and a half times as long, the phase must name the part, and explain its
 * time by the part's rate. */
static uint32_t planted_is_named(const char *healthy, const char *fault, double factor, const char *planted)
{
    g_autofree char *text = g_strdup_printf("%s fault=%s", healthy, fault);
    struct record *before = predicted(healthy), *after = predicted(text);
    uint32_t counted = 0;
    g_autoptr(GString) words = g_string_new(NULL);
    if (after) simulate_explain_append(after, words);
    g_autoptr(GPtrArray) phases = after ? compare_phases(after) : g_ptr_array_new();
    for (guint i = 0; before && i < phases->len; i++) {
        const char *phase = g_ptr_array_index(phases, i), *part = word(after, phase, "bottleneck_part");
        /* leaves out phases without a kernel, and kernels that begin early and wait for the previous kernel */
        if (!*word(after, phase, "bottleneck") || g_str_has_suffix(phase, "_copy")) continue;
        if (!(number(after, phase, "time_us_max") > 1.5 * number(before, phase, "time_us_max"))) continue;
        counted++;
        held(strcmp(word(after, phase, "bottleneck"), COMPARE_STEPS) != 0, text, phase, COMPARE_STEPS);
        held(names(part, planted), text, phase, part);
        g_autofree char *said = g_strdup_printf(", starting with %s:", part);
        held(strstr(words->str, said) != NULL, text, phase, "it is not explained");
        const double rate = number(after, phase, "bottleneck_rate_gbs");
        g_autofree char *at = g_strdup_printf(" at %.4g GB/s", rate);
        held(rate > 0 && strstr(words->str, at), text, phase, "its rate is not said");
        g_autofree char *whole = g_strdup_printf("busiest_%s_rate_gbs", kind_of(after, phase, part));
        const double share = rate / number(before, phase, whole);
        held(share > 0.8 * factor && share < 1.2 * factor, text, phase, "its rate is not the slowed one");
    }
    if (before) record_free(before);
    if (after) record_free(after);
    return counted;
}

TEST("a part that was slowed is named")
{
    struct rng rng = rng_seeded(27);
    uint32_t named = 0;
    for (uint32_t i = 0; i < PLANTED; i++) {
        const uint32_t gpu = (uint32_t)rng_below(&rng, 8), node = (uint32_t)rng_below(&rng, 2);
        const char *kernel =
            PICK(&rng, "kernel=ll num-tokens=64", "kernel=normal cached=true num-tokens=512 hidden=4096",
                 "kernel=alltoallv matrix=uniform:262144", "kernel=v2 num-tokens=256");
        const char *leaves = " set:network.topology=leaf-spine set:network.nodes-per-leaf=1 set:network.spines=1";
        const uint32_t kind = (uint32_t)rng_below(&rng, 3);
        g_autofree char *healthy =
            g_strdup_printf("cluster=%s %s num-ranks=16 seed=%u%s", PICK(&rng, "h100-cx7", "h800-cx7", "b200"), kernel,
                            i, kind == 2 ? leaves : "");
        g_autofree char *fault = kind == 0   ? g_strdup_printf("nic:n%u.g%u_rate=0.1", node, gpu)
                                 : kind == 1 ? g_strdup_printf("link:n%u.g%u-n%u.nvlink_rate=0.05", node, gpu, node)
                                             : g_strdup_printf("link:leaf%u-spine0_rate=0.1", node);
        g_autofree char *planted = kind == 0   ? g_strdup_printf("NIC of rank %u,", 8 * node + gpu)
                                   : kind == 1 ? g_strdup_printf("NVLink of rank %u,", 8 * node + gpu)
                                               : g_strdup_printf("leaf%u-spine0|spine0-leaf%u", node, node);
        named += planted_is_named(healthy, fault, kind == 1 ? 0.05 : 0.1, planted);
    }
    if (named < PLANTED / 2) fprintf(stderr, "%u phases were slowed\n", named);
    CU_ASSERT_TRUE(named >= PLANTED / 2);
}
