/* pickle.h - the pickle that torch.save writes, as plain values: numbers, texts, lists, dictionaries, tensors.
 *
 * A pickle is a program.  This module runs the few opcodes that build such values, and refuses every other opcode.  A
 * pickle may call only three names: those of a tensor, of its storage, and of an empty OrderedDict.  They are
 * built in, so no name in a file is ever looked up or run.
 *
 * Knows no files, and does not read the bytes of tensors. */
#ifndef TRACES_PICKLE_H
#define TRACES_PICKLE_H

#include <glib.h>
#include <stdint.h>

enum { PICKLE_DIMS_MAX = 8, PICKLE_BYTES_MAX = 64 << 20 };

enum pickle_type {
    PICKLE_NONE,
    PICKLE_BOOL,
    PICKLE_INTEGER,
    PICKLE_FLOAT,
    PICKLE_TEXT,
    PICKLE_LIST, /* or a tuple */
    PICKLE_DICT,
    PICKLE_TENSOR,
    PICKLE_INSIDE, /* a mark, a name or a storage, which exist only between opcodes */
};

struct pickle_tensor {
    const char *storage;            /* its bytes are in the file's entry data/STORAGE */
    char kind;                      /* 'i', 'u', 'f', or 'b' for truth values */
    uint32_t width;                 /* bytes of an element */
    uint64_t storage_count, offset; /* elements of the storage; the tensor's first element in it */
    uint32_t dims;
    uint64_t shape[PICKLE_DIMS_MAX], stride[PICKLE_DIMS_MAX]; /* strides in elements */
};

struct pickle_value {
    enum pickle_type type;
    uint32_t inside; /* which kind of PICKLE_INSIDE */
    union {
        int64_t integer;  /* of INTEGER and BOOL */
        double number;    /* of FLOAT */
        char *text;       /* of TEXT; cut at its first NUL */
        GPtrArray *items; /* items of a LIST; key, value, key, value, ... of a DICT; NULL: there are none */
        struct pickle_tensor *tensor;
    };
};

struct pickle;

/* Runs the pickle bytes[size].  NULL and *error ("source: offset N: opcode ...: expected ..., found ...") if it makes a
 * value that is of none of the types above.  Every tensor of the result lies inside its storage.  Free with
 * pickle_free(). */
struct pickle *pickle_read(const char *source, const uint8_t *bytes, size_t size, GError **error);
void pickle_free(struct pickle *pickle);
const struct pickle_value *pickle_root(const struct pickle *pickle);

uint32_t pickle_count(const struct pickle_value *list);                                     /* 0: no list, or empty */
const struct pickle_value *pickle_item(const struct pickle_value *list, uint32_t index);    /* NULL: there is none */
const struct pickle_value *pickle_member(const struct pickle_value *dict, const char *key); /* NULL: there is none */
const char *pickle_type_name(const struct pickle_value *value); /* for messages: "a list", ...; "nothing" for NULL */

#endif
