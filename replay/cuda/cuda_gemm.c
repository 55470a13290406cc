/* cuda_gemm.c - measures dense GEMMs of cuBLASLt, if this machine has it.  Like the driver, the library is opened at
 * run time.
 *
 * Y = X W, where X has rows x k numbers and W has k x n.  Both are BF16 or FP8 (E4M3), and Y is BF16.  Each GEMM
 * reads W from another place of the source area, so that W comes from memory, as in a model's step.  If all these
 * places together fit in L2, W comes from there. */
#include <dlfcn.h>
#include <string.h>
#include "replay/cuda/cuda_flows.h"
#include "replay/cuda/cuda_waits.h"

enum { MANY = 16, CALL_US = 20, WORKSPACE_BYTES = 64 << 20 };
static const uint64_t target_room_bytes = CUDA_TARGET_BYTES - WORKSPACE_BYTES;

/* Types and numbers of cuBLASLt's public interface. */
enum { TYPE_FLOAT = 0, TYPE_BF16 = 14, TYPE_FP8 = 28, COMPUTE_FLOAT = 68 };
enum { DESC_TRANSPOSE_A = 3, DESC_FAST_SUMS = 25, PREFER_WORKSPACE = 1 };
struct lt_algorithm {
    uint64_t data[8];
};
struct lt_choice {
    struct lt_algorithm algorithm;
    size_t workspace_bytes;
    int state;
    float waves;
    int reserved[4];
};
_Static_assert(sizeof(struct lt_choice) == 96, "cuBLASLt's layout");

#define LT_FUNCTIONS(X) \
    X(cublasLtGetVersion, version, size_t, (void)) \
    X(cublasLtCreate, create, int, (void **handle)) \
    X(cublasLtDestroy, destroy, int, (void *handle)) \
    X(cublasLtMatmulDescCreate, desc_create, int, (void **desc, int compute, int scale)) \
    X(cublasLtMatmulDescDestroy, desc_destroy, int, (void *desc)) \
    X(cublasLtMatmulDescSetAttribute, desc_set, int, (void *desc, int attribute, const void *value, size_t bytes)) \
    X(cublasLtMatrixLayoutCreate, layout_create, int, \
      (void **layout, int type, uint64_t rows, uint64_t columns, int64_t stride)) \
    X(cublasLtMatrixLayoutDestroy, layout_destroy, int, (void *layout)) \
    X(cublasLtMatmulPreferenceCreate, preference_create, int, (void **preference)) \
    X(cublasLtMatmulPreferenceDestroy, preference_destroy, int, (void *preference)) \
    X(cublasLtMatmulPreferenceSetAttribute, preference_set, int, \
      (void *preference, int attribute, const void *value, size_t bytes)) \
    X(cublasLtMatmulAlgoGetHeuristic, choose, int, \
      (void *handle, void *desc, void *a, void *b, void *c, void *d, void *preference, int wanted, \
       struct lt_choice *choice, int *found)) \
    X(cublasLtMatmul, run, int, \
      (void *handle, void *desc, const void *alpha, uint64_t a, void *a_layout, uint64_t b, void *b_layout, \
       const void *beta, uint64_t c, void *c_layout, uint64_t d, void *d_layout, const struct lt_algorithm *algorithm, \
       uint64_t workspace, size_t workspace_bytes, cuda_stream stream))

struct lt {
    void *library, *handle, *preference;
#define LT_MEMBER(symbol, member, result, parameters) result(*member) parameters;
    LT_FUNCTIONS(LT_MEMBER)
#undef LT_MEMBER
};

struct gemm {
    const char *dtype;
    int type;
    uint64_t rows, k, n;
    void *desc, *weights, *in, *out;
    struct lt_choice choice;
};

static const struct {
    const char *symbol;
    size_t place;
} functions[] = {
#define LT_ENTRY(symbol, member, result, parameters) { #symbol, offsetof(struct lt, member) },
    LT_FUNCTIONS(LT_ENTRY)
#undef LT_ENTRY
};

/* Opens cuBLASLt and finds its functions.  Returns whether the library was found with all of them.  The library
 * stays open, because CUDA's own libraries do not tolerate being closed. */
static bool lt_find(struct lt *lt)
{
    static const char *const names[] = { "libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so" };
    for (size_t i = 0; !lt->library && i < G_N_ELEMENTS(names); i++)
        lt->library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; lt->library && i < G_N_ELEMENTS(functions); i++) {
        void *found = dlsym(lt->library, functions[i].symbol);
        if (!found) return false;
        memcpy((char *)lt + functions[i].place, &found, sizeof found);
    }
    return lt->library != NULL;
}

static bool lt_check(const struct gemm *g, int status, const char *call, GError **error)
{
    if (status == 0) return true;
    return error_run(error, "cuBLASLt: %s: status %d for %s, %u rows, k %u, n %u", call, status, g->dtype,
                     (unsigned)g->rows, (unsigned)g->k, (unsigned)g->n);
}
#define LT(function, ...) lt_check(g, lt->function(__VA_ARGS__), #function, error)
/* Describes the GEMM to cuBLASLt, which stores matrices column by column.  So W is its transposed matrix A, and the
 * result has n rows.  FP8 runs only in this form. */
