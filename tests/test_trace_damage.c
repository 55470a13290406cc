/* test_trace_damage.c - damaged, wrong and hostile trace files.
 *
 * A small file of every format is cut at every byte, and every bit of it is flipped.  Binary formats must notice a cut.
 * Formats with checksums must notice a flip or give the same data.  No format may do worse than report an error.  A
 * table of wrong inputs has the words that each error must have.  Compressed bombs must not take much memory. */
#include <string.h>
#include <zstd.h>
#include "tests/support_trace.h"
#include "traces/formats/ept.h"
#include "traces/formats/npy.h"
#include "traces/stream.h"
#include "tests/unit.h"

static const struct sample_options small = {
    .steps = 2, .layers = 2, .ranks = 2, .tokens = 3, .topk = 2, .experts = 10, .none = true, .weights = true, .seed = 8
};

struct file {
    const char *name;
    bool binary, checked;
};

/* checked: has checksums, so that a flipped bit must be noticed */
static const struct file files[] = {
    { "a.ept", true, true },     { "a.npy", true, false },    { "a.npy.zst", true, true },   { "a.csv", false, false },
    { "a.csv.zst", true, true }, { "a.jsonl", false, false }, { "a.jsonl.zst", true, true },
};

/* Reads everything.  *sum gets a number that depends on all that was read.  Returns false on an error, which must have
 * a message. */
static bool read_sum(const char *path, uint64_t *sum)
{
    g_autoptr(GError) error = NULL;
    struct trace *const trace = trace_open(path, NULL, &error);
    bool good = trace != NULL;
    *sum = 0;
    for (uint32_t s = 0; good && s < trace_info(trace)->steps; s++) {
        for (uint32_t l = 0; good && l < trace_info(trace)->layers; l++) {
            struct routing routing;
            good = trace_read(trace, s, l, 0, &routing, &error);
            for (uint32_t r = 0; good && r < routing.ranks; r++) {
                *sum = *sum * 31 + routing.rank[r].tokens;
                for (uint32_t i = 0; i < routing.rank[r].tokens * routing.topk; i++)
                    *sum = *sum * 31 + (uint32_t)routing.rank[r].experts[i] +
                           (routing.rank[r].weights ? (uint64_t)(routing.rank[r].weights[i] * 1e6f) * 7 : 0);
            }
            if (good) routing_free(&routing);
        }
    }
    trace_close(trace);
    CU_ASSERT(good == (error == NULL));
    if (error) CU_ASSERT(strlen(error->message) > 20 && strchr(error->message, '\n') == NULL);
    return good;
}

static uint8_t *sample_file(const struct file *file, gsize *size)
{
    g_auto(sample) sample;
    gchar *bytes;
    g_autofree char *note = NULL;
    const char *const path = temporary_path(file->name);
    sample_make(&sample, &small);
    CU_ASSERT_FATAL(
        trace_write(path, &(struct trace_write_options){ 0 }, &sample.info, sample_produce, &sample, &note, NULL));
    CU_ASSERT_FATAL(g_file_get_contents(path, &bytes, size, NULL));
    return (uint8_t *)bytes;
}

TEST("files cut anywhere")
{
    for (size_t f = 0; f < G_N_ELEMENTS(files); f++) {
        gsize size;
        uint64_t sum;
        g_autofree uint8_t *bytes = sample_file(&files[f], &size);
        const char *const path = temporary_path("cut");
        for (gsize cut = 0; cut < size; cut++) {
            temporary_write(path, bytes, cut);
            const bool good = read_sum(path, &sum);
            CU_ASSERT(!good || !files[f].binary);
        }
    }
}

