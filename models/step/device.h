/* device.h - GPUs that run a schedule: each rank has a host, streams and SMs.  The caller owns the clock.
 *
 * A host launches kernels in the schedule's order.  A kernel begins when four things are true: it is launched, the
 * kernel before it on its stream has ended, the kernels that it waits for have ended, and SMs are free for it.
 * Blocks take SMs by the priority of their stream.  How long a kernel holds its SMs depends on its kind:
 *
 *     OCCUPANCY_SHORT    many short blocks: it takes free SMs, and gives them back at once when a kernel of another
 *                        kind, or one of a stream with priority, wants them
 *     OCCUPANCY_TILES    persistent blocks that fetch tiles: blocks that come late find less work; if an op is several
 *                        kernels in sequence, each gives its SMs back at its end, and waiting kernels take SMs before
 *                        the next
 *     OCCUPANCY_SHARES   persistent blocks with equal shares: a block that comes late ends late
 *     OCCUPANCY_MEETING  a communication kernel: begins once it has all its SMs, and ends when its world says so
 *
 * A kernel on fewer SMs than it wants takes longer in proportion.  A kernel that memory bounds takes longer only below
 * DEVICE_BYTES_SHARE of the SMs that it wants.  When fewer of its blocks are left, each gets more of the memory's rate,
 * so late blocks catch up.
 *
 * Full power is drawn when tensor cores work on all SMs without a pause.  The nominal clock is the clock that the power
 * limit then allows.  Power grows with the cube of the clock (voltage grows with frequency).  So a rank that has drawn
 * a share of full power so far has the nominal clock divided by the cube root of that share, but at most `lift`
 * times the nominal clock.  Meetings count as pauses.  Knows no protocol and no network. */
#ifndef MODELS_STEP_DEVICE_H
#define MODELS_STEP_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "models/step/schedule.h"

enum step_occupancy { OCCUPANCY_SHORT, OCCUPANCY_TILES, OCCUPANCY_SHARES, OCCUPANCY_MEETING };

/* With 78 of 132 SMs, copies of HBM are as fast as with all SMs (measured while DeepEP's kernels ran on H100: 36
 * GB/s an SM up to 2.83 TB/s). */
#define DEVICE_BYTES_SHARE 0.6

struct step_cost {
    double us; /* time while no other kernel runs, with all SMs that it wants; not used for a meeting */
    enum step_occupancy occupancy;
    uint32_t sms;
    uint32_t kernels;               /* OCCUPANCY_TILES: number of kernels in sequence, assumed equally long; 0: 1 */
    double clock_share;             /* the share of its time that grows at a lower clock */
    double power;                   /* power that it draws on all SMs at the nominal clock, as a share of full power */
    double tensor;                  /* the share of the GPU's tensor cores that it keeps busy */
    double read_bytes, write_bytes; /* bytes of HBM that the kernel reads and writes */
    char source[64];                /* where the time is from: "table", "roofline", ... */
};

struct device_times {
    uint64_t ready_ps; /* when it is launched and everything that it waits for has ended */
    uint64_t begin_ps; /* when its first block has an SM; for a meeting: when all blocks have one */
    uint64_t end_ps;
};

enum { DEVICE_RUNNING_MAX = SCHEDULE_STREAMS_MAX };

/* A kernel that has SMs now. */
struct device_running {
    uint32_t kernel;
    double sms_share; /* the SMs that it has, as a share of those that it wants */
    double slow;      /* by what factor the kernel takes longer; 1 until contend() sets it */
};

struct device_options {
    const struct schedule *schedule;
    uint32_t ranks, sms;
    const struct step_cost *(*cost)(void *context, uint32_t rank, uint32_t kernel);
    uint64_t (*now_ps)(void *context, uint32_t rank);
    void (*timer_set)(void *context, uint32_t rank, uint64_t time_ps); /* asks that device_timer() be called at that
                                                                        * time */
    void (*begin)(void *context, uint32_t rank, uint32_t kernel);      /* begins a meeting; the caller calls
                                                                        * device_ended() at its end */
    /* Sets `slow` of each kernel that runs on the rank's GPU from now on.  count may be 0.  NULL: no kernel slows
     * another. */
    void (*contend)(void *context, uint32_t rank, struct device_running *running, uint32_t count);
    void *context;
    const double *slow;  /* [ranks] factor on the time of a GPU's work; NULL: all 1 */
    const double *speed; /* [ranks] a GPU's clock over the nominal one; NULL: all 1 */
    double lift;         /* the GPU's highest clock over the nominal one; 0: 1 */
    double jitter; /* the standard deviation of the logarithm of each compute kernel's time; drawn from the seed */
    uint64_t seed;
    uint64_t launch_ps; /* the host's time to launch a kernel; 0: a graph has launched all kernels */
    uint64_t sync_ps;   /* from the end of a kernel that the host awaits until the host goes on */
    uint64_t gap_ps;    /* from a kernel's end until kernels that wait for it can get SMs */
};

struct device;
struct device *device_new(const struct device_options *options);
void device_free(struct device *device);

void device_start(struct device *device); /* starts all ranks now */
void device_timer(struct device *device, uint32_t rank);
void device_ended(struct device *device, uint32_t rank); /* call it when the rank's meeting has ended */

/* The rank's clock now, over the nominal one. */
double device_clock(const struct device *device, uint32_t rank);
/* The time of a compute kernel alone on this rank, with the rank's speed and slow, without and with the kernel's
 * jitter.  It leaves out that the clock follows the power. */
double device_clocked_us(const struct device *device, uint32_t rank, uint32_t kernel);
double device_alone_us(const struct device *device, uint32_t rank, uint32_t kernel);
/* The times of a kernel.  They are valid once the kernel has ended on the rank. */
const struct device_times *device_times(const struct device *device, uint32_t rank, uint32_t kernel);
/* Whether every kernel has ended on every rank.  If not, text names a rank and the first kernel that has not. */
bool device_finished(const struct device *device, char *text, size_t text_size);

#endif
