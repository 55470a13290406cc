/* fuzz_trace_csv.c - .csv files. */
#include "tests/fuzz/fuzz_trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_trace("", fuzz_path(0, data, size), NULL);
    return 0;
}
