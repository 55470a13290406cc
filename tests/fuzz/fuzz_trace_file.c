/* fuzz_trace_file.c - libFuzzer target of trace files of one format.  tests/fuzz/run sets FUZZ_PREFIX to the prefix of
 * paths that names the format. */
#include "tests/fuzz/fuzz_trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_trace(FUZZ_PREFIX, fuzz_path(0, data, size), NULL);
    return 0;
}
