/* fuzz_loops.c - libFuzzer target of sheets of loops.  A sheet that is accepted must give a loop for any sizes, and
 * every other sheet must give an error. */
#include <stdint.h>
#include <stdlib.h>
#include "models/kernels/loops.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    static const uint64_t sizes[][SITE_SIZES] = { { 0 }, { 1, 2, 3, 4 }, { UINT64_MAX, UINT64_MAX, 1, 0 } };
    GError *error = NULL;
    struct loops *loops = loops_parse("sheet", (const char *)data, size_bytes, &error);
    if (!loops != (error != NULL)) abort(); /* either loops or an error */
    g_clear_error(&error);
    for (enum site site = SITE_NONE; loops && site < SITES; site++)
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            struct loop loop;
            loops_make(loops, site, sizes[i], &loop);
            if (loop.number != site || loop.engine > LOOP_ARITHMETIC || loop.again > LOOP_AT_HAND) abort();
            (void)loops_times(loops, site, sizes[i], UINT32_MAX);
            const struct loop_row row = { sizes[i][0], sizes[i][1], (uint32_t)sizes[i][2], (uint32_t)sizes[i][3] };
            struct loop_op op[LOOP_OPS];
            if (loops_program(loops, site, sizes[i], &row, op) > LOOP_OPS) abort();
        }
    loops_free(loops);
    return 0;
}
