/* open_metrics.h - a record as OpenMetrics text, which Prometheus and other programs read: times, waits, and errors
 * relative to a prediction.  Units are base units (seconds, bytes per second, ratios).  Ranks and phases are labels. */
#ifndef REPORTS_OPEN_METRICS_H
#define REPORTS_OPEN_METRICS_H

#include <glib.h>
#include "reports/record.h"

/* The text, which ends with "# EOF"; free it.  predicted: the prediction of this case; NULL: no errors are written. */
GString *open_metrics_text(const struct record *record, const struct record *predicted);

#endif
