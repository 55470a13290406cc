/* cluster_values.h - what a value in a cluster file may be: its kinds, with their units and limits.  Private to the
 * reader of cluster files; cluster.h declares what others parse. */
#ifndef MODELS_CLUSTER_VALUES_H
#define MODELS_CLUSTER_VALUES_H

#include <stdbool.h>

/* The kinds, each with its form in lists of keys and with what errors expect (NULL: the key's choices).
 * A kind's field is a uint64_t, except for some kinds: uint32_t for counts and choices; double for factors and shares;
 * bool for flags; a struct of cluster.h for curves, CPCs, passes and NICs of GPUs. */
#define CLUSTER_KINDS(X) \
    X(TIME, "time", "a time from 0 to 10 s such as \"870 ns\" (ps, ns, us, ms)") \
    X(RATE, "rate", "a rate from 1 Mbit/s to 1000 TB/s such as \"45 GB/s\" (KB, MB, GB, TB/s, Mbit, Gbit, Tbit/s)") \
    X(SIZE, "size", "a size up to 1000 GB such as \"64 KB\" (B, KB, KiB, MB, MiB, GB)") \
    X(FRAME, "size", "a size up to 4096 B such as \"26 B\" (B, KB, KiB)") \
    X(MTU, "size", "a size from 64 to 65536 B such as \"4096 B\" (B, KB, KiB)") \
    X(COUNT, "count", "a whole number from 1 to 65535") \
    X(NICS, "count", "a whole number from 0 to 65535") \
    X(CURVE, "times by size", "times, not falling, at rising sizes such as \"27 us at 1024 B, 130 us at 14336 B\"") \
    X(FLAG, "yes|no", "\"yes\" or \"no\"") \
    X(CHOICE, NULL, NULL) \
    X(FACTOR, "ratio", "a factor from 1 to 1000 such as \"2:1\"") \
    X(SHARE, "share", "a share above 0 and up to 1 such as \"0.01\" or \"1/256\"") \
    X(INTERVAL, "time", "a time from 100 ns to 10 s such as \"50 us\" (ns, us, ms)") \
    X(PIECE, "size", "a size from 1 KB to 1000 GB such as \"2 MB\" (KB, KiB, MB, MiB, GB)") \
    X(CPCS, "numbers", \
      "numbers of CPCs below 32, of at most 128 pairs of SMs, such as \"8 16 0-7 | 8-15\" " \
      "or, two GPUs of three so, \"2x 0-7 / 0 0-6\"") \
    X(NICS_OF, "numbers", "the number of each GPU's NIC, such as \"0 0 1 1\"") \
    X(PASSES, "digits", "eight digits in and eight out, such as \"0 2 1 3 1 3 1 2 | 0 3 0 3 0 3 0 3\"")
#define CLUSTER_KIND_NAMED(name, form, expected) KIND_##name,
enum cluster_kind { CLUSTER_KINDS(CLUSTER_KIND_NAMED) };

/* Reads text into a field of this kind.  choices is "a|b|c" for KIND_CHOICE, whose field gets the index of the choice;
 * for other kinds it is NULL.  False: the text does not have the kind's form, and the field may have changed. */
bool cluster_value_parse(enum cluster_kind kind, const char *choices, const char *text, void *field);
/* The expected form, in words for an error; NULL for KIND_CHOICE. */
const char *cluster_value_expected(enum cluster_kind kind);

#endif
