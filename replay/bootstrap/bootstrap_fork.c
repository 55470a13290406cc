/* bootstrap_fork.c - ranks that are children of one parent, connected to it by socket pairs.
 *
 *     rank 0 ──┐
 *     rank 1 ──┼── parent: gathers the shares of an exchange, sends all shares to every rank,
 *     rank 2 ──┘           watches the clock and the children, ends all children when one fails
 *
 * The parent sleeps while no exchange is under way.  It does not know the meaning of the bytes that it passes on. */
#include "replay/bootstrap/bootstrap_internal.h"
#include "sim/command.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* After a failure, the other ranks have GRACE_LEAVE_MS to end by themselves.  Ranks that still run get SIGTERM.  Ranks
 * that still run GRACE_TERMINATE_MS later get SIGKILL. */
enum { GRACE_LEAVE_MS = 700, GRACE_TERMINATE_MS = 500 };
/* After a child's socket has closed, the child may take ENDING_MS to end.  The parent checks every REAP_TICK_MS. */
enum { REAP_TICK_MS = 2, ENDING_MS = 300 };
/* A child waits this much longer than the timeout, so that the parent is first to time out and names the missing
 * rank. */
enum { PARENT_MARGIN_MS = 3000 };

/* Signals on which the parent ends its ranks and then itself. */
static const int ending_signals[] = { SIGHUP, SIGINT, SIGTERM };
static volatile sig_atomic_t ended_by; /* the signal that came; 0: none */

static void ending_note(int number)
{
    if (!ended_by) ended_by = number;
}

enum fork_kind { FORK_SHARE = 1, FORK_GIVE_UP, FORK_RESULT, FORK_FAILED, FORK_HANG, FORK_ASK, FORK_STATE };

struct fork_header {
    uint32_t kind, reserved;
    uint64_t size_bytes;
};
_Static_assert(sizeof(struct fork_header) == 16, "crosses the socket as it is");

/* --- the child's side --- */

struct fork_child {
    struct bootstrap base;
    int socket;
};

static bool child_fail(const struct fork_child *c, GError **error, const char *what)
{
    return error_run(error, "rank %u: %s", c->base.rank, what);
}

static bool child_send(struct fork_child *c, uint32_t kind, const void *data, size_t size_bytes)
{
    const struct fork_header header = { .kind = kind, .size_bytes = size_bytes };
    const struct {
        const void *data;
        size_t size_bytes;
    } parts[] = { { &header, sizeof header }, { data, size_bytes } };
    for (int i = 0; i < 2; i++)
        for (size_t sent = 0; sent < parts[i].size_bytes;) {
            const ssize_t n =
                send(c->socket, (const char *)parts[i].data + sent, parts[i].size_bytes - sent, MSG_NOSIGNAL);
            if (n < 0 && errno == EINTR) continue;
            if (n < 0) return false;
            sent += (size_t)n;
        }
    return true;
}

