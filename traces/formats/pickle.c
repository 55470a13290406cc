/* pickle.c - runs the pickles of tensors; see pickle.h. */
#include "traces/formats/pickle.h"

#include <string.h>
#include "traces/trace.h"

enum { SLAB_VALUES = 1024 };
enum inside { INSIDE_MARK, INSIDE_TENSOR, INSIDE_ORDERED_DICT, INSIDE_STORAGE_TYPE, INSIDE_STORAGE };

struct pickle {
    const char *source;
    const uint8_t *bytes;
    size_t size, at, opcode_at;
    uint8_t opcode;
    GPtrArray *slabs; /* arrays of SLAB_VALUES values, of which the last has `used` values in use */
    size_t used;
    GPtrArray *stack;
    GHashTable *memo; /* number -> value */
    uint32_t memo_next;
    struct pickle_value *root;
    GError *error;
};

static bool refuse(struct pickle *p, const char *expected, const char *found)
{
    if (p->error) return false;
    g_autofree char *shown = g_utf8_make_valid(found, -1);
    return error_input(&p->error, "%s: data.pkl: offset %zu, opcode 0x%02x: expected %s, found %.80s", p->source,
                       p->opcode_at, p->opcode, expected, shown);
}

static struct pickle_value *value_new(struct pickle *p, enum pickle_type type)
{
    if (p->slabs->len == 0 || p->used == SLAB_VALUES) {
        g_ptr_array_add(p->slabs, g_new0(struct pickle_value, SLAB_VALUES));
        p->used = 0;
    }
    struct pickle_value *const slab = g_ptr_array_index(p->slabs, p->slabs->len - 1);
    struct pickle_value *const value = &slab[p->used++];
    value->type = type;
    return value;
}

static struct pickle_value *push(struct pickle *p, enum pickle_type type)
{
    struct pickle_value *const value = value_new(p, type);
    g_ptr_array_add(p->stack, value);
    return value;
}

static bool is_inside(const struct pickle_value *value, enum inside what)
{
    return value->type == PICKLE_INSIDE && value->inside == what;
}

/* The topmost value.  NULL with an error if there is none, or only a mark is there. */
static struct pickle_value *top(struct pickle *p)
{
    struct pickle_value *const value = p->stack->len ? g_ptr_array_index(p->stack, p->stack->len - 1) : NULL;
    if (value && !is_inside(value, INSIDE_MARK)) return value;
    refuse(p, "a value on the stack", value ? "a mark" : "none");
    return NULL;
}

static struct pickle_value *pop(struct pickle *p)
{
    struct pickle_value *const value = top(p);
    if (value) g_ptr_array_set_size(p->stack, (gint)p->stack->len - 1);
    return value;
}

/* Finds where the values above the last mark begin.  False with an error if there is no mark. */
static bool mark_find(struct pickle *p, guint *first)
{
    for (guint i = p->stack->len; i > 0; i--) {
        if (!is_inside(g_ptr_array_index(p->stack, i - 1), INSIDE_MARK)) continue;
        *first = i;
        return true;
    }
    return refuse(p, "a mark on the stack", "none");
}

static bool argument(struct pickle *p, size_t size, const uint8_t **bytes)
{
    *bytes = p->bytes + p->at;
    if (size > p->size - p->at) return refuse(p, "its argument", "the end of the pickle (truncated?)");
    p->at += size;
    return true;
}

static bool number_take(struct pickle *p, size_t size, uint64_t *number)
{
    const uint8_t *bytes;
    *number = 0;
    if (!argument(p, size, &bytes)) return false;
    memcpy(number, bytes, size); /* the file and the machine are little-endian */
    return true;
}

static bool text_push(struct pickle *p, size_t length_bytes)
{
    uint64_t length;
    const uint8_t *bytes;
    if (!number_take(p, length_bytes, &length) || !argument(p, (size_t)length, &bytes)) return false;
    push(p, PICKLE_TEXT)->text = g_strndup((const char *)bytes, (size_t)length);
    return true;
}

