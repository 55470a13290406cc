/* link_verbs.c - the link on libibverbs: one RC queue pair for each (peer, queue), and RDMA writes between the ranks'
 * registered memory.
 *
 * This file knows work requests, completions and signals.  verbs_nic.c knows devices, and verbs_qp.c connects queue
 * pairs.
 *
 * There are three kinds of signals.  Each kind is visible only after the data of earlier puts on its queue:
 *
 *     WRITE    A plain RDMA write of the absolute value into the peer's word, 8 bytes inline.  It is the fastest kind.
 *              It is right only where the writes of a QP are placed in the order posted.  InfiniBand and RoCE do so
 *              without adaptive routing, into memory registered without relaxed ordering (ours is).  If packets are
 *              spread over paths (adaptive routing, multipath, out-of-order placement), the word may overtake the data.
 *     ATOMIC   FETCH_ADD of the difference to the value last sent.  The peer's NIC executes it after the writes before
 *              it, whatever path the packets took.
 *     IMM      RDMA WRITE WITH IMMEDIATE of {value, word} into a ring.  Its completion says that everything before it
 *              has arrived.  Then the peer's progress() raises the word.  It is right everywhere, but the peer's CPU
 *              must poll.
 *
 *     A ring has 2 * queue_depth slots, and queue_depth receive requests are posted for it.  Signal s + 2 * queue_depth
 *     writes the slot of signal s again.  Before that, signal s + queue_depth must have been acknowledged.  That signal
 *     took a receive request which was posted only after s had been read.  So no slot is overwritten unread. */
#include "replay/live.h"
#include "sim/memory.h"

#ifdef HAVE_VERBS
#    include "replay/links/verbs.h"

#    include <arpa/inet.h>
#    include <assert.h>
#    include <errno.h>
#    include <string.h>
#    include <sys/random.h>
#    include <time.h>
#    include "sim/memory.h"

enum {
    VERBS_SIGNAL_EVERY = 16,  /* at most this many work requests share a completion */
    VERBS_POLL_MAX = 32,      /* completions that one progress() reads from one NIC */
    VERBS_EVENT_POLLS = 1024, /* calls of progress() from one check of events and the clock to the next */
    VERBS_PROBE_S = 1,        /* seconds between probes of a peer to which no request is in flight */
    VERBS_INLINE_BYTES = 256, /* the size to ask for; the device may grant less */
    VERBS_SLOT_BYTES = 16,
    VERBS_RECEIVES_POSTED_MAX = 32, /* receive requests of one doorbell */
};

/* The contents of a slot.  At the sender, WRITE sends the value from it, and ATOMIC gets the old value back into it.
 * IMM sends the whole slot into the receiver's ring. */
struct verbs_slot {
    uint64_t value;
    uint32_t word, add; /* add: 1 if value is added to the word */
};
_Static_assert(sizeof(struct verbs_slot) == VERBS_SLOT_BYTES, "crosses the link");

struct link_verbs {
    struct live_link link;
    struct live_options options;
    const struct live_memory *memory;
    uint32_t rank, rank_count, queue_count;
    uint32_t queue_depth;   /* from the options, equal on all ranks */
    uint32_t send_depth;    /* work requests of a QP: queue_depth, and one more for the write that ends a flush */
    uint32_t receive_depth; /* at most queue_depth; 0 unless signals are IMM */
    uint32_t signal_every;
    uint32_t word_count; /* all words before the heap */
    uint32_t polls;
    time_t probed_s;
    bool broken;
    struct verbs_nic nic[VERBS_NICS_MAX];
    uint32_t nic_count;
    struct verbs_qp *qp;     /* [peer][queue] */
    uint64_t *shadow;        /* [peer][word] for ATOMIC: the last value sent */
    struct verbs_slot *slot; /* [peer][queue][send_depth], then the rings */
    struct verbs_slot *ring; /* [peer][queue][2 queue_depth] for IMM */
};

static struct link_verbs *link_verbs_of(struct live_link *link)
{
    return fabric_container_of(link, struct link_verbs, link);
}

static uint32_t verbs_index(const struct link_verbs *v, const struct verbs_qp *qp) { return (uint32_t)(qp - v->qp); }

/* The index of a slot in the rings of a receiver.  The slot is that of signal number `signal` to the receiver's QP
 * with index `index`. */
static uint64_t verbs_ring_slot(const struct link_verbs *v, uint32_t index, uint64_t signal)
{
    const uint64_t ring_slots = 2 * (uint64_t)v->queue_depth;
    assert(index < v->rank_count * v->queue_count);
    return index * ring_slots + signal % ring_slots;
}

/* ---- failing ------------------------------------------------------------------------------------------- */

static int verbs_fail(struct link_verbs *v, const char *text)
{
    if (!v->broken) g_strlcpy(v->link.failure, text, sizeof v->link.failure);
    v->broken = true;
    return -EIO;
}

