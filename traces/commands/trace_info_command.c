/* trace_info_command.c - `eptwin trace info`: the contents of a trace and the imbalance of its ranks. */
#include <stdio.h>
#include <string.h>
#include "traces/routing_statistics.h"
#include "traces/commands/trace_command.h"

static const struct command_help help = {
    "info",
    "FILE",
    "Shape, provenance and loads of a trace.\n"
    "\n"
    "Loads are counted for each (step, layer), and the table gives their mean and their worst, because a sum over\n"
    "layers hides the load of a single dispatch.  'pairs' counts (token, expert) selections; 'tokens' counts a\n"
    "token once per rank or node, however many of its experts it chose.  Gini: 0 is even, near 1 is all on one.\n"
    "Entropy: 1 is even, 0 is all on one.",
    "Examples:\n"
    "  eptwin trace info decode_ep64.ept\n"
    "  eptwin trace info routing.npy.zst --layers 0,4 --ranks-per-node 4\n"
    "  zstd -dc routing.csv.zst | eptwin trace info -",
};

enum quantity { EXPERT_PAIRS, RANK_PAIRS, RANK_TOKENS, NODE_TOKENS, LINK_TOKENS, QUANTITY_COUNT };

static const char *const quantity_names[QUANTITY_COUNT] = {
    "pairs per expert", "pairs per rank", "tokens per rank", "tokens per node", "tokens per link",
};

enum { EXPERT_BINS = 11 };
static const double expert_bin_upper[EXPERT_BINS] = { 0.1, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 2, 4, 8, 1e300 };

/* Sums over all (step, layer)s, from which means are computed, and the (step, layer) with the worst imbalance. */
struct spread_sum {
    struct load_spread sum;
    double worst;
    uint32_t worst_step, worst_layer, blocks;
};

struct info {
    struct trace *trace;
    struct routing_statistics total;
    struct spread_sum spread[QUANTITY_COUNT];
    uint32_t weight_blocks, blocks;
    uint64_t expert_bins[EXPERT_BINS];
};

static void spread_add(struct spread_sum *s, const uint64_t *load, uint64_t count, uint32_t step, uint32_t layer)
{
    const struct load_spread one = load_spread(load, count);
    s->sum.max_over_mean += one.max_over_mean;
    s->sum.min_over_mean += one.min_over_mean;
    s->sum.gini += one.gini;
    s->sum.entropy += one.entropy;
    if (s->blocks++ == 0 || one.max_over_mean > s->worst) {
        s->worst = one.max_over_mean;
        s->worst_step = step;
        s->worst_layer = layer;
    }
}

/* Counts the experts of a (step, layer) in bins of their load, relative to the mean load. */
static void expert_bins_add(uint64_t bins[EXPERT_BINS], const struct routing_statistics *s)
{
    uint64_t sum = 0;
    for (uint32_t e = 0; e < s->experts; e++) sum += s->expert_pairs[e];
    for (uint32_t e = 0; e < s->experts && sum; e++) {
        const double share = (double)s->expert_pairs[e] * s->experts / (double)sum;
        int bin = 0;
        while (share >= expert_bin_upper[bin]) bin++;
        bins[bin]++;
    }
}

static void block_add(struct info *info, uint32_t step, uint32_t layer, const struct routing *routing)
{
    struct routing_statistics one;
    routing_statistics_init(&one, routing->ranks, routing->experts, routing->topk, info->total.ranks_per_node);
    routing_statistics_add(&one, routing);
    routing_statistics_add(&info->total, routing);
    if (one.tokens) {
        spread_add(&info->spread[EXPERT_PAIRS], one.expert_pairs, one.experts, step, layer);
        spread_add(&info->spread[RANK_PAIRS], one.rank_pairs, one.ranks, step, layer);
        spread_add(&info->spread[RANK_TOKENS], one.rank_tokens, one.ranks, step, layer);
        spread_add(&info->spread[NODE_TOKENS], one.node_tokens, one.nodes, step, layer);
        if (one.links) spread_add(&info->spread[LINK_TOKENS], one.links, (uint64_t)one.ranks * one.ranks, step, layer);
    }
    expert_bins_add(info->expert_bins, &one);
    info->weight_blocks += routing->rank[0].weights != NULL;
    info->blocks++;
    routing_statistics_clear(&one);
}

