/* bootstrap_wire.h - what crosses a TCP connection between rank 0 (the root) and another rank (a member).
 *
 *     root                                member
 *      ── challenge: a fresh nonce ───────►
 *      ◄─ hello: who I am, my nonce, MAC ──      the MAC covers both nonces: nobody else's hello, nor this one
 *      ── welcome: verdict, MAC ──────────►      sent a second time, is taken; the root proves itself likewise
 *      ◄═ messages: header, body, MAC ════►      keyed for this connection, numbered in each direction
 *
 * MACs are HMAC-SHA256.  Contents are not secret and not encrypted.  All numbers are little-endian.
 *
 * Rules: nothing blocks longer than its deadline; nothing is allocated for a size above the limit that the
 * receiver states; results are 0 or a negative errno, put in words by wire_describe(). */
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
    char build[WIRE_BUILD_BYTES]; /* different versions may place things differently */
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
    uint32_t verdict, rank_count; /* rank_count and build: the root's */
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
/* The time does not depend on where the two differ. */
bool wire_macs_equal(const uint8_t *a, const uint8_t *b);

/* Writes or reads all of it; the socket does not block. */
int wire_write(int socket, const void *data, size_t size_bytes, uint64_t deadline_ms);
int wire_read(int socket, void *data, size_t size_bytes, uint64_t deadline_ms);

/* One side of a connection after the welcome. */
struct wire_channel {
    int socket; /* -1: none */
    bool root;  /* this side is the root's */
    uint8_t key[WIRE_MAC_BYTES];
    uint64_t sent, received; /* messages */
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
/* Takes in the bytes that have arrived and never waits.  Returns 0 when a whole message is there; its header.kind,
 * body and header.size_bytes hold until wire_channel_next().  Until then returns -EAGAIN.  -EMSGSIZE: the message is
 * larger than size_bytes_max.  -EBADMSG: the other side did not make it for this place in the conversation. */
int wire_channel_advance(struct wire_channel *c, size_t size_bytes_max);
void wire_channel_next(struct wire_channel *c);

const char *wire_describe(int result);

#endif
