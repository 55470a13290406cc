/* report_html.c - the report as one page: style inside, no scripts, nothing fetched, light and dark.
 * Knows tables and headings; the plots come from report_plot.c.  Whatever stands in a record is escaped. */
#include "reports/report.h"

#include <math.h>
#include <string.h>

#include "reports/svg.h"

enum { HTML_ROWS_MAX = 2000 }; /* of one table; the record itself holds the rest */

static const char html_style[] =
    ":root{color-scheme:light dark;--paper:#fbfbfa;--card:#fff;--ink:#1d2430;--soft:#667085;--rule:#e3e5ea;"
    "--predicted:#3566c8;--measured:#d97a1d;--bound:#8d95a5;--busy:#2f8f6b;--bad:#c2362b}\n"
    "@media(prefers-color-scheme:dark){:root{--paper:#14171c;--card:#1c2027;--ink:#e6e9ef;--soft:#98a1b2;"
    "--rule:#323843;--predicted:#7aa2f7;--measured:#f0a04b;--bound:#7d8698;--busy:#55bd93;--bad:#ff7b70}}\n"
    "*{box-sizing:border-box}body{margin:0;background:var(--paper);color:var(--ink);"
    "font:15px/1.5 system-ui,-apple-system,\"Segoe UI\",\"DejaVu Sans\",sans-serif}\n"
    "main{max-width:980px;margin:0 auto;padding:28px 20px 60px}\n"
    "h1{font-size:26px;margin:0 0 2px}h2{font-size:19px;margin:0 0 4px}h3{font-size:15px;margin:26px 0 4px}\n"
    "section{background:var(--card);border:1px solid var(--rule);border-radius:10px;padding:20px 24px;"
    "margin:22px 0}\n"
    ".note,.legend,.path{color:var(--soft);font-size:13px;margin:0 0 8px}.path{overflow-wrap:anywhere}\n"
    ".words p{margin:6px 0}\n"
    ".key{display:inline-block;width:11px;height:11px;border-radius:2px;margin:0 6px 0 12px}\n"
    ".key:first-child{margin-left:0}.key.predicted{background:var(--predicted)}"
    ".key.measured{background:var(--measured)}\n"
    ".scroll{overflow-x:auto}table{border-collapse:collapse;font-size:13px;width:100%}\n"
    "th,td{padding:5px 10px 5px 0;border-bottom:1px solid var(--rule);text-align:left;vertical-align:top}\n"
    "th{color:var(--soft);font-weight:600}.n{text-align:right;font-variant-numeric:tabular-nums;"
    "white-space:nowrap}\n"
    "td.differs{color:var(--bad)}details{margin-top:18px}summary{cursor:pointer;color:var(--soft)}\n"
    "svg{width:100%;height:auto;display:block;margin:4px 0}.square{max-width:520px}\n"
    "text{fill:var(--ink);font:13px system-ui,\"DejaVu Sans\",sans-serif}text.small{font-size:12px;fill:var(--soft);"
    "paint-order:stroke;stroke:var(--card);stroke-width:3px}"
    "text.strong{font-weight:600;fill:var(--ink)}\n"
    "line{stroke:var(--rule)}line.axis{stroke:var(--soft)}line.median{stroke:var(--ink);stroke-width:2}\n"
    "line.at{stroke-width:2.5}line.at.predicted{stroke:var(--predicted)}line.at.measured{stroke:var(--measured)}\n"
    "line.band{stroke:var(--soft);stroke-dasharray:4 4}\n"
    "rect.predicted,circle.predicted{fill:var(--predicted)}rect.measured,circle.measured{fill:var(--measured)}\n"
    "circle{fill-opacity:.75}rect.bound{fill:var(--bound)}rect.busy{fill:var(--busy)}\n"
    /* the lines of several operations in one plot: readable on both papers */
    "circle.c0{fill:#3566c8}line.c0{stroke:#3566c8;stroke-width:2}.key.c0{background:#3566c8}\n"
    "circle.c1{fill:#d97a1d}line.c1{stroke:#d97a1d;stroke-width:2}.key.c1{background:#d97a1d}\n"
    "circle.c2{fill:#2f8f6b}line.c2{stroke:#2f8f6b;stroke-width:2}.key.c2{background:#2f8f6b}\n"
    "circle.c3{fill:#b04a9c}line.c3{stroke:#b04a9c;stroke-width:2}.key.c3{background:#b04a9c}\n"
    "circle.c4{fill:#8a6d1f}line.c4{stroke:#8a6d1f;stroke-width:2}.key.c4{background:#8a6d1f}\n"
    "circle.c5{fill:#c2362b}line.c5{stroke:#c2362b;stroke-width:2}.key.c5{background:#c2362b}\n"
    "circle.c6{fill:#3a9bb8}line.c6{stroke:#3a9bb8;stroke-width:2}.key.c6{background:#3a9bb8}\n"
    "circle.c7{fill:#6b5bd0}line.c7{stroke:#6b5bd0;stroke-width:2}.key.c7{background:#6b5bd0}\n";

