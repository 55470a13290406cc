/* svg.c - SVG shapes and axes as text.  Knows nothing of records. */
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

void svg_escape_within(GString *out, const char *before, const char *text, const char *after)
{
    g_string_append(out, before);
    svg_escape_append(out, text);
    g_string_append(out, after);
}

void svg_begin(GString *out, double width, double height, const char *label)
{
    g_string_append_printf(out, "<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"", width, height);
    svg_escape_append(out, label);
    g_string_append(out, "\">\n");
}

void svg_end(GString *out) { g_string_append(out, "</svg>\n"); }

/* Writes the end of a shape's element, with its class and its tip. */
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
    g_string_append_printf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"", x, y, MAX(width, 0),
                           height);
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

void svg_path_begin(GString *out) { g_string_append(out, "<polyline points=\""); }
void svg_path_add(GString *out, double x, double y) { g_string_append_printf(out, "%.1f,%.1f ", x, y); }
void svg_path_end(GString *out, const char *class) { g_string_append_printf(out, "\" class=\"%s\"/>\n", class); }

void svg_text(GString *out, double x, double y, const char *class, const char *anchor, const char *text)
{
    g_string_append_printf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" class=\"%s\">", x, y, anchor, class);
    svg_escape_append(out, text);
    g_string_append(out, "</text>\n");
}

/* ---- numbers, and texts that do not overlap ---- */

enum { TEXT_SIZE = 13, TEXT_GAP = 4, TEXT_HEIGHT = 13 };

void svg_number_text(char *text, size_t text_size, double value, int digits)
{
    static const char unit[] = " kMGTPE";
    int power = 0;
    if (!isfinite(value)) {
        g_snprintf(text, text_size, "-");
        return;
    }
    if (fabs(value) >= 99999.5)
        for (; fabs(value) >= 999.5 && unit[power + 1]; power++) value /= 1000;
    const int lead = value != 0 ? (int)floor(log10(fabs(value))) : 0;
    const int places = CLAMP(digits - 1 - lead, 0, 9);
    char number[G_ASCII_DTOSTR_BUF_SIZE + 320];
    g_snprintf(number, sizeof number, "%.*f", places, value);
    if (strchr(number, '.')) {
        char *end = number + strlen(number);
        while (end[-1] == '0') *--end = '\0';
        if (end[-1] == '.') end[-1] = '\0';
    }
    g_snprintf(text, text_size, "%s%.1s", number, power ? &unit[power] : "");
}

/* The widths are those of the widest font in the page's list, DejaVu Sans. */
double svg_text_width(const char *text)
{
    double em = 0;
    for (const char *c = text; *c; c++) {
        if (((unsigned char)*c & 0xc0) == 0x80) continue; /* a byte after the first of a letter */
        if (strchr(" .,:;'|!ijlIft()[]-", *c)) em += 0.41;
        else if (strchr("mwMW%@", *c) || (unsigned char)*c >= 0x80) em += 1;
        else em += g_ascii_isupper(*c) ? 0.78 : 0.64;
    }
    return em * TEXT_SIZE;
}

/* Reserves the pixels from `from` to `to` for a text.  False if another text has some of them. */
static bool texts_take(struct svg_texts *texts, double from, double to)
{
    for (int i = 0; i < texts->count; i++)
        if (from < texts->taken[i].to && texts->taken[i].from < to) return false;
    if (texts->count == (int)G_N_ELEMENTS(texts->taken)) return false;
    texts->taken[texts->count].from = from;
    texts->taken[texts->count++].to = to;
    return true;
}

void svg_text_apart(GString *out, struct svg_texts *texts, double x, double y, const char *anchor, const char *text)
{
    const double width = svg_text_width(text) + TEXT_GAP;
    const double from = x - (strcmp(anchor, "end") == 0 ? width : strcmp(anchor, "middle") == 0 ? width / 2 : 0);
    if (texts_take(texts, from, from + width)) svg_text(out, x, y, "small", anchor, text);
}

/* ---- scales ---- */

/* Whether a value can be drawn.  Other values would break the arithmetic. */
static bool value_sane(double value) { return value > 1e-30 && value < 1e30; }

/* The round number at or above a distance: 1, 2 or 5 times a power of ten. */
static double round_up(double distance)
{
    const double power = pow(10.0, floor(log10(distance))), lead = distance / power;
    return (lead <= 1 + 1e-9 ? 1 : lead <= 2 + 1e-9 ? 2 : lead <= 5 + 1e-9 ? 5 : 10) * power;
}

static void ticks_put(struct svg_scale *scale, double step)
{
    scale->tick_count = 0;
    for (int i = 0; i < SVG_TICKS_MAX && scale->from + i * step <= scale->to * (1 + 1e-9); i++)
        scale->tick[scale->tick_count++] = scale->from + i * step;
}

void svg_scale_set(struct svg_scale *scale, double pixel_from, double pixel_to, double value_max, int tick_count)
{
    assert(tick_count > 0 && tick_count < SVG_TICKS_MAX / 2);
    if (!value_sane(value_max)) value_max = 1;
    const double step = round_up(value_max / tick_count);
    *scale = (struct svg_scale){ .pixel_from = pixel_from, .pixel_to = pixel_to };
    scale->to = ceil(value_max / step - 1e-9) * step;
    ticks_put(scale, step);
}

