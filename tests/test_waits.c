/* test_waits.c - for which ranks do workers wait, and how long?
 *
 * Aim: a wait lasts from a step that could not go on to the step that could.  It is charged to the rank that the
 * worker's description names.  Measuring changes nothing in the worker.  Method: scripted workers on a fabric whose
 * clock the test sets. */
#include <string.h>

#include "models/waits.h"
#include "tests/unit.h"

static uint64_t clock_ps, operations;

static uint64_t now_ps(const struct fabric *f)
{
    (void)f;
    return clock_ps;
}

static uint64_t operations_of(const struct fabric *f)
{
    (void)f;
    return operations;
}

static uint64_t wake_ps;

static void wake_at(struct fabric *f, struct fabric_worker *w, uint64_t time_ps)
{
    (void)f, (void)w;
    wake_ps = time_ps;
}

static const struct fabric_ops ops = { .now_ps = now_ps, .wake_at = wake_at };
static struct fabric fabric = { .ops = &ops, .rank_count = 8 };

/* A worker with a script.  Each step returns the next of its results, and then the worker describes itself by the next
 * of its words. */
struct scripted {
    struct fabric_worker worker;
    const enum worker_step *result;
    const char *const *words;
    uint32_t step;
};

static enum worker_step scripted_step(struct fabric_worker *w)
{
    struct scripted *s = fabric_container_of(w, struct scripted, worker);
    fabric_wake_at(w, 1000 + s->step);
    return s->result[s->step++];
}

static void scripted_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct scripted *s = fabric_container_of(w, const struct scripted, worker);
    snprintf(text, text_size, "%s", s->words[s->step - 1]);
}

static const struct worker_role scripted_role = { .step = scripted_step, .describe = scripted_describe };

static struct scripted scripted(uint32_t index, const enum worker_step *result, const char *const *words)
{
    return (struct scripted){
        { .fabric = &fabric, .role = worker_role_number(&fabric.roles, &scripted_role), .index = index },
        result,
        words,
        0
    };
}

static struct waits_note noted[8];
static char noted_text[8][WAITS_TEXT_BYTES];
static int noted_count;

static void on_note(void *context, const struct waits_note *note)
{
    (void)context;
    memcpy(noted_text[noted_count], note->text, sizeof noted_text[0]);
    noted[noted_count++] = *note;
}

static void step_at(struct fabric_worker *w, uint64_t at_ps, enum worker_step expected)
{
    clock_ps = at_ps;
    CU_ASSERT_EQUAL(fabric_worker_step(w), expected);
}

