/* kernel.h - a kernel family (models/moe, models/coll), as commands and worlds see it.
 *
 * A job is one family's kernels with their options and their load, equal on all ranks.  A rank's share of it is a
 * struct kernel_rank on a connected fabric.  Its phases are kernels: sets of workers that a world steps to the end.
 * Commands and worlds run every family through this table and know none by name. */
#ifndef MODELS_KERNEL_H
#define MODELS_KERNEL_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include "models/fabric.h"

/* Returns zeroed memory for count things of size_bytes, at least one byte.  If memory runs out, the process ends with a
 * message, as with sim/memory.h, which kernels do not include. */
static inline void *kernel_alloc(uint64_t count, uint64_t size_bytes)
{
    void *memory = calloc(count ? count : 1, size_bytes ? size_bytes : 1);
    if (memory) return memory;
    fprintf(stderr, "eptwin: out of memory (%llu x %llu bytes)\n", (unsigned long long)count,
            (unsigned long long)size_bytes);
    _Exit(EXIT_FAILURE);
}

/* Spreads a number's bits evenly (the finaliser of splitmix64), so that any element of an input can be computed without
 * the others. */
static inline uint64_t kernel_hash(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* Returns from the calling function with a reason for refusing options, in printf's form.  Uses the caller's
 * variables text and text_size.  It is for a family's check of options, which returns NULL if it refuses nothing. */
#define KERNEL_REFUSE(...) return snprintf(text, text_size, __VA_ARGS__), text

/* A launch: the workers of one kernel on one rank. */
struct kernel_launch {
    struct kernel_rank *rank; /* kernel_rank_launch() fills it */
    const char *phase;        /* name of the phase: "dispatch", "combine", "notify", ... */
    struct fabric_worker **worker;
    struct fabric_worker ***remade; /* the rank's pointer to the list of workers, if each launch makes a new list;
                                     * otherwise NULL */
    uint32_t worker_count;
    uint8_t site;     /* enum site of the kernel; SITE_NONE: its sheet says nothing of the whole kernel */
    bool leaves;      /* the kernel ends before its data have arrived, and a later phase waits for them */
    bool follows;     /* the kernel is launched before the previous kernel's end, as soon as all SMs of that kernel
                       * allow it (programmatic launch), and then waits for that end */
    const char *span; /* the name of the span that ends with this kernel; NULL: no span ends here.  A span starts with
                       * the last kernel that has `follows` unset */
};

/* Adds a worker to a launch whose list has room for it. */
static inline void kernel_launch_add(struct kernel_launch *launch, struct fabric *fabric, struct fabric_worker *w,
                                     const struct worker_role *role, uint32_t sm, uint32_t warps)
{
    assert(warps > 0 && warps <= UINT8_MAX);
    w->fabric = fabric;
    w->role = worker_role_number(&fabric->roles, role);
    w->index = launch->worker_count;
    w->sm = (uint16_t)sm;
    w->warps = (uint8_t)warps;
    launch->worker[launch->worker_count++] = w;
}

/* What a rank moved in a phase of its last iteration, in the units of the family's public tests. */
struct kernel_traffic {
    uint64_t logical_rdma_bytes, logical_nvl_bytes; /* logical bytes that the phase moves, including local traffic */
    uint64_t tokens_sent, tokens_received;          /* rows of tokens; 0 if the phase has none */
    uint64_t messages; /* how many messages the phase's time is divided by; 0: a mean time of a message would say
                        * nothing */
    bool gets;         /* the rank gets these bytes from peers that take no part */
};

/* The steps of a library's call around a kernel, on the same stream. */
struct kernel_steps {
    const char *call;        /* the name of the call, which is the kernel together with these steps ("dispatch_call");
                              * NULL: there is no call */
    uint64_t gathered_bytes; /* bytes of each rank that all ranks gather and read before the kernel; 0: none */
    bool host_waits;         /* the host waits for the gathered values before it launches the kernel */
    uint64_t copied_bytes;   /* bytes copied within the GPU before and after the kernel, in `copies` copies */
    uint32_t copies;
};

/* One output tensor, for comparisons between worlds.  The rank owns the pointer. */
struct kernel_tensor {
    const char *name;
    const void *data;
    uint64_t size_bytes;
};

/* Copies those of `all` that are not empty, at most max.  Returns their number. */
static inline uint32_t kernel_tensors_give(const struct kernel_tensor *all, size_t size, struct kernel_tensor *tensor,
                                           uint32_t max)
{
    uint32_t count = 0;
    for (size_t i = 0; i < size && count < max; i++)
        if (all[i].size_bytes) tensor[count++] = all[i];
    return count;
}

struct kernel_job;
struct routing;

/* What the measured time of a phase contains in addition to its kernel. */
enum kernel_call {
    KERNEL_BARE,           /* nothing */
    KERNEL_WAITED,         /* the host's call, which waits for the kernel's end */
    KERNEL_COPIED,         /* the host's call, which waits for the end of a copy by a copy engine */
    KERNEL_STREAMED,       /* nothing: the host fills streams, which run the phase.  Nothing is launched, and the host
                            * does not wait */
    KERNEL_PROCESS,        /* nothing: a process of the host runs the phase by calls of MPI */
    KERNEL_PROCESS_COPIED, /* a copy of the process's own part by a copy engine, which the process awaits before its
                            * calls of MPI */
    KERNEL_NCCL, /* NCCL's own steps.  PyTorch's call does not wait for them; if the call takes longer, its time is
                  * the measured one */
};

/* The head of a piece of memory that a rank keeps.  The piece comes right after it. */
struct kernel_memory {
    _Alignas(16) struct kernel_memory *next;
};

/* A rank's state.  Each family's own rank struct begins with it. */
struct kernel_rank {
    const struct kernel_job *job; /* kernel_rank_new() fills it */
    struct kernel_memory *memory;
};

/* Returns zeroed memory as kernel_alloc() does, and keeps it as long as the rank.  rank is a struct that begins with
 * a struct kernel_rank. */
static inline void *kernel_keep(void *rank, uint64_t count, uint64_t size_bytes)
{
    struct kernel_rank *keeper = rank;
    struct kernel_memory *memory = kernel_alloc(1, sizeof *memory + count * size_bytes);
    memory->next = keeper->memory;
    keeper->memory = memory;
    return memory + 1;
}

/* Frees memory that the rank keeps.  NULL does nothing. */
static inline void kernel_drop(void *rank, void *dropped)
{
    struct kernel_memory **at = &((struct kernel_rank *)rank)->memory;
    while (*at && *at + 1 != dropped) at = &(*at)->next;
    if (!*at) return;
    struct kernel_memory *next = (*at)->next;
    free(*at);
    *at = next;
}

struct kernel_family {
    void (*needs)(const struct kernel_job *job, bool payload, struct fabric_needs *needs);
    /* The names of the phases of one iteration, in launch order, with NULL at the end.  phases is NULL if they depend
     * on the job; then phase_count() and phase_name() give them.  All ranks launch the same phases. */
    const char *const *phases;
    uint32_t (*phase_count)(const struct kernel_job *job);
    const char *(*phase_name)(const struct kernel_job *job, uint32_t phase);
    /* Makes a rank's state on a connected fabric.  The state comes from kernel_alloc(), and what it points to from
     * kernel_keep().  job and fabric must outlive it. */
    struct kernel_rank *(*rank_new)(const struct kernel_job *job, struct fabric *fabric);
    /* Prepares phase for its next launch and returns it.  The rank owns it, and it is valid until the next call.
     * Phases must be launched in order, iteration after iteration.  A rank may be ahead of its peers.  Without
     * payload the phases of a loop (begins_loop) may be launched several times before the phases that follow. */
    struct kernel_launch *(*launch)(struct kernel_rank *rank, uint32_t phase);
    void (*traffic)(const struct kernel_rank *rank, uint32_t phase, struct kernel_traffic *traffic);
    /* Writes the outputs of the last iteration in a canonical order, at most max, and returns their number.  Needs a
     * fabric with payload. */
    uint32_t (*outputs)(struct kernel_rank *rank, struct kernel_tensor *tensor, uint32_t max);
    /* Returns how many checks of the last iteration's outputs failed.  text gets the first failure.  Needs a fabric
     * with payload. */
    uint32_t (*check)(const struct kernel_rank *rank, char *text, size_t text_size);
    /* Fills in the steps of a phase's call in the last iteration.  The caller has set *steps to zero.  NULL: no
     * phase has a call. */
    void (*steps)(const struct kernel_rank *rank, uint32_t phase, struct kernel_steps *steps);
    /* What the measured time of a phase contains.  NULL: KERNEL_BARE for all phases. */
    enum kernel_call (*called)(const struct kernel_job *job, uint32_t phase);
    /* Whether a phase begins a loop that public tests time.  NULL: one loop has all phases. */
    bool (*begins_loop)(const struct kernel_job *job, uint32_t phase);
    /* Whether the previous phase ends with a barrier of all ranks.  NULL: no phase does. */
    bool (*behind_barrier)(const struct kernel_job *job, uint32_t phase);
    /* Whether a rank takes no part in a phase of an iteration (counted from 0).  Such a rank has failed, as planned,
     * or has nothing to do, and its time says nothing.  NULL: all ranks take part in all phases. */
    bool (*absent)(const struct kernel_job *job, uint32_t rank, uint32_t phase, uint32_t iteration);
    /* Gives the rank another routing from its next iteration on.  Every rank must have as many tokens as before.  NULL:
     * a rank keeps its routing, but ranks of several routings may be made on one fabric and launched in turns. */
    void (*route)(struct kernel_rank *rank, const struct routing *routing);
    /* Whether the rank has masked a peer, so that it neither sends to the peer nor waits for it.  NULL: no rank ever
     * masks. */
    bool (*masks)(const struct kernel_rank *rank, uint32_t peer);
};

/* A job.  Each family's own job struct begins with it. */
struct kernel_job {
    const struct kernel_family *family;
    uint32_t ranks, ranks_per_node;
    uint32_t num_sms;         /* SMs that the kernels use */
    uint64_t mask_timeout_ps; /* how long a rank may keep another waiting before it is masked; 0: no rank is masked */
};

/* What kernels count at their launches, in the last words of a fabric: how many kernels were launched, and, for private
 * words that only grow, the values that these words will have once the launched kernels have ended.  The counts belong
 * to the fabric and not to a rank's state, because states of several routings may be launched on it in turns. */
enum kernel_count { KERNEL_LAUNCHES, KERNEL_GROWN, KERNEL_COUNTS = KERNEL_GROWN + 3 };
static inline uint64_t *kernel_counts(const struct fabric *f) { return f->words + f->word_count - KERNEL_COUNTS; }

static inline void kernel_job_needs(const struct kernel_job *job, bool payload, struct fabric_needs *needs)
{
    job->family->needs(job, payload, needs);
    needs->word_count += KERNEL_COUNTS;
}

static inline uint32_t kernel_phase_count(const struct kernel_job *job)
{
    const char *const *phases = job->family->phases;
    uint32_t count = 0;
    if (!phases) return job->family->phase_count(job);
    while (phases[count]) count++;
    return count;
}

static inline const char *kernel_phase_name(const struct kernel_job *job, uint32_t phase)
{
    return job->family->phases ? job->family->phases[phase] : job->family->phase_name(job, phase);
}

static inline bool kernel_absent(const struct kernel_job *job, uint32_t rank, uint32_t phase, uint32_t iteration)
{
    return job->family->absent && job->family->absent(job, rank, phase, iteration);
}

static inline enum kernel_call kernel_called(const struct kernel_job *job, uint32_t phase)
{
    return job->family->called ? job->family->called(job, phase) : KERNEL_BARE;
}

static inline bool kernel_behind_barrier(const struct kernel_job *job, uint32_t phase)
{
    return job->family->behind_barrier && job->family->behind_barrier(job, phase);
}

static inline bool kernel_begins_loop(const struct kernel_job *job, uint32_t phase)
{
    return phase == 0 || (job->family->begins_loop && job->family->begins_loop(job, phase));
}

static inline struct kernel_rank *kernel_rank_new(const struct kernel_job *job, struct fabric *fabric)
{
    struct kernel_rank *rank = job->family->rank_new(job, fabric);
    rank->job = job;
    return rank;
}

static inline void kernel_rank_free(struct kernel_rank *rank)
{
    while (rank && rank->memory) kernel_drop(rank, rank->memory + 1);
    free(rank);
}

/* Frees the list of a launch's workers.  A world that has taken the workers calls it, because large worlds have
 * millions of them. */
static inline void kernel_launch_forget_list(struct kernel_launch *launch)
{
    if (!launch->remade) return;
    kernel_drop(launch->rank, *launch->remade);
    *launch->remade = NULL;
}

static inline struct kernel_launch *kernel_rank_launch(struct kernel_rank *rank, uint32_t phase)
{
    struct kernel_launch *launch = rank->job->family->launch(rank, phase);
    launch->rank = rank;
    if (launch->worker_count) launch->worker[0]->fabric->kernel = launch->site;
    return launch;
}

static inline void kernel_rank_traffic(const struct kernel_rank *rank, uint32_t phase, struct kernel_traffic *traffic)
{
    *traffic = (struct kernel_traffic){ 0 };
    rank->job->family->traffic(rank, phase, traffic);
}

static inline void kernel_rank_steps(const struct kernel_rank *rank, uint32_t phase, struct kernel_steps *steps)
{
    *steps = (struct kernel_steps){ 0 };
    if (rank->job->family->steps) rank->job->family->steps(rank, phase, steps);
}

static inline uint32_t kernel_rank_outputs(struct kernel_rank *rank, struct kernel_tensor *tensor, uint32_t max)
{
    return rank->job->family->outputs(rank, tensor, max);
}

static inline uint32_t kernel_rank_check(const struct kernel_rank *rank, char *text, size_t text_size)
{
    return rank->job->family->check(rank, text, text_size);
}

static inline bool kernel_rank_masks(const struct kernel_rank *rank, uint32_t peer)
{
    return rank->job->family->masks && rank->job->family->masks(rank, peer);
}

#endif
