/* world.c - the simulated world: makes its ranks, and says what each event runs.
 *
 * stepping.c steps and wakes workers.  words.c changes words.  launch.c begins and ends kernels.  gpu.c and host.c say
 * what operations cost, and nic.c says what a NIC does. */
#include "models/hardware/sm/bulk.h"
#include "models/hardware/sm/peers.h"
#include "models/hardware/nic/nic_mail.h"
#include "models/hardware/world/causes.h"
#include "models/hardware/world/parts.h"
#include "models/hardware/world/stepping.h"
#include "models/hardware/world/usage.h"
#include "models/hardware/world/world_internal.h"
#include "models/hardware/world/world_timeline.h"

#include <assert.h>
#include <stdlib.h>

enum { EVENTS_AT_FIRST = 64 * 1024, EVENTS_OF_A_PART = 1024, WINDOW_PIECES = 16 };

const char *world_resource_name(enum world_resource resource)
{
    static const char *const name[WORLD_RESOURCE_COUNT] = { "sm",     "hbm",     "nvlink_egress", "nvlink_ingress",
                                                            "nic_tx", "nic_rx",  "posting",       "receiving",
                                                            "core",   "atomics", "link" };
    return name[resource];
}

/* ---- events ---- */

static void step_event_run(struct sim *sim, struct sim_event *event)
{
    const struct world *w = sim_owner(sim);
    w->machine->step_due(fabric_container_of(event, struct world_worker, event));
}

static void look_far(const struct sim *sim, const struct sim_event *event)
{
    if (event->kind == EVENT_STEP) {
        const struct world_worker *ww = fabric_container_of(event, const struct world_worker, event);
        __builtin_prefetch(ww->worker, 1);
        __builtin_prefetch((const char *)ww->worker + ARENA_LINE_BYTES, 1);
    } else {
        words_look_far(sim, event);
        nic_look_far(sim, event);
    }
}

/* Prefetches those cache lines of a kernel's object that follow the worker's first two, which were prefetched
 * earlier. */
static void rest_look_ahead(const struct fabric_worker *worker)
{
    enum { LINES_BEFORE = 2, LINES = 5 };
    for (uint32_t i = LINES_BEFORE; i < LINES; i++) __builtin_prefetch((const char *)worker + i * ARENA_LINE_BYTES, 1);
}

static void look_near(const struct sim *sim, const struct sim_event *event)
{
    if (event->kind == EVENT_STEP) {
        const struct world_worker *ww = fabric_container_of(event, const struct world_worker, event);
        const struct world_rank *rank = worker_rank(ww);
        __builtin_prefetch(&rank->sm[ww->sm], 1);
        if (ww->mover) __builtin_prefetch(&rank->mover[ww->mover - 1], 1);
        if (ww->rested) __builtin_prefetch(&rank->rest[ww - rank->worker], 1);
        const struct worker_role *role = rank->fabric.roles.role[ww->worker->role];
        if (rank->turns) {
            __builtin_prefetch(worker_turns(ww), 1);
            __builtin_prefetch((const char *)worker_turns(ww) + ARENA_LINE_BYTES, 1);
        }
        if (ww->in_turn) return;
        if (role->ahead) role->ahead(ww->worker);
        else rest_look_ahead(ww->worker);
    } else {
        words_look_near(sim, event);
        nic_look_near(sim, event);
    }
}

/* ---- construction ---- */

uint32_t world_nodes(const struct cluster *cluster, uint32_t ranks, uint32_t ranks_per_node, uint32_t *gpus)
{
    *gpus = graph_node_gpus(cluster, ranks_per_node);
    return (ranks + *gpus - 1) / *gpus;
}

/* Finds the ports that a rank uses.  They are those of its own ports that are up.  If none is up, the rank uses the
 * next port after them that is up. */
static void rank_ports_init(struct world_rank *rank)
{
    struct world *w = rank->world;
    const struct graph *g = w->network->graph;
    const uint32_t node = rank->fabric.rank / g->gpus, gpu = rank->fabric.rank % g->gpus;
    const uint32_t all = w->network->ports_per_node;
    uint32_t count;
    const uint32_t first = graph_gpu_ports(g, gpu, &count);
    rank->nic = memory_new(count + 1, sizeof rank->nic[0]);
    rank->local = memory_new(count + 1, sizeof rank->local[0]);
    for (uint32_t i = 0; i < all && (i < count || !rank->nic_count); i++) {
        const uint32_t port = (first + i) % all;
        if (graph_port_switch(g, graph_port(g, node, port)) == UINT32_MAX) continue;
        network_local(w->network, node, gpu, port, &rank->local[rank->nic_count]);
        struct nic *nic = &w->nic[node * all + port];
        w->ports_turn |= nic->used && rank->local[rank->nic_count].out_count;
        nic->used = true;
        rank->nic[rank->nic_count++] = node * all + port;
    }
}

