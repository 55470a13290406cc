/* test_unzstd.c - are data that zstd compressed restored unchanged, however they are read?
 *
 * Aim: sim/unzstd.h.  Method: frames of seeded bytes, some of them empty, are read in pieces of all sizes from a source
 * that gives any number of bytes at a time.  Then the data are cut or damaged, or the source fails. */
#include "sim/unzstd.h"
#include "sim/error.h"
#include "sim/rng.h"
#include "tests/unit.h"

#include <string.h>
#include <zstd.h>

enum { PLAIN_MAX = 300000, FRAMES = 3 };

static struct rng rng;

/* A source of compressed bytes, which gives a limited number at a time. */
struct source {
    uint8_t bytes[FRAMES * (PLAIN_MAX + 4096)];
    size_t size, most;
    bool fails;
};
static struct source source;
static uint8_t plain[FRAMES * PLAIN_MAX], back[FRAMES * PLAIN_MAX + 1];

static bool source_read(void *context, uint64_t offset, void *buffer, size_t size, size_t *got, GError **error)
{
    const struct source *s = context;
    if (s->fails) return error_run(error, "cannot read");
    CU_ASSERT_FATAL(offset <= s->size);
    *got = MIN(MIN(size, s->most), s->size - (size_t)offset);
    memcpy(buffer, s->bytes + offset, *got);
    return true;
}

static struct unzstd *reader_new(void)
{
    return unzstd_new(&(struct unzstd_source){ .read = source_read, .context = &source, .name = "here" });
}

/* Makes frames of half-random bytes.  Returns how many bytes they contain. */
static size_t frames_make(uint32_t frames)
{
    size_t plain_size = 0;
    source = (struct source){ .most = SIZE_MAX };
    for (uint32_t i = 0; i < frames; i++) {
        const size_t size = i == 1 ? 0 : (size_t)rng_below(&rng, PLAIN_MAX);
        for (size_t b = 0; b < size; b++) plain[plain_size + b] = (uint8_t)rng_below(&rng, b % 100 ? 3 : 256);
        const size_t stored = ZSTD_compress(source.bytes + source.size, sizeof source.bytes - source.size,
                                            plain + plain_size, size, 1 + (int)rng_below(&rng, 5));
        CU_ASSERT_FALSE_FATAL(ZSTD_isError(stored));
        source.size += stored;
        plain_size += size;
    }
    return plain_size;
}

/* Reads everything in pieces of at most `piece` bytes.  *got is the number of bytes read.  Returns false if the data
 * are refused. */
static bool all_read(struct unzstd *u, size_t piece, size_t *got, GError **error)
{
    for (*got = 0;;) {
        size_t now;
        const size_t size = MIN(piece, sizeof back - *got);
        if (!unzstd_read(u, back + *got, size, &now, error)) return false;
        *got += now;
        if (now < size || *got == sizeof back) return true;
    }
}

TEST("as it was")
{
    static const size_t piece[] = { 7, 4096, 100000, SIZE_MAX };
    for (uint32_t run = 0; run < 12; run++) {
        const size_t size = frames_make(1 + run % FRAMES);
        source.most = run % 2 ? 1 + (size_t)rng_below(&rng, 5000) : SIZE_MAX;
        struct unzstd *u = reader_new();
        size_t got;
        for (uint32_t again = 0; again < 2; again++) {
            CU_ASSERT_TRUE(all_read(u, piece[run % 4], &got, NULL));
            CU_ASSERT(got == size && !memcmp(back, plain, size));
            CU_ASSERT_TRUE(unzstd_read(u, back, 1, &got, NULL));
            CU_ASSERT_EQUAL(got, 0); /* a read behind the end gives no bytes */
            unzstd_rewind(u);
        }
        unzstd_free(u);
    }
}

TEST("damaged")
{
    (void)frames_make(1);
    CU_ASSERT_TRUE(unzstd_begins(source.bytes, 4));
    CU_ASSERT_FALSE(unzstd_begins(source.bytes, 3));
    CU_ASSERT_FALSE(unzstd_begins("eptw", 4));
    size_t got;
    g_autoptr(GError) error = NULL;
    source.size -= 5; /* cuts off the last bytes */
    struct unzstd *u = reader_new();
    CU_ASSERT_FALSE(all_read(u, 4096, &got, &error));
    g_autofree char *expected =
        g_strdup_printf("here: compressed offset %zu: expected more zstd data, found the end of the file", source.size);
    CU_ASSERT(error_is(&error, expected));
    unzstd_rewind(u);
    memset(source.bytes + 4, 0xff, 16);
    CU_ASSERT_FALSE(all_read(u, 4096, &got, &error));
    CU_ASSERT(error_holds(&error, ": expected zstd data, found "));
    unzstd_rewind(u);
    source.fails = true;
    CU_ASSERT_FALSE(all_read(u, 4096, &got, &error));
    CU_ASSERT(error_is(&error, "cannot read")); /* the error of the source itself */
    unzstd_free(u);
    unzstd_free(NULL);
}

bool unit_begin(char **argv)
{
    (void)argv;
    rng_seed(&rng, 5);
    return true;
}
