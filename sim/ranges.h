/* ranges.h - numbers as users write them on every command line: "3", "0,2", "1:", ":4", "0:8:2", "4:64:x2", "all". */
#ifndef SIM_RANGES_H
#define SIM_RANGES_H

#include <stdbool.h>
#include <stdint.h>

/* Numbers in the order in which the text names them.  Zeroed memory is an empty list. */
struct ranges {
    uint32_t *number; /* [count] */
    uint32_t count;
};

/* The name of the grammar in help and errors. */
#define RANGES_GRAMMAR "N, A:B (B excluded), A:B:STEP, all, or a list of these"

/* Reads a comma-separated list of numbers and ranges.  A range A:B excludes B, as in Python.  A defaults to 0, and B to
 * limit.  In A:B:STEP each number is STEP more than the one before, and in A:B:xFACTOR it is FACTOR times the one
 * before.  "all" is "0:".  The text must name 1 to `most` numbers, each once and below limit.  Otherwise returns false
 * and leaves *ranges empty.  Free *ranges with ranges_free(). */
bool ranges_parse(const char *text, uint32_t limit, uint32_t most, struct ranges *ranges);
/* Makes a list of one number. */
void ranges_one(uint32_t number, struct ranges *ranges);
void ranges_free(struct ranges *ranges);

/* The canonical text of these numbers, as in records: "2:5" for consecutive ones, else "4,2".  Free with free(). */
char *ranges_text(const struct ranges *ranges);

/* Whether both texts name the same numbers in the same order.  Texts without an end ("all", "1:") are the same only if
 * they are spelt alike. */
bool ranges_same(const char *one, const char *other);

#endif
