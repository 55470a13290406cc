/* bootstrap_pmix.c - ranks that mpirun or srun started, exchanging through PMIx.
 *
 * An exchange puts a share under a key of its own, fences, and gets everyone's.  Shares carry their size, so
 * that ranks that do not do the same are found out.  It does not know who the launcher is. */
#include "replay/bootstrap/bootstrap_internal.h"

#include <stdlib.h>
#include <string.h>

bool bootstrap_pmix_detected(void)
{
    const char *const tasks = getenv("SLURM_STEP_NUM_TASKS");

    return getenv("PMIX_RANK") || getenv("PMI_RANK") || getenv("OMPI_COMM_WORLD_RANK") ||
           (tasks && strcmp(tasks, "1") != 0);
}

#ifdef HAVE_PMIX

#    include <pmix.h>

struct bootstrap_pmix {
    struct bootstrap base;
    pmix_proc_t self;
    uint32_t exchange;
    char *gave_up; /* told to the launcher in the end, who then ends this process too; or NULL */
};

/* In place of a share's size: the share says why its rank gives up. */
static const uint64_t GAVE_UP = UINT64_MAX;
/* How long a rank that gives up waits for others to come and hear why, before they are ended without. */
enum { GIVE_UP_MS = 2000 };

/* Of one fence; shared with the thread of the library that calls back, freed by who is last. */
struct fence {
    GMutex mutex;
    GCond done_changed;
    bool done, left;
    pmix_status_t status;
};

static bool pmix_fail(GError **error, const char *what, pmix_status_t status)
{
    g_set_error(error, BOOTSTRAP_ERROR, BOOTSTRAP_FAILED, "PMIx: %s: %s", what, PMIx_Error_string(status));
    return false;
}

static void exchange_key(const struct bootstrap_pmix *p, char *key)
{
    g_snprintf(key, PMIX_MAX_KEYLEN, "eptwin.%u", p->exchange);
}

/* label is what the share begins with: its size, or GAVE_UP. */
static bool share_put(struct bootstrap_pmix *p, uint64_t label, const void *in, uint64_t size_bytes, GError **error)
{
    char key[PMIX_MAX_KEYLEN + 1];
    g_autofree char *share = g_malloc(sizeof label + size_bytes);
    pmix_value_t value = { .type = PMIX_BYTE_OBJECT, .data.bo = { .bytes = share, .size = sizeof label + size_bytes } };

    memcpy(share, &label, sizeof label);
    if (size_bytes) memcpy(share + sizeof label, in, size_bytes);
    exchange_key(p, key);
    pmix_status_t status = PMIx_Put(PMIX_GLOBAL, key, &value);

    if (status == PMIX_SUCCESS) status = PMIx_Commit();
    return status == PMIX_SUCCESS || pmix_fail(error, "cannot put", status);
}

static void fence_free(struct fence *f)
{
    g_mutex_clear(&f->mutex);
    g_cond_clear(&f->done_changed);
    g_free(f);
}

static void fence_done(pmix_status_t status, void *context)
{
    struct fence *const f = context;

    g_mutex_lock(&f->mutex);
    f->status = status;
    f->done = true;
    const bool left = f->left;

    g_cond_signal(&f->done_changed);
    g_mutex_unlock(&f->mutex);
    if (left) fence_free(f);
}

