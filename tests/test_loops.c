/* test_loops.c - is a sheet of loops read as it is written, and refused where it is wrong?
 *
 * Aim: models/kernels/loops.c.  Method: sheets of a line or two whose loops are known; the shipped sheets, in which
 * each site must have a line; and wrong sheets, each with its error. */
#include <stdio.h>
#include <string.h>
#include "models/kernels/loops.h"
#include "tests/unit.h"

static struct loops *sheet(const char *text)
{
    GError *error = NULL;
    struct loops *loops = loops_parse("sheet", text, strlen(text), &error);
    if (error) printf("\n      %s\n", error->message);
    CU_ASSERT_PTR_NOT_NULL_FATAL(loops);
    return loops;
}

static struct loop made(const char *text, const uint64_t size[SITE_SIZES])
{
    g_autoptr(loops) loops = sheet(text);
    struct loop loop;
    g_autofree char *name = g_strndup(text, strcspn(text, " "));
    loops_make(loops, loops_site_find(name), size, &loop);
    return loop;
}

/* Every site has a line.  The line moves bytes, waits for something, is asked for by the host, signals a peer, says
 * what an addition is, or describes a kernel. */
TEST("shipped sheets")
{
    static const uint64_t some[SITE_SIZES] = { 3, 3, 3, 3 };
    for (enum site site = SITE_NONE + 1; site < SITES; site++) {
        struct loop loop;
        loops_make(loops_shipped(), site, some, &loop);
        CU_ASSERT_EQUAL(loop.number, site);
        const bool tells = loop.apart || loop.releases || loop.polled || loop.library || loop.message || loop.adds;
        const bool kernel = loop.whole || loop.paired;
        CU_ASSERT(loop.program || loop.in_flight || loop.chase || loop.staged || loop.engine >= LOOP_COPY ||
                  loop.host || loop.by_host || tells || kernel);
        CU_ASSERT_EQUAL(loops_site_find(loops_site_name(site)), site);
    }
    CU_ASSERT_EQUAL(loops_site_find("LL_CAST"), SITE_NONE);
}

TEST("words")
{
    const struct loop a = made("INTRA_MATRIX_READ load 5, of 8, wait 2, fresh, footprint 5000000000 @ a.cu:1\n", NULL);
    CU_ASSERT(a.engine == LOOP_LDST && a.in_flight == 5 && a.width_bytes == 8 && a.steps == 2 && a.fresh);
    CU_ASSERT(a.footprint_bytes == 5000000000 && !a.posted && a.again == LOOP_NOT_AGAIN);
    const struct loop b = made("INTRA_MATRIX_READ bulk 2, shared 16, at-hand, fresh 0 @ a.cu:1", NULL);
    CU_ASSERT(b.engine == LOOP_BULK && b.in_flight == 2 && b.shared_bytes == 16);
    CU_ASSERT(b.again == LOOP_AT_HAND && !b.fresh);
    const struct loop c = made("COPY_ENGINE bulk 0, copy-engine @ a.cu:1", NULL);
    CU_ASSERT(c.engine == LOOP_COPY && !c.in_flight);
    static const uint64_t one[SITE_SIZES] = { 1 };
    const struct loop d =
        made("INTRA_MATRIX_READ (a) load 1000 * a, shared 70000 * a @ a.cu:1", one); /* limited to a field's
                                                                                      * maximum */
    CU_ASSERT(d.in_flight == UINT8_MAX && d.shared_bytes == UINT16_MAX);
}

TEST("values")
{
    static const struct {
        const char *text;
        uint64_t value;
    } values[] = {
        { "7", 7 },
        { "2 + 3 * 4", 14 },
        { "(2 + 3) * 4", 20 },
        { "10 - 3 - 4", 3 }, /* evaluated from the left */
        { "3 - 10", 0 },
        { "7 / 2 * 2", 6 },
        { "7 % 4 + 1", 4 },
        { "7 / 0 + 7 % 0 + ceil(7, 0)", 0 },
        { "ceil(7, 2)", 4 },
        { "min(a, 4) + max(b, 4)", 7 }, /* 3 + 4, as a is 3 and b is 0 */
        { "a > 2", 1 },
        { "3 > a", 0 },
        { "a + 1 > a * b", 1 }, /* 1, because 4 > 0 */
        { "99999999999999999999", UINT64_MAX },
        { "99999999999999999999 * 2 + 1", UINT64_MAX },
        { "((((((1))))))", 1 },
        { "rows", 0 }, /* 0, because footprint belongs to no operation */
    };
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        char text[200];
        snprintf(text, sizeof text, "INTRA_MATRIX_READ (a, b) load 1,\n    footprint %s @ a.cu:1\n", values[i].text);
        const struct loop loop = made(text, (const uint64_t[SITE_SIZES]){ 3, 0 });
        if (loop.footprint_bytes != values[i].value)
            printf("\n      %s: %lu\n", text, (unsigned long)loop.footprint_bytes);
        CU_ASSERT_EQUAL(loop.footprint_bytes, values[i].value);
    }
}

