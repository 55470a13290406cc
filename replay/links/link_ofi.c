/* link_ofi.c - the link on libfabric.  Each rank has one reliable-datagram endpoint, and writes by RMA between
 * registered memory.  Providers are tcp, shm, verbs, efa, cxi and others.
 *
 * This file knows operations in flight, their order and completions.  ofi_port.c knows the providers.
 *
 * Order.  A signal must not be seen before the data of earlier puts on its queue.
 *     ordered provider:  a signal is posted right after the puts, and the network delivers it after them.
 *     other providers:   a put completes when it is delivered.  A signal is held back until the puts before it are
 *                        delivered, and the queue's next signal until this signal is delivered.
 * With any provider, a signal is also held back if there is no room for it right after its put.
 *
 * The operations of a queue are counted:
 *
 *     completed <= accepted <= completed + depth        signals that are held back count as accepted
 *
 * Delivery.  flush() must know when everything has arrived.  With an ordered provider, it posts one more write.  When
 * that write is delivered, so are all before it.  With other providers, a completion means that the operation is
 * delivered. */
#include "replay/live.h"
#include "sim/memory.h"

#ifdef HAVE_OFI
#    include "replay/bootstrap/bootstrap_internal.h"
#    include "replay/bootstrap/bootstrap_wire.h"
#    include "replay/links/ofi.h"

#    include <assert.h>
#    include <errno.h>
#    include <rdma/fi_atomic.h>
#    include <rdma/fi_errno.h>
#    include <rdma/fi_rma.h>
#    include <stdio.h>
#    include <string.h>

enum { OFI_POLL_MAX = 32 }; /* completions that one progress() reads */

enum ofi_kind { OFI_PUT, OFI_SIGNAL, OFI_FENCE, OFI_GREETING, OFI_RECEIVE, OFI_GET };

struct ofi_op {
    struct fi_context2 context; /* the provider uses it while the operation is in flight; as the first member, it has
                                 * the address of the op */
    struct ofi_op *next;        /* in the list of free operations */
    uint32_t queue;             /* index of its ofi_queue */
    uint8_t kind;
    uint64_t number; /* PUT: its number among the puts of its queue; FENCE: how many operations its completion covers */
};

struct ofi_held {
    uint64_t target, value;
    uint64_t after_puts; /* how many earlier puts of the queue must have been delivered */
    bool add;
};

struct ofi_queue {
    uint64_t accepted, completed;
    uint64_t gets, gets_done;   /* gets posted; gets whose bytes have come */
    uint64_t fenced, delivered; /* with an ordered provider: operations that the last fence covers; operations that
                                 * are known to be delivered */
    /* The members below are for other providers. */
    uint64_t puts, puts_done; /* puts posted; number of the first put that is not delivered */
    bool *put_done;           /* [depth], a ring: whether each put from number puts_done on is delivered */
    struct ofi_held *held;    /* [depth], a ring */
    uint64_t held_first, held_end;
    bool signal_in_flight, listed;
};

struct link_ofi {
    struct live_link link;
    struct ofi_port port;
    const struct live_memory *memory;
    struct bootstrap *bootstrap;
    bool *remote; /* [rank] whether this link reaches the rank */
    uint32_t rank, rank_count, queue_count, depth;
    uint32_t word_count; /* all words before the heap */
    uint64_t dropped;    /* number of messages dropped, because no peer can have sent them */
    int broken;          /* 0, or the negative errno that every later call returns */
    struct ofi_op *op;   /* [send_count + receive_count] */
    struct ofi_op *free_ops;
    struct ofi_queue *queue; /* [peer][queue] */
    uint32_t *holding;       /* indices of the queues that hold a signal back */
    uint32_t holding_count;
    uint64_t **sent;              /* [peer][word] for atomics: the value last sent to each word */
    uint32_t *sent_words;         /* [peer] the length of sent[peer] */
    struct ofi_op *free_receives; /* receives that could not be posted again */
    bool *greeted;                /* [rank] whether the rank's greeting has come */
    uint32_t greetings;           /* this rank's own greetings in flight */
};

