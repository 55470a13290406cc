/* compare_layer.c - the time of a layer's dispatch and combine: the sum over their kernels of the slowest rank's time.
 * All code that says which of two kernels, settings or machines is faster compares this sum, so that all of it
 * agrees. */
#include "reports/compare.h"

#include <math.h>
#include <string.h>

static bool timed(const struct record *record, const char *phase)
{
    return !record || record_find(record, phase, RECORD_ALL, "time_us");
}

/* Whether a phase is a kernel of the layer.  A barrier between iterations or calls is not, because engines have no such
 * barrier or hide it behind other work.  A whole call, a phase of several kernels and one layer of another phase are
 * not kernels of the layer, either. */
static bool is_kernel(const struct record *record, const struct record *other, const char *phase)
{
    return !g_str_has_suffix(phase, "sync") && !strchr(phase, '+') && !g_str_has_suffix(phase, "_call") &&
           !compare_phase_of_layer(phase) && timed(record, phase) && timed(other, phase);
}

/* Whether the record has a span that contains the kernel.  A span is named after the first word of its kernels' names:
 * dispatch_span contains dispatch_send. */
static bool in_span(const struct record *record, const struct record *other, const char *phase)
{
    g_autofree char *span = g_strdup_printf("%.*s_span", (int)strcspn(phase, "_"), phase);
    return strcmp(phase, span) != 0 && timed(record, span) && timed(other, span);
}

bool compare_layer_has(const struct record *record, const char *phase, enum compare_half *half)
{
    *half = strstr(phase, "combine") ? COMPARE_COMBINE : COMPARE_DISPATCH;
    return is_kernel(record, NULL, phase) && !in_span(record, NULL, phase);
}

double compare_phase_us(const struct record *record, const char *phase, bool slowest)
{
    const struct record_row *mean = record_find(record, phase, RECORD_ALL, "time_us");
    return slowest ? compare_slowest_us(record, phase) : mean ? mean->value : NAN;
}

bool compare_layer_find(const struct record *record, const struct record *other, bool slowest,
                        struct compare_layer *layer)
{
    g_autoptr(GPtrArray) phases = compare_phases(record);
    *layer = (struct compare_layer){ 0 };
    bool dispatches = false;
    for (guint i = 0; i < phases->len; i++) {
        const char *phase = phases->pdata[i];
        if (!is_kernel(record, other, phase) || in_span(record, other, phase)) continue;
        const enum compare_half half = strstr(phase, "combine") ? COMPARE_COMBINE : COMPARE_DISPATCH;
        const double us = compare_phase_us(record, phase, slowest);
        dispatches |= g_str_has_prefix(phase, "dispatch");
        layer->us[half] += us;
        if (layer->longest[half] && !(us > layer->longest_us[half])) continue;
        layer->longest_us[half] = us;
        layer->longest[half] = phase;
    }
    return dispatches && layer->longest[COMPARE_COMBINE];
}

char *compare_layer_limit(const struct record *record, const char *phase, struct compare_limit *limit)
{
    char *kernel = g_str_has_suffix(phase, "_span") ? g_strndup(phase, strcspn(phase, "_")) : g_strdup(phase);
    compare_limit_find(record, kernel, limit);
    return kernel;
}

void compare_layer_others(const struct record *record, const struct record *other, GPtrArray *others)
{
    g_autoptr(GPtrArray) phases = compare_phases(record);
    for (guint i = 0; i < phases->len; i++) {
        const char *phase = phases->pdata[i];
        if (strcmp(phase, "dispatch") == 0 || strcmp(phase, "combine") == 0 || g_str_has_suffix(phase, "_span") ||
            !is_kernel(record, other, phase) || g_ptr_array_find_with_equal_func(others, phase, g_str_equal, NULL))
            continue;
        g_ptr_array_add(others, (gpointer)phase);
    }
}
