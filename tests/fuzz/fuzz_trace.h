/* fuzz_trace.h - opens the fuzzer's bytes as a trace, whatever they are, and reads all of it.
 *
 * The bytes go through a file in memory, so that the fuzzed code is the one that users run. */
#ifndef TESTS_FUZZ_FUZZ_TRACE_H
#define TESTS_FUZZ_FUZZ_TRACE_H

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "traces/trace.h"

/* The path of a file with these bytes; valid until the next call for the same place (0 or 1). */
static inline const char *fuzz_path(int place, const uint8_t *data, size_t size)
{
    static int files[2] = { -1, -1 };
    static char paths[2][64];
    if (files[place] < 0) files[place] = memfd_create("fuzz", 0);
    g_snprintf(paths[place], sizeof paths[place], "/proc/self/fd/%d", files[place]);
    if (files[place] < 0 || ftruncate(files[place], 0) != 0 || pwrite(files[place], data, size, 0) != (ssize_t)size ||
        lseek(files[place], 0, SEEK_SET) != 0) /* else the next write in place would begin where the last one ended */
        abort();
    return paths[place];
}

/* Every reader must return either an error, or experts in range. */
static inline void fuzz_trace(const char *prefix, const char *path, const struct trace_options *options)
{
    char *const named = g_strconcat(prefix, path, NULL);
    GError *error = NULL;
    struct trace *const trace = trace_open(named, options, &error);
    uint32_t reads = 0;
    g_free(named);
    /* A few bytes may claim 2^28 choices.  That is no fault, but each block would take a second, so such a trace is not
     * read. */
    const bool brief = trace && !(trace_info(trace)->counts && trace_info(trace)->tokens_max > 1 << 20);
    for (uint32_t s = 0; brief && s < trace_info(trace)->steps && reads < 64; s++) {
        for (uint32_t l = 0; l < trace_info(trace)->layers && reads < 64; l++, reads++) {
            struct routing routing;
            g_clear_error(&error);
            if (!trace_read(trace, s, l, 0, &routing, &error)) continue;
            for (uint32_t r = 0; r < routing.ranks; r++)
                for (size_t i = 0; i < (size_t)routing.rank[r].tokens * routing.topk; i++)
                    if (routing.rank[r].experts[i] < -1 || routing.rank[r].experts[i] >= (int64_t)routing.experts)
                        abort();
            routing_free(&routing);
        }
    }
    if (!trace && !error) abort();
    g_clear_error(&error);
    trace_close(trace);
}

#endif
