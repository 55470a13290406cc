/* case.c - the table of options of a case, for command lines and CSV columns.
 *
 * Knows names, types, ranges and defaults.  Knows no routing, no protocol and no world. */
#include "models/case_family.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>
#include "sim/error.h"
#include "sim/nearest.h"
#include "sim/text.h"
#include "traces/edges_make.h"

/* The roles of an option.  Other tables and lists of options are derived from them. */
enum field_flag {
    /* the option is part of what defines a case: records that differ in it are of different cases (case_record()).
     * Options of the machine lack this flag, and so do options that say when ranks begin, because predictions that
     * explain one measurement differ in these options. */
    MAKES = 1,
    ROUTES = 2, /* the case's load depends on the option (case_routing_same()) */
    DRAWS = 4,  /* the option matters only if routing is drawn: with a trace it does not define the case */
    FILES = 8,  /* the option's value names a file, perhaps as "WORD:FILE" or "FILE@LAYERS" (case_files.c) */
    WORK = 16,  /* the option says what there is to do, not how it is done.  Results that differ in it are of
                 * different work, so none of its values is best (case_option_is_work()) */
    OPEN = 32,  /* none of the option's choices is its default: kernels choose, or do without */
};

enum field_type { FIELD_COUNT, FIELD_SEED, FIELD_FLAG, FIELD_CHOICE, FIELD_TEXT };

struct field {
    const char *name;
    enum field_type type;
    unsigned flags; /* set of enum field_flag */
    size_t offset;
    uint32_t least, most; /* the least and the greatest number that a user may give (FIELD_COUNT) */
    uint32_t initial;     /* the value if the user gives none; 0, whatever `least` is: the value is decided later */
    const char *choices;  /* "a|b|c"; the first is the default unless OPEN */
    const char *argument; /* the placeholder of the value in --help */
    const char *help;
};

/* clang-format off: these are initialisers, not blocks */
#define AT(member) offsetof(struct case_options, member)
#define COUNT(name, member, flags, least, most, initial, help) \
    { \
        name, FIELD_COUNT, flags, AT(member), least, most, initial, NULL, "N", help \
    }
#define FLAG(name, member, flags, help) \
    { \
        name, FIELD_FLAG, flags, AT(member), 0, 0, 0, NULL, NULL, help \
    }
#define TEXT(name, member, flags, argument, help) \
    { \
        name, FIELD_TEXT, flags, AT(member), 0, 0, 0, NULL, argument, help \
    }
#define CHOICE(name, member, flags, choices, argument, help) \
    { \
        name, FIELD_CHOICE, flags, AT(member), 0, 0, 0, choices, argument, help \
    }
/* clang-format on */

#define COLL     "alltoallv|allgather|reducescatter|allreduce|ag-rs|p2p"
#define UNHOOKED "normal|v2|one-sided|two-sided|mori|mori-ll|mega-moe"
#define MOE      "ll|" UNHOOKED "|pplx|nccl-ll|nccl-ht|hybrid-ep"
/* Changes to DeepEP whose names stand for versions (models/moe/moe_deepep.h).  "before-NAME" stands for a version,
 * too. */
#define DEEPEPS  "zero-copy, ibgda, starts, ll-nvlink, bulk, heads, bulk-dispatch, bulk-combine, forwarders, logfmt, v2"

/* The name of ranks-per-node in DeepEP's tests.  It also sets the number of ranks if no other option gives it. */
static const struct field processes_alias = {
    "num-processes",
    FIELD_COUNT,
    0,
    AT(ranks_per_node),
    1,
    65535,
    0,
    NULL,
    "N",
    "As in DeepEP's tests: ranks per node, and in total unless --num-ranks is given"
};

