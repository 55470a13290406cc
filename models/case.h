/* case.h - a case: all of a user's options for one run of kernels.
 *
 * One table of options (name, type, default, help) serves the command lines of simulate and replay and the columns of
 * validate's CSV files, so that a word means the same everywhere.  Names follow the public test scripts.
 *
 * Knows sources of routing (trace, generator, traffic matrix); knows no world. */
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

/* Numbers that are 0 and texts that are NULL get their default when the case is used (case_resolved()).  A copy is an
 * assignment, because texts are interned (g_intern_string()). */
struct case_options {
    const char *kernel; /* "ll", "normal", "alltoallv", ...: the table in case.c has all */
    const char *matrix; /* alltoallv: a file of messages, "uniform:65536", ...; NULL: the routing's messages */
    const char *size;   /* bytes of a block (allgather, reducescatter), of all data of a rank (allreduce) or of a
                         * message (p2p) */
    uint32_t messages, in_flight;
    const char *algorithm;             /* allgather: "hybrid", "ring", "leader"; allreduce: "ring", "tree" */
    const char *nccl;                  /* NCCL's version: "2.29", "2.28" */
    const char *deepgemm;              /* DeepGEMM's version: "2026-06", "2026-04" */
    const char *protocol;              /* NCCL's protocol: "ll", "ll128", "simple" */
    const char *issue;                 /* p2p: "kernel", "host", "copy", "nccl" */
    const char *compute, *compute_sms; /* a load on the GPUs while a kernel runs: its kind and size, as --compute
                                        * takes them; its SMs, as "A:B" */
    uint32_t num_tokens, hidden, num_topk, num_experts, num_topk_groups, num_ranks, ranks_per_node;
    uint32_t num_groups; /* groups of experts, of which a token uses num_topk_groups; no option: the net of a step says
                          * it.  0: the experts of a node are a group */
    const char *tokens_per_rank;                              /* how many tokens each rank has, if not all have the
                                                               * same number: "4096|2048|..." */
    const char *dtype;                                        /* number format of dispatch: "bf16", "fp8" */
    bool expand, single_reduction, direct, cpu_sync, overlap; /* options of V2 kernels */
    const char *api;                                          /* Hybrid-EP: "hybrid-ep", or NULL */
    bool nvlink_disabled, hook, logfmt, zero_copy, cached, weights, round_scale, ue8m0, worst_tokens;
    const char *flush; /* low latency: caches before a call: "warm" (also NULL), "cold" */
    uint32_t num_sms, num_warps, rdma_sms, intermediate, num_bias, expert_alignment;
    uint32_t nvl_chunk, rdma_chunk, nvl_buffer, rdma_buffer; /* chunks and buffers of dispatch, in tokens; 0: the
                                                              * recommended sizes */
    uint32_t combine_nvl_chunk, combine_rdma_chunk, combine_nvl_buffer, combine_rdma_buffer;
    const char *mask_timeout; /* low latency: how long a rank may keep another waiting before it is masked, as
                               * "100us"; NULL: no rank is masked */
    const char *fail;         /* "1@dispatch|3@combine": ranks that fail in their first call of these kernels */
    uint32_t masked_places;   /* how many top-k places of a rank go to no expert */
    uint64_t seed;
    const char *data;    /* the values of tokens: "pattern", "constant", "random" */
    const char *routing; /* how random routing is drawn: "uniform", "zipf:1.2", ... (traces/generate.h) */
    const char *cluster; /* path of a cluster file or name of a shipped one */
    const char *launch;  /* when a rank launches a kernel: together with all ranks ("barrier", also NULL), or when
                          * its own previous kernel has ended ("stream", "loop") */
    const char *backend; /* a name in models/backends.ini; NULL: the backend of the cluster file */
    const char *loops;   /* path of a sheet of loops (models/kernels/loops.h) that replaces shipped lines, or NULL */
    const char *fault;   /* edits of the machine (models/predict/fault.h), or NULL */
    const char *arrival, *slow; /* how late ranks launch, as "uniform:20us"; which ranks are slow, as "3:2x"
                                 * (models/predict/launches.h); or NULL */
    const char *trace, *trace_weights;
    uint32_t step, layer;
    const char *traffic;   /* tokens from each source to each rank or expert, or NULL: "1|2;3|4", where ';' divides
                            * sources and '|' targets */
    const char *placement; /* how experts are placed on ranks, or NULL */
    bool even; /* the routing, once experts are placed, is evened out (traces/routing_even.h); no option sets this */
    const char *deepep; /* the version of DeepEP: "a84a248", "2025-04-16", "before-ibgda"; NULL: that of PROTOCOLS.md */
    uint64_t given[2];  /* bits of the options that case_set() has set: case_option_given() */
};

