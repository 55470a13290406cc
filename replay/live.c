/* live.c - the live world of one rank: its shared-memory object, the mappings of its peers', the fabric
 * operations on them, and the loop that steps workers.
 *
 * Knows memory, paths and waiting; knows nothing of what the workers do, of networks (those are links), or of
 * how the processes found each other (bootstrap.h).
 *
 *      object of rank r (memfd, without a name)        mapped by r and by every peer of the same host
 *      +--------------+---------------+-----+---------------------------------+
 *      | signal words | barrier words | pad | heap                            |
 *      +--------------+---------------+-----+---------------------------------+
 *      0              8 * word_count        heap_offset (whole pages) */
#include "replay/live.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "models/waits.h"
#include "sim/units.h"

enum {
    LIVE_BARRIER_WORDS = 16, /* rounds of a barrier of 65,536 ranks */
    LIVE_PAGE_BYTES = 4096,
    LIVE_HUGE_BYTES = 2 << 20,
    LIVE_SPIN_ROUNDS = 300, /* empty rounds, some us, before giving a CPU of its own away */
    LIVE_SLICE_NS = 100000, /* the shortest that Linux gives */
    LIVE_CLOCK_ROUNDS = 64, /* empty rounds between looks at the clock */
    LIVE_REST_SHARE = 16,   /* of the time that it has idled, it rests one part */
};
static const uint64_t LIVE_SLEEP_AFTER_PS = 5000 * PS_PER_US;   /* of idling: then the CPU may rest */
static const uint64_t LIVE_REST_PS = 1000 * PS_PER_US;          /* the most at once */
static const uint64_t LIVE_CHECK_AFTER_PS = 200000 * PS_PER_US; /* of idling: then it may be that a rank died */

struct live_barrier {
    struct fabric_worker worker;
    uint64_t generation;   /* of barriers; what the words become */
    uint32_t posted, seen; /* rounds of this barrier */
};

struct live_world {
    struct fabric fabric;
    struct live_options options;
    struct bootstrap *bootstrap;
    struct live_memory memory;
    int memory_fd;
    uint64_t heap_offset;
    uint8_t **peer_base;    /* [rank]: its object as mapped here, NULL where it is not */
    bool *remote;           /* [rank]: reached through the link */
    struct live_link *link; /* NULL: none needed */
    char nvlink_carrier[LIVE_CARRIER_BYTES], network_carrier[LIVE_CARRIERS_BYTES];
    uint64_t operations; /* done so far; it moves when the rank does */
    bool polls_timed;
    uint64_t polled_ps; /* of polls that completed something */
    int broken;         /* first errno of the data path that was not -EAGAIN */
    uint32_t local_ranks;
    cpu_set_t cpus; /* that this rank and those of its host may use */
    uint32_t cpu_count;
    struct fabric_worker **active; /* of the run in progress */
    uint32_t active_max, active_count;
    uint64_t runs; /* started so far */
    struct live_barrier barrier;
};

/* What a rank tells the others about its object. */
struct live_hello {
    char host[96]; /* boot id and process namespace: who can open /proc/pid/fd */
    uint64_t pid, fd, device, inode, size_bytes;
    cpu_set_t cpus; /* that it may use */
};

static struct live_world *live_world_of(const struct fabric *f)
{
    return fabric_container_of(f, struct live_world, fabric);
}

static int live_broken(struct live_world *world, int rc)
{
    if (rc < 0 && rc != -EAGAIN && !world->broken) world->broken = rc;
    return rc;
}

/* ---- the operations ---- */

static uint64_t live_now_ps(const struct fabric *f)
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
    assert(write->target_offset + fabric_write_bytes(write) <= world->fabric.heap_bytes);
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

