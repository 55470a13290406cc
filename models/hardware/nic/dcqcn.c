/* dcqcn.c - what switches, receivers and senders do in DCQCN; see dcqcn.h. */
#include "models/hardware/nic/dcqcn.h"

#include <math.h>
#include <stdlib.h>
#include "sim/memory.h"

enum { CNPS_FIRST = 8 }; /* first size of the ring buffer of notifications; its sizes are powers of two */
#define FULL_SHARE 0.999 /* a flow with at least this share of the line's rate is not limited */

static double rate_of(uint64_t rate_bps) { return (double)rate_bps / 8e12; }

void dcqcn_init(struct dcqcn *d, const struct cluster_dcqcn *parameters, uint64_t line_bps, uint64_t seed)
{
    *d = (struct dcqcn){ .parameters = parameters, .line = rate_of(line_bps) };
    rng_seed(&d->rng, seed);
}

static void flow_free_run(struct dcqcn_flow *f, const struct dcqcn *d)
{
    f->rate = f->target = d->line;
    f->alpha = 1;
    f->slowed = f->cnp_in_period = f->cut = false;
}

void dcqcn_flow_init(struct dcqcn_flow *f, const struct dcqcn *d)
{
    *f = (struct dcqcn_flow){ 0 };
    flow_free_run(f, d);
}

void dcqcn_flow_clear(struct dcqcn_flow *f) { free(f->cnp); }

bool dcqcn_marks(struct dcqcn *d, uint64_t queue_bytes, uint32_t packets)
{
    const struct cluster_dcqcn *p = d->parameters;
    if (queue_bytes <= p->mark_from_bytes) return false;
    if (queue_bytes > p->mark_all_bytes) return true;
    const double share =
        p->mark_share * (double)(queue_bytes - p->mark_from_bytes) / (double)(p->mark_all_bytes - p->mark_from_bytes);
    return rng_uniform(&d->rng) >= pow(1 - share, packets);
}

/* ---- the receiver ---- */

static void cnp_push(struct dcqcn_flow *f, uint64_t time_ps)
{
    if (f->cnp_count == f->cnp_max) {
        const uint32_t max = f->cnp_max ? 2 * f->cnp_max : CNPS_FIRST;
        uint64_t *grown = memory_new(max, sizeof *grown);
        for (uint32_t i = 0; i < f->cnp_count; i++) grown[i] = f->cnp[(f->cnp_first + i) & (f->cnp_max - 1)];
        free(f->cnp);
        f->cnp = grown;
        f->cnp_first = 0;
        f->cnp_max = max;
    }
    f->cnp[(f->cnp_first + f->cnp_count++) & (f->cnp_max - 1)] = time_ps;
}

void dcqcn_marked(const struct dcqcn *d, struct dcqcn_flow *f, uint64_t in_ps, uint64_t back_ps)
{
    if (f->cnp_sent_ps && in_ps < f->cnp_sent_ps + d->parameters->cnp_ps) return;
    f->cnp_sent_ps = in_ps;
    cnp_push(f, in_ps + back_ps);
}

/* ---- the sender ---- */

/* Raises the rate by half of its distance to the target.  The target is raised first if the timer or the byte counter
 * has raised the rate more than `recovery` times since the last cut. */
static void rate_raise(const struct dcqcn *d, struct dcqcn_flow *f)
{
    const struct cluster_dcqcn *p = d->parameters;
    const uint32_t least = f->raises_time < f->raises_byte ? f->raises_time : f->raises_byte;
    const uint32_t most = f->raises_time < f->raises_byte ? f->raises_byte : f->raises_time;
    if (least > p->recovery) f->target += rate_of(p->hyper_bps);
    else if (most > p->recovery) f->target += rate_of(p->additive_bps);
    f->target = fmin(f->target, d->line);
    f->rate = (f->rate + f->target) / 2;
    if (f->rate >= FULL_SHARE * d->line) flow_free_run(f, d);
}

static void cnp_take(const struct dcqcn *d, struct dcqcn_flow *f, uint64_t now_ps)
{
    const struct cluster_dcqcn *p = d->parameters;
    if (!f->slowed) {
        f->alpha_ps = now_ps + p->alpha_ps;
        f->raise_ps = now_ps + p->raise_ps;
    }
    f->slowed = f->cnp_in_period = true;
    if (f->cut && now_ps < f->cut_ps + p->cut_ps) return;
    if (p->clamp_target || !f->cut || f->raises_time) f->target = f->rate;
    f->rate = fmax(f->rate * (1 - f->alpha / 2), rate_of(p->least_bps));
    f->cut = true;
    f->cut_ps = now_ps;
    f->raise_ps = now_ps + p->raise_ps;
    f->raise_bytes = f->raises_time = f->raises_byte = 0;
}

static void alpha_update(const struct dcqcn *d, struct dcqcn_flow *f)
{
    f->alpha = (1 - d->parameters->gain) * f->alpha + (f->cnp_in_period ? d->parameters->gain : 0);
    f->cnp_in_period = false;
    f->alpha_ps += d->parameters->alpha_ps;
}

static void debt_pay(struct dcqcn_flow *f, uint64_t now_ps)
{
    f->debt_bytes = fmax(f->debt_bytes - f->rate * (double)(now_ps - f->paid_ps), 0);
    f->paid_ps = now_ps;
}

/* Applies, in order, everything that has happened to the flow up to now. */
static void flow_advance(const struct dcqcn *d, struct dcqcn_flow *f, uint64_t now_ps)
{
    for (;;) {
        const uint64_t cnp_ps = f->cnp_count ? f->cnp[f->cnp_first] : UINT64_MAX;
        const uint64_t alpha_ps = f->slowed ? f->alpha_ps : UINT64_MAX;
        const uint64_t raise_ps = f->slowed ? f->raise_ps : UINT64_MAX;
        if (cnp_ps <= now_ps && cnp_ps <= alpha_ps && cnp_ps <= raise_ps) {
            f->cnp_first = (f->cnp_first + 1) & (f->cnp_max - 1);
            f->cnp_count--;
            debt_pay(f, cnp_ps);
            cnp_take(d, f, cnp_ps);
        } else if (alpha_ps <= now_ps && alpha_ps <= raise_ps) {
            alpha_update(d, f);
        } else if (raise_ps <= now_ps) {
            debt_pay(f, raise_ps);
            f->raises_time++;
            f->raise_ps += d->parameters->raise_ps;
            rate_raise(d, f);
        } else {
            return;
        }
    }
}

uint64_t dcqcn_allows_ps(const struct dcqcn *d, struct dcqcn_flow *f, uint64_t now_ps)
{
    flow_advance(d, f, now_ps);
    debt_pay(f, now_ps);
    if (!f->slowed || f->debt_bytes < 0.5) return now_ps;
    const uint64_t paid_ps = now_ps + (uint64_t)ceil(f->debt_bytes / f->rate);
    return paid_ps < f->raise_ps ? paid_ps : f->raise_ps;
}

void dcqcn_sent(const struct dcqcn *d, struct dcqcn_flow *f, uint64_t now_ps, uint64_t size_bytes)
{
    debt_pay(f, now_ps);
    f->debt_bytes += (double)size_bytes;
    if (!f->slowed) return;
    f->raise_bytes += size_bytes;
    while (f->slowed && f->raise_bytes >= d->parameters->raise_bytes) {
        f->raise_bytes -= d->parameters->raise_bytes;
        f->raises_byte++;
        rate_raise(d, f);
    }
}
