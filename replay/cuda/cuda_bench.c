/* cuda_bench.c - opens GPUs and fills their memory, has the driver compile kernels, launches kernels together, and
 * reads their results. */
#include "replay/cuda/cuda_bench.h"

#include <string.h>
#include "replay/cuda/cuda_ptx.h"

_Static_assert(sizeof(struct cuda_args) == ARG_BYTES, "as the PTX has it");

/* The PTX reads ARG_SOURCE_MASK, a + 60, as an offset from its parameter `a`.  C reads the same macro as the number
 * 60, because `a` is 0 here. */
enum { a = 0 };
_Static_assert((ARG_OUT) == offsetof(struct cuda_args, out), "as the PTX has it");
_Static_assert((ARG_CYCLES) == offsetof(struct cuda_args, cycles), "as the PTX has it");
_Static_assert((ARG_GO_COUNT) == offsetof(struct cuda_args, go_count), "as the PTX has it");
_Static_assert((ARG_TARGET_COUNT) == offsetof(struct cuda_args, target_count), "as the PTX has it");
_Static_assert((ARG_FLAGS) == offsetof(struct cuda_args, flags), "as the PTX has it");
_Static_assert((ARG_INDEX) == offsetof(struct cuda_args, index), "as the PTX has it");

enum {
    RESULTS_BYTES = 1 << 20,
    TABLE_BYTES = CUDA_TARGETS_MOST * 8,
    FILL_BYTES = 16 << 20,
    DELAY_US = 100,
    SOURCE_SLACK_BYTES = 512, /* room behind the last row, because lanes beyond a row's end load, too */
    HOST_MAPPED = 2
};

/* ---- GPUs ---- */

static bool module_load(struct cuda_bench *b, const char *text, cuda_module *module, GError **error)
{
    static char errors[4096];
    int option[] = { CUDA_JIT_ERRORS, CUDA_JIT_ERRORS_BYTES };
    void *value[] = { errors, (void *)(uintptr_t)sizeof errors };
    errors[0] = '\0';
    const cuda_result result = b->driver.module_load(module, text, G_N_ELEMENTS(option), option, value);
    if (result == 0 || !errors[0]) return cuda_driver_check(&b->driver, result, "module_load", error);
    g_strdelimit(errors, "\n", ' ');
    return error_run(error, "cuda: the driver compiles no kernels: %s", errors);
}

/* Fills the source area with numbers between 0.5 and 2 of random sign, because zeros move faster than real data. */
static bool source_fill(struct cuda_bench *b, const struct cuda_gpu *g, GError **error)
{
    g_autofree uint16_t *numbers = g_malloc(FILL_BYTES);
    struct rng rng = rng_seeded(1);
    for (uint32_t i = 0; i < FILL_BYTES / 2; i++) {
        const uint64_t draw = rng_next(&rng);
        numbers[i] = (uint16_t)(0x3f00 + (draw & 0xff) + (draw >> 63 << 15));
    }
    bool fine = CALL(upload, g->source, numbers, FILL_BYTES);
    for (uint64_t at = FILL_BYTES; fine && at < CUDA_SOURCE_BYTES; at *= 2)
        fine = CALL(copy, g->source + at, g->source, at);
    return fine;
}

static bool gpu_memory(struct cuda_bench *b, struct cuda_gpu *g, GError **error)
{
    return CALL(alloc, &g->source, CUDA_SOURCE_BYTES + SOURCE_SLACK_BYTES) &&
           CALL(alloc, &g->target, CUDA_TARGET_BYTES * b->gpu_count) && CALL(alloc, &g->zeros, CUDA_ZEROS_BYTES) &&
           CALL(alloc, &g->words, CUDA_WORDS_BYTES) && CALL(alloc, &g->table, 2 * TABLE_BYTES) &&
           CALL(alloc, &g->results, 2 * RESULTS_BYTES) && CALL(host_alloc, &g->host, 4096, HOST_MAPPED) &&
           CALL(host_address, &g->host_words, g->host, 0) && CALL(set, g->zeros, 0, CUDA_ZEROS_BYTES) &&
           CALL(set, g->words, 0, CUDA_WORDS_BYTES) && CALL(set, g->target, 0, CUDA_TARGET_BYTES * b->gpu_count) &&
           source_fill(b, g, error);
}