static const struct field field_table[] = {
    CHOICE("kernel", kernel, MAKES | ROUTES, MOE "|" COLL, "NAME",
           "Kernels: ll (low latency, the default), normal (high throughput), v2, one-sided, two-sided "
           "(TensorRT-LLM's), mori, mori-ll (AMD's), mega-moe (DeepGEMM's, with the experts), pplx (pplx-garden's), "
           "nccl-ll, nccl-ht (NCCL EP's low latency and high throughput), hybrid-ep (of DeepEP's branch, until "
           "2025-12); or alltoallv, allgather, reducescatter, allreduce, ag-rs (NCCL's two), p2p"),
    TEXT("matrix", matrix, WORK | MAKES | ROUTES | FILES, "SPEC",
         "Alltoallv: a file of messages, sizes from each rank to each other (0|4KiB;1MiB|0), uniform:SIZE or "
         "lognormal:SIZE[:S] (default: what the routing sends)"),
    TEXT("size", size, WORK | MAKES, "SIZE",
         "Size of a rank's block for allgather and reducescatter (default 1 MiB; with NCCL also SIZE|SIZE|..., one per "
         "rank), of a rank's data for allreduce (1 MiB), of a message for p2p (64 KiB)"),
    COUNT("messages", messages, WORK | MAKES, 1, 1 << 24, 100, "P2p: messages per phase (default 100)"),
    COUNT("in-flight", in_flight, MAKES, 1, 4096, 64, "RDMA messages in flight per worker (default 64)"),
    CHOICE("algorithm", algorithm, MAKES | OPEN, "hybrid|ring|tree|leader", "NAME",
           "Allgather: hybrid (puts between nodes, stores within, the default), ring (NCCL's), or leader (one rank per "
           "node collects the others' data; host streams); allreduce: ring or tree (default: as NCCL chooses)"),
    CHOICE("protocol", protocol, MAKES | OPEN, "ll|ll128|simple", "NAME",
           "NCCL's protocol: allgather by ring, reducescatter, allreduce, ag-rs (default: as NCCL chooses)"),
    CHOICE("nccl", nccl, MAKES, "2.29|2.28", "VERSION",
           "Version of NCCL, which decides how messages and collectives are split: 2.29 (from 2.29.2 on, the default) "
           "or 2.28"),
    CHOICE(
        "issue", issue, MAKES, "kernel|host|copy|nccl", "NAME",
        "P2p: who issues a put: a kernel (the default), or host calls: one kernel each, a copy engine, NCCL; "
        "allgather: copy: host streams, for ring and leader; alltoallv: nccl: its sends and receives, within a node"),
    TEXT("compute", compute, WORK | MAKES, "LOAD",
         "Load beside the kernel: read:RATE, write:RATE or copy:RATE of GPU memory, with :l2 for data that stay in the "
         "L2 (copy:2600GB/s, all SMs together); gemm:ROWSxKxN or grouped:EXPERTSxROWSxKxN, repeated, in BF16 or with "
         ":fp8, several in turn with +; or a time of arithmetic (100us); kernels other than ll, normal and v2 run once "
         "more with it"),
    TEXT("compute-sms", compute_sms, MAKES, "A:B",
         "SMs A to B - 1 of that load (default: those that the kernel leaves free; if none, all, but ll needs "
         "--num-sms)"),
    COUNT("num-tokens", num_tokens, WORK | MAKES | ROUTES, 1, 1 << 20, 0,
          "Tokens per rank (default 128 for ll, else 4096; with a trace: at most this many)"),
    TEXT("tokens-per-rank", tokens_per_rank, WORK | MAKES | ROUTES, "N|N|...", "Tokens of each rank, if they differ"),
    COUNT("hidden", hidden, WORK | MAKES, 1, 1 << 20, 7168, "Hidden size: values per token (default 7168)"),
    COUNT("num-topk", num_topk, WORK | MAKES | ROUTES, 1, 256, 0, "Experts per token (default 8, or the trace's)"),
    COUNT("num-experts", num_experts, WORK | MAKES | ROUTES, 1, 1 << 20, 0,
          "Experts in total (default 288 for ll, else 256, or the trace's)"),
    COUNT("num-topk-groups", num_topk_groups, WORK | MAKES | ROUTES | DRAWS, 0, 65535, 0,
          "Nodes that a token's experts are on (default: at most 4; step: as in the model's gate)"),
    COUNT("num-ranks", num_ranks, WORK | MAKES | ROUTES, 1, 65535, 0,
          "Number of GPUs (default 8, or the trace's; with a trace: its first N)"),
    COUNT("ranks-per-node", ranks_per_node, MAKES | ROUTES, 1, 65535, 0,
          "GPUs connected by NVLink (default: the cluster's; replay: all ranks of a host)"),
    CHOICE("dtype", dtype, MAKES, "fp8|bf16", "NAME", "Format of dispatched tokens: fp8 (the default) or bf16"),
    FLAG("disable-nvlink", nvlink_disabled, MAKES, "Reach peers of the same node by RDMA, too; normal: by PCIe"),
    FLAG("hook", hook, MAKES, "Low latency, pplx: separate kernels for send and receive"),
    FLAG("logfmt", logfmt, MAKES, "Low latency combine: rows return as 10-bit logarithms if their values allow it"),
    CHOICE("flush", flush, MAKES, "warm|cold", "NAME",
           "Low latency: caches hold what the previous call left (warm, the default), or were flushed (cold); normal: "
           "no difference"),
    FLAG("zero-copy", zero_copy, MAKES, "Low latency, one-sided, mori combine: rows are already in the send buffer"),
    TEXT("mask-timeout", mask_timeout, MAKES, "TIME",
         "Low latency: mask ranks that keep others waiting longer than this (e.g. 100us; default: wait forever)"),
    TEXT("fail", fail, MAKES, "RANK@CALL|...",
         "Low latency: these ranks fail when they first reach dispatch, combine or clean (needs --mask-timeout)"),
    FLAG("cached", cached, MAKES,
         "Normal, v2: dispatch with a cached handle (normal: no top-k, as in the public tuning loop)"),
    FLAG("expand", expand, MAKES, "V2, nccl-ht, nccl-ll: dispatch writes one row per token and local expert"),
    FLAG("single-reduction", single_reduction, MAKES,
         "V2, one node: combine sums a token's rows only at its source rank"),
    FLAG("direct", direct, MAKES, "V2, several nodes: send each rank its own copy of a token (allow_hybrid_mode = 0)"),
    FLAG("cpu-sync", cpu_sync, MAKES,
         "V2: the host waits for the counts before it launches the second kernel of dispatch"),
    FLAG("overlap", overlap, MAKES, "V2: use only as many SMs as the links need, instead of at least 64"),
    CHOICE("api", api, MAKES | OPEN, "hybrid-ep", "NAME",
           "Hybrid-ep: also time the library's calls, with the copies and routing maps around the kernel"),
    FLAG("weights", weights, MAKES | ROUTES, "Normal combine: carry the top-k weights"),
    FLAG("round-scale", round_scale, MAKES, "FP8 scales are powers of two"),
    FLAG("ue8m0", ue8m0, MAKES, "FP8 scales are stored as exponents (needs --round-scale)"),
    FLAG("worst-tokens", worst_tokens, MAKES, "Normal: size outputs for the worst case, so the host does not wait"),
    COUNT(
        "num-sms", num_sms, MAKES, 1, 4096, 0,
        "SMs that the kernels use (default 24; nccl-ht: 16; hybrid-ep: 32 in one domain, 16 between domains; mori: 80; "
        "ll, nccl-ll, one-sided, two-sided, mega-moe, pplx: all of the GPU)"),
    COUNT("num-warps", num_warps, MAKES, 0, 16, 0,
          "Mori: warps per thread block; one block runs on each of num-sms (0: 8)"),
    COUNT("rdma-sms", rdma_sms, MAKES, 0, 4096, 0,
          "Mori between nodes: how many of num-sms serve other nodes (0: 2/3)"),
    COUNT("intermediate", intermediate, MAKES, 0, 65536, 0,
          "Mega-moe: values between the two layers of an expert (0: 2048)"),
    CHOICE("deepgemm", deepgemm, MAKES, "2026-06|2026-04", "DATE",
           "Mega-moe: version of DeepGEMM: 2026-06 (54e2261, the default) or 2026-04 (7f2a703, the first with this "
           "kernel)"),
    COUNT("num-bias", num_bias, MAKES, 0, 2, 0, "Normal combine: bias tensors, 0 to 2"),
    COUNT("expert-alignment", expert_alignment, MAKES, 1, 65536, 1,
          "Normal: tokens per expert are rounded up to multiples of this; nccl-ht, expand: rows, too"),
    COUNT("nvl-chunk", nvl_chunk, MAKES, 0, 65536, 0, "Dispatch: tokens in an NVLink chunk (0: as recommended)"),
    COUNT("rdma-chunk", rdma_chunk, MAKES, 0, 65536, 0, "Dispatch: tokens in an RDMA chunk (0: as recommended)"),
    COUNT("nvl-buffer", nvl_buffer, MAKES, 0, 65536, 0, "Dispatch: slots of an NVLink ring (0: as recommended)"),
    COUNT("rdma-buffer", rdma_buffer, MAKES, 0, 65536, 0, "Dispatch: slots of an RDMA ring (0: as recommended)"),
    COUNT("combine-nvl-chunk", combine_nvl_chunk, MAKES, 0, 65536, 0,
          "Combine: tokens in an NVLink chunk (0: as recommended)"),
    COUNT("combine-rdma-chunk", combine_rdma_chunk, MAKES, 0, 65536, 0,
          "Combine: tokens in an RDMA chunk (0: as recommended)"),
    COUNT("combine-nvl-buffer", combine_nvl_buffer, MAKES, 0, 65536, 0,
          "Combine: slots of an NVLink ring (0: as recommended)"),
    COUNT("combine-rdma-buffer", combine_rdma_buffer, MAKES, 0, 65536, 0,
          "Combine: slots of an RDMA ring (0: as recommended)"),
    { "seed", FIELD_SEED, WORK | MAKES | ROUTES | DRAWS, AT(seed), 0, 0, 0, NULL, "N",
      "Seed of all random draws (default 0)" },
    CHOICE("data", data, 0, "pattern|constant|random", "NAME",
           "Contents of tokens (default: pattern for ll, random with --logfmt, else constant)"),
    TEXT("routing", routing, WORK | MAKES | ROUTES, "NAME[:VALUE]",
         "Random routing: uniform (the default), zipf:S, zipf-packed:S, lognormal:S, imbalance:F, hot-expert:P, "
         "hot-rank:P, local, ring, round, strided, power-law:A, sampled-power-law:A"),
    COUNT("masked-places", masked_places, WORK | MAKES | ROUTES | DRAWS, 0, 1 << 24, 0,
          "Random routing: this many top-k entries of each rank select no expert (public low-latency test: 10)"),
    TEXT("cluster", cluster, FILES, "FILE", "The cluster to predict for"),
    TEXT("backend", backend, 0, "NAME",
         "Who posts to NICs; eptwin cluster backends lists the choices (default: as in the cluster file; v2, nccl-ll, "
         "nccl-ht, hybrid-ep on ConnectX: gdaki; pplx: fabric-lib; NCCL's rings and trees: nccl)"),
    TEXT("deepep", deepep, MAKES, "WHICH",
         "Version of DeepEP, if not the newest: a commit (a84a248), a date (2025-04-16), or before- followed by one "
         "of " DEEPEPS),
    TEXT("loops", loops, FILES, "FILE",
         "Loops of another build of the kernels: lines that replace those of eptwin kernel show"),
    TEXT("fault", fault, 0, "WHAT:WHERE EDIT|...",
         "Simulate faults: nic:n1.g3 rate=0.5, link:leaf0-spine1 down, rank:5 slow=2, qp: one, nics: all-on=0"),
    CHOICE("launch", launch, 0, "barrier|stream|loop", "NAME",
           "When simulated ranks launch a kernel: together (barrier, the default); as soon as their previous one ends "
           "(stream); or the same with dispatch and combine each repeated, as in public tests (loop)"),
    TEXT("arrival", arrival, FILES, "SPEC",
         "Launch delays of simulated ranks: uniform:20us, exp:5us, 0us|3us|..., file:PATH (one time per line), "
         "record:PATH (of a replay)"),
    TEXT("slow", slow, 0, "RANK:2x|...", "Slow ranks: their GPUs or cores take that many times as long"),
    TEXT("trace", trace, WORK | MAKES | ROUTES | FILES, "FILE", "Routing from a captured trace"),
    TEXT("trace-weights", trace_weights, WORK | MAKES | ROUTES | FILES, "FILE",
         "Gate weights of the trace, if they are in a separate file"),
    COUNT("step", step, WORK | MAKES | ROUTES, 0, UINT32_MAX - 1, 0,
          "Step of the trace, or of random routing (default 0)"),
    COUNT("layer", layer, WORK | MAKES | ROUTES, 0, UINT32_MAX - 1, 0,
          "Layer of the trace, or of random routing (default 0)"),
    TEXT("traffic", traffic, WORK | MAKES | ROUTES, "N|N;N|N",
         "Random routing with exactly this many tokens from each source (;) to each rank, or to each expert (|)"),
    TEXT("placement", placement, MAKES | ROUTES | FILES, "SPEC",
         "Placement of experts: identity (unchanged), file:PATH, greedy or eplb:REDUNDANT[:GROUPS]"),
};

