/* command_line.h - how every command reads its options, explains them, and reports words that it does not understand.
 *
 * Options are GLib's entries in topics, each with a title, so that --help shows them in groups.  Errors have one
 * form, "--top: expected a whole number, found 'x'".  A name that is similar to a known one gets "did you mean". */
#ifndef SIM_COMMAND_LINE_H
#define SIM_COMMAND_LINE_H

#include <glib.h>
#include <stdbool.h>
#include "sim/error.h"
#include "sim/ranges.h"

/* A title in --help and the options below it.  entries end with a zero entry; callbacks get NULL as data. */
struct command_topic {
    const char *title;
    GOptionEntry *entries;
    bool shared; /* several commands have it: --help lists only the names of its options, --help all explains them */
};

struct command_line {
    const char *name;                   /* as typed after "eptwin": "simulate", "trace slice" */
    const char *arguments;              /* the arguments after the options: "RECORD...", or NULL for none */
    const char *about;                  /* a description with examples, printed before the options */
    const char *details;                /* printed after the options; may be NULL */
    const struct command_topic *topics; /* end with a zero topic */
};

/* Reads argv, whose first word is the command's name, into the variables of the entries.  *words gets the words that
 * are not options, in order, NULL-terminated.  If words is NULL, such words are an error.  Words and texts of entries
 * are never freed, because a process reads one command line.  With -h or --help it prints the help to standard output
 * and ends the process, with status 0, or 1 if the help could not be written.  After "--help all" the help explains
 * shared topics, too. */
bool command_line_parse(const struct command_line *line, int argc, char **argv, char ***words, GError **error);

/* Prints "eptwin NAME: MESSAGE" to standard error, frees error, and returns the exit status for the error's code. */
int command_line_fail(const char *name, GError *error);

/* Prints "PROGRAM: unknown WHAT 'FOUND', expected ..." to standard error, with the most similar one of names
 * (NULL-terminated).  Returns EXIT_BAD_INPUT. */
int command_line_unknown(const char *program, const char *what, const char *found, const char *const *names);

/* Lets g_auto(ranges) free the numbers of a range.  sim/ranges.h does not know GLib. */
typedef struct ranges ranges;
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(ranges, ranges_free)

/* A subcommand, and its line in the group's --help.  If details are given, --help after it prints them below the
 * arguments and the purpose.  Otherwise the subcommand prints its own help. */
struct subcommand {
    const char *name;
    command_function *run;
    const char *purpose, *arguments, *details;
};
/* A command of subcommands, of which the last has no name.  --help prints `begin`, the list and `end`. */
struct command_group {
    const char *name, *begin, *end;
    const struct subcommand *subcommands;
};
/* Runs the subcommand that argv[1] names, with argv from there on.  Returns its exit status. */
int command_group_run(const struct command_group *group, int argc, char **argv);

/* Entries that several commands have. */
#define COMMAND_LINE_OUTPUT(variable, text) \
    { \
        "output", 'o', 0, G_OPTION_ARG_FILENAME, variable, text, "FILE" \
    }
#define COMMAND_LINE_JOBS(variable, text) \
    { \
        "jobs", 'j', 0, G_OPTION_ARG_INT, variable, text, "N" \
    }
#define COMMAND_LINE_FORMAT(variable, text) \
    { \
        "format", 0, 0, G_OPTION_ARG_STRING, variable, text, "NAME" \
    }

#endif