static bool integer_push(struct pickle *p, size_t bytes, bool is_signed)
{
    uint64_t number;
    if (!number_take(p, bytes, &number)) return false;
    if (is_signed && bytes < 8 && number >> (8 * bytes - 1)) number |= UINT64_MAX << (8 * bytes);
    push(p, PICKLE_INTEGER)->integer = (int64_t)number;
    return true;
}

/* LONG1: pushes a number of up to 8 bytes.  A number of no bytes is 0. */
static bool long_push(struct pickle *p)
{
    uint64_t length;
    if (!number_take(p, 1, &length)) return false;
    if (length > 8) return refuse(p, "a number of at most 8 bytes", "a longer one");
    if (length) return integer_push(p, (size_t)length, true);
    push(p, PICKLE_INTEGER)->integer = 0;
    return true;
}

static bool float_push(struct pickle *p)
{
    const uint8_t *bytes;
    uint64_t bits = 0;
    if (!argument(p, 8, &bytes)) return false;
    for (int i = 0; i < 8; i++) bits = bits << 8 | bytes[i];
    memcpy(&push(p, PICKLE_FLOAT)->number, &bits, sizeof bits);
    return true;
}

/* ---- names ---- */

static const struct storage_type {
    const char *name;
    char kind;
    uint8_t width;
} storage_types[] = {
    { "ByteStorage", 'u', 1 },   { "CharStorage", 'i', 1 },     { "ShortStorage", 'i', 2 }, { "IntStorage", 'i', 4 },
    { "LongStorage", 'i', 8 },   { "BoolStorage", 'b', 1 },     { "HalfStorage", 'f', 2 },  { "FloatStorage", 'f', 4 },
    { "DoubleStorage", 'f', 8 }, { "BFloat16Storage", 'f', 2 },
};

/* GLOBAL: pushes the name "module\nname\n". */
static bool name_push(struct pickle *p)
{
    const char *const text = (const char *)p->bytes + p->at;
    const char *const end = p->bytes ? memchr(text, '\n', p->size - p->at) : NULL;
    const char *const end2 = end ? memchr(end + 1, '\n', p->size - p->at - (size_t)(end + 1 - text)) : NULL;
    if (!end2) return refuse(p, "a module and a name", "the end of the pickle (truncated?)");
    p->at += (size_t)(end2 + 1 - text);
    g_autofree char *module = g_strndup(text, (size_t)(end - text));
    g_autofree char *name = g_strndup(end + 1, (size_t)(end2 - end - 1));
    uint32_t inside = INSIDE_MARK;
    int64_t type = -1;
    if (!strcmp(module, "torch._utils") && !strcmp(name, "_rebuild_tensor_v2")) inside = INSIDE_TENSOR;
    else if (!strcmp(module, "collections") && !strcmp(name, "OrderedDict")) inside = INSIDE_ORDERED_DICT;
    for (size_t i = 0; !strcmp(module, "torch") && i < G_N_ELEMENTS(storage_types); i++)
        if (!strcmp(name, storage_types[i].name)) type = (int64_t)i;
    if (type >= 0) inside = INSIDE_STORAGE_TYPE;
    if (inside == INSIDE_MARK) {
        g_autofree char *found = g_strdup_printf("the name %s.%s, which is not looked up", module, name);
        return refuse(p, "torch's tensors and nothing that could run", found);
    }
    struct pickle_value *const value = push(p, PICKLE_INSIDE);
    value->inside = inside;
    value->integer = type;
    return true;
}

/* BINPERSID: pops ("storage", type, key, place, elements) and pushes a storage, which is a tensor without shape. */
static bool storage_push(struct pickle *p)
{
    const struct pickle_value *const id = pop(p);
    if (!id) return false;
    const struct pickle_value *item[5] = { NULL };
    for (uint32_t i = 0; i < 5; i++) item[i] = pickle_item(id, i);
    if (pickle_count(id) != 5 || item[0]->type != PICKLE_TEXT || strcmp(item[0]->text, "storage") != 0 ||
        !is_inside(item[1], INSIDE_STORAGE_TYPE) || item[2]->type != PICKLE_TEXT || item[4]->type != PICKLE_INTEGER ||
        item[4]->integer < 0)
        return refuse(p, "(\"storage\", type, key, place, elements)", "something else");
    struct pickle_value *const value = push(p, PICKLE_INSIDE);
    const struct storage_type *const type = &storage_types[item[1]->integer];
    value->inside = INSIDE_STORAGE;
    value->tensor = g_new0(struct pickle_tensor, 1);
    *value->tensor = (struct pickle_tensor){
        .storage = item[2]->text, .kind = type->kind, .width = type->width, .storage_count = (uint64_t)item[4]->integer
    };
    return true;
}

