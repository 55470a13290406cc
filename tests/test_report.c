/* test_report.c - the report.
 *
 * Aim: the page is well-formed, needs no other file, and cannot be taken over by the text of a record.  Plots show
 * every value.  Method: pages of records with hostile words in every place go through a strict parser, which sees each
 * element and attribute.  The tests count marks, and compare their places with arithmetic. */
#include <math.h>
#include <string.h>

#include "reports/record.h"
#include "reports/sweep_results.h"
#include "reports/report.h"
#include "reports/svg.h"
#include "sim/error.h"
#include "sim/rng.h"
#include "tests/unit.h"

static const char hostile[] = "</script><script>alert('1')</script>\"onload=\"x\" & <img src=http://x> ]]> --> ${x}";

/* What the parser saw. */
struct page {
    guint rects[2], dots, svgs; /* rects: predicted and measured bars */
    bool hostile_text;          /* the hostile word came through as text */
};

static bool element_allowed(const char *element)
{
    static const char *const allowed[] = { "html",     "head",    "meta",    "title", "style",  "body",
                                           "main",     "h1",      "h2",      "h3",    "p",      "section",
                                           "span",     "div",     "b",       "table", "tr",     "th",
                                           "td",       "details", "summary", "svg",   "rect",   "line",
                                           "circle",   "text",    "g",       "a",     "figure", "figcaption",
                                           "polyline", "i",       "nav",     "ul",    "li" };
    for (size_t i = 0; i < G_N_ELEMENTS(allowed); i++)
        if (strcmp(element, allowed[i]) == 0) return true;
    return false;
}

static void on_element(GMarkupParseContext *context, const char *element, const char **names, const char **values,
                       gpointer data, GError **error)
{
    (void)context;
    (void)error;
    struct page *page = data;
    if (!element_allowed(element)) fprintf(stderr, "element <%s>\n", element);
    CU_ASSERT_TRUE(element_allowed(element));
    page->svgs += strcmp(element, "svg") == 0;
    page->dots += strcmp(element, "circle") == 0;
    for (int i = 0; names[i]; i++) {
        CU_ASSERT_FALSE(g_str_has_prefix(names[i], "on"));
        if (strstr(names[i], "href")) CU_ASSERT_EQUAL(values[i][0], '#'); /* links stay within the page */
        CU_ASSERT_STRING_NOT_EQUAL(names[i], "src");
        if (strcmp(names[i], "x") == 0 || strcmp(names[i], "width") == 0 || strcmp(names[i], "cx") == 0)
            CU_ASSERT_TRUE(isfinite(g_ascii_strtod(values[i], NULL)) && g_ascii_strtod(values[i], NULL) >= 0);
        if (strcmp(names[i], "class") != 0 || strcmp(element, "rect") != 0) continue;
        page->rects[0] += strcmp(values[i], "predicted") == 0;
        page->rects[1] += strcmp(values[i], "measured") == 0;
    }
}

static void on_text(GMarkupParseContext *context, const char *text, gsize length, gpointer data, GError **error)
{
    (void)error;
    struct page *page = data;
    if (g_strstr_len(text, (gssize)length, hostile)) page->hostile_text = true;
    if (strcmp(g_markup_parse_context_get_element(context), "style") == 0)
        CU_ASSERT_TRUE(!g_strstr_len(text, (gssize)length, "url(") && !g_strstr_len(text, (gssize)length, "@import"));
}

static struct page parsed(const char *html)
{
    static const GMarkupParser parser = { .start_element = on_element, .text = on_text };
    struct page page = { 0 };
    g_autoptr(GError) error = NULL;
    g_autoptr(GMarkupParseContext) context = g_markup_parse_context_new(&parser, 0, &page, NULL);
    const bool good = g_markup_parse_context_parse(context, html, (gssize)strlen(html), &error) &&
                      g_markup_parse_context_end_parse(context, &error);
    if (!good) fprintf(stderr, "not well-formed: %s\n", error->message);
    CU_ASSERT_TRUE(good);
    return page;
}

static struct record *record_of(const char *kind, int ranks, double time_us)
{
    static const char *const phases[] = { "dispatch", "combine" };
    struct record *record = record_new();
    record_set(record, "kind", "%s", kind);
    record_set(record, "kernel", "ll");
    record_set(record, RECORD_CASE_KEYS, "kernel");
    for (int p = 0; p < 2; p++) {
        record_add(record, phases[p], RECORD_ALL, "time_us", time_us * (p + 1), "us");
        record_add(record, phases[p], RECORD_ALL, "logical_rdma_gbs", 40, "GB/s");
        for (int rank = 0; rank < ranks; rank++)
            record_add(record, phases[p], rank, "time_us", time_us * (p + 1) + rank, "us");
    }
    if (strcmp(kind, "simulate") != 0) return record;
    record_add_text(record, "dispatch", RECORD_ALL, "bottleneck", "nic_tx");
    record_add(record, "dispatch", RECORD_ALL, "busy_nic_tx_pct", 90, "%");
    record_add(record, "dispatch", RECORD_ALL, "bound_send_us", 80, "us");
    return record;
}

static GString *page_of(struct record *const *records, const char *const *paths, guint count)
{
    g_autoptr(GPtrArray) cases = report_cases_new((const struct record *const *)records, paths, count);
    GString *html = report_html(cases, NULL, NULL, "1.0");
    return html;
}

