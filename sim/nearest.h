/* nearest.h - finds the known word nearest to a misspelt one: "num-rnaks" is near "num-ranks". */
#ifndef SIM_NEAREST_H
#define SIM_NEAREST_H

#include <stdint.h>

enum { NEAREST_WORD_MAX = 64 }; /* longer words are near nothing */

/* How many letters must be put in, left out, changed or swapped with their neighbour to make one word of the other
 * (the "optimal string alignment" distance; case does not count).  UINT32_MAX: a word is longer than
 * NEAREST_WORD_MAX. */
uint32_t nearest_distance(const char *one, const char *other);

/* The first of words (NULL-terminated) with the smallest distance to word; NULL where that is no misspelling any more:
 * more than three letters, or one letter in three. */
const char *nearest_find(const char *word, const char *const *words);

#endif
