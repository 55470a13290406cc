/* test_step_claims.c - the causes that a step's answer names are claims, which second predictions test.
 *
 * A slow GPU must be named.  Without it, the step must be shorter by about the waiting that it was said to cause.
 * Ranks with equal tokens must not wait for tokens, and ranks with equal GPUs not for clocks, even if kernels draw
 * their times.  Without memory pressure, the step must be shorter by about the contention that then disappears.  If
 * GPUs also keep the clock at which the tables were measured, hardly any contention must be left.  Graphs must save the
 * time that launches were said to take.  NICs that are twice as fast must shorten time on the wire, but no computation.
 * Balance must pay if ranks were said to wait for tokens.  What `--explain` predicts without a cause is the step of the
 * options without it. */
#include <glib.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "models/step/step_again.h"
#include "tests/unit.h"

/* The times that an answer gives for a step, in us. */
struct said {
    double all, part[STEP_PARTS], late[STEP_LATES], waited, awaited_pct, others_pct;
    uint32_t awaited;
    struct step_again again;
};

static bool option_set(struct step_options *o, struct case_options *c, GPtrArray *settings, const char *name,
                       const char *value)
{
    if (strcmp(name, "set") == 0) g_ptr_array_add(settings, (gpointer)value);
    else if (strcmp(name, "even") == 0) c->even = true;
    else if (step_option_find(name)) return step_option_set(o, name, value, NULL);
    else return case_set(c, name, value, NULL);
    return true;
}

