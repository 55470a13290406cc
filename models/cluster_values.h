/* cluster_values.h - what a value in a cluster file may be: its kinds, with their units and limits.  Private to the
 * reader of cluster files; cluster.h declares what others parse. */
#ifndef MODELS_CLUSTER_VALUES_H
#define MODELS_CLUSTER_VALUES_H

#include <stdbool.h>

/* A kind's field is a uint64_t, except for some kinds: uint32_t for counts, choices and the enum of posters; double
 * for factors and shares; bool for flags; a struct of cluster.h for curves, CPCs, passes and NICs of GPUs. */
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
    KIND_NICS_OF,
    KIND_PASSES
};

/* Reads text into a field of this kind.  choices is "a|b|c" for KIND_CHOICE, whose field gets the index of the choice;
 * for other kinds it is NULL.  False: the text does not have the kind's form, and the field may have changed. */
bool cluster_value_parse(enum cluster_kind kind, const char *choices, const char *text, void *field);
/* The expected form, in words for an error; NULL for KIND_CHOICE. */
const char *cluster_value_expected(enum cluster_kind kind);

#endif
