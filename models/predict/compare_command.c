/* compare_command.c - eptwin compare: pairs of records in; a table, words and a summary out.
 *
 * This file knows options and files.  reports/compare.c compares, compare_text.c finds words for the result, and
 * diagnose.h finds causes. */
#include <glib.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/predict/diagnose.h"
#include "models/predict/machines.h"
#include "reports/compare.h"
#include "reports/whole_file.h"
#include "reports/record.h"
#include "reports/text_table.h"
#include "sim/command.h"
#include "sim/command_line.h"
#include "sim/new_file.h"
#include "sim/version.h"

static const char compare_about[] =
    "Compares predictions with measurements.  For each phase it shows the slowest rank's time, which all wait\n"
    "for, means over ranks, bandwidths that both records have, the error (predicted against measured) in percent,\n"
    "the rank that is furthest off, and the predicted bound.  For two predictions it shows how many times faster\n"
    "the second is, what bounds each, and whether the bound has moved.  They may differ in placement, cluster,\n"
    "backend and kernel settings, but not in the work.  The records say which of them is a prediction (kind:\n"
    "simulate, step).  Several pairs end with a summary. '-' reads a record from standard input.\n"
    "\n"
    "  eptwin compare predicted.csv measured.csv\n"
    "  eptwin compare as-it-is.csv with-eplb.csv\n"
    "  eptwin compare p1.csv m1.csv p2.csv m2.csv --max-error 15\n"
    "  eptwin compare predicted.csv measured.csv --diagnose\n"
    "  eptwin compare predicted.csv measured.json --by-rank --output table.csv";

struct compare_run {
    struct compare_options options;
    char *output, *format_name;
    double error_pct_max; /* INFINITY: no limit */
    gboolean diagnose;
    char **clusters; /* paths of cluster files */
    char **paths;
    guint path_count;
};

/* One pair and its comparison. */
struct compare_pair {
    const char *a_path, *b_path;
    struct record *a, *b;
    struct compare *compare;
};

static bool compare_run_parse(struct compare_run *run, int argc, char **argv, enum record_format *format,
                              GError **error)
{
    gboolean by_rank = FALSE, force = FALSE;
    GOptionEntry entries[] = {
        { "by-rank", 0, 0, G_OPTION_ARG_NONE, &by_rank, "Also show the rows of every rank", NULL },
        { "force", 0, 0, G_OPTION_ARG_NONE, &force, "Compare records even if their cases differ", NULL },
        { "max-error", 0, 0, G_OPTION_ARG_DOUBLE, &run->error_pct_max,
          "Exit with 1 if the error of a phase's mean time over ranks is larger than this", "PERCENT" },
        { "diagnose", 0, 0, G_OPTION_ARG_NONE, &run->diagnose,
          "List possible causes for each measurement, like eptwin diagnose", NULL },
        { "cluster", 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &run->clusters,
          "With --diagnose: a cluster file of the predictions, besides those that ship with eptwin (may be repeated)",
          "FILE" },
        COMMAND_LINE_OUTPUT(&run->output, "Write the comparison to FILE ('-': standard output)"),
        COMMAND_LINE_FORMAT(&run->format_name, "Format of FILE: csv (the default) or json"),
        { 0 },
    };
    const struct command_topic topics[] = { { "Options", entries, false }, { 0 } };
    const struct command_line line = {
        .name = "compare", .arguments = "A B [A B ...]", .about = compare_about, .topics = topics
    };
    bool done = command_line_parse(&line, argc, argv, &run->paths, error);
    run->options = (struct compare_options){ .by_rank = by_rank, .force = force };
    run->path_count = run->paths ? g_strv_length(run->paths) : 0;
    if (done && (run->path_count == 0 || run->path_count % 2 != 0))
        done = error_input(error, "expected pairs of records, found %u", run->path_count);
    if (done && !(run->error_pct_max >= 0))
        done = error_input(error, "--max-error: expected a percentage, found %g", run->error_pct_max);
    if (done && run->clusters && !run->diagnose)
        done = error_input(error, "--cluster: expected --diagnose too, found none");
    done = done && record_table_format_parse(run->format_name ? run->format_name : "csv", format, error);
    if (done && run->format_name && !run->output)
        done = error_input(error, "--format: expected --output too, found none");
    return done;
}

