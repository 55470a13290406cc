/* report_html.c - the report as one page: style inside, no scripts, nothing fetched, light and dark.
 *
 * Knows tables and headings.  report_*.c make the plots.  Everything that comes from a record is escaped. */
#include "reports/report_plot.h"

#include <math.h>
#include <string.h>

enum {
    HTML_ROWS_MAX = 2000,     /* the most rows of one table; the record itself holds the others */
    HTML_RAW_ROWS_MAX = 400,  /* the most rows of the table with all rows of a record */
    HTML_BYTES_MAX = 3 << 20, /* the most bytes of results shown in full; the table at the top has all results */
    HTML_LETTERS_MAX = 160,   /* the most letters of a value in a table */
};

void report_html_cell(GString *out, const char *class, const char *text)
{
    g_string_append_printf(out, *class ? "<td class=\"%s\">" : "<td%s>", class);
    svg_escape_append(out, text);
    g_string_append(out, "</td>");
}

void report_html_number(GString *out, char *text)
{
    report_html_cell(out, "n", text);
    g_free(text);
}

/* Appends a table's cell with a value, which is cut if it is long. */
static void html_value(GString *out, const char *class, const char *text)
{
    g_autofree char *valid = g_utf8_make_valid(text, -1);
    if (g_utf8_strlen(valid, -1) <= HTML_LETTERS_MAX) {
        report_html_cell(out, class, valid);
        return;
    }
    g_autofree char *cut = g_utf8_substring(valid, 0, HTML_LETTERS_MAX);
    g_autofree char *both = g_strconcat(cut, "\342\200\246", NULL);
    report_html_cell(out, class, both);
}

void report_html_table_begin(GString *out, const char *name, const char *format, const char *const *titles)
{
    svg_escape_within(out, "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"", name,
                      "\"><table>\n<tr>");
    for (size_t i = 0; format[i]; i++) {
        if (format[i] == ' ') continue;
        g_string_append(out, format[i] == 'r' ? "<th class=\"n\">" : "<th>");
        svg_escape_append(out, titles[i]);
        g_string_append(out, "</th>");
    }
    g_string_append(out, "</tr>\n");
}

void report_html_table_end(GString *out) { g_string_append(out, "</table></div>\n"); }

static char *html_percent(double value) { return isfinite(value) ? g_strdup_printf("%+.1f %%", value) : g_strdup("-"); }

/* ---- tables of a case ---- */

static void html_errors(const struct report_case *c, GString *out)
{
    const struct compare *compare = c->compare;
    const guint count = MIN(compare->rows->len, (guint)HTML_ROWS_MAX);
    const bool what_if = compare_what_if(compare);
    const char *const titles[] = {
        "phase",     "metric", compare->predicted_name, compare->measured_name, what_if ? "second is" : "error",
        "worst rank"
    };
    bool ranks = false;
    for (guint i = 0; i < count && !ranks; i++)
        ranks = !what_if && g_array_index(compare->rows, struct compare_row, i).worst_rank != COMPARE_NO_RANK;
    const char *heading = what_if ? "First and second" : "Predicted and measured";
    g_string_append_printf(out, "<h3>%s</h3>\n", heading);
    g_autofree char *name = g_strdup_printf("%s, %s", heading, c->title);
    report_html_table_begin(out, name, ranks ? "llrrrr" : "llrrr ", titles);
    const char *phase = "";
    for (guint i = 0; i < count; i++) {
        const struct compare_row *row = &g_array_index(compare->rows, struct compare_row, i);
        if (!compare_row_shown(row)) continue;
        g_autofree char *metric = compare_row_name(row);
        g_string_append(out, "<tr>");
        report_html_cell(out, "", strcmp(phase, row->phase) == 0 ? "" : row->phase);
        phase = row->phase;
        report_html_cell(out, "", metric);
        report_html_number(out, compare_value_text(row->predicted, row->unit));
        report_html_number(out, compare_value_text(row->measured, row->unit));
        report_html_number(out, what_if ? compare_change_text(row) : html_percent(row->error_pct));
        if (!ranks) g_string_append(out, "</tr>\n");
        else if (row->worst_rank == COMPARE_NO_RANK) g_string_append(out, "<td></td></tr>\n");
        else {
            report_html_number(out, g_strdup_printf("%+.1f %% (rank %d)", row->worst_error_pct, row->worst_rank));
            g_string_append(out, "</tr>\n");
        }
    }
    report_html_table_end(out);
}

