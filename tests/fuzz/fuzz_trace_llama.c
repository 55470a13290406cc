/* fuzz_trace_llama.c - layer,expert lines. */
#include "tests/fuzz/fuzz_trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_trace("llama@2:", fuzz_path(0, data, size), NULL);
    return 0;
}