TEST("any bit flipped")
{
    for (size_t f = 0; f < G_N_ELEMENTS(files); f++) {
        gsize size;
        uint64_t whole, sum;
        g_autofree uint8_t *bytes = sample_file(&files[f], &size);
        const char *const path = temporary_path("flipped");
        temporary_write(path, bytes, size);
        CU_ASSERT_FATAL(read_sum(path, &whole));
        for (gsize bit = 0; bit < size * 8; bit++) {
            bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
            temporary_write(path, bytes, size);
            const bool good = read_sum(path, &sum);
            CU_ASSERT(!files[f].checked || !good || sum == whole);
            bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
    }
}

static void expect_error(const char *path, const struct trace_options *options, const char *words)
{
    g_autoptr(GError) error = trace_read_all(path, options);
    CU_ASSERT(error_holds(&error, words));
}

#define CSV        "step,layer,rank,token,expert0,expert1\n"
#define CSVW       "step,layer,rank,token,expert0,weight0\n"
#define JSON(rest) "{\"step\": 1, \"layer\": 1, \"rank\": 0, " rest "}\n"

TEST("wrong text is named")
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        { "", "expected a trace" },
        { "hello", "expected a trace (.npy, .csv, .ept or JSON lines" },
        { "layer,expert\n1,2\n", "expected llama@K:FILE" },
        { CSV, "expected tokens, found none" },
        { CSV "0,0,0,0,1\n", "line 2: line: expected 6 columns, found '5'" },
        { CSV "0,0,0,0,1,2\n0,0,0,1,x,2\n", "line 3: expert0: expected an expert below 1048576 or -1, found 'x'" },
        { CSV "0,0,0,0,1,-2\n", "line 2: expert1: expected an expert" },
        { CSV "0,0,0,0,1,99999999\n", "expert1: expected an expert below 1048576 or -1, found '99999999'" },
        { CSV "0,0,1048576,0,1,2\n", "line 2: rank: expected a rank below 1048576" },
        { CSV "0,-1,0,0,1,2\n", "line 2: layer: expected a number, found '-1'" },
        { CSV "0,,0,0,1,2\n", "line 2: layer: expected a number, found ''" },
        { CSV "0,0,0,1,1,2\n", "line 2: token: expected 0 (tokens in order), found '1'" },
        { CSV "0,0,0,0,\"1,2\n", "line" },
        { CSVW "0,0,0,0,1,nan\n", "line 2: weight0: expected a finite weight or nothing, found 'nan'" },
        { CSVW "0,0,0,0,1,1e999\n", "weight0: expected a finite weight" },
        { "step,layer,rank,tok,expert0\n", "line 1: header: expected token, found 'tok'" },
        { "step,layer,rank,token\n", "header: expected step,layer,rank,token,expert0,..." },
        { "step,layer,rank,token,expert0,expert1,weight0\n", "header: expected" },
        { "# experts: 0\n" CSV, "line 1: experts: expected a positive number, found '0'" },
        { "# experts: 3\n" CSV "0,0,0,0,1,3\n",
          "step 0 layer 0 rank 0 token 0 place 1: expected an expert 0 to 2 or -1" },
        { "# steps: 1\n# layers: 1\n" CSV "1,0,0,0,1,3\n", "step: expected at most 0 (the file says so), found 1" },
        { "# ranks: 1\n" CSV "0,0,1,0,1,3\n", "ranks: expected at most 1" },
        { "# steps: 200000000\n# layers: 60000\n" CSV "0,0,0,0,1,3\n", "2^28 (step, layer)s" },
        { "{", "line 1 column 1: expected JSON" },
        { "{}", "line 1: step: expected a number below 4294967295, found nothing" },
        { JSON("\"num_tokens\": 1, \"topk\": 0, \"top_indices\": []"), "topk: expected 1 or more" },
        { JSON("\"num_tokens\": 2, \"topk\": 1, \"top_indices\": [1]"), "num_tokens 2 rows of topk 1, found 1 values" },
        { JSON("\"num_tokens\": 1, \"topk\": 2, \"top_indices\": [[1]]"), "top_indices[0][0]: expected an expert" },
        { JSON("\"num_tokens\": 1, \"topk\": 1, \"top_indices\": [1.5]"), "found a fraction" },
        { JSON("\"num_tokens\": 1, \"topk\": 1, \"top_indices\": [-2]"),
          "top_indices[0][0]: expected an expert below 1048576 or -1, found -2" },
        { JSON("\"num_tokens\": 1, \"topk\": 1, \"top_indices\": 1"),
          "top_indices: expected an array, found a number" },
        { JSON("\"num_tokens\": 1, \"topk\": 300, \"top_indices\": []"),
          "topk: expected a number below 257, found 300" },
        { JSON("\"num_tokens\": 1, \"topk\": 1, \"top_indices\": [1], \"top_weights\": [\"a\"]"), "top_weights[0][0]" },
    };
    for (size_t c = 0; c < G_N_ELEMENTS(cases); c++) {
        const char *const path = temporary_path("wrong");
        temporary_write(path, cases[c].text, strlen(cases[c].text));
        expect_error(path, NULL, cases[c].words);
    }
}