enum { FIELDS = sizeof field_table / sizeof field_table[0] };
_Static_assert(FIELDS <= 128, "given has two words of 64 bits");

static bool field_is_text(const struct field *f) { return f->type == FIELD_TEXT || f->type == FIELD_CHOICE; }

static uint32_t *field_u32(const struct case_options *c, const struct field *f)
{
    assert(f->type == FIELD_COUNT && f->offset + sizeof(uint32_t) <= sizeof *c);
    return (uint32_t *)(void *)((char *)c + f->offset);
}

static uint64_t *field_u64(const struct case_options *c, const struct field *f)
{
    assert(f->type == FIELD_SEED && f->offset + sizeof(uint64_t) <= sizeof *c);
    return (uint64_t *)(void *)((char *)c + f->offset);
}

static bool *field_flag(const struct case_options *c, const struct field *f)
{
    assert(f->type == FIELD_FLAG && f->offset + sizeof(bool) <= sizeof *c);
    return (bool *)(void *)((char *)c + f->offset);
}

static const char **field_text(const struct case_options *c, const struct field *f)
{
    assert(field_is_text(f) && f->offset + sizeof(char *) <= sizeof *c);
    return (const char **)(void *)((char *)c + f->offset);
}

void case_init(struct case_options *c)
{
    *c = (struct case_options){ 0 };
    for (uint32_t i = 0; i < FIELDS; i++)
        if (field_table[i].type == FIELD_COUNT) *field_u32(c, &field_table[i]) = field_table[i].initial;
}

