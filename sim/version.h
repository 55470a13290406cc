/* version.h - the version of this eptwin: the release, and the commit from which it was built. */
#ifndef SIM_VERSION_H
#define SIM_VERSION_H

/* "0.2.0+1ed6046", "0.2.0+1ed6046-dirty", or "0.2.0" if the source is not a clone. */
const char *eptwin_version(void);

#endif
