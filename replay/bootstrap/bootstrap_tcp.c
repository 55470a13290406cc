/* bootstrap_tcp.c - exchanges over TCP connections between rank 0 and each other rank.
 *
 * Rank 0 gathers the shares while it is in an exchange itself.  So it knows which ranks are missing, and tells the
 * other ranks.  bootstrap_join.c joins ranks, and bootstrap_wire.c forms messages. */
#include "replay/bootstrap/bootstrap_internal.h"
#include "replay/bootstrap/bootstrap_wire.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

enum {
    COME_MS = 100,        /* after this time, rank 0 tells the ranks that have come to an exchange that it is alive */
    ROOT_MARGIN_MS = 500, /* the other ranks wait this much longer, so that rank 0 names the missing rank first */
};

struct bootstrap_tcp {
    struct bootstrap base;
    struct wire_channel *channels; /* rank 0: [rank] a channel to each rank, unused for rank 0 itself.  Other ranks: one
                                    * channel, to rank 0 */
    uint32_t channel_count;
    uint32_t exchange;
    char *failure;            /* text of the first failure, with which every later call fails; NULL: none */
    struct bootstrap_ops ops; /* operations of TCP, with the name that the options give */
    void (*end)(void);
};

static bool tcp_fail(struct bootstrap_tcp *t, char *failure, GError **error)
{
    g_assert(!t->failure);
    t->failure = failure;
    return error_run(error, "%s", failure);
}

static void tell_all(struct bootstrap_tcp *t, const char *failure)
{
    const uint64_t deadline_ms = bootstrap_now_ms() + ROOT_MARGIN_MS;
    const size_t size_bytes = strnlen(failure, BOOTSTRAP_REASON_BYTES_MAX);
    for (uint32_t r = 0; r < t->channel_count; r++)
        if (t->channels[r].socket >= 0)
            wire_channel_send(&t->channels[r], WIRE_FAILED, failure, size_bytes, deadline_ms);
}

static bool root_fail(struct bootstrap_tcp *t, char *failure, GError **error)
{
    tell_all(t, failure);
    return tcp_fail(t, failure, error);
}

static size_t body_bytes_max(uint64_t size_bytes) { return MAX(size_bytes, BOOTSTRAP_REASON_BYTES_MAX); }

/* --- rank 0 --- */

struct gathering {
    size_t size_bytes;
    uint8_t *out; /* rank_count shares */
    bool *came;
    uint32_t came_count;
};

static char *channel_text(const struct wire_channel *c)
{
    return text_printable(c->header.size_bytes ? (const char *)c->body : "", c->header.size_bytes);
}

static bool root_take_reason(struct bootstrap_tcp *t, uint32_t rank, GError **error)
{
    g_autofree char *reason = channel_text(&t->channels[rank]);
    return root_fail(t, g_strdup_printf("rank %u gave up: %s", rank, reason), error);
}

struct inquiry {
    struct bootstrap_wait *wait;
    enum hang_answer *answer;
};

/* Takes the rank's answer to the question, if it has arrived.  Returns whether nothing more is expected from the
 * rank. */
static bool root_hear(struct bootstrap_tcp *t, struct inquiry *q, uint32_t rank)
{
    struct wire_channel *const c = &t->channels[rank];
    const int rc = wire_channel_advance(c, BOOTSTRAP_REASON_BYTES_MAX);
    if (rc == -EAGAIN) return false;
    if (rc && rc != -EMSGSIZE) return true; /* the connection is lost, so no answer will come */
    q->answer[rank] = HANG_ANSWERED;
    if (!rc && (c->header.kind == WIRE_HANG || c->header.kind == WIRE_STATE) &&
        c->header.size_bytes == sizeof q->wait[rank])
        memcpy(&q->wait[rank], c->body, sizeof q->wait[rank]);
    else /* the rank sent a share or a reason instead */
        q->wait[rank] = (struct bootstrap_wait){ .text = "waits for the others in an exchange" };
    return true;
}

/* Asks all ranks what they wait for, because the rank `first` hangs.  Ends the run, and sets *error to a text that
 * names the rank at fault according to the answers. */
