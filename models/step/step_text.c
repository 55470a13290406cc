/* step_text.c - a step as a record and in words, see step.h. */
#include "models/step/step.h"

#include <assert.h>
#include <math.h>
#include <string.h>
#include "models/predict/accuracy.h"
#include "reports/text_table.h"
#include "sim/stats.h"

static double answer_us(const double *total_ms, uint32_t draws) { return 1e3 * stats_median(total_ms, draws); }

static double part_share(const struct step_answer *a, double part_us) { return part_us / a->total_us; }

/* Adds a row for all ranks, rounded to thousandths. */
static void add(struct record *record, const char *phase, const char *metric, double value, const char *unit)
{
    record_add(record, phase, RECORD_ALL, metric, round(1000 * value) / 1000, unit);
}

/* Appends `more` to the header's list of option names.  For a net's step removes num-tokens, because --batch gives
 * the number of tokens. */
static void keys_add(struct record *record, const char *list, bool net, const char *more)
{
    g_auto(GStrv) keys = g_strsplit(record_get(record, list) ? record_get(record, list) : "", " ", -1);
    g_autoptr(GString) text = g_string_new(NULL);
    for (char **key = keys; *key; key++)
        if (!net || strcmp(*key, "num-tokens") != 0) g_string_append_printf(text, "%s ", *key);
    record_set(record, list, "%s%s", text->str, more);
}

static void clocks_record(struct record *record, const struct step_plan *p)
{
    const double ghz = p->costs.clock_ghz > 0 ? p->costs.clock_ghz : p->gpu->clock_ghz;
    g_autoptr(GString) text = g_string_new(NULL);
    for (uint32_t r = 0; r < (p->speed ? step_routing(p)->ranks : 1); r++)
        g_string_append_printf(text, "%s%g", r ? "|" : "", p->speed ? ghz * p->speed[r] : ghz);
    record_set(record, "clock-ghz", "%s", text->str);
}

static void header_record(struct record *record, const struct step_plan *p, const struct step_answer *a)
{
    static const char *const work[] = { "work layers-simulated", "net phase batch context" };
    const bool net = !p->costs.work;
    g_autofree char *made =
        g_strconcat(work[net], " schedule", net ? " gpu attention-tp spread jitter clock-ghz" : "", NULL);
    keys_add(record, RECORD_CASE_KEYS, net, made);
    keys_add(record, RECORD_WORK_KEYS, net, work[net]);
    if (!net) record_set(record, "work", "%s", p->work_text);
    if (net) {
        record_set(record, "net", "%s", p->net->name);
        record_set(record, "phase", "%s", step_phase_name(p->phase));
        record_set(record, "batch", "%u", p->batch);
        record_set(record, "context", "%g", p->costs.context);
    }
    record_set(record, "schedule", "%s", step_overlap_name(p->run.overlap));
    if (net && p->c.num_groups) record_set(record, "num-groups", "%u", p->c.num_groups);
    if (net) record_set(record, "gpu", "%s", p->gpu->name);
    if (net) record_set(record, "attention-tp", "%u", p->costs.attention_tp);
    record_set(record, "spread", "%g", 100 * p->run.spread);
    record_set(record, "jitter", "%g", 100 * p->run.jitter);
    if (net) clocks_record(record, p);
    record_set(record, "layers-simulated", "%u of %u", a->simulated, a->layers);
}

/* Adds a row for each rank that is shown and each name of a kernel, with the spans of all kernels of this name on the
 * rank. */
static void shown_record(struct record *record, const struct step_answer *a)
{
    for (guint i = 0; i < a->shown->len; i++) {
        const struct step_shown *first = &g_array_index(a->shown, struct step_shown, i);
        g_autoptr(GArray) list = g_array_new(FALSE, FALSE, sizeof(double));
        if (record_find(record, first->name, (int32_t)first->rank, "spans_us")) continue;
        for (guint k = i; k < a->shown->len; k++) {
            const struct step_shown *s = &g_array_index(a->shown, struct step_shown, k);
            const double span[] = { s->stream, s->begin_us, s->met_us, s->end_us };
            if (s->rank == first->rank && strcmp(s->name, first->name) == 0)
                g_array_append_vals(list, span, G_N_ELEMENTS(span));
        }
        record_add_list(record, first->name, (int32_t)first->rank, "spans_us", (const double *)(void *)list->data,
                        list->len);
    }
}

