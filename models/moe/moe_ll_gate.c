/* moe_ll_gate.c - adds workers to a low-latency kernel, has the grid barrier between sending and receiving, and reads
 * words in the host's memory. */
#include <assert.h>
#include <stdio.h>
#include "models/moe/moe_ll.h"

void ll_worker_add(struct ll_rank *r, struct fabric_worker *w, const struct worker_role *role, uint32_t sm,
                   uint32_t warps)
{
    assert(r->kernel.worker_count < ll_workers_max(&r->g));
    kernel_launch_add(&r->kernel, r->base.fabric, w, role, sm, warps);
}

static enum worker_step gate_step(struct fabric_worker *w)
{
    struct ll_rank *r = fabric_container_of(w, struct ll_gate, worker)->rank;
    if (fabric_load(w->fabric, ll_word_gate(r)) < r->gate_target) return WORKER_WAIT;
    fabric_signal_add(w, ll_word_open(r), 1, (enum site)r->dispatch->grid_open);
    return WORKER_DONE;
}

static void gate_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct ll_rank *r = fabric_container_of(w, const struct ll_gate, worker)->rank;
    snprintf(text, text_size, "grid barrier waits for %u of this rank's warp groups",
             (unsigned)(r->gate_target - fabric_load(w->fabric, ll_word_gate(r))));
}

static const struct worker_role gate_role = { .step = gate_step, .describe = gate_describe };

void ll_gate_add(struct ll_rank *r)
{
    r->gate = (struct ll_gate){ .rank = r };
    ll_worker_add(r, &r->gate.worker, &gate_role, 0, 1);
    r->open_target++;
}

void ll_gate_watch(struct ll_rank *r) { fabric_watch(&r->gate.worker, ll_word_gate(r), 1, r->gate_target); }

/* The words are of 4 bytes, in the order of moe_ll.h. */
bool ll_host_look(struct fabric_worker *w, const struct ll_rank *r, uint32_t peer, uint32_t word, bool came)
{
    if (!r->base.options->host_words) return false;
    if (!came && fabric_path(w->fabric, (uint16_t)peer) != FABRIC_RDMA) return false;
    fabric_work(w, &(struct fabric_work){ .kind = FABRIC_WORK_SCAN,
                                          .site = SITE_HOST_WORD_POLL,
                                          .argument = word * sizeof(uint32_t) / sizeof(uint64_t),
                                          .warps = 1,
                                          .rows = 1 });
    return true;
}
