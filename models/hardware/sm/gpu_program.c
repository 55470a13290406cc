/* gpu_program.c - the cost of rows for warps whose loop is a program (models/kernels/loops.h): the SM machine of
 * warps.h with the cluster's times and the places of the rows. */
#include "models/hardware/sm/bulk.h"
#include "models/hardware/sm/gpu.h"
#include "models/hardware/sm/warps.h"

#include <stdio.h>
#include <stdlib.h>
#include "sim/command.h"

static struct warps_sm sm_of(const struct world *w, const struct loop *p, bool to_peer)
{
    const struct cluster_gpu *gpu = &w->cluster->gpu;
    const uint64_t in_l2_ps = gpu->engine.in_l2_ps, more_ps = gpu->engine.in_ps - in_l2_ps;
    const uint64_t away_ps = p->peer && gpu_load_ps(w, p) > gpu->load_l2_ps ? gpu_load_ps(w, p) - gpu->load_l2_ps : 0;
    return (struct warps_sm){
        .cycle_ps = gpu->cycle_ps,
        .access_ps = gpu->access_ps,
        .load_ps = { [LOOP_SOURCE] = gpu_load_ps(w, p),
                     [LOOP_TARGET] = gpu->load_l2_ps,
                     [LOOP_SHARED] = gpu->load_shared_ps,
                     [LOOP_L2] = gpu->load_l2_ps },
        .in_ps = { [LOOP_SOURCE] =
                       in_l2_ps + (p->peer ? away_ps : gpu_far_ps(w, p, gpu->engine.in_ps > in_l2_ps ? more_ps : 0)),
                   [LOOP_TARGET] = in_l2_ps,
                   [LOOP_L2] = in_l2_ps },
        .stored_ps = !gpu->load_behind_stores ? 0
                     : to_peer                ? w->cluster->nvlink.peek_ps
                                              : gpu->load_l2_ps,
        .turn_ps = gpu->engine.turn_ps,
        .fence_ps = gpu->stage_ps,
        .read_ps = gpu->engine.out_ps,
        .load = w->bulk_in,
        .store = to_peer ? gpu_rate_without(w->store_sm, w->bulk_in) : w->bulk_out,
        .put = to_peer ? w->bulk_put : w->bulk_out,
        .skew = w->bulk_in,
        .in_passes = bulk_in_passes_8(w, p),
        .out_passes = bulk_out_passes_8(w, p),
    };
}

static const uint64_t mix = UINT64_C(0x9e3779b97f4a7c15);

uint64_t gpu_number(const struct cluster *c, uint64_t touched_bytes)
{
    const unsigned char *byte = (const unsigned char *)&c->gpu;
    uint64_t number = (touched_bytes * mix ^ c->nvlink.peek_ps) * mix;
    for (size_t i = 0; i < sizeof c->gpu; i++) {
        number = (number ^ byte[i]) * mix;
        number ^= number >> 32;
    }
    return number;
}

/* Questions that were asked before, with their answers.  Kernels move millions of rows, but few rows differ.  Each
 * thread keeps its own questions for all worlds, because an answer depends only on these fields. */
struct question {
    uint64_t program;   /* what tells programs and GPUs apart */
    uint64_t longer_ps; /* how much longer a load takes because others use the memory */
    struct loop_row row;
    uint32_t teams;
    uint16_t rounds; /* 0: nothing was asked yet */
    bool to_peer;
};
enum { MEMORY_BITS = 12, MEMORY = 1 << MEMORY_BITS, TRIES = 8 };
struct answer {
    struct question question;
    struct warps_cost cost;
};

static bool same(const struct question *a, const struct question *b)
{
    return a->program == b->program && a->longer_ps == b->longer_ps && a->row.bytes == b->row.bytes &&
           a->row.made == b->row.made && a->row.rows == b->row.rows && a->row.warps == b->row.warps &&
           a->teams == b->teams && a->rounds == b->rounds && a->to_peer == b->to_peer;
}

/* Finds the place of the answer.  Returns whether the answer is known.  Most questions about a site equal the last
 * one.  A question whose place is taken tries the next places.  If all TRIES places are taken, the answer at the first
 * one is given up. */
static bool answer_find(const struct question *q, uint32_t site, struct answer **answer)
{
    static _Thread_local struct answer memory[MEMORY], *latest[SITES][2];
    struct answer **const last = &latest[site][q->to_peer];
    if (*last && same(&(*last)->question, q)) {
        *answer = *last;
        return true;
    }
    const uint64_t row = q->row.bytes ^ q->row.made << 24 ^ (uint64_t)q->row.rows << 48 ^ (uint64_t)q->row.warps << 56;
    const uint64_t how = (uint64_t)q->teams << 32 ^ (uint64_t)q->rounds << 48 ^ q->to_peer ^ q->longer_ps << 1;
    const uint64_t place = ((q->program ^ row) * mix ^ how) * mix >> (64 - MEMORY_BITS);
    for (uint32_t i = 0; i < TRIES; i++) {
        *answer = *last = &memory[(place + i) & (MEMORY - 1)];
        if (same(&(*answer)->question, q)) return true;
        if (!(*answer)->question.rounds) return false;
    }
    *answer = *last = &memory[place];
    return false;
}