static bool root_ask(struct bootstrap_tcp *t, uint32_t first, const struct bootstrap_wait *wait, GError **error)
{
    const uint32_t rank_count = t->base.rank_count;
    const uint64_t deadline_ms = bootstrap_now_ms() + BOOTSTRAP_ASK_MS;
    g_autofree struct bootstrap_wait *waits = g_new0(struct bootstrap_wait, rank_count);
    g_autofree enum hang_answer *answer = g_new(enum hang_answer, rank_count);
    g_autofree bool *heard = g_new0(bool, rank_count);
    struct inquiry q = { .wait = waits, .answer = answer };
    uint32_t silent = rank_count;
    waits[0] = bootstrap_wait_of(&t->base);
    waits[first] = *wait;
    for (uint32_t r = 0; r < rank_count; r++) answer[r] = HANG_SILENT;
    answer[0] = answer[first] = HANG_ANSWERED;
    heard[0] = heard[first] = true;
    for (uint32_t r = 1; r < rank_count; r++)
        if (!heard[r]) wire_channel_send(&t->channels[r], WIRE_ASK, NULL, 0, deadline_ms);
    while (silent && bootstrap_now_ms() < deadline_ms) {
        silent = 0;
        for (uint32_t r = 1; r < rank_count; r++)
            if (!heard[r] && !(heard[r] = root_hear(t, &q, r))) silent++;
        if (silent) g_usleep(1000 * (gulong)MAX(bootstrap_serve_ms(&t->base, bootstrap_now_ms() + 5), 1));
    }
    return root_fail(t, bootstrap_hang_text(waits, answer, rank_count, first), error);
}

/* Takes the report of a rank that hangs, and tells this rank that rank 0 is alive. */
static bool root_take_hang(struct bootstrap_tcp *t, uint32_t rank, GError **error)
{
    struct wire_channel *const c = &t->channels[rank];
    struct bootstrap_wait wait;
    if (c->header.size_bytes != sizeof wait)
        return root_fail(t, g_strdup_printf("rank %u %s", rank, wire_describe(-EBADMSG)), error);
    memcpy(&wait, c->body, sizeof wait);
    wire_channel_next(c);
    wire_channel_send(c, WIRE_COME, NULL, 0, bootstrap_now_ms() + BOOTSTRAP_ASK_MS);
    return root_ask(t, rank, &wait, error);
}

static bool root_take(struct bootstrap_tcp *t, struct gathering *g, uint32_t rank, GError **error)
{
    struct wire_channel *const c = &t->channels[rank];
    const int rc = wire_channel_advance(c, body_bytes_max(g->size_bytes));
    if (rc == -EAGAIN) return true;
    if (rc == -EMSGSIZE)
        return root_fail(t,
                         g_strdup_printf("exchange %u: rank %u announced %" G_GUINT64_FORMAT
                                         " bytes, rank 0 expects %zu",
                                         t->exchange, rank, c->header.size_bytes, g->size_bytes),
                         error);
    if (rc)
        return root_fail(t, g_strdup_printf("exchange %u: rank %u %s", t->exchange, rank, wire_describe(rc)), error);
    if (c->header.kind == WIRE_GIVE_UP) return root_take_reason(t, rank, error);
    if (c->header.kind == WIRE_HANG) return root_take_hang(t, rank, error);
    if (c->header.kind != WIRE_SHARE || c->header.size_bytes != g->size_bytes)
        return root_fail(t,
                         g_strdup_printf("exchange %u: rank %u brought %" G_GUINT64_FORMAT
                                         " bytes, rank 0 %zu: the ranks do not do the same",
                                         t->exchange, rank, c->header.size_bytes, g->size_bytes),
                         error);
    if (g->size_bytes) memcpy(g->out + rank * g->size_bytes, c->body, g->size_bytes);
    wire_channel_next(c);
    g->came[rank] = true;
    g->came_count++;
    return true;
}

static bool root_fail_late(struct bootstrap_tcp *t, const struct gathering *g, GError **error)
{
    g_autofree bool *absent = g_new0(bool, t->base.rank_count);
    for (uint32_t r = 0; r < t->base.rank_count; r++) absent[r] = !g->came[r];
    g_autofree char *ranks = bootstrap_ranks_text(absent, t->base.rank_count);
    root_fail(t, g_strdup_printf("%s did not come to exchange %u within %u ms", ranks, t->exchange, t->base.timeout_ms),
              error);
    return false;
}

