/* trace_command.h - what the subcommands of `eptwin trace` share.  Internal to traces/. */
#ifndef TRACES_TRACE_COMMAND_H
#define TRACES_TRACE_COMMAND_H

#include "sim/command.h"
#include "sim/command_line.h"
#include "traces/trace.h"
#include "traces/trace_write.h"

/* One function for each subcommand; argv[0] is the subcommand's name. */
command_function trace_command_info, trace_command_check, trace_command_convert, trace_command_slice,
    trace_command_merge, trace_command_generate, trace_command_remap, trace_command_diff, trace_command_chakra;

/* A subcommand's name, and the texts of its --help: the line after "eptwin trace NAME [OPTION]", a paragraph, and
 * examples. */
struct command_help {
    const char *name, *usage, *summary, *examples;
};

struct command_output;
/* Parses options, and checks that files_min to files_max words are left in argv[1..].  The file of --output, if output
 * is not NULL, is the last word.  With --help, prints the help and exits. */
bool command_parse(const struct command_help *help, GOptionEntry *entries, const struct command_output *output,
                   int *argc, char ***argv, int files_min, int files_max, GError **error);

/* Prints the error as "eptwin trace NAME: ..." and frees it; returns the exit status. */
int command_refuse(const struct command_help *help, GError *error);

/* Options for an input, which several subcommands have. */
struct command_input {
    int experts;
    char *weights;
};
/* clang-format off */
#define COMMAND_INPUT_ENTRIES(input) \
    { "experts", 0, 0, G_OPTION_ARG_INT, &(input).experts, \
      "number of experts, if the file does not say", "N" }, \
    { "trace-weights", 0, 0, G_OPTION_ARG_FILENAME, &(input).weights, \
      "gate weights in a numpy array of the trace's shape, or FILE@0,4,-: the layers that it has", \
      "FILE[@LAYERS]" }
/* clang-format on */
struct trace *command_open(const char *path, const struct command_input *input, GError **error);

/* Options for an output, which several subcommands have. */
struct command_output {
    char *path, *format, *dtype, *weights, *provenance, *model;
    int level;
    gboolean pad;
};
/* clang-format off */
#define COMMAND_OUTPUT_ENTRIES(output) \
    { "output", 'o', 0, G_OPTION_ARG_FILENAME, &(output).path, \
      "output file, instead of the last argument ('-': standard output, with --to)", "FILE" }, \
    { "to", 0, 0, G_OPTION_ARG_STRING, &(output).format, \
      "npy, npy.zst, csv, csv.zst, ept, jsonl, jsonl.zst, vllm or llama (default: by the name)", "FORMAT" }, \
    { "weights-output", 0, 0, G_OPTION_ARG_FILENAME, &(output).weights, \
      "numpy: write gate weights to this .npy[.zst]", "FILE" }, \
    { "dtype", 0, 0, G_OPTION_ARG_STRING, &(output).dtype, \
      "numpy: u1, u2, u4, i2, i4 or i8 (default: the narrowest that fits)", "TYPE" }, \
    { "pad", 0, 0, G_OPTION_ARG_NONE, &(output).pad, \
      "numpy: pad uneven ranks with tokens that go nowhere", NULL }, \
    { "level", 0, 0, G_OPTION_ARG_INT, &(output).level, "zstd's compression level, 1 to 19", "N" }, \
    { "model", 0, 0, G_OPTION_ARG_STRING, &(output).model, "name of the model", "TEXT" }, \
    { "provenance", 0, 0, G_OPTION_ARG_STRING, &(output).provenance, "origin of the trace", "TEXT" }
/* clang-format on */

/* Writes the trace that `produce` makes, and prints the writer's note on standard error. */
bool command_write(const struct command_help *help, const char *path, const struct command_output *output,
                   const struct trace_info *info, trace_producer *produce, void *context, GError **error);

/* Fills in info->tokens_max and info->weights.  For this it produces the whole trace once. */
bool command_measure_shape(struct trace_info *info, trace_producer *produce, void *context, GError **error);

/* Sets *ranges to the numbers that an option's text names (sim/ranges.h), which must be below limit.  If text is NULL,
 * sets it to all numbers below limit.  False and *error if the text names none.  Free with ranges_free(). */
bool command_range_parse(const char *field, const char *text, uint32_t limit, struct ranges *ranges, GError **error);

#endif
