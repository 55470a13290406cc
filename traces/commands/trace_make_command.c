/* trace_make_command.c - `eptwin trace generate` and `remap`: make routing that was not captured. */
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include "sim/new_file.h"
#include "sim/progress.h"
#include "traces/generate.h"
#include "traces/placement.h"
#include "traces/placement_json.h"
#include "traces/commands/trace_command.h"

static const struct command_help generate_help = {
    "generate",
    "OUTPUT",
    "Makes a synthetic trace.  The same options and seed give the same trace everywhere.\n"
    "\n"
    "--routing is one of\n"
    "  uniform         top-k of random scores, as the public test scripts draw them (default)\n"
    "  zipf:S          popularity 1/n^S, experts in random order; zipf-packed:S: hottest experts on rank 0\n"
    "  lognormal:S     popularity exp(S * normal)\n"
    "  imbalance:F     log-normal, searched so that the most loaded rank gets F times the mean\n"
    "  hot-expert:P    a share P of the tokens picks expert 0 first\n"
    "  hot-rank:P      a share P of the tokens has all its experts on rank 0\n"
    "  local, ring     all experts on the token's own rank, on the next rank\n"
    "  round           places go round the ranks, and on each round its experts\n"
    "  strided         tokens go along the experts, each to some that are equally far apart\n"
    "  power-law:A     loads of experts by x^-A, the most loaded rank first, as aiconfigurator's benchmarks have them\n"
    "  sampled-power-law:A   the same, but each token draws its experts by the shares\n"
    "Popularity is drawn for each layer and stays the same over the steps.  --correlation keeps the experts of\n"
    "that share of tokens from one step to the next, as in decoding.",
    "Examples:\n"
    "  eptwin trace generate uniform.npy --num-ranks 8 --num-tokens 4096\n"
    "  eptwin trace generate skewed.ept --num-ranks 64 --routing imbalance:2 --steps 8 --layers 4\n"
    "  eptwin trace generate grouped.ept --num-ranks 64 --num-groups 8 --num-topk-groups 4 --seed 3",
};

static const struct command_help remap_help = {
    "remap",
    "INPUT [OUTPUT]",
    "Moves a trace to another number of ranks, or its experts to other ranks.\n"
    "\n"
    "--num-ranks N splits the tokens of each (step, layer), in order, into N equal parts for N ranks.\n"
    "--placement then places experts layer by layer, by the load of each layer over all steps (or over\n"
    "--placement-steps, the past that a balancer would know):\n"
    "  identity, greedy          one slot per expert, in order, or heaviest first to the least loaded rank\n"
    "  eplb:N                    N redundant slots for the heaviest experts, then slots to ranks\n"
    "  eplb:N:G                  the same with the G expert groups packed to nodes first\n"
    "  file:PATH                 one line per rank with the experts of its slots; or the JSON of SGLang, vLLM or vLLM "
    "Ascend\n"
    "--placement-output FILE.json writes all layers in the format of SGLang's --init-expert-location.  OUTPUT may\n"
    "then be left out, and INPUT may hold counts of experts. The experts of the output are slots: one for each\n"
    "expert and for each replica.",
    "Examples:\n"
    "  eptwin trace remap prefill_ep8.ept ep32.ept --num-ranks 32\n"
    "  eptwin trace remap decode.ept placed.ept --placement eplb:32 --placement-steps 0:4\n"
    "  eptwin trace remap decode.ept placed.ept --placement eplb:32 --placement-output locations.json\n"
    "  eptwin trace remap counts.npy --num-ranks 32 --placement eplb:32 --placement-output locations.json",
};

struct generation {
    struct routing_options options;
    struct routing *previous; /* [layers] the routing of the previous step */
    struct progress *progress;
};

static void routing_copy(const struct routing *from, struct routing *to)
{
    g_autofree uint32_t *tokens = g_new(uint32_t, from->ranks);
    for (uint32_t r = 0; r < from->ranks; r++) tokens[r] = from->rank[r].tokens;
    routing_alloc(to, from->ranks, from->topk, from->experts, tokens, false);
    for (uint32_t r = 0; r < from->ranks; r++)
        memcpy(to->rank[r].experts, from->rank[r].experts, (size_t)tokens[r] * from->topk * sizeof(int32_t));
}

