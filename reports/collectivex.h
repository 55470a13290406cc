/* collectivex.h - a record as a case attempt of CollectiveX (SemiAnalysisAI/InferenceX, experimental/CollectiveX),
 * so that programs which read its results can read ours.
 *
 * A record becomes one document with one row (the record's tokens a rank).  If calls are launched together, the row's
 * components are the calls of dispatch and combine: all kernels up to the main one, on the slowest rank.  With --launch
 * loop they are the period of a pair, and the floors, which are the fastest rank's times.  `availability` is "derived"
 * for a prediction, else "measured".  `origin` names eptwin's kind of record.  Values that the record does not have are
 * null. */
#ifndef REPORTS_COLLECTIVEX_H
#define REPORTS_COLLECTIVEX_H

#include <glib.h>
#include "reports/record.h"

/* The document as text; free it.  NULL and *error if the record has no dispatch or combine, or no tokens. */
GString *collectivex_text(const struct record *record, GError **error);

#endif