/* Tells each rank whose share has come that rank 0 is alive, so that the rank's timeout begins anew. */
static void root_say_come(struct bootstrap_tcp *t, const struct gathering *g, uint64_t deadline_ms)
{
    for (uint32_t r = 1; r < t->base.rank_count; r++)
        if (g->came[r]) wire_channel_send(&t->channels[r], WIRE_COME, NULL, 0, deadline_ms);
}

static bool root_gather(struct bootstrap_tcp *t, struct gathering *g, GError **error)
{
    const uint32_t rank_count = t->base.rank_count;
    const uint64_t start_ms = bootstrap_now_ms(), deadline_ms = start_ms + t->base.timeout_ms;
    g_autofree struct pollfd *pollers = g_new0(struct pollfd, rank_count);
    bool ok = true, said_come = false;
    while (ok && g->came_count < rank_count) {
        const uint64_t wake_ms = said_come ? deadline_ms : MIN(deadline_ms, start_ms + COME_MS);
        for (uint32_t r = 0; r < rank_count; r++)
            pollers[r] = (struct pollfd){ .fd = g->came[r] ? -1 : t->channels[r].socket, .events = POLLIN };
        poll(pollers, rank_count, bootstrap_serve_ms(&t->base, wake_ms));
        for (uint32_t r = 0; r < rank_count && ok; r++)
            if (pollers[r].revents) ok = root_take(t, g, r, error);
        if (!ok || g->came_count == rank_count) break;
        if (!said_come && bootstrap_now_ms() >= start_ms + COME_MS) {
            root_say_come(t, g, deadline_ms);
            said_come = true;
        }
        if (bootstrap_now_ms() >= deadline_ms) ok = root_fail_late(t, g, error);
    }
    return ok;
}

static bool root_hand_out(struct bootstrap_tcp *t, const struct gathering *g, GError **error)
{
    const uint64_t deadline_ms = bootstrap_now_ms() + t->base.timeout_ms;
    const size_t total_bytes = g->size_bytes * t->base.rank_count;
    for (uint32_t r = 1; r < t->base.rank_count; r++) {
        const int rc = wire_channel_send(&t->channels[r], WIRE_RESULT, g->out, total_bytes, deadline_ms);
        if (rc)
            return root_fail(t, g_strdup_printf("exchange %u: rank %u %s", t->exchange, r, wire_describe(rc)), error);
    }
    return true;
}

static bool root_allgather(struct bootstrap_tcp *t, const void *in, size_t size_bytes, void *out, GError **error)
{
    struct gathering g = { .size_bytes = size_bytes, .out = out, .came = g_new0(bool, t->base.rank_count) };
    if (size_bytes) memcpy(g.out, in, size_bytes);
    g.came[0] = true;
    g.came_count = 1;
    const bool ok = root_gather(t, &g, error) && root_hand_out(t, &g, error);
    g_free(g.came);
    return ok;
}

/* --- other ranks --- */

static bool member_fail(struct bootstrap_tcp *t, int rc, GError **error)
{
    return tcp_fail(t, g_strdup_printf("exchange %u: rank 0 %s", t->exchange, wire_describe(rc)), error);
}

static bool member_take_failure(struct bootstrap_tcp *t, GError **error)
{
    return tcp_fail(t, channel_text(&t->channels[0]), error);
}

/* Waits for the next message.  A working rank 0 would name the missing rank in time, so -ETIMEDOUT means that rank 0
 * is gone or stuck. */
static int member_receive(struct bootstrap_tcp *t, size_t size_bytes_max, uint64_t deadline_ms)
{
    struct wire_channel *const c = &t->channels[0];
    for (;;) {
        struct pollfd poller = { .fd = c->socket, .events = POLLIN };
        const int rc = wire_channel_advance(c, size_bytes_max);
        if (rc != -EAGAIN) return rc;
        if (poll(&poller, 1, bootstrap_serve_ms(&t->base, deadline_ms)) == 0 && bootstrap_now_ms() >= deadline_ms)
            return -ETIMEDOUT;
    }
}