static int live_put(struct fabric *f, struct fabric_worker *w, const struct fabric_write *write)
{
    (void)w;
    struct live_world *world = live_world_of(f);
    assert(write->peer < f->rank_count && write->queue < f->queue_count && write->sge_count <= 1);
    assert(fabric_path(f, write->peer) == FABRIC_RDMA);
    if (!world->link) {
        live_copy(world, write);
        return 0;
    }
    const bool defer = write->flags & FABRIC_DEFER;
    if (!write->sge_count || !write->sge[0].size_bytes) {
        if (defer) return 0;
        const int rc = live_broken(world, world->link->ops->flush(world->link, write->peer, write->queue));
        return rc == -EAGAIN ? 0 : rc; /* it rang the doorbell, which is all that an empty put does */
    }
    const struct fabric_sge *sge = &write->sge[0];
    const uint64_t source = (uint64_t)((const uint8_t *)sge->data - world->memory.base);
    assert(source >= world->heap_offset && source + sge->size_bytes <= world->memory.size_bytes);
    assert(write->target_offset + sge->size_bytes <= f->heap_bytes);
    const int rc = world->link->ops->put(world->link, write->peer, write->queue, source,
                                         world->heap_offset + write->target_offset, sge->size_bytes, defer);
    if (rc == 0) world->operations++;
    return live_broken(world, rc);
}

/* Of a rank whose memory is mapped here. */
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

