/* trace_convert_command.c - `eptwin trace convert`, `slice` and `merge`: write existing routing to another file. */
#include <stdlib.h>
#include <string.h>
#include "traces/commands/trace_command.h"

static const struct command_help convert_help = {
    "convert",
    "INPUT OUTPUT",
    "Writes a trace in another format without loss: data that the format cannot hold are refused or reported in a\n"
    "note. The output file appears only when it is complete.",
    "Examples:\n"
    "  eptwin trace convert routing.npy.zst routing.ept --trace-weights weights.npy.zst@0,4,7\n"
    "  eptwin trace convert routing.ept back.npy.zst --weights-output back_weights.npy.zst\n"
    "  cat rank*.jsonl | eptwin trace convert - routing.ept --model mine-128e --provenance 'night run 7'\n"
    "  eptwin trace convert vllm:experts.npy - --to csv | head",
};

static const struct command_help slice_help = {
    "slice",
    "INPUT OUTPUT",
    "Cuts out steps, layers, ranks and tokens.  With fewer ranks, the experts are divided among those that are\n"
    "left.",
    "Examples:\n"
    "  eptwin trace slice routing.ept short.ept --steps 0:4 --layers 0,30,60\n"
    "  eptwin trace slice prefill.npy.zst few.npy.zst --tokens 0:512",
};

static const struct command_help merge_help = {
    "merge",
    "INPUT... OUTPUT",
    "Joins traces of the same model: the second's steps (or layers, or ranks) follow the first's.",
    "Examples:\n"
    "  eptwin trace merge monday.ept tuesday.ept both.ept\n"
    "  eptwin trace merge rank0.npy rank1.npy group.npy --by ranks --experts 64",
};

static bool trace_produce(void *context, uint32_t step, uint32_t layer, struct routing *out, GError **error)
{
    return trace_read(context, step, layer, 0, out, error);
}

int trace_command_convert(int argc, char **argv)
{
    struct command_input input = { 0 };
    struct command_output output = { 0 };
    GOptionEntry entries[] = { COMMAND_INPUT_ENTRIES(input), COMMAND_OUTPUT_ENTRIES(output), G_OPTION_ENTRY_NULL };
    GError *error = NULL;
    if (command_parse(&convert_help, entries, &output, &argc, &argv, 2, 2, &error)) {
        g_autoptr(trace) trace = command_open(argv[1], &input, &error);
        if (trace)
            (void)command_write(&convert_help, argv[2], &output, trace_info(trace), trace_produce, trace, &error);
    }
    return error ? command_refuse(&convert_help, error) : EXIT_OK;
}

struct slice {
    struct trace *trace;
    struct ranges steps, layers, ranks, tokens;
};

/* Makes the routing of the chosen tokens of the chosen ranks. */
static bool slice_produce(void *context, uint32_t step, uint32_t layer, struct routing *out, GError **error)
{
    const struct slice *const s = context;
    g_auto(routing) all = { 0 };
    if (!trace_read(s->trace, s->steps.number[step], s->layers.number[layer], 0, &all, error)) return false;
    g_autofree uint32_t *tokens = g_new0(uint32_t, s->ranks.count);
    for (uint32_t r = 0; r < s->ranks.count; r++)
        for (uint32_t t = 0; t < s->tokens.count; t++)
            tokens[r] += s->tokens.number[t] < all.rank[s->ranks.number[r]].tokens;
    routing_alloc(out, s->ranks.count, all.topk, all.experts, tokens, all.rank[0].weights != NULL);
    for (uint32_t r = 0; r < s->ranks.count; r++) {
        const struct routing_rank *const from = &all.rank[s->ranks.number[r]];
        struct routing_rank *const to = &out->rank[r];
        size_t at = 0;
        for (uint32_t t = 0; t < s->tokens.count; t++) {
            const size_t start = (size_t)s->tokens.number[t] * all.topk;
            if (s->tokens.number[t] >= from->tokens) continue;
            memcpy(to->experts + at, from->experts + start, all.topk * sizeof *to->experts);
            if (from->weights) memcpy(to->weights + at, from->weights + start, all.topk * sizeof *to->weights);
            at += all.topk;
        }
    }
    return true;
}

