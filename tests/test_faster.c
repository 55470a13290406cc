/* test_faster.c - the bound that a prediction names for a phase is a claim, which second predictions test.
 *
 * If parts of the named kind are twice as fast, the slowest rank must take less time.  It must also take less time than
 * if parts of any other kind were twice as fast.  If steps and latencies are named, no part may gain as much as both
 * together.  The other names that are no part (reports/compare.h) make no such claim.  The rate that is said must be
 * the one that matters.  In addition, every time and rate of a cluster file must change some prediction, except those
 * of [host] and [dcqcn]. */
#include <glib.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "models/cluster_keys.h"
#include "models/predict/faster.h"
#include "models/predict/simulate.h"
#include "reports/compare.h"
#include "tests/unit.h"

/* A case from a text such as "cluster=h200 num-ranks=8".  Settings are written as "set=nic.rate=1GB/s". */
struct claimed {
    struct case_options c;
    struct cluster *cluster;
    struct case_load load;
};

static bool claimed_load(struct claimed *a, const char *text, const char *setting)
{
    g_auto(GStrv) word = g_strsplit(text, " ", -1);
    *a = (struct claimed){ 0 };
    g_autoptr(GPtrArray) set = g_ptr_array_new();
    bool good = true;
    case_init(&a->c);
    for (char **w = word; *w && good; w++) {
        char *value = strchr(*w, '=');
        *value++ = '\0';
        if (strcmp(*w, "set") == 0) g_ptr_array_add(set, g_strdelimit(value, "_", ' '));
        else good = case_set(&a->c, *w, value, NULL);
    }
    if (setting) g_ptr_array_add(set, (gpointer)setting);
    g_ptr_array_add(set, NULL);
    a->cluster = good ? cluster_load_set(a->c.cluster, (const char *const *)set->pdata, NULL) : NULL;
    if (a->cluster) case_cluster_settle(&a->c, a->cluster);
    return a->cluster && case_load(&a->c, &a->load, NULL);
}

static void claimed_clear(struct claimed *a)
{
    case_load_free(&a->load);
    cluster_free(a->cluster);
}

static uint32_t named, latencies;

/* Asserts that a claim holds.  gain[kind] is how much shorter the phase is, in percent, if parts of that kind are twice
 * as fast. */
static void claim_holds(const char *text, const char *phase, const char *bound, const double *gain)
{
    const enum cluster_part kind = faster_kind(bound);
    const double least = 0.2, own = gain[CLUSTER_PART_SMS] + gain[CLUSTER_PART_LATENCIES];
    const enum cluster_part others[] = { CLUSTER_PART_NICS, CLUSTER_PART_PEERS, CLUSTER_PART_MEMORY,
                                         CLUSTER_PART_POSTING, CLUSTER_PART_LINKS };
    bool holds = true;
    static const char *const claims_none[] = { COMPARE_NO_PART, COMPARE_LATE, COMPARE_BEFORE, NULL };
    if (g_strv_contains(claims_none, bound)) return;
    if (kind == CLUSTER_PART_LATENCIES) {
        for (size_t i = 0; i < G_N_ELEMENTS(others); i++) holds &= gain[others[i]] < own;
        latencies++;
    } else {
        holds = kind < CLUSTER_PART_NONE && gain[kind] > least;
        for (int other = 0; other < CLUSTER_PART_NONE && holds; other++)
            holds = other == (int)kind || gain[other] < gain[kind];
        named++;
    }
    CU_ASSERT_TRUE(holds);
    if (holds) return;
    fprintf(stderr, "%s: %s is said to be bound by %s; gains in percent:", text, phase, bound);
    for (int i = 0; i < CLUSTER_PART_NONE; i++) fprintf(stderr, " %.1f", gain[i]);
    fprintf(stderr, "\n");
}

static void claims_hold(const char *text)
{
    struct claimed a;
    CU_ASSERT_TRUE_FATAL(claimed_load(&a, text, NULL));
    struct record *record = record_new(), *after[CLUSTER_PART_NONE];
    CU_ASSERT_TRUE_FATAL(simulate_load(&a.c, a.cluster, &a.load, &(struct simulate_wishes){ 0 }, record, NULL));
    for (int kind = 0; kind < CLUSTER_PART_NONE; kind++) {
        after[kind] = record_new();
        CU_ASSERT_TRUE_FATAL(faster_predict(&a.c, a.cluster, &a.load, (enum cluster_part)kind, after[kind], NULL));
    }
    g_autoptr(GPtrArray) phases = compare_phases(record);
    for (guint i = 0; i < phases->len; i++) {
        const char *phase = g_ptr_array_index(phases, i);
        const struct record_row *bound = record_find(record, phase, RECORD_ALL, "bottleneck");
        double gain[CLUSTER_PART_NONE];
        for (int kind = 0; kind < CLUSTER_PART_NONE; kind++) gain[kind] = faster_gain_pct(record, after[kind], phase);
        if (bound) claim_holds(text, phase, record_row_text(bound), gain);
    }
    for (int kind = 0; kind < CLUSTER_PART_NONE; kind++) record_free(after[kind]);
    record_free(record);
    claimed_clear(&a);
}

