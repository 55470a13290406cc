/* fuzz_placement.c - libFuzzer target of placement files, and of the texts that name placements. */
#include "tests/fuzz/fuzz_trace.h"
#include "traces/placement.h"

static void make(const char *spec)
{
    static const uint64_t load[8] = { 5, 0, 3, 9, 9, 1, 2, 70 };
    const struct placement_input input = { 8, 4, 2, load, 0 };
    struct placement placement;
    g_autoptr(GError) error = NULL;
    if (placement_make(spec, &input, &placement, &error)) placement_clear(&placement);
    else if (!error) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    g_autofree char *text = g_strndup((const char *)data, size);
    g_autofree char *spec = g_strconcat("file:", fuzz_path(0, data, size), NULL);
    make(spec);
    if (strlen(text) < 16 && !g_str_has_prefix(text, "file:")) make(text);
    return 0;
}
