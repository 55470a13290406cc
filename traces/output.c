/* output.c - write beside, then rename; see output.h. */
#include "traces/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>
#include "traces/trace.h"

enum { BUFFER_BYTES = 1 << 18 };

struct output {
    char *path, *beside;            /* beside: NULL when written in place */
    int file;
    bool nameless;                  /* the file has no name yet, not even beside */
    uint64_t offset;
    ZSTD_CCtx *context;
    uint8_t *buffer;                /* bytes on their way to the file */
    size_t used;
};

static bool output_error(const struct output *o, const char *doing, GError **error)
{
    g_set_error(error, TRACE_ERROR, TRACE_ERROR_IO, "%s: cannot %s: %s", o->path, doing, g_strerror(errno));
    return false;
}

/* Opens a file in the folder of the name.  Where the file system can, it has no name of its own until the
 * end: then nothing is left even of a process that is killed.  Else it is beside the name, and unlinked on
 * failure. */
static bool beside_open(struct output *o, GError **error)
{
    char *const folder = g_path_get_dirname(o->path);
    o->file = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
    g_free(folder);
    o->beside = g_strdup_printf("%s.XXXXXX", o->path);
    o->nameless = o->file >= 0;
    if (o->nameless)
        return true;
    o->file = mkstemp(o->beside);
    if (o->file < 0) {
        output_error(o, "write", error);
        g_clear_pointer(&o->beside, g_free);
        return false;
    }
    const mode_t mask = umask(0);
    umask(mask);
    (void)fchmod(o->file, 0666 & ~mask);        /* what any new file gets */
    return true;
}

static bool target_open(struct output *o, GError **error)
{
    struct stat status;
    if (strcmp(o->path, "-") == 0)
        o->file = dup(STDOUT_FILENO);
    else if (stat(o->path, &status) == 0 && !S_ISREG(status.st_mode))
        o->file = open(o->path, O_WRONLY | O_CLOEXEC);
    else
        return beside_open(o, error);
    return o->file >= 0 || output_error(o, "open", error);
}

struct output *output_open(const char *path, int zstd_level, GError **error)
{
    struct output *const o = g_new0(struct output, 1);
    o->path = g_strdup(path);
    o->file = -1;
    if (!target_open(o, error)) {
        output_discard(o);
        return NULL;
    }
    o->buffer = g_malloc(BUFFER_BYTES);
    if (zstd_level) {
        o->context = ZSTD_createCCtx();
        ZSTD_CCtx_setParameter(o->context, ZSTD_c_compressionLevel, zstd_level);
        ZSTD_CCtx_setParameter(o->context, ZSTD_c_checksumFlag, 1);
    }
    return o;
}

static bool buffer_flush(struct output *o, GError **error)
{
    for (size_t done = 0; done < o->used;) {
        const ssize_t n = write(o->file, o->buffer + done, o->used - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return output_error(o, "write", error);
        done += (size_t)n;
    }
    o->used = 0;
    return true;
}

/* Compresses data, or ends the zstd frame. */
static bool deflate_some(struct output *o, const void *data, size_t size, ZSTD_EndDirective end,
                         GError **error)
{
    ZSTD_inBuffer in = { data, size, 0 };
    for (;;) {
        ZSTD_outBuffer out = { o->buffer, BUFFER_BYTES, o->used };
        const size_t left = ZSTD_compressStream2(o->context, &out, &in, end);
        if (ZSTD_isError(left)) {
            g_set_error(error, TRACE_ERROR, TRACE_ERROR_IO, "%s: cannot compress: %s", o->path,
                        ZSTD_getErrorName(left));
            return false;
        }
        o->used = out.pos;
        if (end == ZSTD_e_end ? left == 0 : in.pos == in.size)
            return true;
        if (!buffer_flush(o, error))
            return false;
    }
}

bool output_write(struct output *o, const void *data, size_t size, GError **error)
{
    o->offset += size;
    if (o->context)
        return deflate_some(o, data, size, ZSTD_e_continue, error);
    const uint8_t *at = data;
    while (size) {
        const size_t now = MIN(size, BUFFER_BYTES - o->used);
        memcpy(o->buffer + o->used, at, now);
        o->used += now;
        at += now;
        size -= now;
        if (o->used == BUFFER_BYTES && !buffer_flush(o, error))
            return false;
    }
    return true;
}

uint64_t output_offset(const struct output *o)
{
    return o->offset;
}

/* Gives the nameless file the name beside. */
static bool beside_link(struct output *o, GError **error)
{
    char from[64];
    g_snprintf(from, sizeof from, "/proc/self/fd/%d", o->file);
    /* A name that is free; "XXXXXX" is what mkstemp() would have replaced. */
    for (uint32_t i = 0; i < 1000000; i++) {
        g_snprintf(o->beside + strlen(o->path), 8, ".%06u", i);
        if (linkat(AT_FDCWD, from, AT_FDCWD, o->beside, AT_SYMLINK_FOLLOW) == 0) {
            o->nameless = false;
            return true;
        }
        if (errno != EEXIST)
            break;
    }
    return output_error(o, "name it", error);
}

bool output_commit(struct output *o, GError **error)
{
    bool good = (!o->context || deflate_some(o, NULL, 0, ZSTD_e_end, error)) && buffer_flush(o, error) &&
                (!o->nameless || beside_link(o, error));
    const int file = o->file;
    o->file = -1;
    if (close(file) != 0 && good)
        good = output_error(o, "write", error);
    if (good && o->beside) {
        good = rename(o->beside, o->path) == 0 || output_error(o, "rename to it", error);
        if (good)
            g_clear_pointer(&o->beside, g_free);
    }
    output_discard(o);
    return good;
}

void output_discard(struct output *o)
{
    if (!o)
        return;
    if (o->file >= 0)
        close(o->file);
    if (o->beside && !o->nameless)
        unlink(o->beside);
    ZSTD_freeCCtx(o->context);
    g_free(o->buffer);
    g_free(o->beside);
    g_free(o->path);
    g_free(o);
}
