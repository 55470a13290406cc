/* world_internal.h - private to models/hardware: the state of the simulated world. */
#ifndef MODELS_HARDWARE_WORLD_INTERNAL_H
#define MODELS_HARDWARE_WORLD_INTERNAL_H

#include <stdatomic.h>
#include "models/hardware/world/agenda.h"
#include "models/hardware/world/arena.h"
#include "models/hardware/world/busy.h"
#include "models/hardware/sm/pressure.h"
#include "models/hardware/nic/dcqcn.h"
#include "models/hardware/machine/egress.h"
#include "models/hardware/machine/link.h"
#include "models/hardware/world/looks.h"
#include "models/hardware/machine/network.h"
#include "models/hardware/nic/nic.h"
#include "models/hardware/machine/transport.h"
#include "models/hardware/world/words.h"
#include "models/hardware/world/world.h"
#include "models/kernels/loops.h"
#include "sim/memory.h"
#include "sim/sim.h"
#include "sim/units.h"

struct bulk_engine;
struct bulk_turn;
struct mailbox;
struct usage;
struct world_rank;
struct world_timeline;

/* Kinds of events; world.c says which function runs each. */
enum {
    EVENT_STEP,     /* a worker's next step */
    EVENT_WAKE,     /* a wake that a worker has asked for */
    EVENT_CHANGE,   /* a train of changes of words */
    EVENT_SEND,     /* a port sends its next quantum */
    EVENT_RECEIVED, /* a host begins to work on a request that is still coming in */
    EVENT_LANDED,   /* a request's last byte has come in */
    EVENT_RESUME,   /* a QP that had to wait goes on */
    EVENT_STORED,   /* a bulk engine may have made the first of its waiting stores */
    EVENT_CORE,     /* a core of a host is free */
    EVENT_BEGIN,    /* a program begins */
    EVENT_LAUNCH,   /* a rank's kernel has ended, so its next one begins or the agenda is told */
    EVENT_LOOK,     /* a look at how busy ports are */
    EVENT_TIMER,    /* the timer of a rank on an agenda */
    EVENT_END,      /* a rank's kernel ends or begins late, and busy parts are looked at (busy.h) */
    EVENT_KINDS
};
_Static_assert((unsigned)EVENT_KINDS <= (unsigned)SIM_KINDS, "each has a handler");

/* A worker while its kernel runs.  Large worlds have millions, and steps reach them in no particular order: what
 * each step needs fits one cache line.  The rest is in struct stepping, struct mover and struct rest. */
struct world_worker {
    struct sim_event event;       /* its next step */
    struct fabric_worker *worker; /* also tells its rank: worker_rank() */
    uint64_t cursor_ps;           /* when all its operations so far are done */
    uint64_t settled_ps;          /* an event at this time or later does not move its next step; UINT64_MAX: any
                                   * event may */
    uint32_t counter;             /* 1 + the place of its struct counter; 0: it has none */
    uint32_t mover;               /* 1 + the place of its struct mover; 0: it has moved no rows */
    uint32_t touched;             /* for each site whose array the worker itself has read, the bit of its number % 32 */
    uint16_t sm;                  /* the SM whose port it uses */
    bool done : 1;
    bool unfenced : 1; /* it has stored since its last signal, so the next signal must wait for the stores */
    bool rested : 1;   /* its struct rest is in use */
    bool due : 1;      /* its counter has a sum that it has not read yet */
    bool puts : 1;     /* it stores rows to a peer by its own stores, so it counts among its rank's `putting` */
    bool looks : 1;    /* it polls a word in the host's memory (looks.h) */
    bool in_turn : 1;  /* it moves rows one after another, as its struct turns says */
    bool parked : 1;   /* its next step is due when its bulk stores have left the SM */
    bool awaits : 1;   /* its next step is left out until a word has a value: struct rest says which */
};
_Static_assert(sizeof(struct world_worker) <= 48, "large worlds have millions");