static bool gpu_open(struct cuda_bench *b, uint32_t index, GError **error)
{
    struct cuda_gpu *g = &b->gpu[index];
    const char *const text[] = { cuda_ptx_copies, cuda_ptx_latencies, cuda_ptx_works };
    int major = 0, sms = 0, shared = 0, l2 = 0;
    if (!CALL(device, &g->device, (int)index) || !CALL(name, g->name, sizeof g->name, g->device) ||
        !CALL(attribute, &major, CUDA_CAPABILITY_MAJOR, g->device) || !CALL(attribute, &sms, CUDA_SMS, g->device) ||
        !CALL(attribute, &shared, CUDA_SHARED_MOST, g->device) || !CALL(attribute, &l2, CUDA_L2_BYTES, g->device))
        return false;
    if (major < 9)
        return error_run(error, "--fabric cuda: GPU %u: expected compute capability 9.0 or later, found %s with %d",
                         index, g->name, major);
    g->functions = g_hash_table_new(g_str_hash, g_str_equal);
    b->sms = (uint32_t)sms;
    b->shared_most = (uint32_t)shared;
    b->l2_bytes = (uint32_t)l2;
    if (!CALL(context_retain, &g->context, g->device) || !CALL(context_set, g->context)) return false;
    for (uint32_t i = 0; i < G_N_ELEMENTS(text); i++)
        if (!module_load(b, text[i], &g->module[i], error)) return false;
    for (uint32_t i = 0; i < 2; i++)
        if (!CALL(stream_create, &g->stream[i], 0) || !CALL(event_create, &g->event[i], 0)) return false;
    return gpu_memory(b, g, error);
}

static bool peers_enable(struct cuda_bench *b, GError **error)
{
    for (uint32_t i = 0; i < b->gpu_count; i++)
        for (uint32_t k = 0; k < b->gpu_count; k++) {
            int can = 0;
            if (i == k) continue;
            if (!CALL(can_access_peer, &can, b->gpu[i].device, b->gpu[k].device)) return false;
            if (!can)
                return error_run(error,
                                 "--fabric cuda: expected GPUs that reach each other's memory, found that %u cannot "
                                 "reach %u (--ranks 1 measures one)",
                                 i, k);
            if (!CALL(context_set, b->gpu[i].context) || !CALL(peer_enable, b->gpu[k].context, 0)) return false;
        }
    return true;
}

static bool clock_measure(struct cuda_bench *b, GError **error)
{
    struct cuda_run run = { .kernel = "spin", .blocks = 1, .threads = 32, .args = { .cycles = 20000000 } };
    struct cuda_outcome o;
    for (uint32_t i = 0; i < 3; i++)
        if (!cuda_bench_run(b, &run, 1, &o, error)) return false;
    b->cycles_per_ns = (double)run.args.cycles / (double)(o.to_ns - o.from_ns);
    return true;
}

struct cuda_bench *cuda_bench_new(uint32_t gpu_count, bool quick, GError **error)
{
    struct cuda_bench *b = g_new0(struct cuda_bench, 1);
    int count = 0;
    b->quick = quick;
    rng_seed(&b->rng, 1);
    b->rows = g_array_new(FALSE, TRUE, sizeof(struct cuda_row));
    if (!cuda_driver_open(&b->driver, error)) goto failed;
    if (!CALL(count, &count)) goto failed;
    if ((uint32_t)count < gpu_count || gpu_count > CUDA_GPUS_MOST) {
        error_input(error, "--ranks: expected at most %d, the GPUs of this machine, found %u",
                    MIN(count, CUDA_GPUS_MOST), gpu_count);
        goto failed;
    }
    b->gpu_count = gpu_count ? gpu_count : MIN((uint32_t)count, CUDA_GPUS_MOST);
    for (uint32_t i = 0; i < b->gpu_count; i++)
        if (!gpu_open(b, i, error)) goto failed;
    if (!peers_enable(b, error) || !clock_measure(b, error)) goto failed;
    return b;
failed:
    cuda_bench_free(b);
    return NULL;
}

static void gpu_close(struct cuda_bench *b, struct cuda_gpu *g)
{
    const struct cuda_driver *d = &b->driver;
    const uint64_t memory[] = { g->source, g->target, g->zeros, g->words, g->table, g->results };
    if (g->functions) g_hash_table_destroy(g->functions);
    if (!g->context || d->context_set(g->context) != 0) return;
    for (uint32_t i = 0; i < G_N_ELEMENTS(memory); i++)
        if (memory[i]) d->free(memory[i]);
    if (g->host) d->host_free(g->host);
    for (uint32_t i = 0; i < 2; i++) {
        if (g->event[i]) d->event_destroy(g->event[i]);
        if (g->stream[i]) d->stream_destroy(g->stream[i]);
    }
    for (uint32_t i = 0; i < G_N_ELEMENTS(g->module); i++)
        if (g->module[i]) d->module_unload(g->module[i]);
    d->context_release(g->device);
}

