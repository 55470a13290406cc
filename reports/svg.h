/* svg.h - drawing in text: the few SVG shapes that the report's plots are made of, and HTML escaping.
 *
 * Shapes name a CSS class for their colour, so that the page's style decides how they look in the dark.
 * Coordinates are pixels of the plot's own width; the page scales it.  Every text argument may be hostile: it is
 * escaped here; class names are the program's own. */
#ifndef REPORTS_SVG_H
#define REPORTS_SVG_H

#include <glib.h>

struct svg_scale { /* a linear axis from 0 */
    double pixel_from, pixel_to;
    double value_to; /* a round number at or above the largest value */
    double tick;     /* the distance of its ticks */
};

void svg_escape_append(GString *out, const char *text);

/* label says what is drawn to who cannot see it. */
void svg_begin(GString *out, double width, double height, const char *label);
void svg_end(GString *out);

/* tip (or NULL) is shown under the pointer. */
void svg_rect(GString *out, double x, double y, double width, double height, const char *class, const char *tip);
void svg_dot(GString *out, double x, double y, double radius, const char *class, const char *tip);
void svg_line(GString *out, double x1, double y1, double x2, double y2, const char *class, const char *tip);
/* anchor: "start", "middle" or "end". */
void svg_text(GString *out, double x, double y, const char *class, const char *anchor, const char *text);

/* An axis that reaches value_max or a little more, with about tick_count ticks; to 1 for a value_max that is not
 * between 1e-30 and 1e30.  Values beyond an axis are drawn at its end. */
void svg_scale_set(struct svg_scale *scale, double pixel_from, double pixel_to, double value_max, int tick_count);
double svg_scale_pixel(const struct svg_scale *scale, double value);
/* Vertical grid lines from top to bottom with the values below and the unit after the last. */
void svg_axis_below(GString *out, const struct svg_scale *scale, double top, double bottom, const char *unit);

#endif