/* A rank's notes on the worker that is being stepped. */
struct stepping {
    struct world_worker *worker; /* NULL: none of the rank's workers is being stepped */
    uint64_t lane_start_ps;      /* when the operations that now run at the same time began */
    uint64_t last_end_ps;        /* when the last operation is done */
    uint64_t posted_ps;          /* when its last post in this step was done; 0: it has not posted */
    uint64_t space_ps;           /* when the next place on a full QP will be free; 0: not wanted, or not known */
    uint64_t wake_ps;            /* the soonest time at which its step asks to be woken; 0: never */
    uint64_t least;              /* the value that its next step awaits; 0: it awaits none */
    uint32_t awaited;            /* the word that is to have this value */
    uint16_t lane_warps;         /* warps that these operations have taken */
};

/* What other workers of its SM read about a worker that has moved rows. */
struct mover {
    uint64_t from_ps, to_ps;   /* when it last began to move rows, and when it had moved them */
    uint32_t sm_next : 22;     /* 1 + the place of the next mover of its SM, 0: none; so a rank has at most
                                * RANK_WORKERS_MAX */
    uint32_t moving_256 : 10;  /* the share of its last cycle in which it moved rows, in 256ths; 0: not known */
    uint32_t bulk : 1;         /* the bulk engine moved the rows */
    uint32_t scanning_256 : 9; /* the share of that cycle in which it scanned arrays */
    uint32_t scanned : 22;     /* how long it has scanned since it last moved rows, in units of MOVER_SCAN_PS */
};
_Static_assert(sizeof(struct mover) == 24, "large worlds have millions");
enum { MOVER_SCAN_PS = 4096 };

enum { RANK_WORKERS_MAX = (1 << 22) - 1 };

/* The part of a worker's state that few workers need. */
struct rest {
    uint64_t staged_ps;              /* when its stores from shared memory are written */
    uint64_t wake_ps;                /* its soonest scheduled wake, 0: none */
    uint64_t wanted_ps;              /* when its wait asks to be woken; 0: never */
    struct letter *mail, *mail_last; /* letters that it has not read yet, the soonest first */
    struct bulk_turn *turn;          /* its last request to the SM's bulk engine (bulk_turns.c); NULL: all have ended */
    uint64_t least, skipped_ps;      /* the value that it awaits; when the step that was left out last was due, 0: none
                                      * was left out */
    uint32_t awaited;                /* the word that is to have that value */
    uint32_t shared_bytes;           /* where its buffer in shared memory begins */
    union {
        struct world_worker *ready_next; /* host: the rank's worker behind it in line for the core */
        uint64_t first_ps;               /* GPU: see worker_first_ps() */
    };
};

/* GPU: what rows whose loop is a program need of each part. */
struct price {
    uint64_t ps, lead_ps; /* until the warps have moved all rows; until the first byte leaves the SM */
    uint64_t served_ps;   /* how long the rows keep the SM busy */
    uint64_t memory_ps;   /* how long the rows keep the memory busy */
    uint64_t sm_bytes, memory_bytes;
    uint64_t egress;    /* stores to a peer: the rate at which the rows leave the GPU (rate_q20) */
    uint32_t first_256; /* a team's sums: the part of the bytes, of 256, that it asks for before any has come; else 0 */
    bool bulk;          /* the bulk engine moves the rows */
    bool posted;        /* nobody waits until the rows have arrived */
    bool fixed;         /* the price does not depend on what other warps do */
};

/* What the price of rows depends on where no other kernel slows the memory, and the price. */
enum price_kind { PRICE_UNKNOWN, PRICE_WORK, PRICE_STORE_OWN, PRICE_STORE_PEER, PRICE_GET };
struct price_key {
    uint64_t digest; /* of their loop */
    uint64_t read_bytes, write_bytes;
    uint32_t rows, warps;
    uint32_t groups_256; /* gpu_groups_256() */
    enum price_kind kind;
    bool rounds; /* struct gpu_sharing */
};
struct kept_price {
    struct price_key key;
    struct price price;
};
enum { KEPT_BITS = 6 };

