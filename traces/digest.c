/* digest.c - SHA-256 of inputs, shortened; see digest.h. */
#include "traces/digest.h"

#include <glib.h>
#include <string.h>
#include "traces/formats/ept.h"
#include "traces/stream.h"
#include "traces/trace_source.h"

enum { PART_BYTES = 1 << 18 };

char *digest_text(const char *text, size_t size_bytes)
{
    char *digest = g_compute_checksum_for_data(G_CHECKSUM_SHA256, (const guchar *)text, size_bytes);
    digest[DIGEST_CHARS] = '\0';
    return digest;
}

static bool stream_add(struct stream *stream, GChecksum *checksum)
{
    g_autofree guchar *part = g_malloc(PART_BYTES);
    size_t got = 0;
    do {
        if (!stream_read(stream, part, PART_BYTES, &got, NULL)) return false;
        g_checksum_update(checksum, part, (gssize)got);
    } while (got == PART_BYTES);
    return true;
}

/* Adds an .ept file's header and the checksums of its frames, in place of the file's bytes. */
static bool ept_add(const char *path, GChecksum *checksum)
{
    g_autoptr(trace) trace = trace_open(path, NULL, NULL);
    return trace && ept_trace_digest(trace, checksum);
}

static bool ept_told(struct stream *stream)
{
    uint8_t magic[8];
    size_t got = 0;
    const bool read = stream_read(stream, magic, sizeof magic, &got, NULL) && ept_magic(magic, got);
    return stream_seek(stream, 0, NULL) && read && !stream_is_compressed(stream);
}

char *digest_file(const char *words, const char *path)
{
    const bool readable = !g_file_test(path, G_FILE_TEST_EXISTS) || g_file_test(path, G_FILE_TEST_IS_REGULAR);
    struct stream *const stream = readable && strcmp(path, "-") != 0 ? stream_open(path, NULL) : NULL;
    if (!stream) return NULL;
    g_autoptr(GChecksum) checksum = g_checksum_new(G_CHECKSUM_SHA256);
    g_checksum_update(checksum, (const guchar *)words, (gssize)strlen(words) + 1); /* with the NUL at its end */
    const bool added = ept_told(stream) ? ept_add(path, checksum) : stream_add(stream, checksum);
    char *const digest = added ? g_strndup(g_checksum_get_string(checksum), DIGEST_CHARS) : NULL;
    stream_close(stream);
    return digest;
}