static bool generate_produce(void *context, uint32_t step, uint32_t layer, struct routing *out, GError **error)
{
    struct generation *const g = context;
    struct routing *const previous = &g->previous[layer];
    g->options.step = step;
    g->options.layer = layer;
    if (!routing_generate_after(&g->options, step ? previous : NULL, out, error)) return false;
    if (g->options.correlation > 0) {
        routing_free(previous);
        routing_copy(out, previous);
    }
    progress_advance(g->progress, 1);
    return true;
}

/* The numbers of the command line. */
struct numbers {
    int ranks, tokens, topk, experts, groups, topk_groups, steps, layers, masked_places;
    gint64 seed;
};

static bool numbers_check(const struct numbers *n, GError **error)
{
    const struct {
        const char *name;
        int value, low;
    } fields[] = {
        { "num-ranks", n->ranks, 1 },     { "num-tokens", n->tokens, 1 }, { "num-topk", n->topk, 1 },
        { "num-experts", n->experts, 1 }, { "num-groups", n->groups, 0 }, { "num-topk-groups", n->topk_groups, 0 },
        { "steps", n->steps, 1 },         { "layers", n->layers, 1 },     { "masked-places", n->masked_places, 0 },
    };
    for (size_t f = 0; f < G_N_ELEMENTS(fields); f++) {
        if (fields[f].value >= fields[f].low) continue;
        return error_input(error, "--%s: expected %d or more, found %d", fields[f].name, fields[f].low,
                           fields[f].value);
    }
    if (!n->groups != !n->topk_groups)
        return error_input(error, "--num-groups, --num-topk-groups: expected both or none, found one");
    if ((uint64_t)n->steps * (uint64_t)n->layers > TRACE_BLOCKS_MAX)
        return error_input(error, "--steps: expected at most 2^28 (step, layer)s, found %d x %d", n->steps, n->layers);
    if ((uint64_t)n->tokens * (uint64_t)n->topk <= TRACE_PLACES_MAX / (uint64_t)n->ranks) return true;
    return error_input(
        error, "--num-tokens: expected at most 2^28 places (ranks x tokens x topk) in a step, found %d x %d x %d",
        n->ranks, n->tokens, n->topk);
}

/* The bytes of the output before compression.  Each place has an index of 1, 2 or 4 bytes and,
 * if `weights`, a weight of 4 bytes. */
static uint64_t size_estimate(const struct numbers *n, bool weights)
{
    const uint64_t a_step = (uint64_t)n->ranks * (uint64_t)n->tokens * (uint64_t)n->topk;
    const uint64_t index = n->experts <= 256 ? 1 : n->experts <= 65536 ? 2 : 4;
    return a_step * (uint64_t)n->steps * (uint64_t)n->layers * (index + (weights ? 4 : 0));
}

/* Prints the output's size before compression if it is large.  Refuses an output that the disk cannot hold even at
 * the best compression of routing. */
static bool size_check(const struct numbers *n, bool weights, const char *path, GError **error)
{
    enum { RATIO_MAX = 20 }; /* captured routing compresses 1 to 20 times */
    const uint64_t bytes = size_estimate(n, weights);
    struct statvfs disk;
    g_autofree char *folder = g_path_get_dirname(path), *size = g_format_size(bytes);
    const bool file =
        strcmp(path, "-") != 0 && (!g_file_test(path, G_FILE_TEST_EXISTS) || g_file_test(path, G_FILE_TEST_IS_REGULAR));
    if (bytes >= UINT64_C(1) << 30)
        fprintf(stderr, "eptwin trace generate: note: %d steps of %d layers are %s before compression\n", n->steps,
                n->layers, size);
    if (!file || statvfs(folder, &disk) != 0 || bytes / RATIO_MAX <= (uint64_t)disk.f_bavail * disk.f_frsize)
        return true;
    g_autofree char *free_size = g_format_size((uint64_t)disk.f_bavail * disk.f_frsize);
    return error_input(error, "%s: expected a trace that fits in the %s free there, found %s before compression", path,
                       free_size, size);
}

