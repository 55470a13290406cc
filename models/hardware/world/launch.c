/* launch.c - when kernels begin and end on a rank, and what its parts did meanwhile.
 *
 * A program gives every rank an equal number of kernels, one after another.  Each rank begins its first kernel at its
 * own time.  It begins each further one as soon as the previous one has ended, whatever the other ranks are doing.
 * Nothing here waits for another rank.  Where ranks must wait for each other, their kernels do that.  With an agenda
 * (agenda.h), the agenda says when a rank begins its next kernel. */
#include "models/hardware/world/parts.h"
#include "models/hardware/world/usage.h"
#include "models/hardware/world/world_internal.h"
#include "models/hardware/world/world_timeline.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include "sim/progress.h"

/* Makes room for count workers while none runs.  An array that was too small stays in place until the world ends,
 * because the engine may still pass over queue entries of its events. */
static void workers_grow(struct world_rank *rank, uint32_t count)
{
    struct arena *arena = &rank->world->arena;
    rank->worker = arena_take(arena, count * sizeof rank->worker[0]);
    rank->rest = NULL;
    rank->turns = NULL;
    rank->posted_ps = NULL;
    rank->worker_max = count;
}

static uint64_t late_of(const struct port *port, uint64_t end_ps)
{
    return port->free_ps > end_ps ? port->free_ps - end_ps : 0;
}

/* Resources that are counted from a launch to its end, in addition to the rank's SMs and cores. */
static const enum world_resource counted[] = { WORLD_HBM,    WORLD_NVLINK_EGRESS, WORLD_NVLINK_INGRESS, WORLD_NIC_TX,
                                               WORLD_NIC_RX, WORLD_POSTING,       WORLD_RECEIVING };

/* The rank's port that serves a resource.  For a resource of NICs, the port that serves it at the rank's i-th NIC
 * port. */
static const struct port *port_of(const struct world_rank *rank, enum world_resource resource, uint32_t i)
{
    const struct world *w = rank->world;
    switch (resource) {
    case WORLD_HBM: return &rank->hbm;
    case WORLD_NVLINK_EGRESS: return &rank->egress;
    case WORLD_NVLINK_INGRESS: return &rank->ingress;
    case WORLD_POSTING: return &rank->posting;
    case WORLD_RECEIVING: return &w->nic[rank->nic[i]].receiving;
    default: break;
    }
    const struct network_port *ends = &w->network->port[rank->nic[i]];
    return &w->network->link[resource == WORLD_NIC_TX ? ends->out : ends->in].port;
}

static bool by_nic(enum world_resource r) { return r == WORLD_NIC_TX || r == WORLD_NIC_RX || r == WORLD_RECEIVING; }

/* What the rank's ports have done so far: the time of the busiest one, and the bytes of all. */
static struct world_use ports_use(const struct world_rank *rank, enum world_resource resource)
{
    struct world_use use = { 0 };
    for (uint32_t i = 0; i < (by_nic(resource) ? rank->nic_count : 1); i++) {
        const struct port *port = port_of(rank, resource, i);
        if (port->busy_ps > use.busy_ps) use.busy_ps = port->busy_ps;
        use.bytes += port->bytes;
        const uint64_t late_ps = late_of(port, rank->end_ps);
        if (late_ps > use.late_ps) use.late_ps = late_ps;
    }
    return use;
}

static struct world_use use_since(const struct world_use *now, const struct world_use *before)
{
    assert(now->busy_ps >= before->busy_ps && now->bytes >= before->bytes);
    return (struct world_use){ now->busy_ps - before->busy_ps, now->bytes - before->bytes, now->late_ps };
}

/* Ends the process if there are too many workers, as it ends when memory runs out. */
static void workers_count_check(const struct world_rank *rank, uint32_t count)
{
    if (count <= RANK_WORKERS_MAX) return;
    fprintf(stderr, "eptwin: rank %u: expected at most %u workers (warp groups) in a kernel, found %u\n",
            rank->fabric.rank, RANK_WORKERS_MAX, count);
    _Exit(EXIT_FAILURE);
}

/* Finds the CPCs of a kernel's blocks, where the cluster names CPCs. */
static void blocks_place(struct world_rank *rank, struct fabric_worker *const *worker, uint32_t count)
{
    const struct world *w = rank->world;
    uint32_t sms = 0;
    if (!rank->shares.cpcs || !count) return;
    for (uint32_t i = 0; i < count; i++)
        if (worker[i]->sm >= sms) sms = worker[i]->sm + 1u;
    egress_place(rank->cpcs, sms < w->sm_count ? sms : w->sm_count, w->loop[rank->fabric.kernel].paired, rank->sm_cpc);
}