void svg_scale_count(struct svg_scale *scale, double pixel_from, double pixel_to, double value_max, int tick_count)
{
    assert(tick_count > 0 && tick_count < SVG_TICKS_MAX / 2);
    if (!(value_max >= 1) || !value_sane(value_max)) value_max = 1;
    *scale = (struct svg_scale){ .pixel_from = pixel_from, .pixel_to = pixel_to, .to = value_max };
    ticks_put(scale, fmax(round_up(value_max / tick_count), 1));
}

void svg_scale_range(struct svg_scale *scale, double pixel_from, double pixel_to, double least, double most,
                     int tick_count)
{
    assert(tick_count > 0 && tick_count < SVG_TICKS_MAX / 2);
    double span = most - least;
    /* to a reader such values are about equal, so the scale does not enlarge their distance */
    if (span > most * 1e-6 && span < 0.05 * most) {
        const double middle = (least + most) / 2;
        span = 0.05 * most;
        least = middle - span / 2;
        most = middle + span / 2;
    }
    if (!value_sane(most) || !(least >= 0) || !(span > most * 1e-6) || span > 0.8 * most) {
        svg_scale_set(scale, pixel_from, pixel_to, most, tick_count);
        return;
    }
    const double step = round_up(span / tick_count);
    *scale = (struct svg_scale){ .pixel_from = pixel_from, .pixel_to = pixel_to };
    scale->from = fmax(floor(least / step) * step, 0);
    scale->to = ceil(most / step - 1e-9) * step;
    ticks_put(scale, step);
}

void svg_scale_log(struct svg_scale *scale, double pixel_from, double pixel_to, double least, double most, int base)
{
    if (!value_sane(least) || !value_sane(most) || least > most) least = 1, most = 10;
    const double room = pow(most / least, 0.04) * 1.02;
    *scale = (struct svg_scale){
        .pixel_from = pixel_from, .pixel_to = pixel_to, .from = least / room, .to = most * room, .log = true
    };
    const double powers = log(scale->to / scale->from) / log(base);
    const int stride = (int)fmax(ceil(powers / 6), 1);
    const bool leads = base == 10 && powers < 3;
    for (int p = (int)floor(log(scale->from) / log(base)); p <= ceil(log(scale->to) / log(base)); p++)
        for (int lead = 1; lead <= (leads ? 5 : 1); lead += lead == 1 ? 1 : 3) {
            const double value = lead * pow(base, p);
            if (value < scale->from || value > scale->to || scale->tick_count == SVG_TICKS_MAX) continue;
            if ((p % stride + stride) % stride == 0) scale->tick[scale->tick_count++] = value;
        }
}

double svg_scale_pixel(const struct svg_scale *scale, double value)
{
    double share = (value - scale->from) / (scale->to - scale->from);
    if (scale->log) share = value > 0 ? log(value / scale->from) / log(scale->to / scale->from) : 0;
    return scale->pixel_from + (scale->pixel_to - scale->pixel_from) * CLAMP(share, 0.0, 1.0);
}

/* ---- axes ---- */

static void bytes_text(char *text, gulong text_size, double size_bytes)
{
    static const char unit[] = "BKMGT";
    int i = 0;
    for (; size_bytes >= 1024 && i < 4; i++) size_bytes /= 1024;
    g_snprintf(text, text_size, i ? "%.6g%c" : "%.6g", size_bytes, unit[i]);
}

enum { AXIS_ROOM = 10 }; /* width that plots keep free right of their lines */

static void axis_below(GString *out, const struct svg_scale *scale, double top, double bottom, const char *unit,
                       bool bytes)
{
    struct svg_texts texts = { 0 };
    for (int i = 0; i < scale->tick_count; i++) {
        const double x = svg_scale_pixel(scale, scale->tick[i]);
        char text[64];
        if (bytes) bytes_text(text, sizeof text, scale->tick[i]);
        else svg_number_text(text, sizeof text, scale->tick[i], 6);
        svg_line(out, x, top, x, bottom, scale->tick[i] == 0 ? "axis" : "grid", NULL);
        const bool fits = x + svg_text_width(text) / 2 <= scale->pixel_to + AXIS_ROOM;
        svg_text_apart(out, &texts, fits ? x : scale->pixel_to + AXIS_ROOM, bottom + 15, fits ? "middle" : "end", text);
    }
    svg_text(out, (scale->pixel_from + scale->pixel_to) / 2, bottom + 30, "small", "middle", unit);
}

void svg_axis_below(GString *out, const struct svg_scale *scale, double top, double bottom, const char *unit)
{
    axis_below(out, scale, top, bottom, unit, false);
}

void svg_axis_below_bytes(GString *out, const struct svg_scale *scale, double top, double bottom)
{
    axis_below(out, scale, top, bottom, "bytes", true);
}

void svg_axis_left(GString *out, const struct svg_scale *scale, double left, double right, const char *unit)
{
    struct svg_texts texts = { 0 }; /* the texts of a column, one above another */
    for (int i = 0; i < scale->tick_count; i++) {
        const double y = svg_scale_pixel(scale, scale->tick[i]);
        char text[32];
        svg_number_text(text, sizeof text, scale->tick[i], 6);
        svg_line(out, left, y, right, y, scale->tick[i] == 0 ? "axis" : "grid", NULL);
        if (texts_take(&texts, y, y + TEXT_HEIGHT)) svg_text(out, left - 4, y + 4, "small", "end", text);
    }
    svg_text(out, 0, fmin(scale->pixel_from, scale->pixel_to) - 12, "small", "start", unit);
}
