/* version.c - the version that every output prints; the one file that is rebuilt when it changes. */
#include "sim/version.h"

#ifndef EPTWIN_VERSION
#    define EPTWIN_VERSION "unknown"
#endif

const char *eptwin_version(void) { return EPTWIN_VERSION; }