static int live_put_signal(struct fabric *f, struct fabric_worker *w, const struct fabric_write *write,
                           const struct fabric_signal *signal)
{
    struct live_world *world = live_world_of(f);
    assert(write->peer == signal->peer && write->queue == signal->queue && signal->word < f->word_count);
    assert(write->peer < f->rank_count && write->queue < f->queue_count && write->sge_count <= 1);
    assert(fabric_path(f, write->peer) == FABRIC_RDMA);
    if (!write->sge_count || !write->sge[0].size_bytes) return live_signal(f, w, signal);
    if (!world->link) {
        live_copy(world, write);
        live_word_change(world, signal);
        return 0;
    }
    const struct fabric_sge *sge = &write->sge[0];
    const uint64_t source = (uint64_t)((const uint8_t *)sge->data - world->memory.base);
    assert(source >= world->heap_offset && source + sge->size_bytes <= world->memory.size_bytes);
    assert(write->target_offset + sge->size_bytes <= f->heap_bytes);
    const struct live_put_signal both = {
        .source = source,
        .target = world->heap_offset + write->target_offset,
        .size_bytes = sge->size_bytes,
        .peer = write->peer,
        .queue = write->queue,
        .word = signal->word * sizeof(uint64_t),
        .value = signal->value,
        .add = signal->add,
    };
    const int rc = world->link->ops->put_signal(world->link, &both);
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

static void live_signal_add(struct fabric *f, struct fabric_worker *w, uint32_t word, uint64_t addend,
                            enum fabric_scope scope)
{
    (void)w, (void)scope;
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

static void live_work(struct fabric *f, struct fabric_worker *w, const struct fabric_work *work)
{
    (void)w;
    if (work->run) work->run(work->context, work->argument);
    const uint64_t end_ps = work->kind == FABRIC_WORK_COMPUTE ? live_now_ps(f) + work->busy_ps : 0;
    while (end_ps && live_now_ps(f) < end_ps) continue;
    live_world_of(f)->operations++;
}

/* Every waiting worker is stepped in every round: there is nothing to remember. */
static void live_watch(struct fabric *f, struct fabric_worker *w, uint32_t word, uint32_t word_count, uint64_t least)
{
    (void)w, (void)least;
    assert((uint64_t)word + word_count <= f->word_count);
}

static const struct fabric_ops live_ops = {
    .name = "live",
    .now_ps = live_now_ps,
    .store = live_store,
    .put = live_put,
    .signal = live_signal,
    .put_signal = live_put_signal,
    .get = live_get,
    .signal_add = live_signal_add,
    .flush = live_flush,
    .work = live_work,
    .watch = live_watch,
};

/* ---- construction ---- */

void live_options_init(struct live_options *options)
{
    *options = (struct live_options){ .ranks_per_node = 8, .gid_index = -1, .port = 1, .timeout_ms = 30000 };
}

/* What a rank says when all agree that they came through. */
struct live_verdict {
    char failure[240];                                            /* "": none */
    char nvlink[LIVE_CARRIER_BYTES], network[LIVE_CARRIER_BYTES]; /* "": does not use it */
};

/* All ranks say whether they failed; the first that did becomes everyone's error, for the others as that of a
 * peer (LIVE_PEER_FAILED).  Consumes failure.  mine gets it; all[rank_count], if wanted, gets everyone's. */
static bool live_agree(struct bootstrap *b, struct live_verdict *mine, struct live_verdict **all, GError *failure,
                       GError **error)
{
    g_autofree struct live_verdict *verdict = g_new(struct live_verdict, b->rank_count);
    if (failure) g_strlcpy(mine->failure, failure->message, sizeof mine->failure);
    g_clear_error(&failure);
    if (!bootstrap_allgather(b, mine, sizeof *mine, verdict, error)) return false;
    for (uint32_t rank = 0; rank < b->rank_count; rank++) {
        if (!verdict[rank].failure[0]) continue;
        g_autofree char *text = bootstrap_peer_text(verdict[rank].failure, sizeof verdict[rank].failure);
        g_set_error(error, LIVE_ERROR, rank == b->rank ? LIVE_FAILED : LIVE_PEER_FAILED, "rank %u: %s", rank, text);
        return false;
    }
    if (all) *all = g_steal_pointer(&verdict);
    return true;
}

/* Adds what is not there yet, as long as there is room. */
static void live_carrier_add(char *text, size_t text_size, const char *carrier, size_t carrier_size)
{
    g_autofree char *one = bootstrap_peer_text(carrier, carrier_size);
    if (!*one) return;
    g_auto(GStrv) known = g_strsplit(text, ", ", 0);
    if (g_strv_contains((const char *const *)known, one)) return;
    if (strlen(text) + strlen(one) + 3 > text_size) return;
    if (*text) g_strlcat(text, ", ", text_size);
    g_strlcat(text, one, text_size);
}

static void live_carriers_gather(struct live_world *world, const struct live_verdict *verdict)
{
    for (uint32_t rank = 0; rank < world->fabric.rank_count; rank++) {
        const struct live_verdict *v = &verdict[rank];
        live_carrier_add(world->nvlink_carrier, sizeof world->nvlink_carrier, v->nvlink, sizeof v->nvlink);
        live_carrier_add(world->network_carrier, sizeof world->network_carrier, v->network, sizeof v->network);
    }
    if (!world->nvlink_carrier[0]) g_strlcpy(world->nvlink_carrier, "none", sizeof world->nvlink_carrier);
    if (!world->network_carrier[0]) g_strlcpy(world->network_carrier, "none", sizeof world->network_carrier);
}

/* What this rank uses. */
static void live_carriers_say(const struct live_world *world, struct live_verdict *mine)
{
    for (uint16_t peer = 0; peer < world->fabric.rank_count; peer++)
        if (fabric_path(&world->fabric, peer) == FABRIC_NVLINK)
            g_strlcpy(mine->nvlink, "shared memory", sizeof mine->nvlink);
        else if (world->remote[peer])
            g_strlcpy(mine->network, world->link ? world->link->carrier : "shared memory, at once",
                      sizeof mine->network);
}

static void live_host_name(char *text, size_t text_size)
{
    g_autofree char *boot = NULL;
    g_autofree char *space = g_file_read_link("/proc/self/ns/pid", NULL);
    g_file_get_contents("/proc/sys/kernel/random/boot_id", &boot, NULL, NULL);
    g_snprintf(text, (gulong)text_size, "%s %s", boot ? g_strstrip(boot) : g_get_host_name(), space ? space : "");
}

static uint8_t *live_map(int fd, uint64_t size_bytes)
{
    void *base = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) return NULL;
    /* Only a wish: without huge pages for shared memory everything works, with more TLB misses. */
    if (size_bytes >= LIVE_HUGE_BYTES) (void)!madvise(base, size_bytes, MADV_HUGEPAGE);
    return base;
}

static bool live_memory_make(struct live_world *world, const struct fabric_needs *needs, GError **error)
{
    const uint64_t words = ((uint64_t)needs->word_count + LIVE_BARRIER_WORDS) * sizeof(uint64_t);
    world->heap_offset = (words + LIVE_PAGE_BYTES - 1) / LIVE_PAGE_BYTES * LIVE_PAGE_BYTES;
    world->memory.size_bytes = world->heap_offset + needs->heap_bytes;
    assert(world->heap_offset >= words && world->heap_offset % LIVE_PAGE_BYTES == 0);
    world->memory_fd = memfd_create("eptwin-rank", MFD_CLOEXEC);
    if (world->memory_fd >= 0 && ftruncate(world->memory_fd, (off_t)world->memory.size_bytes) == 0)
        world->memory.base = live_map(world->memory_fd, world->memory.size_bytes);
    if (world->memory.base) return true;
    g_set_error(error, LIVE_ERROR, LIVE_FAILED, "shared memory: expected %" G_GUINT64_FORMAT " bytes, found: %s",
                world->memory.size_bytes, g_strerror(errno));
    return false;
}

static bool live_peer_map(struct live_world *world, const struct live_hello *peer, uint32_t rank, GError **error)
{
    char path[64];
    g_snprintf(path, sizeof path, "/proc/%" G_GUINT64_FORMAT "/fd/%" G_GUINT64_FORMAT, peer->pid, peer->fd);
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    struct stat stat;
    if (fd >= 0 && fstat(fd, &stat) == 0) {
        if (stat.st_dev == peer->device && stat.st_ino == peer->inode && peer->size_bytes == world->memory.size_bytes)
            world->peer_base[rank] = live_map(fd, peer->size_bytes);
        else errno = ESTALE;
    }
    if (!world->peer_base[rank])
        g_set_error(error, LIVE_ERROR, LIVE_FAILED,
                    "shared memory of rank %u (%s): expected to map %" G_GUINT64_FORMAT " bytes, found: %s", rank, path,
                    world->memory.size_bytes, g_strerror(errno));
    if (fd >= 0) close(fd);
    return world->peer_base[rank] != NULL;
}

/* Maps every peer that shared memory must reach, and says which the link must. */
static bool live_peers_map(struct live_world *world, const struct live_hello *hello, GError **error)
{
    const struct fabric *f = &world->fabric;
    const char *link = world->options.fabric;
    const bool shared_link = !link || strcmp(link, "shm") == 0;
    for (uint16_t peer = 0; peer < f->rank_count; peer++) {
        const bool here = strcmp(hello[peer].host, hello[f->rank].host) == 0;
        world->local_ranks += here;
        if (here) CPU_OR(&world->cpus, &world->cpus, &hello[peer].cpus);
        world->remote[peer] = fabric_path(f, peer) == FABRIC_RDMA;
        if (peer == f->rank) {
            world->peer_base[peer] = world->memory.base;
        } else if (shared_link || !world->remote[peer]) {
            if (!here) {
                g_set_error(error, LIVE_ERROR, LIVE_BAD_INPUT, "rank %u is on another host: expected %s", peer,
                            shared_link ? "one host with --fabric shm"
                                        : "one host for each --ranks-per-node ranks, or --disable-nvlink");
                return false;
            }
            if (!live_peer_map(world, &hello[peer], peer, error)) return false;
        }
    }
    return true;
}

static bool live_link_make(struct live_world *world, const struct fabric_needs *needs, GError **error)
{
    const struct live_options *o = &world->options;
    struct bootstrap *b = world->bootstrap;
    bool any = false;
    for (uint32_t peer = 0; peer < b->rank_count; peer++) any |= world->remote[peer];
    if (!any || !o->fabric) return true;
    if (strcmp(o->fabric, "shm") == 0)
        world->link = link_shm_new(o, needs, b, &world->memory, world->remote, world->peer_base, error);
    else if (strcmp(o->fabric, "verbs") == 0)
        world->link = link_verbs_new(o, needs, b, &world->memory, world->remote, error);
    else world->link = link_ofi_new(o, needs, b, &world->memory, world->remote, error);
    return world->link != NULL;
}

static bool live_options_check(const struct live_options *o, const struct bootstrap *b, GError **error)
{
    const char *link = o->fabric ? o->fabric : "shm";
    if (strcmp(link, "shm") != 0 && strcmp(link, "verbs") != 0 && strcmp(link, "ofi") != 0)
        g_set_error(error, LIVE_ERROR, LIVE_BAD_INPUT, "fabric: expected shm, verbs or ofi, found '%s'", link);
    else if (o->ranks_per_node == 0)
        g_set_error(error, LIVE_ERROR, LIVE_BAD_INPUT, "ranks-per-node: expected at least 1, found 0");
    else if (b->rank_count > UINT16_MAX)
        g_set_error(error, LIVE_ERROR, LIVE_BAD_INPUT, "ranks: expected at most %u, found %u", UINT16_MAX,
                    b->rank_count);
    else if (o->gpu_memory && strcmp(link, "verbs") != 0)
        g_set_error(error, LIVE_ERROR, LIVE_BAD_INPUT, "gpu-memory: expected --fabric verbs (dma-buf), found '%s'",
                    link);
    else return true;
    return false;
}

static struct live_world *live_world_alloc(const struct live_options *o, const struct fabric_needs *needs,
                                           struct bootstrap *b)
{
    struct live_world *world = g_new0(struct live_world, 1);
    world->options = *o;
    world->bootstrap = b;
    world->memory_fd = -1;
    world->peer_base = g_new0(uint8_t *, b->rank_count);
    world->remote = g_new0(bool, b->rank_count);
    world->fabric = (struct fabric){
        .ops = &live_ops,
        .heap_bytes = needs->heap_bytes,
        .word_count = needs->word_count,
        .rank = (uint16_t)b->rank,
        .rank_count = (uint16_t)b->rank_count,
        .ranks_per_node = (uint16_t)MIN(o->ranks_per_node, UINT16_MAX),
        .queue_count = needs->queue_count,
        .nvlink_disabled = o->nvlink_disabled,
        .payload = true,
    };
    return world;
}

/* The collective part of live_world_new: each step ends with all ranks agreeing that all came through. */
static bool live_world_join(struct live_world *world, const struct fabric_needs *needs, GError **error)
{
    struct bootstrap *b = world->bootstrap;
    GError *failure = NULL;
    if (live_options_check(&world->options, b, &failure)) live_memory_make(world, needs, &failure);
    struct live_verdict verdict = { .failure = "" };
    if (!live_agree(b, &verdict, NULL, failure, error)) return false;

    struct stat stat = { 0 };
    const int rc = fstat(world->memory_fd, &stat);
    assert(rc == 0);
    struct live_hello mine = {
        .pid = (uint64_t)getpid(),
        .fd = (uint64_t)world->memory_fd,
        .device = stat.st_dev,
        .inode = stat.st_ino,
        .size_bytes = world->memory.size_bytes,
    };
    live_host_name(mine.host, sizeof mine.host);
    if (sched_getaffinity(0, sizeof mine.cpus, &mine.cpus) != 0) CPU_ZERO(&mine.cpus);
    g_autofree struct live_hello *hello = g_new0(struct live_hello, b->rank_count);
    bool fine = bootstrap_allgather(b, &mine, sizeof mine, hello, error);
    if (fine) {
        failure = NULL;
        live_peers_map(world, hello, &failure);
        world->cpu_count = MAX((uint32_t)CPU_COUNT(&world->cpus), 1);
        fine = live_agree(b, &verdict, NULL, failure, error);
    }
    if (!fine) return false;
    failure = NULL;
    live_link_make(world, needs, &failure);
    g_autofree struct live_verdict *all = NULL;
    live_carriers_say(world, &verdict);
    if (!live_agree(b, &verdict, &all, failure, error)) return false;
    live_carriers_gather(world, all);
    assert(world->local_ranks >= 1 && world->local_ranks <= b->rank_count && world->cpu_count >= 1);
    return true;
}

/* Ranks that outnumber the CPUs take turns, and ranks on a busy machine always do.  A yield then costs up to a
 * time slice, and slices are milliseconds by default; so this thread asks for short ones (Linux 6.12; any
 * process may).  Only a wish: an older kernel ignores or refuses it. */
static void live_slice_shorten(void)
{
    struct {
        uint32_t size_bytes, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t slice_ns, deadline_ns, period_ns;
    } attributes = { .size_bytes = 48 };
    _Static_assert(sizeof attributes == 48, "the kernel's struct sched_attr, first version");
    if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) return;
    if (attributes.policy != SCHED_OTHER) return;
    attributes.slice_ns = LIVE_SLICE_NS;
    (void)!syscall(SYS_sched_setattr, 0, &attributes, 0);
}