static bool compare_pair_read(struct compare_pair *pair, const struct compare_options *options, GError **error)
{
    pair->a = record_read(pair->a_path, error);
    pair->b = pair->a ? record_read(pair->b_path, error) : NULL;
    if (!pair->b) return false;
    g_autoptr(GError) cause = NULL;
    pair->compare = compare_new(pair->a, pair->b, options, &cause);
    if (pair->compare) return true;
    return error_input(error, "%s, %s: %s", pair->a_path, pair->b_path, cause->message);
}

static void compare_pair_clear(struct compare_pair *pair)
{
    compare_free(pair->compare);
    record_free(pair->b);
    record_free(pair->a);
}

static void compare_pair_append(const struct compare_pair *pair, GString *out)
{
    const struct compare *compare = pair->compare;
    g_string_append_printf(out, "%s: %s\n%s: %s\n\n", compare->predicted_name,
                           compare->swapped ? pair->b_path : pair->a_path, compare->measured_name,
                           compare->swapped ? pair->a_path : pair->b_path);
    const gsize before = out->len;
    compare_verdict_append(compare, out);
    compare_difference_append(compare, out);
    if (out->len > before) g_string_append_c(out, '\n');
    compare_table_append(compare, out);
    g_string_append_c(out, '\n');
    compare_words_append(compare, false, out);
}

enum { CAUSES_SHOWN = 3 };

/* Appends the causes that could explain why the pair's measurement differs from its prediction. */
static bool compare_pair_diagnose(const struct compare_pair *pair, struct machines *machines, GString *out,
                                  GError **error)
{
    const struct compare *compare = pair->compare;
    const char *measured = compare->swapped ? pair->a_path : pair->b_path, *path;
    if (compare_record_predicted(compare->measured) || !compare_record_predicted(compare->predicted)) {
        g_string_append(out, "\n"
                             "No diagnosis: it needs a prediction and a measurement.\n");
        return true;
    }
    path = machines_path(machines, compare->predicted);
    if (!path)
        return error_input(
            error, "--diagnose: expected --cluster FILE with the cluster \"%s\" of %s, which does not ship with eptwin",
            record_get(compare->predicted, "cluster") ? record_get(compare->predicted, "cluster") : "",
            compare->swapped ? pair->b_path : pair->a_path);
    struct case_options base;
    case_init(&base);
    base.cluster = path;
    const struct diagnose_how how = { .workers = g_get_num_processors() };
    g_autoptr(validate_table) table = diagnose_table_read(measured, &base, error);
    g_autoptr(diagnosis) diagnosis = table ? diagnose_run(table, &how, error) : NULL;
    if (diagnosis) {
        g_string_append_c(out, '\n');
        diagnosis_text(diagnosis, table, CAUSES_SHOWN, out);
    }
    return diagnosis != NULL;
}

/* Gathers the pairs' errors of mean times in one phase (NULL: in all phases).  pair_of gets the pair of each error. Two
 * predictions have no error. */
static GArray *compare_errors_gather(const struct compare_pair *pairs, guint count, const char *phase, GArray *pair_of)
{
    GArray *errors = g_array_new(FALSE, FALSE, sizeof(double));
    g_array_set_size(pair_of, 0);
    for (guint p = 0; p < count; p++) {
        const GArray *rows = pairs[p].compare->rows;
        for (guint i = 0; i < rows->len && !compare_what_if(pairs[p].compare); i++) {
            const struct compare_row *row = &g_array_index(rows, struct compare_row, i);
            if (row->rank != RECORD_ALL || strcmp(row->metric, "time_us") != 0) continue;
            if (compare_phase_of_layer(row->phase)) continue; /* the phase of all layers contains it */
            if (!isfinite(row->error_pct) || (phase && strcmp(phase, row->phase) != 0)) continue;
            g_array_append_val(errors, row->error_pct);
            g_array_append_val(pair_of, p);
        }
    }
    return errors;
}

