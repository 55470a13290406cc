/* urn.h - draws distinct experts for one token after another: with or without popularity, with or without a
 * limit on the expert groups a token may use.
 *
 * The experts of a token come in the order of their scores, best first.  No scores are drawn: see urn.c for
 * why the outcome has the same distribution.  Internal to the generators. */
#ifndef TRACES_URN_H
#define TRACES_URN_H

#include <stdbool.h>
#include <stdint.h>
#include "sim/rng.h"

/* Random numbers of 32 bits. */
struct urn_stream {
    struct rng rng;
    uint64_t bits; /* the unused half of the last number, while half is set */
    bool half;
};

struct urn {
    struct urn_stream stream;
    uint32_t experts, group_size, groups_max; /* groups_max 0: no limit */
    const double *popularity;                 /* [experts] > 0, or NULL: all alike.  Borrowed */
    uint32_t *alias, *threshold;              /* [experts] alias table of the popularity, or NULL */
    uint32_t *drawn;                          /* [experts] the token that drew it last */
    uint32_t *kept, kept_count;               /* [groups_max] groups of this token */
    uint32_t *group_drawn;                    /* [groups] the token that used it last */
    uint32_t token;                           /* counts tokens, from 1 */
};

/* groups and groups_max 0: no limit on groups.  Experts are a multiple of groups.  Aborts when memory runs out. */
void urn_init(struct urn *urn, uint32_t experts, uint32_t groups, uint32_t groups_max, const double *popularity);
void urn_clear(struct urn *urn);

/* Restarts the random numbers. */
void urn_seed(struct urn *urn, uint64_t seed);

/* Puts all experts back: the next draw is the first of another token. */
void urn_token_next(struct urn *urn);

/* The token's next expert.  No more than experts (of groups_max groups) may be drawn for one token. */
uint32_t urn_draw(struct urn *urn);
/* Its next count experts, as count calls of urn_draw() give them. */
void urn_draw_many(struct urn *urn, uint32_t count, int32_t *experts);
/* As urn_draw(), but only from first .. first+count-1, with equal probability and without the limit on groups. */
uint32_t urn_draw_within(struct urn *urn, uint32_t first, uint32_t count);
/* Takes this expert, if the token does not have it yet. */
void urn_take(struct urn *urn, uint32_t expert);

/* Uniform in [0, limit), unbiased, half a random number a call; and [0, 1). */
uint32_t urn_below(struct urn *urn, uint32_t limit);
double urn_uniform(struct urn *urn);

#endif