/* Also a rank that waits in an exchange moves what others sent to it, where links need the CPU for that. */
static bool live_serve(void *context) { return live_world_progress(context) > 0; }

struct live_world *live_world_new(const struct live_options *options, const struct fabric_needs *needs,
                                  struct bootstrap *b, GError **error)
{
    struct live_world *world = live_world_alloc(options, needs, b);
    b->serve = live_serve;
    b->serve_context = world;
    if (!live_world_join(world, needs, error)) {
        live_world_free(world);
        return NULL;
    }
    live_slice_shorten();
    world->fabric.words = (uint64_t *)(void *)world->memory.base;
    world->fabric.heap = world->memory.base + world->heap_offset;
    return world;
}

void live_world_free(struct live_world *world)
{
    if (!world) return;
    if (world->bootstrap->serve_context == world) world->bootstrap->serve = NULL;
    if (world->link) world->link->ops->free(world->link);
    for (uint32_t peer = 0; peer < world->fabric.rank_count; peer++)
        if (world->peer_base[peer] && peer != world->fabric.rank)
            munmap(world->peer_base[peer], world->memory.size_bytes);
    if (world->memory.base) munmap(world->memory.base, world->memory.size_bytes);
    if (world->memory_fd >= 0) close(world->memory_fd);
    g_free(world->peer_base);
    g_free(world->remote);
    g_free(world->active);
    g_free(world);
}

