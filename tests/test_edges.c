/* test_edges.c - lists of messages from files, from random draws and from routings.  Every way in which a file can be
 * wrong must give an error that names the line.
 *
 * Method: small files written on the spot; sums of what is drawn. */
#include <stdio.h>
#include <string.h>
#include "traces/edges_make.h"
#include "tests/support_trace.h"
#include "tests/unit.h"

static void expect_error(const char *text, const char *expected)
{
    const char *path = temporary_text("edges.txt", text);
    struct edges e;
    g_autoptr(GError) error = NULL;
    CU_ASSERT_FALSE(edges_read(path, &e, &error));
    CU_ASSERT_PTR_NOT_NULL_FATAL(error);
    const char *found = g_str_has_prefix(error->message, path) ? error->message + strlen(path) : error->message;
    CU_ASSERT_STRING_EQUAL(found, expected);
    if (strcmp(found, expected)) printf("\n      expected %s\n      found    %s\n", expected, found);
}

TEST("files")
{
    static const char text[] = "# what\n 3 5 # endpoints, messages\n\n2 0 7\r\n0 1 100\n0\t2 0\n\n 2 1 5\n0 1 1\n#end";
    const char *path = temporary_text("edges.txt", text);
    g_auto(edges) e;
    CU_ASSERT_TRUE_FATAL(edges_read(path, &e, NULL));
    CU_ASSERT_EQUAL(e.ranks, 3);
    CU_ASSERT_EQUAL(edges_count(&e), 5);
    static const uint32_t first[] = { 0, 3, 3, 5 }, target[] = { 1, 2, 1, 0, 1 }, bytes[] = { 100, 0, 1, 7, 5 };
    static const uint64_t offset[] = { 0, 0, 100, 0, 101 };
    for (uint32_t i = 0; i < 4; i++) CU_ASSERT_EQUAL(e.first[i], first[i]);
    for (uint32_t i = 0; i < 5; i++) {
        CU_ASSERT_EQUAL(e.target[i], target[i]);
        CU_ASSERT_EQUAL(e.size_bytes[i], bytes[i]);
        CU_ASSERT_EQUAL(e.target_offset[i], offset[i]);
    }
    CU_ASSERT_EQUAL(e.sent_bytes[0], 101);
    CU_ASSERT_EQUAL(e.sent_bytes[1], 0);
    CU_ASSERT_EQUAL(e.received_bytes[1], 106);
    CU_ASSERT_EQUAL(e.received[1], 3);
    edges_free(&e);
}

TEST("wrong files")
{
    expect_error("", ":1: endpoints: expected a number of endpoints and of messages, found the end of the file");
    expect_error("\n\n", ":3: endpoints: expected a number of endpoints and of messages, found the end of the file");
    expect_error("x 1\n", ":1: endpoints: expected a whole number from 1 to 65535, found 'x'");
    expect_error("0 1\n", ":1: endpoints: expected a whole number from 1 to 65535, found 0");
    expect_error("\xef\xbb\xbf"
                 "2 1\n0 1 5\n0 1 5\n",
                 ":3: messages: expected 1 line of messages, found more");
    expect_error("2\n", ":1: messages: expected a whole number from 0 to 268435456, found the end of the line");
    expect_error("2 1 3\n", ":1: line: expected its end, found '3'");
    expect_error("2 1\n\n-1 0 5\n", ":3: source: expected a whole number from 0 to 1, found '-1'");
    expect_error("2 1\n0 1 5k\n", ":2: bytes: expected a whole number from 0 to 1073741824, found 'k'");
    expect_error("2 1\n0 1 1073741825\n", ":2: bytes: expected a whole number from 0 to 1073741824, found 1073741825");
    expect_error("2 1\n0 1 99999999999999999999\n",
                 ":2: bytes: expected a whole number from 0 to 1073741824, found '9999999'");
    expect_error("2 1\n0 1\n", ":2: bytes: expected a whole number from 0 to 1073741824, found the end of the line");
    expect_error("2 1\n0 1 5 6\n", ":2: line: expected its end, found '6'");
    expect_error("2 1\n0 1 5\n1 0 5\n", ":3: messages: expected 1 line of messages, found more");
}

static void expect_spec_error(const char *spec, uint32_t ranks, const char *part)
{
    struct edges e;
    g_autoptr(GError) error = NULL;
    CU_ASSERT_FALSE(edges_make(spec, ranks, 1, 0, &e, &error));
    CU_ASSERT(error_holds(&error, part));
}

