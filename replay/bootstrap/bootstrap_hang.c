/* bootstrap_hang.c - finds the rank that holds up a run, from what all ranks say that they wait for.
 *
 * This file does not depend on how ranks are connected: bootstrap_fork.c and bootstrap_tcp.c gather the answers. */
#include "replay/bootstrap/bootstrap_internal.h"

struct bootstrap_wait bootstrap_wait_of(const struct bootstrap *b)
{
    struct bootstrap_wait wait = { .text = "waits for the others in an exchange" };
    if (b->tell) b->tell(b->tell_context, &wait);
    return wait;
}

/* Sets reached[] for the ranks that `rank` waits for, the ranks that those wait for, and so on. */
static void hang_follow(const struct bootstrap_wait *wait, const bool *answered, uint32_t rank_count, uint32_t rank,
                        bool *reached)
{
    g_autofree uint32_t *todo = g_new(uint32_t, rank_count);
    uint32_t todo_count = 0;
    reached[rank] = true;
    todo[todo_count++] = rank;
    while (todo_count) {
        const struct bootstrap_wait *const w = &wait[todo[--todo_count]];
        if (!answered[w - wait]) continue;
        if (w->anybody) {
            for (uint32_t r = 0; r < rank_count; r++) reached[r] = true;
            return;
        }
        for (uint32_t i = 0; i < MIN(w->peer_count, BOOTSTRAP_WAIT_PEERS); i++) {
            const uint32_t peer = w->peer[i];
            if (peer >= rank_count || reached[peer]) continue;
            reached[peer] = true;
            todo[todo_count++] = peer;
        }
    }
}

/* The rank with the smallest result is named as the cause of the hang.  Ranks that did not answer have the smallest
 * results, then come ranks that wait for nobody, then all others.  In the last two groups, the rank in the earliest
 * run comes first. */
static uint64_t hang_distance(const struct bootstrap_wait *wait, bool answered)
{
    if (!answered) return 0;
    return (wait->peer_count || wait->anybody ? G_MAXUINT64 / 2 : 1) + wait->serial;
}

char *bootstrap_hang_text(const struct bootstrap_wait *wait, const bool *answered, uint32_t rank_count, uint32_t first)
{
    g_autofree bool *reached = g_new0(bool, rank_count);
    uint32_t root = first;
    g_assert(first < rank_count && answered[first]);
    hang_follow(wait, answered, rank_count, first, reached);
    for (uint32_t r = 0; r < rank_count; r++)
        if (reached[r] && hang_distance(&wait[r], answered[r]) < hang_distance(&wait[root], answered[root])) root = r;
    g_autofree char *own = text_printable(wait[first].text, sizeof wait[first].text);
    g_autofree char *other = text_printable(wait[root].text, sizeof wait[root].text);
    if (root == first) return g_strdup_printf("rank %u holds up the run: %s", first, own);
    if (!answered[root])
        return g_strdup_printf("rank %u holds up the run: it does not answer (stopped or busy); rank %u: %s", root,
                               first, own);
    return g_strdup_printf("rank %u holds up the run: %s; rank %u: %s", root, other, first, own);
}
