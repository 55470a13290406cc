/* support_npy.c - golden vectors for tests; see support_npy.h.  It knows numpy's header but not the meaning of the
 * items. */
#include "tests/support_npy.h"

#include <glib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

static void npy_refuse(const char *path, const char *reason)
{
    fprintf(stderr, "%s: %s\n", path, reason);
    exit(2);
}

static void *file_unpack(const char *path, size_t *size)
{
    g_autofree char *packed = NULL;
    gsize packed_size;
    if (!g_file_get_contents(path, &packed, &packed_size, NULL))
        npy_refuse(path, "cannot be read (run tests in the repository root, or set SOURCE)");
    const unsigned long long content = ZSTD_getFrameContentSize(packed, packed_size);
    if (content > 1u << 28) npy_refuse(path, "is no zstd frame of a known, small size");
    void *data = g_malloc(content + 1);
    *size = ZSTD_decompress(data, content, packed, packed_size);
    if (*size != content) npy_refuse(path, "does not unpack");
    return data;
}

/* Parses a header such as "{'descr': '<i2', 'fortran_order': False, 'shape': (32, 7168), }". */
static void header_parse(struct npy *npy, const char *path, const char *header)
{
    const char *descr = strstr(header, "'descr': '");
    const char *shape = strstr(header, "'shape': (");
    if (!descr || !shape || !strstr(header, "'fortran_order': False")) npy_refuse(path, "has an unknown header");
    snprintf(npy->descr, sizeof npy->descr, "%.3s", descr + strlen("'descr': '"));
    npy->item_count = 1;
    const char *text = shape + strlen("'shape': (");
    for (;;) {
        char *end;
        const uint64_t n = strtoull(text, &end, 10);
        if (end == text) break;
        if (npy->dimension_count == NPY_DIMENSIONS_MAX) npy_refuse(path, "has too many dimensions");
        npy->dimension[npy->dimension_count++] = n;
        npy->item_count *= n;
        text = end + strspn(end, ", ");
    }
}

void npy_read(struct npy *npy, const char *name)
{
    const char *root = getenv("SOURCE");
    char path[4096];
    snprintf(path, sizeof path, "%s/tests/golden/%s.npy.zst", root ? root : ".", name);
    *npy = (struct npy){ 0 };
    size_t size;
    unsigned char *file = file_unpack(path, &size);
    if (size < 10 || memcmp(file, "\x93NUMPY\x01", 7)) npy_refuse(path, "is no .npy file");
    const size_t header_size = file[8] | (size_t)file[9] << 8;
    if (10 + header_size > size) npy_refuse(path, "ends within its header");
    file[10 + header_size - 1] = 0;
    header_parse(npy, path, (char *)file + 10);
    npy->file = file;
    npy->data = file + 10 + header_size;
    const size_t item_bytes = (size_t)(npy->descr[2] - '0');
    if (size != 10 + header_size + npy->item_count * item_bytes) npy_refuse(path, "has another size than its shape");
}

void npy_clear(struct npy *npy)
{
    g_free(npy->file);
    *npy = (struct npy){ 0 };
}
