/* text.h - what text from outside may do: print without moving the cursor, hold so many JSON values. */
#ifndef SIM_TEXT_H
#define SIM_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* text as it may be printed: valid UTF-8, up to its first NUL or size_bytes, every control character (escapes and line
 * ends among them) replaced by '?'.  Free with g_free(). */
char *text_printable(const char *text, size_t size_bytes);

/* How many JSON values text may hold, at most, if it is JSON: a parser takes some 100 bytes for each. */
uint64_t text_json_values(const char *text, size_t size_bytes);

#endif
