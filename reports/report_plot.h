/* report_plot.h - private to the report: how its figures and tables are laid out, so that all are alike.
 *
 * Every figure is as wide as a telephone shows with readable letters, and the page puts as many next to each other
 * as there is room for.  Numbers stand left of, right of and below the plot's lines, never on them:
 *
 *        |<- names ->|                          |<- values ->|
 *        0           LEFT                   RIGHT            WIDTH
 *             phase  |██████████████            |    170 us */
#ifndef REPORTS_REPORT_PLOT_H
#define REPORTS_REPORT_PLOT_H

#include "reports/report.h"
#include "reports/svg.h"

enum {
    PLOT_WIDTH = 400,
    PLOT_LEFT = 116, /* the left end of bars, which have names to their left */
    PLOT_RIGHT = 326,
    PLOT_EDGE = 46, /* the left end of plots with numbers to their left */
    PLOT_END = 390, /* the right end of such plots */
    PLOT_TOP = 26,
    PLOT_BAR = 14,
    PLOT_AXIS = 38, /* height of an axis with its numbers, below a plot */
    PLOT_TICKS = 4,
    PLOT_PHASES_MAX = 40, /* phases; more would be too long to read, and are in the tables */
    PLOT_DOTS_MAX = 400,  /* the most dots of one line; if there are more values, evenly spaced ones are taken */
    PLOT_COLOURS = 8,     /* classes c0 to c7 */
};

/* Begins and ends a group of figures.  heading and note may be NULL.  note must be the program's own text.
 * report_figures_begin_many() is for many figures, three in a row. */
void report_figures_begin(GString *out, const char *heading, const char *note);
void report_figures_begin_many(GString *out, const char *heading, const char *note);
void report_figures_end(GString *out);
/* Begins a figure: the caption above it (may be NULL), the drawing's height, and a label for screen readers. */
void report_figure_begin(GString *out, const char *caption, double height, const char *label);
void report_figure_end(GString *out);

/* ---- a figure of lines and dots ----
 *
 * The caller sets texts, adds lines, asks for the range of the points, sets both scales and draws.  y goes from
 * PLOT_TOP + height up to PLOT_TOP. */
struct report_figure {
    const char *caption, *label; /* caption may be NULL */
    const char *x_unit, *y_unit; /* x_unit NULL: the caller draws that axis */
    double height;               /* of the plot between its axes */
    double inset;                /* distance from the plot's left edge to where the scale of x begins */
    bool upright;                /* whether grid lines also stand at the values of x */
    bool sizes;                  /* x counts bytes */
    struct svg_scale x, y;
    GPtrArray *lines; /* struct report_line *; NULL: none yet */
};
/* Adds a line to a figure.  class: the style of the line through its points, such as report_colours[0]; NULL: dots
 * only. */
extern const char *const report_colours[PLOT_COLOURS];
struct report_line *report_line_add(struct report_figure *figure, const char *class);
/* Adds a point to a line, which joins its points from left to right.  radius: the dot's radius; 0: no dot.  class: the
 * dot's class; NULL: the last word of the line's class.  Takes tip, which may be NULL. */
void report_point_add(struct report_line *line, double x, double y, double radius, const char *class, char *tip);
guint report_line_count(const struct report_line *line); /* how many points it has */
/* The least and most values of all points; from INFINITY to -INFINITY if there are none. */
struct report_range {
    double x_least, x_most, y_least, y_most;
};
struct report_range report_figure_range(const struct report_figure *figure);
void report_figure_axes(const struct report_figure *figure, GString *out); /* begins the figure and draws its axes */
void report_figure_lines(struct report_figure *figure, GString *out); /* draws and frees the lines; ends the figure */
void report_figure_draw(struct report_figure *figure, GString *out);  /* does what the two functions above do */
void report_figure_clear(struct report_figure *figure); /* frees the lines of a figure that is not drawn */

/* ---- a figure of bars ---- */

struct report_bars {
    struct svg_scale scale;
    guint together; /* number of bars for each name */
    double bottom;
};
/* Begins a figure of `count` names with `together` bars each, for values from 0 to most. */
struct report_bars report_bars_begin(GString *out, const char *caption, const char *label, const char *unit,
                                     guint names, guint together, double most);
/* Draws a name's bar number `which`.  The name stands left of its first bar, and each bar's number right of the bar.
 * tip NULL: the number is also the tip.  Returns the bar's top. */
double report_bar(GString *out, const struct report_bars *bars, guint index, guint which, const char *name,
                  double value, const char *unit, const char *class, const char *tip);

/* Appends a legend with the colours of the case's series, if there are two. */
void report_legend(const struct report_case *c, GString *out);
/* The style of the shape with this number: c0 to c7, then the same colours paler.  Free with g_free(). */
char *report_colour_class(guint number);
/* Appends a legend of the shapes 0, 1, ..., with their names. */
void report_legend_names(const char *const *names, guint count, GString *out);
/* The CSS class of the series' colour: "predicted", or "measured" for the second colour. */
const char *report_series_class(const struct report_series *series);
/* A name that fits before bars: the text, or its beginning.  Free it. */
char *report_name_fit(const char *name, glong letters);

/* ---- tables of the page (report_html.c) ---- */

/* Appends the sentence with the deciding number.  If titled, the page's heading already is the section's title.  The
 * sentence then becomes the section's heading. */
void report_html_verdict(GString *out, const char *text, bool titled);
void report_html_cell(GString *out, const char *class, const char *text);
void report_html_number(GString *out, char *text); /* takes text */
/* Begins a table, which scrolls sideways if it is too wide.  name: its label for screen readers.  format: a letter for
 * each column, 'l' or 'r' for its alignment; a column with ' ' is left out. */
void report_html_table_begin(GString *out, const char *name, const char *format, const char *const *titles);
void report_html_table_end(GString *out);

#endif