/* ---- calls ---- */

static bool sizes_take(struct pickle *p, const struct pickle_value *list, uint64_t out[PICKLE_DIMS_MAX])
{
    for (uint32_t d = 0; d < pickle_count(list); d++) {
        const struct pickle_value *const size = pickle_item(list, d);
        if (size->type != PICKLE_INTEGER || size->integer < 0 || size->integer > INT64_C(1) << 48)
            return refuse(p, "a shape and strides of whole numbers", pickle_type_name(size));
        out[d] = (uint64_t)size->integer;
    }
    return true;
}

/* Whether every element lies in the storage. */
static bool tensor_inside(const struct pickle_tensor *t)
{
    uint64_t last = t->offset;
    for (uint32_t d = 0; d < t->dims; d++) {
        if (t->shape[d] == 0) return true;
        if (t->stride[d] && t->shape[d] - 1 > (t->storage_count - MIN(last, t->storage_count)) / t->stride[d])
            return false;
        last += (t->shape[d] - 1) * t->stride[d];
    }
    return last < t->storage_count;
}

/* Calls _rebuild_tensor_v2(storage, offset, shape, strides, requires_grad, hooks[, metadata]): pushes the tensor. */
static bool tensor_push(struct pickle *p, const struct pickle_value *arguments)
{
    const struct pickle_value *const storage = pickle_item(arguments, 0), *const offset = pickle_item(arguments, 1);
    const struct pickle_value *const shape = pickle_item(arguments, 2), *const stride = pickle_item(arguments, 3);
    if (pickle_count(arguments) < 6 || !is_inside(storage, INSIDE_STORAGE) || offset->type != PICKLE_INTEGER ||
        offset->integer < 0 || shape->type != PICKLE_LIST || stride->type != PICKLE_LIST ||
        pickle_count(shape) != pickle_count(stride))
        return refuse(p, "a storage, an offset, a shape and strides", "something else");
    if (pickle_count(shape) > PICKLE_DIMS_MAX) return refuse(p, "a tensor of at most 8 dimensions", "more");
    struct pickle_value *const value = push(p, PICKLE_TENSOR);
    value->tensor = g_memdup2(storage->tensor, sizeof *storage->tensor);
    value->tensor->offset = (uint64_t)offset->integer;
    value->tensor->dims = pickle_count(shape);
    if (!sizes_take(p, shape, value->tensor->shape) || !sizes_take(p, stride, value->tensor->stride)) return false;
    return tensor_inside(value->tensor) || refuse(p, "a tensor inside its storage", "one that reaches beyond");
}

static bool reduce(struct pickle *p)
{
    const struct pickle_value *const arguments = pop(p), *const callee = arguments ? pop(p) : NULL;
    if (!callee) return false;
    if (is_inside(callee, INSIDE_TENSOR)) return tensor_push(p, arguments);
    if (!is_inside(callee, INSIDE_ORDERED_DICT) || arguments->type != PICKLE_LIST || pickle_count(arguments))
        return refuse(p, "a call that makes a tensor or an empty OrderedDict", pickle_type_name(callee));
    push(p, PICKLE_DICT);
    return true;
}

/* ---- lists, dictionaries, memo ---- */

