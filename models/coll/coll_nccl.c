/* coll_nccl.c - all-gather, reduce-scatter and all-reduce by NCCL's rings and trees.  ag-rs runs the first two in turn.
 *
 *     heap, with payload: | own bytes | result | places by channel and link | places to send from, for NICs |
 *
 * all-gather: the rank's own block lies at its place in the result.
 *
 * Each byte is added by itself, without carries.  So the sum does not depend on the order of additions, and
 * the results of different worlds can be compared. */
#include <assert.h>
#include <stdio.h>
#include "models/coll/coll_nccl.h"

static struct nccl_rank *of(const struct coll_rank *r) { return fabric_container_of(r, struct nccl_rank, base); }

/* ---- operations ---- */

static uint32_t operations_of(const struct coll_options *o) { return o->kernel == COLL_AG_RS ? OPERATIONS : 1; }

/* Bytes of memory for a place: never more than the channels' parts can fill. */
static uint64_t place_bytes(const struct operation *op)
{
    const struct nccl_plan *p = op->plan;
    if (op->options.rows) {
        uint64_t most = 0;
        for (uint32_t i = 0; i < op->plans; i++)
            if (p[i].step_bytes > most) most = p[i].step_bytes;
        return coll_min(most, op->block_bytes);
    }
    const uint64_t hi = nccl_part_bytes(p, p->channels - 1), part = p->lo_bytes > hi ? p->lo_bytes : hi;
    const uint32_t steps = nccl_slice_steps(p);
    return coll_align(coll_min(p->step_bytes, (part + steps - 1) / steps));
}

/* Lays out the operation's memory: in the heap from heap_begin on, in the words from word_begin on. */
static void memory_lay(struct operation *op)
{
    const struct coll_options *o = &op->options;
    op->block_bytes = coll_block_bytes(o);
    op->place_bytes = place_bytes(op);
    const uint64_t rows = (uint64_t)op->plan->channels * nccl_links(op->plan);
    const uint64_t own = op->block_bytes * (o->kernel == COLL_ALLREDUCE ? 1 : o->ranks);
    const bool gather = o->kernel == COLL_ALLGATHER;
    op->result_begin = op->heap_begin + (gather ? 0 : own);
    op->places_begin = op->result_begin + (gather ? own : op->block_bytes);
    op->heap_end = op->places_begin + rows * (NCCL_STEPS + MADE_PLACES) * op->place_bytes;
    op->word_end = op->word_begin + (uint32_t)rows * WORDS_A_LINK;
}

/* Sets what the sheets are told of the operation. */
static void givens_set(struct operation *op)
{
    const struct coll_options *o = &op->options;
    uint64_t data = op->places_begin - op->heap_begin;
    for (uint32_t r = 0; r < o->ranks && o->rows; r++) data -= op->block_bytes - coll_size_of(o, r);
    for (uint32_t p = COLL_LL; p < PROTOCOLS_END; p++) {
        for (uint32_t g = 0; g < GIVENS; g++)
            op->given[p][g] = (struct site_given){ .size = { g & GIVEN_TWO ? 2 : 1, (g & GIVEN_KEPT) > 0,
                                                             (g & GIVEN_CAME) > 0, data } };
        op->given_put[p] = (struct site_given){ .size = { p == COLL_LL, p != COLL_SIMPLE, o->sockets } };
    }
    for (uint32_t i = 0; i < op->plans; i++) {
        const bool simple = op->plan[i].protocol == COLL_SIMPLE; /* it has one more warp */
        const struct site_given begin = { .size = { op->plan[i].warps + simple, simple } };
        struct site_given *function = &op->given_function[op->plan[i].protocol];
        if (begin.size[0] > function->size[0]) *function = begin;
        if (begin.size[0] > op->given_start.size[0]) op->given_start = begin;
    }
}

static uint64_t works_most(const struct coll_options *o) { return o->rows ? o->ranks + o->nccl.channels : 0; }

/* Makes the operation's plan and, in the room for them, its works. */
static void plan_make(struct operation *op, struct nccl_work *room)
{
    const struct coll_options *o = &op->options;
    op->plans = 1;
    op->work = room;
    if (!o->rows) nccl_plan_make(o, op->plan);
    else if (nccl_gathers_blocks(o)) nccl_plan_blocks(o, op->plan);
    else op->works = nccl_works_make(o, op->plan, &op->plans, room);
}