void step_record(struct record *record, const struct step_plan *p, const struct step_answer *a, const double *total_ms)
{
    const double us = answer_us(total_ms, p->draws), tokens = step_tokens_per_s(p, us);
    const uint32_t ranks = step_routing(p)->ranks, node = MIN(p->c.ranks_per_node ? p->c.ranks_per_node : 8, ranks);
    header_record(record, p, a);
    add(record, "step", "time_us", us, "us");
    add(record, "step", "time_us_min", 1e3 * stats_min(total_ms, p->draws), "us");
    add(record, "step", "time_us_max", 1e3 * stats_max(total_ms, p->draws), "us");
    if (p->phase == STEP_DECODE && !p->costs.work) add(record, "step", "tpot_ms", us / 1e3, "ms");
    add(record, "step", "tokens_per_s_gpu", tokens / ranks, "1/s");
    add(record, "step", "tokens_per_s_node", tokens / ranks * node, "1/s");
    if (p->phase == STEP_TRAIN) add(record, "step", "tflops_gpu", step_train_tflops(p, us), "TFLOP/s");
    add(record, "step", "layer_us", a->layer_us, "us");
    if (!isnan(a->steady_error_pct)) add(record, "step", "repeated_error_pct", a->steady_error_pct, "%");
    for (int i = 0; i < STEP_PARTS; i++) {
        g_autofree char *metric = g_strdup_printf("%s_pct", step_part_name((enum step_part)i));
        add(record, "step", metric, 100 * part_share(a, a->part_us[i]), "%");
    }
    add(record, "step", "hidden_pct", 100 * part_share(a, a->hidden_us), "%");
    add(record, "step", "waited_us", step_answer_waited_us(a), "us");
    add(record, "step", "awaited_rank", a->awaited, "");
    add(record, "step", "awaited_pct", a->awaited_pct, "%");
    if (p->weight_bytes > 0) add(record, "step", "weights_gb", p->weight_bytes / 1e9, "GB");
    if (p->weight_bytes > 0) add(record, "step", "cache_gb", p->cache_bytes / 1e9, "GB");
    for (guint i = 0; i < a->lines->len; i++) {
        const struct step_line *l = &g_array_index(a->lines, struct step_line, i);
        add(record, l->name, "time_us", l->mean_us, "us");
        add(record, l->name, "time_us_min", l->least_us, "us");
        add(record, l->name, "time_us_max", l->most_us, "us");
        add(record, l->name, "alone_us", l->alone_us, "us");
        add(record, l->name, "waiting_us", l->waiting_us, "us");
        record_add_text(record, l->name, RECORD_ALL, "source", l->source);
    }
    shown_record(record, a);
}

static void ops_append(GString *out, const struct step_answer *a, bool clock)
{
    static const char *const titles[] = { "kernel", "per rank", "us each", "alone", "waiting", "min", "max", "source" };
    struct text_table *table = text_table_new("lrrrrrrl", titles);
    for (guint i = 0; i < a->lines->len; i++) {
        const struct step_line *l = &g_array_index(a->lines, struct step_line, i);
        text_table_cell(table, "%s", l->name);
        text_table_cell(table, "%u", l->kernels);
        text_table_cell(table, "%.1f", l->mean_us);
        text_table_cell(table, "%.1f", l->alone_us);
        text_table_cell(table, "%.1f", l->waiting_us);
        text_table_cell(table, "%.1f", l->least_us);
        text_table_cell(table, "%.1f", l->most_us);
        text_table_cell(table, "%s", l->source);
    }
    text_table_append(table, out);
    text_table_free(table);
    g_string_append_printf(out,
                           "\n"
                           "Us each: from start to end, including waiting: mean, minimum and maximum over ranks.\n"
                           "Alone: no other kernel runs on the GPU, and all ranks start together%s.\n",
                           clock ? "; compute at the clock of continuous load" : "");
}

static void parts_append(GString *out, const struct step_answer *a, double step_us)
{
    static const char *const meaning[STEP_PARTS] = {
        [PART_COMPUTE] = "compute runs",
        [PART_WIRE] = "only communication runs: as long as it takes alone",
        [PART_WAITING] = "only communication runs, while a rank has not started it or rows are late",
        [PART_CONTENTION] = "only communication runs, longer than alone: beside other kernels, or at a lower clock",
        [PART_SMS] = "only communication is ready, but another kernel holds its SMs",
        [PART_HOST] = "no kernel runs: gaps, launches, host waits, waiting for other ranks to end",
    };
    static const char *const titles[] = { "of the step, mean over ranks", "ms", "%", "" };
    struct text_table *table = text_table_new("lrrl", titles);
    for (int i = 0; i < STEP_PARTS; i++) {
        const double share = part_share(a, a->part_us[i]);
        text_table_cell(table, "%s", step_part_name((enum step_part)i));
        text_table_cell(table, "%.2f", share * step_us / 1e3);
        text_table_cell(table, "%.1f", 100 * share);
        text_table_cell(table, "%s", meaning[i]);
    }
    text_table_append(table, out);
    text_table_free(table);
}

