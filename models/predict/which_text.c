/* which_text.c - the result of eptwin which, in words and as a record.  Runs nothing. */
#include "models/predict/which.h"

#include <string.h>
#include "models/predict/accuracy.h"
#include "reports/text_table.h"

static char *backend_text(const struct which_backend *b)
{
    return b->transport ? g_strdup_printf("%s over %s", b->name, b->transport) : g_strdup(b->name);
}

static const struct which_point *own_point(const struct which *w) { return w->points->pdata[0]; }

/* The errors of a backend's dispatch or combine at a point.  If no dispatch or combine was measured alone, these are
 * the errors of its span of kernels. */
static bool half_errors_find(const struct which *w, const struct which_point *p, uint32_t place, enum which_time half,
                             struct accuracy *errors)
{
    const struct which_backend *b = &w->backend[p->order[place]];
    const char *phase = which_time_name(half), *poster = b->transport ? b->transport : "node";
    g_autofree char *span = g_strconcat(phase, "_span", NULL);
    *errors = (struct accuracy){ 0 };
    if (!accuracy_tells(&w->base, b->kernel, poster)) return false;
    return accuracy_find(w->cluster, b->kernel, phase, poster, errors) ||
           accuracy_find(w->cluster, b->kernel, span, poster, errors);
}

/* The errors of the time that the order is by.  A layer has those of its worse half; rows 0 if a half has no errors. */
static void errors_find(const struct which *w, const struct which_point *p, uint32_t place, struct accuracy *errors)
{
    struct accuracy combine = { 0 };
    *errors = (struct accuracy){ 0 };
    if (w->by != WHICH_LAYER) half_errors_find(w, p, place, w->by, errors);
    else if (half_errors_find(w, p, place, WHICH_DISPATCH, errors)) {
        half_errors_find(w, p, place, WHICH_COMBINE, &combine);
        if (!combine.rows || combine.p90_pct > errors->p90_pct) *errors = combine;
    }
}

/* How much longer the backend at a place of the order takes than the first, in percent. */
static double slower_pct(const struct which *w, const struct which_point *p, uint32_t place)
{
    return 100 * (p->answer[p->order[place]].us[w->by] / p->answer[p->order[0]].us[w->by] - 1);
}

/* Whether the second backend is slower than the first by more than both predictions are off by together, one too long
 * and one too short (90th percentiles).  If it is slower by less, if by more than the larger of the two errors,
 * measured orders can be the other way round (tests/accuracy/orders).  False if an error is not known. */
static bool first_sure(const struct which *w, const struct which_point *p)
{
    struct accuracy first, second;
    errors_find(w, p, 0, &first);
    errors_find(w, p, 1, &second);
    const double both = (1 + first.p90_pct / 100) * (1 + second.p90_pct / 100);
    return first.rows && second.rows && slower_pct(w, p, 1) > 100 * (both - 1);
}

/* ---- the order of the case ---- */

static void order_append(const struct which *w, const struct which_point *point, GString *out)
{
    static const char *const titles[] = { "",       "backend", "layer us", "dispatch us", "combine us",
                                          "slower", "off by",  "SMs",      "bound by" };
    g_autoptr(text_table) table = text_table_new("rlrrrrrrl", titles);
    g_string_append_c(out, '\n');
    for (uint32_t i = 0; i < point->good; i++) {
        const struct which_answer *a = &point->answer[point->order[i]];
        g_autofree char *name = backend_text(&w->backend[point->order[i]]);
        text_table_cell(table, "%u", i + 1);
        text_table_cell(table, "%s", name);
        for (int t = 0; t < WHICH_TIMES; t++) text_table_cell(table, "%.1f", a->us[t]);
        if (i) text_table_cell(table, "%.0f %%", slower_pct(w, point, i));
        else text_table_cell(table, "-");
        struct accuracy errors;
        errors_find(w, point, i, &errors);
        g_autofree char *off = accuracy_text(&errors);
        text_table_cell(table, "%s", off);
        text_table_cell(table, "%u", a->sms);
        text_table_cell(table, "%s: %s", a->phase[w->by], a->bound[w->by]);
    }
    text_table_append(table, out);
}