static void shape_print(const struct info *info, const char *path)
{
    const struct trace_info *const i = trace_info(info->trace);
    const struct routing_statistics *const t = &info->total;
    printf("trace        %s\n", path);
    printf("format       %s\n", i->format);
    if (*i->model) printf("model        %s\n", i->model);
    if (*i->provenance) printf("provenance   %s\n", i->provenance);
    printf("steps        %u\nlayers       %u\n", i->steps, i->layers);
    if (i->counts) {
        printf("experts      %u: how often each was chosen, not by which token\n", i->experts);
        if (t->ranks > 1) printf("ranks        %u, %u experts each\n", t->ranks, i->experts / t->ranks);
        printf("read         %u (step, layer), %" G_GUINT64_FORMAT " choices\n", info->blocks, t->tokens);
        return;
    }
    printf("ranks        %u, %u node%s of %u\n", i->ranks, t->nodes, t->nodes == 1 ? "" : "s",
           MIN(t->ranks_per_node, i->ranks));
    printf("tokens       at most %u per rank\n", i->tokens_max);
    printf("experts      %u, %u per rank, top-%u\n", i->experts, i->experts / i->ranks, i->topk);
    printf("read         %u (step, layer), %" G_GUINT64_FORMAT " token%s\n", info->blocks, t->tokens,
           t->tokens == 1 ? "" : "s");
    printf("weights      in %u of these\n", info->weight_blocks);
    printf("unused       %" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT " place%s -1\n", t->unused, t->places,
           t->places == 1 ? " is" : "s are");
}

static void spreads_print(const struct info *info)
{
    if (info->total.experts < 2) return;
    const uint64_t counts[QUANTITY_COUNT] = { info->total.experts, info->total.ranks, info->total.ranks,
                                              info->total.nodes, (uint64_t)info->total.ranks * info->total.ranks };
    printf("\n%-16s %6s %9s %9s %6s %8s   %s\n", "load", "of", "max/mean", "min/mean", "Gini", "entropy",
           "worst max/mean");
    const int known = trace_info(info->trace)->counts ? RANK_PAIRS + 1 : QUANTITY_COUNT; /* counts do not tell where
                                                                                          * tokens go */
    for (int q = 0; q < known; q++) {
        const struct spread_sum *const s = &info->spread[q];
        const double n = s->blocks;
        if (s->blocks == 0 || counts[q] < 2) continue;
        printf("%-16s %6" G_GUINT64_FORMAT " %9.2f %9.2f %6.3f %8.3f   %.2f at step %u layer %u\n", quantity_names[q],
               counts[q], s->sum.max_over_mean / n, s->sum.min_over_mean / n, s->sum.gini / n, s->sum.entropy / n,
               s->worst, s->worst_step, s->worst_layer);
    }
}

static void bar_print(const char *label, uint64_t value, uint64_t most)
{
    enum { BAR_WIDTH = 50 };
    char bar[BAR_WIDTH + 1];
    const int length = most ? (int)((value * BAR_WIDTH + most - 1) / most) : 0;
    memset(bar, '#', (size_t)length);
    bar[length] = 0;
    printf("  %-12s %12" G_GUINT64_FORMAT "  %s\n", label, value, bar);
}

static uint64_t most_of(const uint64_t *values, uint32_t count)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < count; i++) most = MAX(most, values[i]);
    return most;
}

/* Prints loads in order, in at most 16 lines.  A line that stands for several loads shows their mean. */
static void loads_print(const char *title, const char *unit, const uint64_t *load, uint32_t count)
{
    enum { LINES_MAX = 16 };
    const uint32_t a_line = (count + LINES_MAX - 1) / LINES_MAX, lines = (count + a_line - 1) / a_line;
    uint64_t mean[LINES_MAX];
    char label[32];
    printf("\n%s%s\n", title, a_line > 1 ? ", mean of each line" : "");
    for (uint32_t l = 0; l < lines; l++) {
        const uint32_t end = MIN(count, (l + 1) * a_line);
        mean[l] = 0;
        for (uint32_t i = l * a_line; i < end; i++) mean[l] += load[i];
        mean[l] /= end - l * a_line;
    }
    for (uint32_t l = 0; l < lines; l++) {
        if (a_line > 1) g_snprintf(label, sizeof label, "%s %u-%u", unit, l * a_line, MIN(count, (l + 1) * a_line) - 1);
        else g_snprintf(label, sizeof label, "%s %u", unit, l);
        bar_print(label, mean[l], most_of(mean, lines));
    }
}

static void expert_bins_print(const uint64_t bins[EXPERT_BINS])
{
    char label[32];
    printf("\nexperts by their load over the mean of the (step, layer)\n");
    for (int b = 0; b < EXPERT_BINS; b++) {
        if (b + 1 < EXPERT_BINS) g_snprintf(label, sizeof label, "< %g", expert_bin_upper[b]);
        else g_snprintf(label, sizeof label, ">= %g", expert_bin_upper[b - 1]);
        if (bins[b]) bar_print(label, bins[b], most_of(bins, EXPERT_BINS));
    }
}

