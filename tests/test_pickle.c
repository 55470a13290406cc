/* test_pickle.c - pickles of tensors, and the files of torch.save that contain them.  Some must be read, and the others
 * must be refused.
 *
 * tests/cli/trace_engines.sh reads files that PyTorch wrote.  Here pickles are written opcode by opcode, so that they
 * can be hostile. */
#include <string.h>
#include "tests/support_trace.h"
#include "tests/support_zip.h"
#include "tests/unit.h"
#include "traces/formats/pickle.h"

/* A literal's bytes, NULs included. */
#define BYTES(text) (const uint8_t *)(text), sizeof(text) - 1

static void refused(const uint8_t *bytes, size_t size, const char *expected)
{
    g_autoptr(GError) error = NULL;
    struct pickle *const pickle = pickle_read("x.pt", bytes, size, &error);
    CU_ASSERT_PTR_NULL(pickle);
    pickle_free(pickle);
    CU_ASSERT(error_holds(&error, expected));
}

/* Names and opcodes that run code in Python must be refused. */
TEST("hostile pickles are refused")
{
    refused(BYTES("\x80\2cos\nsystem\nX\2\0\0\0id\x85R."),
            "offset 2, opcode 0x63: expected torch's tensors and nothing that "
            "could run, found the name os.system");
    refused(BYTES("\x80\2ctorch\nload\n."), "the name torch.load");
    refused(BYTES("\x80\2ctorch.jit\n_rebuild_tensor_v2\n."), "the name torch.jit._rebuild_tensor_v2");
    refused(BYTES("(X\2\0\0\0idios\nsystem\n."), "opcode 0x69"); /* INST */
    refused(BYTES("(cos\nsystem\nX\2\0\0\0ido."), "os.system");
    refused(BYTES("\x8c\2os\x8c\6system\x93."), "opcode 0x93"); /* STACK_GLOBAL */
    refused(BYTES("\x82\1."), "opcode 0x82");                   /* EXT1 */
    refused(BYTES(")\x81."), "opcode 0x81");                    /* NEWOBJ */
    refused(BYTES("}}b."), "opcode 0x62");                      /* BUILD */
    refused(BYTES("P1\n."), "opcode 0x50");                     /* PERSID */
    refused(BYTES("S'x'\n."), "opcode 0x53");
    refused(BYTES("I1\n."), "opcode 0x49");
    refused(BYTES("ccollections\nOrderedDict\n(K\1tR."), "an empty OrderedDict");
    refused(BYTES("K\1)R."), "a call that makes a tensor");
}

TEST("damaged pickles are refused")
{
    refused(BYTES(""), "expected the opcode STOP, found the end");
    refused(BYTES("\x80"), "its argument");
    refused(BYTES("."), "a value on the stack, found none");
    refused(BYTES("(."), "a value on the stack, found a mark");
    refused(BYTES("t."), "a mark on the stack");
    refused(BYTES("\x86."), "too few");
    refused(BYTES("K\1a."), "a list or a dictionary on the stack");
    refused(BYTES("}K\1a."), "expected a list, found a dictionary");
    refused(BYTES("}(K\1u."), "an odd number");
    refused(BYTES("](((e."), "expected a list, found a name or a mark");
    refused(BYTES("h\0."), "a value that was kept");
    refused(BYTES("X\xff\xff\xff\xff."), "its argument");
    refused(BYTES("\x8a\x09\0\0\0\0\0\0\0\0\0."), "at most 8 bytes");
    refused(BYTES("K\1Q."), "(\"storage\", type, key, place, elements)");
    refused(BYTES("cos"), "a module and a name");
}

