/* agree.h - compares the programs and options of all ranks before anything runs.  Ranks that differ would hang, or
 * measure nonsense. */
#ifndef REPLAY_AGREE_H
#define REPLAY_AGREE_H

#include <glib.h>
#include <stdbool.h>
#include "replay/live_command.h"

/* Adds a line "name value" that must be equal on all ranks.  A value of NULL stands for the default. */
void agree_add(GString *text, const char *name, const char *value);
void agree_add_number(GString *text, const char *name, uint64_t value);
/* Adds the program's version and the options of links that must be equal on all ranks.  Devices, ports and GIDs may
 * differ. */
void agree_add_command(GString *text, const struct live_command *command);

/* Collective.  Returns false on all ranks if the text of some rank differs from that of rank 0.  All ranks then get
 * the same *error, which names the differing rank, the option and both values. */
bool agree_run(struct bootstrap *b, const GString *text, GError **error);

#endif
