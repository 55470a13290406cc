/* bootstrap_join.c - how ranks join a TCP bootstrap: addresses, listening, greeting, refusing.
 *
 * A caller without the secret is refused and only counted.  A caller that has the secret but was started differently
 * ends the run at once for all ranks, and the error names the difference.  This file knows nothing of later
 * exchanges. */

#include "replay/bootstrap/bootstrap_internal.h"
#include "replay/bootstrap/bootstrap_wire.h"
#include "sim/version.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    CALLERS_MAX = 64,   /* callers served at a time; one more caller replaces the oldest */
    GREETING_MS = 5000, /* limit of a caller's greeting; lower if the whole time for joining is short */
    GREETING_SHARE = 4,
    CONNECT_RETRY_MS = 50,
    CONNECT_SHARE_MS = 2000, /* how long each address is tried if there are several */
    NAME_BYTES = NI_MAXHOST + 16,
};

/* --- addresses --- */

/* Finds the addresses of "host:port", "[::1]:port" or ":port".  Without a host, the address is loopback. */
static bool address_resolve(const char *root, struct addrinfo **addresses, GError **error)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV };
    const char *const colon = strrchr(root, ':');
    if (!colon || !colon[1]) return error_input(error, "--root: expected host:port, found '%s'", root);
    const bool bracketed = root[0] == '[' && colon > root && colon[-1] == ']';
    char *const host =
        bracketed ? g_strndup(root + 1, (gsize)(colon - root - 2)) : g_strndup(root, (gsize)(colon - root));
    const int rc = getaddrinfo(*host ? host : "127.0.0.1", colon + 1, &hints, addresses);
    g_free(host);
    if (rc) return error_input(error, "--root %s: %s", root, gai_strerror(rc));
    return true;
}

static void address_free(void *address) { freeaddrinfo(address); }

/* Returns a chain of struct addrinfo for each address in root.  NULL and *error if one of them is not an address. */
static GPtrArray *root_resolve(const char *root, GError **error)
{
    g_autoptr(GPtrArray) chains = g_ptr_array_new_with_free_func(address_free);
    g_auto(GStrv) list = g_strsplit(root ? root : "", " ", 0);
    if (!list[0]) return error_null(error, "--root: expected host:port, found ''");
    for (uint32_t i = 0; list[i]; i++) {
        struct addrinfo *chain = NULL;
        if (!address_resolve(list[i], &chain, error)) return NULL;
        g_ptr_array_add(chains, chain);
    }
    return g_steal_pointer(&chains);
}

static void name_address(const struct sockaddr *address, socklen_t size_bytes, char *name)
{
    char host[NI_MAXHOST] = "?", port[8] = "?";
    getnameinfo(address, size_bytes, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
    g_snprintf(name, NAME_BYTES, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
}

static void fill_nonce(uint8_t *nonce) { g_assert(getrandom(nonce, WIRE_NONCE_BYTES, 0) == WIRE_NONCE_BYTES); }

static void send_at_once(int socket)
{
    const int on = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/* --- rank 0 --- */

struct caller {
    int socket; /* -1: this entry is free */
    uint64_t deadline_ms;
    size_t arrived_bytes;
    struct wire_challenge challenge;
    struct wire_hello hello;
    char name[NAME_BYTES];
};

struct door {
    const struct bootstrap_tcp_options *options;
    struct wire_channel *channels;
    int listener;
    uint32_t joined;
    uint32_t turned_away; /* callers that could not be accepted */
    int turned_away_errno;
    uint64_t accept_again_ms; /* no caller is accepted before this time */
    uint32_t refused;
    char refused_last[NAME_BYTES];
    char address[NAME_BYTES];
    struct caller callers[CALLERS_MAX];
};

static int listen_at(const struct addrinfo *a)
{
    const int on = 1;
    const int s = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s < 0) return -1;
    setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(s, a->ai_addr, a->ai_addrlen) == 0 && listen(s, CALLERS_MAX) == 0) return s;
    const int reason = errno;
    close(s);
    errno = reason;
    return -1;
}

/* The port in the address of a bound socket; 0 if the address has no port. */
static uint16_t port_of(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET6) return ntohs(((const struct sockaddr_in6 *)address)->sin6_port);
    return address->ss_family == AF_INET ? ntohs(((const struct sockaddr_in *)address)->sin_port) : 0;
}

