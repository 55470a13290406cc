/* support_bootstrap.h - exchanges that every bootstrap must get right. */
#ifndef TESTS_SUPPORT_BOOTSTRAP_H
#define TESTS_SUPPORT_BOOTSTRAP_H

#include "replay/bootstrap/bootstrap.h"

/* Runs exchanges of many sizes up to longest bytes, whose contents name rank, round and place.  Returns false and sets
 * *error if an exchange fails; returns false without an error if a rank receives wrong bytes. */
bool exchanges_run(struct bootstrap *b, size_t longest, GError **error);

#endif
