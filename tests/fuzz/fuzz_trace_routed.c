/* fuzz_trace_routed.c - JSON lines of routed experts in base64. */
#include "tests/fuzz/fuzz_trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_trace("routed@2:", fuzz_path(0, data, size), NULL);
    return 0;
}