static bool experts_divide(const struct trace_info *info, GError **error)
{
    if (info->experts % info->ranks == 0) return true;
    return error_input(error, "ranks: expected a divisor of %u experts, found %u", info->experts, info->ranks);
}

static bool slice_run(struct slice *s, char *const texts[4], const char *path, const struct command_output *output,
                      GError **error)
{
    struct trace_info info = *trace_info(s->trace);
    if (!command_range_parse("steps", texts[0], info.steps, &s->steps, error) ||
        !command_range_parse("layers", texts[1], info.layers, &s->layers, error) ||
        !command_range_parse("ranks", texts[2], info.ranks, &s->ranks, error) ||
        !command_range_parse("tokens", texts[3], MAX(info.tokens_max, 1), &s->tokens, error))
        return false;
    info.steps = s->steps.count;
    info.layers = s->layers.count;
    info.ranks = s->ranks.count;
    return experts_divide(&info, error) && command_measure_shape(&info, slice_produce, s, error) &&
           command_write(&slice_help, path, output, &info, slice_produce, s, error);
}

int trace_command_slice(int argc, char **argv)
{
    struct command_input input = { 0 };
    struct command_output output = { 0 };
    char *texts[4] = { NULL };
    GOptionEntry entries[] = {
        { "steps", 0, 0, G_OPTION_ARG_STRING, &texts[0], "steps (default all): " RANGES_GRAMMAR, "STEPS" },
        { "layers", 0, 0, G_OPTION_ARG_STRING, &texts[1], "layers, likewise", "LAYERS" },
        { "ranks", 0, 0, G_OPTION_ARG_STRING, &texts[2], "ranks, likewise", "RANKS" },
        { "tokens", 0, 0, G_OPTION_ARG_STRING, &texts[3], "tokens of each rank, likewise", "TOKENS" },
        COMMAND_INPUT_ENTRIES(input),
        COMMAND_OUTPUT_ENTRIES(output),
        G_OPTION_ENTRY_NULL,
    };
    GError *error = NULL;
    struct slice slice = { 0 };
    if (command_parse(&slice_help, entries, &output, &argc, &argv, 2, 2, &error))
        slice.trace = command_open(argv[1], &input, &error);
    if (slice.trace) (void)slice_run(&slice, texts, argv[2], &output, &error);
    trace_close(slice.trace);
    ranges_free(&slice.steps);
    ranges_free(&slice.layers);
    ranges_free(&slice.ranks);
    ranges_free(&slice.tokens);
    return error ? command_refuse(&slice_help, error) : EXIT_OK;
}

enum merge_by { MERGE_STEPS, MERGE_LAYERS, MERGE_RANKS };

struct merge {
    struct trace **traces;
    uint32_t count;
    enum merge_by by;
};

static void routing_append(const struct routing *from, struct routing *to, uint32_t first)
{
    for (uint32_t r = 0; r < from->ranks; r++) {
        const size_t places = (size_t)from->rank[r].tokens * from->topk;
        memcpy(to->rank[first + r].experts, from->rank[r].experts, places * sizeof(int32_t));
        if (from->rank[r].weights) memcpy(to->rank[first + r].weights, from->rank[r].weights, places * sizeof(float));
    }
}

/* Reads one (step, layer) of all traces, and joins their ranks: those of the first trace come first. */
static bool merge_ranks(const struct merge *m, uint32_t step, uint32_t layer, struct routing *out, GError **error)
{
    g_autofree struct routing *parts = g_new0(struct routing, m->count);
    uint32_t read = 0, ranks = 0, experts = 0;
    bool weights = false;
    while (read < m->count && trace_read(m->traces[read], step, layer, 0, &parts[read], error)) {
        experts = MAX(experts, parts[read].experts);
        weights = weights || parts[read].rank[0].weights;
        ranks += parts[read++].ranks;
    }
    const bool good = read == m->count;
    if (good) {
        g_autofree uint32_t *tokens = g_new(uint32_t, ranks);
        for (uint32_t p = 0, at = 0; p < m->count; p++)
            for (uint32_t r = 0; r < parts[p].ranks; r++) tokens[at++] = parts[p].rank[r].tokens;
        routing_alloc(out, ranks, parts[0].topk, experts, tokens, weights);
        for (uint32_t p = 0, at = 0; p < m->count; at += parts[p++].ranks) routing_append(&parts[p], out, at);
    }
    for (uint32_t p = 0; p < read; p++) routing_free(&parts[p]);
    return good;
}