/* How many bytes of a message a NIC sends at a time.  0: all.  A window is given back in pieces of this size.  The
 * pieces are small compared with the window, because acknowledgements are of packets, not of messages. */
static uint32_t quantum_of(const struct world *w)
{
    const uint64_t window_bytes = w->transport.window_bytes, mtu_bytes = w->cluster->nic.mtu_bytes;
    uint64_t quantum_bytes = w->cluster->network.quantum_bytes;
    if (window_bytes) {
        const uint64_t piece_bytes =
            window_bytes / WINDOW_PIECES > mtu_bytes ? window_bytes / WINDOW_PIECES : mtu_bytes;
        const uint64_t most_bytes = piece_bytes < window_bytes ? piece_bytes : window_bytes;
        if (!quantum_bytes || quantum_bytes > most_bytes) quantum_bytes = most_bytes;
    }
    return (uint32_t)(quantum_bytes < UINT32_MAX ? quantum_bytes : UINT32_MAX);
}

/* Makes the relays by which cross-rail traffic leaves its node, if it goes by NVLink. */
static void relays_init(struct world *w)
{
    const struct graph *g = w->network->graph;
    if (g->cluster->network.cross_rail != CLUSTER_CROSS_BY_NVLINK || w->options.nvlink_disabled) return;
    w->relay = memory_new(w->nic_count, sizeof w->relay[0]);
    for (uint32_t i = 0; i < w->nic_count; i++) {
        const uint32_t node = i / w->network->ports_per_node, port = i % w->network->ports_per_node;
        const uint32_t gpu = graph_port_gpu(g, port), rank = node * g->gpus + gpu;
        if (rank < w->options.ranks) w->relay[i].rank = &w->rank[rank];
        network_local(w->network, node, gpu, port, &w->relay[i].local);
        w->relay[i].local.latency_ps += w->cluster->nvlink.latency_ps;
    }
}

/* Makes the network and the NICs' ports.  False: the cluster has no valid graph. */
static bool network_init(struct world *w)
{
    const struct world_options *o = &w->options;
    const struct cluster_network *c = &w->cluster->network;
    uint32_t gpus;
    const uint32_t nodes = world_nodes(w->cluster, o->ranks, o->ranks_per_node, &gpus);
    if (!o->graph) w->graph = graph_new(w->cluster, nodes, gpus, NULL);
    const struct graph *g = o->graph ? o->graph : w->graph;
    if (!g) return false;
    assert(g->nodes == nodes && g->gpus == gpus);
    w->network = network_new(g);
    /* Between leaves, small messages may overtake larger ones that were sent earlier.  They use idle times of links
     * that are too short for the larger ones. */
    w->ways_differ = w->network->leaf_count > 1 || c->routing == CLUSTER_ADAPTIVE || c->routing == CLUSTER_SPRAY ||
                     w->transport.order != TRANSPORT_WIRE;
    w->quantum_bytes = quantum_of(w);
    if (w->cluster->dcqcn.cnp_ps) dcqcn_init(&w->dcqcn, &w->cluster->dcqcn, graph_line_bps(g), 0);
    w->ways_straight = w->network->leaf_count == 1 && !w->dcqcn.parameters && !network_buffers_finite(w->network);
    w->nic_count = nodes * w->network->ports_per_node;
    w->nic = memory_new(2 * (size_t)w->nic_count, sizeof w->nic[0]);
    for (uint32_t i = 0; i < 2 * w->nic_count; i++) nic_init(w, i);
    relays_init(w);
    peers_init(w);
    return true;
}

/* How long a link takes with its faults, if it takes WORLD_SLOW_ONE without faults. */
static uint32_t slow_of(uint64_t built_bps, uint64_t rate_bps)
{
    if (built_bps == rate_bps) return WORLD_SLOW_ONE;
    return (uint32_t)((double)WORLD_SLOW_ONE * (double)built_bps / (double)rate_bps + 0.5);
}

