/* record_forms.h - a record in the forms of other programs. */
#ifndef REPORTS_RECORD_FORMS_H
#define REPORTS_RECORD_FORMS_H

#include <glib.h>
#include "reports/record.h"

/* A record as OpenMetrics text, which Prometheus and other programs read: times, waits, and errors relative to a
 * prediction.  Units are base units (seconds, bytes per second, ratios).  Ranks and phases are labels.  The text ends
 * with "# EOF"; free it.  predicted: the prediction of this case; NULL: no errors are written. */
GString *open_metrics_text(const struct record *record, const struct record *predicted);

/* A record as a case attempt of CollectiveX (SemiAnalysisAI/InferenceX, experimental/CollectiveX), so that programs
 * which read its results can read ours.
 *
 * A record becomes one document with one row, whose size is the record's number of tokens a rank.  The row's components
 * are the calls of dispatch and of combine.  A call's time is the sum of its kernels' times on the slowest rank.  With
 * --launch loop, the row has a pair period and two floors instead.  The pair period is the sum of both calls' median
 * times, and a floor is a call's time on the fastest rank.  `availability` is "derived" for a prediction, "measured"
 * for other records, and "unavailable" for a value that the record lacks.  `origin` names eptwin's kind of record.
 *
 * Free the text.  NULL and *error if the record has no dispatch or combine, or no tokens. */
GString *collectivex_text(const struct record *record, GError **error);

#endif
