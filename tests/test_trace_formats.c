/* test_trace_formats.c - every format gives back what was written, at any (step, layer) in any order, and reads what
 * other programs write.
 *
 * Round trips use random traces with uneven ranks, unused places and weights.  Files of other programs are written here
 * byte by byte, as numpy and the frameworks write them. */
#include <math.h>
#include <string.h>
#include <unistd.h>
#include "sim/rng.h"
#include "tests/support_trace.h"
#include "traces/formats/npy.h"
#include "tests/unit.h"

static const struct sample_options ragged = { .steps = 3,
                                              .layers = 4,
                                              .ranks = 5,
                                              .tokens = 9,
                                              .topk = 3,
                                              .experts = 300,
                                              .ragged = true,
                                              .none = true,
                                              .weights = true,
                                              .seed = 3 };

/* Writes a sample, reads it back in random order and compares. */
static void round_trip(const struct sample_options *o, const char *name, const struct trace_write_options *w,
                       const char *read_as, const char *weights)
{
    g_auto(sample) sample;
    GError *error = NULL;
    g_autofree char *note = NULL;
    struct rng rng = rng_seeded(9);
    sample_make(&sample, o);
    const char *const path = temporary_path(name);
    if (!trace_write(path, w, &sample.info, sample_produce, &sample, &note, &error)) printf("\n%s\n", error->message);
    CU_ASSERT_FATAL(error == NULL);
    g_autofree char *opened = g_strconcat(read_as, path, NULL);
    g_autoptr(trace) trace = trace_open(opened, &(struct trace_options){ o->experts, weights }, &error);
    if (!trace) printf("\n%s\n", error->message);
    CU_ASSERT_FATAL(trace != NULL);
    for (int i = 0; i < 40; i++) {
        const uint32_t step = (uint32_t)rng_below(&rng, o->steps), layer = (uint32_t)rng_below(&rng, o->layers);
        g_auto(routing) routing;
        CU_ASSERT_FATAL(trace_read(trace, step, layer, 0, &routing, &error));
        CU_ASSERT(routings_same(&routing, &sample.blocks[step * o->layers + layer]));
    }
    CU_ASSERT_EQUAL(trace_info(trace)->tokens_max, sample.info.tokens_max);
    CU_ASSERT_EQUAL(trace_info(trace)->experts, o->experts);
}

TEST("every format round-trips")
{
    static const struct trace_write_options by_name;
    static const char *const names[] = { "a.ept", "a.csv", "a.csv.zst", "a.jsonl", "a.jsonl.zst" };
    for (size_t n = 0; n < G_N_ELEMENTS(names); n++) {
        struct sample_options o = ragged;
        for (uint32_t variant = 0; variant < 8; variant++) {
            o.none = variant & 1;
            o.weights = variant & 2;
            o.experts = variant & 4 ? 255 : 70000 * 5;
            o.seed++;
            round_trip(&o, names[n], &by_name, "", NULL);
        }
    }
}

TEST("numpy round-trips")
{
    struct sample_options o = ragged;
    o.ragged = o.weights = false;
    for (uint32_t variant = 0; variant < 8; variant++) {
        o.none = variant & 1;
        o.experts = variant & 2 ? 200 : 70000;
        round_trip(&o, variant & 4 ? "n.npy" : "n.npy.zst", &(struct trace_write_options){ 0 }, "", NULL);
    }
    o.weights = true;
    const char *const path = temporary_path("w.npy.zst");
    g_autofree char *weights = g_strdup(path);
    round_trip(&o, "n.npy", &(struct trace_write_options){ .weights_path = weights }, "", weights);
}

TEST("framework formats round-trip")
{
    const struct sample_options one = {
        .steps = 1, .layers = 5, .ranks = 1, .tokens = 7, .topk = 2, .experts = 40, .none = true, .seed = 4
    };
    struct sample_options steps = one;
    steps.steps = 3;
    round_trip(&one, "v.npy", &(struct trace_write_options){ .format = "vllm" }, "vllm:", NULL);
    round_trip(&steps, "l.csv", &(struct trace_write_options){ .format = "llama" }, "llama@2:", NULL);
}

