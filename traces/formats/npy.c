/* npy.c - numpy's array files.
 *
 * The header is a Python dictionary.  Only this form of it is understood, with keys in any order:
 *
 *     {'descr': '<i8', 'fortran_order': False, 'shape': (8, 4096, 8), } */
#include "traces/formats/npy.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "traces/trace.h"

static const uint8_t magic[6] = { 0x93, 'N', 'U', 'M', 'P', 'Y' };

enum { CHUNK_ELEMENTS = 1 << 16 };

bool npy_magic(const uint8_t *bytes, size_t size)
{
    return size >= sizeof magic && memcmp(bytes, magic, sizeof magic) == 0;
}

static bool header_error(const struct npy *npy, GError **error, const char *field, const char *expected,
                         const char *found)
{
    return error_input(error, "%s: header: %s: expected %s, found %.60s", stream_path(npy->stream), field, expected,
                       found);
}

static const char *skip_space(const char *at) { return at + strspn(at, " \n\t"); }

/* Reads the value of 'descr', the type of an element. */
static bool descr_parse(struct npy *npy, const char **at, GError **error)
{
    static const struct {
        const char *text;
        char kind;
        uint32_t width;
    } types[] = {
        { "'|u1'", 'u', 1 }, { "'<u2'", 'u', 2 }, { "'<u4'", 'u', 4 }, { "'<u8'", 'u', 8 },
        { "'|i1'", 'i', 1 }, { "'<i2'", 'i', 2 }, { "'<i4'", 'i', 4 }, { "'<i8'", 'i', 8 },
        { "'<f2'", 'f', 2 }, { "'<f4'", 'f', 4 }, { "'<f8'", 'f', 8 },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(types); i++) {
        if (g_str_has_prefix(*at, types[i].text)) {
            npy->kind = types[i].kind;
            npy->width = types[i].width;
            *at += strlen(types[i].text);
            return true;
        }
    }
    return header_error(npy, error, "descr", "an integer or float type, little-endian", *at);
}

/* Reads the value of 'shape': (2, 3) or (2,) or (). */
static bool shape_parse(struct npy *npy, const char **at, GError **error)
{
    const char *const start = *at;
    const char *p = start;
    if (*p++ != '(') return header_error(npy, error, "shape", "a tuple", start);
    npy->count = 1;
    for (p = skip_space(p); *p != ')'; p = skip_space(p)) {
        char *end;
        if (!g_ascii_isdigit(*p) || npy->dims == NPY_DIMS_MAX)
            return header_error(npy, error, "shape", "at most 8 numbers", start);
        const guint64 size = g_ascii_strtoull(p, &end, 10);
        if (size > UINT32_MAX || (size && npy->count > (UINT64_C(1) << 48) / size))
            return header_error(npy, error, "shape", "less than 2^48 elements", start);
        npy->shape[npy->dims++] = size;
        npy->count *= size;
        p = skip_space(end);
        if (*p == ',') p++;
        else if (*p != ')') return header_error(npy, error, "shape", "',' or ')'", start);
    }
    *at = p + 1;
    return true;
}

/* Refuses arrays stored column by column, because numpy itself can convert them. */
static bool order_refuse(const struct npy *npy, GError **error)
{
    const char *const path = stream_path(npy->stream);
    const int length = (int)strlen(path) - (g_str_has_suffix(path, ".zst") ? 4 : 0);
    return error_input(error,
                       "%s: header: fortran_order: expected False (C order), found True: python3 -c \"import numpy; "
                       "numpy.save('c_order.npy', numpy.ascontiguousarray(numpy.load('%.*s')))\" writes it so",
                       path, length, path);
}

/* Reads the dictionary, key by key. */
static bool header_parse(struct npy *npy, const char *text, GError **error)
{
    bool descr = false, order = false, shape = false;
    const char *at = skip_space(text);
    if (*at++ != '{') return header_error(npy, error, "dictionary", "'{'", text);
    for (at = skip_space(at); *at && *at != '}'; at = skip_space(at)) {
        const char *const key = at;
        at = strchr(at, ':');
        if (!at) return header_error(npy, error, "dictionary", "a key and ':'", key);
        at = skip_space(at + 1);
        bool good = false;
        if (g_str_has_prefix(key, "'descr'") && !descr) good = descr = descr_parse(npy, &at, error);
        else if (g_str_has_prefix(key, "'shape'") && !shape) good = shape = shape_parse(npy, &at, error);
        else if (g_str_has_prefix(key, "'fortran_order'") && !order)
            good = order =
                g_str_has_prefix(at, "False") ||
                (g_str_has_prefix(at, "True") ? order_refuse(npy, error)
                                              : header_error(npy, error, "fortran_order", "False (C order)", at));
        else header_error(npy, error, "dictionary", "descr, fortran_order and shape, once each", key);
        if (!good) return false;
        if (g_str_has_prefix(at, "False")) at += strlen("False");
        at = skip_space(at);
        if (*at == ',') at++;
    }
    if (*at == '}' && descr && order && shape) return true;
    return header_error(npy, error, "dictionary", "descr, fortran_order, shape and '}'", text);
}

