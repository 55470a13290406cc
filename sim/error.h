/* error.h - which exit status follows from the code of an error.
 *
 * Codes from ERROR_RUN on say that the input was good and the run failed (exit status 1).  All other codes, and GLib's,
 * say that the input is wrong: a file, an option, a case (status 2).  So the function that sets an error decides the
 * status, and no command needs to guess.  A module whose callers distinguish its errors has its own domain and
 * codes. */
#ifndef SIM_ERROR_H
#define SIM_ERROR_H

#include <glib.h>
#include <stdbool.h>
#include "sim/command.h"

#define EPTWIN_ERROR (g_quark_from_static_string("eptwin"))
enum error_code { ERROR_INPUT, ERROR_RUN = 1000 };

static inline int error_status(const GError *error)
{
    return error->code >= ERROR_RUN ? EXIT_RUN_FAILED : EXIT_BAD_INPUT;
}

/* Sets *error to a message in printf's form, and returns false.  error_input(): the input is wrong.  error_run(): the
 * run failed. */
bool error_input(GError **error, const char *format, ...) G_GNUC_PRINTF(2, 3);
bool error_run(GError **error, const char *format, ...) G_GNUC_PRINTF(2, 3);
/* Moves the first error of a list to *error, and frees and clears the others.  Returns whether there was one. */
bool error_first(GError **list, size_t count, GError **error);
/* error_input() in a function that returns a pointer: its value is NULL. */
#define error_null(...) (error_input(__VA_ARGS__), NULL)

#endif
