/* urn.c - draws distinct experts in the order of scores, without drawing the scores.
 *
 * Why this is exact.  The experts' scores |N(0,1)|+1 are independent and identically distributed.  So their descending
 * order is a uniformly random permutation of the experts, and top-k is its first k.  Drawing one expert after another,
 * uniformly out of those not drawn yet, gives such a permutation.
 *
 * Group-limited top-k keeps the topk_groups groups with the best maxima, and takes the best k of their experts.  Along
 * the permutation, groups first appear in the order of their maxima.  So the kept groups are the first topk_groups
 * distinct groups.  The result is the first k experts of the permutation without experts of other groups.  Once all
 * kept groups are known, the experts not yet drawn of these groups follow in a uniformly random order.  So only these
 * need to be drawn from.
 *
 * With popularity p, the scores are log p + Gumbel noise.  Their order has the distribution of draws without
 * replacement, with probabilities proportional to p among the remaining experts.  Drawing with replacement and
 * rejecting repeats gives the same distribution.  After RETRIES_MAX rejections, the draw weighs each remaining expert
 * instead. */
#include "traces/urn.h"
#include "sim/memory.h"

#include <assert.h>
#include <glib.h>

enum { RETRIES_MAX = 64 };

/* Builds Walker's alias table.  A draw of column i gives i with probability threshold[i] / 2^32, else alias[i]. */
static void urn_alias_build(struct urn *urn)
{
    const uint32_t n = urn->experts;
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) sum += urn->popularity[i];
    g_autofree double *scaled = g_new(double, n);
    g_autofree uint32_t *small = g_new(uint32_t, n);
    g_autofree uint32_t *large = g_new(uint32_t, n);
    uint32_t small_count = 0, large_count = 0;
    for (uint32_t i = 0; i < n; i++) {
        scaled[i] = urn->popularity[i] * n / sum;
        urn->alias[i] = i;
        urn->threshold[i] = UINT32_MAX;
        if (scaled[i] < 1) small[small_count++] = i;
        else large[large_count++] = i;
    }
    while (small_count && large_count) {
        const uint32_t s = small[--small_count], l = large[large_count - 1];
        urn->threshold[s] = (uint32_t)(scaled[s] * UINT32_MAX);
        urn->alias[s] = l;
        scaled[l] -= 1 - scaled[s];
        if (scaled[l] < 1) {
            large_count--;
            small[small_count++] = l;
        }
    }
}

void urn_init(struct urn *urn, uint32_t experts, uint32_t groups, uint32_t groups_max, const double *popularity)
{
    const bool limited = groups && groups_max && groups_max < groups;
    assert(experts > 0 && (!limited || experts % groups == 0));
    *urn = (struct urn){ .experts = experts, .popularity = popularity };
    urn->drawn = g_new0(uint32_t, experts);
    if (limited) {
        urn->group_size = experts / groups;
        urn->groups_max = groups_max;
        urn->kept = g_new0(uint32_t, groups_max);
        urn->group_drawn = g_new0(uint32_t, groups);
    }
    if (popularity) {
        urn->alias = g_new(uint32_t, experts);
        urn->threshold = g_new(uint32_t, experts);
        urn_alias_build(urn);
    }
}

void urn_clear(struct urn *urn)
{
    FREE_ALL(urn->threshold, urn->alias, urn->group_drawn, urn->kept, urn->drawn);
    *urn = (struct urn){ 0 };
}

void urn_seed(struct urn *urn, uint64_t seed)
{
    rng_seed(&urn->stream.rng, seed);
    urn->stream.half = false;
}

void urn_token_next(struct urn *urn)
{
    urn->token++;
    urn->kept_count = 0;
}

static inline uint32_t stream_bits(struct urn_stream *stream)
{
    if (stream->half) {
        stream->half = false;
        return (uint32_t)(stream->bits >> 32);
    }
    stream->bits = rng_next(&stream->rng);
    stream->half = true;
    return (uint32_t)stream->bits;
}

/* A random number in [0, limit), by Lemire's multiplication.  Rejects the few values that would make the draw
 * uneven. */
static inline uint32_t stream_limit(struct urn_stream *stream, uint32_t limit)
{
    uint64_t product = (uint64_t)stream_bits(stream) * limit;
    if ((uint32_t)product < limit) {
        const uint32_t uneven = -limit % limit;
        while ((uint32_t)product < uneven) product = (uint64_t)stream_bits(stream) * limit;
    }
    return (uint32_t)(product >> 32);
}

uint32_t urn_below(struct urn *urn, uint32_t limit)
{
    assert(limit > 0);
    return stream_limit(&urn->stream, limit);
}