static void rank_nvlink_init(struct world_rank *rank)
{
    const struct graph *g = rank->world->network->graph;
    const uint32_t number = rank->fabric.rank;
    const struct graph_peer_rates rates = graph_gpu_peer_rates(g, number / g->gpus, number % g->gpus);
    rank->egress_slow = slow_of(rates.built_out_bps, rates.out_bps);
    rank->ingress_slow = slow_of(rates.built_in_bps, rates.in_bps);
    rank->staging_bps = graph_staging_bps(g, number / g->gpus, number % g->gpus);
}

static void rank_init(struct world *w, uint32_t index)
{
    struct world_rank *rank = &w->rank[index];
    const struct world_options *o = &w->options;
    rank->world = w;
    rank->launch_event.kind = EVENT_LAUNCH;
    rank->timer_event.kind = EVENT_TIMER;
    rank->watch_first = UINT32_MAX;
    rank->slow = o->slow && o->slow[index] ? o->slow[index] : WORLD_SLOW_ONE;
    rank->sm = memory_new(w->sm_count, sizeof rank->sm[0]);
    rank->far = memory_new(w->sm_count, sizeof rank->far[0]);
    rank->sm_cpc = memory_new(w->sm_count, sizeof rank->sm_cpc[0]);
    rank->cpcs = cluster_cpcs_of(&w->cluster->gpu.cpcs, index % o->ranks_per_node);
    rank->shares.cpcs = rank->cpcs ? rank->cpcs->cpcs : 0;
    rank->stored_ps = memory_new(w->sm_count, sizeof rank->stored_ps[0]);
    rank->put_ps = memory_new(w->sm_count, sizeof rank->put_ps[0]);
    rank->copied_ps = memory_new(w->sm_count, sizeof rank->copied_ps[0]);
    rank->fenced_ps = memory_new(w->sm_count, sizeof rank->fenced_ps[0]);
    rank->told_ps = memory_new(w->sm_count, sizeof rank->told_ps[0]);
    rank->sm_first = memory_new(w->sm_count, sizeof rank->sm_first[0]);
    rank->proxy = memory_new(w->transport.threads, sizeof rank->proxy[0]);
    rank->qp = arena_take(&w->arena, ((size_t)o->ranks * o->needs.queue_count + 1) * sizeof rank->qp[0]);
    rank->watch_head = arena_take(&w->arena, ((size_t)o->needs.word_count + 1) * sizeof rank->watch_head[0]);
    rank->fabric = (struct fabric){
        .ops = o->timeline ? &recording_ops : w->machine->ops,
        .words = arena_take(&w->arena, ((size_t)o->needs.word_count + 1) * sizeof(uint64_t)),
        .word_count = o->needs.word_count,
        .heap = memory_new(o->needs.heap_bytes + 1, 1),
        .heap_bytes = o->needs.heap_bytes,
        .rank = (uint16_t)index,
        .rank_count = (uint16_t)o->ranks,
        .ranks_per_node = (uint16_t)o->ranks_per_node,
        .node_first = (uint16_t)(index - index % o->ranks_per_node),
        .queue_count = o->needs.queue_count,
        .nvlink_disabled = o->nvlink_disabled,
        .payload = o->payload,
    };
    rank_ports_init(rank);
    rank_nvlink_init(rank);
}

static void handlers_set(struct sim *sim)
{
    static sim_handler *const handler[EVENT_KINDS] = {
        [EVENT_STEP] = step_event_run,
        [EVENT_WAKE] = stepping_wake_run,
        [EVENT_CHANGE] = words_change_run,
        [EVENT_SEND] = nic_send_next,
        [EVENT_RECEIVED] = nic_request_received,
        [EVENT_LANDED] = nic_request_landed,
        [EVENT_RESUME] = nic_qp_resume,
        [EVENT_STORED] = bulk_engine_run,
        [EVENT_CORE] = host_core_run,
        [EVENT_BEGIN] = launch_begin_run,
        [EVENT_LAUNCH] = launch_event_run,
        [EVENT_LOOK] = usage_event_run,
        [EVENT_TIMER] = launch_timer_run,
        [EVENT_END] = busy_event_run,
    };
    for (uint32_t kind = 0; kind < EVENT_KINDS; kind++) sim_handler_set(sim, kind, handler[kind]);
}

/* A world of at most this many ranks fits the caches of a core, so it prefetches nothing. */
enum { CACHED_RANKS = 8 };

