/* program.c - makes a schedule from the kernels of a job, see program.h. */
#include "models/step/program.h"

#include <assert.h>
#include <string.h>
#include "sim/error.h"
#include "sim/units.h"

enum { PHASES_MAX = UINT8_MAX };

static struct schedule_phases phases_of(const struct kernel_job *job, const char *name[PHASES_MAX])
{
    struct schedule_phases phases = { .name = name, .count = kernel_phase_count(job) };
    assert(phases.count < PHASES_MAX);
    for (uint32_t p = 0; p < phases.count; p++) {
        name[p] = kernel_phase_name(job, p);
        if (!phases.combine && strstr(name[p], "combine")) phases.combine = p;
    }
    return phases;
}

bool program_runs(const char *kernel)
{
    static const char *const kernels[] = { "ll", "normal", "v2", "one-sided", "ag-rs", NULL };
    return g_strv_contains(kernels, kernel);
}

struct schedule *program_new(enum step_overlap overlap, const struct schedule_layers *layers,
                             const struct case_options *c, const struct kernel_job *job,
                             const struct kernel_job *backward, GError **error)
{
    const char *name[2][PHASES_MAX];
    struct schedule_phases phases = phases_of(job, name[0]), back;
    if (backward) back = phases_of(backward, name[1]);
    if (backward) phases.backward = &back;
    phases.hooks = c->hook;
    phases.host_waits =
        !c->cached && !c->worst_tokens && !c->hook && strcmp(c->kernel ? c->kernel : "ll", "normal") == 0;
    return schedule_new(overlap, layers, &phases, error);
}

bool program_is_receive(const struct kernel_job *job, uint32_t phase)
{
    return g_str_has_suffix(kernel_phase_name(job, phase), "_recv");
}

uint32_t program_meeting(const struct schedule *schedule, const struct kernel_job *job, uint32_t kernel)
{
    const struct schedule_kernel *k = schedule_kernel(schedule, kernel);
    if (k->op != STEP_COMM) return SCHEDULE_NONE;
    const char *name = kernel_phase_name(job, k->phase);
    if (g_str_has_suffix(name, "_send") || strcmp(name, "layout") == 0) return SCHEDULE_NONE;
    if (!program_is_receive(job, k->phase)) return kernel;
    for (uint32_t i = kernel; i-- > 0;) {
        const struct schedule_kernel *send = schedule_kernel(schedule, i);
        if (send->op == STEP_COMM && send->batch == k->batch) return i;
    }
    return SCHEDULE_NONE;
}

/* The op of timed work with this name.  STEP_COMPUTE_OPS: there is none. */
static enum step_op op_find(const char *name)
{
    static const enum step_op ops[] = { STEP_ATTENTION, STEP_PROJECT, STEP_CORE, STEP_GATE,
                                        STEP_SHARED,    STEP_EXPERTS, STEP_HEAD };
    for (size_t i = 0; i < G_N_ELEMENTS(ops); i++)
        if (strcmp(step_op_name(ops[i]), name) == 0) return ops[i];
    return STEP_COMPUTE_OPS;
}

bool program_work_parse(const char *text, struct program_work *work, GError **error)
{
    g_auto(GStrv) part = g_strsplit(text, ",", 0);
    *work = (struct program_work){ 0 };
    bool good = *part != NULL;
    for (char **p = part; good && *p; p++) {
        g_auto(GStrv) side = g_strsplit(*p, "=", 2);
        uint64_t time_ps;
        good = g_strv_length(side) == 2 && cluster_parse_time(side[1], &time_ps);
        const enum step_op op = good ? op_find(side[0]) : STEP_COMPUTE_OPS;
        good = op != STEP_COMPUTE_OPS && work->us[op] <= 0 && time_ps > 0;
        if (good) work->us[op] = units_us(time_ps);
    }
    const bool parts = work->us[STEP_PROJECT] > 0 || work->us[STEP_CORE] > 0;
    if (good && !(parts && work->us[STEP_ATTENTION] > 0)) return true;
    return error_input(error, "--work: expected " PROGRAM_WORK_GRAMMAR ", each once, found '%s'", text);
}

bool program_work_fits(const struct program_work *work, enum step_overlap overlap, GError **error)
{
    if (overlap == STEP_SHARED_ASIDE && work->us[STEP_SHARED] <= 0)
        return error_input(
            error, "--work: expected a time of shared, which --schedule shared runs during dispatch, found none");
    if (overlap != STEP_STAGES || work->us[STEP_ATTENTION] <= 0) return true;
    return error_input(
        error, "--work: expected attention's parts, project and core, which --schedule stages runs apart, found "
               "attention");
}

double program_work_us(const struct program_work *work, enum step_op op, double rows)
{
    if (op == STEP_ATTENTION) return work->us[op] + work->us[STEP_PROJECT] + work->us[STEP_CORE];
    return op == STEP_EXPERTS ? rows * work->us[op] : work->us[op];
}

struct schedule_layers program_work_layers(const struct program_work *work, uint32_t layers)
{
    return (struct schedule_layers){ .sparse = layers,
                                     .shared = work->us[STEP_SHARED] > 0,
                                     .head = work->us[STEP_HEAD] > 0 };
}

double *program_rows(const struct routing *routing, uint32_t tile)
{
    const uint32_t local = routing->experts / routing->ranks;
    double *rows = g_new0(double, routing->ranks);
    g_autofree uint32_t *of_expert = g_new0(uint32_t, routing->experts);
    for (uint32_t r = 0; r < routing->ranks; r++)
        for (size_t i = 0; i < (size_t)routing->rank[r].tokens * routing->topk; i++)
            if (routing->rank[r].experts[i] != ROUTING_NONE) of_expert[routing->rank[r].experts[i]]++;
    for (uint32_t e = 0; e < routing->experts; e++) rows[e / local] += (of_expert[e] + tile - 1) / tile * (double)tile;
    return rows;
}

double *program_tokens(const struct routing *routing)
{
    const uint32_t local = routing->experts / routing->ranks;
    double *tokens = g_new0(double, routing->ranks);
    g_autofree uint64_t *last = g_new0(uint64_t, routing->ranks); /* the number of a rank's last token, from 1 on */
    uint64_t number = 0;
    for (uint32_t r = 0; r < routing->ranks; r++)
        for (size_t i = 0; i < (size_t)routing->rank[r].tokens * routing->topk; i++) {
            number += i % routing->topk == 0;
            if (routing->rank[r].experts[i] == ROUTING_NONE) continue;
            const uint32_t to = (uint32_t)routing->rank[r].experts[i] / local;
            tokens[to] += last[to] != number;
            last[to] = number;
        }
    return tokens;
}