static void refused_append(const struct which *w, const struct which_point *point, GString *out)
{
    if (point->good < point->asked) g_string_append(out, "\nRefused:\n");
    for (uint32_t i = point->good; i < point->asked; i++) {
        g_autofree char *name = backend_text(&w->backend[point->order[i]]);
        g_string_append_printf(out, "  %s: %s\n", name, point->answer[point->order[i]].problem);
    }
}

/* ---- where the order changes ---- */

/* Orders points by ranks, then tokens.  The points of one list differ from the case's own only in ranks, or only in
 * tokens. */
static gint point_order(gconstpointer one, gconstpointer other)
{
    const struct which_point *a = *(struct which_point *const *)one, *b = *(struct which_point *const *)other;
    if (a->ranks != b->ranks) return a->ranks < b->ranks ? -1 : 1;
    return a->tokens < b->tokens ? -1 : a->tokens > b->tokens;
}

static GPtrArray *points_over(const struct which *w, bool over_ranks)
{
    const struct which_point *own = own_point(w);
    GPtrArray *points = g_ptr_array_new();
    for (guint i = 0; i < w->points->len; i++) {
        const struct which_point *p = w->points->pdata[i];
        if (over_ranks ? p->tokens == own->tokens : p->ranks == own->ranks) g_ptr_array_add(points, (gpointer)p);
    }
    g_ptr_array_sort(points, point_order);
    return points;
}

static void turn_append(const struct which *w, const struct which_point *before, const struct which_point *after,
                        bool over_ranks, GString *out)
{
    const struct which_backend *x = which_first(w, before), *y = which_first(w, after);
    if (!x || !y || x == y) return;
    if ((!x->transport || !y->transport) && strcmp(x->name, y->name) == 0) return; /* differs only by using a NIC */
    g_autofree char *one = backend_text(x), *other = backend_text(y);
    g_string_append_printf(out, "The order changes between %u and %u %s: from %s to %s.\n",
                           over_ranks ? before->ranks : before->tokens, over_ranks ? after->ranks : after->tokens,
                           over_ranks ? "ranks" : "tokens", one, other);
}

static void turns_append(const struct which *w, bool over_ranks, GString *out)
{
    const char *const titles[] = { over_ranks ? "ranks" : "tokens", "first", "us", "second", "us", "slower", "sure" };
    g_autoptr(GPtrArray) points = points_over(w, over_ranks);
    g_autoptr(text_table) table = text_table_new("rlrlrrl", titles);
    for (guint i = 0; points->len > 1 && i < points->len; i++) {
        const struct which_point *p = points->pdata[i];
        text_table_cell(table, "%u", over_ranks ? p->ranks : p->tokens);
        for (uint32_t k = 0; k < 2; k++) {
            g_autofree char *name = backend_text(&w->backend[p->order[k]]);
            text_table_cell(table, "%s", k < p->good ? name : "-");
            text_table_cell(table, k < p->good ? "%.1f" : "-", p->answer[p->order[k]].us[w->by]);
        }
        if (p->good < 2) text_table_cell(table, "-");
        else text_table_cell(table, "%.0f %%", slower_pct(w, p, 1));
        text_table_cell(table, p->good < 2 ? "-" : first_sure(w, p) ? "yes" : "no");
    }
    if (points->len > 1) {
        g_string_append_c(out, '\n');
        text_table_append(table, out);
        const gsize told = out->len;
        for (guint i = 1; i < points->len; i++) turn_append(w, points->pdata[i - 1], points->pdata[i], over_ranks, out);
        if (out->len == told) g_string_append(out, "The same backend is first for all of them.\n");
    }
}

