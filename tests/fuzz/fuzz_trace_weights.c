/* fuzz_trace_weights.c - libFuzzer target of arrays of gate weights, read beside a valid trace. */
#include "tests/fuzz/fuzz_trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char trace[] = "step,layer,rank,token,expert0,expert1\n0,0,0,0,1,2\n0,1,0,0,3,4\n";
    g_autofree char *weights = g_strconcat(fuzz_path(1, data, size), size % 2 ? "@1,0" : "", NULL);
    fuzz_trace("", fuzz_path(0, (const uint8_t *)trace, sizeof trace - 1), &(struct trace_options){ 0, weights });
    return 0;
}
