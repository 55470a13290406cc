/* test_replay_timeline.c - timelines of ranks whose clocks differ are merged into one.
 *
 * Method: ranks are threads.  Their fabric only gives the time of a clock, which is ahead by a known amount.  The
 * entries of an operation, a wait and a kernel must be in the file. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "replay/replay_timeline.h"
#include "sim/units.h"
#include "tests/support_live.h"
#include "tests/unit.h"

enum { RANKS = 3, ENTRIES = 8 };
static const uint64_t ahead_ps[RANKS] = { 5000 * PS_PER_S, 100 * PS_PER_S, 90000 * PS_PER_S };

static uint64_t true_ps(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * PS_PER_S + (uint64_t)now.tv_nsec * PS_PER_NS;
}

static uint64_t clock_now_ps(const struct fabric *f) { return true_ps() + ahead_ps[f->rank]; }

static int nothing_signalled(struct fabric *f, struct fabric_worker *w, const struct fabric_signal *signal)
{
    (void)f, (void)w;
    return signal->value == 99 ? -EAGAIN : 0; /* a refused signal, which must not become an entry */
}

static void nothing_done(struct fabric *f, struct fabric_worker *w, const struct fabric_work *work)
{
    (void)f, (void)w, (void)work;
}

static const struct fabric_ops clock_ops = { .now_ps = clock_now_ps,
                                             .signal = nothing_signalled,
                                             .work = nothing_done };

/* Replaces a word of the number-th message that rank 0 receives from rank 1. */
struct forged {
    struct bootstrap b;
    struct bootstrap *inner;
    uint32_t message, word, value;
    uint32_t heard;
};

static bool forged_allgather(struct bootstrap *b, const void *in, size_t size_bytes, void *out, GError **error)
{
    struct forged *f = (struct forged *)b; /* `b` is the first member of the struct */
    if (!bootstrap_allgather(f->inner, in, size_bytes, out, error)) return false;
    const size_t at = f->word * sizeof f->value;
    if (f->heard++ == f->message && at < size_bytes)
        memcpy((uint8_t *)out + size_bytes + at, &f->value, sizeof f->value);
    return true;
}

static const struct bootstrap_ops forged_ops = { .allgather = forged_allgather };

struct play {
    struct forged *forged; /* NULL: no message is forged */
    uint64_t base_ps;      /* when the play begins, by the true clock */
    bool one_clock;
    uint32_t works; /* number of pieces of work, which may exceed the number of entries that are kept */
    char *text;     /* the text of the file, on rank 0 */
    uint64_t lost;
};

/* Plays a rank.  Rank 1 signals rank 0, which has waited for the signal since base_ps. */
static void rank_play(struct replay_timeline *t, const struct play *p, uint32_t rank)
{
    struct fabric_worker w = { .fabric = replay_timeline_fabric(t), .index = 4 + rank };
    const uint64_t base_ps = p->base_ps + ahead_ps[rank], ms = 1000 * PS_PER_US;
    const struct waits_note wait = {
        .worker = &w, .begin_ps = base_ps, .end_ps = base_ps + 2000 * ms, .peer = 1, .text = "waits for rank 1"
    };
    struct fabric_signal signal = { .value = 1, .peer = 0 };
    replay_timeline_wait(t, &wait); /* not recorded, because recording is not on yet */
    replay_timeline_on(t, true);
    for (uint32_t i = 0; i < p->works; i++)
        fabric_work(&w, &(struct fabric_work){ .kind = FABRIC_WORK_SCAN, .read_bytes = 1000 + i });
    if (rank == 1) {
        CU_ASSERT_EQUAL(fabric_signal(&w, &signal), 0);
        signal.value = 99;
        CU_ASSERT_EQUAL(fabric_signal(&w, &signal), -EAGAIN);
    }
    if (rank == 0) replay_timeline_wait(t, &wait);
    replay_timeline_on(t, false);
    fabric_work(&w, &(struct fabric_work){ .kind = FABRIC_WORK_COPY });
    replay_timeline_phase(t, "dispatch", base_ps, base_ps + 2500 * ms);
}

static bool text_take(void *context, const void *text, size_t size_bytes)
{
    g_string_append_len(context, text, (gssize)size_bytes);
    return true;
}

static bool rank_main(struct bootstrap *b, void *context)
{
    struct play *p = context;
    uint64_t words[1] = { 0 };
    struct fabric inner = {
        .ops = &clock_ops, .words = words, .rank = (uint16_t)b->rank, .rank_count = RANKS, .ranks_per_node = RANKS
    };
    struct replay_timeline *t = replay_timeline_new(&inner, ENTRIES);
    g_autoptr(GString) text = g_string_new(NULL);
    g_autoptr(timeline) all = b->rank == 0 ? timeline_new(&(struct timeline_sink){ text_take, text }) : NULL;
    rank_play(t, p, b->rank);
    if (p->forged && b->rank == 0) {
        p->forged->b = *b;
        p->forged->b.ops = &forged_ops;
        p->forged->inner = b;
        b = &p->forged->b;
    }
    const bool fine = replay_timeline_gather(t, b, p->one_clock, all, NULL);
    if (fine && all) {
        CU_ASSERT_TRUE(timeline_end(all));
        p->text = g_strdup(text->str);
        p->lost = timeline_lost_count(all);
    }
    replay_timeline_free(t);
    return fine;
}

static void play_run(struct play *p)
{
    struct bootstrap **b = support_bootstraps_new(RANKS);
    p->base_ps = true_ps();
    CU_ASSERT_EQUAL_FATAL(support_bootstraps_run(b, RANKS, rank_main, p), 0);
    support_bootstraps_free(b, RANKS);
    CU_ASSERT_PTR_NOT_NULL_FATAL(p->text);
}