static struct link_ofi *link_ofi_of(struct live_link *link) { return fabric_container_of(link, struct link_ofi, link); }

/* Asserts what is true of a queue between any two calls. */
static void ofi_queue_check(const struct link_ofi *f, const struct ofi_queue *q)
{
    assert(q->completed <= q->accepted && q->accepted - q->completed <= f->depth);
    assert(q->gets_done <= q->gets && q->gets - q->gets_done <= f->depth);
    assert(q->held_first <= q->held_end && q->held_end - q->held_first <= f->depth);
    assert(q->puts_done <= q->puts && q->delivered <= q->fenced && q->fenced <= q->accepted);
    assert(f->port.ordered || q->puts - q->puts_done <= f->depth);
}

static struct ofi_message *ofi_message_of(const struct link_ofi *f, const struct ofi_op *op)
{
    return &f->port.arena[1 + (op - f->op)];
}

/* Fails the link because op failed with rc.  If it is not known which operation failed, op is NULL. */
static int ofi_fail(struct link_ofi *f, const struct ofi_op *op, int rc, const char *detail)
{
    static const char *const what[] = { "write", "signal", "flush", "first message", "receive", "read" };
    char whose[64] = "";
    if (op && op->kind != OFI_RECEIVE)
        g_snprintf(whose, sizeof whose, " to rank %u (queue %u)", op->queue / f->queue_count,
                   op->queue % f->queue_count);
    g_snprintf(f->link.failure, sizeof f->link.failure, "libfabric %s: %s%s: %s%s%s", f->port.provider,
               op ? what[op->kind] : "completion", whose, f->port.library->strerror(-rc), detail[0] ? ": " : "",
               detail);
    f->broken = rc;
    return rc;
}

/* ---- posting ---- */

static struct ofi_op *ofi_op_take(struct link_ofi *f, uint32_t queue, enum ofi_kind kind, uint64_t number)
{
    struct ofi_op *const op = f->free_ops;
    assert(queue < f->rank_count * f->queue_count);
    if (!op) return NULL;
    f->free_ops = op->next;
    op->queue = queue;
    op->kind = (uint8_t)kind;
    op->number = number;
    return op;
}

static void ofi_op_give(struct link_ofi *f, struct ofi_op *op)
{
    assert(op >= f->op && op < f->op + f->port.send_count);
    op->next = f->free_ops;
    f->free_ops = op;
}

static int ofi_posted(struct link_ofi *f, struct ofi_op *op, ssize_t rc)
{
    if (rc == 0) return 0;
    ofi_op_give(f, op);
    return rc == -FI_EAGAIN ? -EAGAIN : ofi_fail(f, op, (int)rc, "");
}

/* Posts a get, or for other kinds of op a write, between `own` and the peer's memory at `there`. */
static int ofi_move(struct link_ofi *f, struct ofi_op *op, const void *own, bool in_arena, uint32_t size_bytes,
                    uint64_t there, uint64_t key, bool delivered)
{
    const struct ofi_target *const t = &f->port.target[op->queue / f->queue_count];
    const uint64_t flags = FI_COMPLETION | (delivered ? FI_DELIVERY_COMPLETE : 0);
    void *desc = fi_mr_desc(in_arena ? f->port.arena_mr : f->port.memory_mr);
    const struct iovec iov = { .iov_base = (void *)(uintptr_t)own, .iov_len = size_bytes };
    const struct fi_rma_iov rma = { .addr = there, .len = size_bytes, .key = key };
    const struct fi_msg_rma msg = { .msg_iov = &iov,
                                    .desc = &desc,
                                    .iov_count = 1,
                                    .addr = t->address,
                                    .rma_iov = &rma,
                                    .rma_iov_count = 1,
                                    .context = op };
    return ofi_posted(f, op,
                      op->kind == OFI_GET ? fi_readmsg(f->port.ep, &msg, flags) : fi_writemsg(f->port.ep, &msg, flags));
}