/* Makes the engine and the memory of a part, or of a world that is not divided. */
static void part_init(struct world *w, uint32_t events)
{
    w->requests = (struct pool){ .arena = &w->arena, .item_bytes = sizeof(struct request) };
    w->rows = (struct pool){ .arena = &w->arena, .item_bytes = sizeof(struct sim_row) };
    w->parcels = (struct pool){ .arena = &w->arena, .item_bytes = sizeof(struct parcel) };
    w->turns = (struct pool){ .arena = &w->arena, .item_bytes = sizeof(struct bulk_turn) };
    w->changes = (struct pool){ .arena = &w->arena, .item_bytes = sizeof(struct change) };
    w->letters = (struct pool){ .arena = &w->arena, .item_bytes = sizeof(struct letter) };
    w->wakes = (struct pool){ .arena = &w->arena, .item_bytes = sizeof(struct world_wake) };
    w->acks = (struct pool){ .arena = &w->arena, .item_bytes = sizeof(struct ack) };
    w->qps = (struct pool){ .arena = &w->arena, .item_bytes = sizeof(struct qp) };
    w->qp_rests = (struct pool){ .arena = &w->arena, .item_bytes = sizeof(struct qp_rest) };
    w->waiters = (struct pool){ .arena = &w->arena, .item_bytes = sizeof(struct waiter) };
    w->sim = sim_new(events);
    handlers_set(w->sim);
    sim_owner_set(w->sim, w);
    if (w->options.ranks > CACHED_RANKS) sim_look_ahead(w->sim, look_far, look_near);
}

/* Makes a part of the whole world, with `nodes` of its nodes. */
static struct world *part_new(struct world *whole, uint32_t number, uint32_t nodes)
{
    struct world *w = memory_new(1, sizeof *w);
    const uint32_t ranks = whole->part_ranks, ports = nodes * whole->network->ports_per_node;
    *w = *whole;
    w->number = number;
    w->rank_first = number * ranks;
    w->rank_count = whole->options.ranks - w->rank_first < ranks ? whole->options.ranks - w->rank_first : ranks;
    w->box = whole->boxes[number] = mailbox_new(whole->parts);
    part_init(w, EVENTS_OF_A_PART);
    w->port_first = number * ports;
    w->port_end = w->port_first + ports < whole->nic_count ? w->port_first + ports : whole->nic_count;
    for (uint32_t i = w->port_first; i < w->port_end; i++)
        whole->nic[i].world = whole->nic[whole->nic_count + i].world = w;
    return w;
}

static void parts_make(struct world *w)
{
    const bool whole = parts_why_whole(w) != NULL;
    const uint32_t nodes = w->network->graph->nodes, of_a_part = (nodes + PARTS_MAX - 1) / PARTS_MAX;
    w->parts = whole ? 1 : (nodes + of_a_part - 1) / of_a_part;
    w->part_ranks = of_a_part * w->network->graph->gpus;
    w->part = memory_new(w->parts, sizeof w->part[0]);
    w->rank_count = w->options.ranks;
    if (whole) {
        part_init(w, EVENTS_AT_FIRST);
        w->part[0] = w;
        return;
    }
    w->boxes = memory_new(w->parts, sizeof w->boxes[0]);
    w->ways_shared = w->network->leaf_count > 1 || w->dcqcn.parameters;
    for (uint32_t p = 0; p < w->parts; p++) w->part[p] = part_new(w, p, of_a_part);
    w->box = mailbox_new(w->parts); /* collects the mail of all parts, where parts share ways */
}

static struct world_timeline *record_new(const struct world *w)
{
    const struct world_options *o = &w->options;
    const struct arena **arena = memory_new(w->parts, sizeof arena[0]);
    for (uint32_t p = 0; p < w->parts; p++) arena[p] = &w->part[p]->arena;
    return world_timeline_new(
        o->timeline, causes_new(o->timeline, o->ranks, o->needs.word_count, arena, w->parts, w->part_ranks), o->ranks);
}

