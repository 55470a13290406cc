/* support_sim.c - see support_sim.h. */
#include "tests/support_sim.h"

#include "sim/units.h"

struct cluster support_cluster(uint32_t gpus_per_node)
{
    return (struct cluster){
        .name = "test",
        .path = "test",
        .gpu = { .sms = 16,
                 .launch_ps = PS_PER_US,
                 .step_ps = 10 * PS_PER_NS,
                 .poll_ps = 100 * PS_PER_NS,
                 .hbm_rate_bps = 8000000000000,
                 .store_sm_rate_bps = 80000000000,
                 .reduce_sm_rate_bps = 80000000000,
                 .scan_row_ps = PS_PER_NS,
                 .load_ps = 100 * PS_PER_NS,
                 .load_l2_ps = 100 * PS_PER_NS,
                 .cycle_ps = PS_PER_NS },
        .nvlink = { .gpus = gpus_per_node,
                    .egress_rate_bps = 800000000000,
                    .ingress_rate_bps = 800000000000,
                    .latency_ps = PS_PER_US,
                    .fence_ps = 500 * PS_PER_NS,
                    .peek_ps = 500 * PS_PER_NS },
        .nic = { .gpus_per_nic = 1,
                 .rate_bps = 80000000000,
                 .mtu_bytes = 4096,
                 .signal_bytes = 32,
                 .fetch_ps = PS_PER_US,
                 .deliver_ps = PS_PER_US,
                 .post_ps = 100 * PS_PER_NS,
                 .doorbell_ps = 100 * PS_PER_NS,
                 .proxy_threads = 1 },
        .network = { .latency_ps = PS_PER_US },
    };
}

struct one_kernel {
    struct fabric_worker ***worker;
    const uint32_t *worker_count;
};

static void one_kernel_launch(void *context, uint32_t rank, uint32_t kernel, struct fabric_worker ***worker,
                              uint32_t *worker_count)
{
    (void)kernel;
    const struct one_kernel *one = context;
    *worker = one->worker[rank];
    *worker_count = one->worker_count[rank];
}

bool world_run(struct world *w, struct fabric_worker ***worker, const uint32_t *worker_count,
               struct world_result *result, char *text, size_t text_size)
{
    struct one_kernel one = { worker, worker_count };
    const struct world_program program = {
        .kernels = 1, .launch = one_kernel_launch, .context = &one, .result = result
    };
    uint32_t kernel;
    return world_run_program(w, &program, &kernel, text, text_size);
}