static int ofi_send(struct link_ofi *f, struct ofi_op *op, uint32_t word, uint64_t value, bool delivered)
{
    struct ofi_message *const message = ofi_message_of(f, op);
    void *desc = fi_mr_desc(f->port.arena_mr);
    const struct iovec iov = { .iov_base = message, .iov_len = sizeof *message };
    const struct fi_msg msg = { .msg_iov = &iov,
                                .desc = &desc,
                                .iov_count = 1,
                                .addr = f->port.target[op->queue / f->queue_count].address,
                                .context = op };
    *message = (struct ofi_message){ .value = value, .word = word, .rank = f->rank };
    memcpy(message->token, f->port.target[f->rank].token, sizeof message->token);
    return ofi_posted(f, op, fi_sendmsg(f->port.ep, &msg, FI_COMPLETION | (delivered ? FI_DELIVERY_COMPLETE : 0)));
}

/* Where the last value sent to the peer's word is kept. */
static uint64_t *ofi_sent(struct link_ofi *f, uint32_t peer, uint32_t word)
{
    if (word >= f->sent_words[peer]) {
        const uint32_t words = MAX(word + 1, 2 * f->sent_words[peer]);
        f->sent[peer] = g_renew(uint64_t, f->sent[peer], words);
        memset(f->sent[peer] + f->sent_words[peer], 0, sizeof(uint64_t) * (words - f->sent_words[peer]));
        f->sent_words[peer] = words;
    }
    return &f->sent[peer][word];
}

/* Posts an atomic sum to the peer's word.  If `add`, it adds value.  Otherwise it adds the difference between value
 * and the value last sent, so that the word becomes value. */
static int ofi_sum(struct link_ofi *f, struct ofi_op *op, uint64_t target, uint64_t value, bool add, bool delivered)
{
    const uint32_t peer = op->queue / f->queue_count;
    const struct ofi_target *const t = &f->port.target[peer];
    uint64_t *const sent = add ? NULL : ofi_sent(f, peer, (uint32_t)(target / sizeof(uint64_t)));
    struct ofi_message *const message = ofi_message_of(f, op);
    void *desc = fi_mr_desc(f->port.arena_mr);
    const struct fi_ioc ioc = { .addr = &message->value, .count = 1 };
    const struct fi_rma_ioc rma = { .addr = t->memory_base + target, .count = 1, .key = t->memory_key };
    const struct fi_msg_atomic msg = { .msg_iov = &ioc,
                                       .desc = &desc,
                                       .iov_count = 1,
                                       .addr = t->address,
                                       .rma_iov = &rma,
                                       .rma_iov_count = 1,
                                       .datatype = FI_UINT64,
                                       .op = FI_SUM,
                                       .context = op };
    message->value = add ? value : value - *sent;
    const int rc =
        ofi_posted(f, op, fi_atomicmsg(f->port.ep, &msg, FI_COMPLETION | (delivered ? FI_DELIVERY_COMPLETE : 0)));
    if (rc == 0 && !add) *sent = value;
    return rc;
}

static int ofi_post_signal(struct link_ofi *f, uint32_t index, uint64_t target, uint64_t value, bool add)
{
    struct ofi_op *const op = ofi_op_take(f, index, OFI_SIGNAL, 0);
    const struct ofi_target *const t = &f->port.target[index / f->queue_count];
    const bool delivered = !f->port.ordered;
    if (!op) return -EAGAIN;
    const uint32_t word = (uint32_t)(target / sizeof(uint64_t)) | (add ? OFI_ADD : 0);
    /* A write cannot add to a word.  So where signals are writes, a signal that adds is sent as a message. */
    switch (add && f->port.carrier == OFI_CARRY_WRITE ? OFI_CARRY_MESSAGE : f->port.carrier) {
    case OFI_CARRY_ATOMIC: return ofi_sum(f, op, target, value, add, delivered);
    case OFI_CARRY_MESSAGE: return ofi_send(f, op, word, value, delivered);
    case OFI_CARRY_WRITE:
        ofi_message_of(f, op)->value = value;
        return ofi_move(f, op, &ofi_message_of(f, op)->value, true, sizeof value, t->memory_base + target,
                        t->memory_key, delivered);
    }
    g_assert_not_reached();
}