struct fabric *live_world_fabric(struct live_world *world) { return &world->fabric; }

bool live_world_one_clock(const struct live_world *world) { return world->local_ranks == world->fabric.rank_count; }
const char *live_world_nvlink_carrier(const struct live_world *world) { return world->nvlink_carrier; }
const char *live_world_network_carrier(const struct live_world *world) { return world->network_carrier; }
uint32_t live_world_local_ranks(const struct live_world *world) { return world->local_ranks; }
uint32_t live_world_cpus(const struct live_world *world) { return world->cpu_count; }
const cpu_set_t *live_world_cpu_set(const struct live_world *world) { return &world->cpus; }

bool live_cpu_bind(const cpu_set_t *cpus, uint32_t index)
{
    cpu_set_t one;
    int cpu = 0;
    assert(CPU_COUNT(cpus) > 0);
    CPU_ZERO(&one);
    for (index %= (uint32_t)CPU_COUNT(cpus); !CPU_ISSET(cpu, cpus) || index; cpu++) index -= CPU_ISSET(cpu, cpus) != 0;
    CPU_SET(cpu, &one);
    return sched_setaffinity(0, sizeof one, &one) == 0;
}

const char *live_world_failure(const struct live_world *world)
{
    if (!world->broken) return "";
    return world->link && world->link->failure[0] ? world->link->failure : g_strerror(-world->broken);
}

