/* case.h - a case: all of a user's options for one run of dispatch and combine.
 *
 * One table of options (name, type, default, help) serves the command lines of simulate and replay and the
 * columns of validate's CSV files, so that a word has one meaning everywhere.  Names follow the public test
 * scripts.  Knows routing sources (trace, generator, traffic matrix); knows no world. */
#ifndef MODELS_CASE_H
#define MODELS_CASE_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include "models/cluster.h"
#include "models/kernel.h"
#include "models/moe/moe.h"
#include "reports/record.h"
#include "sim/command_line.h"
#include "traces/edges.h"
#include "traces/routing.h"

#define CASE_ERROR (g_quark_from_static_string("eptwin-case"))
enum case_error { CASE_ERROR_NAME, CASE_ERROR_VALUE };

/* Numbers that are 0 and texts that are NULL take their default when the case is used (case_resolve()). */
struct case_options {
    char *kernel; /* "ll", "normal", "v2", "alltoallv", "allgather", "reducescatter", "allreduce", "ag-rs", "p2p" */
    char *matrix; /* alltoallv: a file of messages, "uniform:65536", ...; NULL: of the routing */
    char *size;   /* allgather, reducescatter: of a block; allreduce: of a rank; p2p: of a message */
    uint32_t messages, in_flight;
    char *algorithm;             /* allgather: "hybrid", "ring", "leader"; allreduce: "ring", "tree" */
    char *protocol;              /* NCCL's: "ll", "ll128", "simple" */
    char *issue;                 /* p2p: "kernel", "host", "copy", "nccl" */
    char *compute, *compute_sms; /* time and SMs "A:B" of arithmetic that runs with a kernel */
    uint32_t num_tokens, hidden, num_topk, num_experts, num_topk_groups, num_ranks, ranks_per_node;
    char *tokens_per_rank;                            /* "4096|2048|...": where ranks differ */
    char *dtype;                                      /* of dispatch: "bf16", "fp8" */
    bool expand, single_reduction, cpu_sync, overlap; /* v2 */
    char *api;                                        /* v2: "hybrid-ep", or NULL */
    bool nvlink_disabled, hook, logfmt, zero_copy, cached, weights, round_scale, ue8m0, worst_tokens;
    uint32_t num_sms, num_bias, expert_alignment;
    uint32_t nvl_chunk, rdma_chunk, nvl_buffer, rdma_buffer; /* dispatch; 0: recommended */
    uint32_t combine_nvl_chunk, combine_rdma_chunk, combine_nvl_buffer, combine_rdma_buffer;
    char *mask_timeout;     /* "100us": low latency: ranks that keep others waiting longer are masked; NULL: none */
    char *fail;             /* "1@dispatch|3@combine": ranks that fail when they first come to that call */
    uint32_t masked_places; /* places of a rank that go to no expert */
    uint64_t seed;
    char *data;    /* "pattern", "constant", "random" */
    char *routing; /* how random routing is drawn: "uniform", "zipf:1.2", ... (traces/generate.h) */
    char *cluster; /* path of a cluster file */
    char *launch;  /* "barrier" before each kernel (NULL, too), or "stream", "loop": only where kernels have one */
    char *backend; /* a row of models/hardware/machine/transport.c, or NULL: as the cluster file says */
    char *loops;   /* path of a sheet of loops (models/kernels/loops.h) whose lines count, or NULL */
    char *fault;   /* edits of the machine (models/predict/fault.h), or NULL */
    char *arrival, *slow; /* "uniform:20us", "3:2x" (models/predict/launches.h), or NULL */
    char *trace, *trace_weights;
    uint32_t step, layer;
    char *traffic;     /* tokens from each source (;) to each rank or expert (|), or NULL */
    char *placement;   /* expert placement, or NULL */
    char *deepep;      /* which DeepEP: "a84a248", "2025-04-16", "before-ibgda"; NULL: the one of PROTOCOLS.md */
    uint64_t given[2]; /* of options that case_set() has set: case_option_given() */
};

/* All defaults; then case_set() for each option given.  Clear with case_clear(). */
void case_init(struct case_options *c);
void case_clear(struct case_options *c);
typedef struct case_options case_options;
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(case_options, case_clear)
/* A copy of its own; clear it as well. */
void case_copy(struct case_options *to, const struct case_options *from);

/* Sets the option called name from text.  Of the name, dashes may be '_' or left out, and so may "num-".
 * "num-processes", as DeepEP's tests call them: ranks-per-node, and num-ranks where that is not set.
 * Error: unknown name, bad or out-of-range value. */
bool case_set(struct case_options *c, const char *name, const char *text, GError **error);
bool case_has(const char *name);
/* The table's own name of an option that case_set() would find by this one; NULL: there is none. */
const char *case_option_find(const char *name);
/* The option nearest to a misspelt name; NULL: it resembles none.  "tokens" for "num-tokens"
 * counts as a name. */
const char *case_option_nearest(const char *name);

/* The table's names in order ("num-tokens"), NULL after the last. */
const char *case_option_name(uint32_t index);
/* Whether somebody has set it, be it to its default. */
bool case_option_given(const struct case_options *c, const char *name);
/* Whether its value may name a file. */
bool case_option_names_file(uint32_t index);
/* Whether that option means something to a kernel, so that its records have it. */
bool case_option_applies(uint32_t index, const char *kernel);
/* Whether records that differ in that option are of different cases; c as case_resolve() leaves it. */
bool case_option_makes_case(uint32_t index, const struct case_options *c);
/* Whether the option of that name says what there is to do (tokens, experts, routing, a trace) and not how and where it
 * is done (kernels and their settings, placement, machine). */
