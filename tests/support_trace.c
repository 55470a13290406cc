/* support_trace.c - see support_trace.h. */
#include "tests/support_trace.h"

#include <assert.h>
#include <glib/gstdio.h>
#include <stdio.h>
#include <string.h>
#include "sim/rng.h"

static char *folder;

/* Draws an expert that differs from the first `count` of `before`. */
static int32_t expert_draw(struct rng *rng, uint32_t experts, const int32_t *before, uint32_t count)
{
    assert(count < experts);
    for (;;) {
        const int32_t expert = (int32_t)rng_below(rng, experts);
        uint32_t k = 0;
        while (k < count && before[k] != expert) k++;
        if (k == count) return expert;
    }
}

void sample_make(struct sample *sample, const struct sample_options *o)
{
    struct rng rng = rng_seeded(o->seed);
    sample->info = (struct trace_info){ .steps = o->steps,
                                        .layers = o->layers,
                                        .ranks = o->ranks,
                                        .topk = o->topk,
                                        .experts = o->experts,
                                        .weights = o->weights,
                                        .format = "sample",
                                        .model = "tiny, 2 layers",
                                        .provenance = "drawn for a test" };
    sample->blocks = g_new0(struct routing, o->steps * o->layers);
    g_autofree uint32_t *tokens = g_new(uint32_t, o->ranks);
    for (uint32_t b = 0; b < o->steps * o->layers; b++) {
        struct routing *const routing = &sample->blocks[b];
        for (uint32_t r = 0; r < o->ranks; r++) {
            tokens[r] = o->ragged ? (uint32_t)rng_below(&rng, o->tokens + 1) : o->tokens;
            sample->info.tokens_max = MAX(sample->info.tokens_max, tokens[r]);
        }
        routing_alloc(routing, o->ranks, o->topk, o->experts, tokens, o->weights);
        for (uint32_t r = 0; r < o->ranks; r++) {
            for (size_t i = 0; i < (size_t)tokens[r] * o->topk; i++) {
                const uint32_t place = (uint32_t)(i % o->topk);
                int32_t *const expert = &routing->rank[r].experts[i];
                if (!o->none || rng_below(&rng, 4)) *expert = expert_draw(&rng, o->experts, expert - place, place);
                if (o->weights) routing->rank[r].weights[i] = (float)rng_uniform(&rng);
            }
        }
    }
}

void sample_clear(struct sample *sample)
{
    for (uint32_t b = 0; b < sample->info.steps * sample->info.layers; b++) routing_free(&sample->blocks[b]);
    g_free(sample->blocks);
    *sample = (struct sample){ 0 };
}

bool sample_produce(void *context, uint32_t step, uint32_t layer, struct routing *out, GError **error)
{
    const struct sample *const sample = context;
    const struct routing *const from = &sample->blocks[step * sample->info.layers + layer];
    g_autofree uint32_t *tokens = g_new(uint32_t, from->ranks);
    (void)error;
    for (uint32_t r = 0; r < from->ranks; r++) tokens[r] = from->rank[r].tokens;
    routing_alloc(out, from->ranks, from->topk, from->experts, tokens, from->rank[0].weights != NULL);
    for (uint32_t r = 0; r < from->ranks; r++) {
        const size_t places = (size_t)tokens[r] * from->topk;
        memcpy(out->rank[r].experts, from->rank[r].experts, places * sizeof(int32_t));
        if (from->rank[r].weights) memcpy(out->rank[r].weights, from->rank[r].weights, places * sizeof(float));
    }
    return true;
}

bool routings_same(const struct routing *a, const struct routing *b)
{
    bool same = a->ranks == b->ranks && a->topk == b->topk && a->experts == b->experts;
    for (uint32_t r = 0; same && r < a->ranks; r++) {
        const struct routing_rank *const left = &a->rank[r], *const right = &b->rank[r];
        const size_t places = (size_t)left->tokens * a->topk;
        same = left->tokens == right->tokens && (left->weights != NULL) == (right->weights != NULL) &&
               memcmp(left->experts, right->experts, places * sizeof(int32_t)) == 0 &&
               (!left->weights || memcmp(left->weights, right->weights, places * sizeof(float)) == 0);
    }
    return same;
}

const char *temporary_path(const char *name)
{
    static char paths[4][512];
    static unsigned turn;
    if (!folder) folder = g_dir_make_tmp("eptwin-test-XXXXXX", NULL);
    assert(folder);
    char *const path = paths[turn++ % 4];
    g_snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

void temporary_clear(void)
{
    GDir *const dir = folder ? g_dir_open(folder, 0, NULL) : NULL;
    for (const char *name; dir && (name = g_dir_read_name(dir)) != NULL;) {
        g_autofree char *path = g_build_filename(folder, name, NULL);
        (void)g_unlink(path);
    }
    if (dir) g_dir_close(dir);
    if (folder) (void)g_rmdir(folder);
    g_clear_pointer(&folder, g_free);
}

/* Writes a file without g_file_set_contents(), whose fsync would slow down tests that write thousands of files.  The
 * old file is removed first, because some file systems flush a file that is truncated and rewritten. */
void temporary_write(const char *path, const void *data, size_t size)
{
    (void)remove(path);
    FILE *const file = fopen(path, "w");
    assert(file);
    const size_t written = fwrite(data, 1, size, file);
    const bool closed = fclose(file) == 0;
    assert(written == size && closed);
    (void)written;
    (void)closed;
}

const char *temporary_text(const char *name, const char *text)
{
    const char *path = temporary_path(name);
    temporary_write(path, text, strlen(text));
    return path;
}

GError *trace_read_all(const char *path, const struct trace_options *options)
{
    GError *error = NULL;
    g_autoptr(trace) trace = trace_open(path, options, &error);
    if (!trace) return error;
    const struct trace_info *const info = trace_info(trace);
    for (uint32_t s = 0; !error && s < info->steps; s++) {
        for (uint32_t l = 0; !error && l < info->layers; l++) {
            struct routing routing;
            if (trace_read(trace, s, l, 0, &routing, &error)) routing_free(&routing);
        }
    }
    return error;
}