static void rank_launch(struct world_rank *rank, struct fabric_worker **worker, uint32_t count, uint64_t now_ps)
{
    workers_count_check(rank, count);
    if (count > rank->worker_max) workers_grow(rank, count);
    rank->worker_count = rank->running = count;
    rank->mover_count = 0;
    rank->start_ps = rank->begin_ps = rank->end_ps = rank->let_ps = rank->counts_ps = rank->arrived_ps = now_ps;
    rank->launch++;
    rank->begun = false;
    rank->ready_first = NULL;
    rank->owed_ps = rank->held_until_ps = 0;
    rank->loop_count = 0;
    rank->ready_count = rank->round_left = 0;
    if (rank->posted_ps) memset(rank->posted_ps, 0, rank->worker_max * sizeof rank->posted_ps[0]);
    for (uint32_t i = 0; i < rank->world->sm_count; i++) {
        rank->sm[i].busy_ps = rank->sm[i].bytes = 0;
        rank->sm_first[i] = 0;
        rank->stored_ps[i] = rank->put_ps[i] = rank->copied_ps[i] = rank->told_ps[i] = 0;
    }
    const struct cluster_gpu *gpu = &rank->world->cluster->gpu;
    const bool whole = count && rank->world->loop[rank->fabric.kernel].whole && gpu->beside_ps;
    rank->beside_ps = whole ? gpu->beside_ps : rank->world->launch_ps;
    for (uint32_t i = 0; i < count; i++) {
        assert(worker[i]->index == i && worker[i]->warps > 0 && worker[i]->fabric == &rank->fabric);
        const uint32_t sm = worker[i]->sm % rank->world->sm_count; /* blocks beyond the number of SMs share an SM */
        rank->worker[i] = (struct world_worker){
            .event.kind = EVENT_STEP, .worker = worker[i], .cursor_ps = now_ps, .sm = (uint16_t)sm
        };
    }
    world_counters_launch(rank);
    blocks_place(rank, worker, count);
    nic_turns_take(rank->world, sim_now_ps(rank->world->sim));
    for (size_t i = 0; i < sizeof counted / sizeof counted[0]; i++)
        rank->before[counted[i]] = ports_use(rank, counted[i]);
    if (rank->world->record) world_timeline_launch(rank->world->record, rank->fabric.rank, count);
}

static void rank_result(struct world_rank *rank, struct world_result *result)
{
    const struct world *w = rank->world;
    const uint64_t beside_ps = rank->beside_ps;
    assert(rank->start_ps <= rank->begin_ps && rank->begin_ps <= rank->end_ps);
    nic_turns_take(rank->world, sim_now_ps(rank->world->sim));
    *result = (struct world_result){ .time_ps = rank->end_ps - rank->begin_ps + beside_ps,
                                     .launch_ps = beside_ps,
                                     .let_ps = rank->let_ps - rank->begin_ps + beside_ps,
                                     .wait_ps = rank->begin_ps - rank->start_ps,
                                     .begin_ps = rank->start_ps,
                                     .end_ps = rank->end_ps,
                                     .arrived_ps = rank->arrived_ps };
    if (rank->counts_ps > rank->begin_ps) result->counts_ps = rank->counts_ps - rank->begin_ps + beside_ps;
    for (size_t i = 0; i < sizeof counted / sizeof counted[0]; i++) {
        const struct world_use now = ports_use(rank, counted[i]);
        result->use[counted[i]] = use_since(&now, &rank->before[counted[i]]);
    }
    struct world_use *sm = &result->use[WORLD_SM], *core = &result->use[WORLD_CORE];
    for (uint32_t i = 0; i < w->sm_count; i++) {
        if (rank->sm[i].busy_ps > sm->busy_ps) sm->busy_ps = rank->sm[i].busy_ps;
        sm->bytes += rank->sm[i].bytes;
    }
    if (w->machine->busy_ps) core->busy_ps = w->machine->busy_ps(rank);
    if (!w->agenda) busy_rank_result(rank, result);
}

/* Delivers the letters of a worker whose kernel has ended.  Those that have come are delivered at once, and the others
 * by events. */
static void mail_forward(struct world_worker *ww)
{
    if (!ww->rested) return;
    struct world_rank *rank = worker_rank(ww);
    struct world *w = rank->world;
    world_mail_read(ww, sim_now_ps(w->sim));
    for (struct letter *l = worker_rest(ww)->mail, *next; l; l = next) {
        next = l->next;
        world_word_event(rank, l->word, l->value, l->add, l->time_ps);
        pool_put(&w->letters, l);
    }
    worker_rest(ww)->mail = worker_rest(ww)->mail_last = NULL;
}

