/* case_family.h - private to models/case_*.c: the load and job that a kernel family derives from a case. */
#ifndef MODELS_CASE_FAMILY_H
#define MODELS_CASE_FAMILY_H

#include "models/case.h"

/* The caller passes resolved cases (case_resolved()), except where a default depends on which options were given. */
struct case_family {
    bool (*load)(const struct case_options *c, struct case_load *load, GError **error);
    /* Whether the loads of a and b, both resolved, are equal. */
    bool (*load_same)(const struct case_options *a, const struct case_options *b);
    void (*load_digest)(const struct case_load *load, GChecksum *checksum);
    struct kernel_job *(*job)(const struct case_options *c, const struct case_load *load, const struct cluster *cluster,
                              uint32_t device_sms, GError **error);
    void (*job_record)(const struct kernel_job *job, struct record *record);
    const char *(*rate_metric)(const struct case_options *c);
};

/* Reads mask-timeout and fail into o, which is else left as it is. */
bool case_masking_fill(const struct case_options *c, struct moe_options *o, GError **error);

/* Whether the kernel is NCCL's rings or trees. */
bool case_by_nccl(const struct case_options *c);

extern const struct case_family case_family_coll; /* case_coll.c */

#endif
