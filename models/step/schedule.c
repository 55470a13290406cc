/* schedule.c - the programs that engines run on their streams, by overlap; see schedule.h.  Their orders are those of
 * SGLang's operations strategies (python/sglang/srt/batch_overlap) and of DeepSeek's profiles. */
#include "models/step/schedule.h"
#include "sim/error.h"

#include <assert.h>
#include <string.h>

const char *step_op_name(enum step_op op)
{
    static const char *const name[STEP_OPS] = { "attention", "project", "core", "gate", "shared",
                                                "experts",   "order",   "up",   "down", "restore",
                                                "dense",     "head",    "comm" };
    return name[op];
}

const char *step_pass_suffix(enum step_pass pass)
{
    static const char *const suffix[STEP_PASSES] = { "", "_dgrad", "_wgrad" };
    return suffix[pass];
}

static const char *const overlap_names[] = { [STEP_SEQUENTIAL] = "sequential",
                                             [STEP_SHARED_ASIDE] = "shared",
                                             [STEP_TWO_BATCH] = "two-batch",
                                             [STEP_STAGES] = "stages" };

const char *step_overlap_name(enum step_overlap overlap) { return overlap_names[overlap]; }

uint32_t step_overlap_batches(enum step_overlap overlap)
{
    return overlap == STEP_TWO_BATCH || overlap == STEP_STAGES ? 2 : 1;
}

bool step_overlap_parse(const char *text, enum step_overlap *overlap)
{
    for (size_t i = 0; i < G_N_ELEMENTS(overlap_names); i++) {
        if (strcmp(text, overlap_names[i]) != 0) continue;
        *overlap = (enum step_overlap)i;
        return true;
    }
    return false;
}

struct maker {
    struct schedule *schedule;
    const struct schedule_phases *phases;
    bool shared, ordered;
    uint8_t pass;
};

/* Adds a kernel that waits for the kernels `first` and `second`, unless they are SCHEDULE_NONE.  Returns its index. */
static uint32_t add(struct maker *m, uint8_t stream, enum step_op op, uint32_t layer, uint32_t batch, uint32_t first,
                    uint32_t second)
{
    struct schedule_kernel k = {
        .stream = stream, .op = (uint8_t)op, .pass = m->pass, .batch = (uint8_t)batch, .layer = (uint16_t)layer
    };
    if (first != SCHEDULE_NONE) k.wait[k.num_waits++] = first;
    if (second != SCHEDULE_NONE) k.wait[k.num_waits++] = second;
    g_array_append_val(m->schedule->kernels, k);
    return m->schedule->kernels->len - 1;
}

/* Adds the phases [first, end) one after another.  The first of them waits for the kernel `after`.  Returns the last
 * kernel. */
static uint32_t comm(struct maker *m, uint8_t stream, uint32_t layer, uint32_t batch, uint32_t first, uint32_t end,
                     uint32_t after)
{
    uint32_t last = after;
    for (uint32_t p = first; p < end; p++) {
        last = add(m, stream, STEP_COMM, layer, batch, p == first ? after : SCHEDULE_NONE, SCHEDULE_NONE);
        struct schedule_kernel *k = &g_array_index(m->schedule->kernels, struct schedule_kernel, last);
        k->phase = (uint8_t)p;
        k->host_waits = m->phases->host_waits && m->pass == PASS_FORWARD && strcmp(m->phases->name[p], "notify") == 0;
    }
    return last;
}

static uint32_t dispatch(struct maker *m, uint8_t stream, uint32_t layer, uint32_t batch, uint32_t after)
{
    return comm(m, stream, layer, batch, 0, m->phases->combine, after);
}

static uint32_t combine(struct maker *m, uint8_t stream, uint32_t layer, uint32_t batch, uint32_t after)
{
    return comm(m, stream, layer, batch, m->phases->combine, m->phases->count, after);
}

/* Adds the experts' kernels, and returns the last of them. */
static uint32_t experts(struct maker *m, uint32_t layer, uint32_t batch, uint32_t after)
{
    if (!m->ordered) return add(m, STREAM_MAIN, STEP_EXPERTS, layer, batch, after, SCHEDULE_NONE);
    add(m, STREAM_MAIN, STEP_ORDER, layer, batch, after, SCHEDULE_NONE);
    add(m, STREAM_MAIN, STEP_UP, layer, batch, SCHEDULE_NONE, SCHEDULE_NONE);
    add(m, STREAM_MAIN, STEP_DOWN, layer, batch, SCHEDULE_NONE, SCHEDULE_NONE);
    return add(m, STREAM_MAIN, STEP_RESTORE, layer, batch, SCHEDULE_NONE, SCHEDULE_NONE);
}

