/* coll_parts.c - what the family's kernels share: adding workers to a launch, the barrier, stores, patterns of
 * bytes. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include "models/coll/coll_internal.h"

void coll_worker_add(struct coll_rank *r, struct fabric_worker *w, const struct worker_role *role, uint32_t sm,
                     uint32_t warps)
{
    struct kernel_launch *launch = &r->launch;
    if (launch->worker_count == r->worker_max) {
        r->worker_max = 2 * r->worker_max + 16;
        struct fabric_worker **grown = kernel_keep(r, r->worker_max, sizeof grown[0]);
        for (uint32_t i = 0; i < launch->worker_count; i++) grown[i] = launch->worker[i];
        kernel_drop(r, launch->worker);
        launch->worker = grown;
    }
    kernel_launch_add(launch, r->fabric, w, role, sm, warps);
}

/* ---- the barrier: round k signals rank + 2^k and waits for rank - 2^k ---- */

static enum worker_step sync_step(struct fabric_worker *w)
{
    struct coll_sync *sync = fabric_container_of(w, struct coll_sync, worker);
    const struct fabric *f = w->fabric;
    while ((UINT32_C(1) << sync->seen) < f->rank_count) {
        if (sync->posted == sync->seen) {
            const struct fabric_signal signal = {
                .value = sync->generation,
                .word = sync->seen,
                .peer = (uint16_t)((f->rank + (UINT32_C(1) << sync->seen)) % f->rank_count),
            };
            const int rc = fabric_signal(w, &signal);
            if (rc == -EAGAIN) return WORKER_WAIT;
            assert(rc == 0);
            sync->posted++;
        }
        if (fabric_load(f, sync->seen) < sync->generation) return WORKER_WAIT;
        sync->seen++;
    }
    return WORKER_DONE;
}

static void sync_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct coll_sync *sync = fabric_container_of(w, struct coll_sync, worker);
    const struct fabric *f = w->fabric;
    const uint32_t far = (UINT32_C(1) << sync->seen) % f->rank_count;
    snprintf(text, text_size, "sync waits for rank %u", (f->rank + f->rank_count - far) % f->rank_count);
}

static const struct worker_role sync_role = { .step = sync_step, .describe = sync_describe };

void coll_sync_launch(struct coll_rank *r)
{
    struct coll_sync *sync = &r->sync;
    sync->generation++;
    sync->posted = sync->seen = 0;
    coll_worker_add(r, &sync->worker, &sync_role, 0, 1);
    fabric_watch(&sync->worker, 0, COLL_SYNC_ROUNDS, 0);
}

/* ---- bytes ---- */

uint64_t coll_block_bytes(const struct coll_options *o)
{
    uint64_t most = 0;
    for (uint32_t r = 0; r < (o->rows ? o->ranks : 1); r++)
        if (coll_size_of(o, r) > most) most = coll_size_of(o, r);
    return coll_align(most);
}

enum { LINE_BYTES = 128 };

struct fabric_write coll_write(const struct fabric *f, uint64_t from, uint16_t peer, uint64_t to, uint64_t size_bytes,
                               enum site site)
{
    struct fabric_write write = { .charge_bytes = size_bytes, .peer = peer, .site = (uint8_t)site };
    if (f->payload) {
        write.target_offset = to;
        write.data = f->heap + from;
        write.size_bytes = (uint32_t)size_bytes;
    }
    return write;
}

/* Each warp stores one piece of the chunk. */
int coll_store_some(struct fabric_worker *w, uint64_t from, uint16_t peer, uint64_t to, uint64_t size_bytes,
                    uint64_t *done)
{
    assert(*done <= size_bytes);
    const uint64_t chunk = coll_min(size_bytes - *done, COLL_CHUNK_BYTES);
    if (!chunk) return 0;
    struct fabric_write write = coll_write(w->fabric, from + *done, peer, to + *done, chunk, SITE_NCCL_STORE);
    write.rows = (uint8_t)coll_min(w->warps, (chunk + LINE_BYTES - 1) / LINE_BYTES);
    const int rc = fabric_store(w, &write);
    if (rc == 0) *done += chunk;
    return rc;
}

/* The eight bytes of a pattern from byte i on. */
static uint64_t pattern_word(uint64_t key, uint64_t i) { return kernel_hash(key + i * UINT64_C(0x9e3779b97f4a7c15)); }

static uint64_t pattern_key(uint32_t rank, uint32_t place, uint32_t iteration)
{
    return ((uint64_t)rank << 32 | place) * UINT64_C(0xd6e8feb86659fd93) ^ (uint64_t)iteration << 17;
}

void coll_pattern_fill(uint8_t *data, uint64_t size_bytes, uint32_t rank, uint32_t place, uint32_t iteration)
{
    const uint64_t key = pattern_key(rank, place, iteration);
    for (uint64_t i = 0; i < size_bytes; i += 8) {
        const uint64_t word = pattern_word(key, i);
        memcpy(data + i, &word, coll_min(8, size_bytes - i));
    }
}

uint64_t coll_pattern_check(const uint8_t *data, uint64_t size_bytes, uint32_t rank, uint32_t place, uint32_t iteration,
                            uint64_t *at)
{
    const uint64_t key = pattern_key(rank, place, iteration);
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < size_bytes; i += 8) {
        const uint64_t word = pattern_word(key, i);
        const uint8_t *expected = (const uint8_t *)&word;
        if (memcmp(data + i, expected, coll_min(8, size_bytes - i)) == 0) continue;
        for (uint64_t j = i; j < coll_min(i + 8, size_bytes); j++) {
            if (data[j] == expected[j - i]) continue;
            if (!wrong++) *at = j;
        }
    }
    return wrong;
}

uint64_t coll_sum_check(const struct coll_rank *r, const uint8_t *found, uint64_t size_bytes, uint32_t place)
{
    uint8_t *one = kernel_alloc(size_bytes, 1), *sum = kernel_alloc(size_bytes, 1);
    for (uint32_t rank = 0; rank < r->options->ranks; rank++) {
        coll_pattern_fill(one, size_bytes, rank, place, r->iteration);
        for (uint64_t i = 0; i < size_bytes; i++) sum[i] = (uint8_t)(sum[i] + one[i]);
    }
    uint64_t at = 0;
    while (at < size_bytes && found[at] == sum[at]) at++;
    free(one);
    free(sum);
    return at;
}
