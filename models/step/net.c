/* net.c - reads config.json by jansson into a struct net, see net.h.  Knows which name each family gives a size. */
#include "models/step/net.h"

#include <jansson.h>
#include <string.h>
#include "reports/whole_file.h"
#include "sim/error.h"
#include "sim/share.h"
#include "sim/text.h"

enum { FILE_BYTES_MAX = 1 << 20, SIZE_MAX_OF_NET = 1 << 24, DEPTH_MAX_OF_NET = 1 << 12 };

struct reader {
    const char *source;
    const json_t *config;
    GError **error;
    bool good;
};

static void reader_refuse(struct reader *r, const char *key, const char *expected, const char *found)
{
    if (r->good) error_input(r->error, "%s: %s: expected %s, found %s", r->source, key, expected, found);
    r->good = false;
}

/* The value of the first of `names` (divided by '|') that the file has and that is not null. */
static const json_t *find(const struct reader *r, const char *names, char **name)
{
    g_auto(GStrv) each = g_strsplit(names, "|", 0);
    for (char **n = each; *n; n++) {
        const json_t *value = json_object_get(r->config, *n);
        if (!value || json_is_null(value)) continue;
        *name = g_strdup(*n);
        return value;
    }
    *name = g_strdup(each[0]);
    return NULL;
}

static uint32_t number(struct reader *r, const char *names, uint32_t least, uint32_t most, int64_t otherwise)
{
    g_autofree char *name = NULL;
    const json_t *value = find(r, names, &name);
    if (!value && otherwise >= 0) return (uint32_t)otherwise;
    const json_int_t got = json_is_integer(value) ? json_integer_value(value) : -1;
    if (got >= least && got <= most) return (uint32_t)got;
    g_autofree char *expected = g_strdup_printf("a whole number from %u to %u", least, most);
    g_autofree char *found = !value ? g_strdup("nothing") : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    if (found && strlen(found) > 40) memcpy(found + 37, "...", 4);
    reader_refuse(r, name, expected, found ? found : "what cannot be shown");
    return least;
}

static uint32_t size(struct reader *r, const char *names) { return number(r, names, 1, SIZE_MAX_OF_NET, -1); }
static uint32_t size_or(struct reader *r, const char *names, uint32_t otherwise)
{
    return number(r, names, 0, SIZE_MAX_OF_NET, otherwise);
}

static bool list_has(const json_t *list, uint32_t layer)
{
    const json_t *value;
    size_t i;
    json_array_foreach((json_t *)list, i, value)
    {
        if (json_is_integer(value) && json_integer_value(value) == layer) return true;
    }
    return false;
}

/* How many layers have no experts.  Files count the first ones (first_k_dense_replace), list them (mlp_only_layers),
 * mark those that have experts, or give these a distance (moe_layer_freq, from layer 0 on; decoder_sparse_step of Qwen
 * and interleave_moe_layer_step of Llama 4, whose layer 0 would be layer 1). */
static uint32_t dense_layers(struct reader *r, uint32_t layers)
{
    const json_t *listed = json_object_get(r->config, "mlp_only_layers");
    const json_t *marked = json_object_get(r->config, "moe_layer_freq");
    const uint32_t first = number(r, "first_k_dense_replace", 0, layers - 1, 0);
    const uint32_t apart = json_is_array(marked) ? 1 : number(r, "moe_layer_freq", 1, DEPTH_MAX_OF_NET, 1);
    const uint32_t step = number(r, "decoder_sparse_step|interleave_moe_layer_step", 1, DEPTH_MAX_OF_NET, 1);
    uint32_t dense = 0;
    for (uint32_t layer = 0; layer < layers; layer++) {
        const json_t *mark = json_array_get(marked, layer);
        const bool left_out = layer % apart != 0 || (layer + 1) % step != 0 ||
                              (mark && !json_is_true(mark) && json_integer_value(mark) == 0);
        dense += layer < first || left_out || list_has(listed, layer);
    }
    if (dense == layers) reader_refuse(r, "num_hidden_layers", "layers with experts", "only layers without");
    return dense;
}

/* Reads from how many groups of experts the gate takes a token's experts (DeepSeek-V3's n_group and topk_group). */
static void groups_read(struct reader *r, struct net *net)
{
    net->groups = MAX(number(r, "n_group", 0, 1 << 16, 1), 1u);
    net->topk_groups = number(r, "topk_group", 1, net->groups, net->groups);
    if (net->experts % net->groups == 0 && (uint64_t)net->experts / net->groups * net->topk_groups >= net->topk) return;
    g_autofree char *expected =
        g_strdup_printf("a divisor of %u experts, so that topk_group of them hold %u", net->experts, net->topk);
    g_autofree char *found = g_strdup_printf("%u", net->groups);
    reader_refuse(r, "n_group", expected, found);
}

/* Reads how many layers see only a window of a sequence (gpt-oss). */
static void window_read(struct reader *r, struct net *net)
{
    const json_t *types = json_object_get(r->config, "layer_types"), *type;
    size_t i;
    json_array_foreach((json_t *)types, i, type)
    {
        const char *name = json_string_value(type);
        if (i < net->layers && name && strcmp(name, "sliding_attention") == 0) net->window_layers++;
    }
    if (net->window_layers) net->window = size(r, "sliding_window");
}