#define LEAVES \
    "cluster=h100-cx7 set=network.topology=leaf-spine set=network.nodes-per-leaf=1 set=network.oversubscription=4:1"

TEST("what bounds a phase")
{
    static const char *const cases[] = {
        "cluster=h800-cx7 num-ranks=16",
        "cluster=h800-cx7 num-ranks=16 num-tokens=8",
        "cluster=h100-cx7-roce num-ranks=32 num-tokens=64",
        "cluster=h100-cx7 num-ranks=16 num-tokens=32 routing=hot-rank:0.3",
        "cluster=h100-cx7 num-ranks=16 num-tokens=64 set=node.pcie-rate=20GB/s",
        LEAVES " num-ranks=16 num-tokens=64",
        "cluster=h100-cx7 set=network.topology=leaf-spine set=network.nodes-per-leaf=1 num-ranks=16 num-tokens=16",
        "cluster=h100-cx7 num-ranks=16 num-tokens=32 hidden=512 num-experts=64 backend=ibrc",
        "cluster=h200 num-ranks=8",
        "cluster=h200 num-ranks=8 num-tokens=1",
        "cluster=b200 num-ranks=8",
        "cluster=p5en num-ranks=16 num-tokens=64",
        "cluster=gh200-alps num-ranks=16 num-tokens=64",
        "cluster=h100 kernel=normal num-ranks=8 num-tokens=1024",
        "cluster=h100 kernel=normal num-ranks=8 num-tokens=64",
        "cluster=h100 kernel=normal num-ranks=8 num-tokens=1024 num-sms=8",
        "cluster=h800-cx7 kernel=normal num-ranks=16 num-tokens=256",
        "cluster=p5en kernel=normal num-ranks=16 num-tokens=256",
        "cluster=h200 kernel=v2 num-ranks=8 num-tokens=1024",
        "cluster=h200 kernel=v2 num-ranks=8 num-tokens=512 num-sms=8",
        "cluster=h100-cx7 kernel=v2 num-ranks=16 num-tokens=256",
        "cluster=h100-cx7 kernel=pplx num-ranks=16 num-tokens=128",
        "cluster=p6-b200 kernel=pplx num-ranks=16 num-tokens=256",
        "cluster=h100-cx7 kernel=allreduce num-ranks=16 size=64MB",
        "cluster=h100-cx7 kernel=allreduce num-ranks=16 size=64KB",
        "cluster=h200 kernel=allgather num-ranks=8 size=8MB",
        "cluster=gh200-alps kernel=allgather num-ranks=16 size=1MB",
        "cluster=mi300x-cx7 kernel=mori num-ranks=16 num-tokens=128",
        "cluster=mi308x kernel=mori num-ranks=8 num-tokens=512",
        "cluster=mi300x-cx7 kernel=mori-ll num-ranks=16 num-tokens=256",
        "cluster=gb300-nvl72-cx8 kernel=one-sided num-ranks=16 num-tokens=512",
        "cluster=gb200-nvl72 kernel=two-sided num-ranks=16 num-tokens=512",
        "cluster=b200 kernel=mega-moe num-ranks=8 num-tokens=256",
        "cluster=h20-cx7 kernel=p2p num-ranks=16 size=64KB",
        "cluster=h100-cx7 kernel=alltoallv num-ranks=16 matrix=uniform:65536",
        "cluster=h800-cx7 kernel=normal num-ranks=32 num-tokens=128 cached=yes",
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) claims_hold(cases[i]);
    CU_ASSERT(named >= 20 && latencies >= 20); /* otherwise the test would prove little */
}

/* NVLink is busy for three quarters of these phases or more.  In two, steps of senders or receivers take as long, so
 * that stores hardly wait for NVLink.  In one, stores wait for it, and yet faster SMs save more. */
