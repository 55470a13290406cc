/* contention.h - how busy a host was with other work during a measurement: CPU time that other processes took, CPU
 * time that the hypervisor took (steal), waiting for CPUs, run queues, and frequency.
 *
 * Two readings of the operating system's counters, and the CPU time of the ranks between them, make a struct
 * contention.  A counter that the operating system does not have is NAN, and makes no host count as busy. */
#ifndef REPLAY_CONTENTION_H
#define REPLAY_CONTENTION_H

#include <glib.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include "replay/bootstrap/bootstrap.h"
#include "reports/record.h"

/* The values of the counters; NAN if the host does not give them. */
struct contention_reading {
    double wall_us;
    double busy_us, steal_us; /* time that the requested CPUs worked, and that the hypervisor took from them:
                               * /proc/stat */
    double pressure_us;       /* how long some process waited for a CPU: /proc/pressure/cpu, line "some" */
    double running;           /* processes that run or could run: procs_running of /proc/stat */
    double mhz;               /* frequency of the slowest CPU, from cpufreq or else from /proc/cpuinfo */
    uint32_t cpus;            /* how many of the requested CPUs the host has */
};

/* `others` and `steal` are fractions, 0 to 1, of the time of all CPUs that were read. */
struct contention {
    double others;   /* used by processes other than the ranks */
    double steal;    /* taken by the hypervisor */
    double pressure; /* fraction of the time in which some process waited for a CPU */
    double running;  /* processes that run or could run: the larger of the two readings */
    double mhz_min, mhz_max;
};

/* Reads the counters of `cpus`, or of all CPUs if cpus is NULL.  Paths such as /proc/stat are read below the folder
 * root: "" for this host, another folder in tests. */
void contention_read(const char *root, const cpu_set_t *cpus, struct contention_reading *reading);

/* The difference between two readings. own_us is the CPU time that all ranks of the host used in this time on the CPUs
 * that were read. */
struct contention contention_between(const struct contention_reading *from, const struct contention_reading *to,
                                     double own_us);

/* Whether the host was too busy for a measurement to be trusted: other processes used more than 1/20 of the CPU
 * time, or the hypervisor took more than 1/50.  Pressure does not count, because ranks that share a CPU wait for
 * each other. */
bool contention_busy(const struct contention *c);

/* Header lines: busy (yes, no or unknown), cpu-others-pct, cpu-steal-pct, cpu-pressure-pct, run-queue, cpu-mhz. */
void contention_record(const struct contention *c, struct record *record);

/* A rank's CPU use in one phase.  A phase lasts from one barrier to the next, so about equally long for all ranks. */
struct contention_effort {
    double wall_us, cpu_us;
    bool slept; /* whether the rank slept, so that its CPU may have been idle */
};
/* Whether other processes used more than a tenth of the time of the ranks' CPUs.  Ranks that do not sleep keep their
 * CPUs busy, so the CPU time that they did not get was used by others.  CPUs on which a rank slept do not count.  If
 * `bound`, rank r stays on CPU r modulo cpus, and one disturbed CPU is enough.  If not `bound`, the ranks share `cpus`
 * CPUs, which are judged together. */
bool contention_disturbed(const struct contention_effort *effort, uint32_t ranks, uint32_t cpus, bool bound);

/* The CPUs that each rank watches: all CPUs that the ranks of its host may use, because each rank may be bound to
 * one of them. */
struct contention_watch {
    cpu_set_t cpus;
    struct contention_reading from;
    double own_us; /* CPU time of this process at the beginning */
};
/* These two functions begin and end a watch.  Both are collective.  *worst gets the contention of the host where other
 * processes and the hypervisor together took the largest share of CPU time since contention_begin(). */
bool contention_begin(struct bootstrap *b, struct contention_watch *watch, GError **error);
bool contention_end(struct bootstrap *b, const struct contention_watch *watch, struct contention *worst,
                    GError **error);

/* CPU time of this process, and of this thread. */
double contention_process_us(void);
double contention_thread_us(void);
/* How often this thread has slept, which means that it gave up its CPU by itself. */
uint64_t contention_thread_sleeps(void);

#endif
