/* machines.h - finds the cluster file of a prediction: records keep the name of their cluster, not its file. */
#ifndef MODELS_PREDICT_MACHINES_H
#define MODELS_PREDICT_MACHINES_H

#include <glib.h>
#include "reports/drawing.h"
#include "reports/record.h"

struct machines;

/* Finds clusters first in the files of paths (NULL-terminated, or NULL), then among those that ship with eptwin.  NULL
 * and *error (file, line) if one of paths is not a cluster file.  Free with machines_free(). */
struct machines *machines_new(char *const *paths, GError **error);
void machines_free(struct machines *machines);

/* The file of the cluster that the prediction names; NULL if none is known.  Owned by the machines. */
const char *machines_path(struct machines *machines, const struct record *record);
/* A drawing of the prediction's machine, with as many nodes as its ranks take.  NULL if no file is known. */
struct drawing *machines_draw(struct machines *machines, const struct record *record);

#endif
