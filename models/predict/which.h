/* which.h - every backend that could carry a layer's dispatch and combine, each predicted on the same routing.
 *
 * A backend is a library's kernels and, where ranks stand on several nodes, the transport that posts to NICs for them.
 * A point is one number of ranks and tokens: at it every backend has a time, or a reason why there is none.  Private to
 * which_*.c. */
#ifndef MODELS_PREDICT_WHICH_H
#define MODELS_PREDICT_WHICH_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include "models/case.h"
#include "models/cluster.h"
#include "reports/record.h"

#define WHICH_ERROR (g_quark_from_static_string("eptwin-which"))
enum which_error { WHICH_ERROR_OPTION, WHICH_ERROR_NONE };

/* A library's kernels. */
struct which_backend {
    const char *name, *kernel; /* kernel: of --kernel */
    const char *transport;     /* of --backend; NULL: within a node, no NIC takes part */
    uint32_t providers;        /* bits (1 << enum cluster_provider) of the NICs that it posts to */
};

/* The times of a layer are sums over its kernels, each by its slowest rank: DISPATCH has those up to dispatch (layout,
 * notify), COMBINE the rest. */
enum which_time { WHICH_LAYER, WHICH_DISPATCH, WHICH_COMBINE, WHICH_TIMES };
const char *which_time_name(enum which_time time);

struct which_answer {
    double us[WHICH_TIMES];
    uint32_t sms;             /* that its kernels take */
    char *phase[WHICH_TIMES]; /* the longest kernel of these */
    char *bound[WHICH_TIMES]; /* what bounds that: "NIC of rank 0, sending, 97 % busy" */
    char *problem;            /* NULL: none, else the reason and nothing above counts */
    bool absent;              /* not in question at this point, and nothing above counts */
};

struct which_point {
    uint32_t ranks, tokens;      /* of a rank at most */
    struct which_answer *answer; /* [backends] */
    uint32_t *order;             /* [backends] the fastest first, then those with a problem, then the absent */
    uint32_t good, asked;        /* how many have no problem; how many are not absent */
};

struct which {
    struct case_options base;
    const struct cluster *cluster;
    const struct which_backend *backend; /* [backends] all that there are */
    uint32_t backends;
    enum which_time by;
    uint32_t jobs;
    uint32_t ranks, tokens; /* the case's own; tokens: the most of a rank */
    GPtrArray *points;      /* struct which_point *: the case's own, then others */
};

/* Makes which (zeroed, but for base, cluster, by and jobs) ready; *error where the case's routing cannot be, or its
 * --kernel and --backend leave no backend. */
bool which_begin(struct which *which, GError **error);
void which_clear(struct which *which);
/* Predicts all backends at a point, and adds it.  *error where the point's routing cannot be. */
bool which_point_add(struct which *which, uint32_t ranks, uint32_t tokens, GError **error);
/* Says how long that takes for these points, where it is long. */
void which_estimate(const struct which *which, const uint32_t *ranks, const uint32_t *tokens, uint32_t count);
/* The backend that is first at a point; NULL: none can be. */
const struct which_backend *which_first(const struct which *which, const struct which_point *point);

/* which_text.c: in words, and as a record. */
void which_text_append(const struct which *which, GString *out);
void which_record(const struct which *which, struct record *record);

#endif