/* What logical bytes are, which depends on the kernels. */
static const char *logical_meaning(const struct record *record, bool rdma)
{
    static const char *const by_node[] = { "normal", "v2", "mori", "mori-ll", NULL };
    const char *kernel = record_get(record, "kernel");
    if (g_strcmp0(kernel, "ll") == 0)
        return "bytes of all rows sent, including local ones, as the public test counts them";
    if (!kernel || !g_strv_contains(by_node, kernel) || g_strcmp0(record_get(record, "direct"), "true") == 0)
        return rdma ? "bytes for ranks of other NVLink domains" : "bytes for ranks of its NVLink domain";
    return rdma ? "bytes of tokens for each node, including its own, as the public tests count them"
                : "bytes of all tokens received, including the rank's own, as the public tests count them";
}

/* What each kind of bandwidth counts, for readers of the table. */
static const char *html_bandwidth_meaning(const struct record *record, const char *metric)
{
    static const struct {
        const char *start, *meaning;
    } meanings[] = {
        { "physical_nic", "bytes that crossed the NIC, headers included" },
        { "physical_nvl", "bytes that crossed NVLink, headers included" },
        { "native", "as a tool printed it" },
    };
    if (g_str_has_prefix(metric, "logical_")) return logical_meaning(record, strstr(metric, "rdma") != NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(meanings); i++)
        if (g_str_has_prefix(metric, meanings[i].start)) return meanings[i].meaning;
    return "";
}

/* The bandwidths for all ranks, without those that are 0. */
static GPtrArray *bandwidth_rows(const struct record *record)
{
    GPtrArray *rows = g_ptr_array_new();
    for (uint32_t i = 0; i < record_row_count(record) && rows->len < HTML_ROWS_MAX; i++) {
        const struct record_row *row = record_row(record, i);
        const bool rate = g_str_has_suffix(row->metric, "_gbs") && !compare_metric_of_part(row->metric);
        if (row->rank == RECORD_ALL && rate && row->value > 0) g_ptr_array_add(rows, (gpointer)row);
    }
    return rows;
}

static void html_bandwidths(const struct report_case *c, GString *out)
{
    if (c->series_count == 2) return; /* the table of errors has the bandwidths of two series */
    const struct record *record = c->series[0].record;
    g_autoptr(GPtrArray) rows = bandwidth_rows(record);
    bool meant = false;
    for (guint i = 0; i < rows->len; i++)
        meant |= *html_bandwidth_meaning(record, ((const struct record_row *)g_ptr_array_index(rows, i))->metric) != 0;
    if (!rows->len) return;
    static const char *const titles[] = { "phase", "bandwidth", "mean over ranks", "counts" };
    g_autofree char *name = g_strdup_printf("Bandwidths, %s", c->title);
    g_string_append(out, "<h3>Bandwidths</h3>\n");
    report_html_table_begin(out, name, meant ? "llrl" : "llr ", titles);
    const char *phase = "";
    for (guint i = 0; i < rows->len; i++) {
        const struct record_row *row = g_ptr_array_index(rows, i);
        g_autofree char *metric = compare_metric_name(row->metric);
        g_string_append(out, "<tr>");
        report_html_cell(out, "", strcmp(phase, row->phase) == 0 ? "" : row->phase);
        phase = row->phase;
        report_html_cell(out, "", metric);
        report_html_number(out, compare_value_text(row->value, row->unit));
        if (meant) report_html_cell(out, "", html_bandwidth_meaning(record, row->metric));
        g_string_append(out, "</tr>\n");
    }
    report_html_table_end(out);
}

/* Appends the times of the operations in a record of measure, each with the smallest and the largest of its passes. */
static void html_operations(const struct report_case *c, GString *out)
{
    const struct record *record = c->series[0].record;
    if (g_strcmp0(record_get(record, "kind"), "measure") != 0) return;
    g_autoptr(GPtrArray) phases = report_case_phases(c, "time_us", HTML_ROWS_MAX);
    if (!phases->len) return;
    static const char *const titles[] = { "operation", "time", "least", "most" };
    g_autofree char *name = g_strdup_printf("Times of operations, %s", c->title);
    g_string_append(out, "<h3>Times of operations</h3>\n");
    report_html_table_begin(out, name, "lrrr", titles);
    for (guint i = 0; i < phases->len; i++) {
        const char *phase = g_ptr_array_index(phases, i);
        g_string_append(out, "<tr>");
        report_html_cell(out, "", phase);
        report_html_number(out, compare_value_text(record_value(record, phase, RECORD_ALL, "time_us"), "us"));
        report_html_number(out, compare_value_text(record_value(record, phase, RECORD_ALL, "time_us_min"), "us"));
        report_html_number(out, compare_value_text(record_value(record, phase, RECORD_ALL, "time_us_max"), "us"));
        g_string_append(out, "</tr>\n");
    }
    report_html_table_end(out);
}

