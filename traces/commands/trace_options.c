/* trace_options.c - what subcommands of `eptwin trace` share: options, errors, writing. */
#include "traces/commands/trace_command.h"

#include <stdio.h>

#include "sim/new_file.h"

bool command_parse(const struct command_help *help, GOptionEntry *entries, const struct command_output *output,
                   int *argc, char ***argv, int files_min, int files_max, GError **error)
{
    g_autofree char *name = g_strconcat("trace ", help->name, NULL);
    const struct command_topic topics[] = { { "Options", entries, false }, { 0 } };
    const struct command_line line = {
        .name = name, .arguments = help->usage, .about = help->summary, .details = help->examples, .topics = topics
    };
    char **words;
    if (!command_line_parse(&line, *argc, *argv, &words, error)) return false;
    int count = (int)g_strv_length(words);
    for (int i = 0; i < count; i++) (*argv)[1 + i] = words[i]; /* argv has room for the words, and keeps them */
    g_free(words);
    if (output && output->path) (*argv)[1 + count++] = output->path; /* in the place of --output */
    *argc = 1 + count;
    const char *const *const inputs = (const char *const *)*argv + 1;
    if (count >= files_min && count <= files_max)
        return !output || new_file_spares(inputs[count - 1], inputs, (size_t)count - 1, error);
    return error_input(error, "expected %s, found %d file%s (see --help)", help->usage, count, count == 1 ? "" : "s");
}

int command_refuse(const struct command_help *help, GError *error)
{
    g_autofree char *name = g_strconcat("trace ", help->name, NULL);
    return command_line_fail(name, error);
}

struct trace *command_open(const char *path, const struct command_input *input, GError **error)
{
    if (input->experts < 0) return error_null(error, "--experts: expected a positive number, found %d", input->experts);
    const struct trace_options options = { .experts = (uint32_t)input->experts, .weights_path = input->weights };
    return trace_open(path, &options, error);
}

bool command_write(const struct command_help *help, const char *path, const struct command_output *output,
                   const struct trace_info *info, trace_producer *produce, void *context, GError **error)
{
    struct trace_info named = *info;
    if (info->counts) return error_input(error, "expected the choices of each token to write, found counts of experts");
    if (output->level < 0 || output->level > 19)
        return error_input(error, "--level: expected 1 to 19, found %d", output->level);
    if (output->weights && !new_file_apart("--weights-output", output->weights, path, error)) return false;
    if (output->model) named.model = output->model;
    if (output->provenance) named.provenance = output->provenance;
    const struct trace_write_options options = { .format = output->format,
                                                 .dtype = output->dtype,
                                                 .weights_path = output->weights,
                                                 .level = output->level,
                                                 .pad = output->pad };
    g_autofree char *note = NULL;
    const bool good = trace_write(path, &options, &named, produce, context, &note, error);
    if (note) fprintf(stderr, "eptwin trace %s: note: %s\n", help->name, note);
    return good;
}

bool command_measure_shape(struct trace_info *info, trace_producer *produce, void *context, GError **error)
{
    info->tokens_max = 0;
    info->weights = false;
    for (uint32_t step = 0; step < info->steps; step++) {
        for (uint32_t layer = 0; layer < info->layers; layer++) {
            g_auto(routing) routing = { 0 };
            if (!produce(context, step, layer, &routing, error)) return false;
            info->weights = info->weights || routing.rank[0].weights;
            for (uint32_t r = 0; r < routing.ranks; r++)
                info->tokens_max = MAX(info->tokens_max, routing.rank[r].tokens);
        }
    }
    return true;
}

bool command_range_parse(const char *field, const char *text, uint32_t limit, struct ranges *ranges, GError **error)
{
    if (ranges_parse(text ? text : "all", limit, limit, ranges)) return true;
    return error_input(error, "--%s: expected " RANGES_GRAMMAR ", each once and below %u, found '%s'", field, limit,
                       text ? text : "all");
}