/* Whether a and b are equal except for '-' and '_', which scripts and spreadsheets mix. */
static bool name_matches(const char *a, const char *b)
{
    for (;;) {
        while (*a == '-' || *a == '_') a++;
        while (*b == '-' || *b == '_') b++;
        if (*a != *b) return false;
        if (*a == '\0') return true;
        a++;
        b++;
    }
}

/* Finds an option by its name, or by its name without "num-": tables of measurements have "tokens", "ranks", "topk". */
static const struct field *field_find(const char *name)
{
    for (uint32_t i = 0; i < FIELDS; i++) {
        const char *own = field_table[i].name;
        if (name_matches(own, name) || (strncmp(own, "num-", 4) == 0 && name_matches(own + 4, name)))
            return &field_table[i];
    }
    return NULL;
}

bool case_has(const char *name) { return field_find(name) != NULL; }

const char *case_option_find(const char *name)
{
    const struct field *f = field_find(name);
    return f ? f->name : NULL;
}

const char *case_option_nearest(const char *name)
{
    const char *names[2 * FIELDS + 1];
    uint32_t count = 0;
    for (uint32_t i = 0; i < FIELDS; i++) {
        names[count++] = field_table[i].name;
        if (g_str_has_prefix(field_table[i].name, "num-")) names[count++] = field_table[i].name + 4;
    }
    names[count] = NULL;
    g_autofree char *dashed = g_strdelimit(g_strdup(name), "_", '-');
    return nearest_find(dashed, names);
}

