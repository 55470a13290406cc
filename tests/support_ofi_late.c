/* support_ofi_late.c - replaces functions in libfabric's tables: those of the fabric, the domain, the endpoint and the
 * completion queue.  It knows libfabric, but not eptwin's links. */
#ifdef HAVE_OFI
#    include "tests/support_ofi_late.h"

#    include <assert.h>
#    include <glib.h>
#    include <rdma/fi_atomic.h>
#    include <rdma/fi_errno.h>
#    include <rdma/fi_rma.h>
#    include <string.h>
#    include "replay/links/ofi.h"
#    include "sim/rng.h"

enum { ENDPOINTS_MAX = 64, HELD_MAX = 256, BYTES_MAX = 1 << 16, WAIT_MAX = 12 };

enum held_kind { HELD_NONE, HELD_WRITE, HELD_MESSAGE, HELD_ATOMIC };

struct held {
    struct fi_context2 context; /* belongs to the provider; replaces the link's context */
    enum held_kind kind;
    uint64_t number; /* its place in the order of posting */
    uint32_t wait;   /* for how many more polls the operation is held back */
    bool early, copied, left;
    void *owner; /* the link's context */
    uint64_t flags;
    struct iovec source;
    struct fi_rma_iov target;
    struct fi_ioc value;
    struct fi_rma_ioc word;
    enum fi_datatype datatype;
    enum fi_op operation;
    fi_addr_t address;
    void *desc;
    uint8_t *copy;
};

struct endpoint {
    struct fid_domain *domain;
    struct fid_ep *ep;
    struct fid_cq *cq;
    struct fi_ops_domain domain_ops, *domain_below;
    struct fi_ops_rma rma, *rma_below;
    struct fi_ops_msg msg, *msg_below;
    struct fi_ops_atomic atomic, *atomic_below;
    struct fi_ops_cq cq_ops, *cq_below;
    struct held held[HELD_MAX];
    uint64_t posted;
    struct rng rng;
};

static struct {
    struct ofi_library honest, *library;
    struct fi_ops_fabric fabric_ops, *fabric_below;
    struct endpoint *endpoint[ENDPOINTS_MAX];
    uint32_t count;
    bool ordered;
    uint64_t seed;
    struct ofi_late_counts counts;
    GMutex lock;
} late;

static struct endpoint *endpoint_find(const void *object)
{
    g_mutex_lock(&late.lock);
    struct endpoint *found = NULL;
    for (uint32_t i = late.count; i-- > 0 && !found;) { /* searched from the newest, because addresses are reused */
        struct endpoint *const e = late.endpoint[i];
        if (object == e->ep || object == e->cq || object == e->domain) found = e;
    }
    g_mutex_unlock(&late.lock);
    assert(found);
    return found;
}

/* ---- holding back ---- */

static struct held *held_take(struct endpoint *e, enum held_kind kind, void *owner, uint64_t flags)
{
    for (uint32_t i = 0; i < HELD_MAX; i++) {
        struct held *const h = &e->held[i];
        if (h->kind != HELD_NONE) continue;
        *h = (struct held){ .kind = kind, .owner = owner, .flags = flags, .number = e->posted++, .copy = h->copy };
        h->wait = 1 + (uint32_t)rng_below(&e->rng, WAIT_MAX);
        h->early = !(flags & FI_DELIVERY_COMPLETE);
        return h;
    }
    return NULL;
}

static ssize_t late_writemsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
    struct endpoint *const e = endpoint_find(ep);
    struct held *const h = held_take(e, HELD_WRITE, msg->context, flags);
    if (!h) return -FI_EAGAIN;
    assert(msg->iov_count == 1 && msg->rma_iov_count == 1 && msg->msg_iov->iov_len <= BYTES_MAX);
    h->source = *msg->msg_iov;
    h->target = *msg->rma_iov;
    h->desc = msg->desc ? msg->desc[0] : NULL;
    h->address = msg->addr;
    return 0;
}

static ssize_t late_sendmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
    struct endpoint *const e = endpoint_find(ep);
    struct held *const h = held_take(e, HELD_MESSAGE, msg->context, flags);
    if (!h) return -FI_EAGAIN;
    assert(msg->iov_count == 1 && msg->msg_iov->iov_len <= BYTES_MAX);
    h->source = *msg->msg_iov;
    h->desc = msg->desc ? msg->desc[0] : NULL;
    h->address = msg->addr;
    return 0;
}