static void layer_alone(struct maker *m, uint32_t layer, bool aside)
{
    const bool between = aside && m->phases->hooks, apart = aside && !between;
    uint32_t beside = SCHEDULE_NONE;
    add(m, STREAM_MAIN, STEP_ATTENTION, layer, 0, SCHEDULE_NONE, SCHEDULE_NONE);
    const uint32_t gate = add(m, STREAM_MAIN, STEP_GATE, layer, 0, SCHEDULE_NONE, SCHEDULE_NONE);
    if (m->shared && !between)
        beside = add(m, apart ? STREAM_SIDE : STREAM_MAIN, STEP_SHARED, layer, 0, gate, SCHEDULE_NONE);
    (void)comm(m, STREAM_MAIN, layer, 0, 0, between ? 1 : m->phases->combine, SCHEDULE_NONE);
    if (between) {
        if (m->shared) add(m, STREAM_MAIN, STEP_SHARED, layer, 0, SCHEDULE_NONE, SCHEDULE_NONE);
        (void)comm(m, STREAM_MAIN, layer, 0, 1, m->phases->combine, SCHEDULE_NONE);
    }
    const uint32_t last = experts(m, layer, 0, SCHEDULE_NONE);
    (void)combine(m, STREAM_MAIN, layer, 0, apart && beside != SCHEDULE_NONE ? beside : last);
}

static void layers_alone(struct maker *m, uint32_t first, uint32_t layers, bool aside)
{
    for (uint32_t l = first; l < first + layers; l++) layer_alone(m, l, aside);
}

/* Adds the kernels that follow the experts of a batch: combine, and the shared expert, which runs during combine.
 * Returns the last kernel of combine. */
static uint32_t batch_return(struct maker *m, uint32_t layer, uint32_t batch, uint32_t experts_end)
{
    if (m->shared) add(m, STREAM_MAIN, STEP_SHARED, layer, batch, SCHEDULE_NONE, SCHEDULE_NONE);
    return combine(m, STREAM_COMM, layer, batch, experts_end);
}

/* Adds layers in the order of SGLang's prefill.  Each layer has two stages, and in a stage one batch follows the
 * other.  The first stage has the kernels that follow the experts of the previous layer, then attention and the gate.
 * The second has dispatch and the experts.  So one batch computes while the other communicates.  returned[b] holds
 * the kernel that batch b waits for first, and then gets the last kernel of its last combine. */
static void layers_two_batch(struct maker *m, uint32_t first, uint32_t layers, uint32_t returned[2])
{
    uint32_t gate[2], experts_end[2];
    for (uint32_t l = first; l < first + layers; l++) {
        for (uint32_t b = 0; b < 2; b++) {
            if (l > first) returned[b] = batch_return(m, l - 1, b, experts_end[b]);
            add(m, STREAM_MAIN, STEP_ATTENTION, l, b, returned[b], SCHEDULE_NONE);
            gate[b] = add(m, STREAM_MAIN, STEP_GATE, l, b, SCHEDULE_NONE, SCHEDULE_NONE);
        }
        for (uint32_t b = 0; b < 2; b++) experts_end[b] = experts(m, l, b, dispatch(m, STREAM_COMM, l, b, gate[b]));
    }
    for (uint32_t b = 0; b < 2; b++) returned[b] = batch_return(m, first + layers - 1, b, experts_end[b]);
}

/* Adds one of DeepSeek's five stages of decode:
 *     0  all kernels before attention's core
 *     1  the core and the gate
 *     2  dispatch's send and the shared expert
 *     3  dispatch's receive, the experts and combine's send
 *     4  combine's receive
 * The second batch is two stages behind the first.  All kernels are on one stream. */
static void stage(struct maker *m, uint32_t stage, uint32_t layer, uint32_t batch)
{
    switch (stage) {
    case 0: add(m, STREAM_MAIN, STEP_PROJECT, layer, batch, SCHEDULE_NONE, SCHEDULE_NONE); break;
    case 1:
        add(m, STREAM_MAIN, STEP_CORE, layer, batch, SCHEDULE_NONE, SCHEDULE_NONE);
        add(m, STREAM_MAIN, STEP_GATE, layer, batch, SCHEDULE_NONE, SCHEDULE_NONE);
        break;
    case 2:
        comm(m, STREAM_MAIN, layer, batch, 0, 1, SCHEDULE_NONE);
        if (m->shared) add(m, STREAM_MAIN, STEP_SHARED, layer, batch, SCHEDULE_NONE, SCHEDULE_NONE);
        break;
    case 3:
        comm(m, STREAM_MAIN, layer, batch, 1, 2, SCHEDULE_NONE);
        (void)experts(m, layer, batch, SCHEDULE_NONE);
        comm(m, STREAM_MAIN, layer, batch, 2, 3, SCHEDULE_NONE);
        break;
    default: comm(m, STREAM_MAIN, layer, batch, 3, 4, SCHEDULE_NONE);
    }
}