static bool items_add(struct pickle *p, struct pickle_value *to, guint first, enum pickle_type type)
{
    const guint count = p->stack->len - first;
    if (to->type != type) return refuse(p, type == PICKLE_LIST ? "a list" : "a dictionary", pickle_type_name(to));
    if (type == PICKLE_DICT && count % 2) return refuse(p, "as many keys as values", "an odd number of both");
    if (!to->items && count) to->items = g_ptr_array_sized_new(count);
    for (guint i = 0; i < count; i++) {
        const struct pickle_value *const item = g_ptr_array_index(p->stack, first + i);
        if (is_inside(item, INSIDE_MARK)) return refuse(p, "values", "a mark");
        g_ptr_array_add(to->items, (gpointer)item);
    }
    return true;
}

/* Adds the topmost `count` values to the list or dictionary below them: 1 for APPEND, 2 for SETITEM.  If count is 0,
 * adds all values above the last mark. */
static bool container_extend(struct pickle *p, guint count, enum pickle_type type)
{
    guint first = p->stack->len - count;
    if (count > p->stack->len) return refuse(p, "values on the stack", "too few");
    if (count == 0 && !mark_find(p, &first)) return false;
    const guint below = first - (count == 0);
    if (below == 0) return refuse(p, "a list or a dictionary on the stack", "none");
    if (!items_add(p, g_ptr_array_index(p->stack, below - 1), first, type)) return false;
    g_ptr_array_set_size(p->stack, (gint)below);
    return true;
}

/* TUPLE1 to TUPLE3: makes a tuple of the topmost `count` values.  If count is 0, takes all values above the last
 * mark. */
static bool tuple_push(struct pickle *p, guint count)
{
    guint first = p->stack->len - count;
    if (count > p->stack->len) return refuse(p, "values on the stack", "too few");
    if (count == 0 && !mark_find(p, &first)) return false;
    struct pickle_value *const tuple = value_new(p, PICKLE_LIST);
    if (!items_add(p, tuple, first, PICKLE_LIST)) return false;
    g_ptr_array_set_size(p->stack, (gint)(first - (count == 0)));
    g_ptr_array_add(p->stack, tuple);
    return true;
}

static bool memo_put(struct pickle *p, uint64_t number)
{
    struct pickle_value *const value = top(p);
    if (!value) return false;
    g_hash_table_insert(p->memo, GSIZE_TO_POINTER(number), value);
    return true;
}

static bool memo_get(struct pickle *p, size_t bytes)
{
    uint64_t number;
    if (!number_take(p, bytes, &number)) return false;
    struct pickle_value *const value = g_hash_table_lookup(p->memo, GSIZE_TO_POINTER(number));
    if (!value) return refuse(p, "a value that was kept", "none of this number");
    g_ptr_array_add(p->stack, value);
    return true;
}

static bool truth_push(struct pickle *p, bool truth)
{
    push(p, PICKLE_BOOL)->integer = truth;
    return true;
}

static bool kept_put(struct pickle *p, size_t bytes)
{
    uint64_t number;
    return number_take(p, bytes, &number) && memo_put(p, number);
}

/* Skips the bytes of PROTO or FRAME, which are not needed. */
static bool skip(struct pickle *p, size_t bytes)
{
    const uint8_t *ignored;
    return argument(p, bytes, &ignored);
}

