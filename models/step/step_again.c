/* step_again.c - predicts a step without one cause at a time, see step_again.h. */
#include "models/step/step_again.h"

#include <math.h>
#include "models/predict/on_cores.h"
#include "reports/text_table.h"

static const double hardly = 0.0005; /* a share of the step that no table shows */

/* Whether some layer's routing brings more rows to the experts of one rank than to those of another. */
static bool rows_differ(const struct step_plan *plan)
{
    bool differ = false;
    for (uint32_t i = 0; i < plan->run.loads; i++) {
        const struct routing *routing = &plan->load[i].routing;
        g_autofree double *rows = program_rows(routing, 1);
        for (uint32_t r = 1; r < routing->ranks; r++) differ |= rows[r] != rows[0];
    }
    return differ;
}

/* Whether the step may have the cause: ranks wait and get different rows, ... */
static bool asks(const struct step_plan *plan, const struct step_answer *a, enum step_without without)
{
    const double least_us = hardly * a->total_us;
    const bool waits = step_answer_waited_us(a) > least_us;
    switch (without) {
    case WITHOUT_SKEW: return waits && rows_differ(plan);
    case WITHOUT_SLOW_GPUS: return waits && (plan->speed || plan->run.spread > 0 || plan->c.slow);
    case WITHOUT_FAULTS: return plan->c.fault;
    case WITHOUT_JITTER: return waits && plan->run.jitter > 0;
    case WITHOUT_CONTENTION:
        return plan->run.contention && (a->part_us[PART_CONTENTION] > least_us || a->hidden_us > least_us);
    case WITHOUT_LAUNCHES: return plan->run.launch_ps > 0;
    default: return false;
    }
}

/* Takes the cause out of the options. */
static void take_away(const struct step_plan *plan, enum step_without without, struct step_options *o,
                      struct case_options *c, char ghz[G_ASCII_DTOSTR_BUF_SIZE])
{
    switch (without) {
    case WITHOUT_SKEW: c->even = true; break;
    case WITHOUT_SLOW_GPUS:
        c->slow = NULL;
        o->spread_pct = 0;
        if (plan->speed) o->clock = g_ascii_dtostr(ghz, G_ASCII_DTOSTR_BUF_SIZE, plan->costs.clock_ghz);
        break;
    case WITHOUT_FAULTS: c->fault = NULL; break;
    case WITHOUT_JITTER: o->jitter_pct = 0; break;
    case WITHOUT_CONTENTION: o->no_contention = true; break;
    case WITHOUT_LAUNCHES: o->launches = false; break;
    default: break;
    }
}

/* Whether phases alone run as in the plan: their rows, their GPUs and links are the same. */
static bool alone_stays(const struct step_plan *plan, enum step_without without)
{
    return without >= STEP_WITHOUTS_ALONE || (without == WITHOUT_SLOW_GPUS && !plan->c.slow);
}

struct predictions {
    const struct step_options *options;
    const struct case_options *of;
    const struct step_plan *plan;
    struct step_again *again;
    enum step_without asked[STEP_WITHOUTS];
    GError *error[STEP_WITHOUTS];
    uint32_t count;
};

static bool predict(void *context, uint32_t number, void *memory)
{
    struct predictions *p = context;
    const enum step_without without = p->asked[number];
    struct step_options o = *p->options;
    struct case_options c = *p->of;
    struct step_plan plan;
    struct step_answer *a = NULL;
    char ghz[G_ASCII_DTOSTR_BUF_SIZE];
    double total_ms;
    (void)memory;
    o.spread_pct = 100 * p->plan->run.spread;
    o.jitter_pct = 100 * p->plan->run.jitter;
    o.draws = 1;
    take_away(p->plan, without, &o, &c, ghz);
    const bool fits = step_plan_make(&plan, &o, &c, p->plan->run.cluster, NULL);
    plan.draws = 1;
    if (alone_stays(p->plan, without)) plan.run.alone = p->plan->run.alone;
    plan.run.threads = MAX(p->plan->run.threads / p->count, 1);
    if (fits) a = step_plan_answer(&plan, NULL, &total_ms, &p->error[number]);
    if (a) {
        p->again->total_us[without] = a->total_us;
        p->again->waited_us[without] = step_answer_waited_us(a);
    }
    step_answer_free(a);
    step_plan_clear(&plan);
    return !p->error[number];
}

bool step_again(const struct step_options *options, const struct case_options *of, const struct step_plan *plan,
                const struct step_answer *answer, struct step_again *again, GError **error)
{
    struct predictions p = { .options = options, .of = of, .plan = plan, .again = again };
    for (int w = 0; w < STEP_WITHOUTS; w++) {
        again->total_us[w] = again->waited_us[w] = NAN;
        if (asks(plan, answer, (enum step_without)w)) p.asked[p.count++] = (enum step_without)w;
    }
    on_cores_run(
        &(struct on_cores){ .jobs = p.count, .cores = MAX(plan->run.threads, 1), .run = predict, .context = &p });
    return !error_first(p.error, STEP_WITHOUTS, error);
}

/* How much larger a value is than another, in percent, in so many digits after the point.  Never -0. */
static double change_pct(double value, double than, int digits)
{
    const double unit = pow(10, -digits);
    return unit * round(100 * (value / than - 1) / unit) + 0.0;
}

void step_again_append(GString *out, const struct step_answer *a, const struct step_again *again, uint32_t draws)
{
    static const char *const names[STEP_WITHOUTS] = { "with balanced routing",
                                                      "with equal GPUs",
                                                      "without the faults",
                                                      "without jitter",
                                                      "if kernels on one GPU shared only SMs",
                                                      "in a CUDA graph" };
    static const char *const titles[] = { "predicted again", "step ms", "%", "waiting ms", "%" };
    const double waited_us = step_answer_waited_us(a);
    struct text_table *table = text_table_new("lrrrr", titles);
    bool any = false;
    for (int w = 0; w < STEP_WITHOUTS; w++) {
        if (isnan(again->total_us[w])) continue;
        any = true;
        text_table_cell(table, "%s", names[w]);
        text_table_cell(table, "%.2f", again->total_us[w] / 1e3);
        text_table_cell(table, "%+.1f", change_pct(again->total_us[w], a->total_us, 1));
        text_table_cell(table, "%.2f", again->waited_us[w] / 1e3);
        if (waited_us > hardly * a->total_us)
            text_table_cell(table, "%+.0f", change_pct(again->waited_us[w], waited_us, 0));
        else text_table_cell(table, "%s", "");
    }
    if (any) {
        g_string_append_printf(
            out,
            "\nWithout one cause at a time (now %.2f ms%s, of which ranks wait %.2f, hidden or not; gains "
            "need not add up):\n\n",
            a->total_us / 1e3, draws > 1 ? " in the first draw" : "", waited_us / 1e3);
        text_table_append(table, out);
        if (!isnan(again->total_us[WITHOUT_SKEW]))
            g_string_append(out, "\n"
                                 "Balanced: all experts get about the same number of tokens, and each token still goes "
                                 "to as many nodes and ranks.\n");
    }
    text_table_free(table);
}
