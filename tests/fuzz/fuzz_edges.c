/* fuzz_edges.c - libFuzzer target: reads the input as sizes if it has a '|', or else as a file of messages, unless
 * edges_spec_drawn() says that it is a specification such as "uniform:SIZE". */
#include "tests/fuzz/fuzz_trace.h"
#include "traces/edges_make.h"

#include <string.h>

static void make(const char *spec)
{
    struct edges e;
    g_autoptr(GError) error = NULL;
    if (edges_make(spec, 0, 7, 1, &e, &error)) {
        uint64_t sent = 0, received = 0;
        for (uint32_t r = 0; r < e.ranks; r++) {
            sent += e.sent_bytes[r];
            received += e.received_bytes[r];
        }
        if (sent != received) abort();
        edges_free(&e);
    } else if (!error) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    g_autofree char *text = g_strndup((const char *)data, size);
    if (strchr(text, '|')) make(text);
    else if (!edges_spec_drawn(text)) make(fuzz_path(0, data, size));
    return 0;
}
