/* main.c - the program: a table of commands, and the help that explains them.
 *
 * Each command parses its own options and prints its own --help.  This file knows only the commands' names, their
 * purposes, and one example of each. */
#include "sim/command.h"
#include "sim/command_line.h"
#include "sim/version.h"

#include <glib.h>
#include <locale.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct command {
    const char *name;
    command_function *run;
    const char *purpose;
    const char *example;
} commands[] = {
    { "probe", command_probe, "describe this host: GPUs, NICs, how near they are to each other, what is not set up",
      "eptwin probe --save host.tar.zst" },
    { "trace", command_trace, "inspect, convert, generate and place routing traces",
      "eptwin trace info routing.npy.zst" },
    { "cluster", command_cluster, "list, draw and check the machines that eptwin can predict", "eptwin cluster list" },
    { "kernel", command_kernel, "show what the loops of the kernel libraries do, site by site", "eptwin kernel list" },
    { "simulate", command_simulate, "predict dispatch and combine on a described cluster, in virtual time",
      "eptwin simulate --cluster h800-cx7 --trace routing.npy.zst --layer 2 --output predicted.csv" },
    { "step", command_step, "predict a whole decode, prefill or training step of a model: time, tokens/s, waiting",
      "eptwin step --net deepseek-v3 --cluster h800-cx7 --num-ranks 64 --batch 128" },
    { "sweep", command_sweep, "predict every combination of values of options and of cluster file keys",
      "eptwin sweep --cluster h800-cx7 --kernel normal --num-ranks 8,16 --num-sms 4:33:4" },
    { "which", command_which, "rank the libraries and transports for a cluster and a routing",
      "eptwin which --cluster h100-cx7 --num-ranks 16 --num-tokens 128" },
    { "tune", command_tune, "recommend SMs, chunks and rings for a cluster and a routing, as lines to paste",
      "eptwin tune --cluster h800-cx7 --kernel normal --num-ranks 16 --cached" },
    { "measure", command_measure, "run micro-benchmarks of links and of this machine",
      "eptwin measure --fabric shm --ranks 4 --output here.csv" },
    { "fit", command_fit, "make a cluster file from measurements", "eptwin fit here.csv --output here.ini" },
    { "replay", command_replay, "run the same dispatch and combine on the links of this machine",
      "eptwin replay --ranks 4 --trace routing.npy.zst --layers 0:3 --output measured.csv" },
    { "import", command_import, "convert the logs of other programs: DeepEP, nccl-tests, perftest, ...",
      "eptwin import test.log --output measured.csv" },
    { "compare", command_compare, "compare results side by side: predicted, measured, error, bottleneck",
      "eptwin compare predicted.csv measured.csv" },
    { "validate", command_validate, "predict every row of a table of measured cases",
      "eptwin validate cases.csv --cluster h800-cx7 --output errors.csv" },
    { "diagnose", command_diagnose, "find out why a cluster is slower than it should be",
      "eptwin diagnose measured.csv --cluster h800-cx7" },
    { "explain-trace", command_explain_trace, "show where the time of communication kernels in a profile went",
      "eptwin explain-trace rank*.json.gz --cluster h800-cx7 --num-tokens 4096" },
    { "report", command_report, "write results as one HTML page with plots",
      "eptwin report report.html predicted.csv measured.csv" },
};

enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

static void print_help(FILE *out)
{
    fputs("eptwin - a digital twin of MoE expert-parallel dispatch and combine\n"
          "\n"
          "  eptwin COMMAND [OPTION...]      run a command\n"
          "  eptwin COMMAND --help           explain a command and its options (or eptwin help COMMAND)\n"
          "  eptwin COMMAND --help all       also explain the options that it shares with other commands\n"
          "  eptwin --version                print the version (or -V)\n"
          "\n",
          out);
    for (int i = 0; i < COMMAND_COUNT; i++)
        fprintf(out, "%-13s %s\n              %s\n", commands[i].name, commands[i].purpose, commands[i].example);
    fputs("\n"
          "Predict first, then replay, then compare.  Prediction and replay write the same kind of file.\n"
          "If an option is given twice, the last value counts, unless its help says that it may be repeated.\n"
          "Exit status: 0 success, 1 the run failed, 2 bad input.\n",
          out);
}

static const struct command *command_find(const char *name)
{
    for (int i = 0; i < COMMAND_COUNT; i++)
        if (!strcmp(commands[i].name, name)) return &commands[i];
    return NULL;
}

static int command_unknown(const char *name)
{
    const char *names[COMMAND_COUNT + 1] = { NULL };

    for (int i = 0; i < COMMAND_COUNT; i++) names[i] = commands[i].name;
    return command_line_unknown("eptwin", "command", name, names);
}

/* Returns the exit status of a command that ended with `status`.  Output that cannot be written (a full disk, a closed
 * pipe) must not look like success. */
static int flush_output(int status)
{
    const bool failed = fflush(stdout) != 0 || ferror(stdout);

    if (failed && status == EXIT_OK) {
        perror("eptwin: standard output");
        return EXIT_RUN_FAILED;
    }
    return status;
}

/* Chooses the user's encoding for words on the command line.  If the environment names no encoding ("C"), UTF-8 is
 * chosen.
 * Numbers, sorting and messages are not localised. */
static void encoding_choose(void)
{
    const char *const chosen = setlocale(LC_CTYPE, "");

    if (!chosen || !strcmp(chosen, "C") || !strcmp(chosen, "POSIX")) setlocale(LC_CTYPE, "C.UTF-8");
}

/* Handles GLib's messages.  When memory runs out, GLib would end the process in its own way, but here the process ends
 * as sim/memory.h says. */
static void log_handle(const char *domain, GLogLevelFlags level, const char *message, void *context)
{
    const char *const what = strstr(message, "failed to allocate");

    if (!(level & G_LOG_LEVEL_ERROR) || !what) {
        g_log_default_handler(domain, level, message, context);
        return;
    }
    fprintf(stderr, "eptwin: out of memory: %s\n", what);
    _Exit(EXIT_RUN_FAILED);
}

int main(int argc, char **argv)
{
    const char *const name = argc > 1 ? argv[1] : "";

    signal(SIGXFSZ, SIG_IGN); /* a file larger than the limit is reported as an error of its write */
    encoding_choose();
    g_log_set_default_handler(log_handle, NULL);
    static char help_option[] = "--help";
    char *help_of[] = { argc > 2 ? argv[2] : NULL, help_option, argc > 3 ? argv[3] : NULL, NULL };
    const bool help = !strcmp(name, "help");

    if (help && argc > 2 && command_find(argv[2]))
        return flush_output(command_find(argv[2])->run(argc > 3 ? 3 : 2, help_of));
    if (help && argc > 2) return command_unknown(argv[2]);
    if (help || !strcmp(name, "--help") || !strcmp(name, "-h")) {
        print_help(stdout);
        return flush_output(EXIT_OK);
    }
    if (!strcmp(name, "--version") || !strcmp(name, "-V")) {
        printf("eptwin %s\n", eptwin_version());
        return flush_output(EXIT_OK);
    }
    const struct command *const command = command_find(name);

    if (!command) {
        if (argc > 1) return command_unknown(name);
        print_help(stderr);
        return EXIT_BAD_INPUT;
    }
    return flush_output(command->run(argc - 1, argv + 1));
}