TEST("a bound that faster parts contradict")
{
    static const struct {
        const char *text, *phase, *bound, *denial;
    } said[] = {
        { "cluster=h800-cx7 kernel=normal num-ranks=8 num-tokens=4096 hidden=2048", "dispatch", COMPARE_NO_PART, NULL },
        { "cluster=h100-cx7 kernel=normal num-ranks=8 num-tokens=4096 hidden=2048 num-experts=128 dtype=bf16",
          "dispatch", COMPARE_NO_PART, NULL },
        { "cluster=h200 kernel=normal num-ranks=2 num-tokens=4096 num-topk=6 num-experts=64 routing=imbalance:1.5 "
          "num-sms=48 dtype=bf16",
          "combine", "nvlink_egress",
          "\nBusy as they are, NVLinks do not bound combine alone: twice as fast, they would save 7 %, and SMs 10 "
          "%.\n" },
        { "cluster=h200 kernel=normal num-ranks=8 num-tokens=4096", "dispatch", "nvlink_egress", NULL },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(said); i++) {
        struct claimed a;
        g_autoptr(record) record = record_new();
        g_autoptr(GString) words = g_string_new(NULL);
        CU_ASSERT_TRUE_FATAL(claimed_load(&a, said[i].text, NULL));
        CU_ASSERT_TRUE_FATAL(simulate_load(&a.c, a.cluster, &a.load, &(struct simulate_wishes){ 0 }, record, NULL));
        CU_ASSERT_TRUE(faster_append(&a.c, a.cluster, &a.load, record, words, NULL));
        const struct record_row *bound = record_find(record, said[i].phase, RECORD_ALL, "bottleneck");
        CU_ASSERT(record_value(record, said[i].phase, RECORD_ALL, "bottleneck_busy_pct") >= 75);
        CU_ASSERT_STRING_EQUAL(record_row_text(bound), said[i].bound);
        if (said[i].denial) CU_ASSERT_PTR_NOT_NULL(strstr(words->str, said[i].denial));
        CU_ASSERT_EQUAL(strstr(words->str, "Busy as they are") != NULL, said[i].denial != NULL);
        claimed_clear(&a);
    }
}

/* ---- rates ---- */

/* NVLink has a rate for each way of storing.  The rate that is said must be the one of this kernel's stores: if it
 * alone is 2 % higher, the slowest rank must take at least 1 % less. */
TEST("at which rate")
{
    static const struct {
        const char *text, *phase, *key;
        double gbs;
    } said[] = {
        { "cluster=h200 kernel=normal num-ranks=8 num-tokens=4096", "dispatch", "nvlink.unaligned-rate", 310 },
        { "cluster=h800-cx7 kernel=normal num-ranks=16 cached=yes", "dispatch", "nvlink.split-rate", 125 },
        { "cluster=gb200-nvl72 kernel=two-sided num-ranks=16 num-tokens=512", "combine", "nvlink.unaligned-rate", 634 },
        { "cluster=h100-cx7 kernel=ll num-ranks=16", "combine", "nic.rate", 46.7 },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(said); i++) {
        g_autofree char *faster = g_strdup_printf("%s=%.3fGB/s", said[i].key, 1.02 * said[i].gbs);
        struct record *record[2];
        for (int r = 0; r < 2; r++) {
            struct claimed a;
            record[r] = record_new();
            CU_ASSERT_TRUE_FATAL(claimed_load(&a, said[i].text, r ? faster : NULL));
            CU_ASSERT_TRUE_FATAL(
                simulate_load(&a.c, a.cluster, &a.load, &(struct simulate_wishes){ 0 }, record[r], NULL));
            claimed_clear(&a);
        }
        const struct record_row *rate = record_find(record[0], said[i].phase, RECORD_ALL, "bottleneck_rate_gbs");
        CU_ASSERT_TRUE_FATAL(rate != NULL);
        CU_ASSERT_DOUBLE_EQUAL(rate->value, said[i].gbs, 0.001 * said[i].gbs);
        CU_ASSERT(faster_gain_pct(record[0], record[1], said[i].phase) >= 1);
        for (int r = 0; r < 2; r++) record_free(record[r]);
    }
}

/* ---- every key ---- */

/* Returns the sum of all phases' times in us, for the case with one more setting.  NAN: the case is refused. */
static double sum_us(const char *text, const char *setting)
{
    struct claimed a;
    g_autoptr(record) record = record_new();
    double sum = NAN;
    if (claimed_load(&a, text, setting) &&
        simulate_load(&a.c, a.cluster, &a.load, &(struct simulate_wishes){ 0 }, record, NULL)) {
        sum = 0;
        for (uint32_t i = 0; i < record_row_count(record); i++)
            if (strcmp(record_row(record, i)->metric, "time_us_max") == 0) sum += record_row(record, i)->value;
    }
    claimed_clear(&a);
    return sum;
}

#define SOCKETS "cluster=h800-cx7 set=node.sockets=2 set=node.pcie-rate=50GB/s set=node.nic-of=7_6_5_4_3_2_1_0"