/* Rows that a worker moves one after another, each when the row before it is done: stores to a peer, or copies. */
struct turns {
    struct price price; /* of a row; `fixed` is false before the first row */
    uint64_t read_bytes, write_bytes;
    struct site_given *given;
    uint32_t left;   /* rows that have not begun */
    uint32_t launch; /* the rank's launch in which the worker moved such rows */
    uint16_t peer;
    uint8_t site, kind; /* kind: of the work */
    bool stores;
};
_Static_assert(sizeof(struct turns) <= 128, "a row reads two cache lines of it");

/* How long the operations took that crossed a direction of a GPU's NVLink, and for how much of this time they waited
 * for NVLink alone. */
struct held {
    uint64_t took_ps, held_ps;
};

/* A core of a host, and the rank that has it.  Ranks are processes and take turns on it. */
struct core {
    struct port port;
    struct sim_event event;  /* the end of the core's current step; then the core is free, or another rank gets it */
    struct world_rank *rank; /* the rank that has the core; if none has: the one that had it last */
    uint64_t slice_end_ps;   /* after this time, other ranks go first */
    uint64_t received_ps;    /* when its work on the last incoming request is done */
    bool waits_for_held;     /* the event is for a rank that is held back; another rank may make it come sooner */
};

/* When a port's flow to or from its latest peer ends, and when its last flow to or from any other peer ends. */
struct flows {
    uint64_t end_ps, others_end_ps;
    uint16_t peer;
};

_Static_assert((unsigned)RANK_WORKERS_MAX <= (unsigned)WATCH_NUMBER, "a head holds the number of a worker");