/* Fails the link because of the failed completion wc.  The link keeps the first failure, which is the cause.
 * Requests that are flushed later failed because of it. */
static int verbs_completion_fail(struct link_verbs *v, const struct verbs_qp *qp, const struct ibv_wc *wc)
{
    char text[sizeof v->link.failure], what[200], event[64] = "";
    verbs_qp_describe(qp, &v->options, wc, what, sizeof what);
    if (verbs_nic_events_check(qp->nic, event, sizeof event) && !verbs_nic_port_active(qp->nic))
        g_snprintf(event, sizeof event, "device %s port %u is down", qp->nic->name, qp->nic->port);
    g_snprintf(text, sizeof text, "%s%speer %u: %s", event, event[0] ? "; " : "", qp->peer, what);
    return verbs_fail(v, text);
}

static int verbs_post_fail(struct link_verbs *v, const struct verbs_qp *qp, int code)
{
    char text[sizeof v->link.failure];
    g_snprintf(text, sizeof text, "peer %u: QP %u (queue %u) of %s takes no work request: %s", qp->peer, qp->qp->qp_num,
               qp->queue, qp->nic->name, g_strerror(code));
    return verbs_fail(v, text);
}

/* ---- completions --------------------------------------------------------------------------------------- */

/* The id of a work request: its QP, and the low half of its number. */
static uint64_t verbs_id(const struct link_verbs *v, const struct verbs_qp *qp, uint64_t number)
{
    return (uint64_t)verbs_index(v, qp) << 32 | (uint32_t)number;
}

/* Returns how many completions came, or a negative errno.  A completion may complete several requests.  Completions of
 * probes are not counted, because they are no progress of the run. */
static int verbs_sends_poll(struct link_verbs *v, struct verbs_nic *nic)
{
    struct ibv_wc wc[VERBS_POLL_MAX];
    const int count = ibv_poll_cq(nic->send_cq, VERBS_POLL_MAX, wc);
    int probes = 0;
    if (count < 0) return verbs_fail(v, "the completion queue cannot be polled");
    for (int i = 0; i < count; i++) {
        assert(wc[i].wr_id >> 32 < (uint64_t)v->rank_count * v->queue_count);
        struct verbs_qp *qp = &v->qp[wc[i].wr_id >> 32];
        assert(qp->nic == nic);
        if (wc[i].status != IBV_WC_SUCCESS) return verbs_completion_fail(v, qp, &wc[i]);
        const uint32_t more = (uint32_t)wc[i].wr_id - (uint32_t)qp->completed;
        /* Only a request that asked for a completion has one. */
        assert(more > 0 && qp->completed + more <= qp->signalled);
        qp->completed += more;
        assert(qp->completed <= qp->posted - qp->chained);
        nic->completions_free++;
        probes += qp->probe && qp->completed == qp->probe;
    }
    return count - probes;
}

/* Posts `count` receive requests with one doorbell. */
static int verbs_receives_post(struct link_verbs *v, struct verbs_qp *qp, uint32_t count)
{
    struct ibv_recv_wr wr[VERBS_RECEIVES_POSTED_MAX], *bad;
    assert(count >= 1 && count <= VERBS_RECEIVES_POSTED_MAX);
    for (uint32_t i = 0; i < count; i++)
        wr[i] = (struct ibv_recv_wr){ .wr_id = verbs_id(v, qp, 0), .next = i + 1 < count ? &wr[i + 1] : NULL };
    const int rc = ibv_post_recv(qp->qp, wr, &bad);
    return rc ? verbs_post_fail(v, qp, rc) : 0;
}

static int verbs_signal_receive(struct link_verbs *v, const struct ibv_wc *wc)
{
    assert(wc->wr_id >> 32 < (uint64_t)v->rank_count * v->queue_count);
    struct verbs_qp *qp = &v->qp[wc->wr_id >> 32];
    assert(qp->receives_owed < v->receive_depth);
    if (wc->status != IBV_WC_SUCCESS) return verbs_completion_fail(v, qp, wc);
    const struct verbs_slot *slot = &v->ring[verbs_ring_slot(v, verbs_index(v, qp), qp->signals_received)];
    if (wc->opcode != IBV_WC_RECV_RDMA_WITH_IMM || ntohl(wc->imm_data) != (uint32_t)qp->signals_received ||
        slot->word >= v->word_count) {
        char text[sizeof v->link.failure];
        g_snprintf(text, sizeof text,
                   "peer %u: QP %u (queue %u): expected signal %u for a word below %u, found %u for word %u", qp->peer,
                   qp->qp->qp_num, qp->queue, (uint32_t)qp->signals_received, v->word_count, ntohl(wc->imm_data),
                   slot->word);
        return verbs_fail(v, text);
    }
    uint64_t *words = (uint64_t *)(void *)v->memory->base;
    if (slot->add) __atomic_fetch_add(&words[slot->word], slot->value, __ATOMIC_RELEASE);
    else __atomic_store_n(&words[slot->word], slot->value, __ATOMIC_RELEASE);
    qp->signals_received++;
    if (++qp->receives_owed < MIN(VERBS_RECEIVES_POSTED_MAX, (v->receive_depth + 3) / 4)) return 0;
    const uint32_t count = qp->receives_owed;
    qp->receives_owed = 0;
    return verbs_receives_post(v, qp, count);
}