static bool child_receive(struct fork_child *c, void *data, size_t size_bytes, uint64_t deadline_ms, GError **error)
{
    for (size_t received = 0; received < size_bytes;) {
        struct pollfd poller = { .fd = c->socket, .events = POLLIN };
        const int ready = poll(&poller, 1, bootstrap_serve_ms(&c->base, deadline_ms));
        if (ready == 0 && bootstrap_now_ms() >= deadline_ms)
            return child_fail(c, error, "the parent process does not answer");
        if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
        const ssize_t n = recv(c->socket, (char *)data + received, size_bytes - received, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return child_fail(c, error, "the parent process is gone");
        received += (size_t)n;
    }
    return true;
}

static bool child_receive_failure(struct fork_child *c, uint64_t size_bytes, uint64_t deadline_ms, GError **error)
{
    char reason[BOOTSTRAP_REASON_BYTES_MAX + 1];
    g_assert(size_bytes < sizeof reason);
    if (!child_receive(c, reason, size_bytes, deadline_ms, error)) return false;
    reason[size_bytes] = 0;
    g_set_error_literal(error, BOOTSTRAP_ERROR, BOOTSTRAP_PEER_FAILED, reason);
    return false;
}

/* Receives the next header that is not a question, and answers the questions before it. */
static bool child_receive_header(struct fork_child *c, struct fork_header *header, uint64_t deadline_ms, GError **error)
{
    while (child_receive(c, header, sizeof *header, deadline_ms, error)) {
        if (header->kind != FORK_ASK) return true;
        const struct bootstrap_wait wait = bootstrap_wait_of(&c->base);
        child_send(c, FORK_STATE, &wait, sizeof wait);
    }
    return false;
}

static bool child_allgather(struct bootstrap *b, const void *in, size_t size_bytes, void *out, GError **error)
{
    struct fork_child *const c = (struct fork_child *)b;
    const uint64_t deadline_ms = bootstrap_now_ms() + b->timeout_ms + PARENT_MARGIN_MS;
    struct fork_header header;
    g_assert(bootstrap_size_allowed(size_bytes, b->rank_count));
    /* The result of the send is not checked: if the parent has given up, its reason can still be received. */
    child_send(c, FORK_SHARE, in, size_bytes);
    if (!child_receive_header(c, &header, deadline_ms, error)) return false;
    if (header.kind == FORK_FAILED) return child_receive_failure(c, header.size_bytes, deadline_ms, error);
    g_assert(header.kind == FORK_RESULT && header.size_bytes == size_bytes * b->rank_count);
    return child_receive(c, out, header.size_bytes, deadline_ms, error);
}

static bool child_check(struct bootstrap *b, GError **error)
{
    struct fork_child *const c = (struct fork_child *)b;
    const uint64_t deadline_ms = bootstrap_now_ms() + PARENT_MARGIN_MS;
    struct fork_header header;
    const ssize_t n = recv(c->socket, &header, sizeof header, MSG_PEEK | MSG_DONTWAIT);
    if (n == 0) return child_fail(c, error, "the parent process is gone");
    if (n < (ssize_t)sizeof header) return true;
    g_assert(header.kind == FORK_FAILED || header.kind == FORK_ASK); /* no exchange is under way */
    if (!child_receive(c, &header, sizeof header, deadline_ms, error)) return false;
    if (header.kind == FORK_FAILED) return child_receive_failure(c, header.size_bytes, deadline_ms, error);
    const struct bootstrap_wait wait = bootstrap_wait_of(b);
    child_send(c, FORK_STATE, &wait, sizeof wait);
    return true;
}

/* Tells the parent that this rank hangs.  The parent asks the other ranks, ends the run, and names the rank that is
 * at fault according to their answers. */
static bool child_hang(struct bootstrap *b, const struct bootstrap_wait *wait, GError **error)
{
    struct fork_child *const c = (struct fork_child *)b;
    const uint64_t deadline_ms = bootstrap_now_ms() + BOOTSTRAP_ASK_MS + PARENT_MARGIN_MS;
    struct fork_header header;
    child_send(c, FORK_HANG, wait, sizeof *wait);
    if (!child_receive_header(c, &header, deadline_ms, error)) return false;
    g_assert(header.kind == FORK_FAILED);
    return child_receive_failure(c, header.size_bytes, deadline_ms, error);
}

static void child_abort(struct bootstrap *b, const char *reason)
{
    child_send((struct fork_child *)b, FORK_GIVE_UP, reason, strnlen(reason, BOOTSTRAP_REASON_BYTES_MAX / 2));
}

static void child_free(struct bootstrap *b) { (void)b; }

static const struct bootstrap_ops child_ops = { "fork",      child_allgather, child_abort,
                                                child_check, child_free,      child_hang };

/* --- the parent's side --- */

struct fork_rank {
    pid_t pid;
    int socket;
    bool running, judged; /* judged: the rank's exit status has been examined */
    bool came;            /* `share` holds its share of the current exchange */
    bool closed;          /* its end of the socket is closed */
    bool stopped;         /* a signal has stopped it, so it neither answers nor leaves */
    bool answered;        /* `wait` holds what the rank has said that it waits for */
    struct bootstrap_wait wait;
    GByteArray *in; /* received bytes that are not yet a whole message */
    GByteArray *share;
    GByteArray *out; /* bytes to send for which the socket has no room yet */
    int wait_status;
};

struct fork_parent {
    uint32_t rank_count, timeout_ms, running, came_count, exchange;
    uint64_t deadline_ms; /* deadline of the current exchange or, after a failure, of the current stage of ending all
                           * ranks */
    uint64_t ending_deadline_ms;
    struct fork_rank *ranks;
    bool asking; /* a rank hangs, and the parent waits until deadline_ms for all ranks to say what they wait for */
    uint32_t hung_rank;
    char *failure;        /* text of the first failure; NULL if nothing has failed */
    uint32_t failed_rank; /* the rank whose exit status becomes the run's; rank_count if there is none */
    int next_signal;      /* the signal for processes that still run at the deadline */
    int exit_status;
    sigset_t mask; /* the signal mask while the parent sleeps; at other times the ending signals are blocked */
    struct sigaction action[G_N_ELEMENTS(ending_signals)], child_action; /* handlers to restore at the end */
};

static void parent_push(struct fork_rank *r, uint32_t kind, const void *data, size_t size_bytes)
{
    const struct fork_header header = { .kind = kind, .size_bytes = size_bytes };
    g_byte_array_append(r->out, (const guint8 *)&header, sizeof header);
    if (size_bytes) g_byte_array_append(r->out, data, (guint)size_bytes);
}

/* Takes ownership of the text `failure`, and keeps it if it is the first.  Later failures follow from the first, so
 * they are not reported. */
static void parent_fail(struct fork_parent *p, uint32_t failed_rank, char *failure)
{
    if (p->failure) {
        g_free(failure);
        return;
    }
    p->failure = failure;
    p->failed_rank = failed_rank;
    p->exit_status = EXIT_RUN_FAILED;
    p->next_signal = SIGTERM;
    p->deadline_ms = bootstrap_now_ms() + GRACE_LEAVE_MS;
    fprintf(stderr, "eptwin: %s\n", failure);
    for (uint32_t i = 0; i < p->rank_count; i++)
        parent_push(&p->ranks[i], FORK_FAILED, failure, MIN(strlen(failure), BOOTSTRAP_REASON_BYTES_MAX));
}

static void parent_check_sizes(struct fork_parent *p)
{
    for (uint32_t i = 1; i < p->rank_count; i++)
        if (p->ranks[i].share->len != p->ranks[0].share->len) {
            parent_fail(
                p, p->rank_count,
                g_strdup_printf("exchange %u: rank %u brought %u bytes, rank 0 %u: the ranks do not do the same",
                                p->exchange, i, p->ranks[i].share->len, p->ranks[0].share->len));
            return;
        }
}

static void parent_finish_exchange(struct fork_parent *p)
{
    parent_check_sizes(p);
    if (p->failure) return;
    const size_t size_bytes = p->ranks[0].share->len;
    const struct fork_header header = { .kind = FORK_RESULT, .size_bytes = size_bytes * p->rank_count };
    for (uint32_t i = 0; i < p->rank_count; i++) {
        g_byte_array_append(p->ranks[i].out, (const guint8 *)&header, sizeof header);
        for (uint32_t j = 0; j < p->rank_count && size_bytes; j++)
            g_byte_array_append(p->ranks[i].out, p->ranks[j].share->data, (guint)size_bytes);
    }
    for (uint32_t i = 0; i < p->rank_count; i++) {
        p->ranks[i].came = false;
        g_byte_array_set_size(p->ranks[i].share, 0);
    }
    p->came_count = 0;
    p->exchange++;
}

static void parent_take_share(struct fork_parent *p, struct fork_rank *r, const guint8 *data, size_t size_bytes)
{
    if (p->failure) return; /* a rank that does not know of the failure may still send its share */
    g_assert(!r->came && p->came_count < p->rank_count);
    r->came = true;
    if (size_bytes) g_byte_array_append(r->share, data, (guint)size_bytes);
    if (p->came_count++ == 0 && !p->asking) p->deadline_ms = bootstrap_now_ms() + p->timeout_ms;
    if (p->came_count == p->rank_count) parent_finish_exchange(p);
}

/* Ends the run, and names the rank that holds it up according to the answers. */
static void parent_verdict(struct fork_parent *p)
{
    g_autofree struct bootstrap_wait *wait = g_new(struct bootstrap_wait, p->rank_count);
    g_autofree enum hang_answer *answer = g_new(enum hang_answer, p->rank_count);
    for (uint32_t i = 0; i < p->rank_count; i++) {
        const struct fork_rank *const r = &p->ranks[i];
        wait[i] = r->wait;
        answer[i] = r->answered ? HANG_ANSWERED : r->stopped ? HANG_STOPPED : HANG_SILENT;
    }
    p->asking = false;
    parent_fail(p, p->rank_count, bootstrap_hang_text(wait, answer, p->rank_count, p->hung_rank));
}

static void parent_take_state(struct fork_parent *p, uint32_t rank, const guint8 *data, size_t size_bytes)
{
    g_assert(size_bytes == sizeof p->ranks[rank].wait);
    memcpy(&p->ranks[rank].wait, data, size_bytes);
    p->ranks[rank].answered = true;
}

/* Whether every rank that can answer has answered. */
static bool parent_all_answered(const struct fork_parent *p)
{
    for (uint32_t i = 0; i < p->rank_count; i++)
        if (!p->ranks[i].answered && p->ranks[i].running && !p->ranks[i].stopped) return false;
    return true;
}

/* Takes a rank's report that it hangs, and asks all ranks what they wait for, unless they have already been asked. */
static void parent_take_hang(struct fork_parent *p, uint32_t rank, const guint8 *data, size_t size_bytes)
{
    if (p->failure) return;
    if (!p->asking) {
        p->asking = true;
        p->hung_rank = rank;
        p->deadline_ms = bootstrap_now_ms() + BOOTSTRAP_ASK_MS;
        for (uint32_t i = 0; i < p->rank_count; i++)
            if (i != rank) parent_push(&p->ranks[i], FORK_ASK, NULL, 0);
    }
    parent_take_state(p, rank, data, size_bytes);
}

static void parent_take_messages(struct fork_parent *p, uint32_t rank)
{
    struct fork_rank *const r = &p->ranks[rank];
    struct fork_header header;
    while (r->in->len >= sizeof header) {
        memcpy(&header, r->in->data, sizeof header);
        if (r->in->len - sizeof header < header.size_bytes) return;
        const guint8 *const data = r->in->data + sizeof header;
        if (header.kind == FORK_GIVE_UP) {
            g_autofree char *reason = text_printable((const char *)data, header.size_bytes);
            parent_fail(p, rank, g_strdup_printf("rank %u gave up: %s", rank, reason));
        } else if (header.kind == FORK_HANG) {
            parent_take_hang(p, rank, data, header.size_bytes);
        } else if (header.kind == FORK_STATE) {
            parent_take_state(p, rank, data, header.size_bytes);
        } else parent_take_share(p, r, data, header.size_bytes);
        g_byte_array_remove_range(r->in, 0, (guint)(sizeof header + header.size_bytes));
    }
}

static void parent_read(struct fork_parent *p, uint32_t rank)
{
    struct fork_rank *const r = &p->ranks[rank];
    guint8 bytes[65536];
    while (!r->closed) {
        const ssize_t n = recv(r->socket, bytes, sizeof bytes, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) break;
        if (n <= 0) r->closed = true;
        else g_byte_array_append(r->in, bytes, (guint)n);
        parent_take_messages(p, rank);
    }
}

static void parent_write(struct fork_rank *r)
{
    guint sent = 0;
    while (sent < r->out->len) {
        const ssize_t n = send(r->socket, r->out->data + sent, r->out->len - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) break;
        if (n < 0) sent = r->out->len; /* the rank reads no more, so the remaining bytes are dropped */
        else sent += (guint)n;
    }
    if (sent) g_byte_array_remove_range(r->out, 0, sent);
}

static char *describe_end(uint32_t rank, int wait_status)
{
    if (WIFSIGNALED(wait_status))
        return g_strdup_printf("rank %u was killed by signal %d (%s)", rank, WTERMSIG(wait_status),
                               strsignal(WTERMSIG(wait_status)));
    return g_strdup_printf("rank %u exited with status %d", rank, WEXITSTATUS(wait_status));
}

static void parent_judge(struct fork_parent *p, bool signalled)
{
    for (uint32_t i = 0; i < p->rank_count; i++) {
        struct fork_rank *const r = &p->ranks[i];
        if (r->running || r->judged || r->pid < 0 || !!WIFSIGNALED(r->wait_status) != signalled) continue;
        r->judged = true;
        if (r->wait_status != 0) parent_fail(p, i, describe_end(i, r->wait_status));
        if (i == p->failed_rank && WIFEXITED(r->wait_status) && WEXITSTATUS(r->wait_status))
            p->exit_status = WEXITSTATUS(r->wait_status);
    }
}

static bool parent_any_ending(const struct fork_parent *p)
{
    for (uint32_t i = 0; i < p->rank_count; i++)
        if (p->ranks[i].running && p->ranks[i].closed) return true;
    return false;
}

/* Takes the exit statuses of ranks that have ended, and judges them.  If one rank was killed, others may end with
 * errors that follow from its death.  The killed rank must be reported first, so the others are judged only when no
 * further rank is about to end, or after ENDING_MS.  After a failure, the parent kills stopped ranks. */
static void parent_reap(struct fork_parent *p)
{
    bool exits_wait = false;
    for (uint32_t i = 0; i < p->rank_count; i++) {
        struct fork_rank *const r = &p->ranks[i];
        while (r->running && waitpid(r->pid, &r->wait_status, WNOHANG | WUNTRACED | WCONTINUED) == r->pid) {
            r->stopped = WIFSTOPPED(r->wait_status);
            if (r->stopped || WIFCONTINUED(r->wait_status)) continue;
            r->running = false;
            p->running--;
            parent_read(p, i);
        }
        if (p->failure && r->running && r->stopped) kill(r->pid, SIGKILL);
        exits_wait |= !r->running && !r->judged;
    }
    parent_judge(p, true);
    if (!exits_wait || !parent_any_ending(p)) p->ending_deadline_ms = bootstrap_now_ms() + ENDING_MS;
    if (!parent_any_ending(p) || bootstrap_now_ms() >= p->ending_deadline_ms) parent_judge(p, false);
}

/* Fails if a rank has ended with status 0 although the current exchange needs its share, which will not come. */
static void parent_check_absent(struct fork_parent *p)
{
    for (uint32_t i = 0; i < p->rank_count && p->came_count && !p->failure; i++)
        if (p->ranks[i].judged && !p->ranks[i].came)
            parent_fail(p, p->rank_count,
                        g_strdup_printf("rank %u ended before exchange %u, for which others wait", i, p->exchange));
}

static void parent_timeout(struct fork_parent *p)
{
    if (p->failure) {
        for (uint32_t i = 0; i < p->rank_count; i++)
            if (p->ranks[i].running) kill(p->ranks[i].pid, p->next_signal);
        p->next_signal = SIGKILL;
        p->deadline_ms = bootstrap_now_ms() + GRACE_TERMINATE_MS;
        return;
    }
    if (p->asking) {
        parent_verdict(p);
        return;
    }
    g_autofree bool *absent = g_new0(bool, p->rank_count);
    for (uint32_t i = 0; i < p->rank_count; i++) absent[i] = !p->ranks[i].came;
    g_autofree char *ranks = bootstrap_ranks_text(absent, p->rank_count);
    parent_fail(p, p->rank_count,
                g_strdup_printf("%s did not come to exchange %u within %u ms", ranks, p->exchange, p->timeout_ms));
}

/* Returns how long the parent may sleep in poll(), in ms.  If there is no deadline, returns -1, which means for
 * ever. */
static int parent_poll_timeout_ms(const struct fork_parent *p)
{
    if (parent_any_ending(p)) return REAP_TICK_MS;
    return p->failure || p->came_count || p->asking ? bootstrap_remaining_ms(p->deadline_ms) : -1;
}

static void parent_run(struct fork_parent *p)
{
    g_autofree struct pollfd *pollers = g_new0(struct pollfd, p->rank_count);
    while (p->running) {
        for (uint32_t i = 0; i < p->rank_count; i++) {
            const struct fork_rank *const r = &p->ranks[i];
            pollers[i] =
                (struct pollfd){ .fd = r->closed ? -1 : r->socket, .events = POLLIN | (r->out->len ? POLLOUT : 0) };
        }
        const int timeout_ms = parent_poll_timeout_ms(p);
        const struct timespec timeout = { timeout_ms / 1000, timeout_ms % 1000 * 1000000L };
        ppoll(pollers, p->rank_count, timeout_ms < 0 ? NULL : &timeout, &p->mask);
        if (ended_by && !p->failure)
            parent_fail(p, p->rank_count, g_strdup_printf("ended by signal %d (%s)", ended_by, strsignal(ended_by)));
        for (uint32_t i = 0; i < p->rank_count; i++)
            if (pollers[i].revents) parent_read(p, i);
        parent_reap(p);
        parent_check_absent(p);
        if (p->asking && !p->failure && parent_all_answered(p)) parent_verdict(p);
        if ((p->failure || p->came_count || p->asking) && bootstrap_now_ms() >= p->deadline_ms) parent_timeout(p);
        for (uint32_t i = 0; i < p->rank_count; i++) parent_write(&p->ranks[i]);
    }
}

/* --- starting and ending --- */

/* Installs the parent's signal handlers.  SIGCHLD gets its default handling.  If it were ignored, exit statuses
 * would be lost. */
static void parent_signals_take(struct fork_parent *p)
{
    struct sigaction note = { .sa_handler = ending_note };
    const struct sigaction child = { .sa_handler = SIG_DFL };
    sigset_t ending;
    sigemptyset(&ending);
    ended_by = 0;
    for (size_t i = 0; i < G_N_ELEMENTS(ending_signals); i++) {
        sigaddset(&ending, ending_signals[i]);
        sigaction(ending_signals[i], NULL, &p->action[i]);
        if (p->action[i].sa_handler != SIG_IGN) sigaction(ending_signals[i], &note, NULL);
    }
    sigaction(SIGCHLD, &child, &p->child_action);
    sigprocmask(SIG_BLOCK, &ending, &p->mask);
}

static void parent_signals_give_back(const struct fork_parent *p)
{
    for (size_t i = 0; i < G_N_ELEMENTS(ending_signals); i++) sigaction(ending_signals[i], &p->action[i], NULL);
    sigprocmask(SIG_SETMASK, &p->mask, NULL);
}

static int child_main(const struct fork_parent *p, uint32_t rank, int socket, pid_t parent_pid,
                      int (*child)(struct bootstrap *b, void *context), void *context)
{
    struct fork_child c = {
        .base = { .ops = &child_ops, .rank = rank, .rank_count = p->rank_count, .timeout_ms = p->timeout_ms },
        .socket = socket,
    };
    /* The kernel kills this child when its parent ends.  If the parent ended before this call, the child must find
     * out itself. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent_pid) return EXIT_RUN_FAILED;
    const int status = child(&c.base, context);
    close(socket);
    return status;
}

/* Forks the rank's process.  Returns false if the system has no room for one more process.  Then the caller ends the
 * processes that it has started. */
static bool parent_start_rank(struct fork_parent *p, uint32_t rank, int (*child)(struct bootstrap *b, void *context),
                              void *context)
{
    struct fork_rank *const r = &p->ranks[rank];
    const pid_t parent_pid = getpid();
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return false;
    r->pid = fork();
    if (r->pid == 0) {
        for (uint32_t i = 0; i < rank; i++) close(p->ranks[i].socket);
        close(ends[0]);
        parent_signals_give_back(p);
        exit(child_main(p, rank, ends[1], parent_pid, child, context));
    }
    close(ends[1]);
    if (r->pid < 0) {
        close(ends[0]);
        return false;
    }
    r->socket = ends[0];
    r->running = true;
    p->running++;
    return true;
}

static void parent_free(struct fork_parent *p)
{
    for (uint32_t i = 0; i < p->rank_count; i++) {
        struct fork_rank *const r = &p->ranks[i];
        if (r->pid > 0) close(r->socket);
        g_byte_array_unref(r->in);
        g_byte_array_unref(r->share);
        g_byte_array_unref(r->out);
    }
    g_free(p->failure);
    g_free(p->ranks);
}

int bootstrap_fork_run(uint32_t rank_count, uint32_t timeout_ms, int (*child)(struct bootstrap *b, void *context),
                       void *context)
{
    struct fork_parent p = { .rank_count = rank_count, .timeout_ms = timeout_ms, .failed_rank = rank_count };
    g_assert(rank_count > 0);
    p.ranks = g_new0(struct fork_rank, rank_count);
    for (uint32_t i = 0; i < rank_count; i++)
        p.ranks[i] = (struct fork_rank){
            .pid = -1, .socket = -1, .in = g_byte_array_new(), .share = g_byte_array_new(), .out = g_byte_array_new()
        };
    parent_signals_take(&p);
    fflush(NULL); /* otherwise every child would write the buffered text again */
    for (uint32_t i = 0; i < rank_count && !p.failure; i++)
        if (!parent_start_rank(&p, i, child, context))
            parent_fail(&p, rank_count, g_strdup_printf("cannot start rank %u: %s", i, strerror(errno)));
    parent_run(&p);
    sigaction(SIGCHLD, &p.child_action, NULL);
    parent_signals_give_back(&p);
    parent_free(&p);
    return p.exit_status;
}
