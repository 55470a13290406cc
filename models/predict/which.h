/* which.h - every backend that could carry a layer's dispatch and combine, each predicted with the same routing.
 *
 * A backend is a library's kernels and, if ranks are on several nodes, the transport that posts to NICs for them.  A
 * point is one number of ranks and tokens.  At each point a backend has a time, or a reason why it has none, or is no
 * candidate.  Private to which_*.c. */
#ifndef MODELS_PREDICT_WHICH_H
#define MODELS_PREDICT_WHICH_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include "models/case.h"
#include "models/cluster.h"
#include "reports/record.h"

/* The maker of the GPUs for which a library's kernels are written. */
enum which_gpus { WHICH_NVIDIA = 1, WHICH_AMD = 2, WHICH_BOTH = 3 };

/* A library's kernels with a transport. */
struct which_backend {
    const char *name, *kernel; /* kernel: as --kernel names it */
    enum which_gpus gpus;
    const char *transport; /* as --backend names it; NULL: the backend is for one node, where no NIC is used */
    uint32_t providers;    /* the NICs that it posts to, as bits (1 << enum cluster_provider) */
};

/* Times of a layer and of its halves, as compare_layer_find() adds them up. */
enum which_time { WHICH_LAYER, WHICH_DISPATCH, WHICH_COMBINE, WHICH_TIMES };
const char *which_time_name(enum which_time time);

struct which_answer {
    double us[WHICH_TIMES];
    uint32_t sms;             /* SMs of its kernels */
    char *phase[WHICH_TIMES]; /* the longest kernel of the layer, of dispatch, of combine */
    char *bound[WHICH_TIMES]; /* what bounds that kernel: "NIC of rank 0, sending, 97 % busy" */
    char *problem;            /* why there is no time; then the fields above are not set.  NULL: there is a time */
    bool absent;              /* the backend is no candidate at this point; then the fields above are not set */
};

struct which_point {
    uint32_t ranks, tokens;      /* tokens: the most of any rank */
    struct which_answer *answer; /* [backends] */
    uint32_t *order;      /* [backends] the fastest first, then those with a problem, then those that are absent */
    uint32_t good, asked; /* how many backends have no problem; how many are not absent */
};

struct which {
    struct case_options base;
    const struct cluster *cluster;
    const struct which_backend *backend; /* [backends] every backend that eptwin knows */
    uint32_t backends;
    enum which_time by;
    uint32_t jobs;
    uint32_t ranks, tokens; /* the case's ranks; the most tokens of any rank */
    uint32_t topk, experts; /* of the case */
    uint32_t topk_nodes;    /* that the experts of a token lie on at most; 0: all */
    GPtrArray *points;      /* struct which_point *: the case's first, then others */
};

/* Makes `which` ready; the caller has set base, cluster, by and jobs.  False and *error if the case's routing is
 * impossible, or if its --kernel and --backend leave no backend. */
bool which_begin(struct which *which, GError **error);
void which_clear(struct which *which);
/* Predicts all backends at a point, and adds the point.  False and *error if its routing is impossible. */
bool which_point_add(struct which *which, uint32_t ranks, uint32_t tokens, GError **error);
/* Prints how long the prediction of these points takes, if it takes long. */
void which_estimate(const struct which *which, const uint32_t *ranks, const uint32_t *tokens, uint32_t count);
/* The fastest backend at a point; NULL: none is possible. */
const struct which_backend *which_first(const struct which *which, const struct which_point *point);

/* Give the answers in words, and as rows of a record (which_text.c). */
void which_text_append(const struct which *which, GString *out);
void which_record(const struct which *which, struct record *record);

#endif
