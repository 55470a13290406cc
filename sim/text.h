/* text.h - limits on text from outside: it prints without moving the cursor and holds a limited number of JSON
 * values. */
#ifndef SIM_TEXT_H
#define SIM_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* text as it may be printed, up to its first NUL or size_bytes: every control character (escapes and line ends among
 * them) is replaced by '?'.  Bytes that are no UTF-8 stay, as names of files have them.  Free with g_free(). */
char *text_printable(const char *text, size_t size_bytes);

/* How many brackets open in text, and how many commas stand within them: if it is JSON, it has at most twice as many
 * values, and a parser takes some 100 bytes for each. */
uint64_t text_json_values(const char *text, size_t size_bytes);

#endif