static int verbs_signals_poll(struct link_verbs *v, const struct verbs_nic *nic)
{
    struct ibv_wc wc[VERBS_POLL_MAX];
    const int count = ibv_poll_cq(nic->receive_cq, VERBS_POLL_MAX, wc);
    if (count < 0) return verbs_fail(v, "the completion queue of receives cannot be polled");
    for (int i = 0; i < count; i++) {
        const int rc = verbs_signal_receive(v, &wc[i]);
        if (rc < 0) return rc;
    }
    return count;
}

/* ---- posting ------------------------------------------------------------------------------------------- */

/* Hands the QP's chain of work requests to the NIC with one doorbell. */
static int verbs_ring(struct link_verbs *v, struct verbs_qp *qp)
{
    if (!qp->chained) return 0;
    assert(qp->chained <= VERBS_BATCH_MAX && qp->posted - qp->completed >= qp->chained);
    struct ibv_send_wr *bad;
    qp->wr[qp->chained - 1].next = NULL;
    qp->chained = 0;
    const int rc = ibv_post_send(qp->qp, qp->wr, &bad);
    return rc ? verbs_post_fail(v, qp, rc) : 0;
}

/* Whether `count` more work requests fit into the QP, so that at most outstanding_max are in flight.  If they do not
 * fit, the function rings the doorbell, polls once and looks again.  *rc is 0, or the error of this attempt. */
static bool verbs_room(struct link_verbs *v, struct verbs_qp *qp, uint32_t count, uint32_t outstanding_max, int *rc)
{
    *rc = 0;
    if (qp->posted - qp->completed + count <= outstanding_max && qp->nic->completions_free >= count) return true;
    *rc = verbs_ring(v, qp);
    if (*rc == 0) *rc = verbs_sends_poll(v, qp->nic);
    if (*rc < 0) return false;
    *rc = 0;
    return qp->posted - qp->completed + count <= outstanding_max && qp->nic->completions_free >= count;
}

static void verbs_completion_ask(struct verbs_qp *qp, struct ibv_send_wr *wr)
{
    assert(qp->nic->completions_free > 0 && qp->signalled < qp->posted);
    wr->send_flags |= IBV_SEND_SIGNALED;
    qp->signalled = qp->posted;
    qp->nic->completions_free--;
}

/* Adds a work request to the QP's chain.  Every request whose number is signal_every or more after the last one that
 * asked for a completion also asks for one.  So does a request without others in flight, because the caller probably
 * waits for it. */
static struct ibv_send_wr *verbs_next(struct link_verbs *v, struct verbs_qp *qp, enum ibv_wr_opcode opcode)
{
    const uint16_t at = qp->chained++;
    assert(at < VERBS_BATCH_MAX && qp->posted - qp->completed < v->send_depth);
    struct ibv_send_wr *wr = &qp->wr[at];
    const bool idle = qp->posted == qp->completed;
    qp->posted++;
    memset(wr, 0, sizeof *wr);
    wr->wr_id = verbs_id(v, qp, qp->posted);
    wr->opcode = opcode;
    if (at) qp->wr[at - 1].next = wr;
    if (idle || qp->posted - qp->signalled >= v->signal_every) verbs_completion_ask(qp, wr);
    return wr;
}

static void verbs_payload(struct verbs_qp *qp, struct ibv_send_wr *wr, const void *data, uint32_t size_bytes,
                          uint32_t local_key)
{
    struct ibv_sge *sge = &qp->sge[wr - qp->wr];
    *sge = (struct ibv_sge){ .addr = (uint64_t)(uintptr_t)data, .length = size_bytes, .lkey = local_key };
    wr->sg_list = sge;
    wr->num_sge = 1;
    if (wr->opcode != IBV_WR_ATOMIC_FETCH_AND_ADD && wr->opcode != IBV_WR_RDMA_READ && size_bytes <= qp->inline_bytes)
        wr->send_flags |= IBV_SEND_INLINE;
}

static void verbs_put_build(struct link_verbs *v, struct verbs_qp *qp, uint64_t source, uint64_t target,
                            uint32_t size_bytes)
{
    struct ibv_send_wr *wr = verbs_next(v, qp, IBV_WR_RDMA_WRITE);
    wr->wr.rdma.remote_addr = qp->peer_memory + target;
    wr->wr.rdma.rkey = qp->peer_memory_key;
    verbs_payload(qp, wr, v->memory->base + source, size_bytes, qp->nic->mr->lkey);
}

