/* command.h - the functions of eptwin's subcommands and their exit statuses.  sim/main.c has the table of
 * subcommands. */
#ifndef SIM_COMMAND_H
#define SIM_COMMAND_H

/* Exit statuses of every command.  EXIT_BAD_INPUT: an option or the content of a file is wrong, or an input cannot be
 * read.  EXIT_RUN_FAILED: the run or the writing of its output failed, or a check failed. */
enum { EXIT_OK = 0, EXIT_RUN_FAILED = 1, EXIT_BAD_INPUT = 2 };

/* A function that runs a command.  argv[0] is the command's own name ("simulate").  Returns the exit status. */
typedef int command_function(int argc, char **argv);

command_function command_cluster;       /* models/cluster_command.c */
command_function command_kernel;        /* models/kernels/kernel_command.c */
command_function command_simulate;      /* models/predict/simulate_command.c */
command_function command_step;          /* models/step/step_command.c */
command_function command_sweep;         /* models/predict/sweep_command.c */
command_function command_tune;          /* models/predict/tune_command.c */
command_function command_which;         /* models/predict/which_command.c */
command_function command_validate;      /* models/predict/validate_command.c */
command_function command_diagnose;      /* models/predict/diagnose_command.c */
command_function command_explain_trace; /* models/predict/explain_trace_command.c */
command_function command_replay;        /* replay/replay_command.c */
command_function command_measure;       /* replay/measure/measure_command.c */
command_function command_import;        /* models/predict/import_command.c */
command_function command_compare;       /* models/predict/compare_command.c */
command_function command_report;        /* models/predict/report_command.c */
command_function command_fit;           /* models/predict/fit_command.c */
command_function command_probe;         /* replay/probe/probe_command.c */
command_function command_trace;         /* traces/commands/trace_command.c */

#endif