/* Appends text, and keeps a number and its percent sign on one line. */
static void html_text(GString *out, const char *text)
{
    g_auto(GStrv) parts = g_strsplit(text, " %", -1);
    g_autofree char *joined = g_strjoinv("\302\240%", parts);
    svg_escape_append(out, joined);
}

/* Appends lines as paragraphs.  The text before the first colon is strong.  An indented line belongs to the previous
 * one. */
static void html_paragraphs(const char *words, GString *out)
{
    g_auto(GStrv) lines = g_strsplit(words, "\n", -1);
    bool open = false;
    g_string_append(out, "<div class=\"words\">");
    for (char **line = lines; *line; line++) {
        const char *colon = **line == ' ' ? NULL : strstr(*line, ": ");
        if (!**line) continue;
        if (**line != ' ' || !open) g_string_append(out, open ? "</p>\n<p>" : "<p>");
        open = true;
        if (colon) {
            g_autofree char *phase = g_strndup(*line, (gsize)(colon - *line));
            svg_escape_within(out, "<b>", phase, "</b>");
        }
        html_text(out, colon ? colon : *line);
        g_string_append_c(out, '\n');
    }
    g_string_append(out, open ? "</p></div>\n" : "</div>\n");
}

static void html_words(const struct report_case *c, GString *out)
{
    g_autoptr(GString) words = g_string_new(NULL);
    if (c->compare) {
        if (!c->title_differs) compare_difference_append(c->compare, words);
        compare_words_append(c->compare, true, words);
    } else {
        compare_alone_append(c->series[0].record, true, 100, words);
    }
    html_paragraphs(words->str, out);
}

void report_html_verdict(GString *out, const char *text, bool titled)
{
    g_string_append(out, titled ? "<h2 class=\"verdict\">" : "<p class=\"verdict\">");
    html_text(out, text);
    g_string_append(out, titled ? "</h2>\n" : "</p>\n");
}

/* Appends what bounds the case to the verdict.  Of two predictions, it is the bound of the second, because that bound
 * says what to do next. */
static void verdict_bound(const struct report_case *c, GString *verdict)
{
    const bool second = report_explaining(c) == 2;
    g_autoptr(GString) bound = g_string_new(NULL);
    compare_verdict_bound_append(c->series[second].record, bound);
    if (!bound->len) return;
    if (!second) bound->str[0] = g_ascii_toupper(bound->str[0]);
    g_string_truncate(verdict, strlen(g_strchomp(verdict->str)));
    g_string_append_printf(verdict, " %s%s", second ? "In the second, " : "", bound->str);
}

/* Appends the verdict, which comes before all else of the case. */
static void html_verdict(const struct report_case *c, bool titled, GString *out)
{
    g_autoptr(GString) verdict = g_string_new(NULL);
    if (c->compare) compare_verdict_append(c->compare, verdict);
    else compare_verdict_alone_append(c->series[0].record, verdict);
    if (verdict->len) verdict_bound(c, verdict);
    if (verdict->len) report_html_verdict(out, g_strchomp(verdict->str), titled);
    else if (titled) g_string_append(out, "<h2>Times and bandwidths</h2>\n"); /* measure: no verdict */
}

/* Appends all header keys, with the two series next to each other and differences marked. */
static void html_provenance(const struct report_case *c, GString *out)
{
    const struct report_series *last = &c->series[c->series_count - 1];
    const bool first_has = record_key_count(c->series[0].record) > 0;
    const bool both = c->series_count == 2 && first_has && record_key_count(last->record) > 0;
    const char *const titles[] = { "key", first_has ? c->series[0].name : last->name, last->name };
    g_autofree char *name = g_strdup_printf("Where the numbers come from, %s", c->title);
    g_string_append(out, "<details><summary>Where the numbers come from</summary>\n");
    report_html_table_begin(out, name, both ? "lll" : "ll", titles);
    for (int s = 0; s < c->series_count; s++) {
        const struct record *record = c->series[s].record, *other = c->series[c->series_count - 1 - s].record;
        for (uint32_t i = 0; i < record_key_count(record); i++) {
            const char *key = record_key(record, i), *theirs = record_get(other, key);
            if (s == 1 && theirs) continue; /* the key has its row from the first series */
            const char *ours = record_get(record, key);
            const char *cells[] = { s == 0 ? ours : "", s == 0 ? (theirs ? theirs : "") : ours };
            const bool differs = c->series_count == 2 && strcmp(cells[0], cells[1]) != 0;
            g_string_append(out, "<tr>");
            report_html_cell(out, "", key);
            for (int k = 0; k < c->series_count; k++)
                if (both || *cells[k]) html_value(out, differs && both ? "wide differs" : "wide", cells[k]);
            g_string_append(out, "</tr>\n");
        }
    }
    report_html_table_end(out);
    g_string_append(out, "</details>\n");
}