/* .ept uses the narrowest type that holds the experts and -1, as the sizes of files show. */
TEST("ept is narrow")
{
    struct sample_options o = {
        .steps = 1, .layers = 1, .ranks = 2, .tokens = 4000, .topk = 8, .experts = 256, .seed = 5
    };
    static const struct {
        uint32_t experts;
        bool none;
        double bytes;
    } cases[] = { { 256, false, 1 }, { 254, true, 1 }, { 256, true, 2 }, { 65536, false, 2 }, { 65536, true, 4 } };
    for (size_t c = 0; c < G_N_ELEMENTS(cases); c++) {
        g_auto(sample) sample;
        g_autofree gchar *bytes = NULL;
        gsize size;
        o.experts = cases[c].experts;
        o.none = cases[c].none;
        sample_make(&sample, &o);
        const char *const path = temporary_path("narrow.ept");
        CU_ASSERT_FATAL(
            trace_write(path, &(struct trace_write_options){ 0 }, &sample.info, sample_produce, &sample, NULL, NULL));
        CU_ASSERT_FATAL(g_file_get_contents(path, &bytes, &size, NULL));
        CU_ASSERT((double)size < 64000 * cases[c].bytes + 400);
    }
}

/* Makes a .npy file of one array, and returns its path. */
static const char *npy_make(const char *name, const char *descr, const uint64_t *shape, uint32_t dims, const void *data,
                            size_t size)
{
    g_autoptr(GByteArray) bytes = npy_header(descr, shape, dims);
    g_byte_array_append(bytes, data, (guint)size);
    const char *const path = temporary_path(name);
    temporary_write(path, bytes->data, bytes->len);
    return path;
}

static void expect_experts(const char *path, uint32_t layer, const int32_t *expected, uint32_t count)
{
    GError *error = NULL;
    g_auto(routing) routing;
    g_autoptr(trace) trace = trace_open(path, &(struct trace_options){ .experts = 300 }, &error);
    if (!trace) printf("\n%s\n", error->message);
    CU_ASSERT_FATAL(trace != NULL);
    CU_ASSERT_FATAL(trace_read(trace, 0, layer, 0, &routing, &error));
    for (uint32_t i = 0; i < count; i++) CU_ASSERT_EQUAL(routing.rank[0].experts[i], expected[i]);
}

TEST("every integer type is read")
{
    static const int32_t expected[4] = { 7, 0, 255, 3 }, negative[4] = { 7, -1, 100, 3 };
    static const struct {
        const char *descr;
        uint32_t width;
        bool sign;
    } types[] = {
        { "|u1", 1, false }, { "<u2", 2, false }, { "<u4", 4, false }, { "<u8", 8, false },
        { "|i1", 1, true },  { "<i2", 2, true },  { "<i4", 4, true },  { "<i8", 8, true },
    };
    static const uint64_t shape[2] = { 2, 2 };
    for (size_t t = 0; t < G_N_ELEMENTS(types); t++) {
        uint8_t data[32];
        const int32_t *const values = types[t].sign ? negative : expected;
        for (int i = 0; i < 4; i++) {
            const int64_t wide = values[i];
            memcpy(data + (size_t)i * types[t].width, &wide, types[t].width);
        }
        expect_experts(npy_make("t.npy", types[t].descr, shape, 2, data, 4 * types[t].width), 0, values, 4);
    }
}

TEST("leading dimensions may be missing")
{
    static const uint64_t shape[5] = { 1, 1, 2, 3, 2 };
    static const uint8_t data[12] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 };
    for (uint32_t dims = 3; dims <= 5; dims++) {
        const char *const path = npy_make("d.npy", "|u1", shape + 5 - dims, dims, data, sizeof data);
        g_autoptr(trace) trace = MADE(trace_open(path, NULL, NULL));
        const struct trace_info *const i = trace_info(trace);
        CU_ASSERT(i->steps == 1 && i->layers == 1 && i->ranks == 2 && i->tokens_max == 3 && i->topk == 2);
        CU_ASSERT_EQUAL(i->experts, 12);
    }
}

