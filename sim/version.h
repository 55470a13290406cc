/* version.h - which eptwin this is: the commit it was built from. */
#ifndef SIM_VERSION_H
#define SIM_VERSION_H

const char *eptwin_version(void);

#endif
