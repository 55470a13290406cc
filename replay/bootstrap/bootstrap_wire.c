/* bootstrap_wire.c - authenticated messages over a stream socket, see bootstrap_wire.h.
 *
 * This file knows sockets and MACs, but no exchanges and no rules of joining. */
#include "replay/bootstrap/bootstrap_wire.h"

#include "replay/bootstrap/bootstrap_internal.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

_Static_assert(G_BYTE_ORDER == G_LITTLE_ENDIAN, "wire structs are sent as they lie in memory");

struct field {
    const void *data;
    size_t size_bytes;
};

static void sign(const void *key, size_t key_bytes, const struct field *fields, int field_count, uint8_t *mac)
{
    GHmac *const hmac = g_hmac_new(G_CHECKSUM_SHA256, key, key_bytes);
    gsize mac_bytes = WIRE_MAC_BYTES;
    for (int i = 0; i < field_count; i++)
        if (fields[i].size_bytes) g_hmac_update(hmac, fields[i].data, (gssize)fields[i].size_bytes);
    g_hmac_get_digest(hmac, mac, &mac_bytes);
    g_hmac_unref(hmac);
    g_assert(mac_bytes == WIRE_MAC_BYTES);
}

void wire_hello_sign(const struct bootstrap_secret *secret, const struct wire_challenge *challenge,
                     const struct wire_hello *hello, uint8_t *mac)
{
    const struct field fields[] = { { "hello", 5 },
                                    { challenge->nonce, WIRE_NONCE_BYTES },
                                    { hello, offsetof(struct wire_hello, mac) } };
    sign(secret->bytes, secret->size_bytes, fields, 3, mac);
}

void wire_welcome_sign(const struct bootstrap_secret *secret, const struct wire_challenge *challenge,
                       const struct wire_hello *hello, const struct wire_welcome *welcome, uint8_t *mac)
{
    const struct field fields[] = { { "welcome", 7 },
                                    { challenge->nonce, WIRE_NONCE_BYTES },
                                    { hello->mac, WIRE_MAC_BYTES },
                                    { welcome, offsetof(struct wire_welcome, mac) } };
    sign(secret->bytes, secret->size_bytes, fields, 4, mac);
}

bool wire_secrets_equal(const uint8_t *a, const uint8_t *b, size_t size_bytes)
{
    unsigned difference = 0;
    for (size_t i = 0; i < size_bytes; i++) difference |= a[i] ^ b[i];
    return difference == 0;
}

static int wait_for(int socket, short events, uint64_t deadline_ms)
{
    struct pollfd poller = { .fd = socket, .events = events };
    const int ready = poll(&poller, 1, bootstrap_remaining_ms(deadline_ms));
    if (ready < 0) return errno == EINTR ? 0 : -errno;
    return ready == 0 ? -ETIMEDOUT : 0;
}