static bool generate_run(const struct numbers *n, const char *routing, double correlation, bool weights,
                         const char *path, const struct command_output *output, GError **error)
{
    struct generation g = { .options = { .ranks = (uint32_t)n->ranks,
                                         .tokens = (uint32_t)n->tokens,
                                         .topk = (uint32_t)n->topk,
                                         .experts = (uint32_t)n->experts,
                                         .groups = (uint32_t)n->groups,
                                         .topk_groups = (uint32_t)n->topk_groups,
                                         .masked_places = (uint32_t)n->masked_places,
                                         .weights = weights,
                                         .correlation = correlation,
                                         .seed = (uint64_t)n->seed,
                                         .distribution = routing } };
    char *const provenance =
        g_strdup_printf("generated: routing %s, correlation %g, groups %d of %d, seed %" G_GINT64_FORMAT,
                        routing ? routing : "uniform", correlation, n->topk_groups, n->groups, n->seed);
    const struct trace_info info = { .steps = (uint32_t)n->steps,
                                     .layers = (uint32_t)n->layers,
                                     .ranks = (uint32_t)n->ranks,
                                     .topk = (uint32_t)n->topk,
                                     .experts = (uint32_t)n->experts,
                                     .tokens_max = (uint32_t)n->tokens,
                                     .weights = weights,
                                     .format = "generated",
                                     .model = "",
                                     .provenance = provenance };
    if (!size_check(n, weights, path, error)) {
        g_free(provenance);
        return false;
    }
    g.previous = g_new0(struct routing, info.layers);
    g.progress = progress_new("layers", (uint64_t)info.steps * info.layers);
    const bool good = command_write(&generate_help, path, output, &info, generate_produce, &g, error);
    for (uint32_t l = 0; l < info.layers; l++) routing_free(&g.previous[l]);
    progress_free(g.progress);
    g_free(g.previous);
    g_free(provenance);
    return good;
}

int trace_command_generate(int argc, char **argv)
{
    struct numbers n = { .ranks = 8, .tokens = 4096, .topk = 8, .experts = 256, .steps = 1, .layers = 1 };
    struct command_output output = { 0 };
    g_autofree char *routing = NULL;
    double correlation = 0;
    gboolean weights = FALSE;
    GOptionEntry entries[] = {
        { "num-ranks", 0, 0, G_OPTION_ARG_INT, &n.ranks, "ranks (default 8)", "N" },
        { "num-tokens", 0, 0, G_OPTION_ARG_INT, &n.tokens, "tokens of each rank (default 4096)", "N" },
        { "num-topk", 0, 0, G_OPTION_ARG_INT, &n.topk, "experts per token (default 8)", "N" },
        { "num-experts", 0, 0, G_OPTION_ARG_INT, &n.experts, "experts (default 256)", "N" },
        { "num-groups", 0, 0, G_OPTION_ARG_INT, &n.groups, "expert groups for group-limited routing", "N" },
        { "num-topk-groups", 0, 0, G_OPTION_ARG_INT, &n.topk_groups, "groups that a token may use", "N" },
        { "steps", 0, 0, G_OPTION_ARG_INT, &n.steps, "steps (default 1)", "N" },
        { "layers", 0, 0, G_OPTION_ARG_INT, &n.layers, "layers (default 1)", "N" },
        { "routing", 0, 0, G_OPTION_ARG_STRING, &routing, "how tokens choose experts, see above", "NAME[:VALUE]" },
        { "correlation", 0, 0, G_OPTION_ARG_DOUBLE, &correlation, "share of tokens that keep their experts", "0..1" },
        { "masked-places", 0, 0, G_OPTION_ARG_INT, &n.masked_places, "this many random entries of each rank are -1",
          "N" },
        { "weights", 0, 0, G_OPTION_ARG_NONE, &weights, "also draw gate weights", NULL },
        { "seed", 0, 0, G_OPTION_ARG_INT64, &n.seed, "random seed (default 0)", "N" },
        COMMAND_OUTPUT_ENTRIES(output),
        G_OPTION_ENTRY_NULL,
    };
    GError *error = NULL;
    (void)(command_parse(&generate_help, entries, &output, &argc, &argv, 1, 1, &error) && numbers_check(&n, &error) &&
           generate_run(&n, routing, correlation, weights, argv[1], &output, &error));
    return error ? command_refuse(&generate_help, error) : EXIT_OK;
}

struct remap {
    struct trace *trace;
    uint32_t ranks;               /* the output's number of ranks */
    struct placement *placements; /* [layers], or NULL */
};

