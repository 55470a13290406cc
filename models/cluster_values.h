/* cluster_values.h - what a value in a cluster file may be: its kinds, with their units and limits.  Private to the
 * reader of cluster files; cluster.h declares what others parse. */
#ifndef MODELS_CLUSTER_VALUES_H
#define MODELS_CLUSTER_VALUES_H

#include <stdbool.h>

/* Each has a type of field: uint64_t; uint32_t of counts, choices and the enum of who posts; double of factors and
 * shares; bool of flags; else the struct of cluster.h. */
enum cluster_kind {
    KIND_TIME,
    KIND_RATE,
    KIND_SIZE,
    KIND_FRAME,
    KIND_MTU,
    KIND_COUNT,
    KIND_NICS,
    KIND_POSTING,
    KIND_CURVE,
    KIND_FLAG,
    KIND_CHOICE,
    KIND_FACTOR,
    KIND_SHARE,
    KIND_INTERVAL,
    KIND_PIECE,
    KIND_CPCS,
    KIND_NICS_OF
};

/* Reads text into a field of that kind; false: it is none, and the field may have changed.  choices: "a|b|c" of
 * KIND_CHOICE, whose field becomes the number of the one; else NULL. */
bool cluster_value_parse(enum cluster_kind kind, const char *choices, const char *text, void *field);
/* What text must be, as an error says it; NULL of KIND_CHOICE. */
const char *cluster_value_expected(enum cluster_kind kind);

#endif