/* False with no error set when time ran out. */
static bool fence_wait(const struct bootstrap_pmix *p, uint32_t timeout_ms, GError **error)
{
    struct fence *const f = g_new0(struct fence, 1);
    const uint64_t deadline_ms = bootstrap_now_ms() + timeout_ms;
    pmix_info_t collect;
    bool collect_data = true;

    g_mutex_init(&f->mutex);
    g_cond_init(&f->done_changed);
    PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &collect_data, PMIX_BOOL);
    const pmix_status_t started = PMIx_Fence_nb(NULL, 0, &collect, 1, fence_done, f);

    if (started != PMIX_SUCCESS) {
        fence_free(f);
        return pmix_fail(error, "cannot fence", started);
    }
    g_mutex_lock(&f->mutex);
    while (!f->done && bootstrap_now_ms() < deadline_ms) {
        g_mutex_unlock(&f->mutex);
        const int sleep_ms = bootstrap_serve_ms(&p->base, deadline_ms);

        g_mutex_lock(&f->mutex);
        if (!f->done) g_cond_wait_until(&f->done_changed, &f->mutex, g_get_monotonic_time() + (gint64)sleep_ms * 1000);
    }
    const bool done = f->done;
    const pmix_status_t status = f->status;

    f->left = true;
    g_mutex_unlock(&f->mutex);
    if (!done) return false;
    fence_free(f);
    return status == PMIX_SUCCESS || pmix_fail(error, "fence failed", status);
}

/* The rank's share of this exchange; timeout_s 0: as long as it takes. */
static pmix_status_t share_get(struct bootstrap_pmix *p, uint32_t rank, int timeout_s, pmix_value_t **value)
{
    char key[PMIX_MAX_KEYLEN + 1];
    pmix_proc_t proc = p->self;
    pmix_info_t limit;

    exchange_key(p, key);
    proc.rank = rank;
    PMIX_INFO_LOAD(&limit, PMIX_TIMEOUT, &timeout_s, PMIX_INT);
    return PMIx_Get(&proc, key, &limit, timeout_s ? 1 : 0, value);
}

/* Asked one by one: who has put nothing for this exchange has not come. */
static bool fail_late(struct bootstrap_pmix *p, GError **error)
{
    g_autofree bool *absent = g_new0(bool, p->base.rank_count);

    for (uint32_t r = 0; r < p->base.rank_count; r++) {
        pmix_value_t *value = NULL;

        absent[r] = r != p->base.rank && share_get(p, r, 1, &value) != PMIX_SUCCESS;
        if (value) PMIX_VALUE_RELEASE(value);
    }
    g_autofree char *ranks = bootstrap_ranks_text(absent, p->base.rank_count);

    g_set_error(error, BOOTSTRAP_ERROR, BOOTSTRAP_FAILED, "%s did not come to exchange %u within %u ms", ranks,
                p->exchange, p->base.timeout_ms);
    return false;
}

static bool share_check(struct bootstrap_pmix *p, uint32_t rank, const pmix_value_t *value, uint64_t size_bytes,
                        GError **error)
{
    const pmix_byte_object_t *const share = &value->data.bo;
    uint64_t label;

    g_assert(value->type == PMIX_BYTE_OBJECT && share->size >= sizeof label);
    memcpy(&label, share->bytes, sizeof label);
    if (label == size_bytes) {
        g_assert(share->size == sizeof label + size_bytes);
        return true;
    }
    if (label == GAVE_UP) {
        g_autofree char *reason = bootstrap_peer_text(share->bytes + sizeof label, share->size - sizeof label);

        g_set_error(error, BOOTSTRAP_ERROR, BOOTSTRAP_FAILED, "rank %u gave up: %s", rank, reason);
    } else {
        g_set_error(error, BOOTSTRAP_ERROR, BOOTSTRAP_FAILED,
                    "exchange %u: rank %u brought %" G_GUINT64_FORMAT " bytes, rank %u %" G_GUINT64_FORMAT
                    ": the ranks do not do the same",
                    p->exchange, rank, label, p->base.rank, size_bytes);
    }
    return false;
}

static bool share_take(struct bootstrap_pmix *p, uint32_t rank, uint64_t size_bytes, uint8_t *out, GError **error)
{
    pmix_value_t *value = NULL;
    const pmix_status_t status = share_get(p, rank, 0, &value);

    if (status != PMIX_SUCCESS) return pmix_fail(error, "cannot get", status);
    const bool ok = share_check(p, rank, value, size_bytes, error);

    if (ok && size_bytes) memcpy(out, value->data.bo.bytes + sizeof size_bytes, size_bytes);
    PMIX_VALUE_RELEASE(value);
    return ok;
}