struct world_rank {
    struct fabric fabric;
    struct world *world;
    uint32_t *nic;               /* [nic_count] ports that it uses */
    struct network_local *local; /* [nic_count] the links between the rank's ports and its GPU */
    uint32_t nic_count;
    uint32_t slow;                      /* its GPU or core takes slow / WORLD_SLOW_ONE times as long as one that is
                                         * not slowed */
    uint32_t egress_slow, ingress_slow; /* likewise for the two directions of its NVLink, which a fault may slow */
    uint64_t staging_bps;               /* rate of copies to the host and back; 0: they take no time */
    struct port *sm;                    /* [sms] */
    struct port *far;                   /* [sms] serves the SM's loads from memory for sums */
    const struct cluster_cpcs *cpcs;    /* NULL: not known */
    uint8_t *sm_cpc;                    /* [sms] */
    struct bulk_engine *engine;         /* [sms]; NULL: no store has waited for an engine yet */
    uint64_t *stored_ps;                /* [sms] when the stores of the SM's warps so far are done */
    uint64_t *put_ps;                   /* [sms] when the stores of the SM's warps to peers so far are done */
    uint64_t egress_since_ps;           /* since when the egress has been busy */
    uint64_t egress_bytes_ps;           /* how long the bytes so far take the egress, at the rates of their stores */
    uint64_t beside_ps;                 /* the part of its kernel's duration that is not its workers' time */
    uint64_t *fenced_ps;                /* [sms] when the last round of fences of the SM's warps ends */
    uint64_t *told_ps;                  /* [sms] when peers have answered all signals of the SM's warps so far */
    uint64_t *copied_ps;                /* [sms] when the copies are done that the SM's warps make by loads and
                                         * stores */
    uint32_t *sm_first;                 /* [sms] 1 + the place of the SM's first mover; 0: none */
    struct loop *loop; /* [loop_count] loops of those operations of this launch for which the kernel gives sizes */
    uint32_t loop_count, loop_max;
    struct looks *looks; /* NULL: no worker has read the host's memory yet */
    struct mover *mover; /* [mover_count] */
    uint32_t mover_count, mover_max;
    struct port hbm, egress, ingress, posting, calls;
    struct held egress_held, ingress_held;
    struct flows egress_flows, ingress_flows;
    struct egress shares;        /* the egress as bulk stores share it, if the cluster names CPCs */
    struct port *proxy;          /* [threads] */
    arena_name *qp;              /* [ranks * queue_count], made when first used */
    struct world_worker *worker; /* [worker_count] */
    struct rest *rest;           /* [worker_count]; NULL: no worker has needed it yet */
    struct turns *turns;         /* [worker_count]; NULL: no worker has moved rows in turn yet */
    uint64_t *posted_ps;         /* [worker_count] how long the worker itself has posted in this launch; NULL: no
                                  * worker has posted yet */
    struct stepping now;
    uint32_t *watch_head; /* [words] the watches of each word (struct watch); 0: none */
    struct watch *watch;
    struct counter *counter;
    uint32_t watch_count, watch_max, counter_count, counter_max;
    uint32_t counters_low;           /* how many workers still wait for their counter's value */
    uint32_t watch_first, watch_end; /* the words that are watched lie in [first, end) */
    uint32_t worker_count, worker_max, running;
    uint32_t putting; /* workers that store rows to peers by their own stores and are not done */
    struct world_worker *ready_first, *ready_last; /* host: workers that will step when the rank gets the core */
    uint32_t ready_count, round_left;              /* how many such workers there are; how many steps are left in this
                                                    * round of the rank's loop */
    uint64_t owed_ps, held_until_ps; /* host, if the rank is slowed: how much longer its step has to take; until when it
                                      * does not get the core */
    uint64_t let_ps, counts_ps;      /* when the last worker without WORKER_CLOSES was done; when the last one with
                                      * WORKER_COUNTS was done */
    struct sim_event launch_event;   /* its next kernel begins, or its agenda is told that the last one has ended */
    struct sim_event timer_event;    /* its timer, if it runs an agenda */
    struct sim_event end_event;      /* its kernel has ended, or begins late (busy.h) */
    struct pressure pressure;        /* how other kernels on its GPU slow the memory */
    uint32_t kernel;                 /* index of its kernel in the program */
    uint32_t launch;                 /* number of its last launch, over all programs */
    uint64_t start_ps, begin_ps, end_ps; /* of the launch: its begin, the first worker's step, the last worker's end */
    bool begun;
    bool cast; /* host: its last work on rows was a cast, so the bytes that it stores lie in its caches */
    struct world_use before[WORLD_RESOURCE_COUNT]; /* what its ports had done before the launch */
    uint64_t arrived_ps;                           /* when the last data or change of a word in this launch came to
                                                    * it */
};

/* The two machines on which ranks run: GPUs (gpu.c) and the cores of a host (host.c). */
struct world_machine {
    const struct fabric_ops *ops;                                     /* what operations cost */
    void (*init)(struct world *w);                                    /* sets rates, SMs, launch_ps, poll_ps */
    void (*step_due)(struct world_worker *ww);                        /* the worker's next step is due */
    uint64_t (*step_begin)(struct world_rank *rank, uint64_t now_ps); /* returns when the worker may go on */
    void (*step_end)(struct world_rank *rank);                        /* NULL: nothing is to be done */
    /* NULL unless links cost CPU time.  link_ps() is the CPU time of a request at each end.  send() charges the
     * stepped worker for a request that it sends.  receive() charges the receiver's core for a request that comes
     * in.  send() and receive() return when that work is done. */
    uint64_t (*link_ps)(const struct world *w, const struct request *r);
    uint64_t (*send)(struct world_rank *source, const struct request *r);
    uint64_t (*receive)(struct world_rank *target, uint64_t now_ps, const struct request *r);
    uint64_t (*busy_ps)(const struct world_rank *rank); /* how long the rank's cores were busy; NULL: it has none */
};
extern const struct world_machine gpu_machine, host_machine;

