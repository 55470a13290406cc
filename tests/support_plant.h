/* support_plant.h - plants faults into the outputs of the high-throughput and V2 kernels, and tests that each fault
 * is found.  It serves all families that moe_ht_check.c checks.  A check is worthless if no planted fault makes it
 * fail. */
#ifndef TESTS_SUPPORT_PLANT_H
#define TESTS_SUPPORT_PLANT_H

#include <CUnit/CUnit.h>
#include "tests/support_moe.h"

/* How one family's faults are found.  Checks are numbered as in PROTOCOLS.md 4. */
struct plant_family {
    enum moe_kernel_family kernels;
    uint32_t ranks_per_node; /* of a group of 4 */
    bool worst_tokens;       /* whether the family has a worst-case size */
    int row_check;           /* the check that finds a wrong row */
    int cached_check;        /* the check that finds a wrong row after a dispatch with a cached handle */
    int sum_check;           /* the check that finds a combined row that differs in any bit from the promised sum */
    const char *hang;        /* a part of what the group prints when rank 2 never starts */
};

/* Adds a test to the suite for each kind of fault: a bit of every output, the layout, the number of rows, their order,
 * the tail behind them (if the family has one), the last bit of a sum, one differing run among many, and a rank that
 * never starts.  CUnit's tests take no argument, so a program tests one family.  `family` must outlive the run. */
void plant_tests_add(CU_pSuite suite, const struct plant_family *family);

#endif