/* ---- holding signals back ---- */

static void ofi_hold(struct link_ofi *f, uint32_t index, uint64_t target, uint64_t value, bool add)
{
    struct ofi_queue *const q = &f->queue[index];
    assert(q->held_end - q->held_first < f->depth);
    if (!q->held) q->held = g_new(struct ofi_held, f->depth);
    q->held[q->held_end++ % f->depth] =
        (struct ofi_held){ .target = target, .value = value, .after_puts = q->puts, .add = add };
    if (!q->listed) f->holding[f->holding_count++] = index;
    assert(f->holding_count <= f->rank_count * f->queue_count);
    q->listed = true;
}

/* Posts the first signal that the queue holds back, if it may be posted.  Returns 1 if it was posted. */
static int ofi_release(struct link_ofi *f, uint32_t index)
{
    struct ofi_queue *const q = &f->queue[index];
    const struct ofi_held *const h = &q->held[q->held_first % f->depth];
    if (q->held_first == q->held_end) return 0;
    if (!f->port.ordered && (q->signal_in_flight || h->after_puts > q->puts_done)) return 0;
    const int rc = ofi_post_signal(f, index, h->target, h->value, h->add);
    if (rc == -EAGAIN) return 0;
    if (rc) return rc;
    q->signal_in_flight = true;
    q->held_first++;
    return 1;
}

static int ofi_release_all(struct link_ofi *f)
{
    uint32_t kept = 0;
    int released = 0;
    for (uint32_t i = 0; i < f->holding_count; i++) {
        const uint32_t index = f->holding[i];
        const int rc = f->broken ? 0 : ofi_release(f, index);
        if (rc > 0) released++;
        f->queue[index].listed = f->queue[index].held_first != f->queue[index].held_end;
        if (f->queue[index].listed) f->holding[kept++] = index;
    }
    f->holding_count = kept;
    return f->broken ? f->broken : released;
}

/* ---- the operations of a link ---- */

/* Whether a put must wait because put_done has no place for it.  This happens if an early put is still not delivered
 * while later ones are. */
static bool ofi_puts_full(const struct link_ofi *f, const struct ofi_queue *q)
{
    return !f->port.ordered && q->puts - q->puts_done == f->depth;
}

static int ofi_signal(struct live_link *link, uint16_t peer, uint16_t queue, uint64_t target, uint64_t value, bool add)
{
    struct link_ofi *const f = link_ofi_of(link);
    const uint32_t index = (uint32_t)peer * f->queue_count + queue;
    struct ofi_queue *const q = &f->queue[index];
    if (f->broken) return f->broken;
    assert(f->remote[peer] && target % sizeof(uint64_t) == 0 && target / sizeof(uint64_t) < f->word_count);
    ofi_queue_check(f, q);
    if (q->accepted - q->completed == f->depth) return -EAGAIN;
    if (f->port.ordered && q->held_first == q->held_end) {
        const int rc = ofi_post_signal(f, index, target, value, add);
        if (rc) return rc;
    } else {
        ofi_hold(f, index, target, value, add);
        if (q->held_end - q->held_first == 1 && ofi_release(f, index) < 0) return f->broken;
    }
    q->accepted++;
    return 0;
}