bool npy_open(struct npy *npy, struct stream *stream, GError **error)
{
    uint8_t head[12];
    *npy = (struct npy){ .stream = stream };
    if (!stream_seek(stream, 0, error) || !stream_read_exactly(stream, head, 10, "a .npy header", error)) return false;
    if (!npy_magic(head, sizeof head)) return header_error(npy, error, "magic", "\\x93NUMPY", "other bytes");
    uint32_t bytes = head[8] | (uint32_t)head[9] << 8;
    if (head[6] < 1 || head[6] > 3) return header_error(npy, error, "version", "1, 2 or 3", "another");
    if (head[6] > 1) {
        if (!stream_read_exactly(stream, head + 10, 2, "a .npy header", error)) return false;
        bytes |= (uint32_t)head[10] << 16 | (uint32_t)head[11] << 24;
    }
    if (bytes > NPY_HEADER_BYTES_MAX)
        return error_input(error, "%s: header: length: expected at most %d bytes, found %u", stream_path(stream),
                           NPY_HEADER_BYTES_MAX, bytes);
    g_autofree char *text = g_malloc0(bytes + 1);
    const bool good =
        stream_read_exactly(stream, text, bytes, "a .npy header", error) && header_parse(npy, text, error);
    npy->data_offset = stream_offset(stream);
    if (!good) return false;
    const uint64_t expected = npy->data_offset + npy->count * npy->width;
    if (stream_is_compressed(stream)) return stream_check_growth(stream, expected, error);
    if (stream_file_bytes(stream) == expected) return true;
    return error_input(error,
                       "%s: expected %" G_GUINT64_FORMAT " bytes (header and shape say so), found %" G_GUINT64_FORMAT,
                       stream_path(stream), expected, stream_file_bytes(stream));
}

bool npy_check_end(struct npy *npy, GError **error)
{
    uint8_t byte;
    size_t got = 0;
    const uint64_t end = npy->data_offset + npy->count * npy->width;
    if (!stream_seek(npy->stream, end, error) || !stream_read(npy->stream, &byte, 1, &got, error)) return false;
    if (got == 0) return true;
    return error_input(error,
                       "%s: offset %" G_GUINT64_FORMAT ": expected the end of the data (the shape says so), found more",
                       stream_path(npy->stream), end);
}

/* One element of any integer type.  Unsigned 64-bit values beyond INT64_MAX become INT64_MAX. */
static inline int64_t element_integer(const struct npy *npy, const uint8_t *at)
{
    uint64_t value = 0;
    memcpy(&value, at, npy->width); /* the file and the machine are little-endian */
    if (npy->kind == 'u') return value > INT64_MAX ? INT64_MAX : (int64_t)value;
    const unsigned shift = 64 - 8 * npy->width;
    return (int64_t)(value << shift) >> shift;
}

/* Widens `count` elements to int32_t, and checks their range.  Compilers make vector instructions of the loops for
 * common types, at any optimisation level. */
static bool chunk_integers(const struct npy *npy, const uint8_t *bytes, uint64_t first, size_t count, int32_t *out,
                           GError **error)
{
    if (npy->kind == 'u' && npy->width == 1) {
        enum { BLOCK = 128 };
        size_t i = 0;
        for (; i + BLOCK <= count; i += BLOCK)
            for (size_t k = 0; k < BLOCK; k++) out[i + k] = bytes[i + k];
        for (; i < count; i++) out[i] = bytes[i];
        return true;
    }
    if (npy->kind == 'i' && npy->width == 4) {
        memcpy(out, bytes, count * sizeof *out);
        return true;
    }
    for (size_t i = 0; i < count; i++) {
        const int64_t value = element_integer(npy, bytes + i * npy->width);
        out[i] = (int32_t)value;
        if (out[i] == value) continue;
        return error_input(error,
                           "%s: element %" G_GUINT64_FORMAT ": expected an expert or -1, found %" G_GINT64_FORMAT,
                           stream_path(npy->stream), first + i, value);
    }
    return true;
}