TEST("a pair's page")
{
    struct record *records[] = { record_of("replay", 5, 110), record_of("simulate", 5, 100) };
    const char *const paths[] = { "m.csv", "p.csv" };
    g_autoptr(GString) html = page_of(records, paths, 2), again = page_of(records, paths, 2);
    const struct page page = parsed(html->str);
    CU_ASSERT_EQUAL(page.rects[0], 2); /* one bar for each phase and record */
    CU_ASSERT_EQUAL(page.rects[1], 2);
    CU_ASSERT_EQUAL(page.dots, 2 * 2 * 5);     /* one dot for each phase, record and rank */
    CU_ASSERT_EQUAL(page.svgs, 1 + 2 + 1 + 1); /* plots of times, of the ranks of two phases, of bounds, of busy
                                                * shares */
    CU_ASSERT_PTR_NOT_NULL(strstr(
        html->str, "<b>dispatch</b>: predicted 100.0 us, measured 110.0 us (mean over ranks), 9.1\302\240% too low."));
    CU_ASSERT_STRING_EQUAL(html->str, again->str);
    for (int i = 0; i < 2; i++) record_free(records[i]);
}

TEST("hostile words stay words")
{
    struct record *records[2];
    static const char *const kinds[] = { "simulate", "replay" };
    for (int i = 0; i < 2; i++) {
        records[i] = record_new();
        record_set(records[i], "kind", "%s", kinds[i]);
        record_set(records[i], "kernel", "%s", hostile);
        record_set(records[i], "trace", "%s", hostile);
        record_set(records[i], "<script>", "%s", hostile);
        for (int rank = RECORD_ALL; rank < 3; rank++) record_add(records[i], hostile, rank, "time_us", 5, hostile);
        record_add_text(records[i], hostile, RECORD_ALL, "bottleneck", hostile);
        record_add(records[i], hostile, RECORD_ALL, "busy_</svg>_pct", 50, hostile);
        record_add(records[i], hostile, RECORD_ALL, "bound_<b>_us", 4, hostile);
        record_add(records[i], hostile, RECORD_ALL, "<i>_gbs", 4, hostile);
    }
    const char *const paths[] = { hostile, hostile };
    GString *html = page_of(records, paths, 2);
    CU_ASSERT_TRUE(parsed(html->str).hostile_text);
    g_string_free(html, TRUE);
    html = page_of(records, paths, 1);
    CU_ASSERT_TRUE(parsed(html->str).hostile_text);
    g_string_free(html, TRUE);
    g_autoptr(GPtrArray) cases = report_cases_new((const struct record *const *)records, paths, 2);
    g_autoptr(GString) text = report_text(cases, 20);
    CU_ASSERT_TRUE(g_utf8_validate(text->str, (gssize)text->len, NULL));
    for (int i = 0; i < 2; i++) record_free(records[i]);
}

/* Numbers that would break a scale: zero, negative, huge, tiny, unknown, and many. */
TEST("odd numbers")
{
    static const double odd[] = { 0, -5, 1e300, 5e-324, NAN, 1e-9 };
    for (size_t i = 0; i < G_N_ELEMENTS(odd); i++)
        for (size_t k = 0; k < G_N_ELEMENTS(odd); k++) {
            struct record *records[2] = { record_new(), record_new() };
            record_set(records[0], "kind", "simulate");
            const char *const paths[] = { "a", "b" };
            for (int r = 0; r < 2; r++)
                for (int rank = RECORD_ALL; rank < 2; rank++) {
                    record_add(records[r], "a", rank, "time_us", r ? odd[i] : odd[k], "us");
                    record_add(records[r], "b", rank, "time_us", odd[k], "us");
                    record_add(records[r], "c", rank, "time_us", 1, "us");
                    record_add(records[r], "a", rank, "bound_x_us", odd[i], "us");
                    record_add(records[r], "a", rank, "busy_x_pct", odd[k], "%");
                }
            g_autoptr(GString) html = page_of(records, paths, 2);
            parsed(html->str);
            CU_ASSERT_PTR_NULL(strstr(html->str, "=\"nan\""));
            CU_ASSERT_PTR_NULL(strstr(html->str, "=\"inf\""));
            for (int r = 0; r < 2; r++) record_free(records[r]);
        }
    g_autoptr(record) many = record_of("simulate", 5000, 100);
    const char *const path = "many";
    g_autoptr(GString) html = page_of(&many, &path, 1);
    const struct page page = parsed(html->str);
    CU_ASSERT_TRUE(page.dots >= 300 && page.dots <= 2 * 400); /* some dots are left out, but not all */
}

/* Each measurement is shown with its own prediction; a record without a partner is shown alone. */
TEST("who stands with whom")
{
    struct record *records[4] = { record_of("simulate", 0, 1), record_of("replay", 0, 2), record_of("replay", 0, 3),
                                  record_of("simulate", 0, 4) };
    record_set(records[1], "kernel", "normal");
    record_set(records[3], "kernel", "normal");
    const char *const paths[] = { "p-ll", "m-normal", "m-ll", "p-normal" };
    GPtrArray *cases = report_cases_new((const struct record *const *)records, paths, 4);
    CU_ASSERT_EQUAL_FATAL(cases->len, 2);
    const struct report_case *first = g_ptr_array_index(cases, 0), *second = g_ptr_array_index(cases, 1);
    CU_ASSERT_STRING_EQUAL(first->series[0].path, "p-normal");
    CU_ASSERT_STRING_EQUAL(first->series[1].path, "m-normal");
    CU_ASSERT_STRING_EQUAL(second->series[0].path, "p-ll");
    CU_ASSERT_STRING_EQUAL(second->series[1].path, "m-ll");
    g_ptr_array_unref(cases);
    cases = report_cases_new((const struct record *const *)records, paths, 2);
    CU_ASSERT_EQUAL(cases->len, 2);
    g_ptr_array_unref(cases);
    for (int i = 0; i < 4; i++) record_free(records[i]);
}

