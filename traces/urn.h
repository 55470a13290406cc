/* urn.h - draws distinct experts for one token after another, with or without popularity.  A limit on the groups of
 * experts that a token may use is optional, too.
 *
 * The experts of a token come in the order of their scores, best first.  No scores are drawn: urn.c explains why the
 * outcome has the same distribution.  Internal to the generators. */
#ifndef TRACES_URN_H
#define TRACES_URN_H

#include <stdbool.h>
#include <stdint.h>
#include "sim/rng.h"

/* A stream of random numbers of 32 bits. */
struct urn_stream {
    struct rng rng;
    uint64_t bits; /* if `half` is set, the unused half of the last number of 64 bits */
    bool half;
};

struct urn {
    struct urn_stream stream;
    uint32_t experts, group_size, groups_max; /* groups_max: the most groups of a token; 0: no limit */
    const double *popularity;                 /* [experts] > 0, or NULL if all are equal; borrowed */
    uint32_t *alias, *threshold;              /* [experts] alias table of the popularity, or NULL */
    uint32_t *drawn;                          /* [experts] the last token that drew the expert */
    uint32_t *kept, kept_count;               /* [groups_max] the groups that this token uses so far */
    uint32_t *group_drawn;                    /* [groups] the last token that used the group */
    uint32_t token;                           /* number of the current token, from 1 */
};

/* Initialises an urn.  There is no limit on groups if groups or groups_max is 0, or if groups_max is at least groups.
 * Otherwise the number of experts must be a multiple of groups.  Aborts if memory runs out. */
void urn_init(struct urn *urn, uint32_t experts, uint32_t groups, uint32_t groups_max, const double *popularity);
void urn_clear(struct urn *urn);

/* Restarts the stream of random numbers from `seed`. */
void urn_seed(struct urn *urn, uint64_t seed);

/* Puts all experts back: the next draw is the first of another token. */
void urn_token_next(struct urn *urn);

/* Draws the token's next expert.  A token may draw at most as many experts as groups_max groups have or, without a
 * limit on groups, as there are. */
uint32_t urn_draw(struct urn *urn);
/* Draws the token's next `count` experts.  The result is that of `count` calls of urn_draw(). */
void urn_draw_many(struct urn *urn, uint32_t count, int32_t *experts);
/* Draws one of the experts first .. first+count-1, with equal probability and without the limit on groups. */
uint32_t urn_draw_within(struct urn *urn, uint32_t first, uint32_t count);
/* Gives the token this expert, if the token may have the expert and does not have it yet. */
void urn_take(struct urn *urn, uint32_t expert);

/* A whole number, uniform in [0, limit) without bias.  A call uses half of a random number of 64 bits. */
uint32_t urn_below(struct urn *urn, uint32_t limit);
/* A real number, uniform in [0, 1). */
double urn_uniform(struct urn *urn);

#endif