static void member_answer(struct bootstrap_tcp *t)
{
    const struct bootstrap_wait wait = bootstrap_wait_of(&t->base);
    wire_channel_send(&t->channels[0], WIRE_STATE, &wait, sizeof wait, bootstrap_now_ms() + ROOT_MARGIN_MS);
}

static bool member_take_result(struct bootstrap_tcp *t, size_t total_bytes, void *out, GError **error)
{
    struct wire_channel *const c = &t->channels[0];
    uint64_t deadline_ms = bootstrap_now_ms() + t->base.timeout_ms + ROOT_MARGIN_MS;
    for (;;) {
        const int rc = member_receive(t, body_bytes_max(total_bytes), deadline_ms);
        if (rc) return member_fail(t, rc, error);
        if (c->header.kind == WIRE_ASK) member_answer(t);
        else if (c->header.kind != WIRE_COME) break;
        wire_channel_next(c);
        deadline_ms = bootstrap_now_ms() + t->base.timeout_ms + ROOT_MARGIN_MS;
    }
    if (c->header.kind == WIRE_FAILED) return member_take_failure(t, error);
    if (c->header.kind != WIRE_RESULT || c->header.size_bytes != total_bytes) return member_fail(t, -EBADMSG, error);
    if (total_bytes) memcpy(out, c->body, total_bytes);
    wire_channel_next(c);
    return true;
}

static bool member_allgather(struct bootstrap_tcp *t, const void *in, size_t size_bytes, void *out, GError **error)
{
    const uint64_t deadline_ms = bootstrap_now_ms() + t->base.timeout_ms;
    const int rc = wire_channel_send(&t->channels[0], WIRE_SHARE, in, size_bytes, deadline_ms);
    /* If rank 0 has given up and left, the send fails, but its reason can be received. */
    if (rc && rc != -EPIPE && rc != -ECONNRESET) return member_fail(t, rc, error);
    return member_take_result(t, size_bytes * t->base.rank_count, out, error);
}

/* --- the bootstrap --- */

static bool tcp_allgather(struct bootstrap *b, const void *in, size_t size_bytes, void *out, GError **error)
{
    struct bootstrap_tcp *const t = (struct bootstrap_tcp *)b;
    g_assert(bootstrap_size_allowed(size_bytes, b->rank_count));
    if (t->failure) return error_run(error, "%s", t->failure);
    const bool ok =
        b->rank == 0 ? root_allgather(t, in, size_bytes, out, error) : member_allgather(t, in, size_bytes, out, error);
    t->exchange++;
    return ok;
}

/* Checks, between exchanges, the message that the rank has begun to send.  A share that came early stays in the
 * channel. */
