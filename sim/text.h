/* text.h - text from outside: replaces what would move the cursor, counts JSON values before a parser makes them,
 * reads decimal numbers, and says which word was meant. */
#ifndef SIM_TEXT_H
#define SIM_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Text that may be printed: `text` up to its first NUL or size_bytes, with every control character (escapes and line
 * ends among them) replaced by '?'.  Bytes that are not UTF-8 stay, because names of files have them.  Free with
 * g_free(). */
char *text_printable(const char *text, size_t size_bytes);

/* Reads the decimal number with which text begins: no space, no zero and no "0x" before it, neither "inf" nor "nan".
 * Returns its end; NULL: there is none. */
const char *text_decimal(const char *text, double *value);
/* Whether text is a whole decimal number, without zeros before it: "8,016" is two values of a sweep. */
bool text_is_whole(const char *text);
/* Reads such a number.  False if text is none, or if the number is not from least to most. */
bool text_whole(const char *text, uint64_t least, uint64_t most, uint64_t *value);

struct text_unit {
    const char *name;
    double factor;
};
/* Reads "<number> <unit>", with a unit of the NULL-terminated list.  The number must be finite and not negative.  The
 * result is rounded to a whole number below 2^63. */
bool text_with_unit(const char *text, const struct text_unit *units, uint64_t *value);
/* Reads "4096 B" or "64KB" as bytes; text_bytes() also "4096". */
bool text_size(const char *text, uint64_t *size_bytes);
bool text_bytes(const char *text, uint64_t *size_bytes);

/* The words of "dispatch+combine".  NULL: one is empty, or there twice.  Free with g_strfreev(). */
char **text_added(const char *text);

/* "; did you mean WORD?" with the one of words (NULL-terminated) that is nearest to word (nearest.h), or "" if there is
 * none.  Freed by the caller. */
char *text_meant(const char *word, const char *const *words);

/* The number of opening brackets in text, plus the number of commas within brackets.  Brackets and commas in strings
 * count, too.  If the text is JSON, it has at most twice as many values, and a parser takes some 100 bytes for each. */
uint64_t text_json_values(const char *text, size_t size_bytes);

#endif
