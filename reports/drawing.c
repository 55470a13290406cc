/* drawing.c - lays parts out in rows and draws them as SVG; see drawing.h. */
#include "reports/drawing.h"

#include <math.h>
#include <string.h>

#include "reports/svg.h"

enum {
    WIDTH = 1060,
    LEFT = 226, /* left end of the parts; captions stand left of it */
    RIGHT = 1044,
    TOP = 58,
    BOX_HEIGHT = 38,
    BOX_WIDTH_MAX = 150,
    ROW_PITCH = 104,
    ROW_LINE = 15, /* height of a line of a caption */
    HEADING = 40,
    FOOT_LINE = 19,
    ROW_PARTS_MAX = 16, /* from a longer row some parts are omitted */
    LINKS_MAX = 4000,   /* the most links that are drawn; more would be unreadable */
    ARC_MAX = 44,       /* how far links within a row rise above it */
    FOOT_LEFT = 110,
    FOOT_LETTERS = 150, /* the most letters in a line of words */
    NAME_SIZE = 13,
    NAME_SIZE_MIN = 8,
};

struct row {
    char *caption, *words, *heading;
    const char *class;
    GArray *parts; /* uint32_t: indices of parts */
    double y;
};

struct drawn {
    char *name, *note, *tip, *resources;
    uint32_t row, place;
    bool shown;
    double x, width;
};

struct joint {
    char *name, *tip, *resources;
    uint32_t a, b;
};

struct cut {
    char *name, *tip;
    uint32_t row, part;
};

struct words {
    char *resource, *text;
};

struct drawing {
    GStringChunk *texts; /* all strings of the drawing */
    char *title, *description, *heading;
    char *prefix; /* set by drawing_alike_set(), or NULL */
    uint32_t alike;
    GArray *rows, *parts, *links, *cuts, *words;
};

/* ---- filling a drawing ---- */

static void row_clear(gpointer row) { g_array_unref(((struct row *)row)->parts); }

/* A copy of the text that lives as long as the drawing. */
static char *keep(struct drawing *d, const char *text) { return text ? g_string_chunk_insert(d->texts, text) : NULL; }

struct drawing *drawing_new(const char *title, const char *description)
{
    struct drawing *d = g_new0(struct drawing, 1);
    d->texts = g_string_chunk_new(4096);
    d->title = keep(d, title);
    d->description = keep(d, description);
    d->rows = g_array_new(FALSE, FALSE, sizeof(struct row));
    g_array_set_clear_func(d->rows, row_clear);
    d->parts = g_array_new(FALSE, FALSE, sizeof(struct drawn));
    d->links = g_array_new(FALSE, FALSE, sizeof(struct joint));
    d->cuts = g_array_new(FALSE, FALSE, sizeof(struct cut));
    d->words = g_array_new(FALSE, FALSE, sizeof(struct words));
    return d;
}

void drawing_free(struct drawing *d)
{
    if (!d) return;
    g_array_unref(d->rows);
    g_array_unref(d->parts);
    g_array_unref(d->links);
    g_array_unref(d->cuts);
    g_array_unref(d->words);
    g_string_chunk_free(d->texts);
    g_free(d);
}

static struct row *row_at(const struct drawing *d, uint32_t row) { return &g_array_index(d->rows, struct row, row); }
static struct drawn *part_at(const struct drawing *d, uint32_t part)
{
    return &g_array_index(d->parts, struct drawn, part);
}

void drawing_heading_add(struct drawing *d, const char *text) { d->heading = keep(d, text); }

uint32_t drawing_row_add(struct drawing *d, const char *caption, const char *words, const char *class)
{
    const struct row row = { .caption = keep(d, caption),
                             .words = keep(d, words),
                             .heading = g_steal_pointer(&d->heading),
                             .class = class,
                             .parts = g_array_new(FALSE, FALSE, sizeof(uint32_t)) };
    g_array_append_val(d->rows, row);
    return d->rows->len - 1;
}

uint32_t drawing_part_add(struct drawing *d, uint32_t row, const char *name, const char *note, const char *tip,
                          const char *resources)
{
    const struct drawn part = { .name = keep(d, name),
                                .note = keep(d, note),
                                .tip = keep(d, tip),
                                .resources = keep(d, resources),
                                .row = row,
                                .place = row_at(d, row)->parts->len };
    const uint32_t number = d->parts->len;
    g_array_append_val(d->parts, part);
    g_array_append_val(row_at(d, row)->parts, number);
    return number;
}

