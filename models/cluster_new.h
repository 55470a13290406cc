/* cluster_new.h - writes a commented cluster file of a machine that a command line describes. The file includes shipped
 * parts and gives the values that differ from them. */
#ifndef MODELS_CLUSTER_NEW_H
#define MODELS_CLUSTER_NEW_H

/* `eptwin cluster new [OPTION]...`; argv[0] is "new".  Returns the exit status. */
int cluster_new_run(int argc, char **argv);

#endif
