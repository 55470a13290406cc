/* fuzz_profile.c - libFuzzer target of profiles: PyTorch's JSON and Nsight Systems' SQLite. */
#include "reports/import/profile.h"
#include "tests/fuzz/fuzz_trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *path = fuzz_path(0, data, size);
    g_autoptr(GError) error = NULL;
    profile_begins(path);
    g_autoptr(import_log) log = profile_log_read(path, &error);
    if (!log && !error) abort();
    return 0;
}