struct world *world_new(const struct cluster *cluster, const struct world_options *options)
{
    struct world *w = memory_new(1, sizeof *w);
    w->whole = w;
    w->cluster = cluster;
    w->options = *options;
    w->machine = cluster->host.cores ? &host_machine : &gpu_machine;
    w->letters_used = !w->machine->receive && !options->nvlink_disabled && options->ranks <= options->ranks_per_node;
    w->transport = options->transport ? *options->transport : transport_of(&cluster->nic);
    w->channels = options->needs.channels && w->transport.poster == CLUSTER_POST_PROXY && !w->machine->send;
    const uint32_t depth = w->channels ? 0 : w->transport.queue_depth;
    w->queue_depth = depth ? depth : options->needs.queue_depth;
    w->rank = memory_new(options->ranks, sizeof w->rank[0]);
    w->core = memory_new((size_t)cluster->host.cores + 1, sizeof w->core[0]);
    if (!network_init(w)) {
        world_free(w);
        return NULL;
    }
    w->machine->init(w);
    w->loops = options->loops ? options->loops : loops_shipped();
    for (uint32_t i = SITE_NONE + 1; i < SITES; i++) loops_make(w->loops, (enum site)i, NULL, &w->loop[i]);
    parts_make(w);
    for (uint32_t p = 0; p < w->parts; p++)
        for (uint32_t i = 0; i < w->part[p]->rank_count; i++) rank_init(w->part[p], w->part[p]->rank_first + i);
    nic_turns_init(w);
    if (options->timeline) w->record = record_new(w);
    if (options->usage) w->usage = usage_new(EVENT_LOOK);
    w->busy = busy_new(w);
    for (uint32_t p = 0; p < w->parts; p++) {
        w->part[p]->busy = w->busy;
        w->part[p]->record = w->record;
    }
    return w;
}

static void part_free(struct world *w)
{
    arena_clear(&w->arena);
    sim_free(w->sim);
    free(w->note);
    if (w == w->whole) return;
    mailbox_free(w->box);
    free(w);
}

void world_free(struct world *w)
{
    if (!w) return;
    usage_free(w->usage);
    busy_free(w->busy);
    world_timeline_free(w->record);
    for (uint32_t i = 0; w->rank && i < w->options.ranks; i++) {
        struct world_rank *rank = &w->rank[i];
        free(rank->sm);
        free(rank->far);
        free(rank->sm_cpc);
        free(rank->engine);
        free(rank->stored_ps);
        free(rank->put_ps);
        free(rank->copied_ps);
        free(rank->fenced_ps);
        free(rank->told_ps);
        free(rank->sm_first);
        free(rank->mover);
        free(rank->loop);
        looks_free(rank->looks);
        free(rank->proxy);
        if (w->dcqcn.parameters) nic_qps_clear(rank);
        free(rank->nic);
        free(rank->local);
        free(rank->watch);
        free(rank->counter);
        free(rank->fabric.heap);
    }
    for (uint32_t i = 0; w->nic && i < 2 * w->nic_count; i++) nic_clear(&w->nic[i]);
    for (uint32_t p = 0; w->part && p < w->parts; p++) part_free(w->part[p]);
    if (w->boxes) {
        mailbox_free(w->box);
        free(w->note);
    }
    free(w->boxes);
    free(w->part);
    free(w->rank);
    free(w->nic);
    free(w->relay);
    free(w->peer_way);
    free(w->pair_link);
    network_free(w->network);
    graph_free(w->graph);
    free(w->core);
    free(w);
}

struct fabric *world_fabric(struct world *w, uint32_t rank)
{
    assert(rank < w->options.ranks);
    return &w->rank[rank].fabric;
}

void world_slow_set(struct world *w, uint32_t index, uint32_t slow)
{
    assert(index < w->options.ranks && slow > 0);
    w->rank[index].slow = slow;
}

void world_pressure_set(struct world *w, uint32_t index, const struct pressure *pressure)
{
    assert(index < w->options.ranks);
    w->rank[index].pressure = pressure ? *pressure : (struct pressure){ 0 };
}

const char *world_why_one_thread(const struct world *w)
{
    return w->options.timeline ? "one thread records a timeline" : parts_why_whole(w);
}

uint64_t world_event_count(const struct world *w)
{
    uint64_t events = 0;
    for (uint32_t p = 0; p < w->parts; p++)
        events += sim_event_count(w->part[p]->sim) + w->part[p]->turns_taken - w->part[p]->looks;
    return events - usage_events(w->usage);
}

uint64_t world_busy_until_ps(const struct fabric *f)
{
    const struct world_rank *rank = fabric_container_of(f, const struct world_rank, fabric);
    if (!rank->now.worker) return world_now_ps(f);
    return later(rank->now.worker->cursor_ps, rank->now.last_end_ps);
}
