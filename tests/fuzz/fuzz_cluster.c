/* fuzz_cluster.c - libFuzzer target of cluster files.  Every file that loads must make a world in which a store, a put
 * and a signal take some time, however odd its numbers are. */
#include <glib.h>
#include <stdint.h>
#include <string.h>

#include "models/cluster.h"
#include "models/hardware/world/world.h"
#include "tests/fuzz/fuzz_trace.h"

enum { RANKS = 4 };

/* A worker that sends to every peer once.  It repeats operations that found no room. */
struct caller {
    struct fabric_worker worker, *itself;
    uint16_t peer;
    bool written;
};

static enum worker_step caller_step(struct fabric_worker *w)
{
    struct caller *c = fabric_container_of(w, struct caller, worker);
    const struct fabric_work cast = {
        .kind = FABRIC_WORK_CAST, .site = SITE_LL_CAST_ROW, .rows = 3, .read_bytes = 100000
    };
    for (; c->peer < RANKS; c->peer++, c->written = false) {
        const bool rdma = fabric_path(w->fabric, c->peer) == FABRIC_RDMA;
        const struct fabric_write write = { .charge_bytes = 7168,
                                            .peer = c->peer,
                                            .site = rdma ? SITE_NONE : SITE_LL_MESSAGE_ROW };
        const struct fabric_signal signal = { .value = 1, .word = w->fabric->rank, .peer = c->peer };
        fabric_work(w, &cast);
        if (!c->written && (rdma ? fabric_put(w, &write, NULL) : fabric_store(w, &write))) return WORKER_WAIT;
        c->written = true;
        if (fabric_signal(w, &signal)) return WORKER_WAIT;
    }
    return WORKER_DONE;
}

static void caller_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    (void)w;
    g_strlcpy(text, "full", text_size);
}

static const struct worker_role caller_role = { .step = caller_step, .describe = caller_describe };

static void caller_launch(void *context, uint32_t rank, uint32_t kernel, struct fabric_worker ***worker,
                          uint32_t *worker_count)
{
    struct caller *c = (struct caller *)context + rank;
    (void)kernel;
    *worker = &c->itself;
    *worker_count = 1;
}

static void world_play(const struct cluster *cluster)
{
    const uint32_t a_node = cluster->nic.rate_bps ? 2 : RANKS;
    const struct world_options options = { .ranks = RANKS,
                                           .ranks_per_node = a_node,
                                           .needs = { .word_count = RANKS, .queue_count = 1, .queue_depth = 2 } };
    struct world *world = world_new(cluster, &options);
    if (!world) return;
    struct caller caller[RANKS];
    struct world_result result[RANKS];
    for (uint32_t r = 0; r < RANKS; r++) {
        caller[r] = (struct caller){ .worker = fabric_worker_of(world_fabric(world, r), &caller_role) };
        caller[r].worker.warps = 4;
        caller[r].itself = &caller[r].worker;
    }
    const struct world_program program = { .kernels = 1, .launch = caller_launch, .context = caller, .result = result };
    uint32_t kernel;
    char text[100] = "";
    if (!world_run_program(world, &program, &kernel, text, sizeof text)) abort();
    world_free(world);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    const char *path = fuzz_path(0, data, size_bytes);
    g_autoptr(GError) error = NULL;
    g_autoptr(cluster) cluster = cluster_load(path, &error);
    if (!cluster != (error != NULL)) abort(); /* either a cluster or an error */
    if (error && strlen(error->message) < 10) abort();
    /* Large numbers of cores, SMs or threads are left out, because they take memory and are no fault.  Tests try the
     * largest. */
    if (cluster && cluster->gpu.sms < 4096 && cluster->host.cores < 4096 && cluster->nic.proxy_threads < 4096)
        world_play(cluster);
    return 0;
}