/* Makes the run's operations, one behind the other in memory.  `room` has works_most() works for each. */
static void operations_make(const struct coll_options *o, struct operation op[OPERATIONS], struct nccl_work *room)
{
    for (uint32_t i = 0; i < operations_of(o); i++) {
        op[i] = (struct operation){ .options = *o,
                                    .heap_begin = i ? op[i - 1].heap_end : 0,
                                    .word_begin = i ? op[i - 1].word_end : COLL_WORDS };
        struct coll_options *own = &op[i].options;
        if (o->kernel == COLL_AG_RS) own->kernel = i ? COLL_REDUCESCATTER : COLL_ALLGATHER;
        if (i) own->size_bytes = o->combine_bytes;
        plan_make(&op[i], room + i * works_most(o));
        memory_lay(&op[i]);
        givens_set(&op[i]);
    }
}

/* ---- a rank ---- */

static const char *nccl_refuse(const struct coll_options *o, const struct edges *edges, char *text, size_t text_size)
{
    (void)edges;
    if (!coll_block_bytes(o) || (o->kernel == COLL_AG_RS && !o->combine_bytes))
        KERNEL_REFUSE("size: expected at least 1 byte, found 0");
    return NULL;
}

/* A rank needs a QP for each channel that leaves the node by this rank, but at most eight to a peer (queue_of()). */
static void nccl_needs(const struct coll_job *job, bool payload, struct fabric_needs *needs)
{
    const struct coll_options *o = &job->options;
    const uint64_t peers = coll_min(o->ranks, o->ranks_per_node);
    struct operation op[OPERATIONS];
    const struct operation *last = &op[operations_of(o) - 1];
    uint64_t queues = 0;
    struct nccl_work *room = kernel_alloc(OPERATIONS, works_most(o) * sizeof *room);
    operations_make(o, op, room);
    free(room);
    for (uint32_t i = 0; i < operations_of(o); i++)
        if (queues < (op[i].plan->channels + peers - 1) / peers) queues = (op[i].plan->channels + peers - 1) / peers;
    needs->queue_depth = 2 * o->in_flight + 4;
    needs->queue_count = (uint16_t)coll_min(queues, 8);
    needs->word_count = last->word_end;
    needs->heap_bytes = payload ? last->heap_end : 0;
}

static void nccl_init(struct coll_rank *base)
{
    struct nccl_rank *r = of(base);
    const struct fabric *f = base->fabric;
    operations_make(base->options, r->op,
                    kernel_keep(base, OPERATIONS, works_most(base->options) * sizeof(struct nccl_work)));
    r->peers = coll_peers(f);
    r->nodes = f->rank_count / r->peers;
    for (uint32_t i = 0; i < operations_of(base->options); i++)
        r->block[i] = kernel_keep(base, r->op[i].plan->channels, BLOCKS_A_CHANNEL * sizeof r->block[i][0]);
}

static void nccl_fill(struct coll_rank *base)
{
    const struct nccl_rank *r = of(base);
    for (uint32_t n = 0; n < operations_of(base->options); n++) {
        const struct operation *op = &r->op[n];
        if (op->options.kernel == COLL_ALLGATHER) {
            coll_gather_fill(base);
            continue;
        }
        const uint32_t blocks = (uint32_t)((op->result_begin - op->heap_begin) / op->block_bytes);
        for (uint32_t i = 0; i < blocks; i++)
            coll_pattern_fill(base->fabric->heap + op->heap_begin + i * op->block_bytes, coll_size_of(&op->options, i),
                              base->fabric->rank, i, base->iteration);
    }
}

/* How many of a block's warps move bytes.  In a tree, below the root, those of a block that is `down` send down, the
 * others send up.  With LL and LL128 seven of ten warps send up.  With Simple half of the warps plus two send
 * up.  In a tree with Simple, one warp only signals: one in each direction, and one at the root. */
static uint32_t warps_of(const struct block *b)
{
    const struct nccl_plan *p = b->op->plan;
    const bool simple = p->protocol == COLL_SIMPLE;
    uint32_t most = 0;
    for (uint32_t i = 0; i < b->op->plans; i++)
        if (p[i].warps > most) most = p[i].warps;
    if (!nccl_by_tree(p)) return most;
    if (nccl_is_root(b->rank, b->number)) return p->warps - simple;
    const uint32_t up = simple ? p->warps / 2 + 2 : p->warps * 7 / 10;
    return (b->down ? p->warps - up : up) - simple;
}

