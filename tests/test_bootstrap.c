/* test_bootstrap.c - real processes that find each other, exchange, fail and are ended.
 *
 * Method: each case forks its ranks.  It compares exit statuses and the text on standard error, which is caught in a
 * file (support_catch.h).  Nothing is asserted about how long anything takes.  alarm() ends a bootstrap that hangs. */
#include "replay/bootstrap/bootstrap.h"
#include "replay/bootstrap/bootstrap_internal.h"
#include "tests/support_bootstrap.h"
#include "tests/support_catch.h"
#include "tests/unit.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TIMEOUT_MS = 20000, SHORT_MS = 300 };

/* --- children that are ranks --- */

static int report(GError *error)
{
    fprintf(stderr, "[%s]\n", error->message);
    const int status = g_error_matches(error, BOOTSTRAP_ERROR, BOOTSTRAP_PEER_FAILED) ? 4 : 3;
    g_error_free(error);
    return status;
}

static int meet(struct bootstrap *b, void *context)
{
    GError *error = NULL;
    (void)context;
    return bootstrap_barrier(b, &error) ? 0 : report(error);
}

static int rank_exchanges(struct bootstrap *b, void *context)
{
    GError *error = NULL;
    (void)context;
    if (exchanges_run(b, 300001, &error)) return 0;
    return error ? report(error) : 9;
}

TEST("exchanges")
{
    for (uint32_t n = 1; n <= 9; n += 4) CU_ASSERT_EQUAL(bootstrap_fork_run(n, TIMEOUT_MS, rank_exchanges, NULL), 0);
}

static int rank_two_is_killed(struct bootstrap *b, void *context)
{
    if (b->rank == 2) kill(getpid(), SIGKILL);
    return meet(b, context);
}

TEST("a rank is killed")
{
    g_autofree char *text = fork_text(4, TIMEOUT_MS, rank_two_is_killed, NULL, 1);
    ASSERT_CONTAINS(text, "eptwin: rank 2 was killed by signal 9 (Killed)\n");
    ASSERT_CONTAINS(text, "[rank 2 was killed by signal 9 (Killed)]");
}

/* Rank 1 exits.  The other ranks do not call the bootstrap again, so the parent must end them. */
static int rank_one_exits(struct bootstrap *b, void *context)
{
    (void)context;
    if (b->rank == 1) return 7;
    for (;;) pause();
}

TEST("a rank's exit ends the others")
{
    g_autofree char *text = fork_text(3, TIMEOUT_MS, rank_one_exits, NULL, 7);
    CU_ASSERT_STRING_EQUAL(text, "eptwin: rank 1 exited with status 7\n");
}

static int rank_stubborn(struct bootstrap *b, void *context)
{
    signal(SIGTERM, SIG_IGN);
    return rank_one_exits(b, context);
}

TEST("ranks that ignore SIGTERM") { g_free(fork_text(3, TIMEOUT_MS, rank_stubborn, NULL, 7)); }

/* Rank 2 has the parent ended, after all ranks have joined. */
static int rank_ends_parent(struct bootstrap *b, void *context)
{
    GError *error = NULL;
    (void)context;
    if (!bootstrap_barrier(b, &error)) return report(error);
    if (b->rank == 2) kill(getppid(), SIGTERM);
    return bootstrap_barrier(b, &error) && bootstrap_barrier(b, &error) && (pause(), true) ? 0 : report(error);
}

TEST("the parent is ended")
{
    struct sigaction after;
    g_autofree char *text = fork_text(3, TIMEOUT_MS, rank_ends_parent, NULL, 1);
    ASSERT_CONTAINS(text, "eptwin: ended by signal 15 (Terminated)\n");
    CU_ASSERT_EQUAL(sigaction(SIGTERM, NULL, &after), 0);
    CU_ASSERT(after.sa_handler == SIG_DFL);
    CU_ASSERT_EQUAL(waitpid(-1, NULL, WNOHANG), -1);
}

static int ranks_one_and_three_stay_away(struct bootstrap *b, void *context)
{
    if (b->rank % 2)
        for (;;) pause();
    return meet(b, context);
}