TEST("wrong prefixed text is named")
{
    static const struct {
        const char *prefix, *text, *words;
    } cases[] = {
        { "llama@2:", "layer,expert\n1,2\n", "K lines a token, found 'the end of the file'" },
        { "llama@2:", "layer,expert\n1,2\n2,3\n", "line 3: layer: expected K lines a token" },
        { "llama@2:", "layer,expert\n1,2,3\n", "layer,expert, found 'other columns'" },
        { "llama@900:", "layer,expert\n", "K: expected at most 256, found 900" },
        { "llama:", "layer,expert\n", "expected FORMAT@NUMBER:FILE" },
        { "splits@0:", "1 2\n", "expected a positive number after @" },
        { "splits@4:", "4 8\n", "as many lines as columns" },
        { "splits@4:", "4 8\n4 6\n", "line 2: split size: expected a multiple of 4 bytes a token, found '6'" },
        { "splits@4:", "4 8\n4 8 0\n", "line 2: columns: expected 2, found '3'" },
        { "splits@1:", "4 x\n4 6\n", "line 1: split size: expected a number, found 'x'" },
        { "splits@1:", "44739242\n",
          "line 1: split size: expected at most 250 tokens a byte of the file, found '44739242'" },
        { "splits@1:", "999999999999 0\n0 0\n", "at most 2^26 tokens" },
        { "vllm:", "no numpy", "expected" },
    };
    for (size_t c = 0; c < G_N_ELEMENTS(cases); c++) {
        const char *const path = temporary_path("wrong");
        g_autofree char *named = g_strconcat(cases[c].prefix, path, NULL);
        temporary_write(path, cases[c].text, strlen(cases[c].text));
        expect_error(named, NULL, cases[c].words);
    }
}

static void npy_text(const char *header, uint16_t length, const char *words)
{
    g_autoptr(GString) bytes = g_string_new_len("\x93NUMPY\x01\x00", 8);
    const char *const path = temporary_path("wrong.npy");
    g_string_append_c(bytes, (char)(length & 0xff));
    g_string_append_c(bytes, (char)(length >> 8));
    g_string_append(bytes, header);
    temporary_write(path, bytes->str, bytes->len);
    expect_error(path, NULL, words);
}

TEST("wrong numpy headers are named")
{
    static const struct {
        const char *header, *words;
    } cases[] = {
        { "{'descr': '>i4', 'fortran_order': False, 'shape': (1, 1), }", "descr: expected an integer or float type" },
        { "{'descr': 'O', 'fortran_order': False, 'shape': (1, 1), }", "descr" },
        { "{'descr': '|u1', 'fortran_order': True, 'shape': (1, 1), }", "fortran_order: expected False (C order)" },
        { "{'descr': '|u1', 'fortran_order': False, 'shape': (0), }", "found 1 dimensions" },
        { "{'descr': '|u1', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }", "at most 8 numbers" },
        { "{'descr': '|u1', 'fortran_order': False, 'shape': (4294967296, 1), }", "less than 2^48 elements" },
        { "{'descr': '|u1', 'fortran_order': False, 'shape': (99999999, 99999999), }", "less than 2^48 elements" },
        { "{'descr': '|u1', 'fortran_order': False, 'shape': (-1, 1), }", "shape" },
        { "{'descr': '|u1', 'fortran_order': False, 'shape': (1000, 1000), }", "expected 1000" },
        { "{'descr': '|u1', 'fortran_order': False, }", "expected descr, fortran_order, shape" },
        { "{'descr': '|u1', 'descr': '|u1', 'fortran_order': False, 'shape': (1, 1), }", "once each" },
        { "{'descr'", "expected a key and ':'" },
        { "[1]", "dictionary: expected '{'" },
        { "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 0), }", "topk: expected 1 to 256, found 0" },
    };
    for (size_t c = 0; c < G_N_ELEMENTS(cases); c++)
        npy_text(cases[c].header, (uint16_t)strlen(cases[c].header), cases[c].words);
    npy_text("{}", 60000, "expected 60000 bytes of a .npy header, found 2");
}

