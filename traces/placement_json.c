/* placement_json.c - placements of all layers as the JSON that serving engines read.
 *
 *   SGLang, --init-expert-location FILE.json:   {"physical_to_logical_map": [[slot 0's expert, ...], ...]}
 *   vLLM Ascend, expert_map_path:               {"moe_layer_count": L, "layer_list": [{"layer_id": 0,
 *       "device_count": R, "device_list": [{"device_id": 0, "device_expert": [...]}, ...]}, ...]}
 *
 *   vLLM, a static expert map:                  [[slot 0's expert, ...], ...], a row a layer, or one row for all
 *
 * In all of these forms slots are numbered rank after rank, as in struct placement.  A file of one layer holds for all
 * layers. */
#include "traces/placement_json.h"

#include <jansson.h>
#include "sim/error.h"

static bool refuse(GError **error, const char *path, const char *where, const char *expected, const char *found)
{
    return error_input(error, "%s: %s: expected %s, found %s", path, where, expected, found);
}

/* The value, quoted for a message. */
static char *described(const json_t *value)
{
    static const char *const kind[] = { "an object", "an array", "text", "", "a fraction", "true", "false", "null" };
    if (!value) return g_strdup("nothing");
    if (json_is_integer(value)) return g_strdup_printf("%" JSON_INTEGER_FORMAT, json_integer_value(value));
    return g_strdup(kind[json_typeof(value)]);
}

static bool experts_take(const char *path, const char *where, const json_t *list, uint32_t experts, GArray *slots,
                         GError **error)
{
    char expected[48];
    g_autofree char *found = described(list);
    if (!json_is_array(list)) return refuse(error, path, where, "an array of experts", found);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *value = json_array_get(list, i);
        const json_int_t expert = json_is_integer(value) ? json_integer_value(value) : -1;
        if (expert < 0 || expert >= experts) {
            g_autofree char *other = described(value), *place = g_strdup_printf("%s[%zu]", where, i);
            g_snprintf(expected, sizeof expected, "an expert 0 to %u", experts - 1);
            return refuse(error, path, place, expected, other);
        }
        const uint32_t slot = (uint32_t)expert;
        g_array_append_val(slots, slot);
    }
    return true;
}

/* The list's element for a layer.  If a list has one element, that element holds for all layers. */
static const json_t *layer_of(const json_t *list, uint32_t layer)
{
    return json_array_get(list, json_array_size(list) == 1 ? 0 : layer);
}

static bool layers_refuse(const char *path, const char *where, const json_t *list, uint32_t layer, GError **error)
{
    char expected[48], found[32];
    g_snprintf(expected, sizeof expected, "an array of one or more than %u layers", layer);
    g_snprintf(found, sizeof found, "%zu", json_array_size(list));
    return refuse(error, path, where, expected, json_is_array(list) ? found : "none");
}

/* Reads a map, which lists the experts of slots.  `name` is what messages call the map. */
static bool map_read(const char *path, const char *name, const json_t *map, const struct placement_input *in,
                     GArray *slots, GError **error)
{
    char where[64], expected[64], found[24];
    const bool flat = json_is_integer(json_array_get(map, 0));
    const json_t *row = flat ? map : layer_of(map, in->layer);
    if (!row) return layers_refuse(path, name, map, in->layer, error);
    if (flat) g_snprintf(where, sizeof where, "%s", name);
    else g_snprintf(where, sizeof where, "%s[%u]", name, json_array_size(map) == 1 ? 0 : in->layer);
    if (!experts_take(path, where, row, in->experts, slots, error)) return false;
    if (slots->len && slots->len % in->ranks == 0) return true;
    g_snprintf(expected, sizeof expected, "slots that divide over %u ranks", in->ranks);
    g_snprintf(found, sizeof found, "%u", slots->len);
    return refuse(error, path, where, expected, found);
}