static void clock_append(GString *out, const struct step_plan *p)
{
    double least = 1, most = 1;
    if (!(p->costs.clock_ghz > 0)) return;
    for (uint32_t r = 0; p->speed && r < step_routing(p)->ranks; r++) {
        least = fmin(least, p->speed[r]);
        most = fmax(most, p->speed[r]);
    }
    const bool lifts = costs_clock_lift(&p->costs) > 1;
    g_string_append_printf(out, "%s takes as long as at %.2f GHz",
                           lifts ? "Under continuous load arithmetic" : "Arithmetic", p->costs.clock_ghz);
    if (p->speed)
        g_string_append_printf(out, " (by GPU %.2f to %.2f)", p->costs.clock_ghz * least, p->costs.clock_ghz * most);
    g_string_append_printf(out, " where tables have %.2f", p->gpu->clock_ghz);
    g_string_append(out, lifts ? "; a GPU that pauses draws less power and is faster, at most as in tables.\n" : ".\n");
}

/* Says for whom ranks wait, and why.  If the table's waiting is 0.0 %, says only that ranks hardly wait. */
static void waits_append(GString *out, const struct step_answer *a)
{
    const double late_us = step_answer_waited_us(a);
    if (part_share(a, late_us) < 0.0005) {
        g_string_append(out, "Ranks hardly wait for each other.\n");
        return;
    }
    if (a->awaited_pct < 50)
        g_string_append_printf(out,
                               "Ranks wait for different ranks, most for one: %.0f %% of all waiting is for rank %u.",
                               a->awaited_pct, a->awaited);
    else
        g_string_append_printf(out, "Ranks wait most for rank %u, in %.0f %% of all waiting.", a->awaited,
                               a->awaited_pct);
    const char *before = " Of all waiting, ", *late = "is for ranks that are late ";
    for (int i = 0; i < STEP_LATES; i++) {
        const double pct = 100 * a->late_us[i] / late_us;
        if (pct < 0.5) continue;
        g_string_append_printf(out, "%s%.0f %% %sbecause of %s", before, pct, late, step_late_name((enum step_late)i));
        before = ", ";
        late = "";
    }
    g_string_append(out, ".\n");
}

static void explain_append(GString *out, const struct step_plan *p, const struct step_answer *a)
{
    g_string_append_printf(out, "\nSimulated: %u of %u layer%s with experts", a->simulated, a->layers,
                           a->layers == 1 ? "" : "s");
    if (a->layers > a->simulated) {
        g_string_append_printf(out, "; each further one counts %.1f us, the mean of %u of these.\n", a->layer_us,
                               a->steady);
        if (isnan(a->steady_error_pct))
            g_string_append(out, "Too few were simulated to say by how much further ones may change the step.\n");
        else
            g_string_append_printf(out, "%s may change the step by %.2f %%%s.\n",
                                   p->run.loads > 1 ? "Other layers' routings" : "Layers that have not settled",
                                   a->steady_error_pct, p->run.loads > 1 ? " (in 9 of 10 cases by less)" : "");
    } else g_string_append(out, ".\n");
    g_string_append_printf(out, "Communication runs during compute for %.1f %% of the step.\n",
                           100 * part_share(a, a->hidden_us));
    waits_append(out, a);
    if (p->weight_bytes > 0)
        g_string_append_printf(out, "A GPU holds %.1f GB of weights and %.1f GB of cache, of %g GB.\n",
                               p->weight_bytes / 1e9, p->cache_bytes / 1e9, p->gpu->memory_gb);
    clock_append(out, p);
    if (p->run.loads == 1) g_string_append(out, "All layers have the same routing.\n");
    else if (p->run.loads == a->simulated) g_string_append(out, "Each layer has its own routing.\n");
    else g_string_append_printf(out, "Layers use the %u routings of the trace in turn.\n", p->run.loads);
    if (p->c.num_groups && p->c.num_topk_groups)
        g_string_append_printf(out, "A token's experts are in %u of %u groups, as in the model's gate.\n",
                               p->c.num_topk_groups, p->c.num_groups);
    if (p->costs.work) return;
    if (p->phase == STEP_TRAIN)
        g_string_append(
            out, "Backward, a GEMM counts twice (dgrad, wgrad), with its casts to FP8; norms, gates of feed-forwards "
                 "and latent attention's up-projections count again.  Stages of a pipeline divide the time and the "
                 "GPUs alike.\n");
    g_string_append(out, p->phase == STEP_TRAIN
                             ? "Not counted: the optimizer, a pipeline's bubbles and transfers, small kernels"
                             : "Not counted: the engine's scheduler and sampling");
    if (p->costs.attention_tp > 1) g_string_append(out, ", the all-reduce of attention's ranks");
    g_string_append(out, p->run.contention ? ".\n" : ", contention of kernels on one GPU for memory and clock.\n");
}

