/* fuzz_compute_table.c - libFuzzer target of tables of compute times.  Every table that is accepted must give positive
 * times. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "models/step/compute_table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    g_autoptr(GError) error = NULL;
    struct compute_table *table = compute_table_parse("fuzz", (const char *)data, size_bytes, &error);
    if (!table != (error != NULL)) abort();
    for (double x = 0.5; table && x < 1e7; x *= 7) {
        bool beyond;
        const struct compute_point at = { "a", "h", "fp8", "x", x, 3e3 / x };
        const double us = compute_table_us(table, &at, &beyond);
        if (!isnan(us) && !(us > 0)) abort();
    }
    compute_table_free(table);
    return 0;
}
