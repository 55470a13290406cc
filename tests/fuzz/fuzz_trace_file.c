/* fuzz_trace_file.c - trace files of one format, which FUZZ_PREFIX names before the path (tests/fuzz/run). */
#include "tests/fuzz/fuzz_trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_trace(FUZZ_PREFIX, fuzz_path(0, data, size), NULL);
    return 0;
}