/* Adds a signal to the QP's chain.  If signals are IMM, the peer's CPU changes the word.  If they are WRITE or
 * ATOMIC, the NICs change it, and a signal that adds is always an atomic. */
static void verbs_signal_build(struct link_verbs *v, struct verbs_qp *qp, uint64_t target, uint64_t value, bool add)
{
    static const enum ibv_wr_opcode opcodes[] = {
        [LIVE_SIGNAL_WRITE] = IBV_WR_RDMA_WRITE,
        [LIVE_SIGNAL_ATOMIC] = IBV_WR_ATOMIC_FETCH_AND_ADD,
        [LIVE_SIGNAL_IMM] = IBV_WR_RDMA_WRITE_WITH_IMM,
    };
    const enum live_signalling usual = v->options.signalling;
    const enum live_signalling how = add && usual == LIVE_SIGNAL_WRITE ? LIVE_SIGNAL_ATOMIC : usual;
    const uint32_t word = (uint32_t)(target / sizeof value);
    assert(target % sizeof value == 0 && word < v->word_count);
    struct ibv_send_wr *wr = verbs_next(v, qp, opcodes[how]);
    const uint64_t first = (uint64_t)verbs_index(v, qp) * v->send_depth;
    struct verbs_slot *slot = &v->slot[first + qp->posted % v->send_depth];
    *slot = (struct verbs_slot){ .value = value, .word = word, .add = add };
    if (how == LIVE_SIGNAL_IMM) {
        const uint32_t there = v->rank * v->queue_count + qp->queue; /* index of this QP's other end at the peer */
        const uint64_t at = verbs_ring_slot(v, there, qp->signals_sent);
        wr->wr.rdma.remote_addr = qp->peer_ring + at * sizeof *slot;
        wr->wr.rdma.rkey = qp->peer_scratch_key;
        wr->imm_data = htonl((uint32_t)qp->signals_sent++);
        verbs_payload(qp, wr, slot, sizeof *slot, qp->nic->scratch_mr->lkey);
        return;
    }
    if (how == LIVE_SIGNAL_ATOMIC) {
        uint64_t *shadow = add ? NULL : &v->shadow[(uint64_t)qp->peer * v->word_count + word];
        wr->wr.atomic.remote_addr = qp->peer_memory + target;
        wr->wr.atomic.rkey = qp->peer_memory_key;
        wr->wr.atomic.compare_add = add ? value : value - *shadow;
        if (!add) *shadow = value;
    } else {
        wr->wr.rdma.remote_addr = qp->peer_memory + target;
        wr->wr.rdma.rkey = qp->peer_memory_key;
    }
    verbs_payload(qp, wr, &slot->value, sizeof slot->value, qp->nic->scratch_mr->lkey);
}

/* If signals that add need atomics, checks that this rank's device has them.  Returns 0, or an error that ends the
 * run. */
static int verbs_adds_check(struct link_verbs *v, const struct verbs_qp *qp)
{
    char text[sizeof v->link.failure];
    if (v->options.signalling == LIVE_SIGNAL_IMM || verbs_nic_atomics(qp->nic)) return 0;
    g_snprintf(text, sizeof text, "device %s: expected atomics for sums, found none: use --signalling imm",
               qp->nic->name);
    return verbs_fail(v, text);
}

static int verbs_signal(struct live_link *link, uint16_t peer, uint16_t queue, uint64_t target, uint64_t value,
                        bool add)
{
    struct link_verbs *v = link_verbs_of(link);
    struct verbs_qp *qp = &v->qp[(uint32_t)peer * v->queue_count + queue];
    int rc;
    if (v->broken) return -EIO;
    assert(qp->qp && target % sizeof value == 0 && target / sizeof value < v->word_count);
    if (add && (rc = verbs_adds_check(v, qp)) < 0) return rc;
    if (!verbs_room(v, qp, 1, v->send_depth - 1, &rc)) return rc ? rc : -EAGAIN;
    verbs_signal_build(v, qp, target, value, add);
    return verbs_ring(v, qp);
}