static void html_all_rows(const struct report_case *c, const struct report_series *series, GString *out)
{
    static const char *const titles[] = { "phase", "rank", "metric", "value", "unit" };
    const uint32_t count = record_row_count(series->record);
    g_autofree char *name = g_strdup_printf("All rows, %s, %s", series->name, c->title);
    g_string_append_printf(out, "<details><summary>All rows: ");
    svg_escape_append(out, series->name);
    g_string_append_printf(out, " (%u%s)</summary>\n", count,
                           count > HTML_RAW_ROWS_MAX ? ", the first of them shown" : "");
    report_html_table_begin(out, name, "lllrl", titles);
    for (uint32_t i = 0; i < MIN(count, (uint32_t)HTML_RAW_ROWS_MAX); i++) {
        const struct record_row *row = record_row(series->record, i);
        char rank[16] = "all";
        if (row->rank != RECORD_ALL) g_snprintf(rank, sizeof rank, "%d", row->rank);
        g_string_append(out, "<tr>");
        report_html_cell(out, "", row->phase);
        report_html_cell(out, "", rank);
        report_html_cell(out, "", row->metric);
        html_value(out, isnan(row->value) ? "wide" : "n", record_row_text(row));
        report_html_cell(out, "", row->unit);
        g_string_append(out, "</tr>\n");
    }
    report_html_table_end(out);
    g_string_append(out, "</details>\n");
}

/* Appends a case in full.  titled: the page's own heading is the title of this case. */
static void html_case(const struct report_case *c, guint number, bool titled, const struct report_machines *machines,
                      GString *out)
{
    g_string_append_printf(out, "<section id=\"result%u\">\n", number);
    if (!titled) svg_escape_within(out, "<h2>", c->title, "</h2>\n");
    html_verdict(c, titled, out);
    g_string_append(out, "<p class=\"path\">");
    for (int s = 0; s < c->series_count; s++) {
        svg_escape_within(out, s ? " · " : "", c->series[s].name, ": ");
        svg_escape_append(out, c->series[s].path);
    }
    g_string_append(out, "</p>\n");
    report_plot_times(c, out);
    html_words(c, out);
    report_plot_split(c, out);
    report_plot_streams(c, out);
    if (c->compare) html_errors(c, out);
    report_plot_layers(c, out);
    report_plot_ranks(c, out);
    report_plot_waits(c, out);
    report_plot_bounds(c, out);
    report_plot_busy(c, out);
    report_plot_usage(c, out);
    report_plot_machine(c, machines, out);
    report_plot_sizes(c, out);
    html_operations(c, out);
    html_bandwidths(c, out);
    html_provenance(c, out);
    for (int s = 0; s < c->series_count; s++) html_all_rows(c, &c->series[s], out);
    g_string_append(out, "</section>\n");
}

/* ---- all cases ---- */

/* Appends a summary of the errors of several predictions. */
static void html_spread(const GPtrArray *cases, GString *out)
{
    g_autoptr(GArray) errors = g_array_new(FALSE, FALSE, sizeof(double));
    for (guint i = 0; i < cases->len; i++) {
        const struct report_case *c = g_ptr_array_index(cases, i);
        for (guint r = 0; c->compare && !compare_what_if(c->compare) && r < c->compare->rows->len; r++) {
            const struct compare_row *row = &g_array_index(c->compare->rows, struct compare_row, r);
            if (row->rank == RECORD_ALL && strcmp(row->metric, "time_us") == 0 && isfinite(row->error_pct) &&
                !compare_phase_of_layer(row->phase))
                g_array_append_val(errors, row->error_pct);
        }
    }
    if (errors->len < 3) return;
    struct compare_spread spread;
    compare_spread_find((const double *)(void *)errors->data, errors->len, &spread);
    g_string_append_printf(out,
                           "<p>%u predicted mean times against measured ones: error %.1f %% in the median, %.1f %% at "
                           "the 90th percentile, %.1f %% at worst; bias %+.1f %%.</p>\n",
                           spread.count, spread.median_pct, spread.p90_pct, spread.worst_pct, spread.bias_pct);
    report_plot_scatter(cases, out);
}

