/* busy.c - how busy parts are while the slowest rank's kernel runs; see busy.h.
 *
 * A port knows its total busy time and the time until which it is busy.  A look reads both.  Work after the time of the
 * look is not done yet. */
#include "models/hardware/world/busy.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include "models/hardware/world/world_internal.h"

enum { BUSY_BEGINS_MAX = 64, NOTES_FIRST = 16 };

struct watched {
    const struct port *port;
    const struct held *held;  /* NULL: not known */
    const uint64_t *bytes_ps; /* how long its bytes so far take it, as their rates differ; NULL: it has one rate */
    uint64_t rate_bps;        /* the rate of its work, for which no kind of work has another; 0: no single rate */
    uint32_t owner;           /* a rank, a port of a NIC, a link, a core, or the number of a pair of GPUs */
    enum world_resource kind;
};

struct done {
    uint64_t busy_ps, bytes, bytes_ps;
    struct held held; /* all that is known at the time of the look, done or not */
};

/* The busiest of the parts of a kind that work only for their own rank: its SMs, or its warps that post. */
struct own_busiest {
    uint64_t ps, sum_ps; /* how long it was busy; the sum over all ranks of their busiest ones' times */
    uint32_t rank;
};

/* The looks at one kernel. */
struct looked {
    struct done *begin[BUSY_BEGINS_MAX]; /* [watched_count] each */
    uint64_t begin_ps[BUSY_BEGINS_MAX];
    uint32_t begins;
    uint64_t gap_ps;      /* the shortest time between two entries of begin_ps */
    struct done *slowest; /* [watched_count] what each part did while the slowest rank so far ran; NULL: no
                           * rank has ended */
    uint64_t slowest_ps;  /* for how long the slowest rank so far ran */
    struct own_busiest sm, poster;
};

struct busy {
    struct world *world;
    struct watched *watched;
    uint32_t watched_count, watched_max;
    struct looked *kernel;
    uint32_t kernels;
    pthread_mutex_t results; /* held while the result of a rank's kernel is noted */
};

/* ---- the parts ---- */

static struct watched *watch(struct busy *b, const struct port *port, enum world_resource kind, uint32_t owner)
{
    if (b->watched_count == b->watched_max) {
        b->watched_max = b->watched_max ? 2 * b->watched_max : 256;
        b->watched = memory_grow(b->watched, b->watched_max, sizeof b->watched[0]);
    }
    b->watched[b->watched_count] = (struct watched){ .port = port, .kind = kind, .owner = owner };
    return &b->watched[b->watched_count++];
}

static void rank_watch(struct busy *b, const struct world_rank *rank)
{
    const struct world *w = rank->world;
    const uint32_t number = rank->fabric.rank;
    const struct graph *g = w->network->graph;
    for (uint32_t i = 0; i < w->transport.threads; i++) watch(b, &rank->proxy[i], WORLD_POSTING, number);
    if (w->cluster->host.cores) return;
    const struct graph_peer_rates rates = graph_gpu_peer_rates(g, number / g->gpus, number % g->gpus);
    watch(b, &rank->hbm, WORLD_HBM, number)->rate_bps =
        (uint64_t)((unsigned __int128)w->cluster->gpu.hbm_rate_bps * WORLD_SLOW_ONE / rank->slow);
    for (uint32_t to = 0; to < g->gpus && w->pair_link; to++) { /* all of these links together carry what leaves the
                                                                 * GPU */
        const uint32_t pair = number * g->gpus + to;
        watch(b, &w->pair_link[pair], WORLD_NVLINK_EGRESS, pair)->rate_bps =
            rates.out_bps / (w->cluster->nvlink.gpus - 1);
    }
    struct watched *ingress = watch(b, &rank->ingress, WORLD_NVLINK_INGRESS, number);
    ingress->rate_bps = rates.in_bps;
    ingress->held = &rank->ingress_held;
    if (w->pair_link) return;
    struct watched *egress = watch(b, &rank->egress, WORLD_NVLINK_EGRESS, number);
    egress->rate_bps = rates.out_bps;
    egress->bytes_ps = &rank->egress_bytes_ps;
    egress->held = &rank->egress_held;
}