bool case_option_names_file(uint32_t index) { return field_table[index].flags & FILES; }

const char *case_option_name(uint32_t index) { return index < FIELDS ? field_table[index].name : NULL; }

static bool word_in(const char *words, const char *word)
{
    g_auto(GStrv) list = g_strsplit(words, "|", 0);
    return g_strv_contains((const char *const *)list, word);
}

/* Options that only some kernels have, and these kernels.  All kernels have the others. */
static const struct {
    const char *options, *kernels;
} only[] = {
    { "matrix", "alltoallv" },
    { "size", "allgather|reducescatter|allreduce|p2p" },
    { "messages", "p2p" },
    { "in-flight", COLL },
    { "algorithm", "allgather|allreduce" },
    { "protocol", "allgather|reducescatter|allreduce|ag-rs" },
    { "nccl", "alltoallv|allgather|reducescatter|allreduce|ag-rs" },
    { "issue", "p2p|allgather|alltoallv" },
    { "compute|compute-sms", "ll|normal|v2|alltoallv|allgather|reducescatter|allreduce|p2p" },
    { "num-tokens|tokens-per-rank|hidden|num-topk|num-experts|num-topk-groups|dtype|routing|masked-places|trace|"
      "trace-weights|step|layer|traffic|placement",
      MOE "|alltoallv|ag-rs" },
    { "data|round-scale", MOE },
    { "ue8m0", "ll|" UNHOOKED },
    { "hook", "ll|pplx|nccl-ll" },
    { "logfmt|mask-timeout|fail", "ll" },
    { "flush", "ll|normal" },
    { "zero-copy", "ll|one-sided|mori|mori-ll" },
    { "deepep", "ll|normal|v2" },
    { "cached|weights|num-bias", "normal|v2" },
    { "expert-alignment", UNHOOKED "|pplx|nccl-ht" },
    { "worst-tokens|nvl-chunk|rdma-chunk|nvl-buffer|rdma-buffer|combine-nvl-chunk|combine-rdma-chunk|"
      "combine-nvl-buffer|combine-rdma-buffer",
      "normal" },
    { "expand", "v2|nccl-ht|nccl-ll" },
    { "single-reduction|direct|cpu-sync|overlap", "v2" },
    { "api", "hybrid-ep" },
    { "num-warps|rdma-sms", "mori|mori-ll" },
    { "intermediate|deepgemm", "mega-moe" },
};

/* The kernels that have the option at this index: "a|b".  NULL: all have it. */
static const char *option_kernels(uint32_t index)
{
    assert(index < FIELDS);
    for (size_t i = 0; i < G_N_ELEMENTS(only); i++)
        if (word_in(only[i].options, field_table[index].name)) return only[i].kernels;
    return NULL;
}

bool case_option_applies(uint32_t index, const char *kernel)
{
    const char *kernels = option_kernels(index);
    return !kernels || word_in(kernels, kernel);
}

/* Whether the option was given another value than its default. */
static bool option_changed(const struct case_options *c, uint32_t index)
{
    if (!(c->given[index / 64] >> index % 64 & 1)) return false;
    struct case_options initial;
    case_init(&initial);
    const char *choices = field_table[index].choices;
    g_autofree char *value = case_option_text(c, index), *usual = case_option_text(&initial, index);
    if (!usual && choices && !(field_table[index].flags & OPEN)) usual = g_strndup(choices, strcspn(choices, "|"));
    return g_strcmp0(value, usual) != 0;
}

