/* routed_json.c - the routing that engines return so that reinforcement learning can replay it.  Each line is one
 * request.  Its routed experts are in base64, as little-endian integers [tokens, layers, topk]:
 *
 *     {"routed_experts": {"data": "AQACAA==", "shape": [1, 1, 2], "dtype": "int16", "start": 0}}
 *     {"meta_info": {"routed_experts": "AQAAAAIAAAA=", "prompt_tokens": 1, "completion_tokens": 1}}
 *
 * vLLM, LightLLM and the library verifiers state the shape.  verifiers states no dtype, which follows from the bytes.
 * SGLang states neither.  Its integers are int32, it has an entry for each token but the last, and the user must give
 * topk.  Requests follow one another as tokens of one rank. */
#include <string.h>
#include "traces/formats/json_lines.h"

struct payload {
    const json_t *data;
    uint64_t shape[3]; /* tokens, layers, topk; layers is 0 if not stated */
    uint32_t width;    /* bytes of an integer; 0 if not stated */
    bool is_signed;
};

static bool dtype_take(const struct json_lines *r, const json_t *dtype, struct payload *p, GError **error)
{
    static const struct {
        const char *name;
        uint32_t width;
        bool is_signed;
    } types[] = { { "uint8", 1, false }, { "int8", 1, true },    { "int16", 2, true }, { "uint16", 2, false },
                  { "int32", 4, true },  { "uint32", 4, false }, { "int64", 8, true } };
    const char *const name = json_string_value(dtype);
    for (size_t i = 0; name && i < G_N_ELEMENTS(types); i++) {
        if (strcmp(name, types[i].name) != 0) continue;
        p->width = types[i].width;
        p->is_signed = types[i].is_signed;
        return true;
    }
    return json_lines_error(r, error, "dtype", "int8 to int64 or uint8 to uint32",
                            name ? name : json_lines_type(dtype));
}

static bool shape_take(const struct json_lines *r, const json_t *shape, struct payload *p, GError **error)
{
    uint64_t count = 1;
    if (!json_is_array(shape) || json_array_size(shape) != 3)
        return json_lines_error(r, error, "shape", "[tokens, layers, topk]", json_lines_type(shape));
    for (size_t d = 0; d < 3; d++) {
        const json_int_t size = json_integer_value(json_array_get(shape, d));
        static const json_int_t most[] = { TRACE_PLACES_MAX, 1 << 16, ROUTING_TOPK_MAX };
        if (size < (d > 0) || size > most[d] || count > TRACE_PLACES_MAX * 64 / (uint64_t)MAX(size, 1))
            return json_lines_error(r, error, "shape", "tokens, 1 to 65536 layers, topk 1 to 256", "other sizes");
        p->shape[d] = (uint64_t)size;
        count *= p->shape[d];
    }
    return true;
}

/* Takes the number of tokens of a payload from SGLang's meta_info.  The user gives topk, and the number of layers
 * follows from the bytes. */
static bool meta_take(const struct json_lines *r, const json_t *meta, struct payload *p, GError **error)
{
    const json_int_t prompt = json_integer_value(json_object_get(meta, "prompt_tokens"));
    const json_int_t completion = json_integer_value(json_object_get(meta, "completion_tokens"));
    p->width = 4;
    p->is_signed = true;
    if (!r->topk)
        return json_lines_error(r, error, "routed_experts", "routed@K:FILE, K experts a token", "text without a shape");
    if (prompt < 1 || completion < 1 || prompt > (json_int_t)TRACE_PLACES_MAX ||
        completion > (json_int_t)TRACE_PLACES_MAX)
        return json_lines_error(r, error, "meta_info", "prompt_tokens and completion_tokens", "none");
    p->shape[0] = (uint64_t)(prompt + completion - 1);
    p->shape[2] = r->topk;
    return true;
}

/* Computes the sizes that the payload does not state, from the number of its bytes. */
static bool payload_fit(const struct json_lines *r, struct payload *p, size_t bytes, GError **error)
{
    char expected[96], found[48];
    const uint64_t row = p->shape[0] * p->shape[2];
    if (!p->shape[1] && bytes % (row * p->width) == 0) p->shape[1] = bytes / (row * p->width);
    const uint64_t count = row * p->shape[1];
    for (uint32_t width = 1; !p->width && width <= 8; width *= 2)
        if (count && bytes == count * width) p->width = width;
    p->is_signed = p->is_signed || p->width > 1;
    g_snprintf(found, sizeof found, "%zu bytes", bytes);
    g_snprintf(expected, sizeof expected,
               "integers of [%" G_GUINT64_FORMAT ", %" G_GUINT64_FORMAT ", %" G_GUINT64_FORMAT "]", p->shape[0],
               p->shape[1], p->shape[2]);
    if ((p->shape[1] || !bytes) && p->shape[1] <= 1 << 16 && bytes == count * p->width) return true;
    return json_lines_error(r, error, "data", expected, found);
}

