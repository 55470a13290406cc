/* stream.c - reads plain and zstd-compressed files in one way; see stream.h. */
#include "traces/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "sim/share.h"
#include "sim/unzstd.h"
#include "traces/trace.h"

enum { SPOOL_CHUNK = 1 << 18 };

struct stream {
    char *path;
    int file;
    uint64_t file_bytes;
    uint64_t offset;       /* where the next read begins, in decompressed bytes */
    struct unzstd *unzstd; /* NULL if the file is not compressed */
};

static bool system_error(GError **error, const char *path, const char *doing)
{
    return error_input(error, "%s: cannot %s: %s", path, doing, g_strerror(errno));
}

/* Makes a file without a name.  Returns its descriptor, or -1. */
static int file_unnamed(const char *path, GError **error)
{
    FILE *const target = tmpfile();
    if (!target) {
        system_error(error, path, "make a temporary file");
        return -1;
    }
    const int file = dup(fileno(target));
    (void)fclose(target);
    if (file < 0) system_error(error, path, "keep a temporary file");
    return file;
}

static bool file_append(int file, const char *path, const char *bytes, size_t size, GError **error)
{
    while (size) {
        const ssize_t put = write(file, bytes, size);
        if (put < 0 && errno != EINTR) return system_error(error, path, "write a temporary copy");
        bytes += put > 0 ? put : 0;
        size -= put > 0 ? (size_t)put : 0;
    }
    return true;
}

/* Copies a pipe into an unnamed file, so that it can be read several times and in any order. */
static int spool(int source, const char *path, GError **error)
{
    const int file = file_unnamed(path, error);
    if (file < 0) return -1;
    g_autofree char *chunk = g_malloc(SPOOL_CHUNK);
    bool good = true;
    for (;;) {
        const ssize_t got = read(source, chunk, SPOOL_CHUNK);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) good = system_error(error, path, "read");
        if (got <= 0 || !(good = file_append(file, path, chunk, (size_t)got, error))) break;
    }
    if (good) return file;
    close(file);
    return -1;
}

/* Reads bytes at an offset of the stored file, without decompression.  *got is less than size only at the file's
 * end. */
static bool file_read(const struct stream *s, uint64_t offset, void *buffer, size_t size, size_t *got, GError **error)
{
    *got = 0;
    while (*got < size) {
        const ssize_t n = pread(s->file, (char *)buffer + *got, size - *got, (off_t)(offset + *got));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return system_error(error, s->path, "read");
        if (n == 0) break;
        *got += (size_t)n;
    }
    return true;
}

static bool source_read(void *context, uint64_t offset, void *buffer, size_t size, size_t *got, GError **error)
{
    return file_read(context, offset, buffer, size, got, error);
}

static bool stream_detect(struct stream *s, GError **error)
{
    uint8_t magic[4];
    size_t got;
    if (!file_read(s, 0, magic, sizeof magic, &got, error)) return false;
    const struct unzstd_source source = { .read = source_read, .context = s, .name = s->path };
    if (unzstd_begins(magic, got)) s->unzstd = unzstd_new(&source);
    return true;
}

/* Opens the descriptor from which path is read: the file's own, or that of a copy of a pipe. */
static int path_open(const char *path, uint64_t *file_bytes, GError **error)
{
    const bool standard = strcmp(path, "-") == 0;
    struct stat status;
    int file = standard ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &status) != 0) {
        system_error(error, path, "open");
        goto refuse;
    }
    if (S_ISDIR(status.st_mode)) {
        errno = EISDIR;
        system_error(error, path, "open");
        goto refuse;
    }
    if (standard || !S_ISREG(status.st_mode)) {
        const int copy = spool(file, path, error);
        close(file);
        file = copy;
        if (file < 0) return -1;
        if (fstat(file, &status) != 0) {
            system_error(error, path, "look at");
            goto refuse;
        }
    }
    *file_bytes = (uint64_t)status.st_size;
    return file;
refuse:
    if (file >= 0) close(file);
    return -1;
}