static struct world_result *result_of(const struct world_rank *rank)
{
    const struct world *w = rank->world;
    assert(rank->kernel < w->program->kernels);
    return &w->program->result[(size_t)rank->kernel * w->options.ranks + rank->fabric.rank];
}

static void rank_prepare(struct world_rank *rank, uint64_t start_ps)
{
    const struct world_program *p = rank->world->program;
    struct fabric_worker **worker = NULL;
    uint32_t count = 0;
    p->launch(p->context, rank->fabric.rank, rank->kernel, &worker, &count);
    rank_launch(rank, worker, count, start_ps);
    if (p->launched) p->launched(p->context, rank->fabric.rank);
}

void launch_rank_done(struct world_rank *rank)
{
    struct world *w = rank->world;
    assert(w->ranks_running > 0);
    if (!w->agenda) busy_rank_end(rank);
    if (w->agenda) {
        sim_schedule_at(w->sim, &rank->launch_event, rank->end_ps + rank->beside_ps);
    } else if (rank->kernel + 1 < w->program->kernels) {
        const uint64_t next_ps = rank->end_ps + w->launch_ps;
        sim_schedule_at(w->sim, &rank->launch_event, next_ps);
    } else if (--w->ranks_running == 0) {
        w->idle = w->wakes_pending + (w->usage != NULL);
    }
}

static void first_steps_schedule(struct world_rank *rank)
{
    struct sim *sim = rank->world->sim;
    for (uint32_t i = 0; i < rank->worker_count; i++) sim_schedule_at(sim, &rank->worker[i].event, rank->start_ps);
    if (!rank->worker_count) launch_rank_done(rank);
}

/* Runs when the rank's kernel has ended and the time of a launch has passed.  With an agenda, tells the agenda.
 * Otherwise begins the next kernel. */
void launch_event_run(struct sim *sim, struct sim_event *event)
{
    struct world_rank *rank = fabric_container_of(event, struct world_rank, launch_event);
    const struct world_agenda *agenda = rank->world->agenda;
    struct world_result result;
    for (uint32_t i = 0; i < rank->worker_count; i++) mail_forward(&rank->worker[i]);
    world_watches_clear(rank);
    if (agenda) {
        rank_result(rank, &result);
        rank->worker_count = 0;
        agenda->ended(agenda->context, rank->fabric.rank, &result);
        return;
    }
    rank_result(rank, result_of(rank));
    rank->kernel++;
    rank_prepare(rank, sim_now_ps(sim));
    busy_rank_begin(rank);
    first_steps_schedule(rank);
}

/* The time when no event is left and the last operations of the previous launch are also done. */
static uint64_t launch_start_ps(const struct world *w)
{
    uint64_t start_ps = world_latest_ps(w);
    for (uint32_t p = 0; p < w->parts; p++) start_ps = later(start_ps, w->part[p]->mail_ps);
    for (uint32_t r = 0; r < w->options.ranks; r++) start_ps = later(start_ps, w->rank[r].end_ps);
    return start_ps;
}

/* Runs the first steps of those of the part's ranks that begin now.  The order is that in which an event for each step
 * would run them. */
void launch_begin_run(struct sim *sim, struct sim_event *event)
{
    enum { WORKERS_AHEAD = 4, SEEN_AHEAD = 12 }; /* ranks ahead to prefetch: a kernel's object, and a worker */
    const struct world *w = fabric_container_of(event, const struct world, begin_event);
    const uint64_t now = sim_now_ps(sim);
    const uint32_t ranks = w->rank_count;
    struct world_rank *const rank = &w->rank[w->rank_first];
    uint32_t most = 0;
    for (uint32_t r = 0; r < ranks; r++)
        if (rank[r].start_ps == now && rank[r].worker_count > most) most = rank[r].worker_count;
    for (uint32_t i = 0; i < most; i++) {
        for (uint32_t r = 0; r < ranks; r++) {
            const struct world_rank *seen = &rank[(r + SEEN_AHEAD) % ranks],
                                    *ahead = &rank[(r + WORKERS_AHEAD) % ranks];
            if (i < seen->worker_count) __builtin_prefetch(&seen->worker[i], 1);
            if (i < ahead->worker_count) __builtin_prefetch(ahead->worker[i].worker, 1);
            if (i < rank[r].worker_count && rank[r].start_ps == now) w->machine->step_due(&rank[r].worker[i]);
        }
    }
}