TEST("times")
{
    g_autoptr(loops) loops =
        sheet("INTRA_MATRIX_READ (a) load 1, times a * rows + 1 @ a.cu:1\nINTRA_GAPS load 1 @ a.cu:2\n");
    CU_ASSERT_EQUAL(loops_times(loops, SITE_INTRA_MATRIX_READ, (const uint64_t[SITE_SIZES]){ 3 }, 5), 16);
    CU_ASSERT_EQUAL(loops_times(loops, SITE_INTRA_MATRIX_READ, NULL, 5), 1);
    CU_ASSERT_EQUAL(loops_times(loops, SITE_INTRA_GAPS, NULL, 5), 5);
}

TEST("programs")
{
    g_autoptr(loops) loops =
        sheet("LL_CAST_ROW (a) { load 2 * a by 128 from l2,\n"
              "    repeat rows - 1 { store bytes to shared, first warps { use } } } fresh, shared 16 @ a.cu:1\n"
              "LL_SUM_ROWS { bulk-in bytes, bulk-wait, bulk-out 8, bulk-read 1 } @ a.cu:2\n");
    static const struct loop_op expected[] = {
        { LOOP_LOAD, LOOP_L2, 128, 6 }, { LOOP_REPEAT, 0, 5, 4 }, { LOOP_STORE, LOOP_SHARED, 512, 1000 },
        { LOOP_FIRST, 0, 2, 7 },        { LOOP_USE, 0, 512, 1 },  { LOOP_END, 0, 2, 1 },
        { LOOP_END, 0, 5, 1 },
    };
    const struct loop_row row = { .bytes = 1000, .rows = 5, .warps = 7 };
    struct loop_op op[LOOP_OPS];
    struct loop loop;
    const uint32_t count = loops_program(loops, SITE_LL_CAST_ROW, (const uint64_t[SITE_SIZES]){ 3 }, &row, op);
    CU_ASSERT_EQUAL_FATAL(count, sizeof expected / sizeof expected[0]);
    for (uint32_t i = 0; i < count; i++) {
        CU_ASSERT(op[i].code == expected[i].code && op[i].place == expected[i].place && op[i].by == expected[i].by);
        CU_ASSERT(op[i].n == expected[i].n || op[i].code == LOOP_USE || op[i].code == LOOP_END);
    }
    loops_make(loops, SITE_LL_CAST_ROW, NULL, &loop);
    CU_ASSERT(loop.program && loop.team && loop.engine == LOOP_LDST && loop.fresh && loop.shared_bytes == 16);
    loops_make(loops, SITE_LL_SUM_ROWS, NULL, &loop);
    CU_ASSERT(loop.program && !loop.team && loop.engine == LOOP_BULK && !loop.fresh);
    CU_ASSERT_EQUAL(loops_program(loops, SITE_LL_PEERS_READ, NULL, &row, op), 0);
}

/* Sites that a sheet does not mention keep their shipped lines. */
TEST("own lines")
{
    g_autoptr(loops) loops = sheet("# another build\n\nlibrary mine\nINTRA_MATRIX_READ load 3 @ a.cu:1");
    struct loop mine, other, shipped;
    loops_make(loops, SITE_INTRA_MATRIX_READ, NULL, &mine);
    loops_make(loops, SITE_LL_MESSAGE_ROW, NULL, &other);
    loops_make(loops_shipped(), SITE_LL_MESSAGE_ROW, NULL, &shipped);
    CU_ASSERT_EQUAL(mine.in_flight, 3);
    CU_ASSERT(!mine.program && other.program && shipped.program && other.fresh && other.posted);
    CU_ASSERT(other.digest != shipped.digest); /* a digest depends on the sheet, even if the lines are equal */
}