/* ---- running ---- */

int live_world_progress(struct live_world *world)
{
    if (!world->link) return 0;
    if (!world->polls_timed) return live_broken(world, world->link->ops->progress(world->link));
    const uint64_t start_ps = live_now_ps(&world->fabric);
    const int rc = live_broken(world, world->link->ops->progress(world->link));
    if (rc > 0) world->polled_ps += live_now_ps(&world->fabric) - start_ps;
    return rc;
}

void live_world_time_polls(struct live_world *world, bool on) { world->polls_timed = on; }
uint64_t live_world_polled_ps(const struct live_world *world) { return world->polled_ps; }

/* What a rank does when nothing moved: spin while the answer may be a few hundred nanoseconds away and there
 * is a CPU for everyone; else let the others run, who have what it waits for; after long idling, sleep, the longer the
 * more: each waking takes a CPU from who works there. */
static void live_wait(const struct live_world *world, uint64_t idle_rounds, uint64_t idle_ps)
{
    if (world->local_ranks <= world->cpu_count && idle_rounds < LIVE_SPIN_ROUNDS) {
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ volatile("isb" ::: "memory");
#endif
    } else if (idle_ps < LIVE_SLEEP_AFTER_PS) {
        sched_yield();
    } else {
        const struct timespec rest = { .tv_nsec = (long)(MIN(idle_ps / LIVE_REST_SHARE, LIVE_REST_PS) / PS_PER_NS) };
        nanosleep(&rest, NULL);
    }
}