static int verbs_put(struct live_link *link, const struct live_put *put)
{
    struct link_verbs *v = link_verbs_of(link);
    struct verbs_qp *qp = &v->qp[(uint32_t)put->peer * v->queue_count + put->queue];
    int rc;
    if (v->broken) return -EIO;
    assert(qp->qp && put->size_bytes && put->source + put->size_bytes <= v->memory->size_bytes);
    if (put->signals && put->add && (rc = verbs_adds_check(v, qp)) < 0) return rc;
    if (put->signals && qp->chained + 2 > VERBS_BATCH_MAX && (rc = verbs_ring(v, qp)) < 0) return rc;
    if (!verbs_room(v, qp, put->signals ? 2 : 1, v->send_depth - 1, &rc)) return rc ? rc : -EAGAIN;
    verbs_put_build(v, qp, put->source, put->target, put->size_bytes);
    if (put->signals) verbs_signal_build(v, qp, put->word, put->value, put->add);
    else if (put->defer && qp->chained < VERBS_BATCH_MAX) return 0;
    return verbs_ring(v, qp);
}

static int verbs_get(struct live_link *link, uint16_t peer, uint16_t queue, uint64_t source, uint64_t target,
                     uint32_t size_bytes)
{
    struct link_verbs *v = link_verbs_of(link);
    struct verbs_qp *qp = &v->qp[(uint32_t)peer * v->queue_count + queue];
    int rc;
    if (v->broken) return -EIO;
    assert(qp->qp && size_bytes && target + size_bytes <= v->memory->size_bytes);
    if (!verbs_room(v, qp, 1, v->send_depth - 1, &rc)) return rc ? rc : -EAGAIN;
    struct ibv_send_wr *wr = verbs_next(v, qp, IBV_WR_RDMA_READ);
    wr->wr.rdma.remote_addr = qp->peer_memory + source;
    wr->wr.rdma.rkey = qp->peer_memory_key;
    verbs_payload(qp, wr, v->memory->base + target, size_bytes, qp->nic->mr->lkey);
    return verbs_ring(v, qp);
}

/* Adds a write of no bytes to the QP's chain, and asks for its completion.  The completion shows that the peer is
 * alive and that all earlier requests are done. */
static void verbs_nothing_write(struct link_verbs *v, struct verbs_qp *qp)
{
    struct ibv_send_wr *wr = verbs_next(v, qp, IBV_WR_RDMA_WRITE);
    wr->wr.rdma.remote_addr = qp->peer_memory;
    wr->wr.rdma.rkey = qp->peer_memory_key;
    if (!(wr->send_flags & IBV_SEND_SIGNALED)) verbs_completion_ask(qp, wr);
}

static int verbs_flush(struct live_link *link, uint16_t peer, uint16_t queue)
{
    struct link_verbs *v = link_verbs_of(link);
    struct verbs_qp *qp = &v->qp[(uint32_t)peer * v->queue_count + queue];
    int rc = 0;
    if (v->broken) return -EIO;
    if (qp->signalled != qp->posted && qp->nic->completions_free) {
        if (qp->chained) verbs_completion_ask(qp, &qp->wr[qp->chained - 1]);
        else if (verbs_room(v, qp, 1, v->send_depth, &rc)) verbs_nothing_write(v, qp);
    }
    if (rc == 0) rc = verbs_ring(v, qp);
    if (rc == 0 && qp->completed != qp->posted) rc = verbs_sends_poll(v, qp->nic);
    if (rc < 0) return rc;
    return qp->completed == qp->posted ? 0 : -EAGAIN;
}

/* Sends a probe on the first queue of each peer, unless a request that asked for a completion is in flight there.  A
 * probe to a dead peer fails.  A rank that only waits has no other request that would fail.  Puts and signals leave a
 * place in the queue for the probe. */
static int verbs_probe(struct link_verbs *v)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    if (now.tv_sec < v->probed_s + VERBS_PROBE_S) return 0;
    v->probed_s = now.tv_sec;
    for (uint32_t peer = 0; peer < v->rank_count; peer++) {
        struct verbs_qp *qp = &v->qp[peer * v->queue_count];
        if (!qp->qp || qp->completed < qp->signalled || !qp->nic->completions_free) continue;
        verbs_nothing_write(v, qp);
        qp->probe = qp->posted;
        const int rc = verbs_ring(v, qp);
        if (rc < 0) return rc;
    }
    return 0;
}

static int verbs_progress(struct live_link *link)
{
    struct link_verbs *v = link_verbs_of(link);
    if (v->broken) return -EIO;
    const bool look = v->polls++ % VERBS_EVENT_POLLS == 0;
    int moved = 0;
    for (uint32_t i = 0; i < v->nic_count; i++) {
        struct verbs_nic *nic = &v->nic[i];
        int count = verbs_sends_poll(v, nic);
        if (count < 0) return count;
        moved += count;
        if (nic->receive_cq) {
            count = verbs_signals_poll(v, nic);
            if (count < 0) return count;
            moved += count;
        }
        char text[sizeof v->link.failure];
        if (look && !verbs_nic_events_check(nic, text, sizeof text)) return verbs_fail(v, text);
    }
    if (!look) return moved;
    const int rc = verbs_probe(v);
    return rc < 0 ? rc : moved;
}

