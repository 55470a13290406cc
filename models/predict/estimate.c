/* estimate.c - events and bytes of a case by its kernel, and pilot runs that measure what an event costs here. */
#include "models/predict/estimate.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "models/predict/simulate.h"
#include "traces/edges_make.h"

/* How many events and bytes tokens, ranks and pairs make, fitted to runs of this program on h100-cx7 (ll: 8 to 2048
 * ranks, normal and v2: 8 to 128, others: 64 to 1024).  A pilot run corrects the events, not the bytes.  A pair is two
 * ranks; for ll, a rank and an expert; for alltoallv, a message. */
static const struct kernel_cost {
    const char *kernel;
    double token_node, token_rank, rank, pair; /* events: for each other node that a token goes to; for each rank that
                                                * it goes to (ll: each expert); for each rank; for each pair */
    double rank_bytes, pair_bytes, place_bytes;
} costs[] = {
    /* clang-format off: a line a kernel */
    { "ll", 0, 2.4, 0, 11, 40e3, 375, 12 },        { "normal", 15.5, 0.8, 4000, 0, 580e3, 9300, 8 },
    { "v2", 4.4, 1.3, 6500, 170, 1.1e6, 44e3, 8 }, { "one-sided", 0, 1.7, 5, 0, 300e3, 0, 40 },
    { "two-sided", 0, 1.7, 5, 0, 300e3, 0, 40 },   { "mori", 0, 4, 5000, 0, 2e6, 0, 40 },
    { "mori-ll", 0, 4, 5000, 0, 2e6, 0, 40 },      { "mega-moe", 0, 3, 25000, 0, 1e6, 0, 40 },
    { "alltoallv", 0, 0, 0, 1.2, 12e3, 30, 4 },    { "allgather", 0, 0, 0, 24, 20e3, 400, 0 },
    { "allreduce", 0, 0, 495, 0, 55e3, 0, 0 },     { "reducescatter", 0, 0, 0, 72, 55e3, 0, 0 },
    { "ag-rs", 0, 0, 0, 159, 90e3, 0, 0 },         { "pplx", 0, 1.9, 5400, 10, 200e3, 1600, 28 },
    { "nccl-ht", 0, 7, 500, 0, 300e3, 0, 40 },     { "nccl-ll", 0, 8, 0, 20, 40e3, 9600, 12 },
    { "hybrid-ep", 0, 7, 500, 0, 300e3, 0, 40 },

    { "p2p", 0, 0, 8.2, 0, 20e3, 0, 0 }, /* events of each rank for each message */
    /* clang-format on */
};

enum { BASE_BYTES = 8000000 }; /* memory of the program without a case */
static const double event_seconds = 0.35e-6;
/* Larger worlds miss caches: each doubling of the memory adds this share to an event's time. */
static const double slower_a_doubling = 0.25;

enum { PILOT_EVENTS = 700000, PILOT_TOKENS_MIN = 1024, WORTH_BYTES = 500000000 };
enum { WORTH_SECONDS = 5, WORTH_SECONDS_LOGGED = 60 }; /* the shortest times printed: on a terminal, and in a log */

static const struct kernel_cost *cost_of(const char *kernel)
{
    for (size_t i = 0; i < G_N_ELEMENTS(costs); i++)
        if (strcmp(costs[i].kernel, kernel) == 0) return &costs[i];
    return &costs[0];
}

/* The quantities that a case's cost depends on. */
struct shape {
    double ranks, ranks_per_node, tokens, topk, experts, groups; /* tokens: of all ranks; groups: the most nodes that
                                                                  * a token goes to; 0: any number */
    double messages;                                             /* of an alltoallv; 0: one for each pair */
};

static struct shape shape_of(const struct case_options *c, const struct case_load *load)
{
    const struct routing *routing = load && load->routing.ranks ? &load->routing : NULL;
    const double nodes = ceil((double)c->num_ranks / c->ranks_per_node);
    struct shape s = { .ranks = c->num_ranks,
                       .ranks_per_node = c->ranks_per_node,
                       .tokens = (double)c->num_ranks * c->num_tokens,
                       .topk = c->num_topk,
                       .experts = c->num_experts,
                       .groups = c->num_groups ? ceil((double)c->num_topk_groups * nodes / c->num_groups)
                                               : c->num_topk_groups };
    if (c->matrix) s.tokens = 0;
    if (load && load->edges.ranks) {
        s.ranks = load->edges.ranks;
        s.messages = edges_count(&load->edges);
    }
    if (!routing) return s;
    s.ranks = routing->ranks;
    s.topk = routing->topk;
    s.experts = routing->experts;
    s.tokens = 0;
    for (uint32_t r = 0; r < routing->ranks; r++) s.tokens += routing->rank[r].tokens;
    return s;
}

/* The expected number of different places after topk draws. */
static double different(double places, double topk)
{
    return places > 0 ? places * (1 - pow(1 - 1 / places, topk)) : 0;
}

