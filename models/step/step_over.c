/* step_over.c - runs steps over values of options, see step_over.h. */
#include "models/step/step_over.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "reports/record.h"
#include "reports/text_table.h"
#include "sim/ranges.h"
#include "sim/stats.h"

enum { POINTS_MAX = 4096, VALUES_MAX = 256, NUMBER_MAX = 1 << 24 };

struct axis {
    char *name;
    GPtrArray *values; /* char * */
};

struct point {
    double ms, tokens_gpu, part_pct[STEP_PARTS], hidden_pct;
    char *problem; /* NULL: none */
};

struct step_over {
    GPtrArray *axes; /* struct axis * */
    struct point *point;
    uint32_t points;
    const struct step_options *options; /* the rest are of the run alone */
    const struct case_options *c;
    const struct cluster *cluster;
    atomic_uint next;
};

/* ---- what varies ---- */

static void axis_free(gpointer data)
{
    struct axis *axis = data;
    g_free(axis->name);
    g_ptr_array_free(axis->values, TRUE);
    g_free(axis);
}

static int *number_of(struct step_options *o, const char *name)
{
    const struct {
        const char *name;
        int *value;
    } numbers[] = { { "batch", &o->batch },         { "context", &o->context },
                    { "redundant", &o->redundant }, { "attention-tp", &o->attention_tp },
                    { "draws", &o->draws },         { "leave-sms", &o->leave_sms } };
    for (size_t i = 0; i < G_N_ELEMENTS(numbers); i++)
        if (strcmp(numbers[i].name, name) == 0) return numbers[i].value;
    return NULL;
}

static char **text_of(struct step_options *o, const char *name)
{
    const struct {
        const char *name;
        char **value;
    } texts[] = { { "net", &o->net },           { "gpu", &o->gpu },       { "phase", &o->phase },
                  { "schedule", &o->schedule }, { "layers", &o->layers }, { "table", &o->table } };
    for (size_t i = 0; i < G_N_ELEMENTS(texts); i++)
        if (strcmp(texts[i].name, name) == 0) return texts[i].value;
    return NULL;
}

static bool values_add(struct axis *axis, const char *text, GError **error)
{
    struct ranges range = { 0 };
    const bool is_range = g_ascii_isdigit(*text) && strchr(text, ':');
    const bool good = is_range ? ranges_parse(text, NUMBER_MAX, VALUES_MAX, &range) : *text != 0;
    for (uint32_t i = 0; i < range.count; i++) g_ptr_array_add(axis->values, g_strdup_printf("%u", range.number[i]));
    if (good && !is_range) g_ptr_array_add(axis->values, g_strdup(text));
    ranges_free(&range);
    if (good && axis->values->len <= VALUES_MAX) return true;
    g_set_error(error, STEP_OVER_ERROR, STEP_OVER_ERROR_OPTION,
                "--over %s: expected 1 to %d values (N, A:B, A:B:STEP, A:B:xFACTOR or words), found '%s'", axis->name,
                VALUES_MAX, text);
    return false;
}

static struct axis *axis_parse(const char *text, GError **error)
{
    struct step_options unused = { 0 };
    g_auto(GStrv) side = g_strsplit(text, "=", 2);
    struct axis *axis = g_new0(struct axis, 1);
    axis->name = g_strdup(side[0] ? side[0] : "");
    axis->values = g_ptr_array_new_with_free_func(g_free);
    bool good = g_strv_length(side) == 2 &&
                (number_of(&unused, axis->name) || text_of(&unused, axis->name) || case_has(axis->name));
    if (!good)
        g_set_error(error, STEP_OVER_ERROR, STEP_OVER_ERROR_OPTION,
                    "--over: expected NAME=VALUE,VALUE,... with an option of eptwin step, found \"%s\"", text);
    g_auto(GStrv) words = g_strsplit(good ? side[1] : "", ",", 0);
    for (char **w = words; good && *w; w++) good = values_add(axis, g_strstrip(*w), error);
    if (good && axis->values->len) return axis;
    if (good)
        g_set_error(error, STEP_OVER_ERROR, STEP_OVER_ERROR_OPTION, "--over %s: expected values, found none",
                    axis->name);
    axis_free(axis);
    return NULL;
}

static const char *value_of(const struct step_over *over, uint32_t point, uint32_t axis)
{
    uint32_t number = point;
    for (uint32_t a = over->axes->len; a-- > axis;) {
        const struct axis *at = over->axes->pdata[a];
        if (a == axis) return at->values->pdata[number % at->values->len];
        number /= at->values->len;
    }
    return "";
}

/* ---- running ---- */

static bool value_set(struct step_options *o, struct case_options *c, const char *name, const char *text,
                      GError **error)
{
    int *number = number_of(o, name);
    char **word = text_of(o, name);
    guint64 parsed;
    if (word) *word = (char *)text;
    else if (number && g_ascii_string_to_unsigned(text, 10, 0, NUMBER_MAX, &parsed, error)) *number = (int)parsed;
    else if (number) return false;
    return word || number || case_set(c, name, text, error);
}