static const char *const key_cases[] = {
    "cluster=h800-cx7 num-ranks=16 num-tokens=16",
    "cluster=h100 kernel=normal num-ranks=8 num-tokens=64",
    "cluster=h800-cx7 kernel=normal num-ranks=16 num-tokens=32",
    "cluster=h200 kernel=v2 num-ranks=4 num-tokens=64 cpu-sync=yes",
    "cluster=h100-cx7 kernel=v2 num-ranks=16 num-tokens=32 overlap=yes",
    "cluster=h200 kernel=one-sided num-ranks=8 num-tokens=64",
    "cluster=h200 kernel=two-sided num-ranks=8 num-tokens=64",
    "cluster=h100-cx7 kernel=pplx num-ranks=16 num-tokens=16",
    "cluster=h800-cx7 kernel=normal num-ranks=16 num-tokens=32 backend=uccl-2025",
    "cluster=b200 kernel=mega-moe num-ranks=8 num-tokens=64",
    "cluster=h100-cx7 kernel=allreduce num-ranks=32 size=8MB",
    "cluster=h100 kernel=allreduce num-ranks=8 size=8MB",
    "cluster=h200 kernel=p2p num-ranks=2 size=64KB issue=host",
    "cluster=h200 kernel=p2p num-ranks=2 size=64KB issue=copy",
    "cluster=h200 kernel=p2p num-ranks=2 size=64KB issue=nccl",
    "cluster=h200 kernel=allgather num-ranks=4 size=64KB issue=copy algorithm=ring",
    "cluster=h200 kernel=allgather num-ranks=4 size=64KB issue=copy algorithm=leader",
    "cluster=h100 kernel=normal num-ranks=4 num-tokens=64 compute=read:2000GB/s",
    "cluster=h100 kernel=normal num-ranks=4 num-tokens=64 compute=copy:2000GB/s",
    "cluster=h100 kernel=normal num-ranks=4 num-tokens=64 compute=read:3000GB/s:l2",
    "cluster=h100 kernel=v2 num-ranks=8 num-tokens=4096 expand=yes",
    SOCKETS " num-ranks=16 num-tokens=16 set=network.topology=rail set=network.nodes-per-leaf=1",
    "cluster=h800-cx7 num-ranks=16 num-tokens=16 set=node.staging=yes set=node.pcie-rate=50GB/s",
    "cluster=mi300x-cx7 kernel=mori num-ranks=16 num-tokens=16",
    "cluster=p5en kernel=normal num-ranks=16 num-tokens=32",
    "cluster=gh200-alps num-ranks=16 num-tokens=16",
};
enum { KEY_CASES = G_N_ELEMENTS(key_cases) };

/* Whether a case's time changes if the key is set to a quarter or to four times its value, or from 0 to some value. */
static bool key_acts(const struct cluster_key *key, const char *text, double before_us)
{
    struct claimed a;
    bool acts = false;
    CU_ASSERT_TRUE_FATAL(claimed_load(&a, text, NULL));
    const uint64_t value = *(const uint64_t *)(const void *)((const char *)a.cluster + key->offset);
    claimed_clear(&a);
    for (int high = 0; high < 2 && !acts; high++) {
        const double tried = value ? (double)value * (high ? 4 : 0.25) : key->kind == KIND_RATE ? 8e9 : 1e7;
        g_autofree char *setting = g_strdup_printf("%s.%s=%.6f %s", key->section, key->name,
                                                   key->kind == KIND_RATE ? tried / 1e6 : floor(tried) / 1e3,
                                                   key->kind == KIND_RATE ? "Mbit/s" : "ns");
        const double us = sum_us(text, setting);
        acts = isfinite(us) && us != before_us;
    }
    return acts;
}

TEST("every time and rate")
{
    double before_us[KEY_CASES];
    const struct cluster_key *key;
    uint32_t keys = 0;
    for (int i = 0; i < KEY_CASES; i++) before_us[i] = sum_us(key_cases[i], NULL);
    for (int i = 0; i < KEY_CASES; i++) CU_ASSERT_TRUE(isfinite(before_us[i]));
    for (size_t k = 0; (key = cluster_key_at(k)); k++) {
        bool acts = false;
        if (key->kind != KIND_TIME && key->kind != KIND_RATE) continue;
        if (strcmp(key->section, "host") == 0 || strcmp(key->section, "dcqcn") == 0) continue;
        for (int i = 0; i < KEY_CASES && !acts; i++) acts = key_acts(key, key_cases[i], before_us[i]);
        CU_ASSERT_TRUE(acts);
        if (!acts) fprintf(stderr, "%s.%s changes no prediction\n", key->section, key->name);
        keys++;
    }
    CU_ASSERT(keys > 80);
}
