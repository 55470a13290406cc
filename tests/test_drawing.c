/* test_drawing.c - is a drawing a whole SVG that shows every part that a result may name?
 *
 * Aim: reports/drawing.h and models/cluster_draw.c.  Method: drawings made here and of every shipped cluster, read back
 * by GLib's parser of markup. */
#include <string.h>
#include "models/cluster_command.h"
#include "models/hardware/world/world.h"
#include "reports/drawing.h"
#include "sim/share.h"
#include "tests/unit.h"

struct seen {
    GString *names, *text; /* names: the names of groups, each followed by '\n'; text: all text between tags */
    uint32_t boxes, titles;
};

static void element_start(GMarkupParseContext *context, const gchar *element, const gchar **key, const gchar **value,
                          gpointer data, GError **error)
{
    struct seen *seen = data;
    (void)context, (void)error;
    seen->titles += !strcmp(element, "title");
    for (int i = 0; key[i]; i++) {
        if (!strcmp(key[i], "data-name")) g_string_append_printf(seen->names, "%s\n", value[i]);
        if (!strcmp(key[i], "class") && !strcmp(value[i], "b")) seen->boxes++;
    }
}

static void text_seen(GMarkupParseContext *context, const gchar *text, gsize length, gpointer data, GError **error)
{
    struct seen *seen = data;
    (void)context, (void)error;
    g_string_append_len(seen->text, text, (gssize)length);
}

/* Writes a drawing and reads it back.  Free seen->names and seen->text. */
static void look(struct drawing *d, const char *const *marks, struct seen *seen)
{
    const GMarkupParser parser = { .start_element = element_start, .text = text_seen };
    g_autoptr(GString) svg = g_string_new(NULL);
    *seen = (struct seen){ .names = g_string_new("\n"), .text = g_string_new(NULL) };
    drawing_svg_append(d, marks, svg);
    g_autoptr(GMarkupParseContext) context = g_markup_parse_context_new(&parser, 0, seen, NULL);
    GError *error = NULL;
    CU_ASSERT_TRUE(g_markup_parse_context_parse(context, svg->str, (gssize)svg->len, &error));
    CU_ASSERT_TRUE(!error && g_markup_parse_context_end_parse(context, &error));
    if (error) printf("\n      %s\n", error->message);
    g_clear_error(&error);
    CU_ASSERT_PTR_NOT_NULL(strstr(svg->str, "role=\"img\">\n<title>"));
    CU_ASSERT_PTR_NOT_NULL(strstr(svg->str, "<desc>"));
    CU_ASSERT_PTR_NOT_NULL(strstr(svg->str, "prefers-color-scheme:dark"));
}

static void seen_clear(struct seen *seen)
{
    g_string_free(seen->names, TRUE);
    g_string_free(seen->text, TRUE);
}

static bool named(const struct seen *seen, const char *name)
{
    g_autofree char *line = g_strdup_printf("\n%s\n", name);
    return strstr(seen->names->str, line) != NULL;
}

/* Of 40 switches in a row, 15 are drawn.  Switches that a mark names are drawn in addition. */
TEST("a long row leaves parts out, but none that is marked")
{
    g_autoptr(drawing) d = drawing_new("rack", "switches");
    const uint32_t row = drawing_row_add(d, "leaves", "", "switch");
    uint32_t part[40];
    for (uint32_t i = 0; i < 40; i++) {
        g_autofree char *name = g_strdup_printf("leaf%u", i);
        part[i] = drawing_part_add(d, row, name, NULL, "a switch", NULL);
    }
    drawing_link_add(d, part[20], part[30], "leaf20-leaf30", "25 GB/s", "busy");
    struct seen seen;
    look(d, NULL, &seen);
    CU_ASSERT_EQUAL(seen.boxes, 15);
    CU_ASSERT_TRUE(named(&seen, "leaf0") && named(&seen, "leaf39") && !named(&seen, "leaf20"));
    CU_ASSERT_PTR_NOT_NULL(strstr(seen.text->str, "+25"));
    seen_clear(&seen);
    look(d, (const char *const[]){ "leaf30-leaf20", NULL }, &seen);
    CU_ASSERT_EQUAL(seen.boxes, 17);
    CU_ASSERT_TRUE(named(&seen, "leaf20") && named(&seen, "leaf30") && named(&seen, "leaf20-leaf30"));
    seen_clear(&seen);
    CU_ASSERT_TRUE(drawing_has(d, "leaf30-leaf20") && drawing_has(d, "busy") && drawing_has(d, "leaf7"));
    CU_ASSERT_FALSE(drawing_has(d, "leaf") || drawing_has(d, "leaf40") || drawing_has(d, "leaf1-leaf2"));
    CU_ASSERT_FALSE(drawing_has(d, "") || drawing_has(d, "bus"));
}