TEST("values are read")
{
    static const char text[] =
        "\x80\2}q\0(X\1\0\0\0aK\7X\1\0\0\0b](J\xff\xff\xff\xffM\1\1\x8a\1\x80NG\x3f\xe8\0\0\0\0\0\0e"
        "X\1\0\0\0ch\0u.";
    struct pickle *const pickle = MADE(pickle_read("x.pt", BYTES(text), NULL));
    const struct pickle_value *const root = pickle_root(pickle), *const list = pickle_member(root, "b");
    CU_ASSERT_EQUAL(pickle_member(root, "a")->integer, 7);
    CU_ASSERT_EQUAL_FATAL(pickle_count(list), 5);
    CU_ASSERT_EQUAL(pickle_item(list, 0)->integer, -1);
    CU_ASSERT_EQUAL(pickle_item(list, 1)->integer, 257);
    CU_ASSERT_EQUAL(pickle_item(list, 2)->integer, -128);
    CU_ASSERT_EQUAL(pickle_item(list, 3)->type, PICKLE_NONE);
    CU_ASSERT_EQUAL(pickle_item(list, 4)->number, 0.75);
    CU_ASSERT_PTR_EQUAL(pickle_member(root, "c"), root); /* a dictionary that contains itself */
    CU_ASSERT_PTR_NULL(pickle_member(root, "d"));
    pickle_free(pickle);
}

/* ---- files ---- */

static void number_append(GByteArray *out, int32_t number)
{
    const uint8_t opcode = 'J';
    g_byte_array_append(out, &opcode, 1);
    g_byte_array_append(out, (const uint8_t *)&number, 4);
}

static void append(GByteArray *out, const char *text)
{
    g_byte_array_append(out, (const uint8_t *)text, (guint)strlen(text));
}

struct tensor {
    const char *type;
    int32_t storage_count, offset, dims, shape[4], stride[4];
};

/* Appends the opcodes of a tensor over the storage "0". */
static void tensor_append(GByteArray *out, const struct tensor *t)
{
    append(out, "ctorch._utils\n_rebuild_tensor_v2\n((\x8c\7storagectorch\n");
    append(out, t->type);
    append(out, "\n\x8c\1"
                "0\x8c\3cpu");
    number_append(out, t->storage_count);
    append(out, "tQ");
    number_append(out, t->offset);
    for (int part = 0; part < 2; part++) {
        append(out, "(");
        for (int32_t d = 0; d < t->dims; d++) number_append(out, part ? t->stride[d] : t->shape[d]);
        append(out, "t");
    }
    append(out, "\x89"
                "ccollections\nOrderedDict\n)RtR");
}

/* Writes and reads a file of one tensor over the 24 numbers 0 to 23.  With a key, the tensor is in a dictionary under
 * that key.  Returns the error, or NULL. */
static GError *tensor_read(const char *key, const struct tensor *t, const char *order)
{
    g_autoptr(GByteArray) pickle = g_byte_array_new();
    uint8_t numbers[24 * 8] = { 0 };
    const size_t width = strcmp(t->type, "LongStorage") == 0 ? 8 : strcmp(t->type, "ByteStorage") == 0 ? 1 : 4;
    for (size_t i = 0; i < 24; i++) numbers[i * width] = (uint8_t)i;
    if (key) append(pickle, "}");
    if (key) {
        const uint8_t head[2] = { 0x8c, (uint8_t)strlen(key) };
        g_byte_array_append(pickle, head, 2);
        append(pickle, key);
    }
    tensor_append(pickle, t);
    append(pickle, key ? "s." : ".");
    const char *const path = temporary_path("t.pt");
    const struct zip_part parts[] = { { "t/data.pkl", pickle->data, pickle->len },
                                      { "t/byteorder", order, strlen(order) },
                                      { "t/data/0", numbers, 24 * width } };
    zip_write(path, parts, 3);
    return trace_read_all(path, NULL);
}

static void tensor_good(const char *key, const struct tensor *t)
{
    g_autoptr(GError) error = tensor_read(key, t, "little");
    if (error) printf("\n%s\n", error->message);
    CU_ASSERT_PTR_NULL(error);
}

static void tensor_bad(const char *key, const struct tensor *t, const char *order, const char *expected)
{
    g_autoptr(GError) error = tensor_read(key, t, order);
    CU_ASSERT(error_holds(&error, expected));
}

