/* share.h - where the files that ship with eptwin are: cluster files, sample traces, nets and tables.
 *
 * They are searched for in a source tree (the current folder's, then the executable's), then where the executable is
 * installed (../share/eptwin from its bin), then below the PREFIX that `make` was given.  A folder found in several
 * ways counts once.  Knows no format. */
#ifndef SIM_SHARE_H
#define SIM_SHARE_H

enum share_kind { SHARE_CLUSTERS, SHARE_SAMPLES, SHARE_NETS, SHARE_TABLES };

/* The folders of a kind that exist, in the order of the search.  If none exists, all folders that were searched for.
 * A NULL-terminated array, freed with g_strfreev(). */
char **share_folders(enum share_kind kind);

/* The path of a shipped file.  The name may lack the kind's ending, so "h200" is "h200.ini".  NULL if the name
 * contains a '/' or no folder has the file.  Freed with g_free(). */
char *share_find(enum share_kind kind, const char *name);

/* The names of all shipped files of a kind, without their endings, sorted, each once.  Freed with g_strfreev(). */
char **share_names(enum share_kind kind);

#endif