static bool gemm_describe(const struct lt *lt, struct gemm *g, GError **error)
{
    const int transposed = 1;
    const int8_t fast = 1;
    int found = 0;
    return LT(desc_create, &g->desc, COMPUTE_FLOAT, TYPE_FLOAT) &&
           LT(desc_set, g->desc, DESC_TRANSPOSE_A, &transposed, sizeof transposed) &&
           (g->type != TYPE_FP8 || LT(desc_set, g->desc, DESC_FAST_SUMS, &fast, sizeof fast)) &&
           LT(layout_create, &g->weights, g->type, g->k, g->n, (int64_t)g->k) &&
           LT(layout_create, &g->in, g->type, g->k, g->rows, (int64_t)g->k) &&
           LT(layout_create, &g->out, TYPE_BF16, g->n, g->rows, (int64_t)g->n) &&
           LT(choose, lt->handle, g->desc, g->weights, g->in, g->out, g->out, lt->preference, 1, &g->choice, &found) &&
           lt_check(g, found > 0 ? g->choice.state : 15, "no algorithm", error);
}

static void gemm_forget(const struct lt *lt, const struct gemm *g)
{
    if (g->desc) lt->desc_destroy(g->desc);
    void *const layouts[] = { g->weights, g->in, g->out };
    for (size_t i = 0; i < G_N_ELEMENTS(layouts); i++)
        if (layouts[i]) lt->layout_destroy(layouts[i]);
}

static uint64_t weight_bytes(const struct gemm *g) { return g->k * g->n * (g->type == TYPE_FP8 ? 1 : 2); }

/* Times many GEMMs in sequence.  A kernel before them keeps the GPU busy while the host launches them. */
static bool gemm_time(struct cuda_bench *b, const struct lt *lt, const struct gemm *g, double *time_us, GError **error)
{
    const struct cuda_gpu *gpu = &b->gpu[0];
    const float one = 1, none = 0;
    const uint64_t places = CUDA_SOURCE_BYTES / weight_bytes(g),
                   in_bytes = g->rows * g->k * (g->type == TYPE_FP8 ? 1 : 2);
    /* The first GEMM is not timed.  Its launch may load the kernel, and loading waits for running kernels. */
    for (uint32_t i = 0; i <= MANY; i++) {
        const uint64_t weights = gpu->source + i % places * weight_bytes(g);
        if (i == 1 && (!CALL(stream_wait, gpu->stream[0]) || !cuda_bench_time_begin(b, MANY * CALL_US, error)))
            return false;
        if (!LT(run, lt->handle, g->desc, &one, weights, g->weights, gpu->source + CUDA_SOURCE_BYTES - in_bytes, g->in,
                &none, gpu->target, g->out, gpu->target, g->out, &g->choice.algorithm, gpu->target + target_room_bytes,
                WORKSPACE_BYTES, gpu->stream[0]))
            return false;
    }
    if (!cuda_bench_time_end(b, time_us, error)) return false;
    *time_us /= MANY;
    return true;
}

static bool gemm_keep(struct cuda_bench *b, const struct lt *lt, struct gemm *g, GError **error)
{
    double us;
    const bool fine = gemm_describe(lt, g, error) && gemm_time(b, lt, g, &us, error);
    gemm_forget(lt, g);
    if (fine)
        cuda_bench_keep(b, "time_us", "us", 0, us, "gemm dtype=%s rows=%u k=%u n=%u", g->dtype, (unsigned)g->rows,
                        (unsigned)g->k, (unsigned)g->n);
    return fine;
}

/* Measures the up and down GEMMs of DeepSeek-V3's shared expert and of its dense feed-forward layers.  Also measures
 * GEMMs with k = n, which show the peak rate. */
static bool gemms_keep(struct cuda_bench *b, const struct lt *lt, GError **error)
{
    static const struct {
        uint32_t k, n;
    } shapes[] = { { 7168, 4096 }, { 2048, 7168 }, { 7168, 36864 }, { 18432, 7168 }, { 8192, 8192 } };
    static const uint32_t rows[] = { 16, 64, 128, 256, 1024, 4096, 8192 };
    for (uint32_t fp8 = 0; fp8 < 2; fp8++)
        for (uint32_t s = 0; s < G_N_ELEMENTS(shapes); s++)
            for (uint32_t r = 0; r < G_N_ELEMENTS(rows); r++) {
                struct gemm g = { .dtype = fp8 ? "fp8" : "bf16",
                                  .type = fp8 ? TYPE_FP8 : TYPE_BF16,
                                  .rows = rows[r],
                                  .k = shapes[s].k,
                                  .n = shapes[s].n };
                if (cuda_quick_skips(b, r, G_N_ELEMENTS(rows)) || g.rows * g.n * 2 > target_room_bytes) continue;
                if (!gemm_keep(b, lt, &g, error)) return false;
            }
    return true;
}

bool cuda_gemm_pass(struct cuda_bench *b, GError **error)
{
    const uint64_t workspace_bytes = WORKSPACE_BYTES;
    const struct gemm none = { .dtype = "the preference" }, *g = &none;
    struct lt found = { 0 }, *lt = &found;
    b->kernel = "gemm";
    if (!lt_find(lt)) return true;
    if (!CALL(context_set, b->gpu[0].context)) return false;
    /* A library that does not start with this driver counts as missing. */
    if (lt->create(&lt->handle) != 0) return true;
    b->cublaslt = lt->version();
    const bool fine = LT(preference_create, &lt->preference) &&
                      LT(preference_set, lt->preference, PREFER_WORKSPACE, &workspace_bytes, sizeof workspace_bytes) &&
                      gemms_keep(b, lt, error);
    if (lt->preference) lt->preference_destroy(lt->preference);
    if (lt->handle) lt->destroy(lt->handle);
    return fine;
}