static void block_launch(struct nccl_rank *r, uint32_t phase, uint32_t channel, bool down)
{
    struct block *b = &r->block[phase][BLOCKS_A_CHANNEL * channel + down];
    struct block fresh = { .rank = r, .op = &r->op[phase], .number = channel, .down = down };
    memcpy(fresh.in, b->in, sizeof fresh.in);
    memcpy(fresh.out, b->out, sizeof fresh.out);
    *b = fresh;
    nccl_order_begin(b);
    if (!b->done) nccl_block_add(b, warps_of(b));
}

static void nccl_launch(struct coll_rank *base)
{
    struct nccl_rank *r = of(base);
    const uint32_t phase = base->phase;
    const struct nccl_plan *p = r->op[phase].plan;
    base->launch.site = SITE_NCCL_KERNEL;
    for (uint32_t c = 0; c < p->channels; c++) {
        block_launch(r, phase, c, false);
        if (nccl_by_tree(p) && !nccl_is_root(r, c)) block_launch(r, phase, c, true);
    }
}

static void nccl_traffic(const struct coll_rank *base, uint32_t phase, struct kernel_traffic *traffic)
{
    const struct nccl_rank *r = of(base);
    for (uint32_t i = 0; i < BLOCKS_A_CHANNEL * r->op[phase].plan->channels; i++) {
        const struct block *b = &r->block[phase][i];
        uint64_t places;
        for (uint32_t l = 0; l < b->outs; l++) {
            const uint64_t bytes = nccl_sent(b, &places);
            if (nccl_by_nic(b, b->out[l].peer)) traffic->logical_rdma_bytes += bytes;
            else traffic->logical_nvl_bytes += bytes;
        }
    }
}

static uint32_t nccl_outputs(struct coll_rank *base, struct kernel_tensor *tensor, uint32_t max)
{
    const struct nccl_rank *r = of(base);
    uint32_t count = 0;
    for (uint32_t i = 0; i < operations_of(base->options); i++) {
        const struct operation *op = &r->op[i];
        assert(count < max);
        if (op->options.kernel == COLL_ALLGATHER) count += coll_gather_outputs(base, tensor + count, max - count);
        else
            tensor[count++] = (struct kernel_tensor){ "sum", base->fabric->heap + op->result_begin,
                                                      coll_size_of(&op->options, base->fabric->rank) };
    }
    return count;
}

/* Checks that the rank has the sum of what all ranks had for it. */
static uint32_t sum_check(const struct coll_rank *base, const struct operation *op, char *text, size_t text_size)
{
    const struct coll_options *o = &op->options;
    const uint32_t place = o->kernel == COLL_REDUCESCATTER ? base->fabric->rank : 0;
    const uint8_t *found = base->fabric->heap + op->result_begin;
    const uint64_t size = coll_size_of(o, base->fabric->rank), at = coll_sum_check(base, found, size, place);
    if (at == size) return 0;
    snprintf(text, text_size, "sum: expected that of all ranks, found other bytes from %llu on",
             (unsigned long long)at);
    return 1;
}

static uint32_t nccl_check(const struct coll_rank *base, char *text, size_t text_size)
{
    const struct nccl_rank *r = of(base);
    uint32_t failed = 0;
    for (uint32_t i = 0; i < operations_of(base->options) && !failed; i++)
        failed = r->op[i].options.kernel == COLL_ALLGATHER ? coll_gather_check(base, text, text_size)
                                                           : sum_check(base, &r->op[i], text, text_size);
    return failed;
}

#define NCCL_OPS \
    .rank_bytes = sizeof(struct nccl_rank), .refuse = nccl_refuse, .needs = nccl_needs, .init = nccl_init, \
    .fill = nccl_fill, .launch = nccl_launch, .traffic = nccl_traffic, .outputs = nccl_outputs, .check = nccl_check
#define NAMES(...) \
    (const char *const[]) { __VA_ARGS__, NULL }

const struct coll_kernel_ops coll_ring_gather = { NCCL_OPS, .phase = NAMES("allgather"),
                                                  .overlap = NAMES("allgather_overlap") };
const struct coll_kernel_ops coll_reducescatter = { NCCL_OPS, .phase = NAMES("reducescatter"),
                                                    .overlap = NAMES("reducescatter_overlap") };
const struct coll_kernel_ops coll_allreduce = { NCCL_OPS, .phase = NAMES("allreduce"),
                                                .overlap = NAMES("allreduce_overlap") };
const struct coll_kernel_ops coll_ag_rs = { NCCL_OPS, .phase = NAMES("dispatch", "combine"),
                                            .overlap = NAMES("dispatch_overlap", "combine_overlap") };
