/* step_answer.h - the results of a step's run: its time, and the reasons for the time of communication that no compute
 * hides.
 *
 * On each rank, time in which a communication kernel runs or waits and no compute kernel runs is exposed:
 *
 *     sms         the kernel's blocks wait for SMs that another kernel holds
 *     waiting     the kernel runs, but another rank has not begun the corresponding kernel yet; a receive: the rows
 *                 have not come from a rank that began its send later, but would have if all had begun together
 *     wire        all ranks have begun the kernel; this part is as long as the kernel takes alone
 *     contention  the kernel takes longer than alone, because of other kernels or of the clock that power allows
 *
 * Time in which nothing runs counts as the host's.
 *
 * Times of the whole step include layers that were not simulated.  Each of these counts as the mean of the steady
 * layers. */
#ifndef MODELS_STEP_STEP_ANSWER_H
#define MODELS_STEP_STEP_ANSWER_H

#include <stdint.h>
#include "models/step/step_run.h"

enum step_part { PART_COMPUTE, PART_WIRE, PART_WAITING, PART_CONTENTION, PART_SMS, PART_HOST, STEP_PARTS };
const char *step_part_name(enum step_part part);

/* Why a rank that others wait for is late. */
enum step_late { LATE_TOKENS, LATE_CLOCK, LATE_JITTER, LATE_BESIDE, LATE_ARRIVAL, STEP_LATES };
const char *step_late_name(enum step_late late);

/* One op, or one phase of communication: its kernels on all ranks. */
struct step_line {
    const char *name;
    uint32_t kernels;                            /* number of kernels on each rank */
    double mean_us, alone_us, least_us, most_us; /* times of a kernel from begin to end; alone_us: mean time alone */
    double waiting_us;                           /* mean time that a kernel waits for the last rank */
    char source[64];
};

/* A kernel that one of a few ranks runs while any of them is in the last two simulated layers with experts.  Times
 * count from the begin of these layers.  met_us: of communication, when the last rank began it; of compute, its own
 * begin. */
struct step_shown {
    uint32_t rank;
    const char *name;
    uint8_t stream;
    double begin_us, met_us, end_us;
};

struct step_answer {
    double layer_us;            /* a layer with experts, in the steady state */
    double total_us;            /* the whole step; each layer that was not simulated counts as a steady one */
    double steady_error_pct;    /* how wrong total_us may be because layers were not simulated, in percent of it.  If
                                 * layers have routings of their own, it is less in 9 of 10 cases.  Otherwise it is,
                                 * for each such layer, half of how much the last two quarters of the simulated layers
                                 * differ.  0: all layers were simulated; NAN: not known */
    uint32_t layers, simulated; /* layers with experts: all of the net's; those that were simulated */
    uint32_t steady;            /* how many simulated layers are averaged to layer_us */
    double part_us[STEP_PARTS]; /* parts of the whole step, means over ranks; their sum is the step's time */
    double hidden_us; /* mean over ranks of communication during compute, and of bytes that came between send and
                       * receive */
    double late_us[STEP_LATES]; /* waiting by the reason why the awaited rank was late, including waiting that
                                 * compute hides; means over ranks */
    uint32_t awaited;           /* the rank that others wait for most */
    double awaited_pct;         /* the share of all waiting that is for this rank */
    GArray *lines;              /* struct step_line, in the order of the layer */
    GArray *shown;              /* struct step_shown, by rank: the awaited one and up to three others */
};

/* Sums up the run.  layers: how many layers with experts the net has. */
struct step_answer *step_answer_new(const struct step_run *run, uint32_t layers);
void step_answer_free(struct step_answer *answer);

/* How long a rank waits, including time that compute hides. */
double step_answer_waited_us(const struct step_answer *answer);

#endif