static void verbs_free(struct live_link *link)
{
    struct link_verbs *v = link_verbs_of(link);
    for (uint32_t i = 0; i < v->rank_count * v->queue_count; i++) {
        if (v->qp[i].qp) ibv_destroy_qp(v->qp[i].qp);
        g_free(v->qp[i].wr);
        g_free(v->qp[i].sge);
    }
    for (uint32_t i = 0; i < v->nic_count; i++) verbs_nic_close(&v->nic[i]);
    FREE_ALL(v->qp, v->shadow, v->slot, v);
}

static const struct live_link_ops verbs_ops = {
    .name = "verbs",
    .put = verbs_put,
    .signal = verbs_signal,
    .get = verbs_get,
    .flush = verbs_flush,
    .progress = verbs_progress,
    .free = verbs_free,
};

/* ---- construction -------------------------------------------------------------------------------------- */

/* A rank's message to the others.  The numbers of its QPs, [peer][queue], follow the struct.  A rank whose
 * preparation failed gives the reason, so that all ranks end with the same error. */
struct verbs_hello {
    char failure[240];
    uint64_t memory, memory_bytes, ring;
    uint32_t word_count, queue_depth, signalling, packet_number;
    uint32_t nic_count, reserved;
    struct verbs_address nic[VERBS_NICS_MAX];
    uint32_t qp_number[];
};

/* This rank's index among the ranks of its host. */
static bool verbs_local_rank(struct bootstrap *b, uint32_t *local_rank, GError **error)
{
    char mine[80] = "", *boot = NULL;
    char(*host)[sizeof mine] = g_malloc0(sizeof mine * b->rank_count);
    g_file_get_contents("/proc/sys/kernel/random/boot_id", &boot, NULL, NULL);
    g_strlcpy(mine, boot ? boot : g_get_host_name(), sizeof mine);
    g_free(boot);
    const bool fine = bootstrap_allgather(b, mine, sizeof mine, host, error);
    *local_rank = 0;
    for (uint32_t rank = 0; fine && rank < b->rank; rank++)
        *local_rank += memcmp(host[rank], host[b->rank], sizeof mine) == 0;
    g_free(host);
    return fine;
}

static bool verbs_options_check(const struct live_options *o, const struct fabric_needs *needs, GError **error)
{
    if (o->service_level > 15) error_input(error, "sl: expected 0 to 15, found %u", o->service_level);
    else if (o->traffic_class > 255) error_input(error, "traffic-class: expected 0 to 255, found %u", o->traffic_class);
    else if (!needs->queue_count || !needs->queue_depth)
        error_run(error, "verbs: expected at least one queue of depth 1, found %u of %u", needs->queue_count,
                  needs->queue_depth);
    else return true;
    return false;
}

static bool verbs_nics_open(struct link_verbs *v, uint32_t local_rank, GError **error)
{
    g_auto(GStrv) names = verbs_nic_names(&v->options, local_rank, error);
    bool fine = names != NULL;
    for (uint32_t i = 0; fine && names[i]; i++) {
        v->nic_count++;
        fine = verbs_nic_open(&v->nic[i], names[i], &v->options, error) &&
               verbs_nic_register(&v->nic[i], &v->options, v->memory, error);
    }
    return fine;
}

/* Makes queues and slots of the requested sizes, or smaller ones if the devices allow no larger. */
static bool verbs_queues_make(struct link_verbs *v, uint32_t remote_count, GError **error)
{
    const uint64_t all = (uint64_t)v->rank_count * v->queue_count;
    const uint32_t each = remote_count * ((v->queue_count + v->nic_count - 1) / v->nic_count);
    const bool imm = v->options.signalling == LIVE_SIGNAL_IMM;
    v->send_depth = MIN(v->queue_depth, INT32_MAX / 2) + 1;
    v->receive_depth = imm ? v->queue_depth : 0;
    for (uint32_t i = 0; i < v->nic_count; i++) {
        const struct ibv_device_attr *attr = &v->nic[i].device_attr;
        v->send_depth = MIN(v->send_depth, (uint32_t)attr->max_qp_wr);
        if (imm) v->receive_depth = MIN(v->receive_depth, (uint32_t)attr->max_qp_wr);
        if (imm) v->receive_depth = MIN(v->receive_depth, (uint32_t)attr->max_cqe / MAX(each, 1));
    }
    if (v->send_depth < 2 || (imm && !v->receive_depth))
        return error_run(error,
                         "device %s: expected room for two sends and a receive on each of %u QPs, found %d work "
                         "requests and %d completions: use fewer queues",
                         v->nic[0].name, each, v->nic[0].device_attr.max_qp_wr, v->nic[0].device_attr.max_cqe);
    v->signal_every = MAX(1, MIN(VERBS_SIGNAL_EVERY, v->send_depth / 4));
    const uint64_t slot_count = all * v->send_depth + (imm ? all * 2 * v->queue_depth : 0);
    const size_t bytes = (slot_count * sizeof *v->slot + 4095) / 4096 * 4096;
    v->slot = memory_checked(aligned_alloc(4096, bytes), 1, bytes);
    memset(v->slot, 0, bytes);
    v->ring = v->slot + all * v->send_depth;
    for (uint32_t i = 0; i < v->nic_count; i++) {
        struct verbs_nic *nic = &v->nic[i];
        nic->scratch_mr = verbs_memory_register(nic, v->slot, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
                                                "signal slots", error);
        if (!nic->scratch_mr) return false;
        if (!verbs_nic_queues_make(nic, each * v->send_depth, each * v->receive_depth, error)) return false;
    }
    return true;
}