TEST("listed")
{
    struct edges e;
    CU_ASSERT_TRUE_FATAL(edges_make("0|4KiB|7;1MiB|5|0;0|0|0", 0, 7, 0, &e, NULL));
    static const uint32_t target[] = { 1, 2, 0, 1 }, bytes[] = { 4096, 7, 1 << 20, 5 };
    CU_ASSERT_EQUAL(e.ranks, 3);
    CU_ASSERT_EQUAL_FATAL(edges_count(&e), 4);
    for (uint32_t i = 0; i < 4; i++) {
        CU_ASSERT_EQUAL(e.target[i], target[i]);
        CU_ASSERT_EQUAL(e.size_bytes[i], bytes[i]);
    }
    CU_ASSERT_EQUAL(e.first[1], 2);
    CU_ASSERT_EQUAL(e.received_bytes[0], 1 << 20);
    edges_free(&e);
}

TEST("drawn")
{
    struct edges e;
    CU_ASSERT_TRUE_FATAL(edges_make("uniform:1000", 5, 7, 0, &e, NULL));
    CU_ASSERT_EQUAL(edges_count(&e), 20);
    for (uint32_t s = 0; s < 5; s++)
        for (uint32_t i = 0; i < 4; i++) {
            CU_ASSERT_EQUAL(e.target[e.first[s] + i], (s + 1 + i) % 5);
            CU_ASSERT_EQUAL(e.size_bytes[e.first[s] + i], 1000);
        }
    edges_free(&e);
    CU_ASSERT_TRUE_FATAL(edges_make("lognormal:65536:0.7", 64, 7168, 1, &e, NULL));
    uint64_t sum = 0, most = 0;
    for (uint32_t r = 0; r < 64; r++) {
        sum += e.received_bytes[r];
        most = e.received_bytes[r] > most ? e.received_bytes[r] : most;
    }
    const double mean = (double)sum / (64 * 63);
    CU_ASSERT(mean > 60000 && mean < 71000);
    CU_ASSERT((double)most > 1.5 * (double)sum / 64);
    for (uint32_t i = 0; i < edges_count(&e); i++) CU_ASSERT_EQUAL(e.size_bytes[i] % 7168, 0);
    struct edges again;
    CU_ASSERT_TRUE_FATAL(edges_make("lognormal:64KiB", 64, 7168, 1, &again, NULL));
    CU_ASSERT_EQUAL(edges_count(&again), edges_count(&e));
    CU_ASSERT_EQUAL(memcmp(again.size_bytes, e.size_bytes, edges_count(&e) * sizeof *e.size_bytes), 0);
    edges_free(&again);
    edges_free(&e);
    expect_spec_error("uniform:0", 4, "matrix: expected a file, uniform:SIZE");
    expect_spec_error("uniform:2GiB", 4, "found 'uniform:2GiB'");
    expect_spec_error("lognormal:1GiB", 8, "matrix: expected messages of at most 1 GiB, found one of ");
    expect_spec_error("uniform:5:6", 4, "found 'uniform:5:6'");
    expect_spec_error("uniform:", 4, "found 'uniform:'");
    expect_spec_error("lognormal:5:x", 4, "found 'lognormal:5:x'");
    expect_spec_error("lognormal:5:6", 4, "found 'lognormal:5:6'");
    expect_spec_error("0|1;2", 2, "matrix: row 2: expected 2 sizes with '|' between them, as many as rows, found 1");
    expect_spec_error("0|1;2|0", 3, "matrix: expected 3 rows with ';' between them, found 2");
    expect_spec_error("0|1;2GiB|0", 0, "matrix: row 2, column 1: expected a size from 0 B to 1 GiB, found '2GiB'");
    expect_spec_error("0|1;|0", 0, "row 2, column 1: expected a size from 0 B to 1 GiB, found ''");
    expect_spec_error("uniform:5", 65535, "expected at most 268435456 messages");
}

/* Four experts on two ranks.  A token with both experts of a rank goes to that rank once. */
TEST("of a routing")
{
    const uint32_t tokens[2] = { 3, 1 };
    g_auto(routing) routing;
    g_auto(edges) e;
    routing_alloc(&routing, 2, 2, 4, tokens, 0);
    static const int32_t expert[] = { 0, 1, 2, 3, 0, 2 };
    memcpy(routing.rank[0].experts, expert, sizeof expert);
    routing.rank[1].experts[1] = 1;
    g_autoptr(GError) error = NULL;
    CU_ASSERT_FALSE_FATAL(edges_of_routing(&routing, EDGE_BYTES_MAX, &e, &error));
    CU_ASSERT(g_str_has_prefix(error->message, "num-tokens: expected at most 1 GiB from a rank to another, found "));
    CU_ASSERT_TRUE_FATAL(edges_of_routing(&routing, 100, &e, NULL));
    CU_ASSERT_EQUAL(edges_count(&e), 3);
    CU_ASSERT_EQUAL(e.target[0], 1);
    CU_ASSERT_EQUAL(e.size_bytes[0], 200);
    CU_ASSERT_EQUAL(e.target[1], 0);
    CU_ASSERT_EQUAL(e.size_bytes[1], 200);
    CU_ASSERT_EQUAL(e.target[2], 0);
    CU_ASSERT_EQUAL(e.size_bytes[2], 100);
}