static ssize_t late_atomicmsg(struct fid_ep *ep, const struct fi_msg_atomic *msg, uint64_t flags)
{
    struct endpoint *const e = endpoint_find(ep);
    struct held *const h = held_take(e, HELD_ATOMIC, msg->context, flags);
    if (!h) return -FI_EAGAIN;
    assert(msg->iov_count == 1 && msg->rma_iov_count == 1 && msg->datatype == FI_UINT64);
    h->value = *msg->msg_iov;
    h->source = (struct iovec){ msg->msg_iov->addr, sizeof(uint64_t) };
    h->word = *msg->rma_iov;
    h->datatype = msg->datatype;
    h->operation = msg->op;
    h->desc = msg->desc ? msg->desc[0] : NULL;
    h->address = msg->addr;
    return 0;
}

static ssize_t held_post(struct endpoint *e, struct held *h)
{
    struct iovec iov = { h->copied ? h->copy : h->source.iov_base, h->source.iov_len };
    const struct fi_ioc value = { .addr = iov.iov_base, .count = 1 };
    const uint64_t flags = h->flags | FI_COMPLETION;
    switch (h->kind) {
    case HELD_WRITE:
        return e->rma_below->writemsg(
            e->ep, &(struct fi_msg_rma){ &iov, &h->desc, 1, h->address, &h->target, 1, &h->context, 0 }, flags);
    case HELD_MESSAGE:
        return e->msg_below->sendmsg(e->ep, &(struct fi_msg){ &iov, &h->desc, 1, h->address, &h->context, 0 }, flags);
    case HELD_ATOMIC:
        return e->atomic_below->writemsg(e->ep,
                                         &(struct fi_msg_atomic){ &value, &h->desc, 1, h->address, &h->word, 1,
                                                                  h->datatype, h->operation, &h->context, 0 },
                                         flags);
    case HELD_NONE: break;
    }
    g_assert_not_reached();
}

/* Whether an operation that was posted earlier has not left yet.  Where no order is promised, `h` may overtake it. */
static bool held_behind(const struct endpoint *e, const struct held *h)
{
    for (uint32_t i = 0; i < HELD_MAX; i++)
        if (e->held[i].kind != HELD_NONE && !e->held[i].left && e->held[i].number < h->number) return true;
    return false;
}

static void held_leave(struct endpoint *e)
{
    for (uint32_t pass = 0, first = (uint32_t)rng_below(&e->rng, HELD_MAX); pass < HELD_MAX; pass++) {
        struct held *const h = &e->held[(first + pass) % HELD_MAX];
        if (h->kind == HELD_NONE || h->left || (h->early && !h->copied)) continue;
        if (h->wait && --h->wait) continue;
        const bool behind = held_behind(e, h);
        if (behind && late.ordered) continue;
        const ssize_t rc = held_post(e, h);
        if (rc != 0 && rc != -FI_EAGAIN) g_error("late %d: %s", (int)h->kind, late.honest.strerror((int)-rc));
        if (rc) continue;
        h->left = true;
        late.counts.overtaken += behind;
    }
}

/* Completes operations early where that is allowed.  After that, the link may reuse their source. */
static size_t early_complete(struct endpoint *e, struct fi_cq_msg_entry *entry, size_t room)
{
    size_t count = 0;
    for (uint32_t i = 0; i < HELD_MAX && count < room; i++) {
        struct held *const h = &e->held[i];
        if (h->kind == HELD_NONE || !h->early || h->copied || rng_below(&e->rng, 2)) continue;
        if (!h->copy) h->copy = g_malloc(BYTES_MAX);
        memcpy(h->copy, h->source.iov_base, h->source.iov_len);
        h->copied = true;
        entry[count++] = (struct fi_cq_msg_entry){ .op_context = h->owner, .flags = FI_SEND };
        late.counts.early++;
    }
    return count;
}

/* ---- completions ---- */