/* Divides the tokens of all ranks, in the order of ranks, into equal parts for `ranks` ranks. */
static void routing_regroup(const struct routing *in, uint32_t ranks, struct routing *out)
{
    uint64_t total = 0, done = 0;
    g_autofree uint32_t *tokens = g_new(uint32_t, ranks);
    for (uint32_t r = 0; r < in->ranks; r++) total += in->rank[r].tokens;
    for (uint32_t r = 0; r < ranks; r++) {
        const uint64_t end = total * (r + 1) / ranks;
        tokens[r] = (uint32_t)(end - done);
        done = end;
    }
    const bool weights = in->rank[0].weights != NULL;
    routing_alloc(out, ranks, in->topk, in->experts, tokens, weights);
    uint32_t rank = 0, token = 0;
    for (uint32_t r = 0; r < in->ranks; r++) {
        for (uint32_t t = 0; t < in->rank[r].tokens; t++, token++) {
            while (token == tokens[rank]) {
                rank++;
                token = 0;
            }
            const size_t from = (size_t)t * in->topk, to = (size_t)token * in->topk;
            memcpy(out->rank[rank].experts + to, in->rank[r].experts + from, in->topk * sizeof(int32_t));
            if (weights) memcpy(out->rank[rank].weights + to, in->rank[r].weights + from, in->topk * sizeof(float));
        }
    }
}

static bool remap_produce(void *context, uint32_t step, uint32_t layer, struct routing *out, GError **error)
{
    const struct remap *const m = context;
    g_auto(routing) read = { 0 }, grouped = { 0 };
    if (!trace_read(m->trace, step, layer, 0, &read, error)) return false;
    routing_regroup(&read, m->ranks, m->placements ? &grouped : out);
    if (m->placements) placement_apply(&m->placements[layer], &grouped, out);
    return true;
}

/* Makes the placement of one layer from its load over the given steps. */
static bool layer_place(struct remap *m, uint32_t layer, const struct ranges *steps, const char *spec,
                        uint32_t ranks_per_node, GError **error)
{
    const uint32_t experts = trace_info(m->trace)->experts;
    g_autofree uint64_t *load = g_new0(uint64_t, experts);
    for (uint32_t s = 0; s < steps->count; s++) {
        g_auto(routing) routing = { 0 };
        if (!trace_read(m->trace, steps->number[s], layer, 0, &routing, error)) return false;
        placement_load_add(&routing, load);
    }
    const struct placement_input input = { experts, m->ranks, ranks_per_node, load, layer };
    return placement_make(spec, &input, &m->placements[layer], error);
}

struct remap_options {
    int ranks, ranks_per_node;
    char *placement, *placement_steps, *placement_output, *placement_format;
};

/* The placements as "text", "sglang", "vllm" or "vllm-ascend".  Without a format, a name that ends in .json means
 * SGLang's. */
static char *placements_text(const struct remap *m, const struct remap_options *o, uint32_t layers, GError **error)
{
    const bool json = g_str_has_suffix(o->placement_output, ".json");
    const char *format = o->placement_format ? o->placement_format : json ? "sglang" : "text";
    static const char *const forms[] = { "sglang", "vllm", "vllm-ascend" };
    const bool text = !strcmp(format, "text");
    uint32_t form = 0;
    while (form < G_N_ELEMENTS(forms) && strcmp(format, forms[form]) != 0) form++;
    if (!text && form == G_N_ELEMENTS(forms))
        return error_null(error, "--placement-format: expected text, sglang, vllm or vllm-ascend, found '%s'", format);
    if (text && layers > 1)
        return error_null(error,
                          "--placement-output: expected a trace of one layer (eptwin trace slice --layers N) or a "
                          ".json file, found %u layers",
                          layers);
    return text ? placement_text(&m->placements[0])
                : placement_json_text(m->placements, layers, (enum placement_json)form);
}

static bool placements_make(struct remap *m, const struct remap_options *o, GError **error)
{
    const struct trace_info *const info = trace_info(m->trace);
    g_auto(ranges) steps = { 0 };
    if (!command_range_parse("placement-steps", o->placement_steps, info->steps, &steps, error)) return false;
    m->placements = g_new0(struct placement, info->layers);
    for (uint32_t l = 0; l < info->layers; l++)
        if (!layer_place(m, l, &steps, o->placement, (uint32_t)o->ranks_per_node, error)) return false;
    for (uint32_t l = 1; l < info->layers; l++)
        if (m->placements[l].slots != m->placements[0].slots)
            return error_input(
                error, "--placement: expected as many slots in each layer, found %u in layer 0 and %u in layer %u",
                m->placements[0].slots, m->placements[l].slots, l);
    return true;
}

