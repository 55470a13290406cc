/* link_shm.c - a network between groups of processes of one host, made of shared memory.
 *
 * It behaves like a NIC with RC queue pairs, so that programs which run over it also run over a NIC.  Each (peer,
 * queue) has a queue of limited depth, to which puts and signals are posted.  Nothing moves before the doorbell has
 * rung.  Later calls of progress() complete the operations.  Operations of one queue complete in order, but the order
 * between queues is random, from a fixed seed.  The CPU of the posting rank copies the bytes.  The caller maps the
 * peers' memory. */
#include "replay/live.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include "sim/rng.h"

enum {
    SHM_PROGRESS_ENTRIES = 16,     /* the most operations of one progress() */
    SHM_PROGRESS_BYTES = 64 << 10, /* bytes after which one progress() stops */
    SHM_SEED = 0x51,
};

struct shm_entry {
    uint64_t source;     /* offset in own memory; of a get: in the peer's memory; of a signal: its value */
    uint64_t target;     /* offset in the peer's memory; of a get: in own memory */
    uint32_t size_bytes; /* 0 for a signal */
    bool add, get;
};

/* Counters of a queue's operations, which only grow: completed <= rung <= posted <= completed + depth. */
struct shm_queue {
    struct shm_entry *entry; /* [depth], a ring; made when first used */
    uint64_t posted, rung, completed;
};

struct link_shm {
    struct live_link link;
    const struct live_memory *memory;
    uint8_t *const *peer_base;
    uint32_t rank_count, queue_count, depth;
    struct shm_queue *queue; /* [peer][queue] */
    uint32_t *active;        /* queues with completed < rung */
    uint32_t active_count;
    struct rng rng;
};

static struct link_shm *link_shm_of(struct live_link *link) { return fabric_container_of(link, struct link_shm, link); }

static void shm_queue_check(const struct link_shm *shm, const struct shm_queue *queue)
{
    assert(queue->completed <= queue->rung && queue->rung <= queue->posted);
    assert(queue->posted - queue->completed <= shm->depth);
}

static void shm_ring(struct link_shm *shm, uint32_t index)
{
    assert(index < shm->rank_count * shm->queue_count);
    struct shm_queue *queue = &shm->queue[index];
    shm_queue_check(shm, queue);
    if (queue->rung == queue->posted) return;
    if (queue->completed == queue->rung) shm->active[shm->active_count++] = index;
    assert(shm->active_count <= shm->rank_count * shm->queue_count);
    queue->rung = queue->posted;
}

static int shm_post(struct link_shm *shm, uint16_t peer, uint16_t number, const struct shm_entry *entry, bool defer)
{
    assert(peer < shm->rank_count && number < shm->queue_count);
    const uint32_t index = (uint32_t)peer * shm->queue_count + number;
    struct shm_queue *queue = &shm->queue[index];
    shm_queue_check(shm, queue);
    if (queue->posted - queue->completed == shm->depth) {
        shm_ring(shm, index);
        return -EAGAIN;
    }
    if (!queue->entry) queue->entry = g_new(struct shm_entry, shm->depth);
    queue->entry[queue->posted++ % shm->depth] = *entry;
    if (!defer) shm_ring(shm, index);
    return 0;
}

static int shm_signal(struct live_link *link, uint16_t peer, uint16_t queue, uint64_t target, uint64_t value, bool add)
{
    assert(target % sizeof(uint64_t) == 0);
    const struct shm_entry entry = { .source = value, .target = target, .add = add };
    return shm_post(link_shm_of(link), peer, queue, &entry, false);
}

static int shm_put(struct live_link *link, const struct live_put *put)
{
    struct link_shm *shm = link_shm_of(link);
    const uint32_t index = (uint32_t)put->peer * shm->queue_count + put->queue;
    const struct shm_queue *queue = &shm->queue[index];
    const struct shm_entry entry = { .source = put->source, .target = put->target, .size_bytes = put->size_bytes };
    const struct shm_entry signal = { .source = put->value, .target = put->word, .add = put->add };
    assert(put->size_bytes > 0);
    if (!put->signals) return shm_post(shm, put->peer, put->queue, &entry, put->defer);
    assert(shm->depth >= 2);
    if (queue->posted - queue->completed + 2 > shm->depth) {
        shm_ring(shm, index);
        return -EAGAIN;
    }
    int rc = shm_post(shm, put->peer, put->queue, &entry, true);
    assert(rc == 0); /* both have room, as was checked above */
    rc = shm_post(shm, put->peer, put->queue, &signal, false);
    assert(rc == 0);
    return rc;
}

