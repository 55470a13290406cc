/* support_bootstrap.c - exchanges that every bootstrap must get right. */
#include "tests/support_bootstrap.h"

bool exchanges_run(struct bootstrap *b, size_t longest, GError **error)
{
    const size_t sizes[] = { 8, 1, 0, 4096, longest };
    for (size_t k = 0; k < G_N_ELEMENTS(sizes); k++) {
        const size_t n = sizes[k];
        g_autofree uint8_t *in = g_malloc0(n + 1), *out = g_malloc0(n * b->rank_count + 1);
        for (size_t i = 0; i < n; i++) in[i] = (uint8_t)(b->rank * 31 + k * 7 + i);
        if (!bootstrap_allgather(b, in, n, out, error)) return false;
        for (size_t i = 0; i < n * b->rank_count; i++)
            if (out[i] != (uint8_t)(i / n * 31 + k * 7 + i % n)) return false;
        if (!bootstrap_barrier(b, error)) return false;
    }
    return true;
}