static void distinct_print(const char *what, const uint64_t *histogram, uint32_t topk)
{
    char label[16];
    printf("\n%s a token: mean %.3f\n", what, histogram_mean(histogram, topk + 1));
    for (uint32_t n = 0; n <= topk; n++) {
        g_snprintf(label, sizeof label, "%u", n);
        if (histogram[n]) bar_print(label, histogram[n], most_of(histogram, topk + 1));
    }
}

/* Adds counts to statistics.  The trace has them as tokens of rank 0, but the statistics have as many ranks as share
 * the experts. */
static void counts_add(struct info *info, uint32_t step, uint32_t layer, const struct routing *routing)
{
    struct routing shared = *routing;
    g_autofree struct routing_rank *rank = g_new0(struct routing_rank, info->total.ranks);
    rank[0] = routing->rank[0];
    shared.ranks = info->total.ranks;
    shared.rank = rank;
    block_add(info, step, layer, &shared);
}

static bool blocks_read(struct info *info, const char *steps_text, const char *layers_text, GError **error)
{
    const struct trace_info *const i = trace_info(info->trace);
    g_auto(ranges) steps = { 0 }, layers = { 0 };
    if (!command_range_parse("steps", steps_text, i->steps, &steps, error) ||
        !command_range_parse("layers", layers_text, i->layers, &layers, error))
        return false;
    for (uint32_t s = 0; s < steps.count; s++)
        for (uint32_t l = 0; l < layers.count; l++) {
            g_auto(routing) routing = { 0 };
            if (!trace_read(info->trace, steps.number[s], layers.number[l], 0, &routing, error)) return false;
            (i->counts ? counts_add : block_add)(info, steps.number[s], layers.number[l], &routing);
        }
    return true;
}

/* Checks --num-ranks, which is only allowed for counts.  A trace of choices states its number of ranks. */
static bool ranks_check(const struct trace_info *i, int ranks, GError **error)
{
    if (!ranks || (i->counts && ranks > 0 && i->experts % (uint32_t)ranks == 0)) return true;
    return error_input(error, "--num-ranks: expected %s, found %d",
                       i->counts ? "a divisor of the experts" : "counts of experts (remap changes the ranks of others)",
                       ranks);
}

static void info_print(const struct info *info, const char *path)
{
    const struct routing_statistics *const t = &info->total;
    const bool counts = trace_info(info->trace)->counts, nodes = t->nodes > 1 && !counts;
    shape_print(info, path);
    spreads_print(info);
    if (t->ranks > 1 || !counts)
        loads_print("pairs that each rank receives, over all (step, layer)s", "rank", t->rank_pairs, t->ranks);
    if (nodes) loads_print("tokens that each node receives, over all (step, layer)s", "node", t->node_tokens, t->nodes);
    expert_bins_print(info->expert_bins);
    if (!counts) distinct_print("ranks", t->distinct_ranks, t->topk);
    if (nodes) distinct_print("nodes", t->distinct_nodes, t->topk);
}

int trace_command_info(int argc, char **argv)
{
    struct command_input input = { 0 };
    g_autofree char *steps = NULL;
    g_autofree char *layers = NULL;
    int ranks_per_node = 8, ranks = 0;
    GOptionEntry entries[] = {
        { "steps", 0, 0, G_OPTION_ARG_STRING, &steps, "steps to read (default all): " RANGES_GRAMMAR, "STEPS" },
        { "layers", 0, 0, G_OPTION_ARG_STRING, &layers, "layers to read, likewise", "LAYERS" },
        { "ranks-per-node", 0, 0, G_OPTION_ARG_INT, &ranks_per_node, "ranks that share a node (default 8)", "N" },
        { "num-ranks", 0, 0, G_OPTION_ARG_INT, &ranks, "for counts of experts: ranks that share them", "N" },
        COMMAND_INPUT_ENTRIES(input),
        G_OPTION_ENTRY_NULL,
    };
    GError *error = NULL;
    struct info info = { 0 };
    bool good = command_parse(&help, entries, NULL, &argc, &argv, 1, 1, &error);
    if (good && ranks_per_node < 1) {
        error_input(&error, "--ranks-per-node: expected 1 or more, found %d", ranks_per_node);
        good = false;
    }
    info.trace = good ? command_open(argv[1], &input, &error) : NULL;
    if (info.trace && (good = ranks_check(trace_info(info.trace), ranks, &error))) {
        const struct trace_info *const i = trace_info(info.trace);
        routing_statistics_init(&info.total, ranks ? (uint32_t)ranks : i->ranks, i->experts, i->topk,
                                (uint32_t)ranks_per_node);
        good = blocks_read(&info, steps, layers, &error);
    }
    if (good && info.trace) info_print(&info, argv[1]);
    if (info.trace) routing_statistics_clear(&info.total);
    trace_close(info.trace);
    return error ? command_refuse(&help, error) : EXIT_OK;
}