/* Sets every option to its default.  The caller then sets each option that is given with case_set(). */
void case_init(struct case_options *c);

/* Sets the option called name from text.  In the name, '_' may replace dashes, and dashes and "num-" may be left
 * out. "num-processes", the name in DeepEP's tests, sets ranks-per-node, and num-ranks if that is not set. False and
 * *error if the name is unknown, or the value is malformed or out of range. */
bool case_set(struct case_options *c, const char *name, const char *text, GError **error);
bool case_has(const char *name);
/* The table's name of the option that case_set() finds by this name; NULL if there is none. */
const char *case_option_find(const char *name);
/* The option name that is most similar to a misspelt name, with or without its "num-".  NULL if none is similar. */
const char *case_option_nearest(const char *name);

/* The name at the index in the table, such as "num-tokens"; NULL after the last. */
const char *case_option_name(uint32_t index);
/* Whether the option has been set, even to its default. */
bool case_option_given(const struct case_options *c, const char *name);
/* Whether the value of the option at this index may name a file. */
bool case_option_names_file(uint32_t index);
/* Whether a kernel has the option at this index.  If so, the kernel's records have it, too. */
bool case_option_applies(uint32_t index, const char *kernel);
/* False and *error if an option was given another value than its default, and the case's kernel does not have it, or
 * none of the NULL-terminated kernels has it.  case_job() asks this of every case. */
bool case_kernel_takes(const struct case_options *c, GError **error);
bool case_kernels_take(const struct case_options *c, const char *const *kernels, GError **error);
/* For commands that compare kernels: sets each option that the case's kernel does not have to its default, except
 * options of work (case_option_is_work()).  A kernel that cannot do the work is refused. */
void case_settings_drop(struct case_options *c);
/* Whether records that differ in the option at this index are of different cases.  c must be as case_resolved()
 * leaves it. */
bool case_option_makes_case(uint32_t index, const struct case_options *c);
/* Whether the named option says what there is to do (tokens, experts, routing, a trace), not how and where it is
 * done (kernels and their settings, placement, machine). */
bool case_option_is_work(const char *name);
/* The value of the option at this index, in the form that case_set() takes.  NULL: not set.  Free with g_free(). */
char *case_option_text(const struct case_options *c, uint32_t index);

/* The table as topics of command_line_parse(), which write into *c.  They are valid as long as c and until the next
 * call. */
enum { CASE_TOPICS = 6 };
void case_topics(struct case_options *c, struct command_topic topic[CASE_TOPICS]);

/* Returns a copy of c with the defaults that depend on other options: tokens, experts and data by kernel, ranks by
 * traffic matrix or by the list of tokens.  Values that a trace or a matrix file decides stay 0.  The functions below
 * resolve a copy of c themselves. */
struct case_options case_resolved(const struct case_options *c);

/* For callers that need a single option.  These functions return the value that the case gives.  If it gives none, they
 * return the value that case_resolved() gives. */
const char *case_kernel(const struct case_options *c);
bool case_kernel_in(const struct case_options *c, const char *names); /* names is a list such as "ll|normal|v2" */
/* Whether --disable-nvlink lets RDMA reach peers of the same node.  Normal kernels still map their peers' memory, by
 * PCIe. */
bool case_peers_by_rdma(const struct case_options *c);
uint32_t case_ranks(const struct case_options *c); /* this function reads no file: if only a trace or a matrix file
                                                    * gives the ranks, it returns 8 */
uint32_t case_tokens(const struct case_options *c);
enum { CASE_SMS_DEFAULT = 24 }; /* num-sms of the normal kernels' public tests; many other kernels use the whole GPU */
enum { CASE_SMS_NCCL_HT = 16 }; /* HYBRIDEP_MAX_NUM_SMS_PER_RANK of NCCL EP; Hybrid-EP between nodes */
enum { CASE_SMS_HYBRID_EP = 32 }; /* num_sms_dispatch_api in one domain (hybrid_ep_buffer.py at 29b4d6f) */
enum { CASE_SMS_MORI = 80 };      /* block_num, the number of blocks, in MoRI's configuration */

/* Whether the cluster's GPUs are Blackwell's; false without a cluster. */
bool case_blackwell(const struct cluster *cluster);

/* A sentence for the user about a default that may surprise.  NULL if there is none.  Free with g_free(). */
char *case_note(const struct case_options *c);

/* The number of ranks of a node: the user's number; if there is none, gpus; or, if gpus is 0, the number of all ranks.
 * The result is 0 if none of them is known; case_resolved() then takes 8.  case_node_settle() sets the number in c. */