/* Runs one opcode.  Sets *done after STOP. */
static bool step(struct pickle *p, bool *done)
{
    char found[8];
    switch (p->opcode) {
    case 0x80: return skip(p, 1);
    case 0x95: return skip(p, 8);
    case '(': push(p, PICKLE_INSIDE)->inside = INSIDE_MARK; return true;
    case '}': push(p, PICKLE_DICT); return true;
    case ']':
    case ')': push(p, PICKLE_LIST); return true;
    case 'N': push(p, PICKLE_NONE); return true;
    case 0x88: return truth_push(p, true);
    case 0x89: return truth_push(p, false);
    case 'J': return integer_push(p, 4, true);
    case 'K': return integer_push(p, 1, false);
    case 'M': return integer_push(p, 2, false);
    case 0x8a: return long_push(p);
    case 'G': return float_push(p);
    case 'X': return text_push(p, 4);
    case 0x8c: return text_push(p, 1);
    case 'c': return name_push(p);
    case 'Q': return storage_push(p);
    case 'R': return reduce(p);
    case 'a': return container_extend(p, 1, PICKLE_LIST);
    case 'e': return container_extend(p, 0, PICKLE_LIST);
    case 's': return container_extend(p, 2, PICKLE_DICT);
    case 'u': return container_extend(p, 0, PICKLE_DICT);
    case 't': return tuple_push(p, 0);
    case 0x85: return tuple_push(p, 1);
    case 0x86: return tuple_push(p, 2);
    case 0x87: return tuple_push(p, 3);
    case 'q': return kept_put(p, 1);
    case 'r': return kept_put(p, 4);
    case 0x94: return memo_put(p, p->memo_next++);
    case 'h': return memo_get(p, 1);
    case 'j': return memo_get(p, 4);
    case '.': return *done = (p->root = pop(p)) != NULL;
    }
    g_snprintf(found, sizeof found, "0x%02x", p->opcode);
    return refuse(p, "an opcode that builds numbers, texts, lists, dictionaries or tensors", found);
}

struct pickle *pickle_read(const char *source, const uint8_t *bytes, size_t size, GError **error)
{
    struct pickle *const p = g_new0(struct pickle, 1);
    *p = (struct pickle){ .source = source, .bytes = bytes, .size = size };
    p->slabs = g_ptr_array_new();
    p->stack = g_ptr_array_new();
    p->memo = g_hash_table_new(NULL, NULL);
    bool done = false;
    if (size > PICKLE_BYTES_MAX) refuse(p, "at most 64 MiB", "more");
    while (!done && !p->error) {
        p->opcode_at = p->at;
        p->opcode = 0;
        if (p->at == size) refuse(p, "the opcode STOP", "the end of the pickle (truncated?)");
        else p->opcode = bytes[p->at++];
        if (!p->error) (void)step(p, &done);
    }
    if (!p->error) return p;
    g_propagate_error(error, p->error);
    pickle_free(p);
    return NULL;
}

void pickle_free(struct pickle *p)
{
    if (!p) return;
    for (guint s = 0; s < p->slabs->len; s++) {
        struct pickle_value *const slab = g_ptr_array_index(p->slabs, s);
        for (size_t v = 0; v < (s + 1 == p->slabs->len ? p->used : SLAB_VALUES); v++) {
            const struct pickle_value *const value = &slab[v];
            if (value->type == PICKLE_TEXT) g_free(value->text);
            else if (value->type == PICKLE_TENSOR || is_inside(value, INSIDE_STORAGE)) g_free(value->tensor);
            else if ((value->type == PICKLE_LIST || value->type == PICKLE_DICT) && value->items)
                g_ptr_array_unref(value->items);
        }
        g_free(slab);
    }
    g_ptr_array_unref(p->slabs);
    g_ptr_array_unref(p->stack);
    g_hash_table_unref(p->memo);
    g_free(p);
}

const struct pickle_value *pickle_root(const struct pickle *p) { return p->root; }

uint32_t pickle_count(const struct pickle_value *list)
{
    return list && list->type == PICKLE_LIST && list->items ? list->items->len : 0;
}

const struct pickle_value *pickle_item(const struct pickle_value *list, uint32_t index)
{
    return index < pickle_count(list) ? g_ptr_array_index(list->items, index) : NULL;
}

const struct pickle_value *pickle_member(const struct pickle_value *dict, const char *key)
{
    for (guint i = 0; dict && dict->type == PICKLE_DICT && dict->items && i + 1 < dict->items->len; i += 2) {
        const struct pickle_value *const name = g_ptr_array_index(dict->items, i);
        if (name->type == PICKLE_TEXT && strcmp(name->text, key) == 0) return g_ptr_array_index(dict->items, i + 1);
    }
    return NULL;
}

const char *pickle_type_name(const struct pickle_value *value)
{
    static const char *const names[] = { "None",   "a truth value", "a whole number", "a fraction",      "text",
                                         "a list", "a dictionary",  "a tensor",       "a name or a mark" };
    return value ? names[value->type] : "nothing";
}