/* A record of measure has a line for each operation, with a dot for each size, in order. */
TEST("bandwidth by size")
{
    g_autoptr(record) record = record_new();
    record_set(record, "kind", "measure");
    static const int sizes[] = { 65536, 8, 1024 };
    for (int i = 0; i < 3; i++) {
        char metric[64];
        g_snprintf(metric, sizeof metric, "bandwidth_gbs_%d", sizes[i]);
        record_add(record, "put", RECORD_ALL, metric, sizes[i] / 1e4, "GB/s");
        record_add(record, "store", RECORD_ALL, metric, sizes[i] / 1e3, "GB/s");
    }
    record_add(record, "copy", RECORD_ALL, "read_gbs_64", 1, "GB/s"); /* one size does not make a line */
    record_add(record, "copy", RECORD_ALL, "time_us_64", 1, "us");
    const char *const path = "measured";
    g_autoptr(GString) html = page_of(&record, &path, 1);
    const struct page page = parsed(html->str);
    CU_ASSERT_EQUAL(page.svgs, 1);
    CU_ASSERT_EQUAL(page.dots, 6);
    const char *first = strstr(html->str, "put: 8 bytes"), *last = strstr(html->str, "put: 65536 bytes");
    CU_ASSERT_TRUE(first && last && first < last);
}

/* The table of results has all phases of a step.  Of records of measure it has no times, and speaks of none. */
TEST("the table of results")
{
    struct record *records[] = { record_of("step", 0, 1), record_of("step", 0, 2) };
    const char *const paths[] = { "first", "second" };
    for (int i = 0; i < 2; i++) {
        record_set(records[i], "num-tokens", "%d", i);
        record_set(records[i], RECORD_CASE_KEYS, "kernel num-tokens");
        for (int p = 0; p < 12; p++) {
            g_autofree char *phase = g_strdup_printf("part%d", p);
            record_add(records[i], phase, RECORD_ALL, "slowest_us", 12345, "us");
            record_add(records[i], phase, RECORD_ALL, "time_us", 12345, "us");
        }
    }
    g_autoptr(GString) steps = page_of(records, paths, 2);
    CU_ASSERT_PTR_NOT_NULL(strstr(steps->str, "Bars: the longest of a step's kernels"));
    CU_ASSERT_PTR_NULL(strstr(steps->str, "step: slowest rank"));
    CU_ASSERT_PTR_NOT_NULL(strstr(steps->str, "<td>part11</td><td class=\"n\">12345 us</td>"));
    for (int i = 0; i < 2; i++) record_set(records[i], "kind", "measure");
    g_autoptr(GString) measures = page_of(records, paths, 2);
    CU_ASSERT_PTR_NOT_NULL(strstr(measures->str, "<th>result</th></tr>"));
    CU_ASSERT_PTR_NULL(strstr(measures->str, "Times of the slowest rank"));
    for (int i = 0; i < 2; i++) record_free(records[i]);
}

TEST("scales")
{
    struct svg_scale scale;
    svg_scale_set(&scale, 100, 500, 163, 6);
    CU_ASSERT_EQUAL(scale.tick_count, 5);
    CU_ASSERT_EQUAL(scale.tick[1], 50);
    CU_ASSERT_EQUAL(scale.to, 200);
    CU_ASSERT_EQUAL(svg_scale_pixel(&scale, 0), 100);
    CU_ASSERT_EQUAL(svg_scale_pixel(&scale, 100), 300);
    CU_ASSERT_EQUAL(svg_scale_pixel(&scale, 1000), 500);
    svg_scale_set(&scale, 0, 1, 100, 5);
    CU_ASSERT_EQUAL(scale.to, 100);
    svg_scale_set(&scale, 0, 1, 0.3, 3);
    CU_ASSERT_DOUBLE_EQUAL(scale.to, 0.3, 1e-12);
    svg_scale_set(&scale, 0, 1, NAN, 3);
    CU_ASSERT_TRUE(isfinite(scale.to) && scale.to > 0);
}

/* Scales do not begin at 0 if the values are close together.  Other scales are of whole numbers, or of powers of ten or
 * two. */
TEST("scales that do not begin at 0")
{
    struct svg_scale scale;
    svg_scale_range(&scale, 0, 100, 161, 174, 4);
    CU_ASSERT_EQUAL(scale.from, 160);
    CU_ASSERT_EQUAL(scale.to, 175);
    svg_scale_range(&scale, 0, 100, 10, 174, 4);
    CU_ASSERT_EQUAL(scale.from, 0);
    svg_scale_range(&scale, 0, 100, 5, 5, 4);
    CU_ASSERT_TRUE(scale.from == 0 && scale.to >= 5);
    svg_scale_count(&scale, 0, 100, 1, 8);
    CU_ASSERT_EQUAL(scale.tick_count, 2); /* ticks at ranks 0 and 1, and none between */
    svg_scale_count(&scale, 0, 63, 63, 8);
    CU_ASSERT_EQUAL(scale.tick[1], 10);
    CU_ASSERT_EQUAL(svg_scale_pixel(&scale, 63), 63);
    svg_scale_log(&scale, 0, 100, 8, 1 << 20, 2);
    CU_ASSERT_EQUAL(scale.tick[0], 16);
    CU_ASSERT_EQUAL(scale.tick[1], 256);
    svg_scale_log(&scale, 0, 100, 1, 100, 10);
    CU_ASSERT_DOUBLE_EQUAL(svg_scale_pixel(&scale, 10), 50, 1e-9);
    svg_scale_log(&scale, 0, 100, 0, INFINITY, 10);
    CU_ASSERT_TRUE(isfinite(svg_scale_pixel(&scale, 5)) && scale.tick_count > 0);
}

