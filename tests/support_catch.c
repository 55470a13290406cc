/* support_catch.c - standard error into a file and back, see support_catch.h. */
#include "tests/support_catch.h"

#include <glib.h>
#include <glib/gstdio.h>
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
