/* unit_main.c - main() of the CUnit programs; see unit.h. */
#include "tests/unit.h"

#include <stdio.h>

static bool tests_run(CU_pSuite suite, const char *only)
{
    if (!only) return CU_basic_run_tests() == CUE_SUCCESS;
    CU_pTest test = CU_get_test(suite, only);
    if (!test) fprintf(stderr, "%s: there is no test '%s'\n", unit_suite, only);
    return test && CU_basic_run_test(suite, test) == CUE_SUCCESS;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0); /* what a program said before it was ended by alarm() is seen */
    if (unit_begin && !unit_begin(argc, argv)) return 1;
    if (CU_initialize_registry() != CUE_SUCCESS) return 1;
    CU_pSuite suite = CU_add_suite(unit_suite, NULL, NULL);
    if (suite) unit_tests(suite);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    const bool ran = CU_get_error() == CUE_SUCCESS && tests_run(suite, argc > 1 ? argv[1] : NULL);
    const bool good = ran && CU_get_number_of_failures() == 0 && CU_get_number_of_tests_run() > 0;
    CU_cleanup_registry();
    if (unit_end) unit_end();
    return good ? 0 : 1;
}
