/* test_nearest.c - distances between words, compared with hand-computed ones and, on random words, with the definition.
 *
 * Aim: sim/nearest.h.  Method: known pairs; words that are a known number of edits apart; the longest words that
 * count. */
#include "sim/nearest.h"
#include "sim/text.h"

#include <string.h>
#include "sim/rng.h"
#include "tests/unit.h"

TEST("distances by hand")
{
    static const struct {
        const char *one, *other;
        uint32_t distance;
    } pairs[] = {
        { "", "", 0 },
        { "", "abc", 3 },
        { "kitten", "sitting", 3 },
        { "num-rnaks", "num-ranks", 1 },
        { "ab", "ba", 1 },
        { "abc", "cba", 2 },
        { "ca", "abc", 3 }, /* a swapped pair of letters is not edited again */
        { "Kernel", "kERNEL", 0 },
        { "hidden", "hiden", 1 },
        { "flaw", "lawn", 2 },
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        CU_ASSERT_EQUAL(nearest_distance(pairs[i].one, pairs[i].other), pairs[i].distance);
        CU_ASSERT_EQUAL(nearest_distance(pairs[i].other, pairs[i].one), pairs[i].distance);
    }
}

/* Inserted letters that occur nowhere else cannot cancel each other, so the distance is the number of letters. */
TEST("edits count")
{
    struct rng rng = rng_seeded(1);
    for (uint32_t round = 0; round < 1000; round++) {
        char word[NEAREST_WORD_MAX + 1], other[NEAREST_WORD_MAX + 1];
        const uint32_t letters = 4 + (uint32_t)(rng_next(&rng) % 50), edits = (uint32_t)(rng_next(&rng) % 4);
        for (uint32_t i = 0; i < letters; i++) word[i] = (char)('a' + rng_next(&rng) % 26);
        word[letters] = '\0';
        memcpy(other, word, letters + 1);
        for (uint32_t e = 0; e < edits; e++) other[e * letters / 4] = (char)('0' + e);
        CU_ASSERT_EQUAL(nearest_distance(word, other), edits);
    }
}

TEST("words too long")
{
    char most[NEAREST_WORD_MAX + 1], more[NEAREST_WORD_MAX + 2];
    memset(most, 'a', NEAREST_WORD_MAX);
    memset(more, 'a', NEAREST_WORD_MAX + 1);
    most[NEAREST_WORD_MAX] = more[NEAREST_WORD_MAX + 1] = '\0';
    CU_ASSERT_EQUAL(nearest_distance(most, most), 0);
    CU_ASSERT_EQUAL(nearest_distance(most, ""), NEAREST_WORD_MAX);
    CU_ASSERT_EQUAL(nearest_distance(more, most), UINT32_MAX);
    CU_ASSERT_EQUAL(nearest_distance(most, more), UINT32_MAX);
}

TEST("who was meant")
{
    static const char *const words[] = { "simulate", "validate", "replay", "report", "fit", NULL };
    CU_ASSERT_STRING_EQUAL(nearest_find("simulat", words), "simulate");
    CU_ASSERT_STRING_EQUAL(nearest_find("SIMULATE", words), "simulate");
    CU_ASSERT_STRING_EQUAL(nearest_find("reprot", words), "report");
    CU_ASSERT_STRING_EQUAL(nearest_find("fitt", words), "fit");
    CU_ASSERT_PTR_NULL(nearest_find("", words));
    CU_ASSERT_PTR_NULL(nearest_find("fat", (const char *const[]){ "sit", NULL })); /* two of three letters differ */
    CU_ASSERT_PTR_NULL(nearest_find("predict", words));
    CU_ASSERT_PTR_NULL(nearest_find("fit", (const char *const[]){ NULL }));
}

TEST("the question")
{
    static const char *const words[] = { "deepseek-v3", "kimi-k2", NULL };
    g_autofree char *some = text_meant("Deepsek-v3", words), *none = text_meant("llama", words);
    CU_ASSERT_STRING_EQUAL(some, "; did you mean deepseek-v3?");
    CU_ASSERT_STRING_EQUAL(none, "");
}
