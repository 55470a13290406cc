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

/* A simulated world with the job's ranks.  A failure shows only as a failed assertion. */
void job_sim_init(struct job_sim *sim, const struct kernel_job *job, const struct cluster *cluster, bool payload,
                  bool nvlink_disabled);
void job_sim_clear(struct job_sim *sim);
/* Runs a phase; time_ps[rank] gets the rank's time. */
void job_sim_run(struct job_sim *sim, uint32_t phase);

/* Runs that many iterations in the simulated and in a live world.  Every output has the same bytes, and all checks
 * pass. */
void job_two_worlds_over(const struct kernel_job *job, uint32_t iterations, const struct live_options *options);
/* The live world is one over shared memory.  In addition, simulated times repeat and do not depend on payload. */
void job_two_worlds(const struct kernel_job *job, uint32_t iterations, bool nvlink_disabled);

/* Runs the job in the adversarial world (support_loop.h), whose order follows from the seed.  It ends, keeps the
 * contract and passes its checks, and it asks for the same operations in a world that stores no payload. */
void job_loop(const struct kernel_job *job, uint32_t iterations, uint64_t seed, bool nvlink_disabled);

#endif
