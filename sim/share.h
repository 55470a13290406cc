/* share.h - where the files that ship with eptwin are: cluster files, sample traces, nets and tables.
 *
 * They are searched for in a source tree (the current folder's, then the executable's), then where the executable is
 * installed (../share/eptwin from its bin), then below the PREFIX that `make` was given.  A folder found in several
 * ways counts once.  This module knows no format. */
#ifndef SIM_SHARE_H
#define SIM_SHARE_H

enum share_kind { SHARE_CLUSTERS, SHARE_SAMPLES, SHARE_NETS, SHARE_TABLES };

/* Returns the folders of a kind that exist, in the order of the search.  If none exists, returns all folders that were
 * searched for.  The array is NULL-terminated; free it with g_strfreev(). */
char **share_folders(enum share_kind kind);

/* Returns the path of a shipped file.  The name may lack the kind's ending: "h200" finds "h200.ini".  Returns NULL if
 * the name contains a '/' or no folder has the file.  Free it with g_free(). */
char *share_find(enum share_kind kind, const char *name);

/* Returns the names of all shipped files of a kind, without their endings, sorted, each once.  Free with
 * g_strfreev(). */
char **share_names(enum share_kind kind);

#endif
