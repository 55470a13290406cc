/* turns.h - how long compute kernels take that run in turn, over and over, on one stream of a GPU while a communication
 * kernel runs over and over on another.
 *
 * The GPU is that of models/step/device.h: kernels wait for SMs, hold them in their ways, and end late if their blocks
 * begin late.  While communication runs, its bytes slow them, too; the clock rises as fewer tensor cores work. */
#ifndef MODELS_PREDICT_TURNS_H
#define MODELS_PREDICT_TURNS_H

#include <stdint.h>
#include "models/step/device.h"

enum { TURNS_KERNELS_MAX = 4 };

struct turns {
    struct step_cost cost[TURNS_KERNELS_MAX]; /* the compute kernels in the order in which they run */
    uint32_t count;
    uint32_t sms; /* SMs of the GPU that they and communication may use */
    double gap_us;
    double tensor_clock; /* the clock while all tensor cores work, as a share of the clock while none does */
    uint32_t comm_sms;
    double comm_us; /* time of the communication kernel under this load */
    double rate;    /* how fast the memory lets a kernel that it bounds go during communication, as a share of its speed
                     * alone */
};

/* us[count] gets the mean time of each compute kernel. */
void turns_run(const struct turns *turns, double *us);

#endif