static bool door_open(struct door *d, GError **error)
{
    g_autoptr(GPtrArray) chains = root_resolve(d->options->root, error);
    if (!chains) return false;
    d->listener = -1;
    for (guint i = 0; i < chains->len; i++)
        for (const struct addrinfo *a = g_ptr_array_index(chains, i); a && d->listener < 0; a = a->ai_next)
            d->listener = listen_at(a);
    const int reason = errno;
    struct sockaddr_storage own = { 0 };
    socklen_t own_bytes = sizeof own;
    if (d->listener < 0)
        return error_run(error, "rank 0 cannot listen at %s: %s", d->options->root, g_strerror(reason));
    getsockname(d->listener, (struct sockaddr *)&own, &own_bytes);
    name_address((struct sockaddr *)&own, own_bytes, d->address);
    if (d->options->listens) d->options->listens(d->options->context, port_of(&own));
    return true;
}

static void caller_leave(struct caller *c)
{
    if (c->socket >= 0) close(c->socket);
    c->socket = -1;
}

static void door_refuse(struct door *d, struct caller *c)
{
    d->refused++;
    memcpy(d->refused_last, c->name, sizeof c->name);
    caller_leave(c);
}

/* The caller that has waited longest; NULL if there is none. */
static struct caller *door_oldest(struct door *d)
{
    struct caller *oldest = NULL;
    for (int i = 0; i < CALLERS_MAX; i++) {
        struct caller *const c = &d->callers[i];
        if (c->socket >= 0 && (!oldest || c->deadline_ms < oldest->deadline_ms)) oldest = c;
    }
    return oldest;
}

static struct caller *door_place(struct door *d)
{
    for (int i = 0; i < CALLERS_MAX; i++)
        if (d->callers[i].socket < 0) return &d->callers[i];
    struct caller *const oldest = door_oldest(d);
    door_refuse(d, oldest);
    return oldest;
}

/* Makes room when no descriptor or no memory is left for one more caller.  Drops the oldest caller, and accepts none
 * for a while.  Without this pause, poll() would return at once, because the listener stays ready. */
static void door_turn_away(struct door *d, int reason)
{
    struct caller *const oldest = door_oldest(d);
    d->turned_away++;
    d->turned_away_errno = reason;
    d->accept_again_ms = bootstrap_now_ms() + CONNECT_RETRY_MS;
    if (oldest) door_refuse(d, oldest);
}

static void door_accept(struct door *d)
{
    struct sockaddr_storage address;
    socklen_t address_bytes = sizeof address;
    const int s = accept4(d->listener, (struct sockaddr *)&address, &address_bytes, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (s < 0) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) door_turn_away(d, errno);
        return;
    }
    struct caller *const c = door_place(d);
    *c = (struct caller){ .socket = s,
                          .deadline_ms =
                              bootstrap_now_ms() + MIN(GREETING_MS, d->options->timeout_ms / GREETING_SHARE) };
    name_address((struct sockaddr *)&address, address_bytes, c->name);
    send_at_once(s);
    memcpy(c->challenge.magic, WIRE_MAGIC, sizeof c->challenge.magic);
    fill_nonce(c->challenge.nonce);
    /* A new connection has room for these 40 bytes.  A connection without room is dropped. */
    if (wire_write(s, &c->challenge, sizeof c->challenge, 0) != 0) door_refuse(d, c);
}

static void door_answer(struct door *d, struct caller *c, uint32_t verdict)
{
    struct wire_welcome welcome = { .verdict = verdict, .rank_count = d->options->rank_count };
    g_strlcpy(welcome.build, eptwin_version(), sizeof welcome.build);
    wire_welcome_sign(&d->options->secret, &c->challenge, &c->hello, &welcome, welcome.mac);
    wire_write(c->socket, &welcome, sizeof welcome, bootstrap_now_ms() + CONNECT_RETRY_MS);
}