static bool root_check_rank(struct bootstrap_tcp *t, uint32_t rank, GError **error)
{
    struct wire_channel *const c = &t->channels[rank];
    struct gathering none = { .size_bytes = 0 };
    struct wire_header header;
    const ssize_t n = recv(c->socket, &header, sizeof header, MSG_PEEK | MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        return root_fail(t, g_strdup_printf("rank %u %s", rank, wire_describe(-ECONNRESET)), error);
    if (n < (ssize_t)sizeof header || (header.kind != WIRE_GIVE_UP && header.kind != WIRE_HANG)) return true;
    return root_take(t, &none, rank, error);
}

static bool member_check(struct bootstrap_tcp *t, GError **error)
{
    struct wire_channel *const c = &t->channels[0];
    const int rc = wire_channel_advance(c, BOOTSTRAP_REASON_BYTES_MAX);
    if (rc == -EAGAIN) return true;
    if (rc) return member_fail(t, rc, error);
    if (c->header.kind == WIRE_ASK) {
        member_answer(t);
        wire_channel_next(c);
        return true;
    }
    if (c->header.kind != WIRE_FAILED) return member_fail(t, -EBADMSG, error);
    return member_take_failure(t, error);
}

/* Tells rank 0 that this rank hangs.  Rank 0 answers that it is alive, and asks the other ranks.  If rank 0 does not
 * answer, it is the rank that holds up the run. */
static bool tcp_hang(struct bootstrap *b, const struct bootstrap_wait *wait, GError **error)
{
    struct bootstrap_tcp *const t = (struct bootstrap_tcp *)b;
    uint64_t deadline_ms = bootstrap_now_ms() + BOOTSTRAP_ASK_MS;
    if (t->failure) return error_run(error, "%s", t->failure);
    if (b->rank == 0) return root_ask(t, 0, wait, error);
    struct wire_channel *const c = &t->channels[0];
    int rc = wire_channel_send(c, WIRE_HANG, wait, sizeof *wait, deadline_ms);
    while (!rc && (rc = member_receive(t, BOOTSTRAP_REASON_BYTES_MAX, deadline_ms)) == 0) {
        if (c->header.kind == WIRE_FAILED) return member_take_failure(t, error);
        wire_channel_next(c);
        deadline_ms = bootstrap_now_ms() + BOOTSTRAP_ASK_MS + ROOT_MARGIN_MS;
    }
    return tcp_fail(
        t, g_strdup_printf("rank 0 holds up the run: it %s; rank %u: %s", wire_describe(rc), b->rank, wait->text),
        error);
}

static bool tcp_check(struct bootstrap *b, GError **error)
{
    struct bootstrap_tcp *const t = (struct bootstrap_tcp *)b;
    bool ok = true;
    if (t->failure) return error_run(error, "%s", t->failure);
    if (b->rank != 0) return member_check(t, error);
    for (uint32_t r = 1; r < b->rank_count && ok; r++) ok = root_check_rank(t, r, error);
    return ok;
}

static void tcp_abort(struct bootstrap *b, const char *reason)
{
    struct bootstrap_tcp *const t = (struct bootstrap_tcp *)b;
    const size_t size_bytes = strnlen(reason, BOOTSTRAP_REASON_BYTES_MAX / 2);
    if (t->failure) return;
    t->failure = g_strdup_printf("rank %u gave up: %.*s", b->rank, (int)size_bytes, reason);
    if (b->rank == 0) tell_all(t, t->failure);
    else wire_channel_send(&t->channels[0], WIRE_GIVE_UP, reason, size_bytes, bootstrap_now_ms() + ROOT_MARGIN_MS);
}

static void tcp_free(struct bootstrap *b)
{
    struct bootstrap_tcp *const t = (struct bootstrap_tcp *)b;
    for (uint32_t r = 0; r < t->channel_count; r++) wire_channel_close(&t->channels[r]);
    if (t->end) t->end();
    g_free(t->channels);
    g_free(t->failure);
    g_free(t);
}

static const struct bootstrap_ops tcp_ops = { "tcp", tcp_allgather, tcp_abort, tcp_check, tcp_free, tcp_hang };

static bool tcp_join(struct bootstrap_tcp *t, const struct bootstrap_tcp_options *o, GError **error)
{
    GError *reason = NULL;
    if (o->rank != 0) return bootstrap_join_member(o, &t->channels[0], error);
    if (bootstrap_join_root(o, t->channels, &reason)) return true;
    tell_all(t, reason->message);
    g_propagate_error(error, reason);
    return false;
}

struct bootstrap *bootstrap_tcp_new(const struct bootstrap_tcp_options *o, GError **error)
{
    if (o->rank_count == 0 || o->rank >= o->rank_count)
        return error_null(error, "--rank %u is not below --world-size %u", o->rank, o->rank_count);
    if (!o->secret.bytes || !o->secret.size_bytes)
        return error_null(error, "joining by TCP needs a secret shared by all ranks");
    struct bootstrap_tcp *const t = g_new0(struct bootstrap_tcp, 1);
    t->ops = tcp_ops;
    if (o->name) t->ops.name = o->name;
    t->end = o->end;
    t->base =
        (struct bootstrap){ .ops = &t->ops, .rank = o->rank, .rank_count = o->rank_count, .timeout_ms = o->timeout_ms };
    t->channel_count = o->rank == 0 ? o->rank_count : 1;
    t->channels = g_new0(struct wire_channel, t->channel_count);
    for (uint32_t r = 0; r < t->channel_count; r++) t->channels[r].socket = -1;
    /* The barrier ends when all ranks have joined.  On failure it tells every rank which ranks did not join. */
    if (tcp_join(t, o, error) && bootstrap_barrier(&t->base, error)) return &t->base;
    bootstrap_free(&t->base);
    return NULL;
}
