/* test_bootstrap_tcp.c - ranks that join by TCP, and callers that must not get in.
 *
 * Method: ranks are forked processes that connect over loopback.  The tests compare exit statuses and standard error.
 * The program itself plays strangers, liars and replayed bytes.  It uses the structs and MACs of
 * replay/bootstrap/bootstrap_wire.h, so that each lie is wrong in exactly one thing.  alarm() ends a hang. */
#include "replay/bootstrap/bootstrap.h"
#include "replay/bootstrap/bootstrap_internal.h"
#include "replay/bootstrap/bootstrap_wire.h"
#include "sim/version.h"
#include "tests/support_bootstrap.h"
#include "tests/support_catch.h"
#include "tests/unit.h"

#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TIMEOUT_MS = 20000, SHORT_MS = 400, RANKS_MAX = 8 };

static const struct bootstrap_secret SECRET = { "open sesame", 11 };

typedef int rank_function(struct bootstrap *b, void *context);

/* --- worlds of forked ranks --- */

static struct sockaddr_in loopback(uint16_t port)
{
    return (struct sockaddr_in){ .sin_family = AF_INET,
                                 .sin_port = htons(port),
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

static int listen_at(uint16_t port)
{
    const struct sockaddr_in address = loopback(port);
    const int s = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    g_assert(bind(s, (const struct sockaddr *)&address, sizeof address) == 0 && listen(s, 1) == 0);
    return s;
}

static uint16_t free_port(void)
{
    struct sockaddr_in address = loopback(0);
    socklen_t address_bytes = sizeof address;
    const int s = socket(AF_INET, SOCK_STREAM, 0);
    g_assert(bind(s, (struct sockaddr *)&address, sizeof address) == 0);
    g_assert(getsockname(s, (struct sockaddr *)&address, &address_bytes) == 0);
    close(s);
    return ntohs(address.sin_port);
}

/* Returns the options of a rank at a loopback port.  The next call overwrites root. */
static struct bootstrap_tcp_options at_port(uint16_t port, uint32_t rank, uint32_t rank_count, uint32_t timeout_ms)
{
    static char root[32];
    g_snprintf(root, sizeof root, "127.0.0.1:%u", port);
    return (struct bootstrap_tcp_options){
        .rank = rank, .rank_count = rank_count, .root = root, .secret = SECRET, .timeout_ms = timeout_ms
    };
}

static struct bootstrap_tcp_options with_rank(struct bootstrap_tcp_options options, uint32_t rank)
{
    options.rank = rank;
    return options;
}

static int report(uint32_t rank, GError *error)
{
    const int status = error_status(error);
    fprintf(stderr, "[%u: %s]\n", rank, error->message);
    g_error_free(error);
    return status;
}

static pid_t start_rank(const struct bootstrap_tcp_options *o, rank_function *run, void *context)
{
    fflush(NULL);
    const pid_t pid = fork();
    if (pid != 0) return pid;
    GError *error = NULL;
    struct bootstrap *const b = bootstrap_tcp_new(o, &error);
    const int status = b ? run(b, context) : report(o->rank, error);
    bootstrap_free(b);
    exit(status);
}

static int end_rank(pid_t pid)
{
    int wait_status;
    g_assert(waitpid(pid, &wait_status, 0) == pid);
    return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

/* Runs a world and returns its standard error (free it with g_free()).  Fills statuses[] unless it is NULL. */
static char *run_world(const char *root, uint32_t rank_count, uint32_t timeout_ms, rank_function *run, int *statuses)
{
    pid_t pids[RANKS_MAX];
    catch_start();
    for (uint32_t r = 0; r < rank_count; r++) {
        const struct bootstrap_tcp_options o = {
            .rank = r, .rank_count = rank_count, .root = root, .secret = SECRET, .timeout_ms = timeout_ms
        };
        pids[r] = start_rank(&o, run, NULL);
    }
    for (uint32_t r = 0; r < rank_count; r++) statuses[r] = end_rank(pids[r]);
    return catch_end();
}

static int run_barrier(struct bootstrap *b, void *context)
{
    GError *error = NULL;
    (void)context;
    return bootstrap_barrier(b, &error) ? 0 : report(b->rank, error);
}

/* Checks the world until it fails. */
static int check_to_the_end(struct bootstrap *b)
{
    GError *error = NULL;
    while (bootstrap_check(b, &error)) g_usleep(1000);
    return report(b->rank, error);
}

/* Rank 0, which waits for others at a free port.  What all ranks write is caught until catch_end(). */
struct door {
    uint16_t port;
    struct bootstrap_tcp_options options;
    pid_t pid;
};

static struct door door_open(uint32_t rank_count, uint32_t timeout_ms, rank_function *run)
{
    struct door d = { .port = free_port() };
    d.options = at_port(d.port, 0, rank_count, timeout_ms);
    catch_start();
    d.pid = start_rank(&d.options, run, NULL);
    return d;
}

static pid_t door_join(const struct door *d, uint32_t rank, rank_function *run)
{
    const struct bootstrap_tcp_options other = with_rank(d->options, rank);
    return start_rank(&other, run, NULL);
}

/* Rank 0 must end with the status and, unless message is NULL, have written the message. */
static void door_ends(const struct door *d, int status, const char *message)
{
    CU_ASSERT_EQUAL(end_rank(d->pid), status);
    g_autofree char *text = catch_end();
    if (message) ASSERT_CONTAINS(text, message);
}

/* Runs a world in which every rank that is listed in `told` must fail with the message. */
static void expect_told(uint32_t rank_count, uint32_t timeout_ms, rank_function *run, const char *told,
                        const char *message)
{
    const struct bootstrap_tcp_options o = at_port(free_port(), 0, rank_count, timeout_ms);
    int statuses[RANKS_MAX];
    g_autofree char *text = run_world(o.root, rank_count, timeout_ms, run, statuses);
    for (; *told; told++) {
        g_autofree char *line = g_strdup_printf("[%c: %s]", *told, message);
        CU_ASSERT_EQUAL(statuses[*told - '0'], 1);
        ASSERT_CONTAINS(text, line);
    }
}

/* --- worlds that work, and ranks that fail in one --- */

static int run_exchanges(struct bootstrap *b, void *context)
{
    GError *error = NULL;
    (void)context;
    if (exchanges_run(b, 700001, &error)) return 0;
    return error ? report(b->rank, error) : 9;
}

static bool has_ipv6(void)
{
    const struct sockaddr_in6 address = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
    const int s = socket(AF_INET6, SOCK_STREAM, 0);
    const bool has = s >= 0 && bind(s, (const struct sockaddr *)&address, sizeof address) == 0;
    if (s >= 0) close(s);
    return has;
}

TEST("exchanges, IPv4 and IPv6")
{
    static const char *const formats[] = { "127.0.0.1:%u", ":%u", "[::1]:%u", "localhost:%u" };
    for (size_t k = 0; k < G_N_ELEMENTS(formats); k++) {
        if (formats[k][0] == '[' && !has_ipv6()) continue;
        const uint16_t port = free_port();
        char root[64];
        int statuses[RANKS_MAX];
        const uint32_t rank_count = k == 0 ? 7 : (uint32_t)k;
        g_snprintf(root, sizeof root, formats[k], port);
        g_autofree char *text = run_world(root, rank_count, TIMEOUT_MS, run_exchanges, statuses);
        for (uint32_t r = 0; r < rank_count; r++) CU_ASSERT_EQUAL(statuses[r], 0);
        CU_ASSERT_STRING_EQUAL(text, "");
    }
}

static int run_two_dies(struct bootstrap *b, void *context)
{
    if (b->rank == 2) raise(SIGKILL);
    return run_barrier(b, context);
}

TEST("a dead rank is named to all")
{
    expect_told(4, TIMEOUT_MS, run_two_dies, "013", "exchange 1: rank 2 closed the connection");
}

static int run_root_dies(struct bootstrap *b, void *context)
{
    if (b->rank == 0) raise(SIGKILL);
    return run_barrier(b, context);
}

TEST("a dead root is named")
{
    expect_told(3, TIMEOUT_MS, run_root_dies, "12", "exchange 1: rank 0 closed the connection");
}

/* Rank 2 dies between exchanges.  The root finds that, and tells the other members. */
static int run_two_dies_unasked(struct bootstrap *b, void *context)
{
    GError *error = NULL;
    (void)context;
    if (!bootstrap_check(b, &error)) return report(b->rank, error);
    if (!bootstrap_barrier(b, &error)) return report(b->rank, error);
    if (b->rank == 2) raise(SIGKILL);
    return check_to_the_end(b);
}

static int run_two_gives_up_unasked(struct bootstrap *b, void *context)
{
    GError *error = NULL;
    (void)context;
    if (b->rank == 2) {
        bootstrap_abort(b, "no link");
        return bootstrap_check(b, &error) ? 0 : report(b->rank, error);
    }
    return check_to_the_end(b);
}

TEST("a dead rank is found between exchanges")
{
    expect_told(4, TIMEOUT_MS, run_two_dies_unasked, "013", "rank 2 closed the connection");
    expect_told(4, TIMEOUT_MS, run_two_gives_up_unasked, "0123", "rank 2 gave up: no link");
}

/* Rank 1 stays connected until its peers have ended, because they hold the other end of its socket. */
static int run_one_stays_away(struct bootstrap *b, void *context)
{
    if (b->rank == 1) g_usleep(3 * SHORT_MS * 1000);
    return run_barrier(b, context);
}

TEST("who does not come is named to all")
{
    expect_told(3, SHORT_MS, run_one_stays_away, "012", "rank 1 did not come to exchange 1 within 400 ms");
}

static int run_root_stuck(struct bootstrap *b, void *context)
{
    if (b->rank == 0) {
        g_usleep(8 * SHORT_MS * 1000);
        return 0;
    }
    return run_barrier(b, context);
}

TEST("a stuck root") { expect_told(2, SHORT_MS, run_root_stuck, "1", "exchange 1: rank 0 does not answer"); }

/* Rank 0 comes late to the first exchange, and rank 1 to the second.  The late rank comes only after the waiting rank
 * has served its links, so without serving, both would hang. */
static bool serve_by_pipe(void *context) { return write(((int *)context)[1], "x", 1) != 1; }

static int run_serves(struct bootstrap *b, void *context)
{
    int *const pipe_ends = context;
    GError *error = NULL;
    char byte;
    for (uint32_t late = 0; late < 2; late++) {
        b->serve = b->rank == late ? NULL : serve_by_pipe;
        b->serve_context = &pipe_ends[2 * late];
        if (b->rank == late && read(pipe_ends[2 * late], &byte, 1) != 1) return 1;
        if (!bootstrap_barrier(b, &error)) return report(b->rank, error);
    }
    return 0;
}

TEST("who waits serves")
{
    int pipe_ends[4];
    const struct bootstrap_tcp_options root = at_port(free_port(), 0, 2, TIMEOUT_MS);
    const struct bootstrap_tcp_options other = with_rank(root, 1);
    CU_ASSERT_EQUAL_FATAL(pipe(&pipe_ends[0]) || pipe(&pipe_ends[2]), 0);
    const pid_t pids[2] = { start_rank(&root, run_serves, pipe_ends), start_rank(&other, run_serves, pipe_ends) };
    CU_ASSERT_EQUAL(end_rank(pids[0]), 0);
    CU_ASSERT_EQUAL(end_rank(pids[1]), 0);
    for (int i = 0; i < 4; i++) close(pipe_ends[i]);
}

static int run_gives_up(struct bootstrap *b, void *context)
{
    if (b->rank == 2) bootstrap_abort(b, "\033[31mtrace.npy: not here\n\302\233\377");
    return run_barrier(b, context);
}

TEST("a rank gives up")
{
    /* Rank 2's control characters must not reach the terminals of other ranks. */
    expect_told(3, TIMEOUT_MS, run_gives_up, "01", "rank 2 gave up: ?[31mtrace.npy: not here??\377");
    expect_told(3, TIMEOUT_MS, run_gives_up, "2", "rank 2 gave up: \033[31mtrace.npy: not here\n\302\233\377");
}

/* Rank 2 waits for rank 1.  Rank 1 waits for rank 3, which does not answer.  Rank 0 is in an exchange. */
static void tell_peer(void *context, struct bootstrap_wait *wait)
{
    *wait = (struct bootstrap_wait){
        .serial = 5, .peer_count = 1, .peer = { *(const uint16_t *)context }, .text = "words"
    };
}

static int run_hangs(struct bootstrap *b, void *context)
{
    static const uint16_t peer[] = { 1, 3, 1, 0 };
    uint16_t mine = peer[b->rank];
    struct bootstrap_wait wait;
    GError *error = NULL;
    (void)context;
    b->tell = tell_peer;
    b->tell_context = &mine;
    tell_peer(&mine, &wait);
    if (b->rank == 3) {
        g_usleep(4 * G_USEC_PER_SEC);
        return 0;
    }
    if (b->rank == 1) return check_to_the_end(b);
    if (b->rank == 2) bootstrap_hang(b, &wait, &error);
    else bootstrap_barrier(b, &error);
    return report(b->rank, error);
}

/* Rank 0 itself hangs.  The others wait in an exchange. */
static int run_root_hangs(struct bootstrap *b, void *context)
{
    const struct bootstrap_wait wait = { .serial = 4, .peer_count = 1, .peer = { 2 }, .text = "words of 0" };
    GError *error = NULL;
    (void)context;
    if (b->rank == 0) bootstrap_hang(b, &wait, &error);
    else bootstrap_barrier(b, &error);
    return report(b->rank, error);
}

TEST("who holds up a run")
{
    expect_told(4, TIMEOUT_MS, run_hangs, "012",
                "rank 3 holds up the run: it does not answer (stopped or busy); rank 2: words");
    expect_told(3, TIMEOUT_MS, run_root_hangs, "012",
                "rank 2 holds up the run: waits for the others in an exchange; rank 0: words of 0");
}

static int run_two_brings_more(struct bootstrap *b, void *context)
{
    static uint8_t in[100000], out[300000];
    GError *error = NULL;
    (void)context;
    return bootstrap_allgather(b, in, b->rank == 2 ? 100000 : 8, out, &error) ? 0 : report(b->rank, error);
}

TEST("sizes differ")
{
    expect_told(3, TIMEOUT_MS, run_two_brings_more, "01",
                "exchange 1: rank 2 announced 100000 bytes, rank 0 expects 8");
}

/* --- ranks started wrongly --- */

/* Runs rank 0 and one other rank, whose options differ as the case says.  Returns their standard error. */
static char *run_pair(const struct bootstrap_tcp_options *root, const struct bootstrap_tcp_options *other,
                      int *statuses)
{
    catch_start();
    const pid_t pids[2] = { start_rank(root, run_barrier, NULL), start_rank(other, run_barrier, NULL) };
    statuses[0] = end_rank(pids[0]);
    statuses[1] = end_rank(pids[1]);
    return catch_end();
}

TEST("wrong secret")
{
    const struct bootstrap_tcp_options root = at_port(free_port(), 0, 2, 1000);
    struct bootstrap_tcp_options other = with_rank(root, 1);
    int statuses[2];
    other.secret = (struct bootstrap_secret){ "open barley", 11 };
    g_autofree char *text = run_pair(&root, &other, statuses);
    g_autofree char *expected = g_strdup_printf("[1: rank 1 and rank 0 at %s do not have the same secret]", root.root);
    g_autofree char *refusal = g_strdup_printf(
        "[0: rank 1 did not join at %s within 1000 ms; refused without the right secret: 1, the last 127.0.0.1:",
        root.root);
    CU_ASSERT(statuses[0] == 1 && statuses[1] == 2);
    ASSERT_CONTAINS(text, expected);
    ASSERT_CONTAINS(text, refusal);
}

/* All bytes of a secret count, even those after a NUL. */
TEST("a secret with a NUL in it")
{
    struct bootstrap_tcp_options root = at_port(free_port(), 0, 2, 1000);
    int statuses[2];
    root.secret = (struct bootstrap_secret){ "open\0sesame", 11 };
    struct bootstrap_tcp_options other = with_rank(root, 1);
    g_free(run_pair(&root, &other, statuses));
    CU_ASSERT(statuses[0] == 0 && statuses[1] == 0);
    other.secret = (struct bootstrap_secret){ "open\0barley", 11 };
    g_autofree char *text = run_pair(&root, &other, statuses);
    CU_ASSERT(statuses[0] == 1 && statuses[1] == 2);
    ASSERT_CONTAINS(text, "do not have the same secret]");
}

TEST("wrong world")
{
    const struct bootstrap_tcp_options root = at_port(free_port(), 0, 2, TIMEOUT_MS);
    struct bootstrap_tcp_options other = with_rank(root, 1);
    int statuses[2];
    other.rank_count = 3;
    g_autofree char *text = run_pair(&root, &other, statuses);
    CU_ASSERT(statuses[0] == 2 && statuses[1] == 2);
    ASSERT_CONTAINS(text, "was started as one of 3 ranks, rank 0 as one of 2]");
    ASSERT_CONTAINS(text, "[1: rank 1 was started as one of 3 ranks, rank 0 at 127.0.0.1:");
}

TEST("a rank started twice")
{
    const struct door root = door_open(3, TIMEOUT_MS, run_barrier);
    const pid_t pids[] = { door_join(&root, 1, run_barrier), door_join(&root, 1, run_barrier) };
    CU_ASSERT_EQUAL(end_rank(root.pid), 2);
    for (int i = 0; i < 2; i++) CU_ASSERT_NOT_EQUAL(end_rank(pids[i]), 0);
    g_autofree char *text = catch_end();
    ASSERT_CONTAINS(text, "[0: two processes say they are rank 1, the second at 127.0.0.1:");
    ASSERT_CONTAINS(text, "has a rank 1 already]");
    ASSERT_CONTAINS(text, "[1: two processes say they are rank 1, the second at 127.0.0.1:");
}

TEST("bad options")
{
    static const struct {
        struct bootstrap_tcp_options options;
        const char *message;
    } cases[] = {
        { { .rank = 2, .rank_count = 2, .root = ":1", .secret = { "x", 1 } }, "--rank 2 is not below --world-size 2" },
        { { .rank = 0, .rank_count = 2, .root = ":1", .secret = { "", 0 } }, "needs a secret shared by all ranks" },
        { { .rank = 0, .rank_count = 2, .root = "here", .secret = { "x", 1 } },
          "--root: expected host:port, found 'here'" },
        { { .rank = 0, .rank_count = 2, .root = "here:", .secret = { "x", 1 } }, "--root: expected host:port, found" },
        { { .rank = 1, .rank_count = 2, .root = NULL, .secret = { "x", 1 } }, "--root: expected host:port, found ''" },
        { { .rank = 1, .rank_count = 2, .root = ":http", .secret = { "x", 1 } }, "--root :http: " },
    };
    for (size_t k = 0; k < G_N_ELEMENTS(cases); k++) {
        g_autoptr(GError) error = NULL;
        CU_ASSERT_PTR_NULL(bootstrap_tcp_new(&cases[k].options, &error));
        CU_ASSERT_EQUAL(error_status(error), EXIT_BAD_INPUT);
        ASSERT_CONTAINS(error->message, cases[k].message);
    }
}

/* Two errors: no process listens at the address of rank 0, and the address of rank 0 is taken. */
TEST("nobody there, address taken")
{
    struct bootstrap_tcp_options o = at_port(free_port(), 1, 2, SHORT_MS);
    g_autoptr(GError) error = NULL;
    CU_ASSERT_PTR_NULL(bootstrap_tcp_new(&o, &error));
    ASSERT_CONTAINS(error->message, "rank 1 cannot connect to rank 0 at 127.0.0.1:");
    ASSERT_CONTAINS(error->message, "within 400 ms: Connection refused");
    g_clear_error(&error);
    const uint16_t port = free_port();
    const int s = listen_at(port);
    o = at_port(port, 0, 2, SHORT_MS);
    CU_ASSERT_PTR_NULL(bootstrap_tcp_new(&o, &error));
    ASSERT_CONTAINS(error->message, "rank 0 cannot listen at 127.0.0.1:");
    ASSERT_CONTAINS(error->message, "Address already in use");
    close(s);
}

/* --- strangers and liars --- */

static int dial(uint16_t port)
{
    const struct sockaddr_in address = loopback(port);
    const int s = socket(AF_INET, SOCK_STREAM, 0);
    while (connect(s, (const struct sockaddr *)&address, sizeof address) != 0) g_usleep(2000);
    return s;
}

static uint64_t soon(void) { return bootstrap_now_ms() + TIMEOUT_MS; }

struct liar {
    int socket;
    struct wire_challenge challenge;
    struct wire_hello hello;
    struct wire_welcome welcome;
};

static void liar_dial(struct liar *l, uint16_t port, uint32_t rank, uint32_t rank_count)
{
    l->socket = dial(port);
    CU_ASSERT_EQUAL_FATAL(wire_read(l->socket, &l->challenge, sizeof l->challenge, soon()), 0);
    l->hello = (struct wire_hello){ .magic = WIRE_MAGIC, .rank = rank, .rank_count = rank_count, .nonce = { 1 } };
    g_strlcpy(l->hello.build, eptwin_version(), sizeof l->hello.build);
    wire_hello_sign(&SECRET, &l->challenge, &l->hello, l->hello.mac);
}

static uint32_t liar_greet(struct liar *l)
{
    CU_ASSERT_EQUAL_FATAL(wire_write(l->socket, &l->hello, sizeof l->hello, soon()), 0);
    CU_ASSERT_EQUAL_FATAL(wire_read(l->socket, &l->welcome, sizeof l->welcome, soon()), 0);
    return l->welcome.verdict;
}

/* Rank 0 gets garbage, silence, half a hello and too many connections.  Then rank 1 joins. */
TEST("strangers")
{
    enum { SILENT = 80 };
    char garbage[1000];
    int sockets[SILENT];
    memset(garbage, 'G', sizeof garbage);
    const struct door root = door_open(2, TIMEOUT_MS, run_exchanges);
    for (int i = 0; i < SILENT; i++) sockets[i] = dial(root.port);
    CU_ASSERT_EQUAL(wire_write(sockets[SILENT - 1], garbage, sizeof garbage, soon()), 0);
    CU_ASSERT_EQUAL(wire_write(sockets[SILENT - 2], WIRE_MAGIC, 8, soon()), 0);
    close(sockets[SILENT - 3]);
    CU_ASSERT_EQUAL(end_rank(door_join(&root, 1, run_exchanges)), 0);
    door_ends(&root, 0, NULL);
    for (int i = 0; i < SILENT; i++)
        if (i != SILENT - 3) close(sockets[i]);
}

/* Whether the peer closed the connection within the time. */
static bool hung_up(int socket, int timeout_ms)
{
    struct pollfd poller = { .fd = socket, .events = POLLIN };
    char byte;
    return poll(&poller, 1, timeout_ms) == 1 && recv(socket, &byte, 1, MSG_DONTWAIT) <= 0;
}

/* With one caller more than there is room for, rank 0 drops the caller that connected first. */
TEST("the oldest makes room")
{
    enum { ROOM = 64 };
    struct liar callers[ROOM + 1];
    const struct door root = door_open(2, TIMEOUT_MS, run_barrier);
    for (int i = 0; i <= ROOM; i++) {
        liar_dial(&callers[i], root.port, 1, 2); /* returns once it has the challenge, which shows that rank 0 accepted
                                                  * the caller */
        g_usleep(2000);
    }
    CU_ASSERT(hung_up(callers[0].socket, TIMEOUT_MS));
    for (int i = 1; i <= ROOM; i++) CU_ASSERT_FALSE(hung_up(callers[i].socket, 0));
    kill(root.pid, SIGKILL);
    door_ends(&root, 128 + SIGKILL, NULL);
    for (int i = 0; i <= ROOM; i++) close(callers[i].socket);
}

/* A caller that says nothing is dropped after its share of the time.  Rank 0 goes on waiting for ranks. */
TEST("the silent are sent away")
{
    struct liar silent;
    const struct door root = door_open(2, 4000, run_barrier);
    liar_dial(&silent, root.port, 1, 2);
    CU_ASSERT(hung_up(silent.socket, 60000));
    CU_ASSERT_EQUAL(end_rank(door_join(&root, 1, run_barrier)), 0);
    door_ends(&root, 0, NULL); /* rank 0 was still running, so its end is not what closed the connection */
    close(silent.socket);
}

/* A rank that was dropped before rank 0 read its hello must try again.  Here a listener takes the place of rank 0 and
 * drops every caller.  Then rank 0 starts. */
TEST("who is pushed out comes again")
{
    const uint16_t port = free_port();
    const struct bootstrap_tcp_options root = at_port(port, 0, 2, TIMEOUT_MS);
    const struct bootstrap_tcp_options other = with_rank(root, 1);
    catch_start();
    const pid_t other_pid = start_rank(&other, run_barrier, NULL);
    const int listener = listen_at(port);
    for (int i = 0; i < 3; i++) close(accept(listener, NULL, NULL));
    close(listener);
    const pid_t root_pid = start_rank(&root, run_barrier, NULL);
    CU_ASSERT_EQUAL(end_rank(other_pid), 0);
    CU_ASSERT_EQUAL(end_rank(root_pid), 0);
    g_free(catch_end());
}

static double cpu_ms(int who)
{
    struct rusage usage;
    getrusage(who, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e3 +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e3;
}

/* Rank 0 has no descriptor left for a caller.  It must say so, and must not use its CPU meanwhile. */
TEST("no descriptors left")
{
    const uint16_t port = free_port();
    const struct bootstrap_tcp_options root = at_port(port, 0, 3, 1000);
    const double before_ms = cpu_ms(RUSAGE_CHILDREN);
    catch_start();
    const pid_t root_pid = fork();
    if (root_pid == 0) {
        const struct rlimit few = { 8, 8 }; /* room for standard descriptors, a listener and hardly more */
        GError *error = NULL;
        closefrom(3);
        setrlimit(RLIMIT_NOFILE, &few);
        for (int i = 3; i < 7; i++) (void)!dup(0);
        _exit(bootstrap_tcp_new(&root, &error) ? 0 : report(0, error));
    }
    const int s = dial(port);
    CU_ASSERT_EQUAL(end_rank(root_pid), 1);
    g_autofree char *text = catch_end();
    ASSERT_CONTAINS(text, "; could not accept callers: ");
    ASSERT_CONTAINS(text, " times: Too many open files]");
    CU_ASSERT(cpu_ms(RUSAGE_CHILDREN) - before_ms < 300); /* of the 1000 ms that rank 0 waits */
    close(s);
}

/* A MAC with any one byte wrong is refused. */
TEST("marks are compared whole")
{
    uint8_t mark[WIRE_MAC_BYTES], other[WIRE_MAC_BYTES];
    for (int i = 0; i < WIRE_MAC_BYTES; i++) mark[i] = other[i] = (uint8_t)(7 * i);
    CU_ASSERT(wire_secrets_equal(mark, other, WIRE_MAC_BYTES));
    for (int bit = 0; bit < 8 * WIRE_MAC_BYTES; bit++) {
        other[bit / 8] ^= (uint8_t)(1 << bit % 8);
        CU_ASSERT_FALSE(wire_secrets_equal(mark, other, WIRE_MAC_BYTES));
        other[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}

/* A valid hello that is sent again on the next connection is refused, and disturbs no other rank. */
TEST("a recorded hello")
{
    struct liar first, second;
    const struct door root = door_open(3, TIMEOUT_MS, run_barrier);
    liar_dial(&first, root.port, 1, 3);
    CU_ASSERT_EQUAL(liar_greet(&first), WIRE_JOINED);
    liar_dial(&second, root.port, 2, 3);
    second.hello = first.hello;
    CU_ASSERT_EQUAL(liar_greet(&second), WIRE_WRONG_SECRET);
    close(second.socket);
    const pid_t other_pid = door_join(&root, 2, run_barrier);
    struct wire_channel channel;
    wire_channel_open(&channel, first.socket, false, &SECRET, &first.challenge, &first.hello);
    for (int i = 0; i < 2; i++) CU_ASSERT_EQUAL(wire_channel_send(&channel, WIRE_SHARE, NULL, 0, soon()), 0);
    door_ends(&root, 0, NULL);
    CU_ASSERT_EQUAL(end_rank(other_pid), 0);
    wire_channel_close(&channel);
}

/* One field of a signed hello is altered in transit. */
TEST("an altered hello")
{
    struct liar l;
    const struct door root = door_open(3, 1000, run_barrier);
    liar_dial(&l, root.port, 1, 3);
    l.hello.rank = 2;
    CU_ASSERT_EQUAL(liar_greet(&l), WIRE_WRONG_SECRET);
    close(l.socket);
    CU_ASSERT_EQUAL(end_rank(root.pid), 1);
    g_autofree char *text = catch_end();
    ASSERT_CONTAINS(text, "[0: ranks 1 and 2 did not join at 127.0.0.1:");
    ASSERT_CONTAINS(text, "refused without the right secret: 1, the last 127.0.0.1:");
}

static void expect_refusal(const struct wire_hello *change, uint32_t verdict, const char *message)
{
    struct liar l;
    uint8_t mac[WIRE_MAC_BYTES];
    const struct door root = door_open(3, TIMEOUT_MS, run_barrier);
    liar_dial(&l, root.port, change->rank, change->rank_count);
    if (change->build[0]) memcpy(l.hello.build, change->build, sizeof l.hello.build);
    wire_hello_sign(&SECRET, &l.challenge, &l.hello, l.hello.mac);
    CU_ASSERT_EQUAL(liar_greet(&l), verdict);
    wire_welcome_sign(&SECRET, &l.challenge, &l.hello, &l.welcome, mac);
    CU_ASSERT(wire_secrets_equal(mac, l.welcome.mac, WIRE_MAC_BYTES));
    close(l.socket);
    door_ends(&root, 2, message);
}

TEST("refusals by what differs")
{
    expect_refusal(&(struct wire_hello){ .rank = 1, .rank_count = 3, .build = "ano\033[2Jther" }, WIRE_WRONG_BUILD,
                   " is eptwin ano?[2Jther, rank 0 is ");
    expect_refusal(&(struct wire_hello){ .rank = 3, .rank_count = 3 }, WIRE_WRONG_RANK,
                   " says it is rank 3, expected 1 to 2]");
    expect_refusal(&(struct wire_hello){ .rank = 0, .rank_count = 3 }, WIRE_WRONG_RANK,
                   " says it is rank 0, expected 1 to 2]");
    expect_refusal(&(struct wire_hello){ .rank = 1, .rank_count = 4 }, WIRE_WRONG_COUNT,
                   " was started as one of 4 ranks, rank 0 as one of 3]");
}

/* --- messages after the welcome --- */

/* A member joins, does the first exchange properly, then runs `lie`, which sends wrong bytes. */
static void expect_message_fails(void (*lie)(struct wire_channel *c), const char *message)
{
    struct wire_channel channel;
    struct liar l;
    const struct door root = door_open(2, TIMEOUT_MS, run_barrier);
    liar_dial(&l, root.port, 1, 2);
    CU_ASSERT_EQUAL(liar_greet(&l), WIRE_JOINED);
    wire_channel_open(&channel, l.socket, false, &SECRET, &l.challenge, &l.hello);
    CU_ASSERT_EQUAL(wire_channel_send(&channel, WIRE_SHARE, NULL, 0, soon()), 0);
    lie(&channel);
    door_ends(&root, 1, message);
    wire_channel_close(&channel);
}

static void lie_send(struct wire_channel *c) { CU_ASSERT_EQUAL(wire_channel_send(c, WIRE_SHARE, NULL, 0, soon()), 0); }

/* Sends the bytes of the first message again.  The bytes are equal, because key and message number are those of the
 * first message. */
static void lie_repeat(struct wire_channel *c)
{
    c->sent = 0;
    lie_send(c);
}

static void lie_reflect(struct wire_channel *c)
{
    c->root = true;
    lie_send(c);
}

static void lie_forge(struct wire_channel *c)
{
    c->key[5] ^= 1;
    lie_send(c);
}

static void lie_oversize(struct wire_channel *c)
{
    const struct wire_header header = { .kind = WIRE_SHARE, .sequence = c->sent, .size_bytes = UINT64_MAX / 2 };
    CU_ASSERT_EQUAL(wire_write(c->socket, &header, sizeof header, soon()), 0);
}

static void lie_cut(struct wire_channel *c)
{
    const struct wire_header header = { .kind = WIRE_SHARE, .sequence = c->sent };
    CU_ASSERT_EQUAL(wire_write(c->socket, &header, sizeof header - 1, soon()), 0);
    shutdown(c->socket, SHUT_WR);
}

TEST("messages repeated, reflected, forged, oversized, cut")
{
    static const char forged[] = "[0: exchange 1: rank 1 sent a message that is forged, altered or repeated]";
    expect_message_fails(lie_repeat, forged);
    expect_message_fails(lie_reflect, forged);
    expect_message_fails(lie_forge, forged);
    expect_message_fails(lie_oversize, "[0: exchange 1: rank 1 announced 9223372036854775807 bytes, rank 0 expects 0]");
    expect_message_fails(lie_cut, "[0: exchange 1: rank 1 closed the connection]");
}

/* --- peers that only pretend to be the root --- */

static void expect_root_refused(const void *bytes, size_t size_bytes, bool welcome, const char *message)
{
    const uint16_t port = free_port();
    const struct bootstrap_tcp_options o = at_port(port, 1, 2, 1000);
    const int listener = listen_at(port);
    const struct wire_welcome lie = { .verdict = WIRE_JOINED, .rank_count = 2 };
    struct wire_hello hello;
    catch_start();
    const pid_t pid = start_rank(&o, run_barrier, NULL);
    const int s = accept(listener, NULL, NULL);
    CU_ASSERT_EQUAL(wire_write(s, bytes, size_bytes, soon()), 0);
    if (welcome) {
        CU_ASSERT_EQUAL(wire_read(s, &hello, sizeof hello, soon()), 0);
        CU_ASSERT_EQUAL(wire_write(s, &lie, sizeof lie, soon()), 0);
    }
    CU_ASSERT_NOT_EQUAL(end_rank(pid), 0);
    close(s);
    close(listener);
    g_autofree char *text = catch_end();
    ASSERT_CONTAINS(text, message);
}

TEST("false roots")
{
    const struct wire_challenge challenge = { .magic = WIRE_MAGIC, .nonce = { 7 } };
    char web[100] = "HTTP/1.1 400 Bad Request\r\n";
    expect_root_refused(web, sizeof web, false, " is not rank 0 of this eptwin]");
    expect_root_refused(&challenge, sizeof challenge, true, "do not have the same secret]");
    expect_root_refused(&challenge, 10, false, " does not answer before it let this rank join]");
}

bool unit_begin(char **argv)
{
    (void)argv;
    alarm(600);
    return true;
}
