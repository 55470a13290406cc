/* trace_command.c - `eptwin trace`: the table of its subcommands. */
#include "traces/commands/trace_command.h"

#include <stdio.h>
#include <string.h>

static const struct subcommand {
    const char *name;
    command_function *run;
    const char *purpose;
} subcommands[] = {
    { "info", trace_command_info, "shape, provenance, loads and how uneven they are" },
    { "check", trace_command_check, "read everything and report what is wrong" },
    { "convert", trace_command_convert, "write it in another format" },
    { "slice", trace_command_slice, "cut out steps, layers, ranks, tokens" },
    { "merge", trace_command_merge, "join traces by steps, layers or ranks" },
    { "generate", trace_command_generate, "make a synthetic trace: uniform, skewed, correlated" },
    { "remap", trace_command_remap, "change the number of ranks, or which rank holds which expert" },
    { "diff", trace_command_diff, "compare two traces" },
    { "chakra", trace_command_chakra, "write what ranks send each other as Chakra execution traces" },
};

static void trace_help(FILE *out)
{
    fputs("eptwin trace - routing traces: which experts every token of every rank went to\n\n"
          "  eptwin trace SUBCOMMAND --help      explain a subcommand\n\n",
          out);
    for (size_t i = 0; i < G_N_ELEMENTS(subcommands); i++)
        fprintf(out, "%-10s%s\n", subcommands[i].name, subcommands[i].purpose);
    fputs(
        "\n"
        "Formats, told by their bytes: .npy and .csv (plain or .zst), .ept (eptwin's own: any step and layer at "
        "once),\n"
        ".npz, .pt (SGLang's recorder, router replay), JSON lines of Megatron-Core and of routed experts.  Where bytes "
        "do\n"
        "not tell: vllm:FILE, routed@TOPK:FILE, llama@TOPK:FILE, splits@BYTES:FILE, npy:FILE, counts:FILE (how often "
        "each\n"
        "expert was chosen).\n"
        "\"-\" is standard input or output.  Exit status: 0 success, 1 check or diff found something, 2 bad input.\n\n"
        "  eptwin trace info decode_ep64.ept\n"
        "  eptwin trace convert routing.npy.zst routing.ept --trace-weights weights.npy\n"
        "  eptwin trace generate skewed.ept --num-ranks 64 --routing zipf:1.1 --steps 4 --correlation 0.8\n"
        "  eptwin trace remap skewed.ept balanced.ept --placement eplb:64\n",
        out);
}

int command_trace(int argc, char **argv)
{
    const char *const name = argc > 1 ? argv[1] : "";
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        trace_help(stdout);
        return EXIT_OK;
    }
    for (size_t i = 0; i < G_N_ELEMENTS(subcommands); i++)
        if (strcmp(name, subcommands[i].name) == 0) return subcommands[i].run(argc - 1, argv + 1);
    if (argc < 2) {
        trace_help(stderr);
        return EXIT_BAD_INPUT;
    }
    const char *names[G_N_ELEMENTS(subcommands) + 1] = { NULL };
    for (size_t i = 0; i < G_N_ELEMENTS(subcommands); i++) names[i] = subcommands[i].name;
    return command_line_unknown("eptwin trace", "subcommand", name, names);
}