void drawing_link_add(struct drawing *d, uint32_t a, uint32_t b, const char *name, const char *tip,
                      const char *resources)
{
    const struct joint link = {
        .name = keep(d, name), .tip = keep(d, tip), .resources = keep(d, resources), .a = a, .b = b
    };
    g_array_append_val(d->links, link);
}

void drawing_cut_add(struct drawing *d, uint32_t row, uint32_t part, const char *name, const char *tip)
{
    const struct cut cut = { .name = keep(d, name), .tip = keep(d, tip), .row = row, .part = part };
    g_array_append_val(d->cuts, cut);
}

void drawing_words_add(struct drawing *d, const char *resource, const char *text)
{
    while (text) {
        const char *end = text + strlen(text);
        if (end - text > FOOT_LETTERS) end = g_strrstr_len(text, FOOT_LETTERS, " ");
        if (!end || end == text) end = text + strlen(text);
        const struct words words = { .resource = keep(d, resource),
                                     .text = g_string_chunk_insert_len(d->texts, text, end - text) };
        g_array_append_val(d->words, words);
        resource = NULL;
        text = *end ? end + 1 : NULL;
    }
}

/* ---- names ---- */

static bool word_among(const char *words, const char *word)
{
    const size_t length = strlen(word);
    for (const char *at = words; at && length && (at = strstr(at, word)); at += length)
        if ((at == words || strchr(" ,;:\n", at[-1])) && (!at[length] || strchr(" ,;:\n", at[length]))) return true;
    return false;
}

void drawing_alike_set(struct drawing *d, const char *prefix, uint32_t number)
{
    d->prefix = keep(d, prefix);
    d->alike = number;
}

/* The name of the part that is drawn in place of an equal one (drawing_alike_set()): "n0.g1" for "n7.g1".  A name
 * without a dot, such as "n7", stays. */
static char *name_alike(const struct drawing *d, const char *name)
{
    g_auto(GStrv) end = g_strsplit(name, "-", -1);
    for (char **e = end; d->prefix && *e; e++) {
        const size_t length = strlen(d->prefix);
        const size_t digits = g_str_has_prefix(*e, d->prefix) ? strspn(*e + length, "0123456789") : 0;
        if (!digits || (*e)[length + digits] != '.') continue;
        char *like = g_strdup_printf("%s%u%s", d->prefix, d->alike, *e + length + digits);
        g_free(*e);
        *e = like;
    }
    return g_strjoinv("-", end);
}

/* Whether the link has this name.  A link from a to b has its own name, the names "a-b" and "b-a", and the names of its
 * resources. */
static bool link_is(const struct drawing *d, const struct joint *link, const char *name)
{
    const char *const a = part_at(d, link->a)->name, *const b = part_at(d, link->b)->name;
    g_autofree char *one = g_strconcat(a, "-", b, NULL), *other = g_strconcat(b, "-", a, NULL);
    return !strcmp(name, link->name) || !strcmp(name, one) || !strcmp(name, other) || word_among(link->resources, name);
}

static bool has_exactly(const struct drawing *d, const char *name)
{
    for (guint i = 0; i < d->parts->len; i++)
        if (!strcmp(part_at(d, i)->name, name) || word_among(part_at(d, i)->resources, name)) return true;
    for (guint i = 0; i < d->links->len; i++)
        if (link_is(d, &g_array_index(d->links, struct joint, i), name)) return true;
    for (guint i = 0; i < d->cuts->len; i++)
        if (!strcmp(g_array_index(d->cuts, struct cut, i).name, name)) return true;
    for (guint i = 0; i < d->words->len; i++)
        if (!g_strcmp0(g_array_index(d->words, struct words, i).resource, name)) return true;
    for (guint i = 0; i < d->rows->len; i++)
        if (word_among(row_at(d, i)->words, name)) return true;
    return false;
}

bool drawing_has(const struct drawing *d, const char *name)
{
    g_autofree char *like = name_alike(d, name);
    return has_exactly(d, name) || has_exactly(d, like);
}

/* The marks, each under the name that the drawing has for it.  Free with g_strfreev(). */
static char **marks_drawn(const struct drawing *d, const char *const *marks)
{
    GStrvBuilder *drawn = g_strv_builder_new();
    for (; marks && *marks; marks++) {
        g_autofree char *like = name_alike(d, *marks);
        g_strv_builder_add(drawn, has_exactly(d, *marks) ? *marks : like);
    }
    char **result = g_strv_builder_end(drawn);
    g_strv_builder_unref(drawn);
    return result;
}

static bool part_marked(const struct drawn *part, const char *const *marks)
{
    for (; marks && *marks; marks++)
        if (!strcmp(part->name, *marks) || word_among(part->resources, *marks)) return true;
    return false;
}

