/* support_npy.h - reads a small .npy.zst file whole, for tests that compare with golden vectors.
 *
 * This is not the reader of traces.  It knows only the header that numpy writes, C order, and items of 1, 2 or 4 bytes.
 * If a file has anything else, it ends the test program. */
#ifndef TESTS_SUPPORT_NPY_H
#define TESTS_SUPPORT_NPY_H

#include <stdint.h>

enum { NPY_DIMENSIONS_MAX = 4 };

struct npy {
    void *file;    /* the whole file, unpacked */
    void *data;    /* the items, within it */
    char descr[8]; /* as in the header: "<i2", "|u1", "<f4" */
    uint32_t dimension_count;
    uint64_t dimension[NPY_DIMENSIONS_MAX];
    uint64_t item_count;
};

/* Reads tests/golden/NAME.npy.zst, below $SOURCE or the current folder. */
void npy_read(struct npy *npy, const char *name);
void npy_clear(struct npy *npy);

#endif