/* A port that cross-rail traffic of other GPUs of its node uses; the traffic first goes to the port's GPU by NVLink. */
struct relay {
    struct world_rank *rank; /* the rank on that GPU; NULL: none */
    struct network_local local;
};

struct work_rates {
    uint64_t row_ps;
    rate_q20 warp;
};

/* A world, or a part of one (parts.h).  In a part, the members under the heading "a part's own" belong to the part.
 * The other members equal those of the whole. */
struct world {
    struct world *whole;          /* the world that this is a part of; a world that is no part: itself */
    struct world **part;          /* [parts] the parts of the whole; a world that is not divided is its only part */
    uint32_t parts, part_ranks;   /* ranks of each part but the last, which may have fewer */
    struct mailbox **boxes;       /* [parts]; NULL: the world is not divided */
    bool ways_shared;             /* one thread plans the ways of all mail, because mail goes over links between
                                   * switches, or DCQCN may mark it */
    _Atomic uint64_t freed_bytes; /* bytes of counters that were freed since memory last went back to the system */
    const struct cluster *cluster;
    const struct world_machine *machine;
    uint64_t launch_ps;                  /* the part of a kernel's duration that is not its workers' time */
    const struct world_program *program; /* while it runs */
    const struct world_agenda *agenda;   /* while it runs; NULL while a program does */
    uint64_t program_ps, agenda_ps;      /* when the program began; when the last agenda began */
    const struct loops *loops;
    struct loop loop[SITES]; /* loops of sites for which the kernel gives no sizes */
    bool several;            /* the last program had several kernels */
    struct world_options options;
    struct world_rank *rank;
    struct world_timeline *record; /* NULL: no timeline is wanted */
    struct usage *usage;           /* NULL: not wanted */
    struct busy *busy;
    struct transport transport;
    struct graph *graph; /* the world's own, unless it was given one */
    struct network *network;
    struct dcqcn dcqcn;             /* if DCQCN is off, its `parameters` are NULL */
    struct nic *nic;                /* [nic_count] ports of all nodes */
    struct network_local *peer_way; /* [nodes][GPUs][GPUs] where GPUs store over PCIe; else NULL */
    struct port *pair_link; /* [nodes][GPUs][GPUs] where each pair of GPUs has a link of its own (xGMI); else NULL */
    rate_q20 pair;          /* rate of such a link, one direction */
    struct relay *relay;    /* [nic_count], where cross-rail traffic goes by NVLink; else NULL */
    bool ports_turn;        /* several ranks use one port of a NIC, and PCIe's links take what they send each other */
    bool ways_differ;       /* what is sent later may arrive earlier */
    bool ways_straight;     /* there is one way between two ports, over links that never lack room and mark nothing */
    uint32_t quantum_bytes; /* 0: whole messages */
    uint32_t nic_count, sm_count;
    uint32_t queue_depth;                             /* requests outstanding on a QP or channel, 0: no limit */
    bool channels;                                    /* a queue's requests to all peers share a channel */
    struct core *core;                                /* [cores] of a host cluster, for all ranks */
    struct work_rates store, reduce, copy, cast, sum; /* host */
    struct work_rates message;                        /* host: the rates of a store of what the rank has just cast */
    uint64_t gpu_number;                              /* what gpu_number() returns (gpu.h) */
    rate_q20 bulk_in, bulk_out, bulk_put, bulk_link, bulk_sector, bulk_crossing, hbm_rows, l2;
    rate_q20 store_sm, reduce_sm, reduce_made, hbm, scan, egress, ingress;
    rate_q20 sum_far, egress_unaligned, egress_split, egress_load; /* 0: not known */
    uint64_t poll_ps; /* from when a word changes until a waiting worker steps */