TEST("ranks that do not come are named")
{
    fork_says(4, SHORT_MS, ranks_one_and_three_stay_away, NULL, 1,
              "eptwin: ranks 1 and 3 did not come to exchange 0 within 300 ms\n");
}

/* Ranks that know of a failure tell each other in another exchange, as they do when a link cannot be made.  The parent
 * still has their parts of the failed exchange.  It must not take their second parts for an error. */
static int rank_one_stays_away_others_come_again(struct bootstrap *b, void *context)
{
    GError *error = NULL;
    (void)context;
    if (b->rank == 1)
        for (;;) pause();
    for (int i = 0; i < 3; i++) {
        g_clear_error(&error);
        if (bootstrap_barrier(b, &error)) return 9;
    }
    return report(error);
}

TEST("ranks come again after a failure")
{
    fork_says(4, SHORT_MS, rank_one_stays_away_others_come_again, NULL, 1,
              "eptwin: rank 1 did not come to exchange 0 within 300 ms\n");
}

static int rank_two_leaves_early(struct bootstrap *b, void *context)
{
    if (b->rank == 2) return 0;
    return meet(b, context);
}

TEST("a rank leaves early")
{
    fork_says(3, TIMEOUT_MS, rank_two_leaves_early, NULL, FORK_FAILS,
              "eptwin: rank 2 ended before exchange 0, for which others wait\n");
}

static int rank_two_brings_more(struct bootstrap *b, void *context)
{
    uint64_t in[2] = { 0 }, out[8];
    GError *error = NULL;
    (void)context;
    return bootstrap_allgather(b, in, b->rank == 2 ? 16 : 8, out, &error) ? 0 : report(error);
}

TEST("sizes differ")
{
    fork_says(4, TIMEOUT_MS, rank_two_brings_more, NULL, 1,
              "eptwin: exchange 0: rank 2 brought 16 bytes, rank 0 8: the ranks do not do the same");
}

static int rank_one_gives_up(struct bootstrap *b, void *context)
{
    if (b->rank == 1) {
        bootstrap_abort(b, "trace.npy: not here");
        return 2;
    }
    return meet(b, context);
}

TEST("a rank gives up")
{
    g_autofree char *text = fork_text(3, TIMEOUT_MS, rank_one_gives_up, NULL, 2);
    ASSERT_CONTAINS(text, "eptwin: rank 1 gave up: trace.npy: not here\n");
    CU_ASSERT_PTR_NULL(strstr(text, "exited with status"));
}

/* Rank 0 waits for rank 1, and rank 1 comes only after rank 0 has served its links.  Without serving, both would
 * hang. */
static bool serve_by_pipe(void *context) { return write(((int *)context)[1], "x", 1) != 1; }

static int rank_serves(struct bootstrap *b, void *context)
{
    int *const pipe_ends = context;
    char byte;
    b->serve = b->rank == 0 ? serve_by_pipe : NULL;
    b->serve_context = pipe_ends;
    if (b->rank == 1 && read(pipe_ends[0], &byte, 1) != 1) return 1;
    return meet(b, context);
}

TEST("who waits serves")
{
    int pipe_ends[2];
    CU_ASSERT_EQUAL_FATAL(pipe(pipe_ends), 0);
    CU_ASSERT_EQUAL(bootstrap_fork_run(2, TIMEOUT_MS, rank_serves, pipe_ends), 0);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
}

/* --- hangs --- */

enum { HANG_RANKS = 6 };

/* 21 ways to hang.  Each entry has the rank that asks, the ranks for which each rank waits, how many exchanges each
 * rank has reached, and the root.  '.': waits for no rank.  '*': waits for any rank.  '?': does not answer.
 * '!': is stopped. */