void which_text_append(const struct which *w, GString *out)
{
    const struct which_point *own = own_point(w);
    g_string_append_printf(out, "%s: %u rank%s, %u token%s of %u each, %u of %u expert%s", w->cluster->name, own->ranks,
                           own->ranks == 1 ? "" : "s", own->tokens, own->tokens == 1 ? "" : "s", w->base.hidden,
                           w->topk, w->experts, w->experts == 1 ? "" : "s");
    if (w->topk_nodes)
        g_string_append_printf(out, " on at most %u node%s", w->topk_nodes, w->topk_nodes == 1 ? "" : "s");
    g_string_append_printf(out, ": %u of %u backend%s can run\n", own->good, own->asked, own->asked == 1 ? "" : "s");
    if (own->good) order_append(w, own, out);
    refused_append(w, own, out);
    if (!own->good) return;
    turns_append(w, false, out);
    turns_append(w, true, out);
    g_string_append_printf(
        out,
        "\n"
        "Times are sums over a layer's kernels, each by its slowest rank.  Dispatch includes layout and notify,\n"
        "combine includes its preparation.  Ranked by the %s's time.  Bound by: the bound of its longest kernel.\n"
        "%s%s",
        which_time_name(w->by), accuracy_note,
        w->points->len > 1 ? "Sure: the second is slower by more than both errors together.\n" : "");
    if (w->base.hook)
        g_string_append(
            out,
            "With --hook, transfers between a send and a receive kernel do not count, because compute hides them.\n");
}

/* ---- the record ---- */

static void answer_record(const struct which *w, const struct which_point *own, uint32_t place, struct record *record)
{
    const struct which_answer *a = &own->answer[own->order[place]];
    g_autofree char *name = backend_text(&w->backend[own->order[place]]);
    record_add_text(record, name, RECORD_ALL, "kernel", w->backend[own->order[place]].kernel);
    if (a->problem) {
        record_add_text(record, name, RECORD_ALL, "problem", a->problem);
        return;
    }
    record_add(record, name, RECORD_ALL, "place", place + 1, "");
    for (int t = 0; t < WHICH_TIMES; t++) {
        g_autofree char *us = g_strdup_printf("%s_us", which_time_name((enum which_time)t));
        g_autofree char *bound = g_strdup_printf("%s_bound", which_time_name((enum which_time)t));
        g_autofree char *text =
            g_strdup_printf("%s: %s", a->phase[t] ? a->phase[t] : "", a->bound[t] ? a->bound[t] : "");
        record_add(record, name, RECORD_ALL, us, a->us[t], "us");
        record_add_text(record, name, RECORD_ALL, bound, text);
    }
    record_add(record, name, RECORD_ALL, "num_sms", a->sms, "");
}

/* Records a point's times, as metrics such as "layer_us_tokens_512" or "layer_us_ranks_64". */
static void point_record(const struct which *w, const struct which_point *p, bool over_ranks, struct record *record)
{
    g_autofree char *metric = g_strdup_printf("%s_us_%s_%u", which_time_name(w->by), over_ranks ? "ranks" : "tokens",
                                              over_ranks ? p->ranks : p->tokens);
    for (uint32_t i = 0; i < p->good; i++) {
        g_autofree char *name = backend_text(&w->backend[p->order[i]]);
        record_add(record, name, RECORD_ALL, metric, p->answer[p->order[i]].us[w->by], "us");
    }
}

void which_record(const struct which *w, struct record *record)
{
    const struct which_point *own = own_point(w);
    record_set(record, "num-ranks", "%u", own->ranks);
    record_set(record, "num-tokens", "%u", own->tokens);
    record_set(record, "hidden", "%u", w->base.hidden);
    record_set(record, "num-topk", "%u", w->topk);
    record_set(record, "num-experts", "%u", w->experts);
    if (!w->base.trace) record_set(record, "seed", "%" G_GUINT64_FORMAT, w->base.seed);
    record_set(record, "by", "%s", which_time_name(w->by));
    for (uint32_t i = 0; i < own->asked; i++) answer_record(w, own, i, record);
    for (int over_ranks = 0; over_ranks < 2; over_ranks++) {
        g_autoptr(GPtrArray) points = points_over(w, over_ranks);
        for (guint i = 0; points->len > 1 && i < points->len; i++)
            point_record(w, points->pdata[i], over_ranks, record);
    }
}