bool case_kernels_take(const struct case_options *c, const char *const *kernels, GError **error)
{
    for (uint32_t i = 0; i < FIELDS; i++) {
        if (!option_changed(c, i)) continue;
        const char *const *k = kernels;
        while (*k && !case_option_applies(i, *k)) k++;
        if (*k) continue;
        g_autofree char *found = g_strjoinv(", ", (char **)kernels);
        g_auto(GStrv) able = g_strsplit(option_kernels(i), "|", 0);
        char *last = able[g_strv_length(able) - 1];
        able[g_strv_length(able) - 1] = NULL;
        g_autofree char *others = g_strjoinv(", ", able);
        g_autofree char *expected = *others ? g_strconcat(others, " or ", last, NULL) : g_strdup(last);
        g_free(last);
        return error_input(error, "%s: expected kernel %s, found %s", field_table[i].name, expected, found);
    }
    return true;
}

bool case_kernel_takes(const struct case_options *c, GError **error)
{
    const char *const kernel[] = { case_kernel(c), NULL };
    return case_kernels_take(c, kernel, error);
}

void case_settings_drop(struct case_options *c)
{
    struct case_options initial;
    case_init(&initial);
    for (uint32_t i = 0; i < FIELDS; i++) {
        const struct field *f = &field_table[i];
        if (f->flags & WORK || case_option_applies(i, case_kernel(c))) continue;
        c->given[i / 64] &= ~(UINT64_C(1) << i % 64);
        if (f->type == FIELD_COUNT) *field_u32(c, f) = *field_u32(&initial, f);
        else if (f->type == FIELD_FLAG) *field_flag(c, f) = false;
        else *field_text(c, f) = NULL;
    }
}

/* If the user did not give num-sms, it is part of what defines a case only for the normal kernels.  For other
 * kernels the number may follow from the machine: low-latency kernels take all SMs, and V2 kernels those that the
 * links need. */
bool case_option_makes_case(uint32_t index, const struct case_options *c)
{
    const struct field *f = &field_table[index];
    if (f->offset == AT(data)) return c->logfmt; /* the size of LogFMT's rows depends on the data */
    if (!(f->flags & MAKES) || (f->flags & DRAWS && c->trace)) return false;
    return f->offset != AT(num_sms) || c->num_sms || strcmp(c->kernel, "normal") == 0;
}

bool case_option_is_work(const char *name)
{
    const struct field *f = field_find(name);
    return f && f->flags & WORK;
}

char *case_option_text(const struct case_options *c, uint32_t index)
{
    assert(index < FIELDS);
    const struct field *f = &field_table[index];
    switch (f->type) {
    case FIELD_COUNT: return g_strdup_printf("%u", *field_u32(c, f));
    case FIELD_SEED: return g_strdup_printf("%" G_GUINT64_FORMAT, *field_u64(c, f));
    case FIELD_FLAG: return g_strdup(*field_flag(c, f) ? "true" : "false");
    default: return g_strdup(*field_text(c, f));
    }
}

static bool value_refuse(const struct field *f, const char *expected, const char *text, GError **error)
{
    return error_input(error, "%s: expected %s, found '%s'", f->name, expected, text);
}

static bool count_set(struct case_options *c, const struct field *f, const char *text, GError **error)
{
    guint64 value;
    if (text_whole(text, f->least, f->most, &value)) {
        *field_u32(c, f) = (uint32_t)value;
        return true;
    }
    g_autofree char *expected = g_strdup_printf("a whole number from %u to %u", f->least, f->most);
    value_refuse(f, expected, text, error);
    return false;
}

static bool flag_set(struct case_options *c, const struct field *f, const char *text, GError **error)
{
    static const char *const words[] = { "false", "true", "0", "1", "no", "yes" };
    for (uint32_t i = 0; i < G_N_ELEMENTS(words); i++)
        if (g_ascii_strcasecmp(text, words[i]) == 0) {
            *field_flag(c, f) = i % 2;
            return true;
        }
    return value_refuse(f, "true or false", text, error);
}

static bool choice_set(struct case_options *c, const struct field *f, const char *text, GError **error)
{
    g_auto(GStrv) choice = g_strsplit(f->choices, "|", 0);
    const bool known = g_strv_contains((const char *const *)choice, text);
    if (known) {
        *field_text(c, f) = g_intern_string(text);
    } else {
        g_autofree char *list = g_strjoinv(", ", choice);
        g_autofree char *expected = g_strconcat("one of ", list, NULL);
        value_refuse(f, expected, text, error);
    }
    return known;
}

static bool field_set(struct case_options *c, const struct field *f, const char *text, GError **error)
{
    guint64 seed;
    struct case_options alone = { 0 };
    switch (f->type) {
    case FIELD_COUNT: return count_set(c, f, text, error);
    case FIELD_FLAG: return flag_set(c, f, text, error);
    case FIELD_CHOICE: return choice_set(c, f, text, error);
    case FIELD_SEED:
        if (!text_whole(text, 0, G_MAXUINT64, &seed)) return value_refuse(f, "a whole number of 64 bits", text, error);
        *field_u64(c, f) = seed;
        return true;
    case FIELD_TEXT:
        if (*text == '\0') return value_refuse(f, f->argument, text, error);
        if (f->offset == AT(deepep) && !case_deepep_version(text))
            return value_refuse(f,
                                "a commit of DeepEP's main branch up to dd758ca, a date from 2025-02-25 on, or "
                                "[before-] and one of " DEEPEPS,
                                text, error);
        *field_text(&alone, f) = g_intern_string(text);
        if (!case_masking_fill(&alone, &(struct moe_options){ 0 }, error)) return false;
        *field_text(c, f) = *field_text(&alone, f);
        return true;
    }
    g_assert_not_reached();
}

