/* device.h - GPUs that run a schedule: on each rank its host, its streams and its SMs, in a clock that somebody else
 * owns.
 *
 * A host launches kernels in the schedule's order.  A kernel begins when it is launched, the kernel before it on its
 * stream and those that it waits for have ended, and SMs are free for it: blocks take SMs by the priority of their
 * stream.  How a kernel holds its SMs decides what it costs others:
 *
 *   OCCUPANCY_SHORT    many short blocks: takes what is free, gives it back at once when a kernel of a stream with
 *                      priority wants it
 *   OCCUPANCY_TILES    persistent blocks that fetch tiles: blocks that come late find less work
 *   OCCUPANCY_SHARES   persistent blocks with equal shares: a block that comes late ends late
 *   OCCUPANCY_MEETING  a communication kernel: begins once it has all its SMs, and ends when its world says so
 *
 * The work of a kernel on fewer SMs than it wants takes longer in proportion; that of one bound by memory only below
 * DEVICE_BYTES_SHARE of them, and its late blocks, which have the memory to themselves, catch up likewise.  Knows no
 * protocol and no network. */
#ifndef MODELS_STEP_DEVICE_H
#define MODELS_STEP_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "models/step/schedule.h"

enum step_occupancy { OCCUPANCY_SHORT, OCCUPANCY_TILES, OCCUPANCY_SHARES, OCCUPANCY_MEETING };

/* Copies of HBM by 78 of 132 SMs are as fast as by all (measured while DeepEP's kernels ran on H100: 36 GB/s an SM up
 * to 2.83 TB/s). */
#define DEVICE_BYTES_SHARE 0.6

struct step_cost {
    double us; /* alone, on all SMs that it wants; of a meeting: not used */
    enum step_occupancy occupancy;
    uint32_t sms;
    double clock_share;             /* the share of its time that grows as the clock falls */
    double read_bytes, write_bytes; /* of HBM */
    char source[64];                /* "table", "roofline", ... */
};

struct device_times {
    uint64_t ready_ps; /* launched, and all that it waits for has ended */
    uint64_t begin_ps; /* its first block has an SM; of a meeting: all have */
    uint64_t end_ps;
};

enum { DEVICE_RUNNING_MAX = SCHEDULE_STREAMS_MAX };

/* A kernel that has SMs now. */
struct device_running {
    uint32_t kernel;
    double sms_share; /* of those that it wants */
    double slow;      /* how much longer it takes while the others run: contend() sets it, 1 before */
};

struct device_options {
    const struct schedule *schedule;
    uint32_t ranks, sms;
    const struct step_cost *(*cost)(void *context, uint32_t rank, uint32_t kernel);
    uint64_t (*now_ps)(void *context);
    void (*timer_set)(void *context, uint32_t rank, uint64_t time_ps); /* then device_timer() is called */
    void (*begin)(void *context, uint32_t rank, uint32_t kernel);      /* a meeting: then device_ended() is called */
    /* Kernels that share the rank's GPU from now on, or count 0.  NULL: none slows another. */
    void (*contend)(void *context, uint32_t rank, struct device_running *running, uint32_t count);
    void *context;
    const double *slow;  /* [ranks] how long each GPU takes for all its work, against others; NULL: all 1 */
    const double *speed; /* [ranks] clock of each GPU over the nominal one; NULL: all 1 */
    double jitter;       /* deviation of the time of each compute kernel, as a share of it, drawn by seed */
    uint64_t seed;
    uint64_t launch_ps; /* what the host takes to launch a kernel; 0: a graph */
    uint64_t sync_ps;   /* from the end of a kernel that the host awaits until it goes on */
    uint64_t gap_ps;    /* from a kernel's end until those that wait for it can take SMs */
};

struct device;
struct device *device_new(const struct device_options *options);
void device_free(struct device *device);

void device_start(struct device *device); /* all ranks, now */
void device_timer(struct device *device, uint32_t rank);
void device_ended(struct device *device, uint32_t rank); /* the rank's meeting has ended */

/* Valid once the kernel has ended on that rank. */
const struct device_times *device_times(const struct device *device, uint32_t rank, uint32_t kernel);
/* Whether every rank has run everything; else which kernel of which rank has not ended is in text. */
bool device_finished(const struct device *device, char *text, size_t text_size);

#endif
