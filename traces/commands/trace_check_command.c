/* trace_check_command.c - `eptwin trace check` and `diff`: whether a trace is sound, and whether two traces are
 * equal. */
#include <math.h>
#include <stdio.h>
#include "traces/routing_statistics.h"
#include "traces/commands/trace_command.h"

static const struct command_help check_help = {
    "check",
    "FILE",
    "Reads everything: format, checksums, ranges.  Reports tokens that name an expert twice, weights that are\n"
    "negative or belong to unused entries, and steps without tokens.  Exit status: 1 something was found, 2 the\n"
    "file cannot be read.",
    "Example:\n  eptwin trace check routing.npy.zst --trace-weights weights.npy.zst@0,4,7",
};

static const struct command_help diff_help = {
    "diff",
    "FIRST SECOND",
    "Compares two traces entry by entry, in any format, and the distance of their loads (half the sum of the\n"
    "differences of shares: 0 is equal, 1 is disjoint).  Exit status 1 if any expert or weight differs.",
    "Example:\n  eptwin trace diff captured.npy.zst captured.ept",
};

/* Adds a whole trace to statistics.  *empty counts the (step, layer)s without tokens, *weighted those with weights. */
static bool check_read(struct trace *trace, struct routing_statistics *s, uint64_t *empty, uint64_t *weighted,
                       GError **error)
{
    const struct trace_info *const i = trace_info(trace);
    for (uint32_t step = 0; step < i->steps; step++) {
        for (uint32_t layer = 0; layer < i->layers; layer++) {
            g_auto(routing) routing = { 0 };
            const uint64_t before = s->tokens;
            if (!trace_read(trace, step, layer, 0, &routing, error)) return false;
            routing_statistics_add(s, &routing);
            *empty += s->tokens == before;
            *weighted += routing.rank[0].weights != NULL;
        }
    }
    return true;
}

static char *counted(uint64_t count, const char *what)
{
    return g_strdup_printf("%" G_GUINT64_FORMAT " %s%s", count, what, count == 1 ? "" : "s");
}

/* Says what was read. */
static void shape_print(const char *path, const struct trace_info *i, uint64_t tokens, uint64_t weighted)
{
    g_autofree char *steps = counted(i->steps, "step"), *layers = counted(i->layers, "layer");
    g_autofree char *experts = counted(i->experts, "expert"), *ranks = counted(i->ranks, "rank");
    g_autofree char *read = counted(tokens, i->counts ? "choice" : "token");
    g_autofree char *weights = counted(weighted, "(step, layer)");
    if (i->counts) printf("%s: %s, %s, %s, %s counted\n", path, steps, layers, experts, read);
    else
        printf("%s: %s, %s, %s, %s, top-%u, %s, %s with weights\n", path, steps, layers, ranks, experts, i->topk, read,
               weights);
}

static int check_report(const char *path, const struct trace_info *i, const struct routing_statistics *s,
                        uint64_t empty, uint64_t weighted)
{
    const struct {
        uint64_t count;
        const char *what, *how;
    } findings[] = {
        { s->repeated, "place", "with an expert that its token has already" },
        { s->bad_weights, "weight", "negative, or not 0 at an unused place" },
        { empty, "(step, layer)", "without tokens" },
    };
    int status = EXIT_OK;
    shape_print(path, i, s->tokens, weighted);
    for (size_t f = 0; f < G_N_ELEMENTS(findings); f++) {
        if (findings[f].count == 0) continue;
        g_autofree char *found = counted(findings[f].count, findings[f].what);
        printf("%s: %s %s\n", path, found, findings[f].how);
        status = EXIT_RUN_FAILED;
    }
    if (status == EXIT_OK) printf("%s: sound\n", path);
    return status;
}

int trace_command_check(int argc, char **argv)
{
    struct command_input input = { 0 };
    GOptionEntry entries[] = { COMMAND_INPUT_ENTRIES(input), G_OPTION_ENTRY_NULL };
    GError *error = NULL;
    g_autoptr(trace) trace = NULL;
    int status = EXIT_OK;
    if (command_parse(&check_help, entries, NULL, &argc, &argv, 1, 1, &error))
        trace = command_open(argv[1], &input, &error);
    if (trace) {
        const struct trace_info *const i = trace_info(trace);
        struct routing_statistics s;
        uint64_t empty = 0, weighted = 0;
        routing_statistics_init(&s, i->ranks, i->experts, i->topk, 0);
        if (check_read(trace, &s, &empty, &weighted, &error)) status = check_report(argv[1], i, &s, empty, weighted);
        routing_statistics_clear(&s);
    }
    return error ? command_refuse(&check_help, error) : status;
}

struct difference {
    uint64_t experts, weights, tokens; /* places whose expert or weight differs; ranks whose number of tokens differs */
    bool found;
    uint32_t step, layer, rank; /* where the first difference is */
    size_t place;
};

static void first_set(struct difference *d, uint32_t step, uint32_t layer, uint32_t rank, size_t place)
{
    if (!d->found) *d = (struct difference){ d->experts, d->weights, d->tokens, true, step, layer, rank, place };
}

