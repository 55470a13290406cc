/* fuzz_trace_counts.c - counts of experts in numpy arrays. */
#include "tests/fuzz/fuzz_trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_trace("counts:", fuzz_path(0, data, size), NULL);
    return 0;
}
