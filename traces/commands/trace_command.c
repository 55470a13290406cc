/* trace_command.c - `eptwin trace`: the table of its subcommands. */
#include "traces/commands/trace_command.h"

static const struct subcommand subcommands[] = {
    { "info", trace_command_info, "show shape, provenance, loads and imbalance", NULL, NULL },
    { "check", trace_command_check, "read everything and report errors", NULL, NULL },
    { "convert", trace_command_convert, "write it in another format", NULL, NULL },
    { "slice", trace_command_slice, "cut out steps, layers, ranks, tokens", NULL, NULL },
    { "merge", trace_command_merge, "join traces by steps, layers or ranks", NULL, NULL },
    { "generate", trace_command_generate, "make a synthetic trace: uniform, skewed, correlated", NULL, NULL },
    { "remap", trace_command_remap, "change the number of ranks or the placement of experts", NULL, NULL },
    { "diff", trace_command_diff, "compare two traces", NULL, NULL },
    { "chakra", trace_command_chakra, "write the traffic between ranks as Chakra execution traces", NULL, NULL },
    { 0 },
};

static const char begin[] = "eptwin trace - routing traces: the experts of every token of every rank\n"
                            "\n"
                            "  eptwin trace SUBCOMMAND --help      explain a subcommand\n"
                            "\n";
static const char end[] =
    "\n"
    "Formats that are recognized by content: .npy and .csv (plain or .zst), .ept (eptwin's own, with random\n"
    "access to steps and layers), .npz, .pt (SGLang's recorder, router replay), JSON lines of Megatron-Core and\n"
    "of routed experts.  Other formats need a prefix: vllm:FILE, routed@TOPK:FILE, llama@TOPK:FILE,\n"
    "splits@BYTES:FILE, npy:FILE, counts:FILE (how often each expert was chosen).\n"
    "\"-\" is standard input or output.  Exit status: 0 success, 1 check or diff found something, 2 bad input.\n"
    "\n"
    "  eptwin trace info decode_ep64.ept\n"
    "  eptwin trace convert routing.npy.zst routing.ept --trace-weights weights.npy\n"
    "  eptwin trace generate skewed.ept --num-ranks 64 --routing zipf:1.1 --steps 4 --correlation 0.8\n"
    "  eptwin trace remap skewed.ept balanced.ept --placement eplb:64\n";

int command_trace(int argc, char **argv)
{
    return command_group_run(&(struct command_group){ "trace", begin, end, subcommands }, argc, argv);
}
