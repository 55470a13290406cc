/* pretend_cublaslt.c - a library that answers as cuBLASLt does, without a GPU.  measure_pretend.sh uses it.
 *
 * Its GEMMs take no time.  It hides the machine's own cuBLASLt, which cannot start on the pretended driver.  A library
 * that is built with -DPRETEND_UNABLE cannot start, either. */
#include <stddef.h>
#include <stdint.h>

enum { PARAMETER_NULL = 7, CHOSEN = 1 };

#ifdef PRETEND_UNABLE
int cublasLtCreate(void **handle) { return handle ? 1 : PARAMETER_NULL; }
#else
int cublasLtCreate(void **handle) { return (*handle = handle) ? 0 : PARAMETER_NULL; }
#endif
size_t cublasLtGetVersion(void) { return 130000; }
int cublasLtDestroy(void *handle) { return handle ? 0 : PARAMETER_NULL; }

int cublasLtMatmulDescCreate(void **desc, int compute, int scale)
{
    *desc = desc;
    return compute && !scale ? 0 : PARAMETER_NULL;
}
int cublasLtMatmulDescDestroy(void *desc) { return desc ? 0 : PARAMETER_NULL; }

static int attribute_set(const void *object, const void *value, size_t bytes)
{
    return object && value && bytes ? 0 : PARAMETER_NULL;
}
int cublasLtMatmulDescSetAttribute(void *desc, int attribute, const void *value, size_t bytes)
{
    (void)attribute;
    return attribute_set(desc, value, bytes);
}
int cublasLtMatmulPreferenceSetAttribute(void *preference, int attribute, const void *value, size_t bytes)
{
    (void)attribute;
    return attribute_set(preference, value, bytes);
}

int cublasLtMatrixLayoutCreate(void **layout, int type, uint64_t rows, uint64_t columns, int64_t stride)
{
    *layout = layout;
    return type && rows && columns && stride > 0 && (uint64_t)stride >= rows ? 0 : PARAMETER_NULL;
}
int cublasLtMatrixLayoutDestroy(void *layout) { return layout ? 0 : PARAMETER_NULL; }

int cublasLtMatmulPreferenceCreate(void **preference)
{
    *preference = preference;
    return 0;
}
int cublasLtMatmulPreferenceDestroy(void *preference) { return preference ? 0 : PARAMETER_NULL; }

/* Reports one algorithm, and leaves the 96 bytes of `choice` as they are.  A state of 0 in them means that the
 * algorithm can run. */
int cublasLtMatmulAlgoGetHeuristic(void *handle, void *desc, void *a, void *b, void *c, void *d, void *preference,
                                   int wanted, void *choice, int *found)
{
    *found = CHOSEN;
    return handle && desc && a && b && c && d && preference && wanted == CHOSEN && choice ? 0 : PARAMETER_NULL;
}

int cublasLtMatmul(void *handle, void *desc, const float *alpha, uint64_t a, void *a_layout, uint64_t b, void *b_layout,
                   const float *beta, uint64_t c, void *c_layout, uint64_t d, void *d_layout, const void *algorithm,
                   uint64_t workspace, size_t workspace_bytes, void *stream)
{
    (void)stream;
    return handle && desc && *alpha == 1 && *beta == 0 && a && b && c == d && a_layout && b_layout && c_layout &&
                   d_layout && algorithm && workspace && workspace_bytes
               ? 0
               : PARAMETER_NULL;
}
