/* on_cores.h - runs jobs on the cores of this process.
 *
 * All code that simulates several cases at a time uses on_cores_run(), except validate_run.c.  validate_run.c has
 * processes in place of threads: a simulation that ends its process then spoils only its own rows.  Knows no case and
 * no world. */
#ifndef MODELS_PREDICT_ON_CORES_H
#define MODELS_PREDICT_ON_CORES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct on_cores {
    const char *label; /* of the progress bar; NULL: no bar */
    uint32_t jobs, cores;
    /* Runs a job, by its number.  Jobs begin in the order of their numbers, each as soon as a core is free.  After a
     * job that returns false no other job begins.  memory belongs to the thread, and stays from job to job. */
    bool (*run)(void *context, uint32_t job, void *memory);
    void *context;
    size_t memory_bytes;         /* a thread's memory, zeroed before its first job */
    void (*clear)(void *memory); /* frees what a thread's memory holds, after its last job; NULL: nothing */
};

/* Runs the jobs, and returns when all that began have ended. */
void on_cores_run(const struct on_cores *work);

#endif
