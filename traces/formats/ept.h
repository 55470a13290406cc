/* ept.h - eptwin's own trace format: the layout of its bytes.  README.md in this folder describes it field by field
 * with an example.  All integers are little-endian.
 *
 *     header | model | provenance | frame | frame | ... | index | footer
 *
 * A frame is one (step, layer), as a zstd frame with checksum.  The index is a zstd frame, too, and repeats header,
 * model and provenance before its entries.  So every byte of the file is covered by a checksum or a comparison. */
#ifndef TRACES_EPT_H
#define TRACES_EPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static const uint8_t ept_magic_bytes[8] = { 0x89, 'E', 'P', 'T', '\r', '\n', 0x1a, '\n' };

enum {
    EPT_VERSION = 1,
    EPT_TEXT_MAX = 1 << 16, /* the most bytes of model, and of provenance */
    EPT_FLAG_WEIGHTS = 1,   /* some frame has weights */
    EPT_TYPE_NONE = 0x80,   /* an index with all bits set means -1 */
};

struct ept_header {
    uint8_t magic[8];
    uint16_t version, flags;
    uint32_t experts, topk, steps, layers, ranks, tokens_max;
    uint32_t model_bytes, provenance_bytes;
    uint32_t reserved; /* 0 */
};
_Static_assert(sizeof(struct ept_header) == 48, "header on disk");

/* One (step, layer).  Entries are in the order of steps, then layers.  If no rank has tokens, stored_bytes is 0. */
struct ept_entry {
    uint64_t offset;       /* of the frame in the file */
    uint32_t stored_bytes; /* of the frame in the file */
    uint32_t raw_bytes;    /* bytes of the decompressed frame: u32 tokens[ranks], indices, weights */
    uint32_t tokens;       /* number of tokens of all ranks */
    uint8_t index_type;    /* bytes of an index (1, 2 or 4), with or without EPT_TYPE_NONE */
    uint8_t weight_type;   /* bytes of a weight: 0 (none), 2 (half) or 4 (float) */
    uint16_t reserved;     /* 0 */
};
_Static_assert(sizeof(struct ept_entry) == 24, "index entry on disk");

struct ept_footer {
    uint64_t index_offset, index_stored_bytes, index_raw_bytes;
    uint8_t magic[8];
};
_Static_assert(sizeof(struct ept_footer) == 32, "footer on disk");

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#    error "these structs are read and written as they lie in memory, which must be little-endian"
#endif

static inline bool ept_magic(const uint8_t *bytes, size_t size)
{
    return size >= sizeof ept_magic_bytes && memcmp(bytes, ept_magic_bytes, sizeof ept_magic_bytes) == 0;
}

#endif