    /* ---- a part's own ---- */
    uint32_t number, rank_first, rank_count;
    uint32_t port_first, port_end; /* the numbers of its ports of NICs */
    uint64_t turns_taken;          /* turns of ports that were no events */
    struct mailbox *box;           /* the mail between this part and the others; NULL: the world is not divided */
    uint64_t next_ps;              /* its next event; UINT64_MAX: nothing is left to do */
    uint64_t seen_ps;              /* while it takes in mail: the soonest time at which the mail may be seen */
    struct busy_note *note;        /* [note_count] looks due at a kernel's begin or end, made when the window ends */
    uint32_t note_count, note_max;
    uint64_t looks; /* events on which no prediction depends (busy.h) */
    struct sim *sim;
    struct sim_event begin_event;  /* begins the first steps of its ranks */
    const struct pressure *beside; /* the pressure on the rank that is being stepped */
    struct arena arena; /* memory of workers and pools; the engine may still read it when they are no longer used */
    struct pool requests, rows, parcels, letters, changes, wakes, acks, waiters, qps, qp_rests, turns;
    struct change_train train;
    bool letters_used;                      /* false: all words change by events */
    uint64_t mail_ps;                       /* when the last letter arrives */
    struct kept_price kept[1 << KEPT_BITS]; /* the last price of each kind of rows, by a hash of its key */
    struct kept_scan {
        uint64_t read_bytes, ps;
        uint32_t rows;
        bool known;
    } kept_scan[SITES]; /* the last scan at each site for which the kernel gives no sizes */
    uint32_t ranks_running;
    uint32_t wakes_pending; /* how many wakes are scheduled */
    uint32_t idle;          /* how many pending events nobody needs: all wakes once all ranks are done, and the look of
                             * usage.h */
};

/* Schedules what comes after the rank's kernel, whose last worker is done. */
void launch_rank_done(struct world_rank *rank);
sim_handler launch_begin_run; /* EVENT_BEGIN */
sim_handler launch_event_run; /* EVENT_LAUNCH */
sim_handler launch_timer_run; /* EVENT_TIMER */
sim_handler host_core_run;    /* EVENT_CORE */

/* The clock of a world between programs, which is that of its furthest part. */
static inline uint64_t world_latest_ps(const struct world *w)
{
    uint64_t latest_ps = 0;
    for (uint32_t p = 0; p < w->parts; p++) latest_ps = later(latest_ps, sim_now_ps(w->part[p]->sim));
    return latest_ps;
}

/* Notes an operation that crosses NVLink between two GPUs and begins at begin_ps.  It would end at free_ps if NVLink
 * took no time, and NVLink has moved its bytes at crossed_ps. */
static inline void held_note(struct world_rank *from, struct world_rank *to, uint64_t begin_ps, uint64_t free_ps,
                             uint64_t crossed_ps)
{
    const uint64_t took_ps = later(free_ps, crossed_ps) - begin_ps, held_ps = later(free_ps, crossed_ps) - free_ps;
    from->egress_held.took_ps += took_ps;
    from->egress_held.held_ps += held_ps;
    to->ingress_held.took_ps += took_ps;
    to->ingress_held.held_ps += held_ps;
}

static inline struct world_rank *rank_of(struct fabric *f) { return fabric_container_of(f, struct world_rank, fabric); }
static inline struct world_rank *worker_rank(const struct world_worker *ww) { return rank_of(ww->worker->fabric); }

/* Returns a worker's struct rest, which is all zero at first.  world_rest_begin() makes it (words.c). */
void world_rest_begin(struct world_worker *ww);
static inline struct rest *worker_rest(struct world_worker *ww)
{
    if (!ww->rested) world_rest_begin(ww);
    return &worker_rank(ww)->rest[ww->worker->index];
}

static inline struct turns *worker_turns(const struct world_worker *ww)
{
    return &worker_rank(ww)->turns[ww->worker->index];
}

