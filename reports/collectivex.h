/* collectivex.h - a record as a case attempt of CollectiveX (SemiAnalysisAI/InferenceX, experimental/CollectiveX), so
 * that programs which read its results can read ours.
 *
 * A record becomes one document with one row, whose size is the record's number of tokens a rank.  The row's components
 * are the calls of dispatch and of combine.  A call's time is the sum of its kernels' times on the slowest rank.  With
 * --launch loop, the row has a pair period and two floors instead.  The pair period is the sum of both calls' median
 * times, and a floor is a call's time on the fastest rank.  `availability` is "derived" for a prediction, "measured"
 * for other records, and "unavailable" for a value that the record lacks.  `origin` names eptwin's kind of record. */
#ifndef REPORTS_COLLECTIVEX_H
#define REPORTS_COLLECTIVEX_H

#include <glib.h>
#include "reports/record.h"

/* The document as text; free it.  NULL and *error if the record has no dispatch or combine, or no tokens. */
GString *collectivex_text(const struct record *record, GError **error);

#endif