static void answer_take(struct point *p, struct step_plan *plan, const struct step_answer *a, double ms)
{
    const double per_gpu = plan->load.routing.ranks;
    p->ms = ms;
    p->tokens_gpu = step_tokens_per_s(plan, 1e3 * ms) / per_gpu;
    p->hidden_pct = 100 * a->hidden_us / a->sim_us;
    for (int i = 0; i < STEP_PARTS; i++) p->part_pct[i] = 100 * a->part_us[i] / a->sim_us;
}

/* The median of its draws; the parts of the first. */
static bool point_run(const struct step_over *over, uint32_t number, GError **error)
{
    struct step_options o = *over->options;
    struct case_options c;
    struct step_plan plan = { 0 };
    struct point *p = &over->point[number];
    case_copy(&c, over->c);
    bool good = true;
    for (uint32_t a = 0; good && a < over->axes->len; a++)
        good = value_set(&o, &c, ((const struct axis *)over->axes->pdata[a])->name, value_of(over, number, a), error);
    const uint32_t draws = o.draws > 0 ? (uint32_t)o.draws : 1;
    g_autofree double *ms = g_new0(double, draws);
    if (good) {
        good = step_plan_make(&plan, &o, &c, over->cluster, error);
        for (uint32_t d = draws; good && d-- > 0;) { /* the first one last: the time that others have is known then */
            struct step_run *run = step_plan_run(&plan, d, error);
            struct step_answer *answer = run ? step_answer_new(run, plan.layers) : NULL;
            good = run != NULL;
            if (good) ms[d] = answer->total_us / 1e3;
            if (good && d == 0) answer_take(p, &plan, answer, stats_median(ms, draws));
            step_answer_free(answer);
            step_run_free(run);
        }
        step_plan_clear(&plan);
    }
    case_clear(&c);
    return good;
}

static gpointer points_thread(gpointer data)
{
    struct step_over *over = data;
    for (uint32_t i; (i = atomic_fetch_add(&over->next, 1)) < over->points;) {
        GError *error = NULL;
        if (point_run(over, i, &error)) continue;
        over->point[i].problem = g_strdup(error->message);
        g_error_free(error);
    }
    return NULL;
}

struct step_over *step_over_run(const char *const *texts, const struct step_options *options,
                                const struct case_options *c, const struct cluster *cluster, uint32_t jobs,
                                GError **error)
{
    struct step_over *over = g_new0(struct step_over, 1);
    over->axes = g_ptr_array_new_with_free_func(axis_free);
    over->points = 1;
    for (const char *const *t = texts; *t; t++) {
        struct axis *axis = axis_parse(*t, error);
        if (axis) g_ptr_array_add(over->axes, axis);
        if (axis && (uint64_t)over->points * axis->values->len <= POINTS_MAX) {
            over->points *= axis->values->len;
            continue;
        }
        if (axis)
            g_set_error(error, STEP_OVER_ERROR, STEP_OVER_ERROR_OPTION,
                        "--over: expected at most %d combinations, found more", POINTS_MAX);
        over->points = 0;
        step_over_free(over);
        return NULL;
    }
    over->point = g_new0(struct point, over->points);
    over->options = options;
    over->c = c;
    over->cluster = cluster;
    const uint32_t threads = MIN(jobs ? jobs : g_get_num_processors(), over->points);
    g_autofree GThread **thread = g_new0(GThread *, threads);
    for (uint32_t i = 0; i < threads; i++) thread[i] = g_thread_new("step", points_thread, over);
    for (uint32_t i = 0; i < threads; i++) g_thread_join(thread[i]);
    return over;
}

void step_over_free(struct step_over *over)
{
    if (!over) return;
    for (uint32_t i = 0; i < over->points; i++) g_free(over->point[i].problem);
    g_free(over->point);
    g_ptr_array_free(over->axes, TRUE);
    g_free(over);
}

/* ---- what came out ---- */

/* The point with the first value of the last option, the rest alike. */
static const struct point *base_of(const struct step_over *over, uint32_t point)
{
    const struct axis *last = over->axes->pdata[over->axes->len - 1];
    return &over->point[point - point % last->values->len];
}

/* How much faster than its base, in percent; NAN where one of both cannot be. */
static double gain_pct(const struct step_over *over, uint32_t point)
{
    const struct point *p = &over->point[point], *base = base_of(over, point);
    return p->problem || base->problem ? NAN : 100 * (base->ms / p->ms - 1);
}

