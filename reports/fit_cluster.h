/* fit_cluster.h - makes a cluster file for the machine of a record of `eptwin measure`.
 *
 * One table says which rows become which key (fit_cluster.c, reports/README.md).  Every key gets a comment that names
 * its rows and, if they were fitted by a line, how far they are from it. */
#ifndef REPORTS_FIT_CLUSTER_H
#define REPORTS_FIT_CLUSTER_H

#include <glib.h>
#include "reports/record.h"

/* The text of the cluster file, which the caller frees.  NULL and *error if rows are missing or unusable. path names
 * the record in comments and messages. name is the cluster's name (NULL: the machine's). doubts (or NULL) gets the
 * names of the rates whose rows are off their line by more than 25 % in the median. */
char *fit_cluster_text(const struct record *record, const char *path, const char *name, GString *doubts,
                       GError **error);

#endif