static void html_cell(GString *out, const char *class, const char *text)
{
    g_string_append_printf(out, *class ? "<td class=\"%s\">" : "<td%s>", class);
    svg_escape_append(out, text);
    g_string_append(out, "</td>");
}

/* Takes text. */
static void html_number(GString *out, char *text)
{
    html_cell(out, "n", text);
    g_free(text);
}

static void html_table_begin(GString *out, const char *format, const char *const *titles)
{
    g_string_append(out, "<div class=\"scroll\"><table>\n<tr>");
    for (size_t i = 0; format[i]; i++) {
        g_string_append(out, format[i] == 'r' ? "<th class=\"n\">" : "<th>");
        svg_escape_append(out, titles[i]);
        g_string_append(out, "</th>");
    }
    g_string_append(out, "</tr>\n");
}

static void html_table_end(GString *out) { g_string_append(out, "</table></div>\n"); }

static char *html_percent(double value) { return isfinite(value) ? g_strdup_printf("%+.1f %%", value) : g_strdup("-"); }

static void html_errors(const struct compare *compare, GString *out)
{
    const char *const titles[] = { "phase", "metric",    compare->predicted_name, compare->measured_name,
                                   "error", "worst rank" };
    g_string_append(out, "<h3>Predicted and measured</h3>\n");
    html_table_begin(out, "llrrrr", titles);
    const guint count = MIN(compare->rows->len, (guint)HTML_ROWS_MAX);
    for (guint i = 0; i < count; i++) {
        const struct compare_row *row = &g_array_index(compare->rows, struct compare_row, i);
        char *metric = compare_metric_name(row->metric);
        g_string_append(out, "<tr>");
        html_cell(out, "", row->phase);
        html_cell(out, "", metric);
        html_number(out, compare_value_text(row->predicted, row->unit));
        html_number(out, compare_value_text(row->measured, row->unit));
        html_number(out, html_percent(row->error_pct));
        if (row->worst_rank == COMPARE_NO_RANK) html_cell(out, "", "");
        else html_number(out, g_strdup_printf("%+.1f %% (rank %d)", row->worst_error_pct, row->worst_rank));
        g_string_append(out, "</tr>\n");
        g_free(metric);
    }
    html_table_end(out);
}

/* What each kind of bandwidth counts, for who reads the table. */
static const char *html_bandwidth_meaning(const char *metric)
{
    static const struct {
        const char *start, *meaning;
    } meanings[] = {
        { "logical_rdma", "bytes of tokens for other nodes and the own one, as the public tests count" },
        { "logical_nvl", "bytes of all tokens received, the own rank's included, as the public tests count" },
        { "physical_nic", "bytes that crossed the NIC, headers included" },
        { "physical_nvl", "bytes that crossed NVLink, headers included" },
        { "native", "as a tool printed it" },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(meanings); i++)
        if (g_str_has_prefix(metric, meanings[i].start)) return meanings[i].meaning;
    return "";
}

