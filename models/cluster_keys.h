/* cluster_keys.h - every section and key that a cluster file may have: the kind of the key's value, the member of
 * struct cluster that takes it, and its meaning in words.  cluster.c reads cluster files by this table, and
 * cluster_teach.c explains the keys from it. */
#ifndef MODELS_CLUSTER_KEYS_H
#define MODELS_CLUSTER_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include "models/cluster_values.h"

struct cluster_key {
    const char *section, *name;
    enum cluster_kind kind;
    bool optional;
    size_t offset;       /* of the member in struct cluster */
    const char *choices; /* KIND_CHOICE: "a|b|c" in the order of an enum; else NULL */
    const char *meaning; /* sentences */
};

/* The choices of enum cluster_provider. */
#define CLUSTER_PROVIDERS "unknown|mlx5|efa|cxi|bnxt_re|ionic"

/* The key with that index, in the order of sections; NULL after the last. */
const struct cluster_key *cluster_key_at(size_t index);

#endif