static void nic_watch(struct busy *b, uint32_t port)
{
    const struct world *w = b->world;
    const struct network_port *ends = &w->network->port[port];
    if (!w->nic[port].used) return;
    watch(b, &w->network->link[ends->out].port, WORLD_NIC_TX, port)->rate_bps =
        graph_link(w->network->graph, ends->out)->rate_bps;
    watch(b, &w->network->link[ends->in].port, WORLD_NIC_RX, port)->rate_bps =
        graph_link(w->network->graph, ends->in)->rate_bps;
    watch(b, &w->nic[port].receiving, WORLD_RECEIVING, port);
    watch(b, &w->nic[port].atomic, WORLD_ATOMICS, port);
}

struct busy *busy_new(struct world *w)
{
    struct busy *b = memory_new(1, sizeof *b);
    const struct network *n = w->network;
    b->world = w;
    pthread_mutex_init(&b->results, NULL);
    for (uint32_t r = 0; r < w->options.ranks; r++) rank_watch(b, &w->rank[r]);
    for (uint32_t i = 0; i < w->nic_count; i++) nic_watch(b, i);
    for (uint32_t i = 0; i < n->graph->link->len; i++)
        if (network_link_inner(n, i) && graph_link(n->graph, i)->rate_bps)
            watch(b, &n->link[i].port, WORLD_LINK, i)->rate_bps = graph_link(n->graph, i)->rate_bps;
    for (uint32_t i = 0; i < w->cluster->host.cores; i++) watch(b, &w->core[i].port, WORLD_CORE, i);
    return b;
}

static void kernels_clear(struct busy *b)
{
    for (uint32_t k = 0; k < b->kernels; k++) {
        for (uint32_t i = 0; i < b->kernel[k].begins; i++) free(b->kernel[k].begin[i]);
        free(b->kernel[k].slowest);
    }
    free(b->kernel);
    b->kernel = NULL;
    b->kernels = 0;
}

void busy_free(struct busy *b)
{
    if (!b) return;
    kernels_clear(b);
    free(b->watched);
    pthread_mutex_destroy(&b->results);
    free(b);
}

/* ---- looks ---- */

static uint64_t share_of(uint64_t whole, uint64_t part_ps, uint64_t whole_ps)
{
    return whole_ps ? (uint64_t)((unsigned __int128)whole * part_ps / whole_ps) : whole;
}

/* How much of the work that is known now a part has done until time_ps. */
static struct done part_done(const struct watched *p, uint64_t time_ps)
{
    const struct port *port = p->port;
    const uint64_t ahead_ps = port->free_ps > time_ps ? port->free_ps - time_ps : 0;
    const uint64_t bytes_ps = p->bytes_ps ? *p->bytes_ps : 0;
    const struct held held = p->held ? *p->held : (struct held){ 0 };
    if (ahead_ps && ahead_ps >= port->busy_ps) return (struct done){ .held = held };
    const uint64_t done_ps = port->busy_ps - ahead_ps;
    return (struct done){ done_ps, share_of(port->bytes, done_ps, port->busy_ps),
                          share_of(bytes_ps, done_ps, port->busy_ps), held };
}

static struct done *all_done(const struct busy *b, uint64_t time_ps)
{
    struct done *done = memory_new((size_t)b->watched_count + 1, sizeof done[0]);
    for (uint32_t i = 0; i < b->watched_count; i++) done[i] = part_done(&b->watched[i], time_ps);
    return done;
}

/* Looks at all parts as a rank begins the kernel.  When there is no room for more looks, every other one is forgotten,
 * and later ones come half as often. */