/* An array int16 [a, b, c] may come from vLLM or from numpy.  The reader must not guess. */
TEST("vLLM is told apart")
{
    static const uint64_t shape[3] = { 2, 3, 2 };
    static const int16_t data[12] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 };
    static const int32_t second_layer[4] = { 2, 3, 8, 9 };
    const char *const path = npy_make("v.npy", "<i2", shape, 3, data, sizeof data);
    GError *error = NULL;
    CU_ASSERT_PTR_NULL(trace_open(path, NULL, &error));
    CU_ASSERT(error_holds(&error, "vllm:FILE"));
    g_autofree char *vllm = g_strconcat("vllm:", path, NULL), *npy = g_strconcat("npy:", path, NULL);
    expect_experts(vllm, 1, second_layer, 4);
    expect_experts(npy, 0, (const int32_t[6]){ 0, 1, 2, 3, 4, 5 }, 6);
}

TEST("Megatron lines are read")
{
    static const char text[] = "{\"step\": 100, \"layer\": 3, \"rank\": 0, \"num_tokens\": 2, \"topk\": 2, "
                               "\"top_indices\": [[1, 2], [3, -1]]}\n"
                               "\n"
                               "{\"step\": 100, \"layer\": 5, \"rank\": 0, \"num_tokens\": 1, \"topk\": 2, "
                               "\"top_indices\": [6, 7], \"x\": null}\n"
                               "{\"step\": 100, \"layer\": 5, \"rank\": 1, \"num_tokens\": 1, \"topk\": 2, "
                               "\"top_indices\": [[8, 9]], \"top_weights\": [[0.5, 1]]}";
    const char *const path = temporary_path("m.jsonl");
    temporary_write(path, text, sizeof text - 1);
    expect_experts(path, 0, (const int32_t[4]){ 1, 2, 3, -1 }, 4);
    expect_experts(path, 1, (const int32_t[2]){ 6, 7 }, 2);
    g_autoptr(trace) trace = trace_open(path, NULL, NULL);
    g_auto(routing) routing;
    CU_ASSERT_FATAL(trace != NULL && trace_read(trace, 0, 1, 0, &routing, NULL));
    CU_ASSERT(trace_info(trace)->ranks == 2 && trace_info(trace)->layers == 2 && trace_info(trace)->weights);
    CU_ASSERT(routing.rank[1].weights[0] == 0.5f && routing.rank[1].experts[1] == 9 && routing.rank[0].weights[0] == 0);
}

TEST("llama steps show by falling layers")
{
    static const char text[] = "layer,expert\r\n1,5\r\n1,6\r\n1,7\r\n1,8\r\n4,1\r\n4,2\r\n1,9\r\n1,3\r\n";
    const char *const path = temporary_path("l.csv");
    temporary_write(path, text, sizeof text - 1);
    g_autofree char *llama = g_strconcat("llama@2:", path, NULL);
    g_autoptr(trace) trace = trace_open(llama, NULL, NULL);
    struct routing routing;
    CU_ASSERT_FATAL(trace != NULL);
    CU_ASSERT(trace_info(trace)->steps == 2 && trace_info(trace)->layers == 2 && trace_info(trace)->tokens_max == 2);
    CU_ASSERT_FATAL(trace_read(trace, 1, 0, 0, &routing, NULL));
    CU_ASSERT(routing.rank[0].tokens == 1 && routing.rank[0].experts[0] == 9 && routing.rank[0].experts[1] == 3);
    routing_free(&routing);
    CU_ASSERT_FATAL(trace_read(trace, 1, 1, 0, &routing, NULL));
    CU_ASSERT_EQUAL(routing.rank[0].tokens, 0);
    routing_free(&routing);
}

TEST("splits become tokens")
{
    static const char text[] = "# two steps of two ranks\n[256, 512]\n[0, 256]\n\n0 768\n256,0\n";
    const char *const path = temporary_path("s.txt");
    temporary_write(path, text, sizeof text - 1);
    g_autofree char *splits = g_strconcat("splits@256:", path, NULL);
    g_autoptr(trace) trace = trace_open(splits, NULL, NULL);
    g_auto(routing) routing;
    CU_ASSERT_FATAL(trace != NULL && trace_read(trace, 0, 0, 0, &routing, NULL));
    CU_ASSERT(trace_info(trace)->steps == 2 && trace_info(trace)->ranks == 2 && trace_info(trace)->topk == 1);
    CU_ASSERT(routing.rank[0].tokens == 3 && routing.rank[0].experts[0] == 0 && routing.rank[0].experts[2] == 1);
    CU_ASSERT(routing.rank[1].tokens == 1 && routing.rank[1].experts[0] == 1);
}

