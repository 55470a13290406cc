/* live.c - joins ranks into a live world: makes the rank's shared-memory object, maps those of its peers, and opens
 * the link.  This file knows memory, paths and processes.  It does not know the workers' task, networks (links do),
 * or how ranks are joined (bootstrap.h).  live_ops.c has the operations, and live_run.c the loop that steps workers. */
#include "replay/live_internal.h"
#include "sim/memory.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    LIVE_PAGE_BYTES = 4096,
    LIVE_HUGE_BYTES = 2 << 20,
    LIVE_SLICE_NS = 100000, /* the shortest time slice that Linux grants */
};

/* What a rank tells the others about its memory object. */
struct live_hello {
    char host[96]; /* boot ID and process namespace, equal for processes that can open each other's /proc/pid/fd */
    uint64_t pid, fd, device, inode, size_bytes;
    cpu_set_t cpus; /* the CPUs that the rank may use */
};

void live_options_init(struct live_options *options)
{
    *options = (struct live_options){ .ranks_per_node = 8, .gid_index = -1, .port = 1, .timeout_ms = 30000 };
}

/* What a rank tells the others when it has tried to make its world. */
struct live_verdict {
    char failure[240];                                            /* why the rank has failed; "" if it has not failed */
    char nvlink[LIVE_CARRIER_BYTES], network[LIVE_CARRIER_BYTES]; /* carriers of stores and of network operations; ""
                                                                   * if there are none */
};

/* Exchanges whether each rank has failed.  The failure of the first failed rank becomes the error of all
 * ranks.  On other ranks it has the code LIVE_PEER_FAILED.  Frees `failure` and writes its text into *mine.  If
 * `all` is not NULL, *all gets the verdicts of all ranks. */
static bool live_agree(struct bootstrap *b, struct live_verdict *mine, struct live_verdict **all, GError *failure,
                       GError **error)
{
    g_autofree struct live_verdict *verdict = g_new(struct live_verdict, b->rank_count);
    if (failure) g_strlcpy(mine->failure, failure->message, sizeof mine->failure);
    g_clear_error(&failure);
    if (!bootstrap_allgather(b, mine, sizeof *mine, verdict, error)) return false;
    for (uint32_t rank = 0; rank < b->rank_count; rank++) {
        if (!verdict[rank].failure[0]) continue;
        g_autofree char *text = text_printable(verdict[rank].failure, sizeof verdict[rank].failure);
        if (rank == b->rank) return error_run(error, "rank %u: %s", rank, text);
        g_set_error(error, LIVE_ERROR, LIVE_PEER_FAILED, "rank %u: %s", rank, text);
        return false;
    }
    if (all) *all = g_steal_pointer(&verdict);
    return true;
}

/* Adds a carrier to the text, if the text has room and does not yet name it. */
static void live_carrier_add(char *text, size_t text_size, const char *carrier, size_t carrier_size)
{
    g_autofree char *one = text_printable(carrier, carrier_size);
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

/* Writes into *mine the carriers of this rank's stores and of its operations over the network. */
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
    /* A failure is ignored: without huge pages there are only more TLB misses. */
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
    return error_run(error, "shared memory: expected %" G_GUINT64_FORMAT " bytes, found: %s", world->memory.size_bytes,
                     g_strerror(errno));
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
        error_run(error, "shared memory of rank %u (%s): expected to map %" G_GUINT64_FORMAT " bytes, found: %s", rank,
                  path, world->memory.size_bytes, g_strerror(errno));
    if (fd >= 0) close(fd);
    return world->peer_base[rank] != NULL;
}

/* Maps the memory of peers that are reached by shared memory.  Marks all other peers as those that the link must
 * reach. */
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
            if (!here)
                return error_input(error, "rank %u is on another host: expected %s", peer,
                                   shared_link ? "one host with --fabric shm"
                                               : "one host for each --ranks-per-node ranks, or --disable-nvlink");
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
        error_input(error, "fabric: expected shm, verbs or ofi, found '%s'", link);
    else if (o->ranks_per_node == 0) error_input(error, "ranks-per-node: expected at least 1, found 0");
    else if (b->rank_count > UINT16_MAX)
        error_input(error, "ranks: expected at most %u, found %u", UINT16_MAX, b->rank_count);
    else if (o->gpu_memory && strcmp(link, "verbs") != 0)
        error_input(error, "gpu-memory: expected --fabric verbs (dma-buf), found '%s'", link);
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
        .node_first = (uint16_t)(b->rank - b->rank % CLAMP(o->ranks_per_node, 1, UINT16_MAX)), /* 0 is an error later */
        .queue_count = needs->queue_count,
        .nvlink_disabled = o->nvlink_disabled,
        .payload = true,
    };
    return world;
}

/* The collective part of live_world_new().  After each stage, all ranks learn whether one has failed. */
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

/* Asks Linux (6.12 and later) for short time slices for this thread; any process may do so.  If ranks outnumber the
 * CPUs, or the machine is busy, a yield may cost a whole time slice, by default milliseconds.  Older kernels ignore
 * or refuse the request, and then nothing changes. */
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

/* Polls the links of a rank that waits in an exchange.  Some links need the rank's CPU to move what others sent to
 * it. */
static bool live_serve(void *context) { return live_worlds_progress(context); }

struct live_world *live_worlds(const struct bootstrap *b) { return b->serve == live_serve ? b->serve_context : NULL; }

static void live_list_add(struct live_world *world)
{
    struct bootstrap *b = world->bootstrap;
    world->next = live_worlds(b);
    b->serve = live_serve;
    b->serve_context = world;
}

static void live_list_remove(struct live_world *world)
{
    struct bootstrap *b = world->bootstrap;
    struct live_world *at = live_worlds(b);
    if (at == world) {
        b->serve_context = world->next;
        if (!world->next) b->serve = NULL;
        return;
    }
    for (; at; at = at->next)
        if (at->next == world) at->next = world->next;
}

struct live_world *live_world_new(const struct live_options *options, const struct fabric_needs *needs,
                                  struct bootstrap *b, GError **error)
{
    struct live_world *world = live_world_alloc(options, needs, b);
    live_list_add(world);
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
    live_list_remove(world);
    if (world->link) world->link->ops->free(world->link);
    for (uint32_t peer = 0; peer < world->fabric.rank_count; peer++)
        if (world->peer_base[peer] && peer != world->fabric.rank)
            munmap(world->peer_base[peer], world->memory.size_bytes);
    if (world->memory.base) munmap(world->memory.base, world->memory.size_bytes);
    if (world->memory_fd >= 0) close(world->memory_fd);
    FREE_ALL(world->peer_base, world->remote, world->active, world);
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