/* Posts the put and accepts its signal.  If the signal cannot be posted at once, it is held back. */
static int ofi_put(struct live_link *link, const struct live_put *put)
{
    struct link_ofi *const f = link_ofi_of(link);
    const uint32_t index = (uint32_t)put->peer * f->queue_count + put->queue, places = put->signals ? 2 : 1;
    struct ofi_queue *const q = &f->queue[index];
    const struct ofi_target *const t = &f->port.target[put->peer]; /* put->defer: libfabric has no doorbell */
    if (f->broken) return f->broken;
    assert(f->remote[put->peer] && put->size_bytes > 0 && put->source + put->size_bytes <= f->memory->size_bytes);
    assert(f->depth >= places);
    ofi_queue_check(f, q);
    if (q->accepted - q->completed + places > f->depth || ofi_puts_full(f, q)) return -EAGAIN;
    struct ofi_op *const op = ofi_op_take(f, index, OFI_PUT, q->puts);
    if (!op) return -EAGAIN;
    int rc = ofi_move(f, op, f->memory->base + put->source, false, put->size_bytes, t->memory_base + put->target,
                      t->memory_key, !f->port.ordered);
    if (rc) return rc;
    if (!f->port.ordered && !q->put_done) q->put_done = g_new0(bool, f->depth);
    q->puts++;
    q->accepted++;
    if (!put->signals) return 0;
    rc = ofi_signal(link, put->peer, put->queue, put->word, put->value, put->add);
    if (rc != -EAGAIN) return rc;
    ofi_hold(f, index, put->word, put->value, put->add);
    q->accepted++;
    return 0;
}

static int ofi_get(struct live_link *link, uint16_t peer, uint16_t queue, uint64_t source, uint64_t target,
                   uint32_t size_bytes)
{
    struct link_ofi *const f = link_ofi_of(link);
    const uint32_t index = (uint32_t)peer * f->queue_count + queue;
    struct ofi_queue *const q = &f->queue[index];
    const struct ofi_target *const t = &f->port.target[peer];
    if (f->broken) return f->broken;
    assert(f->remote[peer] && size_bytes > 0 && target + size_bytes <= f->memory->size_bytes);
    ofi_queue_check(f, q);
    if (q->gets - q->gets_done == f->depth) return -EAGAIN;
    struct ofi_op *const op = ofi_op_take(f, index, OFI_GET, 0);
    if (!op) return -EAGAIN;
    const int rc =
        ofi_move(f, op, f->memory->base + target, false, size_bytes, t->memory_base + source, t->memory_key, false);
    if (rc == 0) q->gets++;
    return rc;
}

static int ofi_flush(struct live_link *link, uint16_t peer, uint16_t queue)
{
    struct link_ofi *const f = link_ofi_of(link);
    const uint32_t index = (uint32_t)peer * f->queue_count + queue;
    struct ofi_queue *const q = &f->queue[index];
    const struct ofi_target *const t = &f->port.target[peer];
    if (f->broken) return f->broken;
    ofi_queue_check(f, q);
    if (q->gets != q->gets_done || (f->port.ordered && q->held_first != q->held_end)) return -EAGAIN;
    if (!f->port.ordered) return q->completed == q->accepted ? 0 : -EAGAIN;
    if (q->delivered == q->accepted) return 0;
    if (q->fenced > q->delivered) return -EAGAIN;
    struct ofi_op *const op = ofi_op_take(f, index, OFI_FENCE, q->accepted);
    if (!op) return -EAGAIN;
    const int rc =
        ofi_move(f, op, ofi_message_of(f, op), true, sizeof(struct ofi_message), t->arena_base, t->arena_key, true);
    if (rc) return rc;
    q->fenced = q->accepted;
    return -EAGAIN;
}

/* ---- completions ---- */

static void ofi_put_complete(struct link_ofi *f, struct ofi_queue *q, uint64_t number)
{
    q->completed++;
    if (f->port.ordered) return;
    assert(number >= q->puts_done && number < q->puts && !q->put_done[number % f->depth]);
    q->put_done[number % f->depth] = true;
    while (q->puts_done < q->puts && q->put_done[q->puts_done % f->depth])
        q->put_done[q->puts_done++ % f->depth] = false;
}

static int ofi_receive_post(struct link_ofi *f, struct ofi_op *op)
{
    struct ofi_message *const message = ofi_message_of(f, op);
    const ssize_t rc = fi_recv(f->port.ep, message, sizeof *message, fi_mr_desc(f->port.arena_mr), FI_ADDR_UNSPEC, op);
    if (rc == 0) return 0;
    op->next = f->free_receives;
    f->free_receives = op;
    return rc == -FI_EAGAIN ? -EAGAIN : ofi_fail(f, op, (int)rc, "");
}