/* Judges a hello whose MAC shows that the sender knows the secret.  Returns WIRE_JOINED, or another verdict and *error,
 * which says what is wrong with the hello. */
static enum wire_verdict door_judge(const struct door *d, const struct caller *c, GError **error)
{
    const struct wire_hello *const h = &c->hello;
    const uint32_t rank_count = d->options->rank_count;
    if (h->rank_count != rank_count) {
        error_input(error, "rank %u at %s was started as one of %u ranks, rank 0 as one of %u", h->rank, c->name,
                    h->rank_count, rank_count);
        return WIRE_WRONG_COUNT;
    }
    if (strncmp(h->build, eptwin_version(), sizeof h->build - 1) != 0) {
        g_autofree char *build = text_printable(h->build, sizeof h->build);
        error_input(error, "rank %u at %s is eptwin %s, rank 0 is %s", h->rank, c->name, build, eptwin_version());
        return WIRE_WRONG_BUILD;
    }
    if (h->rank == 0 || h->rank >= rank_count) {
        error_input(error, "%s says it is rank %u, expected 1 to %u", c->name, h->rank, rank_count - 1);
        return WIRE_WRONG_RANK;
    }
    if (d->channels[h->rank].socket >= 0) {
        error_input(error, "two processes say they are rank %u, the second at %s", h->rank, c->name);
        return WIRE_RANK_TAKEN;
    }
    return WIRE_JOINED;
}

static bool door_greet(struct door *d, struct caller *c, GError **error)
{
    uint8_t mac[WIRE_MAC_BYTES];
    wire_hello_sign(&d->options->secret, &c->challenge, &c->hello, mac);
    if (memcmp(c->hello.magic, WIRE_MAGIC, sizeof c->hello.magic) != 0) {
        door_refuse(d, c);
        return true;
    }
    if (!wire_secrets_equal(mac, c->hello.mac, WIRE_MAC_BYTES)) {
        door_answer(d, c, WIRE_WRONG_SECRET);
        door_refuse(d, c);
        return true;
    }
    const enum wire_verdict verdict = door_judge(d, c, error);
    door_answer(d, c, verdict);
    if (verdict != WIRE_JOINED) return false;
    wire_channel_open(&d->channels[c->hello.rank], c->socket, true, &d->options->secret, &c->challenge, &c->hello);
    c->socket = -1;
    d->joined++;
    return true;
}

static bool door_listen(struct door *d, struct caller *c, GError **error)
{
    const ssize_t n =
        recv(c->socket, (char *)&c->hello + c->arrived_bytes, sizeof c->hello - c->arrived_bytes, MSG_DONTWAIT);
    if (n > 0) c->arrived_bytes += (size_t)n;
    if (c->arrived_bytes == sizeof c->hello) return door_greet(d, c, error);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) door_refuse(d, c);
    return true;
}

/* Lists the sockets to poll: the listener, if callers are accepted now, and the callers. */
static nfds_t door_pollers(const struct door *d, struct pollfd *pollers, uint32_t *caller)
{
    nfds_t count = 0;
    pollers[count++] =
        (struct pollfd){ .fd = bootstrap_now_ms() >= d->accept_again_ms ? d->listener : -1, .events = POLLIN };
    for (uint32_t i = 0; i < CALLERS_MAX; i++) {
        if (d->callers[i].socket < 0) continue;
        caller[count] = i;
        pollers[count++] = (struct pollfd){ .fd = d->callers[i].socket, .events = POLLIN };
    }
    return count;
}

static bool door_step(struct door *d, uint64_t deadline_ms, GError **error)
{
    struct pollfd pollers[1 + CALLERS_MAX];
    uint32_t caller[1 + CALLERS_MAX];
    const nfds_t count = door_pollers(d, pollers, caller);
    if (poll(pollers, count, MIN(bootstrap_remaining_ms(deadline_ms), CONNECT_RETRY_MS)) < 0 && errno != EINTR)
        return error_run(error, "rank 0 cannot wait for callers: %s", g_strerror(errno));
    for (nfds_t i = 1; i < count; i++) {
        struct caller *const c = &d->callers[caller[i]];
        if (pollers[i].revents && !door_listen(d, c, error)) return false;
        if (c->socket >= 0 && bootstrap_now_ms() >= c->deadline_ms) door_refuse(d, c);
    }
    if (pollers[0].revents) door_accept(d);
    return true;
}