static void program_begin(struct world *w, const struct world_program *program)
{
    w->program_ps = launch_start_ps(w);
    for (uint32_t p = 0; p < w->parts; p++) {
        w->part[p]->program = program;
        w->part[p]->program_ps = w->program_ps;
        w->part[p]->several = program->kernels > 1;
        w->part[p]->ranks_running = w->part[p]->rank_count;
    }
    network_uses_clear(w->network);
    for (uint32_t i = 0; i < w->cluster->host.cores; i++) w->core[i].port.busy_ps = 0;
    busy_program_begin(w->busy, program->kernels, w->program_ps);
}

/* Launches the first kernels of the part's ranks, if a program runs. */
static void first_launch(struct world *part)
{
    const struct world_program *program = part->program;
    struct world_rank *const rank = &part->rank[part->rank_first];
    const uint64_t start_ps = part->program_ps;
    uint32_t most = 0;
    if (!program) return;
    for (uint32_t r = 0; r < part->rank_count; r++) {
        rank[r].kernel = 0;
        rank_prepare(&rank[r], start_ps + (program->arrival_ps ? program->arrival_ps[part->rank_first + r] : 0));
        most = rank[r].worker_count > most ? rank[r].worker_count : most;
        if (rank[r].start_ps != start_ps) busy_rank_late(&rank[r]);
    }
    /* Ranks that begin at the same instant take turns worker by worker, so that no rank is always first. */
    for (uint32_t i = 0; i < most; i++)
        for (uint32_t r = 0; r < part->rank_count; r++)
            if (i < rank[r].worker_count && rank[r].start_ps != start_ps)
                sim_schedule_at(part->sim, &rank[r].worker[i].event, rank[r].start_ps);
    part->begin_event.kind = EVENT_BEGIN;
    sim_schedule_at(part->sim, &part->begin_event, start_ps);
    for (uint32_t r = 0; r < part->rank_count; r++)
        if (!rank[r].worker_count) launch_rank_done(&rank[r]);
}

/* Finds the earliest kernel in which a rank is stuck, and describes the first such worker.  Returns the kernel's
 * number. */
static uint32_t stuck_describe(const struct world *w, char *text, size_t text_size)
{
    uint32_t first = UINT32_MAX;
    for (uint32_t r = 0; r < w->options.ranks; r++)
        if (w->rank[r].running && w->rank[r].kernel < first) first = w->rank[r].kernel;
    for (uint32_t r = 0; r < w->options.ranks; r++) {
        if (w->rank[r].kernel != first) continue;
        for (uint32_t i = 0; i < w->rank[r].worker_count; i++) {
            const struct world_worker *ww = &w->rank[r].worker[i];
            if (ww->done) continue;
            const int used = snprintf(text, text_size, "rank %u: ", r);
            if (used > 0 && (size_t)used < text_size)
                fabric_worker_describe(ww->worker, text + used, text_size - (size_t)used);
            return first;
        }
    }
    return first;
}

/* Runs all events, and reports to struct progress from time to time. */
static void events_run(struct world *w)
{
    for (uint32_t p = 0; p < w->parts; p++) {
        struct world *part = w->part[p];
        part->idle = (part->ranks_running ? 0 : part->wakes_pending) + usage_idle(w->usage);
    }
    if (w->boxes) {
        parts_run(w, first_launch);
        return;
    }
    first_launch(w);
    enum { EVENTS_A_LOOK = 1 << 16 };
    struct progress *progress = w->options.progress;
    for (bool more = true; more;) {
        const uint64_t before = sim_event_count(w->sim);
        more = sim_run_down(w->sim, &w->idle, progress ? EVENTS_A_LOOK : UINT64_MAX);
        progress_advance(progress, sim_event_count(w->sim) - before);
    }
}

static void rank_watch(const struct world_rank *rank)
{
    const struct world *w = rank->world;
    struct usage *u = w->whole->usage;
    const struct network *n = w->network;
    for (uint32_t i = 0; i < rank->nic_count; i++) {
        usage_watch(u, &n->link[n->port[rank->nic[i]].out].port, WORLD_USAGE_NIC_TX);
        usage_watch(u, &n->link[n->port[rank->nic[i]].in].port, WORLD_USAGE_NIC_RX);
    }
    if (w->cluster->host.cores) return;
    for (uint32_t i = 0; i < w->sm_count; i++) usage_watch(u, &rank->sm[i], WORLD_USAGE_SM);
    usage_watch(u, &rank->hbm, WORLD_USAGE_HBM);
    usage_watch(u, &rank->egress, WORLD_USAGE_NVLINK_EGRESS);
    usage_watch(u, &rank->ingress, WORLD_USAGE_NVLINK_INGRESS);
}

