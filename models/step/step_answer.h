/* step_answer.h - what a step's run shows: its time, and the cause of communication that no compute hides.
 *
 * On each rank, time in which a communication kernel runs or waits and no compute kernel runs is exposed:
 *
 *     sms         its blocks wait for SMs that another kernel holds
 *     waiting     it runs, but another rank has not begun the corresponding kernel yet
 *     wire        all ranks run it: as long as it takes alone
 *     contention  the remainder: other kernels make it take longer
 *
 * Time in which nothing runs is the host's.
 *
 * Times of the whole step include layers that were not simulated.  Each of these counts as the mean of the layers
 * that give its time. */
#ifndef MODELS_STEP_STEP_ANSWER_H
#define MODELS_STEP_STEP_ANSWER_H

#include <stdint.h>
#include "models/step/step_run.h"

enum step_part { PART_COMPUTE, PART_WIRE, PART_WAITING, PART_CONTENTION, PART_SMS, PART_HOST, STEP_PARTS };
const char *step_part_name(enum step_part part);

/* Why a rank that others wait for is late. */
enum step_late { LATE_TOKENS, LATE_CLOCK, LATE_BESIDE, LATE_ARRIVAL, STEP_LATES };
const char *step_late_name(enum step_late late);

/* One op, or one phase of communication: its kernels on all ranks. */
struct step_line {
    const char *name;
    uint32_t kernels;                            /* a rank */
    double mean_us, alone_us, least_us, most_us; /* of a kernel, from begin to end */
    double waiting_us;                           /* mean: from a kernel's begin until the last rank began it */
    char source[64];
};

/* A kernel of the last two simulated layers with experts, on one of a few ranks, in us from the first begin of
 * these. met_us: when the last rank began it; for compute: its own begin. */
struct step_shown {
    uint32_t rank;
    const char *name;
    uint8_t stream;
    double begin_us, met_us, end_us;
};

struct step_answer {
    double layer_us;            /* a layer with experts, in the steady state */
    double total_us;            /* the whole step; layers that were not simulated count as steady ones */
    double steady_error_pct;    /* how much the last two quarters of the simulated layers differ, as a share of the
                                 * total */
    uint32_t layers, simulated; /* layers with experts: all of the net's; those that were simulated */
    uint32_t steady;            /* how many of these are averaged to layer_us */
    double part_us[STEP_PARTS]; /* means over ranks, of the whole step; their sum is the step's time */
    double hidden_us; /* likewise: communication during compute, and bytes that came between send and receive */
    double late_us[STEP_LATES]; /* waiting, by what made the awaited rank late; means over ranks, exposed or not */
    uint32_t awaited;           /* the rank that others wait for most; its share of all waiting */
    double awaited_pct;
    GArray *lines; /* struct step_line, in the order of the layer */
    GArray *shown; /* struct step_shown, by rank: the awaited one and up to three others */
};

/* layers: the number of all layers of the net with experts. */
struct step_answer *step_answer_new(const struct step_run *run, uint32_t layers);
void step_answer_free(struct step_answer *answer);

#endif