void cuda_bench_free(struct cuda_bench *b)
{
    for (uint32_t i = 0; i < b->gpu_count; i++) gpu_close(b, &b->gpu[i]);
    if (b->driver.library) cuda_driver_close(&b->driver);
    for (uint32_t i = 0; i < b->rows->len; i++) g_free(g_array_index(b->rows, struct cuda_row, i).sample);
    g_array_free(b->rows, TRUE);
    g_free(b);
}

/* ---- runs ---- */

/* Finds the run's kernel.  The kernel may then have as much shared memory as any kernel gets. */
static bool function_find(struct cuda_bench *b, const struct cuda_run *run, cuda_function *function, GError **error)
{
    struct cuda_gpu *g = &b->gpu[run->gpu];
    *function = g_hash_table_lookup(g->functions, run->kernel);
    if (*function) return true;
    for (uint32_t i = 0; i < G_N_ELEMENTS(g->module); i++)
        if (b->driver.function(function, g->module[i], run->kernel) == 0) break;
    if (!*function) g_error("no kernel is called %s", run->kernel);
    g_hash_table_insert(g->functions, (gpointer)run->kernel, *function);
    return CALL(function_set, *function, CUDA_FUNCTION_SHARED_MOST, (int)b->shared_most - CUDA_SHARED_STATIC);
}

static bool run_launch(struct cuda_bench *b, const struct cuda_run *run, GError **error)
{
    struct cuda_gpu *g = &b->gpu[run->gpu];
    b->kernel = run->kernel;
    cuda_function function = NULL;
    struct cuda_launch_attribute attribute[3];
    unsigned attributes = 0;
    if (run->cooperative)
        attribute[attributes++] =
            (struct cuda_launch_attribute){ .id = CUDA_LAUNCH_COOPERATIVE, .value = { .cooperative = 1 } };
    if (run->cluster)
        attribute[attributes++] =
            (struct cuda_launch_attribute){ .id = CUDA_LAUNCH_CLUSTER, .value = { .cluster = { run->cluster, 1, 1 } } };
    if (run->early)
        attribute[attributes++] = (struct cuda_launch_attribute){ .id = CUDA_LAUNCH_EARLY, .value = { .early = 1 } };
    const struct cuda_launch launch = {
        .grid = { run->blocks, 1, 1 },
        .block = { run->threads, 1, 1 },
        .shared_bytes = run->shared_bytes,
        .stream = g->stream[run->beside],
        .attributes = attribute,
        .attribute_count = attributes,
    };
    struct cuda_args args = run->args;
    void *parameters[] = { &args };
    return function_find(b, run, &function, error) && CALL(launch, &launch, function, parameters, NULL);
}

/* Fills the arguments that the bench sets itself, and the table of targets. */
static bool run_prepare(struct cuda_bench *b, struct cuda_run *run, GError **error)
{
    const struct cuda_gpu *g = &b->gpu[run->gpu];
    if (!run->target_count) {
        run->target[0] = g->target;
        run->target_count = 1;
    }
    run->args.out = g->results + run->beside * (uint64_t)RESULTS_BYTES;
    run->args.targets = g->table + run->beside * (uint64_t)TABLE_BYTES;
    run->args.target_count = run->target_count;
    return CALL(context_set, g->context) &&
           CALL(upload, run->args.targets, run->target, run->target_count * sizeof run->target[0]);
}

static bool run_collect(struct cuda_bench *b, const struct cuda_run *run, struct cuda_outcome *o, GError **error)
{
    struct left {
        uint64_t from_ns, to_ns, cycles, rows;
    };
    _Static_assert(sizeof(struct left) == RESULT_BYTES, "as the PTX has it");
    const uint32_t warps = run->blocks * ((run->threads + 31) / 32);
    g_autofree struct left *left = g_new(struct left, warps);
    const bool fine =
        CALL(context_set, b->gpu[run->gpu].context) && CALL(download, left, run->args.out, warps * sizeof *left);
    uint64_t from = UINT64_MAX, last_from = 0, to = 0, rows = 0;
    *o = (struct cuda_outcome){ .warps = 0 };
    for (uint32_t i = 0; fine && i < warps; i++) {
        from = MIN(from, left[i].from_ns);
        last_from = MAX(last_from, left[i].from_ns);
        to = MAX(to, left[i].to_ns);
        if (left[i].rows == 0) continue;
        const uint32_t target = i / ((run->threads + 31) / 32) * run->args.by_block % run->target_count;
        o->target_to_ns[target] = MAX(o->target_to_ns[target], left[i].to_ns);
        o->warps++;
        rows += left[i].rows;
        o->cycles += (double)left[i].cycles;
        o->rows_per_ns += (double)left[i].rows * b->cycles_per_ns / (double)left[i].cycles;
    }
    o->from_ns = from;
    o->last_from_ns = last_from;
    o->to_ns = to;
    o->rows = (double)rows;
    if (o->warps) o->cycles /= o->warps;
    return fine;
}

