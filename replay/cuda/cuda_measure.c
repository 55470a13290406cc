/* cuda_measure.c - makes the passes over all benchmarks of GPUs, and writes their record. */
#include "replay/cuda/cuda_measure.h"

#include <math.h>
#include <string.h>
#include "replay/cuda/cuda_bench.h"
#include "sim/progress.h"
#include "sim/stats.h"

/* The value rounded to five digits, because repeated measurements agree in fewer. */
static double rounded(double value)
{
    char text[G_ASCII_DTOSTR_BUF_SIZE];
    return g_ascii_strtod(g_ascii_formatd(text, sizeof text, "%.5g", value), NULL);
}

/* Adds a row to the record: median and spread over the passes in which the value was measured. */
static void row_add(const struct cuda_bench *b, const struct cuda_row *row, struct record *record)
{
    static const char *const spread[] = { "", "_min", "_max" };
    g_autofree double *found = g_new(double, b->repeat);
    uint32_t count = 0;
    for (uint32_t i = 0; i < b->repeat; i++)
        if (isfinite(row->sample[i])) found[count++] = row->sample[i];
    const double value[] = { stats_median(found, count), stats_min(found, count), stats_max(found, count) };
    for (uint32_t i = 0; count && i < G_N_ELEMENTS(spread); i++) {
        char metric[64];
        if (row->size_bytes) g_snprintf(metric, sizeof metric, "%s%s_%u", row->metric, spread[i], row->size_bytes);
        else g_snprintf(metric, sizeof metric, "%s%s", row->metric, spread[i]);
        record_add(record, row->phase, RECORD_ALL, metric, rounded(value[i]), row->unit);
    }
}

static void record_fill(struct cuda_bench *b, struct record *record)
{
    int version = 0;
    b->driver.version(&version);
    record_set(record, "gpu", "%s", b->gpu[0].name);
    record_set(record, "gpus", "%u", b->gpu_count);
    record_set(record, "sms", "%u", b->sms);
    record_set(record, "l2-bytes", "%u", b->l2_bytes);
    record_set(record, "shared-bytes", "%u", b->shared_most);
    record_set(record, "driver", "CUDA %d.%d", version / 1000, version % 1000 / 10);
    if (b->cublaslt) record_set(record, "cublaslt", "%zu", b->cublaslt);
    for (uint32_t i = 0; i < b->rows->len; i++) row_add(b, &g_array_index(b->rows, struct cuda_row, i), record);
}

static bool part_wanted(const struct cuda_measure_options *options, const struct cuda_part *part)
{
    return !options->only || strcmp(options->only, part->name) == 0;
}

static bool only_check(const struct cuda_measure_options *options, GError **error)
{
    const struct cuda_part *const tables[] = { cuda_one_gpu_parts, cuda_many_gpus_parts };
    g_autoptr(GString) names = g_string_new(NULL);
    for (uint32_t t = 0; t < G_N_ELEMENTS(tables); t++)
        for (const struct cuda_part *part = tables[t]; part->name; part++) {
            if (part_wanted(options, part)) return true;
            g_string_append_printf(names, "%s%s", names->len ? ", " : "", part->name);
        }
    return error_input(error, "--only: expected one of %s, found '%s'", names->str, options->only);
}

static bool parts_pass(struct cuda_bench *b, const struct cuda_measure_options *options, const struct cuda_part *part,
                       GError **error)
{
    for (; part->name; part++) {
        if (part_wanted(options, part) && !part->pass(b, error)) return false;
        progress_advance(b->progress, 1);
    }
    return true;
}

/* Fails if nothing was measured although the user asked for one group of benchmarks.  This machine may lack what the
 * group measures. */
static bool rows_check(const struct cuda_bench *b, const struct cuda_measure_options *options, GError **error)
{
    if (b->rows->len || !options->only) return true;
    return error_run(error, "--only %s: nothing to measure here: %s", options->only,
                     strcmp(options->only, "gemm") == 0 ? "no cuBLASLt that starts with this driver"
                     : b->gpu_count == 1                ? "it needs more than one GPU"
                                                        : "no row of it fits these GPUs");
}

static uint32_t parts_count(const struct cuda_part *part)
{
    uint32_t count = 0;
    while (part[count].name) count++;
    return count;
}

bool cuda_measure_run(const struct cuda_measure_options *options, struct record *record, GError **error)
{
    if (!only_check(options, error)) return false;
    struct cuda_bench *b = cuda_bench_new(options->gpus, options->quick, error);
    if (!b) return false;
    const bool many = b->gpu_count > 1;
    const uint32_t parts = parts_count(cuda_one_gpu_parts) + (many ? parts_count(cuda_many_gpus_parts) : 0);
    bool fine = true;
    b->repeat = options->repeat;
    b->progress = progress_new("parts", (uint64_t)b->repeat * parts);
    for (b->pass = 0; fine && b->pass < b->repeat; b->pass++) {
        b->row = 0;
        fine = parts_pass(b, options, cuda_one_gpu_parts, error) &&
               (!many || parts_pass(b, options, cuda_many_gpus_parts, error));
    }
    progress_free(b->progress);
    if (!fine) g_prefix_error(error, "kernel %s: ", b->kernel);
    fine = fine && rows_check(b, options, error);
    if (fine) record_fill(b, record);
    cuda_bench_free(b);
    return fine;
}
