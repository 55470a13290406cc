/* error.h - which exit status follows from the code of an error.
 *
 * Every module that reports errors (GError) has a domain and an enum of codes.  Codes from ERROR_RUN on say that the
 * input was good and the run failed (exit status 1).  All other codes, and GLib's, say that the input is wrong: a
 * file, an option, a case (status 2).  So the code that reports an error decides the status, and no command needs to
 * guess. */
#ifndef SIM_ERROR_H
#define SIM_ERROR_H

#include <glib.h>
#include <stdbool.h>
#include "sim/command.h"

enum { ERROR_RUN = 1000 };

static inline int error_status(const GError *error)
{
    return error->code >= ERROR_RUN ? EXIT_RUN_FAILED : EXIT_BAD_INPUT;
}

/* g_set_error() for a return statement.  The value is false, or NULL. */
#define error_false(...) (g_set_error(__VA_ARGS__), false)
#define error_null(...)  (g_set_error(__VA_ARGS__), NULL)

#endif