static void html_bandwidths(const struct report_case *c, GString *out)
{
    if (c->series_count == 2) return; /* the table of errors holds them */
    const struct record *record = c->series[0].record;
    guint count = 0;
    for (uint32_t i = 0; i < record_row_count(record) && count < HTML_ROWS_MAX; i++) {
        const struct record_row *row = record_row(record, i);
        if (row->rank != RECORD_ALL || !g_str_has_suffix(row->metric, "_gbs") || !isfinite(row->value)) continue;
        static const char *const titles[] = { "phase", "bandwidth", "", "counts" };
        if (count++ == 0) {
            g_string_append(out, "<h3>Bandwidths</h3>\n");
            html_table_begin(out, "llrl", titles);
        }
        char *metric = compare_metric_name(row->metric);
        g_string_append(out, "<tr>");
        html_cell(out, "", row->phase);
        html_cell(out, "", metric);
        html_number(out, compare_value_text(row->value, row->unit));
        html_cell(out, "", html_bandwidth_meaning(row->metric));
        g_string_append(out, "</tr>\n");
        g_free(metric);
    }
    if (count) html_table_end(out);
}

static void html_words(const struct report_case *c, GString *out)
{
    GString *words = g_string_new(NULL);
    if (c->compare) {
        compare_words_append(c->compare, words);
    } else {
        GPtrArray *phases = compare_phases(c->series[0].record);
        for (guint i = 0; i < MIN(phases->len, 100u); i++) {
            char *before = g_strdup_printf("%s: ", (const char *)g_ptr_array_index(phases, i));
            compare_limit_append(c->series[0].record, g_ptr_array_index(phases, i), words, before, "\n");
            g_free(before);
        }
        g_ptr_array_free(phases, TRUE);
    }
    char **lines = g_strsplit(words->str, "\n", -1);
    bool open = false;
    g_string_append(out, "<div class=\"words\">");
    for (char **line = lines; *line; line++) {
        const char *colon = strstr(*line, ": ");
        if (!**line) continue;
        if (**line != ' ' || !open) /* what is indented belongs to the line before */
            g_string_append(out, open ? "</p>\n<p>" : "<p>");
        open = true;
        if (**line != ' ' && colon) {
            char *phase = g_strndup(*line, (gsize)(colon - *line));
            g_string_append(out, "<b>");
            svg_escape_append(out, phase);
            g_string_append(out, "</b>");
            g_free(phase);
        }
        svg_escape_append(out, **line != ' ' && colon ? colon : *line);
        g_string_append_c(out, '\n');
    }
    g_string_append(out, open ? "</p></div>\n" : "</div>\n");
    g_strfreev(lines);
    g_string_free(words, TRUE);
}

/* All header keys, the series side by side; what differs is marked. */
static void html_provenance(const struct report_case *c, GString *out)
{
    const char *const titles[] = { "key", c->series[0].name, c->series[c->series_count - 1].name };
    g_string_append(out, "<details><summary>Where the numbers come from</summary>\n");
    html_table_begin(out, c->series_count == 2 ? "lll" : "ll", titles);
    for (int s = 0; s < c->series_count; s++) {
        const struct record *record = c->series[s].record, *other = c->series[c->series_count - 1 - s].record;
        for (uint32_t i = 0; i < record_key_count(record); i++) {
            const char *key = record_key(record, i), *theirs = record_get(other, key);
            if (s == 1 && theirs) continue; /* stands there already */
            const char *ours = record_get(record, key);
            const char *cells[] = { s == 0 ? ours : "", s == 0 ? (theirs ? theirs : "") : ours };
            const bool differs = strcmp(cells[0], cells[1]) != 0;
            g_string_append(out, "<tr>");
            html_cell(out, "", key);
            for (int k = 0; k < c->series_count; k++) html_cell(out, differs ? "differs" : "", cells[k]);
            g_string_append(out, "</tr>\n");
        }
    }
    html_table_end(out);
    g_string_append(out, "</details>\n");
}

