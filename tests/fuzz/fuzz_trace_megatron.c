/* fuzz_trace_megatron.c - Megatron-Core's JSON lines. */
#include "tests/fuzz/fuzz_trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_trace("", fuzz_path(0, data, size), NULL);
    return 0;
}