static void layers_in_stages(struct maker *m, uint32_t first, uint32_t layers)
{
    enum { STAGES = 5, BEHIND = 2 };
    for (uint32_t s = 0; s < layers * STAGES + BEHIND; s++) {
        if (s < layers * STAGES) stage(m, s % STAGES, first + s / STAGES, 0);
        if (s >= BEHIND) stage(m, (s - BEHIND) % STAGES, first + (s - BEHIND) / STAGES, 1);
    }
}

/* ---- training ---- */

enum { FORWARD, BACKWARD }; /* the numbers of the two batches */

/* Adds the experts' kernels of a backward pass, with the second GEMM before the first.  Returns the last kernel. */
static uint32_t experts_back(struct maker *m, uint32_t layer, uint32_t after)
{
    add(m, STREAM_MAIN, STEP_ORDER, layer, BACKWARD, after, SCHEDULE_NONE);
    add(m, STREAM_MAIN, STEP_DOWN, layer, BACKWARD, SCHEDULE_NONE, SCHEDULE_NONE);
    add(m, STREAM_MAIN, STEP_UP, layer, BACKWARD, SCHEDULE_NONE, SCHEDULE_NONE);
    return add(m, STREAM_MAIN, STEP_RESTORE, layer, BACKWARD, SCHEDULE_NONE, SCHEDULE_NONE);
}

static uint32_t back(struct maker *m, enum step_pass pass, enum step_op op, uint32_t layer, uint32_t after)
{
    m->pass = (uint8_t)pass;
    const uint32_t kernel = add(m, STREAM_MAIN, op, layer, BACKWARD, after, SCHEDULE_NONE);
    m->pass = PASS_FORWARD;
    return kernel;
}

/* Adds combine (if `combines`) or dispatch of the backward pass.  Returns its last kernel. */
static uint32_t comm_back(struct maker *m, uint8_t stream, uint32_t layer, bool combines, uint32_t after)
{
    const struct schedule_phases *phases = m->phases, *b = phases->backward;
    m->phases = b;
    m->pass = PASS_DGRAD;
    const uint32_t last =
        combines ? combine(m, stream, layer, BACKWARD, after) : dispatch(m, stream, layer, BACKWARD, after);
    m->pass = PASS_FORWARD;
    m->phases = phases;
    return last;
}

/* Adds a layer of each batch, in DualPipe's order (deepseek-ai/profile-data, train.json).  Dispatch backward runs
 * during attention forward, dispatch forward during the experts' dgrad, combine backward during the experts' wgrad and
 * the experts forward, and combine forward during attention backward.  before[]: the kernel that each batch's next
 * layer waits for. */
static void layer_train(struct maker *m, uint8_t stream, uint32_t layer, uint32_t before[2])
{
    const uint32_t gradients = comm_back(m, stream, layer, false, before[BACKWARD]);
    add(m, STREAM_MAIN, STEP_ATTENTION, layer, FORWARD, before[FORWARD], SCHEDULE_NONE);
    const uint32_t gate = add(m, STREAM_MAIN, STEP_GATE, layer, FORWARD, SCHEDULE_NONE, SCHEDULE_NONE);
    if (m->shared) back(m, PASS_DGRAD, STEP_SHARED, layer, SCHEDULE_NONE);
    m->pass = PASS_DGRAD;
    const uint32_t returned = experts_back(m, layer, gradients);
    m->pass = PASS_FORWARD;
    const uint32_t arrived = dispatch(m, stream, layer, FORWARD, gate);
    const uint32_t summed = comm_back(m, stream, layer, true, returned);
    back(m, PASS_WGRAD, STEP_DOWN, layer, SCHEDULE_NONE);
    back(m, PASS_WGRAD, STEP_UP, layer, SCHEDULE_NONE);
    if (m->shared) back(m, PASS_WGRAD, STEP_SHARED, layer, SCHEDULE_NONE);
    if (m->shared) add(m, STREAM_MAIN, STEP_SHARED, layer, FORWARD, SCHEDULE_NONE, SCHEDULE_NONE);
    before[FORWARD] = combine(m, stream, layer, FORWARD, experts(m, layer, FORWARD, arrived));
    back(m, PASS_DGRAD, STEP_GATE, layer, summed);
    before[BACKWARD] = back(m, PASS_DGRAD, STEP_ATTENTION, layer, SCHEDULE_NONE);
    back(m, PASS_WGRAD, STEP_ATTENTION, layer, SCHEDULE_NONE);
}

