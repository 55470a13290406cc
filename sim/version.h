/* version.h - which eptwin this is: the release, and the commit it was built from. */
#ifndef SIM_VERSION_H
#define SIM_VERSION_H

/* "0.2.0+1ed6046", "0.2.0+1ed6046-dirty", or "0.2.0" where the source is no clone. */
const char *eptwin_version(void);

#endif