static const struct hang {
    uint32_t first;
    const char *waits[HANG_RANKS];
    uint64_t serial[HANG_RANKS];
    uint32_t root;
} hangs[] = {
    { 0, { "1", "2", "3", "?", ".", "." }, { 0 }, 3 }, /* a chain, whose last rank does not answer */
    { 2, { "1", "2", "3", "?", ".", "." }, { 0 }, 3 },
    { 0, { "1", "2", "3", ".", "?", "?" }, { 0 }, 3 },     /* a rank that no other waits for is not the root */
    { 0, { "12345", "0", "0", "0", "?", "0" }, { 0 }, 4 }, /* rank 0 waits for all, and they wait for rank 0; only rank
                                                            * 4 does not answer */
    { 5, { "1", "0", ".", ".", ".", "0" }, { 3, 2, 9, 9, 9, 3 }, 1 }, /* a circle: the root is the rank that is furthest
                                                                       * behind */
    { 5, { "1", "0", ".", ".", ".", "0" }, { 2, 3, 9, 9, 9, 3 }, 0 },
    { 0, { "12", "2", "3", "4", "5", "." }, { 0 }, 5 },
    { 0, { "12", "2", "3", "4", "5", "0" }, { 7, 7, 7, 7, 6, 7 }, 4 },
    { 3, { "?", "0", "1", "2", ".", "." }, { 0 }, 0 },
    { 4, { ".", ".", ".", ".", ".", "." }, { 0 }, 4 }, /* a rank that waits for no rank is itself the root */
    { 1, { "5", "0", ".", ".", ".", "2" }, { 4, 4, 4, 4, 4, 4 }, 2 },
    { 1, { "25", "0", ".", ".", ".", "?" }, { 4, 4, 4, 4, 4, 4 }, 5 }, /* the root is the rank that does not answer, and
                                                                        * not an idle one */
    { 1, { "23", "0", ".", ".", ".", "." }, { 0, 0, 8, 7, 0, 0 }, 3 }, /* of two idle ranks, the root is the one that is
                                                                        * further behind */
    { 1, { "?", ".", "?", "?", "?", "?" }, { 0 }, 1 },
    { 0, { "*", "*", "*", "?", "*", "*" }, { 0 }, 3 },  /* no rank names a peer, so the root is the rank that does not
                                                         * answer */
    { 0, { "1", "2*", ".", "?", "*", "*" }, { 0 }, 3 }, /* a chain that ends at a rank that waits for any rank */
    { 4, { "*", "*", ".", "*", "*", "*" }, { 5, 5, 9, 5, 5, 5 }, 2 }, /* the root is the idle rank, and not one that
                                                                       * waits */
    { 4, { "*", "*", "*", "*", "*", "*" }, { 7, 6, 7, 7, 7, 7 }, 1 }, /* if all wait for any rank, the root is the rank
                                                                       * that is behind */
    { 0, { "2", ".", "?", "!", ".", "." }, { 0 }, 3 },                /* a silent rank may wait for the stopped one */
    { 0, { "2", ".", "0", "!", ".", "." }, { 0, 0, 1 }, 0 },          /* nobody waits for the stopped rank */
    { 0, { "23", ".", "?", "!", ".", "." }, { 0 }, 3 },
};

static void hang_make(const struct hang *h, uint32_t rank, struct bootstrap_wait *wait)
{
    *wait = (struct bootstrap_wait){ .serial = h->serial[rank], .anybody = strchr(h->waits[rank], '*') != NULL };
    for (const char *w = h->waits[rank]; g_ascii_isdigit(*w); w++)
        wait->peer[wait->peer_count++] = (uint16_t)(*w - '0');
    g_snprintf(wait->text, sizeof wait->text, "words of %u", rank);
}

TEST("who holds up a run")
{
    for (size_t k = 0; k < G_N_ELEMENTS(hangs); k++) {
        struct bootstrap_wait wait[HANG_RANKS];
        enum hang_answer answer[HANG_RANKS];
        char expected[64];
        for (uint32_t r = 0; r < HANG_RANKS; r++) {
            hang_make(&hangs[k], r, &wait[r]);
            answer[r] = hangs[k].waits[r][0] == '!'   ? HANG_STOPPED
                        : hangs[k].waits[r][0] == '?' ? HANG_SILENT
                                                      : HANG_ANSWERED;
        }
        g_autofree char *text = bootstrap_hang_text(wait, answer, HANG_RANKS, hangs[k].first);
        g_snprintf(expected, sizeof expected, "rank %u holds up the run: ", hangs[k].root);
        ASSERT_CONTAINS(text, expected);
        g_snprintf(expected, sizeof expected, "words of %u", hangs[k].first);
        ASSERT_CONTAINS(text, expected);
    }
}