/* Which columns the table of results has: predictions, measurements, second predictions.  None: no record has times of
 * ranks. */
struct results_columns {
    bool predicted, measured, second;
};

/* Whether the case is a record of micro-benchmarks, which has no ranks that others wait for. */
static bool results_none(const struct report_case *c) { return g_strcmp0(c->series[0].name, "measure") == 0; }

/* Sets us[0] to the prediction's time of a phase, and us[1] to that of the measurement or second prediction.  NAN:
 * there is none. */
static void results_times(const struct report_case *c, const char *phase, double us[2])
{
    const struct compare_row *row = c->compare ? compare_headline(c->compare, phase) : NULL;
    us[0] = us[1] = NAN;
    if (row) {
        us[0] = row->predicted;
        us[1] = row->measured;
        return;
    }
    for (int s = 0; s < c->series_count; s++) us[c->series[s].second] = report_slowest_us(c->series[s].record, phase);
}

static void results_time(double value, GString *out)
{
    report_html_number(out, isfinite(value) ? compare_value_text(value, "us") : g_strdup("-"));
}

/* Appends a case's rows of the table of results, one for each phase.  The first row has the case's title. */
static void results_case(const struct report_case *c, guint number, bool linked, const struct results_columns *columns,
                         GString *out)
{
    g_autoptr(GPtrArray) all = report_case_phases(c, "time_us", G_MAXUINT), phases = g_ptr_array_new();
    for (guint i = 0; i < all->len && !results_none(c); i++)
        if (!compare_phase_of_layer(g_ptr_array_index(all, i))) g_ptr_array_add(phases, g_ptr_array_index(all, i));
    for (guint i = 0; i < MAX(phases->len, 1); i++) {
        const char *phase = i < phases->len ? g_ptr_array_index(phases, i) : NULL;
        double us[2] = { NAN, NAN };
        if (phase) results_times(c, phase, us);
        g_string_append(out, "<tr>");
        if (i == 0) {
            g_string_append_printf(out, "<td class=\"wide\" rowspan=\"%u\">", MAX(phases->len, 1));
            if (linked) g_string_append_printf(out, "<a href=\"#result%u\">", number);
            svg_escape_append(out, c->title);
            g_string_append(out, linked ? "</a></td>" : "</td>");
        }
        if (columns->predicted || columns->measured) report_html_cell(out, "", phase ? phase : "-");
        if (columns->predicted) results_time(us[0], out);
        if (columns->measured || columns->second) results_time(us[1], out);
        if (columns->predicted && (columns->measured || columns->second))
            report_html_number(out, report_explaining(c) == 2
                                        ? compare_speedup_text(us[0] / us[1])
                                        : html_percent(us[1] > 0 ? (us[0] - us[1]) / us[1] * 100 : NAN));
        g_string_append(out, "</tr>\n");
    }
}

/* Appends the table of results.  It is also the table of contents: the page shows the first `linked` results in full
 * below it. */
static void html_results(const GPtrArray *cases, guint linked, GString *out)
{
    struct results_columns columns = { false, false, false };
    for (guint i = 0; i < cases->len; i++) {
        const struct report_case *c = g_ptr_array_index(cases, i);
        for (int s = 0; s < c->series_count && !results_none(c); s++) {
            columns.predicted |= !c->series[s].second;
            columns.measured |= !c->series[s].predicted;
            columns.second |= c->series[s].predicted && c->series[s].second;
        }
    }
    char format[6] = "llrrr";
    const bool both = columns.measured && columns.second;
    const char *const titles[] = { "result", "phase",
                                   columns.measured ? "predicted"
                                   : columns.second ? "first"
                                                    : "predicted",
                                   both             ? "measured or second"
                                   : columns.second ? "second"
                                                    : "measured",
                                   both             ? "error, or second is"
                                   : columns.second ? "second is"
                                                    : "error" };
    if (!columns.predicted) format[2] = format[4] = ' ';
    if (!columns.measured && !columns.second) format[3] = format[4] = ' ';
    if (!columns.predicted && !columns.measured) format[1] = ' ';
    else
        g_string_append(out, "<p class=\"note\">Times of the slowest rank, for a step's kernels the longest; if a "
                             "record does not have it, the mean over ranks.</p>\n");
    report_html_table_begin(out, "All results", format, titles);
    for (guint i = 0; i < MIN(cases->len, (guint)HTML_ROWS_MAX); i++)
        results_case(g_ptr_array_index(cases, i), i + 1, i < linked, &columns, out);
    report_html_table_end(out);
    if (cases->len > HTML_ROWS_MAX)
        g_string_append_printf(out, "<p class=\"note\">The first %d of %u results are shown.</p>\n", HTML_ROWS_MAX,
                               cases->len);
    else if (linked < cases->len)
        g_string_append_printf(out,
                               "<p class=\"note\">The first %u results are shown in full below. For the others make a "
                               "page of their own.</p>\n",
                               linked);
}