static bool door_fail_late(const struct door *d, GError **error)
{
    const uint32_t rank_count = d->options->rank_count;
    g_autofree bool *absent = g_new0(bool, rank_count);
    for (uint32_t r = 1; r < rank_count; r++) absent[r] = d->channels[r].socket < 0;
    g_autofree char *ranks = bootstrap_ranks_text(absent, rank_count);
    g_autofree char *refused =
        d->refused ? g_strdup_printf("; refused without the right secret: %u, the last %s", d->refused, d->refused_last)
                   : g_strdup("");
    g_autofree char *turned_away = d->turned_away ? g_strdup_printf("; could not accept callers: %u times: %s",
                                                                    d->turned_away, g_strerror(d->turned_away_errno))
                                                  : g_strdup("");
    error_run(error, "%s did not join at %s within %u ms%s%s", ranks, d->address, d->options->timeout_ms, refused,
              turned_away);
    return false;
}

bool bootstrap_join_root(const struct bootstrap_tcp_options *o, struct wire_channel *channels, GError **error)
{
    const uint64_t deadline_ms = bootstrap_now_ms() + o->timeout_ms;
    g_autofree struct door *d = g_new0(struct door, 1);
    d->options = o;
    d->channels = channels;
    for (int i = 0; i < CALLERS_MAX; i++) d->callers[i].socket = -1;
    bool ok = door_open(d, error);
    if (ok) {
        while (ok && d->joined < o->rank_count - 1 && bootstrap_now_ms() < deadline_ms)
            ok = door_step(d, deadline_ms, error);
        if (ok && d->joined < o->rank_count - 1) ok = door_fail_late(d, error);
        for (int i = 0; i < CALLERS_MAX; i++) caller_leave(&d->callers[i]);
        close(d->listener);
    }
    return ok;
}

/* --- other ranks --- */

/* Connects to an address.  Returns the socket, or a negative errno. */
static int connect_to(const struct addrinfo *a, uint64_t deadline_ms)
{
    const int s = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct pollfd poller = { .fd = s, .events = POLLOUT };
    if (s < 0) return -errno;
    int reason = connect(s, a->ai_addr, a->ai_addrlen) == 0 ? 0 : errno;
    socklen_t reason_bytes = sizeof reason;
    if (reason == EINPROGRESS) {
        if (poll(&poller, 1, bootstrap_remaining_ms(deadline_ms)) > 0)
            getsockopt(s, SOL_SOCKET, SO_ERROR, &reason, &reason_bytes);
        else reason = ETIMEDOUT;
    }
    if (reason == 0) return s;
    close(s);
    return -reason;
}

/* Tries one address after another.  Returns a connected socket, or the negative errno of the last address.  If there
 * are several addresses, each may take at most CONNECT_SHARE_MS. */
static int connect_once(const GPtrArray *chains, uint64_t deadline_ms)
{
    int s = -EADDRNOTAVAIL;
    for (guint i = 0; i < chains->len; i++)
        for (const struct addrinfo *a = g_ptr_array_index(chains, i); a; a = a->ai_next) {
            const bool last = i + 1 == chains->len && !a->ai_next;
            s = connect_to(a, last ? deadline_ms : MIN(deadline_ms, bootstrap_now_ms() + CONNECT_SHARE_MS));
            if (s >= 0) return s;
        }
    return s;
}

static bool member_connect(const struct bootstrap_tcp_options *o, uint64_t deadline_ms, int *connected, GError **error)
{
    g_autoptr(GPtrArray) chains = root_resolve(o->root, error);
    int s;
    if (!chains) return false;
    while ((s = connect_once(chains, deadline_ms)) < 0 && bootstrap_now_ms() < deadline_ms)
        g_usleep(CONNECT_RETRY_MS * 1000);
    if (s < 0)
        return error_run(error, "rank %u cannot connect to rank 0 at %s within %u ms: %s", o->rank, o->root,
                         o->timeout_ms, g_strerror(-s));
    send_at_once(s);
    *connected = s;
    return true;
}

