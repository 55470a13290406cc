/* nearest.c - distances between words; see nearest.h. */
#include "sim/nearest.h"

#include <ctype.h>
#include <string.h>

static int same(char a, char b) { return tolower((unsigned char)a) == tolower((unsigned char)b); }

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* Fills a table of distances row by row.  Entry j of row i is the distance between the first i letters of `one` and the
 * first j letters of `other`.  Only three rows are kept. */
uint32_t nearest_distance(const char *one, const char *other)
{
    const size_t n = strlen(one), m = strlen(other);
    uint32_t row[3][NEAREST_WORD_MAX + 1];
    if (n > NEAREST_WORD_MAX || m > NEAREST_WORD_MAX) return UINT32_MAX;
    for (size_t j = 0; j <= m; j++) row[0][j] = (uint32_t)j;
    for (size_t i = 1; i <= n; i++) {
        uint32_t *now = row[i % 3], *above = row[(i - 1) % 3], *before = row[(i + 1) % 3];
        now[0] = (uint32_t)i;
        for (size_t j = 1; j <= m; j++) {
            const uint32_t changed = above[j - 1] + !same(one[i - 1], other[j - 1]);
            now[j] = least(changed, least(above[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && same(one[i - 1], other[j - 2]) && same(one[i - 2], other[j - 1]))
                now[j] = least(now[j], before[j - 2] + 1);
        }
    }
    return row[n % 3][m];
}

const char *nearest_find(const char *word, const char *const *words)
{
    const char *nearest = NULL;
    uint32_t distance = UINT32_MAX;
    for (; *words; words++) {
        const uint32_t d = nearest_distance(word, *words);
        if (d < distance) {
            distance = d;
            nearest = *words;
        }
    }
    return distance <= 3 && distance * 3 <= strlen(word) ? nearest : NULL;
}
