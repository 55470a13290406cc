/* unit.h - what a CUnit program defines; all share the main() of unit_main.c.
 *
 * test_X [TEST] runs all tests, or the one of that name, and ends with 1 when one fails or none runs. */
#ifndef TESTS_UNIT_H
#define TESTS_UNIT_H

#include <CUnit/Basic.h>
#include <stdbool.h>

extern const char unit_suite[];   /* the suite's name */
void unit_tests(CU_pSuite suite); /* adds the tests */

/* Before and after all tests, where a program needs it: unit_begin returns false when nothing can be tested. */
bool unit_begin(int argc, char **argv) __attribute__((weak));
void unit_end(void) __attribute__((weak));

#endif
