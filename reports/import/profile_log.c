/* profile_log.c - the communication kernels of a profile as rows of an import: phase, layer, rank.
 *
 * A call's layer is its index among the calls of its phase.  Options that a profile does not give (tokens, hidden,
 * dtype) are "?" if a default would mislead. */
#include "reports/import/profile.h"

#include <string.h>

#include "sim/error.h"

/* Sets the row's options that the profile tells. */
static void case_words(const struct profile_case *c, const struct profile_call *call, struct import_row *row)
{
    if (c->ranks) import_row_count(row, IMPORT_NUM_RANKS, c->ranks);
    if (c->nodes) import_row_count(row, IMPORT_RANKS_PER_NODE, c->ranks / c->nodes);
    if (c->hidden) import_row_count(row, IMPORT_HIDDEN, c->hidden);
    if (c->hook) import_row_word(row, IMPORT_HOOK, "true");
    if (call->is.cached || strcmp(call->phase, "cached_notify_dispatch") == 0)
        import_row_word(row, IMPORT_CACHED, "true");
    if (c->sms) import_row_count(row, IMPORT_NUM_SMS, c->sms);
}

/* Adds a row for each call of a profile: phase, layer, rank, and the case as far as the names show it. */
static void profile_rows(const struct profile *profile, int32_t rank, struct import_log *log)
{
    static const char *const kernels[] = {
        "ll", "normal", "v2", "nccl-ll", "nccl-ht", "hybrid-ep", "one-sided", "mori"
    };
    struct profile_case of_kernel[G_N_ELEMENTS(kernels)];
    g_autoptr(GArray) calls = profile_calls(profile);
    for (size_t k = 0; k < G_N_ELEMENTS(kernels); k++) of_kernel[k] = profile_case_of(profile, calls, kernels[k]);
    for (guint i = 0; i < calls->len; i++) {
        const struct profile_call *call = &g_array_index(calls, struct profile_call, i);
        const struct profile_kernel *kernel = &g_array_index(profile->kernels, struct profile_kernel, call->index);
        log->line = i + 1;
        struct import_row *row = import_row_add(log, profile->tool, call->is.library, call->phase);
        row->rank = rank;
        import_row_count(row, IMPORT_LAYER, call->layer);
        import_row_number(row, IMPORT_US, (double)(kernel->end_ns - kernel->begin_ns) / 1e3);
        import_row_word(row, IMPORT_TIMED, "kernel");
        if (profile->gpu) import_row_word(row, IMPORT_DEVICE, profile->gpu);
        for (size_t k = 0; k < G_N_ELEMENTS(kernels); k++)
            if (profile_phase_is(&call->is, kernels[k])) case_words(&of_kernel[k], call, row);
        row->may = call->is.may;
        if (call->is.kernel) import_row_become(row, call->is.kernel);
        else import_row_word(row, IMPORT_METRIC, "native_us");
    }
    if (calls->len)
        import_log_note(log, "a layer is a phase's call in order; times hold what kernels waited for other ranks: "
                             "`eptwin explain-trace` takes them apart");
}

struct import_log *profile_log_read(const char *path, GError **error)
{
    g_autoptr(GPtrArray) profiles = profile_read(path, error);
    if (!profiles) return NULL;
    struct import_log *log = import_log_new(path);
    uint64_t kernels = 0;
    for (guint i = 0; i < profiles->len; i++) {
        const struct profile *profile = g_ptr_array_index(profiles, i);
        const int32_t device = g_array_index(profile->kernels, struct profile_kernel, 0).device;
        profile_rows(profile, profile->rank >= 0 && profiles->len == 1 ? profile->rank : device, log);
        kernels += profile->kernels->len;
    }
    log->line_count = (uint32_t)kernels;
    log->counted = "kernels and copies";
    if (log->rows->len) return log;
    error_input(error,
                "%s: expected communication kernels (of DeepEP, NCCL, ...), found none among %" G_GUINT64_FORMAT
                " kernels and copies",
                path, kernels);
    import_log_free(log);
    return NULL;
}