static void answer_take(struct step_plan *plan, const struct step_options *o, const struct case_options *c,
                        struct said *said)
{
    double total_ms = 0;
    struct step_answer *a = step_plan_answer(plan, NULL, &total_ms, NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(a);
    said->all = a->total_us;
    memcpy(said->part, a->part_us, sizeof said->part);
    memcpy(said->late, a->late_us, sizeof said->late);
    for (int i = 0; i < STEP_LATES; i++) said->waited += a->late_us[i];
    said->awaited = a->awaited;
    said->awaited_pct = a->awaited_pct;
    said->others_pct = a->steady_error_pct;
    if (o) CU_ASSERT_TRUE(step_again(o, c, plan, a, &said->again, NULL));
    step_answer_free(a);
}

/* Predicts the step of "cluster=h200 num-ranks=8 net=deepseek-v3", with settings of the cluster as
 * "set=calls.launch-call=1us", with "even=yes" for an evened routing, "fault=nic:n0.g0~rate=0.25" for one with a space,
 * and with more options in the same form.  again: predicts it without each cause, too. */
static struct said say_all(const char *text, const char *more, bool again)
{
    g_autofree char *both = g_strjoin(" ", text, more, NULL);
    g_auto(GStrv) word = g_strsplit(both, " ", -1);
    g_autoptr(GPtrArray) settings = g_ptr_array_new();
    struct case_options c;
    struct step_options o;
    struct step_plan plan;
    struct said said = { 0 };
    bool good = true;
    case_init(&c);
    step_options_init(&o);
    for (char **w = word; *w && good; w++) {
        char *value = strchr(*w, '=');
        *value++ = '\0';
        g_strdelimit(value, "~", ' ');
        good = option_set(&o, &c, settings, *w, value);
    }
    g_ptr_array_add(settings, NULL);
    CU_ASSERT_TRUE_FATAL(good);
    struct cluster *cluster = cluster_load_set(c.cluster, (const char *const *)settings->pdata, NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(cluster);
    good = step_plan_make(&plan, &o, &c, cluster, NULL);
    CU_ASSERT_TRUE_FATAL(good);
    answer_take(&plan, again ? &o : NULL, &c, &said);
    step_plan_clear(&plan);
    cluster_free(cluster);
    return said;
}

static struct said say(const char *text, const char *more) { return say_all(text, more, false); }

static void between(const char *text, const char *what, double value, double least, double most)
{
    const bool holds = value >= least && value <= most;
    CU_ASSERT_TRUE(holds);
    if (!holds) fprintf(stderr, "%s: %s is %.3f, expected %.3f to %.3f\n", text, what, value, least, most);
}

/* A token's experts lie on both nodes and may be of any group.  If they keep to the net's groups, two claims are less
 * true: without memory pressure the prefill is shorter by 0.54 of the contention that disappears, and an evened step is
 * up to 0.7 % longer. */
#define NET     "num-ranks=16 net=deepseek-v3 num-topk-groups=2"
#define DECODE  "cluster=h800-cx7 " NET " batch=64 layers=4"
#define PREFILL "cluster=h100-cx7 " NET " phase=prefill context=1024 layers=2 draws=1"

#define TRAIN   "cluster=h800-cx7 " NET " phase=train batch=512 context=512 layers=2 draws=1 num-sms=20"

static const char *const steps[] = {
    DECODE,
    DECODE " hook=yes",
    DECODE " schedule=shared",
    DECODE " schedule=stages",
    PREFILL " batch=1024",
    PREFILL " batch=1024 schedule=two-batch",
    TRAIN,
    TRAIN " schedule=two-batch",
    "cluster=h200 num-ranks=8 net=qwen3-235b batch=64 layers=4",
    "cluster=h200 num-ranks=8 net=gpt-oss-120b batch=64 layers=4 kernel=ag-rs",
};

TEST("a slow GPU")
{
    for (size_t i = 0; i < G_N_ELEMENTS(steps); i++) {
        const struct said equal = say(steps[i], NULL), slow = say(steps[i], "slow=3:1.3x");
        const double waiting = slow.part[PART_WAITING] - equal.part[PART_WAITING], cost = slow.all - equal.all;
        CU_ASSERT_EQUAL(slow.awaited, 3);
        between(steps[i], "share of waiting for it", slow.awaited_pct, 90, 100);
        /* In two batches, compute kernels that take longer also make the communication beside them take longer.  That
         * has a reason of its own. */
        const double clock = slow.late[LATE_CLOCK] / slow.waited;
        between(steps[i], "share of waiting for its clock", clock, strstr(steps[i], "two-batch") ? 0.7 : 0.9, 1);
        between(steps[i], "what it costs, in its exposed waiting", cost / waiting, 0.7, INFINITY);
        between(steps[i], "what it costs, in all of its waiting", cost / (slow.waited - equal.waited), 0, 1.4);
    }
}

TEST("equal tokens and GPUs")
{
    for (size_t i = 0; i < G_N_ELEMENTS(steps); i++) {
        const struct said said = say(steps[i], "routing=round"), skewed = say(steps[i], "routing=zipf:0.8");
        between(steps[i], "waiting for tokens", said.late[LATE_TOKENS], 0, 0);
        between(steps[i], "waiting for clocks", said.late[LATE_CLOCK] + skewed.late[LATE_CLOCK], 0, 0);
        between(steps[i], "waiting for jitter", said.late[LATE_JITTER] + skewed.late[LATE_JITTER], 0, 0);
    }
}

/* Compute kernels that draw their times on GPUs of one speed must be named as such.  Without jitter, what of the step
 * is not compute must be shorter by about the waiting that jitter adds.  In two batches, jitter also changes what of
 * the communication compute hides. */
TEST("jitter")
{
    for (size_t i = 0; i < G_N_ELEMENTS(steps); i++) {
        const struct said equal = say(steps[i], "routing=round"), said = say(steps[i], "routing=round jitter=10");
        const double rest = said.all - said.part[PART_COMPUTE] - equal.all + equal.part[PART_COMPUTE];
        const double waiting = said.part[PART_WAITING] - equal.part[PART_WAITING];
        between(steps[i], "waiting for clocks", said.late[LATE_CLOCK], 0, 0);
        between(steps[i], "share of waiting for jitter", said.late[LATE_JITTER] / said.waited, 0.65, 1);
        if (!strstr(steps[i], "two-batch"))
            between(steps[i], "what jitter costs, in its exposed waiting", rest / waiting, 0.6, 1.1);
    }
}

/* If nothing runs beside communication, communication must take as long as it does alone, at the clock at which it was
 * measured alone. */
TEST("contention")
{
    static const char text[] = PREFILL " batch=4096 schedule=two-batch deepep=2025-05-05";
    const struct said with = say(text, NULL), clock = say(text, "no-contention=true");
    const struct said without = say(text, "no-contention=true clock=1.98");
    const double less = with.part[PART_CONTENTION] - clock.part[PART_CONTENTION];
    between(text, "share of contention", with.part[PART_CONTENTION] / with.all, 0.03, 1);
    between(text, "what memory costs, in contention", (with.all - clock.all) / less, 0.7, 1.4);
    between(text, "contention of nothing", without.part[PART_CONTENTION] / with.part[PART_CONTENTION], 0, 0.01);
    for (size_t i = 0; i < G_N_ELEMENTS(steps); i++) {
        const struct said alone = say(steps[i], "clock=1.98");
        if (!strstr(steps[i], "two-batch"))
            between(steps[i], "contention alone", alone.part[PART_CONTENTION] / alone.all, 0, 0.002);
    }
}

TEST("launches")
{
    static const char text[] = "cluster=h200 num-ranks=8 net=qwen3-235b batch=1 context=128 layers=4 "
                               "set=calls.launch-call=50us";
    const struct said graphs = say(text, NULL), launched = say(text, "launches=true");
    const double host = launched.part[PART_HOST] - graphs.part[PART_HOST];
    between(text, "host's share", host / launched.all, 0.05, 1);
    between(text, "what launches cost, in the host's time", (launched.all - graphs.all) / host, 0.9, 1.1);
}

TEST("the wire")
{
    const struct said slow = say(DECODE, NULL);
    const struct said fast = say(DECODE, "set=nic.rate=100GB/s");
    const double less = slow.part[PART_WIRE] - fast.part[PART_WIRE];
    between(DECODE, "share of the wire that is left", fast.part[PART_WIRE] / slow.part[PART_WIRE], 0, 0.7);
    between(DECODE, "what it gives, in wire", (slow.all - fast.all) / less, 0.7, 1.5);
    between(DECODE, "compute", fast.part[PART_COMPUTE] / slow.part[PART_COMPUTE], 0.98, 1.02);
}

/* Replicas of experts must remove the time that ranks were said to wait for tokens. */
TEST("balance")
{
    static const char text[] = PREFILL " batch=1024 routing=zipf:1.1";
    const struct said skewed = say(text, NULL), balanced = say(text, "redundant=16");
    between(text, "share of waiting for tokens", skewed.late[LATE_TOKENS] / skewed.waited, 0.5, 1);
    between(text, "waiting for tokens that is left", balanced.late[LATE_TOKENS] / skewed.late[LATE_TOKENS], 0, 0.5);
    between(text, "the step", balanced.all / skewed.all, 0, 0.95);
}

/* Balanced routing must change only who gets how many tokens.  So it takes as much wire, and no step gets longer. */
TEST("balance alone")
{
    for (size_t i = 0; i < G_N_ELEMENTS(steps); i++) {
        const struct said drawn = say(steps[i], NULL), even = say(steps[i], "even=yes");
        if (!strstr(steps[i], "two-batch")) /* compute hides most of it there */
            between(steps[i], "wire", even.part[PART_WIRE] / drawn.part[PART_WIRE], 0.93, 1.02);
        between(steps[i], "the step", even.all / drawn.all, 0.93, 1.003);
    }
}

/* What the step is said to take without a cause is what it takes with options that do not have the cause. */
static void without(const char *text, const char *cause, const char *none, enum step_without what)
{
    const struct said said = say_all(text, cause, true), other = say(text, none);
    between(text, "the step predicted again", said.again.total_us[what] / other.all, 1, 1);
    between(text, "waiting predicted again", said.again.waited_us[what] - other.waited, -1e-3, 1e-3);
    between(text, "what the cause costs", said.all / other.all, 1.005, INFINITY);
}

TEST("predicted again")
{
    without(DECODE, "slow=3:1.3x routing=zipf:0.8", "routing=zipf:0.8", WITHOUT_SLOW_GPUS);
    without(DECODE, "slow=3:1.3x routing=zipf:0.8", "slow=3:1.3x routing=zipf:0.8 even=yes", WITHOUT_SKEW);
    without(DECODE " schedule=stages", "slow=3:1.3x routing=zipf:0.8", "routing=zipf:0.8", WITHOUT_SLOW_GPUS);
    without(DECODE, "fault=nic:n0.g0~rate=0.25", NULL, WITHOUT_FAULTS);
    without(DECODE, "jitter=5", "jitter=0", WITHOUT_JITTER);
    without(PREFILL " batch=1024", "clock=1.5|1.7|1.7|1.7|1.7|1.7|1.7|1.7|1.7|1.7|1.7|1.7|1.7|1.7|1.7|1.7",
            "clock=1.6875", WITHOUT_SLOW_GPUS);
    without("cluster=h200 num-ranks=8 net=qwen3-235b batch=1 context=128 layers=4 set=calls.launch-call=50us",
            "launches=true", "launches=false", WITHOUT_LAUNCHES);
    without(PREFILL " batch=4096 schedule=two-batch deepep=2025-05-05", NULL, "no-contention=true", WITHOUT_CONTENTION);
    const struct said equal = say_all(DECODE, "routing=round", true);
    for (int i = 0; i < STEP_WITHOUTS; i++) CU_ASSERT_TRUE(isnan(equal.again.total_us[i]));
}

/* By how much layers that were not simulated may change the step is a claim for 9 of 10 cases.  Of 4 layers in a
 * prefill, as by default, 2 are steady, and tell little of the others. */
TEST("layers that are not simulated")
{
    enum { SEEDS = 30 };
    uint32_t within = 0;
    for (int seed = 0; seed < SEEDS; seed++) {
        static const char text[] = "cluster=gb200-nvl72 num-ranks=8 net=gpt-oss-120b phase=prefill batch=64 context=64";
        g_autofree char *some = g_strdup_printf("layers=4 seed=%d", seed);
        g_autofree char *all = g_strdup_printf("layers=all seed=%d", seed);
        const struct said said = say(text, some), true_step = say(text, all);
        CU_ASSERT_EQUAL(true_step.others_pct, 0);
        within += fabs(true_step.all / said.all - 1) * 100 <= said.others_pct;
    }
    between("prefill", "the share within what is said", (double)within / SEEDS, 0.85, 1);
}

TEST("one layer does not tell how much others differ")
{
    CU_ASSERT_TRUE(isnan(say(DECODE, "layers=2").others_pct));
    CU_ASSERT_TRUE(isnan(say(DECODE, "layers=3 layer=0").others_pct));
    const struct said settled =
        say("cluster=h200 num-ranks=8 net=qwen3-235b batch=8 layers=8", "layer=0 routing=round");
    CU_ASSERT_TRUE(settled.others_pct >= 0 && settled.others_pct < 0.1);
}