static void compare_about_row(const struct compare_pair *pairs, guint count, const char *phase,
                              struct text_table *table)
{
    g_autoptr(GArray) pair_of = g_array_new(FALSE, FALSE, sizeof(guint));
    g_autoptr(GArray) errors = compare_errors_gather(pairs, count, phase, pair_of);
    struct compare_spread spread;
    compare_spread_find((const double *)(void *)errors->data, errors->len, &spread);
    if (spread.count > 0) {
        const guint worst = g_array_index(pair_of, guint, spread.worst_index);
        text_table_cell(table, "%s", phase ? phase : "all");
        text_table_cell(table, "%u", spread.count);
        text_table_cell(table, "%.1f %%", spread.median_pct);
        text_table_cell(table, "%.1f %%", spread.p90_pct);
        text_table_cell(table, "%.1f %%", spread.worst_pct);
        text_table_cell(table, "%+.1f %%", spread.bias_pct);
        text_table_cell(table, "%s", pairs[worst].b_path);
    }
}

/* Appends the size of the errors: a line for each phase, in the order in which the pairs name the phases, and one for
 * all phases together. */
static void compare_about_append(const struct compare_pair *pairs, guint count, GString *out)
{
    static const char *const titles[] = {
        "error of mean times", "cases", "median", "p90", "worst", "bias", "worst case"
    };
    g_autoptr(text_table) table = text_table_new("lrrrrrl", titles);
    g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);
    for (guint p = 0; p < count; p++) {
        const GArray *rows = pairs[p].compare->rows;
        for (guint i = 0; i < rows->len; i++) {
            const char *phase = g_array_index(rows, struct compare_row, i).phase;
            if (g_hash_table_add(seen, (gpointer)phase)) compare_about_row(pairs, count, phase, table);
        }
    }
    compare_about_row(pairs, count, NULL, table);
    text_table_append(table, out);
}

/* ---- for machines ---- */

static const char *const compare_columns[] = { "predicted_file", "measured_file", "phase",     "rank",
                                               "metric",         "unit",          "predicted", "measured",
                                               "error_pct",      "bottleneck",    "busy_pct" };
enum { COMPARE_COLUMNS = G_N_ELEMENTS(compare_columns), COMPARE_NUMBERS_FROM = 6, COMPARE_WORD = 9 };

static void compare_row_fields(const struct compare_pair *pair, const struct compare_row *row,
                               char *field[COMPARE_COLUMNS])
{
    const struct compare *compare = pair->compare;
    struct compare_limit limit;
    compare_limit_find(compare->predicted, row->phase, &limit);
    const double numbers[] = { row->predicted, row->measured, row->error_pct };
    field[0] = g_strdup(compare->swapped ? pair->b_path : pair->a_path);
    field[1] = g_strdup(compare->swapped ? pair->a_path : pair->b_path);
    field[2] = g_strdup(row->phase);
    field[3] = row->rank == RECORD_ALL ? g_strdup("all") : g_strdup_printf("%d", row->rank);
    field[4] = g_strdup(row->metric);
    field[5] = g_strdup(row->unit);
    for (int i = 0; i < 3; i++)
        record_number_format(field[COMPARE_NUMBERS_FROM + i] = g_malloc(RECORD_NUMBER_MAX), numbers[i]);
    field[COMPARE_WORD] = g_strdup(limit.resource ? limit.resource : "");
    record_number_format(field[COMPARE_WORD + 1] = g_malloc(RECORD_NUMBER_MAX), limit.busy_pct);
}

static void compare_fields_append(char *const field[COMPARE_COLUMNS], enum record_format format, GString *out)
{
    for (int i = 0; i < COMPARE_COLUMNS; i++) {
        const bool number = i >= COMPARE_NUMBERS_FROM && i != COMPARE_WORD;
        if (format == RECORD_CSV) {
            if (i) g_string_append_c(out, ',');
            record_csv_field_append(out, field[i]);
            continue;
        }
        g_string_append_printf(out, "%s\"%s\": ", i ? ", " : "", compare_columns[i]);
        if (!number) record_json_string_append(out, field[i]);
        else g_string_append(out, strcmp(field[i], "nan") == 0 ? "null" : field[i]);
    }
}

