/* trace_info.c - checks limits of a trace's sizes, for all formats. */
#include "traces/trace_source.h"

bool trace_info_check(const struct trace *trace, GError **error)
{
    const struct trace_info *const i = &trace->info;
    const struct {
        const char *name;
        uint32_t value, low, high;
    } fields[] = {
        { "steps", i->steps, 1, 1 << 28 },           { "layers", i->layers, 1, 1 << 16 },
        { "ranks", i->ranks, 1, ROUTING_RANKS_MAX }, { "tokens", i->tokens_max, 0, 1 << 28 },
        { "topk", i->topk, 1, ROUTING_TOPK_MAX },    { "experts", i->experts, 0, ROUTING_EXPERTS_MAX },
    };
    for (size_t f = 0; f < G_N_ELEMENTS(fields); f++) {
        if (fields[f].value >= fields[f].low && fields[f].value <= fields[f].high) continue;
        return error_input(error, "%s: %s: expected %u to %u, found %u", trace->path, fields[f].name, fields[f].low,
                           fields[f].high, fields[f].value);
    }
    const uint64_t blocks = (uint64_t)i->steps * i->layers, places = (uint64_t)i->tokens_max * i->topk;
    if (places <= TRACE_PLACES_MAX / i->ranks && blocks <= TRACE_BLOCKS_MAX) return true;
    return error_input(error,
                       "%s: expected at most 2^28 top-k places in a (step, layer) and 2^28 (step, layer)s, found %u "
                       "ranks x "
                       "%u tokens x %u and %u x %u",
                       trace->path, i->ranks, i->tokens_max, i->topk, i->steps, i->layers);
}

uint32_t trace_experts_guess(uint32_t ranks, int64_t highest)
{
    const int64_t least = highest < 0 ? 1 : highest + 1;
    return (uint32_t)MIN((least + ranks - 1) / ranks * ranks, (int64_t)UINT32_MAX);
}
