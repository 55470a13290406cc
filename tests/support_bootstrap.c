/* support_bootstrap.c - exchanges that every bootstrap must get right. */
#include "tests/support_bootstrap.h"
#include "tests/support_catch.h"

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

char *fork_text(uint32_t ranks, uint32_t timeout_ms, int (*run)(struct bootstrap *b, void *context), void *context,
                int status)
{
    catch_start();
    const int ended = bootstrap_fork_run(ranks, timeout_ms, run, context);
    char *text = catch_end();
    CU_ASSERT(status == FORK_FAILS ? ended != 0 : ended == status);
    return text;
}

void fork_says(uint32_t ranks, uint32_t timeout_ms, int (*run)(struct bootstrap *b, void *context), void *context,
               int status, const char *said)
{
    g_autofree char *text = fork_text(ranks, timeout_ms, run, context, status);
    ASSERT_CONTAINS(text, said);
}