/* Begins to record how busy ports are during a program. */
static void usage_of_ports(struct world *w)
{
    const struct network *n = w->network;
    usage_begin(w->usage, world_latest_ps(w), w->boxes ? NULL : w->sim); /* with parts, looks come when windows end */
    for (uint32_t r = 0; r < w->options.ranks; r++) rank_watch(&w->rank[r]);
    for (uint32_t i = 0; i < n->graph->link->len; i++)
        if (network_link_inner(n, i)) usage_watch(w->usage, &n->link[i].port, WORLD_USAGE_LINK);
    for (uint32_t i = 0; i < w->cluster->host.cores; i++) usage_watch(w->usage, &w->core[i].port, WORLD_USAGE_CORE);
}

bool world_run_program(struct world *w, const struct world_program *program, uint32_t *kernel, char *text,
                       size_t text_size)
{
    program_begin(w, program);
    if (w->usage) usage_of_ports(w);
    events_run(w);
    usage_end(w->usage, world_latest_ps(w));
    for (uint32_t r = 0; r < w->options.ranks; r++) {
        struct world_rank *rank = &w->rank[r];
        for (uint32_t i = 0; i < rank->worker_count; i++) world_mail_read(&rank->worker[i], UINT64_MAX);
        world_watches_clear(rank);
        rank_result(rank, result_of(rank));
    }
    uint32_t running = 0;
    for (uint32_t p = 0; p < w->parts; p++) running += w->part[p]->ranks_running;
    if (!running) return true;
    *kernel = stuck_describe(w, text, text_size);
    return false;
}

uint32_t world_usage(const struct world *w, enum world_usage_kind kind, double share[WORLD_USAGE_MAX + 1],
                     uint64_t *interval_ps)
{
    return usage_shares(w->usage, kind, share, interval_ps);
}

/* ---- agendas ---- */

uint64_t world_clock_ps(const struct world *w, uint32_t rank)
{
    assert(rank < w->options.ranks);
    return later(sim_now_ps(w->rank[rank].world->sim), w->agenda_ps);
}

void world_timer_set(struct world *w, uint32_t rank, uint64_t time_ps)
{
    struct sim_event *event = &w->rank[rank].timer_event;
    struct sim *sim = w->rank[rank].world->sim;
    assert(w->agenda && time_ps >= world_clock_ps(w, rank));
    if (!sim_event_pending(event)) sim_schedule_at(sim, event, time_ps);
    else if (sim_event_time_ps(event) != time_ps) sim_reschedule_at(sim, event, time_ps);
}

void launch_timer_run(struct sim *sim, struct sim_event *event)
{
    const struct world_rank *rank = fabric_container_of(event, const struct world_rank, timer_event);
    const struct world *w = sim_owner(sim);
    w->agenda->timer(w->agenda->context, rank->fabric.rank);
}

void world_kernel_begin(struct world *w, uint32_t index, struct fabric_worker **worker, uint32_t worker_count)
{
    struct world_rank *rank = &w->rank[index];
    assert(w->agenda && index < w->options.ranks && !rank->running && !sim_event_pending(&rank->launch_event));
    rank_launch(rank, worker, worker_count, world_clock_ps(w, index));
    first_steps_schedule(rank);
}

/* Gives all parts an agenda.  NULL: the world runs programs. */
static void agenda_set(struct world *w, const struct world_agenda *agenda)
{
    w->agenda = agenda;
    for (uint32_t p = 0; p < w->parts; p++) {
        struct world *part = w->part[p];
        part->agenda = agenda;
        part->program = NULL;
        part->several = true;
        part->ranks_running = part->rank_count; /* no wake is idle meanwhile, because another kernel may come */
    }
}

bool world_run_agenda(struct world *w, const struct world_agenda *agenda, char *text, size_t text_size)
{
    uint32_t running = 0;
    assert(w->options.agenda);
    w->agenda_ps = world_latest_ps(w);
    agenda_set(w, agenda);
    network_uses_clear(w->network);
    for (uint32_t r = 0; r < w->options.ranks; r++) w->rank[r].kernel = 0;
    agenda->begin(agenda->context);
    events_run(w);
    for (uint32_t r = 0; r < w->options.ranks; r++) running += w->rank[r].running;
    if (running) (void)stuck_describe(w, text, text_size);
    agenda_set(w, NULL);
    return running == 0;
}
