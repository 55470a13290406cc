/* backends.h - the transports (models/hardware/machine/transport.h) that --backend selects by name.
 *
 * models/backends.ini says what each costs, with sources.  It is part of the program, so it is always there. */
#ifndef MODELS_BACKENDS_H
#define MODELS_BACKENDS_H

#include "models/hardware/machine/transport.h"

/* The backend of that name; NULL: there is none. */
const struct transport *backends_find(const char *name);
/* The backend of that number, in the order of the file; NULL after the last. */
const struct transport *backends_at(uint32_t index);

#endif
