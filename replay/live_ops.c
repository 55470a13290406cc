/* live_ops.c - the operations of struct fabric in a live world: stores into mapped memory, and requests to the link. */
#include "replay/live_internal.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <time.h>
#include "sim/units.h"

static struct live_world *live_world_of(const struct fabric *f)
{
    return fabric_container_of(f, struct live_world, fabric);
}

int live_broken(struct live_world *world, int rc)
{
    if (rc < 0 && rc != -EAGAIN && !world->broken) world->broken = rc;
    return rc;
}

uint64_t live_now_ps(const struct fabric *f)
{
    (void)f;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * PS_PER_S + (uint64_t)now.tv_nsec * PS_PER_NS;
}

static void live_copy(struct live_world *world, const struct fabric_write *write)
{
    uint8_t *const base = world->peer_base[write->peer];
    assert(base);
    assert(write->target_offset + write->size_bytes <= world->fabric.heap_bytes);
    fabric_write_copy(write, base + world->heap_offset + write->target_offset);
    world->operations++;
}

static int live_store(struct fabric *f, struct fabric_worker *w, const struct fabric_write *write)
{
    (void)w;
    assert(write->peer < f->rank_count && fabric_path(f, write->peer) != FABRIC_RDMA);
    live_copy(live_world_of(f), write);
    return 0;
}

/* Sets a word of a rank whose memory this process has mapped, or adds to it. */
static void live_word_change(struct live_world *world, const struct fabric_signal *signal)
{
    assert(world->peer_base[signal->peer]);
    uint64_t *word = (uint64_t *)(void *)world->peer_base[signal->peer] + signal->word;
    if (signal->add) __atomic_fetch_add(word, signal->value, __ATOMIC_RELEASE);
    else __atomic_store_n(word, signal->value, __ATOMIC_RELEASE);
    world->operations++;
}

static int live_signal(struct fabric *f, struct fabric_worker *w, const struct fabric_signal *signal)
{
    (void)w;
    struct live_world *world = live_world_of(f);
    assert(signal->peer < f->rank_count && signal->word < f->word_count + LIVE_BARRIER_WORDS);
    if (!world->link || !world->remote[signal->peer]) {
        live_word_change(world, signal);
        return 0;
    }
    assert(signal->queue < f->queue_count);
    const int rc = world->link->ops->signal(world->link, signal->peer, signal->queue, signal->word * sizeof(uint64_t),
                                            signal->value, signal->add);
    if (rc == 0) world->operations++;
    return live_broken(world, rc);
}

static int live_put(struct fabric *f, struct fabric_worker *w, const struct fabric_write *write,
                    const struct fabric_signal *signal)
{
    struct live_world *world = live_world_of(f);
    assert(write->peer < f->rank_count && write->queue < f->queue_count);
    assert(fabric_path(f, write->peer) == FABRIC_RDMA);
    assert(!signal || (write->peer == signal->peer && write->queue == signal->queue && signal->word < f->word_count));
    if (signal && !write->size_bytes) return live_signal(f, w, signal);
    if (!world->link) {
        live_copy(world, write);
        if (signal) live_word_change(world, signal);
        return 0;
    }
    if (!write->size_bytes) {
        if (write->defer) return 0;
        const int rc = live_broken(world, world->link->ops->flush(world->link, write->peer, write->queue));
        return rc == -EAGAIN ? 0 : rc; /* the flush rang the doorbell, which is all that an empty put does */
    }
    struct live_put put = {
        .source = (uint64_t)((const uint8_t *)write->data - world->memory.base),
        .target = world->heap_offset + write->target_offset,
        .size_bytes = write->size_bytes,
        .peer = write->peer,
        .queue = write->queue,
        .defer = write->defer,
    };
    assert(put.source >= world->heap_offset && put.source + put.size_bytes <= world->memory.size_bytes);
    assert(write->target_offset + write->size_bytes <= f->heap_bytes);
    if (signal) {
        put.signals = true;
        put.word = signal->word * sizeof(uint64_t);
        put.value = signal->value;
        put.add = signal->add;
    }
    const int rc = world->link->ops->put(world->link, &put);
    if (rc == 0) world->operations++;
    return live_broken(world, rc);
}

static int live_get(struct fabric *f, struct fabric_worker *w, const struct fabric_read *read)
{
    (void)w;
    struct live_world *world = live_world_of(f);
    const uint64_t target = (uint64_t)((const uint8_t *)read->target - world->memory.base);
    assert(read->peer < f->rank_count && read->peer != f->rank);
    if (!read->size_bytes) return 0;
    assert(target >= world->heap_offset && target + read->size_bytes <= world->memory.size_bytes);
    assert(read->source_offset + read->size_bytes <= f->heap_bytes);
    if (!world->link || !world->remote[read->peer]) {
        assert(world->peer_base[read->peer]);
        memcpy(read->target, world->peer_base[read->peer] + world->heap_offset + read->source_offset, read->size_bytes);
        world->operations++;
        return 0;
    }
    assert(read->queue < f->queue_count);
    const int rc = world->link->ops->get(world->link, read->peer, read->queue, world->heap_offset + read->source_offset,
                                         target, read->size_bytes);
    if (rc == 0) world->operations++;
    return live_broken(world, rc);
}

static void live_signal_add(struct fabric *f, struct fabric_worker *w, uint32_t word, uint64_t addend, enum site site)
{
    (void)w, (void)site;
    assert(word < f->word_count);
    __atomic_fetch_add(&f->words[word], addend, __ATOMIC_RELEASE);
    live_world_of(f)->operations++;
}

static int live_flush(struct fabric *f, struct fabric_worker *w, uint16_t peer, uint16_t queue)
{
    (void)w;
    struct live_world *world = live_world_of(f);
    assert(peer < f->rank_count && queue < f->queue_count);
    if (!world->link || !world->remote[peer]) return 0;
    return live_broken(world, world->link->ops->flush(world->link, peer, queue));
}

/* Calls work->run().  Work without it does nothing in a live world, and does not count as progress, because a worker
 * that only polls may request it again and again. */
static void live_work(struct fabric *f, struct fabric_worker *w, const struct fabric_work *work)
{
    (void)w;
    if (!work->run) return;
    work->run(work->context, work->argument);
    live_world_of(f)->operations++;
}

/* Does nothing, because every waiting worker is stepped in every round, whatever it watches. */
static void live_watch(struct fabric *f, struct fabric_worker *w, uint32_t word, uint32_t word_count, uint64_t least)
{
    (void)w, (void)least;
    assert((uint64_t)word + word_count <= f->word_count);
}

/* Keeps the latest time at which a worker wants to be woken. */
static void live_wake_at(struct fabric *f, struct fabric_worker *w, uint64_t time_ps)
{
    (void)w;
    struct live_world *world = live_world_of(f);
    if (time_ps > world->wake_ps) world->wake_ps = time_ps;
}

const struct fabric_ops live_ops = {
    .now_ps = live_now_ps,
    .store = live_store,
    .put = live_put,
    .signal = live_signal,
    .get = live_get,
    .signal_add = live_signal_add,
    .flush = live_flush,
    .work = live_work,
    .watch = live_watch,
    .wake_at = live_wake_at,
};

uint64_t live_world_operations(const struct fabric *f)
{
    return fabric_container_of(f, const struct live_world, fabric)->operations;
}
