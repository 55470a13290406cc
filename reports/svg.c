/* svg.c - SVG shapes as text.  Knows nothing of records. */
#include "reports/svg.h"

#include <assert.h>
#include <math.h>
#include <string.h>

void svg_escape_append(GString *out, const char *text)
{
    for (const char *c = text; *c; c++) {
        switch (*c) {
        case '<': g_string_append(out, "&lt;"); break;
        case '>': g_string_append(out, "&gt;"); break;
        case '&': g_string_append(out, "&amp;"); break;
        case '"': g_string_append(out, "&quot;"); break;
        case '\'': g_string_append(out, "&#39;"); break;
        default: g_string_append_c(out, *c);
        }
    }
}

void svg_begin(GString *out, double width, double height, const char *label)
{
    g_string_append_printf(out, "<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"", width, height);
    svg_escape_append(out, label);
    g_string_append(out, "\">\n");
}

void svg_end(GString *out) { g_string_append(out, "</svg>\n"); }

/* Ends a shape's tag, with its tip inside. */
static void svg_shape_end(GString *out, const char *element, const char *class, const char *tip)
{
    g_string_append_printf(out, " class=\"%s\"", class);
    if (!tip) {
        g_string_append(out, "/>\n");
        return;
    }
    g_string_append(out, "><title>");
    svg_escape_append(out, tip);
    g_string_append_printf(out, "</title></%s>\n", element);
}

void svg_rect(GString *out, double x, double y, double width, double height, const char *class, const char *tip)
{
    g_string_append_printf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"2\"", x, y,
                           MAX(width, 0), height);
    svg_shape_end(out, "rect", class, tip);
}

void svg_dot(GString *out, double x, double y, double radius, const char *class, const char *tip)
{
    g_string_append_printf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"", x, y, radius);
    svg_shape_end(out, "circle", class, tip);
}

void svg_line(GString *out, double x1, double y1, double x2, double y2, const char *class, const char *tip)
{
    g_string_append_printf(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"", x1, y1, x2, y2);
    svg_shape_end(out, "line", class, tip);
}

void svg_text(GString *out, double x, double y, const char *class, const char *anchor, const char *text)
{
    g_string_append_printf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" class=\"%s\">", x, y, anchor, class);
    svg_escape_append(out, text);
    g_string_append(out, "</text>\n");
}

void svg_scale_set(struct svg_scale *scale, double pixel_from, double pixel_to, double value_max, int tick_count)
{
    assert(tick_count > 0);
    if (!(value_max > 1e-30) || value_max > 1e30) value_max = 1; /* nothing that a part could do */
    const double raw = value_max / tick_count, power = pow(10.0, floor(log10(raw)));
    const double lead = raw / power;
    const double tick = (lead <= 1 ? 1 : lead <= 2 ? 2 : lead <= 5 ? 5 : 10) * power;
    *scale = (struct svg_scale){ pixel_from, pixel_to, ceil(value_max / tick - 1e-9) * tick, tick };
}

double svg_scale_pixel(const struct svg_scale *scale, double value)
{
    return scale->pixel_from + (scale->pixel_to - scale->pixel_from) * CLAMP(value / scale->value_to, 0.0, 1.0);
}

void svg_axis_below(GString *out, const struct svg_scale *scale, double top, double bottom, const char *unit)
{
    const int ticks = (int)lround(scale->value_to / scale->tick);
    for (int i = 0; i <= ticks; i++) {
        const double x = svg_scale_pixel(scale, i * scale->tick);
        char text[64];
        g_snprintf(text, sizeof text, "%.6g%s%s", i * scale->tick, i == ticks ? " " : "", i == ticks ? unit : "");
        svg_line(out, x, top, x, bottom, i ? "grid" : "axis", NULL);
        svg_text(out, x, bottom + 15, "small", "middle", text);
    }
}
