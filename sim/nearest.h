/* nearest.h - finds the known word that is most similar to a misspelt one: "num-ranks" for "num-rnaks". */
#ifndef SIM_NEAREST_H
#define SIM_NEAREST_H

#include <stdint.h>

enum { NEAREST_WORD_MAX = 64 }; /* a longer word is similar to no word */

/* Returns how many letters must be inserted, removed, changed or swapped with their neighbour to turn one word into the
 * other.  This is the "optimal string alignment" distance; upper and lower case are equal.  Returns UINT32_MAX if a
 * word is longer than NEAREST_WORD_MAX. */
uint32_t nearest_distance(const char *one, const char *other);

/* The first of words (NULL-terminated) with the smallest distance to word.  NULL if that distance is too large for a
 * misspelling: more than three letters, or more than one letter in three. */
const char *nearest_find(const char *word, const char *const *words);

#endif
