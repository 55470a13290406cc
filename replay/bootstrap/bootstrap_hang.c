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

/* Sets reached[] for the ranks that `rank` waits for, the ranks that those wait for, and so on.  A silent rank may wait
 * for any rank that is stopped. */
static void hang_follow(const struct bootstrap_wait *wait, const enum hang_answer *answer, uint32_t rank_count,
                        uint32_t rank, bool *reached)
{
    g_autofree uint32_t *todo = g_new(uint32_t, rank_count);
    uint32_t todo_count = 0;
    reached[rank] = true;
    todo[todo_count++] = rank;
    while (todo_count) {
        const struct bootstrap_wait *const w = &wait[todo[--todo_count]];
        const bool said = answer[w - wait] == HANG_ANSWERED;
        if (!said || w->anybody)
            for (uint32_t r = 0; r < rank_count; r++) reached[r] |= said || answer[r] == HANG_STOPPED;
        for (uint32_t i = 0; said && i < MIN(w->peer_count, BOOTSTRAP_WAIT_PEERS); i++) {
            const uint32_t peer = w->peer[i];
            if (peer >= rank_count || reached[peer]) continue;
            reached[peer] = true;
            todo[todo_count++] = peer;
        }
    }
}

/* The rank with the smallest result is named as the cause of the hang.  Stopped ranks have the smallest results, then
 * come silent ranks, then ranks that wait for nobody, then all others.  In the last two groups, the rank in the
 * earliest run comes first. */
static uint64_t hang_distance(const struct bootstrap_wait *wait, enum hang_answer answer)
{
    if (answer != HANG_ANSWERED) return answer;
    return (wait->peer_count || wait->anybody ? G_MAXUINT64 / 2 : HANG_ANSWERED) + wait->serial;
}

/* Names the ranks of reached[] that answered as `root` did.  Clears the other ranks of reached[]. */
static char *hang_ranks(const enum hang_answer *answer, uint32_t rank_count, uint32_t root, bool *reached)
{
    for (uint32_t r = 0; r < rank_count; r++) reached[r] &= answer[r] == answer[root];
    return bootstrap_ranks_text(reached, rank_count);
}

char *bootstrap_hang_text(const struct bootstrap_wait *wait, const enum hang_answer *answer, uint32_t rank_count,
                          uint32_t first)
{
    g_autofree bool *reached = g_new0(bool, rank_count);
    uint32_t root = first;
    g_assert(first < rank_count && answer[first] == HANG_ANSWERED);
    hang_follow(wait, answer, rank_count, first, reached);
    for (uint32_t r = 0; r < rank_count; r++)
        if (reached[r] && hang_distance(&wait[r], answer[r]) < hang_distance(&wait[root], answer[root])) root = r;
    g_autofree char *own = text_printable(wait[first].text, sizeof wait[first].text);
    g_autofree char *other = text_printable(wait[root].text, sizeof wait[root].text);
    if (root == first) return g_strdup_printf("rank %u holds up the run: %s", first, own);
    if (answer[root] == HANG_ANSWERED)
        return g_strdup_printf("rank %u holds up the run: %s; rank %u: %s", root, other, first, own);
    g_autofree char *ranks = hang_ranks(answer, rank_count, root, reached);
    const bool many = g_str_has_prefix(ranks, "ranks ");
    const char *const why = answer[root] == HANG_STOPPED ? "stopped by a signal"
                            : many                       ? "they do not answer (stopped or busy)"
                                                         : "it does not answer (stopped or busy)";
    return g_strdup_printf("%s hold%s up the run: %s; rank %u: %s", ranks, many ? "" : "s", why, first, own);
}