bool case_option_is_work(const char *name);
/* The value of that option as case_set() would take it; NULL: not set.  Free with g_free(). */
char *case_option_text(const struct case_options *c, uint32_t index);

/* The table as topics of command_line_parse(), writing into *c; valid while c is, until the next call. */
enum { CASE_TOPICS = 6 };
void case_topics(struct case_options *c, struct command_topic topic[CASE_TOPICS]);

/* Puts the defaults that depend on other options in place: tokens, experts and data by kernel, ranks and
 * tokens by traffic matrix.  Values that a trace decides stay 0 (all of it).  Done on a copy by the functions below. */
void case_resolve(struct case_options *c);

/* What a case comes to where it leaves that open: case_resolve() takes it; ask here for one value alone. */
const char *case_kernel(const struct case_options *c);
bool case_kernel_in(const struct case_options *c, const char *names); /* names: "ll|normal|v2" */
uint32_t case_ranks(const struct case_options *c);                    /* of a trace or a matrix: not known here, 8 */
uint32_t case_tokens(const struct case_options *c);
enum { CASE_SMS_DEFAULT = 24 }; /* of the public tests of the normal kernels; low latency takes the whole GPU */

/* A sentence about the defaults that were taken, for the user; NULL: none.  Free with g_free(). */
char *case_note(const struct case_options *c);

/* Says how many ranks a node has where the user did not: gpus, or all ranks where gpus is 0.
 * Where nobody knows those either, it is left to case_resolve(), which takes 8. */
void case_node_settle(struct case_options *c, uint32_t gpus);
/* Sets the defaults of a simulated cluster.  If c names a version of DeepEP, its behaviour is the default (low
 * latency by the NIC alone, normal kernels posted by a thread of the host). */
void case_cluster_settle(struct case_options *c, const struct cluster *cluster);
/* The version (models/moe/moe_deepep.h) that a commit, a date or a name means; 0: none. */
uint32_t case_deepep_version(const char *text);

/* The case's routing: from the trace, the traffic matrix or the generator.  Free with routing_free(). */
bool case_routing(const struct case_options *c, struct routing *routing, GError **error);
/* Whether the routings of a and b are equal, so that one may be used for the other. */
bool case_routing_same(const struct case_options *a, const struct case_options *b);

/* The protocol's options, checked (moe_options_refuse).  device_sms: of the GPU, the default of low latency and
 * the limit of all; 0 where ranks are processes of a host, which have no SMs to count. */
bool case_moe_options(const struct case_options *c, const struct routing *routing, uint32_t device_sms,
                      struct moe_options *options, GError **error);

/* How many SMs a rank on a host of so many CPUs may use, for device_sms: as many as there are CPUs, made even because
 * normal kernels want pairs, and at least 2 (CPUs take turns); or as many as the case says. */
uint32_t case_host_sms(const struct case_options *c, uint32_t cpus);

/* Chunks and rings of the normal kernels: those recommended for o's ranks, then what the case says. */
void case_chunks_settle(const struct case_options *c, struct moe_options *o);
/* Writes them into the record's header lines. */
void case_chunks_record(const struct moe_options *o, struct record *record);

/* The load of a case's kernels, by their family (case_kernel.c). */
struct case_load {
    struct routing routing; /* ll, normal, v2 */
    struct edges edges;     /* alltoallv */
};
/* Reads or draws it.  Free with case_load_free(). */
bool case_load(const struct case_options *c, struct case_load *load, GError **error);
void case_load_free(struct case_load *load);
/* Whether the loads of a and b are equal, so that one may be used for the other. */
bool case_load_same(const struct case_options *a, const struct case_options *b);
/* How its kernels work on load, which must outlive the job.  cluster NULL: ranks are processes of this host.
 * device_sms: see case_moe_options().  NULL and *error where the kernels refuse the case.  Free with g_free(). */
struct kernel_job *case_job(const struct case_options *c, const struct case_load *load, const struct cluster *cluster,
                            uint32_t device_sms, GError **error);
/* Adds what load and job decided to the header lines: numbers of ranks, tokens, experts, SMs, messages. */
void case_job_record(const struct case_options *c, const struct kernel_job *job, struct record *record);
/* A text that is equal for equal loads.  Ranks compare it before they run.  Free with g_free(). */
char *case_load_digest(const struct case_options *c, const struct case_load *load);
/* The bandwidth that the public tests of the kernel print. */
const char *case_rate_metric(const struct case_options *c);

/* The ranks of a set ([ranks], 1: in it) as "1|3|5", or "none".  Free with g_free(). */
char *case_ranks_text(const uint8_t *set, uint32_t ranks);
/* Files that options name and that are not found from here are looked for in folder: a table's own. */
void case_files_resolve(struct case_options *c, const char *folder);
/* The digest (traces/digest.h) of the file that an option's value names, but for a cluster, which has its own.  NULL
 * where it names none, or one that cannot be read twice.  Free with g_free(). */
char *case_file_digest(uint32_t index, const char *value);
/* Writes every option into the record's header lines, defaults resolved, and which of them make the case and the work;
 * of files that they name their digests, as "trace-digest". */
void case_record(const struct case_options *c, struct record *record);

#endif