static void html_head(const char *title, GString *out)
{
    g_string_append(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
                         "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"/>\n<title>");
    svg_escape_append(out, title);
    g_string_append_printf(out, "</title>\n<style>\n%s</style>\n</head>\n<body>\n<main>\n", report_style);
}

/* Appends a list of what the page holds, unless its heading says it all. */
static void html_contents(const GPtrArray *cases, const GPtrArray *sweeps, GString *out)
{
    const guint count = sweeps ? sweeps->len : 0;
    if (count + (cases->len > 0) < 2) return;
    g_string_append(out, "<nav aria-label=\"Contents\"><ul>\n");
    for (guint i = 0; i < count; i++) {
        const struct sweep_table *table = g_ptr_array_index(sweeps, i);
        g_autofree char *title = report_sweep_title(table), *base = g_path_get_basename(table->source);
        g_string_append_printf(out, "<li><a href=\"#sweep%u\">", i + 1);
        svg_escape_append(out, title);
        svg_escape_within(out, "</a> (", base, ")</li>\n");
    }
    if (cases->len)
        g_string_append_printf(out, "<li><a href=\"#result%s\">%u result%s</a></li>\n", cases->len > 1 ? "s" : "1",
                               cases->len, cases->len > 1 ? "s" : "");
    g_string_append(out, "</ul></nav>\n");
}

static void html_sweeps(const GPtrArray *sweeps, bool titled, GString *out)
{
    for (guint i = 0; sweeps && i < sweeps->len; i++) {
        const struct sweep_table *table = g_ptr_array_index(sweeps, i);
        g_autofree char *title = report_sweep_title(table);
        g_string_append_printf(out, "<section id=\"sweep%u\">\n", i + 1);
        if (!titled) svg_escape_within(out, "<h2>", title, "</h2>\n");
        report_sweep(table, titled, out);
        g_string_append(out, "</section>\n");
    }
}

/* The title of a single result, or what all results have in common. */
static char *html_title(const GPtrArray *cases, const GPtrArray *sweeps)
{
    const guint count = sweeps ? sweeps->len : 0;
    if (cases->len == 1 && !count) return g_strdup(((const struct report_case *)g_ptr_array_index(cases, 0))->title);
    if (!cases->len && count == 1) return report_sweep_title(g_ptr_array_index(sweeps, 0));
    g_autofree char *common = report_common(cases);
    return g_strdup(!count && *common ? common : "Results");
}

GString *report_html(const GPtrArray *cases, const GPtrArray *sweeps, const struct report_machines *machines,
                     const char *version)
{
    g_autofree char *title = html_title(cases, sweeps);
    const bool titled = cases->len + (sweeps ? sweeps->len : 0) == 1;
    GString *out = g_string_new(NULL);
    g_autoptr(GString) sections = g_string_new(NULL);
    guint shown = 0;
    while (shown < cases->len && sections->len < HTML_BYTES_MAX) {
        html_case(g_ptr_array_index(cases, shown), shown + 1, titled, machines, sections);
        shown++;
    }
    html_head(title, out);
    svg_escape_within(out, "<h1>", title, "</h1>\n<p class=\"note\">Written by eptwin ");
    svg_escape_append(out, version);
    g_string_append(out, "</p>\n");
    html_contents(cases, sweeps, out);
    html_sweeps(sweeps, titled, out);
    if (cases->len > 1) {
        g_string_append_printf(out, "<section id=\"results\">\n<h2>All %u results</h2>\n", cases->len);
        html_spread(cases, out);
        html_results(cases, shown, out);
        g_string_append(out, "</section>\n");
    }
    g_string_append_len(out, sections->str, (gssize)sections->len);
    g_string_append(out, "</main>\n</body>\n</html>\n");
    return out;
}
