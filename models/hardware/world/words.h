/* words.h - the signal words of a rank: watches, letters and counters.  Private to models/hardware.
 *
 * A worker declares which words it watches before its launch.  A value comes to a word in one of three ways.  An event
 * can bring it.  In a world of one NVLink domain, a letter can bring it to each worker that watches.  Where one worker
 * watches a counter, that worker can make the sum itself.  The worker sees the value at the same time in all three
 * ways. */
#ifndef MODELS_HARDWARE_WORDS_H
#define MODELS_HARDWARE_WORDS_H

#include <stdbool.h>
#include <stdint.h>
#include "models/fabric.h"
#include "sim/sim.h"

struct world_rank;
struct world_worker;

/* A value on its way to a word.  The changes that one event sends for one time form a train, if the event schedules
 * nothing else between them.  A train is one event, that of its first change, and brings its changes in the order in
 * which they were sent. */
struct change {
    struct change *next; /* of its train */
    struct sim_event event;
    uint64_t value;
    uint32_t word;
    uint16_t target; /* rank */
    bool add;
};
/* The newest train.  It takes further changes while both counts of the engine are as they were when it began. */
struct change_train {
    struct change *last;
    uint64_t time_ps;
    uint64_t event; /* sim_event_count() */
    uint64_t mark;  /* sim_scheduled() */
};

/* A value on its way to a word, for one worker that watches the word. */
struct letter {
    struct letter *next, *previous;
    uint64_t time_ps; /* when it arrives */
    uint64_t value;
    uint32_t word;
    bool add;
};

/* Workers with consecutive numbers that watch a word.  A lone worker needs no struct watch.  If it waits for no
 * particular value, the word's head is WATCH_LONE + its number.  Otherwise the head is WATCH_COUNTER + its place
 * among the rank's struct counter. */
struct watch {
    uint32_t worker, count; /* the first worker, and how many there are */
    uint32_t next;          /* 1 + the place of the word's next watch; 0: none */
    uint64_t least;         /* the value that they wait for; 0: any */
};
struct counter {
    uint64_t held_ps; /* when all additions so far are done */
    uint32_t word, worker, least;
    uint32_t due; /* what the worker has to add to the word when it reads it at held_ps or later; 0: nothing */
};
enum { WATCH_LONE = 1u << 31, WATCH_COUNTER = 1u << 30, WATCH_NUMBER = WATCH_COUNTER - 1 };

/* Raises a rank's word, or adds to it, and wakes its watchers. */
void world_word_deliver(struct world_rank *rank, uint32_t word, uint64_t value, bool add);
/* Whether an addition at *time_ps needs no event, because the one worker that watches the counter waits for a larger
 * sum.  If the sum is large enough, returns false and sets *time_ps to when the last addition so far is done. */
bool world_counter_hold(struct world_rank *rank, uint32_t word, uint64_t value, uint64_t *time_ps);
/* Tells the workers of a launch which counters are theirs. */
void world_counters_launch(struct world_rank *rank);
/* Forgets all watches of a launch. */
void world_watches_clear(struct world_rank *rank);
void world_watch(struct fabric *f, struct fabric_worker *w, uint32_t word, uint32_t word_count, uint64_t least);
/* Prefetches what world_word_deliver() reads first (far), and then the workers that it wakes (near). */
void world_word_look_far(const struct world_rank *rank, uint32_t word);
void world_word_look_near(const struct world_rank *rank, uint32_t word);
/* Both deliver a value to a word at time_ps: world_word_event() by an event, world_word_schedule() without one if
 * possible. */
void world_word_event(struct world_rank *target, uint32_t word, uint64_t value, bool add, uint64_t time_ps);
void world_word_schedule(struct world_rank *target, uint32_t word, uint64_t value, bool add, uint64_t time_ps);
/* Makes the worker read the letters that have arrived by now_ps. */
void world_mail_read(struct world_worker *ww, uint64_t now_ps);
/* Reads, when a step begins, the letters and the counter's sum that have come to the worker by now_ps. */
void words_read(struct world_worker *ww, uint64_t now_ps);
/* Schedules the next step of a worker that waits, for when the next letter or the counter's sum comes. */
void words_wait(struct world_worker *ww);
/* Runs an event that changes words. */
sim_handler words_change_run;
/* Both prefetch what an event that changes a word will read.  They ignore other events. */
void words_look_far(const struct sim *sim, const struct sim_event *event);
void words_look_near(const struct sim *sim, const struct sim_event *event);

#endif