static void attention_read(struct reader *r, struct net *net)
{
    net->heads = number(r, "num_attention_heads", 1, 1 << 16, -1);
    net->latent = json_is_integer(json_object_get(r->config, "kv_lora_rank"));
    if (net->latent) {
        net->q_rank = size_or(r, "q_lora_rank", 0);
        net->kv_rank = size(r, "kv_lora_rank");
        net->nope_size = size(r, "qk_nope_head_dim");
        net->rope_size = size(r, "qk_rope_head_dim");
        net->value_size = size(r, "v_head_dim");
        return;
    }
    net->kv_heads = number(r, "num_key_value_heads", 1, 1 << 16, net->heads);
    const uint32_t even = net->hidden / net->heads; /* the size of a head if the file does not give it */
    net->head_size = number(r, "head_dim", 1, 1 << 16, even ? (int64_t)even : -1);
}

struct net *net_parse(const char *source, const char *text, size_t size_bytes, GError **error)
{
    json_error_t problem;
    json_auto_t *config = json_loadb(text, size_bytes, JSON_REJECT_DUPLICATES, &problem);
    if (!json_is_object(config))
        return error_null(error, "%s:%d: expected a config.json, found %s", source, config ? 1 : problem.line,
                          config ? "another value than an object" : problem.text);
    const json_t *inner = json_object_get(config, "text_config"); /* where a net with vision has its language model */
    struct reader r = {
        .source = source, .config = json_is_object(inner) ? inner : config, .error = error, .good = true
    };
    struct net *net = g_new0(struct net, 1);
    static const char experts[] = "n_routed_experts|num_experts|num_local_experts";
    g_autofree char *name = NULL;
    if (!find(&r, experts, &name))
        reader_refuse(&r, name, "a net with experts (n_routed_experts, num_experts or num_local_experts)", "none");
    net->layers = number(&r, "num_hidden_layers", 1, DEPTH_MAX_OF_NET, -1);
    net->hidden = size(&r, "hidden_size");
    net->vocabulary = size(&r, "vocab_size");
    net->inter = size(&r, "intermediate_size_mlp|intermediate_size");
    net->experts = number(&r, experts, 1, 1 << 16, -1);
    net->topk = number(&r, "num_experts_per_tok|experts_per_token|moe_topk", 1, net->experts, -1);
    groups_read(&r, net);
    net->expert_inter = size(&r, "moe_intermediate_size|intermediate_size");
    net->dense_layers = r.good ? dense_layers(&r, net->layers) : 0;
    const bool llama4 = json_object_get(r.config, "interleave_moe_layer_step"); /* has one, and no key for it */
    const uint32_t shared = number(&r, "n_shared_experts|num_shared_experts", 0, 1 << 10, llama4);
    const uint64_t shared_inter = number(&r, "shared_expert_intermediate_size", 0, SIZE_MAX_OF_NET, 0);
    net->shared_inter = (uint32_t)MIN(shared_inter ? shared_inter : (uint64_t)shared * net->expert_inter, UINT32_MAX);
    attention_read(&r, net);
    window_read(&r, net);
    if (r.good) return net;
    net_free(net);
    return NULL;
}

/* The net's name: the file's name without its ending.  For config.json, as Hugging Face names it, the folder's name. */
static char *name_of(const char *path)
{
    g_autofree char *file = g_path_get_basename(path), *folder = g_path_get_dirname(path);
    if (strcmp(file, "config.json") == 0 && strcmp(folder, ".") != 0) return g_path_get_basename(folder);
    char *dot = strrchr(file, '.');
    return dot && dot != file ? g_strndup(file, (gsize)(dot - file)) : g_strdup(file);
}

struct net *net_load(const char *path_or_name, GError **error)
{
    g_autofree char *lower = g_ascii_strdown(path_or_name, -1);
    g_autofree char *shipped = g_file_test(path_or_name, G_FILE_TEST_IS_REGULAR) ? NULL : share_find(SHARE_NETS, lower);
    const char *path = shipped ? shipped : path_or_name;
    size_t size_bytes;
    if (!shipped && !strchr(path_or_name, '/') && !g_file_test(path, G_FILE_TEST_EXISTS)) {
        g_auto(GStrv) names = share_names(SHARE_NETS);
        g_autofree char *list = g_strjoinv(", ", names), *meant = text_meant(lower, (const char *const *)names);
        return error_null(error, "--net: expected a config.json or one of %s; found \"%s\"%s", list, path_or_name,
                          meant);
    }
    g_autofree char *text = whole_file_read(path, FILE_BYTES_MAX, &size_bytes, error);
    struct net *net = text ? net_parse(path, text, size_bytes, error) : NULL;
    if (net) net->name = name_of(path);
    return net;
}

void net_free(struct net *net)
{
    if (!net) return;
    g_free(net->name);
    g_free(net);
}

uint64_t net_attention_weights(const struct net *net)
{
    const uint64_t h = net->hidden, heads = net->heads;
    if (!net->latent) return h * net->head_size * (2 * heads + 2 * (uint64_t)net->kv_heads);
    const uint64_t q = heads * (net->nope_size + net->rope_size);
    const uint64_t queries = net->q_rank ? h * net->q_rank + net->q_rank * q : h * q;
    return queries + h * (net->kv_rank + net->rope_size) +
           (uint64_t)net->kv_rank * heads * (net->nope_size + net->value_size) + heads * net->value_size * h;
}

uint64_t net_experts_weights(const struct net *net) { return 3ull * net->hidden * net->expert_inter * net->experts; }
uint64_t net_shared_weights(const struct net *net) { return 3ull * net->hidden * net->shared_inter; }
uint64_t net_dense_weights(const struct net *net) { return 3ull * net->hidden * net->inter; }
uint64_t net_head_weights(const struct net *net) { return 2ull * net->hidden * net->vocabulary; }

uint64_t net_cache_numbers(const struct net *net)
{
    return net->latent ? net->kv_rank + net->rope_size : 2ull * net->kv_heads * net->head_size;
}