static bool link_marked(const struct drawing *d, const struct joint *link, const char *const *marks)
{
    for (; marks && *marks; marks++)
        if (link_is(d, link, *marks)) return true;
    return false;
}

static bool word_marked(const char *words, const char *const *marks)
{
    for (; marks && *marks; marks++)
        if (word_among(words, *marks)) return true;
    return false;
}

/* ---- layout ---- */

/* Chooses the parts of a long row that are shown: the first ones, the last one, parts that a mark names, and the ends
 * of links that a mark names. */
static void row_choose(const struct drawing *d, const struct row *row, const char *const *marks)
{
    const guint count = row->parts->len;
    for (guint i = 0; i < count; i++) {
        struct drawn *part = part_at(d, g_array_index(row->parts, uint32_t, i));
        part->shown = count <= ROW_PARTS_MAX || i < ROW_PARTS_MAX - 2 || i + 1 == count;
        for (const char *const *m = marks; m && *m; m++) {
            g_auto(GStrv) end = g_strsplit(*m, "-", -1);
            part->shown |= !strcmp(*m, part->name) || g_strv_contains((const char *const *)end, part->name);
        }
    }
}

/* How many places a row needs: one for each part, and one for each gap where parts are omitted. */
static uint32_t row_places(const struct drawing *d, const struct row *row)
{
    uint32_t places = 0;
    bool gap = false;
    for (guint i = 0; i < row->parts->len; i++) {
        const bool shown = part_at(d, g_array_index(row->parts, uint32_t, i))->shown;
        places += shown || !gap;
        gap = !shown;
    }
    return places;
}

static void row_place(const struct drawing *d, const struct row *row)
{
    const double pitch = (double)(RIGHT - LEFT) / MAX(row_places(d, row), 1);
    const double width = MIN(pitch * 0.86, BOX_WIDTH_MAX);
    double x = LEFT + pitch / 2;
    bool gap = false;
    for (guint i = 0; i < row->parts->len; i++) {
        struct drawn *part = part_at(d, g_array_index(row->parts, uint32_t, i));
        if (!part->shown && gap) x -= pitch;
        part->x = x;
        part->width = !strcmp(row->class, "nvlink") ? pitch * 0.96 : width;
        gap = !part->shown;
        x += pitch;
    }
}

static uint32_t lines_count(const char *text)
{
    uint32_t lines = text && *text ? 1 : 0;
    for (const char *at = text; at && *at; at++) lines += *at == '\n';
    return lines;
}

static bool row_has_arcs(const struct drawing *d, uint32_t row)
{
    for (guint i = 0; i < d->links->len; i++) {
        const struct joint *link = &g_array_index(d->links, struct joint, i);
        if (part_at(d, link->a)->row == row && part_at(d, link->b)->row == row) return true;
    }
    return false;
}

static double row_height(const struct row *row)
{
    return MAX(BOX_HEIGHT, 14 + (lines_count(row->words) + 0.4) * ROW_LINE);
}

/* Places all parts.  Returns the height at which the words below the picture begin. */
static double layout(struct drawing *d, const char *const *marks)
{
    double y = TOP;
    for (guint i = 0; i < d->rows->len; i++) {
        struct row *row = row_at(d, i);
        row_choose(d, row, marks);
        row_place(d, row);
        if (row->heading) y += HEADING + (row_has_arcs(d, i) ? ARC_MAX : 0);
        row->y = y;
        y += i + 1 < d->rows->len ? MAX(ROW_PITCH, row_height(row) + ROW_LINE) : row_height(row);
    }
    return y + 34;
}

/* ---- drawing ---- */

