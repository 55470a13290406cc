/* support_bootstrap.h - exchanges that every bootstrap must get right. */
#ifndef TESTS_SUPPORT_BOOTSTRAP_H
#define TESTS_SUPPORT_BOOTSTRAP_H

#include "replay/bootstrap/bootstrap.h"

/* Runs exchanges of many sizes up to `longest` bytes, whose contents name rank, round and place.  Returns false and
 * sets *error if an exchange fails.  Returns false without an error if a rank receives wrong bytes. */
bool exchanges_run(struct bootstrap *b, size_t longest, GError **error);

/* Forks ranks, all of which must end with this status (FORK_FAILS: with any status but 0).  Returns what they wrote to
 * standard error; free it with g_free(). */
enum { FORK_FAILS = -1 };
char *fork_text(uint32_t ranks, uint32_t timeout_ms, int (*run)(struct bootstrap *b, void *context), void *context,
                int status);
/* As fork_text().  Asserts that what the ranks write contains `said`. */
void fork_says(uint32_t ranks, uint32_t timeout_ms, int (*run)(struct bootstrap *b, void *context), void *context,
               int status, const char *said);

#endif