int wire_write(int socket, const void *data, size_t size_bytes, uint64_t deadline_ms)
{
    for (size_t sent = 0; sent < size_bytes;) {
        const ssize_t n = send(socket, (const char *)data + sent, size_bytes - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        int rc = 0;
        if (n >= 0) sent += (size_t)n;
        else if (errno == EAGAIN) rc = wait_for(socket, POLLOUT, deadline_ms);
        else if (errno != EINTR) rc = -errno;
        if (rc) return rc;
    }
    return 0;
}

/* Reads the bytes that have arrived, at most size_bytes.  Returns their number, which is above 0, or a negative
 * errno such as -EAGAIN or -ECONNRESET. */
static ssize_t read_some(int socket, void *data, size_t size_bytes)
{
    const ssize_t n = recv(socket, data, size_bytes, MSG_DONTWAIT);
    if (n < 0) return errno == EINTR ? -EAGAIN : -errno;
    return n == 0 ? -ECONNRESET : n;
}

int wire_read(int socket, void *data, size_t size_bytes, uint64_t deadline_ms)
{
    for (size_t arrived = 0; arrived < size_bytes;) {
        const ssize_t n = read_some(socket, (char *)data + arrived, size_bytes - arrived);
        if (n > 0) {
            arrived += (size_t)n;
            continue;
        }
        const int rc = n == -EAGAIN ? wait_for(socket, POLLIN, deadline_ms) : (int)n;
        if (rc) return rc;
    }
    return 0;
}

void wire_channel_open(struct wire_channel *c, int socket, bool root, const struct bootstrap_secret *secret,
                       const struct wire_challenge *challenge, const struct wire_hello *hello)
{
    const struct field fields[] = { { "key", 3 },
                                    { challenge->nonce, WIRE_NONCE_BYTES },
                                    { hello->mac, WIRE_MAC_BYTES } };
    *c = (struct wire_channel){ .socket = socket, .root = root };
    sign(secret->bytes, secret->size_bytes, fields, 3, c->key);
}

void wire_channel_close(struct wire_channel *c)
{
    if (c->socket >= 0) close(c->socket);
    c->socket = -1;
    g_free(c->body);
    c->body = NULL;
}

static void channel_sign(const struct wire_channel *c, bool by_root, const struct wire_header *header, const void *body,
                         uint8_t *mac)
{
    const struct field fields[] = { { by_root ? "root" : "rank", 4 },
                                    { header, sizeof *header },
                                    { body, header->size_bytes } };
    sign(c->key, sizeof c->key, fields, 3, mac);
}

int wire_channel_send(struct wire_channel *c, uint32_t kind, const void *body, size_t size_bytes, uint64_t deadline_ms)
{
    const struct wire_header header = { .kind = kind, .sequence = c->sent++, .size_bytes = size_bytes };
    uint8_t mac[WIRE_MAC_BYTES];
    channel_sign(c, c->root, &header, body, mac);
    int rc = wire_write(c->socket, &header, sizeof header, deadline_ms);
    if (!rc) rc = wire_write(c->socket, body, size_bytes, deadline_ms);
    return rc ? rc : wire_write(c->socket, mac, sizeof mac, deadline_ms);
}

/* A message consists of header, body and MAC.  Returns where the next bytes that arrive belong.  Sets *missing_bytes
 * to the number of bytes that this header, body or MAC still lacks. */
static uint8_t *channel_target(struct wire_channel *c, size_t *missing_bytes)
{
    const size_t head_bytes = sizeof c->header, body_end = head_bytes + c->header.size_bytes;
    if (c->arrived_bytes < head_bytes) {
        *missing_bytes = head_bytes - c->arrived_bytes;
        return (uint8_t *)&c->header + c->arrived_bytes;
    }
    if (c->arrived_bytes < body_end) {
        *missing_bytes = body_end - c->arrived_bytes;
        return c->body + (c->arrived_bytes - head_bytes);
    }
    *missing_bytes = body_end + WIRE_MAC_BYTES - c->arrived_bytes;
    return c->mac + (c->arrived_bytes - body_end);
}

static int channel_take_header(struct wire_channel *c, size_t size_bytes_max)
{
    if (c->header.sequence != c->received) return -EBADMSG;
    if (c->header.size_bytes > size_bytes_max) return -EMSGSIZE;
    if (c->header.size_bytes <= c->body_bytes_allocated) return 0;
    g_free(c->body);
    c->body_bytes_allocated = c->header.size_bytes;
    c->body = g_malloc(c->body_bytes_allocated);
    return 0;
}

int wire_channel_advance(struct wire_channel *c, size_t size_bytes_max)
{
    for (;;) {
        size_t missing_bytes;
        uint8_t *const target = channel_target(c, &missing_bytes);
        if (missing_bytes == 0) break;
        const ssize_t n = read_some(c->socket, target, missing_bytes);
        if (n < 0) return (int)n;
        c->arrived_bytes += (size_t)n;
        if (c->arrived_bytes != sizeof c->header) continue;
        const int rc = channel_take_header(c, size_bytes_max);
        if (rc) return rc;
    }
    uint8_t mac[WIRE_MAC_BYTES];
    channel_sign(c, !c->root, &c->header, c->body, mac);
    return wire_secrets_equal(mac, c->mac, WIRE_MAC_BYTES) ? 0 : -EBADMSG;
}

void wire_channel_next(struct wire_channel *c)
{
    c->received++;
    c->arrived_bytes = 0;
}

const char *wire_describe(int result)
{
    switch (-result) {
    case ECONNRESET:
    case EPIPE: return "closed the connection";
    case ETIMEDOUT: return "does not answer";
    case EMSGSIZE: return "announced a message larger than this exchange allows";
    case EBADMSG: return "sent a message that is forged, altered or repeated";
    default: return strerror(-result);
    }
}