struct stream *stream_open(const char *path, GError **error)
{
    uint64_t file_bytes = 0;
    g_autofree char *shipped = g_file_test(path, G_FILE_TEST_EXISTS) ? NULL : share_find(SHARE_SAMPLES, path);
    path = shipped ? shipped : path;
    const int file = path_open(path, &file_bytes, error);
    if (file < 0) return NULL;
    struct stream *const s = g_new0(struct stream, 1);
    s->path = g_strdup(strcmp(path, "-") == 0 ? "(standard input)" : path);
    s->file = file;
    s->file_bytes = file_bytes;
    if (!stream_detect(s, error)) {
        stream_close(s);
        return NULL;
    }
    return s;
}

struct stream *stream_of_bytes(const char *path, const void *bytes, size_t size, GError **error)
{
    const int file = file_unnamed(path, error);
    if (file < 0) return NULL;
    struct stream *const s = g_new0(struct stream, 1);
    s->path = g_strdup(path);
    s->file = file;
    s->file_bytes = size;
    if (file_append(file, path, bytes, size, error)) return s;
    stream_close(s);
    return NULL;
}

void stream_close(struct stream *s)
{
    if (!s) return;
    unzstd_free(s->unzstd);
    close(s->file);
    g_free(s->path);
    g_free(s);
}

const char *stream_path(const struct stream *s) { return s->path; }
bool stream_is_compressed(const struct stream *s) { return s->unzstd != NULL; }
uint64_t stream_file_bytes(const struct stream *s) { return s->file_bytes; }
uint64_t stream_offset(const struct stream *s) { return s->offset; }

bool stream_check_growth(const struct stream *s, uint64_t bytes, GError **error)
{
    if (bytes <= STREAM_FREE_BYTES || bytes / STREAM_RATIO_MAX <= s->file_bytes) return true;
    return error_input(error,
                       "%s: expected decompressed data of at most %d times the file's %" G_GUINT64_FORMAT
                       " bytes, found %" G_GUINT64_FORMAT " or more",
                       s->path, STREAM_RATIO_MAX, s->file_bytes, bytes);
}

bool stream_read(struct stream *s, void *buffer, size_t size, size_t *got, GError **error)
{
    *got = 0;
    const bool good = s->unzstd ? unzstd_read(s->unzstd, buffer, size, got, error)
                                : file_read(s, s->offset, buffer, size, got, error);
    if (!good) return false;
    s->offset += *got;
    return !s->unzstd || stream_check_growth(s, s->offset, error);
}

/* Whether as many bytes of something were found as expected; else sets *error. */
static bool whole(const struct stream *s, uint64_t offset, size_t size, size_t got, const char *what, GError **error)
{
    if (got == size) return true;
    return error_input(error, "%s: offset %" G_GUINT64_FORMAT ": expected %zu bytes of %s, found %zu (truncated?)",
                       s->path, offset, size, what, got);
}

bool stream_read_exactly(struct stream *s, void *buffer, size_t size, const char *what, GError **error)
{
    const uint64_t start = s->offset;
    size_t got;
    return stream_read(s, buffer, size, &got, error) && whole(s, start, size, got, what, error);
}

bool stream_seek(struct stream *s, uint64_t offset, GError **error)
{
    if (!s->unzstd || offset == s->offset) {
        s->offset = offset;
        return true;
    }
    if (offset < s->offset) {
        unzstd_rewind(s->unzstd);
        s->offset = 0;
    }
    g_autofree uint8_t *skipped = g_malloc(SPOOL_CHUNK);
    bool good = true;
    while (good && s->offset < offset)
        good = stream_read_exactly(s, skipped, MIN(offset - s->offset, (uint64_t)SPOOL_CHUNK), "data", error);
    return good;
}

bool stream_read_raw(struct stream *s, uint64_t offset, void *buffer, size_t size, const char *what, GError **error)
{
    size_t got;
    return file_read(s, offset, buffer, size, &got, error) && whole(s, offset, size, got, what, error);
}
