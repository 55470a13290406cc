/* profile_phase.c - recognises by name the kernels that communicate, and finds the facts that only their order shows.
 *
 * Forks keep the names below their own namespace (dpsk::ep::internode::dispatch, uccl::internode_ll::combine), so the
 * ends of names are compared.  DeepEP's template arguments are:
 *
 *     internode::dispatch<low latency, nodes, cached, ...>      internode_ll::dispatch<flags, hidden>
 *     intranode::dispatch<ranks, ...>                           internode_ll::combine<flags, hidden, ...> */
#include <stdlib.h>
#include <string.h>
#include "reports/import/profile.h"

enum argument { ARGUMENT_NONE, ARGUMENT_RANKS, ARGUMENT_NODES, ARGUMENT_HIDDEN };

/* What names of kernels say.  The first entry that fits a name counts.  A '?' before eptwin's kernel: other releases
 * have the name, too. */
static const struct known {
    const char *end; /* the end of the qualified name; with a '*' before it, it may stand anywhere in the name */
    const char *library, *kernel, *phase;
    enum argument says;
    int place; /* the index (from 0) of the template argument that has the fact `says` */
} known[] = {
    { "nccl_ep::internode_ll::dispatch", "NCCL EP", "?nccl-ll", "dispatch", ARGUMENT_HIDDEN, 1 },
    { "nccl_ep::internode_ll::combine", "NCCL EP", "?nccl-ll", "combine", ARGUMENT_HIDDEN, 1 },
    { "*nccl_ep_jit_ht_dispatch", "NCCL EP", "?nccl-ht", "dispatch", ARGUMENT_NONE, 0 },
    { "*nccl_ep_jit_ht_combine", "NCCL EP", "?nccl-ht", "combine", ARGUMENT_NONE, 0 },
    { "internode_ll::dispatch", "DeepEP", "ll", "dispatch", ARGUMENT_HIDDEN, 1 },
    { "internode_ll::combine", "DeepEP", "ll", "combine", ARGUMENT_HIDDEN, 1 },
    { "internode_ll::clean_low_latency_buffer", "DeepEP", "ll", "clean", ARGUMENT_NONE, 0 },
    { "::get_dispatch_layout", "DeepEP", "normal", "layout", ARGUMENT_NONE, 0 },
    { "internode::notify_dispatch", "DeepEP", "normal", "notify", ARGUMENT_NODES, 1 },
    { "internode::cached_notify", "DeepEP", "normal", "cached_notify", ARGUMENT_NONE, 0 },
    { "internode::dispatch", "DeepEP", "normal", "dispatch", ARGUMENT_NODES, 1 },
    { "internode::combine", "DeepEP", "normal", "combine", ARGUMENT_NODES, 1 },
    { "intranode::notify_dispatch", "DeepEP", "normal", "notify", ARGUMENT_RANKS, 0 },
    { "intranode::cached_notify_dispatch", "DeepEP", "normal", "cached_notify_dispatch", ARGUMENT_RANKS, 0 },
    { "intranode::cached_notify_combine", "DeepEP", "normal", "cached_notify_combine", ARGUMENT_RANKS, 0 },
    { "intranode::dispatch", "DeepEP", "normal", "dispatch", ARGUMENT_RANKS, 0 },
    { "intranode::combine", "DeepEP", "normal", "combine", ARGUMENT_RANKS, 1 },
    { "::dispatch_impl", "DeepEP V2", "v2", "dispatch", ARGUMENT_NONE, 0 },
    { "::hybrid_dispatch_impl", "DeepEP V2", "v2", "dispatch", ARGUMENT_NONE, 0 },
    { "::dispatch_copy_epilogue_impl", "DeepEP V2", "v2", "dispatch_copy", ARGUMENT_NONE, 0 },
    { "::combine_impl", "DeepEP V2", "v2", "combine", ARGUMENT_NONE, 0 },
    { "::hybrid_combine_impl", "DeepEP V2", "v2", "combine", ARGUMENT_NONE, 0 },
    { "::combine_reduce_epilogue_impl", "DeepEP V2", "v2", "combine_reduce", ARGUMENT_NONE, 0 },
    { "hybrid_ep::dispatch_kernel", "Hybrid-EP", "?hybrid-ep", "dispatch", ARGUMENT_NONE, 0 },
    { "hybrid_ep::combine_kernel", "Hybrid-EP", "?hybrid-ep", "combine", ARGUMENT_NONE, 0 },
    { "*ncclDevKernel_SendRecv", "NCCL", NULL, "alltoall", ARGUMENT_NONE, 0 },
    { "*ncclDevKernel_AllReduce", "NCCL", NULL, "allreduce", ARGUMENT_NONE, 0 },
    { "*ncclDevKernel_AllGather", "NCCL", NULL, "allgather", ARGUMENT_NONE, 0 },
    { "*ncclDevKernel_ReduceScatter", "NCCL", NULL, "reducescatter", ARGUMENT_NONE, 0 },
    { "*ncclDevKernel_Broadcast", "NCCL", NULL, "broadcast", ARGUMENT_NONE, 0 },
    { "*ncclKernel_SendRecv", "NCCL", NULL, "alltoall", ARGUMENT_NONE, 0 },
    { "*ncclKernel_AllReduce", "NCCL", NULL, "allreduce", ARGUMENT_NONE, 0 },
    { "*ncclKernel_AllGather", "NCCL", NULL, "allgather", ARGUMENT_NONE, 0 },
    { "*ncclKernel_ReduceScatter", "NCCL", NULL, "reducescatter", ARGUMENT_NONE, 0 },
    { "*ncclSymDevKernel_AllGather", "NCCL", NULL, "allgather", ARGUMENT_NONE, 0 },
    { "*ncclSymDevKernel", "NCCL", NULL, "collective", ARGUMENT_NONE, 0 },
    { "*ncclDevKernel", "NCCL", NULL, "collective", ARGUMENT_NONE, 0 },
    { "*moeA2ADispatchKernel", "TensorRT-LLM", "?one-sided", "dispatch", ARGUMENT_NONE, 0 },
    { "*moeA2ACombineKernel", "TensorRT-LLM", "?one-sided", "combine", ARGUMENT_NONE, 0 },
    { "*moeAllToAllKernel", "TensorRT-LLM", NULL, "alltoall", ARGUMENT_NONE, 0 },
    { "*EpDispatchIntraNodeKernel", "MORI", "?mori", "dispatch", ARGUMENT_NONE, 0 },
    { "*EpCombineIntraNodeKernel", "MORI", "?mori", "combine", ARGUMENT_NONE, 0 },
    { "*EpDispatch", "MORI", NULL, "dispatch", ARGUMENT_NONE, 0 },
    { "*EpCombine", "MORI", NULL, "combine", ARGUMENT_NONE, 0 },
    { "*nvshmemi_", "NVSHMEM", NULL, "barrier", ARGUMENT_NONE, 0 },
    { "*cross_device_reduce", "vLLM", NULL, "allreduce", ARGUMENT_NONE, 0 },
};