static bool merge_produce(void *context, uint32_t step, uint32_t layer, struct routing *out, GError **error)
{
    const struct merge *const m = context;
    if (m->by == MERGE_RANKS) return merge_ranks(m, step, layer, out, error);
    uint32_t *const at = m->by == MERGE_STEPS ? &step : &layer;
    uint32_t t = 0;
    for (;; t++) {
        const struct trace_info *const i = trace_info(m->traces[t]);
        const uint32_t length = m->by == MERGE_STEPS ? i->steps : i->layers;
        if (*at < length) break;
        *at -= length;
    }
    return trace_read(m->traces[t], step, layer, 0, out, error);
}

/* Sets *info to the merged shape.  All dimensions but the joined one must agree. */
static bool merge_shape(const struct merge *m, char **paths, struct trace_info *info, GError **error)
{
    *info = *trace_info(m->traces[0]);
    for (uint32_t t = 1; t < m->count; t++) {
        const struct trace_info *const i = trace_info(m->traces[t]);
        const struct {
            const char *name;
            uint32_t first, this;
            bool free;
        } fields[] = {
            { "steps", info->steps, i->steps, m->by == MERGE_STEPS },
            { "layers", info->layers, i->layers, m->by == MERGE_LAYERS },
            { "ranks", info->ranks, i->ranks, m->by == MERGE_RANKS },
            { "topk", info->topk, i->topk, false },
            { "experts", info->experts, i->experts, m->by == MERGE_RANKS },
        };
        for (size_t f = 0; f < G_N_ELEMENTS(fields); f++) {
            if (fields[f].free || fields[f].first == fields[f].this) continue;
            return error_input(error, "%s: %s: expected %u as in %s, found %u", paths[t], fields[f].name,
                               fields[f].first, paths[0], fields[f].this);
        }
        info->steps += m->by == MERGE_STEPS ? i->steps : 0;
        info->layers += m->by == MERGE_LAYERS ? i->layers : 0;
        info->ranks += m->by == MERGE_RANKS ? i->ranks : 0;
        info->experts = MAX(info->experts, i->experts);
    }
    return experts_divide(info, error);
}

static bool merge_by_parse(const char *text, enum merge_by *by, GError **error)
{
    static const char *const names[] = { "steps", "layers", "ranks" };
    for (int i = 0; i < 3; i++) {
        if (text && strcmp(text, names[i]) != 0) continue;
        *by = (enum merge_by)i;
        return true;
    }
    return error_input(error, "--by: expected steps, layers or ranks, found '%s'", text);
}

int trace_command_merge(int argc, char **argv)
{
    struct command_input input = { 0 };
    struct command_output output = { 0 };
    g_autofree char *by = NULL;
    GOptionEntry entries[] = {
        { "by", 0, 0, G_OPTION_ARG_STRING, &by, "steps (default), layers or ranks", "WHAT" },
        { "experts", 0, 0, G_OPTION_ARG_INT, &input.experts, "number of experts, if the files do not say", "N" },
        COMMAND_OUTPUT_ENTRIES(output),
        G_OPTION_ENTRY_NULL,
    };
    GError *error = NULL;
    struct merge m = { 0 };
    struct trace_info info;
    bool good = command_parse(&merge_help, entries, &output, &argc, &argv, 2, 10000, &error) &&
                merge_by_parse(by, &m.by, &error);
    const uint32_t inputs = good ? (uint32_t)argc - 2 : 0;
    m.traces = g_new0(struct trace *, inputs + 1);
    while (good && m.count < inputs) {
        m.traces[m.count] = command_open(argv[1 + m.count], &input, &error);
        good = m.traces[m.count] != NULL;
        m.count += good;
    }
    if (good)
        (void)(merge_shape(&m, argv + 1, &info, &error) && command_measure_shape(&info, merge_produce, &m, &error) &&
               command_write(&merge_help, argv[argc - 1], &output, &info, merge_produce, &m, &error));
    for (uint32_t t = 0; t < m.count; t++) trace_close(m.traces[t]);
    g_free(m.traces);
    return error ? command_refuse(&merge_help, error) : EXIT_OK;
}
