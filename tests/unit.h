/* unit.h - what a CUnit program defines.  All programs share the main() of unit_main.c.
 *
 * test_X [TEST] runs all tests, or the one of that name.  It ends with status 1 if a test fails or none runs. */
#ifndef TESTS_UNIT_H
#define TESTS_UNIT_H

#include <CUnit/Basic.h>
#include <glib.h>
#include <stdbool.h>
#include "traces/trace.h"

/* A test: TEST("what it shows") { its body }.  The tests of a program run in the order of its file. */
#define TEST(name)          TEST_AT(name, __LINE__)
#define TEST_AT(name, line) TEST_AT_LINE(name, line)
#define TEST_AT_LINE(name, line) \
    static void test_at_##line(void); \
    __attribute__((constructor)) static void test_at_##line##_add(void) { unit_test_add(name, test_at_##line); } \
    static void test_at_##line(void)
void unit_test_add(const char *name, CU_TestFunc test);

/* Types that are freed at the end of a scope: g_auto(type) frees a structure, g_autoptr(type) a pointer to one.
 * Headers that know GLib say so of their own types. */
#define UNIT_AUTO(kind, type, end) \
    typedef struct type type; \
    void end(struct type *); \
    G_DEFINE_##kind##_FUNC(type, end)
UNIT_AUTO(AUTO_CLEANUP_CLEAR, edges, edges_free)
UNIT_AUTO(AUTO_CLEANUP_CLEAR, npy, npy_clear)
UNIT_AUTO(AUTO_CLEANUP_CLEAR, placement, placement_clear)
UNIT_AUTO(AUTO_CLEANUP_CLEAR, sample, sample_clear)
UNIT_AUTO(AUTOPTR_CLEANUP, compare, compare_free)
UNIT_AUTO(AUTOPTR_CLEANUP, graph, graph_free)
UNIT_AUTO(AUTOPTR_CLEANUP, loops, loops_free)
UNIT_AUTO(AUTOPTR_CLEANUP, moe_group, moe_group_free)
UNIT_AUTO(AUTOPTR_CLEANUP, schedule, schedule_free)
UNIT_AUTO(AUTOPTR_CLEANUP, timeline, timeline_free)

/* Returns the pointer.  If it is NULL, the test fails and ends. */
#define MADE(...) unit_made((__VA_ARGS__), #__VA_ARGS__, __FILE__, __LINE__)
void *unit_made(const void *pointer, const char *text, const char *file, unsigned line);

/* Both say whether a call failed: error_is() with exactly this message, error_holds() with a message that contains this
 * part.  Otherwise they print the message.  They free *error. */
bool error_is(GError **error, const char *message);
bool error_holds(GError **error, const char *part);

/* A program defines these only if it needs them.  unit_begin runs before all tests, and returns false if nothing can be
 * tested.  unit_tests runs after the TEST()s were added.  It adds tests that depend on the machine or that programs
 * share. unit_end runs after all tests. */
bool unit_begin(char **argv) __attribute__((weak));
void unit_tests(CU_pSuite suite) __attribute__((weak));
void unit_end(void) __attribute__((weak));

#endif
