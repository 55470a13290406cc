/* bootstrap_wire.h - what crosses a TCP connection between rank 0 (the root) and another rank (a member).
 *
 *     root                                member
 *      ── challenge: a fresh nonce ───────►
 *      ◄─ hello: who I am, my nonce, MAC ──      the MAC covers both nonces, so a forged or repeated hello is refused
 *      ── welcome: verdict, MAC ──────────►      likewise, so the root proves that it has the secret
 *      ◄═ messages: header, body, MAC ════►      keyed for this connection, numbered in each direction
 *
 * MACs are HMAC-SHA256.  Contents are not secret and not encrypted.  All numbers are little-endian.
 *
 * Rules.  Nothing blocks longer than its deadline.  Nothing is allocated for a size above the limit that the receiver
 * states.  Results are 0 or a negative errno; wire_describe() puts them in words. */
#ifndef REPLAY_BOOTSTRAP_WIRE_H
#define REPLAY_BOOTSTRAP_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "replay/bootstrap/bootstrap.h"

#define WIRE_MAGIC "EPTWIN01"

enum { WIRE_MAC_BYTES = 32, WIRE_NONCE_BYTES = 32, WIRE_BUILD_BYTES = 64 };

struct wire_challenge {
    char magic[8];
    uint8_t nonce[WIRE_NONCE_BYTES];
};

struct wire_hello {
    char magic[8];
    uint32_t rank, rank_count;
    char build[WIRE_BUILD_BYTES]; /* the version; another version may lay out messages differently */
    uint8_t nonce[WIRE_NONCE_BYTES];
    uint8_t mac[WIRE_MAC_BYTES];
};

enum wire_verdict {
    WIRE_JOINED = 1,
    WIRE_WRONG_SECRET,
    WIRE_WRONG_COUNT,
    WIRE_WRONG_RANK,
    WIRE_RANK_TAKEN,
    WIRE_WRONG_BUILD
};

struct wire_welcome {
    uint32_t verdict, rank_count; /* rank_count and build are those of the root */
    char build[WIRE_BUILD_BYTES];
    uint8_t mac[WIRE_MAC_BYTES];
};

enum wire_kind { WIRE_SHARE = 1, WIRE_COME, WIRE_RESULT, WIRE_FAILED, WIRE_GIVE_UP, WIRE_HANG, WIRE_ASK, WIRE_STATE };

struct wire_header {
    uint32_t kind, reserved;
    uint64_t sequence, size_bytes;
};

_Static_assert(sizeof(struct wire_challenge) == 40, "wire layout");
_Static_assert(sizeof(struct wire_hello) == 144, "wire layout");
_Static_assert(sizeof(struct wire_welcome) == 104, "wire layout");
_Static_assert(sizeof(struct wire_header) == 24, "wire layout");

void wire_hello_sign(const struct bootstrap_secret *secret, const struct wire_challenge *challenge,
                     const struct wire_hello *hello, uint8_t *mac);
void wire_welcome_sign(const struct bootstrap_secret *secret, const struct wire_challenge *challenge,
                       const struct wire_hello *hello, const struct wire_welcome *welcome, uint8_t *mac);
/* Compares two MACs or tokens, in a time that does not depend on where they differ. */
bool wire_secrets_equal(const uint8_t *a, const uint8_t *b, size_t size_bytes);

/* These functions write or read all size_bytes, or fail at deadline_ms.  The socket must be non-blocking. */
int wire_write(int socket, const void *data, size_t size_bytes, uint64_t deadline_ms);
int wire_read(int socket, void *data, size_t size_bytes, uint64_t deadline_ms);

/* One side of a connection after the welcome. */
struct wire_channel {
    int socket; /* -1 if the channel is not open */
    bool root;  /* whether this side is the root's */
    uint8_t key[WIRE_MAC_BYTES];
    uint64_t sent, received; /* how many messages were sent and received */
    /* The message that is coming in. */
    struct wire_header header;
    uint8_t *body;
    size_t body_bytes_allocated, arrived_bytes;
    uint8_t mac[WIRE_MAC_BYTES];
};

void wire_channel_open(struct wire_channel *c, int socket, bool root, const struct bootstrap_secret *secret,
                       const struct wire_challenge *challenge, const struct wire_hello *hello);
void wire_channel_close(struct wire_channel *c);
int wire_channel_send(struct wire_channel *c, uint32_t kind, const void *body, size_t size_bytes, uint64_t deadline_ms);
/* Takes in the bytes that have arrived, without waiting.  Returns -EAGAIN until a whole message has arrived, and
 * then 0.  Then header.kind, header.size_bytes and body are valid until wire_channel_next().  Returns -EMSGSIZE if
 * the message is larger than size_bytes_max, and -EBADMSG if its MAC is not that of the other side's next message. */
int wire_channel_advance(struct wire_channel *c, size_t size_bytes_max);
void wire_channel_next(struct wire_channel *c);

const char *wire_describe(int result);

#endif