static void block_compare(struct difference *d, uint32_t step, uint32_t layer, const struct routing *a,
                          const struct routing *b)
{
    for (uint32_t r = 0; r < a->ranks; r++) {
        const struct routing_rank *const left = &a->rank[r], *const right = &b->rank[r];
        if (left->tokens != right->tokens) {
            d->tokens++;
            first_set(d, step, layer, r, (size_t)MIN(left->tokens, right->tokens) * a->topk);
            continue;
        }
        const size_t places = (size_t)left->tokens * a->topk;
        for (size_t i = 0; i < places; i++) {
            const bool other_expert = left->experts[i] != right->experts[i];
            const bool other_weight = (left->weights != NULL) != (right->weights != NULL) ||
                                      (left->weights && left->weights[i] != right->weights[i]);
            d->experts += other_expert;
            d->weights += other_weight;
            if (other_expert || other_weight) first_set(d, step, layer, r, i);
        }
    }
}

/* How far apart two distributions are: half the sum of the absolute differences of their shares. */
static double shares_distance(const uint64_t *a, const uint64_t *b, uint64_t count)
{
    double a_sum = 0, b_sum = 0, distance = 0;
    for (uint64_t i = 0; i < count; i++) {
        a_sum += (double)a[i];
        b_sum += (double)b[i];
    }
    for (uint64_t i = 0; i < count && a_sum > 0 && b_sum > 0; i++)
        distance += fabs((double)a[i] / a_sum - (double)b[i] / b_sum);
    return distance / 2;
}

/* Prints the dimensions that differ.  Returns whether all are equal. */
static bool shapes_compare(const struct trace_info *a, const struct trace_info *b)
{
    const struct {
        const char *name;
        uint32_t first, second;
    } fields[] = {
        { "steps", a->steps, b->steps }, { "layers", a->layers, b->layers },    { "ranks", a->ranks, b->ranks },
        { "topk", a->topk, b->topk },    { "experts", a->experts, b->experts },
    };
    bool same = true;
    for (size_t f = 0; f < G_N_ELEMENTS(fields); f++) {
        if (fields[f].first == fields[f].second) continue;
        printf("%-8s %u, %u\n", fields[f].name, fields[f].first, fields[f].second);
        same = false;
    }
    return same;
}

static bool contents_compare(struct trace *traces[2], struct difference *d, GError **error)
{
    const struct trace_info *const i = trace_info(traces[0]);
    struct routing_statistics s[2];
    bool good = true;
    for (int t = 0; t < 2; t++) routing_statistics_init(&s[t], i->ranks, i->experts, i->topk, 0);
    for (uint32_t step = 0; good && step < i->steps; step++) {
        for (uint32_t layer = 0; good && layer < i->layers; layer++) {
            g_auto(routing) first = { 0 }, second = { 0 };
            good = trace_read(traces[0], step, layer, 0, &first, error) &&
                   trace_read(traces[1], step, layer, 0, &second, error);
            if (!good) break;
            block_compare(d, step, layer, &first, &second);
            routing_statistics_add(&s[0], &first);
            routing_statistics_add(&s[1], &second);
        }
    }
    if (good && d->found) {
        printf("experts that differ    %" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT "\n", d->experts, s[0].places);
        printf("weights that differ    %" G_GUINT64_FORMAT "\n", d->weights);
        printf("ranks of other size    %" G_GUINT64_FORMAT "\n", d->tokens);
        printf("first                  step %u layer %u rank %u token %zu place %zu\n", d->step, d->layer, d->rank,
               d->place / i->topk, d->place % i->topk);
        printf("distance of loads      %.4f by expert, %.4f by rank\n",
               shares_distance(s[0].expert_pairs, s[1].expert_pairs, i->experts),
               shares_distance(s[0].rank_pairs, s[1].rank_pairs, i->ranks));
    }
    routing_statistics_clear(&s[0]);
    routing_statistics_clear(&s[1]);
    return good;
}

int trace_command_diff(int argc, char **argv)
{
    struct command_input input = { 0 };
    GOptionEntry entries[] = {
        { "experts", 0, 0, G_OPTION_ARG_INT, &input.experts, "number of experts, if the files do not say", "N" },
        G_OPTION_ENTRY_NULL,
    };
    GError *error = NULL;
    struct trace *traces[2] = { NULL, NULL };
    struct difference difference = { 0 };
    int status = EXIT_OK;
    if (command_parse(&diff_help, entries, NULL, &argc, &argv, 2, 2, &error)) {
        traces[0] = command_open(argv[1], &input, &error);
        traces[1] = traces[0] ? command_open(argv[2], &input, &error) : NULL;
    }
    if (traces[1]) {
        if (!shapes_compare(trace_info(traces[0]), trace_info(traces[1]))) status = EXIT_RUN_FAILED;
        else if (contents_compare(traces, &difference, &error)) status = difference.found ? EXIT_RUN_FAILED : EXIT_OK;
        if (!error && status == EXIT_OK) printf("the same\n");
    }
    trace_close(traces[0]);
    trace_close(traces[1]);
    return error ? command_refuse(&diff_help, error) : status;
}
