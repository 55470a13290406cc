/* trace_write.c - writes a trace: chooses the format, writes each (step, layer), and lets files appear only once they
 * are complete. */
#include "traces/trace_write.h"

#include <string.h>
#include "traces/formats/npy.h"
#include "traces/trace_writer.h"

static const struct trace_format *const formats[] = {
    &trace_format_npy,   &trace_format_npy_zst,   &trace_format_csv,  &trace_format_csv_zst, &trace_format_ept,
    &trace_format_jsonl, &trace_format_jsonl_zst, &trace_format_vllm, &trace_format_llama,
};

bool trace_scratch_flush(struct trace_writer *w, struct output *output, GError **error)
{
    const bool good = output_write(output, w->scratch->data, w->scratch->len, error);
    g_byte_array_set_size(w->scratch, 0);
    return good;
}

/* The format with this name.  If word is NULL, the format with the longest ending that the path has. */
static const struct trace_format *format_choose(const char *path, const char *word, GError **error)
{
    for (size_t i = 0; i < G_N_ELEMENTS(formats); i++) {
        if (word) {
            if (strcmp(word, formats[i]->name) == 0) return formats[i];
            continue;
        }
        g_autofree char *ending = g_strdup_printf(".%s", formats[i]->name);
        const bool fits = g_str_has_suffix(path, ending);
        if (fits) return formats[i];
    }
    return error_null(error, "%s: format: expected %s, found '%s'", path,
                      word ? "npy, npy.zst, csv, csv.zst, ept, jsonl, jsonl.zst, vllm or llama"
                           : "a name ending in .npy, .csv, .jsonl (each also .zst) or .ept, or --to FORMAT",
                      word ? word : path);
}

/* Adds one (step, layer) to the summary that the first pass makes. */
static void summary_add(struct trace_summary *s, const struct trace_info *info, uint32_t layer,
                        const struct routing *routing)
{
    uint16_t half;
    s->weight_steps[layer] += routing->rank[0].weights != NULL;
    for (uint32_t r = 0; r < routing->ranks; r++) {
        const struct routing_rank *const rank = &routing->rank[r];
        const size_t places = (size_t)rank->tokens * routing->topk;
        s->ragged = s->ragged || rank->tokens < info->tokens_max;
        for (size_t i = 0; i < places && !s->none; i++) s->none = rank->experts[i] < 0;
        for (size_t i = 0; rank->weights && i < places && !s->weights_inexact; i++)
            s->weights_inexact = !half_from_float(rank->weights[i], &half);
    }
}

static bool block_check(const char *path, const struct trace_info *info, const struct routing *routing, GError **error)
{
    if (routing->ranks == info->ranks && routing->topk == info->topk && routing->experts == info->experts) return true;
    return error_input(error,
                       "%s: expected %u ranks, topk %u and %u experts in every (step, layer), found %u, %u and %u",
                       path, info->ranks, info->topk, info->experts, routing->ranks, routing->topk, routing->experts);
}

struct walk {
    const char *path;
    const struct trace_info *info;
    trace_producer *produce;
    void *context;
};

/* Produces all (step, layer)s once, for the writer or for the summary. */
static bool walk_run(const struct walk *walk, struct trace_summary *summary, const struct trace_format *format,
                     struct trace_writer *writer, GError **error)
{
    for (uint32_t step = 0; step < walk->info->steps; step++) {
        for (uint32_t layer = 0; layer < walk->info->layers; layer++) {
            g_auto(routing) routing = { 0 };
            if (!walk->produce(walk->context, step, layer, &routing, error)) return false;
            if (!block_check(walk->path, walk->info, &routing, error)) return false;
            if (!writer) summary_add(summary, walk->info, layer, &routing);
            else if (!format->block(writer, step, layer, &routing, error)) return false;
        }
    }
    return true;
}

/* Refuses options that the format would ignore. */
static bool options_check(const char *path, const struct trace_write_options *o, const struct trace_format *format,
                          GError **error)
{
    const bool numpy = g_str_has_prefix(format->name, "npy"), packs = format->zstd || !strcmp(format->name, "ept");
    const char *const option = o->dtype ? "dtype" : o->pad ? "pad" : o->weights_path ? "weights-output" : NULL;
    if (!numpy && option)
        return error_input(error, "%s: %s: expected a numpy array with it, found %s", path, option, format->name);
    if (o->level && !packs && !(o->weights_path && g_str_has_suffix(o->weights_path, ".zst")))
        return error_input(error, "%s: level: expected a compressed format with it, found %s", path, format->name);
    return true;
}

bool trace_write(const char *path, const struct trace_write_options *options, const struct trace_info *info,
                 trace_producer *produce, void *context, char **note, GError **error)
{
    const struct trace_format *const format = format_choose(path, options->format, error);
    if (!format || !options_check(path, options, format, error)) return false;
    const struct walk walk = { path, info, produce, context };
    struct trace_summary summary = { .weight_steps = g_new0(uint32_t, info->layers) };
    struct trace_writer writer = { .options = options, .info = info, .path = path };
    bool good = !format->first_pass || walk_run(&walk, &summary, NULL, NULL, error);
    for (uint32_t l = 0; l < info->layers; l++) summary.weight_layers += summary.weight_steps[l] > 0;
    if (summary.ragged) summary.none = true;
    writer.summary = format->first_pass ? &summary : NULL;
    writer.scratch = g_byte_array_new();
    writer.output = !good ? NULL
                          : output_open(path, format->zstd ? OUTPUT_ZSTD : OUTPUT_PLAIN,
                                        options->level ? options->level : 3, error);
    good = writer.output && format->begin(&writer, error) && walk_run(&walk, &summary, format, &writer, error) &&
           format->end(&writer, error);
    if (format->clear) format->clear(&writer);
    if (good) good = outputs_commit(writer.output, writer.weights_output, error);
    else {
        output_discard(writer.output);
        output_discard(writer.weights_output);
    }
    g_byte_array_unref(writer.scratch);
    g_free(summary.weight_steps);
    if (good && note) *note = writer.note;
    else g_free(writer.note);
    return good;
}