static ssize_t late_cq_read(struct fid_cq *cq, void *buffer, size_t room)
{
    struct endpoint *const e = endpoint_find(cq);
    struct fi_cq_msg_entry *const entry = buffer;
    held_leave(e);
    const ssize_t n = e->cq_below->read(cq, buffer, room);
    if (n < 0 && n != -FI_EAGAIN) return n;
    size_t kept = 0;
    for (ssize_t i = 0; i < n; i++) {
        struct held *const h = entry[i].op_context;
        const bool own = h >= e->held && h < e->held + HELD_MAX;
        if (own) entry[i].op_context = h->owner;
        if (!own || !h->early) entry[kept++] = entry[i];
        if (own) h->kind = HELD_NONE;
    }
    kept += early_complete(e, entry + kept, room - kept);
    return kept ? (ssize_t)kept : -FI_EAGAIN;
}

/* ---- getting in between ---- */

static int late_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq, void *context)
{
    struct endpoint *const e = endpoint_find(domain);
    const int rc = e->domain_below->cq_open(domain, attr, cq, context);
    if (rc) return rc;
    assert(attr->format == FI_CQ_FORMAT_MSG);
    e->cq = *cq;
    e->cq_below = e->cq->ops;
    e->cq_ops = *e->cq_below;
    e->cq_ops.read = late_cq_read;
    e->cq->ops = &e->cq_ops;
    return 0;
}

static int late_endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context)
{
    struct endpoint *const e = endpoint_find(domain);
    const int rc = e->domain_below->endpoint(domain, info, ep, context);
    if (rc) return rc;
    e->ep = *ep;
    e->rma_below = e->ep->rma;
    e->rma = *e->rma_below;
    e->rma.writemsg = late_writemsg;
    e->ep->rma = &e->rma;
    e->msg_below = e->ep->msg;
    e->msg = *e->msg_below;
    e->msg.sendmsg = late_sendmsg;
    e->ep->msg = &e->msg;
    e->atomic_below = e->ep->atomic;
    if (e->atomic_below) {
        e->atomic = *e->atomic_below;
        e->atomic.writemsg = late_atomicmsg;
        e->ep->atomic = &e->atomic;
    }
    return 0;
}

static int late_domain(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain, void *context)
{
    const int rc = late.fabric_below->domain(fabric, info, domain, context);
    if (rc) return rc;
    struct endpoint *const e = g_new0(struct endpoint, 1);
    e->domain = *domain;
    e->domain_below = e->domain->ops;
    e->domain_ops = *e->domain_below;
    e->domain_ops.cq_open = late_cq_open;
    e->domain_ops.endpoint = late_endpoint;
    e->domain->ops = &e->domain_ops;
    g_mutex_lock(&late.lock);
    assert(late.count < ENDPOINTS_MAX);
    rng_seed(&e->rng, late.seed + late.count);
    late.endpoint[late.count++] = e;
    g_mutex_unlock(&late.lock);
    return 0;
}

static int late_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
    const int rc = late.honest.fabric(attr, fabric, context);
    if (rc) return rc;
    g_mutex_lock(&late.lock);
    if (!late.fabric_below) late.fabric_below = (*fabric)->ops;
    if ((*fabric)->ops != &late.fabric_ops) {
        late.fabric_ops = *late.fabric_below;
        late.fabric_ops.domain = late_domain;
        (*fabric)->ops = &late.fabric_ops;
    }
    g_mutex_unlock(&late.lock);
    return 0;
}

static int late_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
                        const struct fi_info *hints, struct fi_info **info)
{
    const int rc = late.honest.getinfo(version, node, service, flags, hints, info);
    for (struct fi_info *i = rc ? NULL : *info; i && !late.ordered; i = i->next) {
        i->tx_attr->msg_order = i->rx_attr->msg_order = 0;
        i->ep_attr->max_order_waw_size = 0;
    }
    return rc;
}

void ofi_late_begin(bool ordered, uint64_t seed)
{
    late.library = (struct ofi_library *)(uintptr_t)ofi_library_load(NULL);
    assert(late.library);
    late.honest = *late.library;
    late.library->fabric = late_fabric;
    late.library->getinfo = late_getinfo;
    late.fabric_below = NULL;
    late.ordered = ordered;
    late.seed = seed;
    late.counts = (struct ofi_late_counts){ 0, 0 };
}

struct ofi_late_counts ofi_late_end(void)
{
    *late.library = late.honest;
    for (uint32_t i = 0; i < late.count; i++) {
        for (uint32_t h = 0; h < HELD_MAX; h++) g_free(late.endpoint[i]->held[h].copy);
        g_free(late.endpoint[i]);
    }
    late.count = 0;
    return late.counts;
}

#endif