/* Steps each active worker once and polls the link; keeps those that are not done, in order. */
static bool live_round(struct live_world *world, uint32_t *active_count)
{
    const uint64_t before = world->operations;
    bool moved = false;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < *active_count; i++) {
        struct fabric_worker *w = world->active[i];
        assert(w->fabric->rank == world->fabric.rank); /* maybe a fabric on top of this one, which notes what is done */
        const enum worker_step step = w->step(w);
        moved |= step != WORKER_WAIT;
        if (step != WORKER_DONE) world->active[kept++] = w;
    }
    assert(kept <= *active_count);
    *active_count = kept;
    moved |= live_world_progress(world) > 0;
    return moved || world->operations != before;
}

/* Whether a worker waits for a time that is still to come: that is no hang. */
static bool live_wake_ahead(const struct live_world *world, uint32_t active_count)
{
    const uint64_t now_ps = live_now_ps(&world->fabric);
    for (uint32_t i = 0; i < active_count; i++)
        if (world->active[i]->wake_ps > now_ps) return true;
    return false;
}

static void live_peer_add(struct bootstrap_wait *wait, uint16_t peer)
{
    for (uint32_t i = 0; i < wait->peer_count; i++)
        if (wait->peer[i] == peer) return;
    if (wait->peer_count < BOOTSTRAP_WAIT_PEERS) wait->peer[wait->peer_count++] = peer;
}

/* All workers' peers; the words of the first that names one, else of the first. */
static void live_tell(void *context, struct bootstrap_wait *wait)
{
    const struct live_world *world = context;
    *wait = (struct bootstrap_wait){ .serial = world->runs };
    for (uint32_t i = 0; i < world->active_count; i++) {
        const struct fabric_worker *w = world->active[i];
        char text[200] = "";
        if (w->describe) w->describe(w, text, sizeof text);
        const int32_t peer = waits_peer(text, world->fabric.rank_count);
        const bool named = peer != WAITS_NOBODY && peer != world->fabric.rank;
        if (!wait->text[0] || (named && !wait->peer_count))
            g_snprintf(wait->text, sizeof wait->text, "worker %u of %u waiting: %s", w->index, world->active_count,
                       text[0] ? text : "(silent)");
        if (named) live_peer_add(wait, (uint16_t)peer);
    }
}

static bool live_hang(struct live_world *world, GError **error)
{
    struct bootstrap_wait wait, mine;
    live_tell(world, &mine);
    wait = mine;
    g_snprintf(wait.text, sizeof wait.text, "no progress for %u ms: %.*s", world->options.timeout_ms,
               (int)sizeof mine.text - 40, mine.text);
    return bootstrap_hang(world->bootstrap, &wait, error);
}