static GString *compare_machine_text(const struct compare_pair *pairs, guint count, enum record_format format)
{
    GString *out = g_string_new(NULL);
    if (format == RECORD_JSON) {
        g_string_append_printf(out, "{\n\"header\": {\"kind\": \"compare\", \"version\": \"%s\"},\n\"rows\": [",
                               eptwin_version());
    } else {
        g_string_append_printf(out, "# kind: compare\n# version: %s\n", eptwin_version());
        for (int i = 0; i < COMPARE_COLUMNS; i++) g_string_append_printf(out, "%s%s", i ? "," : "", compare_columns[i]);
        g_string_append_c(out, '\n');
    }
    bool first = true;
    for (guint p = 0; p < count; p++) {
        for (guint i = 0; i < pairs[p].compare->rows->len; i++, first = false) {
            char *field[COMPARE_COLUMNS];
            compare_row_fields(&pairs[p], &g_array_index(pairs[p].compare->rows, struct compare_row, i), field);
            if (format == RECORD_JSON) g_string_append(out, first ? "\n  {" : ",\n  {");
            compare_fields_append(field, format, out);
            g_string_append(out, format == RECORD_JSON ? "}" : "\n");
            for (int f = 0; f < COMPARE_COLUMNS; f++) g_free(field[f]);
        }
    }
    if (format == RECORD_JSON) g_string_append(out, "\n]\n}\n");
    return out;
}

/* The exit status by --max-error.  The caller has printed everything. */
static int compare_verdict(const struct compare_pair *pairs, guint count, double error_pct_max)
{
    if (isinf(error_pct_max)) return EXIT_OK;
    g_autoptr(GArray) pair_of = g_array_new(FALSE, FALSE, sizeof(guint));
    g_autoptr(GArray) errors = compare_errors_gather(pairs, count, NULL, pair_of);
    struct compare_spread spread;
    compare_spread_find((const double *)(void *)errors->data, errors->len, &spread);
    if (spread.count > 0 && spread.worst_pct <= error_pct_max) return EXIT_OK;
    fprintf(stderr, "eptwin compare: the worst time error is %.1f %%, more than --max-error %g\n", spread.worst_pct,
            error_pct_max);
    return EXIT_RUN_FAILED;
}

static bool compare_pairs_show(const struct compare_run *run, const struct compare_pair *pairs, guint count,
                               enum record_format format, struct machines *machines, GError **error)
{
    bool done = true;
    if (run->output) {
        g_autoptr(GString) machine = compare_machine_text(pairs, count, format);
        done = whole_file_write(run->output, machine->str, machine->len, error);
        if (strcmp(run->output, "-") == 0) return done; /* a table on standard output would spoil the record there */
    }
    g_autoptr(GString) text = g_string_new(NULL);
    for (guint p = 0; p < count; p++) {
        if (p) g_string_append_c(text, '\n');
        compare_pair_append(&pairs[p], text);
        if (done && run->diagnose) done = compare_pair_diagnose(&pairs[p], machines, text, error);
    }
    if (count > 1 && !compare_what_if(pairs[0].compare)) {
        g_string_append_c(text, '\n');
        compare_about_append(pairs, count, text);
    }
    done = done && whole_file_write("-", text->str, text->len, error);
    return done;
}

int command_compare(int argc, char **argv)
{
    struct compare_run run = { .error_pct_max = INFINITY };
    enum record_format format = RECORD_CSV;
    GError *error = NULL;
    bool done = compare_run_parse(&run, argc, argv, &format, &error);
    const guint count = run.path_count / 2;
    struct machines *machines = NULL;
    done = done && (machines = machines_new(run.clusters, &error)) != NULL;
    if (done && run.output) done = new_file_spares(run.output, (const char *const *)run.paths, run.path_count, &error);
    g_autofree struct compare_pair *pairs = g_new0(struct compare_pair, count + 1);
    for (guint p = 0; done && p < count; p++) {
        pairs[p].a_path = run.paths[2 * p];
        pairs[p].b_path = run.paths[2 * p + 1];
        done = compare_pair_read(&pairs[p], &run.options, &error);
    }
    done = done && compare_pairs_show(&run, pairs, count, format, machines, &error);
    const int status = done ? compare_verdict(pairs, count, run.error_pct_max) : command_line_fail("compare", error);
    for (guint p = 0; p < count; p++) compare_pair_clear(&pairs[p]);
    machines_free(machines);
    return status;
}
