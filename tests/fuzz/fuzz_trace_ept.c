/* fuzz_trace_ept.c - libFuzzer target of .ept files: the fuzzer's bytes as a file, or as the contents of a valid file.
 *
 * Checksums stop the reading of a mutated file at once.  So inputs with an odd first byte become the contents of a file
 * whose magic, checksums, sizes and footer are right: header | entries | contents of the one frame. */
#include <zstd.h>
#include "tests/fuzz/fuzz_trace.h"
#include "traces/formats/ept.h"

static size_t pack(GByteArray *file, const uint8_t *bytes, size_t size)
{
    const size_t bound = ZSTD_compressBound(size);
    g_autofree uint8_t *packed = g_malloc(bound);
    ZSTD_CCtx *const context = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
    const size_t packed_size = ZSTD_compress2(context, packed, bound, bytes, size);
    g_byte_array_append(file, packed, (guint)packed_size);
    ZSTD_freeCCtx(context);
    return packed_size;
}

/* Makes a valid file of at most 4 (step, layer)s whose contents are the input. */
static GByteArray *assemble(const uint8_t *data, size_t size)
{
    struct ept_header header = { 0 };
    struct ept_entry entries[4] = { { 0 } };
    memcpy(&header, data, MIN(size, sizeof header));
    data += MIN(size, sizeof header);
    size -= MIN(size, sizeof header);
    memcpy(header.magic, ept_magic_bytes, sizeof header.magic);
    header.version = EPT_VERSION;
    header.flags &= 1;
    header.steps = 1 + header.steps % 2;
    header.layers = 1 + header.layers % 2;
    header.model_bytes = header.provenance_bytes = header.reserved = 0;
    const uint32_t blocks = header.steps * header.layers;
    const size_t entry_bytes = blocks * sizeof entries[0];
    memcpy(entries, data, MIN(size, entry_bytes));
    data += MIN(size, entry_bytes);
    size -= MIN(size, entry_bytes);
    GByteArray *const file = g_byte_array_new();
    g_byte_array_append(file, (const uint8_t *)&header, sizeof header);
    entries[0].offset = file->len;
    entries[0].raw_bytes = (uint32_t)size;
    entries[0].stored_bytes = (uint32_t)pack(file, data, size);
    struct ept_footer footer = { .index_offset = file->len };
    g_autoptr(GByteArray) index = g_byte_array_new();
    g_byte_array_append(index, (const uint8_t *)&header, sizeof header);
    g_byte_array_append(index, (const uint8_t *)entries, (guint)entry_bytes);
    footer.index_raw_bytes = index->len;
    footer.index_stored_bytes = pack(file, index->data, index->len);
    memcpy(footer.magic, ept_magic_bytes, sizeof footer.magic);
    g_byte_array_append(file, (const uint8_t *)&footer, sizeof footer);
    return file;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || data[0] % 2 == 0 || data[0] == ept_magic_bytes[0]) {
        fuzz_trace("", fuzz_path(0, data, size), NULL);
        return 0;
    }
    g_autoptr(GByteArray) file = assemble(data + 1, size - 1);
    fuzz_trace("", fuzz_path(0, file->data, file->len), NULL);
    return 0;
}