TEST("experts beyond range are named")
{
    static const uint64_t shape[3] = { 2, 2, 2 };
    static const int64_t data[8] = { 0, 1, 2, 3, 4, 5, INT64_C(1) << 40, 7 };
    g_autoptr(GByteArray) bytes = npy_header("<i8", shape, 3);
    const char *const path = temporary_path("wide.npy");
    g_byte_array_append(bytes, (const uint8_t *)data, sizeof data);
    temporary_write(path, bytes->data, bytes->len);
    expect_error(path, NULL, "element 6: expected an expert or -1, found 1099511627776");
    expect_error(path, &(struct trace_options){ .experts = 4 }, "element 6");
    g_byte_array_set_size(bytes, bytes->len - 16);
    g_byte_array_append(bytes, (const uint8_t *)(const int64_t[2]){ 6, -5 }, 16);
    temporary_write(path, bytes->data, bytes->len);
    expect_error(path, NULL, "rank 1 token 1 place 1: expected an expert 0 to 7 or -1, found -5");
    expect_error(path, &(struct trace_options){ .experts = 6 }, "rank 1 token 1 place 0: expected an expert 0 to 5");
}

/* Makes a file of some megabytes of one character, which compress by a factor of thousands, and expects an error with
 * `words`. */
static void bomb(const void *head, size_t head_size, char filler, const char *words)
{
    const size_t size = ((size_t)STREAM_FREE_BYTES) + (8 << 20);
    g_autofree char *plain = g_malloc(size);
    g_autofree char *packed = g_malloc(ZSTD_compressBound(size));
    const char *const path = temporary_path("bomb.zst");
    memset(plain, filler, size);
    memcpy(plain, head, head_size);
    const size_t packed_size = ZSTD_compress(packed, ZSTD_compressBound(size), plain, size, 3);
    CU_ASSERT_FATAL(!ZSTD_isError(packed_size) && packed_size < size / 2000);
    temporary_write(path, packed, packed_size);
    expect_error(path, NULL, words);
}

TEST("bombs stay small")
{
    const uint64_t shape[2] = { (72 << 20) / 8, 8 };
    g_autoptr(GByteArray) header = npy_header("|u1", shape, 2);
    bomb(header->data, header->len, 0, "expected decompressed data of at most 1000 times the file's");
    bomb(CSV "0,0,0,0,", strlen(CSV "0,0,0,0,"), '1', "field: expected at most 262144 bytes");
    bomb("{", 1, ' ', "expected decompressed data of at most 1000 times");
}

/* A header that asks for much is refused before memory is taken. */
TEST("huge claims are refused")
{
    gsize size;
    g_autofree uint8_t *bytes = sample_file(&files[0], &size);
    const char *const path = temporary_path("claims.ept");
    static const struct {
        size_t offset;
        const char *words;
    } cases[] = {
        { offsetof(struct ept_header, experts), "experts" },
        { offsetof(struct ept_header, topk), "topk: expected 1 to 256" },
        { offsetof(struct ept_header, steps), "steps: expected 1 to" },
        { offsetof(struct ept_header, layers), "layers: expected 1 to 65536" },
        { offsetof(struct ept_header, ranks), "ranks: expected 1 to 1048576" },
        { offsetof(struct ept_header, tokens_max), "tokens" },
        { offsetof(struct ept_header, model_bytes), "model bytes: expected at most 65536" },
        { offsetof(struct ept_header, provenance_bytes), "provenance bytes: expected at most 65536" },
        { offsetof(struct ept_header, reserved), "reserved: expected 0" },
    };
    for (size_t c = 0; c < G_N_ELEMENTS(cases); c++) {
        uint32_t kept;
        memcpy(&kept, bytes + cases[c].offset, 4);
        memset(bytes + cases[c].offset, 0xff, 4);
        temporary_write(path, bytes, size);
        expect_error(path, NULL, cases[c].words);
        memcpy(bytes + cases[c].offset, &kept, 4);
    }
    bytes[8] = 2;
    temporary_write(path, bytes, size);
    expect_error(path, NULL, "offset 8: version: expected 1, found 2");
    expect_error(temporary_path("missing.ept"), NULL, "cannot open: No such file");
    expect_error("/", NULL, "/: cannot open: Is a directory");
}
