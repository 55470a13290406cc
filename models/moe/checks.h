/* checks.h - what the checks of all kernel families share: a report that keeps the first failure, and the measures by
 * which the public tests compare tensors.  Needs libc only. */
#ifndef MODELS_MOE_CHECKS_H
#define MODELS_MOE_CHECKS_H

#include <stddef.h>
#include <stdint.h>

/* The numbers of checks in PROTOCOLS.md 4. */
enum {
    CHECK_LAYOUT = 1,
    CHECK_RECV_ROWS = 2,
    CHECK_EXPERT_COUNTS = 3,
    CHECK_ORDER = 4,
    CHECK_TOPK_INDEX = 5,
    CHECK_TOPK_WEIGHTS = 6,
    CHECK_WORST_TOKENS = 7,
    CHECK_CACHED = 8,
    CHECK_COMBINE = 9,
    CHECK_COMBINE_WEIGHTS = 10,
    CHECK_LL_DISPATCH = 13,
    CHECK_LL_COMBINE = 14,
    CHECK_MASK = 15,
    CHECK_V2 = 16,
};

struct check_report {
    uint32_t failed; /* bit n is set if check n has failed */
    char *text;
    size_t text_size;
};

/* Notes that a check failed.  report->text keeps the first failure: place, expected, found. */
void __attribute__((format(printf, 3, 4)))
check_fail(struct check_report *report, uint32_t number, const char *format, ...);
/* How many checks failed. */
uint32_t check_failures(const struct check_report *report);

/* The measure calc_diff of the public tests for how much two tensors x and y differ: 1 - 2 sum((x+1)(y+1)) /
 * sum((x+1)^2 + (y+1)^2), in double.  It is NaN if a value is NaN. */
struct check_diff {
    double product, squares;
};
void check_diff_add(struct check_diff *diff, double x, double y);
double check_diff_value(const struct check_diff *diff);

#endif