static void begin_look(const struct busy *b, struct looked *k, uint64_t now_ps)
{
    if (k->begins && now_ps - k->begin_ps[k->begins - 1] <= k->gap_ps) return;
    if (k->begins == BUSY_BEGINS_MAX) {
        for (uint32_t i = 0; i < BUSY_BEGINS_MAX / 2; i++) {
            free(k->begin[2 * i + 1]);
            k->begin[i] = k->begin[2 * i];
            k->begin_ps[i] = k->begin_ps[2 * i];
        }
        k->begins = BUSY_BEGINS_MAX / 2;
        k->gap_ps = 2 * (now_ps - k->begin_ps[0]) / BUSY_BEGINS_MAX;
    }
    k->begin_ps[k->begins] = now_ps;
    k->begin[k->begins++] = all_done(b, now_ps);
}

void busy_program_begin(struct busy *b, uint32_t kernels, uint64_t begin_ps)
{
    kernels_clear(b);
    b->kernel = memory_new(kernels, sizeof b->kernel[0]);
    b->kernels = kernels;
    begin_look(b, &b->kernel[0], begin_ps);
}

static struct busy_note note_of(const struct world_rank *rank, bool ended)
{
    return (struct busy_note){ rank, rank->start_ps, rank->begin_ps, rank->end_ps, rank->kernel, ended };
}

/* Whether another rank, which began the kernel at the same time or earlier, still runs it.  Such a rank takes no less
 * time. */
static bool slower_runs(const struct world *w, const struct busy_note *note)
{
    for (uint32_t r = 0; r < w->options.ranks; r++)
        if (w->rank[r].kernel == note->kernel && w->rank[r].running && w->rank[r].begin_ps <= note->begin_ps)
            return true;
    return false;
}

/* What a part has done since a look, without what it may have done before the rank began. */
static struct done done_since(const struct done *now, const struct done *then, uint64_t before_ps, uint64_t most_ps)
{
    const uint64_t busy_ps = now->busy_ps > then->busy_ps ? now->busy_ps - then->busy_ps : 0;
    const uint64_t bytes = now->bytes > then->bytes ? now->bytes - then->bytes : 0;
    const uint64_t bytes_ps = now->bytes_ps > then->bytes_ps ? now->bytes_ps - then->bytes_ps : 0;
    uint64_t kept_ps = busy_ps > before_ps ? busy_ps - before_ps : 0;
    if (kept_ps > most_ps) kept_ps = most_ps;
    const struct held held = { now->held.took_ps - then->held.took_ps, now->held.held_ps - then->held.held_ps };
    return (struct done){ kept_ps, share_of(bytes, kept_ps, busy_ps), share_of(bytes_ps, kept_ps, busy_ps), held };
}

/* Whether the rank takes longer than every rank whose time is known. */
static bool slowest_yet(const struct busy *b, const struct busy_note *note)
{
    const struct looked *k = &b->kernel[note->kernel];
    const bool longer = !k->slowest || note->end_ps - note->begin_ps > k->slowest_ps;
    return longer && k->begins && !slower_runs(b->world, note);
}

static void end_look(const struct busy *b, const struct busy_note *note)
{
    struct looked *k = &b->kernel[note->kernel];
    const uint64_t time_ps = note->end_ps - note->begin_ps;
    if (!slowest_yet(b, note)) return;
    uint32_t look = 0; /* the first look since the rank began; if there is none, the last look */
    while (look + 1 < k->begins && k->begin_ps[look] < note->start_ps) look++;
    const uint64_t early_ps = note->start_ps > k->begin_ps[look] ? note->start_ps - k->begin_ps[look] : 0;
    const uint64_t before_ps = early_ps + note->begin_ps - note->start_ps;
    free(k->slowest);
    k->slowest = all_done(b, note->end_ps);
    k->slowest_ps = time_ps;
    for (uint32_t i = 0; i < b->watched_count; i++)
        k->slowest[i] = done_since(&k->slowest[i], &k->begin[look][i], before_ps, time_ps);
}

static void note_take(const struct busy *b, const struct busy_note *note)
{
    if (note->ended) end_look(b, note);
    else begin_look(b, &b->kernel[note->kernel], note->start_ps);
}

