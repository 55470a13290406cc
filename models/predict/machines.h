/* machines.h - which cluster file a prediction is of: records keep the name of their cluster, not its file. */
#ifndef MODELS_PREDICT_MACHINES_H
#define MODELS_PREDICT_MACHINES_H

#include <glib.h>
#include <stdbool.h>
#include "reports/drawing.h"
#include "reports/record.h"

struct machines;

/* Knows the files of paths (NULL-terminated, or NULL) and, after them, those that ship with eptwin.  NULL and *error
 * (file, line) where one of paths is no cluster file.  Free with machines_free(). */
struct machines *machines_new(char *const *paths, GError **error);
void machines_free(struct machines *machines);

/* The file whose cluster the prediction names; NULL where none is known.  Stays the machines'. */
const char *machines_path(struct machines *machines, const struct record *record);
/* That machine, with the nodes that the prediction's ranks take.  NULL likewise. */
struct drawing *machines_draw(struct machines *machines, const struct record *record);

#endif