TEST("all that do not answer may hold it up")
{
    const struct bootstrap_wait wait[5] = { { .peer_count = 4, .peer = { 1, 2, 3, 4 }, .text = "words" } };
    enum hang_answer answer[5] = { HANG_ANSWERED, HANG_SILENT, HANG_ANSWERED, HANG_SILENT, HANG_SILENT };
    g_autofree char *silent = bootstrap_hang_text(wait, answer, 5, 0);
    CU_ASSERT_STRING_EQUAL(silent,
                           "ranks 1, 3 and 4 hold up the run: they do not answer (stopped or busy); rank 0: words");
    answer[3] = answer[4] = HANG_STOPPED;
    g_autofree char *stopped = bootstrap_hang_text(wait, answer, 5, 0);
    CU_ASSERT_STRING_EQUAL(stopped, "ranks 3 and 4 hold up the run: stopped by a signal; rank 0: words");
}

/* A peer may report anything: ranks that do not exist, or more entries than fit. */
TEST("lies about it")
{
    struct bootstrap_wait wait[2] = { { .peer_count = UINT32_MAX, .peer = { 9999, 1 } }, { .peer_count = 1 } };
    const enum hang_answer answer[2] = { HANG_ANSWERED, HANG_ANSWERED };
    memset(wait[1].text, 'x', sizeof wait[1].text); /* a text without a NUL */
    g_autofree char *text = bootstrap_hang_text(wait, answer, 2, 0);
    ASSERT_CONTAINS(text, "rank 0 holds up the run: ");
}

/* Real processes: the first one hangs.  The others answer when they check, while they wait in an exchange, or not at
 * all. */
static void hang_tell(void *context, struct bootstrap_wait *wait) { *wait = *(const struct bootstrap_wait *)context; }

static int rank_hangs(struct bootstrap *b, void *context)
{
    const struct hang *const h = context;
    struct bootstrap_wait wait;
    GError *error = NULL;
    hang_make(h, b->rank, &wait);
    b->tell = hang_tell;
    b->tell_context = &wait;
    if (h->waits[b->rank][0] == '!') raise(SIGSTOP);
    while (h->waits[b->rank][0] == '?') pause();
    if (b->rank == h->first) bootstrap_hang(b, &wait, &error);
    else if (b->rank % 2)
        while (bootstrap_check(b, &error)) g_usleep(1000);
    else bootstrap_barrier(b, &error);
    return report(error);
}

TEST("all are asked")
{
    for (size_t k = 0; k < G_N_ELEMENTS(hangs); k += 3) {
        struct hang h = hangs[k];
        g_autofree char *expected = g_strdup_printf("eptwin: rank %u holds up the run: ", h.root);
        fork_says(HANG_RANKS, TIMEOUT_MS, rank_hangs, &h, FORK_FAILS, expected);
    }
}

/* A parent that is killed takes its ranks with it.  Each rank holds the write end of a pipe.  The pipe's reader sees
 * the end of the file once all ranks are gone. */
static int rank_says_hello_and_stays(struct bootstrap *b, void *context)
{
    const int *const pipe_ends = context;
    (void)b;
    if (write(pipe_ends[1], "x", 1) != 1) return 1;
    for (;;) pause();
}

TEST("no orphans")
{
    int pipe_ends[2];
    char byte;
    CU_ASSERT_EQUAL_FATAL(pipe(pipe_ends), 0);
    const pid_t parent = fork();
    if (parent == 0) _exit(bootstrap_fork_run(3, TIMEOUT_MS, rank_says_hello_and_stays, pipe_ends));
    close(pipe_ends[1]);
    for (int i = 0; i < 3; i++) CU_ASSERT_EQUAL(read(pipe_ends[0], &byte, 1), 1);
    kill(parent, SIGKILL);
    waitpid(parent, NULL, 0);
    CU_ASSERT_EQUAL(read(pipe_ends[0], &byte, 1), 0);
    close(pipe_ends[0]);
}

bool unit_begin(char **argv)
{
    (void)argv;
    alarm(300);
    return true;
}