static void note_add(struct world *w, struct busy_note note)
{
    if (w->note_count == w->note_max) {
        w->note_max = w->note_max ? 2 * w->note_max : NOTES_FIRST;
        w->note = memory_grow(w->note, w->note_max, sizeof w->note[0]);
    }
    w->note[w->note_count++] = note;
}

/* Makes the look that a note asks for, at once.  In a world of parts, keeps the note until the window ends. */
static void look(struct world *w, struct busy_note note)
{
    if (w->box) note_add(w, note);
    else note_take(w->busy, &note);
}

static uint64_t note_ps(const struct busy_note *note) { return note->ended ? note->end_ps : note->start_ps; }

static int note_order(const void *a, const void *b)
{
    const struct busy_note *x = a, *y = b;
    if (note_ps(x) != note_ps(y)) return note_ps(x) < note_ps(y) ? -1 : 1;
    if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
    return (int)y->ended - (int)x->ended; /* a rank's kernel ends before its next one begins */
}

void busy_notes_take(struct world *whole)
{
    whole->note_count = 0;
    for (uint32_t p = 0; p < whole->parts; p++) {
        struct world *w = whole->part[p];
        for (uint32_t i = 0; i < w->note_count; i++) note_add(whole, w->note[i]);
        w->note_count = 0;
    }
    if (!whole->note_count) return;
    qsort(whole->note, whole->note_count, sizeof whole->note[0], note_order);
    for (uint32_t i = 0; i < whole->note_count; i++) note_take(whole->busy, &whole->note[i]);
}

void busy_rank_begin(const struct world_rank *rank) { look(rank->world, note_of(rank, false)); }

void busy_rank_late(struct world_rank *rank)
{
    if (!rank->worker_count) return;
    rank->end_event = (struct sim_event){ .kind = EVENT_END };
    sim_schedule_at(rank->world->sim, &rank->end_event, rank->start_ps);
}

/* Schedules the look for when the kernel ends, because a worker's last step comes before the end of its operations. */
void busy_rank_end(struct world_rank *rank)
{
    struct world *w = rank->world;
    const struct busy_note note = note_of(rank, true);
    if (!w->box && !slowest_yet(w->busy, &note)) return; /* with parts, ranks of other parts are known only later */
    rank->end_event = (struct sim_event){ .kind = EVENT_END };
    if (rank->end_ps > sim_now_ps(w->sim)) sim_schedule_at(w->sim, &rank->end_event, rank->end_ps);
    else look(w, note);
}

void busy_event_run(struct sim *sim, struct sim_event *event)
{
    struct world *w = sim_owner(sim);
    w->looks++;
    const struct world_rank *rank = fabric_container_of(event, struct world_rank, end_event);
    look(w, note_of(rank, !rank->running));
}

/* Takes in a rank's part that was busy for busy_ps.  Of equal parts, the lowest rank's counts. */
static void own_add(struct own_busiest *o, const struct world_rank *rank, uint64_t busy_ps)
{
    const uint64_t ran_ps = rank->end_ps - rank->begin_ps, within_ps = busy_ps < ran_ps ? busy_ps : ran_ps;
    o->sum_ps += within_ps;
    if (within_ps < o->ps || !within_ps || (within_ps == o->ps && rank->fabric.rank > o->rank)) return;
    o->ps = within_ps;
    o->rank = rank->fabric.rank;
}

/* Notes how long the rank's busiest SM and its busiest posting warp were busy.  That needs no look, because they work
 * only for their own rank's kernel. */
void busy_rank_result(const struct world_rank *rank, const struct world_result *result)
{
    struct busy *b = rank->world->busy;
    struct looked *k = &b->kernel[rank->kernel];
    uint64_t posted_ps = 0;
    for (uint32_t i = 0; rank->posted_ps && i < rank->worker_count; i++)
        posted_ps = later(posted_ps, rank->posted_ps[i]);
    pthread_mutex_lock(&b->results);
    own_add(&k->sm, rank, result->use[WORLD_SM].busy_ps);
    own_add(&k->poster, rank, posted_ps);
    pthread_mutex_unlock(&b->results);
}

