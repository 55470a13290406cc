/* support_job.h - a kernel job (models/kernel.h) run in every world, for tests of any family. */
#ifndef TESTS_SUPPORT_JOB_H
#define TESTS_SUPPORT_JOB_H

#include "models/cluster.h"
#include "models/kernel.h"
#include "replay/live.h"

struct job_sim {
    const struct kernel_job *job;
    struct world *world;
    struct kernel_rank **rank;
    uint64_t *time_ps;
};

/* Makes a simulated world with the job's ranks.  If that fails, an assertion fails. */
void job_sim_init(struct job_sim *sim, const struct kernel_job *job, const struct cluster *cluster, bool payload,
                  bool nvlink_disabled);
void job_sim_clear(struct job_sim *sim);
/* Runs a phase; time_ps[rank] gets the rank's time. */
void job_sim_run(struct job_sim *sim, uint32_t phase);

/* Runs that many iterations in the simulated and in a live world.  Asserts that every output has the same bytes in
 * both, and that all checks pass. */
void job_two_worlds_over(const struct kernel_job *job, uint32_t iterations, const struct live_options *options);
/* As job_two_worlds_over(), with a live world over shared memory.  Also asserts that simulated times repeat, and that
 * they do not depend on payload. */
void job_two_worlds(const struct kernel_job *job, uint32_t iterations, bool nvlink_disabled);

/* Runs the job in the adversarial world (support_loop.h), whose order follows from the seed.  Asserts that the job
 * ends, keeps the contract and passes its checks.  Also asserts that it asks for the same operations in a world that
 * stores no payload. */
void job_loop(const struct kernel_job *job, uint32_t iterations, uint64_t seed, bool nvlink_disabled);

#endif
