/* warps.h - how long the warps of one SM take for a program of a sheet (models/kernels/loops.h).  Private to
 * models/hardware.
 *
 * The SM is a small machine.  Its warps go through the program in order.  A warp stops only where it must wait: for
 * a load, for what the bulk engine brings or still reads, or for earlier instructions.  Four schedulers serve the
 * warps in turns, one instruction a cycle.  An instruction that needs the previous one waits four cycles.  (NVIDIA's
 * SMs since Volta: "Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking", 2018, tables 4.1 and 2.1.)
 * The accesses of the warps go through one port.  All bytes that leave or enter the SM share one way, and so do the
 * engine's bytes.  What other SMs do is not known here, because memory and links are ports of the world. */
#ifndef MODELS_HARDWARE_WARPS_H
#define MODELS_HARDWARE_WARPS_H

#include <stdbool.h>
#include <stdint.h>
#include "models/hardware/machine/link.h"
#include "models/kernels/loops.h"

enum { WARPS_MOST = 64, WARPS_PLACES = LOOP_L2 + 1 };

/* An SM, and the places of an operation's data. */
struct warps_sm {
    uint64_t cycle_ps;
    uint64_t access_ps;             /* from a warp's access to its next one */
    uint64_t load_ps[WARPS_PLACES]; /* from an access until the value is there */
    uint64_t stored_ps; /* how long a store takes until it is performed, if later loads of its warp wait for that; 0:
                         * loads do not wait */
    uint64_t in_ps[WARPS_PLACES];   /* from a request to the engine until its bytes begin to come */
    uint64_t turn_ps;               /* how long a request to the engine and its wait keep a warp busy */
    uint64_t fence_ps;              /* how long a fence of the SM takes */
    uint64_t read_ps;               /* from the last byte that the engine reads until the warp knows */
    rate_q20 load, store, put;      /* rates of bytes into the SM, out of it, and by the engine to the target */
    rate_q20 skew;                  /* rate of the engine's extra passes */
    uint32_t in_passes, out_passes; /* how many extra passes, in eighths */
};

struct warps_cost {
    uint64_t first_ps; /* until all warps have gone through the program once */
    uint64_t next_ps;  /* how much longer until they have gone through it again; 0: they do it once */
    uint64_t lead_ps;  /* until the first byte leaves the SM */
    uint64_t way_ps;   /* how long a team's bytes keep the SM's way busy in one round, or its instructions keep the
                        * schedulers busy */
    uint32_t ahead;    /* rows that a team asks for before it waits until one is used; 0: it does not wait so */
    bool cut;          /* the program has too many steps: the times are those of a part of it */
};

/* The cost of a program for `teams` teams of warps that begin together and go through it in one or two rounds.  Turns
 * of a long loop that repeat each other are added up.  each: all steps are taken, for a test that both are the same. */
enum { WARPS_ROUNDS = 2 };
struct warps_cost warps_run(const struct warps_sm *sm, const struct loop_op *op, uint32_t op_count, uint32_t team,
                            uint32_t teams, uint32_t rounds, bool each);

#endif