TEST("weights of some layers")
{
    static const uint64_t shape[5] = { 1, 4, 1, 2, 2 }, half_shape[5] = { 1, 2, 1, 2, 2 };
    static const uint8_t experts[16] = { 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1 };
    static const uint16_t halves[8] = { 0x3c00, 0x3800, 0, 0, 0x4000, 0x3555, 0x0001, 0xbc00 };
    g_autofree char *path = g_strdup(npy_make("e.npy", "|u1", shape, 5, experts, sizeof experts));
    const char *const weights = npy_make("h.npy", "<f2", half_shape, 5, halves, sizeof halves);
    g_autofree char *mapped = g_strconcat(weights, "@3,1", NULL), *half = g_strconcat(weights, "@-,2", NULL);
    struct routing routing;
    struct trace *trace = trace_open(path, &(struct trace_options){ 0, mapped }, NULL);
    CU_ASSERT_FATAL(trace != NULL);
    CU_ASSERT_FATAL(trace_read(trace, 0, 1, 0, &routing, NULL));
    CU_ASSERT(routing.rank[0].weights[0] == 2 && routing.rank[0].weights[3] == -1);
    CU_ASSERT_DOUBLE_EQUAL(routing.rank[0].weights[1], 0.33325195, 1e-7);
    CU_ASSERT_DOUBLE_EQUAL(routing.rank[0].weights[2], 5.9604645e-8, 1e-14);
    routing_free(&routing);
    CU_ASSERT_FATAL(trace_read(trace, 0, 0, 0, &routing, NULL));
    CU_ASSERT_PTR_NULL(routing.rank[0].weights);
    routing_free(&routing);
    trace_close(trace);
    trace = trace_open(path, &(struct trace_options){ 0, half }, NULL);
    CU_ASSERT_FATAL(trace != NULL && trace_read(trace, 0, 2, 0, &routing, NULL));
    CU_ASSERT_EQUAL(routing.rank[0].weights[0], 2);
    routing_free(&routing);
    trace_close(trace);
    CU_ASSERT_PTR_NULL(trace_open(path, &(struct trace_options){ 0, weights }, NULL));
}

TEST("weights of every float type")
{
    static const uint64_t shape[2] = { 1, 2 };
    static const uint8_t experts[2] = { 0, 1 };
    static const uint16_t f2[2] = { 0x3800, 0x3400 };
    static const float f4[2] = { 0.5f, 0.25f };
    static const double f8[2] = { 0.5, 0.25 }, bad[2] = { 0.5, NAN };
    g_autofree char *path = g_strdup(npy_make("e.npy", "|u1", shape, 2, experts, 2));
    const char *const files[4] = { npy_make("f2.npy", "<f2", shape, 2, f2, sizeof f2),
                                   npy_make("f4.npy", "<f4", shape, 2, f4, sizeof f4),
                                   npy_make("f8.npy", "<f8", shape, 2, f8, sizeof f8),
                                   npy_make("bad.npy", "<f8", shape, 2, bad, sizeof bad) };
    for (int f = 0; f < 4; f++) {
        struct routing routing;
        GError *error = NULL;
        g_autoptr(trace) trace = trace_open(path, &(struct trace_options){ 0, files[f] }, NULL);
        CU_ASSERT_FATAL(trace != NULL);
        if (f < 3) {
            CU_ASSERT_FATAL(trace_read(trace, 0, 0, 0, &routing, &error));
            CU_ASSERT(routing.rank[0].weights[0] == 0.5f && routing.rank[0].weights[1] == 0.25f);
            routing_free(&routing);
        } else {
            CU_ASSERT_FALSE(trace_read(trace, 0, 0, 0, &routing, &error));
            CU_ASSERT(error_holds(&error, "element 1: expected a finite weight, found nan"));
        }
    }
}

TEST("halves are exact")
{
    for (uint32_t bits = 0; bits < 65536; bits++) {
        uint16_t back = 0;
        const float value = half_to_float((uint16_t)bits);
        if (isfinite(value)) CU_ASSERT(half_from_float(value, &back) && back == bits)
        else CU_ASSERT_FALSE(half_from_float(value, &back));
    }
    uint16_t half;
    CU_ASSERT_FALSE(half_from_float(0.1f, &half));
    CU_ASSERT_FALSE(half_from_float(65536.0f, &half));
    CU_ASSERT_FALSE(half_from_float(1e-9f, &half));
    CU_ASSERT_EQUAL(half_to_float(0x7bff), 65504);
}