/* The qualified name and the template arguments: of "void a::b::c<1, d<2>>(int)" they are "a::b::c" and "1, d<2>". */
static char *name_split(const char *name, char **arguments)
{
    const char *start = g_str_has_prefix(name, "void ") ? name + 5 : name;
    const char *end = start + strcspn(start, "<(");
    int depth = 0;
    *arguments = NULL;
    for (const char *at = end; *end == '<' && *at; at++) {
        depth += *at == '<';
        depth -= *at == '>';
        if (depth) continue;
        *arguments = g_strndup(end + 1, (size_t)(at - end - 1));
        break;
    }
    return g_strchomp(g_strndup(start, (size_t)(end - start)));
}

/* The template argument with this index as a number; "true" and "(bool)1" are 1.  0: there is none, or it is cut. */
static uint32_t argument_number(const char *arguments, int place)
{
    int depth = 0;
    const char *at = arguments;
    for (; at && *at && place; at++) {
        depth += *at == '<';
        depth -= *at == '>';
        place -= *at == ',' && depth == 0;
    }
    if (!at || place) return 0;
    at += strspn(at, " ");
    if (*at == '(') at = strchr(at, ')');
    if (!at) return 0;
    at += *at == ')';
    if (g_str_has_prefix(at, "true")) return 1;
    const unsigned long value = strtoul(at, NULL, 10);
    return value <= 1 << 24 ? (uint32_t)value : 0;
}

