/* cluster_teach.h - explains the keys of cluster files, for a terminal and as a manual page. */
#ifndef MODELS_CLUSTER_TEACH_H
#define MODELS_CLUSTER_TEACH_H

#include <glib.h>
#include <stdbool.h>

/* Appends an explanation of the keys of a section ("nic"), the keys of one name ("rate", "nic.rate"), all keys
 * ("all"), or the most important keys (NULL).  For any other name returns False and sets *error, which has the
 * nearest name. */
bool cluster_teach(const char *what, GString *out, GError **error);

/* Appends eptwin-cluster(5): the file's form and all keys, for man(1). */
void cluster_teach_man(GString *out);

#endif
