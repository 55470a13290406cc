/* schedule.h - a step as a program of streams: which kernel follows which, equal on every rank.
 *
 * The kernels of a stream run one after another.  A kernel also waits for the kernels that it names.  There is no
 * barrier between layers: ranks meet only in their communication kernels.  A schedule has no times. */
#ifndef MODELS_STEP_SCHEDULE_H
#define MODELS_STEP_SCHEDULE_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

enum step_op {
    STEP_ATTENTION,
    STEP_PROJECT, /* what precedes attention's core, which is STEP_CORE, in schedules that divide attention */
    STEP_CORE,
    STEP_GATE,
    STEP_SHARED,
    STEP_EXPERTS, /* both GEMMs; schedules that put rows in order have the next four ops in place of this one */
    STEP_ORDER,
    STEP_UP, /* the first GEMM, and the product with the gate */
    STEP_DOWN,
    STEP_RESTORE, /* returns rows to where they came from, and sums the rows of a token */
    STEP_DENSE,   /* the feed-forward of a layer without experts */
    STEP_HEAD,
    STEP_COMPUTE_OPS,
    STEP_COMM = STEP_COMPUTE_OPS, /* a phase of dispatch or combine */
    STEP_OPS
};
const char *step_op_name(enum step_op op);

/* Training's backward pass has two parts: PASS_DGRAD makes the gradients of an op's input, and PASS_WGRAD those of its
 * weights.  For communication PASS_DGRAD is the whole backward pass: its dispatch is the transpose of the forward
 * combine, and its combine that of the forward dispatch. */
enum step_pass { PASS_FORWARD, PASS_DGRAD, PASS_WGRAD, STEP_PASSES };
const char *step_pass_suffix(enum step_pass pass); /* "", "_dgrad", "_wgrad" */

enum step_overlap {
    STEP_SEQUENTIAL,   /* one stream, one batch */
    STEP_SHARED_ASIDE, /* the shared expert runs during dispatch: on its own stream, or between send and receive */
    STEP_TWO_BATCH,    /* normal kernels: each batch communicates while the other computes.  In training one batch
                        * goes forward and the other backward, as DualPipe pairs them */
    STEP_STAGES,       /* low latency with hooks, two batches: DeepSeek's stages of decode */
};
bool step_overlap_parse(const char *text, enum step_overlap *overlap);
const char *step_overlap_name(enum step_overlap overlap);
uint32_t step_overlap_batches(enum step_overlap overlap);

enum { SCHEDULE_WAITS_MAX = 3, SCHEDULE_STREAMS_MAX = 3, SCHEDULE_NONE = UINT32_MAX };
enum { STREAM_MAIN, STREAM_COMM, STREAM_SIDE };

struct schedule_kernel {
    uint8_t stream, op, pass, batch, phase; /* phase: of STEP_COMM, the number of its phase in the kernel family */
    uint8_t num_waits;
    bool host_waits; /* the host launches the next kernel only after this one's end */
    uint16_t layer;
    uint32_t wait[SCHEDULE_WAITS_MAX]; /* indexes of earlier kernels that must have ended */
};

struct schedule {
    GArray *kernels; /* struct schedule_kernel, in the order in which the host launches them */
    uint32_t batches;
    uint8_t priority[SCHEDULE_STREAMS_MAX]; /* of each stream; a lower number gets free SMs first */
};

/* What a schedule must know of a kernel family's phases. */
struct schedule_phases {
    const char *const *name; /* [count] the phases of one iteration */
    uint32_t count;
    uint32_t combine;                       /* the first phase of combine; all phases before it belong to dispatch */
    bool hooks;                             /* dispatch and combine have a send and a receive each */
    bool host_waits;                        /* the host waits for the end of the phase "notify" */
    const struct schedule_phases *backward; /* training: the phases of the backward pass; NULL: no training */
};

struct schedule_layers {
    uint32_t dense, sparse; /* layers without experts, then layers with experts */
    bool shared;            /* layers with experts also have a shared one */
    bool ordered;           /* rows are put in the order of experts before the GEMMs */
    bool head;
};

/* Makes the schedule.  In training batch 0 goes forward and batch 1 backward, each through all layers.  A kernel's
 * `layer` counts the layers in the order in which its batch comes to them.  NULL and *error if the kernels cannot
 * overlap in this way. */
struct schedule *schedule_new(enum step_overlap overlap, const struct schedule_layers *layers,
                              const struct schedule_phases *phases, GError **error);
void schedule_free(struct schedule *schedule);

static inline const struct schedule_kernel *schedule_kernel(const struct schedule *s, uint32_t kernel)
{
    return &g_array_index(s->kernels, struct schedule_kernel, kernel);
}

#endif