/* Returns the number behind `key` in the first line of the text that has both words.  -1: there is none. */
static double number_in(const char *text, const char *word, const char *other, const char *key)
{
    g_auto(GStrv) lines = g_strsplit(text, "\n", 0);
    for (uint32_t i = 0; lines[i]; i++) {
        const char *at = strstr(lines[i], word) && strstr(lines[i], other) ? strstr(lines[i], key) : NULL;
        if (at) return g_ascii_strtod(at + strlen(key), NULL);
    }
    return -1;
}

/* The clocks are hours apart.  Kernels that began at the same moment must begin together in the file, within the bounds
 * that the file states. */
TEST("clocks that differ")
{
    struct play p = { .works = 1 };
    play_run(&p);
    CU_ASSERT_PTR_NOT_NULL(strstr(p.text, "\"args\":{\"name\":\"rank 0\"}"));
    for (uint32_t rank = 1; rank < RANKS; rank++) {
        char pid[16], name[32];
        snprintf(pid, sizeof pid, "\"pid\":%u", rank);
        snprintf(name, sizeof name, "\"rank %u (clock within", rank);
        const double bound_us = number_in(p.text, "process_name", name, "clock within ");
        const double at_us = number_in(p.text, "\"dispatch\"", pid, "\"ts\":");
        const double zero_us = number_in(p.text, "\"dispatch\"", "\"pid\":0", "\"ts\":");
        CU_ASSERT_TRUE(bound_us > 0 && bound_us < 5e6);
        CU_ASSERT_TRUE(at_us >= 0 && fabs(at_us - zero_us) <= bound_us + 0.01);
    }
    CU_ASSERT_EQUAL(p.lost, 0);
    free(p.text);
}

/* The file must have exactly the events that happened while recording was on.  An arrow must lead from the signal to
 * the end of the wait. */
TEST("entries")
{
    struct play p = { .works = 1 };
    play_run(&p);
    CU_ASSERT_EQUAL(number_in(p.text, "\"scan\"", "\"pid\":2", "\"bytes\":"), 1000);
    CU_ASSERT_EQUAL(number_in(p.text, "\"copy\"", "", "\"ts\":"), -1);
    CU_ASSERT_TRUE(number_in(p.text, "\"wait\"", "waits for rank 1", "\"dur\":") == 2e6);
    CU_ASSERT_PTR_NOT_NULL(strstr(p.text, "worker 4, waits"));
    CU_ASSERT_EQUAL(number_in(p.text, "\"ph\":\"s\"", "\"signal\"", "\"pid\":"), 1);
    CU_ASSERT_EQUAL(number_in(p.text, "\"ph\":\"f\"", "\"signal\"", "\"pid\":"), 0);
    const char *signal = MADE(strstr(p.text, "{\"name\":\"signal\",\"ph\":\"X\""));
    CU_ASSERT_PTR_NULL(strstr(signal + 1, "{\"name\":\"signal\",\"ph\":\"X\"")); /* a refused signal is no entry */
    free(p.text);
}

/* Each rank keeps its last entries, and the file says how many it lacks. */
TEST("entries that are lost")
{
    struct play p = { .works = 20 };
    play_run(&p);
    /* Each rank has 20 pieces of work and a kernel; one rank also has a wait, another a signal. */
    CU_ASSERT_EQUAL(p.lost, (20 + 2 - ENTRIES) * 2 + (20 + 1 - ENTRIES));
    CU_ASSERT_EQUAL(number_in(p.text, "\"scan\"", "\"pid\":2", "\"bytes\":"), 1000 + 20 - (ENTRIES - 1));
    free(p.text);
}

/* Forges one word that rank 1 sends: of its counts of entries and lost entries, of an entry (such as a time, a name or
 * the index of a text), of a text, or of the clocks' messages.  The count of texts is not forged, because then all
 * ranks would exchange more blocks.  The file must still be JSON and have the entries of the honest rank 2. */
static void forge(bool one_clock, uint32_t message, uint32_t word)
{
    static const uint32_t values[] = { 0, 0x7fffffff, 0x80000000, UINT32_MAX - 1, UINT32_MAX };
    for (size_t i = 0; i < G_N_ELEMENTS(values); i++) {
        struct forged forged = { .message = message, .word = word, .value = values[i] };
        struct play p = { .forged = &forged, .works = 1, .one_clock = one_clock };
        play_run(&p);
        CU_ASSERT(forged.heard > message);
        json_t *json = json_loads(p.text, JSON_DECODE_INT_AS_REAL, NULL);
        CU_ASSERT_PTR_NOT_NULL(json);
        CU_ASSERT_EQUAL(number_in(p.text, "\"scan\"", "\"pid\":2", "\"bytes\":"), 1000);
        json_decref(json);
        free(p.text);
    }
}

TEST("a rank that says anything")
{
    enum { SHARE, ENTRY_BLOCK, TEXT_BLOCK, SHARE_WORDS = 4, ENTRY_WORDS = 40, TEXT_WORDS = 4, CLOCK_MESSAGES = 4 };
    for (uint32_t word = 0; word < SHARE_WORDS; word++) forge(true, SHARE, word);
    for (uint32_t word = 0; word < ENTRY_WORDS; word++) forge(true, ENTRY_BLOCK, word);
    for (uint32_t word = 0; word < TEXT_WORDS; word++) forge(true, TEXT_BLOCK, word);
    for (uint32_t message = 0; message < CLOCK_MESSAGES; message++)
        for (uint32_t word = 0; word < 2; word++) forge(false, message, word);
}
