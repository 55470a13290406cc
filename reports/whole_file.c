/* whole_file.c - whole files, read with a limit and written beside and renamed.  Knows nothing of what they hold. */
#include "reports/whole_file.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool whole_file_stream_write(FILE *stream, const char *path, const char *text, size_t size_bytes,
                                    GError **error)
{
    const bool done = fwrite(text, 1, size_bytes, stream) == size_bytes && fflush(stream) == 0;
    if (!done)
        g_set_error(error, WHOLE_FILE_ERROR, 0, "%s: cannot write: %s", path, g_strerror(errno));
    return done;
}

/* Renaming over a device or a pipe would replace it by a file. */
static bool whole_file_in_place_write(const char *path, const char *text, size_t size_bytes, GError **error)
{
    FILE *stream = fopen(path, "w");
    if (!stream) {
        g_set_error(error, WHOLE_FILE_ERROR, 0, "%s: cannot open for writing: %s", path, g_strerror(errno));
        return false;
    }
    bool done = whole_file_stream_write(stream, path, text, size_bytes, error);
    if (fclose(stream) != 0 && done) {
        g_set_error(error, WHOLE_FILE_ERROR, 0, "%s: cannot write: %s", path, g_strerror(errno));
        done = false;
    }
    return done;
}

bool whole_file_write(const char *path, const char *text, size_t size_bytes, GError **error)
{
    assert(path && (text || size_bytes == 0));
    if (strcmp(path, "-") == 0)
        return whole_file_stream_write(stdout, "standard output", text, size_bytes, error);

    struct stat status;
    const bool exists = stat(path, &status) == 0;
    if (exists && S_ISDIR(status.st_mode)) {
        g_set_error(error, WHOLE_FILE_ERROR, 0, "%s: cannot write: is a directory", path);
        return false;
    }
    /* /dev/stdout and its kin are names of what is open already, whatever that is. */
    const bool open_already = g_str_has_prefix(path, "/dev/") || g_str_has_prefix(path, "/proc/");
    if (exists && (open_already || !S_ISREG(status.st_mode)))
        return whole_file_in_place_write(path, text, size_bytes, error);

    char *resolved = exists ? realpath(path, NULL) : NULL;    /* a link stays a link */
    GError *cause = NULL;
    const bool done = g_file_set_contents_full(resolved ? resolved : path, text, (gssize)size_bytes,
                                               G_FILE_SET_CONTENTS_CONSISTENT, 0644, &cause);
    free(resolved);
    if (!done) {
        const char *reason = strrchr(cause->message, ':');    /* GLib names its temporary file before it */
        g_set_error(error, WHOLE_FILE_ERROR, 0, "%s: cannot write:%s", path, reason ? reason + 1 : " failed");
        g_error_free(cause);
    }
    return done;
}

char *whole_file_read(const char *path, size_t size_max, size_t *size_bytes, GError **error)
{
    assert(path && size_bytes);
    const bool standard = strcmp(path, "-") == 0;
    const char *name = standard ? "standard input" : path;
    FILE *stream = standard ? stdin : fopen(path, "r");
    if (!stream) {
        g_set_error(error, WHOLE_FILE_ERROR, 0, "%s: cannot open: %s", name, g_strerror(errno));
        return NULL;
    }
    GByteArray *all = g_byte_array_new();
    guint8 part[16384];
    size_t count;
    while (all->len <= size_max && (count = fread(part, 1, sizeof part, stream)) > 0)
        g_byte_array_append(all, part, (guint)count);
    const int failed = ferror(stream) ? (errno ? errno : EIO) : 0;
    if (!standard) fclose(stream);
    if (failed || all->len > size_max) {
        if (failed) g_set_error(error, WHOLE_FILE_ERROR, 0, "%s: cannot read: %s", name, g_strerror(failed));
        else g_set_error(error, WHOLE_FILE_ERROR, 0, "%s: longer than the limit of %zu bytes", name, size_max);
        g_byte_array_free(all, TRUE);
        return NULL;
    }
    *size_bytes = all->len;
    g_byte_array_append(all, (const guint8 *)"", 1);
    return (char *)g_byte_array_free(all, FALSE);
}