/* ---- answers ---- */

/* "rank 3", "ranks 0 and 1", "ranks 0-3": the users of a port of a NIC. */
static void port_ranks(const struct world *w, uint32_t port, char *text, size_t text_size)
{
    uint32_t first = UINT32_MAX, last = 0, count = 0;
    for (uint32_t r = 0; r < w->options.ranks; r++)
        for (uint32_t i = 0; i < w->rank[r].nic_count; i++)
            if (w->rank[r].nic[i] == port) first = first == UINT32_MAX ? r : first, last = r, count++;
    if (count < 2) snprintf(text, text_size, "rank %u", last);
    else if (count == 2) snprintf(text, text_size, "ranks %u and %u", first, last);
    else if (count == last - first + 1) snprintf(text, text_size, "ranks %u-%u", first, last);
    else snprintf(text, text_size, "%u ranks from %u to %u", count, first, last);
}

/* Names a port by its ranks.  If one of them has several ports, the graph's name of the port replaces "NIC". */
static void nic_name(const struct world *w, uint32_t port, char *text, size_t text_size)
{
    char ranks[48];
    port_ranks(w, port, ranks, sizeof ranks);
    const struct network *n = w->network;
    const uint32_t node = port / n->ports_per_node, of_node = port % n->ports_per_node;
    bool several = false;
    for (uint32_t r = 0; r < w->options.ranks && !several; r++)
        for (uint32_t i = 0; i < w->rank[r].nic_count; i++)
            several |= w->rank[r].nic[i] == port && w->rank[r].nic_count > 1;
    snprintf(text, text_size, "%s of %s",
             several ? graph_part(n->graph, graph_port(n->graph, node, of_node))->name : "NIC", ranks);
}

static void part_name(const struct busy *b, const struct watched *p, char *text, size_t text_size)
{
    const struct world *w = b->world;
    const struct graph *g = w->network->graph;
    const char *peers = w->cluster->nvlink.over == CLUSTER_PEERS_BY_PCIE ? "PCIe" : w->pair_link ? "xGMI" : "NVLink";
    char nic[96] = "";
    const bool of_nic =
        p->kind == WORLD_NIC_TX || p->kind == WORLD_NIC_RX || p->kind == WORLD_RECEIVING || p->kind == WORLD_ATOMICS;
    if (of_nic) nic_name(w, p->owner, nic, sizeof nic);
    switch (p->kind) {
    case WORLD_SM: snprintf(text, text_size, "busiest SM of rank %u", p->owner); return;
    case WORLD_HBM: snprintf(text, text_size, "GPU memory and L2 of rank %u", p->owner); return;
    case WORLD_NVLINK_EGRESS:
        if (w->pair_link)
            snprintf(text, text_size, "xGMI from rank %u to rank %u", p->owner / g->gpus,
                     p->owner / g->gpus / g->gpus * g->gpus + p->owner % g->gpus);
        else snprintf(text, text_size, "%s of rank %u, sending", peers, p->owner);
        return;
    case WORLD_NVLINK_INGRESS: snprintf(text, text_size, "%s of rank %u, receiving", peers, p->owner); return;
    case WORLD_POSTING:
        snprintf(text, text_size, "posting %s of rank %u", p->port ? "thread" : "warp", p->owner);
        return;
    case WORLD_NIC_TX: snprintf(text, text_size, "%s, sending", nic); return;
    case WORLD_NIC_RX: snprintf(text, text_size, "%s, receiving", nic); return;
    case WORLD_RECEIVING: snprintf(text, text_size, "receiving thread of the %s", nic); return;
    case WORLD_ATOMICS: snprintf(text, text_size, "atomic unit of the %s", nic); return;
    case WORLD_CORE: snprintf(text, text_size, "core %u", p->owner); return;
    case WORLD_LINK:
        snprintf(text, text_size, "%s-%s", graph_part(g, graph_link(g, p->owner)->from)->name,
                 graph_part(g, graph_link(g, p->owner)->to)->name);
        return;
    case WORLD_RESOURCE_COUNT: break;
    }
    assert(false);
}