bool case_option_given(const struct case_options *c, const char *name)
{
    const struct field *f = field_find(name);
    const size_t index = f ? (size_t)(f - field_table) : 0;
    assert(index < FIELDS);
    return f && (c->given[index / 64] >> index % 64 & 1);
}

bool case_set(struct case_options *c, const char *name, const char *text, GError **error)
{
    const struct field *f = field_find(name);
    const size_t index = f ? (size_t)(f - field_table) : 0;
    assert(index < FIELDS);
    if (f && field_set(c, f, text, error)) return c->given[index / 64] |= UINT64_C(1) << index % 64, true;
    if (f) return false;
    if (name_matches(name, processes_alias.name))
        return field_set(c, &processes_alias, text, error) && case_set(c, "ranks-per-node", text, error) &&
               (c->num_ranks || case_set(c, "num-ranks", text, error));
    return error_input(error, "%s: there is no such option of a case", name);
}

/* The case that the options fill.  It is global because GLib passes no data of the caller to callbacks of a
 * context's main entries. */
static struct case_options *entries_case;

/* The topics of --help and their options, in order. */
static const struct {
    const char *title, *names;
} case_topic_table[CASE_TOPICS] = {
    { "What runs",
      "kernel num-ranks ranks-per-node num-processes num-tokens tokens-per-rank hidden num-topk "
      "num-experts intermediate deepgemm dtype round-scale ue8m0 num-sms num-warps rdma-sms disable-nvlink data seed" },
    { "On what machine", "cluster backend deepep loops fault launch arrival slow compute compute-sms" },
    { "Which expert each token goes to",
      "trace trace-weights step layer routing num-topk-groups masked-places traffic placement" },
    { "Low-latency kernels", "hook logfmt flush zero-copy mask-timeout fail" },
    { "Normal and V2 kernels", "cached weights num-bias worst-tokens expert-alignment nvl-chunk rdma-chunk nvl-buffer "
                               "rdma-buffer combine-nvl-chunk combine-rdma-chunk combine-nvl-buffer "
                               "combine-rdma-buffer expand single-reduction direct cpu-sync overlap api" },
    { "All-to-allv, all-gather, point to point", "matrix size messages in-flight algorithm protocol nccl issue" },
};

static gboolean entry_set(const gchar *option, const gchar *value, gpointer unused, GError **error)
{
    (void)unused;
    if (case_set(entries_case, option, value ? value : "true", error)) return TRUE;
    g_prefix_error(error, "--");
    return FALSE;
}

static GOptionEntry field_entry(const struct field *f)
{
    union {
        GOptionArgFunc call;
        gpointer data;
    } callback = { .call = entry_set };
    return (GOptionEntry){
        .long_name = f->name,
        /* FILENAME: GLib passes raw bytes.  A value may contain a file name, which need not be valid UTF-8. */
        .flags = f->type == FIELD_FLAG ? G_OPTION_FLAG_NO_ARG : G_OPTION_FLAG_FILENAME,
        .arg = G_OPTION_ARG_CALLBACK,
        .arg_data = callback.data,
        .description = f->help,
        .arg_description = f->argument,
    };
}

void case_topics(struct case_options *c, struct command_topic topic[CASE_TOPICS])
{
    enum { ENTRIES = FIELDS + 1 + CASE_TOPICS }; /* one alias, and an empty entry after each topic */
    static GOptionEntry entry[ENTRIES];
    GOptionEntry *next = entry;
    entries_case = c;
    for (size_t t = 0; t < CASE_TOPICS; t++) {
        topic[t] = (struct command_topic){ case_topic_table[t].title, next, true };
        g_auto(GStrv) names = g_strsplit(case_topic_table[t].names, " ", 0);
        for (char **name = names; *name; name++) {
            const struct field *f = name_matches(*name, processes_alias.name) ? &processes_alias : field_find(*name);
            assert(f && next < entry + ENTRIES - 1);
            *next++ = field_entry(f);
        }
        *next++ = (GOptionEntry){ 0 };
    }
    assert(next == entry + ENTRIES); /* every option is in one topic */
}

