/* fuzz_trace_vllm.c - vLLM's arrays. */
#include "tests/fuzz/fuzz_trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_trace("vllm:", fuzz_path(0, data, size), NULL);
    return 0;
}
