/* error.c - the two kinds of errors. */
#include "sim/error.h"

static void put(GError **error, enum error_code code, const char *format, va_list arguments)
{
    g_propagate_error(error, g_error_new_valist(EPTWIN_ERROR, code, format, arguments));
}

bool error_input(GError **error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    put(error, ERROR_INPUT, format, arguments);
    va_end(arguments);
    return false;
}

bool error_run(GError **error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    put(error, ERROR_RUN, format, arguments);
    va_end(arguments);
    return false;
}

bool error_first(GError **list, size_t count, GError **error)
{
    bool any = false;
    for (size_t i = 0; i < count; i++) {
        if (!list[i]) continue;
        if (any) g_clear_error(&list[i]);
        else g_propagate_error(error, g_steal_pointer(&list[i]));
        any = true;
    }
    return any;
}