static void html_all_rows(const struct report_series *series, GString *out)
{
    static const char *const titles[] = { "phase", "rank", "metric", "value", "unit" };
    const uint32_t count = record_row_count(series->record);
    g_string_append_printf(out, "<details><summary>All rows: ");
    svg_escape_append(out, series->name);
    g_string_append_printf(out, " (%u%s)</summary>\n", count, count > HTML_ROWS_MAX ? ", the first of them shown" : "");
    html_table_begin(out, "lllrl", titles);
    for (uint32_t i = 0; i < MIN(count, (uint32_t)HTML_ROWS_MAX); i++) {
        const struct record_row *row = record_row(series->record, i);
        char rank[16] = "all";
        if (row->rank != RECORD_ALL) g_snprintf(rank, sizeof rank, "%d", row->rank);
        g_string_append(out, "<tr>");
        html_cell(out, "", row->phase);
        html_cell(out, "", rank);
        html_cell(out, "", row->metric);
        html_cell(out, "n", row->text);
        html_cell(out, "", row->unit);
        g_string_append(out, "</tr>\n");
    }
    html_table_end(out);
    g_string_append(out, "</details>\n");
}

static void html_case(const struct report_case *c, GString *out)
{
    g_string_append(out, "<section>\n<h2>");
    svg_escape_append(out, c->title);
    g_string_append(out, "</h2>\n<p class=\"path\">");
    for (int s = 0; s < c->series_count; s++) {
        if (s) g_string_append(out, " · ");
        svg_escape_append(out, c->series[s].name);
        g_string_append(out, ": ");
        svg_escape_append(out, c->series[s].path);
    }
    g_string_append(out, "</p>\n");
    html_words(c, out);
    report_plot_times(c, out);
    if (c->compare) html_errors(c->compare, out);
    report_plot_ranks(c, out);
    report_plot_bounds(c, out);
    report_plot_busy(c, out);
    report_plot_sizes(c, out);
    html_bandwidths(c, out);
    html_provenance(c, out);
    for (int s = 0; s < c->series_count; s++) html_all_rows(&c->series[s], out);
    g_string_append(out, "</section>\n");
}

/* How far the predictions are off, where there are several. */
static void html_summary(const GPtrArray *cases, GString *out)
{
    GArray *errors = g_array_new(FALSE, FALSE, sizeof(double));
    for (guint i = 0; i < cases->len; i++) {
        const struct report_case *c = g_ptr_array_index(cases, i);
        for (guint r = 0; c->compare && r < c->compare->rows->len; r++) {
            const struct compare_row *row = &g_array_index(c->compare->rows, struct compare_row, r);
            if (row->rank == RECORD_ALL && strcmp(row->metric, "time_us") == 0 && isfinite(row->error_pct) &&
                !compare_phase_of_layer(row->phase))
                g_array_append_val(errors, row->error_pct);
        }
    }
    if (errors->len >= 3) {
        struct compare_spread spread;
        compare_spread_find((const double *)(void *)errors->data, errors->len, &spread);
        g_string_append_printf(out,
                               "<section>\n<h2>All cases</h2>\n<p>%u predicted times against measured ones: "
                               "error %.1f %% in the median, %.1f %% at the 90th percentile, %.1f %% at worst; "
                               "bias %+.1f %%.</p>\n",
                               spread.count, spread.median_pct, spread.p90_pct, spread.worst_pct, spread.bias_pct);
        report_plot_scatter(cases, out);
        g_string_append(out, "</section>\n");
    }
    g_array_free(errors, TRUE);
}

GString *report_html(const GPtrArray *cases, const char *version)
{
    GString *out = g_string_new("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
                                "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"/>\n"
                                "<title>eptwin report</title>\n<style>\n");
    g_string_append(out, html_style);
    g_string_append(out, "</style>\n</head>\n<body>\n<main>\n<h1>Dispatch and combine</h1>\n<p class=\"note\">"
                         "Written by eptwin ");
    svg_escape_append(out, version);
    g_string_append(out, "</p>\n");
    html_summary(cases, out);
    for (guint i = 0; i < cases->len; i++) html_case(g_ptr_array_index(cases, i), out);
    g_string_append(out, "</main>\n</body>\n</html>\n");
    return out;
}