uint32_t case_node_ranks(const struct case_options *c, uint32_t gpus);
void case_node_settle(struct case_options *c, uint32_t gpus);
/* Sets the defaults that depend on the simulated cluster: ranks-per-node, and the backend if the user gave none.  In
 * early versions of DeepEP (c->deepep) low latency uses the NIC alone, and "ibrc", a host's thread, posts for normal
 * kernels.  V2 gets "gdaki" where the cluster's warps post to a ConnectX.  NCCL's rings and trees get "nccl", unless
 * ranks run on a host. */
void case_cluster_settle(struct case_options *c, const struct cluster *cluster);
/* The version (models/moe/moe_deepep.h) that a commit, a date or a name stands for; 0 if it stands for none. */
uint32_t case_deepep_version(const char *text);

/* The case's routing: from the trace, the traffic matrix or the generator.  Free with routing_free(). */
bool case_routing(const struct case_options *c, struct routing *routing, GError **error);
/* Whether the routings of a and b are equal, so that one can be used for the other. */
bool case_routing_same(const struct case_options *a, const struct case_options *b);

/* Fills the options of the protocol and checks them (moe_options_refuse()). device_sms is the GPU's number of SMs: the
 * limit of all kernels, and the default of those that use the whole GPU. device_sms is 0 if ranks are processes of a
 * host, which have no SMs to count. */
bool case_moe_options(const struct case_options *c, const struct routing *routing, uint32_t device_sms,
                      struct moe_options *options, GError **error);

/* The device_sms of a rank on a host with `cpus` CPUs: one for each CPU, rounded down to an even number because normal
 * kernels need pairs.  It is at least 2, and at least num-sms: SMs take turns on a CPU. */
uint32_t case_host_sms(const struct case_options *c, uint32_t cpus);

/* Sets the chunks and rings of the normal kernels in o: those that the case gives, and for the others those that are
 * recommended for o's number of ranks. */
void case_chunks_settle(const struct case_options *c, struct moe_options *o);
/* Writes o's chunks and rings into header lines of the record. */
void case_chunks_record(const struct moe_options *o, struct record *record);

/* The load of a case's kernels, by their family (case_kernel.c). */
struct case_load {
    struct routing routing; /* the load of ll, normal and v2 */
    struct edges edges;     /* the load of alltoallv */
    uint32_t *rows;         /* NCCL's collectives: bytes or tokens of each rank's block, if they differ; else NULL */
};
/* Reads the load of the case from its trace, or draws it.  Free with case_load_free(). */
bool case_load(const struct case_options *c, struct case_load *load, GError **error);
void case_load_free(struct case_load *load);
/* Whether the loads of a and b are equal, so that one can be used for the other. */
bool case_load_same(const struct case_options *a, const struct case_options *b);
/* The job of the case's kernels on `load`, which must outlive it.  cluster NULL: ranks are processes of this host.
 * device_sms: see case_moe_options().  Returns NULL and sets *error if the kernels refuse the case.  Free with
 * g_free(). */
struct kernel_job *case_job(const struct case_options *c, const struct case_load *load, const struct cluster *cluster,
                            uint32_t device_sms, GError **error);
/* Adds header lines with the numbers that the load and the job have decided: ranks, tokens, experts, SMs, messages. */
void case_job_record(const struct case_options *c, const struct kernel_job *job, struct record *record);
/* A text that is equal for equal loads.  Ranks compare it before they run.  Free with g_free(). */
char *case_load_digest(const struct case_options *c, const struct case_load *load);
/* The name of the bandwidth that the kernel's public tests print. */
const char *case_rate_metric(const struct case_options *c);

/* The ranks of a set as "1|3|5", or "none" for an empty set.  set[rank] is 1 if the set has the rank.  Free with
 * g_free(). */
char *case_ranks_text(const uint8_t *set, uint32_t ranks);
/* If an option names a file that is not in the current folder but in `folder`, replaces its path by that of the file in
 * `folder`.  `folder` is the folder of the table that gives the options. */
void case_files_resolve(struct case_options *c, const char *folder);
/* The digest (traces/digest.h) of the file that an option's value names.  NULL if it names no file, a cluster (which
 * has a digest of its own), or a file that can be read only once.  Free with g_free(). */
char *case_file_digest(uint32_t index, const char *value);
/* Writes header lines of the record: every option, with defaults resolved; which options make the case, and which make
 * the work; and digests of the files that options name, such as "trace-digest". */
void case_record(const struct case_options *c, struct record *record);

#endif