/* Says how far measured steps of this phase were from their predictions. */
static void error_append(GString *out, const struct step_plan *p)
{
    struct accuracy accuracy;
    accuracy_find(p->run.cluster, "step", step_phase_name(p->phase), "any", &accuracy);
    if (accuracy.rows)
        g_string_append_printf(out,
                               "  off by          %10.0f %%    (of %u measured %s steps, 9 of 10 were predicted within "
                               "that)\n",
                               accuracy.p90_pct, accuracy.rows, step_phase_name(p->phase));
    else g_string_append_printf(out, "  off by          %10s      (fewer than 5 such steps were measured)\n", "-");
}

/* Says if the trace has other experts than the net, which stand in place of the net's. */
static void experts_append(GString *out, const struct step_plan *p)
{
    const struct routing *const r = step_routing(p);
    if (!p->c.trace || p->costs.work || (r->experts == p->net->experts && r->topk == p->net->topk)) return;
    g_string_append_printf(out, " with the trace's %u of %u experts, not %u of %u", r->topk, r->experts, p->net->topk,
                           p->net->experts);
}

void step_text_append(GString *out, const struct step_plan *p, const struct step_answer *a, const double *total_ms,
                      bool explain)
{
    const uint32_t ranks = step_routing(p)->ranks, node = MIN(p->c.ranks_per_node ? p->c.ranks_per_node : 8, ranks);
    const double us = answer_us(total_ms, p->draws), tokens = step_tokens_per_s(p, us);
    assert(us > 0 && isfinite(tokens));
    g_string_append_printf(out, "%s", p->net->name);
    experts_append(out, p);
    if (p->costs.work) g_string_append_printf(out, " and %u token%s per rank", p->batch, p->batch == 1 ? "" : "s");
    else
        g_string_append_printf(out, ", %s of %u token%s per GPU, context %g",
                               p->phase == STEP_TRAIN ? "training" : step_phase_name(p->phase), p->batch,
                               p->batch == 1 ? "" : "s", p->costs.context);
    g_string_append_printf(out, ", %u rank%s of %s, %s, %s\n\n", ranks, ranks == 1 ? "" : "s", p->run.cluster->name,
                           p->c.kernel, step_overlap_name(p->run.overlap));
    g_string_append_printf(out, "  step            %10.2f ms", us / 1e3);
    if (p->draws > 1)
        g_string_append_printf(
            out, "   (median of %u draws, %.2f to %.2f: clocks of GPUs differ by %g %%, kernels by %g %%)", p->draws,
            stats_min(total_ms, p->draws), stats_max(total_ms, p->draws), 100 * p->run.spread, 100 * p->run.jitter);
    g_string_append_printf(out, "\n  tokens/s, GPU   %10.0f\n  tokens/s, node  %10.0f   (%u GPU%s)\n", tokens / ranks,
                           tokens / ranks * node, node, node == 1 ? "" : "s");
    if (p->phase == STEP_TRAIN)
        g_string_append_printf(
            out, "  TFLOP/s, GPU    %10.0f   (the model's own arithmetic: three times the forward pass)\n",
            step_train_tflops(p, us));
    if (p->phase == STEP_TRAIN && !p->own)
        g_string_append(
            out, "  Compute is more likely too short than too long: shipped tables lack small kernels of training.\n");
    if (p->phase == STEP_DECODE && !p->costs.work)
        g_string_append_printf(out, "  TPOT            %10.2f ms   (a token of each sequence a step)\n", us / 1e3);
    if (!p->costs.work) error_append(out, p);
    g_string_append_c(out, '\n');
    parts_append(out, a, us);
    g_string_append_c(out, '\n');
    ops_append(out, a, p->costs.clock_ghz > 0);
    if (explain) explain_append(out, p, a);
}