static int rate_order(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* The median rate of all parts of a kind.  0 for links, because each link of a network has a rate of its own. */
static uint64_t usual_rate(const struct busy *b, enum world_resource kind)
{
    if (kind == WORLD_LINK) return 0;
    uint64_t *rate = memory_new((size_t)b->watched_count + 1, sizeof rate[0]), usual = 0;
    uint32_t count = 0;
    for (uint32_t i = 0; i < b->watched_count; i++)
        if (b->watched[i].kind == kind) rate[count++] = b->watched[i].rate_bps;
    qsort(rate, count, sizeof rate[0], rate_order);
    if (count) usual = rate[count / 2];
    free(rate);
    return usual;
}

/* The rate at which the part moved its bytes.  NVLink and memory have several rates, by the kind of access: for these,
 * it is the mean.  0: its work has no single rate. */
static uint64_t rate_of(const struct watched *p, const struct done *done)
{
    const uint64_t bytes_ps = p->bytes_ps ? done->bytes_ps : done->busy_ps;
    const bool several = p->bytes_ps || p->kind == WORLD_HBM;
    if (!p->rate_bps || !bytes_ps) return 0;
    if (!several && units_transfer_ps(done->bytes, p->rate_bps) <= done->busy_ps + PS_PER_NS) return p->rate_bps;
    return (uint64_t)((unsigned __int128)done->bytes * 8 * PS_PER_S / bytes_ps);
}

static bool own_busiest(const struct busy *b, const struct own_busiest *o, enum world_resource kind,
                        struct world_part *part)
{
    const struct watched own = { .kind = kind, .owner = o->rank };
    if (!o->ps) return false;
    *part = (struct world_part){ .busy_ps = o->ps, .held = -1 };
    part->over_mean = (double)o->ps * b->world->options.ranks / (double)o->sum_ps;
    part_name(b, &own, part->name, sizeof part->name);
    return true;
}

bool world_busiest(const struct world *w, uint32_t kernel, enum world_resource kind, struct world_part *part)
{
    const struct busy *b = w->busy;
    assert(kernel < b->kernels);
    const struct done *done = b->kernel[kernel].slowest;
    if (kind == WORLD_SM) return own_busiest(b, &b->kernel[kernel].sm, kind, part);
    if (kind == WORLD_POSTING && b->world->transport.poster == CLUSTER_POST_GPU)
        return own_busiest(b, &b->kernel[kernel].poster, kind, part);
    uint32_t most = UINT32_MAX, parts = 0;
    uint64_t sum_ps = 0, sum_bytes = 0;
    for (uint32_t i = 0; done && i < b->watched_count; i++) {
        if (b->watched[i].kind != kind) continue;
        parts++;
        sum_ps += done[i].busy_ps;
        sum_bytes += done[i].bytes;
        if (done[i].busy_ps && (most == UINT32_MAX || done[i].busy_ps > done[most].busy_ps)) most = i;
    }
    if (most == UINT32_MAX) return false;
    *part = (struct world_part){ .busy_ps = done[most].busy_ps, .bytes = done[most].bytes };
    part->rate_bps = rate_of(&b->watched[most], &done[most]);
    const struct held *held = &done[most].held;
    part->held = held->took_ps ? (double)held->held_ps / (double)held->took_ps : -1;
    part->usual_bps = share_of(usual_rate(b, kind), part->rate_bps, b->watched[most].rate_bps);
    if (kind != WORLD_LINK)
        part->over_mean = sum_bytes ? (double)part->bytes * parts / (double)sum_bytes
                                    : (double)part->busy_ps * parts / (double)sum_ps;
    part_name(b, &b->watched[most], part->name, sizeof part->name);
    return true;
}