/* Whether a peer can have sent this message (ofi.h). */
static bool ofi_message_genuine(const struct link_ofi *f, const struct ofi_message *message, size_t size_bytes)
{
    return size_bytes == sizeof *message && message->rank < f->rank_count && f->remote[message->rank] &&
           wire_secrets_equal(message->token, f->port.target[message->rank].token, OFI_TOKEN_BYTES) &&
           (message->word == OFI_HELLO || (message->word & ~OFI_ADD) < f->word_count);
}

static void ofi_message_drop(struct link_ofi *f)
{
    if (f->dropped++ == 0)
        fprintf(stderr,
                "eptwin: rank %u: warning: drops messages that no rank of this run sent: somebody else reaches its "
                "libfabric port (%s)\n",
                f->rank, f->port.provider);
}

static void ofi_message_arrived(struct link_ofi *f, struct ofi_op *op, size_t size_bytes)
{
    const struct ofi_message *const message = ofi_message_of(f, op);
    const uint32_t word = message->word & ~OFI_ADD;
    if (!ofi_message_genuine(f, message, size_bytes)) ofi_message_drop(f);
    else if (message->word == OFI_HELLO) f->greeted[message->rank] = true;
    else if (message->word & OFI_ADD)
        __atomic_fetch_add((uint64_t *)(void *)f->memory->base + word, message->value, __ATOMIC_RELEASE);
    else __atomic_store_n((uint64_t *)(void *)f->memory->base + word, message->value, __ATOMIC_RELEASE);
    ofi_receive_post(f, op);
}

static void ofi_complete(struct link_ofi *f, struct ofi_op *op, size_t size_bytes)
{
    struct ofi_queue *const q = &f->queue[op->queue];
    assert(op >= f->op && op < f->op + f->port.send_count + f->port.receive_count);
    switch ((enum ofi_kind)op->kind) {
    case OFI_PUT: ofi_put_complete(f, q, op->number); break;
    case OFI_SIGNAL:
        q->completed++;
        q->signal_in_flight = false;
        break;
    case OFI_FENCE:
        assert(op->number > q->delivered && op->number <= q->fenced);
        q->delivered = op->number;
        break;
    case OFI_GREETING:
        assert(f->greetings > 0);
        f->greetings--;
        break;
    case OFI_RECEIVE: ofi_message_arrived(f, op, size_bytes); return;
    case OFI_GET: q->gets_done++; break;
    }
    ofi_queue_check(f, q);
    ofi_op_give(f, op);
}

static int ofi_read_failure(struct link_ofi *f)
{
    struct fi_cq_err_entry entry = { 0 };
    const ssize_t n = fi_cq_readerr(f->port.cq, &entry, 0);
    if (n == -FI_EAGAIN) return 0;
    if (n < 0) return ofi_fail(f, NULL, (int)n, "");
    struct ofi_op *const op = entry.op_context;
    char detail[128] = "";
    if (op && op->kind == OFI_RECEIVE && entry.err == FI_ETRUNC) { /* no peer sends a message of this length */
        ofi_message_drop(f);
        return ofi_receive_post(f, op);
    }
    const char *const text = fi_cq_strerror(f->port.cq, entry.prov_errno, entry.err_data, detail, sizeof detail);
    return ofi_fail(f, op, -(entry.err ? entry.err : FI_EIO), text && entry.prov_errno ? text : "");
}

static int ofi_progress(struct live_link *link)
{
    struct link_ofi *const f = link_ofi_of(link);
    struct fi_cq_msg_entry entries[OFI_POLL_MAX];
    if (f->broken) return f->broken;
    const ssize_t n = fi_cq_read(f->port.cq, entries, OFI_POLL_MAX);
    if (n == -FI_EAVAIL) return ofi_read_failure(f);
    if (n < 0 && n != -FI_EAGAIN) return ofi_fail(f, NULL, (int)n, "");
    for (ssize_t i = 0; i < n; i++)
        if (entries[i].op_context) ofi_complete(f, entries[i].op_context, entries[i].len);
    while (f->free_receives && !f->broken) {
        struct ofi_op *const op = f->free_receives;
        f->free_receives = op->next;
        if (ofi_receive_post(f, op) != 0) break;
    }
    const int released = ofi_release_all(f);
    return released < 0 ? released : released + (int)MAX(n, 0);
}