static const char style[] =
    "<style>\n"
    ".machine{font:13px system-ui,\"DejaVu Sans\",sans-serif}\n"
    ".machine rect.paper{fill:#fff;stroke:none}.machine text{fill:#1d2430;stroke:none}\n"
    ".machine text.h{font-size:17px;font-weight:600}.machine text.s{font-size:14px;font-weight:600}\n"
    ".machine text.c{font-weight:600}.machine text.w{font-size:12px;fill:#5b6577}\n"
    ".machine text.m{font-weight:700;fill:#b3271e}\n"
    ".machine line,.machine path{stroke:#9aa3b2;stroke-width:1.3;fill:none}\n"
    ".machine .m line,.machine .m path{stroke:#c2362b;stroke-width:3.2}\n"
    ".machine line.cut{stroke:#7a4fb5;stroke-width:1.6;stroke-dasharray:6 5}.machine "
    "text.cut{fill:#7a4fb5;font-size:12px}\n"
    ".machine rect{stroke-width:1.3}\n"
    ".machine .switch rect{fill:#e3ecfb;stroke:#3566c8}.machine .node rect{fill:#f1f2f5;stroke:#667085}\n"
    ".machine .nic rect{fill:#fdeeda;stroke:#b9650f}.machine .pcie rect{fill:#eceef2;stroke:#667085}\n"
    ".machine .gpu rect{fill:#def3e8;stroke:#2f8f6b}.machine .nvlink rect{fill:#efe5f8;stroke:#7a4fb5}\n"
    ".machine .m rect{stroke:#c2362b;stroke-width:3}\n"
    "@media(prefers-color-scheme:dark){\n"
    ".machine rect.paper{fill:#1c2027}.machine text{fill:#e6e9ef}.machine text.w{fill:#a3acbd}\n"
    ".machine text.m{fill:#ff8a80}.machine line,.machine path{stroke:#6f798a}\n"
    ".machine .m line,.machine .m path{stroke:#ff7b70}.machine line.cut{stroke:#b794e6}.machine "
    "text.cut{fill:#b794e6}\n"
    ".machine .switch rect{fill:#22304d;stroke:#7aa2f7}.machine .node rect{fill:#2a2f38;stroke:#98a1b2}\n"
    ".machine .nic rect{fill:#43301a;stroke:#f0a04b}.machine .pcie rect{fill:#2a2f38;stroke:#98a1b2}\n"
    ".machine .gpu rect{fill:#1d3a2f;stroke:#55bd93}.machine .nvlink rect{fill:#34274a;stroke:#b794e6}\n"
    ".machine .m rect{stroke:#ff7b70}}\n"
    "</style>\n";

static void svg_open(const struct drawing *d, double height, GString *out)
{
    g_string_append_printf(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"machine\" viewBox=\"0 0 %d %.0f\" role=\"img\">\n<title>",
        WIDTH, height);
    svg_escape_append(out, d->title);
    svg_escape_within(out, "</title>\n<desc>", d->description, "</desc>\n");
    g_string_append(out, style);
    svg_rect(out, 0, 0, WIDTH, height, "paper", NULL);
    svg_text(out, 16, 28, "h", "start", d->title);
}

/* Opens an SVG group that carries a name, so that the names in results can be searched for in the file. */
static void group_open(const char *class, bool marked, const char *name, const char *tip, GString *out)
{
    g_string_append_printf(out, "<g class=\"%s%s\" data-name=\"", class, marked ? " m" : "");
    svg_escape_append(out, name);
    svg_escape_within(out, "\"><title>", tip, "</title>");
}

/* Draws a link: a straight line between rows, or an arc above the row between parts of one row. */
static void link_draw(const struct drawing *d, const struct joint *link, const char *const *marks, GString *out)
{
    const struct drawn *a = part_at(d, link->a), *b = part_at(d, link->b);
    if (!a->shown || !b->shown) return;
    group_open("link", link_marked(d, link, marks), link->name, link->tip, out);
    const double ya = row_at(d, a->row)->y, yb = row_at(d, b->row)->y;
    if (a->row == b->row) {
        const double bow = MIN(ARC_MAX, 14 + fabs(a->x - b->x) * 0.06);
        g_string_append_printf(out, "<path d=\"M%.1f %.1fQ%.1f %.1f %.1f %.1f\"/>", a->x, ya, (a->x + b->x) / 2,
                               ya - 2 * bow, b->x, yb);
    } else {
        const struct drawn *upper = ya < yb ? a : b, *lower = ya < yb ? b : a;
        const bool wide = !strcmp(row_at(d, lower->row)->class, "nvlink");
        const double x = wide ? CLAMP(upper->x, lower->x - lower->width / 2, lower->x + lower->width / 2) : lower->x;
        svg_line(out, upper->x, MIN(ya, yb) + BOX_HEIGHT, x, MAX(ya, yb), "l", NULL);
    }
    g_string_append(out, "</g>\n");
}

/* Draws marked links last, so that they lie above other links on the same line. */
static void links_draw(const struct drawing *d, const char *const *marks, GString *out)
{
    const guint count = MIN(d->links->len, (guint)LINKS_MAX);
    for (int strong = 0; strong < 2; strong++) {
        for (guint i = 0; i < (strong ? d->links->len : count); i++) {
            const struct joint *link = &g_array_index(d->links, struct joint, i);
            if (link_marked(d, link, marks) == (strong == 1)) link_draw(d, link, marks, out);
        }
    }
}

