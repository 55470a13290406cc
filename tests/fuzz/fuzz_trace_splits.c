/* fuzz_trace_splits.c - all-to-all split sizes. */
#include "tests/fuzz/fuzz_trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_trace("splits@2:", fuzz_path(0, data, size), NULL);
    return 0;
}
