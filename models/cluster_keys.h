/* cluster_keys.h - every section and key that a cluster file may have: the kind of the key's value, the member of
 * struct cluster that takes it, and its meaning in words.  cluster.c reads cluster files by this table, and
 * cluster_teach.c explains the keys from it. */
#ifndef MODELS_CLUSTER_KEYS_H
#define MODELS_CLUSTER_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include "models/cluster_values.h"

/* The kinds of parts that can be faster (models/predict/faster.h).  Latencies are waits during which no part is busy:
 * launches, words and messages on their way, fences. */
enum cluster_part {
    CLUSTER_PART_NICS,
    CLUSTER_PART_PEERS,
    CLUSTER_PART_MEMORY,
    CLUSTER_PART_SMS,
    CLUSTER_PART_POSTING,
    CLUSTER_PART_LINKS,
    CLUSTER_PART_LATENCIES,
    CLUSTER_PART_NONE /* the number of kinds.  Of a key: no part, as for times of the host's calls and for nominal
                       * rates */
};

struct cluster_key {
    const char *section, *name;
    enum cluster_kind kind;
    enum cluster_part part; /* the kind of part whose time or rate the key gives */
    bool optional;
    size_t offset;       /* of the key's member in struct cluster */
    const char *choices; /* KIND_CHOICE: "a|b|c" in the order of an enum; else NULL */
    const char *meaning; /* the meaning, in sentences */
};

/* The choices of enum cluster_provider, in its order. */
#define CLUSTER_PROVIDERS "unknown|mlx5|efa|cxi|bnxt_re|ionic"

/* The key with that index, in the order of sections; NULL after the last. */
const struct cluster_key *cluster_key_at(size_t index);

#endif