/* No two titles may be equal.  Each must say in what its result differs from the others. */
TEST("titles tell results apart")
{
    struct record *records[5];
    const char *paths[] = { "a.csv", "b.csv", "c.csv", "x/d.csv", "y/d.csv" };
    for (int i = 0; i < 5; i++) {
        records[i] = record_of("simulate", 0, 100);
        record_set(records[i], "num-ranks", "%d", i < 3 ? 8 << i : 8);
        record_set(records[i], "hidden", "7168");
        record_set(records[i], "odd-option", i == 2 ? "17" : "3");
        record_set(records[i], "hook", i == 1 ? "true" : "false");
        record_set(records[i], "version", "%d", i);
        record_set(records[i], "cpu-others-pct", "%d", i); /* what else the host did must not be in a title */
        record_set(records[i], "run-queue", "%d", i);
    }
    g_autoptr(GPtrArray) cases = report_cases_new((const struct record *const *)records, paths, 5);
    static const char *const titles[] = { "8 ranks, odd-option 3", "16 ranks, odd-option 3, hook",
                                          "32 ranks, odd-option 17", "8 ranks, odd-option 3 (d.csv)",
                                          "8 ranks, odd-option 3 (d.csv) #2" };
    for (guint i = 0; i < 5; i++)
        CU_ASSERT_STRING_EQUAL(((const struct report_case *)g_ptr_array_index(cases, i))->title, titles[i]);
    g_autofree char *common = report_common(cases);
    CU_ASSERT_STRING_EQUAL(common, "ll kernels, hidden 7168");
    g_autoptr(GString) html = report_html(cases, NULL, NULL, "1.0");
    CU_ASSERT_PTR_NOT_NULL(strstr(html->str, "<a href=\"#result5\">8 ranks, odd-option 3 (d.csv) #2</a>"));
    CU_ASSERT_PTR_NOT_NULL(strstr(html->str, "<section id=\"result5\">"));
    parsed(html->str);
    for (int i = 0; i < 5; i++) record_free(records[i]);
}

/* Results that have nothing in common, and may be of no dispatch, have a title that says nothing of either. */
TEST("titles of unlike results")
{
    struct record *records[] = { record_new(), record_new() };
    const char *paths[] = { "links.csv", "step.csv" };
    for (int i = 0; i < 2; i++) {
        record_set(records[i], "kind", i ? "step" : "measure");
        record_set(records[i], "num-ranks", i ? "8" : "2");
        record_add(records[i], "step", RECORD_ALL, "time_us", 10, "us");
    }
    g_autoptr(GPtrArray) cases = report_cases_new((const struct record *const *)records, paths, 2);
    g_autoptr(GString) html = report_html(cases, NULL, NULL, "1.0");
    CU_ASSERT_PTR_NOT_NULL(strstr(html->str, "<h1>Results</h1>"));
    parsed(html->str);
    for (int i = 0; i < 2; i++) record_free(records[i]);
}

/* Two predictions of the same work are shown together, with bars of both and the bounds of each.  A third is shown with
 * the first. */
TEST("two predictions")
{
    static const char *const placements[] = { "identity", "greedy", "eplb:8" };
    const char *const paths[] = { "a.csv", "b.csv", "c.csv" };
    struct record *records[3];
    for (int i = 0; i < 3; i++) {
        records[i] = record_of("simulate", 0, 300 - 100 * i);
        record_set(records[i], "placement", "%s", placements[i]);
        record_set(records[i], "cluster", "8x400G / rail");
        record_set(records[i], RECORD_CASE_KEYS, "kernel num-tokens placement");
        record_set(records[i], RECORD_WORK_KEYS, "num-tokens");
        record_add(records[i], "dispatch", RECORD_ALL, "time_us_max", 600 - 250 * i, "us");
    }
    GString *html = page_of(records, paths, 2);
    parsed(html->str);
    CU_ASSERT_PTR_NOT_NULL(
        strstr(html->str, "<h2 class=\"verdict\">The second is 1.50 times faster: dispatch and combine take"));
    CU_ASSERT_PTR_NOT_NULL(strstr(html->str, "8x400G / rail")); /* the cluster's name instead of its file */
    CU_ASSERT_PTR_NOT_NULL(strstr(html->str, "<b>They differ in placement</b>: identity against greedy."));
    CU_ASSERT_PTR_NOT_NULL(strstr(html->str, "dispatch, second: slowest rank 350.0 us, mean over ranks 200.0 us"));
    CU_ASSERT_PTR_NOT_NULL(strstr(html->str, "<h3>First and second</h3>"));
    CU_ASSERT_PTR_NULL(strstr(html->str, "error"));
    CU_ASSERT_PTR_NULL(strstr(html->str, "<h2>")); /* the only heading of this level is the verdict, which has a
                                                    * class */
    g_string_free(html, TRUE);
    html = page_of(records, paths, 3);
    parsed(html->str);
    CU_ASSERT_PTR_NOT_NULL(strstr(html->str, "placement: identity against greedy</a>"));
    CU_ASSERT_PTR_NOT_NULL(strstr(html->str, "placement: identity against eplb:8</a>"));
    CU_ASSERT_PTR_NULL(strstr(html->str, "They differ")); /* not said again, because the titles say it */
    g_string_free(html, TRUE);
    record_set(records[1], "num-tokens", "77"); /* the work differs, so the results are not compared */
    g_autoptr(GPtrArray) cases = report_cases_new((const struct record *const *)records, paths, 2);
    CU_ASSERT_EQUAL(cases->len, 2);
    for (int i = 0; i < 3; i++) record_free(records[i]);
}