TEST("tensors by stride")
{
    tensor_good(NULL, &(struct tensor){ "LongStorage", 24, 0, 3, { 4, 3, 2 }, { 6, 2, 1 } });
    tensor_good("routed_experts", &(struct tensor){ "ByteStorage", 24, 0, 4, { 2, 2, 3, 2 }, { 12, 6, 2, 1 } });
    const char *const path = temporary_path("t.pt");
    /* The tensor is every second row of a transposed view.  Tokens 0 and 1 of layer 0 have the experts (1, 3) and (13,
     * 15). */
    tensor_good(NULL, &(struct tensor){ "IntStorage", 24, 1, 3, { 2, 3, 2 }, { 12, 4, 2 } });
    g_autoptr(trace) trace = trace_open(path, NULL, NULL);
    g_auto(routing) routing;
    CU_ASSERT_FATAL(trace && trace_read(trace, 0, 0, 0, &routing, NULL));
    static const int32_t expected[4] = { 1, 3, 13, 15 };
    CU_ASSERT_EQUAL(memcmp(routing.rank[0].experts, expected, sizeof expected), 0);
}

/* If every token of the batch names one expert in all places, all tokens are padding and go nowhere. */
TEST("padding goes nowhere")
{
    tensor_good(NULL, &(struct tensor){ "LongStorage", 24, 0, 4, { 2, 2, 3, 2 }, { 12, 6, 2, 0 } });
    g_autoptr(trace) trace = trace_open(temporary_path("t.pt"), NULL, NULL);
    g_auto(routing) routing;
    CU_ASSERT_FATAL(trace && trace_read(trace, 0, 2, 0, &routing, NULL));
    for (uint32_t i = 0; i < 4 * 2; i++) CU_ASSERT_EQUAL(routing.rank[0].experts[i], ROUTING_NONE);
}

TEST("tensors of other kinds are refused")
{
    const struct tensor good = { "IntStorage", 24, 0, 3, { 4, 3, 2 }, { 6, 2, 1 } };
    struct tensor t = good;
    tensor_bad(NULL, &t, "big", "byteorder: expected little");
    t.type = "FloatStorage";
    tensor_bad(NULL, &t, "little", "a tensor of whole numbers, found of fractions");
    t.type = "BoolStorage";
    tensor_bad(NULL, &t, "little", "found of truth values");
    t = good;
    t.shape[0] = 5;
    tensor_bad(NULL, &t, "little", "a tensor inside its storage");
    t = (struct tensor){ "IntStorage", 24, 24, 3, { 1, 1, 1 }, { 1, 1, 1 } };
    tensor_bad(NULL, &t, "little", "a tensor inside its storage");
    t = good;
    t.storage_count = 200;
    tensor_bad(NULL, &t, "little", "as many bytes as its tensor has");
    t = good;
    t.stride[0] = INT32_MAX;
    tensor_bad(NULL, &t, "little", "a tensor inside its storage");
    t.stride[0] = -6;
    tensor_bad(NULL, &t, "little", "whole numbers");
    /* A tensor claims many numbers, but has a few. */
    t = (struct tensor){ "IntStorage", 24, 0, 3, { INT32_MAX, 3, 2 }, { 0, 2, 1 } };
    tensor_bad(NULL, &t, "little", "of at most 1000 times");
    t = (struct tensor){ "IntStorage", 24, 0, 2, { 12, 2 }, { 2, 1 } };
    tensor_bad(NULL, &t, "little", "a tensor of 3 dimensions, found 2");
    tensor_bad("logical_count", &t, "little", "a tensor of 3 dimensions, found 2");
    tensor_bad("elsewhere", &t, "little", "SGLang's records or logical_count");
}

TEST("counts")
{
    tensor_good("logical_count", &(struct tensor){ "IntStorage", 24, 0, 3, { 2, 3, 4 }, { 12, 4, 1 } });
    g_autoptr(trace) trace = trace_open(temporary_path("t.pt"), NULL, NULL);
    g_auto(routing) routing;
    CU_ASSERT_FATAL(trace && trace_read(trace, 0, 1, 0, &routing, NULL)); /* the counts are 4, 5, 6 and 7 */
    CU_ASSERT_EQUAL(routing.rank[0].tokens, 22);
    uint32_t of[4] = { 0 };
    for (uint32_t i = 0; i < 22; i++) of[routing.rank[0].experts[i]]++;
    CU_ASSERT(of[0] == 4 && of[1] == 5 && of[2] == 6 && of[3] == 7);
}
