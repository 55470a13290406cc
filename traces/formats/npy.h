/* npy.h - numpy's .npy files: the header, and elements by position, as integers or floats.
 *
 * Knows numpy's format (versions 1 to 3, C order, little-endian integers and floats).  Knows nothing of routing. */
#ifndef TRACES_NPY_H
#define TRACES_NPY_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include "traces/stream.h"

enum { NPY_DIMS_MAX = 8, NPY_HEADER_BYTES_MAX = 65536 };

struct npy {
    struct stream *stream; /* borrowed */
    char kind;             /* 'i', 'u', 'f' */
    uint32_t width;        /* bytes of an element */
    uint32_t dims;
    uint64_t shape[NPY_DIMS_MAX];
    uint64_t count; /* elements */
    uint64_t data_offset;
};

/* Whether these first bytes of a file are numpy's. */
bool npy_magic(const uint8_t *bytes, size_t size);

/* Reads the header.  If the file is not compressed, checks that it is as long as its header says. */
bool npy_open(struct npy *npy, struct stream *stream, GError **error);

/* Reads count elements from position `first` on.  Integers must fit int32_t.  Floats are rounded to float and must
 * be finite.  The error names the kind, or the element by its position. */
bool npy_read_integers(struct npy *npy, uint64_t first, uint64_t count, int32_t *out, GError **error);
bool npy_read_floats(struct npy *npy, uint64_t first, uint64_t count, float *out, GError **error);

/* Checks that nothing follows the last element. */
bool npy_check_end(struct npy *npy, GError **error);

/* The header that numpy itself would write, with its padding.  Free with g_byte_array_unref(). */
GByteArray *npy_header(const char *descr, const uint64_t *shape, uint32_t dims);

/* These convert from and to IEEE 754 half precision. half_from_float() returns false if the value is not exactly a
 * half. */
float half_to_float(uint16_t half);
bool half_from_float(float value, uint16_t *half);
/* Appends the low bytes of integers, and floats, or halves that stand for them. */
void integers_append(GByteArray *out, const int32_t *values, size_t count, uint32_t bytes);
void floats_append(GByteArray *out, const float *values, size_t count, bool half);

#endif