/* How many times as many events a token makes.  With few tokens, each warp of a normal kernel between nodes that sums
 * is a worker of its own (mergers_launch() in moe_ht_inter_combine.c). */
static double few_factor(const struct case_options *c, const struct shape *s, double nodes)
{
    enum { ROUNDS = 4, WARPS = 24 };
    const double channels = (c->num_sms ? c->num_sms : CASE_SMS_DEFAULT) / 2.0;
    const bool few = nodes > 1 && s->tokens / s->ranks <= ROUNDS * WARPS / nodes * channels;
    return few && strcmp(c->kernel, "normal") == 0 ? 1.6 : 1;
}

struct estimate estimate_case(const struct case_options *given, const struct case_load *load)
{
    struct case_options c = case_resolved(given);
    const struct kernel_cost *cost = cost_of(c.kernel);
    const struct shape s = shape_of(&c, load);
    const bool ll = cost == &costs[0];
    const double nodes = ceil(s.ranks / s.ranks_per_node), far = s.groups ? fmin(s.groups, nodes) : nodes;
    const double to_nodes = different(far, s.topk) * (nodes > 1 ? (nodes - 1) / nodes : 0);
    const double to_ranks = ll ? s.topk : different(far * fmin(s.ranks_per_node, s.ranks), s.topk);
    const double pairs = ll ? s.ranks * s.experts : s.messages ? s.messages : s.ranks * s.ranks;
    double events = s.tokens * (cost->token_node * to_nodes + cost->token_rank * to_ranks) * few_factor(&c, &s, nodes) +
                    cost->rank * s.ranks + cost->pair * pairs;
    if (strcmp(c.kernel, "p2p") == 0) events *= c.messages;
    if (g_strcmp0(c.launch, "loop") == 0) events *= 2;
    const double bytes =
        BASE_BYTES + cost->rank_bytes * s.ranks + cost->pair_bytes * pairs + cost->place_bytes * s.tokens * s.topk;
    return (struct estimate){ events, bytes, events * event_seconds, 1, false };
}

/* ---- the pilot ---- */

static double clock_seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Sets the options that a trace decides: ranks, tokens, top-k, experts. */
static void trace_settle(struct case_options *c, const struct routing *routing)
{
    uint32_t most = 1;
    for (uint32_t r = 0; r < routing->ranks; r++) most = MAX(most, routing->rank[r].tokens);
    c->num_ranks = routing->ranks;
    c->num_tokens = most;
    c->num_topk = routing->topk;
    /* With a placement, routing->experts is the number of the placement's slots. */
    if (!c->placement) c->num_experts = routing->experts;
}

/* Reduces the case's ranks, by whole nodes, and then its tokens.  The number of experts is kept, so that the numbers of
 * all kinds of messages shrink in proportion.  Options that name ranks are removed. */
static void pilot_shrink(struct case_options *c, const struct case_load *load)
{
    *c = case_resolved(c);
    if (c->trace && load) trace_settle(c, &load->routing);
    c->fault = c->slow = c->arrival = c->fail = NULL;
    const uint32_t least = 2 * c->ranks_per_node;
    for (;;) {
        const uint32_t half = c->num_ranks / 2 / c->ranks_per_node * c->ranks_per_node;
        if (half < least || estimate_case(c, NULL).events <= PILOT_EVENTS) break;
        if (!c->trace) c->num_experts = (c->num_experts + half - 1) / half * half;
        c->num_ranks = half;
    }
    if (!c->num_groups) c->num_topk_groups = MIN(c->num_topk_groups, c->num_ranks / c->ranks_per_node);
    const double events = estimate_case(c, NULL).events;
    const uint32_t fewer = (uint32_t)ceil(c->num_tokens * (PILOT_EVENTS / events));
    if (events > PILOT_EVENTS) c->num_tokens = MIN(c->num_tokens, MAX(fewer, PILOT_TOKENS_MIN));
}

/* Whether a pilot can have fewer ranks.  It cannot if a matrix file, a list by rank, or a trace on standard input gives
 * them. */
static bool pilot_possible(const struct case_options *c)
{
    const bool file = c->matrix && !edges_spec_drawn(c->matrix), listed = c->tokens_per_rank || c->traffic;
    return c->ranks_per_node && !file && !listed && g_strcmp0(c->trace, "-") != 0;
}

/* Runs the pilot of the case, and sets its events and seconds.  False: it cannot be simulated. */
static bool pilot_run(const struct case_options *c, const struct cluster *cluster, double *events, double *seconds,
                      struct estimate *expected)
{
    struct case_load load;
    g_autoptr(record) record = record_new();
    const double begin = clock_seconds();
    bool good = case_load(c, &load, NULL);
    good = good && simulate_load(c, cluster, &load, &(struct simulate_wishes){ 0 }, record, NULL);
    *seconds = clock_seconds() - begin;
    if (good) {
        *expected = estimate_case(c, &load);
        *events = g_ascii_strtod(record_get(record, "events"), NULL);
    }
    case_load_free(&load);
    return good && *events > 0 && *seconds > 0;
}