static bool verbs_qps_make(struct link_verbs *v, const bool *remote, GError **error)
{
    struct verbs_qp_limits limits = {
        .send_depth = v->send_depth,
        .receive_depth = MAX(v->receive_depth, 1),
        .inline_bytes = VERBS_INLINE_BYTES,
    };
    for (uint32_t i = 0; i < v->rank_count * v->queue_count; i++) {
        struct verbs_qp *qp = &v->qp[i];
        qp->peer = (uint16_t)(i / v->queue_count);
        qp->queue = (uint16_t)(i % v->queue_count);
        if (!remote[qp->peer]) continue;
        if (!verbs_qp_make(qp, &v->nic[qp->queue % v->nic_count], &limits, error)) return false;
        for (uint32_t left = v->receive_depth; left;) {
            const uint32_t count = MIN(left, VERBS_RECEIVES_POSTED_MAX);
            if (verbs_receives_post(v, qp, count) < 0) return error_run(error, "%s", v->link.failure);
            left -= count;
        }
    }
    return true;
}

static bool verbs_prepare(struct link_verbs *v, const struct fabric_needs *needs, uint32_t local_rank,
                          const bool *remote, GError **error)
{
    uint32_t remote_count = 0;
    for (uint32_t peer = 0; peer < v->rank_count; peer++) remote_count += remote[peer];
    return verbs_options_check(&v->options, needs, error) && verbs_nics_open(v, local_rank, error) &&
           verbs_queues_make(v, remote_count, error) && verbs_qps_make(v, remote, error);
}

/* Exchanges hellos, and sets *all_hello to the hellos of all ranks.  If one of them reports a failure, all ranks
 * fail. */
static bool verbs_hello_exchange(struct link_verbs *v, struct bootstrap *b, GError *failure, uint8_t **all_hello,
                                 size_t *hello_bytes, GError **error)
{
    const uint32_t qp_count = v->rank_count * v->queue_count;
    *hello_bytes = (sizeof(struct verbs_hello) + qp_count * sizeof(uint32_t) + 7) / 8 * 8;
    g_autofree struct verbs_hello *mine = g_malloc0(*hello_bytes);
    if (failure) g_strlcpy(mine->failure, failure->message, sizeof mine->failure);
    mine->memory = (uint64_t)(uintptr_t)v->memory->base;
    mine->memory_bytes = v->memory->size_bytes;
    mine->ring = (uint64_t)(uintptr_t)v->ring;
    mine->word_count = v->word_count;
    mine->queue_depth = v->queue_depth;
    mine->signalling = v->options.signalling;
    if (getrandom(&mine->packet_number, sizeof mine->packet_number, 0) < 0) mine->packet_number = v->rank;
    mine->packet_number &= 0xffffff;
    mine->nic_count = v->nic_count;
    for (uint32_t i = 0; !failure && i < v->nic_count; i++) mine->nic[i] = verbs_nic_address(&v->nic[i]);
    for (uint32_t i = 0; !failure && i < qp_count; i++) mine->qp_number[i] = v->qp[i].qp ? v->qp[i].qp->qp_num : 0;
    *all_hello = g_malloc(*hello_bytes * b->rank_count);
    const bool fine = bootstrap_allgather(b, mine, *hello_bytes, *all_hello, failure ? NULL : error);
    if (failure) g_propagate_error(error, failure);
    return fine && !failure;
}

static bool verbs_hello_check(const struct link_verbs *v, const struct verbs_hello *mine,
                              const struct verbs_hello *peer, uint32_t rank, GError **error)
{
    g_autofree char *failure = text_printable(peer->failure, sizeof peer->failure);
    if (*failure) g_set_error(error, LIVE_ERROR, LIVE_PEER_FAILED, "rank %u: %s", rank, failure);
    else if (peer->memory_bytes != mine->memory_bytes || peer->word_count != mine->word_count ||
             peer->queue_depth != mine->queue_depth || peer->signalling != mine->signalling)
        error_run(error,
                  "rank %u differs from rank %u: expected %" G_GUINT64_FORMAT
                  " bytes, %u words, queue depth %u and signalling %u, found %" G_GUINT64_FORMAT ", %u, %u and %u",
                  rank, v->rank, mine->memory_bytes, mine->word_count, mine->queue_depth, mine->signalling,
                  peer->memory_bytes, peer->word_count, peer->queue_depth, peer->signalling);
    else if (peer->nic_count < 1 || peer->nic_count > VERBS_NICS_MAX)
        error_run(error, "rank %u: expected 1 to %d NICs, found %u", rank, VERBS_NICS_MAX, peer->nic_count);
    else return true;
    return false;
}

