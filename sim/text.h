/* text.h - protects against text from outside: replaces what would move the cursor, and counts JSON values before a
 * parser makes them. */
#ifndef SIM_TEXT_H
#define SIM_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* Text that may be printed: `text` up to its first NUL or size_bytes, with every control character (escapes and line
 * ends among them) replaced by '?'.  Bytes that are not UTF-8 stay, because names of files have them.  Free with
 * g_free(). */
char *text_printable(const char *text, size_t size_bytes);

/* The number of opening brackets in text, plus the number of commas within brackets.  Brackets and commas in strings
 * count, too.  If the text is JSON, it has at most twice as many values, and a parser takes some 100 bytes for each. */
uint64_t text_json_values(const char *text, size_t size_bytes);

#endif