static bool member_explain(const struct bootstrap_tcp_options *o, const struct wire_welcome *w, GError **error)
{
    switch (w->verdict) {
    case WIRE_JOINED: return true;
    case WIRE_WRONG_COUNT:
        return error_input(error, "rank %u was started as one of %u ranks, rank 0 at %s as one of %u", o->rank,
                           o->rank_count, o->root, w->rank_count);
    case WIRE_WRONG_BUILD: {
        g_autofree char *build = text_printable(w->build, sizeof w->build);
        return error_input(error, "rank %u is eptwin %s, rank 0 at %s is %s", o->rank, eptwin_version(), o->root,
                           build);
    }
    case WIRE_WRONG_RANK: return error_input(error, "rank 0 at %s has no place for a rank %u", o->root, o->rank);
    case WIRE_RANK_TAKEN: return error_input(error, "rank 0 at %s has a rank %u already", o->root, o->rank);
    default: return error_input(error, "rank 0 at %s sent a verdict that this eptwin does not know", o->root);
    }
}

/* Greets rank 0 over the connected socket s, and opens the channel.  Rank 0 closes a connection before it reads the
 * hello if too many callers come.  Then *again is set, and the rank should try again. */
static bool member_greet(const struct bootstrap_tcp_options *o, int s, uint64_t deadline_ms,
                         struct wire_channel *channel, bool *again, GError **error)
{
    struct wire_challenge challenge;
    struct wire_hello hello = { .magic = WIRE_MAGIC, .rank = o->rank, .rank_count = o->rank_count };
    struct wire_welcome welcome;
    uint8_t mac[WIRE_MAC_BYTES];
    int rc = wire_read(s, &challenge, sizeof challenge, deadline_ms);
    *again = false;
    if (!rc && memcmp(challenge.magic, WIRE_MAGIC, sizeof challenge.magic) != 0)
        return error_run(error, "what listens at %s is not rank 0 of this eptwin", o->root);
    g_strlcpy(hello.build, eptwin_version(), sizeof hello.build);
    fill_nonce(hello.nonce);
    wire_hello_sign(&o->secret, &challenge, &hello, hello.mac);
    if (!rc) rc = wire_write(s, &hello, sizeof hello, deadline_ms);
    if (!rc) rc = wire_read(s, &welcome, sizeof welcome, deadline_ms);
    *again = rc == -ECONNRESET || rc == -EPIPE;
    if (rc)
        return error_run(error, "rank %u: rank 0 at %s %s before it let this rank join", o->rank, o->root,
                         wire_describe(rc));
    wire_welcome_sign(&o->secret, &challenge, &hello, &welcome, mac);
    if (welcome.verdict == WIRE_WRONG_SECRET || !wire_secrets_equal(mac, welcome.mac, WIRE_MAC_BYTES))
        return error_input(error, "rank %u and rank 0 at %s do not have the same secret", o->rank, o->root);
    if (!member_explain(o, &welcome, error)) return false;
    wire_channel_open(channel, s, false, &o->secret, &challenge, &hello);
    return true;
}

bool bootstrap_join_member(const struct bootstrap_tcp_options *o, struct wire_channel *channel, GError **error)
{
    const uint64_t deadline_ms = bootstrap_now_ms() + o->timeout_ms;
    for (;;) {
        g_autoptr(GError) reason = NULL;
        bool again = false;
        int s = -1;
        if (!member_connect(o, deadline_ms, &s, error)) return false;
        if (member_greet(o, s, deadline_ms, channel, &again, &reason)) return true;
        close(s);
        if (!again || bootstrap_now_ms() + CONNECT_RETRY_MS >= deadline_ms) {
            g_propagate_error(error, g_steal_pointer(&reason));
            return false;
        }
        g_usleep(CONNECT_RETRY_MS * 1000);
    }
}