/* Adds the layers without experts, forward and backward, then the layers with experts, then the head.  In truth the
 * backward pass comes to the layers without experts last.  Their place does not matter, because they exchange
 * nothing with other ranks. */
static void train(struct maker *m, const struct schedule_layers *layers, bool overlap)
{
    uint32_t before[2] = { SCHEDULE_NONE, SCHEDULE_NONE };
    for (uint32_t l = 0; l < layers->dense; l++) {
        add(m, STREAM_MAIN, STEP_ATTENTION, l, FORWARD, SCHEDULE_NONE, SCHEDULE_NONE);
        add(m, STREAM_MAIN, STEP_DENSE, l, FORWARD, SCHEDULE_NONE, SCHEDULE_NONE);
        for (int pass = PASS_DGRAD; pass <= PASS_WGRAD; pass++) {
            back(m, (enum step_pass)pass, STEP_DENSE, l, SCHEDULE_NONE);
            back(m, (enum step_pass)pass, STEP_ATTENTION, l, SCHEDULE_NONE);
        }
    }
    for (uint32_t l = layers->dense; l < layers->dense + layers->sparse; l++)
        layer_train(m, overlap ? STREAM_COMM : STREAM_MAIN, l, before);
    if (!layers->head) return;
    const uint32_t last = layers->dense + layers->sparse;
    add(m, STREAM_MAIN, STEP_HEAD, last, FORWARD, before[FORWARD], SCHEDULE_NONE);
    back(m, PASS_DGRAD, STEP_HEAD, last, SCHEDULE_NONE);
    back(m, PASS_WGRAD, STEP_HEAD, last, SCHEDULE_NONE);
}

static bool train_refuse(enum step_overlap overlap, GError **error)
{
    if (overlap == STEP_SEQUENTIAL || overlap == STEP_TWO_BATCH) return false;
    error_input(error, "--schedule %s: expected sequential or two-batch in training", overlap_names[overlap]);
    return true;
}

static bool phases_refuse(enum step_overlap overlap, const struct schedule_phases *phases, GError **error)
{
    const bool hooked = phases->hooks && phases->count == 4;
    if (phases->backward) return train_refuse(overlap, error);
    if (overlap == STEP_STAGES ? hooked : overlap != STEP_TWO_BATCH || !phases->hooks) return false;
    error_input(error, "--schedule %s: expected %s", overlap_names[overlap],
                overlap == STEP_STAGES ? "low-latency kernels with --hook, and no --mask-timeout"
                                       : "kernels without --hook (\"stages\" is for those with it)");
    return true;
}

struct schedule *schedule_new(enum step_overlap overlap, const struct schedule_layers *layers,
                              const struct schedule_phases *phases, GError **error)
{
    if (phases_refuse(overlap, phases, error)) return NULL;
    struct schedule *s = g_new0(struct schedule, 1);
    struct maker m = { .schedule = s, .phases = phases, .shared = layers->shared, .ordered = layers->ordered };
    uint32_t before[2] = { SCHEDULE_NONE, SCHEDULE_NONE };
    assert(phases->combine < phases->count && layers->sparse > 0);
    s->kernels = g_array_new(FALSE, TRUE, sizeof(struct schedule_kernel));
    s->batches = phases->backward ? 2 : step_overlap_batches(overlap);
    s->priority[STREAM_MAIN] = 1;
    s->priority[STREAM_SIDE] = 2;
    if (phases->backward) {
        assert(m.ordered);
        train(&m, layers, overlap == STEP_TWO_BATCH);
        return s;
    }
    for (uint32_t l = 0; l < layers->dense; l++)
        for (uint32_t b = 0; b < s->batches; b++) {
            add(&m, STREAM_MAIN, STEP_ATTENTION, l, b, SCHEDULE_NONE, SCHEDULE_NONE);
            add(&m, STREAM_MAIN, STEP_DENSE, l, b, SCHEDULE_NONE, SCHEDULE_NONE);
        }
    if (overlap == STEP_STAGES) layers_in_stages(&m, layers->dense, layers->sparse);
    else if (overlap == STEP_TWO_BATCH) layers_two_batch(&m, layers->dense, layers->sparse, before);
    else layers_alone(&m, layers->dense, layers->sparse, overlap == STEP_SHARED_ASIDE);
    for (uint32_t b = 0; layers->head && b < s->batches; b++)
        add(&m, STREAM_MAIN, STEP_HEAD, layers->dense + layers->sparse, b, before[b], SCHEDULE_NONE);
    return s;
}

void schedule_free(struct schedule *schedule)
{
    if (!schedule) return;
    g_array_free(schedule->kernels, TRUE);
    g_free(schedule);
}