static bool launched_allgather(struct bootstrap *b, const void *in, size_t size_bytes, void *out, GError **error)
{
    struct bootstrap_pmix *const p = (struct bootstrap_pmix *)b;
    GError *reason = NULL;

    g_assert(bootstrap_size_allowed(size_bytes, b->rank_count));
    bool ok = share_put(p, size_bytes, in, size_bytes, &reason) && fence_wait(p, b->timeout_ms, &reason);

    if (!ok && !reason) fail_late(p, &reason);
    for (uint32_t r = 0; r < b->rank_count && ok; r++)
        ok = share_take(p, r, size_bytes, size_bytes ? (uint8_t *)out + r * size_bytes : NULL, &reason);
    if (reason) g_propagate_error(error, reason);
    p->exchange++;
    return ok;
}

/* Comes to the next exchange with the reason in place of a share. */
static void launched_abort(struct bootstrap *b, const char *reason)
{
    struct bootstrap_pmix *const p = (struct bootstrap_pmix *)b;
    const size_t size_bytes = strnlen(reason, BOOTSTRAP_REASON_BYTES_MAX);

    if (p->gave_up) return;
    if (!share_put(p, GAVE_UP, reason, size_bytes, NULL) || !fence_wait(p, GIVE_UP_MS, NULL))
        p->gave_up = g_strdup_printf("eptwin: rank %u gave up: %s", b->rank, reason);
    p->exchange++;
}

/* The launcher ends all ranks of a run that is aborted, this one too: so that comes last, and only where
 * others have not heard why. */
static void launched_free(struct bootstrap *b)
{
    struct bootstrap_pmix *const p = (struct bootstrap_pmix *)b;

    if (p->gave_up) PMIx_Abort(1, p->gave_up, NULL, 0);
    PMIx_Finalize(NULL, 0);
    g_free(p->gave_up);
    g_free(p);
}

static const struct bootstrap_ops launched_ops = {
    "pmix", launched_allgather, launched_abort, NULL, launched_free, NULL
};

/* The number of processes of this job. */
static bool job_size(const pmix_proc_t *self, uint32_t *rank_count, GError **error)
{
    pmix_proc_t job = *self;
    pmix_value_t *value = NULL;

    job.rank = PMIX_RANK_WILDCARD;
    const pmix_status_t status = PMIx_Get(&job, PMIX_JOB_SIZE, NULL, 0, &value);

    if (status != PMIX_SUCCESS) return pmix_fail(error, "cannot learn the number of ranks", status);
    *rank_count = value->data.uint32;
    PMIX_VALUE_RELEASE(value);
    return true;
}

struct bootstrap *bootstrap_pmix_new(uint32_t timeout_ms, GError **error)
{
    struct bootstrap_pmix *const p = g_new0(struct bootstrap_pmix, 1);

    p->base = (struct bootstrap){ .ops = &launched_ops, .timeout_ms = timeout_ms };
    if (!getenv("PMIX_RANK")) {
        g_set_error(error, BOOTSTRAP_ERROR, BOOTSTRAP_BAD_INPUT,
                    "no PMIx here: expected to be started by mpirun of Open MPI or by srun --mpi=pmix");
        g_free(p);
        return NULL;
    }
    const pmix_status_t status = PMIx_Init(&p->self, NULL, 0);

    if (status != PMIX_SUCCESS) {
        pmix_fail(error, "cannot start", status);
        g_free(p);
        return NULL;
    }
    p->base.rank = p->self.rank;
    if (job_size(&p->self, &p->base.rank_count, error) && bootstrap_barrier(&p->base, error)) return &p->base;
    bootstrap_free(&p->base);
    return NULL;
}

#else

struct bootstrap *bootstrap_pmix_new(uint32_t timeout_ms, GError **error)
{
    (void)timeout_ms;
    g_set_error(error, BOOTSTRAP_ERROR, BOOTSTRAP_BAD_INPUT,
                "started by mpirun or srun, but this eptwin was built without PMIx (libpmix-dev); "
                "--rank, --world-size and --root work without it");
    return NULL;
}

#endif
