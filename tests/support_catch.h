/* support_catch.h - catching what a test and its child processes write to standard error. */
#ifndef TESTS_SUPPORT_CATCH_H
#define TESTS_SUPPORT_CATCH_H

#include <CUnit/CUnit.h>

void catch_start(void);
/* Returns the text written since catch_start(); free it with g_free(). */
char *catch_end(void);

#define ASSERT_CONTAINS(text, part) \
    do { \
        if (!strstr(text, part)) fprintf(stderr, "expected \"%s\" in:\n%s\n", part, text); \
        CU_ASSERT_PTR_NOT_NULL(strstr(text, part)); \
    } while (0)

#endif