static bool payload_add(struct json_lines *r, const struct payload *p, const uint8_t *at, GError **error)
{
    const unsigned shift = 64 - 8 * p->width;
    char found[32];
    for (uint64_t i = 0; i < p->shape[0] * p->shape[1]; i++) {
        struct table_rows *const rows = table_rows(r->table, 0, (uint32_t)(i % p->shape[1]), 0);
        if (!rows) return json_lines_error(r, error, "layers", TABLE_FULL, "one more");
        int32_t *const experts = table_row_add(r->table, rows, NULL);
        for (uint32_t k = 0; k < p->shape[2]; k++, at += p->width) {
            uint64_t bits = 0;
            memcpy(&bits, at, p->width);
            const int64_t expert = p->is_signed ? (int64_t)(bits << shift) >> shift : (int64_t)bits;
            g_snprintf(found, sizeof found, "%" G_GINT64_FORMAT, expert);
            if (expert < ROUTING_NONE || expert >= ROUTING_EXPERTS_MAX)
                return json_lines_error(r, error, "data", "experts below 1048576 or -1", found);
            experts[k] = (int32_t)expert;
        }
    }
    return true;
}

static bool payload_read(struct json_lines *r, struct payload *p, GError **error)
{
    const char *const text = json_string_value(p->data);
    gsize bytes = 0;
    if (!text) return json_lines_error(r, error, "data", "text in base64", json_lines_type(p->data));
    if (strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=") != strlen(text) ||
        strlen(text) % 4)
        return json_lines_error(r, error, "data", "base64", "other characters, or a part of it");
    g_autofree guchar *data = g_base64_decode(text, &bytes);
    if (!payload_fit(r, p, bytes, error)) return false;
    if (!r->table) r->table = table_new((uint32_t)p->shape[2]);
    if (p->shape[2] != table_topk(r->table))
        return json_lines_error(r, error, "shape", "the topk of the first line", "another");
    return payload_add(r, p, data, error);
}

/* Sets *known to whether the value is a payload.  If it is, adds the experts of its request. */
static bool value_take(struct json_lines *r, const json_t *value, const json_t *meta, bool *known, GError **error)
{
    struct payload p = { .data = json_object_get(value, "data") };
    const json_t *const dtype = json_object_get(value, "dtype");
    if (meta && json_is_string(value)) {
        *known = true;
        p.data = value;
        return meta_take(r, meta, &p, error) && payload_read(r, &p, error);
    }
    if (!p.data) return true;
    *known = true;
    return shape_take(r, json_object_get(value, "shape"), &p, error) && (!dtype || dtype_take(r, dtype, &p, error)) &&
           payload_read(r, &p, error);
}

/* Reads the members of an object that may hold payloads.  Its lists hold choices, or the messages of a conversation. */
static bool object_take(struct json_lines *r, const json_t *object, bool *known, GError **error)
{
    static const char *const inner[] = { "meta_info", "tokens" }, *const lists[] = { "choices", "trajectory" };
    bool good = value_take(r, object, NULL, known, error) &&
                value_take(r, json_object_get(object, "prompt_routed_experts"), NULL, known, error) &&
                value_take(r, json_object_get(object, "routed_experts"), object, known, error);
    for (size_t i = 0; good && i < 2; i++) {
        const json_t *const part = json_object_get(object, inner[i]);
        good = value_take(r, json_object_get(part, "routed_experts"), part, known, error);
    }
    for (size_t i = 0; i < 2; i++) {
        const json_t *const list = json_object_get(object, lists[i]);
        for (size_t n = 0; good && n < json_array_size(list); n++) {
            const json_t *const item = json_array_get(list, n), *const part = json_object_get(item, "tokens");
            good = value_take(r, json_object_get(item, "routed_experts"), object, known, error) &&
                   value_take(r, json_object_get(part, "routed_experts"), part, known, error);
        }
    }
    return good;
}

bool routed_json_add(struct json_lines *r, const json_t *object, GError **error)
{
    bool known = false;
    return object_take(r, object, &known, error) && known;
}