TEST("waits end where something else is waited for")
{
    static const enum worker_step result[] = { WORKER_WAIT, WORKER_WAIT, WORKER_WAIT,
                                               WORKER_MORE, WORKER_WAIT, WORKER_DONE };
    static const char *const words[] = { "waits for rank 3: 1 of 9",   "waits for rank 3: 5 of 9",
                                         "of rank 7 waits for rank 2", "",
                                         "waits for the grid",         "" };
    struct scripted s = scripted(0, result, words);
    struct fabric_worker *const inner = &s.worker;
    struct waits *waits = waits_new(&fabric, &(struct waits_options){ .note = on_note });
    struct fabric_worker **worker = waits_wrap(waits, &inner, 1);
    noted_count = 0;
    step_at(worker[0], 1000000, WORKER_WAIT);
    CU_ASSERT_EQUAL(wake_ps, 1000);
    step_at(worker[0], 2000000, WORKER_WAIT); /* still waits for rank 3; only a count in the text has changed */
    step_at(worker[0], 4000000, WORKER_WAIT); /* waits for rank 2 from here on */
    step_at(worker[0], 5000000, WORKER_MORE);
    step_at(worker[0], 6000000, WORKER_WAIT);
    step_at(worker[0], 9000000, WORKER_DONE);
    CU_ASSERT_EQUAL_FATAL(noted_count, 3);
    CU_ASSERT_TRUE(noted[0].worker == inner && noted[0].begin_ps == 1000000 && noted[0].end_ps == 4000000);
    CU_ASSERT_EQUAL(noted[0].peer, 3);
    CU_ASSERT_STRING_EQUAL(noted_text[0], "waits for rank 3");
    CU_ASSERT_TRUE(noted[1].peer == 2 && noted[1].end_ps == 5000000);
    CU_ASSERT_TRUE(noted[2].peer == WAITS_NOBODY && noted[2].begin_ps == 6000000);
    waits_end(waits);
    CU_ASSERT_DOUBLE_EQUAL(waits_us(waits, 3), 3, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(waits_us(waits, 2), 1, 1e-9);
    CU_ASSERT_EQUAL(waits_us(waits, 7), 0);
    waits_free(waits);
}

/* If two workers wait for a rank, the mean of their waits counts.  Workers that never wait for the rank do not count.
 * Polls do not end a wait, whatever other workers do at the time.  The end of the launch ends every wait. */
TEST("polls, means, ends")
{
    static const enum worker_step result[] = { WORKER_WAIT, WORKER_WAIT, WORKER_WAIT, WORKER_DONE };
    static const char *const words[] = { "waits for rank 1", "waits for rank 1", "waits for rank 1", "" };
    static const enum worker_step done[] = { WORKER_DONE };
    struct scripted s[] = { scripted(0, result, words), scripted(1, result, words), scripted(2, done, words) };
    struct fabric_worker *inner[] = { &s[0].worker, &s[1].worker, &s[2].worker };
    const struct waits_options options = { .operations = operations_of, .note = on_note };
    struct waits *waits = waits_new(&fabric, &options);
    struct fabric_worker **worker = waits_wrap(waits, inner, 3);
    noted_count = 0;
    operations = 5;
    step_at(worker[0], 1000000, WORKER_WAIT);
    step_at(worker[0], 2000000, WORKER_WAIT);
    operations = 6; /* another worker has done an operation, so this worker is asked again, and still waits for the same
                     * event */
    step_at(worker[0], 3000000, WORKER_WAIT);
    step_at(worker[0], 7000000, WORKER_DONE);
    CU_ASSERT_EQUAL(noted_count, 1);
    step_at(worker[1], 7000000, WORKER_WAIT);
    step_at(worker[2], 8000000, WORKER_DONE);
    clock_ps = 9000000;
    waits_end(waits);
    waits_end(waits);
    CU_ASSERT_DOUBLE_EQUAL(waits_us(waits, 1), (6 + 2) / 2.0, 1e-9);
    s[0].step = 3;
    worker = waits_wrap(waits, inner, 1);
    step_at(worker[0], 10000000, WORKER_DONE);
    waits_end(waits);
    CU_ASSERT_EQUAL(waits_us(waits, 1), 0); /* a launch begins without the waits of the one before */
    (void)waits_wrap(waits, inner, 0);
    waits_free(waits);
}

/* A worker begins to wait for another rank while others do operations.  It is asked again only when its wait is an
 * eighth longer than at the last question. */
TEST("a worker that turns to another rank")
{
    static const enum worker_step result[] = { WORKER_WAIT, WORKER_WAIT, WORKER_WAIT, WORKER_WAIT, WORKER_DONE };
    static const char *const words[] = { "waits for rank 1", "waits for rank 1", "waits for rank 2", "waits for rank 2",
                                         "" };
    struct scripted s = scripted(0, result, words);
    struct fabric_worker *const inner = &s.worker;
    struct waits *waits = waits_new(&fabric, &(struct waits_options){ .operations = operations_of });
    struct fabric_worker **worker = waits_wrap(waits, &inner, 1);
    operations = 0;
    step_at(worker[0], 1000000, WORKER_WAIT);
    operations = 1;
    step_at(worker[0], 9000000, WORKER_WAIT); /* the worker is asked, and will be asked again from 10000000 ps on */
    operations = 2;
    step_at(worker[0], 9500000, WORKER_WAIT); /* the worker waits for another rank, which is not noticed yet */
    operations = 3;
    step_at(worker[0], 10000000, WORKER_WAIT);
    step_at(worker[0], 15000000, WORKER_DONE);
    waits_end(waits);
    CU_ASSERT_DOUBLE_EQUAL(waits_us(waits, 1), 9, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(waits_us(waits, 2), 5, 1e-9);
    waits_free(waits);
}

TEST("whom words name")
{
    CU_ASSERT_EQUAL(waits_peer("receiver of rank 2 waits for rank 5", 8), 5);
    CU_ASSERT_EQUAL(waits_peer("no room on the queue to rank 4", 8), 4);
    CU_ASSERT_EQUAL(waits_peer("waits for rank 9", 8), WAITS_NOBODY);
    CU_ASSERT_EQUAL(waits_peer("waits for rank -1", 8), WAITS_NOBODY);
    CU_ASSERT_EQUAL(waits_peer("", 8), WAITS_NOBODY);
}
