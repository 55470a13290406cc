/* checks.c - the functions of checks.h.  Knows no kernel family. */
#include "models/moe/checks.h"

#include <stdarg.h>
#include <stdio.h>

void check_fail(struct check_report *report, uint32_t number, const char *format, ...)
{
    if (report->failed == 0 && report->text_size) {
        const int used = snprintf(report->text, report->text_size, "check %u: ", number);
        if (used > 0 && (size_t)used < report->text_size) {
            va_list arguments;
            va_start(arguments, format);
            vsnprintf(report->text + used, report->text_size - (size_t)used, format, arguments);
            va_end(arguments);
        }
    }
    report->failed |= 1u << number;
}

uint32_t check_failures(const struct check_report *report) { return (uint32_t)__builtin_popcount(report->failed); }

void check_diff_add(struct check_diff *diff, double x, double y)
{
    x += 1;
    y += 1;
    diff->product += x * y;
    diff->squares += x * x + y * y;
}

double check_diff_value(const struct check_diff *diff)
{
    return diff->squares == 0 ? 0 : 1 - 2 * diff->product / diff->squares;
}