/* Layers are drawn as lines instead of bars.  The slowest rank comes from the rows of the layer. */
TEST("layers")
{
    g_autoptr(record) record = record_of("simulate", 0, 100);
    for (int layer = 0; layer < 12; layer++) {
        char phase[32];
        g_snprintf(phase, sizeof phase, "dispatch_layer%d", layer);
        record_add(record, phase, RECORD_ALL, "time_us", 100 + layer, "us");
        record_add(record, phase, RECORD_ALL, "slowest_us", 1.5 * (100 + layer), "us");
    }
    const char *const path = "layers.csv";
    g_autoptr(GString) html = page_of(&record, &path, 1);
    const struct page page = parsed(html->str);
    CU_ASSERT_EQUAL(page.rects[0], 2);
    CU_ASSERT_EQUAL(page.dots, 12);
    CU_ASSERT_PTR_NOT_NULL(strstr(html->str, "layer 11: slowest rank 166.5 us, mean 111.0 us"));
}

static struct record *waits_of(const char *kind, double own, double other)
{
    struct record *record = record_of(kind, 0, 100);
    for (int rank = 0; rank < 3; rank++) {
        double us[3] = { other, other, other };
        us[rank] = own;
        record_add_list(record, "dispatch", rank, "waits_us", us, 3);
    }
    return record;
}

static bool has_cell(const GString *html, const char *place, const char *class, const char *tip)
{
    g_autofree char *cell = g_strdup_printf("<rect %s class=\"%s\"><title>%s</title></rect>", place, class, tip);
    return strstr(html->str, cell) != NULL;
}

/* ---- texts of drawings ---- */

struct text_box {
    double left, right, base;
    char text[40];
};

/* Returns the width of a text of 12 pixels in DejaVu Sans, the widest font of the page.  The width is exact for digits
 * and blanks. */
static double text_width(const char *text)
{
    double em = 0;
    for (const char *c = text; *c; c++)
        em += g_ascii_isdigit(*c) ? 0.636 : strchr(" .,", *c) ? 0.318 : strchr("M%mw", *c) ? 0.9 : 0.55;
    return 12 * em;
}

/* Returns the value of the named attribute as a number. */
static double number_of(const char *at, const char *name)
{
    const char *found = strstr(at, name);
    return found ? g_ascii_strtod(found + strlen(name), NULL) : NAN;
}

static struct text_box text_box_of(const char *at)
{
    struct text_box box;
    const char *text = strchr(at, '>') + 1;
    const double x = number_of(at, " x=\"");
    g_strlcpy(box.text, text, MIN((gsize)(strchr(text, '<') - text) + 1, sizeof box.text));
    const double width = text_width(box.text);
    const char *anchor = strstr(at, "text-anchor=\"") + strlen("text-anchor=\"");
    box.left = x - (*anchor == 'e' ? width : *anchor == 'm' ? width / 2 : 0);
    box.right = box.left + width;
    box.base = number_of(at, " y=\"");
    return box;
}

/* Asserts that in every drawing no text is cut off, lies on another, or has an exponent. */
static void texts_check(const char *html)
{
    struct text_box box[200];
    for (const char *svg = strstr(html, "<svg viewBox"); svg; svg = strstr(svg + 1, "<svg viewBox")) {
        const char *end = strstr(svg, "</svg>");
        int count = 0;
        for (const char *at = strstr(svg, "<text"); at && at < end; at = strstr(at + 1, "<text")) {
            if (count == (int)G_N_ELEMENTS(box)) break;
            box[count++] = text_box_of(at);
        }
        for (int i = 0; i < count; i++) {
            const struct text_box *a = &box[i];
            bool good = a->left >= -1 && a->right <= 401 && !strstr(a->text, "e+") && !strstr(a->text, "e-");
            for (int k = 0; k < i; k++)
                if (fabs(a->base - box[k].base) < 9 && a->left < box[k].right - 1 && box[k].left < a->right - 1)
                    good = false;
            if (!good) fprintf(stderr, "text '%s' at %.1f to %.1f, %.1f\n", a->text, a->left, a->right, a->base);
            CU_ASSERT_TRUE(good);
        }
    }
}

/* Draws a time in us, from a nanosecond to a quarter of an hour, often close to the previous one. */
static double odd_value(struct rng *rng)
{
    static double last = 1;
    if (rng_uniform(rng) < 0.3) return last *= 1 + 0.02 * rng_uniform(rng);
    return last = pow(10, -3 + 12 * rng_uniform(rng)) * (1 + 9 * rng_uniform(rng));
}