static inline uint64_t worker_staged_ps(struct world_worker *ww) { return ww->rested ? worker_rest(ww)->staged_ps : 0; }

/* GPU: when the worker's warp 0 is done with its work, some of which the other warps may not have had. */
static inline uint64_t worker_first_ps(struct world_worker *ww) { return ww->rested ? worker_rest(ww)->first_ps : 0; }

/* Makes room for one more entry.  It leaves little to spare, because large worlds have millions of such arrays. */
static inline void *entries_grow(void *entry, uint32_t count, uint32_t *max, size_t size_bytes)
{
    if (count < *max) return entry;
    *max += *max / 8 + 16;
    return memory_grow(entry, *max, size_bytes);
}

/* The loop of an operation; NULL: the operation names no site.  If the operation's kernel gives sizes, the first
 * operation of a launch with these sizes makes the loop. */
static inline const struct loop *world_loop(struct world_rank *rank, uint8_t site, struct site_given *given)
{
    if (!site) return NULL;
    if (!given) return &rank->world->loop[site];
    if (given->launch != rank->launch) {
        rank->loop = entries_grow(rank->loop, rank->loop_count, &rank->loop_max, sizeof rank->loop[0]);
        given->launch = rank->launch;
        given->slot = rank->loop_count++;
        loops_make(rank->world->loops, (enum site)site, given->size, &rank->loop[given->slot]);
    }
    assert(given->slot < rank->loop_count && rank->loop[given->slot].number == site);
    return &rank->loop[given->slot];
}

/* Whether the stepped worker's operation at this site begins to move rows one by one (stepping.h). */
static inline bool world_rows_begin(const struct world_rank *rank, uint8_t site)
{
    return rank->world->loop[site].one_by_one && !rank->now.worker->in_turn;
}

/* The same for a store.  One row is stored at once, without the worker's struct turns. */
static inline bool world_store_begins(const struct world_rank *rank, const struct fabric_write *write)
{
    return write->rows > 1 && world_rows_begin(rank, write->site);
}

/* Notes that something comes to the rank at time_ps. */
static inline void world_arrival_note(struct world_rank *rank, uint64_t time_ps)
{
    rank->arrived_ps = later(rank->arrived_ps, time_ps);
}

/* Schedules a step of the worker at time_ps because of an event at from_ps.  The step is later if the worker's earlier
 * work ends later.  Does nothing if settled_ps says that the event does not move the next step. */
static inline void world_worker_wake(struct sim *sim, struct world_worker *ww, uint64_t from_ps, uint64_t time_ps)
{
    if (ww->settled_ps <= from_ps) return;
    const uint64_t step_ps = later(time_ps, ww->cursor_ps);
    ww->settled_ps = from_ps;
    if (!sim_event_pending(&ww->event)) sim_schedule_at(sim, &ww->event, step_ps);
    else if (sim_event_time_ps(&ww->event) > step_ps) sim_reschedule_at(sim, &ww->event, step_ps);
}

/* The time that work of duration_ps takes on this rank's GPU or core, which may be slowed. */
static inline uint64_t rank_slowed_ps(const struct world_rank *rank, uint64_t duration_ps)
{
    return rank->slow == WORLD_SLOW_ONE ? duration_ps : duration_ps * rank->slow / WORLD_SLOW_ONE;
}

/* Makes the thread of the host that serves a rank's queue work for service_ps from from_ps on.  Returns when it is
 * done. */
static inline uint64_t world_thread_reserve(struct world_rank *rank, uint16_t queue, uint64_t from_ps,
                                            uint64_t service_ps)
{
    const uint32_t threads = rank->world->transport.threads;
    const uint64_t done_ps = port_reserve(&rank->proxy[queue % threads], from_ps, service_ps, 0);
    rank->posting.busy_ps += service_ps / threads;
    rank->posting.free_ps = later(rank->posting.free_ps, done_ps);
    return done_ps;
}

#endif