/* ---- making ---- */

static void ofi_free(struct live_link *link)
{
    struct link_ofi *const f = link_ofi_of(link);
    ofi_port_close(&f->port);
    for (uint32_t i = 0; i < f->rank_count * f->queue_count; i++) {
        g_free(f->queue[i].put_done);
        g_free(f->queue[i].held);
    }
    for (uint32_t r = 0; r < f->rank_count; r++) g_free(f->sent[r]);
    FREE_ALL(f->sent, f->sent_words, f->queue, f->holding, f->greeted, f->remote, f->op, f);
}

static const struct live_link_ops ofi_ops = { "ofi", ofi_put, ofi_signal, ofi_get, ofi_flush, ofi_progress, ofi_free };

static int ofi_ops_make(struct link_ofi *f)
{
    f->op = g_new0(struct ofi_op, f->port.send_count + f->port.receive_count);
    for (uint32_t i = 0; i < f->port.send_count; i++) ofi_op_give(f, &f->op[i]);
    for (uint32_t i = 0; i < f->port.receive_count; i++) {
        struct ofi_op *const op = &f->op[f->port.send_count + i];
        op->kind = OFI_RECEIVE;
        const int rc = ofi_receive_post(f, op);
        if (rc) return rc;
    }
    return 0;
}

/* Marks the ranks whose greeting has not come, or that could not be greeted yet. */
static bool *ofi_strangers(const struct link_ofi *f, const bool *said)
{
    bool *const strangers = g_new0(bool, f->rank_count);
    for (uint32_t r = 0; r < f->rank_count; r++) strangers[r] = f->remote[r] && (!f->greeted[r] || !said[r]);
    return strangers;
}

/* Sends the peer its greeting, once.  Returns 1 if both have greeted each other, 0 if not yet, negative on failure. */
static int ofi_greet(struct link_ofi *f, uint32_t rank, bool *said)
{
    struct ofi_op *const op = *said ? NULL : ofi_op_take(f, rank * f->queue_count, OFI_GREETING, 0);
    if (op) {
        const int rc = ofi_send(f, op, OFI_HELLO, 0, false);
        if (rc < 0) return rc == -EAGAIN ? 0 : rc;
        *said = true;
        f->greetings++;
    }
    return *said && f->greeted[rank];
}

/* Sends a greeting to each peer, and waits for the greeting of each peer.  Then connections exist in both
 * directions.  If a rank dies meanwhile, returns -ECANCELED and sets *error. */
static int ofi_greet_all(struct link_ofi *f, bool *said, uint64_t deadline_ms, GError **error)
{
    enum { LOOK_MS = 20 };
    uint64_t look_ms = 0;
    for (;;) {
        bool done = true;
        for (uint32_t r = 0; r < f->rank_count; r++) {
            const int rc = f->remote[r] ? ofi_greet(f, r, &said[r]) : 1;
            if (rc < 0) return rc;
            done &= rc == 1;
        }
        const int rc = ofi_progress(&f->link);
        if (rc < 0) return rc;
        if (done && f->greetings == 0) return 0;
        const uint64_t now_ms = bootstrap_now_ms();
        if (now_ms >= deadline_ms) return -ETIMEDOUT;
        if (now_ms < look_ms) continue;
        if (!bootstrap_check(f->bootstrap, error)) return -ECANCELED;
        look_ms = now_ms + LOOK_MS;
    }
}

/* Connects this rank with all peers.  If this fails, tells all ranks the reason, so that no rank waits for this rank.
 */