static int shm_get(struct live_link *link, uint16_t peer, uint16_t queue, uint64_t source, uint64_t target,
                   uint32_t size_bytes)
{
    assert(size_bytes > 0);
    const struct shm_entry entry = { .source = source, .target = target, .size_bytes = size_bytes, .get = true };
    return shm_post(link_shm_of(link), peer, queue, &entry, false);
}

static int shm_flush(struct live_link *link, uint16_t peer, uint16_t number)
{
    struct link_shm *shm = link_shm_of(link);
    const uint32_t index = (uint32_t)peer * shm->queue_count + number;
    shm_ring(shm, index);
    return shm->queue[index].completed == shm->queue[index].posted ? 0 : -EAGAIN;
}

static void shm_complete(struct link_shm *shm, uint32_t index)
{
    struct shm_queue *queue = &shm->queue[index];
    const struct shm_entry *entry = &queue->entry[queue->completed % shm->depth];
    uint8_t *const peer = shm->peer_base[index / shm->queue_count];
    assert(peer && queue->completed < queue->rung);
    assert(entry->target + (entry->size_bytes ? entry->size_bytes : sizeof(uint64_t)) <= shm->memory->size_bytes);
    uint64_t *const word = (uint64_t *)(void *)(peer + entry->target);
    if (entry->get) memcpy(shm->memory->base + entry->target, peer + entry->source, entry->size_bytes);
    else if (entry->size_bytes) memcpy(peer + entry->target, shm->memory->base + entry->source, entry->size_bytes);
    else if (entry->add) __atomic_fetch_add(word, entry->source, __ATOMIC_RELEASE);
    else __atomic_store_n(word, entry->source, __ATOMIC_RELEASE);
    queue->completed++;
}

static int shm_progress(struct live_link *link)
{
    struct link_shm *shm = link_shm_of(link);
    int completed = 0;
    uint64_t bytes = 0;
    while (shm->active_count && completed < SHM_PROGRESS_ENTRIES && bytes < SHM_PROGRESS_BYTES) {
        const bool single = shm->active_count == 1;
        const uint32_t chosen = single ? 0 : (uint32_t)rng_below(&shm->rng, shm->active_count);
        const uint32_t index = shm->active[chosen];
        const struct shm_queue *queue = &shm->queue[index];
        shm_queue_check(shm, queue);
        bytes += queue->entry[queue->completed % shm->depth].size_bytes;
        shm_complete(shm, index);
        completed++;
        if (queue->completed == queue->rung) shm->active[chosen] = shm->active[--shm->active_count];
    }
    return completed;
}

static void shm_free(struct live_link *link)
{
    struct link_shm *shm = link_shm_of(link);
    for (uint32_t i = 0; i < shm->rank_count * shm->queue_count; i++) g_free(shm->queue[i].entry);
    g_free(shm->queue);
    g_free(shm->active);
    g_free(shm);
}

static const struct live_link_ops shm_ops = {
    .name = "shm",
    .put = shm_put,
    .signal = shm_signal,
    .get = shm_get,
    .flush = shm_flush,
    .progress = shm_progress,
    .free = shm_free,
};

struct live_link *link_shm_new(const struct live_options *o, const struct fabric_needs *needs, struct bootstrap *b,
                               const struct live_memory *memory, const bool *remote, uint8_t *const *peer_base,
                               GError **error)
{
    (void)o;
    for (uint32_t peer = 0; peer < b->rank_count; peer++) {
        if (!remote[peer] || peer_base[peer]) continue;
        return error_null(error, "link shm: rank %u is not mapped here", peer);
    }
    if (!needs->queue_count || !needs->queue_depth)
        return error_null(error, "link shm: expected at least one queue of depth 1, found %u of %u", needs->queue_count,
                          needs->queue_depth);
    struct link_shm *shm = g_new0(struct link_shm, 1);
    shm->link.ops = &shm_ops;
    g_strlcpy(shm->link.carrier, "shm", sizeof shm->link.carrier);
    shm->memory = memory;
    shm->peer_base = peer_base;
    shm->rank_count = b->rank_count;
    shm->queue_count = needs->queue_count;
    shm->depth = needs->queue_depth;
    shm->queue = g_new0(struct shm_queue, (gsize)shm->rank_count * shm->queue_count);
    shm->active = g_new(uint32_t, (gsize)shm->rank_count * shm->queue_count);
    rng_seed(&shm->rng, SHM_SEED + b->rank);
    return &shm->link;
}