void step_over_csv_append(GString *out, const struct step_over *over)
{
    for (guint a = 0; a < over->axes->len; a++) {
        record_csv_field_append(out, ((const struct axis *)over->axes->pdata[a])->name);
        g_string_append_c(out, ',');
    }
    g_string_append(out, "step_ms,tokens_per_s_gpu,gain_pct,hidden_pct");
    for (int i = 0; i < STEP_PARTS; i++) g_string_append_printf(out, ",%s_pct", step_part_name((enum step_part)i));
    g_string_append(out, ",problem\n");
    for (uint32_t n = 0; n < over->points; n++) {
        const struct point *p = &over->point[n];
        for (guint a = 0; a < over->axes->len; a++) {
            record_csv_field_append(out, value_of(over, n, a));
            g_string_append_c(out, ',');
        }
        if (p->problem) {
            for (int i = 0; i < 4 + STEP_PARTS; i++) g_string_append_c(out, ',');
            record_csv_field_append(out, p->problem);
        } else {
            const double gain = gain_pct(over, n);
            g_string_append_printf(out, "%.3f,%.1f,", p->ms, p->tokens_gpu);
            if (!isnan(gain)) g_string_append_printf(out, "%.2f", gain);
            g_string_append_printf(out, ",%.2f", p->hidden_pct);
            for (int i = 0; i < STEP_PARTS; i++) g_string_append_printf(out, ",%.2f", p->part_pct[i]);
            g_string_append_c(out, ',');
        }
        g_string_append_c(out, '\n');
    }
}

/* "schedule stages pays from batch 128 on": where the option before the last one rises, and the gain changes its sign
 * once at most. */
static void threshold_append(GString *out, const struct step_over *over, uint32_t value)
{
    const uint32_t axes = over->axes->len;
    const struct axis *last = over->axes->pdata[axes - 1], *before = axes > 1 ? over->axes->pdata[axes - 2] : NULL;
    if (!before || axes > 2) return;
    int first = -1, changes = 0;
    for (guint b = 0; b < before->values->len; b++) {
        const double gain = gain_pct(over, b * last->values->len + value);
        if (isnan(gain)) return;
        const bool pays = gain > 0, paid = b > 0 && gain_pct(over, (b - 1) * last->values->len + value) > 0;
        changes += b > 0 && pays != paid;
        if (pays && first < 0) first = (int)b;
    }
    const char *what = last->values->pdata[value], *against = last->values->pdata[0];
    if (first < 0) g_string_append_printf(out, "%s %s is nowhere faster than %s here.\n", last->name, what, against);
    else if (changes == 0)
        g_string_append_printf(out, "%s %s is faster than %s everywhere here.\n", last->name, what, against);
    else if (changes == 1 && first > 0)
        g_string_append_printf(out, "%s %s is faster than %s from %s %s on, of those here.\n", last->name, what,
                               against, before->name, (const char *)before->values->pdata[first]);
    else
        g_string_append_printf(out, "%s %s is faster than %s at some values of %s.\n", last->name, what, against,
                               before->name);
}

void step_over_text_append(GString *out, const struct step_over *over)
{
    const uint32_t axes = over->axes->len;
    const struct axis *last = over->axes->pdata[axes - 1];
    GPtrArray *titles = g_ptr_array_new();
    GString *format = g_string_new(NULL);
    for (guint a = 0; a < axes; a++) {
        g_ptr_array_add(titles, ((const struct axis *)over->axes->pdata[a])->name);
        g_string_append_c(format, 'r');
    }
    static const char *const rest[] = { "step ms", "tokens/s, GPU", "gain %", "wire %", "waiting %", "hidden %", "" };
    for (size_t i = 0; i < G_N_ELEMENTS(rest); i++) g_ptr_array_add(titles, (gpointer)rest[i]);
    g_string_append(format, "rrrrrrl");
    struct text_table *table = text_table_new(format->str, (const char *const *)titles->pdata);
    for (uint32_t n = 0; n < over->points; n++) {
        const struct point *p = &over->point[n];
        const double gain = gain_pct(over, n),
                     numbers[] = { p->part_pct[PART_WIRE], p->part_pct[PART_WAITING], p->hidden_pct };
        for (guint a = 0; a < axes; a++) text_table_cell(table, "%s", value_of(over, n, a));
        text_table_cell(table, p->problem ? "-" : "%.2f", p->ms);
        text_table_cell(table, p->problem ? "-" : "%.0f", p->tokens_gpu);
        if (isnan(gain) || p == base_of(over, n)) text_table_cell(table, "%s", "");
        else text_table_cell(table, "%+.1f", gain);
        for (size_t i = 0; i < G_N_ELEMENTS(numbers); i++)
            text_table_cell(table, p->problem ? "-" : "%.1f", numbers[i]);
        text_table_cell(table, "%s", p->problem ? p->problem : "");
    }
    text_table_append(table, out);
    text_table_free(table);
    g_string_free(format, TRUE);
    g_ptr_array_free(titles, TRUE);
    if (last->values->len > 1) g_string_append(out, "\ngain: against the first value of the last option\n");
    for (guint v = 1; v < last->values->len; v++) threshold_append(out, over, v);
}