/* Ends the process, because the cost of a program that was cut off would be too low, and nobody would know. */
static _Noreturn void cut_end(const struct loop *p, const struct loop_row *row)
{
    fprintf(stderr, "eptwin: %s: expected a loop of fewer steps, found too many for a row of %llu bytes\n",
            loops_site_name((enum site)p->number), (unsigned long long)row->bytes);
    _Exit(EXIT_BAD_INPUT);
}

static const struct warps_cost *cost_of(const struct world *w, const struct loop *p, const struct site_given *given,
                                        struct loop_row row, uint32_t teams, bool to_peer, uint32_t rounds)
{
    const struct question q = { .program = p->digest * mix ^ w->gpu_number,
                                .longer_ps =
                                    pressure_load_ps(w->beside, &w->cluster->gpu, p->fresh, p->footprint_bytes),
                                .row = row,
                                .teams = (uint32_t)later(teams, 1),
                                .rounds = (uint16_t)rounds,
                                .to_peer = to_peer };
    struct answer *answer;
    if (answer_find(&q, p->number, &answer)) return &answer->cost;
    struct loop_op op[LOOP_OPS];
    const uint32_t count = loops_program(w->loops, (enum site)p->number, given ? given->size : NULL, &row, op);
    const struct warps_sm sm = sm_of(w, p, to_peer);
    answer->question = q;
    answer->cost = warps_run(&sm, op, count, p->team ? row.warps : 1, q.teams, rounds, false);
    if (answer->cost.cut) cut_end(p, &row);
    return &answer->cost;
}

/* The time of rows whose loop is a program.  Warps of the SM's other groups go through the program at the same time,
 * but not in step.  With such groups, every round counts as one in which warps have drifted apart.  Where the bulk
 * engine moves the rows, groups only queue at the SM's port.  In whole rounds, the last one takes as long as the warps
 * take that have a row in it. */
struct gpu_rows gpu_program(const struct world *w, const struct loop *p, const struct site_given *given,
                            struct loop_row row, struct gpu_sharing sharing, bool to_peer)
{
    const uint32_t groups_256 = sharing.groups_256;
    const uint32_t busy = p->team ? 1 : gpu_warps_busy(row.rows ? row.rows : 1, row.warps);
    const uint32_t times = p->team ? 1 : row.rows;
    const bool apart = groups_256 != GPU_WHOLE && !p->team;
    if (row.made > row.bytes && row.bytes)
        row.made = (row.made + row.bytes / 2) / row.bytes * row.bytes; /* a whole number of copies */
    const struct loop_row asked = { row.bytes, row.made, p->team ? row.rows : 1, p->team ? row.warps : 1 };
    const uint32_t teams = (uint32_t)(((uint64_t)busy * groups_256 + GPU_WHOLE / 2) / GPU_WHOLE);
    const struct warps_cost c = *cost_of(w, p, given, asked, teams, to_peer, times > busy || apart ? 2 : 1);
    const uint32_t further = times > busy ? times - busy : 0, rest = further % busy;
    uint64_t ps = apart ? c.next_ps : c.first_ps;
    if (!sharing.rounds) ps += c.next_ps * further / busy;
    else ps += further / busy * c.next_ps + (rest ? cost_of(w, p, given, asked, rest, to_peer, 2)->next_ps : 0);
    return (struct gpu_rows){ ps, c.lead_ps, times * c.way_ps, c.ahead };
}

static bool same_price(const struct price_key *a, const struct price_key *b)
{
    return a->digest == b->digest && a->read_bytes == b->read_bytes && a->write_bytes == b->write_bytes &&
           a->rows == b->rows && a->warps == b->warps && a->groups_256 == b->groups_256 && a->kind == b->kind &&
           a->rounds == b->rounds;
}

struct kept_price *gpu_price_place(struct world_rank *rank, const struct price_key *key, bool *known)
{
    const uint64_t how =
        (uint64_t)key->rows << 16 ^ (uint64_t)key->warps << 24 ^ key->groups_256 ^ key->read_bytes << 32;
    const uint64_t place = (key->digest ^ how ^ (uint64_t)key->kind << 60) * mix >> (64 - KEPT_BITS);
    struct kept_price *kept = &rank->world->kept[place];
    const bool pressed = rank->pressure.load_ps || rank->pressure.store_ps;
    *known = !pressed && same_price(&kept->key, key);
    if (*known) return kept;
    kept->key = *key;
    if (pressed) kept->key.kind = PRICE_UNKNOWN;
    return kept;
}

uint64_t gpu_program_scan_ps(struct world_rank *rank, const struct world_worker *ww, const struct loop *p,
                             const struct site_given *given, uint32_t rows, uint32_t warps)
{
    const uint32_t teams = (uint32_t)((warps * gpu_scanning_256(rank, ww) + GPU_WHOLE / 2) / GPU_WHOLE);
    const struct loop_row row = { .rows = 1, .warps = 1 };
    return rows * cost_of(rank->world, p, given, row, teams, false, 2)->next_ps;
}