static struct record *odd_record(struct rng *rng, const char *kind, uint32_t ranks)
{
    struct record *record = record_of(kind, 0, odd_value(rng));
    for (uint32_t rank = 0; rank < ranks; rank++) {
        double us[16];
        for (uint32_t peer = 0; peer < ranks; peer++) us[peer] = peer == rank ? 0 : odd_value(rng);
        record_add(record, "dispatch", (int)rank, "time_us", odd_value(rng), "us");
        record_add_list(record, "dispatch", (int)rank, "waits_us", us, ranks);
    }
    for (uint32_t layer = 0; layer < 2 + rng_below(rng, 200); layer++) {
        char phase[32];
        g_snprintf(phase, sizeof phase, "dispatch_layer%u", layer);
        record_add(record, phase, RECORD_ALL, "time_us", odd_value(rng), "us");
        record_add(record, phase, RECORD_ALL, "slowest_us", odd_value(rng), "us");
    }
    record_add(record, "combine", RECORD_ALL, "bound_x_us", odd_value(rng), "us");
    record_add(record, "combine", RECORD_ALL, "busy_x_pct", 100 * rng_uniform(rng), "%");
    for (uint32_t size = 0; size < 3; size++) {
        char metric[64];
        g_snprintf(metric, sizeof metric, "bandwidth_gbs_%u", (guint)(1 + rng_below(rng, 1 << 30)));
        record_add(record, "put", RECORD_ALL, metric, odd_value(rng), "GB/s");
    }
    return record;
}

/* Whatever the values are, the texts of each drawing must not overlap. */
TEST("texts keep apart")
{
    struct rng rng = rng_seeded(41);
    for (int run = 0; run < 300; run++) {
        const uint32_t ranks = 2 + rng_below(&rng, 15);
        struct record *records[] = { odd_record(&rng, "simulate", ranks), odd_record(&rng, "replay", ranks) };
        const char *const paths[] = { "p.csv", "m.csv" };
        g_autoptr(GString) html = page_of(records, paths, 2);
        texts_check(html->str);
        for (int i = 0; i < 2; i++) record_free(records[i]);
    }
    /* waits as in a replay on a busy machine */
    g_autoptr(record) busy = waits_of("replay", 1380, 1040);
    const char *const path = "m.csv";
    g_autoptr(GString) html = page_of(&busy, &path, 1);
    texts_check(html->str);
    CU_ASSERT_PTR_NOT_NULL(strstr(html->str, ">1380 us</text>"));
}

TEST("numbers without exponents")
{
    static const struct {
        double value;
        int digits;
        const char *text;
    } cases[] = { { 1380, 3, "1380" },      { 0, 3, "0" },          { 0.05, 3, "0.05" },
                  { 99999, 6, "99999" },    { 100000, 6, "100k" },  { 1.5e6, 3, "1.5M" },
                  { 2e9, 3, "2G" },         { 12.3456, 3, "12.3" }, { 1e-5, 3, "0.00001" },
                  { -2500000, 2, "-2.5M" }, { 999999, 3, "1M" },    { NAN, 3, "-" } };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        char text[64];
        svg_number_text(text, sizeof text, cases[i].value, cases[i].digits);
        CU_ASSERT_STRING_EQUAL(text, cases[i].text);
        if (strcmp(text, cases[i].text) != 0) fprintf(stderr, "%g: %s\n", cases[i].value, text);
    }
}

/* There must be maps of both records and of their ratio, in which each cell has its numbers.  A row that is not a list
 * must make no map. */
TEST("maps of waits")
{
    struct record *records[] = { waits_of("simulate", 0, 20), waits_of("replay", 1, 50) };
    const char *const paths[] = { "p.csv", "m.csv" };
    GString *html = page_of(records, paths, 2);
    parsed(html->str);
    CU_ASSERT_TRUE(has_cell(html, "x=\"2\" y=\"0\"", "h3", "0 for 2: 20"));
    CU_ASSERT_TRUE(has_cell(html, "x=\"2\" y=\"0\"", "h7", "0 for 2: 50"));
    CU_ASSERT_TRUE(has_cell(html, "x=\"2\" y=\"0\"", "r7", "0 for 2: 2.5"));
    CU_ASSERT_FALSE(strstr(html->str, "class=\"r8\"><title>0 for 0")); /* 0 over 0 has no ratio */
    g_string_free(html, TRUE);
    for (int i = 0; i < 2; i++) record_free(records[i]);
    g_autoptr(record) odd = record_of("simulate", 0, 100);
    record_add_text(odd, "dispatch", 0, "waits_us", "1 two 3");
    record_add_text(odd, "dispatch", 7, "waits_us", "1 2");
    record_add_text(odd, "combine", 0, "waits_us", "0 0");
    html = page_of(&odd, paths, 1);
    parsed(html->str);
    CU_ASSERT_PTR_NULL(strstr(html->str, "class=\"heat\""));
    g_string_free(html, TRUE);
}

/* 200 ranks share cells of 4 by 4, so that a map stays small.  A cell must show its longest wait. */
TEST("a map of many ranks")
{
    enum { RANKS = 200 };
    g_autoptr(record) record = record_of("simulate", 0, 100);
    for (int rank = 0; rank < RANKS; rank++) {
        double us[RANKS];
        for (int peer = 0; peer < RANKS; peer++) us[peer] = rank == 13 && peer == 199 ? 99 : 3;
        record_add_list(record, "dispatch", rank, "waits_us", us, RANKS);
    }
    const char *const path = "large.csv";
    g_autoptr(GString) html = page_of(&record, &path, 1);
    parsed(html->str);
    CU_ASSERT_TRUE(html->len < 1 << 20);
    CU_ASSERT_TRUE(has_cell(html, "x=\"49\" y=\"3\"", "h7", "12 for 196: 99"));
}