/* Whether the name is `end`, or ends in "::" and `end`.  If `end` begins with a '*', whether the text after the '*' is
 * anywhere in the name. */
static bool name_ends(const char *name, const char *end)
{
    if (*end == '*') return strstr(name, end + 1) != NULL;
    const size_t bare = g_str_has_prefix(end, "::") ? 2 : 0;
    if (!g_str_has_suffix(name, end)) return bare && strcmp(name, end + bare) == 0;
    const size_t before = strlen(name) - strlen(end);
    return bare || before == 0 || name[before - 1] == ':';
}

struct profile_phase profile_phase_of(const char *name)
{
    g_autofree char *arguments = NULL, *qualified = name_split(name, &arguments);
    for (size_t i = 0; i < G_N_ELEMENTS(known); i++) {
        const struct known *k = &known[i];
        if (!name_ends(qualified, k->end)) continue;
        struct profile_phase phase = { .library = k->library, .phase = k->phase };
        if (k->kernel && *k->kernel == '?') phase.may = k->kernel + 1;
        else phase.kernel = k->kernel;
        uint32_t says = k->says ? argument_number(arguments, k->place) : 0;
        /* the flags around the hidden size differ between versions, so the first argument that can be a hidden size is
         * taken */
        for (int place = 0; k->says == ARGUMENT_HIDDEN && says < 128 && place < 4; place++)
            says = argument_number(arguments, place);
        if (k->says == ARGUMENT_RANKS) phase.ranks = says;
        if (k->says == ARGUMENT_HIDDEN && says >= 128) phase.hidden = says;
        if (k->says == ARGUMENT_NODES && says >= 2) {
            phase.nodes = says;
            phase.ranks = 8 * says;
        }
        phase.cached = phase.nodes && strcmp(k->phase, "dispatch") == 0 && argument_number(arguments, 2) == 1;
        return phase;
    }
    return (struct profile_phase){ 0 };
}

bool profile_phase_is(const struct profile_phase *is, const char *kernel)
{
    return kernel && (g_strcmp0(is->kernel, kernel) == 0 || g_strcmp0(is->may, kernel) == 0);
}

/* ---- what the order of calls tells ---- */

static bool phase_is(const struct profile_call *call, const char *phase) { return strcmp(call->phase, phase) == 0; }

/* Names each cached_notify after the dispatch or combine that follows it.  A dispatch after a cached notify has a
 * handle. */
static void notifies_settle(GArray *calls)
{
    struct profile_call *call = (void *)calls->data;
    for (guint i = 0; i < calls->len; i++) {
        const struct profile_call *next = i + 1 < calls->len ? &call[i + 1] : NULL;
        if (phase_is(&call[i], "cached_notify"))
            call[i].phase = next && phase_is(next, "dispatch") ? "cached_notify_dispatch" : "cached_notify_combine";
        if (i && phase_is(&call[i], "dispatch") && phase_is(&call[i - 1], "cached_notify_dispatch"))
            call[i].is.cached = true;
    }
}

/* If all low-latency kernels come in pairs of equal phase, they were launched twice for a hook.  In this case, names
 * the first of each pair a send and the second a receive. */
