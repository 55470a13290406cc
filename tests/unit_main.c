/* unit_main.c - main() of the CUnit programs; see unit.h. */
#include "tests/support_trace.h"
#include "tests/unit.h"

#include <assert.h>
#include <stdio.h>

static struct {
    const char *name;
    CU_TestFunc test;
} added[128];
static size_t added_count;

void unit_test_add(const char *name, CU_TestFunc test)
{
    assert(added_count < sizeof added / sizeof *added);
    added[added_count].name = name;
    added[added_count++].test = test;
}

static bool tests_run(CU_pSuite suite, const char *only)
{
    if (!only) return CU_basic_run_tests() == CUE_SUCCESS;
    CU_pTest test = CU_get_test(suite, only);
    if (!test) fprintf(stderr, "%s: there is no test '%s'\n", program_invocation_short_name, only);
    return test && CU_basic_run_test(suite, test) == CUE_SUCCESS;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0); /* so that output is seen even if alarm() ends the program */
    if (unit_begin && !unit_begin(argv)) return 1;
    if (CU_initialize_registry() != CUE_SUCCESS) return 1;
    CU_pSuite suite = CU_add_suite(program_invocation_short_name, NULL, NULL);
    for (size_t t = 0; suite && t < added_count; t++) CU_add_test(suite, added[t].name, added[t].test);
    if (suite && unit_tests) unit_tests(suite);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    const bool ran = CU_get_error() == CUE_SUCCESS && tests_run(suite, argc > 1 ? argv[1] : NULL);
    const bool good = ran && CU_get_number_of_failures() == 0 && CU_get_number_of_tests_run() > 0;
    CU_cleanup_registry();
    if (unit_end) unit_end();
    temporary_clear();
    return good ? 0 : 1;
}