/* A share of busy time is drawn and written as 100 % at most, whatever the record holds. */
TEST("busy shares")
{
    g_autoptr(record) record = record_of("simulate", 0, 100);
    record_add(record, "combine", RECORD_ALL, "busy_link_pct", 140, "%");
    const char *const path = "busy.csv";
    g_autoptr(GString) html = page_of(&record, &path, 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(html->str, ">100.0 %</text>"));
    CU_ASSERT_PTR_NULL(strstr(html->str, ">140.0 %</text>"));
}

static struct drawing *machine_draw(void *context, const struct record *record)
{
    if (!record_get(record, "cluster")) return NULL;
    struct drawing *drawing = drawing_new(context, "parts");
    const uint32_t row = drawing_row_add(drawing, "NICs", NULL, "nic");
    drawing_part_add(drawing, row, "n0.nic0", NULL, "a NIC", "nic_tx nic_rx");
    const uint32_t other = drawing_part_add(drawing, row, "leaf0", NULL, "a switch", NULL);
    drawing_link_add(drawing, 0, other, "n0.nic0-leaf0", "a link", "link");
    return drawing;
}

/* The given drawing is shown, with the parts that bound each phase marked.  If no bound is known, there is no
 * drawing. */
TEST("the machine")
{
    g_autoptr(record) record = record_of("simulate", 0, 100);
    const char *const path = "p.csv";
    const struct record *const records[] = { record };
    const struct report_machines machines = { machine_draw, (void *)hostile };
    record_add_text(record, "combine", RECORD_ALL, "bottleneck", "link");
    record_add_text(record, "combine", RECORD_ALL, "busiest_link", "leaf0-n0.nic0");
    record_add_text(record, "combine", RECORD_ALL, "bottleneck_part", "leaf0-n0.nic0");
    record_add(record, "combine", RECORD_ALL, "bottleneck_busy_pct", 97, "%");
    for (int known = 0; known < 2; known++) {
        if (known) record_set(record, "cluster", "here");
        g_autoptr(GPtrArray) cases = report_cases_new(records, &path, 1);
        g_autoptr(GString) html = report_html(cases, NULL, &machines, "1.0");
        CU_ASSERT_EQUAL(strstr(html->str, "<svg xmlns") != NULL, known);
        CU_ASSERT_EQUAL(strstr(html->str, "The bottleneck of each phase is highlighted.") != NULL, known);
        CU_ASSERT_EQUAL(strstr(html->str, "class=\"nic m\" data-name=\"n0.nic0\"") != NULL, known);
        CU_ASSERT_EQUAL(strstr(html->str, "class=\"link m\"") != NULL, known);
        CU_ASSERT_PTR_NULL(strstr(html->str, "<script"));
    }
}

/* With a thousand results, the table has all of them, and the page has a few MB. */
TEST("a thousand results")
{
    enum { MANY = 1000 };
    struct record *records[MANY];
    const char *paths[MANY];
    for (int i = 0; i < MANY; i++) {
        records[i] = record_of(i % 2 ? "replay" : "simulate", 16, 100 + i);
        record_set(records[i], "num-tokens", "%d", i / 2);
        record_set(records[i], RECORD_CASE_KEYS, "kernel num-tokens");
        paths[i] = "many.csv";
    }
    g_autoptr(GString) html = page_of(records, paths, MANY);
    CU_ASSERT_TRUE(html->len < 5 << 20);
    CU_ASSERT_PTR_NOT_NULL(strstr(html->str, ">499 tokens<"));
    parsed(html->str);
    for (int i = 0; i < MANY; i++) record_free(records[i]);
}

/* Makes the file of a sweep of SMs, tokens and formats.  Time falls with SMs down to a floor. */
static GString *sweep_file(int sms, int tokens)
{
    static const char *const phase[] = { "dispatch", "combine", "layer" };
    GString *text =
        g_string_new("# kind: sweep\n# kernel: normal\n# work-keys: num-tokens\n# points: 1\n# baseline: num-sms=1\n"
                     "point,num-tokens,dtype,num-sms,phase,phases,slowest_us,speedup,bottleneck,problem\n");
    int point = 0;
    for (int t = 1; t <= tokens; t++)
        for (int f = 0; f < 2; f++)
            for (int s = 1; s <= sms; s++, point++)
                for (int p = 0; p < 3; p++)
                    g_string_append_printf(text, "%d,%d,%s,%d,%s,3,%g,%g,nic_tx,\n", point, 100 * t, f ? "bf16" : "fp8",
                                           s, phase[p], (p == 2 ? 2 : 1) * MAX(100.0 * (f + 1) * t / s, 20.0),
                                           MIN((double)s, 5.0));
    return text;
}

static GString *sweep_page(const char *text, struct page *page)
{
    GError *error = NULL;
    struct sweep_table *table = MADE(sweep_table_parse("sweep.csv", text, &error));
    g_autoptr(GPtrArray) cases = g_ptr_array_new(), sweeps = g_ptr_array_new();
    g_ptr_array_add(sweeps, table);
    GString *html = report_html(cases, sweeps, NULL, "1.0");
    *page = parsed(html->str);
    sweep_table_free(table);
    return html;
}

/* SMs are along the axis, formats are lines, and tokens are panels.  A point with more SMs that is not faster is not on
 * the front. */
