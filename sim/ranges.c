/* ranges.c - the one grammar of lists and ranges of numbers; see ranges.h. */
#include "sim/ranges.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "sim/memory.h"

/* One item of a list: the numbers from begin on, below end. */
struct word {
    uint64_t begin, end, step;
    bool factor; /* each number is step times the one before */
};

/* Reads digits at *text and moves *text behind them.  False: there are no digits, there is a zero before others, or the
 * number needs more than 32 bits. */
static bool number_read(const char **text, uint64_t *value)
{
    char *end;
    const bool padded = **text == '0' && isdigit((unsigned char)(*text)[1]);
    if (!isdigit((unsigned char)**text) || padded) return false;
    errno = 0;
    *value = strtoull(*text, &end, 10);
    *text = end;
    return errno == 0 && *value <= UINT32_MAX;
}

static void blanks_skip(const char **text)
{
    while (**text == ' ') ++*text;
}

/* Reads what follows the colon: the end of the range and its step. */
static bool end_read(const char **text, uint32_t limit, struct word *word)
{
    word->end = limit;
    if (isdigit((unsigned char)**text) && !number_read(text, &word->end)) return false;
    if (**text != ':') return true;
    ++*text;
    word->factor = **text == 'x';
    *text += word->factor;
    return number_read(text, &word->step) && word->step >= 1u + word->factor && (!word->factor || word->begin > 0);
}

static bool word_read(const char **text, uint32_t limit, struct word *word)
{
    *word = (struct word){ .end = limit, .step = 1 };
    blanks_skip(text);
    bool good = true;
    if (strncmp(*text, "all", 3) == 0) {
        *text += 3;
    } else {
        const bool begins = isdigit((unsigned char)**text);
        good = begins ? number_read(text, &word->begin) : **text == ':';
        if (good && **text == ':') {
            ++*text;
            good = end_read(text, limit, word);
        } else word->end = word->begin + 1;
    }
    blanks_skip(text);
    return good && word->begin < word->end && word->end <= limit && (**text == ',' || **text == '\0');
}

static bool word_add(const struct word *word, uint32_t most, struct ranges *ranges, uint32_t *room)
{
    for (uint64_t n = word->begin; n < word->end; n = word->factor ? n * word->step : n + word->step) {
        if (ranges->count == most) return false;
        if (ranges->count == *room) {
            *room = *room ? 2 * *room : 16;
            ranges->number = memory_grow(ranges->number, *room, sizeof *ranges->number);
        }
        ranges->number[ranges->count++] = (uint32_t)n;
    }
    return true;
}

static int number_compare(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Whether no number is given twice.  Such a number would be counted twice. */
static bool numbers_differ(const struct ranges *ranges)
{
    uint32_t *const sorted = memory_grow(NULL, ranges->count, sizeof *sorted);
    memcpy(sorted, ranges->number, ranges->count * sizeof *sorted);
    qsort(sorted, ranges->count, sizeof *sorted, number_compare);
    bool differ = true;
    for (uint32_t i = 1; i < ranges->count; i++) differ = differ && sorted[i] != sorted[i - 1];
    free(sorted);
    return differ;
}

bool ranges_parse(const char *text, uint32_t limit, uint32_t most, struct ranges *ranges)
{
    uint32_t room = 0;
    struct word word;
    bool good;
    *ranges = (struct ranges){ 0 };
    for (;;) {
        good = word_read(&text, limit, &word) && word_add(&word, most, ranges, &room);
        if (!good || *text == '\0') break;
        text++;
    }
    good = good && numbers_differ(ranges);
    if (!good) ranges_free(ranges);
    return good;
}

void ranges_one(uint32_t number, struct ranges *ranges)
{
    uint32_t room = 0;
    *ranges = (struct ranges){ 0 };
    word_add(&(struct word){ number, (uint64_t)number + 1, 1, false }, 1, ranges, &room);
}

void ranges_free(struct ranges *ranges)
{
    free(ranges->number);
    *ranges = (struct ranges){ 0 };
}

char *ranges_text(const struct ranges *ranges)
{
    enum { DIGITS = 11 };
    bool follow = ranges->count > 0;
    for (uint32_t i = 1; i < ranges->count; i++) follow = follow && ranges->number[i] == ranges->number[0] + i;
    const size_t size = (size_t)DIGITS * (follow ? 2 : ranges->count) + 1;
    char *const text = memory_grow(NULL, size, 1);
    size_t at = 0;
    text[0] = '\0';
    if (follow) snprintf(text, size, "%u:%" PRIu64, ranges->number[0], (uint64_t)ranges->number[0] + ranges->count);
    for (uint32_t i = 0; !follow && i < ranges->count; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%u", i ? "," : "", ranges->number[i]);
    return text;
}

bool ranges_same(const char *one, const char *other)
{
    enum { MOST = 1 << 20 };
    struct ranges a, b;
    if (strcmp(one, other) == 0) return true;
    if (!ranges_parse(one, UINT32_MAX, MOST, &a)) return false;
    const bool same = ranges_parse(other, UINT32_MAX, MOST, &b) && a.count == b.count &&
                      memcmp(a.number, b.number, a.count * sizeof *a.number) == 0;
    ranges_free(&a);
    ranges_free(&b);
    return same;
}
