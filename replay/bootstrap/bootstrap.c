/* bootstrap.c - functions that every kind of bootstrap needs.  They do not depend on how the processes are
 * connected. */
#include "replay/bootstrap/bootstrap_internal.h"

#include <time.h>

uint64_t bootstrap_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

int bootstrap_remaining_ms(uint64_t deadline_ms)
{
    const uint64_t now_ms = bootstrap_now_ms();
    return deadline_ms <= now_ms ? 0 : (int)MIN(deadline_ms - now_ms, G_MAXINT);
}

int bootstrap_serve_ms(const struct bootstrap *b, uint64_t deadline_ms)
{
    enum { SERVE_EVERY_MS = 1 };
    const bool moved = b->serve && b->serve(b->serve_context);
    const int remaining_ms = bootstrap_remaining_ms(deadline_ms);
    if (!b->serve) return remaining_ms;
    return moved ? 0 : MIN(remaining_ms, SERVE_EVERY_MS);
}

bool bootstrap_watch(struct bootstrap *b, GError **error)
{
    enum { WATCH_MS = 300, LOOK_US = 2000 };
    const uint64_t end_ms = bootstrap_now_ms() + WATCH_MS;
    do {
        if (!bootstrap_check(b, error)) return false;
        g_usleep(LOOK_US);
    } while (bootstrap_now_ms() < end_ms);
    return true;
}

char *bootstrap_ranks_text(const bool *listed, uint32_t rank_count)
{
    enum { NAMED_MAX = 8 };
    GString *const text = g_string_new(NULL);
    uint32_t total = 0, named = 0;
    for (uint32_t r = 0; r < rank_count; r++) total += listed[r];
    const uint32_t shown = total > NAMED_MAX + 1 ? NAMED_MAX : total;
    g_string_append(text, total == 1 ? "rank " : "ranks ");
    for (uint32_t r = 0; r < rank_count && named < shown; r++) {
        if (!listed[r]) continue;
        g_string_append_printf(text, "%s%u", !named ? "" : named + 1 == total ? " and " : ", ", r);
        named++;
    }
    if (shown < total) g_string_append_printf(text, " and %u more", total - shown);
    return g_string_free(text, FALSE);
}
