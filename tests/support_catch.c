/* support_catch.c - redirects standard error into a file and back; see support_catch.h. */
#include "tests/support_catch.h"
#include "tests/unit.h"

#include <glib.h>
#include <glib/gstdio.h>
#include <stdint.h>
#include <unistd.h>

static char *path;
static int saved;

void catch_start(void)
{
    GError *error = NULL;
    const int fd = g_file_open_tmp("eptwin-test-XXXXXX", &path, &error);
    g_assert_no_error(error);
    fflush(stderr);
    saved = dup(2);
    dup2(fd, 2);
    close(fd);
}

char *catch_end(void)
{
    char *text = NULL;
    fflush(stderr);
    dup2(saved, 2);
    close(saved);
    g_file_get_contents(path, &text, NULL, NULL);
    g_unlink(path);
    g_free(path);
    return text;
}

void *unit_made(const void *pointer, const char *text, const char *file, unsigned line)
{
    CU_assertImplementation(pointer != NULL, line, text, file, "", CU_TRUE);
    return (void *)(uintptr_t)pointer;
}

static bool error_end(GError **error, bool as_expected, const char *expected)
{
    if (!as_expected)
        printf("\n      expected %s\n      found    %s\n", expected, *error ? (*error)->message : "no error");
    g_clear_error(error);
    return as_expected;
}

bool error_is(GError **error, const char *message)
{
    return error_end(error, *error && strcmp((*error)->message, message) == 0, message);
}

bool error_holds(GError **error, const char *part)
{
    return error_end(error, *error && strstr((*error)->message, part), part);
}