TEST("a sweep")
{
    struct page page;
    GString *text = sweep_file(8, 3), *html = sweep_page(text->str, &page);
    CU_ASSERT_EQUAL(page.svgs, 3 * 3 + 6);             /* 3 panels each for the layer, dispatch and combine, and 6
                                                        * fronts */
    CU_ASSERT_EQUAL(page.dots, 3 * 3 * 2 * 8 + 6 * 8); /* each of 9 panels has 2 lines of 8 points, and each of 6 fronts
                                                        * has 8 points */
    CU_ASSERT_PTR_NOT_NULL(strstr(html->str, "<figcaption>num-tokens 300</figcaption>"));
    CU_ASSERT_PTR_NOT_NULL(strstr(html->str, "num-sms 4, dtype bf16: 300.0 us"));
    /* 100 tokens of fp8 take 20 us a phase from 5 SMs on, so points with 6 to 8 SMs are not on the front. */
    CU_ASSERT_PTR_NOT_NULL(strstr(html->str, "class=\"c1\"><title>num-tokens 100, dtype fp8, num-sms 5, 40.00 us<"));
    CU_ASSERT_PTR_NOT_NULL(strstr(html->str, "class=\"bound\"><title>num-tokens 100, dtype fp8, num-sms 6, 40.00 us<"));
    CU_ASSERT_PTR_NOT_NULL(strstr(html->str, "5.00 times faster"));
    /* At best, dispatch and combine take 20 us each for 100 tokens, and 37.5 us each for 300 tokens with 8 SMs. */
    CU_ASSERT_PTR_NOT_NULL(strstr(html->str, "<h3>The best dtype, num-sms for each num-tokens</h3>"));
    CU_ASSERT_PTR_NOT_NULL(strstr(html->str, "Dispatch + combine at best: 40.00 us to 75.00 us, against the baseline"));
    CU_ASSERT_PTR_NOT_NULL(strstr(html->str, "<h1>Sweep of num-tokens, dtype, num-sms: normal kernels</h1>"));
    g_string_free(html, TRUE);
    /* The file also has a line that was cut, a point that is impossible, and words that would take the page over. */
    g_string_append_printf(text, "90,1,fp8,1,,1,,,,%s and \"so\" on\n91,%s,fp8,1,dispatch,2,7,1,<b>,\n92,1", "<script>",
                           "</svg><script>");
    html = sweep_page(text->str, &page);
    CU_ASSERT_PTR_NOT_NULL(strstr(html->str, "1 more are impossible, the first because of: &lt;script&gt; and"));
    CU_ASSERT_PTR_NULL(strstr(html->str, "<script"));
    g_string_free(html, TRUE);
    g_string_free(text, TRUE);
    text = sweep_file(25, 20); /* 1,000 points */
    html = sweep_page(text->str, &page);
    CU_ASSERT_TRUE(html->len < 2 << 20);
    g_string_free(html, TRUE);
    g_string_free(text, TRUE);
}

/* The best point is that of the shortest layer, and shows the layer's bottleneck. */
TEST("best of a sweep's layers")
{
    struct page page;
    g_autoptr(GString) html = sweep_page(
        "# kind: sweep\npoint,num-sms,phase,phases,slowest_us,speedup,bottleneck,problem\n"
        "0,2,notify,4,50,,short,\n0,2,dispatch,4,10,,short,\n0,2,combine,4,20,,short,\n0,2,layer,4,80,,slow,\n"
        "1,4,dispatch,3,20,,short,\n1,4,combine,3,20,,short,\n1,4,layer,3,40,,fast,\n",
        &page);
    CU_ASSERT_PTR_NOT_NULL(strstr(html->str, "Dispatch + combine at best: 40.00 us; bound by fast"));
    CU_ASSERT_PTR_NULL(strstr(html->str, ">short<"));
}

TEST("a sweep of one point")
{
    struct page page;
    g_autoptr(GString) html =
        sweep_page("# kind: sweep\npoint,num-sms,phase,phases,slowest_us,speedup,bottleneck,problem\n"
                   "0,2,dispatch,1,12345,,sm,\n",
                   &page);
    CU_ASSERT_PTR_NOT_NULL(strstr(html->str, "<p>1 point; "));
    CU_ASSERT_PTR_NOT_NULL(strstr(html->str, "12345 us"));
}

/* A sweep of a collective has no layer, and its longest phase counts, not the one that prepares it. */
TEST("a sweep without layers")
{
    struct page page;
    g_autoptr(GString) html =
        sweep_page("# kind: sweep\npoint,size,phase,phases,slowest_us,speedup,bottleneck,problem\n"
                   "0,1,sync,2,4,,short,\n0,1,allreduce,2,30,,slow,\n"
                   "1,2,sync,2,4,,short,\n1,2,allreduce,2,50,,slow,\n",
                   &page);
    CU_ASSERT_PTR_NOT_NULL(strstr(html->str, "Allreduce"));
    CU_ASSERT_PTR_NOT_NULL(strstr(html->str, "50.00 us"));
    CU_ASSERT_PTR_NULL(strstr(html->str, ">short<"));
}

TEST("what is no sweep")
{
    static const char *const bad[] = { "# kind: sweep\n", "# kind: sweep\na,b\n1,2\n",
                                       "# kind: sweep\npoint,phase,slowest_us,speedup,bottleneck,problem\n",
                                       ("# kind: sweep\npoint,phase,slowest_us,speedup,bottleneck,problem\n"
                                        "0,,,,,too few ranks\n") };
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autoptr(GError) error = NULL;
        CU_ASSERT_PTR_NULL(sweep_table_parse("bad.csv", bad[i], &error));
        CU_ASSERT_EQUAL(error_status(error), EXIT_BAD_INPUT);
        CU_ASSERT_TRUE(error && g_str_has_prefix(error->message, "bad.csv: expected "));
    }
    CU_ASSERT_FALSE(sweep_results_told("# kind: simulate\n"));
}