static bool chunk_floats(const struct npy *npy, const uint8_t *bytes, uint64_t first, size_t count, float *out,
                         GError **error)
{
    for (size_t i = 0; i < count; i++) {
        const uint8_t *const at = bytes + i * npy->width;
        uint16_t half;
        double wide;
        if (npy->width == 2) {
            memcpy(&half, at, sizeof half);
            out[i] = half_to_float(half);
        } else if (npy->width == 4) {
            memcpy(&out[i], at, sizeof out[i]);
        } else {
            memcpy(&wide, at, sizeof wide);
            out[i] = (float)CLAMP(wide, -HUGE_VAL, HUGE_VAL);
        }
        if (isfinite(out[i])) continue;
        return error_input(error, "%s: element %" G_GUINT64_FORMAT ": expected a finite weight, found %g",
                           stream_path(npy->stream), first + i, (double)out[i]);
    }
    return true;
}

/* Reads `count` elements in chunks, as floats if floats is not NULL, else as integers. */
static bool npy_read(struct npy *npy, uint64_t first, uint64_t count, int32_t *integers, float *floats, GError **error)
{
    const bool wants_floats = floats != NULL;
    if ((npy->kind == 'f') != wants_floats)
        return header_error(npy, error, "descr", wants_floats ? "a float type" : "an integer type",
                            wants_floats ? "an integer type" : "a float type");
    if (!stream_seek(npy->stream, npy->data_offset + first * npy->width, error)) return false;
    g_autofree uint8_t *bytes = g_malloc((size_t)CHUNK_ELEMENTS * npy->width);
    bool good = true;
    for (uint64_t done = 0; good && done < count; done += CHUNK_ELEMENTS) {
        const size_t now = (size_t)MIN(count - done, (uint64_t)CHUNK_ELEMENTS);
        good = stream_read_exactly(npy->stream, bytes, now * npy->width, "array data", error) &&
               (wants_floats ? chunk_floats(npy, bytes, first + done, now, floats + done, error)
                             : chunk_integers(npy, bytes, first + done, now, integers + done, error));
    }
    return good;
}

bool npy_read_integers(struct npy *npy, uint64_t first, uint64_t count, int32_t *out, GError **error)
{
    return npy_read(npy, first, count, out, NULL, error);
}

bool npy_read_floats(struct npy *npy, uint64_t first, uint64_t count, float *out, GError **error)
{
    return npy_read(npy, first, count, NULL, out, error);
}

/* numpy pads the header with spaces, so that the data starts at a multiple of 64 bytes. */
GByteArray *npy_header(const char *descr, const uint64_t *shape, uint32_t dims)
{
    g_autoptr(GString) text = g_string_new(NULL);
    g_string_printf(text, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    for (uint32_t d = 0; d < dims; d++)
        g_string_append_printf(text, "%" G_GUINT64_FORMAT "%s", shape[d], d + 1 < dims ? ", " : "");
    g_string_append(text, dims == 1 ? ",), }" : "), }");
    /* The first dimension gets room for 21 digits, as in numpy since 1.23. */
    char digits[24];
    const int digit_count = dims ? snprintf(digits, sizeof digits, "%" G_GUINT64_FORMAT, shape[0]) : 21;
    for (int i = digit_count; i < 21; i++) g_string_append_c(text, ' ');
    while ((10 + text->len + 1) % 64) g_string_append_c(text, ' ');
    g_string_append_c(text, '\n');
    GByteArray *const bytes = g_byte_array_new();
    const uint8_t head[10] = { magic[0], magic[1], magic[2], magic[3],         magic[4],
                               magic[5], 1,        0,        text->len & 0xff, (uint8_t)(text->len >> 8) };
    g_byte_array_append(bytes, head, sizeof head);
    g_byte_array_append(bytes, (const uint8_t *)text->str, (guint)text->len);
    return bytes;
}

float half_to_float(uint16_t half)
{
    const int exponent = half >> 10 & 31, fraction = half & 1023;
    const float sign = half & 0x8000 ? -1.0f : 1.0f;
    if (exponent == 31) return fraction ? NAN : sign * INFINITY;
    return sign * (exponent ? ldexpf((float)(1024 + fraction), exponent - 25) : ldexpf((float)fraction, -24));
}

bool half_from_float(float value, uint16_t *half)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    const int exponent = (int)(bits >> 23 & 255) - 127;
    const uint32_t fraction = bits & 0x7fffff;
    if ((bits & 0x7fffffff) == 0) *half = sign;
    else if (exponent >= -14 && exponent <= 15) *half = (uint16_t)(sign | (exponent + 15) << 10 | fraction >> 13);
    else if (exponent >= -24 && exponent < -14) *half = (uint16_t)(sign | (fraction | 0x800000) >> (-exponent - 1));
    else return false;
    return half_to_float(*half) == value;
}
