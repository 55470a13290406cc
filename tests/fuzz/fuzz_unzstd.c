/* fuzz_unzstd.c - libFuzzer target of the reader of zstd's data.  Whatever the bytes are, reading them in small pieces,
 * from a source that gives few bytes at a time, must give the same result as reading them at once. */
#include <stdlib.h>
#include <string.h>

#include "sim/unzstd.h"

enum { PLAIN_MAX = 1 << 20 };

struct source {
    const uint8_t *data;
    size_t size, most;
};

static bool source_read(void *context, uint64_t offset, void *buffer, size_t size, size_t *got, GError **error)
{
    const struct source *s = context;
    (void)error;
    if (offset > s->size) abort();
    *got = MIN(MIN(size, s->most), s->size - (size_t)offset);
    memcpy(buffer, s->data + offset, *got);
    return true;
}

/* Reads pieces of that size until the end, an error or the limit.  Returns the number of bytes read. */
static size_t plain_read(struct unzstd *u, uint8_t *plain, size_t piece, bool *good)
{
    size_t all = 0, got = 1;
    for (*good = true; *good && got && all < PLAIN_MAX; all += got) {
        g_autoptr(GError) error = NULL;
        *good = unzstd_read(u, plain + all, MIN(piece, PLAIN_MAX - all), &got, &error);
        if (*good != !error || (!*good && got)) abort();
    }
    return all;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    if (!size_bytes) return 0;
    struct source source = { data + 1, size_bytes - 1, SIZE_MAX };
    const struct unzstd_source from = { .read = source_read, .context = &source, .name = "fuzz" };
    struct unzstd *u = unzstd_new(&from);
    g_autofree uint8_t *whole = g_malloc(PLAIN_MAX), *parts = g_malloc(PLAIN_MAX);
    bool good, same;
    const size_t size = plain_read(u, whole, PLAIN_MAX, &good);
    unzstd_rewind(u);
    source.most = 1 + data[0] % 64u;
    const size_t again = plain_read(u, parts, 1 + data[0], &same);
    if (good && (!same || again != size || memcmp(whole, parts, size) != 0)) abort();
    if (!good && same && again < PLAIN_MAX) abort();
    unzstd_free(u);
    return 0;
}
