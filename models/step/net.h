/* net.h - a mixture-of-experts network as its config.json describes it: layers and sizes, no weights.
 *
 * Keys are those of Hugging Face's config.json.  Where families have different names for a size, the first name that
 * the file has counts (net.c lists them).  Knows no time and no hardware. */
#ifndef MODELS_STEP_NET_H
#define MODELS_STEP_NET_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

struct net {
    char *name;                    /* the file's name without its ending, or the folder's name (net.c) */
    uint32_t layers, dense_layers; /* all layers; those that have no experts, which count as the first ones */
    uint32_t hidden, vocabulary;
    uint32_t inter; /* size of a dense layer's feed-forward */
    uint32_t experts, topk, expert_inter;
    uint32_t groups, topk_groups; /* the gate takes a token's experts from topk_groups of so many equal groups; equal
                                   * numbers: from all experts */
    uint32_t shared_inter;        /* total size of all shared experts; 0: none */
    uint32_t heads, kv_heads, head_size;
    uint32_t window, window_layers; /* in so many layers a token sees only the last `window` tokens */
    bool latent;                    /* the attention is MLA, with the sizes below in place of kv_heads and head_size */
    uint32_t q_rank, kv_rank, nope_size, rope_size, value_size;
};

/* Reads a config.json, or a shipped net by its name ("deepseek-v3").  Every size is from 1 to 2^24, and there are at
 * least topk experts.  NULL and *error, "path: key: expected ..., found ...", on failure. */
struct net *net_load(const char *path_or_name, GError **error);
/* Reads a net from a text, as net_load() does from a file; source names it in messages. */
struct net *net_parse(const char *source, const char *text, size_t size_bytes, GError **error);
void net_free(struct net *net);

/* These functions return numbers of weights: those of a layer's attention, of all experts of a layer, of its shared
 * experts, of a dense feed-forward, and of embedding and head together. */
uint64_t net_attention_weights(const struct net *net);
uint64_t net_experts_weights(const struct net *net);
uint64_t net_shared_weights(const struct net *net);
uint64_t net_dense_weights(const struct net *net);
uint64_t net_head_weights(const struct net *net);
/* Numbers that a token takes in a layer's key-value cache. */
uint64_t net_cache_numbers(const struct net *net);

#endif
