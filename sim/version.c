/* version.c - the version that every output prints; only this file is rebuilt when the version changes. */
#include "sim/version.h"

#ifndef EPTWIN_VERSION
#    define EPTWIN_VERSION "unknown"
#endif

const char *eptwin_version(void) { return EPTWIN_VERSION; }