/* Whether the work takes at least so many seconds or bytes.  Its seconds follow from the number of events, not from a
 * pilot, so that what is printed does not depend on how busy the machine is. */
static bool exceeds(const struct estimate *work, double seconds, double bytes)
{
    return work->events * event_seconds >= seconds || work->bytes >= bytes;
}

static double told_seconds(void) { return isatty(STDERR_FILENO) ? WORTH_SECONDS : WORTH_SECONDS_LOGGED; }

bool estimate_long(const struct estimate *work) { return exceeds(work, WORTH_SECONDS / 2., WORTH_BYTES / 2.); }
bool estimate_worth(const struct estimate *work) { return exceeds(work, told_seconds() / 2, WORTH_BYTES); }

bool estimate_pilot(struct estimate *work, const struct case_options *c, const struct case_load *load,
                    const struct cluster *cluster)
{
    struct estimate expected;
    struct case_options pilot = *c;
    double events, seconds;
    if (!pilot_possible(c)) return false;
    pilot_shrink(&pilot, load);
    const bool good = pilot_run(&pilot, cluster, &events, &seconds, &expected);
    if (good) {
        const double doublings = fmax(log2(work->bytes / expected.bytes), 0);
        work->tried = true;
        work->events *= events / expected.events;
        work->seconds = work->events * seconds / events * (1 + slower_a_doubling * doublings);
    }
    return good;
}

/* ---- words ---- */

static char *seconds_text(double seconds)
{
    if (seconds < 100) return g_strdup_printf("%.0f s", fmax(seconds, 1));
    if (seconds < 6000) return g_strdup_printf("%.0f min", seconds / 60);
    return g_strdup_printf("%.1f h", seconds / 3600);
}

static char *bytes_text(double bytes)
{
    return bytes < 1e9 ? g_strdup_printf("%.0f MB", bytes / 1e6) : g_strdup_printf("%.1f GB", bytes / 1e9);
}

bool estimate_print(const char *command, const struct estimate *work, uint32_t threads)
{
    const double sharing = fmax(fmin(threads, (double)work->predictions), 1);
    const struct estimate shared = { work->events / sharing, work->bytes * sharing, work->seconds / sharing, 1, false };
    if (!exceeds(isatty(STDERR_FILENO) ? &shared : work, told_seconds(), WORTH_BYTES)) return false;
    g_autofree char *time = seconds_text(shared.seconds), *memory = bytes_text(shared.bytes);
    g_autofree char *by = sharing > 1 ? g_strdup_printf(", %.0f threads together", sharing) : g_strdup("");
    fprintf(stderr, "eptwin %s: about %s and %s of memory%s%s\n", command, time, memory, by,
            work->tried ? "" : " (a guess: no smaller case could be tried here)");
    return true;
}

/* ---- many ---- */

/* Whether the case has the same ranks and tokens as the last case, as most predictions of a trace have. */
static bool last_recall(const struct estimate_many *many, const struct case_options *c)
{
    return many->last.trace && g_strcmp0(many->last.trace, c->trace) == 0 &&
           g_strcmp0(many->last.kernel, c->kernel) == 0 && many->last.num_ranks == c->num_ranks &&
           many->last.num_tokens == c->num_tokens;
}

static struct estimate trace_estimate(struct estimate_many *many, const struct case_options *c)
{
    struct case_load load;
    if (last_recall(many, c)) return many->of_last;
    many->last = *c;
    many->of_last = (struct estimate){ .predictions = 1 };
    if (case_load(c, &load, NULL)) many->of_last = estimate_case(c, &load);
    case_load_free(&load);
    return many->of_last;
}

void estimate_many_add(struct estimate_many *many, const struct case_options *c, const struct cluster *cluster,
                       uint32_t count)
{
    const bool traced = c->trace && strcmp(c->trace, "-") != 0;
    const struct estimate one = traced ? trace_estimate(many, c) : estimate_case(c, NULL);
    many->sum.events += one.events * count;
    many->sum.seconds += one.seconds * count;
    many->sum.bytes = fmax(many->sum.bytes, one.bytes);
    many->sum.predictions += count;
    if (many->cluster && one.events <= many->most.events) return;
    many->most = one;
    many->cluster = cluster;
    many->largest = *c;
}

void estimate_many_print(struct estimate_many *many, const char *command, uint32_t threads)
{
    struct case_load load = { 0 };
    if (many->cluster && estimate_worth(&many->sum)) {
        const bool loaded = many->largest.trace && case_load(&many->largest, &load, NULL);
        estimate_pilot(&many->sum, &many->largest, loaded ? &load : NULL, many->cluster);
        estimate_print(command, &many->sum, threads);
    }
    case_load_free(&load);
    *many = (struct estimate_many){ 0 };
}
