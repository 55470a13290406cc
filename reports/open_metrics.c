/* open_metrics.c - a record as OpenMetrics text; see record_forms.h. */
#include "reports/record_forms.h"

#include <math.h>
#include <string.h>

/* A family of metrics.  Its samples are gathered row by row. */
struct family {
    char *name;
    const char *unit, *help;
    GString *samples;
};

static void family_free(gpointer data)
{
    struct family *f = data;
    g_free(f->name);
    g_string_free(f->samples, TRUE);
    g_free(f);
}

static struct family *family_of(GPtrArray *families, const char *name, const char *unit, const char *help)
{
    for (guint i = 0; i < families->len; i++) {
        struct family *f = g_ptr_array_index(families, i);
        if (strcmp(f->name, name) == 0) return f;
    }
    struct family *f = g_new0(struct family, 1);
    *f = (struct family){ .name = g_strdup(name), .unit = unit, .help = help, .samples = g_string_new(NULL) };
    g_ptr_array_add(families, f);
    return f;
}

static void label_append(GString *out, const char *name, const char *value)
{
    g_string_append_printf(out, "%s%s=\"", out->str[out->len - 1] == '{' ? "" : ",", name);
    for (; *value; value++) {
        if (*value == '\\' || *value == '"') g_string_append_c(out, '\\');
        if (*value == '\n') g_string_append(out, "\\n");
        else g_string_append_c(out, *value);
    }
    g_string_append_c(out, '"');
}

static void rank_append(GString *out, const char *name, int64_t rank)
{
    char text[24];
    g_snprintf(text, sizeof text, "%" G_GINT64_FORMAT, rank);
    label_append(out, name, rank == RECORD_ALL ? "all" : text);
}

static void sample_end(GString *out, double value)
{
    char text[RECORD_NUMBER_MAX];
    record_number_format(text, value);
    g_string_append_printf(out, "} %s\n", isfinite(value) ? text : "NaN");
}

static void sample_add(struct family *f, const char *phase, int32_t rank, double value)
{
    g_string_append_printf(f->samples, "%s{", f->name);
    label_append(f->samples, "phase", phase);
    rank_append(f->samples, "rank", rank);
    sample_end(f->samples, value);
}

/* Sets the metric's name and value in base units: "time_us_max" becomes "eptwin_time_max_seconds". */
static bool metric_name(const struct record_row *row, char *name, size_t size, const char **unit, double *value)
{
    static const struct {
        const char *unit, *word, *base;
        double times, over;
    } units[] = { { "us", "_us", "seconds", 1, 1e6 },
                  { "GB/s", "_gbs", "bytes_per_second", 1e9, 1 },
                  { "%", "_pct", "ratio", 1, 100 } };
    for (size_t i = 0; i < G_N_ELEMENTS(units); i++) {
        if (strcmp(row->unit, units[i].unit) != 0) continue;
        const char *at = strstr(row->metric, units[i].word);
        const size_t before = at ? (size_t)(at - row->metric) : strlen(row->metric);
        g_snprintf(name, size, "eptwin_%.*s%s_%s", (int)before, row->metric, at ? at + strlen(units[i].word) : "",
                   units[i].base);
        for (char *c = name; *c; c++)
            if (!g_ascii_isalnum(*c)) *c = '_';
        *unit = units[i].base;
        *value = row->value * units[i].times / units[i].over;
        return isfinite(*value);
    }
    return false;
}

static void waits_add(GPtrArray *families, const struct record_row *row)
{
    uint32_t count = 0;
    g_autofree double *us = record_row_list(row, &count);
    struct family *f = family_of(families, "eptwin_wait_seconds", "seconds", "How long a rank waited for another one");
    for (uint32_t r = 0; us && r < count; r++) {
        g_string_append_printf(f->samples, "%s{", f->name);
        label_append(f->samples, "phase", row->phase);
        rank_append(f->samples, "rank", row->rank);
        rank_append(f->samples, "for_rank", r);
        sample_end(f->samples, us[r] / 1e6);
    }
}

/* Adds the error of a row's time: (predicted - measured) / measured, as in `eptwin compare`. */
static void error_add(GPtrArray *families, const struct record_row *row, const struct record *predicted)
{
    const struct record_row *other = predicted ? record_find(predicted, row->phase, row->rank, "time_us") : NULL;
    if (!other || !(row->value > 0) || strcmp(row->metric, "time_us") != 0) return;
    sample_add(family_of(families, "eptwin_predicted_time_seconds", "seconds", "Time of the kernel as predicted"),
               row->phase, row->rank, other->value / 1e6);
    sample_add(
        family_of(families, "eptwin_prediction_error_ratio", "ratio", "Predicted minus measured time over measured"),
        row->phase, row->rank, (other->value - row->value) / row->value);
}

static void info_append(const struct record *record, GString *out)
{
    static const char *const keys[] = { "kind",      "version",    "cluster", "fabric", "kernel",
                                        "num-ranks", "num-tokens", "hidden",  "checks" };
    g_string_append(out, "# TYPE eptwin_run info\n# HELP eptwin_run The run that these are of\neptwin_run_info{");
    for (size_t i = 0; i < G_N_ELEMENTS(keys); i++) {
        const char *value = record_get(record, keys[i]);
        g_autofree char *name = g_strdelimit(g_strdup(keys[i]), "-", '_');
        if (value) label_append(out, name, value);
    }
    g_string_append(out, "} 1\n");
}

GString *open_metrics_text(const struct record *record, const struct record *predicted)
{
    g_autoptr(GPtrArray) families = g_ptr_array_new_with_free_func(family_free);
    for (uint32_t i = 0; i < record_row_count(record); i++) {
        const struct record_row *row = record_row(record, i);
        char name[160];
        const char *unit;
        double value;
        if (strcmp(row->metric, "waits_us") == 0) waits_add(families, row);
        else if (metric_name(row, name, sizeof name, &unit, &value))
            sample_add(family_of(families, name, unit, "See reports/README.md of eptwin"), row->phase, row->rank,
                       value);
        error_add(families, row, predicted);
    }
    GString *out = g_string_new(NULL);
    info_append(record, out);
    for (guint i = 0; i < families->len; i++) {
        const struct family *f = g_ptr_array_index(families, i);
        g_string_append_printf(out, "# TYPE %s gauge\n# UNIT %s %s\n# HELP %s %s\n%s", f->name, f->name, f->unit,
                               f->name, f->help, f->samples->str);
    }
    g_string_append(out, "# EOF\n");
    return out;
}