static bool remap_run(struct remap *m, const struct remap_options *o, const char *path,
                      const struct command_output *output, GError **error)
{
    struct trace_info info = *trace_info(m->trace);
    if (o->ranks < 0 || o->ranks > ROUTING_RANKS_MAX || o->ranks_per_node < 1)
        return error_input(error, "--num-ranks, --ranks-per-node: expected positive numbers, found %d and %d", o->ranks,
                           o->ranks_per_node);
    if (o->placement_output && !o->placement)
        return error_input(error, "--placement-output: expected --placement too, found none");
    if (o->placement_format && !o->placement_output)
        return error_input(error, "--placement-format: expected --placement-output too, found none");
    if (o->placement_steps && !o->placement)
        return error_input(error, "--placement-steps: expected --placement too, found none");
    if (o->placement_output && path && !new_file_apart("--placement-output", o->placement_output, path, error))
        return false;
    info.ranks = m->ranks = o->ranks ? (uint32_t)o->ranks : info.ranks;
    if (!o->placement && info.experts % info.ranks)
        return error_input(error,
                           "--num-ranks: expected a divisor of %u experts (or a --placement that adds some), found %u",
                           info.experts, info.ranks);
    if (o->placement && !placements_make(m, o, error)) return false;
    if (m->placements) info.experts = m->placements[0].slots;
    const bool placed = m->placements && o->placement_output;
    g_autofree char *text = placed ? placements_text(m, o, info.layers, error) : NULL;
    struct new_file *file = text ? new_file_open(o->placement_output, error) : NULL;
    bool good = !placed || (file && new_file_write(file, text, strlen(text), error));
    if (good && path)
        good = command_measure_shape(&info, remap_produce, m, error) &&
               command_write(&remap_help, path, output, &info, remap_produce, m, error);
    if (good) return !file || new_file_commit(file, error);
    new_file_discard(file);
    return false;
}

int trace_command_remap(int argc, char **argv)
{
    struct command_input input = { 0 };
    struct command_output output = { 0 };
    struct remap_options o = { .ranks_per_node = 8 };
    GOptionEntry entries[] = {
        { "num-ranks", 0, 0, G_OPTION_ARG_INT, &o.ranks, "ranks of the output (default: as the input)", "N" },
        { "placement", 0, 0, G_OPTION_ARG_FILENAME, &o.placement, "placement of experts, see above", "HOW" },
        { "placement-steps", 0, 0, G_OPTION_ARG_STRING, &o.placement_steps, "steps whose load is used (default all)",
          "STEPS" },
        { "placement-output", 0, 0, G_OPTION_ARG_FILENAME, &o.placement_output, "write the placement here", "FILE" },
        { "placement-format", 0, 0, G_OPTION_ARG_STRING, &o.placement_format,
          "format of that file: text, sglang (default for .json), vllm or vllm-ascend", "NAME" },
        { "ranks-per-node", 0, 0, G_OPTION_ARG_INT, &o.ranks_per_node, "ranks that share a node (default 8)", "N" },
        COMMAND_INPUT_ENTRIES(input),
        COMMAND_OUTPUT_ENTRIES(output),
        G_OPTION_ENTRY_NULL,
    };
    GError *error = NULL;
    struct remap m = { 0 };
    if (command_parse(&remap_help, entries, &output, &argc, &argv, 1, 2, &error))
        m.trace = command_open(argv[1], &input, &error);
    if (m.trace && argc < 3 && !(o.placement && o.placement_output))
        error_input(&error, "expected INPUT OUTPUT, or --placement and --placement-output, found 1 file");
    else if (m.trace) (void)remap_run(&m, &o, argc < 3 ? NULL : argv[2], &output, &error);
    for (uint32_t l = 0; m.placements && l < trace_info(m.trace)->layers; l++) placement_clear(&m.placements[l]);
    g_free(m.placements);
    trace_close(m.trace);
    return error ? command_refuse(&remap_help, error) : EXIT_OK;
}