static bool ofi_connect(struct link_ofi *f, const struct live_options *o, GError **error)
{
    g_autofree bool *said = g_new0(bool, f->rank_count);
    GError *why = NULL;
    int rc = ofi_ops_make(f);
    if (!rc) rc = ofi_greet_all(f, said, bootstrap_now_ms() + o->timeout_ms, error);
    if (rc == 0 || rc == -ECANCELED) return rc == 0;
    if (rc != -ETIMEDOUT && !bootstrap_watch(f->bootstrap, error)) return false;
    if (rc == -ETIMEDOUT) {
        g_autofree bool *strangers = ofi_strangers(f, said);
        g_autofree char *ranks = bootstrap_ranks_text(strangers, f->rank_count);
        error_run(&why, "libfabric %s: no connection with %s within %u ms", f->port.provider, ranks, o->timeout_ms);
    } else {
        error_run(&why, "%s", f->link.failure[0] ? f->link.failure : f->port.library->strerror(-rc));
    }
    ofi_port_hide(&f->port); /* at once, because other ranks may end this rank before it closes the port */
    bootstrap_abort(f->bootstrap, why->message);
    g_propagate_error(error, why);
    return false;
}

static bool ofi_serve(void *context) { return ofi_progress(&((struct link_ofi *)context)->link) > 0; }

/* Joins the exchange that ends the making of links.  A rank that has failed joins, too, because all ranks must make
 * the same exchanges.  A connected rank serves its link meanwhile, because its greeting may not have left yet. */
static bool ofi_meet(struct link_ofi *f, bool connected, GError **error)
{
    struct bootstrap *const b = f->bootstrap;
    bool (*const serve)(void *) = b->serve;
    void *const serve_context = b->serve_context;
    g_autoptr(GError) late = NULL;
    if (connected) {
        b->serve = ofi_serve;
        b->serve_context = f;
    } else {
        ofi_port_hide(&f->port);
    }
    const bool met = bootstrap_barrier(b, connected ? error : &late);
    b->serve = serve;
    b->serve_context = serve_context;
    return met && connected;
}

struct live_link *link_ofi_new(const struct live_options *o, const struct fabric_needs *needs, struct bootstrap *b,
                               const struct live_memory *memory, const bool *remote, GError **error)
{
    struct link_ofi *const f = g_new0(struct link_ofi, 1);
    const uint32_t queues = b->rank_count * needs->queue_count;
    GError *failure = NULL;
    assert(needs->queue_count > 0 && needs->queue_depth > 0);
    f->link.ops = &ofi_ops;
    f->memory = memory;
    f->bootstrap = b;
    f->remote = g_memdup2(remote, sizeof *remote * b->rank_count);
    f->word_count = (uint32_t)((memory->size_bytes - needs->heap_bytes) / sizeof(uint64_t));
    f->rank = b->rank;
    f->rank_count = b->rank_count;
    f->queue_count = needs->queue_count;
    f->depth = needs->queue_depth;
    f->queue = g_new0(struct ofi_queue, queues);
    f->holding = g_new0(uint32_t, queues);
    f->sent = g_new0(uint64_t *, b->rank_count);
    f->sent_words = g_new0(uint32_t, b->rank_count);
    f->greeted = g_new0(bool, b->rank_count);
    struct ofi_place place = { 0 };
    if (!ofi_place_find(&place, b, error)) {
        ofi_free(&f->link);
        return NULL;
    }
    ofi_port_open(&f->port, o, needs, &place, b, memory, &failure);
    ofi_place_clear(&place);
    const bool connected = ofi_port_exchange(&f->port, b, memory, remote, failure, error) && ofi_connect(f, o, error);
    if (ofi_meet(f, connected, error)) {
        ofi_port_hide(&f->port);
        g_snprintf(f->link.carrier, sizeof f->link.carrier, "ofi %s on %s", f->port.provider,
                   f->port.info->domain_attr->name);
        return &f->link;
    }
    ofi_free(&f->link);
    return NULL;
}

#else

struct live_link *link_ofi_new(const struct live_options *o, const struct fabric_needs *needs, struct bootstrap *b,
                               const struct live_memory *memory, const bool *remote, GError **error)
{
    (void)o, (void)needs, (void)b, (void)memory, (void)remote;
    return error_run(error, "--fabric ofi: this eptwin was built without libfabric (libfabric-dev)"), NULL;
}

void link_ofi_clean(const struct live_options *o) { (void)o; }

#endif