static bool verbs_peer_connect(struct link_verbs *v, const struct verbs_hello *mine, const struct verbs_hello *peer,
                               uint32_t rank, GError **error)
{
    for (uint32_t queue = 0; queue < v->queue_count; queue++) {
        struct verbs_qp *qp = &v->qp[rank * v->queue_count + queue];
        const struct verbs_connection connection = {
            .peer = peer->nic[queue % peer->nic_count],
            .peer_qp_number = peer->qp_number[v->rank * v->queue_count + queue],
            .packet_number = mine->packet_number,
            .peer_packet_number = peer->packet_number,
        };
        if (!verbs_qp_connect(qp, &v->options, &connection, error)) return false;
        qp->peer_memory = peer->memory;
        qp->peer_memory_key = connection.peer.memory_key;
        qp->peer_ring = peer->ring;
        qp->peer_scratch_key = connection.peer.scratch_key;
    }
    return true;
}

static bool verbs_connect(struct link_verbs *v, struct bootstrap *b, const bool *remote, GError *failure,
                          GError **error)
{
    g_autofree uint8_t *all = NULL;
    size_t hello_bytes = 0;
    bool fine = verbs_hello_exchange(v, b, failure, &all, &hello_bytes, error);
    const struct verbs_hello *mine = (const void *)(all + hello_bytes * v->rank);
    for (uint32_t rank = 0; fine && rank < v->rank_count; rank++)
        fine = verbs_hello_check(v, mine, (const void *)(all + hello_bytes * rank), rank, error);
    for (uint32_t rank = 0; fine && rank < v->rank_count; rank++)
        if (remote[rank]) fine = verbs_peer_connect(v, mine, (const void *)(all + hello_bytes * rank), rank, error);
    return fine;
}

/* Writes the names of the NICs and ports that carry the link's bytes, as in "verbs r0 port 1+r1 port 1". */
static void verbs_carrier_name(struct link_verbs *v)
{
    g_strlcpy(v->link.carrier, "verbs ", sizeof v->link.carrier);
    for (uint32_t i = 0; i < v->nic_count; i++) {
        g_autofree char *nic = g_strdup_printf("%s%s port %u", i ? "+" : "", v->nic[i].name, v->nic[i].port);
        g_strlcat(v->link.carrier, nic, sizeof v->link.carrier);
    }
}

struct live_link *link_verbs_new(const struct live_options *o, const struct fabric_needs *needs, struct bootstrap *b,
                                 const struct live_memory *memory, const bool *remote, GError **error)
{
    uint32_t local_rank;
    if (!verbs_local_rank(b, &local_rank, error)) return NULL;
    struct link_verbs *v = g_new0(struct link_verbs, 1);
    v->link.ops = &verbs_ops;
    v->options = *o;
    v->memory = memory;
    v->rank = b->rank;
    v->rank_count = b->rank_count;
    v->queue_count = needs->queue_count;
    v->queue_depth = needs->queue_depth;
    v->word_count = (uint32_t)((memory->size_bytes - needs->heap_bytes) / sizeof(uint64_t));
    v->qp = g_new0(struct verbs_qp, (gsize)v->rank_count * v->queue_count);
    if (o->signalling == LIVE_SIGNAL_ATOMIC) v->shadow = g_new0(uint64_t, (gsize)v->rank_count * v->word_count);
    GError *failure = NULL;
    verbs_prepare(v, needs, local_rank, remote, &failure);
    bool fine = verbs_connect(v, b, remote, failure, error);
    /* No rank posts before the queue pairs of all ranks are ready to receive. */
    GError *late = NULL;
    if (!bootstrap_barrier(b, fine ? error : &late)) fine = false;
    g_clear_error(&late);
    if (fine) {
        verbs_carrier_name(v);
        return &v->link;
    }
    verbs_free(&v->link);
    return NULL;
}

#else

struct live_link *link_verbs_new(const struct live_options *o, const struct fabric_needs *needs, struct bootstrap *b,
                                 const struct live_memory *memory, const bool *remote, GError **error)
{
    (void)o, (void)needs, (void)b, (void)memory, (void)remote;
    return error_run(error, "verbs: this eptwin was built without libibverbs (package libibverbs-dev)"), NULL;
}

#endif