static bool live_run_active(struct live_world *world, uint32_t active_count, GError **error)
{
    const uint64_t timeout_ps = world->options.timeout_ms * UINT64_C(1000) * PS_PER_US;
    uint64_t idle_rounds = 0, idle_since_ps = 0, idle_ps = 0, check_ps = LIVE_CHECK_AFTER_PS;
    while (active_count) {
        const bool moved = live_round(world, &active_count);
        world->active_count = active_count;
        if (world->broken) {
            g_set_error(error, LIVE_ERROR, LIVE_FAILED, "rank %u: %s", world->fabric.rank, live_world_failure(world));
            return false;
        }
        if (moved) {
            idle_rounds = 0;
            continue;
        }
        if (idle_rounds == 0) {
            idle_ps = 0;
            check_ps = LIVE_CHECK_AFTER_PS;
            idle_since_ps = live_now_ps(&world->fabric);
        } else if (idle_rounds % LIVE_CLOCK_ROUNDS == 0 || idle_ps >= LIVE_SLEEP_AFTER_PS) {
            idle_ps = live_now_ps(&world->fabric) - idle_since_ps;
            if (idle_ps > timeout_ps && !live_wake_ahead(world, active_count)) return live_hang(world, error);
            if (idle_ps > check_ps) {
                if (!bootstrap_check(world->bootstrap, error)) return false;
                check_ps = idle_ps + LIVE_CHECK_AFTER_PS;
            }
        }
        live_wait(world, idle_rounds++, idle_ps);
    }
    return true;
}

uint64_t live_world_operations(const struct fabric *f)
{
    return fabric_container_of(f, const struct live_world, fabric)->operations;
}

bool live_world_run(struct live_world *world, struct fabric_worker **workers, uint32_t worker_count, GError **error)
{
    if (worker_count > world->active_max) {
        world->active = g_renew(struct fabric_worker *, world->active, worker_count);
        world->active_max = worker_count;
    }
    if (worker_count) memcpy(world->active, workers, sizeof *workers * worker_count);
    struct bootstrap *b = world->bootstrap;
    assert(!b->tell); /* one run at a time */
    world->runs++;
    world->active_count = worker_count;
    b->tell = live_tell;
    b->tell_context = world;
    const bool fine = live_run_active(world, worker_count, error);
    b->tell = NULL;
    assert(!fine || world->active_count == 0);
    return fine;
}

/* Round k: signal rank + 2^k, wait for rank - 2^k.  Each word has one writer, raising it once a barrier. */
static enum worker_step live_barrier_step(struct fabric_worker *w)
{
    struct live_barrier *barrier = fabric_container_of(w, struct live_barrier, worker);
    const struct fabric *f = w->fabric;
    while ((UINT32_C(1) << barrier->seen) < f->rank_count) {
        const uint32_t word = f->word_count + barrier->seen;
        assert(barrier->seen < LIVE_BARRIER_WORDS && barrier->posted - barrier->seen <= 1);
        if (barrier->posted == barrier->seen) {
            const struct fabric_signal signal = {
                .value = barrier->generation,
                .word = word,
                .peer = (uint16_t)((f->rank + (UINT32_C(1) << barrier->seen)) % f->rank_count),
            };
            if (fabric_signal(w, &signal) < 0) return WORKER_WAIT;
            barrier->posted++;
        }
        if (fabric_load(f, word) < barrier->generation) return WORKER_WAIT;
        /* A peer may be one barrier ahead, and no more: its next one needs this rank. */
        assert(fabric_load(f, word) <= barrier->generation + 1);
        barrier->seen++;
    }
    return WORKER_DONE;
}

static void live_barrier_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct live_barrier *barrier = fabric_container_of(w, struct live_barrier, worker);
    const struct fabric *f = w->fabric;
    const uint32_t step = (UINT32_C(1) << barrier->seen) % f->rank_count;
    g_snprintf(text, (gulong)text_size, "barrier: waits for rank %u", (f->rank + f->rank_count - step) % f->rank_count);
}

bool live_world_barrier(struct live_world *world, GError **error)
{
    struct live_barrier *barrier = &world->barrier;
    barrier->worker = (struct fabric_worker){
        .step = live_barrier_step,
        .describe = live_barrier_describe,
        .fabric = &world->fabric,
    };
    barrier->generation++;
    barrier->posted = barrier->seen = 0;
    struct fabric_worker *worker = &barrier->worker;
    return live_world_run(world, &worker, 1, error);
}