TEST("bad sheets")
{
    static const struct {
        const char *text, *message;
    } bad[] = {
        { "LL_CAST load 1 @ a:1", "sheet:1: expected a site of `eptwin kernel show`, library, source, commit or "
                                  "compiler, found \"LL_CAST load 1 @ a:1\"" },
        { "\nLL_CAST_ROW\n", "sheet:2: expected a word of `eptwin kernel words`, found \"\"" },
        { "INTRA_MATRIX_READ times 3, chase @ a:1",
          "sheet:1: expected chase with a number of cycles, found \"chase @ a:1\"" },
        { "INTRA_MATRIX_READ load 256 @ a:1", "sheet:1: expected load of at most 255, found \"load 256 @ a:1\"" },
        { "INTRA_MATRIX_READ load 1, shared 65535 + 1 @ a:1",
          "sheet:1: expected shared of at most 65535, found \"shared 65535 + 1 @ a:1\"" },
        { "LL_CAST_ROW jump 1 @ a:1", "sheet:1: expected a word of `eptwin kernel words`, found \"jump 1 @ a:1\"" },
        { "LL_CAST_ROW load 1", "sheet:1: expected \",\" and a word, or \"@ file:line\", found \"\"" },
        { "LL_CAST_ROW load 1 @ a", "sheet:1: expected file:line, found \"a\"" },
        { "LL_CAST_ROW load 1 @ a:b", "sheet:1: expected file:line, found \"a:b\"" },
        { "LL_CAST_ROW load @ a:1\n# and\nLL_CAST_ROW load 1 @ a:1", "sheet:3: LL_CAST_ROW: stands in line 1 already" },
        { "LL_CAST_ROW load x @ a:1",
          "sheet:1: expected a size that the site names, rows, min, max or ceil, found \"x @ a:1\"" },
        { "LL_CAST_ROW (a load a @ a:1", "sheet:1: expected \")\", found \"load a @ a:1\"" },
        { "LL_CAST_ROW (a, b, c, d, e) load 1 @ a:1", "sheet:1: expected at most 4 sizes, found \" e) load 1 @ a:1\"" },
        { "LL_CAST_ROW load min(1) @ a:1", "sheet:1: expected \",\", found \") @ a:1\"" },
        { "LL_CAST_ROW load (1 @ a:1", "sheet:1: expected \")\", found \"@ a:1\"" },
        { "LL_CAST_ROW load 1 + @ a:1", "sheet:1: expected a number, a size, or \"(\", found \"@ a:1\"" },
        { "LL_CAST_ROW load ((((((((1)))))))) @ a:1", "sheet:1: expected fewer brackets, found \"1)))))))) @ a:1\"" },
        { "LL_CAST_ROW { jump 1 } @ a:1",
          "sheet:1: expected an operation of `eptwin kernel words`, found \"jump 1 } @ a:1\"" },
        { "LL_CAST_ROW { use, } @ a:1", "sheet:1: expected an operation of `eptwin kernel words`, found \"} @ a:1\"" },
        { "LL_CAST_ROW { load 1 from disk } @ a:1",
          "sheet:1: expected source, target, shared or l2, found \" disk } @ a:1\"" },
        { "LL_CAST_ROW (bytes) { load bytes } @ a:1",
          "sheet:1: expected another name for this size, since programs have bytes, made and warps, found \"bytes } @ "
          "a:1\"" },
        { "LL_CAST_ROW { use @ a:1", "sheet:1: expected \",\" and an operation, or \"}\", found \"@ a:1\"" },
        { "LL_CAST_ROW { repeat 2 use } @ a:1", "sheet:1: expected \"{\", found \"use } @ a:1\"" },
        { "LL_CAST_ROW { repeat 2 { repeat 2 { repeat 2 { repeat 2 { use } } } } } @ a:1",
          "sheet:1: expected fewer braces, found \" use } } } } } @ a:1\"" },
        { "LL_CAST_ROW load bytes @ a:1",
          "sheet:1: expected a size that the site names, rows, min, max or ceil, found \"bytes @ a:1\"" },
        { "INTRA_MATRIX_READ load 1 @ a:1\nLL_CAST_ROW load 1 @ a:1",
          "sheet:2: LL_CAST_ROW: expected a program, { ... }, found words such as load" },
        { "INTRA_MATRIX_READ { load 1 } @ a:1",
          "sheet:1: INTRA_MATRIX_READ: expected words such as load, found a program, { ... }" },
        { "LL_CAST_ROW { load 1 } one-by-one @ a:1",
          "sheet:1: LL_CAST_ROW: expected a program, { ... }, found a program, { ... }, with one-by-one" },
        { "INTRA_MATRIX_READ load 1, one-by-one @ a:1",
          "sheet:1: INTRA_MATRIX_READ: expected words such as load, found one-by-one without a program" },
        { "V2_STORE load 1 @ a:1", "sheet:1: V2_STORE: expected from-shared, found words such as load" },
        { "V2_COPY_ROW load 1, copy-engine @ a:1",
          "sheet:1: V2_COPY_ROW: expected words such as load, found copy-engine" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        g_autoptr(GError) error = NULL;
        CU_ASSERT_PTR_NULL(loops_parse("sheet", bad[i].text, strlen(bad[i].text), &error));
        CU_ASSERT(error_is(&error, bad[i].message));
    }
}

/* Words and expressions may not be longer than their limits. */
TEST("long lines")
{
    g_autoptr(GString) text = g_string_new("LL_CAST_ROW load 1");
    g_autoptr(GError) error = NULL;
    for (uint32_t i = 0; i < 200; i++) g_string_append(text, " + 1");
    CU_ASSERT_PTR_NULL(loops_parse("sheet", text->str, text->len, &error));
    CU_ASSERT(error_holds(&error, "expected a shorter line"));
    g_string_assign(text, "LL_CAST_ROW load 1");
    for (uint32_t i = 0; i < 200; i++) g_string_append(text, ", load 1");
    CU_ASSERT_PTR_NULL(loops_parse("sheet", text->str, text->len, &error));
    CU_ASSERT(error_holds(&error, "expected fewer words"));
    g_string_assign(text, "LL_CAST_ROW { use");
    for (uint32_t i = 0; i < LOOP_OPS; i++) g_string_append(text, ", use");
    CU_ASSERT_PTR_NULL(loops_parse("sheet", text->str, text->len, &error));
    CU_ASSERT(error_holds(&error, "expected a shorter program"));
}