double urn_uniform(struct urn *urn) { return rng_uniform(&urn->stream.rng); }

/* Returns whether the token may have this expert.  If so, marks the expert and its group. */
static inline bool urn_accept(struct urn *urn, uint32_t expert)
{
    if (urn->drawn[expert] == urn->token) return false;
    if (urn->groups_max) {
        const uint32_t group = expert / urn->group_size;
        if (urn->group_drawn[group] != urn->token) {
            if (urn->kept_count == urn->groups_max) return false;
            urn->group_drawn[group] = urn->token;
            urn->kept[urn->kept_count++] = group;
        }
    }
    urn->drawn[expert] = urn->token;
    return true;
}

static inline uint32_t urn_candidate(struct urn *urn)
{
    if (urn->popularity) {
        const uint32_t column = stream_limit(&urn->stream, urn->experts);
        return stream_bits(&urn->stream) <= urn->threshold[column] ? column : urn->alias[column];
    }
    if (urn->groups_max && urn->kept_count == urn->groups_max) {
        const uint32_t place = stream_limit(&urn->stream, urn->groups_max * urn->group_size);
        return urn->kept[place / urn->group_size] * urn->group_size + place % urn->group_size;
    }
    return stream_limit(&urn->stream, urn->experts);
}

static bool urn_allowed(const struct urn *urn, uint32_t expert)
{
    return urn->drawn[expert] != urn->token && (!urn->groups_max || urn->kept_count < urn->groups_max ||
                                                urn->group_drawn[expert / urn->group_size] == urn->token);
}

/* Draws one of the experts that may still be drawn, with a probability in proportion to its popularity. */
static uint32_t urn_draw_weighed(struct urn *urn)
{
    double sum = 0;
    for (uint32_t e = 0; e < urn->experts; e++)
        if (urn_allowed(urn, e)) sum += urn->popularity ? urn->popularity[e] : 1;
    double at = urn_uniform(urn) * sum;
    uint32_t last = urn->experts;
    for (uint32_t e = 0; e < urn->experts; e++) {
        if (!urn_allowed(urn, e)) continue;
        last = e;
        at -= urn->popularity ? urn->popularity[e] : 1;
        if (at < 0) break;
    }
    assert(last < urn->experts); /* more experts are asked for than there are */
    urn_take(urn, last);
    return last;
}

uint32_t urn_draw(struct urn *urn)
{
    for (int i = 0; i < RETRIES_MAX; i++) {
        const uint32_t expert = urn_candidate(urn);
        if (urn_accept(urn, expert)) return expert;
    }
    return urn_draw_weighed(urn);
}

/* Draws `count` experts, all with equal probability and without a limit on groups.  It uses a local copy of the stream,
 * which stays in registers. */
static void urn_draw_plain(struct urn *urn, uint32_t count, int32_t *experts)
{
    const uint32_t limit = urn->experts, token = urn->token;
    uint32_t *const drawn = urn->drawn;
    struct urn_stream stream = urn->stream;
    for (uint32_t k = 0; k < count; k++) {
        uint32_t expert = stream_limit(&stream, limit);
        int tries = 1;
        for (; drawn[expert] == token && tries < RETRIES_MAX; tries++) expert = stream_limit(&stream, limit);
        if (drawn[expert] == token) {
            urn->stream = stream;
            expert = urn_draw_weighed(urn);
            stream = urn->stream;
        }
        drawn[expert] = token;
        experts[k] = (int32_t)expert;
    }
    urn->stream = stream;
}

void urn_draw_many(struct urn *urn, uint32_t count, int32_t *experts)
{
    if (!urn->popularity && !urn->groups_max) {
        urn_draw_plain(urn, count, experts);
        return;
    }
    for (uint32_t k = 0; k < count; k++) experts[k] = (int32_t)urn_draw(urn);
}

uint32_t urn_draw_within(struct urn *urn, uint32_t first, uint32_t count)
{
    for (int i = 0; i < RETRIES_MAX; i++) {
        const uint32_t expert = first + stream_limit(&urn->stream, count);
        if (urn->drawn[expert] != urn->token) {
            urn->drawn[expert] = urn->token;
            return expert;
        }
    }
    uint32_t left = 0;
    for (uint32_t e = first; e < first + count; e++) left += urn->drawn[e] != urn->token;
    assert(left > 0);
    uint32_t skip = stream_limit(&urn->stream, left), expert = first;
    while (urn->drawn[expert] == urn->token || skip-- > 0) expert++;
    urn->drawn[expert] = urn->token;
    return expert;
}

void urn_take(struct urn *urn, uint32_t expert)
{
    const bool taken = urn_accept(urn, expert);
    (void)taken;
}
