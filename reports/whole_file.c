/* whole_file.c - whole files, read with a limit and written by new_file.c.  Knows nothing of what they hold. */
#include "reports/whole_file.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "sim/new_file.h"

bool whole_file_write(const char *path, const char *text, size_t size_bytes, GError **error)
{
    assert(path && (text || size_bytes == 0));
    struct new_file *file = new_file_open(path, error);
    if (!file) return false;
    if (new_file_write(file, text, size_bytes, error)) return new_file_commit(file, error);
    new_file_discard(file);
    return false;
}

char *whole_file_read(const char *path, size_t size_max, size_t *size_bytes, GError **error)
{
    assert(path && size_bytes);
    const bool standard = strcmp(path, "-") == 0;
    const char *name = standard ? "standard input" : path;
    FILE *stream = standard ? stdin : fopen(path, "r");
    if (!stream) {
        g_set_error(error, WHOLE_FILE_ERROR, WHOLE_FILE_ERROR_IO, "%s: cannot open: %s", name, g_strerror(errno));
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
        if (failed)
            g_set_error(error, WHOLE_FILE_ERROR, WHOLE_FILE_ERROR_IO, "%s: cannot read: %s", name, g_strerror(failed));
        else
            g_set_error(error, WHOLE_FILE_ERROR, WHOLE_FILE_ERROR_SIZE, "%s: longer than the limit of %zu bytes", name,
                        size_max);
        g_byte_array_free(all, TRUE);
        return NULL;
    }
    *size_bytes = all->len;
    g_byte_array_append(all, (const guint8 *)"", 1);
    return (char *)g_byte_array_free(all, FALSE);
}