static void part_draw(const struct row *row, const struct drawn *part, const char *const *marks, GString *out)
{
    group_open(row->class, part_marked(part, marks), part->name, part->tip, out);
    svg_rect(out, part->x - part->width / 2, row->y, part->width, BOX_HEIGHT, "b", NULL);
    const double middle = row->y + BOX_HEIGHT / 2.0 + 4.5;
    const bool note = part->note && *part->note;
    const double fits = part->width * 0.96 / (0.6 * MAX(strlen(part->name), 1));
    g_string_append_printf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" style=\"font-size:%.1fpx\">",
                           part->x, note ? middle - 8 : middle, CLAMP(fits, NAME_SIZE_MIN, NAME_SIZE));
    svg_escape_append(out, part->name);
    g_string_append(out, "</text>\n");
    if (note) svg_text(out, part->x, middle + 8, "w", "middle", part->note);
    g_string_append(out, "</g>\n");
}

static void row_draw(const struct drawing *d, const struct row *row, bool arcs, const char *const *marks, GString *out)
{
    uint32_t left_out = 0;
    if (row->heading) svg_text(out, 16, row->y - (arcs ? ARC_MAX : 0) - 22, "s", "start", row->heading);
    svg_text(out, 16, row->y + 14, "c", "start", row->caption);
    g_auto(GStrv) line = g_strsplit(row->words ? row->words : "", "\n", -1);
    for (int i = 0; line[i]; i++)
        svg_text(out, 16, row->y + 14 + (i + 1) * ROW_LINE, word_marked(line[i], marks) ? "w m" : "w", "start",
                 line[i]);
    for (guint i = 0; i < row->parts->len; i++) {
        const struct drawn *part = part_at(d, g_array_index(row->parts, uint32_t, i));
        left_out = part->shown ? 0 : left_out + 1;
        if (part->shown) part_draw(row, part, marks, out);
        if (!left_out || (i + 1 < row->parts->len && !part_at(d, g_array_index(row->parts, uint32_t, i + 1))->shown))
            continue;
        g_autofree char *more = g_strdup_printf("+%u", left_out);
        svg_text(out, part->x, row->y + BOX_HEIGHT / 2.0 + 4, "w", "middle", more);
    }
}

static void cut_draw(const struct drawing *d, const struct cut *cut, const char *const *marks, GString *out)
{
    const struct row *row = row_at(d, cut->row);
    if (cut->part + 1 >= row->parts->len) return;
    const struct drawn *before = part_at(d, g_array_index(row->parts, uint32_t, cut->part));
    const struct drawn *after = part_at(d, g_array_index(row->parts, uint32_t, cut->part + 1));
    const bool gap = !before->shown && !after->shown; /* the number of omitted parts stands between the two */
    const double x = (before->x + after->x) / 2 + (gap ? after->width * 0.55 : 0);
    const double top = cut->row ? row_at(d, cut->row - 1)->y + BOX_HEIGHT : row->y - 14;
    const bool marked = word_marked(cut->name, marks);
    group_open("cut", marked, cut->name, cut->tip, out);
    svg_line(out, x, top, x, row->y + BOX_HEIGHT + 12, "cut", NULL);
    svg_text(out, x + 6, row->y + BOX_HEIGHT + 16, marked ? "cut m" : "cut", "start", cut->name);
    g_string_append(out, "</g>\n");
}

static void words_draw(const struct words *words, double y, const char *const *marks, GString *out)
{
    const bool marked = words->resource && word_marked(words->resource, marks);
    if (words->resource) svg_text(out, 16, y, marked ? "c m" : "c", "start", words->resource);
    svg_text(out, FOOT_LEFT, y, "w", "start", words->text);
}

void drawing_svg_append(struct drawing *d, const char *const *given, GString *out)
{
    g_auto(GStrv) drawn = marks_drawn(d, given);
    const char *const *const marks = (const char *const *)drawn;
    double y = layout(d, marks);
    svg_open(d, y + d->words->len * FOOT_LINE + 6, out);
    links_draw(d, marks, out);
    for (guint i = 0; i < d->cuts->len; i++) cut_draw(d, &g_array_index(d->cuts, struct cut, i), marks, out);
    for (guint i = 0; i < d->rows->len; i++) row_draw(d, row_at(d, i), row_has_arcs(d, i), marks, out);
    for (guint i = 0; i < d->words->len; i++, y += FOOT_LINE)
        words_draw(&g_array_index(d->words, struct words, i), y, marks, out);
    g_string_append(out, "</svg>\n");
}