TEST("fewer ranks share the experts")
{
    g_auto(sample) sample;
    struct sample_options o = ragged;
    o.ranks = 4;
    o.experts = 64;
    sample_make(&sample, &o);
    static const char *const names[] = { "r.ept", "r.csv", "r.npy" };
    for (int n = 0; n < 3; n++) {
        const char *const path = temporary_path(names[n]);
        struct routing routing;
        g_autoptr(GError) error = NULL;
        char *note = NULL;
        CU_ASSERT_FATAL(trace_write(path, &(struct trace_write_options){ .pad = n == 2 }, &sample.info, sample_produce,
                                    &sample, &note, NULL));
        g_free(note);
        g_autoptr(trace) trace = trace_open(path, &(struct trace_options){ .experts = 64 }, NULL);
        CU_ASSERT_FATAL(trace != NULL && trace_read(trace, 1, 2, 2, &routing, NULL));
        CU_ASSERT(routing.ranks == 2 && routing.experts == 64);
        const struct routing_rank *const expected = &sample.blocks[1 * 4 + 2].rank[1];
        CU_ASSERT(routing.rank[1].tokens >= expected->tokens);
        CU_ASSERT(memcmp(routing.rank[1].experts, expected->experts, expected->tokens * 3 * sizeof(int32_t)) == 0);
        routing_free(&routing);
        CU_ASSERT_FALSE(trace_read(trace, 1, 2, 3, &routing, &error));
        CU_ASSERT(error_holds(&error, "experts: expected a multiple of 3 ranks"));
        CU_ASSERT_FALSE(trace_read(trace, 3, 0, 0, &routing, &error));
        CU_ASSERT(error_holds(&error, "step: expected 0 to 2, found 3"));
    }
}

/* A pipe is copied first, so it can be read out of order as well. */
TEST("pipes are read")
{
    static const uint64_t shape[2] = { 2, 2 };
    static const uint8_t data[4] = { 4, 5, 6, 7 };
    int ends[2];
    g_autofree gchar *bytes = NULL;
    gsize size;
    CU_ASSERT_FATAL(g_file_get_contents(npy_make("p.npy", "|u1", shape, 2, data, 4), &bytes, &size, NULL));
    CU_ASSERT_FATAL(pipe(ends) == 0);
    CU_ASSERT_EQUAL(write(ends[1], bytes, size), (gssize)size);
    close(ends[1]);
    g_autofree char *path = g_strdup_printf("/dev/fd/%d", ends[0]);
    expect_experts(path, 0, (const int32_t[4]){ 4, 5, 6, 7 }, 4);
    close(ends[0]);
}

/* A writer that fails in the middle leaves nothing behind. */
static bool produce_failing(void *context, uint32_t step, uint32_t layer, struct routing *out, GError **error)
{
    if (step == 2) return error_input(error, "the source is gone");
    return sample_produce(context, step, layer, out, error);
}

TEST("failed writes leave nothing")
{
    static const char *const names[] = { "gone.ept", "gone.csv", "gone.csv.zst", "gone.jsonl", "gone.npy" };
    g_auto(sample) sample;
    sample_make(&sample, &ragged);
    temporary_clear();
    for (size_t n = 0; n < G_N_ELEMENTS(names); n++) {
        GError *error = NULL;
        const char *const path = temporary_path(names[n]);
        CU_ASSERT_FALSE(trace_write(path, &(struct trace_write_options){ .pad = n == 4 }, &sample.info, produce_failing,
                                    &sample, NULL, &error));
        CU_ASSERT(error_is(&error, "the source is gone"));
        g_autofree char *folder = g_path_get_dirname(path);
        g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
        CU_ASSERT_PTR_NULL(g_dir_read_name(dir));
    }
    g_autoptr(GError) error = NULL;
    CU_ASSERT_FALSE(trace_write(temporary_path("uneven.npy"), &(struct trace_write_options){ 0 }, &sample.info,
                                sample_produce, &sample, NULL, &error));
    CU_ASSERT(error_holds(&error, "--pad"));
}