static bool devices_read(const char *path, const json_t *layers, const struct placement_input *in, GArray *slots,
                         GError **error)
{
    char where[80], expected[64], found[24];
    const json_t *layer = layer_of(layers, in->layer);
    if (!layer) return layers_refuse(path, "layer_list", layers, in->layer, error);
    const json_t *devices = json_object_get(layer, "device_list");
    g_snprintf(where, sizeof where, "layer_list[%u].device_list", json_array_size(layers) == 1 ? 0 : in->layer);
    g_snprintf(expected, sizeof expected, "%u devices, one a rank", in->ranks);
    g_snprintf(found, sizeof found, "%zu", json_array_size(devices));
    if (json_array_size(devices) != in->ranks) return refuse(error, path, where, expected, found);
    for (uint32_t r = 0; r < in->ranks; r++) {
        const guint before = slots->len;
        g_autofree char *place = g_strdup_printf("%s[%u].device_expert", where, r);
        const json_t *experts = json_object_get(json_array_get(devices, r), "device_expert");
        if (!experts_take(path, place, experts, in->experts, slots, error)) return false;
        const guint a_rank = slots->len / (r + 1);
        g_snprintf(expected, sizeof expected, "as many experts as the devices before have");
        g_snprintf(found, sizeof found, "%u", slots->len - before);
        if (!a_rank || slots->len - before != a_rank || slots->len % (r + 1))
            return refuse(error, path, place, expected, found);
    }
    return true;
}

GArray *placement_json_read(const char *path, const char *text, size_t bytes, const struct placement_input *in,
                            GError **error)
{
    json_error_t cause;
    json_auto_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &cause);
    if (!root) return error_null(error, "%s: line %d: expected JSON, found: %s", path, cause.line, cause.text);
    g_autoptr(GArray) slots = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    const json_t *map = json_object_get(root, "physical_to_logical_map"), *list = json_object_get(root, "layer_list");
    const bool good = json_is_array(root) ? map_read(path, "map", root, in, slots, error)
                      : map               ? map_read(path, "physical_to_logical_map", map, in, slots, error)
                      : list              ? devices_read(path, list, in, slots, error)
                             : refuse(error, path, "document", "physical_to_logical_map, layer_list or a list", "none");
    return good ? g_steal_pointer(&slots) : NULL;
}

static void experts_append(const struct placement *p, uint32_t first, uint32_t count, GString *out)
{
    g_string_append_c(out, '[');
    for (uint32_t s = 0; s < count; s++) g_string_append_printf(out, "%s%u", s ? ", " : "", p->expert_of[first + s]);
    g_string_append_c(out, ']');
}

static void devices_append(const struct placement *p, uint32_t layer, GString *out)
{
    const uint32_t a_rank = p->slots / p->ranks;
    g_string_append_printf(out, "{\"layer_id\": %u, \"device_count\": %u, \"device_list\": [", layer, p->ranks);
    for (uint32_t r = 0; r < p->ranks; r++) {
        g_string_append_printf(out, "%s\n  {\"device_id\": %u, \"device_expert\": ", r ? "," : "", r);
        experts_append(p, r * a_rank, a_rank, out);
        g_string_append_c(out, '}');
    }
    g_string_append(out, "]}");
}

char *placement_json_text(const struct placement *layer, uint32_t layers, enum placement_json form)
{
    GString *out = g_string_new(NULL);
    if (form == PLACEMENT_JSON_VLLM_ASCEND) g_string_printf(out, "{\"moe_layer_count\": %u, \"layer_list\": [", layers);
    else g_string_append(out, form == PLACEMENT_JSON_VLLM ? "[" : "{\"physical_to_logical_map\": [");
    for (uint32_t l = 0; l < layers; l++) {
        g_string_append(out, l ? ",\n" : "\n");
        if (form == PLACEMENT_JSON_VLLM_ASCEND) devices_append(&layer[l], l, out);
        else experts_append(&layer[l], 0, layer[l].slots, out);
    }
    g_string_append(out, form == PLACEMENT_JSON_VLLM ? "\n]\n" : "\n]}\n");
    return g_string_free(out, FALSE);
}