bool case_routing_same(const struct case_options *a, const struct case_options *b)
{
    const struct case_options one = case_resolved(a), other = case_resolved(b);
    bool same = one.even == other.even;
    for (uint32_t i = 0; i < FIELDS && same; i++) {
        g_autofree char *x = field_table[i].flags & ROUTES ? case_option_text(&one, i) : NULL;
        g_autofree char *y = field_table[i].flags & ROUTES ? case_option_text(&other, i) : NULL;
        same = g_strcmp0(x, y) == 0;
    }
    return same;
}

/* The number of parts into which `separator` divides the text. */
static uint32_t parts_count(const char *text, char separator)
{
    uint32_t count = 1;
    for (; *text; text++) count += *text == separator;
    return count;
}

static void text_default(const char **text, const char *value)
{
    if (!*text) *text = value;
}

/* The default number of experts, as in the public tests.  Low latency has 288, of which 32 are redundant, if 288 is a
 * multiple of the number of ranks.  Otherwise the number is 256, rounded up to a multiple of the number of ranks. */
static uint32_t experts_default(bool low_latency, uint32_t ranks)
{
    if (low_latency && 288 % ranks == 0) return 288;
    return (256 + ranks - 1) / ranks * ranks;
}

char *case_note(const struct case_options *c)
{
    const struct case_options whole = case_resolved(c);
    const bool routed = case_kernel_in(c, "ll|normal|v2");
    char *note = NULL;
    if (routed && !c->num_experts && !c->trace && whole.num_experts != 256 && whole.num_experts != 288)
        note = g_strdup_printf("num-experts is %u, because %u ranks do not divide %s", whole.num_experts,
                               whole.num_ranks, strcmp(whole.kernel, "ll") == 0 ? "288 or 256" : "256");
    return note;
}

enum { RANKS_DEFAULT = 8, RANKS_PER_NODE_DEFAULT = 8 };

const char *case_kernel(const struct case_options *c) { return c->kernel ? c->kernel : "ll"; }

bool case_kernel_in(const struct case_options *c, const char *names)
{
    g_auto(GStrv) name = g_strsplit(names, "|", -1);
    return g_strv_contains((const char *const *)name, case_kernel(c));
}

bool case_peers_by_rdma(const struct case_options *c) { return c->nvlink_disabled && !case_kernel_in(c, "normal"); }

uint32_t case_ranks(const struct case_options *c)
{
    if (c->num_ranks) return c->num_ranks;
    if (c->traffic) return parts_count(c->traffic, ';');
    if (c->size && strchr(c->size, '|')) return parts_count(c->size, '|');
    return c->tokens_per_rank ? parts_count(c->tokens_per_rank, '|') : RANKS_DEFAULT;
}

uint32_t case_tokens(const struct case_options *c)
{
    if (c->num_tokens) return c->num_tokens;
    return case_kernel_in(c, "ll|nccl-ll") ? 128 : 4096;
}

struct case_options case_resolved(const struct case_options *given)
{
    struct case_options whole = *given, *c = &whole;
    text_default(&c->kernel, case_kernel(c));
    text_default(&c->dtype, "fp8");
    const bool low_latency = case_kernel_in(c, "ll|nccl-ll");
    if (strcmp(c->kernel, "allgather") == 0) text_default(&c->algorithm, "hybrid");
    const bool leader = g_strcmp0(c->algorithm, "leader") == 0;
    if (strcmp(c->kernel, "p2p") == 0 || strcmp(c->kernel, "allgather") == 0)
        text_default(&c->issue, leader ? "copy" : "kernel");
    if (strcmp(c->kernel, "p2p") == 0) text_default(&c->size, "64KiB");
    if (strcmp(c->kernel, "allgather") == 0 || strcmp(c->kernel, "allreduce") == 0 ||
        strcmp(c->kernel, "reducescatter") == 0)
        text_default(&c->size, "1MiB");
    text_default(&c->data, c->logfmt ? "random" : low_latency ? "pattern" : "constant");
    if (c->ranks_per_node == 0) c->ranks_per_node = RANKS_PER_NODE_DEFAULT;
    const bool counted = strcmp(c->kernel, "alltoallv") == 0 && c->matrix && !edges_spec_drawn(c->matrix);
    if (c->trace || counted) return whole; /* the file decides the number of ranks */
    c->num_ranks = case_ranks(c);
    c->num_tokens = case_tokens(c);
    if (c->num_experts == 0) c->num_experts = experts_default(case_kernel_in(c, "ll"), c->num_ranks);
    if (c->num_topk == 0) c->num_topk = 8;
    const uint32_t nodes = c->num_ranks / c->ranks_per_node;
    if (c->num_topk_groups == 0 && c->num_groups == 0 && !low_latency && nodes > 1) c->num_topk_groups = MIN(nodes, 4);
    if (!c->traffic) text_default(&c->routing, "uniform");
    assert(c->num_ranks && c->num_tokens && c->num_experts && c->num_topk && c->ranks_per_node);
    return whole;
}