static void hooks_settle(GArray *calls)
{
    struct profile_call *call = (void *)calls->data;
    for (int twice = 0; twice < 2; twice++) {
        const char *last = NULL;
        guint run = 0;
        for (guint i = 0; i < calls->len; i++) {
            if (g_strcmp0(call[i].is.kernel, "ll") != 0 || phase_is(&call[i], "clean")) continue;
            if (last && strcmp(last, call[i].is.phase) != 0 && run % 2 && !twice) return;
            run = last && strcmp(last, call[i].is.phase) == 0 ? run + 1 : 1;
            last = call[i].is.phase;
            if (!twice) continue;
            const bool dispatch = strcmp(last, "dispatch") == 0, receives = run % 2 == 0;
            call[i].phase = dispatch ? (receives ? "dispatch_recv" : "dispatch_send")
                                     : (receives ? "combine_recv" : "combine_send");
        }
        if (!last || run % 2) return;
    }
}

GArray *profile_calls(const struct profile *profile)
{
    GArray *calls = g_array_new(FALSE, TRUE, sizeof(struct profile_call));
    g_autofree struct profile_phase *of_name = g_new(struct profile_phase, profile->names->len);
    for (guint n = 0; n < profile->names->len; n++) of_name[n] = profile_phase_of(g_ptr_array_index(profile->names, n));
    for (guint i = 0; i < profile->kernels->len; i++) {
        const struct profile_kernel *kernel = &g_array_index(profile->kernels, struct profile_kernel, i);
        const struct profile_phase *is = &of_name[kernel->name];
        if (!is->library || kernel->kind != PROFILE_KERNEL) continue;
        const struct profile_call call = { .index = i, .phase = is->phase, .is = *is };
        g_array_append_val(calls, call);
    }
    notifies_settle(calls);
    hooks_settle(calls);
    g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);
    for (guint i = 0; i < calls->len; i++) {
        struct profile_call *call = &g_array_index(calls, struct profile_call, i);
        const guint layer = GPOINTER_TO_UINT(g_hash_table_lookup(seen, call->phase));
        call->layer = layer;
        g_hash_table_insert(seen, (gpointer)call->phase, GUINT_TO_POINTER(layer + 1));
    }
    return calls;
}

/* ---- the case ---- */

static const char *commonest(const GArray *calls)
{
    static const char *const kernels[] = { "ll", "normal", "v2" };
    guint count[G_N_ELEMENTS(kernels)] = { 0 }, best = 0;
    for (guint i = 0; i < calls->len; i++)
        for (guint k = 0; k < G_N_ELEMENTS(kernels); k++)
            count[k] += g_strcmp0(g_array_index(calls, struct profile_call, i).is.kernel, kernels[k]) == 0;
    for (guint k = 1; k < G_N_ELEMENTS(kernels); k++)
        if (count[k] > count[best]) best = k;
    return count[best] ? kernels[best] : NULL;
}

/* Whether a thread block of the kernel's dispatch and combine is an SM that is given to it. */
static bool blocks_are_sms(const char *kernel)
{
    static const char *const kernels[] = { "normal", "v2", "nccl-ht", "hybrid-ep", "mori", NULL };
    return g_strv_contains(kernels, kernel);
}

struct profile_case profile_case_of(const struct profile *profile, const GArray *calls, const char *kernel)
{
    struct profile_case c = { .kernel = kernel ? kernel : commonest(calls), .cached = true };
    for (guint i = 0; i < calls->len && c.kernel; i++) {
        const struct profile_call *call = &g_array_index(calls, struct profile_call, i);
        const struct profile_phase *is = &call->is;
        if (!profile_phase_is(is, c.kernel)) continue;
        c.calls++;
        if (is->ranks) c.ranks = is->ranks;
        if (is->nodes) c.nodes = is->nodes;
        if (is->hidden) c.hidden = is->hidden;
        const bool dispatch = strcmp(call->phase, "dispatch") == 0;
        if (blocks_are_sms(c.kernel) && (dispatch || strcmp(call->phase, "combine") == 0))
            c.sms = g_array_index(profile->kernels, struct profile_kernel, call->index).blocks;
        if (dispatch && !is->cached) c.cached = false;
        c.hook = c.hook || g_str_has_suffix(call->phase, "_recv");
    }
    if (!c.ranks) c.ranks = profile->world_size;
    return c;
}