/* One node is drawn for all.  It must carry the names of other nodes' parts, and no other names. */
TEST("one for all that are alike")
{
    g_autoptr(drawing) d = drawing_new("nodes", "one of them");
    const uint32_t row = drawing_row_add(d, "GPUs", "", "gpu"), below = drawing_row_add(d, "roots", "", "pcie");
    const uint32_t gpu = drawing_part_add(d, row, "n2.g0", NULL, "", NULL);
    drawing_link_add(d, gpu, drawing_part_add(d, below, "n2.root0", NULL, "", NULL), "n2.g0-n2.root0", "", NULL);
    CU_ASSERT_FALSE(drawing_has(d, "n7.root0-n7.g0"));
    drawing_alike_set(d, "n", 2);
    CU_ASSERT_TRUE(drawing_has(d, "n7.root0-n7.g0") && drawing_has(d, "n2.root0-n2.g0") && drawing_has(d, "n11.g0"));
    CU_ASSERT_FALSE(drawing_has(d, "n7.g1") || drawing_has(d, "n7") || drawing_has(d, "nx.g0") ||
                    drawing_has(d, "7.g0"));
    g_autoptr(GString) svg = g_string_new(NULL);
    drawing_svg_append(d, (const char *const[]){ "n7.root0-n7.g0", NULL }, svg);
    CU_ASSERT_PTR_NOT_NULL(strstr(svg->str, "<g class=\"link m\" data-name=\"n2.g0-n2.root0\">"));
}

TEST("hostile texts")
{
    static const char evil[] = "</title><script>alert('&\"')</script>";
    g_autoptr(drawing) d = drawing_new(evil, evil);
    drawing_heading_add(d, evil);
    const uint32_t row = drawing_row_add(d, evil, evil, "gpu");
    const uint32_t a = drawing_part_add(d, row, evil, evil, evil, evil),
                   b = drawing_part_add(d, row, "b", NULL, "", NULL);
    drawing_link_add(d, a, b, evil, evil, evil);
    drawing_cut_add(d, row, 0, evil, evil);
    drawing_cut_add(d, row, 1, "beyond the last part", "");
    drawing_words_add(d, evil, evil);
    struct seen seen;
    look(d, (const char *const[]){ evil, "", "-", NULL }, &seen);
    CU_ASSERT_TRUE(named(&seen, evil));
    CU_ASSERT_FALSE(named(&seen, "beyond the last part"));
    seen_clear(&seen);
}

/* Words of any length must come out whole, in lines that fit. */
TEST("long words")
{
    g_autoptr(drawing) d = drawing_new("words", "");
    g_autoptr(GString) text = g_string_new("first");
    for (int i = 0; i < 60; i++) g_string_append_printf(text, " - n0.nic%d", i);
    drawing_words_add(d, "latency", text->str);
    g_autofree char *unbroken = g_strnfill(400, 'x');
    drawing_words_add(d, NULL, unbroken);
    struct seen seen;
    look(d, NULL, &seen);
    CU_ASSERT_PTR_NOT_NULL(strstr(seen.text->str, unbroken));
    for (int i = 0; i < 60; i++) {
        g_autofree char *word = g_strdup_printf("n0.nic%d", i);
        CU_ASSERT_PTR_NOT_NULL(strstr(seen.text->str, word));
    }
    seen_clear(&seen);
}

/* The drawing of every shipped cluster has all names that records give its parts. */
TEST("shipped clusters")
{
    g_auto(GStrv) names = share_names(SHARE_CLUSTERS);
    CU_ASSERT_TRUE_FATAL(*names != NULL);
    for (char **name = names; *name; name++) {
        g_autoptr(cluster) c = MADE(cluster_load(*name, NULL));
        g_autoptr(graph) g = MADE(graph_new(c, 4, 0, NULL));
        g_autoptr(drawing) d = cluster_draw(c, g);
        for (int i = 0; i < WORLD_CORE; i++) {
            const bool nic = i == WORLD_NIC_TX || i == WORLD_NIC_RX || i == WORLD_RECEIVING,
                       nvlink = i == WORLD_NVLINK_EGRESS || i == WORLD_NVLINK_INGRESS;
            if ((!nic || c->nic.rate_bps) && (!nvlink || c->nvlink.gpus > 1))
                CU_ASSERT_TRUE(drawing_has(d, world_resource_name((enum world_resource)i)));
        }
        static const char *const bounds[] = { "send", "receive", "bisection", "sm", "latency" };
        for (size_t i = 0; i < G_N_ELEMENTS(bounds); i++) CU_ASSERT_TRUE(drawing_has(d, bounds[i]));
        struct seen seen;
        look(d, NULL, &seen);
        CU_ASSERT_TRUE(named(&seen, "n0.g0") && seen.titles > 8);
        seen_clear(&seen);
    }
}
