/* fuzz_wire.c - libFuzzer target of the bootstrap's messages.  Whatever bytes come, only one kind of message is
 * accepted: one that the other side made for this place in the conversation, unchanged. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "replay/bootstrap/bootstrap_internal.h"
#include "replay/bootstrap/bootstrap_wire.h"

enum { BODY_MAX = 1024, STREAM_MAX = 32768 };

static const struct bootstrap_secret secret = { "a secret of this test", 21 };

static void channels_open(struct wire_channel *root, struct wire_channel *member)
{
    const struct wire_challenge challenge = { .magic = WIRE_MAGIC };
    const struct wire_hello hello = { .magic = WIRE_MAGIC, .rank = 1, .rank_count = 2 };
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) abort();
    wire_channel_open(root, ends[0], true, &secret, &challenge, &hello);
    wire_channel_open(member, ends[1], false, &secret, &challenge, &hello);
}

/* Receives bytes that are not signed. */
static void strangers_bytes(const uint8_t *data, size_t size_bytes)
{
    struct wire_channel root, member;
    channels_open(&root, &member);
    if (write(member.socket, data, size_bytes) != (ssize_t)size_bytes) abort();
    const int rc = wire_channel_advance(&root, BODY_MAX);
    if (rc >= 0 || (rc == -EAGAIN && root.arrived_bytes != size_bytes)) abort();
    if (!wire_describe(rc)) abort();
    wire_channel_close(&root);
    wire_channel_close(&member);
}

/* Sends messages of the sizes and bodies that data gives.  One byte of them may be altered in transit. */
static void messages(const uint8_t *data, size_t size_bytes, size_t altered, uint8_t by)
{
    struct wire_channel root, member, copy_root, copy_member;
    uint8_t stream[STREAM_MAX];
    size_t at = 0, sent = 0;
    channels_open(&root, &member);
    channels_open(&copy_root, &copy_member);
    while (at < size_bytes && sent < 16) {
        const size_t body = MIN(data[at], size_bytes - at - 1);
        if (wire_channel_send(&member, data[at] % 7, data + at + 1, body, bootstrap_now_ms() + 1000) != 0) abort();
        at += 1 + body;
        sent++;
    }
    const ssize_t n = recv(root.socket, stream, sizeof stream, MSG_DONTWAIT);
    if (n < 0 && sent) abort();
    const bool harmed = by && n > 0;
    if (harmed) stream[altered % (size_t)n] ^= by;
    if (n > 0 && write(copy_member.socket, stream, (size_t)n) != n) abort();
    size_t taken = 0;
    int rc;
    for (at = 0; (rc = wire_channel_advance(&copy_root, BODY_MAX)) == 0; taken++) {
        const size_t body = MIN(data[at], size_bytes - at - 1);
        if (taken == sent || copy_root.header.kind != data[at] % 7 || copy_root.header.size_bytes != body) abort();
        if (body && memcmp(copy_root.body, data + at + 1, body) != 0) abort();
        at += 1 + body;
        wire_channel_next(&copy_root);
    }
    if (harmed ? taken >= sent : taken != sent || rc != -EAGAIN) abort();
    wire_channel_close(&root);
    wire_channel_close(&member);
    wire_channel_close(&copy_root);
    wire_channel_close(&copy_member);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    if (size_bytes < 4) return 0;
    const size_t altered = (size_t)(data[1] | data[2] << 8);
    if (data[0] % 4 == 0) strangers_bytes(data + 1, size_bytes - 1);
    else messages(data + 4, size_bytes - 4, altered, data[0] % 4 == 1 ? 0 : data[3]);
    return 0;
}
