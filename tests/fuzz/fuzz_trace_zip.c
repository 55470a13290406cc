/* fuzz_trace_zip.c - libFuzzer target of ZIP files of torch.save and numpy, and of pickles with tensors in valid ZIP
 * files. */
#include "tests/fuzz/fuzz_trace.h"
#include "tests/support_zip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t numbers[1024];
    const char *const path = fuzz_path(0, data, size);
    if (size >= 4 && memcmp(data, "PK\3\4", 4) == 0) {
        fuzz_trace("", path, NULL);
        fuzz_trace("vllm:", path, NULL);
        return 0;
    }
    const struct zip_part parts[] = { { "x/data.pkl", data, size },
                                      { "x/data/0", numbers, sizeof numbers },
                                      { "x/data/1", numbers, 64 } };
    zip_write(path, parts, 3);
    fuzz_trace("", path, NULL);
    return 0;
}