static bool bench_wait(struct cuda_bench *b, GError **error)
{
    for (uint32_t i = 0; i < b->gpu_count; i++)
        if (!CALL(context_set, b->gpu[i].context) || !CALL(wait)) return false;
    return true;
}

bool cuda_bench_words_clear(struct cuda_bench *b, GError **error)
{
    for (uint32_t i = 0; i < b->gpu_count; i++)
        if (!CALL(context_set, b->gpu[i].context) ||
            !CALL(set, b->gpu[i].words + CUDA_WORDS_OWN_BYTES, 0, CUDA_WORDS_BYTES - CUDA_WORDS_OWN_BYTES))
            return false;
    return bench_wait(b, error);
}

bool cuda_bench_launch(struct cuda_bench *b, const struct cuda_run *run, GError **error)
{
    return CALL(context_set, b->gpu[run->gpu].context) && run_launch(b, run, error);
}

/* Keeps GPU 0 busy for `us` microseconds.  Kernels that are launched in this time then run one after another, without
 * waiting for their launches. */
static bool bench_delay(struct cuda_bench *b, double us, GError **error)
{
    struct cuda_run run = { .kernel = "spin", .blocks = 1, .threads = 32, .args = { .cycles = cuda_cycles(b, us) } };
    run.args.out = b->gpu[0].results + RESULTS_BYTES;
    return cuda_bench_launch(b, &run, error);
}

bool cuda_bench_time_begin(struct cuda_bench *b, double us, GError **error)
{
    return bench_delay(b, us, error) && CALL(event_record, b->gpu[0].event[0], b->gpu[0].stream[0]);
}

bool cuda_bench_time_end(struct cuda_bench *b, double *us, GError **error)
{
    const struct cuda_gpu *g = &b->gpu[0];
    float ms = 0;
    if (!CALL(event_record, g->event[1], g->stream[0]) || !CALL(stream_wait, g->stream[0]) ||
        !CALL(event_elapsed, &ms, g->event[0], g->event[1]))
        return false;
    *us = ms * 1e3;
    return true;
}

bool cuda_bench_pair(struct cuda_bench *b, const struct cuda_run *before, const struct cuda_run *after,
                     struct cuda_outcome outcome[2], GError **error)
{
    struct cuda_run first = *before, second = *after;
    if (!run_prepare(b, &first, error)) return false;
    second.target_count = first.target_count;
    second.args.targets = first.args.targets;
    second.args.out = first.args.out + RESULTS_BYTES;
    return bench_delay(b, DELAY_US, error) && run_launch(b, &first, error) && run_launch(b, &second, error) &&
           bench_wait(b, error) && run_collect(b, &first, &outcome[0], error) &&
           run_collect(b, &second, &outcome[1], error);
}

bool cuda_bench_run(struct cuda_bench *b, struct cuda_run *runs, uint32_t count, struct cuda_outcome *outcome,
                    GError **error)
{
    if (count > 1)
        for (uint32_t i = 0; i < count; i++) b->go_count += runs[i].blocks;
    for (uint32_t i = 0; i < count; i++) {
        runs[i].args.go = count > 1 ? b->gpu[0].words : 0;
        runs[i].args.go_count = b->go_count;
        if (!run_prepare(b, &runs[i], error)) return false;
    }
    for (uint32_t i = 0; i < count; i++)
        if (!CALL(context_set, b->gpu[runs[i].gpu].context) || !run_launch(b, &runs[i], error)) return false;
    if (!bench_wait(b, error)) return false;
    for (uint32_t i = 0; i < count; i++)
        if (!run_collect(b, &runs[i], &outcome[i], error)) return false;
    return true;
}

/* ---- rows ---- */

void cuda_bench_keep(struct cuda_bench *b, const char *metric, const char *unit, uint32_t size_bytes, double value,
                     const char *format, ...)
{
    char phase[sizeof((struct cuda_row *)NULL)->phase];
    va_list arguments;
    va_start(arguments, format);
    g_vsnprintf(phase, sizeof phase, format, arguments);
    va_end(arguments);
    if (b->pass == 0) {
        struct cuda_row row = { .size_bytes = size_bytes, .sample = g_new(double, b->repeat) };
        g_strlcpy(row.phase, phase, sizeof row.phase);
        g_strlcpy(row.metric, metric, sizeof row.metric);
        g_strlcpy(row.unit, unit, sizeof row.unit);
        g_array_append_val(b->rows, row);
    }
    struct cuda_row *row = &g_array_index(b->rows, struct cuda_row, b->row);
    g_assert(b->row < b->rows->len && strcmp(row->phase, phase) == 0 && strcmp(row->metric, metric) == 0);
    row->sample[b->pass] = value;
    b->row++;
}
