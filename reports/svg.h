/* svg.h - drawing as text: the few SVG shapes that the report's plots are made of, axes, and HTML escaping.
 *
 * A shape names a CSS class, so that the page's style decides its colour, for dark pages, too.  Coordinates are pixels
 * of the plot's own width, which the page scales.  Every text argument may be hostile, so it is escaped here.  Class
 * names are the program's own. */
#ifndef REPORTS_SVG_H
#define REPORTS_SVG_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>

enum { SVG_TICKS_MAX = 24 };

/* An axis.  Values from `from` to `to` are drawn from pixel_from to pixel_to, and values beyond them at the ends. */
struct svg_scale {
    double pixel_from, pixel_to;
    double from, to;
    bool log;
    int tick_count;
    double tick[SVG_TICKS_MAX];
};

void svg_escape_append(GString *out, const char *text);
/* Appends the escaped text between `before` and `after`, which are not escaped. */
void svg_escape_within(GString *out, const char *before, const char *text, const char *after);

/* Begins a drawing.  label describes it for screen readers. */
void svg_begin(GString *out, double width, double height, const char *label);
void svg_end(GString *out);

/* Shapes.  tip is shown under the pointer; it may be NULL. */
void svg_rect(GString *out, double x, double y, double width, double height, const char *class, const char *tip);
void svg_dot(GString *out, double x, double y, double radius, const char *class, const char *tip);
void svg_line(GString *out, double x1, double y1, double x2, double y2, const char *class, const char *tip);
/* A line through points.  The first call begins it, and svg_path_end() ends it. */
void svg_path_begin(GString *out);
void svg_path_add(GString *out, double x, double y);
void svg_path_end(GString *out, const char *class);
/* anchor: "start", "middle" or "end". */
void svg_text(GString *out, double x, double y, const char *class, const char *anchor, const char *text);

/* A number with 1 to 9 significant digits, never with an exponent: "1380", "0.05", "250k" from 100000 on.
 * "-" if it is not finite. */
void svg_number_text(char *text, size_t text_size, double value, int digits);
/* The largest width that a small text has in any of the page's fonts. */
double svg_text_width(const char *text);

/* The places of the texts on one line.  Zero the struct first. */
struct svg_texts {
    int count;
    struct {
        double from, to;
    } taken[2 * SVG_TICKS_MAX];
};
/* Draws a text of class "small", unless it would lie on an earlier text of the line.  So the caller draws the most
 * important texts first. */
void svg_text_apart(GString *out, struct svg_texts *texts, double x, double y, const char *anchor, const char *text);

/* Sets a scale from 0 to a round number that is at least value_max, with about tick_count ticks.  It ends at 1 if
 * value_max is not between 1e-30 and 1e30. */
void svg_scale_set(struct svg_scale *scale, double pixel_from, double pixel_to, double value_max, int tick_count);
/* Sets a scale from 0 to value_max, with ticks at whole numbers. */
void svg_scale_count(struct svg_scale *scale, double pixel_from, double pixel_to, double value_max, int tick_count);
/* Sets a scale between round numbers around two values.  It begins at 0 if the smaller value is less than a fifth of
 * the larger, or if the two are equal.  If the larger value cannot be drawn, the scale is from 0 to 1. */
void svg_scale_range(struct svg_scale *scale, double pixel_from, double pixel_to, double least, double most,
                     int tick_count);
/* Sets a logarithmic scale, from a little below the smaller of two positive values to a little above the larger.  Ticks
 * are at 1, 2 and 5 times powers of ten or, on a long scale, only at powers of ten.  With base 2, they are at powers of
 * two.  For values that cannot be drawn, the scale is from 1 to 10. */
void svg_scale_log(struct svg_scale *scale, double pixel_from, double pixel_to, double least, double most, int base);
double svg_scale_pixel(const struct svg_scale *scale, double value);

/* These draw grid lines at the ticks, and the ticks' values outside the plot.  Below the plot, the unit stands below
 * the values.  Left of the plot, it stands above them.  A value that would lie on another is left out.  _bytes: values
 * are sizes. */
void svg_axis_below(GString *out, const struct svg_scale *scale, double top, double bottom, const char *unit);
void svg_axis_below_bytes(GString *out, const struct svg_scale *scale, double top, double bottom);
void svg_axis_left(GString *out, const struct svg_scale *scale, double left, double right, const char *unit);

#endif
